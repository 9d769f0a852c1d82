"""What a repair says is left is what `check` says of the wheel that it wrote."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.test_hints import (
    FAST,
    TAG,
    apart,
    lost,
    pure,
    searching,
    unreachable,
    unused,
    wheel_of,
    with_symbols,
)
from tests.support.build import ONE_FUNCTION, extension, make_wheel, shared_object
from wheelfix.cli.app import run

NOTES = re.compile(r"(\d+) notes?\b")
WARNING = re.compile(r"^(?:  left)? +(WF\d+) [a-z-]+: ", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A wheel, and the settings with which it is repaired and checked."""

    make: Callable[[Path], Path]
    settings: str = ""
    searched: str = ""
    """The folder of this machine's libraries, which `check` does not know."""
    least: int = 1
    """The notes that are left, at least: a case without any would say nothing."""


def opening(folder: Path) -> Path:
    """Python code that opens a library which is nowhere."""
    module = extension(folder / "_core.abi3.so", "_core")
    code = 'import ctypes\n\nLIBRARY = ctypes.CDLL("libextra.so.1")\n'
    files: dict[str, Path | str] = {"demo/__init__.py": code, "demo/_core.abi3.so": module}
    return make_wheel(folder / "dist", tag=TAG, files=files)


def chain(folder: Path) -> Path:
    """A module that needs two libraries of the build, one through the other."""
    two = shared_object(folder / "lib/libtwo.so.2", "int h(void) { return 1; }", libc=False)
    source = "int h(void); int f(void) { return h(); }"
    one = shared_object(folder / "lib/libone.so.1", source, needed=[two], libc=False)
    module = extension(folder / "_core.abi3.so", "_core", needed=[one], calls=["f"])
    other = extension(folder / "_more.abi3.so", "_more", needed=[one], calls=["f"])
    return wheel_of(folder, module=module, other=other)


def many(folder: Path) -> Path:
    """Objects with one cause of a note each, and with several."""
    one, two, three = (
        shared_object(folder / f"lib{name}.so", ONE_FUNCTION, libc=False)
        for name in ("one", "two", "three")
    )
    return wheel_of(folder, one=one, two=two, three=three)


LOOK = 'library-path = ["lib"]\n'
CASES = {
    "nothing to do": Case(make=many),
    "an edit": Case(make=unreachable),
    "entries dropped": Case(make=searching("/nowhere/lib:$ORIGIN:$ORIGIN")),
    "libraries of the data scheme": Case(make=apart, settings='data-libraries = "colocate"\n'),
    "notes of the data scheme": Case(make=apart, settings='data-libraries = "search"\n'),
    "a graft": Case(make=lost, settings=LOOK),
    "a chain of grafts": Case(make=chain, settings=LOOK),
    "a library of elsewhere": Case(make=lost, settings='exclude = ["libone.so*"]\n'),
    "a library of this machine": Case(make=lost, searched="lib"),
    "a library of this machine that is excluded": Case(
        make=lost, settings='exclude = ["libone.so*"]\n', searched="lib"
    ),
    "half of a chain of this machine": Case(
        make=chain, settings='exclude = ["libone.so*"]\n', searched="lib"
    ),
    "half of a chain": Case(make=chain, settings=LOOK + 'exclude = ["libtwo.so*"]\n'),
    "an entry that stays": Case(make=unused, settings='unfixable = ["*:WF201"]\n'),
    "stripped": Case(make=with_symbols, settings='strip = "debug"\n'),
    "not stripped": Case(make=with_symbols),
    "edits that are not asked for": Case(make=pure, settings='unfixable = ["*:WF503"]\n'),
    "a library opened by name": Case(make=opening),
    "rules ignored": Case(make=many, settings='[ignore]\nWF6 = "not ours"\n', least=0),
    "rules selected": Case(
        make=unused, settings='unfixable = ["*:WF201"]\nselect = ["WF2", "WF6"]\n'
    ),
    "without a verdict": Case(make=many, settings=FAST),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_left_is_what_check_says_of_the_written_wheel(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = CASES[name]
    wheel = case.make(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path / case.searched))
    Path("wheelfix.toml").write_text(case.settings)
    assert run(["repair", "-w", "out", str(wheel)]) == 0, capsys.readouterr().err
    _, _, left = capsys.readouterr().err.partition("\n  left ")
    (written,) = Path("out").glob("*.whl")
    monkeypatch.delenv("LD_LIBRARY_PATH")
    run(["check", "--fail-on", "never", "-v", "--report", "json=report.json", str(written)])
    found = capsys.readouterr().out.rpartition("\nFound ")[2]
    notes = [int(number) for number in NOTES.findall(left)]
    assert notes == [int(number) for number in NOTES.findall(found)]
    assert sum(notes) >= case.least
    report = json.loads(Path("report.json").read_text())
    assert set(WARNING.findall(left)) == {
        finding["code"]
        for row in report["wheels"]
        for finding in row["findings"]
        if finding["severity"] == "warning"
    }
