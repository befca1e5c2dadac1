"""The agent ``equilibrium``: finds its place in the tree from observations, and plays what is stored there."""

from __future__ import annotations

import itertools
import json
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import AgentError, make_agent
from agents.equilibrium import agent as agent_module
from agents.equilibrium.agent import EquilibriumAgent, find_node
from agents.equilibrium.hands import NUM_HANDS, hand_tables
from agents.equilibrium.infosets import agent_policy
from agents.equilibrium.policies import infoset_counts, option_counts, uniform_policy
from agents.equilibrium.prior import class_policy, dealt_weights, discard_policy, joint_weights, prior_weights
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.equilibrium.strategy import FILE, load_strategy, make_strategy, save_strategy
from agents.equilibrium.traverse import VALUE, Walker
from agents.equilibrium.tree import DEALER_SEAT, PASS, PONE, Tree, build_tree, history
from cribbage_env import Game, field
from cribbage_env.engine import PARTS
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.tournament.match import play_blocks

SHIPPED = Path(agent_module.__file__).parents[1] / "data" / agent_module.SHIPPED


@cache
def plays() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Observations of both seats at every moment of the play of 2,500 random games, with their masks."""
    env = CribbageVectorEnv(2_500, copy=True)
    rng = np.random.default_rng(3)
    seen, _ = env.reset(seed=11)
    observations, masks = [], []
    for _ in range(20):
        observations.append(seen["observation"])
        masks.append(seen["action_mask"])
        seen = env.step((rng.random((2_500, 19)) * seen["action_mask"]).argmax(axis=1))[0]
    everything, all_masks = np.concatenate(observations), np.concatenate(masks)
    play = all_masks[:, 0] == 0
    return everything[play], all_masks[play]


def ranks_left(observation: NDArray[np.uint8]) -> tuple[int, ...]:
    """The ranks that the observer still holds, sorted."""
    return tuple(sorted((field(observation, "kept")[field(observation, "left") == 1] >> 2).tolist()))


def choices(observation: NDArray[np.uint8], mask: NDArray[np.int8]) -> list[int]:
    """The different ranks that may be laid."""
    return sorted({int(card) >> 2 for card in field(observation, "kept")[mask[15:] == 1]})


def by_rank(observation: NDArray[np.uint8], policy: NDArray[np.float64]) -> dict[int, float]:
    """A row of a policy as probabilities of ranks."""
    found: dict[int, float] = {}
    for card, probability in zip(field(observation, "kept").tolist(), policy[15:].tolist(), strict=True):
        if probability:
            found[card >> 2] = found.get(card >> 2, 0.0) + probability
    return found


# --- Where an observation is in the tree ----------------------------------------------------------------------


def test_nodes_are_those_that_the_game_has_reached(tree: Tree) -> None:
    """Thousands of moments of random games: the node's own account of the play is the observation's."""
    kinds = set()
    rows = np.random.default_rng(5).permutation(len(plays()[0]))
    for row in rows[:2_000].tolist():
        observation = plays()[0][row]
        node = int(find_node(tree, observation))
        laid = int(field(observation, "num_laid")[0])
        own, other = (int(field(observation, name)[0]) for name in ("own_left", "opponent_left"))
        seat = DEALER_SEAT if field(observation, "is_dealer")[0] else PONE
        after = field(observation, "laid_count")[:laid].tolist()
        if own + other <= 2:
            assert node < 0
            steps = history(tree, int(tree.end_parent[-1 - node]))
            cards = [step for step in steps if step.edge != PASS]
            assert own + other <= 8 - len(cards) - 1
            assert [step.edge for step in cards] == (field(observation, "laid") >> 2).tolist()[: len(cards)]
            assert int(tree.end_edge[-1 - node]) == field(observation, "laid")[len(cards)] >> 2
            kinds.add(("end", seat, own, other))
            continue
        assert int(tree.mover[node]) == seat
        assert tree.held[node].tolist() == ([own, other] if seat == PONE else [other, own])
        assert int(tree.running_count[node]) == field(observation, "count")[0]
        steps = history(tree, node)
        cards = [step for step in steps if step.edge != PASS]
        assert [step.edge for step in cards] == (field(observation, "laid")[:laid] >> 2).tolist()
        by = [seat if who == 1 else 1 - seat for who in field(observation, "laid_by")[:laid].tolist()]
        assert [step.seat for step in cards] == by
        assert [step.running_count for step in cards] == after
        # a go that the observation notes is a pass of the player who had not laid the last card
        gos = [i for i in range(laid) if field(observation, "laid_go")[i]]
        at = -1
        passed = set()
        for step in steps:
            if step.edge != PASS:
                at += 1
            elif step.seat != by[at]:
                passed.add(at)
        assert set(gos) <= passed | {at for at in gos if after[at] == 31}
        fresh = laid > 0 and field(observation, "count")[0] == 0
        kinds |= {("gos", seat, len(gos)), ("31", seat, 31 in after), ("fresh", seat, bool(fresh)), ("own", seat, own)}
    for seat in (PONE, DEALER_SEAT):
        assert {("gos", seat, number) for number in (0, 1)} <= kinds
        assert {(kind, seat, there) for kind in ("31", "fresh") for there in (False, True)} <= kinds
        assert {("own", seat, own) for own in (1, 2, 3, 4)} <= kinds
        assert {("end", seat, 2, 0), ("end", seat, 1, 1)} <= kinds


def test_a_play_that_cannot_be_is_nowhere_and_gets_some_legal_policy(tree: Tree) -> None:
    rng = np.random.default_rng(6)
    observations = rng.integers(0, 53, (2_000, plays()[0].shape[1])).astype(np.uint8)
    field(observations, "num_laid")[:] = rng.integers(0, 8, (2_000, 1))
    field(observations, "kept")[:] = np.sort(rng.permuted(np.tile(np.arange(52), (2_000, 1)), axis=1)[:, :4], axis=1)
    field(observations, "left")[:] = 1
    masks = np.zeros((2_000, 19), np.int8)
    masks[:, 15:] = rng.integers(0, 2, (2_000, 4))
    masks[:, 17] = 1
    policy = make_agent("equilibrium").policy(observations, masks)
    assert policy.sum(axis=1) == pytest.approx(np.ones(2_000))
    assert not policy[masks == 0].any()


# --- What it plays there --------------------------------------------------------------------------------------


def test_plays_what_is_stored_for_the_infoset(tree: Tree) -> None:
    """Against a plain search for the infoset's place, on observations with a choice."""
    stored = load_strategy(SHIPPED).policy(tree)
    counts = option_counts(tree)
    entries = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    first = np.concatenate([[0], np.cumsum(infoset_counts(tree))])
    observations, masks = plays()
    policy = make_agent("equilibrium").policy(observations, masks)
    tables = hand_tables()
    numbers = [{tuple(tables.ranks[k, h, :k].tolist()): h for h in range(NUM_HANDS[k])} for k in range(5)]
    mixed = 0
    rng = np.random.default_rng(7)
    checked = 0
    for row in rng.permutation(len(observations)).tolist():
        observation = observations[row]
        node = int(find_node(tree, observation))
        options = choices(observation, masks[row])
        if node < 0 or len(options) < 2:
            continue
        seat = int(tree.mover[node])
        room, lowest = int(tree.room[node]), int(tree.lowest[node, seat])
        infoset = int(first[node])
        for hand in itertools.islice(
            numbers[int(tree.held[node, seat])], numbers[len(ranks_left(observation))][ranks_left(observation)]
        ):
            legal = {rank for rank in hand if min(rank + 1, 10) <= room}
            fits = all(
                min(rank + 1, 10) >= lowest and (int(tree.seen[node]) >> 4 * rank & 15) + hand.count(rank) <= 4
                for rank in hand
            )
            infoset += fits and len(legal) > 1
        expected = stored[entries[infoset] : entries[infoset + 1]]
        assert len(expected) == len(options)
        found = by_rank(observation, policy[row])
        assert [found.get(rank, 0.0) for rank in options] == pytest.approx(expected.tolist(), abs=1e-6)
        mixed += 0.01 < expected.max() < 0.99
        checked += 1
        if checked == 600:
            break
    assert mixed > 100


