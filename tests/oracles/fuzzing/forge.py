"""ELF objects that no linker writes, and wheels of them."""

import io
import zipfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import chain
from struct import pack

from wheelfix.wheel.model import RecordRow
from wheelfix.wheel.record import format_record, hash_field

NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"
INFO = "demo-1.0.dist-info"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"
METADATA = "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"

NEEDED, HASH, STRTAB, SYMTAB, RELA, RELASZ, STRSZ = 1, 4, 5, 6, 7, 8, 10
SONAME, RPATH, INTERP, NOTE, RUNPATH = 14, 15, 3, 4, 29
GNU_HASH, VERSYM, VERDEF, VERNEED = 0x6FFFFEF5, 0x6FFFFFF0, 0x6FFFFFFC, 0x6FFFFFFE

Files = Mapping[str, bytes | str]


def elf(
    tags: Sequence[tuple[int, int | str]],
    tables: Mapping[str, bytes],
    *,
    segments: Sequence[tuple[int, str]] = (),
    sections: int = 0,
    kind: int = 3,
) -> bytes:
    """Write an x86-64 object of one PT_LOAD segment, which is mapped at address 0.

    `tags` are the dynamic section, where the name of one of `tables` stands for its address.
    `segments` are more program headers, each for one of `tables`. `sections` is the number of empty
    section headers at the end.
    """
    table = 64 + 56 * (2 + len(segments))
    places: dict[str, int] = {}
    at = table + 16 * (len(tags) + 1)
    for name, content in tables.items():
        at += -at % 8
        places[name] = at
        at += len(content)
    end = at
    dynamic = [(tag, places[v] if isinstance(v, str) else v) for tag, v in tags]
    headers = [(1, 0, end), (2, table, 16 * (len(tags) + 1))]
    headers += [(number, places[name], len(tables[name])) for number, name in segments]
    start = end + -end % 8 if sections else 0
    counts = (56, min(len(headers), 0xFFFF), 64, 0, 0)
    made = bytearray(b"\x7fELF\2\1\1" + bytes(9))
    made += pack("<2HL3QL6H", kind, 62, 1, 0, 64, start, 0, 64, *counts)
    made += b"".join(pack("<2L6Q", k, 4, o, o, o, size, size, 8) for k, o, size in headers)
    made += b"".join(pack("<2Q", *pair) for pair in [*dynamic, (0, 0)])
    for content in tables.values():
        made += bytes(-len(made) % 8) + content
    if sections:
        made += bytes(-len(made) % 8)
        made += pack("<2L4Q2L2Q", 0, 0, 0, 0, 0, sections, 0, len(headers), 0, 0)
        made += bytes(64 * (sections - 1))
    return bytes(made)


class Strings:
    """A string table that grows."""

    def __init__(self) -> None:
        self.content = bytearray(1)

    def add(self, text: str) -> int:
        """Return the place of `text`."""
        at = len(self.content)
        self.content += text.encode() + b"\0"
        return at


def symbols(names: Sequence[int], *, section: int = 0, info: int = 0x12) -> bytes:
    """Write a symbol table: entries with these names in one section."""
    rows = (pack("<LBBHQQ", name, info, 0, section, 1, 8) for name in names)
    return bytes(24) + b"".join(rows)


def sysv_hash(count: int) -> bytes:
    """Write a DT_HASH of one empty bucket, for `count` symbols."""
    return pack("<2L", 1, count) + bytes(4 * (1 + count))


def library(
    needed: Sequence[str] = (), *, soname: str = "", rpath: str = "", runpath: str = ""
) -> bytes:
    """Write a library without symbols."""
    strings = Strings()
    tags: list[tuple[int, int | str]] = [(NEEDED, strings.add(name)) for name in needed]
    named = ((SONAME, soname), (RPATH, rpath), (RUNPATH, runpath))
    tags += [(tag, strings.add(text)) for tag, text in named if text]
    return with_strings(tags, {}, strings)


def with_strings(
    tags: Sequence[tuple[int, int | str]],
    tables: Mapping[str, bytes],
    strings: Strings,
    *,
    segments: Sequence[tuple[int, str]] = (),
    kind: int = 3,
) -> bytes:
    """Write an object with this string table."""
    more = {**tables, "strings": bytes(strings.content)}
    own: list[tuple[int, int | str]] = [(STRTAB, "strings"), (STRSZ, len(strings.content))]
    return elf([*tags, *own], more, segments=segments, kind=kind)


def wheel(files: Files) -> bytes:
    """Zip `files`, with the metadata that they lack and a true RECORD unless they have one."""
    record = f"{INFO}/RECORD"
    whole: dict[str, bytes | str] = {f"{INFO}/WHEEL": WHEEL, f"{INFO}/METADATA": METADATA, **files}
    contents = {
        name: text.encode() if isinstance(text, str) else text for name, text in whole.items()
    }
    if record not in contents:
        rows = (
            RecordRow(name, hash_field("sha256", sha256(content).digest()), len(content))
            for name, content in contents.items()
        )
        contents[record] = format_record(chain(rows, [RecordRow(record, "", None)]))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in contents.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()
