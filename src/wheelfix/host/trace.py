"""The run-time witness: run a command, and see which files it loads, and why.

LD_DEBUG tells who asked for what and where the loader looked; /proc/PID/maps tells which file it
was, by device and inode at the address that LD_DEBUG names. The command gets nothing else: its
streams, folder, signals and exit code are its own, and nothing is put into its process.
"""

import ctypes
import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from wheelfix.analysis.providers import known_providers
from wheelfix.elf.demangle import demangle
from wheelfix.elf.model import Elf
from wheelfix.errors import SettingsError
from wheelfix.host.installed_files import (
    by_record,
    distributions,
    find_dist_info,
    find_file,
    read_file,
)
from wheelfix.host.ld_debug import Asked, Binding, Image, Log
from wheelfix.host.trace_model import (
    File,
    Loaded,
    NotFound,
    Process,
    SkippedCandidate,
    Trace,
    variables,
)
from wheelfix.loader.glibc import expand
from wheelfix.loader.model import How
from wheelfix.system.tmpdir import tmpdir

_PIECE = 1 << 20
"""Bytes of a log that are read at once."""
_SOON, _LATER = 0.003, 0.05
"""Seconds between two looks, while something happens and while nothing does."""
_FORWARDED = (
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
)
_SI_KERNEL = 0x80
"""`si_code` of a signal that the terminal sends: the command gets it too, being in the group."""
_PUNCH_HOLE, _KEEP_SIZE = 2, 1


def trace(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    symbols: Sequence[str] = (),
    forward: bool = True,
) -> Trace:
    """Run `command` in `environ`, and return what it and its children loaded.

    `symbols` are globs of symbol names, plain or demangled, whose bindings are wanted. Signals
    that reach this process are forwarded, unless the caller runs this beside other threads.

    Raises `SettingsError` if the command cannot be started.
    """
    with _folder() as folder:
        variables_of_child = {
            **environ,
            "LD_DEBUG": "libs,files,versions" + (",bindings" if symbols else ""),
            "LD_DEBUG_OUTPUT": str(folder / "log"),
        }
        watch = _Watch(folder=folder, symbols=tuple(symbols))
        with _signals(forward=forward) as (caught, mask):
            pid = _spawn(command, variables_of_child, mask)
            watch.add(pid)
            code = _attend(pid, watch, caught)
        alive = list(_writers(folder))
        processes = tuple(_processes(watch))
        notes = list(_notes(watch, alive, folder, symbols))
        if alive:
            _leave(folder)
    seen = Trace(
        command=tuple(command),
        exit_code=code if code >= 0 else 128 - code,
        processes=processes,
        variables=variables(environ, processes),
        notes=tuple(notes),
    )
    return _with_distributions(seen)


# --- The command ----------------------------------------------------------------------------------


def _spawn(command: Sequence[str], environ: Mapping[str, str], mask: set[signal.Signals]) -> int:
    """Start the command as a shell would: every open descriptor stays open, signals are reset."""
    # Python ignores these two from its start on; who started it most likely did not.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawnp(
            command[0], list(command), dict(environ), setsigmask=mask, setsigdef=defaults
        )
    except OSError as error:
        if error.strerror == "Exec format error":  # a script without `#!`: execvp(3) asks the shell
            words = ["/bin/sh", shutil.which(command[0]) or command[0], *command[1:]]
            return os.posix_spawn(
                words[0], words, dict(environ), setsigmask=mask, setsigdef=defaults
            )
        code = 127 if isinstance(error, FileNotFoundError) else 126
        raise CommandError(command[0], error, code) from error


class CommandError(SettingsError):
    """The command cannot be started; `code` is what a shell would say: 127 or 126."""

    def __init__(self, name: str, error: OSError, code: int) -> None:
        super().__init__(
            f"`{name}` cannot be run: {error.strerror}",
            hint="the command and its arguments stand after `--`",
        )
        self.code = code


