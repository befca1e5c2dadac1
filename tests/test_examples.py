"""The examples run, and what they show holds: masks through Stable-Baselines3's wrappers, and that they learn."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from agents import make_agent
from cribbage_env import field

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import an example by its name, as running it would."""
    monkeypatch.syspath_prepend(str(EXAMPLES))

    def load(name: str) -> ModuleType:
        if name != "cleanrl_style":
            pytest.importorskip("sb3_contrib", reason="needs the extra 'sb3'")
        return importlib.import_module(name)

    return load


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_say_how_to_run_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if "def main" in text:
        assert f"python examples/{path.name}" in text


# --- Stable-Baselines3 --------------------------------------------------------------------------------------


def test_masks_through_wrappers_of_stable_baselines() -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra 'sb3'")
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
    from stable_baselines3.common.env_checker import check_env
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.monitor import Monitor

    single = Monitor(gym.make("CribbageSolo-v0", opponent="random", max_episode_steps=300))
    observation, _ = single.reset(seed=1)
    assert is_masking_supported(single)
    assert (get_action_masks(single) == observation["action_mask"]).all()
    check_env(gym.make("CribbageSolo-v0"), warn=False)

    several = make_vec_env(lambda: gym.make("CribbageSolo-v0", opponent="random"), n_envs=3, seed=1)
    observations = several.reset()
    assert is_masking_supported(several)
    masks = get_action_masks(several)
    assert masks.dtype == np.bool_
    assert (masks == observations["action_mask"]).all()
    several.close()


def test_the_vec_env_is_the_vector_environment(example: Any) -> None:
    from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
    from stable_baselines3.common.vec_env import VecMonitor, VecNormalize

    options: dict[str, Any] = {"opponent": {"greedy": 1, "random": 1}, "reward": "points"}
    inner = example("sb3_vec_env").CribbageVecEnv(6, **options)
    inner.seed(5)
    env = VecNormalize(VecMonitor(inner), norm_obs=False, norm_reward=False)
    plain = gym.make_vec("CribbageSolo-v0", num_envs=6, **options)
    observations, expected = env.reset(), plain.reset(seed=5)[0]
    assert env.observation_space == plain.single_observation_space["observation"]
    assert is_masking_supported(env)
    rng = np.random.default_rng(1)
    ends = 0
    for _ in range(150):
        masks = get_action_masks(env)
        assert (observations == expected["observation"]).all()
        assert (masks == expected["action_mask"]).all()
        actions = (rng.random(masks.shape) * masks).argmax(axis=1)
        observations, rewards, dones, infos = env.step(actions)
        expected, their_rewards, terminated, _, their_infos = plain.step(actions)
        assert rewards.tolist() == their_rewards.tolist()
        assert dones.tolist() == terminated.tolist()
        for i in np.flatnonzero(terminated):
            ends += 1
            final = {name: values[i] for name, values in their_infos["final_info"].items()}
            assert infos[i]["episode"]["r"] == final["return"]
            assert infos[i]["episode"]["l"] == final["length"]
            assert infos[i]["is_success"] == final["won"]
            assert (infos[i]["terminal_observation"] == their_infos["final_obs"]["observation"][i]).all()
    assert ends > 5
    assert env.get_attr("num_envs", indices=[0, 2]) == [6, 6]
    assert np.array_equal(env.env_method("action_masks", indices=2), get_action_masks(env)[2:3])
    with pytest.raises(NotImplementedError):
        env.set_attr("seat", 1)
    env.close()


def test_maskable_ppo_takes_legal_actions_only(example: Any, tmp_path: Path) -> None:
    """A few steps of training, a match without a forfeit, and the same choices after saving and loading."""
    ppo = example("maskable_ppo")
    model = ppo.train("random", steps=512, seed=1, num_envs=32, n_steps=8, batch_size=64)
    assert model.num_timesteps == 512
    summary = ppo.evaluate(model, "random", games=20, seed=2)
    assert summary.games == 20
    assert summary.forfeits(0) == summary.forfeits(1) == 0
    model.save(tmp_path / "model.zip")
    loaded = ppo.MaskablePPO.load(tmp_path / "model.zip", device="cpu")
    env = gym.make_vec("CribbageSolo-v0", num_envs=64, opponent="greedy")
    observations, _ = env.reset(seed=1)
    for _ in range(12):
        seen, masks = observations["observation"], observations["action_mask"]
        actions = ppo.PolicyAgent(model).act(seen, masks)
        assert (actions == ppo.PolicyAgent(loaded).act(seen, masks)).all()
        assert masks[np.arange(64), actions].all()
        observations = env.step(actions)[0]


