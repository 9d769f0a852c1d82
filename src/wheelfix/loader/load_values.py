"""Values of the loader model: environments, loads, requests, candidates.

Paths are text, as the loader sees them: `$ORIGIN` is the directory of the path that an object was
opened by, never made canonical.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from posixpath import dirname, normpath

from wheelfix.elf.model import Elf, Libc
from wheelfix.frozen import frozen
from wheelfix.loader.machine_names import LIB64
from wheelfix.named_tuple import NamedTuple


class How(StrEnum):
    """The step of the search that led the loader to a file."""

    PATH = "path"
    """The name has a slash: no search."""
    LOADED = "loaded"
    """An object already loaded has the name."""
    SAME_FILE = "same-file"
    """The search found a file already loaded under another path."""
    RPATH = "rpath"
    """The requester's own DT_RPATH; with musl also its DT_RUNPATH."""
    INHERITED = "inherited"
    """The search path of an object that loaded the requester, or of the program."""
    LIBRARY_PATH = "library-path"
    """LD_LIBRARY_PATH."""
    RUNPATH = "runpath"
    """The requester's own DT_RUNPATH."""
    CACHE = "cache"
    """/etc/ld.so.cache."""
    DEFAULT = "default"
    """A default directory of the loader."""
    LIBC = "libc"
    """musl itself provides `libc.`, `libm.`, `libpthread.` and similar names."""


_LISTS = {
    How.RPATH: "RPATH",
    How.INHERITED: "inherited search path",
    How.LIBRARY_PATH: "LD_LIBRARY_PATH",
    How.RUNPATH: "RUNPATH",
    How.CACHE: "ld.so.cache",
    How.DEFAULT: "default directories",
}


def search_list(how: How, owner: str | None = None) -> str:
    """Return what a step of the search goes through, in words; `owner` has the search path."""
    words = _LISTS.get(how, "the path as written")
    return f"{words} of {owner}" if owner else words


class SearchOutcome(StrEnum):
    """The result of trying one candidate."""

    FOUND = "found"
    ABSENT = "absent"
    NO_DIRECTORY = "no such directory"
    WRONG_CLASS = "wrong ELF class"
    WRONG_MACHINE = "wrong machine"
    WRONG_CONVENTION = "other calling convention"
    """`Elf.convention` differs."""
    LOOP = "too many levels of symbolic links"
    """Ends this list of directories; with musl, the search."""
    WRONG_ENDIANNESS = "wrong endianness"
    """Fatal in upstream glibc; Debian's skips the file."""
    NOT_ELF = "not an ELF file"
    TRUNCATED = "truncated"
    """To load it crashes, which no handler of an ImportError catches."""
    IS_DIRECTORY = "is a directory"
    WRONG_OSABI = "unknown OS ABI"
    INVALID_HEADER = "invalid ELF header"
    """EI_VERSION, e_version, EI_ABIVERSION or the padding of e_ident."""
    NOT_SHARED = "not a shared object"
    """ET_REL, ET_CORE, an executable, or no dynamic section."""

    @property
    def is_skipped(self) -> bool:
        """Whether the search goes on after it."""
        return self in _SKIPPED


_SKIPPED = frozenset(
    {
        SearchOutcome.ABSENT,
        SearchOutcome.NO_DIRECTORY,
        SearchOutcome.WRONG_CLASS,
        SearchOutcome.WRONG_MACHINE,
        SearchOutcome.WRONG_CONVENTION,
        SearchOutcome.LOOP,
    }
)


class Candidate(NamedTuple):
    """One file that the loader tried, or one directory that does not exist."""

    path: str
    """As the loader writes it; the directory alone for `NO_DIRECTORY`."""
    how: How
    outcome: SearchOutcome
    owner: str | None
    """The file whose search path was used."""
    entry: str | None
    """The element of that search path, as written."""
    note: str = ""
    """What is wrong with it, where the outcome does not say all."""

    @property
    def verdict(self) -> str:
        """The outcome and the note."""
        return f"{self.outcome} ({self.note})" if self.note else self.outcome


