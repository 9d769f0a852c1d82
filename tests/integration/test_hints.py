"""Every command and option in a message is followed literally, and does what the message says.

The messages are collected from the source: a text that names a command of wheelfix or one of its
options is in one of the tables here, with the case that follows it, the test that does so, or the
reason why there is nothing to follow. What names neither is advice about the build, the machine or
the settings.
"""

# ruff: noqa: E501, PLR0913, PLR0917 - messages and names of tests stand in one line; cases have parts

import ast
import os
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

import wheelfix
from tests.support.build import (
    ONE_FUNCTION,
    executable,
    extension,
    make_wheel,
    shared_object,
    stub_library_with_versions,
)
from tests.support.installers import pip
from wheelfix.cli.app import COMMANDS, run

SOURCE = Path(wheelfix.__file__).parent
TESTS = Path(__file__).parent.parent
MACHINE = os.uname().machine
TAG = f"py3-none-linux_{MACHINE}"
FAST = "verdict = false\n"
"""Settings for cases in which nothing is grafted: auditwheel is not asked."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
Message = tuple[str, str]
"""The module, and the text with `{}` for what is filled in."""


# --- The messages ---------------------------------------------------------------------------------

_HELP = {
    "Option",
    "Setting",
    "_repair_setting",
    "_check_setting",
    "_rule_setting",
    "_graft_setting",
    "_loading_setting",
    "_writing_setting",
    "typer.Option",
    "typer.Argument",
}
"""Calls whose texts are help."""
_HELP_MODULES = {"cli/help_content.py", "cli/help.py", "cli/app.py", "reports/rule_excerpts.py"}
"""Modules that write help and documentation, which are held to the program elsewhere."""


def flags(capsys: pytest.CaptureFixture[str]) -> frozenset[str]:
    """Return the options of all commands, as their help has them."""
    for name in COMMANDS:
        run([name, "--help-all"])
    return frozenset(OPTION.findall(capsys.readouterr().out))


def templates(node: ast.AST) -> Iterator[str]:
    """Yield the texts below `node` that are neither docstrings nor help."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)
            for part in parts:
                if not isinstance(part, ast.Constant):
                    yield from templates(part)
        case ast.Expr(value=ast.Constant()):
            pass
        case ast.Call(func=func) if ast.unparse(func) in _HELP:
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                yield from templates(child)


def messages(known: frozenset[str]) -> dict[Message, None]:
    """Return the texts that name a command of wheelfix, or one of the options `known`."""
    found: dict[Message, None] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module in _HELP_MODULES:
            continue
        for text in templates(ast.parse(path.read_text())):
            if "`wheelfix " in text or known.intersection(OPTION.findall(text)):
                found[module, text] = None
    return found


# --- What a repair promises -----------------------------------------------------------------------


def wheel_of(folder: Path, *, data: dict[str, Path] | None = None, **libraries: Path) -> Path:
    files: dict[str, Path | str] = {f"demo/{path.name}": path for path in libraries.values()}
    files |= {f"demo-1.0.data/data/{name}": path for name, path in (data or {}).items()}
    return make_wheel(folder / "dist", tag=TAG, files={"demo/__init__.py": "", **files})


def searching(path: str) -> Callable[[Path], Path]:
    """A library with this search path."""

    def make(folder: Path) -> Path:
        return wheel_of(folder, one=shared_object(folder / "libone.so", libc=False, runpath=path))

    return make


def linked(folder: Path, name: str, source: str, *needed: Path, **options: Any) -> Path:
    options.setdefault("soname", name)
    return shared_object(folder / name, source, needed=needed, libc=False, **options)


USES = "int f(void); int g(void) { return f(); }"


def unreachable(folder: Path) -> Path:
    one = linked(folder, "libone.so.1", ONE_FUNCTION)
    user = linked(folder, "libuser.so", USES, one)
    files: dict[str, Path | str] = {"demo/libuser.so": user, "demo/deep/libone.so.1": one}
    return make_wheel(folder / "dist", tag=TAG, files=files)


def unreachable_for_a_module(folder: Path) -> Path:
    one = linked(folder, "libone.so.1", ONE_FUNCTION)
    module = extension(folder / "_core.abi3.so", "_core", needed=[one], calls=["f"])
    files: dict[str, Path | str] = {"demo/_core.abi3.so": module, "demo/deep/libone.so.1": one}
    return make_wheel(folder / "dist", tag=TAG, files=files)


def apart(folder: Path) -> Path:
    """A file of the data scheme that needs a library of the package."""
    one = linked(folder, "libone.so.1", ONE_FUNCTION)
    user = linked(folder, "libuser.so", USES, one)
    return wheel_of(folder, one=one, data={"share/demo/libuser.so": user})


def unused(folder: Path) -> Path:
    one = linked(folder, "libone.so.1", ONE_FUNCTION)
    source = "void *PyInit__user(void) { return 0; }"
    user = shared_object(folder / "_user.so", source, needed=[one], runpath="$ORIGIN")
    return wheel_of(folder, one=one, user=user)


def with_libpython(folder: Path) -> Path:
    python = linked(folder, "libpython3.11.so.1.0", ONE_FUNCTION)
    return wheel_of(
        folder, module=extension(folder / "_core.abi3.so", "_core", needed=[python], calls=["f"])
    )


def other_soname(folder: Path) -> Path:
    one = linked(folder, "libone-1.so", ONE_FUNCTION, soname="libone.so.1")
    user = linked(folder, "libuser.so", USES, one, runpath="$ORIGIN")
    return wheel_of(folder, one=one, user=user)


def without_soname(folder: Path) -> Path:
    """A library that was linked by its path, without a SONAME."""
    one = shared_object(folder / "libone.so", libc=False)
    return wheel_of(folder, one=one, user=linked(folder, "libuser.so", USES, one))


def pure(folder: Path) -> Path:
    one = shared_object(folder / "_core.abi3.so", libc=False)
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.abi3.so": one}
    return make_wheel(folder / "dist", tag=TAG, files=files, root_is_purelib=True)


def renamed(folder: Path) -> Path:
    wheel = wheel_of(folder, one=shared_object(folder / "libone.so", libc=False))
    return wheel.rename(wheel.with_name(wheel.name.replace("py3-none", "py2.py3-none")))


def from_an_environment(folder: Path) -> Path:
    url = "demo-1.0.dist-info/direct_url.json"
    files = {"demo/__init__.py": "", url: '{"url": "file:///build/demo", "dir_info": {}}'}
    one = shared_object(folder / "libone.so", libc=False)
    return make_wheel(folder / "dist", tag=TAG, files={**files, "demo/libone.so": one})


def with_symbols(folder: Path) -> Path:
    names = (sha256(str(number).encode()).hexdigest() for number in range(6000))
    source = "".join(f"static __attribute__((used)) int f{name};\n" for name in names)
    return wheel_of(folder, one=shared_object(folder / "libone.so", source))


def of_a_known_provider(folder: Path) -> Path:
    blas = linked(folder, "libcublas.so.12", ONE_FUNCTION)
    module = extension(folder / "_core.abi3.so", "_core", needed=[blas], calls=["f"])
    tag = f"cp311-abi3-manylinux_2_39_{MACHINE}"
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.abi3.so": module}
    return make_wheel(folder / "dist", tag=tag, files=files)


@dataclass(frozen=True, kw_only=True)
class Repair:
    """A wheel with a finding; `wheelfix repair` as in its hint removes it."""

    code: str
    make: Callable[[Path], Path]
    settings: str = FAST
    shown: bool = True
    """Whether `check` says so; otherwise only the rejection by a repair does."""


