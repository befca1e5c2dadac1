"""The engine driven by hand: one row and its log, without what :class:`cribbage_env.Game` adds, for tests of volume."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cribbage_env.engine import (
    BETWEEN,
    CARDS,
    DEAL,
    DEALER,
    EVENT_KINDS,
    EVENT_SIZE,
    NUM_ACTIONS,
    OVER,
    PHASE,
    PLAYER,
    STARTER,
    STATE_SIZE,
    apply,
    deal_fixed,
    deal_from_seed,
    new_game,
)
from cribbage_env.observation import write_mask
from cribbage_env.scoring import show_table

DeckOf = Callable[[int], Sequence[int]]
LogEntry = tuple[str, int, int, int, int, tuple[int, int]]
"""Kind, player, points, count, the card laid (-1 for other kinds), raw scores after: the reference's ``Event``."""

MAX_LOG = 4000  # events: a game has at most a few hundred


class RowGame:
    """A game on given decks; ``deck_of(deal)`` has 13 cards: pone's six, the dealer's six, the starter."""

    def __init__(self, deck_of: DeckOf, dealer: int = 0, scores: tuple[int, int] = (0, 0), target: int = 121) -> None:
        self.row = np.zeros(STATE_SIZE, np.int16)
        self.log = np.zeros((1 + MAX_LOG, EVENT_SIZE), np.int16)
        self._deck_of = deck_of
        self._mask = np.zeros(NUM_ACTIONS, np.int8)
        self._table = show_table()
        new_game(self.row, target, 0, 0, dealer, *scores)
        self._deal()

    def _deal(self) -> None:
        deck_ints = self._deck_of(int(self.row[DEAL]) + 1)
        deal_fixed(self.row, np.array(deck_ints, np.int16))

    def legal_actions(self) -> list[int]:
        """The legal actions of the seat to act."""
        write_mask(self.row, int(self.row[PLAYER]), self._mask)
        actions: list[int] = self._mask.nonzero()[0].tolist()
        return actions

    def step(self, action: int) -> None:
        """Take an action, and deal again after the show."""
        apply(self._table, self.row, action, self.log)
        if self.row[PHASE] == BETWEEN:
            self._deal()

    @property
    def over(self) -> bool:
        """Whether somebody has won."""
        return bool(self.row[PHASE] == OVER)

    def num_events(self) -> int:
        """How many events the log has."""
        return int(self.log[0, 0])

    def events(self, begin: int = 0) -> list[LogEntry]:
        """The events from the given number on."""
        return [
            (EVENT_KINDS[kind], player, points, count, card if EVENT_KINDS[kind] == "card" else -1, (raw_0, raw_1))
            for kind, player, points, count, card, raw_0, raw_1 in self.log[1 + begin : 1 + self.num_events()].tolist()
        ]


def seed_deck(seed: int, deal: int) -> list[int]:
    """The 13 cards that the engine deals from a seed: pone's six (sorted), the dealer's six (sorted), the starter."""
    row = np.zeros(STATE_SIZE, np.int16)
    new_game(row, 121, 0, 0, 0, 0, 0)
    row[DEAL] = deal - 1
    deal_from_seed(row, np.uint64(seed))
    dealer = int(row[DEALER])
    cards = row[CARDS : CARDS + 12].reshape(2, 6)
    return [int(card) for card in (*cards[1 - dealer], *cards[dealer], row[STARTER])]
