"""An agent is asked what it would be asked at the table, and its answers come to the right places."""

from __future__ import annotations

from collections import Counter
from itertools import combinations_with_replacement

import numpy as np
import plain_trees
import pytest
from numpy.typing import NDArray
from plain_play import PASS
from reference import value_of
from rule_policies import GREEDY, choose, write_policy
from scipy import stats

from agents.base import Agent, Masks, Observations
from agents.equilibrium import infosets
from agents.equilibrium.hands import hand_numbers
from agents.equilibrium.infosets import _Asking, _Table, agent_policy, dealt
from agents.equilibrium.policies import option_counts, uniform_policy
from agents.equilibrium.prior import WAYS, class_policy, dealt_weights, six_hands, suit_classes
from agents.equilibrium.solver import exploitability
from agents.equilibrium.traverse import VALUE, Walker
from agents.equilibrium.tree import Tree
from agents.registry import make_agent
from cribbage_env.engine import KEPT_PLACES, PAIRS, rule_numbers
from cribbage_env.jit import jit
from cribbage_env.observation import (
    AT_COUNT,
    AT_COUNT_BEGIN,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LAID,
    AT_LAID_BY,
    AT_LAID_GO,
    AT_LEFT,
    AT_NUM_LAID,
    OBSERVATION_SIZE,
    field,
)
from cribbage_env.rules import Rules
from cribbage_env.scoring import show_table

HANDS = [list(combinations_with_replacement(range(13), k)) for k in range(5)]


@jit
def _rank_answers(kind: int, observations: Observations, masks: Masks, policy: NDArray[np.float64]) -> None:
    cards, seats, gos = np.zeros(9, np.int16), np.zeros(9, np.int16), np.zeros(9, np.int16)
    options = np.zeros(4, np.int64)
    for b in range(len(observations)):
        seen = observations[b]
        laid = int(seen[AT_NUM_LAID])
        for i in range(laid):
            cards[i] = seen[AT_LAID + i]
            seats[i] = seen[AT_IS_DEALER] if seen[AT_LAID_BY + i] == 1 else 1 - seen[AT_IS_DEALER]
            gos[i] = seen[AT_LAID_GO + i]
        n = held = 0
        for slot in range(4):  # the kept cards are sorted
            rank = np.int64(seen[AT_KEPT + slot] >> 2)
            if seen[AT_LEFT + slot]:
                held += 1 << (4 * rank)
            if masks[b, 15 + slot] and (n == 0 or options[n - 1] != rank):
                options[n] = rank
                n += 1
        begin, count = int(seen[AT_COUNT_BEGIN]), int(seen[AT_COUNT])
        chosen = options[choose(kind, cards, seats, gos, laid, begin, count, held, options, n)]
        slot = 3  # the last of its rank: which one makes no difference
        while not masks[b, 15 + slot] or np.int64(seen[AT_KEPT + slot] >> 2) != chosen:
            slot -= 1
        policy[b, 15 + slot] = 1.0


class RankAgent(Agent):
    """Plays a policy of :mod:`rule_policies`; throws its two lowest cards."""

    def __init__(self, kind: int) -> None:
        self.kind = kind
        super().__init__("ranks")

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        policy = np.zeros(masks.shape)
        policy[masks[:, 0] == 1, 0] = 1.0
        plays = np.flatnonzero(masks[:, 0] == 0)
        answers = np.zeros((len(plays), masks.shape[1]))
        _rank_answers(self.kind, observations[plays], masks[plays], answers)
        policy[plays] = answers
        return policy