DROPS = "`wheelfix repair` drops it"
REPAIRS: dict[Message, Repair] = {
    ("rules/bundled_not_found.py", "`wheelfix repair` adds the entry `{}`"): Repair(
        code="WF101", make=unreachable
    ),
    ("rules/bundled_not_found.py", "`wheelfix repair` adds entries or copies"): Repair(
        code="WF103", make=apart
    ),
    ("rules/search_paths.py", DROPS): Repair(
        code="WF115", make=searching("$ORIGIN/../../../../..")
    ),
    ("rules/search_paths.py", f"{DROPS}; to keep it, add it to `keep-entries`"): Repair(
        code="WF111", make=searching("/nowhere/lib")
    ),
    ("rules/search_paths.py", f"{DROPS}; keep it with `keep-entries`"): Repair(
        code="WF116", make=searching("$ORIGIN/none")
    ),
    ("rules/search_paths.py", "`wheelfix repair` drops the repetition"): Repair(
        code="WF117", make=searching("$ORIGIN:$ORIGIN")
    ),
    ("rules/search_paths.py", "`wheelfix repair` writes `{}`"): Repair(
        code="WF114", make=searching("$$ORIGIN")
    ),
    (
        "rules/needed_entries.py",
        "`wheelfix repair` drops the entry; linking with `-Wl,--as-needed` avoids it",
    ): Repair(code="WF201", make=unused),
    ("rules/needed_entries.py", "`wheelfix repair` drops the entry"): Repair(
        code="WF205", make=with_libpython
    ),
    ("rules/sonames.py", "`wheelfix repair` changes their DT_NEEDED to the file name"): Repair(
        code="WF313", make=other_soname
    ),
    ("rules/metadata.py", "`wheelfix repair` sets it to `false`"): Repair(code="WF503", make=pure),
    (
        "rules/metadata.py",
        "build it again; if the file name is right, `wheelfix repair --unsafe-fixes`",
    ): Repair(code="WF504", make=renamed),
    (
        "rules/leftovers.py",
        "`wheelfix repair` removes it; do not pack wheels from installed packages",
    ): Repair(code="WF517", make=from_an_environment),
    ("rules/size.py", "`wheelfix repair --strip{}` removes them"): Repair(
        code="WF702", make=with_symbols
    ),
    ("rules/auditwheel_verdict.py", "`wheelfix repair {}` loads it from there"): Repair(
        code="WF805", make=of_a_known_provider, settings=""
    ),
}


def test_a_path_that_begins_with_a_hyphen_is_no_option_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "it is"
    wheel = searching("/nowhere/lib")(folder)
    wheel.parent.rename(folder / "-d")
    monkeypatch.chdir(folder)
    Path("wheelfix.toml").write_text(FAST)
    (hint,) = said_of(Path("-d", wheel.name), "WF111", capsys, "--")
    assert run([*shlex.split(hint.split("`")[1])[1:], "-w", "out"]) == 0
    assert run(["why", "--", *[f"-d/{wheel.name}"] * 2]) == 2
    assert f"wheelfix why ./-d/{wheel.name} libfoo" in capsys.readouterr().err


