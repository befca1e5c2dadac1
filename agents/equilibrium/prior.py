"""The joint distribution of the two kept hands, by ranks, when both players discard as an agent does.

All 18,395 multisets of six ranks are taken against each other, with the number of ways to deal them as weights. What
an agent throws also depends on suits (flushes, nobs): its policy is averaged over all suits of a six-card hand, one
hand of each class that differs by a permutation of the suits standing for its class (962,988 classes). What is
approximate is that the suits of the two hands are taken as independent given their ranks, and that the agent throws as
it does at the start of a game, at 0-0.
"""

from __future__ import annotations

import functools
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent
from agents.equilibrium.hands import MAX_COPIES, NUM_HANDS, hand_numbers, hand_tables, pack, possible
from agents.registry import AgentError
from cribbage_env.cards import NUM_CARDS, NUM_RANKS
from cribbage_env.engine import (
    EVENT_SIZE,
    KEPT_PLACES,
    NUM_ACTIONS,
    NUM_DISCARDS,
    STATE_SIZE,
    apply,
    deal_fixed,
    new_game,
    rule_numbers,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.rules import Rules
from cribbage_env.scoring import show_table

UNIFORM = "uniform"
"""The prior in which every hand of four cards is as likely as it is dealt."""

_BATCH = 1 << 15
_CHUNKS = 16  # of the sum over pairs of hands: so many whatever the threads, so that the result is the same
LEAST = 1e-9
"""A discard less likely than this counts as never made."""

WAYS = np.zeros((MAX_COPIES + 1, MAX_COPIES + 1))
"""(5, 5): C(4 - n, k), how many sets of k cards there are of a rank of which n are gone."""
for _n in range(MAX_COPIES + 1):
    WAYS[_n, 0] = 1.0
    for _k in range(1, MAX_COPIES - _n + 1):
        WAYS[_n, _k] = WAYS[_n, _k - 1] * (MAX_COPIES - _n - _k + 1) / _k


class SixHands(NamedTuple):
    """All multisets of six ranks with at most four of a rank."""

    ranks: NDArray[np.int8]
    """(18395, 6), ascending."""
    packed: NDArray[np.uint64]
    """(18395,): how many of each rank, four bits a rank."""
    kept: NDArray[np.int16]
    """(18395, 15): the hand of four that a discard action keeps."""


@functools.cache
def six_hands() -> SixHands:
    """The six-card hands by rank, in lexicographic order."""
    sixes = [
        ranks
        for ranks in combinations_with_replacement(range(NUM_RANKS), 6)
        if all(ranks[i] != ranks[i + 4] for i in range(2))
    ]
    numbers = hand_numbers()[4]
    kept = [[numbers[tuple(six[place] for place in places)] for places in KEPT_PLACES.tolist()] for six in sixes]
    return SixHands(
        np.array(sixes, np.int8), np.array([pack(six) for six in sixes], np.uint64), np.array(kept, np.int16)
    )


@jit
def _suit_classes(
    ranks: NDArray[np.int8], hands: NDArray[np.uint8], number: NDArray[np.int32], weight: NDArray[np.int64]
) -> int:
    """Write one hand (C, 6) of each class of suits, its row in ``ranks``, and how many hands it stands for.

    A class is written in the order of suits in which the sets of ranks held in each suit, as numbers, do not increase.
    With empty arrays they are only counted. Returns C.
    """
    masks = np.zeros(4, np.int64)
    suits = np.zeros(6, np.int64)
    down = np.zeros(6, np.bool_)  # whether the card is in its suit's mask
    found = 0
    for six in range(ranks.shape[0]):
        place = 0
        suits[0] = -1
        masks[:] = 0
        while place >= 0:  # the suits of the six cards, counted up like digits; those of one rank ascend
            rank = ranks[six, place]
            if down[place]:
                masks[suits[place]] ^= 1 << rank
                down[place] = False
            suits[place] += 1
            if suits[place] > 3:
                place -= 1
                continue
            masks[suits[place]] ^= 1 << rank
            down[place] = True
            if place < 5:
                place += 1
                suits[place] = suits[place - 1] if ranks[six, place] == rank else -1
                continue
            if masks[0] >= masks[1] >= masks[2] >= masks[3]:
                if hands.shape[0] > 0:
                    for i in range(6):
                        hands[found, i] = 4 * ranks[six, i] + suits[i]
                    number[found] = six
                    orders = 24
                    equal = 1
                    for suit in range(1, 4):
                        equal = equal + 1 if masks[suit] == masks[suit - 1] else 1
                        orders //= equal
                    weight[found] = orders
                found += 1
    return found


@functools.cache
def suit_classes() -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int64]]:
    """One six-card hand of each class: cards (C, 6) uint8, its row in :func:`six_hands` and the class's size (C,)."""
    ranks = six_hands().ranks
    count = _suit_classes(ranks, np.zeros((0, 6), np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64))
    hands, number, weight = np.zeros((count, 6), np.uint8), np.zeros(count, np.int32), np.zeros(count, np.int64)
    _suit_classes(ranks, hands, number, weight)
    return hands, number, weight


