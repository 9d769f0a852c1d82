"""The archive: what may not be unpacked is refused by name; what nobody edits comes out as it was.

The wheels are made with the standard library's `zipfile`, and broken by hand where it is too
polite to write what an attacker would.
"""

import io
import os
import resource
import signal
import stat
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.build import make_wheel, record_text, shared_object, wheel_text
from tests.support.installers import install
from wheelfix.elf.compare import differences
from wheelfix.elf.model import PathTag
from wheelfix.errors import BadWheelError, OutputError
from wheelfix.pipelines.apply_edits import apply
from wheelfix.settings import Settings
from wheelfix.system.tempfiles import PendingFile
from wheelfix.wheel.edits import AddEntry, Edit, SetPathTag, predict
from wheelfix.wheel.model import Member, Wheel, WheelName
from wheelfix.wheel.reader import open_rewritten, open_wheel
from wheelfix.wheel.record import parse_record
from wheelfix.wheel.writer import write_wheel
from wheelfix.wheel.zip_headers import End, fresh_entry, pack_central, pack_end, pack_local

NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"
INFO = "demo-1.0.dist-info"
RECORD = f"{INFO}/RECORD"
OLD_DATE = (2001, 2, 3, 4, 5, 6)


def info(name: str, mode: int = 0o100644, method: int = zipfile.ZIP_DEFLATED) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, OLD_DATE)
    entry.external_attr = mode << 16
    entry.compress_type = method
    return entry


Files = Iterable[tuple[zipfile.ZipInfo | str, bytes]]


def zip_of(path: Path, files: Files, *, comment: bytes = b"", record: str | None = None) -> Path:
    """Zip `files` as a wheel, in that order, with WHEEL and a RECORD (a true one by default)."""
    tag = "cp311-cp311-linux_x86_64"
    everything = [*files, (info(f"{INFO}/WHEEL"), wheel_text(tag).encode())]
    names = [item if isinstance(item, str) else item.filename for item, _ in everything]
    contents = {n: d for n, (_, d) in zip(names, everything, strict=True) if not n.endswith("/")}
    text = record_text(contents, RECORD) if record is None else record
    with zipfile.ZipFile(path, "w") as archive:
        for item, data in [*everything, (info(RECORD), text.encode())]:
            archive.writestr(info(item) if isinstance(item, str) else item, data)
        archive.comment = comment
    return path


def repack(  # noqa: PLR0913
    source: Path,
    directory: Path,
    change: Callable[[Wheel], Wheel] = lambda wheel: wheel,
    content: dict[str, bytes | Path] | None = None,
    moved: dict[str, str] | None = None,
    *,
    epoch: int | None = None,
) -> Path:
    with (
        open_wheel(source) as archive,
        write_wheel(
            archive, change(archive.wheel), content or {}, moved or {}, directory, epoch=epoch
        ) as pending,
    ):
        return pending.publish()


class Raw(NamedTuple):
    """What an untouched member must keep."""

    name: str
    date: tuple[int, ...]
    attributes: int
    method: int
    size: int
    crc: int
    data: bytes


def raw_members(path: Path) -> list[Raw]:
    """Read the members with `zipfile`, their data still compressed; no directories."""
    found: list[Raw] = []
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        assert archive.testzip() is None
        for e in archive.infolist():
            file.seek(e.header_offset + 26)
            file.seek(sum(struct.unpack("<2H", file.read(4))), os.SEEK_CUR)
            data = file.read(e.compress_size)
            if not e.is_dir():
                found.append(
                    Raw(e.filename, e.date_time, e.external_attr, e.compress_type, e.file_size,
                        e.CRC, data)
                )  # fmt: skip
    return found


def listing(directory: Path) -> list[str]:
    return [path.name for path in directory.iterdir()]


def drop(*names: str) -> Callable[[Wheel], Wheel]:
    return lambda w: replace(w, members=tuple(m for m in w.members if m.name not in names))


def add(name: str, mode: int = 0o100644) -> Callable[[Wheel], Wheel]:
    new = Member(name=name, size=0, compressed_size=0, mode=mode)
    return lambda w: replace(w, members=(new, *w.members))


# --- Opening -----------------------------------------------------------------------------------


def test_a_wheel_is_read_whole(tmp_path: Path) -> None:
    library = shared_object(tmp_path / "x.so", soname="libx.so.1", libc=False)
    path = make_wheel(
        tmp_path, files={"demo/a.py": "a = 1\n", "demo/x.so": library}, modes={"demo/a.py": 0o600}
    )
    with open_wheel(path) as archive:
        wheel = archive.wheel
        assert archive.read("demo/a.py") == b"a = 1\n"
        assert bytes(archive.buffer("demo/x.so")) == library.read_bytes()
        assert archive.size == path.stat().st_size
    assert wheel.name == WheelName.parse(path.name)
    assert [m.name for m in wheel.members][:2] == ["demo/a.py", "demo/x.so"]
    assert wheel.members[0].mode == 0o100600
    assert wheel.dist_info == INFO
    assert wheel.tags == ("cp311-cp311-linux_x86_64",)
    assert not wheel.root_is_purelib
    assert wheel.record_problems == ()
    assert {name: elf.soname for name, elf in wheel.elfs.items()} == {"demo/x.so": "libx.so.1"}
    assert not wheel.is_pure


@pytest.mark.parametrize("name", ["license", "COPYING.LIB", "NOTICE", "AUTHORS", "Copyright.md"])
def test_the_texts_of_licenses_are_read_under_their_old_names_too(
    name: str, tmp_path: Path
) -> None:
    member = f"demo-1.0.dist-info/{name}"
    with open_wheel(make_wheel(tmp_path, files={member: "MIT"})) as archive:
        assert archive.wheel.texts[member] == "MIT"


def test_a_wheel_without_elf_is_pure(tmp_path: Path) -> None:
    with open_wheel(make_wheel(tmp_path, files={"a.py": ""})) as archive:
        assert archive.wheel.is_pure


