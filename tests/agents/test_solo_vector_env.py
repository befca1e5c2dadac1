"""CribbageSolo-v0, many games: it is N single ones, whatever the batch; lists of games, mixtures, buffers."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from agents import Agent, AgentError, make_agent
from agents.random import RandomAgent
from agents.solo_env import CribbageSoloEnv
from agents.solo_vector_env import CribbageSoloVectorEnv
from cribbage_env import CribbageVectorEnv, action_masks, field
from cribbage_env.engine import game_seed

REWARDS = ("win", "points", "game_points", "one_two")
MIXTURE = {"greedy": 1, "random": 1, "expected": 2}


def random_actions(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    """A legal action a row (0 where there is none)."""
    return (rng.random(masks.shape) * masks).argmax(axis=1)


def last_legal(masks: NDArray[np.int8]) -> NDArray[np.int64]:
    """A learner that depends on its own row alone."""
    return masks.shape[1] - 1 - masks[:, ::-1].argmax(axis=1)


# --- N games are N single games -----------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("episode", ["game", "deal"])
@pytest.mark.parametrize("skip_forced", [False, True])
@pytest.mark.parametrize("copy", [False, True])
def test_equals_single_environments(reward: str, episode: str, skip_forced: bool, copy: bool) -> None:
    n = 5
    options: dict[str, Any] = {
        "opponent": MIXTURE,
        "rules": {"target": 61},
        "reward": reward,
        "episode": episode,
        "skip_forced": skip_forced,
        "scores": (20, 10),
    }
    vector = CribbageSoloVectorEnv(n, copy=copy, **options)
    singles = [CribbageSoloEnv(**options) for _ in range(n)]
    rng = np.random.default_rng(1)
    observations, infos = vector.reset(seed=40)
    alone = [env.reset(seed=40 + i) for i, env in enumerate(singles)]
    played, returns, lengths = np.zeros(n, int), np.zeros(n), np.zeros(n, int)
    seats, opponents = set(), set()
    for _ in range(150):
        for i in range(n):
            assert (observations["observation"][i] == alone[i][0]["observation"]).all()
            assert (observations["action_mask"][i] == alone[i][0]["action_mask"]).all()
            info = alone[i][1]
            assert infos["seat"][i] == info["seat"]
            assert vector.opponent_names[infos["opponent"][i]] == info["opponent"]
            assert infos["scores"][i].tolist() == info["scores"].tolist()
            seats.add(info["seat"])
            opponents.add(info["opponent"])
        assert (field(observations["observation"], "to_act") == 1).all()
        actions = random_actions(observations["action_mask"], rng)
        if rng.random() < 0.01:
            actions[0] = 18 if observations["action_mask"][0, 18] == 0 else 0  # illegal
        observations, rewards, terminated, truncated, infos = vector.step(actions)
        assert not truncated.any()
        assert vector.action_masks().tolist() == observations["action_mask"].astype(bool).tolist()
        lengths += 1
        for i, env in enumerate(singles):
            observation, reward_alone, over, _, info = env.step(actions[i])
            assert rewards[i] == reward_alone
            assert infos["rewards"][i].tolist() == info["rewards"].tolist()
            assert terminated[i] == over
            returns[i] += reward_alone
            if over:
                final = {name: values[i] for name, values in infos["final_info"].items()}
                assert (infos["final_obs"]["observation"][i] == observation["observation"]).all()
                assert not infos["final_obs"]["action_mask"].any()
                assert infos["_final_info"][i]
                assert (final["winner"] if final["winner"] >= 0 else None) == info["winner"]
                assert (final["won"], final["seat"]) == (info["won"], info["seat"])
                assert vector.opponent_names[final["opponent"]] == info["opponent"]
                assert final["scores"].tolist() == info["scores"].tolist()
                assert (final["forfeit"] >= 0) == ("illegal_action" in info)
                assert (final["return"], final["length"]) == (returns[i], lengths[i])
                assert final["seed"] == env.game.seed == game_seed(np.uint64(40 + i), played[i])
                if reward == "points":
                    raw = final["raw_scores"].astype(int) - [20, 10]
                    assert returns[i] == raw[final["seat"]] - raw[1 - final["seat"]]
                played[i] += 1
                returns[i] = lengths[i] = 0
                observation, info = env.reset()
            alone[i] = (observation, info)
        if terminated.any():
            slots, results = vector.finished()
            assert slots.tolist() == np.flatnonzero(terminated).tolist()
            for name, values in results.items():
                assert (values == infos["final_info"][name][slots]).all()
        else:
            assert "final_info" not in infos
    assert played.min() >= 2
    assert seats == {0, 1}
    assert opponents == set(MIXTURE)


def results_by_game(env: CribbageSoloVectorEnv, seeds: list[int]) -> dict[int, list[Any]]:
    """Play a list of games with a learner that depends on its own row alone; the results by number."""
    observations, _ = env.reset(options={"game_seeds": seeds})
    done: dict[int, list[Any]] = {}
    while env.active.any():
        idle = ~env.active
        assert not observations["action_mask"][idle].any()
        observations, rewards, terminated, _, _ = env.step(last_legal(observations["action_mask"]))
        assert not terminated[idle].any()
        assert not rewards[idle].any()
        slots, results = env.finished()
        for row in range(len(slots)):
            done[int(results["game"][row])] = [np.asarray(results[name][row]).tolist() for name in sorted(results)]
    return done


def test_a_game_does_not_depend_on_the_games_beside_it() -> None:
    mixture = {"greedy": 1, "random": 2, "monte_carlo:worlds=4": 1}
    seeds = [7 * (k // 2) for k in range(40)]  # every game twice
    options: dict[str, Any] = {"opponent": mixture, "rules": {"target": 31}, "reward": "points"}
    played = [results_by_game(CribbageSoloVectorEnv(slots, **options), seeds) for slots in (1, 7, 40)]
    assert sorted(played[0]) == list(range(40))
    assert played[0] == played[1] == played[2]
    game = sorted(CribbageSoloVectorEnv().finished()[1]).index("game")
    for number in range(0, 40, 2):
        first, second = played[0][number], played[0][number + 1]
        assert [v for i, v in enumerate(first) if i != game] == [v for i, v in enumerate(second) if i != game]
    assert results_by_game(CribbageSoloVectorEnv(3, **options), seeds[:2])[0] == played[0][0]


def test_the_decks_are_those_of_cribbage() -> None:
    """The same seed deals the same cards as the environment with two seats."""
    solo, plain = CribbageSoloVectorEnv(50, opponent="random"), CribbageVectorEnv(50)
    solo.reset(seed=3)
    plain.reset(seed=3)
    assert (solo.rows[:, 22:34] == plain.rows[:, 22:34]).all(), "the cards dealt"
    assert (solo.rows[:, 2] == plain.rows[:, 2]).all(), "the dealers"


def test_gymnasiums_own_vectors_play_the_same_games() -> None:
    options: dict[str, Any] = {"opponent": MIXTURE, "reward": "points"}
    ours = gym.make_vec("CribbageSolo-v0", num_envs=4, **options)
    theirs = gym.make_vec(
        "CribbageSolo-v0",
        num_envs=4,
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
        **options,
    )
    rng = np.random.default_rng(2)
    observations, _ = ours.reset(seed=9)
    others, _ = theirs.reset(seed=9)
    ends = 0
    for _ in range(200):
        assert (observations["observation"] == others["observation"]).all()
        assert (action_masks(ours) == action_masks(theirs)).all()
        assert action_masks(ours).shape == (4, 19)
        actions = random_actions(observations["action_mask"], rng)
        observations, rewards, terminated, _, infos = ours.step(actions)
        others, their_rewards, their_ends, _, their_infos = theirs.step(actions)
        assert rewards.tolist() == their_rewards.tolist()
        assert terminated.tolist() == their_ends.tolist()
        for i in np.flatnonzero(terminated):
            ends += 1
            assert infos["final_info"]["won"][i] == their_infos["final_info"]["won"][i]
    assert ends >= 4
    theirs.close()


def test_make_vec_and_its_spaces() -> None:
    env = gym.make_vec("CribbageSolo-v0", num_envs=7, opponent="random", reward="points", rules={"target": 61})
    assert isinstance(env.unwrapped, CribbageSoloVectorEnv)
    assert env.metadata["autoreset_mode"] == gym.vector.AutoresetMode.SAME_STEP
    observations, infos = env.reset(seed=1)
    assert env.observation_space.contains(observations)
    assert set(infos) == {"seat", "opponent", "scores", "rewards"}
    observations, rewards, terminated, truncated, infos = env.step(env.action_space.sample() % 15)
    assert env.observation_space.contains(observations)
    assert (rewards.shape, rewards.dtype) == ((7,), np.float64)
    assert terminated.dtype == truncated.dtype == np.bool_
    assert infos["scores"].shape == infos["rewards"].shape == (7, 2)
    env.close()


def test_vector_wrappers() -> None:
    """Statistics are those of the learner, and the masks are found below the wrappers."""
    env: Any = gym.make_vec("CribbageSolo-v0", num_envs=16, reward="points")
    env = gym.wrappers.vector.RecordEpisodeStatistics(env)
    env = gym.wrappers.vector.TransformReward(env, lambda rewards: rewards / 10)
    rng = np.random.default_rng(3)
    observations, _ = env.reset(seed=1)
    ends = 0
    for _ in range(150):
        masks = action_masks(env)
        assert masks.dtype == np.bool_
        assert (masks == observations["action_mask"]).all()
        observations, _, terminated, _, infos = env.step(random_actions(masks, rng))
        if terminated.any():
            ends += terminated.sum()
            final = infos["final_info"]
            assert (infos["episode"]["l"][terminated] == final["length"][terminated]).all()
            assert (infos["episode"]["r"][terminated] == final["return"][terminated]).all()
    assert ends > 10


def test_masks_of_what_has_none() -> None:
    with pytest.raises(AttributeError):
        action_masks(gym.make("CartPole-v1"))
    with pytest.raises(AttributeError):
        action_masks(gym.make_vec("CartPole-v1", num_envs=2))


# --- Who plays ----------------------------------------------------------------------------------------------


class Counting(RandomAgent):
    """Counts its calls and the rows it was asked for."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.calls, self.rows = 0, 0
        self.seeds: list[int] = []

    def act(self, observations: Any, masks: Any, keys: Any = None) -> NDArray[np.int64]:
        self.calls += 1
        self.rows += len(observations)
        return super().act(observations, masks, keys)

    def reset(self, seed: int) -> None:
        super().reset(seed)
        if hasattr(self, "seeds"):
            self.seeds.append(seed)


