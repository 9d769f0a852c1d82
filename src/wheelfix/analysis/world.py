"""What is installed, and what a load there can reach: wheels, an environment, a machine.

`Installed` makes the worlds of a wheel, `environments.read_environment` that of an environment on
this machine. A `World` answers which file a load takes.
"""

import posixpath
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property

from wheelfix.budget import Budget
from wheelfix.elf.model import Abi, Elf, Libc, names_of
from wheelfix.elf.object_file_names import is_object_name, stem_of
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.install_schemes import (
    Layout,
    Scheme,
    describe,
    layout_of,
    layouts,
    name_in_site,
    schemes,
    split,
)
from wheelfix.loader.load_values import Environment, Load, SearchOutcome
from wheelfix.loader.loading import load_first, load_in_turn, start_process, unchanged_loads
from wheelfix.loader.process import LoaderProcess
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, newer, refused_versions
from wheelfix.loader.targets import Target, abi_of, populate
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.searched_places import LibrarySearches
from wheelfix.wheel.grafted_name import earlier_names
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.platform_tags import reads_runpath

_METADATA = ".dist-info"


class Provenance(StrEnum):
    """What a file belongs to. The values appear in JSON output."""

    WHEEL = "wheel"
    OTHER = "other wheel"
    PYTHON = "python"
    """The main program and the libraries of its world."""
    PLATFORM = "platform"
    VARIABLE = "given"
    """A directory of LD_LIBRARY_PATH or of another environment variable."""
    MISSING = "missing"
    """No file: the library is not found."""


class Origin(NamedTuple):
    """What a file belongs to, and its name there."""

    provenance: Provenance
    name: str
    """The member of the wheel, `other.whl!member`, or the path."""


Linkable = Callable[[Sequence[str], Elf], Iterable[tuple[str, str]]]


