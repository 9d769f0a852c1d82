"""Which file the dynamic loader takes for a name, and why: glibc's `ld.so` and musl's.

A model of `_dl_map_object` (glibc, elf/dl-load.c), `_dl_map_object_deps` (elf/dl-deps.c) and of
`load_library` (musl, ldso/dynlink.c) over a described environment. It asks the same directories
in the same order and keeps every candidate with its outcome, so that a miss can be explained.

Paths are text, as the loader sees them: `$ORIGIN` is the directory of the path that an object
was opened by, never made canonical. Only the virtual file system below resolves `..` and links.
"""

import re
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from wheelfix.elf.model import Elf, ElfType, Libc
from wheelfix.errors import BadWheelError


class How(StrEnum):
    """What leads the loader to a file."""

    PATH = "path"
    """The name has a slash: no search."""
    LOADED = "loaded"
    """An object that is loaded already answers to the name."""
    SAME_FILE = "same-file"
    """The search found a file that is loaded already, under another path."""
    RPATH = "rpath"
    """The requester's own DT_RPATH; for musl its DT_RUNPATH just as well."""
    INHERITED = "inherited"
    """The search path of an object that caused the requester to be loaded, or of the program."""
    LIBRARY_PATH = "library-path"
    """LD_LIBRARY_PATH."""
    RUNPATH = "runpath"
    """The requester's own DT_RUNPATH."""
    CACHE = "cache"
    """/etc/ld.so.cache."""
    DEFAULT = "default"
    """A default directory of the loader."""
    LIBC = "libc"
    """musl serves `libc.`, `libm.`, `libpthread.` and their fellows itself."""


class Outcome(StrEnum):
    """What came of one candidate."""

    FOUND = "found"
    ABSENT = "absent"
    NO_DIRECTORY = "no such directory"
    WRONG_CLASS = "wrong ELF class"
    WRONG_MACHINE = "wrong machine"
    LOOP = "too many levels of symbolic links"
    """Ends this list of directories; for musl, the search."""
    WRONG_ENDIANNESS = "wrong endianness"
    """Fatal upstream; Debian's glibc skips the file."""
    NOT_ELF = "not an ELF file"
    IS_DIRECTORY = "is a directory"
    WRONG_OSABI = "unknown OS ABI"
    NOT_SHARED = "not a shared object"
    """ET_REL, ET_CORE, an executable, or no dynamic section."""


_SKIPPED = frozenset(
    {
        Outcome.ABSENT,
        Outcome.NO_DIRECTORY,
        Outcome.WRONG_CLASS,
        Outcome.WRONG_MACHINE,
        Outcome.LOOP,
    }
)


class Candidate(NamedTuple):
    """One file that the loader tried, or one directory that is not there.

    A named tuple: the loader makes them by the ten thousand.
    """

    path: str
    """As the loader spells it; the directory alone for `NO_DIRECTORY`."""
    how: How
    outcome: Outcome
    owner: str | None
    """The file whose search path was used."""
    entry: str | None
    """The element of that search path, as written."""


class Request(NamedTuple):
    """One name that was asked for, and the answer."""

    requester: str | None
    """The file whose DT_NEEDED it is; None for the program and for dlopen from the program."""
    name: str
    result: str | None
    """The file that serves the name (a key of `Environment.files`); None without one."""
    how: How | None = None
    candidates: tuple[Candidate, ...] = ()
    """All that was tried, in order; the one that was taken comes last."""
    provided: bool = False
    """Nothing here serves it, but the platform or another wheel is known to."""

    @property
    def failed(self) -> bool:
        """Whether this request makes the whole load fail."""
        return self.result is None and not self.provided

    @property
    def fatal(self) -> bool:
        """Whether a file that cannot be loaded ended the search before its end."""
        return (
            self.failed and bool(self.candidates) and (self.candidates[-1].outcome not in _SKIPPED)
        )


