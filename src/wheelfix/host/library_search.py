"""Libraries found in `library-path` and on this machine, and what they and members define.

Nothing is executed. A library that is not found is not an error: references to it are not judged.
"""

import os
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field, replace
from functools import cached_property, lru_cache, partial
from hashlib import sha256
from itertools import chain
from pathlib import Path
from posixpath import basename
from typing import Self
from weakref import finalize

from wheelfix.analysis.lddtree_search import NO_PATH, SearchPath
from wheelfix.analysis.ungraftable_libraries import UntrustedLibrary
from wheelfix.analysis.world import World
from wheelfix.elf.exports import (
    SymbolTables,
    lazy_exports,
    read_symbol_tables,
)
from wheelfix.elf.image import Buffer
from wheelfix.elf.model import ORIGIN, Abi, Elf, Exports, Libc
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.elf.reader import build_id, read_elf
from wheelfix.errors import BadElfError, BadWheelError, SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, grouped
from wheelfix.host.loader_config import configured_directories, loader_environment, loader_of
from wheelfix.host.machine_files import (
    MAX_LIBRARY,
    UntrustedFileError,
    files_below,
    map_regular,
    open_regular,
    trusted_file,
)
from wheelfix.host.sysroot import HERE, Sysroot, system_at
from wheelfix.loader.as_needed import Library
from wheelfix.loader.glibc_search import expand_directories
from wheelfix.loader.load_values import Environment
from wheelfix.loader.loader_demands import demands_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided
from wheelfix.settings import PathList
from wheelfix.system.paths import is_folder
from wheelfix.text import quote
from wheelfix.wheel.edits import Edit, sources_of
from wheelfix.wheel.names_in_code import CodeNames
from wheelfix.wheel.platform_tags import as_promised
from wheelfix.wheel.reader import Archive
from wheelfix.wheel.zip_reader import ZipReader

_LibraryPath = tuple[Path, ...]
_Directories = tuple[tuple[str, ...], tuple[str, ...]]
"""Those of the object and of the user's environment, and those that come last."""
_TRUSTED = ("/lib", "/lib64", "/usr/lib", "/usr/lib64")
AUDITWHEEL_PATH = "AUDITWHEEL_LD_LIBRARY_PATH"
LIBRARY_PATHS = (AUDITWHEEL_PATH, "LD_LIBRARY_PATH")
"""The variables with folders in which auditwheel looks for libraries, in its order."""


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
        self.code: CodeNames | None = None
        self.loaders: dict[tuple[str | None, Libc | None, Abi], Environment] = {}
        self.given: dict[_LibraryPath, Mapping[str, Sequence[_GivenLibrary]]] = {}
        self.found: dict[tuple[_LibraryPath, str, Abi], Library] = {}
        self.directories: dict[object, _Directories] = {}
        self.untrusted: dict[UntrustedLibrary, None] = {}
        self.copies: dict[str, bool] = {}


