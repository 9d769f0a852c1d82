"""Wheels that a stranger could send, most of them whole enough to be read to the end.

Half have one thing wrong, so that what comes after the zip and RECORD sees it; the others, several.
"""

import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from io import BytesIO

from tests.oracles.fuzzing import forge
from tests.oracles.fuzzing.commands import any_metadata, any_sbom, any_wheel
from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.sound import WHEEL, members, objects, wheels
from tests.oracles.fuzzing.well_formed import source_text
from wheelfix.wheel.model import RecordRow
from wheelfix.wheel.record import format_record, hash_field

EXECUTED = b"import os\nopen(os.environ['EXECUTED'], 'a').close()\n"
"""A source that leaves a file if it is executed."""
Contents = dict[str, bytes]


def hostile_wheel(dice: random.Random) -> bytes:
    """Return a wheel, or what calls itself one."""
    kind = dice.random()
    if kind < 0.15:
        return any_wheel(dice)
    if kind < 0.2:
        return lying_zip(dice.choice(wheels()), dice)
    files = dict(members())
    is_light = kind < 0.7
    if is_light:
        # What a wheel like this lacks would be found first.
        files[_METADATA] = files[_METADATA].replace(b"License-File: LICENSE\n", b"")
    for _ in range(1 if is_light else dice.randint(1, 4)):
        dice.choice(_READ_LATE if is_light else _CHANGES)(files, dice)
    if is_light or dice.random() < 0.6:
        files[_RECORD] = _record(files)
    elif dice.random() < 0.9:
        files[_RECORD] = _wrong_record(_record(files), dice)
    made = _zipped(files, dice, is_sound=is_light)
    return made if is_light or dice.random() < 0.8 else lying_zip(made, dice)


def wheel_name(dice: random.Random) -> str:
    """Return a file name: mostly one that is allowed."""
    if dice.random() < 0.93:
        return f"demo-1.0-{dice.choice(_TAGS)}.whl"
    odd = re.sub("[/\0\ud800-\udfff]", "_", word(dice))[:60]
    return dice.choice(
        (
            f"demo-1.0-1{odd}-cp311-cp311-linux_x86_64.whl",
            f"{odd}-1.0-cp311-cp311-linux_x86_64.whl",
            f"demo-{odd}-cp311-cp311-linux_x86_64.whl",
            f"demo-1.0-cp311-cp311-{odd}.whl",
            f"demo-1.0-{odd}-cp311-linux_x86_64.whl",
            f"demo-1.0-{'.'.join(f'cp3{n}' for n in range(20))}-cp311-linux_x86_64.whl",
        )
    )


_RECORD, _METADATA = f"{forge.INFO}/RECORD", f"{forge.INFO}/METADATA"
_TAGS = (
    *["cp311-cp311-linux_x86_64"] * 24,
    *("cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64", "py3-none-linux_x86_64"),
    *("cp311-abi3-manylinux_2_28_x86_64", "cp311-cp311-musllinux_1_2_x86_64", "py3-none-any"),
    *("cp313-cp313-android_21_arm64_v8a", "cp311-cp311-macosx_11_0_arm64"),
    *("cp311-cp311-win_amd64", "cp311-cp311-linux_aarch64", "cp311-cp311-manylinux1_i686"),
    *("pp310-pypy310_pp73-manylinux_2_5_x86_64", "cp314-cp314t-manylinux_2_99999_x86_64"),
    *("cp311-cp311-linux_x86_64.linux_aarch64.manylinux1_x86_64", "cp311-cp311-linux_riscv64"),
    *("cp311-cp311-android_999999999_x86_64.android_21_x86_64", "cp3-none-manylinux_2_17_s390x"),
)

# --- Names ----------------------------------------------------------------------------------------

