"""The sizes of memory pages, by machine: those of kernels, and those that linkers align to."""

from wheelfix.elf.model import Machine
from wheelfix.named_tuple import NamedTuple

SMALLEST_PAGE = 1 << 12
"""Bytes; all machines with a platform tag have at least this."""


class PageSizes(NamedTuple):
    """Page sizes of one machine, in bytes."""

    kernels: tuple[int, ...]
    """Those that kernels can be built with, in ascending order."""
    in_use: int
    """The largest of common distributions."""
    linked: int
    """The alignment of a new segment: the maximum page size of the psABI and of GNU ld; on x86-64
    that of Android, 16 KiB."""
    large: str = ""
    """Which systems have pages of more than `SMALLEST_PAGE`; empty if no common one has."""


_KIB = 1024
PAGE_SIZES: dict[int, PageSizes] = {
    Machine.I386: PageSizes((4 * _KIB,), 4 * _KIB, 4 * _KIB),
    Machine.X86_64: PageSizes((4 * _KIB,), 4 * _KIB, 16 * _KIB),
    Machine.ARM: PageSizes((4 * _KIB,), 4 * _KIB, 64 * _KIB),
    Machine.AARCH64: PageSizes(
        (4 * _KIB, 16 * _KIB, 64 * _KIB), 64 * _KIB, 64 * _KIB,
        "64 KiB pages on RHEL 7 and 8, 16 KiB on Raspberry Pi OS and Asahi",
    ),
    Machine.PPC64: PageSizes(
        (4 * _KIB, 64 * _KIB), 64 * _KIB, 64 * _KIB,
        "64 KiB pages on RHEL, Debian, Ubuntu and SUSE",
    ),
    Machine.S390: PageSizes((4 * _KIB,), 4 * _KIB, 4 * _KIB),
    Machine.RISCV: PageSizes((4 * _KIB,), 4 * _KIB, 4 * _KIB),
    Machine.LOONGARCH: PageSizes(
        (4 * _KIB, 16 * _KIB, 64 * _KIB), 16 * _KIB, 64 * _KIB,
        "16 KiB pages on most distributions",
    ),
}  # fmt: skip
