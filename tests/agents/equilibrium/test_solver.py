"""Regret minimisation: towards the equilibrium that a linear program finds, step for step like a plain one."""

from __future__ import annotations

import numpy as np
import plain_trees
import pytest
from numpy.typing import NDArray
from plain_trees import SMALL_GAMES, TIGHT, Pack
from small_game_solvers import PlainCfr, solve_by_linear_program

from agents.equilibrium.policies import option_counts, quantised, restored, uniform_policy
from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.equilibrium.traverse import BEST, VALUE, Walker
from agents.equilibrium.tree import FULL_PACK, Tree, build_tree


def bytes_of(solver: Solver) -> dict[str, bytes]:
    return {name: array.tobytes() for name, array in solver.state().items()}


@pytest.mark.parametrize(
    ("cards", "pack"),
    [pytest.param(*game, marks=pytest.mark.slow if n in (1, 3, 4) else ()) for n, game in enumerate(SMALL_GAMES)],
)
def test_small_games_by_linear_program(cards: int, pack: Pack) -> None:
    """The program's equilibrium can't be exploited in the tree, and minimising regrets gets there."""
    tree = build_tree(cards, pack)
    weights, chances = plain_trees.random_weights(cards, pack, 3)
    walker = Walker(tree, weights)
    solution = solve_by_linear_program(chances)
    exact = plain_trees.entries(tree, pack, solution.policy)
    found = exploitability(walker, exact)
    assert found.pone == pytest.approx(solution.value, abs=1e-6)
    assert found.dealer == pytest.approx(-solution.value, abs=1e-6)
    assert play_value(walker, exact) == pytest.approx(solution.value, abs=1e-6)

    solver = Solver(tree, weights)
    bounds = {}
    for wanted in (2, 5, 10, 20, 50, 500):
        while solver.iterations < wanted:
            solver.iterate()
        policy = solver.policy()
        found = exploitability(walker, policy)
        # best responses on both sides of the value, whatever the policy
        assert -found.dealer - 1e-6 <= solution.value <= found.pone + 1e-6
        assert abs(play_value(walker, policy) - solution.value) <= 2 * found.mean + 1e-6
        bounds[wanted] = found.mean
    # measured: 4e-8 to 1.1e-4
    assert bounds[500] < 1.5e-4
    assert list(bounds.values()) == sorted(bounds.values(), reverse=True) or bounds[500] < 1e-6
    assert play_value(walker, policy) == pytest.approx(solution.value, abs=1e-5)


@pytest.mark.parametrize(("cards", "pack"), [SMALL_GAMES[0], SMALL_GAMES[2]])
def test_step_for_step_like_a_plain_one(cards: int, pack: Pack) -> None:
    """The average policy after each iteration, at every infoset, is that of discounted CFR hand by hand."""
    tree = build_tree(cards, pack)
    weights, chances = plain_trees.random_weights(cards, pack, 3)
    solver, plain = Solver(tree, weights), PlainCfr(chances)
    uniform = uniform_policy(tree)[0]
    for _ in range(8):
        solver.iterate()
        plain.iterate()
        expected = plain_trees.entries(tree, pack, plain.policy())
        assert solver.policy() == pytest.approx(expected, abs=1e-5)
    assert abs(expected - uniform).max() > 0.5
    assert (abs(expected - uniform) > 0.01).mean() > 0.3


def test_stop_and_go_on() -> None:
    """Restored, a solver goes on to the same bytes as one that was never stopped."""
    cards, pack = SMALL_GAMES[1]
    tree = build_tree(cards, pack)
    weights = plain_trees.random_weights(cards, pack, 3)[0]
    through = Solver(tree, weights)
    states = {}
    for iteration in range(1, 13):
        through.iterate()
        states[iteration] = {name: np.array(array) for name, array in through.state().items()}
    for stopped in (1, 2, 7, 11):
        other = Solver(tree, weights)
        if stopped == 7:  # whatever it did before
            other.iterate()
        other.restore(states[stopped])
        assert other.iterations == stopped
        while other.iterations < 12:
            other.iterate()
        assert bytes_of(other) == bytes_of(through)
    fresh = Solver(tree, weights)
    fresh.restore(Solver(tree, weights).state())
    fresh.iterate()
    again = Solver(tree, weights)
    again.iterate()
    assert bytes_of(fresh) == bytes_of(again)


