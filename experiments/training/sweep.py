"""Sweeps: a run for every combination of values, ``cribbage train CONFIG --sweep learner.lr=1e-3,3e-4 seed=0..2``.

The folder of a sweep, by default ``runs/<name>``:

* ``<combination>/``: the folder of each run, as of any (see :mod:`experiments.training.run`)
* ``<combination>.log``: what a run printed, if several were trained at the same time
* ``sweep.json``: the swept keys and the state of each run, from which ``--resume`` goes on
* ``sweep.csv``: what came out (see :mod:`experiments.training.sweep_results`)
"""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agents.base import AgentError
from experiments.config import UserError, load_config
from experiments.run_folder import (
    RUNS,
    TEMPORARY,
    StopRequest,
    config_text,
    differences,
    make_folder,
    release_folder,
    replacing,
)
from experiments.train_config import FREE_TO_CHANGE, TrainConfig

MOST_RUNS = 10_000
STATE, TABLE = "sweep.json", "sweep.csv"
_LOG = ".log"
_OF_THE_SWEEP = ("name", "output")  # keys that say where it goes
_NUMBER = r"[-+]?[\w.]*?"
_LONGEST = 120  # of a folder's name


@dataclass(frozen=True)
class Swept:
    """A key and the values that it takes, as text."""

    key: str
    values: Sequence[str]


@dataclass
class SweptRun:
    """A run of a sweep."""

    name: str
    """Of its folder."""
    values: dict[str, str]
    """By swept key."""
    config: TrainConfig
    figures: dict[str, float] | None = None
    """What it ended with, if it is done."""
    error: str | None = None
    """Why it has failed, if it has."""


@dataclass
class _Sweep:
    """A sweep and how far it is."""

    folder: Path
    keys: list[str]
    runs: list[SweptRun]
    others: dict[str, Any] = field(default_factory=dict)  # in the folder, of earlier sessions with other values

    @property
    def shown(self) -> list[str]:
        """The keys but the seed."""
        return [key for key in self.keys if key != "seed"]

    def save(self) -> None:
        """Write the state and the results."""
        from experiments.training.sweep_results import rows_of, write_csv

        state = {run.name: {"values": run.values, "figures": run.figures, "error": run.error} for run in self.runs}
        with replacing(self.folder / STATE) as temporary:
            text = json.dumps({"keys": self.keys, "runs": self.others | state}, indent=1)
            temporary.write_text(text + "\n", encoding="utf-8")
        rows = rows_of([(run.values, run.figures, run.error is not None) for run in self.runs])
        write_csv(self.folder / TABLE, self.shown, rows)

    def report(self) -> str:
        """What came out so far."""
        from experiments.training.sweep_results import results_table, rows_of

        rows = rows_of([(run.values, run.figures, run.error is not None) for run in self.runs])
        if not any(row.done or row.failed for row in rows):
            return "no run is done"
        done = sum(run.figures is not None for run in self.runs)
        text = results_table([_short(key, self.shown) for key in self.shown], rows)
        return f"{text}\n{done} of {len(self.runs)} runs done; written: {self.folder / TABLE}"


def run_sweep(
    path: str,
    overrides: Sequence[str],
    sweep: Sequence[str],
    *,
    jobs: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    command: Sequence[str] = (),
) -> None:
    """Train a run for every combination.

    Args:
        path: of the config.
        overrides: of all runs, ``key=value``.
        sweep: ``key=values``; values are separated by commas, ``a..b`` are the whole numbers from a to b.
        jobs: how many runs are trained at the same time, each in a process of its own.
        resume: go on with the sweep in the folder; runs that are done are left as they are.
        overwrite: replace it.
        command: noted in each run's ``sessions.json``.

    Raises:
        UserError: bad input (nothing has been written or deleted then); or some runs have failed, the others are done.
        KeyboardInterrupt: after Ctrl-C; what was done is kept.
    """
    if jobs < 1:
        raise UserError(f"--jobs must be at least 1, got {jobs}")
    base = load_base(path, overrides, sweep)
    folder = Path(base.output) if base.output is not None else RUNS / base.name
    swept = _resolved(parse_sweep(sweep), base, overrides)
    runs = plan(path, overrides, swept, folder)
    plan_of = _Sweep(folder, [one.key for one in swept], runs)
    _open(plan_of, resume, overwrite)
    plan_of.save()
    left = [run for run in runs if run.figures is None]
    if jobs == 1:
        _in_turn(plan_of, left, command)
    else:
        _at_the_same_time(plan_of, left, jobs)
    print(plan_of.report(), flush=True)
    failed = [run for run in runs if run.error is not None]
    if failed:
        raise UserError(
            f"{len(failed)} of {len(runs)} runs failed, the first of them {failed[0].name}: {failed[0].error}"
        )


