"""An installed environment on this machine: its objects, its interpreter, and all they can load.

Nothing is executed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from packaging.utils import canonicalize_name

from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.environments.cached_facts import CachedFacts
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.read_contents import InstalledContents
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.errors import SettingsError
from wheelfix.grouping import flatten, values_by_key
from wheelfix.host.installed_files import (
    Owner,
    dist_info_folders,
    owners_of_files,
    python_of_tags,
    site_folders_of,
    top_levels,
)
from wheelfix.host.library_search import libraries_defining, library_at
from wheelfix.host.machine_files import LinksOut, files_below, folders_below, read_regular
from wheelfix.host.os_packages import system_packages
from wheelfix.host.prefixes import (
    environments_in,
    is_venv,
    name_environment,
    own_modules,
    python_around,
    standard_library,
)
from wheelfix.host.reachable_files import Disk, glibc_of
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import SITE_FOLDERS, Scheme, name_in_site, python_of
from wheelfix.loader.load_values import Environment
from wheelfix.loader.loading import (
    absolute_directories,
    library_path_directories,
    split_library_path,
)
from wheelfix.loader.python_api import MODULE_SUFFIX
from wheelfix.loader.targets import Target
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.python_sources.opening_calls import may_open
from wheelfix.python_sources.opens import visit_source
from wheelfix.python_sources.parsing import STEPS_PER_WHEEL
from wheelfix.python_sources.searched_places import (
    MAX_SOURCE,
    LibrarySearches,
    join_searches,
    searches,
)
from wheelfix.system.paths import is_file, is_folder, is_there


def read_site(  # noqa: PLR0913 - one argument for each thing that is read
    directory: Path,
    *,
    folders: tuple[str, ...] = (),
    target: Target | None = None,
    library_path: str = "",
    directories: tuple[str, ...] = (),
    cache: CachedFacts | None = None,
) -> World:
    """Read the environment at `directory`: a venv, a prefix, a site-packages folder.

    Objects in `folders` are read, by default in all of it.
    The platform and the interpreter are those of this machine, unless `target` describes others.
    `library_path` is the value of LD_LIBRARY_PATH. `directories` are searched by Python
    code: files in them are read if they have the name of an object of the environment.
    What `cache` knows is not read again.
    Raises `SettingsError` if there is no such directory, if it is one of environments, or if
    there is nothing to load in it: no ELF object, and no place of distributions of a Python.
    """
    if not is_folder(directory):
        hint = name_environment(directory) if is_file(directory) else None
        raise SettingsError(f"`{directory}` is not a directory", hint=hint)
    if environments_in(directory):
        raise SettingsError(
            f"`{directory}` is not an environment", hint=name_environment(directory)
        )
    root = os.path.realpath(directory)
    disk = Disk(root, (cache or CachedFacts(None, root)).read)
    members = dict(_members(root, folders or (root,), disk))
    has_objects = any(path in disk.files for path in members)
    if not has_objects and not (target is None and _is_pure(directory, disk)):
        raise SettingsError(
            f"there is no ELF object below `{directory}`",
            hint=name_environment(directory),
        )
    names = {path.rpartition("/")[2] for path in members}
    for path in () if target else own_modules(standard_library(Path(root))):
        disk.add(path)
    known = set(disk.files)
    for searched in directories:
        disk.add_files(searched, names)
    added = frozenset(disk.files.keys() - known)
    if target is not None:
        world = _on_target(root, disk, members, target, library_path)
    else:
        world = _on_this_machine(root, disk, members, library_path)
    return replace(world, of_variables=world.of_variables | added)


def _read_folders(environment: Path) -> tuple[str, ...]:
    """Return what is read of an environment: of a prefix only its folders of distributions.

    A prefix such as /usr has thousands of programs that no import loads.
    """
    dist_infos = () if is_venv(environment) else dist_info_folders(environment)
    folders = dict.fromkeys(os.path.realpath(dist_info.parent) for dist_info in dist_infos)
    return tuple(folders) or (os.path.realpath(environment),)


def read_modules(
    directory: Path,
    library_path: str = "",
    cache: CachedFacts | None = None,
    target: Target | None = None,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> InstalledModules:
    """Read what is imported of the environment at `directory`, with the owners of the files.

    It is on this machine, unless `target` describes another one. Python sources are taken to find
    the directories in `variables`.

    What `cache` knows is not read again; what is read can be kept there (`Contents.save`).
    Raises `SettingsError` as `read_site` does.
    """
    folders = _read_folders(directory)
    directory = Path(folders[0]) if len(folders) == 1 and is_folder(directory) else directory
    objects = cache or CachedFacts(None, os.path.realpath(directory))
    standard = None if target else standard_library(Path(os.path.realpath(directory)))
    interpreter = own_modules(standard)
    world = read_site(
        directory,
        folders=folders,
        target=target,
        library_path=library_path,
        directories=absolute_directories(variables),
        cache=objects,
    )
    if variables:
        searches = read_searches(world, world.members)
        world = replace(world, searches=searches, variables=variables)
    owners = owners_of_files(directory)
    sites = {os.path.realpath(dist_info.parent) for dist_info in dist_info_folders(directory)}
    owners |= {
        path: owners[there]
        for path, name in world.members.items()
        if not path.endswith(f"/{name}")  # a linked folder leads to it
        for site in sites
        if (there := f"{site}/{name}") in owners
    }
    world = replace(world, members={**dict(_gone(world, owners)), **world.members})
    rivals = dict(_rivals(world, map(os.path.realpath, interpreter)))
    world = replace(
        world, others={path: f"lib-dynload/{path.rpartition('/')[2]}" for path in rivals}
    )
    suffixes = map(MODULE_SUFFIX.search, interpreter)
    suffix = next((names[0] for names in suffixes if names), "")
    contents = InstalledContents(world, objects, folders, standard if rivals else None, suffix)
    symbols = InstalledSymbols(world=world, contents=contents)
    return InstalledModules(
        symbols=symbols,
        owners=owners,
        top_levels=top_levels(directory),
        interpreter=rivals,
        suffix=suffix,
    )


def _gone(world: World, recorded: Mapping[str, Sequence[Owner]]) -> Iterator[tuple[str, str]]:
    """Yield the objects and sources that RECORD lists and that are not there, each with its name.

    Not sources that something else is there for: byte code, a package; nor empty ones.
    """
    for path, owners in recorded.items():
        folder, _, name = path.rpartition("/")
        stem, _, ending = path.rpartition(".")
        is_source = ending == "py" and any(owner.size for owner in owners)
        others = (f"{stem}.pyc", stem) if is_source else ()
        is_inside = (is_source or is_object_name(name)) and folder.startswith(world.where)
        is_read = path in world.members or is_file(path)
        if is_inside and not is_read and not any(map(is_there, others)):
            yield path, name_in_site(path.removeprefix(f"{world.where}/"))


def _rivals(world: World, interpreter: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the interpreter's own modules with a library that the environment has, too.

    Each with its name. The others change no load.
    """
    for path in interpreter:
        if path in world.environment.files and path not in world.members:
            names = {request.name for request in world.load(path).requests[1:]}
            carriers = chain.from_iterable(world.carriers.get(name, ()) for name in names)
            if not world.members.keys().isdisjoint(carriers):
                yield path, module_name(path.rpartition("/")[2])


