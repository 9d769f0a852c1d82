"""Dynamic loaders of this machine: paths, default directories, `$LIB`, and their files.

These are ld.so.conf and ld.so.cache of glibc, and ld-musl-ARCH.path of musl.
"""

import itertools
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from glob import glob
from pathlib import Path

from wheelfix.elf.model import Elf, Libc, Machine
from wheelfix.host.machine_files import MAX_TEXT, read_regular
from wheelfix.host.sysroot import HERE, Sysroot
from wheelfix.loader.glibc_search import hwcaps
from wheelfix.loader.load_values import Environment
from wheelfix.loader.machine_names import (
    GLIBC_DIRECTORIES,
    LEGACY_SUBDIRECTORIES_END,
    MACHINES,
    MUSL_DIRECTORIES,
    legacy_subdirectories,
    lib_value,
    usual_loader,
)
from wheelfix.loader.musl_search import SEPARATORS
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_folder

_MAX_DIRECTORIES = 5000
"""Directories of ld.so.conf: more than any machine has."""
_CONFIG = "/etc/ld.so.conf"
_CACHE = "/etc/ld.so.cache"
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
_HWCAP_EXTENSION = 1 << 62
"""Bit of `hwcap` in entries for glibc-hwcaps: the low word is the index of the name."""
_EXTENSION_MAGIC = 0xEAA42174
_EXTENSION_HWCAPS = 1
"""Tag of the section that lists the names of glibc-hwcaps (`cache_extension_tag_glibc_hwcaps`)."""
_LEGACY_BITS = {"x86_64": 1 << 1, "avx512_1": 1 << 2, "haswell": 1 << 50, "xeon_phi": 1 << 51}
_LEGACY_TLS = 1 << 63
"""Bits of `hwcap` in entries for other subdirectories, before glibc 2.37 (x86 dl-procinfo.h)."""
_PLATFORMS: dict[int, str] = {Machine.X86_64: "x86_64", Machine.AARCH64: "aarch64"}
"""AT_PLATFORM (getauxval(3)), where it is the same on all processors of a machine."""
_HASWELL = {"avx2", "bmi1", "bmi2", "abm", "movbe", "popcnt"}
_XEON_PHI = {"avx512cd", "avx512er", "avx512pf"}
_AVX512_1 = {"avx512cd", "avx512bw", "avx512dq", "avx512vl"}
"""Flags by which glibc names Intel's processors (sysdeps/x86/cpu-features.c)."""
_RELEASE = lazy_pattern(rb"release version (\d+)\.(\d+)")
_FLAGS_OF_LEVELS = (
    {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"},
    {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"},
    {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"},
)
"""Flags of /proc/cpuinfo for the levels 2, 3 and 4 (x86-64 psABI, "Micro-Architecture Levels")."""
_SYSTEM_DIRECTORIES = lazy_pattern(rb"/(?>(?:[\w.+-]+/)+)(?:\0(?>(?:/(?>(?:[\w.+-]+/)+)\0)*))?")
"""`system_dirs` in glibc's loader (elf/dl-load.c): strings that begin and end with a slash.

A pattern that begins with a character is searched for 70 times as fast as a repetition. A path
that no NUL follows is matched, too, so that it is read once. Groups are atomic, as possessive
repetitions of groups match wrongly before Python 3.11.5 (gh-106052).
"""


def loader_of(sample: Elf) -> str | None:
    """Return the path of the dynamic loader for `sample`, None on an unknown machine."""
    return sample.interpreter or usual_loader(sample.abi, sample.libc)


def loader_environment(sample: Elf, system: Sysroot = HERE) -> Environment:
    """Return an environment without files in which the loader of `sample` searches in `system`.

    On which processor that of a folder runs is not known: it is one of the lowest level.
    """
    loader = loader_of(sample)
    if sample.libc is Libc.BIONIC:
        return Environment(libc=Libc.BIONIC, files={})  # it is on no machine that builds
    if sample.libc is Libc.MUSL:
        return Environment(
            libc=Libc.MUSL, files={}, default_directories=_musl_directories(loader or "", system)
        )
    data = _bytes(loader or "", system)
    processor = _processor() if system == HERE else _LOWEST
    subdirectories: tuple[str, ...] = ()
    if sample.machine == Machine.X86_64:
        subdirectories = hwcaps(processor.level) if b"glibc-hwcaps" in data else ()
        if _has_legacy_subdirectories(data):
            subdirectories += legacy_subdirectories(processor.legacy_names)
    return Environment(
        libc=Libc.GLIBC,
        files={},
        default_directories=_glibc_directories(sample, data, system),
        cache=parse_cache(_bytes(_CACHE, system), (sample.bits, sample.machine), subdirectories),
        lib=lib_directory(sample, system),
        platform=processor.platform
        if sample.machine == Machine.X86_64
        else _PLATFORMS.get(sample.machine),
        subdirectories=subdirectories,
    )


def configured_directories(system: Sysroot = HERE) -> dict[str, str]:
    """Return the directories of /etc/ld.so.conf (ldconfig(8)) of `system`, and of what it includes.

    Each has the file and the line that names it first: `/etc/ld.so.conf.d/libc.conf:2`.
    """
    directories: dict[str, str] = {}
    lines = _read_configuration(_CONFIG, system)
    for directory, place in itertools.islice(lines, _MAX_DIRECTORIES):
        directories.setdefault(directory, place)
    return directories


def _read_configuration(path: str, system: Sysroot) -> Iterator[tuple[str, str]]:
    """Yield the directories of a file, and of what it includes, each with its place.

    Files may include each other more deeply than Python calls functions.
    """
    read = set[str]()
    waiting = [_read_lines(path, read, system)]
    while waiting:
        for directory, place in waiting[-1]:
            if not directory:
                waiting.append(_read_lines(place, read, system))
                break
            yield directory, place
        else:
            waiting.pop()


def _read_lines(path: str, read: set[str], system: Sysroot) -> Iterator[tuple[str, str]]:
    """Yield the directories of a file with their places, and "" with each file that it includes.

    Each file, and pattern, is read once.
    """
    real = os.path.realpath(system.place(path))  # its names have no end: `../etc/ld.so.conf`
    if real in read:
        return
    read.add(real)
    lines = _bytes(path, system).decode("utf-8", "replace").splitlines()
    for number, line in enumerate(lines, 1):
        words = re.split("[#\0]", line)[0].replace(",", " ").split()  # a NUL ends a C string
        if words[:1] == ["include"]:
            for pattern in words[1:]:
                relative = os.path.join(os.path.dirname(path), pattern).lstrip("/")  # noqa: PTH118, PTH120 - text
                files = [] if relative in read else glob(relative, root_dir=f"{system.folder}/")  # noqa: PTH207 - as glob(3)
                read.add(relative)
                yield from (("", f"/{included}") for included in sorted(files))
        else:
            yield from ((word, f"{path}:{number}") for word in words if word.startswith("/"))


def _bytes(path: str, system: Sysroot = HERE) -> bytes:
    """Return the content of a regular file of `system`; nothing if it cannot be read."""
    try:
        return read_regular(system.place(path), MAX_TEXT)
    except OSError:
        return b""


def _glibc_directories(sample: Elf, loader: bytes, system: Sysroot) -> tuple[str, ...]:
    """Return the default directories compiled into `loader`, the bytes of an ld.so.

    The usual ones if it has none.
    """
    paths = (text for text in _SYSTEM_DIRECTORIES.findall(loader) if text.endswith(b"\0"))
    longest = max(paths, key=len, default=b"")
    if longest:
        return tuple(os.fsdecode(path).rstrip("/") for path in longest.split(b"\0") if path)
    lib = lib_directory(sample, system)
    return tuple(dict.fromkeys((f"/{lib}", f"/usr/{lib}", *GLIBC_DIRECTORIES)))


def _musl_directories(loader: str, system: Sysroot) -> tuple[str, ...]:
    """Return the directories of `etc/ld-musl-ARCH.path` beside the `lib` that has the loader."""
    config = Path(loader).parent.parent / "etc" / f"{Path(loader).name.partition('.')[0]}.path"
    text = os.fsdecode(_bytes(str(config), system).partition(b"\0")[0])  # a C string
    directories = tuple(filter(None, SEPARATORS.split(text)))
    return directories or MUSL_DIRECTORIES


def lib_directory(sample: Elf, system: Sysroot = HERE) -> str:
    """Return the value of `$LIB` in `system`."""
    known = MACHINES.get(sample.abi)
    if known is not None and is_folder(system.place(f"/usr/lib/{known.triplet}")):
        return lib_value(sample.bits, known.triplet)
    return lib_value(sample.bits)


@lru_cache(maxsize=4)
def parse_cache(
    data: bytes, machine: tuple[int, int], subdirectories: tuple[str, ...] = ()
) -> Mapping[str, str]:
    """Return SONAME to path for `machine` (word size, `e_machine`); nothing for another file.

    Of the entries of a name, the one for the first of `subdirectories` in glibc-hwcaps counts, or
    else the first one that is usable (`search_cache` in glibc's elf/dl-cache.c).
    """
    start = data.find(_CACHE_MAGIC)
    if start < 0 or len(data) < start + 48:
        return {}
    usable = _CACHE_FLAGS.get(machine, _DEFAULT_FLAGS)
    count = struct.unpack_from("=I", data, start + 20)[0]
    priorities = {
        number: subdirectories.index(f"glibc-hwcaps/{name}")
        for number, name in enumerate(_hwcaps_in_cache(data, start))
        if f"glibc-hwcaps/{name}" in subdirectories
    }
    legacy = _usable_legacy_bits(subdirectories)
    best: dict[str, tuple[int, str]] = {}
    for index in range(min(count, (len(data) - start - 48) // 24)):
        flags, key, value, _, hwcap = struct.unpack_from("=iIIIQ", data, start + 48 + 24 * index)
        if flags not in usable:
            continue
        if hwcap & _HWCAP_EXTENSION:
            if hwcap & 0xFFFFFFFF not in priorities:
                continue
            priority = priorities[hwcap & 0xFFFFFFFF]
        elif hwcap & ~legacy:
            continue
        else:
            priority = len(subdirectories)
        soname = _text(data, start + key)
        if soname not in best or priority < best[soname][0]:
            best[soname] = priority, _text(data, start + value)
    return {soname: path for soname, (_, path) in best.items()}


def _hwcaps_in_cache(data: bytes, start: int) -> Iterator[str]:
    """Yield the names of glibc-hwcaps by their index (`struct cache_extension`)."""
    at = start + struct.unpack_from("=I", data, start + 32)[0]
    if at == start or at + 8 > len(data):
        return
    magic, count = struct.unpack_from("=II", data, at)
    if magic != _EXTENSION_MAGIC:
        return
    for section in range(at + 8, min(at + 8 + 16 * count, len(data) - 15), 16):
        tag, _, offset, size = struct.unpack_from("=IIII", data, section)
        if tag == _EXTENSION_HWCAPS:
            table = data[start + offset : start + offset + size]
            whole = table[: len(table) // 4 * 4]  # the file may be cut off
            yield from (_text(data, start + name) for (name,) in struct.iter_unpack("=I", whole))


def _usable_legacy_bits(subdirectories: Sequence[str]) -> int:
    if "tls" not in subdirectories:
        return 0
    return _LEGACY_TLS | sum(bit for name, bit in _LEGACY_BITS.items() if name in subdirectories)


def _text(data: bytes, at: int) -> str:
    return os.fsdecode(data[at : max(data.find(b"\0", at), at)])


class _Processor(NamedTuple):
    """An x86-64 processor, as glibc's loader names it."""

    level: int
    """1 to 4 (x86-64 psABI)."""
    platform: str
    """The value of `$PLATFORM`."""
    legacy_names: tuple[str, ...]
    """Of the subdirectories before glibc 2.37."""


_LOWEST = _Processor(1, "x86_64", ("x86_64", "x86_64"))


def _processor() -> _Processor:
    """Read /proc/cpuinfo (`init_cpu_features` in glibc's sysdeps/x86/cpu-features.c)."""
    text = _bytes("/proc/cpuinfo").decode("utf-8", "replace")
    match = re.search(r"^flags\s*:(.*)$", text, re.MULTILINE)
    flags = set(match[1].split()) if match else set[str]()
    level = 1 + len(list(itertools.takewhile(flags.issuperset, _FLAGS_OF_LEVELS)))
    platform, names = _PLATFORMS[Machine.X86_64], ["x86_64"]
    if re.search(r"^vendor_id\s*: GenuineIntel$", text, re.MULTILINE):
        if flags >= _XEON_PHI:
            platform = "xeon_phi"
        elif flags >= _HASWELL:
            platform = "haswell"
        if flags >= _AVX512_1 and "avx512er" not in flags:
            names.insert(0, "avx512_1")
    return _Processor(level, platform, (platform, *names))


def _has_legacy_subdirectories(loader: bytes) -> bool:
    """Return whether `loader`, the bytes of an ld.so, is of a glibc that searches them.

    Before 2.33 the loader has no `--version`, and not its text.
    """
    match = _RELEASE.search(loader)
    if match is not None:
        return (int(match[1]), int(match[2])) < LEGACY_SUBDIRECTORIES_END
    return b"ld.so.cache" in loader and b"glibc-hwcaps" not in loader
