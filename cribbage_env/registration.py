"""The environments' ids, for ``gymnasium.make`` and ``gymnasium.make_vec``."""

from __future__ import annotations

import gymnasium as gym

# id -> (single, vector): text, so that nothing is imported before an environment is made
_ENTRY_POINTS = {
    "Cribbage-v0": ("cribbage_env.env:CribbageEnv", "cribbage_env.vector_env:CribbageVectorEnv"),
    "CribbageSolo-v0": ("agents.solo_env:CribbageSoloEnv", "agents.solo_vector_env:CribbageSoloVectorEnv"),
}


def register_envs() -> None:
    """Make the ids known to Gymnasium; again is no harm."""
    for name, (single, vector) in _ENTRY_POINTS.items():
        if name not in gym.registry:
            gym.register(id=name, entry_point=single, vector_entry_point=vector)
