"""Several ranks that learn together: equal parameters, decisions made alike, one voice, a rank that dies."""

from __future__ import annotations

import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rank_runs import SMALL, config_of, train

from agents.neural.checkpoint import KINDS, read_checkpoint
from experiments.training.learner import Learner
from experiments.training.ranks import Ranks, place
from experiments.training.run import Run

ROOT = Path(__file__).parents[3]
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="a PyTorch without torch.distributed")


def ended(command: list[str]) -> tuple[int, str, str]:
    """A command's exit code, standard output and standard error."""
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=1800)
    return done.returncode, done.stdout, done.stderr


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def equal(one: Any, other: Any) -> bool:
    """Whether two states are the same, bit by bit."""
    if isinstance(one, torch.Tensor):
        return one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return bool(one == other)


# --- One process --------------------------------------------------------------------------------------------


def test_one_process_is_all_there_is() -> None:
    ranks = Ranks()
    assert ranks.first
    assert ranks.share(7) == range(7)
    assert ranks.total([1.5, 2]) == [1.5, 2]
    assert [ranks.any(flag) for flag in (False, True)] == [False, True]
    assert [ranks.steps(*one) for one in ((0, 8), (1, 8), (8, 8), (9, 8))] == [0, 1, 1, 2]
    with pytest.raises(KeyError), ranks.together():
        raise KeyError
    assert ranks.device("cpu") == torch.device("cpu")


def test_shares_are_all_there_is_and_even() -> None:
    for size in (1, 2, 3, 7):
        for items in (0, 1, 6, 7, 4096):
            shares = []
            for rank in range(size):
                ranks = Ranks()
                ranks.rank, ranks.size = rank, size
                shares.append(ranks.share(items))
            assert [item for share in shares for item in share] == list(range(items))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize(
    ("named", "local_rank", "local_size", "gpus", "where", "own"),
    [
        ("cpu", 1, 2, 0, "cpu", False),
        ("cuda", 1, 2, 2, "cuda:1", True),
        ("cuda", 0, 1, 8, "cuda:0", True),
        ("cuda", 3, 4, 2, "cuda:1", False),  # two ranks a GPU
        ("cuda:1", 0, 2, 4, "cuda:1", False),  # the one that was named, for both
        ("cuda:1", 0, 1, 4, "cuda:1", True),
    ],
)
def test_where_a_rank_learns(named: str, local_rank: int, local_size: int, gpus: int, where: str, own: bool) -> None:
    assert place(torch.device(named), local_rank, local_size, gpus) == (torch.device(where), own)


