"""Invariants of the source: below `cli` nothing touches the process; all rules are tested."""

import ast
import inspect
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from itertools import pairwise
from pathlib import Path

import pytest

from wheelfix.cli.app import run
from wheelfix.cli.options import Call, with_options
from wheelfix.settings import SETTING_FIELDS, Settings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "wheelfix"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = {"__main__.py", "import_probe.py"}
"""Modules that run as a process: the command line, and the probe of imports."""
SHELLS = {"api.py", *PROGRAMS}
"""Modules that may read the process's environment."""
COMMANDS = {PACKAGE / "diff" / "command.py", PACKAGE / "trace" / "command.py"}
"""Commands that have a package of their own."""
BELOW_CLI = [
    path
    for path in SOURCES
    if "cli" not in path.parts and path not in COMMANDS and path.name not in SHELLS
]


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


# --- Modules --------------------------------------------------------------------------------------

FORBIDDEN = {
    "print": "prints",
    "input": "reads the terminal",
    "sys.stdout": "prints",
    "sys.stderr": "prints",
    "sys.exit": "exits",
    "exit": "exits",
    "os._exit": "exits",
    "SystemExit": "exits",
    "os.environ": "reads the environment",
    "os.getenv": "reads the environment",
    "os.putenv": "changes the environment",
    "os.chdir": "changes directory",
    "os.getcwd": "reads the current directory",
    "os.path.abspath": "reads the current directory",
    "os.umask": "changes the process",
    "os.system": "starts a shell",
    "eval": "executes data",
    "exec": "executes data",
}


EXEMPT = {
    "system/tempfiles.py": {"tmpdir"},
    "system/workers.py": {"_end_with_parent"},
    "pipelines/ask_auditwheel.py": {"_show"},
    "host/pip_settings.py": {"_absolute"},
    "named_tuple.py": {"_constructor"},
}
"""Functions that read TMPDIR, know what a setting of pip means in the current directory, compile a
text of our own, or run only in a worker process, which may change itself."""


