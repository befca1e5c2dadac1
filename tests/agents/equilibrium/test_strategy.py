"""Strategies as files: what is stored is what is played, with a certificate that holds; damage is seen."""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from agents import AgentError
from agents.equilibrium import strategy as strategy_module
from agents.equilibrium.hands import NUM_HANDS, hand_tables
from agents.equilibrium.policies import option_counts, quantised, restored
from agents.equilibrium.prior import dealt_weights
from agents.equilibrium.solver import Solver, exploitability, play_value
from agents.equilibrium.strategy import FILE, Strategy, load_strategy, make_strategy, read_facts, save_strategy
from agents.equilibrium.thinning import infoset_weights
from agents.equilibrium.traverse import Policy, Walker
from agents.equilibrium.tree import PAIR_END, PASS, PONE, Tree, build_tree

PACK = (2, 0, 0, 2, 3, 0, 0, 0, 0, 4, 0, 0, 0)  # a small game with gos, fifteens and thirty-ones


@cache
def small_tree() -> Tree:
    return build_tree(3, PACK)


@cache
def small_weights() -> NDArray[np.float64]:
    return dealt_weights(3, PACK)


@cache
def small_walker() -> Walker:
    return Walker(small_tree(), small_weights())


@cache
def small_policy() -> Policy:
    solver = Solver(small_tree(), small_weights())
    for _ in range(30):
        solver.iterate()
    return solver.policy()


def small_strategy(left_out: float = 0.0) -> Strategy:
    return make_strategy(
        small_walker(), small_weights(), small_policy(), prior="uniform", random_share=0.25, iterations=30,
        seconds=1.25, left_out=left_out, made_with={"cribbage-lab": "0"},
    )  # fmt: skip


def infosets_of(tree: Tree) -> list[tuple[int, tuple[int, ...], list[int]]]:
    """Every infoset with a choice, read plainly: the node, the ranks held and those that may be laid."""
    tables = hand_tables()
    found = []
    for node in range(tree.nodes):
        seat = tree.mover[node]
        holds = int(tree.held[node, seat])
        for hand in range(NUM_HANDS[holds]):
            ranks = tables.ranks[holds, hand, :holds].tolist()
            if not fits(tree, int(tree.seen[node]), int(tree.lowest[node, seat]), ranks):
                continue
            legal = sorted({rank for rank in ranks if min(rank + 1, 10) <= tree.room[node]})
            if len(legal) > 1:
                found.append((node, tuple(ranks), legal))
    return found


def fits(tree: Tree, seen: int, lowest: int, ranks: list[int]) -> bool:
    return all(min(rank + 1, 10) >= lowest and (seen >> 4 * rank & 15) + ranks.count(rank) <= 4 for rank in ranks)


# --- What is left out ---------------------------------------------------------------------------------------


def test_weights_of_infosets_are_how_often_they_come_up_at_most() -> None:
    """Against a plain sum over the opponent's hands, with the reach along the path from the root."""
    tree, policy = small_tree(), small_policy()
    found = infosets_of(tree)
    counts = option_counts(tree)
    assert len(found) == len(counts)
    places = dict(
        zip(
            [(node, ranks) for node, ranks, _ in found],
            (np.cumsum(counts) - counts).tolist(),
            strict=True,
        )
    )
    numbers = [
        {tuple(hand_tables().ranks[k, hand, :k].tolist()): hand for hand in range(NUM_HANDS[k])} for k in range(4)
    ]
    weights = infoset_weights(tree, small_weights(), policy, len(found))
    rng = np.random.default_rng(4)
    reached = 0
    for infoset in rng.permutation(len(found))[:400].tolist():
        node, ranks, _ = found[infoset]
        seat, other = int(tree.mover[node]), 1 - int(tree.mover[node])
        reach, at, hand = 1.0, node, ranks
        while tree.parent[at] >= 0:
            by, parent = int(tree.by[at]), int(tree.parent[at])
            if tree.mover[parent] == seat and by != PASS:
                hand = tuple(sorted((*hand, by)))
                choices = sorted({rank for rank in hand if min(rank + 1, 10) <= tree.room[parent]})
                if len(choices) > 1:
                    reach *= float(policy[places[parent, hand] + choices.index(by)])
            at = parent
        own = numbers[3][hand]
        mass = 0.0
        theirs = int(tree.held[node, other])
        laid = hand_tables().ranks[3 - theirs, tree.laid[node, other], : 3 - theirs].tolist()
        for left in numbers[theirs]:
            if fits(tree, int(tree.seen[node]), int(tree.lowest[node, other]), list(left)):
                whole = numbers[3][tuple(sorted([*laid, *left]))]
                mass += small_weights()[(own, whole) if seat == PONE else (whole, own)]
        assert weights[infoset] == pytest.approx(reach * mass, rel=1e-5, abs=1e-12)
        reached += weights[infoset] > 0
    assert reached > 100