class Request(NamedTuple):
    """One requested name, and the file found for it."""

    requester: str | None
    """The file with the DT_NEEDED entry; None for the program, and for its dlopen."""
    name: str
    result: str | None
    """The file that was found, a key of `Environment.files`; None without one."""
    how: How | None = None
    candidates: tuple[Candidate, ...] = ()
    """All candidates in order; the one taken is the last."""
    optional: bool = False
    """DT_AUXILIARY: without the library the load goes on."""

    @property
    def directories(self) -> tuple[str, ...]:
        """Those that were searched, in order."""
        at = (
            c.path if c.outcome is SearchOutcome.NO_DIRECTORY else dirname(c.path)
            for c in self.candidates
        )
        return tuple(map(normpath, at))

    @property
    def failed(self) -> bool:
        """Whether the whole load fails for this request."""
        return self.result is None and self.how is not How.LIBC and not self.optional

    @property
    def fatal(self) -> bool:
        """Whether the search ended early at a file that cannot be loaded."""
        return self.failed and bool(self.candidates) and not self.candidates[-1].outcome.is_skipped


class Load(NamedTuple):
    """The result of one dlopen, or of the start of one program.

    The real loader stops at the first request that fails, and unloads; the model goes on, to find
    all missing libraries at once.
    """

    root: str
    """The requested name or path."""
    objects: tuple[str, ...]
    """The files in the order of symbol search: the root, then breadth first (gABI chapter 5).

    With glibc the libraries of an object's DT_FILTER and DT_AUXILIARY come right before it.
    """
    requests: tuple[Request, ...]

    @property
    def missing(self) -> tuple[Request, ...]:
        """The requests that fail; the loader's message names the first."""
        return tuple(request for request in self.requests if request.failed)


class Dlopen(NamedTuple):
    """A dlopen called by another object than the program, whose search path is used."""

    name: str
    caller: str
    """A loaded file."""


@frozen
class Environment:
    """The file system and the process of a load. Paths are absolute and canonical."""

    libc: Libc
    files: Mapping[str, Elf]
    """The ELF objects by path."""
    broken: Mapping[str, SearchOutcome] = field(default_factory=dict[str, SearchOutcome])
    """Files that are not loadable ELF objects, and the loader's result for them."""
    directories: frozenset[str] = frozenset()
    """Directories besides those of `files`, `broken` and `links`."""
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Symbolic links, to files or directories, with their targets as written."""
    hard_links: Mapping[str, str] = field(default_factory=dict[str, str])
    """Paths of `files` that are the same inode: path to any name for that inode."""
    cwd: str | None = None
    """The current directory; None is an empty one."""
    main: str | None = None
    """The program, one of `files`. None is an interpreter without search path or libraries."""
    loaded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other loaded libraries: SONAME (musl: the file name searched for) to path."""
    library_path: tuple[str, ...] = ()
    """The elements of LD_LIBRARY_PATH."""
    default_directories: tuple[str, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict[str, str])
    """ld.so.cache: SONAME to path, the best one for this processor."""
    lib: str = LIB64
    """The value of `$LIB`: `lib64`, `lib`, or `lib/x86_64-linux-gnu` on Debian."""
    platform: str | None = None
    """The value of `$PLATFORM`: AT_PLATFORM of the CPU; None voids the elements that use it."""
    reads_runpath: bool = True
    """Whether the loader reads DT_RUNPATH: bionic's does from API level 24 on."""
    chosen: Mapping[tuple[str, str], str] = field(default_factory=dict[tuple[str, str], str])
    """Requester and name -> the file that it gets, whatever else has the name: a graft gives each
    copy a name of its own."""
    subdirectories: tuple[str, ...] = ()
    """Subdirectories that glibc tries first in each directory: `glibc-hwcaps/...`, `tls`, ..."""