# --- What is swept ------------------------------------------------------------------------------------------


def parse_sweep(texts: Sequence[str]) -> list[Swept]:
    """The keys and values of ``key=values``.

    Raises:
        UserError: no values, a range that is none, too many values.
    """
    found = []
    for text in texts:
        key, equals, values = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"a sweep looks like key=value,value or key=0..4, got {text!r}")
        items = [_items(item, text) for item in _split(values)]
        if sum(map(len, items)) > MOST_RUNS:
            raise UserError(f"--sweep {text}: at most {MOST_RUNS:,} values are allowed, got {sum(map(len, items)):,}")
        found.append(Swept(key.strip(), [str(item) for part in items for item in part]))
        if not items:
            raise UserError(f"--sweep {text}: there are no values; write some, such as {key.strip()}=1,2")
    return found


def _split(text: str) -> list[str]:
    """The items of a list, separated by the commas outside brackets and quotes; no text has none."""
    items, depth, quote, start = [], 0, "", 0
    for at, letter in enumerate(text):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "[{(":
            depth += 1
        elif letter in "]})":
            depth -= 1
        elif letter == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    return [item.strip() for item in [*items, text[start:]]] if text.strip() else []


def _items(item: str, text: str) -> Sequence[object]:
    """An item of a list: itself, or the numbers of a range."""
    if not item:
        raise UserError(f"--sweep {text}: there is an empty value between the commas")
    ends = re.fullmatch(rf"({_NUMBER})\.\.({_NUMBER})", item)
    if ends is None:
        return [item]
    try:
        first, last = int(ends[1]), int(ends[2])
    except ValueError:
        raise UserError(
            f"--sweep {text}: a range goes from a whole number to another, such as 0..4, got {item!r}; "
            "list other values"
        ) from None
    if last < first:
        raise UserError(f"--sweep {text}: the range {item} is empty, its first number must not be above its last")
    return range(first, last + 1)


def load_base(path: str, overrides: Sequence[str], sweep: Sequence[str]) -> TrainConfig:
    """The config with the first value of each key that is named in full; it may need one of them to be whole."""
    first = [f"{one.key}={one.values[0]}" for one in parse_sweep(sweep) if "." in one.key]
    return load_config(path, TrainConfig, [*overrides, *first])


def _resolved(swept: Sequence[Swept], base: TrainConfig, overrides: Sequence[str]) -> list[Swept]:
    """The same with keys in full, each once and none of them overridden."""
    full = [Swept(_full_key(one.key, base), one.values) for one in swept]
    overridden = [override.partition("=")[0].strip() for override in overrides]
    for number, one in enumerate(full):
        if one.key in _OF_THE_SWEEP:
            raise UserError(f"{one.key} can't be swept: it says where the whole sweep goes")
        for other in full[:number]:
            if _lies_in(one.key, other.key) or _lies_in(other.key, one.key):
                raise UserError(
                    f"--sweep: {other.key} and {one.key} can't be swept together, one would replace the other"
                )
        for key in overridden:
            if _lies_in(key, one.key):
                raise UserError(f"{key} is overridden and swept; leave one of them out")
    return full


def _lies_in(key: str, section: str) -> bool:
    return key == section or key.startswith(f"{section}.")


