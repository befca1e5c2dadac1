"""Imitation: its gradient, the teacher's answers by candidate, where they come from, and that it learns."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import write_sample
from numpy.typing import NDArray
from reduced_configs import reduced_config
from training_samples import rows_of, same, small, untimed

from agents import Agent, AgentError, load_modules, make_agent
from agents.base import Masks, Observations
from agents.neural.agent import NeuralAgent, load_agent
from agents.neural.checkpoint import KINDS, read_checkpoint
from agents.neural.choice import BEST
from agents.neural.features import discard_candidates, play_candidates
from cribbage_env import Game
from cribbage_env.engine import CARDS, FIRST_PLAY
from cribbage_env.observation import AT_CARDS, AT_KEPT, AT_LAID, AT_NUM_LAID, AT_SCORE
from experiments.config import UserError
from experiments.train_config import TrainConfig
from experiments.training.distill import DistillLearner, by_candidate, gather, imitation_gradients
from experiments.training.league import League
from experiments.training.reduced import ReducedGame
from experiments.training.run import Run
from experiments.training.starts import deal_starts

DISTILL: dict[str, Any] = {"algorithm": "distill", "batch_size": 128, "teacher": "expected"}


def distill(learner: dict[str, Any] | None = None, **changes: Any) -> TrainConfig:
    return small(learner=DISTILL | (learner or {}), **changes)


# --- Gradient and targets -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.25])
def test_the_gradient_is_that_of_the_cross_entropy(temperature: float) -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 16, 300)
    first = np.concatenate([[0], np.cumsum(sizes)])
    scores = torch.tensor(rng.normal(0, 3, first[-1]), dtype=torch.float32, requires_grad=True)
    targets = rng.random(first[-1]).astype(np.float32) ** 3
    targets[rng.random(len(targets)) < 0.3] = 0.0
    targets[first[:-1]] += 0.01
    targets /= np.repeat(np.add.reduceat(targets, first[:-1]), sizes)
    loss = torch.zeros(())
    divergence = agreement = 0.0
    for at, end in itertools.pairwise(first.tolist()):
        log_pi, goal = torch.log_softmax(scores[at:end] / temperature, 0), torch.from_numpy(targets[at:end])
        loss = loss - (goal * log_pi).sum()
        divergence += float(torch.nn.functional.kl_div(log_pi.detach(), goal, reduction="sum"))
        agreement += float(torch.minimum(log_pi.detach().exp(), goal).sum())
    loss.backward()
    gradient, totals = np.empty(len(targets), np.float32), np.zeros(2)
    imitation_gradients(scores.detach().numpy(), first, targets, temperature, gradient, totals)
    assert scores.grad is not None
    assert gradient == pytest.approx(temperature * scores.grad.numpy(), abs=2e-6)
    assert totals == pytest.approx([divergence, agreement], rel=1e-4)


def test_cards_of_one_rank_are_one_candidate() -> None:
    """By hand: pone holds 5 5 5 9, and its teacher has a favourite among the fives."""
    game = Game(decks=["5C 5D 5H 9S KC KD 2C 3C 4C 6C 7C 8C AS"])
    game.discard("KC KD")
    game.discard("7C 8C")
    observations = game.observation()["observation"][None]
    masks = game.observation()["action_mask"][None]
    policy = np.zeros((1, 19))
    policy[0, FIRST_PLAY : FIRST_PLAY + 4] = 0.1, 0.2, 0.4, 0.3

    def targets() -> dict[int, float]:
        candidates = play_candidates(observations, masks, False)
        found = np.empty(len(candidates), np.float32)
        by_candidate(observations, policy, candidates.rows, candidates.actions, found)
        return dict(zip((candidates.actions - FIRST_PLAY).tolist(), found.tolist(), strict=True))

    assert targets() == pytest.approx({0: 0.7, 3: 0.3})
    game.play("5C")  # from now on the five of diamonds stands for both that are left
    game.play("2C")
    observations, masks = game.observation()["observation"][None], game.observation()["action_mask"][None]
    policy[0, FIRST_PLAY : FIRST_PLAY + 4] = 0.0, 0.2, 0.5, 0.3
    assert targets() == pytest.approx({1: 0.7, 3: 0.3})


def test_discards_are_candidates_of_their_own() -> None:
    game = Game(decks=["5C 5D 5H 9S KC KD 2C 3C 4C 6C 7C 8C AS"])
    observations = game.observation()["observation"][None]
    policy = np.arange(19.0)[None] / 100
    candidates = discard_candidates(observations, False)
    found = np.empty(len(candidates), np.float32)
    by_candidate(observations, policy, candidates.rows, candidates.actions, found)
    assert found == pytest.approx(np.arange(15) / 100)


# --- Where the answers come from ----------------------------------------------------------------------------


class Watched(Agent):
    """Answers with some distribution that follows from the observation, and remembers what it was asked."""

    def __init__(self, certain: bool = False) -> None:
        super().__init__("watched")
        self.certain = certain
        self.observations: list[Observations] = []
        self.masks: list[Masks] = []

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        self.observations.append(observations.copy())
        self.masks.append(masks.copy())
        weight = masks * (1 + (observations.astype(np.int64).sum(axis=1, keepdims=True) * np.arange(1, 20)) % 7)
        if self.certain:
            weight = weight == weight.max(axis=1, keepdims=True)
            weight &= np.cumsum(weight, axis=1) == 1
        answers: NDArray[np.float64] = weight / weight.sum(axis=1, keepdims=True)
        return answers

    def asked(self) -> tuple[Observations, Masks]:
        return np.concatenate(self.observations), np.concatenate(self.masks)


@pytest.fixture
def student(tmp_path: Path) -> NeuralAgent:
    agent = load_agent(str(write_sample(tmp_path / "x.pt")))
    agent.choice = DistillLearner.choice
    return agent


NUMBERS = np.arange(100, 400)


def gathered(student: NeuralAgent, config: TrainConfig, mix: float = 0.0) -> tuple[dict[str, Any], Watched]:
    teacher = Watched()
    return gather(student, teacher, config, League(config), mix, NUMBERS), teacher


def test_the_answers_are_those_of_the_teacher(student: NeuralAgent) -> None:
    config = distill({"discards": 1.0})
    answers, teacher = gathered(student, config)
    observations, masks = teacher.asked()
    policy = Watched().policy(observations, masks)
    made = {"discard": discard_candidates(observations, False), "play": play_candidates(observations, masks, False)}
    for kind, those in made.items():
        sizes = np.diff(those.bounds())
        targets = np.empty(len(those), np.float32)
        by_candidate(observations, policy, those.rows, those.actions, targets)
        choice = np.repeat(sizes > 1, sizes)
        assert (sizes > 1).sum() > 290
        assert (answers[kind].sizes == sizes[sizes > 1]).all()
        assert (answers[kind].features == those.features[choice]).all()
        assert (answers[kind].known == those.known[choice]).all()
        assert (answers[kind].targets == targets[choice]).all()
    sums = np.add.reduceat(answers["play"].targets, np.cumsum(answers["play"].sizes) - answers["play"].sizes)
    assert sums == pytest.approx(1.0)


def decided(teacher: Watched, config: TrainConfig) -> dict[tuple[int, int], list[int]]:
    """For each deal and seat: which of the plays that the teacher was asked for are its, in order."""
    starts = deal_starts(config, NUMBERS)
    whose = {}
    for deal, row in enumerate(starts):
        for seat in range(2):
            whose[np.sort(row[CARDS + 6 * seat : CARDS + 6 * seat + 6]).astype(np.uint8).tobytes()] = deal, seat
    assert len(whose) == 2 * len(NUMBERS)
    observations, masks = teacher.asked()
    found: dict[tuple[int, int], list[int]] = {one: [] for one in whose.values()}
    for at in np.flatnonzero(masks[:, 0] == 0):
        found[whose[observations[at, AT_CARDS : AT_CARDS + 6].tobytes()]].append(int(at))
    return found


def laid(observations: Observations, plays: list[int]) -> list[tuple[int, int]]:
    """The plays of a seat with the slot of the card that was laid, as the seat's next play shows."""
    found = []
    for at, later in itertools.pairwise(plays):
        card = observations[later, AT_LAID + int(observations[at, AT_NUM_LAID])]
        found.append((at, int(np.flatnonzero(observations[at, AT_KEPT : AT_KEPT + 4] == card)[0])))
    return found


