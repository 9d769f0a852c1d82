"""Symbols that a wheel's members, and libraries of `library-path` and this machine, define.

Nothing is executed. A library that is not found is no error: references to it are not judged.
"""

import mmap
import os
import zipfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from shutil import copyfileobj
from typing import NamedTuple, Self
from zipfile import ZipFile

from wheelfix.analysis.providers import folder_of
from wheelfix.elf.exports import SymbolTables, lazy_exports, read_symbol_tables
from wheelfix.elf.model import Abi, Elf, Exports, Libc
from wheelfix.elf.reader import dynamic_strings, read_elf
from wheelfix.errors import BadElfError, SettingsError
from wheelfix.grouping import grouped
from wheelfix.host.loader_config import configured_directories, loader_environment, loader_of
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_search import search_lists
from wheelfix.loader.load_values import Environment
from wheelfix.settings import Settings
from wheelfix.system.tempfiles import unnamed_file
from wheelfix.wheel.content_scan import Strings
from wheelfix.wheel.edits import AddMember, CopyOf, Edit, HostFile, MoveMember
from wheelfix.wheel.reader import Archive

_LibraryPath = tuple[Path, ...]
_TRUSTED = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")


class _GivenLibrary(NamedTuple):
    """A library below an entry of `library-path`."""

    path: str
    """The path of the file; of a member: the path of its wheel, a slash, and the member."""
    read: Callable[[], memoryview | None]


class _Cache:
    """Exports, libraries and searches so far. Mutable; shared by all views of one wheel."""

    def __init__(self) -> None:
        self.exports: dict[str, Exports] = {}
        self.libraries: dict[str, Library | None] = {}
        self.mentions: dict[str, tuple[str, ...]] = {}
        self.loaders: dict[tuple[str | None, Libc | None, Abi], Environment] = {}
        self.given: dict[_LibraryPath, Mapping[str, Sequence[_GivenLibrary]]] = {}
        self.found: dict[tuple[_LibraryPath, str, Abi], Library] = {}


