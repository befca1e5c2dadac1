"""The target and the skunk lines."""

from __future__ import annotations

import pytest

from cribbage_env import Game, Rules


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, (121, 91, 61)),
        ({"target": 61}, (61, 31, None)),
        ({"target": 62}, (62, 32, 2)),
        ({"target": 31}, (31, None, None)),
        ({"target": 2}, (2, None, None)),
        ({"target": 200}, (200, 170, 140)),
        ({"skunk": None}, (121, None, None)),
        ({"double_skunk": None}, (121, 91, None)),
        ({"skunk": 50}, (121, 50, None)),
        ({"skunk": 61}, (121, 61, 61)),
        ({"target": 61, "skunk": 40, "double_skunk": 20}, (61, 40, 20)),
        ({"target": 61, "double_skunk": 1}, (61, 31, 1)),
        ({"skunk": 121, "double_skunk": 121}, (121, 121, 121)),
    ],
)
def test_lines(given: dict[str, int | None], lines: tuple[int, int | None, int | None]) -> None:
    rules = Rules(**given)  # type: ignore[arg-type]
    assert (rules.target, rules.skunk, rules.double_skunk) == lines
    assert rules == Rules(*lines)
    assert hash(rules) == hash(Rules(*lines))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"target": 1}, "target must lie between 2 and 200, got 1"),
        ({"target": 201}, "target must lie between 2 and 200, got 201"),
        ({"skunk": 0}, "skunk must lie between 1 and the target 121, got 0"),
        ({"skunk": 122}, "skunk must lie between 1 and the target 121, got 122"),
        ({"double_skunk": -1}, "double_skunk must lie between 1 and the target 121, got -1"),
        ({"double_skunk": 92}, r"double_skunk \(92\) needs a skunk line at or above it, got 91"),
        ({"skunk": None, "double_skunk": 61}, r"double_skunk \(61\) needs a skunk line at or above it, got None"),
    ],
)
def test_numbers_out_of_range(given: dict[str, int | None], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rules(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"target": 121.0}, {"target": "121"}, {"target": True}, {"skunk": "none"}])
def test_wrong_types(given: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(given))):
        Rules(**given)  # type: ignore[arg-type]


def test_a_rule_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Rules().target = 61  # type: ignore[misc]


def level_by_hand(score: int, skunk: int | None, double_skunk: int | None) -> int:
    return (score < (skunk or 0)) + (score < (double_skunk or 0))


@pytest.mark.parametrize("rules", [Rules(), Rules(61), Rules(61, 40, 20), Rules(skunk=None), Rules(double_skunk=None)])
def test_skunk_levels(rules: Rules) -> None:
    for score in range(rules.target):
        assert rules.skunk_level(score) == level_by_hand(score, rules.skunk, rules.double_skunk)


@pytest.mark.parametrize("rules", [Rules(), Rules(61), Rules(61, 40, 20), Rules(skunk=None), Rules(double_skunk=None)])
def test_a_game_ends_at_its_level(rules: Rules) -> None:
    """The compiled engine's skunks, for every score that the loser can be left with."""
    deck = "AC AD 2C 2D 3C 3D  KC KD KH QC QD QH  JS"  # heels: two for the dealer at the cut
    for loser in range(rules.target):
        game = Game(rules, dealer=1, scores=(loser, rules.target - 1), decks=[deck])
        game.step(0)
        game.step(0)
        assert (game.winner, game.scores) == (1, (loser, rules.target))
        assert game.skunk == rules.skunk_level(loser)
    assert Game(rules).skunk == 0
