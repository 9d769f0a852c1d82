"""Platform tags: C library, its oldest version and architecture of Linux wheels; other systems.

- `manylinux_x_y_arch`: glibc x.y or newer (PEP 600). `manylinux1`, `manylinux2010` and
  `manylinux2014` are older names for 2.5, 2.12 and 2.17 (PEP 513, 571, 599).
- `musllinux_x_y_arch`: musl x.y or newer (PEP 656).
- `linux_arch`: no promise about the C library.

`packaging.tags` lists the tags that an interpreter accepts, but does not parse a tag.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

from wheelfix.elf.model import Abi, Libc, Machine

ARCHITECTURES: Mapping[str, Abi] = {
    "x86_64": Abi(Machine.X86_64, 64, little_endian=True),
    "i686": Abi(Machine.I386, 32, little_endian=True),
    "aarch64": Abi(Machine.AARCH64, 64, little_endian=True),
    "armv6l": Abi(Machine.ARM, 32, little_endian=True),
    "armv7l": Abi(Machine.ARM, 32, little_endian=True),
    "ppc64": Abi(Machine.PPC64, 64, little_endian=False),
    "ppc64le": Abi(Machine.PPC64, 64, little_endian=True),
    "s390x": Abi(Machine.S390, 64, little_endian=False),
    "riscv64": Abi(Machine.RISCV, 64, little_endian=True),
    "loongarch64": Abi(Machine.LOONGARCH, 64, little_endian=True),
}
"""Architecture in a tag -> its ABI."""
CONVENTIONS: Mapping[str, str] = {"ppc64": "ELFv1", "ppc64le": "ELFv2", "riscv64": "lp64d"}
"""Architecture in a tag for glibc -> the calling convention of the objects that its loader takes.

musl has other names for the same architectures, and its loader compares none.
"""

LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LEGACY_TAG = re.compile(rf"({'|'.join(LEGACY)})_(\w+)")
_VERSIONED_TAG = re.compile(r"(manylinux|musllinux)_(\d{1,9})_(\d{1,9})_(\w+)")
_LINUX_TAG = re.compile(r"linux_(\w+)")


class Family(StrEnum):
    """The prefix of a platform tag."""

    MANYLINUX = "manylinux"
    MUSLLINUX = "musllinux"
    LINUX = "linux"
    OTHER = "other"
    """`any`, tags of other systems, and malformed tags."""


class PlatformTag(NamedTuple):
    """The parts of a platform tag."""

    family: Family
    version: tuple[int, ...] = ()
    """Of glibc or musl (major, minor); empty for other families."""
    arch: str = ""
    """As the tag spells it; empty for `OTHER`."""

    @property
    def libc(self) -> Libc | None:
        """The C library that the tag promises."""
        return _LIBCS.get(self.family)

    @property
    def is_linux(self) -> bool:
        """Whether it is a tag for Linux with glibc or musl, not for another system."""
        return self.family is not Family.OTHER

    @property
    def is_local(self) -> bool:
        """Whether it promises no C library, as `linux_x86_64`: that of the machine of the build."""
        return self.family is Family.LINUX

    @property
    def is_32_bit(self) -> bool:
        """Whether the architecture is a 32-bit one of x86 or ARM."""
        return self.arch.startswith(("i386", "i686", "armv"))

    def __str__(self) -> str:
        """Spell the tag, one of manylinux as in PEP 600."""
        return "_".join([self.family, *map(str, self.version), self.arch])


_LIBCS = {Family.MANYLINUX: Libc.GLIBC, Family.MUSLLINUX: Libc.MUSL}
FAMILIES: Mapping[Libc, Family] = {libc: family for family, libc in _LIBCS.items()}
"""C library -> the tags that promise it."""


def parse_platform_tag(tag: str) -> PlatformTag:
    """Parse one platform tag; compressed tag sets (`a.b`) must be split before."""
    if match := _VERSIONED_TAG.fullmatch(tag):
        return PlatformTag(Family(match[1]), (int(match[2]), int(match[3])), match[4])
    if match := _LEGACY_TAG.fullmatch(tag):
        return PlatformTag(Family.MANYLINUX, LEGACY[match[1]], match[2])
    if match := _LINUX_TAG.fullmatch(tag):
        return PlatformTag(Family.LINUX, arch=match[1])
    return PlatformTag(Family.OTHER)


def has_local_tag(platforms: Iterable[str]) -> bool:
    """Return whether one of the tags promises no C library, as `linux_x86_64`."""
    return any(parse_platform_tag(tag).is_local for tag in platforms)


def architectures_of(abi: Abi) -> list[str]:
    """Return the names that tags give a machine; none for one without tags."""
    return [name for name, machine in ARCHITECTURES.items() if machine == abi]


class OtherSystem(NamedTuple):
    """A system without ELF objects for glibc or musl."""

    name: str
    tool: str
    """The program that checks and repairs its wheels; empty if none is known."""


_OTHER_SYSTEMS = (
    (r"macosx_.*", OtherSystem("macOS", "delocate")),
    (r"win32|win_.*", OtherSystem("Windows", "delvewheel")),
    (r"ios_.*", OtherSystem("iOS", "")),
    (r"android_.*", OtherSystem("Android", "auditwheel")),
    (r"(pyodide|pyemscripten|emscripten)_.*", OtherSystem("Pyodide", "pyodide auditwheel")),
)


def other_system(tags: Iterable[str]) -> OtherSystem | None:
    """Return the system that all `tags` are for, None for Linux, `any` and unknown tags."""
    found = [
        next((system for pattern, system in _OTHER_SYSTEMS if re.fullmatch(pattern, tag)), None)
        for tag in tags
    ]
    return found[0] if all(found) else None


def satisfies(found: str, tag: str) -> bool:
    """Return whether objects for the platform tag `found` may carry `tag`.

    A manylinux tag promises a version of glibc (PEP 600). Of musl, auditwheel knows only the
    version of the machine it runs on, so any musllinux tag stands for any other (PEP 656). No
    object satisfies `any`, the tag of another system, or a malformed one.
    """
    met, required = parse_platform_tag(found), parse_platform_tag(tag)
    if required.is_local:
        return required.arch == met.arch
    if required.libc is None or (met.family, met.arch) != (required.family, required.arch):
        return False
    return required.libc is Libc.MUSL or required.version >= met.version


def may_coexist(one: str, other: str) -> bool:
    """Return whether some machine accepts both platform tags, whatever versions they promise.

    `any` goes with every tag, and `linux_*` with both C libraries of its architecture.
    """
    if one == other or "any" in {one, other}:
        return True
    first, second = parse_platform_tag(one), parse_platform_tag(other)
    same_libc = first.libc is second.libc or None in {first.libc, second.libc}
    return first.is_linux and second.is_linux and first.arch == second.arch and same_libc


def promised_libcs(tags: Iterable[str]) -> frozenset[Libc]:
    """Return the C libraries that `tags` promise; none for `linux_*` and `any`."""
    return frozenset(libc for tag in tags if (libc := parse_platform_tag(tag).libc) is not None)


def promise_musl_alone(tags: Iterable[str]) -> bool:
    """Return whether `tags` promise musl, and none of them glibc."""
    return promised_libcs(tags) == frozenset({Libc.MUSL})


def oldest_promised(libc: Libc, tags: Iterable[str]) -> tuple[int, ...] | None:
    """Return the oldest version of `libc` that `tags` let a wheel be installed on.

    None without a tag for this C library.
    """
    parsed = map(parse_platform_tag, tags)
    return min((tag.version for tag in parsed if tag.libc is libc), default=None)
