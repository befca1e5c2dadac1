"""Rendering: what is shown and hidden, pegs in the right holes, in text and in pictures, in all environments."""

from __future__ import annotations

import io
import random
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray
from PIL import Image

from cribbage_env import CribbageEnv, CribbageVectorEnv, Game, Rules, card_text, render_image, render_text
from cribbage_env.engine import BETWEEN, PHASE, apply
from cribbage_env.events import new_log
from cribbage_env.render_image import _BOARD, _SEATS, HEIGHT, WIDTH, Track, _card, _peg, _track
from cribbage_env.render_text import card_sign, cards_signs
from cribbage_env.scoring import show_table
from cribbage_env.table import FACE_DOWN, Table

ROOT = Path(__file__).resolve().parent.parent.parent
SHAPE = (640, 1024, 3)

DECKS = ["AC AD 2C 2D 3C 3D  KC KD KH QC QD QH  4S", "5H 5C 5S JD 9C TC  7C 7D 8C 8D 2S AS  5D"]


def pick(mask: NDArray[Any], rng: random.Random) -> int:
    return rng.choice(np.flatnonzero(mask).tolist())


def some_game(seed: int, until: Any = lambda game: False, **options: Any) -> Game:
    """A random game up to a state, or its end."""
    rng = random.Random(seed)
    game = Game(seed=seed, **options)
    while game.phase != "over" and not until(game):
        game.step(rng.choice(game.legal_actions()))
    return game


# --- Text ----------------------------------------------------------------------------------------------------


def test_text_of_a_game() -> None:
    game = Game(decks=DECKS, scores=(58, 88))
    game.discard("3C 3D")
    game.discard("KD KH")
    for card in ("AC", "QC", "AD", "QD"):
        game.play(card)
    game.play("2C")
    game.play("2D")
    assert render_text(game, seat=1) == "\n".join(
        [
            "Deal 1 of a game to 121: play",
            "  1 0   ····· ····· ····· ····· ····· ····· ····· ····· ····· ····· ····· ··●··",
            "    1   ····· ····· ····· ····· ····· ····· ····· ····· ····· ····· ····· ·····",
            " 61 0  ╎····· ····· ····· ····· ····· ·····╎····· ····· ····· ····· ····· ····· ·",
            "    1  ╎····· ····· ····· ····· ····· ····○╎●···· ····· ····· ····· ····· ····· ·",
            "seat 0  dealer   58  ▒▒ ▒▒              to act",
            "seat 1  pone     91",
            "starter 4♠  crib 3♣ 3♦ ▒▒ ▒▒",
            "play A♣ Q♣ A♦ Q♦ 2♣ 2♦ │  count 0",
            "",
            "  seat 1  A♦ for 12",
            "  seat 0  Q♦ for 22",
            "  seat 1  2♣ for 24",
            "  seat 1  2♦ for 26: 2 (pair 2), 58-90",
            "  seat 1  last card at 26: 1, 58-91",
        ]
    )
    all_open = render_text(game, names=("me", "greedy:x")).splitlines()
    assert "me        dealer   58  Q♥ K♣              to act" in all_open
    assert "starter 4♠  crib 3♣ 3♦ K♦ K♥" in all_open
    assert "  greedy:x  2♦ for 26: 2 (pair 2), 58-90" in all_open


def test_text_at_the_end() -> None:
    game = Game(Rules(61), decks=DECKS[:1], scores=(5, 55), dealer=0)
    game.discard("3C 3D")
    game.discard("KD KH")
    while game.phase != "over":
        game.step(game.legal_actions()[0])
    text = render_text(game, seat=0)
    assert "Deal 1 of a game to 61: the game is over" in text
    assert "seat 1 wins 61-6, a skunk" in text
    assert "crib ▒▒ ▒▒ K♦ K♥" in text, "the crib was not counted"
    assert "  seat 1  hand A♣ A♦ 2♣ 2♦: 4 (pairs 4), 6-61" in text
    lost = Game(seed=1)
    lost.forfeit()
    assert f"seat {lost.winner} wins by an illegal action" in render_text(lost)


