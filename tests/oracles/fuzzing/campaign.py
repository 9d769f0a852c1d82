"""Hostile wheels and environments through every command, in forks of this process.

    python -m tests.oracles.fuzzing.campaign wheels --first 0 -n 20000
    python -m tests.oracles.fuzzing.campaign environments -n 3000

Prints each call that ends in a traceback or without a word, takes more than SECONDS of the
processor or MEMORY, lets control characters or workflow commands through, writes anywhere but
where it may, changes its input, executes something, or leaves a file or a process; and how often
which command ended how. A case is identified by its number. Exits with 1 if there was such a call.
"""

import argparse
import ctypes
import json
import os
import random
import re
import resource
import shutil
import signal
import sys
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, TextIO

from tests.oracles.fuzzing.bombs import MEMORY, SECONDS
from tests.oracles.fuzzing.commands import any_sbom
from tests.oracles.fuzzing.damage import damaged
from tests.oracles.fuzzing.hostile_environments import fill
from tests.oracles.fuzzing.hostile_wheels import (
    hostile_wheel,
    lying_object,
    odd_object,
    wheel_name,
)
from tests.oracles.fuzzing.sound import members, objects, wheels
from tests.oracles.fuzzing.well_formed import settings_file, wheel_file
from tests.support.fork_server import import_all
from tests.support.kept_auditwheel import keep_one
from wheelfix.cli import app
from wheelfix.cli.stdio import guard_streams

# ruff: noqa: S311 -- dice need no secrecy

_PATIENCE = 120
"""Seconds of the clock, for one call on a machine that does much else."""
_REPORT = 500
"""After so many cases the counts are printed."""
_BATCH = 10
"""Cases for one process: a fork takes as long as three calls."""


class Ran(NamedTuple):
    """How a call ended."""

    code: int
    seconds: float = 0
    memory: int = 0
    out: bytes = b""
    err: bytes = b""
    traces: tuple[str, ...] = ()
    """What it did outside its folder, and what it left."""


class Call(NamedTuple):
    """A command line, and what it is."""

    arguments: Sequence[str]
    may_write: bool = False
    may_execute: bool = False


Outcome = tuple[Call, Ran, Sequence[str]]
"""A call, how it ended, and what is wrong with that."""

# --- One call -------------------------------------------------------------------------------------

_PROGRAMS = {"dpkg-query", "dpkg", "rpm", "apk", "ldconfig", "patchelf", "uv", "gcc"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_CHANGES = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.link", "os.symlink", "os.chmod"}
_SPECIAL = ("/dev/null", "/dev/tty", "/proc/")


class _Watch:
    """What a call does that it should not, by an audit hook (PEP 578)."""

    def __init__(self) -> None:
        self.allowed = ""
        """The folder that the process may write to; empty while nobody looks."""
        self.events: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, details: tuple[Any, ...]) -> None:
        if not self.allowed:
            return
        paths: tuple[Any, ...] = ()
        if event == "open" and isinstance(details[2], int) and details[2] & _WRITES:
            paths = details[:1]
        elif event in _CHANGES:
            paths = details[:2]
        elif event == "subprocess.Popen":
            name = Path(os.fsdecode(details[0])).name
            if name not in _PROGRAMS and not name.startswith("python"):
                self.events.append(f"{event} {details[0]}")
        elif event == "os.system" or (event == "socket.connect" and isinstance(details[1], tuple)):
            self.events.append(f"{event} {details[-1]}")
        for path in paths:
            text = os.fsdecode(path) if isinstance(path, str | bytes | Path) else ""
            if text.startswith("/") and not text.startswith((self.allowed, *_SPECIAL)):
                self.events.append(f"{event} {text}")


