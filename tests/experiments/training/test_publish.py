"""The command ``cribbage publish``: what it writes, where, and what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from neural_samples import some_positions, write_sample
from training_samples import rows_of, small

from agents import make_agent
from agents.neural.checkpoint import read_checkpoint
from agents.neural.published import read_published
from experiments import cli
from experiments.training.publish import last_figures
from experiments.training.run import Run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run, with a best checkpoint."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert Run(small(name="tiny", output=str(folder), evaluation={"best": "random"})).train()
    return folder


def publish(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """The exit code, and what was said on standard output or, if it failed, on standard error."""
    capsys.readouterr()
    code = cli.main(["publish", *arguments])
    said = capsys.readouterr()
    return code, said.err if code else said.out


def test_a_run_is_published(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, said = publish(capsys, str(trained))
    assert code == 0
    assert f"written: tiny.safetensors, {Path('tiny.safetensors').stat().st_size / 1e6:.2f} MB" in said
    assert str(trained / "best.pt") in said
    content, best = read_published("tiny.safetensors"), read_checkpoint(trained / "best.pt")
    assert content["run"] == "tiny"
    assert content["config"] == best["training"]["config"] | {"output": None}
    assert content["network"] == best["network"]
    assert content["versions"] == best["versions"]
    decisions = best["training"]["decisions"]
    row = next(row for row in rows_of(trained) if int(row["decisions"]) == decisions)
    assert content["figures"]["decisions"] == content["figures"]["measured_after"] == decisions
    for name in ("random: win rate", "random: low", "random: high", "training_seconds"):
        assert content["figures"][name] == float(row[name])
    assert not any("loss" in name for name in content["figures"])
    observations, masks = some_positions(20, 6)
    agents = [make_agent("tiny.safetensors"), make_agent(str(trained / "best.pt"))]
    policies = [agent.policy(observations, masks) for agent in agents]
    assert (policies[0].argmax(axis=1) == policies[1].argmax(axis=1)).mean() > 0.95


def test_a_checkpoint_is_published_with_what_was_measured_up_to_it(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert publish(capsys, str(trained / "checkpoint.pt"), "--output", str(tmp_path / "new" / "x.safetensors"))[0] == 0
    figures = read_published(tmp_path / "new" / "x.safetensors")["figures"]
    rows = rows_of(trained)
    assert figures["measured_after"] == int(rows[-1]["decisions"])
    middle = next(int(row["decisions"]) for row in rows if row["random: win rate"])
    assert last_figures(trained / "checkpoints" / "0.pt", middle)["measured_after"] == middle
    assert last_figures(trained / "checkpoint.pt", middle - 1) == {}
    assert last_figures(tmp_path / "x.pt", 10) == {}
    shutil.copytree(trained, tmp_path / "copy")
    (tmp_path / "copy" / "best.pt").unlink()
    code, said = publish(capsys, str(tmp_path / "copy"), "--output", str(tmp_path / "y.safetensors"))
    assert code == 0
    assert "checkpoint.pt, after" in said
    assert (tmp_path / "y.safetensors").read_bytes() == (tmp_path / "new" / "x.safetensors").read_bytes()


def test_what_it_refuses(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*arguments: str) -> str:
        code, said = publish(capsys, *arguments)
        assert code == 2
        assert said.startswith("error: ")
        assert said.count("\n") == 1
        return said

    there = tmp_path / "x.safetensors"
    there.write_text("dear")
    assert "replace it with --overwrite" in refused(str(trained), "--output", str(there))
    assert there.read_text() == "dear"
    assert publish(capsys, str(trained), "--output", str(there), "--overwrite")[0] == 0
    assert read_published(there)["run"] == "tiny"
    assert "must end in .safetensors" in refused(str(trained), "--output", str(tmp_path / "x.pt"))
    assert "no checkpoint" in refused(str(tmp_path / "none.pt"))
    (tmp_path / "empty").mkdir()
    assert "no checkpoint" in refused(str(tmp_path / "empty"))
    assert "does not say which run it is from" in refused(str(write_sample(tmp_path / "sample.pt")))
    assert "can't write to" in refused(str(trained), "--output", str(there / "y.safetensors"))
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
