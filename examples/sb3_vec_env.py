"""CribbageSolo-v0 for Stable-Baselines3: its ``VecEnv`` over the vector environment, thousands of games in one process.

``make_vec_env`` of Stable-Baselines3 works too, but it steps single environments one by one in Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

import cribbage_env

Indices = None | int | Iterable[int]


class CribbageVecEnv(VecEnv):
    """``num_envs`` games against an opponent; the observation is the flat array (D,) uint8, the mask comes apart.

    MaskablePPO asks for the masks with ``env_method("action_masks")``, also through wrappers such as ``VecMonitor``.

    Args:
        num_envs: how many games are played side by side.
        options: of ``CribbageSolo-v0`` (``opponent``, ``reward``, ``episode``, ...).
    """

    def __init__(self, num_envs: int, **options: Any) -> None:
        self.envs = gym.make_vec("CribbageSolo-v0", num_envs=num_envs, **options)
        self.games: Any = self.envs.unwrapped
        self._actions = np.zeros(num_envs, np.int64)
        space = self.envs.single_observation_space
        assert isinstance(space, gym.spaces.Dict)
        super().__init__(num_envs, space["observation"], self.envs.single_action_space)

    def reset(self) -> NDArray[np.uint8]:
        """Start new games, those of the seed if :meth:`seed` was called."""
        seeded = all(seed is not None for seed in self._seeds)
        observations, _ = self.games.reset(seed=list(self._seeds) if seeded else None)
        self._reset_seeds()
        self._reset_options()
        return np.asarray(observations["observation"])

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Note the actions."""
        self._actions = actions

    def step_wait(self) -> tuple[NDArray[np.uint8], NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Take them; a finished game's last observation is in its info, as Stable-Baselines3 wants it."""
        observations, rewards, terminated, _, infos = self.envs.step(self._actions)
        described: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(terminated):
            described[i] = {
                "terminal_observation": infos["final_obs"]["observation"][i],
                "TimeLimit.truncated": False,
                "is_success": bool(infos["final_info"]["won"][i]),
            }
        return observations["observation"], rewards.astype(np.float32), terminated, described

    def close(self) -> None:
        """Nothing is held."""
        self.envs.close()

    def env_method(self, method_name: str, *args: Any, indices: Indices = None, **kwargs: Any) -> list[Any]:
        """A method of the vector environment whose result has a row a game: those of the chosen ones."""
        if method_name == "action_masks":
            rows = cribbage_env.action_masks(self.envs)
        else:
            rows = getattr(self.games, method_name)(*args, **kwargs)
        return [rows[i] for i in self._get_indices(indices)]

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of the vector environment, once for every chosen game."""
        value = getattr(self.games, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Not possible: the games share their options."""
        raise NotImplementedError("the games of a CribbageVecEnv share their options: give them when making it")

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """No game has a wrapper of its own."""
        return [False for _ in self._get_indices(indices)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """None: the vector environment does not render."""
        return [None] * self.num_envs
