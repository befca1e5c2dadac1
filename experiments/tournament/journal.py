"""The journal of a tournament under way: finished blocks of games, in the order in which they were finished.

It is only ever appended to, a block at a time, and every block has a checksum. So a process that is killed loses the
blocks under way and no others, and a block that a disk has spoiled is noticed, and played again. The file begins with
two lines of text, what it is and the fields of a game; then come the blocks, each a header and the compressed records.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.config import UserError
from experiments.tournament.match import GAME_DTYPE, Games
from experiments.tournament.plan import Block, Coverage

_FIRST_LINE = b"cribbage-lab journal of games, version 1\n"
_MAGIC = b"\xb1OCK"  # not text, so that a file that was "repaired" as text is noticed
# magic, checksum of the rest, match, first pair, pairs, seconds, sizes of the games and of the notes
_HEADER = struct.Struct("<4sIQQQdII")
_MOST_PAIRS = 2**26  # that a block can have: a larger number is damage


class _Entry(NamedTuple):
    block: Block
    seconds: float
    at: int  # where its data begin
    size: int  # of the games
    notes_size: int  # of the notes behind them


class Journal:
    """The journal in a file that is open for reading and writing, new or from an earlier session.

    Args:
        file: opened in binary mode without a buffer; it is closed with the journal.
        name: what errors call it.

    Raises:
        UserError: the file is something else, or of another version.
    """

    def __init__(self, file: io.RawIOBase, name: str) -> None:
        self._file = file
        self._name = name
        self.damaged = 0
        """In how many places something was found that is no whole block; those blocks count as not played."""
        self.coverage: dict[int, Coverage] = {}
        """Which pairs there are, by the match's number."""
        self._entries: dict[int, list[_Entry]] = {}
        self.games = 0
        """How many there are."""
        start = _FIRST_LINE + repr(GAME_DTYPE.descr).encode() + b"\n"
        file.seek(0)
        if not start.startswith(file.read(len(start)) or b""):
            raise UserError(f"{name!r} is no journal of this version of cribbage-lab; begin anew with --overwrite")
        if file.seek(0, io.SEEK_END) > len(start):
            self._scan(len(start))
        else:  # new, or killed before the first block
            self._end = 0
            self._write(start)

    @classmethod
    def open(cls, path: Path) -> Journal:
        """The journal at a path, which is made if it is not there."""
        try:
            file = path.open("r+b" if path.exists() else "w+b", buffering=0)
        except OSError as error:
            raise UserError(f"can't open {str(path)!r}: {error.strerror or error}") from None
        try:
            return cls(file, str(path))
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def append(self, block: Block, games: Games, seconds: float, notes: bytes = b"") -> None:
        """Write a block down.

        Args:
            block: its numbers.
            games: (2 P,) of ``GAME_DTYPE``.
            seconds: how long they took to play.
            notes: what else is to be kept of the games; the journal does not look into it.

        Raises:
            UserError: it can't be written. The blocks before it are whole.
            ValueError: the games are not the block's, or some of them are there already.
        """
        if len(games) != 2 * block.pairs or games["pair"][0] != block.first:
            raise ValueError(f"{len(games)} games from pair {games['pair'][:1]} on are not {block}")
        coverage = self.coverage.setdefault(block.match, Coverage())
        if coverage.missing(block.first, block.pairs) != [block[1:]]:
            raise ValueError(f"some of {block} are there already")
        data, more = zlib.compress(games.tobytes(), level=1), zlib.compress(notes, level=1) if notes else b""
        rest = _HEADER.pack(_MAGIC, 0, *block, seconds, len(data), len(more))[8:] + data + more
        at = self._end + _HEADER.size
        self._write(_MAGIC + struct.pack("<I", zlib.crc32(rest)) + rest)
        coverage.add(block.first, block.pairs)
        self._note(_Entry(block, seconds, at, len(data), len(more)))

    def _write(self, data: bytes) -> None:
        try:
            self._file.seek(self._end)
            left = memoryview(data)
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:  # the disk is full
            with contextlib.suppress(OSError):
                self._file.truncate(self._end)
            raise UserError(
                f"can't write {self._name!r}: {error.strerror or error}; {self.games:,} games are kept, and the same "
                "command with --resume goes on"
            ) from None
        self._end += len(data)

    def _note(self, entry: _Entry) -> None:
        self._entries.setdefault(entry.block.match, []).append(entry)
        self.games += 2 * entry.block.pairs

    def read(self, match: int, first: int, end: int) -> Iterator[Games]:
        """The games of a match with pairs from ``first`` to below ``end``, which must all be there, in order."""
        for games, _ in self.read_blocks(match, first, end):
            pairs = games["pair"]
            yield games[np.searchsorted(pairs, first) : np.searchsorted(pairs, end)]

    def read_blocks(self, match: int, first: int, end: int) -> Iterator[tuple[Games, bytes]]:
        """The blocks of a match that have some of these pairs, each with all its games and its notes, in order."""
        for entry in sorted(self._entries.get(match, ())):
            if entry.block.first < end and first < entry.block.first + entry.block.pairs:
                self._file.seek(entry.at)
                data = self._file.read(entry.size + entry.notes_size) or b""
                notes = zlib.decompress(data[entry.size :]) if entry.notes_size else b""
                yield np.frombuffer(zlib.decompress(data[: entry.size]), GAME_DTYPE), notes

    def seconds(self, match: int) -> float:
        """How long the games of a match took to play, all processes added up."""
        return sum(entry.seconds for entry in self._entries.get(match, ()))

    def _scan(self, start: int) -> None:
        """Find the blocks of an earlier session; the first begins at ``start``."""
        with mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            at = whole = start
            while 0 <= at < len(content):
                entry = _entry_at(content, at)
                if entry is not None and self._take(entry):
                    at = whole = entry.at + entry.size + entry.notes_size
                else:
                    self.damaged += 1
                    at = content.find(_MAGIC, at + 1)
                    while at >= 0 and _entry_at(content, at) is None:
                        at = content.find(_MAGIC, at + 1)
        self._end = whole
        self._file.truncate(whole)

    def _take(self, entry: _Entry) -> bool:
        """Note a block; False if it has pairs that another one had."""
        try:
            self.coverage.setdefault(entry.block.match, Coverage()).add(entry.block.first, entry.block.pairs)
        except ValueError:
            return False
        self._note(entry)
        return True


def _entry_at(content: mmap.mmap, at: int) -> _Entry | None:
    """The block whose header begins there, if it is whole."""
    if at + _HEADER.size > len(content):
        return None
    magic, checksum, match, first, pairs, seconds, size, notes_size = _HEADER.unpack_from(content, at)
    end = at + _HEADER.size + size + notes_size
    if magic != _MAGIC or not 1 <= pairs <= _MOST_PAIRS or end > len(content):
        return None
    if zlib.crc32(memoryview(content)[at + 8 : end]) != checksum:
        return None
    return _Entry(Block(match, first, pairs), seconds, at + _HEADER.size, size, notes_size)
