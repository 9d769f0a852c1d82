"""Result of loading an object, as the model predicts it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tests.oracles.binding import LoadBindings, ProcessBinder, Symbols
from wheel_loads.model import LoadResult, identity, label
from wheelfix.budget import Budget
from wheelfix.loader.load_values import Environment, How, Load, Request, SearchOutcome
from wheelfix.loader.loading import load, load_all

NEW = frozenset(How) - {How.LOADED, How.SAME_FILE, How.LIBC}


def predicted_loads(
    path: str, first: Sequence[str], environment: Environment, *, is_program: bool
) -> tuple[Load, ...]:
    """Predict the start of the program and its dlopen calls, the object last."""
    budget = Budget.of_files()
    if is_program:
        return (load(path, environment, budget),)
    started = load(environment.main, environment, budget) if environment.main else None
    loads = load_all([*first, path], environment, budget)
    return loads if started is None else (started, *loads)


def predicted_files(one: Load, *, is_program: bool) -> LoadResult:
    """Return the files of a predicted load."""
    requests = list(until_failure(one, to_the_end=is_program))
    absent = {SearchOutcome.ABSENT, SearchOutcome.NO_DIRECTORY}
    missing = one.missing[0] if one.missing else None
    return LoadResult(
        opened=tuple(request.candidates[-1].path for request in requests if request.how in NEW),
        tried=tuple(
            candidate.path
            for request in requests
            for candidate in request.candidates
            if candidate.outcome not in absent and candidate.how is not How.PATH
        ),
        blamed=None
        if missing is None
        else (missing.candidates[-1].path if missing.fatal else missing.name),
    )


def with_predicted_symbols(
    result: LoadResult,
    loads: Sequence[Load],
    environment: Environment,
    symbols: Symbols,
    *,
    is_program: bool,
) -> LoadResult:
    """Add the predicted bindings and undefined symbols."""
    process = ProcessBinder(environment.files, symbols)
    binding = process.start(loads[0])
    for later in loads[1:]:
        binding = process.open(later)
    loader = set(environment.loaded.values())
    bindings = binding.lookups if is_program else binding.bound
    return replace(
        result,
        bound=frozenset(
            (identity(bound.user), bound.symbol, bound.version, identity(bound.provider))
            for bound in bindings
            if bound.provider is not None and bound.user not in loader
        ),
        unbound=tuple(blamed_by_model(binding, to_the_end=is_program)),
    )


def blamed_by_model(binding: LoadBindings, *, to_the_end: bool) -> Iterator[str]:
    """Yield the undefined symbols or the missing version that the message will name."""
    if binding.missing:
        yield f"version {binding.missing[0].version}"
        return
    failing = (lookup for lookup in binding.lookups if lookup.fails)
    names = dict.fromkeys(label(lookup.symbol, lookup.version) for lookup in failing)
    yield from list(names)[: None if to_the_end else 1]


def until_failure(one: Load, *, to_the_end: bool) -> Iterator[Request]:
    """Yield the requests up to the first failure; `ldd` goes on after it (`to_the_end`)."""
    for request in one.requests:
        yield request
        if request.failed and not to_the_end:
            return
