"""Whom the learner meets: itself, its past selves, and fixed agents, each in its share of the episodes.

Past selves are a pool (``opponents.pool``): every so many decisions a copy of the learner enters, and beyond ``size``
the oldest leaves. Who of them is met is drawn for each episode:

* ``uniform``: any of them alike;
* ``recent``: the newest with weight 1, and with each step back half as likely;
* ``prioritised``: the harder to beat, the likelier. With m_i the running mean of the learner's results against member
  i, and s the standard deviation of these means over the members, member i has the weight ``exp(-(m_i - mean) / s)``.
  One that has not been met counts as hard as the hardest. This is prioritised fictitious self-play (O. Vinyals et al.,
  "Grandmaster level in StarCraft II using multi-agent reinforcement learning", Nature 2019), which weighs by
  (1 - win rate)**2; in single deals luck keeps all win rates near a half, so results are compared with their own
  spread, whatever their unit.

Results are forgotten by halves (:data:`MEMORY` of them stays an iteration), since the learner changes. They are added
up as whole numbers, so that the order in which threads finish their episodes makes no difference, and over all ranks.

The members lie in the folder ``pool`` of the run, each a checkpoint that plays (``make_agent("runs/x/pool/NAME.pt")``)
without the state of training; checkpoints of the run only name them. A member's file is written before the first
checkpoint that names it, and goes when no checkpoint that is kept does. So a pool can be given to another run, too:
``opponents.pool.folder``.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.base import AgentError, Keys, Masks, Observations, named_in
from agents.neural.agent import NeuralAgent, choose_device, content_agent
from agents.neural.checkpoint import checkpoint_bytes, read_checkpoint
from agents.opponents import OpponentLike, Opponents
from cribbage_env.streams import combine_arrays
from experiments.config import UserError
from experiments.run_folder import write_whole
from experiments.train_config import PoolConfig, TrainConfig
from experiments.training.ranks import Ranks
from experiments.training.streams import OPPONENTS, SEATS, stream, units

ITSELF = -1
MEMORY = 0.95
"""How much of a member's results counts on after an iteration."""

_UNIT = 2.0**20  # results are added up in these parts of a point or game


@dataclass
class _Member:
    """A past self."""

    name: str  # of its file
    agent: NeuralAgent
    content: Mapping[str, Any] | None  # of its checkpoint, until it is written
    total: float = 0.0  # of the learner's results against it, fading
    count: float = 0.0  # of episodes, likewise


@dataclass
class _Results:
    """Of the present iteration, in whole numbers."""

    totals: NDArray[np.int64]
    counts: NDArray[np.int64]
    lock: threading.Lock = field(default_factory=threading.Lock)  # episodes end in several threads


