"""Hostile wheels: checked within limits of time and memory, or refused; never executed.

Each is checked by its own process, limited to 256 MiB of data and a few seconds.
"""

import io
import os
import re
import resource
import signal
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.support.build import executable, make_wheel, shared_object
from tests.support.effort import TRIES, slowness
from tests.support.forged import forged
from tests.support.fork_server import warm_program
from tests.support.repairing import repair
from wheelfix.pipelines.repair_result import Status
from wheelfix.settings import Settings

MEMORY = 256 << 20
SECONDS = 10
"""CPU time of a quiet machine; without limits in the readers, cases take minutes or all memory."""
MANY = 20_000


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run wheelfix within the limits, and again if it seems to take too much time."""
    done = _run(*arguments)
    for _ in range(TRIES - 1):
        if not _took_too_long(done):
            break
        done = _run(*arguments, slowness=slowness())
    assert not _took_too_long(done)
    assert "not enough memory" not in done.stderr
    return done


def _took_too_long(done: subprocess.CompletedProcess[str]) -> bool:
    """Tell whether the signal that ends a process at its limit ended this one, or its worker."""
    return done.returncode == -signal.SIGXCPU or "ended abruptly" in done.stderr


def _run(*arguments: str | Path, slowness: float = 1) -> subprocess.CompletedProcess[str]:
    seconds = round(SECONDS * slowness)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))

    return subprocess.run(
        [warm_program(), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


DIGITS = "9" * 5000
Files = Mapping[str, bytes | str]

SLOW: Mapping[str, Callable[[], Files]] = {
    "a search path of thousands of entries, for thousands of libraries": lambda: {
        "a.so": forged(
            needed=[f"l{n}" for n in range(MANY)],
            runpath=":".join(f"$ORIGIN/{n}" for n in range(MANY)),
        )
    },
    "one library asked for a million times": lambda: {
        "a.so": forged(needed=["liba.so"] * 1_000_000, soname="liba.so")
    },
    "objects that all need each other": lambda: {
        f"p/lib{n}.so": forged(
            needed=[f"lib{m}.so" for m in range(300)], runpath="$ORIGIN", soname=f"lib{n}.so"
        )
        for n in range(300)
    },
    "a path that goes up and down": lambda: {
        "a.so": forged(needed=["x"], runpath="$ORIGIN" + "/../a" * 100_000)
    },
    "tokens in tokens": lambda: {
        "a.so": forged(needed=["x"], runpath="$ORIGIN$LIB$PLATFORM" * 50_000)
    },
    "versions of thousands of digits": lambda: {
        "a.so": forged(needed=["libc.so.6"], versions=["GLIBC_2." + DIGITS, "GLIBC_" + DIGITS])
    },
    "a name that is mangled without end": lambda: {
        "a.so": forged(needed=["_ZN" + DIGITS + "x" * 100_000], soname="_Z" + DIGITS)
    },
    "many sources that open libraries": lambda: {
        f"p/m{n}.py": "import ctypes\n"
        + "".join(f"def f{i}(): return {'+'.join(f'f{j}()' for j in range(9))}\n" for i in range(9))
        + f"ctypes.CDLL({n})\n"
        for n in range(500)
    },
    "a deep folder": lambda: {"/".join("a" * 30_000) + "/b.py": ""},
    "many deep folders": lambda: {f"{n}/" + "/".join("a" * 5000) + "/b.py": "" for n in range(50)},
    "an entry point for everything": lambda: {
        "demo-1.0.dist-info/entry_points.txt": "[console_scripts]\n"
        + "".join(f"c{n} = m{n}:f\n" for n in range(50_000))
    },
    "JSON in JSON": lambda: {"demo-1.0.dist-info/sboms/x.cdx.json": "[" * 500_000},
}


@pytest.mark.each_run("a path that*", "tokens*", "a deep*", "JSON*")
@pytest.mark.parametrize("name", SLOW)
def test_slow_contents_are_checked_within_limits(name: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files=SLOW[name]())
    done = run("check", "-q", "--output-format", "concise", wheel)
    assert done.returncode in {0, 1, 2}, done.stderr[-2000:]
    assert "internal error" not in done.stderr


METADATA: Mapping[str, str] = {
    "versions of thousands of digits": f"Requires-Python: >=3.{DIGITS}\n"
    f"Requires-Dist: a>=1.{DIGITS}\nRequires-Dist: nvidia-cublas-cu12>={DIGITS}\n",
    "markers in markers": f'Requires-Dist: a; {"(" * 50_000}python_version>"3"\n',
    "too many requirements": "".join(f"Requires-Dist: a{n}>=1\n" for n in range(30_000)),
    "the same requirement without end": "Requires-Dist: a\n" * 240_000,
    "files of licenses without end": "".join(f"License-File: {n}\n" for n in range(200_000)),
    "one field on many lines": "Summary: x\n" + " y\n" * 1_300_000,
    "too many specifiers": "Requires-Python: " + ",".join(f">=3.{n}" for n in range(9_000)) + "\n",
}


@pytest.mark.each_run("versions*", "markers*", "too many*", "files*", "the same*")
@pytest.mark.parametrize("text", METADATA.values(), ids=METADATA)
def test_hostile_metadata_is_checked_within_limits(text: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, files={"a.so": forged(needed=["x"])}, metadata=text)
    done = run("check", "-q", "--output-format", "concise", wheel)
    assert done.returncode in {0, 1}, done.stderr[-2000:]


TAGS: Mapping[str, str] = {
    "thousands by thousands": f"{'a.' * 3000}b-{'c.' * 3000}d-e",
    "without end": "a.b-" * 60 + "c",
    "long ones": "a" * 300_000 + "-" + "b." * 100_000 + "c-d",
    "many long ones": "a" * 3_000 + "-b" * 3_000 + "-" + "c." * 100_000,
}


@pytest.mark.each_run("check-*", "repair-thousands*")
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("command", ["check", "repair", "verify"])
def test_tags_that_expand_beyond_memory(command: str, tag: str, tmp_path: Path) -> None:
    library = forged(needed=["libc.so.6"])
    wheel = make_wheel(tmp_path, files={"a.so": library}, wheel_lines=f"Tag: {TAGS[tag]}\n")
    options: list[str | Path] = ["-w", tmp_path / "out"] if command == "repair" else []
    options += ["--show", "notes"] if command == "check" else []
    done = run(command, *options, wheel)
    assert done.returncode in {1, 2}, done.stderr[-2000:]
    assert "internal error" not in done.stderr
    if command == "check":
        assert "WHEEL has different tags than the file name" in done.stdout


@cache
def vast_metadata() -> bytes:
    """Make a wheel of files of 1 GiB each, of the same 16 MiB, deflated once."""
    times, part = 64, bytes(1 << 24)
    deflated = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    stream = times * (deflated.compress(part) + deflated.flush(zlib.Z_FULL_FLUSH))
    stream += deflated.flush()
    crc = 0
    for _ in range(times):
        crc = zlib.crc32(part, crc)
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name in ("WHEEL", "METADATA"):
            archive.writestr(f"bomb-1.0.dist-info/{name}", stream)
    content = bytearray(written.getvalue())
    for header in re.finditer(b"PK(?:\1\2|\3\4)", bytes(content)):
        at = header.start() + (10 if header[0] == b"PK\1\2" else 8)
        struct.pack_into("<H", content, at, zipfile.ZIP_DEFLATED)
        struct.pack_into("<3I", content, at + 6, crc, len(stream), times * len(part))
    return bytes(content)


@pytest.mark.parametrize("command", ["check", "repair"])
def test_invalid_files_beside_a_wheel_do_not_stop_its_check_or_repair(
    command: str, tmp_path: Path
) -> None:
    """Wheels of one run are first read for their METADATA, then each is checked."""
    good = make_wheel(
        tmp_path,
        "good",
        tag="py3-none-any",
        metadata="Requires-Dist: bomb\n",
        files={"good.py": ""},
    )
    names = {each: tmp_path / f"{each}-1.0-py3-none-any.whl" for each in ("zero", "loop", "text")}
    names["zero"].symlink_to("/dev/zero")
    names["loop"].symlink_to(names["loop"])
    names["text"].write_bytes(b"PK")
    bomb = tmp_path / "bomb-1.0-py3-none-any.whl"
    bomb.write_bytes(vast_metadata())
    for number, (flag, method) in enumerate(((0, 9), (1, 8), (0, 14))):
        odd = bytearray(good.read_bytes().replace(b"good-", b"odd%d-" % number))
        for each in re.finditer(b"PK\1\2", bytes(odd)):  # Deflate64, encrypted, LZMA
            struct.pack_into("<2H", odd, each.start() + 8, flag, method)
        (tmp_path / f"odd{number}-1.0-cp311-cp311-linux_x86_64.whl").write_bytes(odd)
    corrupt = bytearray(good.read_bytes().replace(b"good-", b"lzma-"))
    for found in re.finditer(b"PK(?:\1\2..|\3\4)..", bytes(corrupt), re.DOTALL):
        struct.pack_into("<2H", corrupt, found.end(), 0, 14)
    (tmp_path / "lzma-1.0-cp311-cp311-linux_x86_64.whl").write_bytes(corrupt)
    os.mkfifo(tmp_path / "fifo-1.0-py3-none-any.whl")
    beyond = tmp_path / f"{'a' * 250}-1.0-py3-none-any.whl"
    wheels = [tmp_path, beyond] if command == "check" else [good, bomb, *tmp_path.glob("odd*")]
    options: list[str | Path] = []
    if command == "repair":
        options = ["-w", tmp_path / "out", "--allow-pure-python-wheel"]
    done = run(command, *options, *wheels)
    assert done.returncode == 2
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    if command == "check":
        for wheel in {*tmp_path.glob("*.whl"), beyond} - {good}:
            assert wheel.name[:20] in done.stdout + done.stderr
    else:
        assert (tmp_path / "out" / good.name).exists()


def test_no_code_of_the_wheel_or_of_a_grafted_library_is_executed(tmp_path: Path) -> None:
    proof = tmp_path / "executed"
    write = f'#include <fcntl.h>\n{{}} {{{{ return open("{proof}", O_CREAT | O_WRONLY, 0600); }}}}'
    alive = write.format("__attribute__((constructor)) static int alive(void)")
    library = shared_object(
        tmp_path / "sdk" / "libalive.so.1",
        f"{alive} int f(void) {{ return 1; }}",
        soname="libalive.so.1",
    )
    user = shared_object(
        tmp_path / "libuser.so",
        f"{alive} int f(void); int g(void) {{ return f(); }}",
        needed=[library],
        rpath=str(library.parent),
    )
    program = executable(tmp_path / "tool", write.format("int main(void)"))
    files: dict[str, Path | str] = {
        "demo/__init__.py": f"open({str(proof)!r}, 'w')",
        "demo/libuser.so": user,
        "demo-1.0.data/scripts/tool": program,
        "demo-1.0.data/scripts/script": f"#!/bin/sh\ntouch {proof}\n",
    }
    wheel = make_wheel(
        tmp_path / "in",
        tag=f"py3-none-linux_{os.uname().machine}",
        files=files,
        modes={"demo-1.0.data/scripts/script": 0o755},
    )
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), os.environ)
    assert outcome.status is Status.REPAIRED, outcome.error
    empty = tmp_path / "empty"
    for name in ("", "home", "tmp", "cwd"):
        (empty / name).mkdir()
    env = {**os.environ, "HOME": str(empty / "home"), "TMPDIR": str(empty / "tmp")}
    for command in (
        ["check", wheel],
        ["explain", wheel],
        ["explain", wheel, "demo/libuser.so"],
        ["repair", "--dry-run", wheel],
        ["repair", "-w", tmp_path / "out", wheel],
    ):
        argv = [warm_program(), *map(str, command)]
        subprocess.run(argv, env=env, cwd=empty / "cwd", check=False, capture_output=True)
    assert not proof.exists()
    left = [path for path in empty.rglob("*") if not path.is_dir()]
    assert left == [], "nothing is written but the wheel"
    subprocess.run([program], check=False)
    assert proof.exists(), "the proof would have been there"
