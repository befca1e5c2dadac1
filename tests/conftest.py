"""What all tests share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from agents import registry

# A shell without job control starts background jobs with Ctrl-C ignored, and their children inherit that. The tests
# that interrupt a command start it from here, so that it can be interrupted wherever the suite runs.
if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module", autouse=True)
def _agents_of_this_file() -> Iterator[None]:
    """Forget the agents that a test file registers: another one, in the same process, may use the same names."""
    before = dict(registry._FACTORIES)
    yield
    registry._FACTORIES.clear()
    registry._FACTORIES.update(before)
