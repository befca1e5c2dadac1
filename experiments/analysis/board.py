"""The analysis ``board``: what every position of the board is worth, between two players who play like an agent.

Deals of the agent against itself are played from 0-0, with a target that none of them reaches, and counted by the
points that fell and their order (:class:`agents.board.DealOutcomes`). The values of all positions follow by dynamic
programming, exactly, given these deals. Their standard errors come from the deals cut into batches, each with a board
of its own.

Only the points that fall matter, so an agent that plays to the score is taken to play as at 0-0 everywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from agents import Agent, AgentError, decision_keys, load_modules, make_agent
from agents.board import (
    BOARD_REWARDS,
    MOST_POINTS,
    BoardReward,
    BoardTable,
    DealOutcomes,
    count_event,
    load_board_table,
    solve_board,
)
from cribbage_env import CribbageVectorEnv, Rules
from cribbage_env.engine import (
    CRIB_PART,
    DECISIONS,
    HAND_DEALER_PART,
    HAND_PONE_PART,
    HEELS_PART,
    PLAY_DEALER_PART,
    PLAY_PONE_PART,
    SCORE,
)
from cribbage_env.jit import jit
from cribbage_env.rules import MAX_TARGET
from cribbage_env.streams import check_seed, combine
from experiments.config import BoardAnalysisConfig, UserError, parse_config
from experiments.run_folder import StopRequest, made_with, make_folder, replacing
from experiments.tournament.caller import Caller
from experiments.tournament.match import game_seeds

BATCHES = 32
"""The deals are cut into so many batches for standard errors."""

_SLOTS = 4096  # deals played side by side
_SEGMENT = 2**17  # deals that the environment is given at once
_DEALER, _PONE = 0, 1  # seats
_AGENT_STREAM = 1
_OPEN = 0.9  # difference of the chances to win and to lose, above which a position counts as decided
TABLE, PICTURE = "board.npz", "board.png"

load_board = load_board_table


@jit
def _count_step(
    actors: NDArray[np.int8],
    before: NDArray[np.int16],
    after: NDArray[np.int16],
    active: NDArray[np.bool_],
    ended: NDArray[np.bool_],
    parts: NDArray[np.int16],
    batches: NDArray[np.int64],
    totals: NDArray[np.int64],
    dealer_first: NDArray[np.int64],
    pone_first: NDArray[np.int64],
) -> None:
    """Count what a step of N deals brought. The dealer is seat 0.

    Args:
        actors: (N,) the seats that acted.
        before, after: (N, 2) the seats' scores.
        active: (N,) where a deal was under way.
        ended: (N,) where it has ended.
        parts: (N, 2, 6) points of the seats by part in the deals that have ended; void elsewhere.
        batches: (N,) the deals' batches.
        totals, dealer_first, pone_first: (BATCHES, MOST_POINTS, MOST_POINTS), added to.
    """
    for i in range(actors.shape[0]):
        if not active[i]:
            continue
        batch = batches[i]
        actor = int(actors[i])
        dealer = np.int64(before[i, _DEALER])
        pone = np.int64(before[i, _PONE])
        # In the cut and in the play only the seat that acts scores.
        if ended[i]:
            if actor == _DEALER:
                made = np.int64(parts[i, _DEALER, HEELS_PART]) + parts[i, _DEALER, PLAY_DEALER_PART] - dealer
            else:
                made = np.int64(parts[i, _PONE, PLAY_PONE_PART]) - pone
        else:
            made = np.int64(after[i, actor]) - np.int64(before[i, actor])
        if actor == _DEALER:
            count_event(dealer_first[batch], dealer, made, pone, 1)
            dealer += made
        else:
            count_event(pone_first[batch], pone, made, dealer, 1)
            pone += made
        if ended[i]:  # the show
            hand = np.int64(parts[i, _PONE, HAND_PONE_PART])
            count_event(pone_first[batch], pone, hand, dealer, 1)
            pone += hand
            points = np.int64(parts[i, _DEALER, HAND_DEALER_PART]) + parts[i, _DEALER, CRIB_PART]
            count_event(dealer_first[batch], dealer, points, pone, 1)
            dealer += points
            totals[batch, dealer, pone] += 1


class Deals:
    """Whole deals of an agent against itself, each from 0-0.

    Args:
        agent: plays both seats.
        deals: how many; at least :data:`BATCHES`.
        seed: gives the decks and the agent's random choices.
    """

    def __init__(self, agent: Agent, deals: int, seed: int) -> None:
        if deals < BATCHES:
            raise ValueError(f"at least {BATCHES} deals are needed for standard errors, got {deals}")
        self.agent = agent
        self.seed = check_seed(seed)
        self.deals = deals
        shape = (BATCHES, MOST_POINTS, MOST_POINTS)
        self._counts = tuple(np.zeros(shape, np.int64) for _ in range(3))

    @property
    def outcomes(self) -> DealOutcomes:
        """Of all deals."""
        return DealOutcomes(*(counts.sum(axis=0) for counts in self._counts))

    @property
    def batches(self) -> list[DealOutcomes]:
        """Of the batches, which differ by at most one in their number of deals."""
        return [DealOutcomes(*(counts[batch] for counts in self._counts)) for batch in range(BATCHES)]

    def play(self, on_deals: Callable[[int], object] | None = None, stop: Callable[[], bool] | None = None) -> bool:
        """Play them; returns whether they were all played.

        Args:
            on_deals: called with how many deals have just ended.
            stop: asked before every step; when it says True, that is the end.

        Raises:
            AgentError: the agent returned something else than actions, or an illegal one.
        """
        caller = Caller(self.agent, (self.agent.name, self.agent.name))
        self.agent.reset(int(combine(np.uint64(self.seed), _AGENT_STREAM)))
        env = CribbageVectorEnv(
            min(_SLOTS, self.deals), rules=Rules(MAX_TARGET), episode="deal", dealer=_DEALER, copy=False
        )
        for first in range(0, self.deals, _SEGMENT):
            numbers = np.arange(first, min(first + _SEGMENT, self.deals))
            if not self._play_segment(env, caller, numbers, on_deals, stop):
                return False
        return True

    def _play_segment(
        self,
        env: CribbageVectorEnv,
        caller: Caller,
        numbers: NDArray[np.int64],
        on_deals: Callable[[int], object] | None,
        stop: Callable[[], bool] | None,
    ) -> bool:
        """Play the deals with these consecutive numbers; returns whether they were all played."""
        seen, _ = env.reset(options={"game_seeds": game_seeds(self.seed, numbers)})
        actions = np.zeros(env.num_envs, np.int64)
        parts = np.zeros((env.num_envs, 2, 6), np.int16)
        ended = np.zeros(env.num_envs, np.bool_)
        while env.active.any():
            rows = np.flatnonzero(env.active)
            keys = decision_keys(self.seed, numbers[0] + env.numbers, env.rows[:, DECISIONS])
            chosen = None
            if stop is None or not stop():
                chosen = caller.act(seen["observation"][rows], seen["action_mask"][rows], keys[rows], stop)
            if chosen is None:
                return False
            actions[rows] = chosen
            before, actors = env.rows[:, SCORE : SCORE + 2].copy(), env.players.copy()
            active, batches = env.active.copy(), (numbers[0] + env.numbers) % BATCHES
            seen, _, _, _, _ = env.step(actions)
            slots, results = env.finished()
            if len(slots) and (results["forfeit"] >= 0).any():
                raise AgentError(f"the agent {self.agent.name!r} chose an illegal action; it has no board")
            ended[:] = False
            ended[slots] = True
            if len(slots):
                parts[slots] = results["parts"]
            _count_step(actors, before, env.rows[:, SCORE : SCORE + 2], active, ended, parts, batches, *self._counts)
            if on_deals is not None and len(slots):
                on_deals(len(slots))
        return True


def board_errors(batches: Sequence[DealOutcomes], rules: Rules, reward: BoardReward) -> NDArray[np.float64]:
    """The standard errors (target, target) of the dealer's values, from how much the batches' boards differ."""
    boards = np.array([solve_board(outcomes, rules, reward) for outcomes in batches])
    errors: NDArray[np.float64] = boards.std(axis=0, ddof=1) / len(batches) ** 0.5
    return errors


def board_values(
    agent: Agent | str,
    deals: int = 1_000_000,
    seed: int = 1,
    rules: Rules | None = None,
    reward: BoardReward = "win",
    on_deals: Callable[[int], object] | None = None,
    stop: Callable[[], bool] | None = None,
) -> BoardTable:
    """Sample an agent's deals and work out its board.

    Args:
        agent: an agent or its spec.
        deals: how many to sample; at least :data:`BATCHES`.
        seed: gives their decks and the agent's random choices.
        rules: of the games; None for the standard ones.
        reward: what the end of a game pays.
        on_deals, stop: see :meth:`Deals.play`.

    Raises:
        AgentError: an agent that can't be made or breaks its contract.
        KeyboardInterrupt: ``stop`` said so.
    """
    player = make_agent(agent) if isinstance(agent, str) else agent
    rules = Rules() if rules is None else rules
    sample = Deals(player, deals, seed)
    if not sample.play(on_deals, stop):
        raise KeyboardInterrupt
    return BoardTable(
        dealer=solve_board(sample.outcomes, rules, reward),
        errors=board_errors(sample.batches, rules, reward),
        rules=rules,
        reward=reward,
        agent=agent if isinstance(agent, str) else agent.name,
        seed=seed,
        outcomes=sample.outcomes,
        made_with=made_with(),
    )


@dataclass(frozen=True)
class Check:
    """A position of a board, and how games from there came out."""

    dealer_score: int
    pone_score: int
    value: float
    """Of the board."""
    error: float
    """Its standard error."""
    simulated: float
    """The mean reward of the dealer in the games played."""
    simulated_error: float
    """Its standard error."""

    @property
    def z(self) -> float:
        """The difference in standard errors; 0 where both are the same without any."""
        spread = float(np.hypot(self.error, self.simulated_error))
        difference = self.simulated - self.value
        return difference / spread if spread > 0 else (0.0 if difference == 0 else np.inf)


def check_board(
    table: BoardTable, agent: Agent, positions: Sequence[tuple[int, int]], games: int, seed: int
) -> Iterator[Check]:
    """Play games to their end from positions of a board.

    Args:
        table: to check.
        agent: plays both sides.
        positions: (dealer's score, pone's score).
        games: from each.
        seed: gives decks and random choices, apart for every position.
    """
    caller = Caller(agent, (agent.name, agent.name))
    for number, (dealer_score, pone_score) in enumerate(positions):
        env = CribbageVectorEnv(
            min(_SLOTS, games),
            rules=table.rules,
            reward=table.reward,
            scores=(dealer_score, pone_score),
            dealer=_DEALER,
            copy=False,
        )
        stream = int(combine(np.uint64(seed), number))
        agent.reset(int(combine(np.uint64(stream), _AGENT_STREAM)))
        seen, _ = env.reset(options={"game_seeds": game_seeds(stream, np.arange(games))})
        actions = np.zeros(env.num_envs, np.int64)
        rewards = np.zeros(games)
        while env.active.any():
            rows = np.flatnonzero(env.active)
            keys = decision_keys(stream, env.numbers, env.rows[:, DECISIONS])
            chosen = caller.act(seen["observation"][rows], seen["action_mask"][rows], keys[rows], None)
            assert chosen is not None  # nobody asks it to stop
            actions[rows] = chosen
            seen, _, _, _, infos = env.step(actions)
            slots, results = env.finished()
            if len(slots):
                rewards[results["game"]] = infos["rewards"][slots, _DEALER]
        yield Check(
            dealer_score,
            pone_score,
            float(table.dealer[dealer_score, pone_score]),
            float(table.errors[dealer_score, pone_score]),
            float(rewards.mean()),
            float(rewards.std(ddof=1) / games**0.5),
        )


def check_positions(table: BoardTable, number: int, seed: int) -> list[tuple[int, int]]:
    """Positions (dealer's score, pone's score) for :func:`check_board`: the start, and others drawn at random.

    Those that are all but decided are left out: few games from there would differ, and from all the same results no
    standard error can be told.
    """
    open_ones = np.argwhere(np.abs(table.solved_for(table.rules)) <= _OPEN)
    random = np.random.default_rng(seed)
    drawn = open_ones[random.permutation(len(open_ones))[: number - 1]]
    return [(0, 0), *((int(dealer), int(pone)) for dealer, pone in drawn)][:number]


def draw_board(path: Path, table: BoardTable) -> None:
    """Draw a board as a heat map: who deals, and both scores."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    win = table.reward == "win"
    values = (1 + table.dealer) / 2 if win else table.dealer
    most = 1.0 if win else float(np.abs(values).max())
    least = 0.0 if win else -most
    target = table.rules.target
    figure = Figure(figsize=(6.4, 5.6))
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    image = axes.imshow(values.T, origin="lower", cmap="RdBu", vmin=least, vmax=most, interpolation="nearest")
    levels = [0.1, 0.25, 0.5, 0.75, 0.9] if win else list(most * np.array([-0.8, -0.5, 0.0, 0.5, 0.8]))
    if target > 2:
        lines = axes.contour(values.T, levels=levels, colors="#333333", linewidths=0.8)
        axes.clabel(lines, fmt=(lambda level: f"{100 * level:.0f} %") if win else "%.1f", fontsize=8)
    axes.set_xlabel("the dealer's score")
    axes.set_ylabel("pone's score")
    ticks = range(0, target, 10 if target > 30 else 5)
    axes.set_xticks(list(ticks), [str(tick) for tick in ticks], fontsize=8)
    axes.set_yticks(list(ticks), [str(tick) for tick in ticks], fontsize=8)
    what = "The dealer's chance to win" if win else f"The dealer's mean reward ({table.reward})"
    axes.set_title(
        f"{what} before a deal, {table.agent} against itself\nto {target}, from {table.outcomes.deals:,} deals",
        loc="left",
        fontsize=10,
    )
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    if win:
        bar.ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    # without the date and version that would make equal pictures differ
    figure.savefig(path, format="png", dpi=150, bbox_inches="tight", pad_inches=0.2, metadata={"Software": None})


