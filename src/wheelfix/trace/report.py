"""The output of `wheelfix trace`: loaded files as text and as JSON."""

import posixpath
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from wheelfix.elf.object_file_names import is_object_name
from wheelfix.grouping import flatten
from wheelfix.loader.load_values import How
from wheelfix.providers.well_known import possible_wheels
from wheelfix.reports.printable import PLAIN, Color, Style, paint, printable
from wheelfix.text import count, first_of
from wheelfix.trace.values import (
    Loaded,
    NotFound,
    Process,
    Trace,
    cause,
    copies,
    whole,
)

FEW = 20
"""Bindings, and files of a variable, that are shown before the rest is only counted."""
_USUAL = frozenset({How.CACHE, How.DEFAULT})


def text(trace: Trace, style: Style = PLAIN) -> str:
    """Return the files that each process loaded, with the search list that each was found in.

    Without `verbose`, system libraries in their usual directories and the interpreter's own modules
    are only counted.
    """
    lines = [paint(f"trace of {_quote(trace.command)}", Color.BOLD, on=style.color)]
    lines += [f"  exit code {trace.exit_code}, {count(len(trace.processes), 'program')}"]
    for process, loaded in whole(trace.processes):
        lines += _process(process, loaded, style)
    lines += _variables(trace)
    lines += [f"note: {note}" for note in trace.notes]
    return "\n".join(
        # The names in a painted line are printable already.
        line if style.color and line.startswith("\x1b[") else printable(line)
        for line in lines
    )


def as_json(trace: Trace) -> dict[str, Any]:
    """Return the trace as JSON types; `version` changes when the meaning of a key does."""
    processes: list[dict[str, Any]] = []
    for process, loaded in whole(trace.processes):
        row = asdict(process)
        row["bindings"] = [{**binding._asdict(), "times": n} for binding, n in process.bindings]
        row["copies"] = {
            name: [library.file.path for library in loads if library.file]
            for name, loads in copies(loaded).items()
        }
        processes.append(row)
    return {"version": 1, **asdict(trace), "processes": processes}


def _quote(command: Sequence[str]) -> str:
    return printable(shlex.join(command)[:200])


def _process(process: Process, loaded: Sequence[Loaded], style: Style) -> Iterator[str]:
    head = f"process {process.pid}: {printable(process.executable or process.program)}"
    if process.forked_from is not None:
        head += f", forked from {process.forked_from}"
    yield paint(head, Color.BOLD, on=style.color)
    if process.silent is not None:
        yield f"  no loader log: {process.silent}"
        yield from (f"  mapped  {file.path}" for file in process.mapped)
        return
    shown = [library for library in process.loaded if style.verbose or not _is_usual(library)]
    yield from flatten(map(_loaded_lines, shown))
    if not all(library.file and library.file.mapped for library in shown):
        yield "  the process ended before all its maps were read: some files are known by path only"
    if hidden := len(process.loaded) - len(shown):
        yield f"  and {count(hidden, 'library')} of the system and the interpreter (-v)"
    for name, loads in copies(loaded).items():
        yield paint(
            f"  {count(len(loads), 'copy')} of {printable(name)}", Color.YELLOW, on=style.color
        )
        yield from (f"    {copy.file.path}, {cause(copy)}" for copy in loads if copy.file)
    # A name that was tried in vain, and then opened by its path, is not missing.
    there = {posixpath.basename(library.file.path) for library in process.loaded if library.file}
    for missed in process.missed:
        if style.verbose or posixpath.basename(missed.name) not in there:
            yield from _missing_lines(missed, style)
    yield from _unexplained_libraries(process, loaded)
    yield from (f"  the loader says: {error}" for error in process.errors if style.verbose)
    yield from _bindings(process, style)
    if process.dropped:
        yield f"  and {count(process.dropped, 'more request')} or bindings, not recorded"


def _unexplained_libraries(process: Process, loaded: Sequence[Loaded]) -> Iterator[str]:
    """Yield the libraries in the memory maps that the loader log does not have."""
    known = {library.file.path for library in loaded if library.file}
    for file in process.mapped:
        name = file.path.rpartition("/")[2]
        is_library = is_object_name(name) and not name.startswith("ld-")
        if is_library and file.path not in known:
            yield from (f"  {name}", f"    {file.path}", "    in the memory maps, not in the log")


def _is_usual(loaded: Loaded) -> bool:
    """Whether it is a system library in its usual directory, or a module of the interpreter."""
    usual = loaded.how in _USUAL and loaded.soname == loaded.name and not loaded.dlopen
    return not loaded.passed and (usual or "/lib-dynload/" in loaded.path)


def _loaded_lines(loaded: Loaded) -> Iterator[str]:
    file = loaded.file
    path = file.path if file else f"{loaded.path} (gone)"
    yield f"  {loaded.name.rpartition('/')[2]}"
    yield f"    {path}{' (deleted since)' if file and file.deleted else ''}"
    if file and file.path != loaded.path:
        yield f"    opened as {loaded.path}"
    if loaded.soname not in {None, loaded.name, loaded.name.rpartition("/")[2]}:
        yield f"    its SONAME is {loaded.soname}"
    if loaded.distribution is not None:
        yield f"    of {loaded.distribution}"
    times = f", {count(loaded.times, 'time')}" if loaded.times > 1 else ""
    yield f"    {cause(loaded)}{times}"
    yield from (f"    rejected {skipped.path}: {skipped.reason}" for skipped in loaded.passed)


def _missing_lines(missed: NotFound, style: Style) -> Iterator[str]:
    verb = "opened" if missed.dlopen else "needed"
    times = f", {count(missed.times, 'time')}" if missed.times > 1 else ""
    yield (
        paint(f"  not found: {printable(missed.name)}", Color.RED, on=style.color)
        + f", {verb} by {printable(missed.requester)}{times}"
    )
    if known := possible_wheels(missed.name):
        yield f"    it is {known}"
    yield from (f"    rejected {skipped.path}: {skipped.reason}" for skipped in missed.passed)
    if style.verbose:
        yield from (f"    tried {path}" for path in missed.tried)
    else:
        yield f"    {count(len(missed.tried), 'path')} tried (-v)"


def _bindings(process: Process, style: Style) -> Iterator[str]:
    shown = process.bindings if style.verbose else process.bindings[:FEW]
    for binding, _ in shown:
        version = f"@{binding.version}" if binding.version else ""
        yield f"  {binding.symbol}{version}: {binding.user} -> {binding.provider}"
    rest = Counter(b.provider for b, _ in process.bindings[len(shown) :])
    yield from (f"  and {count(n, 'symbol')} from {path} (-v)" for path, n in rest.items())


def _variables(trace: Trace) -> Iterator[str]:
    for variable in trace.variables:
        if not variable.served:
            yield f"{variable.name} is set, but no library was found there: {variable.value}"
            continue
        yield f"{variable.name} decided: {variable.value}"
        yield from (f"  {path}" for path in first_of(variable.served, FEW))
