"""The options that every environment takes, checked once and turned into numbers for the kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cribbage_env.engine import rule_numbers
from cribbage_env.rules import Rules

REWARDS = ("win", "points", "game_points", "one_two")
EPISODES = ("game", "deal")

# Places in the array of settings that kernels take
REWARD, EPISODE, SKIP_FORCED, SET_TARGET, SET_SKUNK, SET_DOUBLE, SET_DEALER, SET_SCORE_0, SET_SCORE_1 = range(9)
WIN_REWARD, POINTS_REWARD, GAME_POINTS_REWARD, ONE_TWO_REWARD = range(4)
GAME_EPISODE, DEAL_EPISODE = range(2)


@dataclass(frozen=True)
class EnvOptions:
    """Options of an environment.

    Args:
        rules: a :class:`Rules`, or a mapping with its arguments (``{"target": 61}``).
        reward: ``win`` (+1, -1 at the end), ``points`` (points scored minus points conceded, as they fall),
            ``game_points`` (2 for a win, 3 for a skunk, 4 for a double skunk; the loser gets the negative),
            ``one_two`` (1 for a win, 2 for any skunk; the loser gets the negative).
        episode: ``game``, or ``deal`` (one deal, or less if the game ends in it: rewards other than ``points`` are 0
            unless it does).
        skip_forced: plays with a single legal card are made by the environment.
        scores: what the two seats have at the start, each below the target.
        dealer: the seat that deals first; None to draw it from the game's seed.

    Raises:
        ValueError, TypeError: a value that is not one of these, with the name of the option.
    """

    rules: Rules | Mapping[str, Any] | None = None
    reward: str = "win"
    episode: str = "game"
    skip_forced: bool = False
    scores: Sequence[int] = (0, 0)
    dealer: int | None = None

    def __post_init__(self) -> None:
        rules = self.rules
        if rules is None:
            object.__setattr__(self, "rules", Rules())
        elif isinstance(rules, Mapping):
            unknown = sorted(set(rules) - {"target", "skunk", "double_skunk"})
            if unknown:
                raise ValueError(f"rules has no {unknown[0]!r}; there are target, skunk, double_skunk")
            object.__setattr__(self, "rules", Rules(**rules))
        elif not isinstance(rules, Rules):
            raise TypeError(f"rules must be Rules or a mapping of its arguments, got {rules!r}")
        if self.reward not in REWARDS:
            raise ValueError(f"reward must be one of {', '.join(REWARDS)}, got {self.reward!r}")
        if self.episode not in EPISODES:
            raise ValueError(f"episode must be one of {', '.join(EPISODES)}, got {self.episode!r}")
        if not isinstance(self.skip_forced, bool | np.bool_):
            raise TypeError(f"skip_forced must be true or false, got {self.skip_forced!r}")
        check_scores(self.scores, self.game_rules.target)
        object.__setattr__(self, "scores", tuple(int(score) for score in self.scores))
        check_dealer(self.dealer)

    @property
    def game_rules(self) -> Rules:
        """The rules, as :class:`Rules` whatever they were given as."""
        assert isinstance(self.rules, Rules)
        return self.rules

    def settings(self) -> NDArray[np.int64]:
        """The options as the array that kernels take."""
        dealer = -1 if self.dealer is None else self.dealer
        return np.array(
            [
                REWARDS.index(self.reward),
                EPISODES.index(self.episode),
                self.skip_forced,
                *rule_numbers(self.game_rules),
                dealer,
                *self.scores,
            ],
            np.int64,
        )

    def changed(self, options: Mapping[str, Any] | None, others: Sequence[str] = ()) -> EnvOptions:
        """These options with those that ``reset(options=...)`` may change (``scores``, ``dealer``) replaced.

        ``others`` names what else a caller's reset takes, for the message about an unknown one.
        """
        if not options:
            return self
        unknown = sorted(set(options) - {"scores", "dealer"})
        if unknown:
            known = ", ".join(["scores", "dealer", *others])
            raise ValueError(f"reset has no option {unknown[0]!r}; there are {known}")
        return EnvOptions(
            rules=self.rules,
            reward=self.reward,
            episode=self.episode,
            skip_forced=self.skip_forced,
            scores=options.get("scores", self.scores),
            dealer=options.get("dealer", self.dealer),
        )


def check_scores(scores: Sequence[int], target: int) -> None:
    """ValueError unless ``scores`` are two integers from 0 to below the target."""
    try:
        numbers = [int(score) for score in scores]
        whole = numbers == list(scores) and not any(isinstance(score, bool) for score in scores)
    except (TypeError, ValueError):
        raise ValueError(f"scores must be two integers, got {scores!r}") from None
    if len(numbers) != 2 or not whole:
        raise ValueError(f"scores must be two integers, got {scores!r}")
    if not all(0 <= score < target for score in numbers):
        raise ValueError(f"scores must lie between 0 and {target - 1} (below the target), got {scores!r}")


def check_dealer(dealer: int | None) -> None:
    """ValueError unless ``dealer`` is a seat or None."""
    if dealer is not None and (isinstance(dealer, bool) or dealer not in (0, 1)):
        raise ValueError(f"dealer must be 0, 1 or None (drawn from the seed), got {dealer!r}")
