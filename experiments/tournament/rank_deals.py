"""A deal of cribbage by ranks alone, played out by a fixed player: what the cards are worth, with an exact average.

The luck adjustment (:mod:`experiments.tournament.luck`) compares the cards that were dealt with the average of all
cards that could have been. So it needs a value of the cards whose average over all deals is known exactly. If suits
are ignored (no flushes, no nobs), there are few enough deals to go through all of them: 18,395 six-card hands by rank
for pone and as many for the dealer, and 13 starters. The fixed player

* throws the two cards that leave the best exact average of the hand plus or minus the crib's published average, as the
  agent ``expected`` does with suits;
* in the play lays the card with the most points now minus the mean points of the replies, also like ``expected``,
  knowing its own four cards and those laid.

:func:`count_outcomes` goes through all C(52, 6) x C(46, 6) x 40 deals and counts how they come out, as
:class:`agents.board.DealOutcomes`; the counts are exact integers and are shipped with the package
(:func:`exact_outcomes`).
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.board import DealOutcomes, count_event, load_outcomes, save_outcomes
from agents.discards import crib_table
from agents.expected import TIE
from cribbage_env.cards import JACK
from cribbage_env.engine import (
    COUNT,
    COUNT_BEGIN,
    EVENT_SIZE,
    KEPT,
    KEPT_PLACES,
    LAID,
    LAID_BY,
    LAID_CARDS,
    LEFT,
    NUM_DISCARDS,
    PAIRS,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STATE_SIZE,
    State,
    lay_card,
    new_game,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.scoring import HEELS_POINTS, MAX_COUNT, card_value, play_parts, show_table

SHIPPED = "rank_deals.npz"
"""In ``agents/data``. ``python -m experiments.tournament.rank_deals`` makes it again."""

SIXES, FOURS, TWOS = 18564, 1820, 91
"""How many multisets of six, four and two ranks there are (169 of the first have five or six cards of a rank)."""

_BINOMIALS = np.array([[1 if k == 0 else 0 for k in range(7)]] + [[0] * 7] * 18, np.int64)
for _n in range(1, 19):
    for _k in range(7):
        _BINOMIALS[_n, _k] = _BINOMIALS[_n - 1, _k] + (_BINOMIALS[_n - 1, _k - 1] if _k else 0)

DEALER_SEAT, PONE_SEAT = 0, 1
"""The seats in a play-out."""

_NO_TARGET = 1000  # a score that no deal reaches
_POINT_BITS = 5
_PLAY_BITS = _POINT_BITS + 1  # the points of a play, and whose they are
TIED = np.int64(1) << np.int64(8 * _PLAY_BITS)
FIFTEEN = 15


class RankTables(NamedTuple):
    """What the fixed player does, and what cards are worth by rank."""

    kept: NDArray[np.int16]
    """(2, SIXES): by [is dealer, six ranks], the number of the four ranks kept."""
    thrown: NDArray[np.int8]
    """(2, SIXES): the number of the two ranks thrown."""
    hand: NDArray[np.int8]
    """(FOURS, 13): points of a hand by its ranks and the starter's."""
    crib: NDArray[np.int8]
    """(TWOS, TWOS, 13): points of a crib by the ranks that the dealer and pone threw and the starter's."""
    ranks: NDArray[np.int8]
    """(FOURS, 4): the ranks of a hand, sorted."""


@inline_jit
def six_number(cards: State, at: int) -> int:
    """The number of the ranks of six sorted cards ``cards[at : at + 6]``, 0..SIXES - 1."""
    number = 0
    for i in range(6):
        number += _BINOMIALS[(cards[at + i] >> 2) + i, i + 1]
    return number


@inline_jit
def four_number(r0: int, r1: int, r2: int, r3: int) -> int:
    """The number of four ranks in ascending order, 0..FOURS - 1."""
    return _BINOMIALS[r0, 1] + _BINOMIALS[r1 + 1, 2] + _BINOMIALS[r2 + 2, 3] + _BINOMIALS[r3 + 3, 4]


@inline_jit
def two_number(r0: int, r1: int) -> int:
    """The number of two ranks in ascending order, 0..TWOS - 1."""
    return _BINOMIALS[r0, 1] + _BINOMIALS[r1 + 1, 2]


@inline_jit
def _entry(r0: int, r1: int, r2: int, r3: int, starter: int) -> int:
    """The entry of five ranks in :func:`cribbage_env.scoring.show_table`."""
    return (((r0 * 14 + r1) * 14 + r2) * 14 + r3) * 14 + starter


