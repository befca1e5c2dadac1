"""The agent ``reduced_solution``: plays the reduced game (``collect.reduced``) as it is solved. For ``distill``."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from agents import Agent, register_agent
from agents.base import Masks, Observations
from agents.equilibrium.hands import NUM_HANDS, hand_tables, possible
from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.solver import Solver
from agents.equilibrium.tree import PONE
from cribbage_env.engine import FIRST_PLAY
from cribbage_env.observation import AT_KEPT, AT_LAID, AT_NUM_LAID
from experiments.training.reduced import ReducedGame
from experiments.training.starts import LAID, REDUCED_CARDS, reduced_pack

RANKS = "4567"
_ITERATIONS = 200
_NO_LEAD = 13


@functools.cache
def _lower_first() -> NDArray[np.float64]:
    """(14, 13, 13): how likely the lower one of two ranks is laid, after each lead (13: as the lead)."""
    game = ReducedGame(RANKS)
    solver = Solver(game.tree, dealt_weights(REDUCED_CARDS, reduced_pack(RANKS)), 1)
    for _ in range(_ITERATIONS):
        solver.iterate()
    policy = solver.policy()
    tree, tables = game.tree, hand_tables()
    table = np.full((14, 13, 13), 0.5)
    for node in np.flatnonzero(np.diff(tree.slots)):
        at, seat = int(tree.slots[node]), int(tree.mover[node])
        for hand in range(NUM_HANDS[REDUCED_CARDS]):
            packed, low = tables.packed[REDUCED_CARDS, hand], int(tables.lowest[REDUCED_CARDS, hand])
            if tables.legal[REDUCED_CARDS, hand, int(tree.room[node])] < 2:
                continue
            if possible(tree.seen[node], packed, low, int(tree.lowest[node, seat])):
                first, second = tables.distinct[REDUCED_CARDS, hand, :2]
                table[_NO_LEAD if seat == PONE else tree.by[node], first, second] = policy[at]
                at += 2
    return table


class ReducedSolution(Agent):
    """Lays the first two cards by the solution, and else the first card that may be laid."""

    def __init__(self) -> None:
        super().__init__("reduced_solution")

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """See :meth:`Agent.policy`."""
        policy = np.zeros(masks.shape)
        for row, (observation, mask) in enumerate(zip(observations, masks, strict=True)):
            slots = np.flatnonzero(mask[FIRST_PLAY:])
            if len(slots) < 2:
                policy[row, mask.argmax()] = 1.0
                continue
            first, second = observation[AT_KEPT + slots[:2]] >> 2
            laid = int(observation[AT_NUM_LAID]) - len(LAID)
            lead = _NO_LEAD if laid == 0 else observation[AT_LAID + len(LAID)] >> 2
            lower = _lower_first()[lead, first, second]
            policy[row, FIRST_PLAY + slots[:2]] = lower, 1.0 - lower
        return policy


register_agent("reduced_solution", ReducedSolution)
