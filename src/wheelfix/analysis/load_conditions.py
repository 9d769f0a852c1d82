"""What a load depends on: environment variables, import order, install scheme, processor."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import chain, islice
from operator import attrgetter

from wheelfix.analysis.load_tree import Step
from wheelfix.analysis.world import Provenance, World
from wheelfix.elf.model import Libc
from wheelfix.grouping import grouped
from wheelfix.loader.load_values import How, Load
from wheelfix.loader.loading import is_after_library_path
from wheelfix.named_tuple import NamedTuple
from wheelfix.text import FEW, join_some
from wheelfix.wheel.grafted_name import remove_hash


class Factor(StrEnum):
    """What a result depends on. The values appear in JSON output."""

    ENVIRONMENT = "environment"
    ORDER = "order of imports"
    SCHEME = "install scheme"
    CPU = "processor"


class Alternative(NamedTuple):
    """Another result for some libraries, and its condition."""

    factor: Factor
    names: tuple[str, ...]
    when: str
    then: str


def alternatives(
    world: World, root: str, after: Sequence[str], known: Load, steps: Iterable[Step]
) -> tuple[Alternative, ...]:
    """Return the possible differences from `known`, the load of `root` once `after` are loaded."""
    conditions = chain(
        _without_conditions(world, root, after, known), _in_another_process(world, steps)
    )
    return (*_merge(conditions), *_by_scheme(world, root))


def _by_scheme(world: World, root: str) -> Iterator[Alternative]:
    """Yield what differs where an installer arranges the files otherwise."""
    member = world.members.get(root)
    if member is None or not world.elsewhere:
        return
    known = world.load(root)
    for there in world.elsewhere:
        when = f"installed by {there.where}"
        path = there.paths.get(member)
        if path is None:
            yield Alternative(
                factor=Factor.SCHEME, names=(member,), when=when, then="it is not installed"
            )
            continue
        yield from _differences(world, known, there, there.load(path), Factor.SCHEME, when)


def _merge(given: Iterable[Alternative]) -> Iterator[Alternative]:
    """Join alternatives that differ in the names only."""
    for same in grouped(given, attrgetter("factor", "when", "then")).values():
        names = dict.fromkeys(chain(*(alternative.names for alternative in same)))
        yield same[0]._replace(names=tuple(names))


def _without_conditions(
    world: World, root: str, after: Sequence[str], known: Load
) -> Iterator[Alternative]:
    """Yield what changes without LD_LIBRARY_PATH, earlier loads, and processor features."""
    names = join_some(map(world.label, after), FEW)
    for changed, earlier, factor, when in (
        (world.without_path, after, Factor.ENVIRONMENT, "without this LD_LIBRARY_PATH"),
        (world, (), Factor.ORDER, f"without {names} before it"),
        (world.without_levels, after, Factor.CPU, "on a processor of the lowest level"),
    ):
        if changed is not world or earlier != after:
            other = changed.process(root, earlier)[-1]
            yield from _differences(world, known, changed, other, factor, when)


def _differences(  # noqa: PLR0913, PLR0917 - two loads, each in its world
    here: World, known: Load, there: World, other: Load, factor: Factor, when: str
) -> Iterator[Alternative]:
    """Yield the requests of `known` that have another result in `other`, compared by file name."""
    results = {
        (there.label(request.requester), request.name): request for request in other.requests[1:]
    }
    for request in known.requests[1:]:
        twin = results.get((here.label(request.requester), request.name))
        if twin is None or How.LIBC in {twin.how, request.how}:
            continue
        first = None if request.result is None else here.label(request.result)
        second = None if twin.result is None else there.label(twin.result)
        if first != second:
            then = "it is not found" if second is None else f"it is `{second}`"
            yield Alternative(factor=factor, names=(request.name,), when=when, then=then)


def _in_another_process(world: World, steps: Iterable[Step]) -> Iterator[Alternative]:
    for step in steps:
        if step.depth == 0 or (
            step.origin and step.origin.provenance in {Provenance.PLATFORM, Provenance.PYTHON}
        ):
            continue
        yield from _by_library_path(world, step)
        yield from _by_order(world, step)


def _by_library_path(world: World, step: Step) -> Iterator[Alternative]:
    name, how = step.request.name, step.via.how if step.via else None
    libc = world.environment.libc
    file, then = "such a file", "that file is loaded"
    if "/" in name:
        return
    if step.request.failed and not step.request.fatal:
        file = "it"
    elif how is None or not is_after_library_path(how, libc):
        return
    elif libc is Libc.MUSL:
        then += ", as musl searches LD_LIBRARY_PATH before all else"
    else:
        tag = "DT_RUNPATH" if how is How.RUNPATH else "the system's directories"
        then += f", as LD_LIBRARY_PATH comes before {tag}"
    when = f"LD_LIBRARY_PATH names a directory that holds {file}"
    yield Alternative(factor=Factor.ENVIRONMENT, names=(name,), when=when, then=then)


def _by_order(world: World, step: Step) -> Iterator[Alternative]:
    """Yield the files that satisfy the request if something has loaded them before."""
    name = step.request.name
    if "/" in name or step.request.how in {How.LOADED, How.SAME_FILE}:
        return
    carriers = world.carriers.get(name, ())
    others = tuple(islice((path for path in carriers if path != step.request.result), FEW))
    if others:
        number = len(carriers) - (step.request.result in carriers)
        few = ", ".join(f"`{world.label(path)}`" for path in others)
        more = f" and {number - FEW:,} more" if number > FEW else ""
        yield Alternative(
            factor=Factor.ORDER,
            names=(name,),
            when=f"{'one of ' if number > 1 else ''}{few}{more} is loaded before",
            then="that file is used",
        )
    musl = world.environment.libc is Libc.MUSL
    if step.request.failed or not remove_hash(name):
        way = "searched for a file of that name" if musl else "loaded an object with that SONAME"
        yield Alternative(
            factor=Factor.ORDER,
            names=(name,),
            when=f"another import has {way} before",
            then="that one is used, as the loader searches for each name once",
        )
