"""Game records: a game as one line of JSON, written, read back, and replayed through the engine.

The format is described field by field in ``docs/records.md`` and as a JSON Schema in ``docs/record.schema.json``. A
record needs only the cards, discards and plays of every deal, so that a few lines in another program can write one;
whatever else it has (events, scores, the winner, the seed) is checked by :func:`replay` against the engine.

>>> record = record_of(game, agents=("greedy", "expected"))
>>> write_records("games.jsonl.gz", [record])
>>> [replay(record).winner for record in read_records("games.jsonl.gz")]
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any, BinaryIO, NoReturn, cast

from cribbage_env.cards import NO_CARD, card_text, cards_text
from cribbage_env.engine import (
    CARD_EVENT,
    CRIB_EVENT,
    EVENT_KINDS,
    FIRST_PLAY,
    FORFEIT,
    HAND_EVENT,
    HEELS_EVENT,
    LAID_GO,
    NUM_ACTIONS,
    PAIRS,
    SCORE,
    WINNER,
    is_legal,
)
from cribbage_env.events import Event
from cribbage_env.game import Game, IllegalActionError
from cribbage_env.game_log import GameLog, log_game
from cribbage_env.record_format import (
    EVENT_KEYS,
    FORMAT,
    GO,
    HAND_PARTS,
    MATCH_KEYS,
    PLAY_PARTS,
    VERSION,
    Content,
    DealContent,
    Record,
    RecordDifference,
    RecordError,
    check_record,
    content_of,
    short,
)
from cribbage_env.rules import Rules

__all__ = [
    "Record",
    "RecordDifference",
    "RecordError",
    "Step",
    "actions_of",
    "append_record",
    "check_record",
    "open_for_writing",
    "parse_record",
    "read_records",
    "record_line",
    "record_of",
    "record_of_log",
    "replay",
    "replay_steps",
    "scan_records",
    "start_of",
    "write_records",
]

MAX_LINE = 2**24
"""Bytes of the longest line that is read: a game has some ten thousand, and at most a few hundred thousand."""

_PAIRS = [(int(first), int(second)) for first, second in PAIRS]
_CARD_TEXT = [card_text(card) for card in range(NO_CARD)]
_GZIP_MAGIC = b"\x1f\x8b"


# --- Records of games ---------------------------------------------------------------------------------------------


def record_of(
    game: Game,
    agents: Sequence[str] | None = None,
    match: Mapping[str, int] | None = None,
    info: Mapping[str, Any] | None = None,
) -> Record:
    """The record of a game, finished or not (the winner is None then).

    Args:
        game: played from its beginning, so not one of :meth:`cribbage_env.Game.of_state`.
        agents: who played, by seat: names or specs.
        match: the game's place in a match: ``seed`` (the match's), ``number`` (of the match, 1, 2, ...), ``pair``.
        info: whatever else is to be kept with it, as JSON can hold it.

    Raises:
        ValueError: a game whose beginning is not known.
    """
    if len(game.decks) != game.deal + 1:
        raise ValueError("the game was made from a state: how it began is not known, so there is no record of it")
    log = log_game(game.rules, game.seed, game.first_dealer, game.actions, scores=game.start_scores, decks=game.decks)
    record = record_of_log(
        log,
        rules=game.rules,
        seed=game.seed,
        dealer=game.first_dealer,
        scores=game.start_scores,
        fixed_decks=game.fixed_decks,
        agents=agents,
        match=match,
        info=info,
    )
    if game.forfeited is not None:  # by an action that the game doesn't know
        record |= _result(game.rules, game.raw_scores, game.winner, game.skunk, game.forfeited)
    return record


def record_of_log(
    log: GameLog,
    *,
    rules: Rules,
    seed: int,
    dealer: int,
    scores: Sequence[int] = (0, 0),
    fixed_decks: int = 0,
    agents: Sequence[str] | None = None,
    match: Mapping[str, int] | None = None,
    info: Mapping[str, Any] | None = None,
) -> Record:
    """The record of a game that :func:`cribbage_env.game_log.log_game` has logged, with what that was given."""
    record: Record = {"format": FORMAT, "version": VERSION}
    if match is not None:
        record["match"] = {key: int(match[key]) for key in MATCH_KEYS if key in match}
    record["rules"] = {"target": rules.target, "skunk": rules.skunk, "double_skunk": rules.double_skunk}
    record["seed"] = int(seed)
    if fixed_decks:
        record["fixed_decks"] = int(fixed_decks)
    record["first_dealer"] = int(dealer)
    record["start_scores"] = [int(score) for score in scores]
    if agents is not None:
        record["agents"] = [str(agent) for agent in agents]
    record["deals"] = _deals_of_log(log, rules.target, int(dealer))
    winner = int(log.row[WINNER]) if log.row[WINNER] >= 0 else None
    raw = int(log.row[SCORE]), int(log.row[SCORE + 1])
    skunk = 0 if winner is None else rules.skunk_level(raw[1 - winner])
    record |= _result(rules, raw, winner, skunk, int(log.row[FORFEIT]) if log.row[FORFEIT] >= 0 else None)
    if log.illegal_action is not None:
        record["illegal_action"] = log.illegal_action
    if info is not None:
        record["info"] = dict(info)
    return record


def _result(rules: Rules, raw: tuple[int, int], winner: int | None, skunk: int, forfeit: int | None) -> Record:
    return {
        "winner": winner,
        "scores": [min(score, rules.target) for score in raw],
        "skunk": skunk,
        "forfeit": forfeit,
    }


def _deals_of_log(log: GameLog, target: int, first_dealer: int) -> list[Record]:
    deals: list[Record] = [
        {
            "dealer": (first_dealer + number) % 2,
            "cards": {
                "pone": _texts(deck[:6]),
                "dealer": _texts(deck[6:12]),
                "starter": _CARD_TEXT[deck[12]],
            },
            "discards": {},
            "plays": "",
            "events": [],
        }
        for number, deck in enumerate(log.decks.tolist())
    ]
    plays: list[list[str]] = [[] for _ in deals]
    for number, action, (first, second), said_go in zip(
        log.deals.tolist(), log.actions.tolist(), log.cards.tolist(), log.said_go.tolist(), strict=True
    ):
        if action < FIRST_PLAY:
            discards = deals[number]["discards"]
            discards["dealer" if discards else "pone"] = f"{_CARD_TEXT[first]} {_CARD_TEXT[second]}"
        else:
            plays[number].append(_CARD_TEXT[first])
            if said_go:
                plays[number].append(GO)
    for deal, laid in zip(deals, plays, strict=True):
        deal["plays"] = " ".join(laid)
    events: list[list[Record]] = [deal["events"] for deal in deals]
    for kind, player, points, count, _, raw_0, raw_1, *cards, p0, p1, p2, p3, p4, number in log.events.tolist():
        event: Record = {"kind": EVENT_KINDS[kind], "player": player}
        if kind in (HAND_EVENT, CRIB_EVENT):
            event["cards"] = _texts(cards)
            event["points"] = points
            if points:
                event["breakdown"] = {part: n for part, n in zip(HAND_PARTS, (p0, p1, p2, p3, p4), strict=True) if n}
        else:
            event["cards"] = _CARD_TEXT[cards[0]]
            if kind != HEELS_EVENT:
                event["count"] = count
            event["points"] = points
            if points and kind == CARD_EVENT:
                event["breakdown"] = {part: n for part, n in zip(PLAY_PARTS, (p0, p1, p2, p3), strict=True) if n}
        event["scores"] = [raw_0 if raw_0 < target else target, raw_1 if raw_1 < target else target]
        events[number].append(event)
    return deals


def _texts(cards: Iterable[int]) -> str:
    return " ".join([_CARD_TEXT[card] for card in cards])


# --- Replaying ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """A decision of a replayed game."""

    game: Game
    """The game after it, one object for all steps: the next deal is dealt already if the decision ended one."""
    deal: int
    """The deal that the decision was in: 0, 1, ..."""
    player: int
    """Who took it."""
    action: str
    """In words: ``"discard 5H JC"``, ``"play 4H"``, ``"forfeit"``."""
    events: list[Event]
    """What came of it."""
    said_go: bool = False
    """Whether the other seat then said go."""


def replay(record: Record) -> Game:
    """Play a recorded game over, and see that it went as the record says.

    Returns:
        The game after the last recorded action. Where no seed is recorded, deals after the recorded ones are arbitrary.

    Raises:
        RecordError: it is no record, or an action in it is illegal.
        RecordDifference: what the record says of the game is not what the engine does; the first such place.
    """
    content = content_of(record)
    game = _game_of(content)
    for _ in _steps(game, content):
        pass
    return game


def replay_steps(record: Record) -> Iterator[Step]:
    """:func:`replay`, decision by decision. A difference is raised at the end of the deal that it is in."""
    content = content_of(record)
    return _steps(_game_of(content), content)


def actions_of(record: Record) -> list[int]:
    """The actions of a record in order, 0..18 each, as its cards give them, and the illegal one that ended it, if it
    is known: what :func:`cribbage_env.game_log.log_game` takes. Whether they are legal is not asked.

    Raises:
        RecordError: it is no record; or a card was laid that is not among the kept ones.
    """
    content = content_of(record)
    actions: list[int] = []
    for deal in content.deals:
        hands = deal.deck[:6], deal.deck[6:12]
        kept: dict[int, int] = {}  # the action that lays a card
        for hand, two in zip(hands, deal.discards, strict=False):
            actions.append(_PAIRS.index((hand.index(two[0]), hand.index(two[1]))))
            kept |= {card: FIRST_PLAY + slot for slot, card in enumerate(one for one in hand if one not in two)}
        for place, card in enumerate(deal.plays):
            if card not in kept:
                raise _no_play(deal, place, "it is not among the cards kept")
            actions.append(kept[card])
    return actions if content.illegal_action is None else [*actions, content.illegal_action]


def start_of(record: Record) -> Game:
    """The recorded game before its first action."""
    return _game_of(content_of(record))


def _game_of(content: Content) -> Game:
    decks = [deal.deck for deal in content.deals]
    if content.seed is not None:
        decks = decks[: content.fixed_decks]
    return Game(content.rules, content.seed or 0, content.first_dealer, content.start_scores, decks)


def _steps(game: Game, content: Content) -> Iterator[Step]:
    for deal in content.deals:
        first = len(game.events)
        try:
            _check_dealt(game, deal, content.seed)
            yield from _deal_steps(game, deal)
            if deal is content.deals[-1]:
                if content.forfeit is not None:
                    yield _forfeit(game, deal, content)
            elif game.deal == deal.number and game.phase != "over":
                raise RecordError(
                    f"deal {deal.number + 1}: the record goes on with another deal, but seat {game.player} is still "
                    f"to {game.phase} in this one"
                )
        except RecordError:
            _compare_events(deal, game.events[first:], is_whole=False)  # what differs before is what's wrong
            raise
        _compare_events(deal, game.events[first:], is_whole=True)
    replayed = _result(game.rules, game.raw_scores, game.winner, game.skunk, game.forfeited)
    for key, recorded in content.result.items():
        if recorded != replayed[key] and not (recorded is None and key in ("scores", "skunk")):
            raise RecordDifference(key, recorded, replayed[key], why=_if_not_over(game))


def _if_not_over(game: Game) -> str:
    return "" if game.phase == "over" else f" (the game is not over: seat {game.player} is to {game.phase})"


def _check_dealt(game: Game, deal: DealContent, seed: int | None) -> None:
    if game.phase == "over":
        raise RecordError(
            f"deal {deal.number + 1}: the game was over before this deal: seat {game.winner} has won "
            f"{game.scores[0]}-{game.scores[1]}"
        )
    if deal.dealer is not None and deal.dealer != game.dealer:
        raise RecordDifference("dealer", deal.dealer, game.dealer, deal=deal.number)
    dealt = game.decks[-1]
    for role, part in (("pone", slice(0, 6)), ("dealer", slice(6, 12)), ("starter", slice(12, 13))):
        if tuple(deal.deck[part]) != dealt[part]:
            raise RecordDifference(
                f"cards.{role}",
                cards_text(deal.deck[part]),
                cards_text(dealt[part]),
                deal=deal.number,
                why=f" (dealt by the seed {seed})",
            )


def _deal_steps(game: Game, deal: DealContent) -> Iterator[Step]:
    number = deal.number
    for role, two in zip(("pone", "dealer"), deal.discards, strict=False):
        player = cast(int, game.player)
        yield Step(game, number, player, f"discard {cards_text(two)}", _act(game.discard, two, number, role))
    for place, card in enumerate(deal.plays):
        if game.deal != number:
            raise _no_play(deal, place, "the play is over")
        if game.player is None:
            raise _no_play(deal, place, f"the game is over: seat {game.winner} has won {_score_text(game)}")
        player = game.player
        events = _act(game.play, card, number, place)
        said_go = bool(game.state()[LAID_GO + place])
        if deal.gos is not None and said_go != (place in deal.gos):
            go = [card_text(card), f"{card_text(card)} {GO}"]
            raise RecordDifference("plays", go[not said_go], go[said_go], deal=number, where=f"play {place + 1}")
        yield Step(game, number, player, f"play {card_text(card)}", events, said_go)


def _no_play(deal: DealContent, place: int, why: str) -> RecordError:
    return RecordError(f"deal {deal.number + 1} play {place + 1}: plays: {card_text(deal.plays[place])}: {why}")


def _score_text(game: Game) -> str:
    return f"{game.scores[0]}-{game.scores[1]}"


def _act(method: Callable[[Any], list[Event]], cards: Any, number: int, what: str | int) -> list[Event]:
    """Discard or play; a RecordError that says where if that is illegal."""
    try:
        return method(cards)
    except IllegalActionError as error:
        where = f": discards.{what}" if isinstance(what, str) else f" play {what + 1}: plays"
        raise RecordError(f"deal {number + 1}{where}: {error}") from None


def _forfeit(game: Game, deal: DealContent, content: Content) -> Step:
    if game.player != content.forfeit:
        replayed = "the game was over" if game.player is None else f"seat {game.player} was to act"
        raise RecordDifference("forfeit", content.forfeit, None, why=f" ({replayed})")
    action = content.illegal_action
    if action is not None and 0 <= action < NUM_ACTIONS and is_legal(game.state(), action):
        raise RecordError(f"illegal_action: {action} ({game.action_text(action)}) was legal")
    game.forfeit()
    return Step(game, deal.number, cast(int, content.forfeit), "forfeit", [])


def _compare_events(deal: DealContent, events: list[Event], is_whole: bool) -> None:
    """Raise the first difference between a deal's recorded events and those of the engine.

    A record may leave out all events without points. Of a deal that broke off, only what both have is compared.
    """
    if deal.events is None:
        return
    replayed = [_event_of(event) for event in events]
    scoring = [event for event in replayed if event["points"]]
    if is_whole:
        only_scoring = len(deal.events) == len(scoring)
    else:
        only_scoring = all(event.get("points") != 0 for event in deal.events)
    if only_scoring:
        replayed = scoring
    for place, (recorded, event) in enumerate(itertools.zip_longest(deal.events, replayed)):
        if recorded is None or event is None:
            if not is_whole:
                return
            raise RecordDifference("events", recorded, event, deal=deal.number, event=place)
        for key in EVENT_KEYS:
            if key in recorded and recorded[key] != event.get(key, {} if key == "breakdown" else 0):
                raise RecordDifference(
                    key,
                    recorded[key],
                    event.get(key),
                    deal=deal.number,
                    event=place,
                    where=f"({event['kind']} {event['cards']})",
                )


def _event_of(event: Event) -> Record:
    """An event of a game as a record has it."""
    entry: Record = {"kind": event.kind, "player": event.player, "cards": cards_text(event.cards)}
    if event.kind in ("card", "go", "last"):
        entry["count"] = event.count
    entry["points"] = event.points
    if event.points and event.breakdown is not None:
        entry["breakdown"] = {part: n for part, n in asdict(event.breakdown).items() if n}
    entry["scores"] = list(event.scores)
    return entry


# --- Files --------------------------------------------------------------------------------------------------------


def record_line(record: Record) -> bytes:
    """A record as a line of a file, the line's end included. The same record gives the same bytes."""
    return json.dumps(record, separators=(",", ":"), allow_nan=False).encode() + b"\n"


