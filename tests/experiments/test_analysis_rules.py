"""``cribbage analyse``: the worth of rules, and the search for their weights."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import ttest_1samp

from agents.rule_based import RULE_NAMES, RULES
from experiments.analysis import rules as analysis
from experiments.analysis import weights as search
from experiments.analysis.rules import PairSamples, compare_by_opponent, compare_head_to_head, holm, p_value
from experiments.cli import main
from experiments.config import WeightSearchConfig
from experiments.tournament.statistics import PairTotals


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


# --- Statistics ---------------------------------------------------------------------------------------------


def samples(rng: np.random.Generator, pairs: int, lead: int) -> PairSamples:
    """Ten deals a pair of games, of each part; A has ``lead`` points more than B in each of its parts, a pair."""
    a = rng.integers(20, 60, (pairs, 6))
    b = a - lead + rng.integers(-5, 6, (pairs, 6))
    return PairSamples(rng.integers(0, 3, pairs), np.concatenate([a, -b], axis=1), np.full((pairs, 12), 5))


def test_points_of_a_match() -> None:
    rng = np.random.default_rng(1)
    match = samples(rng, 4_000, lead=10)
    worth = compare_head_to_head(match)
    # 10 points in each of six parts that were counted five times: 2 a deal and part, 12 in two deals
    assert worth.points.estimate.value == pytest.approx(6, abs=0.06)
    assert worth.points.estimate.high - worth.points.estimate.low == pytest.approx(2 * 1.96 * 0.0122, rel=0.05)
    assert worth.points.estimate.value == pytest.approx(match.points.sum() / 5 / 2 / 4_000)
    assert worth.points.p < 1e-12


def test_wins_of_a_match() -> None:
    match = samples(np.random.default_rng(1), 100, lead=0)
    wins = np.repeat([2, 1, 0], [40, 40, 20])
    worth = compare_head_to_head(match._replace(wins=wins))
    assert worth.wins.estimate.value == pytest.approx(0.1)
    assert worth.wins.estimate.low > 0
    assert worth.wins.p == pytest.approx(0.00982, abs=1e-5)  # McNemar: z = 20 / sqrt(60)
    split = compare_head_to_head(match._replace(wins=np.ones(100, np.int64)))
    assert split.wins.estimate.value == 0
    assert split.wins.estimate.low < 0 < split.wins.estimate.high
    assert split.wins.p == 1


def test_difference_against_an_opponent() -> None:
    rng = np.random.default_rng(2)
    without = samples(rng, 3_000, lead=3)
    points = without.points.copy()
    points[:, 0] += rng.integers(0, 3, 3_000)  # one more on average, of five deals: 0.2 in two deals
    wins = np.minimum(2, without.wins + (rng.random(3_000) < 0.1))
    whole = PairSamples(wins, points, without.counted)
    worth = compare_by_opponent(whole, without)
    gained = (wins - without.wins) / 2
    assert worth.wins.estimate.value == pytest.approx(gained.mean())
    assert worth.wins.p == pytest.approx(ttest_1samp(gained, 0).pvalue, rel=1e-6)
    assert worth.points.estimate.value == pytest.approx((points - without.points).sum() / 5 / 2 / 3_000)
    assert worth.points.estimate.value == pytest.approx(0.1, abs=0.005)
    assert worth.points.estimate.high - worth.points.estimate.low < 0.01, "what both matches share is left out"


def test_no_difference_at_all() -> None:
    match = samples(np.random.default_rng(3), 50, lead=1)
    worth = compare_by_opponent(match, match)
    for gain in (worth.wins, worth.points):
        assert gain.estimate == pytest.approx((0, 0, 0), abs=1e-12)
    assert worth.wins.p == 1


def test_p_value_is_that_of_the_t_test() -> None:
    values = np.random.default_rng(4).integers(-3, 5, 30)
    totals = PairTotals(2)
    totals.add(np.column_stack([values, np.ones(30, np.int64)]))
    assert p_value(totals.ratio([0], [1]), 30) == pytest.approx(ttest_1samp(values, 0).pvalue, rel=1e-9)
    one = PairTotals(2)
    one.add(np.array([[3, 1]]))
    assert p_value(one.ratio([0], [1]), 1) == 1


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])  # Holm's step-down, by hand
    assert holm([0.5, 0.4, 0.6]) == [1.0, 1.0, 1.0]
    assert holm([]) == []


# --- The command --------------------------------------------------------------------------------------------


def test_rules_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["analyse", "rules", "--games", "60", "--opponent", "greedy", "--seed", "3", "--output"]
    assert main([*arguments, str(tmp_path / "a")]) == 0
    printed = capsys.readouterr().out
    rows = read(tmp_path / "a" / "rules.csv")
    assert [row["rule"] for row in rows] == list(RULE_NAMES)
    assert all(rule.name in printed for rule in RULES)
    assert "wins, greedy" in printed
    assert "60 games a match on duplicate deals, seed 3" in printed
    assert f"{4 * len(RULES)} comparisons" in printed
    for row, rule in zip(rows, RULES, strict=True):
        assert (row["phase"], float(row["weight"]), row["tip"]) == (rule.phase, rule.weight, rule.tip)
        for name in ("self_wins", "self_points", "opponent_wins", "opponent_points"):
            assert float(row[f"{name}_low"]) <= float(row[name]) <= float(row[f"{name}_high"])
            assert 0 <= float(row[f"{name}_p"]) <= float(row[f"{name}_p_holm"]) <= 1
    by_name = {row["rule"]: row for row in rows}
    assert float(by_name["keep_points"]["self_points_low"]) > 0  # without it hands are thrown away
    assert float(by_name["keep_points"]["opponent_points"]) > 1
    assert "opponent: greedy" in (tmp_path / "a" / "config.yaml").read_text()

    assert main([*arguments, str(tmp_path / "b")]) == 0
    assert (tmp_path / "a" / "rules.csv").read_bytes() == (tmp_path / "b" / "rules.csv").read_bytes()
    assert sorted(path.name for path in (tmp_path / "a").iterdir()) == ["config.yaml", "rules.csv"]


@pytest.fixture
def two_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """An analysis of the first two rules only."""
    monkeypatch.setattr(analysis, "RULES", RULES[:2])


@pytest.mark.usefixtures("two_rules")
def test_against_itself_there_is_one_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["analyse", "rules", "--games", "20", "--opponent", "rule_based", "--output", str(tmp_path)]
    assert main(arguments) == 0
    rows = read(tmp_path / "rules.csv")
    assert len(rows) == 2
    assert "self_wins" in rows[0]
    assert "opponent_wins" not in rows[0]
    assert "4 comparisons" in capsys.readouterr().out


@pytest.mark.usefixtures("two_rules")
def test_results_are_not_overwritten_unasked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["analyse", "rules", "--games", "20", "--output", str(tmp_path)]
    assert main(arguments) == 0
    before = (tmp_path / "rules.csv").read_bytes()
    assert main([*arguments, "--seed", "3"]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (tmp_path / "rules.csv").read_bytes() == before
    assert main([*arguments, "--seed", "3", "--overwrite"]) == 0
    assert (tmp_path / "rules.csv").read_bytes() != before


@pytest.mark.usefixtures("two_rules")
def test_what_was_finished_is_kept_on_ctrl_c(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    played = analysis.play_blocks
    calls = []

    def interrupted(*arguments, **options):  # type: ignore[no-untyped-def]
        calls.append(arguments)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return played(*arguments, **options)

    monkeypatch.setattr(analysis, "play_blocks", interrupted)
    assert main(["analyse", "rules", "--games", "20", "--output", str(tmp_path)]) == 130
    assert [row["rule"] for row in read(tmp_path / "rules.csv")] == ["keep_points"]
    said = capsys.readouterr()
    assert "1 of 2 rules were measured" in said.err
    assert "keep_points" in said.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rules", "--games", "21"], "games: an even number is needed"),
        (["rules", "--games", "0"], "games: must be greater than or equal to 2, got 0"),
        (["rules", "--seed", "-1"], "seed: must be greater than or equal to 0, got -1"),
        (["rules", "--opponent", "gredy"], "unknown agent 'gredy'; did you mean 'greedy'?"),
        (["rules", "--opponent", ""], "opponent"),
        (["weights", "--games", "3"], "games: an even number is needed"),
        (["weights", "--opponent", "rule_based:no_luck"], "unknown option 'luck'"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["analyse", *arguments, "--output", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert message in error
    assert not (tmp_path / "out").exists()


def test_output_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert main(["analyse", "rules", "--games", "20", "--output", str(tmp_path / "file")]) == 2
    assert "can't write to the output folder" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["rulez"], ["rules", "--game", "x"]])
def test_words_that_are_no_analysis(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["analyse", *arguments])
    assert ended.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


# --- The search for weights ---------------------------------------------------------------------------------


def test_search_finds_the_best_weights_of_a_known_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measure with its best at known multiples of the last step, and beyond the limit for one rule."""
    searcher = search.WeightSearch(WeightSearchConfig(opponents=["greedy"], games=2))
    best = {at: (at % 12) / 10 for at in searcher.rules}
    noise = np.random.default_rng(1).normal(0, 100, 500)

    def measure(_: search.WeightSearch) -> NDArray[np.float64]:
        distance = sum((searcher.agent.weights[at] - weight) ** 2 for at, weight in best.items())
        return noise - distance  # the same deals: the noise cancels

    monkeypatch.setattr(search.WeightSearch, "_margins", measure)
    searcher.run()
    for at, rule in enumerate(RULES):
        expected = max(best[at], 0.1) if at in best else rule.weight
        assert searcher.agent.weights[at] == pytest.approx(expected), rule.name


def test_weights_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "FIXED", tuple(name for name in RULE_NAMES if name not in ("feed_fives", "lead_pair")))
    arguments = ["analyse", "weights", "--games", "40", "--opponent", "greedy", "--opponent", "rule_based", "--output"]
    assert main([*arguments, str(tmp_path / "a")]) == 0
    rows = read(tmp_path / "a" / "weights.csv")
    assert [row["rule"] for row in rows] == list(RULE_NAMES)
    for row, rule in zip(rows, RULES, strict=True):
        assert float(row["agent"]) == rule.weight
        if rule.name in ("feed_fives", "lead_pair"):
            assert 0.1 <= float(row["found"]) <= 5
        else:
            assert float(row["found"]) == rule.weight
    assert "feed_fives" in capsys.readouterr().out
    assert main([*arguments, str(tmp_path / "b")]) == 0
    assert (tmp_path / "a" / "weights.csv").read_bytes() == (tmp_path / "b" / "weights.csv").read_bytes()
