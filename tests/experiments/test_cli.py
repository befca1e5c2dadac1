"""The command `cribbage` itself: help, exit codes, messages of one line."""

from __future__ import annotations

import subprocess
import sys
import types
from collections.abc import Callable
from importlib import metadata

import pytest

import cribbage_env
from agents import AgentError
from experiments import cli
from experiments.config import UserError


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[..., int]], None]:
    """Makes `cribbage probe` call a function."""

    def install(run: Callable[..., int]) -> None:
        module = types.ModuleType("probe_command")

        def add_arguments(parser: object) -> None:
            parser.add_argument("config", metavar="CONFIG")  # type: ignore[attr-defined]
            parser.add_argument("overrides", nargs="*", default=[])  # type: ignore[attr-defined]
            parser.add_argument("--seed", type=int)  # type: ignore[attr-defined]

        module.add_arguments = add_arguments  # type: ignore[attr-defined]
        module.run = run  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "probe_command", module)
        monkeypatch.setitem(cli.COMMANDS, "probe", cli._Command("probe_command", "probe", "cribbage probe x"))

    return install


def test_exit_codes(command: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    def ends(error: BaseException) -> tuple[int, str]:
        def run(args: object) -> int:
            raise error

        command(run)
        return cli.main(["probe", "x"]), capsys.readouterr().err

    assert ends(UserError("mend this")) == (2, "error: mend this\n")
    assert ends(AgentError("no such agent")) == (2, "error: no such agent\n")
    assert ends(KeyboardInterrupt()) == (130, "\ninterrupted\n")
    with pytest.raises(ZeroDivisionError):  # a bug of ours shows its traceback
        ends(ZeroDivisionError())


def test_overrides_may_come_after_options(command: Callable[..., None], capsys: pytest.CaptureFixture[str]) -> None:
    seen = []

    def run(args: object) -> int:
        seen.append((args.config, args.overrides, args.seed))  # type: ignore[attr-defined]
        return 0

    command(run)
    for argv in (
        ["c", "a=1", "b=2", "--seed", "3"],
        ["c", "--seed", "3", "a=1", "b=2"],
        ["--seed=3", "c", "a=1", "b=2"],
    ):
        assert cli.main(["probe", *argv]) == 0
    assert seen == [("c", ["a=1", "b=2"], 3)] * 3
    with pytest.raises(SystemExit):
        cli.main(["probe", "c", "--seed", "3", "a=1", "--nothing"])
    assert capsys.readouterr().err == "error: unrecognized arguments: --nothing (see cribbage --help)\n"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "the following arguments are required: COMMAND"),
        (["dance"], "invalid choice: 'dance'"),
        (["tournament"], "the following arguments are required: CONFIG (see"),
        (["evaluate", "random"], "the following arguments are required: B (see"),
        (["evaluate", "random", "greedy", "random"], "unrecognized arguments: random"),
    ],
)
def test_bad_command_lines_are_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(argv)
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--help"])
    assert stop.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    for name, command in cli.COMMANDS.items():
        assert f"{name} {command.summary}" in printed


@pytest.mark.parametrize("name", sorted(set(cli.COMMANDS) - {"tournament", "evaluate"}))
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    assert f"example: {cli.COMMANDS[name].example}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", ["tournament", "evaluate"])
def test_help_has_an_example(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main([name, "--help"])
    assert stop.value.code == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"example: {cli.COMMANDS[name].example}" in printed
    assert "--seed" in printed


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["--version"])
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"cribbage-lab {cribbage_env.__version__}\n"


def test_the_entry_point_is_this_command() -> None:
    (entry,) = metadata.entry_points(group="console_scripts", name="cribbage")
    assert entry.load() is cli.main


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`cribbage evaluate ... | head -1` ends without a traceback."""
    process = subprocess.Popen(
        [sys.executable, "-m", "experiments.cli", "evaluate", "random", "greedy", "--games", "2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, errors = process.communicate(timeout=120)
    assert "Traceback" not in errors