@pytest.mark.parametrize("target", [2, 5, 6, 20, 61, 65, 66, 121, 125, 126, 180, 200])
def test_the_text_board_has_all_holes(target: int) -> None:
    for score in {0, 1, target // 2, target - 1}:
        game = Game(Rules(target), seed=1, scores=(score, 0))
        board = render_text(game).splitlines()[1:]
        lanes = [[line for line in board if line[4:5] == str(seat)] for seat in (0, 1)]
        joined = ["".join(line[8:] for line in lane).replace(" ", "").replace("╎", "") for lane in lanes]
        assert [len(one) for one in joined] == [target, target]
        assert joined[0].find("●") == score - 1
        assert all(len(line) <= 100 for line in board)


def test_cards_with_suits() -> None:
    assert [card_sign(card) for card in (0, 1, 2, 3, 36, 51, FACE_DOWN)] == ["A♣", "A♦", "A♥", "A♠", "T♣", "K♠", "▒▒"]


# --- What is shown and what is hidden ------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_cards_of_the_table(seed: int) -> None:
    """All cards are open to a spectator; a seat sees its own, those laid, the starter once cut."""
    rng = random.Random(seed)
    game = Game(Rules(40), seed=seed)
    while game.phase != "over":
        row = game.state()
        everything = Table.of_state(row)
        for seat in (0, 1):
            table = Table.of_state(row, seat)
            other = 1 - seat
            assert table.hands[seat] == everything.hands[seat] == tuple(game.hand(seat))
            assert table.hands[other] == (FACE_DOWN,) * len(game.hand(other))
            crib = game.thrown(game.pone) + game.thrown(game.dealer)
            assert everything.crib == tuple(crib)
            own = game.thrown(seat)
            assert table.crib == tuple(card if card in own else FACE_DOWN for card in crib)
            assert [laid.card for laid in table.laid] == game.laid
            assert [laid.card for laid in table.laid if laid.present] == game.stack
            assert table.starter == (FACE_DOWN if game.starter is None else game.starter)
            assert (table.playable != ()) == (game.phase == "play" and game.player == seat)
            if table.playable:
                held = game.hand(seat)
                legal = [game.kept(seat)[action - 15] for action in game.legal_actions()]
                assert [card for card, may in zip(held, table.playable, strict=True) if may] == legal
        game.step(rng.choice(game.legal_actions()))


def test_hidden_cards_are_neither_in_the_text_nor_in_the_picture() -> None:
    """The opponent's hand, its discards and the uncut starter may be any: the seat is shown the same."""
    deck = "2C 4D 6H 8S TC QD  AC 3D 5H 7S 9C JD  KH"
    other = "2C 4D 6H 8S TC QD  AD 3H 5S 7C 9D JS  KC"
    games = [Game(seed=1, decks=[one]) for one in (deck, other)]
    for action in (None, 0, 7):  # before the discards, after pone's, after the dealer's
        if action is not None:
            for game in games:
                game.step(action)
        if games[0].starter is None:
            texts = [render_text(game, seat=1) for game in games]
            assert texts[0] == texts[1]
            assert (render_image(games[0], seat=1) == render_image(games[1], seat=1)).all()
        texts = [render_text(game) for game in games]
        assert texts[0] != texts[1]
        assert (render_image(games[0]) != render_image(games[1])).any()


def test_every_card_and_every_score_has_a_picture_of_its_own() -> None:
    assert len({_card(card).tobytes() for card in range(53)}) == 53
    pictures = {render_image(Game(seed=1, scores=(score, 3))).tobytes() for score in range(0, 121, 7)}
    assert len(pictures) == len(range(0, 121, 7))


def test_the_show() -> None:
    """The state between two deals: both hands and the crib are open to all, with what they scored."""
    game = Game(decks=DECKS[1:], dealer=1)
    game.discard("9C TC")
    game.discard("2S AS")
    while len(game.laid) < 7:
        game.step(game.legal_actions()[0])
    row = game.state()
    apply(show_table(), row, game.legal_actions()[0], new_log())
    assert row[PHASE] == BETWEEN
    texts = {render_text(row, seat).split("\n", 1)[1] for seat in (None, 0, 1)}
    assert len(texts) == 1
    text = texts.pop()
    assert "hand 5♣ 5♥ 5♠ J♦: 29 (fifteens 16, pairs 12, nobs 1)" in text
    assert cards_signs(sorted(game.thrown(0) + game.thrown(1))) in text
    assert len({render_image(row, seat, below=0).tobytes() for seat in (None, 0, 1)}) == 1


# --- Pegs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [*range(2, 12), 30, 31, 32, 33, 61, 62, 63, 91, 120, 121, 122, 150, 199, 200])
def test_the_holes_of_the_board(target: int) -> None:
    """Every hole lies on the board, none on another, and neighbours are near."""
    holes = [Track.of_target(target).hole(number, seat, target) for seat in (0, 1) for number in range(-1, target)]
    holes.append(Track.of_target(target).hole(target, 0, target))
    assert Track.of_target(target).hole(target, 1, target) == holes[-1]
    points = np.array(holes)
    left, top, right, bottom = _BOARD
    assert (points > (left + 8, top + 8)).all()
    assert (points < (right - 8, bottom - 8)).all()
    distance = np.linalg.norm(points[:, None] - points[None], axis=2) + 1000 * np.eye(len(points))
    assert distance.min() > 7
    per_seat = target + 1
    jumps = np.linalg.norm(np.diff(points[:per_seat], axis=0), axis=1)
    assert jumps.max() < 80


@pytest.mark.parametrize("rules", [Rules(), Rules(61), Rules(200), Rules(11)])
def test_pegs_stand_in_the_holes_of_the_scores(rules: Rules) -> None:
    """The color of a front peg at the hole of each score of a game, and nowhere else in that lane."""
    rng = random.Random(1)
    game = Game(rules, seed=4)
    target = rules.target
    track = _track(target)
    while game.phase != "over":
        game.step(rng.choice(game.legal_actions()))
        picture = render_image(game)
        for seat in (0, 1):
            found = []
            for number in range(-1, target + 1):
                x, y = (round(one) for one in track.hole(number, seat, target))
                near = picture[y, x].astype(int)
                if np.abs(near - np.array(_SEATS[seat])).max() < 60:
                    found.append(number)
            assert found == [game.scores[seat]]


def test_the_rear_peg_is_the_score_before() -> None:
    game = some_game(3)
    table = Table.of_state(game.state(), None, game.events)
    for seat in (0, 1):
        scoring = [event for event in game.events if event.player == seat and event.points]
        assert table.earlier[seat] == scoring[-1].raw_scores[seat] - scoring[-1].points
    assert Table.of_state(Game(seed=1).state()).earlier == (0, 0)
    assert Table.of_state(Game(seed=1, scores=(5, 0)).state()).earlier == (None, 0)
    assert _peg(0, True, 6.0).tobytes() != _peg(0, False, 6.0).tobytes()


# --- Pictures ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rules", [Rules(), Rules(2), Rules(200, skunk=None), Rules(61, 61, 61)])
def test_every_state_of_a_game_can_be_drawn(rules: Rules) -> None:
    rng = random.Random(2)
    game = Game(rules, seed=2)
    previous = b""
    for _ in range(40):
        for seat in (None, 0, 1):
            picture = render_image(game, seat, names=("a" * 80, "ex pected:äöü"))
            assert (picture.shape, picture.dtype) == (SHAPE, np.uint8)
        assert picture.tobytes() != previous
        previous = picture.tobytes()
        assert render_text(game, names=("a" * 80, "b"))
        if game.phase == "over":
            break
        game.step(rng.choice(game.legal_actions()))


def test_pictures_are_the_callers_own_and_always_the_same() -> None:
    game = some_game(5, lambda game: game.deal == 2 and game.phase == "play")
    first = render_image(game)
    kept = first.copy()
    first[:] = 0
    assert (render_image(game) == kept).all()
    assert kept.shape == (HEIGHT, WIDTH, 3) == SHAPE
    assert (render_image(game, below=1) != kept).any()
    assert (render_image(game.state(), None, game.events) == kept).all()


def test_no_glyph_is_missing() -> None:
    """DejaVu Sans has the suits and the ellipsis; a missing glyph would be drawn as the same box as any other."""
    from cribbage_env.render_image import _font

    box = _font(20).getmask("\U0010ffff").getbbox(), bytes(_font(20).getmask("\U0010ffff"))
    for sign in "♣♦♥♠…0A":
        assert (_font(20).getmask(sign).getbbox(), bytes(_font(20).getmask(sign))) != box


def test_a_game_in_a_notebook_is_a_picture() -> None:
    game = Game(seed=1)
    data = game._repr_png_()
    assert data.startswith(b"\x89PNG")
    assert (np.array(Image.open(io.BytesIO(data))) == render_image(game)).all()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((Game(seed=1), 2), ValueError, "seat must be 0, 1 or None"),
        ((Game(seed=1), True), ValueError, "seat must be 0, 1 or None"),
        ((np.zeros(5), None), TypeError, r"game must be a Game or an engine state of shape \(96,\)"),
        (("game", None), TypeError, "game must be a Game or an engine state"),
    ],
)
def test_what_can_not_be_drawn(arguments: tuple[Any, ...], error: type[Exception], message: str) -> None:
    for render in (render_text, render_image):
        with pytest.raises(error, match=message):
            render(*arguments)


