"""A tournament: every agent meets every other one, on the same deals.

All matches have the tournament's seed, so they meet the same decks: results can be compared deal by deal, and a match
comes out the same whoever else takes part (and in ``cribbage evaluate`` with that seed).
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from agents import Agent, load_modules, make_agent, named_in
from experiments.config import EntrantConfig, TournamentConfig, UserError
from experiments.run_folder import StopRequest
from experiments.tournament.journal import Journal
from experiments.tournament.match import GAME_DTYPE, Games
from experiments.tournament.plan import Block, Coverage, Match, Schedule, entrant_names, matches_of
from experiments.tournament.pools import Future, Pool, PoolLostError, WorkerDiedError, open_pool
from experiments.tournament.progress import Progress
from experiments.tournament.summary import MatchSummary
from experiments.tournament.worker import Played, Players

StopRule = Callable[[NDArray[np.int8]], int | None]
"""Ends a match early: given how many games A won in each of the match's first pairs, (P,) in order, it says after how
many of these pairs the match is over, or None if it goes on. What it says must not change when pairs are added."""

_SUMMARY_PAIRS = 4096  # taken into a summary at once, the same whatever blocks they were played in
_AHEAD = 1  # blocks given to a pool that wait for a worker
_DEATHS = 3  # of each worker, with no block finished in between, until the tournament is given up


def make_entrants(entrants: Sequence[EntrantConfig]) -> list[Agent]:
    """The agents, each with a name of its own: the given one, or its spec, numbered (``greedy-2``) when that is taken.

    Raises:
        UserError: two given names are the same.
        AgentError: a spec that names no agent.
    """
    agents = []
    for entrant, name in zip(entrants, entrant_names(entrants), strict=True):
        with named_in("agents"):
            agent = make_agent(entrant.spec)
        agent.name = name
        agents.append(agent)
    return agents


class Tournament:
    """The round robin of a config, played into a journal.

    Args:
        config: what to play; its ``output`` and ``name`` don't matter here.
        stop_rule: ends matches early; None takes that of the config's ``sprt``, or plays all pairs.

    Raises:
        UserError: two agents of the same name, or a shard without games.
    """

    def __init__(self, config: TournamentConfig, stop_rule: StopRule | None = None) -> None:
        self.config = config
        self.matches = matches_of(config)
        self.agents: list[Agent] = []
        """In the config's order, once they are made."""
        if stop_rule is None and config.sprt is not None:
            stop_rule = config.sprt.test().first_decision
        self._stop_rule = stop_rule
        self._by_number = {match.number: match for match in self.matches}
        self._needed = {match.number: match.pairs for match in self.matches}  # fewer if the match is stopped early
        self._outcomes = {match.number: np.zeros(0, np.int8) for match in self.matches}  # what the stop rule has seen

    def make_agents(self) -> None:
        """Make the agents, if they are not made yet.

        Raises:
            AgentError: one that can't be made.
        """
        if not self.agents:
            with named_in("modules"):
                load_modules(self.config.modules)
            self.agents = make_entrants(self.config.agents)

    @property
    def games(self) -> int:
        """How many games the tournament has, as far as is known."""
        return 2 * sum(self._needed.values())

    def played(self, journal: Journal) -> int:
        """How many of its games are in a journal, those behind a gap included."""
        return self.games - 2 * sum(
            pairs
            for match in self.matches
            for _, pairs in _coverage(journal, match).missing(match.first, self._needed[match.number])
        )

    def play(self, journal: Journal) -> bool:
        """Play what a journal lacks, with progress on standard error; returns whether the tournament is finished.

        Ctrl-C, the first one, has the blocks under way end early, and what was finished of them is noted.

        Raises:
            AgentError: an agent that can't be made, or broke its contract.
            UserError: the journal can't be written, or workers keep dying.
            KeyboardInterrupt: the second Ctrl-C.
        """
        for match in self.matches:
            self._apply_stop_rule(journal, match)
        if self.finished(journal):
            return True
        self.make_agents()
        schedule = Schedule(self.matches, journal.coverage, self.config.batch)
        for match in self.matches:
            schedule.cut(match.number, match.first + self._needed[match.number])
        with StopRequest() as stop, Progress(self.games, self.played(journal)) as progress:

            def note(played: Played) -> None:
                match = self._by_number[played.block.match]
                journal.append(*played)
                progress.add(len(played.games), " – ".join(match.names))
                self._apply_stop_rule(journal, match)
                schedule.cut(match.number, match.first + self._needed[match.number])
                progress.shorten(self.games)

            if self.config.jobs == 1 and self.config.backend == "local":
                self._play_here(schedule, stop, progress, note)
            else:
                with open_pool(self.config) as pool:
                    _play_in(pool, schedule, stop, progress, note)
        return self.finished(journal)

    def _play_here(
        self, schedule: Schedule, stop: StopRequest, progress: Progress, note: Callable[[Played], None]
    ) -> None:
        players = Players(self.config, agents=dict(enumerate(self.agents)))

        def asked() -> bool:
            progress.tick()
            return stop.asked

        while not stop.asked and (block := schedule.next()) is not None:
            seconds = 0.0
            for played in players.play(block, asked):
                note(played)
                seconds += played.seconds
                if self._needed[block.match] < self._by_number[block.match].pairs:
                    break  # the stop rule has ended the match
            schedule.played(block, seconds)

    def finished(self, journal: Journal) -> bool:
        """Whether a journal has all games."""
        return all(self.whole_pairs(journal, match) == self._needed[match.number] for match in self.matches)

    def whole_pairs(self, journal: Journal, match: Match) -> int:
        """How many pairs of a match there are without a gap: its result so far.

        What lies behind a gap is no part of it: blocks that are finished early have rather short games.
        """
        return min(_coverage(journal, match).whole(match.first), self._needed[match.number])

    def results(self, journal: Journal, match: Match) -> Iterator[Games]:
        """The games of a match without a gap, in order, in pieces that don't depend on how they were played."""
        left = np.zeros(0, GAME_DTYPE)
        for games in journal.read(match.number, match.first, match.first + self.whole_pairs(journal, match)):
            left = np.concatenate([left, games]) if len(left) else games
            whole = len(left) - len(left) % (2 * _SUMMARY_PAIRS)
            for start in range(0, whole, 2 * _SUMMARY_PAIRS):
                yield left[start : start + 2 * _SUMMARY_PAIRS]
            left = left[whole:]
        if len(left):
            yield left

    def summary(
        self, journal: Journal, match: Match, on_games: Callable[[Games], object] | None = None
    ) -> MatchSummary:
        """The summary of a match's results.

        Args:
            journal: with the match's games.
            match: of the tournament.
            on_games: called with the games that are summed up.
        """
        summary = MatchSummary(match.names)
        for games in self.results(journal, match):
            summary.add(games)
            if on_games is not None:
                on_games(games)
        summary.seconds = journal.seconds(match.number)
        return summary

    def summaries(self, journal: Journal) -> list[MatchSummary]:
        """The summaries of all matches that have begun, in order."""
        return [self.summary(journal, match) for match in self.matches if self.whole_pairs(journal, match)]

    def _apply_stop_rule(self, journal: Journal, match: Match) -> None:
        """Ask the rule, if there is one, after how many pairs a match is over."""
        if self._stop_rule is None or self._needed[match.number] < match.pairs:
            return
        outcomes = self._outcomes[match.number]
        new = journal.read(match.number, match.first + len(outcomes), match.first + self.whole_pairs(journal, match))
        outcomes = np.concatenate([outcomes, *((games["winner"].reshape(-1, 2) == 0).sum(1, np.int8) for games in new)])
        self._outcomes[match.number] = outcomes
        end = self._stop_rule(outcomes) if len(outcomes) else None
        if end is not None:
            if not 0 < end <= len(outcomes):
                raise ValueError(f"a stop rule must end a match after 1 to {len(outcomes)} pairs, got {end}")
            self._needed[match.number] = end