def test_a_broken_elf_does_not_stop_the_opening(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.so": b"\x7fELF\x02\x01\x01 and no more"})
    with open_wheel(path) as archive:
        assert archive.wheel.elfs == {}
        assert list(archive.wheel.broken_elfs) == ["a.so"]
        assert not archive.wheel.is_pure


def test_large_members_are_streamed_to_an_unlinked_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wheelfix.wheel.read_contents.LARGE", 1000)
    library = shared_object(tmp_path / "x.so", libc=False)
    plain = os.urandom(3 * 2**20)
    path = make_wheel(tmp_path, files={"x.so": library, "plain": plain})
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with open_wheel(path) as archive:
        assert archive.wheel.record_problems == ()
        assert list(archive.wheel.elfs) == ["x.so"]
        assert bytes(archive.buffer("x.so")) == library.read_bytes()
        buffer = archive.buffer("plain")
        assert list(temporary.iterdir()) == []
    assert bytes(buffer) == plain


def test_directory_entries_are_no_members(tmp_path: Path) -> None:
    folder = info("demo/", 0o040755, zipfile.ZIP_STORED)
    path = zip_of(tmp_path / NAME, [(folder, b""), ("demo/a.py", b"")])
    with open_wheel(path) as archive:
        assert "demo/" not in archive.entries
        assert archive.wheel.record_problems == ()
    assert raw_members(repack(path, tmp_path / "out"))[0].name == "demo/a.py"


def test_a_wheel_replaced_while_it_is_read_is_not_mixed(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.py": "old"})
    with open_wheel(path) as archive:
        other = make_wheel(tmp_path / "other", files={"a.py": "new and longer"})
        other.replace(path)
        assert archive.read("a.py") == b"old"


def test_a_wheel_cut_short_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.py": os.urandom(99999), "b.py": os.urandom(99999)})
    with open_wheel(path) as archive:
        os.truncate(path, 100)
        with pytest.raises(BadWheelError, match="shrank"):
            archive.read("b.py")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a zip file"),
        (b"PK", "not a zip file"),
        (b"spam" * 99999, "not a zip file"),
        (b"PK\5\6" + bytes(18), "this has none"),
    ],
)
def test_what_is_no_zip_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / NAME).write_bytes(data)
    with pytest.raises(BadWheelError, match=message) as caught:
        open_wheel(tmp_path / NAME)
    assert NAME in caught.value.message
    assert caught.value.hint


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadWheelError, match="No such file"):
        open_wheel(tmp_path / NAME)
    (tmp_path / NAME).mkdir()
    with pytest.raises(BadWheelError, match="not a file"):
        open_wheel(tmp_path / NAME)
    (tmp_path / NAME).rmdir()
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(BadWheelError, match="not a file"):
        open_wheel(tmp_path / NAME)


@pytest.mark.parametrize(
    "name",
    [
        "demo.zip",
        "demo-1.0-py3-none-\x07.whl",  # the path of what is written goes to stdout as it is
        "demo-1.0-py3-none-\u202eany.whl",
        "a\n-1.0-py3-none-any.whl",
    ],
)
def test_a_file_that_is_not_called_like_a_wheel_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadWheelError) as refused:
        open_wheel(tmp_path / name)
    one_line = name.replace("\n", "\\n")
    assert refused.value.message == f"`{one_line}` is not the name of a wheel"


# --- Refused by name ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../evil.py", "leads out of the wheel"),
        ("demo/../../evil.py", "leads out of the wheel"),
        ("demo/..", "leads out of the wheel"),
        ("/etc/evil", "absolute"),
        ("C:evil.py", "drive"),
        ("demo\\evil.py", "backslash"),
        ("demo//evil.py", "not a plain relative name"),
        ("./evil.py", "not a plain relative name"),
        ("evil\x1b[2J.py", "control character"),
        ("evil\n.py", "control character"),
        ("../evil/", "leads out of the wheel"),
        ("evil/" * 200 + "x", "is 201 folders deep"),
        ("evil" * 1100, "a name that is too long"),
        ("evil\0.py", "control character"),
        ("\\\\server\\evil", "backslash"),
        ("~/../../evil", "leads out of the wheel"),
        ("c:/evil", "drive"),
    ],
)
def test_names_that_leave_the_tree_are_refused(tmp_path: Path, name: str, message: str) -> None:
    entry = info("x")
    entry.filename = name
    path = zip_of(tmp_path / NAME, [(entry, b"")])
    with pytest.raises(BadWheelError, match=message) as caught:
        open_wheel(path)
    assert "evil" in caught.value.message or ".." in caught.value.message
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFBLK,
                                  stat.S_IFSOCK, stat.S_IFDIR])  # fmt: skip
def test_links_and_special_files_are_refused(tmp_path: Path, kind: int) -> None:
    path = zip_of(tmp_path / NAME, [(info("demo/evil", kind | 0o777), b"/etc/passwd")])
    with pytest.raises(BadWheelError, match=r"`demo/evil` is a (symbolic link|special file)"):
        open_wheel(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("a.py", "a.py"), "`a.py` is in the wheel twice"),
        (("caf\u00e9.py", "cafe\u0301.py"), "clashes"),
        (("demo", "demo/a.py"), "`demo` is a file and a folder"),
        (("demo", "demo/"), "`demo` is a file and a folder"),
    ],
)
def test_names_that_clash_are_refused(tmp_path: Path, names: tuple[str, str], message: str) -> None:
    entries: Files = [(name, b"") for name in names]
    path = zip_of(tmp_path / NAME, entries)
    with pytest.raises(BadWheelError, match=message):
        open_wheel(path)


def test_names_that_differ_by_case_are_two_files(tmp_path: Path) -> None:
    names = ["demo/A.h", "demo/a.h", "Demo/a.h"]
    path = make_wheel(tmp_path, "demo", "1.0", files=dict.fromkeys(names, ""))
    with open_wheel(path) as archive:
        assert {member.name for member in archive.wheel.members} >= set(names)


@pytest.mark.parametrize(
    ("folders", "message"),
    [
        (
            ["other-1.0.dist-info"],
            "one .dist-info folder, this has `demo-1.0.dist-info` and `other",
        ),
        (["demo-2.0.dist-info"], "one .dist-info folder"),
    ],
)
def test_several_dist_info_folders_are_refused(
    tmp_path: Path, folders: list[str], message: str
) -> None:
    path = zip_of(tmp_path / NAME, [(f"{folder}/METADATA", b"") for folder in folders])
    with pytest.raises(BadWheelError, match=message):
        open_wheel(path)


