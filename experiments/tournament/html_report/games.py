"""The sections on how the games went: points, score differences, the first dealer, skunks."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import (
    CRIB_PART,
    HAND_DEALER_PART,
    HAND_PONE_PART,
    HEELS_PART,
    PLAY_DEALER_PART,
    PLAY_PONE_PART,
)
from experiments.tournament.html_report import notes
from experiments.tournament.html_report.charts import axis_around, difference_panel, stacked_row
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import (
    breakable,
    details,
    interval_list,
    mean,
    note,
    paragraph,
    percent,
    plain,
    rate,
    table,
)
from experiments.tournament.html_report.view import View
from experiments.tournament.match import DEAL_MARGIN
from experiments.tournament.statistics import Estimate
from experiments.tournament.summary import AGENTS, MatchSummary

_DEALER = (("heels", HEELS_PART), ("play", PLAY_DEALER_PART), ("hand", HAND_DEALER_PART), ("crib", CRIB_PART))
_PONE = (("play", PLAY_PONE_PART), ("hand", HAND_PONE_PART))
_Total = Callable[[MatchSummary, int], Estimate]
_ROLES: tuple[tuple[str, tuple[tuple[str, int], ...], _Total], ...] = (
    ("dealer", _DEALER, MatchSummary.dealer_points),
    ("pone", _PONE, MatchSummary.pone_points),
)


def points(view: View) -> list[Markup]:
    """Points a deal by part, as bars and as a table."""
    totals = [total(one.summary, agent).value for one in view.matches for agent in AGENTS for _, _, total in _ROLES]
    longest = 1.02 * max((total for total in totals if not math.isnan(total)), default=0.0)
    if longest <= 0:
        return [paragraph(notes.NO_POINTS.format(margin=DEAL_MARGIN))]
    blocks: list[Markup] = []
    for name in view.order:
        rows = []
        for one, agent in view.matches_of(name, view.drawn):
            opponent = element("span", "against ", view.labels[one.summary.names[1 - agent]], class_="name")
            rows.append(element("li", opponent, _bars(one.summary, agent, longest)))
        if rows:
            blocks += [element("h3", view.labels[name]), element("ul", rows, class_="rows two-bars")]
    legend = element("p", [element("span", part, class_=f"part-{part}") for part, _ in _DEALER], class_="legend")
    return [
        legend,
        *view.only_some(),
        *blocks,
        details("All figures as a table", _points_table(view)),
        note(notes.POINTS.format(margin=DEAL_MARGIN)),
    ]


def _bars(summary: MatchSummary, agent: int, longest: float) -> list[Markup]:
    bars = []
    for role, parts, total in _ROLES:
        values = [(part, f"part-{part}", summary.points(agent, number).value) for part, number in parts]
        bars.append(
            element(
                "span",
                element("span", f"as {role} ", class_="role"),
                stacked_row(values, longest),
                element("span", mean(total(summary, agent)), class_="value"),
                class_="bar",
            )
        )
    return bars


def _points_table(view: View) -> Markup:
    head = ["agent", "against", *(name for role, parts, _ in _ROLES for name in (f"as {role}", *(n for n, _ in parts)))]
    rows: list[list[Child]] = []
    for name in view.order:
        for one, agent in view.matches_of(name, view.matches):
            opponent = element("span", breakable(view.labels[one.summary.names[1 - agent]]), class_="names")
            row: list[Child] = [breakable(view.labels[name]), opponent]
            for _, parts, total in _ROLES:
                row.append(mean(total(one.summary, agent)))
                row += [plain(one.summary.points(agent, number).value) for _, number in parts]
            rows.append(row)
    return table("Mean points in a whole deal", head, rows)


def differences(view: View) -> list[Markup]:
    """Histograms of score differences."""
    lines = view.rules.skunk, view.rules.double_skunk
    cards = []
    for one in view.drawn:
        a, b = view.two(one.summary)
        average, spread = _mean_and_spread(one.course.differences)
        words = f"mean {plain(average, 1)}, standard deviation {plain(spread, 1)}"
        title = (
            f"Score differences of {a} (A) and {b} (B), of which A wins {percent(one.summary.win_rate.value)}: {words}"
        )
        cards.append((one, difference_panel(one.course, lines, title), f"A minus B: {words}"))
    levels = [("skunk", view.rules.skunk), ("double skunk", view.rules.double_skunk)]
    skunks = [
        [element("span", word, class_=f"win-{who} level-{level}") for who in ("b", "a")]
        for level, (word, line) in enumerate(levels, 1)
        if line is not None
    ]
    wins = [element("span", f"{who.upper()} wins", class_=f"win-{who} level-0") for who in ("b", "a")]
    return [element("p", wins, skunks, class_="legend"), *view.cards(cards), note(notes.DIFFERENCES)]


def _mean_and_spread(counts: NDArray[np.int64]) -> tuple[float, float]:
    """Mean and standard deviation of score differences, from how often each came."""
    target = len(counts) // 2
    values = np.arange(-target, target + 1)
    total = int(counts.sum())
    average = float(counts @ values) / total
    return average, math.sqrt(max(0.0, float(counts @ values**2) / total - average**2))


def first_dealer(view: View) -> list[Markup]:
    """The first dealer's win rate in every match."""
    estimates = [one.summary.first_dealer_rate for one in view.matches]
    axis = axis_around([*(value for one in estimates for value in one), 0.5], 0.04, (0.0, 1.0))
    rows: list[tuple[Child, Estimate, Child]] = [
        (view.versus(one.summary), estimate, rate(estimate))
        for one, estimate in zip(view.matches, estimates, strict=True)
    ]
    return [interval_list(rows, axis, 0.5, "%"), note(notes.FIRST_DEALER)]


def skunks(view: View) -> list[Markup]:
    """Skunks, double skunks and deals a game of every match."""
    rows: list[list[Child]] = []
    for one in view.matches:
        summary = one.summary
        rows.append(
            [
                view.versus(summary),
                *(percent(summary.skunks(agent) / summary.games) for agent in AGENTS),
                *(percent(summary.double_skunks(agent) / summary.games, 2) for agent in AGENTS),
                mean(summary.deals_per_game),
            ]
        )
    head = ["match (A – B)", "skunks by A", "skunks by B", "double by A", "double by B", "deals a game"]
    return [table("Skunks and double skunks, in per cent of all games of the match", head, rows), note(notes.SKUNKS)]
