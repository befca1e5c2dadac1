"""What a tournament's games follow from: that of a result folder must be that of what is asked for, to go on with it.

It is noted in the folder's ``config.yaml``: the config, the version of the result files, and the digests of the files
that agents are made from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from agents.registry import parse_spec
from experiments.config import MADE_WITH, TournamentConfig, UserError, parse_config
from experiments.run_folder import differences, made_with
from experiments.tournament.plan import entrant_names, matches_of

FORMAT = 2
"""The version of the result files. Version 1 had no journal, and no points by part in the table of games."""

FREE_TO_CHANGE = ("name", "output", "batch", "jobs", "backend", "scheduler", "format", "games", "anchor", "modules")
"""Keys that may differ when a tournament goes on: they don't change the games. More games come after the others."""
_HOW = ("output", "batch", "jobs", "backend", "scheduler")
"""Keys that are not noted: however a tournament is played, the bytes are the same. They are in ``sessions.json``."""
_IN_FOLDERS = ("checkpoint.pt", "strategy.bin")  # what an agent is made from, of a folder that its spec names


def file_digests(config: TournamentConfig) -> dict[str, str]:
    """SHA-256 of the files that are named by the agents' specs (a run's folder: its checkpoint or strategy) and by
    ``modules``."""
    named: list[str] = []
    for entrant in config.agents:
        name, options = parse_spec(entrant.spec)
        named += [name, *(value for value in options.values() if isinstance(value, str))]
    digests = {}
    for path in [*named, *config.modules]:
        folder = Path(path).is_dir()
        for file in [Path(path) / name for name in _IN_FOLDERS] if folder else [Path(path)]:
            if file.is_file():
                digests[path] = hashlib.sha256(file.read_bytes()).hexdigest()
                break
    return digests


def differing_file(before: Mapping[str, str], now: Mapping[str, str]) -> str | None:
    """The path of a file that was changed, or is there in one case only."""
    return next((path for path in {**before, **now} if before.get(path) != now.get(path)), None)


def noted_config(config: TournamentConfig, made: Mapping[str, Any] | None = None) -> str:
    """The text of ``config.yaml``; ``made`` is what it notes of versions and files, None takes those of now."""
    data = config.model_dump(mode="json", exclude=set(_HOW))
    if data["shard"] is None:
        del data["shard"]
    now = made_with() | {"results": FORMAT, "files": file_digests(config)} if made is None else dict(made)
    text: str = yaml.safe_dump(data | {MADE_WITH: now}, sort_keys=False, allow_unicode=True)
    return text


def read_noted(path: Path) -> tuple[TournamentConfig, dict[str, Any]]:
    """The config that a result folder's ``config.yaml`` notes, and what it was made with.

    Raises:
        UserError: it can't be read, or is of another version of the result files.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        made = data.pop(MADE_WITH)
        version = made.get("results", 1)
    except FileNotFoundError:
        raise UserError(f"there are no results of a tournament in {str(path.parent)!r}: no {path.name}") from None
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or error
        raise UserError(f"can't read {str(path)!r}: {problem}; play it again with --overwrite") from None
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        raise UserError(f"{str(path)!r} is not the config of a result folder, or is damaged") from None
    if version != FORMAT:
        raise UserError(
            f"the results in {str(path.parent)!r} are of version {version} of the result files, this is version "
            f"{FORMAT}: play them again, into another folder or with --overwrite"
        )
    return parse_config(data, TournamentConfig, str(path)), made


def first_difference(before: TournamentConfig, now: TournamentConfig, free: tuple[str, ...]) -> str | None:
    """The first key that differs and is not free to, in words; None if none does."""
    found = differences(_comparable(before), _comparable(now), free)
    return found[0] if found else None


def _comparable(config: TournamentConfig) -> dict[str, Any]:
    """A config's values, with the agents by their places."""
    names = entrant_names(config.agents)
    agents = {
        str(place): entrant.spec if name == entrant.spec else f"{name} ({entrant.spec})"
        for place, (name, entrant) in enumerate(zip(names, config.agents, strict=True), 1)
    }
    return config.model_dump(mode="json") | {"agents": agents}


def check_goes_on(folder: Path, before: TournamentConfig, files: Mapping[str, str], now: TournamentConfig) -> None:
    """See that a tournament can go on with what is in a folder.

    Args:
        folder: with the results.
        before, files: the config and the digests of files that are noted in it.
        now: the config that is asked for.

    Raises:
        UserError: it can't; the message names the first difference.
    """
    difference = first_difference(before, now, FREE_TO_CHANGE)
    if difference is None:
        difference = _fewer_games(before, now)
    if difference is not None:
        raise UserError(
            f"the tournament in {str(folder)!r} is another one: {difference}; resume it with its own config, or start "
            "another with --output"
        )
    changed = differing_file(
        {path: digest for path, digest in files.items() if path not in before.modules},
        {path: digest for path, digest in file_digests(now).items() if path not in now.modules},
    )
    if changed is not None:
        raise UserError(
            f"the tournament in {str(folder)!r} was begun with another file {changed!r}, which has changed since; "
            "start another tournament with --output"
        )


def _fewer_games(before: TournamentConfig, now: TournamentConfig) -> str | None:
    """A match that would have fewer games, or any other number in a shard, in words; None if there is none."""
    for old, new in zip(matches_of(before), matches_of(now), strict=True):
        if new.pairs < old.pairs or (now.shard is not None and new != old):
            rule = "there can only be more" if now.shard is None else "those of a shard can't change"
            return f"the match {' – '.join(old.names)} had {old.games:,} games, now {new.games:,}; {rule}"
    return None
