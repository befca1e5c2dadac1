"""CribbageSolo-v0, many games a call: a learner has one seat of every game, agents play the other.

A step takes the learner's actions, then asks each opponent for all the rows in which it is to act, again and again,
until the learner is to act everywhere. Only the rows that still wait for an opponent are touched in these rounds, and
the learner's observations are written once, at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.opponents import Opponents, OpponentsLike, draw_opponent, opponent_key
from cribbage_env.engine import BETWEEN, DECISIONS, NUM_ACTIONS, OVER, PHASE, PLAYER, SCORE, STATE_SIZE, TARGET, State
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.rules import Rules
from cribbage_env.streams import combine, mix64
from cribbage_env.vector_env import CribbageVectorEnv, next_game, show_slot, step_game

_SEAT_STREAM = 2**33 + 2  # of a game's seed, apart from those of its decks, the cut for deal and the opponents
START, LEARNER, OPPONENT = range(3)


@inline_jit
def draw_seat(seed: int) -> np.int64:
    """The learner's seat in the game with this seed, each as often as the other."""
    return np.int64(mix64(combine(seed, _SEAT_STREAM)) >> np.uint64(63))


@jit(_nrt=False)
def drive(
    mode: int,
    table: NDArray[np.int8],
    slots: NDArray[np.int64],
    actions: NDArray[np.int64],
    autoreset: bool,
    rows: State,
    base_seeds: NDArray[np.uint64],
    numbers: NDArray[np.int64],
    seeds: NDArray[np.uint64],
    queue: NDArray[np.uint64],
    queue_next: NDArray[np.int64],
    settings: NDArray[np.int64],
    fixed_seat: int,
    bounds: NDArray[np.float64],
    no_log: State,
    seats: NDArray[np.int8],
    which: NDArray[np.int64],
    scratch: NDArray[np.float64],
    seat_rewards: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    lengths: NDArray[np.int64],
    returns: NDArray[np.float64],
    final_rows: State,
    final_obs: NDArray[np.uint8],
    final_numbers: NDArray[np.int64],
    final_seeds: NDArray[np.uint64],
    final_seats: NDArray[np.int8],
    final_which: NDArray[np.int64],
    final_lengths: NDArray[np.int64],
    final_returns: NDArray[np.float64],
    waiting: NDArray[np.int64],
    waiting_which: NDArray[np.int64],
    waiting_obs: NDArray[np.uint8],
    waiting_masks: NDArray[np.int8],
    waiting_keys: NDArray[np.uint64],
) -> int:
    """Move the games in ``slots`` (M,) on: start them, or take the action (M,) of their learner or opponent.

    Returns how many of them wait for the opponent now. They are listed in ``waiting``, which may be the array that
    ``slots`` is a part of, with the other ``waiting_`` arrays in the same order. For the rest see
    :class:`CribbageSoloVectorEnv`.
    """
    count = 0
    for at in range(slots.shape[0]):
        i = slots[at]
        begin = mode == START
        if mode == START:
            rows[i, PHASE] = OVER
        else:
            if mode == LEARNER:
                terminated[i] = False
                seat_rewards[i, 0] = 0.0
                seat_rewards[i, 1] = 0.0
                if numbers[i] < 0 or rows[i, PHASE] >= BETWEEN:  # idle
                    continue
                lengths[i] += 1
            done = step_game(table, rows[i], seeds[i], actions[at], settings, scratch, no_log)
            seat_rewards[i, 0] += scratch[0]
            seat_rewards[i, 1] += scratch[1]
            seat = np.int64(seats[i])
            returns[i] += scratch[seat]
            if done:
                terminated[i] = True
                write_observation(rows[i], seat, final_obs[i])
                for j in range(STATE_SIZE):
                    final_rows[i, j] = rows[i, j]
                final_numbers[i] = numbers[i]
                final_seeds[i] = seeds[i]
                final_seats[i] = seats[i]
                final_which[i] = which[i]
                final_lengths[i] = lengths[i]
                final_returns[i] = returns[i]
                begin = autoreset
        if begin:
            next_game(i, rows, base_seeds, numbers, seeds, queue, queue_next, settings)
            seats[i] = draw_seat(seeds[i]) if fixed_seat < 0 else fixed_seat
            which[i] = draw_opponent(bounds, seeds[i])
            lengths[i] = 0
            returns[i] = 0.0
        if numbers[i] >= 0 and rows[i, PHASE] < BETWEEN and rows[i, PLAYER] != seats[i]:
            opponent = 1 - np.int64(seats[i])
            waiting[count] = i
            waiting_which[count] = which[i]
            write_observation(rows[i], opponent, waiting_obs[count])
            write_mask(rows[i], opponent, waiting_masks[count])
            waiting_keys[count] = opponent_key(seeds[i], rows[i, DECISIONS])
            count += 1
    return count


