"""The command ``cribbage analyse``: one word more says what.

An analysis is a module with ``add_arguments(parser)`` and ``run(args) -> int``, like a command, listed in
:data:`ANALYSES`. All of them are imported when ``cribbage analyse`` is called, so what is slow to import (torch,
matplotlib) is imported by the function that needs it.
"""

from __future__ import annotations

import argparse
import importlib
from dataclasses import dataclass


@dataclass(frozen=True)
class _Analysis:
    module: str
    summary: str
    example: str


ANALYSES = {
    "board": _Analysis(
        "experiments.analysis.board",
        "work out what every position of the board is worth, between two players like an agent",
        "cribbage analyse board expected --deals 1000000 --check 20 --output runs/board",
    ),
    "rules": _Analysis(
        "experiments.analysis.rules",
        "measure what each rule of the agent rule_based is worth",
        "cribbage analyse rules --games 20000 --opponent expected --seed 2",
    ),
    "weights": _Analysis(
        "experiments.analysis.weights",
        "search for the weights of the agent rule_based",
        "cribbage analyse weights --games 20000 --opponent expected --opponent rule_based --seed 1",
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add a subcommand for each analysis."""
    subparsers = parser.add_subparsers(dest="analysis", metavar="ANALYSIS", required=True)
    for name, known in ANALYSES.items():
        sub = subparsers.add_parser(
            name,
            help=known.summary.replace("%", "%%"),  # argparse formats what it shows
            description=(known.summary[0].upper() + known.summary[1:] + ".").replace("%", "%%"),
            epilog=f"example: {known.example}".replace("%", "%%"),
        )
        importlib.import_module(known.module).add_arguments(sub)


def run(args: argparse.Namespace) -> int:
    """Run the analysis that was asked for."""
    return int(importlib.import_module(ANALYSES[args.analysis].module).run(args))
