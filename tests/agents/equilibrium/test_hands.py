"""The tables over hands, against counting them out."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import reference

from agents.equilibrium.hands import NUM_HANDS, hand_numbers, hand_tables, pack, possible
from cribbage_env.jit import jit


@jit
def _possible(seen, packed, lowest_in_hand, lowest):  # type: ignore[no-untyped-def]
    """``possible`` is inlined into kernels; this one calls it from Python."""
    return possible(seen, packed, lowest_in_hand, lowest)


HANDS = [list(combinations_with_replacement(range(13), k)) for k in range(5)]


def value(rank: int) -> int:
    return reference.value_of(4 * rank)


def test_numbers() -> None:
    assert [len(hands) for hands in HANDS] == list(NUM_HANDS) == [1, 13, 91, 455, 1820]
    for k, hands in enumerate(HANDS):
        assert hand_numbers()[k] == {ranks: number for number, ranks in enumerate(hands)}


def test_tables() -> None:
    """Every entry of every table, also those beyond the hands of k cards."""
    tables = hand_tables()
    for k in range(5):
        for number in range(1820):
            ranks = HANDS[k][number] if number < len(HANDS[k]) else ()
            there = number < len(HANDS[k])
            different = sorted(set(ranks))
            assert tables.ranks[k, number].tolist() == [*ranks, *[-1] * (4 - len(ranks))]
            assert tables.distinct[k, number].tolist() == [*different, *[-1] * (4 - len(different))]
            assert int(tables.packed[k, number]) == pack(ranks) == sum(ranks.count(r) * 16**r for r in range(13))
            assert tables.lowest[k, number] == min((value(rank) for rank in ranks), default=11)
            fitting = [sum(value(rank) <= room for rank in different) for room in range(11)]
            assert tables.legal[k, number].tolist() == fitting
            for place in range(4):
                if place < len(different):
                    smaller = HANDS[k - 1][tables.without[k, number, place]]
                    assert tuple(sorted((*smaller, different[place]))) == ranks
                else:
                    assert tables.without[k, number, place] == -1
            for rank in range(13):
                if k < 4 and there:
                    larger = tuple(sorted((*ranks, rank)))
                    assert HANDS[k + 1][tables.add[k, number, rank]] == larger
                    assert sorted(set(larger))[tables.slot[k, number, rank]] == rank
                else:
                    assert tables.add[k, number, rank] == tables.slot[k, number, rank] == -1


def test_tables_cannot_be_changed() -> None:
    assert not any(table.flags.writeable for table in hand_tables())


def test_possible_hands() -> None:
    """What fits into a pack of which cards are gone, by counting them."""
    rng = np.random.default_rng(0)
    tables = hand_tables()
    outcomes = {True: 0, False: 0}
    for _ in range(20_000):
        k = int(rng.integers(5))
        number = int(rng.integers(NUM_HANDS[k]))
        seen = rng.integers(0, 5, 13) * (rng.random(13) < 0.4)
        lowest = int(rng.integers(1, 11)) if rng.random() < 0.5 else 1
        packed_seen = np.uint64(sum(int(n) << 4 * rank for rank, n in enumerate(seen)))
        found = _possible(packed_seen, tables.packed[k, number], int(tables.lowest[k, number]), lowest)
        ranks = HANDS[k][number]
        fits = all(ranks.count(rank) + seen[rank] <= 4 for rank in set(ranks))
        assert found == (fits and all(value(rank) >= lowest for rank in ranks))
        outcomes[bool(found)] += 1
    assert min(outcomes.values()) > 3000
