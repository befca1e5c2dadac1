"""What a position between two deals is worth: both scores, and who deals next.

A deal only matters by the points that fall in it and their order, since the game stops at the target. Of many deals
(an agent's against itself) three tables of counts, :class:`DealOutcomes`, keep all that matters, for every position of
every target at once:

* how often the dealer and pone made so many points in a whole deal;
* how often the dealer had come to at least ``a`` points at a moment when pone had ``p``;
* and pone at least ``b`` when the dealer had ``d``.

From a position in which the dealer lacks ``a`` points and pone lacks ``b``, the dealer wins in this deal if it comes to
``a`` while pone has fewer than ``b``; pone likewise; and otherwise the other player deals at higher scores. So the
values of all positions follow by dynamic programming from high scores to low (:func:`solve_board`), exactly, given
the outcomes. ``cribbage analyse board`` samples the outcomes of an agent; those of ``expected`` are shipped.
"""

from __future__ import annotations

import functools
import json
import zipfile
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from agents.registry import AgentError
from cribbage_env.engine import FORFEIT, OVER, PHASE, SCORE, STATE_SIZE, WINNER, new_game, rule_numbers
from cribbage_env.jit import inline_jit, jit
from cribbage_env.options import REWARDS
from cribbage_env.rules import Rules
from cribbage_env.vector_env import game_value

MOST_POINTS = 96
"""More points than a player can make in a deal."""

BoardReward = Literal["win", "game_points", "one_two"]
"""Rewards of ``cribbage_env.options`` that are paid at a game's end."""

BOARD_REWARDS: tuple[BoardReward, ...] = get_args(BoardReward)

_FORMAT = 1  # of the files
_SHIPPED = "board_expected.npz"  # in agents/data; board.npz of `cribbage analyse board expected --deals 4000000`


@dataclass(frozen=True)
class DealOutcomes:
    """Counts of how deals came out, (MOST_POINTS, MOST_POINTS) int64 each."""

    totals: NDArray[np.int64]
    """[d, p]: deals in which the dealer made d points and pone p."""
    dealer_first: NDArray[np.int64]
    """[a, p]: deals in which pone had p points when the dealer came to a points or more (a >= 1)."""
    pone_first: NDArray[np.int64]
    """[b, d]: deals in which the dealer had d points when pone came to b points or more (b >= 1)."""

    @classmethod
    def none(cls) -> DealOutcomes:
        """No deals."""
        return cls(*(np.zeros((MOST_POINTS, MOST_POINTS), np.int64) for _ in range(3)))

    @property
    def deals(self) -> int:
        """How many deals were counted."""
        return int(self.totals.sum())

    @property
    def mean_points(self) -> tuple[float, float]:
        """Mean points a deal of the dealer and of pone."""
        points = np.arange(MOST_POINTS)
        return (
            float(self.totals.sum(axis=1) @ points / self.totals.sum()),
            float(self.totals.sum(axis=0) @ points / self.totals.sum()),
        )


@inline_jit
def count_event(first: NDArray[np.int64], own: int, points: int, other: int, deals: int) -> None:
    """Count in ``first`` that a player with ``own`` points in the deal made ``points`` more while the other had
    ``other``, in so many deals."""
    for reached in range(own + 1, own + points + 1):
        first[reached, other] += deals


@jit
def _solve(
    totals: NDArray[np.float64],
    dealer_first: NDArray[np.float64],
    pone_first: NDArray[np.float64],
    payoffs: NDArray[np.float64],
    values: NDArray[np.float64],
) -> None:
    """Fill in ``values`` (T, T) from shares of deals, by descending sum of the scores: no deal is without points."""
    target = values.shape[0]
    most = totals.shape[0]
    for both in range(2 * target - 2, -1, -1):
        for dealer in range(max(0, both - target + 1), min(target - 1, both) + 1):
            pone = both - dealer
            dealer_lacks = target - dealer
            pone_lacks = target - pone
            value = 0.0
            if dealer_lacks < most:
                for p in range(min(pone_lacks, most)):
                    value += dealer_first[dealer_lacks, p] * payoffs[pone + p]
            if pone_lacks < most:
                for d in range(min(dealer_lacks, most)):
                    value -= pone_first[pone_lacks, d] * payoffs[dealer + d]
            for d in range(min(dealer_lacks, most)):
                for p in range(min(pone_lacks, most)):
                    if totals[d, p] > 0.0:  # the other player deals next
                        value -= totals[d, p] * values[pone + p, dealer + d]
            values[dealer, pone] = value


