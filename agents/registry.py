"""From specs to agents: ``make_agent("greedy")``, ``make_agent("runs/x/checkpoint.pt")``.

A spec is a name, or the path of a checkpoint or of published weights (``*.safetensors``), and after a colon options:
``name:worlds=200,discard=rollout``, or ``name:flag`` and ``name:no_flag`` for switches. Agents of a user's own are
registered from a module of theirs:

>>> from agents import register_agent
>>> register_agent("mine", MyAgent)  # a class or function; the options of specs are its keyword arguments
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import sys
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from agents.base import Agent
from agents.base import AgentError as AgentError  # who makes agents looks for it here

Factory = Callable[..., Agent]


_FACTORIES: dict[str, Factory] = {}
_PUBLISHED = ".safetensors"


def _lazy(module: str, name: str) -> Factory:
    """A factory that imports its module when an agent is made, so that a command loads only what it plays."""

    def target() -> Factory:
        factory: Factory = getattr(importlib.import_module(module), name)
        return factory

    def factory(**options: Any) -> Agent:
        return target()(**options)

    factory.target = target  # type: ignore[attr-defined]
    return factory


def register_agent(name: str, factory: Factory) -> None:
    """Make ``name`` a spec. ``factory(**options)`` returns an :class:`Agent`; its keyword arguments are the options.

    Raises:
        AgentError: the name is taken by another factory, or is no plain word.
    """
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise AgentError(f"an agent's name has letters, digits, '_' and '-', got {name!r}")
    known = _FACTORIES.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (factory.__module__, factory.__qualname__):
        raise AgentError(f"there is an agent {name!r} already")
    _FACTORIES[name] = factory


for _name, _module, _class in (
    ("random", "agents.random", "RandomAgent"),
    ("greedy", "agents.greedy", "GreedyAgent"),
    ("expected", "agents.expected", "ExpectedAgent"),
    ("rule_based", "agents.rule_based", "RuleBasedAgent"),
    ("monte_carlo", "agents.monte_carlo", "MonteCarloAgent"),
    ("ismcts", "agents.ismcts", "IsmctsAgent"),
    ("equilibrium", "agents.equilibrium.agent", "EquilibriumAgent"),
    ("neural", "agents.neural.published", "shipped_agent"),
):
    _FACTORIES[_name] = _lazy(_module, _class)


def agent_names() -> list[str]:
    """The names of all registered agents, sorted."""
    return sorted(_FACTORIES)


def load_modules(modules: Iterable[str]) -> None:
    """Import the modules (dotted names) or Python files (paths that end in .py) that register a user's agents.

    Raises:
        AgentError: a module that isn't there or can't be imported.
    """
    for module in modules:
        try:
            if module.endswith(".py"):
                _import_file(Path(module))
            else:
                if "" not in sys.path:
                    sys.path.insert(0, "")  # a module beside the user's config, as with python -m
                importlib.import_module(module)
        except AgentError:
            raise
        except (Exception, SystemExit) as error:
            raise AgentError(f"can't import the module {module!r}: {_one_line(error)}") from error


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


def _import_file(path: Path) -> None:
    if not path.is_file():
        raise AgentError(f"no Python file {str(path)!r}")
    name = f"cribbage_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)


def parse_spec(spec: str) -> tuple[str, dict[str, str | bool]]:
    """A spec's name and options, as text, or True and False for switches.

    Raises:
        AgentError: an empty name, or an option given twice or empty.
    """
    name, _, text = spec.partition(":")
    if not name.strip():
        raise AgentError(f"an agent spec starts with a name or a path, got {spec!r}")
    options: dict[str, str | bool] = {}
    for part in text.split(",") if text else []:
        key, equals, value = (piece.strip() for piece in part.partition("="))
        setting: str | bool = value
        if not equals:
            setting = not key.startswith("no_")
            key = key.removeprefix("no_")
        if not key or setting == "" or key in options:
            raise AgentError(f"{spec!r}: the option {part!r} is empty or given twice; options look like a=1,b=2,flag")
        options[key] = setting
    return name.strip(), options


def is_checkpoint(name: str) -> bool:
    """Whether a spec's name is the path of a checkpoint or of published weights rather than the name of an agent."""
    return name.endswith((".pt", _PUBLISHED)) or "/" in name


