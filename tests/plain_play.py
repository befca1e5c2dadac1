"""The play by ranks, written plainly over the reference rules: for solving and checking small games by recursion.

It shares nothing with the engine or with :mod:`agents.equilibrium`. Players are 0, the pone, and 1, the dealer; a hand
is a sorted tuple of ranks. A public history is a tuple of moves (player, rank), with the rank :data:`PASS` for a player
who is asked and has nothing to lay, be it a go or the end of a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from typing import NamedTuple

from reference import LIMIT, play_score, value_of

PASS = 13

Hand = tuple[int, ...]
History = tuple[tuple[int, int], ...]


class Play(NamedTuple):
    """A play in progress."""

    held: tuple[Hand, Hand]
    turn: int
    stack: Hand = ()
    """The ranks of the present count."""
    said_go: tuple[bool, bool] = (False, False)
    last_by: int = -1
    """Who laid the last card of the stack."""
    history: History = ()
    margin: int = 0
    """The pone's points minus the dealer's."""

    @property
    def count(self) -> int:
        """The present count."""
        return sum(value_of(4 * rank) for rank in self.stack)

    @property
    def over(self) -> bool:
        """Whether all cards are laid."""
        return not self.held[0] and not self.held[1]

    def options(self) -> list[int]:
        """The different ranks that the player to act may lay; none: they pass."""
        return [rank for rank in sorted(set(self.held[self.turn])) if self.count + value_of(4 * rank) <= LIMIT]


def begin(pone: Hand, dealer: Hand) -> Play:
    """The play of two hands, before the pone leads."""
    return Play((tuple(sorted(pone)), tuple(sorted(dealer))), 0)


def _scored(play: Play, player: int, points: int) -> Play:
    return play._replace(margin=play.margin + (points if player == 0 else -points))


def _new_count(play: Play) -> Play:
    """The player who did not lay the last card leads, if they have any."""
    other = 1 - play.last_by
    return play._replace(stack=(), said_go=(False, False), turn=other if play.held[other] else play.last_by)


def lay(play: Play, rank: int) -> Play:
    """Lay a card of a rank; the player asked next may have to pass."""
    player, other = play.turn, 1 - play.turn
    left = list(play.held[player])
    left.remove(rank)
    held = (tuple(left), play.held[1]) if player == 0 else (play.held[0], tuple(left))
    play = play._replace(held=held, stack=(*play.stack, rank), last_by=player, history=(*play.history, (player, rank)))
    play = _scored(play, player, play_score([4 * rank for rank in play.stack])["total"])
    if play.over:
        return play if play.count == LIMIT else _scored(play, player, 1)
    if play.count == LIMIT:
        return _new_count(play)
    if play.held[other] and not play.said_go[other]:
        return play._replace(turn=other)
    if play.held[player]:
        return play  # alone; they pass if they can't go on
    return _new_count(_scored(play, player, 1))


def pass_turn(play: Play) -> Play:
    """The player to act has nothing that fits: a go; or the end of the count, if nobody else can go on."""
    player, other = play.turn, 1 - play.turn
    play = play._replace(history=(*play.history, (player, PASS)))
    if player != play.last_by:
        gos = (True, play.said_go[1]) if player == 0 else (play.said_go[0], True)
        play = play._replace(said_go=gos)
        if play.held[other]:
            return play._replace(turn=other)
    return _new_count(_scored(play, play.last_by, 1))


def to_decision(play: Play) -> Play:
    """Let everybody pass who must."""
    while not play.over and not play.options():
        play = pass_turn(play)
    return play


Choose = Callable[[Play, list[int]], list[float]]
"""The probabilities of the ranks that the player to act may lay."""


def expected_margin(play: Play, choose: Choose) -> float:
    """The pone's points minus the dealer's at the end, on average."""
    play = to_decision(play)
    if play.over:
        return float(play.margin)
    options = play.options()
    probabilities = choose(play, options) if len(options) > 1 else [1.0]
    return sum(
        probability * expected_margin(lay(play, rank), choose)
        for rank, probability in zip(options, probabilities, strict=True)
        if probability > 0.0
    )


def hands_of(cards: int, pack: tuple[int, ...]) -> Iterator[Hand]:
    """The hands of so many cards that a pack (copies of each rank) has."""
    for ranks in combinations_with_replacement(range(len(pack)), cards):
        if all(ranks.count(rank) <= pack[rank] for rank in set(ranks)):
            yield ranks


def compatible(pone: Hand, dealer: Hand, pack: tuple[int, ...]) -> bool:
    """Whether a pack has the cards of both hands."""
    together = pone + dealer
    return all(together.count(rank) <= pack[rank] for rank in set(together))
