"""Mutate wheels, and compare `check --index pypi` with a second reading of PyPI's rules.

Each wheel differs from a good one in one to three ways: fields of the zip, the file name, METADATA,
RECORD, entry points, single bytes. What the second reading (tests/support/index_reading.py)
refuses must be refused by wheelfix, and what wheelfix says that PyPI refuses must be refused.

    python -m tests.oracles.index_predicates -n 10000
    python -m tests.oracles.index_predicates --first 4711 -n 1 --keep .
"""

import argparse
import random
import struct
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from shutil import copyfile

from tests.support.build import record_text
from tests.support.index_reading import is_mailed, refusal
from wheelfix.errors import BadWheelError
from wheelfix.rules.auditwheel_verdict import local_platform_tag
from wheelfix.rules.context import Context
from wheelfix.rules.pypi_checks import REFUSED, IndexAnswer
from wheelfix.rules.registry import ARCHIVE_RULES
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import Index, Settings
from wheelfix.wheel.reader import open_wheel

SETTINGS = Settings(index=Index.PYPI)


@dataclass(kw_only=True)
class Draft:
    """A wheel in the making."""

    name: str = "demo-1.0-py3-none-any.whl"
    info: str = "demo-1.0.dist-info"
    files: dict[str, bytes] = field(default_factory=dict[str, bytes])
    metadata: list[str] = field(default_factory=list[str])
    rows: Callable[[str], str] = str
    flags: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By member: what is odd about its entry."""
    comment: bytes = b""
    before: bytes = b""
    after: bytes = b""
    folders: list[str] = field(default_factory=list[str])

    def entry(self, random_: random.Random) -> set[str]:
        """Return the oddities of some member."""
        return self.flags.setdefault(random_.choice([*self.files, "RECORD"]), set())


def good() -> Draft:
    """Return a wheel that the index takes."""
    draft = Draft()
    draft.files = {"demo/__init__.py": b"x = 1\n" * 9, "demo/data.txt": b"text"}
    draft.metadata = ["Metadata-Version: 2.4", "Name: demo", "Version: 1.0", "Summary: a demo"]
    return draft


FIELDS = [
    "Summary: again", "Summary: " + "x" * 512, "License: MIT", "License-Expression: MIT",
    "License-Expression: MIT AND", "License-File: LICENSE", "Requires-Dist: a>=1",
    "Requires-Dist: a @ https://example.org/a.whl", "Requires-Dist: a>=1.*.x", "Requires-Python: 3",
    "Requires-Python: >=3.8", "Home-page: example.org", "Home-page: https://example.org/a b",
    "Home-page: https://example.org", "Project-URL: Docs, https://example.org/x",
    "Project-URL: Docs, www.example.org", "Project-URL: , https://example.org", "Project-URL: Docs",
    f"Project-URL: {'D' * 33}, https://example.org", "Author-email: A <a@example.org>",
    "Author-email: nothing", "Maintainer-email: ", "Dynamic: Version", "Dynamic: Summary",
    "Dynamic: Frobnicate", "Provides-Dist: b", "Provides-Dist: b (1", "Obsoletes-Dist: b @ file:///x",
    "Description-Content-Type: text/markdown", "Description-Content-Type: text/x-word",
    "Provides-Extra: a_b", "Provides-Extra: -", "Keywords: a,b", "Foo: bar", "Name: demo",
    "Version: 1.0", "Platform: any", "Import-Name: demo", "Download-URL: ftp://example.org/x",
]  # fmt: skip
ENTRY_POINTS = [
    b"[console_scripts]\ndemo = demo:main\n", b"[console_scripts]\na/b = demo:main\n",
    b"[console_scripts]\ndemo: demo:main\n", b"[a]\nx = y\n[a]\nz = y\n", b"x = y\n", b"\xff\n",
    b"[gui_scripts]\n= demo:main\n", b"[console_scripts]\nd em = demo:main\n", b"[p]\nx\n",
    b"[console_scripts]\ndemo = %(x)s:main\n", b"[DEFAULT]\n..= a:b\n[console_scripts]\n", b"",
]  # fmt: skip
NAMES = [
    "Demo-1.0-py3-none-any.whl", "demo-1.0-1-py3-none-any.whl", "demo-1.0-x1-py3-none-any.whl",
    "demo-1.0-py3-none-any-cu13.whl", "demo-1.0-2-py3-none-any-cu13.whl", "demo-1-py3-none-any.whl",
    "demo-1.1-py3-none-any.whl", "demo-1.0-py3-none-linux_x86_64.whl",
    "demo-1.0-cp311-cp311-manylinux_2_38_loongarch64.whl", "demo-1.0-py3-none-linux_armv7l.whl",
    "demo-1.0-py3-none-linux_armv8l.whl", "demo-1.0-py3-none-musllinux_1_2_ppc64.whl",
    "demo-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "de.mo-1.0-py3-none-any.whl", "demo-1.0-py3-none-macosx_11_1_arm64.whl",
    "demo-1.0-py3-none-macosx_11_0_arm64.whl",
    "demo-1.0-py3-none-macosx_10_9_universal2.whl", "demo-1.0-py3-none-win_arm64.whl",
    "demo-1.0-py2.py3-none-any.whl", "demo-1.0-py3-none-manylinux_2_39_riscv64.whl",
    "demo-1.0-py3-none-manylinux1_aarch64.whl", "demo-1.0-py3-none-freebsd_14_amd64.whl",
]  # fmt: skip
ENTRY = [
    "descriptor", "bare descriptor", "gap", "comment", "pad", "twice", "zip64-8", "zip64-16",
    "zip64-16 wrong", "zip64-20", "zip64-0", "stored", "time", "local size", "new", "cut extra",
]  # fmt: skip


def mutate(draft: Draft, dice: random.Random) -> str:
    """Change one thing, and say what."""
    change = dice.choice(CHANGES)
    return f"{change.__name__.strip('_')} {change(draft, dice)[:50]}"


def _entry(draft: Draft, dice: random.Random) -> str:
    what = dice.choice(ENTRY)
    draft.entry(dice).add(what)
    return what


def _field(draft: Draft, dice: random.Random) -> str:
    what = dice.choice(FIELDS)
    draft.metadata.insert(dice.randrange(1 + len(draft.metadata)), what)
    if dice.random() < 0.1:
        draft.metadata[0] = f"Metadata-Version: {dice.choice(['2.1', '2.2', '2.3', '2.5', '2.9'])}"
    if dice.random() < 0.1:
        what += ", a line less"
        del draft.metadata[dice.randrange(len(draft.metadata))]
    return what


def _name(draft: Draft, dice: random.Random) -> str:
    draft.name = dice.choice(NAMES)
    distribution, version, _ = draft.name.split("-", 2)
    if dice.random() < 0.9:
        draft.info = f"{distribution}-{version}.dist-info"
    if dice.random() < 0.5:
        draft.metadata[1:3] = [f"Name: {distribution}", f"Version: {version}"]
    return draft.name


def _points(draft: Draft, dice: random.Random) -> str:
    text = draft.files[f"{draft.info}/entry_points.txt"] = dice.choice(ENTRY_POINTS)
    return repr(text)


def _file(draft: Draft, dice: random.Random) -> str:
    what = dice.choice(["license", "big", "WHEEL", "METADATA", "RECORD", "jws", "signed"])
    if what == "license":
        draft.files[f"{draft.info}/licenses/LICENSE"] = b"text"
    elif what == "big":
        if dice.random() < 0.02:
            draft.files["demo/big"] = bytes(65 * 2**20)
    elif what in {"jws", "signed"}:
        draft.files[f"{draft.info}/RECORD.jws"] = b"{}"
        draft.rows = str if what == "signed" else _without(".jws")
    else:
        draft.flags.setdefault(what, set()).add("missing")
    return what


def _without(part: str) -> Callable[[str], str]:
    return lambda rows: "".join(row for row in rows.splitlines(keepends=True) if part not in row)


ROWS: dict[str, Callable[[str], str]] = {
    "own": _without("/RECORD,"),
    "first": _without("demo/data"),
    "odd": lambda rows: rows.replace("demo/data", "demo\\data"),
    "more": lambda rows: rows + "demo/none.py,,\n",
    "wide": lambda rows: rows.replace(",,\n", ",,,\n"),
}


def _row(draft: Draft, dice: random.Random) -> str:
    what = dice.choice(list(ROWS))
    draft.rows = ROWS[what]
    return what


def _zip(draft: Draft, dice: random.Random) -> str:
    what = dice.choice(["comment", "before", "after", "folder", "folder", "folders"])
    if what == "comment":
        draft.comment = dice.choice([b"by hand", b"PK\5\6", b"x" * 99])
    elif what == "before":
        draft.before = b"#!/bin/sh\n"
    elif what == "after":
        draft.after = dice.choice([b"\n", bytes(4)])
    else:
        draft.folders += ["demo/"] * (1 + (what == "folders"))
    return what


CHANGES = [*[_entry] * 4, *[_field] * 3, _name, _name, _points, _file, _row, _zip]


def written(draft: Draft) -> bytes:
    """Write the wheel, with the oddities of its entries."""
    tag = "-".join(draft.name.removesuffix(".whl").split("-")[-3:])
    files = dict(draft.files)
    missing = {name for name, odd in draft.flags.items() if "missing" in odd}
    generated = {
        "WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
        "METADATA": "".join(f"{line}\n" for line in draft.metadata).encode(),
    }
    files |= {f"{draft.info}/{n}": data for n, data in generated.items() if n not in missing}
    if "RECORD" not in missing:
        record = f"{draft.info}/RECORD"
        files[record] = draft.rows(record_text(files, record)).encode()
    body, directory = bytearray(draft.before), bytearray()
    entries = [*((folder, b"") for folder in draft.folders), *files.items()]
    for name, data in entries:
        odd = draft.flags.get(name, set()) | draft.flags.get(name.rpartition("/")[2], set())
        _add(body, directory, name, data, odd)
    count = (len(entries),) * 2
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, *count, len(directory), len(body),
                      len(draft.comment))  # fmt: skip
    return bytes(body + directory + end + draft.comment + draft.after)


def _add(body: bytearray, directory: bytearray, name: str, data: bytes, odd: set[str]) -> None:
    squeezer = zlib.compressobj(6, zlib.DEFLATED, -15)
    is_stored = "stored" in odd or name.endswith("/")
    packed = data if is_stored else squeezer.compress(data) + squeezer.flush()
    method, crc, raw = 0 if is_stored else 8, zlib.crc32(data), name.encode()
    sizes = struct.pack("<Q", len(data)) + struct.pack("<Q", len(packed))
    wrong = struct.pack("<2Q", len(data), len(packed) + 1)
    unicode_path = struct.pack("<2HBL", 0x7075, 5 + len(raw), 1, zlib.crc32(raw)) + raw
    fields = {
        "twice": unicode_path * 2,
        "zip64-0": struct.pack("<2H", 1, 0),
        "zip64-8": struct.pack("<2H", 1, 8) + sizes[:8],
        "zip64-16": struct.pack("<2H", 1, 16) + sizes,
        "zip64-16 wrong": struct.pack("<2H", 1, 16) + wrong,
        "zip64-20": struct.pack("<2H", 1, 20) + sizes + bytes(4),
        "time": struct.pack("<2HBL", 0x5455, 5, 1, 0),
        "cut extra": b"\x99\x99\x09\x00ab",
        "pad": b"\0\0",
    }
    extra = b"".join(value for key, value in fields.items() if key in odd)
    streamed = bool({"descriptor", "bare descriptor"} & odd)
    numbers = (crc, len(packed), len(data))
    stated = (0, 0, 0) if streamed else (crc, len(packed), len(data) + ("local size" in odd))
    flags, needs, offset = 8 * streamed, 64 if "new" in odd else 20, len(body)
    body += struct.pack("<4s5H3L2H", b"PK\3\4", needs, flags, method, 0, 0x21, *stated,
                        len(raw), len(extra)) + raw + extra + packed  # fmt: skip
    if streamed or "gap" in odd:
        body += (b"PK\7\x08" if "bare descriptor" not in odd else b"") + struct.pack(
            "<3L", *numbers
        )
    remark = b"by hand" if "comment" in odd else b""
    directory += struct.pack("<4s6H3L5H2L", b"PK\1\2", 0x314, needs, flags, method, 0, 0x21,
                             *numbers, len(raw), 0, len(remark), 0, 0, 0o100644 << 16,
                             offset) + raw + remark  # fmt: skip


def flipped(data: bytes, dice: random.Random) -> bytes:
    """Change one byte of the headers."""
    places = [at for at in range(len(data) - 4) if data[at : at + 2] == b"PK"]
    at = dice.choice(places) + dice.randrange(30)
    changed = bytearray(data)
    if at < len(changed):
        changed[at] = dice.choice([0, 1, 8, 0xFF, dice.randrange(256)])
    return bytes(changed)


def cases(first: int, count: int) -> Iterator[tuple[int, str, str, bytes]]:
    """Yield number, description, file name and bytes of the mutated wheels."""
    for number in range(first, first + count):
        dice = random.Random(number)  # noqa: S311 - no secret
        draft = good()
        said = "; ".join(mutate(draft, dice) for _ in range(dice.choice([1, 1, 1, 2, 3])))
        data = written(draft)
        if dice.random() < 0.1:
            data, said = flipped(data, dice), f"{said}; a byte"
        yield number, said, draft.name, data


RULES_OF_INDEX = [*ARCHIVE_RULES, local_platform_tag]
_ALWAYS = {"WF505", "WF506"}
"""Rules whose errors are refused by the index whatever it is."""


def judged(path: Path) -> tuple[set[str], bool, bool]:
    """Return which rules say that PyPI refuses the wheel, and two flags.

    They are: a rule says that PyPI writes an email, and wheelfix refuses to open the wheel.
    """
    try:
        with open_wheel(path) as archive:
            found = run_rules(Context(wheel=archive.wheel, settings=SETTINGS), RULES_OF_INDEX)
    except BadWheelError:
        return set(), False, True
    refused = {
        f.code
        for f in found
        if any(note.startswith(REFUSED) for note in f.notes)
        or (f.code in _ALWAYS and f.severity.label == "error")
    }
    mailed = any(note == IndexAnswer.RECORD_NAMES.note() for f in found for note in f.notes)
    mailed |= any(f.code == "WF501" for f in found)
    return refused, mailed, False


def compare(
    first: int, count: int, second: Callable[[Path], str | None] = refusal, keep: Path | None = None
) -> tuple[Counter[str], list[str]]:
    """Return what was refused by which rule, and the disagreements."""
    tally: Counter[str] = Counter()
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for number, said, name, data in cases(first, count):
            path = Path(folder) / name
            path.write_bytes(data)
            theirs = second(path)
            ours, mailed, unsafe = judged(path)
            tally.update(ours or {"unsafe" if unsafe else "taken"})
            if theirs is not None and not ours and not unsafe:
                faults.append(f"{number}: {said}: the index refuses it ({theirs}), wheelfix not")
            elif theirs is None and ours:
                faults.append(f"{number}: {said}: wheelfix says {sorted(ours)}, the index takes it")
            elif theirs is None and not unsafe and is_mailed(path) and not mailed:
                faults.append(f"{number}: {said}: the index writes an email, wheelfix is silent")
            if keep and faults and faults[-1].startswith(f"{number}:"):
                copyfile(path, keep / f"{number}-{name}")
            path.unlink()
    return tally, faults


def main() -> int:
    """Compare as many wheels as asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("-n", type=int, default=1000, help="the number of wheels")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--keep", type=Path, help="folder for the wheels with disagreements")
    options = parser.parse_args()
    tally, faults = compare(options.first, options.n, keep=options.keep)
    print(*faults, sep="\n")
    print(", ".join(f"{number} {name}" for name, number in tally.most_common()))
    print(f"{options.n} wheels, {len(faults)} disagreements")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
