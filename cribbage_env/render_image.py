"""The table as a picture: a board with pegs on the left, the cards in the middle, what happened on the right.

Drawn with Pillow, which matplotlib brings along, and in matplotlib's DejaVu fonts, so that a picture looks the same
everywhere and needs no display. Both are imported when the first picture is drawn: whoever plays without pictures does
not wait for them. The board and the cards are drawn once, four times too large, and kept scaled down.
"""

from __future__ import annotations

import functools
import io
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cribbage_env.cards import NUM_CARDS, RANKS
from cribbage_env.events import Event
from cribbage_env.render_text import SUIT_SIGNS, card_sign, event_words
from cribbage_env.table import FACE_DOWN, Hand, Table

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont

WIDTH, HEIGHT = 1024, 640
_SCALE = 4  # of what is drawn once

Color = tuple[int, int, int]
Point = tuple[float, float]

_FELT = (28, 84, 66)
_FELT_DARK = (21, 67, 53)
_FELT_EDGE = (15, 50, 40)
_WOOD = (214, 173, 118)
_WOOD_LINE = (203, 160, 104)
_WOOD_EDGE = (141, 98, 55)
_WOOD_TEXT = (104, 70, 38)
_SEATS: tuple[Color, Color] = ((44, 110, 190), (206, 66, 48))
_LANES: tuple[Color, Color] = ((150, 178, 206), (226, 148, 122))
_HOLE = (84, 58, 34)
_WHITE = (247, 245, 238)
_SOFT = (172, 200, 187)
_GOLD = (243, 196, 75)
_INK = (26, 28, 32)
_RED = (193, 32, 43)

_CARD_W, _CARD_H = 70, 98
_BOARD = (12, 12, 252, HEIGHT - 12)  # left, top, right, bottom
_TABLE_LEFT = 276
_LOG = (800, 12, WIDTH - 12, HEIGHT - 12)
_HAND_STEP = 76
_FAR_HAND, _NEAR_HAND = 52, HEIGHT - 52 - _CARD_H
_MIDDLE = (170, 470)
_PLAY_LEFT, _PLAY_STEP = 392, 46


def image_of(table: Table, names: Sequence[str], below: int) -> NDArray[np.uint8]:
    """The table as (HEIGHT, WIDTH, 3) uint8, with seat ``below`` at the lower edge."""
    from PIL import ImageDraw

    picture = _background(table.target, table.skunk, table.double_skunk).copy()
    draw = ImageDraw.Draw(picture)
    _draw_pegs(picture, table)
    for seat in (0, 1):
        _draw_player(picture, draw, table, seat, names[seat], near=seat == below)
    if table.phase == "over" and table.forfeited is None and not table.all_laid:
        _draw_play(picture, draw, table, below)
    elif table.all_laid:
        _draw_show(picture, draw, table)
    else:
        _draw_play(picture, draw, table, below)
    result = table.result(names)
    if result is not None:
        _draw_result(draw, result)
    _draw_log(picture, draw, table)
    return np.array(picture)


def png_of(picture: NDArray[np.uint8]) -> bytes:
    """A picture (H, W, 3) uint8 as a PNG file's bytes."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


# --- Text and cards -------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=64)
def _font(size: int, bold: bool = False) -> FreeTypeFont:
    """A font that ships with matplotlib, so that it is always there, with the suits' signs."""
    import matplotlib
    from PIL import ImageFont

    name = "DejaVuSans-Bold.ttf" if bold else "DejaVuSans.ttf"
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / name
    return ImageFont.truetype(str(path), size, layout_engine=ImageFont.Layout.BASIC)


def _write(
    draw: ImageDraw, at: Point, text: str, size: int, color: Color = _WHITE, bold: bool = False, anchor: str = "lm"
) -> None:
    draw.text(at, text, fill=color, font=_font(size, bold), anchor=anchor)


@functools.lru_cache(maxsize=1024)
def _fit(text: str, width: float, size: int, bold: bool = False) -> str:
    """The text, cut short with an ellipsis where it is wider than ``width``."""
    font = _font(size, bold)
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text.rstrip() + "…"


