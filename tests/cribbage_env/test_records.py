"""Game records: the round trip through text and engine, what is found in changed ones, and files that are damaged."""

from __future__ import annotations

import copy
import gzip
import json
import random
import re
import tracemalloc
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cribbage_env import Event, Game, Rules, cards_text, record_format
from cribbage_env import records as records_module
from cribbage_env.engine import NUM_ACTIONS
from cribbage_env.game_log import log_game
from cribbage_env.records import (
    Record,
    RecordDifference,
    RecordError,
    actions_of,
    append_record,
    check_record,
    parse_record,
    read_records,
    record_line,
    record_of,
    record_of_log,
    replay,
    replay_steps,
    scan_records,
    start_of,
    write_records,
)

ROOT = Path(__file__).resolve().parents[2]


def played(seed: int, actions: int | None = None, **arguments: Any) -> Game:
    """A game with random legal actions, up to its end or so many actions."""
    game = Game(seed=seed, **arguments)
    chance = random.Random(seed)
    while game.phase != "over" and (actions is None or len(game.actions) < actions):
        game.step(chance.choice(game.legal_actions()))
    return game


@pytest.fixture(scope="module")
def record() -> Record:
    """A short game's, with every kind of event in it."""
    for seed in range(100):
        game = played(seed, rules=Rules(41))
        if {event.kind for event in game.events} == {"heels", "card", "go", "last", "hand", "crib"}:
            match = {"seed": 3, "number": 1, "pair": 0}
            return record_of(game, agents=("one", "two"), match=match, info={"place": "kitchen"})
    raise AssertionError("no such game")


def without(record: Record, *keys: str) -> Record:
    return {key: value for key, value in record.items() if key not in keys}


def minimal(record: Record) -> Record:
    """What another program has to write: cards, discards and plays without gos."""
    deals = [
        {
            "cards": deal["cards"],
            "discards": deal["discards"],
            "plays": [card for card in deal["plays"].split() if card != "go"],
        }
        for deal in record["deals"]
    ]
    return {"rules": {"target": record["rules"]["target"]}, "deals": deals}


# --- The round trip -----------------------------------------------------------------------------------------------


