"""The command ``cribbage solve``."""

from __future__ import annotations

import argparse
import json
import sys

from experiments.config import SolveConfig, load_config
from experiments.run_folder import add_output_arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "config", metavar="CONFIG", help=f"a YAML file with the keys {', '.join(SolveConfig.model_fields)}"
    )
    parser.add_argument(
        "overrides",
        metavar="key=value",
        nargs="*",
        default=[],
        help="settings in place of the file's, such as exploitability=1e-3",
    )
    parser.add_argument("--threads", type=int, help="that walk the tree; the result does not depend on it")
    add_output_arguments(parser, "results", "runs/<name>", resume=True)


def run(args: argparse.Namespace) -> int:
    """Solve the play by a config."""
    overrides = list(args.overrides)
    for key in ("output", "threads"):
        if getattr(args, key) is not None:
            overrides.append(f"{key}={json.dumps(getattr(args, key))}")
    config = load_config(args.config, SolveConfig, overrides)
    from experiments.solving.run import Solve  # compiles kernels, which a config with a mistake need not wait for

    solve = Solve(config, resume=args.resume, overwrite=args.overwrite)
    if not solve.run(sys.argv):
        print(
            f"\nthe state after {solve.iterations} iterations is in {solve.folder}; the same command with --resume "
            "goes on",
            file=sys.stderr,
            end="",
        )
        raise KeyboardInterrupt
    print(solve.report())
    return 0
