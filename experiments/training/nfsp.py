"""Neural fictitious self-play: best responses are learned by value, and their average is what plays.

After J. Heinrich and D. Silver, "Deep reinforcement learning from self-play in imperfect-information games" (2016). In
fictitious play everybody answers the average of what the others have played so far, and these averages approach an
equilibrium. Here, for discards and plays each,

* a *best response* network learns the return of an action, as in ``dmc``, and takes the best (with some exploration);
* an *average policy* network learns by cross-entropy what best responses have chosen over the whole run, from a
  memory with a uniform sample of it (:mod:`experiments.training.reservoir`).

While collecting, its discards are drawn from it; in the end the likeliest is taken, and plays below 1 % are left out.

Each seat of each episode plays its best response with the probability ``anticipatory``, else the average policy, so
that best responses answer mostly the average. What goes into the memory are the decisions of the seats that play their
best response: not the action that exploration took, but the best one.

With ``averaging: linear`` the memory is drawn from in proportion to when a decision was made, which makes an average
that leaves the first, bad responses behind (as in CFR+: O. Tammelin, "Solving large imperfect information games using
CFR+", 2014).

Two other things differ from the paper: returns are Monte Carlo, so nothing is bootstrapped; and with ``values: all``
they are learned from the decisions of all seats. Where the average policy decides after an action, its return is then
what the action is worth if the average policy goes on: the best response improves on the average policy one action at a
time, from many times the samples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import BEST, Choice
from agents.neural.features import Candidates
from cribbage_env.engine import NUM_DISCARDS
from cribbage_env.jit import jit
from cribbage_env.streams import combine_arrays
from experiments.train_config import NfspConfig
from experiments.training.collect import Decisions, collect, entries_of, explored, joined
from experiments.training.dmc import explained, value_regression
from experiments.training.learner import Figures, Learner, Setup
from experiments.training.reservoir import Remembered, Reservoir
from experiments.training.streams import BATCHES, MEMORY, stream, units

_BEST_RESPONSE, _AVERAGE = 0, 1  # the policies that collect
_SEATED = len(KINDS)  # of the streams of the memory: the first are of what is kept, by kind
_POLICY_BATCHES = len(KINDS)
_DISCARD_TEMPERATURE = 0.2
"""Scores of discards are in points / this, as in ``ppo``."""
_LEAST = 0.01  # less likely actions are left out in the end
_MOST = {"discard": NUM_DISCARDS, "play": 4}  # candidates of a decision
_DISCARDS_SHARE = 4  # one decision of so many in the memory is a discard, about as in what is played


class _Exploring(NeuralAgent):
    """An agent that now and then takes any action."""

    epsilon = 0.0

    def probabilities(self, kind: str, candidates: Candidates) -> NDArray[np.float64]:
        """See :meth:`NeuralAgent.probabilities`."""
        return explored(super().probabilities(kind, candidates), candidates.bounds(), self.epsilon)


@jit(_nrt=False)
def _likeliest(probabilities: NDArray[np.float64], first: NDArray[np.int64], out: NDArray[np.int64]) -> None:
    for s in range(len(out)):
        best = first[s]
        for r in range(first[s], first[s + 1]):
            if probabilities[r] > probabilities[best]:
                best = r
        out[s] = best - first[s]


@jit(_nrt=False)
def imitation_gradients(
    scores: NDArray[np.float32],
    first: NDArray[np.int64],
    best: NDArray[np.int64],
    temperature: float,
    out: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """Write the gradient (R,) of the summed cross-entropy of decisions by their scores (R,).

    Adds to ``totals`` (3,) the sums of the cross-entropy and of the policy's entropy, and how many decisions there are.

    Args:
        first: (S + 1,) where each decision's candidates begin.
        best: (S,) which of them is imitated, 0 for the first.
        temperature: logits are scores / temperature.
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
            imitated = r == first[s] + best[s]
            out[r] = (pi - imitated) / temperature
            totals[0] -= imitated * log_pi
            totals[1] -= pi * log_pi
        totals[2] += 1.0


