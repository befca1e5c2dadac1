"""Exact hand averages against counting every starter, published averages and published best discards."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from reference import show_score

from agents import AgentError
from agents.discards import crib_table, expected_discard_values, hand_average
from cribbage_env.cards import RANKS, parse_cards
from cribbage_env.engine import PAIRS

CASES = Path(__file__).parent.parent / "data" / "cases"
PLACES = list(itertools.combinations(range(6), 2))


def cases(name: str) -> list[dict]:
    return [json.loads(line) for line in (CASES / name).read_text().splitlines()]


def brute_force(six: list[int], thrown: tuple[int, int]) -> float:
    kept = [card for place, card in enumerate(six) if place not in thrown]
    starters = [card for card in range(52) if card not in six]
    return sum(show_score(kept, starter)["total"] for starter in starters) / len(starters)


def test_hand_averages_equal_counting_every_starter() -> None:
    rng = np.random.default_rng(1)
    hands = np.sort([rng.choice(52, 6, replace=False) for _ in range(25)], axis=1).astype(np.uint8)
    hands[0] = parse_cards("2H 5H 8H JH QH KH")  # flushes and nobs
    hands[1] = np.sort(parse_cards("JC JD JH JS 5H 5C"))
    for dealer in (False, True):
        values = expected_discard_values(hands, np.full(len(hands), dealer))
        for hand, row in zip(hands, values, strict=True):
            six = [int(card) for card in hand]
            for action, (i, j) in enumerate(PLACES):
                crib = crib_table("schell")[int(dealer), six[i] // 4, six[j] // 4]
                exact = brute_force(six, (i, j)) + (crib if dealer else -crib)
                assert row[action] == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("case", cases("hand_average_cases.jsonl"), ids=lambda case: " ".join(case["keep"]))
def test_published_hand_averages(case: dict) -> None:
    average = hand_average(" ".join(case["keep"]), " ".join(case["known_dead"]))
    assert average == pytest.approx(case["sum_over_starters"] / case["starters"], abs=1e-12)
    assert average == pytest.approx(case["published"], abs=0.006)


@pytest.mark.parametrize("case", cases("discard_cases.jsonl"), ids=lambda case: " ".join(case["hand"]))
def test_published_best_discards(case: dict) -> None:
    six = sorted(parse_cards(" ".join(case["hand"])))
    crib = "hessel" if "Hessel" in case["value_is"] else "schell"
    values = expected_discard_values(np.array([six], np.uint8), np.array([case["dealer"]]), crib)[0]
    thrown = [six[place] for place in PAIRS[int(values.argmax())]]
    assert thrown == sorted(parse_cards(" ".join(case["best"])))
    if case["value"] is not None:
        assert values.max() == pytest.approx(case["value"], abs=0.006)


def test_crib_tables() -> None:
    schell = crib_table("schell")
    five, ace, king = RANKS.index("5"), RANKS.index("A"), RANKS.index("K")
    assert schell[1, ace, ace] == 5.38
    assert schell[0, ace, ace] == 6.02
    assert schell[1, five, five] == schell[1].max()
    assert schell[1, ace, king] == schell[1, king, ace] == 3.41
    with pytest.raises(AgentError, match="schell, hessel, colvert, rasmussen"):
        crib_table("shell")


def test_hand_average_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="four cards"):
        hand_average("5H 5C 5S")
    with pytest.raises(ValueError, match="twice"):
        hand_average("5H 5C 5S JD", "JD")
