"""What an object loads once installed, from where, by which entry; and what else it might load.

The loader's model answers one question at a time; here its answers become a tree in the order
of a reader, and the questions that the answer depends on are asked too: another order of imports,
another LD_LIBRARY_PATH, another install scheme.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from wheelfix.analysis.preload_plan import opened_first
from wheelfix.analysis.providers import known_providers
from wheelfix.elf.model import Elf, Libc
from wheelfix.errors import SettingsError
from wheelfix.loader.install_schemes import (
    Key,
    Layout,
    Scheme,
    arranged,
    describe,
    installed,
    layouts,
    schemes,
)
from wheelfix.loader.installed_wheel import environment as installed_environment
from wheelfix.loader.model import Candidate, Environment, How, Load, Request, SearchOutcome
from wheelfix.loader.search import load, load_all, search_directories
from wheelfix.loader.targets import Target, abi_of, newer, populate
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.python_searches import Search, Searches, Stop

_MODULE_SUFFIX = re.compile(r"(\.[\w-]+)?\.so$")


class Provenance(StrEnum):
    """Who brings a file."""

    WHEEL = "wheel"
    OTHER = "other wheel"
    PYTHON = "python"
    """The main program, and what its installation holds."""
    PLATFORM = "platform"
    GIVEN = "given"
    """A directory of LD_LIBRARY_PATH, or of another variable that is given."""
    NOBODY = "nobody"


class Place(NamedTuple):
    """Whose a file is, and how to call it."""

    giver: Provenance
    name: str
    """The member of the wheel, `other.whl!member`, or the path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """An environment, and whose its files are."""

    environment: Environment
    members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path to name, of the files that the question is about: the wheel's, or the site's."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path to name, of files that other wheels bring."""
    given: frozenset[str] = frozenset()
    """Files that were found in the directories of variables."""
    pythons: frozenset[str] = frozenset()
    """The main program and its own libraries."""
    name: str = ""
    """What was described: `debian:12`."""
    where: str = ""
    """The install scheme in words."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    shimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Extension module -> the files that shims open before it."""
    by_shims: frozenset[str] = frozenset()
    """All files that shims open."""
    searches: Searches = field(default_factory=Searches)
    """What Python sources of the same packages search for libraries."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """The environment variables that are given, LD_LIBRARY_PATH among them."""

    def place(self, path: str) -> Place:
        """Say whose the file at `path` is."""
        member = self.members.get(path)
        if member is not None:
            return Place(Provenance.WHEEL, member)
        if path in self.others:
            return Place(Provenance.OTHER, self.others[path])
        if path in self.given:
            return Place(Provenance.GIVEN, path)
        return Place(Provenance.PYTHON if path in self.pythons else Provenance.PLATFORM, path)

    def label(self, path: str | None) -> str:
        """Return the short name of the file at `path`; None is the program."""
        return "the program" if path is None else self.place(path).name


class Kind(StrEnum):
    """What an answer depends on."""

    ENVIRONMENT = "environment"
    ORDER = "order of imports"
    SCHEME = "install scheme"
    CPU = "processor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """Another answer, and the condition under which it is the right one."""

    kind: Kind
    names: tuple[str, ...]
    when: str
    then: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One line of the tree: a name that was asked for, and what came of it."""

    depth: int
    request: Request
    place: Place | None
    """Whose the answer is; None without one."""
    via: Candidate | None = None
    """What led to the file: of this request or, if it was loaded, of the one that loaded it."""
    loaded_by: str | None = None
    """For an answer that was loaded before: the file that asked for it first."""
    repeated: bool = False
    """Its own requests stand elsewhere in the tree."""
    package: str | None = None
    """The distribution's package that would bring what is missing."""
    wheels: tuple[str, ...] = ()
    """The well-known wheels that have what is missing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """All that is known of one load."""

    root: str
    """The installed path."""
    name: str
    target: str
    where: str
    steps: tuple[Step, ...]
    """The tree in depth-first order, each object's requests where it was first asked for."""
    objects: tuple[str, ...]
    """The files in the order of symbol search."""
    alternatives: tuple[Alternative, ...] = ()
    problems: tuple[str, ...] = ()
    """What keeps it from loading though every file is found."""
    choices: tuple["Choice", ...] = ()
    """What Python sources open in its place, or would in another environment."""

    @property
    def missing(self) -> tuple[Step, ...]:
        """The steps that fail."""
        return tuple(step for step in self.steps if step.request.failed)

    @property
    def ok(self) -> bool:
        """Whether it loads."""
        return not self.missing and not self.problems


