"""Six-card cribbage for two: rules, engine and Gymnasium environments.

Importing the package registers ``Cribbage-v0`` and ``CribbageSolo-v0`` with Gymnasium, for ``gymnasium.make`` and
``gymnasium.make_vec``; ``gymnasium.make("cribbage_env:Cribbage-v0")`` imports it.
"""

from cribbage_env.cards import card_text, cards_text, parse_card, parse_cards
from cribbage_env.env import CribbageEnv
from cribbage_env.events import Event
from cribbage_env.game import Game, IllegalActionError
from cribbage_env.masks import action_masks
from cribbage_env.observation import FIELDS, OBSERVATION_SIZE, OBSERVATION_VERSION, field
from cribbage_env.registration import register_envs
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
    "score_hand",
    "score_play",
]

register_envs()