class Runner:
    """Runs command lines in this process, a fork, whose temporary files lie in a folder of it."""

    def __init__(self, top: Path) -> None:
        self._top = top
        self._watch = _Watch()
        own = {"TMPDIR": "tmp", "HOME": "home", "XDG_CACHE_HOME": "cache", "EXECUTED": "executed"}
        # pip asks rustc for its version, and rustup's writes there.
        os.environ.setdefault("RUSTUP_HOME", str(Path.home() / ".rustup"))
        os.environ.update({name: f"{top}/{place}" for name, place in own.items()})
        os.environ.update({"PIP_NO_INDEX": "1", "UV_OFFLINE": "1"})
        self._streams = [os.memfd_create(name) for name in ("out", "err")]
        # What a call leaves becomes a child of this process (PR_SET_CHILD_SUBREAPER, prctl(2)).
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
        for limit, most in (
            (resource.RLIMIT_DATA, 2 * MEMORY),
            (resource.RLIMIT_FSIZE, 300 << 20),
            (resource.RLIMIT_CORE, 0),
        ):
            resource.setrlimit(limit, (most, most))
        keep_one()
        self._own_children = _children()

    def run(self, call: Call, folder: Path) -> Ran:
        """Run a command line in `folder`."""
        os.chdir(folder)
        for number, stream in enumerate(self._streams, 1):
            os.ftruncate(stream, 0)
            os.lseek(stream, 0, os.SEEK_SET)
            os.dup2(stream, number)
        guard_streams()
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak, proc(5)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 3 * SECONDS, most))
        signal.alarm(_PATIENCE)
        self._watch.allowed, before = str(self._top), os.times()
        try:
            code = app.run(list(call.arguments))
        finally:
            self._watch.allowed = ""
        after = os.times()
        signal.alarm(0)
        for file in (sys.stdout, sys.stderr):
            file.flush()
        out, err = (os.pread(stream, 1 << 26, 0) for stream in self._streams)
        events, self._watch.events = self._watch.events, []
        return Ran(
            code,
            sum(after[:4]) - sum(before[:4]),
            _peak(),
            out,
            err,
            (*events, *self._end_processes(), *self._removed()),
        )

    def _end_processes(self) -> Iterator[str]:
        """End the processes that a call left, and name them."""
        for pid in _children() - self._own_children:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL:
                yield f"left process {pid}"

    def _removed(self) -> Iterator[str]:
        """Remove what is in folders that a call should leave empty, and name it."""
        top = self._top
        for path in (*(top / "tmp").iterdir(), *(top / "home").iterdir(), top / "executed"):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.exists():
                path.unlink()
            else:
                continue
            yield f"left {path.relative_to(top)}"


def _children() -> set[int]:
    path = Path(f"/proc/self/task/{os.getpid()}/children")
    return set(map(int, path.read_text(encoding="ascii").split()))


def _peak() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    return int(found[1]) << 10 if found else 0


# --- Judgement ------------------------------------------------------------------------------------

_STEERING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
_COMMAND = re.compile(r"(?m)^[ \t]*(?:::|##\[).*")
_BROKEN = re.compile(
    "internal error.*|unexpected error.*|auditwheel failed(?!: InvalidWheelFilename).*"
)
_TRACEBACK = re.compile("Traceback.*|Exception ignored.*|Fatal Python.*")
"""Also what `verify` quotes of an import that fails."""


def complaints(call: Call, ran: Ran) -> Iterator[str]:
    """Yield what is wrong with how a call ended."""
    text = (ran.out + b"\n" + ran.err).decode("utf-8", "replace")
    if ran.code not in {0, 1, 2}:
        yield f"code {ran.code}"
    if ran.code == 2 and "error" not in text:
        yield "code 2 without a message"
    patterns = [_BROKEN, _STEERING]
    patterns += [] if call.may_execute else [_TRACEBACK]
    patterns += [] if "github" in call.arguments else [_COMMAND]
    for pattern in patterns:
        if found := pattern.search(text):
            yield f"says {text[max(0, found.start() - 80) : found.end() + 40]!r}"
    if ran.seconds > SECONDS:
        yield f"{ran.seconds:.1f} s"
    if ran.memory > MEMORY:
        yield f"{ran.memory >> 20} MiB"
    for trace in ran.traces:
        if trace != "left executed" or not call.may_execute:
            yield trace


_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\([^)]*\)|[^a-zA-Z ]")


def _kind(ran: Ran) -> str:
    """Name the way in which a call ended, without what is different in each."""
    said = re.search(rb"error: (.*)", ran.err)
    words = _QUOTED.sub("", said[1].decode("utf-8", "replace")).split() if said else []
    return f"{ran.code} {' '.join(words[:9])}".strip()


# --- Wheels ---------------------------------------------------------------------------------------

_FORMATS = {
    "check": "full concise json jsonl sarif github gitlab junit markdown html".split(),
    "explain": "text mermaid dot html json".split(),
    "diff": "text markdown json".split(),
    "repair": ["text", "json"],
}
_TARGETS = "debian:11 alpine:3.20 glibc:2.41 rhel:9 page:64k conda debian:12,alpine:3.20".split()
_REPAIRS: Sequence[Sequence[str]] = [
    words.split()
    for words in (
        "--strip|--strip=debug|--unsafe-fixes|--only-plat|--library-path lib|--exclude libm*"
        "|--normalize|--graft libm.so.6|--sbom-include s.json|--prune-needed all|--isa-ext-check"
        "|--plat manylinux_2_28_x86_64|--strip=debug --debug-symbols keep|--update-tags"
        "|--zip-compression-level 9|--patcher patchelf|--trust-files|--sysroot root"
        "|--clear-execstack|--data-libraries move|--keep-name libm*|--library-path lib"
    ).split("|")
]


