"""report.html and ratings.csv: what is in them, that it is what summary.csv says, and that any result can be shown."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from html.parser import HTMLParser
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.cli import main
from experiments.config import TournamentConfig, UserError
from experiments.results import load_ratings, load_summary
from experiments.tournament.comparisons import compare
from experiments.tournament.html_report import MatchCourse, MatchResults, TournamentResults, html_report
from experiments.tournament.html_report.charts import (
    Axis,
    axis_of_most,
    bin_width,
    difference_panel,
    difference_shares,
    interval_row,
    win_rate_panel,
)
from experiments.tournament.html_report.markup import Markup, element
from experiments.tournament.html_report.parts import labels, plain, portable
from experiments.tournament.match import GAME_DTYPE, Games
from experiments.tournament.plan import matches_of
from experiments.tournament.ratings_file import pool_ratings
from experiments.tournament.report import report
from experiments.tournament.statistics import ConfidenceSequence, Estimate, adjusted_p_values
from experiments.tournament.summary import MatchSummary

VOID = {"meta", "br", "hr", "wbr"}
STYLE = Path(__file__).resolve().parents[2] / "experiments/tournament/html_report/style.css"


class Page(HTMLParser):
    """A report as its elements: refuses tags that do not close each other, and gathers what tests ask for."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.items: list[str] = []
        self._caption = ""
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in VOID:
            return
        self.open.append(tag)
        if tag == "caption":
            self._caption = ""
        elif tag == "tr":
            self.tables.setdefault(self._caption, []).append([])
        elif tag in ("th", "td"):
            self.tables[self._caption][-1].append("")
        elif tag == "li":
            self.items.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without a start"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)
        if "caption" in self.open:
            self._caption += data
        elif "td" in self.open or "th" in self.open:
            self.tables[self._caption][-1][-1] += data
        elif "li" in self.open and "svg" not in self.open:
            self.items[-1] += data

    def table(self, caption: str) -> list[dict[str, str]]:
        """The rows of the table whose caption begins so, by column."""
        rows = next(rows for name, rows in self.tables.items() if name.startswith(caption))
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def fake_games(
    pairs: int,
    rate: float,
    seed: int,
    *,
    target: int = 121,
    split: bool = False,
    skunk_lines: tuple[int, int] = (91, 61),
    luck: bool = True,
) -> Games:
    """Games that nobody played: A wins so many of them, and all columns that the report looks at are filled."""
    generator = np.random.default_rng(seed)
    games = np.zeros(2 * pairs, GAME_DTYPE)
    games["pair"] = np.arange(2 * pairs) // 2
    games["a_seat"] = np.arange(2 * pairs) % 2
    games["winner"] = np.arange(2 * pairs) % 2 if split else generator.random(2 * pairs) >= rate
    games["first_dealer"] = np.repeat(generator.integers(0, 2, pairs), 2)
    games["forfeit"] = -1
    loser = generator.integers(target // 3, target, 2 * pairs)
    games["scores"][np.arange(2 * pairs), games["winner"]] = target
    games["scores"][np.arange(2 * pairs), 1 - games["winner"]] = loser
    games["skunk"] = (loser < skunk_lines[0]).astype(int) + (loser < skunk_lines[1])
    games["deals"] = generator.integers(7, 12, 2 * pairs)
    games["decisions"] = 10 * games["deals"]
    if target > 60:
        games["counted"] = 3
        games["points"] = generator.integers(2, 20, games["points"].shape)
    if luck:
        games["luck"] = generator.normal(0, 200_000, 2 * pairs).astype(np.int32)
    return games


def results_of(config: TournamentConfig, games: Sequence[Games]) -> TournamentResults:
    """The results of a tournament whose matches have these games; none where there are none."""
    matches = []
    for match, some in zip(matches_of(config), games, strict=True):
        if len(some):
            one = MatchResults(match, MatchSummary(match.names), MatchCourse(config.rules.target))
            one.summary.add(some)
            one.course.add(some)
            matches.append(one)
    made = {"cribbage-lab": "0.1.0", "commit": "c0ffee", "uncommitted_changes": False, "python": "3.11.1"}
    return TournamentResults(config, made, matches, pool_ratings([one.summary for one in matches], config))


def tournament(names: Sequence[str], pairs: int = 50, **settings: object) -> TournamentResults:
    """A tournament of agents of which each is a bit better than the one before."""
    config = TournamentConfig.model_validate(
        {"agents": [{"spec": "greedy", "name": name} for name in names], "games": 2 * pairs} | settings
    )
    places = combinations(range(len(names)), 2)
    games = [
        fake_games(pairs, 0.5 - 0.4 * (b - a) / len(names), seed, target=config.rules.target)
        for seed, (a, b) in enumerate(places)
    ]
    if config.sprt is not None:  # matches end where the test ends them
        rule = config.sprt.test().first_decision
        wins = [(one["winner"] == 0).reshape(-1, 2).sum(axis=1) for one in games]
        games = [one[: 2 * (rule(won) or pairs)] for one, won in zip(games, wins, strict=True)]
    return results_of(config, games)


def results_label(results: TournamentResults, name: str) -> str:
    """What an agent is called in the report."""
    return labels([entrant.name or entrant.spec for entrant in results.config.agents]).get(name, name)


def check(results: TournamentResults) -> Page:
    """The report, with what must be true of every one."""
    text = html_report(results)
    assert text == html_report(results)
    page = Page(text)
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids)) == 9
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "img", "iframe", "object", "base", "form")
        assert not {"src", "srcset", "xlink:href", "onload", "onclick"} & attributes.keys()
        if "href" in attributes:
            assert (attributes["href"] or "").removeprefix("#") in ids
        if tag == "svg":  # pictures have a text in their place, or stand beside one
            assert attributes.get("aria-hidden") == "true" or (
                attributes["role"] == "img" and len(attributes["aria-label"] or "") > 20
            )
    style = text[text.index("<style>") : text.index("</style>")]
    assert not re.search(r"url\(|@import|http", style)
    assert "://" not in text
    assert not re.search(r"\b(nan|inf|None)\b", text)
    words = "".join(page.text)
    for one in results.matches:
        for name in one.summary.names:
            assert results_label(results, name) in words
    return page


