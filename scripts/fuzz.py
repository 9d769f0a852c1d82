"""Feed wheelfix broken input: only its own errors may come out, soon, and in little memory.

Each case starts from something sound, a wheel or an ELF object or a text, and damages it: bits,
runs of bytes, numbers that lie, pieces cut, doubled or swapped. A case is told by its target and
its number, so that it can be run again alone.

    python scripts/fuzz.py                       # some of every target
    python scripts/fuzz.py zip elf -n 1000000    # much of two
    python scripts/fuzz.py edit --first 4711 -n 1

Exits with 1 at the first case that crashes, takes longer than 10 seconds, asks for more than
512 MiB, or makes the editor write what readelf then rejects; the case is kept in a file.
"""

import argparse
import io
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from wheelfix.archive import open_wheel
from wheelfix.elfedit import edit_in_place
from wheelfix.elfread import read_elf, read_exports
from wheelfix.elfverify import differences
from wheelfix.errors import WheelfixError
from wheelfix.metadata import read_metadata
from wheelfix.pysources import openings
from wheelfix.record import parse_record, verify_record
from wheelfix.settings import Settings
from wheelfix.tables import settings_from
from wheelfix.wheel import WheelName

# ruff: noqa: S311 -- dice need no secrecy

SECONDS = 10
MEMORY = 512 << 20
CASES = 2_000
"""Of each target, unless asked for more."""
READELF_EACH = 50
"""Every so many edited objects go to readelf, which takes a hundred times as long as the edit."""
_NUMBERS = (0, 1, 2, 7, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 64) - 1)
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
"""
_CODE = 'extern int puts(const char *); int f(void) { return puts("f"); } int g = 1;'

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


@cache
def objects() -> tuple[bytes, ...]:
    """Build a few small objects: with and without versions, hash tables, section headers."""
    kinds = (
        ["-shared"],
        ["-shared", "-Wl,--hash-style=sysv", "-Wl,-rpath,$ORIGIN/lib"],
        ["-shared", "-Wl,--enable-new-dtags,-rpath,$ORIGIN", "-Wl,--no-as-needed", "-lm"],
        ["-shared", "-Wl,--version-script=/dev/stdin"],
        ["-pie", "-fPIE", "-Wl,-e,f", "-nostartfiles"],
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "x.c", Path(folder) / "x.so"
        source.write_text(_CODE, encoding="utf-8")
        made: list[bytes] = []
        for flags in kinds:
            command = ["gcc", "-fPIC", "-s", "-o", str(target), str(source), *flags]
            subprocess.run(command, input=b"V1 { f; }; V2 { g; } V1;", check=True)
            made.append(target.read_bytes())
    return tuple(made)


@cache
def wheels() -> tuple[bytes, ...]:
    """Build small wheels: stored and deflated, with data descriptors, links and Zip64 fields."""
    files = {
        "demo/__init__.py": _SOURCE.encode(),
        "demo/x.so": objects()[0],
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


_WHEEL = """Wheel-Version: 1.0
Generator: fuzz
Root-Is-Purelib: false
Tag: cp311-cp311-linux_x86_64
"""
_RECORD = """demo/__init__.py,sha256=Zm9v,300
"demo/x,y.so",sha256=YmFy,14000
demo-1.0.dist-info/RECORD,,
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

# --- Targets --------------------------------------------------------------------------------------


def fuzz_zip(dice: random.Random) -> bytes:
    """Open a damaged wheel."""
    data = damaged(dice.choice(wheels()), dice)
    with tempfile.NamedTemporaryFile(suffix=".whl") as file:
        file.write(data)
        file.flush()
        _tried(data, lambda: _opened(Path(file.name)))
    return data


def _opened(path: Path) -> None:
    name = WheelName.parse("demo-1.0-cp311-cp311-linux_x86_64.whl")
    with open_wheel(path, name=name) as archive:
        for member in archive.wheel.members:
            archive.read(member.name)


