"""Thousands of games a call: a Gymnasium vector environment over the compiled engine.

Every sub-environment is a game of two seats, as in :mod:`cribbage_env.env`: each step takes the action of the seat to
act, and the observation is that of the seat to act next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from cribbage_env.engine import (
    BETWEEN,
    DECISIONS,
    EVENT_SIZE,
    FIRST_DEALER,
    FORFEIT,
    NUM_ACTIONS,
    OVER,
    PART_POINTS,
    PHASE,
    PLAYER,
    SCORE,
    STATE_SIZE,
    TARGET,
    WINNER,
    State,
    apply,
    cut_for_deal,
    deal_from_seed,
    forced_action,
    forfeit,
    game_seed,
    is_legal,
    new_game,
    win_level,
)
from cribbage_env.engine import DEAL as DEAL_COLUMN
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import OBSERVATION_HIGH, OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.options import (
    DEAL_EPISODE,
    EPISODE,
    GAME_POINTS_REWARD,
    ONE_TWO_REWARD,
    POINTS_REWARD,
    REWARD,
    SET_DEALER,
    SET_DOUBLE,
    SET_SCORE_0,
    SET_SCORE_1,
    SET_SKUNK,
    SET_TARGET,
    SKIP_FORCED,
    EnvOptions,
)
from cribbage_env.render import RENDER_FPS, RENDER_MODES, SEAT_NAMES, LastShows, check_render, draw
from cribbage_env.rules import Rules
from cribbage_env.scoring import show_table
from cribbage_env.streams import check_seed, fresh_seed


def observation_space() -> gym.spaces.Dict:
    """The space of one player's observations: ``observation`` uint8 (D,) and ``action_mask`` int8 (19,)."""
    return gym.spaces.Dict(
        {
            "observation": gym.spaces.Box(0, OBSERVATION_HIGH, (OBSERVATION_SIZE,), np.uint8),
            "action_mask": gym.spaces.Box(0, 1, (NUM_ACTIONS,), np.int8),
        }
    )


@inline_jit
def start_game(row: State, seed: int, settings: NDArray[np.int64]) -> None:
    """Begin the game with the given seed, up to the first decision. ``settings`` is ``EnvOptions.settings()``."""
    dealer = settings[SET_DEALER]
    if dealer < 0:
        dealer = cut_for_deal(seed)
    new_game(
        row,
        settings[SET_TARGET],
        settings[SET_SKUNK],
        settings[SET_DOUBLE],
        dealer,
        settings[SET_SCORE_0],
        settings[SET_SCORE_1],
    )
    deal_from_seed(row, seed)


@inline_jit
def game_value(row: State, reward: int) -> float:
    """What the end of a game is worth to its winner under a reward that is paid at the end."""
    level = win_level(row)
    if reward == GAME_POINTS_REWARD:
        return 2.0 + level
    if reward == ONE_TWO_REWARD:
        return 2.0 if level > 0 else 1.0
    return 1.0


@inline_jit
def step_game(
    table: NDArray[np.int8],
    row: State,
    seed: int,
    action: int,
    settings: NDArray[np.int64],
    rewards: NDArray[np.float64],
    log: State,
) -> bool:
    """Take one action of the seat to act, legal or not, and all that follows without a decision.

    Writes both seats' rewards, (2,) float64, and returns whether the episode is over.
    """
    before = int(row[SCORE]) - int(row[SCORE + 1])
    if is_legal(row, action):
        apply(table, row, action, log)
        if settings[SKIP_FORCED]:
            forced = forced_action(row)
            while forced >= 0:
                apply(table, row, forced, log)
                forced = forced_action(row)
    else:
        forfeit(row, int(row[PLAYER]))
    over = row[PHASE] == OVER
    value = 0.0  # to seat 0
    if settings[REWARD] == POINTS_REWARD:
        value = float(int(row[SCORE]) - int(row[SCORE + 1]) - before)
    elif over:
        value = game_value(row, settings[REWARD])
        if row[WINNER] == 1:
            value = -value
    rewards[0] = value
    rewards[1] = 0.0 - value  # not -0.0
    if row[PHASE] == BETWEEN:
        if settings[EPISODE] == DEAL_EPISODE:
            return True
        deal_from_seed(row, seed)
    return over


