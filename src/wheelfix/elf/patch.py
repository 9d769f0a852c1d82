"""A changed file as a value: ranges of the old file, and new bytes.

Everything that is not a `Copy` at its old place was changed or added, so that the memory for an
edit, and what has to be judged of it, do not grow with the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from wheelfix.system.mapped_pieces import pieces


class Copy(NamedTuple):
    """A range of the old file, in bytes from its start."""

    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Patch:
    """The new file: its pieces in order."""

    pieces: tuple[Copy | bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return sum(p.stop - p.start if isinstance(p, Copy) else len(p) for p in self.pieces)

    def chunks(self, old: memoryview) -> Iterator[bytes]:
        """Yield the new file in copies of at most 256 KiB; `old` is the old one."""
        for piece in self.pieces:
            if isinstance(piece, Copy):
                yield from pieces(old[piece.start : piece.stop])
            elif piece:
                yield piece


class _Write(NamedTuple):
    start: int
    raw: bytes

    @property
    def stop(self) -> int:
        return self.start + len(self.raw)


@dataclass(slots=True)
class PatchDraft:
    """Writes to a file, later ones over earlier ones; also past its end."""

    view: memoryview
    """The old file."""
    writes: list[_Write] = field(default_factory=list[_Write])

    def write(self, start: int, raw: bytes) -> None:
        """Set the bytes from `start`."""
        if raw:
            self.writes.append(_Write(start, raw))

    def read(self, start: int, size: int) -> bytes:
        """Return bytes as they will be; those past the end that were not written are zero."""
        raw = bytearray(self.view[start : start + size]).ljust(size, b"\0")
        for write in self.writes:
            low, high = max(start, write.start), min(start + size, write.stop)
            if low < high:
                raw[low - start : high - start] = write.raw[low - write.start : high - write.start]
        return bytes(raw)

    def finished(self) -> Patch:
        """Return the new file."""
        found: list[Copy | bytes] = []
        at, old = 0, len(self.view)
        for start, stop in self._ranges():
            if at < min(start, old):
                found.append(Copy(at, min(start, old)))
            if start > old:
                found.append(bytes(start - max(at, old)))
            found.append(self.read(start, stop - start))
            at = stop
        if at < old:
            found.append(Copy(at, old))
        return Patch(tuple(found))

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yield start and end of the written parts, in order and without overlaps."""
        start = stop = -1
        for write in sorted(self.writes, key=lambda write: write.start):
            if write.start > stop:
                if start >= 0:
                    yield start, stop
                start, stop = write.start, write.stop
            stop = max(stop, write.stop)
        if start >= 0:
            yield start, stop
