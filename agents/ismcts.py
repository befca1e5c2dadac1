"""The agent ``ismcts``: information-set Monte Carlo tree search over the rest of the deal, discard and play.

Single-observer ISMCTS (Cowling, Powley and Whitehouse, "Information Set Monte Carlo Tree Search", IEEE Transactions on
Computational Intelligence and AI in Games 4(2), 2012). One tree is kept for what the observer sees: its edges are its
own actions and the cards that the opponent lays, by rank, since suits don't matter in the play. Each simulation draws a
world (:mod:`agents.worlds`), walks down the tree among the actions that are legal in this world by upper confidence
bounds, where an action counts the times it could have been taken instead of its parent's visits, adds one node, and
plays the deal out. What it comes to is credited to the nodes on the way. The opponent chooses from bounds too, with the
signs turned; its hidden discard is part of the world.

A simulation's value is the difference of points at the end of the deal, hands and crib included, scores stopping at the
target, plus :data:`agents.monte_carlo.WIN_POINTS` for a game that is over; or the chance to win from the scores at the
end of the deal, where a table of it is given. Most of that is luck of the show, which the tree has no part in, so the
points of the show in each world are taken out again as a control variate, ``value - slope * (show - mean show)``, the
slope being that of a regression over all simulations so far. In the discard the mean show of each action is known
exactly, and is where its node starts from (:func:`_choose_discard`).

Known weaknesses: the opponent in the tree learns to answer cards that it cannot see, and it is one and the same for
all that the observer may hold. More simulations make the agent stronger against opponents that don't adapt to it; they
don't bring it closer to an equilibrium.

The simulations are a function of the observation: the same position is always answered alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, Masks, Observations
from agents.discards import crib_table, discard_values
from agents.monte_carlo import MAX_SAMPLES, best_play, final_value, pair_action
from agents.registry import AgentError
from agents.worlds import draw_worlds, observation_key, split_six, unseen_cards
from cribbage_env.engine import (
    COUNT,
    DEALER,
    DISCARD,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    LAID,
    NUM_ACTIONS,
    NUM_DISCARDS,
    OVER,
    PHASE,
    PLAY,
    PLAYER,
    SCORE,
    STARTER,
    STATE_SIZE,
    TARGET,
    THROWN,
    WINNER,
    State,
    apply,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_CARDS,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LEFT,
    AT_PHASE,
    AT_TARGET,
    OBSERVATION_SIZE,
    write_state,
)
from cribbage_env.scoring import show_points, show_table
from cribbage_env.streams import below, combine, unit

ROLLOUTS = ("random", "expected")
OPPONENTS = ("search", "rollout")
CHOICES = ("most_visited", "proportional")

MAX_WORLDS = 2000
"""Worlds of a decision; with more simulations each serves several times."""

_RANDOM = ROLLOUTS.index("random")

# The tree: one row a node. Node 0 is the root, 1..15 are its children where it is a discard. The children of any other
# node are a list of siblings.
_CHILD, _SIBLING, _MOVE, _VISITS, _AVAILABLE, _NODE_SIZE = range(6)
_NONE = -1
_FIRST_FREE = 1 + NUM_DISCARDS
_MAX_PATH = 9  # a discard and eight cards

_VALUE, _SHOW, _TOTALS = range(3)  # sums over a node's visits

# Sums over the simulations of a decision, V being values and X shows (in a discard: less their mean), for the slope
_N, _V, _VV, _X, _XX, _VX, _MEANS, _SPREAD, _SUMS = range(9)  # _SPREAD is no sum, but the greatest so far
_WARM_UP = 16  # simulations before the sums are relied on
_FIRST_SPREAD = 3.0  # about the standard deviation of the points of a play
_LEAST_SPREAD = 0.5  # what looks alike in all simulations so far is still explored
_WIN_SLOPE = 0.02  # about what a point is worth in games won


@inline_jit
def _show_difference(table: NDArray[np.int8], row: State) -> int:
    """Points of the show for seat 0 minus those for seat 1, if all of it is counted."""
    starter = int(row[STARTER])
    difference = 0
    for seat in range(2):
        at = KEPT + 4 * seat
        hand = show_points(table, row[at], row[at + 1], row[at + 2], row[at + 3], starter, False)
        difference += hand if seat == 0 else -hand
    crib = show_points(table, row[THROWN], row[THROWN + 1], row[THROWN + 2], row[THROWN + 3], starter, True)
    return difference + (crib if row[DEALER] == 0 else -crib)


@inline_jit
def end_value(win_table: NDArray[np.float64], row: State) -> float:
    """What the end of the deal is worth to seat 0: points, or the chance to win if there is a table of it."""
    if win_table.shape[0] == 0:
        return float(final_value(row))
    if row[PHASE] == OVER:
        return 1.0 if row[WINNER] == 0 else 0.0
    ahead = win_table.shape[0] - int(row[TARGET])  # a game to less is a longer one that has begun
    return win_table[row[SCORE] + ahead, row[SCORE + 1] + ahead, row[DEALER]]  # seat 0 deals next after seat 1


@inline_jit
def _regression(sums: NDArray[np.float64], point: float) -> tuple[float, float, float]:
    """What a point of the show is worth, the mean show, and the spread of values once the show is taken out.

    The spread is the greatest standard deviation so far: a search that has settled down on one action must go on
    looking at others.

    ``point`` is what a point is worth for the first simulations.
    """
    n = sums[_N]
    if n < _WARM_UP:
        return point, sums[_X] / max(n, 1.0), _FIRST_SPREAD * point
    xx = sums[_XX] - sums[_X] * sums[_X] / n
    vx = sums[_VX] - sums[_V] * sums[_X] / n
    vv = sums[_VV] - sums[_V] * sums[_V] / n
    slope = vx / xx if xx > 0.0 else 0.0
    spread = max(math.sqrt(max(vv - slope * vx, 0.0) / n), _LEAST_SPREAD * point)
    sums[_SPREAD] = max(sums[_SPREAD], spread)
    return slope, sums[_X] / n, sums[_SPREAD]


@inline_jit
def _adjusted(totals: NDArray[np.float64], node: int, visits: int, slope: float, mean_show: float) -> float:
    """The sum of a node's values without the luck of the show."""
    return totals[node, _VALUE] - slope * (totals[node, _SHOW] - visits * mean_show)


