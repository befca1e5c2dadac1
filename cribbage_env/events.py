"""What happened in a game, read from the engine's log or, for the present deal, from its state alone."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from cribbage_env.cards import cards_text
from cribbage_env.engine import (
    CARD_EVENT,
    CARDS,
    COUNT,
    COUNT_BEGIN,
    CRIB_EVENT,
    CUT,
    DEAL,
    DEALER,
    DISCARD,
    EVENT_KINDS,
    EVENT_SIZE,
    FIRST_PLAY,
    FORFEIT,
    GO_EVENT,
    HAND_EVENT,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LEFT,
    OVER,
    PAIRS,
    PHASE,
    PLAYER,
    SAID_GO,
    SCORE,
    STARTER,
    TARGET,
    THROWN,
    WINNER,
    State,
    apply,
)
from cribbage_env.scoring import MAX_COUNT, HandScore, PlayScore, score_hand, score_play, show_table

DEAL_EVENTS = 24
"""More events than a deal can have: heels, eight cards, the last cards of eight counts, two hands and a crib."""

_NO_TARGET = 2**14


@dataclass(frozen=True)
class Event:
    """One thing that scored, or a card laid.

    ``kind`` is ``heels``, ``card``, ``go`` (the last card of a count), ``last`` (the last card of the play), ``hand``
    or ``crib``; cards, hands and cribs are noted also when they score nothing.
    """

    kind: str
    player: int  # the seat that scores
    points: int
    count: int  # of the play, after the card; 0 for heels, hand and crib
    scores: tuple[int, int]  # after the event, at most the target
    raw_scores: tuple[int, int]  # after the event
    cards: tuple[int, ...]  # the card laid, the starter (heels), or the four cards of a hand or crib
    breakdown: HandScore | PlayScore | None  # of a card, hand or crib
    deal: int  # 0, 1, ...

    def __str__(self) -> str:
        cards = cards_text(self.cards)
        count = f" = {self.count}" if self.kind in ("card", "go", "last") else ""
        return (
            f"seat {self.player}: {self.kind} {cards}{count}, {self.points} points ({self.scores[0]}-{self.scores[1]})"
        )


def breakdown_text(breakdown: HandScore | PlayScore) -> str:
    """The parts that scored: ``"fifteens 4, nobs 1"``."""
    parts = [(part.name, getattr(breakdown, part.name)) for part in fields(breakdown)]
    return ", ".join(f"{name.replace('_', '-')} {points}" for name, points in parts if points)


def new_log(events: int = DEAL_EVENTS) -> State:
    """An empty log with room for so many events, as the engine's kernels take it."""
    return np.zeros((1 + events, EVENT_SIZE), np.int16)


def read_events(before: State, log: State) -> list[Event]:
    """The events of a log that actions of one deal filled.

    Args:
        before: (STATE_SIZE,) int16, the state before these actions.
        log: (1 + n, EVENT_SIZE) int16, the engine's (:func:`cribbage_env.engine.apply`).
    """
    target = int(before[TARGET])
    stack = _columns(before, LAID_CARDS + int(before[COUNT_BEGIN]), LAID_CARDS + int(before[LAID]))
    events = []
    for entry in log[1 : 1 + log[0, 0]]:
        kind, player, points, count, card, raw_0, raw_1 = (int(number) for number in entry)
        cards: tuple[int, ...] = (card,)
        breakdown: HandScore | PlayScore | None = None
        if kind == CARD_EVENT:
            stack.append(card)
            breakdown = score_play(stack)
            if count == MAX_COUNT:
                stack = []
        elif kind == GO_EVENT:
            stack = []
        elif kind in (HAND_EVENT, CRIB_EVENT):
            at = THROWN if kind == CRIB_EVENT else KEPT + 4 * player
            cards = tuple(sorted(_columns(before, at, at + 4)))
            breakdown = score_hand(cards, int(before[STARTER]), kind == CRIB_EVENT)
        events.append(
            Event(
                kind=EVENT_KINDS[kind],
                player=player,
                points=points,
                count=count,
                scores=(min(raw_0, target), min(raw_1, target)),
                raw_scores=(raw_0, raw_1),
                cards=cards,
                breakdown=breakdown,
                deal=int(before[DEAL]),
            )
        )
    return events