@jit
def _fill_points(
    table: NDArray[np.int8], hand: NDArray[np.int8], crib: NDArray[np.int8], ranks: NDArray[np.int8]
) -> None:
    twos = np.zeros((TWOS, 2), np.int64)
    for a in range(13):
        for b in range(a, 13):
            twos[two_number(a, b), 0] = a
            twos[two_number(a, b), 1] = b
            for c in range(b, 13):
                for d in range(c, 13):
                    number = four_number(a, b, c, d)
                    ranks[number, 0] = a
                    ranks[number, 1] = b
                    ranks[number, 2] = c
                    ranks[number, 3] = d
                    for starter in range(13):
                        hand[number, starter] = table[_entry(a, b, c, d, starter)]
    for i in range(TWOS):
        for j in range(TWOS):
            for starter in range(13):
                crib[i, j, starter] = table[_entry(twos[i, 0], twos[i, 1], twos[j, 0], twos[j, 1], starter)]


@jit
def _fill_discards(
    hand: NDArray[np.int8], cribs: NDArray[np.float64], kept: NDArray[np.int16], thrown: NDArray[np.int8]
) -> None:
    """The discard of each six ranks: the first of those with the greatest value."""
    six = np.zeros(6, np.int16)  # as cards of one suit
    left = np.zeros(13, np.int64)
    for a in range(13):
        for b in range(a, 13):
            for c in range(b, 13):
                for d in range(c, 13):
                    for e in range(d, 13):
                        for f in range(e, 13):
                            for i, rank in enumerate((a, b, c, d, e, f)):
                                six[i] = 4 * rank
                            left[:] = 4
                            too_many = False
                            for i in range(6):
                                left[six[i] >> 2] -= 1
                                too_many = too_many or left[six[i] >> 2] < 0
                            if too_many:
                                continue
                            number = six_number(six, 0)
                            for is_dealer in range(2):
                                best = -np.inf
                                for action in range(NUM_DISCARDS):
                                    four = four_number(
                                        six[KEPT_PLACES[action, 0]] >> 2,
                                        six[KEPT_PLACES[action, 1]] >> 2,
                                        six[KEPT_PLACES[action, 2]] >> 2,
                                        six[KEPT_PLACES[action, 3]] >> 2,
                                    )
                                    first = six[PAIRS[action, 0]] >> 2
                                    second = six[PAIRS[action, 1]] >> 2
                                    points = 0
                                    for starter in range(13):
                                        points += hand[four, starter] * left[starter]
                                    crib = cribs[1, first, second] if is_dealer else -cribs[0, first, second]
                                    value = points / 46.0 + crib
                                    if value > best + TIE:
                                        best = value
                                        kept[is_dealer, number] = four
                                        thrown[is_dealer, number] = two_number(first, second)


@functools.cache
def rank_tables() -> RankTables:
    """The tables; they take a few hundredths of a second."""
    hand = np.zeros((FOURS, 13), np.int8)
    crib = np.zeros((TWOS, TWOS, 13), np.int8)
    ranks = np.zeros((FOURS, 4), np.int8)
    _fill_points(show_table(), hand, crib, ranks)
    kept = np.zeros((2, SIXES), np.int16)
    thrown = np.zeros((2, SIXES), np.int8)
    _fill_discards(hand, crib_table("schell"), kept, thrown)
    return RankTables(kept, thrown, hand, crib, ranks)


@jit(_nrt=False)
def value_of_laying(row: State, card: int, left: NDArray[np.int64]) -> float:
    """Points of laying ``card`` now, minus the mean points of the legal replies with the cards ``left``, by rank.

    The cells after the last card laid are used as scratch space.
    """
    begin = int(row[COUNT_BEGIN])
    end = int(row[LAID])
    count = int(row[COUNT]) + card_value(card)
    row[LAID_CARDS + end] = card
    fifteen, thirty_one, pair, run = play_parts(row, LAID_CARDS + begin, LAID_CARDS + end + 1, count)
    now = fifteen + thirty_one + pair + run
    if end == 7:
        return float(now)
    if count == MAX_COUNT:
        begin = end + 1
        count = 0
    # Most replies can't score; only the points of the others are asked for. A run would be made of the reply, at least
    # the two cards before it, and at most all of the count: so none of them is further apart than there are cards.
    rank = card >> 2
    laid = end + 1 - begin
    apart = abs(rank - int(row[LAID_CARDS + end - 1] >> 2)) if laid > 1 else 0
    may_run = 0 < apart <= laid
    replies = 0
    points = 0
    for reply in range(13):
        after = count + card_value(4 * reply)
        if after > MAX_COUNT:
            break
        if left[reply] > 0:
            replies += left[reply]
            near = may_run and abs(reply - rank) <= laid
            if near or reply == rank or after in (FIFTEEN, MAX_COUNT):
                row[LAID_CARDS + end + 1] = 4 * reply
                fifteen, thirty_one, pair, run = play_parts(row, LAID_CARDS + begin, LAID_CARDS + end + 2, after)
                points += left[reply] * (fifteen + thirty_one + pair + run)
    if replies == 0:
        return float(now)
    return now - points / replies


