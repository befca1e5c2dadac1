"""The engine: what is drawn from seeds, and random games. For the rules see ``tests/test_engine_reference.py``."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from reference import DISCARD_PAIRS
from row_game import seed_deck
from scipy.stats import chisquare

from cribbage_env import Game, Rules
from cribbage_env.engine import (
    KEPT_PLACES,
    PAIRS,
    cut_for_deal,
    game_seed,
    random_games,
    rule_numbers,
)
from cribbage_env.scoring import show_table


def test_discard_actions_are_the_pairs_in_order() -> None:
    assert [tuple(pair) for pair in PAIRS.tolist()] == DISCARD_PAIRS
    for pair, kept in zip(PAIRS.tolist(), KEPT_PLACES.tolist(), strict=True):
        assert sorted([*pair, *kept]) == list(range(6))
        assert kept == sorted(kept)


def test_decks_are_uniform() -> None:
    """Every card at every place equally often, and pairs of places independent."""
    n = 8_000
    places = np.zeros((3, 52))
    ranks = np.zeros((13, 13))
    for number in range(n):
        deck = seed_deck(number % 2_000, number // 2_000)
        assert len(set(deck)) == 13
        places[0, deck[:6]] += 1
        places[1, deck[6:12]] += 1
        places[2, deck[12]] += 1
        ranks[deck[12] // 4, min(deck[:6]) // 4] += 1
    for row, cards in zip(places, (6, 6, 1), strict=True):
        # without replacement the cards of a hand are negatively correlated: less spread than chi-square expects
        assert chisquare(row).pvalue > 1e-4
        assert row.sum() == cards * n
    # a hand's cards spread by the hypergeometric variance n * (6/52) * (46/52), not by less
    expected = n * 6 / 52
    spread = ((places[:2] - expected) ** 2).sum(axis=1) / (expected * 46 / 52)
    assert (spread > 20).all()
    kinds = ranks.sum(axis=1, keepdims=True) * ranks.sum(axis=0, keepdims=True) / n
    used = kinds > 20
    statistic = (((ranks - kinds) ** 2)[used] / kinds[used]).sum()
    assert statistic < used.sum() + 5 * np.sqrt(2 * used.sum())


def test_order_of_a_deck_does_not_follow_from_its_neighbours() -> None:
    """Decks of neighbouring seeds and deals share no more cards than chance gives: 13 * 13 / 52 = 3.25."""
    shared = [len(set(seed_deck(seed, 0)) & set(seed_deck(seed + 1, 0))) for seed in range(3_000)]
    shared += [len(set(seed_deck(seed, 0)) & set(seed_deck(seed, 1))) for seed in range(3_000)]
    assert np.mean(shared) == pytest.approx(3.25, abs=5 * np.std(shared) / np.sqrt(len(shared)))


def test_cut_for_deal() -> None:
    """Both seats equally often, also given the deck; a function of the seed alone."""
    cuts = [cut_for_deal(np.uint64(seed)) for seed in range(20_000)]
    assert chisquare(np.bincount(cuts, minlength=2)).pvalue > 1e-4
    assert cuts[:50] == [cut_for_deal(np.uint64(seed)) for seed in range(50)]
    by_starter = Counter((seed_deck(seed, 0)[12] // 26, cuts[seed]) for seed in range(4_000))
    assert chisquare(list(by_starter.values())).pvalue > 1e-4
    assert Game(seed=7, dealer=None).dealer == cuts[7]


def test_seeds_of_later_games() -> None:
    assert int(game_seed(np.uint64(5), 0)) == 5
    assert int(game_seed(np.uint64(2**64 - 1), 0)) == 2**64 - 1
    seeds = {int(game_seed(np.uint64(seed), number)) for seed in range(300) for number in range(100)}
    assert len(seeds) == 300 * 100


def test_rule_numbers() -> None:
    assert rule_numbers(Rules()) == (121, 91, 61)
    assert rule_numbers(Rules(61)) == (61, 31, 0)


def test_random_games_come_to_the_published_figures() -> None:
    """Random against random: 12.6 deals a game."""
    games = 20_000
    first_dealer_wins, deals, decisions, points = random_games(show_table(), np.uint64(1), games, 121).tolist()
    assert deals / games == pytest.approx(12.6, abs=0.06)
    assert 121 < points / games < 2 * 121
    assert 0.50 < first_dealer_wins / games < 0.60
    assert 9.0 < decisions / deals <= 10.0
    assert (
        random_games(show_table(), np.uint64(1), 500, 121).tolist()
        == random_games(show_table(), np.uint64(1), 500, 121).tolist()
    )
    assert (
        random_games(show_table(), np.uint64(2), 500, 121).tolist()
        != random_games(show_table(), np.uint64(1), 500, 121).tolist()
    )
