"""What ``cribbage train`` refuses: configs, folders, checkpoints; and what stops a run without losing it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import write_sample
from training_samples import ESPG, refused, rows_of, small_data, write_config

from agents.neural.checkpoint import CHECKPOINT, checkpoint_bytes, read_checkpoint
from experiments import cli
from experiments.training import dmc, espg
from experiments.training import run as run_module


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    return write_config(tmp_path / "small.yaml", small_data(evaluation={"opponents": []}))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learner.rate=1", "unknown key 'learner.rate'"),
        ("colect.games=3", "unknown key 'colect'; did you mean 'collect'?"),
        ("learner.lr=fast", "learner.lr: "),
        ("learner.lr=0", "learner.lr: "),
        ("learner.lr=.nan", "learner.lr: "),
        ("learner.lr=.inf", "learner.lr: "),
        ("learner.lr_end=0.5", "learner: lr_end must be at most lr (0.003), got 0.5"),
        ("learner.batch_size=0", "learner.batch_size: "),
        ("learner.passes=0", "learner.passes: "),
        ("learner.algorithm=sarsa", "learner.algorithm: must be one of 'dmc', 'espg', "),
        ("learner.algorithm=espg", "unknown key 'learner.subtract_luck'"),
        ("learner=dmc", "learner: must be a mapping with keys of "),
        ("collect.games=1.5", "collect.games: "),
        ("collect.games=-1", "collect.games: "),
        ("collect.epsilon=1.1", "collect.epsilon: "),
        ("collect.episode=hand", "collect.episode: "),
        ("collect.episode=game", "learner.subtract_luck needs collect.episode: deal"),
        ("network.scores=true", "network.scores needs collect.episode: game or collect.positions: played"),
        ("network.play_hidden=[8]", "network.play_hidden: "),
        ("network.play_hidden=[8, 513]", "network.play_hidden.1: "),
        ("opponents.agents={rondom: 0.5}", "opponents.agents: unknown agent 'rondom'; did you mean 'random'?"),
        ("opponents.agents={random: 1.5}", "opponents.agents.random: "),
        ("opponents.pool={share: 0.5, folder: none}", "opponents.pool.folder 'none': there is no such folder"),
        ("collect={reward: win, board: nope.npz}", "collect.board: no board table 'nope.npz'"),
        ("opponents.pool={folder: none}", "opponents.pool: folder needs a share above 0"),
        ("learner.temperature=1e-7", "learner.temperature: must be 0 or at least 1e-06"),
        ("budget.decisions=null", "budget: set decisions or minutes"),
        ("budget.decisions=0", "budget.decisions: "),
        ("budget.decisions=1e6", "budget.decisions: "),
        ("budget.minutes=-1", "budget.minutes: "),
        ("evaluation.games=7", "evaluation.games: an even number is needed"),
        ("evaluation.opponents=[random, random]", "evaluation.opponents: each opponent once"),
        ("evaluation.opponents=[rondom]", "evaluation.opponents: unknown agent 'rondom'; did you mean 'random'?"),
        ("evaluation.opponents=[no/such.pt]", "evaluation.opponents: no checkpoint 'no/such.pt'"),
        ("evaluation.best=greedy", "evaluation: best must be one of what is evaluated"),
        ("evaluation.exploitability={prior: rondom}", "evaluation.exploitability.prior: unknown agent 'rondom'"),
        ("network.start=no/such.pt", "network.start: no checkpoint 'no/such.pt'"),
        ("modules=[no_such_module]", "modules: can't import the module 'no_such_module'"),
        ("checkpoint.keep=-1", "checkpoint.keep: "),
        ("threads=0", "threads: "),
        ("device=abacus", "device must be auto, cpu or cuda"),
        ("rules.target=1", "target must lie between 2 and 200, got 1"),
        ("name=../x", "name: "),
        ("seed=-1", "seed: "),
    ],
)
def test_bad_configs(
    override: str, message: str, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, str(config_file), override, "--output", str(tmp_path / "run"))
    assert message in said
    assert not (tmp_path / "run").exists()


def test_a_board_that_is_not_there(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wins = ["collect.reward=win", "learner.subtract_luck=false", "collect.board=none.npz"]
    for learner in ("dmc", "espg"):
        overrides = [*wins, "learner={algorithm: espg}"] if learner == "espg" else wins
        said = refused(capsys, str(config_file), *overrides, "--output", str(tmp_path / "run"))
        assert "no board table 'none.npz'; `cribbage analyse board SPEC` makes one" in said


def test_a_missing_config(tmp_path: Path, config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "(there are small.yaml)" in refused(capsys, str(tmp_path / "smal.yaml"))
    config_file.write_text("seed: 1\n")
    assert "the key 'budget' is missing" in refused(capsys, str(config_file))


def test_folders_that_a_run_cannot_have(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(config_file), "--output"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for option in ([], ["--overwrite"]):
        assert "has 'letter.txt' in it" in refused(capsys, *command, str(tmp_path / "other"), *option)
    assert (tmp_path / "other" / "letter.txt").read_text() == "dear"
    inside_a_file = str(config_file / "run")
    assert f"can't write to the output folder '{inside_a_file}'" in refused(capsys, *command, inside_a_file)
    assert "there is no run to resume in" in refused(capsys, *command, str(tmp_path / "none"), "--resume")
    assert not (tmp_path / "none").exists()
    assert cli.main(["train", *command, str(tmp_path / "run")]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert "(--resume), replace it (--overwrite)" in refused(capsys, *command, str(tmp_path / "run"))
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", *command, str(tmp_path / "run"), "--resume", "--overwrite"])
    assert caught.value.code == 2


def test_what_resume_refuses(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(config_file), "--output", str(tmp_path / "run")]
    assert cli.main(["train", *command]) == 0
    newest = tmp_path / "run" / CHECKPOINT
    whole = newest.read_bytes()
    for overrides, message in {
        ("learner.lr=1e-3",): "was started with another config: learner.lr was 0.003, now 0.001",
        ("--seed", "9"): "seed was 3, now 9",
        ("network.play_hidden=[32, 8]",): "network.play_hidden was [16, 8], now [32, 8]",
        ("learner={algorithm: espg, batch_size: 128}",): "learner.algorithm was 'dmc', now 'espg'",
        ("opponents.agents={random: 0.5}",): "opponents.agents.random was None, now 0.5",
    }.items():
        assert message in refused(capsys, *command, *overrides, "--resume")
        assert newest.read_bytes() == whole
    newest.write_bytes(whole[:-100])
    assert "is not a whole checkpoint" in refused(capsys, *command, "--resume")
    write_sample(newest)
    assert "has no whole state of training ('training'); it plays, but can't go on" in refused(
        capsys, *command, "--resume"
    )
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(kept[0].read_bytes())  # the way out that the message names
    assert cli.main(["train", *command, "--resume"]) == 0
    assert newest.read_bytes() == whole


@pytest.mark.parametrize("algorithm", ["dmc", "espg"])
def test_a_checkpoint_whose_state_of_training_is_of_something_else(
    algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by hand: the config fits, the networks and optimisers don't."""
    data = small_data(evaluation={"opponents": []}, budget={"decisions": 1000})
    if algorithm == "espg":
        data["learner"] = ESPG
    command = [str(write_config(tmp_path / "small.yaml", data)), "--output", str(tmp_path / "run")]
    assert cli.main(["train", *command]) == 0
    newest = tmp_path / "run" / CHECKPOINT
    whole = newest.read_bytes()

    def spoilt(change: Any) -> str:
        newest.write_bytes(whole)
        content = read_checkpoint(newest)
        change(content["training"])
        newest.write_bytes(checkpoint_bytes(content))
        return refused(capsys, *command, "--resume")

    def other_shape(training: dict[str, Any]) -> None:
        training["learner"]["play"]["weights"]["out_weight"] = torch.zeros(9)

    def other_network(training: dict[str, Any]) -> None:
        training["learner"]["critic"] = training["learner"].pop("play")

    def other_optimiser(training: dict[str, Any]) -> None:
        training["learner"]["discard"]["optimiser"]["out_weight"]["exp_avg"] = torch.zeros(3)

    state = "has no whole state of training ("
    assert f"{state}the weights of the play network are of another shape); it plays, but can't go" in spoilt(
        other_shape
    )
    assert f"{state}there is no network 'play' in it)" in spoilt(other_network)
    assert f"{state}the optimiser's exp_avg of out_weight of the discard network)" in spoilt(other_optimiser)
    assert f"{state}'iteration')" in spoilt(lambda training: training.pop("iteration"))
    newest.write_bytes(checkpoint_bytes(read_checkpoint(_written(newest, whole)) | {"features_version": 1}))
    assert "has features_version 1, this version of cribbage-lab has" in refused(capsys, *command, "--resume")


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("algorithm", ["dmc", "espg"])
def test_a_loss_that_is_no_number_stops_the_run(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, before the weights are touched; what was written before plays on."""
    data = small_data(evaluation={"opponents": []}, checkpoint={"every": 1})
    calls = 0
    if algorithm == "espg":
        data["learner"] = ESPG
        gradients = espg.logit_gradients

        def spoilt_gradients(*arguments: Any) -> None:
            nonlocal calls
            calls += 1
            gradients(*arguments)
            if calls >= 12:
                arguments[6][3] = np.nan

        monkeypatch.setattr(espg, "logit_gradients", spoilt_gradients)
        message = "the gradient of the play network became nan in iteration "
    else:
        regression = dmc.value_regression

        def spoilt_returns(learner: Any, name: str, features: Any, known: Any, returns: Any, *rest: Any) -> float:
            nonlocal calls
            calls += 1
            if calls >= 5:  # in the third iteration
                returns[5] = np.inf
            return regression(learner, name, features, known, returns, *rest)

        monkeypatch.setattr(dmc, "value_regression", spoilt_returns)
        message = "network became nan in iteration 3"
    config = write_config(tmp_path / "small.yaml", data)
    said = refused(capsys, str(config), "--output", str(tmp_path / "run"))
    assert message in said
    assert "lower learner.lr (now 0.003)" in said
    content = read_checkpoint(tmp_path / "run")  # which refuses weights that are not finite
    done = content["training"]["iteration"]
    assert done >= 1
    assert len(rows_of(tmp_path / "run")) == done
    monkeypatch.undo()
    assert cli.main(["train", str(config), "--output", str(tmp_path / "run"), "--resume"]) == 0


def test_a_figure_that_is_no_number_stops_the_run(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    iterate = dmc.DmcLearner.iterate

    def spoilt(self: Any, iteration: int, *rest: Any) -> dict[str, float]:
        figures = iterate(self, iteration, *rest)
        return figures | {"loss_play": float("nan")} if iteration == 1 else figures

    monkeypatch.setattr(dmc.DmcLearner, "iterate", spoilt)
    said = refused(capsys, str(config_file), "--output", str(tmp_path / "run"), "checkpoint.every=1")
    assert "loss_play became nan in iteration 2" in said
    assert read_checkpoint(tmp_path / "run")["training"]["iteration"] == 1


@pytest.mark.parametrize("which", ["checkpoint.pt", "metrics"])
def test_a_disk_that_is_full_leaves_what_was_whole(
    which: str, config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write = run_module.write_whole

    def full(path: Path, data: bytes) -> None:
        if path.name == which and path.exists():
            raise OSError(28, "No space left on device")
        write(path, data)

    def full_row(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    if which == "metrics":
        monkeypatch.setattr(run_module.Metrics, "write", full_row)
    else:
        monkeypatch.setattr(run_module, "write_whole", full)
    said = refused(capsys, str(config_file), "--output", str(tmp_path / "run"))
    assert "No space left on device; what was written before is whole" in said
    assert read_checkpoint(tmp_path / "run")["training"]["iteration"] == 0
    monkeypatch.undo()
    assert cli.main(["train", str(config_file), "--output", str(tmp_path / "run"), "--resume"]) == 0
