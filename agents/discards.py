"""What a discard is worth: the exact average of the kept hand, and averages of the crib.

The kept hand is averaged over the 46 cards that the starter can be. Points of fifteens, pairs and runs depend on ranks
alone, so 13 look-ups weighted by the unseen cards of each rank do the work of 46; flush and nobs are counted exactly
from the unseen cards of a suit. Crib averages by the ranks thrown are published ones
(``agents/data/crib_averages.csv``: Schell, Hessel, Colvert, Rasmussen), for one's own crib and for the opponent's.
"""

from __future__ import annotations

import csv
import functools
from importlib import resources

import numpy as np
from numpy.typing import NDArray

from agents.registry import AgentError
from cribbage_env.cards import JACK, NO_CARD, NUM_CARDS, RANKS, Cards, parse_cards
from cribbage_env.engine import KEPT_PLACES, NUM_DISCARDS, PAIRS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.scoring import flush_points, show_points, show_table

CRIB_TABLES = ("schell", "hessel", "colvert", "rasmussen")
STARTERS = 46  # cards that the starter can be, seen from a six-card hand


@functools.cache
def crib_table(name: str) -> NDArray[np.float64]:
    """(2, 13, 13) float64: average points of a crib by the two ranks thrown, [0] the opponent's crib, [1] one's own.

    Raises:
        AgentError: a name that is not one of :data:`CRIB_TABLES`.
    """
    if name not in CRIB_TABLES:
        raise AgentError(f"no crib table {name!r}; there are {', '.join(CRIB_TABLES)}")
    table = np.zeros((2, 13, 13))
    text = resources.files("agents").joinpath("data/crib_averages.csv").read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        first, second = (RANKS.index(rank) for rank in row["pair"])
        for own, column in ((0, f"{name}_opp"), (1, f"{name}_own")):
            table[own, first, second] = table[own, second, first] = float(row[column])
    table.flags.writeable = False
    return table


@inline_jit
def hand_sum(
    table: NDArray[np.int8],
    c0: int,
    c1: int,
    c2: int,
    c3: int,
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
) -> int:
    """Points of four kept cards, summed over all starters.

    Args:
        table: :func:`cribbage_env.scoring.show_table`.
        c0, c1, c2, c3: the kept cards.
        ranks_left, suits_left: (13,) and (4,) int64, how many cards of each rank and suit the starter can be.
    """
    # The points by ranks of a starter of each rank, in the lookup's own terms: a starter adds its rank to the entry.
    entry = ((((c0 >> 2) * 14 + (c1 >> 2)) * 14 + (c2 >> 2)) * 14 + (c3 >> 2)) * 14
    total = 0
    for rank in range(13):
        total += int(table[entry + rank]) * ranks_left[rank]
    starters = 0
    for suit in range(4):
        starters += suits_left[suit]
    flush = flush_points(c0, c1, c2, c3, NO_CARD, False)
    if flush > 0:
        total += flush * starters + suits_left[c0 & 3]  # the starter's suit makes it five
    for card in (c0, c1, c2, c3):
        if card >> 2 == JACK:
            total += suits_left[card & 3]  # nobs
    return total


@inline_jit
def count_left(cards: NDArray[np.uint8], ranks_left: NDArray[np.int64], suits_left: NDArray[np.int64]) -> None:
    """Write how many cards of each rank (13,) and suit (4,) are unseen by the holder of six cards."""
    for rank in range(13):
        ranks_left[rank] = 4
    for suit in range(4):
        suits_left[suit] = 13
    for i in range(6):
        ranks_left[cards[i] >> 2] -= 1
        suits_left[cards[i] & 3] -= 1


