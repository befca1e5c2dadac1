"""A match of two agents on duplicate deals, thousands of games at a time.

Pair p of a match is one game seed played twice: agent A sits in seat 0, then in seat 1, with the same first dealer and
the same decks. What luck gives to one agent in the first game it gives to the other in the second, so the pairs, not
the games, are the samples of a statistic.

Everything in a game follows from the match's seed and the game's number (pair p is games 2p and 2p + 1): the decks
through the game's seed, agents' random choices through their keys. So the results don't depend on the batch size, on
how many pairs are played, or on who else plays in a tournament.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agents import Agent, decision_keys
from cribbage_env.engine import (
    DEALER,
    DECISIONS,
    DISCARD,
    HAND_PONE_PART,
    PART_POINTS,
    PARTS,
    PHASE,
    PLAY_PONE_PART,
    PLAYER,
    SCORE,
    TARGET,
)
from cribbage_env.rules import Rules
from cribbage_env.streams import check_seed, combine, combine_arrays
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.config import DEFAULT_BATCH
from experiments.tournament.caller import Caller
from experiments.tournament.summary import MatchSummary

_SEGMENT_PAIRS = 2**15  # how many pairs the environment is given at once: what a match's memory grows to
_SECONDS_A_BLOCK = 2.0  # how long finished pairs are held back at most
_AGENT_STREAMS = 2  # and 3
_GAME_SEED_STREAM = 1  # apart from that of the decisions' keys
DEAL_MARGIN = 50
"""A player needs so many points for a deal to be counted; a deal that brings one of them more is very rare."""

_DEALER_PART = np.array([part not in (PLAY_PONE_PART, HAND_PONE_PART) for part in range(len(PARTS))])

GAME_DTYPE = np.dtype(
    [
        ("pair", np.int64),
        ("seed", np.int64),
        ("a_seat", np.int8),
        ("first_dealer", np.int8),  # a seat
        ("winner", np.int8),  # 0: A, 1: B
        ("forfeit", np.int8),  # 0: A, 1: B lost by an illegal action; -1: nobody
        ("skunk", np.int8),  # 0, 1, 2: double
        ("scores", np.int16, (2,)),  # of A and B, at most the target
        ("deals", np.int16),  # also the last one, which the end of the game cuts off
        ("decisions", np.int16),
        ("points", np.int16, (2, len(PARTS))),  # of A and B by part, in the deals that `counted` counts
        ("counted", np.int16, (2, len(PARTS))),  # how many deals A and B had that part in, as dealer or as pone
        ("luck", np.int32),  # what chance gave A, in millionths of a game (experiments.tournament.luck); 0: not noted
    ]
)
"""One game. ``points / counted`` is what a part of a whole deal is worth on average, over the deals that began with
both scores at least :data:`DEAL_MARGIN` below the target. The end of a game cuts deals off, and rather those that score
much: to count all deals, or all that were finished, would come out too low. Which deals count is settled before they
are dealt, so these means have no such bias."""

Games = NDArray[np.void]


class GameObserver(Protocol):
    """Watches a match from the referee's chair: it sees all cards, and changes nothing.

    What it notes about a game must follow from that game alone, so that it does not depend on the batch. One match
    plays many games side by side, in the slots of an environment; ``env.rows``, ``env.numbers`` (the game in each
    slot, as counted from the first of the list under way) and ``env.active`` say what is going on. They are the
    environment's own buffers: copy what is kept.
    """

    def begin(self, env: CribbageVectorEnv, games: Games, first_game: int) -> None:
        """A list of games begins; the environment stands at their first decisions.

        Args:
            env: in which they are played.
            games: the list's records (:data:`GAME_DTYPE`), row g for the game with number g in ``env.numbers``. The
                observer may fill in columns of its own, until it was told that the game is over.
            first_game: the number within the match of the game with number 0 (pair p is games 2 p and 2 p + 1).
        """

    def before_step(self, env: CribbageVectorEnv, actions: NDArray[np.int64]) -> None:
        """The actions (N,) are about to be taken, each by the seat to act; those of idle slots mean nothing."""

    def after_step(self, env: CribbageVectorEnv, slots: NDArray[np.int64], results: Mapping[str, NDArray[Any]]) -> None:
        """The actions were taken.

        Args:
            env: has begun the next games in the slots where one has ended.
            slots: (M,) those slots.
            results: ``cribbage_env.vector_env.final_results`` of the games that ended, M entries each; without any
                entries (M = 0) it may be empty.
        """


def game_seeds(match_seed: int, pairs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The seeds (P,) int64, 0 to 2**63 - 1, of the pairs (P,) of a match: a function of its seed and the pair alone."""
    stream = combine(np.uint64(match_seed), _GAME_SEED_STREAM)
    keys = combine_arrays(np.full(len(pairs), stream, np.uint64), pairs)
    return (keys >> np.uint64(1)).astype(np.int64)


