"""Where blocks are played when not in this process: in processes of this machine, or on the workers of Dask.

A pool takes blocks and gives futures. What a worker needs to know of the tournament goes with every block and is kept
by the worker, so workers may come and go. Ctrl-C is this process's business alone: workers don't see it, they are asked
to stop, and they notice when the process that asked them to play is gone.
"""

from __future__ import annotations

import logging
import os
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from experiments.config import TournamentConfig, UserError
from experiments.tournament.plan import Block
from experiments.tournament.worker import Played, Setup, play_block

_ONE_THREAD = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")
_SECONDS_BETWEEN_LOOKS = 0.5  # of a worker for its parent
_CONNECT_SECONDS = 10
_SECONDS_BETWEEN_COUNTS = 2.0  # of Dask's workers, which may come and go


class Future(Protocol):
    """What :mod:`concurrent.futures` and Dask have in common."""

    def result(self) -> Played | None:
        """What was played; raises what the worker raised."""

    def add_done_callback(self, callback: Callable[[Any], object]) -> object:
        """Call it with the future when it is done."""


class WorkerDiedError(Exception):
    """A worker has died, and with it the block that it was given; :meth:`Pool.submit` works again."""


class PoolLostError(UserError):
    """The pool is gone for good, with all blocks that it was given."""


class Pool(Protocol):
    """A place where blocks are played. Any call may raise :class:`PoolLostError`."""

    def at_once(self) -> int:
        """How many blocks are played at the same time, now."""

    def submit(self, block: Block) -> Future:
        """Have a block played."""

    def result(self, future: Future) -> Played | None:
        """What came of a block that is done.

        Raises:
            WorkerDiedError: its worker died.
            AgentError: an agent broke its contract.
        """

    def ask_to_stop(self) -> None:
        """Have the blocks under way end early, with what is finished of them."""

    def close(self) -> None:
        """End the workers, or leave those that others started; blocks under way are dropped."""


@contextmanager
def open_pool(config: TournamentConfig) -> Iterator[Pool]:
    """The pool that a config asks for."""
    setup = Setup.of(config)
    pool = _DaskPool(setup, config.scheduler) if config.scheduler is not None else _LocalPool(setup, config.jobs)
    try:
        yield pool
    finally:
        pool.close()


def check_backend(config: TournamentConfig) -> None:
    """See that the workers that a config asks for can be reached; UserError if not."""
    if config.backend == "dask":
        with open_pool(config):
            pass


# Processes of this machine


@dataclass(frozen=True)
class _AskedHere:
    """The question of a worker process whether it is to stop: it is when a file is there."""

    path: str

    def __call__(self) -> bool:
        return os.path.exists(self.path)


class _LocalPool:
    """Processes started by joblib's loky, which work from notebooks and scripts too."""

    def __init__(self, setup: Setup, jobs: int) -> None:
        self._setup = setup
        self._jobs = jobs
        self._folder = tempfile.TemporaryDirectory(prefix="cribbage-")
        self._asked = _AskedHere(str(Path(self._folder.name) / "stop"))
        self._executor: Any = None
        self._given: set[Future] = set()  # to the executor that there is now

    def at_once(self) -> int:
        return self._jobs

    def submit(self, block: Block) -> Future:
        from joblib.externals.loky import ProcessPoolExecutor

        with _uninterrupted():
            if self._executor is None:
                self._executor = ProcessPoolExecutor(
                    self._jobs,
                    initializer=_begin_worker,
                    initargs=(os.getpid(),),
                    env=dict.fromkeys(_ONE_THREAD, "1"),
                )
            future: Future = self._executor.submit(play_block, self._setup, block, self._asked)
        self._given.add(future)
        return future

    def result(self, future: Future) -> Played | None:
        from joblib.externals.loky import BrokenProcessPool, CancelledError
        from joblib.externals.loky.process_executor import ShutdownExecutorError

        try:
            return future.result()
        except (BrokenProcessPool, CancelledError, ShutdownExecutorError) as error:
            if future in self._given:  # one process less breaks the executor, with all that was given to it
                self._end()
            raise WorkerDiedError from error
        finally:
            self._given.discard(future)

    def ask_to_stop(self) -> None:
        Path(self._asked.path).touch()

    def close(self) -> None:
        self._end()
        self._folder.cleanup()

    def _end(self) -> None:
        if self._executor is not None:
            self._executor.shutdown(wait=True, kill_workers=True)
            self._executor = None
            self._given.clear()


