"""Trace of a command: run under LD_DEBUG, with the files that it loads and the reasons.

LD_DEBUG has the requests and the candidates; /proc/PID/maps has the file, by device and inode at
the address in the log. The command keeps its streams, folder, signals and exit code, and nothing
is injected into its process.
"""

import os
import secrets
import signal
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.host.ld_debug_log import debug_variables
from wheelfix.system.tempfiles import scratch
from wheelfix.trace.reading import read_processes, with_distributions
from wheelfix.trace.values import Trace, variables
from wheelfix.trace.watch import BUSY, IDLE, TraceWatch, writers

_AWAITED = {
    signal.SIGCHLD,
    signal.SIGHUP,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTERM,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
}
"""All but SIGCHLD are passed on to the command."""
_SI_KERNEL = 0x80
"""`si_code` of a signal from the terminal, which the command gets itself: it is in the group."""
_PREFIX = "wheelfix-trace-"
"""How the names of the folders for logs begin."""


def trace(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    symbols: Sequence[str] = (),
) -> Trace:
    """Run `command` in `environ`, and return what it and its children loaded.

    Bindings are recorded of the `symbols`, globs of plain or demangled names. Signals of this
    process are passed on to the command, unless another thread of it takes them.

    Raises `CommandError` if the command cannot be started.
    """
    with _folder() as folder:
        variables_of_child = {
            **environ,
            **debug_variables(folder / "log", with_bindings=bool(symbols)),
        }
        watch = TraceWatch(folder=folder, symbols=tuple(symbols))
        with closing(watch), _blocked_signals() as mask:
            pid = _spawn(command, variables_of_child, mask)
            watch.add(pid)
            code = _attend(pid, watch)
        alive = list(writers(folder))
        processes = tuple(read_processes(watch))
        notes = list(_notes(watch, alive, folder, symbols))
    seen = Trace(
        command=tuple(command),
        exit_code=code if code >= 0 else 128 - code,
        processes=processes,
        variables=variables(environ, processes),
        notes=tuple(notes),
    )
    return with_distributions(seen)


def _spawn(command: Sequence[str], environ: Mapping[str, str], mask: set[signal.Signals]) -> int:
    """Start the command: descriptors stay open, signals are reset."""
    # Python ignores these two; its parent process most likely does not.
    defaults = [signal.SIGPIPE, signal.SIGXFSZ]
    try:
        return os.posix_spawnp(
            command[0], list(command), dict(environ), setsigmask=mask, setsigdef=defaults
        )
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) else 126
        raise CommandError(command[0], error, code) from error


class CommandError(SettingsError):
    """The command cannot be started; `code` is the exit code of a shell, 127 or 126."""

    def __init__(self, name: str, error: OSError, code: int) -> None:
        where = "a path, or a name that a folder of PATH has"
        super().__init__(
            f"`{name}` cannot be run: {error.strerror}",
            hint=f"name a program: {where}" if isinstance(error, FileNotFoundError) else None,
        )
        self.code = code


@contextmanager
def _blocked_signals() -> Generator[set[signal.Signals]]:
    """Block the signals to wait for; yield the signal mask for the command."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    try:
        yield {signal.Signals(number) for number in before if number in signal.valid_signals()}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _attend(pid: int, watch: TraceWatch) -> int:
    """Watch until the command ends; return its exit code, or the negative signal number."""
    quiet = 0
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        quiet = 0 if watch.look() else quiet + 1
        if ended:
            watch.look()
            return os.waitstatus_to_exitcode(status)
        received = signal.sigtimedwait(_AWAITED, BUSY if quiet < 60 else IDLE)
        if received and received.si_signo != signal.SIGCHLD and received.si_code != _SI_KERNEL:
            with suppress(ProcessLookupError):
                os.kill(pid, received.si_signo)


@contextmanager
def _folder() -> Generator[Path]:
    """Make a private folder for the logs.

    The loader writes to stdout if it cannot write there. A command of root may become another
    user, and must reach the folder too: its random name, which cannot be listed, protects it from
    all but the command itself. The folder stays while processes write to it.
    """
    with scratch(_PREFIX, is_unused=lambda folder: not any(writers(folder))) as outer:
        inner = outer / secrets.token_hex(16)
        inner.mkdir(mode=0o700)
        if os.geteuid() == 0:
            outer.chmod(0o711)
            inner.chmod(0o1733)
        yield inner


def _notes(
    watch: TraceWatch, alive: Sequence[int], folder: Path, symbols: Sequence[str]
) -> Iterator[str]:
    if alive:
        yield (
            f"still running: {', '.join(map(str, alive))}; they go on "
            f"writing to {folder.parent}, which you may remove when they have ended"
        )
    if pids := ", ".join(str(seen.pid) for seen in watch.seen.values() if seen.lost_log):
        yield (
            f"closed the loader's log: {pids}; what was loaded after that is not known, and the "
            "loader's lines may have gone into a file of the program's own"
        )
    for name in sorted(watch.refused):
        yield f"ignored {name}: not written by a traced process"
    if symbols and not any(log.programs for log in watch.logs.values()):
        yield "no bindings: nothing wrote a log"
