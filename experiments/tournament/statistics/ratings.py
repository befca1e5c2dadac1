"""Ratings of a pool of agents: the Bradley-Terry model, fitted by maximum likelihood.

An agent with rating r wins 1 / (1 + 10^((s - r) / 400)) of its games against one with rating s (R. A. Bradley, M. E.
Terry, "Rank analysis of incomplete block designs", Biometrika 39, 1952; the scale is Elo's). Ratings are differences:
one agent, the anchor, is given a value. They sum a pool up well where strength is transitive; where A beats B, B beats
C and C beats A, they cannot.

Half a won game is added to both sides of every match. It takes away most of the bias of small samples (J. B. S.
Haldane, F. J. Anscombe, both 1956, for a log-odds), and keeps agents finite that won or lost everything. Such an
agent's rating is held by nothing else; its interval is unbounded on that side.

Intervals are percentiles of the bootstrap over pairs: in every match pairs are drawn anew with replacement, which keeps
the dependence of a pair's two games, and the ratings fitted again. Drawing from pairs that all ended alike would always
give the same; there half a pair of each outcome is added before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.tournament.statistics.intervals import CONFIDENCE, Estimate

RESAMPLES = 1000

_ELO = 400 / math.log(10)  # points a unit of log-odds
_ADDED = 0.5  # won games, to each side of a match
_STEPS = 100  # of Newton's method at most
_PRECISION = 1e-9  # of log-odds
_LONGEST = 2.0  # change of a rating in one step, as log-odds


class MatchResult(NamedTuple):
    """The pairs of a match between two agents, by what the first of them won; the same two may have several."""

    a: str
    b: str
    both: int
    one: int
    none: int


class Rating(NamedTuple):
    """An agent's rating in Elo points."""

    name: str
    rating: Estimate  # infinite limits where results say nothing: an agent that won or lost everything
    pairs: int  # that it played


