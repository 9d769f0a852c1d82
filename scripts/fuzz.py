"""Feed wheelfix broken input: only its own errors may come out, soon, and in little memory.

Each case starts from something sound, a wheel or an ELF object or a text, or from a case of
fixtures/fuzz, and damages it: bits, runs of bytes, numbers that lie, pieces cut, doubled or
swapped. A case is told by its target and its number, so that it can be run again alone.

    python scripts/fuzz.py                       # some of every target
    python scripts/fuzz.py zip elf -n 1000000    # much of two
    python scripts/fuzz.py edit --first 4711 -n 1
    python scripts/fuzz.py zip --collect         # keep the smallest case of each way to be refused
    python scripts/fuzz.py elf --atheris 300     # so many seconds, guided by the lines reached

Exits with 1 at the first case that crashes, takes more than 2 seconds of the processor, asks for
more than 256 MiB, or makes the editor write what readelf then rejects; the case is kept in a file,
as small as it can be made.
"""

import argparse
import io
import json
import random
import re
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cache, partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

from wheelfix.cli.config.values import settings_from
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit_in_place
from wheelfix.elf.exports import Defined
from wheelfix.elf.image import Dt, Dynamic, Image
from wheelfix.elf.reader import read_elf, read_exports, read_lookups
from wheelfix.errors import BadWheelError, WheelfixError
from wheelfix.pipelines.check import check, check_set
from wheelfix.pipelines.check_result import SetReport
from wheelfix.reports.formats import Format
from wheelfix.reports.render import render
from wheelfix.reports.render_options import RenderOptions
from wheelfix.rules.plugins import all_rules
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Settings
from wheelfix.wheel.dist_info import edit_metadata, read_core_metadata, read_metadata
from wheelfix.wheel.inflate import LIBRARY, inflated_pieces, inflated_whole
from wheelfix.wheel.model import RecordRow, WheelName
from wheelfix.wheel.python_opens import followed
from wheelfix.wheel.python_searches import searches
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.record import format_record, hash_field, parse_record, verify_record
from wheelfix.wheel.zip_format import Entry, fresh_entry

# ruff: noqa: S311 -- dice need no secrecy

SECONDS = 2
"""Of the processor, for one case: other work on the machine does not count."""
MEMORY = 256 << 20
CASES = 2_000
"""Of each target, unless asked for more."""
READELF_EACH = 50
"""Every so many edited objects go to readelf, which takes a hundred times as long as the edit."""
CORPUS = Path(__file__).parent.parent / "fixtures" / "fuzz"
_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)

# --- Damage ---------------------------------------------------------------------------------------


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

# --- Something sound ------------------------------------------------------------------------------

_CODE = 'extern int puts(const char *); int f(void) { return puts("f"); } int g = 1;'
_DENSE = ("-Wl,-z,max-page-size=64,-z,noseparate-code,-z,norelro,--build-id=none", "-nostdlib")
"""Objects of 2 kB: most of what is damaged then says something."""