_PIECES = (
    *("\x1b[2J", "\r", "\n", "\0", "\x07", "\x9b31m", "\u202e", "\u2028", "\x85", "\x7f", "\ud800"),
    *("::error::x", "##[group]", "%0A", "`", "$(id)", '"', "'", "<b>", "&", "|", "\\", "{}", "%s"),
    *("-", "--", "..", "/", ":", "~", "\u00e9", "\U0001f600", "a" * 300, "\t", " ", "  ", "@", "."),
    *("CON", "aux.so", "#", "?", "*", "[x]", "a", "b", "lib", ".so", ".1", "x", "a", "lib", ".so"),
)
_MEMBERS = (
    *("../x.so", "/etc/x.so", "a/../../b.so", "./a.so", "a//b.so", "a\\b.so", "a/", "a/./b", ".."),
    *(
        "C:/x",
        "~/.x",
        "//x",
        "a/..",
        ".",
        "",
        "demo/x.so/y",
        "demo/X.so",
        "DEMO/x.so",
        "demo/x.so ",
    ),
    *("demo/x.so.", f"{forge.INFO}/RECORD.jws", "other-1.dist-info/METADATA", f"{forge.INFO}/../x"),
    *(f"demo-1.0.data/{name}" for name in ("purelib/x.so", "platlib/demo/x.so", "scripts/x")),
    *(
        f"demo-1.0.data/{name}"
        for name in ("headers/h.h", "nope/x", "data/../../x", "data/libx.so")
    ),
    *(
        "sitecustomize.py",
        "x.pth",
        "__pycache__/x.pyc",
        "demo.libs/libz-0.so",
        "demo/__init__.py/x",
    ),
)


def word(dice: random.Random) -> str:
    """Return a few pieces that terminals, shells, CI systems or file systems know."""
    return "".join(dice.choices(_PIECES, k=dice.randint(1, 4)))


def _member_name(dice: random.Random) -> str:
    if dice.random() < 0.3:
        return dice.choice(_MEMBERS)
    deep = "a/" * dice.choice((1, 40, 400))
    folder = dice.choice(("", "demo/", "demo.libs/", "demo-1.0.data/", f"{forge.INFO}/", deep))
    return folder + word(dice) + dice.choice(("", ".so", ".py", ".so.1", ".pth", ".abi3.so"))


# --- Objects --------------------------------------------------------------------------------------

