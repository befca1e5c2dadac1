"""Published weights: small networks in a safetensors file, such as those of the agent ``neural`` in ``agents/data``.

``cribbage publish`` makes such a file from a checkpoint, without the state of training and with smaller numbers: wide
weights in 8 bits (whole multiples of a scale, which each :data:`BLOCK` of them has for itself), matrices in 16-bit
floating point, the rest in 32. When the file is read, they become float32 again without a further change.

Tensors are named ``discard.embeddings``, ``play.wide``, ``play.wide.scales`` and so on. The metadata are texts, JSON
but for the first:

* ``format``: :data:`FORMAT`
* ``observation_version``, ``features_version``, ``network``, ``choice``: as in a checkpoint (:mod:`.checkpoint`)
* ``run``: its name
* ``config``: of the run
* ``figures``: what was measured of these weights, by name
* ``versions``: of the libraries that wrote the checkpoint
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError

from agents.neural.agent import NeuralAgent, check_temperature, choose_device, content_agent
from agents.neural.checkpoint import FORMAT as CHECKPOINT_FORMAT
from agents.neural.checkpoint import KINDS, check_checkpoint, read_checkpoint
from agents.registry import AgentError

FORMAT = "cribbage-lab published 1"
SUFFIX = ".safetensors"
SHIPPED = "neural.safetensors"
"""The file of the agent ``neural``, in ``agents/data``."""
BLOCK = 128
"""Wide weights that share a scale."""

_JSON = ("observation_version", "features_version", "network", "choice", "run", "config", "figures", "versions")
_SCALES = ".scales"


def published_bytes(content: Mapping[str, Any], run: str, config: Any, figures: Mapping[str, Any]) -> bytes:
    """A file of published weights; equal contents give equal bytes.

    Args:
        content: of a checkpoint (checked).
        run: its name.
        config: of the run, as in the checkpoint.
        figures: what was measured, by name; numbers.
    """
    tensors: dict[str, torch.Tensor] = {}
    for kind in KINDS:
        for name, weights in content["weights"][kind].items():
            key = f"{kind}.{name}"
            if name == "wide" and weights.numel() > 1:
                tensors[key], tensors[key + _SCALES] = _in_blocks(weights)
            else:
                tensors[key] = weights.half() if weights.dim() == 2 else weights.float()
            tensors[key] = tensors[key].contiguous()
    facts = {**content, "run": run, "config": config, "figures": dict(figures)}
    metadata = {key: json.dumps(facts.get(key), sort_keys=True) for key in _JSON}
    return _in_order(safetensors.torch.save(tensors, {"format": FORMAT, **metadata}))


def read_published(path: str | Path) -> dict[str, Any]:
    """Read and check published weights.

    Returns:
        What an agent needs of a checkpoint (:func:`agents.neural.checkpoint.check_checkpoint`), beside ``run``,
        ``config``, ``figures`` and ``versions``.

    Raises:
        AgentError: there are none, the file is damaged or something else, or it is of another version: one line.
    """
    file, source = Path(path), str(path)
    try:
        data = file.read_bytes()
    except FileNotFoundError:
        raise AgentError(f"no published weights {source!r}; `cribbage publish` makes them from a checkpoint") from None
    except OSError as error:
        raise AgentError(f"can't read the published weights {source!r}: {error.strerror or error}") from None
    try:
        tensors = safetensors.torch.load(data)
        metadata = _header(data).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RuntimeError):
        raise AgentError(
            f"{source!r} is not a whole safetensors file: it is cut short, damaged, or another file"
        ) from None
    if metadata.get("format") != FORMAT:
        raise AgentError(f"{source!r} is no file of weights of this version of cribbage-lab ({FORMAT!r})")
    try:
        facts = {key: json.loads(metadata[key]) for key in _JSON}
    except (KeyError, TypeError, ValueError):
        raise AgentError(f"{source!r}: the metadata must have {', '.join(_JSON)}, in JSON") from None
    weights: dict[str, dict[str, torch.Tensor]] = {kind: {} for kind in KINDS}
    for key, tensor in tensors.items():
        kind, _, name = key.partition(".")
        if name.endswith(_SCALES):
            continue
        scales = tensors.get(key + _SCALES)
        if kind not in weights or (scales is not None and not _are_blocks(tensor, scales)):
            raise AgentError(f"{source!r}: the tensor {key!r} is none of a published network")
        weights[kind][name] = tensor.float() if scales is None else _from_blocks(tensor, scales)
    content = {**facts, "format": CHECKPOINT_FORMAT, "weights": weights}
    check_checkpoint(content, source)
    return content


def read_weights(spec: str) -> dict[str, Any]:
    """What is in the checkpoint or the published weights of a spec, checked: ``neural``, a path of either, or a run's
    folder.

    Raises:
        AgentError: there is none, or it is damaged or of another version.
    """
    if spec == "neural":
        with resources.as_file(resources.files("agents").joinpath(f"data/{SHIPPED}")) as path:
            return read_published(path)
    return read_published(spec) if spec.endswith(SUFFIX) else read_checkpoint(spec)


def load_published(path: str, temperature: float | None = None, device: str = "auto") -> NeuralAgent:
    """The agent of published weights; arguments and errors as of :func:`agents.neural.agent.load_agent`."""
    check_temperature(path, temperature)
    on = choose_device(device)
    return content_agent(path, read_published(path), on, temperature)


def shipped_agent(temperature: float | None = None, device: str = "auto") -> NeuralAgent:
    """The agent ``neural``: the published weights that come with the package; see :func:`load_published`."""
    with resources.as_file(resources.files("agents").joinpath(f"data/{SHIPPED}")) as file:
        return load_published(str(file), temperature, device)


def _in_blocks(weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights (n,) as int8 (n,) and the scales (ceil(n / BLOCK),) float16 of their blocks."""
    padded = torch.zeros(math.ceil(weights.numel() / BLOCK) * BLOCK, dtype=torch.float64)
    padded[: weights.numel()] = weights
    blocks = padded.view(-1, BLOCK)
    most = blocks.abs().amax(dim=1)
    scales = (most / 127.0).half()
    steps = torch.where(scales > 0, scales.double(), 1.0)
    numbers = (blocks / steps[:, None]).round().clamp(-127, 127)  # a scale rounded down: to within half a step
    return numbers.to(torch.int8).flatten()[: weights.numel()].clone(), scales


def _from_blocks(numbers: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    return numbers.float() * scales.float().repeat_interleave(BLOCK)[: numbers.numel()]


def _are_blocks(numbers: torch.Tensor, scales: torch.Tensor) -> bool:
    return (
        (numbers.dtype, numbers.dim()) == (torch.int8, 1)
        and scales.dtype == torch.float16
        and tuple(scales.shape) == (math.ceil(numbers.numel() / BLOCK),)
    )


def _header(data: bytes) -> dict[str, Any]:
    """The header of a safetensors file: its length in 8 bytes, then JSON."""
    header: dict[str, Any] = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    return header


def _in_order(data: bytes) -> bytes:
    """The same file with its metadata in the order of their names: the library leaves that to chance."""
    length = int.from_bytes(data[:8], "little")
    header = _header(data)
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)  # tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + data[8 + length :]