class League:
    """The opponents of a run.

    Args:
        config: of the run.
        ranks: the processes of the run.
        folder: for the members of the pool; None: they are not written.
        resume: the run goes on: the pool is that of :meth:`restore`, whatever the config's folder has by now.
        device: where the pool's networks are evaluated; None: as the config says.

    Raises:
        AgentError: a spec of the config's that names no agent.
        UserError: the pool's folder has no checkpoints, too many, or something else is named like one.
    """

    def __init__(
        self,
        config: TrainConfig,
        ranks: Ranks | None = None,
        folder: Path | None = None,
        resume: bool = False,
        device: torch.device | None = None,
    ) -> None:
        self._config = config
        self._ranks = Ranks() if ranks is None else ranks
        self._folder = folder
        fixed: dict[OpponentLike, float] = {spec: share for spec, share in config.opponents.agents.items() if share > 0}
        with named_in("opponents.agents"):
            self._fixed = Opponents(fixed) if fixed else None
        self._shares = list(fixed.values())
        self._pool = config.opponents.pool
        self._device = choose_device(config.device) if device is None else device
        self._entered = 0  # the decisions after which a copy was taken last
        self._written = 0  # the same, of those in files
        self._members: list[_Member] = []  # the oldest first
        if self._pool.share > 0 and self._pool.folder is not None and not resume:
            for number, content in enumerate(_checkpoints(self._pool)):
                self._add(f"first-{number:04}", content)
        self._begin()

    @property
    def names(self) -> list[str]:
        """Of the pool's members, the oldest first."""
        return [one.name for one in self._members]

    def draw(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Who plays the episodes with these numbers (N,).

        Returns:
            The opponents (N,), :data:`ITSELF` or a number for :meth:`act`; and the learner's seat (N,).
        """
        drawn = _units(stream(self._config.seed, OPPONENTS), numbers)
        opponents = np.searchsorted(self._bounds, drawn, side="right")
        seats = (_units(stream(self._config.seed, SEATS), numbers) < 0.5).astype(np.int64)
        return np.where(opponents < len(self._bounds), opponents, ITSELF), seats

    def act(
        self, opponents: NDArray[np.integer], observations: Observations, masks: Masks, keys: Keys
    ) -> NDArray[np.int64]:
        """The actions (B,) of opponents (B,), none of them :data:`ITSELF`."""
        actions = np.empty(len(opponents), np.int64)
        fixed = len(self._shares)
        rows = np.flatnonzero(opponents < fixed)
        if len(rows):
            assert self._fixed is not None
            actions[rows] = self._fixed.act(opponents[rows], observations[rows], masks[rows], keys[rows])
        for number, member in enumerate(self._members, start=fixed):
            rows = np.flatnonzero(opponents == number)
            if len(rows):
                actions[rows] = member.agent.act(observations[rows], masks[rows], keys[rows])
        return actions

    def record(self, opponents: NDArray[np.int64], results: NDArray[np.float64]) -> None:
        """Take note of what the learner made against each opponent, (N,), in episodes that have ended."""
        if not self._members:
            return
        of_pool = opponents >= len(self._shares)
        which = opponents[of_pool] - len(self._shares)
        parts = np.rint(results[of_pool] * _UNIT).astype(np.int64)
        with self._results.lock:
            np.add.at(self._results.totals, which, parts)
            np.add.at(self._results.counts, which, 1)

    def settle(self) -> None:
        """Let the results of an iteration count, on all ranks; called between two iterations."""
        if not self._members:
            return
        every = [*self._results.totals.tolist(), *self._results.counts.tolist()]
        every = self._ranks.total(every)
        for number, member in enumerate(self._members):
            member.total = MEMORY * member.total + every[number] / _UNIT
            member.count = MEMORY * member.count + every[len(self._members) + number]
        self._begin()

    def due(self, decisions: int) -> bool:
        """Whether a copy of the learner is to enter the pool after so many decisions."""
        return self._pool.share > 0 and decisions // self._pool.every > self._entered // self._pool.every

    def enter(self, content: Mapping[str, Any], decisions: int) -> None:
        """Take a copy of the learner into the pool, between two iterations.

        Args:
            content: what an agent needs of a checkpoint; it is copied.
            decisions: learned from so far.
        """
        self._entered = decisions
        copy = {
            **content,
            "weights": {
                kind: {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
                for kind, weights in content["weights"].items()
            },
        }
        self._add(f"{decisions:012}", copy)
        self._begin()

    def write(self) -> None:
        """Write the members that lie in no file yet; to be done before a checkpoint names them."""
        if self._folder is None:
            return
        for path in self._folder.glob("*.pt"):  # left by a session that was killed before its checkpoint
            if _when(path)[0] > self._written and path.stem not in self.names:
                path.unlink()
        self._written = self._entered
        for one in self._members:
            if one.content is not None:
                self._folder.mkdir(exist_ok=True)
                write_whole(self._path(one.name), checkpoint_bytes(one.content))
                one.content = None

    def tidy(self, kept: Collection[int]) -> None:
        """Delete the files of members that no checkpoint names.

        Args:
            kept: the decisions after which the run's checkpoints were written.
        """
        if self._folder is None or not self._folder.is_dir():
            return
        entered = sorted(self._folder.glob("*.pt"), key=_when)
        named: set[Path] = set()
        for decisions in kept:
            named.update([path for path in entered if _when(path)[0] <= decisions][-self._pool.size :])
        for path in set(entered) - named:
            path.unlink()

    def state(self) -> dict[str, Any]:
        """All that :meth:`restore` needs to go on, beside the files of the members."""
        return {
            "entered": self._entered,
            "members": [[one.name, one.total, one.count] for one in self._members],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            AgentError: the file of a member is gone, or damaged.
            KeyError, TypeError, ValueError: it is no such state.
        """
        members = []
        for name, total, count in state["members"]:
            path = self._path(str(name))
            if not path.exists():
                raise ValueError(f"the past self {str(path)!r} of its pool is gone")
            content = read_checkpoint(path)
            members.append(_Member(str(name), self._agent(name, content), None, float(total), float(count)))
        self._members = members
        self._entered = self._written = int(state["entered"])
        self._begin()

    def weights(self) -> NDArray[np.float64]:
        """How likely each member of the pool (M,) is to be met among them; they sum to 1."""
        count = len(self._members)
        if self._pool.sampling == "recent":
            weights = 0.5 ** np.arange(count - 1, -1, -1.0)
        elif self._pool.sampling == "prioritised":
            weights = priorities(
                np.array([one.total for one in self._members]), np.array([one.count for one in self._members])
            )
        else:
            weights = np.ones(count)
        return weights / weights.sum() if count else weights

    def _add(self, name: str, content: Mapping[str, Any]) -> None:
        kept = content if self._folder is not None and self._ranks.first else None
        self._members.append(_Member(name, self._agent(name, content), kept))
        del self._members[: -self._pool.size]

    def _agent(self, name: str, content: Mapping[str, Any]) -> NeuralAgent:
        return content_agent(name, content, self._device)

    def _begin(self) -> None:
        """Fix who is met in the coming iteration."""
        count = len(self._members)
        self._results = _Results(np.zeros(count, np.int64), np.zeros(count, np.int64))
        self._bounds = np.cumsum([*self._shares, *(self._pool.share * self.weights())])

    def _path(self, name: str) -> Path:
        return (Path() if self._folder is None else self._folder) / f"{name}.pt"


def priorities(totals: NDArray[np.float64], counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights (M,) of prioritised sampling, see the module.

    Args:
        totals: (M,) of the learner's results against each member.
        counts: (M,) of episodes; members without any count as hard as the hardest.
    """
    met = counts > 0
    if not met.any():
        return np.ones(len(counts))
    means = np.divide(totals, counts, out=np.zeros(len(counts)), where=met)
    means[~met] = means[met].min()
    spread = means.std()
    if spread <= 1e-9 * max(1.0, float(np.abs(means).max())):  # all alike, but for rounding
        return np.ones(len(counts))
    weights: NDArray[np.float64] = np.exp(-(means - means.mean()) / spread)
    return weights


def _checkpoints(pool: PoolConfig) -> list[dict[str, Any]]:
    """What is in the checkpoints of the pool's folder, without the state of training, by the order of their names."""
    folder = Path(str(pool.folder))
    said = f"opponents.pool.folder {str(folder)!r}"
    if not folder.is_dir():
        raise UserError(f"{said}: there is no such folder; make it with checkpoints (*.pt) in it, or leave the key out")
    paths = sorted(folder.glob("*.pt"))
    if not paths:
        raise UserError(f"{said} has no checkpoints (*.pt) in it; copy some there, or leave the key out")
    if len(paths) > pool.size:
        raise UserError(
            f"{said} has {len(paths)} checkpoints, opponents.pool.size must be at least that, got {pool.size}"
        )
    found = []
    for path in paths:
        try:
            found.append({key: value for key, value in read_checkpoint(path).items() if key != "training"})
        except AgentError as error:
            raise UserError(f"{said}: {error}") from None
    return found


def _when(path: Path) -> tuple[int, str]:
    """The decisions after which the member in a file entered, 0 for those from another folder, and its name."""
    return int(path.stem) if path.stem.isdigit() else 0, path.stem


def _units(key: int, numbers: NDArray[np.int64]) -> NDArray[np.float64]:
    """A number in [0, 1) for each of the numbers."""
    return units(combine_arrays(np.full(len(numbers), key, np.uint64), numbers))