def test_opponents_act_in_batches() -> None:
    agents = [Counting("a"), Counting("b")]
    env = CribbageSoloVectorEnv(1000, opponent=dict.fromkeys(agents, 1.0))
    observations, _ = env.reset(seed=1)
    rng = np.random.default_rng(4)
    for _ in range(20):
        observations = env.step(random_actions(observations["action_mask"], rng))[0]
    for agent in agents:
        assert 20 <= agent.calls < 140
        assert agent.rows > 6_000


def test_seats_and_shares_are_drawn_from_the_seeds() -> None:
    n = 20_000
    env = CribbageSoloVectorEnv(n, opponent={"greedy": 1, "random": 0, "expected": 3.0})
    env.reset(seed=5)
    assert env.opponent_names == ["greedy", "expected"]
    seats, which = env.seats.copy(), env.which.copy()
    assert (which == env.opponents.draw(env.seeds)).all()
    deals = env.rows[:, 2] == seats  # the learner deals
    for share, expected in ((seats.mean(), 0.5), (which.mean(), 0.75), (deals.mean(), 0.5)):
        assert abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / n)
    table = [[np.mean((seats == s) & (which == w)) for w in (0, 1)] for s in (0, 1)]
    assert np.allclose(table, [[0.125, 0.375]] * 2, atol=0.015), "seat and opponent are independent"
    env.reset(seed=5)
    assert (seats == env.seats).all()
    assert (which == env.which).all()


