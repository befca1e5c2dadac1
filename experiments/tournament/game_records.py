"""Records of a tournament's games: the actions are noted while they are played, the records made when they are written.

Noting an action costs a store; to tell what came of it, the game is played over (see :mod:`cribbage_env.records`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import DECISIONS, NUM_ACTIONS
from cribbage_env.game_log import log_game
from cribbage_env.records import Record, record_of_log
from cribbage_env.rules import Rules
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.tournament.match import Games

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


def records_of(
    games: Games, actions: bytes, rules: Rules, match: int, names: tuple[str, str], match_seed: int
) -> Iterator[Record]:
    """The records of a match's games.

    Args:
        games: (G,) of ``GAME_DTYPE``.
        actions: of these games, as :meth:`ActionLog.take` gives them.
        rules: of the tournament.
        match: its number, 1, 2, ...
        names: of A and B.
        match_seed: the tournament's.

    Raises:
        ValueError: actions that are not those of the games.
    """
    chosen = np.frombuffer(actions, np.int8)
    ends = action_ends(games)
    if len(chosen) != (ends[-1] if len(ends) else 0):
        raise ValueError(f"the games have {ends[-1] if len(ends) else 0} actions, got {len(chosen)}")
    start = 0
    for pair, seed, a_seat, dealer, end in zip(
        *(games[column].tolist() for column in ("pair", "seed", "a_seat", "first_dealer")), ends.tolist(), strict=True
    ):
        yield record_of_log(
            log_game(rules, seed, dealer, chosen[start:end]),
            rules=rules,
            seed=seed,
            dealer=dealer,
            agents=names if a_seat == 0 else names[::-1],
            match={"seed": match_seed, "number": match, "pair": pair},
        )
        start = end