def _full_key(key: str, base: TrainConfig) -> str:
    """A key in full: ``lr`` is ``learner.lr``, if only one section has it."""
    if "." in key or key in TrainConfig.model_fields:
        return key
    paths = list(_paths(base.model_dump(mode="json")))
    full = [path for path in paths if path.rpartition(".")[2] == key]
    if len(full) > 1:
        raise UserError(f"--sweep {key}: say which, {' or '.join(full)}")
    if not full:
        near = difflib.get_close_matches(key, [path.rpartition(".")[2] for path in paths], n=1)
        raise UserError(f"--sweep: unknown key {key!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return full[0]


def _paths(section: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """All keys of a config, in full."""
    for key, value in section.items():
        yield f"{path}{key}"
        if isinstance(value, Mapping) and f"{path}{key}" != "opponents.agents":  # whose keys are agents' specs
            yield from _paths(value, f"{path}{key}.")


def _short(key: str, keys: Sequence[str]) -> str:
    """The last part of a key, if no other key has the same."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in keys) == 1 else key


# --- Which runs there are -----------------------------------------------------------------------------------


def plan(path: str, overrides: Sequence[str], swept: Sequence[Swept], folder: Path) -> list[SweptRun]:
    """Every combination, the last key changing fastest; all configs are checked.

    Raises:
        UserError: too many; a value that is none; two runs that are the same.
    """
    count = math.prod(len(one.values) for one in swept)
    if count > MOST_RUNS:
        raise UserError(f"the sweep has {count:,} runs, at most {MOST_RUNS:,} are allowed")
    keys = [one.key for one in swept]
    runs: list[SweptRun] = []
    same: dict[str, str] = {}  # what each run is, without its folder: its name
    names: set[str] = set()
    for values in itertools.product(*(one.values for one in swept)):
        mine = dict(zip(keys, values, strict=True))
        config = load_config(path, TrainConfig, [*overrides, *(f"{key}={value}" for key, value in mine.items())])
        name = _folder_name(mine, names)
        names.add(name)
        config = config.model_copy(update={"output": str(folder / name)})
        content = json.dumps(config.model_dump(mode="json", exclude={"output"}), sort_keys=True)
        if content in same:
            raise UserError(f"--sweep: {same[content]} and {name} are the same run; give each value once")
        same[content] = name
        runs.append(SweptRun(name, mine, config))
    return runs


def _folder_name(values: Mapping[str, str], taken: set[str]) -> str:
    """A folder's name such as ``lr=1e-3,seed=0``."""
    parts = []
    for key, value in values.items():
        clean = re.sub(r"[^\w.+-]+", "-", value).strip("-") if not re.fullmatch(r"[\w.+-]+", value) else value
        parts.append(f"{_short(key, list(values))}={clean}")
    name = ",".join(parts)
    if name in taken or len(name) > _LONGEST:
        name = f"{name[:_LONGEST]}-{hashlib.sha256(json.dumps(values).encode()).hexdigest()[:8]}"
    return name


# --- The folder ---------------------------------------------------------------------------------------------


def _open(sweep: _Sweep, resume: bool, overwrite: bool) -> None:
    """Make the folder, see what is done in it, or clear it.

    Raises:
        UserError: it has something else in it, or no sweep to resume, or one and it was not said what to do with it.
    """
    from experiments.training.run import is_of_a_run

    folder = sweep.folder
    state = _read_state(folder)
    there = sorted(one.name for one in folder.iterdir() if one.suffix != TEMPORARY) if folder.is_dir() else []
    if resume:
        if state is None:
            raise UserError(f"there is no sweep to resume in {str(folder)!r}; start it without --resume")
        _take_up(sweep, state)
    elif there and state is None:
        raise UserError(
            f"the folder {str(folder)!r} has {there[0]!r} in it, which is not of a sweep; choose another with --output"
        )
    elif there and not overwrite:
        raise UserError(
            f"there is a sweep in {str(folder)!r}: go on with it (--resume), replace it (--overwrite), or choose "
            "another folder (--output)"
        )
    elif state is not None:
        old = list(state["runs"])
        ours = {STATE, TABLE, *old, *(f"{name}{_LOG}" for name in old)}
        foreign = [name for name in there if name not in ours]
        for name in old:
            inside = sorted(one.name for one in (folder / name).iterdir()) if (folder / name).is_dir() else []
            foreign += [f"{name}/{one}" for one in inside if not (is_of_a_run(one) or one.endswith(TEMPORARY))]
        if foreign:
            raise UserError(
                f"the folder {str(folder)!r} has {foreign[0]!r} in it, which is not of a sweep; choose another with "
                "--output"
            )
        make_folder(folder)
        for name in sorted(ours & set(there), key=lambda name: name == STATE):  # by which it is known, last
            if (folder / name).is_dir():
                shutil.rmtree(folder / name)
            else:
                (folder / name).unlink()
    make_folder(folder)


def _read_state(folder: Path) -> dict[str, Any] | None:
    """What is in ``sweep.json``; None without one."""
    path = folder / STATE
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        whole = isinstance(state["keys"], list) and all(
            isinstance(run["values"], dict) and (run["figures"] is None or isinstance(run["figures"], dict))
            for run in state["runs"].values()
        )
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise UserError(f"{str(path)!r} is not the state of a sweep; choose another folder with --output")
    return dict(state)


def _take_up(sweep: _Sweep, state: Mapping[str, Any]) -> None:
    """Go on from a state: take over what is done, and see that the runs were started with the same configs."""
    if state["keys"] != sweep.keys:
        raise UserError(
            f"the sweep in {str(sweep.folder)!r} is one of {', '.join(state['keys'])}, not of {', '.join(sweep.keys)}; "
            "resume it with its own keys, or start another with --output"
        )
    names = {run.name for run in sweep.runs}
    sweep.others = {name: run for name, run in state["runs"].items() if name not in names}
    for run in sweep.runs:
        path = sweep.folder / run.name / "config.yaml"
        if not path.exists():  # it was not begun
            continue
        began = load_config(path, TrainConfig)
        differing = differences(began.model_dump(mode="json"), run.config.model_dump(mode="json"), FREE_TO_CHANGE)
        if differing:
            raise UserError(
                f"the run {run.name} in {str(sweep.folder)!r} was started with another config: {differing[0]}; resume "
                "the sweep with its own, or start another with --output"
            )
        run.figures = state["runs"].get(run.name, {}).get("figures")


def _goes_on(run: SweptRun, folder: Path) -> bool:
    """Whether there is something to go on from."""
    from agents.neural.checkpoint import CHECKPOINT

    return (folder / run.name / CHECKPOINT).exists()


# --- Training -----------------------------------------------------------------------------------------------


def _in_turn(sweep: _Sweep, left: Sequence[SweptRun], command: Sequence[str]) -> None:
    """Train runs one after another, in this process."""
    from experiments.training.run import Run

    for run in left:
        print(f"\n{_heading(sweep, run)}", flush=True)
        resume = _goes_on(run, sweep.folder)
        try:
            training = Run(run.config, resume=resume, overwrite=not resume)
        except (UserError, AgentError) as error:
            raise UserError(f"{run.name}: {error}") from None
        try:
            whole = training.train(command)
        except (UserError, AgentError) as error:
            _end(sweep, run, str(error))
            continue
        finally:
            release_folder(sweep.folder / run.name)  # there may be more of them than a process may hold files open
        if not whole:
            _interrupted(sweep)
        _end(sweep, run)
        if run is not left[-1]:
            print(sweep.report(), flush=True)


def _at_the_same_time(sweep: _Sweep, left: Sequence[SweptRun], jobs: int) -> None:
    """Train runs in processes of their own; what they print goes to a file beside each one's folder."""
    waiting = list(left)
    running: dict[str, tuple[SweptRun, subprocess.Popen[bytes]]] = {}
    told = False
    try:
        with StopRequest(ends=True) as stop:
            while running or (waiting and not stop.asked):
                while waiting and len(running) < jobs and not stop.asked:
                    run = waiting.pop(0)
                    running[run.name] = run, _start(sweep, run)
                    print(_heading(sweep, run), flush=True)
                if stop.asked and not told:
                    told = True
                    for _, process in running.values():
                        process.send_signal(signal.SIGINT)
                for run, process in [one for one in running.values() if one[1].poll() is not None]:
                    del running[run.name]
                    if process.returncode == 0:
                        _end(sweep, run)
                        if running or waiting:
                            print(sweep.report(), flush=True)
                    elif not told:  # otherwise it was interrupted, whatever it made of that
                        _end(sweep, run, _last_words(sweep.folder / f"{run.name}{_LOG}", process.returncode))
                        if not (sweep.folder / run.name / "metrics.csv").exists():
                            raise UserError(f"{run.name}: {run.error}")
                time.sleep(0.05)
    finally:
        for _, process in running.values():  # after an error, or Ctrl-C again
            process.send_signal(signal.SIGINT)
        for _, process in running.values():
            process.wait()
    if told:
        _interrupted(sweep)


def _start(sweep: _Sweep, run: SweptRun) -> subprocess.Popen[bytes]:
    """A process that trains a run."""
    folder = sweep.folder / run.name
    resume = _goes_on(run, sweep.folder)
    if not resume:
        folder.mkdir(exist_ok=True)
        with replacing(folder / "config.yaml") as temporary:
            temporary.write_text(config_text(run.config), encoding="utf-8")
    threads = [] if run.config.threads is not None else ["threads=1"]
    with (sweep.folder / f"{run.name}{_LOG}").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "experiments.training", str(folder / "config.yaml"), *threads, "--output",
             str(folder), "--resume" if resume else "--overwrite"],
            stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip


def _last_words(log: Path, code: int) -> str:
    """Why a process has ended."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    said = [line for line in lines if line.startswith("error: ")]
    return said[-1].removeprefix("error: ") if said else f"exit code {code}, see {log}"


def _heading(sweep: _Sweep, run: SweptRun) -> str:
    number = sweep.runs.index(run) + 1
    values = " ".join(f"{key}={value}" for key, value in run.values.items())
    return f"run {number} of {len(sweep.runs)}: {values}"


def _end(sweep: _Sweep, run: SweptRun, error: str | None = None) -> None:
    """Note that a run has ended, well or with an error."""
    from experiments.training.sweep_results import run_figures

    run.error = error
    if error is None:
        run.figures = run_figures(sweep.folder / run.name)
    else:
        print(f"failed: {error}", file=sys.stderr, flush=True)
    sweep.save()


def _interrupted(sweep: _Sweep) -> None:
    print(sweep.report(), flush=True)
    print("\nwhat was done is kept; the same command with --resume goes on", file=sys.stderr, end="")
    raise KeyboardInterrupt
