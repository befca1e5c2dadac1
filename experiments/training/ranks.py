"""The processes of a run: one, or several started by ``torchrun`` that learn together.

Every rank collects its share of an iteration's episodes and learns from it; gradients are averaged, so all ranks have
the same parameters at any time. Rank 0 alone writes files and evaluates. What is decided (when the run ends, how far it
is) all ranks decide alike, from figures that they have agreed upon: a rank that took another turn would leave the
others waiting.

Counts, flags and messages go through gloo, whatever the device. So do gradients on CPUs and between ranks that share a
GPU; where each rank has a GPU of its own, gradients go through nccl.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from types import FrameType
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from agents.base import AgentError
from agents.neural.agent import choose_device
from experiments.config import UserError

TIMEOUT = timedelta(days=2)
"""How long ranks wait for each other: rank 0 may be evaluating. A rank that has died is noticed at once."""
_START = timedelta(minutes=10)  # how long until all ranks must be there
_LAST_WORDS = timedelta(seconds=5)

T = TypeVar("T")


class LostRank(UserError):
    """Another rank has died, or this one is told to end because of that."""


class Ranks:
    """One process, which needs no communication; :class:`TorchRanks` is several."""

    rank = 0
    size = 1
    local_size = 1
    """How many of them are on this machine."""

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def share(self, items: int) -> range:
        """Which of so many items are this rank's: consecutive ones."""
        return range(items * self.rank // self.size, items * (self.rank + 1) // self.size)

    def device(self, named: str) -> torch.device:
        """Where this rank learns, see :func:`agents.neural.agent.choose_device`."""
        return choose_device(named)

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter], weight: float = 1.0) -> None:
        """Replace every rank's gradients by their weighted mean.

        Args:
            parameters: with gradients.
            weight: of this rank's: how many samples they are the mean of. With none it may have any gradients.
        """

    def total(self, figures: Sequence[float]) -> list[float]:
        """The sums over all ranks, the same on each."""
        return list(figures)

    def from_first(self, what: T) -> T:
        """What rank 0 has, on all ranks; a number, text, tensor or a container of them."""
        return what

    def gathered(self, what: T) -> list[T]:
        """What every rank has, in their order, on all ranks."""
        return [what]

    @contextmanager
    def together(self) -> Iterator[None]:
        """A block that every rank enters; what is wrong on one of them is raised on all.

        No messages may be sent in it. At its end every rank waits for the others.

        Raises:
            UserError: the error of the first rank with one.
        """
        yield

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return self.total([float(flag)])[0] > 0

    def steps(self, samples: int, batch_size: int) -> int:
        """In how many batches every rank goes through its samples: as many as one process would need for all of them.

        Args:
            samples: of this rank.
            batch_size: of all ranks together.
        """
        return math.ceil(self.total([samples])[0] / batch_size)

    def close(self) -> None:
        """End the messages; every rank calls it at the end of a run that went well."""


