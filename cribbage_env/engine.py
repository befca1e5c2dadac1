"""The compiled state machine of six-card cribbage for two: deal, discard, cut, play, show.

One game is one row of int16 numbers (:data:`STATE_SIZE` of them, named by the constants below); a batch of games is a
2-D array of rows. A row holds the whole state, so copying it copies the game. Nothing else in the project knows the
rules; scores come from :mod:`cribbage_env.scoring`.

The order of things: :func:`new_game`, then :func:`deal_from_seed`; :func:`apply` for every action, until the phase is
``BETWEEN`` (the show is over: call :func:`deal_from_seed` for the next deal) or ``OVER`` (somebody reached the target).
Points count at once, and the game stops dead at the target: what would come after is void. Kernels trust their
caller: ask :func:`is_legal` first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import JACK, NO_CARD
from cribbage_env.jit import inline_jit, jit
from cribbage_env.rules import Rules
from cribbage_env.scoring import HEELS_POINTS, LAST_POINTS, MAX_COUNT, card_value, play_parts, show_points
from cribbage_env.streams import below, combine, mix64

State = NDArray[np.int16]

# Phases
DISCARD, PLAY, BETWEEN, OVER = range(4)

# Actions: 0..14 discard a pair of the six cards, 15..18 play one of the four kept.
NUM_ACTIONS = 19
NUM_DISCARDS = 15
FIRST_PLAY = 15
PAIRS = np.array([(i, j) for i in range(6) for j in range(i + 1, 6)], np.int16)
"""(15, 2): the places of the cards that discard action 0..14 throws, among the six sorted by card int."""

KEPT_PLACES = np.array([[i for i in range(6) if i not in pair] for pair in PAIRS.tolist()], np.int16)
"""(15, 4): the places of the cards that discard action 0..14 keeps."""

# Kinds of scoring events, in the order of EVENT_KINDS
HEELS_EVENT, CARD_EVENT, GO_EVENT, LAST_EVENT, HAND_EVENT, CRIB_EVENT = range(6)
EVENT_KINDS = ("heels", "card", "go", "last", "hand", "crib")
EVENT_SIZE = 7  # kind, player, points, count, card (or NO_CARD), raw score of seat 0, of seat 1
MAX_EVENTS = 8  # one action makes at most: card, last, hand, hand, crib

# Parts of the score, kept for each seat
PARTS = ("heels", "play_dealer", "play_pone", "hand_dealer", "hand_pone", "crib")
HEELS_PART, PLAY_DEALER_PART, PLAY_PONE_PART, HAND_DEALER_PART, HAND_PONE_PART, CRIB_PART = range(6)

# The columns of a row. "(2)" means one column for each seat.
PHASE = 0
PLAYER = 1  # the seat to act
DEALER = 2
SCORE = 3  # (2) raw: the last points may carry it beyond the target
TARGET = 5
SKUNK = 6  # 0: no such line
DOUBLE_SKUNK = 7
WINNER = 8  # a seat, or -1
DEAL = 9  # 0, 1, ...
DECISIONS = 10  # actions taken since the game began
FIRST_DEALER = 11
FORFEIT = 12  # the seat that lost by an illegal action, or -1
STARTER = 13  # in the row from the deal on, seen from the cut on
CUT = 14  # whether the starter was cut
COUNT = 15
COUNT_BEGIN = 16  # the present count's cards are those laid from this one on
LAID = 17  # how many cards were laid in this deal
SAID_GO = 18  # (2) whether the seat has said go in this count
LEFT = 20  # (2) bits of the kept cards not laid yet
CARDS = 22  # (2) x 6 cards dealt, sorted
THROWN = 34  # (2) x 2 cards thrown into the crib, sorted
KEPT = 38  # (2) x 4 cards kept, sorted
LAID_CARDS = 46  # 8: the cards laid in this deal, in order
LAID_BY = 54  # 8: the seat that laid them
LAID_COUNT = 62  # 8: the count after them
LAID_GO = 70  # 8: whether the other seat said go after them
PART_POINTS = 78  # (2) x 6 points by part since the game began
STATE_SIZE = 96

_CUT_STREAM = 2**32  # keys of the cut for deal, apart from those of the decks


@inline_jit
def draw_deck(seed: int, deal: int, out: State, pone_at: int, dealer_at: int, starter_at: int) -> None:
    """Draw the 13 cards of a deal, a function of (seed, deal) alone, in the order pone's six, dealer's six, starter.

    They are written to ``out`` at the places given.
    """
    key = combine(seed, deal)
    taken = np.uint64(0)
    one = np.uint64(1)
    n = 0
    while n < 13:
        card = below(key, 52)
        key += one
        bit = one << np.uint64(card)
        if not taken & bit:
            taken |= bit
            at = pone_at + n if n < 6 else dealer_at + n - 6
            out[starter_at if n == 12 else at] = card
            n += 1


@jit
def cut_for_deal(seed: int) -> int:
    """The seat that deals first: each cuts a card, the lower rank deals, equal ranks cut again."""
    key = combine(seed, _CUT_STREAM)
    step = np.uint64(0)
    while True:
        first = below(key + step, 52)
        second = below(key + step + np.uint64(1), 51)
        second += second >= first  # another card of the same pack
        if first >> 2 != second >> 2:
            return 0 if first >> 2 < second >> 2 else 1
        step += np.uint64(2)


@jit
def game_seed(seed: int, number: int) -> np.uint64:
    """The seed of game ``number`` (0, 1, ...) of an environment that was seeded with ``seed``: game 0 has its seed."""
    if number == 0:
        return np.uint64(seed)
    return mix64(combine(seed, number) ^ np.uint64(0xC21BBA6E))  # a stream of its own, apart from the decks'


@jit
def new_game(row: State, target: int, skunk: int, double_skunk: int, dealer: int, score_0: int, score_1: int) -> None:
    """Set up a game before its first deal, with given scores (below the target). Follow with :func:`deal_from_seed`."""
    row[:] = 0
    row[TARGET] = target
    row[SKUNK] = skunk
    row[DOUBLE_SKUNK] = double_skunk
    row[SCORE] = score_0
    row[SCORE + 1] = score_1
    row[WINNER] = -1
    row[FORFEIT] = -1
    row[DEAL] = -1
    row[FIRST_DEALER] = dealer
    row[DEALER] = 1 - dealer  # dealing passes it on
    row[PHASE] = BETWEEN


@inline_jit
def sort_six(row: State, at: int) -> None:
    """Sort ``row[at : at + 6]``: a sorting network, since branches on random cards are guesses."""
    a, b, c = int(row[at]), int(row[at + 1]), int(row[at + 2])
    d, e, f = int(row[at + 3]), int(row[at + 4]), int(row[at + 5])
    a, f = min(a, f), max(a, f)
    b, d = min(b, d), max(b, d)
    c, e = min(c, e), max(c, e)
    b, c = min(b, c), max(b, c)
    d, e = min(d, e), max(d, e)
    a, d = min(a, d), max(a, d)
    c, f = min(c, f), max(c, f)
    a, b = min(a, b), max(a, b)
    c, d = min(c, d), max(c, d)
    e, f = min(e, f), max(e, f)
    b, c = min(b, c), max(b, c)
    d, e = min(d, e), max(d, e)
    row[at] = a
    row[at + 1] = b
    row[at + 2] = c
    row[at + 3] = d
    row[at + 4] = e
    row[at + 5] = f


@inline_jit
def deal_from_seed(row: State, seed: int) -> None:
    """Pass the deal on and deal the cards that the game's seed gives for the next deal."""
    dealer = 1 - int(row[DEALER])
    draw_deck(seed, int(row[DEAL]) + 1, row, CARDS + 6 * (1 - dealer), CARDS + 6 * dealer, STARTER)
    _begin_deal(row)