def play_blocks(
    a: Agent,
    b: Agent,
    pairs: int,
    seed: int,
    *,
    rules: Rules | Mapping[str, Any] | None = None,
    batch: int = DEFAULT_BATCH,
    block_pairs: int = 2048,
    first_pair: int = 0,
    stop: Callable[[], bool] | None = None,
    observers: Sequence[GameObserver] = (),
) -> Iterator[Games]:
    """Play a match and hand out its games as they are finished.

    Args:
        a, b: the agents; one object may be both. Each is called once a step with all rows in which it is to act, or
            with slices of them if it is slow (:class:`~experiments.tournament.caller.Caller`).
        pairs: how many pairs of games to play.
        seed: the match's seed, 0 to 2**64 - 1.
        rules: of the games; None for the standard ones.
        batch: how many games are played side by side. It changes speed and memory, not the results.
        block_pairs: a block is handed out when it has so many pairs; earlier, with fewer, if they take long.
        first_pair: the number of the first pair.
        stop: asked before every step and between slices; when it says True, the whole pairs that are finished are
            handed out and the match ends.
        observers: watch the games.

    Yields:
        Games of whole pairs, (2 P,) of :data:`GAME_DTYPE`, in order and without gaps: the rows of pair p are the game
        with A in seat 0, then that with A in seat 1.

    Raises:
        AgentError: an agent that raises, or returns something other than (B,) integers; it is named, with the match.
            An illegal action just loses the game.
    """
    check_seed(seed)
    if pairs < 1 or batch < 1 or block_pairs < 1 or first_pair < 0:
        raise ValueError(
            "pairs, batch and block_pairs must be at least 1 and first_pair at least 0, got "
            f"{pairs}, {batch}, {block_pairs}, {first_pair}"
        )
    for side, agent in enumerate((a, b)):  # for those that draw from their own streams: others from every first pair
        stream = np.uint64(combine(np.uint64(seed), _AGENT_STREAMS + side))
        agent.reset(int(combine(stream, first_pair)))
    callers = Caller(a, (a.name, b.name)), Caller(b, (a.name, b.name))
    env = CribbageVectorEnv(min(batch, 2 * pairs), rules=rules, copy=False)
    for start in range(first_pair, first_pair + pairs, _SEGMENT_PAIRS):
        numbers = np.arange(start, min(start + _SEGMENT_PAIRS, first_pair + pairs))
        whole = yield from _play_segment(env, callers, seed, numbers, block_pairs, stop, observers)
        if not whole:
            return


def play_match(
    a: Agent,
    b: Agent,
    pairs: int,
    seed: int,
    *,
    rules: Rules | Mapping[str, Any] | None = None,
    batch: int = DEFAULT_BATCH,
    stop: Callable[[], bool] | None = None,
    observers: Sequence[GameObserver] = (),
    on_block: Callable[[Games], object] | None = None,
    into: MatchSummary | None = None,
) -> MatchSummary:
    """Play a match and sum it up; memory does not grow with its length.

    Args:
        a, b, pairs, seed, rules, batch, stop, observers: see :func:`play_blocks`.
        on_block: called with every block of finished games, to write them down or to show progress.
        into: the summary to fill, for a caller that wants what there is when the match breaks off; None makes one.
    """
    summary = MatchSummary((a.name, b.name)) if into is None else into
    began = time.perf_counter()
    for games in play_blocks(a, b, pairs, seed, rules=rules, batch=batch, stop=stop, observers=observers):
        if on_block is not None:
            on_block(games)
        summary.add(games)
        summary.seconds = time.perf_counter() - began
    return summary


