"""Collecting: decisions are those of games played by hand, with all candidates and the return that followed."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from neural_samples import some_positions, write_sample
from numpy.typing import NDArray
from training_samples import small

from agents import decision_keys, make_agent
from agents.neural.agent import NeuralAgent, load_agent
from agents.neural.checkpoint import KINDS
from agents.neural.choice import Choice
from agents.neural.features import discard_candidates, play_candidates
from cribbage_env import Game, score_hand
from cribbage_env.engine import DECISIONS
from cribbage_env.streams import combine_arrays
from experiments.train_config import TrainConfig
from experiments.training.collect import Decisions, collect, draw_candidates, entries_of, explored, joined
from experiments.training.league import ITSELF, League
from experiments.training.streams import DECKS, EXPLORATION, stream


@pytest.fixture
def agent(tmp_path: Path) -> NeuralAgent:
    return load_agent(str(write_sample(tmp_path / "x.pt")))


def collected(
    config: TrainConfig, agents: NeuralAgent | list[NeuralAgent], first: int, games: int, **options: Any
) -> dict[str, Decisions]:
    """The decisions of consecutive episodes."""
    policies = agents if isinstance(agents, list) else [agents]
    return collect(policies, config, League(config), np.arange(first, first + games), **options)


@dataclass
class Taken:
    """A decision of a deal played by hand."""

    kind: str
    seat: int
    features: NDArray[np.int32]
    known: NDArray[np.float32]
    chosen: int
    events: int  # before it
    total: float = 0.0


def play_by_hand(config: TrainConfig, agents: list[Any], number: int) -> list[Taken]:
    """The decisions of a deal played through :class:`Game`, agents by seat, with returns by the game's events.

    What is random in other agents' choices follows from the episode's number and the decision's.
    """
    decks = np.array([stream(config.seed, DECKS)], np.uint64)
    game = Game(seed=int(combine_arrays(decks, np.array([number]))[0]), dealer=number % 2)
    taken: list[Taken] = []
    while game.deal == 0:
        legal = game.legal_actions()
        seat = game.player
        assert seat is not None
        seen = game.observation()
        observation, mask = seen["observation"][None], seen["action_mask"][None]
        key = decision_keys(stream(config.seed, EXPLORATION), np.array([number]), game._row[DECISIONS : DECISIONS + 1])
        action = int(agents[seat].act(observation, mask, key)[0]) if len(legal) > 1 else legal[0]
        if len(legal) > 1 and isinstance(agents[seat], NeuralAgent):
            candidates = (
                discard_candidates(observation, False)
                if game.phase == "discard"
                else play_candidates(observation, mask, False)
            )
            at = candidates.actions.tolist().index(action)
            taken.append(Taken(game.phase, seat, candidates.features, candidates.known, at, len(game.events)))
        game.step(action)
    for one in taken:
        for at, event in enumerate(game.events):
            points = event.points if event.player == one.seat else -event.points
            if getattr(config.learner, "subtract_luck", False):
                if one.kind == "play" and event.kind in ("hand", "crib"):
                    points = 0
                if one.kind == "discard" and (event.kind == "heels" or event.kind == "hand"):
                    points = 0
                    if event.kind == "hand" and event.player == one.seat:
                        one.total += float(one.known[one.chosen, 0])
            if at >= one.events:
                one.total += points
    return taken


def check_by_hand(samples: dict[str, Decisions], config: TrainConfig, seats: Any, numbers: range) -> dict[str, int]:
    """Compare decisions with deals by hand, whose agents ``seats(number)`` names; returns how many there were."""
    at = dict.fromkeys(KINDS, 0)
    for number in numbers:
        taken = play_by_hand(config, seats(number), number)
        for kind in KINDS:
            those = samples[kind]
            for one in sorted((one for one in taken if one.kind == kind), key=lambda one: one.seat):
                s = at[kind]
                first, end = those.first[s], those.first[s + 1]
                assert (those.features[first:end] == one.features).all()
                assert (those.known[first:end] == one.known).all()
                assert those.chosen[s] == one.chosen
                assert those.returns[s] == pytest.approx(one.total, abs=1e-4)
                assert (those.episodes[s], those.seats[s], those.policies[s]) == (number, one.seat, 0)
                at[kind] += 1
    assert at == {kind: len(samples[kind]) for kind in KINDS}
    return at


@pytest.mark.parametrize("subtract_luck", [False, True])
def test_decisions_are_what_was_played_with_the_return_that_followed(subtract_luck: bool, agent: NeuralAgent) -> None:
    config = small(collect={"epsilon": 0.0}, learner={"subtract_luck": subtract_luck})
    found = check_by_hand(collected(config, agent, 40, 60), config, lambda number: [agent, agent], range(40, 100))
    assert found["discard"] == 120
    assert found["play"] > 200


def test_only_the_learners_decisions_are_kept_against_others(agent: NeuralAgent) -> None:
    config = small(collect={"epsilon": 0.0}, opponents={"agents": {"greedy": 0.7}})
    samples = collected(config, agent, 40, 60)
    opponents, own_seats = League(config).draw(np.arange(40, 100))
    assert 20 < (opponents != ITSELF).sum() < 60
    assert 10 < own_seats[opponents != ITSELF].sum() < 40
    greedy = make_agent("greedy")

    def seats(number: int) -> list[Any]:
        if opponents[number - 40] == ITSELF:
            return [agent, agent]
        return [agent, greedy] if own_seats[number - 40] == 0 else [greedy, agent]

    found = check_by_hand(samples, config, seats, range(40, 100))
    assert found["discard"] == 60 + (opponents == ITSELF).sum()


def test_decisions_of_an_episode_are_in_order(agent: NeuralAgent) -> None:
    samples = collected(small(), agent, 0, 50)
    for those in samples.values():
        keys = np.stack([those.episodes, those.seats, those.steps], axis=1).tolist()
        assert keys == sorted(keys)
        assert len({tuple(key) for key in keys}) == len(keys)
    discards, plays = samples["discard"], samples["play"]
    last_discard = discards.steps.max()
    assert last_discard == 1
    assert plays.steps.min() > last_discard  # steps of both kinds are of one clock


def test_probabilities_are_those_of_the_policy_mixed_with_exploration(tmp_path: Path) -> None:
    agent = load_agent(str(write_sample(tmp_path / "x.pt", choice=Choice(0.5, 0.7, 0.0))))
    for epsilon, given in ((0.0, None), (0.3, None), (0.3, 0.1)):
        share = epsilon if given is None else given
        samples = collected(small(collect={"epsilon": epsilon}), agent, 0, 200, epsilon=given)
        for kind, those in samples.items():
            scores = agent.network(kind).values(those.features, those.known)
            agent.choice.probabilities(kind, scores, those.first)
            expected = (1 - share) * scores + share / np.repeat(those.sizes, those.sizes)
            assert those.probabilities == pytest.approx(expected, abs=1e-12)
            likely = those.probabilities[those.taken]  # a fair draw takes what has probability p as often
            distance = (likely - np.add.reduceat(those.probabilities**2, those.first[:-1])).sum()
            assert abs(distance) < 4 * np.sqrt(len(those) / 4)


def test_exploration_is_as_frequent_as_said_and_by_keys(agent: NeuralAgent) -> None:
    best, again, other = (
        collected(small(collect={"epsilon": epsilon}), agent, 0, 400)["discard"] for epsilon in (0.0, 0.0, 0.3)
    )
    assert (best.chosen == again.chosen).all()
    pone = best.steps == 0  # before which nothing differs
    differ = (best.chosen != other.chosen)[pone].mean()
    assert 0.2 < differ < 0.36  # 0.3 times 14 / 15


def test_splitting_episodes_between_threads_changes_nothing(agent: NeuralAgent) -> None:
    whole = collected(small(), agent, 10, 90)
    parts = joined([collected(small(), agent, 10, 40), collected(small(), agent, 50, 50)])
    for kind in KINDS:
        for one in fields(Decisions):
            assert (getattr(parts[kind], one.name) == getattr(whole[kind], one.name)).all()


def test_several_policies_each_in_its_seat(tmp_path: Path) -> None:
    """A game of two policies is that of either of them against the other as a fixed opponent."""
    agents = [load_agent(str(write_sample(tmp_path / f"{seed}.pt", seed=seed))) for seed in (1, 2)]
    seated = np.random.default_rng(1).integers(0, 2, (80, 2))
    config = small(collect={"epsilon": 0.0})
    samples = collected(config, agents, 0, 80, seated=seated)
    alone = [collected(config, one, 0, 80) for one in agents]
    for kind, those in samples.items():
        assert (those.policies == seated[those.episodes, those.seats]).all()
        for number in range(80):
            if seated[number, 0] == seated[number, 1]:
                own = alone[seated[number, 0]][kind]
                assert those.chosen[those.episodes == number].tolist() == own.chosen[own.episodes == number].tolist()
                assert those.returns[those.episodes == number].tolist() == own.returns[own.episodes == number].tolist()
    first_discards = samples["discard"].steps == 0
    chosen = samples["discard"].chosen[first_discards]
    policy = samples["discard"].policies[first_discards]
    for number, one in enumerate(alone):
        assert (chosen == one["discard"].chosen[one["discard"].steps == 0])[policy == number].all()
    assert (alone[0]["discard"].chosen != alone[1]["discard"].chosen).mean() > 0.3


def test_whole_games_for_wins(tmp_path: Path) -> None:
    config = small(
        collect={"episode": "game", "reward": "win", "games": 30},
        network={"scores": True},
        learner={"subtract_luck": False},
        rules={"target": 61},
    )
    agent = load_agent(str(write_sample(tmp_path / "x.pt", scores=True)))
    samples = collected(config, agent, 0, 30)
    returns = samples["discard"].returns
    assert set(returns.tolist()) == {-1.0, 1.0}
    assert abs(returns.mean()) < 0.1  # of either seat alike
    assert len(returns) > 30 * 2 * 3
    for number in range(30):
        of_game = samples["play"].episodes == number
        assert len({*(samples["play"].returns[of_game] * (1 - 2 * samples["play"].seats[of_game]))}) == 1


def test_luck_is_what_the_cards_are_worth_even_if_the_target_ends_the_deal_before_they_count(
    agent: NeuralAgent,
) -> None:
    """Else deals that go on would lose luck that deals which end keep, and that depends on the action."""
    configs = [small(rules={"target": 9}, learner={"subtract_luck": luck}) for luck in (True, False)]
    without, with_luck = (collected(config, agent, 0, 60) for config in configs)
    decks = np.full(60, stream(configs[0].seed, DECKS), np.uint64)
    seeds = combine_arrays(decks, np.arange(60))
    for kind in KINDS:
        for at, (number, seat) in enumerate(zip(without[kind].episodes, without[kind].seats, strict=True)):
            game = Game(seed=int(seeds[number]), dealer=int(number) % 2)
            of_deal = [
                (int(one), without["discard"].chosen[np.flatnonzero(those)[0]])
                for one in (1 - number % 2, number % 2)
                for those in [(without["discard"].episodes == number) & (without["discard"].seats == one)]
            ]
            for one, chosen in of_deal:
                assert game.player == one
                game.step(int(chosen))  # all discards are candidates, in order
            starter = game.starter
            assert starter is not None
            hands = [score_hand(game.kept(one), starter).total for one in (seat, 1 - seat)]
            own = 1 if game.dealer == seat else -1
            luck = hands[0] - hands[1]
            if kind == "play":
                luck += own * score_hand([*game.thrown(0), *game.thrown(1)], starter, is_crib=True).total
            else:
                luck += own * 2 * (starter // 4 == 10) - float(without[kind].known[without[kind].taken[at], 0])
            difference = with_luck[kind].returns[at] - without[kind].returns[at]
            assert difference == pytest.approx(luck, abs=1e-4)
    whole = collected(small(learner={"subtract_luck": False}), agent, 0, 60)["discard"].returns
    assert (with_luck["discard"].returns != whole).mean() > 0.5  # the target has ended most deals early


def test_deals_without_discards(agent: NeuralAgent) -> None:
    """A reduced game begins in the play."""
    samples = collected(small(collect={"reduced": {"ranks": "4567"}}), agent, 0, 300)
    discards, plays = samples["discard"], samples["play"]
    assert len(discards) == 0
    assert discards.features.shape[1] == discard_candidates(some_positions(1, 1)[0], False).features.shape[1]
    assert discards.first.tolist() == [0]
    assert 300 < len(plays) <= 600  # no decision with a pair
    assert set(plays.sizes.tolist()) == {1, 2}
    assert set(plays.seats.tolist()) == {0, 1}


# --- Parts of it --------------------------------------------------------------------------------------------


def test_candidates_are_drawn_as_often_as_their_probabilities_say() -> None:
    probabilities = np.array([0.2, 0.5, 0.3, 1.0, 0.0, 0.25, 0.75])
    first = np.array([0, 3, 5, 7])
    count = 20_000
    keys = combine_arrays(np.full(3 * count, 9, np.uint64), np.arange(3 * count))
    chosen = np.zeros(3 * count, np.int64)
    bounds = np.concatenate([(first[:-1][None] + 7 * np.arange(count)[:, None]).ravel(), [7 * count]])
    draw_candidates(np.tile(probabilities, count), bounds, keys, chosen)
    found = chosen.reshape(count, 3)
    assert np.bincount(found[:, 0], minlength=3) / count == pytest.approx([0.2, 0.5, 0.3], abs=0.015)
    assert (found[:, 1] == 0).all()
    assert found[:, 2].mean() == pytest.approx(0.75, abs=0.015)


def test_exploration_mixes_in_equal_shares() -> None:
    mixed = explored(np.array([1.0, 0.0, 0.0, 0.0, 0.5, 0.5]), np.array([0, 4, 6]), 0.2)
    assert mixed == pytest.approx([0.85, 0.05, 0.05, 0.05, 0.5, 0.5])


def test_entries_of_some_decisions() -> None:
    first = np.array([0, 3, 5, 5, 9])
    assert entries_of(first, np.array([3, 0])).tolist() == [5, 6, 7, 8, 0, 1, 2]
    assert entries_of(first, np.array([2, 1])).tolist() == [3, 4]
    assert entries_of(first, np.zeros(0, np.int64)).tolist() == []
