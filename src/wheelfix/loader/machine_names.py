"""What the C libraries call each machine: multiarch triplets, loaders, SONAMEs, directories."""

import itertools
from collections.abc import Mapping, Sequence

from wheelfix.elf.model import Abi, Libc
from wheelfix.named_tuple import NamedTuple
from wheelfix.wheel.platform_tags import ARCHITECTURES

LIB64 = "lib64"
"""The value of `$LIB` on most 64-bit machines."""
X86_64_LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
"""The levels above the baseline (x86-64 psABI, "Micro-Architecture Levels")."""
GLIBC_DIRECTORIES = ("/lib", "/usr/lib")
"""The default directories of glibc's loader besides those of `$LIB` (elf/dl-load.c)."""
MUSL_DIRECTORIES = ("/lib", "/usr/local/lib", "/usr/lib")
"""The default directories of musl's loader (ldso/dynlink.c, `load_library`)."""


class MachineNames(NamedTuple):
    """The names of one machine."""

    triplet: str
    """Debian's multiarch tuple, as in `/usr/lib/x86_64-linux-gnu`."""
    glibc_loader: str
    """PT_INTERP of a program for glibc."""
    musl: str
    """As in the name of musl's loader, `/lib/ld-musl-x86_64.so.1`."""
    alpine: str
    """As in the SONAME of Alpine's musl, `libc.musl-x86_64.so.1`."""


def _names(arch: str, triplet: str, loader: str, musl: str = "", alpine: str = "") -> MachineNames:
    """Return the names of a machine: musl's are those of the triplet, Alpine's those of the tag."""
    return MachineNames(triplet, loader, musl or triplet.partition("-")[0], alpine or arch)


MACHINES: Mapping[Abi, MachineNames] = {
    ARCHITECTURES[arch]: _names(arch, *names)
    for arch, *names in (
        ("x86_64", "x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2"),
        ("i686", "i386-linux-gnu", "/lib/ld-linux.so.2", "i386", "x86"),
        ("aarch64", "aarch64-linux-gnu", "/lib/ld-linux-aarch64.so.1"),
        ("armv7l", "arm-linux-gnueabihf", "/lib/ld-linux-armhf.so.3", "armhf", "armv7"),
        ("ppc64", "powerpc64-linux-gnu", "/lib64/ld64.so.1"),
        ("ppc64le", "powerpc64le-linux-gnu", "/lib64/ld64.so.2"),
        ("s390x", "s390x-linux-gnu", "/lib/ld64.so.1"),
        ("riscv64", "riscv64-linux-gnu", "/lib/ld-linux-riscv64-lp64d.so.1"),
        ("loongarch64", "loongarch64-linux-gnu", "/lib64/ld-linux-loongarch-lp64d.so.1"),
    )
}


def usual_loader(abi: Abi, libc: Libc | None) -> str | None:
    """Return the usual path of the dynamic loader, glibc's if not musl's; None if not known."""
    names = MACHINES.get(abi)
    if names is None:
        return None
    return f"/lib/ld-musl-{names.musl}.so.1" if libc is Libc.MUSL else names.glibc_loader


def musl_soname(abi: Abi) -> str:
    """Return the SONAME of Alpine's musl; upstream's is `libc.so`."""
    return f"libc.musl-{MACHINES[abi].alpine}.so.1" if abi in MACHINES else "libc.so"


def lib_value(bits: int, triplet: str | None = None) -> str:
    """Return the value of `$LIB` (ld.so(8)), which Debian sets to the multiarch directory."""
    if triplet is not None:
        return f"lib/{triplet}"
    return LIB64 if bits == 64 else "lib"


LEGACY_SUBDIRECTORIES_END = (2, 37)
"""The release of glibc from which `legacy_subdirectories` are not searched."""


def legacy_subdirectories(hardware: Sequence[str]) -> tuple[str, ...]:
    """Return the subdirectories that glibc tries before 2.37 (`_dl_important_hwcaps`).

    `hardware` are the platform and the hwcap names of the processor, as `haswell` and `x86_64`:
    a directory for each selection of `tls` and these, the longest first. A name may be repeated.
    """
    names = ("tls", *hardware)
    folders: list[str] = []
    for selection in range(2 ** len(names) - 1, 0, -1):
        bits = format(selection, f"0{len(names)}b")
        folders.append("/".join(itertools.compress(names, map(int, bits))))
    return tuple(folders)