@pytest.mark.parametrize(
    ("file_name", "fits"),
    [
        ("demo-1.0-py3-none-any.whl", True),
        ("Demo-1.0.0-py3-none-any.whl", True),
        ("demo-1.00-1-py3-none-any.whl", True),
        ("demo-1.1-py3-none-any.whl", False),
        ("demos-1.0-py3-none-any.whl", False),
    ],
)
def test_dist_info_must_agree_with_the_file_name(
    tmp_path: Path,
    file_name: str,
    fits: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    path = zip_of(tmp_path / file_name, [])
    if fits:
        open_wheel(path).close()
    else:
        with pytest.raises(BadWheelError, match=r"`demo-1.0.dist-info` is not of"):
            open_wheel(path)


def test_the_names_of_file_and_dist_info_are_compared_normalised(tmp_path: Path) -> None:
    """PEP 503 for the name, PEP 440 for the version."""
    made = make_wheel(tmp_path, "my_nice_pkg", "1.0+cu12")
    path = made.rename(tmp_path / "My.Nice__Pkg-1.0_cu12-cp311-cp311-linux_x86_64.whl")
    with open_wheel(path) as archive:
        assert archive.wheel.dist_info == "my_nice_pkg-1.0+cu12.dist-info"
        assert archive.wheel.name.distribution == "My.Nice__Pkg"
        assert archive.wheel.metadata.version == "1.0+cu12"
    other = path.rename(tmp_path / "My.NicePkg-1.0_cu12-cp311-cp311-linux_x86_64.whl")
    with pytest.raises(BadWheelError, match="is not of"):
        open_wheel(other)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, f"`{INFO}/WHEEL` is missing"),
        (b"Tag: a\n", "Wheel-Version"),
        (b"Wheel-Version: 2.0\n", "Wheel-Version: 2.0"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_a_wheel_needs_a_wheel_file(tmp_path: Path, text: bytes | None, message: str) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as file:
        file.writestr(f"{INFO}/METADATA", b"")
        if text is not None:
            file.writestr(f"{INFO}/WHEEL", text)
    with pytest.raises(BadWheelError, match=message):
        open_wheel(tmp_path / NAME)


# --- Refused by structure: byte surgery on a good wheel ----------------------------------------


class Surgery:
    """The bytes of a wheel whose first member is `victim`, with the places to cut."""

    def __init__(self, data: bytes) -> None:
        self.data = bytearray(data)
        self.local = self.data.index(b"PK\3\4")
        self.central = self.data.index(b"PK\1\2")
        self.end = self.data.rindex(b"PK\5\6")

    def put(self, at: int, layout: str, *values: int) -> None:
        struct.pack_into("<" + layout, self.data, at, *values)

    def add(self, at: int, layout: str, value: int) -> None:
        old = struct.unpack_from("<" + layout, self.data, at)[0]
        self.put(at, layout, old + value)

    def insert(self, at: int, data: bytes) -> None:
        self.data[at:at] = data


def surgery_both(
    offset_local: int, offset_central: int, layout: str, value: int
) -> Callable[[Surgery], None]:
    def cut(s: Surgery) -> None:
        s.put(s.local + offset_local, layout, value)
        s.put(s.central + offset_central, layout, value)

    return cut


def gap(s: Surgery) -> None:
    second = s.data.index(b"PK\3\4", s.local + 4)
    s.insert(second, b"hidden")
    at = s.data.index(b"PK\1\2")
    s.add(s.end + 6 + 16, "L", 6)
    first = True
    while at >= 0:
        if not first:
            s.add(at + 42, "L", 6)
        first = False
        at = s.data.find(b"PK\1\2", at + 4)


def end_in_comment(s: Surgery) -> None:
    s.put(s.end + 20, "H", 4)
    s.insert(len(s.data), b"PK\5\6")


def not_utf8(s: Surgery) -> None:
    s.put(s.central + 8, "H", 0x800)
    s.put(s.central + 46, "B", 0xFF)


def two_ends(s: Surgery) -> None:
    twin = bytes(s.data[s.end : s.end + 22])
    s.put(s.end + 20, "H", 22)
    s.insert(len(s.data), twin)


def unicode_path(s: Surgery) -> None:
    extra = struct.pack("<2HBL", 0x7075, 5 + 5, 1, 0) + b"other"
    s.put(s.central + 30, "H", len(extra))
    s.insert(s.central + 46 + len("victim"), extra)
    s.add(s.end + len(extra) + 12, "L", len(extra))


def local_unicode_path(s: Surgery) -> None:
    extra = struct.pack("<2HBL", 0x7075, 5 + 5, 1, 0) + b"other"
    s.put(s.local + 28, "H", len(extra))
    s.insert(s.local + 30 + len("victim"), extra)
    moved(s, len(extra))


def moved(s: Surgery, size: int) -> None:
    """Tell the directory that all but the first member begin `size` bytes later."""
    s.add(s.data.rindex(b"PK\5\6") + 16, "L", size)
    at = s.data.index(b"PK\1\2")
    while (at := s.data.find(b"PK\1\2", at + 4)) >= 0:
        s.add(at + 42, "L", size)


def nul(s: Surgery) -> None:
    s.data[:] = s.data.replace(b"victim", b"vic\0im")


def dos_link(s: Surgery) -> None:
    s.put(s.central + 4, "H", 20)
    s.put(s.central + 38, "L", 0o120777 << 16)


CUTS: list[tuple[str, Callable[[Surgery], object], str]] = [
    ("cut off", lambda s: s.data.__delitem__(slice(-30, None)), "not a zip file"),
    ("half", lambda s: s.data.__delitem__(slice(len(s.data) // 2, None)), "not a zip file"),
    ("prepended", lambda s: s.insert(0, b"#!/bin/sh\n"), "foreign bytes"),
    ("appended", lambda s: s.data.extend(b"more"), "not a zip file"),
    ("two ends", two_ends, "more than one end record"),
    ("end in comment", end_in_comment,
     "more than one end record"),
    ("directory too large", lambda s: s.add(s.end + 12, "L", 4), "cut off"),
    ("directory too small", lambda s: s.add(s.end + 12, "L", -4), "foreign bytes"),
    ("count too large", lambda s: s.put(s.end + 8, "2H", 5, 5), "does not hold together"),
    ("count huge", lambda s: s.put(s.end + 8, "2H", 60000, 60000), "cut off"),
    ("count too small", lambda s: s.put(s.end + 8, "2H", 1, 1), "does not hold together"),
    ("multi-disk", lambda s: s.put(s.end + 4, "H", 1), "one part of several"),
    ("multi-disk count", lambda s: s.put(s.end + 8, "H", 1), "one part of several"),
    ("multi-disk member", lambda s: s.put(s.central + 34, "H", 1), "`victim` is in another part"),
    ("encrypted", surgery_both(6, 8, "H", 1), "`victim` is encrypted"),
    ("encrypted, said once", lambda s: s.put(s.local + 6, "H", 1), "`victim` is encoded otherwise"),
    ("deflate64", surgery_both(8, 10, "H", 9), "`victim` is compressed with method 9"),
    ("no bzip2", surgery_both(8, 10, "H", 12), "`victim` cannot be decompressed: Invalid data"),
    ("no LZMA", surgery_both(8, 10, "H", 14), "`victim` has no LZMA properties"),
    ("Zstandard", surgery_both(8, 10, "H", 93), "`victim` is compressed with method 93"),
    ("AES", surgery_both(8, 10, "H", 99), "`victim` is compressed with method 99"),
    ("strongly encrypted", surgery_both(6, 8, "H", 0x40), "`victim` is encrypted"),
    ("a patch", surgery_both(6, 8, "H", 0x20), "`victim` is a patch"),
    ("a patch, said once", lambda s: s.put(s.local + 6, "H", 0x20), "`victim` is encoded other"),
    ("NUL in the name", nul, r"`vic\\x00im` has a control character"),
    ("link of a DOS zip", dos_link, "`victim` is a symbolic link"),
    ("two names, locally", local_unicode_path, "`victim` has a second, different name"),
    ("stored, said once", lambda s: s.put(s.local + 8, "H", 0), "`victim` is encoded otherwise"),
    ("other local name", lambda s: s.put(s.local + 30, "B", ord("V")), "`victim` has another name"),
    ("no local header", lambda s: s.put(s.local, "L", 0), "`victim` has no local header"),
    ("crc", surgery_both(14, 16, "L", 1), "`victim` has a wrong checksum"),
    ("crc, said once", lambda s: s.put(s.local + 14, "L", 1), "`victim` has another size or"),
    ("size, said once", lambda s: s.add(s.local + 22, "L", 1), "`victim` has another size"),
    ("inflates past", surgery_both(22, 24, "L", 99), "`victim` inflates past the 99 bytes"),
    ("inflates short", surgery_both(22, 24, "L", 1001), "`victim` has 1,000 bytes"),
    ("bomb size", surgery_both(22, 24, "L", 2**31), "`victim` states 2,147,483,648 bytes"),
    ("overlap", lambda s: s.put(s.data.index(b"PK\1\2", s.central + 4) + 42, "L", 0), "overlaps"),
    ("offset outside", lambda s: s.put(s.central + 42, "L", 2**31), "foreign bytes before"),
    ("gap", gap, "`victim` is followed by foreign bytes"),
    ("not UTF-8", not_utf8, "is marked as UTF-8"),
    ("two names", unicode_path, "`victim` has a second, different name"),
    ("no Zip64 sizes", lambda s: s.put(s.central + 24, "L", 0xFFFFFFFF), "`victim` lacks"),
    ("bad deflate", lambda s: s.put(s.local + 36, "B", 0xFF), "`victim` cannot be inflated"),
]  # fmt: skip


@pytest.mark.parametrize(("cut", "message"), [c[1:] for c in CUTS], ids=[c[0] for c in CUTS])
def test_zips_that_readers_would_read_differently_are_refused(
    tmp_path: Path, cut: Callable[[Surgery], object], message: str
) -> None:
    path = zip_of(tmp_path / NAME, [("victim", b"0123456789" * 100), ("other.py", b"")])
    surgery = Surgery(path.read_bytes())
    cut(surgery)
    path.write_bytes(surgery.data)
    with pytest.raises(BadWheelError, match=message) as caught:
        open_wheel(path)
    assert NAME in caught.value.message
    assert caught.value.hint


def test_a_bomb_is_not_inflated(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("bomb", bytes(50 * 2**20))])
    surgery = Surgery(path.read_bytes())
    surgery_both(22, 24, "L", 1000)(surgery)
    path.write_bytes(surgery.data)
    tracemalloc.start()
    with pytest.raises(BadWheelError, match="`bomb` inflates past"):
        open_wheel(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_wheel_that_is_a_bomb_is_refused_before_it_is_inflated(tmp_path: Path) -> None:
    """42.zip's trick: so much of so little that inflating alone takes minutes."""
    packed, size = 30 * 2**20, 3_300 * 2**20
    central = b""
    with (tmp_path / NAME).open("wb") as file:
        for n in range(3):
            entry = fresh_entry(f"{n}", mode=0o100644, stamp=0)
            entry = entry._replace(compressed_size=packed, size=size, offset=file.tell())
            file.write(pack_local(entry, b""))
            file.seek(packed, os.SEEK_CUR)  # a hole: nobody shall read it
            central += pack_central(entry)
        file.write(central + pack_end(End(file.tell(), len(central), 3, b"")))
    with pytest.raises(BadWheelError, match="109 times what the file has: it is a bomb"):
        open_wheel(tmp_path / NAME)


@pytest.mark.parametrize("name", ["WHEEL", "METADATA", "RECORD"])
def test_a_list_longer_than_what_it_lists_is_refused(tmp_path: Path, name: str) -> None:
    contents = {"WHEEL": b"Wheel-Version: 1.0\n", name: bytes(17 * 2**20)}
    with zipfile.ZipFile(tmp_path / NAME, "w", zipfile.ZIP_DEFLATED) as file:
        for each, content in contents.items():
            file.writestr(f"{INFO}/{each}", content)
    with pytest.raises(BadWheelError, match=f"{name}` has 17,825,792 bytes, more than any build"):
        open_wheel(tmp_path / NAME)


def test_texts_are_held_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wheelfix.wheel.reader._TEXTS", 2**20)
    monkeypatch.setattr("wheelfix.wheel.read_contents._SOURCES", 2**20)
    files: Files = [(f"{INFO}/{n}.txt", b"x" * 2**16) for n in range(20)]
    files = [*files, *((f"{n}.py", b"ctypes.CDLL('a')" + b"#" * 65_000) for n in range(20))]
    path = zip_of(tmp_path / NAME, files)
    tracemalloc.start()
    with open_wheel(path) as archive:
        assert 10 < len(archive.wheel.texts) <= 16
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 2**20


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_wheel_is_refused_or_reads_as_the_good_one(
    tmp_path: Path, data: st.DataObject
) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"spam " * 20), ("demo/b.py", b"")])
    good = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        good[data.draw(st.integers(0, len(good) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(good)
    try:
        with open_wheel(path) as archive:
            assert archive.read(RECORD)
    except BadWheelError:
        return  # nothing else may be raised


# --- RECORD ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "member", "message"),
    [
        (f"a.py,sha256=AAAA,1\n{INFO}/WHEEL,,\n{RECORD},,\n", "a.py", "has another hash"),
        ("", "a.py", "is not listed in RECORD"),
        (f"gone.py,sha256=AAAA,1\n{RECORD},,\n", "gone.py", "is not in the wheel"),
        ("\xff\n", "\xff", "is not `name,hash,size`"),
    ],
)
def test_a_false_record_opens_with_a_problem(
    tmp_path: Path, record: str, member: str, message: str
) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"x")], record=record)
    with open_wheel(path) as archive:
        found = {p.member: p.message for p in archive.wheel.record_problems}
    assert message in found[member]


