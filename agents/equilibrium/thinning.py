"""What a stored strategy can leave out: decisions that hardly ever come up, which a rule takes instead.

A decision matters as often as a player comes to it: its *weight* is the probability of the player's hand and of its own
choices on the way, times that of the opponent's hands that fit, if the opponent did all it could to get there. So
what any opponent gains by a worse choice there is at most the weight times the points at stake, and the strategy as it
is stored can be evaluated exactly, rule and all.

The rule lays the rank with the greatest gain, which is read off the tree: the points on the way to the next node, or
before an end the mean of its table; of equal ones the highest rank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, HandTables, hand_tables, possible
from agents.equilibrium.policies import STEPS
from agents.equilibrium.traverse import Policy
from agents.equilibrium.tree import DEALER_SEAT, MAX_DEPTH, PAIR_END, PASS, PONE, Tree
from cribbage_env.jit import inline_jit, jit

_TIE = 1e-6  # gains closer than this are the same number, rounded


@inline_jit
def _whole(tables: HandTables, laid: int, cards_laid: int, hand: int, holds: int) -> int:
    """The whole hand of a player who has laid one hand and holds another."""
    for place in range(holds):
        laid = int(tables.add[cards_laid + place, laid, tables.ranks[holds, hand, place]])
    return laid


@jit
def _weights(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    joint: NDArray[np.float32],
    player: int,
    policy: Policy,
    out: NDArray[np.float32],
) -> None:
    """Write the weights of a player's infosets with a choice to their places in ``out`` (I,)."""
    reach = np.zeros((MAX_DEPTH, len(joint)))
    chosen = np.zeros((MAX_DEPTH, len(joint), 4))  # at the player's own nodes, its policy
    node = np.zeros(MAX_DEPTH, np.int64)
    edge = np.zeros(MAX_DEPTH, np.int64)
    others = np.zeros(len(joint), np.int64)  # the opponent's possible whole hands
    opponent = 1 - player
    cards = int(tree.held[0, 0])
    reach[0, :] = 1.0
    infoset = 0  # nodes are entered in the order of their numbers
    depth = 0
    entering = True
    while depth >= 0:
        n = node[depth]
        mover = int(tree.mover[n])
        holds = int(tree.held[n, mover])
        room = int(tree.room[n])
        if entering:
            entering = False
            edge[depth] = tree.edges[n]
            fitting = 0
            if mover == player:
                theirs = int(tree.held[n, opponent])
                low = int(tree.lowest[n, opponent])
                for hand in range(num_hands[theirs]):
                    lowest = int(tables.lowest[theirs, hand])
                    if possible(tree.seen[n], tables.packed[theirs, hand], lowest, low):
                        laid = int(tree.laid[n, opponent])
                        others[fitting] = _whole(tables, laid, cards - theirs, hand, theirs)
                        fitting += 1
            at = tree.slots[n]
            low = int(tree.lowest[n, mover])
            for hand in range(num_hands[holds]):
                options = int(tables.legal[holds, hand, room])
                if options < 2:
                    chosen[depth, hand, 0] = 1.0
                    continue
                if not possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                    continue
                if mover == player:
                    for i in range(options):
                        chosen[depth, hand, i] = policy[at + i]
                    if reach[depth, hand] > 0.0:
                        own = _whole(tables, int(tree.laid[n, player]), cards - holds, hand, holds)
                        weight = 0.0
                        for k in range(fitting):
                            weight += joint[own, others[k]] if player == PONE else joint[others[k], own]
                        out[infoset] = weight * reach[depth, hand]
                at += options
                infoset += 1
        if edge[depth] == tree.edges[n + 1]:
            depth -= 1
            continue
        rank = int(tree.edge[edge[depth]])
        child = int(tree.child[edge[depth]])
        edge[depth] += 1
        if child < 0:
            continue
        down = depth + 1
        if mover != player:
            for hand in range(num_hands[int(tree.held[n, player])]):
                reach[down, hand] = reach[depth, hand]
        elif rank == PASS:
            for hand in range(num_hands[holds]):
                reach[down, hand] = reach[depth, hand] if tables.legal[holds, hand, room] == 0 else 0.0
        else:
            for hand in range(num_hands[holds - 1]):
                before = int(tables.add[holds - 1, hand, rank])
                probability = reach[depth, before]
                if probability > 0.0:
                    probability *= chosen[depth, before, int(tables.slot[holds - 1, hand, rank])]
                reach[down, hand] = probability
        node[down] = child
        depth = down
        entering = True


