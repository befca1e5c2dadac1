"""Imitation of a teacher: the networks learn what another agent does, where the student itself gets to.

After DAgger (S. Ross, G. Gordon, D. Bagnell, "A reduction of imitation learning and structured prediction to no-regret
online learning", AISTATS 2011): the states come from the student's own play (a share ``mix`` of what is played can be
the teacher's), and the teacher is asked at each of them, for its whole policy. New states cost little here, so each is
learned from once: no dataset is aggregated, the student is a no-regret learner by its gradient steps. With the policy
``pi``, a softmax of the network's scores over the candidates of a decision, and the teacher's ``t``, the loss is the
cross-entropy ``-sum t log pi``; its gradient by the scores is ``pi - t``. Cards of one rank are one candidate, of which
the teacher's probabilities are added up.

What counts in the end is what a best response could win, and that goes where the student errs, not where the student
itself would go. How much a mistake costs is in proportion to how likely the student's own choices lead there, whatever
the opponent has to do for it. So in each episode one seat plays just what it has learned, and the other one trembles:
at each of its plays, with the chance ``tremble``, it lays any card. All that the first one decides is learned, and what
the other one decides before it has trembled.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray

from agents import Agent, make_agent, named_in
from agents.base import decision_keys
from agents.equilibrium.prior import checked_policy
from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import Choice
from agents.neural.features import Candidates, discard_features, play_features
from cribbage_env.engine import DECISIONS, FIRST_PLAY
from cribbage_env.jit import jit
from cribbage_env.observation import AT_KEPT
from cribbage_env.streams import combine_arrays
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.train_config import DistillConfig, TrainConfig
from experiments.training.collect import draw_candidates, entries_of
from experiments.training.league import ITSELF, League
from experiments.training.learner import PART, Figures, Learner, Setup
from experiments.training.starts import deal_starts
from experiments.training.streams import DECKS, EXPLORATION, stream, units

TEMPERATURES = {"discard": 0.25, "play": 1.0}
"""Of the policies while they are learned. Scores of discards begin as known points, by which teachers mostly discard,
and more sharply than in proportion to exp(points). What is learned takes the best, so the unit doesn't matter."""


@dataclass(frozen=True)
class Answers:
    """S decisions of a kind with the teacher's answers."""

    features: NDArray[np.int32]
    """(R, K + 1): of all candidates, those of a decision next to each other."""
    known: NDArray[np.float32]
    """(R, k)"""
    targets: NDArray[np.float32]
    """(R,): how likely the teacher chooses each; they sum to 1 in each decision."""
    sizes: NDArray[np.int64]
    """(S,): how many candidates each decision has, at least two."""

    def __len__(self) -> int:
        return len(self.sizes)


@jit(_nrt=False)
def by_candidate(
    observations: NDArray[np.uint8],
    policy: NDArray[np.float64],
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    targets: NDArray[np.float32],
) -> None:
    """Write how likely a policy (B, 19) chooses each candidate (R,), given by its observation's row and its action.

    A play stands for all cards of its rank, of which it is the first that may be laid.
    """
    for r in range(len(rows)):
        row = rows[r]
        action = actions[r]
        target = policy[row, action]
        if action >= FIRST_PLAY:
            rank = observations[row, AT_KEPT + action - FIRST_PLAY] >> 2
            for slot in range(action - FIRST_PLAY + 1, 4):
                if observations[row, AT_KEPT + slot] >> 2 == rank:
                    target += policy[row, FIRST_PLAY + slot]
        targets[r] = target


