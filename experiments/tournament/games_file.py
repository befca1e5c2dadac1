"""The table of all games, ``games.csv`` or ``games.parquet``: one row a game, everything that a summary needs.

Rows are ordered by match and pair; a pair is two rows, the first with the match's agent A in seat 0. Columns that name
an agent hold its name. What is not as it was written is noticed when it is read again, and named by its line.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import PARTS
from experiments.config import UserError
from experiments.tournament.match import GAME_DTYPE, Games, game_seeds
from experiments.tournament.plan import Match
from experiments.tournament.summary import PONE_PARTS

GAMES_FILES = {"csv": "games.csv", "parquet": "games.parquet"}
"""The table's name, by format."""

GAME_COLUMNS = (
    "match",  # 1, 2, ...
    "pair",  # 0, 1, ... within the match; both games of a pair have the same seed
    "seed",  # of the game: cribbage_env.Game(seed=seed, dealer=None) deals the same cards
    "seat_0",  # the agent's name, as in all columns that name one
    "seat_1",
    "first_dealer",
    "score_0",
    "score_1",
    "deals",
    "decisions",
    "winner",
    "skunk",  # 1, double 2, otherwise 0
    "forfeit",  # who lost by an illegal action, usually nobody
    "luck_0",  # what chance gave seat 0, in millionths of a game (see experiments.tournament.luck); 0: not noted
    # Points by part in whole deals (see experiments.tournament.match.GAME_DTYPE)
    "whole_deals_0",  # how many of the deals that seat 0 dealt are counted below; seat 1 was pone in them
    "whole_deals_1",
    *(f"{part}_{seat}" for seat in (0, 1) for part in PARTS),
)
NAMES = ("seat_0", "seat_1", "first_dealer", "winner", "forfeit")
"""The columns that name an agent."""

_ROWS = 8192  # read at once
_SMALL = [str(number) for number in range(256)]
_PONE_PART = PONE_PARTS[0]
_MOST_LUCK = 10**8  # a hundred games


def columns_of(match: int, games: Games) -> dict[str, NDArray[np.integer]]:
    """The columns of games of a match, by name; those that name an agent have 0 for A, 1 for B and -1 for nobody."""
    rows = np.arange(len(games))
    a_seat = games["a_seat"]
    agents = a_seat, 1 - a_seat  # in seats 0 and 1: A has seat 0 where a_seat is 0
    columns = {
        "match": np.full(len(games), match),
        "pair": games["pair"],
        "seed": games["seed"],
        "seat_0": agents[0],
        "seat_1": agents[1],
        "first_dealer": games["first_dealer"] ^ a_seat,
        "deals": games["deals"],
        "decisions": games["decisions"],
        "winner": games["winner"],
        "skunk": games["skunk"],
        "forfeit": games["forfeit"],
        "luck_0": np.where(a_seat == 0, games["luck"], -games["luck"]),
    }
    for seat, agent in enumerate(agents):
        columns[f"score_{seat}"] = games["scores"][rows, agent]
        columns[f"whole_deals_{seat}"] = games["counted"][rows, 1 - agent, _PONE_PART]
        for part, name in enumerate(PARTS):
            columns[f"{name}_{seat}"] = games["points"][rows, agent, part]
    return {name: columns[name] for name in GAME_COLUMNS}


def games_of(columns: Mapping[str, NDArray[np.integer]]) -> Games:
    """The inverse of :func:`columns_of`."""
    games = np.zeros(len(columns["pair"]), GAME_DTYPE)
    rows = np.arange(len(games))
    a_seat = columns["seat_0"]
    games["a_seat"] = a_seat
    games["first_dealer"] = columns["first_dealer"] ^ a_seat
    for name in ("pair", "seed", "deals", "decisions", "winner", "skunk", "forfeit"):
        games[name] = columns[name]
    games["luck"] = np.where(a_seat == 0, columns["luck_0"], -columns["luck_0"])
    for seat, agent in enumerate((a_seat, 1 - a_seat)):
        games["scores"][rows, agent] = columns[f"score_{seat}"]
        for part, name in enumerate(PARTS):
            dealt_by = 1 - seat if part in PONE_PARTS else seat
            games["points"][rows, agent, part] = columns[f"{name}_{seat}"]
            games["counted"][rows, agent, part] = columns[f"whole_deals_{dealt_by}"]
    return games


# Writing


class GamesWriter(Protocol):
    """Writes the table to a file; the games come in order."""

    def write(self, match: int, names: tuple[str, str], games: Games) -> None:
        """Write games of the match with that number between agents of these names."""

    def close(self) -> None:
        """Write what belongs at the end, and close the file."""


def games_writer(file_format: str, path: Path) -> GamesWriter:
    """The writer of a format of :data:`GAMES_FILES`."""
    return _CsvWriter(path) if file_format == "csv" else _ParquetWriter(path)