def test_a_missing_record_is_a_problem(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w") as file:
        file.writestr(f"{INFO}/WHEEL", b"Wheel-Version: 1.0\n")
    with open_wheel(tmp_path / NAME) as archive:
        (problem,) = archive.wheel.record_problems
    assert problem.member == RECORD


def test_other_strong_hashes_are_verified_with_their_algorithm(tmp_path: Path) -> None:
    import base64
    import hashlib

    digest = base64.urlsafe_b64encode(hashlib.sha512(b"x").digest()).rstrip(b"=").decode()
    wheel_file = wheel_text("cp311-cp311-linux_x86_64").encode()
    rest = record_text({f"{INFO}/WHEEL": wheel_file}, RECORD)
    path = zip_of(tmp_path / NAME, [("a.py", b"x")], record=f"a.py,sha512={digest},1\n{rest}")
    with open_wheel(path) as archive:
        assert archive.wheel.record_problems == ()


# --- Repacking ---------------------------------------------------------------------------------


def odd_files() -> list[tuple[zipfile.ZipInfo | str, bytes]]:
    extra = info("extra.py")
    extra.extra = struct.pack("<2HBL", 0x5455, 5, 1, 1234567890)
    return [
        (info("stored.bin", method=zipfile.ZIP_STORED), b"stored" * 99),
        (info("bin/run", 0o100755), b"#!python\n"),
        (info("no/mode", 0), b"x" * 999),
        (info("naïve/日本.py"), b""),
        (info("empty", method=zipfile.ZIP_STORED), b""),
        (extra, b"extra"),
    ]


def test_the_comment_of_a_member_is_dropped(tmp_path: Path) -> None:
    commented = info("commented.py")
    commented.comment = b"by hand"
    path = zip_of(tmp_path / NAME, [(commented, b"comment")])
    with zipfile.ZipFile(repack(path, tmp_path / "out")) as archive:
        assert archive.getinfo("commented.py").comment == b""


def test_a_wheel_with_nothing_to_do_comes_out_the_same(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, odd_files(), comment=b"a comment")
    again = repack(path, tmp_path / "out")
    assert again.read_bytes() == path.read_bytes()


content_strategy = st.dictionaries(
    st.lists(st.text("abzé漢", min_size=1, max_size=4), min_size=1, max_size=3).map(
        lambda parts: f"{'/'.join(parts)}.py"
    ),
    st.tuples(
        st.binary(max_size=300),
        st.sampled_from([0, 0o100644, 0o100755, 0o100600]),
        st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]),
    ),
)


