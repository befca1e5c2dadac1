"""Sequential probability ratio tests on pairs: a match that ends as soon as it is decided.

The sample is a pair's score: the share of its games that A won, 1, 1/2 or 0 (or, in general, any of K scores). Two
hypotheses give its mean: H0 says rate0, H1 says rate1 > rate0. How often a pair is split is not part of them, so the
likelihood ratio is the generalised one: of each hypothesis the largest likelihood that any distribution with its mean
reaches (T. L. Lai, "Nearly optimal sequential tests of composite hypotheses", Annals of Statistics 16, 1988; for
multinomial outcomes M. Van den Bergh's notes for Fishtest, the test server of the chess program Stockfish). With A.
Wald's bounds log(beta / (1 - alpha)) and log((1 - beta) / alpha) on its logarithm, H1 is accepted wrongly in about
alpha of the matches, and H0 in beta ("Sequential tests of statistical hypotheses", Annals of Mathematical Statistics
16, 1945); looks that are some pairs apart make it rather less.

A match that stops when it looks good looks better than it is: the win rate at stopping is biased away from the
bounds' middle, and its usual interval does not keep its level. :meth:`Sprt.estimate` corrects both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from experiments.tournament.statistics.exit_times import probability_of_less
from experiments.tournament.statistics.intervals import CONFIDENCE, Estimate, rate_of_elo

PAIR_SCORES = (1.0, 0.5, 0.0)
"""A's score in a pair that it won both games of, one, none: the order of ``MatchSummary.pair_outcomes``."""

Decision = Literal["continue", "accept H0", "accept H1"]

DEFAULT_CHECK_EVERY = 50
_LEAST_WINDOW = 1e-6  # rates closer than that can't be told apart in any match
_STEPS = 100  # of Newton's method at most; about six are needed
_PRECISION = 1e-12  # of a multiplier; the likelihood is flat there
_MARGIN = 1e-6  # between the smallest and largest score and the rates that are tried


class SprtState(NamedTuple):
    """Where a test stands."""

    decision: Decision
    llr: float  # log-likelihood ratio
    lower: float  # H0 is accepted when llr is at most this
    upper: float  # H1 is accepted when llr is at least this