def test_fixed_seat_and_dealer() -> None:
    env = CribbageSoloVectorEnv(8, seat=1, dealer=1, opponent="random")
    rng = np.random.default_rng(6)
    observations, infos = env.reset(seed=1)
    assert (field(observations["observation"], "is_dealer") == 1).all()
    for _ in range(120):
        observations, _, _, _, infos = env.step(random_actions(observations["action_mask"], rng))
        assert (infos["seat"] == 1).all()
        results = env.finished()[1]
        assert (results["first_dealer"] == 1).all()
        assert (results["seat"] == 1).all()
    assert (env.numbers > 0).any()


def test_the_opponent_is_as_strong_as_it_should_be() -> None:
    """A learner that plays as greedy wins half against greedy and nearly always against random."""
    learner = make_agent("greedy")
    rates = {}
    for opponent in ("greedy", "random"):
        env = CribbageSoloVectorEnv(2_000, opponent=opponent)
        observations, _ = env.reset(options={"game_seeds": range(4_000)})
        won: list[NDArray[np.bool_]] = []
        while env.active.any():
            actions = np.zeros(2_000, np.int64)
            rows = np.flatnonzero(env.active)
            actions[rows] = learner.act(observations["observation"][rows], observations["action_mask"][rows])
            observations = env.step(actions)[0]
            won.append(env.finished()[1]["won"])
        rates[opponent] = np.concatenate(won).mean()
        assert len(np.concatenate(won)) == 4_000
    assert abs(rates["greedy"] - 0.5) < 4 * 0.5 / np.sqrt(4_000)
    assert rates["random"] > 0.96


