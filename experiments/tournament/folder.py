"""A tournament's result folder, from its first game to its last, and when it goes on later.

* ``config.yaml``: the config that was played, with versions, git commit and digests of checkpoints; the command takes
  it again. It is the same however the tournament was played.
* ``games.csv`` (or ``games.parquet``), ``summary.csv``, ``ratings.csv``, ``win_rates.png``, ``report.html``: the
  results, which follow from the games.
* ``games.jsonl.gz``: the records of the games, if the config asks for them (:mod:`cribbage_env.records`).
* ``sessions.json``: each start and resumption: the command, when, how long it took. In it two equal runs differ.
* ``games.journal``: while games are missing, all that are finished (:mod:`experiments.tournament.journal`).
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from experiments.config import TournamentConfig, UserError
from experiments.run_folder import (
    RUNS,
    TEMPORARY,
    make_folder,
    new_session,
    read_sessions,
    replacing,
    write_sessions,
)
from experiments.tournament.game_records import RECORDS, RecordedActions
from experiments.tournament.games_file import GAMES_FILES, games_file, read_games
from experiments.tournament.html_report import REPORT
from experiments.tournament.identity import check_goes_on, file_digests, noted_config, read_noted
from experiments.tournament.journal import Journal
from experiments.tournament.plan import Block, matches_of
from experiments.tournament.ratings_file import RATINGS
from experiments.tournament.results import PICTURE, SUMMARY, write_results
from experiments.tournament.round_robin import Tournament
from experiments.tournament.summary import MatchSummary

CONFIG, JOURNAL, SESSIONS = "config.yaml", "games.journal", "sessions.json"
FILES = (SUMMARY, RATINGS, PICTURE, REPORT, RECORDS, SESSIONS, CONFIG, JOURNAL, *GAMES_FILES.values())
"""What a tournament writes; what makes a folder one of a tournament's comes last."""


def result_folder(config: TournamentConfig) -> Path:
    """Where the results of a config go."""
    return Path(config.output) if config.output is not None else RUNS / config.name


class ResultFolder:
    """The folder of a tournament, held by this process.

    Args:
        tournament: to be played.
        path: the folder.
        resume: go on with what is in it.
        overwrite: replace the results that are in it.

    Raises:
        UserError: the folder can't be written to, has other things in it, or results that are not to be replaced or of
            another tournament. Nothing has been written or deleted then.
    """

    def __init__(self, tournament: Tournament, path: Path, *, resume: bool = False, overwrite: bool = False) -> None:
        self.path = path
        self._tournament = tournament
        noted = _read_resumed(path, tournament.config) if resume else None
        if not resume:
            check_new(path, overwrite)
        make_folder(path)
        if not resume:
            clear(path)
        self.journal = Journal.open(path / JOURNAL) if noted is None else _open_journal(path, noted)
        self._began = time.monotonic()
        self._sessions = read_sessions(path / SESSIONS)

    def begin(self, command: Sequence[str], made: dict[str, Any] | None = None) -> None:
        """Note what is played; ``made`` is what ``config.yaml`` says of versions and files, None takes those of now.

        Raises:
            UserError: it can't be written.
        """
        config = self._tournament.config
        how = {"jobs": config.jobs, "backend": config.backend, "batch": config.batch}
        self._sessions.append(new_session(command, **how, games_before=self._tournament.played(self.journal)))
        try:
            with replacing(self.path / CONFIG) as temporary:
                temporary.write_text(noted_config(config, made), encoding="utf-8")
            write_sessions(self.path / SESSIONS, self._sessions)
        except OSError as error:
            raise UserError(f"can't write to {str(self.path)!r}: {error.strerror or error}") from None

    def end(self) -> tuple[list[MatchSummary], list[Path]]:
        """Write what the results are now; a finished tournament needs its journal no longer.

        Returns:
            The summaries of matches that have begun, and the paths of the files; without any game there are none, and
            the folder is left as if nothing had been.

        Raises:
            UserError: they can't be written; the journal stays.
        """
        if not any(self._tournament.whole_pairs(self.journal, match) for match in self._tournament.matches):
            if not self.journal.games:
                self.remove()
            return [], []
        summaries, paths = write_results(self.path, self._tournament, self.journal, *read_noted(self.path / CONFIG))
        self._sessions[-1] |= {
            "games": self._tournament.played(self.journal),
            "seconds": round(time.monotonic() - self._began, 3),
            "match_seconds": {
                str(match.number): round(self.journal.seconds(match.number), 3) for match in self._tournament.matches
            },
        }
        with contextlib.suppress(OSError):
            write_sessions(self.path / SESSIONS, self._sessions)
        self.journal.close()
        if self._tournament.finished(self.journal):
            (self.path / JOURNAL).unlink()
        return summaries, [*paths, self.path / CONFIG]

    def remove(self) -> None:
        """Remove what was written, and the folder if nothing else is in it."""
        self.journal.close()
        clear(self.path)
        with contextlib.suppress(OSError):
            self.path.rmdir()


