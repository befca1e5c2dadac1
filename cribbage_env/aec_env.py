"""Cribbage as a PettingZoo AEC environment. Needs the extra: ``pip install "cribbage-lab[pettingzoo]"``.

>>> from cribbage_env import aec_env
>>> env = aec_env.env(reward="points")

The only module of the package that imports PettingZoo, so ``import cribbage_env`` works without it. There is no
``parallel_env``: the players take turns.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import NUM_ACTIONS
from cribbage_env.env import CribbageEnv
from cribbage_env.observation import OBSERVATION_HIGH, OBSERVATION_SIZE
from cribbage_env.render import RENDER_FPS, RENDER_MODES, check_render
from cribbage_env.rules import Rules
from cribbage_env.vector_env import observation_space

try:
    from pettingzoo import AECEnv
    from pettingzoo.utils import wrappers
except ImportError as error:
    raise ImportError(
        'cribbage_env.aec_env needs PettingZoo, an extra: pip install "cribbage-lab[pettingzoo]"'
    ) from error

AGENTS = ("player_0", "player_1")
"""The agents' names, by seat."""

RESET_OPTIONS = ("scores", "dealer")


def env(*, illegal_reward: float | None = None, **options: Any) -> AECEnv:
    """The environment with PettingZoo's usual wrappers: calls in a wrong order and actions out of range are errors.

    Args:
        illegal_reward: None leaves an action outside the mask to the game, which is then lost for the actor and won by
            the other agent. A number puts PettingZoo's ``TerminateIllegalWrapper`` in its place: the actor gets this
            reward, the other agent 0.
        options: those of :class:`raw_env`.
    """
    if illegal_reward is not None and not (isinstance(illegal_reward, int | float) and math.isfinite(illegal_reward)):
        raise ValueError(f"illegal_reward must be a finite number or None, got {illegal_reward!r}")
    wrapped: AECEnv = raw_env(**options)
    if illegal_reward is not None:
        wrapped = wrappers.TerminateIllegalWrapper(wrapped, illegal_reward=illegal_reward)
    wrapped = wrappers.AssertOutOfBoundsWrapper(wrapped)
    return wrappers.OrderEnforcingWrapper(wrapped)


