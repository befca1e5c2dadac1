"""The public game tree of the play, by ranks.

A node is what both players have seen of a play: the cards laid by rank, by whom, and the gos. The hands stay private:
at a node where a player holds k cards, any multiset of k ranks (:mod:`agents.equilibrium.hands`) that fits what is
public may be theirs. The player to act lays a card of a rank, or passes if they hold nothing that fits the count: a
pass is a go, or the end of the count when the other player has said go already. Passes are forced, never chosen.

Points and the order of moves come from the engine (:func:`cribbage_env.engine.lay_card`): the builder lays each card in
a game of its own, with stand-ins for the cards not known (an ace where a player can go on, a king where not).

The tree ends where nothing is left to decide against an opponent: when each player holds one card (*pair ends*), or one
holds two and the other none (*solo ends*, where only the order of the last two cards is open). Such an end has a table
of what is still scored, by the cards held.

With a pack of fewer cards and hands of two or three the same code builds the smaller games of the tests.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.hands import HAND_COUNTS, MAX_CARDS, MAX_COPIES, MAX_VALUE, NUM_HANDS, hand_tables, possible
from cribbage_env.cards import NUM_RANKS
from cribbage_env.engine import (
    COUNT,
    COUNT_BEGIN,
    DEALER,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    LAID,
    LAID_CARDS,
    LEFT,
    PHASE,
    PLAY,
    PLAYER,
    SAID_GO,
    SCORE,
    STATE_SIZE,
    TARGET,
    forced_action,
    lay_card,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.scoring import MAX_COUNT, card_value

PONE, DEALER_SEAT = 0, 1
"""The players; the pone leads. They are also the seats of the engine's rows here."""

PASS = 13
"""The edge of a player who can lay nothing; edges 0..12 lay a card of that rank."""

PAIR_END, PONE_SOLO, DEALER_SOLO = 0, 1, 2
"""Kinds of ends; of a solo end, who holds the two cards."""

MAX_DEPTH = 24
"""At least as many nodes as are on a way from the root to an end: eight cards, and passes between them."""

_NO_TARGET = 30_000  # the play is scored to its end
_ACE, _KING = 0, 48
_KEYS_A_TASK = 1 << 14


class Tree(NamedTuple):
    """The tree as arrays: nodes in depth-first order, each with its edges in a row, and the ends."""

    mover: NDArray[np.int8]
    """(N,): who acts, :data:`PONE` or :data:`DEALER_SEAT`."""
    held: NDArray[np.int8]
    """(N, 2): how many cards pone and dealer hold."""
    laid: NDArray[np.int16]
    """(N, 2): the hands that pone and dealer have laid so far."""
    room: NDArray[np.int8]
    """(N,): the greatest value that may be laid, at most 10."""
    running_count: NDArray[np.int8]
    """(N,): the count, 0 to 30."""
    lowest: NDArray[np.int8]
    """(N, 2): the least value of the cards that pone and dealer hold, by the gos they said; 1 without."""
    seen: NDArray[np.uint64]
    """(N,): the cards laid, and those not in the pack, four bits a rank."""
    parent: NDArray[np.int32]
    """(N,): the node before; -1 for the root."""
    by: NDArray[np.int8]
    """(N,): the edge that led here: a rank or :data:`PASS`; -1 for the root."""
    edges: NDArray[np.int64]
    """(N + 1,): node n has the edges ``edges[n]`` up to ``edges[n + 1]``."""
    slots: NDArray[np.int64]
    """(N + 1,): node n's decisions have the entries ``slots[n]`` up to ``slots[n + 1]`` of a policy, in the order of
    the mover's possible hands: as many for each as there are legal ranks, if there are two or more."""
    edge: NDArray[np.int8]
    """(E,): a rank or :data:`PASS`."""
    child: NDArray[np.int32]
    """(E,): a node, or -1 - the number of an end."""
    points: NDArray[np.int8]
    """(N,): pone's points minus dealer's, on the way to the node."""
    end_kind: NDArray[np.int8]
    """(L,): :data:`PAIR_END`, :data:`PONE_SOLO` or :data:`DEALER_SOLO`."""
    end_table: NDArray[np.int32]
    """(L,): which of the tables below for its kind."""
    end_parent: NDArray[np.int32]
    """(L,): the node it follows."""
    end_edge: NDArray[np.int8]
    """(L,): the rank laid there."""
    end_points: NDArray[np.int8]
    """(L,): pone's points minus dealer's on the way to that node: the tables count from there."""
    end_laid: NDArray[np.int16]
    """(L, 2): the hands laid by both."""
    end_slots: NDArray[np.int64]
    """(L + 1,): a solo end's decisions have the entries ``end_slots[l]`` up to ``end_slots[l + 1]`` of a policy for the
    ends: one for each possible hand of two whose order counts, the probability of laying the lower rank first."""
    pair_tables: NDArray[np.int8]
    """(T, 13, 13): pone's points minus dealer's in a pair end, by the rank that pone and dealer still hold (any, if
    they hold none)."""
    solo_tables: NDArray[np.int8]
    """(U, 91, 2): the same in a solo end, by the hand of two, when its lower or its higher rank is laid first."""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.mover)

    @property
    def ends(self) -> int:
        """How many ends there are."""
        return len(self.end_kind)

    @property
    def policy_size(self) -> int:
        """Entries of a policy: a probability for each legal rank of each hand with a choice, at all nodes."""
        return int(self.slots[-1])


