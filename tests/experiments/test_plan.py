"""``cribbage plan``."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from experiments.cli import main
from experiments.plan import parse_rate, variance_of_file
from experiments.tournament.statistics import CLOSE_VARIANCE, pair_variance, pairs_needed

SUMMARY = "match,a,b,games,pairs_a_won,pairs_split,pairs_b_won\n1,greedy,random,400,150,48,2\n2,x,y,200,20,60,20\n"


def plan(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["plan", *arguments, "--json"]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    try:
        code = main(["plan", *arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("text", ["51", "51%", "51 %", "0.51", " 51.0 "])
def test_a_rate_may_be_percent_or_a_share(text: str) -> None:
    assert parse_rate(text) == pytest.approx(0.51)


@pytest.mark.parametrize("text", ["50", "0.5", "50%", "0", "0%", "1", "100", "101", "-3", "nan", "inf", "half", ""])
def test_rates_that_cannot_be_detected_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--detect" in refused(capsys, "--detect", text)


def test_it_says_pairs_games_and_time(capsys: pytest.CaptureFixture[str]) -> None:
    result = plan(capsys, "--detect", "51", "--games-per-second", "100")
    pairs = pairs_needed(0.51, CLOSE_VARIANCE)
    assert result["pairs"] == pairs == 3925
    assert result["games"] == 2 * pairs
    assert result["seconds"] == pytest.approx(2 * pairs / 100)
    assert result["games_without_duplicate_deals"] == 2 * pairs_needed(0.51, 0.125)
    test = result["sprt"]
    assert isinstance(test, dict)
    assert test["games_if_rate0"] < test["games_if_rate1"] < test["games_at_worst"] < result["games"]
    assert main(["plan", "--detect", "51", "--games-per-second", "0.05"]) == 0
    out = capsys.readouterr().out
    assert "7,850 games" in out
    assert "1 d 19 h" in out


def test_the_reverse_and_a_worse_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(capsys, "--games", "7850")["detect"] == pytest.approx(0.51, abs=1e-5)
    assert plan(capsys, "--detect", "49")["games"] == 7850


def test_power_alpha_and_variance_count(capsys: pytest.CaptureFixture[str]) -> None:
    base = plan(capsys, "--detect", "51")["games"]
    assert isinstance(base, int)
    for option in (("--power", "0.9"), ("--alpha", "0.01"), ("--variance", "0.1")):
        longer = plan(capsys, "--detect", "51", *option)["games"]
        assert isinstance(longer, int)
        assert longer > base


def test_the_sprt_it_names_is_one_that_evaluate_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--detect", "90"]) == 0
    command = capsys.readouterr().out.split("cribbage ")[1].split("\n")[0].split()
    assert command[:4] == ["evaluate", "A", "B", "--sprt"]
    arguments = [{"A": "greedy", "B": "random"}.get(word, word) for word in command]
    assert main([*arguments, "check_every=10", "--json", "--no-luck"]) == 0
    assert json.loads(capsys.readouterr().out)["sprt"] == "accept H1"


def test_the_variance_of_a_summary(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "summary.csv"
    path.write_text(SUMMARY)
    assert variance_of_file(path, 2) == (pair_variance(20, 60, 20), "100 pairs of x – y")
    result = plan(capsys, "--detect", "51", "--from", str(path), "--match", "1")
    assert result["variance"] == pytest.approx(pair_variance(150, 48, 2))
    assert "1: greedy – random, 2: x – y" in refused(capsys, "--detect", "51", "--from", str(path))
    assert "1, 2, got 3" in refused(capsys, "--detect", "51", "--from", str(path), "--match", "3")


def test_the_variance_of_the_games_themselves(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert main(["evaluate", "greedy", "expected", "--games", "400", "--output", str(folder), "--no-luck"]) == 0
    summary = variance_of_file(folder / "summary.csv", None)
    assert variance_of_file(folder / "games.csv", None) == summary
    assert summary[1] == "200 pairs of greedy – expected"
    pytest.importorskip("pyarrow")
    pd.read_csv(folder / "games.csv").to_parquet(folder / "games.parquet")
    assert variance_of_file(folder / "games.parquet", 1) == summary


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "damaged"),
        ("a,b\n1,2\n", "no summary.csv"),
        (SUMMARY.replace("150", "many"), "damaged"),
        (SUMMARY.replace("150", "-150"), "damaged"),
        (SUMMARY.replace("150", "1.5"), "damaged"),
        (SUMMARY.splitlines()[0], "no matches"),
        (SUMMARY.splitlines()[0] + "\n1,x,y,400,0,200,0\n", "no variance"),
        (SUMMARY.splitlines()[0] + "\n1,x,y,2,1,0,0\n", "no variance"),
        ("match,pair,seat_0,seat_1,winner\n1,0,x,y,x\n1,0,y,x,z\n", "'z' won"),
        ("match,pair,seat_0,seat_1,winner\n1,0,x,y,x\n1,0,y,x,x\n1,1,x,y,x\n", "pair 1"),
        ("\x00\x01\x02", "no summary.csv"),
    ],
)
def test_damaged_files_are_refused(
    content: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "games.csv"
    path.write_text(content)
    assert message in refused(capsys, "--detect", "51", "--from", str(path))


def test_files_that_cannot_be_read_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in refused(capsys, "--detect", "51", "--from", str(tmp_path / "none.csv"))
    assert "directory" in refused(capsys, "--detect", "51", "--from", str(tmp_path))
    (tmp_path / "latin.csv").write_bytes(b"match,a\n\xff\xfe")
    refused(capsys, "--detect", "51", "--from", str(tmp_path / "latin.csv"))
    (tmp_path / "games.parquet").write_bytes(b"no parquet")
    refused(capsys, "--detect", "51", "--from", str(tmp_path / "games.parquet"))


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--detect", "51", "--games", "100"],
        ["--detect", "51", "--power", "1"],
        ["--detect", "51", "--power", "0.04"],
        ["--detect", "51", "--power", "x"],
        ["--detect", "51", "--alpha", "0"],
        ["--detect", "51", "--variance", "0"],
        ["--detect", "51", "--variance", "0.3"],
        ["--detect", "51", "--variance", "0.1", "--from", "x.csv"],
        ["--detect", "51", "--match", "1"],
        ["--detect", "51", "--games-per-second", "0"],
        ["--detect", "50.00001"],
        ["--games", "1"],
        ["--games", "-5"],
        ["--games", "3"],
        ["--games", "2000000000"],
    ],
)
def test_bad_settings_are_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    refused(capsys, *arguments)
