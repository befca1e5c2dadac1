"""With what each learner solves a reduced game (``collect.reduced``), to test that learning works at all.

Four ranks, two cards for both seats: pone chooses a lead, the dealer a reply. ``test_reduced_game.py`` trains every
learner that is here and measures the exact exploitability of what plays, in points a deal.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.config import parse_config
from experiments.train_config import TrainConfig

_SAME: dict[str, Any] = {
    "seed": 1,
    "threads": 1,
    "device": "cpu",
    "collect": {"games": 2048, "reduced": {"ranks": "4567"}},
    "network": {"discard_hidden": [4, 4], "play_hidden": [32, 16]},
    "evaluation": {"opponents": []},
}

REDUCED: dict[str, dict[str, Any]] = {
    "dmc": {
        "collect": {"epsilon": 0.1},
        "network": {"play_hidden": [64, 64]},
        "learner": {
            "lr": 3e-3,
            "batch_size": 256,
            "average": 0.999,
            "temperature": 0.13,
            "subtract_luck": True,
        },
        "budget": {"decisions": 1_600_000},
    },
    "distill": {
        "learner": {"lr": 1e-2, "batch_size": 512, "average": 0.9, "teacher": "reduced_solution"},
        "modules": [str(Path(__file__).parent / "reduced_teacher.py")],
        "budget": {"decisions": 200_000},
    },
    "espg": {
        "learner": {"lr": 1e-3, "batch_size": 256, "average": 0.998, "entropy_end": 0.1, "tremble": 0.0},
        "budget": {"decisions": 400_000},
    },
    "nfsp": {
        "collect": {"games": 1024},
        "network": {"play_hidden": [64, 32]},
        "learner": {
            "lr": 3e-3,
            "policy_lr": 3e-3,
            "policy_steps": 8,
            "batch_size": 256,
            "average": 0.999,
            "averaging": "uniform",
            "memory": 400_000,
            "subtract_luck": True,
        },
        "budget": {"decisions": 800_000},
    },
    "ppo": {
        "learner": {"lr": 1e-3, "batch_size": 256, "average": 0.998, "entropy_end": 0.1, "subtract_luck": True},
        "budget": {"decisions": 400_000},
    },
}
"""By ``learner.algorithm``: the sections of the config in which it differs from the others."""


def reduced_config(algorithm: str, **changes: Any) -> TrainConfig:
    """The config with which a learner solves the reduced game; changes of sections are merged into it."""
    data: dict[str, Any] = {**_SAME}
    for part in (REDUCED[algorithm], {"learner": {"algorithm": algorithm}}, changes):
        for key, value in part.items():
            data[key] = {**data[key], **value} if isinstance(data.get(key), dict) else value
    return parse_config(data, TrainConfig, f"reduced {algorithm}")
