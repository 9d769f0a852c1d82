"""What was seen of a process's libraries, as values, and what they mean.

`trace` fills them from LD_DEBUG and /proc; here they are judged: which copies of one SONAME
coexist, which variables mattered, where a process differs from what a wheel should give it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from wheelfix.elf.model import Elf, Libc
from wheelfix.host.ld_debug import Binding
from wheelfix.loader.model import Environment, How
from wheelfix.loader.search import load_each
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One file, by identity: a path may lead to another file a moment later."""

    path: str
    """The canonical path; for `mapped` ones the kernel's, ` (deleted)` taken off."""
    device: int
    inode: int
    mapped: bool
    """Seen in the process's own maps. If not, the process was gone before a look, and the path
    that the loader opened was looked up afterwards."""
    deleted: bool = False
    """The path led nowhere any more, or to another file, when it was seen."""

    @property
    def id(self) -> tuple[int, int]:
        """What makes it this file."""
        return self.device, self.inode


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCandidate:
    """One candidate that was there but not taken."""

    path: str
    how: How
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One file that a process loaded, and why this one."""

    name: str
    """As asked for: a DT_NEEDED entry, or the argument of dlopen."""
    requester: str
    """The path of who asked; for the program `argv[0]`."""
    dlopen: bool
    path: str
    """Where the loader opened it."""
    file: File | None
    """None if it cannot be found any more."""
    soname: str | None
    how: How
    owner: str | None = None
    """The file whose search path led here."""
    directory: str | None = None
    passed: tuple[SkippedCandidate, ...] = ()
    tried: int = 0
    """Candidates in all."""
    times: int = 1
    distribution: str | None = None
    """The installed distribution that the file belongs to, with its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """One name that no file was found for."""

    name: str
    requester: str
    dlopen: bool
    tried: tuple[str, ...]
    passed: tuple[SkippedCandidate, ...] = ()
    times: int = 1
    wheels: tuple[str, ...] = ()
    """The well-known wheels that have it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One program in one process, as far as LD_DEBUG and /proc show it."""

    pid: int
    program: str
    executable: str | None = None
    """What /proc/PID/exe led to."""
    forked_from: int | None = None
    """The process that goes on in this one; what that had loaded is here too, and not repeated."""
    silent: str | None = None
    """Why it said nothing, if it did not; then `mapped` is all that is known of its libraries."""
    loaded: tuple[Loaded, ...] = ()
    missed: tuple[NotFound, ...] = ()
    mapped: tuple[File, ...] = ()
    """Files with executable code that were seen in its maps."""
    versions: frozenset[tuple[str, str]] = frozenset()
    """User and provider of a symbol version, by path."""
    bindings: tuple[tuple[Binding, int], ...] = ()
    errors: tuple[str, ...] = ()
    dropped: int = 0
    """Requests and bindings that were one too many to keep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable that may decide what is loaded."""

    name: str
    value: str
    served: tuple[str, ...]
    """The files that came from where it points; empty if it did not matter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A library of a wheel that is not the one foretold."""

    wheel: str
    pid: int
    user: str
    """The file that needs it."""
    name: str
    expected: str
    found: str | None
    """The file that served it; None for none."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one command loaded."""

    command: tuple[str, ...]
    exit_code: int
    """As a shell says it: 128 + n for a command that signal n has killed."""
    processes: tuple[Process, ...]
    variables: tuple[Variable, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = field(default=())


# --- What it means --------------------------------------------------------------------------------


def whole(processes: Sequence[Process]) -> Iterator[tuple[Process, tuple[Loaded, ...]]]:
    """Yield each process with all that it has loaded, what it inherited by a fork included."""
    latest: dict[int, tuple[Loaded, ...]] = {}
    for process in processes:
        inherited = latest.get(process.forked_from or -1, ())
        latest[process.pid] = (*inherited, *process.loaded)
        yield process, latest[process.pid]


def copies(loaded: Sequence[Loaded]) -> Mapping[str, tuple[Loaded, ...]]:
    """Return the SONAMEs that more than one file of the process carries, with those files."""
    found: dict[str, dict[tuple[int, int], Loaded]] = {}
    for each in loaded:
        if each.soname is not None and each.file is not None:
            found.setdefault(each.soname, {}).setdefault(each.file.id, each)
    return {name: tuple(files.values()) for name, files in found.items() if len(files) > 1}


def variables(environ: Mapping[str, str], processes: Sequence[Process]) -> tuple[Variable, ...]:
    """Return the variables that may decide what is loaded, with the files that they led to."""
    loaded = {each.path: each for process in processes for each in process.loaded}
    found: list[Variable] = []
    for name, value in sorted(environ.items()):
        if not _may_matter(name) or not value:
            continue
        served = [path for path, each in loaded.items() if _leads_to(name, value, each)]
        if served or name != "PATH":
            found.append(Variable(name=name, value=value, served=tuple(served)))
    return tuple(found)


def _may_matter(name: str) -> bool:
    exact = {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PATH", "HOME"}
    return name in exact - {"HOME"} or (
        name.endswith(("_HOME", "_LIBRARY_PATH")) and name not in exact
    )


def _leads_to(name: str, value: str, loaded: Loaded) -> bool:
    """Whether the file is from where the variable points."""
    if name == "LD_LIBRARY_PATH":
        return loaded.how is How.LIBRARY_PATH
    if name in {"LD_PRELOAD", "LD_AUDIT"}:
        return loaded.name in value.replace(":", " ").split()
    folders = [folder.rstrip("/") for folder in value.split(":") if folder.startswith("/")]
    real = loaded.file.path if loaded.file else loaded.path
    if name == "PATH":  # a program that searches for libraries along PATH finds them right there
        return any(path.rpartition("/")[0] in folders for path in (loaded.path, real))
    return any(path.startswith(f"{each}/") for path in (loaded.path, real) for each in folders)


# --- Against a wheel ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """One wheel, and where its objects were found installed."""

    wheel: Wheel
    files: Mapping[str, File]
    """Member to file."""

    @property
    def elfs(self) -> Mapping[str, Elf]:
        """What the objects say, by installed path."""
        known = self.wheel.elfs
        return {file.path: known[member] for member, file in self.files.items() if member in known}


def differences(processes: Sequence[Process], installed: Installed) -> tuple[Difference, ...]:
    """Return where a process has another file than `installed` would give it by itself."""
    elfs = installed.elfs
    environment = Environment(libc=Libc.GLIBC, files=elfs)
    roots = [path for path, elf in elfs.items() if elf.dynamic]
    direct = {
        (path, request.name): request.result
        for path, load in zip(roots, load_each(roots, environment), strict=True)
        for request in load.requests
        if request.requester == path and request.result is not None
    }
    found: dict[tuple[str, str, str | None], Difference] = {}
    for process, loaded in whole(processes):
        for each in _misled(process, loaded, direct, installed):
            found.setdefault((each.user, each.name, each.found), each)
    told = {(each.name, each.found) for each in found.values()}
    for process, loaded in whole(processes):
        for each in _elsewhere(process, loaded, installed):
            if (each.name, each.found) not in told:
                found.setdefault((each.user, each.name, each.found), each)
    return tuple(found.values())


def _misled(
    process: Process,
    loaded: Sequence[Loaded],
    direct: Mapping[tuple[str, str], str],
    installed: Installed,
) -> Iterator[Difference]:
    """Yield the DT_NEEDED entries of the wheel's objects that another file has served."""
    here = {each.file.path: each for each in loaded if each.file is not None}
    for (user, name), expected in direct.items():
        if user not in here:
            continue
        server = _server(loaded, here[user], name)
        if server is None or server.file is None or server.file.path == expected:
            continue
        if server.file.id in {f.id for f in installed.files.values() if f.path == expected}:
            continue
        yield Difference(
            wheel=str(installed.wheel.name),
            pid=process.pid,
            user=user,
            name=name,
            expected=expected,
            found=server.file.path,
            reason=_why(server, here[user]),
        )


def _server(loaded: Sequence[Loaded], user: Loaded, name: str) -> Loaded | None:
    """Return what served `name` for `user`: what it asked for, or what answered to it already."""
    for each in loaded:
        if each.requester == user.path and each.name == name:
            return each
    return next((each for each in loaded if name in {each.name, each.soname, each.path}), None)


def _why(server: Loaded, user: Loaded) -> str:
    if server.requester == user.path and not server.dlopen:
        return f"found by {rule(server)}"
    return f"it was loaded before, {cause(server)}, and answers to that name"


def _elsewhere(
    process: Process, loaded: Sequence[Loaded], installed: Installed
) -> Iterator[Difference]:
    """Yield files that carry the name of one of the wheel's libraries, which is not loaded."""
    ours = {file.id for file in installed.files.values()}
    present = {each.file.id for each in loaded if each.file is not None}
    names: dict[str, File] = {}
    for member, file in installed.files.items():
        elf = installed.wheel.elfs.get(member)
        if elf is not None and not elf.is_executable:
            names.setdefault(elf.soname or member.rpartition("/")[2], file)
    for each in loaded:
        name = each.soname or each.path.rpartition("/")[2]
        wanted = names.get(name)
        if wanted is None or each.file is None or each.file.id in ours:
            continue
        if wanted.id not in present:
            yield Difference(
                wheel=str(installed.wheel.name),
                pid=process.pid,
                user=each.requester,
                name=name,
                expected=wanted.path,
                found=each.file.path,
                reason=cause(each),
            )


def rule(loaded: Loaded) -> str:  # noqa: PLR0911 - one for each rule
    """Say in few words which rule of the loader led to the file."""
    of = f" of {loaded.owner}" if loaded.owner else ""
    match loaded.how:
        case How.PATH:
            return "its path"
        case How.RPATH:
            return f"RPATH{of}"
        case How.INHERITED:
            return f"inherited RPATH{of}"
        case How.RUNPATH:
            return f"RUNPATH{of}"
        case How.LIBRARY_PATH:
            return "LD_LIBRARY_PATH"
        case How.CACHE:
            return "ld.so.cache"
        case How.DEFAULT:
            return "default directory"
        case How.LOADED | How.SAME_FILE | How.LIBC:
            return "what is loaded already"


def cause(loaded: Loaded) -> str:
    """Say who asked for the file, and by which rule it was found."""
    verb = "opened by" if loaded.dlopen else "needed by"
    return f"{verb} {loaded.requester}, found by {rule(loaded)}"


def with_differences(trace: Trace, installed: Sequence[Installed]) -> Trace:
    """Hold `trace` against wheels."""
    found = tuple(each for one in installed for each in differences(trace.processes, one))
    return replace(trace, differences=(*trace.differences, *found))