def said_of(wheel: Path, code: str, capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Return the hints on findings of one rule; `words` stand before the wheel."""
    run(["check", "-v", "--select", code, "--fail-on", "never", *words, str(wheel)])
    out = capsys.readouterr().out
    return [line.removeprefix("hint: ") for line in out.splitlines() if line.startswith("hint: ")]


def pattern(template: str) -> re.Pattern[str]:
    """Return what matches the text of `template`, in which commands name their wheel."""
    words = (re.escape(part).replace("`", "[^`]*`") for part in template.split("{}"))
    return re.compile(".*".join(words).replace(r"wheelfix\ repair", r"wheelfix\ repair[^`]*"))


@pytest.mark.parametrize("message", REPAIRS, ids=lambda m: f"{REPAIRS[m].code}-{m[1][:40]}")
def test_a_repair_does_what_its_hint_says(
    message: Message,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = REPAIRS[message]
    wheel = case.make(tmp_path)
    (tmp_path / "wheelfix.toml").write_text(case.settings)
    monkeypatch.chdir(tmp_path)
    hints = said_of(wheel.relative_to(tmp_path), case.code, capsys)
    (hint,) = {hint for hint in hints if pattern(message[1]).fullmatch(hint)}
    (command,) = [span for span in hint.split("`")[1::2] if span.startswith("wheelfix ")]
    assert run([*shlex.split(command)[1:], "-w", "out"]) == 0, capsys.readouterr().err
    (written,) = (tmp_path / "out").glob("*.whl")
    capsys.readouterr()
    assert said_of(written, case.code, capsys) == []


# --- What another call promises -------------------------------------------------------------------


def plain(folder: Path) -> Path:
    return wheel_of(folder, one=shared_object(folder / "libone.so", libc=False))


def sources(folder: Path) -> Path:
    return make_wheel(folder / "dist", tag="py3-none-any", files={"demo/__init__.py": ""})


def lost(folder: Path) -> Path:
    """A module whose library is in the folder `lib` of the build alone."""
    one = linked(folder / "lib", "libone.so.1", ONE_FUNCTION)
    module = extension(folder / "_core.abi3.so", "_core", needed=[one], calls=["f"])
    return wheel_of(folder, module=module)


def beside_an_unlinked_library(folder: Path) -> Path:
    linked(folder / "lib", "libextra.so.1", ONE_FUNCTION)
    return plain(folder)


def gone(folder: Path) -> Path:
    wheel = lost(folder)
    (folder / "lib/libone.so.1").unlink()
    return wheel


def with_another_record(folder: Path, make: Callable[[Path], Path] = sources) -> Path:
    wheel = make(folder)
    other = folder / "other.whl"
    with zipfile.ZipFile(wheel) as read, zipfile.ZipFile(other, "w") as write:
        for name in read.namelist():
            write.writestr(name, read.read(name) + b"#" * name.endswith("__init__.py"))
    return other.replace(wheel)


@dataclass(frozen=True, kw_only=True)
class Call:
    """A call that is refused, or reports something; as its hint says, it is not."""

    make: Callable[[Path], Path]
    first: str
    """The arguments; `WHEEL` stands for the wheel."""
    then: str
    """The arguments as the hint says."""
    words: str = ""
    """What of them the hint has; by default all that is new."""


def opening_a_library(folder: Path) -> Path:
    """A package that opens a library beside it, which is in the folder `lib` of the build."""
    linked(folder / "lib", "libextra.so", ONE_FUNCTION)
    source = (
        "import ctypes, os\nctypes.CDLL(os.path.join(os.path.dirname(__file__), 'libextra.so'))\n"
    )
    one = shared_object(folder / "libone.so", libc=False)
    files: dict[str, Path | str] = {"demo/__init__.py": source, "demo/libone.so": one}
    return make_wheel(folder / "dist", tag=TAG, files=files)


def of_a_provider_in_the_environment(folder: Path) -> Path:
    tbb = linked(folder, "libtbb.so.12", ONE_FUNCTION)
    module = extension(folder / "_core.abi3.so", "_core", needed=[tbb], calls=["f"])
    return wheel_of(folder, module=module)


CALLS: dict[Message, Call] = {
    ("providers/well_known.py", "--data-libraries={}"): Call(
        make=of_a_provider_in_the_environment,
        first="repair WHEEL",
        then="repair WHEEL --provider tbb --data-libraries=search --add-requires",
    ),
    ("analysis/ungraftable_libraries.py", "--exclude {}"): Call(
        make=gone, first="repair WHEEL", then="repair WHEEL --exclude libone.so.1"
    ),
    ("providers/well_known.py", "--add-requires"): Call(
        make=of_a_known_provider,
        first="repair WHEEL",
        then="repair WHEEL --provider nvidia-cublas-cu12 --add-requires",
    ),
    (
        "pipelines/graft_included.py",
        "`wheelfix repair --library-path FOLDER`, if FOLDER has it; or give its path",
    ): Call(
        make=beside_an_unlinked_library,
        first="repair WHEEL --include libextra.so.1",
        then="repair WHEEL --include libextra.so.1 --library-path lib",
        words="--library-path",
    ),
    (
        "analysis/ungraftable_libraries.py",
        "{}--library-path FOLDER`, if FOLDER has {}",
    ): Call(
        make=lost,
        first="repair WHEEL",
        then="repair WHEEL --library-path lib",
        words="--library-path",
    ),
    (
        "rules/needed_entries.py",
        (
            "pass directories or wheels that have them with `--library-path`; `wheelfix repair` also "
            "looks among the libraries of this machine"
        ),
    ): Call(
        make=lost,
        first="check --select WF203 --fail-on note WHEEL",
        then="check --select WF203 --fail-on note WHEEL --library-path lib",
        words="--library-path",
    ),
    (
        "rules/undefined_symbols.py",
        "pass the libraries with `--library-path`",
    ): Call(
        make=lost,
        first="check --select WF302 --fail-on note WHEEL",
        then="check --select WF302 --fail-on note WHEEL --library-path lib",
        words="--library-path",
    ),
    (
        "pipelines/repair_refusals.py",
        "--allow-pure-python-wheel accepts wheels with the platform tag `any`",
    ): Call(make=sources, first="repair WHEEL", then="repair WHEEL --allow-pure-python-wheel"),
    (
        "pipelines/repair_refusals.py",
        "build the wheel again; if you know and trust the change, --trust-files corrects RECORD",
    ): Call(
        make=with_another_record,
        first="repair --allow-pure-python-wheel WHEEL",
        then="repair --allow-pure-python-wheel WHEEL --trust-files",
    ),
    ("rules/metadata.py", ", as does `wheelfix repair --trust-files`"): Call(
        make=partial(with_another_record, make=lost),
        first="check --select WF501 WHEEL",
        then="repair --trust-files --library-path lib WHEEL",
        words="--trust-files",
    ),
    ("pipelines/repair_refusals.py", 'strip = "debug" in [tool.wheelfix], or --strip=debug'): Call(
        make=plain,
        first="repair --debug-symbols symbols WHEEL",
        then="repair --debug-symbols symbols WHEEL --strip=debug",
    ),
    (
        "pipelines/repair_refusals.py",
        "--patcher auto (the default) makes them, --dry-run then lists them",
    ): Call(
        make=unreachable_for_a_module,
        first="repair --patcher none WHEEL",
        then="repair WHEEL --patcher auto --dry-run",
        words="--patcher auto",
    ),
    (
        "pipelines/repair_refusals.py",
        "leave out --plat, or name a platform of the wheel's own architecture and libc",
    ): Call(
        make=plain,
        first=f"repair --plat manylinux_2_28_{'aarch64' if MACHINE != 'aarch64' else 'x86_64'} WHEEL",
        then="repair WHEEL",
        words="leave out --plat",
    ),
    (
        "cli/commands/check.py",
        "--baseline wheelfix-baseline.json, or `baseline` in [tool.wheelfix]",
    ): Call(
        make=plain,
        first="check --write-baseline WHEEL",
        then="check --write-baseline WHEEL --baseline wheelfix-baseline.json",
    ),
    (
        "cli/commands/check.py",
        "use a separate run; `--report jsonl=FILE` works with the other formats",
    ): Call(
        make=sources,
        first="check --output-format jsonl --report json=other WHEEL",
        then="check WHEEL --report jsonl=FILE",
    ),
    ("cli/commands/check.py", "create it with --write-baseline"): Call(
        make=plain,
        first="check --baseline none.json WHEEL",
        then="check --baseline none.json WHEEL --write-baseline",
    ),
    ("rules/baseline.py", "create it again with --write-baseline"): Call(
        make=plain,
        first="check --baseline wheelfix.toml.bad WHEEL",
        then="check --baseline wheelfix.toml.bad WHEEL --write-baseline",
    ),
    ("cli/installation_options.py", "--env LD_LIBRARY_PATH=/opt/lib"): Call(
        make=plain,
        first="explain --env nothing WHEEL",
        then="explain WHEEL --env LD_LIBRARY_PATH=/opt/lib",
    ),
    ("cli/config/values.py", "`wheelfix rule --all` lists the rules"): Call(
        make=plain, first="rule zzzzzzzz", then="rule --all"
    ),
    ("cli/commands/init.py", "`wheelfix init --stdout` prints what could be added"): Call(
        make=plain, first="init", then="init --stdout"
    ),
}


@pytest.mark.parametrize("message", CALLS, ids=lambda m: m[1][:50])
def test_a_call_as_its_hint_says_is_not_refused(
    message: Message,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = CALLS[message]
    wheel = case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    Path("wheelfix.toml").write_text("")
    Path("wheelfix.toml.bad").write_text('{"version": 99, "findings": []}')
    Path("list").write_text(f"{wheel}\n")
    first, then = (
        shlex.split(text.replace("WHEEL", str(wheel))) for text in (case.first, case.then)
    )
    assert run(first) != 0
    streams = capsys.readouterr()
    new = case.words or shlex.join(word for word in then if word not in first)
    assert new in " ".join((streams.err + streams.out).split())
    assert run(then) == 0, capsys.readouterr()


OLDEST = f"manylinux_2_{5 if MACHINE in {'x86_64', 'i686'} else 17}_{MACHINE}"
"""The oldest policy for this machine."""
NEAR_MISSES = {
    "the option is named, not the command line": (
        "check --select WF9999 WHEEL",
        "--select: no rule has the code",
        "check --fail-on never --select WF901 WHEEL",
    ),
    "a value without its rule": (
        "check --unfixable WF201 WHEEL",
        "such as '*:WF201'",
        "check --fail-on never --unfixable '*:WF201' WHEEL",
    ),
    "a severity without its rule": (
        "check --severity error WHEEL",
        "such as 'WF111=error'",
        "check --fail-on never --severity 'WF111=error' WHEEL",
    ),
    "a platform without its architecture": (
        "repair --plat manylinux_2_28 WHEEL",
        f"choose `manylinux_2_28_{MACHINE}`",
        f"repair --plat manylinux_2_28_{MACHINE} WHEEL",
    ),
    "a platform of no list": (
        "repair --plat foo WHEEL",
        f", {OLDEST}\n",
        f"repair --plat {OLDEST} WHEEL",
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_is_nearly_right_has_the_right_form_in_its_hint(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, said, then = NEAR_MISSES[name]
    wheel = str(plain(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(shlex.split(first.replace("WHEEL", wheel))) == 2
    assert said in capsys.readouterr().err
    assert run(shlex.split(then.replace("WHEEL", wheel))) == 0, capsys.readouterr().err


def test_the_reason_why_no_repair_is_possible_is_said_whatever_its_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = str(with_another_record(tmp_path, lost))
    words = ("--library-path", str(tmp_path / "lib"))
    run(["check", "--select", "WF804", "--fail-on", "never", wheel, *words])
    said = capsys.readouterr().out
    assert "RECORD disagrees with the files: `demo/__init__.py`" in said
    assert "--trust-files corrects RECORD" in said
    assert "wheelfix rule" not in said
    assert run(["repair", "--trust-files", wheel, *words]) == 0


def test_a_graft_is_kept_out_as_why_and_the_rule_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """By one setting, for a repair of the wheel as it was built."""
    monkeypatch.chdir(tmp_path)
    Path("wheelfix.toml").write_text('library-path = ["lib"]\ngrafts = ["none"]\n')
    wheel = str(lost(tmp_path))
    assert run(["repair", wheel]) == 1
    refused = " ".join("".join(capsys.readouterr()).split())
    Path("wheelfix.toml").write_text('library-path = ["lib"]\n')
    assert run(["repair", wheel]) == 0
    (whole,) = map(str, Path("wheelhouse").iterdir())
    capsys.readouterr()
    assert run(["why", whole, "libone"]) == 0
    *_, source, keep_out = capsys.readouterr().out.splitlines()
    assert source == "  from       not known"
    setting = 'exclude = ["*libone.so*"]'
    way = f"repair the wheel as it was built, with `{setting}` in [tool.wheelfix]"
    assert keep_out == f"  keep out   {way}"
    assert f"or {way}" in refused
    Path("wheelfix.toml").write_text(f'library-path = ["lib"]\n{setting}\ngrafts = ["none"]\n')
    assert run(["repair", wheel, "-w", "without"]) == 0


def test_a_library_that_a_path_opens_is_grafted_there_by_two_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = str(opening_a_library(tmp_path).relative_to(tmp_path))
    assert run(["repair", wheel]) != 0
    said = " ".join("".join(capsys.readouterr()).split())
    include = '`include = ["libextra.so"]` in [tool.wheelfix]'
    assert f"graft it there: {include}, and the folder that has it in `library-path`" in said
    Path("wheelfix.toml").write_text('include = ["libextra.so"]\nlibrary-path = ["lib"]\n')
    assert run(["repair", wheel]) == 0


def test_a_library_whose_file_has_another_name_is_kept_out_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel, library = str(lost(tmp_path)), tmp_path / "lib/libone.so.1"
    library.rename(library.with_name("libother-r0.3.so"))
    library.symlink_to("libother-r0.3.so")
    words = ("--library-path", "lib", "--graft", "none")
    assert run(["repair", wheel, *words]) == 1
    setting = re.findall("`(exclude = [^`]*)`", capsys.readouterr().err)[0]
    Path("wheelfix.toml").write_text(setting)
    assert run(["repair", wheel, *words]) == 0


def needing_a_newer_library(folder: Path, calls: Sequence[str]) -> Path:
    """A wheel whose own object satisfies its tag; a library that it needs has a newer symbol."""
    library = shared_object(
        folder / "lib" / "libk.so.1",
        "#include <dlfcn.h>\nint k(void) { return dlerror() != 0; }"
        "__attribute__((constructor)) static void made(void) { k(); }",
        soname="libk.so.1",
    )
    module = extension(
        folder / "_core.so", "_core", needed=[library], rpath=str(library.parent), calls=calls
    )
    tag = f"py3-none-manylinux2014_{MACHINE}"
    return make_wheel(folder / "dist", tag=tag, files={"demo/_core.so": module})


def test_a_tag_that_a_graft_breaks_can_be_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not given up unasked: an older library, or none, would satisfy it."""
    monkeypatch.chdir(tmp_path)
    wheel = needing_a_newer_library(tmp_path, calls=("k",))
    assert run(["repair", str(wheel)]) == 1
    (command,) = re.findall("`(wheelfix repair [^`]*--only-plat[^`]*)`", capsys.readouterr().err)
    assert run(shlex.split(command)[1:]) == 0
    (written,) = Path("wheelhouse").iterdir()
    assert written.name.endswith(f"-manylinux_2_34_{MACHINE}.whl")


@pytest.mark.parametrize("words", [["repair"], ["check"], ["repair", "--plat", "manylinux2014_{}"]])
def test_an_unused_library_that_needs_a_newer_platform_can_be_left_out(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
) -> None:
    """It is kept for its constructors; the plan of the repair shows that the tag is met without."""
    monkeypatch.chdir(tmp_path)
    wheel = str(needing_a_newer_library(tmp_path, calls=()))
    assert run([word.format(MACHINE) for word in words] + [wheel]) != 0
    said = capsys.readouterr()
    (command,) = re.findall("`(wheelfix repair [^`]*--drop-needed[^`]*)`", said.out + said.err)
    command = " ".join(command.split())
    call = shlex.split(command)[1:]
    assert run(call if wheel in call else [*call, wheel]) == 0
    (written,) = Path("wheelhouse").iterdir()
    assert written.name == Path(wheel).name


def test_a_wheel_in_the_folder_for_repaired_ones_is_repaired_into_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wheelfix.toml").write_text(FAST)
    wheel = searching("/nowhere/lib")(tmp_path)
    name = wheel.name.replace("linux_", "manylinux_2_17_")
    Path("wheelhouse").mkdir()
    (hint,) = said_of(wheel.rename(tmp_path / "wheelhouse" / name), "WF111", capsys)
    command = hint.split("`")[1]
    assert run(shlex.split(command)[1:]) == 0
    assert [path.name for path in Path("repaired").iterdir()] == [name]


@pytest.mark.parametrize("code", ["WF603", "lock"])
def test_the_command_of_a_repair_has_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str
) -> None:
    monkeypatch.chdir(tmp_path)
    library = linked(tmp_path / "lib", "libgone.so.3", ONE_FUNCTION)
    module = extension(
        tmp_path / "_core.abi3.so",
        "_core",
        needed=[library],
        calls=["f"],
        flags=["-Wl,-z,execstack"] * (code == "WF603"),
    )
    files: dict[str, Path | str] = {"demo/_core.abi3.so": module}
    wheel = make_wheel(tmp_path / "dist", tag=f"cp311-abi3-linux_{MACHINE}", files=files)
    options = ["--library-path", "lib", "--locked"] if code == "lock" else ["--exclude", "libgone*"]
    run(["repair", *options, "-w", "out", str(wheel)])
    assert not list(Path().glob("out/*.whl"))
    said = " ".join(capsys.readouterr().err.split())
    (command,) = re.findall("`(wheelfix repair [^`]*)`", said)
    assert run(shlex.split(command)[1:]) == 0
    assert len(list(Path("out").iterdir())) == 1


