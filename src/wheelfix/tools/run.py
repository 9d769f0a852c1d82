"""Start a program: captured, timed, checked, and named in the error when it fails."""

import contextlib
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import ToolError
from wheelfix.tmpdir import ADVICE

_DYING = 1.0
"""Seconds for which is waited until what was killed is gone."""
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
    try:
        process = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="surrogateescape",
            start_new_session=True,
        )
    except OSError as error:
        reason = "is not installed" if isinstance(error, FileNotFoundError) else "cannot be run"
        raise ToolError(f"`{program}` {reason}: {error}", hint=install_hint) from error
    with process:
        stdout, stderr = _communicate(process, program, timeout)
    return completed(argv, process.returncode, stdout, stderr, name=program, accepted=accepted)


def completed(  # noqa: PLR0913 - what there is to say of a program's end
    argv: Sequence[str],
    code: int,
    stdout: str,
    stderr: str,
    *,
    name: str,
    accepted: Container[int] = (0,),
) -> Completed:
    """Return what a program has said that ended with `code`. Raises `ToolError` if it failed."""
    if code not in accepted:
        raise ToolError(
            f"`{name}` failed: {_ending(code)}{_quote(stdout, stderr)}",
            hint=_advice(stderr) or f"the call was: {_command_line(argv)}",
        )
    return Completed(argv=tuple(argv), stdout=stdout, stderr=stderr)


def late(name: str, timeout: float, stdout: str, stderr: str) -> ToolError:
    """Return the error for a program that was given up, with what it had said until then."""
    return ToolError(
        f"`{name}` did not end within {timeout:g} seconds{_quote(stdout, stderr)}",
        hint="was the machine overloaded? run it again",
    )


def _advice(stderr: str) -> str | None:
    return next((hint for code, hint in ADVICE.items() if os.strerror(code) in stderr), None)


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


def _communicate(process: subprocess.Popen[str], program: str, timeout: float) -> tuple[str, str]:
    try:
        return process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill_group(process)
        raise late(program, timeout, *process.communicate()) from None
    except BaseException:
        _kill_group(process)
        raise


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