@jit(_nrt=False)
def play_out(
    ranks: NDArray[np.int8],
    dealer_hand: int,
    pone_hand: int,
    highest: bool,
    row: State,
    no_log: State,
    left: NDArray[np.int64],
) -> np.int64:
    """The play between two hands by the fixed player.

    Args:
        ranks: of :class:`RankTables`.
        dealer_hand, pone_hand: numbers of four ranks.
        highest: which of several cards of the same value is laid, the highest or the lowest.
        row, no_log, left: scratch space, (STATE_SIZE,) and (0, EVENT_SIZE) int16, (13,) int64.

    Returns:
        The points of the eight plays in order, six bits each, the first lowest: the points, and 32 if they are pone's.
        Never 0, since the last card scores. The bit :data:`TIED` is set if there were cards of the same value;
        otherwise ``highest`` makes no difference.
    """
    new_game(row, _NO_TARGET, 0, 0, DEALER_SEAT, 0, 0)
    for slot in range(4):
        row[KEPT + 4 * DEALER_SEAT + slot] = 4 * ranks[dealer_hand, slot]
        row[KEPT + 4 * PONE_SEAT + slot] = 4 * ranks[pone_hand, slot]
    row[LEFT] = 15
    row[LEFT + 1] = 15
    row[PHASE] = PLAY
    row[PLAYER] = PONE_SEAT
    code = np.int64(0)
    for play in range(8):
        seat = int(row[PLAYER])
        plays = playable(row, seat)
        slot = -1
        if plays & (plays - 1):  # a choice
            at = KEPT + 4 * seat
            for rank in range(13):
                left[rank] = 4
            for i in range(4):
                left[row[at + i] >> 2] -= 1
            for i in range(int(row[LAID])):
                if row[LAID_BY + i] != seat:
                    left[row[LAID_CARDS + i] >> 2] -= 1
            best = -np.inf
            for i in range(4):
                if (plays >> i) & 1:
                    value = value_of_laying(row, int(row[at + i]), left)
                    if value > best + TIE:
                        best = value
                        slot = i
                    elif value >= best - TIE and row[at + i] != row[at + slot]:  # not just another suit
                        code |= TIED
                        if highest:
                            slot = i
        else:
            slot = int(plays > 1) + int(plays > 2) + int(plays > 4)
        before = int(row[SCORE + seat])
        lay_card(row, slot, no_log)
        points = int(row[SCORE + seat]) - before
        if points > 0:
            code |= np.int64(points | seat << _POINT_BITS) << np.int64(_PLAY_BITS * play)
    return code


@jit(_nrt=False)
def _fill_codes(
    codes: NDArray[np.int64],
    ranks: NDArray[np.int8],
    dealer_hand: int,
    pone_hand: int,
    row: State,
    no_log: State,
    left: NDArray[np.int64],
) -> None:
    low = np.int64(0)
    for way in range(2):  # one call, since it is compiled where it is called
        code = play_out(ranks, dealer_hand, pone_hand, way == 1, row, no_log, left)
        if way == 0:
            low = code
            if not code & TIED:
                codes[dealer_hand, pone_hand, 1] = code
                break
        else:
            codes[dealer_hand, pone_hand, 1] = code
    codes[dealer_hand, pone_hand, 0] = low  # the last: other threads look at it


@inline_jit
def look_up_play(
    codes: NDArray[np.int64],
    ranks: NDArray[np.int8],
    dealer_hand: int,
    pone_hand: int,
    row: State,
    no_log: State,
    left: NDArray[np.int64],
) -> None:
    """See to it that ``codes[dealer_hand, pone_hand]`` has both codes of :func:`play_out`; it has zeros at first."""
    if codes[dealer_hand, pone_hand, 0] == 0:
        _fill_codes(codes, ranks, dealer_hand, pone_hand, row, no_log, left)


