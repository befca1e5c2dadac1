"""What the report draws of a match beyond its summary: how the win rate went, and by how much games were won."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import numpy as np
from numpy.typing import NDArray

from experiments.tournament.match import Games

_RATIO = 1.06  # of the numbers of pairs at which the course is kept: 160 of them up to 10,000 pairs, 340 up to 10**9


class MatchCourse:
    """The course of a match, gathered block by block; of a million games it keeps no more than of a thousand.

    Args:
        target: the score that wins.
    """

    def __init__(self, target: int) -> None:
        self.target = target
        self.differences = np.zeros(2 * target + 1, np.int64)
        """How many games ended with a score difference (A's score minus B's) of ``index - target``."""
        self._kept: list[tuple[int, int, int]] = []
        self._now = np.zeros(3, np.int64)  # pairs in which A won both games, one, none
        self._marks = _marks()
        self._next = next(self._marks)

    def add(self, games: Games) -> None:
        """Take in games, whole pairs in order."""
        scores = games["scores"].astype(np.int64)
        self.differences += np.bincount(scores[:, 0] - scores[:, 1] + self.target, minlength=2 * self.target + 1)
        wins = (games["winner"] == 0).reshape(-1, 2).sum(axis=1)
        counts = np.cumsum(wins[:, None] == (2, 1, 0), axis=0) + self._now
        done = int(self._now.sum())
        while self._next <= done + len(wins):
            both, one, none = counts[self._next - done - 1].tolist()
            self._kept.append((both, one, none))
            self._next = next(self._marks)
        if len(counts):
            self._now = counts[-1]

    @property
    def counts(self) -> NDArray[np.int64]:
        """(T, 3) pairs in which A had won both games, one, none, after growing numbers of pairs up to all of them."""
        now = (int(self._now[0]), int(self._now[1]), int(self._now[2]))
        reached = self._kept[-1] if self._kept else (0, 0, 0)
        return np.array(self._kept if now == reached else [*self._kept, now], np.int64).reshape(-1, 3)


def _marks() -> Iterator[int]:
    """Growing numbers of pairs, about geometrically; they do not depend on how long a match will be."""
    last = 0
    for power in count():
        mark = int(_RATIO**power)
        if mark > last:
            yield mark
            last = mark