@st.composite
def games(draw: st.DrawFn) -> Game:
    """Games of any rules, scores and decks, finished, broken off or forfeited."""
    target = draw(st.integers(2, 200))
    lines = draw(st.sampled_from(["auto", "none", "both"]))
    rules = {
        "auto": Rules(target),
        "none": Rules(target, None, None),
        "both": Rules(target, target, max(1, target // 2)),
    }
    seed = draw(st.integers(0, 2**64 - 1))
    chance = random.Random(seed)
    decks = [chance.sample(range(52), 13) for _ in range(draw(st.integers(0, 3)))]
    game = Game(
        rules=rules[lines],
        seed=seed,
        dealer=draw(st.sampled_from([0, 1, None])),
        scores=(draw(st.integers(0, target - 1)), draw(st.integers(0, target - 1))),
        decks=decks,
    )
    number = draw(st.one_of(st.none(), st.integers(0, 60)))
    while game.phase != "over" and (number is None or len(game.actions) < number):
        game.step(chance.choice(game.legal_actions()))
    if game.phase != "over" and draw(st.booleans()):
        game.forfeit()
    return game


@settings(max_examples=150, deadline=None)
@given(games())
def test_a_record_replays_to_the_same_game(game: Game) -> None:
    record = record_of(game, agents=("a", "b"))
    again = parse_record(record_line(record))
    assert again == record
    other = replay(again)
    assert other.events == game.events
    assert (other.state() == game.state()).all()
    assert (other.seed, other.decks, other.actions) == (game.seed, game.decks, game.actions)
    assert record_of(other, agents=("a", "b")) == record
    bare = minimal(record) | {key: record[key] for key in ("rules", "first_dealer", "start_scores")}
    assert replay(bare).events == game.events


@settings(max_examples=60, deadline=None)
@given(games())
def test_a_record_has_the_events_of_the_game(game: Game) -> None:
    """The log is compiled on its own; here its events are compared with those that the game noted while it went on."""
    record = record_of(game)
    found = [(number, event) for number, deal in enumerate(record["deals"]) for event in deal["events"]]
    assert len(found) == len(game.events)
    for (number, event), noted in zip(found, game.events, strict=True):
        assert number == noted.deal
        assert event == as_recorded(noted)
    assert record["winner"] == game.winner
    assert record["scores"] == list(game.scores)
    assert record["skunk"] == game.skunk
    assert record["forfeit"] == game.forfeited
    assert [deal["dealer"] for deal in record["deals"]] == [
        (game.first_dealer + number) % 2 for number in range(game.deal + 1)
    ]
    assert record.get("fixed_decks", 0) == game.fixed_decks


def as_recorded(event: Event) -> dict[str, Any]:
    entry: dict[str, Any] = {"kind": event.kind, "player": event.player, "cards": cards_text(event.cards)}
    if event.kind not in ("heels", "hand", "crib"):
        entry["count"] = event.count
    entry["points"] = event.points
    if event.breakdown is not None and event.points:
        entry["breakdown"] = {part: points for part, points in vars(event.breakdown).items() if points}
        assert sum(entry["breakdown"].values()) == event.points
    entry["scores"] = list(event.scores)
    return entry


def test_gos_are_where_the_other_seat_could_not_lay() -> None:
    """A plain account of go, kept apart from the engine's."""
    seen = 0
    for seed in range(60):
        record = record_of(played(seed, rules=Rules(61)))
        for deal in record["deals"]:
            hands = {}
            for role, seat in (("pone", 1 - deal["dealer"]), ("dealer", deal["dealer"])):
                hands[seat] = set(deal["cards"][role].split()) - set(deal["discards"].get(role, "").split())
            tokens = deal["plays"].split()
            count, said = 0, set()
            for place, token in enumerate(tokens):
                if token == "go":
                    continue
                seat = next(seat for seat in hands if token in hands[seat])
                hands[seat].remove(token)
                value = "A23456789TJQK".index(token[0]) + 1
                count += min(value, 10)

                can_lay = [
                    any(count + min("A23456789TJQK".index(card[0]) + 1, 10) <= 31 for card in hands[one])
                    for one in (0, 1)
                ]
                expected = count < 31 and bool(hands[1 - seat]) and 1 - seat not in said and not can_lay[1 - seat]
                if expected:
                    said.add(1 - seat)
                    seen += 1
                is_last = deal is record["deals"][-1] and place == len(tokens) - 1  # the game may be over
                assert (tokens[place + 1 : place + 2] == ["go"]) == expected or is_last
                is_other_out = 1 - seat in said or not can_lay[1 - seat]
                if count == 31 or (is_other_out and not can_lay[seat]):
                    count, said = 0, set()
    assert seen > 100


def test_the_same_game_is_the_same_bytes() -> None:
    lines = {record_line(record_of(played(5))) for _ in range(2)}
    assert len(lines) == 1
    assert lines.pop().isascii()


def test_a_log_of_actions_makes_the_same_record() -> None:
    """What tournaments do: only seed and actions were kept."""
    game = played(11, rules=Rules(61), dealer=1)
    log = log_game(game.rules, 11, 1, np.array(game.actions, np.int8))
    assert record_of_log(log, rules=game.rules, seed=11, dealer=1) == record_of(game)


def test_an_illegal_last_action_is_a_forfeit() -> None:
    game = played(4, actions=5)
    (illegal, *_) = set(range(NUM_ACTIONS)) - set(game.legal_actions())
    log = log_game(game.rules, 4, 0, [*game.actions, illegal])
    record = record_of_log(log, rules=game.rules, seed=4, dealer=0)
    seat = game.player
    assert (record["forfeit"], record["winner"], record["illegal_action"]) == (seat, 1 - seat, illegal)
    game.forfeit()
    assert record_of(replay(record)) == without(record, "illegal_action") == record_of(game)
    with pytest.raises(RecordError, match=r"illegal_action: \d+ \(play .*\) was legal"):
        replay(record | {"illegal_action": played(4, actions=5).legal_actions()[0]})
    with pytest.raises(RecordError, match="forfeit must say which seat"):
        replay(record | {"forfeit": None})


@pytest.mark.parametrize(("extra", "says"), [([0], "is over after"), ([0, 0], "is over after")])
def test_actions_after_the_end_are_refused(extra: list[int], says: str) -> None:
    game = played(4, rules=Rules(10))
    with pytest.raises(ValueError, match=says):
        log_game(game.rules, 4, 0, [*game.actions, *extra])
    with pytest.raises(ValueError, match=r"action 1 of 2, 18, is illegal"):
        log_game(game.rules, 4, 0, [18, 0])


def test_a_game_of_a_state_has_no_record() -> None:
    game = played(3, actions=30)
    with pytest.raises(ValueError, match="how it began is not known"):
        record_of(Game.of_state(game.state(), 3, game.rules))


def test_a_game_can_be_forfeited_once() -> None:
    game = Game(seed=1)
    game.forfeit()
    assert (game.forfeited, game.winner, game.scores, game.skunk) == (1, 0, (121, 0), 2)
    with pytest.raises(ValueError, match="nobody is to act"):
        game.forfeit()


def test_a_game_goes_on_after_its_replay() -> None:
    """A record of an unfinished game, with its seed, is a saved game."""
    game = played(9, actions=33)
    other = replay(parse_record(record_line(record_of(game))))
    chance = random.Random(1)
    while game.phase != "over":
        action = chance.choice(game.legal_actions())
        game.step(action)
        other.step(action)
    assert other.events == game.events


def test_steps(record: Record) -> None:
    steps = list(replay_steps(record))
    game = replay(record)
    assert [event for step in steps for event in step.events] == game.events
    assert len(steps) == len(game.actions)
    assert [step.action.split()[0] for step in steps[:3]] == ["discard", "discard", "play"]
    assert (steps[0].player, steps[1].player) == (1, 0)
    assert start_of(record).phase == "discard"
    assert steps[-1].game.winner == record["winner"]


# --- Changed records ----------------------------------------------------------------------------------------------


def leaves(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, (*path, key))
    else:
        yield path, value


def changed(record: Record, path: tuple[Any, ...], value: object) -> Record:
    """A copy with another value at a path."""
    other = copy.deepcopy(record)
    inner: Any = other
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return other


def another(path: tuple[Any, ...], value: object) -> object:
    """Another value of the same kind."""
    key = path[-1]
    if key in ("player", "dealer", "first_dealer", "winner") and isinstance(value, int):
        return 1 - value
    if key == "kind":
        return {"card": "last", "go": "last", "last": "go", "heels": "card", "hand": "crib", "crib": "hand"}[value]
    if key == "forfeit":
        return 0
    if isinstance(value, str):  # cards: the first becomes another one
        cards = value.split()
        return " ".join([next(card for card in ("7C", "7D", "7S") if card not in cards), *cards[1:]])
    assert isinstance(value, int)
    return value - 1 if value else 1


BEYOND_THE_ENGINE = {"agents", "match", "info"}
"""What no replay can tell: who played, and where."""


def test_every_changed_field_is_found_and_named(record: Record) -> None:
    tried = 0
    for path, value in leaves(record):
        if path[0] in BEYOND_THE_ENGINE or path[0] in ("format", "version", "rules"):
            continue
        tried += 1
        with pytest.raises(RecordError) as caught:
            replay(changed(record, path, another(path, value)))
        message = str(caught.value)
        assert "\n" not in message
        if "events" in path:
            deal, event = path[1], path[3]
            assert message.startswith(f"deal {deal + 1} event {event + 1}"), (path, message)
            field = path[4]
            if field == "kind":  # its cards, count or breakdown may no longer fit it
                continue
            assert field in message, (path, message)
            if isinstance(caught.value, RecordDifference):
                assert (caught.value.deal, caught.value.event, caught.value.field) == (deal, event, field)
        elif path[0] == "deals":
            assert message.startswith(f"deal {path[1] + 1}"), (path, message)
            if path[2] != "plays":
                assert path[2] in message, (path, message)
        elif path[0] == "seed":
            assert message.startswith("deal 1: cards.pone: ")
            assert message.endswith(f"(dealt by the seed {value - 1 if value else 1})")
        elif path[0] == "first_dealer":
            assert message.startswith("deal 1: dealer: ")
        elif path[0] == "start_scores":
            assert message.startswith("deal 1 event 1 ")
            assert "scores" in message
        else:
            assert path[0] in message, (path, message)
    assert tried > 150


def test_a_changed_play_is_found(record: Record) -> None:
    """Two cards of a seat laid in the other order: what came of it is another thing, or it was not possible at all."""
    found = 0
    for number, deal in enumerate(record["deals"]):
        cards = [card for card in deal["plays"].split() if card != "go"]
        for first in range(len(cards)):
            for second in range(first + 1, len(cards)):
                swapped = list(cards)
                swapped[first], swapped[second] = cards[second], cards[first]
                with pytest.raises(RecordError, match=rf"^deal {number + 1}\b"):
                    replay(changed(record, ("deals", number, "plays"), " ".join(swapped)))
                found += 1
    assert found > 30


def test_what_a_difference_says(record: Record) -> None:
    number, place = next(
        (number, place)
        for number, deal in enumerate(record["deals"])
        for place, event in enumerate(deal["events"])
        if event["kind"] == "hand" and event["points"]
    )
    event = record["deals"][number]["events"][place]
    with pytest.raises(RecordDifference) as caught:
        replay(changed(record, ("deals", number, "events", place, "points"), 29))
    error = caught.value
    assert str(error) == (
        f"deal {number + 1} event {place + 1} (hand {event['cards']}): points: recorded 29, replayed {event['points']}"
    )
    assert (error.recorded, error.replayed) == (29, event["points"])


def test_events_left_out_or_added(record: Record) -> None:
    events = record["deals"][0]["events"]
    scoring = [event for event in events if event["points"]]
    assert replay(changed(record, ("deals", 0, "events"), scoring)).events == replay(record).events
    last = len(events) - 1
    for wrong, place in ((events[:-1], last), ([*events, events[-1]], last + 1), (events[1:], 0), ([], 0)):
        with pytest.raises(RecordDifference) as caught:
            replay(changed(record, ("deals", 0, "events"), wrong))
        assert caught.value.deal == 0
        assert caught.value.event == place
    with pytest.raises(RecordDifference, match=r"^deal 1 event \d+ \("):
        replay(changed(record, ("deals", 0, "events"), scoring[1:]))


def test_games_that_end_too_early_or_too_late(record: Record) -> None:
    deals = record["deals"]
    short = record | {"deals": deals[:-1]}
    with pytest.raises(RecordDifference, match=r"winner: recorded \d, replayed null \(the game is not over: seat \d"):
        replay(short)
    assert replay(without(short, "winner", "scores", "skunk")).winner is None
    with pytest.raises(RecordError, match=rf"^deal {len(deals) + 1}: the game was over before this deal"):
        replay(record | {"deals": [*deals, deals[0]]})
    tokens = [card for card in deals[0]["plays"].split() if card != "go"]
    cut = changed(record, ("deals", 0), without(deals[0], "events") | {"plays": tokens[:-1]})
    with pytest.raises(
        RecordError, match=r"^deal 1: the record goes on with another deal, but seat \d is still to play"
    ):
        replay(cut)
    with pytest.raises(RecordError, match="at most 8 cards"):
        replay(changed(record, ("deals", 0, "plays"), [*tokens, "7C"]))
    target = record | {"rules": {"target": 20}}
    with pytest.raises(RecordError):
        replay(target)


def test_gos_are_checked(record: Record) -> None:
    number, plays = next((n, deal["plays"]) for n, deal in enumerate(record["deals"]) if deal["plays"].count("go") == 1)
    path = ("deals", number, "plays")
    assert replay(changed(record, path, plays.replace(" go", ""))).events
    assert replay(changed(record, path, plays.replace("go", "GO").split())).events
    tokens = plays.replace(" go", "").split()
    card = plays.split()[plays.split().index("go") - 1]
    with pytest.raises(RecordDifference, match=rf'^deal {number + 1} play 1: plays: recorded "{tokens[0]} go"'):
        replay(changed(record, path, [tokens[0], "go", *tokens[1:]]))
    last = tokens.index(card)
    moved = [*tokens[: last + 2], "go", *tokens[last + 2 :]]
    with pytest.raises(RecordDifference, match=rf'plays: recorded "{card}", replayed "{card} go"'):
        replay(changed(record, path, moved))
    for wrong in (["go", *tokens], [tokens[0], "go", "go", *tokens[1:]]):
        with pytest.raises(RecordError, match="a go comes after a card, once"):
            replay(changed(record, path, wrong))


# --- Records of other programs ------------------------------------------------------------------------------------


def test_a_minimal_record_is_enough(record: Record) -> None:
    game = replay(parse_record(json.dumps(minimal(record))))
    assert game.events == replay(record | {"first_dealer": 0}).events
    again = record_of(game)
    assert again["fixed_decks"] == len(record["deals"])
    assert replay(again).events == game.events


def test_a_record_written_by_hand() -> None:
    """The first deal of a game on paper, with what scored as two people would note it."""
    text = """{
        "agents": ["Ada", "Bob"], "first_dealer": 1,
        "deals": [{
            "cards": {"pone": "5H 5C 5S JD 2C 9D", "dealer": ["10H", "4d", "KC", "QC", "AS", "8D"], "starter": "5D"},
            "discards": {"pone": "2C, 9D", "dealer": "AS 8D"},
            "plays": "JD KC 5H 4D go 5C QC 5S TH",
            "events": [
                {"kind": "go", "player": 1, "points": 1, "scores": [0, 1]},
                {"kind": "card", "cards": "QC", "count": 15, "points": 2, "breakdown": {"fifteen": 2}},
                {"kind": "last", "player": 1, "count": 30, "points": 1},
                {"kind": "hand", "player": 0, "cards": "JD 5H 5C 5S", "points": 29},
                {"kind": "hand", "player": 1, "points": 6, "breakdown": {"fifteens": 6, "runs": 0}},
                {"kind": "crib", "points": 4, "scores": [29, 14]}
            ]
        }],
        "scores": [29, 14], "winner": null
    }"""
    record = parse_record(text)
    assert replay(record).scores == (29, 14)
    with pytest.raises(
        RecordDifference, match=r"^deal 1 event 5 \(hand 4D TH QC KC\): points: recorded 7, replayed 6$"
    ):
        replay(changed(record, ("deals", 0, "events", 4, "points"), 7))
    with pytest.raises(
        RecordError, match=r"^deal 1 play 3: plays: play QC is illegal for seat 0 at a count of 14; legal:"
    ):
        replay(changed(record, ("deals", 0, "plays"), "JD 4D QC"))
    with pytest.raises(RecordError, match=r"^deal 1: cards.dealer: the card TH comes twice"):
        parse_record(text.replace("4d", "th"))


def test_numbers_are_cards_too(record: Record) -> None:
    game = replay(record)
    numbers = minimal(record)
    for deal, deck in zip(numbers["deals"], game.decks, strict=True):
        deal["cards"] = {"pone": list(deck[:6]), "dealer": list(deck[6:12]), "starter": deck[12]}
    assert replay(numbers).decks == game.decks


# --- What is no record --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (("version",), 2, "version: this reads version 1 of the format, got 2; a newer cribbage-lab may read it"),
        (("version",), True, "version: this reads version 1 of the format, got true"),
        (("version",), "1", 'version: this reads version 1 of the format, got "1"'),
        (("format",), "pgn", "format: must be 'cribbage-record', got \"pgn\""),
        (("wimmer",), 1, "a record: unknown key \"wimmer\"; did you mean 'winner'? there are format,"),
        (("deals", 1, "discrads"), {}, "deal 2: a deal: unknown key \"discrads\"; did you mean 'discards'?"),
        (("deals", 0, "events", 0, "point"), 1, "deal 1 event 1: an event: unknown key \"point\"; did you mean"),
        (("deals", 0, "events", 0, "kind"), "muggins", "deal 1 event 1: kind: must be one of heels, card"),
        (("deals", 0, "events", 0, "points"), -1, "deal 1 event 1: points: must be a whole number from 0 to 200"),
        (("deals", 0, "events", 0, "points"), 1.0, "deal 1 event 1: points: must be a whole number from 0 to 200"),
        (("deals", 0, "events", 0, "scores"), [1], "deal 1 event 1: scores: must be two whole numbers, by seat, got"),
        (("deals", 0, "events", 0, "cards"), "5H 6H", "deal 1 event 1: cards: must be 1 card, got"),
        (("deals", 0, "events", 0, "breakdown"), {"flush": 4}, "deal 1 event 1: breakdown: unknown key"),
        (("deals", 0, "events"), "none", "deal 1: events: must be a list"),
        (("deals", 0, "events"), [1], "deal 1 event 1: an event: must be a mapping"),
        (("deals",), [], "deals: must be a list with at least one deal, got []"),
        (("deals",), None, "deals: must be a list with at least one deal, got null"),
        (("deals",), [{}] * 401, "deals: no game has more than 400 deals, got 401"),
        (("deals", 0), 7, "deal 1: a deal: must be a mapping ({...}), got 7"),
        (("deals", 0, "cards"), None, "deal 1: cards: missing"),
        (("deals", 0, "cards"), {}, "deal 1: cards.pone: missing"),
        (("deals", 0, "cards", "pone"), "5H", "deal 1: cards.pone: must be 6 cards, got"),
        (("deals", 0, "cards", "starter"), "1H", "deal 1: cards.starter: not a card: '1H'"),
        (("deals", 0, "cards", "starter"), 52, "deal 1: cards.starter: a card is an int from 0 to 51, got 52"),
        (("deals", 0, "cards", "starter"), 1.5, "deal 1: cards.starter: must be 1 card as text, got 1.5"),
        (("deals", 0, "discards", "pone"), None, "deal 1: discards.pone: missing, though the dealer's are there"),
        (("deals", 0, "discards"), None, "deal 1: discards: both must be there where there are plays"),
        (("deals", 0, "discards"), [], "deal 1: discards: must be a mapping"),
        (("deals", 0, "plays"), 5, "deal 1: plays: must be cards in the order they were laid"),
        (("deals", 0, "plays"), "5H JX", "deal 1: plays: not a card: 'JX'"),
        (("deals", 0, "plays"), [[]], "deal 1: plays: not a card: []"),
        (("deals", 0, "dealer"), 2, "deal 1: dealer: must be a whole number from 0 to 1, got 2"),
        (("rules",), {"target": 500}, "rules.target: must be a whole number from 0 to 200, got 500"),
        (("rules",), {"target": 1}, "rules: target must lie between 2 and 200, got 1"),
        (("rules",), {"skunk": "auto"}, "rules.skunk: must be a whole number"),
        (("rules",), {"traget": 61}, "rules: unknown key \"traget\"; did you mean 'target'?"),
        (("seed",), -1, "seed: must be a whole number from 0 to 18446744073709551615, got -1"),
        (("first_dealer",), "dealer", 'first_dealer: must be a whole number from 0 to 1, got "dealer"'),
        (("start_scores",), [0, 41], "start_scores must lie between 0 and 40"),
        (("start_scores",), 0, "start_scores: must be two whole numbers, by seat, got 0"),
        (("agents",), "me", 'agents: must be two names, by seat, got "me"'),
        (("agents",), ["me"], 'agents: must be two names, by seat, got ["me"]'),
        (("match",), {"round": 1}, 'match: unknown key "round"; there are seed, number, pair'),
        (("info",), "good game", 'info: must be a mapping ({...}), got "good game"'),
        (("skunk",), 3, "skunk: must be a whole number from 0 to 2, got 3"),
        (("scores",), [1, 2, 3], "scores: must be two whole numbers, by seat"),
    ],
)  # fmt: skip
def test_what_is_no_record(record: Record, path: tuple[Any, ...], value: object, says: str) -> None:
    with pytest.raises(RecordError) as caught:
        check_record(changed(record, path, value))
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)
    with pytest.raises(RecordError):
        replay(changed(record, path, value))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("[]", "a record: must be a mapping ({...}), got []"),
        ("null", "a record: missing"),
        ("7", "a record: must be a mapping ({...}), got 7"),
        ('{"deals": [', "not JSON: Expecting value at character 12; the line is cut off"),
        ('{"deals": NaN}', "not JSON: NaN is no number in JSON"),
        ('{"seed": 1, "seed": 2}', "not JSON: the key 'seed' comes twice in an object"),
        ("game over", "not JSON: Expecting value at character 1"),
        (b'{"agents": ["\xff", ""]}', "not UTF-8 text: invalid start byte at byte 14"),
        ("[" * 100_000, "not a record: nested too deeply"),
        ('{"seed": ' + "9" * 5000 + "}", "not JSON: Exceeds the limit"),
        (f'{{"{"k" * 10**6}": 1}}', 'a record: unknown key "kkk'),
        (f'{{"{"k" * 10**6}": 1, "{"k" * 10**6}": 2}}', "not JSON: the key 'kkk"),
        (json.dumps({"deals": [{"cards": {"pone": "5" * 10**6}}]}), "deal 1: cards.pone: not a card: '555"),
        (json.dumps({"deals": [{"cards": {"pone": list(range(52)) * 9**4}}]}), "deal 1: cards.pone: the card AC comes"),
    ],
)
def test_lines_that_are_no_record(line: str | bytes, says: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_record(line)
    assert str(caught.value).startswith(says)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_unknown_keys_belong_into_info(record: Record) -> None:
    told = changed(record, ("deals", 0, "info"), {"comment": ["a", {"b": None}]}) | {"info": {"event": "club night"}}
    assert replay(told).winner == record["winner"]


def test_the_schema_says_the_same(record: Record) -> None:
    """The JSON Schema in docs/, for readers in other languages, takes and refuses what check_record does."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads((ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for good in (record, minimal(record), record | {"match": None, "winner": None, "info": None}):
        check_record(good)
        validator.validate(good)
    refused = 0
    for path, _ in leaves(record):
        if "info" in path or (path[0] == "deals" and path[1] > 0):
            continue
        for value in (None, [], {}, -1, 10**30, "x", 0.5):
            wrong = changed(record, path, value)
            if validator.is_valid(wrong):
                continue  # text may be cards or not: a schema can't tell
            refused += 1
            with pytest.raises(RecordError):
                check_record(wrong)
    assert refused > 300


# --- Files --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def some() -> list[Record]:
    return [record_of(played(seed, rules=Rules(20))) for seed in range(5)]


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.gz"])
def test_written_and_read(some: list[Record], tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert write_records(path, iter(some[:3])) == 3
    append_record(path, some[3])
    append_record(path, some[4])
    assert list(read_records(path)) == some
    raw = path.read_bytes()
    text = gzip.decompress(raw) if name.endswith("gz") else raw
    assert text.count(b"\n") == 5
    other = tmp_path / f"other-{name}"
    write_records(other, some[:3])
    write_records(path, some[:3])
    assert path.read_bytes() == other.read_bytes()  # no name or time in it
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted([name, other.name])


def test_appending_makes_the_file(some: list[Record], tmp_path: Path) -> None:
    append_record(tmp_path / "new.jsonl", some[0])
    assert list(read_records(tmp_path / "new.jsonl")) == some[:1]


def test_compression_is_recognised_by_content(some: list[Record], tmp_path: Path) -> None:
    write_records(tmp_path / "a.jsonl.gz", some)
    (tmp_path / "a.jsonl.gz").rename(tmp_path / "a.jsonl")
    write_records(tmp_path / "b.jsonl", some)
    (tmp_path / "b.jsonl").rename(tmp_path / "b.jsonl.gz")
    assert list(read_records(tmp_path / "a.jsonl")) == list(read_records(tmp_path / "b.jsonl.gz")) == some


def test_a_write_that_fails_leaves_what_was_there(some: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    write_records(path, some[:1])

    def broken() -> Iterator[Record]:
        yield some[1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_records(path, broken())
    assert list(read_records(path)) == some[:1]
    assert list(tmp_path.iterdir()) == [path]


def problems_of(path: Path) -> tuple[list[Record], list[tuple[int, str]]]:
    problems: list[tuple[int, str]] = []
    good = list(read_records(path, lambda number, error: problems.append((number, str(error)))))
    return good, problems


def test_damaged_lines_are_reported_and_the_rest_is_read(some: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    lines = [record_line(one) for one in some]
    path.write_bytes(
        b"\xef\xbb\xbf" + lines[0] + b"\n  \n" + lines[1][:200] + b"\n" + lines[2].replace(b"\n", b"\r\n")
        + b'{"deals": []}\n' + lines[3] + lines[4][:-30]
    )  # fmt: skip
    good, problems = problems_of(path)
    assert good == [some[0], some[2], some[3]]
    assert [number for number, _ in problems] == [4, 6, 8]
    assert "the line is cut off" in problems[0][1]
    assert "at least one deal" in problems[1][1]
    assert "the line is cut off" in problems[2][1]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert list(read_records(path)) == good
    assert [str(one.message) for one in warned] == [f"{path}: line {number}: {why}" for number, why in problems]


def test_appending_after_a_line_that_was_cut_off(some: list[Record], tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"
    path.write_bytes(record_line(some[0]) + record_line(some[1])[:100])
    append_record(path, some[2])
    good, problems = problems_of(path)
    assert good == [some[0], some[2]]
    assert [number for number, _ in problems] == [2]


def test_a_compressed_file_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl.gz"
    many = [record_of(played(seed, rules=Rules(61))) for seed in range(30)]
    write_records(path, many)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    good, problems = problems_of(path)
    assert 5 < len(good) < 30
    assert good == many[: len(good)]
    assert [number for number, _ in problems] == [len(good) + 1]
    assert "cut off or damaged here" in problems[0][1]
    spoilt = bytearray(whole)
    spoilt[len(whole) // 2] ^= 0xFF
    path.write_bytes(spoilt)
    good, problems = problems_of(path)
    assert problems
    assert len(good) < 30


def test_a_line_without_an_end(some: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MAX_LINE", 100_000)
    path = tmp_path / "games.jsonl"
    path.write_bytes(record_line(some[0]) + b"x" * 1_000_003 + b"\n" + record_line(some[1]))
    good, problems = problems_of(path)
    assert good == some[:2]
    assert problems == [(2, "the line is longer than 100,000 bytes: no game's record")]


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "weights.pt").write_bytes(b"PK\x03\x04\x00\x00\x08\x08" * 100)
    with pytest.raises(RecordError, match="is a binary file"):
        list(read_records(tmp_path / "weights.pt"))
    with pytest.raises(FileNotFoundError):
        list(read_records(tmp_path / "missing.jsonl"))
    with pytest.raises(IsADirectoryError):
        list(read_records(tmp_path))
    (tmp_path / "empty.jsonl").touch()
    assert list(scan_records(tmp_path / "empty.jsonl")) == []


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl.gz"
    line = record_line(record_of(played(1)))
    with gzip.open(path, "wb", compresslevel=1) as out:
        for _ in range(300):
            out.write(line)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tracemalloc.start()
        try:
            count = sum(1 for _ in read_records(path))
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert count == 300
    assert peak < 40 * len(line)


# --- The documentation --------------------------------------------------------------------------------------------


def blocks_of(language: str) -> list[str]:
    text = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_the_documented_record_replays() -> None:
    (example,) = blocks_of("json")
    record = parse_record(example)
    game = replay(record)
    assert record_of(game, agents=record["agents"]) == record


def test_the_documented_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = blocks_of("python")
    exec(compile(first, "docs/records.md", "exec"), {})
    exec(compile(second, "docs/records.md", "exec"), {})
    (theirs,) = read_records("theirs.jsonl")
    assert replay(theirs).scores == (14, 29)


def test_every_field_is_documented() -> None:
    text = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    tables = text.partition("## The fields")[2].partition("## From another program")[0]
    keys = {*record_format.RECORD_KEYS, *record_format.DEAL_KEYS, *record_format.EVENT_KEYS}
    keys |= {*record_format.MATCH_KEYS, *record_format.RULES_KEYS, *record_format.PLAY_PARTS, *record_format.HAND_PARTS}
    assert [key for key in sorted(keys) if f"`{key}`" not in tables] == []
    schema = (ROOT / "docs" / "record.schema.json").read_text(encoding="utf-8")
    assert [key for key in sorted(keys) if f'"{key}":' not in schema] == []


def test_actions_of_a_record(record: Record) -> None:
    assert actions_of(record) == replay(record).actions
    first = record["deals"][0]
    thrown = first["discards"]["pone"].split()[0]
    with pytest.raises(RecordError, match=rf"^deal 1 play 1: plays: {thrown}: it is not among the cards kept$"):
        actions_of(changed(record, ("deals", 0, "plays"), [thrown]))


# --- Anything at all ----------------------------------------------------------------------------------------------

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=8)
    | st.sampled_from(["5H", "5H JC", "go", "AC 2C 3C 4C 5C 6C", "card", "hand", "\x00", "\ud800"]),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(
        st.sampled_from([*record_format.RECORD_KEYS, *record_format.DEAL_KEYS, *record_format.EVENT_KEYS, "pone", "x"]),
        inner, max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip
FUZZED = record_of(played(12, rules=Rules(31)), agents=("one", "two"))
PLACES = [path[:end] for path, _ in leaves(FUZZED) for end in range(1, len(path) + 1)]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PLACES), json_values), max_size=3), json_values)
def test_nothing_but_record_errors(changes: list[tuple[tuple[Any, ...], object]], other: Any) -> None:
    """Whatever a record has where, it is replayed or refused in one line."""
    fuzzed: Any = FUZZED
    for path, value in changes:
        try:
            fuzzed = changed(fuzzed, path, value)
        except (LookupError, TypeError):  # an earlier change has removed the place
            continue
    for record in (fuzzed, other):
        for check in (replay, actions_of):
            message = ""
            try:
                check(record)
            except RecordError as error:
                message = str(error)
            assert "\n" not in message
            assert len(message) < 600
