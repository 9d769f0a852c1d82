"""The file of records that an interrupted run leaves and a later run continues."""

import fcntl
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from io import BufferedReader, FileIO
from pathlib import Path

from wheelfix.cli.check_records import Record, earlier
from wheelfix.errors import OutputError, SettingsError
from wheelfix.system.tempfiles import PendingFile


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeFile:
    """An open file of records."""

    path: Path
    file: FileIO
    kept: Mapping[str, Record]
    """The valid records of an earlier run by the path of the wheel, without their text."""

    def write(self, record: Record) -> None:
        """Write a record. A killed process leaves it complete, truncated or missing."""
        try:
            _write(self.file, record.text.encode("ascii") + b"\n")
        except OSError as error:
            raise OutputError(
                f"cannot write to `{self.path}`: {error.strerror}",
                hint="fix that, and continue with the same command and --resume",
            ) from error


@contextmanager
def new_file(path: Path) -> Generator[ResumeFile]:
    """Open an empty file of records. Raises `OutputError`."""
    with ExitStack() as stack:
        file = _opened(path, stack)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        yield ResumeFile(path=path, file=file, kept={})


@contextmanager
def resumed_file(path: Path, wanted: Mapping[str, str]) -> Generator[ResumeFile]:
    """Open the file of records at `path`, and remove the records that are not valid any more.

    `wanted` is path -> `made_from` for the wheels of this run. Raises `OutputError`, and
    `SettingsError` for a file that does not hold records.
    """
    with ExitStack() as stack:
        file = _opened(path, stack)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError(
                f"`{path}` is not a regular file; cannot resume from it",
                hint="name the file that the earlier run wrote, or omit --resume",
            )
        kept: dict[str, Record] = {}
        spans = list(_kept(file, path, wanted, kept))
        end = spans[-1][1] if spans else 0
        if sum(stop - start for start, stop in spans) == end:
            file.truncate(end)  # only a truncated last record is removed, if any
        else:
            file = _rewritten(path, file, spans, stack)
        yield ResumeFile(path=path, file=file, kept=kept)


def _opened(path: Path, stack: ExitStack, descriptor: int | None = None) -> FileIO:
    """Open and lock `path`, or the file of `descriptor`, until `stack` is closed."""
    try:
        opened = path if descriptor is None else descriptor
        file = stack.enter_context(FileIO(opened, "a+"))
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise OutputError(
            f"another run is writing to `{path}`", hint="wait for it, or choose another file"
        ) from error
    except OSError as error:
        raise OutputError(
            f"cannot write the report `{path}`: {error.strerror}", hint="choose another file"
        ) from error
    return file


def _kept(
    file: FileIO, path: Path, wanted: Mapping[str, str], kept: dict[str, Record]
) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each valid record, and put the records into `kept`."""
    file.seek(0)
    start, lines = 0, BufferedReader(file)
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        try:
            found = earlier(line.decode("ascii"))
        except ValueError as error:
            raise SettingsError(
                f"`{path}`, line {number}, is not a record of `wheelfix check`: {error}",
                hint="name the file that the earlier run wrote; without --resume it is overwritten",
            ) from error
        if found.path not in kept and wanted.get(found.path) == found.made_from:
            kept[found.path] = replace(found.record, text="")
            yield start, start + len(line)
        start += len(line)
    lines.detach()  # it would close the file


def _rewritten(path: Path, old: FileIO, spans: list[tuple[int, int]], stack: ExitStack) -> FileIO:
    """Replace `old` atomically by a file with its `spans`, and open that."""
    with PendingFile(path.parent, path.name) as pending:
        new = _opened(path, stack, os.dup(pending.descriptor))
        for start, stop in spans:
            _write(new, os.pread(old.fileno(), stop - start, start))
        pending.publish()
    return new


def _write(file: FileIO, data: bytes) -> None:
    """Write all of `data`, unbuffered."""
    while data:
        data = data[file.write(data) :]
