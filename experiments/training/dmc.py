"""Deep Monte Carlo: networks learn the return that followed an action, and the agent takes the best, or nearly.

After D. Zha et al., "DouZero: Mastering DouDizhu with Self-Play Deep Reinforcement Learning" (ICML 2021): self-play,
epsilon-greedy, squared error to the undiscounted return, no bootstrapping. Here both seats share the two networks (one
for discards, one for plays), collection and learning alternate, and each iteration's decisions are learned from while
they are new, then forgotten.

With a ``temperature`` above zero plays are drawn in proportion to exp(value / temperature), while collecting as in the
end: where values are right, that is a logit quantal response equilibrium (R. McKelvey and T. Palfrey, 1995), which is
exploited less than the best of values that answer each other.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import Choice
from experiments.train_config import DmcConfig
from experiments.training.collect import Decisions, collect, joined
from experiments.training.learner import Figures, Learner, Setup


class DmcLearner(Learner):
    """Value networks for discards and plays."""

    settings: DmcConfig
    columns = ("loss_discard", "loss_play", "explained_discard", "explained_play")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.settings = setup.config.learner  # type: ignore[assignment]
        self.choice = Choice(discard=0.0, play=self.settings.temperature)
        for kind in KINDS:
            self.add(kind, kind, self.known_weight)

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """See :meth:`Learner.iterate`."""
        began = time.perf_counter()
        agent = NeuralAgent("self", {kind: self.trained[kind].fast() for kind in KINDS}, self.shape.scores, self.choice)
        parts = self.in_parts(iteration, pool, lambda numbers: collect([agent], self.config, self.league, numbers))
        samples = joined(parts)
        collected = time.perf_counter()
        lr = self.lr(progress)
        jobs = [self.submit(pool, self._learn, kind, samples[kind], lr, iteration) for kind in KINDS]
        figures: Figures = {"lr": lr}
        for job in jobs:
            figures |= job.result()
        return figures | {
            "games": float(len(self.numbers(iteration))),
            "decisions": float(sum(len(those) for those in samples.values())),
            "collect_seconds": collected - began,
            "learn_seconds": time.perf_counter() - collected,
        }

    def _learn(self, kind: str, samples: Decisions, lr: float, iteration: int) -> Figures:
        """Learn from an iteration's decisions in random batches."""
        one = self.trained[kind]
        taken = samples.taken
        loss = value_regression(
            self, one.name, samples.features[taken], samples.known[taken], samples.returns, lr, self.settings.passes,
            iteration, KINDS.index(kind),
        )  # fmt: skip
        return {f"loss_{kind}": loss, f"explained_{kind}": explained(loss, samples.returns)}


def explained(loss: float, returns: np.ndarray) -> float:
    """The part of the variance of returns that a mean squared error leaves explained; 0 where nothing varies."""
    variance = float(returns.var(dtype=np.float64)) if len(returns) else 0.0
    return 1.0 - loss / variance if variance > 0 else 0.0


def value_regression(
    learner: Learner,
    name: str,
    features: np.ndarray,
    known: np.ndarray,
    returns: np.ndarray,
    lr: float,
    passes: int,
    iteration: int,
    stream_of: int,
    weights: np.ndarray | None = None,
) -> float:
    """Learn values from what was done: the network ``name`` of a learner, squared error.

    Args:
        features: (S, K + 1); known: (S, k); returns: (S,) float32.
        lr, passes: the learning rate, and how often each sample is learned from.
        iteration, stream_of: numbers from which the order of samples follows.
        weights: (S,) float32, how much each sample counts; None: 1.

    Returns:
        The mean squared error, each batch before its step.
    """
    one = learner.trained[name]
    weights = np.ones(len(returns), np.float32) if weights is None else weights
    inputs = [torch.from_numpy(array).to(learner.device) for array in (features, known, returns, weights)]
    total, count = torch.zeros((), dtype=torch.float64, device=learner.device), 0
    for repeat in range(passes):
        for batch in learner.batches(len(returns), iteration, stream_of, repeat):
            rows = torch.from_numpy(batch).to(learner.device)
            error = one.network(inputs[0][rows], inputs[1][rows]) - inputs[2][rows]
            loss = (inputs[3][rows] * error.square()).sum() / max(1, len(batch))
            one.step(loss, None, lr, len(batch))
            total += loss.detach() * len(batch)
            count += len(batch)
    return float(total) / count if count else 0.0