@frozen
class GivenLibraries:
    """The members of a wheel and the libraries of `library-path`, the same on every machine.

    They are read when they are needed.
    """

    archive: Archive
    library_path: tuple[str, ...]
    """The wheels and directories to search, those of the setting first."""
    sources: Mapping[str, str | Path] = field(default_factory=dict[str, str | Path])
    """Members that edits have added, as `sources_of` returns them, without texts."""
    _cache: _Cache = field(default_factory=_Cache)

    def including(self, edits: Iterable[Edit]) -> Self:
        """Return the view of the wheel after `edits`, applied in their order."""
        sources = sources_of(edits, self.sources).items()
        return replace(
            self, sources={new: old for new, old in sources if not isinstance(old, bytes)}
        )

    def preferring(self, places: Iterable[str]) -> Self:
        """Return the view that searches `places` first."""
        return replace(self, library_path=tuple(dict.fromkeys((*places, *self.library_path))))

    def beside(self, providers: Iterable[Provided]) -> Self:
        """Return the view that searches the wheels and directories of `providers` last."""
        places = flatten(provider.places for provider in providers)
        return replace(self, library_path=tuple(dict.fromkeys((*self.library_path, *places))))

    def on_this_machine(
        self,
        environ: Mapping[str, str],
        ldpaths: PathList | None = None,
        sysroot: str | None = None,
    ) -> "HostLibraries":
        """Return the view that also searches the libraries of this machine, or of `ldpaths`.

        With the folder `sysroot`, those of the system whose root that is. Those of Android are on
        no machine that builds, whatever its variables say.
        """
        if not demands_of(self.archive.wheel.libc).on_builders:
            ldpaths = ldpaths or PathList()
        return HostLibraries(
            archive=self.archive,
            library_path=self.library_path,
            environ=environ,
            ldpaths=ldpaths,
            system=system_at(sysroot, self.archive.wheel.libc),
            _cache=self._cache,
        )

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
        return read_symbol_tables(map_regular(source), str(source))

    @property
    def code(self) -> CodeNames:
        """What the objects and Python sources of the wheel as read name."""
        if self._cache.code is None:
            self._cache.code = CodeNames(self.archive)
        return self._cache.code

    # --- Libraries that are not in the wheel

    def host(
        self, name: str, dependent: Elf, path: str = "", root: SearchPath = NO_PATH
    ) -> Library | None:
        """Find a library in `library-path` or where auditwheel searches for `dependent`.

        `path` is that of `dependent` on this machine, empty for a member of the wheel; `root` is of
        the member that needs it. Its class and machine must be those of `dependent`.
        """
        known = (self._library_path, name, dependent.abi)
        for library in self._candidates(name, dependent, path, root):
            if library is not None and library.elf.abi == dependent.abi:
                self._cache.found.setdefault(known, library)
                return library
        # The repair may have removed the build machine's RPATH, which led to it before.
        return self._cache.found.get(known)

    def outside(self, name: str, dependent: Elf, folders: Iterable[str]) -> Library | None:
        """Find the first library `name` in `folders`, unless it is a copy of the wheel's."""
        del name, dependent, folders
        return None

    def provider_library(
        self, name: str, dependent: Elf, provider: Provided, directory: str | None
    ) -> Library | None:
        """Find the library `name` of `provider`.

        One in `directory` is preferred. Its class and machine must be those of `dependent`.
        """
        places = tuple(f"{place}/" for place in provider.places)
        libraries = [
            library for library in self._given.get(name, ()) if library.path.startswith(places)
        ]
        libraries.sort(key=lambda library: provider.directory_of(library.path) != directory)
        read = (self._library(*library) for library in libraries)
        return next((lib for lib in read if lib and lib.elf.abi == dependent.abi), None)

    def of_world(self, world: World) -> dict[str, Library]:
        """Return the libraries of a world of the wheel whose symbols can be read, by path."""
        libraries_at: dict[str, Library] = {}
        for path, elf in world.environment.files.items():
            read = self.reader(world.members[path]) if path in world.members else None
            if path in world.of_variables:
                libraries_at[path] = library_at(path, elf)
            elif read is not None:
                libraries_at[path] = Library(path=path, elf=elf, read=read)
            elif world.sysroot and path not in world.described | world.others.keys():
                libraries_at[path] = library_at(path, elf, world.sysroot)
            elif path in world.others:
                given = self._given.get(path.rpartition("/")[2], ())
                read_again = (self._library(*each) for each in given)
                same = next((lib for lib in read_again if lib and lib.elf == elf), None)
                libraries_at |= {path: same} if same else {}
        return libraries_at

    def _candidates(
        self, name: str, dependent: Elf, path: str, root: SearchPath
    ) -> Iterator[Library | None]:
        if "/" in name:
            if name.startswith("/"):
                yield self._file(name)
            return
        for given in self._given.get(name, ()):
            yield self._library(*given)
        for directory in self._folders(dependent, path, root):
            yield self._file(f"{directory}/{name}")

    def _folders(self, dependent: Elf, path: str, root: SearchPath) -> Iterable[str]:
        """Return the directories of this machine in which to search libraries for `dependent`."""
        del dependent, path, root
        return ()

    @cached_property
    def _library_path(self) -> _LibraryPath:
        return tuple(canonical(Path(entry)) for entry in self.library_path)

    @property
    def _given(self) -> Mapping[str, Sequence[_GivenLibrary]]:
        """The libraries of `library-path`, by file name."""
        path = self._library_path
        if path not in self._cache.given:
            listed = flatten(map(_libraries_in, path))
            self._cache.given[path] = grouped(listed, lambda given: Path(given.path).name)
        return self._cache.given[path]

    def _file(self, path: str) -> Library | None:
        return self._library(path, partial(_map_readable, path))

    def _library(self, path: str, read: Callable[[], memoryview | None]) -> Library | None:
        if path not in self._cache.libraries:
            self.archive.budget.spend(10, "the libraries of this machine")
            data = read()
            self._cache.libraries[path] = None if data is None else self._read_library(path, data)
        return self._cache.libraries[path]

    def _read_library(self, path: str, data: memoryview) -> Library | None:
        try:
            elf = as_promised(read_elf(data, path), self.archive.wheel.name.platforms)
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


