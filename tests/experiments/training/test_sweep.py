"""Sweeps: what is swept, the runs and their folders, what comes out, going on, and what is refused."""

from __future__ import annotations

import csv
import json
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agents import make_agent
from agents.neural.checkpoint import read_checkpoint
from experiments import cli
from experiments.training.dmc import DmcLearner
from experiments.training.learner import Figures
from experiments.training.sweep import parse_sweep
from experiments.training.sweep_results import rows_of, t_interval

SMALL: dict[str, Any] = {
    "name": "small",
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 32},
    "network": {"discard_hidden": [4, 4], "play_hidden": [4, 4]},
    "learner": {"batch_size": 128},
    "budget": {"decisions": 400},  # two iterations
    "evaluation": {"opponents": ["random"], "games": 10, "final_games": 20},
}


@pytest.fixture
def config_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The small config, in the folder where runs/ will be."""
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(json.dumps(SMALL))
    return "small.yaml"


def table_of(folder: str = "runs/small") -> list[dict[str, str]]:
    with Path(folder, "sweep.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def last_row(folder: str) -> dict[str, str]:
    with Path("runs/small", folder, "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))[-1]


def in_iteration(
    monkeypatch: pytest.MonkeyPatch, do: Callable[[DmcLearner, Figures], object], iteration_of: int = 0
) -> None:
    """Let something happen in an iteration of every run."""
    iterate = DmcLearner.iterate

    def disturbed(self: DmcLearner, iteration: int, progress: float, pool: ThreadPoolExecutor) -> Figures:
        figures = iterate(self, iteration, progress, pool)
        if iteration == iteration_of:
            do(self, figures)
        return figures

    monkeypatch.setattr(DmcLearner, "iterate", disturbed)


# --- What is swept ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("seed=0..2", ["0", "1", "2"]),
        ("seed=-1..1,7", ["-1", "0", "1", "7"]),
        ("seed=5..5", ["5"]),
        ("learner.lr=1e-3, 3e-4", ["1e-3", "3e-4"]),
        ("network.play_hidden=[8, 8],[16, 8]", ["[8, 8]", "[16, 8]"]),
        ("opponents.agents={random: 0.1, greedy: 0.1},{}", ["{random: 0.1, greedy: 0.1}", "{}"]),
        ("evaluation.opponents=['a,b'],[c]", ["['a,b']", "[c]"]),
        ("opponents.pool.folder=../pool,x", ["../pool", "x"]),
    ],
)
def test_values(text: str, values: list[str]) -> None:
    (one,) = parse_sweep([text])
    assert one.key == text.partition("=")[0]
    assert list(one.values) == values


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        (["learner.rate=1,2"], "unknown key 'learner.rate'"),
        (["lrr=1,2"], "--sweep: unknown key 'lrr'; did you mean 'lr'?"),
        (["games=10,20"], "--sweep games: say which, collect.games or evaluation.games"),
        (["lr="], "--sweep lr=: there are no values; write some, such as lr=1,2"),
        (["lr=1e-3,,3e-4"], "there is an empty value between the commas"),
        (["lr"], "a sweep looks like key=value,value or key=0..4, got 'lr'"),
        (["seed=0.5..2"], "a range goes from a whole number to another, such as 0..4, got '0.5..2'"),
        (["seed=a..c"], "a range goes from a whole number to another, such as 0..4, got 'a..c'"),
        (["seed=3..1"], "the range 3..1 is empty, its first number must not be above its last"),
        (["seed=0..1000000000000"], "at most 10,000 values are allowed, got 1,000,000,000,001"),
        (["seed=0..200", "lr=1e-3,1e-4", "batch_size=1..30"], "the sweep has 12,060 runs, at most 10,000 are allowed"),
        (["seed=-1..1"], "seed: "),
        (["lr=1e-3,fast"], "learner.lr: "),
        (["lr=1e-3,1e-3"], "lr=1e-3 and lr=1e-3-"),
        (["lr=1e-3,0.001"], "lr=1e-3 and lr=0.001 are the same run; give each value once"),
        (["lr=1e-3", "learner.lr=1e-4"], "learner.lr and learner.lr can't be swept together"),
        (["learner={},{}", "lr=1e-4"], "learner and learner.lr can't be swept together"),
        (["lr=1e-3,1e-4", "seed=1,2", "--seed", "3"], "seed is overridden and swept"),
        (
            ["lr=1e-3,1e-4", "--overwrite", "learner.lr=3e-3"],
            "learner.lr is overridden and swept; leave one of them out",
        ),
        (["output=a,b"], "output can't be swept: it says where the whole sweep goes"),
        (["seed=1,2", "--jobs", "0"], "--jobs must be at least 1, got 0"),
        (["seed=1,2", "--resume"], "there is no sweep to resume in 'runs/small'; start it without --resume"),
        (["evaluation.opponents=[rondom],[random]"], "opponents=rondom: evaluation.opponents: unknown agent 'rondom'"),
    ],
)
def test_what_is_refused(sweep: list[str], message: str, config_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", config_file, "--sweep", *sweep]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("error: ")
    assert message in said
    assert not list(Path().glob("runs/small/*/checkpoint.pt"))
    if "rondom" not in message:
        assert not Path("runs").exists()


def test_what_belongs_to_sweeps_alone(
    config_file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli.main(["train", config_file, "--jobs", "2"]) == 2
    assert "--jobs is for --sweep" in capsys.readouterr().err
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    assert cli.main(["train", config_file, "--sweep", "seed=0..2"]) == 2
    assert "use it without torchrun" in capsys.readouterr().err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["train", "--help"])
    assert "--sweep learner.lr=1e-3,3e-4 seed=0..2" in " ".join(capsys.readouterr().out.split())


# --- What comes out -----------------------------------------------------------------------------------------


def test_the_interval_is_students() -> None:
    estimate = t_interval([0.5, 0.6, 0.7])
    half = 4.302653 * 0.1 / math.sqrt(3)  # the 97.5 % point with two degrees of freedom
    assert estimate == pytest.approx((0.6, 0.6 - half, 0.6 + half), abs=1e-6)
    alone = t_interval([0.5])
    assert alone.value == 0.5
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)
    assert t_interval([0.5, 0.5]) == (0.5, 0.5, 0.5)


def test_rows_are_of_everything_but_the_seed() -> None:
    runs = [
        ({"seed": seed, "lr": lr}, {"x: win rate": rate, "decisions": 10.0} if rate else None, not rate)
        for seed, lr, rate in (("0", "a", 0.9), ("0", "b", 0.5), ("1", "a", 1.0), ("1", "b", None))
    ]
    first, second = rows_of(runs)  # type: ignore[arg-type]
    assert (first.values, first.done, first.failed) == (("a",), 2, 0)
    assert first.figures["x: win rate"] == pytest.approx((0.95, 0.95 - 12.7062 * 0.05, 1.0), abs=1e-4)  # at most 1
    assert (second.values, second.done, second.failed) == (("b",), 1, 1)
    assert second.figures["x: win rate"].value == 0.5


def test_a_sweep(config_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", config_file, "collect.games=40", "--sweep", "lr=1e-3,3e-3", "seed=0..1"]
    assert cli.main(command) == 0
    printed = capsys.readouterr().out
    names = [f"lr={lr},seed={seed}" for lr in ("1e-3", "3e-3") for seed in (0, 1)]
    assert {path.name for path in Path("runs/small").iterdir()} == {*names, "sweep.csv", "sweep.json"}
    rows = table_of()
    assert [row["learner.lr"] for row in rows] == ["1e-3", "3e-3"]
    assert "seed" not in rows[0]
    for at, row in enumerate(rows):
        ends = [last_row(name) for name in names[2 * at : 2 * at + 2]]
        assert (row["runs"], row["failed"]) == ("2", "0")
        for column, scale in (("random: win rate", 1.0), ("decisions", 1.0), ("training_seconds", 1 / 60)):
            values = [float(end[column]) * scale for end in ends]
            name = "minutes" if column == "training_seconds" else column
            mean, half = sum(values) / 2, 12.7062 * abs(values[0] - values[1]) / 2
            assert float(row[name]) == pytest.approx(mean, rel=1e-5)
            stem = name.removesuffix(": win rate")
            low, high = max(mean - half, 0.0), min(mean + half, 1.0 if stem == "random" else math.inf)
            assert float(row[f"{stem}: low"]) == pytest.approx(low, rel=1e-4, abs=1e-4)
            assert float(row[f"{stem}: high"]) == pytest.approx(high, rel=1e-4, abs=1e-4)
    assert "run 4 of 4: learner.lr=3e-3 seed=1" in printed
    assert printed.count("lr    runs") == 4  # after every run
    assert "4 of 4 runs done; written: runs/small/sweep.csv" in printed
    assert "95 % t-intervals over seeds" in printed
    # each is a run as any other
    assert (
        cli.main(["train", config_file, "collect.games=40", "learner.lr=1e-3", "--seed", "1", "--output", "one"]) == 0
    )
    one, other = (read_checkpoint(folder) for folder in ("one", "runs/small/lr=1e-3,seed=1"))
    assert all((one["weights"]["play"][name] == value).all() for name, value in other["weights"]["play"].items())
    assert make_agent("runs/small/lr=1e-3,seed=1").name == "runs/small/lr=1e-3,seed=1"


def test_one_seed_has_no_interval(config_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", config_file, "--sweep", "network.play_hidden=[4, 4],[8, 4]", "--output", "there"]) == 0
    (first, second) = table_of("there")
    assert first["network.play_hidden"] == "[4, 4]"
    assert second["random: low"] == ""
    assert Path("there/play_hidden=8-4/checkpoint.pt").exists()
    printed = capsys.readouterr().out
    assert "one seed: no interval" in printed
    assert "t-interval" not in printed


def test_exploitability_is_in_the_table(config_file: str) -> None:
    overrides = ["collect.reduced={ranks: '45'}", "evaluation.exploitability={}", "evaluation.opponents=[]"]
    assert cli.main(["train", config_file, *overrides, "budget.decisions=50", "--sweep", "seed=1..2"]) == 0
    (row,) = table_of()
    ends = [float(last_row(f"seed={seed}")["exploitability"]) for seed in (1, 2)]
    assert float(row["exploitability"]) == pytest.approx(sum(ends) / 2, rel=1e-5)
    assert float(row["exploitability: low"]) <= float(row["exploitability"]) <= float(row["exploitability: high"])


# --- Going on -----------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a kill at a bad moment."""


