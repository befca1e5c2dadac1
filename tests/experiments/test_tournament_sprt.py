"""Matches that a sequential test ends."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.config import TournamentConfig, UserError, parse_config
from experiments.tournament.statistics import Sprt

CONFIG = """
agents: [greedy, expected, random]
games: 4000
seed: 3
luck: false
sprt: {elo0: 0, elo1: 40, check_every: 20}
"""


def summary_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "summary.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def play(tmp_path: Path, name: str, *arguments: str) -> Path:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    folder = tmp_path / name
    assert main(["tournament", str(config), "--output", str(folder), *arguments]) == 0
    return folder


def test_matches_end_at_the_look_that_decides_whatever_the_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = play(tmp_path, "one")
    out = capsys.readouterr().out
    assert "SPRT of H0: A wins 50.00 % (Elo +0.0), against H1: 55.73 % (Elo +40.0)" in out
    assert "biased" in out
    assert "accept H1" in out
    assert "accept H0" in out
    rows = summary_of(folder)
    test = Sprt.of_elo(0, 40, check_every=20)
    for row, decision in zip(rows, ("accept H0", "accept H1", "accept H1"), strict=True):
        counts = [int(row[key]) for key in ("pairs_a_won", "pairs_split", "pairs_b_won")]
        assert row["sprt"] == decision == test.state(counts).decision
        assert float(row["sprt_llr"]) == pytest.approx(test.state(counts).llr, abs=1e-6)
        assert sum(counts) % 20 == 0
        assert sum(counts) < 2000
        assert int(row["games"]) == 2 * sum(counts)
        stopped = [float(row[f"a_win_rate_stopped{end}"]) for end in ("", "_low", "_high")]
        assert stopped == pytest.approx(list(test.estimate(counts)), abs=1e-6)
    with (folder / "games.csv").open(encoding="utf-8") as file:
        assert sum(1 for _ in file) == 1 + sum(int(row["games"]) for row in rows)
    other = play(tmp_path, "other", "batch=7")
    assert (other / "games.csv").read_bytes() == (folder / "games.csv").read_bytes()
    assert (other / "summary.csv").read_bytes() == (folder / "summary.csv").read_bytes()
    before = (folder / "games.csv").read_bytes()  # and it is finished
    play(tmp_path, "one", "--resume")
    assert (folder / "games.csv").read_bytes() == before


def test_an_undecided_match_has_all_its_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = play(tmp_path, "short", "games=90")
    row = summary_of(folder)[0]
    assert row["games"] in ("80", "90")
    assert main(["evaluate", "expected", "expected", "--games", "30", "--sprt", "elo0=-1", "elo1=1", "--no-luck"]) == 0
    assert "undecided" in capsys.readouterr().out


def test_evaluate_takes_a_test(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["evaluate", "greedy", "random", "--no-luck", "--json", "--sprt"]
    assert main([*arguments, "rate0=0.5", "rate1=0.6", "alpha=0.01", "check_every=10"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["sprt"] == "accept H1"
    assert row["games"] < 200
    assert row["a_win_rate_stopped_low"] < row["a_win_rate_stopped"] <= row["a_win_rate_stopped_high"] <= 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["elo0=5", "elo1=0"], "elo0 < elo1"),
        (["elo0=5", "elo1=5"], "elo0 < elo1"),
        (["elo0=0"], "needs elo0 and elo1"),
        (["elo0=0", "rate1=0.6"], "needs elo0 and elo1"),
        (["elo0=0", "elo1=5", "rate0=0.5", "rate1=0.6"], "needs elo0 and elo1"),
        (["rate0=50", "rate1=51"], "0 < rate0"),
        (["elo0=0", "elo1=5", "alpha=0.5", "beta=0.5"], "alpha and beta"),
        (["elo0=0", "elo1=5", "alpha=-1"], "alpha and beta"),
        (["elo0=0", "elo1=5", "check_every=0"], "check_every"),
        (["elo0=0", "elo1=5", "check_every=1.5"], "check_every"),
        (["elo0=nan", "elo1=5"], "elo0"),
        (["elo0=zero", "elo1=5"], "elo0"),
        (["elo=0", "elo1=5"], "unknown key 'sprt.elo'"),
        (["elo0=0", "elo0=1", "elo1=5"], "each once"),
        (["5"], "key=value"),
    ],
)
def test_impossible_tests_are_refused_in_one_line(
    settings: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "greedy", "random", "--sprt", *settings]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("sprt", [3, [0, 5], {"elo0": 0, "elo1": "5 points"}, {}])
def test_a_section_that_is_none_is_refused(sprt: Any) -> None:
    with pytest.raises(UserError, match="sprt"):
        parse_config({"agents": ["greedy", "random"], "sprt": sprt}, TournamentConfig, "test")


def test_a_shard_has_no_whole_matches_to_stop() -> None:
    config = {"agents": ["greedy", "random"], "sprt": {"elo0": 0, "elo1": 5}, "shard": "1/2"}
    with pytest.raises(UserError, match="sprt looks at whole matches"):
        parse_config(config, TournamentConfig, "test")
