"""Whether there is memory for a solve, before it takes any."""

from __future__ import annotations

from pathlib import Path

from agents.equilibrium.tree import Tree
from experiments.config import UserError

_BASE = 600_000_000  # the interpreter with compiled kernels, and sums over pairs of hands
_POLICIES = 5  # regrets, their sum, and at a check the average, its parts as stored and as read again; float32
_MEMINFO = Path("/proc/meminfo")


def needed(tree: Tree) -> int:
    """About how many bytes a solve of a tree takes at its peak."""
    return _BASE + sum(array.nbytes for array in tree) + _POLICIES * 4 * tree.policy_size


def available() -> int | None:
    """The bytes that the system can give without swapping; None where it does not tell."""
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        return next(1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError, IndexError):
        return None


def check(tree: Tree) -> None:
    """See that there is enough.

    Raises:
        UserError: there is not.
    """
    need, there = needed(tree), available()
    if there is not None and there < need:
        raise UserError(
            f"a solve of this tree takes about {need / 1e9:.1f} GB of memory, {there / 1e9:.1f} GB are free: end other "
            "programs, or use another machine"
        )
