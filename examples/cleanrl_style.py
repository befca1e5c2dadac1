"""PPO with action masks in one file, after the manner of CleanRL: about a minute on one core.

    python examples/cleanrl_style.py --opponent greedy --steps 1000000

It plays single deals of CribbageSolo-v0, thousands side by side, with the points as reward, and prints the mean points
a deal against the opponent: the first lines are those of random play, the last ones what it has learned. The network is
a plain one on one-hot ranks; examples/maskable_ppo.py shows one that is made for the game and learns much faster.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical
from torch.nn.functional import one_hot

import cribbage_env
from agents import AgentError
from cribbage_env import FIELDS


@dataclass(frozen=True)
class Settings:
    """Hyperparameters; each is an option of the command line."""

    opponent: str = "greedy"  # any agent's spec
    steps: int = 1_000_000  # decisions of the learner
    seed: int = 1
    num_envs: int = 1024  # deals side by side
    num_steps: int = 16  # decisions in each of them between two updates
    minibatch: int = 2048
    epochs: int = 4
    learning_rate: float = 1e-3  # falls to 0
    gae_lambda: float = 0.95  # a deal is short and its points all count the same: there is no discount
    clip: float = 0.2
    entropy: float = 0.01
    value_loss: float = 0.5
    points: float = 10.0  # rewards are divided by it
    width: int = 256


class ActorCritic(nn.Module):
    """Logits of the 19 actions and a value, from one-hot ranks, the count, and who laid what."""

    def __init__(self, width: int) -> None:
        super().__init__()
        size = self.encode(torch.zeros(1, FIELDS["to_act"].stop, dtype=torch.uint8)).shape[1]
        self.body = nn.Sequential(nn.Linear(size, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.actor, self.critic = nn.Linear(width, 19), nn.Linear(width, 1)
        nn.init.zeros_(self.actor.weight)

    @staticmethod
    def encode(observations: Tensor) -> Tensor:
        """Observations (B, D) uint8 as floats (B, F)."""
        seen = {name: observations[:, at].long() for name, at in FIELDS.items()}
        cards = torch.cat([seen[name] for name in ("cards", "kept", "starter", "laid")], dim=1)
        flags = [seen[name] for name in ("phase", "is_dealer", "left", "laid_go", "opponent_left")]
        return torch.cat(
            [
                one_hot(cards >> 2, 14).flatten(1),  # ranks; 13 where there is no card
                one_hot(seen["count"][:, 0], 32),
                one_hot(seen["laid_by"], 3).flatten(1),
                *flags,
            ],
            dim=1,
        ).float()

    def forward(self, observations: Tensor, masks: Tensor) -> tuple[Categorical, Tensor]:
        """The policy over the legal actions, and values (B,)."""
        hidden = self.body(self.encode(observations))
        logits = self.actor(hidden).masked_fill(~masks, -1e9)
        return Categorical(logits=logits), self.critic(hidden)[:, 0]


def train(settings: Settings) -> list[float]:
    """Train, and print how it goes; returns the mean points a deal of every update."""
    torch.manual_seed(settings.seed)
    envs = gym.make_vec(
        "CribbageSolo-v0",
        num_envs=settings.num_envs,
        opponent=settings.opponent,
        reward="points",
        episode="deal",
        skip_forced=True,
    )
    network = ActorCritic(settings.width)
    optimizer = torch.optim.Adam(network.parameters(), lr=settings.learning_rate, eps=1e-5)
    size = (settings.num_steps, settings.num_envs)
    observations = torch.zeros(*size, FIELDS["to_act"].stop, dtype=torch.uint8)
    masks = torch.zeros(*size, 19, dtype=torch.bool)
    actions = torch.zeros(size, dtype=torch.long)
    log_probs, rewards, values = torch.zeros(size), torch.zeros(size), torch.zeros(size)
    ends = torch.zeros(size)

    seen, _ = envs.reset(seed=settings.seed)
    updates = max(1, settings.steps // (settings.num_steps * settings.num_envs))
    points: list[float] = []
    began = time.monotonic()
    for update in range(updates):
        for group in optimizer.param_groups:
            group["lr"] = settings.learning_rate * (1 - update / updates)

        # Play: the masks are in the observation, and cribbage_env.action_masks(envs) has them too.
        returns: list[NDArray[np.float64]] = []
        for step in range(settings.num_steps):
            observations[step] = torch.from_numpy(seen["observation"])
            masks[step] = torch.from_numpy(cribbage_env.action_masks(envs))
            with torch.no_grad():
                policy, values[step] = network(observations[step], masks[step])
                actions[step] = policy.sample()
                log_probs[step] = policy.log_prob(actions[step])
            seen, reward, terminated, _, infos = envs.step(actions[step].numpy())
            rewards[step] = torch.from_numpy(reward) / settings.points
            ends[step] = torch.from_numpy(terminated)
            if terminated.any():  # autoreset has begun the next deal already
                returns.append(infos["final_info"]["return"][terminated])
        points.append(float(np.concatenate(returns).mean()))

        # Generalised advantage estimation
        with torch.no_grad():
            last_masks = torch.from_numpy(cribbage_env.action_masks(envs))
            next_value = network(torch.from_numpy(seen["observation"]), last_masks)[1]
        advantages = torch.zeros(size)
        following = torch.zeros(settings.num_envs)
        for step in reversed(range(settings.num_steps)):
            goes_on = 1 - ends[step]
            delta = rewards[step] + goes_on * next_value - values[step]
            following = delta + settings.gae_lambda * goes_on * following
            advantages[step] = following
            next_value = values[step]

        # Learn
        batch = [each.flatten(0, 1) for each in (observations, masks, actions, log_probs, advantages, values)]
        targets = batch[4] + batch[5]
        for _ in range(settings.epochs):
            for rows in torch.randperm(len(targets)).split(settings.minibatch):
                seen_rows, legal, taken, old, advantage = (each[rows] for each in batch[:5])
                policy, value = network(seen_rows, legal)
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                ratio = (policy.log_prob(taken) - old).exp()
                clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip)
                policy_loss = -torch.min(ratio * advantage, clipped * advantage).mean()
                value_loss = (value - targets[rows]).square().mean()
                loss = policy_loss + settings.value_loss * value_loss - settings.entropy * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimizer.step()

        if update % 5 == 0 or update == updates - 1:
            decisions = (update + 1) * settings.num_steps * settings.num_envs
            seconds = time.monotonic() - began
            print(f"{decisions:>9,} decisions  {points[-1]:+6.2f} points a deal  {seconds:4.0f} s", flush=True)
    return points


def main() -> None:
    """Read the settings and train."""
    defaults = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in vars(defaults).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value, help="default: %(default)s")
    try:
        train(Settings(**vars(parser.parse_args())))
    except AgentError as error:
        parser.error(f"--opponent: {error}")


if __name__ == "__main__":
    main()
