"""Game: the rule cases through the public view, what must hold of any game, and what it refuses."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import value_of
from row_game import seed_deck
from rule_cases import Row, by_seat, deck_for_play, deck_of_game, id_of, parse, rows_of

from cribbage_env import Event, Game, IllegalActionError, Rules, card_text, cards_text
from cribbage_env.engine import (
    COUNT,
    KEPT,
    LAID_CARDS,
    LAID_GO,
    LEFT,
    PART_POINTS,
    PARTS,
    PHASE,
    PLAY,
    PLAYER,
    STATE_SIZE,
)

PACK = list(range(52))


# --- The rule cases -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dealer", [0, 1])
@pytest.mark.parametrize("row", rows_of("peg_cases.jsonl"), ids=id_of)
def test_peg_cases(row: Row, dealer: int) -> None:
    seats = {"pone": 1 - dealer, "dealer": dealer}
    deck = deck_for_play(parse(row["pone"]), parse(row["dealer"]))
    game = Game(Rules(target=200), dealer=dealer, decks=[deck])
    assert game.discard(deck[4:6]) == []
    assert game.discard(cards_text(deck[10:12])) == []
    assert (game.phase, game.player) == ("play", seats["pone"])

    go_calls: list[tuple[int, int]] = []
    layers = [event[0] for event in row["events"] if event[1] not in ("go", "last")]
    for number, (layer, card) in enumerate(zip(layers, row["sequence"], strict=True)):
        assert game.player == seats[layer]
        events = game.play(card)
        if game.state()[LAID_GO + number]:
            go_calls.append((1 - seats[layer], events[0].count))

    play = [event for event in game.events if event.kind in ("card", "go", "last")]
    found = [
        [event.player, cards_text(event.cards) if event.kind == "card" else event.kind, event.count, event.points]
        for event in play
    ]
    assert found == [[seats[who], what, count, points] for who, what, count, points in row["events"]]
    points = by_seat({"pone": row["pone_points"], "dealer": row["dealer_points"]}, seats["pone"])
    assert play[-1].raw_scores == points
    assert go_calls == [(seats[who], count) for who, count in row["go_calls"]]
    assert (game.deal, game.dealer, game.phase) == (1, 1 - dealer, "discard")


def what_of(event: Event, pone: int) -> str:
    """The name of an event in the log of a game case."""
    if event.kind == "card":
        return f"play:{card_text(event.cards[0])}"
    if event.kind == "hand":
        return "pone_hand" if event.player == pone else "dealer_hand"
    return event.kind


@pytest.mark.parametrize("dealer", [0, 1])
@pytest.mark.parametrize("row", rows_of("game_cases.jsonl"), ids=id_of)
def test_game_cases(row: Row, dealer: int) -> None:
    pone = 1 - dealer
    names = {pone: "pone", dealer: "dealer"}
    game = Game(dealer=dealer, scores=by_seat(row["start"], pone), decks=[deck_of_game(row)])
    game.discard(row["pone_discard"])
    game.discard(row["dealer_discard"])
    for card in row["sequence"]:
        game.play(card)

    log = [
        [what_of(event, pone), names[event.player], event.points, event.raw_scores[pone], event.raw_scores[dealer]]
        for event in game.events
        if event.points
    ]
    assert log == row["log"]
    assert game.raw_scores == by_seat(row["final_raw"], pone)
    assert game.scores == by_seat(row["final_capped"], pone)
    assert row.get("skunk") is None  # no case has one: test_rules.py goes through all scores
    assert game.skunk == 0
    if row["winner"] is None:
        assert (game.winner, game.phase, game.deal, game.dealer) == (None, "discard", 1, pone)
    else:
        assert game.winner is not None
        assert (names[game.winner], game.phase, game.player) == (row["winner"], "over", None)
        assert what_of(game.events[-1], pone).split(":")[0] == row["won_at"]
        assert game.legal_actions() == []


def test_legal_cases() -> None:
    for row in rows_of("legal_cases.jsonl"):
        hand = sorted(parse(row["hand"]))
        others = [card for card in PACK if card not in hand]
        state = np.zeros(STATE_SIZE, np.int16)
        state[PHASE], state[PLAYER], state[COUNT] = PLAY, 1, row["count"]
        state[KEPT + 4 : KEPT + 8] = [*hand, *others[: 4 - len(hand)]]
        state[LEFT + 1] = 2 ** len(hand) - 1
        legal = Game.of_state(state, 0, Rules()).legal_actions()
        assert {card_text(hand[action - 15]) for action in legal} == set(row["legal"]), row
        assert bool(legal) is row["must_play"], row


# --- What must hold of any game -----------------------------------------------------------------------------

decks_of_thirteen = st.permutations(PACK).map(lambda pack: list(pack[:13]))
low_decks = st.permutations(range(24)).map(lambda pack: list(pack[:13]))


@st.composite
def starts(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a game: any target, any scores below it, some fixed decks."""
    target = draw(st.one_of(st.just(121), st.integers(2, 200)))
    return {
        "rules": Rules(target=target),
        "seed": draw(st.integers(0, 2**64 - 1)),
        "dealer": draw(st.sampled_from([0, 1, None])),
        "scores": (draw(st.integers(0, target - 1)), draw(st.integers(0, target - 1))),
        "decks": draw(st.lists(st.one_of(decks_of_thirteen, low_decks), max_size=3)),
    }


