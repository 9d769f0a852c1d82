"""Files of this machine as its dynamic loader sees them: paths, links, search directories.

The closure is read: every file that some DT_NEEDED name leads to in some searched directory. What
cannot be opened is absent, as it is for the loader. Nothing is executed.
"""

import errno
import itertools
import mmap
import os
import re
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from glob import glob
from pathlib import Path

from wheelfix.elf.model import Elf, Libc, Machine
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError
from wheelfix.loader.glibc import hwcaps
from wheelfix.loader.model import Environment, SearchOutcome
from wheelfix.loader.search import search_directories
from wheelfix.loader.targets import TRIPLETS

_MAX_SYMLINKS = 40
"""Links followed for one path: MAXSYMLINKS of the kernel."""
_MAX_INCLUDES = 8
"""Depth of ld.so.conf files that include each other."""
_MAX_BYTES = 1 << 24
"""Bytes read of a loader, a cache or a configuration file."""
_CONFIG = "/etc/ld.so.conf"
_CACHE = Path("/etc/ld.so.cache")
_CACHE_MAGIC = b"glibc-ld.so.cache1.1"
_CACHE_FLAGS: dict[tuple[int, int], frozenset[int]] = {
    (64, Machine.X86_64): frozenset({0x303}),
    (64, Machine.AARCH64): frozenset({0xA03}),
    (64, Machine.S390): frozenset({0x403}),
    (64, Machine.PPC64): frozenset({0x503}),
    (64, Machine.RISCV): frozenset({0x1003}),
    (64, Machine.LOONGARCH): frozenset({0x1203}),
    (32, Machine.ARM): frozenset({0x903, 3}),
}
"""Flags of usable entries by word size and `e_machine` (glibc, dl-cache.h of each machine)."""
_DEFAULT_FLAGS = frozenset({1, 3})
_LOADERS: dict[int, tuple[str, str]] = {
    Machine.X86_64: ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"),
    Machine.I386: ("/lib/ld-linux.so.2", "/lib/ld-musl-i386.so.1"),
    Machine.AARCH64: ("/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"),
    Machine.ARM: ("/lib/ld-linux-armhf.so.3", "/lib/ld-musl-armhf.so.1"),
    Machine.PPC64: ("/lib64/ld64.so.2", "/lib/ld-musl-powerpc64le.so.1"),
    Machine.S390: ("/lib/ld64.so.1", "/lib/ld-musl-s390x.so.1"),
    Machine.RISCV: ("/lib/ld-linux-riscv64-lp64d.so.1", "/lib/ld-musl-riscv64.so.1"),
    Machine.LOONGARCH: (
        "/lib64/ld-linux-loongarch-lp64d.so.1",
        "/lib/ld-musl-loongarch64.so.1",
    ),
}
"""PT_INTERP of a program of glibc, and of one of musl."""
_PLATFORMS: dict[int, str] = {Machine.X86_64: "x86_64", Machine.AARCH64: "aarch64"}
"""AT_PLATFORM (getauxval(3)), where it is the same on all processors of a machine."""
_X86_64_LEVELS = (
    {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)
"""Flags of /proc/cpuinfo for the levels 2, 3 and 4 (x86-64 psABI, "Micro-Architecture Levels")."""
_SYSTEM_DIRECTORIES = re.compile(rb"(?:/(?:[\w.+-]+/)+\0)+")
"""`system_dirs` in glibc's loader (elf/dl-load.c): strings that begin and end with a slash."""


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


def read_file(path: str | Path) -> Elf | None:
    """Read the ELF object at `path`; None if there is none that can be read."""
    try:
        return _read_elf_file(path)
    except (OSError, BadElfError):
        return None


def _read_elf_file(path: str | Path) -> Elf:
    """Read the ELF object at `path`; raises `OSError` and `BadElfError`."""
    if not os.path.isfile(path):  # noqa: PTH113 - a FIFO or a device must not be opened
        raise FileNotFoundError(errno.ENOENT, "no regular file", os.fspath(path))
    with open(path, "rb") as file:  # noqa: PTH123 - the path may be text
        try:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError as error:
            raise BadElfError(f"`{path}` is empty") from error
        with data:
            return read_elf(data, os.fspath(path))


class Disk:
    """Files, links and directories that were read so far, by canonical path. Mutable."""

    def __init__(self) -> None:
        self.files: dict[str, Elf] = {}
        self.broken: dict[str, SearchOutcome] = {}
        self.links: dict[str, str] = {}
        self.hard_links: dict[str, str] = {}
        self.directories: set[str] = set()
        self._opened: dict[tuple[str, str], None] = {}
        """Canonical file and a directory it was opened in (`$ORIGIN`), in order of discovery."""
        self._inodes: dict[tuple[int, int], str] = {}
        self._listings: dict[str, frozenset[str]] = {}
        self._resolved: dict[str, str | None] = {}

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
        """Read what the objects read so far can load; return their process on this machine.

        The loader, loaded in every process, is that of `sample`. `library_path` are the directories
        of LD_LIBRARY_PATH.
        """
        loader = self.add(loader_of(sample) or "")
        soname = self.files[loader].soname if loader in self.files and loader else None
        base = replace(
            loader_environment(sample),
            library_path=library_path,
            loaded={soname: loader} if soname and loader else {},
        )
        self.add_reachable(base)
        return self.environment(base, main)

    def add(self, path: str) -> str | None:
        """Read the file at `path`; return its canonical path, None if there is no such file."""
        real = self.resolve(path)
        if real is None or real in self.directories:
            return None
        if real not in self.files and real not in self.broken:
            self._read(real)
        if real in self.files:
            self._opened[real, path.rpartition("/")[0] or "/"] = None
            self._opened[real, real.rpartition("/")[0] or "/"] = None
        return real

    def add_listed(self, directory: str, names: Iterable[str]) -> None:
        """Read those files among `names` that are in `directory`."""
        for name in self.listing(directory).intersection(names):
            self.add(f"{directory}/{name}")

    def add_reachable(self, base: Environment) -> None:
        """Read every file that some DT_NEEDED name in some search path could lead to."""
        names: set[str] = set()
        directories = {*base.default_directories, *base.library_path}
        done: set[tuple[str, str]] = set()
        while fresh := [opened for opened in self._opened if opened not in done]:
            done.update(fresh)
            for path, origin in fresh:
                elf = self.files[path]
                names.update(elf.needed)
                for search_path in filter(None, (elf.rpath, elf.runpath)):
                    found = search_directories(search_path, origin, base)
                    directories.update(directory for _, directory in found)
            for name in names.intersection(base.cache):
                self.add(base.cache[name])
            for directory in directories:
                self.add_listed(directory, names)
                for subdirectory in base.subdirectories:
                    self.add_listed(f"{directory}/{subdirectory}", names)

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
            names: list[str] = []
            with suppress(OSError):
                names = os.listdir(real)  # noqa: PTH208 - text
            self._listings[real] = frozenset(names)
        return self._listings[real]

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
            except (OSError, ValueError):
                current = step
                continue
            self.links[step] = target
            links += 1
            if links > _MAX_SYMLINKS:
                return None
            current = "" if target.startswith("/") else current
            rest += target.split("/")[::-1]
        if not os.path.lexists(current or "/"):
            return None
        if os.path.isdir(current or "/"):  # noqa: PTH112 - text
            self.directories.add(current or "/")
        return current or "/"

    def _read(self, real: str) -> None:
        try:
            info = os.stat(real)  # noqa: PTH116 - text
            self.files[real] = _read_elf_file(real)
        except BadElfError:
            self.broken[real] = SearchOutcome.NOT_ELF
        except (OSError, ValueError):
            return  # no permission, a device: absent for the loader
        else:
            known = self._inodes.setdefault((info.st_dev, info.st_ino), real)
            if known != real:
                self.hard_links[real] = known


# --- What the loader searches ---------------------------------------------------------------------


def loader_of(sample: Elf) -> str | None:
    """Return the path of the dynamic loader for `sample`, None on an unknown machine."""
    if sample.interpreter:
        return sample.interpreter
    glibc, musl = _LOADERS.get(sample.machine, (None, None))
    return musl if sample.libc is Libc.MUSL else glibc


def loader_environment(sample: Elf) -> Environment:
    """Return an environment without files in which the loader of `sample` searches."""
    loader = loader_of(sample)
    if sample.libc is Libc.MUSL:
        return Environment(
            libc=Libc.MUSL, files={}, default_directories=_musl_directories(loader or "")
        )
    data = _bytes(loader or "")
    searches_hwcaps = sample.machine == Machine.X86_64 and b"glibc-hwcaps" in data
    return Environment(
        libc=Libc.GLIBC,
        files={},
        default_directories=_glibc_directories(sample, data),
        cache=parse_cache(_bytes(_CACHE), (sample.bits, sample.machine)),
        lib=_lib(sample),
        platform=_PLATFORMS.get(sample.machine),
        subdirectories=hwcaps(_cpu_level()) if searches_hwcaps else (),
    )


def configured_directories() -> tuple[str, ...]:
    """Return the directories of /etc/ld.so.conf (ldconfig(8)), with what it includes."""
    return tuple(dict.fromkeys(_configured(_CONFIG, _MAX_INCLUDES)))


def _configured(path: str, depth: int) -> Iterator[str]:
    for line in _bytes(path).decode("utf-8", "replace").splitlines():
        words = line.partition("#")[0].replace(",", " ").split()
        if words[:1] == ["include"] and depth:
            for pattern in words[1:]:
                for included in sorted(glob(str(Path(path).parent / pattern))):  # noqa: PTH207 - as glob(3)
                    yield from _configured(included, depth - 1)
        else:
            yield from (word for word in words if word.startswith("/"))


def _bytes(path: str | Path) -> bytes:
    """Return the content of a regular file; nothing if it cannot be read."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - a FIFO or a device must not be opened
            return b""
        with open(path, "rb") as file:  # noqa: PTH123 - the path may be text
            return file.read(_MAX_BYTES)
    except (OSError, ValueError):
        return b""


def _glibc_directories(sample: Elf, loader: bytes) -> tuple[str, ...]:
    """Return the default directories compiled into `loader`, the bytes of an ld.so.

    The usual ones if it has none.
    """
    found = max(_SYSTEM_DIRECTORIES.findall(loader), key=len, default=b"")
    if found:
        return tuple(os.fsdecode(path).rstrip("/") for path in found.split(b"\0") if path)
    lib = _lib(sample)
    return tuple(dict.fromkeys((f"/{lib}", f"/usr/{lib}", "/lib", "/usr/lib")))


def _musl_directories(loader: str) -> tuple[str, ...]:
    """Return the directories of `etc/ld-musl-ARCH.path` beside the `lib` that has the loader."""
    config = Path(loader).parent.parent / "etc" / f"{Path(loader).name.partition('.')[0]}.path"
    text = os.fsdecode(_bytes(config))
    found = tuple(filter(None, re.split(r"[:\n]+", text)))
    return found or ("/lib", "/usr/local/lib", "/usr/lib")


def _lib(sample: Elf) -> str:
    """Return the value of `$LIB`, which Debian sets to the multiarch directory."""
    triplet = TRIPLETS.get(sample.machine)
    if triplet is not None and os.path.isdir(f"/usr/lib/{triplet}"):  # noqa: PTH112 - text
        return f"lib/{triplet}"
    return "lib64" if sample.bits == 64 else "lib"


def parse_cache(data: bytes, machine: tuple[int, int]) -> dict[str, str]:
    """Return SONAME to path for `machine` (word size, `e_machine`); nothing if it is no cache.

    Of each name the first entry counts that is not for a hwcaps subdirectory (glibc, dl-cache.h).
    """
    start = data.find(_CACHE_MAGIC)
    if start < 0 or len(data) < start + 48:
        return {}
    usable = _CACHE_FLAGS.get(machine, _DEFAULT_FLAGS)
    count = struct.unpack_from("=I", data, start + 20)[0]
    found: dict[str, str] = {}
    for index in range(min(count, (len(data) - start - 48) // 24)):
        flags, key, value, _, hwcap = struct.unpack_from("=iIIIQ", data, start + 48 + 24 * index)
        if flags in usable and not hwcap:
            found.setdefault(_text(data, start + key), _text(data, start + value))
    return found


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at : max(data.find(b"\0", at), at)])


def _cpu_level() -> int:
    """Return the x86-64 level of this processor, 1 to 4."""
    text = _bytes("/proc/cpuinfo").decode("utf-8", "replace")
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    flags = set(match[1].split()) if match else set[str]()
    met = itertools.takewhile(flags.issuperset, _X86_64_LEVELS)
    return 1 + len(list(met))
