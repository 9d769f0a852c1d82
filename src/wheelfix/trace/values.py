"""Values of a trace, and questions about them: duplicate SONAMEs, variables, differences.

`trace.reading` makes them from LD_DEBUG logs and /proc.
"""

from collections.abc import Iterator, Mapping, Sequence

from wheelfix.frozen import frozen
from wheelfix.host.installed_files import File
from wheelfix.loader.load_values import How, search_list
from wheelfix.loader.process_bindings import Binding


@frozen
class SkippedCandidate:
    """One candidate that exists but was not loaded."""

    path: str
    how: How
    reason: str


@frozen
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


@frozen
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


@frozen
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
    bindings: tuple[tuple[Binding, int], ...] = ()
    errors: tuple[str, ...] = ()
    dropped: int = 0
    """Requests and bindings beyond the limit of `ld_debug_log`."""


@frozen
class Variable:
    """An environment variable that may affect which files are loaded."""

    name: str
    value: str
    served: tuple[str, ...]
    """The loaded files from its directories; empty if it had no effect."""


@frozen
class Trace:
    """The files that one command loaded."""

    command: tuple[str, ...]
    exit_code: int
    """As of a shell: 128 + n for a command killed by signal n."""
    processes: tuple[Process, ...]
    variables: tuple[Variable, ...] = ()
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
    by_soname: dict[str, dict[tuple[int, int], Loaded]] = {}
    for entry in loaded:
        if entry.soname is not None and entry.file is not None:
            by_soname.setdefault(entry.soname, {}).setdefault(entry.file.id, entry)
    return {name: tuple(files.values()) for name, files in by_soname.items() if len(files) > 1}


def variables(environ: Mapping[str, str], processes: Sequence[Process]) -> tuple[Variable, ...]:
    """Return the variables that may affect the search, with the files found through them."""
    loaded = {entry.path: entry for process in processes for entry in process.loaded}
    listed: list[Variable] = []
    for name, value in sorted(environ.items()):
        if not _may_matter(name) or not value:
            continue
        served = [path for path, entry in loaded.items() if _leads_to(name, value, entry)]
        if served or name != "PATH":
            listed.append(Variable(name=name, value=value, served=tuple(served)))
    return tuple(listed)


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
    starts = tuple(f"{folder}/" for folder in folders)
    if name == "PATH":  # a program that searches PATH for libraries finds them in its folders
        return any(path.rpartition("/")[0] in folders for path in (loaded.path, real))
    return loaded.path.startswith(starts) or real.startswith(starts)


# --- Differences from a wheel ---------------------------------------------------------------------


def cause(loaded: Loaded) -> str:
    """Return what requested the file, and the rule that found it, in words."""
    verb = "opened by" if loaded.dlopen else "needed by"
    return f"{verb} {loaded.requester}, found by {search_list(loaded.how, loaded.owner)}"