@inline_jit
def _other_cards(hand: NDArray[np.uint8], deck: NDArray[np.int16], at: int, n: int) -> None:
    """Write the first n cards that are not among the six to ``deck[at:]``."""
    card = 0
    for i in range(n):
        taken = True
        while taken:
            taken = False
            for j in range(6):
                taken = taken or hand[j] == card
            card += 1
        deck[at + i] = card - 1


@jit
def _write_discards(
    table: NDArray[np.int8],
    hands: NDArray[np.uint8],
    is_dealer: bool,
    target: int,
    skunk: int,
    double_skunk: int,
    observations: NDArray[np.uint8],
    masks: NDArray[np.int8],
) -> None:
    """What a player sees who has just been dealt each of the hands (B, 6) at the start of a game."""
    row = np.zeros(STATE_SIZE, np.int16)
    deck = np.zeros(13, np.int16)
    log = np.zeros((0, EVENT_SIZE), np.int16)
    own = 6 if is_dealer else 0
    for b in range(hands.shape[0]):
        for i in range(6):
            deck[own + i] = hands[b, i]
        _other_cards(hands[b], deck, 6 - own, 6)
        deck[12] = NUM_CARDS  # not cut yet
        new_game(row, target, skunk, double_skunk, 1, 0, 0)
        deal_fixed(row, deck)
        if is_dealer:
            apply(table, row, 0, log)
        seat = 1 if is_dealer else 0
        write_observation(row, seat, observations[b])
        write_mask(row, seat, masks[b])


def class_policy(agent: Agent, is_dealer: bool) -> NDArray[np.float32]:
    """What an agent throws from each hand of :func:`suit_classes`: (C, 15) float32, by action.

    Raises:
        AgentError: the agent's ``policy`` does not return probabilities.
    """
    hands = suit_classes()[0]
    policy = np.zeros((len(hands), NUM_DISCARDS), np.float32)
    observations = np.zeros((_BATCH, OBSERVATION_SIZE), np.uint8)
    masks = np.zeros((_BATCH, NUM_ACTIONS), np.int8)
    for start in range(0, len(hands), _BATCH):
        part = slice(start, min(start + _BATCH, len(hands)))
        size = part.stop - part.start
        _write_discards(show_table(), hands[part], is_dealer, *rule_numbers(Rules()), observations[:size], masks[:size])
        policy[part] = checked_policy(agent, observations[:size], masks[:size])[:, :NUM_DISCARDS]
    return policy


def discard_policy(by_class: NDArray[np.floating]) -> NDArray[np.float64]:
    """A :func:`class_policy` averaged over the suits of each six-card hand by rank: (18395, 15) float64, by action."""
    _, number, weight = suit_classes()
    sixes = len(six_hands().ranks)
    total = np.stack([np.bincount(number, weight * by_class[:, action], sixes) for action in range(NUM_DISCARDS)], 1)
    normalised: NDArray[np.float64] = total / total.sum(axis=1, keepdims=True)
    return normalised


