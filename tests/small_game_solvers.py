"""Two ways to solve a small play that share nothing with :mod:`agents.equilibrium`: a linear program, and plain CFR."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

import numpy as np
from plain_play import Hand, Play, begin, lay, pass_turn
from plain_trees import Infoset, Probabilities
from scipy.optimize import linprog
from scipy.sparse import coo_matrix, csr_matrix, hstack

Chances = dict[tuple[Hand, Hand], float]


class Solution(NamedTuple):
    """An equilibrium."""

    value: float
    """The pone's points minus the dealer's."""
    policy: Probabilities


class _Sequences:
    """A player's sequences: the empty one, 0, and one for each rank of each infoset, after the sequence before it."""

    def __init__(self) -> None:
        self.number: dict[tuple[Infoset, int], int] = {}
        self.infosets: dict[Infoset, tuple[int, list[int]]] = {}  # the sequence before it, its own sequences

    def follow(self, before: int, infoset: Infoset, options: list[int]) -> list[int]:
        if infoset not in self.infosets:
            start = len(self.number) + 1
            own = list(range(start, start + len(options)))
            for rank, sequence in zip(options, own, strict=True):
                self.number[infoset, rank] = sequence
            self.infosets[infoset] = before, own
        found_before, own = self.infosets[infoset]
        assert found_before == before  # perfect recall
        return own

    def constraints(self) -> csr_matrix:
        """Rows, for the empty sequence and each infoset, that come to 1, 0, 0, .. with a realisation plan."""
        rows, columns, values = [0], [0], [1.0]
        for row, (before, own) in enumerate(self.infosets.values(), start=1):
            rows += [row] * (len(own) + 1)
            columns += [*own, before]
            values += [1.0] * len(own) + [-1.0]
        return coo_matrix((values, (rows, columns)), (len(self.infosets) + 1, len(self.number) + 1)).tocsr()

    def policy(self, plan: np.ndarray) -> Probabilities:
        """What a realisation plan does where it gets to."""
        found: Probabilities = defaultdict(dict)
        for (infoset, rank), sequence in self.number.items():
            total = plan[self.infosets[infoset][1]].sum()
            if total > 1e-9:
                found[infoset][rank] = float(plan[sequence] / total)
        return dict(found)


