"""Thread-local data that must lie beside that of the program, in an area of fixed size.

Objects whose code finds their data by descriptors (all of ARM64) take room in it, too, while some
is left, and do without it otherwise (`_dl_try_allocate_static_tls` in elf/dl-reloc.c).
"""

from wheelfix.elf.constants import DF_STATIC_TLS, Pt
from wheelfix.elf.image import last_of
from wheelfix.elf.model import Elf, Machine
from wheelfix.named_tuple import NamedTuple

SURPLUS = 1664
"""Bytes of static TLS for all objects opened by dlopen: glibc's `_dl_tls_static_surplus_init`."""
OPTIONAL = 512
"""Those of them that descriptors may take since glibc 2.32: `glibc.rtld.optional_static_tls`."""
UNLIMITED, PATCHED = "2.31", "2.28"
"""The last glibc without this limit, and the first to which distributions have added it."""
LIMITED_PLATFORM, UNLIMITED_PLATFORMS = "debian:11", ("debian:", "ubuntu:")
"""Debian 11 has added it to 2.31; otherwise these have not, and of others it is not known."""
ROUNDED = 64
"""The area is rounded up to a multiple of it at most (TCB_ALIGNMENT)."""
SURE_ALIGNMENT = 16
"""Every area has it; whether it has more depends on the program."""
BELOW_POINTER = {Machine.I386, Machine.S390, Machine.X86_64}
"""Machines where thread data lies below the thread pointer (TLS_TCB_AT_TP)."""


class Need(NamedTuple):
    """The thread data of one object."""

    path: str
    size: int
    align: int
    optional: bool

    @property
    def rounded(self) -> int:
        """The bytes with which the next object begins at its alignment."""
        return -(-self.size // self.align) * self.align


class Area(NamedTuple):
    """What is left of the area in a process."""

    left: int
    """Bytes up to its end, which has every alignment."""
    optional: float
    """Bytes that descriptors may still take."""

    def after(self, need: Need, *, below: bool) -> "Area | None":
        """Return what is left once an object has its room, None if it finds none."""
        if below:
            left = (self.left - need.size) // need.align * need.align
        else:
            left = self.left // need.align * need.align - need.size
        used = self.left - left
        if not need.optional:
            return None if left < 0 else self._replace(left=left)
        if left < 0 or used > self.optional or need.align > SURE_ALIGNMENT:
            return self
        return Area(left, self.optional - used)


def required_bytes(elf: Elf) -> int:
    """Return the bytes of static TLS that an object requires when it is opened."""
    need = need_of("", elf)
    return 0 if need is None or need.optional else need.rounded


def fits(size: int) -> bool:
    """Return whether the area of glibc may have room for so many bytes."""
    return size < SURPLUS + ROUNDED


def need_of(path: str, elf: Elf) -> Need | None:
    """Return the thread data of an object in the area; None if it has none there."""
    is_static = bool(elf.dt_flags & DF_STATIC_TLS)
    if elf.is_executable or not (is_static or elf.tls_descriptors):
        return None
    tls = last_of(elf.segments, Pt.TLS)
    if tls is None or not tls.memsz:
        return None
    return Need(path, tls.memsz, tls.align or 1, optional=not is_static)
