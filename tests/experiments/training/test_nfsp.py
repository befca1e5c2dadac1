"""Neural fictitious self-play: its memory, what goes into it, imitation, and that training with it can be repeated."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import some_positions
from training_samples import same, small

from agents.neural.checkpoint import KINDS, checkpoint_bytes
from agents.neural.features import discard_candidates, discard_features, play_candidates, play_features
from experiments.config import UserError
from experiments.train_config import TrainConfig
from experiments.training.collect import Decisions
from experiments.training.learner import Figures, NotFinite, Setup
from experiments.training.nfsp import NfspLearner, imitation_gradients
from experiments.training.reservoir import Remembered, Reservoir
from experiments.training.run import make_learner

NFSP: dict[str, Any] = {
    "algorithm": "nfsp", "batch_size": 64, "subtract_luck": True, "policy_steps": 4, "memory": 400
}  # fmt: skip


def nfsp(learner: dict[str, Any] | None = None, **changes: Any) -> TrainConfig:
    return small(learner=NFSP | (learner or {}), **changes)


def make(config: TrainConfig, threads: int = 1) -> NfspLearner:
    learner = make_learner(Setup(config, torch.device("cpu"), threads))
    assert isinstance(learner, NfspLearner)
    return learner


def iterated(learner: NfspLearner, iterations: range, of: int = 4) -> list[Figures]:
    with ThreadPoolExecutor(2, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [learner.iterate(iteration, iteration / of, pool) for iteration in iterations]


def as_loaded(state: Any) -> Any:
    """A state, as it comes out of a checkpoint."""
    return torch.load(io.BytesIO(checkpoint_bytes(state)), weights_only=True)


# --- The memory ---------------------------------------------------------------------------------------------


def positions(kind: str, scores: bool) -> Remembered:
    """Decisions of random play, any of their candidates the best."""
    observations, masks = some_positions(30, 40)
    if kind == "discard":
        candidates = discard_candidates(observations, scores)
    else:
        candidates = play_candidates(observations, masks, scores)
    sizes = np.diff(candidates.bounds())
    best = np.random.default_rng(1).integers(0, sizes)
    return Remembered(candidates.features, candidates.known, sizes, best)


def part(decisions: Remembered, begin: int, end: int) -> Remembered:
    first = np.concatenate([[0], np.cumsum(decisions.sizes)])
    rows = slice(first[begin], first[end])
    return Remembered(
        decisions.features[rows], decisions.known[rows], decisions.sizes[begin:end], decisions.best[begin:end]
    )


def equal(one: Remembered, other: Remembered) -> bool:
    names = ("features", "known", "sizes", "best")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def numbered(begin: int, end: int) -> Remembered:
    """Plays with one candidate each, which tell their number."""
    features = np.zeros((end - begin, play_features(False).active + 1), np.int32)
    slots = [values for count, values in play_features(False).slots.values() for _ in range(count)]
    features[:, :-1] = np.cumsum([0, *slots])[:-1]
    known = np.arange(begin, end, dtype=np.float32)[:, None]
    return Remembered(features, known, np.ones(end - begin, np.int64), np.zeros(end - begin, np.int64))


@pytest.mark.parametrize("scores", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_decisions_come_out_of_the_memory_as_they_went_in(kind: str, scores: bool) -> None:
    features = discard_features(scores) if kind == "discard" else play_features(scores)
    decisions = positions(kind, scores)
    count = len(decisions.sizes)
    assert count > 100
    memory = Reservoir(count + 5, features, 15 if kind == "discard" else 4, key=1)
    for begin, end in ((0, 7), (7, 7), (7, 60), (60, count)):
        memory.offer(part(decisions, begin, end))
    assert len(memory) == count
    assert equal(memory.take(np.arange(count)), decisions)
    some = np.array([9, 3, 3, count - 1])
    taken = memory.take(some)
    first = np.concatenate([[0], np.cumsum(taken.sizes)])
    for at, place in enumerate(some):
        assert equal(part(taken, at, at + 1), part(decisions, place, place + 1))
    assert first[-1] == len(taken.features)


def test_the_memory_is_the_same_whatever_the_parts_in_which_it_was_offered() -> None:
    memories = [Reservoir(50, play_features(False), 4, key=7) for _ in range(3)]
    for memory, step in zip(memories, (1, 64, 1000), strict=True):
        for begin in range(0, 1000, step):
            memory.offer(numbered(begin, min(begin + step, 1000)))
    kept = [memory.take(np.arange(50)).known[:, 0].tolist() for memory in memories]
    assert kept[0] == kept[1] == kept[2]
    assert len(set(kept[0])) == 50
    assert len(memories[0]) == 50
    assert memories[0].offered == 1000


def test_every_decision_is_kept_equally_often() -> None:
    kept = np.zeros(400)
    for key in range(400):
        memory = Reservoir(40, play_features(False), 4, key)
        for begin in range(0, 400, 100):
            memory.offer(numbered(begin, begin + 100))
        kept[memory.take(np.arange(40)).known[:, 0].astype(int)] += 1
    assert kept.sum() == 400 * 40
    expected, spread = 40.0, np.sqrt(400 * 0.1 * 0.9)
    assert np.abs(kept - expected).max() < 5 * spread
    for quarter in kept.reshape(4, 100).mean(axis=1):
        assert abs(quarter - expected) < 4 * spread / 10
    assert 0.7 < kept.std() / spread < 1.3


def test_what_is_drawn_from_the_memory() -> None:
    memory = Reservoir(1000, play_features(False), 4, key=5)
    for begin in range(0, 5000, 500):
        memory.offer(numbered(begin, begin + 500))
    rng = np.random.default_rng(1)
    alike, later = (memory.take(memory.draw(rng, 40_000, linear)).known[:, 0] / 5000 for linear in (False, True))
    assert alike.mean() == pytest.approx(1 / 2, abs=0.03)
    assert later.mean() == pytest.approx(2 / 3, abs=0.03)
    shares = np.histogram(later, bins=4, range=(0, 1))[0] / len(later)
    np.testing.assert_allclose(shares, np.array([1, 3, 5, 7]) / 16, atol=0.03)


def test_a_memory_goes_on_from_its_state() -> None:
    decisions = positions("play", False)
    unbroken, broken = (Reservoir(90, play_features(False), 4, key=3) for _ in range(2))
    unbroken.offer(decisions)
    broken.offer(part(decisions, 0, 120))
    state = as_loaded(broken.state())
    resumed = Reservoir(90, play_features(False), 4, key=3)
    resumed.restore(state)
    resumed.offer(part(decisions, 120, len(decisions.sizes)))
    assert same(as_loaded(unbroken.state()), as_loaded(resumed.state()))
    assert equal(unbroken.take(np.arange(90)), resumed.take(np.arange(90)))
    size = len(checkpoint_bytes(unbroken.state()))
    assert abs(size - unbroken.nbytes) < 4000
    assert unbroken.nbytes < 90 * 4 * 30
    with pytest.raises(ValueError, match="another size"):
        Reservoir(80, play_features(False), 4, key=3).restore(state)
    with pytest.raises(ValueError, match="other features"):
        Reservoir(90, play_features(True), 4, key=3).restore(state)
    with pytest.raises(ValueError, match="other decisions"):
        Reservoir(90, discard_features(False), 15, key=3).restore(state)


# --- Gradients ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.2])
def test_imitation_has_the_gradients_of_autograd(temperature: float) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 16, 300)
    scores = (temperature * rng.normal(size=sizes.sum())).astype(np.float32)
    best = rng.integers(0, sizes)
    found, totals = np.empty(len(scores), np.float32), np.zeros(3)
    imitation_gradients(scores, np.concatenate([[0], np.cumsum(sizes)]), best, temperature, found, totals)
    leaf = torch.from_numpy(scores).double().requires_grad_()
    loss = torch.zeros((), dtype=torch.float64)
    for own, at in zip(leaf.split(sizes.tolist()), best.tolist(), strict=True):
        loss = loss - torch.log_softmax(own / temperature, 0)[at]
    loss.backward()  # type: ignore[no-untyped-call]
    assert leaf.grad is not None
    np.testing.assert_allclose(found, leaf.grad.numpy(), rtol=1e-4, atol=1e-5)
    assert totals[0] == pytest.approx(float(loss.detach()), rel=1e-5)
    assert totals[2] == 300


# --- Learning -----------------------------------------------------------------------------------------------


def collected(config: TrainConfig) -> tuple[NfspLearner, dict[str, Decisions]]:
    learner = make(config)
    with ThreadPoolExecutor(2) as pool:
        return learner, learner._collect(0, pool)


def test_seats_play_their_best_response_as_often_as_said() -> None:
    _, samples = collected(nfsp({"anticipatory": 0.3}, collect={"games": 1000}))
    discards = samples["discard"]
    answers = (discards.policies == 0).reshape(1000, 2)
    assert abs(answers.mean() - 0.3) < 0.05
    assert abs((answers[:, 0] & answers[:, 1]).mean() - 0.09) < 0.03  # each seat by itself
    seated = dict(zip(zip(discards.episodes, discards.seats, strict=True), discards.policies, strict=True))
    plays = samples["play"]
    for episode, seat, policy in zip(plays.episodes, plays.seats, plays.policies, strict=True):
        assert seated[episode, seat] == policy  # for the whole episode


def test_only_best_responses_explore_and_what_is_remembered_is_their_best() -> None:
    config = nfsp({"anticipatory": 0.5, "memory": 100_000}, collect={"games": 500, "epsilon": 0.4})
    learner, samples = collected(config)
    iterated(learner, range(1))
    for kind in KINDS:
        those = samples[kind]
        first = those.first
        expected = []
        for s in np.flatnonzero(those.policies == 0):
            probabilities = those.probabilities[first[s] : first[s + 1]]
            assert np.allclose(np.sort(probabilities)[:-1], 0.4 / len(probabilities))
            expected.append(int(probabilities.argmax()))
        memory = learner._memory[kind]
        remembered = memory.take(np.arange(len(memory)))
        assert remembered.best.tolist() == expected
        strayed = (those.chosen[those.policies == 0] != np.array(expected)).mean()
        assert strayed > 0.1
    untrained = samples["play"].probabilities[np.repeat(samples["play"].policies, samples["play"].sizes) == 1]
    assert np.allclose(untrained, 1.0 / np.repeat(samples["play"].sizes, samples["play"].sizes)[
        np.repeat(samples["play"].policies, samples["play"].sizes) == 1
    ])  # fmt: skip


def test_the_average_policy_comes_to_imitate_best_responses() -> None:
    learner = make(nfsp({"policy_steps": 30, "policy_lr": 0.01, "lr": 0.003}, collect={"games": 512}))
    figures = iterated(learner, range(6), 8)
    for kind in KINDS:
        assert figures[-1][f"loss_policy_{kind}"] < 0.8 * figures[0][f"loss_policy_{kind}"]
    assert figures[-1]["explained_play"] > figures[0]["explained_play"]
    assert set(learner.columns) <= set(figures[0])
    assert all(np.isfinite(list(one.values())).all() for one in figures)
    assert figures[-1]["memory"] == 400


def test_values_come_from_the_seats_that_are_said() -> None:
    everything, best = (iterated(make(nfsp({"values": values})), range(1))[0] for values in ("all", "best"))
    assert 0.02 < best["decisions"] / everything["decisions"] < 0.25


def test_the_same_seed_gives_the_same_bytes_with_any_number_of_threads() -> None:
    learners = [make(nfsp(collect={"games": 2100}), threads) for threads in (1, 2)]
    figures = [iterated(learner, range(2)) for learner in learners]
    assert checkpoint_bytes(learners[0].state()) == checkpoint_bytes(learners[1].state())
    for name in learners[0].columns:
        assert figures[0][1][name] == figures[1][1][name]


def test_going_on_from_a_state_equals_going_on() -> None:
    config = nfsp({"memory": 60, "anticipatory": 0.5, "average": 0.9})  # which is full before and after
    unbroken, broken = make(config), make(config)
    iterated(unbroken, range(4))
    iterated(broken, range(2))
    resumed = make(config)
    resumed.restore(as_loaded(broken.state()))
    iterated(resumed, range(2, 4))
    assert same(as_loaded(unbroken.state()), as_loaded(resumed.state()))


def test_the_state_of_another_run_is_refused() -> None:
    state = as_loaded(make(nfsp()).state())
    with pytest.raises(ValueError, match="best_play"):
        make(nfsp()).restore({name: one for name, one in state.items() if name != "best_play"})
    with pytest.raises(KeyError, match="memory"):
        make(nfsp()).restore({name: one for name, one in state.items() if name != "memory"})


def test_against_others_only_its_own_decisions_are_learned_from() -> None:
    itself = iterated(make(nfsp()), range(1))[0]
    figures = iterated(make(nfsp(opponents={"agents": {"greedy": 0.5, "expected": 0.5}})), range(3))
    assert 0.45 < figures[0]["decisions"] / itself["decisions"] < 0.55
    assert figures[2]["memory"] > figures[0]["memory"] > 0
    assert all(np.isfinite(list(one.values())).all() for one in figures)


@pytest.mark.parametrize("name", ["play", "best_play"])
def test_what_is_no_number_is_said(name: str) -> None:
    learner = make(nfsp({"anticipatory": 0.5}))
    with torch.no_grad():
        learner.trained[name].network.out_bias.fill_(float("nan"))
    with pytest.raises(NotFinite, match=f"the {name} network"):
        iterated(learner, range(1))


def test_luck_is_not_subtracted_in_whole_games() -> None:
    with pytest.raises(UserError, match=r"subtract_luck needs collect\.episode: deal, got game"):
        nfsp(collect={"episode": "game", "reward": "win"})
