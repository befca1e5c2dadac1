"""A plain reference of the rules of six-card two-player cribbage.

It is written to be read beside the rules, not to be fast, and shares no code with the engine it is compared
with.  A card is an int 0..51, 4 * rank + suit, with rank 0 = ace .. 12 = king and the suits C, D, H, S.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

RANKS = "A23456789TJQK"
SUITS = "CDHS"
JACK = RANKS.index("J")
LIMIT = 31

FIRST_PLAY_ACTION = 15
DISCARD_PAIRS = list(combinations(range(6), 2))  # lexicographic: (0, 1), (0, 2), .. (4, 5)


def parse_card(text: str) -> int:
    """The card of a text such as `TD` (rank, then suit)."""
    if len(text) != 2:
        raise ValueError(f"{text!r} is not a card")
    return 4 * RANKS.index(text[0]) + SUITS.index(text[1])


def card_text(card: int) -> str:
    """The text of a card, such as `TD`."""
    return RANKS[rank_of(card)] + SUITS[suit_of(card)]


def rank_of(card: int) -> int:
    """0 for an ace .. 12 for a king."""
    return card // 4


def suit_of(card: int) -> int:
    """0..3 for clubs, diamonds, hearts, spades."""
    return card % 4


def value_of(card: int) -> int:
    """What a card counts: an ace 1, a face card 10, any other its number."""
    return min(rank_of(card) + 1, 10)


def is_run(ranks: Iterable[int]) -> bool:
    """Whether the ranks, in any order, follow one another without a gap or a repeat."""
    in_order = sorted(ranks)
    return in_order == list(range(in_order[0], in_order[0] + len(in_order)))


# --- The show ---------------------------------------------------------------------------------------------


def fifteens(ranks: Sequence[int]) -> int:
    """2 for every different set of cards that counts 15."""
    values = [min(rank + 1, 10) for rank in ranks]
    sets = [chosen for size in range(2, len(values) + 1) for chosen in combinations(values, size)]
    return 2 * sum(sum(chosen) == 15 for chosen in sets)


def pairs(ranks: Sequence[int]) -> int:
    """2 for every two cards of one rank."""
    return 2 * sum(a == b for a, b in combinations(ranks, 2))


def runs(ranks: Sequence[int]) -> int:
    """A point a card for every different run of the longest length there is, of three cards or more."""
    for length in range(len(ranks), 2, -1):
        found = sum(is_run(chosen) for chosen in combinations(ranks, length))
        if found:
            return length * found
    return 0


@cache
def rank_scores(sorted_ranks: tuple[int, ...]) -> tuple[int, int, int]:
    """Fifteens, pairs and runs, the scores that do not depend on the suits."""
    return fifteens(sorted_ranks), pairs(sorted_ranks), runs(sorted_ranks)


def flush(hand: Sequence[int], starter: int | None, is_crib: bool) -> int:
    """5 if hand and starter are of one suit; 4 if only the hand's four are, but not in the crib."""
    if len(hand) != 4 or len({suit_of(card) for card in hand}) != 1:
        return 0
    if starter is not None and suit_of(starter) == suit_of(hand[0]):
        return 5
    return 0 if is_crib else 4


def nobs(hand: Sequence[int], starter: int | None) -> int:
    """1 for the jack of the starter's suit in the hand or crib."""
    if starter is None:
        return 0
    return int(any(rank_of(card) == JACK and suit_of(card) == suit_of(starter) for card in hand))


def show_score(hand: Sequence[int], starter: int | None, is_crib: bool = False) -> dict[str, int]:
    """The score of a hand or crib in the show, by kind; without a starter the score of its cards alone."""
    cards = list(hand) if starter is None else [*hand, starter]
    of_fifteens, of_pairs, of_runs = rank_scores(tuple(sorted(rank_of(card) for card in cards)))
    score = {
        "fifteens": of_fifteens,
        "pairs": of_pairs,
        "runs": of_runs,
        "flush": flush(hand, starter, is_crib),
        "nobs": nobs(hand, starter),
    }
    score["total"] = sum(score.values())
    return score


# --- The play ---------------------------------------------------------------------------------------------


