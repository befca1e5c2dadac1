"""Statistics of matches on duplicate deals: the samples are pairs of games, and there is one module a subject."""

from experiments.tournament.statistics.intervals import (
    CONFIDENCE,
    Estimate,
    PairTotals,
    elo,
    elo_difference,
    pair_rate,
    pair_score,
    rate_of_elo,
)
from experiments.tournament.statistics.multiple import (
    adjusted_p_values,
    holm,
    p_value,
    simultaneous_confidence,
    simultaneous_rates,
)
from experiments.tournament.statistics.power import (
    CLOSE_VARIANCE,
    detectable_rate,
    independent_variance,
    pair_variance,
    pairs_needed,
    power_of_match,
    sprt_pairs,
)
from experiments.tournament.statistics.ratings import MatchResult, Rating, bradley_terry
from experiments.tournament.statistics.sequences import (
    ConfidenceSequence,
    anytime_bounds,
    anytime_interval,
    confidence_sequence,
)
from experiments.tournament.statistics.sprt import PAIR_SCORES, Sprt, SprtState, log_likelihood_ratio

__all__ = [
    "CLOSE_VARIANCE",
    "CONFIDENCE",
    "PAIR_SCORES",
    "ConfidenceSequence",
    "Estimate",
    "MatchResult",
    "PairTotals",
    "Rating",
    "Sprt",
    "SprtState",
    "adjusted_p_values",
    "anytime_bounds",
    "anytime_interval",
    "bradley_terry",
    "confidence_sequence",
    "detectable_rate",
    "elo",
    "elo_difference",
    "holm",
    "independent_variance",
    "log_likelihood_ratio",
    "p_value",
    "pair_rate",
    "pair_score",
    "pair_variance",
    "pairs_needed",
    "power_of_match",
    "rate_of_elo",
    "simultaneous_confidence",
    "simultaneous_rates",
    "sprt_pairs",
]
