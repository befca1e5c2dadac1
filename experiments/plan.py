"""The command ``cribbage plan``: how many games a match needs to tell a win rate from 50 %, or what games can tell."""

from __future__ import annotations

import argparse
import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

from experiments.config import UserError
from experiments.tournament.statistics import (
    CLOSE_VARIANCE,
    Sprt,
    detectable_rate,
    elo,
    independent_variance,
    pair_variance,
    pairs_needed,
    sprt_pairs,
)

_COUNTS = ("pairs_a_won", "pairs_split", "pairs_b_won")  # columns of summary.csv
_MOST_GAMES = 10**9  # as a match may have
_FEW_PAIRS = 30


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    question = parser.add_mutually_exclusive_group(required=True)
    question.add_argument("--detect", metavar="RATE", help="the win rate to tell from 50 %%: 51, 51%% or 0.51")
    question.add_argument("--games", type=int, help="the reverse: the rate that so many games tell from 50 %%")
    parser.add_argument("--power", metavar="P", default="0.8", help="how often it is to be told (default: %(default)s)")
    parser.add_argument(
        "--alpha", metavar="P", default="0.05", help="how often equals may be told apart (default: %(default)s)"
    )
    variance = parser.add_mutually_exclusive_group()
    variance.add_argument(
        "--variance", metavar="V", help=f"of a pair's score 0, 1/2 or 1 (default: {CLOSE_VARIANCE}, of close opponents)"
    )
    variance.add_argument(
        "--from", dest="source", metavar="FILE", help="measure it: summary.csv, games.csv or games.parquet of a match"
    )
    parser.add_argument("--match", type=int, metavar="N", help="which match of that file, if it has several")
    parser.add_argument("--games-per-second", metavar="S", help="gives the time, too; `cribbage evaluate` measures it")
    parser.add_argument("--json", action="store_true", help="print JSON")


def run(args: argparse.Namespace) -> int:
    """Say how long a match must be."""
    power = _between("--power", args.power, 0.0, 1.0)
    alpha = _between("--alpha", args.alpha, 0.0, 1.0)
    if power <= alpha:
        raise UserError(f"--power: must be above alpha, {alpha:g}, which a coin reaches, got {args.power}")
    speed = None if args.games_per_second is None else _between("--games-per-second", args.games_per_second, 0, 1e9)
    variance, origin = _variance(args)
    try:
        plan = _plan(args, power, alpha, variance)
    except ValueError as error:
        raise UserError(str(error)) from None
    plan |= {"power": power, "alpha": alpha, "variance": variance, "variance_from": origin}
    if speed is not None:
        plan |= {"games_per_second": speed, "seconds": plan["games"] / speed}
    print(json.dumps(plan, indent=2) if args.json else _text(plan))
    return 0


def parse_rate(text: str) -> float:
    """The rate, 0 to 1, that someone means by ``51``, ``51 %`` or ``0.51``: what is above 1 is percent.

    Raises:
        UserError: no number; none between 0 and 100 %; 50 %, which is not to be told from 50 %.
    """
    number = _number("--detect", text.strip().removesuffix("%").rstrip())
    rate = number / 100 if number > 1 or "%" in text else number
    if not 0 < rate < 1:
        raise UserError(f"--detect: a win rate is between 0 and 100 % (51, 51% or 0.51), got {text}")
    if rate == 0.5:
        raise UserError("--detect: 50 % can't be told from 50 %; give the least rate that matters to you, such as 51")
    return rate


