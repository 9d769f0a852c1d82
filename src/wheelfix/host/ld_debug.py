"""What glibc's LD_DEBUG says, as values: pure parsing of `libs,files,versions,bindings`.

One file may hold several processes: a fork goes on writing where its parent did, under its own
number (`_dl_debug_vdprintf` in elf/dl-misc.c), and a program that is executed appends to the file
of its process. Memory is bounded: what repeats is counted, and beyond a limit only counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import translate

from wheelfix.loader.model import How

MAX_KEPT = 20_000
"""Requests, and bindings, that are kept of one program; more are only counted."""
MAX_LINE = 1 << 16
"""Bytes that are kept of a line without an end: paths have at most 4,096 (PATH_MAX)."""

_LABELS = {
    b"RPATH": How.RPATH,
    b"RUNPATH": How.RUNPATH,
    b"LD_LIBRARY_PATH": How.LIBRARY_PATH,
    b"system search path": How.DEFAULT,
}
_ABBREVIATED = frozenset({"std", "string", "allocator", "basic_string", "iostream", "operator"})
"""What stands in a demangled name but not in the mangled one (Itanium C++ ABI, 5.1.8)."""


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One file that the loader tried to open."""

    path: str
    how: How
    owner: str | None
    """The file that the search path is said to be of. glibc names the first file that had the
    directory in a list, which may be another one."""


@dataclass(slots=True, kw_only=True)
class Asked:
    """One name that the loader looked for; what is loaded already by name leaves no trace."""

    requester: str
    """The path it was loaded by; for the program its `argv[0]`."""
    name: str
    dlopen: bool
    searched: bool = False
    tried: list[Attempt] = field(default_factory=list[Attempt])
    path: str | None = None
    """Where the file was opened; None if none was, or if it was loaded already."""
    address: int | None = None
    """Of its dynamic section: where in the process the file is mapped."""
    times: int = 1

    @property
    def how(self) -> How:
        """The list that the last candidate comes from."""
        return self.tried[-1].how if self.tried else How.PATH


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One symbol that was bound."""

    symbol: str
    version: str | None
    user: str
    provider: str


@dataclass(slots=True, kw_only=True)
class Image:
    """One program that ran in one process, or that part of it after a fork."""

    pid: int
    program: str | None = None
    """Its `argv[0]`; None until the loader hands over to it."""
    forked_from: int | None = None
    started: bool = False
    asked: list[Asked] = field(default_factory=list[Asked])
    inits: dict[str, None] = field(default_factory=dict[str, None])
    """The objects whose constructors ran, by path, in that order."""
    versions: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    """User and provider of some symbol version: proof of who serves whom."""
    bindings: dict[Binding, int] = field(default_factory=dict[Binding, int])
    errors: dict[str, None] = field(default_factory=dict[str, None])
    dropped: int = 0
    """What came after `MAX_KEPT`."""
    mapped: list[Asked] = field(default_factory=list[Asked])
    """What was mapped since somebody looked here, and emptied it."""
    known: set[str] = field(default_factory=set[str])
    """The paths of what was opened so far, before a fork too."""
    first: dict[tuple[str, str, str | None], Asked] = field(
        default_factory=dict[tuple[str, str, str | None], Asked]
    )
    current: Asked | None = None
    how: How = How.PATH
    owner: str | None = None


class Log:
    """Reads one LD_DEBUG file, in pieces as it grows. `pid` is the number in its name."""

    def __init__(self, pid: int, symbols: Sequence[str] = ()) -> None:
        self.pid = pid
        self.images: list[Image] = []
        self._latest: dict[int, Image] = {}
        self._rest = b""
        self._line = _lines(symbols)

    def feed(self, data: bytes) -> bool:
        """Read the next piece; return whether it says that something was loaded."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:][-MAX_LINE:]
        found = False
        for match in self._line.finditer(data, 0, end):
            found |= self._read(int(match["pid"]), match)
        return found

    def finish(self) -> tuple[Image, ...]:
        """Return all that was read, once nothing more comes."""
        for image in self.images:
            _settle(image)
        return tuple(self.images)

    def _read(self, pid: int, match: re.Match[bytes]) -> bool:
        image = self._latest.get(pid) or self._begin(pid)
        word, rest = match["word"], match["rest"]
        if word is None:
            _bind(image, match)
            return False
        if word == b"file=":
            self._file(image, rest)
        elif word in _READERS:
            _READERS[word](image, rest)
        elif len(image.errors) < MAX_KEPT:
            image.errors[_text(word + rest)] = None
        return word == b"  dynamic: "

    def _begin(self, pid: int, *, execs: bool = False) -> Image:
        fork = pid != self.pid and not execs
        parent = self._latest.get(self.pid) if fork else None
        image = Image(pid=pid, forked_from=self.pid if fork else None)
        if parent is not None:
            image.program, image.started = parent.program, parent.started
            image.known = set(parent.known)
        self._latest[pid] = image
        self.images.append(image)
        return image

    def _file(self, image: Image, rest: bytes) -> None:
        if match := _ASKED.match(rest):
            name, dlopen, requester = _text(match[1]), match[2] != b"needed", _text(match[3])
            if image.started and not dlopen and _is_another(image, requester):
                _settle(image)
                image = self._begin(image.pid, execs=True)
            _ask(image, Asked(requester=requester, name=name, dlopen=dlopen))
        elif rest.endswith(b";  generating link map"):
            _open(image, _text(rest.rpartition(b" [")[0]))