@contextmanager
def _signals(*, forward: bool) -> Generator[tuple[set[signal.Signals], set[signal.Signals]]]:
    """Hold back the signals that are forwarded; yield them, and the mask of the command."""
    caught = {*_FORWARDED, signal.SIGCHLD} if forward else set[signal.Signals]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, caught)
    mask = {signal.Signals(number) for number in before if number in signal.valid_signals()}
    try:
        yield caught, mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _attend(pid: int, watch: "_Watch", caught: set[signal.Signals]) -> int:
    """Watch until the command ends; return its exit code, or the signal's number, negative."""
    quiet = 0
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        quiet = 0 if watch.look() else quiet + 1
        if ended:
            watch.look()
            return os.waitstatus_to_exitcode(status)
        _wait(pid, caught, _SOON if quiet < 60 else _LATER)


def _wait(pid: int, caught: set[signal.Signals], seconds: float) -> None:
    """Wait for the time, or for a signal, which is passed on to the command."""
    if not caught:
        time.sleep(seconds)
        return
    came = signal.sigtimedwait(caught, seconds)
    if came is None or came.si_signo == signal.SIGCHLD or came.si_code == _SI_KERNEL:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, came.si_signo)


# --- The folder of the logs -----------------------------------------------------------------------


@contextmanager
def _folder() -> Generator[Path]:
    """Make a private folder for the logs.

    The loader writes to stdout if it cannot write there. A command of root may become another
    user, who must reach the folder too: then its name is the secret, as nobody can list it.
    """
    outer = Path(tempfile.mkdtemp(prefix="wheelfix-trace-", dir=tmpdir()))
    inner = outer / secrets.token_hex(16)
    inner.mkdir(mode=0o700)
    if os.geteuid() == 0:
        outer.chmod(0o711)
        inner.chmod(0o1733)
    try:
        yield inner
    finally:
        if not (outer / "left").exists():
            shutil.rmtree(outer, ignore_errors=True)


def _leave(folder: Path) -> None:
    """Keep the folder for the processes that still write to it."""
    (folder.parent / "left").touch()


