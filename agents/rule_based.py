"""The agent ``rule_based``: the tips that players are taught, each of them a rule that can be switched off.

A rule looks at one action and answers with a number: how much of what the tip is about the action has (usually 0 or
1, or -1 for what one should avoid). Times the rule's weight, these are points; the agent takes the action with the
most points over all rules, ties at random. Nothing is averaged over hidden cards: every rule is what a person does at
the table. :meth:`RuleBasedAgent.rule_points` says what each rule thinks of each action.

Weights are in points of the game: a visible point counts 1. The others are those that ``cribbage analyse weights
--games 20000 --seed 1`` finds, coordinate search on duplicate deals against ``expected`` and this agent itself; those
of the two rules about the end of a game were set by hand. ``cribbage analyse rules`` measures what each rule is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.expected import best_actions
from agents.greedy import pair_points, points_now
from cribbage_env.cards import JACK, NO_CARD
from cribbage_env.engine import FIRST_PLAY, KEPT_PLACES, NUM_ACTIONS, NUM_DISCARDS, PAIRS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_CARDS,
    AT_COUNT,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LAID,
    AT_LAID_BY,
    AT_LEFT,
    AT_NUM_LAID,
    AT_OPPONENT_LEFT,
    AT_OPPONENT_SCORE,
    AT_SCORE,
    AT_TARGET,
    OWN,
)
from cribbage_env.scoring import MAX_COUNT, card_value, show_points, show_table

FOUR, FIVE, TEN = 3, 4, 9  # ranks
CLOSE_END = 9  # points that pone lacks when the next hands are likely to end the game


@inline_jit
def nearness(low: int, high: int) -> float:
    """1 for ranks that touch (7-8), 0.5 for one rank between them (7-9), otherwise 0."""
    apart = high - low
    return 1.0 if apart == 1 else 0.5 if apart == 2 else 0.0


# The discard. Ranks (0 ace .. 12 king) are in ascending order.


@inline_jit
def keep_points(kept_points: int) -> int:
    """Keep the points you can see: those of the four cards without the starter."""
    return kept_points


@inline_jit
def keep_touching(r0: int, r1: int, r2: int, r3: int) -> float:
    """Keep cards that touch or nearly do: the starter may make a run of them."""
    return nearness(r0, r1) + nearness(r1, r2) + nearness(r2, r3)


@inline_jit
def keep_low(low_kept: int) -> int:
    """Keep fours and lower: they peg."""
    return low_kept


@inline_jit
def feed_fives(own_crib: bool, fives: int) -> int:
    """Throw fives into your own crib."""
    return fives if own_crib else 0


@inline_jit
def feed_points(own_crib: bool, made: int) -> int:
    """Throw pairs and fifteens into your own crib, and twos of cards that make five (ace-four, two-three)."""
    return made if own_crib else 0


@inline_jit
def feed_touching(own_crib: bool, near: float) -> float:
    """Throw touching cards into your own crib (7-8, 2-3)."""
    return near if own_crib else 0.0


@inline_jit
def balk_fives(own_crib: bool, fives: int) -> int:
    """Never throw a five into the opponent's crib."""
    return 0 if own_crib else -fives


@inline_jit
def balk_points(own_crib: bool, made: int) -> int:
    """Throw no pair into the opponent's crib, no fifteen, and no two cards that make five."""
    return 0 if own_crib else -made


@inline_jit
def balk_wide(own_crib: bool, near: float) -> float:
    """Throw cards that lie wide apart into the opponent's crib."""
    return 0.0 if own_crib else -near


@inline_jit
def balk_suits(own_crib: bool, same_suit: bool) -> int:
    """Throw cards of different suits into the opponent's crib."""
    return int(not own_crib and not same_suit)


@inline_jit
def balk_high(own_crib: bool, high: int) -> int:
    """Throw tens, queens and kings into the opponent's crib: few runs have them. Keep jacks for nobs."""
    return 0 if own_crib else high


@inline_jit
def count_board(pone_lacks: int, low_kept: int) -> int:
    """Count the board: when the next hands may end the game, keep low cards, since what is pegged counts first."""
    return low_kept if pone_lacks <= CLOSE_END else 0


# The play. ``lead``: the card starts a new count. ``count``: the count after the card. ``answer``: the opponent may
# lay a card on it (it has cards, and has not said go). A card's ``value`` is what it adds to the count.


@inline_jit
def take_points(points: int) -> int:
    """Take the points you can see."""
    return points


@inline_jit
def take_win(points: int, lacks: int) -> bool:
    """Lay a card that wins the game, whatever else there is to say about it."""
    return points >= lacks


