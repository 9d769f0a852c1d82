"""What the loaders of the C libraries ask of an object, the search for libraries aside."""

from collections.abc import Mapping

from wheelfix.elf.machine_page_sizes import PAGE_SIZES, PageSizes
from wheelfix.elf.model import Elf, Libc
from wheelfix.named_tuple import NamedTuple

_KIB = 1024


class Demands(NamedTuple):
    """Where loaders differ; by default as glibc's and musl's."""

    text_relocations: bool = True
    """Whether it takes objects with DT_TEXTREL, if the system's policy allows them."""
    libpython: bool = False
    """Whether modules need libpython: those of other platforms get its symbols of the program."""
    on_builders: bool = True
    """Whether a machine that builds wheels for it has its libraries."""
    pages: PageSizes | None = None
    """Those of all its 64-bit machines; None where each machine has its own."""


_DEMANDS: Mapping[Libc, Demands] = {
    # bionic, android-changes-for-ndk-developers.md; PEP 738; developer.android.com, "16 KB".
    Libc.BIONIC: Demands(
        text_relocations=False,
        libpython=True,
        on_builders=False,
        pages=PageSizes(
            (4 * _KIB, 16 * _KIB), 16 * _KIB, 16 * _KIB, "16 KiB pages on devices since Android 15"
        ),
    ),
}


def demands_of(libc: Libc | None) -> Demands:
    """Return what the loader of a C library asks for; of None, what all ask for."""
    return _DEMANDS.get(libc or Libc.GLIBC, Demands())


def page_sizes(elf: Elf) -> PageSizes | None:
    """Return the page sizes of the machines that load an object; None if they are not known."""
    pages = demands_of(elf.libc).pages
    return pages if pages is not None and elf.bits == 64 else PAGE_SIZES.get(elf.machine)
