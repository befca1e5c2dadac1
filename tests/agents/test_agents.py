"""What every registered agent must do, and what ``random`` and ``greedy`` are."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from reference import DISCARD_PAIRS, play_score, show_score
from scipy.stats import chisquare

from agents import Agent, agent_names, decision_keys, make_agent, sample_actions
from cribbage_env import Game, field
from cribbage_env.vector_env import CribbageVectorEnv

QUICK_SPECS = {"monte_carlo": "monte_carlo:worlds=6", "ismcts": "ismcts:simulations=20"}  # where the default takes long
SPECS = [QUICK_SPECS.get(name, name) for name in agent_names()]


@cache
def positions() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """720 observations with their masks, from every moment of random games, of both seats."""
    env = CribbageVectorEnv(60, copy=True)
    rng = np.random.default_rng(1)
    seen, _ = env.reset(seed=1)
    observations, masks = [], []
    for step in range(145):
        if step % 13 == 1:  # a deal has ten decisions
            observations.append(seen["observation"])
            masks.append(seen["action_mask"])
        seen = env.step((rng.random((60, 19)) * seen["action_mask"]).argmax(axis=1))[0]
    return np.concatenate(observations), np.concatenate(masks)


def some_keys(n: int, seed: int = 3) -> NDArray[np.uint64]:
    return decision_keys(seed, np.arange(n), np.arange(n))


# --- Every agent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", SPECS)
def test_policy_is_a_distribution_over_legal_actions(spec: str) -> None:
    observations, masks = positions()
    policy = make_agent(spec).policy(observations, masks)
    assert (policy.shape, policy.dtype) == (masks.shape, np.float64)
    assert (policy >= 0).all()
    assert policy.sum(axis=1) == pytest.approx(np.ones(len(policy)), abs=1e-12)
    assert not policy[masks == 0].any()


@pytest.mark.parametrize("spec", SPECS)
def test_actions_are_legal_and_depend_on_their_own_row_alone(spec: str) -> None:
    observations, masks = positions()
    keys = some_keys(len(masks))
    agent = make_agent(spec)
    actions = agent.act(observations, masks, keys)
    assert (actions.shape, actions.dtype) == ((len(masks),), np.int64)
    assert masks[np.arange(len(masks)), actions].all()
    order = np.random.default_rng(2).permutation(len(masks))
    assert (agent.act(observations[order], masks[order], keys[order]) == actions[order]).all()
    agent.act(observations[:50], masks[:50])  # what was asked before does not matter
    for begin, end in ((0, 1), (1, 8), (8, 300), (300, 720)):
        part = make_agent(spec).act(observations[begin:end], masks[begin:end], keys[begin:end])
        assert (part == actions[begin:end]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_that_was_given_is_changed(spec: str) -> None:
    observations, masks = positions()
    keys = some_keys(len(masks))
    before = [array.copy() for array in (observations, masks, keys)]
    agent = make_agent(spec)
    agent.act(observations, masks, keys)
    agent.policy(observations, masks)
    for array, copy in zip((observations, masks, keys), before, strict=True):
        assert (array == copy).all()
    every_second = agent.policy(observations[::2], masks[::2])  # arrays with gaps
    assert (every_second == agent.policy(observations, masks)[::2]).all()


@pytest.mark.parametrize("spec", SPECS)
def test_without_keys_an_agent_has_a_stream_of_its_own(spec: str) -> None:
    observations, masks = positions()
    agent, other = make_agent(spec), make_agent(spec)
    first = [agent.act(observations, masks) for _ in range(2)]
    assert (first[0] == other.act(observations, masks)).all()
    agent.reset(0)
    assert (agent.act(observations, masks) == first[0]).all()
    agent.reset(1)
    if spec == "random":
        assert not (first[1] == first[0]).all()
        assert not (agent.act(observations, masks) == first[0]).all()
    with pytest.raises(ValueError, match="seed must lie between"):
        agent.reset(-1)


@pytest.mark.parametrize("spec", SPECS)
def test_acts_as_its_policy_says(spec: str) -> None:
    """Many keys in one position: chi-square against the policy."""
    observations, masks = positions()
    agent = make_agent(spec)
    policy = agent.policy(observations, masks)
    open_ones = np.flatnonzero((policy > 0).sum(axis=1) > 1)
    chosen = open_ones[:: max(1, len(open_ones) // 6)][:6] if len(open_ones) else [0, 7]
    draws = 1_500
    for row in chosen:
        many = np.repeat(observations[row : row + 1], draws, axis=0), np.repeat(masks[row : row + 1], draws, axis=0)
        counts = np.bincount(agent.act(*many, some_keys(draws)), minlength=19)
        possible = policy[row] > 0
        assert not counts[~possible].any()
        if possible.sum() > 1:
            assert chisquare(counts[possible], draws * policy[row][possible]).pvalue > 1e-5


@pytest.mark.parametrize("spec", SPECS)
def test_names(spec: str) -> None:
    assert make_agent(spec).name == spec
    assert spec in repr(make_agent(spec))


# --- Drawing ------------------------------------------------------------------------------------------------


class Fixed(Agent):
    """Plays given probabilities."""

    def __init__(self, probabilities: list[float]) -> None:
        super().__init__("fixed")
        self.probabilities = np.array(probabilities)

    def policy(self, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
        return np.repeat(self.probabilities[None], len(observations), axis=0)


def test_uneven_policies_are_drawn_from_faithfully() -> None:
    probabilities = [0.0, 0.5, 0.3, 0.0, 0.15, 0.05, 0.0]
    n = 50_000
    actions = Fixed(probabilities).act(np.zeros((n, 1), np.uint8), np.ones((n, 7), np.int8))
    counts = np.bincount(actions, minlength=7)
    used = np.array(probabilities) > 0
    assert not counts[~used].any()
    assert chisquare(counts[used], n * np.array(probabilities)[used]).pvalue > 1e-4


def test_rounding_never_draws_what_has_no_probability() -> None:
    policy = np.zeros((20_000, 19))
    policy[:, [2, 5, 7]] = 1 / 3 - 1e-9  # sums to a little less than 1
    actions = sample_actions(policy, some_keys(20_000))
    assert set(actions.tolist()) == {2, 5, 7}
    certain = np.zeros((1_000, 19))
    certain[:, 18] = 1.0
    assert (sample_actions(certain, some_keys(1_000)) == 18).all()


def test_keys_of_decisions() -> None:
    games, decisions = np.divmod(np.arange(60_000), 200)
    keys = decision_keys(5, games, decisions)
    assert keys.dtype == np.uint64
    assert len(np.unique(keys)) == 60_000
    assert (decision_keys(5, games[1_000:1_010], decisions[1_000:1_010]) == keys[1_000:1_010]).all()
    assert not np.isin(decision_keys(6, games, decisions), keys).any()
    assert len(decision_keys(2**64 - 1, np.array([0]), np.array([0], np.int16))) == 1


# --- random and greedy --------------------------------------------------------------------------------------


def test_random_is_uniform() -> None:
    observations, masks = positions()
    policy = make_agent("random").policy(observations, masks)
    assert (policy == masks / masks.sum(axis=1, keepdims=True)).all()


def greedy_actions(observation: NDArray[np.uint8], mask: NDArray[np.int8]) -> set[int]:
    """The definition of greedy, scored by the plain reference."""
    points = {}
    for action in np.flatnonzero(mask).tolist():
        if action < 15:
            cards = field(observation, "cards").tolist()
            thrown = [cards[place] for place in DISCARD_PAIRS[action]]
            kept = [card for card in cards if card not in thrown]
            sign = 1 if field(observation, "is_dealer")[0] else -1
            pair = show_score(thrown, None, is_crib=True)["total"]
            points[action] = show_score(kept, None)["total"] + sign * pair
        else:
            begin, end = field(observation, "count_begin")[0], field(observation, "num_laid")[0]
            stack = field(observation, "laid")[begin:end].tolist()
            points[action] = play_score([*stack, int(field(observation, "kept")[action - 15])])["total"]
    return {action for action, value in points.items() if value == max(points.values())}


def test_greedy_equals_its_definition() -> None:
    observations, masks = positions()
    policy = make_agent("greedy").policy(observations, masks)
    sizes = set()
    for observation, mask, row in zip(observations, masks, policy, strict=True):
        best = greedy_actions(observation, mask)
        assert {action: row[action] for action in best} == pytest.approx(dict.fromkeys(best, 1 / len(best)))
        sizes.add((bool(mask[:15].any()), bool(field(observation, "is_dealer")[0]), min(len(best), 2)))
    assert len(sizes) == 8, "both roles, both phases, with ties and without"


def test_greedy_by_hand() -> None:
    def best(game: Game) -> list[str]:
        seen = game.observation()
        policy = make_agent("greedy").policy(seen["observation"][None], seen["action_mask"][None])[0]
        return [game.action_text(action) for action in np.flatnonzero(policy)]

    game = Game(dealer=0, decks=["5H 5C JD 2S 9C KD  4H 5S 5D 6C AC 8D  3H"])
    assert best(game) == ["discard 2S 9C"]  # fifteens 5+J, 5+K four times and a pair: 10
    game.discard("2S 9C")
    assert best(game) == ["discard AC 8D"]  # 4 5 5 6: two runs, a pair, two fifteens
    game.discard("AC 8D")
    assert sorted(best(game)) == ["play 5C", "play 5H", "play JD", "play KD"]  # nothing scores on an empty count
    game.play("5H")
    assert sorted(best(game)) == ["play 5D", "play 5S"]  # a pair: two
    game.play("4H")
    assert sorted(best(game)) == ["play 5C", "play JD", "play KD"]  # nothing
    game.play("5C")
    assert best(game) == ["play 6C"]  # 4, 5, 6: three, more than the pair of fives