@inline_jit
def _choose_discard(
    nodes: NDArray[np.int32],
    totals: NDArray[np.float64],
    sums: NDArray[np.float64],
    means: NDArray[np.float64],
    slope: float,
    mean_show: float,
    width: float,
    prior: float,
) -> int:
    """The discard with the greatest bound.

    Its value starts from ``prior`` imagined visits, in which the play brought as much as it did in all simulations so
    far, and the show its mean: hands differ in the play by less than a simulation's noise, so few visits say little.
    """
    n = sums[_N]
    mean_value = sums[_V] / n if n > 0.0 else 0.0
    mean = sums[_MEANS] / n if n > 0.0 else 0.0  # of ``means``, over the discards tried so far
    log = math.log(n + 1.0)
    best = 0
    best_bound = -np.inf
    for action in range(NUM_DISCARDS):
        visits = nodes[1 + action, _VISITS]
        weight = visits + prior
        value = _adjusted(totals, 1 + action, visits, slope, mean_show)
        value = (value + prior * (mean_value + slope * (means[action] - mean))) / weight
        bound = value + width * math.sqrt(log / weight)
        if bound > best_bound:
            best_bound = bound
            best = action
    return best


@inline_jit
def _rank_bits(row: State, seat: int, plays: int) -> int:
    """The ranks of some slots, as bits."""
    ranks = 0
    for slot in range(4):
        if plays >> slot & 1:
            ranks |= 1 << (row[KEPT + 4 * seat + slot] >> 2)
    return ranks


