"""The sequential test on pairs: published values, closed forms, a general optimiser, and simulated matches."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize, stats

from experiments.tournament.statistics import (
    PAIR_SCORES,
    Sprt,
    log_likelihood_ratio,
    pair_rate,
    rate_of_elo,
    sprt_pairs,
)
from experiments.tournament.statistics.exit_times import probability_of_less

POINTS = (0.0, 0.25, 0.5, 0.75, 1.0)  # chess: a pair of games with draws


# --- The likelihood ratio -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "elos", "published"),
    [
        # Disservin/fastchess, app/tests/sprt_test.cpp, its cases of logistic Elo, pairs with 0, 1/2, ..., 2 points
        ((223, 9863, 20279 + 1000, 10037, 246), (0.5, 2.5), -3.07),
        ((871, 26175, 55003 + 980, 26678, 821), (0.0, 2.0), -4.98),
        # the same file, games lost, drawn and won
        ((21184, 40708, 21404), (0.5, 2.5), -1.57),
        ((57030, 106593, 57433), (0.0, 2.0), -2.59),
    ],
)
def test_llr_as_an_engine_testing_tool_publishes_it(
    counts: tuple[int, ...], elos: tuple[float, float], published: float
) -> None:
    scores = np.linspace(0, 1, len(counts)).tolist()
    rates = rate_of_elo(elos[0]), rate_of_elo(elos[1])
    assert log_likelihood_ratio(counts, *rates, scores) == pytest.approx(published, abs=0.005)
    assert log_likelihood_ratio(counts[::-1], *rates, scores[::-1]) == pytest.approx(published, abs=0.005)


def test_llr_closed_forms() -> None:
    """Without split pairs it is Wald's test of a coin; where all are split, the others take what the mean demands."""
    coin = 30 * math.log(0.55 / 0.48) + 21 * math.log(0.45 / 0.52)
    assert log_likelihood_ratio((30, 0, 21), 0.48, 0.55) == pytest.approx(coin)
    # mean 1/2 + e needs P(both) = 2 e: the pairs seen have 1 - 2 e
    assert log_likelihood_ratio((0, 40, 0), 0.5, 0.53) == pytest.approx(40 * math.log(1 - 0.06))
    assert log_likelihood_ratio((0, 40, 0), 0.46, 0.53) == pytest.approx(40 * math.log((1 - 0.06) / (1 - 0.08)))
    # all won: P(both) = mean
    assert log_likelihood_ratio((7, 0, 0), 0.5, 0.6) == pytest.approx(7 * math.log(0.6 / 0.5))
    assert log_likelihood_ratio((0, 0, 0), 0.5, 0.6) == 0


