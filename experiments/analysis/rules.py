"""The analysis ``rules``: what each rule of the agent ``rule_based`` is worth.

Each rule is switched off in turn, and the agent without it is compared with the whole agent in two ways, on the same
duplicate deals: in a match of the two (``self``), and by how much worse it does against a fixed opponent
(``opponent``). In the second way both versions meet the opponent on the same deals with the same keys, so most games
take the same course, and the difference is measured far more exactly than either result.

A table has four comparisons for each rule, and among a hundred comparisons five look significant at 5 % where there is
nothing. So p-values are adjusted by Holm's step-down method over the whole table (S. Holm, "A simple sequentially
rejective multiple test procedure", Scandinavian Journal of Statistics 6, 1979, pp. 65-70), which holds whatever depends
on what. The confidence intervals are those of single comparisons.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtrit
from tqdm import tqdm

from agents import Agent, make_agent, named_in
from agents.rule_based import RULES, Rule
from cribbage_env.engine import PARTS
from experiments.analysis.results import ResultTable, Row
from experiments.config import RulesAnalysisConfig, parse_config
from experiments.run_folder import StopRequest, add_output_arguments
from experiments.tournament.match import Games, play_blocks
from experiments.tournament.report import table
from experiments.tournament.statistics import CONFIDENCE, Estimate, PairTotals, pair_rate

AGENT = "rule_based"
SIGNIFICANT = 0.05
_BOTH_PARTS = 2 * len(PARTS)  # those of A and those of B


class Gain(NamedTuple):
    """What switching a rule on brings: an estimate with its interval, and the p-value of "nothing"."""

    estimate: Estimate
    p: float


@dataclass(frozen=True)
class Worth:
    """What a rule is worth by one way of comparing."""

    wins: Gain
    """Gain in the share of games won."""
    points: Gain
    """Gain in points a deal: own points minus the opponent's, mean of the deals dealt by either."""


@dataclass(frozen=True)
class RuleWorth:
    """What a rule is worth."""

    rule: Rule
    self_play: Worth
    """The agent against itself without the rule."""
    opponent: Worth | None
    """Against the fixed opponent; None if that is the agent itself."""

    @property
    def gains(self) -> list[Gain]:
        """All comparisons."""
        ways = [self.self_play] if self.opponent is None else [self.self_play, self.opponent]
        return [gain for way in ways for gain in (way.wins, way.points)]


class PairSamples(NamedTuple):
    """A match, pair by pair: what agent A did."""

    wins: NDArray[np.int64]
    """(P,) games won, 0 to 2."""
    points: NDArray[np.int64]
    """(P, 12) points by part, those of B negated."""
    counted: NDArray[np.int64]
    """(P, 12) how many deals that part was counted in (see ``experiments.tournament.match.GAME_DTYPE``)."""


def pair_samples(games: Games) -> PairSamples:
    """The samples of a match's games (2 P,)."""
    signed = games["points"].astype(np.int64)
    signed[:, 1] *= -1

    def pairs(values: NDArray[np.int64]) -> NDArray[np.int64]:
        return values[0::2] + values[1::2]

    return PairSamples(
        pairs((games["winner"] == 0).astype(np.int64)),
        pairs(signed.reshape(len(games), _BOTH_PARTS)),
        pairs(games["counted"].astype(np.int64).reshape(len(games), _BOTH_PARTS)),
    )


def compare_head_to_head(match: PairSamples) -> Worth:
    """What a rule is worth by a match of the agent (A) against the agent without it (B)."""
    none, one, both = (int(n) for n in np.bincount(match.wins, minlength=3))
    rate = pair_rate(both, one, none)
    unequal = both + none
    z = abs(both - none) / math.sqrt(unequal) if unequal else 0.0  # McNemar's test, which belongs to that interval
    wins = Gain(Estimate(*(limit - 0.5 for limit in rate)), 2 * float(ndtr(-z)))
    return Worth(wins, _points_gain([match], [1]))


