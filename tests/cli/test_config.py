"""Settings from tables and files: values, layers, overrides and error messages."""

import os
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

import wheelfix
from tests.support.build import make_wheel
from tests.support.every_setting import EVERYTHING
from wheelfix.cli.app import run
from wheelfix.cli.config import toml_lines
from wheelfix.cli.config.configuration import Layer, check_selectors, find_file, read_configuration
from wheelfix.cli.config.settings_text import toml
from wheelfix.cli.config.values import settings_from
from wheelfix.errors import SettingsError
from wheelfix.settings import (
    AUTO,
    SETTING_FIELDS,
    DataLibraries,
    SacrificialEntry,
    SearchPathTag,
    SettingField,
    Settings,
)


def test_every_setting_can_be_in_the_file() -> None:
    assert set(EVERYTHING) == {field.name.replace("_", "-") for field in fields(Settings)}
    settings = settings_from(EVERYTHING, Settings(), "pyproject.toml")
    for field in fields(Settings):
        value = getattr(settings, field.name)
        assert value != getattr(Settings(), field.name), field.name
    assert settings.data_libraries is DataLibraries.SEARCH
    assert settings.search_path_tag is SearchPathTag.RUNPATH
    assert settings.sacrificial_entry is SacrificialEntry.KEEP
    assert settings.ignore == {"dead-entry": "the package makes the folder"}


def test_ignore_may_be_a_list_without_reasons() -> None:
    assert settings_from({"ignore": ["WF1"]}, Settings(), "x").ignore == {"WF1": ""}


def test_a_layer_replaces_values_but_adds_to_ignores_and_extensions() -> None:
    base = settings_from(
        {"exclude": ["a"], "ignore": {"WF1": "why"}, "extend-select": ["WF2"]}, Settings(), "file"
    )
    top = settings_from({"exclude": ["b"], "ignore": ["WF3"], "extend-select": ["WF4"]}, base, "-")
    assert top.exclude == ("b",)
    assert top.ignore == {"WF1": "why", "WF3": ""}
    assert top.extend_select == ("WF2", "WF4")


@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ({"wheeldir": "x"}, "file: there is no setting `wheeldir`", "did you mean `wheel-dir`?"),
        (
            {"override": []},
            "file: there is no setting `override`",
            "did you mean `overrides` or `provider`?",
        ),
        ({"wheel_dir": "x"}, "file: there is no setting `wheel_dir`", "did you mean `wheel-dir`?"),
        ({"qqqq": 1}, "file: there is no setting `qqqq`", None),
        ({"verify": "yes"}, "file: `verify` is `yes`; it must be true or false", None),
        ({"verify": 1}, "file: `verify` is `1`; it must be true or false", None),
        (
            {"strip": True},
            "file: `strip` is `true`; it must be one of `off`, `debug`, `all`",
            None,
        ),
        ({"zip-level": 10}, "file: `zip-level` is `10`; it must be a number, -1 to 9", None),
        ({"zip-level": True}, "file: `zip-level` is `true`; it must be a number, -1 to 9", None),
        ({"jobs": 0}, "file: `jobs` is `0`; it must be a number, 1 or more", None),
        ({"plat": ""}, "file: `plat` is ``; it must be a string that is not empty", None),
        ({"plat": 1}, "file: `plat` is `1`; it must be a string that is not empty", None),
        ({"wheel-dir": {}}, "file: `wheel-dir` is a table; it must be a string", None),
        (
            {"exclude": "a"},
            "file: `exclude` is `a`; it must be a list of strings",
            'exclude = ["a"]',
        ),
        ({"exclude": ["a", 1]}, "file: `exclude`, item 2 is `1`; it must be a string", None),
        ({"select": [""]}, "file: `select`, item 1 is ``; it must be a string", None),
        ({"ignore": {"WF1": 1}}, "file: `ignore`: the reason for `WF1` is `1`", None),
        (
            {"data-libraries": "collocate"},
            "file: `data-libraries` is `collocate`; it must be one of `colocate`, `search`, `move`",
            "did you mean `colocate`?",
        ),
        ({"severity": {"WF1": "bad"}}, "it must be `note`, `warning`, `error`", None),
        (
            {"severity": ["WF1"]},
            "file: `severity`: `WF1` has no `=` between two words",
            "such as 'WF111=error'",
        ),
        (
            {"unfixable": "WF1"},
            "`unfixable` is `WF1`; it must be a table, or a list of strings",
            'such as ["*:WF201"]',
        ),
        ({"per-file-ignores": {"a": "WF1", "": "WF2"}}, "it must be a string that is not", None),
        (
            {"fail-on": "eror"},
            "it must be one of `error`, `warning`, `note`, `never`",
            "did you mean `error`?",
        ),
        ({"search-path-tag": 1}, "it must be one of `auto`, `rpath`, `runpath`", None),
    ],
)
def test_invalid_settings_are_refused(
    table: Mapping[str, object], message: str, hint: str | None
) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_from(table, Settings(), "file")
    assert message in caught.value.message
    assert caught.value.hint == hint


