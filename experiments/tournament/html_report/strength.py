"""The sections on who is better: win rates and ratings."""

from __future__ import annotations

import math

from experiments.tournament.html_report import notes
from experiments.tournament.html_report.charts import axis_of_most
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import (
    NOTHING,
    figure,
    interval_list,
    note,
    paragraph,
    rate,
    scrolling,
    short_label,
    table,
)
from experiments.tournament.html_report.view import STAR, View
from experiments.tournament.statistics import Estimate, elo, elo_difference
from experiments.tournament.summary import MatchSummary

_LEAST_ELO = 40.0  # of the ratings' axis
_LEGEND = (0.0, 0.25, 0.45, 0.5, 0.55, 0.75, 1.0)


def win_rates(view: View) -> list[Markup]:
    """Everyone against everyone as a heat map, and every match in figures."""
    parts = [paragraph(notes.STOPPED)] if view.may_stop else []
    if len(view.order) > 2:
        parts += [_cross_table(view), _legend(len(view.comparisons))]
    return [*parts, _match_table(view), note(_how_tested(view))]


def _cross_table(view: View) -> Markup:
    head = [
        element(
            "th",
            element("b", f"{view.place[name]}"),
            element("span", short_label(view.labels[name]), class_="wide"),
            scope="col",
            title=view.labels[name],
        )
        for name in view.order
    ]
    lines = []
    for name in view.order:
        label = view.labels[name]
        row = element("th", element("b", f"{view.place[name]}"), " ", short_label(label), scope="row", title=label)
        lines.append(element("tr", row, [_cell(view, name, other) for other in view.order]))
    caption = "Win rate of the row's agent against the column's, with its 95 % interval"
    corner = element("th", "row wins against column", scope="col")
    inside = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", corner, head)),
        element("tbody", lines),
        class_="heat",
    )
    return scrolling(inside, caption)


def _cell(view: View, name: str, other: str) -> Markup:
    result = view.rate_against(name, other)
    if result is None:
        return element("td", "" if name == other else NOTHING, class_="none")
    estimate, clear = result
    return element(
        "td",
        element("b", f"{100 * estimate.value:.1f}", STAR if clear else None),
        " ",
        element("small", f"{100 * estimate.low:.1f}–"),
        element("small", f"{100 * estimate.high:.1f}"),
        title=f"{view.labels[name]} against {view.labels[other]}",
        **_shade(estimate.value),
    )


def _shade(value: float) -> dict[str, str]:
    """The attributes that give a rate its colour: as the root of the distance from one half, where most rates are."""
    share = 100 * math.sqrt(abs(2 * value - 1))
    return {"class_": "win" if value >= 0.5 else "loss", "style": f"--share: {share:.0f}%"}


def _legend(count: int) -> Markup:
    swatches = [element("span", f"{100 * share:.0f} %", **_shade(share)) for share in _LEGEND]
    text = f" In per cent of the games. {STAR} significant after correction for {count} comparisons."
    return element("p", swatches, text, class_="legend heat-legend")


def _match_table(view: View) -> Markup:
    adjusted = any(has_luck(one.summary) for one in view.matches)
    head = ["match (A – B)", "games", "A wins", *(["luck taken out"] if adjusted else []), "Elo",
            "won/split/lost", "clear" if view.may_stop else "p"]  # fmt: skip
    rows: list[list[Child]] = []
    for one, comparison in zip(view.matches, view.comparisons, strict=True):
        summary = one.summary
        estimate = view.rate(summary)
        difference = _as_elo(estimate) if view.may_stop else elo_difference(*summary.pair_outcomes)
        mark = STAR if comparison.clear else ""
        rows.append(
            [
                view.versus(summary),
                f"{summary.games:,}",
                rate(estimate),
                *([rate(summary.adjusted_win_rate)] if adjusted else []),
                figure(difference, 0),
                [element("span", f"{n:,}", class_="count") for n in summary.pair_outcomes],
                mark or "no" if view.may_stop else _p_value(comparison.p_value) + mark,
            ]
        )
    return table("Every match: how many of the games A won, and how many pairs it won, split and lost", head, rows)


def _how_tested(view: View) -> str:
    count = len(view.comparisons)
    if view.may_stop:
        test = f"the confidence sequence at 1 − 5 % / {count} leaves 50 % out, which holds whenever a match stops."
        text = notes.WIN_RATES_STOPPED + test
    else:
        text = notes.WIN_RATES + (f", adjusted for {count} comparisons after Holm." if count > 1 else ".")
    return text + (notes.LUCK_COLUMN if any(has_luck(one.summary) for one in view.matches) else "")


def has_luck(summary: MatchSummary) -> bool:
    """Whether there is a win rate with luck taken out."""
    return not math.isnan(summary.adjusted_win_rate.value)


def _as_elo(estimate: Estimate) -> Estimate:
    return Estimate(*(elo(min(1.0, max(0.0, one))) for one in estimate))


def _p_value(value: float) -> str:
    return "<\u00a00.0001" if value < 0.0001 else f"{value:.4f}"


def ratings(view: View) -> list[Markup]:
    """The ratings as bars."""
    rated = view.results.ratings
    if not rated:
        return [paragraph(notes.NO_RATINGS)]
    axis = axis_of_most([one.rating for one in rated], _LEAST_ELO)
    rows: list[tuple[Child, Estimate, Child]] = [
        (view.labels[one.name], one.rating, "0 (anchor)" if one.name == view.anchor else figure(one.rating, 0))
        for one in rated
    ]
    outside = any(not axis.low <= one.rating.value <= axis.high for one in rated)
    text = notes.RATINGS + (notes.RATINGS_OUTSIDE if outside else "")
    return [interval_list(rows, axis, 0.0, "Elo"), note(text + (notes.RATINGS_STOPPED if view.may_stop else ""))]
