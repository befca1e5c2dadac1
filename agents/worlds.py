"""Worlds: hidden cards drawn so that they fit everything a player has seen.

A world gives the opponent a hand. It never contradicts the cards seen, nor what the opponent could not play: whenever a
count ended below thirty-one, or the opponent said go, all the cards that it holds now were too high. Among the hands
that fit, one is the likelier the likelier a sensible player would have kept it: the six cards (those laid, those still
held, two thrown) are proposed uniformly and accepted with the probability that a player with a taste for good discards
throws just those two,

    P(throw) = exp(value(throw) / temperature) / sum over all 15 throws,

where value is the exact average of the kept hand plus or minus the crib's (:mod:`agents.discards`), in points.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from agents.discards import count_left, crib_table, discard_value
from cribbage_env.cards import NO_CARD
from cribbage_env.engine import NUM_DISCARDS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_CARDS,
    AT_COUNT_BEGIN,
    AT_IS_DEALER,
    AT_LAID,
    AT_LAID_BY,
    AT_LAID_COUNT,
    AT_LAID_GO,
    AT_NUM_LAID,
    AT_STARTER,
    OPPONENT,
    OWN,
)
from cribbage_env.scoring import MAX_COUNT, card_value, show_table
from cribbage_env.streams import below, combine, mix64, unit

MAX_PROPOSALS = 200
"""Proposals for one world; the last is taken as it is. Reached when what was seen fits no sensible discard."""

_THROW_LAST_TWO = NUM_DISCARDS - 1  # the discard of places 4 and 5


@inline_jit
def observation_key(observation: NDArray[np.uint8]) -> np.uint64:
    """A key that is a function of the observation: uint64."""
    key = np.uint64(0)
    for i in range(observation.shape[0]):
        key = mix64(key ^ np.uint64(observation[i]))
    return key


@inline_jit
def lowest_held_value(observation: NDArray[np.uint8]) -> int:
    """The least value that a card still held by the opponent can have, given what it could not play."""
    laid = int(observation[AT_NUM_LAID])
    begin = int(observation[AT_COUNT_BEGIN])
    lowest = 1
    for i in range(laid):
        count = int(observation[AT_LAID_COUNT + i])
        last_of_count = i + 1 == begin or (i + 1 < laid and observation[AT_LAID_COUNT + i + 1] <= count)
        said_go = observation[AT_LAID_GO + i] and observation[AT_LAID_BY + i] == OWN
        if said_go or (last_of_count and count < MAX_COUNT):
            lowest = max(lowest, MAX_COUNT + 1 - count)
    return lowest


@inline_jit
def unseen_cards(observation: NDArray[np.uint8], lowest: int, out: NDArray[np.uint8]) -> tuple[int, int]:
    """Write the cards that the observer has not seen to ``out`` ((52,) uint8), those the opponent may hold first.

    Returns how many the opponent may hold (their value is ``lowest`` or more), and how many there are in all.
    """
    seen = np.uint64(0)
    one = np.uint64(1)
    for i in range(6):
        seen |= one << np.uint64(observation[AT_CARDS + i])
    if observation[AT_STARTER] != NO_CARD:
        seen |= one << np.uint64(observation[AT_STARTER])
    for i in range(int(observation[AT_NUM_LAID])):
        seen |= one << np.uint64(observation[AT_LAID + i])
    n = 0
    for card in range(52):
        if not seen >> np.uint64(card) & one and card_value(card) >= lowest:
            out[n] = card
            n += 1
    may_hold = n
    for card in range(52):
        if not seen >> np.uint64(card) & one and card_value(card) < lowest:
            out[n] = card
            n += 1
    return may_hold, n


@inline_jit
def _swap(cards: NDArray[np.uint8], i: int, j: int) -> None:
    card = cards[i]
    cards[i] = cards[j]
    cards[j] = card


@inline_jit
def throws_last_two(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    six: NDArray[np.uint8],
    is_dealer: bool,
    temperature: float,
    draw: float,
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
) -> bool:
    """Whether ``draw``, uniform in [0, 1), is below the probability of throwing the last two of six cards.

    The probability is 1 / sum exp((value - value of the throw) / temperature); a sum too large is not finished.
    """
    count_left(six, ranks_left, suits_left)
    own = discard_value(table, cribs, six, _THROW_LAST_TWO, is_dealer, ranks_left, suits_left)
    total = 1.0
    for other in range(_THROW_LAST_TWO):
        value = discard_value(table, cribs, six, other, is_dealer, ranks_left, suits_left)
        total += math.exp((value - own) / temperature)
        if draw * total >= 1.0:
            return False
    return True


@inline_jit
def draw_opponent(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observation: NDArray[np.uint8],
    temperature: float,
    key: int,
    unseen: NDArray[np.uint8],
    may_hold: int,
    num_unseen: int,
    six: NDArray[np.uint8],
    ranks_left: NDArray[np.int64],
    suits_left: NDArray[np.int64],
) -> None:
    """Draw the opponent's six cards as it has thrown and kept them, from the distribution of the module.

    Args:
        table: :func:`cribbage_env.scoring.show_table`.
        cribs: :func:`agents.discards.crib_table`.
        observation: in the play, or in the discard phase after the opponent's discard.
        temperature: of the opponent's discard, in points.
        key: what the draw is a function of.
        unseen, may_hold, num_unseen: what :func:`unseen_cards` wrote and returned; reordered within both parts.
        six: (6,) uint8, written: the four kept (those laid first, in that order), the two thrown.
        ranks_left, suits_left: scratch space, (13,) and (4,) int64.
    """
    laid = 0
    for i in range(int(observation[AT_NUM_LAID])):
        if observation[AT_LAID_BY + i] == OPPONENT:
            six[laid] = observation[AT_LAID + i]
            laid += 1
    held = 4 - laid
    draw = np.uint64(key)
    one = np.uint64(1)
    for _ in range(MAX_PROPOSALS):
        # the held cards: the first ones of a shuffle of those the opponent may hold
        for i in range(held):
            draw += one
            _swap(unseen, i, i + below(draw, may_hold - i))
            six[laid + i] = unseen[i]
        # the thrown ones: two of all the others
        draw += one
        first = held + below(draw, num_unseen - held)
        draw += one
        second = held + below(draw, num_unseen - held - 1)
        second += second >= first
        six[4] = unseen[first]
        six[5] = unseen[second]
        draw += one
        is_dealer = observation[AT_IS_DEALER] == 0
        if throws_last_two(table, cribs, six, is_dealer, temperature, unit(draw), ranks_left, suits_left):
            return


@inline_jit
def split_six(six: NDArray[np.uint8], kept: NDArray[np.uint8], thrown: NDArray[np.uint8]) -> None:
    """Write the four kept and the two thrown cards of :func:`draw_opponent`, each sorted, to (4,) and (2,) uint8."""
    for i in range(4):
        card = six[i]
        j = i
        while j > 0 and kept[j - 1] > card:
            kept[j] = kept[j - 1]
            j -= 1
        kept[j] = card
    thrown[0] = min(six[4], six[5])
    thrown[1] = max(six[4], six[5])


@jit
def draw_worlds(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observation: NDArray[np.uint8],
    temperature: float,
    worlds: NDArray[np.uint8],
) -> None:
    """Fill ``worlds`` ((W, 6) uint8) by :func:`draw_opponent`; world w is a function of (observation, w)."""
    unseen = np.empty(52, np.uint8)
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    key = observation_key(observation)
    may_hold, num_unseen = unseen_cards(observation, lowest_held_value(observation), unseen)
    for w in range(worlds.shape[0]):
        draw_opponent(
            table, cribs, observation, temperature, combine(key, w), unseen, may_hold, num_unseen, worlds[w],
            ranks_left, suits_left,
        )  # fmt: skip


def sample_worlds(
    observation: NDArray[np.uint8], worlds: int, temperature: float = 0.5, crib: str = "schell"
) -> NDArray[np.uint8]:
    """What the opponent may hold, (W, 6) uint8: its kept cards (those laid first), then the two thrown.

    Args:
        observation: (OBSERVATION_SIZE,) uint8, in the play.
        worlds: how many to draw.
        temperature: of the opponent's discard, in points.
        crib: the table of crib averages that the opponent goes by.
    """
    out = np.empty((worlds, 6), np.uint8)
    draw_worlds(show_table(), crib_table(crib), np.ascontiguousarray(observation), temperature, out)
    return out
