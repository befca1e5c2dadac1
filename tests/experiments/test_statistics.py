"""Intervals: closed forms, an independent solution, and coverage that is computed, not hoped for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from experiments.tournament.statistics import PairTotals, pair_rate

Z = stats.norm.ppf(0.975)


def slow_pair_interval(both: int, one: int, none: int) -> tuple[float, float]:
    """Tango's interval from its definition: the nuisance P(none) by maximising the likelihood, the ends by root."""
    pairs = both + one + none

    def score(d: float) -> float:
        def minus_likelihood(p_none: float) -> float:
            probabilities = (p_none + d, 1 - 2 * p_none - d, p_none)
            return -sum(
                n * math.log(max(p, 1e-300)) for n, p in zip((both, one, none), probabilities, strict=True) if n
            )

        p_none = optimize.minimize_scalar(
            minus_likelihood, bounds=(max(0.0, -d), (1 - d) / 2), method="bounded", options={"xatol": 1e-13}
        ).x
        return (both - none - pairs * d) / math.sqrt(pairs * (2 * p_none + d - d * d))

    middle = (both - none) / pairs
    low = optimize.brentq(lambda d: score(d) - Z, -1 + 1e-9, middle)
    high = optimize.brentq(lambda d: score(d) + Z, middle, 1 - 1e-9)
    return (1 + low) / 2, (1 + high) / 2


@pytest.mark.parametrize("counts", [(12, 36, 2), (3, 5, 1), (40, 30, 30), (250, 1500, 250), (5, 90, 0), (0, 90, 5)])
def test_pair_rate_is_the_score_interval_of_its_definition(counts: tuple[int, int, int]) -> None:
    both, one, none = counts
    rate = pair_rate(both, one, none)
    assert rate.value == pytest.approx((2 * both + one) / (2 * sum(counts)))
    assert (rate.low, rate.high) == pytest.approx(slow_pair_interval(both, one, none), abs=1e-5)


@pytest.mark.parametrize("pairs", [1, 2, 10, 1000, 10**6])
def test_pair_rate_closed_forms_where_all_pairs_end_alike(pairs: int) -> None:
    """All pairs split: d = 0 +- z^2 / (n + z^2). All won: Wilson's lower end n / (n + z^2)."""
    split = pair_rate(0, pairs, 0)
    half_width = Z**2 / (pairs + Z**2) / 2
    assert split == pytest.approx((0.5, 0.5 - half_width, 0.5 + half_width))
    won = pair_rate(pairs, 0, 0)
    assert won == pytest.approx((1.0, pairs / (pairs + Z**2), 1.0))
    assert pair_rate(0, 0, pairs) == pytest.approx((0.0, 0.0, Z**2 / (pairs + Z**2)))


def test_pair_rate_is_symmetric_inside_zero_and_one_and_narrows() -> None:
    generator = np.random.default_rng(0)
    for _ in range(200):
        both, one, none = (int(n) for n in generator.integers(0, 40, 3))
        if both + one + none == 0:
            continue
        rate, mirrored = pair_rate(both, one, none), pair_rate(none, one, both)
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
        assert mirrored == pytest.approx((1 - rate.value, 1 - rate.high, 1 - rate.low), abs=1e-9)
        more = pair_rate(4 * both, 4 * one, 4 * none)
        assert more.high - more.low < rate.high - rate.low
        wider = pair_rate(both, one, none, confidence=0.99)
        assert wider.low <= rate.low
        assert wider.high >= rate.high


def test_pair_rate_without_pairs_is_not_a_number() -> None:
    assert all(math.isnan(number) for number in pair_rate(0, 0, 0))


@pytest.mark.parametrize(
    ("pairs", "probabilities", "least"),
    [
        (10, (0.12, 0.76, 0.12), 0.94),  # alike, as greedy against greedy
        (10, (0.97, 0.03, 0.0), 0.90),  # far apart: few different outcomes are possible, so levels jump
        (40, (0.12, 0.76, 0.12), 0.94),
        (40, (0.34, 0.60, 0.06), 0.93),
        (40, (0.97, 0.03, 0.0), 0.93),
        (120, (0.25, 0.50, 0.25), 0.94),
        (120, (0.97, 0.03, 0.0), 0.92),
        (120, (0.02, 0.97, 0.01), 0.93),
    ],
)
def test_pair_rate_covers_the_truth_exactly_enumerated(
    pairs: int, probabilities: tuple[float, float, float], least: float
) -> None:
    truth = probabilities[0] + probabilities[1] / 2
    covered = 0.0
    for both in range(pairs + 1):
        for none in range(pairs - both + 1):
            counts = (both, pairs - both - none, none)
            weight = stats.multinomial.pmf(counts, pairs, probabilities)
            if weight > 1e-9:
                rate = pair_rate(*counts)
                covered += weight * (rate.low <= truth <= rate.high)
    assert least <= covered <= 0.995


def test_ratio_is_the_delta_method_of_its_definition() -> None:
    generator = np.random.default_rng(1)
    counts = generator.integers(5, 12, (500, 2))
    samples = np.column_stack([generator.poisson(4 * counts[:, 0]), generator.poisson(2 * counts[:, 1]), counts])
    totals = PairTotals(4)
    totals.add(samples)
    x, y, n, m = samples.T
    ratios = x.mean() / n.mean(), y.mean() / m.mean()
    residuals = (x - ratios[0] * n) / n.mean() + (y - ratios[1] * m) / m.mean()
    margin = stats.t.ppf(0.975, 499) * residuals.std(ddof=1) / math.sqrt(500)
    estimate = totals.ratio([0, 1], [2, 3])
    assert estimate == pytest.approx((sum(ratios), sum(ratios) - margin, sum(ratios) + margin))


def test_ratio_covers_the_truth_in_simulation() -> None:
    """Sums of correlated parts over a random number of deals, as points a deal are: truth 6."""
    generator = np.random.default_rng(2)
    covered = 0
    for _ in range(2000):
        deals = generator.integers(4, 8, 60)
        points = generator.poisson(4 * deals)
        totals = PairTotals(3)
        totals.add(np.column_stack([points, points // 2 + generator.binomial(points % 2, 0.5), deals]))
        estimate = totals.ratio([0, 1], [2, 2])
        covered += estimate.low <= 6.0 <= estimate.high
    assert 0.935 <= covered / 2000 <= 0.965


def test_totals_do_not_depend_on_how_pairs_come_in_blocks() -> None:
    samples = np.random.default_rng(3).integers(0, 400, (1000, 3))
    whole, blocks = PairTotals(3), PairTotals(3)
    whole.add(samples)
    for start in range(0, 1000, 7):
        blocks.add(samples[start : start + 7])
    assert whole.pairs == blocks.pairs == 1000
    assert whole.ratio([0, 1], [2, 2]) == blocks.ratio([0, 1], [2, 2])  # not just nearly


def test_ratio_where_it_cannot_say() -> None:
    totals = PairTotals(2)
    assert math.isnan(totals.ratio([0], [1]).value)
    totals.add(np.array([[3, 2]]))
    one_pair = totals.ratio([0], [1])
    assert one_pair.value == 1.5
    assert math.isnan(one_pair.low)
    totals.add(np.array([[3, 2]]))
    assert totals.ratio([0], [1]) == (1.5, 1.5, 1.5)