@inline_jit
def _slots_of(row: State, seat: int, plays: int, ranks: int) -> int:
    """Those of some slots, as bits, that hold a card of the given ranks."""
    slots = 0
    for slot in range(4):
        slots |= (plays >> slot & ranks >> (row[KEPT + 4 * seat + slot] >> 2) & 1) << slot
    return slots


@jit(_nrt=False)
def _rollout_slot(
    row: State,
    plays: int,
    rollout: int,
    key: int,
    observation: NDArray[np.uint8],
    left: NDArray[np.int64],
    laid: NDArray[np.uint8],
) -> int:
    """The slot, of those given as bits, that the roll-out policy lays. The arrays are scratch space."""
    if rollout != _RANDOM:
        return best_play(row, plays, observation, left, laid)
    best = 0
    best_draw = -1.0
    for slot in range(4):
        if plays >> slot & 1:
            draw = unit(key + np.uint64(slot))
            if draw > best_draw:
                best_draw = draw
                best = slot
    return best


@inline_jit
def _choose_child(
    nodes: NDArray[np.int32],
    totals: NDArray[np.float64],
    node: int,
    turn: int,
    ranks: int,
    slope: float,
    mean_show: float,
    width: float,
) -> tuple[int, int]:
    """The legal child with the greatest bound (or _NONE), and the legal ranks that have no child yet, as bits.

    A move in the play is (turn, rank), where ``turn`` tells what was seen before it: who lays the card, and whether it
    begins a count, which is to say, who said go.
    """
    missing = ranks
    best = _NONE
    best_bound = -np.inf
    child = nodes[node, _CHILD]
    while child != _NONE:
        move = nodes[child, _MOVE]
        rank = move & 15
        if move >> 4 == turn and ranks >> rank & 1:
            missing &= ~(1 << rank)
            nodes[child, _AVAILABLE] += 1
            visits = nodes[child, _VISITS]
            value = _adjusted(totals, child, visits, slope, mean_show) / visits
            if turn >= 2:
                value = -value
            bound = value + width * math.sqrt(math.log(nodes[child, _AVAILABLE]) / visits)
            if bound > best_bound:
                best_bound = bound
                best = child
        child = nodes[child, _SIBLING]
    return best, missing


@inline_jit
def _draw_starter(unseen: NDArray[np.uint8], num_unseen: int, six: NDArray[np.uint8], key: int) -> int:
    """A card that the observer has not seen and the opponent does not hold."""
    draw = np.uint64(key)
    while True:
        starter = unseen[below(draw, num_unseen)]
        held = False
        for i in range(6):
            held |= six[i] == starter
        if not held:
            return starter
        draw += np.uint64(1)


@inline_jit
def _clear(nodes: NDArray[np.int32], totals: NDArray[np.float64], node: int) -> None:
    nodes[node, _CHILD] = _NONE
    nodes[node, _SIBLING] = _NONE
    nodes[node, _VISITS] = 0
    nodes[node, _AVAILABLE] = 1
    totals[node, _VALUE] = 0.0
    totals[node, _SHOW] = 0.0


