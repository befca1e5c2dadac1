"""The agent of a checkpoint: exact values, the same choices in every batch, and which files it refuses."""

from __future__ import annotations

import io
import pickle
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from neural_samples import random_weights, sample_content, some_positions, write_sample
from numpy.typing import NDArray

from agents import AgentError, decision_keys, make_agent, sample_actions
from agents.neural.agent import NeuralAgent, load_agent
from agents.neural.checkpoint import KINDS, NetworkShape, check_checkpoint, checkpoint_bytes, read_checkpoint
from agents.neural.choice import Choice, softmax_segments
from agents.neural.features import (
    FEATURES_VERSION,
    discard_candidates,
    discard_features,
    play_candidates,
    play_features,
)
from agents.neural.networks import MAX_WIDTH, CandidateNetwork, ExactNetwork, FastNetwork
from cribbage_env import field
from experiments.train_config import NetworkConfig

SHAPE = NetworkShape((24, 16), (32, 24), False)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def positions() -> tuple[NDArray[np.uint8], NDArray[np.int8]]:
    return some_positions(300, 40, every=3)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return write_sample(tmp_path / "sample.pt")


# --- Playing ------------------------------------------------------------------------------------------------


def choices(observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(B, 19): the legal actions, of plays of one rank only the first."""
    different = masks == 1
    for row in np.flatnonzero(masks[:, 15:].any(axis=1)):
        ranks = field(observations[row], "kept").astype(int) // 4
        seen: set[int] = set()
        for slot in range(4):
            if different[row, 15 + slot]:
                different[row, 15 + slot] = ranks[slot] not in seen
                seen.add(int(ranks[slot]))
    return different


@pytest.mark.parametrize("options", ["", ":temperature=0.3"])
def test_policy_is_a_distribution_over_legal_actions_and_is_followed(
    options: str, checkpoint: Path, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]
) -> None:
    observations, masks = positions
    agent = make_agent(f"{checkpoint}{options}")
    policy = agent.policy(observations, masks)
    assert (policy.shape, policy.dtype) == (masks.shape, np.float64)
    assert policy.sum(axis=1) == pytest.approx(np.ones(len(policy)), abs=1e-12)
    assert not policy[masks == 0].any()
    keys = decision_keys(1, np.arange(len(masks)), np.arange(len(masks)))
    assert (agent.act(observations, masks, keys) == sample_actions(policy, keys)).all()
    different = choices(observations, masks)
    assert (different.sum(axis=1) < masks.sum(axis=1)).mean() > 0.02
    assert not policy[~different].any()  # cards of one rank are one choice
    if options:
        assert (policy[different] > 0).mean() > 0.9
    else:
        assert (np.sort(policy, axis=1)[:, -1] == 1.0).all()


def test_the_best_value_is_chosen_and_the_temperature_is_that_of_a_softmax(
    checkpoint: Path, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]
) -> None:
    observations, masks = positions
    agent = load_agent(str(checkpoint))
    values = agent.values(agent.candidates(observations, masks), len(masks))
    assert (np.isfinite(values) == choices(observations, masks)).all()
    assert (agent.act(observations, masks) == values.argmax(axis=1)).all()
    policy = load_agent(str(checkpoint), temperature=0.5).policy(observations, masks)
    for row in range(0, len(masks), 50):
        legal = np.flatnonzero(np.isfinite(values[row]))
        for action in legal:
            ratio = np.exp((values[row, action] - values[row, legal[0]]) / 0.5)
            assert policy[row, action] / policy[row, legal[0]] == pytest.approx(ratio)
    cold = load_agent(str(checkpoint), temperature=1e-6).act(observations, masks)
    assert (values[np.arange(len(masks)), cold] == values.max(axis=1)).all()  # among equals, any


def test_a_checkpoint_says_how_its_agent_chooses(
    tmp_path: Path, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]
) -> None:
    observations, masks = positions
    path = write_sample(tmp_path / "x.pt", choice=Choice(0.0, 0.7, 0.05))
    agent = load_agent(str(path))
    policy = agent.policy(observations, masks)
    values = agent.values(agent.candidates(observations, masks), len(masks))
    different = choices(observations, masks)
    dropped = 0
    for row in range(0, len(masks), 3):
        likely = np.zeros(19)
        legal = np.flatnonzero(different[row])
        if legal[0] < 15:
            likely[values[row].argmax()] = 1.0
        else:
            softmax = np.exp(values[row, legal] / 0.7) / np.exp(values[row, legal] / 0.7).sum()
            dropped += int((softmax < 0.05).sum())
            softmax[(softmax < 0.05) & (softmax < softmax.max())] = 0.0
            likely[legal] = softmax / softmax.sum()
        assert policy[row] == pytest.approx(likely, abs=1e-12)
    assert dropped > 20
    assert load_agent(str(path), temperature=0.7).choice == Choice(0.7, 0.7)  # said by who loads it
    assert load_agent(str(path), temperature=0.0).policy(observations, masks).max(axis=1).min() == 1.0


def test_softmax_of_segments() -> None:
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 7, 200)
    first = np.concatenate([[0], np.cumsum(sizes)])
    scores = rng.normal(size=first[-1]) * 3
    for temperature in (0.0, 0.01, 1.0, 50.0):
        for least in (0.0, 0.2):
            found = scores.copy()
            softmax_segments(found, first, temperature, least)
            for begin, end in pairwise(first.tolist()):
                those = scores[begin:end]
                if temperature == 0.0:
                    expected = np.eye(len(those))[those.argmax()]
                else:
                    expected = np.exp((those - those.max()) / temperature)
                    expected /= expected.sum()
                best = those.argmax()
                expected[[at for at in range(len(those)) if expected[at] < least and at != best]] = 0.0
                assert found[begin:end] == pytest.approx(expected / expected.sum(), abs=1e-12)
    huge = np.array([-1e300, 1e300, 5.0, 5.0])
    softmax_segments(huge, np.array([0, 2, 4]), 1.0, 0.0)
    assert huge.tolist() == [0.0, 1.0, 0.5, 0.5]
    ties = np.array([2.0, 2.0])
    softmax_segments(ties, np.array([0, 2]), 0.0, 0.0)
    assert ties.tolist() == [1.0, 0.0]  # the first of equals


@pytest.mark.parametrize(
    "options", [{"discard": -1.0}, {"play": 1e-9}, {"play": float("nan")}, {"least": 0.5}, {"least": -0.1}]
)
def test_choices_that_are_none(options: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Choice(**options)


@pytest.mark.parametrize("scores", [False, True])
def test_values_are_the_same_bits_in_every_batch(scores: bool, tmp_path: Path) -> None:
    observations, masks = some_positions(700, 6)
    agent = load_agent(str(write_sample(tmp_path / "x.pt", scores=scores)), temperature=0.1)
    assert len(masks) > 4096

    def look(rows: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        values = agent.values(agent.candidates(observations[rows], masks[rows]), len(rows))
        return values, agent.policy(observations[rows], masks[rows])

    rows = np.arange(4096)
    values, policy = look(rows)
    shuffled = np.random.default_rng(1).permutation(4096)
    for part in [shuffled, *np.array_split(rows, 50), *(rows[i : i + 1] for i in range(0, 4096, 100))]:
        part_values, part_policy = look(part)
        assert (part_values == values[part]).all()
        assert (part_policy == policy[part]).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert (look(rows)[0] == values).all()
    finally:
        torch.set_num_threads(threads)


def on_grid(value: float, bits: int) -> Fraction:
    return Fraction(round(Fraction(value) * 2**bits), 2**bits)  # halves to even, as the network rounds


@pytest.mark.parametrize("kind", KINDS)
def test_values_have_no_rounding_error_at_all(kind: str, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]) -> None:
    """Against a network of fractions. Weights are rounded once, and the second layer; nothing else is."""
    observations, masks = positions
    shape = NetworkShape((32, 24), (32, 24), False)
    weights = random_weights(shape, 5)[kind]
    candidates = (
        play_candidates(observations, masks, False) if kind == "play" else discard_candidates(observations, False)
    )
    values = ExactNetwork(weights, CPU).values(candidates.features, candidates.known)
    plain = {name: tensor.double().numpy() for name, tensor in weights.items()}
    if kind == "play":
        assert (candidates.features[::350, -1] > 0).mean() > 0.1
    else:
        plain["wide"] = np.zeros(1)  # of what has no wide features nothing is added
    for at in range(0, len(candidates), 350 if kind == "play" else 1400):
        known = [on_grid(float(one), 12) for one in candidates.known[at]]
        first = [
            max(
                Fraction(0),
                sum((on_grid(plain["embeddings"][index, j], 12) for index in candidates.features[at, :-1]), Fraction(0))
                + on_grid(plain["embedding_bias"][j], 12),
            )
            for j in range(32)
        ]
        second = [
            on_grid_fraction(
                max(
                    Fraction(0),
                    sum((first[j] * on_grid(plain["hidden_weight"][i, j], 16) for j in range(32)), Fraction(0))
                    + on_grid(plain["hidden_bias"][i], 16),
                ),
                12,
            )
            for i in range(24)
        ]
        value = sum((second[i] * on_grid(plain["out_weight"][i], 16) for i in range(24)), Fraction(0))
        value += on_grid(float(plain["out_bias"]), 16)
        value += sum(one * on_grid(weight, 16) for one, weight in zip(known, plain["known_weight"], strict=True))
        value += on_grid(plain["wide"][candidates.features[at, -1]], 16)
        assert Fraction(values[at]) == value


def on_grid_fraction(value: Fraction, bits: int) -> Fraction:
    return Fraction(round(value * 2**bits), 2**bits)


def test_rounding_the_weights_costs_next_to_nothing(positions: tuple[NDArray[np.uint8], NDArray[np.int8]]) -> None:
    observations, masks = positions
    generator = torch.Generator().manual_seed(1)
    for kind, candidates in (
        ("discard", discard_candidates(observations, False)),
        ("play", play_candidates(observations, masks, False)),
    ):
        network = SHAPE.network(kind, 1.0, generator)
        network.load_state_dict(random_weights(SHAPE, 6, spread=0.05)[kind])
        with torch.no_grad():
            plain = network(torch.from_numpy(candidates.features), torch.from_numpy(candidates.known)).numpy()
        exact = ExactNetwork(network.state_dict(), CPU).values(candidates.features, candidates.known)
        assert exact == pytest.approx(plain, abs=3e-3)
        assert np.ptp(plain) > 3


def test_weights_of_any_size_are_cut_to_what_is_exact(positions: tuple[NDArray[np.uint8], NDArray[np.int8]]) -> None:
    observations, masks = positions
    candidates = play_candidates(observations, masks, False)
    huge = {name: 1e6 * tensor for name, tensor in random_weights(SHAPE, 7)["play"].items()}
    network = ExactNetwork(huge, CPU)
    values = network.values(candidates.features, candidates.known)
    assert np.isfinite(values).all()
    for i in range(0, len(candidates), 97):
        assert network.values(candidates.features[i : i + 1], candidates.known[i : i + 1])[0] == values[i]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_bits(checkpoint: Path, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]) -> None:
    observations, masks = positions
    agents = [load_agent(str(checkpoint), device=device) for device in ("cpu", "cuda")]
    cpu, gpu = (agent.values(agent.candidates(observations, masks), len(masks)) for agent in agents)
    assert (cpu == gpu).all()


def test_the_scores_matter_to_networks_that_see_them(tmp_path: Path) -> None:
    observations, masks = some_positions(300, 3)
    level = np.array(observations)
    changed = np.array(observations)
    changed[:, 2] = 110  # the own score
    for scores in (False, True):
        agent = load_agent(str(write_sample(tmp_path / f"{scores}.pt", scores=scores)))
        one, other = (agent.values(agent.candidates(seen, masks), len(masks)) for seen in (level, changed))
        assert (one != other).any() == scores


def test_no_positions_are_no_trouble(checkpoint: Path, positions: tuple[NDArray[np.uint8], NDArray[np.int8]]) -> None:
    observations, masks = positions
    agent = load_agent(str(checkpoint))
    assert agent.policy(observations[:0], masks[:0]).shape == (0, 19)
    assert agent.act(observations[:0], masks[:0]).shape == (0,)
    assert agent.act(observations[::7], masks[::7]).tolist() == agent.act(observations, masks)[::7].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_the_fast_gradient_is_the_gradient(kind: str) -> None:
    features = discard_features(scores=False) if kind == "discard" else play_features(scores=False)
    network = CandidateNetwork(features, (8, 8), 1.0, torch.Generator().manual_seed(2))
    network.load_state_dict(random_weights(NetworkShape((8, 8), (8, 8), False), 3)[kind])
    observations, masks = some_positions(40, 8)
    candidates = (
        play_candidates(observations, masks, False) if kind == "play" else discard_candidates(observations, False)
    )
    active, known = torch.from_numpy(candidates.features), torch.from_numpy(candidates.known)
    network(active, known).square().mean().backward()
    plain = {name: one.detach().clone().requires_grad_() for name, one in network.named_parameters()}
    embedded = torch.nn.functional.embedding(active[:, :-1], plain["embeddings"]).sum(dim=1)
    second = torch.relu(
        torch.relu(embedded + plain["embedding_bias"]) @ plain["hidden_weight"].T + plain["hidden_bias"]
    )
    score = second @ plain["out_weight"] + plain["out_bias"] + (known * plain["known_weight"]).sum(dim=1)
    if kind == "play":
        score = score + plain["wide"][active[:, -1].long()]
    score.square().mean().backward()
    for name, one in network.named_parameters():
        if name == "wide" and kind == "discard":
            assert one.grad is None
            continue
        assert one.grad is not None
        assert plain[name].grad is not None
        assert torch.allclose(one.grad, plain[name].grad, atol=1e-5), name
        assert one.grad.abs().sum() > 0, name


def test_the_network_for_collecting_is_a_copy_in_single_precision(
    positions: tuple[NDArray[np.uint8], NDArray[np.int8]],
) -> None:
    observations, masks = positions
    candidates = play_candidates(observations, masks, False)
    network = SHAPE.network("play", 1.0, torch.Generator().manual_seed(1))
    network.load_state_dict(random_weights(SHAPE, 6, spread=0.05)["play"])
    fast = FastNetwork(network)
    before = fast.values(candidates.features, candidates.known)
    with torch.no_grad():
        plain = network(torch.from_numpy(candidates.features), torch.from_numpy(candidates.known)).numpy()
        network.out_weight += 1.0  # learning goes on while a copy collects
    assert (before.dtype, before.shape) == (np.float64, (len(candidates),))
    assert before == pytest.approx(plain, abs=1e-4)
    assert (fast.values(candidates.features, candidates.known) == before).all()
    assert fast.values(candidates.features[:0], candidates.known[:0]).shape == (0,)
    assert np.ptp(before) > 3


# --- Checkpoints --------------------------------------------------------------------------------------------


def test_the_folder_of_a_run_stands_for_its_newest_checkpoint(tmp_path: Path) -> None:
    observations, masks = some_positions(100, 2)
    write_sample(tmp_path / "checkpoint.pt", seed=4)
    by_file, by_folder = make_agent(f"{tmp_path}/checkpoint.pt"), make_agent(f"{tmp_path}/")
    assert isinstance(by_folder, NeuralAgent)
    assert (by_file.act(observations, masks) == by_folder.act(observations, masks)).all()
    assert by_folder.name == f"{tmp_path}/"


def test_equal_contents_are_equal_bytes() -> None:
    content = sample_content()
    again = pickle.loads(pickle.dumps(content))  # texts that were one object are several now, or the other way round
    assert checkpoint_bytes(content) == checkpoint_bytes(again)
    numbers = {"a": np.float64(0.5), "b": True, "c": None, "d": (1, 2), torch.__version__: "text"}
    plain = torch.load(io.BytesIO(checkpoint_bytes(numbers)), weights_only=True)
    assert plain == {"a": 0.5, "b": True, "c": None, "d": [1, 2], str(torch.__version__): "text"}
    with pytest.raises(TypeError, match="tensors, numbers and text"):
        checkpoint_bytes({"what": object()})


def refusal(spec: str) -> str:
    with pytest.raises(AgentError) as caught:
        make_agent(spec)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_missing_files(tmp_path: Path, checkpoint: Path) -> None:
    assert f"no checkpoint '{tmp_path}/other.pt' (there are {checkpoint})" in refusal(f"{tmp_path}/other.pt")
    assert "`cribbage train` makes one" in refusal(f"{tmp_path}/no/other.pt")
    (tmp_path / "empty").mkdir()
    assert f"no checkpoint '{tmp_path}/empty/checkpoint.pt'" in refusal(f"{tmp_path}/empty/")


class Evil:
    """Unpickled, it would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_damaged_files_and_other_things(tmp_path: Path, checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    trap = tmp_path / "trap"
    evil = tmp_path / "evil.pt"
    torch.save({"format": Evil(trap)}, evil)
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 1
    files = {
        "cut short": whole[: len(whole) // 2],
        "its end missing": whole[:-1],
        "a bit flipped in a weight": bytes(flipped),
        "empty": b"",
        "random bytes": np.random.default_rng(1).bytes(5000),
        "text": b"name: quickstart\n",
        "a pickle of something else": pickle.dumps(Evil(trap)),
        "torch.save of something else": evil.read_bytes(),
    }
    for what, data in files.items():
        path = tmp_path / "damaged.pt"
        path.write_bytes(data)
        assert "is not a whole checkpoint" in refusal(str(path)), what
    assert not trap.exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "another"}, "is no checkpoint of this version of cribbage-lab"),
        ({"observation_version": 0}, "has observation_version 0, this version of cribbage-lab has 1"),
        (
            {"features_version": 1},
            f"has features_version 1, this version of cribbage-lab has {FEATURES_VERSION}: train",
        ),
        ({"format": "cribbage-lab checkpoint 1"}, "is no checkpoint of this version of cribbage-lab"),
        ({"choice": None}, "'choice' does not say how its agent chooses: None"),
        ({"choice": {"discard": 0.0, "play": 1.0}}, "'choice' does not say how its agent chooses: "),
        ({"choice": {"discard": 0.0, "play": -1.0, "least": 0.0}}, "the temperature of play must be 0 or at least"),
        ({"choice": {"discard": 0.0, "play": 1.0, "least": 0.6}}, "least must be from 0 to below 0.5, got 0.6"),
        ({"network": {"discard_hidden": [8, 8], "play_hidden": [8], "scores": False}}, "is not the shape of networks"),
        ({"network": {"discard_hidden": [8, 8], "play_hidden": [8, 9999], "scores": False}}, "is not the shape"),
        ({"network": None}, "is not the shape of networks: None"),
        ({"weights": {}}, "'weights' must be those of discard and play"),
        (
            {"network": {"discard_hidden": [24, 16], "play_hidden": [64, 24], "scores": False}},
            "embeddings of the play network must be (",
        ),
        (
            {"network": {"discard_hidden": [24, 16], "play_hidden": [32, 24], "scores": True}},
            "embeddings of the discard network must be (",
        ),
    ],
)
def test_other_versions_and_shapes(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    path.write_bytes(checkpoint_bytes(sample_content() | change))
    assert message in refusal(str(path))


def test_weights_that_are_wrong(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    content = sample_content()
    content["weights"]["play"]["out_weight"][3] = float("nan")
    path.write_bytes(checkpoint_bytes(content))
    assert "out_weight of the play network has values that are not finite" in refusal(str(path))
    content["weights"]["play"]["out_weight"][3] = 0.0
    content["weights"]["play"]["wide"] = content["weights"]["play"]["wide"][:-1]
    path.write_bytes(checkpoint_bytes(content))
    assert "wide of the play network must be (" in refusal(str(path))
    del content["weights"]["discard"]["out_bias"]
    path.write_bytes(checkpoint_bytes(content))
    assert "the weights of the discard network must be embeddings, " in refusal(str(path))
    content["weights"]["discard"]["out_bias"] = 1.0
    with pytest.raises(AgentError, match=r"must be .* float32 .* got float"):
        check_checkpoint(content, "x")


def test_options(checkpoint: Path) -> None:
    for spec, message in {
        f"{checkpoint}:temperature=-1": "temperature must be 0 (the best action) or at least 1e-06, got -1.0",
        f"{checkpoint}:temperature=nan": "temperature must be 0",
        f"{checkpoint}:temperature=warm": "the option temperature must be of type float",
        f"{checkpoint}:worlds=3": "unknown option 'worlds'; this agent's options: temperature, device",
        f"{checkpoint}:device=abacus": "device must be auto, cpu or cuda, got 'abacus'",
        f"{checkpoint}:device=cuda:99": "there is no GPU 'cuda:99'",
    }.items():
        assert message in refusal(spec)
    assert read_checkpoint(checkpoint)["features_version"] >= 1
    make_agent(f"{checkpoint}:device=cpu,temperature=1")


def test_the_config_allows_the_widths_that_are_exact() -> None:
    width = NetworkConfig.model_json_schema()["properties"]["play_hidden"]["items"]["maximum"]
    assert width == MAX_WIDTH
    assert KINDS == ("discard", "play")
    with pytest.raises(ValueError, match="widths must lie between 1 and"):
        CandidateNetwork(discard_features(False), (8, MAX_WIDTH + 1), 1.0, torch.Generator())
