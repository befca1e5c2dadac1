"""Which games a tournament has, and which of them are still to be played.

A tournament is a list of matches, a match a list of pairs of games. A block is a run of consecutive pairs of a match.
What is in a block follows from the config alone, so it does not matter how a match is cut into blocks, who plays them,
when, or in which order: finished blocks are put together by their numbers. How many pairs a block has is only a
question of time: :class:`Schedule` cuts blocks of a few seconds, by the speed that the match has shown.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from experiments.config import EntrantConfig, TournamentConfig, UserError, parse_shard

_SECONDS = 5.0  # how long a block should take
_FIRST_GAMES = 64  # of a match's first block; a slow agent's blocks stay that small
_GROWTH = 16  # the next block is at most so many times as long as the longest so far


class Block(NamedTuple):
    """The pairs ``first``, ..., ``first + pairs - 1`` of a match."""

    match: int
    first: int
    pairs: int


@dataclass(frozen=True)
class Match:
    """A match of a tournament, or the share of it that a shard plays."""

    number: int  # 1, 2, ...
    agents: tuple[int, int]  # A and B, as places in the config's list
    names: tuple[str, str]
    first: int  # pair
    pairs: int  # none, where a shard has no share in it

    @property
    def games(self) -> int:
        """How many games it has."""
        return 2 * self.pairs


def matches_of(config: TournamentConfig) -> list[Match]:
    """The matches of a config, every agent against every other one, in order.

    A shard i/n has the i-th of n equal shares of the pairs of every match.

    Raises:
        UserError: two agents are given the same name; an anchor that is none of them; a shard without any games.
    """
    names = entrant_names(config.agents)
    if config.anchor is not None and config.anchor not in names:
        raise UserError(f"anchor: must be the name of one of the agents, {', '.join(names)}; got {config.anchor!r}")
    share, shares = (1, 1) if config.shard is None else parse_shard(config.shard)
    matches = []
    for number, (a, b) in enumerate(combinations(range(len(names)), 2), 1):
        limits = [games for games in (config.agents[a].games, config.agents[b].games) if games is not None]
        pairs = min([config.games, *limits]) // 2
        first, end = (pairs * edge // shares for edge in (share - 1, share))
        matches.append(Match(number, (a, b), (names[a], names[b]), first, end - first))
    if not any(match.pairs for match in matches):
        raise UserError(f"shard: {config.shard} has no games, the matches are shorter than {shares} pairs")
    return matches


def entrant_names(entrants: Sequence[EntrantConfig]) -> list[str]:
    """The agents' names, all different: the given ones, or specs, numbered (``greedy-2``) when they are taken.

    Raises:
        UserError: two given names are the same.
    """
    given = [entrant.name for entrant in entrants if entrant.name is not None]
    for name in given:
        if given.count(name) > 1:
            raise UserError(f"agents: the name {name!r} is given to more than one; names tell the results apart")
    taken = set(given)
    names = []
    for entrant in entrants:
        names.append(entrant.name or _free_name(entrant.spec, taken))
        taken.add(names[-1])
    return names


def _free_name(spec: str, taken: set[str]) -> str:
    name, number = spec, 2
    while name in taken:
        name, number = f"{spec}-{number}", number + 1
    return name


class Coverage:
    """Which pairs of a match there are: disjoint runs in order, neighbours joined."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def add(self, first: int, pairs: int) -> None:
        """Note a run of pairs.

        Raises:
            ValueError: some of them are there already.
        """
        at = bisect_right(self._starts, first)
        end = first + pairs
        if (at > 0 and self._ends[at - 1] > first) or (at < len(self._starts) and self._starts[at] < end):
            raise ValueError(f"pairs {first} to {end - 1} are there already, or some of them")
        joins_before = at > 0 and self._ends[at - 1] == first
        joins_after = at < len(self._starts) and self._starts[at] == end
        if joins_before and joins_after:
            self._ends[at - 1] = self._ends.pop(at)
            del self._starts[at]
        elif joins_before:
            self._ends[at - 1] = end
        elif joins_after:
            self._starts[at] = first
        else:
            self._starts.insert(at, first)
            self._ends.insert(at, end)

    def whole(self, first: int) -> int:
        """How many pairs there are from ``first`` on without a gap."""
        at = bisect_right(self._starts, first)
        return max(0, self._ends[at - 1] - first) if at > 0 else 0

    def missing(self, first: int, pairs: int) -> list[tuple[int, int]]:
        """The runs (first pair, number of pairs), in order, that are not there of a run of pairs."""
        end = first + pairs
        gaps = []
        for start, stop in [*zip(self._starts, self._ends, strict=True), (end, end)]:
            if min(start, end) > first:
                gaps.append((first, min(start, end) - first))
            first = max(first, stop)
        return gaps


class Schedule:
    """Hands out what is missing of a tournament, block by block.

    Args:
        matches: of the tournament.
        coverage: what there is of each, by the match's number.
        batch: how many games are played side by side, the least that a block has if there are that many.
    """

    def __init__(self, matches: Sequence[Match], coverage: Mapping[int, Coverage], batch: int) -> None:
        self._gaps = [
            Block(match.number, *gap)
            for match in matches
            for gap in coverage.get(match.number, Coverage()).missing(match.first, match.pairs)
        ]
        self._gaps.reverse()  # the next one is the last
        self._least = max(1, min(batch, _FIRST_GAMES) // 2)
        self._pairs_per_second: dict[int, float] = {}
        self._longest: dict[int, int] = {}

    def next(self, at_once: int = 1) -> Block | None:
        """The next block to play, None if all are handed out.

        Args:
            at_once: how many are played at the same time; towards the end blocks get shorter, to end together.
        """
        if not self._gaps:
            return None
        match, first, pairs = self._gaps.pop()
        size = self._size(match)
        if at_once > 1:
            left = pairs + sum(gap.pairs for gap in self._gaps)
            size = max(1, min(size, left // (2 * at_once)))
        size = min(size, pairs)
        if size < pairs:
            self._gaps.append(Block(match, first + size, pairs - size))
        return Block(match, first, size)

    def _size(self, match: int) -> int:
        """How many pairs the match's next block should have."""
        wanted = int(self._pairs_per_second.get(match, 0.0) * _SECONDS)
        return max(self._least, min(wanted, _GROWTH * self._longest.get(match, 0)))

    def put_back(self, block: Block) -> None:
        """A block that was handed out was not played."""
        self._gaps.append(block)

    def played(self, block: Block, seconds: float) -> None:
        """A block was played in that time: the match's next ones have the size that fits."""
        if seconds > 0:
            self._pairs_per_second[block.match] = block.pairs / seconds
        self._longest[block.match] = max(block.pairs, self._longest.get(block.match, 0))

    def cut(self, match: int, end: int) -> None:
        """The match is over before the pair with that number."""
        self._gaps = [
            gap if gap.match != match else gap._replace(pairs=min(gap.pairs, end - gap.first))
            for gap in self._gaps
            if gap.match != match or gap.first < end
        ]