class _CsvWriter:
    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8", newline="")
        self._file.write(",".join(GAME_COLUMNS) + "\n")

    def write(self, match: int, names: tuple[str, str], games: Games) -> None:
        cells = [_csv_cell(name) for name in (*names, "")]  # the last one, number -1, is nobody
        columns: list[Iterable[str]] = []
        for name, column in columns_of(match, games).items():
            texts = cells if name in NAMES else _SMALL
            small = name in NAMES or (len(column) > 0 and column.min() >= 0 and column.max() < len(_SMALL))
            columns.append(map(texts.__getitem__ if small else str, column.tolist()))
        self._file.write("".join(f"{','.join(row)}\n" for row in zip(*columns, strict=True)))

    def close(self) -> None:
        self._file.close()


def _csv_cell(text: str) -> str:
    cell = io.StringIO(newline="")
    csv.writer(cell, lineterminator="").writerow([text, ""])  # alone in its row, nothing would be written as ""
    return cell.getvalue()[:-1]


class _ParquetWriter:
    def __init__(self, path: Path) -> None:
        pyarrow, parquet = _pyarrow()
        self._arrow = pyarrow
        wide = {"pair": pyarrow.int64(), "seed": pyarrow.int64()} | dict.fromkeys(NAMES, pyarrow.string())
        fields = [(name, wide.get(name, pyarrow.int32())) for name in GAME_COLUMNS]
        self._schema = pyarrow.schema(fields)
        self._file = parquet.ParquetWriter(path, self._schema)

    def write(self, match: int, names: tuple[str, str], games: Games) -> None:
        who = np.array([*names, ""], object)
        arrays = [
            self._arrow.array(who[column] if field.type == self._arrow.string() else column, field.type)
            for field, column in zip(self._schema, columns_of(match, games).values(), strict=True)
        ]
        self._file.write_batch(self._arrow.record_batch(arrays, schema=self._schema))

    def close(self) -> None:
        self._file.close()


