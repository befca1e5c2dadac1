"""The command ``cribbage publish``: a checkpoint's networks as a small file that agents are made from.

``cribbage publish runs/x`` writes ``x.safetensors``, without the state of training (:mod:`agents.neural.published`);
``make_agent("x.safetensors")`` plays it. With ``--output`` in place of the file of the package it becomes the agent
``neural``.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cribbage_env.observation import OBSERVATION_SIZE
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.config import UserError
from experiments.run_folder import write_whole

_MEASURED = (": win rate", ": low", ": high", "exploitability")  # how columns of evaluations end
_GAMES, _STEPS = 256, 24  # of the positions in which rounding is looked at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "checkpoint",
        metavar="RUN_OR_CHECKPOINT",
        help="a checkpoint, or the folder of a run: its best.pt if it has one, otherwise checkpoint.pt",
    )
    parser.add_argument("--output", metavar="FILE", help="the file to write (default: the run's name.safetensors)")
    parser.add_argument("--overwrite", action="store_true", help="replace the file if it is there")


def run(args: argparse.Namespace) -> int:
    """Read, write, say what was written."""
    from agents.neural.checkpoint import CHECKPOINT, read_checkpoint  # PyTorch: --help need not wait for it
    from agents.neural.published import SUFFIX, published_bytes, read_published
    from experiments.training.run import BEST

    path = Path(args.checkpoint)
    if path.is_dir():
        path = path / BEST if (path / BEST).is_file() else path / CHECKPOINT
    content = read_checkpoint(path)
    training = content.get("training")
    if not isinstance(training, Mapping) or not isinstance(training.get("config"), Mapping):
        raise UserError(
            f"{str(path)!r} does not say which run it is from; publish a checkpoint that `cribbage train` wrote"
        )
    config, decisions = {**training["config"], "output": None}, int(training["decisions"])  # without a path of here
    name = str(config.get("name", path.stem))
    file = Path(args.output) if args.output is not None else Path(f"{name}{SUFFIX}")
    if file.suffix != SUFFIX:
        raise UserError(f"--output must end in {SUFFIX}, by which agents know the file, got {args.output!r}")
    if file.exists() and not args.overwrite:
        raise UserError(f"there is a file {str(file)!r}: replace it with --overwrite, or choose another with --output")
    figures = {"decisions": decisions, **last_figures(path, decisions)}
    data = published_bytes(content, name, config, figures)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, data)
    except OSError as error:
        raise UserError(f"can't write to {str(file)!r}: {error.strerror or error}; choose another file") from None
    mean, most = _rounding(content, read_published(file))
    print(f"{path}, after {decisions:,} decisions")
    for figure, value in figures.items():
        if figure != "decisions":
            print(f"  {figure}: {value:.6g}")
    print(f"rounding moves probabilities by {mean:.2g} in the mean and at most {most:.2g}")
    print(f"written: {file}, {len(data) / 1e6:.2f} MB")
    return 0


def last_figures(checkpoint: Path, decisions: int) -> dict[str, float]:
    """What the run has measured of a checkpoint, or before it: the last row of its metrics with an evaluation.

    Args:
        checkpoint: its file, in the run's folder or in one inside.
        decisions: after which it was written.
    """
    from experiments.training.metrics import METRICS, read_rows

    folders = (checkpoint.parent, checkpoint.parent.parent)
    metrics = next((folder / METRICS for folder in folders if (folder / METRICS).is_file()), None)
    found: dict[str, float] = {}
    for row in read_rows(metrics) if metrics is not None else ():
        measured = {name: float(text) for name, text in row.items() if text and name.endswith(_MEASURED)}
        if measured and int(row["decisions"]) <= decisions:
            when = {"measured_after": float(row["decisions"]), "training_seconds": float(row["training_seconds"])}
            found = when | measured
    return found


def _rounding(content: Mapping[str, Any], published: Mapping[str, Any]) -> tuple[float, float]:
    """By how much the probabilities of candidates differ: the mean, and the most, in positions of random play."""
    import torch

    from agents.neural.agent import content_agent

    env = CribbageVectorEnv(_GAMES)
    rng = np.random.default_rng(1)
    seen, _ = env.reset(seed=1)
    differences: list[NDArray[np.float64]] = []
    agents = [content_agent("", one, torch.device("cpu")) for one in (content, published)]
    for _ in range(_STEPS):
        observations = seen["observation"].reshape(_GAMES, OBSERVATION_SIZE)
        policies = [agent.policy(observations, seen["action_mask"]) for agent in agents]
        differences.append(np.abs(policies[0] - policies[1])[seen["action_mask"] == 1])
        seen = env.step((rng.random(seen["action_mask"].shape) * seen["action_mask"]).argmax(axis=1))[0]
    every = np.concatenate(differences)
    return float(every.mean()), float(every.max())
