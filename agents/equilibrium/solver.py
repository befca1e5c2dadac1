"""Discounted regret minimisation on the play: towards an equilibrium of it, for given priors of the kept hands.

The method is discounted counterfactual regret minimisation (N. Brown and T. Sandholm, "Solving imperfect-information
games via discounted regret minimization", AAAI 2019), with alternating updates, on vectors of hands (M. Johanson et
al., "Accelerating best response calculation in large extensive games", IJCAI 2011). After iteration t positive regrets
are multiplied with t^1.5 / (t^1.5 + 1) and negative ones cleared, and the policy of iteration t counts with t^4 in the
average.

Multiplying every regret after each iteration is the same as giving new ones a weight that grows by the inverse factor
(only the proportions of an infoset's regrets matter). So what an iteration does not reach needs no work at all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.equilibrium.policies import normalised, option_counts
from agents.equilibrium.traverse import BEST, SOLVE, VALUE, Policy, Walker
from agents.equilibrium.tree import DEALER_SEAT, PONE, Tree

_REGRET_POWER = 1.5
_AVERAGE_POWER = 4.0


class Exploitability(NamedTuple):
    """What best responses win against a policy, in points a deal of the play."""

    pone: float
    """Pone's points minus dealer's, if pone answers the policy at its best."""
    dealer: float
    """Dealer's points minus pone's, if the dealer does."""

    @property
    def mean(self) -> float:
        """The exploitability: what a best response wins a deal, taking each seat half of the time. 0 in equilibrium."""
        return (self.pone + self.dealer) / 2


def exploitability(walker: Walker, policy: Policy, end_policy: Policy | None = None) -> Exploitability:
    """The exact exploitability of a policy under the walker's distribution of hands."""
    return Exploitability(
        float(walker.walk(PONE, BEST, policy, end_policy).sum()),
        float(walker.walk(DEALER_SEAT, BEST, policy, end_policy).sum()),
    )


def play_value(walker: Walker, policy: Policy, end_policy: Policy | None = None) -> float:
    """Pone's points minus dealer's a deal, if both play a policy (each player's own part of it)."""
    return float(walker.walk(PONE, VALUE, policy, end_policy).sum())


class Solver:
    """Regret minimisation, an iteration at a time.

    Args:
        tree: of the play.
        weights: (H, H) the joint distribution of kept hands to learn with. Every pair of hands that should be played
            well needs some weight.
        threads: None: one a core. They don't change the result.
    """

    def __init__(self, tree: Tree, weights: NDArray[np.floating], threads: int | None = None) -> None:
        self.tree = tree
        self.walker = Walker(tree, weights, threads)
        self.counts = option_counts(tree)
        self.regrets: Policy = np.zeros(tree.policy_size, np.float32)
        """Of both players, of at least zero, in units that grow from iteration to iteration (see the module)."""
        self.total: Policy = np.zeros(tree.policy_size, np.float32)
        """The policies of all iterations, weighted and added up."""
        self.iterations = 0
        self._regret_weight = 1.0

    def iterate(self) -> None:
        """Update pone's regrets, then the dealer's."""
        power = float(self.iterations) ** _REGRET_POWER
        if self.iterations:
            self._regret_weight *= (power + 1.0) / power
        self.iterations += 1
        average_weight = float(self.iterations) ** _AVERAGE_POWER
        for seat in (PONE, DEALER_SEAT):
            self.walker.walk(
                seat,
                SOLVE,
                self.regrets,
                written=self.total,
                regret_weight=self._regret_weight,
                average_weight=average_weight,
            )

    def policy(self) -> Policy:
        """The average policy so far."""
        return normalised(self.counts, self.total)

    def state(self) -> dict[str, NDArray[np.generic]]:
        """All that :meth:`restore` needs to go on."""
        return {
            "regrets": self.regrets,
            "total": self.total,
            "iterations": np.array(self.iterations),
            "regret_weight": np.array(self._regret_weight),
        }

    def restore(self, state: dict[str, NDArray[np.generic]]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            ValueError: it is that of another tree.
        """
        for name in ("regrets", "total"):
            if state[name].shape != self.regrets.shape:
                raise ValueError(f"{name}: {self.regrets.shape} belong to this tree, got {state[name].shape}")
        self.regrets[:] = state["regrets"]
        self.total[:] = state["total"]
        self.iterations = int(state["iterations"])
        self._regret_weight = float(state["regret_weight"])
