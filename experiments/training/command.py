"""The command ``cribbage train``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING

from experiments.config import UserError, load_config
from experiments.run_folder import add_output_arguments, differences
from experiments.train_config import TrainConfig

if TYPE_CHECKING:
    from experiments.training.ranks import Ranks

BAD_INPUT = 2  # as in experiments.cli


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
    parser.add_argument(
        "--sweep",
        nargs="+",
        metavar="key=values",
        help="train a run for every combination of values, such as --sweep learner.lr=1e-3,3e-4 seed=0..2, each in a "
        "folder of its own in runs/<name>, with means and intervals over seeds in sweep.csv",
    )
    parser.add_argument(
        "--jobs", type=int, metavar="N", help="runs of a sweep that are trained at the same time (default: 1)"
    )
    add_output_arguments(parser, "the run", "runs/<name>", resume=True)


def run(args: argparse.Namespace) -> int:
    """Train by a config, also as one of the ranks that ``torchrun`` has started."""
    overrides = list(args.overrides)
    for key in ("seed", "output"):
        if getattr(args, key) is not None:
            overrides.append(f"{key}={json.dumps(getattr(args, key))}")
    if args.jobs is not None and args.sweep is None:
        raise UserError("--jobs is for --sweep; a single run has threads=N")
    if args.sweep is not None:
        _sweep(args, overrides)
        return 0
    if started_by_torchrun():
        return _run_rank(args, overrides)
    config = load_config(args.config, TrainConfig, overrides)
    from experiments.training.ranks import Ranks  # PyTorch: seconds that a config with a mistake need not wait for

    _train(config, args, Ranks())
    return 0


def _sweep(args: argparse.Namespace, overrides: list[str]) -> None:
    from experiments.training.sweep import run_sweep

    if started_by_torchrun():
        raise UserError("--sweep starts processes of its own (--jobs): use it without torchrun")
    jobs = 1 if args.jobs is None else args.jobs
    run_sweep(
        args.config,
        overrides,
        args.sweep,
        jobs=jobs,
        resume=args.resume,
        overwrite=args.overwrite,
        command=sys.argv,
    )


def started_by_torchrun() -> bool:
    """Whether this process is one of ``torchrun``'s."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def _train(config: TrainConfig, args: argparse.Namespace, ranks: Ranks) -> None:
    from experiments.training.run import Run

    training = Run(config, args.resume, args.overwrite, ranks)
    whole = training.train(sys.argv)
    if ranks.first and whole:
        print(training.report(), flush=True)
    elif ranks.first:
        print(
            f"\na checkpoint is in {training.folder}; the same command with --resume goes on", file=sys.stderr, end=""
        )
    ranks.close()
    if not whole:
        raise KeyboardInterrupt


def _run_rank(args: argparse.Namespace, overrides: list[str]) -> int:
    """The same as one of several; what went wrong is said by one of them."""
    from agents.base import AgentError
    from experiments.training.ranks import TorchRanks

    try:
        ranks = TorchRanks()
    except UserError as error:
        print(f"error: {error}", file=sys.__stderr__)
        return BAD_INPUT
    try:
        with ranks.together():
            config = load_config(args.config, TrainConfig, overrides)
        first = ranks.from_first(config.model_dump(mode="json"))
        with ranks.together():
            differing = differences(first, config.model_dump(mode="json"), ())
            if differing:
                raise UserError(f"its config is not that of rank 0: {differing[0]}")
        _train(config, args, ranks)
    except (UserError, AgentError) as error:
        ranks.say_once(f"error: {error}")
        return BAD_INPUT
    return 0
