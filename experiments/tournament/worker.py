"""Plays blocks of a tournament, in whatever process it is asked to."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

import cribbage_env
from agents import Agent, AgentError, load_modules, make_agent
from experiments.config import TournamentConfig
from experiments.tournament.game_records import ActionLog
from experiments.tournament.identity import differing_file, file_digests
from experiments.tournament.luck import LuckObserver
from experiments.tournament.match import GameObserver, Games, play_blocks
from experiments.tournament.plan import Block, Match, matches_of

_SECONDS_BETWEEN_LOOKS = 0.2  # for a request to stop, which costs a look at the disk or a message


class Played(NamedTuple):
    """A block that was played, or the first pairs of one that was interrupted."""

    block: Block
    games: Games  # (2 P,) of GAME_DTYPE
    seconds: float
    notes: bytes = b""  # their actions, if there are to be records


class Players:
    """The agents of a tournament, each made when it first plays, and their matches.

    Args:
        config: of the tournament, whose modules are loaded already.
        folder: where agents are made, so that their paths are relative to it; None for the working directory.
        agents: those that are made already, by place in the config's list.
    """

    def __init__(
        self, config: TournamentConfig, folder: str | None = None, agents: Mapping[int, Agent] | None = None
    ) -> None:
        self._config = config
        self._folder = folder
        self._matches: dict[int, Match] = {match.number: match for match in matches_of(config)}
        self._agents = dict(agents or {})

    def play(self, block: Block, stop: Callable[[], bool]) -> Iterator[Played]:
        """Play a block and hand it out in pieces; if ``stop`` says True, what is finished of it, then the end.

        Raises:
            AgentError: an agent that can't be made or breaks its contract.
        """
        match = self._matches[block.match]
        a, b = (self._agent(place, name) for place, name in zip(match.agents, match.names, strict=True))
        config = self._config
        log = ActionLog() if config.records else None
        observers: list[GameObserver] = [] if log is None else [log]
        if config.luck:
            observers.append(LuckObserver())
        began = time.perf_counter()
        first = block.first
        for games in play_blocks(
            a,
            b,
            block.pairs,
            config.seed,
            rules=config.rules.rules(),
            batch=config.batch,
            first_pair=block.first,
            stop=stop,
            observers=observers,
        ):
            pairs = len(games) // 2
            now = time.perf_counter()
            notes = b"" if log is None else log.take(games)
            yield Played(Block(block.match, first, pairs), games, now - began, notes)
            first += pairs
            began = now

    def _agent(self, place: int, name: str) -> Agent:
        if place not in self._agents:
            try:
                with _at(self._folder):
                    agent = make_agent(self._config.agents[place].spec)
            except AgentError as error:
                if self._folder is None:
                    raise
                raise AgentError(
                    f"{error} (in a worker process on {platform.node()}, which knows agents of one's own only by the "
                    "config's modules)"
                ) from None
            agent.name = name
            self._agents[place] = agent
        return self._agents[place]


@dataclass(frozen=True)
class Setup:
    """What another process needs to play blocks of a tournament; small, and easily sent.

    The process must see the files that the config names, under the same paths.
    """

    config: str  # as JSON
    files: tuple[tuple[str, str], ...]  # digests of these files, by path
    folder: str  # the working directory that paths are relative to
    version: str

    @classmethod
    def of(cls, config: TournamentConfig) -> Setup:
        """That of a config, as seen from this process."""
        files = tuple(file_digests(config).items())
        return cls(config.model_dump_json(), files, str(Path.cwd()), cribbage_env.__version__)


_kept = threading.local()  # a thread's players: agents are not made for two callers at a time
_moving = threading.Lock()  # the working directory is the process's, not the thread's


def play_block(setup: Setup, block: Block, stop: Callable[[], bool]) -> Played | None:
    """Play a block in a process that other blocks may follow in; the agents are kept for them.

    Args:
        setup: of the tournament.
        block: to play.
        stop: asked now and then; when it says True, the block ends early.

    Returns:
        What was played, None if no pair was finished.

    Raises:
        AgentError: an agent that can't be made here or breaks its contract; or files or a version other than those of
            the process that asks.
    """
    if getattr(_kept, "setup", None) != setup:
        _kept.players = _players(setup)
        _kept.setup = setup
    looks = _Seldom(stop)
    pieces = list(_kept.players.play(block, looks))
    if not pieces:
        return None
    games = np.concatenate([piece.games for piece in pieces])
    return Played(
        Block(block.match, block.first, len(games) // 2),
        games,
        sum(piece.seconds for piece in pieces),
        b"".join(piece.notes for piece in pieces),
    )


def _players(setup: Setup) -> Players:
    """The players of a setup, in this process."""
    where = f"the worker on {platform.node()}"
    if setup.version != cribbage_env.__version__:
        raise AgentError(f"{where} has cribbage-lab {cribbage_env.__version__}, the tournament {setup.version}")
    config = TournamentConfig.model_validate_json(setup.config)
    with _at(setup.folder):
        load_modules(config.modules)
        differing = differing_file(dict(setup.files), file_digests(config))
    if differing is not None:
        raise AgentError(f"{where} has another file {differing!r} than the process that runs the tournament, or none")
    return Players(config, setup.folder)


@contextmanager
def _at(folder: str | None) -> Iterator[None]:
    """Be in a folder, if there is such a folder here."""
    with _moving:
        if folder is None or folder == os.getcwd() or not Path(folder).is_dir():
            yield
        else:
            with chdir(folder):
                yield


class _Seldom:
    """A question that is asked only so often, since the answer costs time; once it was True it stays so."""

    def __init__(self, question: Callable[[], bool]) -> None:
        self._question = question
        self._next = 0.0
        self._answer = False

    def __call__(self) -> bool:
        if not self._answer and time.monotonic() >= self._next:
            self._answer = self._question()
            self._next = time.monotonic() + _SECONDS_BETWEEN_LOOKS
        return self._answer
