"""The command ``cribbage report``: makes a tournament's ``report.html`` and ``ratings.csv`` from its files alone."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from experiments.config import TournamentConfig, UserError
from experiments.run_folder import make_folder
from experiments.tournament.command import print_paths
from experiments.tournament.folder import CONFIG
from experiments.tournament.games_file import games_file, read_games
from experiments.tournament.html_report.course import MatchCourse
from experiments.tournament.html_report.results import MatchResults, TournamentResults
from experiments.tournament.identity import read_noted
from experiments.tournament.plan import matches_of
from experiments.tournament.ratings_file import pool_ratings
from experiments.tournament.results import SUMMARY, write_report
from experiments.tournament.summary import MatchSummary


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("folder", metavar="FOLDER", help="the results of `cribbage tournament` or `evaluate --output`")


def run(args: argparse.Namespace) -> int:
    """Make the report anew."""
    folder = Path(args.folder)
    results = read_results(folder)
    make_folder(folder)
    try:
        paths = write_report(folder, results)
    except OSError as error:
        raise UserError(f"can't write to {str(folder)!r}: {error.strerror or error}") from None
    print_paths(paths)
    return 0


def read_results(folder: Path) -> TournamentResults:
    """The results of a tournament from its table of games and ``config.yaml``.

    Raises:
        UserError: there are none, they are damaged, or of another version.
    """
    config, made = read_noted(folder / CONFIG)
    table = games_file(folder)
    if table is None:
        raise UserError(
            f"there is no table of games in {str(folder)!r}; a tournament that is not finished goes on with --resume"
        )
    matches = _read_matches(table, config)
    _check_complete(folder, table, matches)
    return TournamentResults(config, made, matches, pool_ratings([one.summary for one in matches], config))


def _read_matches(table: Path, config: TournamentConfig) -> list[MatchResults]:
    planned = {match.number: match for match in matches_of(config)}
    begun: dict[int, MatchResults] = {}
    for number, games in read_games(table, list(planned.values()), config.seed, config.rules.target):
        match = planned[number]
        one = begun.setdefault(number, MatchResults(match, MatchSummary(match.names), MatchCourse(config.rules.target)))
        one.summary.add(games)
        one.course.add(games)
    if not begun:
        raise UserError(f"there are no games in {table}")
    return [begun[number] for number in sorted(begun)]


def _check_complete(folder: Path, table: Path, matches: list[MatchResults]) -> None:
    """See that a table of games has all the games that ``summary.csv`` counts, if there is one."""
    if not (folder / SUMMARY).exists():
        return
    from experiments.results import load_summary  # pandas is slow to import

    counted: dict[Any, int] = dict(load_summary(folder).set_index("match")["games"])
    played = {one.match.number: one.summary.games for one in matches}
    for number in sorted({*counted, *played}):
        if counted.get(number, 0) != played.get(number, 0):
            raise UserError(
                f"{table} does not fit {SUMMARY}: of match {number} it has {played.get(number, 0):,} games, {SUMMARY} "
                f"counts {int(counted.get(number, 0)):,}; go on with the tournament by --resume, or play it again"
            )
