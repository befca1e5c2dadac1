"""Win rates with luck taken out: against a plain version, coverage, no bias even from a handful of pairs."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import make_agent
from experiments.cli import main
from experiments.config import UserError
from experiments.tournament.adjustment import _FOLDS, _PRIOR_PAIRS, _PRIOR_VARIANCE, LuckTotals
from experiments.tournament.games_file import columns_of, games_of, games_writer, read_games
from experiments.tournament.luck import LuckObserver
from experiments.tournament.match import play_blocks, play_match
from experiments.tournament.plan import Match
from experiments.tournament.summary import MatchSummary


def totals_of(pairs: np.ndarray, wins: np.ndarray, luck: np.ndarray) -> LuckTotals:
    totals = LuckTotals()
    totals.add(pairs, wins, luck)
    return totals


def plain(pairs: np.ndarray, wins: np.ndarray, luck: np.ndarray) -> tuple[float, float, float]:
    """Mean, standard error and variance reduction, pair by pair."""
    s, l = wins / 2, luck.sum(axis=1) / 2e6  # noqa: E741
    prior = _PRIOR_PAIRS * _PRIOR_VARIANCE
    adjusted = np.empty(len(s))
    for at, pair in enumerate(pairs):
        others = pairs % _FOLDS != pair % _FOLDS
        mean = s[others].mean() if others.any() else 0.5
        c = (((s[others] - mean) * l[others]).sum() + prior) / ((l[others] ** 2).sum() + prior)
        adjusted[at] = s[at] - c * l[at]
    return adjusted.mean(), adjusted.std(ddof=1) / math.sqrt(len(s)), s.var(ddof=1) / adjusted.var(ddof=1)


def some_pairs(random: np.random.Generator, pairs: int, first: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs whose luck has mean zero, is skewed, and decides much of the result, but not in proportion."""
    chance = random.choice([-1.0, 2.0], p=[2 / 3, 1 / 3], size=(pairs, 2))  # mean 0
    skill = random.normal(size=pairs)
    strength = (chance**2).sum(axis=1) - 4 + 3 * skill + 1.5 * chance.sum(axis=1)
    wins = (strength > -2).astype(int) + (strength > 2)
    return np.arange(first, first + pairs), wins, np.rint(200_000 * chance).astype(np.int32)


def test_it_is_what_the_plain_version_says_in_any_order_and_blocks() -> None:
    random = np.random.default_rng(1)
    pairs, wins, luck = some_pairs(random, 300, 17)
    totals = totals_of(pairs, wins, luck)
    mean, error, reduction = plain(pairs, wins, luck)
    assert totals.estimate().value == pytest.approx(mean, abs=1e-12)
    assert totals.error() == pytest.approx(error, rel=1e-9)
    assert totals.variance_reduction() == pytest.approx(reduction, rel=1e-9)
    in_blocks = LuckTotals()
    order = random.permutation(300)
    for at in np.array_split(order, 7):
        in_blocks.add(pairs[at], wins[at], luck[at])
    assert in_blocks.estimate() == totals.estimate()  # to the last bit
    assert in_blocks.coefficient == totals.coefficient


def test_there_is_no_bias_from_a_handful_of_pairs() -> None:
    """With the coefficient from the same pairs there would be one: the data are made so."""
    random = np.random.default_rng(2)
    matches, size = 6000, 12
    pairs, wins, luck = some_pairs(random, 400_000)
    truth, spread = (wins / 2).mean(), (wins / 2).std() / 400_000**0.5
    estimates, naive = [], []
    for _ in range(matches):
        pairs, wins, luck = some_pairs(random, size)
        estimates.append(totals_of(pairs, wins, luck).estimate().value)
        s, l = wins / 2, luck.sum(axis=1) / 2e6  # noqa: E741
        naive.append(s.mean() - (np.cov(s, l)[0, 1] / l.var(ddof=1) * l.mean() if l.var() else 0.0))
    error = math.hypot(np.std(estimates) / matches**0.5, spread)
    assert abs(np.mean(estimates) - truth) < 3.5 * error
    assert abs(np.mean(naive) - truth) > 5 * error


@pytest.mark.parametrize(("size", "low", "high"), [(40, 0.935, 0.965), (400, 0.94, 0.96)])
def test_coverage(size: int, low: float, high: float) -> None:
    """Of 95 % intervals, over 2,000 simulated matches."""
    random = np.random.default_rng(3)
    _, wins, _ = some_pairs(random, 1_000_000)
    truth = (wins / 2).mean()
    covered = []
    for _ in range(2000):
        estimate = totals_of(*some_pairs(random, size)).estimate()
        covered.append(estimate.low <= truth <= estimate.high)
    assert low <= np.mean(covered) <= high


