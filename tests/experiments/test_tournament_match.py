"""Matches: duplicate deals, independence of batches, records that agree with replayed games, known figures."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from agents import Agent, AgentError, decision_keys, make_agent
from cribbage_env import CribbageVectorEnv, Game, Rules
from cribbage_env.engine import DECISIONS, PARTS
from experiments.tournament.match import Games, game_seeds, play_blocks, play_match
from experiments.tournament.summary import DEALER_PARTS, PONE_PARTS, MatchSummary


def all_games(a: Agent, b: Agent, pairs: int, seed: int, **options: object) -> Games:
    return np.concatenate(list(play_blocks(a, b, pairs, seed, **options)))


class FirstLegal(Agent):
    """Always the first legal action."""

    def __init__(self) -> None:
        super().__init__("first")

    def policy(self, observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.eye(19)[masks.argmax(axis=1)]


class Illegal(Agent):
    """Plays a card in the discard when the key says so, about once in 16 decisions."""

    def __init__(self) -> None:
        super().__init__("illegal")

    def policy(self, observations: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return masks / masks.sum(axis=1, keepdims=True)

    def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
        assert keys is not None
        return np.where(keys % np.uint64(16) == 0, masks.argmin(axis=1), super().act(observations, masks, keys))


def replay(a: Agent, b: Agent, record: np.void, number: int, seed: int, rules: Rules) -> Game:
    """Play a recorded game again through Game, one decision at a time."""
    seats = (a, b) if record["a_seat"] == 0 else (b, a)
    game = Game(rules, seed=int(record["seed"]), dealer=None)
    decision = 0
    while game.player is not None:
        seen = game.observation()
        keys = decision_keys(seed, np.array([number]), np.array([decision]))
        action = seats[game.player].act(seen["observation"][None], seen["action_mask"][None], keys)
        game.step(int(action[0]))
        decision += 1
    assert decision == record["decisions"]
    return game


def whole_deals(game: Game) -> tuple[np.ndarray, np.ndarray]:
    """Points by part, and deals with that part, (2, 6) each by seat, in the deals that begin 50 below the target."""
    points, counted = np.zeros((2, len(PARTS)), int), np.zeros((2, len(PARTS)), int)
    first_dealer = game.dealer if game.deal % 2 == 0 else 1 - game.dealer
    scores = (0, 0)
    for deal in range(game.deal + 1):
        dealer = first_dealer if deal % 2 == 0 else 1 - first_dealer
        counts = max(scores) <= game.rules.target - 50
        for event in (one for one in game.events if one.deal == deal):
            scores = event.raw_scores
            role = "dealer" if event.player == dealer else "pone"
            kind = "play" if event.kind in ("card", "go", "last") else event.kind
            part = PARTS.index(kind if kind in ("heels", "crib") else f"{kind}_{role}")
            points[event.player, part] += event.points if counts else 0
        for part, name in enumerate(PARTS):
            counted[1 - dealer if name.endswith("pone") else dealer, part] += counts
    return points, counted


@pytest.mark.parametrize(("spec_a", "spec_b", "target"), [("greedy", "random", 121), ("random", "greedy", 61)])
def test_records_agree_with_games_replayed_one_by_one(spec_a: str, spec_b: str, target: int) -> None:
    a, b, rules, seed = make_agent(spec_a), make_agent(spec_b), Rules(target), 9
    games = all_games(a, b, 30, seed, rules=rules, batch=16)
    endings = set()
    for number, record in enumerate(games):
        game = replay(a, b, record, number, seed, rules)
        a_seat = int(record["a_seat"])
        by_agent = [a_seat, 1 - a_seat]
        assert record["pair"] == number // 2
        assert a_seat == number % 2
        assert list(record["scores"]) == [game.scores[seat] for seat in by_agent]
        assert by_agent[record["winner"]] == game.winner
        assert record["skunk"] == game.skunk
        assert record["deals"] == game.deal + 1
        assert record["first_dealer"] == Game(seed=int(record["seed"]), dealer=None).dealer
        assert record["forfeit"] == -1
        points, counted = whole_deals(game)
        assert record["points"].tolist() == points[by_agent].tolist()
        assert record["counted"].tolist() == counted[by_agent].tolist()
        endings.add((game.events[-1].kind, game.winner == game.dealer))
    # ends in every part of a deal were seen
    assert {("hand", True), ("hand", False), ("crib", True)} <= endings
    assert any(kind in ("card", "go", "last") for kind, _ in endings)


def test_both_games_of_a_pair_have_the_same_decks_and_first_dealer() -> None:
    games = all_games(make_agent("random"), make_agent("greedy"), 50, 3)
    first, second = games[0::2], games[1::2]
    assert (first["seed"] == second["seed"]).all()
    assert (first["first_dealer"] == second["first_dealer"]).all()
    assert (first["a_seat"] == 0).all()
    assert (second["a_seat"] == 1).all()
    assert len(set(first["seed"].tolist())) == 50
    assert 10 < first["first_dealer"].sum() < 40  # the seed draws it
    for seed in first["seed"][
        :5
    ]:  # the whole deal, whatever was played before it: deal 1 after two ways to play deal 0
        dealt = []
        for choice in (0, -1):
            game = Game(seed=int(seed), dealer=None)
            while game.deal == 0:
                game.step(game.legal_actions()[choice])
            dealt.append((game.dealer, game.cards(0), game.cards(1)))
        assert dealt[0] == dealt[1]


def test_an_agent_against_itself_splits_every_pair() -> None:
    """With the same agent on both sides and no chance in its play, swapping seats swaps the result."""
    summary = play_match(FirstLegal(), FirstLegal(), 40, 1)
    assert summary.pair_outcomes == (0, 40, 0)
    assert summary.win_rate.value == 0.5
    assert 0.4 < summary.win_rate.low < 0.5 < summary.win_rate.high < 0.6
    assert summary.win_rate_error == 0


def test_results_do_not_depend_on_batch_blocks_or_length() -> None:
    a, b = make_agent("greedy"), make_agent("random")
    games = all_games(a, b, 100, 5)
    assert games.tobytes() == all_games(a, b, 100, 5, batch=7, block_pairs=3).tobytes()
    assert games.tobytes() == all_games(a, b, 100, 5, batch=1000, block_pairs=1).tobytes()
    assert games[:80].tobytes() == all_games(a, b, 40, 5).tobytes()
    assert games[80:].tobytes() == all_games(a, b, 60, 5, first_pair=40, batch=10).tobytes()
    assert games.tobytes() != all_games(a, b, 100, 6).tobytes()


def test_an_agent_with_a_stream_of_its_own_starts_every_match_alike() -> None:
    class Streaming(FirstLegal):
        def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
            return make_agent("random").act(observations, masks, self._keys(len(observations)))

    agent = Streaming()
    assert (
        all_games(agent, make_agent("greedy"), 10, 1).tobytes()
        == all_games(agent, make_agent("greedy"), 10, 1).tobytes()
    )


def test_segments_leave_no_seam(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = make_agent("greedy"), make_agent("random")
    games = all_games(a, b, 50, 5)
    monkeypatch.setattr("experiments.tournament.match._SEGMENT_PAIRS", 8)
    assert games.tobytes() == all_games(a, b, 50, 5, batch=6).tobytes()


def test_one_object_on_both_sides_plays_as_two_do() -> None:
    agent = make_agent("greedy")
    assert all_games(agent, agent, 20, 2).tobytes() == all_games(agent, make_agent("greedy"), 20, 2).tobytes()


def test_blocks_are_whole_pairs_in_order() -> None:
    blocks = list(play_blocks(make_agent("random"), make_agent("random"), 100, 1, batch=32, block_pairs=10))
    assert len(blocks) > 4
    assert all(len(block) % 2 == 0 and len(block) >= 20 for block in blocks[:-1])
    assert np.concatenate(blocks)["pair"].tolist() == [pair for pair in range(100) for _ in range(2)]


def test_a_stopped_match_hands_out_a_prefix_without_gaps() -> None:
    a, b = make_agent("random"), make_agent("random")
    asked = iter(range(10**9))
    blocks = list(play_blocks(a, b, 1000, 1, batch=64, block_pairs=10**6, stop=lambda: next(asked) > 400))
    games = np.concatenate(blocks)
    assert 0 < len(games) < 2000
    assert games.tobytes() == all_games(a, b, 1000, 1)[: len(games)].tobytes()
    assert list(play_blocks(a, b, 10, 1, stop=lambda: True)) == []


def test_agents_are_called_once_a_step_with_all_their_rows() -> None:
    calls: list[int] = []

    class Counting(FirstLegal):
        def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
            calls.append(len(observations))
            assert masks.any(axis=1).all()
            return super().act(observations, masks, keys)

    games = all_games(Counting(), make_agent("random"), 200, 1, batch=400)
    steps = int(games["decisions"].max())
    assert len(calls) <= steps
    assert sum(calls) > 0.4 * games["decisions"].sum()


def test_an_illegal_action_loses_the_game() -> None:
    games = all_games(Illegal(), make_agent("greedy"), 100, 1)
    lost = games["forfeit"] == 0
    assert lost.sum() > 150
    assert (games["forfeit"] != 1).all()
    assert (games["winner"][lost] == 1).all()
    summary = MatchSummary(("illegal", "greedy"))
    summary.add(games)
    assert (summary.forfeits(0), summary.forfeits(1)) == (lost.sum(), 0)
    assert (games["counted"] >= 0).all()
    # the deal that was broken off doesn't count
    assert (games["counted"][lost][:, :, PARTS.index("hand_pone")].sum(axis=1) < games["deals"][lost]).all()


@pytest.mark.parametrize("returned", [np.zeros(3), np.zeros((2, 1), int), "x", None])
def test_an_agent_that_returns_something_else_is_named(returned: object) -> None:
    class Wrong(FirstLegal):
        def act(self, observations: np.ndarray, masks: np.ndarray, keys: np.ndarray | None = None) -> np.ndarray:
            return returned  # type: ignore[return-value]

    with pytest.raises(AgentError, match=r"'first': act must return \d+ integers"):
        all_games(Wrong(), make_agent("random"), 5, 1)


def test_arguments_are_checked() -> None:
    agent = make_agent("random")
    for options in ({"pairs": 0}, {"batch": 0}, {"block_pairs": 0}, {"first_pair": -1}, {"seed": -1}):
        with pytest.raises(ValueError):
            next(play_blocks(agent, agent, **{"pairs": 1, "seed": 0, **options}))


def test_game_seeds_are_a_function_of_seed_and_pair() -> None:
    seeds = game_seeds(7, np.arange(1000))
    assert (seeds >= 0).all()
    assert len(np.unique(seeds)) == 1000
    assert (game_seeds(7, np.array([999, 3])) == seeds[[999, 3]]).all()
    assert not np.isin(game_seeds(8, np.arange(1000)), seeds).any()


def test_memory_does_not_grow_with_the_games(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a finished segment is kept: ten times the games, the same peak."""
    monkeypatch.setattr("experiments.tournament.match._SEGMENT_PAIRS", 256)
    a, b = make_agent("random"), make_agent("random")
    play_match(a, b, 256, 1, batch=256, rules=Rules(21))
    peaks = []
    for pairs in (512, 5120):
        tracemalloc.start()
        play_match(a, b, pairs, 1, batch=256, rules=Rules(21))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def whole_deal_points(spec: str, deals: int) -> tuple[np.ndarray, np.ndarray]:
    """Points of the dealer and of pone in single whole deals, (deals,) each: episodes of one deal from 0-0."""
    agent = make_agent(spec)
    env = CribbageVectorEnv(1024, episode="deal", copy=False)
    observations, _ = env.reset(options={"game_seeds": np.arange(deals)})
    points = np.zeros((deals, len(PARTS)))
    while env.active.any():
        keys = decision_keys(5, env.numbers, env.rows[:, DECISIONS])
        rows = np.flatnonzero(env.active)
        actions = np.zeros(env.num_envs, np.int64)
        actions[rows] = agent.act(observations["observation"][rows], observations["action_mask"][rows], keys[rows])
        observations, _, _, _, _ = env.step(actions)
        _, results = env.finished()
        points[results["game"]] = results["parts"].sum(axis=1)
    return points[:, DEALER_PARTS].sum(axis=1), points[:, PONE_PARTS].sum(axis=1)


