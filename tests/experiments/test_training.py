"""Training: what is collected, what is learned, runs that are repeated, stopped and resumed, and what is refused."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import write_sample

from agents import make_agent
from agents.neural.checkpoint import KINDS, read_checkpoint
from agents.neural.features import discard_candidates, play_candidates
from cribbage_env import Game
from cribbage_env.streams import combine_arrays
from experiments import cli
from experiments.config import TrainConfig, UserError, load_config, parse_config
from experiments.tournament.match import play_match
from experiments.training.collect import collect
from experiments.training.dmc import DmcLearner
from experiments.training.run import Run
from experiments.training.streams import DECKS, stream

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "configs" / "train" / "quickstart.yaml"

SMALL: dict[str, Any] = {
    "seed": 3,
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 64},
    "network": {"discard_hidden": [8, 8], "play_hidden": [16, 8]},
    "learner": {"batch_size": 128, "subtract_luck": True},
    "budget": {"decisions": 1800},  # four iterations
    "evaluation": {"opponents": ["random"], "every": 900, "games": 20, "final_games": 40},
    "checkpoint": {"every": 900, "keep": 2},
}


def small(**changes: Any) -> TrainConfig:
    """The small config; a change of a section is merged into it."""
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in SMALL.items()}
    for key, value in changes.items():
        data[key] = data[key] | value if isinstance(data.get(key), dict) else value
    return parse_config(data, TrainConfig, "small")


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def untimed(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if "second" not in name} for row in rows]


# --- Collecting ---------------------------------------------------------------------------------------------


def play_by_hand(config: TrainConfig, agent: Any, number: int) -> dict[str, list[tuple[list[int], float, float]]]:
    """The decisions of a deal played through :class:`Game`: features, known points, the return by the game's events."""
    decks = np.array([stream(config.seed, DECKS)], np.uint64)
    game = Game(seed=int(combine_arrays(decks, np.array([number]))[0]), dealer=None)
    taken: list[tuple[str, int, list[int], float, int]] = []
    while game.deal == 0:
        legal = game.legal_actions()
        if len(legal) > 1:
            seen = game.observation()
            observation, mask = seen["observation"][None], seen["action_mask"][None]
            action = int(agent.act(observation, mask)[0])
            kind = game.phase
            candidates = (
                discard_candidates(observation, False)
                if kind == "discard"
                else play_candidates(observation, mask, False)
            )
            at = candidates.actions.tolist().index(action)
            assert game.player is not None
            features, known = candidates.features[at].tolist(), float(candidates.known[at])
            taken.append((kind, game.player, features, known, len(game.events)))
        game.step(action if len(legal) > 1 else legal[0])
    found: dict[str, list[tuple[list[int], float, float]]] = {kind: [] for kind in KINDS}
    for kind, seat, features, known, before in taken:
        total = 0.0
        for at, event in enumerate(game.events):
            points = event.points if event.player == seat else -event.points
            if config.learner.subtract_luck:
                if kind == "play" and event.kind in ("hand", "crib"):
                    points = 0
                if kind == "discard" and (event.kind == "heels" or (event.kind == "hand" and event.player != seat)):
                    points = 0
                if kind == "discard" and event.kind == "hand" and event.player == seat:
                    total += known
                    points = 0
            if at >= before:
                total += points
        found[kind].append((features, known, total))
    return found


@pytest.mark.parametrize("subtract_luck", [False, True])
def test_samples_are_what_was_played_with_the_return_that_followed(subtract_luck: bool, tmp_path: Path) -> None:
    config = small(collect={"epsilon": 0.0}, learner={"subtract_luck": subtract_luck})
    agent = make_agent(str(write_sample(tmp_path / "x.pt")))
    assert hasattr(agent, "candidates")
    samples = collect(agent, config, 40, 60)
    at = dict.fromkeys(KINDS, 0)
    for number in range(40, 100):
        for kind, decisions in play_by_hand(config, agent, number).items():
            for features, known, total in decisions:
                assert samples[kind].features[at[kind]].tolist() == features
                assert samples[kind].known[at[kind]] == np.float32(known)
                assert samples[kind].returns[at[kind]] == pytest.approx(total, abs=1e-4)
                at[kind] += 1
    assert at == {kind: len(samples[kind]) for kind in KINDS}
    assert at["discard"] == 120
    assert at["play"] > 200


