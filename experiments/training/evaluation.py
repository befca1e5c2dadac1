"""What a run measures of its learner: matches on duplicate deals, and the exact exploitability of its play."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

from agents import Agent, make_agent, named_in
from agents.equilibrium.infosets import agent_policy
from agents.equilibrium.prior import UNIFORM
from agents.equilibrium.solver import exploitability
from agents.equilibrium.traverse import Walker
from agents.equilibrium.tree_cache import load_tree
from agents.neural.agent import NeuralAgent
from experiments.analysis.exploit import OWN, KeptHands
from experiments.tournament.match import play_match
from experiments.tournament.statistics import Estimate
from experiments.train_config import TrainConfig
from experiments.training.reduced import ReducedGame
from experiments.training.streams import CONFIRMATION, EVALUATION, stream

EXPLOITABILITY = "exploitability"


@dataclass(frozen=True)
class Evaluation:
    """A match of the agent that learns."""

    opponent: str
    games: int
    win_rate: Estimate


class Evaluator:
    """Evaluates a run's agent.

    Args:
        config: of the run.
        threads: for the exploitability.

    Raises:
        AgentError: an opponent or prior that is none.
    """

    def __init__(self, config: TrainConfig, threads: int) -> None:
        self._config = config
        self._threads = threads
        with named_in("evaluation.opponents"):
            self._opponents = [make_agent(spec) for spec in config.evaluation.opponents]
        settings = config.evaluation.exploitability
        if settings is not None and settings.prior not in (OWN, UNIFORM):
            with named_in("evaluation.exploitability.prior"):
                make_agent(settings.prior)  # an unknown one is said at once
        self._hands: KeptHands | None = None  # of a prior that does not change

    def matches(self, agent: Agent, final: bool, stop: Callable[[], bool], pool: Executor) -> list[Evaluation]:
        """Play the opponents, always on the same deals."""
        games = self._config.evaluation.final_games if final else self._config.evaluation.games
        seed = stream(self._config.seed, EVALUATION)
        rates = list(pool.map(lambda one: self._match(agent, one, games, seed, stop), self._opponents))
        return [Evaluation(opponent.name, games, rate) for opponent, rate in zip(self._opponents, rates, strict=True)]

    def confirm(self, agent: Agent, opponent: str, stop: Callable[[], bool]) -> Estimate:
        """A match with deals that no evaluation has used."""
        number = self._config.evaluation.opponents.index(opponent)
        return self._match(
            agent,
            self._opponents[number],
            self._config.evaluation.final_games,
            stream(self._config.seed, CONFIRMATION),
            stop,
        )

    def _match(self, agent: Agent, opponent: Agent, games: int, seed: int, stop: Callable[[], bool]) -> Estimate:
        rules = self._config.rules.rules()
        return play_match(agent, opponent, games // 2, seed, rules=rules, stop=stop).win_rate

    def exploitability(self, agent: NeuralAgent) -> float:
        """The exact exploitability of an agent's play, in points a deal (of a reduced game, if the config has one)."""
        reduced = self._config.collect.reduced
        if reduced is not None:
            return ReducedGame(reduced.ranks).exploitability(agent)
        settings = self._config.evaluation.exploitability
        assert settings is not None
        hands = self._hands
        if hands is None:
            hands = KeptHands(settings.prior, [agent], None, self._threads)
            self._hands = hands if settings.prior != OWN else None
        tree = load_tree()
        policy = agent_policy(agent, tree, throws=hands.throws[0], kept=hands.kept(0), samples=settings.samples)
        return exploitability(Walker(tree, hands.weights(0, 0), self._threads), *policy).mean
