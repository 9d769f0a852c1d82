"""Every console example of the documents prints what it shows.

A document's `console` blocks run in order, in one folder with the wheels of
`tests/support/example_wheels.py`. What follows a command is its output, stdout and stderr together;
a block without any output shows commands only. The exit code is 0, unless it ends with a comment
`# exit code N`. `cd FOLDER` holds for the rest of the document. In the output,

- `...` stands for any text in a line, and alone in a line for any lines;
- what differs between machines is not compared: sizes, hashes in file names, the version and place
  of Python, and the working folder, which is `/home/you/demo`.

A block that needs the network, or changes the machine, has an HTML comment in the line before it:
`<!-- not run: REASON -->`. A fence with `title="FILE"` is written to that file.
`pytest --update-golden` writes the output of this machine where it differs, except where it is
abridged with `...`.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.documents import DOCUMENTS, ROOT, Fence, fences
from tests.support.environment import ENVIRON
from tests.support.example_wheels import example_wheels, second_wheel
from tests.support.fork_server import warm_path

HOME = "/home/you/demo"
NOT_RUN = re.compile(r"<!-- not run: \S.* -->")
QUICK_VENV = """python() {
    [[ "$1 $2" == "-m venv" ]] || { command python "$@"; return; }
    command python -m venv --without-pip "$3" &&
        printf '#!/bin/sh\\nexec "%s" -m pip --python "%s" "$@"\\n' \\
            "$(type -P python)" "$PWD/$3/bin/python" >"$3/bin/pip" && chmod +x "$3/bin/pip"
}"""
"""Environments whose pip is that of the tests: to install it in each takes seconds."""
EXIT_CODE = re.compile(r"# exit code (\d+)$")


@dataclass(frozen=True)
class Example:
    """One command of a console block, and the output that the document shows."""

    command: str
    output: str


def examples(block: str) -> list[Example]:
    """Split a console block into its commands, each with its output."""
    found: list[Example] = []
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        end = 1
        while lines[end - 1].endswith("\\\n"):
            end += 1
        found.append(Example("".join(lines[:end]).rstrip("\n"), "".join(lines[end:])))
    assert "".join(f"$ {one.command}\n{one.output}" for one in found) == block, (
        "text before a command"
    )
    return found


@dataclass
class Terminal:
    """A terminal in `home`, in which one command is typed after the other."""

    home: Path
    folder: Path
    code: int = 0

    def run(self, command: str) -> str:
        """Run one command in bash; return its output as a document shows it."""
        if command.startswith("cd "):
            self.folder = self.folder / command.removeprefix("cd ")
            return ""
        environment = {**ENVIRON, "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        environment["PATH"] = warm_path(environment["PATH"])
        environment.pop("GITHUB_STEP_SUMMARY", None)
        done = subprocess.run(
            ["bash", "-c", f"{QUICK_VENV}\n(exit {self.code})\n{command}"],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.code = done.returncode
        return as_documented(done.stdout, self.home)


def as_documented(output: str, folder: Path) -> str:
    """Put the names that documents use in place of this machine's."""
    minor = sys.version_info.minor
    text = output.replace(str(folder), HOME)
    text = re.sub(r"^.* \(\d+ s\)\n", "", text, flags=re.MULTILINE)  # slow progress
    text = re.sub(r"\S+/bin/python3\.\d+", "/usr/bin/python3.12", text)
    text = re.sub(rf"\bcp3{minor}\b", "cp312", text)
    text = re.sub(rf"\bcpython-3{minor}\b", "cpython-312", text)
    text = re.sub(rf"\bpython3\.{minor}\b", "python3.12", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


def comparable(text: str) -> str:
    """Leave out what differs between machines."""
    text = re.sub(r"(?<=-)[0-9a-f]{8}(?=\.so)", "HASH", text)
    return re.sub(r"\b\d[\d,.]* (B|kB|MB|bytes)\b", "SIZE", text)


def matches(expected: str, actual: str) -> bool:
    """Whether `actual` is the output that a document shows."""
    pattern = ""
    for line in comparable(expected).splitlines():
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += r".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, comparable(actual)) is not None


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """The example wheels, moved away from the folder `demo` beside, whose path they hold.

    The names of these folders are short: lines that would be too long with others are cut.
    """
    # A short path, whatever TMPDIR is: a hint that gets too long ends behind its command.
    with TemporaryDirectory(prefix="wf", dir="/tmp") as folder:
        demo = Path(folder, "demo")
        example_wheels(demo)
        yield demo.rename(demo.with_name("made"))


@pytest.fixture
def demo(made: Path) -> Iterator[Path]:
    """The working folder of a document, as nobody has used it."""
    folder = made.with_name("demo")
    shutil.copytree(made, folder, symlinks=True)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.each_run(
    "README.md",
    "docs/index.md",
    "docs/tutorial/check-report.md",
    "docs/how-to/[ct]*",
    "docs/how-to/musllinux*",
)
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the documents show x86-64")
@pytest.mark.parametrize(
    "document", [document for document in DOCUMENTS if list(fences(document, "console"))]
)
def test_the_examples_print_what_the_document_shows(
    document: str, demo: Path, request: pytest.FixtureRequest
) -> None:
    terminal = Terminal(demo, demo)
    replaced: list[tuple[Fence, str]] = []
    for fence in fences(document):
        if fence.title:
            file = demo / fence.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(fence.content, encoding="utf-8")
        if fence.language != "console" or NOT_RUN.fullmatch(fence.comment):
            continue
        shown = "".join(printed(examples(fence.content), terminal, request))
        if shown != fence.content:
            replaced.append((fence, shown))
    if replaced:
        write(document, replaced)


@pytest.mark.large
def test_the_examples_of_the_readme_hold_with_two_wheels_in_dist(demo: Path) -> None:
    second_wheel(demo)
    terminal = Terminal(demo, demo)
    for fence in fences("README.md"):
        if fence.title:
            (demo / fence.title).write_text(fence.content, encoding="utf-8")
        if fence.language != "console" or NOT_RUN.fullmatch(fence.comment):
            continue
        for example in examples(fence.content):
            output = terminal.run(example.command)
            code = EXIT_CODE.search(example.command)
            assert terminal.code == (int(code[1]) if code else 0), (example.command, output)
            assert "error: " not in output


def printed(
    block: list[Example], terminal: Terminal, request: pytest.FixtureRequest
) -> Iterator[str]:
    """Run the examples of a block; yield their text, with the true output if that is asked for."""
    shows_output = any(example.output for example in block)
    for example in block:
        actual = terminal.run(example.command)
        code = EXIT_CODE.search(example.command)
        assert terminal.code == (int(code[1]) if code else 0), (example.command, actual)
        output = example.output
        if shows_output and not matches(output, actual):
            update = request.config.getoption("--update-golden") and "..." not in output
            assert update, f"{example.command}\nprints\n{actual}\nand not\n{output}"
            output = actual
        yield f"$ {example.command}\n{output}"


def write(document: str, replaced: list[tuple[Fence, str]]) -> None:
    """Replace blocks of a document."""
    path = ROOT / document
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for fence, content in reversed(replaced):
        lines[fence.first : fence.last] = [content]
    path.write_text("".join(lines), encoding="utf-8")


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("one\n", "one\n"),
        ("a ... b\n", "a long b\n"),
        ("...\nend\n", "1\n2\nend\n"),
        ("start\n...\n", "start\n"),
        ("libx-0123abcd.so.1, 3.1 kB\n", "libx-ffffffff.so.1, 2 kB\n"),
    ],
)
def test_the_documented_differences_are_ignored(expected: str, actual: str) -> None:
    assert matches(expected, actual)


@pytest.mark.parametrize(
    ("expected", "actual"),
    [
        ("one\n", "two\n"),
        ("one\n", "one\ntwo\n"),
        ("a ... b\n", "a long c\n"),
        ("...\nend\n", "1\n2\n"),
        ("libx-0123abcd.so.1\n", "liby-0123abcd.so.1\n"),
        ("3 objects\n", "4 objects\n"),
        ("(a).b\n", "aXb\n"),
    ],
)
def test_no_other_difference_is_ignored(expected: str, actual: str) -> None:
    assert not matches(expected, actual)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_block_that_is_not_run_says_why(document: str) -> None:
    for fence in fences(document, "console"):
        if fence.comment.startswith("<!--"):
            assert NOT_RUN.fullmatch(fence.comment)