class Recorder(Agent):
    """Lays ranks in proportion to rank + 1, shared among cards of a rank in a lopsided way; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("recorder")
        self.seen: list[tuple[Observations, Masks]] = []

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        self.seen.append((observations.copy(), masks.copy()))
        policy = masks.astype(np.float64)
        if not masks[0, 0]:
            ranks = np.where(masks[:, 15:] == 1, field(observations, "kept") >> 2, 99)
            for rank in range(13):
                cards = ranks == rank
                shares = cards * np.array([1.0, 2.0, 3.0, 4.0])
                total = np.maximum(shares.sum(axis=1, keepdims=True), 1e-9)
                policy[:, 15:] = np.where(cards, (rank + 1) * shares / total, policy[:, 15:])
        normalised: NDArray[np.float64] = policy / policy.sum(axis=1, keepdims=True)
        return normalised

    def rows(self) -> tuple[Observations, Masks]:
        return np.concatenate([seen for seen, _ in self.seen]), np.concatenate([masks for _, masks in self.seen])


def completion_table(pone: NDArray[np.floating], dealer: NDArray[np.floating], starter_rank: int = -1) -> _Table:
    """What completing infosets needs, from what both throw by class of suits."""
    rules = np.array(rule_numbers(Rules()), np.int64)
    orders = infosets._SUIT_ORDERS
    return _Table(show_table(), suit_classes()[0], dealt(pone), dealt(dealer), WAYS, orders, rules, starter_rank)


@pytest.fixture(scope="module")
def random_throws() -> NDArray[np.float32]:
    return np.full((len(suit_classes()[0]), 15), 1 / 15, np.float32)


def infosets_of(tree: Tree, node: int) -> dict[int, tuple[tuple[int, ...], list[int]]]:
    """The hands with a choice at a node and what they may lay, by the first entry of each, counted out plainly."""
    seat = int(tree.mover[node])
    public = plain_trees.read(history(tree, node), 4)
    at = int(tree.slots[node])
    found = {}
    for hand in HANDS[int(tree.held[node, seat])]:
        options = [rank for rank in sorted(set(hand)) if public.count + value_of(4 * rank) <= 31]
        fits = all((hand + public.laid).count(rank) <= 4 for rank in hand)
        if len(options) > 1 and fits and min(value_of(4 * rank) for rank in hand) >= public.low[seat]:
            found[at] = hand, options
            at += len(options)
    assert at == tree.slots[node + 1]
    return found


def entry_of(tree: Tree, node: int, hand: tuple[int, ...]) -> int:
    """The first entry of a hand at a node."""
    return next(entry for entry, (other, _) in infosets_of(tree, node).items() if other == hand)


def history(tree: Tree, node: int) -> plain_trees.History:
    path: list[tuple[int, int]] = []
    while tree.parent[node] >= 0:
        path.insert(0, (int(tree.mover[tree.parent[node]]), int(tree.by[node])))
        node = int(tree.parent[node])
    return tuple(path)


def node_of(tree: Tree, path: plain_trees.History) -> int:
    node = 0
    for who, rank in path:
        assert tree.mover[node] == who
        edges = tree.edge[tree.edges[node] : tree.edges[node + 1]].tolist()
        node = int(tree.child[tree.edges[node] + edges.index(rank)])
    return node


def check_row(
    seen: Observations, mask: Masks, seat: int, path: plain_trees.History, hand: tuple[int, ...], options: list[int]
) -> None:
    """One observation is that of a real game with this history and this hand, and shows nothing hidden."""
    public = plain_trees.read(path, 4)
    value = {name: field(seen, name).tolist() for name in (
        "phase", "is_dealer", "to_act", "target", "cards", "thrown", "kept", "left", "starter", "count", "num_laid",
        "own_left", "opponent_left", "laid", "laid_by", "laid_go", "score", "opponent_score",
    )}  # fmt: skip
    lays = [(who, rank) for who, rank in path if rank != PASS]
    own_laid = [rank for who, rank in lays if who == seat]
    number = len(lays)
    assert value["phase"] == value["to_act"] == [1]
    assert value["is_dealer"] == [seat]
    assert value["target"] == [121]
    assert value["count"] == [public.count]
    assert value["num_laid"] == [number]
    assert [card // 4 for card in value["laid"][:number]] == [rank for _, rank in lays]
    assert value["laid"][number:] == [52] * (8 - number)
    assert value["laid_by"] == [*[1 if who == seat else 2 for who, _ in lays], *[0] * (8 - number)]
    gos: list[int] = []
    last = -1
    for who, rank in path:
        if rank != PASS:
            gos.append(0)
            last = who
        elif who != last:
            gos[-1] = 1
    assert value["laid_go"] == [*gos, *[0] * (8 - number)]
    assert value["own_left"] == [len(hand)] == [4 - len(own_laid)]
    assert value["opponent_left"] == [4 - number + len(own_laid)]
    # the own cards
    assert sorted(value["thrown"] + value["kept"]) == value["cards"]
    assert sorted(card // 4 for card in value["kept"]) == sorted((*hand, *own_laid))
    held = [card for card, left in zip(value["kept"], value["left"], strict=True) if left]
    assert tuple(card // 4 for card in held) == hand
    laid = value["laid"][:number]
    assert {card for card in value["kept"] if card not in held} == {
        card for card, by in zip(laid, value["laid_by"], strict=False) if by == 1
    }
    # no card twice, and the starter is another one
    known = value["cards"] + [card for card, by in zip(laid, value["laid_by"], strict=False) if by == 2]
    assert len(set(known)) == len(known)
    assert value["starter"][0] < 52
    assert value["starter"][0] not in known
    # the legal actions
    assert mask[:15].sum() == 0
    legal = [card for slot, card in enumerate(value["kept"]) if mask[15 + slot]]
    assert legal == [card for card in held if public.count + value_of(card) <= 31]
    assert sorted({card // 4 for card in legal}) == options
    # scores of 0-0 before the deal: the heels and the points of the play
    play = plain_trees.begin(*own_and_other(seat, hand, path))
    points = [0, 2 if value["starter"][0] // 4 == 10 else 0]
    for who, rank in path:
        before = play.margin
        play = plain_trees.pass_turn(play) if rank == PASS else plain_trees.lay(play, rank)
        gained = play.margin - before
        points[0 if gained > 0 else 1] += abs(gained)
        assert play.turn in (0, 1)
        del who
    assert play.turn == seat
    assert value["score"][0] - value["opponent_score"][0] == points[seat] - points[1 - seat]
    assert value["score"] == [points[seat]]


def own_and_other(seat: int, hand: tuple[int, ...], path: plain_trees.History) -> tuple[tuple[int, ...], ...]:
    """Both hands of four: the other player also holds kings."""
    laid = [tuple(rank for who, rank in path if who == player and rank != PASS) for player in (0, 1)]
    own = (*laid[seat], *hand)
    other = (*laid[1 - seat], *[12] * (4 - len(laid[1 - seat])))
    return (own, other) if seat == 0 else (other, own)


@pytest.mark.parametrize("starter", [None, 4])
def test_what_the_agent_is_asked(tree: Tree, random_throws: NDArray[np.float32], starter: int | None) -> None:
    """Infosets of all depths, both seats, several games each; the answers, averaged, come to their entries."""
    rng = np.random.default_rng(0 if starter is None else 1)
    left = np.where(np.diff(tree.slots) > 0, tree.held.sum(axis=1), 0)
    places = {}
    for together in range(3, 9):
        for seat in (0, 1):
            group = np.flatnonzero((left == together) & (tree.mover == seat))
            for node in np.sort(rng.choice(group, min(len(group), 25))).tolist():
                found = infosets_of(tree, node)
                entry = list(found)[rng.integers(len(found))]
                places[entry] = (node, *found[entry])
    places = dict(sorted(places.items()))
    if starter is not None:  # only where one of them is left
        places = {
            entry: found
            for entry, found in places.items()
            if [*found[1], *(rank for _, rank in history(tree, found[0]))].count(starter) < 4
        }
    assert len(places) > 150
    wanted = np.zeros(tree.policy_size, np.bool_)
    wanted[list(places)] = True
    counts = np.bincount([node for node, _, _ in places.values()], minlength=tree.nodes)
    table = completion_table(random_throws, random_throws, -1 if starter is None else starter)
    agent = Recorder()
    policy = np.full(tree.policy_size, -1.0, np.float32)
    samples = 3
    asking = _Asking(agent, tree, table, samples, 5, None)
    asking.ask(wanted, counts, policy, is_end=False)
    observations, masks = agent.rows()
    assert len(observations) == samples * len(places)
    for row, (entry, (node, hand, options)) in enumerate(places.items()):
        for sample in range(samples):
            b = samples * row + sample
            check_row(observations[b], masks[b], int(tree.mover[node]), history(tree, node), hand, options)
            if starter is not None:
                assert field(observations[b], "starter")[0] // 4 == starter
        expected = [(rank + 1) / sum(rank + 1 for rank in options) for rank in options]
        assert policy[entry : entry + len(options)] == pytest.approx(expected, abs=1e-6)
        policy[entry : entry + len(options)] = -1.0
    assert (policy == -1.0).all()  # nothing else was written
    # the games differ, and are the same another time, whatever else is asked
    distinct = {observations[b].tobytes() for b in range(len(observations))}
    assert len(distinct) > 0.95 * len(observations)
    few = dict(list(places.items())[::7])
    wanted[:] = False
    wanted[list(few)] = True
    again = Recorder()
    counts = np.bincount([node for node, _, _ in few.values()], minlength=tree.nodes)
    _Asking(again, tree, table, samples, 5, None).ask(wanted, counts, policy, is_end=False)
    rows = [samples * row + sample for row, entry in enumerate(places) if entry in few for sample in range(samples)]
    assert (again.rows()[0] == observations[rows]).all()


@pytest.mark.slow
def test_what_the_agent_is_asked_at_solo_ends(tree: Tree, random_throws: NDArray[np.float32]) -> None:
    rng = np.random.default_rng(2)
    ends = np.flatnonzero(np.diff(tree.end_slots) > 0)
    ends = np.sort(rng.choice(ends, 120, replace=False))
    wanted = np.zeros(int(tree.end_slots[-1]), np.bool_)
    counts = np.zeros(tree.ends, np.int64)
    places = []
    for end in ends.tolist():
        parent, seat = int(tree.end_parent[end]), int(tree.end_kind[end]) - 1
        path = (*history(tree, parent), (int(tree.mover[parent]), int(tree.end_edge[end])))
        public = plain_trees.read(path, 4)
        table = tree.solo_tables[tree.end_table[end]]
        at = int(tree.end_slots[end])
        for number, hand in enumerate(HANDS[2]):
            fits = all((hand + public.laid).count(rank) <= 4 for rank in hand)
            fits = fits and min(value_of(4 * rank) for rank in hand) >= public.low[seat]
            if fits and table[number, 0] != table[number, 1]:
                if rng.random() < 0.5:
                    wanted[at] = True
                    counts[end] += 1
                    places.append((at, seat, path, hand))
                at += 1
        assert at == tree.end_slots[end + 1]
    agent = Recorder()
    end_policy = np.full(len(wanted), -1.0, np.float32)
    table_of_games = completion_table(random_throws, random_throws)
    _Asking(agent, tree, table_of_games, 2, 5, None).ask(wanted, counts, end_policy, is_end=True)
    observations, masks = agent.rows()
    assert len(observations) == 2 * len(places) > 150
    for row, (entry, seat, path, hand) in enumerate(places):
        for b in (2 * row, 2 * row + 1):
            check_row(observations[b], masks[b], seat, path, hand, sorted(set(hand)))
        assert end_policy[entry] == pytest.approx((hand[0] + 1) / (hand[0] + hand[1] + 2), abs=1e-6)
    assert (end_policy[~wanted] == -1.0).all()


class Lopsided(Agent):
    """Throws depend on ranks and suits: more often what is of one suit, and low."""

    def __init__(self) -> None:
        super().__init__("lopsided")

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        cards = field(observations, "cards").astype(np.int64)
        thrown = cards[:, PAIRS.astype(np.int64)]
        weight = 1.0 / (1.0 + thrown.sum(axis=2)) + 0.2 * (thrown[..., 0] % 4 == thrown[..., 1] % 4)
        policy = np.zeros(masks.shape)
        policy[:, :15] = weight * (thrown[..., 0] // 4 != 7)  # never an eight as the lower card
        policy[policy.sum(axis=1) == 0, :15] = 1.0
        normalised: NDArray[np.float64] = policy / policy.sum(axis=1, keepdims=True)
        return normalised


@pytest.fixture(scope="module")
def lopsided_throws() -> NDArray[np.float32]:
    return class_policy(Lopsided(), False)


@pytest.mark.parametrize(
    ("path", "hand", "starter"),
    [
        pytest.param((), (4, 4, 9, 10), -1, marks=pytest.mark.slow),
        (((0, 3),), (2, 3, 3, 12), -1),
        (((0, 3), (1, 6)), (2, 3, 12), 3),
        ((), (0, 1, 6, 6), 6),  # all four of the starter's rank could be thought to be in the own six
    ],
)
def test_own_cards_are_drawn_from_the_posterior(
    tree: Tree, lopsided_throws: NDArray[np.float32], path: plain_trees.History, hand: tuple[int, ...], starter: int
) -> None:
    """What was thrown, by rank and suit, and the starter, against sums over all six-card hands."""
    node = node_of(tree, path)
    seat = int(tree.mover[node])
    whole = tuple(sorted((*hand, *(rank for who, rank in path if who == seat))))
    shown = [rank for who, rank in path if who != seat]
    entry = entry_of(tree, node, hand)
    wanted = np.zeros(tree.policy_size, np.bool_)
    wanted[entry] = True
    counts = np.zeros(tree.nodes, np.int64)
    counts[node] = 1
    agent, samples = Recorder(), 40_000
    table = completion_table(lopsided_throws, lopsided_throws, starter)
    policy = np.zeros(tree.policy_size, np.float32)
    _Asking(agent, tree, table, samples, 3, None).ask(wanted, counts, policy, is_end=False)
    observations, _ = agent.rows()

    # every hand of six: the chance that it is dealt and thrown so, and that the cards shown are among the others
    hands, number, weight = suit_classes()
    kept = six_hands().kept[number] == hand_numbers()[4][whole]
    expected: Counter[tuple[int, int, bool]] = Counter()
    gone = Counter(shown)
    if starter >= 0:
        gone[starter] += 1
    for c, action in zip(*np.nonzero(kept), strict=True):
        thrown = [int(hands[c, place]) for place in PAIRS[action]]
        likelihood = float(weight[c]) * float(lopsided_throws[c, action])
        own = Counter((hands[c] // 4).tolist())
        for rank, n in gone.items():
            likelihood *= WAYS[own[rank], n]
        expected[thrown[0] // 4, thrown[1] // 4, thrown[0] % 4 == thrown[1] % 4] += likelihood
        assert len(KEPT_PLACES[action]) == 4
    total = sum(expected.values())
    thrown_cards = field(observations, "thrown").astype(int)
    suited = thrown_cards[:, 0] % 4 == thrown_cards[:, 1] % 4
    found = Counter(
        zip((thrown_cards[:, 0] // 4).tolist(), (thrown_cards[:, 1] // 4).tolist(), suited.tolist(), strict=True)
    )
    assert all(expected[cell] > 0 for cell in found)
    cells = [cell for cell in expected if expected[cell] / total * samples >= 10]
    assert len(cells) > 60
    observed = np.array([found[cell] for cell in cells] + [samples - sum(found[cell] for cell in cells)])
    chances = np.array([expected[cell] / total for cell in cells])
    rest = 1.0 - chances.sum()
    chances = np.append(chances, rest)
    if rest * samples < 5:
        observed, chances = observed[:-1], chances[:-1] / chances[:-1].sum()
    assert stats.chisquare(observed, chances * observed.sum()).pvalue > 1e-3

    # the suits of the kept cards are no less random: a suit is as good as another
    suits = np.bincount(field(observations, "kept")[:, 0] % 4, minlength=4)
    if whole[0] != whole[1]:
        assert stats.chisquare(suits).pvalue > 1e-3
    # the starter: of the cards not seen each is as likely
    if starter < 0:
        starters = np.bincount(field(observations, "starter")[:, 0], minlength=52)
        chance = np.zeros(52)
        own = field(observations, "cards")
        free = np.ones((samples, 52), bool)
        np.put_along_axis(free, own.astype(int), False, axis=1)
        laid = field(observations, "laid")[:, : len(path)].astype(int)
        np.put_along_axis(free, laid, False, axis=1)
        chance = (free / free.sum(axis=1, keepdims=True)).sum(axis=0)
        assert stats.chisquare(starters, chance).pvalue > 1e-3
    # and the cards that the opponent has shown, by suit
    for at, (who, _) in enumerate(path):
        if who != seat:
            assert np.bincount(field(observations, "laid")[:, at] % 4, minlength=4).min() > 0.15 * samples


def test_posterior_of_hands_never_kept() -> None:
    """Hands that an agent never keeps come from any six cards; others only from those that it keeps them from."""
    hands, number, weight = suit_classes()
    throws = np.zeros((len(hands), 15), np.float32)
    throws[:, 0] = 1.0  # always the two lowest
    source = dealt(throws)
    kept = six_hands().kept[number]
    assert source.first[0] == 0
    assert source.first[-1] == len(source.suit_class) == len(source.action) == len(source.cumulative)
    for ranks in [(9, 10, 11, 12), (0, 0, 0, 0), (0, 1, 1, 1), (0, 1, 2, 3)]:
        hand = hand_numbers()[4][ranks]
        part = slice(source.first[hand], source.first[hand + 1])
        classes, actions = source.suit_class[part], source.action[part]
        assert (kept[classes, actions] == hand).all()
        ever = bool((kept[:, 0] == hand).any())
        assert ever == (ranks != (0, 0, 0, 0))
        expected = weight * (kept[:, 0] == hand) if ever else weight * (kept == hand).sum(axis=1)
        assert source.cumulative[part][-1] == pytest.approx(expected.sum(), rel=1e-9)
        assert (np.diff(source.cumulative[part]) > 0).all()


def some_kept(seed: int, number: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    rng = np.random.default_rng(seed)
    both = np.zeros((2, 1820), np.bool_)
    for seat in (0, 1):
        both[seat, rng.choice(1820, number, replace=False)] = True
    return both[0], both[1]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [17, GREEDY])
def test_an_agent_that_plays_by_rank(tree: Tree, random_throws: NDArray[np.float32], kind: int) -> None:
    """Asked through observations it does what its policy says, so that its values and exploitability are the same."""
    kept = some_kept(kind + 5, 25)
    answers: list[int] = []
    found = agent_policy(
        RankAgent(kind), tree, throws=(random_throws, random_throws), kept=kept, seed=4, progress=answers.append
    )
    policy, end_policy, _ = write_policy(tree, kind, kind)
    counts = option_counts(tree)
    starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)[:-1]])
    asked = np.repeat(np.maximum.reduceat(found.policy, starts) == 1.0, counts)
    assert (found.policy[asked] == policy[asked]).all()
    assert (found.policy[~asked] == uniform_policy(tree)[0][~asked]).all()
    asked_ends = found.end_policy != 0.5
    assert (found.end_policy[asked_ends] == end_policy[asked_ends]).all()
    infosets_asked = asked.sum()
    assert 20_000 < infosets_asked < 0.1 * len(asked)
    assert answers == sorted(answers)
    assert answers[-1] == (found.policy == 1.0).sum() + asked_ends.sum()
    weights = dealt_weights() * np.outer(*kept)
    walker = Walker(tree, weights / weights.sum())
    expected = walker.walk(0, VALUE, policy, end_policy)  # what both seats do counts
    assert (walker.walk(0, VALUE, found.policy, found.end_policy) == expected).all()


@pytest.mark.slow
def test_an_agent_that_plays_by_rank_everywhere(tree: Tree, random_throws: NDArray[np.float32]) -> None:
    """All 21.5 M infosets, and 2.4 M at solo ends."""
    found = agent_policy(RankAgent(17), tree, throws=(random_throws, random_throws), seed=4)
    policy, end_policy, _ = write_policy(tree, 17, 17)
    assert (found.policy == policy).all()
    assert (found.end_policy == end_policy).all()
    # so its exploitability, asked only where its choices lead, is that of the policy written down
    every = np.ones(1820, np.bool_)
    reached = agent_policy(RankAgent(17), tree, throws=(random_throws, random_throws), kept=(every, every), seed=4)
    walker = Walker(tree, dealt_weights())
    assert exploitability(walker, reached.policy, reached.end_policy) == exploitability(walker, policy, end_policy)


def test_the_random_agent(tree: Tree, random_throws: NDArray[np.float32]) -> None:
    """Each card is as likely: a rank of which two are held twice as likely."""
    hand = (3, 3, 5, 12)
    kept = np.zeros(1820, np.bool_)
    kept[hand_numbers()[4][hand]] = True
    found = agent_policy(
        make_agent("random"), tree, throws=(random_throws, random_throws), kept=(kept, kept), samples=2
    )
    entry = entry_of(tree, 0, hand)
    assert found.policy[entry : entry + 3] == pytest.approx([0.5, 0.25, 0.25], abs=1e-6)
    others = np.ones(int(tree.slots[1]), np.bool_)
    others[entry : entry + 3] = False
    assert (found.policy[: tree.slots[1]][others] == uniform_policy(tree)[0][: tree.slots[1]][others]).all()
    assert abs(12 * found.policy - np.rint(12 * found.policy)).max() < 1e-5


def test_batches() -> None:
    """All items with rows are in one batch each, in order, and none has more rows than allowed unless an item has."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        rows = rng.integers(0, rng.integers(1, 40), rng.integers(0, 60)) * (rng.random(1) < 0.9)
        up_to = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
        most = int(rng.integers(1, 60))
        batches = infosets._batches(up_to, most)
        covered = [item for begin, end in batches for item in range(begin, end)]
        assert covered == sorted(set(covered))
        assert set(np.flatnonzero(rows)) <= set(covered)
        for begin, end in batches:
            size = up_to[end] - up_to[begin]
            assert size > 0
            assert size <= most or end == begin + 1