def wheel_calls(wheel: str, other: str, dice: random.Random) -> Iterator[Call]:
    """Yield command lines about one wheel, for each command that takes one."""

    def some(share: float, *words: str) -> list[str]:
        return list(words) if dice.random() < share else []

    def shown(command: str) -> list[str]:
        return [command, "--output-format", dice.choice(_FORMATS.get(command, ["text", "json"]))]

    target = ["--target", dice.choice(_TARGETS)]
    level = dice.choice("--fail-on=note --show=notes --index=pypi".split())
    asked = dice.choice(((), ("demo/x.so",), ("demo.core",), ("libm.so.6",), ("libx.so.1",)))
    library = dice.choice("libm.so.6 libc.so.6 x.so libx.so.1 libx demo/x.so".split())
    repair = [word for words in _REPAIRS if dice.random() < 0.07 for word in words]
    both = [wheel, other] if dice.random() < 0.5 else [other, wheel]
    check = [*some(0.4, level), *some(0.3, *target), *some(0.2, "--library-path", "lib")]
    calls: list[tuple[float, Call]] = [
        (1, Call([*shown("check"), *check, *some(0.15, "--with", other), "--", wheel])),
        (1, Call([*shown("repair"), "-w", "../out", *repair, "--", wheel], may_write=True)),
        (0.3, Call([*shown("repair"), "--dry-run", "-w", "../out", *repair, "--", wheel])),
        (1, Call([*shown("explain"), *some(0.3, *target), "--", wheel, *asked])),
        (0.2, Call(["explain", "--why-not", "lib/libx.so.1", "--", wheel, *asked])),
        (1, Call([*shown("why"), *some(0.1, "--sysroot", "root"), "--", wheel, library])),
        (
            1,
            Call(
                ["show", "--symbols", "--", wheel]
                if dice.random() < 0.3
                else [*shown("show"), wheel]
            ),
        ),
        (1, Call([*shown("diff"), *some(0.2, "--fail-on", "note"), "--", *both])),
        (0.25, Call(["settings", wheel])),
        (0.1, Call([*shown("doctor"), wheel])),
        (0.05, Call([*shown("verify"), "--timeout", "60", wheel], may_execute=True)),
    ]
    return (call for share, call in calls if dice.random() < share)


def try_wheel(number: int, top: Path, runner: Runner) -> Iterator[Outcome]:
    """Run every command on one wheel."""
    dice = random.Random(f"hostile wheel {number}")
    folder, out = top / "in", top / "out"
    wheel, content = wheel_name(dice), hostile_wheel(dice)
    for place in ("o", "lib", "root/lib/x86_64-linux-gnu", "root/etc"):
        (folder / place).mkdir(parents=True)
    (folder / wheel).write_bytes(content)
    beside = (
        damaged(content, dice),
        hostile_wheel(dice),
        hostile_wheel(dice),
        wheel_file(dice),
        content,
    )
    (folder / "o" / wheel).write_bytes(dice.choice(beside))
    if dice.random() < 0.5:
        library = dice.choice(
            (objects()[1], lying_object(objects()[1], dice), odd_object(dice), b"")
        )
        (folder / "lib" / dice.choice(("libx.so.1", "libm.so.6", "liba.so"))).write_bytes(library)
    if dice.random() < 0.1:
        said = dice.choice(("include /*/*\n", "/lib\n", "\x1b\n", "include /etc/ld.so.conf\n"))
        (folder / "root/etc/ld.so.conf").write_text(said, encoding="utf-8")
    if dice.random() < 0.08:
        settings = dice.choice(("wheelfix.toml", "pyproject.toml"))
        (folder / settings).write_bytes(settings_file(dice))
    (folder / "s.json").write_bytes(any_sbom(dice))
    before = _listing(folder)
    for call in wheel_calls(wheel, f"o/{wheel}", dice):
        ran = runner.run(call, folder)
        wrong = [*complaints(call, ran), *_written(call, ran, out)]
        if _listing(folder) != before:
            wrong.append("the input was changed")
            before = _listing(folder)
        yield call, ran, wrong


def _written(call: Call, ran: Ran, out: Path) -> Iterator[str]:
    """Yield what is wrong with the wheels that a call wrote, and remove them."""
    for path in out.iterdir():
        if not call.may_write or ran.code == 2 or path.suffix != ".whl":
            yield f"wrote {path.name}, code {ran.code}"
        try:
            with zipfile.ZipFile(path) as archive:
                if broken := archive.testzip():
                    yield f"wrote {path.name}, whose {broken} is broken"
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            yield f"wrote {path.name}: {error}"
        path.unlink()