def needing(folder: Path, *names: str) -> Path:
    """A wheel with a module that needs some libraries which are nowhere."""
    sources = (f"int f{number}(void) {{ return 1; }}" for number, _ in enumerate(names))
    libraries = [linked(folder, *both) for both in zip(names, sources, strict=True)]
    calls = [f"f{number}" for number, _ in enumerate(names)]
    module = extension(folder / "_core.abi3.so", "_core", needed=libraries, calls=calls)
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.abi3.so": module}
    for library in libraries:
        library.unlink()
    return make_wheel(folder / "dist", tag=f"cp311-abi3-manylinux_2_39_{MACHINE}", files=files)


@pytest.mark.parametrize(
    ("names", "said", "options"),
    [
        (
            ["libcublas.so.12", "libnowhere.so.1"],
            "a repair with `--provider nvidia-cublas-cu12 --add-requires` loads it from there",
            "--provider nvidia-cublas-cu12 --add-requires --exclude libnowhere.so.1",
        ),
        (
            ["libnccl.so.2"],
            "to leave it there, `--add-requires --provider` with that of the wheel's build",
            "--exclude libnccl.so.2",
        ),
    ],
)
def test_what_may_be_left_to_others_is_one_command_for_all_under_its_condition(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
    said: str,
    options: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = str(needing(tmp_path, *names))
    run(["check", "-v", "--select", "WF805", "--fail-on", "never", wheel])
    shown = capsys.readouterr().out
    assert said in shown
    condition, text = (
        "if another wheel or the user's machine has (?:it|them): ",
        " ".join(shown.split()),
    )
    there = f"{condition}`wheelfix ((?:check|repair) [^`]*{re.escape(options)} [^`]*)`"
    (command,) = re.findall(there, text)
    assert "wheelfix repair --provider" not in shown, "that of one library alone"
    assert run(shlex.split(command)) == 0


def test_a_wheel_that_leaves_a_library_out_is_checked_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same repair again would change nothing: `check` and the settings take the option."""
    monkeypatch.chdir(tmp_path)
    assert run(["repair", "--exclude", "libone.so.1", str(gone(tmp_path))]) == 0
    (made,) = Path("wheelhouse").glob("*.whl")
    capsys.readouterr()
    assert run(["check", str(made)]) == 1
    shown = " ".join(capsys.readouterr().out.split())
    assert "`wheelfix repair --exclude" not in shown
    (command,) = re.findall(f"machine has it: `wheelfix (check [^`]*{made.name})`", shown)
    assert run(shlex.split(command)) == 0
    (setting,) = re.findall(r"set `(exclude = [^`]*)` in \[tool.wheelfix\]", shown)
    Path("pyproject.toml").write_text(f"[tool.wheelfix]\n{setting}\n")
    assert run(["check", str(made)]) == 0


def test_an_option_that_is_not_all_is_no_whole_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = linked(tmp_path / "lib", "libone.so.1", ONE_FUNCTION)
    options: dict[str, Any] = {"needed": [one], "calls": ["f"], "flags": ["-Wl,-z,execstack"]}
    a, b = (extension(tmp_path / f"{name}.abi3.so", name, **options) for name in ("a", "b"))
    wheel = str(wheel_of(tmp_path, a=a, b=b))
    run(["check", "-v", "--fail-on", "never", wheel])
    shown = capsys.readouterr().out
    assert "a repair with `--clear-execstack a.abi3.so --clear-execstack b.abi3.so`" in shown
    assert "`wheelfix repair --clear" not in shown
    run(["check", "-v", "--select", "WF603", "--library-path", "lib", wheel])
    (command,) = set(re.findall("`(wheelfix repair [^`]*)`", capsys.readouterr().out))
    assert run(shlex.split(command)[1:]) == 0


def with_constructors(folder: Path) -> Path:
    """A module with a library that it does not use, with constructors and a newer glibc."""
    libc = stub_library_with_versions(
        folder / "libc.so.6", "libc.so.6", {"GLIBC_2.2.5": ["f"], "GLIBC_2.33": ["stat"]}
    )
    source = "int stat(void); __attribute__((constructor)) static void begin(void) { stat(); }"
    one = linked(folder / "lib", "libone.so.1", source, libc)
    module = extension(folder / "_core.abi3.so", "_core", needed=[one])
    return wheel_of(folder, module=module)


def test_a_library_that_was_grafted_unused_is_dropped_from_the_wheel_as_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheel = str(with_constructors(tmp_path))
    assert run(["repair", wheel, "--library-path", "lib"]) == 0
    (hint,) = said_of(Path("wheelhouse"), "WF202", capsys)
    assert hint.startswith("a repair of the wheel as it was built with `--drop-needed ")
    drop, keep = (shlex.split(span) for span in hint.split("`")[1::2])
    assert said_of(Path("wheelhouse"), "WF202", capsys, *keep) == []
    assert run(["repair", wheel, "--library-path", "lib", "-w", "out", *drop]) == 0
    ((before,), (after,)) = (Path(name).glob("*.whl") for name in ("wheelhouse", "out"))
    assert "manylinux_2_5_" not in before.name
    assert "manylinux_2_5_" in after.name
    with zipfile.ZipFile(after) as archive:
        assert not [name for name in archive.namelist() if "libone" in name]


def test_why_promises_no_repair_that_fails_or_leaves_the_library_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    wheel = lost(tmp_path)
    run(["why", str(wheel), "libone"])
    shown = capsys.readouterr()
    assert f"`wheelfix repair --library-path FOLDER {wheel}`, if FOLDER has it" in shown.out
    condition = "if another wheel or the user's machine has it: "
    assert f"{condition}`wheelfix repair --exclude libone.so.1 {wheel}`" in shown.out
    assert shown.out.count("wheelfix repair") == 2
    assert "\\n" not in shown.err
    assert run(["why", str(wheel), "libone", "--library-path", str(tmp_path / "lib")]) == 0
    assert "a repair grafts it" in capsys.readouterr().out
    driver = linked(tmp_path / "driver", "libcuda.so.1", ONE_FUNCTION)
    module = extension(tmp_path / "driver" / "_core.abi3.so", "_core", needed=[driver], calls=["f"])
    assert run(["why", str(wheel_of(tmp_path / "driver", module=module)), "libcuda"]) == 0
    assert "wheelfix repair" not in capsys.readouterr().out


def of_two_distributions(folder: Path, version: str) -> tuple[Path, Path]:
    """A wheel that was built with `libcore.so.1` of core 1.0, and core of some version."""
    one = linked(folder, "libcore.so.1", ONE_FUNCTION)
    options: dict[str, Any] = {"needed": [one], "calls": ["f"], "runpath": "$ORIGIN/../core"}
    module = extension(folder / "_core.abi3.so", "_core", **options)
    files: dict[str, Path | str] = {"demo/__init__.py": "", "demo/_core.abi3.so": module}
    user = make_wheel(folder, tag=TAG, files=files, metadata=f"Requires-Dist: core=={version}\n")
    new = linked(folder / version, f"libcore.so.{version[0]}", ONE_FUNCTION)
    core: dict[str, Path | str] = {"core/__init__.py": "", f"core/{new.name}": new}
    return user, make_wheel(folder / version, "core", version, TAG, core)


def test_another_release_of_a_requirement_is_named_and_the_right_one_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    said = "core 2.0 has `libcore.so.2`: require a release that has `libcore.so.1`, or build"
    user, core = map(str, of_two_distributions(tmp_path, "2.0"))
    for command in ("check", "repair", "why"):
        run([command, "--with", core, user, *(["libcore"] if command == "why" else [])])
        shown = "".join(capsys.readouterr())
        assert said in " ".join(shown.split())
        assert "--provider" not in shown
    tagged = Path(user).rename(user.replace("linux_", "manylinux_2_17_"))
    assert run(["check", "--select", "WF805", "--with", core, str(tagged)]) == 1
    assert said in capsys.readouterr().out
    user, core = map(str, of_two_distributions(tmp_path, "1.0"))
    assert run(["repair", "--with", core, user]) == 0
    assert run(["check", "--with", core, "wheelhouse"]) == 0


def test_a_requirement_that_is_not_installed_is_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    user, core = of_two_distributions(tmp_path, "1.0")
    site = tmp_path / "site"
    assert pip("install", "--no-deps", "--no-index", "--target", site, user).returncode == 0
    odd = site / "odd name-.dist-info"
    odd.mkdir()
    (odd / "RECORD").write_text("demo/_core.abi3.so,,\n")
    assert run(["explain", "--site", str(site), "demo._core"]) == 1
    command = capsys.readouterr().out.rstrip().rpartition(": pip ")[2]
    options = ("--no-index", "--find-links", core.parent, "--target", site)
    assert pip(*shlex.split(command), *options).returncode == 0
    assert run(["explain", "--site", str(site), "demo._core"]) == 0


# --- What `diff` says -----------------------------------------------------------------------------

PLATFORM = f"manylinux_2_17_{MACHINE}"
DIFF_MODULES = (
    "diff/changes.py",
    "diff/wheels_of_releases.py",
    "diff/command.py",
    "cli/wheel_paths.py",
)
CLAIM = re.compile(r"\bpip\b|dependents|does not load|fails with|max-growth")
"""What a change means for others, or the setting that allows it."""


def of_releases(folder: Path, old: Path | str = "", new: Path | str = "", at: str = "demo") -> None:
    """Write two releases with one file each, the new one in the folder `at`."""
    for version, file, place in (("1", old, "demo"), ("2", new, at)):
        files: dict[str, Path | str] = {"demo/__init__.py": ""}
        if isinstance(file, Path):
            files[f"{place}/{file.name}"] = file
        tag = f"py3-none-{PLATFORM}" if isinstance(file, Path) or not file else file
        make_wheel(folder / version, version=version, tag=tag, files=files)


def shown_by_diff(capsys: pytest.CaptureFixture[str], *options: str) -> str:
    run(["diff", "1", "2", *options])
    return capsys.readouterr().out


def starts(program: Path, *folders: Path) -> bool:
    path = ":".join(map(str, folders))
    environ = {**os.environ, "LD_LIBRARY_PATH": path, "LD_BIND_NOW": "1"}
    return subprocess.run([program], env=environ, capture_output=True, check=False).returncode == 1


def program(folder: Path, library: Path, **options: Any) -> Path:
    source = "int f(void); int main(void) { return f(); }"
    return executable(folder / "user", source, needed=[library], **options)


@pytest.mark.parametrize(
    ("soname", "source", "said"),
    [
        ("libother.so.1", ONE_FUNCTION, "what is linked with `libone.so.1` does not load"),
        ("libone.so.2", ONE_FUNCTION, "what is linked with the old one does not load"),
        ("libone.so.1", "int g(void) { return 1; }", "fails with `undefined symbol`"),
    ],
)
def test_a_program_of_the_old_release_fails_as_diff_says(
    soname: str,
    source: str,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    old = linked(tmp_path / "a", "libone.so.1", ONE_FUNCTION)
    new = linked(tmp_path / "b", soname, source)
    of_releases(tmp_path, old, new)
    assert said in shown_by_diff(capsys)
    user = program(tmp_path, old)
    assert starts(user, old.parent)
    assert not starts(user, new.parent)


def test_a_search_path_leads_to_the_old_place_of_a_moved_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = linked(tmp_path / "a", "libone.so.1", ONE_FUNCTION)
    of_releases(tmp_path, one, one, at="demo/lib")
    assert "search paths of dependents lead to its old place" in shown_by_diff(capsys)
    user = program(tmp_path, one, runpath="$ORIGIN/demo")
    for release, loads in (("1", True), ("2", False)):
        (wheel,) = (tmp_path / release).glob("*.whl")
        target = tmp_path / f"installed{release}"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
        assert starts(user.rename(target / "user")) == loads
        user = target / "user"


@pytest.mark.parametrize(
    ("old", "new", "said", "where"),
    [
        (
            f"py3-none-{PLATFORM}",
            f"py3-none-manylinux_2_28_{MACHINE}",
            "pip no longer installs it with glibc 2.17",
            ("311", PLATFORM),
        ),
        (
            f"cp311-abi3-{PLATFORM}",
            f"cp312-abi3-{PLATFORM}",
            "pip no longer installs it for `python3.11`",
            ("311", PLATFORM),
        ),
        (
            f"cp312-abi3-{PLATFORM}",
            f"cp311-abi3-{PLATFORM}",
            "pip also installs it for `python3.11`",
            ("311", PLATFORM),
        ),
    ],
)
def test_pip_installs_what_diff_says(
    old: str,
    new: str,
    said: str,
    where: tuple[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    of_releases(tmp_path, old, new)
    assert said in shown_by_diff(capsys)
    python, platform = where
    options = ("--no-deps", "--no-index", "--python-version", python, "--platform", platform)
    takes = [
        pip("download", "-q", *options, "-d", "got", "--find-links", release, "demo").returncode
        for release in ("1", "2")
    ]
    assert [code == 0 for code in takes] == [("also" not in said), ("also" in said)]


def test_pip_warns_of_an_extra_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    make_wheel(tmp_path / "1", version="1", tag="py3-none-any", metadata="Provides-Extra: gui\n")
    make_wheel(tmp_path / "2", version="2", tag="py3-none-any")
    assert "extra `gui` is gone: pip only warns" in shown_by_diff(capsys)
    done = pip("install", "--no-index", "--target", "to", "--find-links", "2", "demo[gui]")
    assert (done.returncode, "does not provide the extra 'gui'" in done.stderr) == (0, True)


@pytest.mark.parametrize("is_same", [True, False])
def test_pip_installs_a_wheel_that_needs_more_than_its_tag_says(
    *,
    is_same: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    versions = {"GLIBC_2.2.5": ["f"], "GLIBC_2.28": ["h"], "GLIBC_2.33": ["i"]}
    libc = stub_library_with_versions(tmp_path / "libc.so.6", "libc.so.6", versions)
    files = {
        release: linked(
            tmp_path / f"{release}x",
            "libone.so",
            f"int {f}(void); int g(void) {{ return {f}(); }}",
            libc,
        )
        for release, f in (("1", "f"), ("2", "i"))
    }
    tags = (PLATFORM, PLATFORM if is_same else f"manylinux_2_28_{MACHINE}")
    for (release, file), tag in zip(files.items(), tags, strict=True):
        make_wheel(
            tmp_path / release,
            version=release,
            tag=f"py3-none-{tag}",
            files={"demo/libone.so": file},
        )
    tag_says = "the tag is the same, so" if is_same else "the tag does not say so, and"
    assert f"{tag_says} pip installs it where it does not load" in shown_by_diff(capsys)
    options = ("--no-deps", "--no-index", "--platform", tags[1], "--only-binary", ":all:")
    assert pip("download", "-q", *options, "-d", "got", "--find-links", "2", "demo").returncode == 0


def test_the_setting_that_diff_names_allows_the_growth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for release, size in (("1", 1), ("2", 3_000_000)):
        text = "".join(sha256(str(n).encode()).hexdigest() for n in range(size // 64))
        make_wheel(tmp_path / release, version=release, tag="py3-none-any", files={"demo.py": text})
    assert "(`max-growth`)" in shown_by_diff(capsys)
    assert run(["diff", "1", "2", "--fail-on", "warning"]) == 1
    Path("wheelfix.toml").write_text("max-growth = 1000000\n")
    assert run(["diff", "1", "2", "--fail-on", "warning"]) == 0


def test_a_refused_diff_says_how_to_call_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    of_releases(tmp_path, "py3-none-any", "cp311-abi3-any")
    make_wheel(tmp_path / "2", version="2", tag="py3-none-any")
    make_wheel(tmp_path / "3", "other", tag="py3-none-any")
    (tmp_path / "4").mkdir()
    wheels = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.glob("[12]/*.whl"))]
    for arguments, said, then in (
        (wheels, "compare their directories: `wheelfix diff 1 2`", "diff 1 2"),
        (["1"], "name the earlier release, then the later one", "diff 1 2"),
        (["1", "3"], "give two releases of one distribution", "diff 1 2"),
        (["1", "4"], "build one, or name a file", f"diff 1 {wheels[-1]}"),
    ):
        assert run(["diff", *arguments]) == 2
        assert said in capsys.readouterr().err
        assert run(shlex.split(then)) == 0, said


DIFF_HINTS = (
    "what is linked with",
    "fails with `undefined symbol`",
    "search paths of dependents lead to its old place",
    "pip no longer installs it with",
    "pip no longer installs it for",
    "pip also installs it for",
    "pip only warns",
    "pip installs it where it does not load",
    "(`max-growth`)",
    "compare their directories",
    "name the earlier release, then the later one",
    "give two releases of one distribution",
    "choose one, for example: `{}`",
)
"""What the tests above follow; the last two are of other commands."""


def hints_of_diff() -> Iterator[str]:
    """Yield the hints of the modules of `diff`, and what it says about those who install."""
    for module in DIFF_MODULES:
        tree = ast.parse((SOURCE / module).read_text())
        yield from (text for text in templates(tree) if CLAIM.search(text))
        for node in ast.walk(tree):
            if isinstance(node, ast.keyword) and node.arg == "hint":
                yield from (text for text in templates(node.value) if " " in text)


def test_each_hint_of_diff_has_its_case() -> None:
    found = set(hints_of_diff())
    assert [text for text in found if not any(hint in text for hint in DIFF_HINTS)] == []
    assert [hint for hint in DIFF_HINTS if not any(hint in text for text in found)] == []


# --- Advice without a command of wheelfix ---------------------------------------------------------


def test_unzip_and_wheel_pack_write_a_true_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with_another_record(tmp_path)
    said = run(["check", "--select", "WF501", "dist"]), capsys.readouterr().out
    assert said[0] == 1
    assert "`unzip` it, and `wheel pack` writes RECORD" in said[1]
    with zipfile.ZipFile(next(Path("dist").glob("*.whl"))) as archive:
        archive.extractall("unzipped")
    pack = [sys.executable, "-m", "wheel", "pack", "-d", "packed", "unzipped"]
    Path("packed").mkdir()
    subprocess.run(pack, check=True, capture_output=True)
    assert run(["check", "--select", "WF501", "packed"]) == 0


def test_a_wheel_without_the_driver_that_it_bundled_is_repaired(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    driver = linked(tmp_path, "libcuda.so.1", ONE_FUNCTION)
    user = linked(tmp_path, "libuser.so", USES, driver, runpath="$ORIGIN")
    run(["check", "--select", "WF825", str(wheel_of(tmp_path, user=user, driver=driver))])
    assert "leave it out where the wheel is built" in capsys.readouterr().out
    assert run(["repair", str(wheel_of(tmp_path / "again", user=user)), "-w", "out"]) == 0
    assert run(["check", "--select", "WF825", "--fail-on", "note", "out"]) == 0


def test_a_wheel_that_lost_its_grafts_is_repaired_as_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As shapely without shapely.libs, which requires numpy."""
    monkeypatch.chdir(tmp_path)
    module, tag = "demo/_core.abi3.so", f"cp311-abi3-linux_{MACHINE}"
    library = linked(tmp_path, "libdemo.so.1", ONE_FUNCTION)
    files: dict[str, Path | str] = {
        module: extension(tmp_path / "_core.abi3.so", "_core", needed=[library], calls=["f"])
    }
    built = make_wheel(tmp_path / "dist", tag=tag, files=files, metadata="Requires-Dist: numpy\n")
    assert run(["repair", "--library-path", ".", str(built)]) == 0
    (whole,) = Path("wheelhouse").iterdir()
    with zipfile.ZipFile(whole) as archive:
        files[module] = Path(archive.extract(module, "unzipped"))
    metadata = "Requires-Dist: numpy\n"
    lost = make_wheel(tmp_path / "lost", tag=tag, files=files, metadata=metadata)
    lost.rename(lost.with_name(whole.name))
    capsys.readouterr()
    assert run(["check", "lost"]) == 1
    assert "is of an earlier repair: repair the wheel as it was built" in capsys.readouterr().out
    assert run(["repair", "lost", "-w", "again"]) != 0
    assert run(["check", str(whole)]) == 0


# --- The others -----------------------------------------------------------------------------------

HELD: dict[Message, str] = {
    ("host/verify.py", "{} is installed: `--python {}`"): (
        "host/test_verify_untried.py::test_a_python_that_is_installed_and_allowed_is_named"
    ),
    (
        "analysis/explain_remedies.py",
        " --library-path {}",
    ): "integration/test_missing_library_advice.py::test_a_library_that_one_of_the_machine_needs_is_not_found_by_the_path_of_the_module",
    (
        "analysis/explain_remedies.py",
        ": pip install --force-reinstall --no-deps {}",
    ): "integration/test_doctor.py::test_a_library_that_is_gone_is_not_taken_of_another_distribution",
    (
        "providers/well_known.py",
        "`wheelfix repair {}`",
    ): "integration/test_missing_library_advice.py::test_a_provider_that_is_not_installed",
    (
        "host/pythons.py",
        "`--python` takes {}, or a path",
    ): "host/test_pythons.py::test_a_python_is_found_by_its_version",
    (
        "host/verify_diagnosis.py",
        "ask `wheelfix check --with {}` whether that defines it",
    ): "host/test_verify_untried.py::test_a_symbol_that_the_requirement_lacks_is_named_and_found_by_the_check_that_is_advised",
    (
        "providers/model.py",
        "unset PIP_NO_INDEX, or name its wheel: `--with FILE.whl`",
    ): "host/test_required_wheels.py::test_without_an_index_nothing_can_be_built",
    (
        "reports/why.py",
        "; `wheelfix {} {}` decides that",
    ): "cli/test_why.py::test_what_a_requirement_may_have_is_decided_by_the_command_of_the_answer",
    (
        "cli/library_uses.py",
        "--with",
    ): "cli/test_why.py::test_what_a_requirement_may_have_is_decided_by_the_command_of_the_answer",
    (
        "cli/library_uses.py",
        "--target",
    ): "cli/test_why.py::test_the_command_that_decides_has_the_machine_of_the_question",
    (
        "cli/library_uses.py",
        "--scheme",
    ): "cli/test_why.py::test_the_command_that_decides_has_the_machine_of_the_question",
    (
        "cli/library_uses.py",
        "--env",
    ): "cli/test_why.py::test_the_command_that_decides_has_the_machine_of_the_question",
    (
        "analysis/explain_remedies.py",
        (
            "RECORD of {} lists it as a data file that is not there: it was removed, so install that "
            "wheel again, or `pip install --target` left it out or put it elsewhere (`uv pip` does "
            "not); its authors can ship it as package data, or repair the wheel as it was built with "
            "`--data-libraries=move`"
        ),
    ): "integration/test_missing_library_advice.py::test_what_pip_dropped_from_a_target_is_not_said_to_be_nowhere",
    (
        "cli/library_uses.py",
        "--data-libraries={}",
    ): "integration/test_missing_library_advice.py::test_what_pip_drops_from_a_target_is_moved",
    (
        "cli/library_uses.py",
        "--deps",
    ): "cli/test_why.py::test_what_a_requirement_may_have_is_decided_by_the_command_of_the_answer",
    (
        "providers/model.py",
        "`{}` {}; then add `--with wheels`",
    ): "host/test_required_wheels.py::test_what_is_not_known_can_be_built_and_put_beside_the_wheel",
    (
        "host/neighbors.py",
        "`--with {}`: URLs are not followed, and nothing is built",
    ): "host/test_required_wheels.py::test_a_neighbor_of_a_configuration_is_not_built",
    (
        "host/neighbors.py",
        "`{}` may build it and so execute its code; then `--with wheels`",
    ): "host/test_required_wheels.py::test_what_is_not_known_can_be_built_and_put_beside_the_wheel",
    (
        "rules/executable_stack.py",
        "{}; third-party objects: `wheelfix repair {}`",
    ): "pipelines/test_clear_execstack.py::test_the_wheel_loads_where_no_stack_becomes_executable",
    (
        "rules/needed_entries.py",
        "{}--drop-needed {}` drops it; `--keep-needed {}` silences this message",
    ): "integration/test_hints.py::test_a_library_that_was_grafted_unused_is_dropped_from_the_wheel_as_built",
    (
        "analysis/ungraftable_libraries.py",
        "`wheelfix repair --deps` looks {}, or `--with FILE.whl` in its wheel; or,",
    ): "host/test_neighbors.py::test_the_error_of_a_repair_that_lacks_a_library_leads_to_the_requirements",
    (
        "rules/undefined_symbols.py",
        "not looked into, as `--deps` or `--with` does: {}",
    ): "rules/test_undefined_symbols.py::test_requirements_that_may_define_a_symbol_are_named",
    (
        "pipelines/repair_plan.py",
        "no symbol of {} is used: `wheelfix repair {}`",
    ): "integration/test_hints.py::test_an_unused_library_that_needs_a_newer_platform_can_be_left_out",
    (
        "pipelines/repair_plan.py",
        "give the tag up: `wheelfix repair --only-plat --plat {}`",
    ): "integration/test_hints.py::test_a_tag_that_a_graft_breaks_can_be_given_up",
    (
        "analysis/policy_reasons.py",
        ", or `wheelfix repair --plat {}`",
    ): "pipelines/test_auditwheel_decisions.py::test_the_platforms_of_a_hint_are_possible",
    (
        "analysis/ungraftable_libraries.py",
        "{}--library-path {}`",
    ): "pipelines/test_check_plan.py::test_a_library_in_the_search_path_of_another_module_has_its_option",
    (
        "environments/of_a_wheel.py",
        "`--with {}` lists versions, and an environment has one of them",
    ): "integration/test_doctor.py::test_what_cannot_be_put_beside_a_wheel",
    (
        "environments/of_a_wheel.py",
        "choose one: `--with {}`",
    ): "integration/test_doctor.py::test_what_cannot_be_put_beside_a_wheel",
    (
        "rules/opened_outside_wheel.py",
        "`wheelfix repair` adds the entry",
    ): "integration/test_include.py::test_compiled_code_opens_the_included_library",
    (
        "rules/opened_outside_wheel.py",
        "`wheelfix repair` writes a shim next to it",
    ): "integration/test_include.py::test_python_code_opens_the_included_library",
    (
        "rules/package_index.py",
        "`wheelfix repair` writes the zip anew",
    ): "rules/test_index.py::test_a_data_descriptor_alone_makes_repair_write_the_wheel_anew",
    (
        "rules/needed_entries.py",
        "`wheelfix repair` removes it",
    ): "rules/test_needed_entries.py::test_a_record_that_nothing_uses_is_removed",
    (
        "rules/needed_entries.py",
        "correct the build script that adds it, or let `wheelfix repair` drop it",
    ): "rules/test_each_rule.py::test_a_rule_finds_its_fault_only_there_and_its_fix_removes_it",
    (
        "rules/needed_entries.py",
        "; or, `wheelfix repair --unsafe-fixes`",
    ): "rules/test_each_rule.py::test_a_rule_finds_its_fault_only_there_and_its_fix_removes_it",
    (
        "rules/needed_entries.py",
        "link it with `{}`; or, `wheelfix repair --unsafe-fixes`",
    ): "rules/test_each_rule.py::test_a_rule_finds_its_fault_only_there_and_its_fix_removes_it",
    (
        "rules/provider_search_paths.py",
        "`wheelfix repair` adds it, with this provider",
    ): "rules/test_provider_search_paths.py::test_each_object_gets_the_entry_to_the_provider_and_keeps_it",
    (
        "rules/search_paths.py",
        "`wheelfix repair` drops the DT_RPATH",
    ): "rules/test_search_paths.py::test_of_two_tags_the_one_without_effect_goes",
    (
        "environments/import_runs.py",
        "name the virtual environment or the prefix that it is in, or leave out --prove",
    ): "integration/test_doctor.py::test_predictions_are_proved_by_imports",
    (
        "cli/commands/doctor.py",
        "--against compares what is installed in two environments",
    ): "integration/test_doctor.py::test_why_another_environment_loads_other_libraries",
    (
        "cli/commands/doctor.py",
        "leave out --every-order, --prove and wheels",
    ): "integration/test_doctor.py::test_why_another_environment_loads_other_libraries",
    (
        "cli/commands/doctor.py",
        "--order is one of the orders of --every-order",
    ): "integration/test_doctor.py::test_orders_of_imports",
    (
        "cli/commands/doctor.py",
        "describe the machine that it is for: --target debian:12",
    ): "integration/test_doctor.py::test_an_environment_for_another_machine_is_judged_on_a_described_one",
    (
        "cli/commands/doctor.py",
        "name one: `wheelfix doctor .venv`",
    ): "integration/test_doctor.py::test_the_active_environment_is_the_default",
    (
        "reports/repair_text.py",
        "`--provider` with the name of its distribution",
    ): "integration/test_missing_library_advice.py::test_a_folder_is_no_place_that_a_search_path_leads_to",
    (
        "providers/well_known.py",
        "`--add-requires --provider` with that of the wheel's build",
    ): "integration/test_missing_library_advice.py::test_a_copy_of_another_name_is_not_the_library",
    (
        "pipelines/repair_proof.py",
        "put {} beside it with `--with`, or try nothing with `--no-verify`",
    ): "pipelines/test_provider_repairs.py::test_a_repair_that_verifies_installs_the_providers_wheel_beside",
    (
        "reports/verify.py",
        "; `--allow-untried` accepts that",
    ): "host/test_verify_untried.py::test_an_import_of_the_package_does_not_make_up_for_objects_that_were_not_tried",
    (
        "pipelines/repair_proof.py",
        "`wheelfix verify` tries the wheel as it was built, and shows the whole output",
    ): "integration/test_hints.py::test_the_wheel_whose_repair_fails_to_import_can_be_verified",
    (
        "analysis/policy_reasons.py",
        "--exclude {}",
    ): "integration/test_hints.py::test_a_library_that_uses_what_glibc_keeps_for_itself_can_be_left_out",
    (
        "host/sysroot.py",
        "name the folders of its libraries with `--ldpaths`, and no `--sysroot`",
    ): "pipelines/test_android.py::test_no_system_s_folder_has_the_libraries_of_android",
    (
        "host/sysroot.py",
        "--sysroot names the folder that has the `usr` and `etc` of another system",
    ): "integration/test_sysroot.py::test_what_is_not_a_system_is_an_error",
    (
        "rules/symbol_contract.py",
        "a repair may graft it: check the wheel that `wheelfix repair` writes",
    ): "rules/test_symbol_contract.py::test_a_contract_of_what_a_repair_grafts_holds_afterwards",
    (
        "pipelines/graft_lock.py",
        "wheelfix repair --write-lock",
    ): "pipelines/test_graft_lock.py::test_a_lock_allows_what_was_grafted_and_nothing_else",
    (
        "pipelines/graft_lock.py",
        "delete it; the same repair with `--write-lock` writes it anew",
    ): "pipelines/test_graft_lock.py::test_a_broken_lock_is_an_error_of_one_line",
}
"""Messages that a test elsewhere follows."""

NOT_FOLLOWED: dict[str, tuple[str, ...]] = {
    "it says what was wrong; the hint is another text": (
        "--statistics is a format of its own",
        "`--report` and `--write-baseline` need all wheels",
        "--write-baseline needs a file",
        "`--after {}`: not found",
        "no file that `--why-not` can be about is named `{}`",
        "--why-not needs a member",
        "--target and --sysroot both name a machine",
        "`--env {}",
        "`--report {}`: it must be",
        "`--plat {}` is not possible",
        "is not installed by `pip install --target`",
        "`pip install --target` does not install",
        "not found if installed apart",
        "`--target {}` applies to none",
        "no wheel is named, so --site is the subject",
        "`--with {}` is neither",
        "# What `repair` grafts;",
        "--all-pythons is about this machine",
    ),
    "an option of `auditwheel show`": ("--ldpaths",),
    "a piece of a command, which other cases follow": (
        "--drop-needed {}",
        "--add-requires",
        "--clear-execstack {}",
        "--config",
        "--env=",
        "--target",
        "--no-deps",
        "--python",
        "--with",
        "--provider",
        "--deps",
        "--sysroot",
        "--quiet",
        "--locked",
        "--only-plat",
        "--plat",
        "--write-lock",
        "--provider {}",
        " --unsafe-fixes",
        "`wheelfix repair",
        "`wheelfix ",
    ),
    "it counts or explains, and promises nothing of its own": (
        ", and {} more [+] with `--unsafe-fixes`",
        "`wheelfix repair` fixes {} [*]{}.",
        "`wheelfix repair --unsafe-fixes` fixes {} [+].",
        "[+] repair --unsafe-fixes fixes it",
        "  … and {} more {} {}: -v shows them",
        "`wheelfix rule {}` explains common causes",
        "`wheelfix explain` follows variables",
        "`wheelfix trace` shows the effect",
        "`wheelfix show --symbols` writes them",
        ": `--add-requires` adds no line, as other modules work without it",
        "with --site, name one",
        "name the wheels first, or with --site",
        "known are {}; or name it: --output-format",
    ),
    "whoever has it to do knows the value: a tag, a folder, a Python, a time": (
        "note: `{}` is not read: it belongs to another user",
        "--timeout gives each wheel more",
        "raise the limit",
        "give its wheel: `--provider FILE.whl`",
        "name another",
        "install one of these Pythons",
        "use a machine that they allow; `wheelfix verify --image IMAGE` uses a container",
        "name each Python of the image",
        "--python names a Python that the image has",
        "name the platform, such as --plat",
        "leave out `--patcher`",
        "leave out --target, or --prove and --against",
        "--why-not is answered as text or json",
        "it is in the lief-tools",
        "pass the libraries with `--library-path`",
        "`--with` takes the path of a wheel",
    ),
    "the authors of the wheel or of a rule follow it": (
        "report it to the authors of `{}`",
        "neither the wheel of {} nor this machine has {}",
        "leave one of these rules out",
        "build the wheel first: pip wheel",
    ),
    "it chooses another way, which is not better for every wheel": (
        "`{}` is grafted, though METADATA requires {}",
        "`{} --exclude {}`",
        "{}; a third-party object: `patchelf --clear-execstack`",
        "no single entry leads there in all install schemes",
        'add "{}" to `dependencies` in pyproject.toml{}; or, `wheelfix repair --add-requires`',
        "`wheelfix repair --prune-needed off` keeps",
    ),
    "the requirements are fetched from an index": (
        "`wheelfix check --deps` decides it",
        "`--deps` looks into {}",
        "`--deps` asks the index",
        "  {}`--with` takes a wheel or a requirement",
        "the extra `{}` requires it: `--deps --with {}`",
    ),
    "it is an argument of auditwheel": ("--disable-isa-ext-check",),
}
"""Why there is nothing to follow -> the beginnings of the messages."""


def test_each_message_has_its_case_its_test_or_a_reason(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = {*REPAIRS, *CALLS, *HELD}
    starts = tuple(start for some in NOT_FOLLOWED.values() for start in some)
    found = messages(flags(capsys))
    assert [m for m in found if m not in known and not m[1].startswith(starts)] == []
    assert [m for m in known if m not in found] == []
    texts = [text for _, text in found]
    assert [start for start in starts if not any(t.startswith(start) for t in texts)] == []


@pytest.mark.parametrize("name", sorted(set(HELD.values())))
def test_the_tests_that_follow_a_message_are_there(name: str) -> None:
    path, _, function = name.partition("::")
    assert f"def {function}(" in (TESTS / path).read_text()


def test_the_wheel_whose_repair_fails_to_import_can_be_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`verify` is no rule: `wheelfix rule verify`, the hint of other findings, is refused."""
    crash = "void *PyInit__core(void) { *(volatile int *)0 = 1; return 0; }"
    module = shared_object(tmp_path / "_core.so", crash)
    files: dict[str, str | Path] = {"demo/__init__.py": "", "demo/_core.abi3.so": module}
    wheel = make_wheel(tmp_path / "dist", tag=f"cp311-abi3-linux_{MACHINE}", files=files)
    assert run(["repair", "--verify", "-w", str(tmp_path / "out"), str(wheel)]) != 0
    said = "".join(capsys.readouterr())
    (line,) = [line for line in said.splitlines() if "wheelfix verify" in line]
    command = shlex.split(line.split("`")[1])
    assert command == ["wheelfix", "verify", str(wheel)]
    assert run(command[1:]) == 1
    assert "SIGSEGV" in capsys.readouterr().out


@pytest.mark.skipif(MACHINE != "x86_64", reason="names a symbol of glibc on x86-64")
def test_a_library_that_uses_what_glibc_keeps_for_itself_can_be_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No image has GLIBC_PRIVATE for its tag: "build it in an older image" would not help."""
    source = "int __call_tls_dtors(void); int priv(void) { return __call_tls_dtors(); }"
    library = shared_object(tmp_path / "lib" / "libpriv.so.1", source, soname="libpriv.so.1")
    module = extension(tmp_path / "_core.so", "_core", needed=[library], calls=["priv"])
    files: dict[str, str | Path] = {"demo/__init__.py": "", "demo/_core.so": module}
    wheel = make_wheel(tmp_path / "dist", tag=TAG, files=files)
    command = ["repair", "--library-path", str(library.parent), "-w", str(tmp_path / "out")]
    assert run([*command, str(wheel)]) == 2
    said = "".join(capsys.readouterr())
    what = "`GLIBC_PRIVATE` of `libc.so.6` (`__call_tls_dtors`), which is of one build of glibc"
    assert f"`libpriv.so.1` needs {what}" in said
    (hint,) = re.findall("leave it to the machine of the user: `(.*)`", said)
    assert run([*command, *shlex.split(hint), str(wheel)]) == 0