def deal_events(row: State) -> list[Event]:
    """The events of the present deal, from the state alone: the engine plays the deal again.

    There are none where the state does not say: after an illegal action, and in a finished game where more than one
    event can have ended it (the dealer's hand or the crib, say).
    """
    if not row[CUT] or row[FORFEIT] >= 0:
        return []
    dealer = int(row[DEALER])
    before = row.copy()
    before[PHASE] = DISCARD
    before[PLAYER] = dealer
    before[CUT] = before[COUNT] = before[COUNT_BEGIN] = before[LAID] = 0
    before[SAID_GO : SAID_GO + 2] = 0
    before[LEFT + 1 - dealer], before[LEFT + dealer] = 15, 0
    before[SCORE : SCORE + 2] = 0
    before[WINNER] = -1

    again = before.copy()
    again[TARGET] = _NO_TARGET  # the real one may have stopped the deal: seen to below
    log = new_log()
    table = show_table()
    six = _columns(row, CARDS + 6 * dealer, CARDS + 6 * dealer + 6)
    places = [six.index(card) for card in _columns(row, THROWN + 2 * dealer, THROWN + 2 * dealer + 2)]
    apply(table, again, PAIRS.tolist().index(places), log)
    for i in range(int(row[LAID])):
        at = KEPT + 4 * int(row[LAID_BY + i])
        apply(table, again, FIRST_PLAY + _columns(row, at, at + 4).index(int(row[LAID_CARDS + i])), log)

    if row[PHASE] == OVER:
        ends = _possible_ends(row, log)
        if len(ends) != 1:
            return []
        log[0, 0] = ends[0]
    happened = int(log[0, 0])
    made = log[happened, 5:7].copy() if happened else np.zeros(2, np.int16)
    log[1 : 1 + happened, 5:7] += row[SCORE : SCORE + 2] - made  # from points made in the deal to scores
    return read_events(before, log)


def show_events(row: State, raw_scores: tuple[int, int]) -> list[Event]:
    """The three events of a deal's show that did not end the game.

    Args:
        row: (STATE_SIZE,) int16, a state in the deal's play.
        raw_scores: both seats', after the show.
    """
    dealer, starter, target = int(row[DEALER]), int(row[STARTER]), int(row[TARGET])
    events: list[Event] = []
    raw = list(raw_scores)
    for kind, seat in (("crib", dealer), ("hand", dealer), ("hand", 1 - dealer)):  # backwards
        at = THROWN if kind == "crib" else KEPT + 4 * seat
        cards = tuple(sorted(_columns(row, at, at + 4)))
        score = score_hand(cards, starter, kind == "crib")
        after = min(raw[0], target), min(raw[1], target)
        events.insert(0, Event(kind, seat, score.total, 0, after, (raw[0], raw[1]), cards, score, int(row[DEAL])))
        raw[seat] -= score.total
    return events


def _possible_ends(row: State, log: State) -> list[int]:
    """Which of the deal's events, 1, 2, ..., may have ended the game, of one that is over."""
    winner = int(row[WINNER])
    beyond = int(row[SCORE + winner]) - int(row[TARGET])
    cards = np.cumsum(log[1 : 1 + log[0, 0], 0] == CARD_EVENT)
    return [
        i
        for i in range(1, 1 + int(log[0, 0]))
        if cards[i - 1] == row[LAID] and log[i, 1] == winner and log[i, 2] > beyond
    ]


def _columns(row: State, begin: int, end: int) -> list[int]:
    return [int(card) for card in row[begin:end]]
