"""The file that a long run writes record by record, and that a later run continues."""

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
class Journal:
    """An open file of records."""

    path: Path
    file: FileIO
    kept: Mapping[str, Record]
    """What an earlier run has left and still holds, by the path of the wheel; without its text."""

    def write(self, record: Record) -> None:
        """Write a record; a process that is killed leaves it whole, torn or out."""
        try:
            _write(self.file, record.text.encode("ascii") + b"\n")
        except OSError as error:
            raise OutputError(
                f"cannot write to `{self.path}`: {error.strerror}",
                hint="mend that, and give the same command with --resume: it goes on from there",
            ) from error


@contextmanager
def begun(path: Path) -> Generator[Journal]:
    """Open an empty journal. Raises `OutputError`."""
    with ExitStack() as stack:
        file = _opened(path, stack)
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.truncate(0)
        yield Journal(path=path, file=file, kept={})


@contextmanager
def continued(path: Path, wanted: Mapping[str, str]) -> Generator[Journal]:
    """Open the journal at `path` with those of its records that still hold, and no others.

    `wanted` is path -> `made_from` for the wheels of this run. Raises `OutputError`, and
    `SettingsError` for a file that is no journal.
    """
    with ExitStack() as stack:
        file = _opened(path, stack)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError(
                f"`{path}` is not a file: there is nothing in it to go on from",
                hint="name the file that the earlier run wrote, or leave --resume out",
            )
        kept: dict[str, Record] = {}
        spans = list(_kept(file, path, wanted, kept))
        end = spans[-1][1] if spans else 0
        if sum(stop - start for start, stop in spans) == end:
            file.truncate(end)  # nothing but the end goes: a torn record, or none
        else:
            file = _rewritten(path, file, spans, stack)
        yield Journal(path=path, file=file, kept=kept)


def _opened(path: Path, stack: ExitStack, descriptor: int | None = None) -> FileIO:
    """Open `path`, or the file of `descriptor`, for as long as `stack` is and for no other run."""
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
    """Yield where the records that still hold begin and end, and put them into `kept`."""
    file.seek(0)
    start, lines = 0, BufferedReader(file)
    for number, line in enumerate(lines, start=1):
        if not line.endswith(b"\n"):
            break
        try:
            found = earlier(line.decode("ascii"))
        except ValueError as error:
            raise SettingsError(
                f"`{path}`, line {number}, is no record of `wheelfix check`: {error}",
                hint="name the file that the earlier run wrote; without --resume it is made anew",
            ) from error
        if found.path not in kept and wanted.get(found.path) == found.made_from:
            kept[found.path] = replace(found.record, text="")
            yield start, start + len(line)
        start += len(line)
    lines.detach()  # it would close the file


def _rewritten(path: Path, old: FileIO, spans: list[tuple[int, int]], stack: ExitStack) -> FileIO:
    """Put a file with the `spans` of `old` in its place, in one step, and open that."""
    with PendingFile(path.parent, path.name) as pending:
        new = _opened(path, stack, os.dup(pending.descriptor))
        for start, stop in spans:
            _write(new, os.pread(old.fileno(), stop - start, start))
        pending.publish()
    return new


def _write(file: FileIO, data: bytes) -> None:
    """Write all of `data`: nothing of it waits in a buffer for a disk that has room again."""
    while data:
        data = data[file.write(data) :]