@inline_jit
def lead_low(lead: bool, value: int) -> bool:
    """Lead a four or lower: no card makes fifteen on it."""
    return lead and value <= 4


@inline_jit
def lead_pair(lead: bool, value: int, twins: int) -> bool:
    """Lead from a pair (no fives): a trap, whoever pairs the card is answered by pair royal."""
    return lead and twins > 0 and value != 5


@inline_jit
def lead_split_five(lead: bool, makes_five: bool) -> bool:
    """Lead one of two cards that make five: on most answers, a ten-card, the other makes fifteen."""
    return lead and makes_five


@inline_jit
def avoid_5_21(answer: bool, count: int) -> int:
    """Avoid a count of 5 or 21: the ten-cards, a third of the pack, make fifteen or thirty-one."""
    return -int(answer and (count == 5 or count == 21))


@inline_jit
def avoid_fifteen(answer: bool, lead: bool, count: int) -> int:
    """When answering a card, leave no fifteen to come: avoid counts from 5 to 14."""
    return -int(answer and not lead and 5 <= count <= 14)


@inline_jit
def leave_22_26(answer: bool, count: int) -> bool:
    """Leave a count from 22 to 26: ten-cards don't fit on it any more."""
    return answer and 22 <= count <= 26


@inline_jit
def leave_27_30(answer: bool, count: int) -> bool:
    """Leave a count from 27 to 30: only fours and lower fit on it."""
    return answer and 27 <= count <= 30


@inline_jit
def save_low(lead: bool, value: int, count: int) -> int:
    """Keep aces, twos and threes for the end of a count."""
    return -int(not lead and value <= 3 and count < 22)


@inline_jit
def high_early(lead: bool, value: int, count: int) -> float:
    """Play high cards early in a count: a tenth of the card's value."""
    return 0.1 * value if not lead and count <= 21 else 0.0


@inline_jit
def avoid_runs(answer: bool, near: float) -> float:
    """Lay no card that touches the last one, or nearly does: a third may make a run."""
    return -near if answer else 0.0


@inline_jit
def avoid_royal(answer: bool, pairs_last: bool, room: int, value: int) -> int:
    """Don't pair the last card while the count has room for a third one."""
    return -int(answer and pairs_last and value <= room)


@inline_jit
def set_trap(answer: bool, lead: bool, twins: int, room: int, value: int) -> bool:
    """Answer with one card of a pair while the count has room for two more: a trap as with a lead."""
    return answer and not lead and twins > 0 and 2 * value <= room


@dataclass(frozen=True)
class Rule:
    """A tip as a function, and what it counts for."""

    function: Callable[..., float]
    weight: float
    """Points for each 1 that the function answers."""
    phase: str
    """``discard`` or ``play``."""

    @property
    def name(self) -> str:
        """The name that switches the rule off in a spec: ``rule_based:no_<name>``."""
        name: str = self.function.__name__
        return name

    @property
    def tip(self) -> str:
        """The rule in words."""
        return str(self.function.__doc__)


# The places of the rules in RULES, and in arrays over all rules.
(
    KEEP_POINTS, KEEP_TOUCHING, KEEP_LOW, FEED_FIVES, FEED_POINTS, FEED_TOUCHING, BALK_FIVES, BALK_POINTS, BALK_WIDE,
    BALK_SUITS, BALK_HIGH, COUNT_BOARD, TAKE_POINTS, TAKE_WIN, LEAD_LOW, LEAD_PAIR, LEAD_SPLIT_FIVE, AVOID_5_21,
    AVOID_FIFTEEN, LEAVE_22_26, LEAVE_27_30, SAVE_LOW, HIGH_EARLY, AVOID_RUNS, AVOID_ROYAL, SET_TRAP,
) = range(26)  # fmt: skip

RULES = (
    Rule(keep_points, 1.0, "discard"),
    Rule(keep_touching, 0.5, "discard"),
    Rule(keep_low, 0.3, "discard"),
    Rule(feed_fives, 0.7, "discard"),
    Rule(feed_points, 0.8, "discard"),
    Rule(feed_touching, 0.9, "discard"),
    Rule(balk_fives, 1.7, "discard"),
    Rule(balk_points, 0.9, "discard"),
    Rule(balk_wide, 0.9, "discard"),
    Rule(balk_suits, 0.1, "discard"),
    Rule(balk_high, 0.9, "discard"),
    Rule(count_board, 1.0, "discard"),
    Rule(take_points, 1.0, "play"),
    Rule(take_win, 10.0, "play"),
    Rule(lead_low, 0.1, "play"),
    Rule(lead_pair, 0.5, "play"),
    Rule(lead_split_five, 0.5, "play"),
    Rule(avoid_5_21, 0.6, "play"),
    Rule(avoid_fifteen, 0.5, "play"),
    Rule(leave_22_26, 0.3, "play"),
    Rule(leave_27_30, 1.4, "play"),
    Rule(save_low, 0.1, "play"),
    Rule(high_early, 0.3, "play"),
    Rule(avoid_runs, 0.9, "play"),
    Rule(avoid_royal, 1.0, "play"),
    Rule(set_trap, 0.5, "play"),
)
RULE_NAMES = tuple(rule.name for rule in RULES)