@inline_jit
def next_game(
    i: int,
    rows: State,
    base_seeds: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    queue: NDArray[np.uint64],
    queue_next: NDArray[np.int64],
    settings: NDArray[np.int64],
) -> None:
    """Start the next game in slot i: the next of the queue (none left: the slot idles), or of the slot's own stream."""
    if queue.shape[0] > 0:
        number = queue_next[0]
        if number >= queue.shape[0]:
            numbers[i] = -1
            return
        queue_next[0] = number + 1
        numbers[i] = number
        seeds[i] = queue[number]
    else:
        numbers[i] += 1
        seeds[i] = game_seed(base_seeds[i], numbers[i])
    start_game(rows[i], seeds[i], settings)


@inline_jit
def show_slot(i: int, rows: State, obs: NDArray[np.uint8], masks: NDArray[np.int8], players: NDArray[np.int8]) -> None:
    """Write slot i's observation, mask and player to act."""
    seat = int(rows[i, PLAYER])
    players[i] = seat
    write_observation(rows[i], seat, obs[i])
    write_mask(rows[i], seat, masks[i])


@jit(_nrt=False)
def show_slots(rows: State, obs: NDArray[np.uint8], masks: NDArray[np.int8], players: NDArray[np.int8]) -> None:
    """Write every slot's observation, mask and player to act."""
    for i in range(rows.shape[0]):
        show_slot(i, rows, obs, masks, players)


@jit(_nrt=False)
def reset_batch(
    rows: State,
    base_seeds: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    queue: NDArray[np.uint64],
    queue_next: NDArray[np.int64],
    settings: NDArray[np.int64],
    chosen: NDArray[np.bool_],
    obs: NDArray[np.uint8],
    masks: NDArray[np.int8],
    players: NDArray[np.int8],
) -> None:
    """Start the next game in every chosen slot."""
    for i in range(rows.shape[0]):
        if chosen[i]:
            rows[i, PHASE] = OVER
            next_game(i, rows, base_seeds, numbers, seeds, queue, queue_next, settings)
            show_slot(i, rows, obs, masks, players)


@jit(_nrt=False)
def step_batch(
    table: NDArray[np.int8],
    rows: State,
    actions: NDArray[np.int64],
    base_seeds: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    queue: NDArray[np.uint64],
    queue_next: NDArray[np.int64],
    settings: NDArray[np.int64],
    no_log: State,
    autoreset: bool,
    obs: NDArray[np.uint8],
    masks: NDArray[np.int8],
    players: NDArray[np.int8],
    rewards: NDArray[np.float64],
    seat_rewards: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    final_rows: State,
    final_obs: NDArray[np.uint8],
    final_numbers: NDArray[np.int64],
    final_seeds: NDArray[np.uint64],
) -> int:
    """One step of every game; returns how many episodes ended. See :class:`CribbageVectorEnv` for the buffers."""
    ended = 0
    for i in range(rows.shape[0]):
        if numbers[i] < 0 or (not autoreset and rows[i, PHASE] >= BETWEEN):  # idle
            terminated[i] = False
            rewards[i] = 0.0
            seat_rewards[i, 0] = 0.0
            seat_rewards[i, 1] = 0.0
            continue
        seat = int(rows[i, PLAYER])
        done = step_game(table, rows[i], seeds[i], actions[i], settings, seat_rewards[i], no_log)
        rewards[i] = seat_rewards[i, seat]
        terminated[i] = done
        if done:
            ended += 1
            write_observation(rows[i], seat, final_obs[i])
            for j in range(STATE_SIZE):
                final_rows[i, j] = rows[i, j]
            final_numbers[i] = numbers[i]
            final_seeds[i] = seeds[i]
            if autoreset:
                next_game(i, rows, base_seeds, numbers, seeds, queue, queue_next, settings)
        show_slot(i, rows, obs, masks, players)
    return ended


