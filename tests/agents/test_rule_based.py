"""The rules of ``rule_based`` on positions made by hand, its switches, and its strength."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import AgentError, make_agent
from agents.rule_based import RULE_NAMES, RULES, RuleBasedAgent
from cribbage_env import Game
from cribbage_env.cards import parse_cards
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.tournament.match import play_blocks, play_match


def rule_based(*without: str) -> RuleBasedAgent:
    agent = make_agent("rule_based" + (":" if without else "") + ",".join(f"no_{name}" for name in without))
    assert isinstance(agent, RuleBasedAgent)
    return agent


def answers(game: Game, rule: str) -> dict[str, float]:
    """What a rule answers to each legal action, by its cards."""
    agent = rule_based()
    at = RULE_NAMES.index(rule)
    seen = game.observation()
    points = agent.rule_points(seen["observation"][None], seen["action_mask"][None])[0, :, at]
    return {
        game.action_text(action).split(maxsplit=1)[1]: pytest.approx(points[action] / agent.weights[at], abs=1e-12)
        for action in game.legal_actions()
    }


def spares(used: list[int], number: int) -> list[int]:
    return [card for card in range(51, -1, -1) if card not in used and card // 4 != 10][:number]


def discard_position(hand: str, own_crib: bool, scores: tuple[int, int] = (0, 0)) -> Game:
    """The holder of ``hand`` is to discard; ``scores``: own, opponent's."""
    cards = parse_cards(hand)
    other = spares(cards, 7)
    if not own_crib:
        return Game(dealer=0, scores=scores[::-1], decks=[[*cards, *other]])
    game = Game(dealer=0, scores=scores, decks=[[*other[:6], *cards, other[6]]])
    game.step(0)
    return game


def play_position(pone: str, dealer: str, laid: str = "", scores: tuple[int, int] = (0, 0)) -> Game:
    """Both have kept four cards, and some were laid; ``scores``: the dealer's, pone's."""
    hands = [parse_cards(pone), parse_cards(dealer)]
    rest = spares([*hands[0], *hands[1]], 5)
    game = Game(dealer=0, scores=scores, decks=[[*hands[0], *rest[:2], *hands[1], *rest[2:]]])
    game.discard(rest[:2])
    game.discard(rest[2:4])
    for card in parse_cards(laid):
        game.play(card)
    return game


DISCARDS = [
    # rule, hand, own crib, what it answers to some discards
    ("keep_points", "2S 5C 5H 9C JD KD", False, {"2S 9C": 10, "5C 5H": 0, "JD KD": 2}),
    ("keep_points", "2S 5C 5H 9C JD KD", True, {"2S 9C": 10}),
    ("keep_points", "2H 4H 8H KH 3S 5S", False, {"3S 5S": 4}),  # a flush
    ("keep_touching", "2S 3S 7D 8H TC KD", True, {"TC KD": 2, "2S 3S": 1.5, "3S 8H": 0, "2S KD": 1.5}),
    ("keep_touching", "4C 4D 5H 6S 9C KD", False, {"9C KD": 2, "5H 6S": 0, "5H KD": 0.5}),
    ("keep_low", "AS 4C 4D 5H 9C KD", True, {"9C KD": 3, "AS 4C": 1, "4C KD": 2}),
    ("feed_fives", "2H 3C 5C 5H QS KD", True, {"5C 5H": 2, "5H KD": 1, "2H 3C": 0}),
    ("feed_fives", "2H 3C 5C 5H QS KD", False, {"5C 5H": 0, "5H KD": 0}),
    ("feed_points", "2H 3C 5C 5H QS KD", True, {"5C 5H": 2, "5H KD": 2, "2H 3C": 1, "QS KD": 0}),
    ("feed_points", "AH 4C 7C 8H 9S 9D", True, {"AH 4C": 1, "7C 8H": 2, "9D 9S": 2, "AH 7C": 0}),
    ("feed_points", "2H 3C 5C 5H QS KD", False, {"5C 5H": 0}),
    ("feed_touching", "2H 3C 5C 5H QS KD", True, {"2H 3C": 1, "3C 5C": 0.5, "QS KD": 1, "5C 5H": 0, "2H KD": 0}),
    ("feed_touching", "2H 3C 5C 5H QS KD", False, {"2H 3C": 0, "3C 5C": 0}),
    ("balk_fives", "2H 3C 5C 5H QS KD", False, {"5C 5H": -2, "5H KD": -1, "2H 3C": 0}),
    ("balk_fives", "2H 3C 5C 5H QS KD", True, {"5C 5H": 0, "5H KD": 0}),
    ("balk_points", "2H 3C 5C 5H QS KD", False, {"5C 5H": -2, "5H KD": -2, "2H 3C": -1, "QS KD": 0}),
    ("balk_points", "2H 3C 5C 5H QS KD", True, {"5C 5H": 0}),
    ("balk_wide", "2H 3C 5C 5H QS KD", False, {"2H 3C": -1, "3C 5C": -0.5, "QS KD": -1, "2H KD": 0}),
    ("balk_wide", "2H 3C 5C 5H QS KD", True, {"2H 3C": 0}),
    ("balk_suits", "2H 3C 5C 5H QS KD", False, {"3C 5C": 0, "2H 5H": 0, "2H 3C": 1, "QS KD": 1}),
    ("balk_suits", "2H 3C 5C 5H QS KD", True, {"2H 3C": 0}),
    ("balk_high", "2H 9C TS JH QS KD", False, {"QS KD": 2, "TS JH": 1, "JH KD": 1, "2H 9C": 0, "9C JH": 0}),
    ("balk_high", "2H 9C TS JH QS KD", True, {"QS KD": 0}),
]


