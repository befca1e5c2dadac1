"""The reduced game against plain Python, and that every learner solves it: that learning works at all."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from plain_play import Hand, Play, begin, lay, pass_turn
from reduced_configs import reduced_config
from small_game_solvers import Chances, solve_by_linear_program

from agents import load_modules
from agents.base import Agent, Masks, Observations
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.neural.checkpoint import read_checkpoint
from cribbage_env import field
from cribbage_env.cards import RANKS
from experiments.training.learner import Learner, Setup
from experiments.training.reduced import ReducedGame
from experiments.training.run import LEARNERS, Run, make_learner

Rule = Callable[[Hand, int | None], dict[int, float]]
"""The ranks held, and the lead that is answered (None: a lead is chosen) -> probabilities by rank."""


def highest(own: Hand, lead: int | None) -> dict[int, float]:
    return {max(own): 1.0}


def mixed(own: Hand, lead: int | None) -> dict[int, float]:
    return {min(own): 0.3, max(own): 0.7}


def pairs_or_low(own: Hand, lead: int | None) -> dict[int, float]:
    return {lead if lead in own else min(own): 1.0}


def answers_only(own: Hand, lead: int | None) -> dict[int, float]:
    """Leads a four, makes fifteen if it can."""
    if lead is None:
        return {3: 1.0} if 3 in own else {max(own): 0.6, min(own): 0.4}
    fits = [rank for rank in own if rank + lead + 2 == 15]
    return {fits[0]: 1.0} if fits else {max(own): 1.0}


RULES: list[Rule] = [highest, mixed, pairs_or_low, answers_only]


class RuleAgent(Agent):
    """Plays by a rule."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(rule.__name__)
        self._rule = rule

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        policy = np.zeros(masks.shape)
        for row, mask, likely in zip(observations, masks, policy, strict=True):
            legal = {slot: int(field(row, "kept")[slot]) // 4 for slot in range(4) if mask[15 + slot]}
            laid = int(field(row, "num_laid")[0])
            lead = int(field(row, "laid")[laid - 1]) // 4 if laid > int(field(row, "count_begin")[0]) else None
            own = tuple(int(card) // 4 for card, left in zip(*self._hand(row), strict=True) if left)
            for rank, probability in self._rule(own, lead).items():
                slots = [slot for slot, one in legal.items() if one == rank]
                for slot in slots:  # in equal parts
                    likely[15 + slot] = probability / len(slots)
        return policy

    @staticmethod
    def _hand(row: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        return field(row, "kept"), field(row, "left")


def chances_of(ranks: str) -> Chances:
    """The hands of pone and dealer, dealt at random from four cards of each rank."""
    pack = [4 * RANKS.index(rank) + suit for rank in ranks for suit in range(4)]
    chances: Chances = {}
    for pone in combinations(pack, 2):
        for dealer in combinations([card for card in pack if card not in pone], 2):
            hands = tuple(sorted(card // 4 for card in pone)), tuple(sorted(card // 4 for card in dealer))
            chances[hands] = chances.get(hands, 0.0) + 1.0
    total = sum(chances.values())
    return {hands: ways / total for hands, ways in chances.items()}


def to_the_end(play: Play) -> int:
    """The pone's points minus the dealer's when both have one card left, and so no choice."""
    while not play.over:
        options = play.options()
        play = lay(play, options[0]) if options else pass_turn(play)
    return play.margin


def margin(pone: Hand, dealer: Hand, lead: int, reply: int) -> int:
    play = lay(begin(pone, dealer), lead)
    assert play.turn == 1
    return to_the_end(lay(play, reply))


def best_responses(chances: Chances, rule: Rule) -> tuple[float, float]:
    """What pone, and what the dealer makes by the best answers to a rule: every answer of every infoset is tried."""
    leads: dict[tuple[Hand, int], float] = {}  # infoset of pone, action -> its part of the value
    replies: dict[tuple[Hand, int, int], float] = {}  # of the dealer: hand and lead, action
    for (pone, dealer), chance in chances.items():
        for lead in set(pone):
            of_lead = rule(pone, None).get(lead, 0.0) if len(set(pone)) > 1 else 1.0
            for reply in set(dealer):
                of_reply = rule(dealer, lead).get(reply, 0.0) if len(set(dealer)) > 1 else 1.0
                points = chance * margin(pone, dealer, lead, reply)
                leads[pone, lead] = leads.get((pone, lead), 0.0) + of_reply * points
                replies[dealer, lead, reply] = replies.get((dealer, lead, reply), 0.0) - of_lead * points
    best_pone: dict[Hand, float] = {}
    for (pone, _), value in leads.items():
        best_pone[pone] = max(best_pone.get(pone, -np.inf), value)
    best_dealer: dict[tuple[Hand, int], float] = {}
    for (dealer, lead, _), value in replies.items():
        best_dealer[dealer, lead] = max(best_dealer.get((dealer, lead), -np.inf), value)
    return sum(best_pone.values()), sum(best_dealer.values())


@pytest.mark.parametrize("ranks", ["4567", "29Q"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_exploitability_is_that_of_a_plain_best_response(rule: Rule, ranks: str) -> None:
    game = ReducedGame(ranks)
    agent = RuleAgent(rule)
    expected = best_responses(chances_of(ranks), rule)
    found = exploitability(game.walker, *game.policy(agent))
    assert (found.pone, found.dealer) == pytest.approx(expected, abs=1e-5)
    assert game.exploitability(agent) == pytest.approx(sum(expected) / 2, abs=1e-5)
    assert game.exploitability(agent) > 0.01


def test_the_value_is_that_of_a_linear_program_and_the_solvers_policy_is_not_exploitable() -> None:
    for ranks in ("4567", "29Q"):
        game = ReducedGame(ranks)
        solution = solve_by_linear_program(chances_of(ranks))
        assert game.value() == pytest.approx(solution.value, abs=2e-3)
        solver = Solver(game.tree, game.walker.weights, 1)
        for _ in range(300):
            solver.iterate()
        assert exploitability(game.walker, solver.policy()).mean < 2e-3
        assert play_value(game.walker, solver.policy()) == pytest.approx(solution.value, abs=2e-3)
        uniform = RuleAgent(lambda own, lead: {rank: own.count(rank) / len(own) for rank in own})
        assert exploitability(game.walker, *game.policy(uniform)).mean > 0.1


def trained(algorithm: str, **changes: Any) -> Learner:
    """What comes of the config of the reduced game, without a run around it."""
    config = reduced_config(algorithm, **changes)
    load_modules(config.modules)
    learner = make_learner(Setup(config, torch.device("cpu"), 1))
    assert config.budget.decisions is not None
    decisions = iteration = 0
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            while decisions < config.budget.decisions:
                figures = learner.iterate(iteration, decisions / config.budget.decisions, pool)
                assert all(np.isfinite(figure) for figure in figures.values())
                decisions += int(figures["decisions"])
                iteration += 1
    finally:
        torch.set_num_threads(threads)
    return learner


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        *((algorithm, {}) for algorithm in LEARNERS),
        pytest.param("ppo", {"magnet": 0.1}, id="ppo, magnet", marks=pytest.mark.slow),
    ],
)
def test_a_learner_solves_the_reduced_game(algorithm: str, changes: dict[str, Any]) -> None:
    """To 0.02 points a deal, of what plays: a best response wins no more against it."""
    game = ReducedGame("4567")
    agent = trained(algorithm, learner=changes).agent("trained")
    assert game.exploitability(agent) < 0.02
    assert play_value(game.walker, *game.policy(agent)) == pytest.approx(game.value(), abs=0.02)


@pytest.mark.parametrize("algorithm", LEARNERS)
def test_a_run_without_discards(algorithm: str, tmp_path: Path) -> None:
    """The whole way: no discard is ever made, and all figures and weights are numbers; the exploitability is noted."""
    config = reduced_config(
        algorithm,
        output=str(tmp_path / "run"),
        collect={"games": 64},
        budget={"decisions": 500},
        evaluation={"opponents": [], "exploitability": {}},
    )
    run = Run(config)
    assert run.train()
    assert run.exploitability is not None
    assert 0.0 < run.exploitability < 2.0
    content = read_checkpoint(tmp_path / "run")
    assert content["training"]["decisions"] >= 500
    assert f"exploitability of the play: {run.exploitability:.4f} points a deal" in run.report()