@pytest.mark.parametrize("selector", ["WF", "wf1", "WF101", "unreachable-library"])
def test_selectors_name_rules_by_code_prefix_or_name(selector: str) -> None:
    check_selectors(Settings(select=(selector,)), "file")


@pytest.mark.parametrize(
    ("key", "selector", "hint"),
    [
        ("select", "unreachable-libary", "`unreachable-library`"),
        ("ignore", "WF1O1", "did you mean `WF"),
        ("extend-select", "zzzzzzz", "`wheelfix rule --all` lists the rules"),
    ],
)
def test_selectors_without_a_rule_are_errors(key: str, selector: str, hint: str) -> None:
    settings = settings_from({key: [selector]}, Settings(), "file")
    with pytest.raises(SettingsError, match=f"file: no rule .* `{selector}`") as caught:
        check_selectors(settings, "file")
    assert hint in (caught.value.hint or "")


# --- Files ----------------------------------------------------------------------------------------


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_nearest_file_up_to_the_root_of_the_project(tmp_path: Path) -> None:
    top = put(tmp_path / "wheelfix.toml", "")
    project = put(tmp_path / "project" / "pyproject.toml", "[tool.wheelfix]\n")
    inner = tmp_path / "project" / "src" / "pkg"
    inner.mkdir(parents=True)
    assert find_file(inner) == project
    own = put(tmp_path / "project" / "wheelfix.toml", "")
    assert find_file(inner) == own, "wheelfix.toml wins over pyproject.toml beside it"
    (tmp_path / "other" / ".git").mkdir(parents=True)
    assert find_file(tmp_path / "other") is None, "files above the repository are not read"
    assert find_file(tmp_path) == top


def test_the_search_ends_with_the_home_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    inner = home / "build" / "dist"
    inner.mkdir(parents=True)
    put(tmp_path / "wheelfix.toml", "jobs = 9\n")
    monkeypatch.setenv("HOME", str(home))
    assert find_file(inner) is None
    own = put(home / "wheelfix.toml", "jobs = 3\n")
    assert find_file(inner) == own


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_a_file_of_another_user_is_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "mine"
    inner.mkdir()
    planted = put(tmp_path / "wheelfix.toml", "jobs = 9\n")
    assert read_configuration(inner, None).file == planted
    os.chown(planted, 65534, 65534)
    found = read_configuration(inner, None)
    assert (found.settings, found.file, found.ignored) == (Settings(), None, planted)
    assert read_configuration(inner, planted).settings.jobs == 9, "unless it is named"
    planted.unlink()
    planted.symlink_to(put(tmp_path / "of-root.toml", "jobs = 9\n"))
    os.chown(planted, 65534, 65534, follow_symlinks=False)
    assert read_configuration(inner, None).ignored == planted, "a link is its maker's choice"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_the_owner_of_the_current_directory_is_obeyed(tmp_path: Path) -> None:
    """As in a container, where root works in the checkout of another user."""
    checkout = tmp_path / "checkout"
    inner = checkout / "dist"
    inner.mkdir(parents=True)
    file = put(checkout / "pyproject.toml", "[tool.wheelfix]\njobs = 3\n")
    for path in (checkout, inner, file):
        os.chown(path, 65534, 65534)
    assert read_configuration(inner, None).settings.jobs == 3
    os.chown(inner, 65533, 65533)
    assert read_configuration(inner, None).settings.jobs == 1, "a directory of a third user"


