"""Observations: what is in them, computed independently, and that nothing hidden can be."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from reference import ReferenceGame
from row_game import seed_deck

from cribbage_env import FIELDS, OBSERVATION_SIZE, Game, Rules, field
from cribbage_env.engine import (
    CARDS,
    CUT,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LAID_COUNT,
    LAID_GO,
    LEFT,
    STARTER,
    THROWN,
)
from cribbage_env.observation import OBSERVATION_HIGH
from cribbage_env.table import Table

NONE = 52
seeds = st.integers(0, 2**32)


def look(game: Game, seat: int) -> tuple[bytes, bytes]:
    """All that the seat is given, byte for byte."""
    seen = game.observation(seat)
    return seen["observation"].tobytes(), seen["action_mask"].tobytes()


def drawn(game: Game, seat: int) -> Table:
    """All that a picture of the game for the seat is drawn from."""
    return Table.of_state(game.state(), seat)


def test_fields_cover_the_observation() -> None:
    places = [place for part in FIELDS.values() for place in range(OBSERVATION_SIZE)[part]]
    assert places == list(range(OBSERVATION_SIZE))
    batch = np.arange(3 * OBSERVATION_SIZE).astype(np.uint8).reshape(3, OBSERVATION_SIZE)
    assert field(batch, "laid").shape == (3, 8)
    assert field(batch[0], "laid").base is not None
    with pytest.raises(KeyError, match="no field 'cout' in an observation; there are phase, is_dealer"):
        field(batch, "cout")


def padded(values: list[int], length: int, filler: int) -> list[int]:
    return values + [filler] * (length - len(values))


def expected_fields(reference: ReferenceGame, rules: Rules, seat: int) -> dict[str, list[int]]:
    """Every field, from the reference and the record of its events alone."""
    opponent = 1 - seat
    laid = [event for event in reference.events if event.kind == "card"]
    laid = laid[len(laid) - reference_laid(reference) :]
    counts = [event.count for event in laid]
    going = play_of_deal(reference)
    thrown_already = len(reference.hand(seat)) == 4
    opponent_threw = len(reference.hand(opponent)) == 4
    deck = sorted(reference._deck_of(reference.deal)[slice(0, 6) if seat == reference.pone else slice(6, 12)])
    kept = reference.hand(seat) if thrown_already else []
    unlaid = [card for card in reference.hand(seat) if card not in [event.card for event in laid]]
    laid_cards = [event.card for event in laid]
    phase = {"discard": 0, "play": 1, "over": 3}[reference.phase]
    own, other = (min(reference.raw_scores[one], rules.target) for one in (seat, opponent))
    return {
        "phase": [phase],
        "is_dealer": [int(reference.dealer == seat)],
        "score": [own],
        "opponent_score": [other],
        "target": [rules.target],
        "skunk": [rules.skunk or 0],
        "double_skunk": [rules.double_skunk or 0],
        "cards": deck,
        "thrown": [card for card in deck if card not in kept] if kept else [NONE, NONE],
        "kept": padded(kept, 4, NONE),
        "left": [int(card in unlaid) for card in kept] if kept else [0] * 4,
        "starter": [NONE if reference.starter is None else reference.starter],
        "count": [reference.count if reference.phase == "play" else 0],
        "count_begin": [len(laid) - len(reference.stack)],
        "num_laid": [len(laid)],
        "own_left": [len(unlaid)],
        "opponent_left": [
            len([card for card in reference.hand(opponent) if card not in laid_cards]) if opponent_threw else 6
        ],
        "laid": padded(laid_cards, 8, NONE),
        "laid_by": padded([1 if event.player == seat else 2 for event in laid], 8, 0),
        "laid_count": padded(counts, 8, 0),
        "laid_go": padded(going, 8, 0),
        "to_act": [int(reference.player == seat)],
    }


def reference_laid(reference: ReferenceGame) -> int:
    """How many cards were laid in the present deal."""
    return 8 - sum(map(len, reference._unlaid)) if reference.phase == "play" else 0


def play_of_deal(reference: ReferenceGame) -> list[int]:
    """For each card laid in the present deal, whether the other player then said go."""
    number = reference_laid(reference)
    cards = [event for event in reference.events if event.kind == "card"][-number:] if number else []
    calls = list(reference.go_calls)
    going = []
    for event in cards:
        said = bool(calls) and calls[0] == (1 - event.player, event.count)
        going.append(int(said))
        if said:
            calls.pop(0)
    assert not calls
    return going


def test_fields_equal_an_independent_computation() -> None:
    rng = random.Random(5)
    gos = 0
    for number in range(60):
        rules = rng.choice([Rules(), Rules(61), Rules(61, 40, 20), Rules(skunk=None)])
        scores = (rng.randrange(rules.target), rng.randrange(rules.target))
        dealer = rng.randrange(2)
        game = Game(rules, seed=number, dealer=dealer, scores=scores)
        reference = ReferenceGame(lambda deal, seed=number: seed_deck(seed, deal), dealer, scores, rules.target)
        while reference.phase != "over":
            for seat in (0, 1):
                seen = game.observation(seat)
                found = {name: seen["observation"][part].tolist() for name, part in FIELDS.items()}
                assert found == expected_fields(reference, rules, seat)
                legal = reference.legal_actions() if reference.player == seat else []
                assert seen["action_mask"].tolist() == [int(action in legal) for action in range(19)]
                assert (seen["observation"] <= OBSERVATION_HIGH).all()
                gos += sum(found["laid_go"])
            assert look(game, reference.player) == tuple(one.tobytes() for one in game.observation().values())
            action = rng.choice(reference.legal_actions())
            game.step(action)
            reference.step(action)
        for seat in (0, 1):
            assert game.observation(seat)["action_mask"].sum() == 0
            assert field(game.observation(seat)["observation"], "phase") == 3
    assert gos > 50


def positions(seed: int) -> Iterator[tuple[Game, list[list[int]], list[int]]]:
    """A random game, position by position, with the decks and the actions that led to it."""
    rng = random.Random(seed)
    decks = [rng.sample(range(52), 13) for _ in range(60)]
    start = (rng.randrange(121), rng.randrange(121))
    game = Game(seed=seed, dealer=rng.randrange(2), scores=start, decks=decks)
    while True:
        yield game, decks, list(start)
        if game.phase == "over":
            return
        game.step(rng.choice(game.legal_actions()))


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_columns_a_seat_does_not_know_are_never_read(seed: int) -> None:
    """Write anything into them, in every position of a game: nothing that the seat is given changes."""
    rng = np.random.default_rng(seed)
    for game, _, _ in positions(seed):
        for seat in (0, 1):
            row = game.state()
            for column in unknown_columns(row, seat):
                row[column] = rng.integers(0, 52)
            forged = Game.of_state(row, game.seed, game.rules)
            assert look(forged, seat) == look(game, seat)
            assert drawn(forged, seat) == drawn(game, seat)


def unknown_columns(row: NDArray[np.int16], seat: int) -> list[int]:
    """The columns of a row with hidden cards (and what an earlier deal left in them)."""
    other = 1 - seat
    laid = row[LAID_CARDS : LAID_CARDS + row[LAID]].tolist()
    columns = [*range(CARDS + 6 * other, CARDS + 6 * other + 6), THROWN + 2 * other, THROWN + 2 * other + 1]
    columns += [KEPT + 4 * other + slot for slot in range(4) if row[KEPT + 4 * other + slot] not in laid]
    for first in (LAID_CARDS, LAID_BY, LAID_COUNT, LAID_GO):
        columns += range(first + row[LAID], first + 8)
    if not row[CUT]:
        columns.append(STARTER)
        if row[LEFT + seat] == 0:
            columns += [*range(THROWN + 2 * seat, THROWN + 2 * seat + 2), *range(KEPT + 4 * seat, KEPT + 4 * seat + 4)]
    return columns


@settings(max_examples=60, deadline=None)
@given(seeds)
def test_other_hidden_cards_look_the_same(seed: int) -> None:
    """Deal the cards that a seat does not know otherwise and repeat all that it saw: it sees the same bytes."""
    rng = random.Random(seed + 1)
    compared = {"discard": 0, "play": 0}
    for game, decks, start in positions(seed):
        if game.deal > 0 or game.phase == "over":
            break
        done = history(game)
        for seat in (0, 1):
            for _ in range(6):
                other_deck = redeal(game, decks[0], seat, rng)
                other_decks = [other_deck, *([rng.sample(range(52), 13) for _ in range(3)])]
                twin = Game(seed=seed + 99, dealer=game.dealer, scores=start, decks=other_decks)
                if repeat(twin, done, seat, rng) and public(twin) == public(game):
                    assert look(twin, seat) == look(game, seat)
                    assert drawn(twin, seat) == drawn(game, seat)
                    compared[game.phase] += 1
    assert compared["discard"] >= 24
    assert game.deal == 0 or compared["play"] > 0


def public(game: Game) -> tuple[object, ...]:
    """What everybody sees of a deal: whose turn it is, the scores, the count, who said go when."""
    gos = game.state()[LAID_GO : LAID_GO + len(game.laid)].tolist()
    return game.deal, game.phase, game.player, game.scores, game.count, gos


def history(game: Game) -> list[tuple[int, str, list[int]]]:
    """What was done in the present deal, in order: the seat, the phase, the cards."""
    done = [(seat, "discard", game.thrown(seat)) for seat in (game.pone, game.dealer) if game.thrown(seat)]
    return done + [(0 if card in game.kept(0) else 1, "play", [card]) for card in game.laid]


def redeal(game: Game, deck: list[int], seat: int, rng: random.Random) -> list[int]:
    """A deck that the seat cannot tell from the real one so far: its own cards, those laid and the starter once cut."""
    own, opponent = (slice(0, 6), slice(6, 12)) if seat == game.pone else (slice(6, 12), slice(0, 6))
    laid = [card for card in deck[opponent] if card in game.laid]
    seen = [*deck[own], *laid, *([] if game.starter is None else [game.starter])]
    unseen = [card for card in range(52) if card not in seen]
    rng.shuffle(unseen)
    new = list(deck)
    new[opponent] = [*laid, *unseen[: 6 - len(laid)]]
    new[own] = rng.sample(deck[own], 6)  # the order in which cards were dealt tells nothing either
    if game.starter is None:
        new[12] = unseen[-1]
    return new


def repeat(twin: Game, done: list[tuple[int, str, list[int]]], seat: int, rng: random.Random) -> bool:
    """Repeat what was seen, with the opponent discarding what it does not lay; False if the turns come otherwise."""
    to_lay = [card for who, phase, cards in done if who != seat and phase == "play" for card in cards]
    for who, phase, cards in done:
        if twin.phase != phase or twin.player != who:
            return False
        if phase == "discard":
            if who != seat:
                cards = rng.sample([card for card in twin.cards(who) if card not in to_lay], 2)
            twin.discard(cards)
        elif 15 + twin.kept(who).index(cards[0]) not in twin.legal_actions():
            return False
        else:
            twin.play(cards[0])
    return True


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_order_of_dealt_and_discarded_cards_leaks_nothing(seed: int) -> None:
    """The same cards dealt in another order, and discards named in another order, are the same game to the byte."""
    rng = random.Random(seed)
    deck = rng.sample(range(52), 13)
    shuffled = [*rng.sample(deck[:6], 6), *rng.sample(deck[6:12], 6), deck[12]]
    games = [Game(seed=seed, decks=[one]) for one in (deck, shuffled)]
    for _ in range(2):
        two = rng.sample(games[0].cards(games[0].player or 0), 2)
        games[0].discard(two)
        games[1].discard(two[::-1])
        assert games[0].state().tobytes() == games[1].state().tobytes()
        assert [look(games[0], seat) for seat in (0, 1)] == [look(games[1], seat) for seat in (0, 1)]
    while games[0].deal == 0 and games[0].phase != "over":
        action = rng.choice(games[0].legal_actions())
        assert games[0].step(action) == games[1].step(action)


@settings(max_examples=40, deadline=None)
@given(seeds)
def test_the_opponents_discard_is_not_seen(seed: int) -> None:
    """The dealer decides on its discard without a trace of which cards pone threw."""
    seen = set()
    for action in range(15):
        game = Game(seed=seed)
        game.step(action)
        seen.add(look(game, game.dealer))
    assert len(seen) == 1