def test_a_wheel_that_was_written_to_is_read_again(tmp_path: Path) -> None:
    files = {f"demo/{n}.bin": os.urandom(1000 if n % 2 else 400_000) for n in range(8)}
    path = make_wheel(tmp_path, files=files)
    with open_wheel(path) as archive:
        archive.check_unchanged()
        path.chmod(0o600)
        archive.check_unchanged()
        with path.open("r+b") as file:
            file.seek(archive.entries["demo/3.bin"].end - 500)
            file.write(bytes(100))
        with pytest.raises(BadWheelError):
            archive.check_unchanged()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content_strategy)
def test_untouched_members_keep_everything(
    tmp_path: Path, files: dict[str, tuple[bytes, int, int]]
) -> None:
    path = zip_of(
        tmp_path / NAME, [(info(n, mode, method), d) for n, (d, mode, method) in files.items()]
    )
    out = repack(path, tmp_path / "out")
    assert raw_members(out) == raw_members(path)
    new = repack(path, tmp_path / "new", add("zz_new.py"), {"zz_new.py": b"new"})
    untouched = [m for m in raw_members(new) if m.name not in {"zz_new.py", RECORD}]
    assert untouched == [m for m in raw_members(path) if m.name != RECORD]
    assert repack(new, tmp_path / "twice").read_bytes() == new.read_bytes()


def test_changed_new_moved_and_removed_members(tmp_path: Path) -> None:
    files: Files = [("a.py", b"a"), ("b.py", b"b"), ("c.py", b"c"), (info("d.py", 0o100755), b"d")]
    path = zip_of(tmp_path / NAME, files)

    def change(wheel: Wheel) -> Wheel:
        kept = [m._replace(name="moved.py") if m.name == "c.py" else m
                for m in wheel.members if m.name != "b.py"]  # fmt: skip
        new = Member(name="demo.libs/x.so", size=0, compressed_size=0, mode=0o755)
        return replace(wheel, members=(*kept[:1], new, *kept[1:]))

    large = tmp_path / "x.so"
    large.write_bytes(os.urandom(3 * 2**20))
    out = repack(
        path, tmp_path / "out", change, {"a.py": b"changed", "demo.libs/x.so": large},
        {"moved.py": "c.py"},
    )  # fmt: skip
    before = {m.name: m for m in raw_members(path)}
    after = {m.name: m for m in raw_members(out)}
    assert list(after) == ["a.py", "demo.libs/x.so", "moved.py", "d.py", f"{INFO}/WHEEL", RECORD]
    assert after["moved.py"] == before["c.py"]._replace(name="moved.py")
    assert after["d.py"] == before["d.py"]
    assert after["a.py"].date == before["a.py"].date
    assert after["demo.libs/x.so"].date == before[RECORD].date
    assert after["demo.libs/x.so"].attributes == 0o100755 << 16
    with open_wheel(out) as archive:
        assert archive.wheel.record_problems == ()
        assert [r.name for r in archive.wheel.record] == [
            "a.py", "moved.py", "d.py", "demo.libs/x.so", f"{INFO}/WHEEL", RECORD,
        ]  # fmt: skip
        assert archive.read("demo.libs/x.so") == large.read_bytes()
        assert archive.read("a.py") == b"changed"


