"""Hands by rank: every multiset of up to four ranks has a number, with tables to walk between them.

In the play only ranks count, so a hand of k cards is one of C(12 + k, k) multisets of ranks: 1, 13, 91, 455 and 1,820
for k = 0..4. They are numbered in lexicographic order of their sorted ranks.
"""

from __future__ import annotations

import functools
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import NUM_RANKS
from cribbage_env.jit import inline_jit
from cribbage_env.scoring import card_value

MAX_CARDS = 4
NUM_HANDS = (1, 13, 91, 455, 1820)
"""How many multisets of k ranks there are, k = 0..4."""

HAND_COUNTS: NDArray[np.int64] = np.array(NUM_HANDS)
MAX_VALUE = 10  # of a card in the count
MAX_COPIES = 4  # cards of a rank
_NIBBLES = np.uint64(0x3333333333333)  # 3 in each of 13 nibbles
_OVERFLOW = np.uint64(0x8888888888888)


class HandTables(NamedTuple):
    """Tables over hands, indexed [k, hand, ...]; entries beyond the hands of k cards are zero or -1."""

    ranks: NDArray[np.int8]
    """(5, 1820, 4): the ranks, ascending; -1 beyond k."""
    packed: NDArray[np.uint64]
    """(5, 1820): how many cards of each rank, four bits a rank."""
    distinct: NDArray[np.int8]
    """(5, 1820, 4): the different ranks, ascending; -1 beyond them."""
    add: NDArray[np.int16]
    """(5, 1820, 13): the hand of k + 1 cards with one card of a rank more."""
    slot: NDArray[np.int8]
    """(5, 1820, 13): where that rank stands among the different ranks of the hand of k + 1 cards."""
    without: NDArray[np.int16]
    """(5, 1820, 4): the hand of k - 1 cards without a card of the j-th different rank; -1 beyond them."""
    lowest: NDArray[np.int8]
    """(5, 1820): the least value of a card in the hand; 11 for the empty hand."""
    legal: NDArray[np.int8]
    """(5, 1820, 11): how many of the different ranks have a value of at most 0..10 (they are the first ones)."""


def pack(ranks: tuple[int, ...]) -> int:
    """The counts of some ranks, four bits a rank."""
    return sum(1 << 4 * rank for rank in ranks)


@functools.cache
def hand_numbers() -> tuple[dict[tuple[int, ...], int], ...]:
    """For k = 0..4, the number of each sorted tuple of k ranks."""
    return tuple(
        {ranks: number for number, ranks in enumerate(combinations_with_replacement(range(NUM_RANKS), k))}
        for k in range(MAX_CARDS + 1)
    )


@functools.cache
def hand_tables() -> HandTables:
    """The tables, made once."""
    most = NUM_HANDS[-1]
    shape = (MAX_CARDS + 1, most)
    tables = HandTables(
        ranks=np.full((*shape, 4), -1, np.int8),
        packed=np.zeros(shape, np.uint64),
        distinct=np.full((*shape, 4), -1, np.int8),
        add=np.full((*shape, NUM_RANKS), -1, np.int16),
        slot=np.full((*shape, NUM_RANKS), -1, np.int8),
        without=np.full((*shape, 4), -1, np.int16),
        lowest=np.full(shape, MAX_VALUE + 1, np.int8),
        legal=np.zeros((*shape, MAX_VALUE + 1), np.int8),
    )
    value = [int(card_value(4 * rank)) for rank in range(NUM_RANKS)]
    numbers = hand_numbers()
    for k, hands in enumerate(numbers):
        for ranks, hand in hands.items():
            different = sorted(set(ranks))
            tables.ranks[k, hand, :k] = ranks
            tables.packed[k, hand] = pack(ranks)
            tables.distinct[k, hand, : len(different)] = different
            if ranks:
                tables.lowest[k, hand] = value[ranks[0]]
            for room in range(MAX_VALUE + 1):
                tables.legal[k, hand, room] = sum(value[rank] <= room for rank in different)
            for place, rank in enumerate(different):
                rest = list(ranks)
                rest.remove(rank)
                smaller = numbers[k - 1][tuple(rest)]
                tables.without[k, hand, place] = smaller
                tables.add[k - 1, smaller, rank] = hand
                tables.slot[k - 1, smaller, rank] = place
    for table in tables:
        table.flags.writeable = False
    return tables


@inline_jit
def possible(seen: int, packed: int, lowest_in_hand: int, lowest: int) -> bool:
    """Whether a player may hold a hand, given what is public.

    Args:
        seen: the cards that are elsewhere, four bits a rank.
        packed, lowest_in_hand: the hand's entries in :class:`HandTables`.
        lowest: the least value that the player's cards have, by the gos that it said.
    """
    return lowest_in_hand >= lowest and not (seen + packed + _NIBBLES) & _OVERFLOW
