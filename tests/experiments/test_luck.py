"""Luck: against a plain reference, with means of exactly zero, whoever plays and however the games are cut up."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement

import numpy as np
import pytest
import reference
from reference import ReferenceGame

from agents import Agent, make_agent
from agents.board import DealOutcomes
from agents.discards import crib_table
from cribbage_env import Rules
from cribbage_env.engine import (
    BETWEEN,
    DEALER,
    EVENT_SIZE,
    PHASE,
    PLAYER,
    SCORE,
    STARTER,
    STATE_SIZE,
    apply,
    deal_fixed,
    deal_from_seed,
    is_legal,
    new_game,
)
from cribbage_env.jit import jit
from cribbage_env.scoring import show_table
from cribbage_env.streams import combine
from experiments.tournament import luck, rank_deals
from experiments.tournament.luck import LuckObserver, deal_luck, luck_board, starter_luck
from experiments.tournament.match import Games, play_blocks
from experiments.tournament.rank_deals import FOURS, SIXES, count_outcomes, exact_outcomes, rank_tables

NO_LOG = np.zeros((0, EVENT_SIZE), np.int16)
TABLES = rank_tables()
CODES = luck._codes()


# A plain version of the fixed player ---------------------------------------------------------------------------------


def ranks(cards: list[int]) -> list[int]:
    return [card // 4 for card in cards]


def plain_discard(six: list[int], is_dealer: bool) -> int:
    """The action of the fixed player: the first of the best."""
    cribs = crib_table("schell")
    values = []
    for pair in reference.DISCARD_PAIRS:
        kept = sorted(six[place] // 4 for place in range(6) if place not in pair)
        left = [4 - ranks(six).count(rank) for rank in range(13)]
        hand = sum(left[rank] * sum(reference.rank_scores(tuple(sorted([*kept, rank])))) for rank in range(13)) / 46
        first, second = (six[place] // 4 for place in pair)
        values.append(hand + (cribs[1, first, second] if is_dealer else -cribs[0, first, second]))
    return next(action for action, value in enumerate(values) if value > max(values) - 1e-9)


def plain_play(game: ReferenceGame, highest: bool) -> int:
    """The action of the fixed player in the play."""
    legal = game.legal_actions()
    hand = game.hand(game.player)
    other = 1 - game.player
    seen = hand + [card for card in game.hand(other) if card not in game._unlaid[other]]
    left = [4 - ranks(seen).count(rank) for rank in range(13)]
    last = len(game._unlaid[0]) + len(game._unlaid[1]) == 1
    values = {}
    for action in legal:
        stack = [*game.stack, hand[action - reference.FIRST_PLAY_ACTION]]
        value = float(reference.play_score(stack)["total"])
        if sum(map(reference.value_of, stack)) == reference.LIMIT:
            stack = []
        replies = [
            (left[rank], reference.play_score([*stack, 4 * rank])["total"])
            for rank in range(13)
            if left[rank] > 0 and reference.playable([4 * rank], sum(map(reference.value_of, stack)))
        ]
        if replies and not last:
            value -= sum(n * points for n, points in replies) / sum(n for n, _ in replies)
        values[action] = value
    best = [action for action in legal if values[action] > max(values.values()) - 1e-9]
    chosen = best[-1] if highest else best[0]
    rank = hand[chosen - reference.FIRST_PLAY_ACTION] // 4
    return next(action for action in best if hand[action - reference.FIRST_PLAY_ACTION] // 4 == rank)


def plain_value(deck: list[int], discards: tuple[int, int], scores: tuple[int, int], target: int) -> float:
    """What the dealer (seat 0) has of a deal after these discards of pone and the dealer, mean of both ways to play."""
    total = 0.0
    for highest in (False, True):
        game = ReferenceGame(lambda deal: deck if deal == 0 else range(13), 0, scores, target)
        for action in discards:
            game.step(action)
        while game.winner is None and game.deal == 0:
            game.step(plain_play(game, highest))
        if game.winner is None:
            total -= luck_board(target)[game.raw_scores[1], game.raw_scores[0]]
        else:
            total += 1 if game.winner == 0 else -1
    return total / 2


# Kernels for the tests -----------------------------------------------------------------------------------------------


def row_of(deck: list[int], scores: tuple[int, int], target: int) -> np.ndarray:
    row = np.zeros(STATE_SIZE, np.int16)
    new_game(row, target, 0, 0, 0, *scores)
    deal_fixed(row, np.array(deck, np.int16))
    return row


def scratch() -> tuple[np.ndarray, ...]:
    return np.zeros(STATE_SIZE, np.int16), NO_LOG, np.zeros(13, np.int64), np.zeros((4, 3), np.int64)


def deal_luck_of(row: np.ndarray) -> float:
    board = luck_board(int(row[5]))
    return float(
        deal_luck(row, TABLES.kept, TABLES.thrown, TABLES.hand, TABLES.crib, TABLES.ranks, board, CODES, *scratch())
    )


def starter_luck_of(row: np.ndarray, action: int) -> float:
    board = luck_board(int(row[5]))
    more = np.zeros((3, 4), np.int64), np.zeros((2, 4), np.int64)
    return float(starter_luck(row, action, TABLES.hand, TABLES.crib, TABLES.ranks, board, CODES, *scratch(), *more))


POSITIONS = [(0, 0, 121), (60, 75, 121), (100, 95, 121), (112, 118, 121), (119, 120, 121), (30, 52, 61), (5, 3, 9)]


def some_decks(number: int, seed: int) -> list[list[int]]:
    random = np.random.default_rng(seed)
    decks = []
    for _ in range(number):
        deck = random.permutation(52)[:13].tolist()
        decks.append(sorted(deck[:6]) + sorted(deck[6:12]) + deck[12:])
    return decks


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_the_starters_luck_is_that_of_a_plain_reference(position: tuple[int, int, int]) -> None:
    """All 40 starters: each value as the reference plays it out, and a mean of zero."""
    *scores, target = position
    random = np.random.default_rng(target + scores[0])
    for deck in some_decks(2, scores[0]):
        discards = int(random.integers(15)), int(random.integers(15))
        others = [card for card in range(52) if card not in deck[:12]]
        found, expected = [], []
        for starter in others:
            row = row_of([*deck[:12], starter], (scores[0], scores[1]), target)
            apply(show_table(), row, discards[0], NO_LOG)
            found.append(starter_luck_of(row, discards[1]))
            expected.append(plain_value([*deck[:12], starter], discards, (scores[0], scores[1]), target))
        assert np.allclose(found, np.array(expected) - np.mean(expected), atol=1e-12)
        assert abs(np.mean(found)) < 1e-12


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_the_deals_luck_is_that_of_a_plain_reference(
    position: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reference, "flush", lambda *_: 0)  # it knows no suits
    monkeypatch.setattr(reference, "nobs", lambda *_: 0)
    *scores, target = position
    for deck in some_decks(3, scores[0] + 1):
        pone, dealer = deck[:6], deck[6:12]
        discards = plain_discard(pone, False), plain_discard(dealer, True)
        values = [
            plain_value([*deck[:12], starter], discards, (scores[0], scores[1]), target)
            for starter in range(52)
            if starter not in deck[:12]
        ]
        row = row_of(deck, (scores[0], scores[1]), target)
        expected = np.mean(values) - luck_board(target)[scores[0], scores[1]]
        assert deal_luck_of(row) == pytest.approx(expected, abs=1e-12)


@jit
def _mean_deal_luck(
    seed: int, deals: int, target: int, dealer_score: int, pone_score: int, kept: np.ndarray, thrown: np.ndarray,
    hand: np.ndarray, crib: np.ndarray, ranks: np.ndarray, board: np.ndarray, codes: np.ndarray, no_log: np.ndarray,
) -> tuple[float, float]:  # fmt: skip
    """Mean and mean square of the luck of random deals from a position."""
    row = np.zeros(STATE_SIZE, np.int16)
    scratch = np.zeros(STATE_SIZE, np.int16)
    left = np.zeros(13, np.int64)
    played = np.zeros((4, 3), np.int64)
    total = 0.0
    squares = 0.0
    for deal in range(deals):
        new_game(row, target, 0, 0, 0, dealer_score, pone_score)
        deal_from_seed(row, combine(seed, deal))
        value = deal_luck(row, kept, thrown, hand, crib, ranks, board, codes, scratch, no_log, left, played)
        total += value
        squares += value * value
    return total / deals, squares / deals


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_the_mean_of_the_deals_luck_is_zero(position: tuple[int, int, int]) -> None:
    """A million deals from all positions together; the exact mean is what the shipped counts of all deals say."""
    dealer_score, pone_score, target = position
    deals = 200_000
    mean, square = _mean_deal_luck(
        11, deals, target, dealer_score, pone_score, TABLES.kept, TABLES.thrown, TABLES.hand, TABLES.crib,
        TABLES.ranks, luck_board(target), CODES, NO_LOG,
    )  # fmt: skip
    assert square > 0
    assert abs(mean) < 4 * math.sqrt(square / deals)


# The exact counts ----------------------------------------------------------------------------------------------------

PONE_HANDS, DEALER_HANDS, STARTERS = math.comb(52, 6), math.comb(46, 6), 40


def test_all_deals_were_counted() -> None:
    outcomes = exact_outcomes()
    assert outcomes.deals == 2 * PONE_HANDS * DEALER_HANDS * STARTERS  # for two ways to break ties
    points = np.arange(len(outcomes.totals))
    for first, total in (
        (outcomes.dealer_first, outcomes.totals.sum(1)),
        (outcomes.pone_first, outcomes.totals.sum(0)),
    ):
        # each player comes to a points in all deals in which it ends with as many or more
        reached = first.sum(axis=1)
        assert (reached[1:] == total[::-1].cumsum()[::-1][1:]).all()
    dealer, pone = outcomes.mean_points
    assert dealer == pytest.approx(15.9, abs=0.1)  # `expected` makes 16.2 and 10.2, with flushes and nobs
    assert pone == pytest.approx(10.0, abs=0.1)
    assert points[-1] > 60


def test_the_numbers_of_hands_are_different_and_complete() -> None:
    counts, numbers, ways = np.zeros((SIXES, 13), np.int64), np.zeros(SIXES, np.int64), np.zeros(SIXES, np.int64)
    n = rank_deals._list_sixes(counts, numbers, ways)
    assert n == 18395
    assert len(set(numbers[:n].tolist())) == n
    assert numbers[:n].min() >= 0
    assert numbers[:n].max() < SIXES
    assert ways[:n].sum() == PONE_HANDS
    fours = [rank_deals.four_number(*hand) for hand in combinations_with_replacement(range(13), 4)]
    assert sorted(fours) == list(range(FOURS))
    assert [TABLES.ranks[number].tolist() for number in fours] == [
        list(hand) for hand in combinations_with_replacement(range(13), 4)
    ]


@pytest.mark.slow
def test_part_of_the_count_has_the_right_weight() -> None:
    counts, numbers, ways = np.zeros((SIXES, 13), np.int64), np.zeros(SIXES, np.int64), np.zeros(SIXES, np.int64)
    n = rank_deals._list_sixes(counts, numbers, ways)
    every = 4000
    assert count_outcomes(every).deals == 2 * int(ways[:n:every].sum()) * DEALER_HANDS * STARTERS


@pytest.mark.slow
def test_the_shipped_counts_are_those_of_all_deals() -> None:
    counted, shipped = count_outcomes(), exact_outcomes()
    for name in DealOutcomes.__dataclass_fields__:
        assert (getattr(counted, name) == getattr(shipped, name)).all()


# In matches ----------------------------------------------------------------------------------------------------------


class FirstLegal(Agent):
    """Always the first legal action."""

    def __init__(self) -> None:
        super().__init__("first")

    def policy(self, observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.eye(19)[masks.argmax(axis=1)]


class OftenIllegal(FirstLegal):
    """Discards an illegal action when the key says so, about once in 32 decisions."""

    def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        assert keys is not None
        return np.where(keys % np.uint64(32) == 0, masks.argmin(axis=1), super().act(observations, masks, keys))


def match(a: Agent, b: Agent, pairs: int, seed: int, **options: object) -> Games:
    return np.concatenate(list(play_blocks(a, b, pairs, seed, observers=[LuckObserver()], **options)))


def test_an_agent_against_itself_has_opposite_luck_in_a_pair() -> None:
    games = match(FirstLegal(), FirstLegal(), 200, 1)
    assert (games["luck"][0::2] == -games["luck"][1::2]).all()
    assert (games["luck"] != 0).all()


def test_luck_does_not_depend_on_batch_blocks_or_length() -> None:
    a, b = make_agent("greedy"), make_agent("random")
    games = match(a, b, 100, 5)
    assert games.tobytes() == match(a, b, 100, 5, batch=7, block_pairs=3).tobytes()
    assert games[:120].tobytes() == match(a, b, 60, 5, batch=33).tobytes()
    assert games[120:].tobytes() == match(a, b, 40, 5, first_pair=60).tobytes()


def test_luck_changes_nothing_else() -> None:
    a, b = make_agent("greedy"), make_agent("random")
    with_luck = match(a, b, 50, 5)
    without = np.concatenate(list(play_blocks(a, b, 50, 5)))
    assert (without["luck"] == 0).all()
    with_luck["luck"] = 0
    assert with_luck.tobytes() == without.tobytes()


def test_a_games_luck_is_the_sum_over_its_deals() -> None:
    """The observer against a replay of the games, one by one: which events count, and for whom."""
    agent, rules, seed = FirstLegal(), Rules(61), 3
    games = match(agent, agent, 12, seed, rules=rules)
    for record in games:
        row = np.zeros(STATE_SIZE, np.int16)
        new_game(row, 61, 0, 0, int(record["first_dealer"]), 0, 0)
        total = 0.0
        while row[PHASE] <= BETWEEN:
            if row[PHASE] == BETWEEN:
                deal_from_seed(row, int(record["seed"]))
            sign = 1 if row[DEALER] == record["a_seat"] else -1
            if row[PHASE] == 0:
                total += sign * (deal_luck_of(row) if row[PLAYER] != row[DEALER] else starter_luck_of(row, 0)) / 2
            legal = [0] if row[PHASE] == 0 else [action for action in range(15, 19) if is_legal(row, action)]
            apply(show_table(), row, legal[0], NO_LOG)
        assert min(row[SCORE], row[SCORE + 1]) == record["scores"].min()
        assert record["luck"] == pytest.approx(1e6 * total, abs=0.51)


@pytest.mark.parametrize(
    ("spec_a", "spec_b", "pairs"),
    [("random", "greedy", 4000), ("greedy", "expected", 4000), ("random", "random", 2000)],
)
def test_the_mean_luck_of_a_match_is_zero(spec_a: str, spec_b: str, pairs: int) -> None:
    """Whoever plays, also where one side hardly ever wins; pairs are the samples."""
    games = match(make_agent(spec_a), make_agent(spec_b), pairs, 17)
    of_pairs = games["luck"].reshape(-1, 2).sum(axis=1) / 2e6
    assert abs(of_pairs.mean()) < 4 * of_pairs.std() / math.sqrt(pairs)
    singles = games["luck"][0::2] / 1e6  # and with one seat alone
    assert abs(singles.mean()) < 4 * singles.std() / math.sqrt(pairs)


def test_the_mean_is_zero_also_with_games_lost_by_illegal_actions() -> None:
    games = match(OftenIllegal(), FirstLegal(), 6000, 2)
    assert (games["forfeit"] == 0).mean() > 0.5
    of_pairs = games["luck"].reshape(-1, 2).sum(axis=1) / 2e6
    assert abs(of_pairs.mean()) < 4 * of_pairs.std() / math.sqrt(len(of_pairs))


def test_close_opponents_need_half_the_games() -> None:
    """2.2 times in 100,000 games; chance can make it a little more or less in 6,000."""
    games = match(make_agent("expected"), make_agent("expected:crib=hessel"), 3000, 7)
    shares = (games["winner"] == 0).reshape(-1, 2).mean(axis=1)
    of_pairs = games["luck"].reshape(-1, 2).sum(axis=1) / 2e6
    assert shares.var() / (shares - of_pairs).var() > 1.7


def test_the_starter_is_read_nowhere_but_for_its_luck() -> None:
    """The deal's luck is known before the starter is: it must not depend on it."""
    deck = some_decks(1, 5)[0]
    row = row_of(deck, (90, 100), 121)
    before = deal_luck_of(row)
    row[STARTER] = next(card for card in range(52) if card not in deck)
    assert deal_luck_of(row) == before
