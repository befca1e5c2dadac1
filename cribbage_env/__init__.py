"""Six-card cribbage for two: rules, engine and Gymnasium environments.

Importing the package registers ``Cribbage-v0`` and ``CribbageSolo-v0`` with Gymnasium, for ``gymnasium.make`` and
``gymnasium.make_vec``; ``gymnasium.make("cribbage_env:Cribbage-v0")`` imports it. ``cribbage_env.aec_env`` is the
PettingZoo environment and needs the extra ``pettingzoo``; it is imported when it is asked for.
"""

import importlib
from types import ModuleType

from cribbage_env.cards import card_text, cards_text, parse_card, parse_cards
from cribbage_env.env import CribbageEnv
from cribbage_env.events import Event
from cribbage_env.game import Game, IllegalActionError
from cribbage_env.masks import action_masks
from cribbage_env.observation import FIELDS, OBSERVATION_SIZE, OBSERVATION_VERSION, field
from cribbage_env.registration import register_envs
from cribbage_env.render import render_image, render_text
from cribbage_env.rules import Rules
from cribbage_env.scoring import HandScore, PlayScore, score_hand, score_play
from cribbage_env.vector_env import CribbageVectorEnv

__version__ = "0.1.0"

__all__ = [
    "FIELDS",
    "OBSERVATION_SIZE",
    "OBSERVATION_VERSION",
    "CribbageEnv",
    "CribbageVectorEnv",
    "Event",
    "Game",
    "HandScore",
    "IllegalActionError",
    "PlayScore",
    "Rules",
    "action_masks",
    "card_text",
    "cards_text",
    "field",
    "parse_card",
    "parse_cards",
    "register_envs",
    "render_image",
    "render_text",
    "score_hand",
    "score_play",
]


def __getattr__(name: str) -> ModuleType:
    if name == "aec_env":
        return importlib.import_module("cribbage_env.aec_env")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_envs()
