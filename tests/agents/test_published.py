"""Published weights: what rounding leaves of them, how large they are, and files that are refused."""

from __future__ import annotations

import contextlib
import json
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.torch
import torch
from neural_samples import random_weights, sample_content, some_positions

from agents import AgentError, agent_names, make_agent
from agents.neural import published
from agents.neural.agent import content_agent
from agents.neural.checkpoint import KINDS, NetworkShape, check_checkpoint
from agents.neural.choice import Choice
from agents.neural.published import BLOCK, FORMAT, published_bytes, read_published

CONFIG = {"name": "x", "learner": {"algorithm": "espg", "lr": 0.003}}
FIGURES = {"greedy: win rate": 0.66, "exploitability": 0.14}


def write(path: Path, **changes: Any) -> dict[str, Any]:
    """Publish a sample; returns the checkpoint's content."""
    content = sample_content() | {"choice": Choice(0.0, 0.7, 0.01).data(), "versions": {"torch": "9"}} | changes
    check_checkpoint(content, "sample")
    path.write_bytes(published_bytes(content, "x", CONFIG, FIGURES))
    return content


def test_what_is_read_is_what_was_written_but_for_rounding(tmp_path: Path) -> None:
    content = write(tmp_path / "x.safetensors")
    read = read_published(tmp_path / "x.safetensors")
    check_checkpoint(read, "x")
    assert {key: read[key] for key in ("run", "config", "figures")} == {
        "run": "x",
        "config": CONFIG,
        "figures": FIGURES,
    }
    for key in ("observation_version", "features_version", "network", "choice", "versions"):
        assert read[key] == content[key]
    for kind in KINDS:
        for name, weights in content["weights"][kind].items():
            found = read["weights"][kind][name]
            assert found.dtype == torch.float32
            if name == "wide" and len(weights) > 1:
                most = torch.nn.functional.pad(weights, (0, -len(weights) % BLOCK)).view(-1, BLOCK).abs().amax(dim=1)
                bound = most.repeat_interleave(BLOCK)[: len(weights)] / 127 * 0.51 + 1e-6
                assert ((found - weights).abs() <= bound).all()
                assert (found[weights == 0] == 0).all()
            elif weights.dim() == 2:
                assert torch.equal(found, weights.half().float())
                assert (found - weights).abs().max() < 1e-3 * weights.abs().max()
            else:
                assert torch.equal(found, weights)


def test_blocks_of_nothing_of_large_and_of_tiny_weights() -> None:
    weights = torch.zeros(3 * BLOCK + 5)
    weights[BLOCK : 2 * BLOCK] = torch.linspace(-40.0, 40.0, BLOCK)
    weights[2 * BLOCK] = 1e-30  # less than a scale can be
    weights[-5:] = torch.tensor([0.1, -0.1, 0.05, 0.0, 0.025])
    numbers, scales = published._in_blocks(weights)
    again = published._from_blocks(numbers, scales)
    assert (numbers.dtype, scales.dtype) == (torch.int8, torch.float16)
    assert (again[:BLOCK] == 0).all()
    assert (again[BLOCK : 2 * BLOCK] - weights[BLOCK : 2 * BLOCK]).abs().max() < 40 / 127
    assert again[2 * BLOCK] == 0
    assert (again[-5:] - weights[-5:]).abs().max() < 0.1 / 127
    assert again.shape == weights.shape


def test_equal_contents_are_equal_bytes_that_any_reader_understands(tmp_path: Path) -> None:
    write(tmp_path / "x.safetensors")
    write(tmp_path / "y.safetensors")
    assert (tmp_path / "x.safetensors").read_bytes() == (tmp_path / "y.safetensors").read_bytes()
    with safetensors.safe_open(tmp_path / "x.safetensors", "pt") as file:
        metadata = file.metadata()
        assert metadata["format"] == FORMAT
        assert list(json.loads(metadata["figures"])) == sorted(FIGURES)
        assert list(metadata) is not None
        assert file.get_tensor("play.wide").dtype == torch.int8


def test_the_size_of_the_published_network(tmp_path: Path) -> None:
    shape = NetworkShape((64, 64), (128, 32), False)
    write(tmp_path / "x.safetensors", network=shape.data(), weights=random_weights(shape, 1))
    assert (tmp_path / "x.safetensors").stat().st_size < 2_000_000


