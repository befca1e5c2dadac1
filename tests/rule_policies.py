"""Fixed policies by rank: played through the rules engine for every pair of hands, and written down for a tree's nodes.

A policy is a function of what a player sees by rank: the cards laid in order, by whom, the gos, and the hand. Both ways
to it share only that function, :func:`choose`: here the engine says what has happened, there a plain replay of the path
to a node does. So values that agree say that the tree, its points and its infosets are those of the game.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import hand_tables
from agents.equilibrium.tree import PASS, Tree
from cribbage_env.engine import (
    COUNT,
    COUNT_BEGIN,
    DEALER,
    EVENT_SIZE,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LAID_GO,
    LEFT,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STATE_SIZE,
    TARGET,
    lay_card,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.scoring import MAX_COUNT, card_value, play_parts
from cribbage_env.streams import below, combine

LOWEST, HIGHEST, GREEDY = -1, -2, -3
"""Policies; a number of at least zero is the seed of one that chooses by a hash of all that the player sees."""

Bools = NDArray[np.bool_]


@inline_jit
def choose(
    kind: int,
    cards: NDArray[np.int16],
    seats: NDArray[np.int16],
    gos: NDArray[np.int16],
    laid: int,
    begin: int,
    count: int,
    held: int,
    options: NDArray[np.int64],
    n: int,
) -> int:
    """Which of the n ranks ``options`` a policy lays.

    Args:
        kind: the policy.
        cards: those laid (one more may be written), of which those of the present count begin at ``begin``.
        seats, gos: who laid them; whether the other player said go after them.
        held: the player's hand, four bits a rank.
    """
    if kind == LOWEST:
        return 0
    if kind == HIGHEST:
        return n - 1
    if kind == GREEDY:
        best = -1
        chosen = 0
        for i in range(n):
            cards[laid] = 4 * options[i]
            after = count + int(card_value(4 * options[i]))
            fifteen, thirty_one, pair, run = play_parts(cards, begin, laid + 1, after)
            if fifteen + thirty_one + pair + run > best:
                best = fifteen + thirty_one + pair + run
                chosen = i
        return chosen
    key = combine(kind, held)
    for i in range(laid):
        key = combine(key, 4 * np.int64(cards[i] >> 2) + 2 * np.int64(seats[i]) + np.int64(gos[i]))
    return below(key, n)


@inline_jit
def _add_option(options: NDArray[np.int64], n: int, rank: int) -> int:
    """Put a rank among the first n options, in order, unless it is there; returns how many there are now."""
    at = n
    for i in range(n):
        if options[i] == rank:
            return n
    while at > 0 and options[at - 1] > rank:
        options[at] = options[at - 1]
        at -= 1
    options[at] = rank
    return n + 1


@jit
def _play_pairs(
    begin: int,
    end: int,
    pone_kind: int,
    dealer_kind: int,
    ranks: NDArray[np.int8],
    margins: NDArray[np.int8],
    played: Bools,
) -> None:
    row = np.zeros(STATE_SIZE, np.int16)
    log = np.zeros((0, EVENT_SIZE), np.int16)
    cards, seats, gos = np.zeros(9, np.int16), np.zeros(9, np.int16), np.zeros(9, np.int16)
    options = np.zeros(4, np.int64)
    of_rank = np.zeros(13, np.int64)
    for pone in range(begin, end):
        for dealer in range(ranks.shape[0]):
            of_rank[:] = 0
            for i in range(4):
                of_rank[ranks[pone, i]] += 1
                of_rank[ranks[dealer, i]] += 1
            if of_rank.max() > 4:
                continue
            row[:] = 0
            row[TARGET] = 1000
            row[DEALER] = 1
            row[PHASE] = PLAY
            for i in range(4):
                row[KEPT + i] = 4 * ranks[pone, i]
                row[KEPT + 4 + i] = 4 * ranks[dealer, i]
            row[LEFT] = row[LEFT + 1] = 15
            while row[LAID] < 8:
                seat = int(row[PLAYER])
                bits = playable(row, seat)
                n = 0
                held = 0
                for slot in range(4):
                    rank = row[KEPT + 4 * seat + slot] >> 2
                    if row[LEFT + seat] >> slot & 1:
                        held += 1 << (4 * rank)
                    if bits >> slot & 1:
                        n = _add_option(options, n, rank)
                chosen = 0
                if n > 1:
                    laid = int(row[LAID])
                    for i in range(laid):
                        cards[i] = row[LAID_CARDS + i]
                        seats[i] = row[LAID_BY + i]
                        gos[i] = row[LAID_GO + i]
                    kind = dealer_kind if seat else pone_kind
                    begins, count = int(row[COUNT_BEGIN]), int(row[COUNT])
                    chosen = choose(kind, cards, seats, gos, laid, begins, count, held, options, n)
                slot = 0
                while not bits >> slot & 1 or row[KEPT + 4 * seat + slot] >> 2 != options[chosen]:
                    slot += 1
                lay_card(row, slot, log)
            margins[pone, dealer] = row[SCORE] - row[SCORE + 1]
            played[pone, dealer] = True


def play_pairs(pone_kind: int, dealer_kind: int) -> tuple[NDArray[np.int8], Bools]:
    """Play all pairs of hands of four through the engine: the pone's points minus the dealer's, (1820, 1820); which
    pairs there are."""
    ranks = np.ascontiguousarray(hand_tables().ranks[4])
    margins, played = np.zeros((1820, 1820), np.int8), np.zeros((1820, 1820), np.bool_)
    bounds = np.linspace(0, 1820, 9).astype(int)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(
            pool.map(
                lambda begin, end: _play_pairs(begin, end, pone_kind, dealer_kind, ranks, margins, played),
                bounds[:-1],
                bounds[1:],
            )
        )
    return margins, played


@inline_jit
def _replay(
    tree: Tree,
    node: int,
    extra: int,
    path: NDArray[np.int64],
    cards: NDArray[np.int16],
    seats: NDArray[np.int16],
    gos: NDArray[np.int16],
    low: NDArray[np.int64],
    of_rank: NDArray[np.int64],
    said_go: Bools,
    left: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Follow the path to a node, then lay a card of rank ``extra`` (negative: none).

    Writes the cards laid, who laid them, the gos; the least value that both hold by their passes; how many cards of
    each rank were laid and how many cards both have left. Returns how many cards are laid, where the present count
    begins, and the count.
    """
    steps = 0
    start = node
    while tree.parent[node] >= 0:
        path[steps] = node
        steps += 1
        node = tree.parent[node]
    said_go[:] = False
    low[:] = 1
    of_rank[:] = 0
    left[:] = tree.held[0, 0]
    laid = begin = count = 0
    last_by = -1
    for i in range(steps + (1 if extra >= 0 else 0)):
        if i < steps:
            after = path[steps - 1 - i]
            who, rank = int(tree.mover[tree.parent[after]]), int(tree.by[after])
        else:
            who, rank = int(tree.mover[start]), extra
        ended = False
        if rank == PASS:
            low[who] = max(low[who], MAX_COUNT - count + 1)
            if who != last_by:
                gos[laid - 1] = 1
                said_go[who] = True
                ended = left[last_by] == 0
            else:
                ended = True
        else:
            cards[laid] = 4 * rank
            seats[laid] = who
            gos[laid] = 0
            laid += 1
            count += int(card_value(4 * rank))
            left[who] -= 1
            of_rank[rank] += 1
            last_by = who
            ended = count == MAX_COUNT or (left[who] == 0 and said_go[1 - who])
        if ended:
            count = 0
            begin = laid
            said_go[:] = False
    return laid, begin, count


