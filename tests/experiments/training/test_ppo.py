"""Proximal policy optimisation: its gradients, advantages and magnet, and that training with it can be repeated."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import write_sample
from training_samples import same, small

from agents.neural.agent import load_agent
from agents.neural.checkpoint import KINDS, checkpoint_bytes
from experiments.config import UserError
from experiments.train_config import TrainConfig
from experiments.training.collect import Decisions, collect
from experiments.training.league import League
from experiments.training.learner import Figures, NotFinite, Setup
from experiments.training.ppo import PpoLearner, advantages_of, policy_gradients
from experiments.training.run import make_learner

PPO: dict[str, Any] = {"algorithm": "ppo", "batch_size": 128, "subtract_luck": True}


def ppo(learner: dict[str, Any] | None = None, **changes: Any) -> TrainConfig:
    return small(learner=PPO | (learner or {}), **changes)


def make(config: TrainConfig, threads: int = 1) -> PpoLearner:
    learner = make_learner(Setup(config, torch.device("cpu"), threads))
    assert isinstance(learner, PpoLearner)
    return learner


def iterated(learner: PpoLearner, iterations: range, of: int = 4) -> list[Figures]:
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [learner.iterate(iteration, iteration / of, pool) for iteration in iterations]


def as_loaded(state: Any) -> Any:
    """A state, as it comes out of a checkpoint."""
    return torch.load(io.BytesIO(checkpoint_bytes(state)), weights_only=True)


# --- Gradients ----------------------------------------------------------------------------------------------


def plain_loss(
    scores: torch.Tensor,
    sizes: list[int],
    chosen: list[int],
    before: np.ndarray,
    advantages: np.ndarray,
    magnet: torch.Tensor,
    temperature: float,
    clip: float,
    tau: float,
    eta: float,
) -> torch.Tensor:
    """The loss as the literature writes it."""
    loss = torch.zeros((), dtype=torch.float64)
    for s, (own, towards) in enumerate(zip(scores.split(sizes), magnet.split(sizes), strict=True)):
        logs = torch.log_softmax(own / temperature, 0)
        ratio = logs[chosen[s]].exp() / before[s]
        loss = loss - torch.minimum(ratio * advantages[s], ratio.clamp(1 - clip, 1 + clip) * advantages[s])
        loss = loss + tau * (logs.exp() * logs).sum()
        loss = loss + eta * (logs.exp() * (logs - towards)).sum()
    return loss


@pytest.mark.parametrize("eta", [0.0, 0.4])
@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_gradients_are_those_of_autograd(eta: float, temperature: float) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 16, 400)
    first = np.concatenate([[0], np.cumsum(sizes)])
    scores = (temperature * rng.normal(size=first[-1])).astype(np.float32)
    chosen = rng.integers(0, sizes)
    logs = [
        torch.log_softmax(part / temperature, 0) for part in torch.from_numpy(scores).double().split(sizes.tolist())
    ]
    before = np.array([float(one[at].exp()) for one, at in zip(logs, chosen, strict=True)])
    before *= np.exp(rng.normal(scale=0.3, size=400))  # the ratios: in and out of the clip, on both sides
    advantages = rng.normal(scale=2, size=400).astype(np.float32)
    magnet = torch.cat([torch.log_softmax(torch.from_numpy(rng.normal(size=size)), 0) for size in sizes])
    magnet = magnet.float()
    found, totals = np.empty(len(scores), np.float32), np.zeros(5)
    policy_gradients(
        scores, first, chosen, before, advantages, magnet.numpy() if eta else np.zeros(0, np.float32),
        temperature, 0.2, 0.07, eta, found, totals,
    )  # fmt: skip
    leaf = torch.from_numpy(scores).double().requires_grad_()
    plain_loss(
        leaf, sizes.tolist(), chosen.tolist(), before, advantages, magnet.double(), temperature, 0.2, 0.07, eta
    ).backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-4, atol=1e-5)
    entropy = -sum(float((one.exp() * one).sum()) for one in logs)
    assert totals[0] == pytest.approx(entropy, rel=1e-5)
    assert 60 < totals[3] < 200
    assert totals[4] == 400


def test_the_gradient_vanishes_where_the_policy_is_a_softmax_of_values() -> None:
    """The mean over actions, with advantages q - V and the weight tau, where pi is in proportion to exp(q / tau)."""
    values, tau = np.array([0.5, -0.25, 1.0, 0.1]), 0.3
    scores = (values / tau).astype(np.float32)
    pi = np.exp(scores.astype(np.float64)) / np.exp(scores.astype(np.float64)).sum()
    mean = np.zeros(4)
    for action in range(4):
        advantage = np.array([values[action] - (pi * values).sum()], np.float32)
        out = np.empty(4, np.float32)
        policy_gradients(
            scores, np.array([0, 4]), np.array([action]), pi[action : action + 1], advantage, np.zeros(0, np.float32),
            1.0, 0.2, tau, 0.0, out, np.zeros(5),
        )  # fmt: skip
        mean += pi[action] * out
    assert np.abs(mean).max() < 1e-6


# --- Advantages ---------------------------------------------------------------------------------------------


def plain_advantages(
    samples: dict[str, Decisions], values: dict[str, np.ndarray], discount: float, decay: float
) -> dict[str, np.ndarray]:
    """By a dictionary of what each seat decided."""
    sequences: dict[tuple[int, int], list[tuple[int, str, int]]] = {}
    for kind, those in samples.items():
        for s in range(len(those)):
            sequences.setdefault((those.episodes[s], those.seats[s]), []).append((int(those.steps[s]), kind, s))
    found = {kind: np.full(len(those), np.nan) for kind, those in samples.items()}
    for sequence in sequences.values():
        sequence.sort()
        returns = [float(samples[kind].returns[s]) for _, kind, s in sequence] + [0.0]
        worth = [float(values[kind][s]) for _, kind, s in sequence] + [0.0]
        errors = [returns[t] - returns[t + 1] + discount * worth[t + 1] - worth[t] for t in range(len(sequence))]
        for t, (_, kind, s) in enumerate(sequence):
            found[kind][s] = sum((discount * decay) ** (u - t) * errors[u] for u in range(t, len(sequence)))
    return found


@pytest.mark.parametrize("episode", ["deal", "game"])
def test_advantages_are_those_of_a_plain_loop(episode: str, tmp_path: Path) -> None:
    of_games = {"collect": {"episode": "game", "reward": "win", "games": 64}, "rules": {"target": 31}}
    config = ppo({"subtract_luck": episode == "deal"}, **(of_games if episode == "game" else {}))
    agent = load_agent(str(write_sample(tmp_path / "x.pt")), temperature=1.0)
    samples = collect([agent], config, League(config), np.arange(60), epsilon=0.0)
    rng = np.random.default_rng(2)
    values = {kind: rng.normal(size=len(those)) for kind, those in samples.items()}
    most = max(np.unique(np.stack([samples["play"].episodes, samples["play"].seats]), axis=1, return_counts=True)[1])
    assert most == 3 if episode == "deal" else most > 6  # the last of four plays is never a choice
    for discount, decay in ((1.0, 1.0), (0.9, 0.7), (1.0, 0.0)):
        found = advantages_of(samples, values, discount, decay)
        expected = plain_advantages(samples, values, discount, decay)
        for kind in KINDS:
            np.testing.assert_allclose(found[kind], expected[kind], atol=1e-5)
    whole = advantages_of(samples, values, 1.0, 1.0)
    for kind in KINDS:  # the returns, less what was expected
        np.testing.assert_allclose(whole[kind], samples[kind].returns - values[kind], atol=1e-5)


# --- Learning -----------------------------------------------------------------------------------------------

both = pytest.mark.parametrize("discards", ["values", "policy"])


@both
def test_the_same_seed_gives_the_same_bytes_with_any_number_of_threads(discards: str) -> None:
    config = ppo({"magnet": 0.1, "passes": 2, "discards": discards}, collect={"games": 2100})  # in parts
    learners = [make(config, threads) for threads in (1, 2)]
    figures = [iterated(learner, range(1)) for learner in learners]
    assert checkpoint_bytes(learners[0].state()) == checkpoint_bytes(learners[1].state())
    for name in learners[0].columns:
        assert figures[0][0][name] == figures[1][0][name]


@pytest.mark.parametrize(("magnet", "discards"), [(0.0, "values"), (0.1, "policy")])
def test_going_on_from_a_state_equals_going_on(magnet: float, discards: str) -> None:
    # the magnet is renewed before the state and after it, and in between it is another policy than the one that learns
    config = ppo({"magnet": magnet, "magnet_every": 3, "average": 0.9, "discards": discards})
    unbroken, broken = make(config), make(config)
    iterated(unbroken, range(5), 5)
    iterated(broken, range(2), 5)
    state = as_loaded(broken.state())
    resumed = make(config)
    resumed.restore(state)
    iterated(resumed, range(2, 5), 5)
    assert same(as_loaded(unbroken.state()), as_loaded(resumed.state()))
    assert ("magnet" in state) == (magnet > 0)
    assert ("critic_discard" in state) == (discards == "policy")


def test_the_state_of_another_run_is_refused() -> None:
    state = as_loaded(make(ppo({"magnet": 0.1})).state())
    with pytest.raises(ValueError, match="critic_play"):
        make(ppo()).restore({name: one for name, one in state.items() if name != "critic_play"})
    with pytest.raises(ValueError, match="critic_discard"):
        make(ppo({"discards": "policy"})).restore(state)
    del state["magnet"]
    with pytest.raises(KeyError, match="magnet"):
        make(ppo({"magnet": 0.1})).restore(state)


def test_the_magnet_is_renewed_in_time_and_holds_the_policy() -> None:
    """How far a policy is from where it was when the magnet was renewed, in iterations 0 to 3 of a magnet for three."""
    settings = {"magnet_every": 3, "lr": 0.02, "entropy": 0.01, "entropy_end": 0.01}
    free, held = (
        [
            one["magnet_play"]
            for one in iterated(make(ppo(settings | {"magnet": magnet}, collect={"games": 512})), range(4))
        ]
        for magnet in (0.001, 5.0)
    )
    assert free[0] < free[1] < free[2]
    assert free[3] < 0.5 * free[2]
    assert held[2] < 0.3 * free[2]


@both
def test_critics_learn_and_policies_sharpen(discards: str) -> None:
    settings = {"entropy": 0.02, "entropy_end": 0.02, "lr": 0.01, "discards": discards}
    learner = make(ppo(settings, collect={"games": 1024}))
    figures = iterated(learner, range(6), 10)
    assert figures[-1]["explained_play"] > figures[0]["explained_play"] + 0.05
    assert figures[-1]["entropy_play"] < 0.9 * figures[0]["entropy_play"]
    assert np.log(2) < figures[0]["entropy_play"] < np.log(4)  # it begins by any card of two to four
    assert all(np.isfinite(list(one.values())).all() for one in figures)
    assert set(learner.columns) <= set(figures[0])


def test_discards_by_their_values_are_drawn_the_more_sharply_the_less_entropy_weighs() -> None:
    collected = []
    for tau in (2.0, 0.1, 0.0):
        learner = make(ppo({"entropy": tau, "discard_entropy": 0.5}))
        with ThreadPoolExecutor(1) as pool:
            parts = learner._collect(0, learner._sampling(tau), pool)
        discards = parts[0]["discard"].decisions
        scores = learner.trained["discard"].fast().values(discards.features, discards.known).reshape(-1, 15)
        weights = np.exp((scores - scores.max(axis=1, keepdims=True)) / max(0.5 * tau, 1e-9))
        expected = weights / weights.sum(axis=1, keepdims=True)
        if tau > 0:
            np.testing.assert_allclose(discards.probabilities.reshape(-1, 15), expected, atol=1e-6)
        collected.append(discards.probabilities.reshape(-1, 15).max(axis=1).mean())
    assert collected[0] < 0.6 < collected[1] < collected[2] == 1.0


def test_against_others_only_its_own_decisions_are_learned_from() -> None:
    itself = iterated(make(ppo()), range(1))[0]
    learner = make(ppo({"magnet": 0.1}, opponents={"agents": {"greedy": 0.5, "expected": 0.5}}))
    figures = iterated(learner, range(3))
    assert 0.45 < figures[0]["decisions"] / itself["decisions"] < 0.55
    assert all(np.isfinite(list(one.values())).all() for one in figures)


@pytest.mark.parametrize("name", ["play", "critic_play", "discard"])
def test_what_is_no_number_is_said(name: str) -> None:
    learner = make(ppo())
    with torch.no_grad():
        learner.trained[name].network.out_bias.fill_(float("nan"))
    with pytest.raises(NotFinite, match="network became nan"):
        iterated(learner, range(1))


def test_luck_is_not_subtracted_in_whole_games() -> None:
    with pytest.raises(UserError, match=r"subtract_luck needs collect\.episode: deal, got game"):
        ppo(collect={"episode": "game", "reward": "win"})
