"""What a player may know, as one flat array of bytes with named, versioned fields.

An observation has everything that its seat knows and nothing else, with perfect recall of the deal: an agent needs no
memory of its own. Cards are ints 0..51, 52 (``NO_CARD``) stands for "none, or not known". Seats are relative: "own" is
the player who looks. Read fields by name: ``field(observations, "starter")``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import NO_CARD
from cribbage_env.engine import (
    CARDS,
    COUNT,
    COUNT_BEGIN,
    CUT,
    DEALER,
    DISCARD,
    DOUBLE_SKUNK,
    FIRST_DEALER,
    FIRST_PLAY,
    FORFEIT,
    KEPT,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LAID_COUNT,
    LAID_GO,
    LEFT,
    NUM_ACTIONS,
    NUM_DISCARDS,
    PHASE,
    PLAY,
    PLAYER,
    SAID_GO,
    SCORE,
    SKUNK,
    STARTER,
    TARGET,
    THROWN,
    WINNER,
    State,
    playable,
    sort_six,
)
from cribbage_env.jit import inline_jit

OBSERVATION_VERSION = 1
"""Goes up with every change of the layout; stored in checkpoints."""

# Codes of the field laid_by
OWN, OPPONENT = 1, 2

_LENGTHS = {
    "phase": 1,  # 0 discard, 1 play (2 the deal is over, 3 the game is over)
    "is_dealer": 1,  # 1 if the own seat deals
    "score": 1,  # own, at most the target
    "opponent_score": 1,
    "target": 1,
    "skunk": 1,  # a loser below this is skunked; 0: no such line
    "double_skunk": 1,
    "cards": 6,  # the own six cards as dealt, sorted
    "thrown": 2,  # the own two discards, sorted; 52 before
    "kept": 4,  # the own four kept cards, sorted: play action 15 + k lays kept[k]; 52 before
    "left": 4,  # 1 for each of the kept cards not laid yet
    "starter": 1,  # 52 before the cut
    "count": 1,  # the present count, 0..31
    "count_begin": 1,  # the present count's cards are laid[count_begin:num_laid]
    "num_laid": 1,  # cards laid in this deal, 0..8
    "own_left": 1,  # cards that the own seat still holds in the play (6 in the discard phase, 4 once thrown)
    "opponent_left": 1,
    "laid": 8,  # the cards of the play in the order they were laid, all counts; 52 from num_laid on
    "laid_by": 8,  # who laid them: 1 own, 2 opponent; 0 from num_laid on
    "laid_count": 8,  # the count after each of them
    "laid_go": 8,  # 1 if the player who had not laid that card then said go
    "to_act": 1,  # 1 if the own seat is to act
}


def _slices() -> dict[str, slice]:
    slices, at = {}, 0
    for name, length in _LENGTHS.items():
        slices[name] = slice(at, at + length)
        at += length
    return slices


FIELDS: dict[str, slice] = _slices()
"""Where each named field lies in an observation."""

OBSERVATION_SIZE = sum(_LENGTHS.values())

OBSERVATION_HIGH: NDArray[np.uint8] = np.full(OBSERVATION_SIZE, NO_CARD, np.uint8)
"""(OBSERVATION_SIZE,) uint8: the greatest value of each byte."""
for _name, _high in {
    "phase": 3, "is_dealer": 1, "score": 200, "opponent_score": 200, "target": 200, "skunk": 200, "double_skunk": 200,
    "left": 1, "count": 31, "count_begin": 8, "num_laid": 8, "own_left": 6, "opponent_left": 6,
    "laid_by": 2, "laid_count": 31, "laid_go": 1, "to_act": 1,
}.items():  # fmt: skip
    OBSERVATION_HIGH[FIELDS[_name]] = _high

# Offsets as constants, for kernels
AT_PHASE = FIELDS["phase"].start
AT_IS_DEALER = FIELDS["is_dealer"].start
AT_SCORE = FIELDS["score"].start
AT_OPPONENT_SCORE = FIELDS["opponent_score"].start
AT_TARGET = FIELDS["target"].start
AT_SKUNK = FIELDS["skunk"].start
AT_DOUBLE_SKUNK = FIELDS["double_skunk"].start
AT_CARDS = FIELDS["cards"].start
AT_THROWN = FIELDS["thrown"].start
AT_KEPT = FIELDS["kept"].start
AT_LEFT = FIELDS["left"].start
AT_STARTER = FIELDS["starter"].start
AT_COUNT = FIELDS["count"].start
AT_COUNT_BEGIN = FIELDS["count_begin"].start
AT_NUM_LAID = FIELDS["num_laid"].start
AT_OWN_LEFT = FIELDS["own_left"].start
AT_OPPONENT_LEFT = FIELDS["opponent_left"].start
AT_LAID = FIELDS["laid"].start
AT_LAID_BY = FIELDS["laid_by"].start
AT_LAID_COUNT = FIELDS["laid_count"].start
AT_LAID_GO = FIELDS["laid_go"].start
AT_TO_ACT = FIELDS["to_act"].start


def field(observations: NDArray[np.uint8], name: str) -> NDArray[np.uint8]:
    """The named field of observations (..., OBSERVATION_SIZE), as a view (..., length of the field).

    Raises:
        KeyError: no such field; the message lists those that there are.
    """
    if name not in FIELDS:
        raise KeyError(f"no field {name!r} in an observation; there are {', '.join(FIELDS)}")
    return observations[..., FIELDS[name]]


@inline_jit
def _popcount4(bits: int) -> int:
    return (bits & 1) + (bits >> 1 & 1) + (bits >> 2 & 1) + (bits >> 3 & 1)


@inline_jit
def write_observation(row: State, seat: int, out: NDArray[np.uint8]) -> None:
    """Write what ``seat`` knows of the game ``row`` to ``out``, (OBSERVATION_SIZE,) uint8."""
    other = 1 - seat
    phase = int(row[PHASE])
    own_left = int(row[LEFT + seat])
    target = int(row[TARGET])
    laid = int(row[LAID])
    cut = row[CUT] != 0
    thrown = cut or own_left != 0  # the own discards are made

    out[AT_PHASE] = phase
    out[AT_IS_DEALER] = row[DEALER] == seat
    out[AT_SCORE] = min(int(row[SCORE + seat]), target)
    out[AT_OPPONENT_SCORE] = min(int(row[SCORE + other]), target)
    out[AT_TARGET] = target
    out[AT_SKUNK] = row[SKUNK]
    out[AT_DOUBLE_SKUNK] = row[DOUBLE_SKUNK]
    for i in range(6):
        out[AT_CARDS + i] = row[CARDS + 6 * seat + i]
    for i in range(2):
        out[AT_THROWN + i] = row[THROWN + 2 * seat + i] if thrown else NO_CARD
    for i in range(4):
        out[AT_KEPT + i] = row[KEPT + 4 * seat + i] if thrown else NO_CARD
        out[AT_LEFT + i] = own_left >> i & 1
    out[AT_STARTER] = row[STARTER] if cut else NO_CARD
    out[AT_COUNT] = row[COUNT]
    out[AT_COUNT_BEGIN] = row[COUNT_BEGIN]
    out[AT_NUM_LAID] = laid
    out[AT_OWN_LEFT] = _popcount4(own_left) if thrown else 6
    other_left = int(row[LEFT + other])
    out[AT_OPPONENT_LEFT] = _popcount4(other_left) if cut or other_left != 0 else 6
    for i in range(8):
        here = i < laid
        out[AT_LAID + i] = row[LAID_CARDS + i] if here else NO_CARD
        by = OWN if row[LAID_BY + i] == seat else OPPONENT
        out[AT_LAID_BY + i] = by if here else 0
        out[AT_LAID_COUNT + i] = row[LAID_COUNT + i] if here else 0
        out[AT_LAID_GO + i] = row[LAID_GO + i] if here else 0
    out[AT_TO_ACT] = phase <= PLAY and row[PLAYER] == seat


@inline_jit
def write_mask(row: State, seat: int, mask: NDArray[np.int8]) -> None:
    """Write the mask of the seat's legal actions, (19,) int8: all zero when it is not the seat's turn."""
    turn = row[PLAYER] == seat
    discards = turn and row[PHASE] == DISCARD
    for action in range(NUM_DISCARDS):
        mask[action] = discards
    plays = playable(row, seat) if turn and row[PHASE] == PLAY else 0
    for slot in range(NUM_ACTIONS - FIRST_PLAY):
        mask[FIRST_PLAY + slot] = plays >> slot & 1


@inline_jit
def write_state(
    observation: NDArray[np.uint8], opponent_kept: NDArray[np.uint8], opponent_thrown: NDArray[np.uint8], row: State
) -> None:
    """Complete an observation of the seat to act to a state: the inverse of :func:`write_observation`.

    The observer becomes seat 0. What an observation leaves out (points by part, the numbers of the deal and of
    decisions) is zero.

    Args:
        observation: (OBSERVATION_SIZE,) uint8, in the discard or play phase.
        opponent_kept: (4,) uint8, sorted: the opponent's kept cards, with those it has laid. While the opponent has not
            thrown yet: four of its six.
        opponent_thrown: (2,) uint8, sorted: the other two.
        row: (STATE_SIZE,) int16, written. A starter not cut yet is left as ``row[STARTER]`` was.
    """
    starter = row[STARTER]
    for i in range(row.shape[0]):
        row[i] = 0
    laid = int(observation[AT_NUM_LAID])
    cut = observation[AT_STARTER] != NO_CARD
    row[PHASE] = observation[AT_PHASE]
    row[PLAYER] = 0
    row[DEALER] = 0 if observation[AT_IS_DEALER] else 1
    row[FIRST_DEALER] = row[DEALER]
    row[SCORE] = observation[AT_SCORE]
    row[SCORE + 1] = observation[AT_OPPONENT_SCORE]
    row[TARGET] = observation[AT_TARGET]
    row[SKUNK] = observation[AT_SKUNK]
    row[DOUBLE_SKUNK] = observation[AT_DOUBLE_SKUNK]
    row[WINNER] = -1
    row[FORFEIT] = -1
    row[CUT] = cut
    row[STARTER] = observation[AT_STARTER] if cut else starter
    row[COUNT] = observation[AT_COUNT]
    row[COUNT_BEGIN] = observation[AT_COUNT_BEGIN]
    row[LAID] = laid
    for i in range(6):
        row[CARDS + i] = observation[AT_CARDS + i]
    for i in range(4):
        row[LEFT] |= int(observation[AT_LEFT + i]) << i
        row[KEPT + i] = observation[AT_KEPT + i]
        row[KEPT + 4 + i] = opponent_kept[i]
        row[CARDS + 6 + i] = opponent_kept[i]
    for i in range(2):
        row[THROWN + i] = observation[AT_THROWN + i]
        row[THROWN + 2 + i] = opponent_thrown[i]
        row[CARDS + 10 + i] = opponent_thrown[i]
    sort_six(row, CARDS + 6)
    row[LEFT + 1] = 15 if observation[AT_OPPONENT_LEFT] <= 4 else 0
    for i in range(laid):
        by = 0 if observation[AT_LAID_BY + i] == OWN else 1
        row[LAID_CARDS + i] = observation[AT_LAID + i]
        row[LAID_BY + i] = by
        row[LAID_COUNT + i] = observation[AT_LAID_COUNT + i]
        row[LAID_GO + i] = observation[AT_LAID_GO + i]
        if by == 1:
            for slot in range(4):
                if row[KEPT + 4 + slot] == row[LAID_CARDS + i]:
                    row[LEFT + 1] &= ~(1 << slot)
        if row[LAID_GO + i] and i >= row[COUNT_BEGIN]:
            row[SAID_GO + 1 - by] = 1