@contextmanager
def temporary_journal() -> Iterator[Journal]:
    """A journal for a tournament without a folder; it is gone at the end, however that comes."""
    with tempfile.TemporaryFile(buffering=0) as file:
        yield Journal(cast(Any, file), "a temporary file")


def check_new(path: Path, overwrite: bool) -> None:
    """See that a folder can take new results.

    Raises:
        UserError: there are results in it and ``overwrite`` is not set, or there are other things in it.
    """
    if not path.is_dir():
        return
    there = sorted(one.name for one in path.iterdir() if one.suffix != TEMPORARY)
    if there and not {*GAMES_FILES.values(), JOURNAL} & set(there):
        raise UserError(
            f"the folder {str(path)!r} has {there[0]!r} in it and no results of a tournament; choose another with "
            "--output"
        )
    if there and not overwrite:
        raise UserError(
            f"there are results in {str(path)!r}: go on with them (--resume), replace them (--overwrite), or choose "
            "another folder (--output)"
        )


def clear(path: Path) -> None:
    """Remove all that a tournament writes from a folder."""
    for name in FILES:
        (path / name).unlink(missing_ok=True)


def _read_resumed(path: Path, config: TournamentConfig) -> TournamentConfig:
    """The config that is noted in a folder that is to be gone on with, if it can be."""
    if not (path / CONFIG).exists() and _has_only_begun(path):
        return config
    if not path.is_dir() or not (path / CONFIG).exists():
        raise UserError(
            f"there is no tournament to resume in {str(path)!r}; start it without --resume (with --overwrite, if "
            "something of one is left there)"
        )
    noted, made = read_noted(path / CONFIG)
    files = made.get("files", {})
    check_goes_on(path, noted, files, config)
    for module in set(noted.modules) & files.keys():
        if files[module] != file_digests(config).get(module):
            print(f"note: {module} has changed since the tournament was begun", file=sys.stderr)
    return noted


def _has_only_begun(path: Path) -> bool:
    """Whether a tournament was killed at its start, with an empty journal and nothing else in the folder."""
    if not path.is_dir() or {one.name for one in path.iterdir() if one.suffix != TEMPORARY} != {JOURNAL}:
        return False
    journal = Journal.open(path / JOURNAL)
    journal.close()
    return journal.games == 0


def _open_journal(path: Path, noted: TournamentConfig) -> Journal:
    """The journal of a folder, made from the table of games if there is none."""
    if not (path / JOURNAL).exists():
        with replacing(path / JOURNAL) as temporary:  # whole or not at all
            temporary.unlink(missing_ok=True)
            journal = Journal.open(temporary)
            try:
                import_games(path, noted, journal)
            finally:
                journal.close()
    journal = Journal.open(path / JOURNAL)
    if journal.damaged:
        places = f"{journal.damaged} place{'s' if journal.damaged > 1 else ''}"
        print(f"{path / JOURNAL} is damaged in {places}; what was there is played again", file=sys.stderr)
    return journal


def import_games(path: Path, noted: TournamentConfig, journal: Journal) -> None:
    """Take the table of games of a folder, if it has one, into a journal, and from the records the games' actions.

    Args:
        path: the folder.
        noted: its config.
        journal: without any of these games.

    Raises:
        UserError: the table or the records are damaged, or another tournament's.
    """
    table = games_file(path)
    if table is None:
        return
    sessions = read_sessions(path / SESSIONS)
    seconds: dict[str, float] = dict(sessions[-1].get("match_seconds", {})) if sessions else {}
    matches = {match.number: match for match in matches_of(noted)}
    recorded = RecordedActions(path / RECORDS) if noted.records else None
    for number, games in read_games(table, list(matches.values()), noted.seed, noted.rules.target):
        block = Block(number, int(games["pair"][0]), len(games) // 2)
        actions = b"" if recorded is None else recorded.take(matches[number], games)
        journal.append(block, games, seconds.pop(str(number), 0.0), actions)
