"""Results read again as tables, and what can go wrong when they are written and read."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from experiments.cli import main
from experiments.config import UserError
from experiments.results import load_games, load_summary
from experiments.tournament import results


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results") / "out"
    assert main(["evaluate", "greedy", "random", "--games", "200", "--output", str(folder)]) == 0
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A result folder that may be spoiled."""
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def edit(path: Path, line: int, before: str, after: str) -> None:
    lines = path.read_text().splitlines(keepends=True)
    assert before in lines[line - 1]
    lines[line - 1] = lines[line - 1].replace(before, after, 1)
    path.write_text("".join(lines))


def test_tables_agree_with_each_other(folder: Path) -> None:
    games, summary = load_games(folder), load_summary(str(folder))
    assert len(games) == 200
    assert len(summary) == 1
    row = summary.iloc[0]
    assert (row["a"], row["b"], row["games"]) == ("greedy", "random", 200)
    assert (games["winner"] == "greedy").sum() == row["a_wins"]
    assert list(games["winner"].cat.categories) == ["greedy", "random"]
    assert (games["forfeit"] == "").all()
    assert games["pair"].tolist() == [pair for pair in range(100) for _ in range(2)]
    assert games["seed"].dtype == np.int64
    assert (games["seat_0"].to_numpy()[0::2] == "greedy").all()
    assert (games["seat_0"].to_numpy()[1::2] == "random").all()
    # points a deal by part, as the summary has them
    for agent, letter in (("greedy", "a"), ("random", "b")):
        for part, dealt_by_other in (("hand_dealer", False), ("hand_pone", True), ("crib", False), ("heels", False)):
            points = deals = 0
            for seat in (0, 1):
                own = games[games[f"seat_{seat}"] == agent]
                points += own[f"{part}_{seat}"].sum()
                deals += own[f"whole_deals_{seat ^ dealt_by_other}"].sum()
            assert points / deals == pytest.approx(row[f"{letter}_{part}"], abs=1e-6)


def test_parquet_gives_the_same_table(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    before = load_games(folder)
    config = tmp_path / "config.yaml"
    copy = tmp_path / "t.yaml"
    copy.write_text(config.read_text())
    assert main(["tournament", str(copy), "format=parquet", "--output", str(folder), "--resume"]) == 0
    assert (folder / "games.parquet").exists()
    assert not (folder / "games.csv").exists()
    assert load_games(folder).equals(before)
    (folder / "games.parquet").write_bytes(b"PAR1 and nothing else")
    with pytest.raises(UserError, match=r"can't read .*games\.parquet"):
        load_games(folder)


def test_parquet_without_pyarrow_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    config = tmp_path / "t.yaml"
    config.write_text("agents: [random, greedy]\ngames: 2\nformat: parquet\n")
    assert main(["tournament", str(config), "--output", str(tmp_path / "out")]) == 2
    assert "pip install 'cribbage-lab[parquet]', or say format=csv" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "line", "before", "after", "says"),
    [
        ("games.csv", 5, ",0,", ",no,", "games.csv, line 5: "),
        ("games.csv", 1, "winner", "loser", "the column 'winner' is missing"),
        ("summary.csv", 2, ",200,", ",many,", "summary.csv, line 2: games must be a number, got 'many'"),
        ("summary.csv", 1, "pairs_split", "ties", "the column 'pairs_split' is missing"),
        ("summary.csv", 2, ",200,", ",198,", "is cut short: it has 200 games, summary.csv counts 198"),
        ("config.yaml", 1, "agents", "agent", "the key 'agents' is missing"),
    ],
)
def test_damage_is_named(folder: Path, name: str, line: int, before: str, after: str, says: str) -> None:
    edit(folder / name, line, before, after)
    with pytest.raises(UserError) as caught:
        load_games(folder)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["config.yaml", "summary.csv", "games.csv"])
def test_missing_files_are_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(UserError, match="no table of games" if name == "games.csv" else name):
        load_games(folder)


def test_a_disk_that_is_full_at_the_end_costs_no_games(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    argv = ["evaluate", "greedy", "random", "--games", "300", "--output", str(folder), "--resume"]
    with monkeypatch.context() as patch:
        patch.setattr(results, "games_writer", full)
        assert main(argv) == 2
    said = capsys.readouterr().err
    assert "No space left on device; 300 games are kept, and the same command with --resume goes on" in said
    assert len(load_games(folder)) == 200  # what was there
    assert main(argv) == 0
    assert len(load_games(folder)) == 300
