"""Monte Carlo value learning: what is regressed on what, and that it learns."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from training_samples import small

from agents import make_agent
from agents.neural.choice import BEST, Choice
from experiments.tournament.match import play_match
from experiments.training.collect import collect
from experiments.training.dmc import DmcLearner, value_regression
from experiments.training.learner import Setup

CPU = torch.device("cpu")


def learner(**changes: Any) -> DmcLearner:
    return DmcLearner(Setup(small(**changes), CPU, 1))


def test_values_begin_as_the_points_that_are_known() -> None:
    points = learner()
    assert points.trained["play"].network.known_weight.tolist() == [1.0]
    assert points.trained["discard"].network.known_weight.tolist() == [1.0, 1.0]
    seen = collect([points.agent("x")], points.config, points.league, np.arange(20))["discard"]
    values = points.agent("x").network("discard").values(seen.features, seen.known)
    assert values == pytest.approx(seen.known.sum(axis=1), abs=1e-3)


def test_the_temperature_is_that_of_the_agent() -> None:
    assert learner().choice == BEST
    assert learner(learner={"algorithm": "dmc", "temperature": 0.3}).choice == Choice(0.0, 0.3)


def test_the_regression_finds_the_means() -> None:
    """Of returns that depend on a known number alone, with noise that is new each time."""
    one = learner(learner={"algorithm": "dmc", "batch_size": 256})
    samples = collect([one.agent("x")], one.config, one.league, np.arange(400))["play"]
    taken = samples.taken
    features, known = samples.features[taken], samples.known[taken]
    mean = 3.0 - 2.0 * known[:, 0]
    rng = np.random.default_rng(1)
    losses = []
    for iteration in range(30):
        returns = (mean + rng.normal(size=len(mean))).astype(np.float32)
        losses.append(
            value_regression(one, "play", features, known, returns, 0.03 * (1 - iteration / 30), 1, iteration, 0)
        )
    assert losses[0] > 5
    assert np.mean(losses[-5:]) == pytest.approx(1.0, abs=0.3)  # what is left is the noise
    values = one.agent("x").network("play").values(features, known)
    assert np.abs(values - mean).mean() < 0.4
    assert value_regression(one, "play", features[:0], known[:0], returns[:0], 0.03, 1, 0, 0) == 0.0


def test_figures_are_of_the_samples_before_learning() -> None:
    """The error of the first batch, if it holds all: that of the networks as they were."""
    one = learner(collect={"games": 64}, learner={"algorithm": "dmc", "batch_size": 100_000})
    samples = collect([one.agent("x")], one.config, one.league, np.arange(64))
    expected = {}
    for kind, those in samples.items():
        values = one.agent("x").network(kind).values(those.features[those.taken], those.known[those.taken])
        expected[kind] = float(np.square(values - those.returns).mean()), float(those.returns.var(dtype=np.float64))
    with ThreadPoolExecutor(2) as pool:
        figures = one.iterate(0, 0.0, pool)
    for kind, (error, variance) in expected.items():
        assert figures[f"loss_{kind}"] == pytest.approx(error, rel=1e-3)
        assert figures[f"explained_{kind}"] == pytest.approx(1 - error / variance, abs=1e-3)
    assert figures["decisions"] == sum(len(those) for those in samples.values())
    assert figures["games"] == 64
    assert set(one.columns) < set(figures)


def test_it_learns_to_beat_random_and_itself_untrained() -> None:
    decisions_wanted = 200_000
    one = learner(
        collect={"games": 1024},
        network={"discard_hidden": [32, 16], "play_hidden": [32, 16]},
        learner={"algorithm": "dmc", "batch_size": 256, "subtract_luck": True},
    )
    untrained = one.agent("untrained")
    losses = []
    decisions = iteration = 0
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        while decisions < decisions_wanted:
            figures = one.iterate(iteration, decisions / decisions_wanted, pool)
            losses.append((figures["loss_discard"], figures["loss_play"]))
            decisions += int(figures["decisions"])
            iteration += 1
    assert losses[-1][0] < 0.9 * losses[0][0]
    assert losses[-1][1] < 0.95 * losses[0][1]
    trained = one.agent("trained")
    assert play_match(trained, make_agent("random"), 300, 1).win_rate.low > 0.95
    assert play_match(trained, untrained, 600, 1).win_rate.low > 0.52  # which takes the points that are known