def test_a_state_is_not_changed_by_going_on() -> None:
    """What was restored from stays as it was."""
    cards, pack = SMALL_GAMES[2]
    tree = build_tree(cards, pack)
    weights = plain_trees.random_weights(cards, pack, 3)[0]
    first = Solver(tree, weights)
    first.iterate()
    state = {name: np.array(array) for name, array in first.state().items()}
    kept = {name: array.tobytes() for name, array in state.items()}
    second = Solver(tree, weights)
    second.restore(state)
    second.iterate()
    assert {name: array.tobytes() for name, array in state.items()} == kept


def test_a_state_of_another_tree() -> None:
    solvers = []
    for cards, pack in (SMALL_GAMES[0], SMALL_GAMES[2]):
        solvers.append(Solver(build_tree(cards, pack), plain_trees.random_weights(cards, pack, 3)[0]))
    solvers[0].iterate()
    with pytest.raises(ValueError, match=r"regrets: \(\d+,\) belong to this tree, got \(\d+,\)"):
        solvers[1].restore(solvers[0].state())
    assert solvers[1].iterations == 0


def test_threads_change_nothing() -> None:
    cards, pack = 3, FULL_PACK
    tree = build_tree(cards, pack)
    weights = dealt_weights(3) * np.random.default_rng(0).random((455, 455))
    solvers = [Solver(tree, weights / weights.sum(), threads) for threads in (1, 2, 4)]
    for solver in solvers:
        for _ in range(3):
            solver.iterate()
    assert bytes_of(solvers[0]) == bytes_of(solvers[1]) == bytes_of(solvers[2])


def test_scale_of_weights_is_nothing() -> None:
    """Chances that don't sum to 1 (a power of two: exact) lead to the same policy."""
    cards, pack = SMALL_GAMES[0]
    tree = build_tree(cards, pack)
    weights = plain_trees.random_weights(cards, pack, 3)[0]
    one, other = Solver(tree, weights), Solver(tree, weights * 2.0**-9)
    for _ in range(5):
        one.iterate()
        other.iterate()
    assert one.policy() == pytest.approx(other.policy(), abs=1e-6)


@pytest.mark.parametrize(("cards", "pack"), [game for game in SMALL_GAMES if game[1] != TIGHT])
def test_zero_sum(cards: int, pack: Pack) -> None:
    tree = build_tree(cards, pack)
    weights = plain_trees.random_weights(cards, pack, 4)[0]
    walker = Walker(tree, weights)
    solver = Solver(tree, weights)
    for _ in range(4):
        policy = solver.policy()
        value = play_value(walker, policy)
        assert walker.walk(1, VALUE, policy).sum() == pytest.approx(-value, abs=1e-12)
        found = exploitability(walker, policy)
        assert found.mean > 0
        assert found.pone >= value >= -found.dealer
        assert found.pone == walker.walk(0, BEST, policy).sum()
        solver.iterate()


def test_the_whole_play(tree: Tree, weights: NDArray[np.float64], walker: Walker) -> None:
    """Three iterations; the threads, a stop between and one byte a probability change (almost) nothing."""
    solver = Solver(tree, weights, threads=2)
    for _ in range(2):
        solver.iterate()
    state = {name: np.array(array) for name, array in solver.state().items()}
    solver.iterate()
    policy = solver.policy()
    found = exploitability(walker, policy)
    assert 0.02 < found.mean < 0.25  # uniform: 1.4

    other = Solver(tree, weights, threads=1)
    other.restore(state)
    other.iterate()
    assert bytes_of(other) == bytes_of(solver)
    del other, state

    counts = option_counts(tree)
    coarse = restored(counts, quantised(counts, policy))
    assert abs(coarse - policy).max() <= 1.5 / 255
    assert walker.walk(0, BEST, coarse).sum() == pytest.approx(found.pone, abs=3e-3)


@pytest.mark.slow
def test_the_whole_play_longer(tree: Tree, weights: NDArray[np.float64], walker: Walker) -> None:
    solver = Solver(tree, weights)
    uniform, uniform_ends = uniform_policy(tree)
    value = play_value(walker, uniform, uniform_ends)
    assert walker.walk(1, VALUE, uniform, uniform_ends).sum() == pytest.approx(-value, abs=1e-9)
    bounds = [exploitability(walker, uniform, uniform_ends).mean]
    assert 1.0 < bounds[0] < 2.0
    for wanted in (2, 5, 10, 20, 40):
        while solver.iterations < wanted:
            solver.iterate()
        found = exploitability(walker, solver.policy())
        bounds.append(found.mean)
        assert found.pone >= play_value(walker, solver.policy()) >= -found.dealer
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < 0.0015
