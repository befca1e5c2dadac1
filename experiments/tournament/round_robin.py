"""A tournament: every agent meets every other one, on the same deals.

All matches have the tournament's seed, so they meet the same decks: results can be compared deal by deal, and a match
comes out the same whoever else takes part (and in ``cribbage evaluate`` with that seed).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import combinations

from tqdm import tqdm

from agents import Agent, load_modules, make_agent
from experiments.config import EntrantConfig, TournamentConfig, UserError
from experiments.run_folder import StopRequest
from experiments.tournament.match import Games, play_match
from experiments.tournament.summary import MatchSummary

OnBlock = Callable[[int, tuple[str, str], Games], object]


def make_entrants(entrants: Sequence[EntrantConfig]) -> list[Agent]:
    """The agents, each with a name of its own: the given one, or its spec, numbered (``greedy-2``) when that is taken.

    Raises:
        UserError: two given names are the same.
        AgentError: a spec that names no agent.
    """
    given = [entrant.name for entrant in entrants if entrant.name is not None]
    for name in given:
        if given.count(name) > 1:
            raise UserError(f"agents: the name {name!r} is given to more than one; names tell the results apart")
    taken = set(given)
    agents = []
    for entrant in entrants:
        agent = make_agent(entrant.spec)
        agent.name = entrant.name or _free_name(entrant.spec, taken)
        taken.add(agent.name)
        agents.append(agent)
    return agents


def _free_name(spec: str, taken: set[str]) -> str:
    name, number = spec, 2
    while name in taken:
        name, number = f"{spec}-{number}", number + 1
    return name


class Tournament:
    """The round robin of a config.

    Args:
        config: what to play; its ``output`` and ``name`` don't matter here.

    Raises:
        UserError, AgentError: agents that can't be made. Nothing has been played then.
    """

    def __init__(self, config: TournamentConfig) -> None:
        load_modules(config.modules)
        self.config = config
        self.agents = make_entrants(config.agents)
        self.matches = list(combinations(self.agents, 2))
        self.games = [
            min([config.games, *(entrant.games for entrant in pair if entrant.games is not None)])
            for pair in combinations(config.agents, 2)
        ]
        """How many games each match has: the config's, or what one of its agents is limited to."""
        self.summaries: list[MatchSummary] = []
        """Of the matches played so far, in order; the last one may have been broken off."""

    @property
    def finished(self) -> bool:
        """Whether all games have been played."""
        return sum(summary.games for summary in self.summaries) == sum(self.games)

    def play(self, on_block: OnBlock | None = None) -> None:
        """Play all matches, with a progress bar if standard error is a terminal.

        Ctrl-C ends it after the step under way, with :attr:`finished` False and the whole pairs that were finished in
        :attr:`summaries`.

        Args:
            on_block: called with the number of the match (1, 2, ...), the names of A and B, and a block of games.
        """
        config = self.config
        with StopRequest() as stop, tqdm(total=sum(self.games), unit=" games", disable=not sys.stderr.isatty()) as bar:
            for number, ((a, b), match_games) in enumerate(zip(self.matches, self.games, strict=True), 1):
                summary = MatchSummary((a.name, b.name))
                bar.set_description(f"{a.name} – {b.name}")

                def note(games: Games, number: int = number, summary: MatchSummary = summary) -> None:
                    if on_block is not None:
                        on_block(number, summary.names, games)
                    bar.update(len(games))

                try:
                    play_match(
                        a,
                        b,
                        match_games // 2,
                        config.seed,
                        rules=config.rules.rules(),
                        batch=config.batch,
                        stop=lambda: stop.asked,
                        on_block=note,
                        into=summary,
                    )
                except KeyboardInterrupt:  # the second Ctrl-C
                    stop.asked = True
                finally:
                    if summary.pairs:
                        self.summaries.append(summary)
                if stop.asked:
                    return
