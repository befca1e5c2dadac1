"""The tree of the play on disk: built once, then memory-mapped.

The file has the arrays of :class:`agents.equilibrium.tree.Tree` one after another, behind a line of JSON that says
where they are and what they sum to. It is named after the sources of the rules engine and the builder, so that an edit
there makes a new file.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from agents.equilibrium.hands import MAX_CARDS
from agents.equilibrium.tree import FULL_PACK, Tree, build_tree
from cribbage_env import jit

VERSION = 2
_ALIGNMENT = 64
_LOG = logging.getLogger(__name__)


class DamagedTreeError(ValueError):
    """A file that holds no whole tree of this version."""


def cache_folder() -> Path:
    """Where trees are kept: ``CRIBBAGE_CACHE_DIR`` if set, else ``cribbage-lab`` in the user's cache folder."""
    given = os.environ.get("CRIBBAGE_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "cribbage-lab"


def _sum(entries: list[dict[str, Any]]) -> int:
    """The checksum of what the header says about the arrays."""
    return zlib.crc32(json.dumps(entries).encode())


def write_tree(tree: Tree, path: Path) -> None:
    """Write a tree to a file, whole or not at all."""
    entries, at = [], 0
    for name, array in tree._asdict().items():
        entries.append(
            {"name": name, "dtype": array.dtype.str, "shape": array.shape, "at": at, "sum": zlib.crc32(array.data)}
        )
        at += -(-array.nbytes // _ALIGNMENT) * _ALIGNMENT
    header = json.dumps({"version": VERSION, "bytes": at, "sum": _sum(entries), "arrays": entries}).encode()
    header += b" " * (-(len(header) + 1) % _ALIGNMENT) + b"\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.tmp")  # others may write the same tree now
    try:
        with temporary.open("wb") as file:
            file.write(header)
            for array in tree:
                file.write(array.data)
                file.write(bytes(-array.nbytes % _ALIGNMENT))
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_tree(path: Path) -> Tree:
    """Map a file into memory as a tree.

    Raises:
        DamagedTreeError: another version, a wrong checksum, or not a tree at all.
        FileNotFoundError: no such file.
    """
    with path.open("rb") as file:
        line = file.readline(1 << 16)
    try:
        header = json.loads(line)
        if header["version"] != VERSION:
            raise DamagedTreeError(f"version {header['version']}, not {VERSION}")
        if _sum(header["arrays"]) != header["sum"]:
            raise DamagedTreeError("a wrong checksum of its header")
        if path.stat().st_size != len(line) + header["bytes"]:
            raise DamagedTreeError(f"{path.stat().st_size} bytes, not {len(line) + header['bytes']}")
        # copy on write: the arrays count as writable, so that kernels are not compiled a second time for them
        content = np.memmap(path, np.uint8, "c", offset=len(line))
        arrays = {}
        for entry in header["arrays"]:
            dtype = np.dtype(entry["dtype"])
            size = int(np.prod(entry["shape"], dtype=np.int64)) * dtype.itemsize
            part = np.asarray(content[entry["at"] : entry["at"] + size])
            if zlib.crc32(part.data) != entry["sum"]:
                raise DamagedTreeError(f"a wrong checksum of {entry['name']}")
            arrays[entry["name"]] = part.view(dtype).reshape(entry["shape"])
        return Tree(**arrays)
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        if isinstance(error, DamagedTreeError):
            raise
        raise DamagedTreeError(f"no tree: {error}") from error


def load_tree(cards: int = MAX_CARDS, pack: tuple[int, ...] = FULL_PACK, folder: Path | None = None) -> Tree:
    """The tree of :func:`agents.equilibrium.tree.build_tree`, from the cache if it is there.

    That it is built is noted in the log; with a warning, if a file is damaged or of another version. Where nothing can
    be written, the tree is built in memory.
    """
    package = Path(__file__).resolve().parent
    sources = jit.source_digest(package / "tree.py", package / "hands.py", Path(jit.__file__).resolve().parent)
    what = hashlib.sha256(repr((cards, pack)).encode()).hexdigest()[:8]
    path = (cache_folder() if folder is None else folder) / f"play-tree-{sources}-{what}.bin"
    try:
        return read_tree(path)
    except FileNotFoundError:
        _LOG.info("building the tree of the play (once, a few seconds): %s", path)
    except (DamagedTreeError, OSError) as error:
        _LOG.warning("the tree in %s has %s; it is built anew", path, error)
    tree = build_tree(cards, pack)
    try:
        write_tree(tree, path)
    except OSError as error:
        _LOG.warning("the tree can't be kept in %s: %s", path, error.strerror or error)
        return tree
    try:
        tree = read_tree(path)  # so that its memory is shared
    except (DamagedTreeError, OSError) as error:  # somebody else has tidied up
        _LOG.warning("the tree written to %s can't be read: %s", path, error)
        return tree
    for old in path.parent.glob(f"play-tree-*-{what}.bin"):
        if old != path:
            with contextlib.suppress(OSError):  # somebody else's
                old.unlink()
    return tree
