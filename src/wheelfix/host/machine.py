"""The machine at hand, as the model of the loader sees it: a Python, objects, all they can reach.

Read is the closure: every file to which a name that is asked for leads in a directory that is
searched. Nothing is executed but the loader itself, which knows its directories best.
"""

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from wheelfix.elf.model import Elf, Libc, Machine
from wheelfix.errors import ToolError
from wheelfix.host.installed_files import read_file
from wheelfix.loader.model import Environment, SearchOutcome
from wheelfix.loader.search import search_directories
from wheelfix.system.subprocesses import run

_CACHE = Path("/etc/ld.so.cache")
_MAGIC = b"glibc-ld.so.cache1.1"
_FLAGS = {
    (64, Machine.X86_64): 0x303,
    (64, Machine.AARCH64): 0xA03,
    (64, Machine.S390): 0x403,
    (64, Machine.PPC64): 0x503,
}


def describe(
    program: str, objects: Iterable[str], *, library_path: tuple[str, ...] = ()
) -> Environment:
    """Describe the process that `program` is, with `objects` for it to open.

    `program` is an ELF executable that runs here. What cannot be read is left out.
    """
    disk = _Disk()
    main = disk.add(program)
    elf = disk.files.get(main)
    libc = (elf.libc if elf else None) or Libc.GLIBC
    directories, subdirectories = _loader(elf) if elf else ((), ())
    base = Environment(
        libc=libc,
        files=disk.files,
        broken=disk.broken,
        links=disk.links,
        hard_links=disk.hard_links,
        main=main if elf else None,
        library_path=library_path,
        default_directories=directories,
        subdirectories=subdirectories,
        cache=_cache(elf) if elf and libc is Libc.GLIBC else {},
        lib=_lib(elf) if elf else "lib64",
        platform="x86_64" if elf and elf.machine == Machine.X86_64 else None,
    )
    if elf and elf.interpreter:  # the loader itself is in every process, under its SONAME
        loader = disk.add(elf.interpreter)
        name = (disk.files[loader].soname if loader in disk.files else None) or ""
        base = replace(base, loaded={name: loader} if name else {})
    for path in objects:
        disk.add(path)
    _close(disk, base)
    return replace(base, directories=frozenset(disk.directories))


def _close(disk: "_Disk", base: Environment) -> None:
    """Add all that the objects can come to, and what that can come to."""
    names: set[str] = set()
    directories = dict.fromkeys((*base.default_directories, *filter(None, base.library_path)))
    known = -1
    while known != len(disk.opened):
        known = len(disk.opened)
        for path, origin in list(disk.opened):
            elf = disk.files[path]
            names.update(elf.needed)
            for text in (elf.rpath, elf.runpath):
                for _, directory in search_directories(text or "", origin, base) if text else ():
                    directories[directory] = None
        for name in names & set(base.cache):
            disk.add(base.cache[name])
        for directory in directories:
            for sub in ("", *base.subdirectories):
                folder = os.path.join(directory, sub).rstrip("/")  # noqa: PTH118 - text
                for name in names & disk.listing(folder):
                    disk.add(f"{folder}/{name}")


