"""The load of one object as a tree of DT_NEEDED entries, each with the file it leads to."""

from collections.abc import Iterator, Mapping, Sequence
from posixpath import basename

from wheelfix.analysis.world import Origin, Provenance, World
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.load_values import Candidate, How, Load, Request, search_list
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.well_known import well_known_providers_of
from wheelfix.text import are, join_some
from wheelfix.wheel.grafted_name import short_names


class Step(NamedTuple):
    """One line of the tree: a library that is requested, and the result."""

    depth: int
    request: Request
    origin: Origin | None
    """Where the file is from; None if it is not found."""
    via: Candidate | None = None
    """How the file was found: for a library already loaded, by the request that loaded it."""
    loaded_by: str | None = None
    """For a library already loaded, the file that requested it first."""
    repeated: bool = False
    """Whether the library's own requests are elsewhere in the tree."""
    package: str | None = None
    """The platform's package that contains a missing library."""
    wheels: tuple[str, ...] = ()
    """The well-known wheels that contain a missing library."""
    versions: tuple[str, ...] = ()
    """The files that are other versions of a missing library."""


def flat_steps(world: World, load: Load, before: Sequence[Load] = ()) -> Iterator[Step]:
    """Yield the steps for all requests of `load`, in the loader's order, at depth 0."""
    first = _first_requests((*before, load))
    return (_step(world, 0, request, first) for request in visible_requests(load))


def tree_of(world: World, loads: Sequence[Load]) -> Iterator[Step]:
    """Yield the tree of the last of `loads` in depth-first order.

    The requests of each object are listed once, where it was first requested.
    """
    first = _first_requests(loads)
    last = loads[-1]
    requests = grouped(visible_requests(last), lambda request: request.requester)
    opener = {request.result: id(request) for request in reversed(last.requests)}
    elf = world.environment.files.get(last.root)
    top = last.requests[:1]
    if elf is not None and elf.is_executable:
        top = (Request(requester=None, name=last.root, result=last.root, how=How.PATH),)
    walked: set[str] = set()
    stack = [(0, request) for request in top]
    while stack:
        depth, request = stack.pop()
        file = request.result
        if file is None:
            yield _step(world, depth, request, first)
            continue
        opens = file not in walked and (depth == 0 or opener[file] == id(request))
        yield _step(world, depth, request, first, repeated=not opens)
        if opens:
            walked.add(file)
            stack += [(depth + 1, needed) for needed in reversed(requests.get(file, []))]


def visible_requests(load: Load) -> tuple[Request, ...]:
    """Return the requests of a load without the DT_AUXILIARY libraries that are not there."""
    return tuple(r for r in load.requests if r.result is not None or not r.optional)


def _first_requests(loads: Sequence[Load]) -> dict[str, Request]:
    """Return, for each file, the request that mapped it."""
    first: dict[str, Request] = {}
    for load in loads:
        for request in load.requests:
            if request.result is not None and request.how not in {How.LOADED, How.SAME_FILE}:
                first.setdefault(request.result, request)
    return first


def _step(
    world: World,
    depth: int,
    request: Request,
    first: Mapping[str, Request],
    *,
    repeated: bool = False,
) -> Step:
    if request.how is How.LIBC:
        return Step(depth=depth, request=request, origin=Origin(Provenance.PLATFORM, request.name))
    if request.result is None:
        package, wheels, versions = found_elsewhere(world, request.name)
        return Step(depth, request, None, package=package, wheels=wheels, versions=versions)
    earlier = first.get(request.result)
    before = request.how in {How.LOADED, How.SAME_FILE} and earlier is not None
    source = request if request.candidates else earlier
    return Step(
        depth=depth,
        request=request,
        origin=world.origin(request.result),
        via=source.candidates[-1] if source and source.candidates else None,
        loaded_by=earlier.requester if before and earlier and earlier.how is not How.PATH else None,
        repeated=repeated,
    )