choices = st.lists(st.integers(0, 59), min_size=1, max_size=40)


@settings(max_examples=120, deadline=None)
@given(starts(), choices)
def test_what_must_hold_of_any_game(start: dict[str, Any], picks: list[int]) -> None:
    game = Game(**start)
    target = start["rules"].target
    dealer, deal, events = game.dealer, game.deal, 0
    assert game.dealer == (start["dealer"] if start["dealer"] is not None else Game(**start).dealer)
    number = 0
    while game.phase != "over":
        check_cards(game, start)
        legal = game.legal_actions()
        assert legal, "somebody can always act"
        assert game.player in (0, 1)
        check_choices(game, legal)
        said_before = said_go(game)
        seat = game.player
        count_before = game.count
        others = game.hand(1 - seat)
        new = game.step(legal[picks[number % len(picks)] % len(legal)])
        check_go(game, new, others, said_before, count_before, seat)
        number += 1
        if game.deal != deal:
            assert (game.deal, game.dealer) == (deal + 1, 1 - dealer)
            dealer, deal = game.dealer, game.deal
        events += len(new)
        assert game.events[events - len(new) :] == new
    check_events(game, start["scores"], target)


def check_cards(game: Game, start: dict[str, Any]) -> None:
    """No card is lost, doubled or changed."""
    deck = start["decks"][game.deal] if game.deal < len(start["decks"]) else seed_deck(game.seed, game.deal)
    assert game.cards(game.pone) == sorted(deck[:6])
    assert game.cards(game.dealer) == sorted(deck[6:12])
    assert game.starter == (deck[12] if game.phase == "play" else None)
    for seat in (0, 1):
        six, kept, thrown, hand = game.cards(seat), game.kept(seat), game.thrown(seat), game.hand(seat)
        if game.phase == "play" or (seat == game.pone and game.player == game.dealer):
            assert sorted([*kept, *thrown]) == six
            assert (len(kept), len(thrown)) == (4, 2)
            assert hand == [card for card in kept if card not in game.laid]
        else:
            assert (hand, kept, thrown) == (six, [], [])
    if game.phase == "play":
        assert len(game.laid) + len(game.hand(0)) + len(game.hand(1)) == 8
        assert set(game.laid) <= {*game.kept(0), *game.kept(1)}
    else:
        assert game.laid == []
    assert game.stack == game.laid[len(game.laid) - len(game.stack) :]
    assert game.count == sum(map(value_of, game.stack)) <= 31


