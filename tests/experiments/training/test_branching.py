"""Traversals against a plain recursion over all that a seat may play, and the gradients that are learned from them."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import random_weights, write_sample
from numpy.typing import NDArray
from training_samples import small

from agents.board import load_board_table
from agents.neural.agent import load_agent
from agents.neural.checkpoint import NetworkShape
from agents.neural.features import play_candidates, play_features
from agents.neural.networks import ExactNetwork
from cribbage_env import Game, Rules
from cribbage_env.streams import combine_arrays
from experiments.training.branching import Sampling, Traversed, traverse
from experiments.training.espg import logit_gradients
from experiments.training.league import League
from experiments.training.objective import Objective

SHAPE = NetworkShape((4, 4), (16, 8), False)
PLAY_SLOTS = play_features(False).slots
DEALER_COLUMN = sum(  # of the features of plays: who deals, and how many cards the opponent holds
    count for count, _ in list(PLAY_SLOTS.values())[: list(PLAY_SLOTS).index("seats")]
)
ALL = Sampling(full_reach=1e-9, explore=0.0, tremble=0.0, scores=False)
POINTS = Objective.of("points", None, Rules())


class Policy:
    """A soft policy of one side and another one, which may be all but certain of every play, of the other.

    Args:
        pone, dealer: what their logits are multiplied with: 0.1 is soft, 1000 certain.
    """

    def __init__(self, pone: float = 0.1, dealer: float = 0.1) -> None:
        self._network = ExactNetwork(random_weights(SHAPE, 8)["play"], torch.device("cpu"))
        self._factors = np.array([pone, dealer])

    def __call__(self, features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        deals = (features[:, DEALER_COLUMN] - play_features(False).first("seats")) % 2
        return self._network.values(features, known) * self._factors[deals]


@dataclass
class Decision:
    """One of the plain recursion's."""

    features: bytes
    policy: list[float]
    values: list[float]
    reach: float
    replies: int
    """Decisions of the other seat after it, whatever is done at it."""


@dataclass
class Tree:
    """All that a seat may play against certain answers."""

    decisions: list[Decision]
    value: float
    replies: int

    @property
    def found(self) -> list[tuple[bytes, list[float], float]]:
        """As of :func:`decisions_of`."""
        return [(one.features, one.values, one.reach) for one in self.decisions]


def played_points(game: Game, seat: int) -> float:
    """Points of the play alone, by the game's events."""
    of_play = [event for event in game.events if event.kind in ("card", "go", "last") and event.deal == 0]
    return float(sum(event.points if event.player == seat else -event.points for event in of_play))


def explore_all(game: Game, seat: int, score: Any, worth: Any = played_points, reach: float = 1.0) -> Tree:
    """Every play of the seat in turn, and what the other one is most likely to play."""
    game = copy.deepcopy(game)
    while game.deal == 0 and game.winner is None and game.phase == "play":
        seen = game.observation()
        those = play_candidates(seen["observation"][None], seen["action_mask"][None], False)
        if len(those) == 1:  # cards of one rank are one choice, too
            game.step(int(those.actions[0]))
            continue
        scores = score(those.features, those.known)
        policy = np.exp(scores - scores.max())
        policy /= policy.sum()
        if game.player != seat:
            assert policy.max() > 1 - 1e-9
            game.step(int(those.actions[policy.argmax()]))
            tree = explore_all(game, seat, score, worth, reach)
            return Tree(tree.decisions, tree.value, tree.replies + 1)
        below = []
        for action, likely in zip(those.actions, policy, strict=True):
            after = copy.deepcopy(game)
            after.step(int(action))
            below.append(explore_all(after, seat, score, worth, reach * likely))
        values = [tree.value for tree in below]
        replies = sum(tree.replies for tree in below)
        own = Decision(those.features.tobytes() + those.known.tobytes(), list(policy), values, reach, replies)
        return Tree([own, *(one for tree in below for one in tree.decisions)], float(policy @ values), replies)
    return Tree([], worth(game, seat), 0)


def games_in_play(count: int, seed: int = 1, **options: Any) -> list[Game]:
    """Deals after random discards."""
    rng = np.random.default_rng(seed)
    games = []
    for number in range(count):
        game = Game(seed=1000 * seed + number, dealer=number % 2, **options)
        while game.phase == "discard":
            game.step(int(rng.choice(game.legal_actions())))
        games.append(game)
    return games


def starts_of(games: list[Game]) -> NDArray[np.int16]:
    return np.array([game._row for game in games])


