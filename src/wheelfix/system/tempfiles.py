"""Temporary files and folders, and files that are published in one step.

What a run uses is locked (flock(2)), and the kernel drops the lock when a process ends, even by
SIGKILL. A file or folder with one of our names that is not locked is left over, and the next run
removes it.
"""

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

from wheelfix.errors import OutputError
from wheelfix.system.signal_mask import uninterrupted

PREFIX = "wheelfix-run-"
"""How the names of our temporary folders begin."""
ADVICE = {
    errno.ENOSPC: "make room, or point TMPDIR to a directory on a larger disk",
    errno.EDQUOT: "make room within your quota, or point TMPDIR to another directory",
    errno.EFBIG: "raise the limit (`ulimit -f`), or point TMPDIR to a file system that has none",
}
"""The hint where a temporary file cannot be written, by the error."""
_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_DEFAULTS = ("/tmp", "/var/tmp", "/usr/tmp", ".")  # noqa: S108 (names are made by `tempfile`)
_TRIES = 50
"""Attempts to remove a folder that a thread still writes to."""
_HIDDEN = ".wheelfix-tmp"
"""How the names of files that are not published yet end."""
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
"""The hint where a file cannot be published, by the error."""


def tmpdir() -> Path:
    """Return the folder for temporary files: that of `tempfile.gettempdir` of Python.

    `tempfile` writes a file to find it, which stays after a SIGKILL; this function uses access(2).

    Raises `FileNotFoundError` if there is none.
    """
    named = (os.environ.get(name, "") for name in _VARIABLES)
    for folder in map(Path, (*filter(None, named), *_DEFAULTS)):
        if folder.is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder.absolute()
    raise FileNotFoundError(errno.ENOENT, "no folder for temporary files can be written, TMPDIR")


def unnamed_file() -> BinaryIO:
    """Open a temporary file in `tmpdir()`; closing it removes it.

    Raises `OSError` if that is not possible.
    """
    return tempfile.TemporaryFile(prefix="wheelfix-", dir=tmpdir())


@contextmanager
def scratch() -> Generator[Path]:
    """Make a private folder in `tmpdir()`, and remove those of runs that were killed.

    Raises `OSError` if that is not possible.
    """
    parent = tmpdir()
    sweep(parent, PREFIX)
    with uninterrupted():
        folder, descriptor = _held_folder(parent)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(descriptor)


def _held_folder(parent: Path) -> tuple[Path, int]:
    """Make a folder, and lock it before another run sweeps it away."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if hold(descriptor):
                return folder, descriptor
            os.close(descriptor)


def remove_own() -> None:
    """Remove the folders of this process before it ends, while its threads may still write."""
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            folder = link.readlink()
            if folder.name.startswith(PREFIX):
                for _ in range(_TRIES):
                    _remove(folder)
                    if not folder.exists():
                        break


def hold(descriptor: int) -> bool:
    """Lock an open file or folder; False if another run is sweeping it away, or has done so."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: `sweep` cannot lock it either
        return True
    return os.fstat(descriptor).st_nlink > 0


def sweep(parent: Path, prefix: str, suffix: str = "") -> None:
    """Remove what killed runs have left in `parent` with such names.

    What cannot be opened, locked or removed stays: it belongs to another user, or is in use.
    """
    for path in parent.glob(f"{prefix}*{suffix}"):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
            finally:
                os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        # A program may have left folders without write permission.
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


class PendingFile:
    """A file that gets its name when it is complete. Leaving its context discards it.

    It is a file without a name (O_TMPFILE, open(2)), which ends with the process; on file systems
    without such files, a hidden one.
    """

    def __init__(self, directory: Path, name: str) -> None:
        """Create the empty file in `directory`, which is made if it is missing.

        Raises `OutputError` if that is not possible.
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
        """Path of the file before it is published, also for other processes of the user."""
        return self._hidden or Path(f"/proc/{os.getpid()}/fd/{self.descriptor}")

    def publish(self) -> Path:
        """Give the file its name in one step, and return its path; an existing file is replaced.

        Raises `OutputError` if that fails.
        """
        target = self._directory / self.name
        with output_errors(self._directory):
            if self._hidden is None:
                hidden = self._hidden_name()
                hold(self.descriptor)
                # os.link() follows the link in /proc only if a directory descriptor is passed,
                # which is ignored as the path is absolute: any descriptor will do (linkat(2)).
                os.link(self.path, hidden, src_dir_fd=self.descriptor, follow_symlinks=True)
                self._hidden = hidden
            self._hidden.replace(target)
            self._hidden = None
        return target

    def close(self) -> None:
        """Discard the file, or just close it after it was published."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1
        if self._hidden:
            self._hidden.unlink(missing_ok=True)
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
