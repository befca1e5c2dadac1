"""The engine against the plain reference of the rules: equal events, legal actions and state after every action."""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable

import pytest
from reference import ReferenceGame, play_score, rank_of, show_score, value_of
from row_game import RowGame, seed_deck

from cribbage_env import Event, Game, Rules
from cribbage_env.engine import (
    COUNT,
    COUNT_BEGIN,
    DEAL,
    DEALER,
    DISCARD,
    KEPT,
    LAID,
    LAID_CARDS,
    LAID_GO,
    LEFT,
    OVER,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    THROWN,
    WINNER,
)

PHASES = {DISCARD: "discard", PLAY: "play", OVER: "over"}

# Packs to deal from. With few ranks there are long runs, royal pairs and counts of many cards; with low cards one
# player lays several cards alone; with high ones there is a go every few cards.
PACKS = {
    "full": list(range(52)),
    "low": [card for card in range(52) if rank_of(card) < 4],
    "sevens": [card for card in range(52) if rank_of(card) < 7],
    "high": [card for card in range(52) if rank_of(card) > 7],
    "jacks": [card for card in range(52) if rank_of(card) in (0, 4, 9, 10)],
    "mixed": [card for card in range(52) if rank_of(card) in (0, 1, 2, 8, 12)],
}

Chooser = Callable[[ReferenceGame, list[int], random.Random], int]


def card_of(game: ReferenceGame, action: int) -> int:
    return game.hand(game.player)[action - 15]


def play_by_value(sign: int) -> Chooser:
    """The lowest (1) or highest (-1) card first, now and then another one."""

    def choose(game: ReferenceGame, actions: list[int], rng: random.Random) -> int:
        if game.phase == "discard" or rng.random() < 0.15:
            return rng.choice(actions)
        return min(actions, key=lambda action: sign * value_of(card_of(game, action)))

    return choose


def play_for_points(game: ReferenceGame, actions: list[int], rng: random.Random) -> int:
    """The card that scores most now."""
    if game.phase == "discard":
        return rng.choice(actions)
    return max(actions, key=lambda action: play_score([*game.stack, card_of(game, action)])["total"])


CHOOSERS: dict[str, Chooser] = {
    "random": lambda game, actions, rng: rng.choice(actions),
    "low_first": play_by_value(1),
    "high_first": play_by_value(-1),
    "for_points": play_for_points,
}


def random_start(rng: random.Random) -> tuple[int, tuple[int, int]]:
    """A target and start scores, most of them near the target, so that games end in every place there is."""
    target = rng.choice([121, 121, 121, 61, rng.randint(2, 200)])
    nearest = rng.choice([1, 3, 6, 12, 25, 60])
    first, second = (max(0, target - rng.randint(1, nearest)) for _ in range(2))
    return target, rng.choice([(first, second), (first, second), (0, 0)])


def compare_state(engine: RowGame, reference: ReferenceGame) -> list[int]:
    """Assert that all of the state is equal; returns the legal actions."""
    row = engine.row.tolist()
    assert PHASES[row[PHASE]] == reference.phase
    assert (row[SCORE], row[SCORE + 1]) == reference.raw_scores
    assert row[WINNER] == (-1 if reference.winner is None else reference.winner)
    assert (row[DEAL], row[DEALER]) == (reference.deal, reference.dealer)
    assert engine.num_events() == len(reference.events)
    actions = engine.legal_actions()
    assert actions == reference.legal_actions()
    if reference.phase == "over":
        if reference.events[-1].kind in ("card", "go", "last"):  # stopped dead in the play
            assert row[COUNT] == reference.count
            assert row[LAID_CARDS + row[COUNT_BEGIN] : LAID_CARDS + row[LAID]] == reference.stack
        return actions
    assert row[PLAYER] == reference.player
    if reference.phase == "play":
        assert row[COUNT] == reference.count
        assert row[LAID_CARDS + row[COUNT_BEGIN] : LAID_CARDS + row[LAID]] == reference.stack
        assert row[KEPT : KEPT + 4] == reference.hand(0)
        assert row[KEPT + 4 : KEPT + 8] == reference.hand(1)
        assert sum(row[LAID_GO : LAID_GO + row[LAID]]) == len(reference.go_calls)
        assert sorted(row[THROWN : THROWN + 4]) == sorted(reference.crib)
        laid = row[LAID_CARDS : LAID_CARDS + row[LAID]]
        for seat in (0, 1):
            left = [card for card in reference.hand(seat) if card not in laid]
            assert [row[KEPT + 4 * seat + slot] for slot in range(4) if row[LEFT + seat] >> slot & 1] == left
    return actions


def compare_deals(deals: int, pack: str, chooser: str, seed: int) -> Counter[str]:
    """Play whole games on both, until that many deals were begun, and count the rare things that came up."""
    rng = random.Random(f"{seed} {pack} {chooser}")
    choose = CHOOSERS[chooser]
    seen: Counter[str] = Counter()
    while seen["deals"] < deals:
        target, scores = random_start(rng)
        dealer = rng.randrange(2)
        decks: list[list[int]] = []

        def deck_of(deal: int, decks: list[list[int]] = decks) -> list[int]:
            while deal >= len(decks):
                decks.append(rng.sample(PACKS[pack], 13))
            return decks[deal]

        reference = ReferenceGame(deck_of, dealer, scores, target)
        engine = RowGame(deck_of, dealer, scores, target)
        actions = compare_state(engine, reference)
        while actions:
            action = choose(reference, actions, rng)
            engine.step(action)
            reference.step(action)
            actions = compare_state(engine, reference)
        assert engine.over
        assert engine.events() == [tuple(event) for event in reference.events]
        seen["deals"] += reference.deal + 1
        note_rarities(reference, seen)
    return seen