def bradley_terry(
    results: Sequence[MatchResult],
    anchor: str | None = None,
    anchor_rating: float = 0.0,
    *,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[Rating]:
    """The ratings of all agents that have played, the best first.

    Not everyone needs to have met everyone, but the matches must connect all agents.

    Args:
        results: of the matches.
        anchor: the agent with the given rating, None for the first one.
        anchor_rating: its rating, which has no error: the others' are relative to it.
        confidence: of the intervals.
        resamples: of the bootstrap; 1,000 give limits to a few hundredths of the interval's width.
        seed: of the bootstrap.

    Raises:
        ValueError: no pairs, a match of an agent with itself, negative counts, an anchor that did not play, or agents
            that no matches connect.
    """
    played = [result for result in results if _pairs(result)]
    names = _names(played)
    if anchor is None:
        anchor = names[0]
    if anchor not in names:
        raise ValueError(f"the anchor {anchor!r} has no games; there are {', '.join(names)}")
    place = {name: i for i, name in enumerate(names)}
    sides = np.array([(place[result.a], place[result.b]) for result in played])
    counts = np.array([result[2:] for result in played], np.int64)
    _check_connected(names, sides)

    ratings = _fit(len(names), sides, counts)
    drawn = _fit(len(names), sides, _resampled(counts, resamples, seed))
    ratings, drawn = (one - one[..., [place[anchor]]] for one in (ratings, drawn))
    tail = (1 - confidence) / 2
    lows, highs = np.quantile(drawn, [tail, 1 - tail], axis=0)
    below, above = _bounded(len(names), sides, counts, place[anchor])
    lows[~below], highs[~above] = -math.inf, math.inf
    pairs = np.bincount(sides.ravel(), np.repeat(counts.sum(axis=1), 2), len(names))
    table = [
        Rating(
            name, Estimate(*(float(anchor_rating + _ELO * part[i]) for part in (ratings, lows, highs))), int(pairs[i])
        )
        for i, name in enumerate(names)
    ]
    return sorted(table, key=lambda row: -row.rating.value)


def _pairs(result: MatchResult) -> int:
    if min(result[2:]) < 0:
        raise ValueError(f"counts of pairs can't be negative, got {', '.join(map(str, result[2:]))} of {result.a!r}")
    if result.a == result.b:
        raise ValueError(f"a match of {result.a!r} with itself says nothing of ratings")
    return sum(result[2:])


def _names(played: Sequence[MatchResult]) -> list[str]:
    """The agents, in the order in which they appear."""
    names = list(dict.fromkeys(name for result in played for name in (result.a, result.b)))
    if not names:
        raise ValueError("ratings need games, there are none")
    return names


def _fit(agents: int, sides: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """The most likely ratings (..., N) as log-odds with sum 0, by Newton's method.

    Args:
        agents: N.
        sides: (M, 2) who plays the match.
        counts: (..., M, 3) pairs in which the first side won both games, one, none.
    """
    wins = counts @ np.array([2.0, 1.0, 0.0]) + _ADDED
    games = 2.0 * counts.sum(axis=-1) + 2 * _ADDED
    contrasts = np.zeros((len(sides), agents))  # a match's row takes ratings to their difference
    matches = np.arange(len(sides))
    contrasts[matches, sides[:, 0]] = 1
    contrasts[matches, sides[:, 1]] = -1
    ratings = np.zeros((*wins.shape[:-1], agents))
    for _ in range(_STEPS):
        chances = 1 / (1 + np.exp(-(ratings @ contrasts.T)))
        gradient = (wins - games * chances) @ contrasts
        weights = games * chances * (1 - chances)
        # The information has no inverse, since only differences count; with a constant added, the sum stays 0.
        information = np.einsum("...m,mi,mj->...ij", weights, contrasts, contrasts, optimize=True) + 1.0
        step = np.linalg.solve(information, gradient[..., None])[..., 0]
        longest = np.abs(step).max(axis=-1, keepdims=True)
        ratings = ratings + step * np.minimum(1, _LONGEST / np.maximum(longest, 1e-300))
        if longest.max() < _PRECISION:
            break
    return ratings


def _resampled(counts: NDArray[np.int64], resamples: int, seed: int) -> NDArray[np.int64]:
    """Counts (R, M, 3) of pairs drawn with replacement from those of each match (M, 3)."""
    generator = np.random.default_rng(seed)
    smooth = np.where((counts > 0).sum(axis=1, keepdims=True) == 1, counts + 0.5, counts.astype(np.float64))
    shares = smooth / smooth.sum(axis=1, keepdims=True)
    pairs = counts.sum(axis=1)
    return generator.multinomial(pairs, shares, (resamples, len(counts)))


def _check_connected(names: Sequence[str], sides: NDArray[np.int64]) -> None:
    met = np.zeros((len(names), len(names)), np.bool_)
    met[sides[:, 0], sides[:, 1]] = met[sides[:, 1], sides[:, 0]] = True
    apart = np.flatnonzero(~_reach(met)[0])
    if len(apart):
        raise ValueError(f"no matches connect {names[apart[0]]!r} with {names[0]!r}: ratings can't compare them")


def _bounded(
    agents: int, sides: NDArray[np.int64], counts: NDArray[np.int64], anchor: int
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which ratings, relative to the anchor's, the results bound from below, and from above.

    An agent is bounded from below if it beat the anchor, or someone who did, and so on (L. R. Ford, "Solution of a
    ranking problem from binary comparisons", American Mathematical Monthly 64, 1957).
    """
    beat = np.zeros((agents, agents), np.bool_)
    won, lost = 2 * counts[:, 0] + counts[:, 1] > 0, counts[:, 1] + 2 * counts[:, 2] > 0
    beat[sides[won, 0], sides[won, 1]] = True
    beat[sides[lost, 1], sides[lost, 0]] = True
    reach = _reach(beat)
    return reach[:, anchor], reach[anchor, :]


def _reach(edges: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a path of edges leads, every node to itself included."""
    reach = edges | np.eye(len(edges), dtype=np.bool_)
    for _ in range(max(1, len(edges).bit_length())):  # the length of the paths doubles
        reach = reach @ reach
    return reach
