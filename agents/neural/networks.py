"""The networks that score candidates, and how they are read in exact arithmetic.

A :class:`CandidateNetwork` sums the embeddings of a candidate's active features, which is a linear layer for sparse
binary input, passes them through one hidden layer, and adds the weight of the wide feature and the known points,
weighted. What the score is, the learner decides: the value of an action, or a logit of a policy. It learns in float32.

Agents must choose the same whatever batch a decision comes in, but a matrix product rounds differently from one batch
size to the next. :class:`ExactNetwork` therefore evaluates with weights rounded to a grid so coarse that every product
and every sum is exact: then the order of a sum makes no difference, and values are the same bits on every machine, CPU
or GPU. What the rounding costs is far below what training can resolve.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import embedding_bag, relu

from agents.neural.features import FeatureSet
from cribbage_env.jit import jit

MAX_ACTIVE = 63
MAX_WIDTH = 512
"""Bounds on slots and layers within which the arithmetic of :class:`ExactNetwork` is exact."""

_CHUNK = {"cpu": 2048, "cuda": 2**17}  # candidates at a time: as many as the cache holds, or as keep a GPU busy


@jit(_nrt=False)
def _add_rows(features: NDArray[np.int32], gradients: NDArray[np.float32], out: NDArray[np.float32]) -> None:
    for i in range(features.shape[0]):
        for slot in range(features.shape[1]):
            row = features[i, slot]
            for j in range(gradients.shape[1]):
                out[row, j] += gradients[i, j]


class _EmbeddingSum(torch.autograd.Function):
    """``embedding_bag(features, table, mode="sum")`` on the CPU, with a gradient twenty times as fast as PyTorch's."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, features: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(features)
        ctx.shape = table.shape
        return embedding_bag(features, table, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (features,) = ctx.saved_tensors
        table = torch.zeros(ctx.shape)
        _add_rows(features.numpy(), gradients[0].contiguous().numpy(), table.numpy())
        return table, None


class _Pick(torch.autograd.Function):
    """``table[rows]`` on the CPU, with a faster gradient likewise."""

    @staticmethod
    def forward(ctx: Any, table: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows)
        ctx.shape = table.shape
        return table[rows]

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (rows,) = ctx.saved_tensors
        table = np.bincount(rows.numpy(), gradients[0].numpy(), ctx.shape[0]).astype(np.float32)
        return torch.from_numpy(table), None


def weight_shapes(features: FeatureSet, hidden: tuple[int, int]) -> dict[str, tuple[int, ...]]:
    """The names and shapes of a :class:`CandidateNetwork`'s weights, all float32."""
    first, second = hidden
    return {
        "embeddings": (features.size, first),
        "embedding_bias": (first,),
        "hidden_weight": (second, first),
        "hidden_bias": (second,),
        "out_weight": (second,),
        "out_bias": (),
        "wide": (features.wide,),
        "known_weight": (features.known,),
    }


class CandidateNetwork(torch.nn.Module):
    """Scores of candidates: values in the unit of the reward that it is trained with, or logits.

    Args:
        features: what it sees.
        hidden: the widths of the sum of embeddings and of the layer after it.
        known_weight: what a known point is worth at first (it is learned): 1 where the reward counts points.
        generator: draws the first weights.
    """

    embeddings: torch.nn.Parameter
    embedding_bias: torch.nn.Parameter
    hidden_weight: torch.nn.Parameter
    hidden_bias: torch.nn.Parameter
    out_weight: torch.nn.Parameter
    out_bias: torch.nn.Parameter
    wide: torch.nn.Parameter
    known_weight: torch.nn.Parameter

    def __init__(
        self, features: FeatureSet, hidden: tuple[int, int], known_weight: float, generator: torch.Generator
    ) -> None:
        super().__init__()
        if features.active > MAX_ACTIVE or not all(1 <= width <= MAX_WIDTH for width in hidden):
            raise ValueError(f"widths must lie between 1 and {MAX_WIDTH}, got {hidden}")
        for name, shape in weight_shapes(features, hidden).items():
            self.register_parameter(name, torch.nn.Parameter(torch.zeros(shape)))
        # The last layer stays at zero, so that values begin as the known points.
        with torch.no_grad():
            self.embeddings.normal_(std=features.active**-0.5, generator=generator)
            self.hidden_weight.normal_(std=hidden[0] ** -0.5, generator=generator)
            self.known_weight.fill_(known_weight)

    def forward(self, features: torch.Tensor, known: torch.Tensor) -> torch.Tensor:
        """Scores (R,) float32 of candidates: features (R, K + 1) int32 indices, known (R, k) float32."""
        if features.is_cuda:
            embedded = embedding_bag(features[:, :-1], self.embeddings, mode="sum")
        else:
            embedded = _EmbeddingSum.apply(self.embeddings, features[:, :-1].contiguous())
        hidden = relu(embedded + self.embedding_bias) @ self.hidden_weight.T
        deep = relu(hidden + self.hidden_bias) @ self.out_weight + self.out_bias
        if len(self.wide) > 1:
            rows = features[:, -1].long()
            deep = deep + (self.wide[rows] if features.is_cuda else _Pick.apply(self.wide, rows))
        return deep + known @ self.known_weight


def _on_grid(tensor: torch.Tensor, bits: int, limit: float) -> torch.Tensor:
    """In float64, clamped to [-limit, limit] and rounded to multiples of 2**-bits."""
    scale = 2.0**bits
    return (tensor.double().clamp(-limit, limit) * scale).round() / scale


class ExactNetwork:
    """A :class:`CandidateNetwork`'s weights, evaluated without rounding errors.

    Bits needed: a sum of up to 64 embeddings of 6 + 12 bits (before and after the point) has 12 + 12 and fits in
    float32. Times a weight of 3 + 16 bits, summed 512 times, that is 12 + 3 + 9 bits before and 28 after the point: 52
    of the 53 of float64. The second layer is rounded back to 12 + 12 bits and fits in the same way.

    Args:
        weights: the state of a :class:`CandidateNetwork`; it is copied.
        device: where to evaluate.
    """

    def __init__(self, weights: dict[str, torch.Tensor], device: torch.device) -> None:
        on_device = {name: tensor.detach().to(device) for name, tensor in weights.items()}
        self._embeddings = _on_grid(on_device["embeddings"], 12, 63.0).float()
        self._embedding_bias = _on_grid(on_device["embedding_bias"], 12, 63.0).float()
        self._hidden_weight = _on_grid(on_device["hidden_weight"].T, 16, 7.0).contiguous()
        self._hidden_bias = _on_grid(on_device["hidden_bias"], 16, 63.0)
        self._out_weight = _on_grid(on_device["out_weight"], 16, 7.0)
        self._out_bias = _on_grid(on_device["out_bias"], 16, 63.0)
        self._wide = _on_grid(on_device["wide"], 16, 63.0)
        self._known_weight = _on_grid(on_device["known_weight"], 16, 7.0)
        self._device = device

    def values(self, features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores (R,) float64 of candidates: features (R, K + 1) int32, known (R, k) float32."""
        values = np.empty(len(features))
        with torch.inference_mode(), _one_thread():
            for part in _chunks(len(features), _CHUNK[self._device.type]):
                values[part] = self._evaluate(features[part], known[part])
        return values

    def _evaluate(self, features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        active = torch.from_numpy(features).to(self._device)
        points = _on_grid(torch.from_numpy(known).to(self._device), 12, 255.0)
        first = (
            embedding_bag(active[:, :-1].contiguous(), self._embeddings, mode="sum").add_(self._embedding_bias).relu_()
        )
        second = (first.double() @ self._hidden_weight).add_(self._hidden_bias).relu_()
        # a power of two scales without rounding
        second.clamp_(max=4095.0).mul_(2.0**12).round_().mul_(2.0**-12)
        values = second @ self._out_weight + self._out_bias + points @ self._known_weight
        if len(self._wide) > 1:
            values += self._wide[active[:, -1].long()]
        array: NDArray[np.float64] = values.cpu().numpy()
        return array


class FastNetwork:
    """A :class:`CandidateNetwork`'s weights as they are, evaluated in float32: for collecting, where speed counts.

    Scores are the same for the same batch on the same machine, not from one batch size to another.
    """

    def __init__(self, network: CandidateNetwork) -> None:
        self._network = copy.deepcopy(network).requires_grad_(False)
        self._device = network.out_weight.device

    def values(self, features: NDArray[np.int32], known: NDArray[np.float32]) -> NDArray[np.float64]:
        """Scores (R,) float64 of candidates: features (R, K + 1) int32, known (R, k) float32."""
        values = np.empty(len(features))
        with torch.inference_mode(), _one_thread():
            for part in _chunks(len(features), _CHUNK[self._device.type]):
                active = torch.from_numpy(features[part]).to(self._device)
                values[part] = self._network(active, torch.from_numpy(known[part]).to(self._device)).cpu().numpy()
        return values


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep PyTorch from splitting small products between threads: they wait for each other longer than they work, many
    times longer when the cores are busy with something else."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _chunks(n: int, size: int) -> Iterator[slice]:
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))