class Load(NamedTuple):
    """What one dlopen, or the start of one program, loads.

    The real loader stops at the first request that fails, and unloads; the model goes on, so
    that all that is missing is known at once.
    """

    root: str
    """As asked for."""
    objects: tuple[str, ...]
    """The files in the order of symbol search: the root, then breadth first (gABI chapter 5)."""
    requests: tuple[Request, ...]

    @property
    def missing(self) -> tuple[Request, ...]:
        """The requests that fail; the loader's message names the first."""
        return tuple(request for request in self.requests if request.failed)


class Opening(NamedTuple):
    """A dlopen by another object than the program: its search path serves a bare `name`."""

    name: str
    caller: str
    """A file that is loaded already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The file system and the process that a load happens in. Paths are absolute, canonical."""

    libc: Libc
    files: Mapping[str, Elf]
    """The ELF objects by path."""
    broken: Mapping[str, Outcome] = field(default_factory=dict[str, Outcome])
    """Files that are there but no loadable ELF, and what the loader says of them."""
    directories: frozenset[str] = frozenset()
    """Directories besides those that hold `files`, `broken` and `links`."""
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Symbolic links, to files or directories, with their targets as written."""
    hard_links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths of `files` that are the same inode: path to any name for that inode."""
    cwd: str | None = None
    """The current directory; None is a directory that holds nothing."""
    main: str | None = None
    """The program, one of `files`. None is an interpreter without search path or libraries."""
    loaded: Mapping[str, str] = field(default_factory=dict[str, str])
    """What the process has loaded besides: SONAME (musl: file name searched for) to path."""
    library_path: tuple[str, ...] = ()
    """The elements of LD_LIBRARY_PATH."""
    default_directories: tuple[str, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict[str, str])
    """ld.so.cache: SONAME to path."""
    provided: Container[str] = field(default_factory=frozenset[str])
    """Names that somebody gives who is not described here, asked last."""
    lib: str = "lib64"
    """The value of `$LIB`: `lib64`, `lib`, or `lib/x86_64-linux-gnu` on Debian."""
    platform: str | None = None
    """The value of `$PLATFORM`: AT_PLATFORM of the CPU; None voids the elements that use it."""
    subdirectories: tuple[str, ...] = ()
    """What glibc tries first in every directory: `hwcaps(level)`, legacy names before 2.37."""


_DF_1_NODEFLIB = 0x800
_DF_1_PIE = 0x08000000

# --- Tokens and lists ---------------------------------------------------------------------------