def test_the_seat_that_trembles_is_not_learned_from_afterwards(student: NeuralAgent) -> None:
    _, studied = League(distill()).draw(NUMBERS)
    assert 100 < studied.sum() < 200
    asked = {}
    for tremble in (0.0, 1.0):
        config = distill({"tremble": tremble}, collect={"epsilon": 0.0})
        _, teacher = gathered(student, config)
        counts = np.zeros((len(NUMBERS), 2), np.int64)
        for (deal, seat), plays in decided(teacher, config).items():
            counts[deal, int(seat != studied[deal])] = len(plays)
        asked[tremble] = counts
    assert asked[0.0].mean(axis=0) == pytest.approx([2.6, 2.6], abs=0.25)
    assert asked[1.0][:, 0].mean() == pytest.approx(2.6, abs=0.25)
    assert (asked[1.0][:, 1] <= 1).all()  # what it decides before
    assert (asked[1.0][:, 1] == 1).mean() > 0.95


def test_who_plays_what(student: NeuralAgent) -> None:
    """One seat lays what the student would, or the teacher at ``mix: 1``; the other one anything."""
    student.choice = BEST
    for mix in (1e-9, 1.0):  # with any share of its own, the teacher is asked everywhere
        config = distill({"tremble": 1.0}, collect={"epsilon": 0.0})
        teacher = Watched(certain=True)
        gather(student, teacher, config, League(config), mix, NUMBERS)
        observations, masks = teacher.asked()
        _, studied = League(config).draw(NUMBERS)
        would = (student if mix < 1.0 else Watched(certain=True)).policy(observations, masks)
        slots, trembled = np.zeros(4), 0
        for (deal, seat), plays in decided(teacher, config).items():
            for at, slot in laid(observations, plays):
                ranks = observations[at, AT_KEPT : AT_KEPT + 4] >> 2
                if seat == studied[deal]:
                    assert ranks[slot] == ranks[would[at].argmax() - FIRST_PLAY]
                elif len(set(ranks.tolist())) == 4 and masks[at].sum() == 4:
                    slots[slot] += 1
                    trembled += 1
        assert trembled > 100
        assert np.abs(slots / trembled - 0.25).max() < 0.12


