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
    "decisions_per_second",  # in this iteration
    "collect_seconds",  # in this iteration
    "learn_seconds",
    "lr",
    "loss_discard",  # mean squared error in this iteration
    "loss_play",
    "explained_discard",  # the part of the returns' variance that the network explains
    "explained_play",
)
_TAGS = {  # of TensorBoard, the charts' groups
    "decisions_per_second": "speed", "lr": "learner", "loss_discard": "loss", "loss_play": "loss",
    "explained_discard": "explained", "explained_play": "explained",
}  # fmt: skip


def evaluation_columns(opponents: Sequence[str]) -> list[str]:
    """The columns of evaluations: win rate and its 95 % interval against each opponent; blank in other rows."""
    return [f"{opponent}: {figure}" for opponent in opponents for figure in ("win rate", "low", "high")]


class Metrics:
    """Writes rows to ``metrics.csv`` and TensorBoard's event file in a folder.

    Args:
        folder: of the run.
        opponents: of the evaluations.
        kept: the iterations whose rows stay, when a run goes on; 0 begins a new file.
    """

    def __init__(self, folder: Path, opponents: Sequence[str], kept: int) -> None:
        self._path = folder / METRICS
        self._columns = [*COLUMNS, *evaluation_columns(opponents)]
        rows = [row for row in read_rows(self._path) if int(row["iteration"]) <= kept] if kept else []
        self.seconds = float(rows[-1]["seconds"]) if rows else 0.0
        """How long the run had taken at the last row kept."""
        with replacing(self._path) as temporary:
            temporary.write_text(
                self._line(dict(zip(self._columns, self._columns, strict=True)))
                + "".join(self._line(row) for row in rows),
                encoding="utf-8",
            )
        self._board = SummaryWriter(str(folder), purge_step=int(rows[-1]["decisions"]) + 1 if rows else None)

    def write(self, row: Mapping[str, float]) -> None:
        """Append a row; columns it does not have stay blank."""
        texts = {name: f"{row[name]:.7g}" if isinstance(row[name], float) else str(row[name]) for name in row}
        with self._path.open("ab") as file:
            file.write(self._line(texts).encode())  # in one piece
            file.flush()
            os.fsync(file.fileno())
        step = int(row["decisions"])
        for name, value in row.items():
            if name in _TAGS:
                self._board.add_scalar(f"{_TAGS[name]}/{name}", value, step)
            elif name.endswith(": win rate"):
                self._board.add_scalar(f"evaluation/{name.removesuffix(': win rate')}", value, step)
        self._board.flush()

    def close(self) -> None:
        """Close TensorBoard's event file."""
        self._board.close()

    def _line(self, row: Mapping[str, str]) -> str:
        buffer = io.StringIO()
        csv.DictWriter(buffer, self._columns, restval="", extrasaction="ignore", lineterminator="\n").writerow(row)
        return buffer.getvalue()


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
