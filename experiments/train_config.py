"""The schema of training configs (``configs/train``); other schemas, and how files are read: ``experiments.config``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator, model_validator

from agents.neural.choice import MIN_TEMPERATURE
from cribbage_env.cards import RANKS
from cribbage_env.streams import MAX_SEED
from experiments.config import Config, Float, PairedGames, RulesConfig


class ReducedConfig(Config):
    """A small game inside the real one, to see that a learner learns: both seats hold two cards, the count is new."""

    ranks: Annotated[str, BeforeValidator(lambda ranks: str(ranks) if isinstance(ranks, int) else ranks)] = Field(
        "4567", description="the ranks that the two cards of both seats are dealt from, such as 4567"
    )

    @field_validator("ranks")
    @classmethod
    def _known(cls, ranks: str) -> str:
        free = [
            rank for rank in RANKS if rank not in "ATJK"
        ]  # the others have been laid, see experiments.training.starts
        if len(ranks) < 2 or len(set(ranks)) < len(ranks) or not set(ranks) <= set(free):
            raise ValueError(f"at least two different ones of {''.join(free)} are needed, got {ranks!r}")
        return ranks


class CollectConfig(Config):
    """How self-play is collected: an iteration plays this many episodes to their end."""

    episode: Literal["deal", "game"] = Field(default="deal", description="single deals, or whole games")
    reward: Literal["points", "win", "game_points", "one_two"] = Field(
        default="points",
        description="what is learned, see cribbage_env.options; deals are paid by the board they leave",
    )
    board: str | None = Field(
        default=None,
        min_length=1,
        description="the board table for deals with another reward than points; None: shipped",
    )
    positions: Literal["zero", "played"] = Field(
        default="zero", description="the scores at which deals begin: 0-0, or such as come up in games"
    )
    games: int = Field(default=4096, ge=1, le=2**17, description="episodes an iteration, played side by side")
    epsilon: Float = Field(
        default=0.05, ge=0, le=1, description="how often a legal action is drawn at random to explore; not by ppo"
    )
    reduced: ReducedConfig | None = Field(default=None, description="a small game in place of whole deals, for tests")


def _usable(temperature: float) -> float:
    if 0.0 < temperature < MIN_TEMPERATURE:
        raise ValueError(f"must be 0 or at least {MIN_TEMPERATURE}")
    return temperature


Temperature = Annotated[Float, Field(ge=0, le=100), AfterValidator(_usable)]
Width = Annotated[int, Field(ge=1, le=512)]  # as agents.neural.networks.MAX_WIDTH


class NetworkConfig(Config):
    """The two networks; each sums embeddings of what it sees and has one hidden layer."""

    discard_hidden: list[Width] = Field(
        default=[64, 64],
        min_length=2,
        max_length=2,
        description="widths of the sum and the layer after it, for discards",
    )
    play_hidden: list[Width] = Field(default=[128, 128], min_length=2, max_length=2, description="the same for plays")
    scores: bool = Field(default=False, description="whether they see the game's scores; for whole games")
    start: str | None = Field(
        default=None, min_length=1, description="whose weights they begin with: neural, or a checkpoint; None: new ones"
    )


class LearnerConfig(Config):
    """What all learners have."""

    lr: Float = Field(default=3e-3, gt=0, le=1, description="Adam's learning rate at the beginning")
    lr_end: Float = Field(default=0.0, ge=0, le=1, description="at the end of the budget; in between it falls linearly")
    batch_size: int = Field(
        default=1024, ge=1, le=2**20, description="samples a step; an iteration's are divided evenly"
    )
    max_grad_norm: Float = Field(default=10.0, gt=0, le=1e9, description="gradients longer than this are cut to it")
    average: Float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="what plays is a moving average of the weights: this much of it stays a step",
    )

    @model_validator(mode="after")
    def _lr_falls(self) -> LearnerConfig:
        if self.lr_end > self.lr:
            raise ValueError(f"lr_end must be at most lr ({self.lr}), got {self.lr_end}")
        return self


class DmcConfig(LearnerConfig):
    """Monte Carlo value learning (see experiments.training.dmc)."""

    algorithm: Literal["dmc"] = "dmc"
    passes: int = Field(default=1, ge=1, le=100, description="how often each sample is learned from")
    subtract_luck: bool = Field(
        default=False, description="take out of the returns what an action cannot change; for single deals"
    )
    temperature: Temperature = Field(
        default=0.0,
        description="of plays, in units of reward, collecting and in the end; 0: the best, as discards always are",
    )


class EspgConfig(LearnerConfig):
    """External-sampling policy gradient for plays, value learning for discards (see experiments.training.espg)."""

    algorithm: Literal["espg"] = "espg"
    rule: Literal["softmax", "neurd"] = Field(
        default="softmax", description="the gradient: of the softmax policy's value, or of regrets (NeuRD)"
    )
    entropy: Float = Field(default=0.3, ge=0, le=100, description="the weight of entropy at first, in units of reward")
    entropy_end: Float = Field(default=0.05, ge=0, le=100, description="at the end; in between it falls geometrically")
    full_reach: Float = Field(
        default=0.25, gt=0, le=1, description="decisions that the seat's own choices reach less often are sampled"
    )
    explore: Float = Field(default=0.1, ge=0, le=1, description="share of random play in the weights of decisions")
    tremble: Float = Field(default=0.02, ge=0, lt=1, description="how often the other seat plays at random")
    temperature: Temperature = Field(
        default=0.1, description="of discards while collecting, in points; what is learned takes the best"
    )
    passes: int = Field(default=1, ge=1, le=100, description="how often each sample is learned from")


class PpoConfig(LearnerConfig):
    """Proximal policy optimisation in self-play (see experiments.training.ppo)."""

    algorithm: Literal["ppo"] = "ppo"
    clip: Float = Field(default=0.2, gt=0, le=10, description="how far the ratio of probabilities may move")
    discount: Float = Field(default=1.0, ge=0, le=1, description="gamma")
    gae: Float = Field(default=0.95, ge=0, le=1, description="lambda of generalised advantage estimation")
    passes: int = Field(default=2, ge=1, le=100, description="how often each sample is learned from")
    entropy: Float = Field(default=0.3, ge=0, le=100, description="the weight of entropy at first, in units of reward")
    entropy_end: Float = Field(default=0.03, ge=0, le=100, description="at the end; in between it falls geometrically")
    discards: Literal["values", "policy"] = Field(
        default="values", description="discards are drawn by their values, or have a policy of their own like plays"
    )
    discard_entropy: Float = Field(default=1.0, ge=0, le=100, description="times the others is the weight for discards")
    magnet: Float = Field(
        default=0.0, ge=0, le=100, description="the weight of the divergence from a slowly moving policy; 0: none"
    )
    magnet_every: int = Field(default=50, ge=1, le=10**9, description="iterations after which that policy is renewed")
    critic_lr: Float = Field(
        default=3e-3, gt=0, le=1, description="Adam's learning rate of the critics at first; it falls like the other"
    )
    subtract_luck: bool = Field(default=False, description="as of dmc")


class NfspConfig(LearnerConfig):
    """Neural fictitious self-play (see experiments.training.nfsp)."""

    algorithm: Literal["nfsp"] = "nfsp"
    anticipatory: Float = Field(
        default=0.1, gt=0, le=1, description="share of episodes in which a seat plays its best response"
    )
    values: Literal["best", "all"] = Field(
        default="all", description="best responses learn from the decisions of seats that play them, or of all"
    )
    passes: int = Field(default=1, ge=1, le=100, description="how often they learn from each of these")
    memory: int = Field(
        default=400_000,
        ge=4,
        le=10**8,
        description="decisions that the average policy is learned from, a quarter of them discards; about 125 bytes "
        "each in a checkpoint",
    )
    averaging: Literal["uniform", "linear"] = Field(
        default="linear", description="how best responses weigh: all alike, or the later, in proportion, the more"
    )
    policy_lr: Float = Field(
        default=1e-3, gt=0, le=1, description="Adam's learning rate of the average policy at first; falls to zero"
    )
    policy_steps: int = Field(default=16, ge=1, le=10**6, description="batches for the average policy an iteration")
    subtract_luck: bool = Field(default=False, description="as of dmc")


class DistillConfig(LearnerConfig):
    """Imitation of an agent on states that the student reaches: DAgger (see experiments.training.distill)."""

    algorithm: Literal["distill"] = "distill"
    teacher: str = Field(default="equilibrium", min_length=1, description="the spec of the agent that is imitated")
    mix: Float = Field(default=0.0, ge=0, le=1, description="share of the teacher in what is played, at first")
    mix_end: Float = Field(default=0.0, ge=0, le=1, description="at the end; in between it falls linearly")
    tremble: Float = Field(default=0.3, ge=0, le=1, description="how often one of the seats lays any card")
    discards: Float = Field(
        default=0.25, ge=0, le=1, description="share of the discards that are learned from; they need fewer than plays"
    )
    passes: int = Field(default=1, ge=1, le=100, description="how often each sample is learned from")


def _dmc_if_unsaid(value: Any) -> Any:
    return {"algorithm": "dmc", **value} if isinstance(value, dict) else value


AnyLearnerConfig = Annotated[
    DmcConfig | EspgConfig | PpoConfig | NfspConfig | DistillConfig,
    Field(discriminator="algorithm"),
    BeforeValidator(_dmc_if_unsaid),
]


class PoolConfig(Config):
    """Past selves of the learner to play against."""

    share: Float = Field(default=0.0, ge=0, le=1, description="of the episodes")
    every: int = Field(default=1_000_000, ge=1, description="decisions after which a copy of the learner enters")
    size: int = Field(default=10, ge=1, le=1000, description="how many copies there are at most; the oldest leaves")
    sampling: Literal["uniform", "recent", "prioritised"] = Field(
        default="uniform",
        description="who is met: any; the later the likelier (half as likely with each step back); the harder to beat",
    )
    folder: str | None = Field(
        default=None, min_length=1, description="a folder of checkpoints that are in it from the start"
    )

    @model_validator(mode="after")
    def _met(self) -> PoolConfig:
        if self.folder is not None and self.share == 0:
            raise ValueError(f"folder needs a share above 0, else nobody of {self.folder!r} is met")
        return self


class OpponentsConfig(Config):
    """Whom the learner meets: itself in what the other shares leave."""

    agents: dict[str, Annotated[Float, Field(ge=0, le=1)]] = Field(
        default={}, description="specs of agents, with the share of the episodes that each plays"
    )
    pool: PoolConfig = PoolConfig()

    @model_validator(mode="after")
    def _shares(self) -> OpponentsConfig:
        total = sum(self.agents.values()) + self.pool.share
        if total > 1 + 1e-9:
            raise ValueError(f"the shares of agents and pool must be at most 1 together, got {total:.6g}")
        return self

    @property
    def itself(self) -> float:
        """The share of self-play."""
        return max(0.0, 1.0 - sum(self.agents.values()) - self.pool.share)


class BudgetConfig(Config):
    """When training ends: at whichever comes first. The learning rate falls towards it."""

    decisions: int | None = Field(default=None, ge=1, description="decisions learned from; such a run is repeatable")
    minutes: Float | None = Field(default=None, gt=0, le=1e6, description="time of training; evaluations do not count")

    @model_validator(mode="after")
    def _some(self) -> BudgetConfig:
        if self.decisions is None and self.minutes is None:
            raise ValueError("set decisions or minutes")
        return self


class ExploitabilityConfig(Config):
    """The exact exploitability of the play while training; about half a minute each time."""

    every: int | None = Field(default=None, ge=1, description="decisions between two; None: only at the end")
    prior: str = Field(
        default="expected", min_length=1, description="the agent whose discards give the kept hands; own, uniform"
    )
    samples: int = Field(default=1, ge=1, le=1000, description="games that each infoset is completed to")


class TrainingEvaluationConfig(Config):
    """Matches on duplicate deals while training and after it, and exploitability."""

    opponents: list[str] = Field(default=["random", "greedy"], description="specs of the agents to play against")
    every: int | None = Field(default=None, ge=1, description="decisions between evaluations; None: only at the end")
    games: PairedGames = Field(default=1000, description="against each opponent; even")
    final_games: PairedGames = Field(default=4000, description="against each opponent, at the end; even")
    exploitability: ExploitabilityConfig | None = Field(default=None, description="None: not worked out")
    best: str | None = Field(
        default=None,
        min_length=1,
        description="best.pt is the checkpoint with the highest win rate against this opponent, confirmed with other "
        "deals, or with the least exploitability (say exploitability); None: none is kept",
    )

    @field_validator("opponents")
    @classmethod
    def _different(cls, opponents: list[str]) -> list[str]:
        if len(set(opponents)) != len(opponents):
            raise ValueError(f"each opponent once, got {', '.join(opponents)}")
        return opponents

    @model_validator(mode="after")
    def _best_of_what(self) -> TrainingEvaluationConfig:
        known = [*self.opponents, *(["exploitability"] if self.exploitability is not None else [])]
        if self.best is not None and self.best not in known:
            raise ValueError(f"best must be one of what is evaluated ({', '.join(known)}), got {self.best!r}")
        return self


class CheckpointConfig(Config):
    """When checkpoints are written, beside those at the beginning, the end and an interrupt."""

    every: int = Field(default=1_000_000, ge=1, description="decisions between checkpoints")
    keep: int = Field(default=3, ge=0, le=10_000, description="how many of the last ones stay in checkpoints/")


FREE_TO_CHANGE = ("output", "threads")
"""Keys that may differ when a run goes on: they don't change what is learned."""