def test_exploration_is_as_frequent_as_said_and_by_keys(tmp_path: Path) -> None:
    agent = make_agent(str(write_sample(tmp_path / "x.pt")))
    greedy, same, other = (
        collect(agent, small(collect={"epsilon": epsilon}, seed=seed), 0, 400)["discard"].features[::2]
        for epsilon, seed in ((0.0, 3), (0.0, 3), (0.3, 3))
    )
    assert (greedy == same).all()
    differ = (greedy != other).any(axis=1).mean()  # the pone's discards, before which nothing differs
    assert 0.2 < differ < 0.36  # 0.3 times 14 / 15


def test_splitting_episodes_between_threads_changes_nothing(tmp_path: Path) -> None:
    agent = make_agent(str(write_sample(tmp_path / "x.pt")))
    whole = collect(agent, small(), 10, 90)
    first, second = collect(agent, small(), 10, 40), collect(agent, small(), 50, 50)
    for kind in KINDS:
        for name in ("features", "known", "returns"):
            parts = [getattr(samples[kind], name) for samples in (first, second)]
            assert (np.concatenate(parts) == getattr(whole[kind], name)).all()


def test_whole_games_for_wins(tmp_path: Path) -> None:
    config = small(
        collect={"episode": "game", "reward": "win", "games": 30},
        network={"scores": True},
        learner={"subtract_luck": False},
        rules={"target": 61},
    )
    agent = make_agent(str(write_sample(tmp_path / "x.pt", scores=True)))
    samples = collect(agent, config, 0, 30)
    returns = samples["discard"].returns
    assert set(returns.tolist()) == {-1.0, 1.0}
    assert abs(returns.mean()) < 0.1  # of either seat alike
    assert len(returns) > 30 * 2 * 3


def test_a_deal_that_ends_the_game_keeps_its_return(tmp_path: Path) -> None:
    """With a target that a deal reaches, returns stay what the scores say, luck and all."""
    agent = make_agent(str(write_sample(tmp_path / "x.pt")))
    samples = [
        collect(agent, small(rules={"target": 5}, learner={"subtract_luck": luck}), 0, 50) for luck in (True, False)
    ]
    for kind in KINDS:
        assert (samples[0][kind].returns == samples[1][kind].returns).all()


# --- Learning -----------------------------------------------------------------------------------------------


def test_it_learns_to_beat_random() -> None:
    config = small(
        collect={"games": 1024},
        network={"discard_hidden": [32, 16], "play_hidden": [32, 16]},
        learner={"batch_size": 256},
        budget={"decisions": 200_000},
    )
    learner = DmcLearner(config, torch.device("cpu"), 2)
    untrained = learner.agent("untrained")
    losses = []
    decisions = iteration = 0
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        while decisions < 200_000:
            figures = learner.iterate(iteration, decisions / 200_000, pool)
            losses.append((figures["loss_discard"], figures["loss_play"]))
            decisions += int(figures["decisions"])
            iteration += 1
    assert losses[-1][0] < 0.75 * losses[0][0]
    assert losses[-1][1] < 0.95 * losses[0][1]
    trained = learner.agent("trained")
    assert play_match(trained, make_agent("random"), 300, 1).win_rate.low > 0.95
    assert play_match(trained, untrained, 600, 1).win_rate.low > 0.54  # which takes the points that are known


def test_the_same_seed_gives_the_same_bytes_whatever_the_threads(tmp_path: Path) -> None:
    written = []
    for threads in (1, 1, 3):
        config = small(threads=threads, output=str(tmp_path / f"{len(written)}"), collect={"games": 800})
        assert Run(config).train()
        content = read_checkpoint(tmp_path / f"{len(written)}")
        assert content["training"]["decisions"] > 1800
        written.append((tmp_path / f"{len(written)}" / "checkpoint.pt").read_bytes())
    weights = [read_checkpoint(tmp_path / str(i))["weights"] for i in range(3)]
    for kind in KINDS:
        for name, tensor in weights[0][kind].items():
            assert tensor.numpy().tobytes() == weights[2][kind][name].numpy().tobytes()
    assert Run(small(seed=4, output=str(tmp_path / "other"))).train()
    other = read_checkpoint(tmp_path / "other")["weights"]
    assert not torch.equal(other["play"]["embeddings"], weights[0]["play"]["embeddings"])


def test_equal_runs_are_equal_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        assert Run(small()).train()
        written.append(Path("runs/train/checkpoint.pt").read_bytes())
    assert written[0] == written[1]


# --- Runs ---------------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a kill at a bad moment."""