@inline_jit
def _lay(row: NDArray[np.int16], seat: int, rank: int, other_can: bool, seat_can: bool, log: NDArray[np.int16]) -> None:
    """Let the seat lay a card of a rank in ``row``; the other cards are aces or kings, as each can go on or not."""
    other = 1 - seat
    for slot in range(4):
        row[KEPT + 4 * seat + slot] = _ACE if seat_can else _KING
        row[KEPT + 4 * other + slot] = _ACE if other_can else _KING
    row[KEPT + 4 * seat] = 4 * rank
    row[PLAYER] = seat
    lay_card(row, 0, log)
    row[LEFT + seat] >>= 1  # which slots are left doesn't matter, only how many


@inline_jit
def _begin(row: NDArray[np.int16], cards: int) -> None:
    """Set up a play with so many cards a hand."""
    row[:] = 0
    row[TARGET] = _NO_TARGET
    row[DEALER] = DEALER_SEAT
    row[PHASE] = PLAY
    row[PLAYER] = PONE
    row[LEFT] = (1 << cards) - 1
    row[LEFT + 1] = (1 << cards) - 1
    row[LAID] = 2 * (MAX_CARDS - cards)  # so that the last card is the eighth
    row[COUNT_BEGIN] = row[LAID]


@inline_jit
def _margin(row: NDArray[np.int16]) -> int:
    return int(row[SCORE]) - int(row[SCORE + 1])


@inline_jit
def _cards_that_matter(row: NDArray[np.int16], rank: int) -> int:
    """How many of the count's cards can still score with what comes after ``rank`` is laid on them.

    At most two more cards follow. Cards score together if they are all equal, or a run: all different, and none missing
    between them once two more are there. The others only make the tables many, without a difference between them.
    """
    end = int(row[LAID])
    seen = 1 << rank
    low = high = rank
    matter = 0
    equal = different = True
    for length in range(1, end - int(row[COUNT_BEGIN]) + 1):
        card = int(row[LAID_CARDS + end - length]) >> 2
        equal = equal and card == rank
        different = different and not seen >> card & 1
        seen |= 1 << card
        low = min(low, card)
        high = max(high, card)
        if equal or (different and high - low <= length + 2):
            matter = length
    return matter


@inline_jit
def _state_key(row: NDArray[np.int16], rank: int, kind: int) -> int:
    """A number for what an end's table depends on: the count and its cards with the one laid now, who laid it, gos."""
    key = 1
    for i in range(int(row[LAID]) - _cards_that_matter(row, rank), int(row[LAID])):
        key = key * 13 + (int(row[LAID_CARDS + i]) >> 2)
    key = key * 13 + rank
    key = key * 32 + int(row[COUNT])
    key = key * 2 + int(row[PLAYER])
    key = key * 2 + int(row[SAID_GO])
    key = key * 2 + int(row[SAID_GO + 1])
    return key * 3 + kind


@inline_jit
def _finish(row: NDArray[np.int16], log: NDArray[np.int16]) -> None:
    """Lay what is left, where nobody has a choice."""
    while row[LAID] < 8:
        lay_card(row, forced_action(row) - FIRST_PLAY, log)


