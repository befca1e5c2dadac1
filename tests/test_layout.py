"""How the repository is laid out: which way imports point, that every config loads, what files may not contain."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import cribbage_env
from experiments import config
from experiments.train_config import TrainConfig

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("cribbage_env", "agents", "experiments")
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

# What each package may import of the project and of other people's packages.
OWN = {
    "cribbage_env": {"cribbage_env"},
    "agents": {"cribbage_env", "agents"},
    "experiments": {"cribbage_env", "agents", "experiments"},
}
ENV_NEEDS = {"numpy", "numba", "gymnasium"}
# Pictures are drawn with what reports are drawn with; playing without them must not wait for it, so: in functions.
ENV_DRAWS = {"cribbage_env/render_image.py": {"matplotlib", "PIL"}}
# What an extra is for as a whole: not imported by any other file. It defines a class of PettingZoo's.
ENV_EXTRA_FILES = {"cribbage_env/aec_env.py": {"pettingzoo"}}
IMPORT_NAMES = {"pyyaml": "yaml", "pillow": "PIL"}  # where they differ from the distribution's
EXTRAS = {"pettingzoo", "pyspiel", "nbclient", "nbformat", "dask", "distributed", "pyarrow"}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The top-level packages that a file imports, and whether it does so when it is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inner = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for branch in ast.walk(tree):
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING":  # only type checkers see it
            inner |= {id(node) for statement in branch.body for node in ast.walk(statement)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}: relative import"
            names = [node.module or ""]
        else:
            continue
        for name in names:
            yield name.split(".")[0], id(node) not in inner


def core_dependencies() -> set[str]:
    """The import names of what a plain install brings."""
    names = {re.match(r"[A-Za-z0-9_.-]+", one).group().lower() for one in PYPROJECT["project"]["dependencies"]}
    return {IMPORT_NAMES.get(name, name) for name in names}


def test_the_walk_sees_imports(tmp_path: Path) -> None:
    file = tmp_path / "sample.py"
    file.write_text(
        "import a.b\nfrom c.d import e\nif a:\n    import f\ndef g():\n    from h import i\n"
        "if TYPE_CHECKING:\n    import j\n"
    )
    assert dict(imports(file)) == {"a": True, "c": True, "f": True, "h": False, "j": False}
    assert len(SOURCES) > 20


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0]
    for name, at_load in imports(path):
        if name in PACKAGES:
            assert name in OWN[package], f"{package} must not import {name}"
        elif name in sys.stdlib_module_names or name in ENV_EXTRA_FILES.get(name_of(path), set()):
            continue
        elif name in ENV_DRAWS.get(name_of(path), set()):
            assert not at_load, f"import {name} in the functions that draw"
            assert name in core_dependencies(), f"{name} is no dependency in pyproject.toml"
        elif package == "cribbage_env":
            assert name in ENV_NEEDS, f"cribbage_env needs only {ENV_NEEDS}, not {name}"
        elif name in EXTRAS:
            assert not at_load, f"{name} comes with an extra: import it where it is used"
        else:
            assert name in core_dependencies(), f"{name} is no dependency in pyproject.toml"
        if name == "torch":
            assert package == "experiments" or path.parent == ROOT / "agents" / "neural", "torch in agents/neural only"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_no_file_imports_one_that_an_extra_is_for(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for file in ENV_EXTRA_FILES:
        module = file.removesuffix(".py").replace("/", ".")
        names = rf"(from|import) {re.escape(module)}\b|from cribbage_env import .*\b{module.split('.')[-1]}\b"
        code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith(">>>"))
        assert not re.search(names, code), f"{name_of(path)} imports {module}, which needs an extra"


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_kernels_go_through_the_projects_decorator(path: Path) -> None:
    """numba's own decorators cache machine code that an edit elsewhere makes stale."""
    if name_of(path) == "cribbage_env/jit.py":
        return
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module == "numba":
            names = {alias.name for alias in node.names}
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("numba", "nb"):
            names = {node.attr}
        else:
            continue
        assert not names & {"jit", "njit", "vectorize", "guvectorize", "cfunc", "stencil"}


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.parametrize(
    "load",
    [
        "import cribbage_env",
        "import agents; agents.make_agent('random'); agents.make_agent('greedy')",
        "import experiments.cli, experiments.tournament.evaluate",
    ],
)
def test_torch_is_loaded_only_where_it_is_needed(load: str) -> None:
    """It takes seconds: playing without a network must not wait for it."""
    heavy = run_python(f"{load}; import sys; print(*({{'torch', 'tensorboard'}} & set(sys.modules)))")
    assert heavy == ""


