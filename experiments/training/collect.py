"""Self-play for value learning: what was done in episodes, as networks see it, with the return that followed.

Both seats are the agent that learns, epsilon-greedy. A return is what the acting seat was rewarded from its action to
the end of the episode, undiscounted.

With ``subtract_luck`` (single deals, reward in points) returns lose what the action could not change, so that their
spread is that of what is to be learned: from plays the points of the show, from discards heels and the opponent's hand;
and of the own hand the average over all starters counts, not the one that was cut. In expectation that shifts all
actions of a decision alike (and not at all by the starter), so the best stays the best. It is a control variate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.base import decision_keys, sample_actions
from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import KINDS
from agents.neural.features import Candidates
from cribbage_env.engine import CRIB_PART, DECISIONS, HAND_DEALER_PART, HAND_PONE_PART, HEELS_PART, PARTS
from cribbage_env.streams import combine_arrays
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.config import TrainConfig
from experiments.training.streams import DECKS, EXPLORATION, stream

_HANDS = (HAND_DEALER_PART, HAND_PONE_PART)
_SHOW = (*_HANDS, CRIB_PART)


@dataclass(frozen=True)
class Samples:
    """S decisions of a kind, by game and in order within it."""

    features: NDArray[np.int32]
    """(S, K): the features of what was chosen, see :class:`agents.neural.features.Candidates`."""
    known: NDArray[np.float32]
    """(S,)"""
    returns: NDArray[np.float32]
    """(S,) in the unit of the reward"""

    def __len__(self) -> int:
        return len(self.returns)


@dataclass(frozen=True)
class _Chosen:
    """What was chosen in a step: M decisions of a kind."""

    slots: NDArray[np.int64]
    features: NDArray[np.int32]
    known: NDArray[np.float32]


def collect(agent: NeuralAgent, config: TrainConfig, first: int, games: int) -> dict[str, Samples]:
    """Play the run's episodes ``first`` to ``first + games - 1`` to their end.

    Everything follows from the config's seed, the episodes' numbers and the agent, so splitting a range of episodes
    between threads changes nothing.
    """
    env = CribbageVectorEnv(
        games,
        rules=config.rules.rules(),
        reward=config.collect.reward,
        episode=config.collect.episode,
        skip_forced=True,
        copy=False,
    )
    numbers = np.arange(first, first + games)
    decks = combine_arrays(np.full(games, stream(config.seed, DECKS), np.uint64), numbers)
    exploration = stream(config.seed, EXPLORATION)
    observations, _ = env.reset(options={"game_seeds": decks})

    chosen: dict[str, list[_Chosen]] = {kind: [] for kind in KINDS}
    players: list[NDArray[np.int8]] = []  # each step: (games,) who acted
    rewards: list[NDArray[np.float64]] = []  # each step: (games,) to seat 0
    parts = np.zeros((games, 2, len(PARTS)), np.int16)  # points at the end
    won = np.zeros(games, np.bool_)
    actions = np.zeros(games, np.int64)
    while env.active.any():
        slots = np.flatnonzero(env.active)
        masks = observations["action_mask"][slots]
        candidates = agent.candidates(observations["observation"][slots], masks)
        values = agent.values(candidates, len(slots))
        keys = decision_keys(exploration, numbers[slots], env.rows[slots, DECISIONS])
        taken = _epsilon_greedy(values, masks, config.collect.epsilon, keys)
        for kind in KINDS:
            chosen[kind].append(_chosen(candidates[kind], taken, slots))
        actions[slots] = taken
        players.append(env.players.copy())
        observations, _, _, _, infos = env.step(actions)
        rewards.append(infos["rewards"][:, 0].copy())
        if "final_info" in infos:
            ended, results = env.finished()
            parts[ended] = results["parts"]
            won[ended] = results["winner"] >= 0
    to_go = np.cumsum(np.array(rewards)[::-1], axis=0)[::-1]  # (steps, games), to seat 0
    samples = {}
    for kind in KINDS:
        slots, seats, one = _samples(chosen[kind], np.array(players), to_go)
        if config.learner.subtract_luck:
            luck = _luck(kind, parts[slots, seats], parts[slots, 1 - seats], one.known)
            one.returns[:] -= np.where(won[slots], 0.0, luck)  # a deal that the target cut off keeps its return
        samples[kind] = one
    return samples


def _epsilon_greedy(
    values: NDArray[np.float64], masks: NDArray[np.int8], epsilon: float, keys: NDArray[np.uint64]
) -> NDArray[np.int64]:
    """Actions (B,): mostly the best by values (B, 19), with probability ``epsilon`` any legal one."""
    policy = masks * (epsilon / masks.sum(axis=1, keepdims=True))
    policy[np.arange(len(values)), values.argmax(axis=1)] += 1.0 - epsilon
    return sample_actions(policy, keys)


def _chosen(candidates: Candidates, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> _Chosen:
    at = candidates.chosen(actions)
    return _Chosen(slots[candidates.rows[at]], candidates.features[at], candidates.known[at])


def _samples(
    chosen: list[_Chosen], players: NDArray[np.int8], to_go: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], Samples]:
    """The slots (S,), the acting seats (S,) and the samples of a kind, sorted by slot.

    Args:
        chosen: by step.
        players, to_go: (steps, games), who acted, and seat 0's rewards from there on.
    """
    steps = np.repeat(np.arange(len(chosen)), [len(one.slots) for one in chosen])
    slots = np.concatenate([one.slots for one in chosen])
    order = np.lexsort((steps, slots))
    steps, slots = steps[order], slots[order]
    seats = players[steps, slots].astype(np.int64)
    returns = np.where(seats == 0, to_go[steps, slots], -to_go[steps, slots])
    features = np.concatenate([one.features for one in chosen])[order]
    known = np.concatenate([one.known for one in chosen])[order]
    return slots, seats, Samples(features, known, returns.astype(np.float32))


def _luck(
    kind: str, own: NDArray[np.int16], other: NDArray[np.int16], known: NDArray[np.float32]
) -> NDArray[np.float64]:
    """What is subtracted from the returns (S,) of a kind, see the module.

    Args:
        own, other: (S, 6) points of the acting seat and of the other one in the deal, by part.
        known: (S,) of discards, the kept hand's average.
    """
    own, other = own.astype(np.float64), other.astype(np.float64)
    if kind == "play":
        return own[:, _SHOW].sum(axis=1) - other[:, _SHOW].sum(axis=1)
    heels = own[:, HEELS_PART] - other[:, HEELS_PART]
    starter = own[:, _HANDS].sum(axis=1) - known
    return heels + starter - other[:, _HANDS].sum(axis=1)


def joined(parts: list[dict[str, Samples]]) -> dict[str, Samples]:
    """The samples of consecutive ranges of episodes together."""
    return {
        kind: Samples(
            *(
                np.concatenate([getattr(part[kind], name) for part in parts])
                for name in ("features", "known", "returns")
            )
        )
        for kind in KINDS
    }