def _begin_worker(parent: int) -> None:
    """In a new process: Ctrl-C on a terminal reaches all its processes, but only the first one answers it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent is gone, killed perhaps: nobody else would."""
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Put Ctrl-C off, for this process and for those that it starts: they would end in the middle of their imports."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Dask


@dataclass(frozen=True)
class _AskedByDask:
    """The same question on a worker of Dask, which has no disk or parent in common with the process that asks."""

    event: str

    def __call__(self) -> bool:
        from distributed import Event

        return bool(Event(self.event).is_set())


class _DaskPool:
    """The workers of a Dask scheduler. Dask itself plays a block again whose worker died."""

    def __init__(self, setup: Setup, scheduler: str) -> None:
        try:
            from distributed import Client, Event
            from distributed.comm.addressing import parse_address, parse_host_port
        except ImportError:
            raise UserError(
                "backend: dask needs Dask, which is not installed: pip install 'cribbage-lab[dask]'"
            ) from None
        self._scheduler = scheduler
        for name in ("distributed", "distributed.client", "tornado"):  # they log tracebacks of what is told in a line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        try:
            parse_host_port(parse_address(scheduler)[1])  # a client of no address would say so once more as it dies
        except ValueError as error:
            raise UserError(f"scheduler: an address looks like tcp://host:8786, got {scheduler!r} ({error})") from None
        try:
            self._client = Client(scheduler, timeout=_CONNECT_SECONDS, set_as_default=False)
        except Exception as error:  # what it raises depends on the kind of address
            raise UserError(
                f"scheduler: can't reach a Dask scheduler at {scheduler!r}: {' '.join(str(error).split())}"
            ) from None
        self._setup = setup
        self._run = uuid.uuid4().hex
        self._event = Event(f"cribbage-stop-{self._run}", client=self._client)
        self._asked = _AskedByDask(self._event.name)
        self._submitted = 0
        self._threads = 0
        self._next_count = 0.0
        if not self.at_once():
            self.close()
            raise UserError(f"scheduler: the Dask scheduler at {scheduler!r} has no workers; start some first")

    def at_once(self) -> int:
        if time.monotonic() >= self._next_count:
            with self._connected():
                self._threads = sum(self._client.nthreads().values())
            self._next_count = time.monotonic() + _SECONDS_BETWEEN_COUNTS
        return self._threads

    def submit(self, block: Block) -> Future:
        self._submitted += 1
        key = f"cribbage-{self._run}-{self._submitted}-match-{block.match}-pairs-{block.first}-{block.pairs}"
        with self._connected():
            future: Future = self._client.submit(play_block, self._setup, block, self._asked, key=key, pure=False)
        return future

    def result(self, future: Future) -> Played | None:
        from distributed.scheduler import KilledWorker

        with self._connected():
            try:
                return future.result()
            except KilledWorker as error:
                raise WorkerDiedError from error

    def ask_to_stop(self) -> None:
        with self._connected():
            self._event.set()

    def close(self) -> None:
        with suppress(Exception):  # of a scheduler that is gone
            self._client.close(timeout=_CONNECT_SECONDS)

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Say so if the scheduler is gone."""
        from distributed import CancelledError

        try:
            yield
        except (OSError, TimeoutError, CancelledError) as error:  # an agent's own are wrapped in AgentErrors
            reason = " ".join(str(error).split()) or type(error).__name__
            raise PoolLostError(
                f"scheduler: lost the Dask scheduler at {self._scheduler!r} ({reason}); what was finished is kept, and "
                "the same command with --resume goes on"
            ) from None
