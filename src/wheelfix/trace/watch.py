"""Processes under LD_DEBUG, watched while they run: the logs as they grow, and /proc/PID/maps."""

import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG

from wheelfix.grouping import flatten
from wheelfix.host.installed_files import File, find_file
from wheelfix.host.ld_debug_log import Log, LoggedProgram, LoggedRequest
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.subprocesses import children_of

BUSY, IDLE = 0.003, 0.05
"""Seconds between two looks, while something happens and while nothing does."""
_PIECE = 1 << 20
"""Bytes of a log that are read at once."""
_LOG = lazy_pattern(r"log\.\d{1,9}", re.ASCII)
"""The name of a log: that in LD_DEBUG_OUTPUT, a dot, and the process id."""


@dataclass(slots=True, kw_only=True)
class SeenProcess:
    """One process, as /proc has shown it so far. Mutable."""

    pid: int
    began: str
    """Its start time: the kernel reuses process ids."""
    exe: str | None = None
    cwd: str | None = None
    programs: dict[str, bool] = field(default_factory=dict[str, bool])
    """Its programs, by /proc/PID/exe, and whether LD_DEBUG_OUTPUT was in their environment."""
    files: dict[tuple[int, int], File] = field(default_factory=dict[tuple[int, int], File])
    since: float = 0
    """When the last of the programs was first seen (`time.monotonic`)."""
    looked: float = 0
    lost_log: bool = False
    """Whether it has closed the descriptor of its log."""

    def alive(self) -> bool:
        """Whether the process still runs."""
        fields = _stat(self.pid)
        return fields is not None and fields[19] == self.began and fields[0] not in "ZX"


@dataclass(slots=True, kw_only=True)
class TraceWatch:
    """The logs as they grow, and the processes as they start and end. Mutable."""

    folder: Path
    symbols: tuple[str, ...]
    logs: dict[int, Log] = field(default_factory=dict[int, Log])
    seen: dict[int, SeenProcess] = field(default_factory=dict[int, SeenProcess])
    refused: set[str] = field(default_factory=set[str])
    """The files in `folder` that these processes did not write."""
    _open: dict[int, int] = field(default_factory=dict[int, int])
    """The descriptors of the logs."""
    _users: set[int] = field(default_factory=lambda: {os.geteuid()})
    """The users that processes were seen to run as."""
    _scanned: float = 0

    def close(self) -> None:
        """Close the logs."""
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def add(self, pid: int) -> bool:
        """Watch one more process; return whether it is new."""
        fields = _stat(pid)
        known = self.seen.get(pid)
        if fields is None or (known is not None and known.began == fields[19]):
            return False
        self.seen[pid] = SeenProcess(pid=pid, began=fields[19])
        self._note_user(pid)
        return True

    def _note_user(self, pid: int) -> None:
        with suppress(OSError):
            self._users.add(Path(f"/proc/{pid}").stat().st_uid)

    def look(self) -> bool:
        """Read what is new; return whether there was anything."""
        grown = self._read_logs()
        now = time.monotonic()
        if now - self._scanned > IDLE / 2:
            self._scanned = now
            for pid in list(self.seen):
                for child in children_of(pid):
                    grown |= self.add(child)
        pause = max(IDLE if grown else 2 * IDLE, 0.01 * len(self.seen))
        for seen in self.seen.values():
            fresh = list(
                flatten(logged.mapped for logged in self._programs() if logged.pid == seen.pid)
            )
            if fresh or now - seen.looked > pause:
                seen.looked = now
                self._snapshot(seen, fresh)
        for logged in self._programs():
            for request in logged.mapped:
                if request.file is None:  # the process ended before its maps were read
                    process = self.seen.get(logged.pid)
                    request.file = find_file(_absolute(request, process.cwd if process else None))
            logged.mapped.clear()
        return grown

    def _programs(self) -> Iterator[LoggedProgram]:
        return flatten(log.programs for log in self.logs.values())

    def _read_logs(self) -> bool:
        grown = False
        with os.scandir(self.folder) as entries:
            for entry in entries:
                pid = int(entry.name[4:]) if _LOG.fullmatch(entry.name) else -1
                if pid in self.logs:
                    continue
                descriptor = self._open_log(pid, entry.path) if pid > 0 else -1
                if descriptor < 0:
                    self.refused.add(entry.name)
                    continue
                self.refused.discard(entry.name)
                self._open[pid] = descriptor
                self.logs[pid] = Log(pid, self.symbols)
        for pid, log in self.logs.items():
            while data := os.read(self._open[pid], _PIECE):
                grown = True
                log.feed(data)
        for logged in self._programs():
            if logged.pid not in self.seen:
                self.add(logged.pid)
        return grown

    def _open_log(self, pid: int, path: str) -> int:
        """Open a log; -1 for anything else that a traced command has put in its place.

        The command may be of another user, to whom a link or pipe must not open files of ours.
        """
        self._note_user(pid)
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags)
        except OSError:
            return -1
        status = os.fstat(descriptor)
        if S_ISREG(status.st_mode) and status.st_nlink == 1 and status.st_uid in self._users:
            return descriptor
        os.close(descriptor)
        return -1

    def _snapshot(self, seen: SeenProcess, fresh: Sequence[LoggedRequest]) -> None:
        """Read the executable files in the maps of one process, and those of `fresh` requests."""
        here = Path("/proc") / str(seen.pid)
        self._note_user(seen.pid)
        try:
            lines = (here / "maps").read_bytes().splitlines()
            seen.exe = os.readlink(here / "exe")  # noqa: PTH115 - text, as the kernel prints it
            seen.cwd = os.readlink(here / "cwd")  # noqa: PTH115 - as above
        except OSError:
            return
        self._check_environment(seen, here)
        waiting = {request.address: request for request in fresh if request.address is not None}
        for line in lines:
            fields = line.split(None, 5)
            if len(fields) < 6 or not fields[5].startswith(b"/"):
                continue
            executable = fields[1][2:3] == b"x"
            if not executable and not waiting:
                continue
            file = _mapped_file(fields)
            if executable:
                seen.files.setdefault(file.id, file)
            low, _, high = fields[0].partition(b"-")
            start, end = int(low, 16), int(high, 16)
            for address in [address for address in waiting if start <= address < end]:
                _settle(waiting.pop(address), file, seen.cwd)
        if seen.pid in self.logs and not seen.lost_log and seen.alive():
            seen.lost_log = not _holds(here, self.folder)

    def _check_environment(self, seen: SeenProcess, here: Path) -> None:
        """Note whether LD_DEBUG_OUTPUT is in the environment of the program.

        The environment is empty for a moment while the kernel starts it, and after its end.
        """
        program, now = seen.exe or "", time.monotonic()
        if program not in seen.programs:
            seen.programs[program], seen.since = True, now
        try:
            variables = (here / "environ").read_bytes()
        except OSError:
            return
        if variables or (now - seen.since > 2 * IDLE and seen.alive()):
            seen.programs[program] = os.fsencode(self.folder) in variables


