"""Zips written field by field, so that they can lie: refused by name, as no installer takes them.

Or as one reader takes them for something else than another.
"""

import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.support.installers import pip
from wheelfix.errors import BadWheelError
from wheelfix.wheel.model import RecordRow
from wheelfix.wheel.reader import open_wheel
from wheelfix.wheel.record import format_record, hash_field

NAME = "demo-1.0-py3-none-any.whl"
INFO = "demo-1.0.dist-info"
FILES: Mapping[str, bytes] = {
    "demo/__init__.py": b"x = 1\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    f"{INFO}/METADATA": b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
}
TEXT = b"some text\n"


class Liar:
    """A zip in the making."""

    def __init__(self) -> None:
        self.locals = bytearray()
        self.directory = bytearray()
        self.members = 0

    def add(  # noqa: PLR0913 - what a header may say
        self,
        name: str,
        data: bytes = b"",
        *,
        stored: bytes | None = None,
        method: int = 0,
        local: Mapping[str, int] | None = None,
        central: Mapping[str, int] | None = None,
        local_name: str | None = None,
        local_extra: bytes = b"",
        extra: bytes = b"",
        after: bytes = b"",
    ) -> None:
        """Add a member whose headers say what is true, but for `local` and `central`."""
        stored = data if stored is None else stored
        true = {"flags": 0 if name.isascii() else 0x800, "crc": zlib.crc32(data)}
        true |= {"packed": len(stored), "size": len(data), "offset": len(self.locals)}
        here, there = {**true, **(local or {})}, {**true, **(central or {})}
        raw = name.encode()
        raw_local = raw if local_name is None else local_name.encode()
        common = "<2H4x3L2H"
        self.locals += b"PK\3\4" + struct.pack("<H", 20)
        self.locals += struct.pack(
            common, here["flags"], method, here["crc"], here["packed"], here["size"],
            len(raw_local), len(local_extra),
        ) + raw_local + local_extra + stored + after  # fmt: skip
        self.directory += b"PK\1\2" + struct.pack("<2H", 0x314, 20)
        self.directory += struct.pack(
            common, there["flags"], method, there["crc"], there["packed"], there["size"],
            len(raw), len(extra),
        )  # fmt: skip
        self.directory += struct.pack("<3H2L", 0, 0, 0, 0o100644 << 16, there["offset"])
        self.directory += raw + extra
        self.members += 1

    def written(self, path: Path) -> Path:
        """Write the zip."""
        end = struct.pack("<4H2LH", 0, 0, self.members, self.members, len(self.directory),
                          len(self.locals), 0)  # fmt: skip
        path.write_bytes(self.locals + self.directory + b"PK\5\6" + end)
        return path


def wheel_with(path: Path, odd: Callable[[Liar], object], *more: str) -> Path:
    """Write a sound wheel with something odd first, and the files `more`."""
    zip_ = Liar()
    odd(zip_)
    files = {**FILES, **dict.fromkeys(more, TEXT)}
    for name, data in files.items():
        zip_.add(name, data)
    rows = [
        RecordRow(name=n, hash=hash_field("sha256", _sha256(d)), size=len(d))
        for n, d in files.items()
    ]
    if zip_.members > len(files) and b"odd.txt" in zip_.directory:
        rows.append(RecordRow("demo/odd.txt", hash_field("sha256", _sha256(TEXT)), len(TEXT)))
    record = f"{INFO}/RECORD"
    zip_.add(record, format_record([*rows, RecordRow(name=record, hash="", size=None)]))
    return zip_.written(path / NAME)


def _sha256(data: bytes) -> bytes:
    from hashlib import sha256

    return sha256(data).digest()


def pip_says(wheel: Path, target: Path) -> str:
    """Install a wheel by pip; return what it complains of."""
    done = pip("install", "-q", "--no-deps", "--no-index", "--target", target, wheel)
    return done.stderr if done.returncode else ""


def field(kind: int, value: bytes, size: int | None = None) -> bytes:
    return struct.pack("<2H", kind, len(value) if size is None else size) + value


EMPTY = b"\3\0"  # deflated
SOUND: Mapping[str, Callable[[Liar], object]] = {
    "nothing odd": lambda _: None,
    "a folder": lambda z: z.add("demo/sub/"),
    "the data folder": lambda z: z.add("demo-1.0.data/"),
    "a folder in the data folder": lambda z: z.add("demo-1.0.data/scripts/"),
    "an empty folder of another": lambda z: z.add("other-1.0.data/"),
    "a folder, deflated": lambda z: z.add("demo/sub/", method=8, stored=EMPTY),
    "a folder with a descriptor": lambda z: z.add(
        "demo/sub/", local={"flags": 8}, after=b"PK\7\x08" + bytes(12)
    ),
    "paddings": lambda z: z.add("demo/odd.txt", TEXT, extra=bytes(3), local_extra=bytes(11)),
    "a time": lambda z: z.add(
        "demo/odd.txt", TEXT, extra=field(0x5455, bytes(5)), local_extra=field(0x5455, bytes(9))
    ),
    "an offset in Zip64": lambda z: z.add(
        "demo/odd.txt", TEXT, central={"offset": 0xFFFFFFFF}, extra=field(1, bytes(8))
    ),
}


@pytest.mark.parametrize("odd", SOUND.values(), ids=SOUND)
def test_what_is_odd_and_right_is_opened(odd: Callable[[Liar], object], tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, odd)
    with open_wheel(wheel) as archive:
        assert archive.wheel.record_problems == ()
    assert pip_says(wheel, tmp_path / "target") == ""