def _pyarrow() -> tuple[Any, Any]:
    """pyarrow and pyarrow.parquet; UserError where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise UserError(
            "format: parquet needs pyarrow, which is not installed: pip install 'cribbage-lab[parquet]', or say "
            "format=csv"
        ) from None
    return pyarrow, pyarrow.parquet


def check_format(file_format: str) -> None:
    """UserError if what the format needs is not installed."""
    if file_format == "parquet":
        _pyarrow()


# Reading


Rows = tuple[int, dict[str, list[Any]]]
"""The number of the first row as errors call it, and columns: text from CSV, numbers and text from Parquet."""


def games_file(folder: Path) -> Path | None:
    """The table in a folder, None if there is none."""
    return next((folder / name for name in GAMES_FILES.values() if (folder / name).is_file()), None)


def read_columns(path: Path) -> Iterator[dict[str, NDArray[Any]]]:
    """The table piece by piece: columns by name, int64, or text for those that name an agent.

    Raises:
        UserError: it can't be read, a column is missing, or a row is damaged: it is named.
    """
    word = "line" if path.suffix == ".csv" else "row"
    for first, columns in _rows_of_csv(path) if word == "line" else _rows_of_parquet(path):
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in columns.items():
            if name in NAMES:
                arrays[name] = np.array(values, object)
                continue
            try:
                arrays[name] = np.array(list(map(int, values)), np.int64)
            except (ValueError, TypeError, OverflowError):
                at = next(at for at, value in enumerate(values) if not _is_int64(value))
                raise _damaged(path, word, first + at, f"{name} must be a whole number, got {values[at]!r}") from None
        yield arrays


def _is_int64(value: Any) -> bool:
    try:
        return -(2**63) <= int(value) < 2**63
    except (ValueError, TypeError):
        return False


def _damaged(path: Path, word: str, number: int, problem: str) -> UserError:
    return UserError(f"{path}, {word} {number}: {problem}; the file is damaged: play it again with --overwrite")


def _rows_of_csv(path: Path) -> Iterator[Rows]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            yield from _rows_of_open_csv(path, file)
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"can't read {str(path)!r}: {problem}; play it again with --overwrite") from None


def _rows_of_open_csv(path: Path, file: IO[str]) -> Iterator[Rows]:
    reader = csv.reader(file, strict=True)
    header = next(reader, [])
    _check_columns(path, header)
    while True:
        first = reader.line_num + 1
        rows: list[list[str]] = []
        try:
            rows.extend(islice(reader, _ROWS))
        except csv.Error as error:
            raise _damaged(path, "line", reader.line_num, str(error)) from None
        for at, row in enumerate(rows):
            if len(row) != len(header):
                raise _damaged(path, "line", first + at, f"{len(header)} cells are needed, there are {len(row)}")
        if not rows:
            return
        yield first, {name: list(column) for name, column in zip(header, zip(*rows, strict=True), strict=True)}


def _rows_of_parquet(path: Path) -> Iterator[Rows]:
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as table:
            _check_columns(path, table.schema_arrow.names)
            first = 1
            for batch in table.iter_batches(_ROWS):
                yield first, batch.to_pydict()
                first += len(batch)
    except (OSError, pyarrow.ArrowException) as error:
        raise UserError(f"can't read {str(path)!r}: {' '.join(str(error).split())}") from None


def _check_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in GAME_COLUMNS if name not in names]
    if missing:
        raise UserError(
            f"{path}: the column {missing[0]!r} is missing, so it is no table of games, or one of another version"
        )


def read_games(path: Path, matches: Sequence[Match], seed: int, target: int) -> Iterator[tuple[int, Games]]:
    """The games of a tournament's table, piece by piece, each with its match's number.

    Args:
        path: the table.
        matches: of the tournament; the table may have only the first pairs of each.
        seed, target: of the tournament.

    Raises:
        UserError: a row is damaged or is no game of that tournament; it is named.
    """
    word = "line" if path.suffix == ".csv" else "row"
    number = 2 if word == "line" else 1  # of the next row
    by_number = {match.number: match for match in matches}
    done = {match.number: match.first for match in matches}  # the next pair of each
    left: dict[str, NDArray[Any]] | None = None  # the first game of a pair whose second one comes in the next piece
    for columns in read_columns(path):
        if left is not None:
            columns = {name: np.concatenate([left[name], column]) for name, column in columns.items()}
        edges = np.flatnonzero(np.diff(columns["match"])) + 1
        starts = [0, *edges.tolist()]
        ends = [*edges.tolist(), len(columns["match"])]
        if (ends[-1] - starts[-1]) % 2:
            ends[-1] -= 1
        for start, end in zip(starts, ends, strict=True):
            if start == end:
                continue
            piece = {name: column[start:end] for name, column in columns.items()}
            match = by_number.get(int(piece["match"][0]))
            if match is None:
                raise _damaged(path, word, number, f"there is no match {piece['match'][0]}")
            later = [other for other in done if other > match.number and done[other] > by_number[other].first]
            if later:
                raise _damaged(path, word, number, f"match {match.number} comes after match {later[0]}")
            _check_rows(piece, match, done[match.number], seed, target, path, word, number)
            names = {name: agent for agent, name in enumerate(match.names)} | {"": -1}
            for name in NAMES:
                piece[name] = np.array([names[text] for text in piece[name]], np.int64)
            done[match.number] += (end - start) // 2
            yield match.number, games_of(piece)
            number += end - start
        left = {name: column[ends[-1] :] for name, column in columns.items()}
    if left is not None and len(left["match"]):
        raise _damaged(path, word, number, "the pair's second game is missing")


def _check_rows(
    piece: Mapping[str, NDArray[Any]],
    match: Match,
    first_pair: int,
    seed: int,
    target: int,
    path: Path,
    word: str,
    number: int,
) -> None:
    """Refuse rows of a match that can't be its games from a pair on; ``number`` is that of the first row."""
    rows = len(piece["match"])
    games = np.arange(rows)
    pairs = first_pair + games // 2
    a, b = (np.array(match.names, object)[who] for who in (games % 2, 1 - games % 2))
    seats = piece["seat_0"], piece["seat_1"]
    first_won = piece["winner"] == seats[0]
    loser = np.where(first_won, seats[1], seats[0])
    winning = np.where(first_won, piece["score_0"], piece["score_1"])
    losing = np.where(first_won, piece["score_1"], piece["score_0"])
    checks: list[tuple[str, NDArray[np.bool_], Callable[[int], str]]] = [
        ("pair", (piece["pair"] == pairs) & (pairs < match.first + match.pairs), lambda at: str(pairs[at])),
        ("seed", piece["seed"] == game_seeds(seed, pairs), lambda at: str(game_seeds(seed, pairs)[at])),
        ("seat_0", seats[0] == a, lambda at: repr(a[at])),
        ("seat_1", seats[1] == b, lambda at: repr(b[at])),
        ("first_dealer", np.isin(piece["first_dealer"], match.names), lambda at: " or ".join(match.names)),
        ("winner", np.isin(piece["winner"], match.names), lambda at: " or ".join(match.names)),
        ("forfeit", (piece["forfeit"] == "") | (piece["forfeit"] == loser), lambda at: f"empty or {loser[at]!r}"),
        ("skunk", np.isin(piece["skunk"], (0, 1, 2)), lambda at: "0, 1 or 2"),
        ("the winner's score", winning == target, lambda at: str(target)),
        ("the loser's score", (losing >= 0) & (losing < target), lambda at: f"0 to {target - 1}"),
        *(
            (name, (piece[name] >= 0) & (piece[name] < 2**15), lambda at: "0 to 32767")
            for name in GAME_COLUMNS[GAME_COLUMNS.index("deals") :]
            if name not in (*NAMES, "luck_0")
        ),
        ("luck_0", np.abs(piece["luck_0"]) < _MOST_LUCK, lambda at: f"below {_MOST_LUCK} either way"),
    ]
    # of the first row with something wrong, the first thing
    wrong = min(((int(np.argmin(fine)), at) for at, (_, fine, _) in enumerate(checks) if not fine.all()), default=None)
    if wrong is not None:
        row, at = wrong
        name, _, right = checks[at]
        found = f", got {str(piece[name][row])!r}" if name in piece else ""
        raise _damaged(path, word, number + row, f"{name} must be {right(row)}{found}")
