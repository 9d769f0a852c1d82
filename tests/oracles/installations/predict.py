"""The steps of a process as the model predicts them."""

import os
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, replace
from functools import cache

from tests.oracles.binding import LoadBindings, MissingVersion, ProcessBinder, Symbols
from tests.oracles.installations.case import NAMES, SYMBOLS, Case, Step
from tests.oracles.installations.observe import exists, identity
from tests.oracles.lookups import Lookup
from tests.oracles.symbols import read_symbols
from wheelfix.budget import Budget
from wheelfix.elf.constants import DF_1_NODEFLIB
from wheelfix.host.reachable_files import Disk
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Environment, How, Load, Request, SearchOutcome
from wheelfix.loader.loading import load, start_process
from wheelfix.loader.process import LoaderProcess


@dataclass(frozen=True, kw_only=True)
class PredictedStep:
    """One step of the model's."""

    load: Load
    maps: list[str]
    """The paths of all objects in the process after it, in load order."""
    binding: LoadBindings | None = None
    """None if a file is missing."""

    @property
    def fails(self) -> bool:
        """Whether the step fails, for a file or for a symbol."""
        return self.binding is None or self.binding.failure is not None

    @property
    def aborts(self) -> bool:
        """Whether glibc ends the process."""
        failure = self.binding.failure if self.binding else None
        if isinstance(failure, MissingVersion):
            return failure.library is None
        return failure is not None and failure.aborts


def predict(case: Case) -> list[PredictedStep]:
    """Ask the model for the start, and for each dlopen until the process ends."""
    environment = case.environment
    assert environment.main is not None
    process = ProcessBinder(environment.files, _symbols(), environment.libc)
    started = load(environment.main, environment, Budget.of_files())
    if started.missing:
        return [PredictedStep(load=started, maps=[])]
    maps = _maps(start_process(FileSystem(environment, Budget.of_files())))
    found = [PredictedStep(load=started, maps=maps, binding=process.start(started))]
    return found if found[0].fails else [*found, *_Run(case, process, started).steps()]


def read_from_disk(case: Case) -> Case:
    """Return the case with the files as they are read from the disk."""
    described = case.environment
    assert described.main is not None
    assert described.cwd is not None
    base = replace(described, files={}, broken={}, links={}, hard_links={}, directories=frozenset())
    disk = Disk()
    with chdir(described.cwd):
        disk.add(described.main)
        for step in case.steps:
            if "/" in step.name:
                disk.add(os.path.join(described.cwd, step.name))  # noqa: PTH118 - as written
        # A dlopen may name any library: so does the program, as long as its files are read.
        program = disk.files[described.main]
        disk.files[described.main] = program._replace(needed=(*program.needed, *NAMES))
        disk.add_reachable(base, described.main)
        disk.files[described.main] = program
    return replace(case, environment=disk.environment(base, described.main))


class _Run:
    """The steps of one process, as the model takes them."""

    def __init__(self, case: Case, process: ProcessBinder, started: Load) -> None:
        self._case = case
        self._process = process
        self._step = Step(name="")
        self._bindings: dict[int, LoadBindings] = {}
        self._loaded = {identity(case, each) for each in started.objects}

    def steps(self) -> Iterator[PredictedStep]:
        process = start_process(FileSystem(self._case.environment, Budget.of_files()))
        loads: list[tuple[Load, list[str]]] = []
        for name, caller in self._roots():
            # The program asks for `wopen` in the scope of the caller, where a filtee comes first.
            scope = process.dlopen(caller).objects if caller else (None,)
            one = process.dlopen(name, scope[0])
            if not one.missing and not self._accepts(one):
                process.undo(one)
            loads.append((one, _maps(process)))
        for one, maps in loads:
            binding = self._bindings.get(id(one))
            yield (predicted := PredictedStep(load=one, maps=maps, binding=binding))
            if predicted.aborts:
                return

    def _roots(self) -> Iterator[tuple[str, str | None]]:
        for step in self._case.steps:
            self._step = step
            if not step.caller:
                yield step.name, None
            elif identity(self._case, step.caller) in self._loaded:
                yield step.name, step.caller

    def _accepts(self, one: Load) -> bool:
        mode = self._step.mode
        binding = self._process.open(one, promote=mode == "g", deep=mode == "d")
        self._bindings[id(one)] = binding
        if binding.failure is None:
            self._loaded.update(identity(self._case, each) for each in one.objects)
        return binding.failure is None


def _symbols() -> Symbols:
    """Return readers of the files' symbols, and of lookups only those of `SYMBOLS`."""
    symbols = read_symbols()

    @cache
    def lookups(path: str) -> tuple[Lookup, ...]:
        return tuple(lookup for lookup in symbols.lookups(path) if lookup.name in SYMBOLS)

    return replace(symbols, lookups=lookups)


def _maps(process: LoaderProcess) -> list[str]:
    return [path for path in process.maps if path.rpartition("/")[2] in NAMES]


def existing(one: Load, environment: Environment) -> Iterator[str]:
    """Yield the files that the search finds, up to the failure."""
    absent = {SearchOutcome.ABSENT, SearchOutcome.NO_DIRECTORY}
    for request in one.requests:
        for candidate in request.candidates:
            if candidate.outcome not in absent and candidate.how is not How.PATH:
                yield candidate.path
        yield from _printed(request, environment)
        if request.failed:
            return


def _printed(request: Request, environment: Environment) -> Iterator[str]:
    """Yield the path in ld.so.cache that glibc prints, but does not try for DF_1_NODEFLIB."""
    elf = environment.files.get(request.requester or "")
    cached = environment.cache.get(request.name, "")
    ended = request.result is None and all(c.outcome.is_skipped for c in request.candidates)
    if ended and elf is not None and elf.dt_flags_1 & DF_1_NODEFLIB:
        tried = {candidate.path for candidate in request.candidates}
        if cached and cached not in tried and exists(environment.cwd or "/", cached):
            yield cached


def filters_itself(load: Load, environment: Environment) -> bool:
    """Return whether libraries filter each other: glibc then runs out of memory."""
    edges: dict[str, set[str]] = {}
    for request in load.requests:
        elf = environment.files.get(request.requester or "")
        names = {filtee.name for filtee in elf.filtees} if elf else set[str]()
        if (
            request.name in names
            and request.requester
            and request.result not in {None, request.requester}
        ):
            edges.setdefault(request.requester, set()).add(request.result or "")
    return any(source in _reached(edges, source) for source in edges)


def _reached(edges: dict[str, set[str]], source: str) -> set[str]:
    found: set[str] = set()
    waiting = list(edges[source])
    while waiting:
        if (path := waiting.pop()) not in found:
            found.add(path)
            waiting += edges.get(path, ())
    return found
