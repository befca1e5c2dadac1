"""What a report tells of: a tournament's results, gathered from its games."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from experiments.config import TournamentConfig
from experiments.tournament.comparisons import Comparison, compare
from experiments.tournament.html_report.course import MatchCourse
from experiments.tournament.plan import Match
from experiments.tournament.report import standings
from experiments.tournament.statistics import Rating
from experiments.tournament.summary import MatchSummary

MOST_DRAWN = 45
"""Matches with charts: those of ten agents. Of more the closest ones are drawn."""


class MatchResults(NamedTuple):
    """A match that has begun."""

    match: Match
    summary: MatchSummary
    course: MatchCourse


@dataclass(frozen=True)
class TournamentResults:
    """All that a report is made from; it follows from the games and ``config.yaml``.

    Args:
        config: as ``config.yaml`` notes it.
        made: what ``config.yaml`` says of versions and files.
        matches: those that have begun, in order, at least one.
        ratings: the best first; none while they can't be told.
    """

    config: TournamentConfig
    made: dict[str, Any]
    matches: Sequence[MatchResults]
    ratings: Sequence[Rating]

    @property
    def summaries(self) -> list[MatchSummary]:
        """Of the matches."""
        return [one.summary for one in self.matches]

    @property
    def games(self) -> int:
        """How many there are."""
        return sum(summary.games for summary in self.summaries)

    def comparisons(self) -> list[Comparison]:
        """Of the matches, which tell their agents apart."""
        return compare(self.summaries, self.config)

    def order(self) -> list[str]:
        """The agents that have played, the best first: by rating, or by their mean win rate."""
        return [one.name for one in self.ratings] or list(standings(self.summaries)[1])

    def drawn(self) -> list[MatchResults]:
        """The matches with charts: all of them, or the closest."""
        far = sorted(self.matches, key=lambda one: abs(one.summary.win_rate.value - 0.5))
        numbers = {one.match.number for one in far[:MOST_DRAWN]}
        return [one for one in self.matches if one.match.number in numbers]
