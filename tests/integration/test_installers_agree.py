"""`wheelfix check` of random odd wheels, held to what pip and uv do with them.

Where an installer refuses a wheel, or the two install different files, `check` must not pass it.
"""

import csv
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest

from wheelfix import check
from wheelfix.errors import BadWheelError
from wheelfix.rules.findings import Severity
from wheelfix.settings import Settings

DIST_INFO = "demo-1.0.dist-info"
NAME = "demo-1.0-py3-none-any.whl"
_PIP = """
import contextlib, io, json, sys
from pip._internal.cli.main import main
for line in sys.stdin:
    wheel, target = json.loads(line)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(["install", "-qqq", "--no-deps", "--no-index", "--no-compile",
                     "--disable-pip-version-check", "--target", target, wheel])
    print(code, flush=True)
"""
_OWN = ("/RECORD", "/INSTALLER", "/REQUESTED", "/direct_url.json", "/uv_cache.json", ".lock")
"""The ends of the names of files that an installer writes by itself, each its own."""


class Odd(NamedTuple):
    """A wheel with something unusual in it."""

    files: Mapping[str, str]
    wheel_version: str = "1.0"
    rows: Callable[[str], str] = str


def write(path: Path, odd: Odd) -> None:
    contents = {
        **{name: text.encode() for name, text in odd.files.items()},
        f"{DIST_INFO}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        f"{DIST_INFO}/WHEEL": f"Wheel-Version: {odd.wheel_version}\nGenerator: x\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n".encode(),
    }
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    for name, content in contents.items():
        digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        table.writerow((name, f"sha256={digest}", len(content)))
    table.writerow((f"{DIST_INFO}/RECORD", "", ""))
    contents[f"{DIST_INFO}/RECORD"] = odd.rows(text.getvalue()).encode()
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            entry = zipfile.ZipInfo(name, (2020, 2, 2, 2, 2, 2))
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, content)


# --- The dice ------------------------------------------------------------------------------------


def odd_wheel(dice: random.Random) -> Odd:
    kind = dice.choice(
        (_names, _folders, _entry_points, _entry_points, _record, _version, _scripts)
    )
    return kind(dice)


_LETTERS = ["a", "é", "\xa0", "\xad", "\u200b", "\u2028", "\u202e", "\ue000", "\ufeff", "\ufffd",
            "\U0001f600", "漢", " ", "'", '"', ",", ";", "%", "\\", "\x7f", "\x85", "\x1b", "~",
            "\u0378", "\ufdd0", "\u0301"]  # fmt: skip


def _names(dice: random.Random) -> Odd:
    letter = dice.choice(_LETTERS) if dice.random() < 0.6 else chr(dice.randrange(0xA0, 0xD800))
    name = f"pkg/{dice.choice(('', 'a'))}{letter}{dice.choice(('', 'b', letter))}.py"
    return Odd({name: "x = 1\n", "pkg/__init__.py": ""})


def _folders(dice: random.Random) -> Odd:
    top = dice.choice(("x", "", "demo-1.0", "Demo-1.0", "demo-2.0", "demo-1.0.0", "demo", "a.b"))
    end = dice.choice((".data", ".data", ".data", ".DATA", ".data ", ".dat", ".data.data"))
    key = dice.choice(("purelib/", "platlib/", "data/", "scripts/", "PURELIB/", "x/", "", "."))
    place = dice.choice(("", "", "pkg/")) + top + end
    return Odd({"pkg/__init__.py": "", f"{place}/{key}pkg/{dice.choice('ab')}.py": "evil = 1\n"})


def _entry_points(dice: random.Random) -> Odd:
    # Not `pip`: pip also writes `pip3` and `pip3.11` for an entry point of that name.
    names = ("x", "x", "x-y.z", "x y", "../x", "x/y", "/x", ".", "..", "python", "python3.9",
             "PyPy3", "pythonic", "x[", "[x", "#x", ";x", "", "é", "%x", "'x'", "x.exe",
             "-x")  # fmt: skip
    values = ("pkg:f", "pkg:f", "pkg.a:f.g", "pkg", "pkg:", ":f", "pkg:f [a]", "pkg:f[a,b]",
              "pkg:f []", "pkg:f;x", "pkg:f()", "pkg : f", "pkg-a:f", "", "pkg:f #", "1:2",
              "pkg:f, g", "pkg:é", "pkg..a:f", "pkg:f = g")  # fmt: skip
    sections = ("[console_scripts]", "[console_scripts]", "[gui_scripts]", "[other]", "[]",
                "[ console_scripts ]", "[CONSOLE_SCRIPTS]", "", "[console_scripts")  # fmt: skip
    lines: list[str] = []
    for _ in range(dice.choice((1, 1, 2))):
        lines.append(dice.choice(sections))
        for _ in range(dice.choice((1, 1, 2))):
            mark = dice.choice(("=", " = ", " = ", " = ", ": ", " "))
            blank = dice.choice(("", "", "", "  "))
            lines.append(f"{blank}{dice.choice(names)}{mark}{dice.choice(values)}")
    end = dice.choice(("\n", "\n", "\r\n", "\n\n"))
    return Odd({"pkg/__init__.py": "", f"{DIST_INFO}/entry_points.txt": end.join((*lines, ""))})


