"""The standard streams: a result that cannot be written ends the run, a word on the side does not.

Whoever writes, through whichever layer, meets the same end: the streams differ from Python's own
only where bytes leave the process.
"""

import io
import os
import select
import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from wheelfix.errors import OutputError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


def guard_streams() -> None:
    """Put streams that tell what happens to their bytes in the place of stdout and stderr.

    Stands at the beginning: a stream that the caller has closed must not become any other file's.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # it is the lowest that is free; writing to it fails (open(2))
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - if it was closed
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = _text(_Findings(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_Notes(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8",
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )


class _Patient(io.FileIO):
    """A file that is waited for; CI systems hand out pipes that do not block."""

    def write(self, data: "ReadableBuffer", /) -> int:
        while (written := super().write(data)) is None:  # pyright: ignore[reportUnnecessaryComparison]
            select.select([], [self], [])
        return written


class _Findings(_Patient):
    """Where results go."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            from wheelfix.cli.signals import end_now

            _discard(self)
            end_now(128 + signal.SIGPIPE)
        except OSError as error:
            _discard(self)
            raise OutputError(
                f"cannot write to stdout: {error.strerror}",
                hint="make room where it leads to, or let it lead elsewhere",
            ) from error


class _Notes(_Patient):
    """Where all else goes: whether anybody hears it changes nothing."""

    def write(self, data: "ReadableBuffer", /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _discard(stream: io.FileIO) -> None:
    """Let what is still to be written go nowhere: Python tries again at its end."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())