def test_discards_that_are_learned_from_and_explored(student: NeuralAgent) -> None:
    answers = {share: gathered(student, distill({"discards": share}))[0]["discard"] for share in (0.0, 0.3, 1.0)}
    assert len(answers[0.0]) == 0
    assert len(answers[0.3]) == pytest.approx(180, abs=40)
    assert len(answers[1.0]) == 600
    assert answers[0.0].features.shape == (0, answers[1.0].features.shape[1])
    kept = []
    for epsilon in (0.0, 1.0):
        config = distill(collect={"epsilon": epsilon})
        _, teacher = gathered(student, config)
        observations, _ = teacher.asked()
        kept.append(
            {
                key: observations[plays[0], AT_KEPT : AT_KEPT + 4].tobytes()
                for key, plays in decided(teacher, config).items()
                if plays
            }
        )
    both = kept[0].keys() & kept[1].keys()
    assert len(both) > 500
    assert sum(kept[0][key] != kept[1][key] for key in both) / len(both) > 0.85  # 14 / 15


def test_an_opponent_is_not_learned_from(student: NeuralAgent) -> None:
    config = distill(opponents={"agents": {"greedy": 1.0}})
    league = League(config)
    _, studied = league.draw(NUMBERS)
    teacher = Watched()
    gather(student, teacher, config, league, 0.0, NUMBERS)
    plays = decided(teacher, config)
    assert not any(plays[deal, 1 - studied[deal]] for deal in range(len(NUMBERS)))
    assert sum(len(plays[deal, studied[deal]]) for deal in range(len(NUMBERS))) > 700


def test_whole_games_with_scores(tmp_path: Path) -> None:
    config = distill(
        {"discards": 1.0}, collect={"episode": "game", "reward": "win"}, network={"scores": True}, rules={"target": 31}
    )
    agent = load_agent(str(write_sample(tmp_path / "x.pt", scores=True)))
    answers, teacher = gathered(agent, config)
    observations, _ = teacher.asked()
    assert len(answers["discard"]) > 1000
    assert len(np.unique(observations[:, AT_SCORE])) > 20


def test_parts_do_not_change_what_is_collected(student: NeuralAgent) -> None:
    config = distill()
    whole, first, second = (
        gather(student, Watched(), config, League(config), 0.2, numbers)
        for numbers in (NUMBERS, NUMBERS[:120], NUMBERS[120:])
    )
    for kind in KINDS:
        rows = np.concatenate([first[kind].features, second[kind].features])
        assert sorted(map(bytes, rows)) == sorted(map(bytes, whole[kind].features))