@frozen
class World:
    """The files that a load can reach, and the origin of each.

    Without a machine (`on`), only the installed files are known: a library of the platform is not
    found there.
    """

    environment: Environment
    budget: Budget = field(compare=False)
    """What the questions about it spend."""
    abi: Abi
    """What the wheel, or most of the environment, is built for."""
    schemes: tuple[Scheme, ...]
    """The install schemes that put the files there."""
    members: Mapping[str, str]
    """Path -> name, for the files of the wheel, or of the installed environment."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> name, for the files of other wheels."""
    of_variables: frozenset[str] = frozenset()
    """Paths of files in the directories of environment variables."""
    pythons: frozenset[str] = frozenset()
    """Paths of the main program and of its own libraries."""
    described: frozenset[str] = frozenset()
    """Paths of files of a described platform: what they define is not read."""
    name: str = ""
    """The platform: `debian:12`."""
    where: str = ""
    """The install schemes in words, `venv (python3.11)`, or the folder of the environment."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prefix of symbol versions -> the newest that the platform has: `GLIBC` -> `2.28`."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Library missing from a minimal installation -> the platform package that contains it."""
    sysroot: str = ""
    """The folder with the files of the platform, where it is another system's."""
    searches: LibrarySearches = field(default_factory=LibrarySearches)
    """The library searches of Python sources in the same packages."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables at the start of the process, LD_LIBRARY_PATH among them."""
    linkable: Linkable = field(default=lambda _, __: (), compare=False, repr=False)
    """SONAMEs and `-l` names of the machine's libraries that define symbols for an object."""
    elsewhere: tuple["World", ...] = ()
    """The worlds of the other arrangements that installers make of the same wheel."""
    loads_so_far: dict[str, Load] = field(
        default_factory=dict[str, Load], init=False, compare=False, repr=False
    )
    """By path; a world that is derived with `replace` has none. Mutable."""

    def on(self, target: Target, library_path: tuple[str, ...] = ()) -> "World":
        """Return this world on the machine `target`, with its Python.

        `library_path` are the directories of LD_LIBRARY_PATH.
        """
        bare = self.environment
        there = populate(bare, target, self.schemes[0], self.abi, library_path)
        described = frozenset(there.files.keys() - bare.files.keys())
        return replace(
            self,
            environment=there,
            pythons=frozenset(_of_python(there, described)),
            described=described,
            name=target.name,
            versions=target.versions,
            packages=target.packages,
        )

    def origin(self, path: str) -> Origin:
        """Return what the file at `path` belongs to."""
        member = self.members.get(path)
        if member is not None:
            return Origin(Provenance.WHEEL, member)
        if path in self.others:
            return Origin(Provenance.OTHER, self.others[path])
        if path in self.of_variables:
            return Origin(Provenance.VARIABLE, path)
        return Origin(Provenance.PYTHON if path in self.pythons else Provenance.PLATFORM, path)

    def label(self, path: str | None) -> str:
        """Return the short name of the file at `path`; None is the main program."""
        if path is None:
            return "the program"
        is_below = bool(self.where) and path.startswith(f"{self.where}/")
        is_named = path in self.environment.files or not is_below
        return self.origin(path).name if is_named else name_in_site(path[len(self.where) + 1 :])

    def other_versions(self, library: str) -> tuple[str, ...]:
        """Return the names of installed objects that are another version of `library`."""
        files = self._by_stem.get(stem_of(library), ())
        elfs = self.environment.files
        return tuple(
            self.label(path) for path in files if library not in names_of(path, elfs[path].soname)
        )

    @cached_property
    def _by_stem(self) -> Mapping[str, Sequence[str]]:
        """Name of a library up to `.so` -> the installed objects of that name."""
        elfs = self.environment.files
        paths = (path for path in (*self.members, *self.others) if path in elfs)
        names = ((posixpath.basename(path).partition(".so"), path) for path in paths)
        return values_by_key((stem, path) for (stem, so, _), path in names if so)

    def load(self, root: str) -> Load:
        """Return what opening `root`, a member or an installed path, loads in a new process."""
        path = self.paths.get(root, root)
        if path not in self.loads_so_far:
            self.loads_so_far[path] = self.process(path)[-1]
        return self.loads_so_far[path]

    def process(self, root: str, after: Sequence[str] = ()) -> tuple[Load, ...]:
        """Return the loads of one process in order; the last is that of the file `root`.

        Before it come the main program, the files `after`, and those that shims open.
        """
        elf = self.environment.files.get(root)
        if elf is not None and elf.is_executable:
            return (load_first(root, self.file_system),)
        if not after:
            return (*self._start, load_first(root, self.file_system))
        return (*self._start, *load_in_turn([*dict.fromkeys(after), root], self.file_system))

    def start_process(self) -> LoaderProcess:
        """Return a process with the program, to open one file after the other."""
        return start_process(self.file_system)

    @cached_property
    def loads(self) -> Mapping[str, Load]:
        """Member -> its load, for the dynamic objects of the wheel or environment."""
        files = self.environment.files
        return {
            member: self.load(path)
            for path, member in self.members.items()
            if path in files and files[path].dynamic
        }

    @cached_property
    def program_loads(self) -> tuple[Load, ...]:
        """Those of `loads` that begin with a program."""
        files, paths = self.environment.files, self.paths
        return tuple(
            load for member, load in self.loads.items() if files[paths[member]].is_executable
        )

    def has_objects_of(self, other: "World") -> bool:
        """Return whether all files are those of `other`; segments may have moved."""
        files, others = self.environment.files, other.environment.files
        around, around_other = (replace(e.environment, files={}) for e in (self, other))
        return (around, files.keys()) == (around_other, others.keys()) and all(
            self.members.get(path) == other.members.get(path)
            and (
                elf is others[path]
                or elf._replace(segments=()) == others[path]._replace(segments=())
            )
            for path, elf in files.items()
        )

    def keep_loads(self, before: "World") -> None:
        """Take over the loads of `before` that are the same here."""
        self.loads_so_far.update(
            unchanged_loads(before.loads_so_far, before.environment, self.environment)
        )

    @cached_property
    def paths(self) -> Mapping[str, str]:
        """The inverse of `members`."""
        return {member: path for path, member in self.members.items()}

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The paths of extension modules, programs, and libraries without dependents."""
        files = self.environment.files
        own = {path: files[path] for path in self.members if path in files and files[path].dynamic}
        needed = {name.rpartition("/")[2] for name in flatten(elf.needed for elf in own.values())}
        return tuple(
            path
            for path, elf in own.items()
            if elf.module_hooks
            or elf.is_executable
            or not {elf.soname, path.rpartition("/")[2]} & needed
        )

    @cached_property
    def first_loads(self) -> Mapping[str, Load]:
        """Path -> its load, for the objects that a process opens before others of the wheel.

        These are `roots`, and all of those objects that none of them loads: they need each other
        in a circle.
        """
        files = self.environment.files
        left = {path for path in self.members if path in files and files[path].dynamic}
        loads: dict[str, Load] = {}
        roots = list(self.roots)
        while left:
            roots = [path for path in roots if path in left] or sorted(left)
            loads |= {path: self.load(path) for path in roots}
            left.difference_update(roots, *(loads[path].objects for path in roots))
        return loads

    @cached_property
    def carriers(self) -> Mapping[str, Collection[str]]:
        """Name -> the paths that a request for it takes without a search, once they are loaded."""
        musl = self.environment.libc is Libc.MUSL
        carrying = values_by_key(
            (path.rpartition("/")[2] if musl else elf.soname or "", path)
            for path, elf in self.environment.files.items()
        )
        return {name: dict.fromkeys(paths) for name, paths in carrying.items()}

    def fits(self, path: str, name: str, requester: str) -> bool:
        """Return whether the file at `path` can be the library `name` that an object needs.

        That is one for the same machine, and with the versions that the object needs.
        """
        files, libc = self.environment.files, self.environment.libc
        library, user = files[path], files.get(requester)
        needs = (need for need in (user.verneed if user else ()) if need.file == name)
        is_of_machine = library.abi == (user.abi if user else self.abi)
        refused = (path in self.unversioned or refused_versions(n, library, libc) for n in needs)
        return is_of_machine and not any(refused)

    @property
    def glibc(self) -> str | None:
        """The release of glibc; None if it is another C library, or not known."""
        return self.versions.get("GLIBC") if self.environment.libc is Libc.GLIBC else None

    @cached_property
    def unversioned(self) -> frozenset[str]:
        """The files without DT_VERSYM, if a reference to them with a version ends the process."""
        is_asserted = not self.glibc or newer(ACCEPTS_UNVERSIONED, self.glibc)
        if self.environment.libc is not Libc.GLIBC or not is_asserted:
            return frozenset()
        elfs = self.environment.files.items()
        return frozenset(p for p, e in elfs if not (e.verdef or e.verneed or e.versym_alone))

    def lenders(self, name: str, requester: str) -> list[str]:
        """Return the paths of `carriers` that fit what an object needs."""
        return [path for path in self.carriers.get(name, ()) if self.fits(path, name, requester)]

    def places(self, name: str, requester: str) -> list[str]:
        """Return where a search of an object for a library looks; of a path, the path."""
        load = self.load(requester if requester in self.environment.files else name)
        searched = flatten(r.directories for r in load.requests if r.name == name)
        return [posixpath.normpath(posixpath.join(folder, name)) for folder in (*searched, "/")]

    @cached_property
    def without_path(self) -> "World":
        """The same without LD_LIBRARY_PATH."""
        environment = replace(self.environment, library_path=())
        return replace(self, environment=environment) if self.environment.library_path else self

    @cached_property
    def without_levels(self) -> "World":
        """The same on a processor of the lowest level, as glibc-hwcaps knows them."""
        every = self.environment.subdirectories
        others = tuple(name for name in every if not name.startswith("glibc-hwcaps/"))
        environment = replace(self.environment, subdirectories=others)
        return replace(self, environment=environment) if others != every else self

    @cached_property
    def file_system(self) -> FileSystem:
        """The files as the loader finds them, searched once for all loads."""
        return FileSystem(self.environment, self.budget)

    @cached_property
    def _start(self) -> tuple[Load, ...]:
        """The start of the main program, which comes before every other load."""
        main = self.environment.main
        return (load_first(main, self.file_system),) if main else ()


@frozen
class PlantedLibraries:
    """Files that were read from directories of this machine."""

    files: Mapping[str, Elf] = field(default_factory=dict[str, Elf])
    broken: Mapping[str, SearchOutcome] = field(default_factory=dict[str, SearchOutcome])
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    directories: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Return the names by which a search in the directories may find them."""
        paths = (*self.files, *self.broken, *self.links)
        return frozenset(path.rpartition("/")[2] for path in paths)