@inline_jit
def discard_value(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    cards: NDArray[np.uint8],
    action: int,
    is_dealer: bool,
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
) -> float:
    """The exact average of the kept hand plus (own crib) or minus the crib's average, of one discard of six cards.

    ``cribs`` is :func:`crib_table`; ``ranks_left`` and ``suits_left`` are what :func:`count_left` wrote.
    """
    hand = hand_sum(
        table,
        int(cards[KEPT_PLACES[action, 0]]),
        int(cards[KEPT_PLACES[action, 1]]),
        int(cards[KEPT_PLACES[action, 2]]),
        int(cards[KEPT_PLACES[action, 3]]),
        ranks_left,
        suits_left,
    )
    first = cards[PAIRS[action, 0]] >> 2
    second = cards[PAIRS[action, 1]] >> 2
    crib = cribs[1, first, second] if is_dealer else -cribs[0, first, second]
    return hand * (1.0 / STARTERS) + crib


@inline_jit
def discard_values(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    cards: NDArray[np.uint8],
    is_dealer: bool,
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
    values: NDArray[np.float64],
) -> None:
    """:func:`discard_value` of all 15 discards, to ``values`` (at least (15,) float64).

    ``ranks_left`` (13,) and ``suits_left`` (4,) int64 are scratch space.
    """
    count_left(cards, ranks_left, suits_left)
    for action in range(NUM_DISCARDS):
        values[action] = discard_value(table, cribs, cards, action, is_dealer, ranks_left, suits_left)


@jit
def _discard_values(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    hands: NDArray[np.uint8],
    is_dealer: NDArray[np.bool_],
    values: NDArray[np.float64],
) -> None:
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    for i in range(hands.shape[0]):
        discard_values(table, cribs, hands[i], is_dealer[i], ranks_left, suits_left, values[i])


def expected_discard_values(
    hands: NDArray[np.uint8], is_dealer: NDArray[np.bool_], crib: str = "schell"
) -> NDArray[np.float64]:
    """The expected value of every discard of many hands, in points.

    Args:
        hands: (B, 6) uint8 cards, each row sorted.
        is_dealer: (B,) bool, whether the crib is the holder's own.
        crib: one of :data:`CRIB_TABLES`.

    Returns:
        (B, 15) float64: by discard action, the exact average of the kept hand plus or minus the crib's average.

    Raises:
        ValueError: not six different cards a row, or another number of dealers.
    """
    hands = np.asarray(hands)
    if hands.ndim != 2 or hands.shape[1] != 6 or (hands.size and not 0 <= hands.min() <= hands.max() < NUM_CARDS):
        raise ValueError(f"hands must be (B, 6) cards 0..51, got {hands.shape}")
    if (np.diff(np.sort(hands.astype(np.int64), axis=1), axis=1) == 0).any():
        raise ValueError("a card comes twice in a hand")
    is_dealer = np.ascontiguousarray(is_dealer, np.bool_)
    if is_dealer.shape != (len(hands),):
        raise ValueError(f"is_dealer must be ({len(hands)},) bool, got {is_dealer.shape}")
    values = np.empty((len(hands), NUM_DISCARDS))
    _discard_values(show_table(), crib_table(crib), np.ascontiguousarray(hands, np.uint8), is_dealer, values)
    return values


@jit
def _average(table: NDArray[np.int8], kept: NDArray[np.int64], unseen: NDArray[np.bool_]) -> int:
    total = 0
    for starter in range(52):
        if unseen[starter]:
            total += show_points(table, kept[0], kept[1], kept[2], kept[3], starter, False)
    return total


def hand_average(kept: Cards, thrown: Cards = ()) -> float:
    """The average points of four kept cards over all starters, given the cards known to be elsewhere.

    Counted card by card: slower than :func:`expected_discard_values`, for any number of known cards.

    Raises:
        ValueError: not four kept cards, or a card twice.
    """
    four, dead = parse_cards(kept), parse_cards(thrown)
    parse_cards([*four, *dead])
    if len(four) != 4:
        raise ValueError(f"a hand has four cards, got {len(four)}")
    unseen = np.ones(52, np.bool_)
    unseen[four + dead] = False
    return int(_average(show_table(), np.array(four, np.int64), unseen)) / int(unseen.sum())