def payoffs(rules: Rules, reward: BoardReward = "win") -> NDArray[np.float64]:
    """What a win pays under a reward, (target,) float64 by the loser's score."""
    if reward not in BOARD_REWARDS:
        raise ValueError(f"reward must be one of {', '.join(BOARD_REWARDS)}, got {reward!r}")
    row = np.zeros(STATE_SIZE, np.int16)
    new_game(row, *rule_numbers(rules), 0, 0, 0)
    row[PHASE], row[WINNER], row[FORFEIT], row[SCORE] = OVER, 0, -1, rules.target
    paid = np.empty(rules.target)
    for score in range(rules.target):
        row[SCORE + 1] = score
        paid[score] = game_value(row, REWARDS.index(reward))
    return paid


def solve_board(outcomes: DealOutcomes, rules: Rules | None = None, reward: BoardReward = "win") -> NDArray[np.float64]:
    """The dealer's value of every position before a deal.

    Args:
        outcomes: of at least one deal.
        rules: of the games; None for the standard ones.
        reward: what the end of a game pays; zero-sum, as in the environments.

    Returns:
        (target, target) float64, [dealer's score, pone's score]: the mean reward of the dealer. With ``win`` that is
        the chance to win minus the chance to lose.
    """
    rules = Rules() if rules is None else rules
    deals = outcomes.deals
    if deals < 1:
        raise ValueError("there are no deals to work out a board from")
    values = np.zeros((rules.target, rules.target))
    shares = (table / deals for table in (outcomes.totals, outcomes.dealer_first, outcomes.pone_first))
    _solve(*shares, payoffs(rules, reward), values)
    return values


@dataclass(frozen=True)
class BoardTable:
    """The values of all positions between deals, between two players who both play like an agent."""

    dealer: NDArray[np.float64]
    """(target, target) float64, [dealer's score, pone's score]: the mean reward of the dealer, before a deal."""
    errors: NDArray[np.float64]
    """(target, target) float64: their standard errors, over the deals sampled."""
    rules: Rules
    reward: BoardReward
    agent: str
    """The spec of the agent whose deals they come from."""
    seed: int
    outcomes: DealOutcomes
    made_with: dict[str, Any]
    """Versions, and what else is to be known about how it was made."""

    def value(self, own: Any, other: Any, own_deal: Any) -> NDArray[np.float64]:
        """The mean reward of a player with score ``own`` against ``other``, who deals next if ``own_deal``.

        Arguments are arrays or numbers that broadcast; scores below the target. Zero-sum: what one player gets the
        other loses.
        """
        own, other, own_deal = np.broadcast_arrays(own, other, own_deal)
        return np.where(own_deal, self.dealer[own, other], -self.dealer[other, own])

    def chance(self, own: Any, other: Any, own_deal: Any) -> NDArray[np.float64]:
        """The chance to win, likewise; for tables of the reward ``win``."""
        if self.reward != "win":
            raise ValueError(f"a table of the reward {self.reward!r} has no chances to win")
        return (1 + self.value(own, other, own_deal)) / 2

    def solved_for(self, rules: Rules, reward: BoardReward = "win") -> NDArray[np.float64]:
        """The dealer's values (target, target) from the same deals under other rules or another reward."""
        return solve_board(self.outcomes, rules, reward)

    def save(self, file: str | Path | IO[bytes]) -> None:
        """Write the table as .npz (values and errors in single precision)."""
        facts = {
            "format": _FORMAT,
            "agent": self.agent,
            "deals": self.outcomes.deals,
            "seed": self.seed,
            "target": self.rules.target,
            "skunk": self.rules.skunk,
            "double_skunk": self.rules.double_skunk,
            "reward": self.reward,
            "made_with": self.made_with,
        }
        arrays: dict[str, Any] = {
            "facts": np.array(json.dumps(facts)),
            "dealer": self.dealer.astype(np.float32),
            "errors": self.errors.astype(np.float32),
            **_outcome_arrays(self.outcomes),
        }
        if isinstance(file, str | Path):
            with Path(file).open("wb") as stream:  # np.savez would put .npz after any other name
                np.savez_compressed(stream, **arrays)
        else:
            np.savez_compressed(file, **arrays)


