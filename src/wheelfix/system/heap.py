"""What glibc's malloc keeps of the memory that was given back to it.

By default each thread allocates from an arena of its own (mallopt(3), M_ARENA_MAX), and each arena
stays as large as it ever was: with pieces of 1 MiB, twice as much as is ever used at a time. Other
C libraries have no such functions: there, nothing is done.
"""

import ctypes
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_M_ARENA_MAX = -8
_LARGE = 2**23
"""Bytes; for smaller wheels it would take longer than it is worth."""


def spare(wheels: Iterable[Path]) -> None:
    """Let all threads of this process share one arena, if one of the wheels is large."""
    with suppress(OSError):
        if any(wheel.stat().st_size >= _LARGE for wheel in wheels):
            share()


def share() -> None:
    """Let all threads of this process that are yet to come share one arena."""
    _call("mallopt", _M_ARENA_MAX, 1)


def trim(size: int) -> None:
    """Give back to the kernel what nobody uses, after work on a file of so many bytes."""
    if size >= _LARGE:
        _call("malloc_trim", 0)


def _call(function: str, *arguments: int) -> None:
    with suppress(AttributeError):
        getattr(ctypes.CDLL(None), function)(*arguments)