def check_choices(game: Game, legal: list[int]) -> None:
    """Exactly the cards that do not carry the count over 31; every action has its own words."""
    assert game.player is not None
    if game.phase == "discard":
        assert legal == list(range(15))
    else:
        cards = [game.kept(game.player)[action - 15] for action in legal]
        assert cards == [card for card in game.hand(game.player) if game.count + value_of(card) <= 31]
    assert len({game.action_text(action) for action in legal}) == len(legal)


def said_go(game: Game) -> list[bool]:
    """Whether each seat has said go in the present count, from the record of the cards laid."""
    row = game.state()
    said = [False, False]
    first = len(game.laid) - len(game.stack)
    for place in range(first, len(game.laid)):
        if row[LAID_GO + place]:
            said[0 if row[LAID_CARDS + place] in game.kept(1) else 1] = True
    return said


def check_go(
    game: Game, new: list[Event], others: list[int], said_before: list[bool], count_before: int, seat: int
) -> None:
    """A go is noted exactly when the other player is on turn, holds cards, can play none and has not said it yet."""
    if not new or new[0].kind != "card":
        return
    event = new[0]
    count = count_before + value_of(event.cards[0])
    assert event.count == count
    laid = game.state()[LAID_CARDS : LAID_CARDS + 8].tolist()
    place = laid.index(event.cards[0])
    blocked = bool(others) and all(count + value_of(card) > 31 for card in others)
    won = game.phase == "over" and new[-1].kind == "card"
    expected = blocked and count < 31 and not said_before[1 - seat] and not won
    assert bool(game.state()[LAID_GO + place]) == expected


def check_events(game: Game, scores: Sequence[int], target: int) -> None:
    """Scores only rise, by the events' points, and the game is over with the event that reaches the target."""
    so_far = list(scores)
    order = {"heels": 0, "card": 1, "go": 1, "last": 1, "hand": 2, "crib": 3}
    before = (0, 0)
    for event in game.events:
        assert max(so_far) < target, "points after the end"
        assert event.points >= 0
        assert event.points > 0 or event.kind in ("card", "hand", "crib")
        so_far[event.player] += event.points
        assert event.raw_scores == tuple(so_far)
        assert event.scores == tuple(min(score, target) for score in so_far)
        assert 0 <= event.count <= 31
        assert event.breakdown is None or event.breakdown.total == event.points
        assert (event.deal, order[event.kind]) >= before
        before = (event.deal, order[event.kind])
    assert game.winner is not None
    assert game.raw_scores == tuple(so_far)
    assert so_far[game.winner] >= target > so_far[1 - game.winner]
    parts = game.state()[PART_POINTS : PART_POINTS + 12].reshape(2, len(PARTS))
    for seat in (0, 1):
        assert parts[seat].sum() == so_far[seat] - scores[seat]
        by_kind = [event for event in game.events if event.player == seat]
        for part, points in zip(PARTS, parts[seat], strict=True):
            kinds = {"play": ("card", "go", "last")}.get(part.split("_")[0], (part.split("_")[0],))
            dealt = [event.points for event in by_kind if event.kind in kinds and role_fits(game, event, part)]
            assert points == sum(dealt), part


def role_fits(game: Game, event: Event, part: str) -> bool:
    """Whether the event's player was in that deal what the part's name says."""
    dealer = game.dealer if (event.deal - game.deal) % 2 == 0 else 1 - game.dealer
    role = "dealer" if event.player == dealer else "pone"
    return not part.endswith(("dealer", "pone")) or part.endswith(role)


# --- Arguments ----------------------------------------------------------------------------------------------


def test_fixed_decks_as_text_and_ints() -> None:
    deck = [5, 12, 51, 30, 7, 8, 40, 41, 1, 0, 22, 23, 19]
    games = [Game(seed=1, decks=[one]) for one in (deck, cards_text(deck), [card_text(card) for card in deck])]
    for game in games:
        assert (game.cards(1), game.cards(0)) == (sorted(deck[:6]), sorted(deck[6:12]))
        assert game.state().tolist() == games[0].state().tolist()


