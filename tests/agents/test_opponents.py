"""Mixtures of opponents: shares, draws from seeds, and that every agent gets its own rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chisquare

from agents import AgentError, decision_keys, make_agent
from agents.opponents import Opponents
from agents.random import RandomAgent
from cribbage_env import CribbageVectorEnv


def test_one_opponent() -> None:
    for opponent in ("greedy", make_agent("greedy"), {"greedy": 0.3}):
        one = Opponents(opponent)
        assert (one.names, len(one), one.shares.tolist(), one.bounds.tolist()) == (["greedy"], 1, [1.0], [1.0])
        assert not one.draw(np.arange(100, dtype=np.uint64)).any()
    assert repr(Opponents({"greedy": 1, "random": 3})) == "<Opponents 'greedy': 0.25, 'random': 0.75>"


@given(weights=st.lists(st.floats(1e-6, 1e6) | st.just(0.0), min_size=1, max_size=6).filter(any))
def test_shares_are_the_weights(weights: list[float]) -> None:
    agents = [RandomAgent() for _ in weights]
    mixture = Opponents(dict(zip(agents, weights, strict=True)))
    positive = [weight for weight in weights if weight > 0]
    assert mixture.agents == [agent for agent, weight in zip(agents, weights, strict=True) if weight > 0]
    assert mixture.shares == pytest.approx(np.array(positive) / sum(positive))
    assert mixture.bounds[-1] == 1.0
    assert (np.diff(mixture.bounds) >= -1e-15).all()
    drawn = mixture.draw(np.arange(500, dtype=np.uint64))
    assert drawn.min() >= 0
    assert drawn.max() < len(positive)


def test_draws_follow_the_seed_alone() -> None:
    mixture = Opponents({"random": 2, "greedy": 1, "expected": 5})
    seeds = np.arange(40_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    drawn = mixture.draw(seeds)
    order = np.random.default_rng(1).permutation(len(seeds))
    assert (mixture.draw(seeds[order]) == drawn[order]).all()
    counts = np.bincount(drawn, minlength=3)
    assert chisquare(counts, mixture.shares * len(seeds)).pvalue > 1e-5


def test_every_agent_acts_in_its_own_rows() -> None:
    env = CribbageVectorEnv(60)
    seen, _ = env.reset(seed=1)
    observations, masks = seen["observation"], seen["action_mask"]
    keys = decision_keys(1, np.arange(60), np.arange(60))
    mixture = Opponents({"random": 1, "greedy": 1, "expected": 1})
    which = np.arange(60) % 3
    actions = mixture.act(which, observations, masks, keys)
    for number, name in enumerate(mixture.names):
        rows = which == number
        alone = make_agent(name).act(observations[rows], masks[rows], keys[rows])
        assert (actions[rows] == alone).all()


class Says(RandomAgent):
    def __init__(self, said: Any) -> None:
        super().__init__()
        self.name = "says"
        self.said = said

    def act(self, observations: Any, masks: NDArray[np.int8], keys: Any = None) -> Any:
        return self.said


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([0, 0, 18], "the opponent 'says' chose the illegal action 18; legal were 0, 1, 2"),
        ([0, 19, 0], "the opponent 'says' chose the illegal action 19"),
        ([-1, 0, 0], "the opponent 'says' chose the illegal action -1"),
        ([0, 0], r"the opponent 'says': act must return 3 integers of shape \(3,\), got int64 of shape \(2,\)"),
        ([0.0, 0.0, 0.0], "act must return 3 integers"),
        (None, "act must return 3 integers"),
    ],
)
def test_what_is_no_action_is_refused(said: Any, message: str) -> None:
    env = CribbageVectorEnv(3)
    seen, _ = env.reset(seed=1)
    for mixture in (Opponents(Says(said)), Opponents({Says(said): 1, "greedy": 1})):
        with pytest.raises(AgentError, match=message):
            mixture.act(np.zeros(3, np.int64), seen["observation"], seen["action_mask"], np.zeros(3, np.uint64))


def test_lists_and_small_integers_of_an_agent_are_fine() -> None:
    env = CribbageVectorEnv(3)
    seen, _ = env.reset(seed=1)
    for said in ([1, 2, 3], np.array([1, 2, 3], np.int8), np.array([1, 2, 3], np.uint64)):
        chosen = Opponents(Says(said)).act(
            np.zeros(3, np.int64), seen["observation"], seen["action_mask"], np.zeros(3, np.uint64)
        )
        assert (chosen.tolist(), chosen.dtype) == ([1, 2, 3], np.int64)
