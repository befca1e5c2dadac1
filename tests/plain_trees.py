"""Small trees read plainly: which public history a node is, and what a policy says for a hand there.

With that, and :mod:`plain_play`, small games are valued, answered at their best and learned without any code of
:mod:`agents.equilibrium` beyond the arrays of the tree.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from plain_play import PASS, Hand, History, Play, begin, compatible, hands_of, lay, pass_turn
from reference import LIMIT, value_of

from agents.equilibrium.tree import Tree

Pack = tuple[int, ...]
Infoset = tuple[History, Hand]
Probabilities = dict[Infoset, dict[int, float]]
"""What is laid with what probability, by public history and hand."""

TIGHT: Pack = (1, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1)
"""Just as many cards as two hands of three."""

SMALL_GAMES: list[tuple[int, Pack]] = [
    (3, (2, 0, 0, 2, 3, 0, 0, 0, 0, 4, 0, 0, 0)),  # aces, fours, fives, tens: gos, fifteens, 31s
    (3, (0, 0, 3, 2, 2, 0, 0, 0, 0, 0, 2, 2, 0)),  # threes to fives, jacks, queens: runs
    (3, (0, 0, 0, 0, 0, 2, 1, 1, 2, 0, 0, 0, 1)),  # a small pack, in which hands say much about each other
    (3, TIGHT),
    (4, (1, 2, 1, 0, 0, 0, 0, 0, 2, 1, 0, 0, 2)),  # one card more than two hands of four have
    (2, (4,) * 13),
]


def histories(tree: Tree) -> list[History]:
    """The public history of each node."""
    found: list[History] = [()]
    for node in range(1, tree.nodes):
        parent = int(tree.parent[node])
        assert parent < node
        found.append((*found[parent], (int(tree.mover[parent]), int(tree.by[node]))))
    return found


class Public(NamedTuple):
    """What a public history says."""

    count: int
    low: tuple[int, int]
    """The least value of the cards that both hold, by their passes."""
    laid: tuple[int, ...]
    """All ranks."""


def read(history: History, cards: int) -> Public:
    """Read a history, plainly."""
    count, last_by, low, gos = 0, -1, [1, 1], set()
    left = [cards, cards]
    for who, rank in history:
        if rank == PASS:
            low[who] = max(low[who], LIMIT + 1 - count)
            gos.add(who)
            ended = who == last_by or left[last_by] == 0
        else:
            count += value_of(4 * rank)
            left[who] -= 1
            last_by = who
            ended = count == LIMIT or (left[who] == 0 and 1 - who in gos)
        if ended:
            count = 0
            gos.clear()
    return Public(count, (low[0], low[1]), tuple(rank for _, rank in history if rank != PASS))


def infosets(tree: Tree, pack: Pack) -> list[tuple[int, Infoset, list[int]]]:
    """The infosets with a choice, in the order of a policy's entries: node, infoset and the ranks that may be laid."""
    cards = int(tree.held[0, 0])
    found = []
    for node, history in enumerate(histories(tree)):
        public, seat = read(history, cards), int(tree.mover[node])
        holds = cards - sum(rank != PASS for who, rank in history if who == seat)
        for hand in combinations_with_replacement(range(13), holds):
            together = hand + public.laid
            if any(together.count(rank) > pack[rank] for rank in set(hand)):
                continue
            if any(value_of(4 * rank) < public.low[seat] for rank in hand):
                continue
            options = [rank for rank in sorted(set(hand)) if public.count + value_of(4 * rank) <= LIMIT]
            if len(options) > 1:
                found.append((node, (history, hand), options))
    return found


def probabilities(tree: Tree, pack: Pack, policy: NDArray[np.float32]) -> Probabilities:
    """A policy by infosets."""
    found: Probabilities = {}
    at = 0
    for node, infoset, options in infosets(tree, pack):
        assert tree.slots[node] <= at < tree.slots[node + 1]
        found[infoset] = {rank: float(policy[at + i]) for i, rank in enumerate(options)}
        at += len(options)
    assert at == len(policy)
    return found


