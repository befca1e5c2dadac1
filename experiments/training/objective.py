"""What a deal is worth at its end: points, or the value of the board that it leaves.

A deal that is one of a game, not an end in itself, is worth what the next position is: V(own score, other's score, who
deals), from a board table (:mod:`agents.board`), or what the game pays if the deal ended it. So whole games are learned
from single deals, without the noise of all the deals that follow.

A point is worth far more at 115-115 than at 115-60. So that all deals are learned in one unit, such values are
expressed in points: what the deal changed of the value of the board, divided by what a point is worth where the deal
began. That is a positive factor for all actions of a deal, and the best stays the best.
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

_SPAN = 3  # points to both sides over which the worth of a point is taken


@dataclass(frozen=True)
class Measure:
    """How the ends of N deals are turned into points."""

    before: NDArray[np.float64]
    """(N, 2): what the board was worth to each seat before the deal."""
    unit: NDArray[np.float64]
    """(N,): what counts as a point: its worth there, but at least that at 0-0, so that lost causes don't weigh."""
    point: NDArray[np.float64]
    """(N,): what a point is worth in that unit, 1 or less."""


def _slopes(board: NDArray[np.float64]) -> NDArray[np.float64]:
    """(T, T): what a point is worth at each position, the mean over both players' points."""
    at = np.arange(len(board))
    up, down = np.minimum(at + _SPAN, len(board) - 1), np.maximum(at - _SPAN, 0)
    own = (board[up] - board[down]) / (up - down)[:, None]
    other = (board[:, down] - board[:, up]) / (up - down)[None, :]
    slopes: NDArray[np.float64] = (own + other) / 2
    return slopes


@dataclass(frozen=True)
class Objective:
    """What is learned to be maximised in deals.

    Args:
        kind: of :data:`cribbage_env.options.REWARDS`, by number.
        board: (T, T) float64 [dealer's score, other's score], the dealer's value before a deal; (0, 0) for points.
    """

    kind: int
    board: NDArray[np.float64]

    def measure(self, starts: State) -> Measure:
        """In what deals that begin at the given states (N, STATE_SIZE) are measured."""
        n = len(starts)
        if self.kind == POINTS_REWARD:
            return Measure(np.zeros((n, 2)), np.ones(n), np.ones(n))
        seats = np.arange(n)
        dealer = starts[:, DEALER].astype(np.int64)
        scores = np.minimum(starts[:, SCORE : SCORE + 2].astype(np.int64), len(self.board) - 1)
        at = scores[seats, dealer], scores[seats, 1 - dealer]
        slopes = _slopes(self.board)
        before = np.empty((n, 2))
        before[seats, dealer] = self.board[at]
        before[seats, 1 - dealer] = -self.board[at]
        unit = np.maximum(slopes[at], slopes[0, 0])
        return Measure(before, unit, slopes[at] / unit)

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


def end_values(rows: State, seats: NDArray[np.int64], objective: Objective, measure: Measure) -> NDArray[np.float64]:
    """What deals that have ended were worth, in points: rows (N, STATE_SIZE), seats (N,) -> (N,) float64.

    ``measure`` is that of their beginnings.
    """
    values = np.empty(len(rows))
    _end_values(rows, seats, objective.kind, objective.board, values)
    changed: NDArray[np.float64] = (values - measure.before[np.arange(len(rows)), seats]) / measure.unit
    return changed
