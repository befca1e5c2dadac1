"""Whom a learner meets: one agent, or several of which every game draws one, by weight, from its seed.

>>> Opponents("expected")
>>> Opponents({"greedy": 1, "runs/x/checkpoint.pt": 3})  # three games in four against the checkpoint
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents import Agent, AgentError, make_agent
from agents.base import Keys, Masks, Observations
from cribbage_env.jit import inline_jit, jit
from cribbage_env.streams import combine, unit

# Streams of a game's seed, apart from those of its decks and of the cut for deal (cribbage_env.engine)
_DRAW_STREAM = 2**33
_KEY_STREAM = 2**33 + 1

OpponentLike = str | Agent
OpponentsLike = OpponentLike | Mapping[OpponentLike, float]
_EXPECTED = "opponent must be a spec, an agent or a mapping of such to weights"


@inline_jit
def draw_opponent(bounds: NDArray[np.float64], seed: int) -> int:
    """The opponent of the game with this seed. ``bounds`` (K,) float64 are the cumulated shares, the last one 1."""
    if bounds.shape[0] == 1:
        return 0
    drawn = unit(combine(seed, _DRAW_STREAM))
    chosen = 0
    while drawn >= bounds[chosen]:
        chosen += 1
    return chosen


@inline_jit
def opponent_key(seed: int, decision: int) -> np.uint64:
    """The key of an opponent's decision: a function of the game's seed and the decision's number in it."""
    return combine(combine(seed, _KEY_STREAM), decision)


@jit
def _draw_all(bounds: NDArray[np.float64], seeds: NDArray[np.uint64], out: NDArray[np.int64]) -> None:
    for i in range(out.shape[0]):
        out[i] = draw_opponent(bounds, seeds[i])


class Opponents:
    """One or several agents with the share of games that each plays.

    Args:
        opponents: a spec or an :class:`Agent`, or a mapping of such to weights. A weight of 0 leaves it out.

    Raises:
        AgentError: a spec that names no agent, or weights that are no finite numbers of at least 0, or all 0.
    """

    def __init__(self, opponents: OpponentsLike) -> None:
        if not isinstance(opponents, str | Agent | Mapping) or opponents == {}:
            raise AgentError(f"{_EXPECTED}, got {opponents!r}")
        weights = opponents if isinstance(opponents, Mapping) else {opponents: 1.0}
        numbers = [(one, _weight(one, weight)) for one, weight in weights.items()]
        total = sum(weight for _, weight in numbers)
        if not 0 < total < math.inf:
            raise AgentError(f"opponent: the weights must sum to a finite number above 0, got {_listed(weights)}")
        self.agents: list[Agent] = [_made(one) for one, weight in numbers if weight > 0]
        self.shares: NDArray[np.float64] = np.array([weight / total for _, weight in numbers if weight > 0])
        """(K,) float64, of the games; they sum to 1."""
        self.bounds: NDArray[np.float64] = np.cumsum(self.shares)
        self.bounds[-1] = 1.0  # whatever rounding makes of the sum

    @property
    def names(self) -> list[str]:
        """The agents' names, K of them."""
        return [agent.name for agent in self.agents]

    def __len__(self) -> int:
        return len(self.agents)

    def __repr__(self) -> str:
        shares = ", ".join(f"{name!r}: {share:.4g}" for name, share in zip(self.names, self.shares, strict=True))
        return f"<Opponents {shares}>"

    def reset(self, seed: int) -> None:
        """Start the agents' own streams anew; they serve agents that draw from these and not from their keys."""
        for number, agent in enumerate(self.agents):
            agent.reset(int(combine(np.uint64(seed), number)))

    def draw(self, seeds: NDArray[np.uint64]) -> NDArray[np.int64]:
        """The opponents (M,) int64 0..K-1 of the games with these seeds (M,) uint64."""
        chosen = np.empty(len(seeds), np.int64)
        _draw_all(self.bounds, np.ascontiguousarray(seeds, np.uint64), chosen)
        return chosen

    def act(
        self, which: NDArray[np.integer], observations: Observations, masks: Masks, keys: Keys
    ) -> NDArray[np.int64]:
        """The actions (B,) int64 of the opponents ``which`` (B,), each agent asked once for all of its rows.

        Raises:
            AgentError: an agent that returns something other than legal actions.
        """
        if len(self.agents) == 1:
            return _checked(self.agents[0], self.agents[0].act(observations, masks, keys), masks)
        actions = np.empty(len(which), np.int64)
        for number, agent in enumerate(self.agents):
            rows = np.flatnonzero(which == number)
            if len(rows):
                theirs = masks[rows]
                actions[rows] = _checked(agent, agent.act(observations[rows], theirs, keys[rows]), theirs)
        return actions


def _checked(agent: Agent, actions: Any, masks: Masks) -> NDArray[np.int64]:
    """What an agent returned, if it is a legal action a row."""
    chosen = np.asarray(actions)
    n = len(masks)
    if chosen.shape != (n,) or not np.issubdtype(chosen.dtype, np.integer):
        raise AgentError(
            f"the opponent {agent.name!r}: act must return {n} integers of shape ({n},), got {chosen.dtype} of shape "
            f"{chosen.shape}"
        )
    chosen = np.ascontiguousarray(chosen, np.int64)
    at = _first_illegal(chosen, np.ascontiguousarray(masks))
    if at >= 0:
        legal = ", ".join(map(str, np.flatnonzero(masks[at])))
        raise AgentError(f"the opponent {agent.name!r} chose the illegal action {chosen[at]}; legal were {legal}")
    return chosen


@jit
def _first_illegal(actions: NDArray[np.int64], masks: Masks) -> int:
    for i in range(actions.shape[0]):
        if actions[i] < 0 or actions[i] >= masks.shape[1] or masks[i, actions[i]] == 0:
            return i
    return -1


def _weight(one: object, weight: object) -> float:
    name = one.name if isinstance(one, Agent) else one
    if isinstance(weight, bool | np.bool_) or not isinstance(weight, int | float | np.integer | np.floating):
        raise AgentError(f"opponent: the weight of {name!r} must be a number, got {weight!r}")
    try:
        number = float(weight)
    except OverflowError:
        number = math.inf
    if not 0 <= number < math.inf:
        raise AgentError(f"opponent: the weight of {name!r} must be a finite number of at least 0, got {weight}")
    return number


def _listed(weights: Mapping[OpponentLike, float]) -> str:
    return ", ".join(f"{one.name if isinstance(one, Agent) else one}: {weight}" for one, weight in weights.items())


def _made(one: object) -> Agent:
    if isinstance(one, Agent):
        return one
    if isinstance(one, str):
        return make_agent(str(one))  # numpy.str_ too
    raise AgentError(f"{_EXPECTED}, got {one!r}")