@functools.lru_cache(maxsize=1024)
def _wrap(text: str, width: float, size: int) -> tuple[str, ...]:
    """The text in lines of at most ``width``, broken at blanks."""
    font = _font(size)
    lines: list[str] = []
    for word in text.split(" "):
        if lines and font.getlength(f"{lines[-1]} {word}") <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(_fit(word, width, size))
    return tuple(lines)


def _smooth(image: Image, width: int, height: int) -> Image:
    from PIL.Image import Resampling

    return image.resize((width, height), Resampling.LANCZOS)


@functools.lru_cache(maxsize=256)
def _card(card: int, scale: float = 1.0) -> Image:
    """A card as an RGBA picture; ``FACE_DOWN`` is the back."""
    from PIL import Image, ImageDraw

    width, height = round(_CARD_W * scale), round(_CARD_H * scale)
    k = _SCALE * scale
    image = Image.new("RGBA", (round(_CARD_W * k), round(_CARD_H * k)), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    right, bottom = image.width - 1, image.height - 1
    draw.rounded_rectangle((0, 0, right, bottom), 7 * k, fill=(70, 72, 78, 255))
    draw.rounded_rectangle((k, k, right - k, bottom - k), 6 * k, fill=(*_WHITE, 255))
    if card >= NUM_CARDS:
        inset = 5 * k
        draw.rounded_rectangle((inset, inset, right - inset, bottom - inset), 3 * k, fill=(58, 74, 110, 255))
        step = 10 * k
        rows, columns = math.ceil(bottom / step), math.ceil(right / step)
        for i in range(rows):
            for j in range(columns):
                x, y, r = inset + (j + 0.5) * step, inset + (i + 0.5) * step, 3.2 * k
                if x + r < right - inset and y + r < bottom - inset:
                    draw.polygon([(x - r, y), (x, y - r), (x + r, y), (x, y + r)], fill=(122, 140, 180, 255))
    else:
        suit = SUIT_SIGNS[card % 4]
        color = _RED if card % 4 in (1, 2) else _INK
        rank = RANKS[card // 4].replace("T", "10")
        size = 15 if len(rank) == 2 else 18
        draw.text((13.5 * k, 15 * k), rank, color, _font(round(size * k), True), "mm")
        draw.text((13.5 * k, 33 * k), suit, color, _font(round(18 * k)), "mm")
        draw.text((right - 27 * k, bottom - 32 * k), suit, color, _font(round(48 * k)), "mm")
    return _smooth(image, width, height)


@functools.lru_cache(maxsize=256)
def _dim_card(card: int, scale: float = 1.0) -> Image:
    """A card in the shade: one laid in an earlier count, or one that may not be laid now."""
    from PIL import Image

    bright = _card(card, scale)
    shade = Image.new("RGBA", bright.size, (*_FELT_EDGE, 255))
    dim = Image.blend(bright, shade, 0.4)
    dim.putalpha(bright.getchannel("A"))
    return dim


@functools.lru_cache(maxsize=8)
def _dot(seat: int, radius: float) -> Image:
    """A disc in a seat's color."""
    from PIL import Image, ImageDraw

    size = math.ceil(2 * radius) + 2
    k = 2 * _SCALE
    image = Image.new("RGBA", (size * k, size * k), (0, 0, 0, 0))
    box = (k, k, k + 2 * radius * k, k + 2 * radius * k)
    ImageDraw.Draw(image).ellipse(box, fill=(*_SEATS[seat], 255), outline=(*_WHITE, 255), width=k)
    return _smooth(image, size, size)


def _paste(picture: Image, image: Image, at: Point) -> None:
    picture.paste(image, (round(at[0]), round(at[1])), image)


def _card_row(picture: Image, cards: Hand, left: float, top: float, step: float, scale: float = 1.0) -> None:
    for i, card in enumerate(cards):
        _paste(picture, _card(card, scale), (left + i * step, top))


# --- The board ------------------------------------------------------------------------------------------------


class Track(NamedTuple):
    """Where the holes of a game to a target lie: columns of two lanes, up and down in turn."""

    columns: int
    per_column: int
    step: float  # between holes
    gap: float  # more of it after every fifth
    pitch: float  # between columns
    lane: float  # half the distance of the lanes
    left: float  # of the first column's middle
    top: float  # of the last hole of an upward column
    bottom: float  # of the first hole of an upward column

    @classmethod
    def of_target(cls, target: int) -> Track:
        """The track with ``target - 1`` holes in columns, and the last one alone."""
        columns = 1 if target <= 31 else 2 if target <= 61 else 4
        per_column = max(5, math.ceil((target - 1) / columns / 5) * 5)
        left, top, right, bottom = _BOARD
        first, last = bottom - 62, top + 62
        units = per_column - 1 + 0.55 * (per_column // 5 - 1)
        step = min(17.0, (first - last) / units)
        pitch = 56.0
        middle = (left + right) / 2
        return cls(
            columns, per_column, step, 0.55 * step, pitch, 9.5, middle - pitch * (columns - 1) / 2,
            first - units * step, first,
        )  # fmt: skip

    def height(self, place: int) -> float:
        """How far the hole at ``place`` (0, 1, ...) of a column is from the column's first."""
        return place * self.step + (place // 5) * self.gap

    def column(self, column: int) -> tuple[float, bool]:
        """The middle of a column, and whether it goes up."""
        return self.left + column * self.pitch, column % 2 == 0

    def hole(self, number: int, seat: int, target: int) -> Point:
        """The middle of hole 1, 2, ...; 0 and -1 are the two at the start; the target's is the same for both seats."""
        if number == target:
            x, up = self.column((target - 2) // self.per_column if target > 1 else 0)
            _, y = self.hole(target - 1, seat, 0)
            return x, y + (-1.35 if up else 1.35) * max(self.step, 11)
        column, place = divmod(max(number, 1) - 1, self.per_column)
        x, up = self.column(column)
        along = self.height(place)
        y = self.bottom - along if up else self.top + along
        if number < 1:
            y += (2 - number) * 0.85 * max(self.step, 12)
        side = -1 if seat == 0 else 1
        return x + (side if up else -side) * self.lane, y


_track = functools.lru_cache(maxsize=16)(Track.of_target)


@functools.lru_cache(maxsize=16)
def _background(target: int, skunk: int, double_skunk: int) -> Image:
    """All that never changes: the felt and the board with its holes."""
    from PIL import Image, ImageDraw

    k = _SCALE
    image = Image.new("RGB", (WIDTH * k, HEIGHT * k), _FELT)
    draw = ImageDraw.Draw(image)
    left, top, right, bottom = (k * side for side in _BOARD)
    draw.rounded_rectangle((left - 2 * k, top - 2 * k, right + 2 * k, bottom + 3 * k), 18 * k, fill=_FELT_EDGE)
    draw.rounded_rectangle((left, top, right, bottom), 16 * k, fill=_WOOD_EDGE)
    draw.rounded_rectangle((left + 3 * k, top + 3 * k, right - 3 * k, bottom - 3 * k), 14 * k, fill=_WOOD)
    for i in range(1, 14):  # the grain
        x = left + (right - left) * i / 14
        line = [
            (x + 3 * k * math.sin(i * 1.7 + y / 90 / k), y)
            for y in range(top + 14 * k, bottom - 14 * k, 6 * k)
        ]  # fmt: skip
        draw.line(line, fill=_WOOD_LINE, width=k)
    draw.rounded_rectangle([k * side for side in _LOG], 12 * k, fill=_FELT_DARK)
    _draw_track(draw, target, skunk, double_skunk)
    return _smooth(image, WIDTH, HEIGHT)


def _draw_track(draw: ImageDraw, target: int, skunk: int, double_skunk: int) -> None:
    """The board's lanes, holes and numbers, on the enlarged background."""
    k = _SCALE
    track = _track(target)
    last_column = (target - 2) // track.per_column
    half = 6.5 * k
    overhang = 8.0
    for seat in (0, 1):
        for column in range(last_column + 1):
            x, up = track.column(column)
            side = (-1 if seat == 0 else 1) * (1 if up else -1)
            lane_x = (x + side * track.lane) * k
            end_place = min(track.per_column, target - 1 - column * track.per_column) - 1
            ends = (
                (track.bottom - track.height(end_place), track.bottom)
                if up
                else (track.top, track.top + track.height(end_place))
            )
            high, low = ends[0] - overhang, ends[1] + overhang
            if column == 0:
                low = track.hole(-1, seat, target)[1] + overhang
            draw.rectangle((lane_x - half, high * k, lane_x + half, low * k), fill=_LANES[seat])
            if column < last_column:
                _draw_turn(draw, track, column, seat, half)
    for line, name in ((skunk, "S"), (double_skunk, "SS")):
        if 1 < line < target:
            (x0, y), (x1, _) = (track.hole(line, seat, target) for seat in (0, 1))
            column = (line - 1) // track.per_column
            _, up = track.column(column)
            first_of_five = (line - 1) % 5 == 0
            y += (0.5 * (track.step + first_of_five * track.gap)) * (1 if up else -1)
            near, far = min(x0, x1), max(x0, x1)
            draw.line(
                ((near - 10) * k, y * k, (far + 10) * k, y * k), fill=_WOOD_TEXT, width=round(1.6 * k)
            )  # fmt: skip
            draw.text(((far + 12) * k, y * k), name, _WOOD_TEXT, _font(9 * k, True), "lm")
    radius = min(3.0, 0.3 * track.step) * k
    for seat in (0, 1):
        for number in range(-1, target):
            x, y = track.hole(number, seat, target)
            draw.ellipse((x * k - radius, y * k - radius, x * k + radius, y * k + radius), fill=_HOLE)
    for number in range(10, target, 10):
        (x0, y), (x1, _) = (track.hole(number, seat, target) for seat in (0, 1))
        draw.text(((min(x0, x1) - 9) * k, y * k), str(number), _WOOD_TEXT, _font(8 * k), "rm")
    x, y = track.hole(target, 0, target)
    radius = 4.2 * k
    draw.ellipse((x * k - 2.2 * radius, y * k - 2.2 * radius, x * k + 2.2 * radius, y * k + 2.2 * radius), fill=_GOLD)
    draw.ellipse((x * k - radius, y * k - radius, x * k + radius, y * k + radius), fill=_HOLE)
    draw.text(((x + 12) * k, y * k), str(target), _WOOD_TEXT, _font(10 * k, True), "lm")
    x, _ = track.column(0)
    _, y = track.hole(0, 0, target)
    draw.text((x * k, (y + 24) * k), "start", _WOOD_TEXT, _font(8 * k), "mm")


def _draw_turn(draw: ImageDraw, track: Track, column: int, seat: int, half: float) -> None:
    """The bend of a lane from the end of a column to the next one."""
    k = _SCALE
    x, up = track.column(column)
    middle = (x + track.pitch / 2) * k
    # Going up, seat 0 is left of the middle: outside at the top. At the bottom it is inside again.
    outside = (seat == 0) == up
    radius = (track.pitch / 2 + (track.lane if outside else -track.lane)) * k
    y = (track.top - 8.0 if up else track.bottom + 8.0) * k
    box = (middle - radius - half, y - radius - half, middle + radius + half, y + radius + half)
    draw.arc(box, 180 if up else 0, 360 if up else 180, fill=_LANES[seat], width=round(2 * half))


@functools.lru_cache(maxsize=8)
def _peg(seat: int, front: bool, radius: float) -> Image:
    """A peg from above."""
    from PIL import Image, ImageDraw

    size = 2 * math.ceil(radius + 2) + 1
    k = 8
    image = Image.new("RGBA", (size * k, size * k), (0, 0, 0, 0))
    draw = ImageDraw.Draw(image)
    middle, r = size * k / 2, radius * k
    color = _SEATS[seat]
    light = tuple(round(0.45 * one + 0.55 * 255) for one in color)
    dark = tuple(round(0.55 * one) for one in color)
    draw.ellipse((middle - r - 5, middle - r - 2, middle + r + 9, middle + r + 12), fill=(60, 40, 20, 110))
    draw.ellipse((middle - r, middle - r, middle + r, middle + r), fill=(*dark, 255))
    inner = r - 1.3 * k
    draw.ellipse(
        (middle - inner, middle - inner, middle + inner, middle + inner), fill=(*(color if front else light), 255)
    )
    if front:
        x, s = middle - 0.35 * r, 0.22 * r
        draw.ellipse((x - s, x - s, x + s, x + s), fill=(255, 255, 255, 210))
    return _smooth(image, size, size)


def _draw_pegs(picture: Image, table: Table) -> None:
    track = _track(table.target)
    radius = min(6.5, max(4.0, 0.45 * track.step))
    for seat in (0, 1):
        front, rear = table.scores[seat], table.earlier[seat]
        places = [(rear, False), (front, True)]
        if front == 0:
            places[0] = (-1, False)
        for number, is_front in places:
            if number is not None:
                x, y = track.hole(number, seat, table.target)
                peg = _peg(seat, is_front, radius)
                _paste(picture, peg, (x - peg.width / 2, y - peg.height / 2))


# --- Players, play, show --------------------------------------------------------------------------------------


def _draw_player(picture: Image, draw: ImageDraw, table: Table, seat: int, name: str, near: bool) -> None:
    """A seat's hand, and its plate with name, role and score."""
    top = _NEAR_HAND if near else _FAR_HAND
    plate_y = HEIGHT - 30 if near else 30
    active = table.player == seat
    hand = table.hands[seat]
    for i, card in enumerate(hand):
        may_not = active and table.playable and not table.playable[i]
        _paste(picture, (_dim_card if may_not else _card)(card), (_TABLE_LEFT + i * _HAND_STEP, top))
    if not hand:
        _write(draw, (_TABLE_LEFT, top + _CARD_H / 2), "no cards left", 13, _SOFT)
    if active:
        box = (_TABLE_LEFT - 8, plate_y - 17, _LOG[0] - 16, plate_y + 17)
        draw.rounded_rectangle(box, 9, fill=_FELT_DARK, outline=_GOLD, width=2)
    _paste(picture, _dot(seat, 8), (_TABLE_LEFT, plate_y - 9))
    _write(draw, (_TABLE_LEFT + 26, plate_y), _fit(name, 270, 17, True), 17, bold=True)
    right = _LOG[0] - 28
    _write(draw, (right, plate_y), str(table.scores[seat]), 24, bold=True, anchor="rm")
    x = right - 66
    role = table.role(seat)
    _write(draw, (x, plate_y), role, 13, _GOLD if role == "dealer" else _SOFT, anchor="rm")
    if active or table.said_go[seat]:
        text = "to act" if active else "says go"
        _write(draw, (x - 70, plate_y), text, 13, _WHITE, bold=True, anchor="rm")
    points = _shown_points(table, seat, "hand") if table.all_laid else None
    if points is not None:
        _draw_points(draw, points, (_TABLE_LEFT + 4 * _HAND_STEP + 8, top + _CARD_H / 2))


def _shown_points(table: Table, seat: int, kind: str) -> Event | None:
    """The event of this deal's show that counted the seat's hand or crib."""
    for event in reversed(table.events[-3:]):
        if event.kind == kind and event.player == seat and event.deal == table.deal:
            return event
    return None


def _draw_points(draw: ImageDraw, event: Event, at: Point) -> None:
    """What a hand or crib scored, in a column beside it."""
    x, y = at
    _, parts = event_words(event)
    lines = parts.split(", ") if parts else []
    height = 26 + 16 * len(lines)
    y -= height / 2
    _write(draw, (x, y + 13), f"{event.points}", 26, _GOLD, bold=True)
    for i, line in enumerate(lines):
        _write(draw, (x, y + 34 + 16 * i), line, 13, _WHITE)


def _draw_starter(picture: Image, draw: ImageDraw, table: Table, near_dealer: bool) -> None:
    """The pack with the starter on it, and the crib on the dealer's side."""
    middle = (_MIDDLE[0] + _MIDDLE[1]) / 2
    top = middle - _CARD_H / 2
    for i in (2, 1):
        _paste(picture, _card(FACE_DOWN), (_TABLE_LEFT + 2 * i, top + 2 * i))
    _paste(picture, _card(table.starter), (_TABLE_LEFT, top))
    if table.crib and not table.all_laid:
        y = _MIDDLE[1] - 72 if near_dealer else _MIDDLE[0] + 2
        _card_row(picture, table.crib, _TABLE_LEFT, y, 15 if len(table.crib) > 2 else 22, 0.62)
        _write(draw, (_TABLE_LEFT + 2, y + (69 if near_dealer else -9)), "crib", 12, _SOFT)


def _draw_play(picture: Image, draw: ImageDraw, table: Table, below: int) -> None:
    _draw_starter(picture, draw, table, table.dealer == below)
    middle = (_MIDDLE[0] + _MIDDLE[1]) / 2
    for i, laid in enumerate(table.laid):
        y = middle - _CARD_H / 2 + (-8 if laid.seat == below else -52)
        _paste(picture, (_card if laid.present else _dim_card)(laid.card), (_PLAY_LEFT + i * _PLAY_STEP, y))
    x = (_PLAY_LEFT + _LOG[0] - 16) / 2
    if table.phase == "discard":
        _write(draw, (x, middle), "two cards each to the crib", 15, _SOFT, anchor="mm")
    elif table.phase == "play":
        y = middle + 82
        draw.rounded_rectangle((x - 62, y - 22, x + 62, y + 22), 22, fill=_FELT_EDGE)
        _write(draw, (x - 48, y), "count", 14, _SOFT)
        _write(draw, (x + 48, y), str(table.count), 26, _WHITE, bold=True, anchor="rm")


def _draw_show(picture: Image, draw: ImageDraw, table: Table) -> None:
    """The play is over: the starter and the crib, with what it scored."""
    _draw_starter(picture, draw, table, True)
    middle = (_MIDDLE[0] + _MIDDLE[1]) / 2
    top = middle - _CARD_H / 2
    _write(draw, (_PLAY_LEFT, top - 14), "crib", 13, _SOFT)
    _card_row(picture, table.crib, _PLAY_LEFT, top, 52 + 6)
    points = _shown_points(table, table.dealer, "crib")
    if points is not None:
        _draw_points(draw, points, (_PLAY_LEFT + 3 * 58 + _CARD_W + 14, middle))


def _draw_result(draw: ImageDraw, result: str) -> None:
    y = (_MIDDLE[0] + _MIDDLE[1]) / 2 + 82
    left, right = _PLAY_LEFT - 8, _LOG[0] - 16
    draw.rounded_rectangle((left, y - 21, right, y + 21), 10, fill=_GOLD)
    room = right - left - 24
    size = next((one for one in (18, 16, 14) if _font(one, True).getlength(result) <= room), 12)
    _write(draw, ((left + right) / 2, y), _fit(result, room, size, True), size, _INK, True, "mm")


# --- What happened --------------------------------------------------------------------------------------------


def _draw_log(picture: Image, draw: ImageDraw, table: Table) -> None:
    """The last events, the latest at the lower end."""
    left, top, right, bottom = _LOG
    _write(draw, (left + 14, top + 20), f"Deal {table.deal + 1}", 15, bold=True)
    _write(draw, (right - 14, top + 20), f"to {table.target}", 13, _SOFT, anchor="rm")
    draw.line((left + 12, top + 38, right - 12, top + 38), fill=_FELT_EDGE, width=2)
    width = right - left - 46
    # From the latest back, as many as there is room for
    rows: list[tuple[Event, str, tuple[str, ...], float]] = []
    free = bottom - top - 54.0
    for event in reversed(table.events):
        what, parts = event_words(event)
        lines = _wrap(parts, width + 18, 11) if parts else ()
        height = 19.0 + 14 * len(lines)
        if rows and event.deal != rows[-1][0].deal:
            height += 12
        free -= height
        if free < 0:
            break
        rows.append((event, what, lines, height))

    y = top + 46.0
    for event, what, lines, height in reversed(rows):
        _paste(picture, _dot(event.player, 4.5), (left + 12, y + 5))
        if event.kind in ("hand", "crib"):
            what = f"{event.kind} {''.join(card_sign(card) for card in event.cards)}"
        color = _WHITE if event.points or event.kind in ("hand", "crib") else _SOFT
        _write(draw, (left + 30, y + 10), _fit(what, width - 26, 13), 13, color)
        if event.points:
            _write(draw, (right - 14, y + 10), f"+{event.points}", 13, _GOLD, True, "rm")
        for i, line in enumerate(lines):
            _write(draw, (left + 30, y + 25 + 14 * i), line, 11, _SOFT)
        y += height
        if height > 19 + 14 * len(lines):  # the deal's last event
            draw.line((left + 14, y - 6, right - 14, y - 6), fill=_FELT_EDGE, width=1)
