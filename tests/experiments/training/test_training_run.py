"""Runs: repeated, stopped and resumed to the same bytes; what is in their folders; budgets, evaluations, the best."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import write_sample
from training_samples import ESPG, ROOT, rows_of, same, small, small_data, untimed, write_config

from agents import make_agent
from agents.neural.checkpoint import read_checkpoint
from experiments.config import UserError, load_config
from experiments.tournament.statistics import Estimate
from experiments.train_config import TrainConfig
from experiments.training.dmc import DmcLearner
from experiments.training.espg import EspgLearner
from experiments.training.evaluation import Evaluation, Evaluator
from experiments.training.run import Run

QUICKSTART = ROOT / "configs" / "train" / "quickstart.yaml"
LEARNERS = {"dmc": DmcLearner, "espg": EspgLearner}


# --- The same again -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("learner", [{}, ESPG], ids=["dmc", "espg"])
def test_the_same_seed_gives_the_same_weights_whatever_the_threads(learner: dict[str, Any], tmp_path: Path) -> None:
    contents = []
    for number, threads in enumerate((1, 3)):
        config = small(
            learner=learner,
            threads=threads,
            output=str(tmp_path / f"{number}"),
            collect={"games": 1500},  # two parts
            evaluation={"opponents": []},
            budget={"decisions": 25_000},
        )
        assert Run(config).train()
        contents.append(read_checkpoint(tmp_path / f"{number}"))
    assert contents[0]["training"]["decisions"] >= 25_000
    assert contents[0]["training"]["iteration"] >= 2
    assert same(contents[0]["weights"], contents[1]["weights"])
    assert same(contents[0]["training"]["learner"], contents[1]["training"]["learner"])


def test_another_seed_gives_other_weights(tmp_path: Path) -> None:
    contents = []
    for seed in (3, 4):
        Run(small(seed=seed, output=str(tmp_path / str(seed)), evaluation={"opponents": []})).train()
        contents.append(read_checkpoint(tmp_path / str(seed)))
    assert not torch.equal(*(content["weights"]["play"]["embeddings"] for content in contents))


# --- Stopped and resumed ------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a kill at a bad moment."""


