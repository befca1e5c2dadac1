"""Whom the learner meets: itself, its past selves, and fixed agents, each in its share of the episodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import Keys, Masks, Observations
from agents.neural.agent import NeuralAgent
from agents.opponents import Opponents
from cribbage_env.streams import combine_arrays
from experiments.train_config import TrainConfig
from experiments.training.streams import OPPONENTS, SEATS, stream

ITSELF = -1


class League:
    """The opponents of a run.

    Args:
        config: of the run.
    """

    def __init__(self, config: TrainConfig) -> None:
        self._config = config
        fixed = {spec: share for spec, share in config.opponents.agents.items() if share > 0}
        self._fixed = Opponents(fixed) if fixed else None
        self._shares = np.array([fixed[spec] for spec in fixed]) if fixed else np.zeros(0)

    def draw(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who plays the episodes with these numbers (N,).

        Returns:
            The opponents (N,), :data:`ITSELF` or a number for :meth:`act`; and the learner's seat (N,).
        """
        bounds = np.cumsum(self._shares)
        drawn = _units(stream(self._config.seed, OPPONENTS), numbers)
        opponents = np.searchsorted(bounds, drawn, side="right")
        seats = (_units(stream(self._config.seed, SEATS), numbers) < 0.5).astype(np.int64)
        return np.where(opponents < len(bounds), opponents, ITSELF), seats

    def act(
        self, opponents: NDArray[np.integer], observations: Observations, masks: Masks, keys: Keys
    ) -> NDArray[np.int64]:
        """The actions (B,) of opponents (B,), none of them :data:`ITSELF`."""
        assert self._fixed is not None
        return self._fixed.act(opponents, observations, masks, keys)

    def record(self, opponents: NDArray[np.int64], results: NDArray[np.float64]) -> None:
        """Take note of what the learner made against each opponent, (N,), in episodes that have ended."""

    def due(self, decisions: int) -> bool:
        """Whether a copy of the learner is to enter the pool after so many decisions."""
        return False

    def enter(self, agent: NeuralAgent, decisions: int) -> None:
        """Take a copy of the learner into the pool."""

    def state(self) -> dict[str, Any]:
        """All that :meth:`restore` needs to go on."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`."""


def _units(key: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each of the numbers."""
    drawn = combine_arrays(np.full(len(numbers), key, np.uint64), numbers)
    return (drawn >> np.uint64(11)).astype(np.float64) / float(2**53)
