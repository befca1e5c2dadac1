"""The tree on disk: whole or built anew, whatever happened to the file."""

from __future__ import annotations

import json
import logging
import multiprocessing
import threading
from pathlib import Path

import numpy as np
import pytest

from agents.equilibrium import tree_cache
from agents.equilibrium.tree import Tree, build_tree
from agents.equilibrium.tree_cache import DamagedTreeError, cache_folder, load_tree, read_tree, write_tree

PACK = (0, 0, 3, 2, 2, 0, 0, 0, 0, 0, 2, 2, 0)


@pytest.fixture(scope="module")
def small() -> Tree:
    return build_tree(3, PACK)


@pytest.fixture
def file(small: Tree, tmp_path: Path) -> Path:
    path = tmp_path / "tree.bin"
    write_tree(small, path)
    return path


def same(one: Tree, other: Tree) -> bool:
    return all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(one, other, strict=True)
    )


def only_file(folder: Path) -> Path:
    files = list(folder.iterdir())
    assert len(files) == 1, files  # also: no temporary file is left
    return files[0]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was warned of. Notes of what is going on may come too, if a command in this process has asked for them."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_round_trip(small: Tree, file: Path) -> None:
    tree = read_tree(file)
    assert same(tree, small)
    assert only_file(file.parent) == file
    assert all(array.flags.c_contiguous and array.flags.aligned for array in tree)
    assert all(array.ctypes.data % array.itemsize == 0 for array in tree)


def test_changing_a_tree_does_not_change_the_file(small: Tree, file: Path) -> None:
    tree = read_tree(file)
    tree.mover[:] = 7
    assert same(read_tree(file), small)


def test_the_whole_tree(tree: Tree, tree_folder: Path) -> None:
    """The file is found again, and is the tree that is built."""
    assert same(load_tree(folder=tree_folder), tree)
    assert len([path for path in tree_folder.iterdir() if path.suffix == ".bin"]) == 1


@pytest.mark.slow
def test_the_whole_tree_is_what_is_built(tree: Tree) -> None:
    assert same(build_tree(), tree)


def test_any_byte_changed(small: Tree, file: Path) -> None:
    """No change of a byte gives another tree: it is found, or it is in the space between arrays."""
    content = file.read_bytes()
    header = content.index(b"\n") + 1
    rng = np.random.default_rng(0)
    places = [*range(header), *rng.integers(header, len(content), 400).tolist()]
    found = 0
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        try:
            tree = read_tree(file)
        except DamagedTreeError:
            found += 1
        else:
            assert same(tree, small), (place, content[max(place - 20, 0) : place + 20])
    assert found > 0.9 * len(places)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.3, 0.999])
def test_cut_off(file: Path, share: float) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: int(share * len(content))])
    with pytest.raises(DamagedTreeError):
        read_tree(file)


def test_one_byte_more(file: Path) -> None:
    with file.open("ab") as out:
        out.write(b"\0")
    with pytest.raises(DamagedTreeError, match=r"\d+ bytes, not \d+"):
        read_tree(file)


