"""Statistics of matches on duplicate deals: the samples are pairs of games, one module a subject."""

from experiments.tournament.statistics.intervals import CONFIDENCE, Estimate, PairTotals, pair_rate

__all__ = ["CONFIDENCE", "Estimate", "PairTotals", "pair_rate"]
