"""Temporary files and folders, and files that are published in one step.

What a run uses is locked (flock(2)), and the kernel drops the lock when a process ends, even by
SIGKILL. A folder or hidden file that has the kind, owner and full name of ours and is not locked is
left over, and the next run removes it. At its end a process removes the folders that it has made.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from stat import S_IMODE, S_ISDIR, S_ISREG
from typing import BinaryIO, Self

from wheelfix.errors import OutputError
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_file, is_folder, is_there
from wheelfix.system.signal_mask import hold_signals

PREFIX = "wheelfix-run-"
"""How the names of the temporary folders of a run begin."""
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
_RANDOM = lazy_pattern(r"[a-z0-9_]{8}")
"""The end of a name made by `tempfile.mkdtemp`."""
_HIDDEN = lazy_pattern(r"\.[0-9a-f]{12}\.wheelfix-tmp")
"""The names of files that are not published yet."""
_own: set[Path] = set()
"""The folders that this process has made and not removed yet."""
_HINTS = {
    errno.ENOSPC: "make room on that disk, or choose another directory",
    errno.EDQUOT: "make room within your quota, or choose another directory",
    errno.EACCES: "choose a directory that you may write to",
    errno.EPERM: "choose a directory that you may write to",
    errno.EROFS: "choose a directory that is not mounted read-only",
    errno.ENOTDIR: "choose a directory: a part of that path is a file",
    errno.EEXIST: "choose a directory: that is a file",
    errno.EISDIR: "remove the directory of that name",
    errno.ENXIO: "choose another file: no program reads that pipe or socket",
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
    return deferred.tempfile.TemporaryFile(prefix="wheelfix-", dir=tmpdir())


def _is_unused(_: Path) -> bool:
    return True


@contextmanager
def scratch(
    prefix: str = PREFIX,
    is_unused: Callable[[Path], bool] = _is_unused,
    parent: Path | None = None,
) -> Generator[Path]:
    """Make a private folder in `parent` or `tmpdir()`, and remove those of runs that were killed.

    Folders that are not `is_unused`, because other processes still write to them, stay.

    Raises `OSError` if that is not possible.
    """
    parent = parent or tmpdir()
    sweep_folders(parent, prefix, is_unused)
    with hold_signals():
        folder, descriptor = _held_folder(parent, prefix)
        _own.add(folder)
    try:
        yield folder
    finally:
        if is_unused(folder):
            _remove(folder)
        _own.discard(folder)
        os.close(descriptor)


def _held_folder(parent: Path, prefix: str) -> tuple[Path, int]:
    """Make a folder, and lock it before another run sweeps it away."""
    while True:
        folder = Path(deferred.tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if hold(descriptor):
                return folder, descriptor
            os.close(descriptor)


def remove_own() -> None:
    """Remove the folders of this process before it ends, while its threads may still write."""
    for folder in tuple(_own):
        for _ in range(_TRIES):
            _remove(folder)
            if not is_there(folder):
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


def sweep_folders(
    parent: Path, prefix: str, is_unused: Callable[[Path], bool] = _is_unused
) -> None:
    """Remove the folders that killed runs have left in `parent`, as far as they are `is_unused`."""
    for path in parent.glob(f"{prefix}*"):
        if _RANDOM.fullmatch(path.name.removeprefix(prefix)):
            _remove_abandoned(path, S_ISDIR, is_unused)


def _sweep_hidden(directory: Path) -> None:
    """Remove the files that killed runs have not published."""
    for path in directory.glob(".*"):
        if _HIDDEN.fullmatch(path.name):
            _remove_abandoned(path, S_ISREG)


def _remove_abandoned(
    path: Path, is_kind: Callable[[int], bool], is_unused: Callable[[Path], bool] = _is_unused
) -> None:
    """Remove a file or folder of ours that no run has locked.

    What cannot be opened, locked or removed stays: it belongs to another user, or is in use.
    """
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            status = os.fstat(descriptor)
            if status.st_uid == os.geteuid() and is_kind(status.st_mode) and is_unused(path):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(path.lstat(), status):
                    _remove(path)
        finally:
            os.close(descriptor)


def _remove(path: Path) -> None:
    """Remove a file or folder; what cannot be removed stays, for the next run."""
    with suppress(OSError):  # close(2) may fail, too, which rmtree() does not ignore
        if not is_folder(path):
            path.unlink()
            return
        # A program may have left folders without write permission. Root needs none, and must not
        # change modes where another user may put a link in place of a folder.
        if os.geteuid() != 0:
            for folder, _, _ in os.walk(path):
                with suppress(OSError):
                    Path(folder).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)


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
            _sweep_hidden(directory)
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

        Its bytes are on the disk before the name is: a power failure leaves no empty file.

        Raises `OutputError` if that fails.
        """
        target = self._directory / self.name
        with output_errors(self._directory):
            os.fsync(self.descriptor)
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
        return self._directory / f".{os.urandom(6).hex()}.wheelfix-tmp"


def write_whole(file: Path, data: bytes) -> None:
    """Write `file` whole or not at all, if it is a regular file or a new one.

    A file that exists keeps its mode. A link such as /dev/stdout, a pipe or a device is written to
    directly; so is a file in a read-only folder.

    Raises `OutputError`, also for a read-only file.
    """
    folder = file.parent
    # The functions of os.path are false, and raise nothing, where a path cannot be looked at.
    is_regular = is_file(file) and not file.is_symlink()
    may_replace = is_regular and os.access(file, os.W_OK)
    if os.access(folder, os.W_OK) and (may_replace or not os.path.lexists(file)):
        with PendingFile(folder, file.name) as pending:
            with output_errors(folder), os.fdopen(os.dup(pending.descriptor), "wb") as stream:
                if is_regular:
                    os.fchmod(pending.descriptor, S_IMODE(file.stat().st_mode))
                stream.write(data)
            pending.publish()
        return
    with open_output(file) as stream:
        stream.write(data)


@contextmanager
def open_output(file: Path, flags: int = os.O_TRUNC) -> Generator[BufferedWriter]:
    """Open any file for writing; a pipe only where something reads it: else this would wait.

    Raises `OutputError`, also for what the caller cannot write to it.
    """
    try:
        flags |= os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(file, flags, 0o666)
        os.set_blocking(descriptor, True)
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
    except OSError as error:
        raise OutputError(
            f"cannot write `{file}`: {error.strerror}", hint=_HINTS.get(error.errno or 0)
        ) from error


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
        file, folder = str(error.filename or ""), str(directory)
        is_said = file.startswith(folder) or folder.startswith(file)
        what = "" if is_said else f" (`{file}`)"
        raise OutputError(
            f"cannot write into `{directory}`: {error.strerror}{what}",
            hint=_HINTS.get(error.errno or 0, "choose another directory"),
        ) from error
