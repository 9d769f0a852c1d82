"""Deflate streams mended around a change: the rest stays as it was compressed.

A deflate stream is a row of blocks (RFC 1951, section 3.2.3). A block can be left as it is where
the data before it, up to 32 KiB back, is what it was. So between the last block that begins before
a change, and the first that begins 32 KiB after it, the data is deflated anew; all else is copied.

Where blocks begin is nowhere written, and blocks begin at any bit. But while a block's Huffman
codes are read, nothing comes out of the inflater: fed with 16 bytes at a time, it shows where.
"""

import zlib
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, Self

from wheelfix.system.mmap_io import equal

_WINDOW = 2**15
"""How far back deflate may refer."""
_STRIDE = 2**14
"""Compressed bytes that are inflated at once where nothing changes."""
_LOOKBACK = 16
"""Strides to go back for the beginning of a block."""
_NEAR = 6
"""Strides to go back at first: most blocks are shorter."""
_STEP = 16
"""Compressed bytes, fewer than the Huffman codes of a block of some length take."""
_SMALL_STEP = 4
"""Fewer than the codes of any block take."""
_PROOF = 2**12
"""Compressed bytes that are inflated to see that a block begins where it seems to."""
_PROVING = 2**17
"""Bytes of data that may come out of them there."""
_PIECE = 2**18
"""Bytes of data that are read, or come out, at once."""
_PLACES = 64
"""Places that are remembered of a stream; each takes 40 KiB."""
_JOINED = 2**16
"""Compressed bytes that are inflated to see that a stream goes on as it did."""
_HEADER = 2**10
"""Compressed bytes, more than the Huffman codes of a block take."""
_LONGEST = 2**17
"""Compressed bytes at the end of a stream, among which its last block is looked for."""
_DYNAMIC = 2  # BTYPE of a block with Huffman codes of its own
_LAST = 1 | _DYNAMIC << 1  # BFINAL and BTYPE of such a block that is the last
_EMPTY = b"\1\0\0\xff\xff"  # a last block, stored and empty
_WIDE = 144  # literals from here on take nine bits in a block with fixed codes

Read = Callable[[int, int], bytes]
"""Reads from an offset so many bytes, fewer at the end."""
Differs = Callable[[int, int | None], int | None]
"""Finds where the old data first differs from the new, from one offset on and before another."""


class Old(NamedTuple):
    """What a stream inflates to."""

    read: Read
    differs: Differs


class Block(NamedTuple):
    """Where a block begins."""

    bit: int
    """In the stream."""
    byte: int
    """In the data."""


class Fresh(NamedTuple):
    """A part of the stream that is to be made anew, from one block to another."""

    start: Block
    stop: Block | None
    """None for the end."""


class Kept(NamedTuple):
    """A range of bytes of the stream that is copied."""

    start: int
    stop: int | None
    """None for the end."""


class Filed(NamedTuple):
    """A range of bytes that is in a file, so as not to be in memory."""

    path: Path
    start: int
    stop: int


Part = bytes | Kept | Filed
"""A part of the new stream."""


def plan(
    stream: Read,
    new: Read,
    *,
    old: "Old | None" = None,
    places: "Sequence[Place]" = (),
    worth: int = 2**23,
) -> list[Fresh] | None:
    """Find what of a deflate stream must be made anew, so that it inflates to `new`.

    `old` is what it inflates to, and `places` are such as `Tracked` remembers: with both, only what
    is near a change is inflated once more.

    None where more than `worth` bytes are to be deflated in one go: then there is no point in it.
    Raises `zlib.error` for a stream that
    cannot be inflated.
    """
    planner = _Planner(stream, new, old, places, worth)
    fresh: list[Fresh] = []
    while planner.skip_equal():
        change = planner.change()
        if change is None:
            return None
        fresh.append(change)
        if change.stop is None:
            break
    return fresh


class _Inflater(Protocol):
    """What `zlib.decompressobj` returns, which has no public name."""

    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    @property
    def unconsumed_tail(self) -> bytes: ...
    def decompress(self, data: bytes, /, max_length: int = 0) -> bytes: ...
    def copy(self) -> Self: ...