def make_agent(spec: str) -> Agent:
    """The agent of a spec (see the module).

    Raises:
        AgentError: an unknown name (with the nearest known ones), an unknown option or one of the wrong type, a
            checkpoint that is missing, damaged or of another observation version.
    """
    name, options = parse_spec(spec)
    if is_checkpoint(name):
        module, loader = ("published", "load_published") if name.endswith(_PUBLISHED) else ("agent", "load_agent")
        factory: Factory = getattr(importlib.import_module(f"agents.neural.{module}"), loader)
        given: dict[str, Any] = {"path": name}
    elif name in _FACTORIES:
        factory, given = _FACTORIES[name], {}
    else:
        near = difflib.get_close_matches(name, agent_names(), n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise AgentError(
            f"unknown agent {name!r}; {hint}there are {', '.join(agent_names())}, and checkpoints (*.pt, *.safetensors)"
        )
    typed = _typed_options(spec, factory, options, taken=set(given))
    try:
        agent = factory(**given, **typed)
    except AgentError:
        raise
    except Exception as error:  # whatever a user's factory raises
        raise AgentError(f"{spec!r}: the agent can't be made: {_one_line(error)}") from error
    if not isinstance(agent, Agent):
        raise AgentError(
            f"{spec!r}: the factory registered as {name!r} must return an agents.Agent, got {type(agent).__name__}"
        )
    agent.name = spec
    return agent


def _typed_options(
    spec: str, factory: Factory, options: dict[str, str | bool], taken: set[str]
) -> dict[str, int | float | bool | str]:
    """The options as the factory's annotations want them."""
    target = factory.target() if hasattr(factory, "target") else factory
    try:
        signature = inspect.signature(target, eval_str=True)
    except (ValueError, TypeError):  # a built-in that does not tell: it has no options
        signature = inspect.Signature()
    except Exception as error:  # an annotation that means nothing
        raise AgentError(f"{spec!r}: the factory's options can't be read: {_one_line(error)}") from error
    parameters = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if key not in taken and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    }
    typed: dict[str, int | float | bool | str] = {}
    for key, value in options.items():
        if key not in parameters:
            known = ", ".join(parameters) or "none"
            raise AgentError(f"{spec!r}: unknown option {key!r}; this agent's options: {known}")
        kind = parameters[key].annotation
        if kind is inspect.Parameter.empty and parameters[key].default is not inspect.Parameter.empty:
            kind = type(parameters[key].default)
        try:
            typed[key] = _convert(value, kind)
        except ValueError:
            kind_name = getattr(kind, "__name__", str(kind))
            raise AgentError(f"{spec!r}: the option {key} must be of type {kind_name}, got {value!r}") from None
    for key, parameter in parameters.items():
        if parameter.default is parameter.empty and key not in typed:
            raise AgentError(f"{spec!r}: this agent needs the option {key!r}, as in {spec.partition(':')[0]}:{key}=...")
    return typed


def _convert(value: str | bool, kind: Any) -> int | float | bool | str:
    if get_origin(kind) is Literal:
        for member in get_args(kind):
            if str(member) == value:
                return member
        raise ValueError
    if isinstance(kind, types.UnionType) or get_origin(kind) is Union:  # the first type of int | None that fits
        for member in get_args(kind):
            if member is not types.NoneType:
                try:
                    return _convert(value, member)
                except ValueError:
                    continue
        raise ValueError
    if isinstance(value, bool) or kind is bool:
        if kind is not bool:
            raise ValueError
        if isinstance(value, bool):
            return value
        if value.lower() not in ("true", "false"):
            raise ValueError
        return value.lower() == "true"
    if kind is int:
        return int(value)
    if kind is float:
        return float(value)
    return value
