"""How a match calls an agent: what it returns is checked, its errors are named, and a slow one can be interrupted."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from agents import Agent, AgentError

_SECONDS_A_CALL = 0.5  # how long an agent should be at it before an interrupt is looked for
_FIRST_ROWS, _MORE_ROWS = 16, 8  # rows of an agent's first call, and the factor by which later ones may grow


class Caller:
    """Calls an agent for the rows in which it is to act.

    What an agent does in a row does not depend on the other rows, so a slow one is given slices of them, with a look
    for an interrupt in between. The first slice is small; how many rows a later one has follows from the time they
    take, so that a fast agent soon has all of them in one call.

    Args:
        agent: who is called.
        names: of A and B, for errors.
    """

    def __init__(self, agent: Agent, names: tuple[str, str]) -> None:
        self.agent = agent
        self._match = " – ".join(names)
        self._rows = _FIRST_ROWS

    def act(
        self,
        observations: NDArray[np.uint8],
        masks: NDArray[np.int8],
        keys: NDArray[np.uint64],
        stop: Callable[[], bool] | None,
    ) -> NDArray[np.integer] | None:
        """Actions (B,), legal or not, for B >= 1 rows, or None if ``stop`` said True before all were chosen.

        Raises:
            AgentError: the agent raised something, or returned no (B,) integers.
        """
        slices: list[NDArray[np.integer]] = []
        start = 0
        while start < len(keys):
            if start and stop is not None and stop():
                return None
            rows = slice(start, start + self._rows)
            began = time.perf_counter()
            slices.append(self._call(observations[rows], masks[rows], keys[rows]))
            self._adapt(len(slices[-1]), time.perf_counter() - began)
            start = rows.stop
        return slices[0] if len(slices) == 1 else np.concatenate(slices)

    def _adapt(self, rows: int, seconds: float) -> None:
        if seconds > _SECONDS_A_CALL:
            self._rows = max(1, int(rows * _SECONDS_A_CALL / seconds))
        elif rows == self._rows and seconds * _MORE_ROWS < _SECONDS_A_CALL:
            self._rows *= _MORE_ROWS

    def _call(
        self, observations: NDArray[np.uint8], masks: NDArray[np.int8], keys: NDArray[np.uint64]
    ) -> NDArray[np.integer]:
        try:
            chosen = np.asarray(self.agent.act(observations, masks, keys))
        except Exception as error:
            problem = str(error) if isinstance(error, AgentError) else _in_one_line(error)
            raise AgentError(f"the agent {self.agent.name!r} failed in the match {self._match}: {problem}") from error
        if chosen.shape != (len(keys),) or not np.issubdtype(chosen.dtype, np.integer):
            raise AgentError(
                f"the agent {self.agent.name!r}: act must return {len(keys)} integers of shape ({len(keys)},), got "
                f"{chosen.dtype} of shape {chosen.shape}, in the match {self._match}"
            )
        return chosen


def _in_one_line(error: Exception) -> str:
    """What was raised, and where."""
    at = traceback.extract_tb(error.__traceback__)[-1]
    return " ".join(f"{type(error).__name__}: {error}".split()) + f" ({Path(at.filename).name}, line {at.lineno})"