def slow_log_likelihood(counts: Sequence[int], scores: Sequence[float], mean: float) -> float:
    """The largest log-likelihood with a given mean, by a general constrained optimiser."""
    values, numbers = np.array(scores), np.array(counts)

    def minus(probabilities: NDArray[np.float64]) -> float:
        return -float((numbers * np.log(np.maximum(probabilities, 1e-12))).sum() / numbers.sum())

    best = math.inf
    for share in (0.2, 0.5, 0.8):  # of a start that is not the mean itself
        start = np.full(len(values), share / len(values))
        start[values.argmax()] += (1 - share) * mean
        start[values.argmin()] += (1 - share) * (1 - mean)
        found = optimize.minimize(
            minus,
            start,
            method="SLSQP",
            bounds=[(0, 1)] * len(values),
            constraints=[
                {"type": "eq", "fun": lambda p: p.sum() - 1},
                {"type": "eq", "fun": lambda p: p @ values - mean},
            ],
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        if abs(found.x.sum() - 1) + abs(found.x @ values - mean) < 1e-9:
            best = min(best, found.fun)
    return -best * float(numbers.sum())


@pytest.mark.parametrize(
    ("counts", "scores"),
    [
        ((40, 90, 30), PAIR_SCORES),
        ((12, 90, 0), PAIR_SCORES),  # a score that was not seen and is not needed at the lower mean
        ((0, 60, 9), PAIR_SCORES),
        ((3, 20, 60, 31, 7), POINTS),
        ((0, 20, 60, 31, 0), POINTS),
        ((0, 0, 60, 0, 1), POINTS),
    ],
)
def test_llr_is_that_of_a_general_optimiser(counts: tuple[int, ...], scores: tuple[float, ...]) -> None:
    for means in ((0.5, 0.52), (0.4, 0.6)):
        slow = slow_log_likelihood(counts, scores, means[1]) - slow_log_likelihood(counts, scores, means[0])
        assert log_likelihood_ratio(counts, *means, scores) == pytest.approx(slow, abs=2e-4)


@settings(max_examples=200, deadline=None)
@given(st.tuples(*[st.integers(0, 10**6)] * 3), st.floats(0.01, 0.98), st.floats(0.001, 0.9))
def test_llr_is_finite_and_antisymmetric(counts: tuple[int, int, int], rate: float, distance: float) -> None:
    higher = min(rate + distance, 0.99)
    ratio = float(log_likelihood_ratio(counts, rate, higher))
    assert math.isfinite(ratio)
    assert log_likelihood_ratio(counts, higher, rate) == pytest.approx(-ratio, rel=1e-9, abs=1e-9)
    assert log_likelihood_ratio(counts[::-1], 1 - higher, 1 - rate) == pytest.approx(-ratio, rel=1e-6, abs=1e-6)


def test_llr_of_many_counts_at_once_is_that_of_each() -> None:
    counts = np.random.default_rng(0).integers(0, 50, (4, 30, 3))
    together = log_likelihood_ratio(counts, 0.5, 0.52)
    assert together.shape == (4, 30)
    for place in np.ndindex(4, 30):
        assert together[place] == pytest.approx(float(log_likelihood_ratio(counts[place], 0.5, 0.52)), abs=1e-10)


# --- The test -----------------------------------------------------------------------------------------------


def test_bounds_and_decisions() -> None:
    test = Sprt.of_elo(0, 5)
    assert (test.lower, test.upper) == pytest.approx((-math.log(19), math.log(19)))
    assert test.rate0 == 0.5
    assert test.rate1 == pytest.approx(1 / (1 + 10 ** (-5 / 400)))
    uneven = Sprt(0.5, 0.51, alpha=0.01, beta=0.2)
    assert (uneven.lower, uneven.upper) == pytest.approx((math.log(0.2 / 0.99), math.log(0.8 / 0.01)))
    assert test.state((100, 200, 100)).decision == "continue"
    assert test.state((2500, 5000, 2000)).decision == "accept H1"
    assert test.state((2000, 5000, 2500)).decision == "accept H0"
    assert test.state((2500, 5000, 2001)).decision == "continue"  # no look
    assert test.state((0, 0, 0)).llr == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"rate0": 0.51, "rate1": 0.5},
        {"rate0": 0.5, "rate1": 0.5},
        {"rate0": 0.0, "rate1": 0.5},
        {"rate0": 0.5, "rate1": 1.0},
        {"rate0": 0.5, "rate1": math.nan},
        {"rate0": 0.5, "rate1": 0.5 + 1e-9},
        {"rate0": 0.5, "rate1": 0.51, "alpha": 0.0},
        {"rate0": 0.5, "rate1": 0.51, "alpha": 1.0},
        {"rate0": 0.5, "rate1": 0.51, "beta": -0.1},
        {"rate0": 0.5, "rate1": 0.51, "alpha": 0.5, "beta": 0.5},
        {"rate0": 0.5, "rate1": 0.51, "alpha": math.nan},
        {"rate0": 0.5, "rate1": 0.51, "check_every": 0},
    ],
)
def test_impossible_bounds_are_one_clear_error(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"needs|must be") as caught:
        Sprt(**arguments)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("elos", [(5, 0), (0, 0), (math.nan, 5), (0, 1e9)])
def test_impossible_elo_bounds_are_an_error(elos: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="SPRT needs"):
        Sprt.of_elo(*elos)


def test_the_first_decision_depends_on_the_outcomes_alone() -> None:
    """Whoever asks when, about however many pairs: the match ends at the same pair."""
    test = Sprt.of_elo(0, 30, check_every=20)
    for seed in range(20):
        outcomes = np.random.default_rng(seed).choice(3, 3000, p=(0.24, 0.5, 0.26)).astype(np.int8)
        end = test.first_decision(outcomes)
        assert end is not None
        assert end % 20 == 0
        for pairs in (0, 1, 19, end - 20, end - 1):
            assert test.first_decision(outcomes[:pairs]) is None
        for pairs in (end, end + 1, end + 777):
            assert test.first_decision(outcomes[:pairs]) == end
        counts = [int((outcomes[:end] == wins).sum()) for wins in (2, 1, 0)]
        assert test.state(counts).decision != "continue"
        pairs, ratios = test.looks(outcomes[: end + 5])
        assert pairs.tolist() == list(range(20, end + 1, 20))
        assert ratios[-1] == pytest.approx(test.state(counts).llr)


# --- Simulated matches --------------------------------------------------------------------------------------


