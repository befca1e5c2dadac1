"""The exact exploitability of an agent in a reduced game (:mod:`experiments.training.starts`)."""

from __future__ import annotations

import functools

import numpy as np

from agents.base import Agent
from agents.equilibrium.hands import NUM_HANDS, hand_tables, possible
from agents.equilibrium.policies import uniform_policy
from agents.equilibrium.prior import checked_policy, dealt_weights
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.equilibrium.traverse import Policy, Walker
from agents.equilibrium.tree import PONE, Tree, build_tree
from cribbage_env.cards import RANKS
from cribbage_env.engine import EVENT_SIZE, FIRST_PLAY, KEPT, PLAYER, STATE_SIZE, apply, new_game
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.scoring import show_table
from experiments.training.starts import LAID, REDUCED_CARDS, reduced_pack, write_reduced

_TARGET = 121


@functools.cache
def _tree(ranks: str) -> tuple[Tree, Walker]:
    pack = reduced_pack(ranks)
    tree = build_tree(REDUCED_CARDS, pack)
    return tree, Walker(tree, dealt_weights(REDUCED_CARDS, pack), 1)


class ReducedGame:
    """The tree of a reduced game, and agents in it.

    Args:
        ranks: that its cards are dealt from.
    """

    def __init__(self, ranks: str) -> None:
        self._ranks = [RANKS.index(rank) for rank in ranks]
        self.tree, self.walker = _tree(ranks)

    def exploitability(self, agent: Agent) -> float:
        """What best responses win against an agent, in points a deal, the mean over both seats."""
        return exploitability(self.walker, *self.policy(agent)).mean

    def value(self, iterations: int = 200) -> float:
        """Pone's points minus the dealer's a deal between two players who play best."""
        solver = Solver(self.tree, dealt_weights(REDUCED_CARDS, self._pack), 1)
        for _ in range(iterations):
            solver.iterate()
        return play_value(self.walker, solver.policy())

    @property
    def _pack(self) -> tuple[int, ...]:
        return tuple(4 * (rank in self._ranks) for rank in range(len(RANKS)))

    def policy(self, agent: Agent) -> tuple[Policy, Policy]:
        """An agent's policy at all infosets with a choice: pone's leads and the dealer's replies."""
        policy, ends = uniform_policy(self.tree)
        tables = hand_tables()
        for node in np.flatnonzero(np.diff(self.tree.slots)):
            at = int(self.tree.slots[node])
            seat, room = int(self.tree.mover[node]), int(self.tree.room[node])
            lead = int(self.tree.by[node])  # of the dealer's nodes
            observations, masks, ranks = [], [], []
            for hand in range(NUM_HANDS[REDUCED_CARDS]):
                options = int(tables.legal[REDUCED_CARDS, hand, room])
                packed, low = tables.packed[REDUCED_CARDS, hand], int(tables.lowest[REDUCED_CARDS, hand])
                if options < 2 or not possible(self.tree.seen[node], packed, low, int(self.tree.lowest[node, seat])):
                    continue
                own = tables.ranks[REDUCED_CARDS, hand, :REDUCED_CARDS].tolist()
                observation, mask, kept = self._position(own, None if seat == PONE else lead)
                observations.append(observation)
                masks.append(mask)
                ranks.append((kept, tables.distinct[REDUCED_CARDS, hand, :options].tolist()))
            answers = checked_policy(agent, np.array(observations), np.array(masks))
            for answer, (kept, different) in zip(answers, ranks, strict=True):
                for rank in different:
                    policy[at] = sum(answer[FIRST_PLAY + slot] for slot in range(4) if kept[slot] == rank)
                    at += 1
        return policy, ends

    def _position(self, own: list[int], lead: int | None) -> tuple[np.ndarray, np.ndarray, list[int]]:
        """What pone sees who holds ``own`` before its lead, or the dealer after one; with the ranks of the slots."""
        others = [lead, *self._ranks] if lead is not None else [*self._ranks, *self._ranks]
        fits = [one for one in others[1:] if [*own, others[0], one].count(one) <= 4]
        other = sorted([others[0], fits[0]])
        row = np.zeros(STATE_SIZE, np.int16)
        log = np.zeros((0, EVENT_SIZE), np.int16)
        new_game(row, _TARGET, 0, 0, 0, 0, 0)
        hands = [*own, *other] if lead is None else [*other, *own]
        write_reduced(show_table(), log, np.array(hands, np.int8), LAID, row)
        seat = int(row[PLAYER])
        if lead is not None:
            slot = next(at for at in range(4) if row[KEPT + 4 * seat + at] >> 2 == lead and self._holds(row, seat, at))
            apply(show_table(), row, FIRST_PLAY + slot, log)
            seat = int(row[PLAYER])
        observation, mask = np.zeros(OBSERVATION_SIZE, np.uint8), np.zeros(19, np.int8)
        write_observation(row, seat, observation)
        write_mask(row, seat, mask)
        return observation, mask, [int(row[KEPT + 4 * seat + slot]) >> 2 for slot in range(4)]

    @staticmethod
    def _holds(row: np.ndarray, seat: int, slot: int) -> bool:
        mask = np.zeros(19, np.int8)
        write_mask(row, seat, mask)
        return bool(mask[FIRST_PLAY + slot])