def test_decks_after_the_fixed_ones_come_from_the_seed() -> None:
    deck = list(range(13))
    game = Game(Rules(target=200), seed=5, decks=[deck])
    plain = Game(Rules(target=200), seed=5)
    rng = random.Random(1)
    for deal in range(4):
        assert (game.cards(0) == plain.cards(0)) == (deal > 0)
        for one in (game, plain):
            while one.deal == deal and one.phase != "over":
                one.step(rng.choice(one.legal_actions()))


@pytest.mark.parametrize(
    ("decks", "message"),
    [
        ([list(range(12))], r"decks\[0\] must have 13 cards .*got 12"),
        ([list(range(13)), list(range(14))], r"decks\[1\] must have 13 cards .*got 14"),
        ([[0, *range(12)]], r"decks\[0\]: the card AC comes twice"),
        ([list(range(40, 53))], r"decks\[0\]: a card is an int from 0 to 51, got 52"),
        (["5H XX"], r"decks\[0\]: not a card: 'XX'"),
        ([[*range(12), 12.5]], r"decks\[0\]: not a card: 12.5"),
    ],
)
def test_decks_that_are_none(decks: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Game(decks=decks)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scores": (121, 0)}, r"scores must lie between 0 and 120 .*got \(121, 0\)"),
        ({"scores": (0, -1)}, r"scores must lie between 0 and 120"),
        ({"scores": (0,)}, "scores must be two integers"),
        ({"scores": (0, 0, 0)}, "scores must be two integers"),
        ({"scores": (1.5, 0)}, "scores must be two integers"),
        ({"scores": None}, "scores must be two integers"),
        ({"rules": Rules(61), "scores": (61, 0)}, "scores must lie between 0 and 60"),
        ({"dealer": 2}, "dealer must be 0, 1 or None .*got 2"),
        ({"dealer": True}, "dealer must be 0, 1 or None"),
        ({"seed": -1}, "seed must lie between 0 and"),
        ({"seed": 2**64}, "seed must lie between 0 and"),
        ({"seed": 1.0}, "seed must be an integer, got 1.0"),
        ({"rules": {"target": 61}}, "rules must be Rules"),
    ],
)
def test_arguments_that_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        Game(**arguments)


def test_without_a_seed_every_game_is_another() -> None:
    games = [Game() for _ in range(3)]
    assert len({game.seed for game in games}) == 3
    assert games[0].dealer == 0
    again = Game(seed=games[0].seed)
    assert again.state().tolist() == games[0].state().tolist()


# --- Illegal actions ----------------------------------------------------------------------------------------

DECK = "KC KD KH KS QC QD  TC TD TH TS JC JD  5C"


def test_illegal_actions_change_nothing() -> None:
    game = Game(dealer=0, decks=[DECK])
    game.step(0)
    game.step(0)
    game.play("KH")
    game.play("TH")
    before = game.state().tolist()
    for action in (-1, 0, 14, 15, 17, 19, 1000, 16.5):
        if action in game.legal_actions():
            continue
        with pytest.raises(IllegalActionError, match="illegal for seat"):
            game.step(action)  # type: ignore[arg-type]
    with pytest.raises(IllegalActionError):
        game.play("KH")  # laid already
    with pytest.raises(IllegalActionError):
        game.play("TD")  # the opponent's
    with pytest.raises(IllegalActionError, match="the phase is 'play'"):
        game.discard("KS QC")
    assert game.state().tolist() == before
    assert len(game.events) == 2


