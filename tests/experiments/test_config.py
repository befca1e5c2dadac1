"""Config files: what is read, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from cribbage_env import Rules
from experiments.config import Config, Float, RulesConfig, TournamentConfig, UserError, load_config, parse_config
from experiments.train_config import DmcConfig, EspgConfig, TrainConfig

CONFIGS = Path(__file__).parents[2] / "configs"


class Section(Config):
    rate: Float = 1.0
    size: int = Field(4, ge=1)


class Circle(Config):
    shape: Literal["circle"] = "circle"
    radius: Float = 1.0


class Square(Config):
    shape: Literal["square"] = "square"
    side: Float = 1.0
    inner: Section = Section()


class Sample(Config):
    section: Section = Section()
    sections: list[Section] = Field([])
    maybe: Section | None = None
    drawn: Annotated[Circle | Square, Field(discriminator="shape")] = Circle()
    flag: bool = False
    text: str


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sample.yaml"
    path.write_text("text: words\nsection:\n  rate: 3e-4\n")
    return path


def refusal(data: dict[str, object]) -> str:
    with pytest.raises(UserError) as caught:
        parse_config({"text": "x"} | data, Sample, "here.yaml")
    message = str(caught.value)
    assert message.startswith("here.yaml: ")
    assert "\n" not in message
    return message.removeprefix("here.yaml: ")


def test_a_file_with_overrides(file: Path) -> None:
    config = load_config(file, Sample, ["section.size=8", "flag=true", "sections=[{size: 2}]", "maybe.rate=1e3"])
    assert config.section == Section(rate=3e-4, size=8)
    assert config.flag is True
    assert config.sections == [Section(size=2)]
    assert config.maybe is not None
    assert config.maybe.rate == 1000.0


def test_an_override_wins_and_the_last_one_most(file: Path) -> None:
    assert load_config(file, Sample, ["text=a", "text=b"]).text == "b"
    assert load_config(file, Sample, ["section.rate=2"]).section.rate == 2.0
    assert load_config(file, Sample, ["text=a=b"]).text == "a=b"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ({"sizes": 1}, "unknown key 'sizes'; there are section, sections, maybe, drawn, flag, text"),
        ({"txt": 1}, "unknown key 'txt'; did you mean 'text'? there are section, sections, maybe, drawn, flag, text"),
        ({"section": {"rat": 1}}, "unknown key 'section.rat'; did you mean 'rate'? there are rate, size"),
        ({"sections": [{}, {"rat": 1}]}, "unknown key 'sections.1.rat'; did you mean 'rate'? there are rate, size"),
        ({"maybe": {"rat": 1}}, "unknown key 'maybe.rat'; did you mean 'rate'? there are rate, size"),
        ({"section": {"size": "4"}}, "section.size: must be a valid integer, got '4'"),
        ({"section": {"size": 4.0}}, "section.size: must be a valid integer, got 4.0"),
        ({"section": {"size": True}}, "section.size: must be a valid integer, got True"),
        ({"section": {"size": 0}}, "section.size: must be greater than or equal to 1, got 0"),
        ({"section": {"rate": "fast"}}, "section.rate: must be a valid number, got 'fast'"),
        ({"section": 3}, "section: must be a mapping with keys of rate, size, got 3"),
        ({"drawn": {"shape": "circle", "side": 2}}, "unknown key 'drawn.side'; there are shape, radius"),
        (
            {"drawn": {"shape": "square", "sid": 2}},
            "unknown key 'drawn.sid'; did you mean 'side'? there are shape, side, inner",
        ),
        (
            {"drawn": {"shape": "square", "inner": {"rat": 1}}},
            "unknown key 'drawn.inner.rat'; did you mean 'rate'? there are rate, size",
        ),
        ({"drawn": {"shape": "square", "side": "x"}}, "drawn.side: must be a valid number, got 'x'"),
        ({"drawn": {"shape": "ring"}}, "drawn.shape: must be one of 'circle', 'square', got 'ring'"),
        ({"drawn": "circle"}, "drawn: must be a mapping with keys of shape, got 'circle'"),
        ({"flag": 1}, "flag: must be a valid boolean, got 1"),
        ({"text": None}, "text: must be a valid string, got None"),
    ],
)
def test_what_does_not_fit_is_named_with_its_path(data: dict[str, object], says: str) -> None:
    assert refusal(data) == says


def test_a_missing_key_is_named() -> None:
    with pytest.raises(UserError, match="here: the key 'text' is missing"):
        parse_config({}, Sample, "here")


@pytest.mark.parametrize("override", ["text", "=1", "section.=1", ".rate=1", "a b"])
def test_an_override_without_key_or_value_is_refused(file: Path, override: str) -> None:
    with pytest.raises(UserError, match="an override looks like key=value"):
        load_config(file, Sample, [override])


def test_overrides_that_cannot_be_applied(file: Path) -> None:
    with pytest.raises(UserError, match="'text' is not a section"):
        load_config(file, Sample, ["text.more=1"])
    with pytest.raises(UserError, match=r"the override 'text=\[' line \d+: not valid YAML"):
        load_config(file, Sample, ["text=["])
    with pytest.raises(UserError, match="unknown key 'nothing'"):
        load_config(file, Sample, ["nothing=1"])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("text: [1", "line 1: not valid YAML"),
        ("text: a\ntext: b", "line 1: not valid YAML: the key 'text' comes twice"),
        ("- text", "a config is a mapping of keys to values, got list"),
        ("text: !!python/object:os.system {}", "not valid YAML"),
        ("", "the key 'text' is missing"),
        ("text: \ta: b: c", "not valid YAML"),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        load_config(path, Sample)
    assert says in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no config file"):
        load_config(tmp_path / "none.yaml", Sample)
    with pytest.raises(UserError, match="can't read the config file"):
        load_config(tmp_path, Sample)
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="can't read the config file"):
        load_config(binary, Sample)


def test_what_a_result_folder_notes_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("text: a\nmade_with: {python: 3.11.0}\n")
    assert load_config(path, Sample).text == "a"


def test_rules() -> None:
    assert RulesConfig().rules() == Rules()
    assert RulesConfig(target=61).rules() == Rules(61)
    assert RulesConfig(target=61, skunk=None).rules() == Rules(61, None)
    for data in ({"target": 1}, {"skunk": "often"}, {"skunk": 200}, {"double_skunk": 100}, {"skunk": True}):
        with pytest.raises(UserError, match="rules: "):
            parse_config({"agents": ["random", "greedy"], "rules": data}, TournamentConfig, "here")


@pytest.mark.parametrize("path", sorted((CONFIGS / "tournament").glob("*.yaml")), ids=lambda path: path.name)
def test_every_tournament_config_loads(path: Path) -> None:
    config = load_config(path, TournamentConfig)
    assert len(config.agents) >= 2
    assert config.name != "tournament"  # results of one do not stand in another's way


def test_there_are_configs() -> None:
    assert (CONFIGS / "tournament" / "quickstart.yaml").is_file()


# --- Training configs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted((CONFIGS / "train").glob("*.yaml")), ids=lambda path: path.name)
def test_every_training_config_loads(path: Path) -> None:
    config = load_config(path, TrainConfig)
    assert config.name == path.stem  # results of one do not stand in another's way
    assert config.evaluation.opponents


def test_every_learner_has_a_config() -> None:
    learners = {load_config(path, TrainConfig).learner.algorithm for path in (CONFIGS / "train").glob("*.yaml")}
    assert learners == {"dmc", "espg", "ppo", "nfsp", "distill"}


def train_config(**sections: Any) -> TrainConfig:
    return parse_config({"budget": {"decisions": 1000}} | sections, TrainConfig, "here.yaml")


def test_a_learner_is_chosen_by_its_algorithm_and_is_dmc_if_unsaid() -> None:
    assert train_config().learner == DmcConfig()
    assert train_config(learner={"lr": 1e-3}).learner == DmcConfig(lr=1e-3)
    learner = train_config(learner={"algorithm": "espg", "tremble": 0.5}).learner
    assert isinstance(learner, EspgConfig)
    assert learner.tremble == 0.5


def test_a_training_config_is_written_and_read_again(tmp_path: Path) -> None:
    config = train_config(
        learner={"algorithm": "espg", "rule": "neurd"},
        collect={"reward": "win", "positions": "played"},
        network={"scores": True},
        opponents={"agents": {"random": 0.25}, "pool": {"share": 0.25, "sampling": "recent"}},
        evaluation={"exploitability": {"every": 5}, "best": "exploitability"},
    )
    assert parse_config(config.model_dump(mode="json"), TrainConfig, "again") == config
    assert config.opponents.itself == 0.5


@pytest.mark.parametrize(
    ("sections", "says"),
    [
        ({"learner": "dmc"}, "learner: must be a mapping with keys of lr, lr_end, batch_size, "),
        ({"learner": None}, "learner: must be a mapping with keys of "),
        ({"learner": {"algorithm": "pppo"}}, "learner.algorithm: must be one of 'dmc', 'espg', "),
        ({"learner": {"algorithm": None}}, "learner.algorithm: must be one of 'dmc', 'espg', "),
        ({"learner": {"tremble": 0.1}}, "unknown key 'learner.tremble'; there are lr, "),
        ({"learner": {"algorithm": "espg", "subtract_luck": True}}, "unknown key 'learner.subtract_luck'; "),
        ({"learner": {"algorithm": "espg", "entropi": 1}}, "unknown key 'learner.entropi'; did you mean 'entropy'? "),
        ({"learner": {"algorithm": "espg", "full_reach": 0}}, "learner.full_reach: must be greater than 0, got 0"),
        ({"learner": {"algorithm": "espg", "rule": "x"}}, "learner.rule: must be 'softmax' or 'neurd', got 'x'"),
        ({"learner": {"algorithm": "espg", "lr_end": 0.5}}, "learner: lr_end must be at most lr (0.003), got 0.5"),
        ({"learner": {"average": 1}}, "learner.average: must be less than 1, got 1"),
        ({"learner": {"algorithm": "espg"}, "collect": {"episode": "game"}}, "learner.algorithm: espg needs collect."),
        (
            {"learner": {"subtract_luck": True}, "collect": {"episode": "game", "reward": "win"}},
            "learner.subtract_luck needs collect.episode: deal",
        ),
        ({"collect": {"board": "x.npz"}}, "collect.board is for collect.episode: deal with a reward that is paid"),
        ({"collect": {"board": "x.npz", "episode": "game", "reward": "win"}}, "collect.board is for collect.episode"),
        ({"collect": {"positions": "played"}}, "collect.positions: played is for collect.episode: deal"),
        ({"network": {"scores": True}}, "network.scores needs collect.episode: game or collect.positions: played"),
        ({"collect": {"reward": "win"}, "network": {"scores": True}}, "network.scores needs "),
        ({"collect": {"reduced": {"ranks": "4"}}}, "collect.reduced.ranks: at least two different ones of 23456789Q"),
        ({"collect": {"reduced": {"ranks": "445"}}}, "are needed, got '445'"),
        ({"collect": {"reduced": {"ranks": "4K"}}}, "are needed, got '4K'"),
        ({"collect": {"reduced": {}, "reward": "win"}}, "collect.reduced needs collect.episode: deal and "),
        (
            {"opponents": {"agents": {"random": 0.6}, "pool": {"share": 0.6}}},
            "opponents: the shares of agents and pool must be at most 1 together, got 1.2",
        ),
        ({"opponents": {"agents": {"random": -0.1}}}, "opponents.agents.random: must be greater than or equal to 0"),
        ({"opponents": {"pool": {"shre": 1}}}, "unknown key 'opponents.pool.shre'; did you mean 'share'? "),
        ({"evaluation": {"best": "expected"}}, "evaluation: best must be one of what is evaluated (random, greedy), "),
        ({"evaluation": {"best": "exploitability"}}, "evaluation: best must be one of what is evaluated"),
        ({"evaluation": {"exploitability": {"evry": 1}}}, "unknown key 'evaluation.exploitability.evry'; did you mean"),
        ({"evaluation": {"exploitability": {"samples": 0}}}, "evaluation.exploitability.samples: must be greater"),
        ({"budget": {}}, "budget: set decisions or minutes"),
    ],
)
def test_training_configs_that_make_no_sense(sections: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        train_config(**sections)
    message = str(caught.value)
    assert message.startswith("here.yaml: ")
    assert says in message
    assert "\n" not in message
