"""Proximal policy optimisation in self-play: regularised by entropy and, if wanted, by a magnet.

After J. Schulman et al., "Proximal policy optimization algorithms" (2017). Plays have a policy network, whose scores
are logits of a softmax over the legal actions, and a critic. A critic has a value q for every action, as the networks
of ``dmc`` do, and V(s) = sum pi q; it learns from the action that was taken. Advantages are estimated (GAE: J. Schulman
et al., "High-dimensional continuous control using generalized advantage estimation", ICLR 2016) along what one seat
decided in an episode, its discards and plays in one sequence: what the other seat does is part of the environment. The
reward between two decisions is what their returns differ by.

With the ratio r = pi(a) / pi_old(a) of the action taken and its advantage A, the loss of a decision is

    - min(r A, clip(r, 1 - clip, 1 + clip) A) - tau H(pi) + eta KL(pi || magnet)

Advantages are not normalised, so the weight ``tau`` of the entropy H is in units of reward: where the loss is least, pi
is in proportion to exp(q / tau). It falls geometrically, as in ``espg``. The magnet is a copy of the policies that is
renewed every so many iterations, after magnetic mirror descent (S. Sokota et al., "A unified approach to reinforcement
learning, quantal response equilibria, and two-player zero-sum games", ICLR 2023), whose proximal step the clip stands
in for.

Discards have both networks, too, with ``discards: policy``. With ``discards: values`` they have the critic alone, and
while collecting pi is what a policy would end as, in proportion to exp(q / tau). In the end the best discard is taken
either way.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import MIN_TEMPERATURE, Choice
from agents.neural.networks import CandidateNetwork, FastNetwork
from cribbage_env.jit import jit
from experiments.train_config import PpoConfig
from experiments.training.collect import Decisions, collect, entries_of, joined
from experiments.training.dmc import explained, value_regression
from experiments.training.learner import Figures, Learner, Setup, geometric, load_weights

_TEMPERATURES = {"discard": 0.2, "play": 1.0}
"""Logits of a policy are scores / this; of discards these begin as what is known of them, in points."""
_LEAST = 0.01  # less likely plays are left out in the end
_TOTALS = 5


@dataclass(frozen=True)
class Experience:
    """S decisions of a kind with R candidates, and what is learned from them."""

    decisions: Decisions
    advantages: NDArray[np.float32]
    """(S,) in the unit of the reward."""
    targets: NDArray[np.float32]
    """(S,): what the critic's value of the taken action is to be."""
    magnet: NDArray[np.float32]
    """(R,): log probabilities of the magnet; (0,) without one."""


@jit(_nrt=False)
def _segment_sums(values: NDArray[np.float64], first: NDArray[np.int64], out: NDArray[np.float64]) -> None:
    for s in range(len(out)):
        out[s] = 0.0
        for r in range(first[s], first[s + 1]):
            out[s] += values[r]


@jit(_nrt=False)
def _estimate(
    returns: NDArray[np.float64],
    values: NDArray[np.float64],
    last: NDArray[np.bool_],
    discount: float,
    decay: float,
    advantages: NDArray[np.float64],
) -> None:
    """Write the advantages (T,) of decisions in the order of their sequences; ``last`` marks where one ends."""
    for t in range(len(returns) - 1, -1, -1):
        reward, after, carried = returns[t], 0.0, 0.0
        if not last[t]:
            reward -= returns[t + 1]
            after = values[t + 1]
            carried = advantages[t + 1]
        advantages[t] = reward + discount * (after + decay * carried) - values[t]


def advantages_of(
    samples: Mapping[str, Decisions], values: Mapping[str, NDArray[np.float64]], discount: float, decay: float
) -> dict[str, NDArray[np.float64]]:
    """Generalised advantage estimates of the decisions of whole episodes.

    Args:
        samples: by kind.
        values: by kind, (S,) V.
        discount, decay: gamma and lambda, for each of a seat's own decisions.

    Returns:
        By kind, (S,) in the unit of the reward.
    """
    names = ("episodes", "seats", "steps", "returns")
    episodes, seats, steps, returns = (
        np.concatenate([getattr(samples[kind], name) for kind in KINDS]) for name in names
    )
    order = np.lexsort((steps, seats, episodes))
    last = np.ones(len(order), np.bool_)
    last[:-1] = (np.diff(episodes[order]) != 0) | (np.diff(seats[order]) != 0)
    every = np.concatenate([values[kind] for kind in KINDS])
    estimates = np.empty(len(order))
    _estimate(returns[order].astype(np.float64), every[order], last, discount, decay, estimates)
    advantages = np.empty(len(order))
    advantages[order] = estimates
    bound = len(samples[KINDS[0]])
    return {KINDS[0]: advantages[:bound], KINDS[1]: advantages[bound:]}