@jit(_nrt=False)
def _simulate(
    table: NDArray[np.int8],
    win_table: NDArray[np.float64],
    row: State,
    opponent_discard: int,
    means: NDArray[np.float64],
    exploration: float,
    prior: float,
    rollout: int,
    opponent_searches: bool,
    key: int,
    free: int,
    nodes: NDArray[np.int32],
    totals: NDArray[np.float64],
    sums: NDArray[np.float64],
    path: NDArray[np.int64],
    observation: NDArray[np.uint8],
    left: NDArray[np.int64],
    laid: NDArray[np.uint8],
    no_log: State,
) -> None:
    """One simulation, from a whole state whose seat 0 is the observer.

    Args:
        table: :func:`cribbage_env.scoring.show_table`.
        win_table: (T, T, 2) float64, see :class:`IsmctsAgent`; (0, 0, 2) for points.
        row: the state, played to the end of the deal.
        opponent_discard: what seat 1 discards if it has to.
        means: (15,) float64, the mean show of each discard, up to a number that they share; zeros in the play.
        exploration, prior, rollout, opponent_searches: the agent's settings.
        key: what random roll-outs are a function of.
        free: the number of the node that may be added.
        nodes, totals: the tree, for each node a row of int32 and one of float64.
        sums: (_SUMS,) float64, running sums over the simulations.
        path, observation, left, laid, no_log: scratch space.
    """
    point = 1.0 if win_table.shape[0] == 0 else _WIN_SLOPE
    slope, mean_show, spread = _regression(sums, point)
    width = exploration * spread
    mean = 0.0
    in_tree = True
    node = 0
    length = 0
    while row[PHASE] <= PLAY:
        seat = int(row[PLAYER])
        if row[PHASE] == DISCARD:
            action = opponent_discard
            if seat == 0:
                action = _choose_discard(nodes, totals, sums, means, slope, mean_show, width, prior)
                mean = means[action]
                node = 1 + action
                path[length] = node
                length += 1
        else:
            draw = key + np.uint64(8 * row[LAID])
            plays = playable(row, seat)
            if seat == 1 and not opponent_searches:
                plays = 1 << _rollout_slot(row, plays, rollout, draw, observation, left, laid)
            adding = False
            turn = 2 * seat + int(row[COUNT] == 0)
            if in_tree:
                ranks = _rank_bits(row, seat, plays)
                child, missing = _choose_child(nodes, totals, node, turn, ranks, slope, mean_show, width)
                adding = missing != 0
                plays = _slots_of(row, seat, plays, missing if adding else 1 << (nodes[child, _MOVE] & 15))
            slot = _rollout_slot(row, plays, rollout, draw, observation, left, laid)
            if adding:
                child = free
                _clear(nodes, totals, child)
                nodes[child, _MOVE] = turn << 4 | row[KEPT + 4 * seat + slot] >> 2
                nodes[child, _SIBLING] = nodes[node, _CHILD]
                nodes[node, _CHILD] = child
            if in_tree:
                node = child
                path[length] = node
                length += 1
                in_tree = not adding
            action = FIRST_PLAY + slot
        apply(table, row, action, no_log)

    value = end_value(win_table, row)
    show = _show_difference(table, row) - mean
    sums[_N] += 1.0
    sums[_V] += value
    sums[_VV] += value * value
    sums[_X] += show
    sums[_XX] += show * show
    sums[_VX] += value * show
    sums[_MEANS] += mean
    for i in range(length):
        nodes[path[i], _VISITS] += 1
        totals[path[i], _VALUE] += value
        totals[path[i], _SHOW] += show


