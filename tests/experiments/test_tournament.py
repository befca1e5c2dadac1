"""The commands `cribbage tournament` and `cribbage evaluate`: what they write, print, refuse and keep."""

from __future__ import annotations

import csv
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
import yaml

from agents import AgentError, make_agent
from experiments.cli import main
from experiments.config import EntrantConfig, TournamentConfig, UserError, load_config
from experiments.tournament.games_file import GAME_COLUMNS
from experiments.tournament.journal import Journal
from experiments.tournament.match import play_blocks
from experiments.tournament.picture import draw_win_rates
from experiments.tournament.plan import Block
from experiments.tournament.report import table
from experiments.tournament.round_robin import make_entrants
from experiments.tournament.summary import MatchSummary

RESULTS = {"games.csv", "summary.csv", "ratings.csv", "config.yaml", "win_rates.png", "report.html", "sessions.json"}
UNFINISHED = RESULTS | {"games.journal"}


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small tournament's config, in the working directory."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "small.yaml"
    path.write_text("agents: [random, greedy, {spec: greedy, name: 'the, other'}]\ngames: 60\nname: small\n")
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """The one line that a command ends with when its input is bad."""
    capsys.readouterr()
    try:
        code = main(argv)
    except SystemExit as stop:  # argparse's way
        code = stop.code
    captured = capsys.readouterr()
    assert code == 2
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


# What is written


