"""The agent that plays a checkpoint: ``make_agent("runs/x/checkpoint.pt")``, or the run's folder ``"runs/x/"``.

It scores every legal action with the network of its kind and draws in proportion to exp(score / temperature), or takes
the best, the first of equals, at temperature 0. What the scores are, and so the temperatures that belong to them, the
learner decided: the checkpoint says it (:class:`Choice`). Scores are computed exactly (:mod:`agents.neural.networks`),
so a decision is the same in every batch and on every device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.neural.checkpoint import KINDS, network_shape, read_checkpoint, read_choice
from agents.neural.choice import BEST, MIN_TEMPERATURE, Choice
from agents.neural.features import Candidates, discard_candidates, play_candidates
from agents.neural.networks import ExactNetwork
from agents.registry import AgentError
from cribbage_env.engine import NUM_ACTIONS


class Network(Protocol):
    """What scores candidates: :class:`~agents.neural.networks.ExactNetwork` or a faster one."""

    def values(self, features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores (R,) of candidates: features (R, K + 1), known (R, k)."""


class NeuralAgent(Agent):
    """Plays what two networks score highest, or draws by their scores.

    Args:
        name: the agent's name.
        networks: by kind of decision, ``discard`` and ``play``.
        scores: whether the networks see the scores of the game.
        choice: how scores are turned into choices.
    """

    def __init__(self, name: str, networks: Mapping[str, Network], scores: bool, choice: Choice = BEST) -> None:
        super().__init__(name)
        self._networks = networks
        self._scores = scores
        self.choice = choice

    def network(self, kind: str) -> Network:
        """What scores the candidates of a kind of decision."""
        return self._networks[kind]

    def candidates(self, observations: Observations, masks: Masks) -> dict[str, Candidates]:
        """The legal actions of observations (B, D), masks (B, 19), by kind, as the networks see them."""
        observations = np.ascontiguousarray(observations, np.uint8)
        masks = np.ascontiguousarray(masks, np.int8)
        return {
            "discard": discard_candidates(observations, self._scores),
            "play": play_candidates(observations, masks, self._scores),
        }

    def values(self, candidates: Mapping[str, Candidates], n: int) -> NDArray[np.float64]:
        """Scores (n, 19) float64 of what :meth:`candidates` made of n observations; -inf where there is none."""
        values = np.full((n, NUM_ACTIONS), -np.inf)
        for kind, those in candidates.items():
            if len(those):
                values[those.rows, those.actions] = self._networks[kind].values(those.features, those.known)
        return values

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """See :meth:`Agent.policy`; cards of one rank are one choice, of which the first card gets all."""
        candidates = self.candidates(observations, masks)
        policy = np.zeros((len(observations), NUM_ACTIONS))
        for kind, those in candidates.items():
            if len(those):
                policy[those.rows, those.actions] = self.probabilities(kind, those)
        return policy

    def probabilities(self, kind: str, candidates: Candidates) -> NDArray[np.float64]:
        """How likely each candidate (R,) of a kind is to be chosen among those of its observation."""
        scores = self._networks[kind].values(candidates.features, candidates.known)
        self.choice.probabilities(kind, scores, candidates.bounds())
        return scores


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


def check_temperature(path: str, temperature: float | None) -> None:
    """AgentError if it is none of an agent's options; None is one."""
    if not (temperature is None or temperature == 0.0 or MIN_TEMPERATURE <= temperature < np.inf):
        raise AgentError(
            f"{path}: temperature must be 0 (the best action) or at least {MIN_TEMPERATURE}, got {temperature}"
        )


def load_agent(path: str, temperature: float | None = None, device: str = "auto") -> NeuralAgent:
    """The agent of a checkpoint.

    Args:
        path: a checkpoint, or the folder of a run, of which it takes the newest.
        temperature: 0 for the best action, or more than 1e-6; None for what belongs to what was learned.
        device: where the networks are evaluated, see :func:`choose_device`; what is chosen does not depend on it.

    Raises:
        AgentError: no checkpoint, a damaged one, one of another version, or an option out of range.
    """
    check_temperature(path, temperature)
    on = choose_device(device)
    return content_agent(path, read_checkpoint(path), on, temperature)


def content_agent(
    name: str, content: Mapping[str, Any], device: torch.device, temperature: float | None = None
) -> NeuralAgent:
    """The agent of what is in a checkpoint (checked, see :func:`agents.neural.checkpoint.check_checkpoint`).

    Args:
        name: the agent's name.
        content: of the checkpoint.
        device: where the networks are evaluated.
        temperature: None for what belongs to what was learned.
    """
    networks = {kind: ExactNetwork(content["weights"][kind], device) for kind in KINDS}
    choice = read_choice(content, name) if temperature is None else Choice(temperature, temperature)
    return NeuralAgent(name, networks, network_shape(content, name).scores, choice)
