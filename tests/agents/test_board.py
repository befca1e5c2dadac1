"""The board: dynamic programming against plain recursion over deals, the file, the shipped table."""

from __future__ import annotations

import io
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents import AgentError
from agents.board import (
    BOARD_REWARDS,
    MOST_POINTS,
    BoardReward,
    BoardTable,
    DealOutcomes,
    count_event,
    load_board_table,
    payoffs,
    solve_board,
)
from cribbage_env import Rules

Deal = list[tuple[int, int]]
"""Scoring events in order: who scores (0 the dealer, 1 pone), and how much."""


def outcomes_of(deals: list[Deal]) -> DealOutcomes:
    outcomes = DealOutcomes.none()
    for deal in deals:
        points = [0, 0]
        for who, made in deal:
            first = outcomes.pone_first if who else outcomes.dealer_first
            count_event(first, points[who], made, points[1 - who], 1)
            points[who] += made
        outcomes.totals[points[0], points[1]] += 1
    return outcomes


def plain_board(deals: list[Deal], rules: Rules, pays: tuple[float, float, float]) -> np.ndarray:
    """The dealer's values, by playing every deal from every position."""

    @cache
    def value(dealer: int, pone: int) -> float:
        total = 0.0
        for deal in deals:
            scores = [dealer, pone]
            for who, made in deal:
                scores[who] += made
                if scores[who] >= rules.target:
                    won = pays[rules.skunk_level(scores[1 - who])]
                    total += won if who == 0 else -won
                    break
            else:
                total -= value(scores[1], scores[0])
        return total / len(deals)

    return np.array([[value(dealer, pone) for pone in range(rules.target)] for dealer in range(rules.target)])


events = st.tuples(st.integers(0, 1), st.integers(0, 9))
some_deals = st.lists(st.lists(events, min_size=1, max_size=6).filter(lambda deal: any(made for _, made in deal)),
                      min_size=1, max_size=6)  # fmt: skip
PAYS: dict[BoardReward, tuple[float, float, float]] = {"win": (1, 1, 1), "game_points": (2, 3, 4), "one_two": (1, 2, 2)}


@settings(max_examples=40, deadline=None)
@given(some_deals, st.integers(2, 31), st.sampled_from(BOARD_REWARDS), st.data())
def test_values_are_those_of_plain_recursion(
    deals: list[Deal], target: int, reward: BoardReward, data: st.DataObject
) -> None:
    skunk = data.draw(st.none() | st.integers(1, target))
    double = data.draw(st.integers(1, skunk)) if skunk and data.draw(st.booleans()) else None
    rules = Rules(target, skunk, double)
    board = solve_board(outcomes_of(deals), rules, reward)
    assert np.allclose(board, plain_board(deals, rules, PAYS[reward]), atol=1e-12)


def test_payoffs_are_those_of_the_rules() -> None:
    rules = Rules(61, 31, 10)
    for reward in BOARD_REWARDS:
        expected = [PAYS[reward][rules.skunk_level(score)] for score in range(61)]
        assert payoffs(rules, reward).tolist() == expected
    with pytest.raises(ValueError, match="reward must be one of win, game_points, one_two, got 'points'"):
        payoffs(rules, "points")  # type: ignore[arg-type]


def test_no_deals_no_board() -> None:
    with pytest.raises(ValueError, match="no deals"):
        solve_board(DealOutcomes.none())


def test_the_shipped_table() -> None:
    table = load_board_table()
    assert (table.agent, table.reward, table.rules) == ("expected", "win", Rules())
    assert table.dealer.shape == table.errors.shape == (121, 121)
    assert table.outcomes.deals >= 1_000_000
    # a million games: 55.96 % for the first dealer; published: 55.5 to 56 %
    assert table.chance(0, 0, True) == pytest.approx(0.5597, abs=0.001)
    assert np.allclose(table.dealer, solve_board(table.outcomes), atol=1e-6)  # single precision in the file
    assert table.outcomes.mean_points == pytest.approx((16.18, 10.22), abs=0.02)
    assert 0 < table.errors[0, 0] < 0.0003
    assert table.errors.max() < 0.002
    # more points are better
    assert (np.diff(table.dealer, axis=0) > -1e-3).all()
    assert (np.diff(table.dealer, axis=1) < 1e-3).all()
    with pytest.raises(ValueError, match="read-only"):
        table.dealer[0, 0] = 1