def test_the_file_in_use_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    file = put(tmp_path / "wheelfix.toml", "jobs = 3\nwheel-dir = '##[group]'\n")
    make_wheel(tmp_path)
    assert run(["check", "-v", "--fail-on", "never", "."]) == 0
    assert f"configuration file: `{file}`" in capsys.readouterr().err
    assert run(["check", "--fail-on", "never", "."]) == 0
    assert "configuration file" not in capsys.readouterr().err
    assert run(["settings"]) == 0
    out = capsys.readouterr().out
    assert f"# {file}\n" in out
    assert "##[" not in out, "a command of GitHub's runner"


@pytest.mark.parametrize(
    ("text", "told"), [("[tool.wheelfix]\n", True), ("[tool.other]\n", False), ("wheelfix", False)]
)
def test_a_table_beside_a_file_that_wins_is_told(tmp_path: Path, text: str, *, told: bool) -> None:
    own, beside = put(tmp_path / "wheelfix.toml", ""), put(tmp_path / "pyproject.toml", text)
    assert read_configuration(tmp_path, None).shadowed == (beside if told else None)
    assert read_configuration(tmp_path, own).shadowed is None, "it was chosen"


def test_pyproject_and_wheelfix_toml_are_equivalent(tmp_path: Path) -> None:
    project = put(tmp_path / "pyproject.toml", "[tool.wheelfix]\njobs = 3\n")
    own = put(tmp_path / "other.toml", "jobs = 3\n")
    for explicit in (project, own):
        assert read_configuration(tmp_path, explicit).settings == Settings(jobs=3)
    assert read_configuration(tmp_path, None).settings == Settings(jobs=3)


def test_a_project_without_the_table_has_the_defaults(tmp_path: Path) -> None:
    project = put(tmp_path / "pyproject.toml", "[project]\nname = 'x'\n")
    assert read_configuration(tmp_path, None).settings == Settings()
    with pytest.raises(SettingsError, match="has no table"):
        read_configuration(tmp_path, project)


def test_wheel_dir_is_relative_to_the_file(tmp_path: Path) -> None:
    put(tmp_path / "wheelfix.toml", "wheel-dir = 'out'\n")
    (tmp_path / "sub").mkdir()
    assert read_configuration(tmp_path, None).settings.wheel_dir == Path("out")
    assert read_configuration(tmp_path / "sub", None).settings.wheel_dir == tmp_path / "out"


def test_a_default_is_no_path_of_the_file_and_a_layer_moves_no_path_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'library-path = ["libs"]\n[[overrides]]\nselect = "demo-*"\nignore = ["WF601"]\n'
    put(tmp_path / "place" / "wheelfix.toml", text)
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    found = read_configuration(tmp_path / "sub", Path("../place/wheelfix.toml"))
    settings = found.settings_for("demo-1-py3-none-any.whl")
    assert settings.wheel_dir == Path("wheelhouse")
    assert settings.library_path == (str(tmp_path / "sub/../place/libs"),)


WITH_PATHS = [
    field
    for field in SETTING_FIELDS
    if {"DIR", "DIRS", "FILE", "PATH"}.intersection((field.setting.metavar or "").split("|"))
]


@pytest.mark.parametrize("field", WITH_PATHS, ids=lambda field: field.key)
def test_what_a_flag_takes_as_a_path_is_relative_to_the_file(
    tmp_path: Path, field: SettingField
) -> None:
    is_list = isinstance(field.default, tuple)
    put(tmp_path / "wheelfix.toml", f"{field.key} = {toml(['x'] if is_list else 'x')}\n")
    for folder in ("x", "sub"):
        (tmp_path / folder).mkdir()
    (tmp_path / "x" / "some.whl").touch()
    value = getattr(read_configuration(tmp_path / "sub", None).settings, field.name)
    assert toml(value) == toml([tmp_path / "x"] if is_list else tmp_path / "x")