def variance_of_file(path: Path, match: int | None) -> tuple[float, str]:
    """The variance of a pair's score in a match of a result file, and in words where it is from.

    Raises:
        UserError: the file can't be read, is damaged or no result file; the match is not there, or has too few pairs.
    """
    matches = _matches(path)
    if match is None and len(matches) > 1:
        listed = ", ".join(f"{number}: {names}" for number, (names, _) in sorted(matches.items())[:12])
        raise UserError(f"{path} has {len(matches)} matches, choose one with --match: {listed}")
    number = next(iter(matches)) if match is None else match
    if number not in matches:
        raise UserError(f"--match: {path} has the matches {', '.join(map(str, sorted(matches)))}, got {number}")
    names, counts = matches[number]
    variance = pair_variance(*counts)
    if not variance > 0:
        raise UserError(
            f"{path}: the pairs of {names} tell no variance ({counts[0]} won, {counts[1]} split, {counts[2]} lost); "
            "play more, or give --variance"
        )
    return variance, f"{sum(counts):,} pairs of {names}"


def _plan(args: argparse.Namespace, power: float, alpha: float, variance: float) -> dict[str, Any]:
    if args.detect is not None:
        rate = parse_rate(args.detect)
        pairs = pairs_needed(rate, variance, power, alpha)
        if 2 * pairs > _MOST_GAMES:
            raise UserError(f"--detect: {args.detect} is so near to 50 % that it takes {2 * pairs:,} games to tell")
    else:
        if not 2 <= args.games <= _MOST_GAMES:
            raise UserError(f"--games: must be between 2 and {_MOST_GAMES:,}, got {args.games}")
        pairs = args.games // 2
        rate = detectable_rate(pairs, variance, power, alpha)
        if rate >= 1:
            raise UserError(f"--games: {args.games} games tell no win rate from 50 % with that power; play more")
    single = 2 * pairs_needed(rate, independent_variance(0.5), power, alpha)
    plan: dict[str, Any] = {
        "detect": rate,
        "elo": elo(rate),
        "pairs": pairs,
        "games": 2 * pairs,
        "games_without_duplicate_deals": single,
    }
    if alpha / 2 + (1 - power) < 1:
        better = max(rate, 1 - rate)  # the match is the same with the agents' names exchanged
        test = Sprt(0.5, better, alpha / 2, 1 - power)
        plan["sprt"] = {
            "rate0": 0.5,
            "rate1": better,
            "alpha": test.alpha,
            "beta": test.beta,
            "check_every": test.check_every,
            "games_if_rate0": round(2 * sprt_pairs(test, 0.5, variance)),
            "games_if_rate1": round(2 * sprt_pairs(test, better, variance)),
            "games_at_worst": round(
                2 * max(sprt_pairs(test, 0.5 + (better - 0.5) * k / 20, variance) for k in range(21))
            ),
        }
    return plan


def _text(plan: dict[str, Any]) -> str:
    lines = [
        f"{plan['pairs']:,} pairs, {plan['games']:,} games: they tell a win rate of {_percent(plan['detect'])} "
        f"(Elo {plan['elo']:+.1f}) from 50 % with power {plan['power']:g}",
        f"in a two-sided test with alpha {plan['alpha']:g}, if a pair's score has variance {plan['variance']:.4g} "
        f"({plan['variance_from']}).",
    ]
    if "seconds" in plan:
        lines.append(f"At {plan['games_per_second']:g} games/s that takes {_duration(plan['seconds'])}.")
    single = plan["games_without_duplicate_deals"]
    lines.append(
        f"Without duplicate deals, every game on its own cards: {single:,} games, "
        f"{single / plan['games']:.1f} times as many."
    )
    if "sprt" in plan:
        test = plan["sprt"]
        rates = f"50 % against {_percent(test['rate1'])} with alpha {test['alpha']:g} and beta {test['beta']:.3g}"
        lines.append(
            f"An SPRT of {rates}, looked at every {test['check_every']} pairs,\n"
            f"stops on average after {test['games_if_rate0']:,} games if the agents are equal, "
            f"{test['games_if_rate1']:,} at {_percent(test['rate1'])}, and at worst {test['games_at_worst']:,}, "
            f"between them:\ncribbage evaluate A B --sprt rate0=0.5 rate1={test['rate1']:.6g} alpha={test['alpha']:g} "
            f"beta={test['beta']:.6g}"
        )
    if plan["pairs"] < _FEW_PAIRS:
        lines.append(f"Fewer than {_FEW_PAIRS} pairs are not quite normal: the power is rough.")
    return "\n".join(lines)


