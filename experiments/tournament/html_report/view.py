"""What all sections of the report need: names, places, and the matches as they are shown."""

from __future__ import annotations

from collections.abc import Sequence

from cribbage_env.rules import Rules
from experiments.tournament.comparisons import shown_rate
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import labels, paragraph, versus
from experiments.tournament.html_report.results import MOST_DRAWN, MatchResults, TournamentResults
from experiments.tournament.plan import entrant_names
from experiments.tournament.ratings_file import anchor_of
from experiments.tournament.statistics import Estimate
from experiments.tournament.summary import A, MatchSummary

STAR = "*"
"""Marks what is significant."""


class View:
    """The results of a tournament, ready to be shown.

    Args:
        results: what the report tells of.
    """

    def __init__(self, results: TournamentResults) -> None:
        self.results = results
        self.config = results.config
        self.rules = Rules(**results.config.rules.model_dump())
        self.matches = results.matches
        self.names = entrant_names(results.config.agents)
        """All agents, in the config's order."""
        self.labels = labels(self.names)
        """How an agent is called, by name."""
        self.order = results.order()
        """The agents that have played, the best first."""
        self.place = {name: place for place, name in enumerate(self.order, 1)}
        self.anchor = anchor_of(results.ratings)
        self.comparisons = results.comparisons()
        """Of the matches."""
        self.drawn = results.drawn()
        """The matches with charts."""
        self._numbers = {one.summary.names: at for at, one in enumerate(results.matches)}

    @property
    def may_stop(self) -> bool:
        """Whether a sequential test may have ended matches."""
        return self.config.sprt is not None

    def rate(self, summary: MatchSummary) -> Estimate:
        """A's win rate as it is shown: corrected, where a sequential test may have ended the match."""
        return shown_rate(summary, self.config)

    def rate_against(self, name: str, other: str) -> tuple[Estimate, bool] | None:
        """An agent's win rate against another and whether it is significant; None if they have not met."""
        at, turned = self._numbers.get((name, other)), False
        if at is None:
            at, turned = self._numbers.get((other, name)), True
        if at is None:
            return None
        estimate = self.rate(self.matches[at].summary)
        if turned:
            estimate = Estimate(1 - estimate.value, 1 - estimate.high, 1 - estimate.low)
        return estimate, self.comparisons[at].clear

    def mean_rate(self, name: str) -> float:
        """An agent's win rate, mean of its opponents."""
        rates = [
            value if agent == A else 1 - value
            for one, agent in self.matches_of(name, self.matches)
            for value in [self.rate(one.summary).value]
        ]
        return sum(rates) / len(rates)

    def two(self, summary: MatchSummary) -> tuple[str, str]:
        """What A and B are called."""
        a, b = summary.names
        return self.labels[a], self.labels[b]

    def versus(self, summary: MatchSummary) -> Markup:
        """A match's name."""
        return versus(*self.two(summary))

    def matches_of(self, name: str, matches: Sequence[MatchResults]) -> list[tuple[MatchResults, int]]:
        """An agent's matches, its best opponents first, with whether it is A or B (0 or 1) in them."""
        own = [(one, one.summary.names.index(name)) for one in matches if name in one.summary.names]
        return sorted(own, key=lambda item: self.place[item[0].summary.names[1 - item[1]]])

    def cards(self, cards: Sequence[tuple[MatchResults, Markup, Child]]) -> list[Markup]:
        """Charts of matches with their captions, after a word about those that have none."""
        figures = [
            element(
                "figure", element("h3", self.versus(one.summary)), chart, element("figcaption", caption), class_="card"
            )
            for one, chart, caption in cards
        ]
        return [*self.only_some(), element("div", figures, class_="cards")]

    def only_some(self) -> list[Markup]:
        """A word about the matches that are not drawn, if there are any."""
        if len(self.drawn) == len(self.matches):
            return []
        text = f"Of {len(self.matches)} matches the {MOST_DRAWN} closest are drawn; the files have all of them."
        return [paragraph(text)]
