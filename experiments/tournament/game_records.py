"""Records of a tournament's games: the actions are noted while they are played, the records made when they are written.

Noting an action costs a store; to tell what came of it, the game is played over (see :mod:`cribbage_env.records`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from cribbage_env.engine import DECISIONS, NUM_ACTIONS
from cribbage_env.game_log import log_game
from cribbage_env.records import (
    Record,
    RecordError,
    actions_of,
    open_for_writing,
    record_line,
    record_of_log,
    scan_records,
)
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.config import TournamentConfig, UserError
from experiments.tournament.journal import Journal
from experiments.tournament.match import Games
from experiments.tournament.plan import Match

RECORDS = "games.jsonl.gz"

_FIRST_ROOM = 128  # actions of a game; more is made when a game needs it
_NO_ACTION = -1  # stands for all numbers that are no action


class ActionLog:
    """Observes a match (:class:`experiments.tournament.match.GameObserver`) and keeps the actions of its games."""

    def __init__(self) -> None:
        self._finished: dict[int, bytes] = {}  # by the game's number within the match
        self._actions = np.zeros((0, _FIRST_ROOM), np.int8)

    def begin(self, env: CribbageVectorEnv, games: Games, first_game: int) -> None:
        """See :class:`GameObserver`."""
        self._first_game = first_game
        self._slots = np.arange(env.num_envs)
        self._actions = np.zeros((env.num_envs, self._actions.shape[1]), np.int8)

    def before_step(self, env: CribbageVectorEnv, actions: NDArray[np.int64]) -> None:
        """See :class:`GameObserver`."""
        places = env.rows[:, DECISIONS]
        room = self._actions.shape[1]
        if places.max() >= room:
            self._actions = np.pad(self._actions, ((0, 0), (0, room)))
        known = (actions >= 0) & (actions < NUM_ACTIONS)
        self._actions[self._slots, places] = np.where(known, actions, _NO_ACTION)

    def after_step(self, env: CribbageVectorEnv, slots: NDArray[np.int64], results: Mapping[str, NDArray[Any]]) -> None:
        """See :class:`GameObserver`."""
        if len(slots):
            lengths = _lengths(results["decisions"], results["forfeit"])
            for slot, number, length in zip(slots.tolist(), results["game"].tolist(), lengths.tolist(), strict=True):
                self._finished[self._first_game + number] = self._actions[slot, :length].tobytes()

    def take(self, games: Games) -> bytes:
        """The actions of finished games, one after the other, as int8; they are not kept here any longer.

        A game has ``decisions`` of them, and one more if it was forfeited by an illegal one: -1 for a number that is no
        action at all.
        """
        numbers = 2 * games["pair"] + games["a_seat"]
        return b"".join([self._finished.pop(number) for number in numbers.tolist()])


def _lengths(decisions: NDArray[np.integer], forfeit: NDArray[np.integer]) -> NDArray[np.int64]:
    """How many actions games have, the illegal one that ended one included."""
    return decisions.astype(np.int64) + (forfeit >= 0)


def action_ends(games: Games) -> NDArray[np.int64]:
    """Where the actions of each game end, (G,) int64, in those of all of them one after the other."""
    return np.cumsum(_lengths(games["decisions"], games["forfeit"]))


def records_of(games: Games, actions: bytes, match: Match, config: TournamentConfig) -> Iterator[Record]:
    """The records of a match's games.

    Args:
        games: (G,) of ``GAME_DTYPE``.
        actions: of these games, as :meth:`ActionLog.take` gives them.
        match: of the tournament.
        config: the tournament's.

    Raises:
        ValueError: actions that are not those of the games.
    """
    rules = config.rules.rules()
    chosen = np.frombuffer(actions, np.int8)
    ends = action_ends(games).tolist()
    if len(chosen) != (ends[-1] if ends else 0):
        raise ValueError(f"the games have {ends[-1] if ends else 0} actions, got {len(chosen)}")
    start = 0
    columns = (games[name].tolist() for name in ("pair", "seed", "a_seat", "first_dealer"))
    for pair, seed, a_seat, dealer, end in zip(*columns, ends, strict=True):
        yield record_of_log(
            log_game(rules, seed, dealer, chosen[start:end]),
            rules=rules,
            seed=seed,
            dealer=dealer,
            agents=match.names if a_seat == 0 else match.names[::-1],
            match={"seed": config.seed, "number": match.number, "pair": pair},
        )
        start = end


def write_records(path: Path, journal: Journal, matches: Mapping[Match, int], config: TournamentConfig) -> None:
    """Write the records of all games, compressed, in order, with a progress bar on a terminal.

    Args:
        path: the file.
        journal: with the actions of the games in its notes.
        matches: in order; how many pairs each has without a gap.
        config: the tournament's.
    """
    total = 2 * sum(matches.values())
    with (
        open_for_writing(path, pack=True) as out,
        tqdm(total=total, unit=" records", leave=False, disable=not sys.stderr.isatty()) as bar,
    ):
        for match, pairs in matches.items():
            for games, actions in journal.read_blocks(match.number, match.first, match.first + pairs):
                some = slice(*np.searchsorted(games["pair"], (match.first, match.first + pairs)))
                ends = np.concatenate([[0], action_ends(games)])
                their_actions = actions[ends[some.start] : ends[some.stop]]
                for record in records_of(games[some], their_actions, match, config):
                    out.write(record_line(record))
                    bar.update()


class RecordedActions:
    """The actions of a tournament's games, read again from its records.

    Args:
        path: the records.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines = scan_records(path)

    def take(self, match: Match, games: Games) -> bytes:
        """The actions of the next games in the file, which must be these: as :meth:`ActionLog.take`.

        Raises:
            UserError: the file can't be read, or has other records; the line is named.
        """
        a_seat = games["a_seat"]
        rows = np.arange(len(games))
        expected = {
            "match": [{"number": match.number, "pair": pair} for pair in games["pair"].tolist()],
            "seed": games["seed"].tolist(),
            "first_dealer": games["first_dealer"].tolist(),
            "winner": (games["winner"] ^ a_seat).tolist(),
            "forfeit": [
                None if who < 0 else who ^ seat
                for who, seat in zip(games["forfeit"].tolist(), a_seat.tolist(), strict=True)
            ],
            "scores": np.stack([games["scores"][rows, a_seat], games["scores"][rows, 1 - a_seat]], axis=1).tolist(),
        }
        lengths = _lengths(games["decisions"], games["forfeit"]).tolist()
        pieces = []
        for row, length in enumerate(lengths):
            number, record, actions = self._next()
            for key, values in expected.items():
                found = record.get(key)
                if key == "match" and isinstance(found, dict):
                    found = {name: found.get(name) for name in ("number", "pair")}
                if found != values[row]:
                    raise self._damaged(number, f"{key} must be {values[row]}, got {found}")
            if len(actions) != length:
                raise self._damaged(number, f"the game had {length} actions, got {len(actions)}")
            pieces.append(np.array(actions, np.int8).tobytes())
        return b"".join(pieces)

    def _next(self) -> tuple[int, Record, list[int]]:
        try:
            number, found = next(self._lines, (0, None))
        except (OSError, RecordError) as error:
            raise UserError(f"can't read {str(self._path)!r}: {getattr(error, 'strerror', None) or error}") from None
        if found is None:
            raise UserError(f"{self._path} is cut short: there are more games in the table of games beside it")
        if isinstance(found, RecordError):
            raise self._damaged(number, str(found))
        try:
            actions = actions_of(found)
        except RecordError as error:
            raise self._damaged(number, str(error)) from None
        return number, found, actions

    def _damaged(self, number: int, why: str) -> UserError:
        return UserError(f"{self._path}, line {number}: {why}; the file is damaged")