def test_playing_does_not_wait_for_what_pictures_need() -> None:
    code = (
        "import cribbage_env, sys\n"
        "env = cribbage_env.CribbageEnv(render_mode='ansi')\n"
        "env.reset(seed=1); env.render()\n"
        "print({'matplotlib', 'PIL'} & set(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


# --- Environments --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ansi", "rgb_array"])
@pytest.mark.parametrize("name", ["Cribbage-v0", "CribbageSolo-v0"])
def test_gymnasium_checks_rendering(name: str, mode: str) -> None:
    env = gym.make(name, render_mode=mode)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)
    assert env.metadata["render_modes"] == ["ansi", "rgb_array"]
    assert env.metadata["render_fps"] > 0
    listed = gym.make(name, render_mode=f"{mode}_list")
    listed.reset(seed=1)
    listed.step(0)
    assert len(listed.render()) == 2


@pytest.mark.parametrize("name", ["Cribbage-v0", "CribbageSolo-v0"])
def test_modes_and_views_that_do_not_exist(name: str) -> None:
    for make in (gym.make(name).unwrapped.__class__, gym.make_vec(name, num_envs=2).unwrapped.__class__):
        with pytest.raises(ValueError, match="render_mode must be one of ansi, rgb_array or None, got 'hologram'"):
            make(render_mode="hologram")
        for view in ("seat_0", 2, True, None):
            with pytest.raises(ValueError, match="render_view must be 'player', 'all', 0 or 1"):
                make(render_mode="ansi", render_view=view)


