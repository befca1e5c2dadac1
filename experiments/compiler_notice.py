"""Tells the user when kernels are being compiled, so that a first start does not look hung."""

from __future__ import annotations

import sys
from typing import Any

from numba.core import event


class _Notice(event.Listener):
    """Says it once, on standard error, when the first kernel is compiled rather than loaded from the cache."""

    def __init__(self) -> None:
        self.said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            print("Compiling the engine for this machine (once, 10 to 20 seconds) ...", file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        pass


def announce_compilation() -> None:
    """Say so from now on when kernels are compiled."""
    event.register("numba:compile", _Notice())
