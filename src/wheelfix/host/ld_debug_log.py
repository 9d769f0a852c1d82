"""Parser of glibc's LD_DEBUG output (`libs,files,bindings`).

One file may hold several processes: a fork writes to the file of its parent with its own process
id (`_dl_debug_vdprintf` in elf/dl-misc.c), and an executed program appends to the file of its
process. Memory is bounded: repeated requests and bindings, and those beyond a limit, are counted.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path

from wheelfix.host.installed_files import File
from wheelfix.loader.load_values import How
from wheelfix.loader.process_bindings import Binding
from wheelfix.system.lazy_patterns import lazy_pattern

MAX_KEPT = 20_000
"""Requests, and bindings, kept of one program; more are only counted."""
MAX_LINE = 1 << 16
"""Bytes kept of an incomplete line: paths have at most 4,096 (PATH_MAX)."""

_RULES = {
    b"RPATH": How.RPATH,
    b"RUNPATH": How.RUNPATH,
    b"LD_LIBRARY_PATH": How.LIBRARY_PATH,
}
_ABBREVIATED = frozenset({"std", "string", "allocator", "basic_string", "iostream", "operator"})
"""Words of demangled names that are abbreviated in mangled ones (Itanium C++ ABI, 5.1.8)."""


def debug_variables(output: Path, *, with_bindings: bool) -> dict[str, str]:
    """Return the variables for which glibc's loader writes logs: `output`, a dot, and the pid.

    With bindings they have a line for every symbol that is bound (ld.so(8)).
    """
    categories = "libs,files,bindings" if with_bindings else "libs,files"
    return {"LD_DEBUG": categories, "LD_DEBUG_OUTPUT": str(output)}


@dataclass(slots=True, kw_only=True)
class LoggedCandidate:
    """One file that the loader tried to open."""

    path: str
    how: How
    owner: str | None
    """The file that the search path is of, according to glibc: the first one that had the
    directory in its list, which may be a wrong one."""


@dataclass(slots=True, kw_only=True)
class LoggedRequest:
    """One name that the loader searched for. Names that are already loaded are not logged."""

    requester: str
    """The path of the requesting object; for the program its `argv[0]`."""
    name: str
    dlopen: bool
    tried: list[LoggedCandidate] = field(default_factory=list[LoggedCandidate])
    path: str | None = None
    """The file that was opened; None if none was, or if it was already loaded."""
    address: int | None = None
    """The address of its dynamic section in the process."""
    file: File | None = None
    """The file at that address, for the caller to note."""
    times: int = 1


@dataclass(slots=True, kw_only=True)
class LoggedProgram:
    """One program in one process, or the part of it after a fork. Mutable."""

    pid: int
    program: str | None = None
    """Its `argv[0]`; None until the loader transfers control to it: it starts."""
    forked_from: int | None = None
    requests: list[LoggedRequest] = field(default_factory=list[LoggedRequest])
    bindings: dict[Binding, int] = field(default_factory=dict[Binding, int])
    errors: dict[str, None] = field(default_factory=dict[str, None])
    dropped: int = 0
    """Requests and bindings beyond `MAX_KEPT`."""
    mapped: list[LoggedRequest] = field(default_factory=list[LoggedRequest])
    """Requests whose files were mapped since the caller last cleared this list."""
    known: set[str] = field(default_factory=set[str])
    """The paths opened so far, those before a fork included."""
    first: dict[tuple[str, str, str | None], LoggedRequest] = field(
        default_factory=dict[tuple[str, str, str | None], LoggedRequest]
    )
    current: LoggedRequest | None = None
    how: How = How.PATH
    owner: str | None = None


class Log:
    """Incremental parser of one LD_DEBUG file. `pid` is the process id in its name."""

    def __init__(self, pid: int, symbols: Sequence[str] = ()) -> None:
        self.pid = pid
        self.programs: list[LoggedProgram] = []
        self._latest: dict[int, LoggedProgram] = {}
        self._rest = b""
        self._line = _lines(symbols)

    def feed(self, data: bytes) -> None:
        """Parse the next piece."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        self._rest = data[end:][-MAX_LINE:]
        for match in self._line.finditer(data, 0, end):
            self._read(int(match["pid"]), match)

    def finish(self) -> tuple[LoggedProgram, ...]:
        """Return the programs, after the last piece."""
        for logged in self.programs:
            _settle(logged)
        return tuple(self.programs)

    def _read(self, pid: int, match: re.Match[bytes]) -> None:
        logged = self._latest.get(pid) or self._begin(pid)
        word, rest = match["word"], match["rest"]
        if word is None:
            _bind(logged, match)
        elif word == b"file=":
            self._file(logged, rest)
        elif word in _READERS:
            _READERS[word](logged, rest)
        elif len(logged.errors) < MAX_KEPT:
            logged.errors[_text(word + rest)] = None

    def _begin(self, pid: int, *, execs: bool = False) -> LoggedProgram:
        fork = pid != self.pid and not execs
        parent = self._latest.get(self.pid) if fork else None
        logged = LoggedProgram(pid=pid, forked_from=self.pid if fork else None)
        if parent is not None:
            logged.program = parent.program
            logged.known = set(parent.known)
        self._latest[pid] = logged
        self.programs.append(logged)
        return logged

    def _file(self, logged: LoggedProgram, rest: bytes) -> None:
        dlopen = b";  dynamically loaded by " in rest
        verb = b";  dynamically loaded by " if dlopen else b";  needed by "
        requested, is_request, by = rest.rpartition(verb)
        if is_request:
            name, requester = _file_name(requested), _file_name(by)
            if logged.program and not dlopen and _is_other_program(logged, requester):
                _settle(logged)
                logged = self._begin(logged.pid, execs=True)
            _request(logged, LoggedRequest(requester=requester, name=name, dlopen=dlopen))
        elif rest.endswith(b";  generating link map"):
            _open(logged, _file_name(rest))