@jit
def deal_fixed(row: State, deck: State) -> None:
    """Pass the deal on and deal 13 given cards: pone's six, dealer's six, starter."""
    dealer = 1 - int(row[DEALER])
    for i in range(6):
        row[CARDS + 6 * (1 - dealer) + i] = deck[i]
        row[CARDS + 6 * dealer + i] = deck[6 + i]
    row[STARTER] = deck[12]
    _begin_deal(row)


@inline_jit
def _begin_deal(row: State) -> None:
    """Start a deal whose cards are in place: the other player deals, pone discards first."""
    sort_six(row, CARDS)
    sort_six(row, CARDS + 6)
    row[DEAL] += 1
    row[DEALER] = 1 - row[DEALER]
    row[PHASE] = DISCARD
    row[CUT] = 0
    row[PLAYER] = 1 - row[DEALER]
    row[COUNT] = 0
    row[COUNT_BEGIN] = 0
    row[LAID] = 0
    row[SAID_GO] = 0
    row[SAID_GO + 1] = 0
    row[LEFT] = 0
    row[LEFT + 1] = 0


@inline_jit
def playable(row: State, seat: int) -> int:
    """Bits of the kept cards that the seat may lay: not laid yet, and the count stays at 31 or below."""
    room = MAX_COUNT - int(row[COUNT])
    bits = 0
    for slot in range(4):
        bits |= int(card_value(int(row[KEPT + 4 * seat + slot])) <= room) << slot
    return bits & int(row[LEFT + seat])


