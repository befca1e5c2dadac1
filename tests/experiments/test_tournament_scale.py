"""Tournaments in blocks: the same bytes from any number of processes, shards and interruptions; what a disk spoils."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from agents import make_agent
from experiments.cli import main
from experiments.config import TournamentConfig, UserError
from experiments.tournament import games_file, round_robin
from experiments.tournament.folder import temporary_journal
from experiments.tournament.games_file import columns_of, games_of, games_writer, read_games
from experiments.tournament.journal import Journal
from experiments.tournament.match import GAME_DTYPE, Games, play_blocks
from experiments.tournament.plan import Block, Coverage, Match, Schedule, matches_of
from experiments.tournament.progress import Progress
from experiments.tournament.round_robin import Tournament

ROOT = Path(__file__).parents[2]
DIFFERS = "sessions.json"
"""The one file that tells how a tournament was played; all others are the same however that was."""

AGENT = """
import os, time
from agents import register_agent
from agents.greedy import GreedyAgent

class Patient(GreedyAgent):
    "Plays as greedy does, but takes its time."
    def __init__(self, seconds: float = 0.001, fail: bool = False):
        super().__init__()
        self.seconds, self.fail = seconds, fail

    def act(self, observations, masks, keys=None):
        time.sleep(self.seconds)
        if self.fail:
            raise RuntimeError("a bug of the user's")
        return super().act(observations, masks, keys)

register_agent("patient", Patient)
"""
CONFIG = """
agents: [patient, random, {spec: greedy, name: "the, other"}]
modules: [patient.py]
games: 700
batch: 64
"""


@pytest.fixture(scope="module", autouse=True)
def no_commit() -> Iterator[None]:
    """Results note the git commit, which may change while the tests run: here they find none."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GIT_DIR", os.devnull)
        yield


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a small tournament's config, ``t.yaml``, and an agent of a user's."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "patient.py").write_text(AGENT)
    (tmp_path / "t.yaml").write_text(CONFIG)
    return tmp_path


def play(*argv: str) -> None:
    assert main(["tournament", "t.yaml", *argv]) == 0


