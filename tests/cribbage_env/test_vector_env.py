"""The vector environment: it is N single ones, its lists of games, its buffers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from numpy.typing import NDArray

from cribbage_env import CribbageEnv, CribbageVectorEnv, Game, Rules, field
from cribbage_env.engine import BETWEEN, DECISIONS, OVER, PARTS, PHASE, game_seed

REWARDS = ("win", "points", "game_points", "one_two")


def random_actions(masks: NDArray[np.int8], rng: np.random.Generator) -> NDArray[np.int64]:
    """A legal action a row (0 where there is none)."""
    return (rng.random(masks.shape) * masks).argmax(axis=1)


def run(env: CribbageVectorEnv, steps: int, rng: np.random.Generator, **reset: Any) -> Iterator[tuple[Any, ...]]:
    """Play at random: what each step returned."""
    observations, _ = env.reset(**reset)
    for _ in range(steps):
        result = env.step(random_actions(observations["action_mask"], rng))
        yield result
        observations = result[0]


# --- N games are N single games -----------------------------------------------------------------------------


@pytest.mark.parametrize("reward", REWARDS)
@pytest.mark.parametrize("episode", ["game", "deal"])
@pytest.mark.parametrize("skip_forced", [False, True])
@pytest.mark.parametrize("copy", [False, True])
def test_equals_single_environments(reward: str, episode: str, skip_forced: bool, copy: bool) -> None:
    """Step by step: observations, masks, rewards, ends, results, and the games that follow."""
    n = 5
    options: dict[str, Any] = {
        "rules": Rules(61),
        "reward": reward,
        "episode": episode,
        "skip_forced": skip_forced,
        "scores": (20, 10),
    }
    vector = CribbageVectorEnv(n, copy=copy, **options)
    singles = [CribbageEnv(**options) for _ in range(n)]
    rng = np.random.default_rng(1)
    observations, infos = vector.reset(seed=40)
    alone = [env.reset(seed=40 + i) for i, env in enumerate(singles)]
    played = np.zeros(n, int)
    for _ in range(260):
        for i in range(n):
            assert (observations["observation"][i] == alone[i][0]["observation"]).all()
            assert (observations["action_mask"][i] == alone[i][0]["action_mask"]).all()
            assert infos["player"][i] == alone[i][1]["player"]
        actions = random_actions(observations["action_mask"], rng)
        if rng.random() < 0.01:
            actions[0] = 18 if observations["action_mask"][0, 18] == 0 else 0  # illegal
        observations, rewards, terminated, truncated, infos = vector.step(actions)
        assert not truncated.any()
        assert vector.action_masks().tolist() == observations["action_mask"].astype(bool).tolist()
        for i, env in enumerate(singles):
            observation, reward_alone, over, _, info = env.step(actions[i])
            assert rewards[i] == reward_alone
            assert infos["rewards"][i].tolist() == info["rewards"].tolist()
            assert terminated[i] == over
            if over:
                played[i] += 1
                final = {name: values[i] for name, values in infos["final_info"].items()}
                assert (infos["final_obs"]["observation"][i] == observation["observation"]).all()
                assert not infos["final_obs"]["action_mask"].any()
                assert infos["_final_info"][i]
                assert infos["_final_obs"][i]
                check_result(final, env, info, played[i] - 1, 40 + i)
                observation, info = env.reset()
            alone[i] = (observation, info)
        if terminated.any():
            slots, results = vector.finished()
            assert slots.tolist() == np.flatnonzero(terminated).tolist() == np.flatnonzero(infos["_final_obs"]).tolist()
            for name, values in results.items():
                assert (values == infos["final_info"][name][slots]).all()
        else:
            assert "final_info" not in infos
            assert len(vector.finished()[0]) == 0
    assert played.min() >= 2


def check_result(final: dict[str, Any], env: CribbageEnv, info: dict[str, Any], number: int, seed: int) -> None:
    """A game's final result, against the single environment that has just ended."""
    game = env.game
    assert (final["winner"] if final["winner"] >= 0 else None) == info["winner"]
    assert final["scores"].tolist() == info["scores"].tolist() == list(game.scores)
    assert final["raw_scores"].tolist() == list(game.raw_scores)
    assert final["skunk"] == (-1 if game.winner is None else game.skunk)
    assert final["deals"] == game.deal + 1
    assert final["game"] == number
    assert final["seed"] == game.seed == game_seed(np.uint64(seed), number)
    assert final["first_dealer"] == Game(game.rules, game.seed, dealer=None).dealer
    assert final["decisions"] == game.state()[DECISIONS]
    assert (final["forfeit"] >= 0) == ("illegal_action" in info)
    assert final["parts"].shape == (2, len(PARTS))
    if final["forfeit"] < 0:
        assert (final["parts"].sum(axis=1) + np.array([20, 10]) == final["raw_scores"]).all()
    else:
        assert final["winner"] == 1 - final["forfeit"]


