"""What cards are worth, against the cases, the published histograms and the plain reference."""

from __future__ import annotations

import json
import random
from itertools import combinations, combinations_with_replacement, permutations

import numpy as np
import pytest
import reference
from rule_cases import CASES, parse, play_points, rows_of

from cribbage_env import HandScore, PlayScore, card_text, score_hand, score_play
from cribbage_env.cards import NO_CARD
from cribbage_env.jit import jit
from cribbage_env.scoring import card_value, histogram, show_points, show_table


@jit
def kernel_points(table, a, b, c, d, starter, is_crib):  # type: ignore[no-untyped-def]
    """``show_points`` is inlined into kernels; this one calls it from Python."""
    return show_points(table, a, b, c, d, starter, is_crib)


def parts(score: HandScore | PlayScore) -> dict[str, int]:
    return {**vars(score), "total": score.total}


def test_show_cases() -> None:
    for row in rows_of("show_cases.jsonl"):
        score = score_hand(" ".join(row["hand"]), row["starter"], row["is_crib"])
        assert parts(score) == {**row["breakdown"], "total": row["score"]}, row
        hand, starter = parse(row["hand"]), parse([row["starter"]])[0]
        assert score_hand(hand, starter, is_crib=row["is_crib"]) == score
        assert kernel_points(show_table(), *hand, starter, row["is_crib"]) == row["score"], row


def test_peg_stack_cases() -> None:
    for row in rows_of("peg_stack_cases.jsonl"):
        assert parts(score_play(row["stack"])) == play_points(row), row
        assert score_play(" ".join(row["stack"])) == score_play(parse(row["stack"]))


def test_hand_average_cases() -> None:
    for row in rows_of("hand_average_cases.jsonl"):
        starters = set(range(52)) - set(parse(row["keep"])) - set(parse(row["known_dead"]))
        assert len(starters) == row["starters"]
        total = sum(score_hand(row["keep"], starter).total for starter in starters)
        assert total == row["sum_over_starters"], row
        assert total / len(starters) == pytest.approx(row["average"], abs=1e-6)


@pytest.mark.parametrize(("kind", "mean"), [("hand", 4.76915), ("crib", 4.73482)])
def test_histogram_of_all_hands(kind: str, mean: float) -> None:
    """All 12,994,800 hands with starter; the file says where its figures were published."""
    expected = json.loads((CASES / "histograms.json").read_text())[kind]
    found = histogram(show_table(), kind == "crib").tolist()
    assert found == [expected[str(points)] for points in range(30)]
    assert sum(found) == 12_994_800
    assert sum(points * number for points, number in enumerate(found)) / 12_994_800 == pytest.approx(mean, abs=5e-6)
    assert [points for points, number in enumerate(found) if number == 0] == [19, 25, 26, 27]


def test_the_perfect_hand() -> None:
    best = []
    for jack in (40, 41, 42, 43):
        fives = [16, 17, 18, 19]
        starter = fives[jack % 4]
        score = score_hand([jack, *(five for five in fives if five != starter)], starter)
        assert parts(score) == {"fifteens": 16, "pairs": 12, "runs": 0, "flush": 0, "nobs": 1, "total": 29}
        best.append(score)
    assert score_hand("5C 5D 5H 5S", "JC").total == 28
    assert score_hand("2H 4D 6S 8C", "TD").total == 0


def test_rank_table_equals_the_reference() -> None:
    """Every multiset of one to five ranks, in all orders of the table."""
    table = show_table()
    for ranks in combinations_with_replacement(range(14), 5):
        real = tuple(rank for rank in ranks if rank < 13)
        points = sum(reference.rank_scores(real))
        for order in set(permutations(ranks)):
            entry = 0
            for rank in order:
                entry = entry * 14 + rank
            if max(real.count(rank) for rank in (*real, 0)) <= 4:  # there is no fifth card of a rank
                assert table[entry] == points, order


def test_suits_equal_the_reference() -> None:
    """Flush and nobs: all suit patterns, with and without a starter, in the hand and in the crib."""
    rng = random.Random(1)
    for _ in range(6_000):
        suits = rng.choice([range(4), range(2), range(1)])
        pack = [card for card in range(52) if card % 4 in suits]
        hand = rng.sample(pack, 4)
        rest = [card for card in range(52) if card not in hand]
        for starter in (rng.choice(rest), None):
            for is_crib in (False, True):
                expected = reference.show_score(hand, starter, is_crib)
                assert parts(score_hand(hand, starter, is_crib)) == expected
                cut = NO_CARD if starter is None else starter
                assert kernel_points(show_table(), *hand, cut, is_crib) == expected["total"]


def test_flush_rules() -> None:
    assert score_hand("2H 4H 6H KH", "TD").flush == 4
    assert score_hand("2H 4H 6H KH", "TH").flush == 5
    assert score_hand("2H 4H 6H KH", "TD", is_crib=True).flush == 0
    assert score_hand("2H 4H 6H KH", "TH", is_crib=True).flush == 5
    assert score_hand("2H 4H 6H KH", None).flush == 4
    assert score_hand("2H 4H 6H KD", "TH").flush == 0  # never with the starter's help


def test_play_equals_the_reference() -> None:
    rng = random.Random(2)
    longest = 0
    for _ in range(20_000):
        ranks = rng.choice([range(13), range(4), range(7), (0, 1, 2), (0, 4)])
        stack: list[int] = []
        for card in rng.sample([card for card in range(52) if card // 4 in ranks], 8):
            if sum(map(reference.value_of, [*stack, card])) <= 31:
                stack.append(card)
        assert parts(score_play(stack)) == reference.play_score(stack)
        longest = max(longest, len(stack))
    assert longest == 8


def test_card_values() -> None:
    assert [card_value(4 * rank) for rank in range(13)] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10]


def test_order_of_a_hand_does_not_matter() -> None:
    for hand in combinations((2, 17, 18, 40, 41), 4):
        scores = {score_hand(list(order), 20).total for order in permutations(hand)}
        assert len(scores) == 1


def test_input_that_is_no_hand() -> None:
    with pytest.raises(ValueError, match="four cards, got 3"):
        score_hand("5H 5C 5S", "JD")
    with pytest.raises(ValueError, match="5H comes twice"):
        score_hand("5H 5C 5S 5H", "JD")
    with pytest.raises(ValueError, match="starter 5H is in the hand"):
        score_hand("5H 5C 5S JD", "5H")
    with pytest.raises(ValueError, match="not a card: 'XX'"):
        score_hand("5H 5C 5S JD", "XX")
    with pytest.raises(ValueError, match="got 0"):
        score_play("")
    with pytest.raises(ValueError, match="at most 31, got 40"):
        score_play("KH KD KC KS")
    with pytest.raises(ValueError, match=f"{card_text(3)} comes twice"):
        score_play([3, 3])


def test_scores_are_plain_ints() -> None:
    """Users write them to JSON."""
    assert all(type(value) is int for value in parts(score_hand("5H 5C 5S JD", "5D")).values())
    assert all(type(value) is int for value in parts(score_play("5H 5C")).values())


def test_the_table_cannot_be_written_to() -> None:
    with pytest.raises(ValueError):
        show_table()[0] = 1
    assert show_table().dtype == np.int8