def _play_segment(
    env: CribbageVectorEnv,
    callers: tuple[Caller, Caller],
    seed: int,
    pairs: NDArray[np.int64],
    block_pairs: int,
    stop: Callable[[], bool] | None,
    observers: Sequence[GameObserver],
) -> Generator[Games, None, bool]:
    """Play the given pairs, consecutive numbers, as one list of games; returns False if it was stopped before the end.

    The list's table is filled in as games end, in any order. What is handed out are its first games up to the first
    that is still played: taking whatever is finished would favour short games.
    """
    games = np.zeros(2 * len(pairs), GAME_DTYPE)
    games["pair"] = np.repeat(pairs, 2)
    games["seed"] = np.repeat(game_seeds(seed, pairs), 2)
    games["a_seat"] = np.tile(np.array([0, 1], np.int8), len(pairs))
    finished = np.zeros(len(games), np.bool_)
    ready = handed_out = 0  # games: the whole pairs at the table's beginning that are finished, and handed out
    next_time = time.monotonic() + _SECONDS_A_BLOCK
    stopped = False

    observations, _ = env.reset(options={"game_seeds": games["seed"]})
    observers = [_WholeDeals(), *observers]
    for observer in observers:
        observer.begin(env, games, 2 * int(pairs[0]))
    actions = np.zeros(env.num_envs, np.int64)
    while True:
        stopped = stopped or (stop is not None and stop())
        if ready - handed_out >= 2 * block_pairs or (
            ready > handed_out and (stopped or ready == len(games) or time.monotonic() > next_time)
        ):
            yield games[handed_out:ready].copy()
            handed_out = ready
            next_time = time.monotonic() + _SECONDS_A_BLOCK
        if stopped or handed_out == len(games):
            return handed_out == len(games)

        keys = decision_keys(seed, 2 * pairs[0] + env.numbers, env.rows[:, DECISIONS])
        for caller, rows in _rows_to_act(callers, env.active, env.players, env.numbers):
            chosen = caller.act(observations["observation"][rows], observations["action_mask"][rows], keys[rows], stop)
            if chosen is None:
                stopped = True
                break
            actions[rows] = chosen
        if stopped:
            continue
        for observer in observers:
            observer.before_step(env, actions)
        observations, _, _, _, infos = env.step(actions)

        slots = np.zeros(0, np.int64)
        results: dict[str, NDArray[Any]] = {}
        if "final_info" in infos:
            slots = np.flatnonzero(infos["_final_info"])
            results = {name: values[slots] for name, values in infos["final_info"].items()}
            _write_results(games, results)
        for observer in observers:
            observer.after_step(env, slots, results)
        if len(slots):
            finished[results["game"]] = True
            ready = _finished_pairs(finished, ready // 2) * 2


class _WholeDeals:
    """Observes points by part in the deals that count: the columns ``points`` and ``counted`` of :data:`GAME_DTYPE`."""

    def begin(self, env: CribbageVectorEnv, games: Games, first_game: int) -> None:
        """See :class:`GameObserver`."""
        self._games = games
        # of the seats in the game under way in each slot: points, and how many of the deals counted had that part
        self._points = np.zeros((env.num_envs, 2, len(PARTS)), np.int16)
        self._counted = np.zeros_like(self._points)
        self._counts = np.zeros(env.num_envs, np.bool_)  # whether the deal under way counts
        self._before = np.zeros_like(self._points)  # points of the seats by part before it
        self._begin_deals(env, np.arange(env.num_envs))

    def before_step(self, env: CribbageVectorEnv, actions: NDArray[np.int64]) -> None:
        """See :class:`GameObserver`."""

    def after_step(self, env: CribbageVectorEnv, slots: NDArray[np.int64], results: Mapping[str, NDArray[Any]]) -> None:
        """See :class:`GameObserver`."""
        if len(slots):
            self._end_games(slots, results)
        self._begin_deals(env, slots)

    def _end_games(self, slots: NDArray[np.int64], results: Mapping[str, NDArray[Any]]) -> None:
        """The games in the slots have ended, with the results given; their last deals ended with them."""
        self._counts[slots] &= results["forfeit"] < 0
        last_dealer = results["first_dealer"] ^ (results["deals"] - 1 & 1)
        self._end_deals(slots, results["parts"], last_dealer)
        numbers = results["game"]
        seats = _seats(numbers)
        rows = slots[:, None]
        self._games["points"][numbers] = self._points[rows, seats]
        self._games["counted"][numbers] = self._counted[rows, seats]

    def _begin_deals(self, env: CribbageVectorEnv, ended_in: NDArray[np.int64]) -> None:
        """Note the deals that the last step began: of new games in the slots where one has ended, and others."""
        rows = env.rows
        parts = rows[:, PART_POINTS : PART_POINTS + 2 * len(PARTS)].reshape(-1, 2, len(PARTS))
        began = (rows[:, PHASE] == DISCARD) & (rows[:, PLAYER] != rows[:, DEALER])
        new_game = np.zeros(len(rows), np.bool_)
        new_game[ended_in] = True
        slots = np.flatnonzero(began & ~new_game)
        self._end_deals(slots, parts[slots], 1 - rows[slots, DEALER])
        self._points[ended_in] = 0
        self._counted[ended_in] = 0
        scores = rows[:, SCORE : SCORE + 2].max(axis=1)
        self._counts[began] = (scores <= rows[:, TARGET] - DEAL_MARGIN)[began]
        self._before[began] = parts[began]

    def _end_deals(self, slots: NDArray[np.int64], parts: NDArray[np.int16], dealers: NDArray[np.int16]) -> None:
        """Add the deals that ended in the slots, with both seats' points by part since the game began."""
        count = self._counts[slots]
        slots, dealers = slots[count], dealers[count]
        self._points[slots] += parts[count] - self._before[slots]
        for seat in (0, 1):
            self._counted[slots, seat] += np.where(_DEALER_PART, (dealers == seat)[:, None], (dealers != seat)[:, None])


def _finished_pairs(finished: NDArray[np.bool_], known: int) -> int:
    """How many pairs at the beginning have both games (2 P,) finished; the first ``known`` are."""
    later = finished[2 * known :]
    if later.all():
        return len(finished) // 2
    return known + int(later.argmin()) // 2


def _rows_to_act(
    callers: tuple[Caller, Caller], active: NDArray[np.bool_], players: NDArray[np.int8], numbers: NDArray[np.int64]
) -> Iterator[tuple[Caller, NDArray[np.int64]]]:
    """Each agent with the slots (R,), at least one, in which it is to act."""
    a, b = callers
    if a.agent is b.agent:
        shares = [(a, active)]
    else:
        a_acts = players == (numbers & 1)  # A has seat 0 in the even games
        shares = [(a, active & a_acts), (b, active & ~a_acts)]
    for caller, share in shares:
        rows = np.flatnonzero(share)
        if len(rows):
            yield caller, rows


def _seats(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """The seats (M, 2) of A and B in the games with these numbers (M,): A has seat 0 in the even ones."""
    a_seat = numbers & 1
    return np.stack([a_seat, 1 - a_seat], axis=1)


def _write_results(games: Games, results: Mapping[str, NDArray[Any]]) -> None:
    """Fill in the rows of M finished games, but for the columns of observers.

    Args:
        games: the table; row g is the game with number g.
        results: ``cribbage_env.vector_env.final_results``, M entries each.
    """
    numbers = results["game"]
    a_seat = numbers & 1
    seats = _seats(numbers)
    rows = np.arange(len(numbers))[:, None]
    forfeit = results["forfeit"]
    games["first_dealer"][numbers] = results["first_dealer"]
    games["winner"][numbers] = results["winner"] ^ a_seat
    games["forfeit"][numbers] = np.where(forfeit < 0, -1, forfeit ^ a_seat)
    games["skunk"][numbers] = results["skunk"]
    games["scores"][numbers] = results["scores"][rows, seats]
    games["deals"][numbers] = results["deals"]
    games["decisions"][numbers] = results["decisions"]