class Place(NamedTuple):
    """A place between two bytes of the stream, and the inflater there."""

    inflater: _Inflater
    at: int
    """Bytes of the stream that it was fed."""
    out: int
    """Bytes of data that it gave."""
    window: bytes = b""
    """The last of them."""


class Tracked:
    """A stream that is being inflated, and the places on its way from which to go on again."""

    def __init__(self, size: int) -> None:
        """Know of no place yet; `size` is that of the stream, in bytes."""
        self.places: list[Place] = []
        self._distance = max(_LOOKBACK * _STRIDE, size // _PLACES)

    def mark(self, inflater: _Inflater, at: int, out: int) -> None:
        """Remember an inflater that was fed `at` bytes and gave `out`, far from the last one."""
        if not self.places or at >= self.places[-1].at + self._distance:
            self.places.append(Place(inflater.copy(), at, out))


def _read(stream: Read, at: int) -> bytes:
    stride = stream(at, _STRIDE)
    if not stride:
        raise zlib.error("incomplete stream")
    return stride


class _Planner:
    """Goes through an old stream and the new data, side by side."""

    def __init__(
        self, stream: Read, new: Read, old: Old | None, places: Sequence[Place], worth: int
    ) -> None:
        self._stream = stream
        self._new = new
        self._old = old
        self._places = places
        self._worth = worth
        self._place = Place(zlib.decompressobj(-zlib.MAX_WBITS), 0, 0)
        self._earlier: deque[Place] = deque(maxlen=_LOOKBACK)
        self._last = Block(0, 0)
        """A block that may be left as it is, and all after it up to here."""

    def skip_equal(self) -> bool:
        """Go on while the old data is as the new; false at the end, if both end."""
        if self._old is not None:
            change = self._old.differs(self._place.out, None)
            if change is None:
                return False
            self._leap(self._old.read, change)
        while not self._place.inflater.eof:
            before = self._place._replace(inflater=self._place.inflater.copy())
            data = self._feed()
            self._earlier.append(before)
            if data != self._new(before.out, len(data)):
                return True
        return bool(self._new(self._place.out, 1))

    def _leap(self, old: Read, change: int) -> None:
        """Go to a place before a change, far enough to find the block before it from there."""
        index = bisect_right(self._places, change, key=lambda place: place.out) - 2
        if index >= 0 and self._places[index].at > self._place.at:
            inflater, at, out, _ = self._places[index]
            window = old(max(out - _WINDOW, 0), min(out, _WINDOW))
            self._place = Place(inflater.copy(), at, out, window)
            self._earlier.clear()

    def change(self) -> Fresh | None:
        """Go back to the block before the change, and on to the block after it."""
        places = list(self._earlier)
        self._earlier.clear()
        near, far = places[-_NEAR:][0], places[0]
        spans = self._spans(near._replace(inflater=near.inflater.copy()))
        start = self._block_before_change(spans)
        if start is None and near is not far:
            spans = self._spans(far)
            start = self._block_before_change(spans)
        start = start or self._last
        dirty = self._place.out
        for data, silent in spans:
            end = self._place.out
            if data != self._new(end - len(data), len(data)):
                dirty = end
            if silent and end >= dirty + _WINDOW:
                block = self._block(silent)
                if block and self._can_join(block):
                    self._last = block
                    return Fresh(start, block)
            if end - start.byte > self._worth:
                return None
        return Fresh(start, None)

    def _block_before_change(self, spans: Iterator[tuple[bytes, Place | None]]) -> Block | None:
        """Go on to the span with a change; return the last block of those before."""
        silent: list[Place] = []
        for data, place in spans:
            end = self._place.out
            if data != self._new(end - len(data), len(data)):
                break
            if place:
                silent.append(place)
        return next(filter(None, map(self._block, reversed(silent))), None)

    def _spans(self, place: Place) -> Iterator[tuple[bytes, Place | None]]:
        """Feed the inflater little by little; yield what came out, and where it fell silent."""
        inflater, at, out, window = place
        got: list[bytes] = []
        while not inflater.eof:
            stride = _read(self._stream, at)
            for step in range(at, at + len(stride), _STEP):
                data = inflater.decompress(stride[step - at : step - at + _STEP])
                if data:
                    got.append(data)
                elif got and not inflater.eof:
                    span, got = b"".join(got), []
                    out, window = out + len(span), (window + span)[-_WINDOW:]
                    self._place = Place(inflater, step + _STEP, out, window)
                    yield span, self._place._replace(inflater=inflater.copy())
            at += len(stride)
            span, got = b"".join(got), []
            out, window = out + len(span), (window + span)[-_WINDOW:]
            self._place = Place(inflater, at, out, window)
            yield span, None

    def _feed(self) -> bytes:
        inflater, at, out, window = self._place
        stride = _read(self._stream, at)
        data = inflater.decompress(stride)
        window = (window + data)[-_WINDOW:]
        self._place = Place(inflater, at + len(stride), out + len(data), window)
        return data

    def _block(self, silent: Place) -> Block | None:
        """Find the bit at which a block began before the inflater fell silent."""
        inflater, at, out, window = silent
        expected = inflater.copy().decompress(self._stream(at, _PROOF))
        for bit in range(8 * (at - 2 * _STEP), 8 * (at - _STEP) + 24):
            raw = _shifted(self._stream(bit // 8, _PROOF), bit % 8)
            if raw[0] >> 1 & 3 == _DYNAMIC and _inflates_to(raw, window, expected):
                return Block(bit, out)
        return None

    def _can_join(self, block: Block) -> bool:
        return block.bit % 2 == 0 or _wide_literal(self._new, block.byte) is not None


def first_difference(old: Read, new: Read, at: int, stop: int | None = None) -> int | None:
    """Return where two rows of bytes begin to differ, from `at` on; None where they do not."""
    while stop is None or at < stop:
        size = _PIECE if stop is None else min(_PIECE, stop - at)
        one, other = old(at, size), new(at, size)
        if one != other:
            return at + equal(one, other)
        if not one:
            return None
        at += len(one)
    return None


def _shifted(data: bytes, bits: int) -> bytes:
    return (int.from_bytes(data, "little") >> bits).to_bytes(len(data), "little")


def _inflates_to(raw: bytes, window: bytes, expected: bytes) -> bool:
    try:
        data = zlib.decompressobj(-zlib.MAX_WBITS, zdict=window).decompress(raw)
    except zlib.error:
        return False
    # The shift costs the last byte, and with it what comes out of that.
    return len(data) >= 256 and expected[: len(data)] == data[: len(expected)]


def _wide_literal(new: Read, stop: int) -> int | None:
    """Return how many bytes before `stop` the last is that takes nine bits as a literal."""
    start = max(stop - _PROOF, 0)
    data = new(start, stop - start)
    return next((n for n, byte in enumerate(reversed(data), 1) if byte >= _WIDE), None)


# --- Carrying it out -----------------------------------------------------------------------------


def spliced(
    fresh: Sequence[Fresh], stream: Read, new: Read, level: int, piece: int = _PIECE
) -> Iterator[Part]:
    """Yield the parts of the stream that `plan` has planned."""
    bits = _Bits()
    kept_from = 0
    for part in fresh:
        yield from bits.copied(stream, kept_from, part.start.bit)
        yield bits.aligned()
        stop = part.stop
        tail = b"" if stop is None else _tail(new, stop)
        end = None if stop is None else stop.byte - len(tail)
        yield from _deflated(new, part.start.byte, end, level, piece)
        if stop is None:
            return
        yield bits.joined(tail, stop.bit % 8)
        kept_from = stop.bit
    yield from bits.copied(stream, kept_from, None)


def filed(parts: Iterable[Part], path: Path) -> Iterator[Part]:
    """Yield the parts of a stream, of which the longer ones go to a new file at `path`."""
    with path.open("xb") as file:
        for part in parts:
            if isinstance(part, bytes) and len(part) > _STRIDE:
                start = file.tell()
                file.write(part)
                yield Filed(path, start, file.tell())
            else:
                yield part


def stored(parts: Iterable[Part], stream: Read) -> Iterator[bytes]:
    """Yield the bytes of a stream that is in parts that of another."""
    for part in parts:
        if isinstance(part, bytes):
            yield part
            continue
        if isinstance(part, Filed):
            with part.path.open("rb") as file:
                file.seek(part.start)
                yield file.read(part.stop - part.start)
            continue
        at, stop = part
        while stop is None or at < stop:
            data = stream(at, _PIECE if stop is None else min(_PIECE, stop - at))
            if not data:
                break
            at += len(data)
            yield data


def holds(
    parts: Iterable[Part], stream: Read, differs: Differs, new: Read, places: Sequence[Place]
) -> bool:
    """Tell whether a stream in parts inflates to `new`, which `differs` from what it was made of.

    What is kept is inflated from the last of `places` on, and at its beginning until it is clear
    that it goes on as it did; between those it is what it was, so there nothing may differ.
    """
    check = _Check(new)
    for part in parts:
        if not isinstance(part, Kept):
            if not check.fits(stored([part], stream)):
                return False
            continue
        start, stop = part
        index = bisect_right(places, stop, key=lambda place: place.at) - 1 if stop else -1
        place = places[index] if index >= 0 else None
        if place and place.at < start + _JOINED:
            place = None
        joined = Kept(start, start + _JOINED if place or stop is None else stop)
        if not check.fits(stored([joined], stream)):
            return False
        if place:
            if differs(check.out, place.out) is not None:
                return False
            check.inflater, check.out = place.inflater.copy(), place.out
            if not check.fits(stored([Kept(place.at, stop)], stream)):
                return False
        elif stop is None and not check.inflater.eof:
            return differs(check.out, None) is None
    return check.inflater.eof and not new(check.out, 1)


class _Check:
    """Inflates, and compares what comes out."""

    def __init__(self, new: Read) -> None:
        self.inflater: _Inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        self.out = 0
        self._new = new

    def fits(self, pieces: Iterable[bytes]) -> bool:
        for piece in pieces:
            for at in range(0, len(piece), _STRIDE):
                if self.inflater.eof:
                    return False
                data = self.inflater.decompress(piece[at : at + _STRIDE])
                if data != self._new(self.out, len(data)):
                    return False
                self.out += len(data)
        return not self.inflater.unused_data


def _tail(new: Read, stop: Block) -> bytes:
    """Return the bytes to spell as literals, so that the next block begins at an odd bit."""
    length = _wide_literal(new, stop.byte) if stop.bit % 2 else None
    return new(stop.byte - length, length) if length else b""


def _deflated(new: Read, start: int, stop: int | None, level: int, piece: int) -> Iterator[bytes]:
    window = -zlib.MAX_WBITS
    before = new(max(start - _WINDOW, 0), min(start, _WINDOW))
    deflater = (
        zlib.compressobj(level, zlib.DEFLATED, window, zdict=before)
        if before
        else zlib.compressobj(level, zlib.DEFLATED, window)
    )
    at = start
    while stop is None or at < stop:
        data = new(at, piece if stop is None else min(piece, stop - at))
        if not data:
            break
        at += len(data)
        yield deflater.compress(data)
    yield deflater.flush(zlib.Z_FINISH if stop is None else zlib.Z_SYNC_FLUSH)


# --- Going on behind the end ---------------------------------------------------------------------


def without_end(stream: bytes, data: bytes) -> bytes | None:
    """Make a stream that inflates to `data`, on a byte boundary, and then expects another block.

    It is `stream`, but its last block is not marked as the last. None where that block is not
    found, since it is stored or has fixed codes; and where `stream` inflates to anything else.
    """
    try:
        places = _last_places(stream, data)
    except zlib.error:
        return None
    for step in (_STEP, _SMALL_STEP):
        for place in reversed(places):
            at, before = _last_header(stream, place, step)
            if before is not None:
                found = _unmarked(stream, data, at, before, step)
                if found is not None:
                    return found
                break
    return None


def _last_places(stream: bytes, data: bytes) -> list[Place]:
    """Inflate a stream and return the places before its end; none if it is not as it should be."""
    places: list[Place] = []
    inflater, out = zlib.decompressobj(-zlib.MAX_WBITS), 0
    for at in range(0, len(stream), _STRIDE):
        if len(stream) - at <= _LONGEST:
            places.append(Place(inflater.copy(), at, out))
        inflated = inflater.decompress(stream[at : at + _STRIDE])
        if inflated != data[out : out + len(inflated)]:
            return []
        out += len(inflated)
    return places if inflater.eof and out == len(data) else []


def _last_header(stream: bytes, place: Place, step: int) -> tuple[int, Place | None]:
    """Find where codes of a block were read last in a stride, and return a place before it."""
    inflater, start, out, _ = place
    inflater = inflater.copy()
    earlier = now = place
    found: tuple[int, Place | None] = 0, None
    gave = False
    for at in range(start, min(start + _STRIDE + _HEADER, len(stream)), step):
        if not at % (16 * step):
            earlier, now = now, Place(inflater.copy(), at, out)
        data = inflater.decompress(stream[at : at + step])
        out += len(data)
        if gave and not data and not inflater.eof:
            found = at + step, earlier
        gave = bool(data)
    return found


def _unmarked(stream: bytes, data: bytes, at: int, before: Place, step: int) -> bytes | None:
    """Clear the mark of the block whose codes were read before `at`."""
    rest = data[before.out :]
    for bit in range(8 * (at - 2 * step), 8 * (at - step) + 24):
        if int.from_bytes(stream[bit // 8 : bit // 8 + 2], "little") >> bit % 8 & 7 == _LAST:
            byte = stream[bit // 8] ^ 1 << bit % 8
            unmarked = b"".join((stream[: bit // 8], bytes([byte]), stream[bit // 8 + 1 :]))
            for end in (b"\0\0\xff\xff", b"\0\0\0\xff\xff"):
                if _goes_on(before, unmarked[before.at :] + end, rest):
                    return unmarked + end
    return None


def _goes_on(before: Place, stream: bytes, data: bytes) -> bool:
    """Tell whether a stream inflates to `data` and only then expects another block."""
    try:
        some = before.inflater.copy().decompress(stream[:_PROOF], _PROVING)
        if some != data[: len(some)]:
            return False
        inflater = before.inflater.copy()
        if inflater.decompress(stream) != data or inflater.eof:
            return False
        return inflater.decompress(_EMPTY) == b"" and inflater.eof and not inflater.unused_data
    except zlib.error:
        return False


class _Bits:
    """The bits that are yet to become a byte, least significant first (RFC 1951, 3.1.1)."""

    def __init__(self) -> None:
        self._value = 0
        self._count = 0

    def copied(self, stream: Read, start: int, stop: int | None) -> Iterator[Part]:
        """Keep bits of a stream, which begin at the same bit of a byte as these end."""
        at, end = start // 8, None if stop is None else stop // 8
        if self._count and at != end:
            yield bytes([self._merged(stream(at, 1)[0])])
            self._value = self._count = 0
            at += 1
        if at != end:
            yield Kept(at, end)
        count = 0 if stop is None else stop % 8
        last = stream(at if end is None else end, 1) if count else b"\0"
        self._value = self._merged(last[0]) & (1 << count) - 1
        self._count = count

    def _merged(self, byte: int) -> int:
        mask = (1 << self._count) - 1
        return byte & ~mask | self._value & mask

    def aligned(self) -> bytes:
        """Fill up to a byte, by a stored block without content where need be."""
        if not self._count:
            return b""
        size = (self._count + 3 + 7) // 8
        data = self._value.to_bytes(size, "little") + b"\0\0\xff\xff"
        self._value = self._count = 0
        return data

    def joined(self, tail: bytes, count: int) -> bytes:
        """Spell `tail` with fixed codes, and end at `count` bits past a byte."""
        if tail:
            self._add(_FIXED)
            for byte in tail:
                code = f"{0x30 + byte:08b}" if byte < _WIDE else f"{0x190 + byte - _WIDE:09b}"
                self._add(code)
            self._add(_END)
        while self._count % 8 != count:
            self._add(_FIXED)
            self._add(_END)
        size = self._count // 8
        data = (self._value & (1 << 8 * size) - 1).to_bytes(size, "little")
        self._value >>= 8 * size
        self._count -= 8 * size
        return data

    def _add(self, bits: str) -> None:
        """Add bits, the first one first."""
        self._value |= int(bits[::-1], 2) << self._count
        self._count += len(bits)


_FIXED = "010"  # not the last block, fixed codes (BTYPE 01, its lower bit first)
_END = "0000000"