def test_agents_with_streams_of_their_own_begin_anew_at_each_reset() -> None:
    agent = Counting("own")
    env = CribbageSoloVectorEnv(4, opponent=agent)
    env.reset(seed=1)
    env.reset(seed=1)
    env.reset(seed=2)
    first, second, third = agent.seeds
    assert first == second != third
    env.reset(options={"reset_mask": np.array([True, False, False, False])})
    assert len(agent.seeds) == 3, "not for single slots"


# --- Resets -------------------------------------------------------------------------------------------------


def test_reset_options() -> None:
    env = CribbageSoloVectorEnv(6)
    _, infos = env.reset(seed=1, options={"opponent": "random", "seat": 0, "scores": (100, 90), "dealer": 1})
    assert env.opponent_names == ["random"]
    assert (infos["seat"] == 0).all()
    assert (infos["scores"] == [100, 90]).all()
    rng = np.random.default_rng(9)
    observations = env.reset()[0]
    for _ in range(60):
        observations, _, _, _, infos = env.step(random_actions(observations["action_mask"], rng))
        assert (infos["seat"] == 0).all()
    assert (env.numbers > 1).any()


def test_reset_of_single_slots() -> None:
    env = CribbageSoloVectorEnv(4)
    observations, _ = env.reset(seed=1)
    for _ in range(5):
        observations = env.step(last_legal(observations["action_mask"]))[0]
    before = {name: array.copy() for name, array in observations.items()}
    chosen = np.array([True, False, True, False])
    after, _ = env.reset(seed=[50, 51, 52, 53], options={"reset_mask": chosen, "seat": 1})
    assert env.seeds.tolist() == [50, 2, 52, 4]
    assert (after["observation"][~chosen] == before["observation"][~chosen]).all()
    assert (env.seats[chosen] == 1).all()
    with pytest.raises(ValueError, match="reset can't change the opponent of single slots"):
        env.reset(options={"reset_mask": chosen, "opponent": "random"})


@pytest.mark.parametrize(
    "options",
    [
        {"opponent": "nobody"},
        {"opponent": "random", "seat": 3},
        {"opponent": "random", "dealer": 7},
        {"seat": 0, "scores": (121, 0)},
        {"seat": 0, "opponent": "random", "cards": 1},
        {"opponent": "random", "game_seeds": []},
    ],
)
def test_a_refused_reset_changes_nothing(options: dict[str, Any]) -> None:
    env, twin = CribbageSoloVectorEnv(4, opponent="greedy"), CribbageSoloVectorEnv(4, opponent="greedy")
    for one in (env, twin):
        one.reset(seed=9)
    with pytest.raises(ValueError):
        env.reset(options=options)
    assert (env.opponent_names, env.seat) == (["greedy"], None)
    actions = last_legal(env.action_masks().astype(np.int8))
    for one in (env, twin):
        one.step(actions)
        one.reset()
    assert (env.rows == twin.rows).all()
    assert (env.seats == twin.seats).all()


class Faulty(RandomAgent):
    """Lays an illegal card from some call on."""

    def __init__(self, calls: int) -> None:
        super().__init__()
        self.name = "faulty"
        self.calls = calls

    def act(self, observations: Any, masks: Any, keys: Any = None) -> NDArray[np.int64]:
        self.calls -= 1
        actions = super().act(observations, masks, keys)
        if self.calls < 0:
            actions[-1] = masks[-1].argmin()
        return actions