def entries(tree: Tree, pack: Pack, found: Probabilities) -> NDArray[np.float32]:
    """The inverse: a policy's entries; equal ones for infosets that are not in ``found``."""
    return np.array(
        [
            found[infoset][rank] if infoset in found else 1.0 / len(options)
            for _, infoset, options in infosets(tree, pack)
            for rank in options
        ],
        np.float32,
    )


def dealt_pairs(cards: int, pack: Pack) -> list[tuple[Hand, Hand]]:
    """The pairs of hands that a pack has."""
    hands = list(hands_of(cards, pack))
    return [(pone, dealer) for pone in hands for dealer in hands if compatible(pone, dealer, pack)]


def random_weights(cards: int, pack: Pack, seed: int) -> tuple[NDArray[np.float64], dict[tuple[Hand, Hand], float]]:
    """An uneven distribution over the pairs of hands: as a matrix, and by pair, rounded to float32 as a walk has it."""
    numbers = {hand: n for n, hand in enumerate(combinations_with_replacement(range(13), cards))}
    rng = np.random.default_rng(seed)
    pairs = dealt_pairs(cards, pack)
    chances = rng.random(len(pairs)) ** 2
    chances /= chances.sum()
    weights = np.zeros((len(numbers), len(numbers)))
    for (pone, dealer), chance in zip(pairs, chances, strict=True):
        weights[numbers[pone], numbers[dealer]] = chance
    rounded = chances.astype(np.float32).astype(float).tolist()
    return weights, dict(zip(pairs, rounded, strict=True))


def moves(play: Play, policy: Probabilities) -> list[tuple[int, float, Play]]:
    """What the player to act may do: the move, its probability and the play after it.

    Where a policy says nothing, in the order of the last two cards of a player alone, they do it at random.
    """
    options = play.options()
    if not options:
        return [(PASS, 1.0, pass_turn(play))]
    said = policy.get((play.history, play.held[play.turn]), {})
    return [(rank, said.get(rank, 1.0 / len(options)), lay(play, rank)) for rank in options]


def plain_value(play: Play, policy: Probabilities) -> float:
    """The pone's points minus the dealer's if both play a policy."""
    if play.over:
        return float(play.margin)
    return sum(chance * plain_value(after, policy) for _, chance, after in moves(play, policy) if chance > 0.0)


def plain_best(plays: list[tuple[Play, float]], seat: int, policy: Probabilities) -> float:
    """What a seat wins at its best against a policy.

    Args:
        plays: those that look the same to the seat, with their weights: one public history, one own hand.
    """
    first = plays[0][0]
    if first.over:
        sign = 1 if seat == 0 else -1
        return sum(sign * weight * play.margin for play, weight in plays)
    if first.turn == seat:
        choices = [rank for rank, _, _ in moves(first, policy)]
        return max(
            plain_best([(moves(play, policy)[i][2], weight) for play, weight in plays], seat, policy)
            for i in range(len(choices))
        )
    seen: dict[int, list[tuple[Play, float]]] = defaultdict(list)
    for play, weight in plays:
        for move, chance, after in moves(play, policy):
            if chance > 0.0:
                seen[move].append((after, weight * chance))
    return sum(plain_best(group, seat, policy) for group in seen.values())


def plain_best_by_hand(chances: dict[tuple[Hand, Hand], float], seat: int, policy: Probabilities) -> dict[Hand, float]:
    """The values of a best response by the seat's hand."""
    by_hand: dict[Hand, list[tuple[Play, float]]] = defaultdict(list)
    for (pone, dealer), chance in chances.items():
        by_hand[dealer if seat else pone].append((begin(pone, dealer), chance))
    return {hand: plain_best(plays, seat, policy) for hand, plays in by_hand.items()}