def some_keys(count: int, seed: int = 5) -> NDArray[np.uint64]:
    return combine_arrays(np.full(count, seed, np.uint64), np.arange(count))


def decisions_of(traversed: Traversed) -> list[tuple[bytes, list[float], float]]:
    """Features with known points, values, weight."""
    return [
        (
            traversed.features[begin:end].tobytes() + traversed.known[begin:end].tobytes(),
            traversed.values[begin:end].tolist(),
            float(weight),
        )
        for (begin, end), weight in zip(pairwise(traversed.first.tolist()), traversed.weights, strict=True)
    ]


Found = list[tuple[bytes, list[float], float]]


def agree(found: Found, expected: Found) -> bool:
    """Whether these are the same decisions, values to 0.001, in whatever order."""
    waiting: dict[bytes, list[NDArray[np.float64]]] = {}
    for features, values, weight in expected:
        waiting.setdefault(features, []).append(np.array([*values, 1000 * weight]))
    for features, values, weight in found:
        those = waiting.get(features, [])
        one = np.array([*values, 1000 * weight])
        near = [at for at, other in enumerate(those) if np.abs(one - other).max() < 1e-3]
        if not near:
            return False
        those.pop(near[0])
    return len(found) == len(expected)


def policy_against(seat: int, game: Game, certain: float = 1e8) -> Policy:
    """Soft for the seat, certain for the other one."""
    return Policy(dealer=certain) if game.dealer != seat else Policy(pone=certain)


@pytest.mark.parametrize("seat", [0, 1])
def test_every_action_has_the_value_that_a_plain_recursion_gives_it(seat: int) -> None:
    found = 0
    for game in games_in_play(16):
        score = policy_against(seat, game)
        tree = explore_all(game, seat, score)
        traversed = traverse(starts_of([game]), np.array([seat]), some_keys(1), score, POINTS, ALL)
        assert agree(decisions_of(traversed), tree.found)
        assert traversed.beginnings[0] == pytest.approx(tree.value, abs=1e-6)
        found += len(tree.decisions)
    assert found > 16 * 8


def test_other_agents_answer_in_the_same_way(tmp_path: Path) -> None:
    path = write_sample(tmp_path / "x.pt", seed=3)
    league = League(small(opponents={"agents": {str(path): 1.0}}))
    agent = load_agent(str(path))
    soft = Policy()
    for number, game in enumerate(games_in_play(10, seed=2)):
        seat = number // 2 % 2

        def score(features: Any, known: Any, game: Game = game, seat: int = seat) -> Any:
            """The agent's own for the other seat."""
            deals = (features[0, DEALER_COLUMN] - play_features(False).first("seats")) % 2
            theirs = (deals == 1) != (game.dealer == seat)
            return 1e6 * agent.network("play").values(features, known) if theirs else soft(features, known)

        tree = explore_all(game, seat, score)
        traversed = traverse(
            starts_of([game]), np.array([seat]), some_keys(1), soft, POINTS, ALL, league, np.zeros(1, np.int64)
        )
        assert agree(decisions_of(traversed), tree.found)
        itself = traverse(starts_of([game]), np.array([seat]), some_keys(1), soft, POINTS, ALL, league, np.full(1, -1))
        alone = traverse(starts_of([game]), np.array([seat]), some_keys(1), soft, POINTS, ALL)
        assert agree(decisions_of(itself), decisions_of(alone))  # a number below zero stands for the learner itself


def test_deals_in_one_call_do_not_touch_each_other() -> None:
    games = games_in_play(40, seed=3)
    seats, keys = np.arange(40) // 2 % 2, some_keys(40)
    sampling = Sampling(0.5, 0.1, 0.1, False)
    soft = Policy()
    together = traverse(starts_of(games), seats, keys, soft, POINTS, sampling)
    alone = [
        traverse(starts_of([game]), seats[i : i + 1], keys[i : i + 1], soft, POINTS, sampling)
        for i, game in enumerate(games)
    ]
    assert agree(decisions_of(together), [one for those in alone for one in decisions_of(those)])
    assert together.beginnings == pytest.approx([one.beginnings[0] for one in alone])
    assert together.visited == sum(one.visited for one in alone)