@jit(_nrt=False)
def show_learner(
    rows: State,
    seats: NDArray[np.int8],
    obs: NDArray[np.uint8],
    masks: NDArray[np.int8],
    players: NDArray[np.int8],
    seat_rewards: NDArray[np.float64],
    rewards: NDArray[np.float64],
    terminated: NDArray[np.bool_],
    final_seats: NDArray[np.int8],
) -> None:
    """Write every slot's observation and mask for the learner, who is to act, and its reward."""
    for i in range(rows.shape[0]):
        show_slot(i, rows, obs, masks, players)
        rewards[i] = seat_rewards[i, final_seats[i] if terminated[i] else seats[i]]


def checked_seat(seat: object) -> int | None:
    """ValueError unless ``seat`` is 0, 1 or None."""
    if seat is None:
        return None
    if isinstance(seat, bool) or not isinstance(seat, int | np.integer) or seat not in (0, 1):
        raise ValueError(f"seat must be 0, 1 or None (drawn from the seed), got {seat!r}")
    return int(seat)


class CribbageSoloVectorEnv(CribbageVectorEnv):
    """``num_envs`` games of cribbage against an opponent, in one array, with SAME_STEP autoreset.

    A step takes the learner's actions (N,) and returns what is before it at its next decisions; all that the opponent
    does in between has happened.

    * observations ``{"observation": (N, D) uint8, "action_mask": (N, 19) int8}`` of the learner, who is to act; after a
      finished game those of its first decision in the next one;
    * rewards (N,) float64 of the learner: all that fell from its action to its next decision, or to the end;
    * terminations (N,) bool; truncations (N,) bool, all False;
    * infos: ``seat`` (N,) int8, the learner's; ``opponent`` (N,) int64, the place in :attr:`opponent_names` of whom it
      plays; ``scores`` (N, 2) int16 by seat, at most the target; ``rewards`` (N, 2) float64 by seat. When an episode
      ended, ``final_info`` and ``final_obs`` with the mask ``_final_info`` = ``_final_obs`` (N,), as in
      :class:`CribbageVectorEnv`, and in ``final_info`` also ``seat``, ``opponent``, ``won`` (bool, by the learner),
      ``return`` (the learner's, float64) and ``length`` (its decisions, int64).

    Nothing that is scored is lost between episodes: the learner's first decision in a game is its discard, and no point
    can fall before both players have discarded. So the learner's rewards in ``points`` sum to its raw score at the end
    minus the opponent's (less the scores that the game began with).

    An illegal action of the learner ends its game as lost. One of the opponent is a fault of the agent and raises
    :class:`agents.AgentError`; the environment then has to be reset.

    Who plays, in which seat, and everything random that the opponent does follows from the game's seed, so a game does
    not depend on the number of games beside it. Games, seeds and ``reset`` are those of :class:`CribbageVectorEnv`; the
    same seed is the same game with the same decks in ``Cribbage-v0``.

    Args:
        num_envs: how many games are played side by side.
        opponent: the spec of an agent, an agent, or a mapping of such to weights, of which every game draws one.
            Also in ``reset(options=...)``, for these and all later games; not for single slots.
        seat: the learner's, 0 or 1; None to draw it from the game's seed. Also in ``reset(options=...)``.
        rules, reward, episode, skip_forced, scores, dealer: see :class:`cribbage_env.options.EnvOptions`; ``scores``
            and ``dealer`` are by seat, whoever has it.
        copy: False returns the environment's own buffers, which the next step overwrites.
        render_mode, render_view: as in :class:`CribbageVectorEnv`; ``"player"`` is the learner's view.

    Raises:
        AgentError, ValueError, TypeError: an opponent or an option that cannot be; one line that says what can.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        opponent: OpponentsLike = "greedy",
        seat: int | None = None,
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
        super().__init__(
            num_envs,
            rules=rules,
            reward=reward,
            episode=episode,
            skip_forced=skip_forced,
            scores=scores,
            dealer=dealer,
            copy=copy,
            render_mode=render_mode,
            render_view=render_view,
        )
        n = self.num_envs
        self.seat = checked_seat(seat)
        self.opponents = Opponents(opponent)
        self.seats = np.zeros(n, np.int8)
        self.which = np.zeros(n, np.int64)
        self._next_seat, self._next_opponents = self.seat, self.opponents
        self._slots = np.arange(n)
        self._scratch = np.zeros(2, np.float64)
        self._lengths = np.zeros(n, np.int64)
        self._returns = np.zeros(n, np.float64)
        self._final_seats = np.zeros(n, np.int8)
        self._final_which = np.zeros(n, np.int64)
        self._final_lengths = np.zeros(n, np.int64)
        self._final_returns = np.zeros(n, np.float64)
        self._final |= self._own_results(self._slots, self._final["winner"])
        # The rows that wait for an opponent, one after the other
        self._waiting = np.zeros(n, np.int64)
        self._waiting_which = np.zeros(n, np.int64)
        self._waiting_obs = np.zeros((n, OBSERVATION_SIZE), np.uint8)
        self._waiting_masks = np.zeros((n, NUM_ACTIONS), np.int8)
        self._waiting_keys = np.zeros(n, np.uint64)

    @property
    def opponent_names(self) -> list[str]:
        """The names of the opponents, in the order of ``infos["opponent"]``."""
        return self.opponents.names

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Start new games; see :meth:`CribbageVectorEnv.reset`. ``options`` may have ``seat`` and ``opponent`` too."""
        options = dict(options or {})
        seat = checked_seat(options.pop("seat", self.seat))
        if "opponent" in options and not np.all(options.get("reset_mask", True)):
            raise ValueError("reset can't change the opponent of single slots: leave out reset_mask or opponent")
        opponents = Opponents(options.pop("opponent")) if "opponent" in options else self.opponents
        self._next_seat, self._next_opponents = seat, opponents  # taken over once the rest is checked
        return super().reset(seed=seed, options=options)

    def _start(self, chosen: NDArray[np.bool_]) -> None:
        self.seat, self.opponents = self._next_seat, self._next_opponents
        self._seeded = False  # until the opponents have moved
        waiting = self._drive(START, np.flatnonzero(chosen), self._waiting, True)
        if chosen.all():
            self.opponents.reset(int(self.seeds[0]))
        self._play_on(waiting, True)

    def _advance(self, actions: NDArray[np.int64], autoreset: bool) -> int:
        self._seeded = False  # an opponent that fails leaves the games in disorder
        self._play_on(self._drive(LEARNER, self._slots, actions, autoreset), autoreset)
        return int(np.count_nonzero(self._terminated))

    def _play_on(self, waiting: int, autoreset: bool) -> None:
        """Let the opponents act until no row waits for them, then show the learner where it is."""
        while waiting:
            actions = self.opponents.act(
                self._waiting_which[:waiting],
                self._waiting_obs[:waiting],
                self._waiting_masks[:waiting],
                self._waiting_keys[:waiting],
            )
            waiting = self._drive(OPPONENT, self._waiting[:waiting], actions, autoreset)
        show_learner(
            self.rows, self.seats, self._obs, self._masks, self.players, self._seat_rewards, self._rewards,
            self._terminated, self._final_seats,
        )  # fmt: skip
        self._seeded = True

    def _drive(self, mode: int, slots: NDArray[np.int64], actions: NDArray[np.int64], autoreset: bool) -> int:
        return drive(
            mode, self._table, slots, actions, autoreset, self.rows, self._base_seeds, self.numbers, self.seeds,
            self._queue, self._queue_next, self._settings, -1 if self.seat is None else self.seat,
            self.opponents.bounds, self._log, self.seats, self.which, self._scratch, self._seat_rewards,
            self._terminated, self._lengths, self._returns, self._final_rows, self._final_obs, self._final_numbers,
            self._final_seeds, self._final_seats, self._final_which, self._final_lengths, self._final_returns,
            self._waiting, self._waiting_which, self._waiting_obs, self._waiting_masks, self._waiting_keys,
        )  # fmt: skip

    def _infos(self, ended: int) -> dict[str, Any]:
        infos = super()._infos(ended)
        del infos["player"]  # always the learner
        infos["seat"] = self.seats.copy() if self.copy else self.seats
        infos["opponent"] = self.which.copy() if self.copy else self.which
        infos["scores"] = self.scores()
        return infos

    def scores(self) -> NDArray[np.int16]:
        """(N, 2), by seat, at most the target."""
        scores: NDArray[np.int16] = np.minimum(self.rows[:, SCORE : SCORE + 2], self.rows[:, TARGET, None])
        return scores

    def _viewer(self, slot: int) -> tuple[int | None, int]:
        learner = int(self.seats[slot])
        if self.render_view == "player":
            return learner, learner
        return (None, learner) if self.render_view == "all" else super()._viewer(slot)

    def _seat_names(self, slot: int) -> Sequence[str]:
        opponent = self.opponents.agents[self.which[slot]].name
        return ("learner", opponent) if self.seats[slot] == 0 else (opponent, "learner")

    @property
    def ready(self) -> bool:
        """Whether games are under way: after a reset, unless an opponent has failed since."""
        return self._seeded

    def finished(self) -> tuple[NDArray[np.int64], dict[str, NDArray[Any]]]:
        """The episodes that the last step ended, as ``final_info`` has them, M entries each."""
        slots, results = super().finished()
        return slots, results | self._own_results(slots, results["winner"])

    def _own_results(self, slots: NDArray[np.int64], winner: NDArray[np.int16]) -> dict[str, NDArray[Any]]:
        seats = self._final_seats[slots]
        return {
            "seat": seats,
            "opponent": self._final_which[slots],
            "won": winner == seats,
            "return": self._final_returns[slots],
            "length": self._final_lengths[slots],
        }