def report(table: BoardTable) -> str:
    """What the terminal says of a board."""
    dealer, pone = table.outcomes.mean_points
    start, error = float(table.dealer[0, 0]), float(table.errors[0, 0])
    lines = [
        f"{table.agent} against itself: {table.outcomes.deals:,} deals, seed {table.seed}; {dealer:.2f} points a deal "
        f"as dealer, {pone:.2f} as pone."
    ]
    if table.reward == "win":
        lines.append(
            f"At 0-0 the dealer wins {100 * (1 + start) / 2:.2f} % of the games to {table.rules.target} "
            f"(standard error {50 * error:.3f})."
        )
    else:
        lines.append(f"At 0-0 the dealer's mean reward ({table.reward}) is {start:+.4f} (standard error {error:.4f}).")
    worst = float(table.errors.max())
    scale, unit = (50, " %") if table.reward == "win" else (1, "")
    lines.append(f"Standard errors are {scale * worst:.3f}{unit} at most, over all positions.")
    return "\n".join(lines)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    defaults: dict[str, Any] = {key: field.default for key, field in BoardAnalysisConfig.model_fields.items()}
    parser.add_argument("agent", metavar="SPEC", help="an agent's name with options, or the path of a checkpoint")
    parser.add_argument("--deals", type=int, default=defaults["deals"], help="to sample (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=defaults["seed"], help="of decks and agents (default: %(default)s)")
    parser.add_argument("--target", type=int, default=121, help="the score that wins (default: %(default)s)")
    parser.add_argument(
        "--reward", choices=BOARD_REWARDS, default=defaults["reward"], help="what a win pays (default: %(default)s)"
    )
    parser.add_argument(
        "--check", type=int, default=defaults["check"], metavar="N", help="positions to check by games played from them"
    )
    parser.add_argument(
        "--check-games", type=int, default=defaults["check_games"], help="from each of them (default: %(default)s)"
    )
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        help="a module or .py file that registers agents of your own; repeatable",
    )
    parser.add_argument("--output", metavar="FOLDER", default="runs/board", help=f"for {TABLE} and {PICTURE} "
                        "(default: %(default)s)")  # fmt: skip
    parser.add_argument("--overwrite", action="store_true", help="replace a board that is in the folder already")


