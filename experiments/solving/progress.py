"""How a solve goes: a row of ``progress.csv`` for each check of the exploitability, and a line on the screen."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from experiments.run_folder import replacing

PROGRESS = "progress.csv"


@dataclass(frozen=True)
class Check:
    """How good the average policy was after some iterations; points a deal of the play."""

    iteration: int
    seconds: float
    """Since the beginning, the tree and the prior included; over all sessions."""
    cpu_seconds: float
    exploitability: float
    pone_best: float
    """What pone wins by its best response, minus what it concedes."""
    dealer_best: float

    def line(self) -> str:
        """As a line on the screen."""
        minutes, seconds = divmod(round(self.seconds), 60)
        return (
            f"{minutes:4d}:{seconds:02d}  iteration {self.iteration:4d}  exploitability {self.exploitability:.6f}  "
            f"best responses: pone {self.pone_best:+.5f}, dealer {self.dealer_best:+.5f}"
        )


_COLUMNS = [one.name for one in fields(Check)]


class Progress:
    """The checks of a solve, in a file.

    Args:
        folder: of the solve.
        kept: checks up to this iteration stay, when a solve goes on; 0 begins a new file.
    """

    def __init__(self, folder: Path, kept: int) -> None:
        self._path = folder / PROGRESS
        self.checks = [check for check in read_checks(self._path) if check.iteration <= kept] if kept else []
        with replacing(self._path) as temporary:
            temporary.write_text(_line(_COLUMNS) + "".join(_row(check) for check in self.checks), encoding="utf-8")

    def at(self, iteration: int) -> Check | None:
        """The check after so many iterations, if there was one."""
        return next((check for check in self.checks if check.iteration == iteration), None)

    def add(self, check: Check) -> None:
        """Append a check."""
        self.checks.append(check)
        with self._path.open("ab") as file:
            file.write(_row(check).encode())  # in one piece
            file.flush()
            os.fsync(file.fileno())


def read_checks(path: Path) -> list[Check]:
    """The whole rows of a ``progress.csv``; the last may have been cut off by a kill."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return []
    checks = []
    for row in csv.DictReader(io.StringIO(text[: text.rfind("\n") + 1])):
        try:
            checks.append(Check(int(row["iteration"]), *(float(row[name]) for name in _COLUMNS[1:])))
        except (KeyError, TypeError, ValueError):
            continue
    return checks


def _row(check: Check) -> str:
    figures = asdict(check)
    for name in ("seconds", "cpu_seconds"):
        figures[name] = round(figures[name], 2)
    return _line([str(figures[name]) for name in _COLUMNS])


def _line(cells: list[str]) -> str:
    return ",".join(cells) + "\n"