@jit
def play_out_all(ranks: NDArray[np.int8], codes: NDArray[np.int64]) -> None:
    """:func:`play_out` of all hands both ways: ``codes`` is (FOURS, FOURS, 2), [dealer's, pone's, highest]."""
    row = np.zeros(STATE_SIZE, np.int16)
    no_log = np.zeros((0, EVENT_SIZE), np.int16)
    left = np.zeros(13, np.int64)
    for dealer_hand in range(codes.shape[0]):
        for pone_hand in range(codes.shape[1]):
            look_up_play(codes, ranks, dealer_hand, pone_hand, row, no_log, left)


@inline_jit
def play_step(code: int, play: int) -> tuple[int, int]:
    """Of a code of :func:`play_out`: the points of a play (0..7), and the seat that made it."""
    bits = (code >> (_PLAY_BITS * play)) & ((1 << _PLAY_BITS) - 1)
    return bits & ((1 << _POINT_BITS) - 1), bits >> _POINT_BITS


# The exact count ------------------------------------------------------------------------------------------------------

_MOST_PLAY, _MOST_HAND, _MOST_DEALER_SHOW = 48, 32, 64  # more points than are possible


@jit
def _list_sixes(counts: NDArray[np.int64], numbers: NDArray[np.int64], ways: NDArray[np.int64]) -> int:
    """The six-card hands by rank that exist: cards of each rank (N, 13), their numbers, ways to choose suits; N."""
    n = 0
    six = np.zeros(6, np.int16)
    for a in range(13):
        for b in range(a, 13):
            for c in range(b, 13):
                for d in range(c, 13):
                    for e in range(d, 13):
                        for f in range(e, 13):
                            for i, rank in enumerate((a, b, c, d, e, f)):
                                six[i] = 4 * rank
                            counts[n] = 0
                            for i in range(6):
                                counts[n, six[i] >> 2] += 1
                            if counts[n].max() > 4:
                                continue
                            numbers[n] = six_number(six, 0)
                            ways[n] = 1
                            for rank in range(13):
                                ways[n] *= _BINOMIALS[4, counts[n, rank]]
                            n += 1
    return n


@jit
def _count_deals(
    begin: int,
    end: int,
    counts: NDArray[np.int64],
    numbers: NDArray[np.int64],
    ways: NDArray[np.int64],
    kept: NDArray[np.int16],
    thrown: NDArray[np.int8],
    hand: NDArray[np.int8],
    crib: NDArray[np.int8],
    play_points: NDArray[np.int8],
    plays: NDArray[np.int64],
    shows: NDArray[np.int64],
) -> None:
    """Go through all deals in which pone has one of the hands ``begin`` to ``end``.

    Args:
        counts, numbers, ways: what :func:`_list_sixes` wrote.
        kept, thrown, hand, crib: of :class:`RankTables`.
        play_points: (FOURS, FOURS, 2, 2), by [dealer's hand, pone's, highest], of the dealer and of pone.
        plays: (FOURS, FOURS, 2), added to: deals by both hands and by whether there are heels.
        shows: (_MOST_PLAY, _MOST_PLAY, _MOST_HAND, _MOST_DEALER_SHOW), added to: deals by the points that the dealer
            and pone have after the play, those of pone's hand, and those of the dealer's hand and crib together.
    """
    left = np.zeros(13, np.int64)
    for i in range(begin, end):
        pone_kept = kept[0, numbers[i]]
        pone_thrown = thrown[0, numbers[i]]
        for j in range(counts.shape[0]):
            weight = ways[i]
            for rank in range(13):
                rest = 4 - counts[i, rank]
                weight *= _BINOMIALS[rest, counts[j, rank]] if counts[j, rank] else 1
                left[rank] = rest - counts[j, rank]
            if weight == 0:  # more than four cards of a rank
                continue
            dealer_kept = kept[1, numbers[j]]
            dealer_thrown = thrown[1, numbers[j]]
            dealer_low, pone_low = play_points[dealer_kept, pone_kept, 0]
            dealer_high, pone_high = play_points[dealer_kept, pone_kept, 1]
            for starter in range(13):
                deals = weight * left[starter]
                if deals:
                    heels = HEELS_POINTS if starter == JACK else 0
                    points = hand[dealer_kept, starter] + crib[dealer_thrown, pone_thrown, starter]
                    shows[dealer_low + heels, pone_low, hand[pone_kept, starter], points] += deals
                    shows[dealer_high + heels, pone_high, hand[pone_kept, starter], points] += deals
            plays[dealer_kept, pone_kept, 0] += weight * (40 - left[JACK])
            plays[dealer_kept, pone_kept, 1] += weight * left[JACK]