def test_make_vec() -> None:
    env = gym.make_vec("Cribbage-v0", num_envs=7, reward="points", rules={"target": 61})
    assert isinstance(env.unwrapped, CribbageVectorEnv)
    assert env.metadata["autoreset_mode"] == gym.vector.AutoresetMode.SAME_STEP
    observations, infos = env.reset(seed=1)
    assert env.observation_space.contains(observations)
    assert env.single_observation_space["observation"].shape == observations["observation"].shape[1:]
    assert infos["player"].shape == (7,)
    observations, rewards, terminated, truncated, _ = env.step(env.action_space.sample() % 15)
    assert env.observation_space.contains(observations)
    assert (rewards.shape, rewards.dtype) == ((7,), np.float64)
    assert terminated.dtype == truncated.dtype == np.bool_
    env.close()


def test_gymnasiums_own_vectors_play_the_same_games() -> None:
    """``vectorization_mode="sync"`` runs N single environments: the same seeds, observations and rewards."""
    ours = gym.make_vec("Cribbage-v0", num_envs=4, reward="points")
    theirs = gym.make_vec(
        "Cribbage-v0",
        num_envs=4,
        reward="points",
        vectorization_mode="sync",
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},
    )
    rng = np.random.default_rng(2)
    observations, _ = ours.reset(seed=9)
    others, _ = theirs.reset(seed=9)
    ends = 0
    for _ in range(400):
        assert (observations["observation"] == others["observation"]).all()
        assert (observations["action_mask"] == others["action_mask"]).all()
        actions = random_actions(observations["action_mask"], rng)
        observations, rewards, terminated, _, infos = ours.step(actions)
        others, their_rewards, their_ends, _, their_infos = theirs.step(actions)
        assert rewards.tolist() == their_rewards.tolist()
        assert terminated.tolist() == their_ends.tolist()
        for i in np.flatnonzero(terminated):
            ends += 1
            assert infos["final_info"]["winner"][i] == their_infos["final_info"]["winner"][i]
            assert (infos["final_obs"]["observation"][i] == their_infos["final_obs"][i]["observation"]).all()
    assert ends >= 4
    theirs.close()


def test_wrappers_of_gymnasium() -> None:
    env = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("Cribbage-v0", num_envs=16, reward="points"))
    rng = np.random.default_rng(3)
    observations, _ = env.reset(seed=1)
    ends = 0
    for _ in range(250):
        observations, _, terminated, _, infos = env.step(random_actions(observations["action_mask"], rng))
        if terminated.any():
            ends += terminated.sum()
            assert (infos["episode"]["l"][terminated] == infos["final_info"]["decisions"][terminated]).all()
    assert ends > 10


# --- Games to play ------------------------------------------------------------------------------------------


def test_slots_are_seeded_one_by_one() -> None:
    env = CribbageVectorEnv(4)
    env.reset(seed=10)
    assert env.seeds.tolist() == [10, 11, 12, 13]
    env.reset(seed=[5, 2**64 - 1, 7, 5])
    assert env.seeds.tolist() == [5, 2**64 - 1, 7, 5]
    env.reset(seed=[1, None, None, 2])
    assert env.seeds[[0, 3]].tolist() == [1, 2]
    assert env.seeds[1] == game_seed(np.uint64(2**64 - 1), 1)
    env.reset()
    assert env.seeds[0] == game_seed(np.uint64(1), 1)
    assert env.seeds[1] == game_seed(np.uint64(2**64 - 1), 2)
    unseeded = CribbageVectorEnv(4)
    unseeded.reset()
    assert len({*unseeded.seeds.tolist(), *env.seeds.tolist()}) == 8