@inline_jit
def is_legal(row: State, action: int) -> bool:
    """Whether ``action`` is legal for the seat to act (never, once the deal or game is over)."""
    if row[PHASE] == DISCARD:
        return 0 <= action < NUM_DISCARDS
    if row[PHASE] != PLAY or action < FIRST_PLAY or action >= NUM_ACTIONS:
        return False
    return bool(playable(row, int(row[PLAYER])) >> (action - FIRST_PLAY) & 1)


@inline_jit
def forced_action(row: State) -> int:
    """The only legal action of the seat to act if it is a play without a choice, otherwise -1."""
    if row[PHASE] != PLAY:
        return -1
    plays = playable(row, int(row[PLAYER]))
    if plays & (plays - 1):
        return -1
    return FIRST_PLAY + int(plays > 1) + int(plays > 2) + int(plays > 4)


@inline_jit
def _award(row: State, seat: int, points: int, part: int, kind: int, count: int, card: int, log: State) -> None:
    """Give points at once, end the game at the target, and note the event if a log is kept.

    ``log`` is (1 + MAX_EVENTS, EVENT_SIZE) int16 with the number of events at [0, 0], or has no rows.
    """
    row[SCORE + seat] += points
    row[PART_POINTS + 6 * seat + part] += points
    if row[SCORE + seat] >= row[TARGET]:
        row[WINNER] = seat
        row[PHASE] = OVER
    if log.shape[0] > 0:
        log[0, 0] += 1
        at = log[0, 0]
        log[at, 0] = kind
        log[at, 1] = seat
        log[at, 2] = points
        log[at, 3] = count
        log[at, 4] = card
        log[at, 5] = row[SCORE]
        log[at, 6] = row[SCORE + 1]


@inline_jit
def apply(table: NDArray[np.int8], row: State, action: int, log: State) -> None:
    """Take a legal action, and everything that follows without a choice: the cut, gos, the show.

    Args:
        table: :func:`cribbage_env.scoring.show_table`.
        row: the game, changed in place.
        action: a legal action of the seat to act.
        log: where events are appended (see :func:`_award`); an array without rows keeps none.
    """
    row[DECISIONS] += 1
    if row[PHASE] == DISCARD:
        _discard(row, action, log)
    else:
        lay_card(row, action - FIRST_PLAY, log)
        if row[PHASE] == PLAY and row[LAID] == 8:
            _show(table, row, log)


@inline_jit
def _discard(row: State, action: int, log: State) -> None:
    seat = int(row[PLAYER])
    cards = CARDS + 6 * seat
    for i in range(2):
        row[THROWN + 2 * seat + i] = row[cards + PAIRS[action, i]]
    for i in range(4):
        row[KEPT + 4 * seat + i] = row[cards + KEPT_PLACES[action, i]]
    row[LEFT + seat] = 15
    dealer = int(row[DEALER])
    if seat != dealer:
        row[PLAYER] = dealer
        return
    row[PHASE] = PLAY
    row[CUT] = 1
    row[PLAYER] = 1 - dealer
    starter = int(row[STARTER])
    if starter >> 2 == JACK:
        _award(row, dealer, HEELS_POINTS, HEELS_PART, HEELS_EVENT, 0, starter, log)