def _writers(folder: Path) -> Iterator[int]:
    """Yield the processes that write to `folder`, or whose programs will: orphans among them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            fields = _stat(int(entry.name))
            if fields is None or fields[0] in "ZX":
                continue
            if _names(entry, folder) or _holds(entry, folder):
                yield int(entry.name)


def _notes(
    watch: "_Watch", alive: Sequence[int], folder: Path, symbols: Sequence[str]
) -> Iterator[str]:
    if alive:
        yield (
            f"still running: {', '.join(map(str, alive))}; they go on "
            f"writing to {folder.parent}, which you may remove when they have ended"
        )
    if any(seen.lost_log for seen in watch.seen.values()):
        pids = ", ".join(str(seen.pid) for seen in watch.seen.values() if seen.lost_log)
        yield (
            f"closed the loader's log: {pids}; what was loaded after that is not known, and the "
            "loader's lines may have gone into a file of the program's own"
        )
    if symbols and not any(log.images for log in watch.logs.values()):
        yield "no bindings: nothing wrote a log"


# --- Watching -------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Seen:
    """One process, while it lives."""

    pid: int
    began: str
    """Its start time: a number may be used again."""
    exe: str | None = None
    cwd: str | None = None
    programs: dict[str, bool] = field(default_factory=dict[str, bool])
    """What it has executed, by /proc/PID/exe, and whether its environment asked for a log."""
    files: dict[tuple[int, int], File] = field(default_factory=dict[tuple[int, int], File])
    since: float = 0
    """When the last of them was first seen."""
    looked: float = 0
    lost_log: bool = False

    def alive(self) -> bool:
        """Whether the process still runs."""
        fields = _stat(self.pid)
        return fields is not None and fields[19] == self.began and fields[0] not in "ZX"


@dataclass(slots=True, kw_only=True)
class _Watch:
    """The logs as they grow, and the processes as they come and go."""

    folder: Path
    symbols: tuple[str, ...]
    logs: dict[int, Log] = field(default_factory=dict[int, Log])
    seen: dict[int, _Seen] = field(default_factory=dict[int, _Seen])
    files: dict[int, File] = field(default_factory=dict[int, File])
    """What a request led to, by `id` of the request."""
    _open: dict[int, int] = field(default_factory=dict[int, int])
    _scanned: float = 0

    def add(self, pid: int) -> bool:
        """Watch one more process."""
        fields = _stat(pid)
        known = self.seen.get(pid)
        if fields is None or (known is not None and known.began == fields[19]):
            return False
        self.seen[pid] = _Seen(pid=pid, began=fields[19])
        return True

    def look(self) -> bool:
        """Read what is new; return whether there was anything."""
        grown = self._read_logs()
        now = time.monotonic()
        if now - self._scanned > _LATER / 2:
            self._scanned = now
            for pid in list(self.seen):
                for child in _children(pid):
                    grown |= self.add(child)
        pause = max(_LATER if grown else 2 * _LATER, 0.01 * len(self.seen))
        for seen in self.seen.values():
            fresh = [
                asked
                for log in self.logs.values()
                for image in log.images
                if image.pid == seen.pid
                for asked in image.mapped
            ]
            if fresh or now - seen.looked > pause:
                seen.looked = now
                self._snapshot(seen, fresh)
        for log in self.logs.values():
            for image in log.images:
                for asked in image.mapped:
                    if id(asked) not in self.files:
                        self._by_path(image, asked)
                image.mapped.clear()
        return grown

    def _read_logs(self) -> bool:
        grown = False
        with os.scandir(self.folder) as entries:
            for entry in entries:
                pid = int(entry.name.rpartition(".")[2])
                if pid not in self.logs:
                    with suppress(OSError):
                        self._open[pid] = os.open(entry.path, os.O_RDWR | os.O_CLOEXEC)
                        self.logs[pid] = Log(pid, self.symbols)
        for pid, log in self.logs.items():
            while data := os.read(self._open[pid], _PIECE):
                grown = True
                log.feed(data)
                if len(data) == _PIECE:
                    _forget(self._open[pid])
        for log in self.logs.values():
            for image in log.images:
                if image.pid not in self.seen:
                    self.add(image.pid)
        return grown

    def _snapshot(self, seen: _Seen, fresh: Sequence[Asked]) -> None:
        """Look into the maps of one process: what is executable, and what the log has told of."""
        here = Path("/proc") / str(seen.pid)
        try:
            lines = (here / "maps").read_bytes().splitlines()
            seen.exe = os.readlink(here / "exe")  # noqa: PTH115 - text, as the kernel says it
            seen.cwd = os.readlink(here / "cwd")  # noqa: PTH115 - as above
        except OSError:
            return
        self._check_environment(seen, here)
        waiting = {asked.address: asked for asked in fresh if asked.address is not None}
        for line in lines:
            fields = line.split(None, 5)
            if len(fields) < 6 or not fields[5].startswith(b"/"):
                continue
            executable = fields[1][2:3] == b"x"
            if not executable and not waiting:
                continue
            file = _mapped(fields)
            if executable:
                seen.files.setdefault(file.id, file)
            low, _, high = fields[0].partition(b"-")
            start, end = int(low, 16), int(high, 16)
            for address in [each for each in waiting if start <= each < end]:
                self._settle(waiting.pop(address), file, seen.cwd)
        self._check_log(seen)

    def _settle(self, asked: Asked, file: File, cwd: str | None) -> None:
        """Take what is mapped as what was asked for, unless another file took its place since."""
        path = _absolute(asked.path or "", cwd)
        found = find_file(path)
        if found is not None and found.id != file.id and not file.deleted:
            same_name = os.path.realpath(path) == file.path  # some file systems have two st_dev
            if not same_name:
                return
        self.files[id(asked)] = file

    def _by_path(self, image: Image, asked: Asked) -> None:
        """Look a file up by its path: the process was gone before its maps could be read."""
        seen = self.seen.get(image.pid)
        path = _absolute(asked.path or "", seen.cwd if seen else None)
        file = find_file(path)
        if file is not None:
            self.files[id(asked)] = file

    def _check_environment(self, seen: _Seen, here: Path) -> None:
        """Find out whether the program was asked for a log.

        Its environment is empty for a moment while the kernel starts it, and when it has ended.
        """
        program, now = seen.exe or "", time.monotonic()
        if program not in seen.programs:
            seen.programs[program], seen.since = True, now
        try:
            variables = (here / "environ").read_bytes()
        except OSError:
            return
        if variables or (now - seen.since > 2 * _LATER and seen.alive()):
            seen.programs[program] = os.fsencode(self.folder) in variables

    def _check_log(self, seen: _Seen) -> None:
        """Notice a process that has closed the descriptor which its loader writes to."""
        if seen.pid in self.logs and not seen.lost_log and seen.alive():
            seen.lost_log = not _holds(Path(f"/proc/{seen.pid}"), self.folder)


def _names(process: Path, folder: Path) -> bool:
    """Whether `folder` stands in the environment that the process began with."""
    try:
        return os.fsencode(folder) in (process / "environ").read_bytes()
    except OSError:
        return False


def _holds(process: Path, folder: Path) -> bool:
    """Whether a file in `folder` is open in the process."""
    try:
        return any(_link(each).startswith(f"{folder}/") for each in (process / "fd").iterdir())
    except OSError:
        return False


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the state on (proc(5))."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()


def _children(pid: int) -> Iterator[int]:
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            yield from map(int, (task / "children").read_text(encoding="ascii").split())
    except OSError:
        return


def _mapped(fields: Sequence[bytes]) -> File:
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


def _absolute(path: str, cwd: str | None) -> str:
    # Paths stay text, as the loader spells them.
    return path if path.startswith("/") else os.path.join(cwd or os.getcwd(), path)  # noqa: PTH109, PTH118


def _forget(descriptor: int) -> None:
    """Give the disk space of what was read back; where that is not possible, it stays used."""
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    fallocate(descriptor, _PUNCH_HOLE | _KEEP_SIZE, 0, end)


# --- What it was ----------------------------------------------------------------------------------


class _Elfs:
    """What files say, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, Elf | None] = {}

    def get(self, path: str) -> Elf | None:
        """Return what the object at `path` says, None if there is none or it is no ELF."""
        if path not in self._known:
            self._known[path] = read_file(path)
        return self._known[path]


