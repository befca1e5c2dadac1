"""What the report's sections are put together from: names, figures, tables, lists of rows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import PureWindowsPath

from experiments.tournament.html_report.charts import Axis, axis_row, interval_row
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.statistics import Estimate

NOTHING = "–"
_BREAKS = ":=,_/ "  # a name is broken after these
_LONGEST_HEADING = 28


def portable(text: str) -> str:
    """A spec or path without folders of the machine that it was used on: of absolute paths only the last two parts."""
    return "".join(
        f"…/{'/'.join(PureWindowsPath(part).parts[-2:])}" if re.match(r"~?/.*/", part) else part
        for part in re.split(r"([:=,])", text)
    )


def labels(names: Sequence[str]) -> dict[str, str]:
    """How agents are called in the report: by their names, those that are absolute paths shortened if that is clear."""
    short = [portable(name) for name in names]
    return {name: one if short.count(one) == 1 else name for name, one in zip(names, short, strict=True)}


def short_label(name: str) -> list[Child]:
    """A name for the head of a narrow column: its end, which tells more of a path or a spec, with places to break."""
    return breakable(name if len(name) <= _LONGEST_HEADING else "…" + name[1 - _LONGEST_HEADING :])


def breakable(name: str) -> list[Child]:
    """A name with places at which a line may end."""
    return [[part, element("wbr")] if part in _BREAKS else part for part in re.split(f"([{_BREAKS}])", name) if part]


def versus(a: str, b: str) -> Markup:
    """Two names, A's first."""
    return element("span", breakable(a), " – ", breakable(b), class_="names")


def percent(value: float, decimals: int = 1) -> str:
    """A rate, such as ``63.8 %``."""
    return NOTHING if math.isnan(value) else f"{100 * value:.{decimals}f} %"


def plain(value: float, decimals: int = 2) -> str:
    """A number with so many decimals, infinity included."""
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{decimals}f}".replace("-", "−")
    return text.removeprefix("−") if float(text.replace("−", "-")) == 0 else text


def rate(estimate: Estimate) -> Markup:
    """A rate with its interval, such as ``63.8 % [63.4, 64.2]``."""
    ends = [plain(100 * end, 1) for end in (estimate.low, estimate.high)]
    return _with_interval(percent(estimate.value), ends, estimate)


def figure(estimate: Estimate, decimals: int = 2) -> Markup:
    """A value with its interval, such as ``9.04 [9.01, 9.07]``."""
    ends = [plain(end, decimals) for end in (estimate.low, estimate.high)]
    return _with_interval(plain(estimate.value, decimals), ends, estimate)


def interval(estimate: Estimate) -> Markup:
    """The interval of a rate alone, such as ``[63.4, 64.2]``."""
    return element("small", f"[{plain(100 * estimate.low, 1)}, {plain(100 * estimate.high, 1)}]")


def _with_interval(value: str, ends: Sequence[str], estimate: Estimate) -> Markup:
    if math.isnan(estimate.low):
        return element("span", value, class_="figure")
    return element("span", value, " ", element("small", f"[{', '.join(ends)}]"), class_="figure")


def mean(estimate: Estimate) -> Markup:
    """A mean with half its interval, such as ``9.04 ±0.03``."""
    if math.isnan(estimate.low):
        return element("span", plain(estimate.value), class_="figure")
    half = f"±{(estimate.high - estimate.low) / 2:.2f}"
    return element("span", plain(estimate.value), " ", element("small", half), class_="figure")


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[Child]], class_: str | None = "folds") -> Markup:
    """A table whose first column has the rows' names.

    On a phone a row is folded: its name is a line, and below it stand the cells with the columns' names, which they
    carry for that. With another class it is not, and scrolls if it is wider than the page.
    """
    heads = [element("th", one, scope="col") for one in head]
    lines = [
        element(
            "tr",
            element("th", row[0], scope="row"),
            [element("td", cell, data_label=name) for name, cell in zip(head[1:], row[1:], strict=True)],
        )
        for row in rows
    ]
    inside = element("table", element("caption", caption), element("thead", element("tr", heads)),
                     element("tbody", lines), class_=class_)  # fmt: skip
    return scrolling(inside, caption)


def scrolling(inside: Markup, label: str) -> Markup:
    """What may be wider than the page, in a frame of its own that also the keyboard scrolls."""
    return element("div", inside, class_="scroll", tabindex="0", role="region", aria_label=label)


def interval_list(
    rows: Sequence[tuple[Child, Estimate, Child]], axis: Axis, reference: float | None, unit: str
) -> Markup:
    """Rows of a name, an interval as a picture and in figures, with an axis below."""
    items = [
        element("li", element("span", name, class_="name"), interval_row(estimate, axis, reference),
                element("span", text, class_="value"))
        for name, estimate, text in rows
    ]  # fmt: skip
    digits = 0 if axis.ticks()[-1] - axis.ticks()[0] >= 0.04 else 1

    def label(tick: float) -> str:
        return percent(tick, digits) if unit == "%" else plain(tick, 0)

    ticks = element("div", axis_row(axis, label), class_="axis-of-rows")
    return element("div", element("ul", items, class_="rows"), ticks)


def details(summary: str, inside: Child) -> Markup:
    """Something to be opened."""
    return element("details", element("summary", summary), inside)


def paragraph(text: Child) -> Markup:
    """A paragraph."""
    return element("p", text)


def note(text: Child) -> Markup:
    """A paragraph about how figures are to be read."""
    return element("p", text, class_="note")
