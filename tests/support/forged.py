"""Shared objects that no linker would write."""

import struct
from collections.abc import Sequence


def forged(
    *, needed: Sequence[str] = (), runpath: str = "", soname: str = "", versions: Sequence[str] = ()
) -> bytes:
    """Write a shared object that says what no linker would write."""
    names = ["", soname, runpath, "libc.so.6", *versions, *dict.fromkeys(needed)]
    places: dict[str, int] = {}
    strings = bytearray()
    for name in names:
        places.setdefault(name, len(strings))
        strings += name.encode() + b"\0"
    header, load, dynamic = 64, 56, 16
    tags = [(1, places[name]) for name in needed]
    tags += [(14, places[soname])] if soname else []
    tags += [(29, places[runpath])] if runpath else []
    at = header + 2 * load
    size = dynamic * (len(tags) + 6 + (2 if versions else 0))
    hash_at = at + size
    symbols_at = hash_at + 16
    needs_at = symbols_at + 24
    strings_at = needs_at + (16 + 16 * len(versions) if versions else 0)
    tags += [(4, hash_at), (5, strings_at), (6, symbols_at), (10, len(strings)), (11, 24)]
    tags += [(0x6FFFFFFE, needs_at), (0x6FFFFFFF, 1)] if versions else []
    end = strings_at + len(strings)
    ident = b"\x7fELF\2\1\1" + bytes(9)
    parts = [
        ident + struct.pack("<2HL3QL6H", 3, 62, 1, 0, header, 0, 0, 64, load, 2, 64, 0, 0),
        struct.pack("<2L6Q", 1, 4, 0, 0, 0, end, end, 0x1000),
        struct.pack("<2L6Q", 2, 4, at, at, at, size, size, 8),
        b"".join(struct.pack("<2Q", *tag) for tag in [*tags, (0, 0)]),
        struct.pack("<4L", 1, 1, 0, 0),
        bytes(24),
    ]
    if versions:
        parts.append(struct.pack("<2H3L", 1, len(versions), places["libc.so.6"], 16, 0))
        parts += [
            struct.pack("<L2H2L", n, 0, 2 + n % 9, places[name], 16 if n + 1 < len(versions) else 0)
            for n, name in enumerate(versions)
        ]
    return b"".join([*parts, strings])
