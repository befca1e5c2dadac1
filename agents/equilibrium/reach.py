"""Where a player's own choices lead: the reach of nodes by one seat, and which infosets it ever gets to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, NUM_HANDS, HandTables, hand_tables, possible
from agents.equilibrium.traverse import Policy
from agents.equilibrium.tree import MAX_DEPTH, PAIR_END, PASS, Tree
from cribbage_env.jit import inline_jit, jit


@inline_jit
def step_reach(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    seat: int,
    policy: Policy,
    n: int,
    depth: int,
    reach: NDArray[np.float64],
    first_entry: NDArray[np.int64],
) -> None:
    """Write the seat's reach of node n, by the hand it holds there, given that of the node before.

    Nodes are taken in their order, so that the node before is the last one written at ``depth - 1``.

    Args:
        depth: of the node; 0 for the root, whose reach is there already.
        reach: (MAX_DEPTH, 1820), written at ``depth``.
        first_entry: (MAX_DEPTH, 1820), written at ``depth`` if the seat moves: where a hand's entries of the policy
            begin, -1 if it has no choice.
    """
    holds = int(tree.held[n, seat])
    if depth > 0:
        parent = tree.parent[n]
        rank = int(tree.by[n])
        if tree.mover[parent] != seat:
            for hand in range(num_hands[holds]):
                reach[depth, hand] = reach[depth - 1, hand]
        elif rank == PASS:
            for hand in range(num_hands[holds]):
                passes = tables.legal[holds, hand, tree.room[parent]] == 0
                reach[depth, hand] = reach[depth - 1, hand] if passes else 0.0
        else:
            for hand in range(num_hands[holds]):
                whole = int(tables.add[holds, hand, rank])
                at = first_entry[depth - 1, whole]
                probability = 1.0 if at < 0 else policy[at + int(tables.slot[holds, hand, rank])]
                reach[depth, hand] = reach[depth - 1, whole] * probability
    if tree.mover[n] != seat:
        return
    at = tree.slots[n]
    low = int(tree.lowest[n, seat])
    for hand in range(num_hands[holds]):
        options = int(tables.legal[holds, hand, tree.room[n]])
        first_entry[depth, hand] = -1
        if options > 1 and possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
            first_entry[depth, hand] = at
            at += options


@jit
def _mark(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    seat: int,
    holds: int,
    kept: NDArray[np.bool_],
    policy: Policy,
    wanted: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    depth = np.zeros(len(tree.mover), np.int8)
    reach = np.zeros((MAX_DEPTH, num_hands[-1]))
    first_entry = np.zeros((MAX_DEPTH, num_hands[-1]), np.int64)
    for hand in range(len(kept)):
        reach[0, hand] = 1.0 if kept[hand] else 0.0
    for n in range(len(tree.mover)):
        here = 0
        if n > 0:
            here = int(depth[tree.parent[n]]) + 1
            depth[n] = here
        if tree.held[n, seat] < holds:
            continue  # neither it nor what comes after it is asked for
        step_reach(tree, tables, num_hands, seat, policy, n, here, reach, first_entry)
        if tree.mover[n] == seat and tree.held[n, seat] == holds:
            for hand in range(num_hands[holds]):
                if first_entry[here, hand] >= 0 and reach[here, hand] > 0.0:
                    wanted[first_entry[here, hand]] = True
                    counts[n] += 1


@jit
def _mark_ends(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    seat: int,
    kept: NDArray[np.bool_],
    policy: Policy,
    wanted: NDArray[np.bool_],
    counts: NDArray[np.int64],
) -> None:
    depth = np.zeros(len(tree.mover), np.int8)
    reach = np.zeros((MAX_DEPTH, num_hands[-1]))
    first_entry = np.zeros((MAX_DEPTH, num_hands[-1]), np.int64)
    for hand in range(len(kept)):
        reach[0, hand] = 1.0 if kept[hand] else 0.0
    for n in range(len(tree.mover)):
        here = 0
        if n > 0:
            here = int(depth[tree.parent[n]]) + 1
            depth[n] = here
        step_reach(tree, tables, num_hands, seat, policy, n, here, reach, first_entry)
        for e in range(tree.edges[n], tree.edges[n + 1]):
            end = -1 - int(tree.child[e])
            if end < 0 or tree.end_kind[end] == PAIR_END or int(tree.end_kind[end]) - 1 != seat:
                continue
            rank = int(tree.end_edge[end])
            table = tree.solo_tables[tree.end_table[end]]
            seen = tree.seen[n] + (np.uint64(1) << np.uint64(4 * rank))
            at = tree.end_slots[end]
            for hand in range(num_hands[2]):
                if table[hand, 0] == table[hand, 1]:
                    continue
                if not possible(seen, tables.packed[2, hand], int(tables.lowest[2, hand]), int(tree.lowest[n, seat])):
                    continue
                arrives = reach[here, hand]
                if tree.mover[n] == seat:
                    whole = int(tables.add[2, hand, rank])
                    entry = first_entry[here, whole]
                    arrives = reach[here, whole]
                    if entry >= 0:
                        arrives *= policy[entry + int(tables.slot[2, hand, rank])]
                if arrives > 0.0:
                    wanted[at] = True
                    counts[end] += 1
                at += 1


def reached_infosets(
    tree: Tree, seat: int, holds: int, kept: NDArray[np.bool_], policy: Policy
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which infosets a seat gets to by its own choices, of those at which it moves and holds so many cards.

    Args:
        tree: of the play.
        seat: whose infosets.
        holds: how many cards it holds there.
        kept: (hands,) bool, the whole hands that it ever keeps.
        policy: what it does at the infosets before; the others are not looked at.

    Returns:
        (policy_size,) bool, set at the first entry of each such infoset, and how many each node has: (N,) int64.
    """
    wanted, counts = np.zeros(tree.policy_size, np.bool_), np.zeros(tree.nodes, np.int64)
    _mark(tree, hand_tables(), HAND_COUNTS, seat, holds, kept, policy, wanted, counts)
    return wanted, counts


def reached_ends(
    tree: Tree, seat: int, kept: NDArray[np.bool_], policy: Policy
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """The same for the entries of solo ends: (entries,) bool, and how many each end has: (L,) int64."""
    wanted, counts = np.zeros(int(tree.end_slots[-1]), np.bool_), np.zeros(tree.ends, np.int64)
    _mark_ends(tree, hand_tables(), HAND_COUNTS, seat, kept, policy, wanted, counts)
    return wanted, counts


def all_hands(tree: Tree) -> NDArray[np.bool_]:
    """(hands,) bool: every whole hand."""
    return np.ones(NUM_HANDS[int(tree.held[0, 0])], np.bool_)
