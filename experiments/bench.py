"""The command ``cribbage bench``: how fast the engine, the environments and the tournament are, as JSON.

Every figure is the median of several runs in wall-clock time. Beside it stands what it comes to by processor time:
where that is much better, the machine was busy with something else. OpenSpiel's cribbage (the extra ``oracle``) is
measured in the same rounds, one run of each after the other, and a ratio is the median of the rounds'. A decision is a
discard or a card laid; for OpenSpiel also a pass, which is an action of its own there. Dealing is in the time on both
sides, and in neither count.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents import make_agent
from agents.solo_vector_env import CribbageSoloVectorEnv
from cribbage_env.engine import random_games
from cribbage_env.scoring import histogram, show_table
from cribbage_env.streams import MAX_SEED
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.cli import INTERRUPTED
from experiments.config import UserError
from experiments.run_folder import made_with
from experiments.tournament.match import play_match

NUM_ENVS = 4096
_VECTOR_STEPS = 400  # a random game has about 126 decisions: every slot begins anew three times
_SINGLE_STEPS = 10_000
_MATCH_PAIRS = 5_000
_LEAST_RUNS = 5
_MOST_RUNS = 200

NO_ORACLE = "not measured: OpenSpiel is not installed (`make bench` does, or the extra 'oracle')"

# What the project promises, on one core: the figure's name, at least (1) or at most (-1), how much.
TARGETS: dict[str, tuple[int, float]] = {
    "vector_step": (1, 8e6),
    "vector_step / openspiel_plain": (1, 12),
    "vector_step / openspiel_masks": (1, 75),
    "random_games": (1, 80_000),
    "all_hands": (-1, 0.1),
    "single_step": (1, 60_000),
    "solo_step": (1, 1e6),
    "greedy_match": (1, 3_000),
    "cold_compilation": (-1, 20),
    "warm_start": (-1, 4),
    "tournament_memory": (-1, 1.0),
}

GROUPS = ("vector", "engine", "single", "solo", "match", "start", "memory")


class Sample(NamedTuple):
    """One run: how many units of work it did, in how many seconds of wall-clock and processor time."""

    amount: float
    wall: float
    processor: float


Work = Callable[[], Sample]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long each figure is measured, at least (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all games (default: %(default)s)")
    parser.add_argument(
        "--only", nargs="+", choices=GROUPS, default=list(GROUPS), help="measure only some things (default: all)"
    )
    parser.add_argument(
        "--memory-games",
        type=int,
        default=150_000,
        help="length of the tournament whose memory is measured, even; it does not grow beyond 65,536 games "
        "(default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Measure and print; what was measured until Ctrl-C is printed too."""
    if not (math.isfinite(args.seconds) and args.seconds > 0):
        raise UserError(f"--seconds must be a number above 0, got {args.seconds}")
    if not 0 <= args.seed <= MAX_SEED - NUM_ENVS:
        raise UserError(f"--seed must lie between 0 and {MAX_SEED - NUM_ENVS}, got {args.seed}")
    if args.memory_games < 2 or args.memory_games % 2:
        raise UserError(f"--memory-games must be an even number from 2 on, got {args.memory_games}")
    report: dict[str, Any] = {"machine": machine(), "made_with": made_with(), "figures": {}, "ratios": {}}
    code = 0
    try:
        measure(args, report["figures"], report["ratios"])
    except KeyboardInterrupt:
        code = INTERRUPTED
        report["interrupted"] = True
    report["machine"]["load_average_after"] = load_average()
    report["targets"] = targets(report["figures"], report["ratios"])
    print(json.dumps(report, indent=2))
    return code


def measure(args: argparse.Namespace, figures: dict[str, Any], ratios: dict[str, Any]) -> None:
    """Measure the chosen groups one after the other into ``figures`` and ``ratios``."""
    groups: dict[str, Callable[[], None]] = {
        "vector": lambda: measure_vector(args, figures, ratios),
        "engine": lambda: measure_engine(args, figures),
        "single": lambda: measure_single(args, figures),
        "solo": lambda: measure_solo(args, figures),
        "match": lambda: measure_match(args, figures),
        "start": lambda: measure_start(figures),
        "memory": lambda: measure_memory(args, figures),
    }
    chosen = [group for group in GROUPS if group in args.only]
    progress = tqdm(chosen, unit="group", disable=not sys.stderr.isatty(), leave=False)
    for group in progress:
        progress.set_description(group)
        groups[group]()


# --- Measuring ----------------------------------------------------------------------------------------------


@contextmanager
def stopwatch(amount: float) -> Iterator[list[Sample]]:
    """Time the block, which does ``amount`` units of work; the list has the sample afterwards."""
    samples: list[Sample] = []
    wall, processor = time.perf_counter(), processor_time()
    yield samples
    samples.append(Sample(amount, time.perf_counter() - wall, processor_time() - processor))


def processor_time() -> float:
    """Seconds of processor time of this process and of those that it waited for."""
    children = os.times()  # in ticks of 10 ms: enough for processes
    return time.process_time() + children.children_user + children.children_system


def rounds(works: dict[str, Work], seconds: float) -> list[dict[str, Sample]]:
    """Run all works in turn, again and again, until each was measured for so many seconds; the first is a warm-up."""
    for work in works.values():
        work()
    done: list[dict[str, Sample]] = []
    while len(done) < _MOST_RUNS and (
        len(done) < _LEAST_RUNS or any(sum(one[name].wall for one in done) < seconds for name in works)
    ):
        done.append({name: work() for name, work in works.items()})
    return done


def rate(samples: list[Sample], unit: str) -> dict[str, Any]:
    """Units of work a second."""
    by_processor = [sample.amount / sample.processor for sample in samples]
    return figure([sample.amount / sample.wall for sample in samples], f"{unit}/s", by_processor)


def duration(samples: list[Sample]) -> dict[str, Any]:
    """Seconds for one unit of work."""
    by_processor = [sample.processor / sample.amount for sample in samples]
    return figure([sample.wall / sample.amount for sample in samples], "s", by_processor)


def figure(values: list[float], unit: str, by_processor: list[float] | None = None) -> dict[str, Any]:
    """The median of some values, with the lowest and the highest, and the median of those by processor time."""
    described = {
        "value": rounded(statistics.median(values)),
        "unit": unit,
        "lowest": rounded(min(values)),
        "highest": rounded(max(values)),
        "runs": len(values),
    }
    if by_processor is not None:
        described["by_processor_time"] = rounded(statistics.median(by_processor))
    return described


def rounded(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


# --- What is measured ---------------------------------------------------------------------------------------


def measure_vector(args: argparse.Namespace, figures: dict[str, Any], ratios: dict[str, Any]) -> None:
    """The vector environment's ``step``, and OpenSpiel's loops in the same rounds."""
    works = {"vector_step": vector_step(args.seed, copy=False), "vector_step_copy": vector_step(args.seed, copy=True)}
    games = spiel_games(args.seed)
    if games is None:
        figures["openspiel"] = NO_ORACLE
    else:
        works["openspiel_plain"] = spiel_loop(games, masks=False)
        works["openspiel_masks"] = spiel_loop(games, masks=True)
    done = rounds(works, args.seconds)
    for name in works:
        figures[name] = rate([one[name] for one in done], "decisions")
    if games is None:
        return
    actions = sum(map(len, games)) / decisions_in(games)
    figures["openspiel"] = {
        "actions_a_decision": rounded(actions),
        "ratios_if_cards_dealt_counted": f"divide by {rounded(actions)}",
        "tensors": "its cribbage has legal_actions_mask, but no observation or information-state tensor",
    }
    for theirs in ("openspiel_plain", "openspiel_masks"):
        for ours in ("vector_step", "vector_step_copy"):
            values = [(one[ours].amount / one[ours].wall) / (one[theirs].amount / one[theirs].wall) for one in done]
            ratios[f"{ours} / {theirs}"] = figure(values, "times")


def vector_step(seed: int, copy: bool) -> Work:
    """``step`` of the environment with two seats."""
    return recorded_steps(CribbageVectorEnv(NUM_ENVS, copy=copy), seed)


def recorded_steps(env: CribbageVectorEnv, seed: int) -> Work:
    """``step`` alone, with observations, masks and autoreset; the actions of random play are recorded before."""
    rng = np.random.default_rng(seed)
    observations, _ = env.reset(seed=seed)
    actions: list[NDArray[np.int64]] = []
    for _ in range(_VECTOR_STEPS):
        actions.append((rng.random(observations["action_mask"].shape) * observations["action_mask"]).argmax(axis=1))
        observations = env.step(actions[-1])[0]

    def work() -> Sample:
        env.reset(seed=seed)  # the same games, so that the actions are legal
        with stopwatch(NUM_ENVS * len(actions)) as samples:
            for some in actions:
                env.step(some)
        return samples[0]

    return work


SpielGame = list[tuple[int, bool]]
"""The actions of a game of OpenSpiel, each with whether it was a card dealt."""


def decisions_in(games: list[SpielGame]) -> int:
    """How many of their actions were players'."""
    return sum(not is_dealt for game in games for _, is_dealt in game)


def spiel_games(seed: int, number: int = 200) -> list[SpielGame] | None:
    """Random games of OpenSpiel, or None if it is not installed."""
    try:
        pyspiel = importlib.import_module("pyspiel")
    except ImportError:
        return None
    rng = random.Random(seed)
    game = pyspiel.load_game("cribbage")
    games = []
    for _ in range(number):
        state = game.new_initial_state()
        actions: SpielGame = []
        while not state.is_terminal():
            action = rng.choice(state.legal_actions())
            actions.append((action, state.is_chance_node()))
            state.apply_action(action)
        games.append(actions)
    return games


def spiel_loop(games: list[SpielGame], masks: bool) -> Work:
    """OpenSpiel's loop in Python: ``legal_actions`` (or the mask, where a player acts) and ``apply_action``.

    As for ours, the actions are chosen before.
    """
    game = importlib.import_module("pyspiel").load_game("cribbage")

    def work() -> Sample:
        with stopwatch(decisions_in(games)) as samples:
            for one in games:
                state = game.new_initial_state()
                for action, is_dealt in one:
                    if masks and not is_dealt:
                        state.legal_actions_mask()
                    else:
                        state.legal_actions()
                    state.apply_action(action)
        return samples[0]

    return work


def measure_engine(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Whole random games in one compiled loop, and the points of all 12,994,800 hands with starter."""
    table = show_table()
    games = 10_000

    def play() -> Sample:
        with stopwatch(games) as samples:
            random_games(table, np.uint64(args.seed), games, 121)
        return samples[0]

    def count() -> Sample:
        with stopwatch(1) as samples:
            histogram(table, False)
        return samples[0]

    done = rounds({"random_games": play, "all_hands": count}, args.seconds)
    figures["random_games"] = rate([one["random_games"] for one in done], "games")
    figures["all_hands"] = duration([one["all_hands"] for one in done])


def measure_single(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """One game at a time, as ``gymnasium.make`` gives it, with its wrappers; the actions are recorded before."""
    env = gym.make("Cribbage-v0")
    rng = random.Random(args.seed)
    games: list[list[int]] = []
    while sum(map(len, games)) < _SINGLE_STEPS:
        observation, _ = env.reset(seed=args.seed + len(games))
        games.append([])
        terminated = False
        while not terminated:
            action = rng.choice(np.flatnonzero(observation["action_mask"]).tolist())
            games[-1].append(action)
            observation, _, terminated, _, _ = env.step(np.int64(action))

    def work() -> Sample:
        with stopwatch(sum(map(len, games))) as samples:
            for number, actions in enumerate(games):
                env.reset(seed=args.seed + number)
                for action in actions:
                    env.step(action)
        return samples[0]

    done = rounds({"single_step": work}, args.seconds)
    figures["single_step"] = rate([one["single_step"] for one in done], "decisions")


def measure_solo(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """CribbageSolo-v0 against greedy: decisions of the learner, the opponent's moves in between included.

    ``vector_step_beside`` is the environment with two seats in the same rounds, where both seats' decisions count.
    """
    works = {
        "solo_step": recorded_steps(CribbageSoloVectorEnv(NUM_ENVS, opponent="greedy", copy=False), args.seed),
        "solo_step_copy": recorded_steps(CribbageSoloVectorEnv(NUM_ENVS, opponent="greedy"), args.seed),
        "vector_step_beside": vector_step(args.seed, copy=False),
    }
    done = rounds(works, args.seconds)
    for name in works:
        figures[name] = rate([one[name] for one in done], "decisions")


def measure_match(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Greedy against greedy, as a tournament plays it."""
    a, b = make_agent("greedy"), make_agent("greedy")

    def work() -> Sample:
        with stopwatch(2 * _MATCH_PAIRS) as samples:
            play_match(a, b, _MATCH_PAIRS, args.seed)
        return samples[0]

    done = rounds({"greedy_match": work}, args.seconds)
    figures["greedy_match"] = rate([one["greedy_match"] for one in done], "games")


# --- Processes of their own ---------------------------------------------------------------------------------

_WITH_PEAK = """
import resource, sys
from experiments.cli import main
code = main(sys.argv[1:])
try:
    status = open("/proc/self/status").read()
    kib = int(status.split("VmHWM:")[1].split()[0])  # ru_maxrss would count the parent's memory too
except OSError:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kib = peak / 1024 if sys.platform == "darwin" else peak
print(f"peak {kib} KiB", file=sys.stderr)
sys.exit(code)
"""


def run_command(*arguments: str, cache: str | None = None) -> tuple[Sample, float]:
    """Run a ``cribbage`` command in a process of its own; returns its time and its peak memory in GiB.

    Args:
        cache: a folder for compiled kernels instead of the usual one.

    Raises:
        RuntimeError: the command failed.
    """
    environment = os.environ | ({} if cache is None else {"NUMBA_CACHE_DIR": cache})
    with stopwatch(1) as samples:
        done = subprocess.run(
            [sys.executable, "-c", _WITH_PEAK, *arguments], env=environment, capture_output=True, text=True, check=False
        )
    if done.returncode == INTERRUPTED:
        raise KeyboardInterrupt
    if done.returncode != 0:
        raise RuntimeError(f"cribbage {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    peak = float(done.stderr.split("peak ")[-1].split()[0])
    return samples[0], peak / 2**20


def measure_start(figures: dict[str, Any]) -> None:
    """``cribbage evaluate random greedy --games 2`` with an empty cache of kernels and with a full one."""
    command = ("evaluate", "random", "greedy", "--games", "2")
    run_command(*command)
    warm = [run_command(*command)[0] for _ in range(_LEAST_RUNS)]
    cold = []
    for _ in range(3):
        with tempfile.TemporaryDirectory() as cache:
            cold.append(run_command(*command, cache=cache)[0])
    figures["warm_start"] = duration(warm)
    figures["cold_start"] = duration(cold)
    wall, processor = (statistics.median(times) for times in zip(*(one[1:] for one in warm), strict=True))
    figures["cold_compilation"] = figure(
        [one.wall - wall for one in cold], "s", [one.processor - processor for one in cold]
    )


def measure_memory(args: argparse.Namespace, figures: dict[str, Any]) -> None:
    """Peak resident memory of a tournament that writes all its results."""
    with tempfile.TemporaryDirectory() as folder:
        _, peak = run_command(
            "evaluate", "greedy", "random", "--games", str(args.memory_games), "--output", str(Path(folder) / "result")
        )
    figures["tournament_memory"] = {**figure([peak], "GiB"), "games": args.memory_games}


# --- The report ---------------------------------------------------------------------------------------------


def targets(figures: dict[str, Any], ratios: dict[str, Any]) -> list[dict[str, Any]]:
    """Every target with what was measured, and whether it is met (null: not measured)."""
    lines = []
    for name, (direction, wanted) in TARGETS.items():
        line: dict[str, Any] = {"figure": name, "at_least" if direction > 0 else "at_most": wanted, "met": None}
        measured = (figures | ratios).get(name)
        if measured is not None:
            line["unit"] = measured["unit"]
            line["measured"] = measured["value"]
            line["met"] = direction * measured["value"] >= direction * wanted
            if "by_processor_time" in measured:
                line["met_by_processor_time"] = direction * measured["by_processor_time"] >= direction * wanted
        lines.append(line)
    return lines


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "processor": processor_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "load_average_before": load_average(),
    }


def processor_name() -> str:
    """The processor's name where the system tells it, otherwise its architecture."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def load_average() -> float | None:
    """Processes that wanted to run in the last minute, where the system counts them."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
