"""The external-sampling policy gradient: what is collected for plays and discards, and that it learns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import random_weights, write_sample
from training_samples import ESPG, small

from agents import make_agent
from agents.neural.agent import NeuralAgent, load_agent
from agents.neural.checkpoint import NetworkShape
from agents.neural.networks import ExactNetwork
from cribbage_env import Game
from cribbage_env.streams import combine_arrays
from experiments.tournament.match import play_match
from experiments.training.espg import EspgLearner
from experiments.training.league import ITSELF
from experiments.training.learner import Setup
from experiments.training.streams import DECKS, stream

CPU = torch.device("cpu")
SHAPE = NetworkShape((8, 8), (16, 8), False)


def learner(**changes: Any) -> EspgLearner:
    return EspgLearner(Setup(small(**changes), CPU, 1))


class Certain:
    """A network's scores so far apart that their softmax leaves no doubt."""

    def __init__(self, network: ExactNetwork) -> None:
        self._network = network

    def values(self, features: Any, known: Any) -> Any:
        return 1e8 * self._network.values(features, known)


def certain_agent(seed: int) -> NeuralAgent:
    weights = random_weights(SHAPE, seed)
    networks = {kind: Certain(ExactNetwork(weights[kind], CPU)) for kind in weights}
    return NeuralAgent("certain", networks, False)


def deal_by_hand(seed: int, dealer: int, agents: list[Any]) -> tuple[dict[int, float], dict[int, float]]:
    """Points of the play, and of the crib, to each seat, minus those of the other."""
    game = Game(seed=seed, dealer=dealer)
    while game.deal == 0:
        assert game.player is not None
        seen = game.observation()
        game.step(int(agents[game.player].act(seen["observation"][None], seen["action_mask"][None])[0]))
    plays, crib = ({0: 0.0, 1: 0.0} for _ in range(2))
    for event in game.events:
        if event.deal == 0:
            of = plays if event.kind in ("card", "go", "last") else crib if event.kind == "crib" else None
            if of is not None:
                of[event.player] += event.points
                of[1 - event.player] -= event.points
    return plays, crib


@pytest.mark.parametrize("share", [0.0, 0.6])
def test_a_discard_returns_the_play_the_average_hand_and_the_crib(share: float, tmp_path: Path) -> None:
    """With policies that leave no doubt, every traversal's value is that of the deal as it is played."""
    path = write_sample(tmp_path / "x.pt", seed=5)
    one = learner(
        collect={"epsilon": 0.0},
        learner=ESPG | {"temperature": 0.0, "tremble": 0.0},
        opponents={"agents": {str(path): share}},
    )
    agent, other = certain_agent(2), load_agent(str(path))
    numbers = np.arange(30, 90)
    part = one._collect(agent, numbers)
    seeds = combine_arrays(np.full(60, stream(one.config.seed, DECKS), np.uint64), numbers)
    opponents, own_seats = one.league.draw(numbers)
    assert (opponents == ITSELF).mean() == pytest.approx(1 - share, abs=0.2)
    expected: dict[bytes, float] = {}
    for number, seed, opponent, own_seat in zip(numbers, seeds, opponents, own_seats, strict=True):
        seats = [agent, agent]
        if opponent != ITSELF:
            seats[1 - int(own_seat)] = other
        dealer = int(number % 2)
        plays, crib = deal_by_hand(int(seed), dealer, seats)
        game = Game(seed=int(seed), dealer=dealer)
        for seat in (1 - dealer, dealer):
            seen = game.observation()
            observation, mask = seen["observation"][None], seen["action_mask"][None]
            action = int(seats[seat].act(observation, mask)[0])
            if opponent == ITSELF or seat == own_seat:
                candidates = agent.candidates(observation, mask)["discard"]
                features, known = candidates.features[action], candidates.known[action]
                total = plays[seat] + float(known[0]) + crib[seat]
                expected[number.tobytes() + features.tobytes() + known.tobytes()] = total
            game.step(action)
    thrown = part.thrown
    found = sorted(
        zip(
            (a.tobytes() + b.tobytes() for a, b in zip(thrown.features, thrown.known, strict=True)),
            thrown.returns.tolist(),
            strict=True,
        )
    )
    assert len(found) == len(expected)
    plain = sorted((key[8:], value) for key, value in expected.items())
    for (key, value), (same_key, same_value) in zip(found, plain, strict=True):
        assert key == same_key
        assert value == pytest.approx(same_value, abs=1e-4)


def test_only_the_learners_own_decisions_are_learned_from(tmp_path: Path) -> None:
    """Against a fixed agent there is one traversal a deal; in self-play there are two."""
    path = write_sample(tmp_path / "x.pt", seed=5)
    numbers = np.arange(200)
    parts = []
    for share in (0.0, 1.0):
        one = learner(learner=ESPG, opponents={"agents": {str(path): share}})
        parts.append(one._collect(one._collector(), numbers))
    itself, others = parts
    assert len(itself.thrown.returns) == 400
    assert len(others.thrown.returns) == 200
    assert len(itself.plays.beginnings) == 400
    assert len(others.plays.beginnings) == 200
    ratio = others.plays.weights.sum() / itself.plays.weights.sum()
    assert ratio == pytest.approx(0.5, abs=0.08)


def test_the_entropy_falls_geometrically_and_the_figures_are_said() -> None:
    one = learner(learner=ESPG | {"entropy": 0.4, "entropy_end": 0.1, "lr": 0.01})
    with ThreadPoolExecutor(2) as pool:
        figures = [one.iterate(iteration, progress, pool) for iteration, progress in enumerate((0.0, 0.5, 1.0))]
    assert [one["entropy_weight"] for one in figures] == pytest.approx([0.4, 0.2, 0.1])
    assert [one["lr"] for one in figures] == pytest.approx([0.01, 0.005, 0.0])
    assert set(one.columns) < set(figures[0])
    assert figures[0]["entropy"] == pytest.approx(np.log(2.5), abs=0.4)  # at first all plays are alike
    assert figures[0]["regret"] > 0.5
    assert figures[0]["decisions"] > 64 * 2


@pytest.mark.parametrize("rule", ["softmax", "neurd"])
def test_it_learns_to_beat_random_and_itself_untrained(rule: str) -> None:
    decisions_wanted = 200_000
    one = learner(
        collect={"games": 1024},
        network={"discard_hidden": [32, 16], "play_hidden": [32, 16]},
        learner={"algorithm": "espg", "batch_size": 512, "rule": rule},
    )
    untrained = one.agent("untrained")
    decisions = iteration = 0
    regrets = []
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        while decisions < decisions_wanted:
            figures = one.iterate(iteration, decisions / decisions_wanted, pool)
            regrets.append(figures["regret"])
            decisions += int(figures["decisions"])
            iteration += 1
    assert np.mean(regrets[-3:]) < 0.92 * regrets[0]
    trained = one.agent("trained")
    assert play_match(trained, make_agent("random"), 300, 1).win_rate.low > 0.93
    assert play_match(trained, untrained, 300, 1).win_rate.low > 0.6  # which discards well and plays at random
