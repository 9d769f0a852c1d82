"""stdout and stderr that handle closed pipes, full disks and non-blocking descriptors.

A result that cannot be written ends the run; a note that cannot be written does not. The streams
replace Python's own, so that this applies to every library that writes to them.
"""

import io
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Protocol

from wheelfix.cli.signals import end_now
from wheelfix.errors import OutputError


def guard_streams() -> None:
    """Replace stdout and stderr.

    Must come first: a descriptor that the caller has closed must not be reused for another file.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # open(2) returns the lowest free descriptor; writing to it fails
            os.open(os.devnull, os.O_RDONLY)
    if sys.stdin is None:  # pyright: ignore[reportUnnecessaryComparison] - if it was closed
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a descriptor
    sys.stdout = _text(_ResultFile(1, "w", closefd=False), sys.stdout)
    sys.stderr = _text(_NoteFile(2, "w", closefd=False), sys.stderr)


def _text(raw: io.FileIO, before: object) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        encoding=before.encoding if isinstance(before, io.TextIOWrapper) else "utf-8",
        errors="backslashreplace",
        line_buffering=raw.isatty(),
    )


class _Buffer(Protocol):
    """A bytes-like object: `collections.abc.Buffer` of Python 3.12 (PEP 688)."""

    def __buffer__(self, flags: int, /) -> memoryview: ...


class _BlockingFile(io.FileIO):
    """A file that waits until it can be written; some CI systems pass non-blocking pipes."""

    def write(self, data: _Buffer, /) -> int:
        while (written := super().write(data)) is None:  # pyright: ignore[reportUnnecessaryComparison]
            select.select([], [self], [])
        return written


class _ResultFile(_BlockingFile):
    """stdout: an error ends the run."""

    def write(self, data: _Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            _discard(self)
            end_now(128 + signal.SIGPIPE)
        except OSError as error:
            _discard(self)
            raise OutputError(
                f"cannot write to stdout: {error.strerror}",
                hint="free disk space, or redirect output elsewhere",
            ) from error


class _NoteFile(_BlockingFile):
    """stderr: errors are ignored."""

    def write(self, data: _Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _discard(stream: io.FileIO) -> None:
    """Redirect the stream to /dev/null: Python flushes it again when it exits."""
    with suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), stream.fileno())
