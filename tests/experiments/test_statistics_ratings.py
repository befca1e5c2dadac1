"""Bradley-Terry ratings: closed forms, a general optimiser, standard errors from the information, simulated pools."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

from experiments.tournament.statistics import MatchResult, bradley_terry, elo, rate_of_elo
from experiments.tournament.statistics.ratings import _fit

ELO = 400 / math.log(10)


def round_robin(
    ratings: Sequence[float], pairs: int, seed: int, split: float | None = None, leave_out: Sequence[int] = ()
) -> list[MatchResult]:
    """Simulated matches of agents 0, 1, ...; games of a pair are independent unless a share of split pairs is given."""
    generator = np.random.default_rng(seed)
    results = []
    for number, (i, j) in enumerate(itertools.combinations(range(len(ratings)), 2)):
        rate = rate_of_elo(ratings[i] - ratings[j])
        if split is None:
            shares = (rate**2, 2 * rate * (1 - rate), (1 - rate) ** 2)
        else:
            even = min(split * 4 * rate * (1 - rate), 1.9 * min(rate, 1 - rate))
            shares = (rate - even / 2, even, 1 - rate - even / 2)
        counts = generator.multinomial(pairs, shares)
        if number not in leave_out:
            results.append(MatchResult(str(i), str(j), *counts.tolist()))
    return results


def by_name(results: Sequence[MatchResult], **options: object) -> dict[str, tuple[float, float, float]]:
    return {row.name: tuple(row.rating) for row in bradley_terry(results, **options)}  # type: ignore[arg-type]


def test_two_agents_have_the_elo_difference_of_their_win_rate() -> None:
    ratings = by_name([MatchResult("a", "b", 300, 600, 100)])
    wins, losses = 2 * 300 + 600 + 0.5, 600 + 2 * 100 + 0.5
    assert ratings["a"] == (0, 0, 0)
    assert ratings["b"][0] == pytest.approx(-elo(wins / (wins + losses)))
    assert ratings["b"][0] == pytest.approx(-elo(0.6), abs=0.2)
    swapped = by_name([MatchResult("b", "a", 100, 600, 300)], anchor="a")
    assert swapped["b"][0] == pytest.approx(ratings["b"][0])


def slow_fit(results: Sequence[MatchResult], names: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Ratings (names[0] has 0) and errors of independent games, by a general optimiser and finite differences."""

    def minus(free: NDArray[np.float64]) -> float:
        rating = dict(zip(names, [0.0, *free], strict=True))
        total = 0.0
        for a, b, both, one, none in results:
            chance = 1 / (1 + 10 ** ((rating[b] - rating[a]) / 400))
            total -= (2 * both + one + 0.5) * math.log(chance) + (one + 2 * none + 0.5) * math.log(1 - chance)
        return total

    found = optimize.minimize(minus, np.zeros(len(names) - 1), method="Nelder-Mead", options={"maxfev": 20_000})
    found = optimize.minimize(minus, found.x, method="BFGS", options={"gtol": 1e-9})
    size = len(found.x)
    hessian = np.zeros((size, size))
    unit = np.eye(size)
    for i, j in itertools.product(range(size), repeat=2):
        hessian[i, j] = (
            minus(found.x + unit[i] + unit[j])
            - minus(found.x + unit[i] - unit[j])
            - minus(found.x - unit[i] + unit[j])
            + minus(found.x - unit[i] - unit[j])
        ) / 4
    return found.x, np.sqrt(np.diag(np.linalg.inv(hessian)))


@pytest.mark.parametrize("leave_out", [(), (0, 4)])  # also where not everyone met everyone
def test_ratings_and_errors_are_those_of_a_general_optimiser(leave_out: Sequence[int]) -> None:
    """With independent games the bootstrap's error is that of the observed information."""
    results = round_robin([0, 60, -40, 150], 400, seed=2, leave_out=leave_out)
    names = ["0", "1", "2", "3"]
    slow, errors = slow_fit(results, names)
    rows = by_name(results, anchor="0", resamples=4000)
    for name, value, error in zip(names[1:], slow, errors, strict=True):
        rating, low, high = rows[name]
        assert rating == pytest.approx(value, abs=0.05)
        assert (high - low) / (2 * 1.96) == pytest.approx(error, rel=0.06)


