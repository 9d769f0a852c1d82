"""Files of this machine that its dynamic loader can reach: links, directories, ELF objects.

Every file with a DT_NEEDED name in a searched directory is read. A file that cannot be opened is
absent, as it is for the loader. Nothing is executed.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.world import PlantedLibraries, World
from wheelfix.elf.model import Elf, Libc
from wheelfix.elf.object_file_names import is_object_name
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, TruncatedElfError
from wheelfix.host.loader_config import loader_environment, loader_of
from wheelfix.host.machine_files import map_regular
from wheelfix.host.sysroot import HERE, Sysroot
from wheelfix.loader.file_system import MAX_LINKS
from wheelfix.loader.load_values import Environment, SearchOutcome
from wheelfix.loader.loading import (
    library_path_directories,
    needed_name,
    search_directories,
)
from wheelfix.loader.symbol_versions import release_of
from wheelfix.system.paths import is_file, is_folder


def read_process(program: str, objects: Iterable[str]) -> Environment:
    """Read the process of the executable `program` that is to open `objects`.

    An object that cannot be read is left out; without a readable program, the environment has only
    what was read.
    """
    disk = Disk()
    main = disk.add(program)
    for path in objects:
        disk.add(path)
    sample = disk.files.get(main or "")
    if sample is None:
        return disk.environment(Environment(libc=Libc.GLIBC, files={}), None)
    return disk.process(sample, main)


def read_planted(directories: Iterable[str]) -> PlantedLibraries:
    """Read the libraries in `directories`, those of an LD_LIBRARY_PATH."""
    disk = Disk()
    for directory in directories:
        disk.add_files(directory, filter(is_object_name, disk.listing(directory)))
    return PlantedLibraries(
        files=disk.files,
        broken=disk.broken,
        links=disk.links,
        directories=frozenset(disk.directories),
    )


def in_system(world: World, system: Sysroot) -> World:
    """Return `world`, a wheel with a described program, with what it reaches in `system`."""
    bare = world.environment
    disk = Disk(system=system)
    disk.plant(bare.files)
    sample = next((bare.files[path] for path in world.members if path in bare.files), None)
    if sample is None:
        return world
    there = disk.process(sample, bare.main, bare.library_path)
    environment = replace(
        there,
        broken={**bare.broken, **there.broken},
        links={**bare.links, **there.links},
        directories=bare.directories | there.directories,
    )
    return replace(
        world,
        environment=environment,
        name=system.folder,
        sysroot=system.folder,
        versions=glibc_of(there.files.values()),
    )


def glibc_of(elfs: Iterable[Elf]) -> Mapping[str, str]:
    """Return the newest version of glibc that its libc.so.6 defines, by its prefix."""
    libc = next((elf for elf in elfs if elf.soname == "libc.so.6"), None)
    versions = [name for name in libc.verdef if name.startswith("GLIBC_2.")] if libc else []
    return {"GLIBC": max(versions, key=release_of).removeprefix("GLIBC_")} if versions else {}


def read_file(path: str | Path) -> Elf | None:
    """Read the ELF object at `path`; None if there is none that can be read."""
    try:
        return _read_elf_file(path)
    except (OSError, BadElfError):
        return None


def _read_elf_file(path: str | Path) -> Elf:
    """Read the ELF object at `path`; raises `OSError` and `BadElfError`."""
    with map_regular(path) as data:
        return read_elf(data, os.fspath(path))


def _absolute(path: str, base: Environment) -> str:
    return path if path.startswith("/") or base.cwd is None else f"{base.cwd}/{path}"


class Disk:
    """Files, links and directories that were read so far, by canonical path. Mutable."""

    def __init__(
        self,
        site: str | None = None,
        read: Callable[[str], Elf] | None = None,
        system: Sysroot = HERE,
    ) -> None:
        """Make an empty one; libraries that `site` links to are read as if they were in it.

        `read` reads an object; raises `OSError` and `BadElfError`. All paths are those of `system`.

        So `uv pip install --link-mode symlink` installs them. For the loader a link is in its own
        directory, too.
        """
        self._site = f"{site}/" if site is not None else None
        self._read_object = read or _read_elf_file
        self._system = system
        self._root = system.folder
        self.files: dict[str, Elf] = {}
        self.broken: dict[str, SearchOutcome] = {}
        self.links: dict[str, str] = {}
        self.hard_links: dict[str, str] = {}
        self.directories: set[str] = set()
        self._opened: dict[tuple[str, str], None] = {}
        """Canonical file and directory it was opened in (`$ORIGIN`), in order of discovery."""
        self._inodes: dict[tuple[int, int], str] = {}
        self._unlisted: set[str] = set()
        """Directories that may be searched, but not listed."""
        self._listings: dict[str, frozenset[str]] = {}
        self._resolved: dict[str, str | None] = {}
        self._plain: dict[str, str] = {}
        """Directories that no link leads to, with their canonical paths."""

    def environment(self, base: Environment, main: str | None) -> Environment:
        """Return `base` with all that was read, and with the program `main`."""
        return replace(
            base,
            files=self.files,
            broken=self.broken,
            links=self.links,
            hard_links=self.hard_links,
            directories=frozenset(self.directories),
            main=main,
        )

    def process(
        self, sample: Elf, main: str | None, library_path: tuple[str, ...] = ()
    ) -> Environment:
        """Read what the objects so far can load; return their process on this machine.

        It has the loader of `sample`. `library_path` are the directories of LD_LIBRARY_PATH.
        """
        loader = self.add(loader_of(sample) or "")
        soname = self.files[loader].soname if loader in self.files and loader else None
        base = replace(
            loader_environment(sample, self._system),
            library_path=library_path,
            loaded={soname: loader} if soname and loader else {},
        )
        self.add_reachable(base, main)
        return self.environment(base, main)

    def add(self, path: str) -> str | None:
        """Read the file at `path`; return its canonical path, None if there is no such file."""
        real = self.resolve(path)
        if real is None or real in self.directories:
            return None
        if real not in self.files and real not in self.broken:
            self._read(real)
        if real in self.files:
            for opened in (path, real):
                # Canonical, as a search path may lead to its own folder in ever longer words.
                origin = self.resolve(opened.rpartition("/")[0] or "/")
                if origin is not None:
                    self._opened[real, origin] = None
        return real

    def plant(self, files: Mapping[str, Elf]) -> None:
        """Add objects that are not on the disk."""
        self.files |= files
        self._opened |= {(path, path.rpartition("/")[0]): None for path in files}

    def add_files(self, directory: str, names: Iterable[str]) -> None:
        """Read those files among `names` that are in `directory`."""
        real, listed = self.resolve(directory), self.listing(directory)
        for name in names if real in self._unlisted else listed.intersection(names):
            self.add(f"{real}/{name}")

    def add_reachable(self, base: Environment, main: str | None = None) -> None:
        """Read every file that DT_NEEDED names in a searched directory, or by its path.

        Relative paths start in the current directory of `base`, if it has one.
        """
        names: set[str] = set()
        library_path = library_path_directories(self.environment(base, main))
        directories = {*base.default_directories, *library_path}
        done: set[tuple[str, str]] = set()
        tried: dict[str, set[str]] = {}
        while fresh := [opened for opened in self._opened if opened not in done]:
            done.update(fresh)
            for path, origin in fresh:
                elf = self.files[path]
                for name in (*elf.needed, *(filtee.name for filtee in elf.filtees)):
                    spelled = needed_name(name, origin, base)
                    if "/" in spelled:
                        self.add(_absolute(spelled, base))
                    else:
                        names.add(spelled)
                for search_path in filter(None, (elf.rpath, elf.runpath)):
                    searched = search_directories(search_path, origin, base)
                    directories.update(directory for _, directory in searched)
            for name in names.intersection(base.cache):
                self.add(base.cache[name])
            there = {self.resolve(_absolute(directory, base)) for directory in directories}
            for directory in filter(None, there):  # which many paths may lead to
                known = tried.setdefault(directory, set())
                new = names - known
                known |= new
                self.add_files(directory, new)
                for subdirectory in base.subdirectories:
                    self.add_files(f"{directory}/{subdirectory}", new)

    def resolve(self, path: str) -> str | None:
        """Return the canonical form of an absolute path, None if there is no such file.

        Links and directories on the way are noted.
        """
        if path not in self._resolved:
            self._resolved[path] = self._walk(path) if path.startswith("/") else None
        return self._resolved[path]

    def listing(self, directory: str) -> frozenset[str]:
        """Return the names in a directory; none if it is absent or may not be read."""
        real = self.resolve(directory)
        if real is None:
            return frozenset()
        if real not in self._listings:
            try:
                names = os.listdir(f"{self._root}{real}")  # noqa: PTH208 - paths are text
            except OSError as error:
                names = []
                if isinstance(error, PermissionError):
                    self._unlisted.add(real)
            self._listings[real] = frozenset(names)
        return self._listings[real]

    def _walk(self, path: str) -> str | None:
        current, rest = self._beginning(path)
        links = 0
        while rest:
            part = rest.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                if not self._is_directory(current or "/"):
                    return None
                current = current.rpartition("/")[0]
                continue
            step = f"{current}/{part}"
            try:
                target = os.readlink(f"{self._root}{step}")  # noqa: PTH115 - text, as the kernel sees it
            except (OSError, ValueError):
                current = step
                continue
            if not rest and self._leads_out(step):
                current = step
                continue
            self.links[step] = target
            links += 1
            if links > MAX_LINKS:
                return None
            current = "" if target.startswith("/") else current
            rest += target.split("/")[::-1]
        if not os.path.lexists(f"{self._root}{current or '/'}"):
            return None
        if not links and self._is_directory(current or "/"):
            self._plain[path] = current
        return current or "/"

    def _beginning(self, path: str) -> tuple[str, list[str]]:
        """Return the directory at which to begin with `path`, and the parts after it, reversed."""
        directory, _, name = path.rpartition("/")
        if directory in self._plain and name not in {"", ".", ".."}:
            return self._plain[directory], [name]
        return "", path.split("/")[::-1]

    def _is_directory(self, path: str) -> bool:
        """Return whether the canonical `path` is a directory, and note it if it is."""
        if path not in self.directories and is_folder(f"{self._root}{path}"):
            self.directories.add(path)
        return path in self.directories

    def _leads_out(self, link: str) -> bool:
        """Return whether `link` is a library in the site, and its file is not."""
        return (
            self._site is not None
            and link.startswith(self._site)
            and is_object_name(link)
            and not os.path.realpath(link).startswith(self._site)
            and is_file(link)
        )

    def _read(self, real: str) -> None:
        try:
            info = os.stat(f"{self._root}{real}")  # noqa: PTH116 - text
            self.files[real] = self._read_object(f"{self._root}{real}")
        except BadElfError as error:
            is_cut = isinstance(error, TruncatedElfError)
            self.broken[real] = SearchOutcome.TRUNCATED if is_cut else SearchOutcome.NOT_ELF
        except (OSError, ValueError):
            return  # no permission, a device: absent for the loader
        else:
            known = self._inodes.setdefault((info.st_dev, info.st_ino), real)
            if known != real:
                self.hard_links[real] = known
