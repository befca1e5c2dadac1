"""How far a tournament is: a bar on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from tqdm import tqdm

_SECONDS_A_LINE = 30.0


class Progress:
    """Games done, games a second and the time left, on standard error.

    Args:
        total: games that the tournament has.
        done: those that an earlier session has played.
    """

    def __init__(self, total: int, done: int = 0) -> None:
        self._bar = tqdm(
            total=total, initial=done, unit=" games", dynamic_ncols=True, disable=not sys.stderr.isatty(), smoothing=0.1
        )
        self._total = total
        self._initial = self._done = done
        self._began = time.monotonic()
        self._next_line = self._began + _SECONDS_A_LINE

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.close()

    def add(self, games: int, what: str) -> None:
        """So many more games are done; ``what`` is played just now."""
        self._done += games
        self._bar.set_description(what, refresh=False)
        self._bar.update(games)
        self.tick()

    def shorten(self, total: int) -> None:
        """The tournament has fewer games than was thought."""
        self._total = self._bar.total = total

    def tick(self) -> None:
        """Time has passed: without a terminal, a line every half minute."""
        now = time.monotonic()
        if not self._bar.disable or now < self._next_line:
            return
        self._next_line = now + _SECONDS_A_LINE
        self.say(self._line(now))

    def say(self, text: str) -> None:
        """Say something beside the bar."""
        tqdm.write(text, file=sys.stderr)
        sys.stderr.flush()

    def _line(self, now: float) -> str:
        line = f"{self._done:,} of {self._total:,} games"
        speed = (self._done - self._initial) / (now - self._began)
        if speed > 0:
            left = tqdm.format_interval((self._total - self._done) / speed)
            line += f", {speed:,.0f} games/s, {left} left" if speed >= 10 else f", {speed:.2g} games/s, {left} left"
        return line