def test_intervals_know_that_the_games_of_a_pair_depend_on_each_other() -> None:
    """Pairs are split more often than independent games would be: intervals shrink by the root of the variances."""
    agents = [0.0, 10.0, 20.0]
    independent = by_name(round_robin(agents, 2000, seed=3), anchor="0", resamples=10_000)
    split = by_name(round_robin(agents, 2000, seed=3, split=0.8), anchor="0", resamples=10_000)
    for name in ("1", "2"):
        widths = [rows[name][2] - rows[name][1] for rows in (split, independent)]
        assert widths[0] / widths[1] == pytest.approx(math.sqrt(0.05 / 0.125), rel=0.1)


@pytest.mark.parametrize("split", [None, 0.75])
def test_bootstrap_intervals_cover_the_truth(split: float | None) -> None:
    """300 pools of four agents with three intervals each."""
    truth = [0.0, 30.0, -20.0, 120.0]
    covered = 0
    for seed in range(300):
        rows = by_name(round_robin(truth, 150, seed=1000 + seed, split=split), anchor="0", resamples=400, seed=seed)
        covered += sum(rows[str(i)][1] <= truth[i] <= rows[str(i)][2] for i in (1, 2, 3))
    assert 0.93 <= covered / 900 <= 0.97


def test_many_fits_at_once_are_each_of_them() -> None:
    counts = np.random.default_rng(4).integers(1, 200, (5, 3, 3))
    sides = np.array([(0, 1), (1, 2), (0, 2)])
    together = _fit(3, sides, counts)
    for fit, one in zip(together, counts, strict=True):
        assert fit == pytest.approx(_fit(3, sides, one), abs=1e-8)
        assert fit.sum() == pytest.approx(0, abs=1e-9)


def test_the_anchor_has_its_value_and_the_best_come_first() -> None:
    results = round_robin([0, 100, -100], 500, seed=5)
    rows = bradley_terry(results, "2", 1500.0)
    assert [row.name for row in rows] == ["1", "0", "2"]
    assert rows[2].rating == (1500, 1500, 1500)
    assert rows[0].rating.value == pytest.approx(1700, abs=40)
    assert all(row.pairs == 1000 for row in rows)
    first = bradley_terry(results)
    assert next(row for row in first if row.name == "0").rating == (0, 0, 0)
    differences = [row.rating.value for row in rows]
    assert [row.rating.value - first[2].rating.value + 1500 for row in first] == pytest.approx(differences)


def test_the_bootstrap_is_seeded() -> None:
    results = round_robin([0, 50, 20], 100, seed=6)
    assert bradley_terry(results, seed=1) == bradley_terry(results, seed=1)
    assert bradley_terry(results, seed=1) != bradley_terry(results, seed=2)


def test_who_won_or_lost_everything_is_unbounded_on_that_side() -> None:
    results = [MatchResult("a", "b", 100, 0, 0), MatchResult("b", "c", 40, 50, 10), MatchResult("c", "d", 30, 0, 0)]
    rows = by_name(results, anchor="b")
    assert rows["a"][2] == math.inf
    assert 300 < rows["a"][1] < rows["a"][0] < math.inf
    assert rows["d"][1] == -math.inf
    assert -math.inf < rows["d"][0] < rows["d"][2] < 0
    assert all(math.isfinite(number) for number in rows["c"])
    # seen from d, everyone may be arbitrarily far above, and from a, below
    assert all(row.rating.high == math.inf for row in bradley_terry(results, "d") if row.name != "d")
    assert all(row.rating.low == -math.inf for row in bradley_terry(results, "a") if row.name != "a")
    # with one won game each the data bound everything
    back = [*results, MatchResult("d", "a", 1, 1, 9)]
    assert all(math.isfinite(number) for row in bradley_terry(back, "b") for number in row.rating)


def test_two_matches_of_the_same_agents_are_one() -> None:
    apart = by_name([MatchResult("a", "b", 30, 50, 20), MatchResult("b", "a", 10, 60, 30)])
    assert apart["b"][0] == pytest.approx(-elo((110 + 120 + 1) / 402))


@pytest.mark.parametrize(
    ("results", "anchor", "message"),
    [
        ([], None, "there are none"),
        ([MatchResult("a", "b", 0, 0, 0)], None, "there are none"),
        ([MatchResult("a", "a", 1, 2, 3)], None, "with itself"),
        ([MatchResult("a", "b", 1, -2, 3)], None, "negative"),
        ([MatchResult("a", "b", 1, 2, 3)], "c", "'c' has no games"),
        ([MatchResult("a", "b", 1, 2, 3), MatchResult("c", "d", 1, 2, 3)], None, "'c' with 'a'"),
    ],
)
def test_bad_pools_are_errors(results: list[MatchResult], anchor: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        bradley_terry(results, anchor)
