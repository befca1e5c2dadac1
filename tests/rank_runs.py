"""What the tests of several ranks let ranks do; they start it by ``torchrun``: ``rank_runs.py FOLDER``.

Every rank writes what it has seen to ``FOLDER/<rank>.pt``, by name.
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.config import UserError, parse_config
from experiments.train_config import TrainConfig
from experiments.training import run as run_module
from experiments.training.learner import Figures
from experiments.training.ranks import Ranks, TorchRanks
from experiments.training.run import Run

SMALL: dict[str, Any] = {
    "seed": 3,
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 65},  # which two ranks can't share evenly
    "network": {"discard_hidden": [8, 8], "play_hidden": [16, 8]},
    "learner": {"batch_size": 128},
    "budget": {"decisions": 1500},
    "evaluation": {"opponents": []},
    "checkpoint": {"every": 10**9, "keep": 2},
}
RUNS: dict[str, dict[str, Any]] = {
    "dmc": {"learner": {"algorithm": "dmc", "average": 0.9}},
    "espg": {"learner": {"algorithm": "espg"}},
    "ppo": {"learner": {"algorithm": "ppo", "discards": "policy", "magnet": 0.1, "magnet_every": 2}},
    "nfsp": {"learner": {"algorithm": "nfsp", "anticipatory": 0.5, "memory": 100, "policy_steps": 3}},
    "distill": {"learner": {"algorithm": "distill", "teacher": "greedy", "mix": 0.3}},
    # a batch is all there is, so that one process and two ranks do the same but for rounding
    "dmc whole": {"learner": {"algorithm": "dmc", "batch_size": 2**20, "lr": 1e-3}},
    "espg whole": {"learner": {"algorithm": "espg", "batch_size": 2**20, "lr": 1e-3}},
    # one deal of two cards for each rank, in which often nobody has a choice
    "none": {
        "collect": {"games": 2, "reduced": {}},
        "learner": {"algorithm": "espg", "full_reach": 1.0},
        "budget": {"decisions": 40},
    },
}


def config_of(name: str, folder: Path, **changes: Any) -> TrainConfig:
    """The config of a run, which writes to ``folder/<name>``."""
    data = {**SMALL, **RUNS.get(name, {}), **changes}
    data = {key: SMALL[key] | value if isinstance(SMALL.get(key), dict) else value for key, value in data.items()}
    return parse_config(data | {"output": str(folder / name)}, TrainConfig, name)


def learned(run: Run) -> dict[str, Any]:
    """All that a run has learned, and how far it is."""
    return {"state": run._learner.state(), "iterations": run._counters.iteration, "decisions": run._counters.decisions}


def train(name: str, folder: Path, ranks: Ranks | None = None, resume: bool = False) -> dict[str, Any]:
    """Train by a config."""
    run = Run(config_of(name, folder), resume=resume, ranks=ranks)
    return {"done": run.train(), **learned(run)}


def said(work: Callable[[], object]) -> str:
    """What is wrong."""
    try:
        work()
    except UserError as error:
        return str(error)
    return "nothing"


def messages(ranks: Ranks) -> dict[str, Any]:
    """What ranks tell each other."""
    found: dict[str, Any] = {"total": ranks.total([1.0, ranks.rank]), "first": ranks.from_first(f"rank {ranks.rank}")}
    parameter = torch.nn.Parameter(torch.zeros(3))
    for name, weight, gradient in (
        ("even", 1.0, [1.0, 2.0 * ranks.rank, 0.0]),
        ("uneven", 3.0 - 2.0 * ranks.rank, [1.0, 2.0 * ranks.rank, 0.0]),
        ("one has none", float(ranks.rank), [float("nan") if ranks.first else 5.0, 1.0, 0.0]),
        ("nobody has any", 0.0, [1.0, 1.0, 1.0]),
    ):
        parameter.grad = torch.tensor(gradient)
        ranks.average_gradients([parameter], weight)
        found[name] = parameter.grad.tolist()
    found["steps"] = [ranks.steps(*one) for one in ((100 + 30 * ranks.rank, 50), (10 * ranks.rank, 8), (0, 8))]
    found["any"] = [ranks.any(False), ranks.any(not ranks.first)]
    for wrong in ([0, 1], [1], []):
        found[f"said {wrong}"] = said(functools.partial(mistakes, ranks, wrong))
    return found


def mistakes(ranks: Ranks, wrong: list[int]) -> None:
    """Some of the ranks make one."""
    with ranks.together():
        if ranks.rank in wrong:
            raise UserError(f"a mistake on {ranks.rank}")


class _Fast:
    """A clock that runs three times as fast."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        return 3 * time.monotonic()


def clocks_that_differ(folder: Path, ranks: Ranks) -> dict[str, Any]:
    """A budget of time: the clock of rank 0 counts."""
    if not ranks.first:
        run_module.time = _Fast()  # type: ignore[assignment]
    run = Run(config_of("minutes", folder, budget={"decisions": None, "minutes": 0.02}), ranks=ranks)
    rates = []
    iterate = run._learner.iterate

    def watched(iteration: int, progress: float, pool: Any) -> Figures:
        rates.append(progress)
        return iterate(iteration, progress, pool)

    run._learner.iterate = watched  # type: ignore[method-assign]
    done = run.train()
    run_module.time = time
    return {"done": done, "progress": rates, **learned(run)}


def at_second_iteration(folder: Path, name: str, ranks: Ranks, what: Any) -> dict[str, Any]:
    """A run in which rank 1 does something in its second iteration."""
    run = Run(config_of(name, folder), ranks=ranks)
    iterate = run._learner.iterate

    def disturbed(iteration: int, progress: float, pool: Any) -> Figures:
        figures = iterate(iteration, progress, pool)
        if iteration == 1 and ranks.rank == 1:
            what(figures)
        return figures

    run._learner.iterate = disturbed  # type: ignore[method-assign]
    found: dict[str, Any] = {}
    found["said"] = said(lambda: found.update(done=run.train(), **learned(run)))
    return found


def main(folder: Path) -> None:
    """All of it."""
    ranks = TorchRanks()
    found: dict[str, Any] = {"messages": messages(ranks)}
    for name in RUNS:
        found[name] = train(name, folder, ranks)
    found["minutes"] = clocks_that_differ(folder, ranks)
    found["interrupted"] = at_second_iteration(
        folder, "interrupted", ranks, lambda figures: os.kill(os.getpid(), signal.SIGINT)
    )
    if ranks.first:
        shutil.copytree(folder / "interrupted", folder / "resumed")
    with ranks.together():  # nobody goes on before the copy is there
        pass
    found["resumed"] = train("resumed", folder, ranks, resume=True)
    found["unbroken"] = train("unbroken", folder, ranks)
    found["few"] = said(lambda: Run(config_of("few", folder, collect={"games": 1}), ranks=ranks))
    found["no such run"] = said(lambda: Run(config_of("none at all", folder), resume=True, ranks=ranks))
    found["not finite"] = at_second_iteration(
        folder, "nan", ranks, lambda figures: figures.update(loss_play=float("nan"))
    )
    torch.save(found, folder / f"{ranks.rank}.pt")
    print(json.dumps(sorted(found)))
    ranks.close()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where tests run in a shell's background
    main(Path(sys.argv[1]))