@jit
def win_levels(rows: State) -> NDArray[np.int8]:
    """:func:`cribbage_env.engine.win_level` of each row (N, STATE_SIZE); -1 where nobody has won."""
    levels = np.empty(rows.shape[0], np.int8)
    for i in range(rows.shape[0]):
        levels[i] = win_level(rows[i]) if rows[i, WINNER] >= 0 else -1
    return levels


def final_results(rows: State, numbers: NDArray[np.int64], seeds: NDArray[np.uint64]) -> dict[str, NDArray[Any]]:
    """The results of finished episodes, from copies of their rows.

    Args:
        rows: (M, STATE_SIZE) int16.
        numbers, seeds: (M,) the games' numbers within their stream or queue, and their seeds.

    Returns:
        ``game`` (M,) int64 and ``seed`` (M,) uint64; ``winner`` (M,) int16 (-1: a single deal without a winner);
        ``scores`` (M, 2), at most the target, and ``raw_scores`` (M, 2); ``skunk`` (M,) int8 0, 1, 2 (-1: no winner);
        ``deals`` (M,), also those unfinished; ``first_dealer`` (M,); ``decisions`` (M,); ``forfeit`` (M,): the seat
        that lost by an illegal action, or -1; ``parts`` (M, 2, 6): points of each seat by
        ``cribbage_env.engine.PARTS``.
    """
    raw = rows[:, SCORE : SCORE + 2]
    return {
        "game": numbers,
        "seed": seeds,
        "winner": rows[:, WINNER],
        "scores": np.minimum(raw, rows[:, TARGET, None]),
        "raw_scores": raw,
        "skunk": win_levels(rows),
        "deals": rows[:, DEAL_COLUMN] + 1,
        "first_dealer": rows[:, FIRST_DEALER],
        "decisions": rows[:, DECISIONS],
        "forfeit": rows[:, FORFEIT],
        "parts": rows[:, PART_POINTS : PART_POINTS + 12].reshape(-1, 2, 6),
    }


