"""Confidence sequences: they hold at all times at once, cost little width, and follow from the counts alone."""

from __future__ import annotations

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.tournament.statistics import anytime_bounds, anytime_interval, confidence_sequence, pair_rate
from experiments.tournament.statistics.sequences import _log_capital

COUNTS = st.tuples(*[st.integers(0, 10**5)] * 3)


def slow_log_capital(counts: tuple[int, int, int], mean: float) -> float:
    """The mixture of bets of its definition, pair by pair."""
    stakes = [0.98 * 2.0**-k for k in range(14)]
    capital = 0.0
    for flipped in (False, True):
        m = 1 - mean if flipped else mean
        for stake in stakes:
            value = 1.0
            for number, score in zip(counts, (1.0, 0.5, 0.0), strict=True):
                x = 1 - score if flipped else score
                for _ in range(number):
                    value *= 1 + stake * (x - m) / m
            capital += value / (2 * len(stakes))
    return math.log(capital)


@pytest.mark.parametrize("counts", [(3, 5, 1), (0, 12, 0), (9, 0, 0), (20, 30, 35)])
def test_the_limits_are_where_the_capital_has_grown_enough(counts: tuple[int, int, int]) -> None:
    estimate = anytime_interval(*counts, confidence=0.9)
    goal = math.log(10)
    if estimate.low > 0:
        assert slow_log_capital(counts, estimate.low) == pytest.approx(goal, abs=1e-6)
    if estimate.high < 1:
        assert slow_log_capital(counts, estimate.high) == pytest.approx(goal, abs=1e-6)
    assert slow_log_capital(counts, estimate.value if 0 < estimate.value < 1 else 0.999999) < goal


@settings(max_examples=150, deadline=None)
@given(COUNTS)
def test_intervals_are_in_order_and_symmetric(counts: tuple[int, int, int]) -> None:
    estimate = anytime_interval(*counts)
    mirrored = anytime_interval(*counts[::-1])
    assert 0 <= estimate.low <= estimate.high <= 1
    assert (mirrored.low, mirrored.high) == pytest.approx((1 - estimate.high, 1 - estimate.low), abs=1e-9)
    if sum(counts):
        assert estimate.low <= estimate.value <= estimate.high
        wider = anytime_interval(*counts, confidence=0.99)
        assert wider.low <= estimate.low
        assert wider.high >= estimate.high
    else:
        assert (estimate.low, estimate.high) == (0, 1)


@pytest.mark.parametrize(
    "probabilities", [(0.22, 0.56, 0.22), (0.5, 0.0, 0.5), (0.6, 0.35, 0.05), (0.97, 0.03, 0.0), (0.05, 0.91, 0.04)]
)
def test_it_holds_at_all_times_at_once(probabilities: tuple[float, float, float]) -> None:
    """In at least 95 % of 2,000 matches the true rate is inside at all of 5,000 pairs; an ordinary interval fails.

    It is inside where the capital against it has not grown to 20 (see the test of the limits).
    """
    truth = probabilities[0] + probabilities[1] / 2
    generator = np.random.default_rng(11)
    looks = np.unique(np.geomspace(1, 5000, 120).round().astype(int))
    steps = np.diff(looks, prepend=0)
    counts = np.stack([generator.multinomial(step, probabilities, 2000) for step in steps], axis=1).cumsum(axis=1)
    capital = _log_capital(counts.astype(float), np.full(counts.shape[:-1], truth))
    assert (capital < math.log(20)).all(axis=1).mean() >= 0.95
    low, high = anytime_bounds(counts[:40])
    assert np.array_equal((low <= truth) & (truth <= high), capital[:40] < math.log(20))
    means = counts @ [1.0, 0.5, 0.0] / looks
    variance = probabilities[0] + probabilities[1] / 4 - truth**2
    ordinary = np.abs(means - truth) <= 1.96 * np.sqrt(variance / looks)
    assert ordinary[:, looks >= 50].all(axis=1).mean() < 0.85


@pytest.mark.parametrize("probabilities", [(0.22, 0.56, 0.22), (0.6, 0.35, 0.05), (0.97, 0.03, 0.0)])
def test_it_costs_less_than_twice_the_width(probabilities: tuple[float, float, float]) -> None:
    for pairs in (50, 500, 5000, 50_000, 500_000):
        counts = [round(pairs * p) for p in probabilities]
        anytime, fixed = anytime_interval(*counts), pair_rate(*counts)
        assert 1.4 < (anytime.high - anytime.low) / (fixed.high - fixed.low) < 1.95


def test_a_sequence_of_a_long_match_is_quick_and_ends_with_the_match() -> None:
    outcomes = np.random.default_rng(1).choice(3, 100_000, p=(0.22, 0.55, 0.23)).astype(np.int8)
    began = time.perf_counter()
    sequence = confidence_sequence(outcomes)
    assert time.perf_counter() - began < 3
    assert sequence.pairs[0] == 1
    assert sequence.pairs[-1] == 100_000
    assert np.all(np.diff(sequence.pairs) > 0)
    assert len(sequence.pairs) <= 300
    counts = [int((outcomes == wins).sum()) for wins in (2, 1, 0)]
    assert (sequence.rate[-1], sequence.low[-1], sequence.high[-1]) == pytest.approx(tuple(anytime_interval(*counts)))


def test_a_sequence_without_pairs_is_empty() -> None:
    sequence = confidence_sequence(np.zeros(0, np.int8))
    assert [len(part) for part in sequence] == [0, 0, 0, 0]
    assert math.isnan(anytime_interval(0, 0, 0).value)