@inline_jit
def _discard_answers(
    table: NDArray[np.int8], observation: NDArray[np.uint8], action: int, answers: NDArray[np.float64]
) -> None:
    """Write what the rules answer to a discard, at their places in ``answers`` (len(RULES),) float64."""
    own_crib = observation[AT_IS_DEALER] == 1
    # np.int64, since numba's int() leaves bytes unsigned, and differences would wrap around
    c0 = np.int64(observation[AT_CARDS + KEPT_PLACES[action, 0]])
    c1 = np.int64(observation[AT_CARDS + KEPT_PLACES[action, 1]])
    c2 = np.int64(observation[AT_CARDS + KEPT_PLACES[action, 2]])
    c3 = np.int64(observation[AT_CARDS + KEPT_PLACES[action, 3]])
    r0, r1, r2, r3 = c0 >> 2, c1 >> 2, c2 >> 2, c3 >> 2
    low_kept = int(r0 <= FOUR) + int(r1 <= FOUR) + int(r2 <= FOUR) + int(r3 <= FOUR)
    answers[KEEP_POINTS] = keep_points(show_points(table, c0, c1, c2, c3, NO_CARD, False))
    answers[KEEP_TOUCHING] = keep_touching(r0, r1, r2, r3)
    answers[KEEP_LOW] = keep_low(low_kept)

    first = np.int64(observation[AT_CARDS + PAIRS[action, 0]])
    second = np.int64(observation[AT_CARDS + PAIRS[action, 1]])
    low, high = first >> 2, second >> 2
    made = pair_points(table, first, second) + int(card_value(first) + card_value(second) == 5)
    fives = int(low == FIVE) + int(high == FIVE)
    near = nearness(low, high)
    answers[FEED_FIVES] = feed_fives(own_crib, fives)
    answers[FEED_POINTS] = feed_points(own_crib, made)
    answers[FEED_TOUCHING] = feed_touching(own_crib, near)
    answers[BALK_FIVES] = balk_fives(own_crib, fives)
    answers[BALK_POINTS] = balk_points(own_crib, made)
    answers[BALK_WIDE] = balk_wide(own_crib, near)
    answers[BALK_SUITS] = balk_suits(own_crib, first & 3 == second & 3)
    answers[BALK_HIGH] = balk_high(own_crib, int(low >= TEN and low != JACK) + int(high >= TEN and high != JACK))

    pone_score = np.int64(observation[AT_OPPONENT_SCORE if own_crib else AT_SCORE])
    answers[COUNT_BOARD] = count_board(np.int64(observation[AT_TARGET]) - pone_score, low_kept)


@inline_jit
def _play_answers(
    observation: NDArray[np.uint8], slot: int, laid: NDArray[np.uint8], answers: NDArray[np.float64]
) -> None:
    """Write what the rules answer to playing the kept card ``slot``, at their places in ``answers``.

    ``laid`` is scratch space, (9,) uint8.
    """
    card = np.int64(observation[AT_KEPT + slot])
    value = np.int64(card_value(card))
    count = np.int64(observation[AT_COUNT]) + value
    room = MAX_COUNT - count
    num_laid = np.int64(observation[AT_NUM_LAID])
    first = count == value
    # The opponent would have answered the last card if it could.
    answer = observation[AT_OPPONENT_LEFT] > 0 and (first or observation[AT_LAID_BY + num_laid - 1] != OWN)
    lead = first and answer  # alone, a new count is no lead
    twins = 0  # other cards of the rank in the own hand
    makes_five = False
    for other in range(4):
        if other != slot and observation[AT_LEFT + other]:
            held = np.int64(observation[AT_KEPT + other])
            twins += int(held >> 2 == card >> 2)
            makes_five = makes_five or card_value(held) + value == 5
    last = card if first else np.int64(observation[AT_LAID + num_laid - 1])
    apart = abs((card >> 2) - (last >> 2))

    points = points_now(observation, card, laid)
    lacks = np.int64(observation[AT_TARGET]) - np.int64(observation[AT_SCORE])
    answers[TAKE_POINTS] = take_points(points)
    answers[TAKE_WIN] = take_win(points, lacks)
    answers[LEAD_LOW] = lead_low(lead, value)
    answers[LEAD_PAIR] = lead_pair(lead, value, twins)
    answers[LEAD_SPLIT_FIVE] = lead_split_five(lead, makes_five)
    answers[AVOID_5_21] = avoid_5_21(answer, count)
    answers[AVOID_FIFTEEN] = avoid_fifteen(answer, lead, count)
    answers[LEAVE_22_26] = leave_22_26(answer, count)
    answers[LEAVE_27_30] = leave_27_30(answer, count)
    answers[SAVE_LOW] = save_low(lead, value, count)
    answers[HIGH_EARLY] = high_early(lead, value, count)
    answers[AVOID_RUNS] = avoid_runs(answer, nearness(0, apart))
    answers[AVOID_ROYAL] = avoid_royal(answer, not first and apart == 0, room, value)
    answers[SET_TRAP] = set_trap(answer, lead, twins, room, value)