def test_coverage_in_matches() -> None:
    """Games of cribbage, cut into matches of 25 pairs, and the rate of all of them as the truth."""
    games = np.concatenate(
        list(play_blocks(make_agent("greedy"), make_agent("expected"), 10_000, 4, observers=[LuckObserver()]))
    )
    truth = (games["winner"] == 0).mean()
    covered, plain_errors, errors = [], [], []
    for match in games.reshape(400, 50):
        summary = MatchSummary(("a", "b"))
        summary.add(match)
        covered.append(summary.adjusted_win_rate.low <= truth <= summary.adjusted_win_rate.high)
        errors.append(summary.adjusted_win_rate.value - truth)
        plain_errors.append(summary.win_rate.value - truth)
    assert 0.92 <= np.mean(covered) <= 0.98
    assert np.var(errors) < 0.85 * np.var(plain_errors)
    assert abs(np.mean(errors)) < 4 * np.std(errors) / 20


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32), st.integers(0, 10**6))
def test_any_match_has_an_estimate(size: int, seed: int, first: int) -> None:
    pairs, wins, luck = some_pairs(np.random.default_rng(seed), size, first)
    totals = totals_of(pairs, wins, luck)
    estimate = totals.estimate()
    assert math.isfinite(estimate.value)
    if size > 1:
        assert estimate.low <= estimate.value <= estimate.high
    else:
        assert math.isnan(estimate.low)
        assert math.isnan(totals.error())


def test_without_luck_there_is_none() -> None:
    totals = totals_of(np.arange(50), np.ones(50, int), np.zeros((50, 2), np.int32))
    for value in (*totals.estimate(), totals.error(), totals.coefficient, totals.variance_reduction()):
        assert math.isnan(value)
    summary = play_match(make_agent("random"), make_agent("random"), 30, 1)
    assert math.isnan(summary.adjusted_win_rate.value)


def test_where_nothing_varies_it_is_the_plain_rate() -> None:
    totals = totals_of(np.arange(50), np.ones(50, int), np.tile([[7, -7]], (50, 1)))
    assert totals.error() == 0
    assert math.isnan(totals.variance_reduction())


def test_plain_and_adjusted_rates_agree() -> None:
    for spec_a, spec_b in (("greedy", "expected"), ("random", "greedy")):
        summary = play_match(make_agent(spec_a), make_agent(spec_b), 3000, 8, observers=[LuckObserver()])
        plain_rate, adjusted = summary.win_rate, summary.adjusted_win_rate
        # the error of the difference is at most the sum of both
        assert abs(plain_rate.value - adjusted.value) < 3 * (summary.win_rate_error + summary.adjusted_win_rate_error)
        assert adjusted.high - adjusted.low < plain_rate.high - plain_rate.low
        assert summary.variance_reduction > 1.1


def test_the_table_of_games_keeps_luck() -> None:
    games = np.concatenate(
        list(play_blocks(make_agent("greedy"), make_agent("random"), 20, 4, observers=[LuckObserver()]))
    )
    columns = columns_of(1, games)
    assert (columns["luck_0"] == np.where(games["a_seat"] == 0, games["luck"], -games["luck"])).all()
    assert games_of(columns).tobytes() == games.tobytes()


def test_evaluate_says_both_rates(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["evaluate", "greedy", "random", "--games", "200"]
    assert main(argv) == 0
    assert "luck taken out" in capsys.readouterr().out
    assert main([*argv, "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert row["a_win_rate_adjusted_low"] < row["a_win_rate_adjusted"] < row["a_win_rate_adjusted_high"]
    assert 0 < row["luck_coefficient"] < 1
    assert row["a_win_rate_adjusted_se"] > 0
    assert main([*argv, "--json", "--no-luck"]) == 0
    without = json.loads(capsys.readouterr().out)
    assert without["a_win_rate_adjusted"] is None
    assert without["variance_reduction"] is None
    assert without["a_win_rate"] == row["a_win_rate"]
    assert main([*argv, "--no-luck"]) == 0
    assert "luck taken out" not in capsys.readouterr().out


def test_too_much_luck_in_a_table_of_games_is_damage(tmp_path: Path) -> None:
    games = np.concatenate(list(play_blocks(make_agent("greedy"), make_agent("random"), 3, 4)))
    games["luck"][2] = 10**9
    path = tmp_path / "games.csv"
    writer = games_writer("csv", path)
    writer.write(1, ("a", "b"), games)
    writer.close()
    with pytest.raises(UserError, match="line 4: luck_0 must be below 100000000 either way, got '1000000000'"):
        list(read_games(path, [Match(1, (0, 1), ("a", "b"), 0, 3)], 4, 121))