def libraries_of(world: World) -> dict[str, Library]:
    """Return the libraries of an environment whose symbols can be read, by path."""
    files = world.environment.files.items()
    read = {path: elf for path, elf in files if elf.dynamic and path not in world.described}
    return {path: library_at(path, elf) for path, elf in read.items()}


def read_searches(world: World, paths: Iterable[str]) -> LibrarySearches:
    """Return the library searches in the Python sources of the packages that objects are in."""
    read: list[LibrarySearches] = []
    budget = Budget("the Python sources", STEPS_PER_WHEEL)
    packages = {
        (Path(path.removesuffix(f"/{member}")), member.partition("/")[0])
        for path in paths
        if "/" in (member := world.members.get(path, ""))
    }
    for folder, package in sorted(packages):
        for path in files_below(folder / package, "*.py"):
            name = str(path.relative_to(folder))
            with suppress(OSError):
                if path.stat().st_size > MAX_SOURCE:
                    read.append(LibrarySearches(unfollowed=(name,)))
                else:
                    read.append(searches(read_regular(path, MAX_SOURCE), name, budget))
    return join_searches(read)


def read_openings(folders: Iterable[Path], library: str) -> Iterator[tuple[str, int]]:
    """Yield the Python sources of site-packages folders that open `library` by name, with lines."""
    budget = Budget("the Python sources", STEPS_PER_WHEEL)
    for folder in folders:
        for path in files_below(folder, "*.py"):
            name, source = str(path.relative_to(folder)), b""
            with suppress(OSError):
                source = read_regular(path, MAX_SOURCE)
            if os.fsencode(library) in source and may_open(source):
                openings = visit_source(source, name, {}, budget).openings
                yield from ((name, opening.line) for opening in openings if opening.name == library)


def of_distribution(world: World, name: str, owners: Mapping[str, Sequence[Owner]]) -> World | None:
    """Return `world` with the objects of one distribution as members, and the rest as others.

    Or else of a package, with the libraries of the same distributions that it loads; None if there
    is neither. `owners` are those of all files, by path.
    """
    by_owner = values_by_key(
        (one.distribution, path) for path, all_ in owners.items() for one in all_
    )
    wanted, every = canonicalize_name(name), by_owner.items()
    own = {p for of, ps in every if canonicalize_name(of.partition(" ")[0]) == wanted for p in ps}
    if not own:
        tops = (f"{name}/", f"{name.replace('.', '/')}/")
        own = {path for path, member in world.members.items() if member.startswith(tops)}
        loaded = {*flatten(world.load(path).objects for path in own)}
        own.update(*(loaded.intersection(paths) for _, paths in every if not own.isdisjoint(paths)))
    own |= {f"{os.path.realpath(folder)}/{base}" for folder, base in map(os.path.split, own)}
    own |= {*map(os.path.realpath, own)}
    members = {path: member for path, member in world.members.items() if path in own}
    others = {path: member for path, member in world.members.items() if path not in own}
    return replace(world, members=members, others=others) if own else None