def found_elsewhere(world: World, name: str) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """Return the platform's package, the well-known wheels, and the other versions of a library."""
    versions = world.other_versions(name)
    wheels = () if versions else well_known_providers_of(name)
    return world.packages.get(name), wheels, versions


def why_unreached(name: str, places: Sequence[str]) -> str:
    """Return why files with the name of a library, or with its SONAME, are not found."""
    if named := [place for place in places if basename(place) == name]:
        return f"no search path leads to {join_some(named, 2)}"
    return f"that is the SONAME of {join_some(places, 2)}: the loader searches for file names"


def of_another_version(places: Sequence[str]) -> str:
    """Return that files are other versions of a library."""
    return f"{join_some(places, 2)} {are(places)} of another version"


class Resolution(NamedTuple):
    """One result for a library name, and the objects that get it."""

    step: Step
    roots: tuple[str, ...]
    """The objects whose load requests the name."""
    requesters: tuple[str, ...]
    """The objects with the DT_NEEDED entry."""


def resolutions(
    world: World, name: str, trees: Mapping[str, Sequence[Step]]
) -> tuple[Resolution, ...]:
    """Return the different results for the library `name` in the loads of load roots, by path."""
    groups: dict[tuple[object, ...], tuple[Step, dict[str, None], dict[str, None]]] = {}
    for root, steps in trees.items():
        own = {step.request.result for step in steps if step.request.how is not How.LOADED}
        # What an object finds is said by its search, before it is found as loaded.
        for step in sorted(steps, key=lambda each: each.request.how is How.LOADED):
            request = step.request
            if request.name != name or step.depth == 0:
                continue
            by = step.loaded_by if request.result not in own else None
            key = request.result or request.candidates, _way(step), by
            _, roots, requesters = groups.setdefault(key, (step, {}, {}))
            roots[world.label(root)] = None
            requesters[world.label(request.requester)] = None
    return tuple(
        Resolution(step=step, roots=tuple(roots), requesters=tuple(requesters))
        for step, roots, requesters in groups.values()
    )


def _way(step: Step) -> tuple[object, ...] | None:
    """Return the entry of a search path that led to a file, with its owner if it is inherited."""
    via = step.via
    return via and (via.how, via.entry, via.owner if via.how is How.INHERITED else None)


def needed_names(world: World, word: str) -> tuple[str, ...]:
    """Return the DT_NEEDED names of the wheel that `word` means without path, hash and version."""
    files = world.environment.files
    needed = flatten(files[path].needed for path in world.members if path in files)
    names = dict.fromkeys(needed)
    return tuple(n for n in names if word in {n, basename(n)} | short_names(basename(n)))


def describe_search(world: World, step: Step) -> str:
    """Return how the file was found, in libtree's words: `rpath $ORIGIN/../x.libs`."""
    request, via = step.request, step.via
    if request.how is How.LIBC:
        return "the loader itself"
    if step.origin is None:
        return "not found"
    if request.how is How.LOADED:
        by = "before" if step.loaded_by is None else f"by {world.label(step.loaded_by)}"
        return f"already loaded {by}"
    if step.origin.provenance is Provenance.PLATFORM and (via is None or via.how is How.DEFAULT):
        return f"platform {world.name}".rstrip()
    text = _by_candidate(world, via) if via else "path"
    return f"same file, by {text}" if request.how is How.SAME_FILE else text


def _by_candidate(world: World, via: Candidate) -> str:
    entry = "the current directory" if via.entry == "" else via.entry
    match via.how:
        case How.RPATH | How.RUNPATH:
            return f"{via.how} {entry}"
        case How.INHERITED:
            return f"inherited from {world.label(via.owner)}: {entry}"
        case How.LIBRARY_PATH:
            return f"{search_list(via.how)} {entry}"
        case How.DEFAULT:
            return f"default directory {entry}"
        case How.CACHE:
            return search_list(via.how)
        case _:
            return "path"
