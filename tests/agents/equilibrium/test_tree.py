"""The tree of the play: its size, its points, its histories, against counting and playing by other means."""

from __future__ import annotations

import random

import numpy as np
import plain_trees
import pytest
from plain_play import begin, lay, pass_turn
from play_counter import count_play
from rule_policies import replay_ends

from agents.equilibrium.hands import hand_numbers
from agents.equilibrium.policies import infoset_counts
from agents.equilibrium.tree import FULL_PACK, PAIR_END, PASS, Tree, build_tree


def test_size(tree: Tree) -> None:
    assert tree.nodes == 815_477
    assert tree.ends == 5_300_485
    assert infoset_counts(tree).sum() == 21_543_444
    assert tree.policy_size == 44_063_886
    assert tree.end_slots[-1] == 2_416_616


def test_size_counted_otherwise(tree: Tree) -> None:
    """A walk with rules of its own comes to the same counts, and to those of the whole play, where nothing is merged.

    The prototype's figures: 1,877,592 histories at which somebody holds two cards or more, 11,502,486 after which
    nobody does, 545,768,753 to the last card; infosets with a choice, and of them those of a player alone with cards.
    """
    counts = count_play()
    kinds = np.bincount(tree.end_kind, minlength=3)
    assert counts.nodes == tree.nodes
    assert counts.pair_ends == kinds[PAIR_END] == 4_238_370
    assert counts.solo_ends == kinds[1] + kinds[2] == 1_062_115
    assert counts.nodes + counts.solo_ends == 1_877_592
    assert counts.pair_ends + counts.solo_leaves == 11_502_486
    assert counts.sequences == 545_768_753

    other = tree.held[np.arange(tree.nodes), 1 - tree.mover]
    choices = infoset_counts(tree)
    sums = [[int(choices[(tree.mover == seat) & ((other == 0) == alone)].sum()) for alone in (0, 1)] for seat in (0, 1)]
    pone, dealer = sums
    assert pone[1] + counts.pone_solo_infosets == 2_927_835
    assert dealer[1] + counts.dealer_solo_infosets == 21_555_377
    assert sum(pone) + counts.pone_solo_infosets == 6_051_590
    assert sum(dealer) + counts.dealer_solo_infosets == 39_315_213


def test_arrays_fit_together(tree: Tree) -> None:
    numbers = np.arange(tree.nodes)
    assert tree.edges[0] == 0
    assert tree.edges[-1] == len(tree.edge) == len(tree.child) == tree.nodes - 1 + tree.ends
    assert (np.diff(tree.edges) > 0).all()
    edge_parent = np.repeat(numbers, np.diff(tree.edges))
    to_node = tree.child >= 0
    assert (np.sort(tree.child[to_node]) == numbers[1:]).all()
    assert (np.sort(-1 - tree.child[~to_node]) == np.arange(tree.ends)).all()
    assert (tree.parent[tree.child[to_node]] == edge_parent[to_node]).all()
    assert (tree.by[tree.child[to_node]] == tree.edge[to_node]).all()
    assert (tree.end_parent[-1 - tree.child[~to_node]] == edge_parent[~to_node]).all()
    assert (tree.end_edge[-1 - tree.child[~to_node]] == tree.edge[~to_node]).all()
    assert (tree.parent[1:] < numbers[1:]).all()
    assert tree.parent[0] == tree.by[0] == -1
    assert (np.diff(tree.slots) >= 0).all()
    assert (np.diff(tree.end_slots) >= 0).all()
    assert (np.diff(tree.end_slots)[tree.end_kind == PAIR_END] == 0).all()
    assert tree.held.sum(axis=1).min() == 3
    inner = edge_parent[to_node]
    laid = tree.edge[to_node] != PASS
    mover = tree.mover[inner]
    child_held = tree.held[tree.child[to_node]]
    assert (tree.held[inner, mover] - child_held[np.arange(len(inner)), mover] == laid).all()
    # the different tables really are different, and all are used
    for tables, kinds in ((tree.pair_tables, [0]), (tree.solo_tables, [1, 2])):
        flat = tables.reshape(len(tables), -1)
        assert len(np.unique(flat, axis=0)) == len(flat)
        assert len(np.unique(tree.end_table[np.isin(tree.end_kind, kinds)])) == len(flat)


def test_every_end_replayed_by_the_engine(tree: Tree) -> None:
    """All 5.3 M ends, from the first card to the last, with cards in hand that fit: moves, points, tables."""
    assert replay_ends(tree, 1) == (0, 0)


