"""Where a policy loses what its best response would gain, infoset by infoset.

What a seat's best response gains over its policy is a sum over the seat's decisions: for each infoset, how often the
policy gets there, times what its choice there is worth less than the best one when all goes on at its best (the
performance difference lemma: S. Kakade and J. Langford, "Approximately optimal approximate reinforcement learning",
ICML 2002). So the terms add up to the seat's whole gain, and the greatest are the most costly mistakes.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, HandTables, hand_tables, possible
from agents.equilibrium.reach import step_reach
from agents.equilibrium.traverse import BEST, VALUE, Policy, Walker
from agents.equilibrium.tree import MAX_DEPTH, PASS, Tree
from cribbage_env.jit import jit


class Mistake(NamedTuple):
    """One infoset at which a policy loses points."""

    node: int
    """Of the tree."""
    hand: int
    """The mover's hand there (:mod:`agents.equilibrium.hands`)."""
    ranks: tuple[int, ...]
    """The ranks that may be laid."""
    policy: tuple[float, ...]
    """With what probability the policy lays each."""
    costs: tuple[float, ...]
    """What laying each costs, in points, against the best of them."""
    frequency: float
    """How often the infoset comes up, a deal."""
    loss: float
    """Points lost a deal: frequency x the mean of the costs under the policy."""


class Losses(NamedTuple):
    """What one seat loses."""

    gain: float
    """What the best response gains over the policy, in points a deal."""
    at_ends: float
    """How much of it is lost in the order of the last two cards, when the opponent has none left."""
    mistakes: list[Mistake]
    """The most costly infosets, the worst first."""


@jit
def _losses(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    seat: int,
    policy: Policy,
    choices: Policy,
    losses: Policy,
) -> None:
    """Write what each of the seat's infosets costs to its first entry of ``losses``.

    Args:
        policy: the seat's.
        choices: what the choices are worth (:meth:`Walker.walk` in mode ``BEST``).
    """
    depth = np.zeros(len(tree.mover), np.int8)
    reach = np.zeros((MAX_DEPTH, num_hands[-1]))
    first_entry = np.zeros((MAX_DEPTH, num_hands[-1]), np.int64)
    for hand in range(num_hands[int(tree.held[0, seat])]):
        reach[0, hand] = 1.0
    for n in range(len(tree.mover)):
        here = 0
        if n > 0:
            here = int(depth[tree.parent[n]]) + 1
            depth[n] = here
        step_reach(tree, tables, num_hands, seat, policy, n, here, reach, first_entry)
        if tree.mover[n] != seat:
            continue
        holds = int(tree.held[n, seat])
        for hand in range(num_hands[holds]):
            at = first_entry[here, hand]
            if at >= 0:
                best = float(choices[at])
                mean = 0.0
                for i in range(int(tables.legal[holds, hand, tree.room[n]])):
                    best = max(best, float(choices[at + i]))
                    mean += policy[at + i] * choices[at + i]
                losses[at] = reach[here, hand] * (best - mean)


def _place(tree: Tree, entry: int) -> tuple[int, int, int, int]:
    """The node, hand, first entry and number of options of the infoset that an entry of a policy belongs to."""
    tables = hand_tables()
    node = int(np.searchsorted(tree.slots, entry, side="right")) - 1
    seat = int(tree.mover[node])
    holds = int(tree.held[node, seat])
    at = int(tree.slots[node])
    for hand in range(HAND_COUNTS[holds]):
        options = int(tables.legal[holds, hand, tree.room[node]])
        if options > 1 and possible(
            tree.seen[node], tables.packed[holds, hand], int(tables.lowest[holds, hand]), int(tree.lowest[node, seat])
        ):
            if at <= entry < at + options:
                return node, hand, at, options
            at += options
    raise ValueError(f"no entry {entry} in a policy of {tree.policy_size}")


def _path(tree: Tree, node: int) -> list[int]:
    """The nodes from the root to one."""
    path = [node]
    while tree.parent[path[0]] >= 0:
        path.insert(0, int(tree.parent[path[0]]))
    return path


