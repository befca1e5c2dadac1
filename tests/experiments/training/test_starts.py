"""Where episodes begin: dealers, scores, decks, and the small game inside the real one."""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from training_samples import small

from agents import decision_keys, make_agent
from cribbage_env import CribbageVectorEnv, Game, Rules
from cribbage_env.cards import RANKS, card_text
from cribbage_env.engine import (
    CARDS,
    COUNT,
    DEAL,
    DEALER,
    DECISIONS,
    DISCARD,
    KEPT,
    LEFT,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STARTER,
    THROWN,
)
from cribbage_env.streams import combine_arrays
from experiments.training.starts import LAID, deal_starts, played_positions
from experiments.training.streams import DECKS, stream

PLAYED = {"reward": "win", "positions": "played"}
NO_LUCK = {"subtract_luck": False}


def seeds_of(config: Any, numbers: NDArray[np.int64]) -> list[int]:
    key = np.full(len(numbers), stream(config.seed, DECKS), np.uint64)
    return [int(seed) for seed in combine_arrays(key, numbers)]


@pytest.mark.parametrize("played", [False, True])
def test_a_deal_is_the_first_of_a_game_with_its_seed(played: bool) -> None:
    """The seats take turns in dealing, and the cards do not depend on the scores."""
    config = small(collect=PLAYED if played else {}, learner=NO_LUCK)
    numbers = np.arange(100, 160)
    rows = deal_starts(config, numbers)
    assert rows.dtype == np.int16
    scores = set()
    for row, number, seed in zip(rows, numbers, seeds_of(config, numbers), strict=True):
        own = int(row[SCORE]), int(row[SCORE + 1])
        game = Game(config.rules.rules(), seed, dealer=int(number % 2), scores=own)
        assert (row == game._row).all()
        scores.add(own)
    assert (scores == {(0, 0)}) != played
    assert (rows == deal_starts(config, numbers)).all()
    assert (deal_starts(config, numbers[7:9]) == rows[7:9]).all()  # by the number, not by the batch
    other = deal_starts(config.model_copy(update={"seed": 4}), numbers)
    assert (other[:, CARDS : CARDS + 12] != rows[:, CARDS : CARDS + 12]).any(axis=1).all()


def positions_in_games(games: int) -> NDArray[np.int64]:
    """Scores (P, 2) of dealer and pone at the beginnings of deals in whole games between two ``expected``."""
    env = CribbageVectorEnv(games, skip_forced=True)
    seen, _ = env.reset(seed=11)
    agent = make_agent("expected")
    ended = np.zeros(games, np.bool_)
    deals = np.full(games, -1)
    found = []
    step = 0
    while not ended.all():
        new = ~ended & (env.rows[:, DEAL] != deals)
        dealer = env.rows[new, DEALER].astype(int)
        scores = env.rows[new, SCORE : SCORE + 2].astype(int)
        found.append(np.stack([scores[np.arange(len(dealer)), dealer], scores[np.arange(len(dealer)), 1 - dealer]], 1))
        deals = env.rows[:, DEAL].copy()
        keys = decision_keys(5, np.arange(games), np.full(games, step))
        seen, _, terminated, _, _ = env.step(agent.act(seen["observation"], seen["action_mask"], keys))
        ended |= terminated
        step += 1
    return np.concatenate(found)


