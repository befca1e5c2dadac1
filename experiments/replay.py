"""The command ``cribbage replay``: shows a recorded game step by step, or checks records against the engine."""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cribbage_env.records import Record, RecordError, replay, replay_steps, scan_records, start_of
from cribbage_env.render import render_text
from experiments.config import UserError
from experiments.tournament.match import game_seeds
from experiments.transcript import Pauses, Transcript, seat_names

DIFFERS = 1  # the exit code when a record that was checked is not as the engine has it


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("file", metavar="FILE", help="records, one a line (docs/records.md); .gz is fine")
    parser.add_argument("--game", type=int, metavar="K", help="the line of the game, 1, 2, ... (default: 1)")
    parser.add_argument("--deal", type=int, metavar="D", help="show only this deal of it: 1, 2, ...")
    parser.add_argument("--seat", type=int, choices=(0, 1), help="as this seat sees it (default: all cards open)")
    parser.add_argument("--board", action="store_true", help="draw the board and the table after every decision")
    parser.add_argument("--all", action="store_true", help="on a terminal, show all at once; else Enter goes on")
    parser.add_argument(
        "--check",
        action="store_true",
        help="show nothing: replay every game (or the one of --game) and say for each line whether the record is as "
        "the engine has it, or the first difference; exit code 1 if one is not",
    )


def run(args: argparse.Namespace) -> int:
    """Show a game, or check them."""
    path = Path(args.file)
    for name in ("game", "deal"):
        number = getattr(args, name)
        if number is not None and number < 1:
            raise UserError(f"--{name} counts from 1, got {number}")
    if args.check:
        for name, default in (("deal", None), ("seat", None), ("board", False), ("all", False)):
            if getattr(args, name) != default:
                raise UserError(f"--{name} is for showing a game, --check shows none: leave one of them out")
        return _check(path, args.game)
    wanted = 1 if args.game is None else args.game
    title = f"{path}, game {wanted}"
    show(_game_in(path, wanted), title, args.deal, args.seat, pause=not args.all, board=args.board)
    return 0


def _scan(path: Path) -> Iterator[tuple[int, Record | RecordError]]:
    """``scan_records``, with the errors of files as UserError."""
    try:
        yield from scan_records(path)
    except FileNotFoundError:
        beside = sorted(one.name for one in path.parent.glob("*.jsonl*")) if path.parent.is_dir() else []
        raise UserError(
            f"no file {str(path)!r}" + (f" (there are {', '.join(beside[:5])})" if beside else "")
        ) from None
    except IsADirectoryError:
        inside = sorted(one.name for one in path.glob("*.jsonl*"))
        raise UserError(
            f"{str(path)!r} is a folder" + (f"; say {str(path / inside[0])!r}" if inside else ", not a file of records")
        ) from None
    except OSError as error:
        raise UserError(f"can't read {str(path)!r}: {error.strerror or error}") from None
    except RecordError as error:
        raise UserError(str(error)) from None


def _game_in(path: Path, wanted: int) -> Record:
    last = 0
    for number, found in _scan(path):
        if number == wanted:
            if isinstance(found, RecordError):
                raise UserError(f"{path} line {number}: {found}")
            return found
        if number > wanted:
            raise UserError(f"{path}: line {wanted} is empty; the next game is --game {number}")
        last = number
    if last == 0:
        raise UserError(f"there are no games in {str(path)!r}")
    raise UserError(f"there is no game {wanted} in {str(path)!r}, the last one is {last}")


# --- Showing ------------------------------------------------------------------------------------------------------


def show(
    record: Record, title: str, deal: int | None, seat: int | None, *, pause: bool = False, board: bool = False
) -> None:
    """Print a game, or deal 1, 2, ... of it.

    Args:
        record: of the game.
        title: what it is called.
        deal: the only one that is shown; None shows all.
        seat: whose view it is; None shows all cards.
        pause: wait for Enter after each decision, if that can be.
        board: draw the table after each decision too.

    Raises:
        UserError: it has no such deal, or is not as the engine has it; nothing is printed then.
    """
    try:
        game = replay(record)
    except RecordError as error:
        raise UserError(f"{title}: {error}") from None
    deals = len(record["deals"])
    if deal is not None and deal > deals:
        raise UserError(f"{title}: there is no deal {deal}, the last one is {deals}")

    names = seat_names(record.get("agents"))
    print(f"{title}: {names[0]} in seat 0, {names[1]} in seat 1, to {game.rules.target}", end="")
    print("" if record.get("seed") is None else f", seed {record['seed']}")
    transcript = Transcript(names, seat)
    pauses = Pauses(pause)
    scores = start_of(record).scores
    shown = -1  # the last deal whose beginning was shown
    for step in replay_steps(record):
        if deal is None or step.deal == deal - 1:
            if shown != step.deal:
                transcript.deal(step.game, step.deal, scores)
                shown = step.deal
                pauses.wait()
            transcript.step(step)
            if board:
                print("\n" + textwrap.indent(render_text(step.game, seat, names=names), "    ") + "\n")
            pauses.wait()
        scores = step.game.scores
    if shown < game.deal < deals and deal in (None, game.deal + 1):  # a deal that had no decision yet
        transcript.deal(game, game.deal, scores)
    if deal in (None, deals):
        transcript.end(game)


# --- Checking -----------------------------------------------------------------------------------------------------


def _check(path: Path, wanted: int | None) -> int:
    records = iter([(wanted, _game_in(path, wanted))]) if wanted is not None else _scan(path)
    good = bad = 0
    for number, found in records:
        problem = found if isinstance(found, RecordError) else problem_of(found)
        print(f"line {number}: {'ok' if problem is None else problem}")
        if problem is None:
            good += 1
        else:
            bad += 1
    if not good + bad:
        raise UserError(f"there are no games in {str(path)!r}")
    print(f"{good:,} of {good + bad:,} records are as the engine has them")
    return DIFFERS if bad else 0


def problem_of(record: Record) -> RecordError | None:
    """What is wrong with a record: of the engine's affairs, and whether its seed is the one of its match."""
    try:
        replay(record)
    except RecordError as error:
        return error
    match = record.get("match") or {}
    if match.get("seed") is not None and match.get("pair") is not None and record.get("seed") is not None:
        pair = match["pair"]
        if pair >= 2**63:
            return RecordError(f"match.pair: no match has a pair {pair}")
        seed = int(game_seeds(match["seed"], np.array([pair]))[0])
        if record["seed"] != seed:
            return RecordError(
                f"seed: recorded {record['seed']}, but pair {pair} of the match with seed {match['seed']} has {seed}"
            )
    return None