# What is in it


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small tournament that was really played."""
    path = tmp_path_factory.mktemp("report") / "small"
    config = path.parent / "small.yaml"
    config.write_text(
        "agents: [random, greedy, {spec: expected, games: 40}]\ngames: 120\nname: small\nanchor: greedy\nseed: 4\n"
    )
    assert main(["tournament", str(config), "--output", str(path)]) == 0
    return path


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def rate_text(row: dict[str, str], name: str) -> str:
    value, low, high = (plain(100 * float(row[f"{name}{end}"]), 1) for end in ("", "_low", "_high"))
    return f"{value} % [{low}, {high}]"


def test_figures_are_those_of_summary_csv(folder: Path) -> None:
    page = Page((folder / "report.html").read_text())
    summary = rows_of(folder / "summary.csv")
    matches = page.table("Every match")
    skunks = page.table("Skunks")
    luck = page.table("A's win rate before and after")
    assert len(matches) == len(summary) == 3
    p_values = adjusted_p_values(
        [tuple(int(row[key]) for key in ("pairs_a_won", "pairs_split", "pairs_b_won")) for row in summary]
    )
    for row, shown, skunked, adjusted, p_value in zip(summary, matches, skunks, luck, p_values, strict=True):
        name = f"{row['a']} – {row['b']}"
        assert shown["match (A – B)"] == skunked["match (A – B)"] == adjusted["match (A – B)"] == name
        assert shown["games"] == f"{int(row['games']):,}"
        assert shown["A wins"] == adjusted["A wins, plain"] == rate_text(row, "a_win_rate")
        assert shown["luck taken out"] == adjusted["luck taken out"] == rate_text(row, "a_win_rate_adjusted")
        assert shown["won/split/lost"] == row["pairs_a_won"] + row["pairs_split"] + row["pairs_b_won"]
        assert shown["p"].endswith("*") == (p_value < 0.05)
        games = int(row["games"])
        for agent in "ab":
            letter = agent.upper()
            assert skunked[f"skunks by {letter}"] == f"{100 * int(row[f'{agent}_skunks']) / games:.1f} %"
            assert skunked[f"double by {letter}"] == f"{100 * int(row[f'{agent}_double_skunks']) / games:.2f} %"
        half = (float(row["deals_per_game_high"]) - float(row["deals_per_game_low"])) / 2
        assert skunked["deals a game"] == f"{float(row['deals_per_game']):.2f} ±{half:.2f}"
        if float(row["variance_reduction"]) > 0:
            assert adjusted["worth"] == f"{float(row['variance_reduction']):.2f} ×"
        assert name + rate_text(row, "first_dealer_rate") in page.items
        assert f"A wins {rate_text(row, 'a_win_rate')}, at all times" in "".join(page.text)

    points = {(row["agent"], row["against"]): row for row in points_rows(page)}
    for row in summary:
        for agent, one, other in (("a", row["a"], row["b"]), ("b", row["b"], row["a"])):
            shown = points[one, other]
            for role in ("dealer", "pone"):
                half = (float(row[f"{agent}_{role}_high"]) - float(row[f"{agent}_{role}_low"])) / 2
                assert shown[f"as {role}"] == f"{float(row[f'{agent}_{role}']):.2f} ±{half:.2f}"
            for name, part in (("heels", "heels"), ("play", "play_dealer"), ("hand", "hand_dealer"), ("crib", "crib"),
                               ("play as pone", "play_pone"), ("hand as pone", "hand_pone")):  # fmt: skip
                assert shown[name] == f"{float(row[f'{agent}_{part}']):.2f}", part


def points_rows(page: Page) -> list[dict[str, str]]:
    rows = page.tables["Mean points in a whole deal"]
    head = [*rows[0][:-2], "play as pone", "hand as pone"]
    return [dict(zip(head, row, strict=True)) for row in rows[1:]]


def test_the_cross_table_has_both_sides_and_the_marks(folder: Path) -> None:
    page = Page((folder / "report.html").read_text())
    rows = page.tables["Win rate of the row's agent against the column's, with its 95 % interval"]
    names = [re.sub(r"^\d ", "", row[0]) for row in rows[1:]]
    assert names == [row["agent"] for row in rows_of(folder / "ratings.csv")]
    met = {frozenset((row["a"], row["b"])): row for row in rows_of(folder / "summary.csv")}
    p_values = {row["match (A – B)"]: row["p"] for row in page.table("Every match")}
    for i, name in enumerate(names):
        for j, other in enumerate(names):
            cell = rows[1 + i][1 + j]
            if i == j:
                assert cell == ""
                continue
            row = met[frozenset((name, other))]
            low, value, high = (float(row[f"a_win_rate{end}"]) for end in ("_low", "", "_high"))
            if row["a"] == other:
                low, value, high = 1 - high, 1 - value, 1 - low
            mark = "*" if p_values[f"{row['a']} – {row['b']}"].endswith("*") else ""
            assert cell == f"{100 * value:.1f}{mark} {100 * low:.1f}–{100 * high:.1f}"


def test_ratings_are_those_of_ratings_csv(folder: Path) -> None:
    page = Page((folder / "report.html").read_text())
    ratings = rows_of(folder / "ratings.csv")
    assert [row["place"] for row in ratings] == ["1", "2", "3"]
    assert [row for row in ratings if float(row["rating_low"]) == float(row["rating_high"])] == [
        next(row for row in ratings if row["agent"] == "greedy")
    ]
    assert {row["agent"]: row["games"] for row in ratings} == {"random": "160", "greedy": "160", "expected": "80"}
    values = [float(row["rating"]) for row in ratings]
    assert values == sorted(values, reverse=True)
    for row in ratings:
        ends = [plain(float(row[f"rating{end}"]), 0) for end in ("", "_low", "_high")]
        shown = "0 (anchor)" if row["agent"] == "greedy" else f"{ends[0]} [{ends[1]}, {ends[2]}]"
        assert row["agent"] + shown in page.items


def test_what_made_it_is_told_and_no_path_of_the_machine(folder: Path) -> None:
    text = (folder / "report.html").read_text()
    words = "".join(Page(text).text)
    assert "anchor: greedy\n" in words
    assert "games: 120\n" in words
    assert "numba" in words
    assert str(folder.parent) not in text
    assert str(Path.home()) not in text
    assert not re.search(r"20\d\d-\d\d-\d\d", text)  # no time of day, no date


def test_an_absolute_path_is_shortened() -> None:
    assert portable("/data/somebody/runs/x/checkpoint.pt") == "…/x/checkpoint.pt"
    assert portable("runs/x/checkpoint.pt") == "runs/x/checkpoint.pt"
    assert portable("best:weights=/data/a/b.npz,depth=3") == "best:weights=…/a/b.npz,depth=3"
    assert portable("greedy:depth=3") == "greedy:depth=3"
    assert labels(["/a/x/c.pt", "/b/x/c.pt", "/b/y/c.pt"]) == {
        "/a/x/c.pt": "/a/x/c.pt", "/b/x/c.pt": "/b/x/c.pt", "/b/y/c.pt": "…/y/c.pt"
    }  # fmt: skip
    config = TournamentConfig.model_validate({"agents": ["/data/me/runs/x/checkpoint.pt", "greedy"], "games": 40})
    text = html_report(results_of(config, [fake_games(20, 0.5, 1)]))
    assert "/data/me" not in text
    assert "…/x/checkpoint.pt" in text


def test_the_same_results_give_the_same_bytes(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: (folder / name).read_bytes() for name in ("report.html", "ratings.csv")}
    for name in before:
        (folder / name).unlink()
    assert main(["report", str(folder)]) == 0
    assert capsys.readouterr().out.split() == ["written:", *(str(folder / n) for n in ("ratings.csv", "report.html"))]
    assert {name: (folder / name).read_bytes() for name in before} == before
    (folder / "report.html").unlink()
    config = folder.parent / "small.yaml"
    assert main(["tournament", str(config), "--output", str(folder), "--resume", "batch=7"]) == 0
    assert (folder / "ratings.csv").read_bytes() == before["ratings.csv"]
    again = (folder / "report.html").read_text()
    assert again.replace("batch: 7", "batch: 4096") == before["report.html"].decode()
    assert main(["tournament", str(config), "--output", str(folder), "--resume"]) == 0
    assert (folder / "report.html").read_bytes() == before["report.html"]


def test_another_anchor_on_resume_moves_the_ratings(folder: Path, tmp_path: Path) -> None:
    config = folder.parent / "small.yaml"
    before = {row["agent"]: float(row["rating"]) for row in rows_of(folder / "ratings.csv")}
    assert main(["tournament", str(config), "--output", str(folder), "--resume", "anchor=random"]) == 0
    after = {row["agent"]: float(row["rating"]) for row in rows_of(folder / "ratings.csv")}
    assert after["random"] == 0
    assert after["expected"] - after["greedy"] == pytest.approx(before["expected"] - before["greedy"], abs=0.01)
    assert main(["tournament", str(config), "--output", str(folder), "--resume"]) == 0


def test_the_terminal_has_ratings_and_marks(folder: Path) -> None:
    from experiments.tournament.report_command import read_results

    results = read_results(folder)
    printed = report(results.summaries, results.config)
    clear = [one.clear for one in compare(results.summaries, results.config)]
    cross = printed[printed.index("win rate against") : printed.index("* not 50 %")]
    assert cross.count("%*") == 2 * sum(clear) > 0
    assert "correction for 3 comparisons (Holm)" in printed
    assert "greedy is the anchor" in printed
    two = results_of(TournamentConfig(agents=["random", "greedy"], games=40), [fake_games(20, 0.3, 1)])  # type: ignore[list-item]
    assert "anchor" not in report(two.summaries, two.config)


# Any result can be shown

ODD = ["<script>alert(1)</script>", "a & b", "\"quoted\" 'name'", "</style></title><b>", "&lt;&amp;", "ünï 漢字 🂡"]


def test_names_are_escaped() -> None:
    page = check(tournament(ODD))
    titles = {value for tag, attributes in page.tags for name, value in attributes.items() if name == "title"}
    assert set(ODD) <= titles
    labels_ = [attributes.get("aria-label") or "" for tag, attributes in page.tags if tag == "svg"]
    assert any(ODD[0] in label for label in labels_)


def test_long_names() -> None:
    names = [f"{letter}" * 60 for letter in "wxyz"] + ["…".join("/_:=" * 15)]
    check(tournament(names))


@pytest.mark.parametrize("pairs", [1, 2, 3, 40])
def test_two_agents(pairs: int) -> None:
    page = check(tournament(["one", "other"], pairs))
    assert len(page.table("Every match")) == 1
    assert not any(name.startswith("Win rate of the row") for name in page.tables)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_everything_won(rate: float) -> None:
    config = TournamentConfig.model_validate({"agents": ["random", "greedy", "expected"], "games": 60})
    page = check(results_of(config, [fake_games(30, rate, seed) for seed in range(3)]))
    assert "∞" in "".join(page.text)


def test_every_pair_split() -> None:
    config = TournamentConfig.model_validate({"agents": ["greedy", "greedy"], "games": 60})
    page = check(results_of(config, [fake_games(30, 0.5, 1, split=True, luck=False)]))
    (row,) = page.table("Every match")
    assert row["A wins"].startswith("50.0 % [")
    assert row["p"] == "1.0000"
    assert "luck: false" in "".join(page.text)


@pytest.mark.parametrize("target", [2, 31, 61, 121, 200])
def test_any_target(target: int) -> None:
    page = check(tournament(["one", "two", "three"], rules={"target": target}))
    assert ("No deals could be counted" in "".join(page.text)) == (target <= 60)


def test_many_agents_are_drawn_in_part() -> None:
    results = tournament([f"agent {number}" for number in range(12)], 30)
    page = check(results)
    assert "Of 66 matches the 45 closest are drawn" in "".join(page.text)
    assert sum(attributes.get("class") == "panel" for tag, attributes in page.tags if tag == "svg") == 2 * 45
    assert len(page.table("Every match")) == 66
    far = [abs(one.summary.win_rate.value - 0.5) for one in results.matches]
    assert max(abs(one.summary.win_rate.value - 0.5) for one in results.drawn()) <= sorted(far)[45]


def test_matches_that_do_not_connect_the_agents_have_no_ratings() -> None:
    config = TournamentConfig.model_validate({"agents": ["random", "greedy", "expected", "rule_based"], "games": 40})
    games = [fake_games(20, 0.4, seed) if seed in (0, 5) else np.zeros(0, GAME_DTYPE) for seed in range(6)]
    results = results_of(config, games)
    page = check(results)
    assert results.ratings == []
    assert "do not connect all agents" in "".join(page.text)
    assert "80 (so far, of 240)" in "".join(page.text)


def test_a_tournament_with_an_early_stop_shows_corrected_rates() -> None:
    sprt = {"rate0": 0.5, "rate1": 0.6, "check_every": 10}
    results = tournament(["one", "two", "three"], 200, sprt=sprt)
    page = check(results)
    test = results.config.sprt.test()  # type: ignore[union-attr]
    for one, row, stop in zip(results.matches, page.table("Every match"), page.table("Where the seq"), strict=True):
        corrected = test.estimate(one.summary.pair_outcomes)
        assert row["A wins"].startswith(f"{100 * corrected.value:.1f} % [")
        assert stop["corrected"] == row["A wins"]
        assert stop["A wins, plain"].startswith(f"{100 * one.summary.win_rate.value:.1f} % [")
        assert "p" not in row
        assert stop["SPRT"] == "accept H0"
        assert int(stop["pairs"]) == one.summary.pairs < 200
    assert f"{results.games:,} (of 1,200 at most)" in "".join(page.text)
    assert all(row["clear"] in ("*", "no") for row in page.table("Every match"))


def test_forfeits_are_told() -> None:
    games = fake_games(20, 0.5, 3)
    games["forfeit"][:4] = 1 - games["winner"][:4]
    config = TournamentConfig.model_validate({"agents": ["random", "greedy"], "games": 40})
    summary = results_of(config, [games]).matches[0].summary
    page = check(results_of(config, [games]))
    lost = [item for item in page.items if "illegal actions" in item]
    counts = [int(re.search(r"lost (\d+) of 40", item).group(1)) for item in lost]  # type: ignore[union-attr]
    assert sum(counts) == 4
    assert counts == [count for count in (summary.forfeits(0), summary.forfeits(1)) if count]


def test_size() -> None:
    names = [f"a rather long name of an agent, number {number}" for number in range(6)]
    small, large = tournament(names, 1_000), tournament(names, 100_000)
    sizes = [len(html_report(results).encode()) for results in (small, large)]
    assert sizes[1] < 400_000  # 1.5 MB is the most that it may have
    assert sizes[1] < 1.3 * sizes[0]


# Its parts


@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=400),
    st.lists(st.integers(1, 60), min_size=1, max_size=20),
)
def test_the_course_is_that_of_the_outcomes(outcomes: list[int], pieces: list[int]) -> None:
    games = np.zeros(2 * len(outcomes), GAME_DTYPE)
    games["winner"] = 1 - np.array([[wins >= 1, wins == 2] for wins in outcomes], np.int8).ravel()
    games["scores"] = (121, 100)
    whole, parts = MatchCourse(121), MatchCourse(121)
    whole.add(games)
    start, turn = 0, 0
    while start < len(games):
        end = start + 2 * pieces[turn % len(pieces)]
        parts.add(games[start:end])
        start, turn = end, turn + 1
    assert np.array_equal(whole.counts, parts.counts)
    assert np.array_equal(whole.differences, parts.differences)
    pairs = whole.counts.sum(axis=1)
    assert pairs[-1] == len(outcomes)
    assert np.all(np.diff(pairs) > 0)
    for number, counts in zip(pairs, whole.counts, strict=True):
        assert counts.tolist() == [outcomes[:number].count(wins) for wins in (2, 1, 0)]


def test_the_course_of_a_long_match_is_short() -> None:
    course = MatchCourse(121)
    for seed in range(10):
        course.add(fake_games(30_000, 0.5, seed))
    assert len(course.counts) < 220
    steps = np.diff(np.log(course.counts.sum(axis=1)[60:]))
    assert steps.max() < 0.07


@pytest.mark.parametrize(("target", "width"), [(2, 1), (31, 5), (61, 5), (121, 10), (200, 20)])
def test_bins_of_score_differences(target: int, width: int) -> None:
    assert bin_width(target) == width
    course = MatchCourse(target)
    games = fake_games(500, 0.5, 1, target=max(target, 3))
    differences = np.random.default_rng(2).integers(1, target + 1, len(games)) * (1 - 2 * games["winner"])
    games["scores"][:, 0] = np.where(differences > 0, target, target + differences)
    games["scores"][:, 1] = np.where(differences > 0, target - differences, target)
    course.add(games)
    shares = difference_shares(course, width)
    sides = len(shares) // 2
    for k in range(sides):
        low, high = k * width + 1, (k + 1) * width
        for shown, side in ((shares[sides + k], differences), (shares[sides - 1 - k], -differences)):
            assert shown == pytest.approx(np.mean((side >= low) & (side <= high)))
    assert shares.sum() == pytest.approx(1)


def test_skunks_are_darker() -> None:
    course = MatchCourse(121)
    games = fake_games(2_000, 0.5, 1)
    course.add(games)
    page = Page(difference_panel(course, (91, 61), "a histogram"))
    bars = [attributes for tag, attributes in page.tags if tag == "rect"]
    titles = [text for text in page.text if "won by" in text]
    shares = [0.0, 0.0, 0.0]
    for bar, title in zip(bars, titles, strict=True):
        low, high, share = re.search(r"won by (\d+) to (\d+): ([\d.]+) %", title).groups()  # type: ignore[union-attr]
        level = int(str(bar["class"])[-1])
        assert level == (int(low) > 30) + (int(low) > 60), (low, high)
        shares[level] += float(share)
    for level in range(3):
        assert shares[level] == pytest.approx(100 * np.mean(games["skunk"] == level), abs=0.5)


def test_the_curve_ends_where_the_match_ended() -> None:
    course = ConfidenceSequence(
        np.array([1, 10, 100]), np.array([1.0, 0.4, 0.6]), np.array([0.0, 0.1, 0.45]), np.array([1.0, 0.8, 0.75])
    )
    page = Page(win_rate_panel(course, Estimate(0.6, 0.52, 0.68), "a curve"))
    ticks = [(float(attributes["y1"] or 0)) for tag, attributes in page.tags if attributes.get("class") == "grid"]
    values = [float(text.split()[0]) for text in page.text if text.endswith("%")]
    slope = (ticks[-1] - ticks[0]) / (values[-1] - values[0])
    dot = next(attributes for tag, attributes in page.tags if tag == "circle")
    assert (float(dot["cy"] or 0) - ticks[0]) / slope + values[0] == pytest.approx(60, abs=0.1)
    whisker = next(attributes for tag, attributes in page.tags if attributes.get("class") == "whisker")
    for end, value in (("y1", 52), ("y2", 68)):
        assert (float(whisker[end] or 0) - ticks[0]) / slope + values[0] == pytest.approx(value, abs=0.1)
    line = next(attributes["d"] or "" for tag, attributes in page.tags if attributes.get("class") == "curve")
    points = [tuple(map(float, point.split())) for point in line[1:].split("L")]
    assert len(points) == 3
    assert points[-1] == pytest.approx((float(dot["cx"] or 0), float(dot["cy"] or 0)), abs=0.1)
    assert all(0 <= x <= 340 and 0 <= y <= 190 for x, y in points)


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.integers(2, 9))
def test_ticks_are_round_and_inside(low: float, length: float, most: int) -> None:
    axis = Axis(low, low + length)
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    steps = np.diff(ticks)
    if len(steps):
        assert np.allclose(steps, steps[0])
        leading = steps[0] / 10 ** np.floor(np.log10(steps[0]) + 1e-9)
        assert min(abs(leading - digit) for digit in (1, 2, 5, 10)) < 1e-3
    assert all(axis.low - 1e-6 * length <= tick <= axis.high + 1e-6 * length for tick in ticks)


def test_one_far_away_is_left_outside() -> None:
    near = [Estimate(value, value - 20, value + 20) for value in (800.0, 830.0, 860.0, 900.0)]
    far = Estimate(0.0, 0.0, 0.0)
    axis = axis_of_most([*near, far], 40)
    assert 700 < axis.low < 780
    assert "◀" in interval_row(far, axis, 0.0)
    assert "circle" in interval_row(near[0], axis, 0.0)
    assert axis_of_most([near[0], far], 40).low < 0  # of two, both are shown
    endless = Estimate(-500.0, -np.inf, 100.0)
    assert axis_of_most([*near, endless], 40).low < -500
    assert "nan" not in interval_row(Estimate(np.nan, np.nan, np.nan), axis)


def test_markup_escapes_what_is_no_markup() -> None:
    assert element("p", "<b>", Markup("<i>x</i>"), None, [["a", "&"]], class_='"', data_x=1.5) == (
        '<p class="&quot;" data-x="1.5">&lt;b&gt;<i>x</i>a&amp;</p>'
    )
    assert element("line", x1=-0.001, x2=2.0) == '<line x1="0" x2="2"/>'
    assert element("meta", charset="utf-8") == '<meta charset="utf-8">'


# Colours


def colours() -> list[dict[str, tuple[float, ...]]]:
    """The variables of both schemes, as red, green and blue from 0 to 1."""
    schemes = []
    for block in re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.S):
        found = re.findall(r"--([\w-]+): #([0-9a-f]{6})\b", block)
        schemes.append({name: tuple(int(text[at : at + 2], 16) / 255 for at in (0, 2, 4)) for name, text in found})
    return schemes


def contrast(one: Sequence[float], other: Sequence[float]) -> float:
    """The contrast ratio of WCAG 2."""

    def luminance(colour: Sequence[float]) -> float:
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in colour]
        return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_text_can_be_read_in_both_schemes() -> None:
    schemes = colours()
    assert len(schemes) == 2
    for scheme in schemes:
        for text in ("ink", "soft", "link"):
            assert contrast(scheme[text], scheme["page"]) >= 4.5, text
        assert contrast(scheme["ink"], scheme["panel"]) >= 4.5
        for full in ("win", "loss"):
            for share in np.linspace(0, 1, 21):  # color-mix in srgb
                mixed = share * np.array(scheme[full]) + (1 - share) * np.array(scheme["even"])
                assert contrast(scheme["ink"], mixed) >= 4.5, (full, share)
        for name in ("a", "b"):
            assert contrast(scheme["ink"], scheme[name]) >= 4.5, name
            for level in (1, 2):
                assert contrast(scheme["page"], scheme[f"{name}-{level}"]) >= 4.5, (name, level)
        assert contrast(scheme["curve"], scheme["page"]) >= 3
    for part in re.findall(r"\.part-\w+ \{ fill: #([0-9a-f]{6})", STYLE.read_text()):
        assert contrast([int(part[at : at + 2], 16) / 255 for at in (0, 2, 4)], [0x11 / 255] * 3) >= 4.5, part


# The command and the tables


def test_the_ratings_as_a_table(folder: Path, tmp_path: Path) -> None:
    table = load_ratings(folder)
    assert table["agent"].tolist() == [row["agent"] for row in rows_of(folder / "ratings.csv")]
    assert table["rating"].dtype == np.float64
    assert table.loc[table["agent"] == "greedy", "rating"].item() == 0.0
    with pytest.raises(UserError, match=r"there is no ratings\.csv"):
        load_ratings(tmp_path)
    (tmp_path / "ratings.csv").write_text("place,agent,rating,rating_low,rating_high,games\n1,nan,12,-inf,inf,4\n")
    assert load_ratings(tmp_path).to_numpy().tolist() == [[1, "nan", 12, -np.inf, np.inf, 4]]
    (tmp_path / "ratings.csv").write_text("place,agent,rating,rating_low,rating_high,games\n1,nan,12,-inf,x,4\n")
    with pytest.raises(UserError, match="line 2: rating_high must be a number, got 'x'"):
        load_ratings(tmp_path)


def test_a_stopped_tournament_is_loaded_and_reported(tmp_path: Path) -> None:
    config = tmp_path / "sprt.yaml"
    config.write_text(
        "agents: [random, greedy]\ngames: 2000\nluck: false\nsprt: {rate0: 0.4, rate1: 0.5, check_every: 10}\n"
    )
    out = tmp_path / "out"
    assert main(["tournament", str(config), "--output", str(out)]) == 0
    assert load_summary(out)["sprt"].tolist() == ["accept H0"]
    before = (out / "report.html").read_bytes()
    assert main(["report", str(out)]) == 0
    assert (out / "report.html").read_bytes() == before
    assert "accept H0" in before.decode()


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert captured.err.count("\n") == 1
    return captured.err


def test_bad_folders(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no results of a tournament" in error_of(capsys, "report", str(tmp_path / "missing"))
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in ("config.yaml", "summary.csv", "games.csv"):
        (copy / name).write_bytes((folder / name).read_bytes())
    games = (copy / "games.csv").read_text().splitlines(keepends=True)
    (copy / "games.csv").write_text("".join(games[:-2]))
    assert "does not fit summary.csv: of match 3 it has 38 games, summary.csv counts 40" in error_of(
        capsys, "report", str(copy)
    )
    (copy / "games.csv").write_text("".join(games[:-1]))
    assert "the pair's second game is missing" in error_of(capsys, "report", str(copy))
    (copy / "games.csv").write_text("".join([*games[:5], games[5].replace(",", ";", 1), *games[6:]]))
    assert "line 6" in error_of(capsys, "report", str(copy))
    (copy / "games.csv").write_text(games[0])
    assert "there are no games" in error_of(capsys, "report", str(copy))
    (copy / "games.csv").unlink()
    assert "no table of games" in error_of(capsys, "report", str(copy))
    assert not (copy / "report.html").exists()
    (copy / "games.csv").write_text("".join(games))
    (copy / "summary.csv").unlink()  # the games are enough
    assert main(["report", str(copy)]) == 0
    assert (copy / "report.html").read_bytes() == (folder / "report.html").read_bytes()


def test_an_anchor_must_take_part(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "small.yaml"
    config.write_text("agents: [random, greedy]\ngames: 4\nanchor: expected\n")
    said = error_of(capsys, "tournament", str(config), "--output", str(tmp_path / "out"))
    assert "anchor: must be the name of one of the agents, random, greedy; got 'expected'" in said
    assert not (tmp_path / "out").exists()
