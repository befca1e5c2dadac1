"""The agent ``greedy``: the points that can be seen now, and nothing else.

It discards the pair that maximises (points of the four kept cards, without the starter) plus (own crib) or minus
(opponent's crib) the points of the pair thrown, and plays the card that scores most at once. Ties at random.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from cribbage_env.cards import NO_CARD
from cribbage_env.engine import FIRST_PLAY, KEPT_PLACES, NUM_ACTIONS, NUM_DISCARDS, PAIRS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import AT_CARDS, AT_COUNT, AT_COUNT_BEGIN, AT_IS_DEALER, AT_KEPT, AT_LAID, AT_NUM_LAID
from cribbage_env.scoring import card_value, play_parts, show_points, show_table


@inline_jit
def pair_points(table: NDArray[np.int8], first: int, second: int) -> int:
    """Points of two cards alone, as in the crib."""
    return show_points(table, first, second, NO_CARD, NO_CARD, NO_CARD, True)


@inline_jit
def discard_value(table: NDArray[np.int8], observation: NDArray[np.uint8], action: int) -> int:
    """Points kept, without the starter, plus or minus the points thrown."""
    kept = show_points(
        table,
        int(observation[AT_CARDS + KEPT_PLACES[action, 0]]),
        int(observation[AT_CARDS + KEPT_PLACES[action, 1]]),
        int(observation[AT_CARDS + KEPT_PLACES[action, 2]]),
        int(observation[AT_CARDS + KEPT_PLACES[action, 3]]),
        NO_CARD,
        False,
    )
    first = int(observation[AT_CARDS + PAIRS[action, 0]])
    second = int(observation[AT_CARDS + PAIRS[action, 1]])
    thrown = pair_points(table, first, second)
    return kept + thrown if observation[AT_IS_DEALER] else kept - thrown


@inline_jit
def points_now(observation: NDArray[np.uint8], card: int, laid: NDArray[np.uint8]) -> int:
    """Points that laying ``card`` scores at once (without go and last card). ``laid`` is scratch space, (9,) uint8."""
    begin = int(observation[AT_COUNT_BEGIN])
    end = int(observation[AT_NUM_LAID])
    for i in range(begin, end):
        laid[i] = observation[AT_LAID + i]
    laid[end] = card
    count = int(observation[AT_COUNT]) + card_value(card)
    fifteen, thirty_one, pair, run = play_parts(laid, begin, end + 1, count)
    return fifteen + thirty_one + pair + run


@jit
def _greedy_policy(
    table: NDArray[np.int8], observations: Observations, masks: Masks, policy: NDArray[np.float64]
) -> None:
    laid = np.empty(9, np.uint8)
    values = np.empty(NUM_ACTIONS, np.int64)
    for i in range(observations.shape[0]):
        observation = observations[i]
        best = -1000
        for action in range(NUM_ACTIONS):
            if masks[i, action]:
                if action < NUM_DISCARDS:
                    values[action] = discard_value(table, observation, action)
                else:
                    card = int(observation[AT_KEPT + action - FIRST_PLAY])
                    values[action] = points_now(observation, card, laid)
                best = max(best, values[action])
        ties = 0
        for action in range(NUM_ACTIONS):
            if masks[i, action] and values[action] == best:
                ties += 1
        for action in range(NUM_ACTIONS):
            policy[i, action] = 1.0 / ties if masks[i, action] and values[action] == best else 0.0


class GreedyAgent(Agent):
    """Takes the points that can be seen now; see the module."""

    def __init__(self) -> None:
        super().__init__("greedy")
        self._table = show_table()

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the actions of the greatest points; see :meth:`Agent.policy`."""
        policy = np.empty((len(observations), NUM_ACTIONS), np.float64)
        _greedy_policy(self._table, np.ascontiguousarray(observations), np.ascontiguousarray(masks), policy)
        return policy
