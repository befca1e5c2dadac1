"""Episodes played to their end: every decision of the learner, with all its candidates and the return that followed.

A return is what the acting seat was rewarded from its action to the end of the episode, undiscounted. In single deals
with another reward than points that is what the deal changed of the value of the board, in points (:mod:`.objective`).

With ``subtract_luck`` (single deals) returns lose what the action could not change, so that their
spread is that of what is to be learned: from plays the points of the show, from discards heels and the opponent's hand;
and of the own hand the average over all starters counts, not the one that was cut. It is a control variate: what is
subtracted follows from cards that no action changes, so in expectation all actions of a decision lose alike. That holds
where the target ends a deal before its show, too, since it is the cards' worth that is subtracted, counted or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.base import decision_keys
from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from cribbage_env.engine import DEALER, DECISIONS, HEELS_PART, KEPT, PART_POINTS, STARTER, THROWN, State
from cribbage_env.jit import jit
from cribbage_env.scoring import show_points, show_table
from cribbage_env.streams import combine_arrays, unit
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.train_config import TrainConfig
from experiments.training.league import ITSELF, League
from experiments.training.objective import Objective, end_values
from experiments.training.starts import deal_starts
from experiments.training.streams import DECKS, EXPLORATION, stream


@dataclass(frozen=True)
class Decisions:
    """S decisions of a kind, those of a seat of an episode in a row and in order."""

    features: NDArray[np.int32]
    """(R, K + 1): of all candidates, those of a decision next to each other; see
    :class:`agents.neural.features.Candidates`."""
    known: NDArray[np.float32]
    """(R, k)"""
    probabilities: NDArray[np.float64]
    """(R,): with which each of them was drawn."""
    sizes: NDArray[np.int64]
    """(S,): how many candidates each decision has."""
    chosen: NDArray[np.int64]
    """(S,): which of its candidates was taken, 0 for its first."""
    returns: NDArray[np.float32]
    """(S,) in the unit of the reward"""
    episodes: NDArray[np.int64]
    """(S,): its number in the run."""
    seats: NDArray[np.int64]
    """(S,): who decided."""
    policies: NDArray[np.int64]
    """(S,): which of the learner's policies."""
    steps: NDArray[np.int64]
    """(S,): when in its episode; what a seat decided, discards and plays, is in the order of this number."""

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def first(self) -> NDArray[np.int64]:
        """(S + 1,): decision s has the candidates from ``first[s]`` up to ``first[s + 1]``."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @property
    def taken(self) -> NDArray[np.int64]:
        """(S,): the candidates that were taken, as entries of ``features``."""
        return self.first[:-1] + self.chosen


@dataclass(frozen=True)
class _Step:
    """What was decided in a step: M decisions of a kind."""

    slots: NDArray[np.int64]
    features: NDArray[np.int32]
    known: NDArray[np.float32]
    probabilities: NDArray[np.float64]
    sizes: NDArray[np.int64]
    chosen: NDArray[np.int64]
    policies: NDArray[np.int64]


@jit(_nrt=False)
def draw_candidates(
    probabilities: NDArray[np.float64], first: NDArray[np.int64], keys: NDArray[np.uint64], chosen: NDArray[np.int64]
) -> None:
    """Draw one candidate of each decision: ``chosen`` (S,), 0 for its first."""
    for s in range(len(chosen)):
        drawn = unit(keys[s])
        passed = 0.0
        for r in range(first[s], first[s + 1]):
            if probabilities[r] > 0.0:
                chosen[s] = r - first[s]  # also if rounding leaves the draw above all of them
                passed += probabilities[r]
                if passed > drawn:
                    break


def explored(probabilities: NDArray[np.float64], first: NDArray[np.int64], epsilon: float) -> NDArray[np.float64]:
    """The probabilities (R,) of decisions, mixed with a share ``epsilon`` of drawing any candidate."""
    sizes = np.diff(first)
    return (1.0 - epsilon) * probabilities + np.repeat(epsilon / sizes, sizes)


def collect(
    policies: Sequence[NeuralAgent],
    config: TrainConfig,
    league: League,
    numbers: NDArray[np.int64],
    seated: NDArray[np.int64] | None = None,
    epsilon: float | None = None,
) -> dict[str, Decisions]:
    """Play the run's episodes with these numbers (N,) to their end.

    Everything follows from the config's seed, the episodes' numbers and the agents.

    Args:
        policies: the learner's; most learners have one.
        config: of the run.
        league: whom the learner meets.
        numbers: of the episodes.
        seated: (N, 2) which of the policies plays for the learner in each seat; None: the first.
        epsilon: how often any action is drawn; None: as the config says.
    """
    games = len(numbers)
    of_deals = config.collect.episode == "deal"
    env = CribbageVectorEnv(
        games,
        rules=config.rules.rules(),
        reward=config.collect.reward,
        episode=config.collect.episode,
        skip_forced=True,
        copy=False,
    )
    objective = Objective.of(config.collect.reward, config.collect.board, config.rules.rules())
    decks = combine_arrays(np.full(games, stream(config.seed, DECKS), np.uint64), numbers)
    exploration = stream(config.seed, EXPLORATION)
    epsilon = config.collect.epsilon if epsilon is None else epsilon
    observations, _ = env.reset(options={"game_seeds": decks})
    if of_deals:
        observations, _ = env.set_rows(deal_starts(config, numbers))
    measure = objective.measure(env.rows)
    opponents, own_seats = league.draw(numbers)
    seated = np.zeros((games, 2), np.int64) if seated is None else seated

    steps: dict[str, list[_Step]] = {kind: [] for kind in KINDS}
    players: list[NDArray[np.int8]] = []  # each step: (games,) who acted
    rewards: list[NDArray[np.float64]] = []  # each step: (games,) to seat 0
    ends = env.rows.copy()  # the states at the end
    actions = np.zeros(games, np.int64)
    while env.active.any():
        acting = env.players.copy()
        theirs = env.active & (opponents != ITSELF) & (acting != own_seats)
        own = np.flatnonzero(env.active & ~theirs)
        keys = decision_keys(exploration, numbers, env.rows[:, DECISIONS])
        if theirs.any():
            slots = np.flatnonzero(theirs)
            masks = observations["action_mask"][slots]
            actions[slots] = league.act(opponents[slots], observations["observation"][slots], masks, keys[slots])
        who = seated[own, acting[own]]
        for number, policy in enumerate(policies):
            slots = own[who == number]
            for kind, step in _decide(policy, number, observations, slots, keys, epsilon, actions).items():
                steps[kind].append(step)
        before = len(players)
        for kind in KINDS:  # one entry a step and kind, policies together
            steps[kind][before:] = [_joined(steps[kind][before:])]
        players.append(acting)
        observations, _, _, _, infos = env.step(actions)
        rewards.append(infos["rewards"][:, 0].copy())
        if "final_info" in infos:
            ended = np.flatnonzero(infos["_final_info"])
            ends[ended] = env.final_rows[ended]
    payoff = np.array(rewards)
    if of_deals and config.collect.reward != "points":
        payoff[:] = 0.0
        payoff[-1] = end_values(ends, np.zeros(games, np.int64), objective, measure)
    to_go = np.cumsum(payoff[::-1], axis=0)[::-1]  # (steps, games), to seat 0
    samples = {}
    for kind in KINDS:
        slots, one = _ordered(steps[kind], np.array(players), numbers)
        returns = np.where(one.seats == 0, to_go[one.steps, slots], -to_go[one.steps, slots])
        if getattr(config.learner, "subtract_luck", False):
            returns -= measure.point[slots] * _luck(kind, ends[slots], one.seats, one.known[one.taken, 0])
        one.returns[:] = returns
        samples[kind] = one
    total = to_go[0] if len(to_go) else np.zeros(games)
    league.record(opponents, np.where(own_seats == 0, total, -total))
    return samples


def _decide(
    policy: NeuralAgent,
    number: int,
    observations: dict[str, NDArray[Any]],
    slots: NDArray[np.int64],
    keys: NDArray[np.uint64],
    epsilon: float,
    actions: NDArray[np.int64],
) -> dict[str, _Step]:
    """Decide in some slots; writes their ``actions``."""
    made = {}
    candidates = policy.candidates(observations["observation"][slots], observations["action_mask"][slots])
    for kind, those in candidates.items():
        first = those.bounds()
        rows = those.rows[first[:-1]]
        chosen = np.zeros(len(rows), np.int64)
        probabilities = np.zeros(len(those))
        if len(those):
            probabilities = explored(policy.probabilities(kind, those), first, epsilon)
            draw_candidates(probabilities, first, keys[slots[rows]], chosen)
            actions[slots[rows]] = those.actions[first[:-1] + chosen]
        made[kind] = _Step(
            slots[rows], those.features, those.known, probabilities, np.diff(first), chosen, np.full(len(rows), number)
        )
    return made


def _joined(steps: Sequence[_Step]) -> _Step:
    """Several policies' decisions of a step together."""
    if len(steps) == 1:
        return steps[0]
    return _Step(*(np.concatenate([getattr(one, part.name) for one in steps]) for part in fields(_Step)))


