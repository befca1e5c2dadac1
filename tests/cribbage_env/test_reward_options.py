"""What rewards add up to, over all options of Cribbage-v0, single and vector. (CribbageSolo-v0: tests/agents.)"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cribbage_env import CribbageEnv, CribbageVectorEnv
from cribbage_env.options import REWARDS

WORTH = {"win": (1, 1, 1), "game_points": (2, 3, 4), "one_two": (1, 2, 2)}


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    target = draw(st.integers(2, 200))
    skunk = draw(st.none() | st.integers(1, target))
    double = None if skunk is None else draw(st.none() | st.integers(1, skunk))
    return {
        "rules": {"target": target, "skunk": skunk, "double_skunk": double},
        "reward": draw(st.sampled_from(REWARDS)),
        "episode": draw(st.sampled_from(["game", "deal"])),
        "skip_forced": draw(st.booleans()),
        "scores": draw(st.tuples(st.integers(0, target - 1), st.integers(0, target - 1))),
        "dealer": draw(st.sampled_from([None, 0, 1])),
    }


def expected_total(chosen: dict[str, Any], winner: int | None, skunk: int, raw: Any) -> float:
    """What seat 0 should have got in an episode."""
    if chosen["reward"] == "points":
        return float(raw[0] - raw[1] - (chosen["scores"][0] - chosen["scores"][1]))
    if winner is None:
        assert chosen["episode"] == "deal"
        return 0.0
    worth = WORTH[chosen["reward"]][skunk]
    return float(worth if winner == 0 else -worth)


@settings(max_examples=120, deadline=None)
@given(chosen=options(), seed=st.integers(0, 2**64 - 1), illegal_at=st.none() | st.integers(0, 12))
def test_a_single_episode(chosen: dict[str, Any], seed: int, illegal_at: int | None) -> None:
    env = CribbageEnv(**chosen)
    observation, info = env.reset(seed=seed)
    rng = np.random.default_rng(seed % 2**32)
    total, terminated, steps = 0.0, False, 0
    while not terminated:
        actor = info["player"]
        action = -1 if steps == illegal_at else int(rng.choice(np.flatnonzero(observation["action_mask"])))
        observation, reward, terminated, _, info = env.step(action)
        assert info["rewards"].sum() == 0.0
        assert reward == info["rewards"][actor]
        assert terminated or chosen["reward"] == "points" or not info["rewards"].any()
        total += info["rewards"][0]
        steps += 1
    game = env.game
    skunk = 0 if game.winner is None else game.skunk
    assert total == expected_total(chosen, game.winner, skunk, game.raw_scores)


@settings(max_examples=40, deadline=None)
@given(chosen=options(), seed=st.integers(0, 2**32))
def test_the_episodes_of_a_vector_environment(chosen: dict[str, Any], seed: int) -> None:
    env = CribbageVectorEnv(8, **chosen)
    observations, _ = env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    totals = np.zeros(8)
    for _ in range(60):
        masks = observations["action_mask"]
        observations, _, _, _, infos = env.step((rng.random(masks.shape) * masks).argmax(axis=1))
        assert not infos["rewards"].sum(axis=1).any()
        totals += infos["rewards"][:, 0]
        slots, results = env.finished()
        for row, slot in enumerate(slots):
            winner = None if results["winner"][row] < 0 else int(results["winner"][row])
            raw = results["raw_scores"][row].astype(int)
            assert totals[slot] == expected_total(chosen, winner, int(results["skunk"][row]), raw)
            totals[slot] = 0
