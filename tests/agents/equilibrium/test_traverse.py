"""Walks over the tree: values and best responses, against playing all hands out by other means."""

from __future__ import annotations

import random
from itertools import combinations_with_replacement

import numpy as np
import plain_trees
import pytest
from numpy.typing import NDArray
from plain_play import begin, expected_margin
from rule_policies import GREEDY, HIGHEST, LOWEST, play_pairs, write_policy

from agents.equilibrium.hands import hand_numbers
from agents.equilibrium.policies import normalised, option_counts, uniform_policy
from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.traverse import BEST, VALUE, Policy, Walker
from agents.equilibrium.tree import PONE_SOLO, Tree, build_tree


@pytest.fixture(scope="module")
def uniform(tree: Tree) -> tuple[Policy, Policy]:
    return uniform_policy(tree)


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("pone", "dealer"),
    [
        (GREEDY, 1),
        pytest.param(3, HIGHEST, marks=SLOW),
        pytest.param(GREEDY, GREEDY, marks=SLOW),
        pytest.param(LOWEST, HIGHEST, marks=SLOW),
        pytest.param(HIGHEST, GREEDY, marks=SLOW),
        pytest.param(LOWEST, LOWEST, marks=SLOW),
        *[pytest.param(seed, seed + 1, marks=SLOW) for seed in range(10, 16)],
    ],
)
def test_fixed_policies_against_the_engine(tree: Tree, walker: Walker, pone: int, dealer: int) -> None:
    """All 3,274,375 pairs of hands played through the engine come to the same values, hand by hand."""
    margins, played = play_pairs(pone, dealer)
    assert played.sum() == 3_274_375
    assert ((walker.weights > 0) == played).all()
    policy, end_policy, infosets = write_policy(tree, pone, dealer)
    assert infosets == 21_543_444 + 2_416_616
    weights = walker.weights.astype(np.float64)
    for seat, expected in ((0, (weights * margins).sum(axis=1)), (1, -(weights * margins).sum(axis=0))):
        values = walker.walk(seat, VALUE, policy, end_policy)
        assert values == pytest.approx(expected, abs=1e-12)
        marginal = weights.sum(axis=1 - seat)
        assert values / marginal == pytest.approx(expected / marginal, abs=1e-9)
        assert values.sum() == pytest.approx(expected.sum(), abs=1e-9)


def test_uniform_play_by_recursion(tree: Tree, uniform: tuple[Policy, Policy]) -> None:
    """Sampled pairs of hands, no two with the same hand of a player, so that values by hand are those of pairs."""
    rng = random.Random(1)
    hands = list(combinations_with_replacement(range(13), 4))
    others = rng.sample(hands, len(hands))
    weights = np.zeros((1820, 1820))
    pairs = []
    for pone in rng.sample(hands, 170):
        dealer = others.pop()
        if all((pone + dealer).count(rank) <= 4 for rank in pone):
            pairs.append((pone, dealer))
            weights[hand_numbers()[4][pone], hand_numbers()[4][dealer]] = 2.0**-12  # exact as float32
    assert len(pairs) > 150
    walker = Walker(tree, weights)
    values = walker.walk(0, VALUE, *uniform) * 2.0**12
    opposite = walker.walk(1, VALUE, *uniform) * 2.0**12
    shares = {n: [float(np.float32(1 / n))] * n for n in (2, 3, 4)}
    for pone, dealer in pairs:
        expected = expected_margin(begin(pone, dealer), lambda _, options: shares[len(options)])
        assert values[hand_numbers()[4][pone]] == pytest.approx(expected, abs=1e-9)
        assert opposite[hand_numbers()[4][dealer]] == pytest.approx(-expected, abs=1e-9)


def random_policy(tree: Tree, seed: int, sharpness: float = 2.0) -> Policy:
    """Uneven probabilities, some of them zero."""
    rng = np.random.default_rng(seed)
    raw = rng.random(tree.policy_size, np.float32) ** np.float32(sharpness)
    raw[raw < 0.05] = 0.0
    return normalised(option_counts(tree), raw)