@dataclass(frozen=True, kw_only=True)
class GivenLibraries:
    """The members of a wheel and the libraries of `library-path`, the same on every machine.

    They are read when they are needed.
    """

    archive: Archive
    settings: Settings
    environ: Mapping[str, str]
    sources: Mapping[str, str | Path] = field(default_factory=dict[str, str | Path])
    """Members that edits have added, each with the original member or the file it is a copy of."""
    _cache: _Cache = field(default_factory=_Cache)

    def including(self, edits: Iterable[Edit]) -> Self:
        """Return the view of the wheel after `edits`, applied in their order."""
        sources = dict(self.sources)
        for edit in edits:
            match edit:
                case MoveMember():
                    sources[edit.new] = sources.get(edit.member, edit.member)
                case AddMember(source=HostFile(path=path)):
                    sources[edit.member] = Path(path)
                case AddMember(source=CopyOf(member=member)):
                    sources[edit.member] = sources.get(member, member)
                case _:
                    pass
        return replace(self, sources=sources)

    def preferring(self, places: Iterable[str]) -> Self:
        """Return the view with `places` before the other entries of `library-path`."""
        paths = tuple(dict.fromkeys((*places, *self.settings.library_path)))
        return replace(self, settings=replace(self.settings, library_path=paths))

    # --- Members

    def reader(self, member: str) -> Callable[[], Exports] | None:
        """Return a reader of the exports of `member`, None if its bytes are not available."""
        source = self.sources.get(member, member)
        if isinstance(source, str) and source not in self.archive.entries:
            return None
        return partial(self._exports, str(source), partial(self._tables, source))

    def _exports(self, path: str, read: Callable[[], SymbolTables]) -> Exports:
        if path not in self._cache.exports:
            self._cache.exports[path] = _read_exports(read)
        return self._cache.exports[path]

    def _tables(self, source: str | Path) -> SymbolTables:
        if isinstance(source, str):
            return self.archive.symbol_tables(source)
        return read_symbol_tables(_map_file(source), str(source))

    def mentions(self, names: Collection[str]) -> Mapping[str, tuple[str, ...]]:
        """Return for each library name the members with it as a string of their code.

        DT_NEEDED and DT_SONAME do not count: `.dynstr` is skipped.
        """
        members = [member.name for member in self.archive.wheel.members]
        known = self._cache.mentions
        for name in set(names) - known.keys():
            known[name] = tuple(m for m in members if self._has_string(m, name.encode()))
        return {name: known[name] for name in names}

    def _has_string(self, member: str, text: bytes) -> bool:
        is_elf = member in self.archive.wheel.elfs
        if not is_elf and not member.endswith(".py"):
            return False
        library_names = self.archive.contents[member].library_names
        if library_names is not None and b".so" in text and b"/" not in text:
            return text in library_names
        strings = Strings(text)
        for piece in self.archive.inflated(member):
            strings.feed(piece)
        strings.finish()
        skipped = self._dynamic_strings(member) if is_elf else range(0)
        return any(found == text and at not in skipped for at, found in strings.found)

    def _dynamic_strings(self, member: str) -> range:
        return dynamic_strings(self.archive.buffer(member), member, self.archive.budget)

    # --- Libraries that are not in the wheel

    def host(self, name: str, dependent: Elf) -> Library | None:
        """Find a library in `library-path` or where the loader of `dependent` searches.

        Its class and machine must be those of `dependent`.
        """
        abi = dependent.abi
        known = (self._library_path, name, abi)
        for library in self._candidates(name, dependent):
            if library is not None and library.elf.abi == abi:
                self._cache.found.setdefault(known, library)
                return library
        # The repair may have removed the build machine's RPATH, which led to it before.
        return self._cache.found.get(known)

    def provider_library(
        self, name: str, dependent: Elf, place: str, folder: str | None
    ) -> Library | None:
        """Find the library `name` in `place`, the wheel or directory of a provider.

        One in `folder` of an install scheme is preferred. Its class and machine must be those of
        `dependent`.
        """
        given = [known for known in self._given.get(name, ()) if known.path.startswith(f"{place}/")]
        given.sort(key=lambda known: folder_of(known.path, place) != folder)
        found = (self._library(*known) for known in given)
        return next((one for one in found if one and one.elf.abi == dependent.abi), None)

    def _candidates(self, name: str, dependent: Elf) -> Iterator[Library | None]:
        if "/" in name:
            if name.startswith("/"):
                yield self._file(name)
            return
        for given in self._given.get(name, ()):
            yield self._library(*given)
        for directory in self._directories(dependent):
            yield self._file(f"{directory}/{name}")

    def _directories(self, dependent: Elf) -> Iterator[str]:
        """Yield the directories of this machine in which to search libraries for `dependent`."""
        del dependent
        return iter(())

    @property
    def _library_path(self) -> _LibraryPath:
        base = Path(self.environ.get("PWD", ""))
        return tuple(canonical(base / entry) for entry in self.settings.library_path)

    @property
    def _given(self) -> Mapping[str, Sequence[_GivenLibrary]]:
        """The libraries of `library-path`, by file name."""
        path = self._library_path
        if path not in self._cache.given:
            found = (given for entry in path for given in _libraries_in(entry))
            self._cache.given[path] = grouped(found, lambda given: Path(given.path).name)
        return self._cache.given[path]

    def _file(self, path: str) -> Library | None:
        return self._library(path, partial(_map_readable, Path(path)))

    def _library(self, path: str, read: Callable[[], memoryview | None]) -> Library | None:
        if path not in self._cache.libraries:
            data = read()
            self._cache.libraries[path] = None if data is None else self._read_library(path, data)
        return self._cache.libraries[path]

    def _read_library(self, path: str, data: memoryview) -> Library | None:
        try:
            elf = read_elf(data, path)
        except BadElfError:
            return None
        if not elf.dynamic:
            return None
        path = str(canonical(Path(path)))  # a file that is reached in two ways is one file
        return Library(
            path=path,
            elf=elf,
            read=partial(self._exports, path, partial(read_symbol_tables, data, path)),
        )


