"""The notebooks run from top to bottom, each in a kernel of its own, and are stored without what runs leave behind."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
import resource
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import COMMANDS
from experiments.config import SolveConfig, TournamentConfig, load_config
from experiments.train_config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
CPU_SECONDS = 60.0
"""What a notebook may take, kernels of numba that are compiled for it included."""

by_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def cells(path: Path, kind: str) -> list[str]:
    return ["".join(cell["source"]) for cell in load(path)["cells"] if cell["cell_type"] == kind]


# --- How they are stored ------------------------------------------------------------------------------------


def test_the_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == [
        "01_first_look",
        "02_win_rates",
        "03_training_curves",
        "04_discards_and_pegging",
    ]
    others = {path.name for path in FOLDER.iterdir()} - {path.name for path in NOTEBOOKS} - {".ipynb_checkpoints"}
    assert others == set()


@by_notebook
def test_nothing_of_a_run_is_stored(path: Path) -> None:
    notebook = load(path)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert notebook["metadata"] == METADATA
    for cell in notebook["cells"]:
        assert cell["metadata"] == {}, cell["id"]
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [], f"{cell['id']}: clear all outputs before you commit"
            assert cell["execution_count"] is None, f"{cell['id']}: clear all outputs before you commit"
        else:
            assert "attachments" not in cell, cell["id"]


@by_notebook
def test_the_format(path: Path) -> None:
    """Valid, with ids that say what a cell is, and written so that a change of a line is a change of a line."""
    nbformat = pytest.importorskip("nbformat", reason="needs the extra 'notebooks'")
    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT))
    notebook = load(path)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert path.read_text(encoding="utf-8") == json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z][a-z0-9-]{1,30}", one) for one in ids)
    assert all("".join(cell["source"]).strip() for cell in notebook["cells"]), "an empty cell"


@by_notebook
def test_the_cells_are_clean(path: Path) -> None:
    for check in (["check"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, path], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@by_notebook
def test_it_reads_from_top_to_bottom(path: Path) -> None:
    """A title first; every stretch of code has words before it, and there is something to look at."""
    kinds = [cell["cell_type"] for cell in load(path)["cells"]]
    assert kinds[0] == kinds[-1] == "markdown"
    assert cells(path, "markdown")[0].startswith(f"# {path.stem[:2]} ")
    assert ("code", "code") not in list(pairwise(kinds))
    imported = [
        node
        for source in cells(path, "code")[1:]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    assert imported == [], "imports belong into the first cell"


@by_notebook
def test_what_the_words_name_is_there(path: Path) -> None:
    """Links, files, and the commands that the words say to run."""
    text = "\n".join(cells(path, "markdown"))
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert "://" in target or (FOLDER / target).exists(), target
    for name in re.findall(r"`([\w/]+/[\w./]+\.(?:csv|py|yaml))`", text):
        assert (ROOT / name).is_file(), name
    commands = re.findall(r"(?:^|`)cribbage (\w+)([^`\n]*)", text, re.MULTILINE)
    assert commands, "say which command is the full-size run, or what to try next"
    for command, rest in commands:
        assert command in COMMANDS, command
        for config in re.findall(r"configs/\S+", rest):
            schema = {"train": TrainConfig, "tournament": TournamentConfig, "solve": SolveConfig}[command]
            load_config(ROOT / config, schema, re.findall(r"\S+=\S+", rest))


# --- What they do -------------------------------------------------------------------------------------------


def execute(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Run a notebook in a fresh kernel whose working directory is ``folder``; returns its cells."""
    nbclient = pytest.importorskip("nbclient", reason="needs the extra 'notebooks'")
    nbformat = pytest.importorskip("nbformat", reason="needs the extra 'notebooks'")
    pytest.importorskip("ipykernel", reason="needs the extra 'notebooks'")
    home = folder.parent / f"{folder.name}-home"
    folder.mkdir()
    # Not the profile, start-up files or kernels of whoever runs the tests; and this checkout's packages.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR"):
        (home / name).mkdir(parents=True)
        monkeypatch.setenv(name, str(home / name))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(folder)}}
    # The time is for a machine that hangs, not one that is busy.
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    assert list(folder.iterdir()) == [], "it left something in its working directory"
    assert list((home / "TMPDIR").glob("tmp*")) == [], "it left a folder for temporary files"
    return list(notebook.cells)


def texts(cell: Any) -> str:
    """What a code cell printed or showed as text."""
    parts = []
    for output in cell.get("outputs", []):
        if output["output_type"] == "stream":
            parts.append(output["text"] if output["name"] == "stdout" else "")
        else:
            parts.append(output["data"].get("text/plain", ""))
    return "".join(parts)


def pictures(cell: Any) -> list[bytes]:
    return [
        base64.b64decode(output["data"]["image/png"])
        for output in cell.get("outputs", [])
        if output["output_type"] in ("display_data", "execute_result") and "image/png" in output["data"]
    ]


def draws(source: str) -> bool:
    return "figure, " in source or "render_image(" in source


@by_notebook
def test_it_runs(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = execute(path, tmp_path / "work", monkeypatch)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = [cell for cell in done if cell.cell_type == "code"]
    assert code
    for cell in code:
        assert len(pictures(cell)) == (1 if draws(cell.source) else 0), f"{cell.id}: pictures"
        for picture in pictures(cell):
            assert picture.startswith(b"\x89PNG")
            assert len(picture) > 5_000, f"{cell.id}: an empty picture"
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                assert not re.search(r"Warning|Error|Traceback", output.text), f"{cell.id}: {output.text}"
        assert not re.search(r"\bnan\b|\binf\b", texts(cell), re.IGNORECASE), f"{cell.id}: {texts(cell)}"
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent < CPU_SECONDS, f"{path.name} took {spent:.0f} s of processor time"


def untimed(text: str) -> str:
    """A text without times, speeds, temporary folders and addresses."""
    return re.sub(r"/\S+|\d[\d,.]* games/s|0x[0-9a-f]+|(?<=  )[\d,]+(?=\n)", "", text)


@pytest.mark.slow
@by_notebook
def test_it_says_the_same_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (execute(path, tmp_path / name, monkeypatch) for name in ("first", "second"))
    for one, other in zip(first, second, strict=True):
        assert untimed(texts(one)) == untimed(texts(other)), one.id
        assert pictures(one) == pictures(other), one.id
