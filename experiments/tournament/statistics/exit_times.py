"""When, and through which bound, a random walk leaves an interval: what a sequential test's outcome is worth.

The walk has independent normal steps and is looked at after every step. Its density between the bounds is carried
from look to look by numerical integration (P. Armitage, C. K. McPherson, B. C. Rowe, "Repeated significance tests on
accumulating data", Journal of the Royal Statistical Society A 132, 1969; C. Jennison, B. W. Turnbull, "Group
sequential methods", 2000, chapter 19). All terms are positive, so nothing cancels, however strong the drift.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

_NODES = 192  # of the integration between the bounds
_FINEST = 1 / 90  # the least standard deviation of a step, in widths of the interval, that so many nodes resolve
_COARSEST = 1 / 15  # and the largest that finer steps are taken together to
_STEPS = 64  # that are enough, within these
_CORRECTION = 0.5826  # -zeta(1/2) / sqrt(2 pi)


def probability_of_less(
    time: float,
    position: float,
    *,
    drift: float,
    variance: float,
    lower: float,
    upper: float,
    step: float,
) -> float:
    """The probability that a walk ends lower than one which ended at that time and position.

    Ends are ordered: through the lower bound, the earlier the lower; still inside at the last look, by position;
    through the upper bound, the later the lower.

    Steps too fine for the integration are taken together. The bounds are then moved inwards so that the walk leaves
    when it would have: looks with steps of standard deviation s act on a Brownian motion like bounds 0.583 s further
    out (D. Siegmund, "Sequential analysis", 1985, section 10.4).

    Args:
        time: of the end.
        position: at the end. The walk began at 0 and time 0.
        drift: a unit of time.
        variance: a unit of time, positive.
        lower, upper: the bounds, below and above 0.
        step: time between looks.
    """
    from scipy.special import ndtr

    finest, coarsest = ((part * (upper - lower)) ** 2 / variance for part in (_FINEST, _COARSEST))
    together = min(max(time / _STEPS, finest), coarsest)
    if step < together:
        moved = _CORRECTION * math.sqrt(variance) * (math.sqrt(together) - math.sqrt(step))
        step, lower, upper = together, lower + moved, upper - moved

    steps = max(0, math.floor(time / step) - 1)  # after the first look, which is at least a step away
    first = time - steps * step
    deviation, first_deviation = math.sqrt(variance * step), math.sqrt(variance * first)
    if steps == 0:
        return float(ndtr((position - drift * first) / first_deviation))

    nodes, weights = _gauss_legendre()
    nodes = (lower + upper) / 2 + (upper - lower) / 2 * nodes
    weights = (upper - lower) / 2 * weights
    walks = weights * _normal(nodes - drift * first, first_deviation)  # at the first look: those that go on, by node
    onwards = weights * _normal(nodes[None, :] - nodes[:, None] - drift * step, deviation)  # from row to column
    leaves = ndtr((lower - nodes - drift * step) / deviation)  # through the lower bound at the next look
    less = float(ndtr((lower - drift * first) / first_deviation))
    for _ in range(steps - 1):
        less += float(walks @ leaves)
        walks = walks @ onwards
    return less + float(walks @ ndtr((position - nodes - drift * step) / deviation))


@cache
def _gauss_legendre() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights for integrals from -1 to 1."""
    return np.polynomial.legendre.leggauss(_NODES)


def _normal(distances: NDArray[np.float64], deviation: float) -> NDArray[np.float64]:
    """The density of a normal distribution at distances from its mean."""
    return np.asarray(np.exp(-0.5 * (distances / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi)))