def outcome_probabilities(rate: float, split: float) -> tuple[float, float, float]:
    return rate - split / 2, split, 1 - rate - split / 2


def simulate(
    test: Sprt, rate: float, split: float, matches: int, looks: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Counts (M, 3) at the end of matches, their log-likelihood ratios, and whether they were decided."""
    generator = np.random.default_rng(seed)
    counts = np.zeros((matches, 3), np.int64)
    ratios = np.zeros(matches)
    decided = np.zeros(matches, np.bool_)
    for _ in range(looks):
        on = np.flatnonzero(~decided)
        counts[on] += generator.multinomial(test.check_every, outcome_probabilities(rate, split), len(on))
        ratios[on] = log_likelihood_ratio(counts[on], test.rate0, test.rate1)
        decided = (ratios >= test.upper) | (ratios <= test.lower)
    return counts, ratios, decided


@pytest.mark.parametrize("split", [0.3, 0.6, 0.85])  # also with games of a pair that depend strongly on each other
@pytest.mark.parametrize(("alpha", "beta"), [(0.05, 0.05), (0.02, 0.15)])
def test_error_rates_are_within_their_bounds(split: float, alpha: float, beta: float) -> None:
    """Over 2,000 matches each; "within" up to three standard errors of such a share. And a match is as long as said."""
    test = Sprt.of_elo(0, 25, alpha, beta, check_every=25)
    variance = (1 - split) / 4
    for rate, wrong, level in ((test.rate0, test.upper, alpha), (test.rate1, test.lower, beta)):
        counts, ratios, decided = simulate(test, rate, split, 2000, 200, seed=int(100 * split))
        assert decided.mean() > 0.995
        errors = (ratios >= wrong) if wrong > 0 else (ratios <= wrong)
        assert errors.mean() <= level + 3 * math.sqrt(level * (1 - level) / 2000)
        assert errors.mean() >= level / 5  # it is no test that never errs: that would be a waste of games
        assert counts.sum(axis=1).mean() == pytest.approx(sprt_pairs(test, rate, variance), rel=0.12)


@pytest.mark.parametrize(
    ("rate", "split", "looks", "most"),
    [
        (0.5, 0.6, 150, 0.96),  # H0
        (rate_of_elo(40), 0.6, 150, 0.96),  # H1
        (rate_of_elo(20), 0.6, 150, 0.96),  # between them, where matches are longest
        (rate_of_elo(20), 0.6, 12, 0.96),  # and many are not decided
        (0.6, 0.3, 150, 0.97),
        (0.8, 0.35, 150, 0.975),  # one or two looks and it is over
        (0.47, 0.85, 150, 0.99),  # and only about four pairs of a look are not split
    ],
)
def test_the_corrected_estimate_is_median_unbiased_and_covers(
    rate: float, split: float, looks: int, most: float
) -> None:
    test = Sprt.of_elo(0, 40, check_every=25)
    counts, _, _ = simulate(test, rate, split, 2000, looks, seed=7)
    ends, number = np.unique(counts, axis=0, return_counts=True)
    less = np.array([test._probability_of_less(end.tolist(), PAIR_SCORES)(rate) for end in ends])
    covered = number[(less >= 0.025) & (less <= 0.975)].sum() / 2000  # the limits are where it is 0.025 and 0.975
    above = number[less > 0.5].sum() / 2000
    assert 0.94 <= covered <= most
    assert 0.45 <= above <= 0.55  # an estimate above the true rate


def test_the_limits_are_where_the_tails_are() -> None:
    test = Sprt.of_elo(0, 40, check_every=25)
    counts = (60, 100, 40)
    estimate = test.estimate(counts)
    less = test._probability_of_less(counts, PAIR_SCORES)
    for rate, tail in zip(estimate, (0.5, 0.975, 0.025), strict=True):
        assert less(rate) == pytest.approx(tail, abs=1e-5)


def test_the_plain_estimate_is_biased() -> None:
    """What the correction is for: stopped matches look more decided than they are."""
    test = Sprt.of_elo(0, 40, check_every=25)
    for rate, sign in ((test.rate0, -1), (test.rate1, 1)):
        counts, _, _ = simulate(test, rate, 0.6, 2000, 150, seed=3)
        plain = counts @ np.array(PAIR_SCORES) / counts.sum(axis=1)
        assert sign * (plain.mean() - rate) > 0.005
        covered = np.mean([e.low <= rate <= e.high for e in (pair_rate(*row) for row in counts.tolist())])
        assert covered < 0.94


def test_estimates_at_the_edges() -> None:
    test = Sprt.of_elo(0, 5)
    assert all(math.isnan(number) for number in test.estimate((0, 0, 0)))
    for counts in ((50, 0, 0), (0, 0, 50), (0, 50, 0), (1, 0, 0), (10**4, 10**4, 10**4)):
        estimate = test.estimate(counts)
        assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
        assert estimate.high > estimate.low
        mirrored = Sprt(1 - test.rate1, 1 - test.rate0).estimate(counts[::-1])
        assert mirrored == pytest.approx((1 - estimate.value, 1 - estimate.high, 1 - estimate.low), abs=1e-4)
    # without any look before the end it is nearly the score interval
    single = Sprt.of_elo(0, 5, check_every=200).estimate((70, 100, 30))
    assert single == pytest.approx(pair_rate(70, 100, 30), abs=0.003)


@pytest.mark.parametrize(
    ("counts", "published"),
    [
        # official-stockfish/fishtest, server/tests/test_stats_sprt.py: Elo after an SPRT of normalized Elo 0 and 2
        ((1, 60, 500, 1200, 600), (188.3595, 170.7252, 214.8484)),
        ((1, 20, 300, 900, 779), (245.4729, 223.6370, 289.7981)),
    ],
)
def test_exit_probabilities_at_published_medians_and_limits(
    counts: tuple[int, ...], published: tuple[float, float, float]
) -> None:
    """Fishtest takes the ratio as a Brownian motion that has just met the bound, with the drift and variance below."""
    numbers, scores = np.array(counts, float), np.array(POINTS)
    shares = numbers / numbers.sum()
    mean = shares @ scores
    variance = shares @ scores**2 - mean**2
    rate0, rate1 = 0.5, 0.5 + 2 * math.log(10) / 800 * math.sqrt(2 * variance)
    upper = math.log(19)
    time = upper / ((mean - (rate0 + rate1) / 2) * (rate1 - rate0) / variance)
    for elo_difference, tail in zip(published, (0.5, 0.975, 0.025), strict=True):
        rate = rate_of_elo(elo_difference)
        spread = variance + (rate - mean) ** 2
        less = probability_of_less(
            time,
            upper,
            drift=(rate - (rate0 + rate1) / 2) * (rate1 - rate0) / spread,
            variance=(rate1 - rate0) ** 2 / spread,
            lower=-upper,
            upper=upper,
            step=1e-9,
        )
        assert less == pytest.approx(tail, abs=0.012)


# --- When a walk leaves an interval ---------------------------------------------------------------------------


@pytest.mark.parametrize("drift", [-0.6, -0.05, 0.0, 0.2, 3.0])
def test_exits_of_a_brownian_motion_are_walds(drift: float) -> None:
    """After long: P(lower) = (1 - e^(-2 m b)) / (e^(-2 m a) - e^(-2 m b)), m the drift at variance 1."""
    lower, upper = -1.5, 2.5
    less = probability_of_less(400.0, lower, drift=drift, variance=1.0, lower=lower, upper=upper, step=1e-9)
    if drift == 0:
        wald = upper / (upper - lower)
    else:
        low, high = math.exp(-2 * drift * lower), math.exp(-2 * drift * upper)
        wald = (1 - high) / (low - high)
    assert less == pytest.approx(wald, abs=0.004)


def test_exits_of_a_walk_are_those_of_simulated_walks() -> None:
    generator = np.random.default_rng(5)
    lower, upper, step, drift = -2.0, 3.0, 0.5, 0.15
    steps = generator.normal(drift * step, math.sqrt(step), (100_000, 30)).cumsum(axis=1)
    left = (steps <= lower) | (steps >= upper)
    first = np.where(left.any(axis=1), left.argmax(axis=1), 30)
    for looks, position in ((1, 0.3), (4, -1.0), (12, 3.4), (20, -2.2), (30, 0.0)):
        before = first < looks - 1
        low_before = before & (steps[np.arange(100_000), np.minimum(first, 29)] <= lower)
        less = (low_before | (~before & (steps[:, looks - 1] <= position))).mean()
        exact = probability_of_less(
            looks * step, position, drift=drift, variance=1.0, lower=lower, upper=upper, step=step
        )
        assert exact == pytest.approx(less, abs=4 * math.sqrt(0.25 / 100_000))


def test_a_single_look_is_a_normal_distribution() -> None:
    less = probability_of_less(4.0, 1.0, drift=0.1, variance=0.5, lower=-1, upper=3, step=4.0)
    assert less == pytest.approx(stats.norm.cdf(1.0, 0.4, math.sqrt(2.0)))