def note_rarities(game: ReferenceGame, seen: Counter[str]) -> None:
    """Count what a finished game had."""
    last = game.events[-1]
    assert game.winner is not None
    role = "dealer" if game.winner == game.dealer else "pone"
    seen[f"won by {last.kind}, {role}"] += 1
    seen["won exactly"] += max(game.raw_scores) == game.target
    seen["both near"] += min(game.raw_scores) >= game.target - 2
    by_kind = Counter(event.kind for event in game.events)
    seen["gos"] += by_kind["go"]
    for event, following in zip(game.events, [*game.events[1:], last], strict=True):
        if event.kind == "card":
            seen[f"card for {event.points}"] += 1
            if event.count == 31 and following.kind == "hand":
                seen["thirty-one with the last card of the play"] += 1


QUICK = [
    ("full", "random", 30_000),
    ("full", "for_points", 12_000),
    ("full", "low_first", 8_000),
    ("full", "high_first", 8_000),
    ("low", "random", 10_000),
    ("sevens", "for_points", 10_000),
    ("high", "high_first", 8_000),
    ("jacks", "random", 10_000),
    ("mixed", "low_first", 6_000),
]
assert sum(deals for _, _, deals in QUICK) >= 100_000


@pytest.mark.parametrize(("pack", "chooser", "deals"), QUICK)
def test_equal_on_random_deals(pack: str, chooser: str, deals: int) -> None:
    compare_deals(deals, pack, chooser, seed=1)


def test_the_rare_paths_come_up() -> None:
    """What the comparison above is worth: everything that can end a game and every score of the play is in it."""
    seen: Counter[str] = Counter()
    for pack, chooser in (("low", "low_first"), ("sevens", "for_points"), ("jacks", "random"), ("full", "random")):
        seen += compare_deals(1_500, pack, chooser, seed=2)
    wins = [f"won by {kind}, {role}" for kind in ("card", "go", "last", "hand") for role in ("dealer", "pone")]
    cards = [f"card for {points}" for points in (0, 2, 3, 4, 5, 6, 7, 8, 12)]
    others = ["won by heels, dealer", "won by crib, dealer", "thirty-one with the last card of the play"]
    for name in (*wins, *cards, *others, "won exactly", "both near"):
        assert seen[name] > 0, f"{name} never happened: {seen}"


def compare_events(new: list[Event], before: ReferenceGame, after: ReferenceGame) -> None:
    """The events of one action, with what ``Game`` says beyond the reference's record."""
    expected = after.events[len(before.events) :]
    assert len(new) == len(expected)
    for event, plain in zip(new, expected, strict=True):
        found = (event.kind, event.player, event.points, event.count, event.raw_scores)
        assert found == (plain.kind, plain.player, plain.points, plain.count, plain.raw_scores)
        assert event.scores == tuple(min(score, after.target) for score in plain.raw_scores)
        assert event.deal == before.deal
        breakdown = {} if event.breakdown is None else {**vars(event.breakdown), "total": event.breakdown.total}
        if plain.kind == "heels":
            assert (event.cards, breakdown) == ((after.starter,), {})
        elif plain.kind == "card":
            assert event.cards == (plain.card,)
            assert breakdown == play_score([*before.stack, plain.card])
        elif plain.kind in ("go", "last"):
            assert (event.cards, breakdown) == ((expected[0].card,), {})
        else:
            cards = before.hand(plain.player) if plain.kind == "hand" else before.crib
            assert event.cards == tuple(sorted(cards))
            assert breakdown == show_score(cards, before.starter, is_crib=plain.kind == "crib")


def test_game_equals_the_reference() -> None:
    """The public view too, with cards and breakdowns, on fixed decks and on those of the seed."""
    rng = random.Random(3)
    for number in range(150):
        target, scores = random_start(rng)
        dealer = rng.randrange(2)
        fixed = [rng.sample(range(52), 13) for _ in range(number % 3)]

        def deck_of(deal: int, fixed: list[list[int]] = fixed, seed: int = number) -> list[int]:
            return fixed[deal] if deal < len(fixed) else seed_deck(seed, deal)

        reference = ReferenceGame(deck_of, dealer, scores, target)
        game = Game(Rules(target=target), seed=number, dealer=dealer, scores=scores, decks=fixed)
        choose = rng.choice(list(CHOOSERS.values()))
        while reference.phase != "over":
            actions = reference.legal_actions()
            assert game.legal_actions() == actions
            assert (game.phase, game.player, game.dealer) == (reference.phase, reference.player, reference.dealer)
            assert (game.starter, game.count, game.stack) == (reference.starter, reference.count, reference.stack)
            assert (game.raw_scores, game.deal) == (reference.raw_scores, reference.deal)
            action = choose(reference, actions, rng)
            before = copy.deepcopy(reference)
            reference.step(action)
            compare_events(game.step(action), before, reference)
        assert (game.phase, game.player, game.winner) == ("over", None, reference.winner)
        assert (game.legal_actions(), game.raw_scores) == ([], reference.raw_scores)
        assert game.scores == tuple(min(score, target) for score in reference.raw_scores)
        assert len(game.events) == len(reference.events)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_equal_on_ten_million_deals(seed: int) -> None:
    """Half a million deals a seed, half of them of the full pack."""
    for chooser in CHOOSERS:
        compare_deals(62_500, "full", chooser, seed=100 + seed)
        for pack in PACKS:
            if pack != "full":
                compare_deals(12_500, pack, chooser, seed=100 + seed)
