"""Start a program: captured, timed, bounded, checked, and named in the error when it fails."""

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import ToolError
from wheelfix.tmpdir import ADVICE

_DYING = 1.0
"""Seconds for which is waited until what was killed is gone."""
_PIPE = 65_536
"""Bytes that go into a pipe though nobody reads yet (pipe(7)): more might wait for a program that
hangs, and without a limit of time."""
MOST = 32 << 20
"""Bytes that a program may print: some hundred times what one prints that lists every file of the
packages it was asked for. What prints without end would fill our memory until its time is up."""
TAIL = 4000
"""Characters of each stream that an error message quotes."""


class Completed(NamedTuple):
    """What a program that succeeded has said."""

    argv: tuple[str, ...]
    stdout: str
    stderr: str


def run(  # noqa: PLR0913 - the parts of one call
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 600,
    install_hint: str | None = None,
    name: str | None = None,
    accepted: Container[int] = (0,),
) -> Completed:
    """Run `argv` without a shell and without input, for at most `timeout` seconds.

    The program leads a process group of its own, so that what it has started ends with it when
    time is up or the caller is interrupted. `install_hint` is the hint if it is missing, `name`
    what errors call it, and `accepted` are the exit codes that are no failure.

    Raises `ToolError` if it is missing, fails, prints more than `MOST`, or does not end in time.
    """
    program = name or Path(argv[0]).name
    process = start(argv, cwd=cwd, env=env, install_hint=install_hint, name=name)
    return finish(process, argv, name=program, timeout=timeout, accepted=accepted)


def start(
    argv: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    install_hint: str | None = None,
    name: str | None = None,
) -> subprocess.Popen[bytes]:
    """Start `argv` as `run` does, and return while it runs; `finish` or `stop` ends it.

    Raises `ToolError` if it is missing.
    """
    try:
        return subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        program = name or Path(argv[0]).name
        reason = "is not installed" if isinstance(error, FileNotFoundError) else "cannot be run"
        raise ToolError(f"`{program}` {reason}: {error}", hint=install_hint) from error


def finish(  # noqa: PLR0913 - the parts of one call
    process: subprocess.Popen[bytes],
    argv: Sequence[str],
    *,
    name: str,
    task: str = "",
    meanwhile: Callable[[], object] | None = None,
    timeout: float = 600,
    accepted: Container[int] = (0,),
) -> Completed:
    """Hand `task` to a program that was started, and wait for its end, as `run` does.

    `meanwhile` is called while the program works. Raises `ToolError` if it fails, prints too much,
    or does not end in time.
    """
    said = bytearray(), bytearray()
    with process:
        try:
            _attended(process, os.fsencode(task), timeout, meanwhile, said)
        except _EndedError as error:
            _kill(process)
            raise ToolError(
                f"`{name}` {error}{_quote(*map(_tail, said))}", hint=error.hint
            ) from None
        except BaseException:
            _kill(process)
            raise
    stdout, stderr = map(_text, said)
    if process.returncode not in accepted:
        raise ToolError(
            f"`{name}` failed: {_ending(process.returncode)}{_quote(stdout, stderr)}",
            hint=_advice(stderr) or f"the call was: {_command_line(argv)}",
        )
    return Completed(argv=tuple(argv), stdout=stdout, stderr=stderr)


def _advice(stderr: str) -> str | None:
    return next((hint for code, hint in ADVICE.items() if os.strerror(code) in stderr), None)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a program that was started, with all that it has started."""
    with process:
        _kill(process)


def stop_children() -> None:
    """End every program and process that this process has started, with all that they started."""
    ended = [each for pid in _children(os.getpid()) for each in end_tree(pid)]
    end = time.monotonic() + _DYING
    while any(map(_runs, ended)) and time.monotonic() < end:
        time.sleep(0.01)


def end_tree(pid: int) -> list[int]:
    """End a process, and all that it has started, also where that leads a session of its own.

    Return all of them: the kernel may take a moment.
    """
    with contextlib.suppress(OSError):
        os.kill(pid, signal.SIGSTOP)  # so that it starts nothing while its children are looked for
    ended = [each for child in _children(pid) for each in end_tree(child)]
    with contextlib.suppress(OSError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, signal.SIGKILL)
        else:
            os.kill(pid, signal.SIGKILL)
    return [*ended, pid]


def _runs(pid: int) -> bool:
    """Return whether a process is more than an exit code yet to be read (proc_pid_stat(5))."""
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[:1]
    except OSError:
        return False
    return state not in ([b"Z"], [b"X"])


def _children(pid: int) -> list[int]:
    """Return the processes that `pid` has started and that run (proc_pid_children(5))."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found += map(int, (task / "children").read_bytes().split())
    return found