@jit(_nrt=False)
def policy_gradients(
    scores: NDArray[np.float32],
    first: NDArray[np.int64],
    chosen: NDArray[np.int64],
    before: NDArray[np.float64],
    advantages: NDArray[np.float32],
    magnet: NDArray[np.float32],
    temperature: float,
    clip: float,
    tau: float,
    eta: float,
    out: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """Write the gradient (R,) of the summed loss of decisions, see the module, by their scores (R,).

    Adds to ``totals`` (5,) the sums of H, of KL(pi || magnet), of log pi_old(a) - log pi(a), how many ratios were
    clipped, and how many decisions there are.

    Args:
        first: (S + 1,) where each decision's candidates begin.
        chosen: (S,) which of them was taken, 0 for the first.
        before: (S,) the probability with which it was.
        advantages: (S,)
        magnet: (R,) log probabilities, or (0,).
        temperature: logits are scores / temperature.
        clip, tau, eta: see the module; eta is 0 without a magnet.
    """
    for s in range(len(first) - 1):
        begin, end = first[s], first[s + 1]
        top = scores[begin]
        for r in range(begin, end):
            top = max(top, scores[r])
        total = 0.0
        for r in range(begin, end):
            total += np.exp((scores[r] - top) / temperature)
        log_total = np.log(total)
        entropy = divergence = 0.0
        for r in range(begin, end):
            log_pi = (scores[r] - top) / temperature - log_total
            pi = np.exp(log_pi)
            entropy -= pi * log_pi
            if eta > 0.0:
                divergence += pi * (log_pi - magnet[r])
        taken = begin + chosen[s]
        moved = (scores[taken] - top) / temperature - log_total - np.log(before[s])
        ratio = np.exp(moved)
        clipped = ratio > 1.0 + clip if advantages[s] > 0.0 else ratio < 1.0 - clip
        push = 0.0 if clipped else ratio * advantages[s]
        for r in range(begin, end):
            log_pi = (scores[r] - top) / temperature - log_total
            pi = np.exp(log_pi)
            ascent = -pi * (push + tau * (log_pi + entropy))
            if r == taken:
                ascent += push
            if eta > 0.0:
                ascent -= eta * pi * (log_pi - magnet[r] - divergence)
            out[r] = -ascent / temperature
        totals[0] += entropy
        totals[1] += divergence
        totals[2] -= moved
        totals[3] += clipped
        totals[4] += 1.0


class PpoLearner(Learner):
    """A policy network and a critic for plays, the same or a critic alone for discards."""

    settings: PpoConfig
    choice = Choice(discard=0.0, play=1.0, least=_LEAST)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.settings = setup.config.learner  # type: ignore[assignment]
        of_values = self.settings.discards == "values"
        self._policies = ("play",) if of_values else KINDS
        self._critics = {"discard": "discard" if of_values else "critic_discard", "play": "critic_play"}
        self.add("discard", "discard", self.known_weight)
        self.add("play", "play", 0.0)
        for kind in self._policies:
            self.add(self._critics[kind], kind, self.known_weight)
        self._magnet: dict[str, CandidateNetwork] = {}
        if self.settings.magnet > 0:
            self._renew_magnet()
        names = ("entropy", "moved", "clipped", *(["magnet"] if self._magnet else []))
        self.columns = (
            *(f"{name}_{kind}" for name in names for kind in reversed(self._policies)),
            *(f"{name}_{kind}" for name in ("loss", "explained") for kind in KINDS),
            "entropy_weight",
        )

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """See :meth:`Learner.iterate`."""
        began = time.perf_counter()
        if self._magnet and iteration % self.settings.magnet_every == 0:
            self._renew_magnet()
        tau = geometric(self.settings.entropy, self.settings.entropy_end, progress)
        experience = _joined(self._collect(iteration, self._sampling(tau), pool))
        collected = time.perf_counter()
        lr = self.lr(progress)
        critic_lr = lr * self.settings.critic_lr / self.settings.lr
        jobs = []
        for kind, those in experience.items():
            if kind in self._policies:
                jobs.append(self.submit(pool, self._learn_policy, kind, those, lr, tau, iteration))
            jobs.append(self.submit(pool, self._learn_values, kind, those, critic_lr, iteration))
        figures: Figures = {"lr": lr, "entropy_weight": tau}
        for job in jobs:
            figures |= job.result()
        return figures | {
            "games": float(len(self.numbers(iteration))),
            "decisions": float(sum(len(those.decisions) for those in experience.values())),
            "collect_seconds": collected - began,
            "learn_seconds": time.perf_counter() - collected,
        }

    def state(self) -> dict[str, Any]:
        """See :meth:`Learner.state`; with the magnet's weights."""
        magnet = {kind: network.state_dict() for kind, network in self._magnet.items()}
        return super().state() | ({"magnet": magnet} if magnet else {})

    def restore(self, state: Mapping[str, Any]) -> None:
        """See :meth:`Learner.restore`."""
        super().restore(state)
        for kind, network in self._magnet.items():
            load_weights(network, state["magnet"][kind], f"{kind} magnet")

    def _renew_magnet(self) -> None:
        self._magnet = {
            kind: copy.deepcopy(self.trained[kind].network).requires_grad_(False) for kind in self._policies
        }

    def _sampling(self, tau: float) -> Choice:
        """How actions are drawn while collecting."""
        if "discard" in self._policies:
            return Choice(_TEMPERATURES["discard"], _TEMPERATURES["play"])
        temperature = tau * self.settings.discard_entropy
        return Choice(temperature if temperature >= MIN_TEMPERATURE else 0.0, _TEMPERATURES["play"])

    def _collect(self, iteration: int, sampling: Choice, pool: ThreadPoolExecutor) -> list[dict[str, Experience]]:
        """Play this rank's episodes of an iteration, and estimate advantages."""
        networks = {name: one.fast() for name, one in self.trained.items()}
        agent = NeuralAgent("self", {kind: networks[kind] for kind in KINDS}, self.shape.scores, sampling)
        magnet = {kind: FastNetwork(network) for kind, network in self._magnet.items()}

        def work(numbers: NDArray[np.int64]) -> dict[str, Experience]:
            samples = collect([agent], self.config, self.league, numbers, epsilon=0.0)
            values = {}
            for kind, those in samples.items():
                of_actions = networks[self._critics[kind]].values(those.features, those.known)
                values[kind] = np.empty(len(those))
                _segment_sums(of_actions * those.probabilities, those.first, values[kind])
            advantages = advantages_of(samples, values, self.settings.discount, self.settings.gae)
            experience = {}
            for kind, those in samples.items():
                logs = np.zeros(0, np.float32)
                if kind in magnet:
                    scores = magnet[kind].values(those.features, those.known)
                    _log_softmax(scores, those.first, _TEMPERATURES[kind])
                    logs = scores.astype(np.float32)
                targets = (advantages[kind] + values[kind]).astype(np.float32)
                experience[kind] = Experience(those, advantages[kind].astype(np.float32), targets, logs)
            return experience

        return self.in_parts(iteration, pool, work)

    def _learn_policy(self, kind: str, experience: Experience, lr: float, tau: float, iteration: int) -> Figures:
        """Improve a policy, in random batches."""
        one, samples, settings = self.trained[kind], experience.decisions, self.settings
        starts = samples.first
        before = samples.probabilities[samples.taken]
        totals = np.zeros(_TOTALS)
        for repeat in range(settings.passes):
            for batch in self.batches(len(samples), iteration, KINDS.index(kind), repeat):
                rows = entries_of(starts, batch)
                scores = one.network(
                    torch.from_numpy(samples.features[rows]).to(self.device),
                    torch.from_numpy(samples.known[rows]).to(self.device),
                )
                gradient = np.empty(len(rows), np.float32)
                policy_gradients(
                    scores.detach().cpu().numpy(),
                    np.concatenate([[0], np.cumsum(samples.sizes[batch])]),
                    samples.chosen[batch],
                    before[batch],
                    experience.advantages[batch],
                    experience.magnet[rows] if self._magnet else experience.magnet,
                    _TEMPERATURES[kind],
                    settings.clip,
                    tau * (settings.discard_entropy if kind == "discard" else 1.0),
                    settings.magnet,
                    gradient,
                    totals,
                )
                gradient /= max(1, len(batch))
                one.step(scores, torch.from_numpy(gradient).to(self.device), lr, len(batch))
        count = max(1.0, totals[4])
        names = ("entropy", "magnet", "moved", "clipped")
        figures = {f"{name}_{kind}": float(total / count) for name, total in zip(names, totals[:4], strict=True)}
        return {name: figure for name, figure in figures.items() if name in self.columns}

    def _learn_values(self, kind: str, experience: Experience, lr: float, iteration: int) -> Figures:
        """Improve a critic."""
        samples = experience.decisions
        taken = samples.taken
        loss = value_regression(
            self, self._critics[kind], samples.features[taken], samples.known[taken], experience.targets, lr,
            self.settings.passes, iteration, len(KINDS) + KINDS.index(kind),
        )  # fmt: skip
        return {f"loss_{kind}": loss, f"explained_{kind}": explained(loss, experience.targets)}


@jit(_nrt=False)
def _log_softmax(scores: NDArray[np.float64], first: NDArray[np.int64], temperature: float) -> None:
    """Turn the scores (R,) of decisions into log probabilities, in place."""
    for s in range(len(first) - 1):
        top = -np.inf
        for r in range(first[s], first[s + 1]):
            top = max(top, scores[r])
        total = 0.0
        for r in range(first[s], first[s + 1]):
            total += np.exp((scores[r] - top) / temperature)
        for r in range(first[s], first[s + 1]):
            scores[r] = (scores[r] - top) / temperature - np.log(total)


def _joined(parts: Sequence[Mapping[str, Experience]]) -> dict[str, Experience]:
    """What was collected from consecutive ranges of episodes together."""
    decisions = joined([{kind: part[kind].decisions for kind in KINDS} for part in parts])
    names = ("advantages", "targets", "magnet")
    return {
        kind: Experience(
            decisions[kind], *(np.concatenate([getattr(part[kind], name) for part in parts]) for name in names)
        )
        for kind in KINDS
    }
