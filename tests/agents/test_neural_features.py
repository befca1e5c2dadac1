"""What the networks see, against a plain account of it in Python."""

from __future__ import annotations

from itertools import combinations_with_replacement, pairwise

import numpy as np
import pytest
from neural_samples import some_positions
from numpy.typing import NDArray

from agents.discards import crib_table, hand_average
from agents.neural.features import (
    Candidates,
    FeatureSet,
    discard_candidates,
    discard_features,
    play_candidates,
    play_features,
)
from cribbage_env import CribbageVectorEnv, Rules, field, score_play
from cribbage_env.engine import (
    CARDS,
    CUT,
    KEPT,
    KEPT_PLACES,
    LEFT,
    NUM_DISCARDS,
    PAIRS,
    PLAYER,
    STARTER,
    THROWN,
)
from cribbage_env.observation import write_observation

NONE = 13  # instead of a rank


def multisets(sizes: tuple[int, ...]) -> dict[tuple[int, ...], int]:
    """Numbers of the multisets of ranks: smaller ones first, each size by its greatest rank, then the next, ..."""
    numbers: dict[tuple[int, ...], int] = {}
    for size in sizes:
        for ranks in sorted(combinations_with_replacement(range(13), size), key=lambda ranks: ranks[::-1]):
            numbers[ranks] = len(numbers)
    return numbers


HANDS_OF_4 = multisets((4,))
HANDS_OF_3 = multisets((3,))
HANDS_OF_2 = multisets((2,))
HANDS_TO_3 = multisets((0, 1, 2, 3))


