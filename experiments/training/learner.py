"""What every learner is, and what they share: networks with their optimisers, batches, the agent that plays them.

A learner is a class with :meth:`Learner.iterate`, in a file of its own. It collects (with
:mod:`experiments.training.collect` or :mod:`experiments.training.branching`), learns, and says what it did in figures;
the run around it (:mod:`experiments.training.run`) counts, evaluates and writes checkpoints.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from agents.base import named_in
from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS, NetworkShape
from agents.neural.choice import Choice
from agents.neural.networks import CandidateNetwork, ExactNetwork, FastNetwork
from agents.neural.published import read_weights
from experiments.config import UserError
from experiments.train_config import TrainConfig
from experiments.training.league import League
from experiments.training.objective import Objective
from experiments.training.ranks import Ranks
from experiments.training.streams import BATCHES, WEIGHTS, stream

Figures = dict[str, float]
T = TypeVar("T")

PART = 1024
"""Episodes collected together: enough for large batches, few enough for the cache."""


_BY_VALUE = ("dmc",)  # learners whose scores of plays are values, not logits


class NotFinite(Exception):
    """A loss, gradient or weight that is no finite number; it says where."""


class Trained:
    """A network with its optimiser, and the moving average of its weights, which is what plays.

    Args:
        network: learned by Adam.
        average: how much of the average stays at each step; 0: what plays is the network itself.
        max_norm: gradients longer than this are cut to it.
        ranks: that learn together.
        name: for messages.
    """

    def __init__(self, network: CandidateNetwork, average: float, max_norm: float, ranks: Ranks, name: str) -> None:
        self.network = network
        self.name = name
        self._optimiser = torch.optim.Adam(network.parameters(), lr=0.0, eps=1e-5, fused=True)
        self._decay = average
        self._average = copy.deepcopy(network).requires_grad_(False) if average else network
        self._max_norm = max_norm
        self._ranks = ranks

    def step(self, scores: torch.Tensor, gradient: torch.Tensor | None, lr: float, weight: float = 1.0) -> None:
        """One step of the optimiser.

        Args:
            scores: a loss (); or outputs (R,) of the network, with
            gradient: (R,) that of the loss by them.
            lr: the learning rate.
            weight: the number of samples that the gradient is the mean of; with several ranks the mean over all of
                their samples is taken.

        Raises:
            NotFinite: the gradient is not finite; the weights are as they were.
        """
        self._optimiser.zero_grad()
        scores.backward(gradient)
        parameters = list(self.network.parameters())
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self._ranks.average_gradients(parameters, weight)
        norm = torch.nn.utils.clip_grad_norm_(parameters, self._max_norm)
        if not bool(torch.isfinite(norm)):
            raise NotFinite(f"the gradient of the {self.name} network became {float(norm)}")
        for group in self._optimiser.param_groups:
            group["lr"] = lr
        self._optimiser.step()
        if self._decay:
            with torch.no_grad():
                torch._foreach_lerp_(tuple(self._average.parameters()), tuple(parameters), 1.0 - self._decay)

    def fast(self) -> FastNetwork:
        """A copy of the network as it is now, for collecting."""
        return FastNetwork(self.network)

    def played(self) -> dict[str, torch.Tensor]:
        """The weights that play."""
        return self._average.state_dict()

    def state(self) -> dict[str, Any]:
        """As in a checkpoint: weights, their average if there is one, and the optimiser's state by weight."""
        state: dict[str, Any] = {
            "weights": self.network.state_dict(),
            "optimiser": {
                name: dict(self._optimiser.state[parameter]) for name, parameter in self.network.named_parameters()
            },
        }
        if self._decay:
            state["average"] = self._average.state_dict()
        return state

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            ValueError, KeyError: it is that of another network.
        """
        load_weights(self.network, state["weights"], self.name)
        if self._decay:
            load_weights(self._average, state["average"], self.name)
        named = dict(self.network.named_parameters())
        optimiser = state["optimiser"]
        if set(optimiser) != set(named):
            raise ValueError(f"the state of the optimiser of the {self.name} network")
        entries = {}
        for at, (name, parameter) in enumerate(named.items()):
            one = optimiser[name]
            for part in ("exp_avg", "exp_avg_sq") if one else ():
                if one[part].shape != parameter.shape:
                    raise ValueError(f"the optimiser's {part} of {name} of the {self.name} network")
            if one:
                entries[at] = one
        self._optimiser.load_state_dict(
            {"state": entries, "param_groups": self._optimiser.state_dict()["param_groups"]}
        )


def load_weights(network: CandidateNetwork, weights: Any, name: str) -> None:
    """Load a state; ValueError if it is that of another network."""
    try:
        network.load_state_dict(weights)
    except (RuntimeError, AttributeError, TypeError):
        raise ValueError(f"the weights of the {name} network are of another shape") from None


def _begin_with(network: CandidateNetwork, content: Mapping[str, Any], name: str, source: str) -> None:
    try:
        load_weights(network, content["weights"][name], name)
    except ValueError as error:
        raise UserError(f"network.start: {source!r} can't be gone on from: {error} than network says") from None


@dataclass
class Setup:
    """What a learner is made with."""

    config: TrainConfig
    device: torch.device
    threads: int
    """How many collect at the same time in this process."""
    ranks: Ranks = field(default_factory=Ranks)
    league: League | None = None
    """Whom it meets; None: only itself."""


class Learner(ABC):
    """Networks and one iteration of collecting and learning.

    What comes out depends on the config alone, not on the number of threads: episodes are collected in parts of a fixed
    size, and each network learns in one thread.
    """

    choice: Choice
    """How what was learned chooses."""
    columns: tuple[str, ...] = ()
    """The figures of its own that :meth:`iterate` returns; the first two are shown beside the progress bar."""
    counts: tuple[str, ...] = ()
    """Those of them that add up over ranks; of the others the mean is taken."""

    def __init__(self, setup: Setup) -> None:
        self.config = setup.config
        self.device = setup.device
        self.threads = setup.threads
        self.ranks = setup.ranks
        self.league = setup.league if setup.league is not None else League(setup.config)
        self.shape = NetworkShape(
            (setup.config.network.discard_hidden[0], setup.config.network.discard_hidden[1]),
            (setup.config.network.play_hidden[0], setup.config.network.play_hidden[1]),
            setup.config.network.scores,
        )
        start = setup.config.network.start
        with named_in("network.start"):
            self._start = read_weights(start) if start is not None else None
        if self._start is not None:
            self._check_start(self._start)
        collect = self.config.collect
        with named_in("collect.board"):  # read before a run writes or deletes anything
            self.objective = Objective.of(collect.reward, collect.board, self.config.rules.rules())
        self.trained: dict[str, Trained] = {}
        """By name; ``discard`` and ``play`` are what plays."""

    def _check_start(self, content: Mapping[str, Any]) -> None:
        """Raise UserError if what the run is to begin with gives plays another kind of scores."""
        began = content.get("config") or content.get("training", {}).get("config") or {}
        other = began.get("learner", {}).get("algorithm")
        own = self.config.learner.algorithm
        if other is not None and (other in _BY_VALUE) != (own in _BY_VALUE):
            said = {True: "values", False: "logits"}
            raise UserError(
                f"network.start: {self.config.network.start!r} was learned by {other}, whose scores of plays are "
                f"{said[other in _BY_VALUE]}; those of {own} are {said[own in _BY_VALUE]}"
            )

    def add(self, name: str, kind: str, known_weight: float) -> Trained:
        """A new network, known by ``name``, for a kind of decision."""
        generator = torch.Generator().manual_seed(stream(self.config.seed, WEIGHTS, len(self.trained)) >> 1)
        network = self.shape.network(kind, known_weight, generator).to(self.device)
        if self._start is not None and name in KINDS:
            _begin_with(network, self._start, name, str(self.config.network.start))
        learner = self.config.learner
        self.trained[name] = Trained(network, learner.average, learner.max_grad_norm, self.ranks, name)
        return self.trained[name]

    @property
    def known_weight(self) -> float:
        """With what the points that are known of a candidate count in a new value network: 1 where values are points,
        as those of deals always are, 0 where they are not.
        """
        collect = self.config.collect
        return 1.0 if collect.episode == "deal" or collect.reward == "points" else 0.0

    @abstractmethod
    def iterate(self, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        """Collect the episodes of iteration 0, 1, ... and learn from them.

        Args:
            iteration: its number, from which everything random follows.
            progress: the part of the budget that is spent, 0 to 1; rates follow it.
            pool: with a worker for each thread and at least two.

        Returns:
            Figures of this rank: ``games`` and ``decisions`` learned from, ``collect_seconds`` and ``learn_seconds``,
            and what else is worth a column of the metrics.

        Raises:
            NotFinite: a loss or gradient is no number.
        """

    def agent(self, name: str) -> NeuralAgent:
        """The agent that plays what was learned so far."""
        networks = {kind: ExactNetwork(weights, self.device) for kind, weights in self.weights().items()}
        return NeuralAgent(name, networks, self.shape.scores, self.choice)

    def weights(self) -> dict[str, dict[str, torch.Tensor]]:
        """What plays, as in a checkpoint."""
        return {kind: self.trained[kind].played() for kind in KINDS}

    def state(self) -> dict[str, Any]:
        """All that :meth:`restore` needs to go on."""
        return {name: one.state() for name, one in self.trained.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            ValueError, KeyError: it is that of another learner or of other networks.
        """
        missing = sorted(set(self.trained) - set(state))
        if missing:
            raise ValueError(f"there is no network {missing[0]!r} in it")
        for name, one in self.trained.items():
            one.restore(state[name])

    def numbers(self, iteration: int) -> range:
        """The episodes of this rank in an iteration."""
        games = self.config.collect.games
        share = self.ranks.share(games)
        return range(iteration * games + share.start, iteration * games + share.stop)

    def in_parts(self, iteration: int, pool: ThreadPoolExecutor, work: Callable[[NDArray[np.int64]], T]) -> list[T]:
        """Work on this rank's episodes of an iteration, :data:`PART` at a time, in as many threads as there are."""
        return [one.result() for one in self.start_parts(iteration, pool, work)]

    def start_parts(
        self, iteration: int, pool: ThreadPoolExecutor, work: Callable[[NDArray[np.int64]], T]
    ) -> list[Future[T]]:
        """The same without waiting for it; with one thread it is done at once."""
        parts = self._parts(iteration)
        return [pool.submit(work, part) if self.threads > 1 else done(work(part)) for part in parts]

    def _parts(self, iteration: int) -> list[NDArray[np.int64]]:
        numbers = np.array(self.numbers(iteration), np.int64)
        return [numbers[at : at + PART] for at in range(0, len(numbers), PART)]

    def submit(self, pool: ThreadPoolExecutor, work: Callable[..., T], *args: Any) -> Future[T]:
        """Start work beside other work; with several ranks at once, since their messages must come in one order."""
        return pool.submit(work, *args) if self.ranks.size == 1 else done(work(*args))

    def lr(self, progress: float) -> float:
        """The learning rate: falls linearly."""
        learner = self.config.learner
        return learner.lr + (learner.lr_end - learner.lr) * progress

    def batches(self, samples: int, iteration: int, *stream_of: int) -> Iterator[NDArray[np.int64]]:
        """Random batches of this rank's samples, as many on every rank; the numbers tell streams apart.

        A rank with too few samples gets batches without any, to keep in step with the others.
        """
        shuffle = np.random.default_rng([stream(self.config.seed, BATCHES, iteration), *stream_of, self.ranks.rank])
        steps = self.ranks.steps(samples, self.config.learner.batch_size)
        if steps:
            yield from np.array_split(shuffle.permutation(samples), steps)


def done(result: T) -> Future[T]:
    """A future that has its result."""
    future: Future[T] = Future()
    future.set_result(result)
    return future


def geometric(begin: float, end: float, progress: float) -> float:
    """From ``begin`` to ``end`` in equal ratios; a zero at either end makes it linear."""
    progress = min(max(progress, 0.0), 1.0)
    if begin <= 0.0 or end <= 0.0:
        return begin + (end - begin) * progress
    return float(begin * (end / begin) ** progress)
