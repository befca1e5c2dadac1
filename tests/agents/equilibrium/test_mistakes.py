"""Where a policy loses points: the terms add up to what a best response gains, and each is what it says."""

from __future__ import annotations

import numpy as np
import pytest

from agents.equilibrium.hands import NUM_HANDS, hand_tables, possible
from agents.equilibrium.mistakes import losses, node_reach
from agents.equilibrium.policies import normalised, option_counts, uniform_policy
from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.equilibrium.traverse import BEST, VALUE, Walker
from agents.equilibrium.tree import DEALER_SEAT, PAIR_END, PASS, PONE, Tree, build_tree, history

COPIES = (2, 1, 0, 0, 2, 0, 0, 0, 0, 3, 2, 0, 0)  # small, with enough tens for players to be left alone with two cards


@pytest.fixture(scope="module")
def tree() -> Tree:
    return build_tree(4, COPIES)


@pytest.fixture(scope="module")
def walker(tree: Tree) -> Walker:
    return Walker(tree, dealt_weights(4, COPIES))


def random_policy(tree: Tree, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    policy = normalised(option_counts(tree), rng.random(tree.policy_size).astype(np.float32) ** 4)
    return policy, rng.random(int(tree.end_slots[-1])).astype(np.float32)


def best_orders(tree: Tree) -> np.ndarray:
    """The policy for solo ends that always takes the better order."""
    tables = hand_tables()
    policy = []
    for end in range(tree.ends):
        if tree.end_kind[end] == PAIR_END:
            continue
        solo, node = int(tree.end_kind[end]) - 1, int(tree.end_parent[end])
        seen = tree.seen[node] + (np.uint64(1) << np.uint64(4 * tree.end_edge[end]))
        for hand, (lower, higher) in enumerate(tree.solo_tables[tree.end_table[end]].tolist()):
            if lower != higher and possible(
                seen, tables.packed[2, hand], tables.lowest[2, hand], tree.lowest[node, solo]
            ):
                policy.append(float(lower > higher if solo == PONE else lower < higher))
    assert len(policy) == tree.end_slots[-1]
    return np.array(policy, np.float32)


@pytest.mark.parametrize("seat", [PONE, DEALER_SEAT])
def test_losses_add_up_to_what_a_best_response_gains(walker: Walker, tree: Tree, seat: int) -> None:
    """With nothing to lose in the solo ends, the mistakes at the nodes are all there is."""
    policy, ends = random_policy(tree, 1)
    gain = walker.walk(seat, BEST, policy, ends).sum() - walker.walk(seat, VALUE, policy, ends).sum()
    found = losses(walker, seat, policy, ends)
    assert found.gain == pytest.approx(gain, abs=1e-12)
    # random orders of the last two cards lose something; in this pack pone is never left alone with a choice
    assert found.at_ends > 1e-5 if seat == DEALER_SEAT else abs(found.at_ends) < 1e-6
    assert len(found.mistakes) == 10
    assert sum(mistake.loss for mistake in found.mistakes) < gain
    found = losses(walker, seat, policy, best_orders(tree))
    assert found.gain > 0.1
    assert found.at_ends == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("seat", [PONE, DEALER_SEAT])
def test_a_mistake_is_frequency_times_cost(walker: Walker, tree: Tree, seat: int) -> None:
    policy = random_policy(tree, 2)
    found = losses(walker, seat, *policy, most=50)
    assert len(found.mistakes) == 50
    assert found.mistakes == sorted(found.mistakes, key=lambda mistake: -mistake.loss)
    for mistake in found.mistakes:
        assert tree.mover[mistake.node] == seat
        assert min(mistake.costs) == 0
        assert sum(mistake.policy) == pytest.approx(1, abs=1e-6)
        mean = sum(share * cost for share, cost in zip(mistake.policy, mistake.costs, strict=True))
        assert mistake.frequency * mean == pytest.approx(mistake.loss, rel=1e-4)
        assert 0 < mistake.frequency < 1


def test_the_first_lead_is_as_frequent_as_the_hand(walker: Walker, tree: Tree) -> None:
    found = losses(walker, PONE, *random_policy(tree, 3), most=200)
    leads = [mistake for mistake in found.mistakes if mistake.node == 0]
    assert len(leads) > 5
    for mistake in leads:
        assert mistake.frequency == pytest.approx(float(walker.weights[mistake.hand].sum()), rel=1e-5)


def test_a_solved_policy_has_small_mistakes_only(walker: Walker, tree: Tree) -> None:
    solver = Solver(tree, dealt_weights(4, COPIES))
    for _ in range(60):
        solver.iterate()
    policy, ends = solver.policy(), uniform_policy(tree)[1]
    before = losses(walker, PONE, policy, ends, most=1)
    assert before.mistakes[0].loss < 1e-3
    assert before.gain < exploitability(walker, uniform_policy(tree)[0], ends).mean


def test_nothing_is_lost_by_a_best_response(walker: Walker, tree: Tree) -> None:
    """A pure best response, found by the costs themselves, has nothing left to mend in its decisions."""
    policy, ends = random_policy(tree, 4)
    counts = option_counts(tree).astype(np.int64)
    choices = np.zeros(tree.policy_size, np.float32)
    walker.walk(PONE, BEST, policy, ends, written=choices)
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    best = np.maximum.reduceat(choices, first)
    pure = normalised(option_counts(tree), (choices == np.repeat(best, counts)).astype(np.float32))
    mixed = np.where(np.repeat(tree.mover == PONE, np.diff(tree.slots)), pure, policy)
    found = losses(walker, PONE, mixed, ends, most=3)
    assert found.gain == pytest.approx(found.at_ends, abs=1e-6)
    assert play_value(walker, mixed, ends) > play_value(walker, policy, ends)


@pytest.mark.parametrize("most", [0, 1, 7])
def test_as_many_are_listed_as_asked_for(walker: Walker, tree: Tree, most: int) -> None:
    policy, ends = random_policy(tree, 6)
    found = losses(walker, PONE, policy, ends, most=most)
    assert found.mistakes == losses(walker, PONE, policy, ends, most=20).mistakes[:most]


def test_reach_follows_the_policy(tree: Tree) -> None:
    policy, _ = random_policy(tree, 5)
    assert (node_reach(tree, 0, PONE, policy) == 1).all()
    for node in np.random.default_rng(0).choice(tree.nodes, 200, replace=False):
        for seat in (PONE, DEALER_SEAT):
            reach = node_reach(tree, int(node), seat, policy)
            assert reach.shape == (NUM_HANDS[tree.held[node, seat]],)
            assert ((reach >= 0) & (reach <= 1 + 1e-6)).all()


def test_history_is_the_way_from_the_root(tree: Tree) -> None:
    for node in np.random.default_rng(1).choice(tree.nodes, 200, replace=False):
        steps = history(tree, int(node))
        laid = [step for step in steps if step.edge != PASS]
        assert len(laid) == 8 - int(tree.held[node].sum())
        assert sum(step.points for step in steps) == tree.points[node]
        assert all(0 < step.running_count <= 31 for step in steps)