def _lines(symbols: Sequence[str]) -> re.Pattern[bytes]:
    """Compile what is read of a log; all the other lines are skipped at the pace of `re`."""
    words = (
        b"file=|find library=| search path=| search cache=|  trying file=|  dynamic: |"
        b"calling init: |transferring control: |checking for version |"
        rb"[^\n]*: error: "
    )
    line = rb"(?P<word>" + words + rb")(?P<rest>[^\n]*)"
    if symbols:
        wanted = b"|".join(dict.fromkeys(map(_spelled, symbols)))
        line += (
            rb"|binding file (?P<user>[^\n]*?) \[\d+\] to (?P<provider>[^\n]*?) \[\d+\]: "
            rb"\w+ symbol "
            rb"`(?P<symbol>(?:" + wanted + rb"))'(?: \[(?P<version>[^\n\]]*)\])?"
        )
    return re.compile(rb"^ *(?P<pid>\d+):\t(?:" + line + rb")$", re.MULTILINE)


def _spelled(glob: str) -> bytes:
    """Return a pattern that every symbol matches whose name, or demangled name, may fit `glob`."""
    names = (name for name in re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"\[.*?\]", "*", glob)))
    parts = [name for name in names if name not in _ABBREVIATED]
    mangled = r"_Z[^\n']+"
    raw = translate(glob).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
    ahead = "".join(rf"(?=[^\n']*{re.escape(part)})" for part in parts)
    raw = raw.replace(".*", r"[^\n']*")
    return f"{raw}|{ahead}{mangled}".encode()


_ASKED = re.compile(rb"(.*) \[\d+\];  (needed|dynamically loaded) by (.*) \[\d+\]$")
_LIST = re.compile(rb".*\t\t\((.*?)(?: from file (.*))?\)$")
_VERSION = re.compile(rb"`.*' in file (.*) \[\d+\] required by file (.*) \[\d+\]$")
_DYNAMIC = re.compile(rb"0x([0-9a-f]+)")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _is_another(image: Image, requester: str) -> bool:
    """Whether a DT_NEEDED entry of `requester` means that the process runs another program.

    Those of a program are asked for before it starts, never after.
    """
    return requester == image.program or requester not in image.known


def _ask(image: Image, asked: Asked) -> None:
    """Begin a new request; the one before has its answer now."""
    _settle(image)
    image.current = asked
    image.how, image.owner = How.PATH, None


def _settle(image: Image) -> None:
    """Keep the last request, unless the same one was made and answered before."""
    asked, image.current = image.current, None
    if asked is None:
        return
    known = image.first.setdefault((asked.requester, asked.name, asked.path), asked)
    if known is not asked:
        known.times += 1
    elif len(image.asked) < MAX_KEPT:
        image.asked.append(asked)
    else:
        image.dropped += 1
        del image.first[asked.requester, asked.name, asked.path]


def _search(image: Image, rest: bytes) -> None:
    del rest  # the name, which is known
    if image.current is not None:
        image.current.searched = True


def _list(image: Image, rest: bytes) -> None:
    match = _LIST.match(rest)
    if match is not None:
        image.how = _LABELS.get(match[1], How.DEFAULT)
        image.owner = _text(match[2]) if match[2] else None


def _cache(image: Image, rest: bytes) -> None:
    del rest  # always /etc/ld.so.cache
    image.how, image.owner = How.CACHE, None


def _try(image: Image, rest: bytes) -> None:
    if image.current is not None:
        image.current.tried.append(Attempt(path=_text(rest), how=image.how, owner=image.owner))


def _init(image: Image, rest: bytes) -> None:
    image.inits[_text(rest)] = None


def _start(image: Image, rest: bytes) -> None:
    image.program, image.started = _text(rest), True


def _open(image: Image, name: str) -> None:
    asked = image.current
    if asked is None or asked.name != name or asked.path is not None:
        asked = Asked(requester=image.program or "", name=name, dlopen=False)
        _ask(image, asked)
    asked.path = asked.tried[-1].path if asked.tried else name
    image.known.add(asked.path)


def _place(image: Image, rest: bytes) -> None:
    match = _DYNAMIC.match(rest)
    if image.current is not None and match is not None:
        image.current.address = int(match[1], 16)
        image.mapped.append(image.current)


def _version(image: Image, rest: bytes) -> None:
    match = _VERSION.match(rest)
    if match is not None and len(image.versions) < MAX_KEPT:
        image.versions.add((_text(match[2]), _text(match[1])))


_READERS = {
    b"find library=": _search,
    b" search path=": _list,
    b" search cache=": _cache,
    b"  trying file=": _try,
    b"  dynamic: ": _place,
    b"calling init: ": _init,
    b"transferring control: ": _start,
    b"checking for version ": _version,
}


def _bind(image: Image, match: re.Match[bytes]) -> None:
    binding = Binding(
        symbol=_text(match["symbol"]),
        version=_text(match["version"]) if match["version"] else None,
        user=_text(match["user"]),
        provider=_text(match["provider"]),
    )
    if binding in image.bindings or len(image.bindings) < MAX_KEPT:
        image.bindings[binding] = image.bindings.get(binding, 0) + 1
    else:
        image.dropped += 1
