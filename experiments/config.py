"""Config files: how they are read, and the schema of each kind.

A config is YAML. Unknown keys, wrong types and numbers out of range are refused with the path of the key; single values
are overridden on the command line by ``key=value`` or ``section.key=value``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

MADE_WITH = "made_with"
"""The key under which the config in a result folder notes versions and commit; it is skipped when loaded again."""


class UserError(Exception):
    """Something the user can mend: one line that names the thing and the way out. Commands end with exit code 2."""


def _number_from_text(value: Any) -> Any:
    """PyYAML reads ``3e-4`` as text: YAML 1.1 wants a dot in it."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


Float = Annotated[float, BeforeValidator(_number_from_text)]


class Config(BaseModel):
    """Base of all schemas: nothing unknown, nothing converted but ``3e-4`` and 1 -> 1.0."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class RulesConfig(Config):
    """The rules of a game; lines left out follow from the target (see ``cribbage_env.Rules``)."""

    target: int = 121
    skunk: int | str | None = "auto"
    double_skunk: int | str | None = "auto"


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML that refuses a key given twice, of which plain YAML silently takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} comes twice", node.start_mark)
        return super().construct_mapping(node, deep)


ConfigT = TypeVar("ConfigT", bound=Config)


def load_config(path: str | Path, schema: type[ConfigT], overrides: Sequence[str] = ()) -> ConfigT:
    """Read a config file.

    Args:
        path: a YAML file.
        schema: the model it must fit.
        overrides: ``key=value`` or ``section.key=value``, values as YAML.

    Raises:
        UserError: no such file, not YAML, an unknown key, a wrong type or value: one line.
    """
    file = Path(path)
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = sorted(one.name for one in file.parent.glob("*.yaml")) if file.parent.is_dir() else []
        hint = f" (there are {', '.join(beside)})" if beside else ""
        raise UserError(f"no config file {str(file)!r}{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"can't read the config file {str(file)!r}: {error}") from None
    data = _parse_yaml(text, str(file))
    if data is None:
        data = {}
    if not isinstance(data, dict):
        raise UserError(f"{file}: a config is a mapping of keys to values, got {type(data).__name__}")
    data.pop(MADE_WITH, None)
    for override in overrides:
        _apply_override(data, override)
    return parse_config(data, schema, str(file))


def parse_config(data: dict[str, Any], schema: type[ConfigT], source: str) -> ConfigT:
    """Check data against a schema; UserError with one line that names ``source`` and the first thing wrong."""
    try:
        return schema.model_validate(data)
    except ValidationError as error:
        raise UserError(f"{source}: {_first_problem(error, schema)}") from None


def _parse_yaml(text: str, source: str) -> Any:
    try:
        return yaml.load(text, _UniqueKeyLoader)
    except yaml.YAMLError as error:
        where = ""
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        if mark is not None:
            where = f" line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(f"{source}{where}: not valid YAML: {problem}") from None


def _apply_override(data: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    parts = key.strip().split(".")
    if not equals or not all(parts):
        raise UserError(f"an override looks like key=value or section.key=value, got {override!r}")
    inner = data
    for part in parts[:-1]:
        inner = inner.setdefault(part, {})
        if not isinstance(inner, dict):
            raise UserError(f"the override {override!r}: {part!r} is not a section")
    inner[parts[-1]] = _parse_yaml(text, f"the override {override!r}")


def _first_problem(error: ValidationError, schema: type[Config]) -> str:
    first = error.errors()[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = _keys_at(schema, first["loc"][:-1])
        return f"unknown key {path!r}" + (f"; there are {', '.join(known)}" if known else "")
    if first["type"] == "missing":
        return f"the key {path!r} is missing"
    message = first["msg"].removeprefix("Value error, ")
    return f"{path}: {message}, got {first['input']!r}" if path else message


def _keys_at(schema: type[Config], path: Sequence[int | str]) -> list[str]:
    """The keys that the section at ``path`` may have."""
    model: Any = schema
    for part in path:
        if not (isinstance(model, type) and issubclass(model, BaseModel)) or part not in model.model_fields:
            return []
        model = model.model_fields[str(part)].annotation
    return list(model.model_fields) if isinstance(model, type) and issubclass(model, BaseModel) else []