def test_values_are_zero_sum_and_broadcast() -> None:
    table = load_board_table()
    own, other = np.arange(121)[:, None], np.arange(121)[None, :]
    for own_deal in (True, False):
        value = table.value(own, other, own_deal)
        assert value.shape == (121, 121)
        assert np.allclose(value, -table.value(other, own, not own_deal))
        assert np.allclose(table.chance(own, other, own_deal), (1 + value) / 2)
    assert float(table.value(0, 0, True)) == table.dealer[0, 0]
    other_reward = BoardTable(**{**vars(table), "reward": "one_two"})
    with pytest.raises(ValueError, match="no chances"):
        other_reward.chance(0, 0, True)
    assert table.solved_for(Rules(61), "one_two").shape == (61, 61)


def small_table() -> BoardTable:
    outcomes = outcomes_of([[(0, 3), (1, 2)], [(1, 5), (0, 12)]])
    rules = Rules(11, 5, None)
    values = solve_board(outcomes, rules, "game_points")
    return BoardTable(values, np.full((11, 11), 0.25), rules, "game_points", "mine:x=1", 7, outcomes, {"numpy": "2"})


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = small_table()
    path = tmp_path / "any.name"
    table.save(path)
    read = load_board_table(path)
    for name in ("rules", "reward", "agent", "seed", "made_with"):
        assert getattr(read, name) == getattr(table, name)
    assert np.allclose(read.dealer, table.dealer, atol=1e-6)
    assert (read.errors == 0.25).all()
    for name in ("totals", "dealer_first", "pone_first"):
        assert (getattr(read.outcomes, name) == getattr(table.outcomes, name)).all()


def damaged(change: str) -> bytes:
    buffer = io.BytesIO()
    small_table().save(buffer)
    whole = buffer.getvalue()
    if change == "cut":
        return whole[:1000]
    if change == "text":
        return b"not a table\n"
    if change == "empty":
        return b""
    buffer.seek(0)
    arrays = dict(np.load(buffer))
    facts = json.loads(str(arrays["facts"]))
    if change == "missing":
        del arrays["pone_first"]
    elif change == "shape":
        arrays["dealer"] = arrays["dealer"][1:]
    elif change == "negative":
        arrays["totals"][0, 0] = -1
    elif change == "nothing":
        arrays["totals"][:] = 0
    elif change == "pickled":
        arrays["facts"] = np.array({"a": 1}, object)
    else:
        facts |= {"format": {"format": 99}, "target": {"target": 1000}, "reward": {"reward": "points"}}[change]
        arrays["facts"] = np.array(json.dumps(facts))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "change",
    ["cut", "text", "empty", "missing", "shape", "negative", "nothing", "pickled", "format", "target", "reward"],
)
def test_another_file_is_refused_in_one_line(tmp_path: Path, change: str) -> None:
    path = tmp_path / "board.npz"
    path.write_bytes(damaged(change))
    with pytest.raises(AgentError, match=r"board\.npz'? is (not a board table|a board table of format 99)") as caught:
        load_board_table(path)
    assert "\n" not in str(caught.value)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match="no board table"):
        load_board_table(tmp_path / "none.npz")


def test_a_deal_fits() -> None:
    """The most that a dealer can make is below 2 (heels) + 29 + 24 (hand, crib) + what eight cards can score."""
    table = load_board_table()
    used = np.argwhere(table.outcomes.totals)
    assert used.max() < MOST_POINTS - 30
