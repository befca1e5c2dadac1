"""What a tournament writes when it has ended: the table of games, ``summary.csv``, ``ratings.csv``, ``win_rates.png``,
``report.html``, and on request the records of all games."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cribbage_env.engine import PARTS
from experiments.config import TournamentConfig, UserError
from experiments.run_folder import replacing
from experiments.tournament.game_records import RECORDS, write_records
from experiments.tournament.games_file import GAMES_FILES, games_writer
from experiments.tournament.html_report import REPORT, MatchCourse, MatchResults, TournamentResults, html_report
from experiments.tournament.journal import Journal
from experiments.tournament.match import Games
from experiments.tournament.plan import Match
from experiments.tournament.ratings_file import RATINGS, pool_ratings, rating_row
from experiments.tournament.round_robin import Tournament
from experiments.tournament.statistics import Estimate, Sprt
from experiments.tournament.summary import AGENTS, MatchSummary

SUMMARY, PICTURE = "summary.csv", "win_rates.png"


def summary_row(number: int, summary: MatchSummary, sprt: Sprt | None = None) -> dict[str, str | int | float]:
    """A match as a row of ``summary.csv``: estimates have columns ``_low`` and ``_high`` for the 95 % interval.

    ``a_win_rate_adjusted`` has luck taken out; ``variance_reduction`` is what that saves in games (see
    :mod:`experiments.tournament.adjustment`). Points are means over whole deals (see :class:`MatchSummary`);
    ``a_dealer`` is what A scores in a whole deal that it deals, the sum over the parts.

    With ``sprt``, the test that may have ended the match, there is how it stands, and ``a_win_rate_stopped``, A's win
    rate as a match tells it that may have been stopped (see :meth:`Sprt.estimate`).
    """
    both, split, none = summary.pair_outcomes
    row: dict[str, str | int | float] = {
        "match": number,
        "a": summary.names[0],
        "b": summary.names[1],
        "games": summary.games,
        "a_wins": summary.wins(0),
        "b_wins": summary.wins(1),
        "pairs_a_won": both,
        "pairs_split": split,
        "pairs_b_won": none,
    }

    def put(name: str, estimate: Estimate) -> None:
        row[name], row[f"{name}_low"], row[f"{name}_high"] = (round(number, 6) for number in estimate)

    put("a_win_rate", summary.win_rate)
    row["a_win_rate_se"] = round(summary.win_rate_error, 6)
    put("a_win_rate_adjusted", summary.adjusted_win_rate)
    row["a_win_rate_adjusted_se"] = round(summary.adjusted_win_rate_error, 6)
    row["luck_coefficient"] = round(summary.luck_coefficient, 6)
    row["variance_reduction"] = round(summary.variance_reduction, 6)
    if sprt is not None:
        state = sprt.state(summary.pair_outcomes)
        row["sprt"] = state.decision
        row["sprt_llr"] = round(state.llr, 6)
        put("a_win_rate_stopped", sprt.estimate(summary.pair_outcomes))
    put("first_dealer_rate", summary.first_dealer_rate)
    put("deals_per_game", summary.deals_per_game)
    for agent, letter in zip(AGENTS, "ab", strict=True):
        row[f"{letter}_skunks"] = summary.skunks(agent)
        row[f"{letter}_double_skunks"] = summary.double_skunks(agent)
        row[f"{letter}_forfeits"] = summary.forfeits(agent)
    for agent, letter in zip(AGENTS, "ab", strict=True):
        put(f"{letter}_dealer", summary.dealer_points(agent))
        put(f"{letter}_pone", summary.pone_points(agent))
        for part, name in enumerate(PARTS):
            put(f"{letter}_{name}", summary.points(agent, part))
    return row


def write_results(
    folder: Path, tournament: Tournament, journal: Journal, noted: TournamentConfig, made: dict[str, Any]
) -> tuple[list[MatchSummary], list[Path]]:
    """Write down what a journal has of a tournament's results; returns the summaries and the files' paths.

    Args:
        folder: where they go.
        tournament: with some whole pairs.
        journal: with its games.
        noted, made: what the folder's ``config.yaml`` says.

    Raises:
        UserError: it could not be written.
    """
    file_format = tournament.config.format
    sprt = None if tournament.config.sprt is None else tournament.config.sprt.test()
    table = folder / GAMES_FILES[file_format]
    matches = []
    records = []
    try:
        with replacing(table) as temporary:
            writer = games_writer(file_format, temporary)
            try:
                for match in tournament.matches:
                    course = MatchCourse(tournament.config.rules.target)

                    def write(games: Games, match: Match = match, course: MatchCourse = course) -> None:
                        writer.write(match.number, match.names, games)
                        course.add(games)

                    if tournament.whole_pairs(journal, match):
                        matches.append(MatchResults(match, tournament.summary(journal, match, write), course))
            finally:
                writer.close()
        for other in set(GAMES_FILES.values()) - {table.name}:
            (folder / other).unlink(missing_ok=True)
        summaries = [one.summary for one in matches]
        with replacing(folder / SUMMARY) as temporary:
            rows = [summary_row(one.match.number, one.summary, sprt) for one in matches]
            temporary.write_text(_table(rows), encoding="utf-8")
        _draw(folder / PICTURE, summaries, tournament.config)
        reports = write_report(folder, TournamentResults(noted, made, matches, pool_ratings(summaries, noted)))
        if tournament.config.records:
            whole = {match: tournament.whole_pairs(journal, match) for match in tournament.matches}
            with replacing(folder / RECORDS) as temporary:
                write_records(temporary, journal, whole, tournament.config)
            records.append(folder / RECORDS)
    except OSError as error:
        raise UserError(
            f"can't write to {str(folder)!r}: {error.strerror or error}; {journal.games:,} games are kept, and the "
            "same command with --resume goes on"
        ) from None
    return summaries, [table, *records, folder / SUMMARY, folder / PICTURE, *reports]


def write_report(folder: Path, results: TournamentResults) -> list[Path]:
    """Write the ratings and the report; returns the paths of what there is.

    Without ratings (matches that do not connect all agents) there is no ``ratings.csv``, and an older one is removed.

    Raises:
        OSError: they can't be written.
    """
    paths = []
    if results.ratings:
        rows = [rating_row(place, rating) for place, rating in enumerate(results.ratings, 1)]
        with replacing(folder / RATINGS) as temporary:
            temporary.write_text(_table(rows), encoding="utf-8")
        paths.append(folder / RATINGS)
    else:
        (folder / RATINGS).unlink(missing_ok=True)
    with replacing(folder / REPORT) as temporary:
        temporary.write_text(html_report(results), encoding="utf-8", newline="\n")
    return [*paths, folder / REPORT]


def _table(rows: Sequence[dict[str, str | int | float]]) -> str:
    """Rows as CSV."""
    text = io.StringIO(newline="")
    table = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()


def _draw(path: Path, summaries: Sequence[MatchSummary], config: TournamentConfig) -> None:
    from experiments.tournament.picture import draw_win_rates  # here, since matplotlib is slow to import

    with replacing(path) as temporary:
        draw_win_rates(temporary, summaries, config)
