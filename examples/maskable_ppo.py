"""MaskablePPO of sb3-contrib learns to beat ``greedy``: about a minute and a half on one core.

    pip install -c constraints.txt -e ".[sb3]"
    python examples/maskable_ppo.py --opponent greedy --steps 600000 --output runs/maskable_ppo.zip

It trains on single deals with the points as reward, and then plays whole games on duplicate deals. What is special for
cribbage is the policy: a small network scores every legal action by what it leaves (the cards kept and thrown; the card
laid, the count and the cards under it), the same network for all discards, and one for all plays. To read the raw
numbers of an observation with one flat network would take far longer.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_vec_env import CribbageVecEnv
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import VecMonitor, VecNormalize
from torch import Tensor, nn
from torch.nn.functional import one_hot

from agents import Agent, AgentError, make_agent
from cribbage_env import FIELDS
from cribbage_env.engine import FIRST_PLAY, KEPT_PLACES, NUM_ACTIONS, NUM_DISCARDS, PAIRS
from cribbage_env.observation import OPPONENT
from cribbage_env.scoring import MAX_COUNT, card_value
from experiments.tournament.match import play_match
from experiments.tournament.summary import MatchSummary

RANKS = 13
NO_RANK = 13  # NO_CARD >> 2
LAST = 4  # cards of the present count that a play is compared with


def ranks(cards: Tensor) -> Tensor:
    """The ranks 0..12 of cards, 13 where there is none: one-hot (..., 14)."""
    return one_hot(cards >> 2, RANKS + 1).float()


class CribbageNetwork(nn.Module):
    """Logits of the actions, and the features from which the value is read: what MaskablePPO calls ``mlp_extractor``.

    Args:
        width: of the hidden layers.
    """

    def __init__(self, width: int = 128) -> None:
        super().__init__()
        self.latent_dim_pi, self.latent_dim_vf = NUM_ACTIONS, width
        self.kept_places: Tensor
        self.pairs: Tensor
        self.values: Tensor
        self.register_buffer("kept_places", torch.from_numpy(KEPT_PLACES.astype(np.int64)), persistent=False)
        self.register_buffer("pairs", torch.from_numpy(PAIRS.astype(np.int64)), persistent=False)
        values = [card_value(4 * rank) for rank in range(RANKS)] + [0]
        self.register_buffer("values", torch.tensor(values), persistent=False)

        def scorer() -> nn.Sequential:
            return nn.Sequential(
                nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
            )

        self.discard = scorer()
        self.play = scorer()
        self.critic = nn.Sequential(nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        sample = torch.zeros(2, FIELDS["to_act"].stop)
        sample[1, FIELDS["phase"]] = 1  # a discard and a play: the lazy layers take their sizes
        self.forward(sample)

    def forward(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, 19) and value features (B, width) of observations (B, D)."""
        return self.forward_actor(observations), self.forward_critic(observations)

    def forward_actor(self, observations: Tensor) -> Tensor:
        """Logits (B, 19); those of illegal actions are masked out later."""
        seen = {name: observations[:, at].long() for name, at in FIELDS.items()}
        logits = observations.new_zeros(len(observations), NUM_ACTIONS)
        discards = seen["phase"][:, 0] == 0
        if discards.any():
            rows = {name: values[discards] for name, values in seen.items()}
            logits[discards, :NUM_DISCARDS] = self.discard(self.discards(rows)).squeeze(-1)
        if not discards.all():
            rows = {name: values[~discards] for name, values in seen.items()}
            logits[~discards, FIRST_PLAY:] = self.play(self.plays(rows)).squeeze(-1)
        return logits

    def discards(self, seen: dict[str, Tensor]) -> Tensor:
        """(B, 15, F): for each pair, how often every rank is kept and thrown, into whose crib, and a kept suit."""
        cards = seen["cards"]
        kept, thrown = cards[:, self.kept_places], cards[:, self.pairs]  # (B, 15, 4) and (B, 15, 2)
        kept_counts, thrown_counts = ranks(kept).sum(2)[..., :RANKS], ranks(thrown).sum(2)[..., :RANKS]
        own_crib = seen["is_dealer"].float()[:, None]  # (B, 1, 1)
        suited = (kept % 4 == kept[..., :1] % 4).all(-1, keepdim=True).float()
        return torch.cat(
            [
                (kept_counts > 0).float(), (kept_counts > 1).float(), (kept_counts > 2).float(),
                thrown_counts * own_crib, thrown_counts * (1 - own_crib), suited, own_crib.expand_as(suited),
            ],
            dim=-1,
        )  # fmt: skip

    def plays(self, seen: dict[str, Tensor]) -> Tensor:
        """(B, 4, G): for each kept card, its rank, the count it makes, its distance to the last cards, what is left."""
        kept, laid = seen["kept"], seen["laid"]
        rank = kept >> 2
        after = (seen["count"] + self.values[rank]).clamp(max=MAX_COUNT)
        at = seen["num_laid"] - 1 - torch.arange(LAST, device=kept.device)  # (B, LAST): the last cards, newest first
        last = torch.where(at >= seen["count_begin"], laid.gather(1, at.clamp(min=0)) >> 2, NO_RANK)
        step = torch.where(last[:, None] < RANKS, rank[..., None] - last[:, None] + RANKS - 1, 2 * RANKS - 1)
        left = (ranks(kept)[..., :RANKS] * seen["left"][..., None]).sum(1)
        theirs = (ranks(laid)[..., :RANKS] * (seen["laid_by"] == OPPONENT)[..., None]).sum(1)
        shared = torch.cat([left, theirs, one_hot(seen["opponent_left"][:, 0], 7), seen["is_dealer"]], dim=-1).float()
        return torch.cat(
            [
                ranks(kept), one_hot(after, MAX_COUNT + 1).float(), one_hot(step, 2 * RANKS).float().flatten(2),
                shared[:, None].expand(-1, 4, -1),
            ],
            dim=-1,
        )  # fmt: skip

    def forward_critic(self, observations: Tensor) -> Tensor:
        """(B, width): what is known of the deal as a whole."""
        seen = {name: observations[:, at].long() for name, at in FIELDS.items()}
        counts = [ranks(seen[name]).sum(1) for name in ("cards", "kept", "thrown", "starter", "laid")]
        left = (ranks(seen["kept"]) * seen["left"][..., None]).sum(1)
        own_crib = seen["is_dealer"].float()
        told = torch.cat([seen["opponent_left"], seen["num_laid"], seen["phase"]], dim=-1).float()
        count = one_hot(seen["count"][:, 0], MAX_COUNT + 1).float()
        known = [*counts, left, counts[0] * own_crib, counts[2] * own_crib, own_crib, told, count]
        features: Tensor = self.critic(torch.cat(known, dim=-1))
        return features


