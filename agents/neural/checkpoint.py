"""Checkpoints: what is in one, and how it is read without trusting it.

A checkpoint is a dictionary of tensors, numbers, texts and containers of them, written by ``torch.save``. It is read
with ``weights_only=True``, which runs no code from the file, and its contents are checked before they are used. What an
agent needs comes first; the rest is for going on with a run.

* ``format``: :data:`FORMAT`
* ``observation_version``, ``features_version``: int; what the networks were trained to see
* ``network``: ``{"discard_hidden": [int, int], "play_hidden": [int, int], "scores": bool}``
* ``weights``: ``{"discard": state, "play": state}`` of the :class:`~agents.neural.networks.CandidateNetwork`
* ``choice``: ``{"discard": temperature, "play": temperature, "least": probability}``, see :mod:`agents.neural.choice`
* ``training``: the run's config, seed, counters and optimisers (see ``experiments.training``)
* ``versions``: of the libraries that wrote it, text
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from agents.neural.choice import Choice
from agents.neural.features import FEATURES_VERSION, FeatureSet, discard_features, play_features
from agents.neural.networks import MAX_WIDTH, CandidateNetwork, weight_shapes
from agents.registry import AgentError
from cribbage_env.observation import OBSERVATION_VERSION

FORMAT = "cribbage-lab checkpoint 2"
CHECKPOINT = "checkpoint.pt"
"""The name of the newest checkpoint in the folder of a run."""

KINDS = ("discard", "play")
"""The two networks, by the kind of decision."""


@dataclass(frozen=True)
class NetworkShape:
    """The shape of the two networks.

    Args:
        discard_hidden, play_hidden: widths, see :class:`~agents.neural.networks.CandidateNetwork`.
        scores: whether they see the scores of the game.
    """

    discard_hidden: tuple[int, int]
    play_hidden: tuple[int, int]
    scores: bool

    def features(self, kind: str) -> FeatureSet:
        """What a network sees."""
        return discard_features(self.scores) if kind == "discard" else play_features(self.scores)

    def hidden(self, kind: str) -> tuple[int, int]:
        """A network's widths."""
        return self.discard_hidden if kind == "discard" else self.play_hidden

    def network(self, kind: str, known_weight: float, generator: torch.Generator) -> CandidateNetwork:
        """A new network."""
        return CandidateNetwork(self.features(kind), self.hidden(kind), known_weight, generator)

    def data(self) -> dict[str, Any]:
        """As in a checkpoint."""
        return {
            "discard_hidden": list(self.discard_hidden),
            "play_hidden": list(self.play_hidden),
            "scores": self.scores,
        }


def checkpoint_bytes(content: Mapping[str, Any]) -> bytes:
    """A checkpoint as the bytes of a file; equal contents give equal bytes."""
    buffer = io.BytesIO()  # torch.save would write a file's name into it
    torch.save(_plain(content, {}), buffer)
    return buffer.getvalue()


def _plain(value: Any, texts: dict[str, str]) -> Any:
    """A copy in which equal texts are one object and nothing else is shared: pickle writes shared objects shorter."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, str):
        return texts.setdefault(str(value), str(value))
    if isinstance(value, Mapping):
        return {_plain(key, texts): _plain(inner, texts) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, texts) for inner in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)  # not NumPy's, which is one, too
    raise TypeError(f"a checkpoint holds tensors, numbers and text, not {type(value).__name__}")


def read_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read and check a checkpoint, given its path or the folder of its run.

    Raises:
        AgentError: there is none, it is damaged or something else, or it is of another version: one line.
    """
    file = Path(path)
    if file.is_dir():
        file /= CHECKPOINT
    try:
        data = io.BytesIO(file.read_bytes())
        with zipfile.ZipFile(data) as archive:
            if archive.testzip() is not None:  # torch.load does not look at the checksums
                raise ValueError
        data.seek(0)
        content = torch.load(data, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        beside = sorted(str(one) for one in file.parent.glob("*.pt"))
        hint = f" (there are {', '.join(beside)})" if beside else "; `cribbage train` makes one"
        raise AgentError(f"no checkpoint {str(file)!r}{hint}") from None
    except OSError as error:
        raise AgentError(f"can't read the checkpoint {str(file)!r}: {error.strerror or error}") from None
    except Exception:  # zipfile and torch raise a dozen kinds for files that they can't or won't read
        raise AgentError(
            f"{str(file)!r} is not a whole checkpoint: it is cut short, damaged, or holds more than tensors, numbers "
            "and text; take an older one from checkpoints/ beside it, or train again"
        ) from None
    check_checkpoint(content, str(file))
    checked: dict[str, Any] = content
    return checked


def check_checkpoint(content: Any, source: str) -> None:
    """Check what an agent needs of a checkpoint; AgentError, one line that names ``source``, if something is wrong."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise AgentError(f"{source!r} is no checkpoint of this version of cribbage-lab ({FORMAT!r})")
    for key, current in (("observation_version", OBSERVATION_VERSION), ("features_version", FEATURES_VERSION)):
        if content.get(key) != current:
            raise AgentError(
                f"{source!r} has {key} {content.get(key)!r}, this version of cribbage-lab has {current}: "
                "train again, or use the version that it was made with"
            )
    read_choice(content, source)
    shape = network_shape(content, source)
    weights = content.get("weights")
    if not isinstance(weights, dict) or set(weights) != set(KINDS):
        raise AgentError(f"{source!r}: 'weights' must be those of {' and '.join(KINDS)}")
    for kind in KINDS:
        _check_weights(weights[kind], shape, kind, source)


def network_shape(content: Mapping[str, Any], source: str) -> NetworkShape:
    """The shape of a checkpoint's networks; AgentError if it is none."""
    data = content.get("network")
    try:
        if not isinstance(data, dict) or not isinstance(data["scores"], bool):
            raise ValueError
        shape = NetworkShape(_widths(data["discard_hidden"]), _widths(data["play_hidden"]), data["scores"])
    except (KeyError, TypeError, ValueError):
        raise AgentError(f"{source!r}: 'network' is not the shape of networks: {data!r}") from None
    return shape


def read_choice(content: Mapping[str, Any], source: str) -> Choice:
    """How a checkpoint's agent chooses; AgentError if it doesn't say so."""
    data = content.get("choice")
    try:
        return Choice(**{name: float(data[name]) for name in ("discard", "play", "least")})  # type: ignore[index]
    except (KeyError, TypeError, ValueError) as error:
        raise AgentError(f"{source!r}: 'choice' does not say how its agent chooses: {data!r} ({error})") from None


def _widths(value: Any) -> tuple[int, int]:
    first, second = value
    if not all(isinstance(width, int) and 1 <= width <= MAX_WIDTH for width in (first, second)):
        raise ValueError
    return first, second


def _check_weights(state: Any, shape: NetworkShape, kind: str, source: str) -> None:
    expected = weight_shapes(shape.features(kind), shape.hidden(kind))
    if not isinstance(state, dict) or set(state) != set(expected):
        raise AgentError(f"{source!r}: the weights of the {kind} network must be {', '.join(expected)}")
    for name, size in expected.items():
        tensor = state[name]
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float32 or tuple(tensor.shape) != size:
            found = (
                f"{tuple(tensor.shape)} {tensor.dtype}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            )
            raise AgentError(
                f"{source!r}: {name} of the {kind} network must be {size} float32 for the shape that the checkpoint "
                f"names, got {found}"
            )
        if not bool(torch.isfinite(tensor).all()):
            raise AgentError(f"{source!r}: {name} of the {kind} network has values that are not finite")
