"""Where temporary files go."""

import errno
import os
from pathlib import Path
from typing import BinaryIO

_NAMED_BY = ("TMPDIR", "TEMP", "TMP")
ADVICE = {
    errno.ENOSPC: "make room, or point TMPDIR to a directory on a larger disk",
    errno.EDQUOT: "make room within your quota, or point TMPDIR to another directory",
    errno.EFBIG: "raise the limit (`ulimit -f`), or point TMPDIR to a file system that has none",
}
"""What to do where a temporary file cannot be written, by the error."""
_OTHERS = ("/tmp", "/var/tmp", "/usr/tmp", ".")  # noqa: S108 (names are made by `tempfile`)


def tmpdir() -> Path:
    """Return the folder for temporary files, by the order of Python's `tempfile.gettempdir`.

    That one finds it by writing a file, which a SIGKILL leaves behind: this one asks access(2).

    Raises `FileNotFoundError` where there is none.
    """
    named = (os.environ.get(name, "") for name in _NAMED_BY)
    for place in (*filter(None, named), *_OTHERS):
        if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):  # noqa: PTH112 (20 times as fast)
            return Path(place).absolute()
    raise FileNotFoundError(errno.ENOENT, "no folder for temporary files can be written, TMPDIR")


def unnamed_file() -> BinaryIO:
    """Make a file there without a name (O_TMPFILE of open(2)): it is gone when it is closed.

    Raises `OSError` where there is no place for one.
    """
    folder = tmpdir()
    try:
        flags = os.O_TMPFILE | os.O_RDWR | os.O_EXCL | os.O_CLOEXEC
        return os.fdopen(os.open(folder, flags, 0o600), "w+b")
    except OSError:  # not every file system can do it; what is wrong otherwise, the next says
        from tempfile import TemporaryFile  # noqa: PLC0415 - imports much, and is seldom needed

        return TemporaryFile(prefix="wheelfix-", dir=folder)
