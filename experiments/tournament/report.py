"""A tournament as text for the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from cribbage_env.engine import PARTS
from experiments.config import TournamentConfig
from experiments.tournament.comparisons import compare
from experiments.tournament.ratings_file import anchor_of, pool_ratings
from experiments.tournament.statistics import Estimate, Sprt, anytime_interval, elo
from experiments.tournament.summary import AGENTS, A, B, MatchSummary

_FEW_PAIRS = 30


def report(summaries: Sequence[MatchSummary], config: TournamentConfig) -> str:
    """The tables of a tournament's matches, and what is to be said about them."""
    sections = [_heading(config), _win_table(summaries)]
    if config.sprt is not None:
        sections.append(_sprt_section(summaries, config.sprt.test()))
    if len(summaries) > 1:
        sections += [_cross_table(summaries, config), *_ratings_section(summaries, config)]
    sections.append(_points_table(summaries))
    notes = [note for summary in summaries for note in _notes(summary)]
    if notes:
        sections.append("\n".join(notes))
    return "\n\n".join(sections)


def _heading(config: TournamentConfig) -> str:
    target = config.rules.target
    return (
        f"Games to {target} on duplicate deals: every game seed is played twice, seats swapped (a pair). Seed "
        f"{config.seed}.\n[ ] and ±: 95 % confidence intervals, the pairs being the samples."
    )


def _win_table(summaries: Sequence[MatchSummary]) -> str:
    rows = [
        ["A", "B", "games", "A wins", "pairs 2-0 1-1 0-2", "first dealer wins", "deals a game", "games/s"],
    ]
    adjusted = [summary for summary in summaries if not math.isnan(summary.adjusted_win_rate.value)]
    if adjusted:
        rows[0][4:4] = ["luck taken out", "worth"]
    for summary in summaries:
        rows.append(
            [
                *summary.names,
                f"{summary.games:,}",
                percent(summary.win_rate),
                " ".join(f"{n:,}" for n in summary.pair_outcomes),
                percent(summary.first_dealer_rate),
                decimals(summary.deals_per_game),
                f"{summary.games_per_second:,.0f}",
            ]
        )
        if adjusted:
            rows[-1][4:4] = _adjusted_cells(summary)
    return table(rows, left=2)


def _adjusted_cells(summary: MatchSummary) -> list[str]:
    """The win rate with luck taken out, and how many times the games it is worth."""
    rate, reduction = summary.adjusted_win_rate, summary.variance_reduction
    if math.isnan(rate.low):
        return ["", ""]
    return [percent(rate), "" if math.isnan(reduction) else f"{reduction:.1f} x"]


def _sprt_section(summaries: Sequence[MatchSummary], test: Sprt) -> str:
    """How the sequential test stands in each match, and what the match tells of the win rate."""
    rows = [["A", "B", "pairs", "log-likelihood ratio", "SPRT", "A wins, corrected", "any stopping"]]
    for summary in summaries:
        state = test.state(summary.pair_outcomes)
        rows.append(
            [
                *summary.names,
                f"{summary.pairs:,}",
                f"{state.llr:.2f}",
                "undecided" if state.decision == "continue" else state.decision,
                percent(test.estimate(summary.pair_outcomes)),
                percent(anytime_interval(*summary.pair_outcomes)),
            ]
        )
    rates = [f"{100 * rate:.2f} % (Elo {elo(rate):+.1f})" for rate in (test.rate0, test.rate1)]
    lines = [
        f"SPRT of H0: A wins {rates[0]}, against H1: {rates[1]}; alpha {test.alpha:g}, beta {test.beta:g}, looked at",
        f"every {test.check_every:,} pairs. H0 is accepted at {test.lower:.2f}, H1 at {test.upper:.2f}.",
        "A match that stops when it is decided looks more decided than it is: its plain win rate is biased, and its",
        "interval too short. Corrected: median-unbiased, for this test. Any stopping: a confidence sequence, which",
        "holds whenever and for whatever reason a match stops.",
        "",
        table(rows, left=2),
    ]
    return "\n".join(lines)