def value(card: int) -> int:
    return min(card // 4 + 1, 10)


def whole(observation: NDArray[np.uint8], name: str) -> list[int]:
    return [int(one) for one in field(observation, name)]


def plain_scores(observation: NDArray[np.uint8]) -> list[tuple[str, list[int]]]:
    own, other = (
        min(121, whole(observation, "target")[0] - whole(observation, name)[0]) for name in ("score", "opponent_score")
    )
    return [("own_needs", [own]), ("opponent_needs", [other]), ("both_need", [own // 8 * 16 + other // 8])]


Named = list[tuple[str, list[int]]]


def plain_discard(observation: NDArray[np.uint8], action: int) -> tuple[Named, int, list[float]]:
    """Features by slot, the wide one, what is known."""
    cards = whole(observation, "cards")
    own = whole(observation, "is_dealer")[0]
    kept = [cards[place] for place in KEPT_PLACES[action]]
    first, second = (cards[place] for place in PAIRS[action])
    suited = first % 4 == second % 4
    named = [
        ("thrown", [((own * 13 + first // 4) * 13 + second // 4) * 2 + suited]),
        ("kept", [own * len(HANDS_OF_4) + HANDS_OF_4[tuple(card // 4 for card in kept)]]),
        ("kept_rank", [own * 13 + card // 4 for card in kept]),
    ]
    crib = float(crib_table("schell")[own, first // 4, second // 4])
    return named, 0, [hand_average(kept, [first, second]), crib if own else -crib]


def plain_play(observation: NDArray[np.uint8], action: int) -> tuple[Named, int, list[float]]:
    kept, left = whole(observation, "kept"), whole(observation, "left")
    number = whole(observation, "num_laid")[0]
    laid, laid_by, laid_count, laid_go = (
        whole(observation, name)[:number] for name in ("laid", "laid_by", "laid_count", "laid_go")
    )
    begin = whole(observation, "count_begin")[0]
    theirs = [card for card, by in zip(laid, laid_by, strict=True) if by == 2]
    mine = [card // 4 for card, by in zip(laid, laid_by, strict=True) if by == 1]
    gos = [at for at in range(number) if laid_go[at] and laid_by[at] == 1]  # the opponent's
    card = kept[action - 15]
    hand = [one // 4 for slot, one in enumerate(kept) if left[slot] and slot != action - 15]
    stack = [*laid[begin:], card]
    count = sum(value(one) for one in stack)
    ranks = [one // 4 for one in stack[::-1]] if count < 31 else []
    ranks = (ranks + [NONE] * 7)[:7]  # an eighth would be under the last card of the deal
    held = whole(observation, "opponent_left")[0]
    named = [
        ("opponent_laid", [one // 4 for one in theirs] + [NONE] * (4 - len(theirs))),
        ("own_laid", (mine + [NONE] * 3)[:3]),
        ("opponent_lacks", [max([0, *(min(10, 31 - laid_count[at]) for at in gos)])]),
        ("seats", [2 * held + whole(observation, "is_dealer")[0]]),
        ("hand", [HANDS_TO_3[tuple(hand)]]),
        ("hand_rank", hand + [NONE] * (3 - len(hand))),
        ("count", [(5 * count + held) * 2 + any(at >= begin for at in gos)]),
        ("top", [(ranks[0] * 14 + ranks[1]) * 14 + ranks[2]]),
        ("below", ranks[3:]),
    ]
    wide = 0
    if number < 3:  # the ranks laid so far and the one laid now, in order; then the hand that is left
        course = 0
        for one in [*laid, card]:
            course = 13 * course + one // 4
        rest = HANDS_OF_2 if number == 2 else HANDS_OF_3
        before = [1, 1 + 13 * 455, 1 + 13 * 455 + 169 * 455][number]
        wide = before + course * len(rest) + rest[tuple(hand)]
    elif number == 3 and len(hand) == 2:  # the opponent's two in any order, the card, the two that are left
        pair = HANDS_OF_2[tuple(sorted(one // 4 for one in theirs))]
        wide = 1 + 13 * 455 + 169 * 455 + 13**3 * 91 + (pair * 13 + card // 4) * 91 + HANDS_OF_2[tuple(hand)]
    return named, wide, [score_play(stack).total]


def indices(features: FeatureSet, named: list[tuple[str, list[int]]]) -> list[int]:
    assert [name for name, _ in named] == list(features.slots)
    found = []
    for name, values in named:
        slots, size = features.slots[name]
        assert len(values) == slots
        found += [features.first(name) + slot * size + one for slot, one in enumerate(values)]
    return found


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("kind", ["discard", "play"])
def test_features_and_known_points_are_what_they_are_said_to_be(kind: str, scores: bool) -> None:
    observations, masks = some_positions(8, 120, seed=3)
    if kind == "discard":
        candidates, features, plain = discard_candidates(observations, scores), discard_features(scores), plain_discard
        expected = [(row, action) for row in np.flatnonzero(masks[:, 0]) for action in range(NUM_DISCARDS)]
    else:
        candidates, features, plain = play_candidates(observations, masks, scores), play_features(scores), plain_play
        expected = [(row, action) for row, action in np.argwhere(masks) if action >= NUM_DISCARDS]
        expected = [one for one in expected if is_first_of_rank(observations, masks, *one)]
    assert list(zip(candidates.rows, candidates.actions, strict=True)) == expected
    assert len(candidates) > 900
    assert candidates.features.shape == (len(candidates), features.active + 1)
    assert candidates.features[:, :-1].max() < features.size
    assert candidates.features[:, -1].max() < features.wide
    assert candidates.known.shape == (len(candidates), features.known)
    for at, (row, action) in enumerate(expected):
        named, wide, known = plain(observations[row], action)
        if scores:
            named += plain_scores(observations[row])
        assert candidates.features[at].tolist() == [*indices(features, named), wide]
        assert candidates.known[at].tolist() == pytest.approx(known, abs=1e-5)


def is_first_of_rank(observations: NDArray[np.uint8], masks: NDArray[np.int8], row: int, action: int) -> bool:
    """Whether no legal play before it is of the same rank: cards of a rank are one choice."""
    kept = whole(observations[row], "kept")
    before = [one for one in range(NUM_DISCARDS, action) if masks[row, one]]
    return kept[action - 15] // 4 not in [kept[one - 15] // 4 for one in before]


def test_wide_features_are_all_different() -> None:
    """Every situation of the first cards, with the hand that is left, has a weight of its own."""
    observations, masks = some_positions(3000, 6, seed=5)
    candidates = play_candidates(observations, masks, False)
    situations: dict[int, set[tuple[object, ...]]] = {}
    for at in range(len(candidates)):
        observation = observations[candidates.rows[at]]
        laid = whole(observation, "laid")[: whole(observation, "num_laid")[0]]
        slot = candidates.actions[at] - 15
        kept, left = whole(observation, "kept"), whole(observation, "left")
        hand = tuple(card // 4 for place, card in enumerate(kept) if left[place] and place != slot)
        course = [card // 4 for card in laid]
        if len(laid) == 3:  # without the own first card, and the other's two in any order
            course = sorted([course[0], course[2]])
        situation = (len(laid), *course, kept[slot] // 4, "left", *hand)
        wide = int(candidates.features[at, -1])
        assert (wide == 0) == (len(laid) > 3 or (len(laid) == 3 and len(hand) == 1))  # the second: after a go
        if wide:
            situations.setdefault(wide, set()).add(situation)
    assert all(len(those) == 1 for those in situations.values())
    assert len(set.union(*situations.values())) == len(situations) > 10_000
    assert {situation[0] for those in situations.values() for situation in those} == {0, 1, 2, 3}


def test_bounds_tell_decisions_apart() -> None:
    observations, masks = some_positions(50, 30, seed=6)
    for candidates, decisions in (
        (discard_candidates(observations, False), np.flatnonzero(masks[:, 0])),
        (play_candidates(observations, masks, False), np.flatnonzero(masks[:, 15:].any(axis=1))),
    ):
        first = candidates.bounds()
        assert first[0] == 0
        assert first[-1] == len(candidates)
        assert candidates.rows[first[:-1]].tolist() == decisions.tolist()
        for begin, end in pairwise(first):
            assert len(set(candidates.rows[begin:end])) == 1
            assert (np.diff(candidates.actions[begin:end]) > 0).all()
    nothing = play_candidates(observations[:0], masks[:0], False)
    assert nothing.bounds().tolist() == [0]


def test_the_positions_have_what_is_rare() -> None:
    """Otherwise the test above says little: gos, empty hands, long counts, thirty-one."""
    observations, masks = some_positions(8, 120, seed=3)
    features = play_features(scores=False)
    found = play_candidates(observations, masks, scores=False).features

    def used(name: str) -> set[int]:
        first = sum(
            slots for other, (slots, _) in features.slots.items() if features.first(other) < features.first(name)
        )
        slots, size = features.slots[name]
        return {int(one - features.first(name)) % size for one in found[:, first : first + slots].ravel()}

    assert len(used("opponent_lacks")) >= 8
    assert {0, 1, 14, 105} <= {max(first for first in (0, 1, 14, 105) if first <= one) for one in used("hand")}
    assert {count // 10 for count in used("count")} >= {*range(3, 32)}
    assert {count % 2 for count in used("count")} == {0, 1}
    assert used("below") >= {*range(14)}
    assert used("seats") >= {*range(2, 9)}  # not 9: the pone lays first


def test_scores_far_from_a_high_target_look_the_same() -> None:
    env = CribbageVectorEnv(4, rules=Rules(target=200), scores=(10, 150))
    seen, _ = env.reset(seed=2)
    candidates = discard_candidates(seen["observation"], scores=True)
    features = discard_features(scores=True)
    needs = {10: 121, 150: 50}
    for at, row in enumerate(candidates.rows):
        own = needs[int(field(seen["observation"][row], "score")[0])]
        assert candidates.features[at, -4] == features.first("own_needs") + own


def test_cards_that_a_seat_does_not_know_change_nothing() -> None:
    env = CribbageVectorEnv(200, copy=False)
    seen, _ = env.reset(seed=4)
    rng = np.random.default_rng(4)
    for _ in range(12):
        seen = env.step((rng.random((200, 19)) * seen["action_mask"]).argmax(axis=1))[0]
        observations, masks = seen["observation"].copy(), seen["action_mask"].copy()
        before = discard_candidates(observations, True), play_candidates(observations, masks, True)
        after_observations = np.empty_like(observations)
        for at in range(len(observations)):
            row = env.rows[at].copy()
            _swap_hidden_cards(row, rng)
            write_observation(row, int(row[PLAYER]), after_observations[at])
        after = discard_candidates(after_observations, True), play_candidates(after_observations, masks, True)
        for one, other in zip(before, after, strict=True):
            assert _same(one, other)


def _swap_hidden_cards(row: NDArray[np.int16], rng: np.random.Generator) -> None:
    """Put other cards in the place of all that the seat to act cannot know."""
    other = 1 - int(row[PLAYER])
    places = [] if row[CUT] else [STARTER]
    thrown = row[CUT] or row[LEFT + other]
    if thrown:
        places += [THROWN + 2 * other, THROWN + 2 * other + 1]
        places += [KEPT + 4 * other + slot for slot in range(4) if row[LEFT + other] >> slot & 1]
    else:
        places += [CARDS + 6 * other + i for i in range(6)]
    open_cards = {int(card) for card in row[CARDS : CARDS + 12]} | {int(row[STARTER])}
    row[places] = rng.choice(sorted(set(range(52)) - open_cards), len(places), replace=False)


def _same(one: Candidates, other: Candidates) -> bool:
    return all((getattr(one, name) == getattr(other, name)).all() for name in ("rows", "actions", "features", "known"))


def test_an_unknown_slot_is_an_error() -> None:
    with pytest.raises(KeyError):
        discard_features(scores=False).first("own_needs")
