"""Cards as text and as ints."""

from __future__ import annotations

import re

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from cribbage_env import card_text, cards_text, parse_card, parse_cards


def test_text_and_back() -> None:
    assert [parse_card(card_text(card)) for card in range(52)] == list(range(52))
    assert [card_text(card) for card in range(52)] == [reference.card_text(card) for card in range(52)]


@given(st.lists(st.integers(0, 51), unique=True), st.sampled_from([" ", ",", ", ", "\n", "  "]), st.randoms())
def test_many_cards_and_back(cards: list[int], between: str, rng: object) -> None:
    text = between.join(card_text(card) for card in cards)
    assert parse_cards(text) == cards
    assert parse_cards(text.lower().replace("t", "10")) == cards
    assert parse_cards(cards_text(cards)) == cards
    assert parse_cards(cards) == parse_cards(np.array(cards, np.int16)) == parse_cards(iter(cards)) == cards
    assert parse_cards([rng.choice([card, card_text(card)]) for card in cards]) == cards  # type: ignore[attr-defined]


def test_one_card_for_several() -> None:
    assert parse_cards(7) == parse_cards("2S") == [7]
    assert parse_cards("") == []


@pytest.mark.parametrize(
    "card", ["", "5", "5X", "1H", "H5", "5HH", "100H", "11H", "5 H", -1, 52, 5.0, True, None, b"5H"]
)
def test_no_card(card: object) -> None:
    with pytest.raises(ValueError, match="card"):
        parse_card(card)  # type: ignore[arg-type]


def test_the_error_names_the_card() -> None:
    with pytest.raises(ValueError, match="'5X'"):
        parse_cards("5H 5X")
    with pytest.raises(ValueError, match=re.escape("5H comes twice in 5H 6H 5H")):
        parse_cards("5H 6H 5H")
    for card in (-1, 52):
        with pytest.raises(ValueError, match=f"0 to 51, got {card}"):
            card_text(card)