def _processes(watch: _Watch) -> Iterator[Process]:
    elfs = _Elfs()
    spoke: dict[int, list[Process]] = {}
    for log in watch.logs.values():
        images = log.finish()
        for image in images:
            seen = watch.seen.get(image.pid)
            executable = _executable(image, images, seen)
            process = _process(image, executable, seen, watch, elfs)
            spoke.setdefault(image.pid, []).append(process)
    order = sorted({*spoke, *watch.seen}, key=lambda pid: _order(watch, pid))
    for pid in order:
        seen = watch.seen.get(pid)
        yield from spoke.get(pid, [])
        if seen is not None:
            yield from _silent(seen)


def _executable(image: Image, images: Sequence[Image], seen: _Seen | None) -> str | None:
    """Return the program's file, if it was seen: a process may execute one after the other."""
    if seen is None or seen.exe is None:
        return None
    own = [each for each in images if each.pid == image.pid]
    if len(own) == len(seen.programs):
        return list(seen.programs)[own.index(image)]
    return seen.exe if image is own[-1] else None


def _order(watch: _Watch, pid: int) -> tuple[int, int]:
    seen = watch.seen.get(pid)
    return int(seen.began) if seen else 1 << 62, pid


def _silent(seen: _Seen) -> Iterator[Process]:
    """Yield the programs that the process has executed, and that could not say a word."""
    for program, asked in seen.programs.items():
        elf = read_file(program)
        if elf is None:
            continue
        if not elf.dynamic or elf.interpreter is None:
            reason = "it is static: no loader runs in it"
        elif _is_musl(elf):
            reason = "musl's loader knows no LD_DEBUG"
        elif not asked:
            reason = "it was started without LD_DEBUG in its environment"
        else:
            continue
        files = tuple(file for file in seen.files.values() if file.path != program)
        yield Process(
            pid=seen.pid, program=program, executable=program, silent=reason, mapped=files
        )


def _is_musl(elf: Elf) -> bool:
    return "musl" in (elf.interpreter or "") or elf.libc == "musl"


