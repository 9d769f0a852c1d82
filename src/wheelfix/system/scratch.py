"""Folders and files that vanish with the run that made them; after a SIGKILL, with the next run.

What is in use is locked (flock(2)), and the kernel drops the lock when a process ends, however it
ends. So what bears one of our names and is not locked belongs to nobody any more.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wheelfix.system.tmpdir import tmpdir

PREFIX = "wheelfix-run-"
_TRIES = 50
"""A thread that goes on writing can put something into a folder while it is being removed."""


@contextmanager
def scratch() -> Generator[Path]:
    """Make a private folder in TMPDIR, and remove those of runs that were killed.

    Raises `OSError` where there is no place for one.
    """
    parent = tmpdir()
    sweep(parent, PREFIX)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        with suppress(FileNotFoundError):  # another run was quicker, and has swept it away
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            if hold(descriptor):
                break
            os.close(descriptor)
    try:
        yield folder
    finally:
        _remove(folder)
        os.close(descriptor)


def remove_own() -> None:
    """Remove the folders of this process, whatever its threads do with them: it is about to end."""
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            folder = link.readlink()
            if folder.name.startswith(PREFIX):
                for _ in range(_TRIES):
                    _remove(folder)
                    if not folder.exists():
                        break


def hold(descriptor: int) -> bool:
    """Lock an open file or folder; False if another run has taken it for left over."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody will be able to lock it
        return True
    return os.fstat(descriptor).st_nlink > 0


def sweep(parent: Path, prefix: str, suffix: str = "") -> None:
    """Remove what our killed runs have left in `parent` under names of this kind.

    What cannot be opened, locked or removed stays: it is not ours, or it is in use.
    """
    for path in _named(parent, prefix, suffix):
        with suppress(OSError):
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                if os.fstat(descriptor).st_uid == os.geteuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
            finally:
                os.close(descriptor)


def _named(parent: Path, prefix: str, suffix: str) -> Iterator[Path]:
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.name.endswith(suffix):
                yield parent / entry.name


def _remove(path: Path) -> None:
    if path.is_dir():
        # What a program has left without write permission is no reason to leave the rest.
        for folder, _, _ in os.walk(path):
            with suppress(OSError):
                Path(folder).chmod(0o700)
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
