"""The command ``cribbage``.

Each subcommand lives in the module that does its work, as two functions: ``add_arguments(parser)`` and
``run(args) -> int`` (the exit code). Modules are imported only when their command is called. Bad input ends with one
line and exit code 2, Ctrl-C with exit code 130.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

INTERRUPTED = 130
BAD_INPUT = 2


@dataclass(frozen=True)
class _Command:
    module: str
    summary: str
    example: str


COMMANDS = {
    "train": _Command(
        "experiments.training.command",
        "train an agent by self-play from a config file",
        "cribbage train configs/train/quickstart.yaml learner.lr=3e-4 --seed 1",
    ),
    "publish": _Command(
        "experiments.training.publish",
        "write a checkpoint's networks to a small file that agents are made from",
        "cribbage publish runs/quickstart --output quickstart.safetensors",
    ),
    "solve": _Command(
        "experiments.solving.command",
        "find a near-equilibrium of the play from a config file",
        "cribbage solve configs/solve/play.yaml exploitability=1e-3",
    ),
    "tournament": _Command(
        "experiments.tournament.command",
        "play a round robin on duplicate deals from a config file",
        "cribbage tournament configs/tournament/quickstart.yaml games=2000 --seed 1",
    ),
    "merge": _Command(
        "experiments.tournament.merge",
        "join the shards of a tournament to the results of one run",
        "cribbage merge runs/shard-1 runs/shard-2 --output runs/whole",
    ),
    "report": _Command(
        "experiments.tournament.report_command",
        "make a tournament's report.html and ratings.csv from its files",
        "cribbage report runs/quickstart-tournament",
    ),
    "evaluate": _Command(
        "experiments.tournament.evaluate",
        "play two agents against each other on duplicate deals",
        "cribbage evaluate greedy random --games 2000 --seed 1",
    ),
    "plan": _Command(
        "experiments.plan",
        "how many games tell a win rate from 50 %, or what games can tell",
        "cribbage plan --detect 51 --power 0.8 --games-per-second 5000",
    ),
    "analyse": _Command(
        "experiments.analysis.command",
        "measure what rules, discards and positions are worth",
        "cribbage analyse rules --games 20000 --seed 2",
    ),
    "exploit": _Command(
        "experiments.analysis.exploit",
        "measure exactly how far an agent's play is from optimal, and find its most costly mistakes",
        "cribbage exploit greedy --against expected --prior expected",
    ),
    "replay": _Command(
        "experiments.replay",
        "show a recorded game step by step, or check records against the engine",
        "cribbage replay runs/quickstart-tournament/games.jsonl.gz --game 3",
    ),
    "play": _Command(
        "experiments.play",
        "play against an agent in the terminal",
        "cribbage play expected --seed 1 --record my_games.jsonl",
    ),
    "bench": _Command(
        "experiments.bench",
        "measure the engine, the environments and the tournament; JSON on standard output",
        "cribbage bench --seconds 1",
    ),
}


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> Any:
        self.exit(BAD_INPUT, f"error: {message} (see {self.prog} --help)\n")


def _parser(command: str | None) -> argparse.ArgumentParser:
    """The parser; only the module of the command that is called is loaded."""
    parser = _Parser(prog="cribbage", description="A research framework for the card game cribbage.")
    parser.add_argument("--version", action="version", version=f"cribbage-lab {_version()}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, known in COMMANDS.items():
        sub = subparsers.add_parser(
            name,
            help=known.summary.replace("%", "%%"),  # argparse formats what it shows
            description=(known.summary[0].upper() + known.summary[1:] + ".").replace("%", "%%"),
            epilog=f"example: {known.example}".replace("%", "%%"),
        )
        if name == command:
            importlib.import_module(known.module).add_arguments(sub)
    return parser


def _parse(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments; ``key=value`` may also come after options, which argparse alone does not take."""
    args, rest = parser.parse_known_args(arguments)
    if "overrides" in args:
        args.overrides = [*args.overrides, *(one for one in rest if not one.startswith("-"))]
        rest = [one for one in rest if one.startswith("-")]
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return args


def _version() -> str:
    from cribbage_env import __version__

    return __version__


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = next((argument for argument in arguments if not argument.startswith("-")), None)
    try:
        return _run(command, arguments)
    except KeyboardInterrupt:
        print("\ninterrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE


def _run(command: str | None, arguments: list[str]) -> int:
    # Imported here: they take a moment, and Ctrl-C in it ends the command like any other.
    from agents.registry import AgentError
    from experiments.compiler_notice import announce_compilation
    from experiments.config import UserError

    try:
        args = _parse(_parser(command), arguments)
        announce_compilation()
        return int(importlib.import_module(COMMANDS[args.command].module).run(args))
    except (UserError, AgentError) as error:
        print(f"error: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
