"""Runs that go on from other weights (``network.start``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from neural_samples import write_sample

from agents.neural.checkpoint import KINDS, read_checkpoint
from experiments.config import UserError, parse_config
from experiments.train_config import TrainConfig
from experiments.training.learner import Setup
from experiments.training.run import make_learner


def setup(start: str, algorithm: str = "espg", **network: Any) -> Setup:
    data = {"budget": {"decisions": 1}, "network": {**network, "start": start}, "learner": {"algorithm": algorithm}}
    return Setup(parse_config(data, TrainConfig, "here"), torch.device("cpu"), 1)


@pytest.mark.parametrize("algorithm", ["dmc", "espg"])
def test_a_run_begins_with_the_weights_of_a_checkpoint(tmp_path: Path, algorithm: str) -> None:
    path = write_sample(tmp_path / "sample.pt")
    shape = read_checkpoint(path)["network"]
    learner = make_learner(  # the sample doesn't say which learner it is of
        setup(str(path), algorithm, discard_hidden=shape["discard_hidden"], play_hidden=shape["play_hidden"])
    )
    for kind in KINDS:
        for name, weight in read_checkpoint(path)["weights"][kind].items():
            assert torch.equal(learner.weights()[kind][name], weight)


def test_it_can_begin_with_the_published_agent() -> None:
    learner = make_learner(setup("neural", discard_hidden=[32, 32], play_hidden=[128, 32]))
    assert learner.weights()["play"]["wide"].count_nonzero() > 100_000


def test_weights_of_another_kind_are_refused() -> None:
    with pytest.raises(
        UserError, match=r"network\.start: 'neural' was learned by espg, .* logits; those of dmc are va"
    ):
        make_learner(setup("neural", "dmc", discard_hidden=[32, 32], play_hidden=[128, 32]))


def test_weights_of_another_shape_are_refused() -> None:
    with pytest.raises(UserError, match=r"network\.start: 'neural' .* the discard network are of another shape"):
        make_learner(setup("neural", discard_hidden=[16, 16], play_hidden=[128, 32]))
