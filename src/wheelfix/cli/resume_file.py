"""The file of `wheelfix check --output-format jsonl`, which `--resume` continues."""

import fcntl
import os
import stat
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import BufferedReader, FileIO
from pathlib import Path
from typing import NamedTuple

from wheelfix.errors import OutputError, SettingsError
from wheelfix.reports.resumable_records import Record, parse_record
from wheelfix.system.tempfiles import PendingFile


class ResumeFile(NamedTuple):
    """An open file of records."""

    path: Path
    file: FileIO
    kept: Mapping[str, Record]
    """The valid records of an earlier run by the path of the wheel, without their text."""

    def write(self, record: Record) -> None:
        """Write a record; it may be truncated if the process is killed. Raises `OutputError`."""
        data = record.text.encode("ascii") + b"\n"
        try:
            while data:
                data = data[self.file.write(data) :]
        except OSError as error:
            raise OutputError(
                f"cannot write to `{self.path}`: {error.strerror}",
                hint="fix that, and continue with the same command and --resume",
            ) from error


@contextmanager
def new_file(path: Path) -> Generator[ResumeFile]:
    """Open an empty file of records. Raises `OutputError`."""
    with ExitStack() as stack:
        file = _open(path, stack)
        if _is_regular(file):
            file.truncate(0)
        yield ResumeFile(path=path, file=file, kept={})


@contextmanager
def open_resume_file(path: Path, wanted: Mapping[str, str]) -> Generator[ResumeFile]:
    """Replace the file of records at `path` by one with its valid records, and open that.

    `wanted` is the `made_from` of each wheel of this run, by its path. Raises `OutputError`, and
    `SettingsError` for a file that does not hold records.
    """
    with ExitStack() as stack:
        old = _open(path, stack)
        if not _is_regular(old):
            raise SettingsError(
                f"`{path}` is not a regular file; cannot resume from it",
                hint="name the file that the earlier run wrote, or omit --resume",
            )
        kept: dict[str, Record] = {}
        with PendingFile(path.parent, path.name) as pending:
            new = _open(path, stack, os.dup(pending.descriptor))
            continued = ResumeFile(path=path, file=new, kept=kept)
            for record in _records(old, path):
                if record.path not in kept and wanted.get(record.path) == record.made_from:
                    kept[record.path] = record._replace(text="")
                    continued.write(record)
            pending.publish()
        yield continued


def _open(path: Path, stack: ExitStack, descriptor: int | None = None) -> FileIO:
    """Open and lock `path`, or the file of `descriptor`, until `stack` is closed."""
    try:
        file = stack.enter_context(FileIO(path if descriptor is None else descriptor, "a+"))
        if _is_regular(file):
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


def _is_regular(file: FileIO) -> bool:
    return stat.S_ISREG(os.fstat(file.fileno()).st_mode)


def _records(file: FileIO, path: Path) -> Iterator[Record]:
    """Yield the records of a file, without a truncated last one. Raises `SettingsError`."""
    file.seek(0)
    lines = BufferedReader(file)
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        try:
            yield parse_record(line.decode("ascii").removesuffix("\n"))
        except ValueError as error:
            raise SettingsError(
                f"`{path}`, line {number}, is not a record of `wheelfix check`: {error}",
                hint="name the file that the earlier run wrote; without --resume it is overwritten",
            ) from error
    lines.detach()  # it would close the file