def test_same_seed_same_everything() -> None:
    runs = []
    for _ in range(2):
        env = CribbageVectorEnv(32, copy=False)
        digest = [
            (obs["observation"].tobytes(), obs["action_mask"].tobytes(), rewards.tobytes(), ends.tobytes())
            for obs, rewards, ends, _, _ in run(env, 200, np.random.default_rng(4), seed=3)
        ]
        runs.append(digest)
    assert runs[0] == runs[1]


def play_list(env: CribbageVectorEnv, seeds: list[int], rng: np.random.Generator) -> dict[int, dict[str, Any]]:
    """Play a list of games; the results by index."""
    observations, _ = env.reset(options={"game_seeds": seeds})
    done: dict[int, dict[str, Any]] = {}
    while env.active.any():
        idle = ~env.active
        assert not observations["action_mask"][idle].any()
        assert observations["action_mask"][~idle].any(axis=1).all()
        actions = random_actions(observations["action_mask"], rng)
        actions[idle] = rng.integers(-5, 25, idle.sum())  # ignored
        observations, rewards, terminated, _, infos = env.step(actions)
        assert not terminated[idle].any()
        assert not rewards[idle].any()
        assert not infos["rewards"][idle].any()
        slots, results = env.finished()
        for row in range(len(slots)):
            number = int(results["game"][row])
            assert number not in done
            done[number] = {name: values[row] for name, values in results.items()}
    return done


