"""Config files: how they are read, and the schema of each kind.

A config is YAML. Unknown keys, wrong types and numbers out of range are refused with the path of the key; single values
are overridden on the command line by ``key=value`` or ``section.key=value``.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SkipValidation,
    ValidationError,
    field_validator,
    model_validator,
)

from cribbage_env.cards import RANKS
from cribbage_env.rules import Line, Rules
from cribbage_env.streams import MAX_SEED

if TYPE_CHECKING:  # it is slow to import
    from experiments.tournament.statistics.sprt import Sprt

MADE_WITH = "made_with"
"""The key under which the config in a result folder notes versions and commit; it is skipped when loaded again."""

DEFAULT_BATCH = 4096
"""How many games a match plays side by side: fewer are slower, more gain little."""


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
    skunk: Annotated[Line, SkipValidation] = "auto"
    double_skunk: Annotated[Line, SkipValidation] = "auto"

    @model_validator(mode="after")
    def _check(self) -> RulesConfig:
        try:
            self.rules()
        except TypeError as error:  # which pydantic would let through
            raise ValueError(error) from None
        return self

    def rules(self) -> Rules:
        """The rules as the environments take them."""
        return Rules(self.target, self.skunk, self.double_skunk)


def _even(games: int) -> int:
    if games % 2:
        raise ValueError(
            f"an even number is needed (every deal is played twice, seats swapped), got {games}; "
            f"say {games - 1} or {games + 1}"
        )
    return games


PairedGames = Annotated[int, Field(ge=2, le=10**9), AfterValidator(_even)]
"""A number of games on duplicate deals."""


class EntrantConfig(Config):
    """One agent of a tournament; in the file also just its spec."""

    spec: str = Field(min_length=1, description="an agent's name with options, or the path of a checkpoint")
    name: str | None = Field(None, min_length=1, description="how results call it; None: its spec, numbered if needed")
    games: PairedGames | None = Field(None, description="for a slow agent: the most games that a match of it has")


class SprtConfig(Config):
    """A sequential test that ends matches early: of two Elo differences by which A is better, or of two rates of A."""

    elo0: Float | None = Field(None, description="H0; A is the agent that the config names first")
    elo1: Float | None = Field(None, description="H1, more than elo0")
    rate0: Float | None = Field(None, description="H0 as a win rate, 0 to 1, in place of elo0")
    rate1: Float | None = Field(None, description="H1 as a win rate, more than rate0")
    alpha: Float = Field(0.05, description="how often H1 may be accepted where H0 is true")
    beta: Float = Field(0.05, description="how often H0 may be accepted where H1 is true")
    check_every: int = Field(
        50, ge=1, le=10**9, description="pairs between looks; part of the test: more looks end earlier"
    )

    @model_validator(mode="after")
    def _possible(self) -> SprtConfig:
        self.test()
        return self

    def test(self) -> Sprt:
        """The test."""
        from experiments.tournament.statistics.sprt import Sprt

        given = [key for key in ("elo0", "elo1", "rate0", "rate1") if getattr(self, key) is not None]
        how = self.alpha, self.beta, self.check_every
        if self.elo0 is not None and self.elo1 is not None and len(given) == 2:
            return Sprt.of_elo(self.elo0, self.elo1, *how)
        if self.rate0 is not None and self.rate1 is not None and len(given) == 2:
            return Sprt(self.rate0, self.rate1, *how)
        raise ValueError(f"an SPRT needs elo0 and elo1, or rate0 and rate1, got {', '.join(given) or 'neither'}")


def parse_shard(text: str) -> tuple[int, int]:
    """The numbers i and n of a shard ``i/n``, 1 <= i <= n; ValueError if it is none."""
    number, _, count = text.partition("/")
    if not (number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count) <= 10**6):
        raise ValueError(f"a shard looks like 2/8, the second of eight, got {text!r}")
    return int(number), int(count)


def _shard(text: str) -> str:
    return "{}/{}".format(*parse_shard(text))


def _entrant_from_text(value: Any) -> Any:
    return {"spec": value} if isinstance(value, str) else value


class TournamentConfig(Config):
    """A round robin on duplicate deals: every agent meets every other one."""

    agents: list[Annotated[EntrantConfig, BeforeValidator(_entrant_from_text)]] = Field(
        description="specs, or mappings with spec, name and games"
    )
    games: PairedGames = Field(2000, description="a match; even, since every deal is played twice")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="gives all decks and all agents' random choices")
    rules: RulesConfig = RulesConfig()
    modules: list[str] = Field([], description="modules or .py files that register agents of your own")
    name: str = Field("tournament", pattern=r"^[\w][\w.-]*$", description="results go to runs/<name>")
    output: str | None = Field(None, min_length=1, description="another folder for the results than runs/<name>")
    batch: int = Field(
        DEFAULT_BATCH, ge=1, le=2**20, description="games played side by side; changes speed and memory, not results"
    )
    jobs: int = Field(1, ge=1, le=1024, description="processes that play at the same time; changes speed, not results")
    backend: Literal["local", "dask"] = Field("local", description="where they run: here, or on the workers of Dask")
    scheduler: str | None = Field(None, min_length=1, description="for backend dask: its scheduler's address")
    shard: Annotated[str, AfterValidator(_shard)] | None = Field(
        None, description="i/n plays the i-th of n shares of every match, for `cribbage merge`"
    )
    format: Literal["csv", "parquet"] = Field("csv", description="of the games' file; parquet needs pyarrow")
    luck: bool = Field(
        True, description="whether to take out what chance gave (a second win rate, more exact), see docs/evaluation.md"
    )
    sprt: SprtConfig | None = Field(
        None, description="ends a match as soon as a sequential test is decided; games is then the most that it has"
    )
    anchor: str | None = Field(
        None, min_length=1, description="the agent with the rating 0 (its name), None: the first; changes no games"
    )
    records: bool = Field(
        False,
        description="whether to write every game's cards, actions and events (games.jsonl.gz), see docs/records.md",
    )

    @model_validator(mode="after")
    def _scheduler_of_dask(self) -> TournamentConfig:
        if (self.backend == "dask") != (self.scheduler is not None):
            raise ValueError(
                "backend: dask and scheduler: ADDRESS belong together, "
                f"got backend: {self.backend} and {'no scheduler' if self.scheduler is None else self.scheduler}"
            )
        return self

    @model_validator(mode="after")
    def _whole_matches_to_stop(self) -> TournamentConfig:
        if self.sprt is not None and self.shard is not None:
            raise ValueError(f"sprt looks at whole matches, and shard {self.shard} has only a share of them")
        return self

    @field_validator("agents")
    @classmethod
    def _at_least_two(cls, agents: list[EntrantConfig]) -> list[EntrantConfig]:
        if len(agents) < 2:
            raise ValueError(f"a tournament needs at least two agents, there is {len(agents) or 'none'}")
        return agents


def _starter_rank(value: Any) -> Any:
    """A rank as the project writes it: YAML reads 5 as a number, and people write 10."""
    text = str(value).upper() if isinstance(value, str | int) and not isinstance(value, bool) else value
    return {"1": "A", "10": "T"}.get(text, text) if isinstance(text, str) else value


class SolveConfig(Config):
    """A near-equilibrium of the play."""

    name: str = Field("play", pattern=r"^[\w][\w.-]*$", description="results go to runs/<name>")
    output: str | None = Field(None, min_length=1, description="another folder for the results than runs/<name>")
    prior: str = Field(
        "expected", min_length=1, description="the agent whose discards give the kept hands; uniform: any four cards"
    )
    starter: Annotated[Literal[tuple(RANKS)] | None, BeforeValidator(_starter_rank)] = Field(  # type: ignore[valid-type]
        None, description="the rank of the starter (A, 2 .. 9, T, J, Q, K), if both players know it; None: any"
    )
    cards: int = Field(4, ge=2, le=4, description="that each player keeps; fewer make small games, with prior uniform")
    objective: Literal["points"] = Field("points", description="what is maximised: points scored minus conceded")
    random_share: Float = Field(
        2e-4, ge=0, le=1, description="weight of hands that are never kept, so that they are played well too"
    )
    exploitability: Float | None = Field(None, gt=0, description="end when it is this small, in points a deal")
    iterations: int | None = Field(None, ge=1, le=10**6, description="end after so many")
    minutes: Float | None = Field(None, gt=0, le=1e6, description="end after that time")
    check_every: int = Field(10, ge=1, le=10**6, description="iterations between checks of the exploitability")
    small: Float = Field(
        0.0,
        ge=0,
        lt=1,
        description="write strategy-small.bin too, without decisions that come up less often than this; 0: don't",
    )
    threads: int | None = Field(None, ge=1, le=1024, description="None: one a core; changes speed, not results")
    modules: list[str] = Field([], description="modules or .py files that register agents of your own")

    @model_validator(mode="after")
    def _fits_together(self) -> SolveConfig:
        if self.exploitability is None and self.iterations is None and self.minutes is None:
            raise ValueError("say when to end: set exploitability, iterations or minutes")
        if self.cards < 4 and self.prior != "uniform":
            raise ValueError(f"cards: {self.cards} needs prior: uniform (agents keep four cards), got {self.prior}")
        return self


class RulesAnalysisConfig(Config):
    """What each rule of the agent ``rule_based`` is worth, measured by switching it off."""

    opponent: str = Field("expected", min_length=1, description="the spec of the agent that both versions meet")
    games: PairedGames = Field(20_000, description="a match; there are two for every rule")
    seed: int = Field(
        2, ge=0, le=MAX_SEED, description="gives all decks and random choices; not 1, with which weights were found"
    )


class WeightSearchConfig(Config):
    """Coordinate search for the weights of the agent ``rule_based``."""

    opponents: list[str] = Field(
        ["expected", "rule_based"], min_length=1, description="specs of the agents that it meets; rule_based is itself"
    )
    games: PairedGames = Field(20_000, description="against each opponent, for every change of a weight that is tried")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="gives all decks and all agents' random choices")


class BoardAnalysisConfig(Config):
    """What every position of the board is worth, between two players who play like an agent."""

    agent: str = Field(min_length=1, description="the agent's spec")
    deals: int = Field(1_000_000, ge=32, le=10**9, description="sampled, of the agent against itself")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="gives all decks and random choices")
    rules: RulesConfig = RulesConfig()
    reward: Literal["win", "game_points", "one_two"] = Field("win", description="what the end of a game pays")
    check: int = Field(0, ge=0, le=100_000, description="positions to check by games played from them")
    check_games: int = Field(10_000, ge=2, le=10**8, description="from each of them")
    modules: list[str] = Field([], description="modules or .py files that register agents of your own")


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
        beside = sorted(one.name for one in file.parent.glob("[!.]*.yaml")) if file.parent.is_dir() else []
        elsewhere = [one.as_posix() for one in sorted(Path("configs").glob(f"*/{file.name}")) if one != file]
        hint = f" (there are {', '.join(beside)})" if beside else ""
        if elsewhere:
            hint = f" (did you mean {' or '.join(elsewhere)}?)"
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
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, RecursionError) as error:
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
    where = _without_tags(schema, first["loc"])
    path = ".".join(str(part) for part in where)
    if first["type"] == "extra_forbidden":
        known = _keys_at(schema, first["loc"][:-1])
        near = difflib.get_close_matches(str(where[-1]), known, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"unknown key {path!r}" + (f"; {hint}there are {', '.join(known)}" if known else "")
    if first["type"] == "missing":
        return f"the key {path!r} is missing"
    if first["type"] == "value_error":  # from a validator of ours, which names the value itself
        message = str(first["ctx"]["error"])
    elif first["type"] == "string_pattern_mismatch":  # a name, of a folder in runs/
        message = f"must begin with a letter, digit or '_' and go on with these, '.' and '-', got {first['input']!r}"
    elif first["type"] == "union_tag_invalid":
        tag = first["ctx"]["discriminator"].strip("'")
        return f"{path}.{tag}: must be one of {first['ctx']['expected_tags']}, got {first['ctx']['tag']!r}"
    elif first["type"] in ("model_type", "model_attributes_type"):  # the second: of several sections by their tag
        message = f"must be a mapping with keys of {', '.join(_keys_at(schema, first['loc']))}, got {first['input']!r}"
    else:
        message = f"{first['msg'].replace('Input should', 'must')}, got {first['input']!r}"
    return f"{path}: {message}" if path else message


def _keys_at(schema: type[Config], path: Sequence[int | str]) -> list[str]:
    """The keys that the section at ``path`` may have."""
    section = _walk(schema, path)[-1]
    if isinstance(section, dict):  # what all of them have
        every = [list(one.model_fields) for one in section.values()]
        return [key for key in every[0] if all(key in keys for keys in every)]
    return list(section.model_fields) if section is not None else []


def _without_tags(schema: type[Config], path: Sequence[int | str]) -> list[int | str]:
    """A path without the names by which pydantic says which of several sections it has taken for one."""
    sections = _walk(schema, path)
    return [part for at, part in enumerate(path) if at == 0 or part not in _tagged(sections[at])]


def _walk(schema: type[Config], path: Sequence[int | str]) -> list[Any]:
    """The schema, and what each part of a path leads to: a section, several by tag (a dictionary), or None."""
    found: list[Any] = [schema]
    for part in path:
        here = found[-1]
        if isinstance(here, dict):
            found.append(here.get(part))
        elif isinstance(part, int) or here is None:  # a number is an item of the list just found
            found.append(here)
        elif part in here.model_fields:
            found.append(_section_in(here.model_fields[part]))
        else:
            found.append(None)
    return found


def _tagged(section: Any) -> Any:
    return section if isinstance(section, dict) else ()


def _section_in(field: Any) -> Any:
    """The schema in a field such as ``Section``, ``Section | None`` or ``list[Section]``; several ones by their tag."""
    if field.discriminator is not None:
        return {one.model_fields[field.discriminator].default: one for one in get_args(field.annotation)}
    return _model_in(field.annotation)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The schema in an annotation, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner)) is not None), None)