@pytest.mark.parametrize("options", [{}, {"skip_forced": True}, {"episode": "deal"}, {"rules": Rules(61)}])
def test_an_environments_events_are_those_of_the_game(options: dict[str, Any]) -> None:
    """Step by step the text is that of a ``Game`` that takes the same actions, as the seat to act sees it."""
    rng = random.Random(7)
    env = CribbageEnv(render_mode="ansi", **options)
    for seed in range(4):
        observation, info = env.reset(seed=seed)
        game = Game(options.get("rules"), seed=seed, dealer=None)
        terminated = False
        while not terminated:
            assert env.render() == render_text(game, info["player"])
            actor = info["player"]
            action = pick(observation["action_mask"], rng)
            observation, _, terminated, _, info = env.step(action)
            deal = game.deal
            game.step(action)
            while options.get("skip_forced") and game.phase == "play" and len(game.legal_actions()) == 1:
                if game.deal != deal:
                    break
                game.step(game.legal_actions()[0])
        assert env._events == game.events
        if game.phase == "over":
            assert env.render() == render_text(game, actor)
        else:
            assert "show" in env.render().splitlines()[0]


def test_views_of_the_two_seats() -> None:
    game = Game(seed=5, dealer=None)
    for view, seat in (("player", game.player), ("all", None), (0, 0), (1, 1)):
        env = CribbageEnv(render_mode="ansi", render_view=view)
        env.reset(seed=5)
        assert env.render() == render_text(game, seat)
        env = CribbageEnv(render_mode="rgb_array", render_view=view)
        env.reset(seed=5)
        assert (env.render() == render_image(game, seat, below=1 if view == 1 else 0)).all()


