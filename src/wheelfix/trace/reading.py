"""Processes and loaded files of a trace, from the logs of the loader and /proc."""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import cache
from itertools import product
from pathlib import Path

from wheelfix.elf.demangle import demangle
from wheelfix.elf.model import Elf, Libc
from wheelfix.grouping import flatten, grouped
from wheelfix.host.installed_files import (
    distributions,
    find_file,
    site_folders_of,
)
from wheelfix.host.ld_debug_log import LoggedProgram, LoggedRequest
from wheelfix.host.loader_config import lib_directory
from wheelfix.host.reachable_files import read_file
from wheelfix.loader.glibc_search import check_header, search_lists
from wheelfix.loader.load_values import Environment, How, SearchOutcome
from wheelfix.loader.process_bindings import Binding
from wheelfix.providers.well_known import well_known_providers_of
from wheelfix.system.paths import is_there
from wheelfix.trace.values import Loaded, NotFound, Process, SkippedCandidate, Trace
from wheelfix.trace.watch import SeenProcess, TraceWatch

_ReadElf = Callable[[str], Elf | None]
"""Reads the ELF object at a path, once; None if there is none."""


def read_processes(watch: TraceWatch) -> Iterator[Process]:
    """Yield the programs that `watch` has seen, in the order in which their processes began."""
    read_elf: _ReadElf = cache(read_file)
    processes: list[Process] = []
    for log in watch.logs.values():
        programs = log.finish()
        for logged in programs:
            executable = _executable(logged, programs, watch.seen.get(logged.pid))
            processes.append(_process(logged, executable, watch, read_elf))
    with_log = grouped(processes, lambda process: process.pid)
    for pid in sorted({*with_log, *watch.seen}, key=lambda pid: _order(watch, pid)):
        seen = watch.seen.get(pid)
        yield from with_log.get(pid, [])
        if seen is not None:
            yield from _without_log(seen)


def _executable(
    logged: LoggedProgram, programs: Sequence[LoggedProgram], seen: SeenProcess | None
) -> str | None:
    """Return the program's file, if it was seen: a process may execute several in turn."""
    if seen is None or seen.exe is None:
        return None
    own = [program for program in programs if program.pid == logged.pid]
    if len(own) == len(seen.programs):
        return list(seen.programs)[own.index(logged)]
    return seen.exe if logged is own[-1] else None


def _order(watch: TraceWatch, pid: int) -> tuple[int, int]:
    seen = watch.seen.get(pid)
    return int(seen.began) if seen else 1 << 62, pid


def _without_log(seen: SeenProcess) -> Iterator[Process]:
    """Yield the programs that the process has executed and that write no log, with the reason."""
    for program, request in seen.programs.items():
        elf = read_file(program)
        if elf is None:
            continue
        if not elf.dynamic or elf.interpreter is None:
            reason = "it is static: no loader runs in it"
        elif elf.libc is Libc.MUSL:
            reason = "musl's loader knows no LD_DEBUG"
        elif not request:
            reason = "it was started without LD_DEBUG in its environment"
        else:
            continue
        files = tuple(file for file in seen.files.values() if file.path != program)
        yield Process(
            pid=seen.pid, program=program, executable=program, silent=reason, mapped=files
        )


def _process(
    logged: LoggedProgram, executable: str | None, watch: TraceWatch, read_elf: _ReadElf
) -> Process:
    loaded: list[Loaded] = []
    missed: list[NotFound] = []
    program = logged.program or executable or "?"
    loaders: dict[str, str | None] = {}
    own = executable or shutil.which(program) or program
    for request in logged.requests:
        if request.path is not None:
            chain = list(_chain(request.requester, program, own, loaders))
            loaders.setdefault(request.path, None if request.dlopen else request.requester)
            loaded.append(_load(request, read_elf, chain))
        elif not _is_loaded(request, logged.known, loaded):
            missed.append(_not_found(request, read_elf))
    seen = watch.seen.get(logged.pid)
    return Process(
        pid=logged.pid,
        program=program,
        executable=executable,
        forked_from=logged.forked_from,
        loaded=tuple(loaded),
        missed=tuple(missed),
        mapped=tuple(seen.files.values()) if seen else (),
        bindings=tuple(logged.bindings.items()),
        errors=tuple(logged.errors),
        dropped=logged.dropped,
    )