# --- The world of a wheel -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedLibraries:
    """What stands in directories of this machine: part of an environment."""

    files: Mapping[str, Elf] = field(default_factory=dict[str, Elf])
    broken: Mapping[str, SearchOutcome] = field(default_factory=dict[str, SearchOutcome])
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    directories: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFiles:
    """Objects that another distribution installs beside the wheel."""

    name: str
    """Of its wheel, where that is at hand, or else of the distribution."""
    elfs: Mapping[tuple[Key, str], Elf] = field(default_factory=dict[tuple[Key, str], Elf])
    """By the path of the install scheme, and the place below it."""
    platforms: tuple[str, ...] = ()
    """The platform tags of its wheel, where that is at hand."""

    def placed(self, scheme: Scheme) -> Iterator[tuple[str, tuple[str, Elf]]]:
        """Yield where `scheme` has each object, what to call it, and what it says."""
        for (key, place), elf in self.elfs.items():
            yield f"{scheme.base(key)}/{place}", (f"{self.name}!{place}", elf)


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The circumstances of an explanation."""

    target: Target
    scheme: str | None = None
    """The install scheme, `venv`, or with its Python, `venv/python3.11`."""
    others: tuple[Wheel, ...] = ()
    """Wheels that are installed beside."""
    beside: tuple[ProviderFiles, ...] = ()
    """What providers install beside, as far as it is known."""
    library_path: tuple[str, ...] | None = None
    planted: PlantedLibraries = field(default_factory=PlantedLibraries)


def choose_scheme(wheel: Wheel, question: Question) -> Scheme:
    """Return the scheme of that name that the tags allow; the first, without one.

    Raises `SettingsError` if no Python of the tags has it.
    """
    allowed = schemes(wheel.name)
    wanted = question.scheme or question.target.scheme
    for scheme in allowed:
        if wanted in {None, scheme.name, f"{scheme.name}/{scheme.python}"}:
            return scheme
    if question.scheme is None:
        return allowed[0]
    known = dict.fromkeys(scheme.name for scheme in allowed)
    raise SettingsError(
        f"`{question.scheme}` is no install scheme of `{wheel.name}`",
        hint=f"its tags allow {', '.join(known)}; or with a Python, as in "
        f"{allowed[0].name}/{allowed[0].python}",
    )


def world_of(wheel: Wheel, question: Question, layout: Layout | None = None) -> World:
    """Describe where `wheel` is installed, in `layout` or in the scheme of the question."""
    if layout is None:
        layout = arranged(wheel, choose_scheme(wheel, question))
    scheme, target, planted = layout.scheme, question.target, question.planted
    own = installed_environment(wheel, layout)
    others = dict(pair for each in question.beside for pair in each.placed(scheme))
    others |= {
        path: (f"{other.name}!{member}", elf)
        for other in question.others
        for member, elf in other.elfs.items()
        if (path := installed(member, other, scheme)) is not None
    }
    bare = replace(
        own,
        files={**planted.files, **{path: elf for path, (_, elf) in others.items()}, **own.files},
        broken={**planted.broken, **own.broken},
        links=planted.links,
        directories=own.directories | planted.directories,
    )
    environment = populate(bare, target, scheme, abi_of(wheel), question.library_path)
    main = environment.main
    beside = set(environment.files) - set(bare.files)
    strange = {path: name for path, (name, _) in others.items() if path not in layout.members}
    shimmed = _shimmed(wheel, layout, strange)
    return World(
        environment=environment,
        members=layout.members,
        others=strange,
        shimmed=shimmed,
        by_shims=frozenset(chain.from_iterable(shimmed.values())),
        given=frozenset(planted.files) - set(layout.members),
        pythons=frozenset(
            path
            for path in beside
            if path == main or posixpath.dirname(path) not in environment.default_directories
        ),
        name=target.name,
        where=describe(layout.schemes),
        versions=target.versions,
        packages=target.packages,
    )


def _shimmed(wheel: Wheel, layout: Layout, others: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return extension modules by their paths, and the files that shims open before each."""
    opened = opened_first(wheel)
    files: dict[str, list[str]] = {}
    for path in others if opened else ():
        files.setdefault(posixpath.basename(path), []).append(path)
    return {
        path: tuple(file for name in opened[member] for file in files.get(name, ()))
        for path, member in layout.members.items()
        if member in opened
    }