def test_tournament_writes_its_results_and_prints_the_tables(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tournament", str(config), "--seed", "3", "rules.target=61"]) == 0
    folder = tmp_path / "runs" / "small"
    assert {path.name for path in folder.iterdir()} == RESULTS

    games = rows_of(folder / "games.csv")
    assert list(games[0]) == list(GAME_COLUMNS)
    assert len(games) == 3 * 60
    assert [row["match"] for row in games] == [str(match) for match in (1, 2, 3) for _ in range(60)]
    assert [row["pair"] for row in games[:60]] == [str(pair) for pair in range(30) for _ in range(2)]
    players = {"1": {"random", "greedy"}, "2": {"random", "the, other"}, "3": {"greedy", "the, other"}}
    for row, after in zip(games[0::2], games[1::2], strict=True):
        assert {row["seat_0"], row["seat_1"]} == players[row["match"]]
        assert (row["seat_0"], row["seat_1"]) == (after["seat_1"], after["seat_0"])
        assert row["seed"] == after["seed"]
        seat = [row["seat_0"], row["seat_1"]].index(row["first_dealer"])
        assert [after["seat_0"], after["seat_1"]].index(after["first_dealer"]) == seat
    for row in games:
        assert row[f"score_{[row['seat_0'], row['seat_1']].index(row['winner'])}"] == "61"
        assert row["forfeit"] == ""
    assert [row["seed"] for row in games[:60]] == [row["seed"] for row in games[60:120]]  # all matches: the same deals

    summary = rows_of(folder / "summary.csv")
    assert [(row["a"], row["b"]) for row in summary] == [
        ("random", "greedy"), ("random", "the, other"), ("greedy", "the, other")
    ]  # fmt: skip
    for number, row in enumerate(summary, 1):
        won = [game["winner"] == row["a"] for game in games if game["match"] == str(number)]
        assert int(row["a_wins"]) == sum(won)
        assert float(row["a_win_rate"]) == pytest.approx(sum(won) / 60, abs=1e-6)
        assert float(row["a_win_rate_low"]) <= float(row["a_win_rate"]) <= float(row["a_win_rate_high"])
        parts = ("heels", "play_dealer", "hand_dealer", "crib")
        assert sum(float(row[f"a_{part}"]) for part in parts) == pytest.approx(float(row["a_dealer"]), abs=1e-5)

    noted = yaml.safe_load((folder / "config.yaml").read_text())
    assert noted["seed"] == 3
    assert noted["games"] == 60
    assert {"cribbage-lab", "python", "numpy", "numba"} <= noted["made_with"].keys()
    again = load_config(folder / "config.yaml", TournamentConfig)
    assert again.rules.target == 61

    assert (folder / "win_rates.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    for text in (
        "A wins",
        "first dealer wins",
        "as pone",
        "the, other",
        "[",
        "±",
        *(f"runs/small/{n}" for n in RESULTS - {"sessions.json"}),
    ):
        assert text in printed


def test_same_seed_same_bytes_also_with_another_batch(config: Path, tmp_path: Path) -> None:
    for folder, *options in (("one",), ("two",), ("three", "batch=7"), ("four", "seed=2")):
        assert main(["tournament", str(config), *options, "--output", str(tmp_path / folder)]) == 0
    one = tmp_path / "one"
    for name in ("games.csv", "summary.csv", "ratings.csv", "win_rates.png"):
        assert (one / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
        assert (one / name).read_bytes() == (tmp_path / "three" / name).read_bytes()
    assert (one / "games.csv").read_bytes() != (tmp_path / "four" / "games.csv").read_bytes()


def test_the_noted_config_repeats_the_tournament(config: Path, tmp_path: Path) -> None:
    assert main(["tournament", str(config), "games=20"]) == 0
    first = tmp_path / "runs" / "small"
    assert main(["tournament", str(first / "config.yaml"), "--output", "again"]) == 0
    assert (first / "games.csv").read_bytes() == (tmp_path / "again" / "games.csv").read_bytes()


def test_evaluate_is_the_tournament_of_two(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "random", "greedy", "--games", "60", "--output", "pair"]) == 0
    assert main(["tournament", str(config), "--output", "three"]) == 0
    assert rows_of(Path("pair/games.csv")) == rows_of(Path("three/games.csv"))[:60]
    assert {path.name for path in Path("pair").iterdir()} == RESULTS
    capsys.readouterr()
    assert main(["evaluate", "random", "greedy", "--games", "60", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    expected = rows_of(Path("pair/summary.csv"))[0]
    assert {key: str(value) for key, value in figures.items()} == expected
    assert not Path("runs").exists()
    assert main(["evaluate", "random", "greedy", "--games", "2", "--json", "--target", "31"]) == 0
    assert json.loads(capsys.readouterr().out)["deals_per_game_low"] is None  # one pair: no NaN in JSON


def test_evaluate_prints_without_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["evaluate", "greedy", "greedy", "--games", "2"]) == 0
    printed = capsys.readouterr().out
    assert "greedy-2" in printed
    assert "intervals are rough" in printed or "every pair was split" in printed
    assert list(tmp_path.iterdir()) == []


# Agents


def test_a_slow_agent_can_play_fewer_games(tmp_path: Path) -> None:
    config = tmp_path / "slow.yaml"
    config.write_text("agents: [random, greedy, {spec: expected, games: 4}]\ngames: 10\n")
    folder = tmp_path / "results"
    assert main(["tournament", str(config), "--output", str(folder)]) == 0
    played = {(row["a"], row["b"]): int(row["games"]) for row in rows_of(folder / "summary.csv")}
    assert played == {("random", "greedy"): 10, ("random", "expected"): 4, ("greedy", "expected"): 4}


def test_entrants_have_names_of_their_own() -> None:
    specs = [EntrantConfig(spec="greedy"), EntrantConfig(spec="greedy"), EntrantConfig(spec="random", name="greedy-2"),
             EntrantConfig(spec="greedy")]  # fmt: skip
    assert [agent.name for agent in make_entrants(specs)] == ["greedy", "greedy-3", "greedy-2", "greedy-4"]
    with pytest.raises(UserError, match="'me'"):
        make_entrants([EntrantConfig(spec="greedy", name="me"), EntrantConfig(spec="random", name="me")])
    with pytest.raises(AgentError):
        make_entrants([EntrantConfig(spec="greedy"), EntrantConfig(spec="gredy")])


OWN_AGENT = """
import time
import numpy as np
from agents import Agent, register_agent

class Own(Agent):
    def __init__(self, mode: str = "fine", seconds: float = 0.0):
        super().__init__("own")
        self.mode, self.seconds = mode, seconds

    def policy(self, observations, masks):
        if self.seconds:
            with open("asked", "w") as file:
                file.write("yes")
        time.sleep(self.seconds)
        if self.mode == "raise":
            raise RuntimeError("a bug of the user's")
        if self.mode == "floats":
            return np.full(masks.shape, np.nan)
        return np.eye(19)[masks.argmax(axis=1) if self.mode == "fine" else masks.argmin(axis=1)]

    def act(self, observations, masks, keys=None):
        policy = self.policy(observations, masks)
        return policy[:, 0] if self.mode == "floats" else policy.argmax(axis=1)

class Policy(Agent):
    def __init__(self, mode: str):
        super().__init__("policy")
        self.mode = mode

    def policy(self, observations, masks):
        policy = masks / masks.sum(axis=1, keepdims=True)
        if self.mode == "nan":
            policy[0] = np.nan
        if self.mode == "negative":
            policy[-1] -= 0.1
        return {"shape": policy[:, :5], "list": None}.get(self.mode, policy)

def broken():
    return {}["no such table"]

register_agent("own", Own)
register_agent("policy", Policy)
register_agent("none", dict)
register_agent("broken", broken)
"""


@pytest.fixture
def own_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "own_agent.py"
    path.write_text(OWN_AGENT)
    return path


def test_agents_of_a_users_module_take_part(own_agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.yaml").write_text("agents: [own, greedy]\nmodules: [own_agent.py]\ngames: 20\n")
    assert main(["tournament", "own.yaml"]) == 0
    assert {row["seat_0"] for row in rows_of(Path("runs/tournament/games.csv"))} == {"own", "greedy"}
    assert main(["evaluate", "own", "greedy", "--module", "own_agent.py", "--games", "20"]) == 0
    assert "forfeit" not in capsys.readouterr().out


def test_forfeits_are_counted_and_shown(own_agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["evaluate", "own:mode=illegal", "random", "--module", "own_agent.py", "--games", "20", "--output", "out"]
    assert main(argv) == 0
    assert "own:mode=illegal lost 20 games by illegal actions" in capsys.readouterr().out
    assert {row["forfeit"] for row in rows_of(Path("out/games.csv"))} == {"own:mode=illegal"}
    assert rows_of(Path("out/summary.csv"))[0]["a_forfeits"] == "20"


def test_an_agent_that_breaks_the_contract_is_named(own_agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["evaluate", "own:mode=floats", "random", "--module", "own_agent.py", "--games", "4", "--output", "out"]
    said = error_of(capsys, *argv)
    assert "'own:mode=floats': act must return" in said
    assert "in the match own:mode=floats – random" in said
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("nan", "probabilities must be finite, not negative and not all zero, got [nan, "),
        ("negative", "probabilities must be finite, not negative and not all zero, got ["),
        ("shape", "policy must return probabilities of shape ("),
        ("list", "policy must return probabilities of shape ("),
    ],
)
def test_an_agent_with_no_probabilities_is_named(
    own_agent: Path, capsys: pytest.CaptureFixture[str], mode: str, says: str
) -> None:
    argv = ["evaluate", f"policy:mode={mode}", "random", "--module", "own_agent.py", "--games", "4"]
    said = error_of(capsys, *argv)
    assert f"the agent 'policy:mode={mode}' failed in the match policy:mode={mode} – random: {says}" in said


def test_a_factory_that_makes_no_agent_is_named(own_agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--module", "own_agent.py", "--games", "4"]
    said = error_of(capsys, "evaluate", "none", "random", *argv)
    assert "'none': the factory registered as 'none' must return an agents.Agent, got dict" in said
    said = error_of(capsys, "evaluate", "broken", "random", *argv)
    assert "'broken': the agent can't be made: KeyError: 'no such table'" in said


def test_what_was_finished_before_an_agent_fails_is_kept(own_agent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.yaml").write_text(
        "agents: [greedy, random, 'own:mode=raise']\nmodules: [own_agent.py]\ngames: 20\noutput: out\n"
    )
    said = error_of(capsys, "tournament", "own.yaml")
    assert "'own:mode=raise' failed in the match greedy – own:mode=raise: RuntimeError: a bug of the user's" in said
    assert "(own_agent.py, line 17)" in said
    assert {path.name for path in Path("out").iterdir()} == UNFINISHED
    assert len(rows_of(Path("out/games.csv"))) == 20
    assert len(rows_of(Path("out/summary.csv"))) == 1


# Bad input


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["games=0"], "games: must be greater than or equal to 2, got 0"),
        (["games=-4"], "games: must be greater than or equal to 2, got -4"),
        (["games=7"], "say 6 or 8"),
        (["games=1000000000000000000000000000000"], "games: must be less than or equal to 1000000000"),
        (["games=many"], "games: must be a valid integer, got 'many'"),
        (["agents=[greedy]"], "at least two agents, there is 1"),
        (["agents=[]"], "at least two agents, there is none"),
        (["agents=[greedy, gredy]"], "did you mean 'greedy'?"),
        (["agents=[greedy, 'greedy:depth=3']"], "unknown option 'depth'"),
        (["agents=[greedy, {spec: random, nane: x}]"], "unknown key 'agents.1.nane'; did you mean 'name'?"),
        (["agents=[{spec: greedy, name: x}, {spec: random, name: x}]"], "the name 'x' is given to more than one"),
        (["agents=[greedy, missing.pt]"], "missing.pt"),
        (["modules=[missing.py]"], "missing.py"),
        (["rules.target=1"], "target must lie between 2 and 200, got 1"),
        (["rules.skunk=often"], "skunk must be an integer, None or 'auto', got 'often'"),
        (["game=4"], "unknown key 'game'; did you mean 'games'?"),
        (["games"], "an override looks like key=value"),
        (["--seed", "-1"], "seed: must be greater than or equal to 0"),
        (["--seed", "x"], "invalid int value: 'x'"),
        (["batch=0"], "batch: must be greater than or equal to 1"),
        (["name=a/b"], "name: "),
        (["--output", "small.yaml"], "can't write to the output folder 'small.yaml'"),
        (["--output", "small.yaml/below"], "can't write to the output folder"),
        (["--output", "."], "no results of a tournament"),
        (["--output", ".", "--overwrite"], "no results of a tournament"),
        (["--resume"], "there is no tournament to resume in 'runs/small'"),
        (["--resume", "--overwrite"], "not allowed with argument"),
        (["--jobs", "0"], "jobs: must be greater than or equal to 1, got 0"),
        (["--shard", "0/3"], "shard: a shard looks like 2/8, the second of eight, got '0/3'"),
        (["--shard", "4/3"], "got '4/3'"),
        (["--shard", "half"], "got 'half'"),
        (["--shard", "1/31"], "shard: 1/31 has no games"),
        (["backend=dask"], "backend: dask and scheduler: ADDRESS belong together"),
        (["scheduler=localhost:1"], "backend: dask and scheduler: ADDRESS belong together"),
        (["format=excel"], "format: must be 'csv' or 'parquet', got 'excel'"),
        (["--fast"], "unrecognized arguments: --fast"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert says in error_of(capsys, "tournament", "small.yaml", *arguments)
    assert list(tmp_path.iterdir()) == [config]


def test_missing_config_names_those_that_are_there(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no config file 'smal.yaml' (there are small.yaml)" in error_of(capsys, "tournament", "smal.yaml")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["random", "gredy"], "did you mean 'greedy'?"),
        (["random", "greedy", "--games", "3"], "say 2 or 4"),
        (["random", "greedy", "--games", "0"], "must be greater than or equal to 2, got 0"),
        (["random", "greedy", "--target", "500"], "target must lie between 2 and 200, got 500"),
        (["random", "greedy", "--module", "no_such_module"], "can't import the module 'no_such_module'"),
        (["random", ""], "agents.1.spec"),
    ],
)
def test_evaluate_refuses_bad_input(capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert says in error_of(capsys, "evaluate", *arguments)


def test_results_are_replaced_only_when_asked(config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "runs" / "small"
    assert main(["tournament", "small.yaml", "games=4"]) == 0
    before = (folder / "games.csv").read_bytes()
    assert "--overwrite" in error_of(capsys, "tournament", "small.yaml", "games=6")
    assert (folder / "games.csv").read_bytes() == before
    assert main(["tournament", "small.yaml", "games=6", "--overwrite"]) == 0
    assert len(rows_of(folder / "games.csv")) == 18


def test_evaluate_resumes_only_in_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    assert "name it with --output" in error_of(capsys, "evaluate", "random", "greedy", "--resume")


def test_a_folder_that_another_process_writes_to_is_refused(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "held"
    hold = (
        "import sys, pathlib; from experiments.run_folder import make_folder;"
        "make_folder(pathlib.Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    other = subprocess.Popen(
        [sys.executable, "-c", hold, str(folder)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    said = error_of(capsys, "tournament", str(config), "--output", str(folder))
    assert "another command is writing to" in said
    other.kill()  # however it ends, the folder is free again
    other.wait()
    assert main(["tournament", str(config), "games=2", "--output", str(folder)]) == 0


def test_what_a_killed_tournament_leaves_is_no_result(config: Path) -> None:
    folder = Path("runs/small")
    folder.mkdir(parents=True)
    (folder / "games.csv.tmp").write_text("match,pair\n1,")
    assert main(["tournament", "small.yaml", "games=2"]) == 0
    assert {path.name for path in folder.iterdir()} == RESULTS


# Stopping


def start(*argv: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", *argv],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background may have been told to ignore Ctrl-C, and children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_until_larger(path: Path, size: int, process: subprocess.Popen[str]) -> None:
    for _ in range(600):
        if path.exists() and path.stat().st_size > size:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError(f"{path} did not grow")


def test_ctrl_c_keeps_whole_pairs(tmp_path: Path) -> None:
    (tmp_path / "long.yaml").write_text("agents: [greedy, random]\ngames: 1000000\nbatch: 256\noutput: out\n")
    process = start("tournament", "long.yaml", folder=tmp_path)
    wait_until_larger(tmp_path / "out" / "games.journal", 2000, process)
    process.send_signal(signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "of 1,000,000 games were finished" in errors
    assert "are kept in out; the same command with --resume goes on" in errors
    out = tmp_path / "out"
    assert {path.name for path in out.iterdir()} == UNFINISHED
    kept = rows_of(out / "games.csv")
    assert 0 < len(kept) < 1_000_000
    assert [row["pair"] for row in kept] == [str(pair) for pair in range(len(kept) // 2) for _ in range(2)]
    assert rows_of(out / "summary.csv")[0]["games"] == str(len(kept))
    assert f"{len(kept):,}" in printed
    # they are the first games of the tournament that was asked for
    assert main(["evaluate", "greedy", "random", "--games", str(len(kept)), "--output", str(tmp_path / "same")]) == 0
    assert (out / "games.csv").read_bytes() == (tmp_path / "same" / "games.csv").read_bytes()


def test_a_second_ctrl_c_does_not_wait_for_a_slow_agent(own_agent: Path, tmp_path: Path) -> None:
    argv = ["evaluate", "own:seconds=100", "random", "--module", "own_agent.py", "--output", "out"]
    process = start(*argv, folder=tmp_path)
    wait_until_larger(tmp_path / "asked", 0, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert "0 of 2,000 games were finished" in errors
    assert not (tmp_path / "out").exists()


SLOW_AGENT = """
import time
from agents import register_agent
from agents.greedy import GreedyAgent

class Slow(GreedyAgent):
    def act(self, observations, masks, keys=None):
        time.sleep(0.02 * len(observations))
        return super().act(observations, masks, keys)

register_agent("slow", Slow)
"""


def test_one_ctrl_c_ends_a_slow_agents_step(tmp_path: Path) -> None:
    """A step of it takes 40 seconds: it is cut into slices."""
    (tmp_path / "slow_agent.py").write_text(SLOW_AGENT)
    argv = ["evaluate", "slow", "slow", "--module", "slow_agent.py", "--batch", "2000", "--output", "out"]
    process = start(*argv, folder=tmp_path)
    wait_until_larger(tmp_path / "out" / "sessions.json", 0, process)
    time.sleep(3)
    asked = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert time.monotonic() - asked < 5
    assert process.returncode == 130
    assert "Traceback" not in errors


class FullDisk:
    """A file that takes half of what is written, then has no room."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._full = False

    def write(self, data: bytes) -> int:
        if self._full:
            raise OSError(28, "No space left on device")
        self._full = True
        return int(self._file.write(data[: len(data) // 2]))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def test_the_journal_keeps_whole_blocks_when_the_disk_is_full(tmp_path: Path) -> None:
    blocks = list(play_blocks(make_agent("random"), make_agent("random"), 20, 1, batch=4, block_pairs=10))
    assert len(blocks) == 2
    first, second = (Block(1, int(games["pair"][0]), len(games) // 2) for games in blocks)
    journal = Journal.open(tmp_path / "games.journal")
    journal.append(first, blocks[0], 1.5)
    journal._file = FullDisk(journal._file)
    with pytest.raises(UserError, match=r"can't write .*: No space left on device; \d+ games are kept, .* --resume"):
        journal.append(second, blocks[1], 1.0)
    assert journal.games == len(blocks[0])
    journal.close()
    again = Journal.open(tmp_path / "games.journal")
    assert again.damaged == 0
    assert np.concatenate(list(again.read(1, 0, 20))).tobytes() == blocks[0].tobytes()
    assert again.seconds(1) == 1.5
    again.close()


# Start-up, tables, pictures


def test_evaluate_loads_only_what_it_plays() -> None:
    """A start within seconds: no torch, matplotlib or pandas for two agents that need none."""
    code = (
        "import sys; from experiments.cli import main; main(['evaluate', 'random', 'greedy', '--games', '2']); "
        "print([m for m in ('torch', 'matplotlib', 'pandas', 'scipy.stats', 'tensorboard') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_table_is_aligned() -> None:
    text = table([["name", "x", "y"], ["a", "1", "22"], ["longer", "333", "4"]], left=1)
    assert text.splitlines() == [
        "name      x   y",
        "------  ---  --",
        "a         1  22",
        "longer  333   4",
    ]


def test_pictures_of_many_agents_and_extreme_rates(tmp_path: Path) -> None:
    def match(a: str, b: str, won: int) -> MatchSummary:
        summary = MatchSummary((a, b))
        for games in play_blocks(make_agent("random"), make_agent("random"), 10, 1):
            games["winner"] = np.arange(len(games)) >= won
            summary.add(games)
        return summary

    names = [f"agent {i} " + "x" * 8 * i for i in range(7)]
    summaries = [match(a, b, 5 * (i % 5)) for i, a in enumerate(names) for b in names[:i]]
    config = TournamentConfig(agents=names, games=20)
    for name, some in (("many.png", summaries), ("one.png", summaries[:1])):
        draw_win_rates(tmp_path / name, some, config)
        assert (tmp_path / name).stat().st_size > 10_000
