"""Run a command under LD_DEBUG, and record which files it loads, and why.

LD_DEBUG has the requests and the candidates; /proc/PID/maps has the file, by device and inode at
the address in the log. The command keeps its streams, folder, signals and exit code, and nothing
is injected into its process.
"""

import os
import secrets
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.host.trace_model import Trace, variables
from wheelfix.host.trace_reading import read_processes, with_distributions
from wheelfix.host.trace_watch import BUSY, IDLE, Watch, writers
from wheelfix.system.tempfiles import tmpdir

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
"""`si_code` of a signal from the terminal, which the command gets itself: it is in the group."""


def trace(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    symbols: Sequence[str] = (),
    forward: bool = True,
) -> Trace:
    """Run `command` in `environ`, and return what it and its children loaded.

    Bindings are recorded of the `symbols`, globs of plain or demangled names. `forward` passes
    the signals of this process on to the command; other threads must not be running then.

    Raises `CommandError` if the command cannot be started.
    """
    with _folder() as folder:
        variables_of_child = {
            **environ,
            "LD_DEBUG": "libs,files,versions" + (",bindings" if symbols else ""),
            "LD_DEBUG_OUTPUT": str(folder / "log"),
        }
        watch = Watch(folder=folder, symbols=tuple(symbols))
        with closing(watch), _signals(forward=forward) as (caught, mask):
            pid = _spawn(command, variables_of_child, mask)
            watch.add(pid)
            code = _attend(pid, watch, caught)
        alive = list(writers(folder))
        processes = tuple(read_processes(watch))
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
    return with_distributions(seen)


# --- The command ----------------------------------------------------------------------------------


def _spawn(command: Sequence[str], environ: Mapping[str, str], mask: set[signal.Signals]) -> int:
    """Start the command as a shell would: descriptors stay open, signals are reset."""
    # Python ignores these two; its parent process most likely does not.
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
    """The command cannot be started; `code` is the exit code of a shell, 127 or 126."""

    def __init__(self, name: str, error: OSError, code: int) -> None:
        super().__init__(
            f"`{name}` cannot be run: {error.strerror}",
            hint="write the command and its arguments after `--`",
        )
        self.code = code


@contextmanager
def _signals(*, forward: bool) -> Generator[tuple[set[signal.Signals], set[signal.Signals]]]:
    """Block the forwarded signals; yield them, and the signal mask for the command."""
    caught = {*_FORWARDED, signal.SIGCHLD} if forward else set[signal.Signals]()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, caught)
    mask = {signal.Signals(number) for number in before if number in signal.valid_signals()}
    try:
        yield caught, mask
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _attend(pid: int, watch: Watch, caught: set[signal.Signals]) -> int:
    """Watch until the command ends; return its exit code, or the negative signal number."""
    quiet = 0
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        quiet = 0 if watch.look() else quiet + 1
        if ended:
            watch.look()
            return os.waitstatus_to_exitcode(status)
        _wait(pid, caught, BUSY if quiet < 60 else IDLE)


def _wait(pid: int, caught: set[signal.Signals], seconds: float) -> None:
    """Wait for some seconds or for a signal, which is passed on to the command."""
    if not caught:
        time.sleep(seconds)
        return
    received = signal.sigtimedwait(caught, seconds)
    if received is None or received.si_signo == signal.SIGCHLD or received.si_code == _SI_KERNEL:
        return
    with suppress(ProcessLookupError):
        os.kill(pid, received.si_signo)


# --- The folder of the logs -----------------------------------------------------------------------


@contextmanager
def _folder() -> Generator[Path]:
    """Make a private folder for the logs.

    The loader writes to stdout if it cannot write there. A command of root may become another
    user, and must reach the folder too: its random name, which cannot be listed, protects it.
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
    """Keep the folder for processes that still write to it."""
    (folder.parent / "left").touch()


def _notes(
    watch: Watch, alive: Sequence[int], folder: Path, symbols: Sequence[str]
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
    if symbols and not any(log.programs for log in watch.logs.values()):
        yield "no bindings: nothing wrote a log"
