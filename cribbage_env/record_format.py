"""What a game record may say: its keys, types and ranges, and what is wrong with one, in one line.

Whether a game can go as a record says is for the engine to tell: see :func:`cribbage_env.records.replay`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from cribbage_env.cards import card_text, cards_text, parse_card, parse_cards
from cribbage_env.engine import EVENT_KINDS
from cribbage_env.options import check_scores
from cribbage_env.rules import MAX_TARGET, Rules
from cribbage_env.scoring import MAX_COUNT
from cribbage_env.streams import MAX_SEED

FORMAT = "cribbage-record"
VERSION = 1
"""Of the format; goes up with every change, since keys that a reader doesn't know are refused."""

GO = "go"
PLAY_PARTS = ("fifteen", "thirty_one", "pair", "run")  # as PlayScore
HAND_PARTS = ("fifteens", "pairs", "runs", "flush", "nobs")  # as HandScore

Record = dict[str, Any]
"""A record as JSON gives it: mappings, lists, text, whole numbers and None."""

RECORD_KEYS = (
    "format", "version", "match", "rules", "seed", "fixed_decks", "first_dealer", "start_scores", "agents", "deals",
    "winner", "scores", "skunk", "forfeit", "illegal_action", "info",
)  # fmt: skip
RESULT_KEYS = ("winner", "scores", "skunk", "forfeit")
DEAL_KEYS = ("dealer", "cards", "discards", "plays", "events", "info")
EVENT_KEYS = ("kind", "player", "cards", "count", "points", "breakdown", "scores")
MATCH_KEYS = ("seed", "number", "pair")
RULES_KEYS = ("target", "skunk", "double_skunk")

_MAX_DEALS = 2 * MAX_TARGET  # more than there can be: every deal whose play ends gives points
_MOST_SHOWN = 120  # letters of a value
_PAUSE = re.compile(r"[\s,]+")


class RecordError(ValueError):
    """A record, or a line of a file of records, that can't be read or replayed: one line that says where and why."""


class RecordDifference(RecordError):
    """A record that says something else than the engine does. The message numbers deals, plays and events from 1.

    Attributes:
        deal, event: the first difference is in ``record["deals"][deal]["events"][event]``; None where it is elsewhere.
        field: the field's name, such as ``"points"`` or ``"winner"``.
        recorded, replayed: what the record says and what the engine does, as in a record; None for "nothing there".
    """

    def __init__(
        self,
        field: str,
        recorded: object,
        replayed: object,
        *,
        deal: int | None = None,
        event: int | None = None,
        where: str = "",
        why: str = "",
    ) -> None:
        self.deal, self.event, self.field, self.recorded, self.replayed = deal, event, field, recorded, replayed
        place = "" if deal is None else f"deal {deal + 1}"
        place += "" if event is None else f" event {event + 1}"
        place += f" {where}" if where else ""
        super().__init__(
            f"{place}{': ' if place else ''}{field}: recorded {_shown(recorded)}, replayed {_shown(replayed)}{why}"
        )