def test_the_networks_logits_belong_to_the_actions(example: Any) -> None:
    """Kept cards of a rank, which stand together, are equal to the play's network; no logit falls on another kind."""
    import torch

    ppo = example("maskable_ppo")
    network = ppo.CribbageNetwork(16)
    env = gym.make_vec("CribbageSolo-v0", num_envs=300, opponent="greedy", skip_forced=True)
    seen = env.reset(seed=3)[0]
    kinds = set()
    for _ in range(3):
        phase = field(seen["observation"], "phase")[:, 0]
        kinds |= set(phase.tolist())
        logits = network.forward_actor(torch.from_numpy(seen["observation"]).float())
        assert not logits[phase == 0, 15:].any()
        assert not logits[phase == 1, :15].any()
        kept = field(seen["observation"], "kept")
        for row in np.flatnonzero(phase == 1):
            for one in range(3):
                if kept[row, one] >> 2 == kept[row, one + 1] >> 2:  # sorted: equal ranks stand together
                    assert logits[row, 15 + one].item() == pytest.approx(logits[row, 16 + one].item(), abs=1e-5)
        seen = env.step(make_agent("greedy").act(seen["observation"], seen["action_mask"]))[0]
    assert kinds == {0, 1}


@pytest.mark.slow
def test_maskable_ppo_beats_greedy(example: Any) -> None:
    """A minute and a half on one core: 54.5 % [54.0, 55.1] of 20,000 games."""
    ppo = example("maskable_ppo")
    model = ppo.train("greedy", steps=600_000, seed=1)
    summary = ppo.evaluate(model, "greedy", games=6_000, seed=2)
    assert summary.win_rate.value >= 0.5
    assert summary.forfeits(0) == 0


# --- CleanRL ------------------------------------------------------------------------------------------------


def test_cleanrl_style_runs(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    cleanrl = example("cleanrl_style")
    settings = cleanrl.Settings(opponent="random", steps=2_048, num_envs=64, num_steps=8, minibatch=128, width=32)
    points = cleanrl.train(settings)
    assert len(points) == 4
    assert np.isfinite(points).all()
    assert "points a deal" in capsys.readouterr().out
    assert cleanrl.train(settings) == points, "the same seed, the same run"


@pytest.mark.slow
def test_cleanrl_style_learns(example: Any) -> None:
    """A minute on one core: from -4.5 points a deal against greedy to -1.5."""
    points = example("cleanrl_style").train(example("cleanrl_style").Settings())
    assert points[0] < -3.5
    assert np.mean(points[-5:]) > points[0] + 2


# --- Pictures -----------------------------------------------------------------------------------------------


def test_a_deal_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "new" / "deal.gif"
    command = [sys.executable, str(EXAMPLES / "render_deal.py"), str(file), "--agents", "greedy", "random"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    with Image.open(file) as picture:
        assert picture.size == (1024, 640)
        frames = picture.n_frames
    assert 11 <= frames <= 12, "a picture before each of ten decisions or so, and the show"
    assert f"{frames} pictures" in done.stdout
    done = subprocess.run([*command, "--seed", "-1"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_the_picture_of_the_readme() -> None:
    file = ROOT / "docs" / "images" / "deal.gif"
    assert file.stat().st_size < 400_000
    with Image.open(file) as picture:
        assert picture.n_frames >= 10


# --- Bad input ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["maskable_ppo", "cleanrl_style"])
def test_an_unknown_opponent_is_one_line(name: str) -> None:
    if name == "maskable_ppo":
        pytest.importorskip("sb3_contrib", reason="needs the extra 'sb3'")
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--opponent", "greddy"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 2
    assert "--opponent: unknown agent 'greddy'; did you mean 'greedy'?" in done.stderr
    assert "Traceback" not in done.stderr