_NUMBERS = (
    *(0, 1, 2, 3, 7, 8, 0x10, 0x40, 0x7F, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF),
    *(1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)
_HEADER = "4B 5B 6B 7B 8B 16H 18H 20I 24Q 32Q 40Q 48I 52H 54H 56H 58H 60H 62H"
_SEGMENT = "0I 4I 8Q 16Q 24Q 32Q 40Q 48Q"
_SECTION = "0I 4I 8Q 16Q 24Q 32Q 40I 44I 48Q 56Q"
_TYPES = (1, 2, 3, 4, 6, 7, 0x6474E550, 0x6474E551, 0x6474E552, 0x6474E553)
_DYNAMIC_TAGS = (
    *(0, 1, 4, 5, 6, 10, 11, 14, 15, 16, 20, 21, 22, 23, 24, 25, 26, 29, 30, 32, 0x6000000F),
    *(0x6FFFFEF5, 0x6FFFFEF9, 0x6FFFFFF0, 0x6FFFFFFB, 0x6FFFFFFC, 0x6FFFFFFD, 0x6FFFFFFE),
    *(0x6FFFFFFF, 0x7FFFFFFD, 0x7FFFFFFF),
)


def lying_object(data: bytes, dice: random.Random) -> bytes:
    """Change one to three numbers that stand for something in an object of x86-64."""
    told = bytearray(data)
    for _ in range(dice.randint(1, 3)):
        try:
            dice.choice((_lie_in_header, _lie_in_table, _lie_in_dynamic, _lie_in_dynamic))(
                told, dice
            )
        except (
            struct.error,
            LookupError,
            ValueError,
            OverflowError,
        ):  # an earlier lie has moved the tables
            told = bytearray(damaged(bytes(told), dice))
    return bytes(told)


def _write(data: bytearray, at: int, field: str, number: int) -> None:
    """Write `number`, cut to what fits, into a field like `16H` of the record at `at`."""
    form = "<" + field[-1]
    number &= (1 << 8 * struct.calcsize(form)) - 1
    struct.pack_into(form, data, at + int(field[:-1]), number)


def _lie_in_header(data: bytearray, dice: random.Random) -> None:
    machines = (3, 8, 20, 21, 22, 40, 62, 183, 243, 258)
    number = dice.choice((*_NUMBERS, *machines, len(data)))
    _write(data, 0, dice.choice(_HEADER.split()), number)


def _lie_in_table(data: bytearray, dice: random.Random) -> None:
    (start,) = struct.unpack_from("<Q", data, 32)
    (sections,) = struct.unpack_from("<Q", data, 40)
    segment_count, _, section_count = struct.unpack_from("<3H", data, 56)
    if section_count and dice.random() < 0.2:
        at, fields = sections + 64 * dice.randrange(section_count), _SECTION
    else:
        at, fields = start + 56 * dice.randrange(segment_count), _SEGMENT
    field = dice.choice(fields.split())
    known = _TYPES if field == "0I" else (len(data), len(data) - 1)
    _write(data, at, field, dice.choice((*_NUMBERS, *known)))


def _lie_in_dynamic(data: bytearray, dice: random.Random) -> None:
    """Change an entry of the dynamic section, or what its address leads to."""
    start, at, size = *struct.unpack_from("<Q", data, 32), 0, 0
    for number in range(min(struct.unpack_from("<H", data, 56)[0], 50)):
        kind, _, place, _, _, length = struct.unpack_from("<2L4Q", data, start + 56 * number)
        if kind == 2:
            at, size = place, length
    one, other = (at + 16 * dice.randrange(size // 16) for _ in range(2))
    tag, value = struct.unpack_from("<2Q", data, one)
    kind = dice.randrange(4)
    if kind == 0:
        near = (value + step for step in (-8, -1, 1, 8, 16))
        _write(
            data, one, "8Q", dice.choice((*_NUMBERS, len(data), dice.randrange(len(data)), *near))
        )
    elif kind == 1:
        _write(data, one, "0Q", dice.choice(_DYNAMIC_TAGS))
    elif kind == 2:
        data[one : one + 16], data[other : other + 16] = (
            data[other : other + 16],
            data[one : one + 16],
        )
    elif tag:
        _write(data, value + 4 * dice.randrange(6), "0" + dice.choice("IHQ"), dice.choice(_NUMBERS))


_NOTES = (
    *("[", "{}", "[[[[[]]]]]", "null", '[{"soname":null}]', '[{"soname":[1,{}]}]', "1e999"),
    *('"' + "a" * 100 + '"', '[{"soname":[%s],"priority":"required","description":%s}]'),
)
_SYMBOLS = (
    *("_ZN1a1bEv", "_Z" + "1" * 20, "PyInit_x", "Py_Initialize", "f", "_ZTI1a", "memcpy", "dlopen"),
)
_LIBRARIES = (
    *("libm.so.6", "libx.so.1", "$ORIGIN/x.so", "/abs/lib.so", "", "libc.so.6", "libcuda.so.1"),
    *("ld-linux-x86-64.so.2", "libpython3.11.so.1.0", "${LIB}/$PLATFORM", "::", "lib:a:b"),
)
_VERSIONS = ("GLIBC_2.2.5", "GLIBC_2.99", "GLIBC_PRIVATE", "GLIBC_" + "9" * 40, "CXXABI_1.3", "")


def odd_object(dice: random.Random) -> bytes:
    """Return a sound object whose names, versions and notes are a stranger's."""
    strings = forge.Strings()

    def one_of(known: Sequence[str]) -> int:
        return strings.add(_encodable(dice.choice((word(dice), *known))))

    kinds = [forge.NEEDED, forge.NEEDED, forge.SONAME, forge.RPATH, forge.RUNPATH]
    kinds += [0x7FFFFFFD, 0x7FFFFFFF, 0x6FFFFEFC]
    tags: list[tuple[int, int | str]] = [
        (dice.choice(kinds), one_of(_LIBRARIES)) for _ in range(dice.randint(0, 8))
    ]
    tables: dict[str, bytes] = {}
    segments: list[tuple[int, str]] = []
    if dice.random() < 0.6:
        names = [one_of(_SYMBOLS) for _ in range(dice.randint(1, 6))]
        tables["symbols"] = forge.symbols(names, section=dice.randrange(2))
        tables["hash"] = forge.sysv_hash(len(names) + 1)
        tags += [(forge.SYMTAB, "symbols"), (forge.HASH, "hash")]
    if dice.random() < 0.4:
        versions = [one_of(_VERSIONS) for _ in range(dice.randint(1, 4))]
        tables["needs"] = _versions_needed(one_of(_LIBRARIES), versions, dice)
        tags.append((forge.VERNEED, "needs"))
    if dice.random() < 0.3:
        text = dice.choice(_NOTES).replace("%s", json.dumps(_encodable(word(dice)))).encode()
        size = dice.choice((len(text), len(text), 0xFFFFFFFF, 0))
        tables["note"] = struct.pack("<3L", 4, size, 0x407C0C0A) + b"FDO\0" + text + bytes(4)
        segments.append((forge.NOTE, "note"))
    if dice.random() < 0.2:
        tables["interpreter"] = _encodable(word(dice)).encode() + b"\0"
        segments.append((forge.INTERP, "interpreter"))
    kind = dice.choice((2, 3, 3, 3))
    return forge.with_strings(tags, tables, strings, segments=segments, kind=kind)


def _versions_needed(file: int, versions: Sequence[int], dice: random.Random) -> bytes:
    made = struct.pack("<2H3L", 1, len(versions), file, 16, 0)
    for number, name in enumerate(versions, 2):
        following = 16 if number <= len(versions) else 0
        flags = dice.choice((0, 2))
        made += struct.pack("<L2H2L", dice.randrange(1 << 32), flags, number, name, following)
    return made


def _encodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


# --- Changes of a wheel's contents ----------------------------------------------------------------

_SOURCES = (
    *(EXECUTED, b"\xef\xbb\xbf# coding: utf-7\n", b"# coding: nope\n", b"\0", b"(" * 500),
    *(b'f"{f"{f"{1}"}"}"', b"x=" + b"-" * 3000 + b"1", b"lambda:" * 800 + b"1"),
    b'import ctypes\nctypes.CDLL("\x1b[31m\\x1b[2J\\u202e.so")\n',
    b'import ctypes\nctypes.CDLL("\\udcff/\\0x")\n',
    b'import os;os.environ["LD_LIBRARY_PATH"]="\x1b"\n',
)


def _lie_about_object(files: Contents, dice: random.Random) -> None:
    names = [name for name in files if ".so" in name] or ["demo/x.so"]
    name = dice.choice(names)
    files[name] = lying_object(files.get(name) or objects()[1], dice)


def _add_odd_object(files: Contents, dice: random.Random) -> None:
    places = ("demo/x.so", "demo/y.so", "demo.libs/libq-1.so", "demo-1.0.data/data/lib/libx.so.1")
    files[dice.choice((*places, "demo/core.cpython-311-x86_64-linux-gnu.so"))] = odd_object(dice)


def _change_source(files: Contents, dice: random.Random) -> None:
    name = dice.choice(("demo/__init__.py", "demo/z.py", "x.pth", "sitecustomize.py"))
    files[name] = source_text(dice) if dice.random() < 0.6 else dice.choice(_SOURCES)


def _change_sbom(files: Contents, dice: random.Random) -> None:
    name = dice.choice(("auditwheel", "wheelfix", "x\x1b"))
    files[f"{forge.INFO}/sboms/{name}.cdx.json"] = any_sbom(dice)


def _add_member(files: Contents, dice: random.Random) -> None:
    files[_member_name(dice)] = dice.choice((objects()[1], b"", *_SOURCES[:1], odd_object(dice)))


def _change_metadata(files: Contents, dice: random.Random) -> None:
    files[_METADATA] = any_metadata(dice)


def _add_metadata(files: Contents, dice: random.Random) -> None:
    field = dice.choice(("Summary", "Author", "Requires-Dist", "License-Expression", "Keywords"))
    line = _encodable(f"{field}: {word(dice)}\n").encode()
    files[_METADATA] = forge.METADATA.encode() + line


def _change_tags(files: Contents, dice: random.Random) -> None:
    odd = _encodable(f"{WHEEL}Tag: {word(dice)}\nBuild: {word(dice)}\n").encode()
    version = dice.choice(("2.0", "1.9", "x", "9" * 5000))
    other = WHEEL.replace("1.0", version, 1).encode()
    files[f"{forge.INFO}/WHEEL"] = dice.choice((damaged(WHEEL.encode(), dice), odd, other))


def _change_entry_points(files: Contents, dice: random.Random) -> None:
    odd = f"[console_scripts]\n{word(dice)} = {word(dice)}:{word(dice)}\n"
    sound = b"[console_scripts]\ndemo = demo:main\n[gui_scripts]\nd=e:f[x]\n"
    rules = b"[wheelfix.rules]\nx = demo:rules\n"
    chosen = _encodable(odd).encode(), damaged(sound, dice), b"\xff\xfe[", b"[a\n[b]]\n=", rules
    files[f"{forge.INFO}/entry_points.txt"] = dice.choice(chosen)


def _add_information(files: Contents, dice: random.Random) -> None:
    names = ("direct_url.json", "top_level.txt", "WHEEL.json", "RECORD.jws", "variant.json")
    name = dice.choice((*names, f"licenses/{word(dice)}"))
    files[f"{forge.INFO}/{name}"] = dice.choice((b"{}", b"[", b"\xff", any_sbom(dice)))


def _leave_out(files: Contents, dice: random.Random) -> None:
    files.pop(dice.choice(sorted(files)), None)


_Change = Callable[[Contents, random.Random], None]
_READ_LATE: Sequence[_Change] = (
    *[_lie_about_object] * 4,
    *[_add_odd_object] * 3,
    *(_change_source, _change_source, _change_sbom, _add_metadata),
)
"""Changes that only what reads the members comes upon."""
_CHANGES: Sequence[_Change] = (
    *_READ_LATE,
    *(_add_member, _change_metadata, _change_tags, _change_entry_points, _add_information),
    _leave_out,
)

# --- RECORD and zip -------------------------------------------------------------------------------


def _record(files: Mapping[str, bytes]) -> bytes:
    rows = [
        RecordRow(name, hash_field("sha256", sha256(data).digest()), len(data))
        for name, data in files.items()
        if name != _RECORD
    ]
    with suppress(UnicodeEncodeError):
        return format_record([*rows, RecordRow(_RECORD, "", None)])
    return b""


def _wrong_record(record: bytes, dice: random.Random) -> bytes:
    if dice.random() < 0.4:
        return damaged(record, dice)
    lines = record.decode().splitlines() or [""]
    at = dice.randrange(len(lines))
    line, odd = lines[at], word(dice)
    rows = (odd, f"{odd},sha256=x,1", f"{line},x", line.replace("sha256", "md5"), lines[0])
    more = (line.replace("sha256", "sha9"), line + "9" * 5000, f'"{line}', "../../etc/x,sha256=x,1")
    lines[at] = dice.choice((*rows, *more))
    return _encodable("\n".join(lines)).encode()


_MODES = (0o120777, 0o100755, 0o104755, 0o040755, 0o010644, 0o020644, 0o060644, 0, 0o100000, 0xFFFF)


def _zipped(files: Mapping[str, bytes], dice: random.Random, *, is_sound: bool) -> bytes:
    stream = BytesIO()
    odd = "" if is_sound or dice.random() < 0.9 else dice.choice(sorted(files))
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.filename = name  # with the NUL at which the constructor cuts
            modes = _MODES if name == odd else (0o100644, 0o100755, 0)
            entry.external_attr = dice.choice(modes) << 16
            entry.compress_type = dice.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
            entry.create_system = 3
            with suppress(UnicodeEncodeError, ValueError):
                archive.writestr(entry, content)
        if dice.random() < 0.05:
            archive.comment = _encodable(word(dice)).encode()
    return stream.getvalue()


_ZIP_FIELDS: Mapping[bytes, str] = {
    b"PK\1\2": "4H 6H 8H 10H 16I 20I 24I 28H 30H 32H 34H 36H 38I 42I",
    b"PK\3\4": "4H 6H 8H 10H 14I 18I 22I 26H 28H",
    b"PK\5\6": "4H 6H 8H 10H 12I 16I 20H",
}


def lying_zip(data: bytes, dice: random.Random) -> bytes:
    """Change one or two numbers in records of a zip, or put something before or behind it."""
    told = bytearray(data)
    for _ in range(dice.randint(1, 2)):
        kind = dice.choice(tuple(_ZIP_FIELDS))
        places = [found.start() for found in re.finditer(re.escape(kind), told)]
        modes = (mode << 16 for mode in _MODES)
        number = dice.choice((*_NUMBERS, len(data), 12, 14, 93, 99, 0x800, *modes))
        with suppress(struct.error, IndexError):
            _write(told, dice.choice(places), dice.choice(_ZIP_FIELDS[kind].split()), number)
    before = dice.choice((b"#!/bin/sh\n", b"MZ", bytes(100), data, *[b""] * 60))
    behind = dice.choice((b"x" * 30, data, b"PK\5\6" + bytes(18), *[b""] * 60))
    return before + bytes(told) + behind
