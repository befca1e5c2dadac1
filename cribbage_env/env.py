"""Cribbage-v0: one game of two seats as a Gymnasium environment."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import FORFEIT, NUM_ACTIONS, SCORE, TARGET, WINNER
from cribbage_env.events import Event, new_log, read_events
from cribbage_env.game import Game
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.render import RENDER_FPS, RENDER_MODES, SEAT_NAMES, check_render, draw
from cribbage_env.rules import Rules
from cribbage_env.vector_env import CribbageVectorEnv, observation_space


class CribbageEnv(gym.Env[dict[str, Any], np.int64]):
    """A game (or a single deal) of six-card cribbage in which one caller acts for both seats, in turn.

    Each step takes the action of the seat to act (``Discrete(19)``: 0..14 discard the pair (i, j), i < j, in
    lexicographic order, of the six cards sorted by card int; 15..18 play the k-th of the four kept, sorted). It returns

    * the observation ``{"observation": (D,) uint8, "action_mask": (19,) int8}`` of the seat to act next (fields:
      :data:`cribbage_env.observation.FIELDS`); at the end, of the seat that acted last, with an empty mask;
    * the reward of the seat that just acted, a float;
    * terminated; truncated, always False;
    * info: ``player``, the seat to act next; ``rewards``, (2,) float64, of both seats; at the end ``winner`` (a seat,
      or None after a single deal without one) and ``scores`` (at most the target), after an illegal action also
      ``illegal_action``: the action and the mask it was not in.

    An illegal action ends the episode as lost for the actor. ``action_masks()`` gives the mask as MaskablePPO asks for.
    The game of ``reset(seed=s)`` is that of ``Game(seed=s, dealer=None)``; ``reset()`` after it goes on with games
    whose seeds follow from s.

    Args:
        rules, reward, episode, skip_forced, scores, dealer: see :class:`cribbage_env.options.EnvOptions`. ``scores``
            and ``dealer`` can be given to ``reset(options=...)`` too, for that and all later games.
        render_mode: ``"ansi"`` for text, ``"rgb_array"`` for a picture, (640, 1024, 3) uint8 (see
            :mod:`cribbage_env.render`), or None.
        render_view: whose knowledge is shown; the rest lies face down. ``"player"`` is the seat to act (at the end the
            one that acted last), ``"all"`` a spectator who sees all cards, 0 or 1 always this seat.
    """

    metadata = {"render_modes": RENDER_MODES, "render_fps": RENDER_FPS}  # noqa: RUF012 (Gymnasium's name)

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
        check_render(render_mode, render_view)
        self.render_mode = render_mode
        self.render_view = render_view
        self.seat_names: Sequence[str] = SEAT_NAMES
        """What the seats are called in pictures."""
        self._log = new_log()
        self._events: list[Event] = []  # of the game so far, kept for pictures only
        self._actor: int | None = None  # who acted last, kept for pictures only
        self._batch = CribbageVectorEnv(
            1, rules=rules, reward=reward, episode=episode, skip_forced=skip_forced, scores=scores, dealer=dealer
        )
        self._action = np.zeros(1, np.int64)
        self._running = False
        self.observation_space = observation_space()
        self.action_space = gym.spaces.Discrete(NUM_ACTIONS)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Start a game; ``options`` may have ``scores`` and ``dealer``."""
        super().reset(seed=seed)
        self._batch.options = self._batch.options.changed(options)
        self._batch.reset(seed=seed)
        self._begin()
        return self._observation(), self._info()

    def _begin(self) -> None:
        """What is to be done when a game has begun."""
        self._running = True
        self._actor = None
        if self.render_mode is not None:
            self._events = []
            self._batch._log = self._log

    def step(self, action: int | np.int64) -> tuple[dict[str, NDArray[Any]], float, bool, bool, dict[str, Any]]:
        """Take one action of the seat to act; see the class."""
        batch = self._batch
        if not self._running:
            raise gym.error.ResetNeeded("call reset before step: no episode is running")
        number = operator.index(action)
        is_legal = 0 <= number < NUM_ACTIONS and batch._masks[0, number]
        mask = None if is_legal else batch._masks[0].copy()
        self._action[0] = number if is_legal else -1
        if self.render_mode is None:
            batch._advance(self._action, autoreset=False)
        else:
            self._actor = int(batch.players[0])
            before = batch.rows[0].copy()
            self._log[0, 0] = 0
            batch._advance(self._action, autoreset=False)
            self._events += read_events(before, self._log)
        if not batch._terminated[0]:
            return self._observation(), float(batch._rewards[0]), False, False, self._info()
        self._running = False
        row = batch._final_rows[0]
        info = self._info()
        info["winner"] = int(row[WINNER]) if row[WINNER] >= 0 else None
        info["scores"] = np.minimum(row[SCORE : SCORE + 2], row[TARGET]).astype(np.int64)
        if row[FORFEIT] >= 0:
            info["illegal_action"] = {"action": number, "action_mask": mask}
        observation = {
            "observation": batch._final_obs[0].copy(),
            "action_mask": np.zeros(NUM_ACTIONS, np.int8),
        }
        return observation, float(batch._rewards[0]), True, False, info

    def _observation(self) -> dict[str, NDArray[Any]]:
        return {"observation": self._batch._obs[0].copy(), "action_mask": self._batch._masks[0].copy()}

    def _info(self) -> dict[str, Any]:
        return {"player": int(self._batch.players[0]), "rewards": self._batch._seat_rewards[0].copy()}

    def action_masks(self) -> NDArray[np.bool_]:
        """(19,) bool: the legal actions of the seat to act."""
        return self._batch._masks[0].astype(np.bool_) if self._running else np.zeros(NUM_ACTIONS, np.bool_)

    def observe(self, seat: int) -> dict[str, NDArray[Any]]:
        """What a seat knows now, whoever is to act; the mask of the other one is all zero."""
        observation = np.zeros(OBSERVATION_SIZE, np.uint8)
        mask = np.zeros(NUM_ACTIONS, np.int8)
        write_observation(self._batch.rows[0], seat, observation)
        write_mask(self._batch.rows[0], seat, mask)
        return {"observation": observation, "action_mask": mask}

    @property
    def game(self) -> Game:
        """A readable copy of the present state, without the events that led to it."""
        return Game.of_state(self._batch.rows[0], int(self._batch.seeds[0]), self._batch.options.game_rules)

    def render(self) -> str | NDArray[np.uint8] | None:
        """The table in the render mode: text, a picture, (640, 1024, 3) uint8, or None.

        Raises:
            ResetNeeded: no game was started.
        """
        if self.render_mode is None:
            return None
        if not self._running and self._actor is None:
            raise gym.error.ResetNeeded("call reset before render: there is no game to show")
        seat, below = self._viewer()
        return draw(self.render_mode, self._batch.rows[0], seat, self._events, self.seat_names, below)

    def _viewer(self) -> tuple[int | None, int]:
        """Whose knowledge is shown, None for all cards, and the seat at the lower edge of the picture."""
        if self.render_view == "player":
            player = int(self._batch.players[0])
            return player if self._running or self._actor is None else self._actor, 0
        return (None, 0) if self.render_view == "all" else (int(self.render_view), int(self.render_view))
