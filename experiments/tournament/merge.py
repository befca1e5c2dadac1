"""The command ``cribbage merge``: joins the shards of a tournament to what one run of it would have written."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.config import TournamentConfig, UserError, parse_shard
from experiments.run_folder import differences
from experiments.tournament.command import print_paths
from experiments.tournament.folder import CONFIG, JOURNAL, ResultFolder, import_games
from experiments.tournament.games_file import check_format, games_file
from experiments.tournament.identity import FREE_TO_CHANGE, first_difference, read_noted
from experiments.tournament.report import report
from experiments.tournament.round_robin import Tournament

_FREE = (*(key for key in FREE_TO_CHANGE if key not in ("games", "modules")), "shard")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "folders",
        metavar="FOLDER",
        nargs="+",
        help="the results of `cribbage tournament ... --shard i/n`, all n of them",
    )
    parser.add_argument("--output", metavar="FOLDER", required=True, help="where the joined results go")
    parser.add_argument("--overwrite", action="store_true", help="replace results that are in the folder already")


@dataclass(frozen=True)
class _Shard:
    folder: Path
    config: TournamentConfig
    made: dict[str, Any]  # versions, and digests of files

    @property
    def number(self) -> tuple[int, int]:
        """i and n."""
        assert self.config.shard is not None
        return parse_shard(self.config.shard)


def run(args: argparse.Namespace) -> int:
    """Join the shards."""
    shards = [_read_shard(Path(folder)) for folder in args.folders]
    _check_shards(shards)
    first = shards[0]
    config = first.config.model_copy(update={"shard": None, "output": args.output})
    check_format(config.format)
    tournament = Tournament(config)
    output = ResultFolder(tournament, Path(args.output), overwrite=args.overwrite)
    try:
        output.begin(sys.argv, first.made)
        for shard in sorted(shards, key=lambda shard: shard.number):
            before = output.journal.games
            import_games(shard.folder, shard.config, output.journal)
            _check_complete(shard, output.journal.games - before)
    except BaseException:
        output.remove()
        raise
    summaries, paths = output.end()
    print(report(summaries, config))
    print_paths(paths)
    return 0


def _read_shard(folder: Path) -> _Shard:
    config, made = read_noted(folder / CONFIG)
    if config.shard is None:
        raise UserError(f"the tournament in {str(folder)!r} is no shard: it was played without --shard")
    if (folder / JOURNAL).exists():
        raise UserError(f"the shard {config.shard} in {str(folder)!r} is not finished: go on with it by --resume")
    if games_file(folder) is None:
        raise UserError(f"the shard {config.shard} in {str(folder)!r} has no table of games; play it again")
    return _Shard(folder, config, made)


def _check_shards(shards: Sequence[_Shard]) -> None:
    """See that they are all shards of one tournament, each there once."""
    first = shards[0]
    count = first.number[1]
    by_number: dict[int, _Shard] = {}
    for shard in shards:
        pair = f"{str(first.folder)!r} and {str(shard.folder)!r}"
        difference = first_difference(first.config, shard.config, _FREE)
        if difference is None and shard.number[1] != count:
            difference = f"shard was {first.config.shard!r}, now {shard.config.shard!r}"
        if difference is not None:
            raise UserError(f"{pair} are shards of different tournaments: {_of_second(difference)}")
        versions = differences(first.made, shard.made, ())
        if versions:
            raise UserError(f"{pair} were made with different versions or files: {_of_second(versions[0])}")
        number = shard.number[0]
        if number in by_number:
            raise UserError(
                f"the shard {number}/{count} is given twice: {str(by_number[number].folder)!r} and "
                f"{str(shard.folder)!r}"
            )
        by_number[number] = shard
    missing = [f"{number}/{count}" for number in range(1, count + 1) if number not in by_number]
    if missing:
        some = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise UserError(f"{'a shard is' if len(missing) == 1 else f'{len(missing)} shards are'} missing: {some}")


def _of_second(difference: str) -> str:
    """``key was x, now y`` as the difference of two folders."""
    return difference.replace(" was ", " is ", 1).replace(", now ", " in the first, in the second ", 1)


def _check_complete(shard: _Shard, games: int) -> None:
    expected = Tournament(shard.config).games
    if games != expected:
        raise UserError(
            f"the table of games in {str(shard.folder)!r} is cut short: {games:,} of {expected:,} games; play the "
            "shard again, or go on with it by --resume"
        )
