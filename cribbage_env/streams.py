"""Random numbers as pure functions of keys.

Everything random in the project is a hash of what it is for (a game's seed and the number of a deal; a match's seed,
a game and a decision), never the next number of a shared stream. So nothing depends on batch sizes, processes or the
order in which things happen. The hash is the finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable
pseudorandom number generators", OOPSLA 2014).
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from cribbage_env.jit import inline_jit, jit

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31, _32, _11 = (np.uint64(n) for n in (30, 27, 31, 32, 11))
MAX_SEED = 2**64 - 1


@inline_jit
def mix64(x: int) -> np.uint64:
    """A bijective hash of 64 bits: uint64 -> uint64."""
    z = np.uint64(x) + _GAMMA
    z = (z ^ (z >> _30)) * _MIX_1
    z = (z ^ (z >> _27)) * _MIX_2
    return z ^ (z >> _31)


@inline_jit
def combine(key: int, value: int) -> np.uint64:
    """The key of ``value`` (any integer) within the stream of ``key``: uint64."""
    return mix64(np.uint64(key) ^ mix64(np.uint64(value)))


@inline_jit
def below(key: int, n: int) -> np.int64:
    """An integer 0..n-1 from one key, uniform to within n / 2**32."""
    return np.int64(((mix64(key) >> _32) * np.uint64(n)) >> _32)


@inline_jit
def unit(key: int) -> float:
    """A float64 in [0, 1) from one key (53 bits)."""
    return np.float64(mix64(key) >> _11) * (1.0 / 9007199254740992.0)


@jit
def _combine_arrays(keys: NDArray[np.uint64], values: NDArray[np.int64], out: NDArray[np.uint64]) -> None:
    for i in range(out.shape[0]):
        out[i] = combine(keys[i], values[i])


def combine_arrays(keys: NDArray[np.uint64], values: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``combine`` row by row: keys (B,) uint64, values (B,) integers -> (B,) uint64."""
    out = np.empty(len(keys), np.uint64)
    if keys.shape != values.shape or keys.ndim != 1 or keys.dtype != np.uint64:
        raise ValueError(f"keys must be (B,) uint64 and values (B,), got {keys.shape} {keys.dtype} and {values.shape}")
    _combine_arrays(keys, np.ascontiguousarray(values, np.int64), out)
    return out


def check_seed(seed: int, name: str = "seed") -> int:
    """``seed`` as a plain int if it is an integer from 0 to 2**64 - 1; ValueError or TypeError otherwise."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer):
        raise TypeError(f"{name} must be an integer, got {seed!r}")
    if not 0 <= int(seed) <= MAX_SEED:
        raise ValueError(f"{name} must lie between 0 and 2**64 - 1, got {seed}")
    return int(seed)


def fresh_seed() -> int:
    """A seed from the operating system, for callers that gave none (below 2**63, so that it fits everywhere)."""
    return secrets.randbits(63)
