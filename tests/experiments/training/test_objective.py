"""What deals are worth at their end, against the tables of the board and the rules of rewards."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray
from training_samples import small

from agents import AgentError, decision_keys, make_agent
from agents.board import BoardReward, load_board_table
from cribbage_env import CribbageVectorEnv, Game, Rules
from cribbage_env.engine import BETWEEN, DEALER, OVER, PHASE, SCORE, WINNER
from cribbage_env.streams import combine_arrays
from experiments.train_config import TrainConfig
from experiments.training.objective import Objective, end_values
from experiments.training.starts import deal_starts
from experiments.training.streams import DECKS, stream

REWARDS: list[BoardReward] = ["win", "game_points", "one_two"]


@dataclass
class Deals:
    """N deals that were played to their end."""

    config: TrainConfig
    starts: NDArray[np.int16]
    ends: NDArray[np.int16]
    actions: list[list[int]]


def played_deals(reward: str, agent: str, deals: int, target: int = 121) -> Deals:
    """Deals between two of an agent; unless they are for points, at scores that come up in games."""
    collect = {"reward": reward} | ({} if reward == "points" else {"positions": "played"})
    config = small(collect=collect, learner={"subtract_luck": False}, rules={"target": target})
    starts = deal_starts(config, np.arange(deals))
    env = CribbageVectorEnv(deals, rules=Rules(target), reward=reward, episode="deal")
    env.reset(options={"game_seeds": np.arange(deals, dtype=np.uint64)})
    seen, _ = env.set_rows(starts)
    player, ends, step = make_agent(agent), starts.copy(), 0
    taken: list[list[int]] = [[] for _ in range(deals)]
    actions = np.zeros(deals, np.int64)
    while env.active.any():
        those = np.flatnonzero(env.active)
        keys = decision_keys(1, those, np.full(len(those), step))
        actions[those] = player.act(seen["observation"][those], seen["action_mask"][those], keys)
        for deal in those:
            taken[deal].append(int(actions[deal]))
        seen, _, _, _, infos = env.step(actions)
        if "_final_info" in infos:
            ended = np.flatnonzero(infos["_final_info"])
            ends[ended] = env.final_rows[ended]
        step += 1
    assert (ends[:, PHASE] >= BETWEEN).all()
    return Deals(config, starts, ends, taken)


def worth(row: NDArray[np.int16], seat: int, reward: BoardReward, table: NDArray[np.float64], rules: Rules) -> float:
    """By the rules of the rewards and the board table."""
    own, other = int(row[SCORE + seat]), int(row[SCORE + 1 - seat])
    if row[PHASE] == OVER:
        won = int(row[WINNER]) == seat
        level = rules.skunk_level(other if won else own)
        paid = {"win": [1, 1, 1], "game_points": [2, 3, 4], "one_two": [1, 2, 2]}[reward][level]
        return float(paid if won else -paid)
    if int(row[DEALER]) != seat:  # who deals next
        return float(table[own, other])
    return -float(table[other, own])


@pytest.mark.parametrize("target", [121, 61])
@pytest.mark.parametrize("reward", REWARDS)
def test_the_end_of_a_deal_is_worth_the_board_that_it_leaves(reward: BoardReward, target: int) -> None:
    rules = Rules(target)
    played = played_deals(reward, "random", 1500, target)
    starts, ends = played.starts, played.ends
    objective = Objective.of(reward, None, rules)
    table = load_board_table().solved_for(rules, reward)
    measure = objective.measure(starts)
    over = ends[:, PHASE] == OVER
    assert 100 < over.sum() < 1400
    for seat in range(2):
        found = end_values(ends, np.full(len(ends), seat), objective, measure)
        plain = np.array([worth(row, seat, reward, table, rules) for row in ends])
        assert found * measure.unit + measure.before[:, seat] == pytest.approx(plain, abs=1e-9)
        paid = {"win": {1}, "game_points": {2, 3, 4}, "one_two": {1, 2}}[reward]
        assert set(np.abs(plain[over])) == (paid if target == 121 else paid - {4})  # 61 has no double skunk
    ours, theirs = (end_values(ends, np.full(len(ends), seat), objective, measure) for seat in range(2))
    assert ours == pytest.approx(-theirs, abs=1e-9)


@pytest.mark.parametrize("reward", REWARDS)
def test_a_deal_is_measured_from_the_value_of_its_beginning_in_points(reward: BoardReward) -> None:
    starts = played_deals(reward, "random", 400).starts
    table = load_board_table().solved_for(Rules(), reward)
    measure = Objective.of(reward, None, Rules()).measure(starts)

    def slope(dealer: int, pone: int) -> float:
        """What a point is worth: over three points up and down, where there are so many."""
        own = [min(dealer + 3, 120), max(dealer - 3, 0)]
        other = [min(pone + 3, 120), max(pone - 3, 0)]
        of_own = (table[own[0], pone] - table[own[1], pone]) / (own[0] - own[1])
        return float(of_own + (table[dealer, other[1]] - table[dealer, other[0]]) / (other[0] - other[1])) / 2

    for row, before, unit, point in zip(starts, measure.before, measure.unit, measure.point, strict=True):
        dealer = int(row[DEALER])
        scores = int(row[SCORE + dealer]), int(row[SCORE + 1 - dealer])
        assert before[dealer] == pytest.approx(table[scores])
        assert before[1 - dealer] == -before[dealer]
        assert unit == pytest.approx(max(slope(*scores), slope(0, 0)))
        assert unit > 0
        assert point == pytest.approx(slope(*scores) / unit)


def test_a_deal_changes_nothing_on_average() -> None:
    """The value of a board is what the deals from it lead to, between two of the agent that it comes from."""
    played = played_deals("win", "expected", 6000)
    starts, ends = played.starts, played.ends
    objective = Objective.of("win", None, Rules())
    measure = objective.measure(starts)
    changed = end_values(ends, starts[:, DEALER].astype(np.int64), objective, measure)
    assert changed.mean() == pytest.approx(0.0, abs=4 * changed.std() / np.sqrt(len(changed)))
    assert 3 < changed.std() < 12  # in points
    value = changed * measure.unit
    assert value.mean() == pytest.approx(0.0, abs=4 * value.std() / np.sqrt(len(value)))


def test_points_are_those_of_the_play_alone() -> None:
    """By the events of the same deals in games by hand."""
    played = played_deals("points", "random", 60)
    objective = Objective.of("points", None, Rules())
    measure = objective.measure(played.starts)
    assert not measure.before.any()
    assert (measure.unit == 1).all()
    assert (measure.point == 1).all()
    seeds = combine_arrays(np.full(60, stream(played.config.seed, DECKS), np.uint64), np.arange(60))
    total = 0
    for seat in range(2):
        found = end_values(played.ends, np.full(60, seat), objective, measure)
        for deal, actions in enumerate(played.actions):
            game = Game(seed=int(seeds[deal]), dealer=deal % 2)
            for action in actions:
                game.step(action)
            assert game.deal == 1
            points = sum(
                event.points if event.player == seat else -event.points
                for event in game.events
                if event.kind in ("card", "go", "last")
            )
            assert found[deal] == points
            total += abs(points)
    assert total > 100


def test_a_board_that_is_none_is_said() -> None:
    with pytest.raises(AgentError, match=r"no board table 'none\.npz'; `cribbage analyse board SPEC` makes one"):
        Objective.of("win", "none.npz", Rules())