class CribbageVectorEnv(VectorEnv):
    """``num_envs`` games of two-seat cribbage in one array, with SAME_STEP autoreset.

    Options are those of :class:`cribbage_env.options.EnvOptions`. A step takes actions (N,) and returns

    * observations ``{"observation": (N, D) uint8, "action_mask": (N, 19) int8}`` of each game's seat to act, after a
      finished game those of the next one;
    * rewards (N,) float64 of the seats that just acted, terminations (N,) bool, truncations (N,) bool (all False);
    * infos: ``player`` (N,) int8 who acts next, ``rewards`` (N, 2) float64 of both seats, and, when an episode ended,
      ``final_info`` (:func:`final_results` with N entries each; those of games that did not end are void) and
      ``final_obs`` (the last observation of the seat that acted), with the mask ``_final_info`` = ``_final_obs`` (N,).
      :meth:`finished` has the same without the void entries.

    An illegal action ends its game as lost for the actor (``final_info["forfeit"]``).

    Game 0 of slot i has seed ``seed + i``, like sub-environments in Gymnasium; later games have seeds drawn from it
    (:func:`cribbage_env.engine.game_seed`). ``reset(options={"game_seeds": array})`` plays exactly these games
    instead, in the order in which slots fall free; ``final_info["game"]`` is the index into the array, and a slot
    for which no game is left idles: its mask is all zero, its action is ignored, and it never terminates.

    Args:
        num_envs: how many games are played side by side.
        copy: False returns the environment's own buffers, which the next step overwrites: faster, for callers that
            copy what they keep.
        render_mode, render_view: as in :class:`cribbage_env.env.CribbageEnv`; :meth:`render` returns one text or
            picture (2 MB) for each game.
    """

    metadata = {  # noqa: RUF012 (Gymnasium's name)
        "render_modes": RENDER_MODES,
        "render_fps": RENDER_FPS,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        num_envs: int = 1,
        *,
        rules: Rules | Mapping[str, Any] | None = None,
        reward: str = "win",
        episode: str = "game",
        skip_forced: bool = False,
        scores: Sequence[int] = (0, 0),
        dealer: int | None = None,
        copy: bool = True,
        render_mode: str | None = None,
        render_view: str | int = "player",
    ) -> None:
        if isinstance(num_envs, bool) or not isinstance(num_envs, int | np.integer) or num_envs < 1:
            raise ValueError(f"num_envs must be a positive integer, got {num_envs!r}")
        check_render(render_mode, render_view)
        n = int(num_envs)
        self.num_envs = n
        self.options = EnvOptions(rules, reward, episode, skip_forced, scores, dealer)
        self.copy = copy
        self.render_mode = render_mode
        self.render_view = render_view
        self._shows = None if render_mode is None else LastShows(n)
        self.single_observation_space = observation_space()
        self.single_action_space = gym.spaces.Discrete(NUM_ACTIONS)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)

        self.rows: State = np.zeros((n, STATE_SIZE), np.int16)
        self.seeds = np.zeros(n, np.uint64)
        self.numbers = np.full(n, -1, np.int64)
        self.players = np.zeros(n, np.int8)
        self._table = show_table()
        self._settings = self.options.settings()
        self._log: State = np.zeros((0, EVENT_SIZE), np.int16)  # without rows: none is kept
        self._base_seeds = np.zeros(n, np.uint64)
        self._stream_numbers = self.numbers.copy()
        self._queue = np.zeros(0, np.uint64)
        self._queue_next = np.zeros(1, np.int64)
        self._obs = np.zeros((n, OBSERVATION_SIZE), np.uint8)
        self._masks = np.zeros((n, NUM_ACTIONS), np.int8)
        self._rewards = np.zeros(n, np.float64)
        self._seat_rewards = np.zeros((n, 2), np.float64)
        self._terminated = np.zeros(n, np.bool_)
        self._truncated = np.zeros(n, np.bool_)
        self._final_rows: State = np.zeros((n, STATE_SIZE), np.int16)
        self._final_obs = np.zeros((n, OBSERVATION_SIZE), np.uint8)
        self._final_masks = np.zeros((n, NUM_ACTIONS), np.int8)
        self._final_numbers = np.zeros(n, np.int64)
        self._final_seeds = np.zeros(n, np.uint64)
        self._final = final_results(self._final_rows.copy(), self._final_numbers.copy(), self._final_seeds.copy())
        self._fresh = np.ones(n, np.bool_)  # slots that were never seeded
        self._seeded = False

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Start new games in all slots (or those in ``options["reset_mask"]``).

        Args:
            seed: slot i gets ``seed + i``, or ``seed[i]``. None goes on with the slots' streams (at first: seeds from
                the operating system).
            options: ``scores`` and ``dealer`` for these and all later games, ``game_seeds`` (M,) for a fixed list of
                games (the next reset without it goes back to the slots' streams), ``reset_mask`` (N,) bool (not
                together with a list).
        """
        options = dict(options or {})
        chosen = np.asarray(options.pop("reset_mask", np.ones(self.num_envs, np.bool_)))
        if chosen.shape != (self.num_envs,) or chosen.dtype != np.bool_:
            raise ValueError(f"reset_mask must be ({self.num_envs},) bool, got {chosen.shape} {chosen.dtype}")
        game_seeds = options.pop("game_seeds", None)
        queue = np.zeros(0, np.uint64)
        if game_seeds is not None:
            queue = np.array([check_seed(one, "game_seeds") for one in game_seeds], np.uint64)
            if len(queue) == 0:
                raise ValueError("game_seeds must have at least one seed")
        if not chosen.all() and (len(queue) or len(self._queue)):
            raise ValueError("reset_mask can't start single slots of a list of game_seeds")
        changed = self.options.changed(options, others=("game_seeds", "reset_mask"))
        seeds = self._checked_seeds(seed)
        # Everything given is checked: now change things.
        self.options = changed
        self._settings = changed.settings()
        if len(self._queue):  # the slots' own streams stood still while the list was played
            self.numbers[:] = self._stream_numbers
        for i in np.flatnonzero(chosen):
            one = seeds[i]
            if one is not None or self._fresh[i]:
                self._base_seeds[i] = fresh_seed() if one is None else one
                self.numbers[i] = -1
                self._fresh[i] = False
        self._seeded = True
        self._stream_numbers[:] = self.numbers
        self._queue = queue
        self._queue_next[0] = 0
        self._terminated[chosen] = False
        self._rewards[chosen] = 0.0
        self._seat_rewards[chosen] = 0.0
        if self._shows is not None:
            self._shows.forget(chosen)
        self._start(chosen)
        return self._observations(), self._infos(0)

    def _start(self, chosen: NDArray[np.bool_]) -> None:
        """Start the next game in the slots that ``chosen`` (N,) says, into the buffers."""
        reset_batch(
            self.rows, self._base_seeds, self.numbers, self.seeds, self._queue, self._queue_next, self._settings,
            chosen, self._obs, self._masks, self.players,
        )  # fmt: skip

    def _checked_seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """A seed for every slot, None where it is to go on with its stream."""
        if seed is None:
            return [None] * self.num_envs
        if isinstance(seed, int | np.integer):
            first = check_seed(int(seed))
            check_seed(first + self.num_envs - 1, f"seed {first} plus the number of the last slot")
            return [first + i for i in range(self.num_envs)]
        seeds = [None if one is None else check_seed(one) for one in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"seed must be an integer or {self.num_envs} of them, got {len(seeds)}")
        return seeds

    def step(
        self, actions: NDArray[np.integer[Any]]
    ) -> tuple[dict[str, NDArray[Any]], NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """Take the action of each game's seat to act; see the class."""
        if not np.can_cast(np.asarray(actions).dtype, np.int64, "same_kind"):
            raise TypeError(f"actions must be integers, got {np.asarray(actions).dtype}")
        chosen = np.ascontiguousarray(actions, np.int64)
        if chosen.shape != (self.num_envs,):
            raise ValueError(f"actions must have the shape ({self.num_envs},), got {chosen.shape}")
        if not self._seeded:
            raise gym.error.ResetNeeded("call reset before step")
        before = None if self._shows is None else self.rows.copy()
        ended = self._advance(chosen, autoreset=True)
        if self._shows is not None and before is not None:
            self._shows.step(before, self.rows, self._terminated)
        if self.copy:
            return (
                self._observations(),
                self._rewards.copy(),
                self._terminated.copy(),
                self._truncated.copy(),
                self._infos(ended),
            )
        return self._observations(), self._rewards, self._terminated, self._truncated, self._infos(ended)

    def _advance(self, actions: NDArray[np.int64], autoreset: bool) -> int:
        """Step all games into the buffers and return how many episodes ended."""
        return step_batch(
            self._table, self.rows, actions, self._base_seeds, self.numbers, self.seeds, self._queue,
            self._queue_next, self._settings, self._log, autoreset, self._obs, self._masks, self.players,
            self._rewards, self._seat_rewards, self._terminated, self._final_rows, self._final_obs,
            self._final_numbers, self._final_seeds,
        )  # fmt: skip

    def _observations(self) -> dict[str, NDArray[Any]]:
        if self.copy:
            return {"observation": self._obs.copy(), "action_mask": self._masks.copy()}
        return {"observation": self._obs, "action_mask": self._masks}

    def _infos(self, ended: int) -> dict[str, Any]:
        if self.copy:
            infos: dict[str, Any] = {"player": self.players.copy(), "rewards": self._seat_rewards.copy()}
        else:
            infos = {"player": self.players, "rewards": self._seat_rewards}
        if ended:
            ended_in, results = self.finished()
            buffers = (
                {name: np.zeros_like(all_slots) for name, all_slots in self._final.items()}
                if self.copy
                else self._final
            )
            for name, values in results.items():
                buffers[name][ended_in] = values
            infos["final_info"] = buffers
            infos["final_obs"] = {
                "observation": self._final_obs.copy() if self.copy else self._final_obs,
                "action_mask": self._final_masks.copy() if self.copy else self._final_masks,
            }
            infos["_final_info"] = infos["_final_obs"] = self._terminated.copy()
        return infos

    def finished(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """The episodes that the last step ended: their slots (M,) and :func:`final_results`, M entries each."""
        slots = np.flatnonzero(self._terminated)
        return slots, final_results(self._final_rows[slots], self._final_numbers[slots], self._final_seeds[slots])

    @property
    def final_rows(self) -> State:
        """(N, STATE_SIZE) int16: in slots whose episode the last step ended, the state at its end."""
        return self._final_rows

    def set_rows(self, rows: State) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Put the slots into given states, each in the discard phase or the play, and go on from there.

        The games keep their seeds: later deals follow from them. To be called after :meth:`reset`; plays without a
        choice at the very beginning are left to the caller, also with ``skip_forced``. Idle slots stay idle.

        Args:
            rows: (N, STATE_SIZE) int16, as the engine writes them (:mod:`cribbage_env.engine`).

        Returns:
            Observations and infos as of :meth:`reset`.

        Raises:
            ValueError: rows of another shape, or of a deal that is over.
        """
        rows = np.asarray(rows)
        if rows.shape != self.rows.shape or rows.dtype != np.int16:
            raise ValueError(f"rows must be {self.rows.shape} int16, got {rows.shape} {rows.dtype}")
        over = np.flatnonzero(rows[:, PHASE] >= BETWEEN)
        if len(over):
            raise ValueError(f"rows must be states with a decision to make; in row {over[0]} the deal is over")
        self.rows[:] = rows
        show_slots(self.rows, self._obs, self._masks, self.players)
        self._masks[~self.active] = 0
        self._seat_rewards[:] = 0.0
        return self._observations(), self._infos(0)

    def action_masks(self) -> NDArray[np.bool_]:
        """(N, 19) bool: the legal actions, as MaskablePPO asks for them."""
        return self._masks.astype(np.bool_)

    def render(self) -> tuple[str, ...] | tuple[NDArray[np.uint8], ...] | None:
        """A text or a picture, (640, 1024, 3) uint8, of each game; None without a render mode.

        Of events there are those of the present deal and of the last show, so that a rear peg may be missing.
        """
        if self._shows is None or self.render_mode is None:
            return None
        if not self._seeded:
            raise gym.error.ResetNeeded("call reset before render: there are no games to show")
        frames: list[Any] = []
        for slot, row in enumerate(self.rows):
            seat, below = self._viewer(slot)
            events = self._shows.events(slot, row)
            frames.append(draw(self.render_mode, row, seat, events, self._seat_names(slot), below))
        return tuple(frames)

    def _viewer(self, slot: int) -> tuple[int | None, int]:
        """Whose knowledge a picture of a game shows, None for all cards, and the seat at its lower edge."""
        if self.render_view == "player":
            return int(self.players[slot]), 0
        return (None, 0) if self.render_view == "all" else (int(self.render_view), int(self.render_view))

    def _seat_names(self, slot: int) -> Sequence[str]:
        """What the seats of a game are called in pictures."""
        return SEAT_NAMES

    @property
    def active(self) -> NDArray[np.bool_]:
        """(N,) bool: slots with a game in progress (all, unless a list of ``game_seeds`` has run out)."""
        return self.numbers >= 0
