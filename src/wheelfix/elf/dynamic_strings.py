"""The dynamic string table while it is edited: which bytes are in use, and where a string goes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Container, Iterable
from itertools import chain

from wheelfix.elf.constants import Dt, Sht
from wheelfix.elf.dynamic_tables import Dynamic
from wheelfix.grouping import flatten


class DynamicStrings:
    """The content of .dynstr. Mutable: strings are released, placed, and what is free is wiped.

    Linkers merge tails: a string may be the tail of a longer one, and its own tail may be used.
    """

    def __init__(self, dynamic: Dynamic, users: Iterable[int]) -> None:
        """Start with the strings of an object; `users` are the offsets that edits may release."""
        self.data = bytearray(dynamic.strings)
        self._image = dynamic.image
        self._fixed = _fixed_strings(dynamic)
        self._users = Counter(users)
        self._rooms: dict[int, int] = {}
        """Released offset -> bytes from there on that nothing uses."""
        self._released: list[int] = []
        """The same offsets, in order."""

    def text(self, offset: int) -> str:
        """Read one string."""
        end = self.data.find(b"\0", offset)
        if end < 0:
            raise self._image.bad("a name is not in the dynamic string table")
        return self.data[offset:end].decode("utf-8", "surrogateescape")

    def release(self, offset: int) -> None:
        """Take back one use of the string at `offset`."""
        self._users[offset] -= 1
        if offset not in self._rooms:
            self._rooms[offset] = 0
            insort(self._released, offset)
        self._measure(offset, offset)

    def place(self, text: str, uses: int = 1) -> int:
        """Return the offset of `text`: where it is already, else in free bytes, else at the end."""
        raw = text.encode("utf-8", "surrogateescape") + b"\0"
        self._image.spend(1 + (len(self.data) >> 12), "the dynamic strings")
        at, size = self.data.find(raw), 0
        if at < 0:
            self._image.spend(len(self._rooms) >> 4, "the dynamic strings")
            rooms = (start for start, room in self._rooms.items() if len(raw) <= room)
            at = next(rooms, len(self.data))
            size = self._rooms.get(at, len(raw))
            self.data[at : at + size] = raw.ljust(size, b"\0")
        self._users[at] += uses
        self._measure(at, at + size)
        return at

    def wipe(self) -> None:
        """Fill free bytes with zeros: they may name build directories."""
        for start, size in self._rooms.items():
            self.data[start : start + size] = bytes(size)

    def _measure(self, low: int, high: int) -> None:
        """Measure the rooms anew in the strings from the one at `low` to the one at `high`."""
        low, high = self._head(low), max(self.data.find(b"\0", low), high)
        first, last = bisect_left(self._released, low), bisect_right(self._released, high)
        for start in self._released[first:last]:
            self._rooms[start] = self._room(start)

    def _room(self, start: int) -> int:
        """Return the number of bytes from a released offset on that nothing uses."""
        head, end = self._head(start), self.data.find(b"\0", start)
        self._image.spend(2 + ((max(end, start) - head) >> 4), "the dynamic strings")
        if end < 0 or any(self._is_used(at) for at in range(head, start + 1)):
            return 0
        used = (at for at in range(start, end + 1) if self._is_used(at))
        return next(used, end + 1) - start

    def _head(self, offset: int) -> int:
        """Return the start of the whole string that an offset is in."""
        return self.data.rfind(b"\0", 0, offset) + 1

    def _is_used(self, offset: int) -> bool:
        return self._users[offset] > 0 or offset in self._fixed


def _fixed_strings(dynamic: Dynamic) -> Container[int]:
    """Return the offsets into .dynstr that symbols and version definitions use."""
    place = dynamic.tags.get(Dt.SYMTAB)
    table = dynamic.gnu_hash
    structs = dynamic.image.structs
    counts = [
        section.size // structs.sym.size
        for section in dynamic.image.sections
        if section.type == Sht.DYNSYM and section.addr == place
    ]
    is_counted = Dt.HASH in dynamic.tags or (table is not None and not table.is_empty) or counts
    if place is None or not is_counted or Dt.GNU_LIBLIST in dynamic.tags:
        return range(len(dynamic.strings))  # any of them may be in use
    count = max([dynamic.symbol_count, *counts])
    # st_name comes first in both classes.
    names = structs.words("I", dynamic.symbol_bytes(0, count))[:: structs.sym.size // 4]
    definitions = flatten(names for _, _, names in dynamic.definition_records())
    return frozenset(chain(names, definitions))