class CribbagePolicy(MaskableActorCriticPolicy):
    """MaskablePPO's policy with :class:`CribbageNetwork` in it."""

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = CribbageNetwork()  # type: ignore[assignment]

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        self.action_net = (
            nn.Identity()
        )  # the network gives the logits themselves; the optimizer never sees a gradient of the old one


class PolicyAgent(Agent):
    """A trained model as an agent, for matches and tournaments."""

    def __init__(self, model: MaskablePPO, name: str = "maskable_ppo") -> None:
        super().__init__(name)
        self._policy = model.policy

    def policy(self, observations: NDArray[np.uint8], masks: NDArray[np.int8]) -> NDArray[np.float64]:
        """All on the likeliest action; see :meth:`Agent.policy`."""
        with torch.no_grad():
            seen = torch.from_numpy(observations.astype(np.float32)).to(self._policy.device)
            chosen = self._policy.get_distribution(seen, masks.astype(bool)).mode().cpu().numpy()
        policy = np.zeros(masks.shape)
        policy[np.arange(len(masks)), chosen] = 1.0
        return policy


class Progress(BaseCallback):
    """A line every few updates: points a deal against the opponent so far."""

    def __init__(self, every: int = 10) -> None:
        super().__init__()
        self.every, self.updates, self.began = every, 0, time.monotonic()

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.updates += 1
        if self.updates % self.every == 0 and self.model.ep_info_buffer:
            points = np.mean([episode["r"] for episode in self.model.ep_info_buffer])
            seconds = time.monotonic() - self.began
            print(f"{self.num_timesteps:>9,} decisions  {points:+6.2f} points a deal  {seconds:4.0f} s", flush=True)


def train(opponent: str, steps: int, seed: int, num_envs: int = 512, n_steps: int = 16, **changed: Any) -> MaskablePPO:
    """Train on deals against an opponent; ``steps`` are the learner's decisions."""
    torch.manual_seed(seed)
    env = CribbageVecEnv(num_envs, opponent=opponent, reward="points", episode="deal", skip_forced=True)
    env.seed(seed)
    wrapped = VecNormalize(VecMonitor(env), norm_obs=False, gamma=1.0)
    settings: dict[str, Any] = {
        "n_steps": n_steps,
        "batch_size": 1024,
        "n_epochs": 3,
        "gamma": 1.0,  # a deal is short, and its points all count the same
        "gae_lambda": 0.95,
        "learning_rate": lambda left: 1e-3 * left,
        "ent_coef": 0.01,
        "clip_range": 0.2,
        "stats_window_size": 5_000,
    }
    model = MaskablePPO(CribbagePolicy, wrapped, seed=seed, device="cpu", **(settings | changed))
    return model.learn(steps, callback=Progress())


def evaluate(model: MaskablePPO, opponent: str, games: int, seed: int) -> MatchSummary:
    """A match of whole games on duplicate deals; its ``win_rate`` is the model's."""
    return play_match(PolicyAgent(model), make_agent(opponent), games // 2, seed)


def main() -> None:
    """Train, evaluate, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--opponent", default="greedy", help="any agent's spec")
    parser.add_argument("--steps", type=int, default=600_000, help="decisions of the learner (default: %(default)s)")
    parser.add_argument("--games", type=int, default=4_000, help="of the evaluation (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of everything (default: %(default)s)")
    parser.add_argument("--output", type=Path, help="where the model is saved, a .zip")
    args = parser.parse_args()
    if args.steps < 1 or args.games < 2 or not 0 <= args.seed < 2**31:
        parser.error("--steps must be at least 1, --games at least 2, and --seed between 0 and 2**31 - 1")
    try:
        make_agent(args.opponent)
    except AgentError as error:
        parser.error(f"--opponent: {error}")
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    model = train(args.opponent, args.steps, args.seed)
    print(f"trained for {time.monotonic() - began:.0f} s")
    if args.output is not None:
        model.save(args.output)
    summary = evaluate(model, args.opponent, args.games, args.seed + 1)
    rate = summary.win_rate
    interval = f"[{100 * rate.low:.1f}, {100 * rate.high:.1f}]"
    print(f"wins {100 * rate.value:.1f} % {interval} of {summary.games:,} games against {args.opponent}")


if __name__ == "__main__":
    main()
