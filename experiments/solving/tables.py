"""What a solved strategy says of kept hands: their value, and what is led from them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from agents.equilibrium.hands import NUM_HANDS, hand_tables
from agents.equilibrium.traverse import VALUE, Policy, Walker
from agents.equilibrium.tree import DEALER_SEAT, PONE, Tree
from cribbage_env.cards import NUM_RANKS, RANKS


class SeatValues(NamedTuple):
    """Kept hands of one seat."""

    frequency: NDArray[np.float64]
    """(H,) how often the prior keeps the hand; they sum to 1."""
    value: NDArray[np.float64]
    """(H,) points scored minus points conceded in the play, on average; NaN for hands that can't be dealt."""


def hand_values(
    tree: Tree,
    joint: NDArray[np.float64],
    dealt_at_random: NDArray[np.float64],
    policy: Policy,
    threads: int | None = None,
) -> tuple[SeatValues, SeatValues]:
    """The value of each kept hand for pone and for the dealer, when both play a policy.

    The other player holds what the prior says it keeps, given the hand. Hands that the prior never keeps meet what it
    keeps for the other player, as likely as the cards of the hand leave it.

    Args:
        tree: of the play.
        joint: (H, H) the prior's distribution of pone's and dealer's kept hands.
        dealt_at_random: (H, H) that of two hands dealt from the pack.
        policy: of both players; solo ends are played at their best.
        threads: that walk the tree.
    """
    found = []
    for seat in (PONE, DEALER_SEAT):
        own, random = (joint, dealt_at_random) if seat == PONE else (joint.T, dealt_at_random.T)
        frequency = own.sum(axis=1)
        usual = np.divide(own.sum(axis=0), random.sum(axis=0), out=np.zeros(len(own)), where=random.sum(axis=0) > 0)
        given = np.where(frequency[:, None] > 0, own, random * usual)
        total = given.sum(axis=1, keepdims=True)
        # each hand as likely as any other, so that its part of the sum is its mean
        given = np.divide(given, total, out=np.zeros_like(given), where=total > 0) / len(own)
        values = Walker(tree, given if seat == PONE else given.T, threads).walk(seat, VALUE, policy)
        found.append(SeatValues(frequency, np.where(total[:, 0] > 0, len(own) * values, np.nan)))
    return found[0], found[1]


def leads(tree: Tree, policy: Policy) -> NDArray[np.float64]:
    """(H, 13): with which probability pone leads each rank, by its kept hand."""
    tables = hand_tables()
    cards = int(tree.held[0, 0])
    probabilities = np.zeros((NUM_HANDS[cards], NUM_RANKS))
    gone = int(tree.seen[0])
    at = 0
    for hand in range(NUM_HANDS[cards]):
        ranks = [int(rank) for rank in tables.distinct[cards, hand] if rank >= 0]
        packed = int(tables.packed[cards, hand])
        if any((packed >> 4 * rank & 15) + (gone >> 4 * rank & 15) > 4 for rank in ranks):
            continue
        if len(ranks) == 1:
            probabilities[hand, ranks[0]] = 1.0
        else:
            probabilities[hand, ranks] = policy[at : at + len(ranks)]
            at += len(ranks)
    assert at == tree.slots[1]
    return probabilities


def leads_by_ranks(frequency: NDArray[np.float64], lead: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often a rank is led from the hands that hold it, (13, 14), NaN where there are none.

    Column s < 13: of the hands that hold rank r and a card of rank s besides (for r = s: a pair of it); column 13: of
    all that hold r.

    Args:
        frequency: (H,) of pone's kept hands.
        lead: (H, 13) :func:`leads`.
    """
    cards = NUM_HANDS.index(len(frequency))
    packed = hand_tables().packed[cards, : len(frequency)]
    copies = np.stack([(packed >> np.uint64(4 * rank)) & np.uint64(15) for rank in range(NUM_RANKS)], 1)
    rates = np.full((NUM_RANKS, NUM_RANKS + 1), np.nan)
    for rank in range(NUM_RANKS):
        for other in range(NUM_RANKS + 1):
            holds = copies[:, rank] > 0
            if other < NUM_RANKS:
                holds &= copies[:, other] > (1 if other == rank else 0)
            weight = frequency * holds
            if weight.sum() > 0:
                rates[rank, other] = (weight * lead[:, rank]).sum() / weight.sum()
    return rates


def hand_text(cards: int, hand: int) -> str:
    """A hand as text, such as ``5 5 J Q``."""
    return " ".join(RANKS[rank] for rank in hand_tables().ranks[cards, hand, :cards])


def values_table(pone: SeatValues, dealer: SeatValues, lead: NDArray[np.float64]) -> pd.DataFrame:
    """A row for each kept hand: its frequencies, its values, and what pone leads from it most often."""
    cards = NUM_HANDS.index(len(lead))
    best = lead.argmax(axis=1)
    possible = lead.max(axis=1) > 0
    return pd.DataFrame(
        {
            "hand": [hand_text(cards, hand) for hand in range(len(lead))],
            "pone_frequency": pone.frequency,
            "pone_value": pone.value,
            "dealer_frequency": dealer.frequency,
            "dealer_value": dealer.value,
            "lead": [RANKS[rank] if there else "" for rank, there in zip(best, possible, strict=True)],
            "lead_probability": np.where(possible, lead.max(axis=1), np.nan),
        }
    )
