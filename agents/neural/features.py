"""What the networks see: for every legal action, the situation that follows it as a few active features.

The value of an action is the value of its afterstate, so features are made for *candidates*: an observation with one of
its legal actions. They are sparse and binary. A network's :class:`FeatureSet` has slots, and a candidate has exactly
one active feature in each of them, given as an index; the network sums the embeddings of the active ones. Ranks carry
nearly everything in cribbage; suits enter through the pair thrown and the exact average of the hand. Tried, and without
effect on strength: how many cards of each rank are unseen, the mean points of the opponent's replies.

The first cards of the play are met so often that each such situation, with the hand left, has a weight of its own in
the network's output: a ``wide`` feature (H.-T. Cheng et al., "Wide & deep learning for recommender systems", 2016). For
both players' first cards and pone's second that is the whole situation, for the dealer's second all but the own first
card and the order of pone's two. Later plays, and discards, have none.

Beside the features stand numbers that are ``known``: points that can be counted without a network. Of a discard they
are the kept hand's mean over all starters and the crib's published average by the ranks thrown (negative if it is the
opponent's), of a play the points of the card at once (without go and last card).

Cards of one rank are one choice in the play, and only the first of them is a candidate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.base import Masks, Observations
from agents.discards import STARTERS, count_left, crib_table, hand_sum
from agents.greedy import points_now
from cribbage_env.engine import DISCARD, FIRST_PLAY, KEPT_PLACES, NUM_DISCARDS, PAIRS, PLAY
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_CARDS,
    AT_COUNT,
    AT_COUNT_BEGIN,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LAID,
    AT_LAID_BY,
    AT_LAID_COUNT,
    AT_LAID_GO,
    AT_LEFT,
    AT_NUM_LAID,
    AT_OPPONENT_LEFT,
    AT_OPPONENT_SCORE,
    AT_PHASE,
    AT_SCORE,
    AT_TARGET,
    OPPONENT,
)
from cribbage_env.scoring import MAX_COUNT, card_value, show_table

FEATURES_VERSION = 3
"""Goes up with every change of what an index means; stored in checkpoints."""

_SITUATION = 9  # slots that are the same for all plays of an observation
_NO_RANK = 13  # in slots for a rank: no card there
_HANDS_OF_4 = 1820  # multisets of four ranks: C(16, 4)
_HANDS_OF_2, _HANDS_OF_3 = 91, 455
_HANDS_TO_3 = 1 + 13 + _HANDS_OF_2 + _HANDS_OF_3  # multisets of up to three ranks
_MAX_NEEDS = 121  # points to the target above this look the same
_BUCKET = 8  # points in a bucket of the joint feature of both scores
_BUCKETS = _MAX_NEEDS // _BUCKET + 1


@dataclass(frozen=True)
class FeatureSet:
    """The features of a network.

    Args:
        slots: name -> (how many slots, how many features in each of them); exactly one feature of a slot is active.
        wide: how many wide features there are; the first of them stands for none.
        known: how many numbers are known of a candidate.
    """

    slots: Mapping[str, tuple[int, int]]
    wide: int
    known: int

    @property
    def active(self) -> int:
        """K, how many features a candidate has beside the wide one: the number of slots."""
        return sum(count for count, _ in self.slots.values())

    @property
    def size(self) -> int:
        """How many different features there are, without the wide ones: an index is below this."""
        return sum(count * values for count, values in self.slots.values())

    def first(self, name: str) -> int:
        """The first index of the slots with a name."""
        at = 0
        for other, (count, values) in self.slots.items():
            if other == name:
                return at
            at += count * values
        raise KeyError(name)


_SCORE_SLOTS = {
    "own_needs": (1, _MAX_NEEDS + 1),  # points to the target
    "opponent_needs": (1, _MAX_NEEDS + 1),
    "both_need": (1, _BUCKETS * _BUCKETS),  # the same in buckets of eight, jointly
}
_DISCARD_SLOTS = {
    "thrown": (1, 2 * 13 * 13 * 2),  # whose crib x ranks of the two cards x whether they are of a suit
    "kept": (1, 2 * _HANDS_OF_4),  # whose crib x all four kept ranks together
    "kept_rank": (4, 2 * 13),  # whose crib x rank, card by card
}
_PLAY_SLOTS = {
    "opponent_laid": (4, 14),  # ranks that the opponent laid in this deal, in order
    "own_laid": (3, 14),  # ranks that the player itself laid before: what the opponent knows of its hand
    "opponent_lacks": (1, 11),  # a go tells that the opponent holds no card of this value or less
    "seats": (1, 5 * 2),  # cards that the opponent holds x who deals
    "hand": (1, _HANDS_TO_3),  # ranks of the cards left in hand, together
    "hand_rank": (3, 14),  # the same card by card
    "count": (1, (MAX_COUNT + 1) * 5 * 2),  # the count x cards that the opponent holds x whether they said go
    "top": (1, 14 * 14 * 14),  # ranks of the last three cards of the count, together
    "below": (4, 14),  # ranks of the four under them
}


# Wide features of plays: 0, then by how many cards were laid before
_WIDE_LEAD = 1  # the card led x the three left
_WIDE_REPLY = _WIDE_LEAD + 13 * _HANDS_OF_3  # the lead x the card x the three left
_WIDE_THIRD = _WIDE_REPLY + 13 * 13 * _HANDS_OF_3  # the lead x the reply x the card x the two left
_WIDE_FOURTH = _WIDE_THIRD + 13 * 13 * 13 * _HANDS_OF_2  # the opponent's two cards x the card x the two left
_WIDE = _WIDE_FOURTH + _HANDS_OF_2 * 13 * _HANDS_OF_2


def discard_features(scores: bool) -> FeatureSet:
    """The features of discards, with or without those of the scores."""
    return FeatureSet(_DISCARD_SLOTS | (_SCORE_SLOTS if scores else {}), wide=1, known=2)


def play_features(scores: bool) -> FeatureSet:
    """The features of plays, with or without those of the scores."""
    return FeatureSet(_PLAY_SLOTS | (_SCORE_SLOTS if scores else {}), wide=_WIDE, known=1)


# First indices as constants, for kernels
_DISCARD, _PLAY = discard_features(scores=True), play_features(scores=True)
_THROWN, _KEPT, _KEPT_RANK = (_DISCARD.first(name) for name in ("thrown", "kept", "kept_rank"))
_OPPONENT_LAID, _OWN_LAID, _OPPONENT_LACKS, _SEATS, _HAND, _HAND_RANK, _COUNT, _TOP, _BELOW = (
    _PLAY.first(name) for name in _PLAY_SLOTS
)
_DISCARD_SCORES, _PLAY_SCORES = _DISCARD.first("own_needs"), _PLAY.first("own_needs")
_DISCARD_ACTIVE, _PLAY_ACTIVE = discard_features(scores=False).active, play_features(scores=False).active
_OPPONENT_NEEDS, _BOTH_NEED = _MAX_NEEDS + 1, 2 * (_MAX_NEEDS + 1)  # after the first feature of the scores


@dataclass(frozen=True)
class Candidates:
    """R candidates, those of an observation next to each other and in order of their actions."""

    rows: NDArray[np.int64]
    """(R,): whose observation it is."""
    actions: NDArray[np.int64]
    """(R,)"""
    features: NDArray[np.int32]
    """(R, K + 1): the index of the active feature of every slot, and of the wide one."""
    known: NDArray[np.float32]
    """(R, k) points, see the module."""

    def __len__(self) -> int:
        return len(self.rows)

    def bounds(self) -> NDArray[np.int64]:
        """(S + 1,) of the S observations that have candidates: the s-th one's are entries from s to s + 1."""
        changes = np.flatnonzero(np.diff(self.rows)) + 1
        return np.concatenate([[0], changes, [len(self.rows)] if len(self.rows) else []]).astype(np.int64)

    def chosen(self, actions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which candidates are the actions (B,) taken: their places, in the order of their observations."""
        return np.flatnonzero(self.actions == actions[self.rows])


@inline_jit
def _write_scores(observation: NDArray[np.uint8], first: int, out: NDArray[np.int32], slot: int) -> None:
    target = int(observation[AT_TARGET])
    own = min(target - int(observation[AT_SCORE]), _MAX_NEEDS)
    other = min(target - int(observation[AT_OPPONENT_SCORE]), _MAX_NEEDS)
    out[slot] = first + own
    out[slot + 1] = first + _OPPONENT_NEEDS + other
    out[slot + 2] = first + _BOTH_NEED + (own // _BUCKET) * _BUCKETS + other // _BUCKET


@inline_jit
def hand_of_4(a: int, b: int, c: int, d: int) -> int:
    """The number 0..1819 of a multiset of ranks a <= b <= c <= d (the combinatorial number system)."""
    return a + (b + 1) * b // 2 + (c + 2) * (c + 1) * c // 6 + (d + 3) * (d + 2) * (d + 1) * d // 24


@jit(_nrt=False)
def _write_discards(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observations: Observations,
    which: NDArray[np.int64],
    scores: bool,
    features: NDArray[np.int32],
    known: NDArray[np.float32],
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
) -> None:
    for i in range(which.shape[0]):
        observation = observations[which[i]]
        cards = observation[AT_CARDS : AT_CARDS + 6]
        own = int(observation[AT_IS_DEALER])
        count_left(cards, ranks_left, suits_left)
        for action in range(NUM_DISCARDS):
            out = features[i * NUM_DISCARDS + action]
            c0 = int(cards[KEPT_PLACES[action, 0]])
            c1 = int(cards[KEPT_PLACES[action, 1]])
            c2 = int(cards[KEPT_PLACES[action, 2]])
            c3 = int(cards[KEPT_PLACES[action, 3]])
            first = int(cards[PAIRS[action, 0]])
            second = int(cards[PAIRS[action, 1]])
            suited = int(first & 3 == second & 3)
            out[0] = _THROWN + ((own * 13 + (first >> 2)) * 13 + (second >> 2)) * 2 + suited
            out[1] = _KEPT + own * _HANDS_OF_4 + hand_of_4(c0 >> 2, c1 >> 2, c2 >> 2, c3 >> 2)
            out[2] = _KEPT_RANK + own * 13 + (c0 >> 2)
            out[3] = _KEPT_RANK + 26 + own * 13 + (c1 >> 2)
            out[4] = _KEPT_RANK + 52 + own * 13 + (c2 >> 2)
            out[5] = _KEPT_RANK + 78 + own * 13 + (c3 >> 2)
            if scores:
                _write_scores(observation, _DISCARD_SCORES, out, _DISCARD_ACTIVE)
            out[out.shape[0] - 1] = 0
            points = hand_sum(table, c0, c1, c2, c3, ranks_left, suits_left)
            known[i * NUM_DISCARDS + action, 0] = points / STARTERS
            crib = cribs[own, first >> 2, second >> 2]
            known[i * NUM_DISCARDS + action, 1] = crib if own else -crib


@inline_jit
def _write_situation(observation: NDArray[np.uint8], out: NDArray[np.int32]) -> int:
    """Write what is the same for all plays of an observation, slots 0 to 8; whether the opponent said go: 0 or 1."""
    opponent_laid = 0
    own_laid = 0
    lacks = 0
    said_go = 0
    for i in range(int(observation[AT_NUM_LAID])):
        if observation[AT_LAID_BY + i] == OPPONENT:
            rank = int(observation[AT_LAID + i]) >> 2
            out[opponent_laid] = _OPPONENT_LAID + 14 * opponent_laid + rank
            opponent_laid += 1
            continue
        out[4 + own_laid] = _OWN_LAID + 14 * own_laid + (int(observation[AT_LAID + i]) >> 2)
        own_laid += 1
        if observation[AT_LAID_GO + i]:  # said by the player who had not laid the card: the opponent
            lacks = max(lacks, min(MAX_COUNT - int(observation[AT_LAID_COUNT + i]), 10))
            if i >= observation[AT_COUNT_BEGIN]:
                said_go = 1
    for i in range(opponent_laid, 4):
        out[i] = _OPPONENT_LAID + 14 * i + _NO_RANK
    for i in range(own_laid, 3):
        out[4 + i] = _OWN_LAID + 14 * i + _NO_RANK
    out[7] = _OPPONENT_LACKS + lacks
    out[8] = _SEATS + 2 * int(observation[AT_OPPONENT_LEFT]) + int(observation[AT_IS_DEALER])
    return said_go


@inline_jit
def _write_play(observation: NDArray[np.uint8], slot: int, said_go: int, out: NDArray[np.int32]) -> None:
    """Write what laying the card in a slot makes of the hand, the count and its cards: slots 9 to 18, and the wide."""
    held = 0
    number = 0  # of the multiset: that of its size, as in hand_of_4, after all smaller ones
    for other in range(4):
        if other != slot and observation[AT_LEFT + other]:
            rank = int(observation[AT_KEPT + other]) >> 2
            out[10 + held] = _HAND_RANK + 14 * held + rank
            if held == 0:
                number = 1 + rank
            elif held == 1:
                number += 13 + (rank + 1) * rank // 2
            else:
                number += 91 + (rank + 2) * (rank + 1) * rank // 6
            held += 1
    for i in range(held, 3):
        out[10 + i] = _HAND_RANK + 14 * i + _NO_RANK
    out[9] = _HAND + number

    card = int(observation[AT_KEPT + slot])
    count = int(observation[AT_COUNT]) + card_value(card)
    out[13] = _COUNT + (5 * count + int(observation[AT_OPPONENT_LEFT])) * 2 + said_go
    laid = int(observation[AT_NUM_LAID])
    begin = int(observation[AT_COUNT_BEGIN])
    top = card >> 2
    if count == MAX_COUNT:  # the next card begins a new count
        begin = laid
        top = _NO_RANK
    for depth in range(1, 7):
        rank = int(observation[AT_LAID + laid - depth]) >> 2 if laid - depth >= begin else _NO_RANK
        if depth <= 2:
            top = 14 * top + rank
        else:
            out[12 + depth] = _BELOW + 14 * (depth - 3) + rank
    out[14] = _TOP + top

    wide = 0
    rank = card >> 2
    if laid == 0:
        wide = _WIDE_LEAD + rank * _HANDS_OF_3 + number - (_HANDS_TO_3 - _HANDS_OF_3)
    elif laid == 1:
        lead = int(observation[AT_LAID]) >> 2
        wide = _WIDE_REPLY + (lead * 13 + rank) * _HANDS_OF_3 + number - (_HANDS_TO_3 - _HANDS_OF_3)
    elif laid == 2:
        lead, reply = int(observation[AT_LAID]) >> 2, int(observation[AT_LAID + 1]) >> 2
        wide = _WIDE_THIRD + ((lead * 13 + reply) * 13 + rank) * _HANDS_OF_2 + number - 14
    elif laid == 3 and held == 2:
        first, second = int(observation[AT_LAID]) >> 2, int(observation[AT_LAID + 2]) >> 2  # pone's: nobody said go yet
        low, high = min(first, second), max(first, second)
        pair = (high + 1) * high // 2 + low
        wide = _WIDE_FOURTH + (pair * 13 + rank) * _HANDS_OF_2 + number - 14
    out[out.shape[0] - 1] = wide


@inline_jit
def first_of_rank(observation: NDArray[np.uint8], mask: NDArray[np.int8], slot: int) -> bool:
    """Whether the kept card in a slot may be laid and none before it of the same rank."""
    if mask[FIRST_PLAY + slot] == 0:
        return False
    for before in range(slot):
        if mask[FIRST_PLAY + before] and observation[AT_KEPT + before] >> 2 == observation[AT_KEPT + slot] >> 2:
            return False
    return True


@jit(_nrt=False)
def _count_plays(observations: Observations, masks: Masks, which: NDArray[np.int64]) -> int:
    plays = 0
    for i in which:
        for slot in range(4):
            plays += first_of_rank(observations[i], masks[i], slot)
    return plays


@jit(_nrt=False)
def _write_plays(
    observations: Observations,
    masks: Masks,
    which: NDArray[np.int64],
    scores: bool,
    rows: NDArray[np.int64],
    actions: NDArray[np.int64],
    features: NDArray[np.int32],
    known: NDArray[np.float32],
    laid: NDArray[np.uint8],
    situation: NDArray[np.int32],
) -> None:
    at = 0
    for i in range(which.shape[0]):
        observation = observations[which[i]]
        said_go = _write_situation(observation, situation)
        for place in range(4):
            if first_of_rank(observation, masks[which[i]], place):
                out = features[at]
                for slot in range(_SITUATION):
                    out[slot] = situation[slot]
                _write_play(observation, place, said_go, out)
                if scores:
                    _write_scores(observation, _PLAY_SCORES, out, _PLAY_ACTIVE)
                rows[at] = which[i]
                actions[at] = FIRST_PLAY + place
                known[at, 0] = points_now(observation, int(observation[AT_KEPT + place]), laid)
                at += 1


def discard_candidates(observations: Observations, scores: bool) -> Candidates:
    """All discards of the observations (B, D) in the discard phase; ``scores`` as in :func:`discard_features`."""
    which = np.flatnonzero(observations[:, AT_PHASE] == DISCARD)
    n = len(which) * NUM_DISCARDS
    features = np.empty((n, discard_features(scores).active + 1), np.int32)
    known = np.empty((n, 2), np.float32)
    scratch = np.empty(13, np.int64), np.empty(4, np.int64)
    _write_discards(show_table(), crib_table("schell"), observations, which, scores, features, known, *scratch)
    return Candidates(np.repeat(which, NUM_DISCARDS), np.tile(np.arange(NUM_DISCARDS), len(which)), features, known)


def play_candidates(observations: Observations, masks: Masks, scores: bool) -> Candidates:
    """All legal plays, by rank, of the observations (B, D), masks (B, 19), in the play.

    ``scores`` is as in :func:`play_features`.

    The features of a play tell of the situation after it; the scores are those before its points, which ``known`` has.
    """
    which = np.flatnonzero(observations[:, AT_PHASE] == PLAY)
    n = int(_count_plays(observations, masks, which))
    rows = np.empty(n, np.int64)
    actions = np.empty(n, np.int64)
    features = np.empty((n, play_features(scores).active + 1), np.int32)
    known = np.empty((n, 1), np.float32)
    scratch = np.empty(9, np.uint8), np.empty(_SITUATION, np.int32)
    _write_plays(observations, masks, which, scores, rows, actions, features, known, *scratch)
    return Candidates(rows, actions, features, known)
