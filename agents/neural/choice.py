"""How an agent chooses by the scores of its networks."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from cribbage_env.jit import jit

MIN_TEMPERATURE = 1e-6


@jit(_nrt=False)
def softmax_segments(scores: NDArray[np.float64], first: NDArray[np.int64], temperature: float, least: float) -> None:
    """Turn the scores (R,) of each segment ``first[s]`` up to ``first[s + 1]`` into probabilities, in place.

    Args:
        temperature: they are in proportion to exp(score / temperature); 0: 1 for the best, the first of equals.
        least: smaller probabilities become 0, and the others make up for it.
    """
    for s in range(first.shape[0] - 1):
        top = -np.inf
        best = first[s]
        for r in range(first[s], first[s + 1]):
            if scores[r] > top:
                top = scores[r]
                best = r
        total = 0.0
        for r in range(first[s], first[s + 1]):
            if temperature == 0.0:
                scores[r] = 1.0 if r == best else 0.0
            else:
                scores[r] = np.exp((scores[r] - top) / temperature)
            total += scores[r]
        rest = 0.0
        for r in range(first[s], first[s + 1]):
            scores[r] /= total
            if scores[r] < least and r != best:
                scores[r] = 0.0
            rest += scores[r]
        if rest < 1.0:
            for r in range(first[s], first[s + 1]):
                scores[r] /= rest


@dataclass(frozen=True)
class Choice:
    """How scores are turned into choices.

    Args:
        discard, play: the temperature of each kind of decision; 0 takes the best.
        least: less likely actions are not taken.
    """

    discard: float = 0.0
    play: float = 0.0
    least: float = 0.0

    def __post_init__(self) -> None:
        for name in ("discard", "play"):
            temperature = getattr(self, name)
            if not (temperature == 0.0 or MIN_TEMPERATURE <= temperature < np.inf):
                raise ValueError(
                    f"the temperature of {name} must be 0 or at least {MIN_TEMPERATURE}, got {temperature}"
                )
        if not 0.0 <= self.least < 0.5:
            raise ValueError(f"least must be from 0 to below 0.5, got {self.least}")

    def probabilities(self, kind: str, scores: NDArray[np.float64], first: NDArray[np.int64]) -> None:
        """Turn the scores of decisions into probabilities, in place; see :func:`softmax_segments`."""
        softmax_segments(scores, first, float(getattr(self, kind)), self.least)

    def data(self) -> dict[str, float]:
        """As in a checkpoint."""
        return asdict(self)


BEST = Choice()
"""The best of every decision."""
