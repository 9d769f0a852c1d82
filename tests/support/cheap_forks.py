"""Forks of the tests' process, which is large, at a third of their cost.

Tests fork for each run of a command that checks or repairs. A fork copies the page table, and then
each page that it writes to: with large pages the first is small.
"""

import ctypes
import re
from pathlib import Path

_MADV_COLLAPSE = 25
_SIZE = 2 << 20


def use_large_pages() -> None:
    """Move what this process has in memory to large pages, where the kernel does that (6.1)."""
    madvise = ctypes.CDLL(None).madvise
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        if found := re.match(r"(\w+)-(\w+) rw-p 0+ 00:00 0\s*(\[heap\])?$", line):
            first, end = (int(found[number], 16) for number in (1, 2))
            for start in range(-(-first // _SIZE) * _SIZE, end - _SIZE + 1, _SIZE):
                madvise(ctypes.c_void_p(start), ctypes.c_size_t(_SIZE), _MADV_COLLAPSE)
