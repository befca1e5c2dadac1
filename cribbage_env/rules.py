"""What a variant may change: the target and the skunk lines."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Literal, SupportsIndex

MAX_TARGET = 200  # scores fit in a byte, also after the largest hand: 199 + 29 = 228

Line = int | None | Literal["auto"]


@dataclass(frozen=True, init=False)
class Rules:
    """The rules of a game of six-card cribbage for two.

    Args:
        target: the score that wins, 2 to 200. Standard 121; short game 61.
        skunk: a loser below this score is skunked (the game counts double); None for no such line. Left out, it is
            ``target - 30`` (91 of 121, 31 of 61), or None where that leaves no score below it.
        double_skunk: a loser below this score is double skunked; None for no such line. Left out, it is
            ``target - 60`` (61 of 121), or None where that is 1 or less (as in a game to 61).

    Raises:
        ValueError: a number out of range or lines in the wrong order.
        TypeError: something that is not an integer.
    """

    target: int
    skunk: int | None
    double_skunk: int | None

    def __init__(self, target: int = 121, skunk: Line = "auto", double_skunk: Line = "auto") -> None:
        target = _integer("target", target)
        if not 2 <= target <= MAX_TARGET:
            raise ValueError(f"target must lie between 2 and {MAX_TARGET}, got {target}")
        skunk_line = self._line("skunk", skunk, target - 30, target)
        double_line = self._line("double_skunk", double_skunk, target - 60, target)
        if double_line is not None and (skunk_line is None or double_line > skunk_line):
            if double_skunk != "auto":
                raise ValueError(f"double_skunk ({double_line}) needs a skunk line at or above it, got {skunk_line}")
            double_line = None
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "skunk", skunk_line)
        object.__setattr__(self, "double_skunk", double_line)

    @staticmethod
    def _line(name: str, line: Line, automatic: int, target: int) -> int | None:
        if line == "auto":
            return automatic if automatic > 1 else None
        if line is None:
            return None
        line = _integer(name, line, "an integer, None or 'auto'")
        if not 1 <= line <= target:
            raise ValueError(f"{name} must lie between 1 and the target {target}, got {line}")
        return line

    def skunk_level(self, loser_score: int) -> int:
        """0 for a plain win over a player with ``loser_score`` points, 1 for a skunk, 2 for a double skunk."""
        if self.double_skunk is not None and loser_score < self.double_skunk:
            return 2
        return int(self.skunk is not None and loser_score < self.skunk)


def _integer(name: str, value: object, wanted: str = "an integer") -> int:
    """``value`` as a plain int, also from NumPy's integers; TypeError otherwise."""
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"{name} must be {wanted}, got {value!r}")
    return operator.index(value)
