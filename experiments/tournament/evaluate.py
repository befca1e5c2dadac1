"""The command ``cribbage evaluate``: a tournament of two agents."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.config import SprtConfig, TournamentConfig, UserError, parse_config
from experiments.run_folder import add_output_arguments
from experiments.tournament.command import play, print_paths
from experiments.tournament.folder import result_folder
from experiments.tournament.report import report
from experiments.tournament.results import summary_row
from experiments.tournament.round_robin import Tournament
from experiments.tournament.summary import MatchSummary

_SPRT_GAMES = 1_000_000  # a test of 1 Elo between close opponents takes some 300,000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    defaults = {key: field.default for key, field in TournamentConfig.model_fields.items()}
    parser.add_argument("a", metavar="A", help="an agent's spec: a name with options, or the path of a checkpoint")
    parser.add_argument("b", metavar="B", help="the other's")
    parser.add_argument(
        "--games",
        type=int,
        help=f"an even number (default: {defaults['games']}; with --sprt the most there are, default: {_SPRT_GAMES})",
    )
    parser.add_argument(
        "--sprt",
        metavar="key=value",
        nargs="+",
        help="stop as soon as a sequential test is decided: elo0=0 elo1=5, or rate0=0.5 rate1=0.51, and alpha, beta "
        f"(0.05) and check_every ({SprtConfig.model_fields['check_every'].default} pairs)",
    )
    parser.add_argument("--seed", type=int, default=defaults["seed"], help="of decks and agents (default: %(default)s)")
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        help="a module or .py file that registers agents of your own; repeatable",
    )
    parser.add_argument("--target", type=int, default=121, help="the score that wins (default: %(default)s)")
    parser.add_argument(
        "--batch", type=int, default=defaults["batch"], help="games side by side (default: %(default)s)"
    )
    parser.add_argument(
        "--jobs", type=int, default=defaults["jobs"], help="processes that play at the same time (default: %(default)s)"
    )
    parser.add_argument(
        "--records", action="store_true", help="write every game's cards, actions and events too (docs/records.md)"
    )
    parser.add_argument(
        "--no-luck", action="store_true", help="leave out the win rate with luck taken out: faster for fast agents"
    )
    parser.add_argument("--json", action="store_true", help="print the figures of summary.csv as JSON, and no table")
    add_output_arguments(parser, "results", "none are written", resume=True)


def run(args: argparse.Namespace) -> int:
    """Play two agents against each other."""
    config = parse_config(
        {
            "agents": [args.a, args.b],
            "games": args.games if args.games is not None else _default_games(args.sprt),
            "sprt": None if args.sprt is None else _settings(args.sprt),
            "seed": args.seed,
            "rules": {"target": args.target},
            "modules": args.module,
            "output": args.output,
            "batch": args.batch,
            "jobs": args.jobs,
            "records": args.records,
            "luck": not args.no_luck,
        },
        TournamentConfig,
        "cribbage evaluate",
    )
    for flag, what in (("resume", "goes on with the results"), ("records", "writes the games' records")):
        if getattr(args, flag) and args.output is None:
            raise UserError(f"--{flag} {what} in a folder: name it with --output")

    def show(summaries: Sequence[MatchSummary], paths: Sequence[Path]) -> None:
        if args.json:
            print(_json(summary_row(1, summaries[0], None if config.sprt is None else config.sprt.test())))
        else:
            print(report(summaries, config))
            print_paths(paths)

    folder = None if args.output is None else result_folder(config)
    return play(Tournament(config), folder, show, resume=args.resume, overwrite=args.overwrite)


def _default_games(sprt: list[str] | None) -> int:
    games: int = TournamentConfig.model_fields["games"].default if sprt is None else _SPRT_GAMES
    return games


def _settings(items: Sequence[str]) -> dict[str, int | float | str]:
    """The mapping that ``key=value ...`` spells out."""
    settings: dict[str, int | float | str] = {}
    for item in items:
        key, equals, text = item.partition("=")
        if not equals or key in settings:
            raise UserError(f"--sprt takes key=value, each once, such as elo0=0 elo1=5 (after A and B), got {item!r}")
        settings[key] = int(text) if text.isdecimal() else text
    return settings


def _json(row: dict[str, str | int | float]) -> str:
    """A row as JSON, which has no NaN."""
    return json.dumps({key: None if value != value else value for key, value in row.items()}, indent=2)
