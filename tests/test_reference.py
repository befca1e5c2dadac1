"""The plain reference of the rules, checked against the rule cases in data/cases."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from reference import (
    DISCARD_PAIRS,
    FIRST_PLAY_ACTION,
    Event,
    ReferenceGame,
    card_text,
    parse_card,
    play_score,
    playable,
    show_score,
)
from rule_cases import Row, by_seat, deck_for_play, deck_of_game, id_of, parse, play_points, rows_of

PEG_CASES = rows_of("peg_cases.jsonl")
GAME_CASES = rows_of("game_cases.jsonl")


def discard(game: ReferenceGame, thrown: Sequence[int]) -> None:
    hand = game.hand(game.player)
    first, second = sorted(hand.index(card) for card in thrown)
    game.step(DISCARD_PAIRS.index((first, second)))


def lay(game: ReferenceGame, card: int) -> None:
    game.step(FIRST_PLAY_ACTION + game.hand(game.player).index(card))


def random_deck(seed: int) -> list[int]:
    return random.Random(seed).sample(range(52), 13)


def test_cards_as_text() -> None:
    assert [card_text(card) for card in (0, 1, 2, 3, 4, 36, 51)] == ["AC", "AD", "AH", "AS", "2C", "TC", "KS"]
    assert [parse_card(card_text(card)) for card in range(52)] == list(range(52))


def test_show_cases() -> None:
    for row in rows_of("show_cases.jsonl"):
        score = show_score(parse(row["hand"]), parse_card(row["starter"]), row["is_crib"])
        assert score == {**row["breakdown"], "total": row["score"]}, row


def test_show_without_a_starter() -> None:
    hand = parse(["5H", "6H", "7H", "JH"])
    assert show_score(hand, None)["total"] == 2 + 3 + 4
    assert show_score(hand, None, is_crib=True)["total"] == 2 + 3
    assert show_score(hand, None)["nobs"] == 0


def test_hand_average_cases() -> None:
    for row in rows_of("hand_average_cases.jsonl"):
        keep = parse(row["keep"])
        starters = set(range(52)) - set(keep) - set(parse(row["known_dead"]))
        assert len(starters) == row["starters"]
        total = sum(show_score(keep, starter)["total"] for starter in starters)
        assert total == row["sum_over_starters"], row
        assert total / len(starters) == pytest.approx(row["average"], abs=1e-6), row


def test_peg_stack_cases() -> None:
    for row in rows_of("peg_stack_cases.jsonl"):
        assert play_score(parse(row["stack"])) == play_points(row), row


def test_legal_cases() -> None:
    for row in rows_of("legal_cases.jsonl"):
        cards = playable(parse(row["hand"]), row["count"])
        assert cards == parse(row["legal"]), row
        assert bool(cards) is row["must_play"], row


@pytest.mark.parametrize("dealer_seat", [0, 1])
@pytest.mark.parametrize("row", PEG_CASES, ids=id_of)
def test_peg_cases(row: Row, dealer_seat: int) -> None:
    seats = {"pone": 1 - dealer_seat, "dealer": dealer_seat}
    deck = deck_for_play(parse(row["pone"]), parse(row["dealer"]))
    game = ReferenceGame(lambda deal: deck, dealer=dealer_seat, target=1000)
    discard(game, deck[4:6])
    discard(game, deck[10:12])
    assert (game.phase, game.player, game.events) == ("play", seats["pone"], [])

    go_calls = game.go_calls  # the list of this deal: the show and the next deal follow the last card
    layers = [event[0] for event in row["events"] if event[1] not in ("go", "last")]
    for layer, card in zip(layers, parse(row["sequence"]), strict=True):
        assert game.player == seats[layer]
        lay(game, card)

    play = [event for event in game.events if event.kind in ("card", "go", "last")]
    found = [(e.player, card_text(e.card) if e.kind == "card" else e.kind, e.count, e.points) for e in play]
    assert found == [(seats[who], what, count, points) for who, what, count, points in row["events"]]
    assert play == game.events[: len(play)]
    points = by_seat({"pone": row["pone_points"], "dealer": row["dealer_points"]}, seats["pone"])
    assert play[-1].raw_scores == points
    assert go_calls == [(seats[who], count) for who, count in row["go_calls"]]
    assert (game.deal, game.dealer, game.phase) == (1, 1 - dealer_seat, "discard")


def what_of(event: Event, pone: int) -> str:
    """The name of an event in the log of a game case."""
    if event.kind == "card":
        return f"play:{card_text(event.card)}"
    if event.kind == "hand":
        return "pone_hand" if event.player == pone else "dealer_hand"
    return event.kind


@pytest.mark.parametrize("dealer_seat", [0, 1])
@pytest.mark.parametrize("row", GAME_CASES, ids=id_of)
def test_game_cases(row: Row, dealer_seat: int) -> None:
    pone = 1 - dealer_seat
    names = {pone: "pone", dealer_seat: "dealer"}
    deck = deck_of_game(row)
    start = by_seat(row["start"], pone)
    game = ReferenceGame(lambda deal: deck, dealer=dealer_seat, scores=start)
    discard(game, parse(row["pone_discard"]))
    discard(game, parse(row["dealer_discard"]))
    for card in parse(row["sequence"]):
        assert game.phase == "play"
        lay(game, card)

    log = [
        [what_of(e, pone), names[e.player], e.points, e.raw_scores[pone], e.raw_scores[dealer_seat]]
        for e in game.events
        if e.points
    ]
    assert log == row["log"]
    assert game.raw_scores == by_seat(row["final_raw"], pone)
    assert tuple(min(score, 121) for score in game.raw_scores) == by_seat(row["final_capped"], pone)
    if row["winner"] is None:
        assert (game.winner, game.phase, game.deal, game.dealer) == (None, "discard", 1, pone)
        assert row["won_at"] is None
    else:
        assert game.winner is not None
        assert (names[game.winner], game.phase) == (row["winner"], "over")
        assert what_of(game.events[-1], pone).split(":")[0] == row["won_at"]
        assert (game.player, game.legal_actions()) == (-1, [])


def test_heels_win_before_the_play() -> None:
    row = next(row for row in GAME_CASES if row["starter"][0] == "J")
    deck = deck_of_game(row)
    game = ReferenceGame(lambda deal: deck, scores=(119, 120))
    game.step(0)
    game.step(0)
    assert game.events == [Event("heels", 0, 2, 0, -1, (121, 120))]
    assert (game.winner, game.phase, game.legal_actions()) == (0, "over", [])


def test_illegal_actions() -> None:
    deck = parse(["KC", "KD", "KH", "KS", "QC", "QD", "TC", "TD", "TH", "TS", "JC", "JD", "5C"])
    game = ReferenceGame(lambda deal: deck)
    assert game.legal_actions() == list(range(15))
    for action in (-1, 15, 18):
        with pytest.raises(ValueError, match="not legal"):
            game.step(action)
    game.step(0)
    assert game.hand(1) == sorted(deck[:6])[2:]
    game.step(14)
    assert game.hand(0) == sorted(deck[6:12])[:4]
    for action in (0, 14, 19):
        with pytest.raises(ValueError, match="not legal"):
            game.step(action)
    game.step(16)
    game.step(15)
    assert game.legal_actions() == [15, 17, 18]
    with pytest.raises(ValueError, match="not legal"):
        game.step(16)
    assert [event.count for event in game.events] == [10, 20]


@pytest.mark.parametrize("deck", [list(range(12)), [0, *range(12)], list(range(40, 53))])
def test_wrong_decks(deck: list[int]) -> None:
    with pytest.raises(ValueError, match="13 different cards"):
        ReferenceGame(lambda deal: deck)


def test_start_scores_below_the_target() -> None:
    with pytest.raises(ValueError, match="target"):
        ReferenceGame(random_deck, scores=(0, 121))


def actions_by_events(game: ReferenceGame) -> list[int]:
    """What the player on turn may do, from the events so far instead of the state of the play."""
    if game.phase == "discard":
        return list(range(15))
    laid = [event.card for event in game.events if event.kind == "card"]
    laid = laid[8 * game.deal :]
    last = game.events[-1] if laid else None
    count = last.count if last is not None and last.kind == "card" and last.count < 31 else 0
    cards = enumerate(game.hand(game.player), start=15)
    return [action for action, card in cards if card not in laid and count + min(card // 4 + 1, 10) <= 31]


@pytest.mark.parametrize("seed", range(50))
def test_random_games(seed: int) -> None:
    """Play at random: what must hold of every game."""
    rng = random.Random(seed)
    first_dealer = seed % 2
    game = ReferenceGame(lambda deal: random_deck(1000 * seed + deal), dealer=first_dealer)
    while game.phase != "over":
        assert game.dealer == (first_dealer + game.deal) % 2
        actions = game.legal_actions()
        assert actions == actions_by_events(game)
        for action in set(range(-1, 20)) - set(actions):
            with pytest.raises(ValueError, match="not legal"):
                game.step(action)
        game.step(rng.choice(actions))
        assert all(count < 31 for _, count in game.go_calls)

    scores = [0, 0]
    for event in game.events:
        assert max(scores) < 121
        scores[event.player] += event.points
        assert event.raw_scores == tuple(scores)
        assert event.points or event.kind in ("card", "hand", "crib")
        assert event.count <= 31
        assert (event.count == 0) == (event.kind in ("heels", "hand", "crib"))
        assert (event.card == -1) == (event.kind != "card")
    assert game.raw_scores == tuple(scores)
    assert game.winner is not None
    assert scores[game.winner] >= 121 > scores[1 - game.winner]

    shown = sum(event.kind == "crib" for event in game.events)
    assert game.deal in (shown, shown - 1)
    laid = sum(event.kind == "card" for event in game.events)
    assert 8 * game.deal <= laid <= 8 * (game.deal + 1)
