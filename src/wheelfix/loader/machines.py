"""What the C libraries call each machine: multiarch triplets, loaders, SONAMEs, directories."""

from collections.abc import Mapping
from typing import NamedTuple

from wheelfix.elf.model import Machine

LIB64 = "lib64"
"""The value of `$LIB` on most 64-bit machines."""
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


MACHINES: Mapping[int, MachineNames] = {
    Machine.X86_64: MachineNames(
        "x86_64-linux-gnu", "/lib64/ld-linux-x86-64.so.2", "x86_64", "x86_64"
    ),
    Machine.I386: MachineNames("i386-linux-gnu", "/lib/ld-linux.so.2", "i386", "x86"),
    Machine.AARCH64: MachineNames(
        "aarch64-linux-gnu", "/lib/ld-linux-aarch64.so.1", "aarch64", "aarch64"
    ),
    Machine.ARM: MachineNames("arm-linux-gnueabihf", "/lib/ld-linux-armhf.so.3", "armhf", "armv7"),
    Machine.PPC64: MachineNames(
        "powerpc64le-linux-gnu", "/lib64/ld64.so.2", "powerpc64le", "ppc64le"
    ),
    Machine.S390: MachineNames("s390x-linux-gnu", "/lib/ld64.so.1", "s390x", "s390x"),
    Machine.RISCV: MachineNames(
        "riscv64-linux-gnu", "/lib/ld-linux-riscv64-lp64d.so.1", "riscv64", "riscv64"
    ),
    Machine.LOONGARCH: MachineNames(
        "loongarch64-linux-gnu",
        "/lib64/ld-linux-loongarch-lp64d.so.1",
        "loongarch64",
        "loongarch64",
    ),
}
"""By `e_machine`."""


def musl_soname(machine: int) -> str:
    """Return the SONAME of Alpine's musl; upstream's is `libc.so`."""
    return f"libc.musl-{MACHINES[machine].alpine}.so.1" if machine in MACHINES else "libc.so"


def lib_value(bits: int, triplet: str | None = None) -> str:
    """Return the value of `$LIB` (ld.so(8)), which Debian sets to the multiarch directory."""
    if triplet is not None:
        return f"lib/{triplet}"
    return LIB64 if bits == 64 else "lib"
