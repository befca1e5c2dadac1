"""The joint distribution of the kept hands, against enumeration, sums written otherwise, and sampled deals."""

from __future__ import annotations

from collections import Counter
from itertools import combinations, combinations_with_replacement, permutations
from math import comb, prod

import numpy as np
import plain_trees
import pytest
from numpy.typing import NDArray
from reference import DISCARD_PAIRS
from scipy import sparse, stats

from agents.base import Agent, AgentError, Masks, Observations
from agents.equilibrium import prior
from agents.equilibrium.hands import hand_numbers, hand_tables
from agents.equilibrium.prior import (
    WAYS,
    checked_policy,
    class_policy,
    dealt_weights,
    discard_policy,
    joint_weights,
    prior_weights,
    six_hands,
    suit_classes,
    training_weights,
)
from agents.registry import make_agent
from cribbage_env.engine import NUM_ACTIONS
from cribbage_env.observation import FIELDS, OBSERVATION_SIZE, field

Floats = NDArray[np.float64]


class SuitAgent(Agent):
    """Keeps four cards of a suit if it has them, otherwise throws its two lowest cards or its two highest."""

    def __init__(self) -> None:
        super().__init__("suits")

    def policy(self, observations: Observations, masks: Masks) -> Floats:
        cards = field(observations, "cards").astype(np.int64)
        policy = np.zeros(masks.shape)
        low = np.where(field(observations, "is_dealer")[:, 0] == 1, 0.25, 0.75)
        policy[:, DISCARD_PAIRS.index((0, 1))] = low
        policy[:, DISCARD_PAIRS.index((4, 5))] = 1 - low
        for action, pair in enumerate(DISCARD_PAIRS):
            kept = [place for place in range(6) if place not in pair]
            flush = (cards[:, kept] % 4 == cards[:, kept[:1]] % 4).all(axis=1)
            found = flush & (policy.max(axis=1) < 1)
            policy[found] = 0
            policy[found, action] = 1
        return policy


def differ(one: Floats, other: Floats) -> float:
    """The greatest difference (pytest's approx takes seconds for millions of numbers)."""
    return float(abs(one - other).max())


def rank_counts(hands: NDArray[np.integer]) -> NDArray[np.int64]:
    """(B, 13): how many cards of each rank hands (B, k) of ranks have."""
    return np.stack([(hands == rank).sum(axis=1) for rank in range(13)], axis=1)


def test_ways() -> None:
    for gone in range(5):
        for cards in range(5):
            assert WAYS[gone, cards] == comb(4 - gone, cards)


def test_six_hands() -> None:
    """All multisets of six ranks with at most four of one, and what each of the 15 discards keeps."""
    expected = [
        ranks for ranks in combinations_with_replacement(range(13), 6) if max(ranks.count(rank) for rank in ranks) <= 4
    ]
    sixes = six_hands()
    assert len(expected) == 18_395
    assert list(map(tuple, sixes.ranks.tolist())) == expected
    for number in [*range(0, 18_395, 97), 18_394]:
        ranks = expected[number]
        assert int(sixes.packed[number]) == sum(16**rank for rank in ranks)
        for action, pair in enumerate(DISCARD_PAIRS):
            kept = tuple(rank for place, rank in enumerate(ranks) if place not in pair)
            assert sixes.kept[number, action] == hand_numbers()[4][kept]


