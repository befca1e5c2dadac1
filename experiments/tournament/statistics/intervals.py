"""Confidence intervals for matches on duplicate deals. The samples are pairs of games; pairs are independent.

A pair ends in one of three ways: agent A wins both games, one, or none. A's win rate is 1/2 + (P(both) - P(none)) / 2,
and P(both) - P(none) is the difference of two paired proportions, as in McNemar's test. Its interval here is Tango's
score interval, the counterpart of Wilson's for pairs: it keeps its level with few pairs, and it has a width also when
every pair is split (identical deterministic agents).

Elo differences are another scale for the same rates: an agent that is d points better wins 1 / (1 + 10^(-d / 400)) of
the games. Their interval is that of the rate, taken to that scale.

Means and ratios of means (deals a game, points a deal) have the interval of the delta method with Student's t.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit  # scipy.stats would take a second to import

CONFIDENCE = 0.95


class Estimate(NamedTuple):
    """A value with its confidence interval; NaN where there are too few samples to say."""

    value: float
    low: float
    high: float


def pair_rate(both: int, one: int, none: int, confidence: float = CONFIDENCE) -> Estimate:
    """A rate of games, from the numbers of pairs in which both games count, one, or none.

    The interval is Tango's score interval (T. Tango, "Equivalence test and confidence interval for the difference in
    proportions for the paired-sample design", Statistics in Medicine 17, 1998, pp. 891-908) for the difference
    d = P(both) - P(none), taken to the rate (1 + d) / 2: all d that the score test does not reject.
    """
    pairs = both + one + none
    if pairs == 0:
        return Estimate(math.nan, math.nan, math.nan)
    z = float(ndtri(0.5 + confidence / 2))
    middle = (both - none) / pairs
    low, high = (_edge_of_interval(both, none, pairs, z, middle, end) for end in (-1.0, 1.0))
    return Estimate((1 + middle) / 2, (1 + low) / 2, (1 + high) / 2)


def pair_score(both: int, one: int, none: int, rate: float = 0.5) -> float:
    """The statistic of the test that the rate of games is ``rate``: standard normal if it is, positive above it.

    It is that of Tango's interval, so a rate is inside the interval of a confidence exactly if the test does not reject
    it at 1 - confidence. At 1/2 it is McNemar's: (both - none) / sqrt(both + none). Without any evidence (no pairs, or
    all of them split at 1/2) it is 0; infinite where the rate, 0 or 1, is impossible.
    """
    pairs = both + one + none
    distance, variance = _score(both, none, pairs, 2 * rate - 1) if pairs else (0.0, 0.0)
    if distance == 0:
        return 0.0
    return distance / math.sqrt(variance) if variance > 0 else math.copysign(math.inf, distance)


def elo(rate: float) -> float:
    """The Elo difference of an agent that wins this rate of the games: 400 log10(rate / (1 - rate)).

    Infinite at 0 and 1, NaN of NaN.

    Raises:
        ValueError: a number that is no rate.
    """
    if rate < 0 or rate > 1:
        raise ValueError(f"a rate is between 0 and 1, got {rate}")
    if rate in (0, 1):
        return math.copysign(math.inf, rate - 0.5)
    return 400 * math.log10(rate / (1 - rate))


def rate_of_elo(difference: float) -> float:
    """The rate of games that an agent wins which is so many Elo points better."""
    return 0.5 * (1 + math.tanh(difference * math.log(10) / 800))


def elo_difference(both: int, one: int, none: int, confidence: float = CONFIDENCE) -> Estimate:
    """The Elo difference by which A is better than B, from pairs that A won both games of, one, or none.

    The interval is that of :func:`pair_rate`. Of a match that was won whole the maximum-likelihood difference is
    infinite; the value is then that of half a game less, so it is finite, and the interval ends at infinity, since no
    difference is too large for such a match. The same with all lost.
    """
    rate = pair_rate(both, one, none, confidence)
    half_a_game = 1 / (4 * max(1, both + one + none))
    return Estimate(elo(min(max(rate.value, half_a_game), 1 - half_a_game)), elo(rate.low), elo(rate.high))


def _edge_of_interval(both: int, none: int, pairs: int, z: float, inside: float, outside: float) -> float:
    """Where between two values of d the score test begins to reject, by bisection."""

    def rejected(d: float) -> bool:
        distance, variance = _score(both, none, pairs, d)
        return distance * distance > z * z * variance

    if not rejected(outside):
        return outside
    for _ in range(60):  # down to the spacing of doubles
        middle = (inside + outside) / 2
        if rejected(middle):
            outside = middle
        else:
            inside = middle
    return inside


def _score(both: int, none: int, pairs: int, d: float) -> tuple[float, float]:
    """How far the pairs are from the difference d, and the variance of that under d, P(none) being at its most likely
    value under d."""
    linear = (2 * pairs - both + none) * d - both - none
    root = math.sqrt(max(0.0, linear * linear + 8 * pairs * none * d * (1 - d)))
    p_none = (root - linear) / (4 * pairs)
    return both - none - pairs * d, max(0.0, pairs * (2 * p_none + d * (1 - d)))


class PairTotals:
    """Sums and sums of products of K integers a pair, from which the ratios of their means are estimated.

    It takes the pairs block by block and keeps K + K * K numbers. They are integers, so that nothing depends on how
    the pairs were cut into blocks.
    """

    def __init__(self, size: int) -> None:
        self.pairs = 0
        self.sums = np.zeros(size, np.int64)
        self._products = np.zeros((size, size), np.int64)

    def add(self, samples: NDArray[np.integer]) -> None:
        """Take in the samples (P, K) of P pairs, each of absolute value below 2**15."""
        exact = samples.astype(np.float64)  # whole numbers below 2**53 are exact, and BLAS multiplies only floats
        self.pairs += len(samples)
        self.sums += samples.sum(axis=0, dtype=np.int64)
        self._products += (exact.T @ exact).astype(np.int64)

    def ratio(self, numerators: Sequence[int], denominators: Sequence[int], confidence: float = CONFIDENCE) -> Estimate:
        """The sum of the ratios mean[numerators[k]] / mean[denominators[k]], with the delta method's interval.

        The variance of r = x / n (means over pairs) is that of (x_p - r n_p) / n over the pairs p, divided by their
        number (W. G. Cochran, "Sampling Techniques", 3rd ed. 1977, section 6.4); for a sum of ratios the terms of a
        pair are added before. NaN where a denominator is zero, and limits of NaN from fewer than two pairs.
        """
        value = 0.0
        gradient = np.zeros(len(self.sums))
        for numerator, denominator in zip(numerators, denominators, strict=True):
            total = float(self.sums[denominator])
            if total == 0:
                return Estimate(math.nan, math.nan, math.nan)
            ratio = float(self.sums[numerator]) / total
            value += ratio
            gradient[numerator] += 1 / total
            gradient[denominator] -= ratio / total
        if self.pairs < 2:
            return Estimate(value, math.nan, math.nan)
        means = self.sums / self.pairs
        covariance = (self._products / self.pairs - np.outer(means, means)) * self.pairs / (self.pairs - 1)
        error = math.sqrt(max(0.0, float(gradient @ covariance @ gradient) * self.pairs))
        margin = float(stdtrit(self.pairs - 1, 0.5 + confidence / 2)) * error
        return Estimate(value, value - margin, value + margin)
