"""The table of ratings, ``ratings.csv``: one row an agent, the best first."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.config import TournamentConfig
from experiments.tournament.statistics.ratings import MatchResult, Rating, bradley_terry
from experiments.tournament.summary import MatchSummary

RATINGS = "ratings.csv"


def pool_ratings(summaries: Sequence[MatchSummary], config: TournamentConfig) -> list[Rating]:
    """The agents' Bradley-Terry ratings in Elo points, the best first; see :func:`bradley_terry`.

    The anchor, whose rating is 0, is the config's; the agent that comes first, if it names none or that one has no
    games yet. Of a tournament under way there are no ratings (an empty list) until its matches connect all agents that
    have played.
    """
    results = [MatchResult(*summary.names, *summary.pair_outcomes) for summary in summaries if summary.pairs]
    names = {name for result in results for name in (result.a, result.b)}
    if not names or _reached_from(results[0].a, results) != names:
        return []
    return bradley_terry(results, config.anchor if config.anchor in names else None)


def _reached_from(name: str, results: Sequence[MatchResult]) -> set[str]:
    """The agents that matches connect with one."""
    reached, new = {name}, {name}
    while new:
        met = {other for one in results for other in (one.a, one.b) if one.a in new or one.b in new}
        new = met - reached
        reached |= new
    return reached


def anchor_of(ratings: Sequence[Rating]) -> str:
    """The agent whose rating has no error; none of no ratings."""
    return next((one.name for one in ratings if one.rating.low == one.rating.high), "")


def rating_row(place: int, rating: Rating) -> dict[str, str | int | float]:
    """An agent's row; limits are infinite where nothing bounds a rating, those of the anchor are its rating."""
    value, low, high = (round(part, 3) for part in rating.rating)
    return {
        "place": place,
        "agent": rating.name,
        "rating": value,
        "rating_low": low,
        "rating_high": high,
        "games": 2 * rating.pairs,
    }
