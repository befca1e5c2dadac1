"""Policies over the tree of the play: made uniform, normalised, and stored with one byte a probability.

A policy has an entry for each legal rank of each hand with a choice at each node
(:attr:`agents.equilibrium.tree.Tree.slots`). Stored, the last entry of each infoset is left out: it is what the others
leave of 255.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, HandTables, hand_tables, possible
from agents.equilibrium.traverse import Policy
from agents.equilibrium.tree import Tree
from cribbage_env.jit import inline_jit, jit

STEPS = 255
"""Stored probabilities are multiples of 1 / 255."""


@jit
def _option_counts(tree: Tree, tables: HandTables, num_hands: NDArray[np.int64], counts: NDArray[np.uint8]) -> int:
    """Write how many options each infoset with a choice has, in order; returns their number."""
    infosets = 0
    for n in range(len(tree.mover)):
        seat = int(tree.mover[n])
        holds = int(tree.held[n, seat])
        if holds < 2:
            continue
        low = int(tree.lowest[n, seat])
        for hand in range(num_hands[holds]):
            options = int(tables.legal[holds, hand, tree.room[n]])
            if options > 1 and possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                if len(counts) > 0:
                    counts[infosets] = options
                infosets += 1
    return infosets


def option_counts(tree: Tree) -> NDArray[np.uint8]:
    """(I,) uint8: how many legal ranks each infoset with a choice has, in the order of the policy's entries."""
    infosets = _option_counts(tree, hand_tables(), HAND_COUNTS, np.zeros(0, np.uint8))
    counts = np.zeros(infosets, np.uint8)
    _option_counts(tree, hand_tables(), HAND_COUNTS, counts)
    return counts


@jit
def _infoset_counts(tree: Tree, tables: HandTables, num_hands: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
    for n in range(len(tree.mover)):
        seat = int(tree.mover[n])
        holds = int(tree.held[n, seat])
        low = int(tree.lowest[n, seat])
        for hand in range(num_hands[holds]):
            if tables.legal[holds, hand, tree.room[n]] > 1 and possible(
                tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low
            ):
                counts[n] += 1


def infoset_counts(tree: Tree) -> NDArray[np.int64]:
    """(N,) int64: how many infosets with a choice each node has."""
    counts = np.zeros(tree.nodes, np.int64)
    _infoset_counts(tree, hand_tables(), HAND_COUNTS, counts)
    return counts


@jit
def _normalise(counts: NDArray[np.uint8], raw: Policy, out: Policy) -> None:
    at = 0
    for infoset in range(len(counts)):
        options = int(counts[infoset])
        total = 0.0
        for i in range(options):
            total += raw[at + i]
        for i in range(options):
            out[at + i] = raw[at + i] / total if total > 0.0 else 1.0 / options
        at += options


def normalised(counts: NDArray[np.uint8], raw: Policy) -> Policy:
    """Entries made to sum to 1 in each infoset; equal ones where all are zero.

    Args:
        counts: :func:`option_counts`.
        raw: entries of at least zero.
    """
    out = np.empty_like(raw)
    _normalise(counts, raw, out)
    return out


def uniform_policy(tree: Tree) -> tuple[Policy, Policy]:
    """Equal probabilities for all legal ranks: a policy, and that for solo ends."""
    counts = option_counts(tree)
    return (
        np.repeat(1.0 / counts, counts).astype(np.float32),
        np.full(int(tree.end_slots[-1]), 0.5, np.float32),
    )


@inline_jit
def _round_infoset(policy: Policy, at: int, options: int, steps: NDArray[np.int64]) -> None:
    """Write multiples of 1 / 255 for one infoset; what rounding leaves over goes to the greatest remainders."""
    left = STEPS
    for i in range(options):
        steps[i] = int(policy[at + i] * STEPS)
        left -= steps[i]
    while left > 0:
        best = 0
        for i in range(1, options):
            if policy[at + i] * STEPS - steps[i] > policy[at + best] * STEPS - steps[best]:
                best = i
        steps[best] += 1
        left -= 1
    while left < 0:  # probabilities that summed to slightly more than 1
        best = 0
        for i in range(1, options):
            if steps[i] > steps[best]:
                best = i
        steps[best] -= 1
        left += 1


@jit
def _quantise(counts: NDArray[np.uint8], policy: Policy, out: NDArray[np.uint8]) -> None:
    steps = np.zeros(4, np.int64)
    at = to = 0
    for infoset in range(len(counts)):
        options = int(counts[infoset])
        _round_infoset(policy, at, options, steps)
        for i in range(options - 1):
            out[to + i] = steps[i]
        at += options
        to += options - 1


@jit
def _restore(counts: NDArray[np.uint8], stored: NDArray[np.uint8], out: Policy) -> None:
    at = to = 0
    for infoset in range(len(counts)):
        options = int(counts[infoset])
        left = STEPS
        for i in range(options - 1):
            out[at + i] = stored[to + i] / STEPS
            left -= int(stored[to + i])
        out[at + options - 1] = left / STEPS
        at += options
        to += options - 1


def quantised(counts: NDArray[np.uint8], policy: Policy) -> NDArray[np.uint8]:
    """A policy with one byte a probability, (entries - infosets,) uint8."""
    out = np.empty(len(policy) - len(counts), np.uint8)
    _quantise(counts, policy, out)
    return out


def restored(counts: NDArray[np.uint8], stored: NDArray[np.uint8]) -> Policy:
    """The policy that :func:`quantised` stored.

    Raises:
        ValueError: it does not belong to this tree.
    """
    if len(stored) != int(counts.sum(dtype=np.int64)) - len(counts):
        raise ValueError(
            f"{int(counts.sum(dtype=np.int64)) - len(counts)} bytes belong to this tree, got {len(stored)}"
        )
    out = np.empty(len(stored) + len(counts), np.float32)
    _restore(counts, stored, out)
    return out
