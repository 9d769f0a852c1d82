"""Names from a wheel cannot steer who reads them: no terminal, no GitHub runner, no parser.

One wheel says hostile things wherever a wheel can say anything, and goes through every command.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from build import make_wheel, shared_object
from test_hostile import forged

HOSTILE = (
    "\x1b[2J\x1b]0;title\x07\x9b31m",
    "\n::set-output name=a::b\n",
    "\r\n::add-mask::e\n##[add-mask]e\n",
    "::stop-commands::x",
    "##[group]x",
    "%0A::error::x",
    "\u202egnp.so\u2066",
    "<script>alert(1)</script><!--",
    "]]><x/>&lt;",
    "`|| a | b |\n# title\n[x](javascript:x)",
    '"},{"a":"b\\',
    "\x00after",
    "\ud800",
    'end\n</details>\nclick A "javascript:x"\n}',
)
IN_A_FILE_NAME = [
    text for text in HOSTILE if text.isascii() and text.isprintable() and "\\" not in text
]
STEERING = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
OURS = ("::error ", "::warning ", "::notice ")


def text_of(number: int) -> str:
    return HOSTILE[number % len(HOSTILE)].replace("\0", "").replace("\ud800", "\ufffd")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel full of it."""
    folder = tmp_path_factory.mktemp("hostile")
    objects = {
        f"demo/{n}{name.replace('/', '-')}.so": forged(
            needed=[text_of(n), text_of(n + 1), f"lib{text_of(n + 2)}.so.1"],
            runpath=f"$ORIGIN/{text_of(n + 3)}:/tmp/{text_of(n + 4)}:::x",
            soname=text_of(n + 5),
            versions=[f"GLIBC_{text_of(n + 6)}", text_of(n + 7)],
        )
        for n, name in enumerate((*IN_A_FILE_NAME, *HOSTILE[6:7], "plain", "::error::x"))
    }
    real = shared_object(
        folder / "real.so", soname="::add-mask::x", runpath="$ORIGIN/##[group]:/tmp/\x1b[2J"
    )
    source = "import ctypes, os\nhere = os.path.dirname(__file__)\n" + "".join(
        f"ctypes.CDLL(os.path.join(here, {each!a}))\nctypes.CDLL({each!a})\n" for each in HOSTILE
    )
    info = "demo-1.0.dist-info"
    files: dict[str, bytes | str | Path] = {
        **objects,
        "demo/real.so": real,
        "demo/::stop-commands::x/y.so": real,
        "demo/__init__.py": source,
        "demo-1.0.data/scripts/::error::run": f"#!/bin/{HOSTILE[0]}{HOSTILE[8]}\n",
        f"{info}/entry_points.txt": "[console_scripts]\n" + "\n".join(map(ascii, HOSTILE)),
        f"{info}/sboms/x.cdx.json": ascii(HOSTILE[1]),
    }
    values = [each.translate({10: " ", 13: " "}).replace("\ud800", "?") for each in HOSTILE]
    metadata = "".join(
        f"Requires-Dist: {each}\nLicense-File: {each}\nRequires-Python: {each}\nX{n}: {each}\n"
        for n, each in enumerate(values)
    )
    return make_wheel(
        folder / "::warning::x", tag=f"py3-none-linux_{os.uname().machine}", files=files,
        metadata=metadata,
    )  # fmt: skip