_TOKEN = re.compile(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")
_MUSL_ORIGIN = re.compile(r"\$ORIGIN|\$\{ORIGIN\}")
_MUSL_LIST = re.compile(r"[:\n]+")
_MUSL_LIBC = re.compile(r"lib(?:c|pthread|rt|m|dl|util|xnet)\.[^/]*$")


def hwcaps(level: int) -> tuple[str, ...]:
    """Return the subdirectories that glibc 2.33 tries on x86-64 CPUs of `level` (1 to 4)."""
    return tuple(f"glibc-hwcaps/x86-64-v{each}" for each in range(level, 1, -1))


def expand(
    entry: str, origin: str | None, *, lib: str = "lib64", platform: str | None = None
) -> str | None:
    """Replace `$ORIGIN`, `$LIB` and `$PLATFORM` as glibc does; unknown tokens stay as they are.

    None if a token has no value: the loader ignores such an element (`_dl_dst_substitute`).
    """
    if "$" not in entry:
        return entry
    values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": platform}
    used = [match[1] or match[2] for match in _TOKEN.finditer(entry)]
    if any(values[token] is None for token in used):
        return None
    return _TOKEN.sub(lambda match: values[match[1] or match[2]] or "", entry)


def search_directories(
    path: str, origin: str | None, environment: Environment
) -> tuple[tuple[str, str], ...]:
    """Return the directories of the search path `path`, each with the element it comes from.

    As the libc of `environment` reads it: elements that it ignores are left out, repeated ones
    too. A directory may be relative; the empty one is the current directory.
    """
    if environment.libc is Libc.MUSL:
        return _musl_directories(path, origin)
    return _glibc_directories(path.split(":") if path else (), origin, environment)


def _glibc_directories(
    elements: Iterable[str], origin: str | None, environment: Environment
) -> tuple[tuple[str, str], ...]:
    """`fillin_rpath`: expand each element, strip its slashes, leave out repeated directories."""
    found: dict[str, str] = {}
    for element in elements:
        text = expand(element, origin, lib=environment.lib, platform=environment.platform)
        if text is not None:
            found.setdefault((text.rstrip("/") or "/") if text else "", element)
    return tuple((element, directory) for directory, element in found.items())


def _musl_directories(path: str, origin: str | None) -> tuple[tuple[str, str], ...]:
    """`fixup_rpath`: another `$` than `$ORIGIN` anywhere voids the whole search path."""
    if origin is None or "$" in _MUSL_ORIGIN.sub("", path):
        return ()
    elements = [element for element in _MUSL_LIST.split(path) if element]
    return tuple((each, origin.join(_MUSL_ORIGIN.split(each))) for each in elements)


# --- The file system ----------------------------------------------------------------------------


_Found = tuple[tuple[str, Elf] | None, tuple[Candidate, ...]]
"""The file that a search finds, with what it says, and all that was tried."""


class _Tree:
    """What `open(2)` would find, with directories resolved once; shared by many processes."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._links = environment.links
        self._real: dict[str, str | None] = {}
        self.search_paths: dict[str, _Places] = {}
        self.searches: dict[tuple[str, str, tuple[int, bool, int] | None], _Found] = {}
        self.requests: dict[tuple[str | None, str, str], Request] = {}
        self.defaults = _Places(None, [(each, each) for each in environment.default_directories])
        self.directories = {"/", *environment.directories}
        everything = (environment.files, environment.broken, environment.links)
        for path in [*environment.directories, *(path for some in everything for path in some)]:
            directory = path.rpartition("/")[0]
            while directory and directory not in self.directories:
                self.directories.add(directory)
                directory = directory.rpartition("/")[0]

    def directory(self, text: str) -> str | None:
        """Return the canonical path of the directory `text`, None if there is none."""
        try:
            return self._real[text]
        except KeyError:
            real = self._real[text] = self._existing(self.absolute(text))
            return real

    def file(self, path: str) -> tuple[str, Elf | Outcome]:
        """Return the canonical path that `path` leads to, and what stands there."""
        head, _, name = path.rpartition("/")
        directory = self.directory(head or ("/" if path.startswith("/") else ""))
        if directory is None:
            return path, Outcome.ABSENT
        return self.entry(directory, name)

    def entry(self, directory: str, name: str) -> tuple[str, Elf | Outcome]:
        """Return the same for `name` in a canonical directory."""
        real = f"{directory}/{name}" if directory != "/" else f"/{name}"
        if real in self._links:
            try:
                real = self._resolve(real) or real
            except RecursionError:
                return real, Outcome.LOOP
        elf = self._environment.files.get(real)
        if elf is not None:
            return real, elf
        missing = Outcome.IS_DIRECTORY if real in self.directories else Outcome.ABSENT
        return real, self._environment.broken.get(real, missing)

    def inode(self, real: str) -> str:
        """Return what two names of one file have in common."""
        return self._environment.hard_links.get(real, real)

    def absolute(self, text: str) -> str:
        """Prepend the current directory to a relative path, as text."""
        if text.startswith("/"):
            return text
        cwd = self._environment.cwd or "/\0"
        return f"{cwd}/{text}" if text else cwd

    def _existing(self, path: str) -> str | None:
        try:
            real = self._resolve(path)
        except RecursionError:
            return None
        return real if real in self.directories else None

    def _resolve(self, path: str, depth: int = 0) -> str | None:
        """Follow `..` and links as the kernel does; only the last component may be missing.

        RecursionError where the kernel says ELOOP.
        """
        if depth > 40:  # MAXSYMLINKS
            raise RecursionError
        parts = [part for part in path.split("/") if part not in {"", "."}]
        current = ""
        for index, part in enumerate(parts):
            if part == "..":
                current = current.rpartition("/")[0]
                continue
            step = f"{current}/{part}"
            target = self._links.get(step)
            if target is not None:
                start = target if target.startswith("/") else f"{current}/{target}"
                rest = "/".join([start, *parts[index + 1 :]])
                return self._resolve(rest, depth + 1)
            if index + 1 < len(parts) and step not in self.directories:
                return None
            current = step
        return current or "/"


# --- The process --------------------------------------------------------------------------------


class _Map:
    """One loaded object: glibc's `struct link_map`, musl's `struct dso`."""

    __slots__ = ("elf", "file", "loader", "names", "opened", "origin", "place")

    def __init__(
        self, *, file: str, opened: str, origin: str, elf: Elf | None, loader: "_Map | None"
    ) -> None:
        self.file = file
        self.opened = opened
        self.origin = origin
        self.elf = elf
        self.loader = loader
        self.names: set[str] = set()
        self.place = 0
        """In load order."""


class _Walk(NamedTuple):
    """What came of one name in one list of places."""

    tried: tuple[Candidate, ...]
    file: tuple[str, Elf] | None
    ends: bool
    """Whether the search is over, found or not."""


class _Places:
    """One list of places to search. What a name leads to in it is found out only once."""

    __slots__ = ("owner", "pairs", "walks")

    def __init__(self, owner: str | None, pairs: Sequence[tuple[str, str]]) -> None:
        self.owner = owner
        self.pairs = pairs
        """Element and directory; for a path and for the cache, name and file."""
        self.walks: dict[tuple[How, str, tuple[int, bool, int] | None], _Walk] = {}


class _Process(ABC):
    """What both loaders have in common: names, files, breadth-first loading, undoing a failure."""

    def __init__(self, environment: Environment, tree: _Tree, main: str | None) -> None:
        self.environment = environment
        self.tree = tree
        self._names: dict[str, list[_Map]] = {}  # in load order: the first one answers
        self._inodes: dict[str, _Map] = {}
        self._answers: list[tuple[_Map, str]] = []
        self.main = None if main is None else self._program(main)
        self.reference = self.main.elf if self.main else None
        self._library_path = _Places(None, self._library_directories())
        for name, path in environment.loaded.items():
            loaded = self._map(path, path, environment.files.get(path), None)
            self._register(loaded, path)
            self._answer(loaded, name)

    def start(self, root: str) -> Load:
        """Load what the program needs."""
        if self.main is None:
            return Load(root=root, objects=(), requests=())
        return self._load_dependencies(root, self.main, [])

    def dlopen(self, name: str, caller: str | None = None) -> Load:
        """Load `name` and what it needs; nothing of it stays if a request fails."""
        requester = self.main if caller is None else self._caller(caller)
        found, request = self._request(requester, name, dlopen=True)
        if found is None:
            return Load(root=name, objects=(), requests=(request,))
        return self._load_dependencies(name, found, [request])

    def undo(self, load: Load) -> None:
        """Take back a load whose files were all found, but that fails for a symbol."""
        self._unload(load, len(self._answers))

    def _load_dependencies(self, root: str, top: _Map, requests: list[Request]) -> Load:
        order = [top]
        seen = {id(top)}
        failed: int | None = None
        for each in order:  # grows while it is walked: breadth first
            for name in each.elf.needed if each.elf else ():
                found, request = self._request(each, name)
                requests.append(request)
                if found is None:
                    if failed is None and request.failed:
                        failed = len(self._answers)
                elif id(found) not in seen:
                    seen.add(id(found))
                    order.append(found)
        load = Load(root=root, objects=tuple(each.file for each in order), requests=tuple(requests))
        if failed is not None:
            self._unload(load, failed)
        return load

    def _request(
        self, requester: _Map | None, name: str, *, dlopen: bool = False
    ) -> tuple[_Map | None, Request]:
        """Serve one name: by what is loaded, by the file that a search finds, or not at all."""
        asker = requester.file if requester else None
        spelled = self._spell(requester, name) if "$" in name else name
        named = self._names.get(spelled)
        if named:
            return named[0], self._served(asker, name, named[0])
        if self._is_libc(spelled):
            return None, Request(
                requester=asker, name=name, result=None, how=How.LIBC, provided=True
            )
        file, tried = self._search(requester, spelled)
        if file is None:
            skipped = not tried or tried[-1].outcome in _SKIPPED
            provided = skipped and spelled in self.environment.provided
            return None, Request(
                requester=asker, name=name, result=None, candidates=tried, provided=provided
            )
        real, elf = file
        how = tried[-1].how
        found = self._inodes.get(self.tree.inode(real))
        if found is None:
            loader = self._loader_of(requester, dlopen=dlopen)
            found = self._map(real, tried[-1].path, elf, loader)
            self._register(found, spelled)
        else:
            how = How.SAME_FILE
            self._found_again(found, spelled)
        return found, Request(
            requester=asker, name=name, result=found.file, how=how, candidates=tried
        )

    def _served(self, asker: str | None, name: str, known: _Map) -> Request:
        """Return the answer of what is loaded; most requests are such, and many are the same."""
        key = (asker, name, known.file)
        answer = self.tree.requests.get(key)
        if answer is None:
            answer = self.tree.requests[key] = Request(
                requester=asker, name=name, result=known.file, how=How.LOADED
            )
        return answer

    def _search(self, requester: _Map | None, name: str) -> _Found:
        """Return the file that the loader takes, with what it says, and all that was tried."""
        known = self.reference
        kind = (known.bits, known.little_endian, known.machine) if known else None
        place = self._search_place(requester) if kind and "/" not in name else None
        if place is None:
            return self._search_afresh(requester, name, kind)
        key = (place, name, kind)
        found = self.tree.searches.get(key)
        if found is None:
            found = self.tree.searches[key] = self._search_afresh(requester, name, kind)
        return found

    def _search_afresh(
        self, requester: _Map | None, name: str, kind: tuple[int, bool, int] | None
    ) -> _Found:
        tried: tuple[Candidate, ...] = ()
        for how, places in self._lists(requester, name):
            walk = places.walks.get((how, name, kind))
            if walk is None:
                walk = places.walks[how, name, kind] = self._walk(name, how, places)
            tried += walk.tried
            if walk.ends:
                return walk.file, tried
        return None, tried

    def _walk(self, name: str, how: How, places: _Places) -> _Walk:
        """Try `name` in one list."""
        tried: list[Candidate] = []
        for entry, path, real, there, last in self._opened(name, how, places):
            elf, outcome = self._judge(there)
            tried.append(Candidate(path, how, outcome, places.owner, entry))
            if elf is not None:
                return _Walk(tuple(tried), (real, elf), ends=True)
            if outcome is Outcome.LOOP and last:
                return _Walk(tuple(tried), None, ends=self._loop_ends_search)
            if outcome not in _SKIPPED:
                return _Walk(tuple(tried), None, ends=True)
        return _Walk(tuple(tried), None, ends=False)

    def _opened(
        self, name: str, how: How, places: _Places
    ) -> Iterator[tuple[str, str, str, Elf | Outcome, bool]]:
        """Yield what is opened: element, path as spelled, canonical path, what stands there.

        Last comes whether it is the directory itself: glibc looks at errno only after that one.
        """
        tree = self.tree
        for entry, text in places.pairs:
            if how in {How.PATH, How.CACHE}:
                yield entry, text, *tree.file(text), True
                continue
            directory = tree.directory(text)
            if directory is None:
                yield entry, text, "", Outcome.NO_DIRECTORY, True
                continue
            prefix = text if text in {"", "/"} else f"{text}/"
            for sub in self.environment.subdirectories:
                inner = tree.directory(f"{prefix}{sub}")
                if inner is not None:
                    yield entry, f"{prefix}{sub}/{name}", *tree.entry(inner, name), False
            yield entry, f"{prefix}{name}", *tree.entry(directory, name), True

    def _judge(self, there: Elf | Outcome) -> tuple[Elf | None, Outcome]:
        """Return the object if the loader takes it, and what it says of the file."""
        if not isinstance(there, Elf):
            return None, there
        if self.reference is None:
            self.reference = there
        outcome = self._verdict(there, self.reference)
        return there if outcome is Outcome.FOUND else None, outcome

    # --- Where glibc and musl differ

    _loop_ends_search = False

    @abstractmethod
    def _spell(self, requester: _Map | None, name: str) -> str:
        """Return `name` with its tokens replaced."""

    @abstractmethod
    def _is_libc(self, name: str) -> bool:
        """Return whether the loader serves `name` itself."""

    @abstractmethod
    def _library_directories(self) -> Sequence[tuple[str, str]]:
        """Return the directories of LD_LIBRARY_PATH."""

    def _lists(self, requester: _Map | None, name: str) -> Iterator[tuple[How, _Places]]:
        """Yield the lists to search for `name`, in order."""
        if "/" in name:
            yield How.PATH, _Places(None, [(name, name)])
        else:
            yield from self._search_lists(requester, name)

    @abstractmethod
    def _search_lists(self, requester: _Map | None, name: str) -> Iterator[tuple[How, _Places]]:
        """Yield the lists to search for a bare name."""

    def _search_place(self, requester: _Map | None) -> str | None:
        """Return where a search starts, if nothing else of the process decides what it finds."""
        del requester
        return None

    @abstractmethod
    def _verdict(self, elf: Elf, reference: Elf) -> Outcome:
        """Return what the loader says of an object that it opened."""

    def _caller(self, path: str) -> _Map | None:
        """Return the object that searches for what the object at `path` opens."""
        return self._inodes[self.tree.inode(self.tree.file(path)[0])]

    @abstractmethod
    def _loader_of(self, requester: _Map | None, *, dlopen: bool) -> _Map | None:
        """Return the object whose search path a new object inherits."""

    @abstractmethod
    def _found_again(self, known: _Map, name: str) -> None:
        """Let a loaded object answer to the name by which its file was found once more."""

    @abstractmethod
    def _own_names(self, loaded: _Map, name: str) -> Iterable[str]:
        """Return the names that a new object answers to."""

    # --- Bookkeeping

    def _program(self, path: str) -> _Map:
        """Map the program: its origin is canonical (`/proc/self/exe`), and no name finds it."""
        real, _ = self.tree.file(path)
        return self._map(real, real, self.environment.files[real], None)

    def _map(self, real: str, opened: str, elf: Elf | None, loader: _Map | None) -> _Map:
        origin = self._origin(opened)
        return _Map(file=real, opened=opened, origin=origin, elf=elf, loader=loader)

    def _origin(self, opened: str) -> str:
        return self.tree.absolute(opened).rpartition("/")[0] or "/"

    def _register(self, loaded: _Map, name: str) -> None:
        loaded.place = len(self._inodes)
        self._inodes[self.tree.inode(loaded.file)] = loaded
        for each in self._own_names(loaded, name):
            self._answer(loaded, each)

    def _answer(self, loaded: _Map, name: str) -> None:
        """Let `loaded` answer to `name`, where no object loaded earlier does."""
        if name not in loaded.names:
            loaded.names.add(name)
            self._answers.append((loaded, name))
            insort(self._names.setdefault(name, []), loaded, key=_place)

    def _unload(self, load: Load, failed: int) -> None:
        """Take away what a failed load brought; what was there before stays.

        The real loader never came past the failure, so no name was given out after it either:
        `failed` is the number of names until then.
        """
        for loaded, name in self._answers[failed:]:
            loaded.names.remove(name)
            self._names[name].remove(loaded)
        del self._answers[failed:]
        new = {request.result for request in load.requests if request.how in _SEARCHES}
        for file in filter(None, new):
            gone = self._inodes.pop(self.tree.inode(file))
            for name in gone.names:
                self._names[name].remove(gone)

    def _search_path(self, owner: _Map, path: str) -> _Places:
        """Return the expanded search path of `owner`, the same one for all processes."""
        known = self.tree.search_paths.get(owner.opened)
        if known is None:
            pairs = search_directories(path, owner.origin, self.environment)
            known = self.tree.search_paths[owner.opened] = _Places(owner.file, pairs)
        return known


def _place(loaded: _Map) -> int:
    return loaded.place


_SEARCHES = frozenset(How) - {How.LOADED, How.SAME_FILE, How.LIBC}


class _Glibc(_Process):
    """elf/dl-load.c and elf/dl-deps.c of glibc."""

    def _spell(self, requester: _Map | None, name: str) -> str:
        env = self.environment
        origin = requester.origin if requester else None
        return expand(name, origin, lib=env.lib, platform=env.platform) or name

    def _is_libc(self, name: str) -> bool:
        del name  # glibc is made of ordinary files
        return False

    def _library_directories(self) -> Sequence[tuple[str, str]]:
        origin = self.main.origin if self.main else None
        return _glibc_directories(self.environment.library_path, origin, self.environment)

    def _search_lists(self, requester: _Map | None, name: str) -> Iterator[tuple[How, _Places]]:
        env = self.environment
        elf = requester.elf if requester else None
        runpath = elf.runpath if elf else None
        if runpath is None:
            yield from self._rpath_chain(requester)
        yield How.LIBRARY_PATH, self._library_path
        if requester is not None and runpath is not None:
            yield How.RUNPATH, self._search_path(requester, runpath)
        if name in env.cache:
            yield How.CACHE, _Places(None, [(name, env.cache[name])])
        if elf is None or not elf.dt_flags_1 & _DF_1_NODEFLIB:
            yield How.DEFAULT, self.tree.defaults

    def _search_place(self, requester: _Map | None) -> str | None:
        elf = requester.elf if requester else None
        if requester is None or elf is None or elf.runpath is None or self._library_path.pairs:
            return None
        return requester.opened

    def _rpath_chain(self, requester: _Map | None) -> Iterator[tuple[How, _Places]]:
        """Yield the DT_RPATH of the requester, of what caused it to be loaded, of the program.

        An object with DT_RUNPATH has no DT_RPATH, for itself and for others.
        """
        chain: list[_Map] = []
        each = requester
        while each is not None:
            chain.append(each)
            each = each.loader
        if self.main is not None and self.main not in chain:
            chain.append(self.main)
        for each in chain:
            if each.elf and each.elf.runpath is None and each.elf.rpath is not None:
                how = How.RPATH if each is requester else How.INHERITED
                yield how, self._search_path(each, each.elf.rpath)

    def _verdict(self, elf: Elf, reference: Elf) -> Outcome:
        """`open_verify`: what is for another machine is passed over, other nonsense is fatal."""
        if elf.bits != reference.bits:
            return Outcome.WRONG_CLASS
        if elf.little_endian != reference.little_endian:
            return Outcome.WRONG_ENDIANNESS
        if elf.osabi not in {0, 3}:  # ELFOSABI_SYSV, ELFOSABI_GNU
            return Outcome.WRONG_OSABI
        if elf.machine != reference.machine:
            return Outcome.WRONG_MACHINE
        if elf.type != ElfType.DYN or elf.dt_flags_1 & _DF_1_PIE or not elf.dynamic:
            return Outcome.NOT_SHARED
        return Outcome.FOUND

    def _loader_of(self, requester: _Map | None, *, dlopen: bool) -> _Map | None:
        return None if dlopen else requester

    def _found_again(self, known: _Map, name: str) -> None:
        self._answer(known, name)

    def _own_names(self, loaded: _Map, name: str) -> Iterable[str]:
        soname = loaded.elf.soname if loaded.elf else None
        return (name, loaded.opened, *([soname] if soname else []))


class _Musl(_Process):
    """`load_library` and `load_deps` of musl's ldso/dynlink.c."""

    _loop_ends_search = True

    def _spell(self, requester: _Map | None, name: str) -> str:
        del requester  # musl knows no tokens in names
        return name

    def _is_libc(self, name: str) -> bool:
        return bool(_MUSL_LIBC.match(name)) or name.startswith("/lib/ld-musl-")

    def _library_directories(self) -> Sequence[tuple[str, str]]:
        return [(each, each) for each in self.environment.library_path if each]

    def _search_lists(self, requester: _Map | None, name: str) -> Iterator[tuple[How, _Places]]:
        del name  # there is no cache
        yield How.LIBRARY_PATH, self._library_path
        each = requester
        while each is not None:
            path = each.elf.search_path if each.elf else None
            if path is not None:
                how = How.RPATH if each is requester else How.INHERITED
                yield how, self._search_path(each, path)
            each = each.loader
        yield How.DEFAULT, self.tree.defaults

    def _verdict(self, elf: Elf, reference: Elf) -> Outcome:
        """`map_library`: the first file that opens is taken, good or bad; e_machine is not read."""
        if elf.bits != reference.bits:
            return Outcome.NOT_ELF  # musl says "Exec format error" of both
        if elf.little_endian != reference.little_endian:
            return Outcome.WRONG_ENDIANNESS
        if elf.type not in {ElfType.DYN, ElfType.EXEC} or not elf.dynamic:
            return Outcome.NOT_SHARED
        return Outcome.FOUND

    def _caller(self, path: str) -> _Map | None:
        del path  # whoever calls dlopen, the program searches
        return self.main

    def _origin(self, opened: str) -> str:
        return super()._origin(opened) if opened.startswith("/") else opened.rpartition("/")[0]

    def _loader_of(self, requester: _Map | None, *, dlopen: bool) -> _Map | None:
        return self.main if dlopen else requester

    def _found_again(self, known: _Map, name: str) -> None:
        if "/" not in name and not known.names:
            self._answer(known, known.opened.rpartition("/")[2])

    def _own_names(self, loaded: _Map, name: str) -> Iterable[str]:
        return () if "/" in name else (loaded.opened.rpartition("/")[2],)


# --- What the rules ask -------------------------------------------------------------------------


_MOST_REQUESTS = 2_000_000
"""Of all objects of a wheel together; the largest published ones have a hundredth of that."""


def load(root: str, environment: Environment) -> Load:
    """Load `root` in a process of its own: dlopen for a library, a start for an executable."""
    return load_each([root], environment)[0]


def load_each(roots: Iterable[str], environment: Environment) -> tuple[Load, ...]:
    """Load each of `roots` in a process of its own; the file system is looked at only once."""
    tree = _Tree(environment)
    loads: list[Load] = []
    requests = 0
    for root in roots:
        loads.append(_load(root, environment, tree))
        requests += len(loads[-1].requests)
        if requests > _MOST_REQUESTS:
            raise BadWheelError(
                f"the objects need each other in more than {_MOST_REQUESTS:,} ways",
                hint="no build writes this; if yours does, please report the wheel",
            )
    return tuple(loads)


def load_all(
    roots: Iterable[str | Opening],
    environment: Environment,
    *,
    accepts: Callable[[Load], bool] | None = None,
) -> tuple[Load, ...]:
    """Open `roots` one after the other in one process: what is loaded earlier serves later ones.

    `accepts` is asked about each load whose files are all found, in turn. What it refuses, for a
    symbol that is missing, is unloaded again (see `binding`).
    """
    process = _process(environment, _Tree(environment), environment.main)
    if environment.main is not None:
        process.start(environment.main)
    loads: list[Load] = []
    for root in roots:
        name, caller = (root.name, root.caller) if isinstance(root, Opening) else (root, None)
        load = process.dlopen(name, caller)
        if accepts is not None and not load.missing and not accepts(load):
            process.undo(load)
        loads.append(load)
    return tuple(loads)


def _load(root: str, environment: Environment, tree: _Tree) -> Load:
    _, elf = tree.file(root)
    if isinstance(elf, Elf) and elf.is_executable:
        return _process(environment, tree, root).start(root)
    process = _process(environment, tree, environment.main)
    if environment.main is not None:
        process.start(environment.main)
    return process.dlopen(root)


def _process(environment: Environment, tree: _Tree, main: str | None) -> _Process:
    kind = _Musl if environment.libc is Libc.MUSL else _Glibc
    return kind(environment, tree, main)
