"""The figures of a run, one row an iteration: ``metrics.csv``, and the same for TensorBoard."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

from experiments.run_folder import replacing

METRICS = "metrics.csv"
COLUMNS = (
    "iteration",  # 1, 2, ...
    "games",  # episodes since the beginning
    "decisions",  # learned from since the beginning
    "seconds",  # since the beginning, evaluations included; over all sessions of a run
    "training_seconds",  # the same without evaluations
    "decisions_per_second",  # in this iteration
    "collect_seconds",  # in this iteration
    "learn_seconds",
    "lr",
)
"""Of every learner; its own (:attr:`experiments.training.learner.Learner.columns`) and those of evaluations follow."""


def evaluation_columns(opponents: Sequence[str]) -> list[str]:
    """The columns of evaluations: win rate and its 95 % interval against each opponent; blank in other rows."""
    return [f"{opponent}: {figure}" for opponent in opponents for figure in ("win rate", "low", "high")]


class Metrics:
    """Writes rows to ``metrics.csv`` and TensorBoard's event file in a folder.

    Args:
        folder: of the run.
        columns: beside :data:`COLUMNS`.
        kept: the iterations whose rows stay, when a run goes on; 0 begins a new file.
    """

    def __init__(self, folder: Path, columns: Sequence[str], kept: int) -> None:
        self._path = folder / METRICS
        self._columns = [*COLUMNS, *columns]
        rows = [row for row in read_rows(self._path) if int(row["iteration"]) <= kept] if kept else []
        self.seconds = float(rows[-1]["seconds"]) if rows else 0.0
        """How long the run had taken at the last row kept."""
        self.training_seconds = float(rows[-1]["training_seconds"]) if rows else 0.0
        """The same without evaluations."""
        with replacing(self._path) as temporary:
            temporary.write_text("".join(map(self._line, [self._heading, *rows])), encoding="utf-8")
        self._board = SummaryWriter(str(folder), purge_step=int(rows[-1]["decisions"]) + 1 if rows else None)

    def write(self, row: Mapping[str, float]) -> None:
        """Append a row; columns it does not have stay blank."""
        with self._path.open("ab") as file:
            file.write(self._line({name: _cell(value) for name, value in row.items()}).encode())  # in one piece
            file.flush()
            os.fsync(file.fileno())
        self._chart(int(row["decisions"]), row)

    def _chart(self, step: int, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            if name.endswith(": win rate"):
                self._board.add_scalar(f"evaluation/{name.removesuffix(': win rate')}", value, step)
            elif (tag := _tag(name)) is not None:
                self._board.add_scalar(f"{tag}/{name}", value, step)
        self._board.flush()

    def complete(self, figures: Mapping[str, float]) -> None:
        """Add figures to the last row, of an evaluation that had been interrupted."""
        rows = list(read_rows(self._path))
        if not rows:  # somebody took the file away
            return
        last = rows.pop()
        last |= {name: _cell(value) for name, value in figures.items()}
        with replacing(self._path) as temporary:
            temporary.write_text("".join(map(self._line, [self._heading, *rows, last])), encoding="utf-8")
        self._chart(int(last["decisions"]), figures)

    def close(self) -> None:
        """Close TensorBoard's event file."""
        self._board.close()

    @property
    def _heading(self) -> dict[str, str]:
        return {name: name for name in self._columns}

    def _line(self, row: Mapping[str, str]) -> str:
        buffer = io.StringIO()
        csv.DictWriter(buffer, self._columns, restval="", extrasaction="ignore", lineterminator="\n").writerow(row)
        return buffer.getvalue()


def _cell(value: float) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def _tag(name: str) -> str | None:
    """The group of a figure's chart; None: it has none."""
    if name in ("iteration", "games", "decisions", "seconds", "training_seconds") or name.endswith((": low", ": high")):
        return None
    if name.endswith(("_seconds", "_per_second")):
        return "speed"
    group, underscore, _ = name.partition("_")
    return (
        group
        if underscore and group in ("loss", "explained")
        else "evaluation"
        if name == "exploitability"
        else "learner"
    )


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """The whole rows of a ``metrics.csv``; the last may have been cut off by a kill."""
    try:
        text = path.read_text(encoding="utf-8")
    except (FileNotFoundError, UnicodeDecodeError):
        return
    whole = text[: text.rfind("\n") + 1]
    for row in csv.DictReader(io.StringIO(whole)):
        if all(value is not None for value in row.values()) and row.get("iteration", "").isdigit():
            yield row
