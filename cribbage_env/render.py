"""Rendering: a game as text (:func:`render_text`) and as a picture (:func:`render_image`).

All environments draw with these: render mode ``ansi`` is the text, ``rgb_array`` the picture. Both show what one seat
knows, or all cards; see :class:`cribbage_env.table.Table`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import CUT, DEAL, SCORE, STATE_SIZE, State
from cribbage_env.events import Event, deal_events, show_events
from cribbage_env.game import Game
from cribbage_env.render_text import text_of
from cribbage_env.table import Table

RENDER_MODES = ["ansi", "rgb_array"]
RENDER_FPS = 2
RENDER_VIEWS = ("player", "all", 0, 1)
SEAT_NAMES = ("seat 0", "seat 1")


def render_text(
    game: Game | State,
    seat: int | None = None,
    events: Sequence[Event] | None = None,
    names: Sequence[str] = SEAT_NAMES,
) -> str:
    """A game as text: board, hands, play, and the last events.

    Args:
        game: a :class:`Game`, or an engine state, (STATE_SIZE,) int16.
        seat: whose knowledge is shown: what this seat does not know lies face down. None shows all cards.
        events: what has happened so far, for the rear pegs and the last events. Left out: those of the ``Game``; of a
            state, those of its deal.
        names: of seats 0 and 1.
    """
    return text_of(_table(game, seat, events), names)


def render_image(
    game: Game | State,
    seat: int | None = None,
    events: Sequence[Event] | None = None,
    names: Sequence[str] = SEAT_NAMES,
    *,
    below: int | None = None,
) -> NDArray[np.uint8]:
    """A game as a picture, (640, 1024, 3) uint8: the board, the cards on the table and the last events.

    Args:
        game, seat, events, names: as of :func:`render_text`.
        below: the seat whose hand lies at the lower edge; None for the one that looks, or seat 0.
    """
    from cribbage_env.render_image import image_of

    if below is None:
        below = 0 if seat is None else seat
    return image_of(_table(game, seat, events), names, below)


def png_bytes(picture: NDArray[np.uint8]) -> bytes:
    """A picture as the bytes of a PNG file."""
    from cribbage_env.render_image import png_of

    return png_of(picture)


def _table(game: Game | State, seat: int | None, events: Sequence[Event] | None) -> Table:
    if seat not in (None, 0, 1) or isinstance(seat, bool):
        raise ValueError(f"seat must be 0, 1 or None (all cards), got {seat!r}")
    if isinstance(game, Game):
        # A Game that was made of a state does not have the events before it
        return Table.of_state(game.state(), seat, game.events or None if events is None else events)
    if not isinstance(game, np.ndarray) or game.shape != (STATE_SIZE,):
        raise TypeError(f"game must be a Game or an engine state of shape ({STATE_SIZE},), got {type(game).__name__}")
    return Table.of_state(game, seat, events)


def check_render(mode: str | None, view: Any, modes: Sequence[str] = RENDER_MODES) -> None:
    """ValueError unless ``mode`` is one of ``modes`` or None and ``view`` one of :data:`RENDER_VIEWS`."""
    if mode is not None and mode not in modes:
        raise ValueError(f"render_mode must be one of {', '.join(modes)} or None, got {mode!r}")
    if isinstance(view, bool) or view not in RENDER_VIEWS:
        raise ValueError(f"render_view must be 'player', 'all', 0 or 1, got {view!r}")


def draw(
    mode: str, row: State, seat: int | None, events: Sequence[Event] | None, names: Sequence[str], below: int
) -> str | NDArray[np.uint8]:
    """What an environment's ``render`` returns in ``mode``."""
    if mode == "ansi":
        return render_text(row, seat, events, names)
    return render_image(row, seat, events, names, below=below)


class LastShows:
    """Remembers the last show of each of N games that a batch plays, for their pictures.

    A state holds its own deal only; of the deal before it this keeps the cards.
    """

    def __init__(self, games: int) -> None:
        self._rows: State = np.zeros((games, STATE_SIZE), np.int16)
        self._known = np.zeros(games, np.bool_)

    def forget(self, chosen: NDArray[np.bool_]) -> None:
        """Other games have begun in the slots that ``chosen`` (N,) says."""
        self._known[chosen] = False

    def step(self, before: State, after: State, ended: NDArray[np.bool_]) -> None:
        """A step has led from the states ``before`` to ``after``, (N, STATE_SIZE), and ended some games."""
        self.forget(ended)
        moved_on = ~ended & (before[:, DEAL] != after[:, DEAL]) & (before[:, CUT] != 0)
        self._rows[moved_on] = before[moved_on]
        self._known |= moved_on

    def events(self, slot: int, row: State) -> list[Event]:
        """The events of the last show in a slot, whose state is ``row``, and of the present deal."""
        present = deal_events(row)
        if not self._known[slot] or self._rows[slot, DEAL] != row[DEAL] - 1:
            return present
        raw_0, raw_1 = int(row[SCORE]), int(row[SCORE + 1])
        if present:
            first = present[0]
            raw_0, raw_1 = first.raw_scores
            if first.player == 0:
                raw_0 -= first.points
            else:
                raw_1 -= first.points
        return show_events(self._rows[slot], (raw_0, raw_1)) + present
