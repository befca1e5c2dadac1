"""The cache of compiled kernels: never stale, used again when nothing changed, and not needed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

import cribbage_env
from cribbage_env import jit

# Two kernels: one of the package (write_mask in observation.py, which calls playable in engine.py, which uses a
# constant of scoring.py) and one of a user's file that calls the package's. A player holds an ace and three kings at a
# count of 26.
PROGRAM = """
import json
import numpy as np
from numba.core import event
from cribbage_env import engine, observation
from mine import plays

row = np.zeros(engine.STATE_SIZE, np.int16)
row[engine.PHASE] = engine.PLAY
row[engine.COUNT] = 26
row[engine.KEPT : engine.KEPT + 4] = 0, 20, 49, 50
row[engine.LEFT] = 15
mask = np.zeros(engine.NUM_ACTIONS, np.int8)
with event.install_recorder("numba:compile") as recorder:
    observation.write_mask(row, 0, mask)
    bits = plays(row)
print(json.dumps({"mask": mask[15:].tolist(), "bits": int(bits), "compiled": len(recorder.buffer) // 2}))
"""

USERS_FILE = """
from cribbage_env.engine import playable
from cribbage_env.jit import jit

@jit
def plays(row):
    return playable(row, 0)
"""


class Run(NamedTuple):
    mask: list[int]
    bits: int
    compiled: int


class Copy:
    """A copy of the package with a user's module beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.package = folder / "cribbage_env"
        source = Path(cribbage_env.__file__).parent
        shutil.copytree(source, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / "mine.py").write_text(USERS_FILE)
        (folder / "program.py").write_text(PROGRAM)

    def start(self, **variables: str) -> subprocess.Popen[str]:
        """Start the program in a process of its own."""
        environment = {key: value for key, value in os.environ.items() if key != "NUMBA_CACHE_DIR"}
        environment |= {"PYTHONPATH": str(self.folder), "XDG_CACHE_HOME": str(self.folder / "cache"), **variables}
        return subprocess.Popen(
            [sys.executable, str(self.folder / "program.py")],
            env=environment,
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str]) -> Run:
        """What the program printed."""
        output, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
        assert not errors
        return Run(**json.loads(output))

    def run(self, **variables: str) -> Run:
        """Run the program."""
        return self.finish(self.start(**variables))

    def edit(self, file: str, old: str, new: str) -> None:
        """Change the source."""
        path = self.folder / file
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    def cached(self) -> list[Path]:
        """All folders of compiled kernels below the copy."""
        return sorted(path for path in self.folder.rglob("kernels-*") if path.is_dir())


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_an_edit_elsewhere_is_noticed(copy: Copy) -> None:
    """The trap: numba looks only at a kernel's own file, not at what it calls or froze from others."""
    first = copy.run()
    assert (first.mask, first.bits) == ([1, 0, 0, 0], 1)
    assert first.compiled > 0
    again = copy.run()
    assert again == first._replace(compiled=0), "nothing changed: nothing is compiled again"

    # A six and kings at a count of 26: to lay the six takes the first edit, to lay the kings both.
    copy.edit("cribbage_env/scoring.py", "MAX_COUNT = 31", "MAX_COUNT = 32")  # a constant
    edited = copy.run()
    assert (edited.mask, edited.bits) == ([1, 1, 0, 0], 3)
    assert edited.compiled > 0
    copy.edit("cribbage_env/engine.py", "<= room) << slot", "<= room + 4) << slot")  # a callee
    copy.edit("mine.py", "playable(row, 0)", "playable(row, 0) + 100")
    edited = copy.run()
    assert (edited.mask, edited.bits) == ([1, 1, 1, 1], 115)

    copy.edit("mine.py", "playable(row, 0) + 100", "playable(row, 0)")
    copy.edit("cribbage_env/engine.py", "<= room + 4) << slot", "<= room) << slot")
    copy.edit("cribbage_env/scoring.py", "MAX_COUNT = 32", "MAX_COUNT = 31")
    assert copy.run() == again, "as before: the first cache serves again"


def test_without_a_place_to_write(copy: Copy) -> None:
    """Everything works, only anew in every process."""
    blocked = copy.folder / "a_file"
    blocked.write_text("no folder")
    for folder in (copy.package, copy.folder):
        (folder / "__pycache__").write_text("no folder either")
    for variables in ({"NUMBA_CACHE_DIR": str(blocked / "cache")}, {"XDG_CACHE_HOME": str(blocked)}):
        result = copy.run(**variables)
        assert (result.mask, result.bits) == ([1, 0, 0, 0], 1)
        assert result.compiled > 0
        assert copy.cached() == []


def test_where_the_cache_is(copy: Copy) -> None:
    chosen = copy.folder / "chosen"
    copy.run(NUMBA_CACHE_DIR=str(chosen))
    assert {path.parent for path in copy.cached()} == {chosen}

    copy.run()
    places = {path.parent for path in copy.cached()} - {chosen}
    assert places == {copy.package / "__pycache__", copy.folder / "__pycache__"}

    for place in places:
        shutil.rmtree(place)
        place.write_text("no folder")
    assert copy.run().compiled > 0
    assert {path.parent for path in copy.cached()} - {chosen} == {copy.folder / "cache" / "cribbage-lab"}
    assert copy.run().compiled == 0


def test_two_processes_at_once(copy: Copy) -> None:
    processes = [copy.start() for _ in range(2)]
    results = [copy.finish(process) for process in processes]
    assert [(one.mask, one.bits) for one in results] == [([1, 0, 0, 0], 1)] * 2
    assert copy.run().compiled == 0


def test_old_generations_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernels.py"
    source.write_text("x = 1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    for age in range(10):
        old = tmp_path / "cache" / f"kernels-kernels-{age:016x}"
        old.mkdir(parents=True)
        os.utime(old, (1000 + age, 1000 + age))
    other = tmp_path / "cache" / f"kernels-other-{0:016x}"
    other.mkdir()
    folder = jit.cache_folder.__wrapped__(source)
    assert folder is not None
    left = sorted(path.name for path in (tmp_path / "cache").iterdir())
    assert left == sorted([folder.name, other.name, *(f"kernels-kernels-{age:016x}" for age in range(6, 10))])


def test_names_that_begin_alike_are_kept_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tidying up for ``mine.py`` leaves the cache of ``mine-too.py`` alone."""
    source = tmp_path / "mine.py"
    source.write_text("x = 1")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    others = [tmp_path / "cache" / f"kernels-mine-too-{k:016x}" for k in range(9)]
    for path in others:
        path.mkdir(parents=True)
    assert jit.cache_folder.__wrapped__(source) is not None
    assert all(path.exists() for path in others)