def infoset_weights(tree: Tree, joint: NDArray[np.floating], policy: Policy, infosets: int) -> NDArray[np.float32]:
    """How often each infoset with a choice comes up at most, (I,) float32: see the module.

    Args:
        tree: of the play.
        joint: (H, H) the joint distribution of kept hands.
        policy: of both players.
        infosets: I.
    """
    weights = np.zeros(infosets, np.float32)
    for player in (PONE, DEALER_SEAT):
        _weights(tree, hand_tables(), HAND_COUNTS, np.ascontiguousarray(joint, np.float32), player, policy, weights)
    return weights


def _edge_gains(tree: Tree) -> NDArray[np.float32]:
    """(E,): what the mover gains by laying a card, as the rule sees it."""
    parent = np.repeat(np.arange(tree.nodes), np.diff(tree.edges))
    end = -1 - tree.child
    before_end = end >= 0
    gains = np.zeros(len(parent), np.float32)
    to_node = ~before_end
    gains[to_node] = tree.points[tree.child[to_node]].astype(np.float32) - tree.points[parent[to_node]]
    kind, table = tree.end_kind[end[before_end]], tree.end_table[end[before_end]]
    means = np.zeros(len(kind), np.float32)
    for is_kind, tables in ((kind == PAIR_END, tree.pair_tables), (kind != PAIR_END, tree.solo_tables)):
        means[is_kind] = tables.mean(axis=(1, 2), dtype=np.float32)[table[is_kind]]
    gains[before_end] = means
    return np.where(tree.mover[parent] == PONE, gains, -gains)


@jit
def _fill_in(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    gains: NDArray[np.float32],
    known: NDArray[np.bool_],
    values: NDArray[np.uint8],
    steps: NDArray[np.uint8],
) -> None:
    by_rank = np.zeros(14)
    infoset = at = to = 0
    for n in range(len(tree.mover)):
        seat = int(tree.mover[n])
        holds = int(tree.held[n, seat])
        low = int(tree.lowest[n, seat])
        for e in range(tree.edges[n], tree.edges[n + 1]):
            by_rank[tree.edge[e]] = gains[e]
        for hand in range(num_hands[holds]):
            options = int(tables.legal[holds, hand, tree.room[n]])
            if options < 2:
                continue
            if not possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                continue
            if known[infoset]:
                for i in range(options - 1):
                    steps[to + i] = values[at + i]
                at += options - 1
            else:
                best = 0
                for i in range(1, options):
                    rank = tables.distinct[holds, hand, i]
                    if by_rank[rank] >= by_rank[tables.distinct[holds, hand, best]] - _TIE:
                        best = i
                if best < options - 1:
                    steps[to + best] = STEPS
            to += options - 1
            infoset += 1


def fill_in(tree: Tree, known: NDArray[np.bool_], values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A stored policy in the layout of :func:`agents.equilibrium.policies.quantised`, with the rule where it has none.

    Args:
        tree: of the play.
        known: (I,) which infosets with a choice are stored.
        values: those infosets' bytes; as many as :func:`bytes_of` says.
    """
    steps = np.zeros(tree.policy_size - len(known), np.uint8)
    _fill_in(tree, hand_tables(), HAND_COUNTS, _edge_gains(tree), known, values, steps)
    return steps


@jit
def _bytes_of(counts: NDArray[np.uint8], known: NDArray[np.bool_], out: NDArray[np.bool_]) -> None:
    to = 0
    for infoset in range(len(counts)):
        for _ in range(int(counts[infoset]) - 1):
            out[to] = known[infoset]
            to += 1


def bytes_of(counts: NDArray[np.uint8], known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which bytes of a quantised policy belong to the known infosets.

    Args:
        counts: (I,) :func:`agents.equilibrium.policies.option_counts`.
        known: (I,).
    """
    out = np.zeros(int(counts.sum(dtype=np.int64)) - len(counts), np.bool_)
    _bytes_of(counts, known, out)
    return out