def agrees(estimate: tuple[float, float, float], published: float, half_digit: float = 0.0) -> bool:
    """Whether a figure, published to a digit, lies within twice a 95 % interval (4 standard errors)."""
    value, low, high = estimate
    return low - (value - low) - half_digit <= published <= high + (high - value) + half_digit


@pytest.mark.parametrize(
    ("spec", "deals", "dealer", "pone", "first_dealer"),
    [
        ("random", 12.6, 12.3, 6.4, None),
        ("greedy", None, None, None, 0.5575),  # equal good players: 55.5-56 %
    ],
)
def test_published_figures(
    spec: str, deals: float | None, dealer: float | None, pone: float | None, first_dealer: float | None
) -> None:
    summary = play_match(make_agent(spec), make_agent(spec), 5000, 1)
    for agent in (0, 1):
        if dealer is not None and pone is not None:
            assert agrees(summary.dealer_points(agent), dealer, 0.05)
            assert agrees(summary.pone_points(agent), pone, 0.05)
        # and the mean over whole deals played for themselves, which no game's end cuts off
        for estimate, single in zip(
            (summary.dealer_points(agent), summary.pone_points(agent)), whole_deal_points(spec, 20_000), strict=True
        ):
            error = np.hypot((estimate.high - estimate.value) / 1.96, single.std() / len(single) ** 0.5)
            assert abs(estimate.value - single.mean()) < 4 * error
    if deals is not None:
        assert agrees(summary.deals_per_game, deals, 0.05)
    if first_dealer is not None:
        assert agrees(summary.first_dealer_rate, first_dealer, 0.0025)
    assert agrees(summary.win_rate, 0.5)


