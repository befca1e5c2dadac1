"""Sampled boards: the events of deals against the readable game, values against games played, the command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from agents import Agent, AgentError, decision_keys, make_agent, register_agent
from agents.board import DealOutcomes, count_event, load_board_table
from cribbage_env import Game, Rules
from experiments.analysis import board
from experiments.analysis.board import BATCHES, Deals, board_values, check_board, check_positions
from experiments.cli import main
from experiments.tournament.match import game_seeds

TABLES = ("totals", "dealer_first", "pone_first")


class FirstLegal(Agent):
    """Always the first legal action."""

    def __init__(self) -> None:
        super().__init__("first")

    def policy(self, observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.eye(19)[masks.argmax(axis=1)]


class Illegal(FirstLegal):
    """Never a legal action."""

    def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        return masks.argmin(axis=1)


def plain_outcomes(agent: Agent, deals: int, seed: int) -> DealOutcomes:
    """The same deals, one by one."""
    outcomes = DealOutcomes.none()
    for number, game_seed in enumerate(game_seeds(seed, np.arange(deals)).tolist()):
        game = Game(Rules(200), seed=game_seed, dealer=0)
        decision = 0
        while game.deal == 0:
            seen = game.observation()
            keys = decision_keys(seed, np.array([number]), np.array([decision]))
            game.step(int(agent.act(seen["observation"][None], seen["action_mask"][None], keys)[0]))
            decision += 1
        points = [0, 0]
        for event in (one for one in game.events if one.deal == 0):
            who = event.player
            count_event(
                (outcomes.dealer_first, outcomes.pone_first)[who], points[who], event.points, points[1 - who], 1
            )
            points[who] += event.points
        outcomes.totals[points[0], points[1]] += 1
    return outcomes


@pytest.mark.parametrize("spec", ["random", "expected"])
def test_the_events_are_those_of_the_game(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(board, "_SLOTS", 32)
    monkeypatch.setattr(board, "_SEGMENT", 50)
    agent = make_agent(spec)
    sample = Deals(agent, 120, 5)
    ended: list[int] = []
    assert sample.play(ended.append)
    assert sum(ended) == 120
    expected = plain_outcomes(agent, 120, 5)
    for name in TABLES:
        assert (getattr(sample.outcomes, name) == getattr(expected, name)).all()
    assert [batch.deals for batch in sample.batches] == [4] * 24 + [3] * 8
    # the same, however many are played side by side
    monkeypatch.undo()
    again = Deals(agent, 120, 5)
    again.play()
    for one, other in zip(sample.batches, again.batches, strict=True):
        assert all((getattr(one, name) == getattr(other, name)).all() for name in TABLES)


def test_values_agree_with_games_played_from_positions() -> None:
    for reward, rules in (("win", Rules(121)), ("game_points", Rules(61, 31, 11))):
        table = board_values("greedy", 40_000, 3, rules, reward)
        positions = check_positions(table, 12, 1)
        assert positions[0] == (0, 0)
        assert len(set(positions)) == 12
        checks = list(check_board(table, make_agent("greedy"), positions, 2000, 4))
        assert [(check.dealer_score, check.pone_score) for check in checks] == positions
        assert max(abs(check.z) for check in checks) < 4.5
        assert 0.4 < np.mean([check.z**2 for check in checks]) < 2.3
        assert all(check.simulated_error > 0 for check in checks)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "reward"), [("expected", "win"), ("rule_based", "one_two")])
def test_a_hundred_positions(spec: str, reward: str) -> None:
    """Of an agent that does not look at the scores, and one that does: there the board is only close."""
    table = board_values(spec, 1_000_000, 3, reward=reward)  # type: ignore[arg-type]
    checks = list(check_board(table, make_agent(spec), check_positions(table, 100, 1), 10_000, 4))
    z = np.array([check.z for check in checks])
    if spec == "expected":
        assert np.abs(z).max() < 4.5
        assert 0.7 < (z**2).mean() < 1.35
    assert np.abs([check.simulated - check.value for check in checks]).max() < 0.12


def test_standard_errors_are_those_of_repeated_samples() -> None:
    tables = [board_values("random", 1600, seed) for seed in range(12)]
    spread = np.std([table.dealer for table in tables], axis=0, ddof=1)
    stated = np.mean([table.errors for table in tables], axis=0)
    assert np.abs(tables[0].dealer).min() < 0.5
    open_ones = np.abs(tables[0].dealer) < 0.8
    assert 0.8 < (spread[open_ones] / stated[open_ones]).mean() < 1.25


def test_the_shipped_board_is_that_of_expected() -> None:
    shipped = load_board_table()
    fresh = board_values("expected", 60_000, 77)
    z = (fresh.dealer - shipped.dealer) / np.hypot(fresh.errors, shipped.errors)
    apart = np.zeros((121, 121), bool)
    apart[::10, ::10] = True
    apart &= np.abs(shipped.dealer) < 0.9
    assert apart.sum() > 30
    assert np.abs(z[apart]).max() < 5  # t with 31 degrees of freedom


def test_what_can_be_wrong_with_an_agent() -> None:
    with pytest.raises(AgentError, match="'first' chose an illegal action"):
        board_values(Illegal(), 64)
    with pytest.raises(ValueError, match="at least 32 deals"):
        Deals(FirstLegal(), BATCHES - 1, 1)
    with pytest.raises(KeyboardInterrupt):
        board_values(FirstLegal(), 64, stop=lambda: True)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "out"
    argv = ["analyse", "board", "random", "--deals", "500", "--seed", "3", "--output", str(folder)]
    assert main([*argv, "--target", "31", "--reward", "one_two", "--check", "3", "--check-games", "50"]) == 0
    said = capsys.readouterr().out
    assert "500 deals, seed 3" in said
    assert "3 positions checked by 50 games each" in said
    assert sorted(path.name for path in folder.iterdir()) == ["board.npz", "board.png"]
    table = load_board_table(folder / "board.npz")
    assert (table.agent, table.seed, table.reward, table.rules) == ("random", 3, "one_two", Rules(31))
    assert table.outcomes.deals == 500
    assert table.made_with["cribbage-lab"]
    assert (folder / "board.png").read_bytes().startswith(b"\x89PNG")
    before = (folder / "board.npz").read_bytes()
    assert main(argv) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert (folder / "board.npz").read_bytes() == before
    assert main([*argv, "--overwrite"]) == 0
    assert "the dealer wins" in capsys.readouterr().out
    assert load_board_table(folder / "board.npz").rules == Rules()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["nobody"], "nobody"),
        (["random", "--deals", "31"], "deals: must be greater than or equal to 32, got 31"),
        (["random", "--target", "1"], "target must lie between 2 and 200"),
        (["random", "--seed", "-1"], "seed: must be greater than or equal to 0"),
        (["random", "--check-games", "1"], "check_games: must be greater than or equal to 2"),
        (["board-illegal", "--deals", "50"], "chose an illegal action"),
    ],
)
def test_bad_input_is_one_line_and_writes_nothing(
    argv: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    register_agent("board-illegal", Illegal)
    folder = tmp_path / "out"
    assert main(["analyse", "board", *argv, "--output", str(folder)]) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert message in error
    assert not (folder / "board.npz").exists()