def play_pair(stack: Sequence[int]) -> int:
    """2, 6 or 12 when the last two, three or four cards are of one rank: 2 for each pair among them."""
    equal = 0
    for card in reversed(stack):
        if rank_of(card) != rank_of(stack[-1]):
            break
        equal += 1
    return {1: 0, 2: 2, 3: 6, 4: 12}[equal]


def play_run(stack: Sequence[int]) -> int:
    """A point a card for the longest run that the last three or more cards form, in any order."""
    ranks = [rank_of(card) for card in stack]
    for length in range(len(ranks), 2, -1):
        if is_run(ranks[-length:]):
            return length
    return 0


def play_score(stack: Sequence[int]) -> dict[str, int]:
    """What the last card of the stack, the cards of one count so far, scores (go and last card apart)."""
    count = sum(value_of(card) for card in stack)
    score = {
        "fifteen": 2 if count == 15 else 0,
        "thirty_one": 2 if count == LIMIT else 0,
        "pair": play_pair(stack),
        "run": play_run(stack),
    }
    score["total"] = sum(score.values())
    return score


def playable(cards: Iterable[int], count: int) -> list[int]:
    """The cards that may be laid: those that do not carry the count over 31."""
    return [card for card in cards if count + value_of(card) <= LIMIT]


# --- The game ---------------------------------------------------------------------------------------------


class Event(NamedTuple):
    """Something that scored, or a card that was laid, or a hand that was shown (these two also for 0)."""

    kind: str  # heels, card, go, last, hand, crib
    player: int  # the seat that scores
    points: int
    # With the card for `card`, that of the ended count for `go` and `last`, else 0.
    count: int  # type: ignore[assignment]  # tuple has a method of this name
    card: int  # the card laid for `card`, else -1
    raw_scores: tuple[int, int]  # by seat, after the event


