"""Dynamic loaders of this machine: paths, default directories, `$LIB`, ld.so.conf, ld.so.cache."""

import itertools
import os
import re
import struct
from collections.abc import Iterator
from glob import glob
from pathlib import Path

from wheelfix.elf.model import Elf, Libc, Machine
from wheelfix.loader.glibc_search import hwcaps
from wheelfix.loader.load_values import Environment
from wheelfix.loader.machines import MACHINES, MUSL_DIRECTORIES, lib_value

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


def loader_of(sample: Elf) -> str | None:
    """Return the path of the dynamic loader for `sample`, None on an unknown machine."""
    if sample.interpreter:
        return sample.interpreter
    known = MACHINES.get(sample.machine)
    if known is None:
        return None
    return f"/lib/ld-musl-{known.musl}.so.1" if sample.libc is Libc.MUSL else known.glibc_loader


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
        lib=lib_directory(sample),
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
    lib = lib_directory(sample)
    return tuple(dict.fromkeys((f"/{lib}", f"/usr/{lib}", "/lib", "/usr/lib")))


def _musl_directories(loader: str) -> tuple[str, ...]:
    """Return the directories of `etc/ld-musl-ARCH.path` beside the `lib` that has the loader."""
    config = Path(loader).parent.parent / "etc" / f"{Path(loader).name.partition('.')[0]}.path"
    text = os.fsdecode(_bytes(config))
    found = tuple(filter(None, re.split(r"[:\n]+", text)))
    return found or MUSL_DIRECTORIES


def lib_directory(sample: Elf) -> str:
    """Return the value of `$LIB` on this machine."""
    known = MACHINES.get(sample.machine)
    if known is not None and os.path.isdir(f"/usr/lib/{known.triplet}"):  # noqa: PTH112 - text
        return lib_value(sample.bits, known.triplet)
    return lib_value(sample.bits)


def parse_cache(data: bytes, machine: tuple[int, int]) -> dict[str, str]:
    """Return SONAME to path for `machine` (word size, `e_machine`); nothing for another file.

    The first entry of a name counts; those for hwcaps subdirectories do not (glibc, dl-cache.h).
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
