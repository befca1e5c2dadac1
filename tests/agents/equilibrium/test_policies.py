"""Policies: counted, normalised, made uniform, and stored with one byte a probability."""

from __future__ import annotations

import numpy as np
import plain_trees
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_trees import SMALL_GAMES, Pack

from agents.equilibrium.policies import (
    infoset_counts,
    normalised,
    option_counts,
    quantised,
    restored,
    uniform_policy,
)
from agents.equilibrium.tree import Tree, build_tree


@pytest.mark.parametrize(("cards", "pack"), SMALL_GAMES)
def test_counts_of_small_games(cards: int, pack: Pack) -> None:
    """Both counts and the slots of the nodes, against infosets counted out from the histories."""
    tree = build_tree(cards, pack)
    found = plain_trees.infosets(tree, pack)
    assert option_counts(tree).tolist() == [len(options) for _, _, options in found]
    by_node = np.bincount([node for node, _, _ in found], minlength=tree.nodes)
    assert (infoset_counts(tree) == by_node).all()
    slots = np.bincount(
        [node for node, _, _ in found], [len(options) for _, _, options in found], minlength=tree.nodes
    ).astype(int)
    assert (np.diff(tree.slots) == slots).all()
    assert tree.slots[0] == 0


def test_counts_of_the_whole_tree(tree: Tree) -> None:
    counts = option_counts(tree)
    assert counts.dtype == np.uint8
    assert len(counts) == infoset_counts(tree).sum()
    assert counts.sum(dtype=np.int64) == tree.policy_size
    assert set(np.unique(counts)) == {2, 3, 4}
    starts = np.concatenate([[0], np.cumsum(infoset_counts(tree))])
    sums = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])
    assert (sums[starts] == tree.slots).all()


def test_uniform(tree: Tree) -> None:
    policy, end_policy = uniform_policy(tree)
    assert policy.dtype == end_policy.dtype == np.float32
    counts = option_counts(tree)
    assert (policy == np.repeat((1.0 / counts.astype(np.float64)).astype(np.float32), counts)).all()
    assert end_policy.shape == (tree.end_slots[-1],)
    assert (end_policy == 0.5).all()


COUNTS = st.lists(st.integers(2, 4), min_size=1, max_size=40).map(lambda counts: np.array(counts, np.uint8))
SHARE = st.one_of(st.just(0.0), st.floats(0.0, 1.0, width=32), st.just(1e-30), st.floats(0.0, 2.0**-10, width=32))


@st.composite
def raw_policies(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    counts = draw(COUNTS)
    size = int(counts.sum(dtype=np.int64))
    raw = draw(st.lists(SHARE, min_size=size, max_size=size))
    return counts, np.array(raw, np.float32)


def split(counts: np.ndarray, entries: np.ndarray) -> list[np.ndarray]:
    return np.split(entries, np.cumsum(counts, dtype=np.int64)[:-1])


@settings(max_examples=300, deadline=None)
@given(raw_policies())
def test_normalised(given_policy: tuple[np.ndarray, np.ndarray]) -> None:
    counts, raw = given_policy
    before = raw.copy()
    policy = normalised(counts, raw)
    assert (raw == before).all()
    assert policy.dtype == np.float32
    for part, own in zip(split(counts, policy), split(counts, raw), strict=True):
        total = own.sum(dtype=np.float64)
        expected = own / total if total > 0 else np.full(len(own), 1 / len(own))
        assert part == pytest.approx(expected, abs=1e-6)
        assert part.sum() == pytest.approx(1.0, abs=1e-6)


@settings(max_examples=300, deadline=None)
@given(raw_policies())
def test_one_byte_a_probability(given_policy: tuple[np.ndarray, np.ndarray]) -> None:
    counts, raw = given_policy
    policy = normalised(counts, raw)
    stored = quantised(counts, policy)
    assert stored.dtype == np.uint8
    assert len(stored) == len(policy) - len(counts)
    back = restored(counts, stored)
    assert back.dtype == np.float32
    for part, own in zip(split(counts, back), split(counts, policy), strict=True):
        steps = part.astype(np.float64) * 255
        assert steps == pytest.approx(np.round(steps), abs=1e-4)  # multiples of 1 / 255
        assert np.round(steps).sum() == 255
        assert (np.round(steps) >= 0).all()
        assert (abs(part - own) < 1 / 255 + 1e-6).all()  # rounded up or down, never further
        # the greatest remainders are rounded up: no other choice has a smaller greatest error
        down = np.floor(own.astype(np.float64) * 255 + 1e-4)
        up = np.round(steps) > down
        remainders = own.astype(np.float64) * 255 - down
        if up.any() and not up.all():
            assert remainders[up].min() >= remainders[~up].max() - 1e-3
    again = restored(counts, quantised(counts, back))
    assert (again == back).all()  # stored again, the same


def test_pure_policies_are_stored_exactly() -> None:
    counts = np.array([2, 3, 4, 2, 3, 4, 4, 2], np.uint8)
    rng = np.random.default_rng(0)
    for _ in range(50):
        policy = np.concatenate([np.eye(n, dtype=np.float32)[rng.integers(n)] for n in counts])
        assert (restored(counts, quantised(counts, policy)) == policy).all()


def test_another_tree() -> None:
    counts = np.array([2, 3], np.uint8)
    for wrong in (2, 4):
        with pytest.raises(ValueError, match=f"3 bytes belong to this tree, got {wrong}"):
            restored(counts, np.zeros(wrong, np.uint8))


def test_no_infosets() -> None:
    """A play in which nobody ever has a choice."""
    tree = build_tree(2, (4, *[0] * 12))
    assert tree.policy_size == len(option_counts(tree)) == 0
    assert infoset_counts(tree).sum() == 0
    none = uniform_policy(tree)[0]
    counts = option_counts(tree)
    assert len(normalised(counts, none)) == len(restored(counts, quantised(counts, none))) == 0
