"""A changed file as a value: ranges of the old file, and new bytes.

Everything that is not a `Copy` at its old place was changed or added, so that the memory for an
edit, and what has to be judged of it, do not grow with the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from wheelfix.elf.image import Buffer
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.mapped_files import pieces


class Copy(NamedTuple):
    """A range of the old file, in bytes from its start."""

    start: int
    stop: int


class Patch(NamedTuple):
    """The new file: its pieces in order."""

    pieces: tuple[Copy | bytes, ...]

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return sum(p.stop - p.start if isinstance(p, Copy) else len(p) for p in self.pieces)

    def content(self, old: Buffer) -> bytes:
        """Return the whole new file; `old` is the old one."""
        with memoryview(old) as view:
            return b"".join(self.chunks(view))

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
    """Writes to a file, later ones over earlier ones, around one gap for new bytes.

    Places are those of the new file: all behind the gap have moved by its size.
    """

    view: memoryview
    """The old file."""
    writes: list[_Write] = field(default_factory=list[_Write])
    gap: range = range(0)
    """The new bytes that stand between bytes of the old file, or at its end."""

    @property
    def size(self) -> int:
        """Bytes of the new file."""
        return len(self.view) + len(self.gap)

    def open_gap(self, gap: range) -> None:
        """Insert zeros so that they have the offsets `gap`; what was written behind moves along."""
        self.gap = gap
        self.writes = [write._replace(start=self.place(write.start)) for write in self.writes]

    def place(self, offset: int) -> int:
        """Return where a byte of the old file is in the new one; there are none past its end."""
        moves = self.gap and self.gap.start <= offset <= len(self.view)
        return offset + len(self.gap) if moves else offset

    def write(self, start: int, raw: bytes) -> None:
        """Set the bytes from `start`."""
        if raw:
            self.writes.append(_Write(start, raw))

    def read(self, start: int, size: int) -> bytes:
        """Return bytes of the new file."""
        return self._overlaid(start, start + size, self.writes)

    def finish(self) -> Patch:
        """Return the new file."""
        parts: list[Copy | bytes] = []
        at = 0
        for start, stop, writes in self._ranges():
            parts += self._old_bytes(at, start)
            parts.append(self._overlaid(start, stop, writes))
            at = stop
        return Patch((*parts, *self._old_bytes(at, self.size)))

    def _old_bytes(self, start: int, stop: int) -> Iterator[Copy | bytes]:
        """Yield the old bytes of a range of the new file, and zeros for the gap."""
        gap = self.gap or range(self.size, self.size)
        if start < min(stop, gap.start):
            yield Copy(start, min(stop, gap.start))
        if max(start, gap.start) < min(stop, gap.stop):
            yield bytes(min(stop, gap.stop) - max(start, gap.start))
        if max(start, gap.stop) < stop:
            yield Copy(max(start, gap.stop) - len(self.gap), stop - len(self.gap))

    def _overlaid(self, start: int, stop: int, writes: Iterable[_Write]) -> bytes:
        """Return bytes of the new file, as these writes change them."""
        raw = bytearray(b"".join(_bytes(p, self.view) for p in self._old_bytes(start, stop)))
        for write in writes:
            low, high = max(start, write.start), min(stop, write.stop)
            if low < high:
                raw[low - start : high - start] = write.raw[low - write.start : high - write.start]
        return bytes(raw)

    def _ranges(self) -> Iterator[tuple[int, int, list[_Write]]]:
        """Yield start and end of the written parts, in order, with the writes to each."""
        start = stop = -1
        group: list[tuple[int, _Write]] = []
        for number, write in sorted(enumerate(self.writes), key=lambda pair: pair[1].start):
            if write.start > stop:
                if group:
                    yield start, stop, [write for _, write in sorted(group)]
                start, stop, group = write.start, write.stop, []
            group.append((number, write))
            stop = max(stop, write.stop)
        if group:
            yield start, stop, [write for _, write in sorted(group)]


def _bytes(piece: Copy | bytes, old: memoryview) -> bytes:
    return bytes(old[piece.start : piece.stop]) if isinstance(piece, Copy) else piece
