"""Files that get their name at the end, in one step or not at all."""

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from wheelfix.errors import OutputError
from wheelfix.system.scratch import hold, sweep

_HIDDEN = ".wheelfix-tmp"
_HINTS = {
    errno.ENOSPC: "make room on that disk, or choose another directory",
    errno.EDQUOT: "make room within your quota, or choose another directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that is not mounted read-only",
    errno.ENOTDIR: "choose a directory: a part of that path is a file",
    errno.EEXIST: "remove the existing file of that name",
    errno.EISDIR: "remove the directory of that name",
    errno.EFBIG: "raise the limit (`ulimit -f`), or choose a file system that has none",
}


class PendingFile:
    """A file that is being written and has no name yet. Leaving its context discards it.

    It is an unnamed file (O_TMPFILE, open(2)) that vanishes with the process, however that ends;
    on file systems without such files, a hidden one.
    """

    def __init__(self, directory: Path, name: str) -> None:
        """Create the empty file in `directory`, which is made if it is missing.

        Raises `OutputError` where that is not possible.
        """
        self.name = name
        """The name to publish the file under."""
        self.descriptor = -1
        self._directory = directory
        self._hidden: Path | None = None
        with output_errors(directory):
            directory.mkdir(parents=True, exist_ok=True)
            sweep(directory, ".", _HIDDEN)
            self.descriptor = _open_unnamed(directory)
            while self.descriptor < 0:
                self._hidden = self._hidden_name()
                flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
                self.descriptor = os.open(self._hidden, flags, 0o666)
                if not hold(self.descriptor):  # another run has swept it away
                    os.close(self.descriptor)
                    self.descriptor = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return os.fstat(self.descriptor).st_size

    @property
    def path(self) -> Path:
        """Where to read the file before it is published, also for other processes of the user."""
        return self._hidden or Path(f"/proc/{os.getpid()}/fd/{self.descriptor}")

    def publish(self, overwrite: bool = True) -> Path:  # noqa: FBT001, FBT002 (one question)
        """Give the file its name in one step, and return its path; an existing file is replaced.

        Raises `OutputError` where that fails, and with `overwrite` off where the name is taken.
        """
        target = self._directory / self.name
        with output_errors(self._directory):
            try:
                self._link(target)
            except FileExistsError:
                if not overwrite:
                    raise
                self._replace(target)
        return target

    def close(self) -> None:
        """Discard the file, or just close it after it was published."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._hidden:
            self._hidden.unlink(missing_ok=True)
            self._hidden = None

    def _link(self, target: Path) -> None:
        if self._hidden:
            os.link(self._hidden, target)
        else:
            # os.link() follows the link in /proc only if a directory descriptor is passed, which
            # is then ignored because the path is absolute: any descriptor will do (linkat(2)).
            os.link(self.path, target, src_dir_fd=self.descriptor, follow_symlinks=True)

    def _replace(self, target: Path) -> None:
        if self._hidden is None:
            hidden = self._hidden_name()
            hold(self.descriptor)
            self._link(hidden)
            self._hidden = hidden
        self._hidden.replace(target)
        self._hidden = None

    def _hidden_name(self) -> Path:
        return self._directory / f".{os.urandom(6).hex()}{_HIDDEN}"


def _open_unnamed(directory: Path) -> int:
    """Open a file without a name in `directory`; -1 where such files are not supported."""
    if not Path("/proc/self/fd").is_dir():
        return -1
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
    except OSError as error:
        # EISDIR is a kernel without O_TMPFILE, EOPNOTSUPP a file system (open(2)).
        if error.errno in {errno.EISDIR, errno.EOPNOTSUPP, errno.EINVAL}:
            return -1
        raise


@contextmanager
def output_errors(directory: Path) -> Generator[None]:
    """Turn an `OSError` into an `OutputError` with `directory` and a hint."""
    try:
        yield
    except OSError as error:
        what = f" (`{error.filename}`)" if error.filename else ""
        raise OutputError(
            f"cannot write into `{directory}`: {error.strerror}{what}",
            hint=_HINTS.get(error.errno or 0, "choose another directory"),
        ) from error
