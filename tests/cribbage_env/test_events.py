"""Events that are read from a state alone are those of the game that led to it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cribbage_env import Game, Rules, score_hand, score_play
from cribbage_env.engine import BETWEEN, LAID, PHASE, apply
from cribbage_env.events import breakdown_text, deal_events, new_log, read_events, show_events
from cribbage_env.scoring import show_table


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32))
def test_a_state_tells_the_events_of_its_deal(seed: int) -> None:
    """Every state of a random game, and the state between two deals, which ``Game`` passes over."""
    rng = random.Random(seed)
    game = Game(Rules(61), seed=seed, dealer=None, scores=(rng.randrange(61), rng.randrange(61)))
    while game.phase != "over":
        assert deal_events(game.state()) == [event for event in game.events if event.deal == game.deal]
        before = game.state()
        action = rng.choice(game.legal_actions())
        after, log = before.copy(), new_log()
        apply(show_table(), after, action, log)
        new = game.step(action)
        assert read_events(before, log) == new
        if after[PHASE] == BETWEEN:
            of_deal = [event for event in game.events if event.deal == game.deal - 1]
            assert deal_events(after) == of_deal
            assert show_events(before, game.raw_scores) == of_deal[-3:]
    assert deal_events(game.state()) == []


def test_games_of_all_kinds_are_met() -> None:
    """The random games above have gos, thirty-ones and heels among their events."""
    rng = random.Random(3)
    kinds, totals = set(), set()
    for seed in range(60):
        game = Game(seed=seed)
        while game.deal == 0 and game.phase != "over":
            game.step(rng.choice(game.legal_actions()))
        kinds |= {event.kind for event in game.events}
        totals |= {event.count for event in game.events}
    assert kinds == {"heels", "card", "go", "last", "hand", "crib"}
    assert 31 in totals


def test_several_actions_in_one_log() -> None:
    """A log of a whole play is read like its actions one by one."""
    rng = random.Random(1)
    for seed in range(40):
        game = Game(seed=seed)
        while game.phase == "discard":
            game.step(rng.choice(game.legal_actions()))
        before = game.state()
        row, log, expected = before.copy(), new_log(), []
        while game.deal == 0:
            action = rng.choice(game.legal_actions())
            apply(show_table(), row, action, log)
            expected += game.step(action)
        assert row[LAID] == 8
        assert read_events(before, log) == expected


@pytest.mark.parametrize(
    ("breakdown", "text"),
    [
        (score_hand("5H 5C 5S JD", "5D"), "fifteens 16, pairs 12, nobs 1"),
        (score_hand("2H 4C 6S 8D", "TD"), ""),
        (score_play("JH 5C TS 6D"), "thirty-one 2"),
        (score_play("5H 5C 5S"), "fifteen 2, pair 6"),
    ],
)
def test_breakdowns_in_words(breakdown: object, text: str) -> None:
    assert breakdown_text(breakdown) == text  # type: ignore[arg-type]


def test_a_deal_fits_into_a_log() -> None:
    """The most events: heels, eight cards in eight counts is more than there can be, two hands and a crib."""
    assert len(new_log()) - 1 >= 1 + 8 + 8 + 3
    assert new_log().dtype == np.int16
