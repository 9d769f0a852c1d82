"""Compile C, and keep what comes out by the content of all that went in, for every worker and run.

The folder, which git ignores, may be deleted at any time.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.tools import linking

CACHE = Path(__file__).parents[2] / "build" / "compiled"

_MOST_DAYS = 30
_PROGRAMS = ("cc1", "as", "collect2", "ld", "ld.gold", "ld.lld")
_FILES = ("libc.so", "libc.so.6", "libc.a", "libgcc.a", "crti.o", "crtbeginS.o")
_VARIABLES = ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH", "LD_RUN_PATH", "SOURCE_DATE_EPOCH")


def compile_c(
    compiler: str, path: Path, source: str, arguments: Sequence[str], needed: Sequence[Path] = ()
) -> None:
    """Compile `source` to `path`, or copy what the same compilation made before.

    The linker gets `needed` last, in order. The folder of a test, which a `-rpath` may name, has
    another of the same length in what is kept. What names another temporary folder is not kept.
    """
    for linker in (word for word in arguments if word.startswith("-fuse-ld=")):
        require_linking(compiler, linker)
    path.parent.mkdir(parents=True, exist_ok=True)
    folders = _TestFolders()
    words = [source, path.name, *_command(compiler, arguments, folders)]
    inputs = folders.hidden(repr([*words, *_libraries(needed, folders)]))
    kept = CACHE / sha256(inputs.encode()).hexdigest()
    if _copy(kept, path, folders):
        return
    _compile(compiler, path, source, arguments, needed)
    # gold writes the path of the output into a version definition, and its hash.
    is_named = "-fuse-ld=gold" in arguments and bytes(path.parent) in path.read_bytes()
    if tempfile.gettempdir() not in inputs and not is_named:
        _keep(path, kept, folders)


def require_linking(compiler: str, *arguments: str) -> None:
    """Skip the test if this compiler, of another machine or with another linker, cannot link."""
    if not links(compiler, *arguments):
        pytest.skip(linking(compiler, *arguments))


@cache
def links(compiler: str, *arguments: str) -> bool:
    """Return whether there is the compiler, and all that it links a program with."""
    command = [compiler, *arguments, "-xc", "-", "-o", "/dev/null"]
    source = b"int main(void) { return 0; }"
    with suppress(FileNotFoundError):
        return not subprocess.run(
            command, input=source, capture_output=True, check=False
        ).returncode
    return False


def forget_unused() -> None:
    """Delete what no run has used for a month."""
    oldest = time.time() - _MOST_DAYS * 86400
    with suppress(OSError):
        for file in CACHE.iterdir():
            if file.stat().st_mtime < oldest:
                file.unlink()


def _compile(
    compiler: str, path: Path, source: str, arguments: Sequence[str], needed: Sequence[Path]
) -> None:
    libraries = [word for file in needed for word in ("-L", str(file.parent), f"-l:{file.name}")]
    command = [compiler, "-xc", "-", "-o", str(path), *arguments, *libraries]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class _TestFolders:
    """The folders that pytest made for tests, in the order in which inputs name them."""

    def __init__(self) -> None:
        root = re.escape(tempfile.gettempdir())
        run = r"/(?:pytest-of-[^/]+/pytest-\d+|t)"  # by default, and as `scripts/test` names it
        self._pattern = re.compile(rf"{root}{run}(?:/popen-gw\d+)?/[\w.-]+")
        self._found: dict[str, str] = {}

    def hidden(self, text: str) -> str:
        """Return a text with a name of the same length in the place of each."""
        return self._pattern.sub(self._name, text)

    def in_kept(self, content: bytes) -> bytes:
        """Return an object of this run as it is kept."""
        return _replaced(content, self._found)

    def in_run(self, content: bytes) -> bytes:
        """Return a kept object as one of this run."""
        return _replaced(content, {name: folder for folder, name in self._found.items()})

    def _name(self, match: re.Match[str]) -> str:
        return self._found.setdefault(match[0], f"/@{len(self._found)}@".ljust(len(match[0]), "@"))


def _replaced(content: bytes, names: Mapping[str, str]) -> bytes:
    """Replace each name, the longer of two that begin alike first."""
    for old in sorted(names, key=len, reverse=True):
        content = content.replace(old.encode(), names[old].encode())
    return content


def _copy(kept: Path, path: Path, folders: _TestFolders) -> bool:
    """Copy a kept object to `path`, and say whether there is one."""
    if not kept.exists():
        return False
    path.unlink(missing_ok=True)  # as the linker does: the old file may have a second link
    try:
        shutil.copy(kept, path)
        _rewrite(path, folders.in_run)
        os.utime(kept)
    except FileNotFoundError:
        return False
    return True


def _rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    content = path.read_bytes()
    if (changed := change(content)) != content:
        path.write_bytes(changed)


def _keep(path: Path, kept: Path, folders: _TestFolders) -> None:
    with suppress(OSError):  # a cache that cannot be written keeps nothing
        CACHE.mkdir(parents=True, exist_ok=True)
        draft = kept.with_name(f"{kept.name}.{os.getpid()}")
        shutil.copy(path, draft)
        _rewrite(draft, folders.in_kept)
        draft.rename(kept)


def _command(compiler: str, arguments: Sequence[str], folders: _TestFolders) -> Iterator[str]:
    """All that decides about the output except the source and the libraries' content.

    A script for the linker counts by its content. The path of a library can become DT_NEEDED, and
    with `-g` every path, and the current directory, becomes debug information: they stay.
    """
    debug = any(word.startswith("-g") for word in arguments)
    yield from _toolchain(compiler, os.environ.get("PATH", ""))
    yield sys.version  # of Python.h
    yield from (f"{name}={os.environ.get(name)}" for name in _VARIABLES)
    yield str(Path.cwd()) if debug else ""
    for word in arguments:
        yield re.sub(r"[^,=]+", lambda part: _content(Path(part[0]), folders, named=debug), word)


def _content(path: Path, folders: _TestFolders, *, named: bool) -> str:
    if not os.path.isfile(path):  # noqa: PTH113 - false for a name that is too long
        return str(path)
    content = path.read_bytes()
    named = named or content.startswith(b"\x7fELF")
    return (str(path) if named else "") + _digest(content, folders)


def _digest(content: bytes, folders: _TestFolders) -> str:
    hidden = folders.hidden(content.decode("latin-1")).encode("latin-1")
    return sha256(hidden).hexdigest()


def _libraries(needed: Sequence[Path], folders: _TestFolders) -> Iterator[str]:
    """What the linker may read of the folders that it searches: the rest of them, too.

    Of the system's folders only the libraries themselves: they hold thousands.
    """
    yield from (file.name for file in needed)  # in the order of DT_NEEDED
    for folder in dict.fromkeys(file.parent for file in needed):
        files = [file for file in needed if file.parent == folder]
        if not folder.resolve().is_relative_to("/usr"):
            files += sorted(file for file in folder.iterdir() if file.is_file())
        yield from (f"{file.name} {_digest(file.read_bytes(), folders)}" for file in files)


@cache
def _toolchain(compiler: str, _search: str) -> tuple[str, ...]:
    """The compiler, its linkers and its libraries: where they are, how large, and how old."""
    found = [compiler]
    for option, names in (("prog", _PROGRAMS), ("file", _FILES)):
        for name in names:
            command = [compiler, f"-print-{option}-name={name}"]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append(done.stdout.strip())
    files = [shutil.which(name) or name for name in found]
    return tuple(
        f"{name} {status.st_size} {status.st_mtime_ns}"
        for name in files
        if os.path.exists(name)  # noqa: PTH110
        for status in (os.stat(name),)  # noqa: PTH116
    )