class _EndedError(Exception):
    """A program was ended: why, and what may help."""

    def __init__(self, reason: str, hint: str) -> None:
        super().__init__(reason)
        self.hint = hint


def _attended(
    process: subprocess.Popen[bytes],
    task: bytes,
    timeout: float,
    meanwhile: Callable[[], object] | None,
    said: Sequence[bytearray],
) -> None:
    """See a program to its end, and put what it prints into `said`. Raises `_EndedError`."""
    if meanwhile is not None:
        if len(task) <= _PIPE:
            _hand_over(process, task)
        meanwhile()
    end = time.monotonic() + timeout
    try:
        _exchange(process, task, end, said)
        process.wait(max(end - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise _EndedError(
            f"did not end within {timeout:g} seconds", "was the machine overloaded? run it again"
        ) from None


def _exchange(
    process: subprocess.Popen[bytes], task: bytes, end: float, said: Sequence[bytearray]
) -> None:
    """Write a program's input, unless it has it, and read what it prints until that is closed.

    Raises `_EndedError` where it prints too much, and `TimeoutExpired` at `end`.
    """
    left = bytearray(task)
    steps = [
        (process.stdout, selectors.EVENT_READ, partial(_read, kept=said[0])),
        (process.stderr, selectors.EVENT_READ, partial(_read, kept=said[1])),
        (process.stdin, selectors.EVENT_WRITE, partial(_write, left=left)),
    ]
    with selectors.DefaultSelector() as pipes:
        for stream, events, step in steps:
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                pipes.register(stream, events, (step, stream))
        while pipes.get_map():
            for key, _ in pipes.select(max(end - time.monotonic(), 0)):
                step, stream = key.data
                if not step(key.fd):
                    pipes.unregister(stream)
                    stream.close()
            _limit(process, end, said)


def _limit(process: subprocess.Popen[bytes], end: float, said: Sequence[bytearray]) -> None:
    if sum(map(len, said)) > MOST:
        raise _EndedError(
            f"printed more than {MOST >> 20} MiB, and was ended",
            "run the same program by hand: it is broken, or not what its name says",
        )
    if time.monotonic() >= end:
        raise subprocess.TimeoutExpired(process.args, 0)


def _read(pipe: int, kept: bytearray) -> bool:
    """Read what is in a pipe; return whether it is open."""
    piece = os.read(pipe, _PIPE)
    kept += piece
    return bool(piece)


def _write(pipe: int, left: bytearray) -> bool:
    """Write what fits into a pipe; return whether something is left, and somebody there to read."""
    try:
        del left[: os.write(pipe, left)]
    except BrokenPipeError:  # it ended, or closed its input; its exit code says why
        return False
    return bool(left)


def _hand_over(process: subprocess.Popen[bytes], task: bytes) -> None:
    """Write a program's input, and end it, though nobody waits yet for what it prints."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it ended before; its exit code says why
            process.stdin.write(task)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdin = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it has started, in sessions of their own, too."""
    if process.returncode is None:
        end_tree(process.pid)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _text(data: bytearray) -> str:
    return data.decode("utf-8", "surrogateescape").replace("\r\n", "\n").replace("\r", "\n")


def _tail(data: bytearray) -> str:
    return _text(data[-4 * TAIL :])


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"


def _quote(stdout: str, stderr: str) -> str:
    streams = (("stderr", stderr), ("stdout", stdout))
    return "".join(f"\n{name}:\n{text.rstrip()[-TAIL:]}" for name, text in streams if text.strip())


def _command_line(argv: Sequence[str]) -> str:
    return shlex.join(argv)[:TAIL]
