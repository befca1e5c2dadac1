"""The random streams of a run: each a function of its seed and of what is drawn, none of what was drawn before.

So a run needs no random state in its checkpoints beyond the seed and the counters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cribbage_env.streams import combine

DECKS, EXPLORATION, WEIGHTS, BATCHES, EVALUATION, POSITIONS, OPPONENTS, SEATS, CONFIRMATION, MEMORY = range(1, 11)


def stream(seed: int, *values: int) -> int:
    """The seed, 0 to 2**64 - 1, of a stream of the run and of numbers within it, such as an iteration."""
    key = seed
    for value in values:
        key = int(combine(np.uint64(key), value))
    return key


def units(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Keys that were combined for one draw each -> numbers in [0, 1), of the same shape."""
    return (keys >> np.uint64(11)).astype(np.float64) / float(2**53)