def test_an_agent_is_made_of_it(tmp_path: Path) -> None:
    content = write(tmp_path / "x.safetensors", weights=random_weights(NetworkShape((24, 16), (32, 24), False), 1, 0.1))
    path = str(tmp_path / "x.safetensors")
    agent, whole = make_agent(path), content_agent("x", content, torch.device("cpu"))
    assert agent.name == path
    observations, masks = some_positions(60, 12)
    policies = [one.policy(observations, masks) for one in (agent, whole)]
    assert np.abs(policies[0] - policies[1]).mean() < 2e-3
    best = make_agent(f"{path}:temperature=0").policy(observations, masks)
    assert set(np.unique(best)) == {0.0, 1.0}
    warm = make_agent(f"{path}:temperature=5").policy(observations, masks)
    assert warm.max(axis=1).mean() < policies[0].max(axis=1).mean()
    with pytest.raises(AgentError, match="temperature must be 0"):
        make_agent(f"{path}:temperature=-1")
    with pytest.raises(AgentError, match="unknown option 'temp'; this agent's options: temperature, device"):
        make_agent(f"{path}:temp=1")


def test_the_agent_neural_is_the_file_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "neural" in agent_names()
    (tmp_path / "data").mkdir()
    write(tmp_path / "data" / published.SHIPPED)
    package = types.SimpleNamespace(files=lambda name: tmp_path, as_file=contextlib.nullcontext)
    monkeypatch.setattr(published, "resources", package)
    observations, masks = some_positions(10, 4)
    for options in ("", ":temperature=0", ":temperature=0.3,device=cpu"):
        one, other = make_agent(f"neural{options}"), make_agent(f"{tmp_path}/data/neural.safetensors{options}")
        assert one.name == f"neural{options}"
        assert (one.policy(observations, masks) == other.policy(observations, masks)).all()


def test_the_shipped_weights() -> None:
    file = Path(published.__file__).parents[1] / "data" / published.SHIPPED
    if not file.exists():
        pytest.skip("no weights are shipped")
    assert file.stat().st_size < 2_000_000
    content = read_published(file)
    assert {"decisions"} <= set(content["figures"])
    assert content["config"]["output"] is None
    observations, masks = some_positions(10, 6)
    assert make_agent("neural").policy(observations, masks).sum(axis=1) == pytest.approx(1.0)


# --- Files that are refused ---------------------------------------------------------------------------------


def said(path: Path) -> str:
    with pytest.raises(AgentError) as caught:
        make_agent(str(path))
    assert "\n" not in str(caught.value)
    assert repr(str(path)) in str(caught.value)
    return str(caught.value)


def test_files_that_are_missing_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "x.safetensors"
    assert "no published weights" in said(path)
    write(path)
    whole = path.read_bytes()
    for data in (
        b"",
        b"\0" * 7,
        whole[:1000],
        whole[:-1],
        whole + b"\0",
        b"PK" + whole[2:],
        whole[:8] + b"[" + whole[9:],
    ):
        path.write_bytes(data)
        assert "is not a whole safetensors file" in said(path)
    path.unlink()
    path.mkdir()
    assert "can't read the published weights" in said(path)


def rewritten(path: Path, change: Callable[[dict[str, torch.Tensor], dict[str, str]], None]) -> Path:
    """A file with other tensors or metadata."""
    data = path.read_bytes()
    tensors, metadata = safetensors.torch.load(data), published._header(data)["__metadata__"]
    change(tensors, metadata)
    other = path.with_name("other.safetensors")
    other.write_bytes(safetensors.torch.save(tensors, metadata))
    return other


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda tensors, facts: facts.clear(), "is no file of weights of this version"),
        (
            lambda tensors, facts: facts.update(format="cribbage-lab published 0"),
            "is no file of weights of this version",
        ),
        (lambda tensors, facts: facts.pop("choice"), "the metadata must have"),
        (lambda tensors, facts: facts.update(network="{"), "the metadata must have"),
        (lambda tensors, facts: facts.update(features_version="0"), "has features_version 0"),
        (lambda tensors, facts: facts.update(observation_version="99"), "has observation_version 99"),
        (lambda tensors, facts: facts.update(choice='{"discard": 0}'), "'choice' does not say"),
        (lambda tensors, facts: facts.update(network="[]"), "'network' is not the shape"),
        (lambda tensors, facts: tensors.pop("play.wide"), "the weights of the play network must be"),
        (lambda tensors, facts: tensors.pop("play.wide.scales"), None),
        (lambda tensors, facts: tensors.update({"x.wide": torch.zeros(2)}), "the tensor 'x.wide' is none of"),
        (
            lambda tensors, facts: tensors.update({"play.wide.scales": torch.zeros(2).half()}),
            "the tensor 'play.wide' is",
        ),
        (
            lambda tensors, facts: tensors.update({"play.embeddings": torch.zeros(2, 2)}),
            "embeddings of the play network",
        ),
        (
            lambda tensors, facts: tensors["play.hidden_weight"].fill_(float("nan")),
            "hidden_weight of the play network has values that are not finite",
        ),
    ],
)
def test_files_of_other_contents(change: Any, message: str | None, tmp_path: Path) -> None:
    write(tmp_path / "x.safetensors")
    path = rewritten(tmp_path / "x.safetensors", change)
    if message is None:  # whole numbers are weights, too
        make_agent(str(path))
    else:
        assert message in said(path)
