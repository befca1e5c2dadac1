"""What any agent does at every infoset of the play: its policy, asked through real observations.

An infoset of the tree is a public history by rank and the mover's hand by rank. An agent sees more: its own discards,
suits, the starter, scores. So the infoset is completed to a game, K times, and the agent's answers are averaged:

* the mover's six cards, suits and discards are drawn from what the agent itself would have been dealt and thrown to
  hold that hand (its posterior: class of six cards x probability of the discard), less likely the more cards of a rank
  the opponent has shown;
* the opponent's cards have suits at random, and the starter is any of the other cards;
* scores are 0-0 before the deal.

The opponent's hidden cards don't matter, since no observation shows them. The game is laid by the engine, card by card,
so that the agent gets just what it would see at the table.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.equilibrium.hands import HAND_COUNTS, NUM_HANDS, HandTables, hand_tables, possible
from agents.equilibrium.policies import infoset_counts, uniform_policy
from agents.equilibrium.prior import LEAST, WAYS, checked_policy, class_policy, six_hands, suit_classes
from agents.equilibrium.reach import reached_ends, reached_infosets
from agents.equilibrium.traverse import Policy
from agents.equilibrium.tree import DEALER_SEAT, PASS, PONE, Tree
from cribbage_env.engine import (
    CARDS,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    KEPT_PLACES,
    LEFT,
    NUM_ACTIONS,
    PAIRS,
    STATE_SIZE,
    apply,
    deal_fixed,
    lay_card,
    new_game,
    rule_numbers,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.rules import Rules
from cribbage_env.scoring import show_table
from cribbage_env.streams import below, combine, unit

_BATCH = 1 << 15  # rows that the agent is asked for at once
_TRIES = 50  # draws of six cards before one is taken that the opponent's cards leave unlikely
_SUIT_ORDERS = np.array(list(permutations(range(4))), np.int64)


class Dealt(NamedTuple):
    """For each hand kept, the six cards it may come from."""

    first: NDArray[np.int64]
    """(1821,): hand h has the entries ``first[h]`` up to ``first[h + 1]``."""
    suit_class: NDArray[np.int32]
    """(M,): which of :func:`agents.equilibrium.prior.suit_classes`."""
    action: NDArray[np.int8]
    """(M,): the discard that keeps the hand."""
    cumulative: NDArray[np.float64]
    """(M,): the probabilities, added up from the first entry of the hand on."""


def dealt(by_class: NDArray[np.floating]) -> Dealt:
    """The posterior of the six cards given the hand kept.

    Args:
        by_class: :func:`agents.equilibrium.prior.class_policy`. Hands that it never keeps come from any six cards, as
            if thrown at random.
    """
    _, number, weight = suit_classes()
    kept = six_hands().kept[number]
    ever = np.zeros(NUM_HANDS[4], np.bool_)
    used = np.asarray(by_class) > LEAST
    ever[kept[used]] = True
    used |= ~ever[kept]
    suit_class, action = np.nonzero(used)
    hand = kept[suit_class, action].astype(np.int64)
    order = np.argsort(hand, kind="stable")
    hand, suit_class, action = hand[order], suit_class[order], action[order]
    probability = weight[suit_class] * np.where(ever[hand], np.asarray(by_class)[suit_class, action], 1.0)
    first = np.searchsorted(hand, np.arange(NUM_HANDS[4] + 1)).astype(np.int64)
    cumulative = np.cumsum(probability)
    before = np.concatenate([[0.0], cumulative])[first[hand]]
    return Dealt(first, suit_class.astype(np.int32), action.astype(np.int8), cumulative - before)


class _Table(NamedTuple):
    """What completing an infoset needs beside the tree."""

    show: NDArray[np.int8]  # cribbage_env.scoring.show_table()
    class_hands: NDArray[np.uint8]
    pone: Dealt
    dealer: Dealt
    ways: NDArray[np.float64]  # agents.equilibrium.prior.WAYS
    suit_orders: NDArray[np.int64]  # (24, 4)
    rules: NDArray[np.int64]  # target, skunk, double skunk
    starter_rank: int  # negative: any


class _Scratch(NamedTuple):
    """Space for one game and its history."""

    row: NDArray[np.int16]
    deck: NDArray[np.int16]  # (13,)
    cards: NDArray[np.int64]  # (12,) the seat's: kept, thrown; the opponent's: kept, thrown
    shown: NDArray[np.int64]  # (13,) how many cards of a rank the opponent has laid, and the starter if it is known
    ranks: NDArray[np.int64]  # (8,) the cards laid
    seats: NDArray[np.int64]  # (8,) who laid them
    path: NDArray[np.int64]  # (8,)


def _scratch() -> _Scratch:
    return _Scratch(
        np.zeros(STATE_SIZE, np.int16),
        np.zeros(13, np.int16),
        *(np.zeros(size, np.int64) for size in (12, 13, 8, 8, 8)),
    )


@inline_jit
def _draw_entry(first: NDArray[np.int64], cumulative: NDArray[np.float64], hand: int, draw: float) -> int:
    """An entry of :class:`Dealt` for a hand; ``draw`` in [0, 1)."""
    low, high = first[hand], first[hand + 1] - 1
    threshold = draw * cumulative[high]
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > threshold:
            high = middle
        else:
            low = middle + 1
    return low


@inline_jit
def _discard_action(row: NDArray[np.int16], seat: int, first: int, second: int) -> int:
    """The action that throws two cards of the seat's six."""
    i = j = 0
    for place in range(6):
        card = row[CARDS + 6 * seat + place]
        if card == first:
            i = place
        elif card == second:
            j = place
    low, high = min(i, j), max(i, j)
    return low * (11 - low) // 2 + high - low - 1


