"""Platform tags: C library, its oldest version and architecture of Linux wheels; other systems.

- `manylinux_x_y_arch`: glibc x.y or newer (PEP 600). `manylinux1`, `manylinux2010` and
  `manylinux2014` are older names for 2.5, 2.12 and 2.17 (PEP 513, 571, 599).
- `musllinux_x_y_arch`: musl x.y or newer (PEP 656).
- `android_level_abi`: Android of this API level or newer (PEP 738), whose C library is bionic.
- `linux_arch`: no promise about the C library.

`packaging.tags` lists the tags that an interpreter accepts, but does not parse a tag.
"""

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache

from wheelfix.elf.model import Abi, Elf, Libc, Machine
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern

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
"""Architecture in a tag for Linux -> its ABI."""
_ANDROID_ABIS = {
    "arm64_v8a": ARCHITECTURES["aarch64"],
    "armeabi_v7a": ARCHITECTURES["armv7l"],
    "x86": ARCHITECTURES["i686"],
    "x86_64": ARCHITECTURES["x86_64"],
}
"""The names of Android (NDK, "Android ABIs")."""
CONVENTIONS: Mapping[str, str] = {"ppc64": "ELFv1", "ppc64le": "ELFv2", "riscv64": "lp64d"}
"""Architecture in a tag for glibc -> the calling convention of the objects that its loader takes.

musl has other names for the same architectures, and its loader compares none.
"""

LEGACY = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
_LEGACY_TAG = lazy_pattern(rf"({'|'.join(LEGACY)})_(\w+)")
_VERSIONED_TAG = lazy_pattern(r"(manylinux|musllinux)_(\d{1,9})_(\d{1,9})_(\w+)")
_LINUX_TAG = lazy_pattern(r"linux_(\w+)")
_ANDROID_TAG = lazy_pattern(r"android_(\d{1,9})_(\w+)")


class Family(StrEnum):
    """The prefix of a platform tag."""

    MANYLINUX = "manylinux"
    MUSLLINUX = "musllinux"
    LINUX = "linux"
    ANDROID = "android"
    OTHER = "other"
    """`any`, tags of other systems, and malformed tags."""


class PlatformTag(NamedTuple):
    """The parts of a platform tag."""

    family: Family
    version: tuple[int, ...] = ()
    """Of glibc or musl (major, minor), or the API level of Android; empty for other families."""
    arch: str = ""
    """As the tag spells it, in lower case; empty for `OTHER`."""

    @property
    def libc(self) -> Libc | None:
        """The C library that the tag promises."""
        return _LIBCS.get(self.family)

    @property
    def abi(self) -> Abi | None:
        """The ABI of the architecture, None for an unknown one."""
        names = _ANDROID_ABIS if self.family is Family.ANDROID else ARCHITECTURES
        return names.get(self.arch)

    @property
    def has_objects(self) -> bool:
        """Whether it is a tag for a system with ELF objects: glibc's, musl's or Android."""
        return self.family is not Family.OTHER

    @property
    def is_local(self) -> bool:
        """Whether it promises no C library, as `linux_x86_64`: that of the machine of the build."""
        return self.family is Family.LINUX

    @property
    def is_32_bit(self) -> bool:
        """Whether the architecture is a 32-bit one of x86 or ARM."""
        return self.arch == "x86" or self.arch.startswith(("i386", "i686", "arme", "armv"))

    def __str__(self) -> str:
        """Spell the tag, one of manylinux as in PEP 600."""
        return "_".join([self.family, *map(str, self.version), self.arch])


_LIBCS = {
    Family.MANYLINUX: Libc.GLIBC,
    Family.MUSLLINUX: Libc.MUSL,
    Family.ANDROID: Libc.BIONIC,
}
FAMILIES: Mapping[Libc, Family] = {libc: family for family, libc in _LIBCS.items()}
"""C library -> the tags that promise it."""


@lru_cache(1 << 12)
def parse_platform_tag(tag: str) -> PlatformTag:
    """Parse one platform tag; compressed tag sets (`a.b`) must be split before."""
    tag = tag.lower()  # as installers read them
    if match := _VERSIONED_TAG.fullmatch(tag):
        return PlatformTag(Family(match[1]), (int(match[2]), int(match[3])), match[4])
    if match := _LEGACY_TAG.fullmatch(tag):
        return PlatformTag(Family.MANYLINUX, LEGACY[match[1]], match[2])
    if match := _LINUX_TAG.fullmatch(tag):
        return PlatformTag(Family.LINUX, arch=match[1])
    if match := _ANDROID_TAG.fullmatch(tag):
        return PlatformTag(Family.ANDROID, (int(match[1]),), match[2])
    return PlatformTag(Family.OTHER)