def test_decisions_left_out_are_made_by_the_rule() -> None:
    tree, limit = small_tree(), 1e-4
    strategy = small_strategy(limit)
    assert strategy.known is not None
    stored = strategy.policy(tree)
    whole = restored(option_counts(tree), quantised(option_counts(tree), small_policy()))
    weights = infoset_weights(tree, small_weights(), small_policy(), len(strategy.known))
    assert (strategy.known == (weights >= limit)).all()
    assert 0.05 < strategy.known.mean() < 0.95
    at = 0
    for known, (node, _, legal) in zip(strategy.known, infosets_of(tree), strict=True):
        here = slice(at, at + len(legal))
        at += len(legal)
        if known:
            assert (stored[here] == whole[here]).all()
            continue
        gains = []
        for edge in range(tree.edges[node], tree.edges[node + 1]):
            if tree.edge[edge] in legal:
                child = int(tree.child[edge])
                if child >= 0:
                    gain = float(tree.points[child]) - float(tree.points[node])
                else:
                    end = -1 - child
                    tables = tree.pair_tables if tree.end_kind[end] == PAIR_END else tree.solo_tables
                    gain = float(tables[tree.end_table[end]].mean())
                gains.append((round(gain if tree.mover[node] == PONE else -gain, 5), int(tree.edge[edge])))
        best = legal.index(max(gains)[1])
        assert stored[here].tolist() == [float(place == best) for place in range(len(legal))]
    assert at == len(stored)


def test_leaving_out_costs_no_more_than_what_is_left_out() -> None:
    whole = small_strategy()
    for limit in (1e-6, 1e-4, 1e-2):
        strategy = small_strategy(limit)
        assert strategy.known is not None
        weights = infoset_weights(small_tree(), small_weights(), small_policy(), len(strategy.known))
        lost = 2 * 40 * weights[~strategy.known].sum()  # no play has 40 points
        assert strategy.facts.exploitability <= whole.facts.exploitability + lost
        assert len(strategy.values) < len(whole.values)


# --- Files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left_out", [0.0, 1e-4])
def test_what_is_loaded_is_what_was_saved_and_its_certificate_holds(tmp_path: Path, left_out: float) -> None:
    strategy = small_strategy(left_out)
    path = tmp_path / FILE
    save_strategy(strategy, path)
    loaded = load_strategy(path)
    assert loaded.facts == strategy.facts == read_facts(path)
    assert load_strategy(tmp_path).facts == strategy.facts  # a folder
    assert (loaded.known is None) == (left_out == 0.0)
    policy = loaded.policy(small_tree())
    assert (policy == strategy.policy(small_tree())).all()
    best = exploitability(small_walker(), policy)
    facts = loaded.facts
    assert (facts.pone_best, facts.dealer_best) == tuple(best)
    assert facts.exploitability == best.mean > 0
    assert facts.value == play_value(small_walker(), policy)
    assert -facts.dealer_best <= facts.value <= facts.pone_best
    assert (facts.tree.cards, facts.tree.pack) == (3, PACK)
    assert (facts.prior, facts.iterations, facts.seconds, facts.random_share) == ("uniform", 30, 1.2, 0.25)
    assert [one.name for one in tmp_path.iterdir()] == [FILE]
    saved = path.read_bytes()
    save_strategy(loaded, path)
    assert path.read_bytes() == saved


