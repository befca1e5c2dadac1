"""The table as text, for terminals: the board with its pegs, the hands, the play and what happened last."""

from __future__ import annotations

from collections.abc import Sequence

from cribbage_env.cards import NUM_CARDS, RANKS
from cribbage_env.events import Event, breakdown_text
from cribbage_env.table import Table

SUIT_SIGNS = "♣♦♥♠"
_DOWN = "▒▒"
_HOLE, _FRONT, _REAR = "·", "●", "○"
_STREET = 60  # holes in a line
_SHOWN_EVENTS = 5


def card_sign(card: int) -> str:
    """A card with the sign of its suit: ``"5♥"``; ``"▒▒"`` face down."""
    return RANKS[card // 4] + SUIT_SIGNS[card % 4] if card < NUM_CARDS else _DOWN


def cards_signs(cards: Sequence[int]) -> str:
    """Several cards, with blanks between them."""
    return " ".join(card_sign(card) for card in cards)


def event_words(event: Event) -> tuple[str, str]:
    """What happened, and of what its points are (empty where that is said already, or there are none)."""
    cards = cards_signs(event.cards)
    what = {
        "card": f"{cards} for {event.count}",
        "go": f"last card at {event.count}",
        "last": "last card",
    }.get(event.kind, f"{event.kind} {cards}")
    return what, "" if event.breakdown is None else breakdown_text(event.breakdown)


def text_of(table: Table, names: Sequence[str]) -> str:
    """The table as lines of at most 100 characters, with the seats called ``names``."""
    phase = "the game is over" if table.phase == "over" else table.phase
    lines = [f"Deal {table.deal + 1} of a game to {table.target}: {phase}", *_board(table)]
    width = max(len(name) for name in names)
    for seat in (0, 1):
        marks = "to act" if seat == table.player else "said go" if table.said_go[seat] else ""
        hand = cards_signs(table.hands[seat])
        line = f"{names[seat]:{width}}  {table.role(seat):6}  {table.scores[seat]:3d}  {hand:17}  {marks}"
        lines.append(line.rstrip())
    lines.append(f"starter {card_sign(table.starter)}  crib {cards_signs(table.crib)}".rstrip())
    if table.laid and not table.all_laid:
        lines.append(f"play {_play(table)}  count {table.count}")
    result = table.result(names)
    if result is not None:
        lines.append(result)
    if table.events:
        lines.append("")
    for event in table.events[-_SHOWN_EVENTS:]:
        what, parts = event_words(event)
        line = f"  {names[event.player]:{width}}  {what}"
        if event.points:
            line += f": {event.points}{f' ({parts})' if parts else ''}, {event.scores[0]}-{event.scores[1]}"
        lines.append(line)
    return "\n".join(lines)


def _play(table: Table) -> str:
    """The cards of the play, with a bar between counts."""
    text = ""
    last = 0
    for laid in table.laid:
        text += (" " if laid.total > last else " │ ") + card_sign(laid.card)
        last = laid.total
    return text.strip() + (" │" if not table.laid[-1].present else "")


def _board(table: Table) -> list[str]:
    """Two lanes of holes, one for each seat, in streets; the last hole wins."""
    lines = []
    begin = 1
    while begin <= table.target:
        end = min(begin + _STREET - 1, table.target)
        if table.target - end <= 5:  # no street for the last hole alone
            end = table.target
        for seat in (0, 1):
            pegs = {table.earlier[seat]: _REAR, table.scores[seat]: _FRONT}
            lane = "".join(_gap(hole, begin, table) + pegs.get(hole, _HOLE) for hole in range(begin, end + 1))
            label = f"{begin:3d}" if seat == 0 else ""
            start = pegs.get(0, " ") if begin == 1 else " "
            lines.append(f"{label:3} {seat} {start}{lane}")
        begin = end + 1
    return lines


def _gap(hole: int, begin: int, table: Table) -> str:
    """What comes before a hole: a skunk line, or a blank every five holes."""
    if hole in (table.skunk, table.double_skunk):
        return "╎"
    return " " if hole % 5 == 1 or hole == begin else ""
