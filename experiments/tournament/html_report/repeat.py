"""The section on how the tournament is repeated: commands, config, versions, files."""

from __future__ import annotations

import yaml

from experiments.config import MADE_WITH
from experiments.tournament.html_report.markup import Child, Markup, element
from experiments.tournament.html_report.parts import portable, table
from experiments.tournament.html_report.view import View
from experiments.tournament.identity import noted_config

_COMMANDS = (
    "# the same games again\n"
    "cribbage tournament config.yaml --output FOLDER\n"
    "# this page and ratings.csv from them\n"
    "cribbage report FOLDER"
)
_NOT_VERSIONS = ("files", "results")  # what config.yaml notes beside them


def repeat(view: View) -> list[Markup]:
    """All that the games follow from. There is nothing of the machine in it: no folders of its own, no times."""
    config = yaml.safe_load(noted_config(view.config, {}))
    del config[MADE_WITH]
    for entrant in config["agents"]:
        entrant["spec"] = portable(entrant["spec"])
    config["modules"] = [portable(module) for module in config["modules"]]
    made = view.results.made
    versions: list[list[Child]] = [
        [name.replace("_", " "), _in_words(value)] for name, value in made.items() if name not in _NOT_VERSIONS
    ]
    parts = [
        _code(_COMMANDS),
        element("h3", "config.yaml"),
        _code(yaml.safe_dump(config, sort_keys=False, allow_unicode=True)),
        element("h3", "Versions"),
        table("What it was played with", ["what", "version"], versions, "versions"),
    ]
    files: list[list[Child]] = [
        [portable(name), element("code", digest)] for name, digest in made.get("files", {}).items()
    ]
    if files:
        heads = ["file", "SHA-256"]
        parts += [element("h3", "Files"), table("Checkpoints and modules that took part", heads, files, "versions")]
    return parts


def _code(text: str) -> Markup:
    return element("pre", element("code", text), tabindex="0")


def _in_words(value: object) -> str:
    return {"True": "yes", "False": "no"}.get(str(value), str(value))