def fuzz_record(dice: random.Random) -> bytes:
    """Read a damaged RECORD, and judge files by it."""
    data = damaged(_RECORD.encode(), dice)

    def read() -> None:
        rows, _ = parse_record(data, "demo-1.0.dist-info/RECORD")
        verify_record(rows, (), {}, "demo-1.0.dist-info/RECORD")

    _tried(data, read)
    return data


def fuzz_metadata(dice: random.Random) -> bytes:
    """Read a damaged WHEEL."""
    data = damaged(_WHEEL.encode(), dice)
    _tried(data, lambda: read_metadata(data.decode("utf-8", "replace")))
    return data


def fuzz_elf(dice: random.Random) -> bytes:
    """Read a damaged object, and what it defines."""
    data = damaged(dice.choice(objects()), dice)
    _tried(data, lambda: read_elf(data, "x.so"))
    _tried(data, lambda: read_exports(data, "x.so"))
    return data


def fuzz_edit(dice: random.Random) -> bytes:
    """Edit an object, half of them damaged; what comes out is read again, by readelf too."""
    sound = dice.choice(objects())
    data = damaged(sound, dice) if dice.random() < 0.5 else sound
    _tried(data, lambda: _edited(data, dice))
    return data


def _edited(data: bytes, dice: random.Random) -> None:
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


def fuzz_source(dice: random.Random) -> bytes:
    """Scan a damaged Python source."""
    data = damaged(_SOURCE.encode(), dice)
    _tried(data, lambda: openings(data, "demo/__init__.py", {"demo": "demo/__init__.py"}))
    return data


def fuzz_config(dice: random.Random) -> bytes:
    """Read damaged settings, as long as they are TOML."""
    data = damaged(_TOML.encode(), dice)

    def read() -> None:
        try:
            table = tomllib.loads(data.decode("utf-8", "replace"))
        except (tomllib.TOMLDecodeError, RecursionError):
            return
        settings_from(table, Settings(), "fuzz")

    _tried(data, read)
    return data


TARGETS: Mapping[str, Callable[[random.Random], bytes]] = {
    "zip": fuzz_zip,
    "record": fuzz_record,
    "metadata": fuzz_metadata,
    "elf": fuzz_elf,
    "edit": fuzz_edit,
    "source": fuzz_source,
    "config": fuzz_config,
}

# --- Judgement ------------------------------------------------------------------------------------


class CaseError(Exception):
    """A case that went wrong, with its input."""

    def __init__(self, data: bytes, cause: BaseException) -> None:
        super().__init__(f"{type(cause).__name__}: {cause}")
        self.data = data


def _tried(data: bytes, act: Callable[[], object]) -> None:
    try:
        act()
    except WheelfixError:
        return
    except BaseException as error:
        raise CaseError(data, error) from error


def _late(_number: int, _frame: object) -> None:
    raise TimeoutError(f"more than {SECONDS} seconds")


def run(target: str, first: int, cases: int) -> None:
    """Run `cases` cases of `target`; raises `CaseError` for one that goes wrong."""
    signal.signal(signal.SIGALRM, _late)
    for number in range(first, first + cases):
        signal.alarm(SECONDS)
        try:
            TARGETS[target](random.Random(f"{target} {number}"))
        except CaseError as error:
            error.add_note(f"case {number} of {target}")
            raise
        finally:
            signal.alarm(0)


def main(argv: Sequence[str]) -> int:
    """Run the targets that were asked for, and say what they took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], default=[])
    parser.add_argument("-n", type=int, default=CASES, help="cases of each target")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    for target in asked.targets or TARGETS:
        start = time.monotonic()
        try:
            run(target, asked.first, asked.n)
        except CaseError as error:
            file = Path(tempfile.gettempdir()) / f"wheelfix-fuzz-{target}"
            file.write_bytes(error.data)
            print(f"{target}: {' '.join(error.__notes__)}: {error}; the input is in {file}")
            raise
        seconds = time.monotonic() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{target:9}{asked.n:>10,} cases  {seconds:8.1f} s  peak {peak} MiB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