class raw_env(AECEnv):  # noqa: N801, RUF100 (PettingZoo's name)
    """A game (or a single deal) of six-card cribbage: ``Cribbage-v0`` behind PettingZoo's interface.

    * Agents: ``player_0`` and ``player_1``, in seats 0 and 1. ``agent_selection`` is the one to act; after a go the
      same agent may act again.
    * Observations: ``{"observation": (D,) uint8, "action_mask": (19,) int8}``, as in ``Cribbage-v0``.
      ``observe(agent)`` is what that agent knows, whoever is to act; the mask of the other one is all zero.
      ``state()`` is both agents' observations, (2 * D,) uint8.
    * Rewards fall, for both agents, in the step that makes them: ``points`` as they are scored, also those of the show
      that follows a card of the opponent, and the result of the game in the step that ends it.
    * ``infos`` are empty until the end; then ``winner`` (an agent, or None after a single deal without one) and
      ``scores`` (a dict by agent, at most the target), after an illegal action also ``illegal_action``.
    * An action outside the mask ends the game as lost for the actor, as in ``Cribbage-v0`` (see :func:`env`).

    The same seed and actions give the same game as ``Cribbage-v0``.

    Args:
        rules, reward, episode, skip_forced, scores, dealer: see :class:`cribbage_env.options.EnvOptions`.
        render_mode: ``"ansi"``, ``"rgb_array"``, or ``"human"``, which prints the text after each step.
        render_view: see :class:`cribbage_env.env.CribbageEnv`.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 (PettingZoo's name)
        "name": "cribbage_v0",
        "render_modes": ["human", *RENDER_MODES],
        "render_fps": RENDER_FPS,
        "is_parallelizable": False,
    }

    def __init__(
        self,
        *,
        rules: Rules | Mapping[str, Any] | None = None,
        reward: str = "win",
        episode: str = "game",
        skip_forced: bool = False,
        scores: Sequence[int] = (0, 0),
        dealer: int | None = None,
        render_mode: str | None = None,
        render_view: str | int = "player",
    ) -> None:
        super().__init__()
        self.render_mode = render_mode
        check_render(render_mode, render_view, ["human", *RENDER_MODES])
        self._game = CribbageEnv(
            rules=rules,
            reward=reward,
            episode=episode,
            skip_forced=skip_forced,
            scores=scores,
            dealer=dealer,
            render_mode="ansi" if render_mode == "human" else render_mode,
            render_view=render_view,
        )
        self._game.seat_names = AGENTS
        self.possible_agents = list(AGENTS)
        self.agents: list[str] = []
        # One space for each agent, so that each has a random stream of its own
        self.observation_spaces = {agent: observation_space() for agent in AGENTS}
        self.action_spaces = {agent: gym.spaces.Discrete(NUM_ACTIONS) for agent in AGENTS}
        self.state_space = gym.spaces.Box(0, np.tile(OBSERVATION_HIGH, 2), (2 * OBSERVATION_SIZE,), np.uint8)

    def observation_space(self, agent: str) -> gym.spaces.Space[Any]:
        """The space of the agent's observations, always the same object."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.spaces.Space[Any]:
        """``Discrete(19)``, always the same object."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Start a game; ``options`` may have ``scores`` and ``dealer``, for this and all later games.

        PettingZoo's environments take options that they do not know, and its test passes one: here they are left out,
        with a warning.
        """
        given = dict(options or {})
        for name in [name for name in given if name not in RESET_OPTIONS]:
            del given[name]
            warnings.warn(f"reset has no option {name!r}; there are {', '.join(RESET_OPTIONS)}", stacklevel=2)
        _, info = self._game.reset(seed=seed, options=given)
        self.agents = list(AGENTS)
        self.rewards = dict.fromkeys(AGENTS, 0.0)
        self._cumulative_rewards = dict.fromkeys(AGENTS, 0.0)
        self.terminations = dict.fromkeys(AGENTS, False)
        self.truncations = dict.fromkeys(AGENTS, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in AGENTS}
        self.agent_selection = AGENTS[info["player"]]
        self._skip_agent_selection = None
        self._show()

    def step(self, action: int | np.integer[Any] | None) -> None:
        """Take the action of ``agent_selection``; None once the game is over, for each agent in turn."""
        if not self.agents:
            raise gym.error.ResetNeeded("call reset before step: no game is running")
        actor = self.agent_selection
        if self.terminations[actor]:
            self._was_dead_step(action)
            return
        _, _, terminated, _, info = self._game.step(action)  # type: ignore[arg-type]
        self._cumulative_rewards[actor] = 0.0  # what the actor has seen with its observation
        self.rewards = {agent: float(reward) for agent, reward in zip(AGENTS, info["rewards"], strict=True)}
        self._accumulate_rewards()
        if terminated:
            self.terminations = dict.fromkeys(AGENTS, True)
            self.infos = {agent: self._final_info(info) for agent in AGENTS}
            self._deads_step_first()
        else:
            self.agent_selection = AGENTS[info["player"]]
        self._show()

    @staticmethod
    def _final_info(info: dict[str, Any]) -> dict[str, Any]:
        winner = info["winner"]
        final = {
            "winner": None if winner is None else AGENTS[winner],
            "scores": {agent: int(score) for agent, score in zip(AGENTS, info["scores"], strict=True)},
        }
        if "illegal_action" in info:
            final["illegal_action"] = info["illegal_action"]["action"]
        return final

    def observe(self, agent: str) -> dict[str, NDArray[Any]]:
        """What the agent knows; its mask is all zero unless it is to act."""
        return self._game.observe(AGENTS.index(agent))

    def state(self) -> NDArray[np.uint8]:
        """Both agents' observations, one after the other, (2 * D,) uint8."""
        return np.concatenate([self.observe(agent)["observation"] for agent in AGENTS])

    def render(self) -> str | NDArray[np.uint8] | None:
        """The table as text or as a picture, (640, 1024, 3) uint8; None in mode ``human``, which has printed it."""
        return None if self.render_mode == "human" else self._game.render()

    def _show(self) -> None:
        if self.render_mode == "human":
            print(self._game.render(), end="\n\n")

    def close(self) -> None:
        """Nothing is held open."""
