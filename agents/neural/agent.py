"""The agent that plays a checkpoint: ``make_agent("runs/x/checkpoint.pt")``, or the run's folder ``"runs/x/"``.

It values every legal action with the network of its kind and takes the best, the first of equals. With
``temperature=t`` it draws in proportion to exp(value / t), the value being in the unit of the reward that was trained
with. Values are computed exactly (:mod:`agents.neural.networks`), so a decision is the same in every batch and on every
device.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.neural.checkpoint import KINDS, network_shape, read_checkpoint
from agents.neural.features import Candidates, discard_candidates, play_candidates
from agents.neural.networks import ExactNetwork
from agents.registry import AgentError
from cribbage_env.engine import NUM_ACTIONS

MIN_TEMPERATURE = 1e-6


class NeuralAgent(Agent):
    """Plays what two networks value most.

    Args:
        name: the agent's name.
        networks: by kind of decision, ``discard`` and ``play``.
        scores: whether the networks see the scores.
        temperature: of the choice between actions; 0 takes the best.
    """

    def __init__(self, name: str, networks: Mapping[str, ExactNetwork], scores: bool, temperature: float = 0.0) -> None:
        super().__init__(name)
        self._networks = networks
        self._scores = scores
        self._temperature = temperature

    def candidates(self, observations: Observations, masks: Masks) -> dict[str, Candidates]:
        """The legal actions of observations (B, D), masks (B, 19), by kind, as the networks see them."""
        observations = np.ascontiguousarray(observations, np.uint8)
        masks = np.ascontiguousarray(masks, np.int8)
        return {
            "discard": discard_candidates(observations, self._scores),
            "play": play_candidates(observations, masks, self._scores),
        }

    def values(self, candidates: Mapping[str, Candidates], n: int) -> NDArray[np.float64]:
        """Values (n, 19) float64 of what :meth:`candidates` made of n observations; -inf for illegal actions."""
        values = np.full((n, NUM_ACTIONS), -np.inf)
        for kind, those in candidates.items():
            if len(those):
                values[those.rows, those.actions] = self._networks[kind].values(those.features, those.known)
        return values

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """1 for the best action, or the softmax over the legal ones; see :meth:`Agent.policy`."""
        values = self.values(self.candidates(observations, masks), len(observations))
        if self._temperature == 0.0:
            policy = np.zeros_like(values)
            policy[np.arange(len(values)), values.argmax(axis=1)] = 1.0
            return policy
        weights: NDArray[np.float64] = np.exp((values - values.max(axis=1, keepdims=True)) / self._temperature)
        return weights / weights.sum(axis=1, keepdims=True)


def choose_device(device: str) -> torch.device:
    """The device of a name: ``auto`` (a GPU if there is one), ``cpu``, ``cuda`` or ``cuda:1``.

    Raises:
        AgentError: another name, or a GPU that isn't there.
    """
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        chosen = torch.device("meta")
    if chosen.type not in ("cpu", "cuda"):
        raise AgentError(f"device must be auto, cpu or cuda, got {device!r}")
    if chosen.type == "cuda" and not (torch.cuda.is_available() and (chosen.index or 0) < torch.cuda.device_count()):
        raise AgentError(f"there is no GPU {device!r} that PyTorch can use here; say device=cpu or device=auto")
    return chosen


def load_agent(path: str, temperature: float = 0.0, device: str = "auto") -> NeuralAgent:
    """The agent of a checkpoint.

    Args:
        path: a checkpoint, or the folder of a run, of which it takes the newest.
        temperature: 0 for the best action, or more than 1e-6.
        device: where the networks are evaluated, see :func:`choose_device`; what is chosen does not depend on it.

    Raises:
        AgentError: no checkpoint, a damaged one, one of another version, or an option out of range.
    """
    if not (temperature == 0.0 or MIN_TEMPERATURE <= temperature < np.inf):
        raise AgentError(
            f"{path}: temperature must be 0 (the best action) or at least {MIN_TEMPERATURE}, got {temperature}"
        )
    on = choose_device(device)
    content = read_checkpoint(path)
    networks = {kind: ExactNetwork(content["weights"][kind], on) for kind in KINDS}
    return NeuralAgent(path, networks, network_shape(content, path).scores, temperature)
