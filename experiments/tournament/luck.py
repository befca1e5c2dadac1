"""How lucky an agent was: what chance alone gave it, in games, with a mean of exactly zero.

A match of close opponents is decided by chance more than by play. Some of the chance can be seen, and its worth taken
out of the result: what is left has the same mean and a smaller variance (a control variate). It must be worth nothing
on average *by construction*; here it is a sum of terms, each of which is what became of one event of chance minus its
exact average over all that could have become of it, given everything that happened before. So a term has mean zero
whoever plays and however well, and so has their sum, also when the end of the game decides how many there are. Two
things are chance in a deal:

1. **The deal.** The twelve cards are worth what :mod:`experiments.tournament.rank_deals` makes of them: a fixed player
   discards for both sides and plays the deal out, by ranks, from the actual scores; the value is that of the position
   in which it ends, averaged over the starters. The average of that over all deals is known exactly, since
   ``rank_deals`` has gone through all of them: it is the fixed player's own board,
   :func:`agents.board.solve_board` of its exact outcomes (values of positions after a deal are taken from that board,
   too, and to be the average of what comes after is what defines it).
2. **The starter.** When both players have thrown, the starter is any of the other 40 cards. What a starter makes of the
   cards that were *actually* kept and thrown (heels, the play by the fixed player, both hands and the crib, in their
   order, from the actual scores, then the board) is compared with its mean over the 40.

Who deals first is chance as well, but both games of a pair have the same first dealer, so it gives nothing to either.
What the agents do, and luck in the play (what the opponent happens to hold), is no chance event and stays in the
result. The fixed player only makes the terms good predictions; any other would leave the mean at zero.

The idea is that of AIVAT (N. Burch, M. Schmid, M. Moravcik, D. Morrill and M. Bowling, "AIVAT: A New Variance
Reduction Technique for Agent Evaluation in Imperfect Information Games", AAAI 2018), with the chance events alone,
since an agent's probabilities need not be known.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agents.board import solve_board
from cribbage_env.cards import JACK
from cribbage_env.engine import (
    CARDS,
    DEALER,
    DISCARD,
    EVENT_SIZE,
    KEPT,
    KEPT_PLACES,
    NUM_DISCARDS,
    PAIRS,
    PHASE,
    PLAYER,
    SCORE,
    STARTER,
    STATE_SIZE,
    TARGET,
    THROWN,
    State,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.rules import Rules
from cribbage_env.scoring import HEELS_POINTS, flush_points, nobs_points
from cribbage_env.vector_env import CribbageVectorEnv
from experiments.tournament.adjustment import MICRO
from experiments.tournament.match import Games
from experiments.tournament.rank_deals import (
    DEALER_SEAT,
    FOURS,
    exact_outcomes,
    four_number,
    look_up_play,
    play_step,
    rank_tables,
    six_number,
    two_number,
)

_PLAYED = 4  # ways in which a deal may come to its show: without heels and with, ties low and high
_AT_DEALER, _AT_PONE, _WON = range(3)  # the scores at the show, and who has won: 1 the dealer, -1 pone, 0 nobody


@jit(_nrt=False)
def _play_on(code: int, dealer: int, pone: int, target: int, out: NDArray[np.int64]) -> None:
    """Add the points of a play (a code of ``rank_deals.play_out``) to the scores, until somebody wins."""
    out[_WON] = 1 if dealer >= target else 0
    for play in range(8):
        if out[_WON] == 0:
            points, seat = play_step(code, play)
            if seat == DEALER_SEAT:
                dealer += points
                if dealer >= target:
                    out[_WON] = 1
            else:
                pone += points
                if pone >= target:
                    out[_WON] = -1
    out[_AT_DEALER] = dealer
    out[_AT_PONE] = pone


@jit(_nrt=False)
def _play_all(low: int, high: int, dealer: int, pone: int, target: int, played: NDArray[np.int64]) -> None:
    """Write how the play comes out from these scores, (4, 3): [heels, ties high], by both codes of two hands."""
    for heels in range(2):
        score = dealer + HEELS_POINTS * heels
        _play_on(low, score, pone, target, played[2 * heels])
        _play_on(high, score, pone, target, played[2 * heels + 1])


@inline_jit
def _show(
    played: NDArray[np.int64], starter_is_jack: bool, pone_points: int, dealer_points: int, board: NDArray[np.float64]
) -> float:
    """The dealer's value after the show, mean of both ways to play: 1 won, -1 lost, or that of the next position."""
    target = board.shape[0]
    value = 0.0
    first = 2 if starter_is_jack else 0
    for way in range(first, first + 2):
        if played[way, _WON] != 0:
            value += played[way, _WON]
            continue
        pone = played[way, _AT_PONE] + pone_points
        dealer = played[way, _AT_DEALER] + dealer_points
        if pone >= target:  # pone counts first
            value -= 1.0
        elif dealer >= target:
            value += 1.0
        else:
            value -= board[pone, dealer]  # pone deals next
    return value / 2