@jit
def _pair_table(before: NDArray[np.int16], rank: int, row: NDArray[np.int16], out: NDArray[np.int8]) -> None:
    """Fill a pair end's table (13, 13), for the game before its last open card, of ``rank``, is laid."""
    log = np.zeros((0, EVENT_SIZE), np.int16)
    seat = int(before[PLAYER])
    for pone_rank in range(NUM_RANKS):
        for dealer_rank in range(NUM_RANKS):
            row[:] = before
            row[KEPT + 4 * seat] = 4 * rank
            row[KEPT + 4 * seat + 1] = 4 * (pone_rank if seat == PONE else dealer_rank)
            row[KEPT + 4 * (1 - seat)] = 4 * (dealer_rank if seat == PONE else pone_rank)
            lay_card(row, 0, log)
            _finish(row, log)
            out[pone_rank, dealer_rank] = _margin(row) - _margin(before)


@jit
def _solo_table(
    before: NDArray[np.int16],
    rank: int,
    solo: int,
    pairs: NDArray[np.int8],
    row: NDArray[np.int16],
    out: NDArray[np.int8],
) -> None:
    """Fill a solo end's table (91, 2) in the same way; ``pairs`` (1820, 4) are the ranks of hands of two.

    The higher rank is laid first only where the count allows it.
    """
    log = np.zeros((0, EVENT_SIZE), np.int16)
    seat = int(before[PLAYER])
    at = KEPT + 4 * solo + (1 if seat == solo else 0)
    for hand in range(91):
        for first in range(2):
            row[:] = before
            row[KEPT + 4 * seat] = 4 * rank
            row[at] = 4 * pairs[hand, first]
            row[at + 1] = 4 * pairs[hand, 1 - first]
            lay_card(row, 0, log)
            while row[LAID] < 8:  # the first of the two that fits
                bits = playable(row, solo)
                slot = 0
                while not bits >> slot & 1:
                    slot += 1
                lay_card(row, slot, log)
            out[hand, first] = _margin(row) - _margin(before)


@inline_jit
def _enough(seen: int, lowest: int, needed: int) -> bool:
    """Whether the pack still has so many cards of a value of at least ``lowest``."""
    left = 0
    for rank in range(NUM_RANKS):
        if card_value(4 * rank) >= lowest:
            left += MAX_COPIES - int(np.int64(seen >> np.uint64(4 * rank)) & 15)
    return left >= needed


@inline_jit
def _held(row: NDArray[np.int16], seat: int) -> int:
    bits = int(row[LEFT + seat])
    return (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1)


