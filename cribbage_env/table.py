"""What lies on the table, as a seat may see it: all that a picture or text of a game is drawn from.

Rendering takes nothing from anywhere else, so what is not in a :class:`Table` can't be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cribbage_env.cards import NO_CARD
from cribbage_env.engine import (
    BETWEEN,
    CARDS,
    COUNT,
    COUNT_BEGIN,
    CUT,
    DEAL,
    DEALER,
    DISCARD,
    DOUBLE_SKUNK,
    FORFEIT,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LAID_COUNT,
    LEFT,
    PHASE,
    PLAY,
    PLAYER,
    SAID_GO,
    SCORE,
    SKUNK,
    STARTER,
    TARGET,
    THROWN,
    WINNER,
    State,
    playable,
    win_level,
)
from cribbage_env.events import Event, deal_events
from cribbage_env.game import PHASE_NAMES

FACE_DOWN = NO_CARD

Hand = tuple[int, ...]
"""Cards 0..51, ``FACE_DOWN`` for each that is not seen."""


class Laid(NamedTuple):
    """A card laid in the play."""

    card: int
    seat: int
    total: int  # the count after it
    present: bool  # it belongs to the present count


@dataclass(frozen=True)
class Table:
    """A game in progress, seen by one of the seats or by a spectator who sees all cards."""

    viewer: int | None  # the seat, None for the spectator
    target: int
    skunk: int  # 0: no such line
    double_skunk: int
    deal: int  # 0, 1, ...
    phase: str  # discard, play, show or over
    dealer: int
    player: int | None  # who is to act
    scores: tuple[int, int]  # at most the target
    earlier: tuple[int | None, int | None]  # scores before each seat last scored: its rear pegs; None if not known
    hands: tuple[Hand, Hand]  # what the seats hold; once all cards are laid, the four they kept
    playable: tuple[bool, ...]  # which cards of the hand of the seat to act it may lay; () if they are not seen
    laid: tuple[Laid, ...]
    count: int
    said_go: tuple[bool, bool]  # in the present count
    starter: int  # FACE_DOWN before the cut
    crib: Hand
    winner: int | None
    win_level: int  # 1 a skunk, 2 a double skunk
    forfeited: int | None  # who lost by an illegal action
    events: tuple[Event, ...]  # the latest last

    @classmethod
    def of_state(cls, row: State, seat: int | None = None, events: Sequence[Event] | None = None) -> Table:
        """The table of an engine state.

        Args:
            row: (STATE_SIZE,) int16.
            seat: who looks; None to see all cards (but for the starter before the cut).
            events: what has happened so far; None for those of the present deal, as far as the state says.
        """
        phase = int(row[PHASE])
        known = tuple(deal_events(row) if events is None else events)
        winner = int(row[WINNER]) if row[WINNER] >= 0 else None
        player = int(row[PLAYER]) if phase in (DISCARD, PLAY) else None
        hands = (_hand(row, 0, seat), _hand(row, 1, seat))
        begin = int(row[COUNT_BEGIN])
        target = int(row[TARGET])
        may_lay: tuple[bool, ...] = ()
        if phase == PLAY and player is not None and seat in (None, player):
            bits = int(playable(row, player))
            may_lay = tuple(bool(bits >> slot & 1) for slot in range(4) if row[LEFT + player] >> slot & 1)
        return cls(
            viewer=seat,
            target=target,
            skunk=int(row[SKUNK]),
            double_skunk=int(row[DOUBLE_SKUNK]),
            deal=int(row[DEAL]),
            phase=PHASE_NAMES[phase],
            dealer=int(row[DEALER]),
            player=player,
            scores=(min(int(row[SCORE]), target), min(int(row[SCORE + 1]), target)),
            earlier=(_earlier(row, 0, known), _earlier(row, 1, known)),
            hands=hands,
            playable=may_lay,
            laid=tuple(
                Laid(int(row[LAID_CARDS + i]), int(row[LAID_BY + i]), int(row[LAID_COUNT + i]), i >= begin)
                for i in range(int(row[LAID]))
            ),
            count=int(row[COUNT]),
            said_go=(bool(row[SAID_GO]), bool(row[SAID_GO + 1])),
            starter=int(row[STARTER]) if row[CUT] else FACE_DOWN,
            crib=_crib(row, seat, known),
            winner=winner,
            win_level=int(win_level(row)) if winner is not None else 0,
            forfeited=int(row[FORFEIT]) if row[FORFEIT] >= 0 else None,
            events=known,
        )

    @property
    def all_laid(self) -> bool:
        """Whether the play is over, and the hands are those that were kept, face up again."""
        return len(self.laid) == 8

    def role(self, seat: int) -> str:
        """``dealer`` or ``pone``."""
        return "dealer" if seat == self.dealer else "pone"

    def result(self, names: Sequence[str]) -> str | None:
        """How the game ended, in one line; None while it goes on."""
        if self.winner is None:
            return None
        if self.forfeited is not None:
            return f"{names[self.winner]} wins by an illegal action"
        how = ("", ", a skunk", ", a double skunk")[self.win_level]
        return f"{names[self.winner]} wins {self.scores[self.winner]}-{self.scores[1 - self.winner]}{how}"


def _cards(row: State, begin: int, number: int) -> Hand:
    return tuple(int(card) for card in row[begin : begin + number])


def _has_thrown(row: State, seat: int) -> bool:
    return bool(row[CUT]) or row[LEFT + seat] != 0


def _hand(row: State, seat: int, viewer: int | None) -> Hand:
    kept = _cards(row, KEPT + 4 * seat, 4)
    if row[LAID] == 8:
        return kept  # everybody has seen them
    if not _has_thrown(row, seat):
        cards = _cards(row, CARDS + 6 * seat, 6)
    else:
        cards = tuple(card for slot, card in enumerate(kept) if row[LEFT + seat] >> slot & 1)
    return cards if viewer in (None, seat) else (FACE_DOWN,) * len(cards)


def _crib(row: State, viewer: int | None, events: Sequence[Event]) -> Hand:
    """The crib: both seats' discards, pone's first. A seat sees its own, and all of it once it was counted."""
    pone = 1 - int(row[DEALER])
    counted = row[PHASE] == BETWEEN or any(event.kind == "crib" and event.deal == row[DEAL] for event in events[-1:])
    crib: Hand = ()
    for seat in (pone, 1 - pone):
        if _has_thrown(row, seat):
            cards = _cards(row, THROWN + 2 * seat, 2)
            crib += cards if counted or viewer in (None, seat) else (FACE_DOWN, FACE_DOWN)
    return tuple(sorted(crib)) if counted else crib


def _earlier(row: State, seat: int, events: Sequence[Event]) -> int | None:
    """What the seat had before it last scored."""
    for event in reversed(events):
        if event.player == seat and event.points > 0:
            return event.raw_scores[seat] - event.points
    return 0 if row[SCORE + seat] == 0 else None