def _process(
    image: Image, executable: str | None, seen: _Seen | None, watch: _Watch, elfs: _Elfs
) -> Process:
    loaded: list[Loaded] = []
    missed: list[NotFound] = []
    opened = {asked.path for asked in image.asked if asked.path} | image.known
    program = image.program or executable or "?"
    loaders: dict[str, str | None] = {}
    own = executable or shutil.which(program) or program
    for asked in image.asked:
        if asked.path is not None:
            chain = list(_chain(asked.requester, program, own, loaders))
            loaders.setdefault(asked.path, None if asked.dlopen else asked.requester)
            loaded.append(_loaded(asked, watch.files.get(id(asked)), elfs, chain))
        elif not _is_loaded(asked, opened, loaded):
            missed.append(_missed(asked, elfs))
    return Process(
        pid=image.pid,
        program=program,
        executable=executable,
        forked_from=image.forked_from,
        loaded=tuple(loaded),
        missed=tuple(missed),
        mapped=tuple(seen.files.values()) if seen else (),
        versions=frozenset(image.versions),
        bindings=tuple(image.bindings.items()),
        errors=tuple(image.errors),
        dropped=image.dropped,
    )


def _chain(
    requester: str, program: str, executable: str, loaders: Mapping[str, str | None]
) -> Iterator[str]:
    """Yield the requester, what caused it to be loaded, and so on; the program is the last."""
    each: str | None = requester
    seen = {program}
    while each is not None and each not in seen:
        seen.add(each)
        yield each
        each = loaders.get(each)
    yield executable


def _is_loaded(asked: Asked, opened: set[str], loaded: Sequence[Loaded]) -> bool:
    """Whether the search ended at a file that was loaded already, under another path."""
    last = asked.tried[-1].path if asked.tried else asked.name
    if last in opened:
        return True
    file = find_file(last)
    return file is not None and any(each.file and each.file.id == file.id for each in loaded)


def _loaded(asked: Asked, file: File | None, elfs: _Elfs, chain: Sequence[str]) -> Loaded:
    path = asked.path or asked.name
    elf = elfs.get(file.path if file else path)
    how, owner = _rule(asked, chain, elfs)
    return Loaded(
        name=asked.name,
        requester=asked.requester,
        dlopen=asked.dlopen,
        path=path,
        file=file,
        soname=elf.soname if elf else None,
        how=how,
        owner=owner,
        directory=path.rpartition("/")[0] if asked.searched else None,
        passed=tuple(_passed(asked, elf, elfs)),
        tried=len(asked.tried),
        times=asked.times,
    )


def _rule(asked: Asked, chain: Sequence[str], elfs: _Elfs) -> tuple[How, str | None]:
    """Return the rule that found the file, and whose search path it was.

    `chain` are the files whose DT_RPATH may count: the requester, what caused it to be loaded,
    the program. glibc prints for a directory the tag and the file that brought it first; what
    the objects say themselves tells which list it really was.
    """
    how = asked.how
    owner = asked.tried[-1].owner if asked.tried else None
    requester = elfs.get(chain[0])
    if how not in {How.RPATH, How.RUNPATH} or requester is None:
        return how, owner
    if requester.runpath is not None:
        return How.RUNPATH, asked.requester
    for path in chain:
        elf = elfs.get(path)
        if elf is not None and elf.runpath is None and _leads(elf.rpath, path, asked.path or ""):
            return (How.RPATH if path == chain[0] else How.INHERITED), path
    return How.INHERITED, owner


def _leads(search_path: str | None, owner: str, path: str) -> bool:
    """Whether a directory of `search_path`, or one of its subdirectories, holds `path`."""
    origin = owner.rpartition("/")[0]
    entries = (expand(entry, origin) for entry in (search_path or "").split(":"))
    return any(path.startswith(f"{entry.rstrip('/')}/") for entry in entries if entry)


def _passed(asked: Asked, taken: Elf | None, elfs: _Elfs) -> Iterator[SkippedCandidate]:
    """Yield the candidates that are there, but were not taken."""
    for tried in asked.tried:
        if tried.path == asked.path or not os.path.exists(tried.path):  # noqa: PTH110 - text
            continue
        reason = _reason(elfs.get(tried.path), taken)
        yield SkippedCandidate(path=tried.path, how=tried.how, reason=reason)


