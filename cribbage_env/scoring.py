"""What cards are worth, in the show and in the play: the only place that says so.

The show looks up the points of fifteens, pairs and runs in a table with one entry for every five ranks (or "no card"),
which :func:`rank_points` fills once; flush and nobs are added from suits. The play has few cards: it is counted
directly.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import JACK, NO_CARD, Cards, card_text, cards_text, parse_card, parse_cards
from cribbage_env.jit import inline_jit, jit

MAX_COUNT = 31
HEELS_POINTS = 2  # to the dealer, when the starter is a jack
LAST_POINTS = 1  # for the last card of a count that is not thirty-one ("go", or "last" at the end of the play)

_BASE = 14  # thirteen ranks and "no card"
TABLE_SIZE = _BASE**5


@dataclass(frozen=True)
class HandScore:
    """Points of a hand or crib by kind."""

    fifteens: int
    pairs: int
    runs: int
    flush: int
    nobs: int

    @property
    def total(self) -> int:
        """All points together."""
        return self.fifteens + self.pairs + self.runs + self.flush + self.nobs


@dataclass(frozen=True)
class PlayScore:
    """Points of the last card laid in the play by kind (the point for a go or the last card is not among them)."""

    fifteen: int
    thirty_one: int
    pair: int
    run: int

    @property
    def total(self) -> int:
        """All points together."""
        return self.fifteen + self.thirty_one + self.pair + self.run


@inline_jit
def card_value(card: int) -> int:
    """What a card adds to a count: ace 1, court cards 10."""
    return min((card >> 2) + 1, 10)


@jit
def rank_points(counts: NDArray[np.int64]) -> tuple[int, int, int]:
    """Points for fifteens, pairs and runs of up to five cards, given how many there are of each rank ((13,) int64)."""
    # ways[s]: how many subsets of the cards sum to s
    ways = np.zeros(16, np.int64)
    ways[0] = 1
    pairs = 0
    for rank in range(13):
        value = min(rank + 1, 10)
        for _ in range(counts[rank]):
            for total in range(15, value - 1, -1):
                ways[total] += ways[total - value]
        pairs += counts[rank] * (counts[rank] - 1)  # two points for each of n (n - 1) / 2 pairs
    runs = 0
    rank = 0
    while rank < 13:
        length = 0
        multiplicity = 1
        while rank < 13 and counts[rank] > 0:
            multiplicity *= counts[rank]
            length += 1
            rank += 1
        if length >= 3:
            runs += length * multiplicity
        rank += 1
    return 2 * ways[15], pairs, runs


@jit
def _fill_table(table: NDArray[np.int8]) -> None:
    """Points by ranks of every five ranks; each multiset is counted once and written at all its orders."""
    counts = np.zeros(13, np.int64)
    ranks = np.zeros(5, np.int64)
    for entry in range(table.shape[0]):
        rest = entry
        in_order = True
        for i in range(5):
            ranks[4 - i] = rest % 14
            rest //= 14
        for i in range(4):
            in_order = in_order and ranks[i] <= ranks[i + 1]
        if in_order:
            counts[:] = 0
            for i in range(5):
                if ranks[i] < 13:
                    counts[ranks[i]] += 1
            fifteens, pairs, runs = rank_points(counts)
            table[entry] = fifteens + pairs + runs
    for entry in range(table.shape[0]):
        rest = entry
        for i in range(5):
            ranks[4 - i] = rest % 14
            rest //= 14
        for i in range(1, 5):  # insertion sort
            moving = ranks[i]
            j = i - 1
            while j >= 0 and ranks[j] > moving:
                ranks[j + 1] = ranks[j]
                j -= 1
            ranks[j + 1] = moving
        first = 0
        for i in range(5):
            first = first * 14 + ranks[i]
        table[entry] = table[first]


@functools.cache
def show_table() -> NDArray[np.int8]:
    """(14**5,) int8: points for fifteens, pairs and runs by five ranks (13: no card), the first most significant."""
    table = np.zeros(TABLE_SIZE, np.int8)
    _fill_table(table)
    table.flags.writeable = False
    return table


@inline_jit
def flush_points(c0: int, c1: int, c2: int, c3: int, starter: int, is_crib: bool) -> int:
    """Four for a hand of one suit, five with the starter; a crib only counts all five. ``starter`` may be NO_CARD."""
    suit = c0 & 3
    if (c1 & 3) != suit or (c2 & 3) != suit or (c3 & 3) != suit:
        return 0
    if starter != NO_CARD and (starter & 3) == suit:
        return 5
    return 0 if is_crib else 4


@inline_jit
def nobs_points(c0: int, c1: int, c2: int, c3: int, starter: int) -> int:
    """One for the jack of the starter's suit among the four cards. ``starter`` may be NO_CARD."""
    jack = 4 * JACK + (starter & 3)
    return int(starter != NO_CARD and (c0 == jack or c1 == jack or c2 == jack or c3 == jack))


