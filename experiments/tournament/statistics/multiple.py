"""Many comparisons at once: a round robin of ten agents has 45 matches, of which two or three "differ" by luck alone.

Each match is tested against "both agents win half of the games" by the score test whose interval :func:`pair_rate` is,
so that test and interval agree. Over a tournament, p-values are adjusted after S. Holm ("A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979): what is below alpha then, is wrong in
at most alpha of the tournaments, however the matches depend on each other (they share decks). Simultaneous intervals
have the level of Z. Šidák ("Rectangular confidence regions for the means of multivariate normal distributions", Journal
of the American Statistical Association 62, 1967), which holds for normal estimates whatever their correlation.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from experiments.tournament.statistics.intervals import CONFIDENCE, Estimate, pair_rate, pair_score

PairCounts = tuple[int, int, int]
"""Pairs of a match that A won both games of, one, none."""


def p_value(both: int, one: int, none: int, rate: float = 0.5) -> float:
    """How likely a rate at least this far from ``rate`` is, either side, if ``rate`` is A's true rate.

    It is below alpha exactly where :func:`pair_rate` of confidence 1 - alpha leaves ``rate`` out. 1 without pairs.
    """
    return float(2 * ndtr(-abs(pair_score(both, one, none, rate))))


def holm(p_values: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values (K,) in the order given.

    Raises:
        ValueError: something that is no p-value.
    """
    values = np.asarray(p_values, np.float64)
    if values.ndim != 1 or not np.all((values >= 0) & (values <= 1)):
        raise ValueError(f"p-values are numbers from 0 to 1, got {p_values!r}")
    order = np.argsort(values, kind="stable")
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1)))
    return adjusted


def simultaneous_confidence(comparisons: int, confidence: float = CONFIDENCE) -> float:
    """The confidence that each of some intervals needs for all of them to hold together with the given one (Šidák).

    Raises:
        ValueError: no comparisons.
    """
    if comparisons < 1:
        raise ValueError(f"there must be at least one comparison, got {comparisons}")
    return math.exp(math.log(confidence) / comparisons)


def simultaneous_rates(matches: Sequence[PairCounts], confidence: float = CONFIDENCE) -> list[Estimate]:
    """A's rate in each match, with intervals that hold together."""
    if not matches:
        return []
    each = simultaneous_confidence(len(matches), confidence)
    return [pair_rate(*counts, confidence=each) for counts in matches]


def adjusted_p_values(matches: Sequence[PairCounts], rate: float = 0.5) -> list[float]:
    """Of each match, the p-value of "A's rate is not ``rate``", adjusted for their number (Holm)."""
    return [float(value) for value in holm([p_value(*counts, rate=rate) for counts in matches])]