@pytest.mark.parametrize(("slots", "games"), [(8, 30), (8, 8), (8, 3), (1, 4)])
@pytest.mark.parametrize("copy", [False, True])
def test_a_list_of_games_is_played_exactly(slots: int, games: int, copy: bool) -> None:
    seeds = [1000 + 7 * (k // 2) for k in range(games)]  # every seed twice, as in duplicate deals
    env = CribbageVectorEnv(slots, copy=copy, rules=Rules(61))
    done = play_list(env, seeds, np.random.default_rng(5))
    assert sorted(done) == list(range(games))
    assert [int(done[k]["seed"]) for k in range(games)] == seeds
    for k in range(games):
        assert done[k]["first_dealer"] == Game(Rules(61), seeds[k], dealer=None).dealer
        assert done[k]["winner"] in (0, 1)
    again = play_list(env, seeds[:2], np.random.default_rng(6))
    assert sorted(again) == [0, 1][: len(seeds)]


def test_a_list_leaves_the_streams_where_they_were() -> None:
    env, plain = CribbageVectorEnv(4), CribbageVectorEnv(4)
    env.reset(seed=20)
    plain.reset(seed=20)
    play_list(env, [1, 2, 3, 4, 5], np.random.default_rng(7))
    env.reset()
    plain.reset()
    assert env.seeds.tolist() == plain.seeds.tolist()
    assert env.active.all()


def test_all_slots_idle() -> None:
    env = CribbageVectorEnv(3)
    play_list(env, [4], np.random.default_rng(8))
    for _ in range(3):
        observations, rewards, terminated, _, infos = env.step(np.zeros(3, int))
        for array in (observations["action_mask"], rewards, terminated):
            assert not array.any()
        assert "final_info" not in infos


def test_reset_of_single_slots() -> None:
    env = CribbageVectorEnv(4)
    env.reset(seed=1)
    for _ in range(5):
        env.step(env.action_masks().argmax(axis=1))
    before = env.rows.copy()
    chosen = np.array([True, False, True, False])
    env.reset(seed=[50, 51, 52, 53], options={"reset_mask": chosen})
    assert env.seeds.tolist() == [50, 2, 52, 4]
    assert (env.rows[~chosen] == before[~chosen]).all()
    assert (env.rows[chosen, DECISIONS] == 0).all()


def test_options_of_reset() -> None:
    env = CribbageVectorEnv(6)
    env.reset(seed=1, options={"scores": (100, 90), "dealer": 1})
    assert all(Game.of_state(row, 0, Rules()).scores == (100, 90) for row in env.rows)
    assert (env.players == 0).all()
    rng = np.random.default_rng(9)
    for _ in range(60):
        env.step(random_actions(env.action_masks().astype(np.int8), rng))
    assert (env.numbers > 0).any()
    fresh = env.rows[:, DECISIONS] == 0
    assert all(Game.of_state(row, 0, Rules()).scores == (100, 90) for row in env.rows[fresh])


@pytest.mark.parametrize(
    ("reset", "message"),
    [
        ({"options": {"game_seeds": []}}, "game_seeds must have at least one seed"),
        ({"options": {"game_seeds": [1, -1]}}, "game_seeds must lie between 0 and"),
        ({"options": {"game_seeds": [1.5]}}, "game_seeds must be an integer, got 1.5"),
        ({"options": {"reset_mask": np.zeros(3, bool)}}, r"reset_mask must be \(4,\) bool"),
        ({"options": {"reset_mask": np.zeros(4)}}, r"reset_mask must be \(4,\) bool"),
        ({"options": {"reset_mask": np.arange(4) > 1, "game_seeds": [1]}}, "reset_mask can't"),
        ({"options": {"deal": 1}}, "reset has no option 'deal'"),
        ({"seed": [1, 2]}, "seed must be an integer or 4 of them, got 2"),
        ({"seed": -1}, "seed must lie between"),
    ],
)
def test_resets_that_are_refused(reset: dict[str, Any], message: str) -> None:
    env = CribbageVectorEnv(4)
    env.reset(seed=1)
    before = env.rows.copy()
    with pytest.raises((ValueError, TypeError), match=message):
        env.reset(**reset)
    assert (env.rows == before).all()


@pytest.mark.parametrize("number", [0, -1, 2.0, True, "4"])
def test_numbers_of_environments_that_are_refused(number: object) -> None:
    with pytest.raises(ValueError, match="num_envs must be a positive integer"):
        CribbageVectorEnv(number)  # type: ignore[arg-type]


def test_actions_that_are_refused() -> None:
    env = CribbageVectorEnv(4)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.zeros(4, int))
    env.reset(seed=1)
    with pytest.raises(ValueError, match=r"actions must have the shape \(4,\), got \(3,\)"):
        env.step(np.zeros(3, int))
    with pytest.raises(TypeError, match="actions must be integers, got float64"):
        env.step(np.zeros(4))
    env.step(np.zeros(4, np.int8))
    env.step([0, 1, 2, 3])  # type: ignore[arg-type]


def test_an_illegal_action_loses_its_game_only() -> None:
    env = CribbageVectorEnv(4, dealer=0)
    env.reset(seed=1)
    _, rewards, terminated, _, infos = env.step(np.array([0, 18, 0, 10**18]))
    assert terminated.tolist() == [False, True, False, True]
    assert rewards.tolist() == [0, -1, 0, -1]
    assert infos["rewards"].tolist() == [[0, 0], [1, -1], [0, 0], [1, -1]]
    slots, results = env.finished()
    assert slots.tolist() == [1, 3]
    assert results["forfeit"].tolist() == [1, 1]
    assert results["winner"].tolist() == [0, 0]
    assert results["scores"].tolist() == [[121, 0], [121, 0]]
    assert env.numbers.tolist() == [0, 1, 0, 1]


# --- States that are given and taken ------------------------------------------------------------------------


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("skip_forced", [False, True])
def test_given_states_are_gone_on_from(copy: bool, skip_forced: bool) -> None:
    """As in the environment that they come from, later deals and games too."""
    options: dict[str, Any] = {"reward": "points", "skip_forced": skip_forced, "copy": copy, "rules": Rules(61)}
    env, other = CribbageVectorEnv(6, **options), CribbageVectorEnv(6, **options)
    rng = np.random.default_rng(13)
    observations, infos = env.reset(seed=30)
    for _ in range(25):
        observations, _, _, _, infos = env.step(random_actions(observations["action_mask"], rng))
    other.reset(seed=30)
    while (other.numbers < env.numbers).any():  # the games that the slots are at
        behind = other.numbers < env.numbers
        other.reset(options={"reset_mask": behind})
    rows = env.rows.copy()
    theirs, their_infos = other.set_rows(rows)
    rows[:] = 0  # they are copied
    ends = 0
    for _ in range(300):
        assert (theirs["observation"] == observations["observation"]).all()
        assert (theirs["action_mask"] == observations["action_mask"]).all()
        assert (their_infos["player"] == infos["player"]).all()
        assert (other.action_masks() == env.action_masks()).all()
        actions = random_actions(observations["action_mask"], rng)
        observations, rewards, terminated, _, infos = env.step(actions)
        theirs, their_rewards, their_ends, _, their_infos = other.step(actions)
        assert rewards.tolist() == their_rewards.tolist()
        assert terminated.tolist() == their_ends.tolist()
        assert infos["rewards"].tolist() == their_infos["rewards"].tolist()
        ends += int(terminated.sum())
    assert ends > 10


def test_slots_without_a_game_stay_idle() -> None:
    env = CribbageVectorEnv(4)
    env.reset(options={"game_seeds": [5, 6]})
    observations, _ = env.set_rows(np.repeat(env.rows[:1], 4, axis=0))
    assert env.active.tolist() == [True, True, False, False]
    assert observations["action_mask"].any(axis=1).tolist() == [True, True, False, False]


def test_states_that_are_refused() -> None:
    env = CribbageVectorEnv(4)
    env.reset(seed=1)
    before = env.rows.copy()
    over = before.copy()
    over[2, PHASE] = OVER
    for rows, message in (
        (before[:3], r"rows must be \(4, \d+\) int16, got \(3, \d+\) int16"),
        (before.astype(np.int64), r"rows must be \(4, \d+\) int16, got \(4, \d+\) int64"),
        (over, "rows must be states with a decision to make; in row 2 the deal is over"),
    ):
        with pytest.raises(ValueError, match=message):
            env.set_rows(rows)
        assert (env.rows == before).all()


@pytest.mark.parametrize("episode", ["game", "deal"])
def test_final_rows_are_the_states_at_the_end(episode: str) -> None:
    n = 5
    options: dict[str, Any] = {"rules": Rules(61), "episode": episode, "skip_forced": True}
    vector = CribbageVectorEnv(n, **options)
    singles = [CribbageEnv(**options) for _ in range(n)]
    rng = np.random.default_rng(14)
    observations, _ = vector.reset(seed=60)
    for i, env in enumerate(singles):
        env.reset(seed=60 + i)
    ended = 0
    for _ in range(200):
        actions = random_actions(observations["action_mask"], rng)
        observations, _, terminated, _, _ = vector.step(actions)
        for i, env in enumerate(singles):
            env.step(actions[i])
            if terminated[i]:
                assert (vector.final_rows[i] == env.game.state()).all()
                assert vector.final_rows[i, PHASE] >= BETWEEN
                env.reset()
                ended += 1
    assert ended > 15


# --- Buffers ------------------------------------------------------------------------------------------------


def arrays_of(result: Any) -> list[NDArray[Any]]:
    """All arrays in what reset or step returned."""
    if isinstance(result, np.ndarray):
        return [result]
    if isinstance(result, dict):
        return [array for value in result.values() for array in arrays_of(value)]
    if isinstance(result, tuple):
        return [array for value in result for array in arrays_of(value)]
    return []


def test_copies_are_the_callers_own() -> None:
    """No later step changes them, and writing to them changes no game."""
    env, twin = CribbageVectorEnv(8, copy=True), CribbageVectorEnv(8, copy=True)
    rng = np.random.default_rng(10)
    results = [env.reset(seed=1)]
    kept = [[array.copy() for array in arrays_of(results[0])]]
    twin.reset(seed=1)
    ends = 0
    for number in range(260):
        actions = random_actions(env.action_masks().astype(np.int8), rng)
        results.append(env.step(actions))
        kept.append([array.copy() for array in arrays_of(results[-1])])
        ends += results[-1][2].sum()
        twins = arrays_of(twin.step(actions))
        assert all((one == two).all() for one, two in zip(twins, kept[-1], strict=True))
        if number >= 200:
            for array in twins:
                array[...] = 1  # must not reach the environment
    assert ends > 8
    for result, copies in zip(results, kept, strict=True):
        assert all((one == two).all() for one, two in zip(arrays_of(result), copies, strict=True))


def test_without_copies_the_buffers_are_the_environments_own() -> None:
    env = CribbageVectorEnv(8, copy=False)
    observations, infos = env.reset(seed=1)
    first = {name: array.copy() for name, array in observations.items()}
    again, rewards, terminated, _, later = env.step(env.action_masks().argmax(axis=1))
    assert again["observation"] is observations["observation"]
    assert again["action_mask"] is observations["action_mask"]
    assert later["player"] is infos["player"] is env.players
    assert later["rewards"] is infos["rewards"]
    assert not (again["observation"] == first["observation"]).all()
    _, same_rewards, same_ends, _, _ = env.step(env.action_masks().argmax(axis=1))
    assert same_rewards is rewards
    assert same_ends is terminated


# --- Figures ------------------------------------------------------------------------------------------------


def test_random_play_scores_the_published_points() -> None:
    """Random against random: dealer 12.3, pone 6.4 points a deal, on whole deals."""
    env = CribbageVectorEnv(2000, copy=False, episode="deal", rules={"target": 200}, reward="points")
    rng = np.random.default_rng(11)
    points: list[NDArray[np.int64]] = []
    for _ in run(env, 100, rng, seed=1):
        _, results = env.finished()
        by_seat = results["parts"].sum(axis=2)
        dealers = results["first_dealer"]
        rows = np.arange(len(dealers))
        points.append(np.stack([by_seat[rows, dealers], by_seat[rows, 1 - dealers]], axis=1))
    scored = np.concatenate(points)
    assert len(scored) == 20_000
    error = scored.std(axis=0) / np.sqrt(len(scored))
    # published to one digit: half of its last place, and four standard errors
    assert abs(scored[:, 0].mean() - 12.3) < 0.05 + 4 * error[0]
    assert abs(scored[:, 1].mean() - 6.4) < 0.05 + 4 * error[1]


def test_phase_of_the_observations() -> None:
    env = CribbageVectorEnv(16, copy=False)
    for observations, *_ in run(env, 100, np.random.default_rng(12), seed=1):
        discards = field(observations["observation"], "phase")[:, 0] == 0
        assert (observations["action_mask"][:, :15].all(axis=1) == discards).all()
        assert (field(observations["observation"], "to_act") == 1).all()


def test_slots_without_a_seed_differ() -> None:
    env = CribbageVectorEnv(4)
    env.reset(seed=[1, None, None, None])
    assert len(set(env.seeds.tolist())) == 4
    other = CribbageVectorEnv(3)
    other.reset(options={"reset_mask": np.array([True, False, False])})
    other.reset()
    assert len(set(other.seeds.tolist())) == 3


@pytest.mark.parametrize(
    ("seed", "options"),
    [(2**64 - 2, {"scores": (3, 3)}), ([1, 2, -3, 4], {"dealer": 1}), (5, {"dealer": 7}), (5, {"cards": 1})],
)
def test_a_refused_reset_changes_nothing(seed: object, options: dict) -> None:
    env, twin = CribbageVectorEnv(4), CribbageVectorEnv(4)
    for one in (env, twin):
        one.reset(seed=9)
    with pytest.raises(ValueError):
        env.reset(seed=seed, options=options)
    assert env.options == twin.options
    for one in (env, twin):
        one.reset()
    assert (env.rows == twin.rows).all()
    assert (env.seeds == twin.seeds).all()
