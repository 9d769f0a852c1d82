"""An installed wheel with its surroundings: other wheels, the interpreter, the platform.

`loader.loading` needs only an `Environment`: the files and their paths. An `Installation` also has
the origin of each file, and a short name for messages.
"""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import NamedTuple

from wheelfix.analysis.preload_plan import opened_by_shims
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf
from wheelfix.errors import SettingsError
from wheelfix.grouping import grouped
from wheelfix.loader.install_schemes import (
    Layout,
    Scheme,
    arranged,
    describe,
    installed,
    layouts,
    schemes,
)
from wheelfix.loader.load_values import Environment, Load, SearchOutcome
from wheelfix.loader.loading import load, load_all
from wheelfix.loader.target_machines import Target, abi_of, environment_of, populate
from wheelfix.wheel.model import Key, Wheel
from wheelfix.wheel.python_library_searches import LibrarySearches

_MODULE_SUFFIX = re.compile(r"(\.[\w-]+)?\.so$")


class Provenance(StrEnum):
    """What a file belongs to. The values appear in JSON output."""

    WHEEL = "wheel"
    OTHER = "other wheel"
    PYTHON = "python"
    """The main program and the libraries of its installation."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Installation:
    """The files that a load can reach, and the origin of each."""

    environment: Environment
    budget: Budget = field(compare=False)
    """What the questions about it spend."""
    members: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> name, for the files of the wheel, or of the installed environment."""
    others: Mapping[str, str] = field(default_factory=dict[str, str])
    """Path -> name, for the files of other wheels."""
    given: frozenset[str] = frozenset()
    """Paths of files in the directories of environment variables."""
    pythons: frozenset[str] = frozenset()
    """Paths of the main program and of its own libraries."""
    name: str = ""
    """The platform: `debian:12`."""
    where: str = ""
    """The install schemes: `venv (python3.11)`."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Prefix of symbol versions -> the newest that the platform has: `GLIBC` -> `2.28`."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Library missing from a minimal installation -> the platform package that contains it."""
    shimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Path of an extension module -> the files that preload shims open before it."""
    opened_by_shims: frozenset[str] = frozenset()
    """All files that preload shims open."""
    searches: LibrarySearches = field(default_factory=LibrarySearches)
    """The library searches of Python sources in the same packages."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Environment variables at the start of the process, LD_LIBRARY_PATH among them."""

    def origin(self, path: str) -> Origin:
        """Return what the file at `path` belongs to."""
        member = self.members.get(path)
        if member is not None:
            return Origin(Provenance.WHEEL, member)
        if path in self.others:
            return Origin(Provenance.OTHER, self.others[path])
        if path in self.given:
            return Origin(Provenance.VARIABLE, path)
        return Origin(Provenance.PYTHON if path in self.pythons else Provenance.PLATFORM, path)

    def label(self, path: str | None) -> str:
        """Return the short name of the file at `path`; None is the main program."""
        return "the program" if path is None else self.origin(path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class Installations:
    """A wheel in the requested install scheme, and in all other arrangements."""

    here: Installation
    elsewhere: tuple[Installation, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedLibraries:
    """Files that were read from directories of this machine."""

    files: Mapping[str, Elf] = field(default_factory=dict[str, Elf])
    broken: Mapping[str, SearchOutcome] = field(default_factory=dict[str, SearchOutcome])
    links: Mapping[str, str] = field(default_factory=dict[str, str])
    directories: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderFiles:
    """Objects that another distribution installs beside the wheel."""

    name: str
    """The file name of its wheel if that was read, otherwise the distribution."""
    elfs: Mapping[tuple[Key, str], Elf] = field(default_factory=dict[tuple[Key, str], Elf])
    """Objects by the key of the install scheme and the path below it."""
    platforms: tuple[str, ...] = ()
    """The platform tags of its wheel, if that was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """Where, how and beside what a wheel is installed."""

    target: Target
    scheme: str | None = None
    """The install scheme, `venv`, or with its Python, `venv/python3.11`."""
    others: tuple[Wheel, ...] = ()
    """Wheels that are installed beside."""
    beside: tuple[ProviderFiles, ...] = ()
    """Files that providers install beside, as far as known."""
    library_path: tuple[str, ...] | None = None
    """The directories of LD_LIBRARY_PATH; None for the target's own."""
    planted: PlantedLibraries = field(default_factory=PlantedLibraries)


def choose_scheme(wheel: Wheel, options: LoadOptions) -> Scheme:
    """Return the install scheme of `options`; by default the first that the tags allow.

    Raises `SettingsError` if no Python of the wheel's tags has the scheme.
    """
    allowed = schemes(wheel.name)
    wanted = options.scheme or options.target.scheme
    for scheme in allowed:
        if wanted in {None, scheme.name, f"{scheme.name}/{scheme.python}"}:
            return scheme
    if options.scheme is None:
        return allowed[0]
    known = dict.fromkeys(scheme.name for scheme in allowed)
    raise SettingsError(
        f"`{options.scheme}` is no install scheme of `{wheel.name}`",
        hint=f"its tags allow {', '.join(known)}; or with a Python, as in "
        f"{allowed[0].name}/{allowed[0].python}",
    )


def installations_of(wheel: Wheel, options: LoadOptions) -> Installations:
    """Describe every arrangement of `wheel`; `here` is the one of the chosen scheme."""
    scheme = choose_scheme(wheel, options)
    here = installation_of(wheel, options)
    elsewhere = [layout for layout in layouts(wheel) if scheme not in layout.schemes]
    return Installations(
        here=here,
        elsewhere=tuple(
            replace(installation_of(wheel, options, layout), budget=here.budget)
            for layout in elsewhere
        ),
    )


def installation_of(
    wheel: Wheel, options: LoadOptions, layout: Layout | None = None
) -> Installation:
    """Describe `wheel` as installed in `layout`, by default in the scheme of `options`."""
    if layout is None:
        layout = arranged(wheel, choose_scheme(wheel, options))
    scheme, target, planted = layout.scheme, options.target, options.planted
    own = environment_of(wheel, layout)
    others = _others(options, scheme)
    bare = replace(
        own,
        files={**planted.files, **{path: elf for path, (_, elf) in others.items()}, **own.files},
        broken={**planted.broken, **own.broken},
        links=planted.links,
        directories=own.directories | planted.directories,
    )
    environment = populate(bare, target, scheme, abi_of(wheel), options.library_path)
    labels = {path: label for path, (label, _) in others.items() if path not in layout.members}
    shimmed = _shimmed(wheel, layout, labels)
    return Installation(
        environment=environment,
        budget=Budget.of_file(str(wheel.name), _size(wheel) + sum(map(_size, options.others))),
        members=layout.members,
        others=labels,
        shimmed=shimmed,
        opened_by_shims=frozenset(chain.from_iterable(shimmed.values())),
        given=frozenset(planted.files) - set(layout.members),
        pythons=frozenset(_of_python(environment, set(environment.files) - set(bare.files))),
        name=target.name,
        where=describe(layout.schemes),
        versions=target.versions,
        packages=target.packages,
    )


def _size(wheel: Wheel) -> int:
    """Return the bytes of the zip, or without a zip those of the members that were in one."""
    return wheel.size or sum(member.compressed_size for member in wheel.members)


def _others(options: LoadOptions, scheme: Scheme) -> dict[str, tuple[str, Elf]]:
    """Return the objects of other wheels by their paths, each with its label."""
    objects = {
        f"{scheme.base(key)}/{place}": (f"{files.name}!{place}", elf)
        for files in options.beside
        for (key, place), elf in files.elfs.items()
    }
    for other in options.others:
        for member, elf in other.elfs.items():
            path = installed(member, other, scheme)
            if path is not None:
                objects[path] = (f"{other.name}!{member}", elf)
    return objects


def _of_python(environment: Environment, added: Iterable[str]) -> Iterator[str]:
    """Yield which of the paths that the target added belong to the interpreter."""
    for path in added:
        in_default_directory = posixpath.dirname(path) in environment.default_directories
        if path == environment.main or not in_default_directory:
            yield path


def _shimmed(wheel: Wheel, layout: Layout, others: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the paths of extension modules, and the files that shims open before each."""
    opened = opened_by_shims(wheel)
    files = grouped(others, posixpath.basename)
    return {
        path: tuple(file for name in opened[member] for file in files.get(name, ()))
        for path, member in layout.members.items()
        if member in opened
    }


def find_subject(installation: Installation, text: str) -> tuple[str, ...]:
    """Return the installed paths that `text` may mean, none if there is no such file.

    `text` is an installed path, a member, the end of a member, a dotted module name or a SONAME,
    tried in this order.
    """
    files = installation.environment.files
    if text in files:
        return (text,)
    names = installation.members.items()
    exact = [path for path, member in names if member == text]
    if exact:
        return tuple(exact)
    ending = [path for path, member in names if member.endswith(f"/{text}")]
    ending += [path for path, name in installation.others.items() if name == text]
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


def load_roots(installation: Installation) -> tuple[str, ...]:
    """Return the paths of extension modules, programs, and libraries without dependents."""
    files = installation.environment.files
    own = {
        path: files[path] for path in installation.members if path in files and files[path].dynamic
    }
    needed = {name.rpartition("/")[2] for elf in own.values() for name in elf.needed}
    return tuple(
        path
        for path, elf in own.items()
        if elf.module_hooks
        or elf.is_executable
        or not {elf.soname, path.rpartition("/")[2]} & needed
    )


def loads_of(installation: Installation, root: str, after: Sequence[str] = ()) -> tuple[Load, ...]:
    """Return the loads of one process in order; the last is that of `root`.

    Before it come the main program, the files `after`, and those that shims open.
    """
    environment, budget = installation.environment, installation.budget
    elf = environment.files.get(root)
    if elf is not None and elf.is_executable:
        return (load(root, environment, budget),)
    start = (load(environment.main, environment, budget),) if environment.main else ()
    first = dict.fromkeys((*after, *installation.shimmed.get(root, ())))
    return (*start, *load_all([*first, root], environment, budget))
