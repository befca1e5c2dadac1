"""The picture of a tournament: everyone's win rate against everyone, with error bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from experiments.config import TournamentConfig
from experiments.tournament.report import percent, standings
from experiments.tournament.statistics import Estimate
from experiments.tournament.summary import MatchSummary

_ROW_HEIGHT, _MARGIN, _AXES_WIDTH = 0.3, 1.2, 5.5  # inches
_COLOURS = {"above": "#2166ac", "below": "#b2182b", "even": "#666666"}  # also told apart by the colour-blind
_LEAST_RANGE, _LONGEST_NAME = 0.05, 44


def draw_win_rates(path: Path, summaries: Sequence[MatchSummary], config: TournamentConfig) -> None:
    """Draw everyone's win rate against each opponent with its 95 % interval, the best agent and opponent first.

    A rate is blue where its interval lies above one half, red where below. The axis is cut to what is needed, with one
    half in the middle.
    """
    rates: dict[tuple[str, str], Estimate] = {}
    for summary in summaries:
        a, b = summary.names
        rate = summary.win_rate
        rates[a, b] = rate
        rates[b, a] = Estimate(1 - rate.value, 1 - rate.high, 1 - rate.low)
    order = list(standings(summaries)[1])
    lines = [(agent, opponent) for agent in order for opponent in (None, *order) if agent != opponent]
    lines = [(agent, opponent) for agent, opponent in lines if opponent is None or (agent, opponent) in rates]

    figure = Figure(figsize=(_AXES_WIDTH, _ROW_HEIGHT * len(lines) + _MARGIN))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    beside = axes.get_yaxis_transform()  # x as a share of the axes' width, y as a row
    for y, (agent, opponent) in enumerate(lines):
        if opponent is None:
            axes.text(-0.03, y, _short(agent), transform=beside, ha="right", va="center", weight="bold")
            continue
        rate = rates[agent, opponent]
        colour = _COLOURS["above" if rate.low > 0.5 else "below" if rate.high < 0.5 else "even"]
        error = [[rate.value - rate.low], [rate.high - rate.value]]
        axes.errorbar(rate.value, y, xerr=error, fmt="o", color=colour, markersize=4, capsize=4, elinewidth=1.5)
        axes.text(-0.03, y, f"against {_short(opponent)}", transform=beside, ha="right", va="center")
        axes.text(1.03, y, percent(rate), transform=beside, ha="left", va="center", color=colour)
    axes.axvline(0.5, color="#888888", linewidth=1.2, zorder=1)
    reach = max(_LEAST_RANGE, *(abs(limit - 0.5) for rate in rates.values() for limit in (rate.low, rate.high)))
    axes.set_xlim(0.5 - 1.06 * reach, 0.5 + 1.06 * reach)
    axes.set_ylim(len(lines) - 0.4, -0.6)
    axes.set_yticks([])
    axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_xlabel("games won, with the 95 % confidence interval over pairs")
    axes.grid(axis="x", color="#e4e4e4")
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.set_title(_title(summaries, config), loc="left", fontsize=11)
    # without the date and version that would make equal pictures differ
    figure.savefig(path, format="png", dpi=150, bbox_inches="tight", pad_inches=0.2, metadata={"Software": None})


def _title(summaries: Sequence[MatchSummary], config: TournamentConfig) -> str:
    fewest = min(summary.games for summary in summaries)
    most = max(summary.games for summary in summaries)
    games = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return (
        f"Win rates in cribbage to {config.rules.target}\n{games} games a match on duplicate deals, seed {config.seed}"
    )


def _short(name: str) -> str:
    """The end of a long name, which for a path is the part that tells."""
    return name if len(name) <= _LONGEST_NAME else "…" + name[1 - _LONGEST_NAME :]
