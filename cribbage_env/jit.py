"""One compiler decorator for every kernel: numba's ``njit`` with a disk cache that cannot go stale.

numba's own ``cache=True`` looks only at the file that a function is written in. Edit a function it calls, or a constant
it froze, in another file, and the old machine code is served. Here the cache folder is named after a digest of the
sources that a kernel can reach: this package, the top-level package of the kernel (or its file, outside packages), and
the packages of the kernels that its module imports. An edit means a new folder.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numba.core.config
from numba.core.dispatcher import Dispatcher

_PACKAGE = Path(__file__).resolve().parent
_PREFIX = "kernels-"
_DIGEST_LENGTH = 16
_KEPT_GENERATIONS = 4  # cache folders of older sources kept beside the newest


@functools.cache
def source_digest(*sources: Path) -> str:
    """Hex digest of ``sources``, files or folders with all their Python files, by path and content."""
    digest = hashlib.sha256(numba.__version__.encode())
    for root in sources:
        for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
            try:
                content = file.read_bytes()
            except FileNotFoundError:  # an editor's passing file
                continue
            digest.update(str(file.relative_to(root.parent)).encode() + b"\0")
            digest.update(hashlib.sha256(content).digest())
    return digest.hexdigest()[:_DIGEST_LENGTH]


def _source_of(func: Callable[..., Any]) -> Path:
    """The folder of the top-level package that ``func`` belongs to; outside packages, its file."""
    file = Path(inspect.getfile(func)).resolve()
    folder = file.parent
    if not (folder / "__init__.py").exists():
        return file
    while (folder.parent / "__init__.py").exists():
        folder = folder.parent
    return folder


def _used_sources(func: Callable[..., Any], source: Path) -> list[Path]:
    """The sources of kernels that ``func``'s module has imported from other packages than its own and this one."""
    kernels = (value for value in func.__globals__.values() if isinstance(value, Dispatcher))
    return sorted({_source_of(kernel.py_func) for kernel in kernels} - {source, _PACKAGE})


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


@functools.cache
def cache_folder(source: Path, *used: Path) -> Path | None:
    """Where machine code of ``source`` (a package's folder, or a file) is cached, or None if nowhere can be written.

    ``used`` are the sources of what it calls in other packages, besides this one.
    ``NUMBA_CACHE_DIR`` if set, else ``__pycache__`` beside the sources, else the user's cache folder.
    """
    given = os.environ.get("NUMBA_CACHE_DIR")
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "cribbage-lab"
    beside = source.parent if source.is_file() else source
    bases = [Path(given)] if given else [beside / "__pycache__", user_cache]
    for base in bases:
        target = base / f"{_PREFIX}{source.stem}-{source_digest(source, _PACKAGE, *used)}"
        if _writable(target):
            _forget_old(base, f"{_PREFIX}{source.stem}-", target)
            return target
    return None


def _forget_old(base: Path, prefix: str, current: Path) -> None:
    """Delete all but the newest few cache folders of earlier sources."""
    try:
        old = [path for path in base.glob(prefix + "?" * _DIGEST_LENGTH) if path != current]
        old.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:  # another process is tidying up
        return
    for path in old[_KEPT_GENERATIONS:]:
        shutil.rmtree(path, ignore_errors=True)


def jit(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """``numba.njit`` for this project's kernels: releases the GIL, cached on disk under a key of all sources.

    Used as ``@jit`` or ``@jit(parallel=True)``. Where no cache folder can be written, kernels are compiled anew in
    every process. Kernels must not call themselves: numba 0.68 crashes on recursive code from its cache.
    """
    if func is None:
        return functools.partial(jit, **options)
    source = _source_of(func)
    folder = cache_folder(source, *_used_sources(func, source))
    options = {"nogil": True, **options}
    if folder is None:
        return numba.njit(**options)(func)
    settings: Any = numba.core.config  # CACHE_DIR is set from outside its module
    before = settings.CACHE_DIR
    settings.CACHE_DIR = str(folder)
    try:
        return numba.njit(cache=True, **options)(func)
    finally:
        settings.CACHE_DIR = before


def inline_jit(func: Callable[..., Any]) -> Any:
    """:func:`jit` for a small kernel that allocates nothing: LLVM inlines it wherever it is called, without counting
    references to its arrays (calls with array arguments and atomic counters cost more than the work in between)."""
    return jit(func, forceinline=True, _nrt=False)
