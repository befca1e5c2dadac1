"""The agent ``random``: uniform over the legal actions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations


class RandomAgent(Agent):
    """Uniform over the legal actions."""

    def __init__(self) -> None:
        super().__init__("random")

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for all legal actions; see :meth:`Agent.policy`."""
        legal = masks.astype(np.float64)
        return legal / legal.sum(axis=1, keepdims=True)