@frozen
class Neighbor:
    """Objects that another distribution installs beside the wheel."""

    name: str
    """The file name of its wheel if that was read, otherwise the distribution and version."""
    elfs: Mapping[tuple[Key, str], Elf] = field(default_factory=dict[tuple[Key, str], Elf])
    """Objects by the key of the install scheme and the path below it."""
    platforms: tuple[str, ...] = ()
    """The platform tags of its wheel, if that was read."""
    size: int = 0
    """The bytes of its wheel, if that was read."""


def neighbor(wheel: Wheel) -> Neighbor:
    """Return `wheel` as another one sees it that is installed beside."""
    places = ((split(member, wheel), elf) for member, elf in wheel.elfs.items())
    return Neighbor(
        name=str(wheel.name),
        elfs={place: elf for place, elf in places if place is not None},
        platforms=wheel.name.platforms,
        size=wheel.zip_size,
    )


@frozen
class Installed:
    """A wheel and its neighbors, as installers may arrange them."""

    wheel: Wheel
    neighbors: tuple[Neighbor, ...] = ()
    """In their order; a later one overwrites files of the ones before, the wheel those of all."""
    planted: PlantedLibraries = field(default_factory=PlantedLibraries)
    budget: Budget | None = None
    """What the questions spend; by default as much as the sizes of the wheels allow."""

    @cached_property
    def layouts(self) -> tuple[Layout, ...]:
        """The different arrangements of the wheel's files."""
        return layouts(self.wheel)

    @cached_property
    def worlds(self) -> tuple[World, ...]:
        """The world of each layout, without a machine."""
        return tuple(map(self.world_in, self.layouts))

    def on(
        self,
        target: Target,
        scheme: str | None = None,
        library_path: tuple[str, ...] = (),
    ) -> World:
        """Return the world on `target`, in an install scheme that the machine prefers.

        `scheme` chooses another one: `venv`, or with its Python, `venv/python3.11`. Raises
        `SettingsError` if no Python of the wheel's tags has it.
        """
        chosen = self._scheme(scheme, target)
        others = (
            world.on(target, library_path) for world in self.worlds if chosen not in world.schemes
        )
        here = self.world_in(layout_of(self.wheel, chosen)).on(target, library_path)
        return replace(here, elsewhere=tuple(others))

    def world_in(self, layout: Layout) -> World:
        """Return the world of one layout, without a machine."""
        scheme, members, planted = layout.scheme, layout.members, self.planted
        others = {
            f"{scheme.base(key)}/{place}": (f"{neighbor.name}!{place}", elf)
            for neighbor in self.neighbors
            for (key, place), elf in neighbor.elfs.items()
        }
        labels = {path: label for path, (label, _) in others.items() if path not in members}
        elfs = self.wheel.elfs
        files = {
            **planted.files,
            **{path: elf for path, (_, elf) in others.items()},
            **{path: elfs[member] for path, member in members.items() if member in elfs},
        }
        is_searched = _searched(files.values())
        return World(
            environment=Environment(
                libc=self.wheel.libc,
                reads_runpath=reads_runpath(self.wheel.name.platforms),
                files=files,
                broken={
                    **planted.broken,
                    **{
                        p: SearchOutcome.TRUNCATED
                        if "is truncated:" in self.wheel.broken_elfs.get(member, "")
                        else SearchOutcome.NOT_ELF
                        for p, member in members.items()
                        if member not in elfs and is_searched(p)
                    },
                },
                links=planted.links,
                directories=frozenset(filter(is_searched, layout.directories))
                | planted.directories,
            ),
            budget=self._budget,
            abi=abi_of(self.wheel),
            schemes=layout.schemes,
            members=members,
            others=labels,
            of_variables=frozenset(planted.files) - set(members),
            where=describe(layout.schemes),
        )

    @cached_property
    def _budget(self) -> Budget:
        if self.budget is not None:
            return self.budget
        size = self.wheel.zip_size + sum(neighbor.size for neighbor in self.neighbors)
        return Budget.of_file(str(self.wheel.name), size)

    def _scheme(self, text: str | None, target: Target) -> Scheme:
        allowed = schemes(self.wheel.name)
        wanted = text or target.program.scheme
        for scheme in allowed:
            if wanted in {None, scheme.name, f"{scheme.name}/{scheme.python}"}:
                return scheme
        if text is None:
            return allowed[0]
        known = dict.fromkeys(scheme.name for scheme in allowed)
        raise SettingsError(
            f"`{self.wheel.name}` is never installed with the scheme `{text}`",
            hint=f"its tags allow {', '.join(known)}; or with a Python, as in "
            f"{allowed[0].name}/{allowed[0].python}",
        )


