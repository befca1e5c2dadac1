"""A solved strategy of the play as a file: what it is, and what it was made from.

A line of JSON (the fields of :class:`Facts`) is followed by blocks compressed as xz. The last one has a byte a
probability, in the layout of :func:`agents.equilibrium.policies.quantised`. If decisions were left out, a block in
front of it says of each infoset with a choice whether it is there (:mod:`agents.equilibrium.thinning` has the rule for
the others). The line has a checksum of each block, and of the tree that the strategy belongs to.
"""

from __future__ import annotations

import json
import lzma
import os
import zlib
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import AgentError
from agents.equilibrium.hands import MAX_COPIES
from agents.equilibrium.policies import option_counts, quantised, restored
from agents.equilibrium.solver import exploitability, play_value
from agents.equilibrium.thinning import bytes_of, fill_in, infoset_weights
from agents.equilibrium.traverse import Policy, Walker
from agents.equilibrium.tree import Tree
from cribbage_env.cards import NUM_RANKS

FILE = "strategy.bin"
"""How the file is called in the folder of a solve."""

VERSION = 1
HOW = "cribbage solve configs/solve/play.yaml"
"""The command that makes one."""

_KIND = "cribbage-lab: a strategy of the play"
_MAX_HEADER = 1 << 16
_FAST, _SMALL = 1, 6  # presets of xz: for what stays on this machine, and for what is shipped


class TreeIdentity(NamedTuple):
    """Which tree a strategy is for."""

    cards: int
    """That each player holds."""
    pack: tuple[int, ...]
    """(13,) cards of each rank."""
    policy_size: int
    infosets: int
    """With a choice."""
    digest: int
    """CRC-32 of its edges and of the places of its decisions."""


def tree_identity(tree: Tree, infosets: int) -> TreeIdentity:
    """The identity of a tree that has so many infosets with a choice."""
    gone = int(tree.seen[0])
    return TreeIdentity(
        cards=int(tree.held[0, 0]),
        pack=tuple(MAX_COPIES - (gone >> 4 * rank & 15) for rank in range(NUM_RANKS)),
        policy_size=tree.policy_size,
        infosets=infosets,
        digest=zlib.crc32(np.ascontiguousarray(tree.edge).data, zlib.crc32(np.ascontiguousarray(tree.slots).data)),
    )


@dataclass(frozen=True)
class Facts:
    """What a strategy was made from, and how good it is: all figures in points a deal of the play."""

    tree: TreeIdentity
    prior: str
    """Whose discards give the kept hands: the spec of an agent, or "uniform"."""
    starter: int | None
    """The rank of the starter; None: any, not looked at."""
    objective: str
    """What is maximised: "points", those scored minus those conceded."""
    random_share: float
    """The weight of hands that are never kept, while solving; see ``training_weights``."""
    iterations: int
    seconds: float
    """That they took."""
    left_out: float
    """Infosets that come up less often than this are left to a rule; 0: none."""
    pone_best: float
    """Pone's points minus dealer's if pone answers the strategy at its best: exact, of the strategy as stored."""
    dealer_best: float
    """Dealer's minus pone's if the dealer does."""
    value: float
    """Pone's minus dealer's if both play the strategy."""
    made_with: dict[str, Any]
    """Versions."""

    @property
    def exploitability(self) -> float:
        """What a best response wins a deal, taking each seat half of the time."""
        return (self.pone_best + self.dealer_best) / 2


@dataclass(frozen=True)
class Strategy:
    """A stored strategy."""

    facts: Facts
    known: NDArray[np.bool_] | None
    """(I,) which infosets with a choice are stored; None: all."""
    values: NDArray[np.uint8]
    """Their bytes."""

    def steps(self, tree: Tree) -> NDArray[np.uint8]:
        """The whole policy, as :func:`agents.equilibrium.policies.quantised` lays it out.

        Raises:
            AgentError: the strategy is for another tree.
        """
        if tree_identity(tree, self.facts.tree.infosets) != self.facts.tree:
            raise AgentError(
                "the strategy of the play belongs to another version of the tree "
                f"({self.facts.tree.policy_size:,} probabilities, here {tree.policy_size:,}): make it anew with {HOW}"
            )
        return self.values if self.known is None else fill_in(tree, self.known, self.values)

    def policy(self, tree: Tree) -> Policy:
        """The whole policy as probabilities; solo ends are played at their best."""
        return restored(option_counts(tree), self.steps(tree))


