"""What came out of a sweep: means over seeds with their intervals, as ``sweep.csv`` and as a table on the screen."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import stats

from experiments.run_folder import replacing
from experiments.tournament.report import percent, table
from experiments.tournament.statistics import Estimate
from experiments.training.evaluation import EXPLOITABILITY
from experiments.training.metrics import METRICS, read_rows

SEED = "seed"
_WIN_RATE = ": win rate"


def run_figures(folder: Path) -> dict[str, float]:
    """What a finished run ended with, by name: win rates, the exploitability, decisions, minutes of training.

    Raises:
        ValueError: there are no metrics of such a run.
    """
    rows = list(read_rows(folder / METRICS))
    if not rows:
        raise ValueError(f"no whole row in {folder / METRICS}")
    last = rows[-1]
    figures = {name: float(text) for name, text in last.items() if name.endswith(_WIN_RATE) and text}
    if last.get(EXPLOITABILITY):
        figures[EXPLOITABILITY] = float(last[EXPLOITABILITY])
    return figures | {"decisions": float(last["decisions"]), "minutes": float(last["training_seconds"]) / 60}


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Estimate:
    """The mean of independent values and Student's interval for it; without bounds (NaN) if there is only one."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean, math.nan, math.nan)
    half = float(stats.t.ppf(0.5 + confidence / 2, len(values) - 1) * np.std(values, ddof=1) / math.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half)


@dataclass(frozen=True)
class Row:
    """All runs that differ only in their seeds."""

    values: tuple[str, ...]
    """Of the swept keys but the seed."""
    done: int
    failed: int
    figures: dict[str, Estimate]
    """Means over the runs that are done."""


def rows_of(runs: Sequence[tuple[Mapping[str, str], Mapping[str, float] | None, bool]]) -> list[Row]:
    """The rows of a sweep, in the order in which they come up.

    Args:
        runs: of each run the values of the swept keys, its figures if it is done, and whether it has failed.
    """
    groups: dict[tuple[str, ...], list[tuple[Mapping[str, float] | None, bool]]] = {}
    for values, figures, failed in runs:
        group = tuple(value for key, value in values.items() if key != SEED)
        groups.setdefault(group, []).append((figures, failed))
    rows = []
    for group, members in groups.items():
        done = [figures for figures, _ in members if figures is not None]
        names = list(dict.fromkeys(name for figures in done for name in figures))
        rows.append(
            Row(
                group,
                len(done),
                sum(failed for _, failed in members),
                {name: _estimate(name, [one[name] for one in done if name in one]) for name in names},
            )
        )
    return rows


def _estimate(name: str, values: Sequence[float]) -> Estimate:
    """With few seeds an interval may reach beyond what a figure can be: none is below 0, no rate above 1."""
    value, low, high = t_interval(values)
    return Estimate(value, max(low, 0.0), min(high, 1.0 if name.endswith(_WIN_RATE) else math.inf))


def write_csv(path: Path, keys: Sequence[str], rows: Sequence[Row]) -> None:
    """Write the rows; a figure has its mean and the bounds of its interval, which stay blank without one.

    Args:
        path: of the file.
        keys: that are swept, but the seed.
        rows: of the sweep.
    """
    names = _names(rows)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    stems = [name.removesuffix(_WIN_RATE) for name in names]
    bounds = [[name, f"{stem}: low", f"{stem}: high"] for name, stem in zip(names, stems, strict=True)]
    writer.writerow([*keys, "runs", "failed", *(column for columns in bounds for column in columns)])
    for row in rows:
        cells = [""] * (3 * len(names))
        for at, name in enumerate(names):
            if name in row.figures:
                cells[3 * at : 3 * at + 3] = [f"{x:.7g}" if math.isfinite(x) else "" for x in row.figures[name]]
        writer.writerow([*row.values, row.done, row.failed, *cells])
    with replacing(path) as temporary:
        temporary.write_text(buffer.getvalue(), encoding="utf-8")


def _names(rows: Sequence[Row]) -> list[str]:
    """Of all figures; decisions and minutes last."""
    names = dict.fromkeys(name for row in rows for name in row.figures)
    return sorted(names, key=lambda name: name in ("decisions", "minutes"))


def results_table(keys: Sequence[str], rows: Sequence[Row]) -> str:
    """The rows as text; those without a run that is done are left out."""
    rows = [row for row in rows if row.done or row.failed]
    names = _names(rows)
    failed = any(row.failed for row in rows)
    heading = [*keys, "runs", *(["failed"] if failed else []), *(name.removesuffix(_WIN_RATE) for name in names)]
    lines = [heading]
    for row in rows:
        cells = [_text(name, row.figures[name]) if name in row.figures else "-" for name in names]
        lines.append([*row.values, str(row.done), *([str(row.failed)] if failed else []), *cells])
    said = "win rates, means over seeds"
    if any(row.done > 1 for row in rows):
        said += "; [ ] and ±: 95 % t-intervals over seeds"
    if any(row.done == 1 for row in rows):
        said += "; one seed: no interval"
    return f"{table(lines, left=len(keys))}\n{said}"


def _text(name: str, estimate: Estimate) -> str:
    without = math.isnan(estimate.low)
    if name.endswith(_WIN_RATE):
        return f"{100 * estimate.value:.1f} %" if without else percent(estimate)
    places = {"decisions": 0, EXPLOITABILITY: 4}.get(name, 2)
    # the farther bound: the other one may have been cut
    half = "" if without else f" ±{max(estimate.high - estimate.value, estimate.value - estimate.low):,.{places}f}"
    return f"{estimate.value:,.{places}f}{half}"
