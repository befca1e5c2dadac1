"""The command ``cribbage evaluate``: a tournament of two agents."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from experiments.config import TournamentConfig, UserError, parse_config
from experiments.run_folder import add_output_arguments
from experiments.tournament.command import play, print_paths
from experiments.tournament.folder import result_folder
from experiments.tournament.report import report
from experiments.tournament.results import summary_row
from experiments.tournament.round_robin import Tournament
from experiments.tournament.summary import MatchSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    defaults = {key: field.default for key, field in TournamentConfig.model_fields.items()}
    parser.add_argument("a", metavar="A", help="an agent's spec: a name with options, or the path of a checkpoint")
    parser.add_argument("b", metavar="B", help="the other's")
    parser.add_argument("--games", type=int, default=defaults["games"], help="an even number (default: %(default)s)")
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
    parser.add_argument("--json", action="store_true", help="print the figures of summary.csv as JSON, and no table")
    add_output_arguments(parser, "results", "none are written", resume=True)


def run(args: argparse.Namespace) -> int:
    """Play two agents against each other."""
    config = parse_config(
        {
            "agents": [args.a, args.b],
            "games": args.games,
            "seed": args.seed,
            "rules": {"target": args.target},
            "modules": args.module,
            "output": args.output,
            "batch": args.batch,
            "jobs": args.jobs,
            "records": args.records,
        },
        TournamentConfig,
        "cribbage evaluate",
    )
    for flag, what in (("resume", "goes on with the results"), ("records", "writes the games' records")):
        if getattr(args, flag) and args.output is None:
            raise UserError(f"--{flag} {what} in a folder: name it with --output")

    def show(summaries: Sequence[MatchSummary], paths: Sequence[Path]) -> None:
        if args.json:
            print(_json(summary_row(1, summaries[0])))
        else:
            print(report(summaries, config))
            print_paths(paths)

    folder = None if args.output is None else result_folder(config)
    return play(Tournament(config), folder, show, resume=args.resume, overwrite=args.overwrite)


def _json(row: dict[str, str | int | float]) -> str:
    """A row as JSON, which has no NaN."""
    return json.dumps({key: None if value != value else value for key, value in row.items()}, indent=2)
