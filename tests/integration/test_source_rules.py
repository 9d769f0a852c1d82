"""What holds for every rule, module and setting: the invariants of ARCHITECTURE.md."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

from tests.support.build import executable, make_wheel, shared_object
from wheelfix.pipelines.repair import repair
from wheelfix.pipelines.repair_result import Status
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.registry import RULES
from wheelfix.rules.rule import Rule
from wheelfix.settings import SETTING_FIELDS, Settings

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "wheelfix"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PROGRAMS = {"__main__.py", "verify_probe.py"}
"""What runs as a process of its own: the command line, and what `verify` runs elsewhere."""
SHELLS = {"api.py", "tmpdir.py", *PROGRAMS}
"""What speaks to the process, for a terminal or for a Python program, and what asks for TMPDIR."""
BELOW_CLI = [path for path in SOURCES if "cli" not in path.parts and path.name not in SHELLS]
HEADINGS = ["What it does", "Why is this bad?", "Example", "Common causes", "Fix safety"]


def relative(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


# --- Rules ----------------------------------------------------------------------------------------


def test_codes_and_names_of_rules_are_unique_and_of_one_form() -> None:
    for values, form in (
        ([rule.code for rule in RULES], r"WF[1-9]\d\d"),
        ([rule.name for rule in RULES], r"[a-z]+(-[a-z]+)*"),
    ):
        assert len(set(values)) == len(values)
        assert all(re.fullmatch(form, value) for value in values)


def test_every_rule_that_is_written_is_registered() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in (PACKAGE / "rules").glob("*.py"))
    assert set(re.findall(r'@rule\(\s*"(WF\d+)"', text)) == {rule.code for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.code)
def test_a_rule_explains_itself(rule: Rule) -> None:
    first, _, rest = rule.explanation.partition("\n")
    assert re.fullmatch(r"[A-Z].*\.", first), "one sentence"
    parts = re.split(r"^ *## (.+)$", rest, flags=re.MULTILINE)
    assert parts[1::2] == HEADINGS
    assert all(text.strip() for text in parts[2::2]), "no heading without a text"


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


def deeds(source: str) -> Iterator[str]:
    """Yield what `source` does that is the command line's business, or nobody's."""
    for node in ast.walk(ast.parse(source)):
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
    assert list(deeds(path.read_text(encoding="utf-8"))) == []


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
def test_such_a_deed_would_be_seen(source: str) -> None:
    assert list(deeds(source))


def test_no_path_of_the_machine_that_it_was_written_on_is_in_the_tree() -> None:
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
    """By its code, its name, or the name of its check; documents and promises do not count."""
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
        for command in ("repair", "check")
    ]
    shown = " ".join("".join(helps).split())
    assert {field.name for field in SETTING_FIELDS} == {field.name for field in fields(Settings)}
    for field in SETTING_FIELDS:
        assert field.setting.help.endswith(".")
        assert field.setting.help in shown, field.name
        assert f"WHEELFIX_{field.name.upper()}" in shown, field.name


# --- The wheel's code -----------------------------------------------------------------------------


def test_nothing_of_the_wheel_and_nothing_that_is_grafted_is_executed(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    write = f'#include <fcntl.h>\n{{}} {{{{ return open("{proof}", O_CREAT | O_WRONLY, 0600); }}}}'
    alive = write.format("__attribute__((constructor)) static int alive(void)")
    library = shared_object(
        tmp_path / "sdk" / "libalive.so.1",
        f"{alive} int f(void) {{ return 1; }}",
        soname="libalive.so.1",
    )
    user = shared_object(
        tmp_path / "libuser.so",
        f"{alive} int f(void); int g(void) {{ return f(); }}",
        needed=[library],
        rpath=str(library.parent),
    )
    program = executable(tmp_path / "tool", write.format("int main(void)"))
    files: dict[str, Path | str] = {
        "demo/__init__.py": f"open({str(proof)!r}, 'w')",
        "demo/libuser.so": user,
        "demo-1.0.data/scripts/tool": program,
        "demo-1.0.data/scripts/script": f"#!/bin/sh\ntouch {proof}\n",
    }
    wheel = make_wheel(
        tmp_path / "in",
        tag=f"py3-none-linux_{os.uname().machine}",
        files=files,
        modes={"demo-1.0.data/scripts/script": 0o755},
    )
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.status is Status.REPAIRED, outcome.error
    empty = tmp_path / "empty"
    for name in ("", "home", "tmp", "cwd"):
        (empty / name).mkdir()
    env = {**os.environ, "HOME": str(empty / "home"), "TMPDIR": str(empty / "tmp")}
    for command in (
        ["check", wheel],
        ["explain", wheel],
        ["explain", wheel, "demo/libuser.so"],
        ["tree", wheel],
        ["repair", "--dry-run", wheel],
        ["repair", "-w", tmp_path / "out", wheel],
    ):
        argv = [sys.executable, "-m", "wheelfix", *map(str, command)]
        subprocess.run(argv, env=env, cwd=empty / "cwd", check=False, capture_output=True)
    assert not proof.exists()
    left = [path for path in empty.rglob("*") if not path.is_dir()]
    assert left == [], "nothing is written but the wheel"
    subprocess.run([program], check=False)
    assert proof.exists(), "the proof would have been there"