def _ordered(
    steps: Sequence[_Step], players: NDArray[np.int8], numbers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Decisions]:
    """The slots (S,) and the decisions of a kind, by episode, seat and step; returns are still zero.

    Args:
        steps: all of them.
        players: (steps, games), who acted.
        numbers: of the episodes.
    """
    every = _joined(steps)
    at_step = np.repeat(np.arange(len(steps)), [len(one.slots) for one in steps])
    seats = players[at_step, every.slots].astype(np.int64)
    order = np.lexsort((at_step, seats, every.slots))
    first = np.concatenate([[0], np.cumsum(every.sizes)])
    rows = entries_of(first, order)
    slots = every.slots[order]
    return slots, Decisions(
        every.features[rows],
        every.known[rows],
        every.probabilities[rows],
        every.sizes[order],
        every.chosen[order],
        np.zeros(len(order), np.float32),
        numbers[slots],
        seats[order],
        every.policies[order],
        at_step[order],
    )


def entries_of(first: NDArray[np.int64], which: NDArray[np.int64]) -> NDArray[np.int64]:
    """The entries of some decisions in a row: from ``first[s]`` to ``first[s + 1]`` for every s of ``which``."""
    sizes = np.diff(first)[which]
    ends = np.cumsum(sizes)
    return np.repeat(first[which] - (ends - sizes), sizes) + np.arange(ends[-1] if len(ends) else 0)


