"""The analysis ``weights``: how the weights of the agent ``rule_based`` were found.

Coordinate search. All rules start with the same weight. One rule after the other is tried a step up and a step down
against the opponents, always on the same duplicate deals and with the same keys. A change stays if it is better by
more than a standard error in the mean over the pairs of points scored minus points conceded. When no rule moves any
more (or after a few rounds, since players can beat each other in a circle), the step is halved. No weight falls below
the last step: a tip stays a tip. The opponent ``rule_based`` is the agent itself with the best weights so far.

Left out are the points that can be seen, which are the scale, and the two rules about the end of a game, where points
are not what counts.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents import Agent, make_agent, named_in
from agents.rule_based import RULE_NAMES, RULES, RuleBasedAgent
from experiments.analysis.results import ResultTable, Row
from experiments.config import WeightSearchConfig, parse_config
from experiments.run_folder import StopRequest, add_output_arguments
from experiments.tournament.match import play_blocks
from experiments.tournament.report import table

AGENT = "rule_based"
FIXED = ("keep_points", "take_points", "count_board", "take_win")
START = 0.5
STEPS = (0.4, 0.2, 0.1)
ROUNDS = 4  # with a step, at most
_CHANCE = 1.0  # standard errors


class WeightSearch:
    """The search.

    Args:
        config: opponents, games and seed.

    Raises:
        AgentError: an opponent that can't be made.
    """

    def __init__(self, config: WeightSearchConfig) -> None:
        self.config = config
        self.agent, self._best = RuleBasedAgent(), RuleBasedAgent()
        with named_in("opponents"):
            self.opponents: list[Agent] = [
                self._best if spec == AGENT else make_agent(spec) for spec in config.opponents
            ]
        self.rules = [at for at, name in enumerate(RULE_NAMES) if name not in FIXED]
        """The places of the rules whose weights are searched for."""
        for agent in (self.agent, self._best):
            agent.weights[self.rules] = START

    def run(self) -> None:
        """Search; the agent then has the weights found.

        Raises:
            KeyboardInterrupt: Ctrl-C; the agent has the best weights so far.
        """
        with StopRequest() as self._stop, tqdm(unit=" games", disable=not sys.stderr.isatty()) as self._bar:
            best = self._margins()
            for step in STEPS:
                for _ in range(ROUNDS):
                    before = self.agent.weights.copy()
                    for at in self.rules:
                        best = self._try(at, step, best)
                    if (self.agent.weights == before).all():
                        break

    def _try(self, at: int, step: float, best: NDArray[np.int64]) -> NDArray[np.int64]:
        """Try a rule's weight a step up, then down, and leave the better one; returns the margins with it."""
        weights = self.agent.weights
        before = weights[at]
        for after in (before + step, before - step):
            if after < STEPS[-1] - 1e-9:
                continue
            weights[at] = round(after, 6)
            try:
                margins = self._margins()
            except KeyboardInterrupt:
                weights[at] = before
                raise
            if _is_better(margins - best):
                self._bar.write(f"{RULE_NAMES[at]}: {before:.1f} -> {after:.1f}")
                self._best.weights[:] = weights
                return self._margins() if self._best in self.opponents else margins
        weights[at] = before
        return best

    def _margins(self) -> NDArray[np.int64]:
        """Points scored minus points conceded in each pair of games, (opponents x pairs,)."""
        pairs = self.config.games // 2
        margins = []
        for opponent in self.opponents:
            for games in play_blocks(self.agent, opponent, pairs, self.config.seed, stop=lambda: self._stop.asked):
                margin = games["scores"][:, 0].astype(np.int64) - games["scores"][:, 1]
                margins.append(margin[0::2] + margin[1::2])
                self._bar.update(len(games))
            if self._stop.asked:
                raise KeyboardInterrupt
        return np.concatenate(margins)


def _is_better(differences: NDArray[np.int64]) -> bool:
    """Whether the mean of the differences is above chance."""
    error = differences.std() / len(differences) ** 0.5
    return bool(differences.mean() > _CHANCE * error)


def rows(weights: Sequence[float]) -> list[Row]:
    """The rows of ``weights.csv``: the weights found, and those that the agent has."""
    return [
        {"rule": rule.name, "phase": rule.phase, "found": round(float(weight), 6), "agent": rule.weight}
        for rule, weight in zip(RULES, weights, strict=True)
    ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "--opponent",
        metavar="AGENT",
        action="append",
        help="an agent that is met; repeatable (default: expected, and rule_based: itself)",
    )
    games, seed = (WeightSearchConfig.model_fields[key].default for key in ("games", "seed"))
    parser.add_argument(
        "--games", type=int, default=games, help="against each opponent for every change tried (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=seed, help="of decks and agents (default: %(default)s)")
    add_output_arguments(parser, "results", "runs/weights", default="runs/weights")


def run(args: argparse.Namespace) -> int:
    """Search for the weights."""
    given = {"games": args.games, "seed": args.seed}
    if args.opponent:
        given["opponents"] = args.opponent
    config = parse_config(given, WeightSearchConfig, "cribbage analyse weights")
    search = WeightSearch(config)
    results = ResultTable(args.output, "weights.csv", config, args.overwrite)
    try:
        search.run()
    except KeyboardInterrupt:
        print("\nthe search was not finished", file=sys.stderr, end="")
        raise
    finally:
        found = rows(search.agent.weights.tolist())
        results.write(found)
        print(table([list(found[0]), *([str(cell) for cell in row.values()] for row in found)], left=2))
        print(f"\nwritten: {results.path}")
    return 0