@inline_jit
def _history(tree: Tree, node: int, scratch: _Scratch) -> int:
    """Write the cards laid on the way to a node, by rank, and who laid them; returns how many."""
    steps = 0
    while tree.parent[node] >= 0:
        if tree.by[node] != PASS:
            scratch.path[steps] = node
            steps += 1
        node = tree.parent[node]
    for i in range(steps):
        child = scratch.path[steps - 1 - i]
        scratch.ranks[i] = tree.by[child]
        scratch.seats[i] = tree.mover[tree.parent[child]]
    return steps


@inline_jit
def _whole_hand(tables: HandTables, hand: int, holds: int, seat: int, laid: int, scratch: _Scratch) -> int:
    """The hand of four that a seat kept, given what it holds now and the history."""
    for i in range(laid):
        if scratch.seats[i] == seat:
            hand = int(tables.add[holds, hand, scratch.ranks[i]])
            holds += 1
    return hand


@inline_jit
def _draw_own(source: Dealt, table: _Table, kept: int, key: int, scratch: _Scratch) -> np.uint64:
    """Draw the seat's six cards, ``cards[:6]``, given the hand kept, what the opponent has shown and a known starter.

    Returns their bits. A draw is taken with the likelihood of the opponent's cards. After many draws that these leave
    impossible, the two cards thrown are the first ones that fit.
    """
    one = np.uint64(1)
    draw = np.uint64(key)
    cards = scratch.cards
    for _ in range(_TRIES):
        draw += one
        entry = _draw_entry(source.first, source.cumulative, kept, unit(draw))
        draw += one
        order = table.suit_orders[below(draw, 24)]
        hand = table.class_hands[source.suit_class[entry]]
        throw = int(source.action[entry])
        used = np.uint64(0)
        for i in range(6):
            card = int(hand[KEPT_PLACES[throw, i]]) if i < 4 else int(hand[PAIRS[throw, i - 4]])
            cards[i] = 4 * (card >> 2) + order[card & 3]
            used |= one << np.uint64(cards[i])
        likelihood = 1.0
        for rank in range(13):
            if scratch.shown[rank] > 0:
                own_kept = own = 0
                for i in range(6):
                    own += cards[i] >> 2 == rank
                    own_kept += i < 4 and cards[i] >> 2 == rank
                likelihood *= table.ways[own, scratch.shown[rank]] / table.ways[own_kept, scratch.shown[rank]]
        draw += one
        if unit(draw) < likelihood:
            return used
    for i in range(4, 6):
        used &= ~(one << np.uint64(cards[i]))
    for i in range(4, 6):
        for card in range(52):
            rank = card >> 2
            if not _has(used, card) and _free(used, rank) > scratch.shown[rank]:
                cards[i] = card
                used |= one << np.uint64(card)
                break
    return used


@inline_jit
def _has(used: int, card: int) -> bool:
    return np.int64(used >> np.uint64(card)) & 1 != 0


@inline_jit
def _free(used: int, rank: int) -> int:
    """How many cards of a rank are not in ``used``."""
    free = 4
    for suit in range(4):
        free -= int(np.int64(used >> np.uint64(4 * rank + suit)) & 1)
    return free


