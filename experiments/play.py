"""The command ``cribbage play``: a game against an agent in the terminal, or between two agents to watch."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from agents import Agent, decision_keys, load_modules, make_agent
from cribbage_env import Game, IllegalActionError, Rules, card_text, cards_text, parse_card, score_hand, score_play
from cribbage_env.cards import RANKS
from cribbage_env.engine import FIRST_PLAY, KEPT_PLACES, LAID, LAID_GO, NUM_ACTIONS
from cribbage_env.events import breakdown_text
from cribbage_env.records import Step, append_record, record_of
from cribbage_env.scoring import MAX_COUNT
from cribbage_env.streams import check_seed, fresh_seed
from experiments.config import UserError
from experiments.tournament.caller import Caller
from experiments.transcript import Pauses, Transcript, seat_names

YOU = "you"
_HELP = (
    "Cards are a rank and a suit, as in 5H, TC (or 10C), JD; the rank alone will do where you have one such card.\n"
    "?: what the advisor would do    c: the cards and the count again    quit: end the game    h: this"
)
_MOST_HINTS = 5
_FIRST_DEALER = ("0", "1", "cut")


class Quit(Exception):
    """The person wants no more, or there is no more input."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("agent", metavar="AGENT", nargs="?", help="who you play against, a spec (default: expected)")
    parser.add_argument("--watch", metavar=("A", "B"), nargs=2, help="watch two agents play instead, in seats 0 and 1")
    parser.add_argument("--seed", type=int, help="of the decks and the agents' choices (default: a new one)")
    parser.add_argument("--seat", type=int, choices=(0, 1), default=0, help="yours (default: %(default)s)")
    parser.add_argument(
        "--dealer", choices=_FIRST_DEALER, default="cut", help="the seat that deals first (default: cut for it)"
    )
    parser.add_argument("--target", type=int, default=121, help="the score that wins (default: %(default)s)")
    parser.add_argument(
        "--scores", type=int, nargs=2, metavar=("S0", "S1"), default=(0, 0), help="what the seats have at the start"
    )
    parser.add_argument("--advisor", default="expected", help="whose advice ? gives, a spec (default: %(default)s)")
    parser.add_argument(
        "--module",
        action="append",
        default=[],
        help="a module or .py file that registers agents of your own; repeatable",
    )
    parser.add_argument("--record", metavar="FILE", help="add the game to this file, finished or not (docs/records.md)")


def run(args: argparse.Namespace) -> int:
    """Play a game."""
    record = None if args.record is None else _record_file(args.record)
    if args.watch is not None and args.agent is not None:
        raise UserError(f"--watch names both agents, so {args.agent!r} has no seat: leave it out")
    game = _game(args)
    load_modules(args.module)
    if args.watch is not None:
        agents: list[Agent | None] = [make_agent(spec) for spec in args.watch]
        person = None
    else:
        person = _Person(args.seat, args.advisor)
        agents = [make_agent(args.agent or "expected"), None]
        if args.seat == 0:
            agents.reverse()
    try:
        _play(game, agents, person)
    except (Quit, EOFError):
        print(f"\nThe game is not over, {_score(game)}.")
    finally:
        if record is not None:
            names = [YOU if agent is None else agent.name for agent in agents]
            _append(record, game, names)
    return 0


def _game(args: argparse.Namespace) -> Game:
    try:
        return Game(
            Rules(args.target),
            fresh_seed() if args.seed is None else check_seed(args.seed),
            None if args.dealer == "cut" else int(args.dealer),
            args.scores,
        )
    except ValueError as error:
        raise UserError(str(error)) from None


def _record_file(name: str) -> Path:
    """The file for the record, if one can be written there."""
    path = Path(name)
    try:
        if path.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        if not path.parent.is_dir():
            raise FileNotFoundError(2, f"there is no folder {str(path.parent)!r}")
        new = not path.exists()
        path.open("ab").close()  # said before the game, not after it
        if new:
            path.unlink()
    except OSError as error:
        raise UserError(f"--record: can't write to {name!r}: {error.strerror or error}") from None
    return path


def _append(path: Path, game: Game, names: Sequence[str]) -> None:
    try:
        append_record(path, record_of(game, names))
    except OSError as error:
        raise UserError(f"--record: can't write to {str(path)!r}: {error.strerror or error}") from None


def _score(game: Game) -> str:
    return f"{game.scores[0]}-{game.scores[1]}"


def _play(game: Game, agents: Sequence[Agent | None], person: _Person | None) -> None:
    """Play a game to its end; None among the agents is the person."""
    names = seat_names([YOU if agent is None else agent.name for agent in agents])
    print(f"{names[0]} in seat 0, {names[1]} in seat 1, to {game.rules.target}, seed {game.seed}")
    if person is not None:
        print(_HELP)
    callers = [None if agent is None else Caller(agent, names) for agent in agents]
    transcript = Transcript(names, None if person is None else person.seat)
    pauses = Pauses(wanted=person is None)
    begun = -1
    while game.player is not None:
        if begun < game.deal:
            begun = game.deal
            transcript.deal(game, begun, game.scores)
            pauses.wait()
        caller = callers[game.player]
        if caller is None:
            assert person is not None
            step = _step(game, person.choose(game))
        else:
            step = _step(game, _agents_action(game, caller))
        transcript.step(step)
        pauses.wait()
    transcript.end(game)


def _agents_action(game: Game, caller: Caller) -> int:
    """What an agent does: the same whenever the seed and what went before are the same."""
    seen = game.observation()
    keys = decision_keys(game.seed, np.zeros(1, np.int64), np.array([len(game.actions)]))
    chosen = caller.act(seen["observation"][None], seen["action_mask"][None], keys, None)  # type: ignore[arg-type]
    assert chosen is not None
    return int(chosen[0])