def _lines(symbols: Sequence[str]) -> re.Pattern[bytes]:
    """Compile the pattern of the lines that are read, and of the bindings of `symbols`."""
    words = (
        b"file=| search path=| search cache=|  trying file=|  dynamic: |"
        b"transferring control: |"
        rb"[^\n]*: error: "
    )
    line = rb"(?P<word>" + words + rb")(?P<rest>[^\n]*)"
    if symbols:
        wanted = b"|".join(dict.fromkeys(map(_pattern, symbols)))
        line += (
            rb"|binding file (?P<files>[^\n]*): \w+ symbol "
            rb"`(?P<symbol>(?:" + wanted + rb"))'(?: \[(?P<version>[^\n\]]*)\])?"
        )
    return re.compile(rb"^ *(?P<pid>\d+):\t(?:" + line + rb")$", re.MULTILINE)


def _pattern(glob: str) -> bytes:
    """Return a pattern of the symbols whose plain or demangled name may match `glob`."""
    names = (name for name in re.findall(r"[A-Za-z_]\w{2,}", re.sub(r"\[.*?\]", "*", glob)))
    parts = [name for name in names if name not in _ABBREVIATED]
    mangled = r"_Z[^\n']+"
    raw = translate(glob).removeprefix("(?s:").removesuffix(r")\Z").removesuffix(r")\z")
    ahead = "".join(rf"(?=[^\n']*{re.escape(part)})" for part in parts)
    raw = raw.replace(".*", r"[^\n']*")
    return f"{raw}|{ahead}{mangled}".encode()


_DYNAMIC = lazy_pattern(rb"0x([0-9a-f]+)")


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _file_name(data: bytes) -> str:
    """Return the name before a namespace in brackets."""
    return _text(data.rpartition(b" [")[0])


def _is_other_program(logged: LoggedProgram, requester: str) -> bool:
    """Whether a DT_NEEDED entry of `requester` means that the process runs another program.

    The entries of a program are requested before it starts, never after.
    """
    return requester == logged.program or requester not in logged.known


def _request(logged: LoggedProgram, request: LoggedRequest) -> None:
    """Begin a new request; the previous one is complete."""
    _settle(logged)
    logged.current = request
    logged.how, logged.owner = How.PATH, None


def _settle(logged: LoggedProgram) -> None:
    """Keep the last request, or count it if the same one had the same answer before."""
    request, logged.current = logged.current, None
    if request is None:
        return
    known = logged.first.setdefault((request.requester, request.name, request.path), request)
    if known is not request:
        known.times += 1
    elif len(logged.requests) < MAX_KEPT:
        logged.requests.append(request)
    else:
        logged.dropped += 1
        del logged.first[request.requester, request.name, request.path]


def _list(logged: LoggedProgram, rest: bytes) -> None:
    _, is_list, about = rest.rpartition(b"\t\t(")
    if is_list and about.endswith(b")"):
        rule, _, file = about[:-1].partition(b" from file ")
        logged.how, logged.owner = _RULES.get(rule, How.DEFAULT), _text(file) or None


def _cache(logged: LoggedProgram, rest: bytes) -> None:
    del rest  # always /etc/ld.so.cache
    logged.how, logged.owner = How.CACHE, None


def _try(logged: LoggedProgram, rest: bytes) -> None:
    if logged.current is not None:
        logged.current.tried.append(
            LoggedCandidate(path=_text(rest), how=logged.how, owner=logged.owner)
        )


def _start(logged: LoggedProgram, rest: bytes) -> None:
    logged.program = _text(rest)


def _open(logged: LoggedProgram, name: str) -> None:
    request = logged.current
    if request is None or request.name != name or request.path is not None:
        request = LoggedRequest(requester=logged.program or "", name=name, dlopen=False)
        _request(logged, request)
    request.path = request.tried[-1].path if request.tried else name
    logged.known.add(request.path)


def _place(logged: LoggedProgram, rest: bytes) -> None:
    match = _DYNAMIC.match(rest)
    if logged.current is not None and match is not None:
        logged.current.address = int(match[1], 16)
        logged.mapped.append(logged.current)


_READERS = {
    b" search path=": _list,
    b" search cache=": _cache,
    b"  trying file=": _try,
    b"  dynamic: ": _place,
    b"transferring control: ": _start,
}


def _bind(logged: LoggedProgram, match: re.Match[bytes]) -> None:
    user, _, provider = match["files"].rpartition(b"] to ")
    binding = Binding(
        symbol=_text(match["symbol"]),
        version=_text(match["version"]) if match["version"] else None,
        user=_file_name(user),
        provider=_file_name(provider),
    )
    if binding in logged.bindings or len(logged.bindings) < MAX_KEPT:
        logged.bindings[binding] = logged.bindings.get(binding, 0) + 1
    else:
        logged.dropped += 1