def same(one: str, other: str) -> bool:
    """Whether two folders have the same results, whole ones."""
    names = sorted(path.name for path in Path(one).iterdir())
    assert {"games.csv", "summary.csv", "config.yaml", "win_rates.png", DIFFERS} <= set(names)
    assert "games.journal" not in names
    assert sorted(path.name for path in Path(other).iterdir()) == names
    differing = [name for name in names if Path(one, name).read_bytes() != Path(other, name).read_bytes()]
    return set(differing) <= {DIFFERS}


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The last line that a command ends with when something is wrong."""
    capsys.readouterr()
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()[-1]


# Which games there are


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8))), st.integers(0, 45), st.integers(0, 12))
def test_coverage_is_a_set_of_pairs(runs: list[tuple[int, int]], first: int, pairs: int) -> None:
    coverage, there = Coverage(), set()
    for start, length in runs:
        some = set(range(start, start + length))
        if some & there:
            with pytest.raises(ValueError):
                coverage.add(start, length)
        else:
            coverage.add(start, length)
            there |= some
    missing = [pair for start, length in coverage.missing(first, pairs) for pair in range(start, start + length)]
    assert missing == [pair for pair in range(first, first + pairs) if pair not in there]
    assert coverage.whole(first) == next(n for n in range(100) if first + n not in there)


@given(st.data())
def test_a_schedule_hands_out_what_is_missing_once(data: st.DataObject) -> None:
    matches = [
        Match(number, (0, 1), ("a", "b"), data.draw(st.integers(0, 50)), data.draw(st.integers(0, 2000)))
        for number in (1, 2, 3)
    ]
    coverage = {match.number: Coverage() for match in matches}
    for match in matches[:2]:
        if match.pairs > 20:
            coverage[match.number].add(match.first + 5, 10)
    wanted = [
        (match.number, pair)
        for match in matches
        for first, pairs in coverage[match.number].missing(match.first, match.pairs)
        for pair in range(first, first + pairs)
    ]
    schedule = Schedule(matches, coverage, data.draw(st.sampled_from([1, 8, 64, 4096])))
    at_once = data.draw(st.integers(1, 9))
    got = []
    while (block := schedule.next(at_once)) is not None:
        assert block.pairs >= 1
        if data.draw(st.booleans()):
            schedule.put_back(block)
            block = schedule.next(at_once)
            assert block is not None
        schedule.played(block, data.draw(st.sampled_from([0.0, 1e-4, 1.0, 1000.0])))
        got += [(block.match, pair) for pair in range(block.first, block.first + block.pairs)]
    assert sorted(got) == wanted


def test_blocks_grow_with_speed_and_stay_small_for_slow_agents() -> None:
    match = Match(1, (0, 1), ("a", "b"), 0, 10**6)
    fast, slow = Schedule([match], {}, 4096), Schedule([match], {}, 4096)
    sizes: dict[bool, list[int]] = {True: [], False: []}
    for _ in range(10):
        for schedule, speed in ((fast, 10_000.0), (slow, 1.0)):
            block = schedule.next()
            assert block is not None
            schedule.played(block, block.pairs / speed)
            sizes[schedule is fast].append(block.pairs)
    assert sizes[False] == [32] * 10
    assert sizes[True][:3] == [32, 512, 8192]
    assert sizes[True][-1] == 50_000


def test_shards_are_shares_of_every_match() -> None:
    whole = matches_of(TournamentConfig(agents=["a", "b", {"spec": "c", "games": 6}], games=100))
    assert [(match.names, match.pairs) for match in whole] == [(("a", "b"), 50), (("a", "c"), 3), (("b", "c"), 3)]
    shares = [
        matches_of(TournamentConfig(agents=["a", "b", {"spec": "c", "games": 6}], games=100, shard=f"{i}/7"))
        for i in range(1, 8)
    ]
    for at, match in enumerate(whole):
        pairs = [pair for share in shares for pair in range(share[at].first, share[at].first + share[at].pairs)]
        assert pairs == list(range(match.pairs))


# The journal


@pytest.fixture(scope="module")
def blocks() -> list[Games]:
    """The games of a match in four blocks of 10 pairs."""
    games = np.concatenate(list(play_blocks(make_agent("greedy"), make_agent("random"), 40, 3)))
    return [games[start : start + 20] for start in range(0, 80, 20)]


def written(path: Path, blocks: list[Games]) -> Journal:
    journal = Journal.open(path)
    for number in (2, 0, 3, 1):
        journal.append(Block(1, 10 * number, 10), blocks[number], 0.5, b"notes %d" % number)
    return journal


def test_a_journal_gives_back_what_was_written(tmp_path: Path, blocks: list[Games]) -> None:
    written(tmp_path / "j", blocks).close()
    journal = Journal.open(tmp_path / "j")
    assert (journal.damaged, journal.games, journal.seconds(1), journal.seconds(2)) == (0, 80, 2.0, 0)
    whole = np.concatenate(blocks)
    assert np.concatenate(list(journal.read(1, 0, 40))).tobytes() == whole.tobytes()
    assert np.concatenate(list(journal.read(1, 7, 33))).tobytes() == whole[14:66].tobytes()
    assert [notes for _, notes in journal.read_blocks(1, 15, 25)] == [b"notes 1", b"notes 2"]
    assert list(journal.read(2, 0, 40)) == []
    with pytest.raises(ValueError, match="there already"):
        journal.append(Block(1, 35, 10), np.concatenate([blocks[3][10:]] * 2), 0.0)
    with pytest.raises(ValueError, match="are not"):
        journal.append(Block(1, 40, 5), blocks[0], 0.0)
    assert journal.games == 80
    journal.close()


@given(st.data())
def test_damage_costs_only_the_blocks_it_hits(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[Games], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "j"
    journal = Journal.open(path)
    start = path.stat().st_size
    ends = []
    for number in (2, 0, 3, 1):
        journal.append(Block(1, 10 * number, 10), blocks[number], 0.5)
        ends.append(path.stat().st_size)
    journal.close()
    content = bytearray(path.read_bytes())
    at = data.draw(st.integers(start, len(content) - 1))
    kind = data.draw(st.sampled_from(["flip", "cut", "insert", "remove", "zeros"]))
    if kind == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif kind == "cut":
        del content[at:]
    elif kind == "insert":
        content[at:at] = b"x" * data.draw(st.integers(1, 100))
    elif kind == "remove":
        del content[at : at + 3]
    else:
        content[at:] = bytes(len(content) - at)
    path.write_bytes(content)

    again = Journal.open(path)
    hit = next(number for number, end in enumerate(ends) if at < end)
    survivors = [number for number in (2, 0, 3, 1) if again.coverage.get(1, Coverage()).whole(10 * number)]
    lost = 4 - len(survivors)
    if kind in ("cut", "zeros"):
        assert lost == 4 - hit
    elif kind == "insert" and at in (start, *ends):  # between two blocks
        assert lost == 0
    else:
        assert lost == (2 if kind == "remove" and at + 3 > ends[hit] and hit < 3 else 1)
    if kind == "cut":
        assert again.damaged == (at not in (start, *ends))
    else:
        assert again.damaged == 1
    for number in range(4):  # what was lost is played and written again
        if number in survivors:
            assert np.concatenate(list(again.read(1, 10 * number, 10 * number + 10))).tobytes() == (
                blocks[number].tobytes()
            )
        else:
            again.append(Block(1, 10 * number, 10), blocks[number], 0.5)
    again.close()
    third = Journal.open(path)
    assert np.concatenate(list(third.read(1, 0, 40))).tobytes() == np.concatenate(blocks).tobytes()
    third.close()


def test_another_file_is_no_journal(tmp_path: Path) -> None:
    for content in (b"match,pair\n1,0\n", b"cribbage-lab journal of games, version 0\n" + b"x" * 1000):
        path = tmp_path / "j"
        path.write_bytes(content)
        with pytest.raises(UserError, match="is no journal of this version"):
            Journal.open(path)
        assert path.read_bytes() == content


# The table of games


@pytest.fixture(scope="module")
def games() -> Games:
    """Games with forfeits, skunks and ends of all kinds."""
    games = np.concatenate(list(play_blocks(make_agent("greedy"), make_agent("random"), 50, 3)))
    at = np.flatnonzero(games["winner"] == 0)[:3]
    games["forfeit"][at] = 1
    return games


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_a_table_gives_back_the_games(tmp_path: Path, games: Games, file_format: str) -> None:
    assert games_of(columns_of(1, games)).tobytes() == games.tobytes()
    names = ('quote" and, comma', "näme")
    path = tmp_path / games_file.GAMES_FILES[file_format]
    writer = games_writer(file_format, path)
    writer.write(1, names, games[:60])
    writer.write(1, names, games[60:])
    writer.write(2, names[::-1], games[:50])
    writer.close()
    matches = [Match(1, (0, 1), names, 0, 50), Match(2, (0, 1), names[::-1], 0, 50)]
    read: dict[int, list[Games]] = {1: [], 2: []}
    for number, some in read_games(path, matches, 3, 121):
        read[number].append(some)
    assert np.concatenate(read[1]).tobytes() == games.tobytes()
    assert np.concatenate(read[2]).tobytes() == games[:50].tobytes()


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_pairs_may_be_read_in_two_pieces(
    tmp_path: Path, games: Games, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    monkeypatch.setattr(games_file, "_ROWS", rows)
    test_a_table_gives_back_the_games(tmp_path, games, "csv")


def set_cell(line: int, column: str, value: str) -> Callable[[list[str]], list[str]]:
    def edit(lines: list[str]) -> list[str]:
        cells = lines[line - 1].split(",")
        cells[lines[0].split(",").index(column)] = value
        return [*lines[: line - 1], ",".join(cells), *lines[line:]]

    return edit


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (set_cell(7, "deals", "many"), "line 7: deals must be a whole number, got 'many'"),
        (set_cell(7, "deals", ""), "line 7: deals must be a whole number, got ''"),
        (set_cell(7, "deals", "-1"), "line 7: deals must be 0 to 32767, got '-1'"),
        (set_cell(7, "crib_1", "99999"), "line 7: crib_1 must be 0 to 32767, got '99999'"),
        (set_cell(7, "seed", "5"), "line 7: seed must be "),
        (set_cell(7, "seed", "9" * 30), "line 7: seed must be a whole number, got "),
        (set_cell(7, "pair", "3"), "line 7: pair must be 2, got '3'"),
        (set_cell(7, "winner", "nobody"), "line 7: winner must be a or b, got 'nobody'"),
        (set_cell(7, "first_dealer", ""), "line 7: first_dealer must be a or b, got ''"),
        (set_cell(7, "seat_0", "a"), "line 7: seat_0 must be 'b', got 'a'"),
        (set_cell(7, "skunk", "3"), "line 7: skunk must be 0, 1 or 2, got '3'"),
        (set_cell(7, "score_1", "7"), "line 7: the winner's score must be 121"),
        (set_cell(7, "score_0", "121"), "line 7: the loser's score must be 0 to 120"),
        (set_cell(7, "match", "2"), "line 7: there is no match 2"),
        (lambda lines: [*lines[:6], *lines[7:]], "line 7: pair must be 2, got '3'"),
        (lambda lines: [*lines[:5], *lines[7:]], "line 6: pair must be 2, got '3'"),
        (lambda lines: lines[:50], "line 50: the pair's second game is missing"),
        (lambda lines: [*lines[:50], lines[50][:20]], "line 51: 27 cells are needed, there are "),
        (lambda lines: [*lines, lines[-1]], "line 102: "),
        (lambda lines: [*lines, *lines[-2:]], "line 102: pair must be 50, got '49'"),
        (lambda lines: [lines[0].replace("deals,", "hands,"), *lines[1:]], "the column 'deals' is missing"),
        (lambda lines: lines[1:], "the column 'match' is missing"),
        (lambda lines: [], "the column 'match' is missing"),
        (lambda lines: [*lines[:6], '"' + lines[6], *lines[7:]], "line "),
    ],
)
def test_a_damaged_row_is_named(
    tmp_path: Path, games: Games, edit: Callable[[list[str]], list[str]], says: str
) -> None:
    path = tmp_path / "games.csv"
    writer = games_writer("csv", path)
    writer.write(1, ("a", "b"), games)
    writer.close()
    lines = path.read_text().splitlines()
    cells = len(lines[0].split(","))
    path.write_text("".join(f"{line}\n" for line in edit(lines)))
    with pytest.raises(UserError) as caught:
        list(read_games(path, [Match(1, (0, 1), ("a", "b"), 0, 50)], 3, 121))
    assert str(path) in str(caught.value)
    assert says.replace("27 cells", f"{cells} cells") in str(caught.value)
    assert "\n" not in str(caught.value)


# The same bytes, however they come about


def test_the_results_do_not_depend_on_jobs_shards_or_batch(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play("--output", "two", "--jobs", "2")
    assert same("one", "two")
    for number in (1, 2, 3):
        play("--output", f"shard{number}", "--shard", f"{number}/3", *(["--jobs", "3"] if number == 2 else []))
    assert main(["merge", "shard3", "shard1", "shard2", "--output", "whole"]) == 0
    assert same("one", "whole")

    def refused(*argv: str) -> str:
        said = error_of(capsys, "merge", *argv, "--output", "none")
        assert not Path("none").exists()
        return said

    assert "a shard is missing: 2/3" in refused("shard1", "shard3")
    assert "2 shards are missing: 1/3, 3/3" in refused("shard2")
    assert "the shard 1/3 is given twice" in refused("shard1", "shard2", "shard3", "shard1")
    assert "is no shard" in refused("one")
    assert "no config.yaml" in refused("shard1", "nowhere")
    assert "there are results in 'whole'" in error_of(
        capsys, "merge", "shard1", "shard2", "shard3", "--output", "whole"
    )
    play("--output", "other", "--shard", "2/3", "--seed", "2")
    assert "are shards of different tournaments: seed is 1 in the first, in the second 2" in refused(
        "shard1", "other", "shard3"
    )
    noted = Path("shard2/config.yaml")
    noted.write_text(noted.read_text().replace("cribbage-lab: ", "cribbage-lab: 9."))
    assert "were made with different versions or files: cribbage-lab is '0.1.0' in the first" in refused(
        "shard1", "shard2", "shard3"
    )
    noted.write_text(noted.read_text().replace("cribbage-lab: 9.", "cribbage-lab: "))
    table = Path("shard2/games.csv")
    lines = table.read_text().splitlines(keepends=True)
    table.write_text("".join(lines[:-2]))
    assert "the table of games in 'shard2' is cut short" in refused("shard1", "shard2", "shard3")
    table.write_text("".join([*lines[:9], lines[9].replace(",", ";", 1), *lines[10:]]))
    assert "shard2/games.csv, line 10: " in refused("shard1", "shard2", "shard3")
    table.write_text("".join(lines))
    Path("shard2/games.journal").touch()
    assert "the shard 2/3 in 'shard2' is not finished" in refused("shard1", "shard2", "shard3")


def test_an_agent_that_fails_in_a_worker_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["tournament", "t.yaml", "agents=[greedy, random, 'patient:fail']", "--output", "out", "--jobs", "2"]
    said = error_of(capsys, *argv)
    assert "'patient:fail' failed in the match " in said
    assert "RuntimeError: a bug of the user's (patient.py, line " in said
    kept = yaml.safe_load(Path("out/sessions.json").read_text())[0]["games"]
    assert 0 < kept <= 700


# Going on


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a tournament, ``one``, and the same one as it is after it was killed in the middle, ``half``."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "patient.py").write_text(AGENT)
    (folder / "t.yaml").write_text(CONFIG)
    with contextlib.chdir(folder):
        play("--output", "one")
        shutil.copytree("one", "half")
        matches = matches_of(TournamentConfig(**yaml.safe_load(CONFIG)))
        journal = Journal.open(Path("half/games.journal"))
        with temporary_journal() as whole:
            for number, games in read_games(Path("one/games.csv"), matches, 1, 121):
                whole.append(Block(number, int(games["pair"][0]), len(games) // 2), games, 0.0)
            for match, first, pairs in ((1, 0, 200), (1, 300, 40), (2, 10, 30)):
                games = np.concatenate(list(whole.read(match, first, first + pairs)))
                journal.append(Block(match, first, pairs), games, 0.1)
        journal.close()
        for path in Path("half").iterdir():
            if path.name not in ("games.journal", "config.yaml", DIFFERS):
                path.unlink()
    return folder


@pytest.fixture
def half(made: Path, folder: Path) -> Path:
    """Those two, in the working directory."""
    shutil.copytree(made, folder, dirs_exist_ok=True)
    return Path("half")


def test_a_tournament_goes_on_where_it_was(half: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = []
    append = Journal.append
    monkeypatch.setattr(
        Journal, "append", lambda self, block, *rest: (played.append(block), append(self, block, *rest))[1]
    )
    play("--output", "half", "--resume", "batch=100")
    pairs = sorted((match, pair) for match, first, count in played for pair in range(first, first + count))
    there = {(1, pair) for pair in [*range(200), *range(300, 340)]} | {(2, pair) for pair in range(10, 40)}
    assert pairs == sorted({(match, pair) for match in (1, 2, 3) for pair in range(350)} - there)
    assert yaml.safe_load(Path("half/sessions.json").read_text())[-1]["batch"] == 100
    assert same("one", "half")


def test_a_finished_tournament_is_written_again_and_can_have_more_games(half: Path) -> None:
    play("--output", "short", "games=200")
    play("--output", "short", "--resume", "games=700")
    assert same("one", "short")
    for name in ("summary.csv", "win_rates.png"):
        Path("short", name).unlink()
    play("--output", "short", "--resume")  # from the table of games alone
    assert same("one", "short")


def test_the_format_of_the_games_may_change(folder: Path) -> None:
    play("--output", "one", "games=100")
    play("--output", "two", "games=100", "format=parquet")
    assert not Path("two/games.csv").exists()
    play("--output", "two", "games=100", "--resume")
    assert same("one", "two")


def test_damaged_blocks_are_played_again(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = half / "games.journal"
    content = bytearray(journal.read_bytes())
    content[len(content) // 2] ^= 255
    journal.write_bytes(content)
    play("--output", "half", "--resume")
    assert "half/games.journal is damaged in 1 place; what was there is played again" in capsys.readouterr().err
    assert same("one", "half")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (["--seed", "2"], "seed was 1, now 2"),
        (["rules.target=61"], "rules.target was 121, now 61"),
        (["agents=[patient, random]"], "agents.3 was 'the, other (greedy)', now None"),
        (["agents=[patient, greedy, random]"], "agents.2 was 'random', now 'greedy'"),
        (["agents=[patient, random, greedy]"], "agents.3 was 'the, other (greedy)', now 'greedy'"),
        (["games=600"], "the match patient – random had 700 games, now 600; there can only be more"),
        (["--shard", "1/2"], "shard was None, now '1/2'"),
    ],
)
def test_another_tournament_does_not_go_on(
    half: Path, capsys: pytest.CaptureFixture[str], change: list[str], says: str
) -> None:
    before = {path.name: path.read_bytes() for path in half.iterdir()}
    said = error_of(capsys, "tournament", "t.yaml", "--output", "half", "--resume", *change)
    assert f"the tournament in 'half' is another one: {says}" in said
    assert {path.name: path.read_bytes() for path in half.iterdir()} == before


def test_a_folder_that_is_not_whole_is_refused(half: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("tournament", "t.yaml", "--output", "half")
    assert "go on with them (--resume)" in error_of(capsys, *argv)
    config, journal = half / "config.yaml", half / "games.journal"
    text, content = config.read_text(), journal.read_bytes()
    config.write_text(text.replace("results: 2", "results: 1"))
    assert "are of version 1 of the result files, this is version 2" in error_of(capsys, *argv, "--resume")
    config.write_text(text[:50])
    assert "is not the config of a result folder, or is damaged" in error_of(capsys, *argv, "--resume")
    config.write_text(text)
    journal.write_bytes(b"something else")
    assert "is no journal of this version" in error_of(capsys, *argv, "--resume")
    journal.write_bytes(content)
    config.unlink()
    assert "there is no tournament to resume in 'half'" in error_of(capsys, *argv, "--resume")


def test_killed_before_the_first_game_it_goes_on(half: Path) -> None:
    Path("begun").mkdir()
    shutil.copy("half/games.journal", "begun/games.journal")
    Journal.open(Path("begun/games.journal")).close()
    whole = Path("begun/games.journal").read_bytes()
    Path("begun/games.journal").write_bytes(whole[: whole.index(b"\n", 60) + 1])
    play("--output", "begun", "--resume")
    assert same("one", "begun")


def test_another_checkpoint_under_the_same_path_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("weights.bin").write_bytes(b"one")
    Path("patient.py").write_text(AGENT.replace("fail: bool = False", 'fail: bool = False, weights: str = ""'))
    argv = ["tournament", "t.yaml", "agents=[random, 'patient:weights=weights.bin']", "games=20", "--output", "out"]
    assert main(argv) == 0
    assert main([*argv, "--resume"]) == 0
    Path("weights.bin").write_bytes(b"two")
    assert "was begun with another file 'weights.bin', which has changed since" in error_of(capsys, *argv, "--resume")
    Path("weights.bin").write_bytes(b"one")
    with Path("patient.py").open("a") as file:
        file.write("\n# mended\n")
    capsys.readouterr()
    assert main([*argv, "--resume"]) == 0
    assert "note: patient.py has changed since the tournament was begun" in capsys.readouterr().err


def test_a_stop_rule_ends_matches_at_the_same_pair_however_they_are_played(folder: Path) -> None:
    def rule(wins: Any) -> int | None:
        lead = np.abs(np.cumsum(wins.astype(int) - 1))
        over = np.flatnonzero(lead >= 12)
        return int(over[0]) + 1 if len(over) else None

    config = TournamentConfig(agents=["greedy", "expected", "random"], games=2000)
    whole, stopped = Tournament(config), Tournament(config, rule)
    with temporary_journal() as everything:
        assert whole.play(everything)
        expected = []
        for match in whole.matches:
            games = np.concatenate(list(whole.results(everything, match)))
            end = rule((games["winner"].reshape(-1, 2) == 0).sum(axis=1)) or match.pairs
            expected.append(games[: 2 * end].tobytes())
        assert all(1 < len(some) < 2000 * GAME_DTYPE.itemsize for some in expected)
    for jobs in (1, 2):
        with temporary_journal() as journal:
            stopped = Tournament(config.model_copy(update={"jobs": jobs}), rule)
            assert stopped.play(journal)
            for match, games in zip(stopped.matches, expected, strict=True):
                assert np.concatenate(list(stopped.results(journal, match))).tobytes() == games
            assert stopped.games == stopped.played(journal) == sum(one.games for one in stopped.summaries(journal))
            again = Tournament(config, rule)
            assert not again.finished(journal)  # before the rule was asked
            assert again.play(journal)
            assert again.games == stopped.games


# Killed, interrupted


def start(*argv: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "tournament", "t.yaml", *argv],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a process group of its own, as a shell gives to a command
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_until(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    for _ in range(9000):  # three minutes: on a busy machine the engine is compiled first
        if condition():
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    raise AssertionError("it took too long")


def grows_beyond(path: Path, size: int) -> Callable[[], bool]:
    return lambda: path.exists() and path.stat().st_size > size


def stat(pid: int) -> list[str]:
    """State, parent and more of a process; "Z" as the state if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return ["Z", "0"]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a tournament."""
    pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
    children = [pid for pid in pids if stat(pid)[1] == str(process.pid)]
    return [pid for pid in children if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def gone(pids: list[int]) -> bool:
    return all(stat(pid)[0] == "Z" for pid in pids)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes as Linux shows them")


@needs_proc
def test_killed_at_any_moment_it_goes_on_to_the_same_bytes(half: Path) -> None:
    journal = Path("killed/games.journal")
    size = 0
    for more, jobs in ((1, "1"), (3000, "2"), (20_000, "1")):
        process = start("--output", "killed", "--jobs", jobs, *(["--resume"] if size else []))
        wait_until(grows_beyond(journal, size + more), process)
        workers = workers_of(process)
        assert len(workers) == (2 if jobs == "2" else 0)
        process.kill()
        process.wait()
        for _ in range(100):  # nobody tells workers; they notice it
            if gone(workers):
                break
            time.sleep(0.1)
        assert gone(workers)
        process.communicate()
        size = journal.stat().st_size
    play("--output", "killed", "--resume")
    assert same("one", "killed")


@needs_proc
def test_a_killed_workers_block_is_played_again(half: Path) -> None:
    process = start("--output", "out", "--jobs", "2")
    wait_until(grows_beyond(Path("out/games.journal"), 1000), process)
    os.kill(workers_of(process)[0], signal.SIGKILL)
    _, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert "a worker process has died; its block is played again" in errors
    assert "Traceback" not in errors
    assert same("one", "out")


@needs_proc
@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_all_processes(folder: Path, times: int) -> None:
    """The second one does not wait for workers that are in a long call of an agent."""
    seconds = (0.01, 20)[times - 1]
    process = start("--output", "out", "--jobs", "2", f"agents=[random, greedy, 'patient:seconds={seconds}']")
    wait_until(grows_beyond(Path("out/games.journal"), 1000), process)
    workers = workers_of(process)
    assert len(workers) == 2
    time.sleep(0.5)
    asked = time.monotonic()
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        time.sleep(0.3)
    _, errors = process.communicate(timeout=180)
    assert time.monotonic() - asked < 15
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "games were finished and are kept in out; the same command with --resume goes on" in errors
    assert gone(workers)
    assert Path("out/games.journal").exists()
    assert Path("out/summary.csv").exists() == (times == 1)


def test_progress_without_a_terminal_is_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 100.0
    monkeypatch.setattr("experiments.tournament.progress.time.monotonic", lambda: now)
    with Progress(1000, 200) as progress:
        progress.tick()
        now += 29
        progress.add(100, "a – b")
        assert capsys.readouterr().err == ""
        now += 11
        progress.add(100, "a – b")
        assert capsys.readouterr().err == "400 of 1,000 games, 5 games/s, 02:00 left\n"
        progress.shorten(600)
        now += 31
        progress.tick()
        assert capsys.readouterr().err == "400 of 600 games, 2.8 games/s, 01:11 left\n"


# Dask


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A scheduler and two worker processes."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster:
        yield cluster


@pytest.mark.filterwarnings("default")
def test_dask_plays_what_a_killed_worker_had(half: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    append, killed = Journal.append, []

    def kill_one(self: Journal, block: Block, *rest: Any) -> None:
        append(self, block, *rest)
        if self.games > 400 and not killed:
            process = next(iter(cluster.workers.values())).process.process
            killed.append(process.pid)
            os.kill(process.pid, signal.SIGKILL)

    monkeypatch.setattr(Journal, "append", kill_one)
    play("--output", "out", "backend=dask", f"scheduler={cluster.scheduler_address}")
    assert len(killed) == 1
    assert same("one", "out")


def test_a_scheduler_that_is_not_there_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("experiments.tournament.pools._CONNECT_SECONDS", 0.5)
    argv = ["tournament", "t.yaml", "--output", "out", "backend=dask", "scheduler=tcp://127.0.0.1:9"]
    assert "can't reach a Dask scheduler at 'tcp://127.0.0.1:9'" in error_of(capsys, *argv)
    assert not Path("out").exists()


@pytest.mark.slow
def test_deaths_without_end_are_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("patient.py").write_text(AGENT.replace("time.sleep(self.seconds)", "os._exit(3) if self.fail else None"))
    argv = ["tournament", "t.yaml", "agents=[random, 'patient:fail']", "--output", "out", "--jobs", "2"]
    assert round_robin._DEATHS > 1
    assert "worker processes keep dying" in error_of(capsys, *argv)
