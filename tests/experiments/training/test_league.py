"""The league: who is met how often, the pool of past selves, its files, and runs that are resumed with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import sample_content, some_positions, write_sample

from agents import make_agent
from agents.neural.checkpoint import KINDS, checkpoint_bytes, read_checkpoint
from experiments import cli
from experiments.config import UserError, parse_config
from experiments.train_config import TrainConfig
from experiments.training.league import ITSELF, League, priorities
from experiments.training.run import Run

SMALL: dict[str, Any] = {
    "seed": 3,
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 64},
    "network": {"discard_hidden": [8, 8], "play_hidden": [16, 8]},
    "learner": {"batch_size": 128},
    "budget": {"decisions": 3000},
    "evaluation": {"opponents": []},
    "checkpoint": {"every": 900, "keep": 2},
}


def small(pool: dict[str, Any], agents: dict[str, float] | None = None, **changes: Any) -> TrainConfig:
    """A config with these opponents."""
    data = SMALL | {"opponents": {"pool": pool, "agents": agents or {}}} | changes
    return parse_config(data, TrainConfig, "small")


def entered(config: TrainConfig, copies: int, folder: Path | None = None) -> League:
    """A league whose pool some copies, of different weights, have entered."""
    league = League(config, folder=folder)
    for number in range(1, copies + 1):
        league.enter(sample_content(seed=number), 1000 * number)
    return league


def shares(league: League, episodes: int = 40_000) -> dict[int, float]:
    """How often each opponent is drawn."""
    opponents, _ = league.draw(np.arange(episodes))
    return {int(one): float((opponents == one).mean()) for one in np.unique(opponents)}


def test_a_pool_without_members_leaves_its_share_to_the_learner() -> None:
    assert shares(League(small({"share": 0.3}))) == {ITSELF: 1.0}
    met = shares(League(small({"share": 0.3}, {"greedy": 0.2})))
    assert met == pytest.approx({ITSELF: 0.8, 0: 0.2}, abs=0.01)


def test_the_mixture_is_met_as_often_as_said_in_both_seats() -> None:
    league = entered(small({"share": 0.4, "size": 4}, {"greedy": 0.2, "random": 0.1}), 4)
    assert shares(league) == pytest.approx({ITSELF: 0.3, 0: 0.2, 1: 0.1, **dict.fromkeys(range(2, 6), 0.1)}, abs=0.01)
    opponents, seats = league.draw(np.arange(40_000))
    for one in (0, 3):
        assert abs(float(seats[opponents == one].mean()) - 0.5) < 0.03
    again = league.draw(np.arange(100, 200))
    assert (again[0] == opponents[100:200]).all()  # by the episode's number alone
    assert (again[1] == seats[100:200]).all()


def test_recent_members_are_met_twice_as_often_with_each_step() -> None:
    league = entered(small({"share": 1.0, "size": 3, "sampling": "recent"}), 5)
    assert league.names == ["000000003000", "000000004000", "000000005000"]  # the oldest have left
    assert shares(league) == pytest.approx({0: 1 / 7, 1: 2 / 7, 2: 4 / 7}, abs=0.01)


def test_priorities_by_hand() -> None:
    # means 1, 2, 3: their standard deviation is the root of 2/3
    weights = priorities(np.array([10.0, 40.0, 15.0]), np.array([10.0, 20.0, 5.0]))
    assert weights == pytest.approx(np.exp([1.5**0.5, 0.0, -(1.5**0.5)]))
    unmet = priorities(np.array([10.0, 40.0, 0.0]), np.array([10.0, 20.0, 0.0]))
    assert unmet[2] == unmet[0] > unmet[1]
    assert (priorities(np.zeros(3), np.zeros(3)) == 1.0).all()
    assert (priorities(np.array([1.1, 2.2, 3.3]), np.array([1.0, 2.0, 3.0])) == 1.0).all()


def test_the_harder_a_member_is_to_beat_the_oftener_it_is_met() -> None:
    league = entered(small({"share": 1.0, "size": 3, "sampling": "prioritised"}), 3)
    assert league.weights() == pytest.approx([1 / 3] * 3)
    opponents, _ = league.draw(np.arange(6000))
    results = np.array([2.0, -1.0, 0.5])[opponents] + np.random.default_rng(1).normal(0, 0.1, 6000)
    before = league.draw(np.arange(6000, 7000))[0]
    for part in np.array_split(np.arange(6000), 7)[::-1]:  # as threads may finish, in any order
        league.record(opponents[part], results[part])
    assert (league.draw(np.arange(6000, 7000))[0] == before).all()  # not while others may be drawing
    league.settle()
    whole = entered(small({"share": 1.0, "size": 3, "sampling": "prioritised"}), 3)
    whole.record(opponents, results)
    whole.settle()
    assert whole.state() == league.state()
    weights = league.weights()
    assert weights[1] > weights[2] > weights[0]
    means = np.array([total / count for _, total, count in league.state()["members"]])
    assert means == pytest.approx([results[opponents == one].mean() for one in range(3)], abs=1e-5)
    assert weights == pytest.approx(np.exp(-means / means.std()) / np.exp(-means / means.std()).sum())
    assert shares(league) == pytest.approx(dict(enumerate(weights)), abs=0.01)
    for _ in range(200):  # newer results outweigh those of long ago
        league.record(np.array([0]), np.array([-3.0]))
        league.settle()
    assert league.weights().argmax() == 0


def test_results_against_itself_and_fixed_agents_do_not_count() -> None:
    league = entered(small({"share": 0.5, "size": 2, "sampling": "prioritised"}, {"random": 0.2}), 2)
    league.record(np.array([ITSELF, 0, 1, 2, 2]), np.array([50.0, 60.0, 1.0, 2.0, 4.0]))
    league.settle()
    assert [one[1:] for one in league.state()["members"]] == [[1.0, 1.0], [6.0, 2.0]]


def test_every_opponent_plays_its_own_rows() -> None:
    league = entered(small({"share": 0.5, "size": 3}, {"greedy": 0.2, "expected": 0.1}), 3)
    observations, masks = some_positions(60, 8)
    keys = np.arange(len(masks), dtype=np.uint64) * np.uint64(7919)
    opponents = np.arange(len(masks)) % 5
    actions = league.act(opponents, observations, masks, keys)
    alone = [make_agent("greedy"), make_agent("expected")]
    for one in range(5):
        rows = opponents == one
        if one < 2:
            expected = alone[one].act(observations[rows], masks[rows], keys[rows])
        else:
            only = entered(small({"share": 1.0, "size": 1}), one - 1)  # the copy that entered as such
            expected = only.act(np.zeros(rows.sum(), np.int64), observations[rows], masks[rows], keys[rows])
        assert (actions[rows] == expected).all()


def test_when_a_copy_is_due() -> None:
    league = League(small({"share": 0.1, "every": 1000}))
    assert [decisions for decisions in (0, 999, 1000, 1500, 2100) if league.due(decisions)] == [1000, 1500, 2100]
    league.enter(sample_content(), 1500)
    assert [decisions for decisions in (1900, 2000, 2100) if league.due(decisions)] == [2000, 2100]
    assert not League(small({"share": 0.0, "every": 1000})).due(5000)


def test_a_copy_does_not_learn_on() -> None:
    content = sample_content()
    league = League(small({"share": 1.0}))
    league.enter(content, 1000)
    observations, masks = some_positions(20, 6)
    keys = np.zeros(len(masks), np.uint64)
    before = league.act(np.zeros(len(masks), np.int64), observations, masks, keys)
    for weights in content["weights"].values():
        for tensor in weights.values():
            tensor.zero_()
    assert (league.act(np.zeros(len(masks), np.int64), observations, masks, keys) == before).all()


# --- Files ----------------------------------------------------------------------------------------------------


def test_members_lie_in_files_and_are_read_again(tmp_path: Path) -> None:
    config = small({"share": 1.0, "size": 2})
    league = entered(config, 3, tmp_path / "pool")
    assert not (tmp_path / "pool").exists()
    league.write()
    names = sorted(path.name for path in (tmp_path / "pool").iterdir())
    assert names == ["000000002000.pt", "000000003000.pt"]
    content = read_checkpoint(tmp_path / "pool" / names[1])
    assert torch.equal(content["weights"]["play"]["wide"], sample_content(seed=3)["weights"]["play"]["wide"])
    again = League(config, folder=tmp_path / "pool", resume=True)
    again.restore(league.state())
    assert again.state() == league.state()
    observations, masks = some_positions(20, 6)
    keys, opponents = np.zeros(len(masks), np.uint64), np.arange(len(masks)) % 2
    acted = [one.act(opponents, observations, masks, keys) for one in (league, again)]
    assert (acted[0] == acted[1]).all()
    (tmp_path / "pool" / names[0]).unlink()
    with pytest.raises(ValueError, match=r"the past self .*000000002000\.pt' of its pool is gone"):
        League(config, folder=tmp_path / "pool", resume=True).restore(league.state())


def test_files_go_when_no_checkpoint_names_them(tmp_path: Path) -> None:
    config = small({"share": 1.0, "size": 2})
    league = League(config, folder=tmp_path)
    for number in range(1, 6):
        league.enter(sample_content(seed=number), 1000 * number)
        league.write()
    league.tidy([3500, 5200])
    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [2000, 3000, 4000, 5000]
    league.tidy([5200])
    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [4000, 5000]
    # a session was killed between a member's file and the checkpoint that names it; the next one goes another way
    state = league.state()
    league.enter(sample_content(seed=6), 6000)
    league.write()
    other = League(config, folder=tmp_path, resume=True)
    other.restore(state)
    other.enter(sample_content(seed=7), 6100)
    other.write()
    other.tidy([6100])
    assert sorted(int(path.stem) for path in tmp_path.iterdir()) == [5000, 6100]


def test_a_pool_from_a_folder(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir()
    for seed in (1, 2):
        write_sample(tmp_path / "given" / f"{seed}.pt", seed)
    pool = {"share": 1.0, "size": 3, "folder": str(tmp_path / "given")}
    league = League(small(pool), folder=tmp_path / "pool")
    assert shares(league) == pytest.approx({0: 0.5, 1: 0.5}, abs=0.01)
    observations, masks = some_positions(20, 6)
    keys = np.zeros(len(masks), np.uint64)
    agent = make_agent(str(tmp_path / "given" / "2.pt"))
    assert (
        league.act(np.ones(len(masks), np.int64), observations, masks, keys) == agent.act(observations, masks, keys)
    ).all()
    league.enter(sample_content(seed=5), 1000)
    league.enter(sample_content(seed=6), 2000)
    assert league.names == ["first-0001", "000000001000", "000000002000"]
    league.write()
    league.tidy([2000])
    assert sorted(path.stem for path in (tmp_path / "pool").iterdir()) == sorted(league.names)
    (tmp_path / "given" / "2.pt").unlink()  # a run that goes on has its own copies
    again = League(small(pool), folder=tmp_path / "pool", resume=True)
    again.restore(league.state())
    assert again.state() == league.state()


def test_folders_that_are_no_pool(tmp_path: Path) -> None:
    def said(folder: Path, size: int = 10) -> str:
        with pytest.raises(UserError) as caught:
            League(small({"share": 0.5, "size": size, "folder": str(folder)}))
        assert "\n" not in str(caught.value)
        assert f"opponents.pool.folder {str(folder)!r}" in str(caught.value)
        return str(caught.value)

    assert "there is no such folder" in said(tmp_path / "none")
    (tmp_path / "pool").mkdir()
    assert "has no checkpoints" in said(tmp_path / "pool")
    for seed in (1, 2, 3):
        write_sample(tmp_path / "pool" / f"{seed}.pt", seed)
    assert "has 3 checkpoints, opponents.pool.size must be at least that, got 2" in said(tmp_path / "pool", 2)
    (tmp_path / "pool" / "2.pt").write_text("not one")
    assert "2.pt' is not a whole checkpoint" in said(tmp_path / "pool")
    (tmp_path / "pool" / "2.pt").write_bytes(checkpoint_bytes(sample_content() | {"features_version": 0}))
    assert "2.pt' has features_version 0" in said(tmp_path / "pool")


def test_a_folder_that_is_no_pool_ends_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.yaml").write_text("budget: {decisions: 1000}")
    command = ["train", str(tmp_path / "x.yaml"), "--output", str(tmp_path / "run"), "opponents.pool.share=0.5"]
    assert cli.main([*command, f"opponents.pool.folder={tmp_path / 'none'}"]) == 2
    assert "there is no such folder" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


# --- Runs -----------------------------------------------------------------------------------------------------


class Killed(Exception):
    """Stands for a kill at a bad moment."""


@pytest.mark.parametrize("sampling", ["recent", "prioritised"])
@pytest.mark.parametrize("iterations", [3, 5])
def test_a_resumed_run_with_a_pool_ends_where_an_unbroken_one_does(
    sampling: str, iterations: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "given").mkdir()
    write_sample(tmp_path / "given" / "x.pt")
    pool = {"share": 0.6, "size": 3, "every": 400, "sampling": sampling, "folder": str(tmp_path / "given")}
    for folder in ("whole", "broken"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "whole")
    assert Run(small(pool)).train()
    monkeypatch.chdir(tmp_path / "broken")
    from experiments.training.dmc import DmcLearner

    iterate = DmcLearner.iterate

    def dying(self: DmcLearner, iteration: int, *rest: Any) -> dict[str, float]:
        if iteration == iterations:
            raise Killed
        return iterate(self, iteration, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(DmcLearner, "iterate", dying)
        with pytest.raises(Killed):
            Run(small(pool)).train()
    assert Run(small(pool), resume=True).train()
    folders = [tmp_path / name / "runs/train" for name in ("whole", "broken")]
    contents = [read_checkpoint(folder) for folder in folders]
    assert len(contents[0]["training"]["league"]["members"]) == 3
    if sampling == "prioritised":
        assert all(count > 0 for _, _, count in contents[0]["training"]["league"]["members"][:2])
    for part in ("league", "decisions", "games", "iteration"):
        assert contents[0]["training"][part] == contents[1]["training"][part]
    for kind in KINDS:
        for name, tensor in contents[0]["weights"][kind].items():
            assert tensor.numpy().tobytes() == contents[1]["weights"][kind][name].numpy().tobytes()
    files = [{path.name: path.read_bytes() for path in (folder / "pool").iterdir()} for folder in folders]
    assert files[0] == files[1]
    assert len(files[0]) >= 3
    agent = make_agent(str(folders[0] / "pool" / max(files[0])))
    observations, masks = some_positions(10, 4)
    assert agent.policy(observations, masks).sum(axis=1) == pytest.approx(1.0)