def dotted(node: ast.expr) -> str:
    """Return the name that `node` spells, such as `os.path.abspath`; empty if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def process_accesses(source: str, exempt: Collection[str] = ()) -> Iterator[str]:
    """Yield uses of the process in `source` that only `cli` may make, or none at all."""
    tree = ast.parse(source)
    tree.body = [
        statement
        for statement in tree.body
        if not (isinstance(statement, ast.FunctionDef) and statement.name in exempt)
    ]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="absolute" | "cwd"), args=[]):
                yield f"line {node.lineno}: reads the current directory"
            case ast.Name() | ast.Attribute():
                name = dotted(node)
                if name in FORBIDDEN:
                    yield f"line {node.lineno}: `{name}` {FORBIDDEN[name]}"
            case ast.ImportFrom(module=module):
                for alias in node.names:
                    name = f"{module}.{alias.name}"
                    if name in FORBIDDEN:
                        yield f"line {node.lineno}: `{name}` {FORBIDDEN[name]}"
            case ast.Global():
                yield f"line {node.lineno}: keeps global state"
            case ast.keyword(arg="shell"):
                yield f"line {node.value.lineno}: starts a shell"
            case _:
                pass


def test_nothing_below_the_command_line_touches_the_process() -> None:
    for path in BELOW_CLI:
        exempt = EXEMPT.get(relative(path), set())
        assert list(process_accesses(path.read_text(encoding="utf-8"), exempt)) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "import os\nos.environ['A']",
        "from os import environ",
        "import sys\nsys.exit(1)",
        "raise SystemExit",
        "import os\nos.chdir('/')",
        "import os\nos.getcwd()",
        "from os.path import abspath",
        "from pathlib import Path\nPath.cwd()",
        "from pathlib import Path\nPath('x').absolute()",
        "def f():\n    global x",
        "import subprocess\nsubprocess.run('ls', shell=True)",
    ],
)
def test_an_access_to_the_process_is_detected(source: str) -> None:
    assert list(process_accesses(source))


def test_no_path_of_this_machine_is_in_the_tree() -> None:
    private = re.compile("|".join(re.escape(f"{path}/") for path in (ROOT, Path.home())))
    found = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for folder in ("src", "tests", "scripts", "fixtures")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".toml", ".c", ".txt", ".sh", ".json"}
        for match in private.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize("name", [".venv", ".venv-demo"])
def test_ruff_reads_no_environment_that_a_script_makes(name: str, tmp_path: Path) -> None:
    """Also in an unpacked archive, where there is no git that ignores it."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for folder in (name, "own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "bad.py").write_text("import os,sys")
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [ruff, "check", "--no-cache", "--output-format", "concise"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    found = {line.partition(":")[0] for line in done.stdout.splitlines() if ".py:" in line}
    assert found == {"own/bad.py"}, done.stderr


def test_no_rule_is_a_switch() -> None:
    """What is selected and ignored is read where findings are reported, and nowhere else."""
    read = re.compile(r"\b\w+\.(?:ignore|per_file_ignores|select|extend_select|selectors)\b(?!\()")
    readers = {path.name for path in SOURCES if read.search(path.read_text(encoding="utf-8"))}
    assert readers - {"settings.py"} == {
        "check_content.py",
        "configuration.py",
        "registry.py",
        "run_rules.py",
        "stale_ignores.py",
    }


# --- Words ----------------------------------------------------------------------------------------

VERBS = {
    "adds", "allows", "applies", "as", "becomes", "besides", "brings", "checks", "comes",
    "concerns", "contains", "decides", "drops", "goes",
    "defines", "disables", "does", "exceeds", "excludes", "explains", "fails", "finds", "fixes",
    "gets", "has", "holds", "is", "its", "lacks", "leads", "lies", "lists", "loads", "looks",
    "matches", "moves", "names", "needs", "occurs", "opens", "overlaps", "promises", "provides",
    "reaches", "refers", "refuses", "removes", "requires", "sets", "shows", "silences", "states",
    "takes", "uses", "was", "writes",
}  # fmt: skip
"""Words with the ending of a plural that follow a name."""
AFTER_A_NUMBER = re.compile(r"`? (?:(?:more|of them|other|different|new|whole) )*([a-z]+(?<!s)s)\b")


def plurals(source: str) -> Iterator[str]:
    """Yield the texts of `source` in which a plural follows what is filled in."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for filled, text in pairwise(node.values):
            if not isinstance(filled, ast.FormattedValue) or not isinstance(text, ast.Constant):
                continue
            found = AFTER_A_NUMBER.match(str(text.value))
            if found and found[1] not in VERBS:
                yield f"line {node.lineno}: {ast.unparse(filled.value)}{found[0]}"


def test_each_plural_is_made_by_one_function() -> None:
    """So no message says `1 files`, and none counts thousands without a comma."""
    for path in SOURCES:
        assert list(plurals(path.read_text(encoding="utf-8"))) == [], path


@pytest.mark.parametrize(
    "source",
    [
        "f'{number} files'",
        "f'{len(names):,} libraries are missing'",
        "f'in {number} other wheels'",
        "f'{timeout:g} seconds'",
        "f'`{name}` {times} times'",
        "f'{len(found)} of them libraries'",
    ],
)
def test_a_plural_made_by_hand_is_detected(source: str) -> None:
    assert len(list(plurals(source))) == 1


@pytest.mark.parametrize("source", ["f'{name} has no entry'", "f'{count(n, \"file\")} of {whole}'"])
def test_a_verb_and_a_count_are_not(source: str) -> None:
    assert not list(plurals(source))


# --- Files ----------------------------------------------------------------------------------------

READERS = sorted((PACKAGE / "environments").glob("read_*.py")) + [
    path
    for folder in ("cli", "diff", "host", "pipelines", "providers", "trace")
    for path in sorted((PACKAGE / folder).rglob("*.py"))
    if path.name != "import_probe.py"  # which runs in another Python, and reads its own /proc
]
OWN_FILES = {
    "cli/stdio.py": "opens /dev/null in the place of a closed stream",
    "host/machine_files.py": "the one that opens files of this machine",
    "trace/watch.py": "reads /proc of the processes that it traces, and the logs of a trace",
    "pipelines/apply_edits.py": "maps members that it has copied to its temporary folder",
    "pipelines/debug_files.py": "maps debug files of its own, and those in the output directory",
    "pipelines/graft.py": "reads the copy that it has made",
    "pipelines/repair.py": "reads the wheel that it has written",
}
OPENING = {
    "open", "read_bytes", "read_text", "map_file", "mmap", "copy", "copy2", "copyfile", "copytree",
    "ZipFile", "FileIO", "memmap",
}  # fmt: skip
WRITING = {"wb", "w", "a"}


def opened_files(source: str) -> Iterator[str]:
    """Yield the calls in `source` that open a file by a path, to read it."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func).removeprefix("read_text").rpartition(".")[2]  # of the package
        modes = {a.value for a in node.args if isinstance(a, ast.Constant)}
        is_given = any(
            isinstance(inner, ast.Call) and ast.unparse(inner.func) == "open_regular"
            for argument in node.args
            for inner in ast.walk(argument)
        )
        if name in OPENING and not modes & WRITING and not is_given:
            yield f"line {node.lineno}: `{ast.unparse(node)}`"


def test_one_module_opens_the_files_of_this_machine() -> None:
    """So no FIFO blocks, no device is read, and no other user decides what is in a wheel."""
    for path in READERS:
        found = list(opened_files(path.read_text(encoding="utf-8")))
        assert bool(found) == (relative(path) in OWN_FILES), (path, found)


@pytest.mark.parametrize(
    "source",
    [
        "open('x')",
        "open('x', 'rb')",
        "path.read_bytes()",
        "Path('x').open('rb')",
        "os.open(path, os.O_RDONLY)",
        "shutil.copyfile('x', 'y')",
        "with map_file(path): pass",
        "zipfile.ZipFile(path)",
    ],
)
def test_a_file_that_is_opened_is_detected(source: str) -> None:
    assert list(opened_files(source))


@pytest.mark.parametrize("source", ["path.open('wb')", "ZipFile(open_regular(path))", "f.read(4)"])
def test_output_and_what_is_open_already_are_not(source: str) -> None:
    assert not list(opened_files(source))


# --- Settings -------------------------------------------------------------------------------------


def test_every_setting_has_a_help_text_and_a_flag_that_shows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    for command in ("repair", "check", "diff"):
        assert run([command, "--help-all"]) == 0
    helps = capsys.readouterr().out
    shown = re.sub(r"-\s+", "-", " ".join(helps.split()))  # lines end at hyphens
    assert {field.name for field in SETTING_FIELDS} == {field.name for field in fields(Settings)}
    for field in SETTING_FIELDS:
        assert field.setting.help.endswith(".")
        if field.setting.commands:
            assert re.sub(r"-\s+", "-", field.setting.help) in shown, field.name
    assert "as environment variables: `fail-on` as WHEELFIX_FAIL_ON" in shown


@pytest.mark.parametrize("command", ["repair", "check"])
def test_every_setting_has_the_environment_variable_that_help_describes(command: str) -> None:
    """`fail-on` is WHEELFIX_FAIL_ON; auditwheel's own variables are named with their option."""
    options = inspect.signature(with_options(_command_called(command))).parameters
    for field in SETTING_FIELDS:
        if command in field.setting.commands:
            [option] = options[field.name].annotation.__metadata__
            variable = f"WHEELFIX_{field.key.upper().replace('-', '_')}"
            assert option.envvar == [variable, *filter(None, [field.setting.variable])]


def _command_called(name: str) -> Callable[..., None]:
    def command(call: Call) -> None:
        del call

    command.__name__ = name
    return command
