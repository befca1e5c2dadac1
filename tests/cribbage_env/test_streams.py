"""Random numbers as functions of keys."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from cribbage_env.streams import MAX_SEED, below, check_seed, combine, combine_arrays, fresh_seed, mix64, unit


def key_of(key: int, value: int) -> np.uint64:
    """``combine`` from Python, where Numba turns a uint64 into an int."""
    return np.uint64(combine(np.uint64(key), value))


def test_mix64_is_splitmix64() -> None:
    """The first outputs of SplitMix64 from seed 0, as published with its reference implementation."""
    gamma = 0x9E3779B97F4A7C15
    states = [(k * gamma) % 2**64 for k in range(3)]
    found = [int(mix64(np.uint64(state))) for state in states]
    assert found == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_types_and_ranges() -> None:
    for key in (0, 1, 2**63, MAX_SEED):
        assert 0 <= combine(np.uint64(key), -1) <= MAX_SEED
        assert 0.0 <= unit(np.uint64(key)) < 1.0
        assert 0 <= below(np.uint64(key), 52) < 52
    together = combine_arrays(np.full(3, MAX_SEED, np.uint64), np.arange(3))
    assert together.tolist() == [combine(np.uint64(MAX_SEED), k) for k in range(3)]


@pytest.mark.parametrize("sides", [2, 15, 52])
def test_below_is_uniform(sides: int) -> None:
    draws = [below(key_of(9, k), sides) for k in range(40_000)]
    assert chisquare(np.bincount(draws, minlength=sides)).pvalue > 1e-4


def test_unit_is_uniform() -> None:
    assert kstest([unit(key_of(9, k)) for k in range(40_000)], "uniform").pvalue > 1e-4


def test_neighbouring_keys_are_independent() -> None:
    """Seeds 0, 1, 2, ... and values 0, 1, 2, ... are what people use."""
    table = np.zeros((8, 8))
    for key in range(6_000):
        table[below(key_of(key, 0), 8), below(key_of(key + 1, 0), 8)] += 1
        table[below(key_of(key, 1), 8), below(key_of(key, 2), 8)] += 1
    assert chisquare(table.ravel()).pvalue > 1e-4


def test_seeds() -> None:
    assert check_seed(np.int64(5)) == 5
    assert check_seed(MAX_SEED) == MAX_SEED
    assert type(check_seed(np.uint64(5))) is int
    for wrong in (-1, 2**64):
        with pytest.raises(ValueError, match="my seed must lie between"):
            check_seed(wrong, "my seed")
    for kind in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match="seed must be an integer"):
            check_seed(kind)  # type: ignore[arg-type]
    assert len({fresh_seed() for _ in range(20)}) == 20
