"""The command `cribbage replay`: a game in words, checks line by line, and what it refuses."""

from __future__ import annotations

import gzip
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cribbage_env import Game, Rules
from cribbage_env.records import Record, record_line, record_of, replay, write_records
from experiments.cli import COMMANDS, main
from experiments.tournament.match import game_seeds


def played(seed: int, target: int = 31) -> Game:
    game = Game(Rules(target), seed)
    while game.phase != "over":
        game.step(game.legal_actions()[-1])
    return game


@pytest.fixture
def records() -> list[Record]:
    return [record_of(played(seed), agents=("Ada", "Bob")) for seed in range(3)]


@pytest.fixture
def file(records: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("games.jsonl")
    write_records(path, records)
    return path


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Standard output, and standard error but for the notice that kernels are being compiled."""
    captured = capsys.readouterr()
    return captured.out, re.sub(r"Compiling the engine .*\n", "", captured.err)


def output_of(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> str:
    capsys.readouterr()
    assert main(["replay", *argv]) == code
    out, err = printed(capsys)
    assert err == ""
    return out


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(["replay", *argv]) == 2
    out, err = printed(capsys)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


# --- Showing ------------------------------------------------------------------------------------------------------


def test_a_game_is_told_whole(file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]) -> None:
    text = output_of(capsys, str(file), "--game", "2")
    game = replay(records[1])
    assert text.startswith("games.jsonl, game 2: Ada in seat 0, Bob in seat 1, to 31, seed 1\n")
    assert text.count("\nDeal ") == len(records[1]["deals"])
    for deal in records[1]["deals"]:
        assert deal["cards"]["pone"] in text
        assert f"starter {deal['cards']['starter']}" in text
        for role in ("pone", "dealer"):
            assert f"to the crib: {deal['discards'][role]}" in text
    told = re.findall(r"(\d+) points?\b.*, (\d+)-(\d+)$", text, flags=re.MULTILINE)
    assert [(int(points), (int(a), int(b))) for points, a, b in told] == [
        (event.points, event.scores) for event in game.events if event.points
    ]
    assert len(re.findall(r"^  \w+ +[2-9ATJQK][CDHS], \d+", text, flags=re.MULTILINE)) == sum(
        event.kind == "card" for event in game.events
    )
    assert text.endswith(f"\nThe winner: {('Ada', 'Bob')[game.winner]}, {game.scores[0]}-{game.scores[1]}.\n")
    assert output_of(capsys, str(file)) == output_of(capsys, str(file), "--game", "1", "--all")


def test_one_deal(file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]) -> None:
    whole = output_of(capsys, str(file))
    second = output_of(capsys, str(file), "--deal", "2")
    head, body = second.split("\n", 1)
    assert whole.startswith(head)
    assert body.rstrip() in whole
    assert body.startswith("\nDeal 2, dealer Bob, ")
    assert body.count("Deal") == 1
    last = len(records[0]["deals"])
    assert "The winner: " in output_of(capsys, str(file), "--deal", str(last))


def test_a_seat_does_not_see_the_others_cards(
    file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    for seat in (0, 1):
        text = output_of(capsys, str(file), "--seat", str(seat))
        deals = text.split("\nDeal ")[1:]
        for deal, shown in zip(records[0]["deals"], deals, strict=True):
            own, other = ("dealer", "pone") if deal["dealer"] == seat else ("pone", "dealer")
            assert deal["cards"][own] in shown
            assert f"to the crib: {deal['discards'][own]}" in shown
            before_show = re.split(r" (?:hand|crib) ", shown)[0]
            hidden = set(deal["discards"][other].split()) | (
                set(deal["cards"][other].split()) - set(deal["plays"].split())
            )
            assert not any(card in before_show for card in hidden)
            assert "?? ?? ?? ?? ?? ??" in shown


def test_the_board(file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]) -> None:
    """With the table drawn after every decision; a seat's view stays one."""
    text = output_of(capsys, str(file), "--board")
    assert text.count(" of a game to 31: ") == len(replay(records[0]).actions)
    seen = output_of(capsys, str(file), "--board", "--seat", "1", "--deal", "1")
    hidden = set(records[0]["deals"][0]["discards"]["dealer"].split())
    signs = {card[0] + "♣♦♥♠"["CDHS".index(card[1])] for card in hidden}
    assert not any(card in re.split(r" (?:hand|crib) ", seen)[0] for card in hidden | signs)
    assert "--board is for showing a game" in error_of(capsys, str(file), "--check", "--board")


def test_unfinished_and_forfeited_games(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    game = Game(seed=1)
    for _ in range(3):
        game.step(game.legal_actions()[0])
    lost = Game(seed=1)
    lost.forfeit()
    path = tmp_path / "games.jsonl"
    write_records(path, [record_of(game), record_of(Game(seed=1)), record_of(lost)])
    assert "The game is not over: 0-0." in output_of(capsys, str(path))
    fresh = output_of(capsys, str(path), "--game", "2")
    assert "Deal 1, dealer seat 0" in fresh
    assert "seat 1  illegal action: the game is lost" in output_of(capsys, str(path), "--game", "3")
    assert output_of(capsys, str(path), "--check").count(": ok\n") == 3


def test_on_a_terminal_enter_goes_on(file: Path) -> None:
    """With a terminal at both ends the game waits; `a` shows the rest."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "replay", str(file.resolve())],
        cwd=Path(__file__).resolve().parents[2],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=os.environ | {"TERM": "xterm"},
    )
    os.close(theirs)
    shown = b""
    while b"Deal 1" not in shown:
        shown += os.read(ours, 4096)
    for _ in range(2):
        os.write(ours, b"\n")
    while shown.count(b"to the crib") < 2:
        shown += os.read(ours, 4096)
    assert b"The winner" not in shown
    os.write(ours, b"a\n")
    while b"The winner" not in shown:
        shown += os.read(ours, 4096)
    assert process.wait(60) == 0
    os.close(ours)


# --- Checking -----------------------------------------------------------------------------------------------------


def test_check_says_what_is_wrong_with_which_line(
    file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]
) -> None:
    assert output_of(capsys, str(file), "--check") == (
        "line 1: ok\nline 2: ok\nline 3: ok\n3 of 3 records are as the engine has them\n"
    )
    records[1]["deals"][0]["events"][2]["points"] += 1
    event = records[1]["deals"][0]["events"][2]
    write_records(file, records)
    with file.open("ab") as out:
        out.write(record_line(records[2])[:40])
    text = output_of(capsys, str(file), "--check", code=1)
    lines = text.splitlines()
    assert lines[0] == "line 1: ok"
    assert lines[1] == (
        f"line 2: deal 1 event 3 (card {event['cards']}): points: recorded {event['points']}, "
        f"replayed {event['points'] - 1}"
    )
    assert lines[2] == "line 3: ok"
    assert lines[3].startswith("line 4: not JSON: ")
    assert lines[4] == "2 of 4 records are as the engine has them"
    assert output_of(capsys, str(file), "--check", "--game", "3").startswith("line 3: ok\n1 of 1 records")
    assert output_of(capsys, str(file), "--check", "--game", "2", code=1).startswith("line 2: deal 1 event 3")
    assert "deal 1 event 3" in error_of(capsys, str(file), "--game", "2")


def test_the_seed_of_a_pair_follows_from_the_match(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    seed = int(game_seeds(8, np.array([5]))[0])
    game = played(seed)
    path = tmp_path / "games.jsonl.gz"
    write_records(
        path,
        [record_of(game, match={"seed": 8, "number": 2, "pair": pair}) for pair in (5, 6, 2**63)],
    )
    lines = output_of(capsys, str(path), "--check", code=1).splitlines()
    assert lines[0] == "line 1: ok"
    assert re.fullmatch(rf"line 2: seed: recorded {seed}, but pair 6 of the match with seed 8 has \d+", lines[1])
    assert lines[2] == f"line 3: match.pair: no match has a pair {2**63}"


# --- What is refused ----------------------------------------------------------------------------------------------


def test_what_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "--game counts from 1, got -1" in error_of(capsys, str(file), "--game", "-1")
    assert "--deal counts from 1, got 0" in error_of(capsys, str(file), "--deal", "0")
    assert "there is no game 9 in 'games.jsonl', the last one is 3" in error_of(capsys, str(file), "--game", "9")
    assert "there is no deal 99, the last one is " in error_of(capsys, str(file), "--deal", "99")
    assert "no file 'game.jsonl' (there are games.jsonl)" in error_of(capsys, "game.jsonl")
    assert "'.' is a folder; say 'games.jsonl'" in error_of(capsys, ".")
    assert "--deal is for showing a game" in error_of(capsys, str(file), "--check", "--deal", "1")
    Path("empty.jsonl").touch()
    for more in ([], ["--check"]):
        assert "there are no games in 'empty.jsonl'" in error_of(capsys, "empty.jsonl", *more)
    Path("weights.pt").write_bytes(bytes(1000))
    for more in ([], ["--check"], ["--game", "7"]):
        assert "'weights.pt' is a binary file" in error_of(capsys, "weights.pt", *more)
    Path("text.txt").write_text("\nnot a game\n")
    assert "text.txt: line 1 is empty; the next game is --game 2" in error_of(capsys, "text.txt")
    assert "text.txt line 2: not JSON" in error_of(capsys, "text.txt", "--game", "2")
    assert "can't read 'games.jsonl/x': Not a directory" in error_of(capsys, "games.jsonl/x")


def test_a_damaged_compressed_file(file: Path, records: list[Record], capsys: pytest.CaptureFixture[str]) -> None:
    whole = gzip.compress(b"".join(map(record_line, records * 20)))
    Path("cut.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    text = output_of(capsys, "cut.jsonl.gz", "--check", code=1)
    lines = text.splitlines()
    assert lines[0] == "line 1: ok"
    assert "the compressed file is cut off or damaged here" in lines[-2]


def test_ctrl_c(file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(record: Record) -> Game:
        raise KeyboardInterrupt

    monkeypatch.setattr("experiments.replay.replay", interrupted)
    assert main(["replay", str(file), "--check"]) == 130
    assert printed(capsys)[1] == "\ninterrupted\n"


@pytest.mark.parametrize("name", ["replay", "play"])
def test_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([name, "--help"])
    assert stop.value.code == 0
    assert f"example: {COMMANDS[name].example}" in " ".join(capsys.readouterr().out.split())