class TorchRanks(Ranks):
    """The ranks that ``torchrun`` has started, by its environment variables.

    Raises:
        UserError: the others can't be reached.
    """

    def __init__(self) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        self._local_rank = int(os.environ.get("LOCAL_RANK", "0"))
        self._nccl: dist.ProcessGroup | None = None
        try:
            self._store, _, _ = next(rendezvous("env://", timeout=_START))
            dist.init_process_group("gloo", store=self._store, rank=self.rank, world_size=self.size, timeout=TIMEOUT)
        except (RuntimeError, ValueError, OSError) as error:
            raise UserError(f"rank {self.rank} can't reach the other ranks: {_one_line(error)}") from None
        self._ending = False
        self._before: Any = None
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._on_termination)

    def device(self, named: str) -> torch.device:
        """Where this rank learns: ``auto`` and ``cuda`` mean a GPU of its own, as long as there are enough."""
        with self.together():
            chosen, own = place(choose_device(named), self._local_rank, self.local_size, _gpus())
        on_gpu, with_own = self.total([chosen.type == "cuda", own])
        if 0 < on_gpu < self.size:
            raise UserError(f"{on_gpu:.0f} of {self.size} ranks have a GPU and the others none; say device=cpu")
        if chosen.type == "cuda":
            torch.cuda.set_device(chosen)
            if with_own == self.size and dist.is_nccl_available():
                self._nccl = dist.new_group(backend="nccl", timeout=TIMEOUT)
        return chosen

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter], weight: float = 1.0) -> None:
        """See :meth:`Ranks.average_gradients`; one message for all of them, the same bits on every rank."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), gradients[0].new_ones(1)])
        message = flat * weight if weight > 0 else torch.zeros_like(flat)
        if self._nccl is None:
            message = message.cpu()
        self._send(lambda: dist.all_reduce(message, dist.ReduceOp.SUM, group=self._nccl))
        mean = (message[:-1] / message[-1].clamp_min(1e-30)).to(flat.device)
        at = 0
        for gradient in gradients:
            gradient.copy_(mean[at : at + gradient.numel()].view_as(gradient))
            at += gradient.numel()

    def total(self, figures: Sequence[float]) -> list[float]:
        """See :meth:`Ranks.total`."""
        tensor = torch.tensor([float(figure) for figure in figures], dtype=torch.float64)
        self._send(lambda: dist.all_reduce(tensor, dist.ReduceOp.SUM))
        sums: list[float] = tensor.tolist()
        return sums

    def from_first(self, what: T) -> T:
        """See :meth:`Ranks.from_first`."""
        box = [what if self.first else None]
        self._send(lambda: dist.broadcast_object_list(box, src=0))
        return box[0]  # type: ignore[return-value]

    def gathered(self, what: T) -> list[T]:
        """See :meth:`Ranks.gathered`."""
        everywhere: list[Any] = [None] * self.size
        self._send(lambda: dist.all_gather_object(everywhere, what))
        return everywhere

    @contextmanager
    def together(self) -> Iterator[None]:
        """See :meth:`Ranks.together`."""
        wrong = None
        try:
            yield
        except (UserError, AgentError) as error:
            if isinstance(error, LostRank):
                raise
            wrong = str(error)
        everywhere: list[str | None] = [None] * self.size
        self._send(lambda: dist.all_gather_object(everywhere, wrong))
        for rank, text in enumerate(everywhere):
            if text is not None:
                raise UserError(text if rank == 0 else f"rank {rank}: {text}")

    def close(self) -> None:
        """See :meth:`Ranks.close`."""
        self.total([])
        dist.destroy_process_group()
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)

    def say_once(self, text: str) -> None:
        """Write a line to standard error if no other rank has done so: why the run has ended.

        All ranks may call it at the same time. It waits until the line is written: ``torchrun`` ends all ranks as soon
        as it sees that one has ended.
        """
        self._ending = True
        try:
            self._store.set_timeout(_LAST_WORDS)
            mine = self._store.add("cribbage/last words", 1) == 1
        except RuntimeError:  # the store is gone, with the rank that had it
            mine = True
        if mine:
            print(text, file=sys.__stderr__, flush=True)
        try:
            if mine:
                self._store.set("cribbage/said", "1")
            else:
                self._store.wait(["cribbage/said"], _LAST_WORDS)
        except RuntimeError:
            pass

    def _send(self, work: Callable[[], object]) -> None:
        try:
            work()
        except RuntimeError as error:
            self._ending = True
            raise LostRank(
                f"rank {self.rank} has lost the connection to another one, which has died ({_one_line(error)}); the "
                "last checkpoint is whole, go on with --resume"
            ) from None

    def _on_termination(self, number: int, frame: FrameType | None) -> None:
        if self._ending:  # it ends already, and says why
            return
        self._ending = True
        raise LostRank(
            f"rank {self.rank} was told to end, as torchrun does when another rank has died or when it is ended "
            "itself; the last checkpoint is whole, go on with --resume"
        )


def place(chosen: torch.device, local_rank: int, local_size: int, gpus: int) -> tuple[torch.device, bool]:
    """Where a rank learns, and whether it has that GPU to itself.

    Args:
        chosen: by the config.
        local_rank, local_size: this rank among those on this machine, and how many they are.
        gpus: on this machine.
    """
    if chosen.type != "cuda":
        return chosen, False
    if chosen.index is not None:
        return chosen, local_size == 1
    return torch.device("cuda", local_rank % gpus), local_size <= gpus


def _gpus() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def _one_line(error: Exception) -> str:
    """What an error says, without the place in PyTorch's code that some begin with."""
    lines = re.sub(r"^\[[^]]*\] *", "", str(error)).splitlines() or [type(error).__name__]
    return lines[0].partition(". ")[0]