def kill_after(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    """Let the learner die in an iteration."""
    for learner in LEARNERS.values():

        def dying(self: Any, iteration: int, *rest: Any, iterate: Any = learner.iterate) -> dict[str, float]:
            if iteration == iterations:
                raise Killed
            found: dict[str, float] = iterate(self, iteration, *rest)
            return found

        monkeypatch.setattr(learner, "iterate", dying)


VARIANTS: dict[str, dict[str, Any]] = {
    "dmc": {},
    "dmc, average": {"learner": {"average": 0.9}},
    "dmc, best": {"evaluation": {"opponents": ["random", "greedy"], "every": 450, "best": "random"}},
    "dmc, opponents": {"opponents": {"agents": {"greedy": 0.3, "random": 0.2}}},
    "dmc, pool": {"opponents": {"pool": {"share": 0.5, "every": 400, "size": 2, "sampling": "prioritised"}}},
    "dmc, wins": {
        "collect": {"reward": "win", "positions": "played"},
        "network": {"scores": True},
        "learner": {"subtract_luck": False},
    },
    "espg": {"learner": ESPG, "budget": {"decisions": 2500}},
    "espg, average": {"learner": ESPG | {"average": 0.9, "passes": 2}, "budget": {"decisions": 2500}},
    "espg, best": {
        "learner": ESPG,
        "collect": {"reduced": {"ranks": "4567"}},
        "budget": {"decisions": 500},
        "evaluation": {"opponents": [], "exploitability": {"every": 150}, "best": "exploitability"},
        "checkpoint": {"every": 220},
    },
    "espg, opponents and pool": {
        "learner": ESPG,
        "budget": {"decisions": 2500},
        "opponents": {"agents": {"greedy": 0.3}, "pool": {"share": 0.3, "every": 600}},
    },
}


@pytest.mark.parametrize(
    ("variant", "iterations"),
    [("dmc", 0), ("dmc", 1), ("espg", 0), ("espg", 1), *((variant, 2) for variant in VARIANTS)],
)
def test_a_resumed_run_ends_with_the_bytes_of_an_unbroken_one(
    variant: str, iterations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(**VARIANTS[variant])
    for folder in ("whole", "broken"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert Run(config).train()
    monkeypatch.chdir(tmp_path / "broken")
    with monkeypatch.context() as patch:
        kill_after(patch, iterations)
        with pytest.raises(Killed):
            Run(config).train()
    with Path("runs/train/metrics.csv").open("a") as file:
        file.write("3,19")  # a row cut off by the kill
    assert Run(config, resume=True).train(["cribbage", "train"])
    whole, broken = tmp_path / "whole/runs/train", tmp_path / "broken/runs/train"
    names = sorted(path.relative_to(whole).as_posix() for path in whole.rglob("*.pt"))
    assert names == sorted(path.relative_to(broken).as_posix() for path in broken.rglob("*.pt"))
    for name in names:
        assert (whole / name).read_bytes() == (broken / name).read_bytes(), name
    assert untimed(rows_of(whole)) == untimed(rows_of(broken))
    count = read_checkpoint(whole)["training"]["iteration"]
    assert count > iterations
    assert [row["iteration"] for row in rows_of(broken)] == [str(number) for number in range(1, count + 1)]
    sessions = json.loads((broken / "sessions.json").read_text())
    assert sessions[0]["decisions"] == 0
    assert sessions[-1]["command"] == "cribbage train"
    assert ("best" in variant) == ("best.pt" in names)
    assert ("pool" in variant) == any(name.startswith("pool/") for name in names)


def test_a_resumed_run_may_have_another_number_of_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = [tmp_path / "whole", tmp_path / "broken"]
    assert Run(small(output=str(folders[0]))).train()
    with monkeypatch.context() as patch:
        kill_after(patch, 2)
        with pytest.raises(Killed):
            Run(small(output=str(folders[1]))).train()
    assert Run(small(output=str(folders[1]), threads=2), resume=True).train()
    contents = [read_checkpoint(folder) for folder in folders]
    assert same(contents[0]["weights"], contents[1]["weights"])


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize(
    ("learner", "stop"), [({}, signal.SIGINT), (ESPG, signal.SIGTERM)], ids=["dmc, Ctrl-C", "espg, told to end"]
)
def test_an_interrupt_saves_and_resume_goes_on(learner: dict[str, Any], stop: int, tmp_path: Path) -> None:
    data = small_data(
        learner=learner,
        budget={"decisions": 30_000},
        evaluation={"opponents": []},
        checkpoint={"every": 10_000_000},
    )
    config = write_config(tmp_path / "small.yaml", data)
    command = [sys.executable, "-m", "experiments.cli", "train", str(config), "--output", str(tmp_path / "run")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    metrics = tmp_path / "run" / "metrics.csv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (metrics.exists() and len(rows_of(tmp_path / "run")) >= 3):
        time.sleep(0.05)
    process.send_signal(stop)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "--resume goes on" in errors
    assert "Traceback" not in errors
    rows = rows_of(tmp_path / "run")
    assert read_checkpoint(tmp_path / "run")["training"]["iteration"] == int(rows[-1]["iteration"]) >= 3
    done = subprocess.run([*command, "--resume"], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert "decisions in" in done.stdout
    assert int(rows_of(tmp_path / "run")[-1]["decisions"]) >= 30_000


@pytest.mark.parametrize(
    ("error", "raised"), [(BrokenPipeError(), BrokenPipeError), (OSError(28, "No space left on device"), UserError)]
)
def test_nothing_is_lost_if_nobody_can_read_the_output(
    error: OSError, raised: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(evaluation={"opponents": ["random"], "every": 450}, checkpoint={"every": 10**9})

    def unreadable(*_: object) -> None:
        raise error

    folders = [tmp_path / name for name in ("whole", "broken")]
    for folder in folders:
        folder.mkdir()
        monkeypatch.chdir(folder)
        with monkeypatch.context() as patch:
            if folder.name == "broken":
                patch.setattr("experiments.training.run.tqdm.write", unreadable)
                with pytest.raises(raised) as caught:
                    Run(config).train()
                assert raised is BrokenPipeError or "standard output: No space left" in str(caught.value)
                (row,) = rows_of(folder / "runs" / "train")
                assert row["random: win rate"]
                assert read_checkpoint(folder / "runs" / "train")["training"]["iteration"] == 1
        if folder.name == "whole":
            assert Run(config).train()
    assert Run(config, resume=True).train()
    rows = [untimed(rows_of(folder / "runs" / "train")) for folder in folders]
    assert rows[0] == rows[1]


def test_an_interrupted_last_evaluation_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = small(output=str(tmp_path / "run"), evaluation={"opponents": ["random"], "every": None, "best": "random"})
    with monkeypatch.context() as patch:
        patch.setattr(Run, "_evaluate", lambda *_: {})  # as after Ctrl-C in it
        Run(config).train()
    before = rows_of(tmp_path / "run")
    assert not before[-1]["random: win rate"]
    assert Run(config, resume=True).train()
    after = rows_of(tmp_path / "run")
    assert 0 < float(after[-1]["random: low"]) < float(after[-1]["random: win rate"]) < 1
    assert [row | {"random: win rate": "", "random: low": "", "random: high": ""} for row in after] == before
    best = read_checkpoint(tmp_path / "run")["training"]["best"]
    assert best[1] == int(after[-1]["decisions"])
    (tmp_path / "run" / "best.pt").unlink()
    again = Run(config, resume=True)
    assert again.train()
    assert (tmp_path / "run" / "best.pt").exists()  # which the report says, too
    assert "best.pt" in again.report()


# --- The folder ---------------------------------------------------------------------------------------------


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"))
    run = Run(config)
    run.train(["cribbage", "train", "x.yaml"])
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.yaml", "sessions.json", "metrics.csv", "checkpoint.pt", "checkpoints"} < names
    assert not [name for name in names if name.endswith(".tmp")]
    assert load_config(tmp_path / "run" / "config.yaml", TrainConfig) == config
    session = json.loads((tmp_path / "run" / "sessions.json").read_text())[0]
    assert session["command"] == "cribbage train x.yaml"
    assert {"python", "torch", "cribbage-lab"} < set(session["made_with"])
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert len(kept) == 2
    content = read_checkpoint(tmp_path / "run")
    assert int(Path(kept[-1]).stem) == content["training"]["decisions"]
    assert content["choice"] == {"discard": 0.0, "play": 0.0, "least": 0.0}
    rows = rows_of(tmp_path / "run")
    evaluated = [row["iteration"] for row in rows if row["random: win rate"]]
    assert "4" in evaluated
    assert len(evaluated) == 2
    assert float(rows[-1]["random: low"]) < float(rows[-1]["random: win rate"]) <= float(rows[-1]["random: high"])
    assert float(rows[-1]["seconds"]) > float(rows[-1]["training_seconds"]) > 0
    assert "random      40" in run.report()
    assert make_agent(f"{tmp_path}/run/").name == f"{tmp_path}/run/"


@pytest.mark.parametrize("learner", [{}, ESPG], ids=["dmc", "espg"])
def test_tensorboard_has_the_figures_of_the_learner(learner: dict[str, Any], tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Run(small(learner=learner, output=str(tmp_path / "run"))).train()
    board = EventAccumulator(str(tmp_path / "run"))
    board.Reload()
    rows = rows_of(tmp_path / "run")
    columns = ["loss_discard", "explained_play"] if not learner else ["loss_discard", "entropy", "regret"]
    for column in columns:
        tag = next(tag for tag in board.Tags()["scalars"] if tag.endswith(f"/{column}"))
        scalars = board.Scalars(tag)
        assert [scalar.step for scalar in scalars] == [int(row["decisions"]) for row in rows]
        assert [scalar.value for scalar in scalars] == pytest.approx([float(row[column]) for row in rows], rel=1e-4)
    assert board.Scalars("evaluation/random")[-1].value == pytest.approx(float(rows[-1]["random: win rate"]), rel=1e-5)


def test_a_finished_run_only_evaluates(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"))
    Run(config).train()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes(), untimed(rows_of(tmp_path / "run"))
    run = Run(config, resume=True)
    assert run.train()
    assert run.evaluations[0].games == 40
    assert before == ((tmp_path / "run" / "checkpoint.pt").read_bytes(), untimed(rows_of(tmp_path / "run")))


def test_overwrite_leaves_nothing_of_the_old_run(tmp_path: Path) -> None:
    pool = {"share": 0.5, "every": 400}
    config = small(
        output=str(tmp_path / "run"),
        opponents={"pool": pool},
        evaluation={"opponents": ["random"], "best": "random", "final_games": 10},
    )
    Run(config).train()
    old = {path.name for path in (tmp_path / "run").iterdir() if path.name.startswith("events")}
    assert (tmp_path / "run" / "best.pt").exists()
    assert list((tmp_path / "run" / "pool").iterdir())
    (tmp_path / "run" / "checkpoints" / "000099999999.pt").write_bytes(b"old")
    config = small(output=str(tmp_path / "run"), evaluation={"opponents": []})
    Run(config, overwrite=True).train()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not names & (old | {"best.pt", "pool"})
    assert not (tmp_path / "run" / "checkpoints" / "000099999999.pt").exists()


# --- Budgets and evaluations --------------------------------------------------------------------------------


def test_time_can_be_the_budget(tmp_path: Path) -> None:
    config = small(
        output=str(tmp_path / "run"), budget={"decisions": None, "minutes": 0.02}, evaluation={"opponents": []}
    )
    assert Run(config).train()
    rows = rows_of(tmp_path / "run")
    assert float(rows[-1]["training_seconds"]) >= 1.2
    assert all(float(row["training_seconds"]) < 1.2 for row in rows[:-1])
    assert float(rows[0]["lr"]) > float(rows[-1]["lr"]) >= 0


def test_evaluations_take_nothing_from_a_budget_of_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also over a resumption: the run trains as long as one without them."""
    pause = 0.6

    def slow(self: Evaluator, *rest: Any) -> list[Evaluation]:
        time.sleep(pause)
        return [Evaluation("random", 2, Estimate(0.5, 0.4, 0.6))]

    monkeypatch.setattr(Evaluator, "matches", slow)
    config = small(
        output=str(tmp_path / "run"),
        budget={"decisions": None, "minutes": 0.02},
        evaluation={"opponents": ["random"], "every": 450},
        checkpoint={"every": 1},
    )
    with monkeypatch.context() as patch:
        kill_after(patch, 2)
        with pytest.raises(Killed):
            Run(config).train()
    assert len(rows_of(tmp_path / "run")) == 2
    assert Run(config, resume=True).train()
    rows = rows_of(tmp_path / "run")
    evaluations = sum(bool(row["random: win rate"]) for row in rows)
    assert evaluations >= 3
    assert all(float(row["training_seconds"]) < 1.2 for row in rows[:-1])
    spent = float(rows[-1]["seconds"]) - float(rows[-1]["training_seconds"])
    assert spent >= evaluations * pause * 0.99
    assert np.all(np.diff([float(row["training_seconds"]) for row in rows]) > 0)


@pytest.mark.parametrize("criterion", ["greedy", "exploitability"])
def test_the_best_checkpoint_is_kept(criterion: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With figures that are given: of win rates the highest that was confirmed, of exploitabilities the least."""
    rates = iter([0.3, 0.6, 0.5, 0.7])
    confirmed = iter([0.35, 0.62, 0.61])  # the third evaluation is no higher than the second: not confirmed
    exact = iter([0.5, 0.2, 0.4, 0.3])

    def estimate(value: float) -> Estimate:
        return Estimate(value, value - 0.1, value + 0.1)

    monkeypatch.setattr(Evaluator, "matches", lambda *_: [Evaluation("greedy", 20, estimate(next(rates)))])
    monkeypatch.setattr(Evaluator, "confirm", lambda *_: estimate(next(confirmed)))
    monkeypatch.setattr(Evaluator, "exploitability", lambda *_: next(exact))
    config = small(
        output=str(tmp_path / "run"),
        evaluation={
            "opponents": ["greedy"], "every": 1, "best": criterion, "exploitability": {"every": 1, "prior": "uniform"}
        },
        checkpoint={"every": 1, "keep": 4},
    )  # fmt: skip
    run = Run(config)
    assert run.train()
    rows = rows_of(tmp_path / "run")
    assert len(rows) == 4
    assert [float(row["exploitability"]) for row in rows] == [0.5, 0.2, 0.4, 0.3]
    assert not list(confirmed) or criterion != "greedy"
    best, second = read_checkpoint(tmp_path / "run" / "best.pt"), int(rows[1]["decisions"])
    assert best["training"]["decisions"] == second
    kept = read_checkpoint(tmp_path / "run" / "checkpoints" / f"{second:012}.pt")
    assert same(best["weights"], kept["weights"])
    assert f"best: {tmp_path}/run/best.pt, after {second:,} decisions" in run.report()
    figure = "62.0 % against greedy, on the deals that confirm" if criterion == "greedy" else "exploitability 0.2000"
    assert figure in run.report()


def test_evaluations_are_on_deals_of_their_own(tmp_path: Path) -> None:
    """Of the same deals for all checkpoints, and other ones to confirm the best."""
    config = small(evaluation={"opponents": ["random"], "games": 40, "final_games": 40, "best": "random"})
    evaluator = Evaluator(config, 1)
    agent = make_agent(str(write_sample(tmp_path / "x.pt")))

    class Inline:
        map = staticmethod(map)

    one, again = (evaluator.matches(agent, False, lambda: False, Inline()) for _ in range(2))  # type: ignore[arg-type]
    assert one == again
    confirmed = evaluator.confirm(agent, "random", lambda: False)
    assert confirmed == evaluator.confirm(agent, "random", lambda: False)
    assert confirmed != one[0].win_rate


# --- The quickstart -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_quickstart_beats_random_and_greedy(tmp_path: Path) -> None:
    config = load_config(QUICKSTART, TrainConfig, [f"output={json.dumps(str(tmp_path / 'run'))}"])
    run = Run(config)
    assert run.train()
    reached = {one.opponent: one for one in run.evaluations}
    assert min(one.games for one in reached.values()) >= 2000
    assert reached["random"].win_rate.low > 0.985
    assert reached["greedy"].win_rate.low > 0.64


def test_the_quickstart_is_a_config() -> None:
    config = load_config(QUICKSTART, TrainConfig)
    assert config.name == "quickstart"  # which the demo's tournament plays
    assert config.budget.decisions is not None
    assert config.budget.minutes is None  # a budget of decisions is repeatable
    with pytest.raises(UserError, match=r"unknown key 'learner\.x'"):
        load_config(QUICKSTART, TrainConfig, ["learner.x=1"])
