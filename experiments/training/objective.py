"""What a deal is worth at its end: points, or the value of the board that it leaves.

A deal that is one of a game, not an end in itself, is worth what the next position is: V(own score, other's score, who
deals), from a board table (:mod:`agents.board`), or what the game pays if the deal ended it. So whole games are learned
from single deals, without the noise of all the deals that follow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.board import load_board_table
from cribbage_env.engine import DEALER, OVER, PART_POINTS, PHASE, PLAY_DEALER_PART, PLAY_PONE_PART, SCORE, WINNER, State
from cribbage_env.jit import inline_jit, jit
from cribbage_env.options import POINTS_REWARD, REWARDS
from cribbage_env.rules import Rules
from cribbage_env.vector_env import game_value


@dataclass(frozen=True)
class Objective:
    """What is learned to be maximised in deals.

    Args:
        kind: of :data:`cribbage_env.options.REWARDS`, by number.
        board: (T, T) float64 [dealer's score, other's score], the dealer's value before a deal; (0, 0) for points.
    """

    kind: int
    board: NDArray[np.float64]

    @classmethod
    def of(cls, reward: str, board: str | None, rules: Rules) -> Objective:
        """The objective of a reward; ``board`` is a board table's file, None for the shipped one."""
        kind = REWARDS.index(reward)
        if kind == POINTS_REWARD:
            return cls(kind, np.zeros((0, 0)))
        return cls(kind, np.ascontiguousarray(load_board_table(board).solved_for(rules, reward)))  # type: ignore[arg-type]


@inline_jit
def end_value(row: State, seat: int, kind: int, board: NDArray[np.float64]) -> float:
    """What the end of a deal is worth to a seat: for points those of the play alone, which is all that plays change."""
    other = 1 - seat
    if kind == POINTS_REWARD:
        value = 0
        for part in (PLAY_DEALER_PART, PLAY_PONE_PART):
            value += int(row[PART_POINTS + 6 * seat + part]) - int(row[PART_POINTS + 6 * other + part])
        return float(value)
    if row[PHASE] == OVER:
        paid = game_value(row, kind)
        return paid if row[WINNER] == seat else -paid
    dealer = 1 - int(row[DEALER])  # of the next deal
    worth = board[row[SCORE + dealer], row[SCORE + 1 - dealer]]
    return worth if dealer == seat else -worth


@jit(_nrt=False)
def _end_values(
    rows: State, seats: NDArray[np.int64], kind: int, board: NDArray[np.float64], values: NDArray[np.float64]
) -> None:
    for i in range(len(values)):
        values[i] = end_value(rows[i], seats[i], kind, board)


def end_values(rows: State, seats: NDArray[np.int64], objective: Objective) -> NDArray[np.float64]:
    """:func:`end_value` of deals that have ended: rows (N, STATE_SIZE), seats (N,) -> (N,) float64."""
    values = np.empty(len(rows))
    _end_values(rows, seats, objective.kind, objective.board, values)
    return values
