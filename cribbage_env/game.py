"""Game: the readable, event-logging view of one engine state, for people, notebooks, tests and user interfaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import Cards, card_text, cards_text, parse_card, parse_cards
from cribbage_env.engine import (
    BETWEEN,
    CARDS,
    COUNT,
    COUNT_BEGIN,
    CUT,
    DEAL,
    DEALER,
    DISCARD,
    FIRST_DEALER,
    FIRST_PLAY,
    FORFEIT,
    KEPT,
    LAID,
    LAID_CARDS,
    LEFT,
    MAX_EVENTS,
    NUM_ACTIONS,
    OVER,
    PAIRS,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STARTER,
    STATE_SIZE,
    THROWN,
    WINNER,
    State,
    apply,
    cut_for_deal,
    deal_fixed,
    deal_from_seed,
    forfeit,
    is_legal,
    new_game,
    rule_numbers,
    win_level,
)
from cribbage_env.events import Event, new_log, read_events
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.options import check_dealer, check_scores
from cribbage_env.rules import Rules
from cribbage_env.scoring import show_table
from cribbage_env.streams import check_seed, fresh_seed

PHASE_NAMES = {DISCARD: "discard", PLAY: "play", BETWEEN: "show", OVER: "over"}


class IllegalActionError(ValueError):
    """An action that the rules do not allow; the message names it and what was legal."""


class Game:
    """One game of six-card cribbage between seats 0 and 1.

    >>> game = Game(seed=7)
    >>> game.step(game.legal_actions()[0])

    Args:
        rules: target and skunk lines.
        seed: gives the decks (deal k's is a function of the seed and k alone); None draws one.
        dealer: the seat that deals first; None to cut for it (drawn from the seed).
        scores: what the seats have at the start, each below the target.
        decks: fixes the first deals: a sequence of decks of 13 cards each (pone's six, dealer's six, starter), as ints
            or text. Later deals come from the seed.

    Raises:
        ValueError, TypeError: an argument that is none of these, with its name and value.
    """

    def __init__(
        self,
        rules: Rules | None = None,
        seed: int | None = None,
        dealer: int | None = 0,
        scores: Sequence[int] = (0, 0),
        decks: Sequence[Cards] | None = None,
    ) -> None:
        self.rules = rules if rules is not None else Rules()
        if not isinstance(self.rules, Rules):
            raise TypeError(f"rules must be Rules, got {rules!r}")
        self.seed = fresh_seed() if seed is None else check_seed(seed)
        check_dealer(dealer)
        check_scores(scores, self.rules.target)
        self._decks = [self._parse_deck(deck, k) for k, deck in enumerate([] if decks is None else decks)]
        self._seed = np.uint64(self.seed)
        self._table = show_table()
        self._row: State = np.zeros(STATE_SIZE, np.int16)
        self._log = new_log(MAX_EVENTS)
        self.events: list[Event] = []
        """Everything that happened so far, in order."""
        self.actions: list[int] = []
        """The actions taken so far, in order."""
        self.decks: list[tuple[int, ...]] = []
        """The decks dealt so far: pone's six and the dealer's six, each sorted, and the starter, also before the cut.
        ``Game(rules, seed, first_dealer, start_scores, decks)`` with these is this game before its first action."""
        self.start_scores = int(scores[0]), int(scores[1])
        """What the seats had at the start."""
        first = cut_for_deal(self._seed) if dealer is None else dealer
        new_game(self._row, *rule_numbers(self.rules), first, *self.start_scores)
        self._deal()

    @classmethod
    def of_state(cls, row: State, seed: int, rules: Rules) -> Game:
        """A game that goes on from a copy of an engine state (without the events, actions and decks before it)."""
        game = cls(rules, seed)
        game._row[:] = row
        game.decks.clear()
        return game

    @staticmethod
    def _parse_deck(deck: Cards, k: int) -> State:
        try:
            cards = parse_cards(deck)
        except ValueError as error:
            raise ValueError(f"decks[{k}]: {error}") from None
        if len(cards) != 13:
            raise ValueError(f"decks[{k}] must have 13 cards (pone's six, dealer's six, starter), got {len(cards)}")
        return np.array(cards, np.int16)

    def _deal(self) -> None:
        next_deal = int(self._row[DEAL]) + 1
        if next_deal < len(self._decks):
            deal_fixed(self._row, self._decks[next_deal])
        else:
            deal_from_seed(self._row, self._seed)
        self.decks.append((*self.cards(self.pone), *self.cards(self.dealer), int(self._row[STARTER])))

    # What can be seen

    @property
    def phase(self) -> str:
        """``discard``, ``play`` or ``over``; ``show`` only in the view of an environment whose deal has ended."""
        return PHASE_NAMES[int(self._row[PHASE])]

    @property
    def player(self) -> int | None:
        """The seat to act; None when the game is over."""
        return None if self._row[PHASE] in (BETWEEN, OVER) else int(self._row[PLAYER])

    @property
    def dealer(self) -> int:
        """The seat that deals."""
        return int(self._row[DEALER])

    @property
    def pone(self) -> int:
        """The seat that doesn't deal."""
        return 1 - self.dealer

    @property
    def first_dealer(self) -> int:
        """The seat that dealt first."""
        return int(self._row[FIRST_DEALER])

    @property
    def fixed_decks(self) -> int:
        """How many of the first deals, of those dealt so far, had a deck that was given rather than the seed's."""
        return min(len(self._decks), len(self.decks))

    @property
    def deal(self) -> int:
        """The number of the present deal: 0, 1, ..."""
        return int(self._row[DEAL])

    @property
    def raw_scores(self) -> tuple[int, int]:
        """The scores of both seats; the last points may carry one beyond the target."""
        return int(self._row[SCORE]), int(self._row[SCORE + 1])

    @property
    def scores(self) -> tuple[int, int]:
        """The scores of both seats, at most the target."""
        first, second = self.raw_scores
        return min(first, self.rules.target), min(second, self.rules.target)

    @property
    def winner(self) -> int | None:
        """The seat that has won, or None."""
        return int(self._row[WINNER]) if self._row[WINNER] >= 0 else None

    @property
    def forfeited(self) -> int | None:
        """The seat that lost by an illegal action (see :meth:`forfeit`), or None."""
        return int(self._row[FORFEIT]) if self._row[FORFEIT] >= 0 else None

    @property
    def skunk(self) -> int:
        """Of a finished game: 1 if the loser was skunked, 2 if double skunked, otherwise 0."""
        return int(win_level(self._row)) if self.winner is not None else 0

    @property
    def starter(self) -> int | None:
        """The starter, None before the cut."""
        return int(self._row[STARTER]) if self._row[CUT] else None

    @property
    def count(self) -> int:
        """The present count of the play."""
        return int(self._row[COUNT])

    @property
    def stack(self) -> list[int]:
        """The cards of the present count, in order."""
        return self._columns(LAID_CARDS + int(self._row[COUNT_BEGIN]), LAID_CARDS + int(self._row[LAID]))

    @property
    def laid(self) -> list[int]:
        """All cards laid in this deal, in order."""
        return self._columns(LAID_CARDS, LAID_CARDS + int(self._row[LAID]))

    def cards(self, seat: int) -> list[int]:
        """The six cards that the seat was dealt, sorted."""
        return self._columns(CARDS + 6 * seat, CARDS + 6 * seat + 6)

    def kept(self, seat: int) -> list[int]:
        """The four cards that the seat kept, sorted; empty before its discard."""
        return self._columns(KEPT + 4 * seat, KEPT + 4 * seat + 4) if self._has_thrown(seat) else []

    def thrown(self, seat: int) -> list[int]:
        """The two cards that the seat threw into the crib, sorted; empty before its discard."""
        return self._columns(THROWN + 2 * seat, THROWN + 2 * seat + 2) if self._has_thrown(seat) else []

    def hand(self, seat: int) -> list[int]:
        """The cards that the seat holds now: six, the four kept, or those of them not laid yet."""
        if not self._has_thrown(seat):
            return self.cards(seat)
        left = int(self._row[LEFT + seat])
        return [card for slot, card in enumerate(self.kept(seat)) if left >> slot & 1]

    def _has_thrown(self, seat: int) -> bool:
        return bool(self._row[CUT]) or self._row[LEFT + seat] != 0

    def _columns(self, begin: int, end: int) -> list[int]:
        return [int(card) for card in self._row[begin:end]]

    def observation(self, seat: int | None = None) -> dict[str, NDArray[np.uint8] | NDArray[np.int8]]:
        """What the seat (the one to act, if None) knows: ``observation`` uint8 (D,), ``action_mask`` int8 (19,)."""
        viewer = int(self._row[PLAYER]) if seat is None else seat
        observation = np.zeros(OBSERVATION_SIZE, np.uint8)
        mask = np.zeros(NUM_ACTIONS, np.int8)
        write_observation(self._row, viewer, observation)
        write_mask(self._row, viewer, mask)
        return {"observation": observation, "action_mask": mask}

    def state(self) -> State:
        """A copy of the engine's row."""
        return self._row.copy()

    # What can be done

    def legal_actions(self) -> list[int]:
        """The legal actions (0..18) of the seat to act; none when the game is over."""
        return [action for action in range(NUM_ACTIONS) if is_legal(self._row, action)]

    def action_text(self, action: int) -> str:
        """An action of the seat to act in words: ``"discard 5H JC"``, ``"play 4H"``."""
        seat = int(self._row[PLAYER])
        if 0 <= action < FIRST_PLAY:
            return "discard " + cards_text(self.cards(seat)[place] for place in PAIRS[action])
        if FIRST_PLAY <= action < NUM_ACTIONS and self._has_thrown(seat):
            return "play " + card_text(self.kept(seat)[action - FIRST_PLAY])
        return f"action {action}"

    def step(self, action: int) -> list[Event]:
        """Take a legal action of the seat to act, and all that follows without a decision. Returns the new events.

        Raises:
            IllegalActionError: the game is over, or the action is not legal.
        """
        number = int(action)
        if self.phase == "over":
            raise IllegalActionError(f"action {action}: the game is over, seat {self.winner} has won")
        if self.player is None:
            raise IllegalActionError(f"action {action}: the deal is over")
        if not is_legal(self._row, number) or number != action:
            legal = ", ".join(f"{one} ({self.action_text(one)})" for one in self.legal_actions())
            raise IllegalActionError(
                f"{self.action_text(number)} (action {action}) is illegal for seat {self.player}; legal: {legal}"
            )
        before = self._row.copy()
        self._log[0, 0] = 0
        apply(self._table, self._row, number, self._log)
        new = read_events(before, self._log)
        self.events += new
        self.actions.append(number)
        if self._row[PHASE] == BETWEEN:
            self._deal()
        return new

    def forfeit(self) -> None:
        """End the game as lost by the seat to act, as the environments do after an illegal action.

        The other seat is given the points that it lacks; no event says so.

        Raises:
            IllegalActionError: nobody is to act.
        """
        if self.player is None:
            raise IllegalActionError("nobody is to act, so nobody can forfeit the game")
        forfeit(self._row, self.player)

    def discard(self, cards: Cards) -> list[Event]:
        """Throw two cards into the crib: ``discard("5H JC")``; see :meth:`step`."""
        two = parse_cards(cards)
        if self.phase != "discard":
            raise IllegalActionError(f"discard {cards_text(two)} is illegal: the phase is {self.phase!r}")
        held = self.cards(int(self._row[PLAYER]))
        if len(two) != 2 or not set(two) <= set(held):
            raise IllegalActionError(
                f"discard {cards_text(two)} is illegal for seat {self.player}; legal: two of {cards_text(held)}"
            )
        places = sorted(held.index(card) for card in two)
        return self.step(PAIRS.tolist().index(places))

    def play(self, card: str | int) -> list[Event]:
        """Lay a card: ``play("4H")``; see :meth:`step`."""
        one = parse_card(card)
        if self.phase != "play":
            raise IllegalActionError(f"play {card_text(one)} is illegal: the phase is {self.phase!r}")
        seat = int(self._row[PLAYER])
        kept = self.kept(seat)
        action = FIRST_PLAY + kept.index(one) if one in kept else -1
        if not is_legal(self._row, action):
            legal = ", ".join(self.action_text(legal_one) for legal_one in self.legal_actions())
            raise IllegalActionError(
                f"play {card_text(one)} is illegal for seat {seat} at a count of {self.count}; legal: {legal}"
            )
        return self.step(action)

    def __str__(self) -> str:
        target = self.rules.target
        lines = [f"Deal {self.deal + 1}, to {target}. {self.phase.capitalize()} phase."]
        for seat in (0, 1):
            role = "dealer" if seat == self.dealer else "pone"
            turn = "  <- to act" if seat == self.player else ""
            thrown = self.thrown(seat)
            crib = f" (threw {cards_text(thrown)})" if thrown else ""
            lines.append(
                f"  seat {seat} ({role:6}) {self.scores[seat]:3d}  {cards_text(self.hand(seat)):17}{crib}{turn}"
            )
        if self.starter is not None:
            lines.append(f"  starter {card_text(self.starter)}, count {self.count}: {cards_text(self.stack)}")
        if self.winner is not None:
            lines.append(f"  seat {self.winner} has won" + ("", " (skunk)", " (double skunk)")[self.skunk])
        return "\n".join(lines)

    def _repr_png_(self) -> bytes:
        """The picture that a notebook shows of a game, with all cards open; see :mod:`cribbage_env.render`."""
        from cribbage_env.render import png_bytes, render_image  # which imports Game

        return png_bytes(render_image(self))

    def __repr__(self) -> str:
        return f"Game(seed={self.seed}, deal={self.deal}, phase={self.phase!r}, scores={self.scores})"
