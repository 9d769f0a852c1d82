"""The load of one object as a tree of DT_NEEDED entries, each with the file it leads to."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from wheelfix.analysis.installation import Installation, Origin, Provenance, load_roots, loads_of
from wheelfix.analysis.providers import known_providers
from wheelfix.grouping import grouped
from wheelfix.loader.load_values import Candidate, How, Load, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
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


def flat_steps(
    installation: Installation, load: Load, before: Sequence[Load] = ()
) -> Iterator[Step]:
    """Yield the steps for all requests of `load`, in the loader's order, at depth 0."""
    first = _first_requests((*before, load))
    return (_step(installation, 0, request, first) for request in _shown(load))


def tree_of(installation: Installation, loads: Sequence[Load]) -> Iterator[Step]:
    """Yield the tree of the last of `loads` in depth-first order.

    The requests of each object are listed once, where it was first requested.
    """
    first = _first_requests(loads)
    last = loads[-1]
    requests = grouped(_shown(last), lambda request: request.requester)
    opener = {request.result: id(request) for request in reversed(last.requests)}
    elf = installation.environment.files.get(last.root)
    top = last.requests[:1]
    if elf is not None and elf.is_executable:
        top = (Request(requester=None, name=last.root, result=last.root, how=How.PATH),)
    walked: set[str] = set()
    stack = [(0, request) for request in top]
    while stack:
        depth, request = stack.pop()
        file = request.result
        if file is None:
            yield _step(installation, depth, request, first)
            continue
        opens = file not in walked and (depth == 0 or opener[file] == id(request))
        yield _step(installation, depth, request, first, repeated=not opens)
        if opens:
            walked.add(file)
            stack += [(depth + 1, needed) for needed in reversed(requests.get(file, []))]


def _shown(load: Load) -> tuple[Request, ...]:
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
    installation: Installation,
    depth: int,
    request: Request,
    first: Mapping[str, Request],
    *,
    repeated: bool = False,
) -> Step:
    if request.how is How.LIBC:
        return Step(depth=depth, request=request, origin=Origin(Provenance.PLATFORM, request.name))
    if request.result is None:
        origin = Origin(Provenance.PLATFORM, request.name) if request.provided else None
        return Step(
            depth=depth,
            request=request,
            origin=origin,
            package=installation.packages.get(request.name),
            wheels=known_providers(request.name) if origin is None else (),
        )
    known = first.get(request.result)
    before = request.how in {How.LOADED, How.SAME_FILE} and known is not None
    source = request if request.candidates else known
    return Step(
        depth=depth,
        request=request,
        origin=installation.origin(request.result),
        via=source.candidates[-1] if source and source.candidates else None,
        loaded_by=known.requester if before and known and known.how is not How.PATH else None,
        repeated=repeated,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """One result for a library name, and the objects that get it."""

    step: Step
    roots: tuple[str, ...]
    """The objects whose load requests the name."""
    requesters: tuple[str, ...]
    """The objects with the DT_NEEDED entry."""


def resolutions(
    installation: Installation, name: str, after: Sequence[str] = ()
) -> tuple[Resolution, ...]:
    """Return the different results for the library `name`, over the loads of all load roots."""
    groups: dict[tuple[object, ...], tuple[Step, dict[str, None], dict[str, None]]] = {}
    for root in load_roots(installation):
        loads = loads_of(installation, root, after)
        if not any(request.name == name for request in loads[-1].requests):
            continue
        for step in tree_of(installation, loads):
            request = step.request
            if request.name != name or step.depth == 0:
                continue
            way = step.via and (step.via.how, step.via.owner, step.via.entry)
            key = (request.result, way, request.candidates if request.result is None else None)
            _, roots, requesters = groups.setdefault(key, (step, {}, {}))
            roots[installation.label(root)] = None
            requesters[installation.label(request.requester)] = None
    return tuple(
        Resolution(step=step, roots=tuple(roots), requesters=tuple(requesters))
        for step, roots, requesters in groups.values()
    )


def how_found(installation: Installation, step: Step) -> str:
    """Return how the file was found, in libtree's words: `rpath $ORIGIN/../x.libs`."""
    request, via = step.request, step.via
    if request.how is How.LIBC:
        return "the loader itself"
    if step.origin is None:
        return "not found"
    if request.how is How.LOADED:
        return _loaded_before(installation, step)
    if step.origin.provenance is Provenance.PLATFORM and (via is None or via.how is How.DEFAULT):
        return f"platform {installation.name}".rstrip()
    text = _by_candidate(installation, via) if via else "path"
    return f"same file, by {text}" if request.how is How.SAME_FILE else text


def _loaded_before(installation: Installation, step: Step) -> str:
    if step.loaded_by is not None:
        return f"already loaded by {installation.label(step.loaded_by)}"
    if step.request.result in installation.opened_by_shims:
        return "opened before by the wheel's shim"
    return "already loaded before"


def _by_candidate(installation: Installation, via: Candidate) -> str:
    entry = "the current directory" if via.entry == "" else via.entry
    words = {
        How.RPATH: f"rpath {entry}",
        How.RUNPATH: f"runpath {entry}",
        How.INHERITED: f"inherited from {installation.label(via.owner)}: {entry}",
        How.LIBRARY_PATH: f"LD_LIBRARY_PATH {entry}",
        How.CACHE: "ld.so.cache",
        How.DEFAULT: f"default directory {entry}",
    }
    return words.get(via.how, "path")
