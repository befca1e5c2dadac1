"""Walks over the tree of the play with vectors over hands: the one kernel behind solving, best responses and values.

For a node the walk carries down the opponent's *reach*: for each hand the opponent may hold there, the probability that
its own decisions led here. It brings up the *values*: for each hand of the player whose values are asked for (the
traverser), the sum over the opponent's hands of joint weight x reach x points (traverser's minus opponent's). So values
are counterfactual: weighted with the cards and the opponent's play, not with the traverser's own. Nothing is sampled.

The traverser's decisions are taken in one of three ways:

* ``SOLVE``: by regret matching, with an update of the regrets; the opponent's by its regrets too, and what it does is
  added to its average policy;
* ``BEST``: the best one for each hand, against the opponent's policy: a best response;
* ``VALUE``: by the traverser's policy, against the opponent's.

Threads walk subtrees of their own and write only their own part of the arrays, so results do not depend on them.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, NUM_HANDS, HandTables, hand_tables, possible
from agents.equilibrium.tree import MAX_DEPTH, PAIR_END, PASS, PONE, Tree
from cribbage_env.jit import inline_jit, jit

SOLVE, BEST, VALUE = 0, 1, 2

Policy = NDArray[np.float32]
"""Probabilities in the layout of :attr:`agents.equilibrium.tree.Tree.slots`, for both players."""

_MOST = NUM_HANDS[-1]


@inline_jit
def _match_regrets(regrets: NDArray[np.float32], at: int, options: int, out: NDArray[np.float64]) -> None:
    """Probabilities in proportion to ``regrets[at : at + options]``, none of them negative; equal ones if all are 0."""
    total = 0.0
    for i in range(options):
        total += regrets[at + i]
    for i in range(options):
        out[i] = regrets[at + i] / total if total > 0.0 else 1.0 / options


@inline_jit
def _pair_end(
    table: NDArray[np.int8],
    points: int,
    weights: NDArray[np.float32],
    pone_hands: NDArray[np.int16],
    dealer_hands: NDArray[np.int16],
    pone_walks: bool,
    reach: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """The traverser's values (13,) by the last card held, where both hold one.

    ``pone_hands`` and ``dealer_hands`` (13,) are the whole hands by that card; -1 where there is no such hand.
    """
    if pone_walks:
        for own in range(13):
            values[own] = 0.0
        for other in range(13):
            probability = reach[other]
            if probability > 0.0:
                column = dealer_hands[other]
                for own in range(13):
                    if pone_hands[own] >= 0:
                        weight = probability * weights[pone_hands[own], column]
                        values[own] += weight * (points + table[own, other])
    else:
        for own in range(13):
            values[own] = 0.0
        for other in range(13):
            probability = reach[other]
            if probability > 0.0:
                row = pone_hands[other]
                for own in range(13):
                    if dealer_hands[own] >= 0:
                        weight = probability * weights[row, dealer_hands[own]]
                        values[own] -= weight * (points + table[other, own])


@inline_jit
def _order_points(
    tree: Tree, tables: HandTables, end: int, solo: int, best: bool, end_policy: Policy, points: NDArray[np.float64]
) -> None:
    """Write the points (pone's minus dealer's) of a solo end for each hand of two, (91,), in the order that is played.

    That is the ``best`` one, or what ``end_policy`` says.
    """
    table = tree.solo_tables[tree.end_table[end]]
    base = int(tree.end_points[end])
    n = tree.end_parent[end]
    seen = tree.seen[n] + (np.uint64(1) << np.uint64(4 * tree.end_edge[end]))
    low = int(tree.lowest[n, solo])
    at = tree.end_slots[end]
    for hand in range(91):
        first, second = int(table[hand, 0]), int(table[hand, 1])
        if first == second:
            points[hand] = base + first
        elif best:
            points[hand] = base + (max(first, second) if solo == PONE else min(first, second))
        elif possible(seen, tables.packed[2, hand], int(tables.lowest[2, hand]), low):
            points[hand] = base + second + end_policy[at] * (first - second)
            at += 1
        else:
            points[hand] = 0.0


@jit
def _walk(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    cards: int,
    weights: NDArray[np.float32],
    root: int,
    traverser: int,
    mode: int,
    policy: Policy,
    end_policy: Policy,
    written: Policy,
    regret_weight: float,
    average_weight: float,
    root_reach: NDArray[np.float64],
    root_values: NDArray[np.float64],
    split: int,
    task_of: NDArray[np.int32],
    task_reach: NDArray[np.float64],
    task_values: NDArray[np.float64],
    collect: bool,
) -> None:
    """Walk the subtree of ``root``.

    Args:
        tree, tables, num_hands: the tree; ``hand_tables()`` and ``HAND_COUNTS``.
        cards: how many cards a whole hand has.
        weights: (H, H), the joint probabilities of pone's and dealer's whole hands.
        traverser, mode: see the module.
        policy: regrets in mode SOLVE, otherwise probabilities.
        end_policy: the probabilities for solo ends (see :attr:`Tree.end_slots`); empty: the best order. A best response
            takes the best order whatever they say.
        written: in mode SOLVE the opponent's policy is added to it; in mode BEST, unless it is empty, the values of the
            traverser's choices are written to it. In the layout of a policy.
        regret_weight, average_weight: what new regrets, and the policy added, are multiplied with.
        root_reach: (hands,) the opponent's reach at the root.
        root_values: (hands,) the traverser's values, written.
        split: the tree is cut where both players together hold so many cards; negative: nowhere.
        task_of: (N,) which row of the next two arrays a node has at which the tree is cut.
        task_reach, task_values: (tasks, 1820). With ``collect`` the reach is written there, and nothing is learned;
            otherwise the values are read.
    """
    opponent = 1 - traverser
    pone_walks = traverser == PONE
    sign = 1.0 if pone_walks else -1.0
    reach = np.zeros((MAX_DEPTH, _MOST))
    values = np.zeros((MAX_DEPTH, _MOST))
    mixed = np.zeros((MAX_DEPTH, _MOST, 4))  # at opponent's nodes its policy, at traverser's the values of its choices
    reach_at = np.zeros(MAX_DEPTH, np.int64)  # the row of `reach`: the traverser's nodes hand it down
    node = np.zeros(MAX_DEPTH, np.int64)
    edge = np.zeros(MAX_DEPTH, np.int64)
    order_points = np.zeros(91)
    probabilities = np.zeros(4)

    reach[0, : len(root_reach)] = root_reach
    node[0] = root
    depth = 0
    entering = True
    while True:
        n = node[depth]
        mover = int(tree.mover[n])
        holds = int(tree.held[n, mover])
        room = int(tree.room[n])
        here = reach_at[depth]

        if entering:
            entering = False
            edge[depth] = tree.edges[n]
            for hand in range(num_hands[int(tree.held[n, traverser])]):
                values[depth, hand] = 0.0
            if mover == opponent:
                at = tree.slots[n]
                low = int(tree.lowest[n, opponent])
                for hand in range(num_hands[holds]):
                    options = int(tables.legal[holds, hand, room])
                    if options < 2:
                        mixed[depth, hand, 0] = 1.0
                    elif possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                        probability = reach[here, hand]
                        if probability > 0.0:
                            if mode == SOLVE:
                                _match_regrets(policy, at, options, mixed[depth, hand])
                                if not collect:
                                    for i in range(options):
                                        written[at + i] += average_weight * probability * mixed[depth, hand, i]
                            else:
                                for i in range(options):
                                    mixed[depth, hand, i] = policy[at + i]
                        at += options

        if edge[depth] < tree.edges[n + 1]:  # go down the next edge
            down = depth + 1
            rank = int(tree.edge[edge[depth]])
            child = int(tree.child[edge[depth]])
            edge[depth] += 1
            reached = True
            if mover == traverser:
                reach_at[down] = here
            else:
                reach_at[down] = down
                reached = False
                if rank == PASS:
                    for hand in range(num_hands[holds]):
                        reach[down, hand] = reach[here, hand] if tables.legal[holds, hand, room] == 0 else 0.0
                        reached = reached or reach[down, hand] > 0.0
                else:
                    for hand in range(num_hands[holds - 1]):
                        whole = int(tables.add[holds - 1, hand, rank])
                        probability = reach[here, whole]
                        if probability > 0.0:
                            probability *= mixed[depth, whole, int(tables.slot[holds - 1, hand, rank])]
                            reached = reached or probability > 0.0
                        reach[down, hand] = probability
            if not reached:  # the opponent never goes there: all values are zero, and nothing is learned
                continue
            if child >= 0:
                if int(tree.held[child, 0]) + int(tree.held[child, 1]) != split:
                    node[down] = child
                    depth = down
                    entering = True
                    continue
                task = task_of[child]
                own = int(tree.held[child, traverser])
                if collect:
                    task_reach[task] = 0.0
                    for hand in range(num_hands[int(tree.held[child, opponent])]):
                        task_reach[task, hand] = reach[reach_at[down], hand]
                else:
                    for hand in range(num_hands[own]):
                        values[down, hand] = task_values[task, hand]
            else:
                end = -1 - child
                kind = int(tree.end_kind[end])
                laid_by_pone, laid_by_dealer = int(tree.end_laid[end, 0]), int(tree.end_laid[end, 1])
                if kind == PAIR_END:
                    own = 1
                    _pair_end(
                        tree.pair_tables[tree.end_table[end]],
                        int(tree.end_points[end]),
                        weights,
                        tables.add[cards - 1, laid_by_pone],
                        tables.add[cards - 1, laid_by_dealer],
                        pone_walks,
                        reach[reach_at[down]],
                        values[down],
                    )
                else:
                    solo = kind - 1
                    own = 2 if solo == traverser else 0
                    best = len(end_policy) == 0 or (mode == BEST and solo == traverser)
                    _order_points(tree, tables, end, solo, best, end_policy, order_points)
                    whole = laid_by_pone if solo == PONE else laid_by_dealer
                    other = laid_by_dealer if solo == PONE else laid_by_pone
                    probability = reach[reach_at[down], 0]
                    values[down, 0] = 0.0
                    for hand in range(91):
                        first, second = int(tables.ranks[2, hand, 0]), int(tables.ranks[2, hand, 1])
                        holds_all = tables.add[cards - 1, tables.add[cards - 2, whole, first], second]
                        weight = weights[holds_all, other] if solo == PONE else weights[other, holds_all]
                        if solo == traverser:
                            values[down, hand] = sign * order_points[hand] * weight * probability
                        else:
                            values[down, 0] += sign * order_points[hand] * weight * reach[reach_at[down], hand]
        else:  # all edges are done: settle the node's values and go up
            if mover == traverser:
                at = tree.slots[n]
                low = int(tree.lowest[n, traverser])
                for hand in range(num_hands[holds]):
                    options = int(tables.legal[holds, hand, room])
                    if options == 0:  # a pass: its value is there already
                        continue
                    if not possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                        continue
                    choices = mixed[depth, hand]
                    value = choices[0]
                    if options > 1:
                        if mode == BEST:
                            for i in range(1, options):
                                value = max(value, choices[i])
                            if len(written) > 0:
                                for i in range(options):
                                    written[at + i] = choices[i]
                        else:
                            if mode == SOLVE:
                                _match_regrets(policy, at, options, probabilities)
                            else:
                                for i in range(options):
                                    probabilities[i] = policy[at + i]
                            value = 0.0
                            for i in range(options):
                                value += probabilities[i] * choices[i]
                            if mode == SOLVE and not collect:
                                for i in range(options):
                                    regret = policy[at + i] + regret_weight * (choices[i] - value)
                                    policy[at + i] = max(regret, 0.0)
                        at += options
                    values[depth, hand] = value
            if depth == 0:
                break
            own = int(tree.held[n, traverser])
            depth -= 1

        # add the values of the child just done, values[depth + 1], to its parent's
        n = node[depth]
        mover = int(tree.mover[n])
        rank = int(tree.edge[edge[depth] - 1])
        if mover != traverser:
            for hand in range(num_hands[own]):
                values[depth, hand] += values[depth + 1, hand]
        elif rank == PASS:
            room = int(tree.room[n])
            for hand in range(num_hands[own]):
                if tables.legal[own, hand, room] == 0:
                    values[depth, hand] = values[depth + 1, hand]
        else:
            for hand in range(num_hands[own]):
                whole = int(tables.add[own, hand, rank])
                mixed[depth, whole, int(tables.slot[own, hand, rank])] = values[depth + 1, hand]

    for hand in range(len(root_values)):
        root_values[hand] = values[0, hand]


class Walker:
    """Walks one tree with one joint distribution of hands.

    Args:
        tree: of the play.
        weights: (H, H) float, the joint probabilities of pone's and dealer's whole hands (they sum to 1).
        threads: how many walk at the same time; None: one a core.
    """

    def __init__(self, tree: Tree, weights: NDArray[np.floating], threads: int | None = None) -> None:
        self.tree = tree
        self.cards = int(tree.held[0, 0])
        hands = NUM_HANDS[self.cards]
        if weights.shape != (hands, hands):
            raise ValueError(f"the weights of hands of {self.cards} cards are ({hands}, {hands}), got {weights.shape}")
        self.weights = np.ascontiguousarray(weights, np.float32)
        self.threads = threads or os.cpu_count() or 1
        together = tree.held.sum(axis=1, dtype=np.int64)
        self._split = 2 * self.cards - 2
        self._tasks = np.flatnonzero(together == self._split)
        self._tasks = self._tasks[(tree.held[tree.parent[self._tasks]].sum(axis=1) != self._split)]
        self._task_of = np.full(tree.nodes, -1, np.int32)
        self._task_of[self._tasks] = np.arange(len(self._tasks))

    def walk(
        self,
        traverser: int,
        mode: int,
        policy: Policy,
        end_policy: Policy | None = None,
        written: Policy | None = None,
        regret_weight: float = 1.0,
        average_weight: float = 1.0,
    ) -> NDArray[np.float64]:
        """The traverser's values (H,) by its whole hand; they sum to its points a deal, minus the opponent's.

        Args:
            traverser, mode: see the module.
            policy: regrets in mode ``SOLVE`` (changed in place), otherwise the policy of both players.
            end_policy: the probabilities for solo ends in the layout of ``tree.end_slots``; None: played at their best,
                as the traverser does in mode ``BEST`` anyway.
            written: what the opponent's policy is added to in mode ``SOLVE``; where the values of the traverser's
                choices are written in mode ``BEST``, in the layout of a policy (None: nowhere).
            regret_weight, average_weight: the weights of what this walk adds.
        """
        hands = len(self.weights)
        none = np.zeros(0, np.float32)
        ends = none if end_policy is None else end_policy
        record = none if written is None else written
        task_reach = np.zeros((len(self._tasks), _MOST))
        task_values = np.zeros((len(self._tasks), _MOST))
        values = np.zeros(hands)

        def top(collect: bool) -> None:
            _walk(
                self.tree, hand_tables(), HAND_COUNTS, self.cards, self.weights, 0, traverser, mode, policy, ends,
                record, regret_weight, average_weight, np.ones(hands), values, self._split, self._task_of, task_reach,
                task_values, collect,
            )  # fmt: skip

        def one(task: int) -> None:
            root = self._tasks[task]
            own = NUM_HANDS[self.tree.held[root, traverser]]
            _walk(
                self.tree, hand_tables(), HAND_COUNTS, self.cards, self.weights, root, traverser, mode, policy, ends,
                record, regret_weight, average_weight, task_reach[task], task_values[task, :own], -1, self._task_of,
                task_reach, task_values, False,
            )  # fmt: skip

        top(collect=True)
        with ThreadPoolExecutor(self.threads) as pool:
            list(pool.map(one, [task for task in range(len(self._tasks)) if task_reach[task].any()]))
        top(collect=False)
        return values