def test_a_killed_sweep_goes_on(config_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ["train", config_file, "checkpoint.every=1", "--sweep", "seed=0..2"]
    assert cli.main([*command, "--output", "whole"]) == 0

    def kill(learner: DmcLearner, figures: Figures) -> None:
        if learner.config.seed == 1:
            raise Killed

    with monkeypatch.context() as patch:
        in_iteration(patch, kill, 1)
        with pytest.raises(Killed):
            cli.main(command)
    assert table_of()[0]["runs"] == "1"
    before = Path("runs/small/seed=0/metrics.csv").stat()
    assert cli.main([*command, "--resume"]) == 0
    after = Path("runs/small/seed=0/metrics.csv").stat()
    assert (before.st_mtime_ns, before.st_ino) == (after.st_mtime_ns, after.st_ino)
    sessions = [json.loads(Path(f"runs/small/seed={seed}/sessions.json").read_text()) for seed in range(3)]
    assert [len(those) for those in sessions] == [1, 2, 1]
    columns = [name for name in table_of()[0] if "minutes" not in name]
    assert [table_of()[0][name] for name in columns] == [table_of("whole")[0][name] for name in columns]
    # and with more of the same
    assert cli.main([*command[:-1], "seed=0..3", "--resume"]) == 0
    assert table_of()[0]["runs"] == "4"
    assert Path("runs/small/seed=0/metrics.csv").stat().st_mtime_ns == before.st_mtime_ns


def test_ctrl_c_keeps_what_was_done(
    config_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["train", config_file, "--sweep", "seed=0..2"]

    def interrupt(learner: DmcLearner, figures: Figures) -> None:
        if learner.config.seed == 1:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        in_iteration(patch, interrupt)
        assert cli.main(command) == 130
    printed = capsys.readouterr()
    assert "the same command with --resume goes on" in printed.err
    assert "1 of 3 runs done" in printed.out
    assert read_checkpoint("runs/small/seed=1")["training"]["iteration"] == 1
    assert not Path("runs/small/seed=2").exists()
    assert cli.main([*command, "--resume"]) == 0
    assert table_of()[0]["runs"] == "3"


def test_a_run_that_fails_does_not_end_the_others(
    config_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def spoil(learner: DmcLearner, figures: Figures) -> None:
        if learner.config.seed == 1:
            figures["loss_play"] = math.nan

    command = ["train", config_file, "--sweep", "seed=0..2"]
    with monkeypatch.context() as patch:
        in_iteration(patch, spoil)
        assert cli.main(command) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith(
        "error: 1 of 3 runs failed, the first of them seed=1: loss_play became nan in iteration 1"
    )
    (row,) = table_of()
    assert (row["runs"], row["failed"]) == ("2", "1")
    assert cli.main([*command, "--resume"]) == 0
    (row,) = table_of()
    assert (row["runs"], row["failed"]) == ("3", "0")


def test_the_folder_of_a_sweep(config_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", config_file, "--sweep"]

    def says(*arguments: str) -> str:
        capsys.readouterr()
        assert cli.main([*command, *arguments]) == 2
        return capsys.readouterr().err

    assert cli.main([*command, "seed=0..1"]) == 0
    before = {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    assert "there is a sweep in 'runs/small': go on with it (--resume)" in says("seed=0..1")
    assert "is one of seed, not of learner.lr; resume it with its own keys" in says("lr=1e-3", "--resume")
    assert "the run seed=0 in 'runs/small' was started with another config: collect.games was 32, now 40" in says(
        "seed=0..1", "--resume", "collect.games=40"
    )
    Path("runs/small/seed=1/letter.txt").write_text("dear")
    assert "has 'seed=1/letter.txt' in it, which is not of a sweep" in says("seed=0..1", "--overwrite")
    Path("runs/small/seed=1/letter.txt").unlink()
    assert before == {path: path.read_bytes() for path in Path("runs").rglob("*") if path.is_file()}
    assert cli.main([*command, "seed=5..5", "--overwrite"]) == 0
    assert {path.name for path in Path("runs/small").iterdir()} == {"seed=5", "sweep.csv", "sweep.json"}
    Path("runs/small/sweep.json").write_text("{")
    assert "is not the state of a sweep" in says("seed=5..5", "--resume")
    assert cli.main(["train", config_file, "--output", "run"]) == 0
    assert "which is not of a sweep" in says("seed=5..5", "--output", "run", "--overwrite")


@pytest.mark.slow
def test_several_runs_at_the_same_time(config_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Interrupted as soon as one of them is under way, then taken up again."""
    command = ["train", config_file, "budget.decisions=10_000", "--sweep", "seed=0..2"]
    assert cli.main([*command, "--output", "in turn"]) == 0
    ended = threading.Event()

    def interrupt() -> None:
        while not ended.is_set() and not list(Path("runs/small").glob("*/checkpoints")):
            time.sleep(0.02)
        if not ended.is_set():
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    try:
        assert cli.main([*command, "--jobs", "2"]) == 130
    finally:
        ended.set()
    printed = capsys.readouterr()
    assert "the same command with --resume goes on" in printed.err
    assert not Path("runs/small/seed=2").exists()
    assert list(Path("runs/small").glob("*/checkpoint.pt"))
    assert cli.main([*command, "--jobs", "2", "--resume"]) == 0, Path("runs/small/seed=0.log").read_text()
    columns = [name for name in table_of()[0] if "minutes" not in name]
    assert [table_of()[0][name] for name in columns] == [table_of("in turn")[0][name] for name in columns]
    assert "episodes of self-play" in Path("runs/small/seed=1.log").read_text()
    assert "3 of 3 runs done" in capsys.readouterr().out
