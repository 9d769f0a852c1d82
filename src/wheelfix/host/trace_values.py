"""Values of a trace, and questions about them: duplicate SONAMEs, variables, differences.

`trace_reading` makes them from LD_DEBUG logs and /proc.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from wheelfix.budget import Budget
from wheelfix.elf.model import Libc
from wheelfix.host.installed_files import File
from wheelfix.host.ld_debug_log import LoggedBinding
from wheelfix.loader.load_values import Environment, How
from wheelfix.loader.loading import load_each
from wheelfix.wheel.model import Wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCandidate:
    """One candidate that exists but was not loaded."""

    path: str
    how: How
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """One file that a process loaded, and the reason."""

    name: str
    """As requested: a DT_NEEDED entry, or the argument of dlopen."""
    requester: str
    """The path of the requesting object; for the program `argv[0]`."""
    dlopen: bool
    path: str
    """The path that the loader opened."""
    file: File | None
    """None if it no longer exists."""
    soname: str | None
    how: How
    owner: str | None = None
    """The file whose search path was used."""
    directory: str | None = None
    passed: tuple[SkippedCandidate, ...] = ()
    tried: int = 0
    """The number of candidates."""
    times: int = 1
    distribution: str | None = None
    """The installed distribution that the file belongs to, with its version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotFound:
    """One name for which no file was found."""

    name: str
    requester: str
    dlopen: bool
    tried: tuple[str, ...]
    passed: tuple[SkippedCandidate, ...] = ()
    times: int = 1
    wheels: tuple[str, ...] = ()
    """Well-known wheels that contain it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One program in one process, from LD_DEBUG and /proc."""

    pid: int
    program: str
    executable: str | None = None
    """The target of /proc/PID/exe."""
    forked_from: int | None = None
    """The parent after a fork without exec; its loaded files are here too, and not repeated."""
    silent: str | None = None
    """Why it wrote no log, if it did not; then only the `mapped` files are known."""
    loaded: tuple[Loaded, ...] = ()
    missed: tuple[NotFound, ...] = ()
    mapped: tuple[File, ...] = ()
    """Files with executable code in /proc/PID/maps."""
    versions: frozenset[tuple[str, str]] = frozenset()
    """Dependent and provider of a symbol version, by path."""
    bindings: tuple[tuple[LoggedBinding, int], ...] = ()
    errors: tuple[str, ...] = ()
    dropped: int = 0
    """Requests and bindings beyond the limit of `ld_debug_log`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """An environment variable that may affect which files are loaded."""

    name: str
    value: str
    served: tuple[str, ...]
    """The loaded files from its directories; empty if it had no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A library of a wheel that was loaded from another file than predicted."""

    wheel: str
    pid: int
    user: str
    """The dependent file."""
    name: str
    expected: str
    found: str | None
    """The file that was loaded; None if none was."""
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The files that one command loaded."""

    command: tuple[str, ...]
    exit_code: int
    """As of a shell: 128 + n for a command killed by signal n."""
    processes: tuple[Process, ...]
    variables: tuple[Variable, ...] = ()
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()


# --- Questions ------------------------------------------------------------------------------------


def whole(processes: Sequence[Process]) -> Iterator[tuple[Process, tuple[Loaded, ...]]]:
    """Yield each process with all loaded files, those inherited by a fork included."""
    latest: dict[int, tuple[Loaded, ...]] = {}
    for process in processes:
        inherited = latest.get(process.forked_from or -1, ())
        latest[process.pid] = (*inherited, *process.loaded)
        yield process, latest[process.pid]


def copies(loaded: Sequence[Loaded]) -> Mapping[str, tuple[Loaded, ...]]:
    """Return the SONAMEs that several loaded files have, with these files."""
    found: dict[str, dict[tuple[int, int], Loaded]] = {}
    for entry in loaded:
        if entry.soname is not None and entry.file is not None:
            found.setdefault(entry.soname, {}).setdefault(entry.file.id, entry)
    return {name: tuple(files.values()) for name, files in found.items() if len(files) > 1}


def variables(environ: Mapping[str, str], processes: Sequence[Process]) -> tuple[Variable, ...]:
    """Return the variables that may affect the search, with the files found through them."""
    loaded = {entry.path: entry for process in processes for entry in process.loaded}
    found: list[Variable] = []
    for name, value in sorted(environ.items()):
        if not _may_matter(name) or not value:
            continue
        served = [path for path, entry in loaded.items() if _leads_to(name, value, entry)]
        if served or name != "PATH":
            found.append(Variable(name=name, value=value, served=tuple(served)))
    return tuple(found)


def _may_matter(name: str) -> bool:
    exact = {"LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PATH"}
    return name in exact or name.endswith(("_HOME", "_LIBRARY_PATH"))


def _leads_to(name: str, value: str, loaded: Loaded) -> bool:
    """Whether the file is from a directory of the variable."""
    if name == "LD_LIBRARY_PATH":
        return loaded.how is How.LIBRARY_PATH
    if name in {"LD_PRELOAD", "LD_AUDIT"}:
        return loaded.name in value.replace(":", " ").split()
    folders = [folder.rstrip("/") for folder in value.split(":") if folder.startswith("/")]
    real = loaded.file.path if loaded.file else loaded.path
    if name == "PATH":  # a program that searches PATH for libraries finds them in its folders
        return any(path.rpartition("/")[0] in folders for path in (loaded.path, real))
    return any(path.startswith(f"{folder}/") for path in (loaded.path, real) for folder in folders)


