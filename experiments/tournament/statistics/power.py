"""How long a match must be: the number of pairs with which a win rate is told from 50 %, and the reverse.

A pair's score is the share of its games that A won: 1, 1/2 or 0. Its variance says what a match costs. With two
independent games it would be r (1 - r) / 2, about 1/8; on duplicate deals the luck of the cards splits many pairs, and
it is smaller, the more so the more alike the agents are. The mean of N pairs' scores is taken as normal, with variance
V / N, and the test is two-sided at level alpha.
"""

from __future__ import annotations

import math

from scipy.special import ndtr, ndtri

from experiments.tournament.statistics.sprt import Sprt

CLOSE_VARIANCE = 0.05
"""The variance of a pair's score between two close opponents that are different agents: 0.0498 was measured of
``expected`` against ``rule_based`` (20,000 games, seed 5). Agents that mostly do the same split more pairs: 0.026 of
``expected`` against ``expected:crib=hessel``, which differ in a table for discards (40,000 games)."""

MAX_VARIANCE = 0.25


def pair_variance(both: int, one: int, none: int) -> float:
    """The variance of a pair's score, unbiased, from counts of pairs; NaN from fewer than two."""
    pairs = both + one + none
    if pairs < 2:
        return math.nan
    mean = (both + one / 2) / pairs
    return (both * (1 - mean) ** 2 + one * (0.5 - mean) ** 2 + none * mean**2) / (pairs - 1)


def independent_variance(rate: float) -> float:
    """The variance of the mean of two independent games: a pair's without duplicate deals."""
    return rate * (1 - rate) / 2


def power_of_match(pairs: float, rate: float, variance: float, alpha: float = 0.05) -> float:
    """How often the test finds that A's rate is not 1/2, on the side where it is, if it is ``rate``.

    Args:
        pairs: in the match.
        rate: A's, 0 to 1.
        variance: of a pair's score.
        alpha: of the two-sided test.
    """
    _check(variance, alpha, 0.5)
    return float(ndtr(abs(rate - 0.5) * math.sqrt(pairs / variance) + ndtri(alpha / 2)))


def pairs_needed(rate: float, variance: float, power: float = 0.8, alpha: float = 0.05) -> int:
    """The least number of pairs with which :func:`power_of_match` reaches ``power``.

    Raises:
        ValueError: a rate that is not between 0 and 1, or is 1/2; a power, alpha or variance that cannot be.
    """
    if not 0 < rate < 1 or rate == 0.5:
        raise ValueError(f"the rate to detect must be between 0 and 1 and not 1/2, got {rate:g}")
    _check(variance, alpha, power)
    return max(1, math.ceil(variance * (_quantiles(power, alpha) / (rate - 0.5)) ** 2))


def detectable_rate(pairs: int, variance: float, power: float = 0.8, alpha: float = 0.05) -> float:
    """The least rate above 1/2 that so many pairs detect with that power; above 1 if they detect none.

    Raises:
        ValueError: no pairs; a power, alpha or variance that cannot be.
    """
    if pairs < 1:
        raise ValueError(f"a match needs at least one pair, got {pairs}")
    _check(variance, alpha, power)
    return 0.5 + _quantiles(power, alpha) * math.sqrt(variance / pairs)


def sprt_pairs(test: Sprt, rate: float, variance: float) -> float:
    """The pairs that an SPRT takes on average, if A's rate is ``rate``.

    The log-likelihood ratio is taken as a Brownian motion, which ends exactly on a bound (A. Wald, "Sequential
    analysis", 1947, appendix). Looks that are some pairs apart find it beyond the bound, by 0.583 standard deviations
    of a step on average (D. Siegmund, "Sequential analysis", 1985, section 10.4), and the match is that much longer; it
    has at least the pairs up to the first look.
    """
    gain = (test.rate1 - test.rate0) / variance
    drift = gain * (rate - (test.rate0 + test.rate1) / 2)
    spread = gain**2 * variance
    beyond = 0.5826 * math.sqrt(spread * test.check_every)
    lower, upper = test.lower - beyond, test.upper + beyond
    if abs(drift) * (upper - lower) < 1e-6 * spread:
        return max(float(test.check_every), -lower * upper / spread)
    exponent = -2 * drift / spread
    # P(upper) = (1 - e^(c lower)) / (e^(c upper) - e^(c lower)), written so that nothing overflows
    if exponent > 0:
        at_upper = (
            math.exp(-exponent * upper) * -math.expm1(exponent * lower) / -math.expm1(-exponent * (upper - lower))
        )
    else:
        at_upper = math.expm1(-exponent * lower) / math.expm1(exponent * (upper - lower))
    return max(float(test.check_every), (upper * at_upper + lower * (1 - at_upper)) / drift)


def _quantiles(power: float, alpha: float) -> float:
    return float(ndtri(1 - alpha / 2) + ndtri(power))


def _check(variance: float, alpha: float, power: float) -> None:
    if not 0 < variance <= MAX_VARIANCE:
        raise ValueError(f"the variance of a pair's score is above 0 and at most 1/4, got {variance:g}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha:g}")
    if not alpha / 2 < power < 1:
        raise ValueError(f"the power must be above alpha / 2 and below 1, got {power:g}")
