"""The PettingZoo environment: PettingZoo's own tests, rewards at the right steps, and that it is Cribbage-v0's game."""

from __future__ import annotations

import contextlib
import importlib
import io
import pickle
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from cribbage_env import CribbageEnv, Game, Rules, field

pytest.importorskip("pettingzoo", reason="needs the extra 'pettingzoo'")

from pettingzoo.test import api_test, performance_benchmark, render_test, seed_test

from cribbage_env import aec_env

ROOT = Path(__file__).resolve().parent.parent.parent
AGENTS = ("player_0", "player_1")
OPTIONS: list[dict[str, Any]] = [
    {},
    {"reward": "points"},
    {"reward": "game_points", "rules": {"target": 61}},
    {"reward": "one_two", "rules": Rules(61, 40, 20), "skip_forced": True},
    {"reward": "points", "episode": "deal", "dealer": 1},
    {"reward": "points", "scores": (100, 90), "dealer": 0, "skip_forced": True},
]


def pick(mask: np.ndarray, rng: random.Random) -> int:
    return rng.choice(np.flatnonzero(mask).tolist())


# --- PettingZoo's tests --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("make", [aec_env.env, aec_env.raw_env])
def test_api(make: Callable[..., Any], options: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        api_test(make(**options), num_cycles=300)
    expected = (
        "Observation is not a NumPy array",  # of any environment with a mask that the test does not know by name
        "Observation space for each agent probably should be",
        "reset has no option 'options'",  # passed by the test
    )
    assert [str(one.message) for one in caught if not str(one.message).startswith(expected)] == []


@pytest.mark.parametrize("options", OPTIONS)
def test_seed(options: dict[str, Any]) -> None:
    seed_test(lambda: aec_env.env(**options), num_cycles=300)


def test_render() -> None:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        render_test(aec_env.env)
    assert printed.getvalue().count("of a game to 121") >= 5


def test_state() -> None:
    env = aec_env.env()
    env.reset(seed=1)
    checks = importlib.import_module("pettingzoo.test.state_test")  # its state_test wants a parallel environment too
    checks.test_state_space(env)
    checks.test_state(env, num_cycles=100)
    env.reset(seed=1)
    both = [env.observe(agent)["observation"] for agent in AGENTS]
    assert env.state().tolist() == [*both[0], *both[1]]


def test_performance_benchmark(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """PettingZoo's, with a clock that runs ten times as fast: it plays for five seconds of it."""
    import time

    begin, real = time.time(), time.time
    monkeypatch.setattr(time, "time", lambda: begin + 10 * (real() - begin))
    performance_benchmark(aec_env.env())
    turns = re.search(r"([\d.]+) turns per second", capsys.readouterr().out)
    assert turns is not None
    assert float(turns.group(1)) > 0


# --- The same game as Cribbage-v0 ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("wrapped", [True, False])
def test_the_game_is_that_of_cribbage_v0(options: dict[str, Any], wrapped: bool) -> None:
    rng = random.Random(1)
    env = aec_env.env(**options) if wrapped else aec_env.raw_env(**options)
    single = gym.make("Cribbage-v0", **options).unwrapped
    for seed in (0, 5, None, None, 2**64 - 1, *range(10, 18)):
        env.reset(seed=seed)
        observation, info = single.reset(seed=seed)
        since: dict[str, float] = dict.fromkeys(AGENTS, 0.0)  # rewards since the agent acted last
        totals = dict.fromkeys(AGENTS, 0.0)
        over, ends = False, []
        for agent in env.agent_iter():
            seen, reward, terminated, truncated, agent_info = env.last()
            assert not truncated
            assert reward == since[agent]
            assert env.observation_space(agent).contains(seen)
            totals[agent] += reward
            since[agent] = 0.0
            if terminated:
                assert over
                assert agent_info["winner"] == (None if info["winner"] is None else AGENTS[info["winner"]])
                assert agent_info["scores"] == dict(zip(AGENTS, info["scores"].tolist(), strict=True))
                assert not seen["action_mask"].any()
                ends.append(agent)
                env.step(None)
                continue
            assert not over
            assert agent_info == {}
            assert agent == AGENTS[info["player"]]
            assert all((seen[name] == observation[name]).all() for name in seen)
            other = env.observe(AGENTS[1 - info["player"]])
            assert not other["action_mask"].any()
            assert (other["observation"] == single.game.observation(1 - info["player"])["observation"]).all()
            action = pick(seen["action_mask"], rng)
            env.step(action)
            observation, _, over, _, info = single.step(action)
            assert env.rewards == dict(zip(AGENTS, info["rewards"].tolist(), strict=True))
            for seat, name in enumerate(AGENTS):
                since[name] += info["rewards"][seat]
        assert over
        assert sorted(ends) == list(AGENTS)
        assert totals["player_0"] == -totals["player_1"]
        if options.get("reward") == "points":
            raw = single.game.raw_scores
            start = options.get("scores", (0, 0))
            assert totals["player_0"] == (raw[0] - start[0]) - (raw[1] - start[1])
        elif single.game.phase == "over":
            values = {"win": {1}, "game_points": {2, 3, 4}, "one_two": {1, 2}}[options.get("reward", "win")]
            assert totals[AGENTS[info["winner"]]] in values


def test_an_agent_acts_twice_after_a_go() -> None:
    rng = random.Random(2)
    env = aec_env.env(reward="points")
    env.reset(seed=3)
    twice, last = 0, None
    for agent in env.agent_iter(200):
        seen, _, terminated, _, _ = env.last()
        if terminated:
            break
        twice += agent == last and field(seen["observation"], "count").item() > 0
        last = agent
        env.step(pick(seen["action_mask"], rng))
    assert twice > 5


# --- Rewards -------------------------------------------------------------------------------------------------

DECK = "AC AD 2C 2D 3C 3D  KC KD KH QC QD QH  4S"


def forced_deck(monkeypatch: pytest.MonkeyPatch, deck: str) -> None:
    """The environments' first deal has these cards: pone's six (seat 1), the dealer's (seat 0), the starter."""
    import cribbage_env.engine as engine
    from cribbage_env import vector_env

    real = vector_env.CribbageVectorEnv._start

    def start(self: Any, chosen: np.ndarray) -> None:
        real(self, chosen)
        game = Game(self.options.game_rules, scores=self.options.scores, dealer=0, decks=[deck])
        self.rows[0] = game.state()
        self.players[0] = self.rows[0, engine.PLAYER]
        seen = game.observation()
        self._obs[0], self._masks[0] = seen["observation"], seen["action_mask"]

    monkeypatch.setattr(vector_env.CribbageVectorEnv, "_start", start)


@pytest.mark.parametrize("reward", ["win", "points"])
def test_the_game_ends_in_the_opponents_show(monkeypatch: pytest.MonkeyPatch, reward: str) -> None:
    """The dealer lays the last card, then pone's hand wins: both learn of it, with the whole of what fell."""
    forced_deck(monkeypatch, DECK)
    env = aec_env.env(reward=reward, scores=(0, 115), dealer=0)
    env.reset(seed=1)
    env.step(14)  # pone throws 3C 3D and keeps AC AD 2C 2D
    env.step(14)  # the dealer throws KD KH and keeps QC QD QH KC
    # The play, always the lowest card: A Q A Q 2 2, a pair for 2 and the go for 1, both pone's; Q K, the last card for
    # 1, the dealer's. Then pone's hand, A A 2 2 with the 4, has two pairs, 4 points, and wins with 122.
    while not any(env.terminations.values()):
        actor = env.agent_selection
        env.step(int(np.flatnonzero(env.last()[0]["action_mask"])[0]))
    assert actor == "player_0", "the dealer laid the last card"
    assert env.unwrapped._game.game.raw_scores == (1, 122)
    assert env.rewards == ({"player_0": -1, "player_1": 1} if reward == "win" else {"player_0": 1 - 4, "player_1": 3})
    collected = {}
    for agent in env.agent_iter():
        _, collected[agent], terminated, _, info = env.last()
        assert terminated
        assert info["winner"] == "player_1"
        env.step(None)
    assert env.agents == []
    if reward == "win":
        assert collected == {"player_0": -1, "player_1": 1}
    else:  # since they acted: the dealer with its last card, pone with the second 2
        assert collected == {"player_0": -3, "player_1": 2 + 1 + 3}


# --- Options and illegal actions -----------------------------------------------------------------------------


def test_a_reset_keeps_the_options() -> None:
    env = aec_env.env(rules={"target": 61}, scores=(30, 20), dealer=1, reward="points")
    for seed in (1, None, 2):
        env.reset(seed=seed)
        seen = env.last()[0]["observation"]
        assert field(seen, "target") == 61
        assert env.agent_selection == "player_0"
        assert (field(seen, "score").item(), field(seen, "opponent_score").item()) == (30, 20)
    env.reset(options={"scores": (1, 2), "dealer": 0})
    env.reset()
    seen = env.last()[0]["observation"]
    assert env.agent_selection == "player_1"
    assert (field(seen, "score").item(), field(seen, "opponent_score").item()) == (2, 1)
    with pytest.warns(UserWarning, match="reset has no option 'score'; there are scores, dealer"):
        env.reset(options={"score": (3, 4)})
    assert field(env.last()[0]["observation"], "score") == 2
    with pytest.raises(ValueError, match="scores must lie between 0 and 60"):
        env.reset(options={"scores": (61, 4)})


def test_an_illegal_action_loses_the_game() -> None:
    env = aec_env.env(reward="game_points")
    env.reset(seed=1)
    actor = env.agent_selection
    other = AGENTS[1 - AGENTS.index(actor)]
    env.step(18)
    assert env.rewards == {actor: -4.0, other: 4.0}
    assert env.terminations == dict.fromkeys(AGENTS, True)
    assert env.truncations == dict.fromkeys(AGENTS, False)
    for _ in env.agent_iter():
        _, _, _, _, info = env.last()
        assert info["illegal_action"] == 18
        assert info["winner"] == other
        env.step(None)
    env.reset(seed=1)
    with pytest.raises(AssertionError, match="not in action space"):
        env.step(19)


def test_pettingzoos_wrapper_for_illegal_actions() -> None:
    env = aec_env.env(illegal_reward=-3)
    env.reset(seed=1)
    actor = env.agent_selection
    env.step(18)
    collected = {}
    for agent in env.agent_iter():
        collected[agent] = env.last()[1]
        env.step(None)
    assert collected == {actor: -3.0, AGENTS[1 - AGENTS.index(actor)]: 0.0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        api_test(aec_env.env(illegal_reward=-1), num_cycles=200)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "score"}, "reward must be one of win, points, game_points, one_two, got 'score'"),
        ({"render_mode": "hologram"}, "render_mode must be one of human, ansi, rgb_array or None, got 'hologram'"),
        ({"render_view": "mine"}, "render_view must be 'player', 'all', 0 or 1, got 'mine'"),
        ({"dealer": 2}, "dealer must be 0, 1 or None"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        aec_env.env(**options)


def test_calls_in_a_wrong_order() -> None:
    env = aec_env.raw_env(render_mode="ansi")
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    with pytest.raises(gym.error.ResetNeeded):
        env.render()
    env.reset(seed=1)
    env.step(18)
    with pytest.raises(ValueError, match="only valid action is None"):
        env.step(0)


def test_spaces_are_the_same_objects_and_have_streams_of_their_own() -> None:
    env = aec_env.env()
    for space in (env.action_space, env.observation_space):
        assert space("player_0") is space("player_0")
        assert space("player_0") is not space("player_1")
        assert space("player_0") == space("player_1")
    assert env.action_space("player_0") == CribbageEnv().action_space


def test_a_copy_plays_on() -> None:
    rng = random.Random(1)
    env = aec_env.env(reward="points", render_mode="ansi")
    env.reset(seed=4)
    for _ in range(20):
        env.step(pick(env.last()[0]["action_mask"], rng))
    twin = pickle.loads(pickle.dumps(env.unwrapped))
    for _ in range(20):
        action = pick(env.last()[0]["action_mask"], rng)
        env.step(action)
        twin.step(action)
        assert twin.rewards == env.rewards
        assert twin.render() == env.render()


# --- The extra -----------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_without_pettingzoo_the_package_works_and_the_message_names_the_extra() -> None:
    said = run_python(
        "import sys; sys.modules['pettingzoo'] = None\n"
        "import cribbage_env\n"
        "cribbage_env.CribbageEnv().reset(seed=1)\n"
        "for look in (lambda: cribbage_env.aec_env, lambda: __import__('cribbage_env.aec_env')):\n"
        "    try:\n"
        "        look()\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
        "print(hasattr(cribbage_env, 'nothing'))\n"
    )
    line = 'cribbage_env.aec_env needs PettingZoo, an extra: pip install "cribbage-lab[pettingzoo]"'
    assert said.splitlines() == [line, line, "False"]


def test_it_is_loaded_when_it_is_asked_for() -> None:
    said = run_python(
        "import cribbage_env, sys\n"
        "print('pettingzoo' in sys.modules)\n"
        "env = cribbage_env.aec_env.env()\n"
        "print('pettingzoo' in sys.modules, env)\n"
    )
    assert said.splitlines() == ["False", "True cribbage_v0"]