def kill_after(monkeypatch: pytest.MonkeyPatch, iterations: int) -> None:
    """Let the learner die in an iteration."""
    iterate = DmcLearner.iterate

    def dying(self: DmcLearner, iteration: int, *rest: Any) -> dict[str, float]:
        if iteration == iterations:
            raise Killed
        return iterate(self, iteration, *rest)

    monkeypatch.setattr(DmcLearner, "iterate", dying)


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_a_resumed_run_ends_where_an_unbroken_one_does(
    iterations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("whole", "broken"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert Run(small()).train()
    monkeypatch.chdir(tmp_path / "broken")
    with monkeypatch.context() as patch:
        kill_after(patch, iterations)
        with pytest.raises(Killed):
            Run(small()).train()
    with Path("runs/train/metrics.csv").open("a") as file:
        file.write("3,19")  # a row cut off by the kill
    Run(small(threads=2), resume=True).train(["cribbage", "train"])
    monkeypatch.chdir(tmp_path)
    whole, broken = tmp_path / "whole/runs/train", tmp_path / "broken/runs/train"
    contents = [read_checkpoint(folder) for folder in (whole, broken)]
    for content in contents:
        content["training"]["config"].pop("threads")
    for kind in KINDS:
        for name, tensor in contents[0]["weights"][kind].items():
            assert tensor.numpy().tobytes() == contents[1]["weights"][kind][name].numpy().tobytes()
            for part, state in contents[0]["training"]["optimisers"][kind][name].items():
                assert torch.equal(state, contents[1]["training"]["optimisers"][kind][name][part])
    assert contents[0]["training"]["decisions"] == contents[1]["training"]["decisions"]
    assert untimed(rows_of(whole)) == untimed(rows_of(broken))
    assert [row["iteration"] for row in rows_of(broken)] == ["1", "2", "3", "4"]
    assert json.loads((broken / "sessions.json").read_text())[0]["decisions"] == 0
    assert sorted(path.name for path in (whole / "checkpoints").iterdir()) == sorted(
        path.name for path in (broken / "checkpoints").iterdir()
    )


def test_the_folder_of_a_run(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"))
    run = Run(config)
    run.train(["cribbage", "train", "x.yaml"])
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"config.yaml", "sessions.json", "metrics.csv", "checkpoint.pt", "checkpoints"} < names
    assert not [name for name in names if name.endswith(".tmp")]
    assert load_config(tmp_path / "run" / "config.yaml", TrainConfig) == config
    session = json.loads((tmp_path / "run" / "sessions.json").read_text())[0]
    assert session["command"] == "cribbage train x.yaml"
    assert {"python", "torch", "cribbage-lab"} < set(session["made_with"])
    kept = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert len(kept) == 2
    assert int(Path(kept[-1]).stem) == read_checkpoint(tmp_path / "run")["training"]["decisions"]
    rows = rows_of(tmp_path / "run")
    evaluated = [row["iteration"] for row in rows if row["random: win rate"]]
    assert "4" in evaluated
    assert len(evaluated) == 2
    assert float(rows[-1]["random: low"]) < float(rows[-1]["random: win rate"]) <= float(rows[-1]["random: high"])
    assert "random      40" in run.report()
    assert make_agent(f"{tmp_path}/run/").name == f"{tmp_path}/run/"


def test_tensorboard_has_the_figures(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    Run(small(output=str(tmp_path / "run"))).train()
    board = EventAccumulator(str(tmp_path / "run"))
    board.Reload()
    rows = rows_of(tmp_path / "run")
    assert [scalar.step for scalar in board.Scalars("loss/loss_play")] == [int(row["decisions"]) for row in rows]
    assert board.Scalars("loss/loss_play")[-1].value == pytest.approx(float(rows[-1]["loss_play"]), rel=1e-5)
    assert board.Scalars("evaluation/random")[-1].value == pytest.approx(float(rows[-1]["random: win rate"]), rel=1e-5)


def test_time_can_be_the_budget(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"), budget={"decisions": None, "minutes": 0.02})
    began = time.monotonic()
    assert Run(config).train()
    assert time.monotonic() - began < 30
    rows = rows_of(tmp_path / "run")
    assert float(rows[-1]["seconds"]) >= 1.2
    assert float(rows[0]["lr"]) > float(rows[-1]["lr"]) >= 0


def test_a_finished_run_only_evaluates(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"))
    Run(config).train()
    before = (tmp_path / "run" / "checkpoint.pt").read_bytes(), untimed(rows_of(tmp_path / "run"))
    run = Run(config, resume=True)
    assert run.train()
    assert run.evaluations[0].games == 40
    assert before == ((tmp_path / "run" / "checkpoint.pt").read_bytes(), untimed(rows_of(tmp_path / "run")))


def test_overwrite_leaves_nothing_of_the_old_run(tmp_path: Path) -> None:
    config = small(output=str(tmp_path / "run"))
    Run(config).train()
    old = {path.name for path in (tmp_path / "run").iterdir() if path.name.startswith("events")}
    (tmp_path / "run" / "checkpoints" / "000099999999.pt").write_bytes(b"old")
    Run(config, overwrite=True).train()
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert not names & old
    assert not (tmp_path / "run" / "checkpoints" / "000099999999.pt").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT to send")
def test_ctrl_c_saves_and_resume_goes_on(tmp_path: Path) -> None:
    config = tmp_path / "small.yaml"
    rare = {"budget": {"decisions": 100_000}, "evaluation": {"opponents": []}, "checkpoint": {"every": 10_000_000}}
    config.write_text(json.dumps(SMALL | rare))
    command = [sys.executable, "-m", "experiments.cli", "train", str(config), "--output", str(tmp_path / "run")]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        # Ctrl-C works also where the tests themselves run in a shell's background
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    metrics = tmp_path / "run" / "metrics.csv"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (metrics.exists() and len(rows_of(tmp_path / "run")) >= 3):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume goes on" in errors
    assert "Traceback" not in errors
    rows = rows_of(tmp_path / "run")
    assert read_checkpoint(tmp_path / "run")["training"]["iteration"] == int(rows[-1]["iteration"]) >= 3
    done = subprocess.run([*command, "--resume"], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "decisions in" in done.stdout
    assert int(rows_of(tmp_path / "run")[-1]["decisions"]) >= 100_000


# --- Bad input ----------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command says on standard error, in one line, with exit code 2."""
    capsys.readouterr()
    assert cli.main(["train", *arguments]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert said.count("\n") == 1
    return said.removeprefix("error: ").strip()


@pytest.fixture
def config_file(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(json.dumps(SMALL))
    return path


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("learner.rate=1", "unknown key 'learner.rate'"),
        ("colect.games=3", "unknown key 'colect'; did you mean 'collect'?"),
        ("learner.lr=fast", "learner.lr: "),
        ("learner.lr=0", "learner.lr: "),
        ("learner.lr=.nan", "learner.lr: "),
        ("learner.lr=.inf", "learner.lr: "),
        ("learner.lr_end=0.5", "learner.lr_end must be at most learner.lr (0.003), got 0.5"),
        ("learner.batch_size=0", "learner.batch_size: "),
        ("learner.algorithm=ppo", "learner.algorithm: "),
        ("learner=dmc", "learner: must be a mapping with keys of algorithm, lr,"),
        ("collect.games=1.5", "collect.games: "),
        ("collect.games=-1", "collect.games: "),
        ("collect.epsilon=1.1", "collect.epsilon: "),
        ("collect.episode=hand", "collect.episode: "),
        ("collect.reward=win", "collect.reward: win needs collect.episode: game"),
        ("collect.episode=game", "learner.subtract_luck needs collect.episode: deal and collect.reward: points"),
        ("network.scores=true", "network.scores needs collect.episode: game"),
        ("network.play_hidden=[8]", "network.play_hidden: "),
        ("network.play_hidden=[8, 513]", "network.play_hidden.1: "),
        ("budget.decisions=null", "budget: set decisions or minutes"),
        ("budget.decisions=0", "budget.decisions: "),
        ("budget.decisions=1e6", "budget.decisions: "),
        ("budget.minutes=-1", "budget.minutes: "),
        ("evaluation.games=7", "evaluation.games: an even number is needed"),
        ("evaluation.opponents=[random, random]", "evaluation.opponents: each opponent once"),
        ("evaluation.opponents=[rondom]", "unknown agent 'rondom'; did you mean 'random'?"),
        ("evaluation.opponents=[no/such.pt]", "no checkpoint 'no/such.pt'"),
        ("modules=[no_such_module]", "can't import the module 'no_such_module'"),
        ("checkpoint.keep=-1", "checkpoint.keep: "),
        ("threads=0", "threads: "),
        ("device=abacus", "device must be auto, cpu or cuda"),
        ("rules.target=1", "target must lie between 2 and 200, got 1"),
        ("name=../x", "name: "),
        ("seed=-1", "seed: "),
    ],
)
def test_bad_configs(
    override: str, message: str, config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, str(config_file), override, "--output", str(tmp_path / "run"))
    assert message in said
    assert not (tmp_path / "run").exists()


def test_a_missing_config(tmp_path: Path, config_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "(there are small.yaml)" in refused(capsys, str(tmp_path / "smal.yaml"))
    config_file.write_text("seed: 1\n")
    assert "the key 'budget' is missing" in refused(capsys, str(config_file))


def test_folders_that_a_run_cannot_have(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(config_file), "--output"]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").write_text("dear")
    for option in ([], ["--overwrite"]):
        assert "has 'letter.txt' in it" in refused(capsys, *command, str(tmp_path / "other"), *option)
    assert (tmp_path / "other" / "letter.txt").read_text() == "dear"
    inside_a_file = str(config_file / "run")
    assert f"can't write to the output folder '{inside_a_file}'" in refused(capsys, *command, inside_a_file)
    assert "there is no run to resume in" in refused(capsys, *command, str(tmp_path / "none"), "--resume")
    assert not (tmp_path / "none").exists()
    assert cli.main(["train", *command, str(tmp_path / "run")]) == 0
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert "(--resume), replace it (--overwrite)" in refused(capsys, *command, str(tmp_path / "run"))
    assert before == {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(SystemExit) as caught:
        cli.main(["train", *command, str(tmp_path / "run"), "--resume", "--overwrite"])
    assert caught.value.code == 2


def test_what_resume_refuses(config_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [str(config_file), "--output", str(tmp_path / "run")]
    assert cli.main(["train", *command]) == 0
    newest = tmp_path / "run" / "checkpoint.pt"
    whole = newest.read_bytes()
    said = refused(capsys, *command, "learner.lr=1e-3", "--resume")
    assert "was started with another config: learner.lr was 0.003, now 0.001" in said
    said = refused(capsys, *command, "--seed", "9", "--resume")
    assert "seed was 3, now 9" in said
    newest.write_bytes(whole[:-100])
    assert "is not a whole checkpoint" in refused(capsys, *command, "--resume")
    write_sample(newest)
    assert "has no whole state of training" in refused(capsys, *command, "--resume")
    kept = sorted((tmp_path / "run" / "checkpoints").iterdir())
    newest.write_bytes(kept[0].read_bytes())  # the way out that the message names
    assert cli.main(["train", *command, "--resume"]) == 0
    assert newest.read_bytes() == whole


def test_a_loss_that_is_no_number_stops_the_run(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import experiments.training.dmc as dmc

    def spoilt(agent: Any, config: TrainConfig, first: int, games: int) -> Any:
        samples = collect(agent, config, first, games)
        if first >= 128:  # in the third iteration
            samples["play"].returns[5] = np.nan
        return samples

    monkeypatch.setattr(dmc, "collect", spoilt)
    said = refused(capsys, str(config_file), "--output", str(tmp_path / "run"), "checkpoint.every=1")
    assert "loss_play became nan in iteration 3" in said
    assert "lower learner.lr (now 0.003)" in said
    content = read_checkpoint(tmp_path / "run")  # which refuses weights that are not finite
    assert content["training"]["iteration"] == 2
    assert len(rows_of(tmp_path / "run")) == 2


def test_a_disk_that_is_full_leaves_what_was_whole(
    config_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import experiments.training.run as run

    write = run.write_whole

    def full(path: Path, data: bytes) -> None:
        if path.name == "checkpoint.pt" and path.exists():
            raise OSError(28, "No space left on device")
        write(path, data)

    monkeypatch.setattr(run, "write_whole", full)
    said = refused(capsys, str(config_file), "--output", str(tmp_path / "run"))
    assert "No space left on device; what was written before is whole" in said
    assert read_checkpoint(tmp_path / "run")["training"]["iteration"] == 0


@pytest.mark.slow
def test_the_quickstart_beats_random_and_greedy(tmp_path: Path) -> None:
    config = load_config(QUICKSTART, TrainConfig, [f"output={json.dumps(str(tmp_path / 'run'))}"])
    run = Run(config)
    assert run.train()
    reached = {one.opponent: one for one in run.evaluations}
    assert min(one.games for one in reached.values()) >= 2000
    assert reached["random"].win_rate.low > 0.985
    assert reached["greedy"].win_rate.low > 0.64


def test_the_quickstart_is_a_config() -> None:
    config = load_config(QUICKSTART, TrainConfig)
    assert config.name == "quickstart"  # which the demo's tournament plays
    assert config.budget.decisions is not None
    assert config.budget.minutes is None  # a budget of decisions is repeatable
    with pytest.raises(UserError, match=r"unknown key 'learner\.x'"):
        load_config(QUICKSTART, TrainConfig, ["learner.x=1"])
