"""Differences between a real process and its prediction."""

import re
from collections.abc import Iterator, Sequence

from tests.oracles.binding import MissingVersion
from tests.oracles.installations.case import Case
from tests.oracles.installations.observe import (
    Edge,
    ObservedStep,
    identity,
    logged_bindings,
    observe,
    tried,
)
from tests.oracles.installations.predict import PredictedStep, existing, filters_itself, predict
from wheelfix.elf.model import Libc


def differences(case: Case) -> list[str]:
    """Return where the model and the loader disagree, none if they agree."""
    return compare_steps(case, observe(case), predict(case))


def compare_steps(
    case: Case, observed: Sequence[ObservedStep], predicted: Sequence[PredictedStep]
) -> list[str]:
    """Hold what observed to what was predicted."""
    if any(filters_itself(step.load, case.environment) for step in predicted):
        return []
    found = list(_steps(case, observed, predicted))
    log = "".join(each.read_text() for each in case.root.glob("debug.*"))
    if case.environment.libc is Libc.GLIBC and not found:
        wanted = [path for each in predicted for path in existing(each.load, case.environment)]
        if wanted != (seen := list(tried(case, log))):
            found.append(f"tried {seen}, predicted {wanted}")
        edges = list(_edges(case, predicted))
        if edges != (said := logged_bindings(case, log)):
            found.append(f"bound {_differing(said, edges)}, predicted {_differing(edges, said)}")
    return found


def _differing(some: list[Edge], others: list[Edge]) -> object:
    return [each for each in some if each not in others] or [
        (n, each) for n, each in enumerate(some) if each != others[n]
    ]


def _steps(
    case: Case, observed: Sequence[ObservedStep], predicted: Sequence[PredictedStep]
) -> Iterator[str]:
    if len(observed) != len(predicted):
        yield f"{len(observed)} steps, {len(predicted)} predicted: {observed[-1].error}"
    places: set[tuple[str, str, str]] = set()
    for did, one in zip(observed, predicted, strict=False):
        root = one.load.root
        libc = case.environment.libc
        if bool(did.error) != one.fails or (did.error and not blamed(did.error, one, libc)):
            yield f"{root}: {did.error!r}, predicted {_failure(one)}"
        if not one.fails and one.binding is not None:
            places |= {
                (identity(case, each.user), each.symbol, identity(case, each.provider or ""))
                for each in one.binding.lookups
                if not each.copied
            }
        if not did.error and did.maps != one.maps:
            yield f"{root}: loaded {did.maps}, predicted {one.maps}"
        if not did.error and did.places != places:
            yield f"{root}: places {did.places - places}, predicted {places - did.places}"


def _edges(case: Case, predicted: Sequence[PredictedStep]) -> Iterator[Edge]:
    """Yield what the model says is bound, each once."""
    yield from dict.fromkeys(
        (identity(case, each.user), each.symbol, each.version, identity(case, each.provider or ""))
        for one in predicted
        if one.binding is not None
        for each in one.binding.bound
    )


def outcome(one: PredictedStep) -> str:
    """Return what came of one step, in a few words."""
    if one.binding is None:
        return "fail for a file"
    if one.aborts:
        return "abort"
    if not one.fails:
        return "load"
    version = isinstance(one.binding.failure, MissingVersion)
    return "fail for a version" if version else "fail for a symbol"


def _failure(one: PredictedStep) -> object:
    return one.binding.failure if one.binding else one.load.missing[:1]


def blamed(message: str, one: PredictedStep, libc: Libc) -> bool:
    """Whether the loader's message names what the model says is missing first."""
    if one.binding is not None:
        failure = one.binding.failure
        if one.aborts:
            return "Inconsistency detected by ld.so" in message
        if isinstance(failure, MissingVersion):
            return f"version `{failure.version}' not found" in message
        assert failure is not None
        name = failure.symbol
        if libc is Libc.MUSL:
            return f": {name}: symbol not found" in message.partition("\n")[0]
        name += f", version {failure.version}" if failure.version else ""
        return bool(re.search(f"undefined symbol: {name}$", message.strip(), re.MULTILINE))
    first = one.load.missing[0]
    last = first.candidates[-1].path if first.candidates else first.name
    names = [last] if first.fatal and libc is Libc.GLIBC else [first.name.rpartition("/")[2]]
    return any(name in message for name in names)
