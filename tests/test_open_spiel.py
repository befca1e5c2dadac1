"""OpenSpiel's cribbage as a second oracle: random games of its own, played again by the engine.

It differs from the rules in ways that are known, and that are relaxed here: it pays four for a flush of four in the
crib; it counts the show without stopping at 121, seat 0 first; and if both seats are at 121 then, seat 0 wins.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from reference import DISCARD_PAIRS, JACK, rank_of, suit_of
from row_game import LogEntry, RowGame

pyspiel = pytest.importorskip("pyspiel", reason="needs the extra 'oracle'")

TARGET = 121
PASS = 52 + 52 * 52
BONUS = 1000.0  # what OpenSpiel adds to the winner's last reward, and takes from the loser's


@dataclass
class Deal:
    """One deal of an OpenSpiel game, with what each seat was paid and when."""

    dealer: int
    dealt: list[int] = field(default_factory=list)  # seat 0's six, seat 1's six, the starter
    thrown: list[list[int]] = field(default_factory=list)  # by seat
    heels: list[float] = field(default_factory=list)
    moves: list[tuple[int, int | None, list[float]]] = field(default_factory=list)  # seat, card (None: a pass), paid

    @property
    def deck(self) -> list[int]:
        """Pone's six, the dealer's six, the starter."""
        hands = self.dealt[:6], self.dealt[6:12]
        return [*hands[1 - self.dealer], *hands[self.dealer], self.dealt[12]]


def card_of(number: int) -> int:
    """OpenSpiel's cards go by suit first."""
    return 4 * (number % 13) + number // 13


def paid(state: Any) -> list[float]:
    """What the last action earned each seat, without the winner's bonus."""
    rewards = state.rewards()
    if not state.is_terminal():
        return rewards
    return [reward - BONUS if reward > BONUS / 2 else reward + BONUS for reward in rewards]


def play_spiel(rng: random.Random) -> tuple[list[Deal], Any]:
    """A random game of OpenSpiel, deal by deal, and its last state."""
    state = pyspiel.load_game("cribbage").new_initial_state()
    deals = [Deal(dealer=0)]
    while not state.is_terminal():
        deal = deals[-1]
        action = rng.choice(state.legal_actions())
        seat = state.current_player()
        if seat == pyspiel.PlayerId.CHANCE:
            if len(deal.dealt) == 13:
                deal = Deal(dealer=1 - deal.dealer)
                deals.append(deal)
            deal.dealt.append(card_of(action))
            state.apply_action(action)
            if len(deal.dealt) == 13:
                deal.heels = paid(state)
        elif len(deal.thrown) < 2:
            assert seat == len(deal.thrown), "seat 0 discards first"
            deal.thrown.append([card_of(number) for number in divmod(action - 52, 52)])
            state.apply_action(action)
        else:
            state.apply_action(action)
            deal.moves.append((seat, None if action == PASS else card_of(action), paid(state)))
    return deals, state


def replay(deals: list[Deal], target: int) -> list[list[LogEntry]]:
    """The same game in the engine: its events, deal by deal, until it is over or OpenSpiel's is."""
    decks = [deal.deck for deal in deals]
    game = RowGame(lambda deal: decks[deal] if deal < len(decks) else list(range(13)), target=target)
    events = []
    for deal in deals:
        begin = game.num_events()
        hands = [sorted(deal.dealt[:6]), sorted(deal.dealt[6:12])]
        kept = [[card for card in hands[seat] if card not in deal.thrown[seat]] for seat in (0, 1)]
        actions = []
        for seat in (1 - deal.dealer, deal.dealer):
            first, second = sorted(hands[seat].index(card) for card in deal.thrown[seat])
            actions.append(DISCARD_PAIRS.index((first, second)))
        actions += [15 + kept[seat].index(card) for seat, card, _ in deal.moves if card is not None]
        for action in actions:
            if not game.over:
                assert action in game.legal_actions()
                game.step(action)
        events.append(game.events(begin))
    return events


def by_seat(*events: LogEntry) -> list[float]:
    """The points of some events by seat."""
    return [float(sum(event[2] for event in events if event[1] == seat)) for seat in (0, 1)]


def crib_flush(deal: Deal) -> list[float]:
    """What OpenSpiel pays the dealer too much: four for a crib of one suit without the starter."""
    crib = {suit_of(card) for cards in deal.thrown for card in cards}
    too_much = len(crib) == 1 and suit_of(deal.dealt[12]) not in crib
    return [4.0 * (too_much and seat == deal.dealer) for seat in (0, 1)]


def compare(deal: Deal, events: list[LogEntry]) -> None:
    """Assert that every action of a deal is paid alike: ours at once, OpenSpiel's go and show after two passes."""
    queue = list(events)
    heels = [queue.pop(0)] if queue and queue[0][0] == "heels" else []
    assert deal.heels == by_seat(*heels)
    assert bool(heels) == (rank_of(deal.dealt[12]) == JACK)
    laid = passes = 0
    owed = [0.0, 0.0]
    for seat, card, rewards in deal.moves:
        if card is None:
            passes += 1
            assert rewards == (owed if passes == 2 else [0.0, 0.0])
            continue
        laid += 1
        passes = 0
        kind, who, _, count, laid_card, _ = queue[0]
        assert (kind, who, laid_card) == ("card", seat, card)
        now = by_seat(queue.pop(0))
        owed = [0.0, 0.0]
        if laid == 8:
            assert [event[0] for event in queue] == ["last"] * (count != 31) + ["hand", "hand", "crib"]
            owed = [one + other for one, other in zip(by_seat(*queue), crib_flush(deal), strict=True)]
            if count == 31:
                now = [one + other for one, other in zip(now, owed, strict=True)]
        elif queue and queue[0][0] == "go":
            owed = by_seat(queue.pop(0))
        assert rewards == now


def compare_games(games: int, seed: int) -> Counter[str]:
    """Compare random games; returns how often things happened."""
    seen: Counter[str] = Counter()
    for number in range(games):
        deals, state = play_spiel(random.Random(f"{seed} {number}"))
        endless = replay(deals, target=10_000)
        for deal, events in zip(deals, endless, strict=True):
            compare(deal, events)
            seen["deals"] += 1
            seen["flush of four in the crib"] += any(crib_flush(deal))

        # Ours to 121 is the same game, broken off at the first event that reaches it.
        flat = [event for events in endless for event in events]
        end = next((place for place, event in enumerate(flat, 1) if max(event[5]) >= TARGET), len(flat))
        assert [event for events in replay(deals, TARGET) for event in events] == flat[:end]

        theirs = [value - BONUS if value > 0 else value + BONUS for value in state.returns()]
        their_winner = 0 if theirs[0] >= TARGET else 1
        assert state.returns()[their_winner] > BONUS / 2
        assert theirs[their_winner] >= TARGET
        our_winner = flat[end - 1][1]
        seen["games"] += 1
        seen["another winner"] += max(flat[end - 1][5]) >= TARGET and our_winner != their_winner
    return seen


@pytest.mark.parametrize("seed", range(1, 5))
def test_equal_on_twenty_thousand_games(seed: int) -> None:
    """5,000 games a seed."""
    seen = compare_games(5_000, seed)
    assert seen["deals"] > 50_000
    assert seen["flush of four in the crib"] > 0
    assert 0 < seen["another winner"] < 0.1 * seen["games"]
