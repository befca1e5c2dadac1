"""The agent ``equilibrium``: lays by a solved strategy of the play, and discards as the strategy takes for granted.

A strategy answers the hands that its prior keeps (see :mod:`agents.equilibrium.prior`), so by default the agent throws
what the prior's agent throws. It lays with the probabilities of a stored average strategy, by ranks: which of two cards
of a rank makes no difference. It plays the points of the play; scores, suits, its own discards and the starter don't
change what it lays.

An observation has the whole course of the play, so the node of the tree is found by walking it down card by card.
"""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from agents.base import Agent, AgentError, Masks, Observations
from agents.equilibrium.hands import HAND_COUNTS, MAX_CARDS, HandTables, hand_tables, possible
from agents.equilibrium.policies import STEPS, infoset_counts
from agents.equilibrium.prior import UNIFORM
from agents.equilibrium.strategy import FILE, Facts, load_strategy
from agents.equilibrium.tree import DEALER_SEAT, PASS, PONE, Tree
from agents.equilibrium.tree_cache import load_tree
from agents.registry import make_agent
from cribbage_env.cards import RANKS
from cribbage_env.engine import FIRST_PLAY, NUM_ACTIONS
from cribbage_env.jit import inline_jit, jit
from cribbage_env.observation import (
    AT_COUNT,
    AT_IS_DEALER,
    AT_KEPT,
    AT_LAID,
    AT_LAID_BY,
    AT_LAID_COUNT,
    AT_LEFT,
    AT_NUM_LAID,
    OWN,
)
from cribbage_env.scoring import card_value

SHIPPED = "play.strategy"
"""The strategy that comes with the package, in ``agents/data``: the file ``strategy-small.bin`` that ``cribbage solve
configs/solve/play.yaml`` writes."""

_NOWHERE = np.iinfo(np.int64).min


class Loaded(NamedTuple):
    """A strategy with its tree, ready to be looked up."""

    facts: Facts
    tree: Tree
    first: NDArray[np.int64]
    """(N,) where the bytes of a node's decisions begin."""
    steps: NDArray[np.uint8]


@inline_jit
def find_node(tree: Tree, observation: NDArray[np.uint8]) -> int:
    """The node that an observation of the play is at, or -1 - the number of an end; a negative number below those of
    all ends if the cards laid are no play that can be.

    A pass is nowhere in an observation as such: it was made where the tree has another player to act than the one who
    acted, or another count.
    """
    own_seat = DEALER_SEAT if observation[AT_IS_DEALER] else PONE
    laid = int(observation[AT_NUM_LAID])
    node = 0
    for k in range(laid + 1):
        if k < laid:
            card = int(observation[AT_LAID + k])
            seat = own_seat if observation[AT_LAID_BY + k] == OWN else 1 - own_seat
            count = int(observation[AT_LAID_COUNT + k]) - int(card_value(card))
        else:
            card = -1
            seat = own_seat
            count = int(observation[AT_COUNT])
        while int(tree.mover[node]) != seat or int(tree.running_count[node]) != count:
            last = tree.edges[node + 1] - 1  # a pass is the last edge
            if last < tree.edges[node] or tree.edge[last] != PASS:
                return _NOWHERE
            node = int(tree.child[last])
        if k == laid:
            break
        edge = tree.edges[node]
        end = tree.edges[node + 1]
        while edge < end and tree.edge[edge] != card >> 2:
            edge += 1
        if edge == end:
            return _NOWHERE
        node = int(tree.child[edge])
        if node < 0:
            break
    return node


@inline_jit
def find_bytes(
    tree: Tree, tables: HandTables, num_hands: NDArray[np.int64], first: NDArray[np.int64], node: int, held: int
) -> int:
    """Where the bytes of a decision begin: of the mover of a node, with a hand that has a choice; -1: no such hand."""
    seat = int(tree.mover[node])
    holds = int(tree.held[node, seat])
    low = int(tree.lowest[node, seat])
    at = first[node]
    for hand in range(held):
        options = int(tables.legal[holds, hand, tree.room[node]])
        if options > 1 and possible(tree.seen[node], tables.packed[holds, hand], int(tables.lowest[holds, hand]), low):
            at += options - 1
    if held >= num_hands[holds] or not possible(
        tree.seen[node], tables.packed[holds, held], int(tables.lowest[holds, held]), low
    ):
        return -1
    return at


@inline_jit
def _write_decision(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    first: NDArray[np.int64],
    steps: NDArray[np.uint8],
    observation: NDArray[np.uint8],
    by_rank: NDArray[np.float64],
) -> None:
    """Write the probabilities of laying each rank, (13,), where there are two ranks to choose from."""
    for rank in range(13):
        by_rank[rank] = 0.0
    hand = holds = 0
    for slot in range(4):
        if observation[AT_LEFT + slot]:
            hand = int(tables.add[holds, hand, observation[AT_KEPT + slot] >> 2])
            holds += 1
    node = find_node(tree, observation)
    if node >= 0:
        seat = int(tree.mover[node])
        if int(tree.held[node, seat]) != holds:
            return
        at = find_bytes(tree, tables, num_hands, first, node, hand)
        if at < 0:
            return
        options = int(tables.legal[holds, hand, tree.room[node]])
        left = STEPS
        for i in range(options):
            step = int(steps[at + i]) if i < options - 1 else left
            by_rank[tables.distinct[holds, hand, i]] = step / STEPS
            left -= step
    elif node > _NOWHERE and holds == 2:  # alone with two cards: the best order
        end = -1 - node
        table = tree.solo_tables[tree.end_table[end]]
        lower_first = int(table[hand, 0]) - int(table[hand, 1])
        if observation[AT_IS_DEALER]:
            lower_first = -lower_first
        by_rank[tables.ranks[2, hand, 0 if lower_first >= 0 else 1]] = 1.0