def test_suit_classes_stand_for_all_hands() -> None:
    hands, number, weight = suit_classes()
    assert len(hands) == len(number) == len(weight) == 962_988
    assert weight.sum() == comb(52, 6) == 20_358_520
    by_six = np.bincount(number, weight, 18_395)
    expected = [prod(comb(4, n) for n in counts) for counts in rank_counts(six_hands().ranks).tolist()]
    assert by_six.tolist() == expected
    assert (hands // 4 == six_hands().ranks[number]).all()
    assert (np.diff(hands.astype(int), axis=1) > 0).all()  # sorted, as the engine deals them


@pytest.mark.parametrize("step", [40, pytest.param(1, marks=pytest.mark.slow)])
def test_suit_classes_differ(step: int) -> None:
    """No two are one hand but for the names of the suits, and each has the size of its class: so none is missing."""
    hands, number, weight = suit_classes()
    chosen = number % step == 0
    cards = hands[chosen].astype(np.int64)
    keys = []
    for order in permutations(range(4)):
        renamed = np.sort(4 * (cards // 4) + np.array(order)[cards % 4], axis=1)
        keys.append(renamed @ (52 ** np.arange(6)))
    every = np.sort(np.stack(keys, axis=1), axis=1)
    assert len(np.unique(every[:, 0])) == len(cards)
    assert (1 + (np.diff(every, axis=1) > 0).sum(axis=1) == weight[chosen]).all()


class _Recorder(Agent):
    """Answers uniformly and keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.seen: list[tuple[Observations, Masks]] = []

    def policy(self, observations: Observations, masks: Masks) -> Floats:
        self.seen.append((observations.copy(), masks.copy()))
        return masks / masks.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("is_dealer", [False, True])
def test_what_the_agent_is_asked(monkeypatch: pytest.MonkeyPatch, is_dealer: bool) -> None:
    """The six cards at the first decision of a game at 0-0, and nothing that the player does not know."""
    hands, number, weight = suit_classes()
    chosen = np.random.default_rng(0).integers(0, len(hands), 3000)
    monkeypatch.setattr(prior, "suit_classes", lambda: (hands[chosen], number[chosen], weight[chosen]))
    agent = _Recorder()
    policy = class_policy(agent, is_dealer)
    assert policy.shape == (3000, 15)
    assert policy == pytest.approx(1 / 15)
    observations = np.concatenate([seen for seen, _ in agent.seen])
    masks = np.concatenate([mask for _, mask in agent.seen])
    assert (masks == np.array([1] * 15 + [0] * 4)).all()
    values = {name: field(observations, name) for name in FIELDS}
    assert (values["cards"] == hands[chosen]).all()
    assert (values["is_dealer"] == is_dealer).all()
    assert (values["phase"] == 0).all()
    assert (values["to_act"] == 1).all()
    assert (values["target"] == 121).all()
    for name in ("score", "opponent_score", "count", "num_laid", "laid_by"):
        assert (values[name] == 0).all()
    for name in ("thrown", "kept", "starter", "laid"):
        assert (values[name] == 52).all()
    assert observations.shape == (3000, OBSERVATION_SIZE)


def marginal_of_discards(policy: Floats) -> Floats:
    """The distribution (1820,) of the kept hand, from a discard policy (18395, 15)."""
    ways = WAYS[0][rank_counts(six_hands().ranks)].prod(axis=1)
    total = np.bincount(six_hands().kept.ravel(), (policy * ways[:, None]).ravel(), 1820)
    normalised: Floats = total / total.sum()
    return normalised


def deal(rng: np.random.Generator, number: int, cards: int) -> NDArray[np.int64]:
    """Random cards (number, cards) without repetition in a row."""
    return rng.permuted(np.tile(np.arange(52), (number, 1)), axis=1)[:, :cards]


def kept_hands(agent: Agent, cards: NDArray[np.int64], is_dealer: bool, rng: np.random.Generator) -> NDArray[np.int64]:
    """What an agent keeps (B,) of dealt cards (B, 6), by the number of the hand by rank."""
    cards = np.sort(cards, axis=1)
    observations = np.zeros((len(cards), OBSERVATION_SIZE), np.uint8)
    masks = np.zeros((len(cards), NUM_ACTIONS), np.int8)
    masks[:, :15] = 1
    for name, value in {"target": 121, "thrown": 52, "kept": 52, "starter": 52, "laid": 52, "to_act": 1}.items():
        field(observations, name)[:] = value
    field(observations, "is_dealer")[:] = is_dealer
    field(observations, "cards")[:] = cards
    field(observations, "own_left")[:] = field(observations, "opponent_left")[:] = 6
    policy = agent.policy(observations, masks)[:, :15]
    action = (policy.cumsum(axis=1) < rng.random((len(cards), 1)) * policy.sum(axis=1, keepdims=True)).sum(axis=1)
    places = np.array([[place for place in range(6) if place not in pair] for pair in DISCARD_PAIRS])
    ranks = np.take_along_axis(cards, places[action], axis=1) // 4
    keys = hand_tables().ranks[4].astype(np.int64) @ (13 ** np.arange(4))
    order = np.argsort(keys)
    found: NDArray[np.int64] = order[np.searchsorted(keys[order], ranks @ (13 ** np.arange(4)))]
    return found


@pytest.mark.parametrize("is_dealer", [False, True])
def test_discards_against_sampled_deals(is_dealer: bool) -> None:
    """An agent that looks at suits keeps each hand as often in dealt hands as by classes of suits."""
    agent = SuitAgent()
    expected = marginal_of_discards(discard_policy(class_policy(agent, is_dealer)))
    assert expected.sum() == pytest.approx(1.0, abs=1e-12)
    rng = np.random.default_rng(11 + is_dealer)
    deals = 120_000
    counts = np.bincount(kept_hands(agent, deal(rng, deals, 6), is_dealer, rng), minlength=1820)
    assert not counts[expected == 0].any()
    common = expected * deals >= 10
    assert common.sum() > 1000
    observed = np.append(counts[common], counts[~common].sum())
    test = stats.chisquare(observed, deals * np.append(expected[common], expected[~common].sum()))
    assert test.pvalue > 1e-3
    # and the test would see it if suits were left out
    without = marginal_of_discards(np.eye(15)[np.zeros(18_395, int)] * 0.5 + np.eye(15)[np.full(18_395, 14)] * 0.5)
    cells = deals * np.append(without[common], without[~common].sum())
    assert stats.chisquare(observed, cells).pvalue < 1e-12


def random_discards(seed: int, actions: int) -> Floats:
    """A discard policy (18395, 15) that mixes some actions, or all."""
    rng = np.random.default_rng(seed)
    policy = rng.random((18_395, 15)) * (rng.random((18_395, 15)).argsort(axis=1) < actions)
    normalised: Floats = policy / policy.sum(axis=1, keepdims=True)
    return normalised


@pytest.mark.parametrize("starter", [None, 4])
def test_pairs_of_six_hands(starter: int | None) -> None:
    """The sum over some of pone's six-card hands and all of dealer's, as a product of matrices."""
    sixes = six_hands()
    counts = rank_counts(sixes.ranks)
    pone_policy, dealer_policy = random_discards(1, 3), random_discards(2, 4)
    pone, dealer = prior._kept_lists(pone_policy), prior._kept_lists(dealer_policy)
    begin, end = 7_000, 7_030
    found = np.zeros((1820, 1820))
    prior._add_pairs(
        begin, end, sixes.packed, sixes.ranks, WAYS, -1 if starter is None else starter, *pone, *dealer, found
    )

    own, other = counts[begin:end, None, :], counts[None, :, :]
    fits = (own + other <= 4).all(axis=2)
    ways = WAYS[0][counts[begin:end]].prod(axis=1)[:, None] * WAYS[np.minimum(own, 4), other].prod(axis=2) * fits
    if starter is not None:
        ways *= np.maximum(4 - own[..., starter] - other[..., starter], 0)

    def matrix(policy: Floats) -> sparse.csr_matrix:
        six = np.repeat(np.arange(18_395), 15)
        return sparse.coo_matrix((policy.ravel(), (six, sixes.kept.ravel())), (18_395, 1820)).tocsr()

    expected = matrix(pone_policy)[begin:end].T @ (matrix(dealer_policy).T @ ways.T).T
    assert differ(found, expected) < 1e-12 * expected.max()
    assert found.sum() == pytest.approx(ways.sum(), rel=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("starter", [None, 6])
def test_random_discards_are_dealing(starter: int | None) -> None:
    """Four cards kept at random are four cards dealt at random."""
    agent = make_agent("random")
    found = prior_weights(agent, starter)
    pack = [4] * 13
    if starter is not None:
        pack[starter] = 3
    assert differ(found, dealt_weights(4, tuple(pack))) < 1e-12
    assert (prior_weights("uniform", starter) == dealt_weights(4, tuple(pack))).all()


@pytest.mark.slow
def test_seats_and_threads() -> None:
    """Swapping what both throw swaps the players; threads change no byte."""
    one, other = random_discards(3, 1), random_discards(4, 2)
    found = joint_weights(one, other, threads=1)
    assert found.tobytes() == joint_weights(one, other, threads=2).tobytes()
    assert differ(found.T, joint_weights(other, one)) < 1e-15
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    assert found.sum(axis=1) == pytest.approx(marginal_of_discards(one), abs=1e-12)
    assert found.sum(axis=0) == pytest.approx(marginal_of_discards(other), abs=1e-12)
    # all ranks come up as often: the mean over known starters is what there is without
    known = np.mean([joint_weights(one, other, starter) for starter in range(13)], axis=0)
    assert differ(known, found) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("starter", [None, 4])
def test_the_prior_of_expected_against_deals(starter: int | None) -> None:
    """200,000 deals (or those with that starter of 1,000,000): each player's hands, and coarse cells of both."""
    agent = make_agent("expected")
    weights = prior_weights(agent, starter)
    rng = np.random.default_rng(7)
    cards = deal(rng, 200_000 if starter is None else 1_000_000, 13)
    if starter is not None:
        cards = cards[cards[:, 12] // 4 == starter]
    deals = len(cards)
    assert deals > 70_000
    pone = kept_hands(agent, cards[:, :6], False, rng)
    dealer = kept_hands(agent, cards[:, 6:12], True, rng)
    for hands, expected in ((pone, weights.sum(axis=1)), (dealer, weights.sum(axis=0))):
        counts = np.bincount(hands, minlength=1820)
        common = expected * deals >= 10
        observed = np.append(counts[common], counts[~common].sum())
        test = stats.chisquare(observed, deals * np.append(expected[common], expected[~common].sum()))
        assert test.pvalue > 1e-3
    of_rank = rank_counts(hand_tables().ranks[4])
    for rank in (0, 4, 10):  # how many of a rank both keep
        group = np.minimum(of_rank[:, rank], 2)
        expected_cells = np.zeros((3, 3))
        np.add.at(expected_cells, (group[:, None], group[None, :]), weights)
        cells = np.bincount(3 * group[pone] + group[dealer], minlength=9)
        expected_counts = expected_cells.ravel() * deals
        can_be = expected_counts > 0  # not if the two hold four fives, and the starter is one
        assert not cells[~can_be].any()
        assert expected_counts[can_be].min() > 5
        assert stats.chisquare(cells[can_be], expected_counts[can_be]).pvalue > 1e-3


@pytest.mark.parametrize(
    ("cards", "pack"),
    [(2, (4,) * 13), *plain_trees.SMALL_GAMES, (4, (0, 2, 1, 0, 0, 3, 0, 2, 0, 0, 0, 1, 1))],
)
def test_dealt_weights(cards: int, pack: tuple[int, ...]) -> None:
    """Two hands dealt from a pack, by dealing all cards of it."""
    weights = dealt_weights(cards, pack)
    expected = np.zeros_like(weights)
    numbers = hand_numbers()[cards]
    for pone, dealer in plain_trees.dealt_pairs(cards, pack):
        ways = prod(comb(pack[rank], pone.count(rank)) for rank in range(13))
        ways *= prod(comb(pack[rank] - pone.count(rank), dealer.count(rank)) for rank in range(13))
        expected[numbers[pone], numbers[dealer]] = ways
    assert expected.sum() == comb(sum(pack), cards) * comb(sum(pack) - cards, cards)
    assert differ(weights, expected / expected.sum()) < 1e-15
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert differ(weights, weights.T) < 1e-15


def test_dealt_weights_card_by_card() -> None:
    """The same with every card dealt, from a pack of eight."""
    pack = (2, 0, 1, 0, 3, 0, 0, 0, 0, 2, 0, 0, 0)
    cards = [rank for rank in range(13) for _ in range(pack[rank])]
    found: Counter[tuple[int, int]] = Counter()
    numbers = hand_numbers()[2]
    for pone in combinations(range(len(cards)), 2):
        for dealer in combinations([place for place in range(len(cards)) if place not in pone], 2):
            found[numbers[tuple(cards[i] for i in pone)], numbers[tuple(cards[i] for i in dealer)]] += 1
    weights = dealt_weights(2, pack)
    assert (weights > 0).sum() == len(found)
    for (pone_hand, dealer_hand), ways in found.items():
        assert weights[pone_hand, dealer_hand] == pytest.approx(ways / sum(found.values()), abs=1e-15)


def test_compatible_pairs() -> None:
    assert (dealt_weights() > 0).sum() == 3_274_375
    assert ((dealt_weights() > 0).any(axis=1)).sum() == 1_820


def test_training_weights() -> None:
    """Every pair that can be dealt has some weight, what is usual keeps nearly all of it, and 0 changes nothing."""
    dealt_at_random = dealt_weights()
    weights = dealt_at_random * (np.random.default_rng(0).random((1820, 1820)) ** 4)
    weights[::3] = 0.0  # hands that are never kept
    weights[:, 1::4] = 0.0
    weights /= weights.sum()
    assert differ(training_weights(weights, 0.0), weights) < 1e-18
    for share in (0.01, 0.2):
        trained = training_weights(weights, share)
        assert trained.sum() == pytest.approx(1.0, abs=1e-12)
        assert ((trained > 0) == (dealt_at_random > 0)).all()
        assert abs(trained - weights).sum() < 2 * (2 * share + share**2)
        # the chance of a hand that is never kept, beside one that is dealt as often at random
        never, other = 0, 3
        assert weights[[never, other]].sum() == 0
        ratio = trained[never].sum() / trained[other].sum()
        assert ratio == pytest.approx(dealt_at_random[never].sum() / dealt_at_random[other].sum(), rel=0.3)
        # never met by both: of the order of the share squared
        both = trained[::3][:, 1::4].sum()
        assert both == pytest.approx((share / (1 + share)) ** 2 * dealt_at_random[::3][:, 1::4].sum(), rel=0.15)


def test_training_weights_of_a_small_pack() -> None:
    cards, pack = plain_trees.SMALL_GAMES[2]
    weights, _ = plain_trees.random_weights(cards, pack, 0)
    trained = training_weights(weights, 0.05, dealt_weights(cards, pack))
    assert trained.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((trained > 0) == (dealt_weights(cards, pack) > 0)).all()


class _Answers(Agent):
    def __init__(self, answer: Floats) -> None:
        self.answer = answer
        super().__init__("strange")

    def policy(self, observations: Observations, masks: Masks) -> Floats:
        return self.answer


def test_policies_that_are_none() -> None:
    masks = np.zeros((2, 19), np.int8)
    masks[:, 15:17] = 1
    good = masks / 2
    observations = np.zeros((2, OBSERVATION_SIZE), np.uint8)
    assert (checked_policy(_Answers(good), observations, masks) == good).all()
    illegal = good.copy()
    illegal[0, 15], illegal[0, 0] = 0.0, 0.5
    negative = good.copy()
    negative[1, 15:17] = [-0.5, 1.5]
    missing = good.copy()
    missing[0, 16] = np.nan
    for bad in (good * 2, illegal, negative, missing, good * 0):
        with pytest.raises(AgentError, match="the agent 'strange': the rows of a policy are probabilities"):
            checked_policy(_Answers(bad), observations, masks)
    for bad in (good[:1], good[:, :15], good[0], np.array(1.0)):
        with pytest.raises(AgentError, match=r"the agent 'strange': policy must be \(2, 19\), got"):
            checked_policy(_Answers(bad), observations, masks)


def test_an_unknown_prior() -> None:
    with pytest.raises(AgentError, match="a prior is an agent or 'uniform', got 'unifrom'"):
        prior_weights("unifrom")