@jit
def _write(
    tree: Tree,
    all_ranks: NDArray[np.int8],
    num_hands: NDArray[np.int64],
    pone_kind: int,
    dealer_kind: int,
    policy: NDArray[np.float32],
    end_policy: NDArray[np.float32],
) -> int:
    path = np.zeros(24, np.int64)
    cards, seats, gos = np.zeros(9, np.int16), np.zeros(9, np.int16), np.zeros(9, np.int16)
    low, left = np.zeros(2, np.int64), np.zeros(2, np.int64)
    of_rank, said_go = np.zeros(13, np.int64), np.zeros(2, np.bool_)
    options = np.zeros(4, np.int64)
    nodes = len(tree.mover)
    infosets = 0
    entry = end_entry = 0
    for place in range(nodes + len(tree.end_kind)):
        end = place - nodes
        if end < 0:
            laid, begin, count = _replay(tree, place, -1, path, cards, seats, gos, low, of_rank, said_go, left)
            seat = int(tree.mover[place])
        else:
            if tree.end_slots[end] == tree.end_slots[end + 1]:
                continue
            extra = int(tree.end_edge[end])
            parent = tree.end_parent[end]
            laid, begin, count = _replay(tree, parent, extra, path, cards, seats, gos, low, of_rank, said_go, left)
            seat = 0 if left[0] == 2 else 1
        kind = dealer_kind if seat else pone_kind
        for hand in range(num_hands[left[seat]]):
            n = 0
            held = 0
            fits = True
            for i in range(left[seat]):
                rank = int(all_ranks[left[seat], hand, i])
                held += 1 << (4 * rank)
                fits = fits and card_value(4 * rank) >= low[seat]
                fits = fits and of_rank[rank] + (held >> (4 * rank) & 15) <= 4
                if count + int(card_value(4 * rank)) <= MAX_COUNT:
                    n = _add_option(options, n, rank)
            if not fits or n < 2:
                continue
            if end >= 0:
                table = tree.solo_tables[tree.end_table[end]]
                if table[hand, 0] == table[hand, 1]:
                    continue
            chosen = choose(kind, cards, seats, gos, laid, begin, count, held, options, n)
            infosets += 1
            if end < 0:
                policy[entry + chosen] = 1.0
                entry += n
            else:
                end_policy[end_entry] = 1.0 if chosen == 0 else 0.0
                end_entry += 1
    return infosets