def find_subject(world: World, text: str) -> tuple[str, ...]:
    """Return the installed paths that `text` may mean; none if nothing of that name is there.

    A member, the end of one, an installed path, a module's dotted name, a SONAME; the first
    reading that fits is taken.
    """
    files = world.environment.files
    if text in files:
        return (text,)
    names = world.members.items()
    exact = [path for path, member in names if member == text]
    if exact:
        return tuple(exact)
    ending = [path for path, member in names if member.endswith(f"/{text}")]
    ending += [path for path, name in world.others.items() if name == text]
    if ending:
        return tuple(path for path in ending if path in files)
    dotted = text.replace(".", "/")
    modules = [
        path
        for path, member in names
        if path in files and f"/{_MODULE_SUFFIX.sub('', member)}".endswith(f"/{dotted}")
    ]
    if modules:
        return tuple(modules)
    return tuple(path for path, _ in names if path in files and files[path].soname == text)


def load_roots(world: World) -> tuple[str, ...]:
    """Return what is opened first: modules, programs, and what no other object of it asks for."""
    files = world.environment.files
    own = {path: files[path] for path in world.members if path in files and files[path].dynamic}
    asked = {name.rpartition("/")[2] for elf in own.values() for name in elf.needed}
    return tuple(
        path
        for path, elf in own.items()
        if elf.module_hooks
        or elf.is_executable
        or not {elf.soname, path.rpartition("/")[2]} & asked
    )


# --- The explanation ----------------------------------------------------------------------------