def _variance(args: argparse.Namespace) -> tuple[float, str]:
    """The variance of a pair's score, and where it is from."""
    if args.match is not None and args.source is None:
        raise UserError("--match chooses a match of a file: name it with --from")
    if args.source is not None:
        return variance_of_file(Path(args.source), args.match)
    if args.variance is None:
        return CLOSE_VARIANCE, "assumed, as between close opponents; --from measures it"
    variance = _number("--variance", args.variance)
    if not 0 < variance <= 0.25:
        raise UserError(f"--variance: that of a score 0, 1/2 or 1 is above 0 and at most 0.25, got {args.variance}")
    return variance, "given"


def _matches(path: Path) -> dict[int, tuple[str, tuple[int, int, int]]]:
    """The matches of a result file by number: the agents' names, and pairs that A won both games of, one, none."""
    import pandas as pd  # slow to import

    matches: dict[int, tuple[str, tuple[int, int, int]]]

    try:
        table = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path, keep_default_na=False)
        if {"match", "a", "b", *_COUNTS} <= set(table.columns):
            matches = {
                _whole(row["match"]): (f"{row['a']} – {row['b']}", _counts(row)) for row in table.to_dict("records")
            }
        elif {"match", "pair", "seat_0", "seat_1", "winner"} <= set(table.columns):
            matches = {_whole(number): _counted(games) for number, games in table.groupby("match", sort=True)}
        else:
            raise UserError(f"{path} is no summary.csv, games.csv or games.parquet of a tournament")
    except OSError as error:
        raise UserError(f"--from: can't read {str(path)!r}: {error.strerror or error}") from None
    except ImportError:
        raise UserError(f"{path}: reading Parquet needs pyarrow, which is not installed") from None
    except (ValueError, TypeError, pd.errors.ParserError) as error:
        raise UserError(f"{path} is damaged: {' '.join(str(error).split())}") from None
    if not matches:
        raise UserError(f"{path} has no matches")
    return matches


def _counts(row: dict[Any, Any]) -> tuple[int, int, int]:
    both, one, none = (_whole(row[column]) for column in _COUNTS)
    return both, one, none


def _counted(games: Any) -> tuple[str, tuple[int, int, int]]:
    """The names and counts of the games (a data frame) of one match."""
    a, b = (str(games[f"seat_{seat}"].iloc[0]) for seat in (0, 1))
    won = games["winner"].astype(str)
    if not won.isin([a, b]).all():
        raise ValueError(f"{won[~won.isin([a, b])].iloc[0]!r} won a game of {a} – {b}")
    pairs = (won == a).groupby(games["pair"]).agg(["sum", "size"])
    if not (pairs["size"] == 2).all():
        raise ValueError(f"pair {pairs.index[pairs['size'] != 2][0]} of {a} – {b} does not have two games")
    none, one, both = (int((pairs["sum"] == wins).sum()) for wins in (0, 1, 2))
    return f"{a} – {b}", (both, one, none)


def _whole(value: Any) -> int:
    number = int(value)
    if number != float(value) or number < 0:
        raise ValueError(f"a count is expected, got {value!r}")
    return number


def _number(option: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UserError(f"{option}: a number is needed, got {text}")
    return number


def _between(option: str, text: str, low: float, high: float) -> float:
    number = _number(option, text)
    if not low < number < high:
        raise UserError(f"{option}: must be above {low:g} and below {high:g}, got {text}")
    return number


def _percent(rate: float) -> str:
    return f"{100 * rate:.4g} %"


def _duration(seconds: float) -> str:
    """Such as ``3 h 20 min``: two units."""
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    for (name, size), (smaller, part) in pairwise(units):
        if seconds >= size:
            return f"{int(seconds // size)} {name} {int(seconds % size // part)} {smaller}"
    return f"{seconds:.2g} s"