@jit
def _policy(
    tree: Tree,
    tables: HandTables,
    num_hands: NDArray[np.int64],
    first: NDArray[np.int64],
    steps: NDArray[np.uint8],
    observations: Observations,
    masks: Masks,
    policy: NDArray[np.float64],
) -> None:
    """Write the policy of the rows that lay a card, (B, 19); the other rows stay as they are."""
    by_rank = np.zeros(13)
    for b in range(len(observations)):
        plays = masks[b, FIRST_PLAY:]
        observation = observations[b]
        one = -1  # the first playable card
        choice = False
        for slot in range(4):
            if plays[slot]:
                if one < 0:
                    one = slot
                elif observation[AT_KEPT + slot] >> 2 != observation[AT_KEPT + one] >> 2:
                    choice = True
        if one < 0:
            continue
        if not choice:
            policy[b, FIRST_PLAY + one] = 1.0
            continue
        _write_decision(tree, tables, num_hands, first, steps, observation, by_rank)
        total = 0.0
        before = -1
        for slot in range(4):
            rank = int(observation[AT_KEPT + slot]) >> 2
            if plays[slot] and rank != before:  # of equal ranks the first one
                policy[b, FIRST_PLAY + slot] = by_rank[rank]
                total += by_rank[rank]
                before = rank
        if total > 0.0:
            for slot in range(4):
                policy[b, FIRST_PLAY + slot] /= total
        else:  # cards laid that are no play that can be: some legal card
            policy[b, FIRST_PLAY + one] = 1.0


@functools.cache
def _tree() -> Tree:
    return load_tree()


def _check_game(path: Path, facts: Facts) -> None:
    cards = facts.tree.cards
    if cards != MAX_CARDS:
        raise AgentError(f"the strategy {str(path)!r} is for hands of {cards} cards, a game has {MAX_CARDS}")
    if facts.starter is not None:
        raise AgentError(
            f"the strategy {str(path)!r} is for the starter {RANKS[facts.starter]} only, this agent needs one for any"
        )


@functools.lru_cache(maxsize=4)
def _load(path: Path, modified: int, size: int) -> Loaded:
    """Load a file; its time of change and size are only part of the key, so that another file is loaded anew."""
    strategy = load_strategy(path)
    _check_game(path, strategy.facts)
    tree = _tree()
    steps = strategy.steps(tree)
    first = tree.slots[:-1].copy()
    first[1:] -= np.cumsum(infoset_counts(tree))[:-1]
    return Loaded(strategy.facts, tree, first, steps)


def loaded(path: str | None) -> Loaded:
    """The strategy of a file or of a solve's folder, or that of the package; kept for later calls.

    Raises:
        AgentError: see :func:`agents.equilibrium.strategy.load_strategy`; or it is for other rules than the game's.
    """
    if path is None:
        with resources.as_file(resources.files("agents").joinpath(f"data/{SHIPPED}")) as shipped:
            return _load(shipped, 0, 0)
    file = Path(path)
    if file.is_dir():
        file /= FILE
    try:
        stat = file.stat()
    except OSError:  # reading it says what is wrong
        return _load(file, 0, 0)
    return _load(file.resolve(), stat.st_mtime_ns, stat.st_size)


class EquilibriumAgent(Agent):
    """Lays by a solved strategy of the play; see the module.

    Args:
        path: of the strategy, or the folder of a ``cribbage solve``; None: that of the package.
        discard: the spec of the agent that chooses the discards; None: the agent of the strategy's prior.
    """

    def __init__(self, path: str | None = None, discard: str | None = None) -> None:
        super().__init__("equilibrium")
        self._loaded = loaded(path)
        prior = self._loaded.facts.prior
        self._discards = make_agent(discard or ("expected" if prior == UNIFORM else prior))

    @property
    def facts(self) -> Facts:
        """What the strategy was made from, and its exploitability."""
        return self._loaded.facts

    def policy(self, observations: Observations, masks: Masks) -> NDArray[np.float64]:
        """The probabilities of all actions; see :meth:`Agent.policy`."""
        observations, masks = np.ascontiguousarray(observations), np.ascontiguousarray(masks)
        policy = np.zeros((len(observations), NUM_ACTIONS), np.float64)
        throws = np.flatnonzero(masks[:, 0])
        if len(throws):
            policy[throws] = self._discards.policy(observations[throws], masks[throws])
        _policy(
            self._loaded.tree, hand_tables(), HAND_COUNTS, self._loaded.first, self._loaded.steps, observations, masks,
            policy,
        )  # fmt: skip
        return policy