def test_auto_is_no_folder_of_that_name(tmp_path: Path) -> None:
    put(tmp_path / "wheelfix.toml", 'provider = ["auto"]\n')
    for folder in ("auto", "sub"):
        (tmp_path / folder).mkdir()
    (given,) = read_configuration(tmp_path / "sub", None).settings.provider
    assert given.source == AUTO


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """A provider is a path if there is such a file; otherwise it is the name of a distribution."""
    put(
        tmp_path / "wheelfix.toml",
        """
        library-path = ["libs"]
        provider = ["providers/x.whl", "folder", "torch", { requirement = "folder" }]
        sbom-include = ["demo.cdx.json"]
        component = [{ name = "zlib", license-files = ["LICENSE"] }]
        [[overrides]]
        select = "demo-*"
        library-path = ["more"]
        """,
    )
    for path in (tmp_path / "providers" / "x.whl", tmp_path / "folder" / "libx.so"):
        path.parent.mkdir()
        path.touch()
    (tmp_path / "sub").mkdir()
    here = read_configuration(tmp_path, None).settings
    assert here.library_path == ("libs",)
    configuration = read_configuration(tmp_path / "sub", None)
    found = configuration.settings
    assert found.library_path == (str(tmp_path / "libs"),)
    assert configuration.settings_for("demo-1.whl").library_path == (str(tmp_path / "more"),)
    assert [p.requirement or p.source for p in found.provider] == [
        str(tmp_path / "providers" / "x.whl"),
        str(tmp_path / "folder"),
        "torch",
        "folder",
    ]
    assert found.sbom_include == (str(tmp_path / "demo.cdx.json"),)
    for text, problem in (("library-path = ['']", "not empty"), ("component = [1]", "a table")):
        put(tmp_path / "wheelfix.toml", text)
        with pytest.raises(SettingsError, match=problem):
            read_configuration(tmp_path / "sub", None).check()
    assert found.component[0].license_files == (str(tmp_path / "LICENSE"),)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"jobs = ", "is not TOML: "),
        (b"\xff", "is not TOML: "),
        (b"nothing = 1", "there is no setting `nothing`"),
        (b"[tool.wheelfix]\njobs = 2", "[tool.wheelfix] belongs in pyproject.toml"),
        (b"ignore = ['WF999']", "no rule has the code, prefix or name `WF999`"),
        (b"[" + b"a." * 100_000 + b"a]", "is not TOML: it is nested too deeply"),
        (b"#" * (1 << 20) + b"\n", "cannot read"),
        (b"x = [\n" + b"1,\n" * 20_000 + b"]\n", ":1: there is no setting `x`"),
        (None, "cannot read"),
    ],
    ids=lambda value: repr(value)[:40],
)
def test_unusable_files_are_refused(
    tmp_path: Path, content: bytes | None, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toml_lines, "_PARSED", 100_000)
    path = tmp_path / "wheelfix.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"wheelfix\.toml") as caught:
        read_configuration(tmp_path, path).check()
    assert message in caught.value.message


def test_a_file_that_is_not_a_regular_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    os.mkfifo(path)  # a read would wait
    with pytest.raises(SettingsError, match="not a regular file"):
        read_configuration(Path(), path)


@pytest.mark.parametrize("text", ["tool = 1 # wheelfix\n", "[tool]\nwheelfix = 1\n"])
def test_the_table_must_be_a_table(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError, match="must be a table"):
        read_configuration(tmp_path, put(tmp_path / "pyproject.toml", text))


# --- Layers ---------------------------------------------------------------------------------------


OVERRIDES = """
ignore = ["WF113"]
plat = "manylinux_2_28_x86_64"
[[overrides]]
select = "*musllinux* *cp312*"
plat = "auto"
ignore = {WF116 = "musl finds it"}
"""