def test_rendering_changes_nothing() -> None:
    rng = random.Random(3)
    envs = [CribbageEnv(render_mode=mode) for mode in (None, "ansi", "rgb_array")]
    seen = [env.reset(seed=3) for env in envs]
    for _ in range(60):
        assert all((one[0]["observation"] == seen[0][0]["observation"]).all() for one in seen)
        action = pick(seen[0][0]["action_mask"], rng)
        seen = [env.step(action) for env in envs]
        assert len({one[1] for one in seen}) == 1
        for env in envs:
            env.render()
    assert envs[0].render() is None


def test_nothing_to_show_before_reset() -> None:
    for env in (CribbageEnv(render_mode="ansi"), CribbageVectorEnv(2, render_mode="ansi")):
        with pytest.raises(gym.error.ResetNeeded, match="call reset before render"):
            env.render()


def test_the_vector_environment_shows_each_game() -> None:
    """The same texts as single games, but for the cards that ended the last deal, which a state does not hold."""
    rng = random.Random(4)
    env = gym.make_vec("Cribbage-v0", num_envs=3, render_mode="ansi", rules={"target": 61})
    observations, infos = env.reset(seed=8)
    games = [Game(Rules(61), seed=8 + i, dealer=None) for i in range(3)]
    shows = 0
    while True:
        for i, text in enumerate(env.render()):
            events = [event for event in games[i].events if event.deal == games[i].deal]
            last = [event for event in games[i].events if event.deal == games[i].deal - 1 and event.kind in SHOW]
            shows += bool(last)
            assert text == render_text(games[i], int(infos["player"][i]), last + events)
        actions = np.array([pick(mask, rng) for mask in observations["action_mask"]])
        observations, _, terminated, _, infos = env.step(actions)
        for game, action in zip(games, actions, strict=True):
            game.step(int(action))
        if terminated.any():
            break
    assert shows > 10
    ended = int(terminated.argmax())
    assert "seat 0  dealer    0" in env.render()[ended] or "seat 1  dealer    0" in env.render()[ended]
    pictures = gym.make_vec("Cribbage-v0", num_envs=3, render_mode="rgb_array")
    pictures.reset(seed=1)
    assert [picture.shape for picture in pictures.render()] == [SHAPE] * 3
    assert gym.make_vec("Cribbage-v0", num_envs=3).render() is None


SHOW = ("hand", "crib")


@pytest.mark.parametrize("skip_forced", [False, True])
def test_the_learners_view(skip_forced: bool) -> None:
    """CribbageSolo-v0 shows the table as the learner knows it, with all that the opponent did."""
    rng = random.Random(5)
    env = gym.make(
        "CribbageSolo-v0", opponent="greedy", render_mode="ansi", skip_forced=skip_forced, reward="points"
    ).unwrapped
    several = gym.make_vec(
        "CribbageSolo-v0", num_envs=1, opponent="greedy", render_mode="ansi", skip_forced=skip_forced, reward="points"
    )
    both = gym.make("CribbageSolo-v0", render_mode="ansi", render_view="all", skip_forced=skip_forced).unwrapped
    for seed in range(5):
        observation, info = env.reset(seed=seed)
        several.reset(seed=seed)
        both.reset(seed=seed)
        seat = info["seat"]
        names = ("learner", "greedy") if seat == 0 else ("greedy", "learner")
        terminated = False
        while not terminated:
            row = env._batch.rows[0]
            assert env.render() == render_text(row, seat, env._events, names)
            assert both.render() == render_text(row, None, env._events, names)
            # The vector environment does not keep rear pegs from deal to deal
            lines = env.render().replace("○", "·").splitlines()
            assert several.render()[0].replace("○", "·").splitlines()[:8] == lines[:8]
            action = pick(observation["action_mask"], rng)
            observation, _, terminated, _, info = env.step(action)
            several.step(np.array([action]))
            both.step(action)
        for one in (0, 1):
            points = sum(event.points for event in env._events if event.player == one)
            assert points == env._events[-1].raw_scores[one]
            assert info["scores"][one] == min(points, 121)
        assert env._events[-1].player == info["winner"]
        assert "wins" in env.render()
        cards = [event.cards[0] for event in env._events if event.kind == "card" and event.deal == 0]
        assert len(set(cards)) == 8
        assert all(card_text(card) for card in cards)