@jit
def search(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    win_table: NDArray[np.float64],
    observation: NDArray[np.uint8],
    worlds: NDArray[np.uint8],
    simulations: int,
    exploration: float,
    prior: float,
    rollout: int,
    opponent_searches: bool,
    nodes: NDArray[np.int32],
    totals: NDArray[np.float64],
    visits: NDArray[np.int64],
) -> None:
    """Count how often each action was taken at the root in all simulations, to ``visits`` ((19,) int64).

    ``worlds`` is what :func:`agents.worlds.draw_worlds` wrote; they are taken in turn. ``nodes`` and ``totals`` are the
    memory of the tree, simulations + 16 rows; the other arguments are explained at :func:`_simulate`.
    """
    kept = np.empty(4, np.uint8)
    thrown = np.empty(2, np.uint8)
    unseen = np.empty(52, np.uint8)
    left = np.empty(13, np.int64)
    suits_left = np.empty(4, np.int64)
    laid = np.empty(10, np.uint8)
    path = np.empty(_MAX_PATH, np.int64)
    scratch = np.empty(OBSERVATION_SIZE, np.uint8)
    means = np.zeros(NUM_DISCARDS, np.float64)
    sums = np.zeros(_SUMS, np.float64)
    row = np.zeros(STATE_SIZE, np.int16)
    no_log = np.empty((0, EVENT_SIZE), np.int16)

    for node in range(_FIRST_FREE):
        _clear(nodes, totals, node)
    discard = observation[AT_PHASE] == DISCARD
    _, num_unseen = unseen_cards(observation, 1, unseen)
    if discard:
        cards = observation[AT_CARDS : AT_CARDS + 6]
        discard_values(table, cribs, cards, observation[AT_IS_DEALER] == 1, left, suits_left, means)
    key = combine(observation_key(observation), worlds.shape[0])
    opponent_discard = -1
    for simulation in range(simulations):
        six = worlds[simulation % worlds.shape[0]]
        split_six(six, kept, thrown)
        draw = combine(key, simulation)
        if discard:
            row[STARTER] = _draw_starter(unseen, num_unseen, six, combine(draw, 0))
        write_state(observation, kept, thrown, row)
        if discard:
            opponent_discard = pair_action(row, thrown)
        _simulate(
            table, win_table, row, opponent_discard, means, exploration, prior, rollout, opponent_searches, draw,
            _FIRST_FREE + simulation, nodes, totals, sums, path, scratch, left, laid, no_log,
        )  # fmt: skip

    visits[:] = 0
    if discard:
        for action in range(NUM_DISCARDS):
            visits[action] = nodes[1 + action, _VISITS]
    else:
        child = nodes[0, _CHILD]
        while child != _NONE:
            slot = 0
            while not (observation[AT_LEFT + slot] and observation[AT_KEPT + slot] >> 2 == nodes[child, _MOVE] & 15):
                slot += 1
            visits[FIRST_PLAY + slot] = nodes[child, _VISITS]
            child = nodes[child, _SIBLING]


@jit
def _visits(
    table: NDArray[np.int8],
    cribs: NDArray[np.float64],
    win_table: NDArray[np.float64],
    observations: Observations,
    masks: Masks,
    temperature: float,
    simulations: int,
    exploration: float,
    prior: float,
    rollout: int,
    opponent_searches: bool,
    visits: NDArray[np.int64],
) -> None:
    worlds = np.empty((min(simulations, MAX_WORLDS), 6), np.uint8)
    nodes = np.empty((simulations + _FIRST_FREE, _NODE_SIZE), np.int32)
    totals = np.empty((simulations + _FIRST_FREE, _TOTALS), np.float64)
    for i in range(observations.shape[0]):
        legal = 0
        for action in range(NUM_ACTIONS):
            legal += masks[i, action]
            visits[i, action] = masks[i, action] * simulations
        if legal > 1:
            draw_worlds(table, cribs, observations[i], temperature, worlds)
            search(
                table, cribs, win_table, observations[i], worlds, simulations, exploration, prior, rollout,
                opponent_searches, nodes, totals, visits[i],
            )  # fmt: skip