def test_an_override_applies_to_the_wheels_that_it_selects(tmp_path: Path) -> None:
    put(tmp_path / "wheelfix.toml", OVERRIDES)
    configuration = read_configuration(tmp_path, None).check()
    glibc = configuration.settings_for("a-1-cp311-cp311-manylinux_2_28_x86_64.whl")
    assert (glibc.plat, dict(glibc.ignore)) == ("manylinux_2_28_x86_64", {"WF113": ""})
    musl = configuration.settings_for("a-1-cp311-cp311-musllinux_1_2_x86_64.whl")
    assert (musl.plat, set(musl.ignore)) == ("auto", {"WF113", "WF116"})
    assert configuration.settings_for("a-1-cp312-cp312-linux_x86_64.whl") == musl
    assert configuration.settings.plat == "manylinux_2_28_x86_64", "no wheel, no override"


def test_a_flag_wins_over_an_override(tmp_path: Path) -> None:
    put(tmp_path / "wheelfix.toml", OVERRIDES)
    flag = Layer(source="the command line", table={"plat": "linux_x86_64"})
    configuration = read_configuration(tmp_path, None).over([flag])
    name = "a-1-cp311-cp311-musllinux_1_2_x86_64.whl"
    assert configuration.settings_for(name).plat == "linux_x86_64"
    file = str(tmp_path / "wheelfix.toml")
    assert configuration.origins(name)["plat"] == (file, f"{file}: override 1", "the command line")
    assert configuration.origins(None)["plat"] == (file, "the command line")
    assert configuration.origins(name)["jobs"] == ("default",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overrides = 1", "`overrides` must be a list of tables"),
        ("overrides = [1]", "override 1 must be a table"),
        ("[[overrides]]\nplat = 'auto'", "override 1 has no `select` that names wheels"),
        ("[[overrides]]\nselect = ['a', 1]", "override 1 has no `select` that names wheels"),
        ("[[overrides]]\nselect = 'a'\njobs = 2", "`jobs` concerns all wheels of a run"),
        ("[[overrides]]\nselect = 'a'\nnothing = 2", "override 1: there is no setting `nothing`"),
        ("[[overrides]]\nselect = 'a'\nignore = ['WF999']", "override 1: no rule has the code"),
    ],
)
def test_invalid_overrides_are_refused(tmp_path: Path, text: str, message: str) -> None:
    put(tmp_path / "wheelfix.toml", text)
    with pytest.raises(SettingsError) as caught:
        read_configuration(tmp_path, None).check()
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("jobs = 2\nnothing = 1\n", ":2: there is no setting `nothing`"),
        ("# first\n\njobs = 0\n", ":3: `jobs` is `0`"),
        ("exclude = [\n 'a',\n 'b',\n]\njobs = 0", ":5: `jobs` is `0`"),
        ('ready = """\n\n"""\n', ":1: there is no setting `ready`"),
        ("jobs = 1\n[ignore]\nWF113 = 'x'\nWF999 = 'x'\n", ":4: no rule has the code"),
        ("ignore = [\n'WF113',\n'WF999']\n", ":1: no rule has the code"),
        (
            "[[symbols]]\nobjects=['a']\nexports=[]\n\n[[symbols]]\nobject=['b']\n",
            ":6: `symbols`, item 2: there",
        ),
        ("[[symbols]]\nobjects=['a']\n\nexports=3\n", ":4: `symbols`, item 1, `exports` is `3`"),
        ("[[overrides]]\nselect='a'\nplat='b'\njobs=2\n", ":4: override 1: `jobs` concerns"),
        ("[[overrides]]\nselect='a'\n[[overrides]]\nplat='b'\n", ":3: override 2 has no"),
        ("[[overrides]]\nselect='a'\n\nplat=1\n", ":4: override 1: `plat` is `1`"),
        ("jobs = 1\r\nplat = ''\r\n", ":2: `plat` is ``"),
        ("jobs = 1\nplat = \n", ":2: the file is not TOML: Invalid value"),
        ("jobs = 1\nexclude = [\n", ":2: the file is not TOML: "),
        ("jobs = 1\n\n# \udcff\n", ":3: the file is not TOML: 'utf-8'"),
        ("jobs = 1\n[tool.wheelfix]\n", ":2: [tool.wheelfix] belongs in"),
        ("jobs = 1\nrequired-version = 'new'\n", ":2: `required-version` is `new`; it must be"),
        (f"required-version = '>={'9' * 5000}'\n", ":1: `required-version` is `>=9"),
        (
            "jobs = 1\n[[component]]\nname = 'a'\nlicense-files = ['/proc/self/environ']\n",
            ":4: `license-files` has `/proc/self/environ`, which leads out of the folder",
        ),
        (
            "jobs = 1\n[[component]]\nname = 'a'\nlicense-files = ['x', '../secret']\n",
            ":4: `license-files` has `../secret`, which leads out of the folder",
        ),
        (
            "[[overrides]]\nselect = '*'\ncomponent = [{name = 'a', license-files = ['outside']}]",
            ":3: `license-files` has `outside`, which leads out of the folder",
        ),
        (
            "[[component]]\nname = 'a'\nlicense-files = ['fifo']\n",
            ":3: `license-files` has `fifo`, which is not a regular file",
        ),
        ("coming = 1\nrequired-version = '>=99'\n", ":2: wheelfix 0"),
    ],
)
def test_an_error_names_the_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wheelfix.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    (tmp_path / "outside").symlink_to("/etc/passwd")
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SettingsError) as caught:
        read_configuration(tmp_path, None).check()
    assert message in caught.value.message
    assert caught.value.message.startswith(f"{path}:")
    assert caught.value.message.count(str(path)) == 1


