"""Elo differences, and how often intervals of matches hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.tournament.statistics import elo, elo_difference, pair_rate, rate_of_elo


def test_elo_of_known_rates() -> None:
    assert elo(0.5) == 0
    assert elo(10 / 11) == pytest.approx(400)
    assert elo(0.64) == pytest.approx(99.95, abs=0.01)
    assert (elo(0.0), elo(1.0)) == (-math.inf, math.inf)
    assert math.isnan(elo(math.nan))


@pytest.mark.parametrize("rate", [-0.1, 1.1, 51])
def test_what_is_no_rate_is_an_error(rate: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        elo(rate)


@given(st.floats(-2000, 2000))
def test_rates_and_elo_are_inverse(difference: float) -> None:
    rate = rate_of_elo(difference)
    assert rate == pytest.approx(1 / (1 + 10 ** (-difference / 400)))
    assert elo(rate) == pytest.approx(difference, abs=1e-3)


def test_rates_of_huge_differences_do_not_overflow() -> None:
    assert (rate_of_elo(1e300), rate_of_elo(-math.inf)) == (1, 0)


@pytest.mark.parametrize(
    ("wins", "losses", "draws", "value", "error"),
    [
        # Disservin/fastchess, app/tests/elo_test.cpp; its interval is the normal one, here it is a score interval
        (136, 96, 111, 40.70, 30.43),
    ],
)
def test_elo_as_an_engine_testing_tool_publishes_it(
    wins: int, losses: int, draws: int, value: float, error: float
) -> None:
    difference = elo_difference(wins, draws, losses)
    assert difference.value == pytest.approx(value, abs=0.005)
    assert (difference.high - difference.low) / 2 == pytest.approx(error, rel=0.01)


def test_a_match_won_whole_has_a_finite_value_and_no_upper_limit() -> None:
    """Half a game less: 199.5 of 200 games. Below, Wilson's limit n / (n + z^2)."""
    won = elo_difference(100, 0, 0)
    assert won.value == pytest.approx(elo(199.5 / 200))
    assert won.low == pytest.approx(400 * math.log10(100 / 1.959964**2), abs=1e-3)
    assert won.high == math.inf
    lost = elo_difference(0, 0, 100)
    assert lost == pytest.approx((-won.value, -math.inf, -won.low))
    assert elo_difference(1, 0, 0).value > 0
    assert all(math.isnan(number) for number in elo_difference(0, 0, 0))


@pytest.mark.parametrize(
    ("rate", "split"),
    [
        (0.5, 0.5),  # the games of a pair independent of each other
        (0.5, 0.9),  # duplicate deals of agents that are nearly the same
        (0.51, 0.8),
        (0.55, 0.6),
        (0.65, 0.3),  # games of a pair that go the same way
        (0.8, 0.35),
    ],
)
def test_95_percent_intervals_cover_94_to_96_percent(rate: float, split: float) -> None:
    """Over 2,000 simulated matches, times ten, so that chance does not decide the test."""
    counts = np.random.default_rng(17).multinomial(500, (rate - split / 2, split, 1 - rate - split / 2), 20_000)
    rows, number = np.unique(counts, axis=0, return_counts=True)
    inside = np.array([one.low <= rate <= one.high for one in (pair_rate(*row) for row in rows.tolist())])
    assert 0.94 <= number[inside].sum() / 20_000 <= 0.96
