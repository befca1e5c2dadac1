"""The agent ``monte_carlo``: what each card is worth in worlds that may be the real one.

In the play it draws worlds (:mod:`agents.worlds`), solves the rest of the play in each by minimax with all cards open,
and plays the card with the greatest mean. It discards as ``expected`` does, or by roll-outs of the whole deal. An
agent that sees all cards in every world never plays to hide or to find out anything ("strategy fusion"): it is a strong
heuristic, not an equilibrium.

The worlds are a function of the observation: the same position is always answered alike.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.discards import crib_table, discard_values
from agents.expected import TIE, best_actions, play_value, unseen_ranks
from agents.registry import AgentError
from agents.worlds import draw_worlds, observation_key, split_six, unseen_cards
from cribbage_env.engine import (
    CARDS,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    KEPT_PLACES,
    LAID,
    NUM_ACTIONS,
    NUM_DISCARDS,
    OVER,
    PAIRS,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STARTER,
    STATE_SIZE,
    TARGET,
    WINNER,
    State,
    apply,
    lay_card,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import AT_CARDS, AT_IS_DEALER, OBSERVATION_SIZE, write_observation, write_state
from cribbage_env.scoring import show_table
from cribbage_env.streams import below, combine

MAX_SAMPLES = 1_000_000
"""The most worlds or roll-outs a decision may have."""

WIN_POINTS = 30
"""What a game won in the play is worth in points, beyond those that win it."""

ROLLOUT_MARGIN = 1.5
"""Discards whose averages are further below the best, in points, are not rolled out."""

_HEAD = CARDS  # the columns before it are all that laying a card changes, but for the record of the cards laid


# Columns of the search stack
_PLAYS, _BEST, _LOW, _HIGH = range(4)
_BOUND = 1000  # above any difference of scores


@inline_jit
def _one_of_each_rank(row: State, seat: int, plays: int) -> int:
    """The bits of ``plays`` without those of a second card of a rank: they are alike in the play."""
    bits = plays
    for slot in range(1, 4):  # the kept cards are sorted
        same = row[KEPT + 4 * seat + slot] >> 2 == row[KEPT + 4 * seat + slot - 1] >> 2
        if same and plays >> (slot - 1) & 1:
            bits &= ~(1 << slot)
    return bits


@inline_jit
def final_value(row: State) -> int:
    """The score of seat 0 minus that of seat 1 after the play, and WIN_POINTS for a won game: it is worth more than
    the points that reach the target, and points beyond it are worth nothing."""
    target = int(row[TARGET])
    value = min(int(row[SCORE]), target) - min(int(row[SCORE + 1]), target)
    if row[PHASE] == OVER:
        value += WIN_POINTS if row[WINNER] == 0 else -WIN_POINTS
    return value


@jit(_nrt=False)
def minimax(row: State, saved: State, stack: NDArray[np.int64], no_log: State) -> int:
    """What the play comes to for seat 0, both playing the open cards as best they can: see :func:`final_value`.

    Alpha-beta search on the row itself, which is left as it was. ``saved`` (9, CARDS) int16 and ``stack`` (9, 4) int64
    are scratch space: a row for every depth.
    """
    depth = 0
    value = 0
    stack[0, _LOW] = -_BOUND
    stack[0, _HIGH] = _BOUND
    entering = True
    while True:
        node = stack[depth]
        if entering:
            if row[PHASE] == OVER or row[LAID] == 8:
                value = final_value(row)
                entering = False
                if depth == 0:
                    return value
                depth -= 1
                continue
            for i in range(_HEAD):
                saved[depth, i] = row[i]
            seat = int(row[PLAYER])
            node[_PLAYS] = _one_of_each_rank(row, seat, playable(row, seat))
            node[_BEST] = -_BOUND if seat == 0 else _BOUND
        else:  # back from a card, with its value
            for i in range(_HEAD):
                row[i] = saved[depth, i]
            if row[PLAYER] == 0:
                node[_BEST] = max(node[_BEST], value)
                node[_LOW] = max(node[_LOW], value)
            else:
                node[_BEST] = min(node[_BEST], value)
                node[_HIGH] = min(node[_HIGH], value)
        plays = node[_PLAYS]
        if plays == 0 or node[_LOW] >= node[_HIGH]:
            value = node[_BEST]
            entering = False
            if depth == 0:
                return value
            depth -= 1
            continue
        slot = 0
        while not plays >> slot & 1:
            slot += 1
        node[_PLAYS] = plays & ~(1 << slot)
        stack[depth + 1, _LOW] = node[_LOW]
        stack[depth + 1, _HIGH] = node[_HIGH]
        lay_card(row, slot, no_log)
        depth += 1
        entering = True


@jit
def _play_values(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observation: NDArray[np.uint8],
    mask: NDArray[np.int8],
    worlds: int,
    temperature: float,
    values: NDArray[np.float64],
) -> None:
    """Write the mean value of each legal play over the worlds to ``values`` ((19,) float64)."""
    kept = np.empty(4, np.uint8)
    thrown = np.empty(2, np.uint8)
    row = np.zeros(STATE_SIZE, np.int16)
    saved = np.empty((9, _HEAD), np.int16)
    stack = np.empty((9, 4), np.int64)
    no_log = np.empty((0, EVENT_SIZE), np.int16)

    # Worlds that differ in suits or in the cards thrown are the same in the play: solve each set of ranks once.
    hands = np.empty((worlds, 6), np.uint8)
    ranks = np.empty(worlds, np.int64)
    times = np.zeros(worlds, np.int64)
    different = 0
    draw_worlds(table, cribs, observation, temperature, hands)
    for world in range(worlds):
        split_six(hands[world], kept, thrown)
        name = 0
        for i in range(4):
            name = 13 * name + (kept[i] >> 2)
        known = 0
        while known < different and ranks[known] != name:
            known += 1
        if known == different:
            ranks[known] = name
            for i in range(6):
                hands[known, i] = hands[world, i]
            different += 1
        times[known] += 1

    wins_now = np.zeros(4, np.int64)  # worlds in which the card wins the game at once
    for slot in range(4):
        values[FIRST_PLAY + slot] = 0.0
    for world in range(different):
        split_six(hands[world], kept, thrown)
        write_state(observation, kept, thrown, row)
        for i in range(_HEAD):
            saved[8, i] = row[i]
        for slot in range(4):
            if mask[FIRST_PLAY + slot]:
                lay_card(row, slot, no_log)
                if row[PHASE] == OVER and row[WINNER] == 0:
                    wins_now[slot] += times[world]
                values[FIRST_PLAY + slot] += times[world] * minimax(row, saved, stack, no_log)
                for i in range(_HEAD):
                    row[i] = saved[8, i]
    for slot in range(4):
        values[FIRST_PLAY + slot] /= worlds
        if wins_now[slot] == worlds:  # rather than a win that the worlds promise for later
            values[FIRST_PLAY + slot] = _BOUND


@inline_jit
def best_play(
    row: State, plays: int, observation: NDArray[np.uint8], left: NDArray[np.int64], laid: NDArray[np.uint8]
) -> int:
    """Which of some playable slots, given as bits, ``expected`` lays for the seat to act (the lowest of equals).

    ``observation`` (OBSERVATION_SIZE,) uint8, ``left`` (13,) int64 and ``laid`` (10,) uint8 are scratch space.
    """
    seat = int(row[PLAYER])
    if not plays & (plays - 1):
        return int(plays > 1) + int(plays > 2) + int(plays > 4)
    write_observation(row, seat, observation)
    unseen_ranks(observation, left)
    best = 0
    best_value = -1000.0
    for slot in range(4):
        if plays >> slot & 1:
            value = play_value(observation, int(row[KEPT + 4 * seat + slot]), left, laid)
            if value > best_value + TIE:
                best_value = value
                best = slot
    return best


@inline_jit
def pair_action(row: State, thrown: NDArray[np.uint8]) -> int:
    """The discard action of seat 1 that throws the two given cards."""
    for action in range(NUM_DISCARDS):
        first = row[CARDS + 6 + PAIRS[action, 0]]
        second = row[CARDS + 6 + PAIRS[action, 1]]
        if first == thrown[0] and second == thrown[1]:
            return action
    return -1


@jit
def _pegging_values(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observation: NDArray[np.uint8],
    rollouts: int,
    candidates: NDArray[np.bool_],
    values: NDArray[np.float64],
) -> None:
    """Add to ``values`` of each candidate discard the mean difference of points in the play, by roll-outs.

    The opponent's six cards are drawn uniformly and thrown by the averages of ``expected``; both sides play as
    ``expected`` does. All candidates meet the same opponents and starters.
    """
    deck = np.empty(52, np.uint8)
    six = np.empty(6, np.uint8)
    kept = np.empty(4, np.uint8)
    thrown = np.empty(2, np.uint8)
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    opponent_values = np.empty(NUM_DISCARDS, np.float64)
    scratch = np.empty(OBSERVATION_SIZE, np.uint8)
    laid = np.empty(10, np.uint8)
    row = np.zeros(STATE_SIZE, np.int16)
    start = np.zeros(STATE_SIZE, np.int16)
    no_log = np.empty((0, EVENT_SIZE), np.int16)
    key = observation_key(observation)
    is_dealer = observation[AT_IS_DEALER] == 1
    _, unseen = unseen_cards(observation, 1, deck)
    for rollout in range(rollouts):
        draw = combine(key, rollout)
        for i in range(7):
            draw += np.uint64(1)
            j = i + below(draw, unseen - i)
            card = deck[i]
            deck[i] = deck[j]
            deck[j] = card
        for i in range(6):
            six[i] = deck[i]
        discard_values(table, cribs, six, not is_dealer, ranks_left, suits_left, opponent_values)
        choice = 0
        for action in range(1, NUM_DISCARDS):
            if opponent_values[action] > opponent_values[choice]:
                choice = action
        # the opponent's cards in the order that split_six takes: four kept, two thrown
        for i in range(4):
            six[i] = deck[KEPT_PLACES[choice, i]]
        for i in range(2):
            six[4 + i] = deck[PAIRS[choice, i]]
        split_six(six, kept, thrown)
        start[STARTER] = deck[6]
        write_state(observation, kept, thrown, start)
        for action in range(NUM_DISCARDS):
            if not candidates[action]:
                continue
            for i in range(STATE_SIZE):
                row[i] = start[i]
            apply(table, row, action, no_log)
            if not is_dealer:  # the opponent throws the same pair, by its places among the six sorted
                apply(table, row, pair_action(row, thrown), no_log)
            heels = int(row[SCORE]) - int(row[SCORE + 1])
            while row[PHASE] == PLAY and row[LAID] < 8:
                plays = playable(row, int(row[PLAYER]))
                lay_card(row, best_play(row, plays, scratch, ranks_left, laid), no_log)
            values[action] += (int(row[SCORE]) - int(row[SCORE + 1]) - heels) / rollouts


@jit
def _monte_carlo_policy(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    observations: Observations,
    masks: Masks,
    worlds: int,
    temperature: float,
    rollouts: int,
    policy: NDArray[np.float64],
) -> None:
    ranks_left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    values = np.empty(NUM_ACTIONS, np.float64)
    candidates = np.zeros(NUM_DISCARDS, np.bool_)
    mask = np.zeros(NUM_ACTIONS, np.int8)
    for i in range(observations.shape[0]):
        observation = observations[i]
        for action in range(NUM_ACTIONS):
            mask[action] = masks[i, action]
        if masks[i, 0]:
            cards = observation[AT_CARDS : AT_CARDS + 6]
            discard_values(table, cribs, cards, observation[AT_IS_DEALER] == 1, ranks_left, suits_left, values)
            if rollouts > 0:
                best = np.max(values[:NUM_DISCARDS])
                for action in range(NUM_DISCARDS):
                    candidates[action] = values[action] >= best - ROLLOUT_MARGIN
                    mask[action] = candidates[action]
                _pegging_values(table, cribs, observation, rollouts, candidates, values)
        else:
            legal = 0
            for action in range(FIRST_PLAY, NUM_ACTIONS):
                legal += masks[i, action]
                values[action] = 0.0
            if legal > 1:
                _play_values(table, cribs, observation, masks[i], worlds, temperature, values)
        best_actions(values, mask, policy[i])


class MonteCarloAgent(Agent):
    """Minimax in sampled worlds; see the module.

    Args:
        worlds: how many worlds a decision of the play is judged in.
        discard: ``expected`` (hand and crib averages) or ``rollout`` (these, plus what the kept hand brings in the play
            by roll-outs).
        rollouts: how many deals are played out for each discard that is worth it.
        crib: the table of crib averages, one of :data:`agents.discards.CRIB_TABLES`.
        temperature: of the opponent's supposed discards, in points (:mod:`agents.worlds`).
    """

    def __init__(
        self,
        worlds: int = 100,
        discard: str = "expected",
        rollouts: int = 400,
        crib: str = "schell",
        temperature: float = 0.5,
    ) -> None:
        super().__init__("monte_carlo")
        for option, number in (("worlds", worlds), ("rollouts", rollouts)):
            if not 1 <= number <= MAX_SAMPLES:
                raise AgentError(f"monte_carlo: {option} must lie between 1 and {MAX_SAMPLES:,}, got {number}")
        if discard not in ("expected", "rollout"):
            raise AgentError(f"monte_carlo: discard must be expected or rollout, got {discard!r}")
        if not temperature > 0:
            raise AgentError(f"monte_carlo: temperature must be positive, got {temperature}")
        self._table = show_table()
        self._cribs = crib_table(crib)
        self._worlds = worlds
        self._temperature = temperature
        self._rollouts = rollouts if discard == "rollout" else 0

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the actions of the greatest value; see :meth:`Agent.policy`."""
        policy = np.empty((len(observations), NUM_ACTIONS), np.float64)
        _monte_carlo_policy(
            self._table, self._cribs, np.ascontiguousarray(observations), np.ascontiguousarray(masks),
            self._worlds, self._temperature, self._rollouts, policy,
        )  # fmt: skip
        return policy