def writers(folder: Path) -> Iterator[int]:
    """Yield the ids of processes, orphans among them, that write to `folder` or may do so."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            fields = _stat(int(entry.name))
            if fields is None or fields[0] in "ZX":
                continue
            if _names(entry, folder) or _holds(entry, folder):
                yield int(entry.name)


def _names(process: Path, folder: Path) -> bool:
    """Whether `folder` is in the initial environment of the process."""
    try:
        return os.fsencode(folder) in (process / "environ").read_bytes()
    except OSError:
        return False


def _holds(process: Path, folder: Path) -> bool:
    """Whether a file in `folder` is open in the process."""
    try:
        return any(_link(fd).startswith(f"{folder}/") for fd in (process / "fd").iterdir())
    except OSError:
        return False


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (proc(5)); None without a process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _settle(request: LoggedRequest, file: File, cwd: str | None) -> None:
    """Note the mapped file for `request`, unless the address was reused by another file."""
    path = _absolute(request, cwd)
    now = find_file(path)
    # Some file systems have one st_dev for stat(2) and another for the maps.
    same_path = os.path.realpath(path) == file.path
    if now is None or now.id == file.id or file.deleted or same_path:
        request.file = file


def _mapped_file(fields: Sequence[bytes]) -> File:
    major, _, minor = fields[3].partition(b":")
    path = os.fsdecode(fields[5]).replace("\\012", "\n")
    deleted = path.endswith(" (deleted)")
    return File(
        path=path.removesuffix(" (deleted)"),
        device=os.makedev(int(major, 16), int(minor, 16)),
        inode=int(fields[4]),
        mapped=True,
        deleted=deleted,
    )


def _absolute(request: LoggedRequest, cwd: str | None) -> str:
    # Paths stay text, as the loader spells them. A program starts in this process's directory.
    return os.path.join(cwd or "", request.path or "")  # noqa: PTH118 - text
