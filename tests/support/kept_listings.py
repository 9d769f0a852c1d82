"""What dpkg lists of this machine's packages, read once for all tests of a process.

A repair asks which package owns what it grafts, of hundreds of files.
"""

from functools import cache, cached_property
from typing import Any

from wheelfix.host import os_packages

_MODULE: Any = os_packages
_LISTINGS = "/var/lib/dpkg/info/"


class _Listing(bytes):
    """The paths that a package owns, a line each; asked for one, it does not search them all."""

    def __contains__(self, line: object) -> bool:
        return line in self._lines

    @cached_property
    def _lines(self) -> frozenset[bytes]:
        return frozenset(self.split(b"\n"))


def keep_listings() -> None:
    """Keep them from now on; nobody installs packages of this machine meanwhile."""
    read = _MODULE.read_regular

    @cache
    def kept(path: str, limit: int) -> bytes:
        return _Listing(read(path, limit))

    def read_or_kept(path: str, limit: int) -> bytes:
        data: bytes = (kept if str(path).startswith(_LISTINGS) else read)(path, limit)
        return data

    _MODULE.read_regular = read_or_kept