def sizes_of(members: Mapping[str, str]) -> dict[str, int]:
    """Return the sizes in bytes of `members`, names by path, by name."""
    sizes: dict[str, int] = {}
    for path, member in members.items():
        with suppress(OSError):
            sizes[member] = Path(path).stat().st_size
    return sizes


def _members(root: str, tops: Iterable[str], disk: Disk) -> Iterator[tuple[str, str]]:
    """Read every object below `tops`; yield its canonical path, and its name in site-packages."""
    links = LinksOut(root)
    folders = chain.from_iterable(folders_below(top, links) for top in tops)
    for folder, names in folders:
        programs = folder.endswith("/bin")
        objects = [name for name in sorted(names) if programs or is_object_name(name)]
        linked = bool(objects) and os.path.realpath(folder) != folder
        resolves = bool(objects) and _resolves(folder, names)
        for name in objects:
            path = f"{folder}/{name}"
            is_target = resolves and not MODULE_SUFFIX.search(name)
            real = disk.add(os.path.realpath(path) if is_target else path)
            if real is not None and (linked or is_target or real.startswith(f"{root}/")):
                relative = (path if linked or is_target else real).removeprefix(f"{root}/")
                yield real, name_in_site(relative)


def _resolves(folder: str, names: Iterable[str]) -> bool:
    """Return whether a source of a folder, itself a link, asks where links lead to.

    It opens a library beside it where that is, with another `$ORIGIN`.
    """
    links = (f"{folder}/{name}" for name in names if name.endswith(".py"))
    for path in filter(os.path.islink, links):
        with suppress(OSError):
            source = read_regular(path, MAX_SOURCE)
            if b"realpath(" in source or b"resolve(" in source:
                return True
    return False


def _is_pure(directory: Path, disk: Disk) -> bool:
    """Return whether it is a place of distributions, for a Python that can be read."""
    is_site = directory.name in SITE_FOLDERS or any(site_folders_of(directory))
    is_place = is_site or any(dist_info_folders(directory))
    program = python_around(Path(os.path.realpath(directory))) if is_place else None
    return disk.add(os.path.realpath(program)) in disk.files if program else False


def _world(root: str, members: dict[str, str], environment: Environment) -> World:
    """Return the world of the environment at `root`, where every file stays."""
    files, main = environment.files, environment.main or ""
    python = python_of([f"{root}/", *files])
    scheme = Scheme(
        "site", python if "." in python else python_of_tags(Path(root)),
        root=root, purelib=root, platlib=root, data=root, scripts=f"{root}/bin", headers=root,
    )  # fmt: skip
    return World(
        environment=environment,
        budget=Budget.of_files(sizes_of(members).values()),
        abi=next(elf for path in (main, *members, *files) if (elf := files.get(path))).abi,
        schemes=(scheme,),
        members=members,
        where=root,
        linkable=libraries_defining,
    )


def _on_this_machine(root: str, disk: Disk, members: dict[str, str], library_path: str) -> World:
    program = python_around(Path(root))
    main = disk.add(os.path.realpath(program)) if program else None
    if main not in disk.files:
        main = None
    sample = disk.files[main or next(path for path in members if path in disk.files)]
    before = set(disk.files)
    elements = split_library_path(library_path, sample.libc)
    environment = disk.process(sample, main, elements)
    pythons = {main, *_own_libraries(main, disk.files)} if main else set[str]()
    directories = filter(None, library_path_directories(environment))
    prefixes = tuple(f"{os.path.realpath(directory)}/" for directory in directories)
    return replace(
        _world(root, members, environment),
        pythons=frozenset(pythons) - set(members),
        of_variables=frozenset(p for p in disk.files.keys() - before if p.startswith(prefixes)),
        name="this machine",
        packages=system_packages(),
        versions=glibc_of(e for path, e in environment.files.items() if path not in members),
    )


def _own_libraries(main: str, files: Iterable[str]) -> Iterator[str]:
    """Yield those of `files` that are in the prefix of the interpreter `main`, unless in /usr."""
    prefix = main.rpartition("/bin/")[0]
    if prefix not in {"", "/usr"}:
        yield from (path for path in files if path.startswith(f"{prefix}/"))


def _on_target(
    root: str,
    disk: Disk,
    members: dict[str, str],
    target: Target,
    library_path: str,
) -> World:
    needed = {disk.files[path].libc for path in members if path in disk.files}
    target.refuse_other_libc({*filter(None, needed)}, f"`{root}`")
    elements = split_library_path(library_path, target.libc)
    base = Environment(libc=target.libc, files={}, library_path=elements)
    before = set(disk.files)
    disk.add_reachable(base)
    world = _world(root, members, disk.environment(base, None))
    read = replace(world, of_variables=frozenset(disk.files.keys() - before))
    return read.on(target, elements)
