"""The agent ``expected``: exact averages for the discard, one step of look-ahead in the play.

It discards by the exact average of the kept hand over the 46 starters plus (own crib) or minus the published average of
the crib, and plays the card with the greatest (points now - mean points of the opponent's legal replies over unseen
cards). Ties at random. The mean is taken also where the opponent has said go or has no cards: an agent that leaves it
out there won 50.07 % [49.93, 50.20] of 100,000 games against this one.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.discards import crib_table, discard_values
from cribbage_env.cards import NO_CARD
from cribbage_env.engine import FIRST_PLAY, NUM_ACTIONS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_CARDS,
    AT_COUNT,
    AT_COUNT_BEGIN,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LAID,
    AT_LAID_BY,
    AT_NUM_LAID,
    AT_STARTER,
    OPPONENT,
)
from cribbage_env.scoring import MAX_COUNT, card_value, play_parts, show_table

TIE = 1e-9
"""Values closer than this are the same number, rounded."""


@inline_jit
def unseen_ranks(observation: NDArray[np.uint8], left: NDArray[np.int64]) -> None:
    """Write how many cards of each rank ((13,) int64) the observer has not seen: not its six, the starter, or laid."""
    for rank in range(13):
        left[rank] = 4
    for i in range(6):
        left[observation[AT_CARDS + i] >> 2] -= 1
    if observation[AT_STARTER] != NO_CARD:
        left[observation[AT_STARTER] >> 2] -= 1
    for i in range(int(observation[AT_NUM_LAID])):
        if observation[AT_LAID_BY + i] == OPPONENT:
            left[observation[AT_LAID + i] >> 2] -= 1


@inline_jit
def play_value(observation: NDArray[np.uint8], card: int, left: NDArray[np.int64], laid: NDArray[np.uint8]) -> float:
    """Points of laying ``card`` now, minus the mean points of the legal replies with an unseen card.

    ``left`` is what :func:`unseen_ranks` wrote; ``laid`` is scratch space, (10,) uint8.
    """
    begin = int(observation[AT_COUNT_BEGIN])
    end = int(observation[AT_NUM_LAID])
    for i in range(begin, end):
        laid[i] = observation[AT_LAID + i]
    laid[end] = card
    count = int(observation[AT_COUNT]) + card_value(card)
    fifteen, thirty_one, pair, run = play_parts(laid, begin, end + 1, count)
    now = fifteen + thirty_one + pair + run
    if count == MAX_COUNT:
        begin = end + 1
        count = 0
    replies = 0
    points = 0
    for rank in range(13):
        after = count + card_value(4 * rank)
        if left[rank] > 0 and after <= MAX_COUNT:
            laid[end + 1] = 4 * rank
            fifteen, thirty_one, pair, run = play_parts(laid, begin, end + 2, after)
            replies += left[rank]
            points += left[rank] * (fifteen + thirty_one + pair + run)
    if replies == 0:
        return float(now)
    return now - points / replies


@jit
def _expected_policy(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observations: Observations,
    masks: Masks,
    policy: NDArray[np.float64],
    all_values: NDArray[np.float64],
) -> None:
    """Write the policy, (B, 19), and the values of the legal actions to ``all_values``, (B, 19) or without rows."""
    laid = np.empty(10, np.uint8)
    left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    values = np.empty(NUM_ACTIONS, np.float64)
    for i in range(observations.shape[0]):
        observation = observations[i]
        if masks[i, 0]:
            discard_values(
                table,
                cribs,
                observation[AT_CARDS : AT_CARDS + 6],
                observation[AT_IS_DEALER] == 1,
                left,
                suits_left,
                values,
            )
        else:
            unseen_ranks(observation, left)
            for slot in range(NUM_ACTIONS - FIRST_PLAY):
                if masks[i, FIRST_PLAY + slot]:
                    values[FIRST_PLAY + slot] = play_value(observation, int(observation[AT_KEPT + slot]), left, laid)
        best_actions(values, masks[i], policy[i])
        if i < all_values.shape[0]:
            for action in range(NUM_ACTIONS):
                if masks[i, action]:
                    all_values[i, action] = values[action]


@inline_jit
def best_actions(values: NDArray[np.float64], mask: NDArray[np.int8], policy: NDArray[np.float64]) -> None:
    """Write equal probabilities for the legal actions whose value is the greatest (ties within rounding)."""
    best = -np.inf
    for action in range(NUM_ACTIONS):
        if mask[action] and values[action] > best:
            best = values[action]
    ties = 0
    for action in range(NUM_ACTIONS):
        if mask[action] and values[action] >= best - TIE:
            ties += 1
    for action in range(NUM_ACTIONS):
        policy[action] = 1.0 / ties if mask[action] and values[action] >= best - TIE else 0.0


class ExpectedAgent(Agent):
    """Exact averages for the discard, points now minus the mean reply in the play; see the module.

    Args:
        crib: the table of crib averages, one of :data:`agents.discards.CRIB_TABLES`.
    """

    def __init__(self, crib: str = "schell") -> None:
        super().__init__("expected")
        self._table = show_table()
        self._cribs = crib_table(crib)

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the actions of the greatest value; see :meth:`Agent.policy`."""
        policy, _ = self._judge(observations, masks, explain=False)
        return policy

    def action_values(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """What each action is worth in points, (B, 19) float64, NaN for illegal ones: the greatest is taken.

        Of a discard it is the mean of the hand plus or minus that of the crib, of a play the points now minus the mean
        reply. Only differences within a row mean something.
        """
        _, values = self._judge(observations, masks, explain=True)
        return values

    def _judge(
        self, observations: Observations, masks: Masks, explain: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        policy = np.empty((len(observations), NUM_ACTIONS), np.float64)
        values = np.full((len(observations) if explain else 0, NUM_ACTIONS), np.nan)
        _expected_policy(
            self._table, self._cribs, np.ascontiguousarray(observations), np.ascontiguousarray(masks), policy, values
        )
        return policy, values
