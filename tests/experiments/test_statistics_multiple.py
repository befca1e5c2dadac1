"""Many comparisons: tests agree with intervals, and errors over a whole tournament keep their level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.tournament.statistics import (
    adjusted_p_values,
    holm,
    p_value,
    pair_rate,
    pair_score,
    simultaneous_confidence,
    simultaneous_rates,
)

COUNTS = st.tuples(*[st.integers(0, 3000)] * 3)


@settings(max_examples=300, deadline=None)
@given(COUNTS, st.sampled_from([0.5, 0.3, 0.52]), st.sampled_from([0.05, 0.01, 0.3]))
def test_test_and_interval_agree(counts: tuple[int, int, int], rate: float, alpha: float) -> None:
    p = p_value(*counts, rate=rate)
    assert 0 <= p <= 1
    if sum(counts) and abs(p - alpha) > 1e-9:
        estimate = pair_rate(*counts, confidence=1 - alpha)
        assert (p < alpha) == (not estimate.low <= rate <= estimate.high)


def test_at_one_half_it_is_mcnemars_test() -> None:
    assert pair_score(60, 100, 40) == pytest.approx(20 / 10)
    assert p_value(60, 100, 40) == pytest.approx(2 * stats.norm.sf(2))
    assert p_value(40, 100, 60) == pytest.approx(2 * stats.norm.sf(2))
    assert p_value(0, 100, 0) == 1
    assert p_value(0, 0, 0) == 1
    assert p_value(5, 3, 2, rate=1.0) == 0
    assert p_value(5, 0, 0, rate=1.0) == 1


def test_p_values_are_uniform_where_nothing_differs() -> None:
    counts = np.random.default_rng(0).multinomial(400, (0.2, 0.6, 0.2), 2000)
    values = np.array([p_value(*row) for row in counts.tolist()])
    for level in (0.01, 0.05, 0.2, 0.5):
        assert (values < level).mean() == pytest.approx(level, abs=4 * np.sqrt(level * (1 - level) / 2000))


def test_holm_by_hand() -> None:
    """Sorted 0.01, 0.02, 0.03, 0.5: times 4, 3, 2, 1, and never less than one before."""
    assert holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
    assert holm([0.4, 0.5, 0.6]) == pytest.approx([1, 1, 1])
    assert holm([]).tolist() == []
    assert holm([0.2]) == pytest.approx([0.2])


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.floats(0.001, 0.5))
def test_holm_rejects_what_the_step_down_procedure_rejects(values: list[float], alpha: float) -> None:
    rejected = set()
    order = sorted(range(len(values)), key=lambda i: values[i])
    for rank, i in enumerate(order):
        if values[i] * (len(values) - rank) > alpha:
            break
        rejected.add(i)
    assert {i for i, adjusted in enumerate(holm(values)) if adjusted <= alpha} == rejected


@pytest.mark.parametrize("values", [[0.5, 1.5], [-0.1], [float("nan")], [[0.1]]])
def test_what_is_no_p_value_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="p-values"):
        holm(values)


def test_a_tournament_of_equals_has_few_false_findings_and_true_intervals() -> None:
    """Ten agents, 45 matches that depend on each other (every agent has luck of its own), 400 tournaments."""
    generator = np.random.default_rng(1)
    found = plain = inside = 0
    for _ in range(400):
        decks = generator.random((200, 45)) + 0.3 * generator.random((200, 1))  # what the matches share
        outcomes = np.where(decks < 0.2, 2, np.where(decks > np.quantile(decks, 0.8, axis=0), 0, 1))
        swap = generator.random((200, 45)) < 0.5  # makes A and B equal
        outcomes = np.where(swap, 2 - outcomes, outcomes)
        counts = [tuple(int((column == wins).sum()) for wins in (2, 1, 0)) for column in outcomes.T]
        found += min(adjusted_p_values(counts)) < 0.05  # type: ignore[arg-type]
        plain += min(p_value(*one) for one in counts) < 0.05
        inside += all(one.low <= 0.5 <= one.high for one in simultaneous_rates(counts))  # type: ignore[arg-type]
    assert found / 400 <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 400)
    assert plain / 400 > 0.7
    assert inside / 400 >= 0.95 - 3 * np.sqrt(0.05 * 0.95 / 400)


def test_simultaneous_confidence() -> None:
    assert simultaneous_confidence(1) == pytest.approx(0.95)
    assert simultaneous_confidence(45) == pytest.approx(0.95 ** (1 / 45))
    assert simultaneous_confidence(45) < 1 - 0.05 / 45  # a little shorter than Bonferroni's
    assert simultaneous_rates([]) == []
    with pytest.raises(ValueError, match="at least one"):
        simultaneous_confidence(0)
