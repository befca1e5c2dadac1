"""What a match comes to: counts and estimates, gathered block by block."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import (
    CRIB_PART,
    HAND_DEALER_PART,
    HAND_PONE_PART,
    HEELS_PART,
    PARTS,
    PLAY_DEALER_PART,
    PLAY_PONE_PART,
)
from experiments.tournament.adjustment import LuckTotals
from experiments.tournament.statistics import Estimate, PairTotals, pair_rate

DEALER_PARTS = (HEELS_PART, PLAY_DEALER_PART, HAND_DEALER_PART, CRIB_PART)
PONE_PARTS = (PLAY_PONE_PART, HAND_PONE_PART)

# The columns of a pair's sample. "(2)" means one for agent A and one for B.
_GAMES = 0
_DEALS = 1
_DECISIONS = 2
_FIRST_DEALER_WINS = 3
_WINS = 4  # (2)
_SKUNKS = 6  # (2) wins by a skunk, double or not
_DOUBLE_SKUNKS = 8  # (2)
_FORFEITS = 10  # (2) games lost by an illegal action
_POINTS = 12  # (2) x 6
_COUNTED = _POINTS + 2 * len(PARTS)  # (2) x 6
_SIZE = _COUNTED + 2 * len(PARTS)

A, B = 0, 1
AGENTS = (A, B)


class MatchSummary:
    """Counts and estimates of a match between agents A and B (0 and 1), its pairs of games being the samples.

    Estimates are triples of a value and its 95 % confidence interval. Points a deal are means over the
    deals that began well below the target (see :data:`experiments.tournament.match.GAME_DTYPE`), so the deals that
    the end of a game cuts off do not lower them, and they compare with published figures for whole deals.

    Args:
        names: of A and B.
    """

    def __init__(self, names: tuple[str, str]) -> None:
        self.names = names
        self.seconds = 0.0
        """How long the games took; the caller says so."""
        self._totals = PairTotals(_SIZE)
        self._pair_wins = np.zeros(3, np.int64)  # pairs in which A won 0, 1, 2 games
        self._pair_first_dealer = np.zeros(3, np.int64)
        self._luck = LuckTotals()

    def add(self, games: NDArray[np.void]) -> None:
        """Take in a block of :func:`experiments.tournament.match.play_blocks`."""
        samples = np.zeros((len(games), _SIZE), np.int64)
        rows = np.arange(len(games))
        winner_seat = games["a_seat"] ^ games["winner"]
        samples[:, _GAMES] = 1
        samples[:, _DEALS] = games["deals"]
        samples[:, _DECISIONS] = games["decisions"]
        samples[:, _FIRST_DEALER_WINS] = winner_seat == games["first_dealer"]
        samples[rows, _WINS + games["winner"]] = 1
        samples[rows, _SKUNKS + games["winner"]] = games["skunk"] >= 1
        samples[rows, _DOUBLE_SKUNKS + games["winner"]] = games["skunk"] == 2
        for agent in AGENTS:
            samples[:, _FORFEITS + agent] = games["forfeit"] == agent
        samples[:, _POINTS:_COUNTED] = games["points"].reshape(len(games), -1)
        samples[:, _COUNTED:] = games["counted"].reshape(len(games), -1)
        pairs = samples[0::2] + samples[1::2]
        self._totals.add(pairs)
        self._pair_wins += np.bincount(pairs[:, _WINS + A], minlength=3)
        self._pair_first_dealer += np.bincount(pairs[:, _FIRST_DEALER_WINS], minlength=3)
        self._luck.add(games["pair"][0::2], pairs[:, _WINS + A], games["luck"].reshape(-1, 2))

    @property
    def pairs(self) -> int:
        """How many pairs were played."""
        return self._totals.pairs

    @property
    def games(self) -> int:
        """How many games were played."""
        return 2 * self._totals.pairs

    @property
    def games_per_second(self) -> float:
        """Speed, NaN if no time was measured."""
        return self.games / self.seconds if self.seconds else float("nan")

    @property
    def pair_outcomes(self) -> tuple[int, int, int]:
        """How many pairs A won with both games, split, and lost with both."""
        none, one, both = (int(n) for n in self._pair_wins)
        return both, one, none

    @property
    def win_rate(self) -> Estimate:
        """A's share of the games won."""
        return pair_rate(*self.pair_outcomes)

    @property
    def win_rate_error(self) -> float:
        """The standard error of A's win rate: that of the mean of pairs' scores 0, 1/2, 1; NaN from one pair."""
        if self.pairs < 2:
            return float("nan")
        both, one, none = self.pair_outcomes
        mean = (2 * both + one) / (2 * self.pairs)
        squares = both * (1 - mean) ** 2 + one * (0.5 - mean) ** 2 + none * mean**2
        return float((squares / (self.pairs - 1) / self.pairs) ** 0.5)

    @property
    def adjusted_win_rate(self) -> Estimate:
        """A's share of the games won with luck taken out (see :mod:`experiments.tournament.adjustment`).

        It has the same mean as :attr:`win_rate` and a smaller variance. NaN if the games' luck was not noted. Where
        nothing varies (an agent against itself) there is no spread to go by, and it is the plain rate.
        """
        if self._luck.noted and self._luck.error() == 0:
            return self.win_rate
        return self._luck.estimate()

    @property
    def adjusted_win_rate_error(self) -> float:
        """The standard error of :attr:`adjusted_win_rate`; NaN from one pair, or without luck."""
        return self._luck.error()

    @property
    def luck_coefficient(self) -> float:
        """How much of the luck was taken out; NaN without luck."""
        return self._luck.coefficient

    @property
    def variance_reduction(self) -> float:
        """How many times as many games the plain win rate would need to be as exact; NaN without luck."""
        return self._luck.variance_reduction()

    @property
    def first_dealer_rate(self) -> Estimate:
        """The share of the games that the first dealer won."""
        none, one, both = (int(n) for n in self._pair_first_dealer)
        return pair_rate(both, one, none)

    @property
    def deals_per_game(self) -> Estimate:
        """Deals a game, the cut-off last one included."""
        return self._totals.ratio([_DEALS], [_GAMES])

    def points(self, agent: int, part: int) -> Estimate:
        """An agent's mean points from a part of ``cribbage_env.engine.PARTS`` in a whole deal."""
        return self._deal_points(agent, (part,))

    def dealer_points(self, agent: int) -> Estimate:
        """An agent's mean points in a whole deal that it deals: the sum over the parts."""
        return self._deal_points(agent, DEALER_PARTS)

    def pone_points(self, agent: int) -> Estimate:
        """An agent's mean points in a whole deal that the other agent deals."""
        return self._deal_points(agent, PONE_PARTS)

    def _deal_points(self, agent: int, parts: tuple[int, ...]) -> Estimate:
        columns = [len(PARTS) * agent + part for part in parts]
        return self._totals.ratio([_POINTS + at for at in columns], [_COUNTED + at for at in columns])

    def wins(self, agent: int) -> int:
        """Games won."""
        return int(self._totals.sums[_WINS + agent])

    def skunks(self, agent: int) -> int:
        """Games won by a skunk, double ones included."""
        return int(self._totals.sums[_SKUNKS + agent])

    def double_skunks(self, agent: int) -> int:
        """Games won by a double skunk."""
        return int(self._totals.sums[_DOUBLE_SKUNKS + agent])

    def forfeits(self, agent: int) -> int:
        """Games lost by an illegal action."""
        return int(self._totals.sums[_FORFEITS + agent])

    @property
    def decisions(self) -> int:
        """Decisions taken by both agents."""
        return int(self._totals.sums[_DECISIONS])