def test_greedy_beats_random_as_often_as_it_should() -> None:
    """98.3 % in a million games (483,195 pairs won, 16,801 split, 4 lost, seed 1)."""
    summary = play_match(make_agent("greedy"), make_agent("random"), 4000, 2)
    assert agrees(summary.win_rate, 0.98319)
    assert agrees(summary.deals_per_game, 9.44)


def test_summary_adds_up() -> None:
    a, b = make_agent("greedy"), make_agent("random")
    games = all_games(a, b, 300, 4)
    summary = MatchSummary(("a", "b"))
    for start in range(0, len(games), 40):
        summary.add(games[start : start + 40])
    won = games["winner"].reshape(-1, 2) == 0
    assert summary.games == 600
    assert summary.pair_outcomes == tuple(int((won.sum(axis=1) == n).sum()) for n in (2, 1, 0))
    assert summary.win_rate.value == pytest.approx(won.mean())
    assert summary.win_rate_error == pytest.approx(won.mean(axis=1).std(ddof=1) / 300**0.5)
    assert summary.wins(0) + summary.wins(1) == 600
    assert summary.skunks(0) == ((games["winner"] == 0) & (games["skunk"] >= 1)).sum()
    assert summary.double_skunks(0) == ((games["winner"] == 0) & (games["skunk"] == 2)).sum()
    winner_seat = games["winner"] ^ games["a_seat"]
    assert summary.first_dealer_rate.value == pytest.approx((winner_seat == games["first_dealer"]).mean())
    assert summary.deals_per_game.value == pytest.approx(games["deals"].mean())
    assert summary.decisions == games["decisions"].sum()
    for agent in (0, 1):
        for part in range(len(PARTS)):
            expected = games["points"][:, agent, part].sum() / games["counted"][:, agent, part].sum()
            assert summary.points(agent, part).value == pytest.approx(expected)
        dealer_sum = sum(summary.points(agent, part).value for part in DEALER_PARTS)
        assert summary.dealer_points(agent).value == pytest.approx(dealer_sum)
