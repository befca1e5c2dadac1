"""The plain play by ranks, against the plain reference of the whole game."""

from __future__ import annotations

import random

from plain_play import begin, lay, to_decision
from reference import FIRST_PLAY_ACTION, ReferenceGame, rank_of


def test_the_play_of_whole_games() -> None:
    """Random deals: the same players to act, the same legal ranks, the same points, card by card."""
    rng = random.Random(5)
    gos = laid = 0
    for _ in range(1500):
        deck = rng.sample(range(52), 13)
        game = ReferenceGame(lambda _, deck=deck: deck, dealer=1, target=10_000)
        for _ in range(2):
            game.step(rng.choice(game.legal_actions()))
        hands = [tuple(sorted(rank_of(card) for card in game.hand(seat))) for seat in (0, 1)]
        play = begin(hands[0], hands[1])
        before = game.raw_scores
        while game.phase == "play":
            play = to_decision(play)
            hand = game.hand(game.player)
            actions = game.legal_actions()
            assert play.turn == game.player
            assert play.options() == sorted({rank_of(hand[action - FIRST_PLAY_ACTION]) for action in actions})
            action = rng.choice(actions)
            card = hand[action - FIRST_PLAY_ACTION]
            game.events.clear()
            game.step(action)
            play = to_decision(lay(play, rank_of(card)))
            laid += 1
            points = [event for event in game.events if event.kind in ("card", "go", "last")]
            gos += any(event.kind == "go" for event in points)
            before = (
                before[0] + sum(event.points for event in points if event.player == 0),
                before[1] + sum(event.points for event in points if event.player == 1),
            )
            assert play.margin == before[0] - before[1] - _heels(deck)
        assert play.over
    assert laid == 1500 * 8
    assert gos > 1000


def _heels(deck: list[int]) -> int:
    """The pone's points minus the dealer's before the play."""
    return -2 if rank_of(deck[12]) == 10 else 0
