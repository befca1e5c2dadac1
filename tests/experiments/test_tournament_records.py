"""Records that tournaments write: they replay to the table of games, and are the same however it was played."""

from __future__ import annotations

import csv
import gzip
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from agents import make_agent
from cribbage_env.records import Record, actions_of, read_records, record_line, replay, write_records
from experiments.cli import main
from experiments.config import TournamentConfig
from experiments.tournament import game_records
from experiments.tournament.game_records import ActionLog, action_ends, records_of
from experiments.tournament.journal import Journal
from experiments.tournament.match import play_blocks
from experiments.tournament.plan import Block, matches_of

CHEAT = """
import numpy as np
from agents import Agent, register_agent
from cribbage_env.engine import DISCARD
from cribbage_env.observation import field

class Cheat(Agent):
    '''Plays at random until it is tired, and then takes what is no action, or one that is not legal.'''
    def __init__(self):
        super().__init__("cheat")
    def policy(self, observations, masks):
        return masks / masks.sum(axis=1, keepdims=True)
    def act(self, observations, masks, keys=None):
        actions = super().act(observations, masks, keys)
        tired = field(observations, "score")[:, 0] > 5
        wrong = np.where(keys % 2 == 0, 10**12, np.where(masks[:, 0] == 1, 18, 0))
        return np.where(tired & (keys % 3 == 0), wrong, actions)

register_agent("cheat", Cheat)
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A small tournament's config with records, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("cheat.py").write_text(CHEAT)
    Path("small.yaml").write_text(
        "agents: [random, greedy, {spec: cheat, name: 'the, cheat'}]\ngames: 60\nname: small\nrecords: true\n"
        "rules: {target: 31}\nmodules: [cheat.py]\nseed: 5\n"
    )
    return "small.yaml"


def tournament(config: str, output: str, *more: str) -> bytes:
    """Play it; the bytes of its records."""
    assert main(["tournament", config, "--output", output, *more]) == 0
    return (Path(output) / "games.jsonl.gz").read_bytes()


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(argv) == 2
    captured = capsys.readouterr()
    err = re.sub(r"Compiling the engine .*\n", "", captured.err)
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_records_replay_to_the_table_of_games(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    tournament(config, "out")
    assert "out/games.jsonl.gz" in capsys.readouterr().out
    with Path("out/games.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    records = list(read_records("out/games.jsonl.gz"))
    assert len(records) == len(rows) == 180
    forfeits = set()
    for row, record in zip(rows, records, strict=True):
        game = replay(record)
        names = record["agents"]
        assert names == [row["seat_0"], row["seat_1"]]
        assert record["match"] == {"seed": 5, "number": int(row["match"]), "pair": int(row["pair"])}
        assert game.seed == int(row["seed"])
        assert names[game.first_dealer] == row["first_dealer"]
        assert game.winner is not None
        assert names[game.winner] == row["winner"]
        assert game.scores == (int(row["score_0"]), int(row["score_1"]))
        assert game.deal + 1 == int(row["deals"]) == len(record["deals"])
        assert len(game.actions) == int(row["decisions"])
        assert game.skunk == int(row["skunk"])
        assert ("" if game.forfeited is None else names[game.forfeited]) == row["forfeit"]
        if game.forfeited is not None:
            forfeits.add(record["illegal_action"])
        assert actions_of(record) == [
            *game.actions,
            *([record["illegal_action"]] if game.forfeited is not None else []),
        ]
    assert forfeits == {-1, 0, 18}
    assert main(["replay", "out/games.jsonl.gz", "--check"]) == 0
    assert capsys.readouterr().out.endswith("180 of 180 records are as the engine has them\n")


def test_the_same_bytes_however_it_was_played(config: str) -> None:
    whole = tournament(config, "whole")
    assert tournament(config, "batch", "batch=7") == whole
    assert tournament(config, "jobs", "--jobs", "2") == whole
    for shard in ("1/2", "2/2"):
        tournament(config, f"shard-{shard[0]}", "--shard", shard)
    assert main(["merge", "shard-1", "shard-2", "--output", "merged"]) == 0
    assert Path("merged/games.jsonl.gz").read_bytes() == whole
    tournament(config, "longer", "games=20")
    assert tournament(config, "longer", "--resume") == whole


@pytest.mark.parametrize("where", ["playing", "writing"])
def test_what_was_interrupted_goes_on(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], where: str
) -> None:
    whole = tournament(config, "whole")
    with monkeypatch.context() as patch:
        if where == "playing":
            append = Journal.append

            def append_two(journal: Journal, block: Block, *rest: Any) -> None:
                if block.match == 3:
                    raise KeyboardInterrupt
                append(journal, block, *rest)

            patch.setattr(Journal, "append", append_two)
        else:
            lines = iter(range(100))

            def line(record: Record) -> bytes:
                if next(lines) == 99:
                    raise KeyboardInterrupt
                return record_line(record)

            patch.setattr(game_records, "record_line", line)
        assert main(["tournament", config, "--output", "out"]) == 130
    finished = 120 if where == "playing" else 180
    assert f"{finished} of 180 games were finished and are kept in out; the same command with --resume" in (
        capsys.readouterr().err
    )
    assert not Path("out/games.jsonl.gz").exists()
    assert tournament(config, "out", "--resume") == whole
    assert {path.name for path in Path("out").iterdir()} == {path.name for path in Path("whole").iterdir()}


def test_what_was_damaged_is_named_when_a_tournament_goes_on(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    tournament(config, "out", "games=20")
    path = Path("out/games.jsonl.gz")
    records = list(read_records(path))
    again = ("tournament", config, "--output", "out", "--resume")

    def damaged(number: int, **changes: object) -> str:
        write_records(path, [record | changes if at == number else record for at, record in enumerate(records)])
        return error_of(capsys, *again)

    assert "line 3: seed must be " in damaged(2, seed=1)
    assert "line 1: winner must be " in damaged(0, winner=1 - records[0]["winner"])
    assert "line 4: match must be {'number': 1, 'pair': 1}, got None" in damaged(3, match=None)
    assert re.search(r"line 2: the game had \d+ actions, got \d+; the file", damaged(1, deals=records[1]["deals"][:-1]))
    write_records(path, records[:-1])
    assert "games.jsonl.gz is cut short" in error_of(capsys, *again)
    path.write_bytes(gzip.compress(record_line(records[0]) + b"{}\n"))
    assert "line 2: deals: must be a list" in error_of(capsys, *again)
    path.unlink()
    assert "can't read 'out/games.jsonl.gz': No such file or directory" in error_of(capsys, *again)
    assert not Path("out/games.journal").exists()
    write_records(path, records)
    assert main(again) == 0


def test_records_are_made_only_on_request(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    tournament(config, "out")
    assert "records was True, now False" in error_of(
        capsys, "tournament", config, "records=false", "--output", "out", "--resume"
    )
    assert main(["tournament", config, "records=false", "--output", "out", "--overwrite"]) == 0
    assert not Path("out/games.jsonl.gz").exists()
    assert "--records writes the games' records in a folder: name it with --output" in error_of(
        capsys, "evaluate", "greedy", "random", "--games", "2", "--records"
    )
    assert main(["evaluate", "greedy", "random", "--games", "4", "--records", "--output", "two"]) == 0
    assert len(list(read_records("two/games.jsonl.gz"))) == 4


def test_games_of_many_actions() -> None:
    """More than there is room for at first; and the records don't depend on the batch."""
    agent = make_agent("random")
    config = TournamentConfig.model_validate(
        {"agents": ["random", {"spec": "random", "name": "b"}], "games": 12, "rules": {"target": 200}, "seed": 3}
    )
    (match,) = matches_of(config)
    lines = []
    for batch in (3, 100):
        log = ActionLog()
        (games,) = play_blocks(agent, agent, 6, 3, rules=config.rules.rules(), batch=batch, observers=[log])
        actions = log.take(games)
        lengths = np.diff(action_ends(games), prepend=0)
        assert lengths.max() > 150
        lines.append([record_line(record) for record in records_of(games, actions, match, config)])
        with pytest.raises(ValueError, match=r"the games have \d+ actions, got \d+"):
            list(records_of(games, actions[:-1], match, config))
    assert lines[0] == lines[1]
