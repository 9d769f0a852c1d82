"""`wheelfix init` and `wheelfix settings`: defaults, values in effect, origins, JSON schema."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.support.every_setting import EVERYTHING
from wheelfix.cli.app import run
from wheelfix.cli.config.configuration import read_configuration
from wheelfix.cli.config.json_schema import schema
from wheelfix.cli.config.settings_text import in_effect
from wheelfix.cli.config.values import settings_from
from wheelfix.errors import SettingsError
from wheelfix.reports.printable import printable
from wheelfix.settings import SETTING_FIELDS, Settings

SHIPPED = Path(wheelfix.__file__).parent / "reports" / "schemas" / "settings.schema.json"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def uncommented(text: str) -> str:
    """Return the settings of a commented table as if each had been set."""
    text = text.partition("# Other settings")[0]
    lines = (line.removeprefix("# ") for line in text.splitlines() if " = " in line)
    return "\n".join(line for line in lines if line.split(" = ")[0] in EVERYTHING)


def test_a_path_that_is_not_utf_8_is_a_comment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """TOML cannot hold it: what is printed is read back without."""
    monkeypatch.setenv("WHEELFIX_LIBRARY_PATH", "/lib\udcff")
    assert run(["settings"]) == 0
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)
    assert "# not UTF-8: library-path = " in printed


def test_init_writes_every_setting_with_its_default(here: Path) -> None:
    assert run(["init"]) == 0
    text = (here / "wheelfix.toml").read_text("utf-8")
    assert read_configuration(here, None).settings == Settings(), "all of it is comments"
    table = tomllib.loads(uncommented(text))
    assert set(table) == set(EVERYTHING)
    unset = {field.key for field in SETTING_FIELDS if field.default is None}
    defaults = {key: value for key, value in table.items() if key not in unset}
    assert settings_from(defaults, Settings(jobs=9), "x") == Settings()
    settings_from(table, Settings(), "x")


def test_init_appends_to_the_project(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = here / "pyproject.toml"
    project.write_text("[project]\nname = 'x'\n", "utf-8")
    assert run(["init", "--stdout"]) == 0
    printed = capsys.readouterr().out
    assert run(["init"]) == 0
    text = project.read_text("utf-8")
    assert text == f"[project]\nname = 'x'\n\n{printed}"
    assert tomllib.loads(text) == {"project": {"name": "x"}, "tool": {"wheelfix": {}}}
    assert run(["init"]) == 2, "what is there is left alone"
    assert project.read_text("utf-8") == text
    active = [line.removeprefix("# ") for line in text.splitlines()[-3:]]
    overrides = tomllib.loads("\n".join(active))["tool"]["wheelfix"]["overrides"]
    assert overrides[0]["select"] == "*musllinux*"


def test_init_writes_no_table_that_is_not_read(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project = here / "pyproject.toml"
    project.write_text("[project]\nname = 'x'\n", "utf-8")
    (here / "wheelfix.toml").write_text("jobs = 3\n", "utf-8")
    assert run(["init"]) == 2
    assert "`wheelfix.toml` already has settings" in capsys.readouterr().err
    assert project.read_text("utf-8") == "[project]\nname = 'x'\n"
    assert run(["init", "--stdout"]) == 0
    assert "[tool." not in capsys.readouterr().out, "it is for wheelfix.toml"


def test_settings_have_the_origin_of_each_value(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "wheelfix.toml").write_text(
        "jobs = 3\n[[overrides]]\nselect = '*musl*'\nstrip = 'all'\n", "utf-8"
    )
    monkeypatch.setenv("AUDITWHEEL_PLAT", "linux_x86_64")
    monkeypatch.setenv("WHEELFIX_FAIL_ON", "warning")
    monkeypatch.setenv("WHEELFIX_IGNORE", "WF113,WF116")
    assert run(["settings", "dist/demo-1-cp311-cp311-musllinux_1_2_x86_64.whl"]) == 0
    out = capsys.readouterr().out.splitlines()
    said = {line.split(" = ")[0]: [part.strip() for part in line.split("  # ")] for line in out}
    file = str(here / "wheelfix.toml")
    assert said["jobs"] == ["jobs = 3", file]
    assert said["strip"] == ['strip = "all"', f"{file}: override 1"]
    assert said["plat"] == ['plat = "linux_x86_64"', "the environment"]
    assert said["fail-on"] == ['fail-on = "warning"', "the environment"]
    assert said["ignore"] == ['ignore = { "WF113" = "", "WF116" = "" }', "the environment"]
    assert said["select"] == ['select = ["ALL"]', "default"]
    assert said["# baseline"] == ["# baseline = (not set)", "default"]
    assert {key.removeprefix("# ") for key in said} == set(EVERYTHING)
    assert run(["settings"]) == 0
    assert 'strip = "off"' in capsys.readouterr().out


ODD = 'a"b\\c\t\x1b\x7f\x80\u202e\U0001f600\U000e0001##[::'
FORMS: list[dict[str, Any]] = [
    {},
    EVERYTHING,
    {"provider": ["torch", "providers/x.whl", {"requirement": "pyarrow"}, *EVERYTHING["provider"]]},
    {"provider": [{"requirement": "x", "libraries": ["a"], "directory": "a", "scheme": "data"}]},
    {
        "symbols": [
            {"objects": ["a", "grafted"], "exports": [], "imports-of": "b", "imports": ["c"]}
        ]
    },
    {"component": [{"name": "zlib"}, {"name": "xz", "license-files": ["a", "b"]}]},
    {"component": [{"name": "a", "license": "MIT", "libraries": ["liba.so*"], "version": "1"}]},
    {"ignore": ["WF113"], "severity": {"WF113": "note"}, "max-size": "1.5 MB", "lib-sdir": ""},
    {"per-file-ignores": {ODD: "WF311,WF313", "b": ["WF1"]}},
    {"ignore": {"WF113": ODD}, "exclude": [ODD], "baseline": ODD, "wheel-dir": ODD},
    {
        "provider": [ODD],
        "component": [{"name": ODD}],
        "symbols": [{"objects": [ODD], "never-exports": [ODD]}],
    },
]


@pytest.mark.parametrize("table", FORMS, ids=lambda table: ",".join(table)[:60])
def test_what_is_shown_can_be_pasted_back(table: dict[str, Any]) -> None:
    """Each line alone, and all of them, mean the settings that were read."""
    meant = settings_from(table, Settings(), "-")
    shown = in_effect(meant, {field.name: ("x",) for field in SETTING_FIELDS}).splitlines()
    shown = [printable(line) for line in shown]
    assert settings_from(tomllib.loads("\n".join(shown)), Settings(), "-") == meant
    for field, line in zip(SETTING_FIELDS, shown, strict=True):
        alone = settings_from(tomllib.loads(line), Settings(), "-")
        assert getattr(alone, field.name) == getattr(meant, field.name)
        assert (field.key in tomllib.loads(line)) is (getattr(meant, field.name) is not None)


# --- The schema -----------------------------------------------------------------------------------


def accepted(table: object) -> bool:
    jsonschema = pytest.importorskip("jsonschema")
    return bool(jsonschema.Draft202012Validator(schema()).is_valid(table))


def test_the_shipped_schema_is_the_one_of_the_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["settings", "--schema"]) == 0
    shown = capsys.readouterr().out
    assert shown == SHIPPED.read_text("utf-8"), "wheelfix settings --schema > the file"
    assert json.loads(shown)["properties"].keys() == {*EVERYTHING, "overrides"}


TABLES: list[dict[str, Any]] = [
    EVERYTHING,
    *({key: value} for key, value in EVERYTHING.items()),
    {"wheeldir": "x"},
    *({key: value} for key in EVERYTHING for value in (17, "", " ", [1], {"WF1": 1}, True)),
    {"overrides": [{"select": "*", "strip": "all"}]},
    {"overrides": [{"select": ["*"], "ignore": ["WF1"]}]},
    {"overrides": [{"strip": "all"}]},
    {"overrides": [{"select": [], "strip": "all"}]},
    {"overrides": [{"select": "*", "jobs": 2}]},
    {"overrides": {}},
    {"zip-level": 10},
    {"symbols": [{"exports": ["x"]}]},
    {"symbols": [{"objects": ["x"]}]},
    {"symbols": [{"objects": ["x"], "exports": "x"}]},
    {"symbols": [{"objects": ["x"], "exports": ["x"], "imports-of": "y"}]},
    {"symbols": [{"objects": [], "exports": ["x"]}]},
    {"severity": {"WF1": "bad"}},
    {"provider": ["torch", {"requirement": "pyarrow"}]},
    {"provider": [{"requirement": ">=1"}]},
    {"provider": [{"libraries": ["a"], "directory": "a"}]},
    {"provider": [{"requirement": "x", "libraries": ["a"]}]},
    {"provider": [{"requirement": "x", "directory": "a"}]},
    {"provider": [{"requirement": "x", "libraries": ["a"], "directory": "../a"}]},
    {"provider": [{"requirement": "x", "libraries": ["a"], "directory": "/a"}]},
    {"provider": [{"requirement": "x", "libraries": ["a"], "directory": "a/b"}]},
    {"provider": [{"requirement": "x", "libraries": ["a"], "directory": "a", "scheme": "b"}]},
]


def test_schema_and_loader_agree(here: Path) -> None:
    for table in TABLES:
        (here / "wheelfix.toml").write_text(
            "\n".join(f"{key} = {written(value)}" for key, value in table.items()), "utf-8"
        )
        assert accepted(table) is loads(here), table


def loads(folder: Path) -> bool:
    try:
        read_configuration(folder, None).check()
    except SettingsError as error:
        return "no rule has the code" in error.message  # what a schema cannot know
    return True


def written(value: object) -> str:
    from wheelfix.cli.config.settings_text import toml

    return toml(value)