@jit
def _rules_policy(
    table: NDArray[np.int8],
    weights: NDArray[np.float64],
    observations: Observations,
    masks: Masks,
    policy: NDArray[np.float64],
    points: NDArray[np.float64],
) -> None:
    """Fill ``policy`` (B, 19), and ``points`` (B, 19, len(RULES)) unless that has no rows."""
    laid = np.empty(9, np.uint8)
    answers = np.empty(len(weights), np.float64)
    values = np.empty(NUM_ACTIONS, np.float64)
    for i in range(observations.shape[0]):
        observation = observations[i]
        for action in range(NUM_ACTIONS):
            if masks[i, action]:
                answers[:] = 0.0
                if action < NUM_DISCARDS:
                    _discard_answers(table, observation, action, answers)
                else:
                    _play_answers(observation, action - FIRST_PLAY, laid, answers)
                values[action] = 0.0
                for rule in range(len(weights)):
                    values[action] += weights[rule] * answers[rule]
                    if points.shape[0] > 0:
                        points[i, action, rule] = weights[rule] * answers[rule]
        best_actions(values, masks[i], policy[i])


class RuleBasedAgent(Agent):
    """Plays by :data:`RULES`; each argument is a rule's switch.

    A rule that is switched off has no say; all others keep their weights.
    """

    def __init__(
        self,
        keep_points: bool = True,
        keep_touching: bool = True,
        keep_low: bool = True,
        feed_fives: bool = True,
        feed_points: bool = True,
        feed_touching: bool = True,
        balk_fives: bool = True,
        balk_points: bool = True,
        balk_wide: bool = True,
        balk_suits: bool = True,
        balk_high: bool = True,
        count_board: bool = True,
        take_points: bool = True,
        take_win: bool = True,
        lead_low: bool = True,
        lead_pair: bool = True,
        lead_split_five: bool = True,
        avoid_5_21: bool = True,
        avoid_fifteen: bool = True,
        leave_22_26: bool = True,
        leave_27_30: bool = True,
        save_low: bool = True,
        high_early: bool = True,
        avoid_runs: bool = True,
        avoid_royal: bool = True,
        set_trap: bool = True,
    ) -> None:
        switches = locals()  # each argument by its name, which is its rule's
        super().__init__("rule_based")
        self._table = show_table()
        self.weights: NDArray[np.float64] = np.array([rule.weight * bool(switches[rule.name]) for rule in RULES])
        """(len(RULES),) float64: what each rule counts for, in points; 0 for rules that are switched off."""

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the actions with the most points; see :meth:`Agent.policy`."""
        policy, _ = self._judge(observations, masks, explain=False)
        return policy

    def rule_points(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """What each rule thinks of each action.

        Args:
            observations, masks: see :meth:`Agent.policy`.

        Returns:
            (B, 19, len(RULES)) float64 in points, the last axis in the order of :data:`RULE_NAMES`; 0 for illegal
            actions. The agent takes the legal action with the greatest sum over the rules.
        """
        _, points = self._judge(observations, masks, explain=True)
        return points

    def action_values(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """What all rules together think of each action, (B, 19) float64 in points, NaN for illegal actions."""
        return np.where(masks == 1, self.rule_points(observations, masks).sum(axis=2), np.nan)

    def _judge(
        self, observations: Observations, masks: Masks, explain: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        policy = np.empty((len(observations), NUM_ACTIONS), np.float64)
        points = np.zeros((len(observations) if explain else 0, NUM_ACTIONS, len(RULES)), np.float64)
        _rules_policy(
            self._table,
            self.weights,
            np.ascontiguousarray(observations),
            np.ascontiguousarray(masks),
            policy,
            points,
        )
        return policy, points
