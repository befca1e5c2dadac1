"""CribbageSolo-v0, one game: conformance, and that it is Cribbage-v0 with an agent in the other seat."""

from __future__ import annotations

import subprocess
import sys
import warnings
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from neural_samples import write_sample
from numpy.typing import NDArray

from agents import Agent, AgentError, make_agent
from agents.solo_env import CribbageSoloEnv
from cribbage_env import CribbageEnv, Game, action_masks
from cribbage_env.engine import DECISIONS
from cribbage_env.streams import combine

ROOT = Path(__file__).resolve().parents[2]
REWARDS = ("win", "points", "game_points", "one_two")


def pick(mask: NDArray[np.int8], rng: np.random.Generator) -> int:
    return int(rng.choice(np.flatnonzero(mask)))


class Reference:
    """The same game on Cribbage-v0, with the opponent's moves made one by one. For a fixed seat."""

    def __init__(self, opponent: Agent, seat: int, **options: Any) -> None:
        self.env = CribbageEnv(**options)
        self.opponent, self.seat = opponent, seat

    def reset(self, seed: int) -> tuple[dict[str, NDArray[Any]], float, bool, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed)
        return self._opponent_moves(observation, info, 0.0, False)

    def step(self, action: int) -> tuple[dict[str, NDArray[Any]], float, bool, dict[str, Any]]:
        observation, _, over, _, info = self.env.step(action)
        return self._opponent_moves(observation, info, info["rewards"][self.seat], over)

    def _opponent_moves(
        self, observation: dict[str, NDArray[Any]], info: dict[str, Any], reward: float, over: bool
    ) -> tuple[dict[str, NDArray[Any]], float, bool, dict[str, Any]]:
        while not over and info["player"] != self.seat:
            game = self.env.game
            stream = combine(np.uint64(game.seed), 2**33 + 1)
            key = np.array([combine(np.uint64(stream), int(game.state()[DECISIONS]))], np.uint64)
            action = self.opponent.act(observation["observation"][None], observation["action_mask"][None], key)[0]
            observation, _, over, _, info = self.env.step(action)
            reward += info["rewards"][self.seat]
        if over:
            observation = self.env.game.observation(self.seat)
        return observation, reward, over, info


# --- The same game ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("episode", ["game", "deal"])
@pytest.mark.parametrize("skip_forced", [False, True])
def test_it_is_cribbage_with_an_agent_in_the_other_seat(reward: str, episode: str, skip_forced: bool) -> None:
    options: dict[str, Any] = {"reward": reward, "episode": episode, "skip_forced": skip_forced}
    options |= {"rules": {"target": 61}, "scores": (20, 30)}
    rng = np.random.default_rng(1)
    for spec in ("greedy", "random"):
        for seat in (0, 1):
            env = CribbageSoloEnv(opponent=spec, seat=seat, **options)
            reference = Reference(make_agent(spec), seat, **options)
            for seed in (0, 1, 2, 3, 2**64 - 1):
                observation, info = env.reset(seed=seed)
                expected, before_reset, over, their_info = reference.reset(seed)
                assert before_reset == 0, "no points before the learner's first decision"
                assert info["rewards"].tolist() == [0, 0]
                assert info["scores"].tolist() == [20, 30]
                while not over:
                    assert (info["seat"], info["opponent"]) == (seat, spec)
                    assert (observation["observation"] == expected["observation"]).all()
                    assert (observation["action_mask"] == expected["action_mask"]).all()
                    assert (env.action_masks() == expected["action_mask"]).all()
                    action = pick(observation["action_mask"], rng)
                    observation, value, terminated, truncated, info = env.step(action)
                    expected, reward_there, over, their_info = reference.step(action)
                    assert (value, terminated, truncated) == (reward_there, over, False)
                    assert info["rewards"][seat] == value == -info["rewards"][1 - seat]
                    assert info["scores"].tolist() == list(reference.env.game.scores)
                    assert env.game.state().tolist() == reference.env.game.state().tolist()
                assert (observation["observation"] == expected["observation"]).all()
                assert not observation["action_mask"].any()
                assert info["winner"] == their_info["winner"]
                assert info["won"] == (their_info["winner"] == seat)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    target=st.integers(2, 200),
    seat=st.sampled_from([0, 1, None]),
    dealer=st.sampled_from([0, 1, None]),
    reward=st.sampled_from(REWARDS),
    episode=st.sampled_from(["game", "deal"]),
    skip_forced=st.booleans(),
    data=st.data(),
)
def test_returns_are_what_the_options_say(
    seed: int,
    target: int,
    seat: int | None,
    dealer: int | None,
    reward: str,
    episode: str,
    skip_forced: bool,
    data: st.DataObject,
) -> None:
    scores = data.draw(st.tuples(st.integers(0, target - 1), st.integers(0, target - 1)))
    env = CribbageSoloEnv(
        opponent={"greedy": 1, "random": 2},
        seat=seat,
        dealer=dealer,
        reward=reward,
        episode=episode,
        skip_forced=skip_forced,
        rules={"target": target},
        scores=scores,
    )
    observation, info = env.reset(seed=seed)
    assert info["scores"].tolist() == list(scores)
    assert env.game.dealer == Game(seed=seed, dealer=dealer).dealer
    assert seat in (None, info["seat"])
    rng = np.random.default_rng(seed % 1000)
    total, values, terminated = 0.0, [], False
    while not terminated:
        assert env.game.player == info["seat"]
        observation, value, terminated, _, info = env.step(pick(observation["action_mask"], rng))
        values.append(value)
        total += value
        assert env.observation_space.contains(observation)
    own = info["seat"]
    game = env.game
    if reward == "points":
        raw = game.raw_scores
        assert total == (raw[own] - scores[own]) - (raw[1 - own] - scores[1 - own])
        return
    assert not any(values[:-1])
    if game.winner is None:
        assert (episode, total, info["won"]) == ("deal", 0, False)
    else:
        worth = {"win": (1, 1, 1), "game_points": (2, 3, 4), "one_two": (1, 2, 2)}[reward][game.skunk]
        assert total == (worth if game.winner == own else -worth)
        assert info["won"] == (total > 0)