@jit(_nrt=False)
def imitation_gradients(
    scores: NDArray[np.float32],
    first: NDArray[np.int64],
    targets: NDArray[np.float32],
    temperature: float,
    out: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """Write the gradient (R,) of the cross-entropies, added up over decisions, by score / temperature: ``pi - t``.

    The policy ``pi`` is in proportion to exp(score / temperature).

    Adds up in ``totals`` (2,): the divergences KL(t, pi), which are the cross-entropies without the entropy of the
    teacher; and how much probability the two put on the same candidates, ``sum min(t, pi)``.

    Args:
        first: (S + 1,) where each decision's candidates begin.
        targets: (R,) t.
    """
    for s in range(len(first) - 1):
        top = scores[first[s]]
        for r in range(first[s], first[s + 1]):
            top = max(top, scores[r])
        total = 0.0
        for r in range(first[s], first[s + 1]):
            total += np.exp((scores[r] - top) / temperature)
        log_total = np.log(total)
        for r in range(first[s], first[s + 1]):
            log_pi = (scores[r] - top) / temperature - log_total
            pi = np.exp(log_pi)
            out[r] = pi - targets[r]
            if targets[r] > 0.0:
                totals[0] += targets[r] * (np.log(targets[r]) - log_pi)
            totals[1] += min(pi, targets[r])


class DistillLearner(Learner):
    """Networks that learn a teacher's discards and plays."""

    settings: DistillConfig
    columns = ("loss_discard", "loss_play", "agreement_discard", "agreement_play", "mix")
    choice = Choice(discard=0.0, play=1.0, least=0.01)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.settings = setup.config.learner  # type: ignore[assignment]
        with named_in("learner.teacher"):
            self.teacher = make_agent(self.settings.teacher)
        self.add("discard", "discard", 1.0)
        self.add("play", "play", 0.0)

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """See :meth:`Learner.iterate`.

        All episodes are collected by the networks as they are now; what is collected first is learned from while the
        rest is being collected.
        """
        began = time.perf_counter()
        lr = self.lr(progress)
        mix = self.settings.mix + (self.settings.mix_end - self.settings.mix) * min(max(progress, 0.0), 1.0)
        student = NeuralAgent(
            "self", {kind: self.trained[kind].fast() for kind in KINDS}, self.shape.scores, self.choice
        )
        parts = self.start_parts(
            iteration, pool, lambda numbers: gather(student, self.teacher, self.config, self.league, mix, numbers)
        )
        counts, totals, learning = dict.fromkeys(KINDS, 0), {kind: np.zeros(2) for kind in KINDS}, 0.0
        for number in range(self._most_parts):  # ranks take their steps together
            answers = (
                parts[number].result()
                if number < len(parts)
                else _joined({kind: [] for kind in KINDS}, self.shape.scores)
            )
            learns = time.perf_counter()
            for kind in KINDS:
                self._learn(kind, answers[kind], lr, (iteration, number), totals[kind])
                counts[kind] += len(answers[kind])
            learning += time.perf_counter() - learns
        figures: Figures = {"lr": lr, "mix": mix}
        for kind in KINDS:
            loss, agreement = totals[kind] / max(1, counts[kind] * self.settings.passes)
            figures |= {f"loss_{kind}": float(loss), f"agreement_{kind}": float(agreement)}
        return figures | {
            "games": float(len(self.numbers(iteration))),
            "decisions": float(sum(counts.values())),
            "collect_seconds": time.perf_counter() - began - learning,
            "learn_seconds": learning,
        }

    @property
    def _most_parts(self) -> int:
        """Into how many parts the rank with most episodes divides them."""
        most = math.ceil(self.config.collect.games / self.ranks.size)
        return math.ceil(most / PART)

    def _learn(
        self, kind: str, answers: Answers, lr: float, stream_of: tuple[int, int], totals: NDArray[np.float64]
    ) -> None:
        """Learn from a part of an iteration's decisions in random batches."""
        one = self.trained[kind]
        every = np.concatenate([[0], np.cumsum(answers.sizes)])
        iteration, part = stream_of
        for repeat in range(self.settings.passes):
            for batch in self.batches(len(answers), iteration, KINDS.index(kind), part, repeat):
                rows = entries_of(every, batch)
                first = np.concatenate([[0], np.cumsum(answers.sizes[batch])])
                scores = one.network(
                    torch.from_numpy(answers.features[rows]).to(self.device),
                    torch.from_numpy(answers.known[rows]).to(self.device),
                )
                gradient = np.empty(len(rows), np.float32)
                imitation_gradients(
                    scores.detach().cpu().numpy(), first, answers.targets[rows], TEMPERATURES[kind], gradient, totals
                )
                gradient /= max(1, len(batch))
                one.step(scores, torch.from_numpy(gradient).to(self.device), lr, len(batch))


def gather(
    student: NeuralAgent,
    teacher: Agent,
    config: TrainConfig,
    league: League,
    mix: float,
    numbers: NDArray[np.int64],
) -> dict[str, Answers]:
    """Play the run's episodes with these numbers (N,) to their end, and ask the teacher, see the module.

    Everything follows from the config's seed, the episodes' numbers and the agents.

    Args:
        student: plays both seats, unless the league has somebody else for the one that is not learned from.
        teacher: what it would do is learned.
        config: of the run.
        league: whom the student meets.
        mix: the share of the teacher in what the student plays.
        numbers: of the episodes.

    Raises:
        AgentError: the teacher's policy is no distribution.
    """
    settings, games = config.learner, len(numbers)
    assert isinstance(settings, DistillConfig)
    rules, of_deals = config.rules.rules(), config.collect.episode == "deal"
    env = CribbageVectorEnv(
        games, rules=rules, reward="points", episode=config.collect.episode, skip_forced=True, copy=False
    )
    decks = combine_arrays(np.full(games, stream(config.seed, DECKS), np.uint64), numbers)
    seen, _ = env.reset(options={"game_seeds": decks})
    if of_deals:
        seen, _ = env.set_rows(deal_starts(config, numbers))
    opponents, studied = league.draw(numbers)
    exploration = stream(config.seed, EXPLORATION)
    steps: dict[str, list[Answers]] = {kind: [] for kind in KINDS}
    sound = np.ones((games, 2), np.bool_)  # whether a seat has played as the student does, up to now
    actions, results = np.zeros(games, np.int64), np.zeros(games)
    while env.active.any():
        acting = env.players.copy()
        theirs = env.active & (opponents != ITSELF) & (acting != studied)
        keys = decision_keys(exploration, numbers, env.rows[:, DECISIONS])
        slots = np.flatnonzero(theirs)
        if len(slots):
            observations, masks = seen["observation"][slots], seen["action_mask"][slots]
            actions[slots] = league.act(opponents[slots], observations, masks, keys[slots])
        slots = np.flatnonzero(env.active & ~theirs)
        observations, masks = seen["observation"][slots], seen["action_mask"][slots]
        seats = acting[slots]
        taught = sound[slots, seats]
        asked = np.flatnonzero(taught | (mix > 0.0))
        answers = np.zeros(masks.shape)
        if len(asked):
            answers[asked] = checked_policy(teacher, observations[asked], masks[asked])
        for kind, those in student.candidates(observations, masks).items():
            if len(those):
                first = those.bounds()
                rows, sizes = those.rows[first[:-1]], np.diff(first)
                targets = np.empty(len(those), np.float32)
                by_candidate(observations, answers, those.rows, those.actions, targets)
                drawn = _drawn(keys[slots[rows]])
                kept = taught[rows] & (sizes > 1) & ((kind == "play") | (drawn[1] < settings.discards))
                steps[kind].append(_answers(those, targets, sizes, kept))
                policy = (1.0 - mix) * student.probabilities(kind, those) + mix * targets
                if kind == "discard":
                    random = drawn[0] < config.collect.epsilon
                else:
                    random = (drawn[0] < settings.tremble) & (seats[rows] != studied[slots[rows]])
                    sound[slots[rows], seats[rows]] &= ~random
                policy = np.where(np.repeat(random, sizes), np.repeat(1.0 / sizes, sizes), policy)
                chosen = np.zeros(len(rows), np.int64)
                draw_candidates(policy, first, keys[slots[rows]], chosen)
                actions[slots[rows]] = those.actions[first[:-1] + chosen]
        seen, _, _, _, infos = env.step(actions)
        results += infos["rewards"][:, 0]
    league.record(opponents, np.where(studied == 0, results, -results))
    return _joined(steps, config.network.scores)


def _answers(
    candidates: Candidates, targets: NDArray[np.float32], sizes: NDArray[np.int64], kept: NDArray[np.bool_]
) -> Answers:
    """Some of a step's decisions."""
    every = np.repeat(kept, sizes)
    return Answers(candidates.features[every], candidates.known[every], targets[every], sizes[kept])


def _joined(steps: Mapping[str, Sequence[Answers]], scores: bool) -> dict[str, Answers]:
    """The decisions of each kind together; ``scores``: whether the networks see them."""
    found = {}
    for kind, parts in steps.items():
        features = discard_features(scores) if kind == "discard" else play_features(scores)
        nothing = Answers(
            np.zeros((0, features.active + 1), np.int32),
            np.zeros((0, features.known), np.float32),
            np.zeros(0, np.float32),
            np.zeros(0, np.int64),
        )
        found[kind] = Answers(
            *(np.concatenate([getattr(part, one.name) for part in (nothing, *parts)]) for one in fields(Answers))
        )
    return found


def _drawn(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Two numbers in [0, 1) for each key (S,): (2, S), from other streams than an action's."""
    streams = [combine_arrays(keys, np.full(len(keys), number)) for number in (1, 2)]
    return units(np.array(streams))
