"""Minimax against a plain recursion through Game; the agent's values against minimax in the worlds that it draws."""

import copy
import itertools

import numpy as np
import pytest

from agents import AgentError, make_agent
from agents.monte_carlo import WIN_POINTS, minimax
from agents.worlds import sample_worlds, split_six
from cribbage_env import Game
from cribbage_env.engine import CARDS, EVENT_SIZE
from cribbage_env.observation import write_state


def plain_minimax(game: Game) -> int:
    """Seat 0's points minus seat 1's at the end of the play, by trying every card."""
    if game.phase == "over" or game.phase == "discard":
        raise AssertionError("the play is over")
    values = []
    for action in game.legal_actions():
        after = copy.deepcopy(game)
        events = after.step(action)
        shown = [event for event in events if event.kind in ("hand", "crib")]
        last = [event for event in events if event.kind not in ("hand", "crib")][-1]
        if max(last.raw_scores) >= after.rules.target:  # won in the play
            values.append(last.scores[0] - last.scores[1] + (WIN_POINTS if after.winner == 0 else -WIN_POINTS))
        elif shown:  # the last card: take the points before the show
            values.append(last.raw_scores[0] - last.raw_scores[1])
        else:
            values.append(plain_minimax(after))
    return max(values) if game.player == 0 else min(values)


def compiled_minimax(game: Game) -> int:
    row = game.state()
    before = row.copy()
    value = minimax(
        row, np.empty((9, CARDS), np.int16), np.empty((9, 4), np.int64), np.empty((0, EVENT_SIZE), np.int16)
    )
    assert (row[:CARDS] == before[:CARDS]).all()
    return int(value)


def positions(seeds: range, laid: int, scores: tuple[int, int] = (0, 0)):
    rng = np.random.default_rng(seeds.start)
    for seed in seeds:
        game = Game(seed=seed, scores=scores)
        while game.phase == "discard" or (game.phase == "play" and len(game.laid) < laid and game.deal == 0):
            game.step(int(rng.choice(game.legal_actions())))
        if game.phase == "play" and game.deal == 0:
            yield game


@pytest.mark.parametrize(("laid", "number"), [(7, 20), (6, 20), (5, 30), (4, 30), (3, 20), (2, 8)])
def test_minimax_equals_trying_every_card(laid: int, number: int) -> None:
    for game in positions(range(number), laid):
        assert compiled_minimax(game) == plain_minimax(game)


def test_minimax_stops_at_the_target() -> None:
    stopped = 0
    for game in positions(range(100, 130), 3, scores=(118, 119)):
        value = compiled_minimax(game)
        assert value == plain_minimax(game)
        stopped += abs(value) >= WIN_POINTS
    assert stopped > 0


def test_plays_the_card_that_is_best_on_average_in_its_worlds() -> None:
    agent = make_agent("monte_carlo:worlds=12,temperature=0.7")
    row = Game(seed=0).state()
    kept, thrown = np.zeros(4, np.uint8), np.zeros(2, np.uint8)
    for game in positions(range(200, 215), 4):
        if len(game.legal_actions()) < 2:
            continue
        seen = game.observation()
        worlds = sample_worlds(seen["observation"], 12, 0.7)
        means = {}
        for action in game.legal_actions():
            values = []
            for world in worlds:
                split_six(world, kept, thrown)
                write_state(seen["observation"], kept, thrown, row)
                imagined = Game.of_state(row, 0, game.rules)
                imagined.step(action)
                values.append(compiled_minimax(imagined))
            means[action] = np.mean(values)
        best = {action for action, mean in means.items() if mean > max(means.values()) - 1e-9}
        policy = agent.policy(seen["observation"][None], seen["action_mask"][None])[0]
        assert set(np.flatnonzero(policy)) == best


def test_a_position_is_answered_alike_in_any_batch() -> None:
    agent = make_agent("monte_carlo:worlds=8,discard=rollout,rollouts=10")
    seen = [Game(seed=seed).observation() for seed in range(30)]
    seen += [game.observation() for game in positions(range(60), 3)]
    observations = np.stack([one["observation"] for one in seen])
    masks = np.stack([one["action_mask"] for one in seen])
    policy = agent.policy(observations, masks)
    assert policy.sum(axis=1) == pytest.approx(1)
    assert not policy[masks == 0].any()
    for i in range(len(seen)):
        assert (agent.policy(observations[i : i + 1], masks[i : i + 1])[0] == policy[i]).all()
    assert (agent.policy(observations[::-1], masks[::-1])[::-1] == policy).all()


def test_rollouts_see_what_a_hand_brings_in_the_play() -> None:
    """Two discards of nearly equal averages: the roll-outs prefer the hand that pegs."""
    changed = 0
    plain = make_agent("monte_carlo:worlds=1")
    rolled = make_agent("monte_carlo:worlds=1,discard=rollout,rollouts=300")
    for seed in range(60):
        seen = Game(seed=seed).observation()
        arguments = seen["observation"][None], seen["action_mask"][None]
        changed += (plain.policy(*arguments) != rolled.policy(*arguments)).any()
    assert 3 < changed < 40


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("monte_carlo:worlds=0", "worlds must lie between 1 and 1,000,000, got 0"),
        ("monte_carlo:worlds=99999999999999", "worlds must lie between"),
        ("monte_carlo:rollouts=-1", "rollouts must lie between"),
        ("monte_carlo:temperature=0", "temperature must be positive"),
        ("monte_carlo:discard=best", "discard must be expected or rollout, got 'best'"),
        ("monte_carlo:worlds=many", "worlds must be of type int"),
    ],
)
def test_bad_options(spec: str, message: str) -> None:
    with pytest.raises(AgentError, match=message):
        make_agent(spec)


@pytest.mark.parametrize("scores", [(117, 117), (119, 116), (116, 119)])
def test_takes_a_card_that_wins(scores: tuple[int, int]) -> None:
    agent = make_agent("monte_carlo:worlds=5")
    seen = 0
    for game in itertools.chain(*(positions(range(250), laid, scores=scores) for laid in (2, 3, 4))):
        if len(game.legal_actions()) < 2:
            continue
        winning = set()
        for action in game.legal_actions():
            card = copy.deepcopy(game).step(action)[0]  # what follows it may depend on the opponent's cards
            if card.scores[card.player] == game.rules.target:
                winning.add(action)
        if winning:
            seen += 1
            view = game.observation()
            policy = agent.policy(view["observation"][None], view["action_mask"][None])[0]
            assert set(np.flatnonzero(policy)) <= winning
    assert seen > 3
