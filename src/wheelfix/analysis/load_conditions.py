"""What a load depends on: environment variables, import order, install scheme, processor."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain

from wheelfix.analysis.installation import Installation, Installations, Provenance, loads_of
from wheelfix.analysis.load_tree import Step
from wheelfix.elf.model import Libc
from wheelfix.grouping import grouped, values_by_key
from wheelfix.loader.load_values import How, Load
from wheelfix.loader.loading import is_after_library_path
from wheelfix.wheel.grafted_name import unhashed


class Factor(StrEnum):
    """What a result depends on. The values appear in JSON output."""

    ENVIRONMENT = "environment"
    ORDER = "order of imports"
    SCHEME = "install scheme"
    CPU = "processor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another result for some libraries, and its condition."""

    factor: Factor
    names: tuple[str, ...]
    when: str
    then: str


def alternatives(
    installation: Installation, root: str, after: Sequence[str], known: Load, steps: Iterable[Step]
) -> tuple[Alternative, ...]:
    """Return the possible differences from `known`, the load of `root` once `after` are loaded."""
    found = (
        *_without_conditions(installation, root, after, known),
        *_in_another_process(installation, steps),
    )
    return _merged(found)


def scheme_alternatives(installations: Installations, root: str) -> Iterator[Alternative]:
    """Yield what differs where an installer arranges the files otherwise."""
    here = installations.here
    member = here.members.get(root)
    if member is None or not installations.elsewhere:
        return
    known = loads_of(here, root)[-1]
    for there in installations.elsewhere:
        when = f"installed by {there.where}"
        path = next((path for path, name in there.members.items() if name == member), None)
        if path is None:
            yield Alternative(
                factor=Factor.SCHEME, names=(member,), when=when, then="it is not installed"
            )
            continue
        other = loads_of(there, path)[-1]
        yield from _differences(here, known, there, other, Factor.SCHEME, when)


def _merged(found: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Join alternatives that differ in the names only."""
    groups = grouped(found, lambda result: (result.factor, result.when, result.then)).values()
    return tuple(
        replace(same[0], names=tuple(dict.fromkeys(chain(*(result.names for result in same)))))
        for same in groups
    )


def _without_conditions(
    installation: Installation, root: str, after: Sequence[str], known: Load
) -> Iterator[Alternative]:
    """Yield what changes without LD_LIBRARY_PATH, earlier loads, and processor features."""
    environment = installation.environment
    no_path = replace(installation, environment=replace(environment, library_path=()))
    hwcaps = [name for name in environment.subdirectories if name.startswith("glibc-hwcaps/")]
    others = tuple(name for name in environment.subdirectories if name not in hwcaps)
    no_levels = replace(installation, environment=replace(environment, subdirectories=others))
    names = ", ".join(f"`{installation.label(path)}`" for path in after)
    conditions = (
        (environment.library_path, Factor.ENVIRONMENT, no_path, "without this LD_LIBRARY_PATH"),
        (after, Factor.ORDER, installation, f"without {names} before it"),
        (hwcaps, Factor.CPU, no_levels, "on a processor of the lowest level"),
    )
    for condition, factor, changed, when in conditions:
        if condition:
            earlier = () if factor is Factor.ORDER else after
            other = loads_of(changed, root, earlier)[-1]
            yield from _differences(installation, known, changed, other, factor, when)


def _differences(  # noqa: PLR0913, PLR0917 - two loads, each in its installation
    here: Installation, known: Load, there: Installation, other: Load, factor: Factor, when: str
) -> Iterator[Alternative]:
    """Yield the requests of `known` that have another result in `other`, compared by file name."""
    results = {
        (there.label(request.requester), request.name): request for request in other.requests[1:]
    }
    for request in known.requests[1:]:
        twin = results.get((here.label(request.requester), request.name))
        if twin is None or twin.provided or request.provided:
            continue
        first = None if request.result is None else here.label(request.result)
        second = None if twin.result is None else there.label(twin.result)
        if first != second:
            then = "it is not found" if second is None else f"it is `{second}`"
            yield Alternative(factor=factor, names=(request.name,), when=when, then=then)


def _in_another_process(installation: Installation, steps: Iterable[Step]) -> Iterator[Alternative]:
    musl = installation.environment.libc is Libc.MUSL
    carriers = values_by_key(
        (path.rpartition("/")[2] if musl else elf.soname or "", path)
        for path, elf in installation.environment.files.items()
    )
    for step in steps:
        if step.depth == 0 or (
            step.origin and step.origin.provenance in {Provenance.PLATFORM, Provenance.PYTHON}
        ):
            continue
        yield from _by_library_path(installation, step)
        yield from _by_order(installation, step, carriers)


def _by_library_path(installation: Installation, step: Step) -> Iterator[Alternative]:
    name, how = step.request.name, step.via.how if step.via else None
    libc = installation.environment.libc
    file, then = "such a file", "that file is loaded"
    if "/" in name:
        return
    if step.request.failed and not step.request.fatal:
        file = "it"
    elif how is None or not is_after_library_path(how, libc):
        return
    elif libc is Libc.MUSL:
        then += ": musl searches LD_LIBRARY_PATH before all else"
    else:
        tag = "DT_RUNPATH" if how is How.RUNPATH else "the system's directories"
        then += f": LD_LIBRARY_PATH comes before {tag}"
    when = f"LD_LIBRARY_PATH names a directory that holds {file}"
    yield Alternative(factor=Factor.ENVIRONMENT, names=(name,), when=when, then=then)


def _by_order(
    installation: Installation, step: Step, carriers: Mapping[str, Sequence[str]]
) -> Iterator[Alternative]:
    """Yield the files that satisfy the request if something has loaded them before."""
    name = step.request.name
    if "/" in name or step.request.how in {How.LOADED, How.SAME_FILE}:
        return
    for path in carriers.get(name, ()):
        if path != step.request.result:
            yield Alternative(
                factor=Factor.ORDER,
                names=(name,),
                when=f"`{installation.label(path)}` is loaded before",
                then="that file is used",
            )
    musl = installation.environment.libc is Libc.MUSL
    if step.request.failed or not unhashed(name):
        way = "searched for a file of that name" if musl else "loaded an object with that SONAME"
        yield Alternative(
            factor=Factor.ORDER,
            names=(name,),
            when=f"another import has {way} before",
            then="that one is used: the loader searches for each name once",
        )