class TrainConfig(Config):
    """A training run by self-play."""

    name: str = Field("train", pattern=r"^[\w][\w.-]*$", description="the run goes to runs/<name>")
    output: str | None = Field(None, min_length=1, description="another folder for the run than runs/<name>")
    seed: int = Field(1, ge=0, le=MAX_SEED, description="gives first weights, decks, exploration and batches")
    threads: int | None = Field(
        None, ge=1, le=1024, description="None: one a core; changes speed, not results (learning uses up to two)"
    )
    device: str = Field("auto", min_length=1, description="auto (a GPU if there is one), cpu or cuda")
    rules: RulesConfig = RulesConfig()
    modules: list[str] = Field([], description="modules or .py files that register agents of your own")
    collect: CollectConfig = CollectConfig()
    network: NetworkConfig = NetworkConfig()
    learner: AnyLearnerConfig = DmcConfig()
    opponents: OpponentsConfig = OpponentsConfig()
    budget: BudgetConfig
    evaluation: TrainingEvaluationConfig = TrainingEvaluationConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()

    @model_validator(mode="after")
    def _fits_together(self) -> TrainConfig:
        collect, learner = self.collect, self.learner
        of_points = (collect.episode, collect.reward) == ("deal", "points")
        if collect.board is not None and (collect.episode == "game" or collect.reward == "points"):
            raise ValueError("collect.board is for collect.episode: deal with a reward that is paid at a game's end")
        if collect.positions == "played" and (collect.episode == "game" or collect.reward == "points"):
            raise ValueError("collect.positions: played is for collect.episode: deal with a reward other than points")
        if self.network.scores and (of_points or (collect.episode == "deal" and collect.positions == "zero")):
            raise ValueError(
                "network.scores needs collect.episode: game or collect.positions: played (else all deals begin at 0:0)"
            )
        if (
            isinstance(learner, DmcConfig | PpoConfig | NfspConfig)
            and learner.subtract_luck
            and collect.episode == "game"
        ):
            raise ValueError(f"learner.subtract_luck needs collect.episode: deal, got {collect.episode}")
        if isinstance(learner, EspgConfig) and collect.episode != "deal":
            raise ValueError(f"learner.algorithm: espg needs collect.episode: deal, got {collect.episode}")
        if collect.reduced is not None and not of_points:
            raise ValueError("collect.reduced needs collect.episode: deal and collect.reward: points")
        return self