def _listing(folder: Path) -> Sequence[object]:
    """Return all files with what changes when they are written to."""
    return [
        (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode)
        for path in sorted(folder.rglob("*"))
        for status in [path.lstat()]
    ]


# --- Environments ---------------------------------------------------------------------------------


def try_environment(number: int, top: Path, runner: Runner) -> Iterator[Outcome]:
    """Ask about one environment, and about it beside another."""
    dice = random.Random(f"hostile environment {number}")
    folder = top / "in"
    for name in "ab":
        fill(folder / name, dice)
    before = _listing(folder)
    form = ["--output-format", dice.choice(("text", "json"))]
    asked = dice.choice(((), ("pkg",), ("pkg._core",), ("libx.so.1",), ("pkg/_core.so",)))
    shown = ["--output-format", dice.choice(_FORMATS["explain"])]
    for arguments in (
        ["doctor", *form, "a"],
        ["doctor", "--every-order", *form, "b"],
        ["doctor", *form, "--against", "b", "a"],
        ["explain", "--site", "a", *shown, *asked],
    ):
        call = Call(arguments)
        ran = runner.run(call, folder)
        wrong = list(complaints(call, ran))
        if _listing(folder) != before:
            wrong.append("the environment was changed")
        yield call, ran, wrong


# --- Campaigns ------------------------------------------------------------------------------------

CAMPAIGNS = {"wheels": try_wheel, "environments": try_environment}


def _run_batch(name: str, numbers: Sequence[int], lines: TextIO) -> None:
    """Run cases in this process, a fork, and write what came of each call."""
    with TemporaryDirectory(prefix="wheelfix-campaign-") as folder:
        runner = Runner(Path(folder))
        for number in numbers:
            top = Path(folder)
            for place in ("in", "out", "tmp", "home", "cache"):
                (top / place).mkdir(exist_ok=True)
            for call, ran, wrong in CAMPAIGNS[name](number, top, runner):
                codes = [code.decode() for code in set(re.findall(rb"\bWF\d{3}\b", ran.out))]
                told = (number, call.arguments, wrong, _kind(ran), ran.seconds, ran.memory, codes)
                print(json.dumps(told), file=lines, flush=True)
            os.chdir(folder)
            shutil.rmtree(top / "in")


def _forked(name: str, numbers: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield what came of each call of these cases, which a fork runs."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        with os.fdopen(writer, "w", encoding="utf-8", errors="backslashreplace") as lines:
            code = 0
            try:
                _run_batch(name, numbers, lines)
            except BaseException:  # noqa: BLE001 - of the campaign, not of a call
                print(json.dumps(_ended(numbers, traceback.format_exc())), file=lines)
                code = 1
            lines.flush()
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as lines:
        for line in lines:
            yield tuple(json.loads(line))
    if status := os.waitpid(pid, 0)[1]:
        code = os.waitstatus_to_exitcode(status)
        yield _ended(numbers, f"a call of {numbers} ended all with {code}")


def _ended(numbers: Sequence[int], why: str) -> tuple[Any, ...]:
    """Return the line of cases that were not run to the end."""
    return numbers[0], ["?"], [why], "ended", 0, 0, []


def campaign(name: str, numbers: Sequence[int]) -> Iterator[str]:
    """Run cases; yield a line for each call that went wrong, and counts now and then."""
    ended: Counter[str] = Counter()
    ways: set[tuple[str, str]] = set()
    rules: set[str] = set()
    most, peak, start = 0.0, 0, time.monotonic()
    for first in range(0, len(numbers), _BATCH):
        batch = numbers[first : first + _BATCH]
        for number, arguments, wrong, kind, seconds, memory, codes in _forked(name, batch):
            ended[f"{arguments[0]} {kind.partition(' ')[0]}"] += 1
            ways.add((arguments[0], kind))
            rules.update(codes)
            most, peak = max(most, seconds), max(peak, memory)
            for complaint in wrong:
                yield f"{name} {number}: {json.dumps(arguments)}: {complaint}"
        done = first + len(batch)
        if done % _REPORT == 0 or done == len(numbers):
            yield (
                f"... {done} {name}, {ended.total()} calls: {len(ways)} ways to end, "
                f"{len(rules)} rules hit; most {most:.1f} s, {peak >> 20} MiB; "
                f"{time.monotonic() - start:.0f} s\n    {dict(sorted(ended.items()))}"
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("campaign", choices=CAMPAIGNS)
    parser.add_argument("-n", type=int, default=100, help="cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    asked = parser.parse_args(argv)
    for make in (objects, members, wheels):
        make()  # once, before the first fork
    import_all()
    is_fine = True
    for line in campaign(asked.campaign, range(asked.first, asked.first + asked.n)):
        print(line, flush=True)
        is_fine = is_fine and line.startswith("...")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