@inline_jit
def lay_card(row: State, slot: int, log: State) -> None:
    """Lay a playable card of the seat to act, and settle who plays on; the show is left to :func:`apply`."""
    seat = int(row[PLAYER])
    other = 1 - seat
    card = int(row[KEPT + 4 * seat + slot])
    row[LEFT + seat] &= ~(1 << slot)
    count = int(row[COUNT] + card_value(card))
    row[COUNT] = count
    laid = int(row[LAID])
    row[LAID_CARDS + laid] = card
    row[LAID_BY + laid] = seat
    row[LAID_COUNT + laid] = count
    row[LAID_GO + laid] = 0
    row[LAID] = laid + 1
    fifteen, thirty_one, pair, run = play_parts(row, LAID_CARDS + row[COUNT_BEGIN], LAID_CARDS + laid + 1, count)
    part = PLAY_DEALER_PART if seat == row[DEALER] else PLAY_PONE_PART
    _award(row, seat, fifteen + thirty_one + pair + run, part, CARD_EVENT, count, card, log)
    if row[PHASE] == OVER:
        return

    if count < MAX_COUNT:
        if row[LEFT + other] != 0 and not row[SAID_GO + other]:
            if playable(row, other):
                row[PLAYER] = other
                return
            row[SAID_GO + other] = 1
            row[LAID_GO + laid] = 1
        if playable(row, seat):  # alone: the other said go or is out of cards
            return
        last = laid == 7
        _award(row, seat, LAST_POINTS, part, LAST_EVENT if last else GO_EVENT, count, card, log)
        if row[PHASE] == OVER:
            return

    # a new count: the player who did not lay the last card leads, unless they have no cards
    row[COUNT] = 0
    row[COUNT_BEGIN] = laid + 1
    row[SAID_GO] = 0
    row[SAID_GO + 1] = 0
    row[PLAYER] = other if row[LEFT + other] != 0 else seat


@inline_jit
def _show(table: NDArray[np.int8], row: State, log: State) -> None:
    """Count pone's hand, the dealer's hand and the crib, as long as nobody has won."""
    dealer = int(row[DEALER])
    pone = 1 - dealer
    starter = int(row[STARTER])
    for turn in range(2):
        seat = dealer if turn else pone
        at = KEPT + 4 * seat
        points = show_points(table, row[at], row[at + 1], row[at + 2], row[at + 3], starter, False)
        part = HAND_DEALER_PART if seat == dealer else HAND_PONE_PART
        _award(row, seat, points, part, HAND_EVENT, 0, NO_CARD, log)
        if row[PHASE] == OVER:
            return
    points = show_points(table, row[THROWN], row[THROWN + 1], row[THROWN + 2], row[THROWN + 3], starter, True)
    _award(row, dealer, points, CRIB_PART, CRIB_EVENT, 0, NO_CARD, log)
    if row[PHASE] != OVER:
        row[PHASE] = BETWEEN


@jit
def forfeit(row: State, seat: int) -> None:
    """End the game as lost by ``seat`` (an illegal action): the other seat is given the points that it lacks."""
    other = 1 - seat
    row[FORFEIT] = seat
    row[SCORE + other] = max(row[SCORE + other], row[TARGET])
    row[WINNER] = other
    row[PHASE] = OVER


@jit
def win_level(row: State) -> int:
    """Of a finished game: 0 for a plain win, 1 for a skunk, 2 for a double skunk."""
    loser = int(row[SCORE + 1 - row[WINNER]])
    if loser < row[DOUBLE_SKUNK]:
        return 2
    return 1 if loser < row[SKUNK] else 0


@jit
def random_games(table: NDArray[np.int8], seed: int, games: int, target: int) -> NDArray[np.int64]:
    """Play whole games with uniformly random legal actions in one loop (for speed measurements and tests).

    Returns (4,) int64: games won by the first dealer, deals, decisions, points of both players.
    """
    row = np.zeros(STATE_SIZE, np.int16)
    no_log = np.zeros((0, EVENT_SIZE), np.int16)
    totals = np.zeros(4, np.int64)
    for game in range(games):
        this_seed = game_seed(seed, game)
        new_game(row, target, 0, 0, cut_for_deal(this_seed), 0, 0)
        while row[PHASE] != OVER:
            if row[PHASE] == BETWEEN:
                deal_from_seed(row, this_seed)
            draw = combine(this_seed ^ np.uint64(1), row[DECISIONS])
            if row[PHASE] == DISCARD:
                apply(table, row, below(draw, NUM_DISCARDS), no_log)
            else:
                plays = playable(row, int(row[PLAYER]))
                legal = (plays & 1) + (plays >> 1 & 1) + (plays >> 2 & 1) + (plays >> 3)
                pick = below(draw, legal)
                slot = 0
                while pick > 0 or not plays >> slot & 1:
                    pick -= plays >> slot & 1
                    slot += 1
                apply(table, row, FIRST_PLAY + slot, no_log)
        totals[0] += row[WINNER] == row[FIRST_DEALER]
        totals[1] += row[DEAL] + 1
        totals[2] += row[DECISIONS]
        totals[3] += row[SCORE] + row[SCORE + 1]
    return totals


def rule_numbers(rules: Rules) -> tuple[int, int, int]:
    """(target, skunk, double_skunk) as the kernels take them: 0 where there is no such line."""
    return rules.target, rules.skunk or 0, rules.double_skunk or 0
