"""Invariants of the source: below `cli` nothing touches the process; all rules are tested."""

import ast
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from wheelfix.cli.options import with_settings
from wheelfix.rules.plugins import all_rules
from wheelfix.settings import SETTING_FIELDS, Settings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "wheelfix"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = {"__main__.py", "verify_probe.py"}
"""Modules that run as a process: the command line, and the probe of `verify`."""
SHELLS = {"api.py", *PROGRAMS}
"""Modules that may read the process's environment."""
BELOW_CLI = [path for path in SOURCES if "cli" not in path.parts and path.name not in SHELLS]


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
    "os.umask": "changes the process",
    "os.system": "starts a shell",
    "eval": "executes data",
    "exec": "executes data",
}


EXEMPT = {
    "system/tempfiles.py": {"tmpdir"},
    "system/workers.py": {"_end_with_parent"},
    "pipelines/auditwheel_analysis.py": {"analyze", "_end_with_parent"},
}
"""Functions that read TMPDIR, or run only in a worker process, which may change itself."""


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
            case ast.Name() | ast.Attribute():
                name = ast.unparse(node)
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


@pytest.mark.parametrize("path", BELOW_CLI, ids=relative)
def test_nothing_below_the_command_line_touches_the_process(path: Path) -> None:
    exempt = EXEMPT.get(relative(path), set())
    assert list(process_accesses(path.read_text(encoding="utf-8"), exempt)) == []


@pytest.mark.parametrize(
    "source",
    [
        "print(1)",
        "import os\nos.environ['A']",
        "from os import environ",
        "import sys\nsys.exit(1)",
        "raise SystemExit",
        "import os\nos.chdir('/')",
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


def test_every_rule_is_tested() -> None:
    """By its code, its name, or the name of its function; tests of documents do not count."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in Path(__file__).parents[1].rglob("test_*.py")
        if path.name not in {"test_documents.py", "test_source_rules.py"}
    ]
    words = set(re.findall(r"[\w-]+", "".join(texts)))
    untested = [
        rule.code
        for rule in all_rules()
        if words.isdisjoint({rule.code, rule.name, rule.name.replace("-", "_")})
    ]
    assert untested == []


# --- Settings -------------------------------------------------------------------------------------


def test_every_setting_has_a_help_text_and_a_flag_that_shows_it() -> None:
    env = {**os.environ, "COLUMNS": "400", "NO_COLOR": "1"}
    helps = [
        subprocess.run(
            [sys.executable, "-m", "wheelfix", command, "--help"],
            env=env,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for command in ("repair", "check", "diff")
    ]
    shown = re.sub(r"-\s+", "-", " ".join("".join(helps).split()))  # lines end at hyphens
    assert {field.name for field in SETTING_FIELDS} == {field.name for field in fields(Settings)}
    for field in SETTING_FIELDS:
        assert field.setting.help.endswith(".")
        if field.setting.commands:
            assert re.sub(r"-\s+", "-", field.setting.help) in shown, field.name
    assert "as environment variables: `fail-on` as WHEELFIX_FAIL_ON" in shown


@pytest.mark.parametrize("command", ["repair", "check"])
def test_every_setting_has_the_environment_variable_that_help_describes(command: str) -> None:
    """`fail-on` is WHEELFIX_FAIL_ON; auditwheel's own variables are named with their option."""
    options = inspect.signature(with_settings(_command_called(command))).parameters
    for field in SETTING_FIELDS:
        if command in field.setting.commands:
            [option] = options[field.name].annotation.__metadata__
            variable = f"WHEELFIX_{field.key.upper().replace('-', '_')}"
            assert option.envvar == [variable, *filter(None, [field.setting.variable])]


def _command_called(name: str) -> Callable[..., None]:
    def command(**given: object) -> None:
        del given

    command.__name__ = name
    return command
