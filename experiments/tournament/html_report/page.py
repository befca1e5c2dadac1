"""The page: its head, the sections in the order in which they are read, and what is around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import resources

from experiments.tournament.html_report.certainty import course, luck
from experiments.tournament.html_report.games import differences, first_dealer, points, skunks
from experiments.tournament.html_report.heading import heading
from experiments.tournament.html_report.markup import Markup, element
from experiments.tournament.html_report.repeat import repeat
from experiments.tournament.html_report.results import TournamentResults
from experiments.tournament.html_report.strength import ratings, win_rates
from experiments.tournament.html_report.view import View

REPORT = "report.html"

_SECTIONS: tuple[tuple[str, str, Callable[[View], Sequence[Markup]]], ...] = (
    ("win-rates", "Win rates", win_rates),
    ("ratings", "Ratings", ratings),
    ("points", "Points a deal", points),
    ("differences", "Score differences", differences),
    ("course", "Win rate over games played", course),
    ("first-dealer", "First dealer", first_dealer),
    ("skunks", "Skunks and length of games", skunks),
    ("luck", "Luck, early stops, forfeits", luck),
    ("repeat", "How to repeat it", repeat),
)


def html_report(results: TournamentResults) -> str:
    """The report as the text of an HTML file."""
    view = View(results)
    name = results.config.name
    style = (resources.files(__package__) / "style.css").read_text(encoding="utf-8")
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{name}: cribbage tournament"),
        element("style", Markup(style)),  # ours, and without anything that would end it
    )
    links = [element("li", element("a", title, href=f"#{anchor}")) for anchor, title, _ in _SECTIONS]
    top = element(
        "header",
        element("p", "Cribbage tournament", class_="kind"),
        element("h1", name),
        heading(view),
        element("nav", element("ol", links), aria_label="Sections"),
    )
    sections = [
        element("section", element("h2", f"{number}. {title}"), content(view), id=anchor)
        for number, (anchor, title, content) in enumerate(_SECTIONS, 1)
    ]
    return f"<!DOCTYPE html>\n{element('html', head, element('body', top, element('main', sections)), lang='en')}\n"