def _step(game: Game, action: int) -> Step:
    """Take an action, with the loss of the game if it is illegal."""
    assert game.player is not None
    deal, player, laid = game.deal, game.player, int(game.state()[LAID])
    text = game.action_text(action)
    try:
        events = game.step(action)
    except IllegalActionError as error:
        print(f"  {error}")
        game.forfeit()
        return Step(game, deal, player, "forfeit", [])
    said_go = action >= FIRST_PLAY and bool(game.state()[LAID_GO + laid])
    return Step(game, deal, player, text, events, said_go)


# --- The person ---------------------------------------------------------------------------------------------------


class _Person:
    """Asks for the actions of a seat.

    Args:
        seat: the person's.
        advisor: the spec of the agent that is asked for advice; it is made when it is needed, but must be one.
    """

    def __init__(self, seat: int, advisor: str) -> None:
        self.seat = seat
        self._advisor = make_agent(advisor)

    def choose(self, game: Game) -> int:
        """The action that the person says, one that is legal.

        Raises:
            Quit: they want no more.
            EOFError: there is no more input.
        """
        legal = game.legal_actions()
        if game.phase == "play" and len(legal) == 1:  # nothing to choose
            return legal[0]
        self._show(game)
        while True:
            said = input("throw two> " if game.phase == "discard" else "lay> ").strip()
            word = said.lower()
            if word in ("quit", "exit"):  # not q, which is a queen
                raise Quit
            if word in ("h", "help"):
                print(_HELP)
            elif word in ("c", "cards"):
                self._show(game)
            elif word == "?":
                for line in self.advice(game):
                    print(f"  {line}")
            elif said:
                try:
                    return action_of(game, said)
                except ValueError as error:
                    print(f"  {error}")

    def _show(self, game: Game) -> None:
        held = cards_text(game.hand(self.seat))
        if game.phase == "discard":
            whose = "your" if game.dealer == self.seat else "their"
            print(f"  you hold {held}; it is {whose} crib, {_score(game)}")
        else:
            stack = f" ({cards_text(game.stack)})" if game.stack else ""
            print(f"  you hold {held}; the count is {game.count}{stack}, {_score(game)}")

    def advice(self, game: Game) -> Iterator[str]:
        """The choices that the advisor thinks best, the best first: the probability that it would take each, its value
        (of advisors that have values), and what it scores at once."""
        seen = game.observation()
        observations, masks = seen["observation"][None], seen["action_mask"][None]
        policy = self._advisor.policy(observations, masks)[0]  # type: ignore[arg-type]
        values = np.zeros(NUM_ACTIONS)
        has_values = hasattr(self._advisor, "action_values")
        if has_values:
            values = self._advisor.action_values(observations, masks)[0]  # type: ignore[attr-defined]
        points = {action: points_now(game, action) for action in game.legal_actions()}
        best = sorted(points, key=lambda action: (-policy[action], -values[action], -points[action][0], action))
        yield f"{self._advisor.name} would"
        for action in best[:_MOST_HINTS]:
            total, parts = points[action]
            yield (
                f"  {policy[action]:4.0%}  {game.action_text(action)}"
                + (f", worth {values[action]:+.2f}" if has_values else "")
                + (f", {total} now: {parts}" if total else ", 0 now")
            )


def points_now(game: Game, action: int) -> tuple[int, str]:
    """What an action of the seat to act is worth at once, and of what: the kept four without a starter, or the card."""
    assert game.player is not None
    if action < FIRST_PLAY:
        cards = game.cards(game.player)
        hand = score_hand([cards[place] for place in KEPT_PLACES[action]], None)
        return hand.total, breakdown_text(hand)
    card = game.kept(game.player)[action - FIRST_PLAY]
    play = score_play([*game.stack, card])
    return play.total, breakdown_text(play)


def action_of(game: Game, said: str) -> int:
    """The legal action that a person's words mean: ``"5H JC"``, ``"4h"``, or ranks where they are enough.

    Raises:
        ValueError: one line about what they don't mean.
    """
    assert game.player is not None
    held = game.hand(game.player)
    cards = [_held_card(held, word) for word in re.split(r"[\s,]+", said.strip())]
    wanted = 2 if game.phase == "discard" else 1
    if len(cards) != wanted or len(set(cards)) != wanted:
        raise ValueError(f"{'two different cards' if wanted == 2 else 'one card'}, please, of {cards_text(held)}")
    for action in game.legal_actions():
        if action < FIRST_PLAY:
            six = game.cards(game.player)
            kept = {six[place] for place in KEPT_PLACES[action]}
            if kept.isdisjoint(cards):
                return action
        elif game.kept(game.player)[action - FIRST_PLAY] == cards[0]:
            return action
    raise ValueError(f"{card_text(cards[0])} would carry the count of {game.count} above {MAX_COUNT}")


def _held_card(held: list[int], word: str) -> int:
    """A card of the hand, by its text or, where that is enough, its rank."""
    rank = "T" if word == "10" else word.upper()
    if rank in RANKS and len(rank) == 1:
        same = [card for card in held if card // 4 == RANKS.index(rank)]
        if len(same) == 1:
            return same[0]
        if same:
            raise ValueError(f"which one: {cards_text(same)}?")
        raise ValueError(f"you don't hold a card of rank {rank}; you hold {cards_text(held)}")
    card = parse_card(word)
    if card not in held:
        raise ValueError(f"you don't hold {card_text(card)}; you hold {cards_text(held)}")
    return card