def _outcome_arrays(outcomes: DealOutcomes) -> dict[str, Any]:
    return {
        "totals": outcomes.totals,
        "dealer_first": outcomes.dealer_first,
        "pone_first": outcomes.pone_first,
    }


def save_outcomes(file: Path, outcomes: DealOutcomes) -> None:
    """Write outcomes alone as .npz."""
    with file.open("wb") as stream:
        np.savez_compressed(stream, **_outcome_arrays(outcomes))


def _read_arrays(source: Any, name: str) -> dict[str, NDArray[Any]]:
    try:
        with np.load(source, allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except FileNotFoundError:
        raise AgentError(f"no board table {name!r}; `cribbage analyse board SPEC` makes one") from None
    except OSError as error:
        raise AgentError(f"can't read the board table {name!r}: {error.strerror or error}") from None
    except (ValueError, EOFError, AttributeError, zipfile.BadZipFile, KeyError):
        raise AgentError(
            f"{name!r} is not a board table: it is cut short, damaged, or another file; `cribbage analyse board SPEC` "
            "makes one"
        ) from None


def _outcomes(arrays: dict[str, NDArray[Any]], name: str) -> DealOutcomes:
    tables = []
    for key in ("totals", "dealer_first", "pone_first"):
        table = arrays.get(key)
        if table is None or table.shape != (MOST_POINTS, MOST_POINTS) or table.dtype != np.int64 or table.min() < 0:
            raise AgentError(f"{name!r} is not a board table: {key!r} must be counts of shape {(MOST_POINTS,) * 2}")
        tables.append(table)
    if tables[0].sum() < 1:
        raise AgentError(f"{name!r} is not a board table: it has no deals")
    return DealOutcomes(*tables)


def load_outcomes(name: str) -> DealOutcomes:
    """Outcomes that are shipped in ``agents/data``."""
    with resources.files("agents").joinpath("data", name).open("rb") as stream:
        return _outcomes(_read_arrays(stream, name), name)


def load_board_table(path: str | Path | None = None) -> BoardTable:
    """Read a board table.

    Args:
        path: a file that ``cribbage analyse board`` wrote; None for the shipped one, of ``expected``.

    Raises:
        AgentError: no such file, or something else in it.
    """
    if path is None:
        return _shipped_table()
    return _table(_read_arrays(path, str(path)), str(path))


@functools.cache
def _shipped_table() -> BoardTable:
    with resources.files("agents").joinpath("data", _SHIPPED).open("rb") as stream:
        return _table(_read_arrays(stream, _SHIPPED), _SHIPPED)


def _table(arrays: dict[str, NDArray[Any]], name: str) -> BoardTable:
    outcomes = _outcomes(arrays, name)
    try:
        facts = json.loads(str(arrays["facts"]))
        if facts["format"] != _FORMAT:
            raise AgentError(f"{name!r} is a board table of format {facts['format']!r}, this version reads {_FORMAT}")
        rules = Rules(facts["target"], facts["skunk"], facts["double_skunk"])
        if facts["reward"] not in BOARD_REWARDS:
            raise ValueError(f"reward {facts['reward']!r}")
        values = []
        for key in ("dealer", "errors"):
            table = arrays[key].astype(np.float64)
            if table.shape != (rules.target, rules.target) or np.isinf(table).any():
                raise ValueError(f"{key!r} must be {(rules.target,) * 2} numbers")
            table.flags.writeable = False
            values.append(table)
        return BoardTable(
            values[0],
            values[1],
            rules,
            facts["reward"],
            str(facts["agent"]),
            int(facts["seed"]),
            outcomes,
            dict(facts["made_with"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"{name!r} is not a board table: {error}") from None