def test_a_member_can_be_copied_and_stay(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"a" * 99)])
    out = repack(path, tmp_path / "out", add("twin.py"), moved={"twin.py": "a.py"})
    with open_wheel(out) as archive:
        assert archive.read("twin.py") == archive.read("a.py")
        assert archive.wheel.record_problems == ()


def test_a_mode_is_changed_without_touching_the_data(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("run", b"#!python")])

    def executable(wheel: Wheel) -> Wheel:
        return replace(
            wheel, members=(wheel.members[0]._replace(mode=0o100755), *wheel.members[1:])
        )

    before, after = raw_members(path), raw_members(repack(path, tmp_path / "out", executable))
    assert after == [before[0]._replace(attributes=0o100755 << 16), *before[1:]]


def test_tags_are_edited_in_place(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"a.py": ""})
    name = WheelName.parse("demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    tags = ("cp311-cp311-manylinux_2_28_x86_64",)
    out = repack(path, tmp_path / "out", lambda w: replace(w, name=name, tags=tags))
    assert out.name == str(name)
    with open_wheel(path) as old, open_wheel(out) as new:
        assert new.wheel.tags == tags
        assert new.wheel.record_problems == ()
        assert new.read(f"{INFO}/WHEEL") == old.read(f"{INFO}/WHEEL").replace(
            b"linux_x86_64", b"manylinux_2_28_x86_64"
        )


def test_signatures_of_record_are_neither_listed_nor_missed(tmp_path: Path) -> None:
    record = record_text(
        {"a.py": b"", f"{INFO}/WHEEL": wheel_text("cp311-cp311-linux_x86_64").encode()}, RECORD
    )
    jws = f"{RECORD}.jws"
    path = zip_of(tmp_path / NAME, [("a.py", b""), (jws, b"{}")], record=record)
    with open_wheel(path) as archive:
        assert archive.wheel.record_problems == ()
    with open_wheel(repack(path, tmp_path / "out", drop(jws))) as archive:
        assert jws not in archive.entries
        assert archive.wheel.record_problems == ()
        assert archive.read(RECORD) == record.encode()


def test_a_false_row_is_not_made_true(tmp_path: Path) -> None:
    record = f"a.py,sha256=AAAA,1\nghost.py,,\n{RECORD},,\n"
    path = zip_of(tmp_path / NAME, [("a.py", b"x")], record=record)
    out = repack(path, tmp_path / "out", add("b.py"), {"b.py": b""})
    with open_wheel(out) as archive:
        rows, _ = parse_record(archive.read(RECORD), RECORD)
    assert [(r.name, r.hash) for r in rows[:2]] == [("a.py", "sha256=AAAA"), ("ghost.py", "")]


def test_legacy_names_are_refused(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"a"), ("X.py", b"b" * 99)], record="")
    data = path.read_bytes().replace(b"X.py", b"\x82.py")  # é in code page 437
    path.write_bytes(data)
    with pytest.raises(BadWheelError, match="code page 437"):
        open_wheel(path)


# --- Zip64 and data descriptors ----------------------------------------------------------------


