"""The tree of the play, built once for all tests here, in a cache of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.traverse import Walker
from agents.equilibrium.tree import Tree
from agents.equilibrium.tree_cache import load_tree


@pytest.fixture(scope="session", autouse=True)
def tree_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tests' cache of trees, shared by parallel workers."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trees"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CRIBBAGE_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture(scope="session")
def tree(tree_folder: Path) -> Tree:
    """The tree of four cards a hand."""
    return load_tree()


@pytest.fixture(scope="session")
def weights() -> NDArray[np.float64]:
    """A distribution of hands that is nothing special: uneven, not symmetric in the players, all possible pairs."""
    weights = dealt_weights() * np.random.default_rng(6).random((1820, 1820)) ** 2
    normalised: NDArray[np.float64] = weights / weights.sum()
    return normalised


@pytest.fixture(scope="session")
def walker(tree: Tree, weights: NDArray[np.float64]) -> Walker:
    """Walks with those weights."""
    return Walker(tree, weights)