def explain(world: World, root: str, after: Sequence[str] = ()) -> Explanation:
    """Explain the load of the file `root`, once the files `after` are loaded."""
    loads = loads_of(world, root, after)
    steps = tuple(_steps(world, loads))
    return Explanation(
        root=root,
        name=world.label(root),
        target=world.name,
        where=world.where,
        steps=steps,
        objects=loads[-1].objects,
        alternatives=_merged(
            (*_other_circumstances(world, root, after, loads[-1]), *_possible(world, steps))
        ),
        problems=tuple(_version_problems(world, loads[-1])),
        choices=tuple(_choices(world, root)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    """A wheel where it was asked for, and as installers arrange it otherwise."""

    here: World
    elsewhere: tuple[World, ...]


def worlds_of(wheel: Wheel, question: Question) -> Worlds:
    """Describe every arrangement of `wheel`; `here` is that of the question's scheme."""
    scheme = choose_scheme(wheel, question)
    return Worlds(
        here=world_of(wheel, question),
        elsewhere=tuple(
            world_of(wheel, question, layout)
            for layout in layouts(wheel)
            if scheme not in layout.schemes
        ),
    )


def explain_everywhere(worlds: Worlds, root: str, after: Sequence[str] = ()) -> Explanation:
    """Explain the load of the file `root`, and say what differs in other install schemes."""
    found = explain(worlds.here, root, after)
    elsewhere = tuple(_other_schemes(worlds, root))
    return replace(found, alternatives=(*found.alternatives, *elsewhere))


def loads_of(world: World, root: str, after: Sequence[str] = ()) -> tuple[Load, ...]:
    """Return what the program, each of `after`, shims, and at last `root` load."""
    environment = world.environment
    elf = environment.files.get(root)
    if elf is not None and elf.is_executable:
        return (load(root, environment),)
    start = (load(environment.main, environment),) if environment.main else ()
    first = dict.fromkeys((*after, *world.shimmed.get(root, ())))
    return (*start, *load_all([*first, root], environment))


def _steps(world: World, loads: Sequence[Load]) -> Iterator[Step]:
    """Yield the tree of the last load; each object opens where it was asked for first."""
    first = _first_requests(loads)
    last = loads[-1]
    asked: dict[str | None, list[Request]] = {}
    opener: dict[str, int] = {}
    for request in last.requests:
        asked.setdefault(request.requester, []).append(request)
        if request.result is not None:
            opener.setdefault(request.result, id(request))
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
            yield _step(world, depth, request, first, repeated=False)
            continue
        opens = file not in walked and (depth == 0 or opener[file] == id(request))
        yield _step(world, depth, request, first, repeated=not opens)
        if opens:
            walked.add(file)
            stack += [(depth + 1, each) for each in reversed(asked.get(file, []))]


def answers(world: World, load: Load, before: Sequence[Load] = ()) -> tuple[Step, ...]:
    """Return every request of `load` with what came of it, in the order of the loader."""
    first = _first_requests((*before, load))
    return tuple(_step(world, 0, request, first, repeated=False) for request in load.requests)


def _first_requests(loads: Sequence[Load]) -> dict[str, Request]:
    """Return, for each file, the request that mapped it."""
    first: dict[str, Request] = {}
    for each in loads:
        for request in each.requests:
            if request.result is not None and request.how not in {How.LOADED, How.SAME_FILE}:
                first.setdefault(request.result, request)
    return first


def _step(
    world: World, depth: int, request: Request, first: Mapping[str, Request], *, repeated: bool
) -> Step:
    if request.how is How.LIBC:
        return Step(depth=depth, request=request, place=Place(Provenance.PLATFORM, request.name))
    if request.result is None:
        place = Place(Provenance.PLATFORM, request.name) if request.provided else None
        return Step(
            depth=depth,
            request=request,
            place=place,
            package=world.packages.get(request.name),
            wheels=known_providers(request.name) if place is None else (),
        )
    known = first.get(request.result)
    before = request.how in {How.LOADED, How.SAME_FILE} and known is not None
    source = request if request.candidates else known
    return Step(
        depth=depth,
        request=request,
        place=world.place(request.result),
        via=source.candidates[-1] if source and source.candidates else None,
        loaded_by=known.requester if before and known and known.how is not How.PATH else None,
        repeated=repeated,
    )


# --- What the answer depends on -----------------------------------------------------------------


def _other_circumstances(
    world: World, root: str, after: Sequence[str], known: Load
) -> Iterator[Alternative]:
    """Yield what changes without LD_LIBRARY_PATH, and without what was loaded before."""
    environment = world.environment
    if environment.library_path:
        elsewhere = replace(world, environment=replace(environment, library_path=()))
        bare = loads_of(elsewhere, root, after)[-1]
        when = "without this LD_LIBRARY_PATH"
        yield from _differences(world, known, world, bare, Kind.ENVIRONMENT, when)
    if after:
        alone = loads_of(world, root)[-1]
        names = ", ".join(f"`{world.label(each)}`" for each in after)
        when = f"without {names} before it"
        yield from _differences(world, known, world, alone, Kind.ORDER, when)
    if environment.subdirectories:
        elsewhere = replace(world, environment=replace(environment, subdirectories=()))
        plain = loads_of(elsewhere, root, after)[-1]
        when = "on a processor of the lowest level"
        yield from _differences(world, known, world, plain, Kind.CPU, when)


def _other_schemes(worlds: Worlds, root: str) -> Iterator[Alternative]:
    """Yield what differs where an installer arranges the files otherwise."""
    here = worlds.here
    member = here.members.get(root)
    if member is None or not worlds.elsewhere:
        return
    known = loads_of(here, root)[-1]
    for there in worlds.elsewhere:
        when = f"installed by {there.where}"
        path = next((path for path, name in there.members.items() if name == member), None)
        if path is None:
            yield Alternative(
                kind=Kind.SCHEME, names=(member,), when=when, then="it is not installed"
            )
            continue
        other = loads_of(there, path)[-1]
        yield from _differences(here, known, there, other, Kind.SCHEME, when)


def _differences(  # noqa: PLR0913, PLR0917 - two loads, each in its world
    world: World, known: Load, other_world: World, other: Load, kind: Kind, when: str
) -> Iterator[Alternative]:
    """Yield the requests of `known` that have another answer in `other`, by the names of files."""
    answers = {
        (other_world.label(request.requester), request.name): request
        for request in other.requests[1:]
    }
    for request in known.requests[1:]:
        twin = answers.get((world.label(request.requester), request.name))
        if twin is None or twin.provided or request.provided:
            continue
        here = None if request.result is None else world.label(request.result)
        there = None if twin.result is None else other_world.label(twin.result)
        if here != there:
            then = "it is not found" if there is None else f"it is `{there}`"
            yield Alternative(kind=kind, names=(request.name,), when=when, then=then)


def _possible(world: World, steps: Iterable[Step]) -> Iterator[Alternative]:
    """Yield what could be otherwise in a process that is not this one."""
    carriers: dict[str, list[str]] = {}
    musl = world.environment.libc is Libc.MUSL
    for path, elf in world.environment.files.items():
        name = path.rpartition("/")[2] if musl else elf.soname
        if name:
            carriers.setdefault(name, []).append(path)
    for step in steps:
        if step.depth == 0 or (
            step.place and step.place.giver in {Provenance.PLATFORM, Provenance.PYTHON}
        ):
            continue
        yield from _by_library_path(world, step)
        yield from _by_order(world, step, carriers)


def _by_library_path(world: World, step: Step) -> Iterator[Alternative]:
    name, how = step.request.name, step.via.how if step.via else None
    if "/" in name:
        return
    if step.request.failed and not step.request.fatal:
        yield Alternative(
            kind=Kind.ENVIRONMENT,
            names=(name,),
            when="LD_LIBRARY_PATH names a directory that holds it",
            then="that file is loaded",
        )
    elif world.environment.libc is Libc.MUSL and how in {How.RPATH, How.INHERITED, How.DEFAULT}:
        yield Alternative(
            kind=Kind.ENVIRONMENT,
            names=(name,),
            when="LD_LIBRARY_PATH names a directory that holds such a file",
            then="that file is loaded: musl searches LD_LIBRARY_PATH before all else",
        )
    elif how in {How.RUNPATH, How.CACHE, How.DEFAULT}:
        tag = "DT_RUNPATH" if how is How.RUNPATH else "the system's directories"
        yield Alternative(
            kind=Kind.ENVIRONMENT,
            names=(name,),
            when="LD_LIBRARY_PATH names a directory that holds such a file",
            then=f"that file is loaded: LD_LIBRARY_PATH comes before {tag}",
        )


def _by_order(
    world: World, step: Step, carriers: Mapping[str, Sequence[str]]
) -> Iterator[Alternative]:
    """Yield who else could have loaded something under the name before."""
    name = step.request.name
    if "/" in name or step.request.how in {How.LOADED, How.SAME_FILE}:
        return
    for path in carriers.get(name, ()):
        if path != step.request.result:
            yield Alternative(
                kind=Kind.ORDER,
                names=(name,),
                when=f"`{world.label(path)}` is loaded before",
                then="that file serves",
            )
    musl = world.environment.libc is Libc.MUSL
    if step.request.failed or not unhashed(name):
        way = "searched for a file of that name" if musl else "loaded an object with that SONAME"
        yield Alternative(
            kind=Kind.ORDER,
            names=(name,),
            when=f"another import has {way} before",
            then="that one serves: the loader searches for no name twice",
        )


def _merged(alternatives: Iterable[Alternative]) -> tuple[Alternative, ...]:
    """Join alternatives that differ in the names only."""
    names: dict[tuple[Kind, str, str], dict[str, None]] = {}
    for each in alternatives:
        names.setdefault((each.kind, each.when, each.then), {}).update(dict.fromkeys(each.names))
    return tuple(
        Alternative(kind=kind, names=tuple(found), when=when, then=then)
        for (kind, when, then), found in names.items()
    )


def _version_problems(world: World, known: Load) -> Iterator[str]:
    """Yield the symbol versions that objects want and that the platform is too old for."""
    for file in known.objects:
        elf = world.environment.files.get(file)
        for need in elf.verneed if elf else ():
            for version in need.versions:
                prefix, _, number = version.partition("_")
                there = world.versions.get(prefix)
                if there is not None and newer(number, there):
                    yield (
                        f"`{world.label(file)}` wants {version} of {need.file}; "
                        f"{world.name} has {prefix}_{there}"
                    )


# --- Who searches without the loader --------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Which file a Python source opens under a library's name, by a search of its own."""

    search: Search
    name: str
    path: str
    """The first file of the name in the order of the search."""
    stop: Stop | None
    """What led there; None for the library itself, which no variable came before."""
    directory: str | None = None
    """The directory of the variable."""

    @property
    def elsewhere(self) -> bool:
        """Whether it is another file than the one that was asked about."""
        return self.stop is not None


def _choices(world: World, root: str) -> Iterator[Choice]:
    """Yield what the sources open for the library `root`, where a variable comes before it."""
    member = world.members.get(root)
    if member is None:
        return
    name = posixpath.basename(root)
    for search in world.searches.found:
        if search.concerns(member) and search.variables:
            yield _chosen(world, search, root, name)


def _chosen(world: World, search: Search, root: str, name: str) -> Choice:
    for stop in search.stops:
        if stop.variable is None:
            break
        for directory in world.variables.get(stop.variable, "").split(":"):
            found = _standing(world, f"{directory.strip()}/{name}") if directory else None
            if found is not None and found != root:
                return Choice(
                    search=search, name=name, path=found, stop=stop, directory=directory.strip()
                )
            if found is not None:
                return Choice(search=search, name=name, path=root, stop=None)
    return Choice(search=search, name=name, path=root, stop=None)


def _standing(world: World, path: str) -> str | None:
    """Return the file that `path` leads to, None if nothing is known to stand there."""
    environment = world.environment
    spelled = posixpath.normpath(path)
    for _ in range(40):  # MAXSYMLINKS
        target = environment.links.get(spelled)
        if target is None:
            break
        spelled = posixpath.normpath(posixpath.join(posixpath.dirname(spelled), target))
    known = spelled in environment.files or spelled in environment.broken
    return spelled if known else None


# --- Who asks for a name ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One answer to a name, and who gets it."""

    name: str
    step: Step
    roots: tuple[str, ...]
    """What is loaded when the question comes up."""
    requesters: tuple[str, ...]


def asked_for(world: World, name: str, after: Sequence[str] = ()) -> tuple[Asked, ...]:
    """Return the answers to `name` over everything that may be loaded first."""
    groups: dict[tuple[object, ...], tuple[Step, dict[str, None], dict[str, None]]] = {}
    for root in load_roots(world):
        loads = loads_of(world, root, after)
        if not any(request.name == name for request in loads[-1].requests):
            continue
        for step in _steps(world, loads):
            request = step.request
            if request.name != name or step.depth == 0:
                continue
            way = step.via and (step.via.how, step.via.owner, step.via.entry)
            key = (request.result, way, request.candidates if request.result is None else None)
            _, roots, requesters = groups.setdefault(key, (step, {}, {}))
            roots[world.label(root)] = None
            requesters[world.label(request.requester)] = None
    return tuple(
        Asked(name=name, step=step, roots=tuple(roots), requesters=tuple(requesters))
        for step, roots, requesters in groups.values()
    )


# --- Why not ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """Why a file is not among what is loaded; or that it is."""

    name: str
    loaded: bool
    reasons: tuple[str, ...]


def why_not(world: World, root: str, path: str, after: Sequence[str] = ()) -> WhyNot:
    """Say why the load of `root` does not take the file `path`, an absolute path."""
    loads = loads_of(world, root, after)
    steps = tuple(_steps(world, loads))
    label = world.label(path)
    chosen = next((each for each in _choices(world, root) if each.stop), None)
    if chosen is not None and chosen.stop and path in {chosen.path, root}:
        reason = f"{chosen.search.source} looks in {chosen.stop.variable} {chosen.directory} first"
        reason += f", and opens `{world.label(chosen.path)}` by its path"
        return WhyNot(name=label, loaded=path == chosen.path, reasons=(reason,))
    taken = [step for step in steps if step.request.result == path]
    if taken:
        asker = world.label(taken[0].request.requester)
        return WhyNot(
            name=label,
            loaded=True,
            reasons=(f"it is loaded: `{asker}` gets it for `{taken[0].request.name}`",),
        )
    reasons = tuple(dict.fromkeys(_reasons(world, steps, path)))
    return WhyNot(name=label, loaded=False, reasons=reasons or (_never_asked(world, path),))


def _names_of(world: World, path: str) -> set[str]:
    """Return the names by which the loader could come to `path`."""
    elf = world.environment.files.get(path)
    base = path.rpartition("/")[2]
    links = {
        link.rpartition("/")[2]
        for link, target in world.environment.links.items()
        if target.rpartition("/")[2] == base
    }
    soname = elf.soname if elf and world.environment.libc is Libc.GLIBC else None
    return {path, base, *links, *([soname] if soname else [])}


def _never_asked(world: World, path: str) -> str:
    names = " nor ".join(f"`{name}`" for name in sorted(_names_of(world, path) - {path}))
    return f"nothing in this tree asks for {names}"


def _reasons(world: World, steps: Iterable[Step], path: str) -> Iterator[str]:
    names = _names_of(world, path)
    base = path.rpartition("/")[2]
    for step in steps:
        request = step.request
        if request.name not in names or step.depth == 0:
            continue
        asker = f"`{world.label(request.requester)}` asks for `{request.name}`, and"
        tried = next((each for each in request.candidates if _leads_to(world, each, path)), None)
        if tried is not None:
            yield f"{asker} the file was tried and passed over: {tried.outcome}"
        elif request.how is How.LOADED:
            yield (
                f"{asker} `{world.label(request.result)}` answers to that name already: it was "
                f"loaded by `{world.label(step.loaded_by)}`, so nothing was searched for"
            )
        elif request.name != base and "/" not in request.name:
            yield f"{asker} the loader looks for a file of that name; this one is called `{base}`"
        elif request.result is not None:
            yield f"{asker} gets `{world.label(request.result)}` first ({how_found(world, step)})"
            yield _would_follow(world, request, path)
        elif request.fatal:
            last = request.candidates[-1]
            yield f"{asker} `{last.path}` ({last.outcome}) ended the search before"
        else:
            yield f"{asker} no directory that is searched is `{posixpath.dirname(path)}`"
            yield from _switched_off(world, request, path)


def _leads_to(world: World, candidate: Candidate, path: str) -> bool:
    if candidate.outcome is SearchOutcome.NO_DIRECTORY:
        return False
    spelled = posixpath.normpath(candidate.path)
    return path in {spelled, world.environment.links.get(spelled)}


def _would_follow(world: World, request: Request, path: str) -> str:
    """Say whether the search would have come to `path` without the files before it."""
    files = dict(world.environment.files)
    result = request.result
    for _ in range(len(files)):
        if result is None or result == path or result not in files:
            break
        del files[result]
        environment = replace(world.environment, files=files, main=world.environment.main)
        if request.requester is None or request.requester not in files:
            break
        twin = load(request.requester, environment)
        answers = [each for each in twin.requests if each.name == request.name]
        result = answers[0].result if answers else None
    if result == path:
        return "it is shadowed: without the file before it, it would be taken"
    return f"no list would lead to `{posixpath.dirname(path)}` even then"


def _switched_off(world: World, request: Request, path: str) -> Iterator[str]:
    """Name the search paths that hold the file's directory and do not count here."""
    environment, requester = world.environment, request.requester
    elf = environment.files.get(requester or "")
    if elf is None or environment.libc is Libc.MUSL:
        return
    folder = posixpath.dirname(path)
    for owner, other in environment.files.items():
        if other.search_path is None or owner == requester:
            continue
        pairs = search_directories(other.search_path, posixpath.dirname(owner), environment)
        entry = next((e for e, text in pairs if posixpath.normpath(text) == folder), None)
        if entry is None:
            continue
        if other.runpath is not None:
            why = "DT_RUNPATH serves none but its own object"
        elif elf.runpath is not None:
            why = f"the DT_RUNPATH of `{world.label(requester)}` switches inherited paths off"
        else:
            why = f"`{world.label(owner)}` did not load `{world.label(requester)}`"
        yield f"`{world.label(owner)}` has the entry `{entry}` that leads there, but {why}"


# --- In words -----------------------------------------------------------------------------------


def how_found(world: World, step: Step) -> str:
    """Return by what the file was found, in libtree's manner: `rpath $ORIGIN/../x.libs`."""
    request, via = step.request, step.via
    if request.how is How.LIBC:
        return "the loader itself"
    if step.place is None:
        return "not found"
    if request.how is How.LOADED:
        return _loaded_before(world, step)
    if step.place.giver is Provenance.PLATFORM and (via is None or via.how is How.DEFAULT):
        return f"platform {world.name}".rstrip()
    text = _by_candidate(world, via) if via else "path"
    return f"same file, by {text}" if request.how is How.SAME_FILE else text


def _loaded_before(world: World, step: Step) -> str:
    if step.loaded_by is not None:
        return f"already loaded by {world.label(step.loaded_by)}"
    if step.request.result in world.by_shims:
        return "opened before by the wheel's shim"
    return "already loaded before"


def _by_candidate(world: World, via: Candidate) -> str:
    entry = "the current directory" if via.entry == "" else via.entry
    words = {
        How.RPATH: f"rpath {entry}",
        How.RUNPATH: f"runpath {entry}",
        How.INHERITED: f"inherited from {world.label(via.owner)}: {entry}",
        How.LIBRARY_PATH: f"LD_LIBRARY_PATH {entry}",
        How.CACHE: "ld.so.cache",
        How.DEFAULT: f"default directory {entry}",
    }
    return words.get(via.how, "path")
