"""Positions and checkpoints for the tests of the neural agent and of training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.neural.checkpoint import FORMAT, KINDS, NetworkShape, checkpoint_bytes
from agents.neural.choice import Choice
from agents.neural.features import FEATURES_VERSION
from cribbage_env import OBSERVATION_VERSION, CribbageVectorEnv


def some_positions(games: int, steps: int, every: int = 1, seed: int = 1) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Observations (B, D) and masks (B, 19) of random play: each ``every``-th of the given number of steps."""
    env = CribbageVectorEnv(games)
    rng = np.random.default_rng(seed)
    seen, _ = env.reset(seed=seed)
    observations, masks = [], []
    for step in range(steps):
        if step % every == 0:
            observations.append(seen["observation"])
            masks.append(seen["action_mask"])
        seen = env.step((rng.random((games, 19)) * seen["action_mask"]).argmax(axis=1))[0]
    return np.concatenate(observations), np.concatenate(masks)


def random_weights(shape: NetworkShape, seed: int, spread: float = 0.3) -> dict[str, dict[str, torch.Tensor]]:
    """Weights without a zero or a round number among them."""
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for kind in KINDS:
        state = shape.network(kind, 1.0, generator).state_dict()
        weights[kind] = {
            name: tensor + spread * torch.randn(tensor.shape, generator=generator) for name, tensor in state.items()
        }
    return weights


def sample_content(seed: int = 1, scores: bool = False, choice: Choice | None = None) -> dict[str, Any]:
    """What is in a checkpoint that an agent can play; it takes the best unless ``choice`` says otherwise."""
    shape = NetworkShape((24, 16), (32, 24), scores)
    return {
        "format": FORMAT,
        "observation_version": OBSERVATION_VERSION,
        "features_version": FEATURES_VERSION,
        "network": shape.data(),
        "weights": random_weights(shape, seed),
        "choice": (Choice() if choice is None else choice).data(),
    }


def write_sample(path: Path, seed: int = 1, scores: bool = False, choice: Choice | None = None) -> Path:
    """A checkpoint with random weights."""
    path.write_bytes(checkpoint_bytes(sample_content(seed, scores, choice)))
    return path
