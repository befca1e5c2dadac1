"""Which matches of a tournament tell their agents apart, given how many matches there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from experiments.config import TournamentConfig
from experiments.tournament.statistics import CONFIDENCE, Estimate, adjusted_p_values, anytime_interval
from experiments.tournament.summary import MatchSummary


class Comparison(NamedTuple):
    """A match as one of many comparisons."""

    p_value: float  # of "both win half of the games", adjusted for the number of matches; NaN where matches may stop
    clear: bool  # whether the agents differ, at 1 - CONFIDENCE for the whole tournament


def compare(summaries: Sequence[MatchSummary], config: TournamentConfig) -> list[Comparison]:
    """Test every match against one half, so that all that is called clear is true with the confidence 95 %.

    p-values are adjusted after Holm. They would be wrong where a sequential test may have ended a match; there the
    differences are clear whose confidence sequence, at 1 - 5 % / number of matches, leaves one half out.
    """
    if config.sprt is None:
        p_values = adjusted_p_values([summary.pair_outcomes for summary in summaries])
        return [Comparison(p_value, p_value < 1 - CONFIDENCE) for p_value in p_values]
    each = 1 - (1 - CONFIDENCE) / max(1, len(summaries))
    intervals = [anytime_interval(*summary.pair_outcomes, confidence=each) for summary in summaries]
    return [Comparison(math.nan, not interval.low <= 0.5 <= interval.high) for interval in intervals]


def shown_rate(summary: MatchSummary, config: TournamentConfig) -> Estimate:
    """A's win rate; where a sequential test may have ended the match, corrected for that."""
    return summary.win_rate if config.sprt is None else config.sprt.test().estimate(summary.pair_outcomes)
