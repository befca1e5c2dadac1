"""What happened in a game that is given by its decks and actions: every event with its breakdown, compiled.

:class:`cribbage_env.Game` logs the same while a game is played; here thousands of games a second are logged after it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import NO_CARD
from cribbage_env.engine import (
    BETWEEN,
    CARD_EVENT,
    CARDS,
    COUNT_BEGIN,
    CRIB_EVENT,
    DEAL,
    DEALER,
    EVENT_SIZE,
    HAND_EVENT,
    KEPT,
    LAID,
    LAID_CARDS,
    LAID_GO,
    MAX_EVENTS,
    OVER,
    PHASE,
    PLAY,
    PLAYER,
    STARTER,
    STATE_SIZE,
    THROWN,
    State,
    apply,
    deal_fixed,
    deal_from_seed,
    forfeit,
    is_legal,
    new_game,
    rule_numbers,
)
from cribbage_env.jit import jit
from cribbage_env.rules import Rules
from cribbage_env.scoring import flush_points, nobs_points, play_parts, rank_points, show_table

DECK_SIZE = 13

# The columns of a logged event: the engine's (cribbage_env.engine.EVENT_SIZE of them), then these.
EVENT_CARDS = EVENT_SIZE  # 4 cards of a hand or crib, sorted; otherwise the card laid or the starter, and NO_CARD
EVENT_PARTS = EVENT_CARDS + 4  # 5 points by part: of a card as in PlayScore (4), of a hand or crib as in HandScore
EVENT_DEAL = EVENT_PARTS + 5  # 0, 1, ...
LOG_SIZE = EVENT_DEAL + 1


class GameLog(NamedTuple):
    """A game, as far as its actions went."""

    row: State  # (STATE_SIZE,) int16, the engine's state after them
    decks: NDArray[np.int16]  # (D, 13) as dealt: pone's six and the dealer's six, each sorted, and the starter
    actions: NDArray[np.int8]  # (A,) those that were taken
    deals: NDArray[np.int16]  # (A,) the deal of each action
    cards: NDArray[np.int8]  # (A, 2) the cards that a discard threw, sorted; of a play the card laid, and NO_CARD
    said_go: NDArray[np.bool_]  # (A,) whether the other seat said go after a play
    events: NDArray[np.int16]  # (E, LOG_SIZE)
    illegal_action: int | None  # the last action given, if it was illegal: the game was forfeited by it


@jit
def _log_game(
    table: NDArray[np.int8],
    row: State,
    seed: int,
    given: NDArray[np.int16],
    actions: NDArray[np.int64],
    decks: NDArray[np.int16],
    deals: NDArray[np.int16],
    cards: NDArray[np.int8],
    said_go: NDArray[np.bool_],
    events: NDArray[np.int16],
) -> tuple[int, int]:
    """Take the actions from the state before the first deal on, up to the first illegal one or the game's end.

    Returns how many were taken and how many events they made; see :class:`GameLog` for what is written.
    """
    log = np.zeros((1 + MAX_EVENTS, EVENT_SIZE), np.int16)
    counts = np.zeros(13, np.int64)
    taken = 0
    num_events = 0
    while True:
        if row[PHASE] == BETWEEN:
            deal = int(row[DEAL]) + 1
            if deal < given.shape[0]:
                deal_fixed(row, given[deal])
            else:
                deal_from_seed(row, seed)
            dealer = int(row[DEALER])
            for i in range(6):
                decks[deal, i] = row[CARDS + 6 * (1 - dealer) + i]
                decks[deal, 6 + i] = row[CARDS + 6 * dealer + i]
            decks[deal, 12] = row[STARTER]
        if taken == actions.shape[0] or row[PHASE] == OVER or not is_legal(row, actions[taken]):
            return taken, num_events

        seat = int(row[PLAYER])
        is_play = row[PHASE] == PLAY
        laid = int(row[LAID])
        begin = int(row[COUNT_BEGIN])
        log[0, 0] = 0
        apply(table, row, actions[taken], log)
        deals[taken] = row[DEAL]
        if is_play:
            cards[taken, 0] = row[LAID_CARDS + laid]
            cards[taken, 1] = NO_CARD
            said_go[taken] = row[LAID_GO + laid] != 0
        else:
            cards[taken, 0] = row[THROWN + 2 * seat]
            cards[taken, 1] = row[THROWN + 2 * seat + 1]
            said_go[taken] = False
        taken += 1

        for i in range(log[0, 0]):
            event = events[num_events]
            for j in range(EVENT_SIZE):
                event[j] = log[1 + i, j]
            event[EVENT_DEAL] = row[DEAL]
            for j in range(5):
                event[EVENT_PARTS + j] = 0
            event[EVENT_CARDS] = event[4]
            for j in range(1, 4):
                event[EVENT_CARDS + j] = NO_CARD
            kind = int(event[0])
            if kind == CARD_EVENT:
                parts = play_parts(row, LAID_CARDS + begin, LAID_CARDS + laid + 1, int(event[3]))
                for j in range(4):
                    event[EVENT_PARTS + j] = parts[j]
            elif kind in (HAND_EVENT, CRIB_EVENT):
                at = THROWN if kind == CRIB_EVENT else KEPT + 4 * int(event[1])
                four = np.sort(row[at : at + 4])
                starter = int(row[STARTER])
                counts[:] = 0
                counts[starter >> 2] += 1
                for j in range(4):
                    event[EVENT_CARDS + j] = four[j]
                    counts[four[j] >> 2] += 1
                fifteens, pairs, runs = rank_points(counts)
                c0, c1, c2, c3 = int(four[0]), int(four[1]), int(four[2]), int(four[3])
                event[EVENT_PARTS] = fifteens
                event[EVENT_PARTS + 1] = pairs
                event[EVENT_PARTS + 2] = runs
                event[EVENT_PARTS + 3] = flush_points(c0, c1, c2, c3, starter, kind == CRIB_EVENT)
                event[EVENT_PARTS + 4] = nobs_points(c0, c1, c2, c3, starter)
            num_events += 1


def log_game(
    rules: Rules,
    seed: int,
    dealer: int,
    actions: Sequence[int] | NDArray[np.integer],
    *,
    scores: Sequence[int] = (0, 0),
    decks: Sequence[Sequence[int]] = (),
) -> GameLog:
    """Play a game's actions over and log what happens.

    Args:
        rules, seed, dealer, scores, decks: as of :class:`cribbage_env.Game`; ``dealer`` is a seat, and a deck is 13
            ints.
        actions: 0..18 each, in order. They may end before the game does. The last one may be illegal: the game is then
            forfeited by the seat to act.

    Raises:
        ValueError: actions after the game's end or after an illegal one.
    """
    given = np.asarray(decks, np.int16).reshape(-1, DECK_SIZE)
    chosen = np.asarray(actions, np.int64)
    n = len(chosen)
    row: State = np.zeros(STATE_SIZE, np.int16)
    new_game(row, *rule_numbers(rules), dealer, int(scores[0]), int(scores[1]))
    dealt = np.zeros((n // 2 + 1, DECK_SIZE), np.int16)  # a deal has two actions or more, but for the last one
    deals = np.zeros(n, np.int16)
    cards = np.zeros((n, 2), np.int8)
    said_go = np.zeros(n, np.bool_)
    events = np.zeros((MAX_EVENTS * n, LOG_SIZE), np.int16)
    taken, num_events = _log_game(
        show_table(), row, np.uint64(seed), given, chosen, dealt, deals, cards, said_go, events
    )
    illegal = None
    if taken < n:
        if row[PHASE] == OVER:
            raise ValueError(f"the game is over after {taken} actions, there are {n}")
        if taken < n - 1:
            raise ValueError(f"action {taken + 1} of {n}, {chosen[taken]}, is illegal")
        illegal = int(chosen[taken])
        forfeit(row, int(row[PLAYER]))
    return GameLog(
        row=row,
        decks=dealt[: int(row[DEAL]) + 1],
        actions=chosen[:taken].astype(np.int8),
        deals=deals[:taken],
        cards=cards[:taken],
        said_go=said_go[:taken],
        events=events[:num_events],
        illegal_action=illegal,
    )
