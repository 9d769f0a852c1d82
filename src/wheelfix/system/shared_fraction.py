"""A fraction that worker processes write, and their parent reads: how far a call has come."""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import NamedTuple

from wheelfix.system.tempfiles import unnamed_file

_NUMBER = Struct("d")


class SharedFraction(NamedTuple):
    """A number from 0 to 1 in a file, for processes that were forked after it was made.

    It is for a display: where the number cannot be stored, as on a full disk, it stays as it is.
    """

    descriptor: int | None
    """None if there is no file."""

    def store(self, fraction: float) -> None:
        """Set the number."""
        if self.descriptor is not None:
            with suppress(OSError):
                os.pwrite(self.descriptor, _NUMBER.pack(fraction), 0)

    def load(self) -> float:
        """Return the number that was stored last; 0 at first."""
        if self.descriptor is None:
            return 0.0
        stored = os.pread(self.descriptor, _NUMBER.size, 0)
        return float(_NUMBER.unpack(stored)[0]) if stored else 0.0


@contextmanager
def shared_fraction() -> Generator[SharedFraction]:
    """Make a fraction, whose file has no name and goes with this process."""
    try:
        file = unnamed_file()
    except OSError:
        yield SharedFraction(None)
        return
    with file:
        yield SharedFraction(file.fileno())