class _Disk:
    """What was read, by canonical path."""

    def __init__(self) -> None:
        self.files: dict[str, Elf] = {}
        self.broken: dict[str, SearchOutcome] = {}
        self.links: dict[str, str] = {}
        self.hard_links: dict[str, str] = {}
        self.directories: set[str] = set()
        self.opened: dict[tuple[str, str], None] = {}
        """Canonical file, and a directory that it was reached in: its `$ORIGIN`."""
        self._inodes: dict[tuple[int, int], str] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._real: dict[str, str] = {"/": "/", "": "/"}

    def add(self, path: str) -> str:
        """Read the file at `path`, unless it is known; return its canonical path."""
        real = self._follow(path)
        if real not in self.files and real not in self.broken:
            self._read(real)
        if real in self.files:
            self.opened[real, path.rpartition("/")[0] or "/"] = None
            self.opened[real, real.rpartition("/")[0] or "/"] = None
        return real

    def listing(self, directory: str) -> frozenset[str]:
        """Return the names in a directory, and note that it is there."""
        if directory not in self._listings:
            names: frozenset[str] = frozenset()
            if directory.startswith("/") and Path(directory).is_dir():
                self.directories.add(self._follow(directory))
                names = frozenset(_names(directory))
            self._listings[directory] = names
        return self._listings[directory]

    def _follow(self, path: str, depth: int = 0) -> str:
        """Return the canonical path, and note the links on the way."""
        if path not in self._real and depth <= 40:  # MAXSYMLINKS
            head, _, name = path.rstrip("/").rpartition("/")
            parent = self._follow(head, depth)
            step = os.path.normpath(os.path.join(parent, name))  # noqa: PTH118 - text
            if Path(step).is_symlink():
                target = self.links[step] = os.readlink(step)  # noqa: PTH115 - text
                step = self._follow(os.path.join(parent, target), depth + 1)  # noqa: PTH118 - text
            self._real[path] = step
        return self._real.get(path, path)

    def _read(self, real: str) -> None:
        elf = read_file(real)
        if elf is None:
            if Path(real).is_file():
                self.broken[real] = SearchOutcome.NOT_ELF
            return
        self.files[real] = elf
        there = Path(real).stat()
        known = self._inodes.setdefault((there.st_dev, there.st_ino), real)
        if known != real:
            self.hard_links[real] = known


def _names(directory: str) -> Iterator[str]:
    try:
        with os.scandir(directory) as entries:
            yield from (entry.name for entry in entries)
    except OSError:
        return


# --- What the loader knows ------------------------------------------------------------------------


def _loader(program: Elf) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the default directories, and the subdirectories tried in every directory."""
    if program.libc is Libc.MUSL:
        return _musl_directories(), ()
    said = _help(program.interpreter)
    if said is not None:
        directories = re.findall(r"^  (/\S*) \(system search path\)$", said, re.MULTILINE)
        levels = re.findall(r"^  (\S+) \(supported, searched\)$", said, re.MULTILINE)
        hwcaps = tuple(f"glibc-hwcaps/{each}" for each in levels if "-v" in each)
        if directories:
            return tuple(directories), hwcaps
    if _lib(program).startswith("lib/"):  # before 2.33 it does not tell
        triplet = _lib(program).removeprefix("lib/")
        return (f"/lib/{triplet}", f"/usr/lib/{triplet}", "/lib", "/usr/lib"), ()
    return ("/lib64", "/usr/lib64"), ()


def _help(interpreter: str | None) -> str | None:
    try:
        return run(
            [interpreter or "", "--help"], env={}, timeout=20, accepted=range(-64, 256)
        ).stdout
    except ToolError:
        return None


def _musl_directories() -> tuple[str, ...]:
    for path in Path("/etc").glob("ld-musl-*.path"):
        return tuple(each for each in re.split(r"[:\n]+", path.read_text("utf-8")) if each)
    return ("/lib", "/usr/local/lib", "/usr/lib")


def _lib(program: Elf) -> str:
    """Return the value of `$LIB`, which Debian has changed."""
    triplets = {Machine.X86_64: "x86_64-linux-gnu", Machine.AARCH64: "aarch64-linux-gnu"}
    triplet = triplets.get(Machine(program.machine)) if program.machine in set(Machine) else None
    if triplet is not None and Path(f"/usr/lib/{triplet}").is_dir():
        return f"lib/{triplet}"
    return "lib64" if program.bits == 64 else "lib"


def _cache(program: Elf) -> dict[str, str]:
    """Read /etc/ld.so.cache (glibc, sysdeps/generic/dl-cache.h): SONAME to path."""
    try:
        data = _CACHE.read_bytes()
    except OSError:
        return {}
    start = data.find(_MAGIC)
    if start < 0:
        return {}
    wanted = _FLAGS.get((program.bits, Machine(program.machine)))
    (count,) = struct.unpack_from("=I", data, start + 20)
    found: dict[str, str] = {}
    for index in range(count):
        flags, key, value, _, hwcap = struct.unpack_from("=iIIIQ", data, start + 48 + 24 * index)
        if (flags == wanted if wanted else flags in {1, 3}) and not hwcap:
            name, path = (data[start + at : data.index(b"\0", start + at)] for at in (key, value))
            found.setdefault(os.fsdecode(name), os.fsdecode(path))
    return found
