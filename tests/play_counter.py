"""Counts of the play by ranks, by walking all public histories: with rules of its own, no engine, and no tree."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cribbage_env.jit import inline_jit, jit


class PlayCounts(NamedTuple):
    """How large the play is. A node is a public history at which somebody is asked for a card, or to pass."""

    nodes: int
    """At which the players hold three cards or more together."""
    pair_ends: int
    """Histories after which each holds one card."""
    solo_ends: int
    """Histories after which one holds two cards and the other none."""
    solo_leaves: int
    """Histories that follow those and end when the last card is left."""
    sequences: int
    """Histories of the whole play, to the last card."""
    pone_solo_infosets: int
    """The pone's hands of two different ranks, both of which may be laid, at all solo ends."""
    dealer_solo_infosets: int


@inline_jit
def _value(rank: int) -> int:
    return min(rank + 1, 10)


@inline_jit
def _left(seen: NDArray[np.int64], lowest: int) -> int:
    """How many cards of a value of at least ``lowest`` are not seen."""
    left = 0
    for rank in range(13):
        if _value(rank) >= lowest:
            left += 4 - seen[rank]
    return left


@inline_jit
def _count_pair_end(seen: NDArray[np.int64], low: NDArray[np.int64]) -> int:
    """The histories that follow: each two last cards make another one."""
    sequences = 0
    for first in range(13):
        if seen[first] < 4 and _value(first) >= low[0]:
            for second in range(13):
                sequences += _value(second) >= low[1] and seen[second] + (first == second) < 4
    return sequences


@inline_jit
def _count_solo_end(seen: NDArray[np.int64], lowest: int, space: int) -> tuple[int, int, int]:
    """The first cards that may follow, the orders of both, and the hands with a choice."""
    firsts = sequences = choices = 0
    for first in range(13):
        if seen[first] >= 4 or _value(first) < lowest:
            continue
        any_second = False
        for second in range(13):
            if _value(second) < lowest or seen[second] + (first == second) >= 4:
                continue
            if _value(first) <= space or _value(second) > space:  # both too high: a new count
                sequences += 1
                any_second = True
            choices += first < second and _value(second) <= space
        firsts += any_second
    return firsts, sequences, choices


@jit
def _count(totals: NDArray[np.int64]) -> None:
    depths = 24
    seen = np.zeros((depths, 13), np.int64)
    held = np.zeros((depths, 2), np.int64)
    low = np.ones((depths, 2), np.int64)
    said_go = np.zeros((depths, 2), np.bool_)
    count = np.zeros(depths, np.int64)
    mover = np.zeros(depths, np.int64)
    last_by = np.full(depths, -1, np.int64)
    move = np.full(depths, -1, np.int64)
    held[0] = 4
    totals[0] = 1
    depth = 0
    while depth >= 0:
        move[depth] += 1
        rank = move[depth]  # 13: pass
        if rank > 13:
            depth -= 1
            continue
        who = mover[depth]
        other = 1 - who
        space = 31 - count[depth]
        down = depth + 1
        seen[down] = seen[depth]
        held[down] = held[depth]
        low[down] = low[depth]
        said_go[down] = said_go[depth]
        count[down] = count[depth]
        last_by[down] = last_by[depth]
        new_count = False
        if rank == 13:
            low[down, who] = max(low[depth, who], space + 1)
            if space >= 10 or _left(seen[depth], low[down, who]) < held[depth, who]:
                continue
            if who == last_by[depth]:
                new_count = True
            else:
                said_go[down, who] = True
                new_count = held[depth, other] == 0
                mover[down] = other
        else:
            if _value(rank) > space or _value(rank) < low[depth, who] or seen[depth, rank] == 4:
                continue
            seen[down, rank] += 1
            held[down, who] -= 1
            count[down] += _value(rank)
            last_by[down] = who
            if _left(seen[down], low[down, 0]) < held[down, 0] or _left(seen[down], low[down, 1]) < held[down, 1]:
                continue
            if count[down] == 31:
                new_count = True
            elif held[down, other] > 0 and not said_go[down, other]:
                mover[down] = other
            elif held[down, who] > 0:
                mover[down] = who
            else:
                new_count = True
        if new_count:
            count[down] = 0
            said_go[down] = False
            mover[down] = 1 - last_by[down] if held[down, 1 - last_by[down]] > 0 else last_by[down]
        if held[down, 0] + held[down, 1] > 2:
            totals[0] += 1
            move[down] = -1
            depth = down
        elif held[down, 0] == 1:
            totals[1] += 1
            totals[4] += _count_pair_end(seen[down], low[down])
        else:
            solo = 0 if held[down, 0] == 2 else 1
            firsts, sequences, choices = _count_solo_end(seen[down], low[down, solo], 31 - count[down])
            totals[2] += 1
            totals[3] += firsts
            totals[4] += sequences
            totals[5 + solo] += choices


def count_play() -> PlayCounts:
    """Walk the play of four cards each (a few seconds)."""
    totals = np.zeros(7, np.int64)
    _count(totals)
    return PlayCounts(*totals.tolist())
