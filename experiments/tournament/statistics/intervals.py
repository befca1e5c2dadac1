"""Confidence intervals for matches on duplicate deals. The samples are pairs of games; pairs are independent.

A pair ends in one of three ways: agent A wins both games, one, or none. A's win rate is 1/2 + (P(both) - P(none)) / 2,
and P(both) - P(none) is the difference of two paired proportions, as in McNemar's test. Its interval here is Tango's
score interval, the counterpart of Wilson's for pairs: it keeps its level with few pairs, and it has a width also when
every pair is split (identical deterministic agents).

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


def _edge_of_interval(both: int, none: int, pairs: int, z: float, inside: float, outside: float) -> float:
    """Where between two values of d the score test begins to reject, by bisection."""
    if not _rejected(both, none, pairs, z, outside):
        return outside
    for _ in range(60):  # down to the spacing of doubles
        middle = (inside + outside) / 2
        if _rejected(both, none, pairs, z, middle):
            outside = middle
        else:
            inside = middle
    return inside


def _rejected(both: int, none: int, pairs: int, z: float, d: float) -> bool:
    """Whether the score test rejects the difference d, with P(none) at its most likely value under d."""
    linear = (2 * pairs - both + none) * d - both - none
    root = math.sqrt(max(0.0, linear * linear + 8 * pairs * none * d * (1 - d)))
    p_none = (root - linear) / (4 * pairs)
    variance = max(0.0, pairs * (2 * p_none + d * (1 - d)))
    return (both - none - pairs * d) ** 2 > z * z * variance


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