def test_the_game_of_a_seed_is_the_same_again() -> None:
    def play(env: CribbageSoloEnv) -> list[Any]:
        rng = np.random.default_rng(5)
        seen: list[Any] = []
        observation, info = env.reset(seed=11)
        for _ in range(4):
            terminated = False
            seen.append((info["seat"], info["opponent"]))
            while not terminated:
                observation, reward, terminated, _, info = env.step(pick(observation["action_mask"], rng))
                seen.append((reward, observation["observation"].tobytes()))
            observation, info = env.reset()
        return seen

    mixture = {"random": 1, "greedy": 1, "monte_carlo:worlds=4": 1}
    env = CribbageSoloEnv(opponent=mixture, rules={"target": 31})
    assert play(env) == play(env) == play(CribbageSoloEnv(opponent=mixture, rules={"target": 31}))


# --- Gymnasium ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"opponent": "random", "reward": "points", "skip_forced": True, "seat": 1},
        {"opponent": {"greedy": 1, "random": 1}, "episode": "deal", "rules": {"target": 61}},
        {"render_mode": "ansi", "scores": (120, 120), "dealer": 1},
    ],
)
def test_check_env_has_nothing_to_say(options: dict[str, Any]) -> None:
    env = gym.make("CribbageSolo-v0", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_wrappers_find_the_masks_and_the_statistics() -> None:
    env = gym.make("CribbageSolo-v0", reward="points", max_episode_steps=500)
    env = gym.wrappers.RecordEpisodeStatistics(env)
    env = gym.wrappers.TransformReward(env, lambda reward: 0.1 * reward)
    layers = str(env)
    assert all(layer in layers for layer in ("PassiveEnvChecker", "OrderEnforcing", "TimeLimit"))
    observation, info = env.reset(seed=1)
    assert (action_masks(env) == observation["action_mask"]).all()
    rng = np.random.default_rng(1)
    total, steps, terminated = 0.0, 0, False
    while not terminated:
        masks = env.get_wrapper_attr("action_masks")()
        assert masks.dtype == np.bool_
        observation, reward, terminated, _, info = env.step(np.int64(pick(masks, rng)))
        total, steps = total + 10 * reward, steps + 1
    assert not action_masks(env).any()
    assert info["episode"]["l"] == steps
    assert info["episode"]["r"] == pytest.approx(total)
    own, other = info["scores"][info["seat"]], info["scores"][1 - info["seat"]]
    assert max(own, other) == 121


def test_rendering() -> None:
    env = CribbageSoloEnv(render_mode="ansi")
    env.reset(seed=1)
    text = str(env.render())
    assert "learner" in text
    assert "greedy" in text
    with pytest.raises(ValueError, match="render_mode must be one of"):
        CribbageSoloEnv(render_mode="hologram")


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_making_by_module_needs_no_import() -> None:
    """The way that Gymnasium 1 has, which dropped the loading of plug-ins at import."""
    made = run_python(
        "import gymnasium, sys\n"
        "assert 'cribbage_env' not in sys.modules\n"
        "for name in ('Cribbage-v0', 'CribbageSolo-v0'):\n"
        "    print(type(gymnasium.make('cribbage_env:' + name).unwrapped).__name__)\n"
        "    print(type(gymnasium.make_vec('cribbage_env:' + name, num_envs=2).unwrapped).__name__)\n"
    )
    assert made.split() == ["CribbageEnv", "CribbageVectorEnv", "CribbageSoloEnv", "CribbageSoloVectorEnv"]


def test_registration_loads_no_agents() -> None:
    known = run_python("import cribbage_env, gymnasium; print('CribbageSolo-v0' in gymnasium.registry)")
    loaded = run_python("import cribbage_env, sys; print('agents' in sys.modules)")
    assert (known, loaded) == ("True", "False")


def test_the_entry_point_registers() -> None:
    """What a Gymnasium that loads plug-ins calls, in a process that has not imported the package."""
    declared = [one for one in entry_points(group="gymnasium.envs") if one.module.split(".")[0] == "cribbage_env"]
    if not declared:
        pytest.fail("the installed metadata has no entry point: install the package again")
    assert [one.name for one in declared] == ["__root__"], "no namespace before the ids"
    known = run_python(
        "import gymnasium\n"
        "from importlib.metadata import entry_points\n"
        "assert 'Cribbage-v0' not in gymnasium.registry\n"
        "[one] = [one for one in entry_points(group='gymnasium.envs') if one.module.startswith('cribbage_env')]\n"
        "one.load()()\n"
        "one.load()()\n"
        "print(gymnasium.make('Cribbage-v0').spec.id, gymnasium.make('CribbageSolo-v0').spec.id)\n"
    )
    assert known == "Cribbage-v0 CribbageSolo-v0"


# --- Opponents ----------------------------------------------------------------------------------------------


class Stubborn(Agent):
    """Always says the same."""

    def __init__(self, says: Any) -> None:
        super().__init__("stubborn")
        self.says = says

    def policy(self, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
        return np.asarray(masks / masks.sum(axis=1, keepdims=True))

    def act(self, observations: Any, masks: Any, keys: Any = None) -> Any:
        return self.says(masks) if callable(self.says) else self.says


def test_any_agent_can_be_the_opponent(tmp_path: Path) -> None:
    checkpoint = str(write_sample(tmp_path / "checkpoint.pt"))
    rng = np.random.default_rng(3)
    for opponent in ("expected", "ismcts:simulations=10", checkpoint, make_agent("greedy")):
        env = gym.make("CribbageSolo-v0", opponent=opponent, rules={"target": 21})
        observation, info = env.reset(seed=2)
        assert info["opponent"] == (opponent if isinstance(opponent, str) else "greedy")
        terminated = False
        while not terminated:
            observation, _, terminated, _, _ = env.step(np.int64(pick(observation["action_mask"], rng)))


@pytest.mark.parametrize(
    ("says", "message"),
    [
        (np.array([18]), "the opponent 'stubborn' chose the illegal action 18; legal were 0, 1, 2, 3"),
        (np.array([19]), "the opponent 'stubborn' chose the illegal action 19"),
        (np.array([-1]), "the opponent 'stubborn' chose the illegal action -1"),
        (np.array([0.0]), r"act must return 1 integers of shape \(1,\), got float64 of shape \(1,\)"),
        (np.array([0, 0]), r"act must return 1 integers of shape \(1,\), got int64 of shape \(2,\)"),
        (None, "act must return 1 integers"),
    ],
)
def test_a_faulty_opponent_is_an_error(says: Any, message: str) -> None:
    env = CribbageSoloEnv(opponent=Stubborn(says), dealer=0, seat=0)
    with pytest.raises(AgentError, match=message):
        env.reset(seed=1)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env = CribbageSoloEnv(opponent=Stubborn(says), dealer=0, seat=1)
    env.reset(seed=1)
    with pytest.raises(AgentError, match=message):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset(options={"opponent": "greedy"})
    env.step(0)


def test_an_interrupted_opponent_leaves_no_half_game() -> None:
    def interrupt(masks: object) -> None:
        raise KeyboardInterrupt

    env = CribbageSoloEnv(opponent=Stubborn(interrupt), dealer=0, seat=1)
    env.reset(seed=1)
    with pytest.raises(KeyboardInterrupt):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("action", [15, 19, -1, 10**30])
@pytest.mark.parametrize(("reward", "loss"), [("win", -1.0), ("points", -121.0), ("game_points", -4.0)])
def test_an_illegal_action_of_the_learner_loses(action: int, reward: str, loss: float) -> None:
    for seat in (0, 1):
        env = CribbageSoloEnv(reward=reward, dealer=0, seat=seat)
        mask = env.reset(seed=1)[0]["action_mask"]
        observation, value, terminated, _, info = env.step(action)
        assert (value, terminated, info["winner"], info["won"]) == (loss, True, 1 - seat, False)
        assert info["illegal_action"]["action"] == action
        assert (info["illegal_action"]["action_mask"] == mask).all()
        assert not observation["action_mask"].any()
        with pytest.raises(gym.error.ResetNeeded):
            env.step(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"opponent": "greddy"}, "unknown agent 'greddy'; did you mean 'greedy'"),
        ({"opponent": "no/such.pt"}, "no/such.pt"),
        ({"opponent": {"greedy": 1, "nobody": 1}}, "unknown agent 'nobody'"),
        (
            {"opponent": {"greedy": -1, "random": 2}},
            "the weight of 'greedy' must be a finite .* at least 0, got -1",
        ),
        (
            {"opponent": {"greedy": float("nan")}},
            "the weight of 'greedy' must be a finite .* at least 0, got nan",
        ),
        (
            {"opponent": {"greedy": float("inf")}},
            "the weight of 'greedy' must be a finite .* at least 0, got inf",
        ),
        ({"opponent": {"greedy": 10**400}}, "the weight of 'greedy' must be a finite number of at least 0"),
        ({"opponent": {"greedy": 0, "random": 0.0}}, "the weights must sum to .* above 0, got greedy: 0, random: 0.0"),
        ({"opponent": {"greedy": 1e308, "random": 1e308}}, "the weights must sum to a finite number"),
        ({"opponent": {"greedy": "1"}}, "the weight of 'greedy' must be a number, got '1'"),
        ({"opponent": {"greedy": True}}, "the weight of 'greedy' must be a number, got True"),
        ({"opponent": {}}, "opponent must be a spec, an agent or a mapping of such to weights, got {}"),
        ({"opponent": ["greedy"]}, "opponent must be a spec, an agent or a mapping of such to weights"),
        ({"opponent": None}, "opponent must be a spec, an agent or a mapping of such to weights, got None"),
        ({"opponent": {3: 1}}, "opponent must be a spec, an agent or a mapping of such to weights, got 3"),
        ({"opponent": ""}, "an agent spec starts with a name or a path"),
        ({"seat": 2}, r"seat must be 0, 1 or None \(drawn from the seed\), got 2"),
        ({"seat": True}, "seat must be 0, 1 or None"),
        ({"seat": 1.0}, "seat must be 0, 1 or None"),
        ({"seat": "dealer"}, "seat must be 0, 1 or None"),
        ({"reward": "score"}, "reward must be one of win, points, game_points, one_two, got 'score'"),
        ({"dealer": 3}, "dealer must be 0, 1 or None"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refused:
        CribbageSoloEnv(**options)
    assert "\n" not in str(refused.value)
    if set(options) & {"opponent", "seat", "dealer"}:
        env = CribbageSoloEnv()
        env.reset(seed=1)
        before = env.game.state().tolist()
        with pytest.raises(ValueError, match=message):
            env.reset(options=options)
        assert env.game.state().tolist() == before
        env.step(0)  # the game goes on


def test_reset_options() -> None:
    env = CribbageSoloEnv(seat=0)
    _, info = env.reset(seed=1, options={"scores": (100, 20), "dealer": 1, "seat": 1, "opponent": "random"})
    assert (env.game.scores, env.game.dealer, info["seat"], info["opponent"]) == ((100, 20), 1, 1, "random")
    _, info = env.reset()
    assert (env.game.scores, info["seat"], info["opponent"]) == ((100, 20), 1, "random"), "for all later games"
    assert {env.reset(options={"seat": None})[1]["seat"] for _ in range(30)} == {0, 1}
    for option in ("game_seeds", "reset_mask", "score"):
        with pytest.raises(
            ValueError, match=f"reset has no option '{option}'; there are scores, dealer, seat, opponent"
        ):
            env.reset(options={option: [1]})
