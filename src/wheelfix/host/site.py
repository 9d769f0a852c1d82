"""An installed environment as it stands on this machine: files, links, inodes, the interpreter.

Read are the objects of the environment, the interpreter, and whatever the loader could come to
from them: the closure over all names that are asked for and all directories that are searched.
Nothing is executed.
"""

import csv
import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.explain import PlantedLibraries, World
from wheelfix.elf.model import Elf, Libc, Machine
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError, SettingsError
from wheelfix.loader.glibc import hwcaps
from wheelfix.loader.install_schemes import Scheme
from wheelfix.loader.model import Environment, SearchOutcome
from wheelfix.loader.search import search_directories
from wheelfix.loader.targets import TRIPLETS, Target, populate
from wheelfix.wheel.python_searches import MAX_SOURCE, Searches, joined, searches
from wheelfix.wheel.python_source import Budget

_LIBRARY = re.compile(r"\.so(\.|$)")
_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_FLAGS = {
    (64, Machine.X86_64): {0x303},
    (64, Machine.AARCH64): {0xA03},
    (64, Machine.S390): {0x403},
    (64, Machine.PPC64): {0x503},
    (32, Machine.I386): {1, 3},
    (32, Machine.ARM): {0x903, 3},
}
_LEVELS = (
    {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)


def read_site(
    directory: Path,
    *,
    target: Target | None = None,
    library_path: tuple[str, ...] = (),
    directories: tuple[str, ...] = (),
) -> World:
    """Read the environment at `directory`: a venv, a prefix, a site-packages folder.

    The platform and the interpreter are those of this machine, unless `target` describes others.
    Of `directories`, which Python code searches by itself, files are read that have the name of
    an object of the environment.
    Raises `SettingsError` if there is no such directory, or no ELF object in it.
    """
    if not directory.is_dir():
        raise SettingsError(f"`{directory}` is not a directory")
    root = os.path.realpath(directory)
    disk = _Disk()
    members = dict(_members(root, disk))
    if not any(path in disk.files for path in members):
        raise SettingsError(
            f"there is no ELF object below `{directory}`",
            hint="name a virtual environment, a prefix, or a site-packages folder",
        )
    names = {path.rpartition("/")[2] for path in members}
    known = set(disk.files)
    for each in directories:
        real = disk.real(each)
        for name in names & disk.listing(real) if real else ():
            disk.add(f"{each}/{name}")
    beside = frozenset(set(disk.files) - known)
    if target is not None:
        world = _on_target(root, disk, members, target, library_path)
    else:
        world = _on_this_machine(root, disk, members, library_path)
    return replace(world, given=world.given | beside)


def read_searches(folders: Iterable[tuple[Path, str]]) -> Searches:
    """Return what the sources of packages search for libraries; `folders` are where each stands."""
    found: list[Searches] = []
    effort = Budget()
    for folder, package in folders:
        for path in sorted((folder / package).rglob("*.py")):
            name = str(path.relative_to(folder))
            with suppress(OSError):
                if path.stat().st_size > MAX_SOURCE:
                    found.append(Searches(unfollowed=(name,)))
                elif path.is_file():
                    found.append(searches(path.read_bytes(), name, effort))
    return joined(found)


def of_distribution(world: World, name: str) -> World:
    """Return `world` with the objects of one distribution as members, and the rest as others.

    Raises `SettingsError` if no distribution of that name is installed there.
    """
    wanted = _normal(name)
    found = [
        path
        for path in sorted(Path(world.where).rglob("*.dist-info"))
        if _normal(path.name.removesuffix(".dist-info").partition("-")[0]) == wanted
    ]
    if not found:
        raise SettingsError(
            f"no distribution `{name}` is installed below `{world.where}`",
            hint="without a name, all of them are shown",
        )
    own = {path for folder in found for path in _recorded(folder)}
    return replace(
        world,
        members={path: member for path, member in world.members.items() if path in own},
        others={path: member for path, member in world.members.items() if path not in own},
    )


def _recorded(dist_info: Path) -> Iterator[str]:
    """Yield the files that RECORD names, by their canonical paths."""
    try:
        text = (dist_info / "RECORD").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    for row in csv.reader(text.splitlines()):
        if row:
            yield os.path.realpath(dist_info.parent / row[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def sizes_of(world: World) -> dict[str, int]:
    """Return the sizes of the members in bytes, by name."""
    found: dict[str, int] = {}
    for path, member in world.members.items():
        with suppress(OSError):
            found[member] = Path(path).stat().st_size
    return found


def planted(directories: Iterable[str]) -> PlantedLibraries:
    """Read the objects that stand in `directories`, those of an LD_LIBRARY_PATH."""
    disk = _Disk()
    for directory in directories:
        real = disk.real(directory) if directory.startswith("/") else None
        for name in disk.listing(real) if real else ():
            if _LIBRARY.search(name):
                disk.add(f"{directory}/{name}")
    return PlantedLibraries(
        files=disk.files,
        broken=disk.broken,
        links=disk.links,
        directories=frozenset(disk.directories),
    )


def _members(root: str, disk: "_Disk") -> Iterator[tuple[str, str]]:
    """Add every object below `root`, and yield its path and the name to call it by."""
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
    """Return the Python of the environment that `root` is or lies in."""
    prefix = root
    for _ in range(6):
        for name in ("python3", "python"):
            path = f"{prefix}/bin/{name}"
            if os.access(path, os.X_OK):
                return os.path.realpath(path)
        prefix = os.path.dirname(prefix)  # noqa: PTH120 - text, as the loader sees it
    return None


def _on_this_machine(
    root: str, disk: "_Disk", members: dict[str, str], library_path: tuple[str, ...]
) -> World:
    program = _interpreter(root)
    main = disk.add(program) if program else None
    if main not in disk.files:
        main = None
    sample = disk.files[main] if main else next(disk.files[p] for p in members if p in disk.files)
    libc = sample.libc or Libc.GLIBC
    base = Environment(
        libc=libc,
        files={},
        default_directories=_default_directories(sample, libc),
        cache=_cache(sample) if libc is Libc.GLIBC else {},
        lib=_lib(sample),
        subdirectories=hwcaps(_cpu_level()) if sample.machine == Machine.X86_64 else (),
        library_path=library_path,
    )
    base = replace(base, loaded=_loader(sample, disk))
    before = set(disk.files)
    _close(disk, base)
    environment = disk.environment(base, main)
    pythons = {main, *_beside(main, disk.files)} - {None} if main else set[str]()
    return World(
        environment=environment,
        members=members,
        pythons=frozenset(filter(None, pythons)) - set(members),
        given=frozenset(
            path
            for path in set(disk.files) - before
            if any(path.startswith(f"{os.path.realpath(each)}/") for each in library_path if each)
        ),
        name="this machine",
        where=root,
        versions=_versions(environment.files.values()),
    )


def _loader(sample: Elf, disk: "_Disk") -> dict[str, str]:
    """Return the dynamic loader, which answers to its SONAME before anything is loaded."""
    real = disk.add(sample.interpreter) if sample.interpreter else None
    soname = disk.files[real].soname if real in disk.files and real else None
    return {soname: real} if soname and real else {}


def _beside(main: str, files: Mapping[str, Elf]) -> Iterator[str]:
    prefix = main.rpartition("/bin/")[0]
    if prefix not in {"", "/usr"}:
        yield from (path for path in files if path.startswith(f"{prefix}/"))


def _on_target(
    root: str,
    disk: "_Disk",
    members: dict[str, str],
    target: Target,
    library_path: tuple[str, ...],
) -> World:
    sample = next(disk.files[path] for path in members if path in disk.files)
    python = re.search(r"/lib\d*/(python[\d.]+t?)/", "\n".join([root + "/", *disk.files]))
    base = Environment(libc=target.libc, files={}, library_path=library_path)
    own = set(disk.files)
    _close(disk, base)
    scheme = Scheme(
        name="site",
        python=python[1] if python else "python3",
        root=root,
        purelib=root,
        platlib=root,
        data=root,
        scripts=f"{root}/bin",
        headers=root,
    )
    environment = populate(
        disk.environment(base, None),
        target,
        scheme,
        sample.abi,
        library_path or None,
    )
    return World(
        environment=environment,
        members=members,
        given=frozenset(set(disk.files) - own),
        pythons=frozenset({environment.main} if environment.main else ()),
        name=target.name,
        where=root,
        versions=target.versions,
        packages=target.packages,
    )


# --- What can be reached ------------------------------------------------------------------------


def _close(disk: "_Disk", base: Environment) -> None:
    """Add every file that some name in some search path could lead to."""
    names: set[str] = set()
    directories = {*base.default_directories, *filter(None, base.library_path)}
    seen: set[tuple[str, str]] = set()
    wanted = set(base.cache)
    while True:
        fresh = [opened for opened in disk.opened if opened not in seen]
        if not fresh:
            return
        seen.update(fresh)
        for path, origin in fresh:
            elf = disk.files[path]
            names.update(elf.needed)
            for tag in (elf.rpath, elf.runpath):
                if tag:
                    directories.update(text for _, text in search_directories(tag, origin, base))
        for name in names & wanted:
            disk.add(base.cache[name])
        for directory in directories:
            for sub in ("", *(f"/{each}" for each in base.subdirectories)):
                real = disk.real(directory + sub) if directory.startswith("/") else None
                for name in names & disk.listing(real) if real else ():
                    disk.add(f"{directory}{sub}/{name}")


class _Disk:
    """What was read of the file system, with canonical paths."""

    def __init__(self) -> None:
        self.files: dict[str, Elf] = {}
        self.broken: dict[str, SearchOutcome] = {}
        self.links: dict[str, str] = {}
        self.directories: set[str] = set()
        self.opened: dict[tuple[str, str], None] = {}
        """Canonical file and the directory it was opened in, in the order of discovery."""
        self._inodes: dict[tuple[int, int], str] = {}
        self._hard_links: dict[str, str] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._known: dict[str, str | None] = {}

    def environment(self, base: Environment, main: str | None) -> Environment:
        """Return `base` with all that was read."""
        return replace(
            base,
            files=self.files,
            broken=self.broken,
            links=self.links,
            hard_links=self._hard_links,
            directories=frozenset(self.directories),
            main=main,
        )

    def add(self, path: str) -> str | None:
        """Read the file at `path` and note the links on its way; return its canonical path."""
        real = self.real(path)
        if real is None or real in self.directories:
            return None
        if real not in self.files and real not in self.broken:
            self._read(real)
        if real in self.files:
            self.opened[real, path.rpartition("/")[0]] = None
            self.opened[real, real.rpartition("/")[0]] = None
        return real

    def real(self, path: str) -> str | None:
        """Return the canonical path of what is there, and note links and directories."""
        if path not in self._known:
            self._known[path] = self._walk(path)
        return self._known[path]

    def listing(self, directory: str) -> frozenset[str]:
        """Return the names in a canonical directory; none if it may not be read."""
        if directory not in self._listings:
            try:
                self._listings[directory] = frozenset(os.listdir(directory))  # noqa: PTH208 - text
            except OSError:
                self._listings[directory] = frozenset()
        return self._listings[directory]

    def _walk(self, path: str) -> str | None:
        current, rest, links = "", path.split("/")[::-1], 0
        while rest:
            part = rest.pop()
            if part in {"", "."}:
                continue
            if part == "..":
                current = current.rpartition("/")[0]
                continue
            step = f"{current}/{part}"
            try:
                target = os.readlink(step)  # noqa: PTH115 - text, as the kernel sees it
            except OSError:
                current = step
                continue
            self.links[step] = target
            links += 1
            if links > 40:  # MAXSYMLINKS
                return None
            current = "" if target.startswith("/") else current
            rest += target.split("/")[::-1]
        if not os.path.lexists(current or "/"):
            return None
        if Path(current or "/").is_dir():
            self.directories.add(current or "/")
        return current or "/"

    def _read(self, real: str) -> None:
        try:
            with open(real, "rb") as file:  # noqa: PTH123 - a path as text, of a plain file
                info = os.fstat(file.fileno())
                if not info.st_size:
                    self.broken[real] = SearchOutcome.NOT_ELF
                    return
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                    if data[:4] != b"\x7fELF":
                        self.broken[real] = SearchOutcome.NOT_ELF
                        return
                    self.files[real] = read_elf(data, real)
        except BadElfError:
            self.broken[real] = SearchOutcome.NOT_ELF
        except (OSError, ValueError):
            return  # no permission, a device: the loader passes over it
        else:
            key = (info.st_dev, info.st_ino)
            known = self._inodes.setdefault(key, real)
            if known != real:
                self._hard_links[real] = known


# --- This machine -------------------------------------------------------------------------------


def _default_directories(sample: Elf, libc: Libc) -> tuple[str, ...]:
    triplet = TRIPLETS.get(sample.machine, "unknown")
    if libc is Libc.MUSL:
        try:
            text = Path(f"/etc/ld-musl-{triplet.partition('-')[0]}.path").read_text("utf-8")
        except OSError:
            return ("/lib", "/usr/local/lib", "/usr/lib")
        return tuple(each for each in re.split(r"[:\n]+", text) if each)
    if Path(f"/usr/lib/{triplet}").is_dir():
        return (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib", "/usr/lib")
    return ("/lib64", "/usr/lib64") if sample.bits == 64 else ("/lib", "/usr/lib")


def _lib(sample: Elf) -> str:
    triplet = TRIPLETS.get(sample.machine, "unknown")
    if Path(f"/usr/lib/{triplet}").is_dir():
        return f"lib/{triplet}"
    return "lib64" if sample.bits == 64 else "lib"


def _cache(sample: Elf) -> dict[str, str]:
    """Read /etc/ld.so.cache: the first entry of each name for the machine (glibc's dl-cache.h)."""
    try:
        data = _CACHE.read_bytes()
    except OSError:
        return {}
    return parse_cache(data, (sample.bits, sample.machine))


def parse_cache(data: bytes, machine: tuple[int, int]) -> dict[str, str]:
    """Return name to path for `machine` (bits and `e_machine`); nothing if it is no cache."""
    start = data.find(_CACHE_MAGIC)
    if start < 0 or len(data) < start + 48:
        return {}
    flags = {number: kinds for (bits, number), kinds in _CACHE_FLAGS.items() if bits == machine[0]}
    usable = flags.get(Machine(machine[1]) if machine[1] in set(Machine) else Machine.ARM, {3})
    count = struct.unpack_from("=I", data, start + 20)[0]
    found: dict[str, str] = {}
    for index in range(min(count, (len(data) - start - 48) // 24)):
        kind, key, value, _, hwcap = struct.unpack_from("=iIIIQ", data, start + 48 + 24 * index)
        if kind in usable and not hwcap:
            found.setdefault(_text(data, start + key), _text(data, start + value))
    return found


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at : max(data.find(b"\0", at), at)])


def _cpu_level() -> int:
    """Return the x86-64 level of this processor (x86-64 psABI, "Micro-Architecture Levels")."""
    try:
        text = Path("/proc/cpuinfo").read_text("utf-8")
    except OSError:
        return 1
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    flags = set(match[1].split()) if match else set[str]()
    level = 1
    for needed in _LEVELS:
        if not needed <= flags:
            break
        level += 1
    return level


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