@dataclass(frozen=True)
class Sprt:
    """A test of "A's rate is rate0" against "A's rate is rate1".

    Args:
        rate0, rate1: the hypotheses H0 and H1, as rates of games, 0 < rate0 < rate1 < 1.
        alpha: how often H1 may be accepted when A's rate is rate0 (or less).
        beta: how often H0 may be accepted when A's rate is rate1 (or more).
        check_every: the match is looked at after so many pairs, twice as many, ... It is part of the test: who looks
            more often stops earlier.

    Raises:
        ValueError: bounds that are impossible.
    """

    rate0: float
    rate1: float
    alpha: float = 0.05
    beta: float = 0.05
    check_every: int = DEFAULT_CHECK_EVERY

    def __post_init__(self) -> None:
        if not 0 < self.rate0 < self.rate1 < 1 or self.rate1 - self.rate0 < _LEAST_WINDOW:
            raise ValueError(
                "an SPRT needs 0 < rate0 < rate1 < 1 (elo0 < elo1), at least a millionth apart, "
                f"got {self.rate0:g} and {self.rate1:g}"
            )
        if not (0 < self.alpha < 1 and 0 < self.beta < 1 and self.alpha + self.beta < 1):
            raise ValueError(
                f"an SPRT needs alpha and beta above 0 with a sum below 1, got {self.alpha:g} and {self.beta:g}"
            )
        if self.check_every < 1:
            raise ValueError(f"check_every must be at least 1 pair, got {self.check_every}")

    @classmethod
    def of_elo(
        cls,
        elo0: float,
        elo1: float,
        alpha: float = 0.05,
        beta: float = 0.05,
        check_every: int = DEFAULT_CHECK_EVERY,
    ) -> Sprt:
        """The test of two Elo differences by which A is better (logistic Elo)."""
        if not elo0 < elo1:  # also NaN
            raise ValueError(f"an SPRT needs elo0 < elo1, got {elo0:g} and {elo1:g}")
        return cls(rate_of_elo(elo0), rate_of_elo(elo1), alpha, beta, check_every)

    @property
    def lower(self) -> float:
        """The log-likelihood ratio at which H0 is accepted."""
        return math.log(self.beta / (1 - self.alpha))

    @property
    def upper(self) -> float:
        """The log-likelihood ratio at which H1 is accepted."""
        return math.log((1 - self.beta) / self.alpha)

    def state(self, counts: Sequence[int], scores: Sequence[float] = PAIR_SCORES) -> SprtState:
        """Where the test stands after pairs of which ``counts[k]`` had the score ``scores[k]``: both won, one, none.

        Nothing is decided between two looks, whatever the ratio.
        """
        llr = float(log_likelihood_ratio(counts, self.rate0, self.rate1, scores))
        decision: Decision = "continue"
        look = sum(counts) % self.check_every == 0
        if look and llr >= self.upper:
            decision = "accept H1"
        elif look and llr <= self.lower:
            decision = "accept H0"
        return SprtState(decision, llr, self.lower, self.upper)

    def looks(self, outcomes: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The log-likelihood ratio at every look: numbers of pairs (L,) and ratios (L,).

        Args:
            outcomes: (P,) how many games A won in each pair, 0, 1 or 2, in order.
        """
        pairs = np.arange(self.check_every, len(outcomes) + 1, self.check_every)
        counts = np.stack([np.cumsum(outcomes == wins)[pairs - 1] for wins in (2, 1, 0)], axis=-1)
        return pairs, log_likelihood_ratio(counts, self.rate0, self.rate1)

    def first_decision(self, outcomes: NDArray[np.integer]) -> int | None:
        """After how many pairs the test is decided, None if it goes on.

        It depends only on the outcomes (P,) in order: how many games A won in each pair. What it says of some pairs
        stays true when more are added, so it can be asked whenever pairs were finished.
        """
        pairs, ratios = self.looks(outcomes)
        decided = np.flatnonzero((ratios >= self.upper) | (ratios <= self.lower))
        return int(pairs[decided[0]]) if len(decided) else None

    def estimate(
        self, counts: Sequence[int], scores: Sequence[float] = PAIR_SCORES, confidence: float = CONFIDENCE
    ) -> Estimate:
        """A's rate with an interval, as a match tells it that this test has stopped, or has left undecided.

        The value is median-unbiased: it is as often too high as too low. Value and limits are the rates under which
        the match would have ended "lower" than it did with probability 1/2, and 1/2 plus or minus half the confidence.
        Matches are ordered by how they ended: H0 accepted early, late; undecided, by their win rate; H1 accepted late,
        early (D. Siegmund, "Estimation following sequential tests", Biometrika 65, 1978). For this the log-likelihood
        ratio is taken as a random walk with normal steps, its drift proportional to the rate's distance from the middle
        of the bounds, and its variance that of the most likely distribution of scores with that rate (half a pair of
        each score added, so that it is never zero). The tests show by simulation what that is worth.

        Args:
            counts: of the pairs up to the look at which the match stopped: both won, one, none.
            scores: of the counts, if they are others.
            confidence: of the interval.
        """
        if sum(counts) == 0:
            return Estimate(math.nan, math.nan, math.nan)
        tail = (1 - confidence) / 2
        bounds = min(scores), max(scores)
        probability = self._probability_of_less(counts, scores)
        return Estimate(*(_rate_at(probability, level, *bounds) for level in (0.5, 1 - tail, tail)))

    def _probability_of_less(self, counts: Sequence[int], scores: Sequence[float]) -> Callable[[float], float]:
        """The probability of a match that ends lower than one with these counts, as a function of A's rate."""
        values = np.asarray(scores, np.float64)
        numbers = np.asarray(counts, np.float64)
        pairs = float(numbers.sum())
        middle = (self.rate0 + self.rate1) / 2
        gain = (self.rate1 - self.rate0) / _variance_at(middle, numbers + 0.5, values)
        position = gain * float(numbers @ (values - middle))

        def probability(rate: float) -> float:
            return probability_of_less(
                pairs,
                position,
                drift=gain * (rate - middle),
                variance=gain**2 * _variance_at(rate, numbers + 0.5, values),
                lower=self.lower,
                upper=self.upper,
                step=self.check_every,
            )

        return probability


def log_likelihood_ratio(
    counts: ArrayLike, rate0: float, rate1: float, scores: Sequence[float] = PAIR_SCORES
) -> NDArray[np.float64]:
    """The generalised log-likelihood ratio of "the mean score is rate1" to "it is rate0".

    Args:
        counts: (..., K) how often each score came.
        rate0, rate1: the means, strictly between the smallest and the largest score.
        scores: (K,) in [0, 1], different ones.

    Returns:
        (...) float64; 0 without any counts.
    """
    numbers = np.asarray(counts, np.float64)
    values = np.asarray(scores, np.float64)
    if not values.min() < min(rate0, rate1) <= max(rate0, rate1) < values.max():
        raise ValueError(f"the means must lie between the scores {scores}, got {rate0:g} and {rate1:g}")
    tilt0, tilt1 = (_tilt(numbers, values - rate)[..., None] for rate in (rate0, rate1))
    with np.errstate(divide="ignore", invalid="ignore"):  # scores that were not seen
        terms = numbers * (np.log1p(tilt0 * (values - rate0)) - np.log1p(tilt1 * (values - rate1)))
    return np.asarray(np.where(numbers > 0, terms, 0.0).sum(axis=-1))


def _tilt(counts: NDArray[np.float64], distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """The multiplier t (...) of the most likely distribution of scores with a given mean.

    Args:
        counts: (..., K) how often each score came.
        distances: (K,) of the scores from the mean, d_k.

    Under the constraint, the likelihood is largest where score k has the probability f_k / (1 + t d_k), f_k being its
    frequency; t is the root of sum f_k d_k / (1 + t d_k), which falls with t (A. B. Owen, "Empirical likelihood", 2001,
    section 2.4). Where the root would make the denominator of the smallest or largest score negative, that score was
    not seen, and t is where its denominator vanishes: it takes the probability that is left.

    Newton's method, and bisection where it would leave the bracket.
    """
    rows = counts.reshape(-1, counts.shape[-1])
    low = np.full(len(rows), -1 / distances.max())
    high = np.full(len(rows), -1 / distances.min())
    tilts = np.zeros(len(rows))
    on = np.arange(len(rows))  # those that have not converged
    for _ in range(_STEPS):
        tilt, numbers = tilts[on], rows[on]
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.where(numbers > 0, distances / (1 + tilt[:, None] * distances), 0.0)
            slope = (numbers * ratios).sum(axis=-1)
            newton = tilt + slope / (numbers * ratios**2).sum(axis=-1)
        low[on] = np.where(slope > 0, tilt, low[on])
        high[on] = np.where(slope < 0, tilt, high[on])
        inside = (newton > low[on]) & (newton < high[on])
        tilts[on] = np.where(inside, newton, (low[on] + high[on]) / 2)
        on = on[np.abs(tilts[on] - tilt) > _PRECISION]
        if not len(on):
            break
    return tilts.reshape(counts.shape[:-1])


def _variance_at(mean: float, counts: NDArray[np.float64], scores: NDArray[np.float64]) -> float:
    """The variance of the most likely distribution of scores with a given mean; all counts (K,) are positive."""
    distances = scores - mean
    shares = counts / counts.sum() / (1 + float(_tilt(counts, distances)) * distances)
    return float(shares @ distances**2)


def _rate_at(probability: Callable[[float], float], level: float, lowest: float, highest: float) -> float:
    """The rate at which a probability that falls with the rate has a level; one of the ends if none in between has."""
    from scipy.optimize import brentq

    low, high = lowest + _MARGIN, highest - _MARGIN
    if probability(low) <= level:
        return lowest
    if probability(high) >= level:
        return highest
    return float(brentq(lambda rate: probability(rate) - level, low, high, xtol=1e-8))