# --- Two ranks ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """The folder of rank_runs.py, and what each of two ranks has seen."""
    folder = tmp_path_factory.mktemp("two")
    code, _, errors = ended([*TORCHRUN, str(ROOT / "tests" / "rank_runs.py"), str(folder)])
    assert code == 0, errors
    return folder, [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


def test_what_ranks_tell_each_other(two: tuple[Path, list[dict[str, Any]]]) -> None:
    for found in two[1]:
        told = found["messages"]
        assert told["total"] == [2.0, 1.0]
        assert told["first"] == "rank 0"
        assert told["even"] == [1.0, 1.0, 0.0]
        assert told["uneven"] == [1.0, 0.5, 0.0]  # weights 3 and 1
        assert told["one has none"] == [5.0, 1.0, 0.0]
        assert told["nobody has any"] == [0.0, 0.0, 0.0]
        assert told["steps"] == [5, 2, 0]
        assert told["any"] == [False, True]
        assert told["said [0, 1]"] == "a mistake on 0"
        assert told["said [1]"] == "rank 1: a mistake on 1"
        assert told["said []"] == "nothing"


@pytest.mark.parametrize(
    "name",
    ["dmc", "espg", "ppo", "nfsp", "distill", "dmc whole", "espg whole", "none", "minutes", "interrupted", "resumed"],
)
def test_ranks_learn_the_same(name: str, two: tuple[Path, list[dict[str, Any]]]) -> None:
    """Weights, their averages and the optimisers' states, bit by bit."""
    folder, (first, second) = two
    assert first[name]["iterations"] > 1
    assert equal(first[name], second[name])
    content = read_checkpoint(folder / name)  # which the first has written
    assert equal(content["training"]["learner"], first[name]["state"])
    untrained = Run(config_of(name, folder / "untrained"))._learner.state()
    assert not equal(untrained["play"]["weights"], first[name]["state"]["play"]["weights"])


@pytest.mark.parametrize("name", ["dmc whole", "espg whole"])
def test_two_ranks_do_what_one_process_does(name: str, two: tuple[Path, list[dict[str, Any]]], tmp_path: Path) -> None:
    """With one batch an iteration, since otherwise the batches are put together in another way."""
    folder, (found, _) = two
    alone = train(name, tmp_path)
    assert alone["decisions"] == found[name]["decisions"]
    untrained = Run(config_of(name, tmp_path / "untrained"))._learner.state()
    for kind in KINDS:
        moved = apart = 0.0
        for weight, value in alone["state"][kind]["weights"].items():
            moved = max(moved, float((value - untrained[kind]["weights"][weight]).abs().max()))
            apart = max(apart, float((value - found[name]["state"][kind]["weights"][weight]).abs().max()))
        assert moved > 5e-4
        assert apart < 1e-4 * moved
    for one, other in zip(rows_of(tmp_path / name), rows_of(folder / name), strict=True):
        for column in ("iteration", "games", "decisions", "lr", *(["visited"] if name == "espg whole" else [])):
            assert one[column] == other[column]
        assert float(one["loss_discard"]) == pytest.approx(float(other["loss_discard"]), rel=0.01)


@pytest.mark.slow
def test_learning_curves_are_alike(tmp_path: Path) -> None:
    """The batches are put together in another way, so that weights differ; what they are good for does not."""
    curves = []
    for launcher in ([sys.executable], TORCHRUN):
        run = tmp_path / str(len(curves))
        config = config_of(
            "curve",
            tmp_path,
            collect={"games": 1024},
            network={"discard_hidden": [32, 32], "play_hidden": [32, 32]},
            learner={"batch_size": 256, "subtract_luck": True},
            budget={"decisions": 200_000},
            evaluation={"opponents": ["greedy"], "final_games": 4000},
            threads=1,
        )
        (tmp_path / "curve.yaml").write_text(json.dumps(config.model_dump(mode="json")))
        command = ["-m", "experiments.training", str(tmp_path / "curve.yaml"), "--output", str(run)]
        code, _, errors = ended([*launcher, *command])
        assert code == 0, errors
        curves.append(rows_of(run))
    assert len(curves[0]) == len(curves[1])
    for column in ("loss_discard", "loss_play"):
        alone, together = ([float(row[column]) for row in rows] for rows in curves)
        assert together[-1] < 0.95 * together[0]
        assert together[5:] == pytest.approx(alone[5:], rel=0.1)
    alone, together = (float(rows[-1]["greedy: win rate"]) for rows in curves)
    assert together == pytest.approx(alone, abs=0.05)


def test_the_clock_of_the_first_counts(two: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, (first, second) = two
    assert first["minutes"]["progress"] == second["minutes"]["progress"]
    seconds = [float(row["training_seconds"]) for row in rows_of(folder / "minutes")]
    assert first["minutes"]["progress"][1:] == pytest.approx([one / 1.2 for one in seconds[:-1]], rel=1e-4)
    assert seconds[-1] >= 1.2


def test_an_interrupt_of_one_rank_stops_all(two: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, every = two
    for found in every:
        assert not found["interrupted"]["done"]
        assert found["interrupted"]["iterations"] == 2
        assert found["resumed"]["done"]
    assert [row["iteration"] for row in rows_of(folder / "resumed")] == ["1", "2", "3", "4"]
    sessions = json.loads((folder / "resumed" / "sessions.json").read_text())
    assert [one["ranks"] for one in sessions] == [2, 2]


def test_a_resumed_run_of_two_ranks_ends_where_an_unbroken_one_does(two: tuple[Path, list[dict[str, Any]]]) -> None:
    for found in two[1]:
        assert equal(found["resumed"], found["unbroken"])


def test_what_is_wrong_on_the_first_is_raised_on_all(two: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, every = two
    for found in every:
        assert found["few"].startswith("collect.games must be at least the number of ranks (2), so that each has an")
        assert found["no such run"].startswith(f"there is no run to resume in '{folder}/none at all'")
    assert not (folder / "none at all").exists()


def test_what_is_no_number_on_one_rank_stops_all(two: tuple[Path, list[dict[str, Any]]]) -> None:
    for found in two[1]:
        assert found["not finite"]["said"].startswith("loss_play became nan in iteration 2: training is stopped")


# --- The command --------------------------------------------------------------------------------------------


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(SMALL))
    return path


def start_ranks(*arguments: str) -> list[subprocess.Popen[str]]:
    """Two ranks as ``torchrun`` starts them, without it: it would not tell their exit codes from its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    addresses = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    return [
        subprocess.Popen(
            [sys.executable, "-m", "experiments.training", *arguments],
            env=ENVIRONMENT | addresses | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]


def both_ended(processes: list[subprocess.Popen[str]]) -> tuple[list[int], str, str]:
    """Their exit codes, and all of their standard output and standard error."""
    try:
        said = [process.communicate(timeout=120) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [process.returncode for process in processes], said[0][0] + said[1][0], said[0][1] + said[1][1]


@pytest.mark.parametrize("wrong", ["folder", "option"])
def test_what_is_wrong_is_said_once(wrong: str, config_file: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ("checkpoint.pt" if wrong == "folder" else "old.tmp")).touch()
    arguments, message = {
        "folder": ([], f"there is a run in '{tmp_path}/run': go on with it (--resume), replace it (--overwrite), or"),
        "option": (["--fast"], "unrecognized arguments: --fast"),
    }[wrong]
    codes, printed, errors = both_ended(start_ranks(str(config_file), "--output", str(tmp_path / "run"), *arguments))
    assert codes == [2, 2]
    assert printed == ""
    lines = [line for line in errors.splitlines() if not line.startswith("Compiling")]
    assert len(lines) == 1, errors
    assert lines[0].startswith("error: ")
    assert message in lines[0]


def wait_for_rows(folder: Path, rows: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 180
    while not ((folder / "metrics.csv").exists() and len(rows_of(folder)) >= rows):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ranks_of(torchrun: int) -> dict[int, int]:
    """The processes that a ``torchrun`` has started, by rank."""
    found = {}
    for child in Path(f"/proc/{torchrun}/task/{torchrun}/children").read_text().split():
        rank = re.search(rb"(?:^|\0)RANK=(\d+)", Path(f"/proc/{child}/environ").read_bytes())
        if rank is not None:
            found[int(rank[1])] = int(child)
    return found


@pytest.mark.skipif(not Path(f"/proc/self/task/{os.getpid()}/children").exists(), reason="no /proc to find ranks in")
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_a_dead_rank_ends_the_run_and_one_process_goes_on(victim: int, config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command = ["-m", "experiments.training", str(config_file), "--output", str(run)]
    long = ["budget.decisions=1000000", "checkpoint.every=1"]
    process = subprocess.Popen([*TORCHRUN, *command, *long], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    wait_for_rows(run, 3, process)
    os.kill(ranks_of(process.pid)[victim], signal.SIGKILL)
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    ours = [line for line in errors.splitlines() if line.startswith("error: ")]
    assert len(ours) == 1, errors
    assert f"rank {1 - victim} " in ours[0]
    assert ours[0].endswith("go on with --resume")
    assert errors.count("Traceback") <= 1  # torchrun's own, of which ranks have failed
    assert "experiments/" not in errors.partition("Traceback")[2]
    iteration = read_checkpoint(run)["training"]["iteration"]
    assert iteration >= 2
    if victim == 0:
        return  # the same from here on
    resumed = subprocess.Popen(
        [sys.executable, *command, *long, "--resume"], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
    )
    wait_for_rows(run, iteration + 2, resumed)
    resumed.send_signal(signal.SIGINT)
    _, errors = resumed.communicate(timeout=60)
    assert resumed.returncode == 130, errors
    assert [row["iteration"] for row in rows_of(run)][:4] == ["1", "2", "3", "4"]


def test_ctrl_c_ends_all_ranks_after_a_checkpoint(config_file: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    processes = start_ranks(str(config_file), "--output", str(run), "budget.decisions=1000000")
    wait_for_rows(run, 3, processes[0])
    for process in processes:
        process.send_signal(signal.SIGINT)
    codes, _, errors = both_ended(processes)
    assert codes == [130, 130]
    lines = [line for line in errors.splitlines() if line and not line.startswith("Compiling")]
    assert [line for line in lines if "decisions:" not in line] == [
        "stopping after this step (Ctrl-C again: at once)",
        f"a checkpoint is in {run}; the same command with --resume goes on",
        "interrupted",
    ]
    assert read_checkpoint(run)["training"]["iteration"] == len(rows_of(run))


def test_the_weight_of_a_step_says_nothing_to_one_process(tmp_path: Path) -> None:
    states = []
    for weight in (1.0, 1000.0):
        learner: Learner = Run(config_of("dmc", tmp_path / str(weight)))._learner
        one = learner.trained["play"]
        scores = sum((parameter.square().sum() for parameter in one.network.parameters()), torch.zeros(()))
        one.step(scores, None, 1e-3, weight)
        states.append(one.state())
    assert equal(*states)