def _shown(value: object) -> str:
    """A value in a message: as JSON, and not the whole of a long one."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        text = repr(value)
    return short(text)


def short(text: str) -> str:
    """Text for a message, which is one line and not as long as what somebody may have written into a record."""
    return text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."


@dataclass(frozen=True)
class DealContent:
    """A deal of a record, in numbers."""

    number: int  # 0, 1, ...
    dealer: int | None
    deck: list[int]  # pone's six and the dealer's six, each sorted, and the starter
    discards: list[list[int]]  # pone's, then the dealer's, as far as there are any
    plays: list[int]
    gos: list[int] | None  # after which plays (0, 1, ...) the other seat said go; None: the record doesn't say
    events: list[Record] | None


@dataclass(frozen=True)
class Content:
    """A record, checked as far as that goes without the engine."""

    rules: Rules
    seed: int | None
    fixed_decks: int
    first_dealer: int
    start_scores: tuple[int, int]
    deals: list[DealContent]
    forfeit: int | None
    illegal_action: int | None
    result: Record  # those of winner, scores, skunk and forfeit that the record has


def check_record(record: object) -> None:
    """See whether something is a record: its keys, types and ranges, not yet its course (``replay``).

    Raises:
        RecordError: it isn't; one line that names the field.
    """
    content_of(record)


def content_of(record: object) -> Content:
    """What a record says, in numbers; RecordError as :func:`check_record`."""
    given = _mapping(record, "a record", RECORD_KEYS)
    if given.get("format") not in (None, FORMAT):
        raise RecordError(f"format: must be {FORMAT!r}, got {_shown(given['format'])}")
    version = given.get("version")
    if version is not None and (isinstance(version, bool) or version != VERSION):
        raise RecordError(
            f"version: this reads version {VERSION} of the format, got {_shown(version)}"
            + ("; a newer cribbage-lab may read it" if isinstance(version, int) and version > VERSION else "")
        )
    match = given.get("match")
    if match is not None:
        for key, value in _mapping(match, "match", MATCH_KEYS).items():
            _integer(value, f"match.{key}", 0, MAX_SEED)
    agents = given.get("agents")
    if agents is not None and (
        not isinstance(agents, list) or len(agents) != 2 or not all(isinstance(one, str | None) for one in agents)
    ):
        raise RecordError(f"agents: must be two names, by seat, got {_shown(agents)}")
    if given.get("info") is not None:
        _mapping(given["info"], "info")
    rules = _rules(given.get("rules"))
    seed = _optional(given, "seed", 0, MAX_SEED)
    fixed_decks = _optional(given, "fixed_decks", 0, _MAX_DEALS)
    start = given.get("start_scores")
    start_scores = (0, 0) if start is None else _two_scores(start, "start_scores")
    try:
        check_scores(start_scores, rules.target)
    except ValueError as error:
        raise RecordError(f"start_{error}") from None

    deals = given.get("deals")
    if not isinstance(deals, list) or not deals:
        raise RecordError(f"deals: must be a list with at least one deal, got {_shown(deals)}")
    if len(deals) > _MAX_DEALS:
        raise RecordError(f"deals: no game has more than {_MAX_DEALS} deals, got {len(deals)}")
    parsed = [_deal(deal, number) for number, deal in enumerate(deals)]
    first_dealer = _optional(given, "first_dealer", 0, 1)
    if first_dealer is None:
        first_dealer = parsed[0].dealer or 0
    result: Record = {key: given[key] for key in RESULT_KEYS if key in given}
    _optional(given, "winner", 0, 1)
    _optional(given, "skunk", 0, 2)
    if result.get("scores") is not None:
        result["scores"] = list(_two_scores(result["scores"], "scores"))
    forfeit = _optional(given, "forfeit", 0, 1)
    illegal_action = _optional(given, "illegal_action", -(2**63), 2**63 - 1)
    if illegal_action is not None and forfeit is None:
        raise RecordError("illegal_action: forfeit must say which seat lost by it")
    return Content(rules, seed, fixed_decks or 0, first_dealer, start_scores, parsed, forfeit, illegal_action, result)


def _deal(deal: object, number: int) -> DealContent:
    where = f"deal {number + 1}"
    try:
        content = _parse_deal(_mapping(deal, "a deal", DEAL_KEYS), number)
        events = content.events or []
        for place, event in enumerate(events):
            where = f"deal {number + 1} event {place + 1}"
            events[place] = _event(event)
    except RecordError as error:
        raise RecordError(f"{where}: {error}") from None
    return content


def _parse_deal(deal: Record, number: int) -> DealContent:
    dealt = _mapping(deal.get("cards"), "cards", ("pone", "dealer", "starter"))
    pone, dealer = (sorted(_cards(dealt.get(role), f"cards.{role}", 6)) for role in ("pone", "dealer"))
    deck = [*pone, *dealer, *_cards(dealt.get("starter"), "cards.starter", 1)]
    for card in deck:
        if deck.count(card) > 1:
            raise RecordError(f"cards: the card {card_text(card)} comes twice")
    thrown = {} if deal.get("discards") is None else _mapping(deal["discards"], "discards", ("pone", "dealer"))
    discards = []
    for role, hand in (("pone", pone), ("dealer", dealer)):
        if thrown.get(role) is None:
            continue
        two = sorted(_cards(thrown[role], f"discards.{role}", 2))
        for card in two:
            if card not in hand:
                raise RecordError(
                    f"discards.{role}: {card_text(card)} is not among the {role}'s cards {cards_text(hand)}"
                )
        discards.append(two)
    if len(discards) == 1 and thrown.get("pone") is None:
        raise RecordError("discards.pone: missing, though the dealer's are there (pone throws first)")
    plays, gos = _plays(deal.get("plays"))
    if plays and len(discards) < 2:
        raise RecordError("discards: both must be there where there are plays")
    events = deal.get("events")
    if events is not None and not isinstance(events, list):
        raise RecordError(f"events: must be a list, got {_shown(events)}")
    if deal.get("info") is not None:
        _mapping(deal["info"], "info")
    return DealContent(number, _optional(deal, "dealer", 0, 1), deck, discards, plays, gos, events and list(events))


def _plays(given: object) -> tuple[list[int], list[int] | None]:
    """The cards laid, and after which of them the other seat said go (None: no go is noted)."""
    if given is None:
        return [], None
    tokens = _PAUSE.split(given.strip(" \t\r\n,")) if isinstance(given, str) else given
    if not isinstance(tokens, list):
        raise RecordError(
            f'plays: must be cards in the order they were laid, such as "4H JD go 5C", got {_shown(given)}'
        )
    plays: list[int] = []
    gos: list[int] = []
    for token in tokens:
        if token == "":  # the text was empty
            continue
        if isinstance(token, str) and token.strip().lower() == GO:
            if not plays or (gos and gos[-1] == len(plays) - 1):
                raise RecordError(f"plays: a go comes after a card, once, got {_shown(given)}")
            gos.append(len(plays) - 1)
        else:
            plays.append(_card(token, "plays"))
    if len(plays) > 8:
        raise RecordError(f"plays: a deal has at most 8 cards laid, got {len(plays)}")
    return plays, gos or None


def _event(event: object) -> Record:
    """A recorded event with its cards as sorted text and its breakdown without zeros."""
    given = dict(_mapping(event, "an event", EVENT_KEYS))
    kind = given.get("kind")
    if kind not in EVENT_KINDS:
        raise RecordError(f"kind: must be one of {', '.join(EVENT_KINDS)}, got {_shown(kind)}")
    for key, low, high in (("player", 0, 1), ("count", 0, MAX_COUNT), ("points", 0, MAX_TARGET)):
        if key in given:
            _integer(given[key], key, low, high)
    is_show = kind in ("hand", "crib")
    if "cards" in given:
        given["cards"] = cards_text(sorted(_cards(given["cards"], "cards", 4 if is_show else 1)))
    if "scores" in given:
        given["scores"] = list(_two_scores(given["scores"], "scores"))
    if "breakdown" in given:
        parts: Sequence[str] = HAND_PARTS if is_show else PLAY_PARTS if kind == "card" else ()
        breakdown = {} if given["breakdown"] is None else _mapping(given["breakdown"], "breakdown", parts)
        for part, points in breakdown.items():
            _integer(points, f"breakdown.{part}", 0, MAX_TARGET)
        given["breakdown"] = {part: points for part in parts if (points := breakdown.get(part, 0))}
    return given


def _rules(given: object) -> Rules:
    if given is None:
        return Rules()
    lines = _mapping(given, "rules", RULES_KEYS)
    for key, value in lines.items():
        if value is not None or key == "target":
            _integer(value, f"rules.{key}", 0, MAX_TARGET)
    try:
        return Rules(**lines)
    except ValueError as error:
        raise RecordError(f"rules: {error}") from None


def _mapping(value: object, name: str, keys: Sequence[str] | None = None) -> Record:
    """A mapping with no other keys than these."""
    if not isinstance(value, dict):
        if value is None:
            raise RecordError(f"{name}: missing")
        raise RecordError(f"{name}: must be a mapping ({{...}}), got {_shown(value)}")
    for key in value if keys is not None else ():
        if key not in (keys or ()):
            near = difflib.get_close_matches(str(key)[:_MOST_SHOWN], keys or (), n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            there = f"there are {', '.join(keys)}" if keys else "there are none here"
            raise RecordError(f"{name}: unknown key {_shown(key)}; {hint}{there}")
    return value


def _integer(value: object, name: str, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise RecordError(f"{name}: must be a whole number from {low} to {high}, got {_shown(value)}")
    return value


def _optional(given: Record, key: str, low: int, high: int) -> int | None:
    return None if given.get(key) is None else _integer(given[key], key, low, high)


def _two_scores(value: object, name: str) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2:
        raise RecordError(f"{name}: must be two whole numbers, by seat, got {_shown(value)}")
    first, second = (_integer(score, name, 0, MAX_TARGET) for score in value)
    return first, second


def _card(value: object, name: str) -> int:
    try:
        return parse_card(cast(str, value))
    except ValueError as error:
        raise RecordError(f"{name}: {short(str(error))}") from None


def _cards(value: object, name: str, number: int) -> list[int]:
    """So many different cards, from text, a list of texts or numbers, or a single number."""
    if value is None:
        raise RecordError(f"{name}: missing")
    if isinstance(value, bool) or not isinstance(value, str | int | list):
        raise RecordError(f"{name}: must be {number} card{'s' if number > 1 else ''} as text, got {_shown(value)}")
    try:
        cards = parse_cards(value)
    except ValueError as error:
        raise RecordError(f"{name}: {short(str(error))}") from None
    if len(cards) != number:
        raise RecordError(f"{name}: must be {number} card{'s' if number > 1 else ''}, got {_shown(value)}")
    return cards
