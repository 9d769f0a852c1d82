"""What inflates is a matter of time alone: zlib and zlib-ng give and refuse the same."""

import zlib
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelfix.errors import BadWheelError
from wheelfix.wheel.zip_headers import Entry, fresh_entry
from wheelfix.wheel.zip_reader import crc32, inflate_pieces

CONTENT = b"".join(b"%d is a number, and so is %d.\n" % (n, n * n) for n in range(3000))

STRAY_CODES = bytes.fromhex(
    "05c1b14dc3401400d0f7ef0e2b0dd249342e2248c3022e223746d7000d7d94920dd8800d52bb"
    "f4081e2123b8cc18292979e7f7fdeb234500c8de04b66fa0017e3e138066f4a879f1ac434103"
    "344003dc12704bc00e9051d067a0cf409f813d600f0840a0000000e07a04ae474005020fd000"
    "0dd080f329c0f91440050205960096009600db05d82e800a043aac4302eb90c03a24509f80bf"
    "574005123acc5302f394c03c25700fe01ec00e5050306660ccc0988103e0807f"
)


def packed(content: bytes, level: int = 6, strategy: int = 0) -> bytes:
    packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
    return packer.compress(content) + packer.flush()


def an_entry(size: int) -> Entry:
    return fresh_entry("pkg/a.py", mode=0, stamp=0)._replace(size=size)


def inflated(stream: bytes, size: int, library: ModuleType, piece: int = 2**20) -> bytes | str:
    raw = (stream[at : at + piece] for at in range(0, len(stream), piece))
    try:
        return b"".join(inflate_pieces(an_entry(size), raw, library))
    except BadWheelError as error:
        return error.message


@pytest.fixture(params=["zlib", "zlib_ng.zlib_ng"])
def library(request: pytest.FixtureRequest) -> ModuleType:
    name: str = request.param
    module: ModuleType = pytest.importorskip(name, reason="it has no wheel for this machine")
    return module


@pytest.mark.parametrize("piece", [1, 1000, 2**20])
@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_what_comes_out_is_what_went_in(library: ModuleType, level: int, piece: int) -> None:
    stream = packed(CONTENT, level)
    assert inflated(stream, len(CONTENT), library, piece) == CONTENT
    assert crc32(CONTENT, 7) == zlib.crc32(CONTENT, 7)


@pytest.mark.parametrize(
    ("stream", "size", "said"),
    [
        (packed(CONTENT), len(CONTENT) - 1, "inflates past the 108,426 bytes that the zip states"),
        (packed(CONTENT) + b"x", len(CONTENT), "does not end where its compressed data should"),
        (packed(CONTENT)[:-1], len(CONTENT), "does not end where its compressed data should"),
        (b"", 0, "does not end where its compressed data should"),
        (b"\xff", 0, "cannot be inflated: Error -3 while decompressing data: invalid block type"),
        (  # distance codes of which some bits mean nothing: ISA-L takes them, pip does not
            STRAY_CODES,
            501,
            "cannot be inflated: Error -3 while decompressing data: invalid distances set",
        ),
    ],
)
def test_what_is_refused_is_refused_in_the_same_words(
    library: ModuleType, stream: bytes, size: int, said: str
) -> None:
    assert inflated(stream, size, library) == f"`pkg/a.py` {said}"


@pytest.mark.each_run("zlib_ng*")
def test_a_bomb_is_left_after_a_piece_too_many(library: ModuleType) -> None:
    pieces = inflate_pieces(an_entry(10), [packed(bytes(2**28), 1)], library)
    with pytest.raises(BadWheelError, match="inflates past the 10 bytes"):
        next(pieces)


@given(
    strategy=st.integers(0, 4),
    flips=st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=4),
    size=st.sampled_from([len(CONTENT), 0, 100, 10**6]),
)
def test_damaged_streams_are_judged_alike(
    strategy: int, flips: list[tuple[int, int]], size: int
) -> None:
    """`python -m tests.oracles.fuzzing.fuzz stream -n 1000000` tries more."""
    faster = pytest.importorskip("zlib_ng.zlib_ng", reason="it has no wheel for this machine")
    stream = bytearray(packed(CONTENT, strategy=strategy))
    for at, byte in flips:
        stream[at] ^= byte
    data = bytes(stream)
    assert inflated(data, size, faster, 100) == inflated(data, size, zlib, 100)
