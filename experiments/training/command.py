"""The command ``cribbage train``."""

from __future__ import annotations

import argparse
import json
import sys

from experiments.config import load_config
from experiments.train_config import TrainConfig
from experiments.run_folder import add_output_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "config", metavar="CONFIG", help=f"a YAML file with the keys {', '.join(TrainConfig.model_fields)}"
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        default=[],
        help="settings in place of the file's, such as learner.lr=3e-4",
    )
    parser.add_argument("--seed", type=int, help="of weights, decks, exploration and batches, in place of the config's")
    add_output_arguments(parser, "the run", "runs/<name>", resume=True)


def run(args: argparse.Namespace) -> int:
    """Train by a config."""
    overrides = list(args.overrides)
    for key in ("seed", "output"):
        if getattr(args, key) is not None:
            overrides.append(f"{key}={json.dumps(getattr(args, key))}")
    config = load_config(args.config, TrainConfig, overrides)
    from experiments.training.run import Run  # PyTorch: seconds that a config with a mistake need not wait for

    training = Run(config, args.resume, args.overwrite)
    if not training.train(sys.argv):
        print(
            f"\na checkpoint is in {training.folder}; the same command with --resume goes on", file=sys.stderr, end=""
        )
        raise KeyboardInterrupt
    print(training.report())
    return 0
