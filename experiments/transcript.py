"""A game in words, decision by decision, as a terminal shows it: all cards open, or as one of the seats sees it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

from cribbage_env import Event, Game, card_text, cards_text
from cribbage_env.events import breakdown_text
from cribbage_env.records import Step

_HIDDEN = "??"


def seat_names(agents: Sequence[str | None] | None) -> tuple[str, str]:
    """What the seats are called: by who sits there, with the seat's number where that tells them apart."""
    first, second = agents if agents is not None else (None, None)
    names = [_printable(name) or f"seat {seat}" for seat, name in enumerate((first, second))]
    if names[0] == names[1]:
        names = [f"{name} (seat {seat})" for seat, name in enumerate(names)]
    return names[0], names[1]


def _printable(name: str | None) -> str:
    """A name without what a terminal would take for a command."""
    return "".join(letter if letter.isprintable() else "?" for letter in name or "").strip()


class Transcript:
    """Writes a game down while it goes on.

    Args:
        names: of the seats, see :func:`seat_names`.
        seat: whose view it is: the other seat's cards are hidden until they are laid or shown. None: all are open.
        write: takes the lines.
    """

    def __init__(self, names: tuple[str, str], seat: int | None = None, write: Callable[[str], object] = print) -> None:
        self.names = names
        self._seat = seat
        self._write = write
        self._width = max(map(len, names))

    def deal(self, game: Game, number: int, scores: Sequence[int]) -> None:
        """Deal ``number`` (0, 1, ...) begins with these scores."""
        dealer = (game.first_dealer + number) % 2
        self._write(f"\nDeal {number + 1}, dealer {self.names[dealer]}, {scores[0]}-{scores[1]}")
        deck = game.decks[number]
        hands = (deck[6:12], deck[:6]) if dealer == 0 else (deck[:6], deck[6:12])
        for seat in (1 - dealer, dealer):
            self._line(seat, self._cards(seat, hands[seat]))

    def step(self, step: Step) -> None:
        """A decision, and what came of it."""
        kind, _, cards = step.action.partition(" ")
        seat = step.player
        rest = list(step.events)
        if kind == "forfeit":
            self._line(seat, "illegal action: the game is lost")
        elif kind == "discard":
            self._line(seat, f"to the crib: {self._cards(seat, cards.split())}")
            if seat == (step.game.first_dealer + step.deal) % 2:
                self._write(f"  starter {card_text(step.game.decks[step.deal][12])}")
        else:
            laid = rest.pop(0)
            self._line(seat, f"{cards}, {laid.count}{_points(laid)}")
            if step.said_go:
                self._line(1 - seat, "go")
        for event in rest:
            self._event(event, step.game, step.deal)

    def _event(self, event: Event, game: Game, deal: int) -> None:
        what = {"heels": "heels", "go": "last card of the count", "last": "last card"}.get(event.kind)
        if what is None:
            starter = card_text(game.decks[deal][12])
            what = f"{event.kind} {cards_text(event.cards)} with {starter}"
        self._line(event.player, what + (_points(event) or ": nothing"))

    def end(self, game: Game) -> None:
        """What came of the game."""
        score = f"{game.scores[0]}-{game.scores[1]}"
        if game.winner is None:
            self._write(f"\nThe game is not over: {score}.")
        else:
            how = ("", ", a skunk", ", a double skunk")[game.skunk]
            self._write(f"\nThe winner: {self.names[game.winner]}, {score}{how}.")

    def _line(self, seat: int, text: str) -> None:
        self._write(f"  {self.names[seat]:{self._width}}  {text}")

    def _cards(self, seat: int, cards: Sequence[int] | Sequence[str]) -> str:
        if self._seat not in (None, seat):
            return " ".join([_HIDDEN] * len(cards))
        return " ".join(card if isinstance(card, str) else card_text(card) for card in cards)


def _points(event: Event) -> str:
    """What an event scored, of what, and the scores after it; nothing if it scored nothing."""
    if not event.points:
        return ""
    parts = breakdown_text(event.breakdown) if event.breakdown is not None else ""
    points = f"{event.points} point{'s' if event.points > 1 else ''}"
    return f": {points}{f' ({parts})' if parts else ''}, {event.scores[0]}-{event.scores[1]}"


class Pauses:
    """Waits for Enter, if there is somebody at a terminal to press it."""

    def __init__(self, wanted: bool = True) -> None:
        self._waits = wanted and sys.stdin.isatty() and sys.stdout.isatty()
        if self._waits:
            print("(Enter goes on, a and Enter shows the rest at once)")

    def wait(self) -> None:
        """Wait, once."""
        if not self._waits:
            return
        try:
            self._waits = input().strip().lower() != "a"
        except EOFError:
            self._waits = False
        if os.environ.get("TERM", "dumb") != "dumb":
            print("\x1b[A", end="", flush=True)  # back up to the line that Enter left empty
