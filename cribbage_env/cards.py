"""Cards: an int 0..51 = 4 * rank + suit. Ranks 0 (ace) to 12 (king); suits 0..3 = clubs, diamonds, hearts, spades."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

RANKS = "A23456789TJQK"
SUITS = "CDHS"
NUM_CARDS = 52
NUM_RANKS = 13
NO_CARD = 52  # stands for "no card" or "not known" wherever a card is expected
JACK = 10  # the rank of heels and nobs

Cards = str | int | Iterable["str | int"]
"""What functions take for a set of cards: text such as ``"5H 5C JD"``, or an iterable of ints or texts."""


def card_text(card: int) -> str:
    """``card_text(18)`` is ``"5H"``."""
    if not 0 <= card < NUM_CARDS:
        raise ValueError(f"a card is an int from 0 to 51, got {card}")
    return RANKS[card // 4] + SUITS[card % 4]


def cards_text(cards: Iterable[int]) -> str:
    """Several cards as text, with blanks between them: ``"5H JC"``."""
    return " ".join(card_text(int(card)) for card in cards)


def parse_card(card: str | int) -> int:
    """A card as an int 0..51, from an int or from text (``"5H"``, ``"th"``, ``"10H"``). ValueError if it is none."""
    if isinstance(card, int | np.integer) and not isinstance(card, bool):
        if not 0 <= card < NUM_CARDS:
            raise ValueError(f"a card is an int from 0 to 51, got {card}")
        return int(card)
    if isinstance(card, str):
        text = card.strip().upper()
        if len(text) == 3 and text.startswith("10"):
            text = "T" + text[2]
        if len(text) == 2 and text[0] in RANKS and text[1] in SUITS:
            return 4 * RANKS.index(text[0]) + SUITS.index(text[1])
    raise ValueError(f"not a card: {card!r} (rank {RANKS} and suit {SUITS}, such as '5H')")


def parse_cards(cards: Cards) -> list[int]:
    """Cards as ints, in the order given, from text (split at blanks and commas) or from ints and texts.

    Raises ValueError when something is not a card or a card comes twice.
    """
    if isinstance(cards, str):
        parts: list[str | int] = list(filter(None, re.split(r"[\s,]+", cards)))
    elif isinstance(cards, int | np.integer):
        parts = [int(cards)]
    else:
        parts = list(cards)
    parsed = [parse_card(part) for part in parts]
    if len(set(parsed)) != len(parsed):
        twice = next(card for card in parsed if parsed.count(card) > 1)
        raise ValueError(f"the card {card_text(twice)} comes twice in {cards_text(parsed)}")
    return parsed
