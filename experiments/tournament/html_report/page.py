"""The page around the sections."""

from __future__ import annotations

from importlib import resources

from experiments.tournament.html_report.markup import Markup, element
from experiments.tournament.html_report.results import TournamentResults
from experiments.tournament.html_report.sections import Sections

REPORT = "report.html"


def html_report(results: TournamentResults) -> str:
    """The report as the text of an HTML file."""
    sections = Sections(results)
    title = f"{results.config.name}: cribbage tournament"
    style = (resources.files(__package__) / "style.css").read_text(encoding="utf-8")
    parts = sections.all()
    links = [element("li", element("a", name, href=f"#{id_}")) for id_, name, _ in parts]
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", title),
        element("style", Markup(style)),  # ours, and without anything that ends it
    )
    body = element(
        "body",
        element("header", element("p", "Cribbage tournament", class_="kind"), element("h1", results.config.name),
                sections.head(), element("nav", element("ol", links), aria_label="Sections")),
        element(
            "main",
            [
                element("section", element("h2", f"{number}. {name}"), content, id=id_)
                for number, (id_, name, content) in enumerate(parts, 1)
            ],
        ),
    )  # fmt: skip
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"
