"""The steps of a process as the model predicts them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

from oracle.binding import LoadBindings, MissingVersion, ProcessBinder, Symbols
from oracle.files import read_symbols
from oracle.lookups import Lookup
from random_installations.case import SYMBOLS, Case, Step
from random_installations.observe import identity
from wheelfix.budget import Budget
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import How, Load, SearchOutcome
from wheelfix.loader.search import load, start_process


@dataclass(frozen=True, kw_only=True)
class PredictedStep:
    """One step of the model's."""

    load: Load
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
    started = load(environment.main, environment)
    if started.missing:
        return [PredictedStep(load=started)]
    found = [PredictedStep(load=started, binding=process.start(started))]
    return found if found[0].fails else [*found, *_Run(case, process, started).steps()]


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
        loads: list[Load] = []
        for name, caller in self._roots():
            one = process.dlopen(name, caller)
            if not one.missing and not self._accepts(one):
                process.undo(one)
            loads.append(one)
        for one in loads:
            yield (predicted := PredictedStep(load=one, binding=self._bindings.get(id(one))))
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


def opened(one: Load) -> list[str]:
    """Return the paths of the objects that this load brought into the process."""
    new = {How.LOADED, How.SAME_FILE, How.LIBC, None}
    return [each.candidates[-1].path for each in one.requests if each.how not in new]


def existing(one: Load) -> Iterator[str]:
    """Yield the files that the search finds, up to the failure."""
    absent = {SearchOutcome.ABSENT, SearchOutcome.NO_DIRECTORY}
    for request in one.requests:
        for candidate in request.candidates:
            if candidate.outcome not in absent and candidate.how is not How.PATH:
                yield candidate.path
        if request.failed:
            return
