"""The command ``cribbage tournament``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path

from experiments.config import TournamentConfig, UserError, load_config
from experiments.run_folder import add_output_arguments
from experiments.tournament.folder import ResultFolder, result_folder, temporary_journal
from experiments.tournament.games_file import check_format
from experiments.tournament.pools import check_backend
from experiments.tournament.report import report
from experiments.tournament.round_robin import Tournament
from experiments.tournament.summary import MatchSummary

Show = Callable[[Sequence[MatchSummary], Sequence[Path]], None]
"""Prints summaries, at least one, and where the results are."""


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
    parser.add_argument("--jobs", type=int, help="processes that play at the same time; results do not depend on it")
    parser.add_argument(
        "--shard", metavar="i/n", help="play the i-th of n shares of every match; `cribbage merge` joins them"
    )
    add_output_arguments(parser, "results", "runs/<name>", resume=True)


def run(args: argparse.Namespace) -> int:
    """Play the tournament of a config."""
    overrides = list(args.overrides)
    for key in ("seed", "output", "jobs", "shard"):
        if getattr(args, key) is not None:
            overrides.append(f"{key}={json.dumps(getattr(args, key))}")
    config = load_config(args.config, TournamentConfig, overrides)

    def show(summaries: Sequence[MatchSummary], paths: Sequence[Path]) -> None:
        print(report(summaries, config))
        print_paths(paths)

    return play(Tournament(config), result_folder(config), show, resume=args.resume, overwrite=args.overwrite)


def play(
    tournament: Tournament, path: Path | None, show: Show, *, resume: bool = False, overwrite: bool = False
) -> int:
    """Play a tournament, write its results to a folder and show them; returns the exit code.

    Args:
        tournament: to play.
        path: the folder; None writes nothing.
        show: what is printed.
        resume, overwrite: see :class:`ResultFolder`.

    However it ends, what was finished is written and shown; only a second Ctrl-C leaves it to ``--resume``.

    Raises:
        UserError, AgentError: the folder can't take the results or an agent can't be made, and nothing has been played;
            or something went wrong later.
        KeyboardInterrupt: Ctrl-C ended it, after a word about what there is.
    """
    check_format(tournament.config.format)
    check_backend(tournament.config)
    if path is None:
        with temporary_journal() as journal:
            finished = tournament.play(journal)
            summaries = tournament.summaries(journal)
            if summaries:
                show(summaries, [])
            return 0 if finished else _interrupted(tournament, tournament.played(journal))
    if not resume:
        tournament.make_agents()
    folder = ResultFolder(tournament, path, resume=resume, overwrite=overwrite)
    with closing(folder.journal):
        return _play_into(folder, tournament, show)


def _play_into(folder: ResultFolder, tournament: Tournament, show: Show) -> int:
    """:func:`play` where there is a folder."""
    folder.begin(sys.argv)
    try:
        finished = tournament.play(folder.journal)
    except KeyboardInterrupt:
        if folder.journal.games:
            return _interrupted(tournament, tournament.played(folder.journal), folder.path)
        folder.remove()
        return _interrupted(tournament, 0)
    except BaseException:
        with suppress(UserError):  # a full disk, perhaps: what went wrong first is to be told
            folder.end()
        raise
    played = tournament.played(folder.journal)
    try:
        summaries, paths = folder.end()
    except KeyboardInterrupt:  # the records of many games take minutes
        return _interrupted(tournament, played, folder.path)
    if summaries:
        show(summaries, paths)
    return 0 if finished else _interrupted(tournament, played, folder.path if played else None)


def print_paths(paths: Sequence[Path]) -> None:
    """Say where the results are."""
    if paths:
        print("\nwritten: " + "\n         ".join(str(path) for path in paths))


def _interrupted(tournament: Tournament, games: int, kept: Path | None = None) -> int:
    """Pass Ctrl-C on, with a word about what there is."""
    line = f"\n{games:,} of {tournament.games:,} games were finished"
    if kept is not None:
        line += f" and are kept in {kept}; the same command with --resume goes on"
    print(line, file=sys.stderr, end="")
    raise KeyboardInterrupt
