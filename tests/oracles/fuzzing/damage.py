"""Sound bytes, damaged at random."""

import random
import struct
from collections.abc import Callable, Sequence

_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)


def damaged(data: bytes, dice: random.Random) -> bytes:
    """Return `data` with one to eight kinds of damage."""
    broken = bytearray(data)
    for _ in range(dice.randint(1, 8)):
        if not broken:
            break
        dice.choice(_DAMAGES)(broken, dice)
    return bytes(broken)


def _flip(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def _lie(data: bytearray, dice: random.Random) -> None:
    size = dice.choice((1, 2, 4, 8))
    at = dice.randrange(max(1, len(data) - size))
    if dice.random() < 0.5:  # where a field of a table may begin
        at -= at % size
    number = dice.choice((*_NUMBERS, len(data), dice.randrange(len(data) + 1)))
    data[at : at + size] = struct.pack("<Q", number)[:size]


def _cut(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice((1, 4, 64, len(data)))]


def _double(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    piece = data[at : at + dice.choice((1, 8, 46, 512))]
    data[at:at] = piece


def _swap(data: bytearray, dice: random.Random) -> None:
    size = dice.choice((1, 8, 24, 64))
    one, other = (dice.randrange(max(1, len(data) - size)) for _ in range(2))
    piece = bytes(data[one : one + size])
    data[one : one + size] = data[other : other + size]
    data[other : other + size] = piece


def _noise(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    data[at : at + dice.randrange(32)] = dice.randbytes(dice.randrange(32))


_DAMAGES: Sequence[Callable[[bytearray, random.Random], None]] = (
    _flip,
    _lie,
    _lie,
    _cut,
    _double,
    _swap,
    _noise,
)