@jit(_nrt=False)
def deal_luck(
    row: State,
    kept: NDArray[np.int16],
    thrown: NDArray[np.int8],
    hand: NDArray[np.int8],
    crib: NDArray[np.int8],
    ranks: NDArray[np.int8],
    board: NDArray[np.float64],
    codes: NDArray[np.int64],
    scratch: State,
    no_log: State,
    left: NDArray[np.int64],
    played: NDArray[np.int64],
) -> float:
    """What the twelve cards of a deal are worth to the dealer, minus the average deal.

    Args:
        row: a game in which pone is to discard.
        kept, thrown, hand, crib, ranks: of :class:`experiments.tournament.rank_deals.RankTables`.
        board: (target, target), the fixed player's.
        codes: (FOURS, FOURS, 2), see :func:`experiments.tournament.rank_deals.look_up_play`.
        scratch, no_log, left, played: scratch space, (STATE_SIZE,) and (0, EVENT_SIZE) int16, (13,) and (4, 3) int64.
    """
    dealer = int(row[DEALER])
    dealer_six = six_number(row, CARDS + 6 * dealer)
    pone_six = six_number(row, CARDS + 6 * (1 - dealer))
    dealer_hand = np.int64(kept[1, dealer_six])
    pone_hand = np.int64(kept[0, pone_six])
    dealer_score = int(row[SCORE + dealer])
    pone_score = int(row[SCORE + 1 - dealer])
    look_up_play(codes, ranks, dealer_hand, pone_hand, scratch, no_log, left)
    low, high = codes[dealer_hand, pone_hand, 0], codes[dealer_hand, pone_hand, 1]
    _play_all(low, high, dealer_score, pone_score, board.shape[0], played)
    for rank in range(13):
        left[rank] = 4
    for i in range(12):
        left[row[CARDS + i] >> 2] -= 1
    total = 0.0
    for rank in range(13):
        if left[rank] > 0:
            points = int(hand[dealer_hand, rank]) + int(crib[thrown[1, dealer_six], thrown[0, pone_six], rank])
            total += left[rank] * _show(played, rank == JACK, int(hand[pone_hand, rank]), points, board)
    return total / 40 - board[dealer_score, pone_score]


@jit(_nrt=False)
def starter_luck(
    row: State,
    action: int,
    hand: NDArray[np.int8],
    crib: NDArray[np.int8],
    ranks: NDArray[np.int8],
    board: NDArray[np.float64],
    codes: NDArray[np.int64],
    scratch: State,
    no_log: State,
    left: NDArray[np.int64],
    played: NDArray[np.int64],
    cards: NDArray[np.int64],
    suits: NDArray[np.int64],
) -> float:
    """What the starter is worth to the dealer, minus the mean of the 40 cards that it could have been.

    Args:
        row: a game in which the dealer is about to discard.
        action: the dealer's discard, 0..14.
        hand, crib, ranks, board, codes, scratch, no_log, left, played: see :func:`deal_luck`.
        cards, suits: scratch space, (3, 4) and (2, 4) int64.
    """
    dealer = int(row[DEALER])
    pone = 1 - dealer
    for i in range(4):
        cards[0, i] = row[KEPT + 4 * pone + i]
        cards[1, i] = row[CARDS + 6 * dealer + KEPT_PLACES[action, i]]
    for i in range(2):
        cards[2, i] = row[THROWN + 2 * pone + i]
        cards[2, 2 + i] = row[CARDS + 6 * dealer + PAIRS[action, i]]
    pone_hand = four_number(cards[0, 0] >> 2, cards[0, 1] >> 2, cards[0, 2] >> 2, cards[0, 3] >> 2)
    dealer_hand = four_number(cards[1, 0] >> 2, cards[1, 1] >> 2, cards[1, 2] >> 2, cards[1, 3] >> 2)
    from_pone = two_number(cards[2, 0] >> 2, cards[2, 1] >> 2)
    from_dealer = two_number(cards[2, 2] >> 2, cards[2, 3] >> 2)
    look_up_play(codes, ranks, dealer_hand, pone_hand, scratch, no_log, left)
    low, high = codes[dealer_hand, pone_hand, 0], codes[dealer_hand, pone_hand, 1]
    _play_all(low, high, int(row[SCORE + dealer]), int(row[SCORE + pone]), board.shape[0], played)
    # What the starter's suit adds to pone's points and the dealer's, flush and nobs; what its rank does comes after.
    suits[:] = 0
    for suit in range(4):
        for one in range(3):
            c0, c1, c2, c3 = cards[one, 0], cards[one, 1], cards[one, 2], cards[one, 3]
            suits[min(one, 1), suit] += flush_points(c0, c1, c2, c3, suit, one == 2)
            suits[min(one, 1), suit] += nobs_points(c0, c1, c2, c3, suit)
    dealt = np.uint64(0)
    bit = np.uint64(1)
    for i in range(12):
        dealt |= bit << np.uint64(row[CARDS + i])
    starter = int(row[STARTER])
    value = 0.0
    total = 0.0
    for rank in range(13):
        pone_points = int(hand[pone_hand, rank])
        dealer_points = int(hand[dealer_hand, rank]) + int(crib[from_dealer, from_pone, rank])
        for suit in range(4):
            card = 4 * rank + suit
            if not (dealt >> np.uint64(card)) & bit:
                this = _show(played, rank == JACK, pone_points + suits[0, suit], dealer_points + suits[1, suit], board)
                total += this
                if card == starter:
                    value = this
    return value - total / 40