@contextmanager
def open_for_writing(path: str | Path, append: bool = False, pack: bool | None = None) -> Iterator[IO[bytes]]:
    """A file for :func:`record_line`'s bytes; with gzip, the same lines give the same bytes.

    Args:
        path: the file.
        append: write at its end.
        pack: whether to compress it; None does so if its name ends in ``.gz``.
    """
    file = Path(path)
    with file.open("ab" if append else "wb") as raw:
        if not (file.suffix == ".gz" if pack is None else pack):
            yield raw
            return
        # without the file's name and time, which gzip would note
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=raw, mtime=0) as packed:
            yield cast(IO[bytes], packed)


def write_records(path: str | Path, records: Iterable[Record]) -> int:
    """Write a file of records, gzip if its name ends in ``.gz``, and return how many there were.

    The file is there as a whole at the end or, after an error, not at all.
    """
    file = Path(path)
    temporary = file.with_name(f".writing-{os.getpid()}-{file.name}")
    written = 0
    try:
        with open_for_writing(temporary) as out:
            for record in records:
                out.write(record_line(record))
                written += 1
        os.replace(temporary, file)
    finally:
        temporary.unlink(missing_ok=True)
    return written


def append_record(path: str | Path, record: Record) -> None:
    """Add a record at the end of a file, which is made if it isn't there.

    A last line without its end (a program was killed while it wrote) gets one first, so that only that line is lost.
    """
    file = Path(path)
    line = record_line(record)
    if file.suffix != ".gz" and file.exists() and file.stat().st_size:
        with file.open("rb") as there:
            there.seek(-1, os.SEEK_END)
            if there.read(1) != b"\n":
                line = b"\n" + line
    with open_for_writing(file, append=True) as out:
        out.write(line)