@pytest.mark.parametrize("wrong", [np.nan, -0.5, 0.1])
def test_a_teacher_that_gives_no_distribution(wrong: float, student: NeuralAgent) -> None:
    class Wrong(Watched):
        def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
            answers = super().policy(observations, masks)
            answers[0, masks[0].argmax()] = wrong
            return answers

    with pytest.raises(AgentError, match="the agent 'watched': the rows of a policy are probabilities") as caught:
        gather(student, Wrong(), distill(), League(distill()), 0.0, NUMBERS)
    assert "\n" not in str(caught.value)


# --- Learning and runs --------------------------------------------------------------------------------------


def test_the_teacher_of_the_reduced_game_has_solved_it() -> None:
    load_modules(reduced_config("distill").modules)
    assert ReducedGame("4567").exploitability(make_agent("reduced_solution")) < 0.002


@pytest.mark.slow  # test_reduced_game.py trains the same without a run around it
def test_it_solves_a_reduced_game(tmp_path: Path) -> None:
    run = Run(reduced_config("distill", output=str(tmp_path / "run"), evaluation={"exploitability": {}}))
    assert run.train()
    assert run.exploitability is not None
    assert run.exploitability < 0.02
    rows = rows_of(tmp_path / "run")
    assert float(rows[-1]["loss_play"]) < 0.1 * float(rows[0]["loss_play"])
    assert float(rows[-1]["agreement_play"]) > 0.97


def test_it_learns_discards_and_plays_of_whole_deals(tmp_path: Path) -> None:
    config = distill(
        {"teacher": "greedy", "discards": 1.0, "lr": 1e-2, "mix": 0.5},
        collect={"games": 1024},
        budget={"decisions": 60_000},
        evaluation={"opponents": [], "every": None},
        output=str(tmp_path / "run"),
    )
    assert Run(config).train()
    rows = rows_of(tmp_path / "run")
    for kind, least in (("discard", 0.6), ("play", 0.7)):
        assert float(rows[-1][f"loss_{kind}"]) < 0.7 * float(rows[0][f"loss_{kind}"])
        assert float(rows[-1][f"agreement_{kind}"]) > max(least, float(rows[0][f"agreement_{kind}"]) + 0.1)
    assert float(rows[0]["mix"]) == 0.5
    assert 0.0 < float(rows[-1]["mix"]) < 0.2


def test_the_same_seed_gives_the_same_weights_whatever_the_threads(tmp_path: Path) -> None:
    states = []
    for number, threads in enumerate((1, 1, 3)):
        config = distill(
            threads=threads, collect={"games": 1100}, budget={"decisions": 12_000}, output=str(tmp_path / f"{number}")
        )
        assert Run(config).train()
        states.append(read_checkpoint(tmp_path / f"{number}")["training"]["learner"])
    assert same(states[0], states[1])
    assert same(states[0], states[2])


class Killed(Exception):
    """Stands for a kill at a bad moment."""


def test_a_resumed_run_ends_where_an_unbroken_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"average": 0.9, "mix": 0.4, "passes": 2}
    configs = [distill(settings, output=str(tmp_path / folder)) for folder in ("whole", "broken")]
    assert Run(configs[0]).train()
    iterate = DistillLearner.iterate

    def dying(self: DistillLearner, iteration: int, *rest: Any) -> dict[str, float]:
        if iteration == 3:
            raise Killed
        return iterate(self, iteration, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(DistillLearner, "iterate", dying)
        with pytest.raises(Killed):
            Run(configs[1]).train()
    assert Run(configs[1], resume=True).train()
    contents = [read_checkpoint(tmp_path / folder) for folder in ("whole", "broken")]
    for content in contents:
        content["training"]["config"].pop("output")
    rows = [untimed(rows_of(tmp_path / folder)) for folder in ("whole", "broken")]
    assert same(contents[0], contents[1])
    assert rows[0] == rows[1]
    assert contents[0]["choice"] == {"discard": 0.0, "play": 1.0, "least": 0.01}
    assert contents[0]["training"]["iteration"] > 3


def test_a_teacher_that_is_none(tmp_path: Path) -> None:
    config = distill({"teacher": "expectd"}, output=str(tmp_path / "run"))
    with pytest.raises(AgentError, match="unknown agent 'expectd'; did you mean 'expected'"):
        Run(config)
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match=r"learner\.tremble"):
        distill({"tremble": 1.5})
