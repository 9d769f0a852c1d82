"""Programs that run with a time limit and an output limit, and processes that are killed."""

import contextlib
import os
import selectors
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from wheelfix.errors import ToolError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.tempfiles import ADVICE
from wheelfix.text import killed_by, overdue

MOST = 32 << 20
"""Bytes that a program may print: some hundred times the longest list of files of packages."""
TAIL = 4000
"""Characters of each stream that an error message quotes."""
_KILL_SECONDS = 1.0
"""Seconds to wait until killed processes have ended."""
_PIPE_SIZE = 65_536
"""Bytes that a pipe holds (pipe(7))."""


NOT_EXECUTED = (126, 127)
"""What shells and `env` end with if a program cannot be executed, or is not found (POSIX)."""


class Completed(NamedTuple):
    """What a program has printed, and how it ended."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str
    code: int = 0
    """The exit code, or the negative number of a signal."""

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        return f"exit code {self.code}" if self.code >= 0 else killed_by(-self.code)


Run = Callable[..., Completed]
"""`run`, or what runs programs elsewhere with the same arguments."""


def find_program(name: str, folders: Sequence[str] | None = None) -> str | None:
    """Return the path of a program in `folders`, by default those of PATH; None if there is none.

    A relative folder, also an empty entry, leads into the checkout of a stranger: it is left out.
    """
    named = os.get_exec_path() if folders is None else folders
    return shutil.which(name, path=":".join(folder for folder in named if folder.startswith("/")))


def run(  # noqa: PLR0913 - the parts of one call
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 600,
    accepted: Container[int] = (0,),
    install_hint: str | None = None,
) -> Completed:
    """Run `argv` without a shell, with `stdin` as its input, for at most `timeout` seconds.

    The program leads a process group, so that what it has started is killed with it if it takes
    too long or the caller is interrupted. `accepted` are the exit codes that mean success,
    `install_hint` is the hint if the program is missing.

    Raises `ToolError` if it is missing, fails, prints more than `MOST` bytes, or takes too long.
    """
    name = Path(argv[0]).name
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        is_path = os.sep in argv[0]
        is_absent = isinstance(error, FileNotFoundError) and not is_path
        reason = "is not installed" if is_absent else f"cannot be run: {error.strerror}"
        shown = argv[0] if is_path else name
        raise ToolError(f"`{shown}` {reason}", hint=install_hint) from error
    out, err = bytearray(), bytearray()
    with process:
        try:
            _communicate(process, name, os.fsencode(stdin), timeout, out, err)
        except BaseException:
            if process.returncode is None:
                _kill_group(process.pid)
            raise
    done = Completed(tuple(argv), _text(out), _text(err), process.returncode)
    if done.code not in accepted:
        raise ToolError(
            f"`{name}` failed: {done.ending}",
            *_quote(out, err),
            hint=_advice(done.stderr) or f"the call was: {shlex.join(argv)[:TAIL]}",
        )
    return done


def _communicate(  # noqa: PLR0913, PLR0917 - the parts of one call
    process: subprocess.Popen[bytes],
    name: str,
    stdin: bytes,
    timeout: float,
    out: bytearray,
    err: bytearray,
) -> None:
    """Write `stdin` to a program, read what it prints into `out` and `err`, and wait for its end.

    Raises `ToolError` if it prints too much or takes too long. `Popen.communicate` has no limit.
    """
    deadline = time.monotonic() + timeout
    steps = [
        (process.stdout, selectors.EVENT_READ, partial(_read, into=out)),
        (process.stderr, selectors.EVENT_READ, partial(_read, into=err)),
        (process.stdin, selectors.EVENT_WRITE, partial(_write, unwritten=bytearray(stdin))),
    ]
    with selectors.DefaultSelector() as pipes:
        for stream, events, step in steps:
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                pipes.register(stream, events, (step, stream))
        while pipes.get_map() and time.monotonic() < deadline:
            for key, _ in pipes.select(max(deadline - time.monotonic(), 0)):
                step, stream = key.data
                if not step(key.fd):
                    pipes.unregister(stream)
                    stream.close()
            if len(out) + len(err) > MOST:
                raise ToolError(
                    f"`{name}` printed more than {MOST >> 20} MiB, and was ended",
                    *_quote(out, err),
                    hint="run the same program by hand: it is broken, or not what its name says",
                )
    try:
        process.wait(max(deadline - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise ToolError(
            f"`{name}` {overdue(timeout)}",
            *_quote(out, err),
            hint="was the machine overloaded? run it again",
        ) from None


def _read(pipe: int, into: bytearray) -> bool:
    """Read what a pipe holds; return whether it is still open."""
    piece = os.read(pipe, _PIPE_SIZE)
    into += piece
    return bool(piece)


def _write(pipe: int, unwritten: bytearray) -> bool:
    """Write what a pipe can take; return whether there is more to write."""
    try:
        del unwritten[: os.write(pipe, unwritten)]
    except BrokenPipeError:  # it ended, or closed its input; its exit code says why
        return False
    return bool(unwritten)


def _text(output: bytearray) -> str:
    return output.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


def _quote(out: bytearray, err: bytearray) -> Iterator[str]:
    for name, stream in ("stderr", err), ("stdout", out):
        if text := _text(stream[-4 * TAIL :]).rstrip()[-TAIL:]:
            yield f"{name}:"
            yield from text.split("\n")


def _advice(stderr: str) -> str | None:
    return next((hint for code, hint in ADVICE.items() if os.strerror(code) in stderr), None)


def stop_children() -> None:
    """Kill every process that this process has started, and their descendants."""
    killed = list(flatten(map(end_tree, children_of(os.getpid()))))
    deadline = time.monotonic() + _KILL_SECONDS
    while any(map(_runs, killed)) and time.monotonic() < deadline:
        time.sleep(0.01)


def end_tree(pid: int) -> list[int]:
    """Kill a process and its descendants, also those in sessions of their own.

    Return their ids; the kernel may take a moment to end them.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing while its children are looked for
    killed = list(flatten(map(end_tree, children_of(pid))))
    with contextlib.suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    return [*killed, pid]


def _kill_group(leader: int) -> None:
    """Kill a process that leads a group, its descendants, and the rest of the group."""
    end_tree(leader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _runs(pid: int) -> bool:
    """Return whether a process runs, and is not a zombie (proc_pid_stat(5))."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:
        return False
    return state not in ([b"Z"], [b"X"])


def children_of(pid: int) -> list[int]:
    """Return the running children of a process (proc_pid_children(5))."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                children += map(int, (task / "children").read_bytes().split())
    return children