def compare_by_opponent(whole: PairSamples, without: PairSamples) -> Worth:
    """What a rule is worth by matches of the agent with and without it against the same opponent, on the same deals."""
    totals = PairTotals(2)
    totals.add(np.column_stack([whole.wins - without.wins, np.full(len(whole.wins), 2)]))
    wins = totals.ratio([0], [1])
    return Worth(Gain(wins, p_value(wins, totals.pairs)), _points_gain([whole, without], [1, -1]))


def _points_gain(matches: Sequence[PairSamples], signs: Sequence[int]) -> Gain:
    """Points a deal, added up over matches on the same deals, each with its sign."""
    points = [sign * match.points for match, sign in zip(matches, signs, strict=True)]
    samples = np.concatenate([*points, *(match.counted for match in matches)], axis=1)
    columns = _BOTH_PARTS * len(matches)
    totals = PairTotals(2 * columns)
    totals.add(samples)
    # The parts of a deal as dealer and of one as pone together: two deals.
    two_deals = totals.ratio(range(columns), range(columns, 2 * columns))
    gain = Estimate(*(limit / 2 for limit in two_deals))
    return Gain(gain, p_value(gain, totals.pairs))


def p_value(estimate: Estimate, pairs: int) -> float:
    """Two-sided p-value of "the true value is 0", from an estimate with Student's t interval; 1 without a spread."""
    half = (estimate.high - estimate.low) / 2
    if not half > 0:
        return 1.0
    degrees = pairs - 1
    t = abs(estimate.value) / half * float(stdtrit(degrees, 0.5 + CONFIDENCE / 2))
    return 2 * float(stdtr(degrees, -t))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for their number by Holm's method, in the order given."""
    adjusted = [0.0] * len(p_values)
    greatest = 0.0
    for done, at in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        greatest = max(greatest, min(1.0, (len(p_values) - done) * p_values[at]))
        adjusted[at] = greatest
    return adjusted


class RulesAnalysis:
    """The matches of the analysis, and what they come to.

    Args:
        config: what to play.

    Raises:
        AgentError: an opponent that can't be made. Nothing has been played then.
    """

    def __init__(self, config: RulesAnalysisConfig) -> None:
        self.config = config
        self.worths: list[RuleWorth] = []
        """Of the rules measured so far."""
        self._whole = make_agent(AGENT)
        with named_in("opponent"):
            self._opponent = None if config.opponent.strip() == AGENT else make_agent(config.opponent)

    def play(self, results: ResultTable) -> None:
        """Play all matches, and write the table after each rule.

        Raises:
            KeyboardInterrupt: Ctrl-C; :attr:`worths` and the table have the rules that were finished.
        """
        matches = len(RULES) if self._opponent is None else 2 * len(RULES) + 1
        total = matches * self.config.games
        with StopRequest() as stop, tqdm(total=total, unit=" games", disable=not sys.stderr.isatty()) as bar:
            self._stop, self._bar = stop, bar
            whole = None if self._opponent is None else self._match(self._whole, self._opponent)
            for rule in RULES:
                bar.set_description(rule.name)
                without = make_agent(f"{AGENT}:no_{rule.name}")
                self_play = compare_head_to_head(self._match(self._whole, without))
                by_opponent = None
                if self._opponent is not None and whole is not None:
                    by_opponent = compare_by_opponent(whole, self._match(without, self._opponent))
                self.worths.append(RuleWorth(rule, self_play, by_opponent))
                results.write(csv_rows(self.worths))

    def _match(self, a: Agent, b: Agent) -> PairSamples:
        blocks = []
        pairs = self.config.games // 2
        for games in play_blocks(a, b, pairs, self.config.seed, stop=lambda: self._stop.asked):
            blocks.append(pair_samples(games))
            self._bar.update(len(games))
        if self._stop.asked:
            raise KeyboardInterrupt
        return PairSamples(*(np.concatenate(column) for column in zip(*blocks, strict=True)))