@pytest.mark.parametrize(("rule", "hand", "own_crib", "expected"), DISCARDS)
def test_rules_of_the_discard(rule: str, hand: str, own_crib: bool, expected: dict[str, float]) -> None:
    given = answers(discard_position(hand, own_crib), rule)
    assert len(given) == 15
    assert {cards: given[cards] for cards in expected} == expected


@pytest.mark.parametrize(
    ("own_crib", "scores", "close"),
    [
        (False, (112, 0), True),  # pone lacks nine
        (False, (111, 120), False),  # pone lacks ten, and counts before the dealer
        (True, (0, 112), True),
        (True, (120, 111), False),
    ],
)
def test_low_cards_are_kept_when_the_next_hands_may_end_the_game(
    own_crib: bool, scores: tuple[int, int], close: bool
) -> None:
    given = answers(discard_position("AS 4C 4D 5H 9C KD", own_crib, scores), "count_board")
    assert (given["9C KD"], given["AS 4C"], given["4C KD"]) == ((3, 1, 2) if close else (0, 0, 0))


# The pone leads. "alone": the pone has laid all its cards, the dealer plays on without answers.
ALONE = "4C TD 3C JD 2C AC"

PLAYS = [
    # rule, pone's cards, dealer's cards, laid, what it answers
    ("take_points", "4C 4H 9D KS", "5S 6D 7C 8H", "9D", {"5S": 0, "6D": 2, "7C": 0, "8H": 0}),
    ("take_points", "4C 4H 9D KS", "4D 5S 6D 9H", "9D", {"4D": 0, "5S": 0, "6D": 2, "9H": 2}),
    ("take_points", "4C 6H 9D KS", "5S 2D 9C 8H", "4C 5S", {"6H": 5, "9D": 0, "KS": 0}),  # a run and fifteen
    ("lead_low", "4C 4H 9D KS", "5S 6D 7C 8H", "", {"4C": 1, "4H": 1, "9D": 0, "KS": 0}),
    ("lead_low", "4C 4H 9D KS", "AS 4D 7C 8H", "9D", {"AS": 0, "4D": 0, "7C": 0, "8H": 0}),  # no lead
    ("lead_low", "AC 2C 3C 4C", "TD JD 4D KD", ALONE, {"4D": 0, "KD": 0}),
    ("lead_pair", "4C 4H 9D KS", "5S 6D 7C 8H", "", {"4C": 1, "4H": 1, "9D": 0, "KS": 0}),
    ("lead_pair", "5C 5H KD KS", "4S 6D 7C 8H", "", {"5C": 0, "5H": 0, "KD": 1, "KS": 1}),
    ("lead_pair", "9D KS QS QH", "4D 4S 7C 8H", "9D", {"4D": 0, "4S": 0, "7C": 0, "8H": 0}),
    ("lead_pair", "AC 2C 3C 4C", "TD JD 7D 7S", ALONE, {"7D": 0, "7S": 0}),
    ("lead_split_five", "2C 3H 9D KS", "4S 6D 7C 8H", "", {"2C": 1, "3H": 1, "9D": 0, "KS": 0}),
    ("lead_split_five", "AC 4H 9D KS", "2S 3D 7C 8H", "9D", {"2S": 0, "3D": 0, "7C": 0, "8H": 0}),
    ("avoid_5_21", "5C 5H 9D KS", "4S 6D 7C 8H", "", {"5C": -1, "5H": -1, "9D": 0, "KS": 0}),
    ("avoid_5_21", "AC 4H QC KS", "AD JS 7C 8H", "KS AD", {"AC": 0, "4H": 0, "QC": -1}),
    ("avoid_5_21", "AC 2C 3C 4C", "TD JD 5D KD", ALONE, {"5D": 0, "KD": 0}),
    ("avoid_fifteen", "2C 4H QC KS", "2D 6S 7C KH", "2C", {"2D": 0, "6S": -1, "7C": -1, "KH": -1}),
    ("avoid_fifteen", "2C 4H QC KS", "3S 4D 5S 7C", "KS", {"3S": -1, "4D": -1, "5S": 0, "7C": 0}),
    ("avoid_fifteen", "2C 4H 7D KS", "3S 4D 5S 7C", "", {"2C": 0, "4H": 0, "7D": 0, "KS": 0}),
    ("leave_22_26", "AC 2H 6D KS", "QD JS 7C 8H", "KS QD", {"AC": 0, "2H": 1, "6D": 1}),
    ("leave_22_26", "7C 8H 9D KS", "QD JS TC AH", "KS QD", {"7C": 0, "8H": 0, "9D": 0}),
    ("leave_27_30", "7C TH 6D KS", "QD JS 9C 8H", "KS QD", {"7C": 1, "TH": 1, "6D": 0}),
    ("leave_27_30", "AC 6H 9D KS", "5D JS TC QH", "KS 5D 6H", {"5D": 0} | {"JS": 0, "TC": 0, "QH": 0}),  # 31
    ("save_low", "4C 4H 9D KS", "AS 2D 3S KH", "9D", {"AS": -1, "2D": -1, "3S": -1, "KH": 0}),
    ("save_low", "AC 2H 4D KS", "QD JS 7C 8H", "KS QD", {"AC": -1, "2H": 0, "4D": 0}),
    ("save_low", "AC 2H 4D KS", "QD JS 7C 8H", "", {"AC": 0, "2H": 0, "4D": 0, "KS": 0}),
    ("high_early", "AC 2H 4D KS", "QD JS 7C AH", "2H", {"QD": 1, "JS": 1, "7C": 0.7, "AH": 0.1}),
    ("high_early", "AC 2H 4D KS", "QD JS 7C 8H", "KS QD", {"AC": 0.1, "2H": 0, "4D": 0}),
    ("high_early", "AC 2H 4D KS", "QD JS 7C 8H", "", {"AC": 0, "2H": 0, "4D": 0, "KS": 0}),
    ("avoid_runs", "4C 4H 9D KS", "8S TD JC KH", "9D", {"8S": -1, "TD": -1, "JC": -0.5, "KH": 0}),
    ("avoid_runs", "4C 4H 9D KS", "7S 9H 6C QH", "9D", {"7S": -0.5, "9H": 0, "6C": 0, "QH": 0}),
    ("avoid_runs", "8C 4H 9D KS", "7S TH 6C QH", "", {"8C": 0, "4H": 0, "9D": 0, "KS": 0}),
    ("avoid_royal", "4C 4H 9D KS", "9S TD JC KH", "9D", {"9S": -1, "TD": 0, "JC": 0, "KH": 0}),
    ("avoid_royal", "4C 9H 9D KS", "TH TD JC KH", "9D KH", {"4C": 0, "9H": 0, "KS": 0}),  # 29: no third one
    ("set_trap", "4C 4H 9D KS", "3S 3H KC KH", "9D", {"3S": 1, "3H": 1, "KC": 0, "KH": 0}),
    ("set_trap", "4C 4H 9D KS", "3S 3H KC KH", "", {"4C": 0, "4H": 0, "9D": 0, "KS": 0}),
]