def test_played_positions_are_as_frequent_as_in_games() -> None:
    drawn = played_positions(121, 1, None).astype(np.int64)
    games = 700
    simulated = positions_in_games(games)
    share = (drawn == 0).all(axis=1).mean()  # one deal of a game begins at 0-0
    assert share == pytest.approx(games / len(simulated), rel=0.02)
    assert drawn.min() == 0
    assert drawn.max() <= 120
    for side in range(2):
        assert drawn[:, side].mean() == pytest.approx(simulated[:, side].mean(), abs=1.5)
        bins = [np.bincount(one[:, side] // 20, minlength=7) / len(one) for one in (drawn, simulated)]
        assert bins[0] == pytest.approx(bins[1], abs=0.025)
    ahead = [np.mean(one[:, 0] - one[:, 1]) for one in (drawn, simulated)]
    apart = [np.std(one[:, 0] - one[:, 1]) for one in (drawn, simulated)]
    assert ahead[0] == pytest.approx(ahead[1], abs=1.0)
    assert ahead[1] < -1.0  # it was the other one's deal just before
    assert apart[0] == pytest.approx(apart[1], abs=1.5)


def test_positions_are_drawn_by_seed_and_for_the_target() -> None:
    assert (played_positions(61, 1, None) == played_positions(61, 1, None)).all()
    assert (played_positions(61, 1, None) != played_positions(61, 2, None)).any()
    assert played_positions(61, 1, None).max() == 60
    config = small(collect=PLAYED, learner=NO_LUCK, rules={"target": 61})
    rows = deal_starts(config, np.arange(4000))
    dealer = rows[:, DEALER]
    own = rows[np.arange(4000), SCORE + dealer]
    positions = played_positions(61, config.seed, None)
    assert own.mean() == pytest.approx(positions[:, 0].mean(), abs=4 * positions[:, 0].std() / np.sqrt(4000))
    of_numbers = {(int(row[SCORE + row[DEALER]]), int(row[SCORE + 1 - row[DEALER]])) for row in rows}
    assert of_numbers <= {(int(one), int(other)) for one, other in positions}
    assert len(of_numbers) > 500


# --- Reduced games ------------------------------------------------------------------------------------------


def reduced_starts(count: int, ranks: str = "4567") -> NDArray[np.int16]:
    return deal_starts(small(collect={"reduced": {"ranks": ranks}}), np.arange(count))


def cards_of(cards: Any) -> str:
    return " ".join(card_text(int(card)) for card in cards)


def test_reduced_games_are_states_that_play_leads_to() -> None:
    """The same discards and plays through a game by hand come to the same state."""
    for number, row in enumerate(reduced_starts(60)):
        dealer = number % 2
        seats = [1 - dealer, dealer]
        six = {seat: sorted(int(card) for card in row[CARDS + 6 * seat : CARDS + 6 * seat + 6]) for seat in seats}
        kept = {seat: [int(card) for card in row[KEPT + 4 * seat : KEPT + 4 * seat + 4]] for seat in seats}
        deck = [*six[1 - dealer], *six[dealer], int(row[STARTER])]
        assert len(set(deck)) == 13
        game = Game(Rules(121, skunk=None), decks=[cards_of(deck)], dealer=dealer)
        for seat in seats:
            game.discard(cards_of(card for card in six[seat] if card not in kept[seat]))
        for card in LAID:
            game.play(card_text(int(card)))
        assert (row == game._row).all()
        assert game.player == 1 - dealer
        thrown = [int(card) for card in row[THROWN : THROWN + 4]]
        assert not set(thrown) & {card for seat in seats for card in kept[seat]}
        while game.deal == 0:
            game.step(game.legal_actions()[0])


def test_a_reduced_game_begins_with_a_fresh_count_and_two_cards_each() -> None:
    rows = reduced_starts(400, "28Q")
    assert (rows[:, PHASE] == PLAY).all()
    assert (rows[:, COUNT] == 0).all()
    assert (rows[:, DEALER] == np.arange(400) % 2).all()
    assert (rows[:, PLAYER] == 1 - rows[:, DEALER]).all()
    for row in rows:
        for seat in range(2):
            left = [int(row[KEPT + 4 * seat + slot]) for slot in range(4) if row[LEFT + seat] >> slot & 1]
            assert len(left) == 2
            assert {RANKS[card // 4] for card in left} <= set("28Q")
    assert (rows[:, DECISIONS] == rows[0, DECISIONS]).all()


def test_reduced_hands_are_dealt_at_random_from_the_ranks() -> None:
    ranks = "467"
    pack = [4 * RANKS.index(rank) + suit for rank in ranks for suit in range(4)]
    likely: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for pone in combinations(pack, 2):
        for dealer in combinations([card for card in pack if card not in pone], 2):
            likely[tuple(tuple(sorted(card // 4 for card in hand)) for hand in (pone, dealer))] += 1
    count = 20_000
    found: Counter[tuple[tuple[int, ...], ...]] = Counter()
    for row in reduced_starts(count, ranks):
        hands = []
        for seat in (1 - int(row[DEALER]), int(row[DEALER])):
            left = [int(row[KEPT + 4 * seat + slot]) for slot in range(4) if row[LEFT + seat] >> slot & 1]
            hands.append(tuple(sorted(card // 4 for card in left)))
        found[tuple(hands)] += 1
    assert set(found) <= set(likely)
    for hands, ways in likely.items():
        share = ways / likely.total()
        assert found[hands] / count == pytest.approx(share, abs=4.5 * np.sqrt(share * (1 - share) / count))


def test_whole_deals_begin_with_the_discards() -> None:
    rows = deal_starts(small(), np.arange(10))
    assert (rows[:, PHASE] == DISCARD).all()
    assert (rows[:, DEAL] == 0).all()