def checked_policy(agent: Agent, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
    """``agent.policy``, if it is one.

    Raises:
        AgentError: it has another shape, negative entries or rows that do not sum to 1.
    """
    policy = np.asarray(agent.policy(observations, masks), np.float64)
    if policy.shape != masks.shape:
        raise AgentError(f"the agent {agent.name!r}: policy must be {masks.shape}, got {policy.shape}")
    sums = (policy * masks).sum(axis=1)
    if not (policy >= 0).all() or not np.allclose(sums, 1.0, atol=1e-5):
        raise AgentError(
            f"the agent {agent.name!r}: the rows of a policy are probabilities of the legal actions and sum to 1, "
            f"got {policy.min():.3g} as the least and sums from {sums.min():.6g} to {sums.max():.6g}"
        )
    return policy


@jit
def _add_pairs(
    begin: int,
    end: int,
    packed: NDArray[np.uint64],
    ranks: NDArray[np.int8],
    ways: NDArray[np.float64],
    starter: int,
    pone_first: NDArray[np.int64],
    pone_kept: NDArray[np.int16],
    pone_policy: NDArray[np.float64],
    dealer_first: NDArray[np.int64],
    dealer_kept: NDArray[np.int16],
    dealer_policy: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> None:
    """Add the pairs of six-card hands of pone ``begin..end - 1`` with all of dealer's to the weights (1820, 1820).

    What each keeps is listed from ``first[six]`` up to ``first[six + 1]``: the hand of four and its probability.
    """
    for pone in range(begin, end):
        own = 1.0
        for rank in range(13):
            own *= ways[0, np.int64(packed[pone] >> np.uint64(4 * rank)) & 15]
        for dealer in range(len(packed)):
            together = packed[pone] + packed[dealer]
            if not possible(packed[pone], packed[dealer], 0, 0):  # more than four cards of a rank
                continue
            ways_to_deal = own
            i = 0
            while i < 6:
                rank = ranks[dealer, i]
                n = 1
                while i + n < 6 and ranks[dealer, i + n] == rank:
                    n += 1
                ways_to_deal *= ways[np.int64(packed[pone] >> np.uint64(4 * rank)) & 15, n]
                i += n
            if starter >= 0:
                ways_to_deal *= 4 - (np.int64(together >> np.uint64(4 * starter)) & 15)
            for a in range(pone_first[pone], pone_first[pone + 1]):
                for b in range(dealer_first[dealer], dealer_first[dealer + 1]):
                    weights[pone_kept[a], dealer_kept[b]] += ways_to_deal * pone_policy[a] * dealer_policy[b]


def _kept_lists(policy: NDArray[np.float64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """A discard policy (18395, 15) as lists of hands kept with probabilities: first (18396,), hands, probabilities."""
    kept = six_hands().kept
    six = np.repeat(np.arange(len(kept)), NUM_DISCARDS)
    key = six * NUM_HANDS[4] + kept.ravel().astype(np.int64)
    different, which = np.unique(key, return_inverse=True)
    probability = np.bincount(which, weights=policy.ravel())
    used = probability > LEAST
    different, probability = different[used], probability[used]
    first = np.searchsorted(different // NUM_HANDS[4], np.arange(len(kept) + 1))
    return first.astype(np.int64), (different % NUM_HANDS[4]).astype(np.int16), probability


def joint_weights(
    pone_policy: NDArray[np.float64],
    dealer_policy: NDArray[np.float64],
    starter: int | None = None,
    threads: int | None = None,
) -> NDArray[np.float64]:
    """The joint distribution (1820, 1820) float64 of pone's and dealer's kept hands; it sums to 1.

    Args:
        pone_policy, dealer_policy: (18395, 15) float64, what both throw (:func:`discard_policy`).
        starter: the rank of the starter, if it is known: its card is in neither of the six.
        threads: None: one a core. They don't change the result.
    """
    sixes = six_hands()
    pone, dealer = _kept_lists(pone_policy), _kept_lists(dealer_policy)
    bounds = np.linspace(0, len(sixes.ranks), _CHUNKS + 1).astype(np.int64)

    def chunk(number: int) -> NDArray[np.float64]:
        weights = np.zeros((NUM_HANDS[4], NUM_HANDS[4]))
        _add_pairs(
            bounds[number], bounds[number + 1], sixes.packed, sixes.ranks, WAYS, -1 if starter is None else starter,
            *pone, *dealer, weights,
        )  # fmt: skip
        return weights

    total = np.zeros((NUM_HANDS[4], NUM_HANDS[4]))
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        for weights in pool.map(chunk, range(_CHUNKS)):
            total += weights
    return total / total.sum()


@functools.cache
def dealt_weights(cards: int = 4, copies: tuple[int, ...] = (MAX_COPIES,) * NUM_RANKS) -> NDArray[np.float64]:
    """The joint distribution (H, H) of two hands of so many cards dealt at random from a pack.

    Args:
        cards: in a hand, 2 to 4.
        copies: (13,) how many cards of each rank the pack has.
    """
    packed = hand_tables().packed[cards, : NUM_HANDS[cards]]
    counts = np.stack([(packed >> np.uint64(4 * rank)) & np.uint64(15) for rank in range(NUM_RANKS)], 1).astype(
        np.int64
    )
    weights = np.ones((len(packed), len(packed)))
    for rank in range(NUM_RANKS):
        gone = MAX_COPIES - copies[rank]
        pone = np.minimum(gone + counts[:, rank], MAX_COPIES)
        weights *= np.where(counts[:, rank] <= copies[rank], WAYS[gone, counts[:, rank]], 0.0)[:, None]
        weights *= WAYS[pone[:, None], counts[None, :, rank]]
    return weights / weights.sum()


def prior_weights(agent: Agent | str, starter: int | None = None, threads: int | None = None) -> NDArray[np.float64]:
    """The joint distribution (1820, 1820) of kept hands if both players discard as an agent; or :data:`UNIFORM`.

    Args:
        agent: whose discards; or ``"uniform"``: both keep four cards at random.
        starter: the rank of the starter, if it is known.
    """
    if isinstance(agent, str):
        if agent != UNIFORM:
            raise AgentError(f"a prior is an agent or {UNIFORM!r}, got {agent!r}")
        copies = [MAX_COPIES] * NUM_RANKS
        if starter is not None:
            copies[starter] -= 1
        return dealt_weights(4, tuple(copies))
    throws = [discard_policy(class_policy(agent, is_dealer)) for is_dealer in (False, True)]
    return joint_weights(throws[0], throws[1], starter, threads)


def training_weights(
    weights: NDArray[np.float64], share: float, dealt_at_random: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """A distribution (H, H) to learn with: one in which every hand that can be dealt has some weight.

    A hand that is never kept gets the weight ``share`` of one dealt at random, against the other player's usual hands,
    and ``share`` squared against those that it never keeps. So what is learned for it is an answer to what is usual,
    and what is learned for the usual hands is changed by little more than ``share``.

    Args:
        weights: (H, H) the joint distribution of kept hands.
        share: 0 to 1; 0 leaves the distribution as it is.
        dealt_at_random: (H, H) that of random hands; None: :func:`dealt_weights`.
    """
    random = dealt_weights() if dealt_at_random is None else dealt_at_random
    pone = np.divide(weights.sum(axis=1), random.sum(axis=1), where=random.sum(axis=1) > 0, out=np.zeros(len(weights)))
    dealer = np.divide(
        weights.sum(axis=0), random.sum(axis=0), where=random.sum(axis=0) > 0, out=np.zeros(len(weights))
    )
    mixed = weights + share * random * (pone[:, None] + dealer[None, :] + share)
    normalised: NDArray[np.float64] = mixed / mixed.sum()
    return normalised