# --- Configs ------------------------------------------------------------------------------------------------

SCHEMAS = {"train": [TrainConfig], "tournament": [config.TournamentConfig], "solve": [config.SolveConfig]}
"""Schemas of the configs in each folder of configs/."""

CONFIGS = sorted((ROOT / "configs").rglob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_config_loads(path: Path) -> None:
    folder = path.relative_to(ROOT / "configs").parts[0]
    assert folder in SCHEMAS, f"configs/{folder}: name its schema in this test"
    problems = []
    for schema in SCHEMAS[folder]:
        try:
            config.load_config(path, schema)
        except config.UserError as error:
            problems.append(str(error))
    assert len(problems) < len(SCHEMAS[folder]), problems


@pytest.mark.parametrize("folder", ["train", "tournament"])
def test_the_quickstart_is_there(folder: str) -> None:
    assert ROOT / "configs" / folder / "quickstart.yaml" in CONFIGS


def test_configs_are_yaml_files_by_name() -> None:
    others = [path for path in (ROOT / "configs").rglob("*") if path.is_file() and path.suffix != ".yaml"]
    assert others == []


# --- Files --------------------------------------------------------------------------------------------------


def tracked_files() -> list[Path]:
    """All files of the repository; outside git, those of the packages and tests."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    else:
        folders = (*PACKAGES, "tests", "configs")
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    return [path for path in paths if path.is_file()]


def texts() -> Iterator[tuple[str, str]]:
    for path in tracked_files():
        try:
            yield name_of(path), path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # a picture or weights
            continue


def test_no_path_of_a_developers_machine() -> None:
    patterns = [r"/(?:home|Users)/[A-Za-z0-9_.-]+/", r"[A-Z]:\\+Users\\+", re.escape(str(ROOT)) + r"\b"]
    if len(ROOT.parent.parts) > 1:
        patterns.append(r"(?<![\w./-])" + re.escape(str(ROOT.parent)) + "/")
    if len(Path.home().parts) > 1:
        patterns.append(r"(?<![\w./-])" + re.escape(str(Path.home())) + "/")
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in texts()
        if name != name_of(Path(__file__))
        for number, line in enumerate(text.splitlines(), start=1)
        if any(re.search(pattern, line) for pattern in patterns)
    ]
    assert found == []


def test_no_large_files() -> None:
    """Anything above a megabyte belongs in a release, not in the repository; but tables and weights that agents need
    at once come with the packages, 5 MB of them in all, each with a command that makes it anew."""
    shipped = [path for path in tracked_files() if name_of(path).startswith(("agents/data/", "agents/neural/weights/"))]
    assert sum(path.stat().st_size for path in shipped) < 5 * 2**20
    others = set(tracked_files()) - set(shipped)
    assert [name_of(path) for path in others if path.stat().st_size > 2**20] == []


def test_one_version() -> None:
    version = PYPROJECT["project"]["version"]
    assert cribbage_env.__version__ == version
    assert str(yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"]) == version


def test_packages_are_typed() -> None:
    for package in PACKAGES:
        assert (ROOT / package / "py.typed").is_file()


def test_the_command_line() -> None:
    assert PYPROJECT["project"]["scripts"] == {"cribbage": "experiments.cli:main"}