def test_a_game_that_ends_in_the_play_is_paid_what_the_board_says() -> None:
    """With another reward than points, the values of ends come from a board table, and only they."""
    board = load_board_table().dealer
    objective = Objective.of("win", None, Rules())
    games = games_in_play(12, seed=4, scores=(118, 112))
    ended = 0

    def worth(game: Game, seat: int) -> float:
        nonlocal ended
        if game.winner is not None:
            ended += 1
            return 1.0 if game.winner == seat else -1.0
        value = float(board[game.scores[game.dealer], game.scores[1 - game.dealer]])
        return value if game.dealer == seat else -value

    for number, game in enumerate(games):
        seat = number // 2 % 2
        score = policy_against(seat, game)
        tree = explore_all(game, seat, score, worth)
        traversed = traverse(starts_of([game]), np.array([seat]), some_keys(1), score, objective, ALL)
        measure = objective.measure(starts_of([game]))
        in_points = [
            (features, [value * measure.unit[0] + measure.before[0, seat] for value in values], weight)
            for features, values, weight in decisions_of(traversed)
        ]
        assert agree(in_points, tree.found)
    assert ended > 50


# --- Sampling -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("explore", [0.0, 0.3])
def test_weights_are_the_seats_own_reach(explore: float) -> None:
    """Of decisions that are all kept: with the share of random play in it."""
    decisions = 0
    for number, game in enumerate(games_in_play(8, seed=6)):
        seat = number // 2 % 2
        score = policy_against(seat, game)
        sampling = Sampling(1e-9, explore, 0.0, False)
        traversed = traverse(starts_of([game]), np.array([seat]), some_keys(1), score, POINTS, sampling)
        plain = explore_all(game, seat, _mixed(score, explore, dealer=game.dealer == seat))
        without_values = [[(one[0], [], one[2]) for one in those] for those in (decisions_of(traversed), plain.found)]
        assert agree(*without_values)
        decisions += len(plain.decisions)
    assert decisions > 50