class IsmctsAgent(Agent):
    """Information-set Monte Carlo tree search; see the module.

    Args:
        simulations: how many a decision gets.
        exploration: the width of the confidence bounds, in standard deviations of the simulations' values.
        rollout: how a deal is played out from the tree: ``expected`` (as that agent plays) or ``random``. It is also
            the order in which a node's children are added.
        opponent: how the opponent plays in the tree: ``search`` (by bounds, for its own good) or ``rollout`` (as in
            roll-outs: the answer to a given opponent, easily exploited by others).
        choice: ``most_visited`` or ``proportional``, drawn by visits.
        prior: how many imagined visits a discard's average counts for.
        crib: the table of crib averages, one of :data:`agents.discards.CRIB_TABLES`.
        temperature: of the opponent's supposed discards, in points (:mod:`agents.worlds`).
        win_table: the chance to win at the end of a deal, by [own score, the other's score, whether oneself deals
            next], (T, T, 2) float64 for games to T, as an array or the path of an ``.npy`` file; a game to less than T
            is read from the table's end. None: points count, and a game that is over.

    Raises:
        AgentError: an option out of its range, a table that can't be read.
    """

    def __init__(
        self,
        simulations: int = 1000,
        exploration: float = 2.0,
        rollout: str = "expected",
        opponent: str = "search",
        choice: str = "most_visited",
        prior: float = 100.0,
        crib: str = "schell",
        temperature: float = 0.5,
        win_table: str | NDArray[np.float64] | None = None,
    ) -> None:
        super().__init__("ismcts")
        if not 1 <= simulations <= MAX_SAMPLES:
            raise AgentError(f"ismcts: simulations must lie between 1 and {MAX_SAMPLES:,}, got {simulations}")
        for option, number in (("exploration", exploration), ("prior", prior), ("temperature", temperature)):
            if not 0 < number < math.inf:
                raise AgentError(f"ismcts: {option} must be positive, got {number}")
        for option, name, names in (
            ("rollout", rollout, ROLLOUTS),
            ("opponent", opponent, OPPONENTS),
            ("choice", choice, CHOICES),
        ):
            if name not in names:
                raise AgentError(f"ismcts: {option} must be {' or '.join(names)}, got {name!r}")
        self._table = show_table()
        self._cribs = crib_table(crib)
        self._win_table = _checked_win_table(win_table)
        self._simulations = simulations
        self._exploration = float(exploration)
        self._rollout = ROLLOUTS.index(rollout)
        self._opponent_searches = opponent == "search"
        self._proportional = choice == "proportional"
        self._prior = float(prior)
        self._temperature = float(temperature)

    def visits(self, observations: Observations, masks: Masks) -> NDArray[np.int64]:
        """How often each action was taken in the simulations, (B, 19) int64; all of them where there is no choice.

        Two cards of a rank are alike in the play: the first has the visits of both.
        """
        observations = np.ascontiguousarray(observations)
        target = len(self._win_table)
        if target and len(observations) and observations[:, AT_TARGET].max() > target:
            raise AgentError(f"ismcts: win_table is for games to {target}, not to {observations[:, AT_TARGET].max()}")
        visits = np.empty((len(observations), NUM_ACTIONS), np.int64)
        _visits(
            self._table, self._cribs, self._win_table, observations, np.ascontiguousarray(masks), self._temperature,
            self._simulations, self._exploration, self._prior, self._rollout, self._opponent_searches, visits,
        )  # fmt: skip
        return visits

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """Equal probabilities for the most visited actions, or visits as proportions; see :meth:`Agent.policy`."""
        visits = self.visits(observations, masks)
        if not self._proportional:
            visits = (visits == visits.max(axis=1, keepdims=True)).astype(np.int64)
        return visits / visits.sum(axis=1, keepdims=True)


def _checked_win_table(given: str | NDArray[np.float64] | None) -> NDArray[np.float64]:
    """The table as (T, T, 2) float64, (0, 0, 2) for none."""
    if given is None:
        return np.zeros((0, 0, 2))
    try:
        table = np.asarray(np.load(given) if isinstance(given, str) else given, np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise AgentError(f"ismcts: win_table {given!r} can't be read as an .npy array of numbers: {error}") from error
    if table.ndim != 3 or table.shape[0] != table.shape[1] or table.shape[2] != 2 or not len(table):
        raise AgentError(f"ismcts: win_table must be (T, T, 2) for games to T, got {table.shape}")
    if not ((table >= 0) & (table <= 1)).all():
        raise AgentError("ismcts: win_table must hold chances, 0 to 1")
    return np.ascontiguousarray(table)