def _reason(elf: Elf | None, taken: Elf | None) -> str:
    if elf is None:
        return "not a readable ELF file"
    if taken is None:
        return "not loadable"
    if elf.bits != taken.bits:
        return "wrong ELF class"
    if elf.machine != taken.machine:
        return "wrong machine"
    return "not there when the loader looked, or not readable for the process"


def _missed(asked: Asked, elfs: _Elfs) -> NotFound:
    return NotFound(
        name=asked.name,
        requester=asked.requester,
        dlopen=asked.dlopen,
        tried=tuple(each.path for each in asked.tried),
        passed=tuple(_passed(asked, None, elfs)),
        times=asked.times,
        wheels=known_providers(asked.name),
    )


# --- Names ----------------------------------------------------------------------------------------


def chosen(trace_: Trace, symbols: Sequence[str]) -> Trace:
    """Keep the bindings whose plain or demangled name fits one of the globs `symbols`."""
    names = [b.symbol for p in trace_.processes for b, _ in p.bindings]
    readable = {name: demangle(name) for name in set(names)}

    def fits(binding: Binding) -> bool:
        both = (binding.symbol, readable.get(binding.symbol, binding.symbol))
        return any(fnmatchcase(name, glob) for name in both for glob in symbols)

    kept = tuple(
        replace(
            process,
            bindings=tuple(
                (replace(b, symbol=readable.get(b.symbol, b.symbol)), times)
                for b, times in process.bindings
                if fits(b)
            ),
        )
        for process in trace_.processes
    )
    return replace(trace_, processes=kept)


# --- Whose a file is ------------------------------------------------------------------------------


def _with_distributions(trace_: Trace) -> Trace:
    """Say of each file which installed distribution has it, by the RECORDs around."""
    wanted = {each.file.path for p in trace_.processes for each in p.loaded if each.file}
    around = {parent: None for path in wanted for parent in Path(path).parents}
    sites = [each for each in around if next(each.glob("*.dist-info"), None) is not None]
    owners: dict[str, str] = {}
    for site in dict.fromkeys((*sites, *_sites((), trace_))):
        owners |= distributions(site, wanted - owners.keys())
    if not owners:
        return trace_

    def owned(loaded: Loaded) -> Loaded:
        owner = owners.get(loaded.file.path) if loaded.file else None
        return loaded if owner is None else replace(loaded, distribution=owner)

    processes = (replace(p, loaded=tuple(map(owned, p.loaded))) for p in trace_.processes)
    return replace(trace_, processes=tuple(processes))


# --- Where a wheel is installed -------------------------------------------------------------------


def placed(elfs: Sequence[str], dist_info: str, trace_: Trace) -> dict[str, File]:
    """Find an installed copy of the wheel with `dist_info` near what was traced.

    Returns its objects `elfs` (members of the wheel) with their files, by RECORD.
    """
    for site in _sites(elfs, trace_):
        folder = find_dist_info(site, dist_info)
        if folder is not None:
            return by_record(folder, elfs)
    return {}


def _sites(elfs: Sequence[str], trace_: Trace) -> Iterator[Path]:
    """Yield the folders that may be the site-packages in question."""
    paths = dict.fromkeys(
        path
        for process in trace_.processes
        for each in process.loaded
        for path in (each.path, each.file.path if each.file else each.path)
    )
    for member in elfs:
        yield from (Path(p.removesuffix(member)) for p in paths if p.endswith(f"/{member}"))
    parents = dict.fromkeys(parent for path in paths for parent in Path(path).parents)
    yield from (each for each in parents if each.name in {"site-packages", "dist-packages"})
    for variable in trace_.variables:
        if variable.name == "PYTHONPATH":
            yield from (Path(each) for each in variable.value.split(":") if each)
    for process in trace_.processes:
        program = Path(shutil.which(process.program) or process.program)
        for folder in (program.parent, Path(process.executable or "/").parent):
            for lib in ("lib", "lib64", "local/lib"):
                yield from (folder.parent / lib).glob("*/*-packages")
