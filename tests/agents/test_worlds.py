"""Sampled worlds never contradict what was seen and come from the stated distribution."""

import itertools

import numpy as np
from scipy import stats

from agents.discards import expected_discard_values
from agents.worlds import sample_worlds
from cribbage_env import Game
from cribbage_env.observation import OBSERVATION_SIZE, write_observation, write_state


def some_games(number: int):
    """Games in the play at every stage, moved on by random legal actions."""
    rng = np.random.default_rng(number)
    for seed in range(number):
        game = Game(seed=seed)
        while game.deal == 0 and game.phase != "over":
            if game.phase == "play":
                yield game
            game.step(int(rng.choice(game.legal_actions())))


def could_not_play(game: Game, opponent: int) -> int:
    """The least value of a card that the opponent may still hold: replayed from the public record, the plain way."""
    laid, lowest, count, left = game.laid, 1, 0, {0: 4, 1: 4}
    owner = {card: seat for seat in (0, 1) for card in game.kept(seat)}
    for k, card in enumerate(laid):
        seat = owner[card]
        count += min(card // 4 + 1, 10)
        left[seat] -= 1
        next_seat = owner[laid[k + 1]] if k + 1 < len(laid) else game.player
        next_value = min(laid[k + 1] // 4 + 1, 10) if k + 1 < len(laid) else None
        ended = game.count == 0 if next_value is None else False
        if next_value is not None:  # a new count begins when the next card would not fit or 31 was made
            ended = count == 31 or any(event.kind in ("go", "last") and event.cards == (card,) for event in game.events)
        elif not ended:
            ended = count == 31
        passed = next_seat == seat and left[1 - seat] > 0 and count < 31
        if left[opponent] > 0 and count < 31 and ((seat != opponent and passed) or (ended and seat == opponent)):
            lowest = max(lowest, 32 - count)
        if ended:
            count = 0
    return lowest


def test_worlds_fit_what_was_seen() -> None:
    checked = restricted = 0
    for game in some_games(150):
        seat = game.player
        assert seat is not None
        other = 1 - seat
        observation = game.observation()["observation"]
        worlds = sample_worlds(observation, 30)
        laid = [card for card in game.laid if card in game.kept(other)]
        lowest = could_not_play(game, other)
        seen = set(game.cards(seat)) | {game.starter}
        restricted += lowest > 1
        for world in worlds:
            cards = [int(card) for card in world]
            assert len(set(cards)) == 6
            assert cards[: len(laid)] == laid
            assert not set(cards) & seen
            assert not set(cards) & (set(game.laid) - set(laid))
            assert all(min(card // 4 + 1, 10) >= lowest for card in cards[len(laid) : 4])
            checked += 1
    assert checked > 10_000
    assert restricted > 100  # gos came up


def test_the_true_hand_is_always_possible() -> None:
    for game in some_games(300):
        assert game.player is not None
        other = 1 - game.player
        held = game.hand(other)
        assert all(min(card // 4 + 1, 10) >= could_not_play(game, other) for card in held)


def test_worlds_have_the_stated_distribution() -> None:
    """One card held: every (card held, two thrown) is enumerated, and the draws of the card held compared with it."""
    temperature = 0.8
    game = Game(seed=0, decks=["4H 9C TD KS 2C 7D 5C 6D 8H QC AS 3C 9S"])
    game.discard("2C 7D")
    game.discard("AS 3C")
    for card in ("4H", "5C", "9C", "6D", "KS", "8H"):  # 4 9 18 24; then 10 18
        game.play(card)
    assert game.player == 1
    observation = game.observation(1)["observation"]
    mine = set(game.cards(1)) | {game.starter} | set(game.laid)
    laid = [card for card in game.laid if card in game.kept(0)]
    unseen = [card for card in range(52) if card not in mine]
    lowest = could_not_play(game, 0)
    hands, held = [], []
    for card in unseen:
        if min(card // 4 + 1, 10) >= lowest:
            others = [one for one in unseen if one != card]
            for pair in itertools.combinations(others, 2):
                hands.append([*laid, card, *pair])
                held.append(card)
    values = expected_discard_values(np.array(hands, np.uint8), np.full(len(hands), game.dealer == 0))
    weights = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    likelihood = weights[:, 14] / weights.sum(axis=1)
    expected = np.bincount(held, likelihood, minlength=52)
    expected /= expected.sum()

    draws = sample_worlds(observation, 60_000, temperature)
    counts = np.bincount(draws[:, 3], minlength=52)
    assert not counts[expected == 0].any()
    possible = expected > 0
    assert possible.sum() > 15
    test = stats.chisquare(counts[possible], expected[possible] * counts.sum())
    assert test.pvalue > 1e-4
    # and it is not just any distribution: uniform is far away
    assert stats.chisquare(counts[possible]).pvalue < 1e-12


def test_worlds_are_a_function_of_the_observation() -> None:
    game = next(some_games(1))
    observation = game.observation()["observation"]
    first = sample_worlds(observation, 50)
    assert (sample_worlds(observation, 50) == first).all()
    assert (sample_worlds(observation, 20) == first[:20]).all()


def test_write_state_is_the_inverse_of_write_observation() -> None:
    row = np.zeros_like(Game(seed=0).state())
    back = np.zeros(OBSERVATION_SIZE, np.uint8)
    for game in some_games(100):
        seat = game.player
        assert seat is not None
        observation = game.observation()["observation"]
        kept = np.array(game.kept(1 - seat), np.uint8)
        thrown = np.array(game.thrown(1 - seat), np.uint8)
        write_state(observation, kept, thrown, row)
        write_observation(row, 0, back)
        assert (back == observation).all()
        write_observation(row, 1, back)
        assert (back == game.observation(1 - seat)["observation"]).all()
