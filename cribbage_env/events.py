"""What happened in a game, read from the engine's log or, for the present deal, from its state alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from cribbage_env.cards import JACK, cards_text
from cribbage_env.engine import (
    BETWEEN,
    CARD_EVENT,
    COUNT_BEGIN,
    CRIB_EVENT,
    CUT,
    DEAL,
    DEALER,
    EVENT_KINDS,
    EVENT_SIZE,
    GO_EVENT,
    HAND_EVENT,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LAID_COUNT,
    OVER,
    PHASE,
    SCORE,
    STARTER,
    TARGET,
    THROWN,
    State,
)
from cribbage_env.scoring import (
    HEELS_POINTS,
    LAST_POINTS,
    MAX_COUNT,
    HandScore,
    PlayScore,
    score_hand,
    score_play,
)

DEAL_EVENTS = 24
"""More events than a deal can have: heels, eight cards, the last cards of eight counts, two hands and a crib."""


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
    """The events of the present deal, from the state alone, as far as everybody has seen them.

    Of a game that is over there are none: the state does not say which event ended it.
    """
    if not row[CUT] or row[PHASE] == OVER:
        return []
    dealer, starter = int(row[DEALER]), int(row[STARTER])
    made: list[_Made] = []
    if starter >> 2 == JACK:
        made.append(_Made("heels", dealer, HEELS_POINTS, 0, (starter,), None))
    stack: list[int] = []
    laid = int(row[LAID])
    for i in range(laid):
        card, seat, count = (int(row[first + i]) for first in (LAID_CARDS, LAID_BY, LAID_COUNT))
        stack.append(card)
        score = score_play(stack)
        made.append(_Made("card", seat, score.total, count, (card,), score))
        begins_anew = row[LAID_COUNT + i + 1] <= count if i + 1 < laid else row[COUNT_BEGIN] == laid
        if begins_anew:
            stack = []
            if count < MAX_COUNT:
                made.append(_Made("last" if i == 7 else "go", seat, LAST_POINTS, count, (card,), None))
    if row[PHASE] == BETWEEN:
        made += _show(row)
    return _with_scores(made, row, (int(row[SCORE]), int(row[SCORE + 1])))


def show_events(row: State, raw_scores: tuple[int, int]) -> list[Event]:
    """The three events of a deal's show that did not end the game.

    Args:
        row: (STATE_SIZE,) int16, a state in the deal's play.
        raw_scores: both seats', after the show.
    """
    return _with_scores(_show(row), row, raw_scores)


class _Made(NamedTuple):
    """An event without the scores."""

    kind: str
    player: int
    points: int
    at: int  # the count
    cards: tuple[int, ...]
    breakdown: HandScore | PlayScore | None


def _show(row: State) -> list[_Made]:
    dealer = int(row[DEALER])
    made = []
    for kind, seat in (("hand", 1 - dealer), ("hand", dealer), ("crib", dealer)):
        at = THROWN if kind == "crib" else KEPT + 4 * seat
        cards = tuple(sorted(_columns(row, at, at + 4)))
        score = score_hand(cards, int(row[STARTER]), kind == "crib")
        made.append(_Made(kind, seat, score.total, 0, cards, score))
    return made


def _with_scores(made: Sequence[_Made], row: State, raw_scores: tuple[int, int]) -> list[Event]:
    """Events, from what the scores are after the last one."""
    target, deal = int(row[TARGET]), int(row[DEAL])
    raw = list(raw_scores)
    events = []
    for one in reversed(made):
        scores = min(raw[0], target), min(raw[1], target)
        event = Event(
            one.kind, one.player, one.points, one.at, scores, (raw[0], raw[1]), one.cards, one.breakdown, deal
        )
        events.append(event)
        raw[one.player] -= one.points
    return events[::-1]


def _columns(row: State, begin: int, end: int) -> list[int]:
    return [int(card) for card in row[begin:end]]
