"""The report of a tournament: one HTML file that needs no other and loads nothing, for a desktop, a phone and paper.

It follows from the games and ``config.yaml`` alone, so the same results give the same bytes. ``results.py`` is what it
tells of, ``sections.py`` what it says, ``charts.py`` how it draws, ``style.css`` how it looks.
"""

from experiments.tournament.html_report.course import MatchCourse
from experiments.tournament.html_report.page import REPORT, html_report
from experiments.tournament.html_report.results import MatchResults, TournamentResults

__all__ = ["REPORT", "MatchCourse", "MatchResults", "TournamentResults", "html_report"]