def _chain(
    requester: str, program: str, executable: str, loaders: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the requester, the object that caused its load, and so on up to the program."""
    path: str | None = requester
    seen = {program}
    while path is not None and path not in seen:
        seen.add(path)
        yield path
        path = loaders.get(path)
    yield executable


def _is_loaded(request: LoggedRequest, opened: set[str], loaded: Sequence[Loaded]) -> bool:
    """Whether the search ended at a file that was already loaded under another path."""
    last = request.tried[-1].path if request.tried else request.name
    if last in opened:
        return True
    file = find_file(last)
    return file is not None and any(entry.file and entry.file.id == file.id for entry in loaded)


def _load(request: LoggedRequest, read_elf: _ReadElf, chain: Sequence[str]) -> Loaded:
    path, file = request.path or request.name, request.file
    elf = read_elf(file.path if file else path)
    how, owner = _rule(request, chain, read_elf)
    return Loaded(
        name=request.name,
        requester=request.requester,
        dlopen=request.dlopen,
        path=path,
        file=file,
        soname=elf.soname if elf else None,
        how=how,
        owner=owner,
        directory=path.rpartition("/")[0] if request.tried else None,
        passed=tuple(_skipped_candidates(request, elf, read_elf)),
        tried=len(request.tried),
        times=request.times,
    )


def _rule(
    request: LoggedRequest, chain: Sequence[str], read_elf: _ReadElf
) -> tuple[How, str | None]:
    """Return the rule that found the file, and the owner of the search path.

    `chain` are the files whose DT_RPATH may apply: the requester, what caused it to be loaded,
    the program. For a directory, glibc logs the tag and the file that had it first, which may be
    wrong: the objects' own DT_RPATH and DT_RUNPATH decide.
    """
    if not request.tried:
        return How.PATH, None
    how, owner = request.tried[-1].how, request.tried[-1].owner
    requester = read_elf(chain[0])
    if how not in {How.RPATH, How.RUNPATH} or requester is None:
        return how, owner
    path, lib = request.path or "", lib_directory(requester)
    environment = Environment(libc=Libc.GLIBC, files={}, lib=lib)
    for step, places in search_lists([(file, read_elf(file)) for file in chain], environment):
        if any(path.startswith(f"{directory}/") for _, directory in places.pairs if directory):
            return step, places.owner
    return (How.INHERITED if how is How.RPATH else how), owner


def _skipped_candidates(
    request: LoggedRequest, taken: Elf | None, read_elf: _ReadElf
) -> Iterator[SkippedCandidate]:
    """Yield the candidates that exist, but were not loaded."""
    for attempt in request.tried:
        if attempt.path == request.path or not is_there(attempt.path):
            continue
        reason = _reason(read_elf(attempt.path), taken)
        yield SkippedCandidate(path=attempt.path, how=attempt.how, reason=reason)


def _reason(elf: Elf | None, taken: Elf | None) -> str:
    if elf is None:
        return "not a readable ELF file"
    if taken is None:
        return "not loadable"
    outcome = check_header(elf, taken)
    if outcome is SearchOutcome.FOUND:
        return "not there when the loader looked, or not readable for the process"
    return outcome


def _not_found(request: LoggedRequest, read_elf: _ReadElf) -> NotFound:
    return NotFound(
        name=request.name,
        requester=request.requester,
        dlopen=request.dlopen,
        tried=tuple(attempt.path for attempt in request.tried),
        passed=tuple(_skipped_candidates(request, None, read_elf)),
        times=request.times,
        wheels=well_known_providers_of(request.name),
    )


# --- Names ----------------------------------------------------------------------------------------


def keep_bindings(trace: Trace, symbols: Sequence[str]) -> Trace:
    """Keep the bindings whose plain or demangled name matches one of the globs `symbols`."""
    names = {b.symbol for b, _ in flatten(p.bindings for p in trace.processes)}
    readable = {name: demangle(name) for name in names}

    def fits(binding: Binding) -> bool:
        both = (binding.symbol, readable[binding.symbol])
        return any(fnmatchcase(*pair) for pair in product(both, symbols))

    kept = tuple(
        replace(
            process,
            bindings=tuple(
                (b._replace(symbol=readable[b.symbol]), times)
                for b, times in process.bindings
                if fits(b)
            ),
        )
        for process in trace.processes
    )
    return replace(trace, processes=kept)


# --- Distributions --------------------------------------------------------------------------------


def with_distributions(trace: Trace) -> Trace:
    """Note for each file the installed distribution that it belongs to, by RECORD."""
    wanted = {entry.file.path for entry in flatten(p.loaded for p in trace.processes) if entry.file}
    owners: dict[str, str] = {}
    for site in dict.fromkeys(map(os.path.realpath, _sites(trace))):  # lib64 is a link to lib
        owners |= distributions(Path(site), wanted - owners.keys())

    def owned(loaded: Loaded) -> Loaded:
        path = loaded.file.path if loaded.file else ""
        return replace(loaded, distribution=owners.get(path))

    processes = (replace(p, loaded=tuple(map(owned, p.loaded))) for p in trace.processes)
    return replace(trace, processes=tuple(processes))


def _sites(trace: Trace) -> Iterator[Path]:
    """Yield the folders that may be site-packages of the traced programs."""
    paths = dict.fromkeys(
        path
        for process in trace.processes
        for entry in process.loaded
        for path in (entry.path, entry.file.path if entry.file else entry.path)
    )
    yield from dict.fromkeys(flatten(Path(path).parents for path in paths))
    for variable in trace.variables:
        if variable.name == "PYTHONPATH":
            yield from (Path(folder) for folder in variable.value.split(":") if folder)
    for process in trace.processes:
        program = Path(shutil.which(process.program) or process.program)
        for folder in (program.parent, Path(process.executable or "/").parent):
            yield from site_folders_of(folder.parent)
