"""Spliced deflate streams inflate to the new data, and most of them is the old stream."""

import random
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

import pytest

from wheelfix.wheel.inflate import LIBRARY, inflated_pieces
from wheelfix.wheel.splice import (
    Fresh,
    Old,
    Part,
    Tracked,
    first_difference,
    holds,
    plan,
    spliced,
    stored,
    without_end,
)
from wheelfix.wheel.zip_format import fresh_entry

Read = Callable[[int, int], bytes]


def reader(data: bytes) -> Read:
    return lambda offset, size: data[offset : offset + size]


def deflated(data: bytes, level: int = 6, memory: int = 8, strategy: int = 0) -> bytes:
    deflater = zlib.compressobj(level, zlib.DEFLATED, -15, memory, strategy)
    return deflater.compress(data) + deflater.flush()


def inflated(stream: bytes) -> bytes:
    inflater = zlib.decompressobj(-15)
    data = inflater.decompress(stream)
    assert inflater.eof
    assert not inflater.unused_data
    return data


def like_code(size: int, seed: int) -> bytes:
    """Make bytes with about the redundancy of machine code."""
    source = random.Random(seed)  # noqa: S311 - no secret
    words = [source.randbytes(source.randrange(1, 9)) for _ in range(3000)]
    return b"".join(source.choices(words, k=size // 4))[:size]


def edited(data: bytes, *places: int) -> bytes:
    new = bytearray(data)
    for place in places:
        new[place] ^= 0x55
    return bytes(new)


def fixed(stream: bytes, new: bytes) -> tuple[bytes, list[Fresh]]:
    fresh = plan(reader(stream), reader(new))
    assert fresh is not None
    return b"".join(stored(parts_of(stream, new, fresh), reader(stream))), fresh


def parts_of(stream: bytes, new: bytes, fresh: Sequence[Fresh]) -> list[Part]:
    return list(spliced(fresh, reader(stream), reader(new), -1))


def tracked(stream: bytes, library: ModuleType = LIBRARY) -> Tracked:
    """Inflate a stream, so that places of it are known."""
    found = Tracked(len(stream))
    data = inflated(stream)
    entry = fresh_entry("a", mode=0, stamp=0)._replace(size=len(data))
    assert b"".join(inflated_pieces(entry, [stream], library, mark=found.mark)) == data
    return found


def old(data: bytes, new: bytes) -> Old:
    return Old(reader(data), partial(first_difference, reader(data), reader(new)))


def made_anew(fresh: Sequence[Fresh], size: int) -> int:
    return sum((part.stop.byte if part.stop else size) - part.start.byte for part in fresh)


DATA = like_code(3_000_000, 1)


@pytest.mark.parametrize("level", [1, 6, 9])
def test_only_what_is_near_a_change_is_made_anew(level: int) -> None:
    stream = deflated(DATA, level)
    new = edited(DATA, 1_000_000, 1_000_100, 2_900_000)
    result, fresh = fixed(stream, new)
    assert inflated(result) == new
    assert len(fresh) == 2
    assert made_anew(fresh, len(new)) < 500_000
    kept = fresh[0].start.bit // 8
    assert kept > len(stream) // 4
    assert result[:kept] == stream[:kept]
    assert abs(len(result) - len(stream)) < len(stream) // 200


@pytest.mark.parametrize("place", [0, len(DATA) - 1])
def test_a_change_may_be_at_either_end(place: int) -> None:
    new = edited(DATA, place)
    result, fresh = fixed(deflated(DATA), new)
    assert inflated(result) == new
    assert made_anew(fresh, len(new)) < 300_000


def test_what_is_appended_is_deflated_alone() -> None:
    new = DATA + like_code(50_000, 2)
    result, fresh = fixed(deflated(DATA), new)
    assert inflated(result) == new
    assert made_anew(fresh, len(new)) < 400_000


def test_what_is_equal_stays() -> None:
    stream = deflated(DATA)
    assert fixed(stream, DATA) == (stream, [])


def test_where_most_changes_there_is_no_point() -> None:
    data = like_code(20_000_000, 3)
    new = bytes(len(data))
    assert plan(reader(deflated(data, 1)), reader(new)) is None


@pytest.mark.parametrize("strategy", [0, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE, zlib.Z_FIXED])
@pytest.mark.parametrize("seed", range(12))
def test_any_stream_and_any_change(strategy: int, seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - no secret
    parts = (like_code(300_000, seed), bytes(source.randrange(400_000)), source.randbytes(70_000))
    data = b"".join(source.sample(parts, source.randrange(1, 4)))
    if seed % 3 == 0:  # without a literal of nine bits, a block can begin at an even bit only
        data = bytes(byte & 0x7F for byte in data)
    level = source.randrange(10) if strategy == 0 else 6
    stream = deflated(data, level, source.randrange(1, 10), strategy)
    places = [source.randrange(len(data)) for _ in range(source.randrange(4))]
    new = edited(data, *places) + source.randbytes(source.choice([0, 0, 5000]))
    assert inflated(fixed(stream, new)[0]) == new


def test_blocks_are_joined_at_every_bit_of_a_byte() -> None:
    stream = deflated(DATA)
    bits: set[int] = set()
    for place in range(40_000, len(DATA), 150_000):
        new = edited(DATA, place)
        result, fresh = fixed(stream, new)
        assert inflated(result) == new
        bits |= {part.stop.bit % 8 for part in fresh if part.stop}
    assert bits == set(range(8))


@pytest.mark.parametrize("cut", [0, 1, 1000, -1])
def test_a_stream_that_is_cut_off_is_an_error(cut: int) -> None:
    stream = deflated(DATA)
    with pytest.raises(zlib.error):
        plan(reader(stream[:cut]), reader(edited(DATA, 2_999_000)))


# --- With what is known of the stream -------------------------------------------------------------


@pytest.mark.parametrize("level", [1, 6])
@pytest.mark.parametrize("places", [(), (0,), (1_000_000, 1_000_100, 2_900_000), (2_999_999,)])
def test_places_on_the_way_change_nothing_about_the_plan(level: int, places: Sequence[int]) -> None:
    stream = deflated(DATA, level)
    new = edited(DATA, *places) + b"appended" * len(places)
    known = tracked(stream).places
    assert len(known) > 2
    fresh = plan(reader(stream), reader(new), old=old(DATA, new), places=known)
    assert fresh == plan(reader(stream), reader(new))


@pytest.mark.parametrize("seed", range(12))
def test_what_is_planned_holds_and_nothing_else_does(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - no secret
    stream = deflated(DATA, source.randrange(1, 10))
    known = tracked(stream).places
    new = edited(DATA, *(source.randrange(len(DATA)) for _ in range(source.randrange(1, 5))))
    fresh = plan(reader(stream), reader(new), old=old(DATA, new), places=known)
    assert fresh is not None
    parts = parts_of(stream, new, fresh)
    assert inflated(b"".join(stored(parts, reader(stream)))) == new

    def hold(parts: Sequence[Part], new: bytes) -> bool:
        try:
            return holds(parts, reader(stream), old(DATA, new).differs, reader(new), known)
        except (zlib.error, LIBRARY.error):
            return False

    assert hold(parts, new)
    assert not hold(parts, DATA)
    assert not hold(parts, new + b"1")
    assert not hold(parts, new[:-1])
    assert not hold(parts, edited(new, source.randrange(len(new))))
    for number, part in enumerate(parts):
        assert not hold([*parts[:number], *parts[number + 1 :]], new) or not part
        if isinstance(part, bytes) and part:
            at = source.randrange(len(part))
            assert not hold([*parts[:number], edited(part, at), *parts[number + 1 :]], new)


# --- Without an end -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_another_stream_can_follow_one_without_end(seed: int) -> None:
    data = like_code(200_000 + 70_001 * seed, seed)
    stream = deflated(data, 1 + seed)
    unended = without_end(stream, data)
    assert unended is not None
    assert len(unended) <= len(stream) + 5
    assert inflated(unended + stream) == data + data


NOISE = random.Random(1).randbytes(100_000)  # noqa: S311 - no secret


@pytest.mark.parametrize("strategy", [zlib.Z_FIXED, 0])
@pytest.mark.parametrize("data", [b"", b"x", NOISE])
def test_where_the_last_block_is_not_found_nothing_is_guessed(data: bytes, strategy: int) -> None:
    assert without_end(deflated(data, strategy=strategy), data) is None


def test_a_stream_of_other_data_is_not_continued() -> None:
    stream = deflated(DATA)
    assert without_end(stream, DATA) is not None
    for other in (edited(DATA, 5), edited(DATA, len(DATA) - 5), DATA[:-1], DATA + b"x"):
        assert without_end(stream, other) is None