@pytest.mark.parametrize(("rule", "pone", "dealer", "laid", "expected"), PLAYS)
def test_rules_of_the_play(rule: str, pone: str, dealer: str, laid: str, expected: dict[str, float]) -> None:
    given = answers(play_position(pone, dealer, laid), rule)
    assert given == {card: expected[card] for card in given}
    assert given


def test_a_card_that_wins_is_laid() -> None:
    position = {"pone": "AC 4H 9D KS", "dealer": "5S 6D 7C 9H", "laid": "9D"}
    game = play_position(**position, scores=(119, 0))
    assert answers(game, "take_win") == {"5S": 0, "6D": 1, "7C": 0, "9H": 1}
    assert best(game, rule_based()) <= {"6D", "9H"}
    assert answers(play_position(**position, scores=(118, 120)), "take_win") == dict.fromkeys(
        ["5S", "6D", "7C", "9H"], 0
    )


def best(game: Game, agent: RuleBasedAgent) -> set[str]:
    """The cards of the actions that the agent takes."""
    seen = game.observation()
    policy = agent.policy(seen["observation"][None], seen["action_mask"][None])[0]
    return {game.action_text(int(action)).split(maxsplit=1)[1] for action in np.flatnonzero(policy)}


def test_every_rule_has_been_tested() -> None:
    tested = {case[0] for case in [*DISCARDS, *PLAYS]} | {"count_board", "take_win"}
    assert tested == set(RULE_NAMES)