def write_policy(tree: Tree, pone_kind: int, dealer_kind: int) -> tuple[NDArray[np.float32], NDArray[np.float32], int]:
    """The same policies at the nodes and the solo ends of a tree of a full pack; how many infosets there are."""
    tables = hand_tables()
    policy = np.zeros(tree.policy_size, np.float32)
    end_policy = np.zeros(int(tree.end_slots[-1]), np.float32)
    counts = np.array([1, 13, 91, 455, 1820])
    infosets = _write(tree, np.ascontiguousarray(tables.ranks), counts, pone_kind, dealer_kind, policy, end_policy)
    return policy, end_policy, int(infosets)


@jit
def _replay_ends(
    begin: int,
    end: int,
    tree: Tree,
    ranks_of_two: NDArray[np.int8],
    seed: int,
    differences: NDArray[np.int64],
) -> None:
    path = np.zeros(24, np.int64)
    cards, seats, gos = np.zeros(9, np.int16), np.zeros(9, np.int16), np.zeros(9, np.int16)
    low, left = np.zeros(2, np.int64), np.zeros(2, np.int64)
    of_rank, said_go = np.zeros(13, np.int64), np.zeros(2, np.bool_)
    row = np.zeros(STATE_SIZE, np.int16)
    log = np.zeros((0, EVENT_SIZE), np.int16)
    filled = np.zeros(2, np.int64)
    for number in range(begin, end):
        parent, extra = tree.end_parent[number], int(tree.end_edge[number])
        laid, _, _ = _replay(tree, parent, extra, path, cards, seats, gos, low, of_rank, said_go, left)
        kind = int(tree.end_kind[number])
        # the cards still held: by a hash, among those that fit
        key = combine(combine(seed, number), 0)
        one = np.uint64(1)
        held = np.full((2, 2), -1, np.int64)
        for who in range(2):
            for i in range(left[who]):
                while True:
                    key += one
                    rank = below(key, 13)
                    if of_rank[rank] < 4 and card_value(4 * rank) >= low[who]:
                        break
                of_rank[rank] += 1
                held[who, i] = rank
        first = 0
        if kind == 0:
            expected = int(tree.pair_tables[tree.end_table[number], held[0, 0], held[1, 0]])
        else:
            solo = kind - 1
            first = below(key + one, 2)
            if held[solo, 0] > held[solo, 1]:
                held[solo, 0], held[solo, 1] = held[solo, 1], held[solo, 0]
            hand = 0
            while ranks_of_two[hand, 0] != held[solo, 0] or ranks_of_two[hand, 1] != held[solo, 1]:
                hand += 1
            expected = int(tree.solo_tables[tree.end_table[number], hand, first])
        expected += int(tree.end_points[number])
        row[:] = 0
        row[TARGET] = 1000
        row[DEALER] = 1
        row[PHASE] = PLAY
        row[LEFT] = row[LEFT + 1] = 15
        filled[:] = 0
        for i in range(laid):
            row[KEPT + 4 * seats[i] + filled[seats[i]]] = cards[i]
            filled[seats[i]] += 1
        for who in range(2):
            for i in range(left[who]):
                row[KEPT + 4 * who + filled[who] + i] = 4 * held[who, i]
        good = True
        for i in range(8):
            seat = int(row[PLAYER])
            bits = playable(row, seat)
            slot = 0
            if i < laid:
                good = good and seat == seats[i]
                while slot < 4 and (not bits >> slot & 1 or row[KEPT + 4 * seat + slot] != cards[i]):
                    slot += 1
            else:
                if first == 1 and bits >> 3 & 1:
                    slot = 3
                while slot < 4 and not bits >> slot & 1:
                    slot += 1
            if slot == 4:
                good = False
                break
            lay_card(row, slot, log)
        if not good:
            differences[0] += 1
        elif row[SCORE] - row[SCORE + 1] != expected:
            differences[1] += 1


def replay_ends(tree: Tree, seed: int) -> tuple[int, int]:
    """Replay every end through the engine from the first card on, with cards held by a hash.

    Returns how many the engine does not play as the tree says, and how many have other points than its tables say.
    """
    ranks_of_two = np.ascontiguousarray(hand_tables().ranks[2, :91, :2])
    shares = np.linspace(0, tree.ends, 17).astype(int)
    differences = np.zeros((16, 2), np.int64)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(
            pool.map(
                lambda share: _replay_ends(
                    shares[share], shares[share + 1], tree, ranks_of_two, seed, differences[share]
                ),
                range(16),
            )
        )
    wrong_way, wrong_points = differences.sum(axis=0).tolist()
    return wrong_way, wrong_points