@jit
def _walk(
    cards: int,
    pack: NDArray[np.int64],
    add: NDArray[np.int16],
    fill: bool,
    mover: NDArray[np.int8],
    held: NDArray[np.int8],
    laid: NDArray[np.int16],
    room: NDArray[np.int8],
    running_count: NDArray[np.int8],
    lowest: NDArray[np.int8],
    seen: NDArray[np.uint64],
    parent: NDArray[np.int32],
    by: NDArray[np.int8],
    edges: NDArray[np.int64],
    edge: NDArray[np.int8],
    child: NDArray[np.int32],
    points: NDArray[np.int8],
    end_key: NDArray[np.int64],
    end_parent: NDArray[np.int32],
    end_points: NDArray[np.int8],
    end_laid: NDArray[np.int16],
) -> tuple[int, int, int]:
    """Walk the tree depth first; returns how many nodes, edges and ends it has. With ``fill`` they are written down."""
    log = np.zeros((0, EVENT_SIZE), np.int16)
    rows = np.zeros((MAX_DEPTH, STATE_SIZE), np.int16)  # the game at the nodes on the path
    before = np.zeros((MAX_DEPTH, STATE_SIZE), np.int16)  # the game before the last card was laid
    after = np.zeros(STATE_SIZE, np.int16)
    last = np.zeros((MAX_DEPTH, 2), np.int64)  # who laid that card, and its rank
    hands = np.zeros((MAX_DEPTH, 2), np.int64)  # laid by both
    low = np.ones((MAX_DEPTH, 2), np.int64)
    gone = np.zeros(MAX_DEPTH, np.uint64)  # seen
    node = np.zeros(MAX_DEPTH, np.int64)
    options = np.zeros((MAX_DEPTH, 14), np.int64)
    num_options = np.zeros(MAX_DEPTH, np.int64)
    taken = np.zeros(MAX_DEPTH, np.int64)
    first_edge = np.zeros(MAX_DEPTH, np.int64)

    _begin(rows[0], cards)
    for rank in range(NUM_RANKS):
        gone[0] |= np.uint64(MAX_COPIES - pack[rank]) << np.uint64(4 * rank)
    nodes = num_edges = ends = 0
    depth = 0
    entering = True
    led_by, led_from = -1, -1
    while depth >= 0:
        row = rows[depth]
        seat = int(row[PLAYER])
        other = 1 - seat
        space = MAX_COUNT - int(row[COUNT])
        own, others = _held(row, seat), _held(row, other)
        if entering:
            entering = False
            n = 0
            for rank in range(NUM_RANKS):
                value = card_value(4 * rank)
                if value > space or value < low[depth, seat] or int(gone[depth] >> np.uint64(4 * rank)) & 15 >= 4:
                    continue
                seen_then = gone[depth] + (np.uint64(1) << np.uint64(4 * rank))
                if _enough(seen_then, low[depth, seat], own - 1):
                    options[depth, n] = rank
                    n += 1
            if space < MAX_VALUE and _enough(gone[depth], max(low[depth, seat], space + 1), own):
                options[depth, n] = PASS
                n += 1
            node[depth] = nodes
            num_options[depth] = n
            taken[depth] = 0
            first_edge[depth] = num_edges
            if fill:
                mover[nodes] = seat
                held[nodes, seat] = own
                held[nodes, other] = others
                room[nodes] = min(space, MAX_VALUE)
                running_count[nodes] = row[COUNT]
                seen[nodes] = gone[depth]
                parent[nodes] = led_from
                by[nodes] = led_by
                edges[nodes] = num_edges
                points[nodes] = _margin(row)
                for who in range(2):
                    laid[nodes, who] = hands[depth, who]
                    lowest[nodes, who] = low[depth, who]
                for i in range(n):
                    edge[num_edges + i] = options[depth, i]
            nodes += 1
            num_edges += n
        if taken[depth] == num_options[depth]:
            depth -= 1
            continue

        choice = options[depth, taken[depth]]
        at_edge = first_edge[depth] + taken[depth]
        taken[depth] += 1
        down = depth + 1
        if choice == PASS:
            after[:] = before[depth]
            by_whom, rank = last[depth]
            _lay(after, by_whom, rank, False, seat != by_whom, log)
            before[down] = before[depth]
            last[down] = last[depth]
            hands[down] = hands[depth]
            gone[down] = gone[depth]
            low[down] = low[depth]
            low[down, seat] = max(low[depth, seat], space + 1)
        else:
            after[:] = row
            _lay(after, seat, choice, others > 0, own > 1, log)
            before[down] = row
            last[down, 0] = seat
            last[down, 1] = choice
            hands[down] = hands[depth]
            hands[down, seat] = add[cards - own, hands[depth, seat], choice]
            gone[down] = gone[depth] + (np.uint64(1) << np.uint64(4 * choice))
            low[down] = low[depth]
            pone_holds, dealer_holds = _held(after, PONE), _held(after, DEALER_SEAT)
            if pone_holds + dealer_holds == 2:
                if fill:
                    kind = PONE_SOLO if pone_holds == 2 else DEALER_SOLO if dealer_holds == 2 else PAIR_END
                    child[at_edge] = -1 - ends
                    end_key[ends] = _state_key(row, choice, kind)
                    end_parent[ends] = node[depth]
                    end_points[ends] = _margin(row)
                    end_laid[ends, PONE] = hands[down, PONE]
                    end_laid[ends, DEALER_SEAT] = hands[down, DEALER_SEAT]
                ends += 1
                continue
        rows[down] = after
        if fill:
            child[at_edge] = nodes
        led_by, led_from = choice, node[depth]
        depth = down
        entering = True
    if fill:
        edges[nodes] = num_edges
    return nodes, num_edges, ends


@jit
def _game_of_key(key: int, row: NDArray[np.int16]) -> tuple[int, int]:
    """Set ``row`` to a game of that :func:`_state_key`, before the card is laid; returns its rank and the kind."""
    kind = key % 3
    key //= 3
    _begin(row, MAX_CARDS)
    row[SAID_GO + 1] = key % 2
    row[SAID_GO] = key // 2 % 2
    seat = key // 4 % 2
    row[PLAYER] = seat
    row[COUNT] = key // 8 % 32
    key //= 8 * 32
    rank = key % 13
    key //= 13
    row[LAID] = 5
    at = 5
    while key > 1:
        at -= 1
        row[LAID_CARDS + at] = 4 * (key % 13)
        key //= 13
    row[COUNT_BEGIN] = at
    for who in range(2):
        holds = 1 if kind == PAIR_END else 2 if who == kind - 1 else 0
        row[LEFT + who] = (1 << (holds + (1 if who == seat else 0))) - 1
    return rank, kind