@pytest.mark.parametrize(
    "content",
    [
        b"{}\n",
        b"[]\n",
        b"null\n",
        b'"text"\n',
        b"\n",
        b"\xff\xfe\n",
        b"[" * 60_000 + b"\n",
        b"x" * 100_000,
        b'{"version": 2}\n',
        b'{"version": 2, "bytes": "many", "arrays": []}\n',
        b'{"version": 2, "bytes": 0, "arrays": []}\n',
        b'{"version": 2, "bytes": 0, "sum": 223132457, "arrays": []}\n',
    ],
)
def test_something_else(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tree.bin"
    path.write_bytes(content)
    with pytest.raises(DamagedTreeError):
        read_tree(path)


def test_another_version(small: Tree, file: Path) -> None:
    content = file.read_bytes()
    version = f'"version": {tree_cache.VERSION}'.encode()
    assert version in content
    file.write_bytes(content.replace(version, b'"version": 0', 1))
    with pytest.raises(DamagedTreeError, match=f"version 0, not {tree_cache.VERSION}"):
        read_tree(file)


@pytest.mark.parametrize("damage", ["version", "cut", "byte", "empty", "text"])
def test_built_anew_and_said(small: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    assert same(load_tree(3, PACK, tmp_path), small)
    path = only_file(tmp_path)
    content = path.read_bytes()
    path.write_bytes(
        {
            "version": content.replace(b'{"version": ', b'{"version": 7', 1),
            "cut": content[:-1000],
            "byte": content[:-2000] + bytes(byte ^ 1 for byte in content[-2000:]),
            "empty": b"",
            "text": b"hello\n",
        }[damage]
    )
    with caplog.at_level(logging.WARNING):
        assert same(load_tree(3, PACK, tmp_path), small)
    warned = warnings_of(caplog)
    assert len(warned) == 1
    assert str(path) in warned[0]
    assert "it is built anew" in warned[0]
    assert "\n" not in warned[0]
    assert only_file(tmp_path) == path
    caplog.clear()
    assert same(load_tree(3, PACK, tmp_path), small)
    assert not warnings_of(caplog)


def test_from_the_cache(small: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_tree(3, PACK, tmp_path)
    monkeypatch.setattr(tree_cache, "build_tree", lambda *_: pytest.fail("built again"))
    assert same(load_tree(3, PACK, tmp_path), small)


def test_trees_of_other_packs_stay(small: Tree, tmp_path: Path) -> None:
    load_tree(3, PACK, tmp_path)
    other = load_tree(2, PACK, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    assert not same(other, small)
    assert same(load_tree(3, PACK, tmp_path), small)


def test_trees_of_other_sources(small: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit of the rules or the builder makes a new file, and the old one goes."""
    load_tree(3, PACK, tmp_path)
    old = only_file(tmp_path)
    monkeypatch.setattr(tree_cache.jit, "source_digest", lambda *_: "edited")
    assert same(load_tree(3, PACK, tmp_path), small)
    assert only_file(tmp_path) != old


@pytest.mark.parametrize("kind", ["file", "below a file", "directory in the way"])
def test_nowhere_to_write(small: Tree, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str) -> None:
    """The tree is built in memory, and why is said."""
    folder = tmp_path / "cache"
    if kind == "directory in the way":
        load_tree(3, PACK, folder)
        path = only_file(folder)
        path.unlink()
        path.mkdir()
        (path / "x").touch()
    else:
        folder.write_text("a file")
        if kind == "below a file":
            folder = folder / "trees"
    with caplog.at_level(logging.WARNING):
        assert same(load_tree(3, PACK, folder), small)
    assert "the tree can't be kept in" in caplog.text
    assert all("\n" not in record.getMessage() for record in caplog.records)


def test_a_folder_without_rights(
    small: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As root may write anywhere, the refusal is made up."""

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tree_cache.Path, "open", refuse)
    assert same(load_tree(3, PACK, tmp_path), small)
    assert "the tree can't be kept in" in caplog.text
    assert "Permission denied" in caplog.text
    assert not list(tmp_path.iterdir())


def test_a_full_disk(
    small: Tree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tree_cache.os, "replace", full)
    assert same(load_tree(3, PACK, tmp_path), small)
    assert "No space left on device" in caplog.text
    assert not list(tmp_path.iterdir())


def _load(folder: Path, ready: object, results: object, number: int) -> None:
    ready.wait()  # type: ignore[attr-defined]
    results[number] = same(load_tree(3, PACK, folder), build_tree(3, PACK))  # type: ignore[index]


def test_threads_at_the_same_time(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for attempt in range(5):
        folder = tmp_path / str(attempt)
        ready, results = threading.Barrier(6), dict.fromkeys(range(6), False)
        threads = [threading.Thread(target=_load, args=(folder, ready, results, n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all(results.values())
        only_file(folder)
    assert not warnings_of(caplog)


@pytest.mark.slow
def test_processes_at_the_same_time(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager:
        ready, results = manager.Barrier(3), manager.dict()
        processes = [context.Process(target=_load, args=(tmp_path, ready, results, n)) for n in range(3)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        assert dict(results) == {0: True, 1: True, 2: True}
    only_file(tmp_path)


def test_where_trees_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CRIBBAGE_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("CRIBBAGE_CACHE_DIR")
    assert cache_folder() == tmp_path / "xdg" / "cribbage-lab"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "home" / ".cache" / "cribbage-lab"


def test_the_header_is_a_line_of_json(file: Path) -> None:
    header = json.loads(file.read_bytes().split(b"\n", 1)[0])
    assert [entry["name"] for entry in header["arrays"]] == list(Tree._fields)