def test_lays_the_last_two_cards_in_the_better_order() -> None:
    """Alone with two cards: both orders are played out by the engine."""
    agent = make_agent("equilibrium")
    rng = np.random.default_rng(8)
    differ = 0
    for seed in itertools.count():
        game = Game(seed=seed)
        while game.phase != "over" and game.deal == 0:
            seat = game.player
            seen = game.observation()
            legal = game.legal_actions()
            if game.phase == "play" and field(seen["observation"], "opponent_left")[0] == 0 and len(legal) == 2:
                gains = []
                for action in legal:
                    after = deepcopy(game)
                    before = after.scores
                    after.step(action)
                    # what the play scores: the show comes with the last card
                    if after.phase == "play":
                        gains.append(after.scores[seat] - before[seat])
                        last = deepcopy(after)
                        number = len(last.events)
                        last.step(last.legal_actions()[0])
                        gains[-1] += sum(
                            event.points
                            for event in last.events[number:]
                            if event.player == seat and event.kind in ("card", "go", "last")
                        )
                policy = agent.policy(seen["observation"][None], seen["action_mask"][None])[0]
                if len(gains) == 2:
                    kept = field(seen["observation"], "kept")
                    same = kept[legal[0] - 15] >> 2 == kept[legal[1] - 15] >> 2
                    if gains[0] != gains[1] and not same:
                        assert policy[legal[int(np.argmax(gains))]] == 1.0
                        differ += 1
            game.step(int(rng.choice(legal)))
        if differ == 40:
            return