def csv_rows(worths: Sequence[RuleWorth]) -> list[Row]:
    """The rows of ``rules.csv``, in the order of the rules.

    ``self_`` is the match against the agent without the rule, ``opponent_`` the difference against the fixed opponent.
    ``wins`` is the gain in the share of games won, ``points`` that in points a deal, with 95 % intervals ``_low`` and
    ``_high``, the p-value ``_p``, and ``_p_holm`` adjusted for all comparisons of the table.
    """
    adjusted = iter(holm([gain.p for worth in worths for gain in worth.gains]))
    rows = []
    for worth in worths:
        row: Row = {"rule": worth.rule.name, "phase": worth.rule.phase, "weight": worth.rule.weight}
        names = ["self_wins", "self_points", "opponent_wins", "opponent_points"]
        for name, gain in zip(names, worth.gains, strict=False):
            row[name], row[f"{name}_low"], row[f"{name}_high"] = (round(limit, 6) for limit in gain.estimate)
            row[f"{name}_p"] = float(f"{gain.p:.4g}")
            row[f"{name}_p_holm"] = float(f"{next(adjusted):.4g}")
        row["tip"] = worth.rule.tip
        rows.append(row)
    return rows


def report(worths: Sequence[RuleWorth], config: RulesAnalysisConfig) -> str:
    """The table for the terminal, the rules worth most first, and how to read it."""
    adjusted = iter(holm([gain.p for worth in worths for gain in worth.gains]))
    marked = [(worth, [_cell(gain, next(adjusted), i) for i, gain in enumerate(worth.gains)]) for worth in worths]
    marked.sort(key=lambda one: -one[0].self_play.points.estimate.value)
    with_opponent = bool(worths) and worths[0].opponent is not None
    heading = ["rule", "phase", "weight", "wins, itself", "points a deal"]
    if with_opponent:
        heading += [f"wins, {config.opponent}", "points a deal"]
    rows = [heading] + [
        [worth.rule.name, worth.rule.phase, f"{worth.rule.weight:g}", *cells] for worth, cells in marked
    ]
    comparisons = sum(len(worth.gains) for worth in worths)
    lines = [
        f"What each rule of {AGENT} adds, in percentage points of games won and in points a deal: in a match against "
        "itself\nwithout the rule"
        + (f", and by the difference against {config.opponent} with and without it" if with_opponent else "")
        + f".\n{config.games:,} games a match on duplicate deals, seed {config.seed}. ±: 95 % confidence interval of a "
        "single comparison, the pairs being\nthe samples.",
        table(rows, left=2),
        f"* significant at {100 * SIGNIFICANT:g} % after Holm's correction for the table's {comparisons} comparisons.",
    ]
    return "\n\n".join(lines)


def _cell(gain: Gain, adjusted: float, column: int) -> str:
    """A gain as text: shares of games in even columns, points in odd ones."""
    scale, decimals = (100, 2) if column % 2 == 0 else (1, 3)
    value, low, high = (scale * limit for limit in gain.estimate)
    spread = "" if math.isnan(low) else f" ±{(high - low) / 2:.{decimals}f}"
    return f"{value:+.{decimals}f}{spread} {'*' if adjusted < SIGNIFICANT else ' '}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    defaults = {key: field.default for key, field in RulesAnalysisConfig.model_fields.items()}
    parser.add_argument("--games", type=int, default=defaults["games"], help="a match (default: %(default)s)")
    parser.add_argument(
        "--opponent",
        metavar="AGENT",
        default=defaults["opponent"],
        help="the agent that both versions meet, such as expected or greedy (default: %(default)s)",
    )
    parser.add_argument("--seed", type=int, default=defaults["seed"], help="of decks and agents (default: %(default)s)")
    add_output_arguments(parser, "results", "runs/rules", default="runs/rules")


def run(args: argparse.Namespace) -> int:
    """Measure all rules."""
    config = parse_config(
        {"opponent": args.opponent, "games": args.games, "seed": args.seed},
        RulesAnalysisConfig,
        "cribbage analyse rules",
    )
    analysis = RulesAnalysis(config)
    results = ResultTable(args.output, "rules.csv", config, args.overwrite)
    try:
        analysis.play(results)
    except KeyboardInterrupt:
        print(f"\n{len(analysis.worths)} of {len(RULES)} rules were measured", file=sys.stderr, end="")
        raise
    finally:
        if analysis.worths:
            print(report(analysis.worths, config))
            print(f"\nwritten: {results.path}")
    return 0
