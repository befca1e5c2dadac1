"""What every command that writes results needs: files that are never half-written, where they came from, Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import signal
import subprocess
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from types import FrameType
from typing import Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

import yaml

import cribbage_env
from experiments.config import MADE_WITH, Config, UserError

TEMPORARY = ".tmp"
RUNS = Path("runs")
_REPOSITORY = Path(__file__).resolve().parent.parent
_locked: dict[tuple[int, int], int] = {}  # folders that this process holds, by device and inode: the open handles
_PACKAGES = ("numpy", "numba", "gymnasium", "scipy", "torch")


def add_output_arguments(
    parser: argparse.ArgumentParser, what: str, where: str, *, default: str | None = None, resume: bool = False
) -> None:
    """Add ``--output`` and ``--overwrite``, and ``--resume`` where a command can go on with what is in the folder.

    Args:
        parser: of the command.
        what: goes there, such as "results".
        where: the default, in words.
        default: what ``args.output`` is without ``--output``.
        resume: whether to add ``--resume``.
    """
    parser.add_argument("--output", metavar="FOLDER", default=default, help=f"the folder for {what} (default: {where})")
    existing = parser.add_mutually_exclusive_group()
    if resume:
        existing.add_argument("--resume", action="store_true", help=f"go on with the {what} in the folder")
    existing.add_argument("--overwrite", action="store_true", help=f"replace {what} in the folder")


def differences(before: Mapping[str, Any], now: Mapping[str, Any], free: Collection[str], path: str = "") -> list[str]:
    """What differs between two configs, in words, but for the keys (``section.key``) that are free to differ."""
    found = []
    for key in {**before, **now}:
        name = f"{path}{key}"
        old, new = before.get(key), now.get(key)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, free, f"{name}.")
        elif old != new and name not in free:
            found.append(f"{name} was {old!r}, now {new!r}")
    return found


def new_session(command: Sequence[str], **facts: Any) -> dict[str, Any]:
    """An entry of ``sessions.json``: what was started, when, and with which versions."""
    started = datetime.now(UTC).isoformat(timespec="seconds")
    return {"command": " ".join(command), "started": started, **facts, "made_with": made_with()}


def read_sessions(path: Path) -> list[dict[str, Any]]:
    """The entries of a ``sessions.json``; none if there is no such file, or nothing that can be read."""
    try:
        return [dict(session) for session in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return []


def write_sessions(path: Path, sessions: Sequence[Mapping[str, Any]]) -> None:
    """Write a ``sessions.json``."""
    with replacing(path) as temporary:
        temporary.write_text(json.dumps(list(sessions), indent=2) + "\n", encoding="utf-8")


def made_with() -> dict[str, Any]:
    """Versions, and the git commit of this project's checkout if it is run from one."""
    facts: dict[str, Any] = {"cribbage-lab": cribbage_env.__version__}
    commit = _git("rev-parse", "HEAD")
    if commit and Path(_git("rev-parse", "--show-toplevel") or "").resolve() == _REPOSITORY:
        facts["commit"] = commit
        facts["uncommitted_changes"] = bool(_git("status", "--porcelain", "--untracked-files=no"))
    facts["python"] = platform.python_version()
    for package in _PACKAGES:
        try:
            facts[package] = metadata.version(package)  # without importing it
        except metadata.PackageNotFoundError:
            continue
    return facts


def _git(*arguments: str) -> str | None:
    """What git says about the checkout; None without git or outside a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(_REPOSITORY), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def config_text(config: Config) -> str:
    """A config as YAML that the command can be given again, with :func:`made_with` (which loading skips)."""
    data = config.model_dump(mode="json") | {MADE_WITH: made_with()}
    text: str = yaml.safe_dump(data, sort_keys=False, allow_unicode=True)
    return text


def make_folder(folder: Path) -> None:
    """Create a folder for results, or see that the one that is there can be written to, and keep it for this process.

    Raises:
        UserError: it can't be written to, or another process writes to it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".writable{TEMPORARY}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        reason = error.strerror or str(error)
        raise UserError(f"can't write to the output folder {str(folder)!r}: {reason}; choose another") from None
    _lock(folder)


def _lock(folder: Path) -> None:
    """Hold the folder until this process ends, however it ends; UserError if another process holds it."""
    if fcntl is None:  # no such locks on this system
        return
    handle = os.open(folder, os.O_RDONLY)
    identity = os.fstat(handle).st_dev, os.fstat(handle).st_ino
    if identity in _locked:
        os.close(handle)
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise UserError(
            f"another command is writing to {str(folder)!r}: wait for it, or choose another folder with --output"
        ) from None
    except OSError:  # a file system without locks
        os.close(handle)
        return
    _locked[identity] = handle


def release_folder(folder: Path) -> None:
    """Let other processes write to a folder of :func:`make_folder` again."""
    try:
        status = folder.stat()
    except OSError:
        return
    handle = _locked.pop((status.st_dev, status.st_ino), None)
    if handle is not None:
        os.close(handle)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file as a whole: yields a temporary path beside ``path``, which replaces it if the block succeeds."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there as a whole or as it was before, also after a power cut."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


class StopRequest:
    """Ctrl-C as a request: within the block, the first one only sets :attr:`asked`, the second interrupts at once.

    Work that checks ``asked`` between two steps stops where everything is whole. Outside the main thread, and where
    the process was told to ignore interrupts, it does nothing.

    Args:
        said: whether the first one is answered with a line on standard error.
        ends: whether it is also asked by the signals with which schedulers and closed terminals end a process, SIGTERM
            and SIGHUP. Not for work with processes that inherit what is done at a signal.
    """

    def __init__(self, said: bool = True, ends: bool = False) -> None:
        self.asked = False
        self._said = said
        self._signals = [signal.SIGINT, *((signal.SIGTERM, signal.SIGHUP) if ends else ())]
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        if threading.current_thread() is threading.main_thread():
            for one in self._signals:
                usual = signal.default_int_handler if one == signal.SIGINT else signal.SIG_DFL
                if signal.getsignal(one) is usual:
                    self._before[one] = signal.signal(one, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for one, before in self._before.items():
            signal.signal(one, before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        if self._said:  # not by print(): the signal may have come in the middle of one
            with contextlib.suppress(OSError):  # the terminal may be gone
                os.write(2, b"\nstopping after this step (Ctrl-C again: at once)\n")