@frozen
class HostLibraries(GivenLibraries):
    """`GivenLibraries`, and the libraries that a loader on this machine finds."""

    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """Its library paths are absolute."""
    ldpaths: PathList | None = None
    """The folders to search in place of those of the system and of LD_LIBRARY_PATH."""
    system: Sysroot = HERE

    @property
    def given(self) -> GivenLibraries:
        """The same without the libraries of this machine."""
        cache = _Cache()
        cache.exports, cache.code = self._cache.exports, self.code
        return GivenLibraries(
            archive=self.archive,
            library_path=self.library_path,
            sources=self.sources,
            _cache=cache,
        )

    def _folders(self, dependent: Elf, path: str, root: SearchPath) -> Iterable[str]:
        own, defaults = self._directories(dependent, path)
        if not demands_of(dependent.libc).on_builders:
            return (*self.searched, *defaults)
        rpath, runpath = (
            list(flatten(self._places(folder, "") for folder in folders))
            for folders in (root.rpath, root.runpath)
        )
        return dict.fromkeys((*rpath, *own, *runpath, *defaults))

    def _directories(self, dependent: Elf, path: str) -> _Directories:
        """Return the directories of auditwheel's search, in its order (lddtree.py, `ldd`)."""
        origin = path.rpartition("/")[0]
        key = loader_of(dependent), dependent.abi, origin, dependent.search_path
        if key not in self._cache.directories:
            environment = self._loader(dependent)
            # A member is on no machine yet: what its `$ORIGIN` will be is not known.
            entries = [entry for entry in dependent.entries if path or entry.startswith("/")]
            expanded = [place for _, place in expand_directories(entries, origin, environment)]
            own = list(flatten(self._places(place, origin) for place in expanded))
            defaults = tuple(map(self.system.place, environment.default_directories))
            if self.ldpaths is not None:
                defaults = self.ldpaths.folders
            self._cache.directories[key] = (*own, *self.searched), defaults
        return self._cache.directories[key]

    def _places(self, folder: str, origin: str) -> Iterable[str]:
        """Return where the folder of a search path entry may be on this machine.

        What a member names may be of the build, which runs here.
        """
        if self.system == HERE or folder.startswith(f"{self.system.folder}/"):
            return (folder,)
        there = self.system.place(folder)
        return (there,) if origin else (there, folder)

    def _file(self, path: str) -> Library | None:
        return super()._file(self.system.follow(path))

    def graftable(
        self, name: str, dependent: Elf, path: str = "", root: SearchPath = NO_PATH
    ) -> Library | None:
        """Find a library as `host` does, among those alone that can be grafted.

        A file that another user could change cannot.
        """
        for directory in self._folders(dependent, path, root):
            place = posixpath.join(directory, name)  # which may be a path
            library = self._file(place)
            fits = library is not None and library.elf.abi == dependent.abi
            if fits and self._is_trusted(name, place):
                return library
        return None

    def outside(self, name: str, dependent: Elf, folders: Iterable[str]) -> Library | None:
        """Find the first library `name` in `folders`, unless it is a copy of the wheel's."""
        for folder in folders if demands_of(dependent.libc).on_builders else ():
            place = posixpath.join(folder, name)
            library = self._file(place)
            if library is not None and library.elf.abi == dependent.abi:
                is_other = self._is_trusted(name, place) and not self._is_copy(library, name)
                return library if is_other else None
        return None

    def _is_copy(self, library: Library, name: str) -> bool:
        """Return whether a member called `name` was made by the same run of the linker.

        The build-id says so, which stays when the search path is edited; without one, the bytes.
        """
        if library.path not in self._cache.copies:
            read = self.archive
            named = [m for m, elf in read.wheel.elfs.items() if name in {basename(m), elf.soname}]
            mark = _mark(map_regular(library.path), name)
            # Without a member of that name, this repair has brought the one that there is.
            same = not named or any(_mark(read.buffer(member), name) == mark for member in named)
            self._cache.copies[library.path] = same
        return self._cache.copies[library.path]

    def _is_trusted(self, name: str, place: str) -> bool:
        """Return whether no other user can change the file `place`; one that can is noted."""
        try:
            trusted_file(Path(self.system.follow(place)), MAX_LIBRARY)
        except UntrustedFileError as error:
            reason = f"{quote(place)} is not used, as {quote(error.filename)} {error.strerror}"
            self._cache.untrusted[UntrustedLibrary(name, reason, error.remedy)] = None
            return False
        except OSError:
            return False
        return True

    @property
    def untrusted(self) -> tuple[UntrustedLibrary, ...]:
        """What `graftable` passed over so far."""
        return tuple(self._cache.untrusted)

    @cached_property
    def searched(self) -> tuple[str, ...]:
        """The folders in which a graft is looked for, besides the system's and the objects' own."""
        environ = dict(self.environ)
        if self.system != HERE:
            environ.pop("LD_LIBRARY_PATH", None)  # for the programs of this machine
        return search_folders(self.library_path, environ, self.ldpaths)

    def _loader(self, dependent: Elf) -> Environment:
        """Return the environment of the loader of `dependent`, without files.

        As auditwheel does (lddtree.py, `load_ld_paths`), it searches ld.so.conf in place of
        ld.so.cache, which may be older, and the trusted directories (ld.so(8)).
        """
        key = (loader_of(dependent), dependent.libc, dependent.abi)
        if key not in self._cache.loaders:
            environment = loader_environment(dependent, self.system)
            if environment.libc is Libc.GLIBC:
                directories = (
                    *configured_directories(self.system),
                    *environment.default_directories,
                    *_TRUSTED,
                )
                environment = replace(
                    environment, default_directories=tuple(dict.fromkeys(directories))
                )
            self._cache.loaders[key] = environment
        return self._cache.loaders[key]


