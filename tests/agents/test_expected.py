"""The agent expected against a plain computation from its definition."""

import numpy as np
import pytest
from reference import play_score, playable

from agents import AgentError, make_agent
from agents.discards import expected_discard_values
from cribbage_env import Game


def plain_play_values(game: Game) -> dict[int, float]:
    """By action: points now minus the mean points of the legal replies over unseen cards."""
    seat = game.player
    assert seat is not None
    seen = set(game.cards(seat)) | set(game.laid) | {game.starter}
    unseen = [card for card in range(52) if card not in seen]
    values = {}
    for action in game.legal_actions():
        card = game.kept(seat)[action - 15]
        stack = [*game.stack, card]
        count = sum(min(one // 4 + 1, 10) for one in stack)
        now = play_score(stack)["total"]
        if count == 31:
            stack, count = [], 0
        replies = [play_score([*stack, one])["total"] for one in playable(unseen, count)]
        values[action] = now - (sum(replies) / len(replies) if replies else 0.0)
    return values


def test_plays_by_its_definition() -> None:
    agent = make_agent("expected")
    rng = np.random.default_rng(3)
    compared = 0
    for seed in range(40):
        game = Game(seed=seed)
        while game.phase != "over" and game.deal < 3:
            seen = game.observation()
            policy = agent.policy(seen["observation"][None], seen["action_mask"][None])[0]
            if game.phase == "play":
                values = plain_play_values(game)
            else:
                assert game.player is not None
                six = np.array([game.cards(game.player)], np.uint8)
                values = dict(enumerate(expected_discard_values(six, np.array([game.player == game.dealer]))[0]))
            best = {action for action, value in values.items() if value > max(values.values()) - 1e-9}
            assert set(np.flatnonzero(policy)) == best
            assert policy[list(best)] == pytest.approx(1 / len(best))
            compared += 1
            game.step(int(rng.choice(game.legal_actions())))
    assert compared > 1000


def test_crib_table_is_an_option() -> None:
    hand = Game(decks=["AH 2S 7D 9C JS QD 3C 3D 4C 4D 6C 6D KS"]).observation()
    for crib in ("schell", "hessel", "colvert", "rasmussen"):
        policy = make_agent(f"expected:crib={crib}").policy(hand["observation"][None], hand["action_mask"][None])
        assert policy.sum() == pytest.approx(1)
    with pytest.raises(AgentError, match="no crib table 'mine'"):
        make_agent("expected:crib=mine")
