"""The processes of a run: one, or several started by ``torchrun`` that learn together.

Every rank collects its share of an iteration's episodes and learns from it; gradients are averaged, so all ranks have
the same parameters at any time. Rank 0 alone writes files and evaluates.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

from experiments.config import UserError

TIMEOUT = timedelta(minutes=60)
"""How long ranks wait for each other: rank 0 may be evaluating. A rank that has died is noticed at once."""


class Ranks:
    """One process, which needs no communication; :class:`TorchRanks` is several."""

    rank = 0
    size = 1

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def share(self, items: int) -> range:
        """Which of so many items are this rank's: consecutive ones."""
        return range(items * self.rank // self.size, items * (self.rank + 1) // self.size)

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every rank's gradients by their mean."""

    def total(self, figures: Sequence[float]) -> list[float]:
        """The sums over all ranks, the same on each."""
        return list(figures)

    def most(self, number: int) -> int:
        """The greatest of the ranks' numbers."""
        return number

    def any(self, flag: bool) -> bool:
        """Whether the flag is set on any rank."""
        return self.most(int(flag)) > 0

    def steps(self, samples: int, batch_size: int) -> int:
        """In how many batches every rank goes through its samples: as many as the rank with most of them needs.

        Args:
            samples: of this rank.
            batch_size: of all ranks together.
        """
        return self.most(max(1, math.ceil(samples * self.size / batch_size) if samples else 0))


class TorchRanks(Ranks):
    """The ranks that ``torchrun`` has started, by its environment variables; gloo on CPUs, nccl on GPUs."""

    def __init__(self, device: torch.device) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._device = device
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every rank's gradients by their mean; one message for all of them."""
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        self._reduce(flat, dist.ReduceOp.SUM)
        flat /= self.size
        at = 0
        for gradient in gradients:
            gradient.copy_(flat[at : at + gradient.numel()].view_as(gradient))
            at += gradient.numel()

    def total(self, figures: Sequence[float]) -> list[float]:
        """The sums over all ranks, the same on each."""
        tensor = torch.tensor(list(figures), dtype=torch.float64, device=self._device)
        self._reduce(tensor, dist.ReduceOp.SUM)
        sums: list[float] = tensor.tolist()
        return sums

    def most(self, number: int) -> int:
        """The greatest of the ranks' numbers."""
        tensor = torch.tensor([number], dtype=torch.int64, device=self._device)
        self._reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor.item())

    def _reduce(self, tensor: torch.Tensor, how: dist.ReduceOp.RedOpType) -> None:
        try:
            dist.all_reduce(tensor, how)
        except RuntimeError as error:
            raise UserError(
                f"rank {self.rank} has lost another one ({str(error).splitlines()[0][:120]}); the run is ended, go on "
                "from its last checkpoint with --resume"
            ) from None


def started_by_torchrun() -> bool:
    """Whether this process is one of ``torchrun``'s."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ
