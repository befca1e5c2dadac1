"""A training run: its folder, its checkpoints, and the loop of collecting, learning, evaluating.

The folder of a run, by default ``runs/<name>``:

* ``config.yaml``: the config as it was resolved, with versions and git commit; ``cribbage train`` takes it again
* ``sessions.json``: each start and resumption: the command, when, from how many decisions, versions and git commit
* ``checkpoint.pt``: the newest checkpoint (see :mod:`agents.neural.checkpoint`)
* ``checkpoints/<decisions>.pt``: the last few
* ``metrics.csv`` and TensorBoard's event files: see :mod:`experiments.training.metrics`
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy
import torch
from tqdm import tqdm

import cribbage_env
from agents import Agent, load_modules, make_agent
from agents.neural.agent import choose_device
from agents.neural.checkpoint import CHECKPOINT, FORMAT, checkpoint_bytes, read_checkpoint
from agents.neural.features import FEATURES_VERSION
from cribbage_env.observation import OBSERVATION_VERSION
from experiments.config import TrainConfig, UserError
from experiments.run_folder import (
    RUNS,
    TEMPORARY,
    StopRequest,
    config_text,
    differences,
    make_folder,
    new_session,
    read_sessions,
    replacing,
    write_sessions,
)
from experiments.tournament.match import play_match
from experiments.tournament.report import percent, table
from experiments.tournament.statistics import Estimate
from experiments.training.dmc import DmcLearner
from experiments.training.metrics import METRICS, Metrics
from experiments.training.streams import EVALUATION, stream

CONFIG, SESSIONS, CHECKPOINTS = "config.yaml", "sessions.json", "checkpoints"
_EVENTS = "events.out.tfevents."
_FREE_TO_CHANGE = ("output", "threads")  # keys that may differ when a run goes on: they don't change what is learned

LEARNERS = {"dmc": DmcLearner}
"""By ``learner.algorithm``; each in a file of its own."""


def run_folder(config: TrainConfig) -> Path:
    """Where the run of a config goes."""
    return Path(config.output) if config.output is not None else RUNS / config.name


@dataclass
class _Counters:
    iteration: int = 0  # iterations done
    games: int = 0
    decisions: int = 0


@dataclass(frozen=True)
class Evaluation:
    """A match of the agent that learns."""

    opponent: str
    games: int
    win_rate: Estimate


class Run:
    """A training run, new or going on.

    Args:
        config: of the run.
        resume: go on from the newest checkpoint in the folder.
        overwrite: replace the run that is in the folder.

    Raises:
        UserError, AgentError: the folder, a checkpoint or an opponent is not as it must be. Nothing has been written
            or deleted then.
    """

    def __init__(self, config: TrainConfig, resume: bool = False, overwrite: bool = False) -> None:
        self.config = config
        self.folder = run_folder(config)
        self.evaluations: list[Evaluation] = []
        """The last evaluation, by opponent."""
        load_modules(config.modules)
        self._opponents = [make_agent(spec) for spec in config.evaluation.opponents]
        self._threads = config.threads if config.threads is not None else _cores()
        self._learner = LEARNERS[config.learner.algorithm](config, choose_device(config.device), self._threads)
        self._counters = _Counters()
        self._last_checkpoint = -1  # the iteration it was written after
        if resume:
            self._restore()
            make_folder(self.folder)
        else:
            _open_folder(self.folder, overwrite)

    def train(self, command: Sequence[str] = ()) -> bool:
        """Train until the budget is spent; returns False if Ctrl-C ended it earlier, after a checkpoint.

        Args:
            command: noted in ``sessions.json``.

        Raises:
            UserError: the loss is no longer finite, or a file can't be written; earlier checkpoints stay.
        """
        torch_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # learners have threads of their own, and results must not depend on how many
        try:
            with (
                StopRequest() as stop,
                ThreadPoolExecutor(max(2, self._threads), initializer=torch.set_num_threads, initargs=(1,)) as pool,
            ):
                return self._train(command, stop, pool)
        except BrokenPipeError:  # the reader of the output has gone: nothing of the folder's
            raise
        except OSError as error:
            raise UserError(
                f"can't write to {str(self.folder)!r}: {error.strerror or error}; what was written before is whole, "
                "go on with --resume"
            ) from None
        finally:
            torch.set_num_threads(torch_threads)

    def report(self) -> str:
        """What came out, as text."""
        rows = [["against", "games", "wins"]]
        rows += [[one.opponent, f"{one.games:,}", percent(one.win_rate)] for one in self.evaluations]
        sections = [f"{self._counters.decisions:,} decisions in {self._counters.games:,} episodes of self-play"]
        if self.evaluations:
            sections.append(table(rows, left=1))
            sections.append("[ ]: 95 % confidence intervals; games in pairs on the same deals, seats swapped")
        sections.append(f"written: {self.folder / CHECKPOINT}")
        return "\n".join(sections)

    def _train(self, command: Sequence[str], stop: StopRequest, pool: ThreadPoolExecutor) -> bool:
        if self._counters.iteration == 0:
            with replacing(self.folder / CONFIG) as temporary:
                temporary.write_text(config_text(self.config), encoding="utf-8")
            self._write_checkpoint()
        self._note_session(command)
        metrics = Metrics(self.folder, self.config.evaluation.opponents, self._counters.iteration)
        bar = tqdm(
            total=self.config.budget.decisions,
            initial=self._counters.decisions,
            unit=" decisions",
            unit_scale=True,
            smoothing=0.1,
            disable=not sys.stderr.isatty(),
        )
        began = time.monotonic() - metrics.seconds
        try:
            progress = self._progress(began)
            if progress >= 1.0:  # a finished run was resumed
                self._evaluate(True, stop, pool)
            while progress < 1.0 and not stop.asked:
                before = self._counters.decisions
                row = self._iterate(progress, pool)
                progress = self._progress(began)
                last = progress >= 1.0
                if last or _passes(self.config.evaluation.every, before, self._counters.decisions):
                    row |= self._evaluate(last, stop, pool)
                    if self.evaluations:
                        tqdm.write(self._line())
                row["seconds"] = time.monotonic() - began
                metrics.write(row)
                if last or stop.asked or _passes(self.config.checkpoint.every, before, self._counters.decisions):
                    self._write_checkpoint()
                bar.set_postfix_str(self._postfix(row), refresh=False)
                bar.update(self._counters.decisions - before)
        finally:
            bar.close()
            metrics.close()
        return not stop.asked

    def _iterate(self, progress: float, pool: ThreadPoolExecutor) -> dict[str, float]:
        """One iteration; returns its row of metrics without what is measured outside."""
        figures = self._learner.iterate(self._counters.iteration, progress, pool)
        if not all(math.isfinite(figure) for figure in figures.values()):
            bad = next(name for name, figure in figures.items() if not math.isfinite(figure))
            raise UserError(
                f"{bad} became {figures[bad]} in iteration {self._counters.iteration + 1}: training is stopped, the "
                f"last checkpoint in {str(self.folder)!r} is whole; lower learner.lr (now "
                f"{self.config.learner.lr}) or learner.max_grad_norm ({self.config.learner.max_grad_norm})"
            )
        self._counters.iteration += 1
        self._counters.games += int(figures["games"])
        self._counters.decisions += int(figures["decisions"])
        busy = figures["collect_seconds"] + figures["learn_seconds"]
        return figures | {
            "iteration": self._counters.iteration,
            "games": self._counters.games,
            "decisions": self._counters.decisions,
            "decisions_per_second": figures["decisions"] / busy if busy > 0 else 0.0,
        }

    def _progress(self, began: float) -> float:
        """The part of the budget that is spent; 1 or more at the end."""
        budget = self.config.budget
        spent = [0.0]
        if budget.decisions is not None:
            spent.append(self._counters.decisions / budget.decisions)
        if budget.minutes is not None:
            spent.append((time.monotonic() - began) / 60 / budget.minutes)
        return max(spent)

    def _evaluate(self, last: bool, stop: StopRequest, pool: ThreadPoolExecutor) -> dict[str, float]:
        """Play the opponents, always on the same deals; returns the columns of metrics."""
        games = self.config.evaluation.final_games if last else self.config.evaluation.games
        seed = stream(self.config.seed, EVALUATION)
        agent = self._learner.agent(self.config.name)

        def play(opponent: Agent) -> Estimate:
            summary = play_match(
                agent, opponent, games // 2, seed, rules=self.config.rules.rules(), stop=lambda: stop.asked
            )
            return summary.win_rate

        rates = list(pool.map(play, self._opponents))
        if stop.asked:  # what was played until then favours short games
            return {}
        self.evaluations = [
            Evaluation(opponent.name, games, rate) for opponent, rate in zip(self._opponents, rates, strict=True)
        ]
        columns = {}
        for one in self.evaluations:
            for figure, value in zip(("win rate", "low", "high"), one.win_rate, strict=True):
                columns[f"{one.opponent}: {figure}"] = value
        return columns

    def _line(self) -> str:
        rates = ", ".join(f"{100 * one.win_rate.value:.1f} % against {one.opponent}" for one in self.evaluations)
        return f"{self._counters.decisions:>12,} decisions: {rates}"

    def _postfix(self, row: Mapping[str, float]) -> str:
        rates = [f"{one.opponent} {100 * one.win_rate.value:.1f} %" for one in self.evaluations]
        return ", ".join([f"loss {row['loss_discard']:.3g} {row['loss_play']:.3g}", *rates])

    def _write_checkpoint(self) -> None:
        if self._last_checkpoint == self._counters.iteration:
            return
        content = {
            "format": FORMAT,
            "observation_version": OBSERVATION_VERSION,
            "features_version": FEATURES_VERSION,
            "network": self._learner.shape.data(),
            "weights": self._learner.weights(),
            "training": {
                "config": self.config.model_dump(mode="json"),
                "seed": str(self.config.seed),  # with the counters all the random state there is
                "iteration": self._counters.iteration,
                "games": self._counters.games,
                "decisions": self._counters.decisions,
                "optimisers": self._learner.optimisers(),
            },
            "versions": {
                "cribbage-lab": cribbage_env.__version__,
                "numpy": numpy.__version__,
                "torch": torch.__version__,
            },
        }
        data = checkpoint_bytes(content)
        if self.config.checkpoint.keep:
            kept = self.folder / CHECKPOINTS
            kept.mkdir(exist_ok=True)
            _write_whole(kept / f"{self._counters.decisions:012}.pt", data)
            for old in sorted(kept.glob("*.pt"))[: -self.config.checkpoint.keep]:
                old.unlink()
        _write_whole(self.folder / CHECKPOINT, data)
        self._last_checkpoint = self._counters.iteration

    def _restore(self) -> None:
        """Go on from the newest checkpoint."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            raise UserError(
                f"there is no run to resume in {str(self.folder)!r}; start it without --resume "
                "(with --overwrite, if something of one is left there)"
            )
        content = read_checkpoint(path)
        try:
            training = content["training"]
            differing = differences(training["config"], self.config.model_dump(mode="json"), _FREE_TO_CHANGE)
            counters = _Counters(*(int(training[name]) for name in ("iteration", "games", "decisions")))
            if not differing:
                self._learner.restore(content["weights"], training["optimisers"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{str(path)!r} has no whole state of training ({error}); it plays, but can't go on"
            ) from None
        if differing:
            raise UserError(
                f"the run in {str(self.folder)!r} was started with another config: {differing[0]}; resume it with "
                "its own, or start another run with --output"
            )
        self._counters = counters
        self._last_checkpoint = counters.iteration

    def _note_session(self, command: Sequence[str]) -> None:
        path = self.folder / SESSIONS
        sessions = read_sessions(path) if self._counters.iteration > 0 else []
        facts = {"seed": self.config.seed, "decisions": self._counters.decisions}
        write_sessions(path, [*sessions, new_session(command, **facts)])


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _passes(every: int | None, before: int, now: int) -> bool:
    """Whether a multiple of ``every`` lies above ``before`` and not above ``now``."""
    return every is not None and before // every != now // every


def _write_whole(path: Path, data: bytes) -> None:
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _is_of_a_run(name: str) -> bool:
    """Whether a run writes a file or folder with this name."""
    return name in (CONFIG, SESSIONS, CHECKPOINT, CHECKPOINTS, METRICS) or name.startswith(_EVENTS)


def _open_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder for a new run, and clear it of an old one if ``overwrite`` is set.

    Raises:
        UserError: it can't be written to, it has a run in it and ``overwrite`` is not set, or other things.
    """
    if folder.is_dir():
        there = sorted(path.name for path in folder.iterdir() if path.suffix != TEMPORARY)
        foreign = [name for name in there if not _is_of_a_run(name)]
        if foreign:
            raise UserError(
                f"the folder {str(folder)!r} has {foreign[0]!r} in it, which is not of a training run; choose another "
                "with --output"
            )
        if there and not overwrite:
            raise UserError(
                f"there is a run in {str(folder)!r}: go on with it (--resume), replace it (--overwrite), or choose "
                "another folder (--output)"
            )
        make_folder(folder)
        # Checkpoints last: a folder cleared by halves is still known as a run's.
        for name in sorted(there, key=lambda name: name in (CHECKPOINT, CHECKPOINTS)):
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    else:
        make_folder(folder)