# --- Differences from a wheel ---------------------------------------------------------------------


def with_differences(trace: Trace, wheel: Wheel, files: Mapping[str, File]) -> Trace:
    """Return `trace` with the libraries of `wheel` for which another file was loaded.

    `files` are the installed files of its objects, by member.
    """
    elfs = {file.path: wheel.elfs[member] for member, file in files.items() if member in wheel.elfs}
    environment = Environment(libc=Libc.GLIBC, files=elfs)
    roots = [path for path, elf in elfs.items() if elf.dynamic]
    budget = Budget.of_file(str(wheel.name), wheel.size)
    direct = {
        (path, request.name): request.result
        for path, load in zip(roots, load_each(roots, environment, budget), strict=True)
        for request in load.requests
        if request.requester == path and request.result is not None
    }
    complete = tuple(whole(trace.processes))
    found: dict[tuple[str, str, str | None], Difference] = {}
    for process, loaded in complete:
        for difference in _needed_from_elsewhere(process, loaded, direct, wheel, files):
            key = (difference.user, difference.name, difference.found)
            found.setdefault(key, difference)
    reported = {(difference.name, difference.found) for difference in found.values()}
    for process, loaded in complete:
        for difference in _from_elsewhere(process, loaded, wheel, files):
            if (difference.name, difference.found) not in reported:
                key = (difference.user, difference.name, difference.found)
                found.setdefault(key, difference)
    return replace(trace, differences=(*trace.differences, *found.values()))


def _needed_from_elsewhere(
    process: Process,
    loaded: Sequence[Loaded],
    direct: Mapping[tuple[str, str], str],
    wheel: Wheel,
    files: Mapping[str, File],
) -> Iterator[Difference]:
    """Yield the DT_NEEDED entries of the wheel's objects that another file satisfies."""
    here = {entry.file.path: entry for entry in loaded if entry.file is not None}
    for (user, name), expected in direct.items():
        if user not in here:
            continue
        provider = _provider(loaded, here[user], name)
        if provider is None or provider.file is None or provider.file.path == expected:
            continue
        if provider.file.id in {f.id for f in files.values() if f.path == expected}:
            continue
        yield Difference(
            wheel=str(wheel.name),
            pid=process.pid,
            user=user,
            name=name,
            expected=expected,
            found=provider.file.path,
            reason=_why(provider, here[user]),
        )


def _provider(loaded: Sequence[Loaded], user: Loaded, name: str) -> Loaded | None:
    """Return the file that satisfies `name` for `user`: requested by it, or loaded before."""
    for entry in loaded:
        if entry.requester == user.path and entry.name == name:
            return entry
    return next((entry for entry in loaded if name in {entry.name, entry.soname, entry.path}), None)


def _why(provider: Loaded, user: Loaded) -> str:
    if provider.requester == user.path and not provider.dlopen:
        return f"found by {rule(provider)}"
    return f"it was loaded before, {cause(provider)}, and answers to that name"


def _from_elsewhere(
    process: Process, loaded: Sequence[Loaded], wheel: Wheel, files: Mapping[str, File]
) -> Iterator[Difference]:
    """Yield files with the name of a library of the wheel that is itself not loaded."""
    ours = {file.id for file in files.values()}
    present = {entry.file.id for entry in loaded if entry.file is not None}
    names: dict[str, File] = {}
    for member, file in files.items():
        elf = wheel.elfs.get(member)
        if elf is not None and not elf.is_executable:
            names.setdefault(elf.soname or member.rpartition("/")[2], file)
    for entry in loaded:
        name = entry.soname or entry.path.rpartition("/")[2]
        wanted = names.get(name)
        if wanted is None or entry.file is None or entry.file.id in ours:
            continue
        if wanted.id not in present:
            yield Difference(
                wheel=str(wheel.name),
                pid=process.pid,
                user=entry.requester,
                name=name,
                expected=wanted.path,
                found=entry.file.path,
                reason=cause(entry),
            )


_RULES = {
    How.PATH: "its path",
    How.RPATH: "RPATH",
    How.INHERITED: "inherited RPATH",
    How.RUNPATH: "RUNPATH",
    How.LIBRARY_PATH: "LD_LIBRARY_PATH",
    How.CACHE: "ld.so.cache",
    How.DEFAULT: "default directory",
}


def rule(loaded: Loaded) -> str:
    """Return the rule of the loader that found the file, in a few words."""
    name = _RULES.get(loaded.how, "what is loaded already")
    return f"{name} of {loaded.owner}" if loaded.owner else name


def cause(loaded: Loaded) -> str:
    """Return what requested the file, and the rule that found it, in words."""
    verb = "opened by" if loaded.dlopen else "needed by"
    return f"{verb} {loaded.requester}, found by {rule(loaded)}"