def test_of_two_cards_of_a_rank_one_is_laid() -> None:
    game = Game(dealer=0, decks=["5H 5C JD 2S 9C KD  4H 7S 5D 6C AC 8D  3H"])
    game.discard("2S 9C")
    game.discard("AC 8D")
    seen = game.observation()
    policy = make_agent("equilibrium").policy(seen["observation"][None], seen["action_mask"][None])[0]
    assert policy[15:17].tolist() == pytest.approx([0.0, 0.0], abs=0.01)  # nobody leads a five
    assert policy[17:].sum() == pytest.approx(1.0, abs=0.01)


def test_nothing_but_the_play_by_ranks_matters() -> None:
    """Suits, scores, the starter and own discards don't change what is laid."""
    agent = make_agent("equilibrium")
    observations, masks = plays()
    policy = agent.policy(observations, masks)
    other = observations.copy()
    for name in ("cards", "thrown", "kept", "laid", "starter"):
        values = field(other, name)
        values[:] = np.where(values < 52, values ^ 3, 52)
    kept = field(other, "kept")
    order = np.argsort(kept, axis=1, kind="stable")
    kept[:] = np.take_along_axis(kept, order, axis=1)
    field(other, "left")[:] = np.take_along_axis(field(other, "left"), order, axis=1)
    new_masks = masks.copy()
    new_masks[:, 15:] = np.take_along_axis(masks[:, 15:], order, axis=1)
    field(other, "score")[:] = 100
    field(other, "starter")[:] = 17
    changed = agent.policy(other, new_masks)
    for row in range(0, len(policy), 37):
        assert by_rank(other[row], changed[row]) == by_rank(observations[row], policy[row])


# --- The strategy it has --------------------------------------------------------------------------------------


def test_the_shipped_strategy() -> None:
    agent = make_agent("equilibrium")
    assert isinstance(agent, EquilibriumAgent)
    facts = agent.facts
    assert (facts.prior, facts.starter, facts.objective, facts.tree.cards) == ("expected", None, "points", 4)
    assert 0 < facts.exploitability < 5e-4
    assert -1.4 < facts.value < -1.2
    assert SHIPPED.stat().st_size < 3_000_000
    assert make_agent("equilibrium")._loaded is agent._loaded  # type: ignore[attr-defined]


def test_discards_as_the_prior_or_as_it_is_told(tmp_path: Path) -> None:
    env = CribbageVectorEnv(300)
    seen, _ = env.reset(seed=2)
    rows = seen["observation"], seen["action_mask"]

    def same(spec: str, other: str) -> bool:
        return bool((make_agent(spec).policy(*rows) == make_agent(other).policy(*rows)).all())

    assert same("equilibrium", "expected")
    assert same("equilibrium:discard=greedy", "greedy")
    assert not same("equilibrium:discard=greedy", "expected")
    with pytest.raises(AgentError, match="unknown agent 'nobody'"):
        make_agent("equilibrium:discard=nobody")
    line, _, blocks = SHIPPED.read_bytes().partition(b"\n")
    for prior, discards in (("greedy", "greedy"), ("uniform", "expected")):
        header = {**json.loads(line), "prior": prior}
        (tmp_path / FILE).write_bytes(json.dumps(header).encode() + b"\n" + blocks)
        assert same(f"equilibrium:path={tmp_path}", discards)
        assert same(f"equilibrium:path={tmp_path / FILE}", discards)


