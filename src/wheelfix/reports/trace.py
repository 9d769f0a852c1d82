"""The output of `wheelfix trace`: loaded files as text and as JSON."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from wheelfix.host.trace_values import (
    Difference,
    Loaded,
    NotFound,
    Process,
    Trace,
    cause,
    copies,
    whole,
)
from wheelfix.loader.load_values import How
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.text import counted

FEW = 20
"""Bindings, and files of a variable, that are shown before the rest is only counted."""
_USUAL = frozenset({How.CACHE, How.DEFAULT})


def text(trace: Trace, *, verbose: bool, colour: bool) -> str:
    """Return the files that each process loaded, with the search list that each was found in.

    Without `verbose`, system libraries in their usual directories and the interpreter's own modules
    are only counted.
    """
    lines = [paint(f"trace of {_quoted(trace.command)}", Colour.BOLD, on=colour)]
    lines += [f"  exit code {trace.exit_code}, {counted(len(trace.processes), 'program')}"]
    for difference in trace.differences:
        lines += _difference(difference, colour=colour)
    for process, loaded in whole(trace.processes):
        lines += _process(process, loaded, verbose=verbose, colour=colour)
    lines += _variables(trace)
    lines += [f"note: {note}" for note in trace.notes]
    return "\n".join(
        # The names in a painted line are printable already.
        line if colour and line.startswith("\x1b[") else printable(line)
        for line in lines
    )


def as_json(trace: Trace) -> dict[str, Any]:
    """Return the trace as JSON types; `version` changes when the meaning of a key does."""
    processes: list[dict[str, Any]] = []
    for process, loaded in whole(trace.processes):
        row = asdict(process)
        row["versions"] = sorted(process.versions)
        row["bindings"] = [{**asdict(binding), "times": n} for binding, n in process.bindings]
        row["copies"] = {
            name: [library.file.path for library in found if library.file]
            for name, found in copies(loaded).items()
        }
        processes.append(row)
    return {"version": 1, **asdict(trace), "processes": processes}


def _quoted(command: Sequence[str]) -> str:
    return printable(shlex.join(command)[:200])


def _difference(difference: Difference, *, colour: bool) -> Iterator[str]:
    error = paint("error[trace-difference]", Colour.RED, on=colour)
    yield error + printable(
        f": `{difference.name}` is not the one from {difference.wheel} in process {difference.pid}"
    )
    yield f"  expected {difference.expected}"
    yield f"  found    {difference.found}"
    yield f"  for      {difference.user}"
    yield f"  because  {difference.reason}"


def _process(
    process: Process, loaded: Sequence[Loaded], *, verbose: bool, colour: bool
) -> Iterator[str]:
    head = f"process {process.pid}: {printable(process.executable or process.program)}"
    if process.forked_from is not None:
        head += f", forked from {process.forked_from}"
    yield paint(head, Colour.BOLD, on=colour)
    if process.silent is not None:
        yield f"  no loader log: {process.silent}"
        yield from (f"  mapped  {file.path}" for file in process.mapped)
        return
    hidden = [library for library in process.loaded if not verbose and _is_usual(library)]
    for library in process.loaded:
        if verbose or not _is_usual(library):
            yield from _loaded(library)
    if hidden:
        yield f"  and {counted(len(hidden), 'library')} of the system and the interpreter (-v)"
    for name, found in copies(loaded).items():
        yield paint(f"  {len(found)} copies of {printable(name)}", Colour.YELLOW, on=colour)
        yield from (f"    {copy.file.path}, {cause(copy)}" for copy in found if copy.file)
    for missed in process.missed:
        yield from _missed(missed, verbose=verbose, colour=colour)
    yield from _unexplained(process, loaded)
    yield from (f"  the loader says: {error}" for error in process.errors if verbose)
    yield from _bindings(process, verbose=verbose)
    if process.dropped:
        yield f"  and {process.dropped:,} more requests or bindings, not recorded"


def _unexplained(process: Process, loaded: Sequence[Loaded]) -> Iterator[str]:
    """Yield the libraries in the memory maps that the loader log does not have."""
    known = {library.file.path for library in loaded if library.file}
    for file in process.mapped:
        name = file.path.rpartition("/")[2]
        is_library = ".so" in name and not name.startswith("ld-")
        if is_library and file.path not in known:
            yield from (f"  {name}", f"    {file.path}", "    in the memory maps, not in the log")


def _is_usual(loaded: Loaded) -> bool:
    """Whether it is a system library in its usual directory, or a module of the interpreter."""
    usual = loaded.how in _USUAL and loaded.soname == loaded.name and not loaded.dlopen
    return not loaded.passed and (usual or "/lib-dynload/" in loaded.path)


def _loaded(loaded: Loaded) -> Iterator[str]:
    file = loaded.file
    path = file.path if file else f"{loaded.path} (gone)"
    yield f"  {loaded.name.rpartition('/')[2]}"
    yield f"    {path}{' (deleted since)' if file and file.deleted else ''}"
    if file is None or not file.mapped:
        yield "    known by its path only: the process ended before its maps were read"
    if file and file.path != loaded.path:
        yield f"    opened as {loaded.path}"
    if loaded.soname not in {None, loaded.name, loaded.name.rpartition("/")[2]}:
        yield f"    its SONAME is {loaded.soname}"
    if loaded.distribution is not None:
        yield f"    of {loaded.distribution}"
    yield f"    {cause(loaded)}{f', {loaded.times} times' if loaded.times > 1 else ''}"
    yield from (f"    rejected {skipped.path}: {skipped.reason}" for skipped in loaded.passed)


def _missed(missed: NotFound, *, verbose: bool, colour: bool) -> Iterator[str]:
    verb = "opened" if missed.dlopen else "needed"
    times = f", {missed.times} times" if missed.times > 1 else ""
    yield (
        paint(f"  not found: {printable(missed.name)}", Colour.RED, on=colour)
        + f", {verb} by {printable(missed.requester)}{times}"
    )
    if missed.wheels:
        yield f"    it is in {' or '.join(missed.wheels)}: pip install {missed.wheels[0]}"
    yield from (f"    rejected {skipped.path}: {skipped.reason}" for skipped in missed.passed)
    if verbose:
        yield from (f"    tried {path}" for path in missed.tried)
    else:
        yield f"    {counted(len(missed.tried), 'path')} tried (-v)"


def _bindings(process: Process, *, verbose: bool) -> Iterator[str]:
    shown = process.bindings if verbose else process.bindings[:FEW]
    for binding, _ in shown:
        version = f"@{binding.version}" if binding.version else ""
        yield f"  {binding.symbol}{version}: {binding.user} -> {binding.provider}"
    rest = Counter(b.provider for b, _ in process.bindings[len(shown) :])
    yield from (f"  and {counted(n, 'symbol')} from {path} (-v)" for path, n in rest.items())


def _variables(trace: Trace) -> Iterator[str]:
    for variable in trace.variables:
        if not variable.served:
            yield f"{variable.name} is set, but no library was found there: {variable.value}"
            continue
        yield f"{variable.name} decided: {variable.value}"
        yield from (f"  {path}" for path in variable.served[:FEW])
        if len(variable.served) > FEW:
            yield f"  and {len(variable.served) - FEW:,} more"
