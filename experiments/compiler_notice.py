"""Tells the user when kernels are being compiled or a tree is being built, so that a first start does not look hung."""

from __future__ import annotations

import logging
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


class _OnStandardError(logging.Handler):
    """Shows what the agents' modules note in the log, as plain lines."""

    def emit(self, record: logging.LogRecord) -> None:
        print(record.getMessage(), file=sys.stderr, flush=True)


_HANDLER = _OnStandardError()


def announce_compilation() -> None:
    """Say so from now on when kernels are compiled, or agents build what they need."""
    event.register("numba:compile", _Notice())
    log = logging.getLogger("agents")
    log.setLevel(logging.INFO)
    log.addHandler(_HANDLER)  # once, however often it is added
