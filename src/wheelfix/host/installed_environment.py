"""An installed environment on this machine: its objects, its interpreter, and all they can load.

Nothing is executed.
"""

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from wheelfix.analysis.installation import Installation, PlantedLibraries
from wheelfix.budget import Budget
from wheelfix.elf.model import Elf
from wheelfix.errors import SettingsError
from wheelfix.host.installed_files import recorded
from wheelfix.host.reachable_files import Disk
from wheelfix.loader.install_schemes import Scheme
from wheelfix.loader.load_values import Environment
from wheelfix.loader.loading import library_path_directories
from wheelfix.loader.target_machines import Target, populate
from wheelfix.wheel.python_library_searches import MAX_SOURCE, LibrarySearches, joined, searches
from wheelfix.wheel.python_source import STEPS_PER_WHEEL

_LIBRARY = re.compile(r"\.so(\.|$)")


def read_site(
    directory: Path,
    *,
    target: Target | None = None,
    library_path: tuple[str, ...] = (),
    directories: tuple[str, ...] = (),
) -> Installation:
    """Read the environment at `directory`: a venv, a prefix, a site-packages folder.

    The platform and the interpreter are those of this machine, unless `target` describes others.
    `library_path` are the directories of LD_LIBRARY_PATH. `directories` are searched by Python
    code: files in them are read if they have the name of an object of the environment.
    Raises `SettingsError` if there is no such directory, or no ELF object in it.
    """
    if not directory.is_dir():
        raise SettingsError(f"`{directory}` is not a directory")
    root = os.path.realpath(directory)
    disk = Disk(root)
    members = dict(_members(root, disk))
    if not any(path in disk.files for path in members):
        raise SettingsError(
            f"there is no ELF object below `{directory}`",
            hint="name a virtual environment, a prefix, or a site-packages folder",
        )
    names = {path.rpartition("/")[2] for path in members}
    known = set(disk.files)
    for searched in directories:
        disk.add_listed(searched, names)
    found = frozenset(disk.files.keys() - known)
    if target is not None:
        world = _on_target(root, disk, members, target, library_path)
    else:
        world = _on_this_machine(root, disk, members, library_path)
    return replace(world, given=world.given | found)


def read_searches(folders: Iterable[tuple[Path, str]]) -> LibrarySearches:
    """Return the library searches in the Python sources of packages.

    `folders` are pairs of a site-packages folder and a package in it.
    """
    found: list[LibrarySearches] = []
    budget = Budget("the Python sources", STEPS_PER_WHEEL)
    for folder, package in folders:
        for path in sorted((folder / package).rglob("*.py")):
            name = str(path.relative_to(folder))
            with suppress(OSError):
                if path.stat().st_size > MAX_SOURCE:
                    found.append(LibrarySearches(unfollowed=(name,)))
                elif path.is_file():
                    found.append(searches(path.read_bytes(), name, budget))
    return joined(found)


def of_distribution(world: Installation, name: str) -> Installation:
    """Return `world` with the objects of one distribution as members, and the rest as others.

    Raises `SettingsError` if no distribution of that name is installed there.
    """
    wanted = canonicalize_name(name)
    found = [
        path
        for path in sorted(Path(world.where).rglob("*.dist-info"))
        if canonicalize_name(path.name.removesuffix(".dist-info").partition("-")[0]) == wanted
    ]
    if not found:
        raise SettingsError(
            f"no distribution `{name}` is installed below `{world.where}`",
            hint="without a name, all of them are shown",
        )
    own: set[str] = set()
    for path in (path for folder in found for path in recorded(folder)):
        directory, _, base = path.rpartition("/")
        own |= {os.path.realpath(path), f"{os.path.realpath(directory)}/{base}"}
    return replace(
        world,
        members={path: member for path, member in world.members.items() if path in own},
        others={path: member for path, member in world.members.items() if path not in own},
    )


