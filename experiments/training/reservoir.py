"""A memory of decisions that holds a uniform sample of all that were ever offered: reservoir sampling.

After J. S. Vitter, "Random sampling with a reservoir" (1985), algorithm R: the n-th decision offered (from 0) takes
place n while there is one; after that it replaces a random one of n + 1 places if that is inside the memory. What is
drawn for n follows from a key and n alone, so a run that goes on from a checkpoint keeps what it would have kept.

A candidate's features are kept as values within their slots, each in the smallest type that holds them: 26 bytes of a
play and 17 of a discard, with the known points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from agents.neural.features import FeatureSet
from cribbage_env.streams import combine_arrays
from experiments.training.streams import units

_TYPES = (np.uint8, np.uint16, np.uint32)


@dataclass(frozen=True)
class Remembered:
    """S decisions with R candidates, those of a decision next to each other."""

    features: NDArray[np.int32]
    """(R, K + 1), as :class:`agents.neural.features.Candidates` has them."""
    known: NDArray[np.float32]
    """(R, k)"""
    sizes: NDArray[np.int64]
    """(S,): how many candidates each decision has."""
    best: NDArray[np.int64]
    """(S,): which of them was the best, 0 for the first."""


class Reservoir:
    """The memory.

    Args:
        capacity: how many decisions it holds.
        features: of their candidates.
        most: how many candidates a decision has at most, up to 255.
        key: of the stream that draws what is kept.
    """

    def __init__(self, capacity: int, features: FeatureSet, most: int, key: int) -> None:
        self._capacity = capacity
        self._key = key
        self.offered = 0
        """How many decisions it was offered so far."""
        sizes = [values for count, values in features.slots.values() for _ in range(count)]
        self._base = np.array(
            [*np.cumsum([0, *sizes])[:-1], 0], np.int32
        )  # of each column; wide features have their own
        smallest = [next(one for one in _TYPES if size - 1 <= np.iinfo(one).max) for size in [*sizes, features.wide]]
        self._columns = {one: np.flatnonzero([this is one for this in smallest]) for one in _TYPES}
        self._values = {
            one: np.zeros((0, most, len(columns)), one) for one, columns in self._columns.items() if len(columns)
        }
        self._known = np.zeros((0, most, features.known), np.float32)
        self._numbers = np.zeros(0, np.int64)
        self._sizes = np.zeros(0, np.uint8)
        self._best = np.zeros(0, np.uint8)

    def __len__(self) -> int:
        return min(self.offered, self._capacity)

    @property
    def nbytes(self) -> int:
        """How many bytes :meth:`state` has, about."""
        rows = int(self._sizes[: len(self)].sum())
        widths = sum(one.dtype.itemsize * one.shape[2] for one in (*self._values.values(), self._known))
        return rows * widths + 10 * len(self)

    def offer(self, decisions: Remembered) -> None:
        """Take what is drawn of some more decisions."""
        numbers = self.offered + np.arange(len(decisions.sizes))
        self.offered += len(numbers)
        places = _places(self._key, numbers, self._capacity)
        kept = np.flatnonzero(places < self._capacity)
        last = np.unique(places[kept][::-1], return_index=True)[1]  # of those that take the same place
        kept = np.sort(kept[len(kept) - 1 - last])
        self._grow()
        places = places[kept]
        self._numbers[places] = numbers[kept]
        self._sizes[places] = decisions.sizes[kept]
        self._best[places] = decisions.best[kept]
        first = np.concatenate([[0], np.cumsum(decisions.sizes)])
        for at in range(self._known.shape[1]):
            has = decisions.sizes[kept] > at
            rows = first[kept[has]] + at
            values = decisions.features[rows] - self._base
            for one, columns in self._columns.items():
                if len(columns):
                    self._values[one][places[has], at] = values[:, columns]
            self._known[places[has], at] = decisions.known[rows]

    def draw(self, rng: np.random.Generator, size: int, linear: bool) -> NDArray[np.int64]:
        """Random places (size,), any alike; or the later a decision was offered, in proportion, the likelier."""
        places = rng.integers(len(self), size=size)
        if linear:  # the later of two: its share among those that were kept has the density 2 x, 0 <= x <= 1
            others = rng.integers(len(self), size=size)
            places = np.where(self._numbers[others] > self._numbers[places], others, places)
        return places

    def take(self, places: NDArray[np.int64]) -> Remembered:
        """The decisions in some places (S,), each from 0 to below ``len``."""
        sizes = self._sizes[places].astype(np.int64)
        has = np.arange(self._known.shape[1]) < sizes[:, None]
        features = np.empty((int(sizes.sum()), len(self._base)), np.int32)
        for one, columns in self._columns.items():
            if len(columns):
                features[:, columns] = self._values[one][places][has]
        features += self._base
        return Remembered(features, self._known[places][has], sizes, self._best[places].astype(np.int64))

    def state(self) -> dict[str, Any]:
        """All that :meth:`restore` needs, as in a checkpoint."""
        has = np.arange(self._known.shape[1]) < self._sizes[: len(self), None]
        return {
            "offered": self.offered,
            "numbers": torch.from_numpy(self._numbers[: len(self)].copy()),
            "sizes": torch.from_numpy(self._sizes[: len(self)].copy()),
            "best": torch.from_numpy(self._best[: len(self)].copy()),
            "known": torch.from_numpy(self._known[: len(self)][has]),
            "values": {
                one.__name__: torch.from_numpy(values[: len(self)][has].view(np.uint8))
                for one, values in self._values.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a :meth:`state`.

        Raises:
            ValueError, KeyError: it is that of another memory.
        """
        self.offered = int(state["offered"])
        self._grow()
        numbers, sizes, best, known = (state[name].numpy() for name in ("numbers", "sizes", "best", "known"))
        most = self._known.shape[1]
        has = np.arange(most) < sizes[:, None]
        if not (numbers.shape == sizes.shape == best.shape == (len(self),)) or sizes.max(initial=0) > most:
            raise ValueError("the memory has another size")
        if not (best < np.maximum(1, sizes)).all() or known.shape != (has.sum(), self._known.shape[2]):
            raise ValueError("the memory is of other decisions")
        self._numbers[: len(self)], self._sizes[: len(self)], self._best[: len(self)] = numbers, sizes, best
        self._known[: len(self)][has] = known
        for one, values in self._values.items():
            packed = state["values"][one.__name__].numpy()
            if packed.dtype != np.uint8 or packed.shape != (has.sum(), values.shape[2] * values.itemsize):
                raise ValueError("the memory is of other features")
            values[: len(self)][has] = packed.view(one)

    def _grow(self) -> None:
        """Make room for what was offered; twice the room each time, so that it is rarely copied."""
        room = len(self._sizes)
        if room < len(self):
            room = min(self._capacity, max(len(self), 2 * room))
            self._values = {one: _with_room(values, room) for one, values in self._values.items()}
            self._known = _with_room(self._known, room)
            self._numbers, self._sizes, self._best = (
                _with_room(values, room) for values in (self._numbers, self._sizes, self._best)
            )


def _places(key: int, numbers: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    """The places (S,) of the decisions with these numbers; those from ``capacity`` up are outside."""
    drawn = combine_arrays(np.full(len(numbers), key, np.uint64), numbers)
    return np.where(numbers < capacity, numbers, (units(drawn) * (numbers + 1)).astype(np.int64))


def _with_room(values: NDArray[Any], room: int) -> NDArray[Any]:
    grown = np.zeros((room, *values.shape[1:]), values.dtype)
    grown[: len(values)] = values
    return grown
