"""Win rates with luck taken out: the estimate from pairs' results and their luck (:mod:`experiments.tournament.luck`).

A pair p ends with A having won a share s_p of its two games, and with chance having given A the luck l_p, whose mean
is zero. So s_p - c l_p has the same mean as s_p whatever c is, and the smallest variance for c = cov(s, l) / var(l).
The coefficient is near 1 for agents like the one that luck was computed with, and smaller the less alike they are.
Estimated from the same pairs it would be correlated with them and give a bias; so the pairs are dealt out to folds, and
those of each fold have the coefficient that all *other* folds give. Pairs are independent, so it is independent of the
fold's luck, E[c l_p] = E[c] E[l_p] = 0, and the estimate is unbiased, exactly, for any number of pairs. (With a stop
rule that looks at the results, such as SPRT's, the estimate at the end is biased, as the plain one is.)
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from experiments.tournament.statistics import CONFIDENCE, Estimate

MICRO = 1_000_000
"""A game's luck is stored as a whole number of millionths of a game, so that sums don't depend on their order."""

_FOLDS = 16
_PRIOR_PAIRS = 20  # for a start, as if so many pairs had shown a coefficient of 1,
_PRIOR_VARIANCE = 0.02  # with this variance of a pair's luck; both chosen once and for all


class LuckTotals:
    """Sums over pairs, from which the adjusted win rate is estimated.

    They are whole numbers, so that nothing depends on how the pairs were cut into blocks.
    """

    def __init__(self) -> None:
        self.pairs = 0
        self.noted = False
        """Whether any game had its luck noted."""
        # by fold: pairs; games won, luck, and their products, summed
        self._sums = [[0] * 6 for _ in range(_FOLDS)]

    def add(self, pairs: NDArray[np.integer], wins: NDArray[np.integer], luck: NDArray[np.integer]) -> None:
        """Take in P pairs.

        Args:
            pairs: (P,) their numbers.
            wins: (P,) games that A won, 0 to 2.
            luck: (P, 2) of A in both games, in millionths of a game.
        """
        self.pairs += len(pairs)
        self.noted = self.noted or bool(luck.any())
        both = luck.sum(axis=1, dtype=np.int64)
        wins = wins.astype(np.int64)
        for fold, sums in enumerate(self._sums):
            chosen = pairs % _FOLDS == fold
            w, l = wins[chosen], both[chosen]  # noqa: E741 (luck)
            for at, value in enumerate((len(w), w.sum(), l.sum(), w @ w, w @ l, l @ l)):
                sums[at] += int(value)

    def _moments(self) -> NDArray[np.float64]:
        """(folds, 6): pairs, and sums of s, l, s s, s l, l l, with s and l in games, averaged over a pair's two."""
        game, luck = 0.5, 0.5 / MICRO
        units = np.array([1.0, game, luck, game * game, game * luck, luck * luck])
        return np.array(self._sums, np.float64) * units

    def _coefficients(self, moments: NDArray[np.float64]) -> NDArray[np.float64]:
        """(folds,): that of each fold, from the others."""
        n, s, l, _, sl, ll = (moments.sum(axis=0) - moments).T  # noqa: E741
        mean = np.divide(s, n, out=np.full(_FOLDS, 0.5), where=n > 0)
        prior = _PRIOR_PAIRS * _PRIOR_VARIANCE
        return (sl - mean * l + prior) / (ll + prior)  # the mean of l is known to be zero

    @property
    def coefficient(self) -> float:
        """The coefficient of the luck: the mean of those that the pairs have; NaN without luck."""
        if not self.noted:
            return math.nan
        moments = self._moments()
        return float(moments[:, 0] @ self._coefficients(moments) / self.pairs)

    def _mean_and_variance(self) -> tuple[float, float]:
        """Of the adjusted shares of pairs; a variance of NaN from fewer than two pairs."""
        moments = self._moments()
        c = self._coefficients(moments)
        _, s, l, ss, sl, ll = moments.T  # noqa: E741
        mean = float((s - c * l).sum()) / self.pairs
        squares = float((ss - 2 * c * sl + c * c * ll).sum())
        if self.pairs < 2:
            return mean, math.nan
        return mean, max(0.0, squares - self.pairs * mean * mean) / (self.pairs - 1)

    def error(self) -> float:
        """The standard error of the adjusted win rate; NaN without luck, or from fewer than two pairs."""
        return math.sqrt(self._mean_and_variance()[1] / self.pairs) if self.noted else math.nan

    def estimate(self, confidence: float = CONFIDENCE) -> Estimate:
        """A's adjusted win rate with Student's t interval over pairs; NaN without luck.

        It is not cut to the range from 0 to 1, since that would give it a bias.
        """
        if not self.noted:
            return Estimate(math.nan, math.nan, math.nan)
        mean, variance = self._mean_and_variance()
        if self.pairs < 2:
            return Estimate(mean, math.nan, math.nan)
        margin = float(stdtrit(self.pairs - 1, 0.5 + confidence / 2)) * math.sqrt(variance / self.pairs)
        return Estimate(mean, mean - margin, mean + margin)

    def variance_reduction(self) -> float:
        """The variance of the plain win rate divided by that of the adjusted one.

        So many times the games would be needed without the adjustment. NaN without luck, or where nothing varies.
        """
        if not self.noted or self.pairs < 2:
            return math.nan
        totals = self._moments().sum(axis=0)
        plain = (totals[3] - totals[1] ** 2 / self.pairs) / (self.pairs - 1)
        adjusted = self._mean_and_variance()[1]
        return float(plain / adjusted) if adjusted > 0 else math.nan