class Unseekable(io.RawIOBase):
    """A pipe: `zipfile` writes data descriptors to it."""

    def __init__(self) -> None:
        self.data = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]
        self.data += data
        return len(data)


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
@pytest.mark.parametrize("signed", [True, False])
def test_data_descriptors_are_read_and_written_away(
    tmp_path: Path,
    zip64: bool,  # noqa: FBT001 - a parameter of the test
    method: int,
    signed: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    stream = Unseekable()
    with zipfile.ZipFile(stream, "w") as file:
        for name, data in [("a.py", b"spam" * 99), (f"{INFO}/WHEEL", b"Wheel-Version: 1.0\n")]:
            with file.open(info(name, method=method), "w", force_zip64=zip64) as member:
                member.write(data)
    data = bytes(stream.data)
    if not signed:
        data = without_descriptor_signatures(data)
    (tmp_path / NAME).write_bytes(data)
    out = repack(tmp_path / NAME, tmp_path / "out")
    assert raw_members(out) == raw_members(tmp_path / NAME)
    with zipfile.ZipFile(out) as file:
        assert all(not entry.flag_bits & 8 for entry in file.infolist())
        assert file.read("a.py") == b"spam" * 99
    assert b"PK\7\x08" not in out.read_bytes()


def without_descriptor_signatures(data: bytes) -> bytes:
    """Take the optional signature of two descriptors away, and shift what follows."""
    central = data.index(b"PK\1\2")
    second = data.index(b"PK\1\2", central + 4)
    surgery = Surgery(data)
    surgery.add(second + 42, "L", -4)
    surgery.add(surgery.end + 16, "L", -8)
    return bytes(surgery.data).replace(b"PK\7\x08", b"")


def test_zip64_records_that_are_not_needed_are_dropped(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / NAME, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr(f"{INFO}/WHEEL", b"Wheel-Version: 1.0\n")
        with file.open("a.py", "w", force_zip64=True) as member:
            member.write(b"spam" * 99)
    out = repack(tmp_path / NAME, tmp_path / "out")
    assert out.stat().st_size == (tmp_path / NAME).stat().st_size - 20
    assert raw_members(out) == raw_members(tmp_path / NAME)


@pytest.mark.large
def test_more_members_than_a_plain_zip_can_count(tmp_path: Path) -> None:
    empty = "sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"
    names = [f"demo/{i}" for i in range(66000)]
    files = [(info(name, method=zipfile.ZIP_STORED), b"") for name in names]
    record = "".join(f"{name},{empty},0\n" for name in names)
    many = zip_of(tmp_path / NAME, files, record=record)
    with open_wheel(many) as archive:
        assert len(archive.wheel.members) == 66002
    assert repack(many, tmp_path / "out").read_bytes() == many.read_bytes()


def test_a_zip64_end_that_differs_from_the_plain_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    surgery = Surgery(zip_of(tmp_path / NAME, [("a.py", os.urandom(500))]).read_bytes())
    assert b"PK\6\6" in surgery.data
    surgery.put(surgery.end + 12, "L", 5)
    (tmp_path / NAME).write_bytes(surgery.data)
    with pytest.raises(BadWheelError, match="two central directories that differ"):
        open_wheel(tmp_path / NAME)


def test_zip64_sizes_and_offsets_are_read_and_written_plain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: Files = [("a.py", os.urandom(500)), ("b.py", b"")]
    plain = zip_of(tmp_path / NAME, files)
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 100)
    wide = tmp_path / "wide" / NAME
    wide.parent.mkdir()
    zip_of(wide, files)
    assert b"PK\6\6" in wide.read_bytes()
    with open_wheel(wide) as archive:
        assert archive.wheel.record_problems == ()
    out = repack(wide, tmp_path / "out")
    assert raw_members(out) == raw_members(plain)
    assert b"PK\6\6" not in out.read_bytes()


@pytest.mark.large
def test_a_member_beyond_four_gigabytes(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(2**32 + 5)
    path = zip_of(tmp_path / NAME, [("a.py", b"")])
    with open_wheel(path) as archive:
        after = Member(name="after.py", size=0, compressed_size=0)
        wheel = add("huge.so")(replace(archive.wheel, members=(after, *archive.wheel.members)))
        content: dict[str, bytes | Path] = {"huge.so": huge, "after.py": b"x"}
        with write_wheel(archive, wheel, content, {}, tmp_path / "out", level=1) as pending:
            out = pending.publish()
    with zipfile.ZipFile(out) as file:
        assert file.getinfo("huge.so").file_size == 2**32 + 5
        assert file.read("after.py") == b"x"
    with open_wheel(out) as archive:
        assert archive.wheel.record_problems == ()


# --- Determinism -------------------------------------------------------------------------------

REPACK = """
import sys, os, time
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from wheelfix.wheel.reader import open_rewritten, open_wheel
from wheelfix.wheel.writer import write_wheel
os.umask(int(sys.argv[3], 8))
with open_wheel(Path(sys.argv[1])) as archive:
    wheel = replace(archive.wheel, tags=("cp311-cp311-manylinux_2_28_x86_64",))
    epoch = int(sys.argv[4]) if len(sys.argv) > 4 else None
    with write_wheel(archive, wheel, {"a.py": b"new"}, {}, Path(sys.argv[2]), epoch=epoch) as p:
        p.publish()
"""


@pytest.mark.parametrize("epoch", [[], ["1700000001"]])
def test_the_same_bytes_under_any_umask_and_time_zone(tmp_path: Path, epoch: list[str]) -> None:
    path = zip_of(tmp_path / NAME, [*odd_files(), ("a.py", b"old")])
    outs: list[bytes] = []
    for umask, zone in [("022", "UTC"), ("077", "Asia/Tokyo"), ("000", "America/New_York")]:
        out = tmp_path / umask
        command = [sys.executable, "-c", REPACK, str(path), str(out), umask, *epoch]
        subprocess.run(command, check=True, env={**os.environ, "TZ": zone})
        assert stat.S_IMODE((out / NAME).stat().st_mode) == 0o666 & ~int(umask, 8)
        outs.append((out / NAME).read_bytes())
    assert len(set(outs)) == 1


@pytest.mark.parametrize(
    ("epoch", "date"),
    [
        (1_700_000_001, (2023, 11, 14, 22, 13, 20)),
        (0, (1980, 1, 1, 0, 0, 0)),
        (-5, (1980, 1, 1, 0, 0, 0)),
        (10**12, (2107, 12, 31, 23, 59, 58)),
    ],
)
def test_an_epoch_dates_all_members_and_copies_their_data(
    tmp_path: Path, epoch: int, date: tuple[int, ...]
) -> None:
    stamped = info("b.py")
    stamped.extra = struct.pack("<2HBI", 0x5455, 5, 1, 1_500_000_000)  # extended timestamp
    path = zip_of(tmp_path / NAME, [("a.py", b"a"), (stamped, b"b" * 99), ("c.py", b"c")])

    def change(wheel: Wheel) -> Wheel:
        kept = (m._replace(name="d.py") if m.name == "c.py" else m for m in wheel.members)
        return add("n.py")(replace(wheel, members=tuple(kept)))

    content: dict[str, bytes | Path] = {"n.py": b"", "a.py": b"x"}
    out = repack(path, tmp_path / "out", change, content, {"d.py": "c.py"}, epoch=epoch)
    members = {member.name: member for member in raw_members(out)}
    assert {member.date for member in members.values()} == {date}
    before = {member.name: member for member in raw_members(path)}
    assert members["b.py"]._replace(date=()) == before["b.py"]._replace(date=())
    assert members["d.py"].data == before["c.py"].data
    with zipfile.ZipFile(out) as archive:
        assert [entry.extra for entry in archive.infolist()] == [b""] * len(members)
    assert b"UT" not in out.read_bytes()


def test_without_an_epoch_copies_keep_their_date_and_extra_fields(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"a"), ("b.py", b"b")])
    out = repack(path, tmp_path / "out", add("n.py"), {"n.py": b"", "a.py": b"x"})
    assert {member.date for member in raw_members(out)} == {OLD_DATE}


# --- Publishing --------------------------------------------------------------------------------


@contextmanager
def file_size_limit(size: int) -> Generator[None]:
    """Let writing fail halfway, as on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def no_unnamed_files(_: Path) -> int:
    return -1


@pytest.fixture(params=["unnamed", "hidden"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run with O_TMPFILE, and as on a file system without it."""
    if request.param == "hidden":
        monkeypatch.setattr("wheelfix.system.tempfiles._open_unnamed", no_unnamed_files)
    return str(request.param)


def pend(path: Path, directory: Path) -> PendingFile:
    with open_wheel(path) as archive:
        return write_wheel(archive, archive.wheel, {}, {}, directory)


