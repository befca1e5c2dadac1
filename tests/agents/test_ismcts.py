"""The search against minimax where nothing is hidden, its tree, its values, and what it finds at the end of a game."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import AgentError, make_agent
from agents.discards import crib_table
from agents.ismcts import IsmctsAgent, end_value, search
from agents.monte_carlo import minimax
from agents.worlds import sample_worlds
from cribbage_env import Game, Rules
from cribbage_env.engine import CARDS, EVENT_SIZE, OVER, PHASE, SCORE
from cribbage_env.scoring import show_table
from experiments.tournament.match import play_match

NO_TABLE = np.zeros((0, 0, 2))
EXTRA_NODES = 16
GUARD = -77


def positions(seeds: range, laid: int, scores: tuple[int, int] = (0, 0)) -> Iterator[Game]:
    """First deals after so many cards, reached by random actions, where there is a choice."""
    rng = np.random.default_rng(seeds.start)
    for seed in seeds:
        game = Game(seed=seed, scores=scores)
        while game.phase == "discard" or (game.phase == "play" and len(game.laid) < laid and game.deal == 0):
            game.step(int(rng.choice(game.legal_actions())))
        if game.phase == "play" and game.deal == 0 and len(game.legal_actions()) > 1:
            yield game


def alone(seeds: range, laid: int) -> Iterator[Game]:
    """Such positions in which the opponent has no cards."""
    for game in positions(seeds, laid):
        if set(game.kept(1 - game.player)) <= set(game.laid):
            yield game


def stacked(games: list[Game]) -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    seen = [game.observation() for game in games]
    return np.stack([one["observation"] for one in seen]), np.stack([one["action_mask"] for one in seen])


def some_positions() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Discards of both seats, plays early and late, and some without a choice."""
    games = [Game(seed=seed, dealer=seed % 2) for seed in range(12)]
    for seed in range(12):
        game = Game(seed=seed)
        game.step(seed)
        games.append(game)
    for laid in (0, 1, 3, 5, 7):
        for seed in range(8):
            game = Game(seed=seed)
            while game.phase == "discard" or len(game.laid) < laid:
                game.step(game.legal_actions()[-1])
            games.append(game)
    return stacked(games)


