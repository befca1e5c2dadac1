"""What learners share: steps of the optimiser, averages, batches, rates, states."""

from __future__ import annotations

import copy
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from neural_samples import some_positions
from training_samples import ESPG, same, small

from agents.neural.checkpoint import KINDS, NetworkShape
from agents.neural.features import play_candidates
from agents.neural.networks import ExactNetwork
from experiments.training.learner import PART, Learner, NotFinite, Setup, Trained, geometric
from experiments.training.ranks import Ranks
from experiments.training.run import make_learner

SHAPE = NetworkShape((8, 8), (8, 8), False)
CPU = torch.device("cpu")


def new_trained(average: float = 0.0, max_norm: float = 1e9, seed: int = 1) -> Trained:
    network = SHAPE.network("play", 1.0, torch.Generator().manual_seed(seed))
    return Trained(network, average, max_norm, Ranks(), "play")


def some_loss(one: Trained, step: int) -> torch.Tensor:
    """A squared error on a few plays, other ones at each step."""
    observations, masks = some_positions(8, 4, seed=step)
    candidates = play_candidates(observations, masks, False)
    scores = one.network(torch.from_numpy(candidates.features), torch.from_numpy(candidates.known))
    return (scores - torch.arange(len(candidates)) % 5).square().mean()


def learner(**changes: object) -> Learner:
    return make_learner(Setup(small(**changes), CPU, 1))


def test_a_step_is_adams() -> None:
    one = new_trained()
    plain = copy.deepcopy(one.network)
    optimiser = torch.optim.Adam(plain.parameters(), eps=1e-5)
    for step in range(4):
        loss = some_loss(one, step)
        observations, masks = some_positions(8, 4, seed=step)
        candidates = play_candidates(observations, masks, False)
        scores = plain(torch.from_numpy(candidates.features), torch.from_numpy(candidates.known))
        optimiser.zero_grad()
        (scores - torch.arange(len(candidates)) % 5).square().mean().backward()
        optimiser.param_groups[0]["lr"] = 0.01 * (step + 1)
        optimiser.step()
        one.step(loss, None, 0.01 * (step + 1))
    for name, tensor in plain.state_dict().items():
        assert torch.allclose(one.network.state_dict()[name], tensor, atol=1e-5), name


def test_a_gradient_by_the_scores_is_that_of_the_loss() -> None:
    one, other = new_trained(), new_trained()
    observations, masks = some_positions(8, 4)
    candidates = play_candidates(observations, masks, False)
    inputs = torch.from_numpy(candidates.features), torch.from_numpy(candidates.known)
    one.step((one.network(*inputs) - 1.0).square().sum(), None, 0.01)
    scores = other.network(*inputs)
    other.step(scores, 2 * (scores.detach() - 1.0), 0.01)
    assert same(one.state(), other.state())


def test_long_gradients_are_cut() -> None:
    """Adam's first moments are then those of a gradient of the greatest length."""
    one = new_trained(max_norm=0.5)
    one.step(1000 * some_loss(one, 1), None, 0.01)
    moments = [state["exp_avg"] for state in one.state()["optimiser"].values()]
    norm = torch.cat([moment.flatten() for moment in moments]).norm() / (1 - 0.9)
    assert float(norm) == pytest.approx(0.5, rel=1e-3)


def test_what_plays_is_the_moving_average_of_the_weights() -> None:
    one = new_trained(average=0.8)
    by_hand = {name: tensor.clone() for name, tensor in one.network.state_dict().items()}
    for step in range(5):
        one.step(some_loss(one, step), None, 0.02)
        for name, tensor in one.network.state_dict().items():
            by_hand[name] = 0.8 * by_hand[name] + 0.2 * tensor
    for name, tensor in one.played().items():
        assert torch.allclose(tensor, by_hand[name], atol=1e-6)
    assert not torch.allclose(one.played()["embeddings"], one.network.state_dict()["embeddings"], atol=1e-3)
    plain = new_trained()
    plain.step(some_loss(plain, 1), None, 0.02)
    assert same(plain.played(), plain.network.state_dict())


