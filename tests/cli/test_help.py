"""Help texts: groups of options, width, examples that hold."""

import re
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.fork_server import warm_path
from tests.support.installers import install
from wheelfix.cli.app import COMMANDS, run
from wheelfix.cli.help_content import Example, examples_of, most_used_options, question_of
from wheelfix.settings import SETTING_FIELDS, Group

TAG = f"cp3{sys.version_info.minor}-cp3{sys.version_info.minor}-linux_x86_64"
SCRIPTS = Path(sys.executable).parent

EXAMPLES = {command: examples_of(command) for command in (*COMMANDS, "wheelfix")}


LINES = {"repair": 90, "check": 75}
"""How many lines the help of a command may have; others 50."""


def help_of(name: str, capsys: pytest.CaptureFixture[str], flag: str = "--help") -> str:
    assert run([name, flag]) == 0
    return capsys.readouterr().out


def test_the_program_lists_each_command_once_and_in_a_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for name, entry in COMMANDS.items():
        [line] = [line for line in text.splitlines() if line.startswith(f"  {name} ")]
        assert line.split(maxsplit=1)[1] == entry.summary
        assert f"\n{entry.group}:\n" in text


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_begins_with_a_question_and_names_each_option(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(name, capsys)
    lines = text.splitlines()
    assert len(lines) <= LINES.get(name, 50)
    assert max(map(len, lines)) <= 80
    assert " ".join(text.split("\n\n")[1].split()) == question_of(name)
    for flag in most_used_options(name):
        assert any(re.match(rf"  (-\w, )?{flag}\b", line) for line in lines[:60]), flag
    every = help_of(name, capsys, "--help-all")
    for flag in re.findall(r"^  (?:-\w, )?(--[a-z-]+)", every, re.MULTILINE):
        assert re.search(rf"[ ]{flag}(?![\w-])", text), flag


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_in_a_group_and_each_line_fits(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = help_of(name, capsys, "--help-all")
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert set(titles) <= {"Arguments", "Most used", "Examples", *Group}
    general = text.split("\nGeneral:\n")[1].split("\n\n")[0]
    options = {word for word in general.replace(",", " ").split() if word.startswith("--")}
    assert options <= {"--config", "--verbose", "--quiet", "--color", "--help", "--help-all"}
    reads_settings = any(name in field.setting.commands for field in SETTING_FIELDS)
    assert ("--quiet" in options) is reads_settings
    assert max(map(len, text.splitlines())) <= 80
    for field in SETTING_FIELDS:
        if name in field.setting.commands:
            flag = field.setting.flag or f"--{field.key}"
            assert re.search(rf" {flag}[ ,\n]", text)
            after = re.split(rf"\n  (?:-\w, )?{flag}[ ,\n]", text)[1]
            row = re.split(r"\n  (?=-)|\n\n", after)[0]
            assert "[default: " in " ".join(row.split()), flag


# --- Examples -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project that the examples are about: `dist` with two wheels, `wheelhouse` and `.venv`."""
    folder = tmp_path_factory.mktemp("examples")
    foo = shared_object(
        folder / "host" / "libfoo.so.1", "int foo_value(void){return 1;}", soname="libfoo.so.1"
    )
    core = extension(folder / "core.so", "_core", needed=[foo], calls=["foo_value"])
    suffix = f"cpython-3{sys.version_info.minor}-x86_64-linux-gnu.so"
    members = {"demo/__init__.py": "", "demo/__main__.py": "import demo._core\n"}
    make_wheel(folder / "dist", tag=TAG, files={**members, f"demo/_core.{suffix}": core})
    make_wheel(folder / "dist", "other", tag=TAG, files={f"other/_core.{suffix}": core})
    done = started("wheelfix repair dist/*.whl", folder)
    assert done.returncode == 0, done.stderr
    venv.create(folder / ".venv", symlinks=True)
    [site] = folder.glob(".venv/lib/python3.*/site-packages")
    [wheel] = folder.glob("wheelhouse/demo-*.whl")
    install(wheel, site)
    return folder


def started(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": warm_path(f"{SCRIPTS}:/usr/bin:/bin"),
        "HOME": str(folder),
        "LD_LIBRARY_PATH": str(folder / "host"),
    }
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_each_command_has_three_examples_in_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name, examples in EXAMPLES.items():
        text = help_of(name, capsys) if name != "wheelfix" else ""
        assert len(examples) == 3
        for example in examples:
            if name != "wheelfix":
                assert f"\n  {example.command}" in text
                assert example.command.startswith(f"wheelfix {name}")


WITH_FINDINGS = {"wheelfix check dist", EXAMPLES["check"][2].command}
"""The wheel in `dist` is not repaired: `check` has an error to report."""


@pytest.mark.each_run("wheelfix [!v]*", "wheelfix verify wheelhouse/[*].whl")
@pytest.mark.parametrize(
    "example",
    {example.command: example for some in EXAMPLES.values() for example in some}.values(),
    ids=lambda example: example.command,
)
def test_each_example_holds(example: Example, project: Path) -> None:
    done = started(example.command, project)
    assert done.returncode == (1 if example.command in WITH_FINDINGS else 0), done
    assert "error: " not in done.stderr
    names = ("report.sarif", "libraries.html", "wheelfix.schema.json")
    written = [project / name for name in names]
    assert done.stdout or done.stderr or any(file.exists() for file in written)
