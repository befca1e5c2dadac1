"""A solve: its folder, its state, and the loop of iterations and checks.

The folder, by default ``runs/<name>``:

* ``config.yaml``: the config as it was resolved, with versions and git commit; ``cribbage solve`` takes it again
* ``sessions.json``: each start and resumption: the command, when, from which iteration, versions and git commit
* ``state.npz``: what ``--resume`` goes on from; it may be deleted once the result is good enough
* ``progress.csv``, ``exploitability.png``: the exploitability against time (see :mod:`experiments.solving.progress`)
* ``strategy.bin``: the average strategy with its certificate (see :mod:`agents.equilibrium.strategy`), and, if asked
  for, ``strategy-small.bin``
* ``hand_values.csv``, ``leads.png``: what it says of kept hands (see :mod:`experiments.solving.tables`)
* ``summary.json``: the figures
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents import load_modules, make_agent, named_in
from agents.equilibrium.hands import MAX_COPIES
from agents.equilibrium.prior import UNIFORM, dealt_weights, prior_weights, training_weights
from agents.equilibrium.solver import Solver, exploitability
from agents.equilibrium.strategy import FILE, Strategy, make_strategy, save_strategy, tree_identity
from agents.equilibrium.traverse import Walker
from agents.equilibrium.tree_cache import load_tree
from cribbage_env.cards import NUM_RANKS, RANKS
from experiments.config import SolveConfig, UserError
from experiments.run_folder import (
    RUNS,
    TEMPORARY,
    StopRequest,
    config_text,
    differences,
    made_with,
    make_folder,
    new_session,
    read_sessions,
    replacing,
    write_sessions,
)
from experiments.solving import memory
from experiments.solving.pictures import draw_exploitability, draw_leads
from experiments.solving.progress import PROGRESS, Check, Progress
from experiments.solving.state import STATE, State, read_state, write_state
from experiments.solving.tables import SeatValues, hand_values, leads, leads_by_ranks, values_table

CONFIG, SESSIONS, SUMMARY = "config.yaml", "sessions.json", "summary.json"
SMALL, HAND_VALUES = "strategy-small.bin", "hand_values.csv"
EXPLOITABILITY_PICTURE, LEADS_PICTURE = "exploitability.png", "leads.png"
_FILES = (
    CONFIG, SESSIONS, PROGRESS, FILE, SMALL, HAND_VALUES, EXPLOITABILITY_PICTURE, LEADS_PICTURE, SUMMARY, STATE,
)  # fmt: skip

FREE_TO_CHANGE = (
    "name", "output", "threads", "modules", "exploitability", "iterations", "minutes", "check_every", "small",
)  # fmt: skip
"""Keys that may differ when a solve goes on: they say when it ends, not what is learned."""

_SECONDS_A_STATE = 60.0


class Solve:
    """A solve, new or going on.

    Args:
        config: of the solve.
        resume: go on from the state in the folder.
        overwrite: replace what is in the folder.

    Raises:
        UserError, AgentError: the folder, its state, the prior or the machine's memory is not as it must be. Nothing
            has been written or deleted then.
    """

    def __init__(self, config: SolveConfig, *, resume: bool = False, overwrite: bool = False) -> None:
        self.config = config
        self.folder = Path(config.output) if config.output is not None else RUNS / config.name
        self._began = time.monotonic() - time.process_time()  # with the time that the imports took
        self._seconds_before = self._cpu_before = 0.0
        with named_in("modules"):
            load_modules(config.modules)
        with named_in("prior"):
            self._prior = UNIFORM if config.prior == UNIFORM else make_agent(config.prior)
        state = self._read_state() if resume else None
        if not resume:
            _check_new(self.folder, overwrite)
        pack = [MAX_COPIES] * NUM_RANKS
        self._starter = None if config.starter is None else RANKS.index(config.starter)
        if self._starter is not None:
            pack[self._starter] -= 1
        self._pack = tuple(pack)
        _say("the tree of the play ...")
        self._tree = load_tree(config.cards, self._pack)
        memory.check(self._tree)
        self._joint, self._random = self._weights()
        self._solver = Solver(
            self._tree, training_weights(self._joint, config.random_share, self._random), config.threads
        )
        self._walker = Walker(self._tree, self._joint, config.threads)
        self._identity = tree_identity(self._tree, len(self._solver.counts))
        if state is not None:
            self._restore(state)
        make_folder(self.folder)
        if not resume:
            _clear(self.folder)
        self.strategy: Strategy | None = None
        """Once it is solved."""

    @property
    def iterations(self) -> int:
        """How many were made."""
        return self._solver.iterations

    def run(self, command: Sequence[str] = ()) -> bool:
        """Solve, and write what came out; returns False if Ctrl-C ended it earlier, with the state kept.

        Args:
            command: noted in ``sessions.json``.

        Raises:
            UserError: a file can't be written; the last state stays.
            KeyboardInterrupt: the second Ctrl-C.
        """
        try:
            with StopRequest() as stop:
                with replacing(self.folder / CONFIG) as temporary:
                    temporary.write_text(config_text(self.config), encoding="utf-8")
                sessions = read_sessions(self.folder / SESSIONS) if self.iterations else []
                sessions.append(new_session(command, iterations_before=self.iterations))
                write_sessions(self.folder / SESSIONS, sessions)
                progress = Progress(self.folder, self.iterations)
                if not self._iterate(progress, stop):
                    return False
                self._finish(progress)
                return True
        except BrokenPipeError:  # the reader of the output has gone: nothing of the folder's
            raise
        except OSError as error:
            raise UserError(
                f"can't write to {str(self.folder)!r}: {error.strerror or error}; what was written before is whole, "
                "go on with --resume"
            ) from None

    def report(self) -> str:
        """What came out, as text."""
        assert self.strategy is not None
        facts = self.strategy.facts
        return "\n".join(
            [
                f"{facts.iterations} iterations in {facts.seconds:.0f} seconds",
                f"the strategy as stored: exploitability {facts.exploitability:.6f} points a deal (best responses: "
                f"pone {facts.pone_best:+.5f}, dealer {facts.dealer_best:+.5f}), value {facts.value:+.5f} for pone",
                "written: " + ", ".join(str(self.folder / name) for name in self._written()),
                f"play it: equilibrium:path={self.folder / FILE}" if self._playable() else "",
            ]
        ).rstrip()

    def _weights(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The joint distribution of kept hands, and that of hands dealt at random."""
        random = dealt_weights(self.config.cards, self._pack)
        if isinstance(self._prior, str):
            return random, random
        _say(f"what {self.config.prior} throws from every six cards ...")
        return prior_weights(self._prior, self._starter, self.config.threads), random

    def _read_state(self) -> State:
        state = read_state(self.folder / STATE)
        found = differences(state.config, self.config.model_dump(mode="json"), FREE_TO_CHANGE)
        if found:
            raise UserError(
                f"the solve in {str(self.folder)!r} was started with another config: {found[0]}; resume it with its "
                "own, or start another one with --output"
            )
        return state

    def _restore(self, state: State) -> None:
        if state.tree != _plain(self._identity):
            raise UserError(
                f"the state in {str(self.folder)!r} belongs to another version of the tree: begin anew with --overwrite"
            )
        try:
            self._solver.restore(state.arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise UserError(
                f"the state in {str(self.folder)!r} is damaged ({error}): begin anew with --overwrite"
            ) from None
        self._seconds_before, self._cpu_before = state.seconds, state.cpu_seconds

    def _times(self) -> tuple[float, float]:
        """Seconds and CPU seconds since the beginning, over all sessions."""
        return (
            self._seconds_before + time.monotonic() - self._began,
            self._cpu_before + time.process_time(),
        )

    def _iterate(self, progress: Progress, stop: StopRequest) -> bool:
        """Iterate until it is enough; returns False if Ctrl-C ended it."""
        written = time.monotonic()
        unsaved = False
        with tqdm(
            total=self.config.iterations, initial=self.iterations, unit=" iterations", disable=not sys.stderr.isatty(),
            dynamic_ncols=True,
        ) as bar:  # fmt: skip
            while True:
                enough = self._enough(progress)
                due = self.iterations == 1 or time.monotonic() - written > _SECONDS_A_STATE  # something is there early
                if enough or stop.asked or (unsaved and due):
                    if unsaved:
                        self._write_state()
                    written, unsaved = time.monotonic(), False
                if enough or stop.asked:
                    return enough
                self._solver.iterate()
                unsaved = True
                bar.update(1)

    def _enough(self, progress: Progress) -> bool:
        """Whether to end now, with a check of the exploitability if one is due."""
        config, done = self.config, self.iterations
        if done == 0:
            return False
        spent = config.iterations is not None and done >= config.iterations
        spent = spent or (config.minutes is not None and self._times()[0] >= 60 * config.minutes)
        if not spent and done % config.check_every:
            return False
        check = progress.at(done)
        if check is None:
            best = exploitability(self._walker, self._solver.policy())
            check = Check(done, *self._times(), best.mean, best.pone, best.dealer)
            progress.add(check)
            tqdm.write(check.line(), file=sys.stdout)
            sys.stdout.flush()
        return spent or (config.exploitability is not None and check.exploitability <= config.exploitability)

    def _write_state(self) -> None:
        config = self.config.model_dump(mode="json")
        write_state(self.folder / STATE, State(self._solver.state(), config, _plain(self._identity), *self._times()))

    def _finish(self, progress: Progress) -> None:
        """Write the strategy, its tables and pictures."""
        _say("the strategy, its certificate and tables ...")
        config, policy = self.config, self._solver.policy()
        facts: dict[str, Any] = {
            "prior": config.prior,
            "starter": self._starter,
            "objective": config.objective,
            "random_share": config.random_share,
            "iterations": self.iterations,
            "seconds": progress.checks[-1].seconds,
            "made_with": made_with(),
        }
        strategy = make_strategy(self._walker, self._joint, policy, **facts)
        save_strategy(strategy, self.folder / FILE)
        small = None
        if config.small:
            small = make_strategy(self._walker, self._joint, policy, left_out=config.small, **facts)
            save_strategy(small, self.folder / SMALL)
        del policy
        self.strategy = strategy
        stored = strategy.policy(self._tree)
        values = hand_values(self._tree, self._joint, self._random, stored, config.threads)
        lead = leads(self._tree, stored)
        with replacing(self.folder / HAND_VALUES) as temporary:
            values_table(*values, lead).to_csv(temporary, index=False, float_format="%.6g", lineterminator="\n")
        self._draw(progress, values[0], lead)
        with replacing(self.folder / SUMMARY) as temporary:
            temporary.write_text(json.dumps(self._summary(strategy, small, values), indent=2) + "\n", encoding="utf-8")

    def _draw(self, progress: Progress, pone: SeatValues, lead: NDArray[np.float64]) -> None:
        what = f"hands as {self.config.prior} keeps them" if self.config.prior != UNIFORM else "hands dealt at random"
        if self.config.starter is not None:
            what += f", starter {self.config.starter}"
        with replacing(self.folder / EXPLOITABILITY_PICTURE) as temporary:
            draw_exploitability(
                temporary,
                [check.seconds for check in progress.checks],
                [check.exploitability for check in progress.checks],
                self.config.exploitability,
                f"The play, solved: {what}",
            )
        with replacing(self.folder / LEADS_PICTURE) as temporary:
            draw_leads(
                temporary,
                leads_by_ranks(pone.frequency, lead),
                f"What pone leads in the solved play, percent: {what}",
            )

    def _summary(
        self, strategy: Strategy, small: Strategy | None, values: tuple[SeatValues, SeatValues]
    ) -> dict[str, Any]:
        facts = asdict(strategy.facts)
        facts["tree"] = strategy.facts.tree._asdict()
        sums = [float(np.nansum(seat.frequency * seat.value)) for seat in values]
        seconds, cpu_seconds = self._times()
        return facts | {
            "exploitability": strategy.facts.exploitability,
            "mean_of_hand_values": {"pone": sums[0], "dealer": sums[1]},
            "small": None
            if small is None
            else {"exploitability": small.facts.exploitability, "bytes": (self.folder / SMALL).stat().st_size},
            "total_seconds": round(seconds, 1),
            "total_cpu_seconds": round(cpu_seconds, 1),
        }

    def _written(self) -> list[str]:
        return [name for name in _FILES if (self.folder / name).exists()]

    def _playable(self) -> bool:
        return self.config.cards == 4 and self.config.starter is None


def _plain(identity: Any) -> list[Any]:
    """A tree's identity as it comes out of JSON."""
    plain: list[Any] = json.loads(json.dumps(identity))
    return plain


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _check_new(folder: Path, overwrite: bool) -> None:
    """See that a folder can take a new solve.

    Raises:
        UserError: it has other things in it, or a solve that is not to be replaced.
    """
    above = next(one for one in (folder, *folder.absolute().parents) if one.exists())
    if not above.is_dir():
        raise UserError(f"{str(above)!r} is a file; choose another folder with --output")
    if not os.access(above, os.W_OK):  # said before the work, not after it
        raise UserError(f"can't write to the output folder {str(folder)!r}; choose another with --output")
    if not folder.is_dir():
        return
    there = sorted(path.name for path in folder.iterdir() if path.suffix != TEMPORARY)
    foreign = [name for name in there if name not in _FILES]
    if foreign:
        raise UserError(
            f"the folder {str(folder)!r} has {foreign[0]!r} in it, which is not of a solve; choose another with "
            "--output"
        )
    if not overwrite and {STATE, FILE} & set(there):
        raise UserError(
            f"there is a solve in {str(folder)!r}: go on with it (--resume), replace it (--overwrite), or choose "
            "another folder (--output)"
        )


def _clear(folder: Path) -> None:
    """Delete the files of an earlier solve."""
    for name in _FILES:  # the state last: a folder cleared by halves is still known as a solve's
        for path in (folder / name, folder / (name + TEMPORARY)):
            path.unlink(missing_ok=True)
