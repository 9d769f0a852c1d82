"""A fraction that worker processes write, and their parent reads: how far a call has come."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from struct import Struct
from tempfile import TemporaryFile
from typing import NamedTuple

_NUMBER = Struct("d")


class SharedFraction(NamedTuple):
    """A number from 0 to 1 in a file, for processes that were forked after it was made."""

    descriptor: int

    def store(self, fraction: float) -> None:
        """Set the number."""
        os.pwrite(self.descriptor, _NUMBER.pack(fraction), 0)

    def load(self) -> float:
        """Return the number that was stored last; 0 at first."""
        stored = os.pread(self.descriptor, _NUMBER.size, 0)
        return float(_NUMBER.unpack(stored)[0]) if stored else 0.0


@contextmanager
def shared_fraction() -> Generator[SharedFraction]:
    """Make a fraction, whose file has no name and goes with this process."""
    with TemporaryFile() as file:
        yield SharedFraction(file.fileno())
