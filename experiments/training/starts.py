"""Where episodes begin: at 0-0, at scores such as come up in games, or in a small game inside the real one."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from agents.board import load_board_table
from agents.equilibrium.hands import NUM_HANDS, hand_tables
from agents.equilibrium.prior import dealt_weights
from cribbage_env.cards import RANKS
from cribbage_env.engine import (
    CARDS,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    PLAYER,
    STATE_SIZE,
    State,
    apply,
    deal_fixed,
    deal_from_seed,
    new_game,
    rule_numbers,
)
from cribbage_env.jit import jit
from cribbage_env.scoring import show_table
from cribbage_env.streams import below, combine, combine_arrays, unit
from experiments.train_config import TrainConfig
from experiments.training.streams import DECKS, POSITIONS, stream

_POSITIONS = 1 << 16  # drawn once for a run
REDUCED_CARDS = 2
"""Cards that both seats hold where a reduced game begins."""
# Laid before, in turn from pone on, to a count of 31: king, jack, ten and ace, which make nothing else. Both seats' six
# cards are filled up with discards of no matter.
LAID: NDArray[np.int64] = np.array([4 * 12, 4 * 10 + 1, 4 * 9 + 2, 4 * 0 + 3])


def reduced_pack(ranks: str) -> tuple[int, ...]:
    """How many cards of each rank a reduced game is dealt from, (13,)."""
    return tuple(4 if rank in ranks else 0 for rank in RANKS)


@functools.cache
def _reduced_pairs(ranks: str) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
    """The pairs of hands (P, 4), pone's two ranks and the dealer's, with their cumulated probabilities (P,)."""
    weights = dealt_weights(REDUCED_CARDS, reduced_pack(ranks))
    pone, dealer = np.nonzero(weights)
    held = hand_tables().ranks[REDUCED_CARDS, : NUM_HANDS[REDUCED_CARDS], :REDUCED_CARDS]
    cumulated = np.cumsum(weights[pone, dealer])
    return np.concatenate([held[pone], held[dealer]], axis=1), cumulated / cumulated[-1]


@jit
def write_reduced(
    table: NDArray[np.int8], log: State, ranks: NDArray[np.int8], laid: NDArray[np.int64], row: State
) -> None:
    """Begin a reduced game, by the engine's own moves: pone holds ``ranks[:2]``, the dealer ``ranks[2:4]``."""
    deck = np.zeros(13, np.int16)
    used = np.uint64(0)
    one = np.uint64(1)
    for i in range(4):
        used |= one << np.uint64(laid[i])
    for i in range(4):  # in the deck: pone's two, pone's laid, pone's discards, the dealer's the same
        card = 4 * int(ranks[i])
        while np.int64(used >> np.uint64(card)) & 1:
            card += 1
        used |= one << np.uint64(card)
        deck[6 * (i // 2) + i % 2] = card
    for i in range(4):
        deck[6 * (i % 2) + 2 + i // 2] = laid[i]
    card = 51
    for i in range(5):  # both seats' discards, the starter
        while np.int64(used >> np.uint64(card)) & 1:
            card -= 1
        used |= one << np.uint64(card)
        deck[12 if i == 4 else 6 * (i // 2) + 4 + i % 2] = card
    deal_fixed(row, deck)
    for turn in range(2):
        first = second = -1
        seat = int(row[PLAYER])
        for place in range(6):
            six = row[CARDS + 6 * seat + place]
            if six == deck[6 * turn + 4] or six == deck[6 * turn + 5]:
                if first < 0:
                    first = place
                else:
                    second = place
        apply(table, row, first * (11 - first) // 2 + second - first - 1, log)
    for i in range(4):
        seat = int(row[PLAYER])
        for slot in range(4):
            if row[KEPT + 4 * seat + slot] == laid[i]:
                apply(table, row, FIRST_PLAY + slot, log)
                break


@jit
def _reduced_starts(
    table: NDArray[np.int8],
    numbers: NDArray[np.int64],
    key: int,
    target: int,
    hands: NDArray[np.int8],
    cumulated: NDArray[np.float64],
    laid: NDArray[np.int64],
    rows: State,
) -> None:
    log = np.zeros((0, EVENT_SIZE), np.int16)
    for i in range(len(numbers)):
        new_game(rows[i], target, 0, 0, numbers[i] & 1, 0, 0)
        pair = np.searchsorted(cumulated, unit(combine(key, numbers[i])), side="right")
        write_reduced(table, log, hands[pair], laid, rows[i])


@jit
def _full_starts(
    numbers: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    target: int,
    skunk: int,
    double_skunk: int,
    positions: NDArray[np.int16],
    rows: State,
) -> None:
    for i in range(len(numbers)):
        dealer = numbers[i] & 1
        at = below(combine(seeds[i], 2**34), len(positions))
        scores = positions[at]  # of the dealer and of pone
        own, other = scores[dealer], scores[1 - dealer]
        new_game(rows[i], target, skunk, double_skunk, dealer, own, other)
        deal_from_seed(rows[i], seeds[i])


@functools.cache
def played_positions(target: int, seed: int, board: str | None) -> NDArray[np.int16]:
    """Scores (P, 2) int16 of dealer and pone before deals, as often as games come to them.

    Games are put together from the points of single deals, drawn independently from those of a board table.
    """
    totals = load_board_table(board).outcomes.totals
    cumulated = np.cumsum(totals.ravel())
    rng = np.random.default_rng([seed, POSITIONS])
    found = np.zeros((_POSITIONS, 2), np.int64)
    scores = np.zeros(2, np.int64)  # of the dealer and of pone
    for i in range(_POSITIONS):
        found[i] = scores
        dealt = np.searchsorted(cumulated, rng.integers(cumulated[-1]), side="right")
        scores = scores + np.divmod(dealt, totals.shape[1])
        scores = np.zeros(2, np.int64) if scores.max() >= target else scores[::-1]
    return found.astype(np.int16)


def deal_starts(config: TrainConfig, numbers: NDArray[np.int64]) -> State:
    """The states (N, STATE_SIZE) in which the deals with these numbers (N,) begin; the seats take turns in dealing.

    In the discard phase, but for reduced games: those begin in the play.
    """
    rows = np.zeros((len(numbers), STATE_SIZE), np.int16)
    rules = config.rules.rules()
    key = stream(config.seed, DECKS)
    if config.collect.reduced is not None:
        hands, cumulated = _reduced_pairs(config.collect.reduced.ranks)
        _reduced_starts(show_table(), numbers, np.uint64(key), rules.target, hands, cumulated, LAID, rows)
        return rows
    positions = np.zeros((1, 2), np.int16)
    if config.collect.positions == "played":
        positions = played_positions(rules.target, config.seed, config.collect.board)
    seeds = combine_arrays(np.full(len(numbers), key, np.uint64), numbers)
    _full_starts(numbers, seeds, *rule_numbers(rules), positions, rows)
    return rows
