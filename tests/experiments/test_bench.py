"""``cribbage bench``: what it prints. How fast things are is for the command to say, not for a test."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from experiments import bench
from experiments.cli import main


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "NUM_ENVS", 32)
    monkeypatch.setattr(bench, "_VECTOR_STEPS", 150)
    monkeypatch.setattr(bench, "_SINGLE_STEPS", 300)
    monkeypatch.setattr(bench, "_LEAST_RUNS", 2)


def measured(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "--seconds", "0.001", *arguments]) == 0
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return report


def test_figures_and_targets(capsys: pytest.CaptureFixture[str]) -> None:
    report = measured(capsys, "--only", "engine", "single")
    assert set(report["figures"]) == {"random_games", "all_hands", "single_step"}
    for figure in report["figures"].values():
        assert 0 < figure["lowest"] <= figure["value"] <= figure["highest"]
        assert figure["runs"] >= 2
        assert figure["by_processor_time"] > 0
    targets = {line["figure"]: line for line in report["targets"]}
    assert set(targets) == set(bench.TARGETS)
    for name, line in targets.items():
        if name not in report["figures"]:
            assert line["met"] is None
        else:
            value = report["figures"][name]["value"]
            assert line["measured"] == value
            assert line["met"] == (value >= line["at_least"] if "at_least" in line else value <= line["at_most"])
    assert report["machine"]["cores"] >= 1
    assert report["made_with"]["numba"]


def test_open_spiel_beside_the_vector_environment(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyspiel", reason="needs the extra 'oracle'")
    report = measured(capsys, "--only", "vector")
    figures = report["figures"]
    assert {figures[name]["unit"] for name in figures if name != "openspiel"} == {"decisions/s"}
    assert set(report["ratios"]) == {
        f"{ours} / {theirs}"
        for ours in ("vector_step", "vector_step_copy")
        for theirs in ("openspiel_plain", "openspiel_masks")
    }
    assert 1.5 < figures["openspiel"]["actions_a_decision"] < 2.5
    assert figures["openspiel_masks"]["value"] < figures["openspiel_plain"]["value"]


def test_without_open_spiel(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspiel", None)  # importing it fails
    report = measured(capsys, "--only", "vector")
    assert report["figures"]["openspiel"] == bench.NO_ORACLE
    assert report["ratios"] == {}
    assert report["figures"]["vector_step"]["value"] > 0


def test_solo_beside_two_seats(capsys: pytest.CaptureFixture[str]) -> None:
    report = measured(capsys, "--only", "solo")
    assert set(report["figures"]) == {"solo_step", "solo_step_copy", "vector_step_beside"}
    assert {figure["unit"] for figure in report["figures"].values()} == {"decisions/s"}
    assert any(line["figure"] == "solo_step" and line["at_least"] == 1e6 for line in report["targets"])


def test_greedy_match_and_memory(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "_MATCH_PAIRS", 20)
    report = measured(capsys, "--only", "match", "memory", "--memory-games", "40")
    assert report["figures"]["greedy_match"]["unit"] == "games/s"
    assert 0.02 < report["figures"]["tournament_memory"]["value"] < 1
    assert report["figures"]["tournament_memory"]["games"] == 40


@pytest.mark.slow
def test_cold_and_warm_starts(capsys: pytest.CaptureFixture[str]) -> None:
    figures = measured(capsys, "--only", "start")["figures"]
    assert figures["cold_start"]["value"] > figures["warm_start"]["value"] > 0


def test_interrupted(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured before Ctrl-C is printed."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(bench, "measure_single", interrupt)
    assert main(["bench", "--seconds", "0.001", "--only", "engine", "single"]) == 130
    report = json.loads(capsys.readouterr().out)
    assert report["interrupted"]
    assert "all_hands" in report["figures"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seconds", "0"], "--seconds must be a number above 0, got 0.0"),
        (["--seconds", "nan"], "--seconds must be a number above 0"),
        (["--seed", "-1"], "--seed must lie between 0 and"),
        (["--memory-games", "3"], "--memory-games must be an even number from 2 on, got 3"),
    ],
)
def test_arguments_that_are_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    assert main(["bench", *arguments]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1