@pytest.mark.parametrize(("cards", "pack"), plain_trees.SMALL_GAMES)
def test_small_games_by_recursion(cards: int, pack: plain_trees.Pack) -> None:
    """Values and best responses of random policies, hand by hand."""
    tree = build_tree(cards, pack)
    weights, chances = plain_trees.random_weights(cards, pack, 3)
    walker = Walker(tree, weights)
    numbers = hand_numbers()[cards]
    end_policy = np.full(int(tree.end_slots[-1]), 0.5, np.float32)
    for seed in range(2 if cards == 3 else 1):
        policy = random_policy(tree, seed)
        said = plain_trees.probabilities(tree, pack, policy)
        by_hand = np.zeros((2, len(weights)))
        for (pone, dealer), chance in chances.items():
            value = chance * plain_trees.plain_value(begin(pone, dealer), said)
            by_hand[0, numbers[pone]] += value
            by_hand[1, numbers[dealer]] -= value
        for seat in (0, 1):
            assert walker.walk(seat, VALUE, policy, end_policy) == pytest.approx(by_hand[seat], abs=1e-12)
            best = np.zeros(len(weights))
            for hand, value in plain_trees.plain_best_by_hand(chances, seat, said).items():
                best[numbers[hand]] = value
            assert walker.walk(seat, BEST, policy, end_policy) == pytest.approx(best, abs=1e-12)
            # the probabilities sum to 1 up to rounding to float32
            assert (best >= by_hand[seat] - 1e-7 * abs(by_hand[seat])).all()
            assert best.sum() > by_hand[seat].sum() or pack == plain_trees.TIGHT


@pytest.mark.parametrize(
    ("seats", "deviations"), [([1], [GREEDY]), pytest.param([0, 1], [GREEDY, LOWEST, 21, 22, 23], marks=SLOW)]
)
def test_best_response_is_best(
    tree: Tree, walker: Walker, uniform: tuple[Policy, Policy], seats: list[int], deviations: list[int]
) -> None:
    """No policy wins more against uniform play, for no hand; with the order of the last cards too."""
    policy, end_policy = uniform
    answers = [write_policy(tree, kind, kind)[:2] for kind in deviations]
    for seat in seats:
        entries = np.repeat(tree.mover == seat, np.diff(tree.slots))
        end_entries = np.repeat(tree.end_kind == 1 + seat, np.diff(tree.end_slots))
        best = walker.walk(seat, BEST, policy, end_policy)
        value = walker.walk(seat, VALUE, policy, end_policy)
        assert (value <= best + 1e-7 * abs(best)).all()
        for own, own_end in answers:
            mixed, mixed_end = np.where(entries, own, policy), np.where(end_entries, own_end, end_policy)
            value = walker.walk(seat, VALUE, mixed, mixed_end)
            assert (value <= best + 1e-7 * abs(best)).all()
            assert value.sum() < best.sum() - 0.1
            # the traverser's own part of a policy is nothing to its best response, at solo ends neither
            assert (walker.walk(seat, BEST, mixed, mixed_end) == best).all()


def test_orders_of_the_last_cards(tree: Tree, walker: Walker, uniform: tuple[Policy, Policy]) -> None:
    """The dealer alone at the end gains by the better order; for a pone alone all orders are worth the same."""
    policy, end_policy = uniform
    assert np.diff(tree.end_slots)[tree.end_kind == PONE_SOLO].sum() == 0
    assert walker.walk(0, BEST, policy, end_policy).sum() > walker.walk(0, BEST, policy).sum() + 0.001


def test_written_choices_are_a_best_response(tree: Tree, walker: Walker, uniform: tuple[Policy, Policy]) -> None:
    """To lay the rank of the greatest written value everywhere wins what the best response does."""
    policy = uniform[0]
    counts = option_counts(tree)
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)[:-1]])
    choices = np.zeros(tree.policy_size, np.float32)
    best = walker.walk(1, BEST, policy, written=choices)
    entries = np.repeat(tree.mover == 1, np.diff(tree.slots))
    assert (choices[~entries] == 0).all()
    greatest = np.repeat(np.maximum.reduceat(choices, starts), counts)
    answer = normalised(counts, (choices == greatest).astype(np.float32))
    value = walker.walk(1, VALUE, np.where(entries, answer, policy))
    assert value == pytest.approx(best, abs=1e-9)


@SLOW
def test_threads_and_runs_give_the_same_bytes(
    tree: Tree, weights: NDArray[np.float64], uniform: tuple[Policy, Policy]
) -> None:
    policy, end_policy = uniform
    results = [Walker(tree, weights, threads).walk(0, BEST, policy, end_policy).tobytes() for threads in (1, 2, 2)]
    assert results[0] == results[1] == results[2]


def test_weights_of_another_size(tree: Tree) -> None:
    with pytest.raises(ValueError, match=r"the weights of hands of 4 cards are \(1820, 1820\), got \(455, 455\)"):
        Walker(tree, dealt_weights(3))
