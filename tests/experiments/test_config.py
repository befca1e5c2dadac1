"""Config files: what is read, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import Field

from cribbage_env import Rules
from experiments.config import Config, Float, RulesConfig, TournamentConfig, UserError, load_config, parse_config

CONFIGS = Path(__file__).parents[2] / "configs"


class Section(Config):
    rate: Float = 1.0
    size: int = Field(4, ge=1)


class Sample(Config):
    section: Section = Section()
    sections: list[Section] = Field([])
    maybe: Section | None = None
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
        ({"sizes": 1}, "unknown key 'sizes'; there are section, sections, maybe, flag, text"),
        ({"txt": 1}, "unknown key 'txt'; did you mean 'text'? there are section, sections, maybe, flag, text"),
        ({"section": {"rat": 1}}, "unknown key 'section.rat'; did you mean 'rate'? there are rate, size"),
        ({"sections": [{}, {"rat": 1}]}, "unknown key 'sections.1.rat'; did you mean 'rate'? there are rate, size"),
        ({"maybe": {"rat": 1}}, "unknown key 'maybe.rat'; did you mean 'rate'? there are rate, size"),
        ({"section": {"size": "4"}}, "section.size: must be a valid integer, got '4'"),
        ({"section": {"size": 4.0}}, "section.size: must be a valid integer, got 4.0"),
        ({"section": {"size": True}}, "section.size: must be a valid integer, got True"),
        ({"section": {"size": 0}}, "section.size: must be greater than or equal to 1, got 0"),
        ({"section": {"rate": "fast"}}, "section.rate: must be a valid number, got 'fast'"),
        ({"section": 3}, "section: must be a mapping with keys of rate, size, got 3"),
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