def read_records(path: str | Path, on_problem: Callable[[int, RecordError], object] | None = None) -> Iterator[Record]:
    """The records of a file, one after the other, in constant memory; gzip is recognised by its content.

    A line that is no record (see :func:`check_record`) is passed over, and reported with its number.

    Args:
        path: the file.
        on_problem: called with the number (1, 2, ...) of a line that is no record and the reason; None warns.

    Raises:
        OSError: the file can't be read.
        RecordError: it is a binary file.
    """
    for number, found in scan_records(path):
        if isinstance(found, RecordError):
            if on_problem is None:
                warnings.warn(f"{path}: line {number}: {found}", RuntimeWarning, stacklevel=2)
            else:
                on_problem(number, found)
        else:
            yield found


def scan_records(path: str | Path) -> Iterator[tuple[int, Record | RecordError]]:
    """The number (1, 2, ...) of every line that is not blank, and its record or why it is none; see read_records."""
    with _open_for_reading(Path(path)) as file:
        for number, line in _lines(file, str(path)):
            if isinstance(line, RecordError):
                yield number, line
                continue
            try:
                record = parse_record(line)
            except RecordError as error:
                yield number, error
                continue
            yield number, record


def parse_record(line: str | bytes) -> Record:
    """A record from its line of JSON.

    Raises:
        RecordError: it is none; one line says why.
    """
    try:
        text = line.decode("utf-8-sig") if isinstance(line, bytes) else line
        record = json.loads(text, object_pairs_hook=_object, parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8 text: {error.reason} at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        cut = "; the line is cut off" if error.pos >= len(text.rstrip()) else ""
        raise RecordError(f"not JSON: {error.msg} at character {error.pos + 1}{cut}") from None
    except RecursionError:
        raise RecordError("not a record: nested too deeply") from None
    except ValueError as error:
        raise RecordError(f"not JSON: {error}") from None
    check_record(record)
    return cast(Record, record)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(key for key, _ in pairs)
        raise ValueError(f"the key {short(counts.most_common(1)[0][0])!r} comes twice in an object")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number in JSON")


@contextmanager
def _open_for_reading(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as raw:
        is_packed = raw.peek(2)[:2] == _GZIP_MAGIC
        if is_packed:
            with gzip.GzipFile(fileobj=raw, mode="rb") as packed:
                yield cast(BinaryIO, packed)
        else:
            yield raw


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes | RecordError]]:
    """The lines that are not blank, with their numbers."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(MAX_LINE)
            if len(line) == MAX_LINE and not line.endswith(b"\n"):
                while (rest := file.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                    pass
                yield number, RecordError(f"the line is longer than {MAX_LINE:,} bytes: no game's record")
                continue
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            yield number, RecordError(f"the compressed file is cut off or damaged here, the rest is lost ({error})")
            return
        if not line:
            return
        if number == 1 and b"\0" in line:
            raise RecordError(f"{name!r} is a binary file, not one of game records")
        if line.strip():
            yield number, line
