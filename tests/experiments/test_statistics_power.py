"""How long a match must be: closed forms, and the power that simulated matches have."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.tournament.statistics import (
    Sprt,
    detectable_rate,
    independent_variance,
    p_value,
    pair_variance,
    pairs_needed,
    power_of_match,
    rate_of_elo,
    sprt_pairs,
)


def test_pairs_needed_by_hand() -> None:
    """(1.959964 + 0.841621)^2 = 7.848880 times V / 0.01^2."""
    assert pairs_needed(0.51, 0.125) == math.ceil(7.848880 * 0.125 / 0.0001)
    assert pairs_needed(0.49, 0.125) == pairs_needed(0.51, 0.125)
    assert pairs_needed(0.51, 0.05, power=0.5, alpha=0.05) == math.ceil(1.959964**2 * 500)
    assert power_of_match(pairs_needed(0.51, 0.05), 0.51, 0.05) == pytest.approx(0.8, abs=1e-4)
    assert power_of_match(1000, 0.5, 0.05) == pytest.approx(0.025)  # on one side


@settings(max_examples=200, deadline=None)
@given(st.floats(0.501, 0.9), st.floats(0.001, 0.25), st.floats(0.11, 0.99), st.floats(0.001, 0.2))
def test_the_reverse_gives_back_the_rate(rate: float, variance: float, power: float, alpha: float) -> None:
    pairs = pairs_needed(rate, variance, power, alpha)
    assert power_of_match(pairs, rate, variance, alpha) >= power - 1e-9
    assert detectable_rate(pairs, variance, power, alpha) <= rate + 1e-9
    if pairs > 1:
        assert power_of_match(pairs - 1, rate, variance, alpha) < power
        assert detectable_rate(pairs - 1, variance, power, alpha) > rate - 1e-9


@pytest.mark.parametrize(("rate", "split"), [(0.53, 0.5), (0.53, 0.8), (0.6, 0.3), (0.45, 0.6)])
def test_simulated_matches_have_that_power(rate: float, split: float) -> None:
    probabilities = (rate - split / 2, split, 1 - rate - split / 2)
    variance = probabilities[0] + split / 4 - rate**2
    pairs = pairs_needed(rate, variance)
    counts = np.random.default_rng(0).multinomial(pairs, probabilities, 3000)
    found = np.mean([p_value(*row) < 0.05 for row in counts.tolist()])
    assert found == pytest.approx(0.8, abs=0.03)


def test_variances() -> None:
    scores = [1.0] * 30 + [0.5] * 50 + [0.0] * 20
    assert pair_variance(30, 50, 20) == pytest.approx(np.var(scores, ddof=1))
    assert math.isnan(pair_variance(1, 0, 0))
    assert independent_variance(0.5) == 0.125
    games = np.random.default_rng(0).random((200_000, 2)) < 0.6
    assert np.var(games.mean(axis=1)) == pytest.approx(independent_variance(0.6), rel=0.02)


@pytest.mark.parametrize("rate", [0.4, 0.499, 0.5, rate_of_elo(10) - 1e-12, rate_of_elo(10), 0.52, 0.7])
def test_sprt_pairs_are_walds(rate: float) -> None:
    """E[N] = E[ratio at the end] / drift, with P(upper) from the martingale e^(-2 drift ratio / variance)."""
    test, variance = Sprt.of_elo(0, 20, check_every=1), 0.05
    gain = (test.rate1 - test.rate0) / variance
    drift, spread = gain * (rate - (test.rate0 + test.rate1) / 2), gain**2 * variance
    beyond = 0.5826 * math.sqrt(spread)
    low, high = test.lower - beyond, test.upper + beyond
    if abs(drift) < 1e-6:
        expected = -low * high / spread
    else:
        c = -2 * drift / spread
        at_upper = (1 - math.exp(c * low)) / (math.exp(c * high) - math.exp(c * low))
        expected = (at_upper * high + (1 - at_upper) * low) / drift
    assert sprt_pairs(test, rate, variance) == pytest.approx(expected, rel=1e-3)


def test_sprt_pairs_never_overflow_and_are_longest_between_the_bounds() -> None:
    test = Sprt.of_elo(0, 5)
    lengths = [sprt_pairs(test, rate, 1e-4) for rate in (0.001, 0.4, 0.5, (test.rate0 + test.rate1) / 2, 0.6, 0.999)]
    assert all(math.isfinite(length) and length >= test.check_every for length in lengths)
    usual = [sprt_pairs(test, rate, 0.05) for rate in (0.49, 0.5, (test.rate0 + test.rate1) / 2, test.rate1, 0.52)]
    assert max(usual) == usual[2]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pairs_needed(0.5, 0.05), "rate"),
        (lambda: pairs_needed(1.0, 0.05), "rate"),
        (lambda: pairs_needed(math.nan, 0.05), "rate"),
        (lambda: pairs_needed(0.51, 0.0), "variance"),
        (lambda: pairs_needed(0.51, 0.3), "variance"),
        (lambda: pairs_needed(0.51, 0.05, power=1.0), "power"),
        (lambda: pairs_needed(0.51, 0.05, power=0.01), "power"),
        (lambda: pairs_needed(0.51, 0.05, alpha=0.0), "alpha"),
        (lambda: detectable_rate(0, 0.05), "at least one pair"),
    ],
)
def test_what_cannot_be_is_an_error(call, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match=message):
        call()
