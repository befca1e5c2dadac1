"""External sampling: deals in which a seat tries every action, for learners that need the value of each of them.

A deal is *traversed* once for each seat that learns. Discards are drawn, then the play begins. Where the traversing
seat has a choice, the state of the engine is copied for every rank that it may lay, and each copy goes on; where the
other seat has one, a card is drawn from its policy. So a decision gets a value for each of its actions, and their
differences come from the same cards and the same course of the game up to there (M. Lanctot et al., "Monte Carlo
sampling for regret minimization in extensive games", NIPS 2009).

Branches that the seat's own policy hardly enters are thinned: a decision whose own reach ``r`` (the probability that
the seat's choices lead to it) is below ``full_reach`` is only kept with probability ``r / full_reach``, and stands for
as many; where it is not kept, one action is drawn. In expectation nothing changes.

With ``tremble`` above zero the other seat sometimes plays at random. What the traversing seat decided before that is
not learned from, what it decides afterwards is: so it knows answers to plays that nobody makes on purpose. A decision
that none of ``n`` choices below it has trembled at, which is so with the chance ``(1 - tremble) ** n``, stands for as
many as that is rare: else deals with few choices would count for more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from agents.neural.choice import softmax_segments
from agents.neural.features import Candidates, play_candidates
from cribbage_env.engine import (
    BETWEEN,
    EVENT_SIZE,
    FIRST_PLAY,
    KEPT,
    NUM_ACTIONS,
    PHASE,
    PLAY,
    PLAYER,
    STATE_SIZE,
    State,
    apply,
    playable,
)
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import OBSERVATION_SIZE, write_mask, write_observation
from cribbage_env.scoring import show_table
from cribbage_env.streams import combine, unit
from experiments.training.league import League
from experiments.training.objective import Objective, end_value

MOST_PATHS = 24
"""Sequences of its own cards that a seat can try in a deal: 4!."""
_MOST_EDGES = 1 + 4 + 12 + 24 + 24  # of a traversal: its beginning, and an action of every decision

_DRAW, _KEEP, _TREMBLE, _CHILD = range(4)  # what is drawn from a path's key


@dataclass(frozen=True)
class Traversed:
    """The decisions of some traversals, with the value of every action."""

    features: NDArray[np.int32]
    """(R, K + 1): of all candidates, those of a decision next to each other."""
    known: NDArray[np.float32]
    """(R, k)"""
    values: NDArray[np.float32]
    """(R,): what the deal was worth to the traversing seat after the candidate, in points (:mod:`.objective`)."""
    first: NDArray[np.int64]
    """(S + 1,): decision s has the candidates ``first[s]`` up to ``first[s + 1]``."""
    weights: NDArray[np.float32]
    """(S,): how much each decision counts."""
    beginnings: NDArray[np.float64]
    """(T,): the value of each traversal at the beginning of the play."""
    weights_of_beginnings: NDArray[np.float64]
    """(T,): how much each of them counts; 0 if the other seat has trembled."""
    visited: int
    """How many decisions of both seats were made."""


Scores = Callable[[NDArray[np.int32], NDArray[np.float32]], NDArray[np.float64]]
"""Features (R, K + 1) and known points (R, k) of plays -> their logits (R,)."""


@dataclass(frozen=True)
class Sampling:
    """How deals are traversed, see the module.

    Args:
        full_reach: decisions of at least this reach are always kept.
        explore: the share of random play when a reach is worked out, so that no action is forgotten.
        tremble: how likely the other seat plays at random, at each of its decisions.
        scores: whether the network sees the scores.
    """

    full_reach: float
    explore: float
    tremble: float
    scores: bool


class _Paths:
    """Space for the present states of all paths."""

    def __init__(self, capacity: int) -> None:
        self.rows = np.zeros((capacity, STATE_SIZE), np.int16)
        self.seats = np.zeros(capacity, np.int8)  # that traverses
        self.edges = np.zeros(capacity, np.int64)  # whose value the path's end is
        self.reach = np.zeros(capacity)  # own, as in the module; 0 where no decision is kept any more
        self.keys = np.zeros(capacity, np.uint64)

    @property
    def all(self) -> tuple[State, NDArray[np.int8], NDArray[np.int64], NDArray[np.float64], NDArray[np.uint64]]:
        """In the order in which kernels take them."""
        return self.rows, self.seats, self.edges, self.reach, self.keys


@inline_jit
def _only_rank(row: State) -> int:
    """The first playable slot if all playable cards are of one rank, otherwise -1."""
    plays = playable(row, int(row[PLAYER]))
    at = KEPT + 4 * int(row[PLAYER])
    only = -1
    for slot in range(4):
        if plays >> slot & 1:
            if only < 0:
                only = slot
            elif row[at + slot] >> 2 != row[at + only] >> 2:
                return -1
    return only


@jit(_nrt=False)
def _settle(
    table: NDArray[np.int8],
    log: State,
    kind: int,
    board: NDArray[np.float64],
    n: int,
    rows: State,
    seats: NDArray[np.int8],
    edges: NDArray[np.int64],
    reach: NDArray[np.float64],
    keys: NDArray[np.uint64],
    values: NDArray[np.float64],
) -> int:
    """Play on to the next decision; paths that end give their edge its value and leave. Returns how many are left."""
    left = 0
    for i in range(n):
        while rows[i, PHASE] == PLAY:
            only = _only_rank(rows[i])
            if only < 0:
                break
            apply(table, rows[i], FIRST_PLAY + only, log)
        if rows[i, PHASE] >= BETWEEN:
            values[edges[i]] = end_value(rows[i], int(seats[i]), kind, board)
            continue
        if left < i:
            for j in range(STATE_SIZE):
                rows[left, j] = rows[i, j]
            seats[left] = seats[i]
            edges[left] = edges[i]
            reach[left] = reach[i]
            keys[left] = keys[i]
        left += 1
    return left


@jit(_nrt=False)
def show_states(n: int, rows: State, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> None:
    """Write what the seat to act sees in the first n states, and what it may do."""
    for i in range(n):
        seat = int(rows[i, PLAYER])
        write_observation(rows[i], seat, observations[i])
        write_mask(rows[i], seat, masks[i])


@inline_jit
def _follow(
    table: NDArray[np.int8],
    log: State,
    action: int,
    i: int,
    rows: State,
    seats: NDArray[np.int8],
    m: int,
    rows_to: State,
    seats_to: NDArray[np.int8],
) -> None:
    for j in range(STATE_SIZE):
        rows_to[m, j] = rows[i, j]
    apply(table, rows_to[m], action, log)
    seats_to[m] = seats[i]


@jit(_nrt=False)
def _branch(
    table: NDArray[np.int8],
    log: State,
    n: int,
    rows: State,
    seats: NDArray[np.int8],
    edges: NDArray[np.int64],
    reach: NDArray[np.float64],
    keys: NDArray[np.uint64],
    policy: NDArray[np.float64],
    actions: NDArray[np.int64],
    first: NDArray[np.int64],
    answers: NDArray[np.int64],
    full_reach: float,
    explore: float,
    tremble: float,
    next_edge: int,
    rows_to: State,
    seats_to: NDArray[np.int8],
    edges_to: NDArray[np.int64],
    reach_to: NDArray[np.float64],
    keys_to: NDArray[np.uint64],
    weights: NDArray[np.float64],
    voided: NDArray[np.bool_],
    chances: NDArray[np.int64],
) -> int:
    """Take the actions of a step, all of them where a decision is kept: then ``weights[i]`` is above zero, and its
    candidates are edges from ``next_edge`` on. Returns how many paths there are now."""
    m = 0
    for i in range(n):
        weights[i] = 0.0
        key = keys[i]
        if answers[i] >= 0:  # another agent's
            _follow(table, log, answers[i], i, rows, seats, m, rows_to, seats_to)
            edges_to[m] = edges[i]
            reach_to[m] = reach[i]
            keys_to[m] = combine(key, _CHILD)
            m += 1
            continue
        options = first[i + 1] - first[i]
        own = rows[i, PLAYER] == seats[i]
        if own and unit(combine(key, _KEEP)) * full_reach < reach[i]:
            weights[i] = max(reach[i], full_reach)
            for k in range(options):
                _follow(table, log, actions[first[i] + k], i, rows, seats, m, rows_to, seats_to)
                edges_to[m] = next_edge
                reach_to[m] = weights[i] * ((1.0 - explore) * policy[first[i] + k] + explore / options)
                keys_to[m] = combine(key, _CHILD + k)
                next_edge += 1
                m += 1
            continue
        drawn = unit(combine(key, _DRAW))
        pick = 0
        if not own:
            chances[edges[i]] += 1
        if not own and unit(combine(key, _TREMBLE)) < tremble:
            voided[edges[i]] = True
            pick = min(int(drawn * options), options - 1)
        else:
            passed = policy[first[i]]
            while pick < options - 1 and passed <= drawn:
                pick += 1
                passed += policy[first[i] + pick]
        _follow(table, log, actions[first[i] + pick], i, rows, seats, m, rows_to, seats_to)
        edges_to[m] = edges[i]
        reach_to[m] = 0.0 if own else reach[i]
        keys_to[m] = combine(key, _CHILD + pick)
        m += 1
    return m


@jit(_nrt=False)
def _back_up(
    first: NDArray[np.int64],
    edge: NDArray[np.int64],
    policy: NDArray[np.float64],
    roots: int,
    values: NDArray[np.float64],
    voided: NDArray[np.bool_],
    chances: NDArray[np.int64],
    valid: NDArray[np.bool_],
    below_decision: NDArray[np.int64],
) -> None:
    """Give every edge its value and how many chances to tremble there were from it on, last decisions first; decisions
    before a tremble are not valid."""
    for s in range(edge.shape[0] - 1, -1, -1):
        value = 0.0
        gone = False
        below = 0
        for r in range(first[s], first[s + 1]):
            value += policy[r] * values[roots + r]
            gone = gone or voided[roots + r]
            below += chances[roots + r]
        valid[s] = not gone
        values[edge[s]] = value
        chances[edge[s]] += below
        below_decision[s] = below
        voided[edge[s]] = voided[edge[s]] or gone


def candidate_bounds(candidates: Candidates, n: int) -> NDArray[np.int64]:
    """(n + 1,): observation i has the candidates from entry i up to entry i + 1."""
    return np.searchsorted(candidates.rows, np.arange(n + 1)).astype(np.int64)


def traverse(
    starts: State,
    seats: NDArray[np.integer],
    keys: NDArray[np.uint64],
    score: Scores,
    objective: Objective,
    sampling: Sampling,
    opponents: League | None = None,
    drawn: NDArray[np.integer] | None = None,
) -> Traversed:
    """Traverse T deals from the beginning of the play.

    Args:
        starts: (T, STATE_SIZE) states in the phase of the play.
        seats: (T,) which seat tries its actions.
        keys: (T,) all that is drawn follows from them.
        score: the learner's logits.
        objective: what the end of a deal is worth.
        sampling: see there.
        opponents: who plays the other seat, if not the learner itself.
        drawn: (T,) which of them; -1: the learner itself.
    """
    count = len(starts)
    now, after = _Paths(count * MOST_PATHS), _Paths(count * MOST_PATHS)
    now.rows[:count], now.seats[:count], now.keys[:count] = starts, seats, keys
    now.edges[:count] = np.arange(count)
    now.reach[:count] = 1.0
    values = np.zeros(count * _MOST_EDGES)
    voided = np.zeros(count * _MOST_EDGES, np.bool_)
    chances = np.zeros(count * _MOST_EDGES, np.int64)  # to tremble, on the way to an edge's end
    root = np.arange(count)  # of every edge: its traversal
    table, log = show_table(), np.zeros((0, EVENT_SIZE), np.int16)
    kept: list[tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float64]]] = []
    edges, weights, sizes = [], [], []
    next_edge, n, visited = count, count, 0
    while n := _settle(table, log, objective.kind, objective.board, n, *now.all, values):
        observations = np.empty((n, OBSERVATION_SIZE), np.uint8)
        masks = np.empty((n, NUM_ACTIONS), np.int8)
        show_states(n, now.rows, observations, masks)
        answers = np.full(n, -1, np.int64)
        if opponents is not None and drawn is not None:
            theirs = np.flatnonzero((now.rows[:n, PLAYER] != now.seats[:n]) & (drawn[root[now.edges[:n]]] >= 0))
            if len(theirs):
                answers[theirs] = opponents.act(
                    drawn[root[now.edges[theirs]]], observations[theirs], masks[theirs], now.keys[theirs]
                )
                masks[theirs] = 0
        candidates = play_candidates(observations, masks, sampling.scores)
        first = candidate_bounds(candidates, n)
        policy = score(candidates.features, candidates.known)
        softmax_segments(policy, first, 1.0, 0.0)
        weight = np.empty(n)
        m = _branch(
            table, log, n, *now.all, policy, candidates.actions, first, answers, sampling.full_reach, sampling.explore,
            sampling.tremble, next_edge, *after.all, weight, voided, chances,
        )  # fmt: skip
        those = np.flatnonzero(weight > 0)
        if len(those):
            size = np.diff(first)[those]
            picked = np.flatnonzero(np.repeat(weight > 0, np.diff(first)))
            kept.append((candidates.features[picked], candidates.known[picked], policy[picked]))
            edges.append(now.edges[those].copy())
            weights.append(weight[those])
            sizes.append(size)
            root = np.concatenate([root, np.repeat(root[edges[-1]], size)])
            next_edge += len(picked)
        visited += n
        now, after = after, now
        n = m
    if not kept:  # nobody had a choice
        nothing = play_candidates(
            np.zeros((0, OBSERVATION_SIZE), np.uint8), np.zeros((0, NUM_ACTIONS), np.int8), sampling.scores
        )
        kept, edges, weights, sizes = (
            [(nothing.features, nothing.known, np.zeros(0))],
            [np.zeros(0, np.int64)],
            [np.zeros(0)],
            [np.zeros(0, np.int64)],
        )
    features, known, policy = (np.concatenate(part) for part in zip(*kept, strict=True))
    bounds = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    edge = np.concatenate(edges)
    valid = np.zeros(len(edge), np.bool_)
    below = np.zeros(len(edge), np.int64)
    _back_up(bounds, edge, policy, count, values, voided, chances, valid, below)
    every = np.repeat(valid, np.diff(bounds))
    measure = objective.measure(starts)
    values = (values[:next_edge] - measure.before[root, np.asarray(seats)[root]]) / measure.unit[root]
    return Traversed(
        features[every],
        known[every],
        values[count:next_edge][every].astype(np.float32),
        np.concatenate([[0], np.cumsum(np.diff(bounds)[valid])]),
        (np.concatenate(weights)[valid] * (1.0 - sampling.tremble) ** -below[valid]).astype(np.float32),
        values[:count].copy(),
        ~voided[:count] * (1.0 - sampling.tremble) ** -np.where(voided[:count], 0, chances[:count]),
        visited,
    )