def test_a_strategy_of_ones_own_is_played_and_a_wrong_one_refused(tmp_path: Path, tree: Tree) -> None:
    weights = dealt_weights()
    policy, _ = uniform_policy(tree)
    save_strategy(make_strategy(Walker(tree, weights), weights, policy, prior="uniform"), tmp_path / FILE)
    observations, masks = plays()
    rows = np.flatnonzero([len(choices(*row)) == 2 for row in zip(observations, masks, strict=True)])[:300]
    rows = rows[[int(find_node(tree, observations[row])) >= 0 for row in rows]]
    assert len(rows) > 50
    played = make_agent(f"equilibrium:path={tmp_path}").policy(observations[rows], masks[rows])
    for observation, row in zip(observations[rows], played, strict=True):
        assert list(by_rank(observation, row).values()) == pytest.approx([0.5, 0.5], abs=0.003)

    for path, says in (
        (tmp_path / "none.bin", r"there is no strategy '.*none\.bin': make one with cribbage solve"),
        (tmp_path / "dir", r"there is no strategy '.*strategy\.bin'"),
        (tmp_path / "text", "is no strategy of the play"),
    ):
        if path.name == "dir":
            path.mkdir()
        elif path.name == "text":
            path.write_text("hello")
        with pytest.raises(AgentError, match=says):
            make_agent(f"equilibrium:path={path}")

    small = build_tree(2)
    solver = Solver(small, dealt_weights(2))
    solver.iterate()
    few = make_strategy(solver.walker, dealt_weights(2), solver.policy(), prior="uniform")
    save_strategy(few, tmp_path / "small.bin")
    with pytest.raises(AgentError, match="is for hands of 2 cards, a game has 4"):
        make_agent(f"equilibrium:path={tmp_path / 'small.bin'}")


# --- Slow ones: the whole tree --------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_infoset_through_observations_is_what_is_stored(tree: Tree) -> None:
    played = agent_policy(make_agent("equilibrium"), tree)
    strategy = load_strategy(SHIPPED)
    assert (played.policy == strategy.policy(tree)).all()
    weights = prior_weights(make_agent("expected"))
    walker = Walker(tree, weights)
    best = exploitability(walker, played.policy, played.end_policy)
    assert best.pone == pytest.approx(strategy.facts.pone_best, abs=1e-6)
    assert best.dealer == pytest.approx(strategy.facts.dealer_best, abs=1e-6)
    assert play_value(walker, played.policy, played.end_policy) == pytest.approx(strategy.facts.value, abs=1e-6)


def spliced(tree: Tree, pone: NDArray[np.float32], dealer: NDArray[np.float32]) -> NDArray[np.float32]:
    """Pone's decisions of one policy, the dealer's of another."""
    movers = np.repeat(tree.mover, np.diff(tree.slots))
    return np.where(movers == PONE, pone, dealer)


@pytest.mark.slow
def test_play_points_in_full_games_are_the_exact_values(tree: Tree) -> None:
    """Against ``greedy``: both roles, points of the play a deal, within the confidence interval over pairs."""
    agents = [make_agent(spec) for spec in ("equilibrium", "greedy")]
    throws = [[class_policy(agent, is_dealer) for is_dealer in (False, True)] for agent in agents]
    policies = [
        agent_policy(agent, tree, throws=(throw[0], throw[1])) for agent, throw in zip(agents, throws, strict=True)
    ]
    games = np.concatenate(list(play_blocks(agents[0], agents[1], 20_000, 4)))
    pone_part, dealer_part = PARTS.index("play_pone"), PARTS.index("play_dealer")
    for pone in (0, 1):
        dealer = 1 - pone
        joint = joint_weights(discard_policy(throws[pone][0]), discard_policy(throws[dealer][1]))
        policy = spliced(tree, policies[pone].policy, policies[dealer].policy)
        solo_seat = np.repeat(tree.end_kind - 1, np.diff(tree.end_slots))
        ends = np.where(solo_seat == PONE, policies[pone].end_policy, policies[dealer].end_policy)
        exact = float(Walker(tree, joint).walk(PONE, VALUE, policy, ends).sum())
        margin = games["points"][:, pone, pone_part].astype(float) - games["points"][:, dealer, dealer_part]
        deals = games["counted"][:, pone, pone_part].astype(float)
        assert (deals == games["counted"][:, dealer, dealer_part]).all()
        by_pair = [values.reshape(-1, 2).sum(axis=1) for values in (margin, deals)]
        mean = by_pair[0].sum() / by_pair[1].sum()
        residual = by_pair[0] - mean * by_pair[1]
        error = residual.std(ddof=1) * np.sqrt(len(residual)) / by_pair[1].sum()
        print(f"{agents[pone].name} as pone: exact {exact:.5f}, played {mean:.5f} +- {1.96 * error:.5f}")
        assert abs(mean - exact) < 3.3 * error
        assert error < 0.02