def node_reach(tree: Tree, node: int, seat: int, policy: Policy) -> NDArray[np.float64]:
    """With what probability a seat's own choices lead to a node, by the hand that it holds there: (hands,) float64."""
    tables = hand_tables()
    cards = int(tree.held[0, seat])
    reach = np.ones(HAND_COUNTS[cards])
    path = _path(tree, node)
    for before, after in itertools.pairwise(path):
        if tree.mover[before] != seat:
            continue
        holds = int(tree.held[before, seat])
        room, rank = int(tree.room[before]), int(tree.by[after])
        if rank == PASS:
            reach = np.where(tables.legal[holds, : len(reach), room] == 0, reach, 0.0)
            continue
        at = int(tree.slots[before])
        probability = np.zeros(HAND_COUNTS[holds])
        for hand in range(HAND_COUNTS[holds]):
            options = int(tables.legal[holds, hand, room])
            place = np.flatnonzero(tables.distinct[holds, hand, :options] == rank)
            if options > 1 and possible(
                tree.seen[before],
                tables.packed[holds, hand],
                int(tables.lowest[holds, hand]),
                int(tree.lowest[before, seat]),
            ):
                probability[hand] = policy[at + place[0]] if len(place) else 0.0
                at += options
            elif len(place):
                probability[hand] = 1.0
        whole = tables.add[holds - 1, : HAND_COUNTS[holds - 1], rank].astype(np.int64)
        reach = (reach * probability)[whole]
    return reach


def _frequency(walker: Walker, node: int, hand: int, policy: Policy) -> float:
    """How often the mover gets to a node with a hand, a deal."""
    tree, tables = walker.tree, hand_tables()
    seat = int(tree.mover[node])
    other = 1 - seat
    reach = node_reach(tree, node, other, policy)
    whole_hands = [np.array([hand]), np.arange(len(reach))]
    for whose, who in enumerate((seat, other)):
        holds = int(tree.held[node, who])
        for rank in tables.ranks[int(tree.held[0, who]) - holds, tree.laid[node, who]]:
            if rank >= 0:
                whole_hands[whose] = tables.add[holds, whole_hands[whose], rank].astype(np.int64)
                holds += 1
    own, others = whole_hands
    weights = walker.weights[own[0], others] if seat == 0 else walker.weights[others, own[0]]
    return float(weights.astype(np.float64) @ reach) * float(node_reach(tree, node, seat, policy)[hand])


def losses(walker: Walker, seat: int, policy: Policy, end_policy: Policy, most: int = 10) -> Losses:
    """What a seat of a policy loses, and where.

    Args:
        walker: of the tree and the distribution of hands.
        seat: whose decisions are looked at; the other one plays the policy.
        policy, end_policy: of both seats.
        most: how many mistakes are listed, 0 or more.
    """
    tree = walker.tree
    choices = np.zeros(tree.policy_size, np.float32)
    best = float(walker.walk(seat, BEST, policy, end_policy, written=choices).sum())
    value = float(walker.walk(seat, VALUE, policy, end_policy).sum())
    lost = np.zeros(tree.policy_size, np.float32)
    _losses(tree, hand_tables(), HAND_COUNTS, seat, policy, choices, lost)
    worst = np.argpartition(-lost, most)[:most] if most < len(lost) else np.arange(len(lost))
    worst = worst[np.argsort(-lost[worst], kind="stable")]
    mistakes = []
    for entry in worst:
        if lost[entry] <= 0.0:
            break
        node, hand, at, options = _place(tree, int(entry))
        frequency = _frequency(walker, node, hand, policy)
        own = policy[at : at + options].astype(np.float64)
        # counterfactual values: weighted with all but the seat's own reach
        weight = frequency / max(float(node_reach(tree, node, seat, policy)[hand]), 1e-300)
        costs = (choices[at : at + options].max() - choices[at : at + options]) / weight
        ranks = hand_tables().distinct[int(tree.held[node, seat]), hand, :options]
        mistakes.append(
            Mistake(
                node,
                hand,
                tuple(int(rank) for rank in ranks),
                tuple(float(probability) for probability in own),
                tuple(float(cost) for cost in costs),
                frequency,
                float(lost[entry]),
            )
        )
    return Losses(best - value, best - value - float(lost.sum(dtype=np.float64)), mistakes)
