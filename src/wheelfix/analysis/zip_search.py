"""The libraries of a wheel that auditwheel finds: by search paths as they lead in the zip.

These are the rules of auditwheel's lddtree.py (`ldd`, `find_lib`), which differ from those of the
loaders: the first library found under a name counts for the whole tree, and the DT_RUNPATH of the
first object is searched for all others, after their own search paths.
"""

import posixpath
import re
from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from wheelfix.budget import Budget
from wheelfix.elf.model import Elf
from wheelfix.wheel.model import Wheel

_SEARCHED = "the search in the layout of the zip"
_FOUND_SIZE = 100
"""Bytes in memory of a name that was searched for."""
_ORIGIN = re.compile(r"\$(ORIGIN|\{ORIGIN\})")
LIBPYTHON = re.compile(r"libpython\d+\.\d+m?.so(\.\d)*")
"""The names for which auditwheel does not search: a graft removes these entries."""
_ROOT = "/\0"
"""The directory of the unpacked zip; no search path entry can name it (a C string has no NUL)."""


class _Directories(NamedTuple):
    """The directories of the zip that an object searches."""

    rpath: tuple[str, ...]
    runpath: tuple[str, ...]


class ZipSearch:
    """The search for libraries in the zip of one wheel."""

    def __init__(self, wheel: Wheel, budget: Budget) -> None:
        """Take down the directories of the zip; the searches spend `budget`."""
        self._elfs = wheel.elfs
        self._budget = budget
        self._known: dict[str, _Directories] = {}
        self._trees: dict[str, dict[str, str | None]] = {}
        self._directories: set[str] = {".", ".."}
        for member in wheel.members:
            directory = posixpath.dirname(member.name)
            while directory and directory not in self._directories:
                self._directories.add(directory)
                directory = posixpath.dirname(directory)

    def tree(self, top: str) -> Mapping[str, str | None]:
        """Return each DT_NEEDED name below `top` with the member that is found, None for none."""
        if top not in self._trees:
            self._trees[top] = self._tree(top)
        return self._trees[top]

    def _tree(self, top: str) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        own = self._searched(top)
        waiting = [(top, iter(self._elfs[top].needed))]
        while waiting:
            member, names = waiting[-1]
            name = next((name for name in names if name not in found), None)
            if name is None:
                waiting.pop()
                continue
            if LIBPYTHON.fullmatch(name):
                found[name] = None
                continue
            searched = self._searched(member)
            directories = (*own.rpath, *searched.rpath, *searched.runpath, *own.runpath)
            provider = self._find(name, directories, self._elfs[top])
            found[name] = provider
            if provider is not None:
                waiting.append((provider, iter(self._elfs[provider].needed)))
        return found

    def _find(self, name: str, directories: Sequence[str], dependent: Elf) -> str | None:
        # Each policy walks through what is found.
        self._budget.spend(10 + 2 * len(directories), _SEARCHED, name, memory=_FOUND_SIZE)
        for folder in directories:
            path = f"{folder}/{name}" if folder != "." else name
            if "/" in name:
                path = posixpath.normpath(posixpath.join(folder, name))
            elf = self._elfs.get(path)
            if elf is not None and elf.abi == dependent.abi:
                return path
        return None

    def _searched(self, member: str) -> _Directories:
        if member not in self._known:
            self._known[member] = self._read(member)
        return self._known[member]

    def _read(self, member: str) -> _Directories:
        elf = self._elfs[member]
        path = f"{elf.rpath or ''}:{elf.runpath or ''}"
        length = len(path) + path.count("$") * len(member)
        self._budget.spend(3 * path.count(":") + length // 10, _SEARCHED, member)
        rpath, runpath = (
            _in_zip(path, member, self._directories) for path in (elf.rpath, elf.runpath)
        )
        return _Directories(() if runpath else rpath, runpath)


def _in_zip(path: str | None, member: str, directories: Container[str]) -> tuple[str, ...]:
    """Return the directories of the zip to which the entries of a search path lead.

    An empty entry is the current directory, which is the root of the unpacked zip (`InWheel`).
    Other entries without `$ORIGIN` lead into the file system of the machine. A directory above the
    root is `..`: it has no library, but exists, so that a DT_RUNPATH with it hides DT_RPATH.
    """
    if not path:
        return ()
    origin = posixpath.join(_ROOT, posixpath.dirname(member))
    led = (
        posixpath.normpath(_ORIGIN.sub(lambda _: origin, entry) or _ROOT).replace("//", "/")
        for entry in path.split(":")
    )
    relative = (
        ".." if place == "/" else place.removeprefix(_ROOT).removeprefix("/") or "."
        for place in dict.fromkeys(led)
        if place == "/" or f"{place}/".startswith(f"{_ROOT}/")
    )
    return tuple(directory for directory in relative if directory in directories)
