"""The sections on how sure the figures are: the win rate over the games, luck, early stops, forfeits."""

from __future__ import annotations

import numpy as np

from experiments.tournament.html_report import notes
from experiments.tournament.html_report.charts import win_rate_panel
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import NOTHING, interval, note, paragraph, percent, plain, rate, table
from experiments.tournament.html_report.strength import has_luck
from experiments.tournament.html_report.view import View
from experiments.tournament.statistics import (
    PAIR_SCORES,
    ConfidenceSequence,
    Sprt,
    anytime_bounds,
    anytime_interval,
    elo,
)
from experiments.tournament.summary import AGENTS


def course(view: View) -> list[Markup]:
    """The win rate over the games played, with its confidence sequence."""
    cards = []
    for one in view.drawn:
        a, b = view.two(one.summary)
        counts = one.course.counts
        pairs = counts.sum(axis=1)
        sequence = ConfidenceSequence(pairs, counts @ np.array(PAIR_SCORES) / pairs, *anytime_bounds(counts))
        final = one.summary.win_rate
        title = f"Win rate of {a} against {b} over {one.summary.games:,} games; at the end {percent(final.value)}"
        always = interval(anytime_interval(*one.summary.pair_outcomes))
        caption: Child = ["A wins ", rate(final), ", at all times ", always]
        cards.append((one, win_rate_panel(sequence, final, title), caption))
    return [*view.cards(cards), note(notes.COURSE)]


def luck(view: View) -> list[Markup]:
    """Win rates with luck taken out, what the sequential test came to, and forfeits."""
    return [
        element("h3", "Luck taken out"),
        *_luck_taken_out(view),
        element("h3", "Early stops"),
        *_early_stops(view),
        element("h3", "Forfeits"),
        _forfeits(view),
    ]


def _luck_taken_out(view: View) -> list[Markup]:
    rows: list[list[Child]] = []
    for one in view.matches:
        summary = one.summary
        if has_luck(summary):
            reduction = summary.variance_reduction
            rows.append(
                [
                    view.versus(summary),
                    rate(summary.win_rate),
                    rate(summary.adjusted_win_rate),
                    plain(summary.luck_coefficient),
                    f"{reduction:.2f} ×" if reduction > 0 else NOTHING,  # nothing varies, or NaN,
                ]
            )
    if not rows:
        return [paragraph(notes.NO_LUCK)]
    head = ["match (A – B)", "A wins, plain", "luck taken out", "coefficient", "worth"]
    return [table("A's win rate before and after chance is taken out", head, rows), note(notes.LUCK)]


def _early_stops(view: View) -> list[Markup]:
    if view.config.sprt is None:
        return [paragraph(notes.NO_STOPS)]
    test = view.config.sprt.test()
    rows: list[list[Child]] = []
    for one in view.matches:
        counts = one.summary.pair_outcomes
        state = test.state(counts)
        rows.append(
            [
                view.versus(one.summary),
                f"{one.summary.pairs:,}",
                plain(state.llr),
                "undecided" if state.decision == "continue" else state.decision,
                rate(one.summary.win_rate),
                rate(test.estimate(counts)),
                rate(anytime_interval(*counts)),
            ]
        )
    head = ["match (A – B)", "pairs", "log-likelihood ratio", "SPRT", "A wins, plain", "corrected", "any stopping"]
    return [table("Where the sequential test stands", head, rows), note(f"{_in_words(test)} {notes.STOPS}")]


def _in_words(test: Sprt) -> str:
    first, second = (f"A wins {percent(one, 2)} (Elo {plain(elo(one), 1)})" for one in (test.rate0, test.rate1))
    return (
        f"SPRT of H0: {first}, against H1: {second}; alpha {test.alpha:g}, beta {test.beta:g}, looked at every "
        f"{test.check_every:,} pairs. H0 is accepted at a log-likelihood ratio of {plain(test.lower)}, H1 at "
        f"{plain(test.upper)}."
    )


def _forfeits(view: View) -> Markup:
    items = []
    for one in view.matches:
        for agent in AGENTS:
            lost = one.summary.forfeits(agent)
            if lost:
                who, other = (view.labels[one.summary.names[who]] for who in (agent, 1 - agent))
                text = f" lost {lost:,} of {one.summary.games:,} games by illegal actions against {other}."
                items.append(element("li", element("strong", who), text))
    return element("ul", items) if items else paragraph(notes.NO_FORFEITS)