def test_a_line_in_the_file_of_a_project(tmp_path: Path) -> None:
    text = (
        "[project]\nname = 'x'\n\n[tool.wheelfix]\njobs = 1\n\n[tool.wheelfix.severity]\nWF1 = 1\n"
    )
    path = put(tmp_path / "pyproject.toml", text)
    with pytest.raises(SettingsError) as caught:
        _ = read_configuration(tmp_path, None).settings
    assert caught.value.message.startswith(f"{path}:8: `severity`: `WF1` is `1`")


@pytest.mark.parametrize("wanted", [f"=={wheelfix.__version__}", "<99", ">=0.0.1, <99"])
def test_a_required_version_that_is_running(tmp_path: Path, wanted: str) -> None:
    put(tmp_path / "wheelfix.toml", f"required-version = '{wanted}'\njobs = 2\n")
    assert read_configuration(tmp_path, None).check().settings.jobs == 2


def test_another_required_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "wheelfix.toml", "coming = 1\n\nrequired-version = '>=99'\n")
    make_wheel(tmp_path)
    assert run(["check", "."]) == 2
    said = capsys.readouterr().err
    assert f"wheelfix.toml:3: wheelfix {wheelfix.__version__} is running" in said
    assert "pip install 'wheelfix>=99'" in said
    assert "coming" not in said


def test_paths_in_include_are_relative_to_the_file_and_names_are_names(tmp_path: Path) -> None:
    below = tmp_path / "sub"
    below.mkdir()
    text = '[tool.wheelfix]\ninclude = ["libx.so.1", "lib/liby.so", "/opt/libz.so"]\n'
    (tmp_path / "pyproject.toml").write_text(text)
    configuration = read_configuration(below, tmp_path / "pyproject.toml")
    (layer,) = configuration.layers
    assert layer.over(Settings()).include == (
        "libx.so.1",
        f"{tmp_path}/lib/liby.so",
        "/opt/libz.so",
    )


def test_the_baseline_is_relative_to_the_file(tmp_path: Path) -> None:
    put(tmp_path / "wheelfix.toml", "baseline = 'known.json'\n")
    (tmp_path / "sub").mkdir()
    assert read_configuration(tmp_path / "sub", None).settings.baseline == str(
        tmp_path / "known.json"
    )


def test_texts_and_tables_are_equivalent() -> None:
    said = settings_from(
        {"per-file-ignores": ["pkg/*.so:WF1,WF2"], "severity": ["WF113=error"]}, Settings(), "-"
    )
    assert said.per_file_ignores == {"pkg/*.so": ("WF1", "WF2")}
    assert said.severity == {"WF113": "error"}


def test_an_unknown_target_is_named_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wheelfix.toml").write_text('jobs = 2\ntarget = ["debian:12", "debian12"]\n')
    assert run(["check", "x.whl"]) == 2
    said = capsys.readouterr().err
    assert "wheelfix.toml:2: unknown target `debian12`" in said
    assert "did you mean `debian:12`?" in said