LIES: Mapping[str, tuple[Callable[[Liar], object], str]] = {
    "a folder hides data": (
        lambda z: z.add("demo/sub/", stored=b"hidden", method=8),
        "`demo/sub/` cannot be inflated|`demo/sub/` does not end",
    ),
    "a folder hides data after its end": (
        lambda z: z.add("demo/sub/", stored=EMPTY + b"hidden", method=8),
        "`demo/sub/` does not end where",
    ),
    "a folder is followed by data": (
        lambda z: z.add("demo/sub/", after=b"hidden"),
        "`demo/sub/` is followed by foreign bytes",
    ),
    "a folder is a file, locally": (
        lambda z: z.add("demo/sub/", local_name="demo/evil.py"),
        "`demo/sub/` has another name in its local header",
    ),
    "a folder has a size, locally": (
        lambda z: z.add("demo/sub/", local={"size": 6, "packed": 6}, after=b"hidden"),
        "`demo/sub/` has another size",
    ),
    "a local extra field that lies": (
        lambda z: z.add("demo/odd.txt", TEXT, local_extra=field(0x5455, b"12345", 400)),
        "`demo/odd.txt` has an extra field that is cut off",
    ),
    "Zip64 sizes twice": (
        lambda z: z.add(
            "demo/odd.txt",
            TEXT,
            central={"size": 0xFFFFFFFF},
            extra=field(1, struct.pack("<Q", len(TEXT))) + field(1, struct.pack("<Q", 9)),
        ),
        "`demo/odd.txt` has Zip64 sizes twice",
    ),
    "an offset that lies": (
        lambda z: z.add(
            "demo/odd.txt", TEXT, central={"offset": 0xFFFFFFFF}, extra=field(1, b"\xff" * 8)
        ),
        "foreign bytes before",
    ),
    "a size that lies": (
        lambda z: z.add(
            "demo/odd.txt", TEXT, central={"size": 0xFFFFFFFF}, extra=field(1, b"\x7f" * 8)
        ),
        "`demo/odd.txt` states 9,187,201,950,435,737,471 bytes",
    ),
    "a descriptor that lies": (
        lambda z: z.add(
            "demo/odd.txt",
            TEXT,
            local={"flags": 8, "crc": 0, "packed": 0, "size": 0},
            after=b"PK\7\x08" + bytes(12),
        ),
        "`demo/odd.txt` is followed by foreign bytes",
    ),
}


@pytest.mark.parametrize(("odd", "message"), LIES.values(), ids=LIES)
def test_what_readers_would_read_differently_is_refused(
    odd: Callable[[Liar], object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadWheelError, match=message) as caught:
        open_wheel(wheel_with(tmp_path, odd))
    assert caught.value.hint


REFUSED: Mapping[str, tuple[Callable[[Liar], object], tuple[str, ...], str]] = {
    "an extra field that lies": (
        lambda z: z.add("demo/odd.txt", TEXT, extra=field(0x5455, b"12345", 400)),
        (),
        "`demo/odd.txt` has an extra field that is cut off",
    ),
    "a name longer than any": (lambda _: None, ("demo/" + "n" * 256,), "a name that is too long"),
    "a name of too many bytes": (
        lambda _: None,
        ("demo/" + "\u00e9" * 128,),
        "a name that is too long",
    ),
    "a folder of no installation": (
        lambda _: None,
        ("demo-1.0.data/evil/x.py",),
        "`demo-1.0.data/evil/x.py` is in none of the folders",
    ),
    "a file in no folder": (
        lambda _: None,
        ("demo-1.0.data/x.py",),
        "`demo-1.0.data/x.py` is in none of the folders",
    ),
}


@pytest.mark.parametrize(("odd", "more", "message"), REFUSED.values(), ids=REFUSED)
def test_what_pip_refuses_is_refused(
    odd: Callable[[Liar], object], more: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    wheel = wheel_with(tmp_path, odd, *more)
    with pytest.raises(BadWheelError, match=message):
        open_wheel(wheel)
    assert pip_says(wheel, tmp_path / "target")


@pytest.mark.parametrize(
    "names",
    [
        ("demo-1.0.data/purelib/demo/__init__.py",),
        (f"demo-1.0.data/purelib/{INFO}/RECORD",),
        ("demo-1.0.data/purelib/demo/x.py", "demo-1.0.data/platlib/demo/x.py"),
    ],
)
def test_what_is_installed_over_another_member_is_refused(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """pip installs both, the one over the other, without a word."""
    with pytest.raises(BadWheelError, match=r"`demo-1.0.data.* is installed over `"):
        open_wheel(wheel_with(tmp_path, lambda _: None, *names))


@pytest.mark.parametrize(
    "names",
    [
        ("demo-1.0.data/purelib/demo/x.py", "demo-1.0.data/scripts/demo/x.py"),
        ("demo-1.0.data/data/demo/__init__.py", "demo-1.0.data/headers/demo/__init__.py"),
        ("demo/" + "n" * 255, "demo/" + "\u00e9" * 127),
    ],
)
def test_names_that_only_look_alike_are_fine(names: tuple[str, ...], tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path, lambda _: None, *names)
    with open_wheel(wheel) as archive:
        assert archive.wheel.record_problems == ()
    assert pip_says(wheel, tmp_path / "target") == ""