def test_a_byte_a_probability() -> None:
    stored = small_strategy().policy(small_tree())
    assert np.abs(stored - small_policy()).max() <= 1.5 / 255
    counts = option_counts(small_tree())
    sums = np.add.reduceat(stored.astype(np.float64), np.cumsum(counts, dtype=np.int64) - counts)
    assert sums == pytest.approx(np.ones(len(counts)), abs=1e-6)


def changed_header(path: Path, **entries: object) -> None:
    line, _, rest = path.read_bytes().partition(b"\n")
    header = {**json.loads(line), **entries}
    path.write_bytes(
        json.dumps({key: value for key, value in header.items() if value is not ...}).encode() + b"\n" + rest
    )


@pytest.mark.parametrize("left_out", [0.0, 1e-4])
def test_every_damage_is_one_line(tmp_path: Path, left_out: float) -> None:
    path = tmp_path / FILE
    save_strategy(small_strategy(left_out), path)
    whole = path.read_bytes()
    body = whole.index(b"\n") + 1
    for damaged in (
        whole[:-1],
        whole[: body + 20],
        whole[:body],
        whole + b"x",
        whole[:body] + bytes([whole[body] ^ 1]) + whole[body + 1 :],
        whole[:-9] + bytes([whole[-9] ^ 4]) + whole[-8:],
    ):
        path.write_bytes(damaged)
        with pytest.raises(
            AgentError, match=r"strategy\.bin' is damaged \(.*\): make it anew with cribbage solve"
        ) as info:
            load_strategy(path)
        assert "\n" not in str(info.value)
    for nothing in (
        b"",
        b"\n",
        b"PK\x03\x04\xff\xfe",
        b"[1]\n",
        b"{}\n",
        b'{"what": "else"}\n' + whole[body:],
        b"9" * 99_999,
    ):
        path.write_bytes(nothing)
        with pytest.raises(AgentError, match=r"strategy\.bin' is no strategy of the play"):
            load_strategy(path)
    for entries in (
        {"blocks": []}, {"blocks": [{}]}, {"blocks": 3}, {"tree": {}}, {"prior": 7}, {"value": ...}, {"pone_best": "a"},
        {"tree": {**small_strategy().facts.tree._asdict(), "infosets": 5}},
    ):  # fmt: skip
        path.write_bytes(whole)
        changed_header(path, **entries)
        with pytest.raises(AgentError, match="is damaged"):
            load_strategy(path)
    path.write_bytes(whole)
    changed_header(path, version=2)
    with pytest.raises(AgentError, match="is of version 2, this is version 1: make it anew"):
        load_strategy(path)


def test_missing_files_and_other_trees(tmp_path: Path) -> None:
    with pytest.raises(AgentError, match=r"there is no strategy '.*nowhere': make one with cribbage solve"):
        load_strategy(tmp_path / "nowhere")
    with pytest.raises(AgentError, match=r"there is no strategy '.*strategy\.bin'"):
        load_strategy(tmp_path)
    strategy = small_strategy()
    with pytest.raises(AgentError, match="belongs to another version of the tree"):
        strategy.policy(build_tree(2))
    other = dataclasses.replace(strategy.facts, tree=strategy.facts.tree._replace(digest=1))
    with pytest.raises(AgentError, match="belongs to another version of the tree"):
        dataclasses.replace(strategy, facts=other).steps(small_tree())


def test_a_write_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / FILE
    save_strategy(small_strategy(), path)
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(strategy_module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_strategy(small_strategy(1e-4), path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [FILE]
