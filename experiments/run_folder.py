"""What every command that writes results needs: files that are never half-written, where they came from, Ctrl-C."""

from __future__ import annotations

import os
import platform
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
_REPOSITORY = Path(__file__).resolve().parent.parent
_locked: dict[tuple[int, int], int] = {}  # folders that this process holds, by device and inode: the open handles
_PACKAGES = ("numpy", "numba", "gymnasium", "scipy", "torch")


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


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Write a file as a whole: yields a temporary path beside ``path``, which replaces it if the block succeeds."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


class StopRequest:
    """Ctrl-C as a request: within the block, the first one only sets :attr:`asked`, the second interrupts at once.

    Work that checks ``asked`` between two steps stops where everything is whole. Outside the main thread, and where
    the process was told to ignore interrupts, it does nothing.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before: Any = None

    def __enter__(self) -> StopRequest:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._on_interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        # not print(): the signal may have come in the middle of one
        os.write(2, b"\nstopping after this step (Ctrl-C again: at once)\n")
