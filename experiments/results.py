"""Results of tournaments and of training runs as tables, for notebooks and reports.

>>> from experiments.results import load_games, load_summary
>>> games = load_games("runs/quickstart-tournament")  # one row a game
>>> games.groupby("match")["winner"].value_counts()
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.config import UserError, load_config
from experiments.tournament.folder import CONFIG
from experiments.tournament.games_file import NAMES, columns_of, games_file, read_games
from experiments.tournament.identity import read_noted
from experiments.tournament.plan import matches_of
from experiments.tournament.ratings_file import RATINGS
from experiments.tournament.results import SUMMARY
from experiments.train_config import TrainConfig

if TYPE_CHECKING:  # it takes a second to import
    import pandas


def load_games(folder: str | Path) -> pandas.DataFrame:
    """All games of a tournament, a row each, from ``games.csv`` or ``games.parquet`` in its result folder.

    Returns:
        The table with its columns (``experiments.tournament.games_file.GAME_COLUMNS``): those that name an agent are
        categories, the others int64. The rows are ordered by match and pair; both games of a pair stand together.

    Raises:
        UserError: there is no such table, a column is missing, the file is cut short, or a row is damaged or is not of
            the tournament that ``config.yaml`` beside it tells of: it is named by its line.
    """
    import pandas

    path = games_file(Path(folder))
    if path is None:
        raise UserError(f"there is no table of games in {str(folder)!r}; `cribbage tournament` makes one")
    config, _ = read_noted(Path(folder) / CONFIG)
    matches = {match.number: match for match in matches_of(config)}
    names = list(dict.fromkeys(name for match in matches.values() for name in match.names))
    nobody = len(names)
    pieces: list[dict[str, NDArray[np.integer]]] = []
    for number, some in read_games(path, list(matches.values()), config.seed, config.rules.target):
        columns = columns_of(number, some)
        codes = np.array([*(names.index(name) for name in matches[number].names), nobody])  # nobody is number -1
        pieces.append({name: codes[column] if name in NAMES else column for name, column in columns.items()})
    if not pieces:
        raise UserError(f"there are no games in {path}")
    table = pandas.DataFrame(
        {name: np.concatenate([piece[name] for piece in pieces], dtype=np.int64) for name in pieces[0]}
    )
    for name in NAMES:
        values = [*names, ""] if name == "forfeit" else names
        table[name] = pandas.Categorical.from_codes(table[name].to_numpy(), pandas.Index(values))
    counted = int(load_summary(folder)["games"].sum())
    if len(table) != counted:
        raise UserError(f"{path} is cut short: it has {len(table):,} games, {SUMMARY} counts {counted:,}")
    return table


def load_summary(folder: str | Path) -> pandas.DataFrame:
    """The matches of a tournament, a row each, from ``summary.csv`` in its result folder.

    Raises:
        UserError: there is none, a column is missing, or a row is damaged: it is named by its line.
    """
    return _load_table(Path(folder) / SUMMARY, ("a", "b", "sprt"), _SUMMARY_COLUMNS)


def load_ratings(folder: str | Path) -> pandas.DataFrame:
    """The agents' ratings, the best first, a row each, from ``ratings.csv`` in a tournament's result folder.

    Raises:
        UserError: there is none, a column is missing, or a row is damaged: it is named by its line.
    """
    return _load_table(Path(folder) / RATINGS, ("agent",), _RATING_COLUMNS)


def load_training(*folders: str | Path) -> pandas.DataFrame:
    """The metrics of training runs, a row an iteration, from ``metrics.csv`` and ``config.yaml`` in their folders.

    Returns:
        The columns of ``metrics.csv`` (``experiments.training.metrics``), the runs below each other; columns that a run
        does not have, and evaluations in rows without one, are NaN. Before them stand ``run`` (the folder's name),
        ``learner`` and ``seed``, and ``minutes`` of training, evaluations not counted.

    Raises:
        UserError: no folder, or one without these files, or with something else in them.
    """
    import pandas

    from experiments.training.metrics import (
        METRICS,
    )  # PyTorch's event files: seconds that tournaments need not wait for

    if not folders:
        raise UserError("name at least one folder of a training run")
    tables = []
    for folder in map(Path, folders):
        config = load_config(folder / CONFIG, TrainConfig)
        table = _load_table(folder / METRICS, (), ("iteration", "decisions", "training_seconds"), "train")
        facts: dict[str, Any] = {"run": folder.name, "learner": config.learner.algorithm, "seed": config.seed}
        table = table.assign(minutes=table["training_seconds"] / 60, **facts)
        first = [*facts, "minutes"]
        tables.append(table[[*first, *(name for name in table.columns if name not in first)]])
    return pandas.concat(tables, ignore_index=True)


def _load_table(
    path: Path, text: tuple[str, ...], needed: tuple[str, ...], command: str = "tournament"
) -> pandas.DataFrame:
    """A CSV file of a result folder: the columns ``text`` are text, those that are there, all others numbers."""
    import pandas

    try:
        # an agent may be called "nan"
        not_a_number = {name: ["nan"] for name in pandas.read_csv(path, nrows=0).columns if name not in text}
        blank = {name: [*values, ""] for name, values in not_a_number.items()} if command == "train" else not_a_number
        table = pandas.read_csv(path, keep_default_na=False, na_values=blank, dtype=dict.fromkeys(text, str))
    except FileNotFoundError:
        raise UserError(f"there is no {path.name} in {str(path.parent)!r}; `cribbage {command}` makes one") from None
    except (OSError, ValueError) as error:  # pandas' own are ValueErrors
        raise UserError(f"can't read {str(path)!r}: {' '.join(str(error).split())}") from None
    absent = [name for name in needed if name not in table.columns]
    if absent:
        raise UserError(
            f"{path}: the column {absent[0]!r} is missing, so it is no {path.name}, or one of another version"
        )
    for name in table.columns:
        if name not in text and not pandas.api.types.is_numeric_dtype(table[name]):
            cells = table[name].tolist()
            bad = next(at for at, cell in enumerate(cells) if not _is_number(cell))
            raise UserError(f"{path}, line {bad + 2}: {name} must be a number, got {cells[bad]!r}; the file is damaged")
    return table


_SUMMARY_COLUMNS = ("match", "a", "b", "games", "a_wins", "b_wins", "pairs_a_won", "pairs_split", "pairs_b_won")
_RATING_COLUMNS = ("place", "agent", "rating", "rating_low", "rating_high", "games")


def _is_number(cell: object) -> bool:
    try:
        float(str(cell))
    except ValueError:
        return False
    return True
