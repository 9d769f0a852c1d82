"""Start a program: captured, timed, bounded, checked, and named in the error when it fails."""

import contextlib
import os
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Container, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import ToolError
from wheelfix.system.tmpdir import ADVICE

_DYING = 1.0
"""Seconds for which is waited until what was killed is gone."""
_PIPE = 65_536
"""Bytes that are read at once: what a pipe holds (pipe(7))."""
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
    """Start `argv` as `run` does, and return while it runs; `finish` ends it.

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
    timeout: float = 600,
    accepted: Container[int] = (0,),
) -> Completed:
    """Hand `task` to a program that was started, and wait for its end, as `run` does.

    Raises `ToolError` if it fails, prints too much, or does not end in time.
    """
    said = bytearray(), bytearray()
    with process:
        try:
            _attended(process, name, os.fsencode(task), timeout, said)
        except BaseException:
            if process.returncode is None:
                end(process.pid)
            raise
    return completed(argv, process.returncode, said, name=name, accepted=accepted)


Said = Sequence[bytearray]
"""What a program has printed, and what it complained of."""


def completed(
    argv: Sequence[str], code: int, said: Said, *, name: str, accepted: Container[int] = (0,)
) -> Completed:
    """Return what a program has said that ended with `code`. Raises `ToolError` if it failed."""
    stdout, stderr = map(_text, said)
    if code not in accepted:
        raise ToolError(
            f"`{name}` failed: {_ending(code)}{_quote(stdout, stderr)}",
            hint=_advice(stderr) or f"the call was: {_command_line(argv)}",
        )
    return Completed(argv=tuple(argv), stdout=stdout, stderr=stderr)


def late(name: str, timeout: float, said: Said) -> ToolError:
    """Return the error for a program that has to be ended, since its time is up."""
    return ToolError(
        f"`{name}` did not end within {timeout:g} seconds{_quote(*map(_tail, said))}",
        hint="was the machine overloaded? run it again",
    )


def limit(name: str, said: Said) -> None:
    """Raise `ToolError` for a program that has to be ended, since it prints more than `MOST`."""
    if sum(map(len, said)) > MOST:
        raise ToolError(
            f"`{name}` printed more than {MOST >> 20} MiB, and was ended"
            f"{_quote(*map(_tail, said))}",
            hint="run the same program by hand: it is broken, or not what its name says",
        )


def _advice(stderr: str) -> str | None:
    return next((hint for code, hint in ADVICE.items() if os.strerror(code) in stderr), None)


def end(leader: int) -> None:
    """End a program that leads a process group and that nobody has waited for yet.

    With it ends all that it has started, in sessions of their own, too.
    """
    end_tree(leader)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


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


def _attended(
    process: subprocess.Popen[bytes], name: str, task: bytes, timeout: float, said: Said
) -> None:
    """See a program to its end, and put what it prints into `said`. Raises `ToolError`."""
    last = time.monotonic() + timeout
    left = bytearray(task)
    steps = [
        (process.stdout, selectors.EVENT_READ, partial(read, kept=said[0])),
        (process.stderr, selectors.EVENT_READ, partial(read, kept=said[1])),
        (process.stdin, selectors.EVENT_WRITE, partial(_write, left=left)),
    ]
    with selectors.DefaultSelector() as pipes:
        for stream, events, step in steps:
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                pipes.register(stream, events, (step, stream))
        while pipes.get_map() and time.monotonic() < last:
            for key, _ in pipes.select(max(last - time.monotonic(), 0)):
                step, stream = key.data
                if not step(key.fd):
                    pipes.unregister(stream)
                    stream.close()
            limit(name, said)
    try:
        process.wait(max(last - time.monotonic(), 0))
    except subprocess.TimeoutExpired:
        raise late(name, timeout, said) from None


def read(pipe: int, kept: bytearray) -> bool:
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
