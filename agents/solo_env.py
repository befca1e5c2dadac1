"""CribbageSolo-v0: one game of cribbage against an opponent, as a Gymnasium environment for a single agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from agents.opponents import OpponentsLike
from agents.solo_vector_env import CribbageSoloVectorEnv
from cribbage_env.env import CribbageEnv
from cribbage_env.rules import Rules


class CribbageSoloEnv(CribbageEnv):
    """A game (or a single deal) of six-card cribbage in which the caller has one seat and an agent plays the other.

    Each step takes the learner's action (as in :class:`CribbageEnv`), lets the opponent act until it is the learner's
    turn again, and returns

    * the observation ``{"observation": (D,) uint8, "action_mask": (19,) int8}`` of the learner, who is to act; at the
      end what it sees then, with an empty mask;
    * its reward, a float: all that fell from its action to its next decision, or to the end;
    * terminated; truncated, always False;
    * info: ``seat``, the learner's; ``opponent``, the name of whom it plays; ``scores`` (2,) int64 by seat, at most the
      target; ``rewards`` (2,) float64 by seat; at the end ``winner`` (a seat, or None after a single deal without one)
      and ``won``, a bool; after an illegal action of the learner also ``illegal_action``.

    What the opponent does before the learner's first decision belongs to ``reset``; no point can fall there. The game
    of a seed is that of :class:`CribbageSoloVectorEnv`, where the rest is described too.

    Args:
        opponent: the spec of an agent, an agent, or a mapping of such to weights, of which every game draws one.
        seat: the learner's, 0 or 1; None to draw it from the game's seed.
        rules, reward, episode, skip_forced, scores, dealer: see :class:`cribbage_env.options.EnvOptions`.
        render_mode, render_view: as in :class:`CribbageEnv`; ``"player"`` is the learner's view.

    ``scores``, ``dealer``, ``seat`` and ``opponent`` can be given to ``reset(options=...)`` too, for that and all later
    games.
    """

    def __init__(
        self,
        *,
        opponent: OpponentsLike = "greedy",
        seat: int | None = None,
        rules: Rules | Mapping[str, Any] | None = None,
        reward: str = "win",
        episode: str = "game",
        skip_forced: bool = False,
        scores: Sequence[int] = (0, 0),
        dealer: int | None = None,
        render_mode: str | None = None,
        render_view: str | int = "player",
    ) -> None:
        super().__init__(render_mode=render_mode, render_view=render_view)
        self._solo = CribbageSoloVectorEnv(
            opponent=opponent,
            seat=seat,
            rules=rules,
            reward=reward,
            episode=episode,
            skip_forced=skip_forced,
            scores=scores,
            dealer=dealer,
            render_view=render_view,
        )
        self._batch = self._solo

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Start a game; ``options`` may have ``scores``, ``dealer``, ``seat`` and ``opponent``."""
        known = ("scores", "dealer", "seat", "opponent")
        unknown = sorted(set(options or {}) - set(known))
        if unknown:
            raise ValueError(f"reset has no option {unknown[0]!r}; there are {', '.join(known)}")
        gym.Env.reset(self, seed=seed)
        self._solo.reset(seed=seed, options=options)
        self._begin()
        return self._observation(), self._info()

    def step(self, action: int | np.int64) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Take one action of the learner and let the opponent answer; see the class."""
        if not self._solo.ready:
            raise gym.error.ResetNeeded("call reset before step: no episode is running")
        observation, reward, terminated, truncated, info = super().step(action)
        if terminated:
            info["won"] = info["winner"] == info["seat"]
        return observation, reward, terminated, truncated, info

    def _begin(self) -> None:
        super()._begin()
        self.seat_names = self._solo._seat_names(0)

    def _viewer(self) -> tuple[int | None, int]:
        return self._solo._viewer(0)

    def _info(self) -> dict[str, Any]:
        batch = self._solo
        return {
            "seat": int(batch.seats[0]),
            "opponent": batch.opponents.agents[batch.which[0]].name,
            "scores": batch.scores()[0].astype(np.int64),
            "rewards": batch._seat_rewards[0].copy(),
        }
