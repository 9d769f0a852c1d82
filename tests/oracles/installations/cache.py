"""An ld.so.cache written from bytes (glibc, sysdeps/generic/dl-cache.h)."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

USABLE = 0x303
"""`flags` of x86-64 libraries."""
HWCAPS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v9")
"""The names of glibc-hwcaps in each cache, sorted."""
TLS, X86_64, AVX512_1, HASWELL = 1 << 63, 1 << 1, 1 << 2, 1 << 50
"""Bits of `hwcap` for other subdirectories, read before glibc 2.37."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One library."""

    name: str
    path: str
    flags: int = USABLE
    hwcap: int = 0

    @property
    def is_named(self) -> bool:
        """Whether it is for a directory of glibc-hwcaps."""
        return bool(self.hwcap & 1 << 62)


def named(index: int) -> int:
    """Return the `hwcap` of an entry for one of `HWCAPS`."""
    return 1 << 62 | index


def cache_bytes(entries: Sequence[Entry]) -> bytes:
    """Return the file; ldconfig lists names backwards, and glibc-hwcaps before all else."""
    ordered = sorted(entries, key=lambda entry: not entry.is_named)
    ordered.sort(key=lambda entry: entry.name, reverse=True)
    texts = [text for entry in ordered for text in (entry.name, entry.path)] + list(HWCAPS)
    strings = b""
    places: dict[str, int] = {}
    start = 48 + 24 * len(ordered)
    for text in dict.fromkeys(texts):
        places[text] = start + len(strings)
        strings += text.encode() + b"\0"
    padding = bytes(-(start + len(strings)) % 4)
    extension = start + len(strings) + len(padding)
    head = b"glibc-ld.so.cache1.1" + struct.pack(
        "<IIB3xI12x", len(ordered), len(strings), 2, extension
    )
    table = b"".join(
        struct.pack("<iIIIQ", entry.flags, places[entry.name], places[entry.path], 0, entry.hwcap)
        for entry in ordered
    )
    sections = struct.pack("<IIIIII", 0xEAA42174, 1, 1, 0, extension + 24, 4 * len(HWCAPS))
    names = struct.pack(f"<{len(HWCAPS)}I", *(places[name] for name in HWCAPS))
    return head + table + strings + padding + sections + names