@pytest.mark.slow
def test_posterior_against_deals(tree: Tree, lopsided_throws: NDArray[np.float32]) -> None:
    """What the dealer has thrown when pone has led a card, in 3 M deals whose pone leads any of its cards."""
    agent, rng = Lopsided(), np.random.default_rng(8)
    number = suit_classes()[1]
    kept = six_hands().kept[number]
    chances = np.bincount(kept.ravel(), (suit_classes()[2][:, None] * lopsided_throws).ravel(), 1820)
    whole = HANDS[4][int(np.argmax(chances))]
    shown = whole[-1] - 1
    met: Counter[tuple[int, int]] = Counter()
    others = np.delete(np.arange(52), 4 * shown)  # all but the card led
    for _ in range(30):
        own = np.sort(others[rng.random((100_000, 51)).argpartition(5, axis=1)[:, :6]], axis=1)
        observations = np.zeros((len(own), OBSERVATION_SIZE), np.uint8)
        field(observations, "cards")[:] = own
        masks = np.zeros((len(own), 19), np.int8)
        masks[:, :15] = 1
        policy = agent.policy(observations, masks)[:, :15].cumsum(axis=1)
        action = (policy < rng.random((len(own), 1))).sum(axis=1)
        ranks = np.take_along_axis(own, KEPT_PLACES[action].astype(np.int64), axis=1) // 4
        thrown = np.take_along_axis(own, PAIRS[action].astype(np.int64), axis=1) // 4
        met.update(map(tuple, thrown[(ranks == np.array(whole)).all(axis=1)].tolist()))
    assert sum(met.values()) > 2000

    node = node_of(tree, ((0, shown),))
    entry = entry_of(tree, node, whole)
    wanted = np.zeros(tree.policy_size, np.bool_)
    wanted[entry] = True
    counts = np.zeros(tree.nodes, np.int64)
    counts[node] = 1
    recorder = Recorder()
    table = completion_table(lopsided_throws, lopsided_throws)
    policy = np.zeros(tree.policy_size, np.float32)
    _Asking(recorder, tree, table, 40_000, 3, None).ask(wanted, counts, policy, is_end=False)
    found = Counter(map(tuple, (field(recorder.rows()[0], "thrown") // 4).tolist()))
    common = [cell for cell in met if met[cell] + found[cell] >= 40]
    rest = [sum(counter.values()) - sum(counter[cell] for cell in common) for counter in (met, found)]
    contingency = np.array(
        [[met[cell] for cell in common] + rest[:1], [found[cell] for cell in common] + rest[1:]], np.int64
    )
    contingency = contingency[:, contingency.sum(axis=0) > 0]
    assert contingency.shape[1] > 20
    assert stats.chi2_contingency(contingency).pvalue > 1e-3
