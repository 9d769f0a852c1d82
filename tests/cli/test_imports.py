"""What a command imports: start-up is most of the time that a small wheel takes."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON

START = {"wheelfix", "wheelfix.system"}
COMMAND_LINE = START | {
    f"wheelfix.{name}"
    for name in (
        "budget", "cli", "depth_first", "elf", "errors", "frozen", "grouping", "host", "loader",
        "named_tuple", "providers", "python_sources", "reports", "rules", "settings", "system",
        "text", "wheel",
    )
}  # fmt: skip
WORK = COMMAND_LINE | {"wheelfix.analysis", "wheelfix.pipelines"}
OF_TYPER = {"annotated_doc", "packaging", "shellingham", "typer"}
RARE = {
    "asyncio", "decimal", "distributed", "html", "http", "sqlite3", "ssl", "statistics",
    "trove_classifiers", "unittest", "xml",
}  # fmt: skip
"""Modules that only some format, setting or command needs."""
DEFERRED = {
    "configparser", "email", "importlib.metadata", "importlib.resources", "packaging.licenses",
    "packaging.metadata", "packaging.requirements", "packaging.specifiers", "tomllib",
}  # fmt: skip
"""What a wheel without requirements does not need where no file has settings."""
LATE = {"wheelfix.reports.junit", "wheelfix.reports.markdown", "wheelfix.reports.sarif"}


def imported(words: Sequence[str], folder: Path) -> set[str]:
    """Return the modules that a run of `python WORDS` and its workers import."""
    command = [sys.executable, "-X", "importtime", *words]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=ENVIRON, check=False
    )
    assert done.returncode in {0, 1}, done.stderr
    lines = (line for line in done.stderr.splitlines() if line.startswith("import time:"))
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.fixture
def small(tmp_path: Path) -> Path:
    library = shared_object(tmp_path / "libpart.so.1", soname="libpart.so.1")
    module = extension(
        tmp_path / "ext.so", "ext", needed=[library], calls=["f"], rpath=str(tmp_path)
    )
    return make_wheel(tmp_path, files={"pkg/__init__.py": "", "pkg/ext.abi3.so": module})


class Promise(NamedTuple):
    """What a command may import."""

    words: Sequence[str]
    packages: set[str]
    """Of wheelfix."""
    others: set[str]
    """Of other distributions."""
    most: int
    """Modules of wheelfix."""


COMMANDS = {
    "version": Promise(["--version"], START, set(), 5),
    "rule": Promise(["rule", "WF101"], COMMAND_LINE, OF_TYPER, 82),
    "check": Promise(["check", "WHEEL"], WORK, {*OF_TYPER, "zlib_ng"}, 223),
    "repair": Promise(
        ["repair", "-w", "out", "WHEEL"],
        WORK,
        {*OF_TYPER, "auditwheel", "deflate", "elftools", "zlib_ng"},
        257,
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_imports_what_it_uses(command: str, small: Path, tmp_path: Path) -> None:
    promise = COMMANDS[command]
    words = [str(small) if word == "WHEEL" else word for word in promise.words]
    found = imported(["-m", "wheelfix", *words], tmp_path)
    own = {name for name in found if name.partition(".")[0] == "wheelfix"}
    tops = {name.partition(".")[0] for name in found - own}
    assert {".".join(name.split(".")[:2]) for name in own} <= promise.packages
    installed = {top for top in tops - sys.stdlib_module_names if top.isidentifier()}
    started = {"apport_python_hook", "org", "sitecustomize"}  # what an interpreter brings
    assert {top for top in installed - started if not top.startswith("_")} <= promise.others
    if "elftools" in tops:  # imports pdb, and that imports asyncio from Python 3.14 on
        of_elftools = imported(["-c", "import elftools.construct"], tmp_path)
        tops -= {name.partition(".")[0] for name in of_elftools}
    assert not RARE & tops
    assert not LATE & own
    assert not DEFERRED & found or command == "repair"  # auditwheel needs them
    assert len(own) <= promise.most, "a module of wheelfix that this command does not use?"