def _coverage(journal: Journal, match: Match) -> Coverage:
    return journal.coverage.get(match.number, Coverage())


def _play_in(
    pool: Pool, schedule: Schedule, stop: StopRequest, progress: Progress, note: Callable[[Played], None]
) -> None:
    """Have everything played by a pool. Whatever goes wrong, what others have finished is noted before it is raised."""
    done: queue.SimpleQueue[Future] = queue.SimpleQueue()
    under_way: dict[Future, Block] = {}
    problem: Exception | None = None
    told = False  # whether the pool was asked to stop
    deaths = 0
    while True:
        ending = stop.asked or problem is not None
        at_once = pool.at_once()
        while not ending and len(under_way) < at_once + _AHEAD:
            block = schedule.next(at_once)
            if block is None:
                break
            future = pool.submit(block)
            under_way[future] = block
            future.add_done_callback(done.put)
        if not under_way:
            break
        if ending and not told:
            pool.ask_to_stop()
            told = True
        try:
            future = done.get(timeout=0.2)
        except queue.Empty:
            progress.tick()
            continue
        block = under_way.pop(future)
        try:
            played = pool.result(future)
            if played is not None:
                note(played)
                schedule.played(played.block, played.seconds)
            pairs = 0 if played is None else played.block.pairs
            if pairs < block.pairs and not ending:
                schedule.put_back(Block(block.match, block.first + pairs, block.pairs - pairs))
            deaths = 0
        except WorkerDiedError:
            schedule.put_back(block)
            deaths += 1
            progress.say("a worker process has died; its block is played again")
            if deaths > _DEATHS * (at_once + _AHEAD):
                problem = problem or UserError(
                    "worker processes keep dying (killed by the system, for want of memory?); fewer jobs or a smaller "
                    "batch may help, and the same command with --resume goes on"
                )
        except PoolLostError as error:
            raise problem or error from None
        except Exception as error:
            problem = problem or error
    if problem is not None:
        raise problem
