"""The rule cases of data/cases, as rows, for the reference and for the engine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reference import parse_card

CASES = Path(__file__).parent / "data" / "cases"
Row = dict[str, Any]


def rows_of(name: str) -> list[Row]:
    """All rows of a file."""
    lines = (CASES / name).read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.strip()]
    assert rows
    return rows


def id_of(row: Row) -> str:
    """The name of a case, for pytest."""
    return str(row["id"])


def parse(texts: Sequence[str]) -> list[int]:
    """Cards as ints."""
    return [parse_card(text) for text in texts]


def by_seat(names: Row, pone: int) -> tuple[Any, Any]:
    """The values for pone and dealer of a case, by seat."""
    return (names["pone"], names["dealer"]) if pone == 0 else (names["dealer"], names["pone"])


def play_points(row: Row) -> dict[str, int]:
    """The points of a row of peg_stack_cases.jsonl by kind."""
    names = {"fifteen": "fifteen", "thirtyone": "thirty_one", "pair": "pair", "royal": "pair"}
    points = {"fifteen": 0, "thirty_one": 0, "pair": 0, "run": 0, "total": row["points"]}
    for part, value in row["parts"]:
        points[names.get(part.removeprefix("double_"), "run")] += value
    return points


def deck_for_play(pone: Sequence[int], dealer: Sequence[int]) -> list[int]:
    """A deck with which the two can keep these four cards each; its starter is no jack."""
    unused = [card for card in range(52) if card not in (*pone, *dealer)]
    return [*pone, *unused[:2], *dealer, *unused[2:4], unused[4]]


def deck_of_game(row: Row) -> list[int]:
    """The deck of a row of game_cases.jsonl."""
    return parse([*row["pone"], *row["pone_discard"], *row["dealer"], *row["dealer_discard"], row["starter"]])