@inline_jit
def _complete(
    table: _Table,
    source: Dealt,
    seat: int,
    kept: int,
    laid: int,
    key: int,
    scratch: _Scratch,
    log: NDArray[np.int16],
) -> None:
    """Draw a game in which the seat keeps a hand and the cards of the history are laid, and lay them in ``row``."""
    one = np.uint64(1)
    cards, deck, row, shown = scratch.cards, scratch.deck, scratch.row, scratch.shown
    for rank in range(13):
        shown[rank] = 0
    for i in range(laid):
        if scratch.seats[i] != seat:
            shown[scratch.ranks[i]] += 1
    if table.starter_rank >= 0:
        shown[table.starter_rank] += 1
    used = _draw_own(source, table, kept, key, scratch)
    draw = ~np.uint64(key)
    n = 6
    for i in range(laid):
        if scratch.seats[i] != seat:
            rank = scratch.ranks[i]
            draw += one
            pick = below(draw, _free(used, rank))
            shows = 4 * rank
            while _has(used, shows) or pick > 0:
                pick -= not _has(used, shows)
                shows += 1
            cards[n] = shows
            used |= one << np.uint64(shows)
            n += 1
    starter = -1
    while starter < 0:
        draw += one
        card = below(draw, 52) if table.starter_rank < 0 else 4 * table.starter_rank + below(draw, 4)
        if not _has(used, card):
            starter = card
            used |= one << np.uint64(card)
    high = 51
    while n < 10:  # what the opponent still holds: tens, which fit any go that it said
        if not _has(used, high):
            cards[n] = high
            used |= one << np.uint64(high)
            n += 1
        high -= 1
    low = 0
    while n < 12:
        if not _has(used, low):
            cards[n] = low
            used |= one << np.uint64(low)
            n += 1
        low += 1

    own_at = 0 if seat == PONE else 6
    for i in range(6):
        deck[own_at + i] = cards[i]
        deck[6 - own_at + i] = cards[6 + i]
    deck[12] = starter
    new_game(row, table.rules[0], table.rules[1], table.rules[2], DEALER_SEAT, 0, 0)
    deal_fixed(row, deck)
    for who in (PONE, DEALER_SEAT):
        thrown = 4 if who == seat else 10
        apply(table.show, row, _discard_action(row, who, cards[thrown], cards[thrown + 1]), log)
    for i in range(laid):
        who = scratch.seats[i]
        slot = 0
        while not row[LEFT + who] >> slot & 1 or row[KEPT + 4 * who + slot] >> 2 != scratch.ranks[i]:
            slot += 1
        lay_card(row, slot, log)