@cache
def objects() -> tuple[bytes, ...]:
    """Build a few small objects: with and without versions, hash tables, section headers."""
    kinds = (
        ["-shared"],
        ["-shared", *_DENSE, "-Wl,--hash-style=both,-rpath,$ORIGIN/lib,-soname,libx.so.1"],
        ["-shared", "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-lm"],
        ["-shared", *_DENSE, "-Wl,--no-as-needed", "-lm", "-lc"],
        ["-shared", *_DENSE, "-Wl,--version-script=/dev/stdin"],
        ["-pie", "-fPIE", *_DENSE, "-Wl,-e,f", "-lc"],
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.c", Path(folder) / "x.so"
        source.write_text(_CODE, encoding="utf-8")
        made: list[bytes] = []
        for flags in kinds:
            command = ["gcc", "-fPIC", "-fno-asynchronous-unwind-tables", "-s", "-o", str(target)]
            command += [str(source), "-Wl,--allow-shlib-undefined", *flags]
            subprocess.run(command, input=b"V1 { f; }; V2 { g; } V1;", check=True)
            made.append(target.read_bytes())
    return tuple(made)


_WHEEL = """Wheel-Version: 1.0
Generator: fuzz
Root-Is-Purelib: false
Tag: cp311-cp311-linux_x86_64
"""
_METADATA = """Metadata-Version: 2.4
Name: demo
Version: 1.0
Requires-Python: >=3.8
Requires-Dist: numpy (>=1.2) ; extra == "x"
License-File: LICENSE
Description: first
        | second

The body.
"""
_RECORD = """demo/__init__.py,sha256=Zm9v,300
"demo/x,y.so",sha256=YmFy,14000
demo-1.0.dist-info/RECORD,,
"""
_SOURCE = """
import ctypes, os, sys
from pathlib import Path
here = Path(__file__).parent
for name in ["liba.so", f"libb{1}.so"]:
    try:
        ctypes.CDLL(str(here / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    except OSError:
        pass
lib = ctypes.cdll.LoadLibrary(os.path.join(os.path.dirname(__file__), "libc" + ".so" * 2))
x = lambda n: ctypes.util.find_library(n) or "%s-%d" % ("a", 1)
for folder in os.environ.get("X_LIBRARY_PATH", "").split(":"):
    ctypes.CDLL(os.path.join(folder, "libx.so"))
"""
_TOML = """
plat = "manylinux_2_28_x86_64"
exclude = ["libcuda*"]
zip-level = 5
jobs = 2
fail-on = "warning"
ignore = {WF113 = "why"}
per-file-ignores = {"a/*" = ["WF1"]}
severity = {WF1 = "error"}
[[require]]
library = "libx.so*"
symbols = ["x_*"]
"""


@cache
def members() -> Mapping[str, bytes]:
    """Return the content of a small wheel, RECORD left out."""
    return {
        "demo/__init__.py": _SOURCE.encode(),
        "demo/x.so": objects()[1],
        "demo/core.cpython-311-x86_64-linux-gnu.so": objects()[3],
        "demo-1.0.data/data/lib/libx.so.1": objects()[4],
        "demo-1.0.data/scripts/run": b"#!python\nimport demo\n",
        "demo-1.0.dist-info/METADATA": _METADATA.encode(),
        "demo-1.0.dist-info/WHEEL": _WHEEL.encode(),
        "demo-1.0.dist-info/entry_points.txt": b"[console_scripts]\ndemo = demo:main\n",
        "demo-1.0.dist-info/sboms/auditwheel.cdx.json": b'{"bomFormat": "CycloneDX"}',
    }


@cache
def wheels() -> tuple[bytes, ...]:
    """Build small wheels: stored and deflated, with data descriptors, links and Zip64 fields."""
    files = {
        "demo/__init__.py": _SOURCE.encode(),
        "demo/x.so": objects()[1],
        "demo-1.0.data/data/y.txt": b"text" * 100,
        "demo-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": _WHEEL.encode(),
        "demo-1.0.dist-info/RECORD": _RECORD.encode(),
    }
    made: list[bytes] = []
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        for stream in (io.BytesIO(), _Unseekable()):
            with zipfile.ZipFile(stream, "w", method) as archive:
                for name, content in files.items():
                    with archive.open(name, "w", force_zip64=name.endswith(".txt")) as member:
                        member.write(content)
            made.append(stream.getvalue())
    return tuple(made)


class _Unseekable(io.BytesIO):
    """A stream that makes `zipfile` write data descriptors."""

    def seekable(self) -> bool:
        """Say no."""
        return False

    def seek(self, *_: int) -> int:
        """Refuse."""
        raise io.UnsupportedOperation


# --- Cases that are well-formed -------------------------------------------------------------------


def _wheel(dice: random.Random) -> bytes:
    """Zip damaged members soundly, so that the rules get to see them; RECORD is true of half."""
    files = dict(members())
    for name in dice.sample(sorted(files), dice.randint(1, 3)):
        files[name] = _text(dice) if name.endswith(".py") else damaged(files[name], dice)
    if dice.random() < 0.2:
        files[f"demo/{_word(dice)}.so"] = damaged(dice.choice(objects()), dice)
    record = "demo-1.0.dist-info/RECORD"
    rows = [RecordRow(name=name, hash=_hash(data), size=len(data)) for name, data in files.items()]
    files[record] = format_record([*rows, RecordRow(name=record, hash="", size=None)])
    if dice.random() < 0.5:
        files[record] = damaged(files[record], dice)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = dice.choice((0, 0o100644, 0o100755)) << 16
            archive.writestr(entry, data)
    return stream.getvalue()


def _hash(data: bytes) -> str:
    return hash_field("sha256", sha256(data).digest())


def _word(dice: random.Random) -> str:
    return "".join(dice.choices("ab.\u202e\x85 '\"<&%\u00e9$,:;[", k=dice.randint(1, 6)))


def _text(dice: random.Random) -> bytes:
    """Write a Python source of random statements."""
    lines = ["import ctypes, os, sys", "from pathlib import Path", "here = Path(__file__).parent"]
    lines += [_statement(dice, 0) for _ in range(dice.randint(1, 5))]
    return "\n".join(lines).encode()


def _statement(dice: random.Random, depth: int) -> str:
    """Write a statement, with what is in it indented."""
    pad = "    " * depth
    one, two = _expression(dice, 3), _expression(dice, 2)
    inner = _statement(dice, depth + 1) if depth < 3 else f"{pad}    pass"
    return pad + dice.choice(
        (
            f"{_name(dice)} = {one}",
            f"{_name(dice)} += {one}",
            f"ctypes.CDLL({one})",
            f"ctypes.CDLL({one})",
            f"for {_name(dice)} in {one}:\n{inner}",
            f"if {one}:\n{inner}\n{pad}else:\n{inner}",
            f"with {one} as {_name(dice)}:\n{inner}",
            f"try:\n{inner}\n{pad}except OSError:\n{inner}",
            f"def {_name(dice)}(x={two}):\n{inner}\n{pad}    return {one}",
            f"{_name(dice)}, {_name(dice)} = {one}",
            f"lib = ctypes.cdll[{one}]",
        )
    )


def _name(dice: random.Random) -> str:
    return dice.choice(("a", "b", "x", "f", "here", "libs"))


def _expression(dice: random.Random, depth: int) -> str:
    if depth == 0:
        return dice.choice((*_ATOMS, _name(dice)))
    one, two, three = (_expression(dice, depth - 1) for _ in range(3))
    return dice.choice(
        (
            f"({one} + {two})",
            f"({one} + {one})",
            f"({one} / {two})",
            f"({one} % {two})",
            f"({one}, {two}, {three})",
            f"[{one}, {two}]",
            f"{{{one}: {two}}}",
            f"{one}[{two}]",
            f"f'{{{_name(dice)}}}{{{_name(dice)}}}.so'",
            f"os.path.join({one}, {two}, {three})",
            f"{one}.{dice.choice(_METHODS)}({two})",
            f"{one}.replace({two}, {three})",
            f"{one}.parent",
            f"({one} if {two} else {three})",
            f"({one} or {two} and {three})",
            f"[{_name(dice)} for {_name(dice)} in {one} if {two}]",
            f"{_name(dice)}({one})",
            f"os.environ.get({one}, {two})",
            f"str({one})",
            f"lambda x: {one}",
            f"({one} in {two})",
        )
    )


_ATOMS = (
    "'libx.so'", "'/'", "'..'", "''", "'%s'", "'%999999999d'", "'{:>999999999}'", "'{0.x[1]}'",
    "'{}{}'", "b'lib\\xff'", "0", "1", "-1", "10**9", "0xffffffffffffffff", "None", "True", "...",
    "__file__", "sys.platform", "os.environ", "1.5", "1j", "'\\u202e\\n'", "'a' * 9999999", "()",
)  # fmt: skip
_METHODS = (
    "format", "join", "split", "strip", "joinpath", "with_name", "with_suffix", "get", "encode",
    "startswith", "parents", "append", "resolve", "exists",
)  # fmt: skip


def _settings(dice: random.Random) -> bytes:
    """Write settings: known keys with values of any kind."""
    if dice.random() < 0.2:
        return damaged(_TOML.encode(), dice)
    keys = [field.name.replace("_", "-") for field in fields(Settings)]
    lines = [f"{dice.choice(keys)} = {_toml(dice, 2)}" for _ in range(dice.randint(1, 4))]
    return "\n".join(lines).encode()


def _toml(dice: random.Random, depth: int) -> str:
    kind = dice.randrange(4) if depth else 0
    if kind == 1:
        return f"[{', '.join(_toml(dice, depth - 1) for _ in range(dice.randrange(4)))}]"
    if kind == 2:
        keys = (
            "requirement",
            "libraries",
            "directory",
            "scheme",
            "library",
            "symbols",
            "WF1",
            "a*",
        )
        chosen = dice.sample(keys, dice.randrange(4))
        pairs = [f'"{key}" = {_toml(dice, depth - 1)}' for key in chosen]
        return f"{{{', '.join(pairs)}}}"
    return dice.choice(_VALUES)


_VALUES = (
    "true", "0", "-1", "9", "99999999999999999999", "1.5", "nan", "inf", "1979-05-27", "''", "' '",
    "'auto'", "'WF1=error'", "'a:WF1'", "'libx.so=x_*'", "'../x'", "'/abs'", "'[z-a]'", "'*?['",
    "'50MB'", "'1e9'", "'9999999999999999999999GB'", "'numpy>=1'", "'\\u0000'", '"\\u0000"',
    '"\\u202e"', "'error'", "'never'", "'all'", "'glibc:2.41'", "'platlib'", "'purelib'",
)  # fmt: skip

# --- What is tried --------------------------------------------------------------------------------

_NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"


def try_zip(data: bytes) -> None:
    """Open a wheel, and read each member."""
    with tempfile.NamedTemporaryFile(suffix=".whl") as file:
        file.write(data)
        file.flush()
        with open_wheel(Path(file.name), name=WheelName.parse(_NAME)) as archive:
            for member in archive.wheel.members:
                archive.read(member.name)


def try_stream(data: bytes) -> None:
    """Inflate a stream, whose stated size stands before it, by zlib and by what is installed."""
    size, stored = int.from_bytes(data[:4], "little"), data[4:]
    entry = fresh_entry("member", mode=0, stamp=0)._replace(size=size)
    said = _inflated(entry, stored, zlib)
    other = _inflated(entry, stored, LIBRARY)
    if other != said:
        raise AssertionError(f"{LIBRARY.__name__} says {other!r}, zlib {said!r}")
    content = said if isinstance(said, bytes) and len(said) == size else None
    for library in (zlib, LIBRARY):
        if inflated_whole(entry, stored, library) != content:
            raise AssertionError(f"{library.__name__} at once is not as in pieces")
    if isinstance(said, str):
        raise BadWheelError(said)


def _inflated(entry: Entry, stored: bytes, library: ModuleType) -> bytes | str:
    """Return the content of a member whose data come in several pieces, or why there is none."""
    raw = (stored[at : at + 300] for at in range(0, len(stored), 300))
    try:
        return b"".join(inflated_pieces(entry, raw, library))
    except BadWheelError as error:
        return error.message


def try_wheel(data: bytes) -> None:
    """Check a wheel with all rules, and draw what is found in every format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _NAME
        path.write_bytes(data)
        found = check_set([check(path, Settings())], lambda _: Settings())
    options = RenderOptions(version="0", rules=_told(found, everything=len(data) % 32 == 0))
    for form in Format:
        _judged(form, render(found, form, options))
    for report in found.unreadable:
        if report.error is not None:
            raise report.error


_rules = cache(all_rules)


def _told(found: SetReport, *, everything: bool) -> tuple[AnyRule, ...]:
    """Return the rules to draw: mostly those that found something, as the others take the time."""
    hit = {finding.code for _, finding in found.all_findings}
    return tuple(rule for rule in _rules() if everything or rule.code in hit)


_STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""What moves a terminal's cursor or turns its text around, and what cannot be encoded."""


def _judged(form: str, text: str) -> None:
    """Make sure that nothing of the wheel breaks a format, or steers who reads it."""
    if form in {"json", "sarif", "gitlab"}:
        json.loads(text)
    elif form == "junit":
        ET.fromstring(text)  # noqa: S314 -- it is ours
    found = _STEERING.search(text)
    if found:
        around = text[max(0, found.start() - 80) : found.end() + 80]
        raise AssertionError(f"{form} lets {found[0]!r} through: {around!r}")
    commands = [line for line in text.splitlines() if line.lstrip().startswith("::")]
    ours = tuple(f"::{kind} " for kind in ("error", "warning", "notice"))
    if (
        "##[" in text
        or (commands and form != "github")
        or not all(line.startswith(ours) for line in commands)
    ):
        raise AssertionError(f"{form} has a workflow command that is not ours: {text!r}")


def try_record(data: bytes) -> None:
    """Read a RECORD, and judge files by it."""
    rows, problems = parse_record(data, "demo-1.0.dist-info/RECORD")
    verify_record(rows, (), {}, "demo-1.0.dist-info/RECORD")
    if not problems:
        again, _ = parse_record(format_record(rows), "demo-1.0.dist-info/RECORD")
        if again != rows:
            raise AssertionError("RECORD does not say the same when it is written again")


def try_metadata(data: bytes) -> None:
    """Read METADATA, and read and edit WHEEL."""
    text = data.decode("utf-8", "replace")
    read_core_metadata(text)
    said = read_metadata(text)
    tags = ("py3-none-any", "cp311-cp311-linux_x86_64")
    now = read_metadata(edit_metadata(text, tags=tags, root_is_purelib=not said.root_is_purelib))
    if (now.tags, now.root_is_purelib) != (tags, not said.root_is_purelib):
        raise AssertionError("the edited WHEEL does not say what it should")


def try_elf(data: bytes) -> None:
    """Read an object, what it defines, and how its loader looks symbols up."""
    _look_up(data)
    with suppress(WheelfixError):
        read_lookups(data, "x.so")
    read_elf(data, "x.so")


def _look_up(data: bytes) -> None:
    """Read what an object defines at once, and by name; both have to say the same."""
    view = memoryview(data)
    whole: Mapping[str, object] | None = None
    asked: Defined | None = None
    with suppress(WheelfixError):
        whole = read_exports(data, "x.so").definitions
    with suppress(WheelfixError):
        dynamic = Dynamic.parse(Image.parse(view, "x.so"))
        if dynamic is None or Dt.SYMTAB not in dynamic.tags:
            return
        asked = Defined(lambda: view, dynamic)
    if whole is None:
        return
    if asked is None:
        raise AssertionError("definitions are read at once, but not by name")
    found = asked.among({*whole, "no_such_name"})
    if {name: asked[name] for name in found} != whole:
        raise AssertionError("definitions by name are not those that are read at once")


def try_edit(data: bytes) -> None:
    """Edit an object; what comes out is read again, by readelf too."""
    dice = random.Random(data)
    before = read_elf(data, "x.so")
    wanted = replace(
        before,
        needed=tuple(name for name in before.needed if dice.random() < 0.7),
        soname=dice.choice((before.soname, "libx.so", None)),
        runpath=dice.choice(
            (before.runpath, "$ORIGIN", "$ORIGIN/" + "l" * dice.randrange(9), None)
        ),
        rpath=dice.choice((before.rpath, None)),
    )
    content = bytearray(data)
    now = edit_in_place(content, before, wanted, "x.so")
    found = read_elf(bytes(content), "x.so")
    if (found.needed, found.soname, found.runpath) != (now.needed, now.soname, now.runpath):
        # Tables that overlap can do that; a repair publishes nothing that `elfverify` doubts.
        if not differences(data, bytes(content), now, "x.so"):
            raise AssertionError("the edited object does not say what the editor says")
        return
    if bytes(content) != data and differences(data, bytes(content), now, "x.so"):
        return
    if dice.randrange(READELF_EACH) == 0 and _readelf(data) == "":
        said = _readelf(bytes(content))
        if said:
            raise AssertionError(f"readelf rejects what was written: {said}")


def _readelf(data: bytes) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        command = ["readelf", "-W", "-d", "-V", "-l", "--dyn-syms", file.name]
        return subprocess.run(command, capture_output=True, check=False).stderr.decode(
            errors="replace"
        )


def try_source(data: bytes) -> None:
    """Scan a Python source for what it opens, and where it searches."""
    followed(data, "demo/__init__.py", {"demo": "demo/__init__.py"})
    searches(data, "demo/__init__.py")


def try_config(data: bytes) -> None:
    """Read settings, as long as they are TOML."""
    try:
        table = tomllib.loads(data.decode("utf-8", "replace"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return
    settings_from(table, Settings(), "fuzz")


@dataclass(frozen=True, slots=True)
class Target:
    """What is fed, and with what."""

    make: Callable[[random.Random], bytes]
    attempt: Callable[[bytes], object]


def _broken(sound: Callable[[], Sequence[bytes]], dice: random.Random) -> bytes:
    return damaged(dice.choice(sound()), dice)


def _edited(dice: random.Random) -> bytes:
    return _broken(objects, dice) if dice.random() < 0.7 else dice.choice(objects())


def _source(dice: random.Random) -> bytes:
    return _text(dice) if dice.random() < 0.7 else damaged(_SOURCE.encode(), dice)


@cache
def streams() -> tuple[bytes, ...]:
    """Return deflate streams of every kind of block, with the sizes of their contents before them.

    Some sizes are less or more than that.
    """
    contents = (b"", b"a", bytes(5000), Path(__file__).read_bytes(), objects()[0])
    found: list[bytes] = []
    for content in contents:
        for level, strategy in ((0, 0), (1, 0), (6, 0), (9, 0), (6, 2), (6, 3), (6, 4)):
            packer = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
            stream = packer.compress(content) + packer.flush()
            sizes = (len(content), max(len(content) - 1, 0), len(content) + 300)
            found += (size.to_bytes(4, "little") + stream for size in sizes)
    return tuple(found)


def _stream(dice: random.Random) -> bytes:
    data = bytearray(dice.choice(streams()))
    if dice.random() < 0.2:  # codes of its own, as no other damage makes them
        data[4:] = bytes([dice.choice((4, 5)) | dice.randrange(32) << 3]) + dice.randbytes(150)
    for _ in range(dice.randrange(4)):  # the codes stand at the beginning
        data[dice.randrange(4, min(len(data), 100))] ^= 1 << dice.randrange(8)
    stream = bytes(data[4:])
    return bytes(data[:4]) + (stream if dice.random() < 0.6 else damaged(stream, dice))


TARGETS: Mapping[str, Target] = {
    "stream": Target(_stream, try_stream),
    "zip": Target(partial(_broken, wheels), try_zip),
    "wheel": Target(_wheel, try_wheel),
    "record": Target(partial(_broken, lambda: [_RECORD.encode()]), try_record),
    "metadata": Target(
        partial(_broken, lambda: [_WHEEL.encode(), _METADATA.encode()]), try_metadata
    ),
    "elf": Target(partial(_broken, objects), try_elf),
    "edit": Target(_edited, try_edit),
    "source": Target(_source, try_source),
    "config": Target(_settings, try_config),
}

# --- Judgement ------------------------------------------------------------------------------------


class CaseError(Exception):
    """A case that went wrong, with its input."""

    def __init__(self, data: bytes, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.data = data


def tried(target: str, data: bytes) -> str:
    """Return in which of our words `data` is refused, "" if it is not.

    Raises `CaseError` for all other ways to end, too much time and memory among them.
    """
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        TARGETS[target].attempt(data)
    except WheelfixError as error:
        return error.message
    except BaseException as error:
        raise CaseError(data, error) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return ""


def _late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


@cache
def corpus(target: str) -> tuple[bytes, ...]:
    """Return the cases of a target that are kept."""
    return tuple(path.read_bytes() for path in sorted((CORPUS / target).glob("*")))


def case(target: str, number: int) -> bytes:
    """Return one case: new, or a damaged one of those that are kept."""
    dice = random.Random(f"{target} {number}")
    kept = corpus(target)
    if kept and dice.random() < 0.3:
        return damaged(dice.choice(kept), dice)
    return TARGETS[target].make(dice)


def run(target: str, first: int, cases: int) -> None:
    """Run `cases` cases of `target`; raises `CaseError` for one that goes wrong."""
    for number in range(first, first + cases):
        try:
            tried(target, case(target, number))
        except CaseError as error:
            error.add_note(f"case {number} of {target}")
            raise


# --- The corpus -----------------------------------------------------------------------------------


def minimised(target: str, data: bytes) -> bytes:
    """Return what is left of `data` when no piece can go without it ending otherwise."""
    ending = _ending(target, data)
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            shorter = data[:at] + data[at + size :]
            if _ending(target, shorter) == ending:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def _ending(target: str, data: bytes) -> str:
    """Name the way in which a case ends, without what is different in each."""
    try:
        message = tried(target, data)
    except CaseError as error:
        message = str(error)
    plain = re.sub(r"`[^`]*`|b?'[^']*'|[^a-zA-Z ]", "", message).split()
    return "-".join(plain[:9]).lower() or "fine"


def collect(target: str, first: int, cases: int) -> None:
    """Keep the smallest case of each way to end that the corpus does not have."""
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    known = {path.name for path in (CORPUS / target).iterdir()}
    for number in range(first, first + cases):
        data = case(target, number)
        ending = _ending(target, data)
        if ending not in known and ending != "fine":
            known.add(ending)
            small = minimised(target, data)
            (CORPUS / target / ending).write_bytes(small)
            print(f"{target}: {ending}, {len(small)} bytes", flush=True)


def kept(target: str, data: bytes) -> Path:
    """Keep a case that went wrong, as small as it can be made."""
    file = Path(tempfile.gettempdir()) / f"wheelfix-fuzz-{target}"
    file.write_bytes(minimised(target, data))
    return file


def _guided(target: str, seconds: int) -> None:
    """Let atheris choose the cases, in a process whose imports it sees."""
    if find_spec("atheris") is None:
        raise SystemExit("--atheris needs the package `atheris`: pip install atheris")
    script = Path(__file__).with_name("guided.py")
    print(f"{target}: {seconds} s with atheris", flush=True)
    subprocess.run([sys.executable, str(script), target, str(seconds)], check=True)


def main(argv: Sequence[str]) -> int:
    """Run the targets that were asked for, and say what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("-n", type=int, default=CASES, help="cases of each target")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--collect", action="store_true", help="keep each new way to be refused")
    parser.add_argument("--atheris", type=int, metavar="SECONDS", help="guided by coverage")
    asked = parser.parse_args(argv)
    if not asked.atheris:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for target in asked.targets or TARGETS:
        start = time.monotonic()
        if asked.atheris:
            _guided(target, asked.atheris)
            continue
        if asked.collect:
            collect(target, asked.first, asked.n)
            continue
        try:
            run(target, asked.first, asked.n)
        except CaseError as error:
            file = kept(target, error.data)
            print(f"{target}: {' '.join(error.__notes__)}: {error}; the input is in {file}")
            raise
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{target:9}{asked.n:>10,} cases  {seconds:8.1f} s  peak {peak} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
