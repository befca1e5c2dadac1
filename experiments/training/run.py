"""A training run: its folder, its checkpoints, and the loop of collecting, learning, evaluating.

The folder of a run, by default ``runs/<name>``:

* ``config.yaml``: the config as it was resolved, with versions and git commit; ``cribbage train`` takes it again
* ``sessions.json``: each start and resumption: the command, when, from how many decisions, versions and git commit
* ``checkpoint.pt``: the newest checkpoint (see :mod:`agents.neural.checkpoint`)
* ``checkpoints/<decisions>.pt``: the last few
* ``best.pt``: the best one, if the config says by what
* ``pool/``: past selves to play against, if the config has some (see :mod:`experiments.training.league`)
* ``metrics.csv`` and TensorBoard's event files: see :mod:`experiments.training.metrics`
"""

from __future__ import annotations

import importlib
import math
import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import torch
from tqdm import tqdm

import cribbage_env
from agents import load_modules, named_in
from agents.neural.agent import NeuralAgent
from agents.neural.checkpoint import CHECKPOINT, FORMAT, checkpoint_bytes, read_checkpoint
from agents.neural.features import FEATURES_VERSION
from cribbage_env.observation import OBSERVATION_VERSION
from experiments.config import UserError
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
    write_whole,
)
from experiments.tournament.report import percent, table
from experiments.train_config import FREE_TO_CHANGE, TrainConfig
from experiments.training.evaluation import EXPLOITABILITY, Evaluation, Evaluator
from experiments.training.league import League
from experiments.training.learner import Learner, NotFinite, Setup
from experiments.training.metrics import METRICS, Metrics, evaluation_columns
from experiments.training.ranks import Ranks

CONFIG, SESSIONS, CHECKPOINTS, BEST, POOL = "config.yaml", "sessions.json", "checkpoints", "best.pt", "pool"
_EVENTS = "events.out.tfevents."

LEARNERS = {
    "dmc": "DmcLearner",
    "espg": "EspgLearner",
    "ppo": "PpoLearner",
    "nfsp": "NfspLearner",
    "distill": "DistillLearner",
}
"""By ``learner.algorithm``, which is also the name of its module."""


def make_learner(setup: Setup) -> Learner:
    """The learner that a config names."""
    name = setup.config.learner.algorithm
    learner: Learner = getattr(importlib.import_module(f"experiments.training.{name}"), LEARNERS[name])(setup)
    return learner


def run_folder(config: TrainConfig) -> Path:
    """Where the run of a config goes."""
    return Path(config.output) if config.output is not None else RUNS / config.name


@dataclass
class _Counters:
    iteration: int = 0  # iterations done
    games: int = 0
    decisions: int = 0


@dataclass
class _Best:
    """The best checkpoint so far."""

    figure: float  # the win rate on the deals that confirm, or minus the exploitability
    decisions: int