def _record(dice: random.Random) -> Odd:
    insert = dice.choice(("\n", "\r\n", " \n", ",,\n", "x\n", "x,\n", "x,,,\n", "a.py,,1\n", '"',
                          "\0", "#\n", "/x,,\n", "pkg/__init__.py,,\n", '"x\ny",,\n',
                          "\ufeff"))  # fmt: skip
    at = dice.random()

    def changed(rows: str) -> str:
        lines = rows.splitlines(keepends=True)
        lines.insert(round(at * len(lines)), insert)
        return "".join(lines)

    return Odd({"pkg/__init__.py": "", "pkg/a.py": ""}, rows=changed)


def _version(dice: random.Random) -> Odd:
    parts = [dice.choice(("1", "1", "1", "0", "2", "01", "x", "", "+1", "1 ")) for _ in range(3)]
    count = dice.choice((1, 2, 2, 2, 3))
    return Odd({"pkg/__init__.py": ""}, wheel_version=".".join(parts[:count]))


def _scripts(dice: random.Random) -> Odd:
    name = dice.choice(("x", "a/b", "python", "python3", "Pythonw", "x.py", "a/b/c", "pypy", "pip"))
    shebang = dice.choice(("#!python\n", "#!pythonw\n", "#!/bin/sh\n", ""))
    return Odd({"pkg/__init__.py": "", f"demo-1.0.data/scripts/{name}": shebang})


# --- The installers ------------------------------------------------------------------------------


def installed(target: Path) -> frozenset[str]:
    files = (path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file())
    return frozenset(file for file in files if not file.endswith((*_OWN, ".pyc")))


def by_uv(wheel: Path, target: Path) -> bool:
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert uv is not None
    command = [uv, "pip", "install", "-q", "--no-deps", "--no-index", "--offline", "--no-cache"]
    command += ["--python", sys.executable, "--target", str(target), str(wheel)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def refused_or_said(wheel: Path) -> bool:
    """Whether `check` fails: it refuses the wheel, or has an error or a warning."""
    try:
        report = check(wheel, Settings())
    except BadWheelError:
        return True
    return report.error is not None or any(f.severity >= Severity.WARNING for f in report.findings)


@pytest.mark.each_run("0")
@pytest.mark.parametrize("seed", range(20))
def test_check_passes_no_wheel_that_pip_or_uv_refuse(seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)  # noqa: S311 - a test
    missed: list[str] = []
    command = [sys.executable, "-I", "-c", _PIP]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as pip:
        assert pip.stdin is not None
        assert pip.stdout is not None
        for number in range(8):
            odd = odd_wheel(dice)
            place = tmp_path / str(number)
            write(place / NAME, odd)
            print(json.dumps((str(place / NAME), str(place / "pip"))), file=pip.stdin, flush=True)
            uv = by_uv(place / NAME, place / "uv")
            there = pip.stdout.readline().strip() == "0"
            agree = uv and there and installed(place / "uv") == installed(place / "pip")
            if not agree and not refused_or_said(place / NAME):
                missed.append(f"pip {there}, uv {uv}: {odd}, {odd.rows('r,,')!r}")
            shutil.rmtree(place)
        pip.stdin.close()
    assert missed == []


def test_names_without_glyphs_are_refused_as_uv_does(tmp_path: Path) -> None:
    for number, letter in enumerate(("\u200b", "\u202e", "\ue000", "\ufeff", "\xad", "é", "\xa0")):
        wheel = tmp_path / str(number) / NAME
        write(wheel, Odd({f"pkg/a{letter}b.py": ""}))
        is_other = unicodedata.category(letter).startswith("C")
        assert by_uv(wheel, tmp_path / f"{number}-uv") is not is_other
        assert refused_or_said(wheel) is is_other
