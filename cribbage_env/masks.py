"""Finding the action mask of an environment through whatever wraps it."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray


def action_masks(env: gym.Env[Any, Any] | VectorEnv[Any, Any, Any]) -> NDArray[np.bool_]:
    """The legal actions now, (19,) bool, or (N, 19) bool of a vector environment.

    Gymnasium's wrappers hide an environment's own methods, those for vector environments without a way through. This
    looks below them, and asks the single environments of Gymnasium's ``SyncVectorEnv`` and ``AsyncVectorEnv``.

    Raises:
        AttributeError: the environment has no ``action_masks``.
    """
    masks: NDArray[np.bool_]
    if isinstance(env, gym.Env):
        masks = env.get_wrapper_attr("action_masks")()
        return masks
    inner: Any = env.unwrapped
    if hasattr(inner, "call"):
        return np.stack(inner.call("action_masks"))
    masks = inner.action_masks()
    return masks