def _searched(elfs: Iterable[Elf]) -> Callable[[str], bool]:
    """Return whether a search may see a path: not in metadata, unless a search path leads there.

    A repair adds an SBOM and license files, after which everything loads as before.
    """
    named = filter(None, flatten((elf.rpath, elf.runpath, *elf.needed) for elf in elfs))
    is_named = any(_METADATA in path for path in named)
    return lambda path: is_named or _METADATA not in path


def _of_python(environment: Environment, added: Iterable[str]) -> Iterator[str]:
    """Yield which of the paths that the target added belong to the interpreter."""
    for path in added:
        in_default_directory = posixpath.dirname(path) in environment.default_directories
        if path == environment.main or not in_default_directory:
            yield path


def release_of(label: str) -> str:
    """Return the distribution with its version of a file in `World.others`, by its label."""
    name, mark, _ = label.partition("!")
    if name.endswith(".whl"):
        name = " ".join(name.split("-")[:2]).replace("_", "-")
    return name if mark else ""


def find_subject(world: World, text: str) -> tuple[str, ...]:
    """Return the installed paths that `text` may mean, none if it is not found.

    `text` is an installed path, a member, the end of a member, a dotted module name, a SONAME, or
    what a graft was named before, tried in this order.
    """
    files, broken = world.environment.files, world.environment.broken
    if text in files or text in broken:
        return (text,)
    names = world.members.items()
    exact = [path for path, member in names if member == text]
    if exact:
        return tuple(exact)
    ending = [path for path, member in names if member.endswith(f"/{text}")]
    ending += [path for path, name in world.others.items() if name == text]
    # A script with the name of its package is not an object, though it does not load.
    ending = [p for p in ending if p in files or (p in broken and is_object_name(p))]
    if ending:
        return tuple(ending)
    objects = [(path, member) for path, member in names if path in files or path in broken]
    dotted = f".{text.replace('/', '.')}"
    modules = [(path, f".{module_name(m)}") for path, m in objects if m.endswith(".so")]
    return (
        tuple(path for path, name in modules if name.endswith(dotted))
        or tuple(path for path, _ in objects if path in files and files[path].soname == text)
        or tuple(path for path, _ in objects if text in earlier_names(posixpath.basename(path)))
    )