# --- Switches -----------------------------------------------------------------------------------------------


def test_every_rule_has_a_switch_a_place_and_a_tip() -> None:
    from agents import rule_based as module

    assert list(inspect.signature(RuleBasedAgent).parameters) == list(RULE_NAMES)
    for place, rule in enumerate(RULES):
        assert getattr(module, rule.name.upper()) == place
        assert rule.weight > 0
        assert rule.phase in ("discard", "play")
        assert "\n" not in rule.tip
        assert rule.tip.endswith(".")
        weights = rule_based(rule.name).weights
        assert weights[place] == 0
        assert (np.delete(weights, place) == np.delete(rule_based().weights, place)).all()


@cache
def positions() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    """Observations with their masks from random games, some of them near their end."""
    rng = np.random.default_rng(1)
    observations, masks = [], []
    for scores in ((0, 0), (112, 114), (118, 119)):
        env = CribbageVectorEnv(150, scores=scores)
        seen, _ = env.reset(seed=sum(scores))
        for _ in range(20):
            observations.append(seen["observation"])
            masks.append(seen["action_mask"])
            seen = env.step((rng.random((150, 19)) * seen["action_mask"]).argmax(axis=1))[0]
    return np.concatenate(observations), np.concatenate(masks)


@cache
def all_points() -> NDArray[np.float64]:
    """(B, 19, rules): what each rule thinks of each action."""
    return rule_based().rule_points(*positions())


@pytest.mark.parametrize("rule", RULE_NAMES)
def test_a_rule_that_is_off_has_no_say_and_the_others_have_all(rule: str) -> None:
    observations, masks = positions()
    points = all_points()
    without = points.sum(axis=2) - points[:, :, RULE_NAMES.index(rule)]
    best = np.where(masks == 1, without, -np.inf)
    expected = best > best.max(axis=1, keepdims=True) - 1e-9
    policy = rule_based(rule).policy(observations, masks)
    assert ((policy > 0) == expected).all()
    np.testing.assert_allclose(policy, expected / expected.sum(axis=1, keepdims=True))
    whole = rule_based().policy(observations, masks)
    assert (whole != policy).any(), "the rule decides nothing in any position"
    is_discard = masks[:, 0] == 1
    assert (whole == policy)[is_discard == (RULES[RULE_NAMES.index(rule)].phase == "play")].all()


def test_without_any_rule_all_legal_actions_are_equal() -> None:
    observations, masks = positions()
    policy = rule_based(*RULE_NAMES).policy(observations, masks)
    np.testing.assert_allclose(policy, masks / masks.sum(axis=1, keepdims=True))


def test_rule_points_are_zero_for_illegal_actions() -> None:
    assert not all_points()[positions()[1] == 0].any()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("rule_based:no_lead_lowe", "unknown option 'lead_lowe'; this agent's options: keep_points, keep_touching"),
        ("rule_based:lead_low=2", "the option lead_low must be of type bool, got '2'"),
        ("rule_based:no_lead_low,lead_low", "given twice"),
    ],
)
def test_specs_that_are_refused(spec: str, message: str) -> None:
    with pytest.raises(AgentError, match=message) as caught:
        make_agent(spec)
    assert "\n" not in str(caught.value)


# --- Whole games --------------------------------------------------------------------------------------------


def test_games_do_not_depend_on_the_batch() -> None:
    def games(batch: int) -> NDArray[np.void]:
        blocks = play_blocks(rule_based(), make_agent("greedy"), 40, seed=5, batch=batch)
        return np.concatenate(list(blocks))

    assert (games(4096) == games(1)).all()


def test_beats_greedy() -> None:
    """65 % over many games; the standard error of 2,000 pairs is 0.6 %."""
    assert play_match(rule_based(), make_agent("greedy"), 2_000, seed=8).win_rate.low > 0.6