class NfspLearner(Learner):
    """Value networks of the best responses, and policy networks of their average, for discards and plays."""

    settings: NfspConfig
    columns = (
        "loss_policy_discard", "loss_policy_play", "entropy_discard", "entropy_play", "loss_discard", "loss_play",
        "explained_discard", "explained_play", "memory",
    )  # fmt: skip
    choice = Choice(discard=0.0, play=1.0, least=_LEAST)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.settings = setup.config.learner  # type: ignore[assignment]
        self._sampling = Choice(_DISCARD_TEMPERATURE, 1.0)
        self.add("discard", "discard", self.known_weight)
        self.add("play", "play", 0.0)
        for kind in KINDS:
            self.add(_best(kind), kind, self.known_weight)
        of_discards = max(1, self.settings.memory // _DISCARDS_SHARE)
        room = {"discard": of_discards, "play": max(1, self.settings.memory - of_discards)}
        self._memory = {
            kind: Reservoir(
                room[kind], self.shape.features(kind), _MOST[kind], stream(self.config.seed, MEMORY, number)
            )
            for number, kind in enumerate(KINDS)
        }

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """See :meth:`Learner.iterate`."""
        began = time.perf_counter()
        samples = self._collect(iteration, pool)
        for kind, those in samples.items():
            for offered in self.ranks.gathered(_of_best_responses(those)):
                self._memory[kind].offer(offered)
        collected = time.perf_counter()
        lr = self.lr(progress)
        policy_lr = self.settings.policy_lr * (1.0 - min(progress, 1.0))
        jobs = []
        for kind, those in samples.items():
            jobs.append(self.submit(pool, self._learn_policy, kind, policy_lr, iteration))
            jobs.append(self.submit(pool, self._learn_values, kind, those, lr, iteration))
        figures: Figures = {"lr": lr, "decisions": 0.0}
        for job in jobs:
            learned = job.result()
            figures["decisions"] += learned.pop("decisions", 0.0)
            figures |= learned
        return figures | {
            "games": float(len(self.numbers(iteration))),
            "memory": float(sum(len(memory) for memory in self._memory.values())),
            "collect_seconds": collected - began,
            "learn_seconds": time.perf_counter() - collected,
        }

    def state(self) -> dict[str, Any]:
        """See :meth:`Learner.state`; with the memory, which is the same on all ranks."""
        return super().state() | {"memory": {kind: memory.state() for kind, memory in self._memory.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """See :meth:`Learner.restore`."""
        super().restore(state)
        for kind, memory in self._memory.items():
            memory.restore(state["memory"][kind])

    def _collect(self, iteration: int, pool: ThreadPoolExecutor) -> dict[str, Decisions]:
        """Play this rank's episodes of an iteration."""
        networks = {name: one.fast() for name, one in self.trained.items()}
        scores = self.shape.scores
        best = _Exploring("best response", {kind: networks[_best(kind)] for kind in KINDS}, scores, BEST)
        best.epsilon = self.config.collect.epsilon
        average = NeuralAgent("average", {kind: networks[kind] for kind in KINDS}, scores, self._sampling)

        def work(numbers: NDArray[np.int64]) -> dict[str, Decisions]:
            return collect([best, average], self.config, self.league, numbers, self._seated(numbers), epsilon=0.0)

        return joined(self.in_parts(iteration, pool, work))

    def _seated(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which policy plays for each seat (N, 2) of episodes."""
        seated = np.empty((len(numbers), 2), np.int64)
        for seat in range(2):
            key = stream(self.config.seed, MEMORY, _SEATED + seat)
            drawn = units(combine_arrays(np.full(len(numbers), key, np.uint64), numbers))
            answers = drawn < self.settings.anticipatory
            seated[:, seat] = np.where(answers, _BEST_RESPONSE, _AVERAGE)
        return seated

    def _learn_policy(self, kind: str, lr: float, iteration: int) -> Figures:
        """Improve the average policy, from random batches of the memory."""
        one, memory = self.trained[kind], self._memory[kind]
        totals = np.zeros(3)
        temperature = float(getattr(self._sampling, kind))
        number = KINDS.index(kind)
        rng = np.random.default_rng(
            [stream(self.config.seed, BATCHES, iteration), _POLICY_BATCHES + number, self.ranks.rank]
        )
        size = max(1, self.config.learner.batch_size // self.ranks.size)
        for _ in range(self.settings.policy_steps if len(memory) else 0):
            batch = memory.take(memory.draw(rng, size, self.settings.averaging == "linear"))
            scores = one.network(
                torch.from_numpy(batch.features).to(self.device), torch.from_numpy(batch.known).to(self.device)
            )
            gradient = np.empty(len(batch.features), np.float32)
            first = np.concatenate([[0], np.cumsum(batch.sizes)])
            imitation_gradients(scores.detach().cpu().numpy(), first, batch.best, temperature, gradient, totals)
            gradient /= size
            one.step(scores, torch.from_numpy(gradient).to(self.device), lr, size)
        count = max(1.0, totals[2])
        return {f"loss_policy_{kind}": float(totals[0] / count), f"entropy_{kind}": float(totals[1] / count)}

    def _learn_values(self, kind: str, samples: Decisions, lr: float, iteration: int) -> Figures:
        """Improve a best response from an iteration's decisions."""
        which = np.arange(len(samples))
        if self.settings.values == "best":
            which = np.flatnonzero(samples.policies == _BEST_RESPONSE)
        taken, returns = samples.taken[which], samples.returns[which]
        loss = value_regression(
            self, _best(kind), samples.features[taken], samples.known[taken], returns, lr, self.settings.passes,
            iteration, KINDS.index(kind),
        )  # fmt: skip
        return {
            f"loss_{kind}": loss,
            f"explained_{kind}": explained(loss, returns),
            "decisions": float(len(which)),
        }


def _best(kind: str) -> str:
    return f"best_{kind}"


def _of_best_responses(samples: Decisions) -> Remembered:
    """What the seats that play their best response hold for best."""
    which = np.flatnonzero(samples.policies == _BEST_RESPONSE)
    best = np.empty(len(samples), np.int64)
    _likeliest(samples.probabilities, samples.first, best)
    rows = entries_of(samples.first, which)
    return Remembered(samples.features[rows], samples.known[rows], samples.sizes[which], best[which])
