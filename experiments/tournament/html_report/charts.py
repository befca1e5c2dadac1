"""Charts as SVG. There is no drawing library behind them, so that they stay small, take the page's colours (also its
dark ones), and have text that a phone shows in full size: two kinds of them.

Rows (bars, intervals) have no text inside and stretch to any width: their coordinates are percentages. Names and
numbers stand beside them as text of the page, which wraps. Panels (curves, histograms) have axes with text; they are
drawn for a width of about 340 pixels, so that a phone shows one beside nothing, and a desktop three side by side.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.tournament.html_report.course import MatchCourse
from experiments.tournament.html_report.markup import Markup, element, number
from experiments.tournament.statistics import ConfidenceSequence, Estimate

_WIDTH, _HEIGHT = 340.0, 190.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 44.0, 10.0, 12.0, 38.0
_LEAST_BINS = 4  # of a histogram, on each side


@dataclass(frozen=True)
class Axis:
    """A linear scale from ``low`` to ``high``."""

    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies, 0 at the beginning and 1 at the end; what lies outside is put on the edge."""
        return (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers on it, at most ``most``."""
        rough = (self.high - self.low) / most
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(step * power for step in (1, 2, 5, 10) if step * power >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        return [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]


def axis_around(values: Sequence[float], least: float, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Axis:
    """An axis for values, some of which may be infinite or NaN: with a margin, at least so long, within bounds."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(finite), max(finite)
    margin = max(0.04 * (high - low), (least - (high - low)) / 2)
    return Axis(max(bounds[0], low - margin), min(bounds[1], high + margin))


def axis_of_most(estimates: Sequence[Estimate], least: float) -> Axis:
    """An axis for estimates with which the most can be told apart.

    Up to a third of them are left outside, where the gap between their intervals and the others' would take half of it.
    """
    ranked = sorted(estimates)
    for _ in range(len(ranked) // 3):
        length = ranked[-1].high - ranked[0].low
        if ranked[1].low - ranked[0].high > length / 2:
            del ranked[0]
        elif ranked[-1].low - ranked[-2].high > length / 2:
            del ranked[-1]
    return axis_around([value for estimate in ranked for value in estimate], least)


# Rows


def interval_row(estimate: Estimate, axis: Axis, reference: float | None = None) -> Markup:
    """A dot with its confidence interval, an arrow in its place if it lies outside; without a value nothing is drawn.

    An interval that is infinite reaches the edge.
    """
    inside: list[Markup] = []
    if reference is not None and axis.low <= reference <= axis.high:
        at = _percent(axis, reference)
        inside.append(element("line", class_="reference", x1=at, x2=at, y1="0", y2="100%"))
    if not math.isnan(estimate.low):
        low, high = _percent(axis, estimate.low), _percent(axis, estimate.high)
        inside.append(element("line", class_="whisker", x1=low, x2=high, y1="50%", y2="50%"))
        for end, at in ((estimate.low, low), (estimate.high, high)):
            if axis.low <= end <= axis.high:
                inside.append(element("line", class_="whisker", x1=at, x2=at, y1="28%", y2="72%"))
    if estimate.value < axis.low or estimate.value > axis.high:
        before = estimate.value < axis.low
        at, anchor = ("0", "start") if before else ("100%", "end")
        inside = [
            *inside[:1],
            element("text", "◀" if before else "▶", class_="outside", x=at, y="50%", text_anchor=anchor),
        ]
    elif not math.isnan(estimate.value):
        inside.append(element("circle", class_="dot", cx=_percent(axis, estimate.value), cy="50%", r="4.5"))
    return element("svg", inside, class_="row", aria_hidden="true")


def stacked_row(parts: Sequence[tuple[str, str, float]], longest: float) -> Markup:
    """Parts of a sum, one after the other: (name, class, value), to the scale of a row of length ``longest``."""
    inside: list[Markup] = []
    start = 0.0
    for name, class_, value in parts:
        if not value > 0:
            continue
        share = value / longest
        title = element("title", f"{name} {value:.2f}")
        at = f"{number(100 * start)}%"
        inside.append(
            element("rect", title, class_=class_, x=at, width=f"{number(100 * share)}%", y="0", height="100%")
        )
        if share > 0.11:  # there is room for it, also on a phone
            middle = f"{number(100 * (start + share / 2))}%"
            inside.append(element("text", f"{value:.2f}", x=middle, y="50%", class_="in-bar"))
        start += share
    return element("svg", inside, class_="row", aria_hidden="true")


def axis_row(axis: Axis, label: Callable[[float], str]) -> Markup:
    """The ticks below rows."""
    inside = []
    for tick in axis.ticks():
        at = _percent(axis, tick)
        inside.append(element("line", class_="axis", x1=at, x2=at, y1="0", y2="4"))
        inside.append(element("text", label(tick), x=at, y="16", text_anchor="middle"))
    return element("svg", element("line", class_="axis", x1="0", x2="100%", y1="0", y2="0"), inside, class_="ticks",
                   aria_hidden="true")  # fmt: skip


def _percent(axis: Axis, value: float) -> str:
    return f"{number(100 * axis.share(value))}%"


# Panels


def win_rate_panel(course: ConfidenceSequence, final: Estimate, title: str) -> Markup:
    """The win rate over the games played with its confidence sequence, and at the end the interval for that number.

    The number of games is on a logarithmic scale, which ends with all of them and begins with a 300th.

    Args:
        course: by pairs.
        final: the win rate with its interval for a number of games that was fixed before.
        title: what the panel shows, for who can't see it.
    """
    games = 2.0 * course.pairs
    shown = np.flatnonzero(games >= games[-1] / 300)
    late = shown[games[shown] >= games[-1] / 10]
    ends = [*course.low[late], *course.high[late], final.low, final.high, 0.5]
    far = 0.35  # where one half lies far away the axis is not stretched for it
    if abs(final.value - 0.5) > far:
        ends.pop()
    y_axis = axis_around(ends, 0.04, (0.0, 1.0))
    x_axis = Axis(math.log(games[shown[0]] * 0.98), math.log(games[-1] * 1.02))

    def x(value: float) -> float:
        return _LEFT + (_WIDTH - _LEFT - _RIGHT) * x_axis.share(math.log(value))

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * y_axis.share(value)

    across = [x(value) for value in games[shown]]
    upper = _points(across, [y(value) for value in course.high[shown]])
    lower = _points(across, [y(value) for value in course.low[shown]])
    line = _points(across, [y(value) for value in course.rate[shown]])
    inside = [*_y_axis(y_axis, y, lambda tick: f"{number(100 * tick)} %")]
    for tick in _log_ticks(games[shown[0]], games[-1]):
        inside += _x_tick(x(tick), f"{tick:,.0f}")
    inside.append(element("path", class_="band", d=f"M{'L'.join(upper + lower[::-1])}Z"))
    if y_axis.low <= 0.5 <= y_axis.high:
        inside.append(element("line", class_="reference", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y(0.5), y2=y(0.5)))
    inside.append(element("path", class_="curve", d=f"M{'L'.join(line)}"))
    end = across[-1]
    inside.append(element("line", class_="whisker", x1=end, x2=end, y1=y(final.low), y2=y(final.high)))
    inside.append(element("circle", class_="dot", cx=end, cy=y(final.value), r=3.5))
    return _panel(title, inside, "games played")


def difference_panel(course: MatchCourse, skunk_lines: Sequence[int | None], title: str) -> Markup:
    """The histogram of score differences: left the games that B won, right those that A won.

    Args:
        course: with the differences.
        skunk_lines: a loser below such a score is skunked, or double skunked; those games are hatched ever darker.
        title: what the panel shows, for who can't see it.
    """
    target = course.target
    width = bin_width(target)
    shares = difference_shares(course, width)
    reach = np.flatnonzero(shares + shares[::-1])
    bins = max(_LEAST_BINS, len(shares) // 2 - int(reach[0]) if len(reach) else 0)  # shown on each side
    bins = min(bins, len(shares) // 2)
    shares = shares[len(shares) // 2 - bins : len(shares) // 2 + bins]
    y_axis = Axis(0.0, max(0.01, 1.08 * float(shares.max())))
    step = (_WIDTH - _LEFT - _RIGHT) / (2 * bins)
    base = _HEIGHT - _BOTTOM

    def y(value: float) -> float:
        return base - (base - _TOP) * y_axis.share(value)

    def x(difference: float) -> float:
        return _LEFT + step * (bins + difference / width)

    inside = [*_y_axis(y_axis, y, lambda tick: f"{number(100 * tick)} %")]
    for at, share in enumerate(shares):
        k = at - bins  # the bin of k * width + 1 to (k + 1) * width points for A, or the mirror image of one
        nearest = (k if k >= 0 else -k - 1) * width + 1
        who = "a" if k >= 0 else "b"
        level = sum(line is not None and target - nearest < line for line in skunk_lines)
        words = f"{'A' if k >= 0 else 'B'} won by {nearest} to {nearest + width - 1}: {100 * share:.1f} %"
        inside.append(
            element("rect", element("title", words), class_=f"win-{who} level-{level}", x=_LEFT + step * at + 0.5,
                    width=step - 1, y=y(share), height=max(0.0, base - y(share)))
        )  # fmt: skip
    inside.append(element("line", class_="reference", x1=x(0), x2=x(0), y1=_TOP, y2=base))
    edge = min(target, bins * width)
    tick_step = next(step for step in (1, 2, 5, 10, 30, 60) if edge / step <= 4.5)
    for tick in range(-(edge // tick_step) * tick_step, edge + 1, tick_step):
        inside += _x_tick(x(tick), f"{abs(tick)}")
    return _panel(title, inside, "← B wins by points · A wins by points →")


def bin_width(target: int) -> int:
    """Of the histogram: ten points in a game to 121, so that the usual skunk lines are edges of bins."""
    return next(width for width in (1, 2, 5, 10, 20) if target / width <= 13)


def difference_shares(course: MatchCourse, width: int) -> NDArray[np.float64]:
    """The share of games in each bin: from B's largest wins, nobody at zero, to A's."""
    target = course.target
    bins = -(-target // width)
    sides = np.zeros((2, bins * width))
    sides[0, :target] = course.differences[target + 1 :]  # A won by 1, 2, ...
    sides[1, :target] = course.differences[:target][::-1]
    counts = sides.reshape(2, bins, width).sum(axis=2)
    return np.asarray(np.concatenate([counts[1, ::-1], counts[0]]) / max(1.0, counts.sum()))


def _panel(title: str, inside: Sequence[Markup], below: str) -> Markup:
    label = element("text", below, x=(_LEFT + _WIDTH - _RIGHT) / 2, y=_HEIGHT - 6, text_anchor="middle")
    view = f"0 0 {number(_WIDTH)} {number(_HEIGHT)}"
    return element("svg", inside, label, class_="panel", viewBox=view, role="img", aria_label=title)


def _y_axis(axis: Axis, y: Callable[[float], float], label: Callable[[float], str]) -> list[Markup]:
    inside = []
    for tick in axis.ticks(5):
        at = y(tick)
        inside.append(element("line", class_="grid", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=at, y2=at))
        inside.append(element("text", label(tick), x=_LEFT - 5, y=at + 4, text_anchor="end"))
    return inside


def _x_tick(at: float, label: str) -> list[Markup]:
    base = _HEIGHT - _BOTTOM
    return [
        element("line", class_="axis", x1=at, x2=at, y1=base, y2=base + 4),
        element("text", label, x=min(at, _WIDTH - 4 - 3.2 * len(label)), y=base + 16, text_anchor="middle"),
    ]


def _log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten in a range; with fewer than two of them also their double and fivefold; the ends, without any."""
    powers = [10.0**k for k in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    for factors in ((1,), (1, 3), (1, 2, 5)):
        ticks = [power * factor for power in powers for factor in factors if low <= power * factor <= high]
        if len(ticks) >= 2:
            return ticks
    return sorted({low, high})


def _points(xs: Sequence[float], ys: Sequence[float]) -> list[str]:
    """Points of a path, to a tenth of a pixel."""
    return [f"{x:.1f} {y:.1f}" for x, y in zip(xs, ys, strict=True)]