def sizes_of(world: Installation) -> dict[str, int]:
    """Return the sizes of the members in bytes, by name."""
    found: dict[str, int] = {}
    for path, member in world.members.items():
        with suppress(OSError):
            found[member] = Path(path).stat().st_size
    return found


def read_planted(directories: Iterable[str]) -> PlantedLibraries:
    """Read the libraries in `directories`, those of an LD_LIBRARY_PATH."""
    disk = Disk()
    for directory in directories:
        disk.add_listed(directory, filter(_LIBRARY.search, disk.listing(directory)))
    return PlantedLibraries(
        files=disk.files,
        broken=disk.broken,
        links=disk.links,
        directories=frozenset(disk.directories),
    )


def _members(root: str, disk: Disk) -> Iterator[tuple[str, str]]:
    """Read every object below `root`; yield its canonical path, and its name in site-packages."""
    for folder, _, names in os.walk(root):
        programs = folder.endswith("/bin")
        for name in sorted(names):
            if programs or _LIBRARY.search(name):
                path = f"{folder}/{name}"
                real = disk.add(path)
                if real is not None and real.startswith(f"{root}/"):
                    relative = real.removeprefix(f"{root}/")
                    yield real, re.sub(r"^.*?/(site|dist)-packages/", "", relative)


def _interpreter(root: str) -> str | None:
    """Return the Python of the environment that `root` is, or is in."""
    for prefix in (Path(root), *Path(root).parents[:5]):
        for path in (prefix / "bin/python3", prefix / "bin/python"):
            if os.access(path, os.X_OK):
                return os.path.realpath(path)
    return None


def _on_this_machine(
    root: str, disk: Disk, members: dict[str, str], library_path: tuple[str, ...]
) -> Installation:
    program = _interpreter(root)
    main = disk.add(program) if program else None
    if main not in disk.files:
        main = None
    sample = disk.files[main or next(path for path in members if path in disk.files)]
    before = set(disk.files)
    environment = disk.process(sample, main, library_path)
    pythons = {main, *_own_libraries(main, disk.files)} if main else set[str]()
    directories = filter(None, library_path_directories(environment))
    prefixes = tuple(f"{os.path.realpath(directory)}/" for directory in directories)
    return Installation(
        environment=environment,
        budget=Budget.of_files(),
        members=members,
        pythons=frozenset(pythons) - set(members),
        given=frozenset(path for path in disk.files.keys() - before if path.startswith(prefixes)),
        name="this machine",
        where=root,
        versions=_versions(environment.files.values()),
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
    library_path: tuple[str, ...],
) -> Installation:
    sample = next(disk.files[path] for path in members if path in disk.files)
    python = re.search(r"/lib\d*/(python[\d.]+t?)/", "\n".join([root + "/", *disk.files]))
    base = Environment(libc=target.libc, files={}, library_path=library_path)
    before = set(disk.files)
    disk.add_reachable(base)
    scheme = Scheme(
        "site", python[1] if python else "python3",
        root=root, purelib=root, platlib=root, data=root, scripts=f"{root}/bin", headers=root,
    )  # fmt: skip
    found = disk.environment(base, None)
    environment = populate(found, target, scheme, sample.abi, library_path or None)
    return Installation(
        environment=environment,
        budget=Budget.of_files(),
        members=members,
        given=frozenset(disk.files.keys() - before),
        pythons=frozenset({environment.main} if environment.main else ()),
        name=target.name,
        where=root,
        versions=target.versions,
        packages=target.packages,
    )


def _versions(elfs: Iterable[Elf]) -> dict[str, str]:
    """Return the newest GLIBC version that the C library of this machine defines."""
    found = [
        tuple(int(part) for part in version.removeprefix("GLIBC_").split("."))
        for elf in elfs
        if elf.soname == "libc.so.6"
        for version in elf.verdef
        if re.fullmatch(r"GLIBC_\d{1,9}(\.\d{1,9})*", version)
    ]
    return {"GLIBC": ".".join(map(str, max(found)))} if found else {}