class ReferenceGame:
    """A game of cribbage that is stepped by actions and keeps the events of all its deals.

    `deck_of(deal)` gives the 13 cards of a deal: pone's six, the dealer's six, the starter.  The actions are
    0..14, discard the pair DISCARD_PAIRS[action] of the six cards in order, and 15..18, lay the first to
    fourth of the four kept cards in order (a card keeps its place when others have been laid).
    """

    def __init__(
        self,
        deck_of: Callable[[int], Sequence[int]],
        dealer: int = 0,
        scores: tuple[int, int] = (0, 0),
        target: int = 121,
    ) -> None:
        if dealer not in (0, 1):
            raise ValueError(f"the dealer is seat 0 or 1, not {dealer}")
        if max(scores) >= target:
            raise ValueError(f"the scores {scores} have reached the target {target}")
        self.target = target
        self.winner: int | None = None
        # In a deal: phase is discard or play, and player the seat to act; over and -1 when the game is.
        self.events: list[Event] = []
        self._deck_of = deck_of
        self._scores = list(scores)
        self._start_deal(0, dealer)

    @property
    def raw_scores(self) -> tuple[int, int]:
        """The scores by seat, not cut off at the target."""
        return self._scores[0], self._scores[1]

    @property
    def pone(self) -> int:
        """The seat that does not deal."""
        return 1 - self.dealer

    @property
    def count(self) -> int:
        """The count of the play now."""
        return sum(value_of(card) for card in self.stack)

    def hand(self, seat: int) -> list[int]:
        """The six dealt cards in order, or once the seat has discarded, the four kept, laid or not."""
        return list(self._hands[seat])

    def legal_actions(self) -> list[int]:
        """The actions open to the player on turn, in order; none when the game is over."""
        if self.phase == "discard":
            return list(range(len(DISCARD_PAIRS)))
        if self.phase == "play":
            hand = self._hands[self.player]
            cards = playable(self._unlaid[self.player], self.count)
            return [FIRST_PLAY_ACTION + slot for slot, card in enumerate(hand) if card in cards]
        return []

    def step(self, action: int) -> None:
        """Take an action for the player on turn, and all that follows without a choice."""
        if action not in self.legal_actions():
            raise ValueError(f"action {action} is not legal")
        if self.phase == "discard":
            self._discard(DISCARD_PAIRS[action])
        else:
            self._lay(self._hands[self.player][action - FIRST_PLAY_ACTION])

    def _start_deal(self, deal: int, dealer: int) -> None:
        """Deal six cards each; pone discards first."""
        deck = list(self._deck_of(deal))
        if len(deck) != 13 or len(set(deck)) != 13 or not set(deck) <= set(range(52)):
            raise ValueError(f"a deck is 13 different cards, not {deck}")
        self.deal = deal
        self.dealer = dealer
        self.phase = "discard"
        self.player = self.pone
        self.starter: int | None = None
        self.crib: list[int] = []
        self.stack: list[int] = []  # the cards of the present count
        self.go_calls: list[tuple[int, int]] = []  # (player, count); a new list for each deal
        self._cut_card = deck[12]
        self._hands: list[list[int]] = [[], []]  # by seat
        self._hands[self.pone] = sorted(deck[:6])
        self._hands[self.dealer] = sorted(deck[6:12])
        self._unlaid: list[list[int]] = [[], []]  # by seat, the kept cards still to be laid
        self._said_go: set[int] = set()  # the seats that have said go in the present count

    def _discard(self, places: tuple[int, int]) -> None:
        """Put two cards in the crib; after the dealer's, cut."""
        hand = self._hands[self.player]
        thrown = [hand[place] for place in places]
        kept = [card for card in hand if card not in thrown]
        self.crib += thrown
        self._hands[self.player] = kept
        self._unlaid[self.player] = list(kept)
        if self.player == self.pone:
            self.player = self.dealer
        else:
            self._cut()

    def _cut(self) -> None:
        """Turn the starter up: a jack gives the dealer 2 for his heels.  Then pone leads the play."""
        self.starter = self._cut_card
        if rank_of(self.starter) == JACK:
            self._score("heels", self.dealer, 2)
        if self.winner is None:
            self.phase = "play"
            self.player = self.pone

    def _lay(self, card: int) -> None:
        """Lay a card of the player on turn and score it; then the play goes on, or is over."""
        seat = self.player
        self._unlaid[seat].remove(card)
        self.stack.append(card)
        count = self.count
        self._score("card", seat, play_score(self.stack)["total"], count, card)
        if self.winner is not None:
            return
        if self._unlaid[0] or self._unlaid[1]:
            self._pass_turn(seat, count)
        else:
            self._end_play(seat, count)

    def _pass_turn(self, seat: int, count: int) -> None:
        """After a card of `seat` find who lays the next one, in this count or in a new one."""
        other = 1 - seat
        if count == LIMIT:
            self._new_count(seat)
            return
        if playable(self._unlaid[other], count):
            self.player = other
            return
        if self._unlaid[other] and other not in self._said_go:
            self.go_calls.append((other, count))
            self._said_go.add(other)
        if playable(self._unlaid[seat], count):  # alone, as long as they can
            self.player = seat
            return
        self._score("go", seat, 1, count)
        if self.winner is None:
            self._new_count(seat)

    def _new_count(self, last_seat: int) -> None:
        """The player who did not lay the last card leads the next count, unless they have no cards left."""
        self.stack = []
        self._said_go = set()
        self.player = 1 - last_seat if self._unlaid[1 - last_seat] else last_seat

    def _end_play(self, seat: int, count: int) -> None:
        """The last card of the play scores 1 unless it made 31.  Then the hands are shown."""
        if count != LIMIT:
            self._score("last", seat, 1, count)
        if self.winner is None:
            self._show()

    def _show(self) -> None:
        """Pone's hand, the dealer's hand, the crib; then the other player deals."""
        pone, dealer = self.pone, self.dealer
        for kind, seat, cards in (
            ("hand", pone, self._hands[pone]),
            ("hand", dealer, self._hands[dealer]),
            ("crib", dealer, self.crib),
        ):
            points = show_score(cards, self.starter, is_crib=kind == "crib")["total"]
            self._score(kind, seat, points)
            if self.winner is not None:
                return
        self._start_deal(self.deal + 1, pone)

    def _score(self, kind: str, seat: int, points: int, count: int = 0, card: int = -1) -> None:
        """Count the points of an event at once: reaching the target ends the game there and then."""
        self._scores[seat] += points
        self.events.append(Event(kind, seat, points, count, card, self.raw_scores))
        if self._scores[seat] >= self.target:
            self.winner = seat
            self.phase = "over"
            self.player = -1
