"""What is tried with each case, and which errors may come of it."""

import json
import random
import re
import subprocess
import tempfile
import tomllib
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

from tests.oracles.fuzzing.commands import (
    any_sbom,
    any_wheel,
    try_commands,
    try_sbom,
    with_metadata,
)
from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.sound import METADATA, RECORD, SOURCE, WHEEL, objects, wheels
from tests.oracles.fuzzing.well_formed import settings_file, source_text, wheel_file
from tests.oracles.lookups import read_lookups
from tests.support.all_rules import all_rules
from wheelfix import check_all
from wheelfix.cli.config.values import settings_from
from wheelfix.elf.compare import differences
from wheelfix.elf.editor import edit
from wheelfix.elf.exports import lazy_exports, read_symbol_tables
from wheelfix.elf.growth import NoRoomError
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.errors import BadWheelError, WheelfixError
from wheelfix.pipelines.check_result import SetReport
from wheelfix.python_sources.opens import visit_source
from wheelfix.python_sources.searched_places import searches
from wheelfix.reports.check_content import RenderOptions
from wheelfix.reports.check_formats import Format, render
from wheelfix.rules.rule import AnyRule
from wheelfix.settings import Settings
from wheelfix.wheel.dist_info import edit_metadata, read_core_metadata, read_metadata
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.record import format_record, parse_record, verify_record
from wheelfix.wheel.zip_headers import Entry, fresh_entry
from wheelfix.wheel.zip_reader import LIBRARY, inflate_pieces

READELF_EACH = 50
"""Every so many edited objects go to readelf, which takes a hundred times as long as the edit."""

# ruff: noqa: S311 -- dice need no secrecy


_rules = cache(all_rules)
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
    if isinstance(said, str):
        raise BadWheelError(said)


def _inflated(entry: Entry, stored: bytes, library: ModuleType) -> bytes | str:
    """Return the content of a member whose data come in several pieces, or why there is none."""
    raw = (stored[at : at + 300] for at in range(0, len(stored), 300))
    try:
        return b"".join(inflate_pieces(entry, raw, library))
    except BadWheelError as error:
        return error.message


def try_wheel(data: bytes) -> None:
    """Check a wheel with all rules, and draw what is found in every format."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / _NAME
        path.write_bytes(data)
        found = check_all([path])
    options = RenderOptions(version="0", rules=_rules_of(found, everything=len(data) % 32 == 0))
    for form in Format:
        _judged(form, render(found, form, options))
    for report in found.unreadable:
        if report.error is not None:
            raise report.error


def _rules_of(found: SetReport, *, everything: bool) -> tuple[AnyRule, ...]:
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
        ET.fromstring(text)  # noqa: S314 - wheelfix wrote it
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
    whole: Mapping[str, object] | None = None
    asked: Mapping[str, object] | None = None
    with suppress(WheelfixError):
        whole = read_symbol_tables(data, "x.so").definitions()
    with suppress(WheelfixError):
        asked = lazy_exports(partial(read_symbol_tables, data, "x.so")).definitions
    if whole is None:
        return
    if asked is None:
        raise AssertionError("definitions are read at once, but not by name")
    names = {*whole, "no_such_name"}
    if {name: asked[name] for name in names if name in asked} != whole:
        raise AssertionError("definitions by name are not those that are read at once")


def _random_revision(before: Elf, dice: random.Random) -> Revision:
    revision = Revision.of(before)
    for name in before.needed:
        what = dice.random()
        if what < 0.3:
            revision = revision.drop_needed(name)
        elif what < 0.5:
            revision = revision.rename_needed(name, "r" * dice.randrange(30))
    runpath = dice.choice((before.runpath, "$ORIGIN", "$ORIGIN/" + "l" * dice.randrange(9), None))
    rpath = dice.choice((before.rpath, None))
    if dice.random() < 0.5:
        for number in range(dice.choice((0, 1, 20))):
            revision = revision.add_needed(f"libnew-{number}.so")
        rpath = dice.choice((rpath, "l" * 900))
    revision = revision.set_soname(dice.choice((before.soname, "libx.so", None)))
    return revision.set_paths(rpath, runpath)


def try_edit(data: bytes) -> None:
    """Edit an object; what comes out is read again, by readelf too."""
    dice = random.Random(data)
    revision = _random_revision(read_elf(data, "x.so"), dice)
    try:
        content = edit(data, revision, "x.so", may_grow=dice.random() < 0.5).content(data)
    except NoRoomError:
        return
    now, found = revision.after, read_elf(content, "x.so")
    if (found.needed, found.soname, found.runpath) != (now.needed, now.soname, now.runpath):
        # Tables that overlap can do that; a repair publishes nothing that `elfverify` doubts.
        if not differences(data, content, now, "x.so"):
            raise AssertionError("the edited object does not say what the editor says")
        return
    if content != data and differences(data, content, now, "x.so"):
        return
    if dice.randrange(READELF_EACH) == 0 and _readelf(data) == "":
        said = _readelf(content)
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
    visit_source(data, "demo/__init__.py", {"demo": "demo/__init__.py"})
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
    return source_text(dice) if dice.random() < 0.7 else damaged(SOURCE.encode(), dice)


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
    "wheel": Target(wheel_file, try_wheel),
    "record": Target(partial(_broken, lambda: [RECORD.encode()]), try_record),
    "metadata": Target(partial(_broken, lambda: [WHEEL.encode(), METADATA.encode()]), try_metadata),
    "elf": Target(partial(_broken, objects), try_elf),
    "edit": Target(_edited, try_edit),
    "source": Target(_source, try_source),
    "config": Target(settings_file, try_config),
    "sbom": Target(any_sbom, try_sbom),
    "commands": Target(any_wheel, try_commands),
    "dist-info": Target(with_metadata, try_commands),
}