def test_ends_against_the_reference(tree: Tree) -> None:
    """Sampled ends, replayed plainly: all cards that the players may still hold, each against the table."""
    rng = random.Random(3)
    numbers = hand_numbers()[2]
    compared = {0: 0, 1: 0, 2: 0}
    with_points = 0
    for _ in range(4000):
        end = rng.randrange(tree.ends)
        parent, kind = int(tree.end_parent[end]), int(tree.end_kind[end])
        path = []
        node = parent
        while tree.parent[node] >= 0:
            path.append((int(tree.mover[tree.parent[node]]), int(tree.by[node])))
            node = int(tree.parent[node])
        path = [*reversed(path), (int(tree.mover[parent]), int(tree.end_edge[end]))]
        public = plain_trees.read(tuple(path), 4)
        laid = [[rank for who, rank in path if who == seat and rank != PASS] for seat in (0, 1)]
        assert [hand_numbers()[len(laid[seat])][tuple(sorted(laid[seat]))] for seat in (0, 1)] == [
            *tree.end_laid[end].tolist()
        ]
        for _ in range(4):
            rest: list[list[int]] = [[], []]
            for seat in (0, 1):
                while len(laid[seat]) + len(rest[seat]) < 4:
                    rank = rng.randrange(13)
                    gone = public.laid.count(rank) + rest[0].count(rank) + rest[1].count(rank)
                    if gone < 4 and min(rank + 1, 10) >= public.low[seat]:
                        rest[seat].append(rank)
            play = begin(tuple(laid[0] + rest[0]), tuple(laid[1] + rest[1]))
            for who, rank in path:
                assert play.turn == who
                play = pass_turn(play) if rank == PASS else lay(play, rank)
            before = play.margin
            first = rng.randrange(2)
            while not play.over:
                options = play.options()
                play = lay(play, options[first * (len(options) - 1)]) if options else pass_turn(play)
            if kind == PAIR_END:
                table = tree.pair_tables[tree.end_table[end], rest[0][0], rest[1][0]]
            else:
                two = tuple(sorted(rest[0] if kind == 1 else rest[1]))
                table = tree.solo_tables[tree.end_table[end], numbers[two], first]
            assert tree.end_points[end] + table == play.margin
            compared[kind] += 1
            with_points += abs(play.margin - before) > 1
    assert min(compared.values()) > 500
    assert with_points > 1000


@pytest.mark.parametrize(("cards", "pack"), plain_trees.SMALL_GAMES)
def test_all_histories_of_small_games(cards: int, pack: plain_trees.Pack) -> None:
    """Every history that any two hands can make is there, with its points, its mover and its moves.

    With a whole pack there is no other. In a small one there may be: the builder asks for each player on their own
    whether the pack still has cards that fit, not for both together.
    """
    tree = build_tree(cards, pack)
    found = dict(zip(plain_trees.histories(tree), range(tree.nodes), strict=True))
    assert len(found) == tree.nodes
    ends = {}
    for end in range(tree.ends):
        parent = int(tree.end_parent[end])
        ends[(*_history(tree, parent), (int(tree.mover[parent]), int(tree.end_edge[end])))] = end
    met = set()
    for pone, dealer in plain_trees.dealt_pairs(cards, pack):
        plays = [begin(pone, dealer)]
        while plays:
            play = plays.pop()
            if play.over:
                continue
            held = (len(play.held[0]), len(play.held[1]))
            met.add(play.history)
            if sum(held) == 2:
                assert tree.end_kind[ends[play.history]] == {(1, 1): 0, (2, 0): 1, (0, 2): 2}[held]
                continue
            node = found[play.history]
            assert tree.mover[node] == play.turn
            assert tree.points[node] == play.margin
            assert tuple(tree.held[node]) == held
            assert tree.running_count[node] == play.count
            assert tree.room[node] == min(31 - play.count, 10)
            edges = tree.edge[tree.edges[node] : tree.edges[node + 1]].tolist()
            options = play.options()
            assert set(options or [PASS]) <= set(edges)
            plays += [lay(play, rank) for rank in options] if options else [pass_turn(play)]
    assert len(met) > 10
    assert met <= found.keys() | ends.keys()
    if pack == FULL_PACK:
        assert met == found.keys() | ends.keys()


def _history(tree: Tree, node: int) -> plain_trees.History:
    path: list[tuple[int, int]] = []
    while tree.parent[node] >= 0:
        path.insert(0, (int(tree.mover[tree.parent[node]]), int(tree.by[node])))
        node = int(tree.parent[node])
    return tuple(path)


@pytest.mark.parametrize("cards", [-1, 0, 1, 5])
def test_bad_hand_sizes(cards: int) -> None:
    with pytest.raises(ValueError, match=f"a hand has 2 to 4 cards, got {cards}"):
        build_tree(cards)


@pytest.mark.parametrize("pack", [(4,) * 12, (4,) * 14, (5,) + (4,) * 12, (-1,) + (4,) * 12, (1,) * 7 + (0,) * 6, ()])
def test_bad_packs(pack: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="a pack has 0 to 4 cards of each of 13 ranks, and at least 8"):
        build_tree(4, pack)


@pytest.mark.slow
@pytest.mark.parametrize("starter", [0, 4, 9])
def test_known_starter(tree: Tree, starter: int) -> None:
    """Its tree is the part of the whole one with at most three cards of the starter's rank."""
    pack = tuple(3 if rank == starter else 4 for rank in range(13))
    known = build_tree(4, pack)
    laid = (tree.seen >> np.uint64(4 * starter)) & np.uint64(15)
    in_ends = laid[tree.end_parent] + (tree.end_edge == starter)
    assert known.nodes == int((laid <= 3).sum())
    assert known.ends == int((in_ends <= 3).sum())
    assert known.ends < tree.ends
    assert (known.points == tree.points[laid <= 3]).all()
    assert (known.seen == tree.seen[laid <= 3] + (np.uint64(1) << np.uint64(4 * starter))).all()
    assert (known.end_points == tree.end_points[in_ends <= 3]).all()
    assert (known.end_laid == tree.end_laid[in_ends <= 3]).all()
    pairs = known.end_kind == PAIR_END
    tables = known.pair_tables[known.end_table[pairs]]
    assert (tables == tree.pair_tables[tree.end_table[in_ends <= 3][pairs]]).all()
