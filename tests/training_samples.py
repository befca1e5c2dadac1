"""Small training runs for tests: their configs, what is in their folders, and runs in processes that can be killed."""

from __future__ import annotations

import copy
import csv
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from experiments import cli
from experiments.config import parse_config
from experiments.train_config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent

SMALL: dict[str, Any] = {
    "seed": 3,
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 64},
    "network": {"discard_hidden": [8, 8], "play_hidden": [16, 8]},
    "learner": {"algorithm": "dmc", "batch_size": 128, "subtract_luck": True},
    "budget": {"decisions": 1800},  # four iterations
    "evaluation": {"opponents": ["random"], "every": 900, "games": 20, "final_games": 40},
    "checkpoint": {"every": 900, "keep": 2},
}
"""A run of a second."""

ESPG: dict[str, Any] = {"algorithm": "espg", "batch_size": 128}
"""The learner's section of a run with espg, to replace that of :data:`SMALL`."""


def small_data(**changes: Any) -> dict[str, Any]:
    """:data:`SMALL` with changes: sections are merged, but for a learner with an algorithm, which replaces it."""
    data = copy.deepcopy(SMALL)
    for key, value in changes.items():
        whole = key == "learner" and "algorithm" in value
        data[key] = data[key] | value if isinstance(data.get(key), dict) and not whole else value
    return data


def small(**changes: Any) -> TrainConfig:
    """The config of :func:`small_data`."""
    return parse_config(small_data(**changes), TrainConfig, "small")


def rows_of(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's metrics."""
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def untimed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Rows without what depends on the clock."""
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


def same(one: Any, other: Any) -> bool:
    """Whether two contents of checkpoints are equal, tensors by their bytes."""
    if isinstance(one, torch.Tensor):
        return (
            isinstance(other, torch.Tensor)
            and (one.dtype, one.shape) == (other.dtype, other.shape)
            and one.numpy().tobytes() == other.numpy().tobytes()
        )
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What ``cribbage train`` says on standard error, in one line, with exit code 2.

    Beside that it may say that kernels are being compiled, in the first test that needs some.
    """
    capsys.readouterr()
    assert cli.main(["train", *arguments]) == 2
    lines = capsys.readouterr().err.splitlines()
    (said,) = [line for line in lines if not line.startswith("Compiling the engine")]
    assert said.startswith("error: ")
    return said.removeprefix("error: ").strip()


def train_here(folder: str, data: dict[str, Any]) -> None:
    """Train in a folder by a config, or go on with the run that is there: for processes that may be killed."""
    from experiments.training.run import Run

    os.chdir(folder)
    config = parse_config(data, TrainConfig, "small")
    there = Path("runs", config.name, "checkpoint.pt").exists()
    if not Run(config, resume=there, overwrite=not there).train():
        raise KeyboardInterrupt


def write_config(path: Path, data: dict[str, Any]) -> Path:
    """A config file (JSON is YAML)."""
    path.write_text(json.dumps(data))
    return path