def _mark(data: Buffer, name: str) -> bytes:
    """Return the build-id of an object, or a hash of its bytes if it has none."""
    return build_id(data, name) or sha256(data).digest()


def search_folders(
    library_path: Iterable[str], environ: Mapping[str, str], ldpaths: PathList | None = None
) -> tuple[str, ...]:
    """Return the folders of `library_path` and of `LIBRARY_PATHS`, with absolute paths alone.

    Of a folder, those below it that hold libraries count, too. `ldpaths` replace LD_LIBRARY_PATH
    (auditwheel's lddtree.py, `ld_paths_from_arg`).
    """
    given = [Path(entry) for entry in library_path if is_folder(entry)]
    below = (file.parent for file in flatten(files_below(folder, "*.so*") for folder in given))
    names = LIBRARY_PATHS if ldpaths is None else (AUDITWHEEL_PATH,)
    variables = (environ.get(name, "").split(":") for name in names)
    entries = (*map(str, given), *map(str, below), *chain.from_iterable(variables))
    absolute = (entry.rstrip("/") for entry in entries if entry.startswith("/"))
    return tuple(dict.fromkeys(entry for entry in absolute if not ORIGIN.search(entry)))


def library_paths(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the variables with directories of libraries, with the relative ones below `folder`.

    An empty entry is the current directory (ld.so(8)).
    """
    return {
        name: ":".join(
            entry if ORIGIN.search(entry) else str(folder / entry)
            for entry in environ[name].split(":")
        )
        for name in LIBRARY_PATHS
        if environ.get(name)
    }


def library_at(path: str, elf: Elf, root: str = "") -> Library:
    """Return the library at `path` of this machine, or below `root`, that was read as `elf`."""
    read = partial(_read_exports, lambda: read_symbol_tables(map_regular(f"{root}{path}"), path))
    return Library(path=path, elf=elf, read=read)


def libraries_defining(symbols: Sequence[str], user: Elf) -> Sequence[tuple[str, str]]:
    """Return SONAMEs and names for `-l` of those that define all symbols for `user`, by default.

    Their folders are the default ones of the loader.
    """
    return _defining(frozenset(symbols), user.abi, user.libc)


@lru_cache  # the rules, the plan and each state that it judges ask for the same symbols
def _defining(symbols: frozenset[str], abi: Abi, libc: Libc | None) -> Sequence[tuple[str, str]]:
    texts = [b"%b\0" % symbol.encode("utf-8", "surrogateescape") for symbol in symbols]
    defining: list[tuple[str, str]] = []
    for path, (link, tables) in _linkable().items():
        if all(text in tables.strings for text in texts):
            found, elf = tables.definitions({*symbols}), read_elf(map_regular(path), path)
            is_of_process = elf.abi == abi and libc in {elf.libc, None}
            # Linkers take no other version than the default one.
            default = {name for name, those in found.items() if not all(d.hidden for d in those)}
            if is_of_process and default == {*symbols}:
                name = link.removeprefix("lib").removesuffix(".so")
                defining.append((elf.soname or link, name))
    return defining


@lru_cache(1)
def _linkable() -> Mapping[str, tuple[str, SymbolTables]]:
    """Return what a linker finds as `libNAME.so`, and the symbols, by the path of the file."""
    found: dict[str, tuple[str, SymbolTables]] = {}
    folders = map(Path, dict.fromkeys((*configured_directories(), *_TRUSTED)))
    # `libpng16.so` before `libpng.so`, a link to it
    for link in flatten(sorted(folder.glob("lib*.so"), reverse=True) for folder in folders):
        path = os.path.realpath(link)
        if path not in found:
            with suppress(BadElfError, OSError):  # a linker script
                found[path] = link.name, read_symbol_tables(map_regular(path), path)
    return found


def _read_exports(read: Callable[[], SymbolTables]) -> Exports:
    try:
        return lazy_exports(read)
    except (BadElfError, OSError):
        return Exports()


def _map_readable(path: str | Path) -> memoryview | None:
    """Map a file; None for what is absent, empty, or not a regular file."""
    with suppress(OSError):
        return map_regular(path) or None
    return None


def canonical(path: Path) -> Path:
    """Return the absolute path of a file or a directory, without `..` and links to directories.

    A link to a file keeps its name, as a wheel's says what is in it. Raises `SettingsError` for
    an invalid path.
    """
    try:
        if is_folder(path):
            return Path(os.path.realpath(path))
        return Path(os.path.realpath(path.parent), path.name)
    except ValueError as error:
        raise SettingsError(f"`{path}` is not a valid path: {error}") from error


def _libraries_in(path: Path) -> Iterator[_GivenLibrary]:
    """Yield the libraries in a directory or in a wheel; raises `SettingsError`."""
    if is_folder(path):
        for file in files_below(path, "*.so*"):
            yield _GivenLibrary(str(file), partial(_map_readable, file))
        return
    try:
        with ExitStack() as stack:
            archive = ZipReader(stack.enter_context(open_regular(path)).fileno())
            # What is read of a library is mapped later, as long as the archive is in use.
            finalize(archive, stack.pop_all().close)
    except (OSError, BadWheelError) as error:
        raise SettingsError(
            f"`{path}` holds no libraries: {getattr(error, 'strerror', None) or error}",
            hint="`library-path` takes directories and wheels",
        ) from error
    for member in archive.entries:
        if is_object_name(member):
            yield _GivenLibrary(f"{path}/{member}", partial(archive.buffer, member))
