"""Specs, and agents of a user's own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import Agent, AgentError, agent_names, load_modules, make_agent, register_agent, registry
from agents.random import RandomAgent


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    """What a test registers or imports is gone after it."""
    factories, modules, path = dict(registry._FACTORIES), set(sys.modules), list(sys.path)
    yield
    registry._FACTORIES.clear()
    registry._FACTORIES.update(factories)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith(("cribbage_user_", "my_agents")):
            del sys.modules[name]


class Mine(Agent):
    """An agent with options of every type."""

    def __init__(
        self,
        worlds: int = 10,
        epsilon: float = 0.5,
        rollout: bool = False,
        discard: str = "table",
        depth: int | None = None,
    ) -> None:
        super().__init__("mine")
        self.options = (worlds, epsilon, rollout, discard, depth)

    def policy(self, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
        return masks / masks.sum(axis=1, keepdims=True)


def test_names() -> None:
    assert {"random", "greedy"} <= set(agent_names())
    assert agent_names() == sorted(agent_names())


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ("mine", (10, 0.5, False, "table", None)),
        ("mine:worlds=200", (200, 0.5, False, "table", None)),
        ("mine:worlds=200,epsilon=1e-3,rollout,discard=a/b.csv", (200, 0.001, True, "a/b.csv", None)),
        ("mine:no_rollout", (10, 0.5, False, "table", None)),
        ("mine:rollout=true, epsilon = 2", (10, 2.0, True, "table", None)),
        ("mine:rollout=False", (10, 0.5, False, "table", None)),
        ("mine:depth=3", (10, 0.5, False, "table", 3)),
        (" mine :worlds=1", (1, 0.5, False, "table", None)),
    ],
)
def test_options(spec: str, options: tuple[object, ...]) -> None:
    register_agent("mine", Mine)
    agent = make_agent(spec)
    assert isinstance(agent, Mine)
    assert agent.options == options
    assert [type(one) for one in agent.options] == [type(one) for one in options]
    assert agent.name == spec


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine:words=3", r"'mine:words=3': unknown option 'words'; this agent's options: worlds, epsilon, rollout"),
        ("mine:worlds=2.5", "the option worlds must be of type int, got '2.5'"),
        ("mine:worlds", "the option worlds must be of type int, got True"),
        ("mine:epsilon=high", "the option epsilon must be of type float, got 'high'"),
        ("mine:rollout=maybe", "the option rollout must be of type bool, got 'maybe'"),
        ("mine:depth=deep", r"the option depth must be of type int \| None, got 'deep'"),
        ("mine:discard", "the option discard must be of type str, got True"),
        ("mine:worlds=1,worlds=2", "'worlds=2' is empty or given twice"),
        ("mine:worlds=", "'worlds=' is empty or given twice"),
        ("mine:worlds=1,", "'' is empty or given twice"),
        ("random:worlds=1", "unknown option 'worlds'; this agent's options: none"),
        ("", "starts with a name or a path, got ''"),
        (":worlds=1", "starts with a name or a path"),
        ("  ", "starts with a name or a path"),
    ],
)
def test_specs_that_are_refused(spec: str, message: str) -> None:
    register_agent("mine", Mine)
    with pytest.raises(AgentError, match=message) as caught:
        make_agent(spec)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("spec", "near"), [("gredy", "greedy"), ("randon", "random"), ("Greedy", "greedy")])
def test_unknown_names_suggest_the_nearest(spec: str, near: str) -> None:
    with pytest.raises(AgentError, match=f"unknown agent '{spec}'; did you mean '{near}'.*there are .*, random"):
        make_agent(spec)


def test_unknown_name_like_no_other() -> None:
    with pytest.raises(AgentError, match="unknown agent 'zzz'; there are") as caught:
        make_agent("zzz")
    assert "did you mean" not in str(caught.value)


def test_options_that_an_agent_needs() -> None:
    def factory(path: str, *, size: int) -> Agent:
        return Mine(worlds=size, discard=path)

    register_agent("needs", factory)
    with pytest.raises(AgentError, match="'needs:path=x': this agent needs the option 'size', as in needs:size="):
        make_agent("needs:path=x")
    assert make_agent("needs:path=x,size=3").options[0] == 3  # type: ignore[attr-defined]


def test_register_twice() -> None:
    register_agent("mine", Mine)
    register_agent("mine", Mine)  # as when a module is imported again
    with pytest.raises(AgentError, match="there is an agent 'mine' already"):
        register_agent("mine", RandomAgent)
    with pytest.raises(AgentError, match="there is an agent 'greedy' already"):
        register_agent("greedy", Mine)


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a/b", "x.pt", "a=1"])
def test_names_that_are_refused(name: str) -> None:
    with pytest.raises(AgentError, match="an agent's name has letters"):
        register_agent(name, Mine)


USERS_MODULE = """
from agents import register_agent
from agents.random import RandomAgent

class MyAgent(RandomAgent):
    def __init__(self, level: int = 1):
        super().__init__()
        self.level = level

register_agent("{name}", MyAgent)
"""


def test_a_users_file(tmp_path: Path) -> None:
    file = tmp_path / "bots.py"
    file.write_text(USERS_MODULE.format(name="from-file"))
    load_modules([str(file)])
    assert make_agent("from-file:level=4").level == 4  # type: ignore[attr-defined]
    load_modules([str(file)])  # once more does no harm
    assert "from-file" in agent_names()


def test_a_users_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its dotted name, from the folder that the command runs in."""
    package = tmp_path / "my_agents"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "bots.py").write_text(USERS_MODULE.format(name="from_module"))
    monkeypatch.chdir(tmp_path)
    load_modules(["my_agents.bots"])
    assert make_agent("from_module").level == 1  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no Python file"),
        ("import nothing_like_this", "can't import the module .*ModuleNotFoundError: No module named"),
        ("def broken(:", "can't import the module .*SyntaxError"),
        ("1 / 0", "can't import the module .*ZeroDivisionError"),
        ("from agents import register_agent\nregister_agent('random', print)", "there is an agent 'random' already"),
    ],
)
def test_modules_that_cannot_be_imported(tmp_path: Path, text: str | None, message: str) -> None:
    file = tmp_path / "bots.py"
    if text is not None:
        file.write_text(text)
    with pytest.raises(AgentError, match=message) as caught:
        load_modules([str(file)])
    assert "\n" not in str(caught.value)


def test_a_module_that_is_not_there() -> None:
    with pytest.raises(AgentError, match="can't import the module 'my_agents_not_there': ModuleNotFoundError"):
        load_modules(["my_agents_not_there"])