class Run:
    """A training run, new or going on.

    Args:
        config: of the run.
        resume: go on from the newest checkpoint in the folder.
        overwrite: replace the run that is in the folder.
        ranks: the processes of the run; all but the first write nothing.

    Raises:
        UserError, AgentError: the folder, a checkpoint or an opponent is not as it must be. Nothing has been written
            or deleted then.
    """

    def __init__(
        self, config: TrainConfig, resume: bool = False, overwrite: bool = False, ranks: Ranks | None = None
    ) -> None:
        self.config = config
        self.folder = run_folder(config)
        self.evaluations: list[Evaluation] = []
        """The last matches, by opponent."""
        self.exploitability: float | None = None
        """The last one."""
        self._ranks = Ranks() if ranks is None else ranks
        if config.collect.games < self._ranks.size:
            raise UserError(
                f"collect.games must be at least the number of ranks ({self._ranks.size}), so that each has an "
                f"episode, got {config.collect.games}"
            )
        self._threads = config.threads if config.threads is not None else max(1, _cores() // self._ranks.local_size)
        device = self._ranks.device(config.device)
        with self._ranks.together():
            with named_in("modules"):
                load_modules(config.modules)
            self._evaluator = Evaluator(config, self._threads)
            self._league = League(config, self._ranks, self.folder / POOL, resume, device)
            self._learner = make_learner(Setup(config, device, self._threads, self._ranks, self._league))
        self._counters = _Counters()
        self._best: _Best | None = None
        self._highest: float | None = None  # win rate in an evaluation, of a checkpoint that was confirmed
        self._last_checkpoint = -1  # the iteration it was written after
        content: dict[str, Any] = {}
        with self._ranks.together():  # nobody begins before the folder is as it must be
            if self._ranks.first and resume:
                content = self._read()
            elif self._ranks.first:
                _open_folder(self.folder, overwrite)
        if resume:
            content = self._ranks.from_first(content)
            with self._ranks.together():
                self._restore(content)
                if self._ranks.first:
                    make_folder(self.folder)

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
                StopRequest(said=self._ranks.first, ends=True) as stop,
                ThreadPoolExecutor(max(2, self._threads), initializer=torch.set_num_threads, initargs=(1,)) as pool,
            ):
                return self._train(command, stop, pool)
        except BrokenPipeError:  # the reader of the output has gone: nothing of the folder's
            raise
        except OSError as error:
            whole = (self.folder / CHECKPOINT).exists()
            then = "what was written before is whole, go on with --resume" if whole else "start again with --overwrite"
            raise UserError(f"can't write to {str(self.folder)!r}: {error.strerror or error}; {then}") from None
        finally:
            torch.set_num_threads(torch_threads)

    def report(self) -> str:
        """What came out, as text."""
        rows = [["against", "games", "wins"]]
        rows += [[one.opponent, f"{one.games:,}", percent(one.win_rate)] for one in self.evaluations]
        of = " of self-play" if self.config.opponents.itself == 1.0 else ""
        sections = [f"{self._counters.decisions:,} decisions in {self._counters.games:,} episodes{of}"]
        if self.evaluations:
            sections.append(table(rows, left=1))
            sections.append("[ ]: 95 % confidence intervals; games in pairs on the same deals, seats swapped")
        if self.exploitability is not None:
            settings = self.config.evaluation.exploitability
            prior = f" (prior {settings.prior})" if settings is not None and self.config.collect.reduced is None else ""
            sections.append(f"exploitability of the play: {self.exploitability:.4f} points a deal{prior}")
        if self._best is not None:
            what = self.config.evaluation.best
            figure = (
                f"exploitability {-self._best.figure:.4f}"
                if what == EXPLOITABILITY
                else f"{100 * self._best.figure:.1f} % against {what}, on the deals that confirm"
            )
            sections.append(f"best: {self.folder / BEST}, after {self._best.decisions:,} decisions: {figure}")
        sections.append(f"written: {self.folder / CHECKPOINT}")
        return "\n".join(sections)

    def _train(self, command: Sequence[str], stop: StopRequest, pool: ThreadPoolExecutor) -> bool:
        first = self._ranks.first
        if first and (self._counters.iteration == 0 or not (self.folder / CONFIG).exists()):
            with replacing(self.folder / CONFIG) as temporary:
                temporary.write_text(config_text(self.config), encoding="utf-8")
            if self._counters.iteration == 0:
                self._write_checkpoint()
        metrics = None
        if first:
            self._note_session(command)
            metrics = Metrics(self.folder, self._columns(), self._counters.iteration)
        bar = tqdm(
            total=self.config.budget.decisions,
            initial=self._counters.decisions,
            unit=" decisions",
            unit_scale=True,
            smoothing=0.1,
            disable=not (first and sys.stderr.isatty()),
        )
        before_this = metrics.seconds if metrics is not None else 0.0
        began = time.monotonic() - before_this
        evaluating = before_this - metrics.training_seconds if metrics is not None else 0.0
        try:
            progress = self._progress(before_this - evaluating)
            if progress >= 1.0 and metrics is not None:  # a run was resumed that had only its last evaluation to do
                metrics.complete(self._evaluate(True, stop, pool))
                self._last_checkpoint = -1  # it may know a better one by now
                self._write_checkpoint()
            stopped = self._ranks.any(stop.asked)
            while progress < 1.0 and not stopped:
                before = self._counters.decisions
                row, best = self._iterate(progress, pool), self._best
                training = time.monotonic() - began - evaluating
                progress = self._progress(training)
                last = progress >= 1.0
                due = last or _passes(self.config.evaluation.every, before, self._counters.decisions)
                exploit = self.config.evaluation.exploitability
                exploit_due = exploit is not None and (last or _passes(exploit.every, before, self._counters.decisions))
                if first and (due or exploit_due):
                    row |= self._evaluate(last, stop, pool, due, exploit_due)
                evaluating = time.monotonic() - began - training
                stopped = self._ranks.any(stop.asked)
                if metrics is not None:
                    metrics.write(row | {"seconds": time.monotonic() - began, "training_seconds": training})
                    checkpoint_due = _passes(self.config.checkpoint.every, before, self._counters.decisions)
                    if last or stopped or checkpoint_due or self._best is not best:
                        self._write_checkpoint()
                if first and (due or exploit_due) and (self.evaluations or self.exploitability is not None):
                    self._say(self._line())
                bar.set_postfix_str(self._postfix(row), refresh=False)
                bar.update(self._counters.decisions - before)
        finally:
            bar.close()
            if metrics is not None:
                metrics.close()
        return not stopped

    def _columns(self) -> list[str]:
        """Of the metrics, beside those of every run."""
        columns = [*self._learner.columns, *evaluation_columns(self.config.evaluation.opponents)]
        return [*columns, EXPLOITABILITY] if self.config.evaluation.exploitability is not None else columns

    def _iterate(self, progress: float, pool: ThreadPoolExecutor) -> dict[str, float]:
        """One iteration; returns its row of metrics without what is measured outside."""
        where = f"in iteration {self._counters.iteration + 1}"
        try:
            figures = self._of_all(self._learner.iterate(self._counters.iteration, progress, pool))
            bad = next((name for name, figure in figures.items() if not math.isfinite(figure)), None)
            if bad is not None:
                raise NotFinite(f"{bad} became {figures[bad]}")
        except NotFinite as error:
            raise UserError(
                f"{error} {where}: training is stopped, the last checkpoint in {str(self.folder)!r} is whole; lower "
                f"learner.lr (now {self.config.learner.lr}) or learner.max_grad_norm "
                f"({self.config.learner.max_grad_norm})"
            ) from None
        self._counters.iteration += 1
        self._counters.games += round(figures["games"])
        self._counters.decisions += round(figures["decisions"])
        self._league.settle()
        if self._league.due(self._counters.decisions):
            self._league.enter(self._player(), self._counters.decisions)
        busy = figures["collect_seconds"] + figures["learn_seconds"]
        return figures | {
            "iteration": self._counters.iteration,
            "games": self._counters.games,
            "decisions": self._counters.decisions,
            "decisions_per_second": figures["decisions"] / busy if busy > 0 else 0.0,
        }

    def _of_all(self, figures: dict[str, float]) -> dict[str, float]:
        """The figures of all ranks together: counts add up, the others are means, of decisions where there are some."""
        if self._ranks.size == 1:
            return figures
        counts = ("games", "decisions", *self._learner.counts)
        weight = figures["decisions"]
        names = sorted(figures)
        *sums, decisions = self._ranks.total(
            [figures[one] * (1 if one in counts else weight) for one in names] + [weight]
        )
        return {
            name: value if name in counts else value / decisions if decisions else 0.0
            for name, value in zip(names, sums, strict=True)
        }

    def _progress(self, training: float) -> float:
        """The part of the budget that is spent after so many seconds of training; 1 or more at the end."""
        budget = self.config.budget
        spent = [0.0]
        if budget.decisions is not None:
            spent.append(self._counters.decisions / budget.decisions)
        if budget.minutes is not None:
            spent.append(training / 60 / budget.minutes)
        return self._ranks.from_first(max(spent))  # its clock counts

    def _evaluate(
        self,
        last: bool,
        stop: StopRequest,
        pool: ThreadPoolExecutor,
        matches: bool = True,
        exploitability: bool = True,
    ) -> dict[str, float]:
        """Evaluate what is due; returns the columns of metrics."""
        agent = self._learner.agent(self.config.name)
        columns: dict[str, float] = {}
        if matches:
            evaluations = self._evaluator.matches(agent, last, lambda: stop.asked, pool)
            if stop.asked:  # what was played until then favours short games
                return {}
            self.evaluations = evaluations
            for one in evaluations:
                for figure, value in zip(("win rate", "low", "high"), one.win_rate, strict=True):
                    columns[f"{one.opponent}: {figure}"] = value
        if exploitability and self.config.evaluation.exploitability is not None:
            self.exploitability = columns[EXPLOITABILITY] = self._evaluator.exploitability(agent)
        self._keep_best(agent, columns, stop)
        return columns

    def _keep_best(self, agent: NeuralAgent, columns: Mapping[str, float], stop: StopRequest) -> None:
        """Write ``best.pt`` if this is the best so far.

        A win rate is the highest of many by chance, too: it must also be higher than the best one's on other deals,
        the same for all, that no evaluation uses. (That figure still favours the best a little, being chosen by it; a
        last word is a match with another seed.) The exploitability is exact.
        """
        criterion = self.config.evaluation.best
        if criterion == EXPLOITABILITY and EXPLOITABILITY in columns:
            figure = -columns[EXPLOITABILITY]
        elif criterion is not None and f"{criterion}: win rate" in columns:
            if self._highest is not None and columns[f"{criterion}: win rate"] <= self._highest:
                return
            figure = self._evaluator.confirm(agent, criterion, lambda: stop.asked).value
            if stop.asked:
                return
        else:
            return
        if self._best is None or figure > self._best.figure:
            self._best = _Best(figure, self._counters.decisions)
            self._highest = columns.get(f"{criterion}: win rate")
            write_whole(self.folder / BEST, self._checkpoint())

    def _say(self, line: str) -> None:
        """Print a line; nothing is lost where nobody can read it any more.

        Raises:
            BrokenPipeError, UserError: the reader has gone, or standard output can't be written to; a checkpoint is
                there.
        """
        try:
            tqdm.write(line)
        except OSError as error:
            self._write_checkpoint()
            if isinstance(error, BrokenPipeError):
                raise
            raise UserError(
                f"can't write to standard output: {error.strerror or error}; the run in {str(self.folder)!r} is whole, "
                "go on with --resume"
            ) from None

    def _line(self) -> str:
        rates = [f"{100 * one.win_rate.value:.1f} % against {one.opponent}" for one in self.evaluations]
        exact = [f"exploitability {self.exploitability:.4f}"] if self.exploitability is not None else []
        return f"{self._counters.decisions:>12,} decisions: {', '.join([*rates, *exact])}"

    def _postfix(self, row: Mapping[str, float]) -> str:
        rates = [f"{one.opponent} {100 * one.win_rate.value:.1f} %" for one in self.evaluations]
        losses = [f"{name} {row[name]:.3g}" for name in self._learner.columns[:2] if name in row]
        return ", ".join([*losses, *rates])

    def _write_checkpoint(self) -> None:
        if self._last_checkpoint == self._counters.iteration:
            return
        data = self._checkpoint()
        if self.config.checkpoint.keep:
            kept = self.folder / CHECKPOINTS
            kept.mkdir(exist_ok=True)
            write_whole(kept / f"{self._counters.decisions:012}.pt", data)
            for old in sorted(kept.glob("*.pt"))[: -self.config.checkpoint.keep]:
                old.unlink()
        write_whole(self.folder / CHECKPOINT, data)
        self._last_checkpoint = self._counters.iteration
        kept_after = [int(path.stem) for path in (self.folder / CHECKPOINTS).glob("*.pt") if path.stem.isdigit()]
        best_after = [] if self._best is None else [self._best.decisions]
        self._league.tidy([self._counters.decisions, *kept_after, *best_after])

    def _checkpoint(self) -> bytes:
        """A checkpoint, after the files that it names."""
        self._league.write()
        return checkpoint_bytes(self._content())

    def _player(self) -> dict[str, Any]:
        """What an agent needs of a checkpoint."""
        return {
            "format": FORMAT,
            "observation_version": OBSERVATION_VERSION,
            "features_version": FEATURES_VERSION,
            "network": self._learner.shape.data(),
            "weights": self._learner.weights(),
            "choice": self._learner.choice.data(),
        }

    def _content(self) -> dict[str, Any]:
        """A checkpoint of what was learned so far."""
        return self._player() | {
            "training": {
                "config": self.config.model_dump(mode="json"),
                "seed": str(self.config.seed),  # with the counters all the random state there is
                "iteration": self._counters.iteration,
                "games": self._counters.games,
                "decisions": self._counters.decisions,
                "learner": self._learner.state(),
                "league": self._league.state(),
                "best": [self._best.figure, self._best.decisions] if self._best is not None else None,
                "highest": self._highest,
            },
            "versions": {
                "cribbage-lab": cribbage_env.__version__,
                "numpy": numpy.__version__,
                "torch": torch.__version__,
            },
        }

    def _read(self) -> dict[str, Any]:
        """What is in the newest checkpoint."""
        path = self.folder / CHECKPOINT
        if not path.exists():
            raise UserError(
                f"there is no run to resume in {str(self.folder)!r}; start it without --resume "
                "(with --overwrite, if something of one is left there)"
            )
        return read_checkpoint(path)

    def _restore(self, content: dict[str, Any]) -> None:
        """Go on from what is in a checkpoint."""
        path = self.folder / CHECKPOINT
        try:
            training = content["training"]
            differing = differences(training["config"], self.config.model_dump(mode="json"), FREE_TO_CHANGE)
            counters = _Counters(*(int(training[name]) for name in ("iteration", "games", "decisions")))
            if not differing:
                self._learner.restore(training["learner"])
                self._league.restore(training["league"])
                best = training["best"]
                if best is not None and self._best_is_there():
                    self._best = _Best(float(best[0]), int(best[1]))
                    self._highest = None if training["highest"] is None else float(training["highest"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise UserError(
                f"{str(path)!r} has no whole state of training ({error}); it plays, but can't go on"
            ) from None
        if differing:
            differing.sort(key=lambda one: one.startswith("name "))  # which follows from the others
            raise UserError(
                f"the run in {str(self.folder)!r} was started with another config: {differing[0]}; resume it with "
                "its own, or start another run with --output"
            )
        self._counters = counters
        self._last_checkpoint = counters.iteration

    def _best_is_there(self) -> bool:
        """Whether the best checkpoint's file is; if somebody has taken it away, the best is looked for anew."""
        return self._ranks.from_first((self.folder / BEST).exists())

    def _note_session(self, command: Sequence[str]) -> None:
        path = self.folder / SESSIONS
        sessions = read_sessions(path) if self._counters.iteration > 0 else []
        facts = {"seed": self.config.seed, "decisions": self._counters.decisions, "ranks": self._ranks.size}
        write_sessions(path, [*sessions, new_session(command, **facts)])


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _passes(every: int | None, before: int, now: int) -> bool:
    """Whether a multiple of ``every`` lies above ``before`` and not above ``now``."""
    return every is not None and before // every != now // every


def is_of_a_run(name: str) -> bool:
    """Whether a run writes a file or folder with this name."""
    return name in (CONFIG, SESSIONS, CHECKPOINT, CHECKPOINTS, BEST, POOL, METRICS) or name.startswith(_EVENTS)


def _open_folder(folder: Path, overwrite: bool) -> None:
    """Make the folder for a new run, and clear it of an old one if ``overwrite`` is set.

    Raises:
        UserError: it can't be written to, it has a run in it and ``overwrite`` is not set, or other things.
    """
    if folder.is_dir():
        there = sorted(path.name for path in folder.iterdir() if path.suffix != TEMPORARY)
        foreign = [name for name in there if not is_of_a_run(name)]
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
        for name in sorted(there, key=lambda name: name in (CHECKPOINT, CHECKPOINTS, BEST)):
            path = folder / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
    else:
        make_folder(folder)