@jit
def _fill_tables(
    keys: NDArray[np.int64],
    pairs: NDArray[np.int8],
    number: NDArray[np.int32],
    pair_tables: NDArray[np.int8],
    solo_tables: NDArray[np.int8],
) -> None:
    """The tables of some keys, each written to the place ``number`` in that of its kind."""
    before = np.zeros(STATE_SIZE, np.int16)
    row = np.zeros(STATE_SIZE, np.int16)
    for i in range(len(keys)):
        rank, kind = _game_of_key(keys[i], before)
        if kind == PAIR_END:
            _pair_table(before, rank, row, pair_tables[number[i]])
        else:
            _solo_table(before, rank, kind - 1, pairs, row, solo_tables[number[i]])


def _end_tables(
    keys: NDArray[np.int64], pairs: NDArray[np.int8]
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int32]]:
    """The different tables of pair ends and of solo ends, and which of them each key (K,) has: (K,) int32."""
    is_pair = keys % 3 == PAIR_END
    number = (np.where(is_pair, np.cumsum(is_pair), np.cumsum(~is_pair)) - 1).astype(np.int32)
    pair_tables = np.zeros((int(is_pair.sum()), NUM_RANKS, NUM_RANKS), np.int8)
    solo_tables = np.zeros((int((~is_pair).sum()), NUM_HANDS[2], 2), np.int8)
    shares = [slice(start, start + _KEYS_A_TASK) for start in range(0, len(keys), _KEYS_A_TASK)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        list(
            threads.map(lambda share: _fill_tables(keys[share], pairs, number[share], pair_tables, solo_tables), shares)
        )
    pair_tables, pair_number = _different(pair_tables)
    solo_tables, solo_number = _different(solo_tables)
    number[is_pair] = pair_number
    number[~is_pair] = solo_number
    return pair_tables, solo_tables, number


def _different(tables: NDArray[np.int8]) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """The different ones of tables (T, ...), and which of them each is."""
    flat = tables.reshape(len(tables), math.prod(tables.shape[1:]))
    rows = flat.view(np.dtype((np.void, flat.shape[1]))).ravel()
    _, first, which = np.unique(rows, return_index=True, return_inverse=True)
    return tables[first], which


@inline_jit
def fits(packed: NDArray[np.uint64], lows: NDArray[np.int8], seen: int, lowest: int, cards: int, hand: int) -> bool:
    """Whether a player of whom ``lowest`` is known may hold a hand when ``seen`` is elsewhere.

    ``packed`` and ``lows`` are the tables ``packed`` and ``lowest`` of :class:`agents.equilibrium.hands.HandTables`.
    """
    return possible(seen, packed[cards, hand], int(lows[cards, hand]), lowest)


@jit
def _count_slots(
    packed: NDArray[np.uint64],
    lows: NDArray[np.int8],
    legal: NDArray[np.int8],
    num_hands: NDArray[np.int64],
    mover: NDArray[np.int8],
    held: NDArray[np.int8],
    room: NDArray[np.int8],
    lowest: NDArray[np.int8],
    seen: NDArray[np.uint64],
    slots: NDArray[np.int64],
) -> None:
    """Fill :attr:`Tree.slots`."""
    total = 0
    for n in range(len(mover)):
        slots[n] = total
        seat = int(mover[n])
        cards = int(held[n, seat])
        if cards < 2:
            continue
        for hand in range(num_hands[cards]):
            options = int(legal[cards, hand, room[n]])
            if options > 1 and fits(packed, lows, seen[n], int(lowest[n, seat]), cards, hand):
                total += options
    slots[len(mover)] = total


@jit
def _count_end_slots(
    packed: NDArray[np.uint64],
    lows: NDArray[np.int8],
    end_kind: NDArray[np.int8],
    end_table: NDArray[np.int32],
    end_edge: NDArray[np.int8],
    end_parent: NDArray[np.int32],
    lowest: NDArray[np.int8],
    seen: NDArray[np.uint64],
    solo_tables: NDArray[np.int8],
    end_slots: NDArray[np.int64],
) -> None:
    """Fill :attr:`Tree.end_slots`."""
    total = 0
    for end in range(len(end_kind)):
        end_slots[end] = total
        if end_kind[end] != PAIR_END:
            solo = int(end_kind[end]) - 1
            n = end_parent[end]
            gone = seen[n] + (np.uint64(1) << np.uint64(4 * end_edge[end]))
            table = solo_tables[end_table[end]]
            for hand in range(91):
                if table[hand, 0] != table[hand, 1] and fits(packed, lows, gone, int(lowest[n, solo]), 2, hand):
                    total += 1
    end_slots[len(end_kind)] = total


FULL_PACK = (MAX_COPIES,) * NUM_RANKS


def build_tree(cards: int = MAX_CARDS, pack: tuple[int, ...] = FULL_PACK) -> Tree:
    """Build the tree of the play with so many cards a hand (2 to 4).

    Args:
        cards: how many each player holds.
        pack: (13,) how many cards of each rank there are, 0 to 4. Without one card of the starter's rank it is the tree
            of a play with a known starter.

    Raises:
        ValueError: numbers out of range, or too few cards for two hands.
    """
    if not 2 <= cards <= MAX_CARDS:
        raise ValueError(f"a hand has 2 to {MAX_CARDS} cards, got {cards}")
    if len(pack) != NUM_RANKS or not all(0 <= copies <= MAX_COPIES for copies in pack) or sum(pack) < 2 * cards:
        raise ValueError(f"a pack has 0 to 4 cards of each of 13 ranks, and at least {2 * cards}, got {pack}")
    tables = hand_tables()
    copies = np.array(pack, np.int64)

    def arrays(nodes: int, num_edges: int, ends: int) -> dict[str, NDArray[Any]]:
        return {
            "mover": np.zeros(nodes, np.int8),
            "held": np.zeros((nodes, 2), np.int8),
            "laid": np.zeros((nodes, 2), np.int16),
            "room": np.zeros(nodes, np.int8),
            "running_count": np.zeros(nodes, np.int8),
            "lowest": np.zeros((nodes, 2), np.int8),
            "seen": np.zeros(nodes, np.uint64),
            "parent": np.zeros(nodes, np.int32),
            "by": np.zeros(nodes, np.int8),
            "edges": np.zeros(nodes + 1, np.int64),
            "edge": np.zeros(num_edges, np.int8),
            "child": np.zeros(num_edges, np.int32),
            "points": np.zeros(nodes, np.int8),
            "end_key": np.zeros(ends, np.int64),
            "end_parent": np.zeros(ends, np.int32),
            "end_points": np.zeros(ends, np.int8),
            "end_laid": np.zeros((ends, 2), np.int16),
        }

    sizes = _walk(cards, copies, tables.add, False, *arrays(0, 0, 0).values())
    made = arrays(*sizes)
    _walk(cards, copies, tables.add, True, *made.values())

    keys, which = np.unique(made.pop("end_key"), return_inverse=True)
    pair_tables, solo_tables, number = _end_tables(keys, tables.ranks[2])
    end_kind, end_table = (keys % 3)[which].astype(np.int8), number[which]

    nodes, _, ends = sizes
    slots = np.zeros(nodes + 1, np.int64)
    _count_slots(
        tables.packed, tables.lowest, tables.legal, HAND_COUNTS,
        made["mover"], made["held"], made["room"], made["lowest"], made["seen"], slots,
    )  # fmt: skip
    end_edge = np.zeros(ends, np.int8)
    is_end = made["child"] < 0
    end_edge[-1 - made["child"][is_end]] = made["edge"][is_end]
    end_slots = np.zeros(ends + 1, np.int64)
    _count_end_slots(
        tables.packed, tables.lowest, end_kind, end_table, end_edge, made["end_parent"], made["lowest"], made["seen"],
        solo_tables, end_slots,
    )  # fmt: skip
    return Tree(
        **made,
        slots=slots,
        end_kind=end_kind,
        end_table=end_table,
        end_edge=end_edge,
        end_slots=end_slots,
        pair_tables=pair_tables,
        solo_tables=solo_tables,
    )


class Step(NamedTuple):
    """One edge on the way to a node."""

    seat: int
    """Who acts."""
    edge: int
    """A rank, or :data:`PASS`."""
    running_count: int
    """The count after it; for a pass, the one at which nothing fits."""
    points: int
    """Pone's points minus dealer's that it makes."""


def history(tree: Tree, node: int) -> list[Step]:
    """The way from the root to a node."""
    steps: list[Step] = []
    while tree.parent[node] >= 0:
        before, edge = int(tree.parent[node]), int(tree.by[node])
        count = int(tree.running_count[before]) + (0 if edge == PASS else int(card_value(4 * edge)))
        points = int(tree.points[node]) - int(tree.points[before])
        steps.insert(0, Step(int(tree.mover[before]), edge, count, points))
        node = before
    return steps