def _mixed(score: Any, explore: float, dealer: bool) -> Any:
    """Logits of the seat's policy with a share of random play; the other seat's as they are."""

    def mixed(features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        scores = score(features, known)
        if ((features[0, DEALER_COLUMN] - play_features(False).first("seats")) % 2 == 1) != dealer:
            return scores
        policy = np.exp(scores - scores.max())
        return np.log((1 - explore) * policy / policy.sum() + explore / len(scores))

    return mixed


def test_thinning_changes_nothing_in_expectation() -> None:
    """The weighted decisions and values over many keys, against those of the whole tree."""
    repeats, checked = 1500, 0
    for game in games_in_play(4, seed=7):
        score = policy_against(1, game)
        tree = explore_all(game, 1, score)
        expected: dict[bytes, NDArray[np.float64]] = {}
        for one in tree.decisions:
            sums = np.array([one.reach, *(one.reach * value for value in one.values)])
            expected[one.features] = expected.get(one.features, np.zeros(len(sums))) + sums
        rows, seats = np.repeat(starts_of([game]), repeats, axis=0), np.ones(repeats, np.int64)
        traversed = traverse(rows, seats, some_keys(repeats), score, POINTS, Sampling(1.0, 0.0, 0.0, False))
        assert len(traversed.weights) < 0.5 * repeats * len(tree.decisions)
        found: dict[bytes, list[NDArray[np.float64]]] = {}
        for features, values, weight in decisions_of(traversed):
            found.setdefault(features, []).append(np.array([weight, *(weight * value for value in values)]))
        assert set(found) <= set(expected)
        for features, sums in expected.items():
            samples = np.array(found.get(features, [np.zeros(len(sums))]))
            mean = samples.sum(axis=0) / repeats
            square = (samples**2).sum(axis=0) / repeats
            error = np.sqrt(np.maximum(square - mean**2, 1e-12) / repeats)
            if len(samples) > 50:
                assert (np.abs(mean - sums) < 5 * error + 1e-6).all()
                checked += 1
        values = traversed.beginnings
        assert values.mean() == pytest.approx(tree.value, abs=5 * values.std() / np.sqrt(repeats) + 1e-6)
        assert values.std() > 0
    assert checked > 20


def test_thinning_changes_nothing_against_a_policy_that_draws() -> None:
    """Sums over the decisions of the same deals, twice with other draws."""
    differences = []
    for part in range(40):
        rows = np.repeat(starts_of(games_in_play(20, seed=100 + part)), 8, axis=0)
        seats = np.tile([0, 1], len(rows) // 2)
        sums = []
        for number, full_reach in enumerate((1e-9, 1.0)):
            sampling = Sampling(full_reach, 0.1, 0.0, False)
            made = traverse(rows, seats, some_keys(len(rows), 2 * part + number), Policy(), POINTS, sampling)
            sizes = np.diff(made.first)
            weights = np.repeat(made.weights, sizes)
            figures = [
                made.weights.sum(),
                (made.weights * (sizes == 2)).sum(),
                (made.weights * (sizes == 4)).sum(),
                (weights * made.values).sum(),
                (weights * made.known[:, 0]).sum(),
                made.beginnings.sum(),
            ]
            sums.append(np.array(figures) / len(rows))
        differences.append(sums[1] - sums[0])
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0, ddof=1) / np.sqrt(len(differences))
    assert (np.abs(mean) <= 4.5 * error).all()
    assert (error < 0.3).all()


def test_what_was_decided_before_a_tremble_is_void() -> None:
    """Only decisions after the last choice of the other seat are left if it always plays at random."""
    kept = before = 0
    for number, game in enumerate(games_in_play(8, seed=9)):
        seat = number // 2 % 2
        sampling = Sampling(1e-9, 0.0, 1.0, False)
        score = policy_against(seat, game)
        safe = after_last_replies(game, seat)
        for key in some_keys(4, seed=number):
            traversed = traverse(starts_of([game]), np.array([seat]), np.array([key]), score, POINTS, sampling)
            assert {features for features, _, _ in decisions_of(traversed)} <= safe
            kept += len(traversed.weights)
        usual = traverse(starts_of([game]), np.array([seat]), some_keys(1), score, POINTS, ALL)
        before += sum(features not in safe for features, _, _ in decisions_of(usual))
    assert kept > 20
    assert before > 20


def after_last_replies(game: Game, seat: int) -> set[bytes]:
    """The decisions of a seat after which the other one has no choice, whatever both do."""
    found: set[bytes] = set()

    def walk(game: Game) -> bool:
        """Whether the other seat has a choice."""
        while game.deal == 0 and game.phase == "play":
            seen = game.observation()
            those = play_candidates(seen["observation"][None], seen["action_mask"][None], False)
            if len(those) > 1:
                break
            game.step(int(those.actions[0]))
        else:
            return False
        choice = game.player != seat
        for action in those.actions:
            after = copy.deepcopy(game)
            after.step(int(action))
            choice = walk(after) or choice
        if not choice:
            found.add(those.features.tobytes() + those.known.tobytes())
        return choice

    walk(copy.deepcopy(game))
    return found


def test_trembles_are_as_frequent_as_said_and_leave_values_true() -> None:
    repeats, tremble = 3000, 0.05
    for game in games_in_play(3, seed=10):
        seat = game.pone  # before whose lead nobody can have trembled
        score = policy_against(seat, game)
        first = explore_all(game, seat, score).decisions[0]
        assert first.replies >= 6
        rows, seats = np.repeat(starts_of([game]), repeats, axis=0), np.full(repeats, seat, np.int64)
        made = traverse(rows, seats, some_keys(repeats), score, POINTS, Sampling(1e-9, 0.0, tremble, False))
        valid = [values for features, values, _ in decisions_of(made) if features == first.features]
        weights = [weight for features, _, weight in decisions_of(made) if features == first.features]
        likely = (1 - tremble) ** first.replies
        assert weights == pytest.approx([1 / likely] * len(weights), rel=1e-5)
        assert len(valid) / repeats == pytest.approx(likely, abs=4 * np.sqrt(likely * (1 - likely) / repeats))
        assert all(values == pytest.approx(first.values, abs=1e-4) for values in valid)


def test_what_no_tremble_has_spoiled_stands_for_what_one_has() -> None:
    """Sums over the decisions of the same deals against a policy that draws, with trembles and without."""
    empty = play_features(False).first("opponent_laid") + 13, play_features(False).first("own_laid") + 13
    differences = []
    for part in range(30):
        rows = np.repeat(starts_of(games_in_play(20, seed=200 + part)), 16, axis=0)
        seats = np.tile([0, 1], len(rows) // 2)
        sums = []
        for number, tremble in enumerate((0.0, 0.05)):
            sampling = Sampling(1e-9, 0.1, tremble, False)
            made = traverse(rows, seats, some_keys(len(rows), 2 * part + number), Policy(), POINTS, sampling)
            whole, leads = made.weights_of_beginnings, (made.features[:, [0, 4]] == empty).all(axis=1)
            assert tremble == 0.0 or 0.1 < (whole == 0.0).mean() < 0.9
            weights = np.repeat(made.weights, np.diff(made.first))[leads]
            figures = [
                whole.sum(),
                (whole * made.beginnings).sum(),
                (whole * made.beginnings**2).sum(),
                weights.sum(),
                (weights * made.values[leads]).sum(),
                (weights * made.values[leads] ** 2).sum(),
            ]
            sums.append(np.array(figures) / len(rows))
        differences.append(sums[1] - sums[0])
    mean, error = np.mean(differences, axis=0), np.std(differences, axis=0, ddof=1) / np.sqrt(len(differences))
    assert (np.abs(mean) <= 4.5 * error).all()
    assert (error < [0.05, 0.15, 1.0, 0.15, 0.4, 2.0]).all()


def test_deals_in_which_nobody_has_a_choice() -> None:
    """Four of a kind each."""
    game = Game(decks=["2C 2D 2H 2S KC QD 3C 3D 3H 3S KD QC JH"], dealer=0)
    game.discard("KC QD")
    game.discard("KD QC")
    made = traverse(starts_of([game]), np.array([1]), some_keys(1), Policy(), POINTS, ALL)
    assert len(made.weights) == len(made.values) == len(made.features) == 0
    assert made.first.tolist() == [0]
    assert made.beginnings[0] == played_points(_to_the_end(game), 1)


def _to_the_end(game: Game) -> Game:
    game = copy.deepcopy(game)
    while game.deal == 0:
        game.step(game.legal_actions()[0])
    return game


# --- Gradients ----------------------------------------------------------------------------------------------


def some_decisions(
    count: int,
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.float32]]:
    """Logits, bounds, values, weights."""
    rng = np.random.default_rng(1)
    first = np.concatenate([[0], np.cumsum(rng.integers(2, 5, count))])
    logits = (3 * rng.normal(size=first[-1])).astype(np.float32)
    values = (5 * rng.normal(size=first[-1])).astype(np.float32)
    return logits, first, values, rng.random(count).astype(np.float32)


@pytest.mark.parametrize("tau", [0.0, 0.3])
def test_the_gradient_is_that_of_value_and_entropy(tau: float) -> None:
    logits, first, values, weights = some_decisions(60)
    out, totals = np.empty_like(logits), np.zeros(3)
    logit_gradients(logits, first, values, weights, tau, False, out, totals)
    scores = torch.from_numpy(logits).double().requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    entropies = regrets = 0.0
    for s, (begin, end) in enumerate(pairwise(first.tolist())):
        log_pi = torch.log_softmax(scores[begin:end], dim=0)
        value = (log_pi.exp() * torch.from_numpy(values[begin:end])).sum()
        entropy = -(log_pi.exp() * log_pi).sum()
        loss = loss - float(weights[s]) * (value + tau * entropy)
        entropies += float(weights[s]) * entropy.item()
        regrets += float(weights[s]) * (float(values[begin:end].max()) - value.item())
    loss.backward()
    assert scores.grad is not None
    assert out == pytest.approx(scores.grad.numpy(), abs=1e-5)
    assert totals == pytest.approx([entropies, regrets, weights.sum()], rel=1e-5)


def test_the_gradient_of_neurd_leaves_the_probability_out() -> None:
    """Hennes et al. (2020): the advantage of each action, here with the entropy's in the same manner, centred."""
    logits, first, values, weights = some_decisions(60)
    tau = 0.4
    out = np.empty_like(logits)
    logit_gradients(logits, first, values, weights, tau, True, out, np.zeros(3))
    for s, (begin, end) in enumerate(pairwise(first.tolist())):
        log_pi = torch.log_softmax(torch.from_numpy(logits[begin:end]).double(), dim=0).numpy()
        q = values[begin:end]
        ascent = q - np.exp(log_pi) @ q - tau * (log_pi - log_pi.mean())
        assert out[begin:end] == pytest.approx(-weights[s] * ascent, abs=1e-4)


def test_following_the_gradient_ends_at_the_softmax_of_the_values() -> None:
    """Where value and weighted entropy are greatest: probabilities in proportion to exp(Q / tau), by both rules."""
    values = np.array([1.0, 0.5, -0.2, 3.0, 3.2], np.float32)
    first, weights, tau = np.array([0, 3, 5]), np.ones(2, np.float32), 0.5
    for neurd in (False, True):
        logits, out = np.zeros(5, np.float32), np.empty(5, np.float32)
        for _ in range(4000):
            logit_gradients(logits, first, values, weights, tau, neurd, out, np.zeros(3))
            logits -= 0.2 * out
        for begin, end in pairwise(first.tolist()):
            expected = np.exp(values[begin:end] / tau)
            policy = np.exp(logits[begin:end] - logits[begin:end].max())
            assert policy / policy.sum() == pytest.approx(expected / expected.sum(), abs=1e-3)