@jit
def _write_nodes(
    begin: int,
    end: int,
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    table: _Table,
    wanted: NDArray[np.bool_],
    samples: int,
    seed: int,
    scratch: _Scratch,
    observations: NDArray[np.uint8],
    masks: NDArray[np.int8],
    entries: NDArray[np.int64],
) -> int:
    """Write what the mover sees at the ``wanted`` infosets of nodes ``begin..end - 1``, ``samples`` times each.

    ``entries`` (B, 4) has for each of the four kept cards the policy's entry that laying it belongs to, -1 if it isn't
    legal. Returns the number of rows.
    """
    log = np.zeros((0, EVENT_SIZE), np.int16)
    row = scratch.row
    b = 0
    for n in range(begin, end):
        if tree.slots[n + 1] == tree.slots[n]:
            continue
        seat = int(tree.mover[n])
        holds = int(tree.held[n, seat])
        low = int(tree.lowest[n, seat])
        laid = _history(tree, n, scratch)
        at = tree.slots[n]
        for hand in range(num_hands[holds]):
            options = int(tables.legal[holds, hand, tree.room[n]])
            if options < 2:
                continue
            if not possible(tree.seen[n], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
                continue
            if not wanted[at]:
                at += options
                continue
            kept = _whole_hand(tables, hand, holds, seat, laid, scratch)
            for sample in range(samples):
                key = combine(combine(np.uint64(seed), at), sample)
                _complete(table, table.pone if seat == PONE else table.dealer, seat, kept, laid, key, scratch, log)
                write_observation(row, seat, observations[b])
                write_mask(row, seat, masks[b])
                for slot in range(4):
                    entries[b, slot] = -1
                    if masks[b, FIRST_PLAY + slot]:
                        for place in range(options):
                            if tables.distinct[holds, hand, place] == row[KEPT + 4 * seat + slot] >> 2:
                                entries[b, slot] = at + place
                b += 1
            at += options
    return b


@jit
def _write_ends(
    begin: int,
    end: int,
    tree: Tree,
    tables: HandTables,
    table: _Table,
    wanted: NDArray[np.bool_],
    samples: int,
    seed: int,
    scratch: _Scratch,
    observations: NDArray[np.uint8],
    masks: NDArray[np.int8],
    entries: NDArray[np.int64],
) -> int:
    """The same for the solo ends ``begin..end - 1``; only the card of the lower rank has an entry."""
    log = np.zeros((0, EVENT_SIZE), np.int16)
    row = scratch.row
    b = 0
    for e in range(begin, end):
        if tree.end_slots[e + 1] == tree.end_slots[e]:
            continue
        seat = int(tree.end_kind[e]) - 1
        n = tree.end_parent[e]
        seen = tree.seen[n] + (np.uint64(1) << np.uint64(4 * tree.end_edge[e]))
        laid = _history(tree, n, scratch)
        scratch.ranks[laid] = tree.end_edge[e]
        scratch.seats[laid] = tree.mover[n]
        laid += 1
        at = tree.end_slots[e]
        points = tree.solo_tables[tree.end_table[e]]
        for hand in range(91):
            if points[hand, 0] == points[hand, 1]:
                continue
            if not possible(seen, tables.packed[2, hand], int(tables.lowest[2, hand]), int(tree.lowest[n, seat])):
                continue
            if not wanted[at]:
                at += 1
                continue
            kept = _whole_hand(tables, hand, 2, seat, laid, scratch)
            for sample in range(samples):
                key = combine(combine(~np.uint64(seed), at), sample)
                _complete(table, table.pone if seat == PONE else table.dealer, seat, kept, laid, key, scratch, log)
                write_observation(row, seat, observations[b])
                write_mask(row, seat, masks[b])
                for slot in range(4):
                    lower = row[KEPT + 4 * seat + slot] >> 2 == tables.distinct[2, hand, 0]
                    entries[b, slot] = at if lower and masks[b, FIRST_PLAY + slot] else -1
                b += 1
            at += 1
    return b


@jit
def _set_answers(
    answers: NDArray[np.float64], entries: NDArray[np.int64], rows: int, samples: int, policy: Policy
) -> None:
    """Write the means of the answers to the policy; the samples of an infoset come one after another.

    Cards of one rank are one choice; its probability is the sum of theirs.
    """
    weight = 1.0 / samples
    for b in range(rows):
        for slot in range(4):
            if b % samples == 0 and entries[b, slot] >= 0:
                policy[entries[b, slot]] = 0.0
    for b in range(rows):
        for slot in range(4):
            if entries[b, slot] >= 0:
                policy[entries[b, slot]] += weight * answers[b, FIRST_PLAY + slot]


class _Buffer:
    """Space for a batch of observations."""

    def __init__(self, rows: int) -> None:
        self.scratch = _scratch()
        self.observations = np.zeros((rows, OBSERVATION_SIZE), np.uint8)
        self.masks = np.zeros((rows, NUM_ACTIONS), np.int8)
        self.entries = np.zeros((rows, 4), np.int64)


class AgentPolicy(NamedTuple):
    """What an agent does in the whole play."""

    policy: Policy
    """In the layout of :attr:`agents.equilibrium.tree.Tree.slots`, for both seats."""
    end_policy: Policy
    """For solo ends: in the layout of :attr:`agents.equilibrium.tree.Tree.end_slots`."""


def _batches(rows_up_to: NDArray[np.int64], most: int) -> list[tuple[int, int]]:
    """Ranges of consecutive items with at most so many rows together, if one item has no more.

    Args:
        rows_up_to: (items + 1,) how many rows all items before one have.
    """
    batches, begin = [], 0
    while begin < len(rows_up_to) - 1:
        end = int(np.searchsorted(rows_up_to, rows_up_to[begin] + most, side="right")) - 1
        end = max(end, begin + 1)
        if rows_up_to[end] > rows_up_to[begin]:
            batches.append((begin, end))
        begin = end
    return batches


def agent_policy(
    agent: Agent,
    tree: Tree,
    *,
    throws: tuple[NDArray[np.floating], NDArray[np.floating]] | None = None,
    kept: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None,
    starter_rank: int | None = None,
    samples: int = 1,
    seed: int = 0,
    progress: Callable[[int], object] | None = None,
) -> AgentPolicy:
    """Ask an agent for its policy at the infosets with a choice, through observations (see the module).

    Only infosets that the agent's own choices lead to are asked for: at the others its policy cannot change any value.
    So the first decisions are asked for first, then those that follow. What was not asked for is uniform.

    Args:
        agent: whose ``policy`` is asked.
        tree: the tree of four cards a hand.
        throws: the agent's :func:`agents.equilibrium.prior.class_policy` as pone and as dealer, if known already.
        kept: (1820,) bool for pone and for the dealer, the hands that they ever keep; None: all, and the agent is asked
            everywhere, also where its own choices do not lead.
        starter_rank: the rank of the starter, if the tree is one of a known starter.
        samples: how many games each infoset is completed to; answers are averaged.
        seed: of the samples.
        progress: called with how many observations were answered so far.

    Raises:
        AgentError: an agent whose ``policy`` returns no probabilities.
    """
    pone_throws, dealer_throws = throws or (class_policy(agent, False), class_policy(agent, True))
    table = _Table(
        show_table(), suit_classes()[0], dealt(pone_throws), dealt(dealer_throws), WAYS, _SUIT_ORDERS,
        np.array(rule_numbers(Rules()), np.int64), -1 if starter_rank is None else starter_rank,
    )  # fmt: skip
    asking = _Asking(agent, tree, table, samples, seed, progress)
    policy, end_policy = uniform_policy(tree)
    if kept is None:
        asking.ask(np.ones(tree.policy_size, np.bool_), infoset_counts(tree), policy, is_end=False)
        every = np.ones(len(end_policy), np.bool_)
        asking.ask(every, np.diff(tree.end_slots), end_policy, is_end=True)
        return AgentPolicy(policy, end_policy)
    for holds in range(int(tree.held[0, PONE]), 1, -1):
        marks = [reached_infosets(tree, seat, holds, kept[seat], policy) for seat in (PONE, DEALER_SEAT)]
        asking.ask(marks[0][0] | marks[1][0], marks[0][1] + marks[1][1], policy, is_end=False)
    ends = [reached_ends(tree, seat, kept[seat], policy) for seat in (PONE, DEALER_SEAT)]
    asking.ask(ends[0][0] | ends[1][0], ends[0][1] + ends[1][1], end_policy, is_end=True)
    return AgentPolicy(policy, end_policy)


class _Asking:
    """Asks one agent, batch by batch; the next batch is written while the agent thinks about one."""

    def __init__(
        self,
        agent: Agent,
        tree: Tree,
        table: _Table,
        samples: int,
        seed: int,
        progress: Callable[[int], object] | None,
    ) -> None:
        self._agent = agent
        self._tree = tree
        self._table = table
        self._samples = samples
        self._seed = seed
        self._progress = progress
        self._answered = 0

    def ask(self, wanted: NDArray[np.bool_], counts: NDArray[np.int64], policy: Policy, *, is_end: bool) -> None:
        """Write the agent's answers over a policy, at the infosets that are wanted.

        Args:
            wanted: (entries,) whether an infoset is, at the first of its entries.
            counts: how many of each node, or each end, are.
            policy: of the nodes, or for solo ends.
            is_end: which of the two.
        """
        rows_up_to = np.concatenate([[0], np.cumsum(counts * self._samples)])
        work = _batches(rows_up_to, _BATCH)
        size = max(_BATCH, int(np.diff(rows_up_to).max(initial=0)))
        buffers = [_Buffer(size), _Buffer(size)]
        tree, tables = self._tree, hand_tables()

        def write(number: int) -> int:
            begin, end = work[number]
            to = buffers[number % 2]
            what = (self._table, wanted, self._samples, self._seed)
            into = (to.scratch, to.observations, to.masks, to.entries)
            if is_end:
                return int(_write_ends(begin, end, tree, tables, *what, *into))
            return int(_write_nodes(begin, end, tree, tables, HAND_COUNTS, *what, *into))

        with ThreadPoolExecutor(1) as writer:
            ahead = writer.submit(write, 0) if work else None
            for number in range(len(work)):
                assert ahead is not None
                rows = ahead.result()
                ahead = writer.submit(write, number + 1) if number + 1 < len(work) else None
                batch = buffers[number % 2]
                answers = checked_policy(self._agent, batch.observations[:rows], batch.masks[:rows])
                _set_answers(answers, batch.entries, rows, self._samples, policy)
                self._answered += rows
                if self._progress is not None:
                    self._progress(self._answered)
