"""The agent ``monte_carlo``: what each card is worth in worlds that may be the real one.

In the play it draws worlds (:mod:`agents.worlds`), solves the rest of the play in each by minimax with all cards open,
and plays the card with the greatest mean. It discards as ``expected`` does, or by roll-outs of the whole deal. An
agent that sees all cards in every world never plays to hide or to find out anything ("strategy fusion"): it is a strong
heuristic, not an equilibrium.

The worlds are a function of the observation: the same position is always answered alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.discards import crib_table, discard_values
from agents.expected import best_actions
from agents.registry import AgentError
from agents.worlds import draw_opponent, lowest_held_value, observation_key, split_six, unseen_cards
from cribbage_env.engine import (
    CARDS,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    LAID,
    NUM_ACTIONS,
    OVER,
    PHASE,
    PLAYER,
    SCORE,
    STATE_SIZE,
    State,
    lay_card,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import AT_CARDS, AT_IS_DEALER, write_state
from cribbage_env.scoring import show_table
from cribbage_env.streams import combine

_HEAD = CARDS  # the columns before it are all that laying a card changes, but for the record of the cards laid


# Columns of the search stack
_PLAYS, _BEST, _LOW, _HIGH = range(4)
_BOUND = 1000  # above any difference of scores


@inline_jit
def _one_of_each_rank(row: State, seat: int, plays: int) -> int:
    """The bits of ``plays`` without those of a second card of a rank: they are alike in the play."""
    bits = plays
    for slot in range(1, 4):  # the kept cards are sorted
        same = row[KEPT + 4 * seat + slot] >> 2 == row[KEPT + 4 * seat + slot - 1] >> 2
        if same and plays >> (slot - 1) & 1:
            bits &= ~(1 << slot)
    return bits


@jit(_nrt=False)
def minimax(row: State, saved: State, stack: NDArray[np.int64], no_log: State) -> int:
    """The final score of seat 0 minus that of seat 1 after the play, both playing the open cards as best they can.

    Alpha-beta search on the row itself, which is left as it was. ``saved`` (9, CARDS) int16 and ``stack`` (9, 4) int64
    are scratch space: a row for every depth.
    """
    depth = 0
    value = 0
    stack[0, _LOW] = -_BOUND
    stack[0, _HIGH] = _BOUND
    entering = True
    while True:
        node = stack[depth]
        if entering:
            if row[PHASE] == OVER or row[LAID] == 8:
                value = int(row[SCORE]) - int(row[SCORE + 1])
                entering = False
                if depth == 0:
                    return value
                depth -= 1
                continue
            for i in range(_HEAD):
                saved[depth, i] = row[i]
            seat = int(row[PLAYER])
            node[_PLAYS] = _one_of_each_rank(row, seat, playable(row, seat))
            node[_BEST] = -_BOUND if seat == 0 else _BOUND
        else:  # back from a card, with its value
            for i in range(_HEAD):
                row[i] = saved[depth, i]
            if row[PLAYER] == 0:
                node[_BEST] = max(node[_BEST], value)
                node[_LOW] = max(node[_LOW], value)
            else:
                node[_BEST] = min(node[_BEST], value)
                node[_HIGH] = min(node[_HIGH], value)
        plays = node[_PLAYS]
        if plays == 0 or node[_LOW] >= node[_HIGH]:
            value = node[_BEST]
            entering = False
            if depth == 0:
                return value
            depth -= 1
            continue
        slot = 0
        while not plays >> slot & 1:
            slot += 1
        node[_PLAYS] = plays & ~(1 << slot)
        stack[depth + 1, _LOW] = node[_LOW]
        stack[depth + 1, _HIGH] = node[_HIGH]
        lay_card(row, slot, no_log)
        depth += 1
        entering = True


@jit
def _play_values(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observation: NDArray[np.uint8],
    mask: NDArray[np.int8],
    worlds: int,
    temperature: float,
    values: NDArray[np.float64],
) -> None:
    """Write the mean value of each legal play over the worlds to ``values`` ((19,) float64)."""
    unseen = np.empty(52, np.uint8)
    six = np.empty(6, np.uint8)
    kept = np.empty(4, np.uint8)
    thrown = np.empty(2, np.uint8)
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    row = np.zeros(STATE_SIZE, np.int16)
    saved = np.empty((9, _HEAD), np.int16)
    stack = np.empty((9, 4), np.int64)
    no_log = np.empty((0, EVENT_SIZE), np.int16)

    # Worlds that differ in suits or in the cards thrown are the same in the play: solve each set of ranks once.
    hands = np.empty((worlds, 6), np.uint8)
    ranks = np.empty(worlds, np.int64)
    times = np.zeros(worlds, np.int64)
    different = 0
    key = observation_key(observation)
    may_hold, num_unseen = unseen_cards(observation, lowest_held_value(observation), unseen)
    for world in range(worlds):
        draw_opponent(
            table, cribs, observation, temperature, combine(key, world), unseen, may_hold, num_unseen, six,
            ranks_left, suits_left,
        )  # fmt: skip
        split_six(six, kept, thrown)
        name = 0
        for i in range(4):
            name = 13 * name + (kept[i] >> 2)
        known = 0
        while known < different and ranks[known] != name:
            known += 1
        if known == different:
            ranks[known] = name
            for i in range(6):
                hands[known, i] = six[i]
            different += 1
        times[known] += 1

    for slot in range(4):
        values[FIRST_PLAY + slot] = 0.0
    for world in range(different):
        split_six(hands[world], kept, thrown)
        write_state(observation, kept, thrown, row)
        for i in range(_HEAD):
            saved[8, i] = row[i]
        for slot in range(4):
            if mask[FIRST_PLAY + slot]:
                lay_card(row, slot, no_log)
                values[FIRST_PLAY + slot] += times[world] * minimax(row, saved, stack, no_log)
                for i in range(_HEAD):
                    row[i] = saved[8, i]
    for slot in range(4):
        values[FIRST_PLAY + slot] /= worlds


@jit
def _monte_carlo_policy(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observations: Observations,
    masks: Masks,
    worlds: int,
    temperature: float,
    policy: NDArray[np.float64],
) -> None:
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    values = np.empty(NUM_ACTIONS, np.float64)
    for i in range(observations.shape[0]):
        observation = observations[i]
        if masks[i, 0]:
            cards = observation[AT_CARDS : AT_CARDS + 6]
            discard_values(table, cribs, cards, observation[AT_IS_DEALER] == 1, ranks_left, suits_left, values)
        else:
            legal = 0
            for action in range(FIRST_PLAY, NUM_ACTIONS):
                legal += masks[i, action]
                values[action] = 0.0
            if legal > 1:
                _play_values(table, cribs, observation, masks[i], worlds, temperature, values)
        best_actions(values, masks[i], policy[i])


class MonteCarloAgent(Agent):
    """Minimax in sampled worlds; see the module.

    Args:
        worlds: how many worlds a decision of the play is judged in.
        crib: the table of crib averages, one of :data:`agents.discards.CRIB_TABLES`.
        temperature: of the opponent's supposed discards, in points (:mod:`agents.worlds`).
    """

    def __init__(self, worlds: int = 100, crib: str = "schell", temperature: float = 0.5) -> None:
        super().__init__("monte_carlo")
        if worlds < 1:
            raise AgentError(f"monte_carlo: worlds must be positive, got {worlds}")
        if not temperature > 0:
            raise AgentError(f"monte_carlo: temperature must be positive, got {temperature}")
        self._table = show_table()
        self._cribs = crib_table(crib)
        self._worlds = worlds
        self._temperature = temperature

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the actions of the greatest value; see :meth:`Agent.policy`."""
        policy = np.empty((len(observations), NUM_ACTIONS), np.float64)
        _monte_carlo_policy(
            self._table, self._cribs, np.ascontiguousarray(observations), np.ascontiguousarray(masks),
            self._worlds, self._temperature, policy,
        )  # fmt: skip
        return policy