@dataclass(frozen=True, kw_only=True)
class HostLibraries(GivenLibraries):
    """`GivenLibraries`, and the libraries that a loader on this machine finds."""

    def _directories(self, dependent: Elf) -> Iterator[str]:
        variables = ("AUDITWHEEL_LD_LIBRARY_PATH", "LD_LIBRARY_PATH")
        entries = [e for name in variables for e in self.environ.get(name, "").split(":") if e]
        cwd = self.environ.get("PWD", "")
        environment = replace(
            self._loader(dependent),
            library_path=tuple(os.path.join(cwd, entry) for entry in entries),  # noqa: PTH118 - text
        )
        if self.settings.ldpaths is not None:
            given = tuple(filter(None, self.settings.ldpaths.split(":")))
            environment = replace(environment, default_directories=given)
        for _, places in search_lists([("", dependent)], environment):
            for element, directory in places.pairs:
                if element.startswith("/") or places.owner is None:
                    yield directory

    def _loader(self, dependent: Elf) -> Environment:
        """Return the environment of the loader of `dependent`, without files.

        As auditwheel does (lddtree.py, `load_ld_paths`), it searches ld.so.conf in place of
        ld.so.cache, which may be older, and the trusted directories (ld.so(8)).
        """
        key = (loader_of(dependent), dependent.libc, dependent.abi)
        if key not in self._cache.loaders:
            found = loader_environment(dependent)
            if found.libc is Libc.GLIBC:
                directories = (*configured_directories(), *found.default_directories, *_TRUSTED)
                found = replace(found, default_directories=tuple(dict.fromkeys(directories)))
            self._cache.loaders[key] = found
        return self._cache.loaders[key]


def _read_exports(read: Callable[[], SymbolTables]) -> Exports:
    try:
        return lazy_exports(read)
    except BadElfError:
        return Exports()


def _map_file(path: Path) -> memoryview:
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def _map_readable(path: Path) -> memoryview | None:
    """Map a file; None for what is absent, empty, or not a regular file."""
    with suppress(OSError, ValueError):
        if path.is_file():
            return _map_file(path)
    return None


def _map_member(archive: ZipFile, member: str) -> memoryview:
    """Map a member of a wheel by way of a temporary file: CUDA's libraries are large."""
    with archive.open(member) as source, unnamed_file() as file:
        copyfileobj(source, file, 1 << 20)
        file.flush()
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def canonical(path: Path) -> Path:
    """Return the absolute path of a file or a directory, without `..` and links to directories.

    A link to a file keeps its name, as a wheel's says what is in it. Raises `SettingsError` for
    what is no path.
    """
    try:
        if os.path.isdir(path):  # noqa: PTH112 - false for a path that is too long
            return Path(os.path.realpath(path))
        return Path(os.path.realpath(path.parent), path.name)
    except ValueError as error:
        raise SettingsError(f"`{path}` is no path: {error}") from error


def _libraries_in(path: Path) -> Iterator[_GivenLibrary]:
    """Yield the libraries in a directory or in a wheel; raises `SettingsError`."""
    if os.path.isdir(path):  # noqa: PTH112 - false for a path that is too long
        for file in sorted(path.rglob("*.so*")):
            yield _GivenLibrary(str(file), partial(_map_readable, file))
        return
    try:
        archive = ZipFile(path)
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise SettingsError(
            f"`{path}` holds no libraries: {getattr(error, 'strerror', None) or error}",
            hint="`library-path` takes directories and wheels",
        ) from error
    for member in archive.namelist():
        if ".so" in member:
            yield _GivenLibrary(f"{path}/{member}", partial(_map_member, archive, member))
