"""The command ``cribbage tournament``."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.config import TournamentConfig, load_config
from experiments.tournament.report import report
from experiments.tournament.results import GamesFile, open_folder, result_folder, write_results
from experiments.tournament.round_robin import Tournament


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "config", metavar="CONFIG", help=f"a YAML file with the keys {', '.join(TournamentConfig.model_fields)}"
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        default=[],
        help="settings in place of the file's, such as games=10000",
    )
    parser.add_argument("--seed", type=int, help="of decks and agents, in place of the config's")
    add_output_arguments(parser, "runs/<name>")


def add_output_arguments(parser: argparse.ArgumentParser, default: str) -> None:
    """Add ``--output`` and ``--overwrite``."""
    parser.add_argument("--output", metavar="FOLDER", help=f"where results go (default: {default})")
    parser.add_argument("--overwrite", action="store_true", help="replace results that are in the folder already")


def run(args: argparse.Namespace) -> int:
    """Play the tournament of a config."""
    overrides = list(args.overrides)
    for key in ("seed", "output"):
        if getattr(args, key) is not None:
            overrides.append(f"{key}={json.dumps(getattr(args, key))}")
    tournament = Tournament(load_config(args.config, TournamentConfig, overrides))
    paths = play(tournament, result_folder(tournament.config), args.overwrite)
    if tournament.summaries:
        print(report(tournament.summaries, tournament.config))
        print_paths(paths)
    return exit_code(tournament)


def play(tournament: Tournament, folder: Path | None, overwrite: bool) -> list[Path]:
    """Play a tournament and write its results to a folder, if one is given; returns the paths.

    However it ends, the games that were finished are written.

    Raises:
        UserError: the folder can't take the results; nothing has been played then.
    """
    if folder is None:
        tournament.play()
        return []
    open_folder(folder, overwrite)
    paths = []
    try:
        with GamesFile(folder) as games:
            tournament.play(games.write)
    finally:
        if tournament.summaries:
            paths = write_results(folder, tournament.config, tournament.summaries)
        else:
            with contextlib.suppress(OSError):  # there is something else in it
                folder.rmdir()
    return paths


def print_paths(paths: Sequence[Path]) -> None:
    """Say where the results are."""
    if paths:
        print("\nwritten: " + "\n         ".join(str(path) for path in paths))


def exit_code(tournament: Tournament) -> int:
    """0, or the interrupt passed on, with a word about what there is, if Ctrl-C ended the tournament."""
    if tournament.finished:
        return 0
    played = sum(summary.games for summary in tournament.summaries)
    print(f"\n{played:,} of {sum(tournament.games):,} games were finished", file=sys.stderr, end="")
    raise KeyboardInterrupt
