"""Cribbage-v0: conformance, rewards, options, and that it is the game that ``Game`` plays."""

from __future__ import annotations

import random
import warnings
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import cribbage_env
from cribbage_env import CribbageEnv, Game, Rules, field
from cribbage_env.engine import PART_POINTS

HEELS_DECK = "AC AD 2C 2D 3C 3D  KC KD KH QC QD QH  JS"


def pick(mask: np.ndarray, rng: random.Random) -> int:
    return rng.choice(np.flatnonzero(mask).tolist())


def play_out(env: gym.Env, seed: int | None, rng: random.Random) -> list[dict[str, Any]]:
    """One episode at random: a record of every step."""
    observation, info = env.reset(seed=seed)
    steps: list[dict[str, Any]] = []
    terminated = False
    while not terminated:
        actor = info["player"]
        action = pick(observation["action_mask"], rng)
        observation, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        steps.append({"actor": actor, "action": action, "reward": reward, "observation": observation, "info": info})
    return steps


# --- Gymnasium ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reward": "points", "skip_forced": True},
        {"episode": "deal", "rules": {"target": 61}},
        {"render_mode": "ansi", "scores": (120, 120), "dealer": 1},
    ],
)
def test_check_env_has_nothing_to_say(options: dict[str, Any]) -> None:
    env = gym.make("Cribbage-v0", **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_make() -> None:
    env = gym.make("Cribbage-v0", reward="points", dealer=1)
    assert isinstance(env.unwrapped, CribbageEnv)
    observation, info = env.reset(seed=3)
    assert env.observation_space.contains(observation)
    assert env.action_space == gym.spaces.Discrete(19)
    assert info["player"] == 0
    assert cribbage_env.__version__


def test_every_observation_is_in_the_space() -> None:
    rng = random.Random(1)
    for options in ({}, {"episode": "deal"}, {"rules": {"target": 200}}):
        env = gym.make("Cribbage-v0", **options).unwrapped
        for seed in range(3):
            for step in play_out(env, seed, rng):
                assert env.observation_space.contains(step["observation"])
                assert isinstance(step["reward"], float)
                assert step["info"]["rewards"].shape == (2,)


def test_observations_are_the_callers_own() -> None:
    env = CribbageEnv()
    first, info = env.reset(seed=1)
    kept = {name: array.copy() for name, array in first.items()}
    rewards = info["rewards"].copy()
    for _ in range(30):
        _, _, terminated, _, _ = env.step(int(np.flatnonzero(env.action_masks())[0]))
        assert not terminated
    assert all((first[name] == array).all() for name, array in kept.items())
    assert (info["rewards"] == rewards).all()


# --- The same game as Game ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [Rules(), Rules(61)])
def test_the_episode_is_the_game_of_the_seed(rules: Rules) -> None:
    rng = random.Random(2)
    env = gym.make("Cribbage-v0", rules=rules).unwrapped
    for seed in (0, 1, 7, 2**63, 2**64 - 1):
        game = Game(rules, seed=seed, dealer=None)
        observation, info = env.reset(seed=seed)
        terminated = False
        while not terminated:
            expected = game.observation()
            assert all((observation[name] == expected[name]).all() for name in expected)
            assert (env.action_masks() == expected["action_mask"]).all()
            assert env.action_masks().dtype == np.bool_
            assert info["player"] == game.player
            assert env.game.state().tolist() == game.state().tolist()
            assert str(env.game) == str(game)
            actor = info["player"]
            action = pick(observation["action_mask"], rng)
            game.step(action)
            observation, reward, terminated, _, info = env.step(action)
            assert terminated == (game.phase == "over")
            won = 0.0 if game.winner is None else 1.0 if game.winner == actor else -1.0
            assert reward == won == info["rewards"][actor] == -info["rewards"][1 - actor]
        assert info["winner"] == game.winner
        assert tuple(info["scores"]) == game.scores
        assert "illegal_action" not in info
        last = game.observation(actor)
        assert (observation["observation"] == last["observation"]).all()
        assert not observation["action_mask"].any()
        assert not env.action_masks().any()


def test_later_games_follow_from_the_seed() -> None:
    def decks(env: CribbageEnv, seed: int) -> list[list[int]]:
        dealt = []
        env.reset(seed=seed)
        for _ in range(4):
            dealt.append(env.game.cards(0) + env.game.cards(1))
            env.reset()
        return dealt

    env, other = CribbageEnv(), CribbageEnv()
    assert decks(env, 5) == decks(env, 5) == decks(other, 5)
    assert decks(env, 6) != decks(env, 5)
    assert len({tuple(deck) for deck in decks(env, 5)}) == 4


def test_without_a_seed_every_environment_plays_other_games() -> None:
    env, other = CribbageEnv(), CribbageEnv()
    env.reset()
    other.reset()
    assert env.game.seed != other.game.seed


# --- Rewards ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", ["win", "points", "game_points", "one_two"])
@pytest.mark.parametrize("episode", ["game", "deal"])
@pytest.mark.parametrize("skip_forced", [False, True])
def test_rewards_sum_to_zero_and_to_what_they_say(reward: str, episode: str, skip_forced: bool) -> None:
    rng = random.Random(3)
    env = CribbageEnv(reward=reward, episode=episode, skip_forced=skip_forced)
    for seed in range(8):
        steps = play_out(env, seed, rng)
        by_seat = np.zeros(2)
        for step in steps:
            assert step["reward"] == step["info"]["rewards"][step["actor"]]
            assert step["info"]["rewards"].sum() == 0.0
            assert not np.signbit(step["info"]["rewards"][step["info"]["rewards"] == 0]).any(), "no -0.0"
            by_seat += step["info"]["rewards"]
            if reward != "points" and step is not steps[-1]:
                assert not step["info"]["rewards"].any()
        game = env.game
        winner = steps[-1]["info"]["winner"]
        assert winner == game.winner
        if reward == "points":
            assert by_seat[0] == game.raw_scores[0] - game.raw_scores[1]
        elif winner is None:
            assert episode == "deal"
            assert not by_seat.any()
        else:
            worth = {"win": (1, 1, 1), "game_points": (2, 3, 4), "one_two": (1, 2, 2)}[reward]
            assert by_seat[winner] == worth[game.skunk]


def final_reward(reward: str, rules: Rules, loser_score: int) -> float:
    """What the dealer, seat 0, gets for winning by heels against a player with that score."""
    env = CribbageEnv(reward=reward, rules=rules, scores=(rules.target - 1, loser_score), dealer=0)
    for seed in range(200):
        env.reset(seed=seed)
        env.step(0)
        _, value, terminated, _, info = env.step(0)
        if terminated:  # the starter was a jack: no other point can have fallen
            assert info["winner"] == 0
            assert info["rewards"][0] == value == -info["rewards"][1]
            return float(value)
    raise AssertionError("no jack in 200 cuts")


@pytest.mark.parametrize(
    ("rules", "loser", "game_points", "one_two"),
    [
        (Rules(), 91, 2, 1),
        (Rules(), 90, 3, 2),
        (Rules(), 61, 3, 2),
        (Rules(), 60, 4, 2),
        (Rules(), 0, 4, 2),
        (Rules(61), 31, 2, 1),
        (Rules(61), 30, 3, 2),
        (Rules(61), 0, 3, 2),
        (Rules(61, 40, 20), 20, 3, 2),
        (Rules(61, 40, 20), 19, 4, 2),
        (Rules(skunk=None), 0, 2, 1),
    ],
)
def test_what_a_win_is_worth(rules: Rules, loser: int, game_points: float, one_two: float) -> None:
    assert final_reward("game_points", rules, loser) == game_points
    assert final_reward("one_two", rules, loser) == one_two
    assert final_reward("win", rules, loser) == 1


# --- Illegal actions ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reward", "loss"), [("win", -1.0), ("game_points", -4.0), ("one_two", -2.0)])
@pytest.mark.parametrize("action", [15, 18, 19, -1, 10**30])
def test_an_illegal_action_loses(action: int, reward: str, loss: float) -> None:
    env = CribbageEnv(reward=reward, dealer=0)
    observation, _ = env.reset(seed=1)
    mask = observation["action_mask"]
    observation, value, terminated, truncated, info = env.step(action)
    assert (value, terminated, truncated) == (loss, True, False)
    assert info["rewards"].tolist() == [-loss, loss]  # seat 1, pone, acted
    assert info["winner"] == 0
    assert info["scores"].tolist() == [121, 0]
    assert info["illegal_action"]["action"] == action
    assert (info["illegal_action"]["action_mask"] == mask).all()
    assert not observation["action_mask"].any()
    with pytest.raises(gym.error.ResetNeeded):
        env.step(0)
    env.reset()
    env.step(0)


def test_an_illegal_action_in_the_play() -> None:
    env = CribbageEnv(reward="points", dealer=1)
    env.reset(seed=4)
    env.step(0)
    env.step(0)
    observation, _, _, _, info = env.step(16)
    illegal = int(np.flatnonzero(observation["action_mask"] == 0)[3])
    loser = info["player"]
    before = env.game.raw_scores
    _, value, terminated, _, info = env.step(illegal)
    assert terminated
    assert info["winner"] == 1 - loser
    assert value == before[1 - loser] - 121, "the winner is given the points that it lacks"
    assert env.game.raw_scores[loser] == before[loser]
    assert sum(info["rewards"]) == 0


@pytest.mark.parametrize("action", [1.0, "1", None, np.array([1, 2]), np.float64(3)])
def test_what_is_no_action_at_all_raises(action: object) -> None:
    env = CribbageEnv()
    env.reset(seed=1)
    with pytest.raises(TypeError):
        env.step(action)  # type: ignore[arg-type]
    env.step(np.int64(1))  # the game goes on


def test_step_before_reset() -> None:
    with pytest.raises(gym.error.ResetNeeded, match="reset"):
        CribbageEnv().step(0)


# --- Options ------------------------------------------------------------------------------------------------


def test_a_deal_episode_ends_after_one_deal() -> None:
    rng = random.Random(5)
    env = CribbageEnv(episode="deal", scores=(50, 60))
    for seed in range(10):
        steps = play_out(env, seed, rng)
        assert len(steps) == 10
        assert steps[-1]["info"]["winner"] is None
        game = env.game
        assert game.deal == 0
        assert len(game.laid) == 8
        parts = game.state()[PART_POINTS : PART_POINTS + 12].reshape(2, 6)
        assert [50 + parts[0].sum(), 60 + parts[1].sum()] == list(game.raw_scores)
        assert field(steps[-1]["observation"]["observation"], "phase") == 2
    env = CribbageEnv(episode="deal", scores=(120, 120))
    ends = [len(play_out(env, seed, rng)) for seed in range(20)]
    assert min(ends) < 10  # the game is over within the deal


def test_skip_forced_leaves_only_choices() -> None:
    """The same game with the same choices; no play with a single card is asked for."""
    rng = random.Random(6)
    asked = CribbageEnv(reward="points")
    skipping = CribbageEnv(reward="points", skip_forced=True)
    for seed in range(6):
        observation, info = skipping.reset(seed=seed)
        full, full_info = asked.reset(seed=seed)
        terminated = False
        totals = np.zeros((2, 2))
        while not terminated:
            assert observation["action_mask"].sum() > 1
            assert (full["observation"] == observation["observation"]).all()
            assert full_info["player"] == info["player"]
            action = pick(observation["action_mask"], rng)
            observation, _, terminated, _, info = skipping.step(action)
            totals[0] += info["rewards"]
            full, _, over, _, full_info = asked.step(action)
            totals[1] += full_info["rewards"]
            while not over and full["action_mask"].sum() == 1:
                full, _, over, _, full_info = asked.step(int(full["action_mask"].argmax()))
                totals[1] += full_info["rewards"]
            assert terminated == over
            assert (totals[0] == totals[1]).all()


def test_reset_options() -> None:
    env = CribbageEnv()
    _, info = env.reset(seed=1, options={"scores": (100, 20), "dealer": 1})
    assert (env.game.scores, env.game.dealer, info["player"]) == ((100, 20), 1, 0)
    env.reset()
    assert (env.game.scores, env.game.dealer) == ((100, 20), 1), "for all later games"
    env.reset(options={"dealer": None, "scores": [0, 0]})
    assert env.game.scores == (0, 0)
    env.reset(seed=1)
    assert env.game.dealer == Game(seed=1, dealer=None).dealer


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"score": (1, 2)}, "reset has no option 'score'; there are scores, dealer"),
        ({"scores": (121, 0)}, "scores must lie between 0 and 120"),
        ({"dealer": 3}, "dealer must be 0, 1 or None"),
    ],
)
def test_reset_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    env = CribbageEnv()
    env.reset(seed=1)
    with pytest.raises(ValueError, match=message):
        env.reset(options=options)
    env.step(0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "score"}, "reward must be one of win, points, game_points, one_two, got 'score'"),
        ({"episode": "hand"}, "episode must be one of game, deal, got 'hand'"),
        ({"skip_forced": 1}, "skip_forced must be true or false, got 1"),
        ({"rules": {"goal": 61}}, "rules has no 'goal'; there are target, skunk, double_skunk"),
        ({"rules": 61}, "rules must be Rules or a mapping"),
        ({"scores": (0, 121)}, "scores must lie between 0 and 120"),
        ({"dealer": "me"}, "dealer must be 0, 1 or None"),
        ({"render_mode": "human"}, "render_mode must be one of .*ansi"),
    ],
)
def test_options_that_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        CribbageEnv(**options)


def test_render() -> None:
    env = CribbageEnv(render_mode="ansi", dealer=1)
    env.reset(seed=1)
    text = env.render()
    assert text is not None
    assert "seat 0  pone " in text
    assert CribbageEnv().render_mode is None