@pytest.mark.usefixtures("kind")
def test_nothing_is_there_before_and_one_file_after(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, odd_files())
    out = tmp_path / "out"
    with pend(path, out) as pending:
        assert not (out / NAME).exists()
        assert pending.size == path.stat().st_size
        with open_wheel(pending.path, name=WheelName.parse(NAME)) as archive:
            assert archive.wheel.record_problems == ()
        assert pending.publish() == out / NAME
    assert listing(out) == [NAME]
    assert (out / NAME).read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("kind")
def test_what_is_not_published_leaves_nothing(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, odd_files())
    with pytest.raises(KeyboardInterrupt), pend(path, tmp_path / "out"):
        raise KeyboardInterrupt
    assert listing(tmp_path / "out") == []


@pytest.mark.usefixtures("kind")
def test_a_failure_while_writing_leaves_nothing(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"")])
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match="Is a directory"):
        repack(path, tmp_path / "out", content={"a.py": tmp_path / "folder"})
    assert not (tmp_path / "out").exists()
    large = tmp_path / "large"
    large.write_bytes(os.urandom(99999))
    with file_size_limit(4096), pytest.raises(OutputError, match="File too large") as caught:
        repack(path, tmp_path / "out", content={"a.py": large})
    assert caught.value.hint
    assert listing(tmp_path / "out") == []


@pytest.mark.usefixtures("kind")
def test_an_existing_wheel_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, odd_files())
    out = tmp_path / "out"
    out.mkdir()
    (out / NAME).write_bytes(b"old")
    with pend(path, out) as pending, (out / NAME).open("rb") as reader:
        pending.publish()
        assert reader.read() == b"old"
    assert listing(out) == [NAME]
    assert (out / NAME).read_bytes() == path.read_bytes()


@pytest.mark.usefixtures("kind")
def test_the_input_may_be_its_own_output(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [("a.py", b"a")])
    repack(path, tmp_path, content={"a.py": b"new"})
    with open_wheel(path) as archive:
        assert archive.read("a.py") == b"new"
    assert listing(tmp_path) == [NAME]


@pytest.mark.usefixtures("kind")
def test_a_relative_directory_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = zip_of(tmp_path / NAME, [])
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        assert repack(path, Path("out")) == Path("out") / NAME
    assert listing(Path("out")) == [NAME]


def test_a_directory_that_cannot_be_written_is_named_with_a_remedy(tmp_path: Path) -> None:
    path = zip_of(tmp_path / NAME, [])
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(OutputError, match=f"{tmp_path}/file") as caught:
        repack(path, tmp_path / "file" / "out")
    assert caught.value.hint
    (tmp_path / "out" / NAME).mkdir(parents=True)
    with pytest.raises(OutputError) as caught:
        repack(path, tmp_path / "out")
    assert caught.value.hint
    assert listing(tmp_path / "out") == [NAME]


# --- Other judges ------------------------------------------------------------------------------


def test_installer_and_pip_take_the_result(tmp_path: Path) -> None:
    sources = pytest.importorskip("installer.sources")
    tag = "py3-none-any"
    path = make_wheel(tmp_path, tag=tag, files={"demo/__init__.py": "x = 1\n", "demo/ü.txt": "ü"},
                      metadata="Summary: x\n")  # fmt: skip
    out = repack(
        path, tmp_path / "out", add("demo/new.py"),
        {"demo/new.py": b"y = 2\n", "demo/__init__.py": b"x = 3\n"},
    )  # fmt: skip
    with sources.WheelFile.open(out) as source:
        source.validate_record()
    target = tmp_path / "target"
    install(out, target).check_returncode()
    assert (target / "demo/__init__.py").read_text() == "x = 3\n"
    assert (target / "demo/new.py").read_text() == "y = 2\n"
    assert (target / "demo/ü.txt").read_text() == "ü"


@pytest.mark.large
def test_a_large_object_is_edited_and_deflated_again(tmp_path: Path) -> None:
    """Larger than what is in memory as a whole, and than what is deflated at once."""
    data = tmp_path / "data"
    some = b"".join(os.urandom(2**15).hex().encode() + bytes(15 * 2**16) for _ in range(4))
    data.write_bytes(some * (33 * 2**20 // len(some) + 1))
    source = f'__asm__(".section .rodata\\n.incbin \\"{data}\\"");'
    library = shared_object(tmp_path / "libhuge.so", source, libc=False)
    wheel = make_wheel(tmp_path, files={"demo/libhuge.so": library, "demo/libsmall.so": b"\x7fELF"})
    edits: list[Edit] = [
        AddEntry(member="demo/libhuge.so", entry="$ORIGIN/../demo.libs"),
        SetPathTag(member="demo/libhuge.so", tag=PathTag.RPATH),
    ]
    with open_wheel(wheel) as archive:
        after = predict(archive.wheel, edits)
        done = apply(archive, after, edits, tmp_path, Settings())
        with write_wheel(archive, after, done.content, done.moved, tmp_path / "out") as pending:
            written = pending.publish()
    with open_wheel(written) as archive:
        new = archive.buffer("demo/libhuge.so")
        assert archive.wheel.record_problems == ()
        assert archive.wheel.elfs["demo/libhuge.so"].rpath == "$ORIGIN/../demo.libs"
    assert differences(library.read_bytes(), new, after.elfs["demo/libhuge.so"], "libhuge.so") == ()


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_each_member_that_counts_as_copied_has_the_bytes_of_the_input(
    changed: int, tmp_path: Path
) -> None:
    files = [
        (info(f"p/{n}.py", method=zipfile.ZIP_STORED), b"copied bytes %d" % n) for n in (0, 1, 2)
    ]
    path = zip_of(tmp_path / NAME, files)
    rewritten = tmp_path / "rewritten"
    with open_wheel(path) as origin:
        rewritten.write_bytes(path.read_bytes())
        with open_rewritten(rewritten, origin.wheel.name, origin) as same:
            assert same.wheel == origin.wheel
        text = b"copied bytes %d" % changed
        rewritten.write_bytes(path.read_bytes().replace(text, text[::-1]))
        with pytest.raises(BadWheelError, match=rf"p/{changed}\.py.*checksum"):
            open_rewritten(rewritten, origin.wheel.name, origin)
