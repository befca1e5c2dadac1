"""The command `cribbage play`: a person's words, through pipes, and what is kept of the game."""

from __future__ import annotations

import io
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cribbage_env import Game, Rules, card_text, cards_text
from cribbage_env.records import read_records, replay
from experiments import play
from experiments.cli import main

AGENT = """
import numpy as np
from agents import Agent, register_agent

class {name}(Agent):
    def __init__(self):
        super().__init__("{name}")
    def policy(self, observations, masks):
        raise NotImplementedError
    def act(self, observations, masks, keys=None):
        {body}

register_agent("{name}", {name})
"""


def printed(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Standard output, and standard error but for the notice that kernels are being compiled."""
    captured = capsys.readouterr()
    return captured.out, re.sub(r"Compiling the engine .*\n", "", captured.err)


def play_with(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str, *argv: str, code: int = 0
) -> str:
    """What `cribbage play` prints to a person who says these lines."""
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdin", io.StringIO(said))
    assert main(["play", *argv]) == code
    out, err = printed(capsys)
    assert err == ""
    return out


def error_of(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    capsys.readouterr()
    assert main(["play", *argv]) == 2
    out, err = printed(capsys)
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def words_of(seed: int, target: int, dealer: int, agent: str = "greedy") -> str:
    """What somebody says who always takes their first legal action against an agent, through a whole game."""
    from agents import make_agent
    from experiments.tournament.caller import Caller

    game = Game(Rules(target), seed, dealer)
    caller = Caller(make_agent(agent), ("you", agent))
    words = []
    while game.player is not None:
        legal = game.legal_actions()
        if game.player == 1:
            game.step(play._agents_action(game, caller))
            continue
        if game.phase == "discard" or len(legal) > 1:
            words.append(game.action_text(legal[0]).split(" ", 1)[1])
        game.step(legal[0])
    return "\n".join(words) + "\n"


def test_a_whole_game(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.jsonl"
    arguments = ("greedy", "--seed", "5", "--dealer", "1", "--target", "41", "--record", str(path))
    text = play_with(monkeypatch, capsys, words_of(5, 41, 1), *arguments)
    (record,) = read_records(path)
    game = replay(record)
    assert record["agents"] == ["you", "greedy"]
    assert (record["seed"], record["first_dealer"], record["rules"]["target"]) == (5, 1, 41)
    assert game.winner is not None
    assert text.startswith("you in seat 0, greedy in seat 1, to 41, seed 5\n")
    assert f"The winner: {('you', 'greedy')[game.winner]}, {game.scores[0]}-{game.scores[1]}" in text
    # the other's cards are hidden: the six are not shown, nor what it threw before the crib is counted
    first = record["deals"][0]
    assert first["cards"]["dealer"] not in text
    assert f"to the crib: {first['discards']['dealer']}" not in text
    assert f"to the crib: {first['discards']['pone']}" in text
    again = play_with(monkeypatch, capsys, words_of(5, 41, 1), *arguments[:-1], str(tmp_path / "again.jsonl"))
    assert again == text


def test_the_other_seat_and_a_position(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.jsonl"
    position = ("--seat", "1", "--scores", "100", "90")
    text = play_with(monkeypatch, capsys, "quit\n", "random", *position, "--seed", "2", "--record", str(path))
    (record,) = read_records(path)
    assert record["agents"] == ["random", "you"]
    assert record["start_scores"] == [100, 90]
    assert "The game is not over, 100-90." in text


def test_words_that_mean_nothing_are_answered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    held = Game(seed=3, dealer=0).cards(0)
    assert cards_text(held) == "2H 4D 5C QC QH QS"
    said = "\n".join(
        [
            "",
            "h",
            "c",
            "9H 5C",
            "9 5",
            "Q 5",
            "5C",
            "5C 5c",
            "2 4 5C",
            "XX 2H",
            "5C 6",
            "2h,4",
            "3",
            "JC",
            "Q",
            "q",
            "QUIT",
        ]
    )
    text = play_with(monkeypatch, capsys, said, "greedy", "--seed", "3", "--dealer", "0")
    for answer in (
        "you don't hold 9H; you hold 2H 4D 5C QC QH QS",
        "you don't hold a card of rank 9; you hold 2H 4D 5C QC QH QS",
        "which one: QC QH QS?",
        "two different cards, please, of 2H 4D 5C QC QH QS",
        "not a card: 'XX'",
        "you don't hold JC; you hold 5C QC QH QS",
    ):
        assert answer in text
    assert text.count("two different cards, please") == 3
    assert text.count("which one: QC QH QS?") == 3
    assert text.count("you     to the crib: 2H 4D") == 1
    assert text.count("\nThe game is not over, 0-0.\n") == 1
    assert "Traceback" not in text


def test_a_card_that_does_not_fit() -> None:
    game = Game(seed=1, dealer=1, decks=["5H 6H KC KD AC 2C  TC TD 9C 9D 3C 4C  8S"])
    game.discard("AC 2C")
    game.discard("3C 4C")
    for card in ("KC", "TC", "6H"):
        game.play(card)
    with pytest.raises(ValueError, match=r"^KD would carry the count of 26 above 31$"):
        play.action_of(game, "k")
    with pytest.raises(ValueError, match=r"^one card, please, of 5H KD$"):
        play.action_of(game, "5 K")
    assert game.action_text(play.action_of(game, "5")) == "play 5H"


def test_every_action_can_be_said() -> None:
    """The words of an action mean that action: all of them, in all phases of many games."""
    chance = random.Random(4)
    for seed in range(15):
        game = Game(Rules(61), seed)
        while game.player is not None:
            for action in game.legal_actions():
                cards = game.action_text(action).split()[1:]
                chance.shuffle(cards)
                said = chance.choice([" ", ",", ", "]).join(cards)
                assert play.action_of(game, chance.choice([said, said.lower(), f"  {said} "])) == action
            held = game.hand(game.player)
            for card in set(range(52)) - set(held):
                with pytest.raises(ValueError, match="you don't hold"):
                    play.action_of(game, card_text(card))
            game.step(chance.choice(game.legal_actions()))


def test_hints(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    said = "?\n2H 4D\n?\nquit\n"
    text = play_with(monkeypatch, capsys, said, "greedy", "--seed", "3", "--dealer", "0")
    assert "100%  discard 2H 4D, worth +17.74, 12 now: fifteens 6, pairs 6" in text
    assert "100%  play 5C, worth +1.86, 2 now: fifteen 2" in text
    other = play_with(monkeypatch, capsys, "?\n", "greedy", "--seed", "3", "--dealer", "0", "--advisor", "random")
    assert "random would\n      7%  discard 2H 4D, 12 now: fifteens 6, pairs 6" in other
    assert "worth" not in other


def test_the_advisors_values_rank_as_its_policy() -> None:
    from agents import make_agent

    for spec in ("expected", "rule_based"):
        agent = make_agent(spec)
        chance = random.Random(1)
        game = Game(Rules(61), 3)
        while game.player is not None:
            seen = game.observation()
            observations, masks = seen["observation"][None], seen["action_mask"][None]
            values = agent.action_values(observations, masks)[0]  # type: ignore[attr-defined]
            policy = agent.policy(observations, masks)[0]
            legal = game.legal_actions()
            best = max(values[action] for action in legal)
            assert [policy[action] > 0 for action in legal] == [values[action] > best - 1e-6 for action in legal]
            assert all(values[action] != values[action] for action in range(19) if action not in legal)
            game.step(chance.choice(legal))


def test_two_agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "watched.jsonl.gz"
    text = play_with(
        monkeypatch, capsys, "", "--watch", "greedy", "random", "--seed", "4", "--target", "31", "--record", str(path)
    )
    (record,) = read_records(path)
    assert record["agents"] == ["greedy", "random"]
    assert record["winner"] is not None
    assert record["deals"][0]["cards"]["dealer"] in text
    assert "?" not in text
    from experiments.replay import show

    capsys.readouterr()
    show(record, "x", None, None)
    told = capsys.readouterr().out.split("\n", 1)[1]
    assert text.split("\n", 1)[1] == told  # the game is told as it is replayed


def test_an_agent_that_breaks_the_rules_loses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "cheat.py"
    module.write_text(AGENT.format(name="cheat", body="return np.full(len(masks), 18)"))
    path = tmp_path / "games.jsonl"
    arguments = ("--module", str(module), "--seed", "1", "--record", str(path))
    text = play_with(monkeypatch, capsys, "", "--watch", "cheat", "cheat", "--dealer", "0", *arguments)
    assert "illegal action: the game is lost" in text
    assert "The winner: cheat (seat 0), 121-0, a double skunk." in text
    (record,) = read_records(path)
    assert (record["forfeit"], record["winner"]) == (1, 0)
    assert replay(record).forfeited == 1


def test_an_agent_that_fails_is_named_and_the_record_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = tmp_path / "play_broken.py"
    module.write_text(AGENT.format(name="play_broken", body="raise KeyError('x')"))
    path = tmp_path / "games.jsonl"
    monkeypatch.setattr(sys, "stdin", io.StringIO("2H 4D\n"))
    arguments = ("--module", str(module), "--seed", "3", "--dealer", "0", "--record", str(path))
    assert main(["play", "play_broken", *arguments]) == 2
    assert printed(capsys)[1].startswith(
        "error: the agent 'play_broken' failed in the match you – play_broken: KeyError"
    )
    assert len(list(read_records(path))) == 1


def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "unknown agent 'gredy'; did you mean 'greedy'?" in error_of(capsys, "gredy")
    assert "unknown agent 'x'" in error_of(capsys, "greedy", "--advisor", "x")
    assert "target must lie between 2 and 200, got 1" in error_of(capsys, "greedy", "--target", "1")
    assert "scores must lie between 0 and 120" in error_of(capsys, "greedy", "--scores", "121", "0")
    assert "seed must lie between 0 and" in error_of(capsys, "greedy", "--seed", "-1")
    assert "--watch names both agents" in error_of(capsys, "greedy", "--watch", "greedy", "random")
    folder = str(tmp_path)
    assert "--record: can't write to " in error_of(capsys, "greedy", "--record", folder)
    assert "there is no folder" in error_of(capsys, "greedy", "--record", str(tmp_path / "no" / "games.jsonl"))
    assert "no Python file 'nowhere.py'" in error_of(capsys, "greedy", "--module", "nowhere.py")
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_keeps_the_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(prompt: str = "") -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", interrupted)
    path = tmp_path / "games.jsonl"
    assert main(["play", "greedy", "--seed", "3", "--dealer", "0", "--record", str(path)]) == 130
    assert "interrupted" in capsys.readouterr().err
    (record,) = read_records(path)
    assert record["winner"] is None
    assert len(record["deals"][0]["discards"]) == 1


def test_through_a_pipe(tmp_path: Path) -> None:
    """As a program of its own, with input that ends."""
    done = subprocess.run(
        [sys.executable, "-m", "experiments.cli", "play", "greedy", "--seed", "3", "--dealer", "0"],
        input="2H 4D\n5C\n",
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "you     5C, 15: 2 points (fifteen 2), 2-0" in done.stdout
    assert done.stdout.rstrip().endswith("The game is not over, 2-2.")
    assert "Traceback" not in done.stderr
