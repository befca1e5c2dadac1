"""Deep Monte Carlo: networks learn the return that followed an action, and the agent takes the best.

After D. Zha et al., "DouZero: Mastering DouDizhu with Self-Play Deep Reinforcement Learning" (ICML 2021): self-play,
epsilon-greedy, squared error to the undiscounted return, no bootstrapping. Here both seats share the two networks (one
for discards, one for plays), collection and learning alternate, and each iteration's decisions are learned from while
they are new, then forgotten.
"""

from __future__ import annotations

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS, NetworkShape
from agents.neural.networks import ExactNetwork
from experiments.config import TrainConfig
from experiments.training.collect import Samples, collect, joined
from experiments.training.streams import BATCHES, WEIGHTS, stream

_MIN_SHARE = 256  # episodes: a thread with fewer costs more than it brings


class DmcLearner:
    """The networks, their optimisers, and one iteration of collecting and learning.

    What comes out depends on the config alone, not on the number of threads: collection is exact whatever the batch,
    and each network learns in one thread.

    Args:
        config: of the run.
        device: where networks are evaluated and trained.
        threads: how many collect at the same time.
    """

    def __init__(self, config: TrainConfig, device: torch.device, threads: int) -> None:
        self.shape = NetworkShape(
            (config.network.discard_hidden[0], config.network.discard_hidden[1]),
            (config.network.play_hidden[0], config.network.play_hidden[1]),
            config.network.scores,
        )
        self._config = config
        self._device = device
        self._threads = threads
        self._networks = {}
        self._optimisers = {}
        for number, kind in enumerate(KINDS):
            generator = torch.Generator().manual_seed(stream(config.seed, WEIGHTS, number) >> 1)
            known_weight = 1.0 if config.collect.reward == "points" else 0.0
            network = self.shape.network(kind, known_weight, generator).to(device)
            self._networks[kind] = network
            self._optimisers[kind] = torch.optim.Adam(network.parameters(), lr=config.learner.lr, eps=1e-5, fused=True)

    def agent(self, name: str) -> NeuralAgent:
        """The agent that plays the networks as they are now."""
        networks = {kind: ExactNetwork(self._networks[kind].state_dict(), self._device) for kind in KINDS}
        return NeuralAgent(name, networks, self.shape.scores)

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> dict[str, float]:
        """Collect the episodes of iteration 0, 1, ... and learn from them.

        Args:
            iteration: its number, from which everything random follows.
            progress: the part of the budget that is spent, 0 to 1; the learning rate follows it.
            pool: with a worker for each thread and at least two.

        Returns:
            ``games``, ``decisions``, ``lr``, the mean loss of each network and the part of the returns' variance that
            it explains, and the seconds of collecting and learning.
        """
        settings = self._config.learner
        lr = settings.lr + (settings.lr_end - settings.lr) * progress
        began = time.perf_counter()
        samples = self._collect(iteration, pool)
        collected = time.perf_counter()
        jobs = [pool.submit(self._learn, kind, samples[kind], lr, iteration) for kind in KINDS]
        losses = {kind: job.result() for kind, job in zip(KINDS, jobs, strict=True)}
        learned = time.perf_counter()
        metrics = {
            "games": self._config.collect.games,
            "decisions": sum(len(those) for those in samples.values()),
            "lr": lr,
        }
        for kind in KINDS:
            variance = float(samples[kind].returns.var(dtype=np.float64)) if len(samples[kind]) else 0.0
            metrics[f"loss_{kind}"] = losses[kind]
            metrics[f"explained_{kind}"] = 1.0 - losses[kind] / variance if variance > 0 else 0.0
        metrics["collect_seconds"] = collected - began
        metrics["learn_seconds"] = learned - collected
        return metrics

    def _collect(self, iteration: int, pool: ThreadPoolExecutor) -> dict[str, Samples]:
        agent = self.agent("self")
        games = self._config.collect.games
        shares = max(1, min(self._threads, games // _MIN_SHARE))
        ends = [games * share // shares for share in range(shares + 1)]
        jobs = [
            pool.submit(collect, agent, self._config, iteration * games + start, end - start)
            for start, end in itertools.pairwise(ends)
        ]
        return joined([job.result() for job in jobs])

    def _learn(self, kind: str, samples: Samples, lr: float, iteration: int) -> float:
        """Learn from an iteration's samples in random batches; returns the mean loss."""
        settings = self._config.learner
        network, optimiser = self._networks[kind], self._optimisers[kind]
        for group in optimiser.param_groups:
            group["lr"] = lr
        features, known, returns = (
            torch.from_numpy(array).to(self._device) for array in (samples.features, samples.known, samples.returns)
        )
        shuffle = np.random.default_rng([stream(self._config.seed, BATCHES, iteration), KINDS.index(kind)])
        losses = []
        for _ in range(settings.passes):
            order = torch.from_numpy(shuffle.permutation(len(samples))).to(self._device)
            for batch in order.tensor_split(max(1, len(samples) // settings.batch_size)):
                if len(batch) == 0:
                    continue
                loss = (network(features[batch], known[batch]) - returns[batch]).square().mean()
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), settings.max_grad_norm)
                optimiser.step()
                losses.append(loss.detach())
        return float(torch.stack(losses).mean()) if losses else 0.0

    def weights(self) -> dict[str, Any]:
        """The networks' weights, as in a checkpoint."""
        return {kind: network.state_dict() for kind, network in self._networks.items()}

    def optimisers(self) -> dict[str, Any]:
        """The optimisers' state, as in a checkpoint: by network and weight."""
        return {
            kind: {
                name: dict(self._optimisers[kind].state[parameter])
                for name, parameter in self._networks[kind].named_parameters()
            }
            for kind in KINDS
        }

    def restore(self, weights: dict[str, Any], optimisers: dict[str, Any]) -> None:
        """Go on from a checkpoint's state.

        Raises:
            ValueError: optimisers of other networks.
        """
        for kind in KINDS:
            network, optimiser = self._networks[kind], self._optimisers[kind]
            network.load_state_dict(weights[kind])
            named = dict(network.named_parameters())
            if set(optimisers.get(kind, ())) != set(named):
                raise ValueError(f"the state of the optimiser of the {kind} network")
            state = {}
            for at, (name, parameter) in enumerate(named.items()):
                one = optimisers[kind][name]
                for part in ("exp_avg", "exp_avg_sq") if one else ():
                    if one[part].shape != parameter.shape:
                        raise ValueError(f"the optimiser's {part} of {name} of the {kind} network")
                if one:
                    state[at] = one
            optimiser.load_state_dict({"state": state, "param_groups": optimiser.state_dict()["param_groups"]})