@jit(_nrt=False)
def _write_shown(table: NDArray[np.int8], rows: State, points: NDArray[np.float64]) -> None:
    for i in range(len(rows)):
        for which in range(3):
            at = THROWN if which == 2 else KEPT + 4 * which
            four = rows[i, at : at + 4]
            points[i, which] = show_points(table, four[0], four[1], four[2], four[3], rows[i, STARTER], which == 2)


def shown_points(rows: State) -> NDArray[np.float64]:
    """What the hands of seats 0 and 1 and the crib are worth in deals (N, STATE_SIZE) after the discards: (N, 3)."""
    points = np.empty((len(rows), 3))
    _write_shown(show_table(), rows, points)
    return points


def _luck(kind: str, ends: State, seats: NDArray[np.int64], known: NDArray[np.float32]) -> NDArray[np.float64]:
    """What is subtracted from the returns (S,) of a kind, see the module.

    Args:
        ends: (S, STATE_SIZE) the states at the end of the deals.
        seats: (S,) who acted.
        known: (S,) of discards, the kept hand's average.
    """
    shown, at = shown_points(ends), np.arange(len(ends))
    deals = np.where(ends[:, DEALER] == seats, 1.0, -1.0)
    luck: NDArray[np.float64] = shown[at, seats] - shown[at, 1 - seats]
    if kind == "play":
        return luck + deals * shown[:, 2]
    heels = ends[:, PART_POINTS : PART_POINTS + 12].reshape(-1, 2, 6)[:, :, HEELS_PART]  # counted in every deal
    return luck - known + heels[at, seats] - heels[at, 1 - seats]


def joined(parts: Sequence[dict[str, Decisions]]) -> dict[str, Decisions]:
    """The decisions of consecutive ranges of episodes together."""
    return {
        kind: Decisions(
            *(np.concatenate([getattr(part[kind], one.name) for part in parts]) for one in fields(Decisions))
        )
        for kind in KINDS
    }
