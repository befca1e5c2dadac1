"""The state of a solve on disk: everything it needs to go on as if nothing had been."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.config import UserError
from experiments.run_folder import replacing

STATE = "state.npz"
_VERSION = 1


class State(NamedTuple):
    """What a file of a state holds."""

    arrays: dict[str, NDArray[Any]]
    """Of :meth:`agents.equilibrium.solver.Solver.state`."""
    config: dict[str, Any]
    tree: list[Any]
    """The tree's identity."""
    seconds: float
    """That the solve had taken."""
    cpu_seconds: float


def write_state(path: Path, state: State) -> None:
    """Write a state, whole or not at all."""
    about = {
        "version": _VERSION,
        "config": state.config,
        "tree": state.tree,
        "seconds": state.seconds,
        "cpu_seconds": state.cpu_seconds,
    }
    arrays: dict[str, Any] = {"about": np.frombuffer(json.dumps(about).encode(), np.uint8), **state.arrays}
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)
        file.flush()
        os.fsync(file.fileno())


def read_state(path: Path) -> State:
    """Read a state.

    Raises:
        UserError: there is none, it is damaged or of another version.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        about: Mapping[str, Any] = json.loads(arrays.pop("about").tobytes())
        if about["version"] != _VERSION:
            raise UserError(
                f"the state {str(path)!r} is of version {about['version']!r}, this is version {_VERSION}: begin anew "
                "with --overwrite"
            )
        return State(
            arrays, dict(about["config"]), _listed(about["tree"]), float(about["seconds"]), float(about["cpu_seconds"])
        )
    except FileNotFoundError:
        raise UserError(f"there is no solve to resume in {str(path.parent)!r}: start it without --resume") from None
    except OSError as error:
        raise UserError(f"can't read {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise UserError(
            f"the state {str(path)!r} is damaged ({' '.join(str(error).split())}): begin anew with --overwrite"
        ) from None


def _listed(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError("the tree's identity is no list")
    return value