def run_search(
    game: Game, worlds: NDArray[np.uint8], simulations: int, exploration: float = 2.0, rollout: int = 1
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
    """Visits by action, and the tree; what lies behind the tree's memory must stay as it was."""
    room = simulations + EXTRA_NODES
    nodes = np.full((room + 4, 5), GUARD, np.int32)
    totals = np.full((room + 4, 2), GUARD, np.float64)
    visits = np.empty(19, np.int64)
    search(
        show_table(), crib_table("schell"), NO_TABLE, game.observation()["observation"], worlds, simulations,
        exploration, 100.0, rollout, True, nodes[:room], totals[:room], visits,
    )  # fmt: skip
    assert (nodes[room:] == GUARD).all()
    assert (totals[room:] == GUARD).all()
    return visits, nodes[:room], totals[:room]


def true_world(game: Game) -> NDArray[np.uint8]:
    """What the opponent of the player to act really holds, as worlds are written: (1, 6)."""
    other = 1 - game.player
    return np.array([game.kept(other) + game.thrown(other)], np.uint8)


def best_by_minimax(game: Game) -> set[int]:
    """The plays that are best when all cards are open."""
    sign = 1 if game.player == 0 else -1
    values = {}
    for action in game.legal_actions():
        after = copy.deepcopy(game)
        after.step(action)
        scratch = np.empty((9, CARDS), np.int16), np.empty((9, 4), np.int64), np.empty((0, EVENT_SIZE), np.int16)
        values[action] = sign * minimax(after.state(), *scratch)
    return {action for action, value in values.items() if value == max(values.values())}


# --- The policy ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("simulations", [1, 2, 3, 4, 14, 15, 16, 17, 100])
@pytest.mark.parametrize("options", ["", ",rollout=random,choice=proportional", ",opponent=rollout"])
def test_any_budget_gives_a_policy(simulations: int, options: str) -> None:
    observations, masks = some_positions()
    agent = make_agent(f"ismcts:simulations={simulations}{options}")
    assert isinstance(agent, IsmctsAgent)
    policy = agent.policy(observations, masks)
    assert policy.sum(axis=1) == pytest.approx(1)
    assert not policy[masks == 0].any()
    assert (policy >= 0).all()
    visits = agent.visits(observations, masks)
    assert (visits.sum(axis=1) == simulations).all()
    if "proportional" in options:
        assert policy == pytest.approx(visits / simulations)
    else:
        assert ((policy > 0) == (visits == visits.max(axis=1, keepdims=True))).all()


@pytest.mark.parametrize("options", ["", ",rollout=random,choice=proportional,opponent=rollout"])
def test_a_position_is_answered_alike_in_any_batch(options: str) -> None:
    observations, masks = some_positions()
    agent = make_agent(f"ismcts:simulations=40{options}")
    policy = agent.policy(observations, masks)
    for i in range(len(masks)):
        assert (agent.policy(observations[i : i + 1], masks[i : i + 1])[0] == policy[i]).all()
    assert (agent.policy(observations[::-1], masks[::-1])[::-1] == policy).all()
    assert (make_agent(f"ismcts:simulations=40{options}").policy(observations, masks) == policy).all()
    assert agent.policy(observations[:0], masks[:0]).shape == (0, 19)


def test_cards_of_a_rank_are_one_move() -> None:
    game = Game(decks=["5H 5C JD JS 9C KD  4H 5S 5D 6C AC 8D  3H"])
    game.discard("9C KD")
    game.discard("AC 8D")
    visits = IsmctsAgent(simulations=300).visits(*stacked([game]))[0]
    assert visits[15:].tolist() == [visits[15], 0, 300 - visits[15], 0]
    assert 0 < visits[15] < 300


# --- The tree -----------------------------------------------------------------------------------------------


def children(nodes: NDArray[np.int32], node: int) -> list[int]:
    found = []
    child = nodes[node, 0]
    while child != -1:
        found.append(int(child))
        child = nodes[child, 1]
    return found


def check_tree(nodes: NDArray[np.int32], node: int, simulations: int, count: int) -> int:
    """Visits add up, and no line of play in the tree has a count above 31; how many nodes there are below."""
    below = children(nodes, node)
    assert sum(int(nodes[child, 3]) for child in below) in ((0, simulations) if below == [] else (simulations,))
    moves = [int(nodes[child, 2]) for child in below]
    assert len(set(moves)) == len(moves)
    size = len(below)
    for child, move in zip(below, moves, strict=True):
        turn, rank = divmod(move, 16)
        after = (0 if turn & 1 else count) + min(rank + 1, 10)
        assert after <= 31
        assert nodes[child, 4] >= nodes[child, 3] >= 1
        size += check_tree(nodes, child, int(nodes[child, 3]) - 1, after)  # the first visit went on outside the tree
    return size


def test_tree_of_the_play() -> None:
    for game in positions(range(300, 315), 2):
        worlds = sample_worlds(game.observation()["observation"], 400)
        visits, nodes, _ = run_search(game, worlds, 400)
        assert visits.sum() == 400
        assert 20 < check_tree(nodes, 0, 400, game.count) <= 400


def test_tree_of_a_discard() -> None:
    for dealer in (0, 1):
        game = Game(seed=5, dealer=dealer)
        if dealer == 0:
            game.step(3)
        worlds = sample_worlds(game.observation()["observation"], 400)
        visits, nodes, _ = run_search(game, worlds, 400)
        assert visits.sum() == 400
        assert (visits[:15] == nodes[1:16, 3]).all()
        sizes = [check_tree(nodes, 1 + action, int(visits[action]), 0) for action in range(15)]
        assert 20 < sum(sizes) <= 400


@pytest.mark.parametrize("simulations", [1, 2, 15, 16])
def test_small_trees_stay_in_their_memory(simulations: int) -> None:
    for game in [Game(seed=1), *positions(range(400, 405), 0), *positions(range(405, 410), 4)]:
        worlds = sample_worlds(game.observation()["observation"], 3)
        visits, _, _ = run_search(game, worlds, simulations)
        assert visits.sum() == simulations


# --- Against minimax ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("laid", "number", "simulations"), [(5, 40, 2_000), (4, 25, 10_000), (3, 12, 30_000)])
@pytest.mark.parametrize("rollout", [0, 1])
def test_with_open_cards_it_finds_what_minimax_finds(laid: int, number: int, simulations: int, rollout: int) -> None:
    """The search is given the opponent's real cards as its only world."""
    games = list(positions(range(500, 500 + 2 * number), laid))[:number]
    assert len(games) > number // 2
    differ = 0
    for game in games:
        best = best_by_minimax(game)
        visits, _, _ = run_search(game, true_world(game), simulations, rollout=rollout)
        assert int(visits.argmax()) in {first_of_rank(game, action) for action in best}
        differ += len(best) < len(game.legal_actions())
    assert differ > number // 4


def first_of_rank(game: Game, action: int) -> int:
    """Visits of cards of a rank are counted at the first that is left."""
    kept = game.kept(game.player)
    rank = kept[action - 15] >> 2
    return min(other for other in game.legal_actions() if kept[other - 15] >> 2 == rank)


def test_against_an_opponent_without_cards_it_finds_the_best_order() -> None:
    """Nothing that is hidden matters: the agent as it is."""
    games = [*alone(range(1_500), 5), *alone(range(1_500), 6)]
    assert len(games) > 40
    policy = IsmctsAgent(simulations=200).policy(*stacked(games))
    differ = 0
    for game, row in zip(games, policy, strict=True):
        best = best_by_minimax(game)
        assert set(np.flatnonzero(row).tolist()) <= best
        differ += len(best) < len(game.legal_actions())
    assert differ > 5


# --- What a deal is worth -----------------------------------------------------------------------------------


def test_with_a_heavy_prior_it_discards_like_expected() -> None:
    """The prior is the exact average of hand and crib, whatever a point is worth."""
    games = [Game(seed=seed, dealer=seed % 2) for seed in range(40)]
    observations, masks = stacked(games)
    expected = make_agent("expected").policy(observations, masks)
    policy = IsmctsAgent(simulations=60, prior=1e7).policy(observations, masks)
    assert ((policy > 0) <= (expected > 0)).all()
    policy = IsmctsAgent(simulations=600, prior=5.0).policy(observations, masks)
    assert 2 < ((policy > 0) > (expected > 0)).any(axis=1).sum() < 38, "the play counts too"


def test_value_of_the_end_of_a_deal() -> None:
    table = np.arange(61 * 61 * 2, dtype=np.float64).reshape(61, 61, 2)
    game = Game(Rules(61), seed=3, dealer=0)
    while game.deal == 0:
        row = game.state()
        game.step(game.legal_actions()[0])
    row = game.state()
    row[PHASE] = 2  # between deals, as the search leaves it
    row[SCORE : SCORE + 2] = 20, 33
    for dealer in (0, 1):
        row[2] = dealer
        assert end_value(table, row) == table[20, 33, dealer], "seat 0 deals next after seat 1"
        assert end_value(NO_TABLE, row) == -13
        longer = np.zeros((121, 121, 2))
        longer[80, 93, dealer] = 0.25
        assert end_value(longer, row) == 0.25, "a game to 61 is one to 121 from 60"
    row[PHASE] = OVER
    row[SCORE : SCORE + 2] = 64, 50
    row[8] = 0
    assert end_value(table, row) == 1
    assert end_value(NO_TABLE, row) == 11 + 30
    row[8] = 1
    assert end_value(table, row) == 0
    assert end_value(NO_TABLE, row) == 11 - 30


def test_a_table_of_chances_decides(tmp_path: Path) -> None:
    """A made-up table in which one's own points do harm: the best order of the last cards is the worst."""
    own = np.arange(121) / 121
    table = np.repeat(np.repeat(1 - own[:, None, None], 121, axis=1), 2, axis=2)
    path = tmp_path / "chances.npy"
    np.save(path, table)
    games = list(alone(range(1_500), 6))
    policies = [
        agent.policy(*stacked(games))
        for agent in (
            make_agent("ismcts:simulations=1000"),
            make_agent(f"ismcts:simulations=1000,win_table={path}"),
            IsmctsAgent(simulations=1000, win_table=table),
        )
    ]
    assert (policies[1] == policies[2]).all()
    turned = 0
    for game, most, least in zip(games, policies[0], policies[1], strict=True):
        points = {}
        for action in game.legal_actions():
            after = copy.deepcopy(game)
            shown = after.step(action)
            while after.deal == 0 and after.phase == "play":
                shown += after.step(after.legal_actions()[0])
            points[action] = sum(event.points for event in shown if event.kind in ("card", "go", "last"))
        if len(points) == 2 and len(set(points.values())) == 2:
            assert points[int(most.argmax())] == max(points.values())
            assert points[int(least.argmax())] == min(points.values())
            turned += 1
    assert turned > 3


def test_a_table_must_reach_as_far_as_the_game() -> None:
    agent = IsmctsAgent(simulations=10, win_table=np.full((61, 61, 2), 0.5))
    seen = Game(Rules(61), seed=1).observation()
    assert agent.policy(seen["observation"][None], seen["action_mask"][None]).sum() == pytest.approx(1)
    seen = Game(seed=1).observation()
    with pytest.raises(AgentError, match="win_table is for games to 61, not to 121"):
        agent.policy(seen["observation"][None], seen["action_mask"][None])


# --- The end of a game --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scores", [(117, 117), (119, 116), (116, 119)])
def test_takes_a_win_that_is_there(scores: tuple[int, int]) -> None:
    agent = IsmctsAgent(simulations=300)
    seen = 0
    for laid in (1, 2, 3, 4):
        for game in positions(range(120), laid, scores=scores):
            winning = set()
            for action in game.legal_actions():
                after = copy.deepcopy(game)
                after.step(action)
                if after.winner == game.player:
                    winning.add(action)
            if winning and len(winning) < len(game.legal_actions()):
                seen += 1
                policy = agent.policy(*stacked([game]))[0]
                assert set(np.flatnonzero(policy).tolist()) <= winning
    assert seen > 10


def test_plays_the_only_card_that_wins() -> None:
    """Two to go and the opponent is about to win: 15 with the five, nothing with the others."""
    game = Game(dealer=0, scores=(119, 110), decks=["TH 8S 4C 3D 2C 2D  5H 9C 6D QS AC AD  7H"])
    game.discard("2C 2D")
    game.discard("AC AD")
    game.play("TH")
    best = IsmctsAgent(simulations=500).policy(*stacked([game]))[0]
    assert [game.action_text(action) for action in np.flatnonzero(best)] == ["play 5H"]


@pytest.mark.parametrize(
    ("deck", "needs", "thrown"),
    [
        ("5C 6D 7H 7S 8S JD  2H 3C 9D TH KC AS  QD", 12, "5C JD"),
        ("5D 5H 7C 8C TH KS  2H 3C 9D TD KC AS  QD", 10, "7C 8C"),
        ("3C 3H 5S 6C 6D KS  2H 4C 9D TD KC AS  QD", 8, "5S KS"),
    ],
)
def test_keeps_the_hand_that_wins_for_certain(deck: str, needs: int, thrown: str) -> None:
    """Pone counts first: points that need no starter win the game. On average another hand and the crib are better."""
    game = Game(dealer=0, scores=(40, 121 - needs), decks=[deck])
    arguments = stacked([game])
    averages = make_agent("expected").policy(*arguments)[0]
    chosen = IsmctsAgent(simulations=4_000).policy(*arguments)[0]
    wanted = f"discard {thrown}"
    assert wanted not in [game.action_text(action) for action in np.flatnonzero(averages)]
    assert [game.action_text(action) for action in np.flatnonzero(chosen)] == [wanted]


# --- Strength, options --------------------------------------------------------------------------------------


def test_beats_greedy() -> None:
    summary = play_match(IsmctsAgent(simulations=100), make_agent("greedy"), 150, seed=8)
    assert summary.win_rate.low > 0.5


@pytest.mark.slow
def test_beats_expected() -> None:
    summary = play_match(IsmctsAgent(simulations=1_000), make_agent("expected"), 1_500, seed=8)
    assert summary.win_rate.low > 0.53


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ismcts:simulations=0", "simulations must lie between 1 and 1,000,000, got 0"),
        ("ismcts:simulations=1000001", "simulations must lie between 1 and 1,000,000, got 1000001"),
        ("ismcts:simulations=few", "simulations must be of type int"),
        ("ismcts:exploration=0", "exploration must be positive, got 0"),
        ("ismcts:exploration=nan", "exploration must be positive, got nan"),
        ("ismcts:temperature=-1", "temperature must be positive, got -1"),
        ("ismcts:prior=inf", "prior must be positive, got inf"),
        ("ismcts:rollout=greedy", "rollout must be random or expected, got 'greedy'"),
        ("ismcts:opponent=me", "opponent must be search or rollout, got 'me'"),
        ("ismcts:choice=best", "choice must be most_visited or proportional, got 'best'"),
        ("ismcts:crib=hoyle", "no crib table 'hoyle'"),
        ("ismcts:win_table=nowhere.npy", "win_table 'nowhere.npy' can't be read"),
        ("ismcts:worlds=3", "unknown option 'worlds'"),
    ],
)
def test_bad_options(spec: str, message: str) -> None:
    with pytest.raises(AgentError, match=message) as caught:
        make_agent(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.zeros((121, 121)), "win_table must be"),
        (np.zeros((121, 120, 2)), "win_table must be"),
        (np.full((121, 121, 2), 1.5), "chances"),
        (np.full((121, 121, 2), np.nan), "chances"),
    ],
)
def test_bad_tables(table: NDArray[np.float64], message: str) -> None:
    with pytest.raises(AgentError, match=message):
        IsmctsAgent(win_table=table)


def test_a_file_that_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "chances.npy"
    path.write_text("not an array")
    with pytest.raises(AgentError, match=r"can't be read as an \.npy array"):
        make_agent(f"ismcts:win_table={path}")