def run(args: argparse.Namespace) -> int:
    """Work out a board, write it down, and check it if that was asked for."""
    config = parse_config(
        {
            "agent": args.agent,
            "deals": args.deals,
            "seed": args.seed,
            "rules": {"target": args.target},
            "reward": args.reward,
            "check": args.check,
            "check_games": args.check_games,
            "modules": args.module,
        },
        BoardAnalysisConfig,
        "cribbage analyse board",
    )
    load_modules(config.modules)
    agent = make_agent(config.agent)
    folder = Path(args.output)
    path = folder / TABLE
    if path.exists() and not args.overwrite:
        raise UserError(
            f"there is a {str(path)!r}; replace it with --overwrite, or choose another folder with --output"
        )
    make_folder(folder)
    with StopRequest() as stop, tqdm(total=config.deals, unit=" deals", disable=not sys.stderr.isatty()) as bar:
        agent.name = config.agent
        table = board_values(
            agent,
            config.deals,
            config.seed,
            config.rules.rules(),
            config.reward,
            on_deals=bar.update,
            stop=lambda: stop.asked,
        )
    try:
        with replacing(path) as temporary:
            table.save(temporary)
        with replacing(folder / PICTURE) as temporary:
            draw_board(temporary, table)
    except OSError as error:
        raise UserError(f"can't write to {str(folder)!r}: {error.strerror or error}") from None
    print(report(table))
    if config.check:
        _print_checks(table, agent, config)
    print(f"\nwritten: {path}\n         {folder / PICTURE}")
    return 0


def _print_checks(table: BoardTable, agent: Agent, config: BoardAnalysisConfig) -> None:
    """Check a board and say what came out."""
    positions = check_positions(table, config.check, config.seed)
    # other games than those deals: streams of the next seed
    games = check_board(table, agent, positions, config.check_games, (config.seed + 1) % 2**64)
    checks = list(tqdm(games, total=len(positions), unit=" positions", disable=not sys.stderr.isatty()))
    squares = sum(check.z**2 for check in checks)
    worst = max(checks, key=lambda check: abs(check.z))
    print(
        f"\n{len(checks)} positions checked by {config.check_games:,} games each: differences of "
        f"{(squares / len(checks)) ** 0.5:.2f} standard errors (root mean square; 1 is right), the largest "
        f"{worst.z:+.1f} at {worst.dealer_score}-{worst.pone_score} (dealer-pone)."
    )
