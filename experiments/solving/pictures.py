"""The pictures of a solve: how fast it converged, and what pone leads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from cribbage_env.cards import NUM_RANKS, RANKS

_BLUE, _GREY = "#2166ac", "#888888"
_DARK = 0.6  # rates above it are written in white


def draw_exploitability(
    path: Path, seconds: Sequence[float], figures: Sequence[float], target: float | None, title: str
) -> None:
    """Draw the exploitability against the time, both by factors of ten."""
    figure = Figure(figsize=(6.0, 4.0))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    axes.plot(seconds, figures, marker="o", markersize=4, color=_BLUE)
    if target is not None:
        axes.axhline(target, color=_GREY, linewidth=1, linestyle="--")
        axes.annotate(" target", (0, target), xycoords=axes.get_yaxis_transform(), va="bottom", color=_GREY)
    axes.set_yscale("log")
    axes.set_xlim(left=0.0)
    axes.set_xlabel("seconds, with the tree and the prior")
    axes.set_ylabel("exploitability, points a deal")
    axes.grid(which="both", color="#e4e4e4")
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(title, loc="left", fontsize=11)
    _save(figure, path)


def draw_leads(path: Path, rates: NDArray[np.float64], title: str) -> None:
    """Draw how often pone leads a rank, by another rank that it holds (:func:`leads_by_ranks`), in percent."""
    figure = Figure(figsize=(8.4, 7.2))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    gap = np.full((NUM_RANKS, 1), np.nan)
    shown = np.hstack([rates[:, :NUM_RANKS], gap, rates[:, NUM_RANKS:]])
    image = axes.imshow(shown, cmap="Blues", vmin=0.0, vmax=1.0)
    for (row, column), rate in np.ndenumerate(shown):
        if not np.isnan(rate):
            colour = "white" if rate > _DARK else "black"
            axes.text(column, row, f"{100 * rate:.0f}", ha="center", va="center", fontsize=8, color=colour)
    axes.set_xticks([*range(NUM_RANKS), NUM_RANKS + 1], [*RANKS, "any"])
    axes.set_yticks(range(NUM_RANKS), list(RANKS))
    axes.xaxis.tick_top()
    axes.xaxis.set_label_position("top")
    axes.set_xlabel("another card of the hand (the same rank: a pair)")
    axes.set_ylabel("the rank led")
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    figure.colorbar(image, ax=axes, shrink=0.6, label="led, of the hands that hold both")
    axes.set_title(title, loc="left", fontsize=11)
    _save(figure, path)


def _save(figure: Figure, path: Path) -> None:
    # without the date and version that would make equal pictures differ
    figure.savefig(path, format="png", dpi=150, bbox_inches="tight", pad_inches=0.2, metadata={"Software": None})