def said(*arguments: str | Path, cwd: Path, code: Sequence[int] = (0, 1)) -> tuple[str, str]:
    """Run wheelfix, and return what it has written; nothing may steer a terminal or a runner."""
    environ = {name: value for name, value in os.environ.items() if name != "GITHUB_STEP_SUMMARY"}
    done = subprocess.run(
        [sys.executable, "-m", "wheelfix", *map(str, arguments)],
        env={**environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"},
        cwd=cwd,
        capture_output=True,
        check=False,
    )
    texts = done.stdout.decode(), done.stderr.decode()
    assert done.returncode in code, texts[1]
    assert "internal error" not in texts[1]
    for text in texts:
        assert_harmless(text, annotates="github" in arguments)
    return texts


def assert_harmless(text: str, *, annotates: bool = False) -> None:
    found = STEERING.search(text)
    assert found is None, text[max(0, found.start() - 200) : found.end() + 50]
    assert "##[" not in text
    for line in text.splitlines():
        if line.lstrip().startswith("::"):
            assert annotates, line
            assert line.startswith(OURS), line


@pytest.mark.parametrize(
    "form", ["full", "concise", "json", "sarif", "github", "gitlab", "junit", "markdown", "html"]
)
def test_check(wheel: Path, tmp_path: Path, form: str) -> None:
    text, _ = said("check", "-v", "--output-format", form, wheel, cwd=tmp_path)
    assert text
    if form in {"json", "sarif", "gitlab"}:
        json.loads(text)
    if form == "junit":
        ET.fromstring(text)  # noqa: S314 -- it is ours
    if form == "markdown":
        from markdown_it import MarkdownIt

        text = MarkdownIt("commonmark").enable("table").render(text)
        assert 'href="javascript:' not in text
        assert "<h1>title" not in text
    if form in {"html", "markdown"}:
        assert "<script>alert" not in text


@pytest.mark.parametrize("options", [(), ("--dry-run",), ("--diff",), ("-v",), ("-q",)])
def test_repair(wheel: Path, tmp_path: Path, options: tuple[str, ...]) -> None:
    _, notes = said("repair", *options, "-w", tmp_path / "out", wheel, cwd=tmp_path, code=(0, 1, 2))
    assert notes


def test_repair_of_what_can_be_repaired(tmp_path: Path) -> None:
    """Its plan, its summary and its output say what was hostile."""
    files: dict[str, bytes | str | Path] = {
        "demo/::add-mask::x/y.so": shared_object(
            tmp_path / "y.so", soname="##[group]\x1b[2J\n::error::x",
            runpath="/opt/\x1b]0;x\x07:$ORIGIN/\n::error::x",
        )
    }  # fmt: skip
    good = make_wheel(tmp_path, tag=f"py3-none-linux_{os.uname().machine}", files=files)
    for options in ((), ("--dry-run",), ("--diff",), ("-v",)):
        text, notes = said("repair", *options, "-w", "out", good, cwd=tmp_path)
        assert "add-mask" in text + notes or not options


@pytest.mark.parametrize("form", ["text", "mermaid", "dot", "json", "html"])
def test_tree(wheel: Path, tmp_path: Path, form: str) -> None:
    text, _ = said("tree", "--format", form, wheel, cwd=tmp_path)
    assert text
    if form == "json":
        json.loads(text)
    if form == "html":
        assert "<script>alert" not in text


@pytest.mark.parametrize(
    "more", [(), ("demo/real.so",), ("demo/::stop-commands::x/y.so",), ("--json",)]
)
def test_explain(wheel: Path, tmp_path: Path, more: tuple[str, ...]) -> None:
    text, _ = said("explain", wheel, *more, cwd=tmp_path, code=(0, 1, 2))
    if "--json" in more:
        json.loads(text)


def test_verify_and_trace(wheel: Path, tmp_path: Path) -> None:
    """The one prints what the wheel's programs say, the other what a process loads."""
    text, _ = said("verify", "--json", wheel, cwd=tmp_path, code=(0, 1, 2))
    if text:
        json.loads(text)
    said("verify", "-v", wheel, cwd=tmp_path, code=(0, 1, 2))
    library = shared_object(tmp_path / "::error::x" / "##[group]\x1b[2J.so", soname="\x1b[31m")
    code = f"import ctypes; ctypes.CDLL({str(library)!r})"
    for options in ((), ("--json",), ("-v",)):
        said("trace", *options, "--", sys.executable, "-c", code, cwd=tmp_path, code=(0, 1, 2))


@pytest.mark.parametrize(
    "name",
    [
        "\x1b[2J-1.0-py3-none-any.whl",
        "a\n::error::x-1.0-py3-none-any.whl",
        "::add-mask::x-1-py3-none-any.whl",
        "##[group]-1.0-py3-none-any.whl",
        "\u202ea-1.0-py3-none-any.whl",
        "no wheel\x1b[2J",
    ],
)
@pytest.mark.parametrize("command", ["check", "repair", "explain", "tree", "verify"])
def test_the_name_of_the_file_itself(tmp_path: Path, name: str, command: str) -> None:
    (tmp_path / name).write_bytes(b"PK")
    said(command, name, cwd=tmp_path, code=(2,))
    (tmp_path / name).unlink()
    said(command, name, cwd=tmp_path, code=(2,))
