"""A tournament's result folder: ``games.csv``, ``summary.csv``, ``config.yaml`` and ``win_rates.png``."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import PARTS
from experiments.config import TournamentConfig, UserError
from experiments.run_folder import TEMPORARY, config_text, make_folder, replacing
from experiments.tournament.match import Games
from experiments.tournament.statistics import Estimate
from experiments.tournament.summary import AGENTS, MatchSummary

GAMES, SUMMARY, CONFIG, PICTURE = "games.csv", "summary.csv", "config.yaml", "win_rates.png"
RUNS = Path("runs")

GAME_COLUMNS = (
    "match",  # 1, 2, ...
    "pair",  # 0, 1, ... within the match; both games of a pair have the same seed
    "seed",  # of the game: cribbage_env.Game(seed=seed, dealer=None) deals the same cards
    "seat_0",  # the agent's name, as in all columns that name one
    "seat_1",
    "first_dealer",
    "score_0",
    "score_1",
    "deals",
    "decisions",
    "winner",
    "skunk",  # 1, double 2, otherwise 0
    "forfeit",  # who lost by an illegal action, usually nobody
)


def result_folder(config: TournamentConfig) -> Path:
    """Where the results of a config go."""
    return Path(config.output) if config.output is not None else RUNS / config.name


def open_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder for results.

    Raises:
        UserError: it can't be written to; there are results in it and ``overwrite`` is not set; or there are other
            things in it than results of a tournament.
    """
    if folder.is_dir():
        there = sorted(path.name for path in folder.iterdir() if path.suffix != TEMPORARY)
        if there and GAMES not in there:
            raise UserError(
                f"the folder {str(folder)!r} has {there[0]!r} in it and no results of a tournament; "
                "choose another with --output"
            )
        if there and not overwrite:
            raise UserError(
                f"there are results in {str(folder)!r}; replace them with --overwrite, or choose another folder with "
                "--output"
            )
    make_folder(folder)


class GamesFile:
    """Writes ``games.csv`` block by block, under a temporary name until the block ends.

    However the ``with`` block ends, the file has whole blocks (so, whole pairs); without any game there is no file.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / GAMES
        self.games = 0
        """How many were written."""
        self._temporary = self.path.with_name(GAMES + TEMPORARY)
        self._whole = 0  # bytes up to the end of the last whole block

    def __enter__(self) -> GamesFile:
        self._file = self._temporary.open("wb")
        self._append([GAME_COLUMNS])
        return self

    def write(self, match: int, names: tuple[str, str], games: Games) -> None:
        """Write a block of games of the match with that number between agents of these names.

        Raises:
            UserError: it could not be written.
        """
        a_seat = games["a_seat"]
        rows = np.arange(len(games))

        def named(agents: NDArray[np.integer]) -> list[str]:
            return [names[agent] for agent in agents.tolist()]

        self._append(
            zip(
                [match] * len(games),
                games["pair"].tolist(),
                games["seed"].tolist(),
                named(a_seat),  # A has seat 0 where a_seat is 0
                named(1 - a_seat),
                named(games["first_dealer"] ^ a_seat),
                games["scores"][rows, a_seat].tolist(),
                games["scores"][rows, 1 - a_seat].tolist(),
                games["deals"].tolist(),
                games["decisions"].tolist(),
                named(games["winner"]),
                games["skunk"].tolist(),
                ["" if agent < 0 else names[agent] for agent in games["forfeit"].tolist()],
                strict=True,
            )
        )
        self.games += len(games)

    def _append(self, rows: Iterable[Sequence[object]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        try:
            self._file.write(text.getvalue().encode())
            self._file.flush()
        except OSError as error:  # the disk is full
            raise UserError(f"can't write {str(self.path)!r}: {error.strerror or error}") from None
        self._whole = self._file.tell()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.truncate(self._whole)
        self._file.close()
        if self.games:
            os.replace(self._temporary, self.path)
        else:
            self._temporary.unlink()


def summary_row(number: int, summary: MatchSummary) -> dict[str, str | int | float]:
    """A match as a row of ``summary.csv``: estimates have columns ``_low`` and ``_high`` for the 95 % interval.

    Points are means over whole deals (see :class:`MatchSummary`); ``a_dealer`` is what A scores in a
    whole deal that it deals, the sum over the parts.
    """
    both, split, none = summary.pair_outcomes
    row: dict[str, str | int | float] = {
        "match": number,
        "a": summary.names[0],
        "b": summary.names[1],
        "games": summary.games,
        "a_wins": summary.wins(0),
        "b_wins": summary.wins(1),
        "pairs_a_won": both,
        "pairs_split": split,
        "pairs_b_won": none,
    }

    def put(name: str, estimate: Estimate) -> None:
        row[name], row[f"{name}_low"], row[f"{name}_high"] = (round(number, 6) for number in estimate)

    put("a_win_rate", summary.win_rate)
    row["a_win_rate_se"] = round(summary.win_rate_error, 6)
    put("first_dealer_rate", summary.first_dealer_rate)
    put("deals_per_game", summary.deals_per_game)
    for agent, letter in zip(AGENTS, "ab", strict=True):
        row[f"{letter}_skunks"] = summary.skunks(agent)
        row[f"{letter}_double_skunks"] = summary.double_skunks(agent)
        row[f"{letter}_forfeits"] = summary.forfeits(agent)
    for agent, letter in zip(AGENTS, "ab", strict=True):
        put(f"{letter}_dealer", summary.dealer_points(agent))
        put(f"{letter}_pone", summary.pone_points(agent))
        for part, name in enumerate(PARTS):
            put(f"{letter}_{name}", summary.points(agent, part))
    return row


def write_results(folder: Path, config: TournamentConfig, summaries: Sequence[MatchSummary]) -> list[Path]:
    """Write all but the games beside them; returns the paths of all files."""
    from experiments.tournament.picture import draw_win_rates  # here, since matplotlib is slow to import

    rows = [summary_row(number, summary) for number, summary in enumerate(summaries, 1)]
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    try:
        for name, content in ((CONFIG, config_text(config)), (SUMMARY, text.getvalue())):
            with replacing(folder / name) as temporary:
                temporary.write_text(content, encoding="utf-8")
        with replacing(folder / PICTURE) as temporary:
            draw_win_rates(temporary, summaries, config)
    except OSError as error:
        raise UserError(f"can't write to {str(folder)!r}: {error.strerror or error}") from None
    return [folder / name for name in (GAMES, SUMMARY, CONFIG, PICTURE)]
