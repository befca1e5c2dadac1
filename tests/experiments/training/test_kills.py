"""kill -9 at any moment: the run goes on, loses at most one checkpoint interval, and ends with the same bytes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from training_samples import small_data, train_here

from agents.neural.checkpoint import CHECKPOINT, read_checkpoint
from experiments.training.metrics import read_rows

# Tiny iterations, so that much of the time goes into files
DATA: dict[str, Any] = small_data(
    collect={"games": 4},
    network={"discard_hidden": [4, 4], "play_hidden": [4, 4]},
    learner={"algorithm": "dmc", "batch_size": 128},
    evaluation={"opponents": []},
    checkpoint={"every": 90, "keep": 2},
)
MOST_OF_AN_ITERATION = 4 * 8  # decisions: two discards and at most six plays with a choice a deal

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL to send")


def start(folder: Path, decisions: int) -> Any:
    """The run in a process of its own, a copy of one that has loaded what it needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["training_samples", "experiments.training.run", "experiments.training.dmc"])
    process = context.Process(target=train_here, args=(str(folder), DATA | {"budget": {"decisions": decisions}}))
    process.start()
    return process


def kill_often(tmp_path: Path, kills: int, decisions: int, seed: int) -> list[int]:
    """Train with so many kills at random moments and compare with an unbroken run; returns how far it was at each."""
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    began = time.monotonic()
    unbroken = start(tmp_path / "whole", decisions)
    unbroken.join()
    assert unbroken.exitcode == 0
    whole_time = time.monotonic() - began
    run = tmp_path / "killed" / "runs" / "train"
    rng = np.random.default_rng(seed)
    reached = []
    done = 0
    for left in range(kills, 0, -1):
        process = start(tmp_path / "killed", decisions)
        # now and then while it starts, else when it has done its part of what is left
        goal = 0 if rng.random() < 0.2 else done + rng.random() * (decisions - done) / left
        deadline = time.monotonic() + 20 * whole_time + 60
        while process.is_alive() and time.monotonic() < deadline and rows_done(run) <= goal and goal > 0:
            time.sleep(0.01)
        time.sleep(rng.random() * (0.05 if goal else 0.5 * whole_time))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        assert process.exitcode in (-signal.SIGKILL, 0)
        written = checked(run)
        assert rows_done(run) - written <= DATA["checkpoint"]["every"] + MOST_OF_AN_ITERATION
        assert written >= done  # nothing that had been written is lost
        done = written
        reached.append(done)
    last = start(tmp_path / "killed", decisions)
    last.join()
    assert last.exitcode == 0
    files = [(tmp_path / name / "runs" / "train" / CHECKPOINT).read_bytes() for name in ("whole", "killed")]
    assert files[0] == files[1]
    assert not list(run.rglob("*.tmp"))
    rows = [
        [row["decisions"] for row in read_rows(tmp_path / name / "runs/train/metrics.csv")]
        for name in ("whole", "killed")
    ]
    assert rows[0] == rows[1]
    return reached


def rows_done(run: Path) -> int:
    """The decisions of the last whole row of the metrics."""
    rows = list(read_rows(run / "metrics.csv"))
    return int(rows[-1]["decisions"]) if rows else 0


def checked(run: Path) -> int:
    """The decisions of the newest checkpoint, which must be whole, as those kept must be; 0: there is none yet."""
    for path in run.glob("checkpoints/*.pt"):
        assert read_checkpoint(path)["training"]["decisions"] == int(path.stem)
    if not (run / CHECKPOINT).exists():
        return 0
    return int(read_checkpoint(run)["training"]["decisions"])


def test_three_kills(tmp_path: Path) -> None:
    reached = kill_often(tmp_path, 3, 1500, seed=1)
    assert reached[-1] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2])
def test_twenty_kills(seed: int, tmp_path: Path) -> None:
    reached = kill_often(tmp_path, 20, 6000, seed)
    assert len(set(reached)) > 8