def solve_by_linear_program(chances: Chances) -> Solution:
    """Solve the play of hands that come with these chances, in sequence form.

    D. Koller, N. Megiddo and B. von Stengel, "Fast algorithms for finding randomized strategies in game trees",
    STOC 1994.
    """
    players = _Sequences(), _Sequences()
    payoffs: dict[tuple[int, int], float] = defaultdict(float)
    for (pone, dealer), chance in chances.items():
        plays = [(begin(pone, dealer), (0, 0))]
        while plays:
            play, sequences = plays.pop()
            if play.over:
                payoffs[sequences] += chance * play.margin
                continue
            options = play.options()
            if not options:
                plays.append((pass_turn(play), sequences))
            elif len(options) == 1:
                plays.append((lay(play, options[0]), sequences))
            else:
                turn = play.turn
                infoset = play.history, play.held[turn]
                for rank, own in zip(options, players[turn].follow(sequences[turn], infoset, options), strict=True):
                    after = (own, sequences[1]) if turn == 0 else (sequences[0], own)
                    plays.append((lay(play, rank), after))
    scale = float(len(chances))  # payoffs about 1, so that tolerances mean something
    at = np.array(list(payoffs), np.int64)
    e, f = players[0].constraints(), players[1].constraints()
    a = coo_matrix((np.array(list(payoffs.values())) * scale, at.T), (e.shape[1], f.shape[1])).tocsr()
    # variables: the pone's plan x, then the dealer's values q: greatest q[0] with E x = e, F' q <= A' x
    pone_plans, dealer_values = e.shape[1], f.shape[0]
    result = linprog(
        np.concatenate([np.zeros(pone_plans), [-1.0], np.zeros(dealer_values - 1)]),
        A_ub=hstack([-a.T, f.T]).tocsr(),
        b_ub=np.zeros(f.shape[1]),
        A_eq=hstack([e, csr_matrix((e.shape[0], dealer_values))]).tocsr(),
        b_eq=np.concatenate([[1.0], np.zeros(e.shape[0] - 1)]),
        bounds=[(0, None)] * pone_plans + [(None, None)] * dealer_values,
        method="highs",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert result.status == 0, result.message
    policy = players[0].policy(result.x[:pone_plans])
    policy.update(players[1].policy(-result.ineqlin.marginals))  # the dealer's plan is the dual solution
    return Solution(-result.fun / scale, policy)


class PlainCfr:
    """Discounted regret minimisation with the schedule of :mod:`agents.equilibrium.solver`, hand pair by hand pair."""

    def __init__(self, chances: Chances) -> None:
        self.chances = chances
        self.regrets: dict[Infoset, list[float]] = {}
        self.total: dict[Infoset, list[float]] = {}
        self.options: dict[Infoset, list[int]] = {}
        self.iterations = 0

    def iterate(self) -> None:
        self.iterations += 1
        for seat in (0, 1):
            self._gained: dict[Infoset, list[float]] = {}
            self._opponent: dict[Infoset, tuple[float, list[float]]] = {}
            for (pone, dealer), chance in self.chances.items():
                self._walk(begin(pone, dealer), seat, chance, 1.0)
            for infoset, gained in self._gained.items():
                self.regrets[infoset] = [r + g for r, g in zip(self.regrets[infoset], gained, strict=True)]
            for infoset, (reach, policy) in self._opponent.items():
                weight = self.iterations**4 * reach
                total = self.total.setdefault(infoset, [0.0] * len(policy))
                self.total[infoset] = [old + weight * p for old, p in zip(total, policy, strict=True)]
        discount = self.iterations**1.5 / (self.iterations**1.5 + 1)
        for infoset, regrets in self.regrets.items():
            self.regrets[infoset] = [discount * max(regret, 0.0) for regret in regrets]

    def _policy(self, infoset: Infoset, options: list[int]) -> list[float]:
        self.options[infoset] = options
        regrets = [max(regret, 0.0) for regret in self.regrets.setdefault(infoset, [0.0] * len(options))]
        total = sum(regrets)
        return [regret / total if total > 0 else 1 / len(options) for regret in regrets]

    def _walk(self, play: Play, seat: int, chance: float, reach: float) -> float:
        """The seat's value, weighted with the chance of the hands and the opponent's reach."""
        if play.over:
            return chance * reach * (play.margin if seat == 0 else -play.margin)
        options = play.options()
        if not options:
            return self._walk(pass_turn(play), seat, chance, reach)
        if len(options) == 1:
            return self._walk(lay(play, options[0]), seat, chance, reach)
        infoset = play.history, play.held[play.turn]
        policy = self._policy(infoset, options)
        if play.turn != seat:
            self._opponent[infoset] = reach, policy
            return sum(
                self._walk(lay(play, rank), seat, chance, reach * probability)
                for rank, probability in zip(options, policy, strict=True)
            )
        values = [self._walk(lay(play, rank), seat, chance, reach) for rank in options]
        value = sum(probability * v for probability, v in zip(policy, values, strict=True))
        gained = self._gained.setdefault(infoset, [0.0] * len(options))
        self._gained[infoset] = [old + v - value for old, v in zip(gained, values, strict=True)]
        return value

    def policy(self) -> Probabilities:
        """The average policy."""
        found: Probabilities = {}
        for infoset, total in self.total.items():
            if sum(total) > 0:
                shares = [t / sum(total) for t in total]
                found[infoset] = dict(zip(self.options[infoset], shares, strict=True))
        return found
