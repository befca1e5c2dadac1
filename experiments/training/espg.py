"""External-sampling policy gradient: every action of a seat is tried, and the policy follows the gradient of its value.

Plays: a deal is traversed once for each seat (:mod:`experiments.training.branching`), which gives a value Q for every
action of a decision from the same cards. With the policy ``pi`` (a softmax of the network's logits z) and
V = sum pi Q, the gradient of the value and of the entropy H, weighted by ``tau``, is

    d / d z_a = pi_a (Q_a - V - tau (log pi_a + H))                          (rule: softmax)

exactly, without the noise of which action was drawn. ``tau`` falls geometrically: play begins near the one that is best
against mistakes of all kinds, and is sharpened as the network learns. Such annealed regularisation is what makes
self-play settle instead of going round in circles (J. Perolat et al., "From Poincare recurrence to convergence in
imperfect information games", ICML 2021; S. Sokota et al., "A unified approach to reinforcement learning, quantal
response equilibria, and two-player zero-sum games", ICLR 2023). With ``rule: neurd`` the factor pi_a is left out
(D. Hennes et al., "Neural replicator dynamics", AAMAS 2020).

Discards: a second network learns the value of what was thrown (as in ``dmc``), where the play that follows counts with
the mean of both seats' traversals, the own hand with its exact average, and only the crib with what it came to.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import Choice
from agents.neural.networks import CandidateNetwork, FastNetwork
from cribbage_env.engine import (
    DEALER,
    DECISIONS,
    DISCARD,
    EVENT_SIZE,
    NUM_ACTIONS,
    PHASE,
    PLAYER,
    State,
    apply,
)
from cribbage_env.jit import jit
from cribbage_env.observation import OBSERVATION_SIZE
from cribbage_env.options import POINTS_REWARD
from cribbage_env.scoring import show_table
from cribbage_env.streams import combine_arrays
from experiments.train_config import EspgConfig
from experiments.training.branching import Sampling, Traversed, show_states, traverse
from experiments.training.collect import draw_candidates, entries_of, explored, shown_points
from experiments.training.dmc import explained, value_regression
from experiments.training.league import ITSELF
from experiments.training.learner import Figures, Learner, Setup, geometric, load_weights
from experiments.training.starts import deal_starts
from experiments.training.streams import EXPLORATION, stream

_PLAY_BATCHES, _DISCARD_BATCHES = 1, 0


@dataclass(frozen=True)
class _Thrown:
    """S discards: what was thrown, what it came to, and how much that counts."""

    features: NDArray[np.int32]
    known: NDArray[np.float32]
    returns: NDArray[np.float32]
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class _Part:
    plays: Traversed
    thrown: _Thrown


@jit(_nrt=False)
def _throw(table: NDArray[np.int8], rows: State, actions: NDArray[np.int64], log: State) -> None:
    for i in range(len(rows)):
        if rows[i, PHASE] == DISCARD:
            apply(table, rows[i], actions[i], log)


@jit(_nrt=False)
def logit_gradients(
    logits: NDArray[np.float32],
    first: NDArray[np.int64],
    values: NDArray[np.float32],
    weights: NDArray[np.float32],
    tau: float,
    neurd: bool,
    out: NDArray[np.float32],
    totals: NDArray[np.float64],
) -> None:
    """Write the gradient (R,) of the loss by the logits (R,) of decisions, see the module.

    The loss is minus the weighted sum of value and entropy. Adds the weighted sums of the entropies, of the expected
    regrets ``max Q - V`` and of the weights to ``totals`` (3,).

    Args:
        first: (S + 1,) where each decision's candidates begin.
        values: (R,) Q.
        weights: (S,) of decisions.
    """
    for s in range(len(first) - 1):
        top = logits[first[s]]
        for r in range(first[s], first[s + 1]):
            top = max(top, logits[r])
        total = 0.0
        for r in range(first[s], first[s + 1]):
            total += np.exp(logits[r] - top)
        log_total = np.log(total) + top
        value = entropy = mean_log = 0.0
        best = -np.inf
        for r in range(first[s], first[s + 1]):
            log_pi = logits[r] - log_total
            pi = np.exp(log_pi)
            value += pi * values[r]
            entropy -= pi * log_pi
            mean_log += log_pi / (first[s + 1] - first[s])
            best = max(best, values[r])
        for r in range(first[s], first[s + 1]):
            log_pi = logits[r] - log_total
            if neurd:
                ascent = values[r] - value - tau * (log_pi - mean_log)
            else:
                ascent = np.exp(log_pi) * (values[r] - value - tau * (log_pi + entropy))
            out[r] = -weights[s] * ascent
        totals[0] += weights[s] * entropy
        totals[1] += weights[s] * (best - value)
        totals[2] += weights[s]


class EspgLearner(Learner):
    """A policy network for plays, a value network for discards."""

    settings: EspgConfig
    columns = ("entropy", "regret", "entropy_weight", "loss_discard", "explained_discard", "visited")
    counts = ("visited",)
    choice = Choice(discard=0.0, play=1.0, least=0.01)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.settings = setup.config.learner  # type: ignore[assignment]
        self._overlaps = self.config.opponents.pool.share == 0
        self._ahead: list[_Part] | None = None  # what was collected for the next iteration
        self._behind: dict[str, CandidateNetwork] | None = None  # and the networks that did it
        self.add("discard", "discard", 1.0)
        self.add("play", "play", 0.0)

    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """See :meth:`Learner.iterate`.

        The next iteration's deals are collected while this one's are learned from, with the weights from before: so two
        cores are busy. Against a league of past selves, which changes between iterations, nothing is collected ahead.
        """
        began = time.perf_counter()
        if self._ahead is None:
            agent = self._collector()
            self._ahead = self.in_parts(iteration, pool, lambda numbers: self._collect(agent, numbers))
        parts, self._ahead = self._ahead, None
        self._behind = None
        coming = None
        if self._overlaps:
            self._behind = {name: copy.deepcopy(self.trained[name].network) for name in KINDS}
            agent = self._collector()
            coming = self.start_parts(iteration + 1, pool, lambda numbers: self._collect(agent, numbers))
        plays = _all_plays([part.plays for part in parts])
        thrown = _Thrown(
            *(np.concatenate([getattr(part.thrown, one.name) for part in parts]) for one in fields(_Thrown))
        )
        collected = time.perf_counter()
        lr = self.lr(progress)
        tau = geometric(self.settings.entropy, self.settings.entropy_end, progress)
        discards = self._learn_discards(thrown, lr, iteration)
        figures = discards | self._learn_plays(plays, lr, tau, iteration)
        learned = time.perf_counter()
        if coming is not None:
            self._ahead = [one.result() for one in coming]
        waited = time.perf_counter() - learned
        return figures | {
            "lr": lr,
            "entropy_weight": tau,
            "games": float(len(self.numbers(iteration))),
            "decisions": float(len(plays.weights) + len(thrown.returns)),
            "visited": float(plays.visited),
            "collect_seconds": collected - began + waited,
            "learn_seconds": learned - collected,
        }

    def state(self) -> dict[str, Any]:
        """See :meth:`Learner.state`; with the weights by which the next iteration's deals were collected."""
        state = super().state()
        if self._behind is not None:
            state["behind"] = {name: network.state_dict() for name, network in self._behind.items()}
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """See :meth:`Learner.restore`."""
        super().restore(state)
        self._ahead = None
        self._behind = None
        if "behind" in state:
            self._behind = {name: copy.deepcopy(self.trained[name].network) for name in KINDS}
            for name, network in self._behind.items():
                load_weights(network, state["behind"][name], name)

    def _collector(self) -> NeuralAgent:
        """The agent that collects: with the weights as they are, or those from before."""
        networks = self._behind or {name: self.trained[name].network for name in KINDS}
        return NeuralAgent(
            "self",
            {name: FastNetwork(network) for name, network in networks.items()},
            self.shape.scores,
            Choice(self.settings.temperature, 1.0),
        )

    def _collect(self, agent: NeuralAgent, numbers: NDArray[np.int64]) -> _Part:
        """Discard and traverse the deals with these numbers."""
        rows = deal_starts(self.config, numbers)
        opponents, own_seats = self.league.draw(numbers)
        exploration = stream(self.config.seed, EXPLORATION)
        keys = combine_arrays(np.full(len(numbers), exploration, np.uint64), numbers)
        discards = [self._discard(agent, rows, opponents, own_seats, keys) for _ in range(2)]
        # every deal for seat 0 and for seat 1, where the learner itself sits
        every = np.repeat(np.arange(len(numbers)), 2)
        seats = np.tile([0, 1], len(numbers))
        own = (opponents[every] == ITSELF) | (seats == own_seats[every])
        every, seats = every[own], seats[own]
        drawn = opponents[every] if (opponents != ITSELF).any() else None
        plays = traverse(
            rows[every],
            seats,
            combine_arrays(keys[every], 2**8 + seats),
            agent.network("play").values,
            self.objective,
            Sampling(self.settings.full_reach, self.settings.explore, self.settings.tremble, self.shape.scores),
            self.league if drawn is not None else None,
            drawn,
        )
        value, weight = np.zeros((2, len(numbers), 2))  # of the play to each seat
        value[every, seats] = plays.weights_of_beginnings * plays.beginnings
        weight[every, seats] = plays.weights_of_beginnings
        total = weight.sum(axis=1)
        # zero-sum: the mean of what is known
        value = (value - value[:, ::-1]) / np.where(total > 0.0, total, 1.0)[:, None]
        self.league.record(opponents, value[np.arange(len(numbers)), own_seats])
        traversals = np.bincount(every, minlength=len(numbers))
        return _Part(plays, self._thrown(discards, rows, value, total / np.maximum(traversals, 1)))

    def _discard(
        self,
        agent: NeuralAgent,
        rows: State,
        opponents: NDArray[np.int64],
        own_seats: NDArray[np.int64],
        keys: NDArray[np.uint64],
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
        """One discard in every deal that is in that phase; returns the learner's: deals, seats, features, known."""
        observations = np.empty((len(rows), OBSERVATION_SIZE), np.uint8)
        masks = np.empty((len(rows), NUM_ACTIONS), np.int8)
        show_states(len(rows), rows, observations, masks)
        acting = rows[:, PLAYER].astype(np.int64)
        actions = np.zeros(len(rows), np.int64)
        to_throw = rows[:, PHASE] == DISCARD
        theirs = np.flatnonzero(to_throw & (opponents != ITSELF) & (acting != own_seats))
        those_keys = combine_arrays(keys, rows[:, DECISIONS].astype(np.int64))
        if len(theirs):
            actions[theirs] = self.league.act(
                opponents[theirs], observations[theirs], masks[theirs], those_keys[theirs]
            )
        own = np.flatnonzero(to_throw & ~((opponents != ITSELF) & (acting != own_seats)))
        candidates = agent.candidates(observations[own], masks[own])["discard"]
        first = candidates.bounds()
        chosen = np.zeros(len(first) - 1, np.int64)
        if len(own):
            policy = explored(agent.probabilities("discard", candidates), first, self.config.collect.epsilon)
            draw_candidates(policy, first, those_keys[own], chosen)
        taken = first[:-1] + chosen
        actions[own] = candidates.actions[taken]
        _throw(show_table(), rows, actions, np.zeros((0, EVENT_SIZE), np.int16))
        return own, acting[own], candidates.features[taken], candidates.known[taken]

    def _thrown(
        self,
        discards: list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]],
        rows: State,
        value: NDArray[np.float64],
        weight: NDArray[np.float64],
    ) -> _Thrown:
        """The discards of N deals, with the value (N, 2) of their play to each seat and what it counts (N,)."""
        deals, seats = (np.concatenate([one[at] for one in discards]) for at in (0, 1))
        features = np.concatenate([one[2] for one in discards])
        known = np.concatenate([one[3] for one in discards])
        returns = value[deals, seats]
        if len(deals):
            show = shown_points(rows)
            point = self.objective.measure(rows).point[deals]
            if self.objective.kind == POINTS_REWARD:  # the play alone is in the values
                own_crib = np.where(rows[deals, DEALER] == seats, 1.0, -1.0)
                returns = returns + known[:, 0] + own_crib * show[deals, 2]
            else:  # everything is, and what the discard could not change is taken out: a control variate
                luck = show[deals, seats] - known[:, 0] - show[deals, 1 - seats]
                returns = returns - point * luck
        return _Thrown(features, known, returns.astype(np.float32), weight[deals].astype(np.float32))

    def _learn_discards(self, thrown: _Thrown, lr: float, iteration: int) -> Figures:
        loss = value_regression(
            self, "discard", thrown.features, thrown.known, thrown.returns, lr, self.settings.passes, iteration,
            _DISCARD_BATCHES, thrown.weights,
        )  # fmt: skip
        return {"loss_discard": loss, "explained_discard": explained(loss, thrown.returns)}

    def _learn_plays(self, plays: Traversed, lr: float, tau: float, iteration: int) -> Figures:
        play = self.trained["play"]
        totals = np.zeros(3)
        for repeat in range(self.settings.passes):
            for batch in self.batches(len(plays.weights), iteration, _PLAY_BATCHES, repeat):
                rows = entries_of(plays.first, batch)
                first = np.concatenate([[0], np.cumsum(np.diff(plays.first)[batch])])
                logits = play.network(
                    torch.from_numpy(plays.features[rows]).to(self.device),
                    torch.from_numpy(plays.known[rows]).to(self.device),
                )
                gradient = np.empty(len(rows), np.float32)
                logit_gradients(
                    logits.detach().cpu().numpy(), first, plays.values[rows], plays.weights[batch], tau,
                    self.settings.rule == "neurd", gradient, totals,
                )  # fmt: skip
                gradient /= max(1, len(batch))
                play.step(logits, torch.from_numpy(gradient).to(self.device), lr, len(batch))
        count = max(totals[2], 1e-9)
        return {"entropy": totals[0] / count, "regret": totals[1] / count}


def _all_plays(parts: list[Traversed]) -> Traversed:
    sizes = np.concatenate([np.diff(part.first) for part in parts])
    return Traversed(
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.known for part in parts]),
        np.concatenate([part.values for part in parts]),
        np.concatenate([[0], np.cumsum(sizes)]),
        np.concatenate([part.weights for part in parts]),
        np.concatenate([part.beginnings for part in parts]),
        np.concatenate([part.weights_of_beginnings for part in parts]),
        sum(part.visited for part in parts),
    )
