"""`cribbage solve`: what it writes, that it can be stopped anywhere, and what it refuses."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import yaml

from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.solver import exploitability, play_value
from agents.equilibrium.strategy import load_strategy
from agents.equilibrium.traverse import Walker
from agents.equilibrium.tree_cache import load_tree
from experiments import cli
from experiments.config import EntrantConfig, SolveConfig, TournamentConfig, UserError, load_config
from experiments.solving import memory
from experiments.solving.progress import Check, Progress, read_checks
from experiments.solving.run import Solve
from experiments.solving.state import read_state
from experiments.solving.tables import hand_values, leads, leads_by_ranks
from experiments.tournament.identity import file_digests

ROOT = Path(__file__).resolve().parents[2]
SMALL = {"name": "small", "prior": "uniform", "cards": 3, "iterations": 12, "check_every": 4, "small": 1e-5}
SLOWLY = (  # with a state after every iteration
    "import time, experiments.solving.run as run; run._SECONDS_A_STATE = 0.0; iterate = run.Solver.iterate; "
    "run.Solver.iterate = lambda solver: (time.sleep(0.15), iterate(solver)); "
)


@pytest.fixture(scope="module", autouse=True)
def tree_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A cache of trees for these tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trees"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRIBBAGE_CACHE_DIR", str(folder))
        yield


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The config of a small game: three cards each, dealt at random."""
    path = tmp_path_factory.mktemp("config") / "small.yaml"
    path.write_text(yaml.safe_dump(SMALL), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def solved(config: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a solve that nothing disturbed."""
    folder = tmp_path_factory.mktemp("solved") / "run"
    assert cli.main(["solve", str(config), "--output", str(folder)]) == 0
    return folder


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def command(config: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs `cribbage solve` here: (exit code, output, errors)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.main(["solve", str(config), *arguments])
        return code, *capsys.readouterr()

    return run


def start(folder: Path, config: Path, *arguments: str, before: str = "") -> subprocess.Popen[str]:
    """Starts `cribbage solve` in a process of its own, after some statements."""
    code = before + "import sys; from experiments import cli; sys.exit(cli.main(sys.argv[1:]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, "solve", str(config), "--output", str(folder), *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def same_result(folder: Path, other: Path) -> bool:
    """Whether two solves have the same state, strategies, tables and checks, byte for byte, but for times."""
    states = [read_state(one / "state.npz").arrays for one in (folder, other)]
    strategies = [
        [load_strategy(one / name) for name in ("strategy.bin", "strategy-small.bin")] for one in (folder, other)
    ]
    checks = [
        [(check.iteration, check.exploitability, check.pone_best) for check in read_checks(one / "progress.csv")]
        for one in (folder, other)
    ]
    return (
        states[0].keys() == states[1].keys()
        and all(states[0][name].tobytes() == states[1][name].tobytes() for name in states[0])
        and all((a.values == b.values).all() for a, b in zip(*strategies, strict=True))
        and (folder / "hand_values.csv").read_bytes() == (other / "hand_values.csv").read_bytes()
        and (folder / "leads.png").read_bytes() == (other / "leads.png").read_bytes()
        and checks[0] == checks[1]
    )


# --- What comes out -----------------------------------------------------------------------------------------


def test_the_folder(solved: Path, config: Path) -> None:
    assert {path.name for path in solved.iterdir()} == {
        "config.yaml", "sessions.json", "state.npz", "progress.csv", "exploitability.png", "strategy.bin",
        "strategy-small.bin", "hand_values.csv", "leads.png", "summary.json",
    }  # fmt: skip
    for name in ("exploitability.png", "leads.png"):
        assert (solved / name).read_bytes().startswith(b"\x89PNG\r\n")
    again = load_config(solved / "config.yaml", SolveConfig)  # it can be given to the command again
    assert again.model_dump(exclude={"output"}) == load_config(config, SolveConfig).model_dump(exclude={"output"})
    (session,) = json.loads((solved / "sessions.json").read_text())
    assert session["iterations_before"] == 0
    assert session["made_with"]["numba"]

    checks = read_checks(solved / "progress.csv")
    assert [check.iteration for check in checks] == [4, 8, 12]
    assert all(a.seconds < b.seconds and a.cpu_seconds < b.cpu_seconds for a, b in pairwise(checks))
    assert checks[0].exploitability > 5 * checks[-1].exploitability > 0
    for check in checks:
        assert check.exploitability == pytest.approx((check.pone_best + check.dealer_best) / 2)


def test_certificates_hold(solved: Path) -> None:
    tree = load_tree(3)
    walker = Walker(tree, dealt_weights(3))
    summary = json.loads((solved / "summary.json").read_text())
    for name in ("strategy.bin", "strategy-small.bin"):
        strategy = load_strategy(solved / name)
        policy = strategy.policy(tree)
        best = exploitability(walker, policy)
        assert strategy.facts.exploitability == best.mean
        assert strategy.facts.value == play_value(walker, policy)
        # rounded to a byte it is nearly as good as the average that was checked last
        assert best.mean == pytest.approx(read_checks(solved / "progress.csv")[-1].exploitability, abs=1e-3)
    assert summary["exploitability"] == load_strategy(solved / "strategy.bin").facts.exploitability
    assert summary["small"]["bytes"] == (solved / "strategy-small.bin").stat().st_size
    assert load_strategy(solved / "strategy-small.bin").facts.left_out == 1e-5


def test_the_values_of_hands_add_up_to_that_of_the_game(solved: Path) -> None:
    with (solved / "hand_values.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 455
    assert rows[0]["hand"] == "A A A"
    assert rows[-1]["hand"] == "K K K"
    value = load_strategy(solved / "strategy.bin").facts.value
    for seat, sign in (("pone", 1), ("dealer", -1)):
        frequencies = np.array([float(row[f"{seat}_frequency"]) for row in rows])
        values = np.array([float(row[f"{seat}_value"]) for row in rows])
        assert frequencies.sum() == pytest.approx(1.0, abs=1e-4)
        assert (frequencies * values).sum() == pytest.approx(sign * value, abs=1e-4)  # six digits each
        assert values.max() - values.min() > 1.0
    for row in rows:
        assert row["lead"] in row["hand"].split()
        assert 1 / 3 - 0.01 <= float(row["lead_probability"]) <= 1.0
    leads_of_fives = [row for row in rows if row["lead"] == "5" and row["hand"] != "5 5 5"]
    assert len(leads_of_fives) < 5


def test_the_value_of_a_hand_is_what_it_wins_against_what_it_meets() -> None:
    """A prior that keeps half of the hands: values by walks with one hand at a time."""
    tree, random = load_tree(2), dealt_weights(2)
    rng = np.random.default_rng(1)
    joint = random * (rng.random((91, 1)) < 0.5) * (rng.random((1, 91)) < 0.5)
    joint /= joint.sum()
    policy = np.zeros(tree.policy_size, np.float32)
    policy[:] = 0.5
    pone, dealer = hand_values(tree, joint, random, policy)
    assert 20 < (pone.frequency > 0).sum() < 70
    usual = {0: joint.sum(axis=0) / random.sum(axis=0), 1: joint.sum(axis=1) / random.sum(axis=1)}
    for seat, values, table in ((0, pone, joint), (1, dealer, joint.T)):
        assert values.frequency == pytest.approx(table.sum(axis=1))
        for hand in range(0, 91, 7):
            given = table[hand] if values.frequency[hand] > 0 else random[hand] * usual[seat]
            single = np.zeros((91, 91))
            single[hand] = given / given.sum()
            value = play_value(Walker(tree, single if seat == 0 else single.T), policy)
            assert values.value[hand] == pytest.approx(value if seat == 0 else -value, abs=1e-5)
    total = (pone.frequency * pone.value).sum()
    assert total == pytest.approx(play_value(Walker(tree, joint), policy), abs=1e-5)
    assert (dealer.frequency * dealer.value).sum() == pytest.approx(-total, abs=1e-5)


def test_leads() -> None:
    tree = load_tree(2)
    policy = np.zeros(tree.policy_size, np.float32)
    policy[: tree.slots[1] : 2] = 0.75  # of two ranks the lower one
    policy[1 : tree.slots[1] : 2] = 0.25
    lead = leads(tree, policy)
    assert lead.sum(axis=1) == pytest.approx(np.ones(91))
    assert lead[0].tolist() == [1.0] + 12 * [0.0]  # two aces
    assert lead[1].tolist() == [0.75, 0.25] + 11 * [0.0]
    frequency = np.zeros(91)
    frequency[[0, 1, 2]] = 0.5, 0.3, 0.2  # A A, A 2, A 3
    rates = leads_by_ranks(frequency, lead)
    assert rates.shape == (13, 14)
    assert rates[0, :3].tolist() == pytest.approx([1.0, 0.75, 0.75])
    assert rates[0, 13] == pytest.approx(0.5 + 0.5 * 0.75)
    assert rates[1, 0] == rates[1, 13] == pytest.approx(0.25)
    assert np.isnan(rates[1, 1])
    assert np.isnan(rates[5]).all()


def test_a_starter_that_is_known(command: Command, tmp_path: Path) -> None:
    code, out, _ = command("starter=10", "cards=2", "small=0", "iterations=5", "--output", str(tmp_path / "run"))
    assert code == 0
    assert "play it" not in out  # the agent needs one for any starter
    facts = load_strategy(tmp_path / "run").facts
    assert (facts.starter, facts.tree.pack[9], sum(facts.tree.pack)) == (9, 3, 51)
    rows = list(csv.DictReader((tmp_path / "run" / "hand_values.csv").open(encoding="utf-8")))
    assert len(rows) == 91
    assert not (tmp_path / "run" / "strategy-small.bin").exists()


# --- Stopped and gone on ------------------------------------------------------------------------------------


def test_threads_and_a_pause_change_nothing(solved: Path, command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert command("--output", str(folder), "--threads", "1", "iterations=7")[0] == 0
    assert load_strategy(folder).facts.iterations == 7
    code, out, _ = command("--output", str(folder), "--resume", "--threads", "3")
    assert code == 0
    assert "12 iterations in" in out
    sessions = json.loads((folder / "sessions.json").read_text())
    assert [session["iterations_before"] for session in sessions] == [0, 7]
    # the check at the pause is the only difference
    text = (folder / "progress.csv").read_text().splitlines(keepends=True)
    assert text[2].startswith("7,")
    (folder / "progress.csv").write_text("".join(text[:2] + text[3:]))
    assert same_result(folder, solved)
    seconds = [check.seconds for check in read_checks(folder / "progress.csv")]
    assert seconds == sorted(seconds)


def test_a_finished_solve_can_be_asked_for_more_or_be_written_again(
    solved: Path, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(solved, folder)
    (folder / "strategy.bin").unlink()
    assert command("--output", str(folder), "--resume")[0] == 0  # nothing to do but to write it
    assert same_result(folder, solved)
    assert command("--output", str(folder), "--resume", "iterations=20")[0] == 0
    checks = read_checks(folder / "progress.csv")
    assert [check.iteration for check in checks] == [4, 8, 12, 16, 20]
    code, out, _ = command("--output", str(folder), "--resume", "iterations=null", "exploitability=0.5")
    assert code == 0
    assert "20 iterations" in out


def test_ends_at_the_first_check_that_is_good_enough(solved: Path, command: Command, tmp_path: Path) -> None:
    target = read_checks(solved / "progress.csv")[1].exploitability
    code, _, _ = command("--output", str(tmp_path / "run"), f"exploitability={target}", "small=0")
    assert code == 0
    assert load_strategy(tmp_path / "run").facts.iterations == 8
    code, out, _ = command("--output", str(tmp_path / "soon"), "minutes=1e-6", "small=0")
    assert code == 0
    assert "1 iterations" in out


def test_killed_and_resumed_it_ends_as_if_nothing_had_been(
    solved: Path, config: Path, command: Command, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    process = start(folder, config, "iterations=100000", "check_every=4", before=SLOWLY)
    deadline = time.monotonic() + 300
    try:
        while time.monotonic() < deadline and process.poll() is None:
            if len(read_checks(folder / "progress.csv")) >= 1 and (folder / "state.npz").exists():
                break
            time.sleep(0.02)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()
    state = read_state(folder / "state.npz")
    done = int(state.arrays["iterations"])
    assert 4 <= done + 1 <= 12
    with (folder / "progress.csv").open("a", encoding="utf-8") as file:
        file.write("9")  # cut off
    (folder / "state.npz.tmp").write_bytes(b"half")
    assert command("--output", str(folder), "--resume")[0] == 0
    assert same_result(folder, solved)
    assert not (folder / "state.npz.tmp").exists()


def test_ctrl_c_keeps_the_state(solved: Path, config: Path, command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(folder, config, "iterations=100000", "check_every=100000")
    assert process.stderr is not None
    while "throws" not in (line := process.stderr.readline()) and "the tree" not in line:
        assert line, "ended early"
    deadline = time.monotonic() + 300
    while not (folder / "progress.csv").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=300)
    assert process.returncode == 130, errors
    assert "with --resume goes on" in errors
    assert "Traceback" not in errors
    done = int(read_state(folder / "state.npz").arrays["iterations"])
    assert done >= 1
    assert not (folder / "strategy.bin").exists()
    code, out, _ = command("--output", str(folder), "--resume", f"iterations={done + 2}")
    assert code == 0
    assert f"{done + 2} iterations" in out


# --- What is refused ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (["prior=nobody", "cards=4"], r"unknown agent 'nobody'"),
        (["prior=greedy"], r"cards: 3 needs prior: uniform \(agents keep four cards\), got greedy"),
        (["starter=X"], r"starter: must be 'A', '2'.*got 'X'"),
        (["starter=true"], r"starter: must be .*got True"),
        (["cards=5"], r"cards: must be less than or equal to 4, got 5"),
        (["objective=wins"], r"objective: must be 'points', got 'wins'"),
        (["random_share=2"], r"random_share: must be less than or equal to 1, got 2"),
        (["exploitability=0"], r"exploitability: must be greater than 0, got 0"),
        (["iterations=null"], r"say when to end: set exploitability, iterations or minutes"),
        (["check_every=0"], r"check_every: must be greater than or equal to 1, got 0"),
        (["threads=0"], r"threads: must be greater than or equal to 1, got 0"),
        (["speed=3"], r"unknown key 'speed'"),
        (["modules=[nothing.here]"], r"can't import the module 'nothing.here'"),
    ],
)
def test_bad_settings_are_one_line(command: Command, tmp_path: Path, settings: list[str], says: str) -> None:
    code, out, errors = command("--output", str(tmp_path / "run"), *settings)
    assert (code, out) == (2, "")
    assert re.fullmatch(rf"error: .*{says}.*\n", errors)
    assert not (tmp_path / "run").exists()


def test_an_agent_that_has_no_policy_is_named(config: Path, command: Command, tmp_path: Path) -> None:
    module = tmp_path / "mine.py"
    module.write_text(
        "import numpy as np\n"
        "from agents import Agent, register_agent\n"
        "class Without(Agent):\n"
        "    def __init__(self):\n"
        "        super().__init__('without')\n"
        "class Wrong(Agent):\n"
        "    def __init__(self):\n"
        "        super().__init__('wrong')\n"
        "    def policy(self, observations, masks):\n"
        "        return np.zeros(masks.shape)\n"
        "register_agent('without', Without)\n"
        "register_agent('wrong', Wrong)\n",
        encoding="utf-8",
    )
    output = ["--output", str(tmp_path / "run"), "cards=4", f"modules=[{module}]"]
    code, _, errors = command(*output, "prior=without")
    assert code == 2
    assert "'without': the agent can't be made: TypeError" in errors
    assert "policy" in errors
    code, _, errors = command(*output, "prior=wrong")
    assert code == 2
    assert (
        "error: the agent 'wrong': the rows of a policy are probabilities of the legal actions and sum to 1" in errors
    )
    assert not (tmp_path / "run").exists()


def test_folders_that_are_not_free(solved: Path, command: Command, tmp_path: Path) -> None:
    before = {path.name: path.read_bytes() for path in solved.iterdir()}

    def refused(folder: Path, *arguments: str) -> str:
        code, out, errors = command("--output", str(folder), *arguments)
        assert (code, out) == (2, "")
        return errors

    assert "there is a solve in" in refused(solved)
    assert "was started with another config: random_share was 0.0002, now 0.5" in refused(
        solved, "--resume", "random_share=0.5"
    )
    assert {path.name: path.read_bytes() for path in solved.iterdir()} == before

    empty = tmp_path / "empty"
    assert "there is no solve to resume in" in refused(empty, "--resume")
    assert not empty.exists()
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("mine")
    assert "has 'thesis.txt' in it, which is not of a solve" in refused(foreign, "--overwrite")
    assert "is a file; choose another" in refused(foreign / "thesis.txt")
    assert (foreign / "thesis.txt").read_text() == "mine"

    damaged = tmp_path / "damaged"
    shutil.copytree(solved, damaged)
    whole = (damaged / "state.npz").read_bytes()
    for bad in (b"", b"x", whole[: len(whole) // 2], whole[:5000] + bytes(200) + whole[5200:]):
        (damaged / "state.npz").write_bytes(bad)
        errors = refused(damaged, "--resume")
        assert "is damaged" in errors
        assert "begin anew with --overwrite" in errors
        assert errors.count("\n") <= 2
    assert command("--output", str(damaged), "--overwrite", "iterations=4")[0] == 0
    assert [check.iteration for check in read_checks(damaged / "progress.csv")] == [4]


def test_too_little_memory_is_said_before_it_starts(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 500_000_000)
    code, _, errors = command("--output", str(tmp_path / "run"))
    assert code == 2
    assert "takes about 0.6 GB of memory, 0.5 GB are free" in errors
    assert not (tmp_path / "run").exists()
    monkeypatch.setattr(memory, "available", lambda: None)  # a system that does not tell
    assert command("--output", str(tmp_path / "run"), "iterations=1", "small=0")[0] == 0


def test_memory_that_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "meminfo"
    path.write_text("MemTotal:  24000 kB\nMemFree:  100 kB\nMemAvailable:   2048 kB\n")
    monkeypatch.setattr(memory, "_MEMINFO", path)
    assert memory.available() == 2048 * 1024
    for text in ("MemTotal: 1 kB\n", "", "MemAvailable: much kB\n", "MemAvailable:\n"):
        path.write_text(text)
        assert memory.available() is None
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    assert memory.available() is None


def test_a_full_disk_is_one_line(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load_config(config, SolveConfig, [f"output={tmp_path / 'run'}"])
    solve = Solve(settings)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.solving.run.write_state", full)
    with pytest.raises(UserError, match=r"can't write to '.*run': No space left on device; what was written before"):
        solve.run()


def test_progress_files(tmp_path: Path) -> None:
    progress = Progress(tmp_path, 0)
    for iteration in (5, 10, 15):
        progress.add(Check(iteration, iteration / 3, iteration / 2, 1 / iteration, -1.0, 1.0 + 2 / iteration))
    assert [check.exploitability for check in read_checks(tmp_path / "progress.csv")] == [1 / 5, 1 / 10, 1 / 15]
    on = Progress(tmp_path, 10)
    assert [check.iteration for check in on.checks] == [5, 10]
    assert on.at(10) is not None
    assert on.at(15) is None
    assert [check.iteration for check in read_checks(tmp_path / "progress.csv")] == [5, 10]
    assert Progress(tmp_path, 0).checks == []
    assert Check(1, 61.0, 2.0, 0.1, 0.0, 0.2).line().startswith("   1:01  iteration    1  exploitability 0.100000")


@pytest.mark.slow
def test_the_quick_config_solves_the_real_game(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert cli.main(["solve", str(ROOT / "configs/solve/quick.yaml"), "--output", str(folder)]) == 0
    facts = load_strategy(folder).facts
    assert 0 < facts.exploitability < 0.013
    assert facts.value == pytest.approx(-1.297, abs=0.01)
    with (folder / "hand_values.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 1820
    assert sum(float(row["pone_frequency"]) * float(row["pone_value"]) for row in rows) == pytest.approx(
        facts.value, abs=1e-4
    )
    never_kept = [row for row in rows if float(row["pone_frequency"]) == 0]
    assert len(never_kept) > 100
    assert all(-8 < float(row["pone_value"]) < 8 for row in never_kept)


def test_a_tournament_notes_which_strategy_was_played(solved: Path) -> None:
    """So that it is not resumed with another one."""
    specs = [f"equilibrium:path={solved}", f"equilibrium:path={solved / 'strategy.bin'}"]
    digests = file_digests(TournamentConfig(agents=[EntrantConfig(spec=spec) for spec in specs]))
    assert len(digests) == 2
    assert len(set(digests.values())) == 1