def has_local_tag(platforms: Iterable[str]) -> bool:
    """Return whether one of the tags promises no C library, as `linux_x86_64`."""
    return any(parse_platform_tag(tag).is_local for tag in platforms)


def architectures_of(abi: Abi) -> list[str]:
    """Return the names that tags give a machine; none for one without tags."""
    return [name for name, machine in ARCHITECTURES.items() if machine == abi]


class OtherSystem(NamedTuple):
    """A system whose objects are not ELF, or not for a dynamic loader that is known here."""

    name: str
    tool: str
    """The program that checks and repairs its wheels; empty if none is known."""


_OTHER_SYSTEMS = (
    (r"macosx_.*", OtherSystem("macOS", "delocate")),
    (r"win32|win_.*", OtherSystem("Windows", "delvewheel")),
    (r"ios_.*", OtherSystem("iOS", "")),
    (r"(pyodide|pyemscripten|emscripten)_.*", OtherSystem("Pyodide", "pyodide auditwheel")),
)


def other_system(tags: Iterable[str]) -> OtherSystem | None:
    """Return the system that all `tags` are for; None for Linux, Android, `any`, unknown tags."""
    systems = [
        next((system for pattern, system in _OTHER_SYSTEMS if re.fullmatch(pattern, tag)), None)
        for tag in tags
    ]
    return systems[0] if all(systems) else None


def satisfies(tag_met: str, tag: str) -> bool:
    """Return whether objects for the platform tag `found` may carry `tag`.

    A manylinux tag promises a version of glibc (PEP 600). Of musl, auditwheel knows only the
    version of the machine it runs on, so any musllinux tag stands for any other (PEP 656). No
    object satisfies `any`, the tag of another system, or a malformed one.
    """
    met, required = parse_platform_tag(tag_met), parse_platform_tag(tag)
    if required.is_local:
        return required.arch == met.arch
    if required.libc is None or (met.family, met.arch) != (required.family, required.arch):
        return False
    return required.libc is Libc.MUSL or required.version >= met.version


def may_coexist(tag: str, other: str) -> bool:
    """Return whether some machine accepts both platform tags, whatever versions they promise.

    `any` goes with every tag, and `linux_*` with both C libraries of its architecture.
    """
    if tag == other or "any" in {tag, other}:
        return True
    first, second = parse_platform_tag(tag), parse_platform_tag(other)
    same_libc = first.libc is second.libc or None in {first.libc, second.libc}
    return first.has_objects and second.has_objects and first.arch == second.arch and same_libc


def promised_libcs(tags: Iterable[str]) -> frozenset[Libc]:
    """Return the C libraries that `tags` promise; none for `linux_*` and `any`."""
    return frozenset(libc for tag in tags if (libc := parse_platform_tag(tag).libc) is not None)


def only_promised(tags: Iterable[str]) -> Libc | None:
    """Return the C library that `tags` promise; None if it is none, or another one as well."""
    libcs = promised_libcs(tags)
    return next(iter(libcs)) if len(libcs) == 1 else None


def are_android(tags: Iterable[str]) -> bool:
    """Return whether all that `tags` promise is Android."""
    return only_promised(tags) is Libc.BIONIC


def as_promised(elf: Elf, tags: Iterable[str]) -> Elf:
    """Return an object as the loader of the platform `tags` reads it: Android's alone differs."""
    if elf.libc in {Libc.BIONIC, Libc.GLIBC} or not are_android(tags):
        return elf
    return elf._replace(for_bionic=True)


RUNPATH_SINCE = 24
"""The API level of Android whose loader reads DT_RUNPATH (bionic,
android-changes-for-ndk-developers.md); none reads DT_RPATH."""


def reads_runpath(tags: Iterable[str]) -> bool:
    """Return whether each loader that `tags` allow reads DT_RUNPATH."""
    level = oldest_promised(Libc.BIONIC, tags)
    return level is None or level[0] >= RUNPATH_SINCE


def oldest_promised(libc: Libc, tags: Iterable[str]) -> tuple[int, ...] | None:
    """Return the oldest version of `libc` that `tags` let a wheel be installed on.

    None without a tag for this C library.
    """
    parsed = map(parse_platform_tag, tags)
    return min((tag.version for tag in parsed if tag.libc is libc), default=None)
