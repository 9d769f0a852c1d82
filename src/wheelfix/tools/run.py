"""Start a program: captured, timed, checked, and named in the error when it fails."""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import ToolError
from wheelfix.tmpdir import ADVICE

_DYING = 1.0
"""Seconds for which is waited until what was killed is gone."""
_PIPE = 65_536
"""Bytes that go into a pipe though nobody reads yet (pipe(7)): more might wait for a program that
hangs, and without a limit of time."""
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

    Raises `ToolError` if it is missing, fails, or does not end in time.
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
) -> subprocess.Popen[str]:
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
            encoding="utf-8",
            errors="surrogateescape",
            start_new_session=True,
        )
    except OSError as error:
        program = name or Path(argv[0]).name
        reason = "is not installed" if isinstance(error, FileNotFoundError) else "cannot be run"
        raise ToolError(f"`{program}` {reason}: {error}", hint=install_hint) from error


def finish(  # noqa: PLR0913 - the parts of one call
    process: subprocess.Popen[str],
    argv: Sequence[str],
    *,
    name: str,
    task: str = "",
    meanwhile: Callable[[], object] | None = None,
    timeout: float = 600,
    accepted: Container[int] = (0,),
) -> Completed:
    """Hand `task` to a program that was started, and wait for its end, as `run` does.

    `meanwhile` is called while the program works. Raises `ToolError` if it fails, or does not end
    in time.
    """
    with process:
        stdout, stderr = _communicate(process, name, task, timeout, meanwhile)
    if process.returncode not in accepted:
        raise ToolError(
            f"`{name}` failed: {_ending(process.returncode)}{_quote(stdout, stderr)}",
            hint=_advice(stderr) or f"the call was: {_command_line(argv)}",
        )
    return Completed(argv=tuple(argv), stdout=stdout, stderr=stderr)


def _advice(stderr: str) -> str | None:
    return next((hint for code, hint in ADVICE.items() if os.strerror(code) in stderr), None)


def stop(process: subprocess.Popen[str]) -> None:
    """End a program that was started, with all that it has started."""
    _kill_group(process)
    process.communicate()


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


def _communicate(
    process: subprocess.Popen[str],
    program: str,
    task: str,
    timeout: float,
    meanwhile: Callable[[], object] | None,
) -> tuple[str, str]:
    try:
        if meanwhile is None:
            return process.communicate(task, timeout=timeout)
        fits = len(os.fsencode(task)) <= _PIPE
        if fits:
            _hand_over(process, task)
        meanwhile()
        return process.communicate(None if fits else task, timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        stdout, stderr = process.communicate()
        raise ToolError(
            f"`{program}` did not end within {timeout:g} seconds{_quote(stdout, stderr)}",
            hint="was the machine overloaded? run it again",
        ) from None
    except BaseException:
        _kill_group(process)
        raise


def _hand_over(process: subprocess.Popen[str], task: str) -> None:
    """Write a program's input, and end it: `communicate` does so only when it begins to wait."""
    if process.stdin is not None:
        with contextlib.suppress(BrokenPipeError):  # it ended before; its exit code says why
            process.stdin.write(task)
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        process.stdin = None


def _kill_group(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _ending(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"killed by signal {-code}"


def _quote(stdout: str, stderr: str) -> str:
    streams = (("stderr", stderr), ("stdout", stdout))
    return "".join(f"\n{name}:\n{text.rstrip()[-TAIL:]}" for name, text in streams if text.strip())


def _command_line(argv: Sequence[str]) -> str:
    return shlex.join(argv)[:TAIL]