def test_messages_name_the_action_and_what_was_legal() -> None:
    game = Game(dealer=0, decks=[DECK])
    with pytest.raises(
        IllegalActionError, match=r"action 15 \(action 15\) is illegal for seat 1; legal: 0 \(discard QC"
    ):
        game.step(15)
    with pytest.raises(
        IllegalActionError, match="discard KC 5H is illegal for seat 1; legal: two of QC QD KC KD KH KS"
    ):
        game.discard("KC 5H")
    with pytest.raises(IllegalActionError, match="legal: two of"):
        game.discard("KC")
    with pytest.raises(IllegalActionError, match="play KC is illegal: the phase is 'discard'"):
        game.play("KC")
    with pytest.raises(ValueError, match="not a card: 'KX'"):
        game.discard("KC KX")
    game.discard("QC QD")
    game.discard("TC TD")
    for card in ("KC", "TH", "KD"):
        game.play(card)
    with pytest.raises(
        IllegalActionError, match=r"play KD is illegal for seat 0 at a count of 0; legal: play TS, play J"
    ):
        game.play("KD")


def test_after_the_end() -> None:
    game = Game(dealer=0, scores=(120, 120), decks=["AC 2C 3C 4C 5C 6C  7C 8C 9C TC KC QC  JC"])
    game.step(0)
    game.step(0)
    assert [str(event) for event in game.events] == ["seat 0: heels JC, 2 points (121-120)"]
    with pytest.raises(IllegalActionError, match="action 15: the game is over, seat 0 has won"):
        game.step(15)
    with pytest.raises(IllegalActionError, match="the phase is 'over'"):
        game.play("AC")
    with pytest.raises(IllegalActionError, match="the phase is 'over'"):
        game.discard("AC 2C")


# --- Determinism and copies ---------------------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**64 - 1), choices, choices)
def test_decks_do_not_depend_on_the_play(seed: int, picks: list[int], other_picks: list[int]) -> None:
    deals = []
    for these in (picks, other_picks):
        game = Game(Rules(target=200), seed=seed, dealer=None)
        dealt: dict[int, tuple[list[int], list[int], int]] = {}
        number = 0
        while game.phase != "over":
            dealt[game.deal] = (game.cards(game.pone), game.cards(game.dealer), game.dealer)
            legal = game.legal_actions()
            game.step(legal[these[number % len(these)] % len(legal)])
            number += 1
        deals.append(dealt)
    for deal in set(deals[0]) & set(deals[1]):
        assert deals[0][deal] == deals[1][deal]
    assert min(map(len, deals)) > 3


def test_a_state_goes_on_as_the_game_would() -> None:
    game = Game(seed=11, dealer=None)
    rng = random.Random(4)
    for _ in range(25):
        game.step(rng.choice(game.legal_actions()))
    copy = Game.of_state(game.state(), game.seed, game.rules)
    begun = len(game.events)
    while game.phase != "over":
        action = rng.choice(game.legal_actions())
        assert game.step(action) == copy.step(action)
    assert game.events[begun:] == copy.events
    assert game.state().tolist() == copy.state().tolist()


def test_a_state_is_a_copy() -> None:
    game = Game(seed=1)
    game.state()[:] = 0
    game.observation()["observation"][:] = 0
    assert game.state().any()
    assert game.observation()["observation"].any()


def test_as_text() -> None:
    game = Game(seed=3, dealer=1)
    assert "seat 0 (pone  )" in str(game)
    assert "<- to act" in str(game)
    while game.phase != "over":
        game.step(game.legal_actions()[0])
        assert str(game)
        assert repr(game).startswith("Game(seed=3")
    assert f"seat {game.winner} has won" in str(game)


def test_decks_as_an_array() -> None:
    deck = np.arange(13)
    assert Game(decks=deck[None]).cards(1) == list(range(6))


def test_the_view_of_an_ended_deal_has_nobody_to_act() -> None:
    env = gymnasium.make("Cribbage-v0", episode="deal").unwrapped
    observation, _ = env.reset(seed=1)
    ended = False
    while not ended:
        observation, _, ended, _, _ = env.step(int(observation["action_mask"].argmax()))
    assert env.game.phase == "show"
    assert env.game.player is None
    with pytest.raises(IllegalActionError, match="the deal is over"):
        env.game.step(0)