def _cross_table(summaries: Sequence[MatchSummary], config: TournamentConfig) -> str:
    """Everyone's win rate against everyone, the best first."""
    rates, means = standings(summaries)
    names = list(means)
    compared = zip(summaries, compare(summaries, config), strict=True)
    clear = {summary.names for summary, comparison in compared if comparison.clear}
    rows = [["win rate against", *names, "mean"]]
    for name in names:
        cells = []
        for other in names:
            mark = "*" if {(name, other), (other, name)} & clear else " "
            cells.append(f"{100 * rates[name, other]:.1f} %{mark}" if (name, other) in rates else "")
        rows.append([name, *cells, f"{100 * means[name]:.1f} %"])
    how = "by confidence sequences" if config.sprt is not None else "Holm"
    note = f"* not 50 %, significantly (5 %) after correction for {len(summaries)} comparisons ({how})"
    return f"{table(rows, left=1)}\n{note}"


def _ratings_section(summaries: Sequence[MatchSummary], config: TournamentConfig) -> list[str]:
    """The agents' ratings, if there are any."""
    ratings = pool_ratings(summaries, config)
    if not ratings:
        return []
    anchor = anchor_of(ratings)
    rows = [["rating (Elo)", "", "95 %", "games"]]
    for one in ratings:
        value, low, high = (f"{part:.0f}".replace("-0", "0") if abs(part) < 1 else f"{part:.0f}" for part in one.rating)
        rows.append([one.name, value, "anchor" if one.name == anchor else f"[{low}, {high}]", f"{2 * one.pairs:,}"])
    note = f"Bradley-Terry model; {anchor} is the anchor, 0 by definition (another one: anchor=NAME)"
    return [f"{table(rows, left=1)}\n{note}"]


def standings(summaries: Sequence[MatchSummary]) -> tuple[dict[tuple[str, str], float], dict[str, float]]:
    """Win rates by (agent, opponent), and agents with their mean over opponents, the best first."""
    rates: dict[tuple[str, str], float] = {}
    for summary in summaries:
        a, b = summary.names
        rates[a, b] = summary.win_rate.value
        rates[b, a] = 1 - summary.win_rate.value
    means: dict[str, float] = {}
    for name in dict.fromkeys(name for name, _ in rates):
        own = [rate for (agent, _), rate in rates.items() if agent == name]
        means[name] = sum(own) / len(own)
    return rates, dict(sorted(means.items(), key=lambda item: -item[1]))


def _points_table(summaries: Sequence[MatchSummary]) -> str:
    rows = [["points a deal", "against", "as dealer", "heels", "play", "hand", "crib", "as pone", "play", "hand",
             "skunks", "double"]]  # fmt: skip
    for summary in summaries:
        for agent in AGENTS:
            part = {name: f"{summary.points(agent, i).value:.2f}" for i, name in enumerate(PARTS)}
            rows.append(
                [
                    summary.names[agent],
                    summary.names[1 - agent],
                    decimals(summary.dealer_points(agent)),
                    part["heels"],
                    part["play_dealer"],
                    part["hand_dealer"],
                    part["crib"],
                    decimals(summary.pone_points(agent)),
                    part["play_pone"],
                    part["hand_pone"],
                    f"{100 * summary.skunks(agent) / summary.games:.1f} %",
                    f"{100 * summary.double_skunks(agent) / summary.games:.2f} %",
                ]
            )
    return table(rows, left=2)


def _notes(summary: MatchSummary) -> list[str]:
    a, b = summary.names
    notes = []
    if summary.pair_outcomes[1] == summary.pairs:
        notes.append(
            f"{a} – {b}: every pair was split, as between two agents that always do the same; the interval is what "
            f"{summary.pairs:,} such pairs allow."
        )
    elif summary.pairs < _FEW_PAIRS:
        notes.append(f"{a} – {b}: {summary.pairs} pairs are few; the intervals are rough.")
    for agent in (A, B):
        if summary.forfeits(agent):
            notes.append(
                f"{a} – {b}: {summary.names[agent]} lost {summary.forfeits(agent):,} games by illegal actions."
            )
    return notes


def percent(estimate: Estimate) -> str:
    """A rate with its interval, such as ``63.8 % [63.4, 64.2]``."""
    return f"{100 * estimate.value:.1f} % [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def decimals(estimate: Estimate) -> str:
    """A mean with half its interval, such as ``9.04 ±0.03``; without, where there are too few samples for one."""
    if math.isnan(estimate.low):
        return f"{estimate.value:.2f}"
    return f"{estimate.value:.2f} ±{(estimate.high - estimate.low) / 2:.2f}"


def table(rows: Sequence[Sequence[str]], left: int) -> str:
    """Aligned columns, the first row being the heading; the first ``left`` columns are set left, the others right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in [rows[0], ["-" * width for width in widths], *rows[1:]]:
        cells = [row[i].ljust(width) if i < left else row[i].rjust(width) for i, width in enumerate(widths)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)