@pytest.mark.parametrize("calls", [0, 5, 40])
def test_a_faulty_opponent_is_an_error(calls: int) -> None:
    for opponent in (Faulty(calls), {"greedy": 1, Faulty(calls): 1}):
        env = CribbageSoloVectorEnv(8, opponent=opponent)

        def play(env: CribbageSoloVectorEnv = env) -> None:
            observations, _ = env.reset(seed=1)
            for _ in range(200):
                observations = env.step(last_legal(observations["action_mask"]))[0]

        with pytest.raises(AgentError, match="the opponent 'faulty' chose the illegal action"):
            play()
        with pytest.raises(gym.error.ResetNeeded):
            env.step(np.zeros(8, int))
        env.reset(options={"opponent": "greedy"})
        env.step(np.zeros(8, int))


def test_actions_that_are_refused() -> None:
    env = CribbageSoloVectorEnv(4)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(4, int))
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"actions must have the shape \(4,\), got \(3,\)"):
        env.step(np.zeros(3, int))
    with pytest.raises(TypeError, match="actions must be integers, got float64"):
        env.step(np.zeros(4))
    with pytest.raises(ValueError, match="num_envs must be a positive integer"):
        CribbageSoloVectorEnv(0)
    with pytest.raises(AgentError, match="unknown agent"):
        gym.make_vec("CribbageSolo-v0", num_envs=2, opponent="nobody")
    env.step(np.zeros(4, int))


def test_an_illegal_action_loses_its_game_only() -> None:
    env = CribbageSoloVectorEnv(4, dealer=0, seat=1)
    env.reset(seed=1)
    _, rewards, terminated, _, infos = env.step(np.array([0, 18, 0, 10**18]))
    assert terminated.tolist() == [False, True, False, True]
    assert rewards.tolist() == [0, -1, 0, -1]
    assert infos["rewards"].tolist() == [[0, 0], [1, -1], [0, 0], [1, -1]]
    results = env.finished()[1]
    assert results["forfeit"].tolist() == [1, 1]
    assert not results["won"].any()
    assert env.numbers.tolist() == [0, 1, 0, 1]


# --- Buffers ------------------------------------------------------------------------------------------------


def arrays_of(result: Any) -> list[NDArray[Any]]:
    """All arrays in what reset or step returned."""
    if isinstance(result, np.ndarray):
        return [result]
    if isinstance(result, dict):
        return [array for value in result.values() for array in arrays_of(value)]
    return [array for value in result for array in arrays_of(value)] if isinstance(result, tuple) else []


def test_copies_are_the_callers_own() -> None:
    """No later step changes them, and writing to them changes no game."""
    env, twin = CribbageSoloVectorEnv(8, opponent=MIXTURE), CribbageSoloVectorEnv(8, opponent=MIXTURE)
    rng = np.random.default_rng(10)
    results = [env.reset(seed=1)]
    kept = [[array.copy() for array in arrays_of(results[0])]]
    twin.reset(seed=1)
    ends = 0
    for number in range(150):
        actions = random_actions(env.action_masks().astype(np.int8), rng)
        results.append(env.step(actions))
        kept.append([array.copy() for array in arrays_of(results[-1])])
        ends += results[-1][2].sum()
        twins = arrays_of(twin.step(actions))
        assert all((one == two).all() for one, two in zip(twins, kept[-1], strict=True))
        if number >= 100:
            for array in twins:
                array[...] = 1  # must not reach the environment
    assert ends > 8
    for result, copies in zip(results, kept, strict=True):
        assert all((one == two).all() for one, two in zip(arrays_of(result), copies, strict=True))


class Vandal(Agent):
    """Writes into what it was given."""

    def __init__(self) -> None:
        super().__init__("vandal")

    def policy(self, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
        policy = masks / masks.sum(axis=1, keepdims=True)
        observations[...] = 0
        return np.asarray(policy)


def test_an_agent_that_writes_into_its_observations_harms_no_game() -> None:
    env, twin = CribbageSoloVectorEnv(8, opponent=Vandal()), CribbageSoloVectorEnv(8, opponent="random")
    first, _ = env.reset(seed=1)
    second, _ = twin.reset(seed=1)
    for _ in range(60):
        assert (first["observation"] == second["observation"]).all()
        actions = last_legal(first["action_mask"])
        first, second = env.step(actions)[0], twin.step(actions)[0]