def make_strategy(
    walker: Walker,
    joint: NDArray[np.floating],
    policy: Policy,
    *,
    prior: str,
    starter: int | None = None,
    objective: str = "points",
    random_share: float = 0.0,
    iterations: int = 0,
    seconds: float = 0.0,
    left_out: float = 0.0,
    made_with: dict[str, Any] | None = None,
) -> Strategy:
    """A policy as it is stored, with its certificate.

    Args:
        walker: over the tree, with the prior's joint distribution of kept hands.
        joint: that distribution, (H, H).
        policy: of both players.
        prior, starter, objective, random_share, iterations, seconds, made_with: see :class:`Facts`.
        left_out: infosets whose weight (:func:`agents.equilibrium.thinning.infoset_weights`) is less are not stored.
    """
    tree = walker.tree
    counts = option_counts(tree)
    values, known = quantised(counts, policy), None
    steps = values
    if left_out > 0.0:
        known = infoset_weights(tree, joint, policy, len(counts)) >= left_out
        values = values[bytes_of(counts, known)]
        steps = fill_in(tree, known, values)
    stored = restored(counts, steps)
    best = exploitability(walker, stored)
    facts = Facts(
        tree=tree_identity(tree, len(counts)),
        prior=prior,
        starter=starter,
        objective=objective,
        random_share=random_share,
        iterations=iterations,
        seconds=round(seconds, 1),
        left_out=left_out,
        pone_best=best.pone,
        dealer_best=best.dealer,
        value=play_value(walker, stored),
        made_with=dict(made_with or {}),
    )
    return Strategy(facts, known, values)


def save_strategy(strategy: Strategy, path: Path) -> None:
    """Write a strategy to a file, whole or not at all; one with decisions left out is compressed with more effort."""
    blocks, entries = [], []
    arrays = [strategy.values] if strategy.known is None else [strategy.known.view(np.uint8), strategy.values]
    for array in arrays:
        data = lzma.compress(array.tobytes(), preset=_FAST if strategy.known is None else _SMALL)
        blocks.append(data)
        entries.append({"size": len(array), "bytes": len(data), "sum": zlib.crc32(data)})
    header = {"what": _KIND, "version": VERSION, **asdict(strategy.facts), "blocks": entries}
    header["tree"] = strategy.facts.tree._asdict()
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_facts(path: Path) -> Facts:
    """What is said about the strategy in a file.

    Raises:
        AgentError: see :func:`load_strategy`.
    """
    return _read_header(path)[0]


def load_strategy(path: Path) -> Strategy:
    """Read a strategy, from its file or the folder of a solve.

    Raises:
        AgentError: no such file, no strategy, another version, or a damaged one.
    """
    facts, entries, at = _read_header(path)
    path = _file(path)
    arrays = []
    try:
        with path.open("rb") as file:
            file.seek(at)
            for entry in entries:
                arrays.append(_unpack(file.read(entry["bytes"]), entry))
            if file.read(1):
                raise ValueError("more bytes than it should have")
        if len(arrays) > 2:
            raise ValueError(f"{len(arrays)} blocks")
        known = arrays[0].view(np.bool_) if len(arrays) == 2 else None
        if known is not None and (len(known) != facts.tree.infosets or arrays[0].max(initial=0) > 1):
            raise ValueError("another number of infosets")
        if known is None and len(arrays[0]) != facts.tree.policy_size - facts.tree.infosets:
            raise ValueError("another number of probabilities")
    except OSError as error:
        raise AgentError(f"can't read the strategy {str(path)!r}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, IndexError, lzma.LZMAError) as error:
        raise AgentError(f"the strategy {str(path)!r} is damaged ({error}): make it anew with {HOW}") from None
    return Strategy(facts, known, arrays[-1])


def _file(path: Path) -> Path:
    return path / FILE if path.is_dir() else path


def _unpack(data: bytes, entry: dict[str, int]) -> NDArray[np.uint8]:
    if len(data) != entry["bytes"] or zlib.crc32(data) != entry["sum"]:
        raise ValueError("a wrong checksum")
    reader = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    array = np.frombuffer(bytearray(reader.decompress(data, entry["size"] + 1)), np.uint8)  # writeable: see read_tree
    if len(array) != entry["size"]:
        raise ValueError("another size than it says")
    return array


def _read_header(path: Path) -> tuple[Facts, list[dict[str, int]], int]:
    """The facts, the entries of the blocks and where these begin."""
    path = _file(path)
    try:
        with path.open("rb") as file:
            line = file.readline(_MAX_HEADER)
    except FileNotFoundError:
        raise AgentError(f"there is no strategy {str(path)!r}: make one with {HOW}") from None
    except OSError as error:
        raise AgentError(f"can't read the strategy {str(path)!r}: {error.strerror or error}") from None
    try:
        header = json.loads(line)
        if header["what"] != _KIND:
            raise ValueError
        version = header["version"]
    except (ValueError, KeyError, TypeError):
        raise AgentError(f"{str(path)!r} is no strategy of the play; {HOW} makes one") from None
    if version != VERSION:
        raise AgentError(
            f"the strategy {str(path)!r} is of version {version!r}, this is version {VERSION}: make it anew with {HOW}"
        )
    try:
        tree = header["tree"]
        identity = TreeIdentity(
            cards=int(tree["cards"]),
            pack=tuple(int(copies) for copies in tree["pack"]),
            policy_size=int(tree["policy_size"]),
            infosets=int(tree["infosets"]),
            digest=int(tree["digest"]),
        )
        facts = Facts(identity, **{one.name: header[one.name] for one in fields(Facts)[1:]})
        entries = [{name: int(entry[name]) for name in ("size", "bytes", "sum")} for entry in header["blocks"]]
        float(facts.exploitability)
        if not isinstance(facts.prior, str) or not entries:
            raise ValueError("no prior, or no blocks")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise AgentError(f"the strategy {str(path)!r} is damaged ({error}): make it anew with {HOW}") from None
    return facts, entries, len(line)