@jit
def _add_luck(
    rows: State,
    numbers: NDArray[np.int64],
    actions: NDArray[np.int64],
    kept: NDArray[np.int16],
    thrown: NDArray[np.int8],
    hand: NDArray[np.int8],
    crib: NDArray[np.int8],
    ranks: NDArray[np.int8],
    board: NDArray[np.float64],
    codes: NDArray[np.int64],
    scratch: State,
    no_log: State,
    with_deal: bool,
    with_starter: bool,
    luck: NDArray[np.float64],
) -> None:
    """Add to the luck (N,) of seat 0, in games, what the last event of chance gave it, in all games at a discard."""
    left = np.empty(13, np.int64)
    played = np.empty((_PLAYED, 3), np.int64)
    cards = np.empty((3, 4), np.int64)
    suits = np.empty((2, 4), np.int64)
    for i in range(rows.shape[0]):
        row = rows[i]
        if numbers[i] < 0 or row[PHASE] != DISCARD:
            continue
        value = 0.0
        if row[PLAYER] != row[DEALER]:
            if with_deal:
                value = deal_luck(row, kept, thrown, hand, crib, ranks, board, codes, scratch, no_log, left, played)
        elif with_starter and 0 <= actions[i] < NUM_DISCARDS:
            value = starter_luck(
                row, actions[i], hand, crib, ranks, board, codes, scratch, no_log, left, played, cards, suits
            )
        luck[i] += value / 2 if row[DEALER] == 0 else -value / 2  # a win is worth one game, from -1 to 1


@functools.lru_cache(maxsize=8)
def luck_board(target: int) -> NDArray[np.float64]:
    """The fixed player's board, (target, target): the dealer's chance to win minus that to lose."""
    board = solve_board(exact_outcomes(), Rules(target, None, None))
    board.flags.writeable = False
    return board


@functools.cache
def _codes() -> NDArray[np.int64]:
    """The plays looked up so far in this process: 53 MB when all are."""
    return np.zeros((FOURS, FOURS, 2), np.int64)


class LuckObserver:
    """Notes the luck of games as they are played, in the column ``luck`` of a match's ``GAME_DTYPE``.

    It is a :class:`experiments.tournament.match.GameObserver`.

    Args:
        deal, starter: which events of chance count.
    """

    def __init__(self, deal: bool = True, starter: bool = True) -> None:
        self._deal = deal
        self._starter = starter
        self._tables = rank_tables()
        self._codes = _codes()
        self._scratch = np.zeros(STATE_SIZE, np.int16)
        self._no_log = np.zeros((0, EVENT_SIZE), np.int16)

    def begin(self, env: CribbageVectorEnv, games: Games, first_game: int) -> None:
        """See :class:`experiments.tournament.match.GameObserver`."""
        self._games = games
        self._luck = np.zeros(env.num_envs)  # of seat 0, in the game under way in each slot
        self._board = luck_board(int(env.rows[0, TARGET]))

    def before_step(self, env: CribbageVectorEnv, actions: NDArray[np.int64]) -> None:
        """See :class:`experiments.tournament.match.GameObserver`."""
        _add_luck(
            env.rows, env.numbers, actions, *self._tables, self._board, self._codes, self._scratch, self._no_log,
            self._deal, self._starter, self._luck,
        )  # fmt: skip

    def after_step(self, env: CribbageVectorEnv, slots: NDArray[np.int64], results: Mapping[str, NDArray[Any]]) -> None:
        """See :class:`experiments.tournament.match.GameObserver`."""
        if len(slots):
            numbers = results["game"]
            luck = np.rint(MICRO * self._luck[slots]).astype(np.int32)  # halves to even: what mirrors, still does
            self._games["luck"][numbers] = np.where(self._games["a_seat"][numbers] == 0, luck, -luck)
            self._luck[slots] = 0.0