@inline_jit
def show_points(table: NDArray[np.int8], c0: int, c1: int, c2: int, c3: int, starter: int, is_crib: bool) -> int:
    """Points of four cards (ints 0..51) with the starter (NO_CARD: none yet), as a hand or as the crib.

    ``table`` is :func:`show_table`.
    """
    # NO_CARD >> 2 is 13, the table's "no card"
    entry = ((((c0 >> 2) * 14 + (c1 >> 2)) * 14 + (c2 >> 2)) * 14 + (c3 >> 2)) * 14 + (starter >> 2)
    return int(table[entry]) + flush_points(c0, c1, c2, c3, starter, is_crib) + nobs_points(c0, c1, c2, c3, starter)


@inline_jit
def play_parts(cards: NDArray[np.int16], begin: int, end: int, count: int) -> tuple[int, int, int, int]:
    """Points of the card ``cards[end - 1]`` just laid, as (fifteen, thirty-one, pair, run).

    Args:
        cards: the cards laid, in order (any integer dtype).
        begin, end: the cards of the present count are ``cards[begin:end]``.
        count: their sum, the last card included.
    """
    fifteen = 2 if count == 15 else 0
    thirty_one = 2 if count == MAX_COUNT else 0
    rank = cards[end - 1] >> 2
    same = 1
    while end - 1 - same >= begin and (cards[end - 1 - same] >> 2) == rank:
        same += 1
    # The longest run among the most recent cards; once two of them are of a rank, no longer stretch can be a run.
    seen = 1 << rank
    low = rank
    high = rank
    run = 0
    for i in range(end - 2, begin - 1, -1):
        rank = cards[i] >> 2
        if seen & (1 << rank):
            break
        seen |= 1 << rank
        low = min(low, rank)
        high = max(high, rank)
        length = end - i
        if length >= 3 and high - low == length - 1:
            run = length
    return fifteen, thirty_one, same * (same - 1), run


@jit
def histogram(table: NDArray[np.int8], is_crib: bool) -> NDArray[np.int64]:
    """How many of all C(52, 4) x 48 = 12,994,800 hands with starter score 0..29: (30,) int64."""
    counts = np.zeros(30, np.int64)
    for a in range(52):
        for b in range(a + 1, 52):
            for c in range(b + 1, 52):
                for d in range(c + 1, 52):
                    for starter in range(52):
                        if starter != a and starter != b and starter != c and starter != d:
                            counts[show_points(table, a, b, c, d, starter, is_crib)] += 1
    return counts


def score_hand(hand: Cards, starter: str | int | None, is_crib: bool = False) -> HandScore:
    """The points of a hand (or crib) of four cards with the starter, by kind.

    Args:
        hand: four cards, as text (``"5H 5C 5S JD"``) or ints.
        starter: the fifth card, or None for the four cards alone.
        is_crib: a crib has a flush only when all five cards are of a suit.

    Raises:
        ValueError: not four different cards, or a starter that is in the hand.
    """
    cards = parse_cards(hand)
    if len(cards) != 4:
        raise ValueError(f"a hand has four cards, got {len(cards)}: {cards_text(cards)!r}")
    cut = NO_CARD if starter is None else parse_card(starter)
    if cut in cards:
        raise ValueError(f"the starter {card_text(cut)} is in the hand {cards_text(cards)!r}")
    counts = np.zeros(13, np.int64)
    for card in cards if starter is None else [*cards, cut]:
        counts[card >> 2] += 1
    fifteens, pairs, runs = rank_points(counts)
    flush = flush_points(*cards, cut, is_crib)
    return HandScore(int(fifteens), int(pairs), int(runs), int(flush), int(nobs_points(*cards, cut)))


def score_play(stack: Cards) -> PlayScore:
    """The points of the last card of ``stack``, the cards of one count in the order they were laid.

    Raises:
        ValueError: no card, or cards that add up to more than 31.
    """
    cards = parse_cards(stack)
    count = sum(card_value(card) for card in cards)
    if not cards or count > MAX_COUNT:
        raise ValueError(f"a stack has one card or more and a count of at most {MAX_COUNT}, got {count}")
    fifteen, thirty_one, pair, run = play_parts(np.array(cards, np.int16), 0, len(cards), count)
    return PlayScore(int(fifteen), int(thirty_one), int(pair), int(run))
