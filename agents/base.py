"""What every agent is: observations in, actions out, many at a time.

Agents see observations only (:mod:`cribbage_env.observation`), so none can peek at hidden cards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from cribbage_env.jit import jit
from cribbage_env.streams import check_seed, combine, combine_arrays, unit

Observations = NDArray[np.uint8]
Masks = NDArray[np.int8]
Keys = NDArray[np.uint64]


class AgentError(ValueError):
    """A spec that names no agent, an agent that can't be made or breaks its contract; it says what is right."""


@contextmanager
def named_in(field: str) -> Iterator[None]:
    """Let an :class:`AgentError` begin with the field of a config that has the spec."""
    try:
        yield
    except AgentError as error:
        raise AgentError(f"{field}: {error}") from None


@jit
def _sample(policy: NDArray[np.float64], keys: Keys, actions: NDArray[np.int64]) -> int:
    """Returns the first row that is no distribution, -1 if there is none."""
    for i in range(policy.shape[0]):
        total = 0.0
        least = 0.0
        for action in range(policy.shape[1]):
            total += policy[i, action]
            least = min(least, policy[i, action])
        if not (least >= 0.0 and 0.0 < total < np.inf):  # also where there is a NaN
            return i
        threshold = unit(keys[i]) * total
        passed = 0.0
        chosen = 0
        for action in range(policy.shape[1]):
            if policy[i, action] > 0.0:
                chosen = action  # also if rounding leaves the threshold above all of them
                passed += policy[i, action]
                if passed > threshold:
                    break
        actions[i] = chosen
    return -1


def sample_actions(policy: NDArray[np.float64], keys: Keys) -> NDArray[np.int64]:
    """One action a row, (B,) int64, drawn from probabilities (B, A) float64 by keys (B,) uint64.

    Raises:
        ValueError: keys of another shape or type.
        AgentError: a row with a negative, infinite or missing (NaN) probability, or only zeros.
    """
    if keys.shape != (len(policy),) or keys.dtype != np.uint64:
        raise ValueError(f"keys must be ({len(policy)},) uint64, one a row, got {keys.shape} {keys.dtype}")
    actions = np.empty(len(policy), np.int64)
    bad = _sample(np.ascontiguousarray(policy, np.float64), keys, actions)
    if bad >= 0:
        values = ", ".join(f"{value:.3g}" for value in policy[bad])
        raise AgentError(f"probabilities must be finite, not negative and not all zero, got [{values}]")
    return actions


class Agent(ABC):
    """Chooses actions for batches of observations.

    Subclasses write :meth:`policy`; :meth:`act` draws from it. Everything random in a row follows from the row's key,
    so that what an agent does in a game does not depend on the batch, process or machine the game is played in.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        """The agent's spec, or the name that a config gave it."""
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Start the agent's own stream of randomness anew; it serves calls of :meth:`act` without keys."""
        self._stream = np.uint64(check_seed(seed))
        self._drawn = 0

    @abstractmethod
    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """The probabilities of all actions.

        Args:
            observations: (B, D) uint8 of the seats to act.
            masks: (B, 19) int8, 1 for legal actions; every row has one.

        Returns:
            (B, 19) float64; rows sum to 1, illegal actions have 0.
        """

    def act(self, observations: Observations, masks: Masks, keys: Keys | None = None) -> NDArray[np.int64]:
        """Actions (B,) int64, drawn from :meth:`policy` by ``keys`` (B,) uint64 (None: the agent's own stream)."""
        policy = np.asarray(self.policy(observations, masks))
        if policy.shape != masks.shape or policy.dtype.kind not in "fiub":
            raise AgentError(
                f"policy must return probabilities of shape {masks.shape}, got {policy.dtype} of shape {policy.shape}"
            )
        return sample_actions(policy, self._keys(len(observations)) if keys is None else keys)

    def _keys(self, n: int) -> Keys:
        """The next n keys of the agent's own stream."""
        numbers = np.arange(self._drawn, self._drawn + n)
        self._drawn += n
        return combine_arrays(np.full(n, self._stream), numbers)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


def decision_keys(match_seed: int, games: NDArray[np.integer], decisions: NDArray[np.integer]) -> Keys:
    """The keys (B,) uint64 of decisions: a function of the match's seed, the game and the decision's number in it."""
    match_key = combine(np.uint64(match_seed), 0)
    return combine_arrays(combine_arrays(np.full(len(games), match_key, np.uint64), games), decisions)