@jit
def _count_plays(
    codes: NDArray[np.int64],
    plays: NDArray[np.int64],
    dealer_first: NDArray[np.int64],
    pone_first: NDArray[np.int64],
) -> None:
    """Count the events of the cut and the play."""
    for dealer_hand in range(codes.shape[0]):
        for pone_hand in range(codes.shape[1]):
            for heels in range(2):
                deals = plays[dealer_hand, pone_hand, heels]
                if deals == 0:
                    continue
                for highest in range(2):
                    dealer = 0
                    pone = 0
                    if heels:
                        count_event(dealer_first, 0, HEELS_POINTS, 0, deals)
                        dealer = HEELS_POINTS
                    for play in range(8):
                        points, seat = play_step(codes[dealer_hand, pone_hand, highest], play)
                        if seat == DEALER_SEAT:
                            count_event(dealer_first, dealer, points, pone, deals)
                            dealer += points
                        else:
                            count_event(pone_first, pone, points, dealer, deals)
                            pone += points


@jit
def _count_shows(
    shows: NDArray[np.int64],
    totals: NDArray[np.int64],
    dealer_first: NDArray[np.int64],
    pone_first: NDArray[np.int64],
) -> None:
    """Count the events of the show, pone's hand first, and how deals end."""
    for dealer in range(shows.shape[0]):
        for pone in range(shows.shape[1]):
            for hand in range(shows.shape[2]):
                for points in range(shows.shape[3]):
                    deals = shows[dealer, pone, hand, points]
                    if deals:
                        count_event(pone_first, pone, hand, dealer, deals)
                        count_event(dealer_first, dealer, points, pone + hand, deals)
                        totals[dealer + points, pone + hand] += deals


@jit
def _play_points(codes: NDArray[np.int64], points: NDArray[np.int8]) -> None:
    """The points of the play, (FOURS, FOURS, 2, 2): by [dealer's hand, pone's, highest], of the dealer and of pone."""
    for dealer_hand in range(codes.shape[0]):
        for pone_hand in range(codes.shape[1]):
            for highest in range(2):
                for play in range(8):
                    made, seat = play_step(codes[dealer_hand, pone_hand, highest], play)
                    points[dealer_hand, pone_hand, highest, seat] += made


def count_outcomes(every: int = 1) -> DealOutcomes:
    """How all C(52, 6) x C(46, 6) x 40 deals come out, each counted twice, for both ways of the fixed player to play.

    It takes about a minute, and 150 MB.

    Args:
        every: take only every so many-th hand of pone's, for tests.
    """
    tables = rank_tables()
    counts, numbers, ways = np.zeros((SIXES, 13), np.int64), np.zeros(SIXES, np.int64), np.zeros(SIXES, np.int64)
    n = _list_sixes(counts, numbers, ways)
    counts, numbers, ways = counts[:n], numbers[:n], ways[:n]
    codes = np.zeros((FOURS, FOURS, 2), np.int64)
    play_out_all(tables.ranks, codes)
    play_points = np.zeros((FOURS, FOURS, 2, 2), np.int8)
    _play_points(codes, play_points)
    plays = np.zeros((FOURS, FOURS, 2), np.int64)
    shows = np.zeros((_MOST_PLAY, _MOST_PLAY, _MOST_HAND, _MOST_DEALER_SHOW), np.int64)
    for begin in range(0, n, every):
        _count_deals(
            begin, begin + 1, counts, numbers, ways, tables.kept, tables.thrown, tables.hand, tables.crib, play_points,
            plays, shows,
        )  # fmt: skip
    outcomes = DealOutcomes.none()
    _count_plays(codes, plays, outcomes.dealer_first, outcomes.pone_first)
    _count_shows(shows, outcomes.totals, outcomes.dealer_first, outcomes.pone_first)
    return outcomes


@functools.cache
def exact_outcomes() -> DealOutcomes:
    """What :func:`count_outcomes` gives, as shipped."""
    return load_outcomes(SHIPPED)


if __name__ == "__main__":
    save_outcomes(Path(__file__).resolve().parents[2] / "agents" / "data" / SHIPPED, count_outcomes())
