"""The report of a tournament: one HTML file that needs no other and loads nothing, for a desktop, a phone and paper.

It follows from the games and ``config.yaml`` alone, so the same results give the same bytes. ``results.py`` is what it
tells of. ``page.py`` lists its sections, which are in ``strength.py``, ``games.py``, ``certainty.py`` and
``repeat.py``; ``charts.py`` is how they draw, ``notes.py`` what they explain, ``style.css`` how all looks.
"""

from experiments.tournament.html_report.course import MatchCourse
from experiments.tournament.html_report.page import REPORT, html_report
from experiments.tournament.html_report.results import MatchResults, TournamentResults

__all__ = ["REPORT", "MatchCourse", "MatchResults", "TournamentResults", "html_report"]