def test_a_gradient_that_is_no_number_changes_nothing() -> None:
    one = new_trained(average=0.5)
    one.step(some_loss(one, 1), None, 0.01)
    before = copy.deepcopy(one.state())
    with pytest.raises(NotFinite, match="the gradient of the play network became nan"):
        one.step(some_loss(one, 2) * float("nan"), None, 0.01)
    assert same(one.state(), before)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_going_on_from_a_state_is_as_if_nothing_had_been(average: float) -> None:
    whole, first, second = new_trained(average), new_trained(average), new_trained(average, seed=2)
    for step in range(6):
        whole.step(some_loss(whole, step), None, 0.02)
    for step in range(3):
        first.step(some_loss(first, step), None, 0.02)
    second.restore(copy.deepcopy(first.state()))
    for step in range(3, 6):
        second.step(some_loss(second, step), None, 0.02)
    assert same(whole.state(), second.state())
    assert same(whole.played(), second.played())


def test_states_of_other_networks_are_refused() -> None:
    wide = Trained(NetworkShape((8, 8), (16, 8), False).network("play", 1.0, torch.Generator()), 0.0, 1.0, Ranks(), "p")
    one = new_trained()
    one.step(some_loss(one, 1), None, 0.01)
    with pytest.raises(ValueError, match="the weights of the p network are of another shape"):
        wide.restore(one.state())
    spoilt = copy.deepcopy(one.state())
    spoilt["optimiser"]["wide"]["exp_avg"] = torch.zeros(3)
    with pytest.raises(ValueError, match="the optimiser's exp_avg of wide of the play network"):
        new_trained().restore(spoilt)
    del spoilt["optimiser"]["wide"]
    with pytest.raises(ValueError, match="the state of the optimiser of the play network"):
        new_trained().restore(spoilt)
    with pytest.raises(KeyError, match="average"):
        new_trained(average=0.5).restore(one.state())
    with pytest.raises(ValueError, match="there is no network 'play' in it"):
        learner().restore({"discard": one.state()})


@pytest.mark.parametrize("algorithm", ["dmc", "espg"])
def test_the_agent_plays_what_the_checkpoint_would_hold(algorithm: str) -> None:
    one = learner(learner={"algorithm": algorithm, "average": 0.5})
    with ThreadPoolExecutor(2) as pool:
        one.iterate(0, 0.0, pool)
    agent = one.agent("x")
    observations, masks = some_positions(20, 10)
    for kind, candidates in agent.candidates(observations, masks).items():
        exact = ExactNetwork(one.weights()[kind], CPU).values(candidates.features, candidates.known)
        assert (agent.network(kind).values(candidates.features, candidates.known) == exact).all()
    assert agent.choice == one.choice
    assert set(one.weights()) == set(KINDS)


def test_first_weights_follow_from_the_seed() -> None:
    one, again, other = learner(), learner(), learner(seed=4)
    assert same(one.state(), again.state())
    assert not torch.equal(one.weights()["play"]["embeddings"], other.weights()["play"]["embeddings"])


def test_batches_are_all_samples_once_in_an_order_of_their_own() -> None:
    one = learner(learner={"algorithm": "dmc", "batch_size": 100})
    batches = list(one.batches(950, 3, 1))
    assert len(batches) == 10
    assert Counter(np.concatenate(batches).tolist()) == Counter(range(950))
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    assert [batch.tolist() for batch in one.batches(950, 3, 1)] == [batch.tolist() for batch in batches]
    for other in ((4, 1), (3, 2), (3, 1, 1)):
        assert next(one.batches(950, *other)).tolist() != batches[0].tolist()
    assert sum(len(batch) for batch in one.batches(0, 3, 1)) == 0
    assert [len(batch) for batch in one.batches(7, 3, 1)] == [7]


def test_episodes_are_collected_in_parts_whose_order_is_kept() -> None:
    games = 2 * PART + 100
    for threads in (1, 3):
        one = make_learner(Setup(small(collect={"games": games}), CPU, threads))
        with ThreadPoolExecutor(3) as pool:
            parts = one.in_parts(2, pool, lambda numbers: numbers.copy())
        assert [len(part) for part in parts] == [PART, PART, 100]
        assert np.concatenate(parts).tolist() == list(range(2 * games, 3 * games))


def test_rates_fall_as_the_budget_is_spent() -> None:
    one = learner(learner=ESPG | {"lr": 0.01, "lr_end": 0.002})
    assert [one.lr(progress) for progress in (0.0, 0.5, 1.0)] == pytest.approx([0.01, 0.006, 0.002])
    assert geometric(0.4, 0.1, 0.5) == pytest.approx(0.2)
    assert [geometric(0.4, 0.1, progress) for progress in (0.0, 1.0, 1.5)] == pytest.approx([0.4, 0.1, 0.1])
    assert geometric(0.4, 0.0, 0.25) == pytest.approx(0.3)  # no ratio leads to zero
    assert geometric(0.0, 0.0, 0.5) == 0.0
