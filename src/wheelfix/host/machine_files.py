"""Files of this machine: opened without blocking, and trusted only if no other user can plant them.

What decides about a wheel, or is copied into it, is read by the functions with `trusted` in their
names. Those of them that raise name the first link, folder or file that another user could change.

Trusted users are root, this one, the owner of the current directory (as for the configuration: a
container's root works in the checkout of another user), and that of `/` (the root of a container
that runs without privileges). Where all users may write to the current directory, its file system
may have no permissions, as those of Windows have none in a container: only owners count there.
"""

import errno
import fnmatch
import grp
import os
import pwd
import shlex
from collections.abc import Collection, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from itertools import chain
from mmap import ACCESS_READ, mmap
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG, S_ISVTX, S_IWGRP, S_IWOTH
from typing import Self, cast

from wheelfix.errors import OutputError
from wheelfix.loader.file_system import MAX_LINKS
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.paths import is_folder
from wheelfix.system.tempfiles import tmpdir
from wheelfix.text import count

MAX_SETTINGS = 1 << 20
"""Bytes of a configuration file, or of the description of a target."""
MAX_TEXT = 1 << 24
"""Bytes of a license text or a file of the loader; longer ones are not read."""
MAX_DATABASE = 1 << 28
"""Bytes of a file of a package database."""
MAX_LIBRARY = 1 << 33
"""Bytes of a library; none is that large, but for a sparse file."""
_PIECE = 1 << 18


class Trust(NamedTuple):
    """Whose files may decide about a wheel."""

    users: frozenset[int]
    device: int | None
    """`st_dev` of the file system whose permissions do not count (stat(2)), if there is one."""

    @classmethod
    def of_process(cls) -> Self:
        """Return the trust of this process, which depends on its user and current directory."""
        here = os.lstat(os.curdir)
        users = frozenset({0, os.geteuid(), here.st_uid, os.lstat("/").st_uid})
        is_open = here.st_mode & S_IWOTH and not here.st_mode & S_ISVTX
        return cls(users, here.st_dev if is_open else None)


_OF_THE_KERNEL = ("/dev/", "/proc/", "/sys/")
"""Where folders have no files of a package, and those of other processes without end."""
_MOST_LINKED = 300_000
"""Files and folders that are read behind links: more than packages of an environment have, and
fewer than a machine."""
_SHARED_MEMORY = "/dev/shm/"  # noqa: S108 - read, not written
"""Ordinary files, in memory: a user may keep an environment there."""


class UntrustedFileError(PermissionError):
    """Another user could change a file, or the way to it."""

    def __init__(self, reason: str, path: str, remedy: str, user: int = 0) -> None:
        """`remedy` is a program with options that `user` may run for the path, and root."""
        super().__init__(errno.EACCES, reason, path)
        sudo = "" if os.geteuid() in {0, user} else "sudo "
        self.remedy = f"{sudo}{remedy} {shlex.quote(path)}"
        """A command after which no other user can."""


def open_regular(path: str | Path) -> BufferedReader:
    """Open the regular file at `path` for reading, whichever user owns it.

    Raises `OSError` if that is not possible. A FIFO or a device is not opened: that can block, or
    act on the device.
    """
    return os.fdopen(_descriptor_of(path), "rb")


def _descriptor_of(path: str | Path) -> int:
    with _paths_of_text(path):
        if not S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - the path may be text
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        descriptor = os.open(path, flags)
    if not S_ISREG(os.fstat(descriptor).st_mode):  # replaced since
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return descriptor


def read_regular(path: str | Path, limit: int) -> bytes:
    """Return the bytes of the regular file at `path`, whichever user owns it.

    Raises `OSError`, also for more than `limit` bytes.
    """
    pieces: list[bytes] = []
    left = limit + 1
    descriptor = _descriptor_of(path)  # without a buffer: a thousand small files may be read
    try:
        with suppress(BlockingIOError):  # a file of /proc has nothing to read yet
            while left and (piece := os.read(descriptor, min(left, _PIECE))):
                pieces.append(piece)
                left -= len(piece)
    finally:
        os.close(descriptor)
    if not left:
        raise OSError(errno.EFBIG, f"larger than {count(limit, 'byte')}", os.fspath(path))
    return b"".join(pieces)


def map_regular(path: str | Path) -> memoryview:
    """Map the regular file at `path`, of any owner; an empty one is empty.

    Raises `OSError`, also for more than `MAX_LIBRARY` bytes.
    """
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > MAX_LIBRARY:
            raise OSError(errno.EFBIG, f"larger than {count(MAX_LIBRARY, 'byte')}", os.fspath(path))
        return memoryview(mmap(file.fileno(), size, access=ACCESS_READ) if size else b"")


def has_string(path: str, text: str) -> bool:
    """Return whether the file at `path` has a text between null bytes; False if it is not read."""
    try:
        with map_regular(path) as data:
            return cast("bytes", data.obj).find(b"\0%b\0" % os.fsencode(text)) >= 0
    except OSError:
        return False


def read_trusted(path: str | Path, limit: int) -> bytes:
    """Return the bytes of a regular file at a `trusted_path`.

    Raises `OSError`, also for more than `limit` bytes.
    """
    return read_regular(trusted_path(path), limit)


class LinksOut:
    """Which links below some folders lead to another one to read. Mutable.

    As those of packages do in profiles of Nix and in Bazel. They lead out of the folders, to files
    that only trusted users can change; each folder is read once, and all together have a limit.
    """

    def __init__(self, *tops: str) -> None:
        """Begin with the folders `tops`."""
        self.left = _MOST_LINKED
        """How many files and folders behind links may yet be read."""
        self._roots = tuple(os.path.join(os.path.realpath(top), "") for top in tops)  # noqa: PTH118 - text
        self._seen: set[str] = set()

    def follow(self, path: str) -> bool:
        """Return whether to read what the link at `path` leads to."""
        real = os.path.join(os.path.realpath(path), "")  # noqa: PTH118 - text; of `/` it is `/`
        is_kernel = real.startswith(_OF_THE_KERNEL) and not real.startswith(_SHARED_MEMORY)
        is_inside = is_kernel or real.startswith(self._roots)
        is_around = any(root.startswith(real) for root in self._roots)
        if is_inside or is_around or real in self._seen:
            return False
        self._seen.add(real)
        with suppress(OSError):
            return trusted_path(real).is_dir()
        return False


def folders_below(
    top: str | Path, links: LinksOut | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Yield the folder `top` and those below it, each with the names of what is no folder in it.

    Only `links` are followed; what cannot be read, and the kernel's folders, are left out. Folders
    may lie in each other more deeply than Python 3.11 calls functions, as `os.walk` and
    `Path.rglob` do.
    """
    waiting = [(os.fspath(top), False)]
    while waiting:
        (folder, is_linked), names = waiting.pop(), list[str]()
        if links and is_linked and links.left < 0:
            continue
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                is_followed = links is not None and entry.is_symlink() and links.follow(entry.path)
                if f"{entry.path}/" in _OF_THE_KERNEL:
                    continue
                if is_followed or entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, is_followed or is_linked))
                else:
                    names.append(entry.name)
        if links and is_linked:
            links.left -= 1 + len(names)
        yield folder, names


def closed_folders(tops: Iterable[str | Path], links: LinksOut | None = None) -> list[str]:
    """Return the folders, of `tops` and those below, in which this user may not look, sorted.

    Only `links` are followed.
    """
    real = dict.fromkeys(os.path.realpath(top) for top in tops)
    return sorted(
        folder
        for folder, _ in chain.from_iterable(folders_below(top, links) for top in real)
        if is_folder(folder) and not os.access(folder, os.R_OK | os.X_OK, effective_ids=True)
    )


def files_below(top: Path, pattern: str) -> list[Path]:
    """Return the files below `top` whose names match a glob, sorted, as `Path.rglob` would."""
    return sorted(
        Path(folder, name)
        for folder, names in folders_below(top)
        for name in fnmatch.filter(names, pattern)
    )


def trusted_files(top: Path, limit: int) -> Iterator[tuple[str, Path]]:
    """Yield the trusted regular files below `top`: names relative to it, and canonical paths.

    They are sorted. Links that lead out of the folder, and files of more than `limit` bytes, are
    left out; so is all if the folder itself is not trusted.
    """
    with suppress(OSError):
        top = trusted_path(top)
        paths = (Path(folder, name) for folder, names in folders_below(top) for name in names)
        for path in sorted(paths):
            with suppress(OSError):
                yield path.relative_to(top).as_posix(), trusted_file(path, limit, within=top)


def trusted_file(
    path: Path, limit: int, *, within: Path = Path("/"), trust: Trust | None = None
) -> Path:
    """Return the `trusted_path` of a regular file, which is below the folder `within`.

    Raises `OSError`, also for more than `limit` bytes.
    """
    real = trusted_path(path, trust)
    status = real.stat()
    if not S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    if not real.is_relative_to(os.path.realpath(within)):
        raise OSError(errno.EXDEV, f"leads out of `{within}`", str(path))
    if status.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {count(limit, 'byte')}", str(path))
    return real


def trusted_path(path: str | Path, trust: Trust | None = None) -> Path:
    """Return the canonical path of a file or folder that only trusted users can replace or write.

    They own each folder on the way, each link and the file itself, and no other user may write
    there; in a sticky folder like /tmp, others have no power over what a trusted user owns. `path`
    is absolute; without `trust`, it is that of this process.

    Raises `OSError`; `UntrustedFileError` for what another user could change.
    """
    trust = trust or Trust.of_process()
    with _paths_of_text(path):
        if not Path(path).is_absolute():
            raise ValueError(path)
        waiting = [*reversed(Path(path).parts)]
        place, links = "/", 0  # text: a Path for each folder of thousands of files takes longer
        while waiting:
            name = waiting.pop()
            if name == "..":
                place = place.rpartition("/")[0] or "/"
                continue
            entry = "/" if name == "/" else f"{place.rstrip('/')}/{name}"
            status = os.lstat(entry)
            _require_trust(entry, status, trust)
            if not S_ISLNK(status.st_mode):
                place = entry
                continue
            links += 1
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            waiting += reversed(Path(entry).readlink().parts)
    return Path(place)


def refuse_tmpdir_of_others() -> None:
    """Raise `OutputError` if another user could replace what lies in the folder of temporary files.

    What a repair copies and a verification executes lies there.
    """
    try:
        trusted_path(tmpdir())
    except UntrustedFileError as error:
        raise OutputError(
            f"the folder of temporary files: `{error.filename}` {error.strerror}",
            hint=f"set TMPDIR to a folder in which only you can write, or: {error.remedy}",
        ) from error


def is_trusted(path: str | Path) -> bool:
    """Return whether there is a `trusted_path`."""
    try:
        trusted_path(path)
    except OSError:
        return False
    return True


def _require_trust(path: str, status: os.stat_result, trust: Trust) -> None:
    """Raise `UntrustedFileError` if a user who is not trusted could change the entry."""
    if status.st_uid not in trust.users:
        reason = f"belongs to {_account(status.st_uid)}"
        raise UntrustedFileError(reason, path, "chown -h root")
    mode = status.st_mode
    if S_ISLNK(mode) or (S_ISDIR(mode) and mode & S_ISVTX) or status.st_dev == trust.device:
        return
    if mode & S_IWOTH or (mode & S_IWGRP and not _has_only(status.st_gid, trust.users)):
        reason = "can be changed by other users"
        raise UntrustedFileError(reason, path, "chmod go-w", status.st_uid)


def _account(user: int) -> str:
    try:
        return f"user `{pwd.getpwuid(user).pw_name}`"
    except KeyError:
        return f"user {user}"


def _has_only(group: int, users: Collection[int]) -> bool:
    """Return whether the members of `group` are `users`: many have a group of their own."""
    accounts = pwd.getpwall()
    members = {account.pw_name for account in accounts if account.pw_gid == group}
    with suppress(KeyError):
        members.update(grp.getgrgid(group).gr_mem)
    return group == 0 or members <= {a.pw_name for a in accounts if a.pw_uid in users}


@contextmanager
def _paths_of_text(path: str | Path) -> Generator[None]:
    """Raise `FileNotFoundError` for a text that is not a path, as one with NUL."""
    try:
        yield
    except ValueError as error:
        text = os.strerror(errno.ENOENT)
        raise FileNotFoundError(errno.ENOENT, text, os.fspath(path)) from error
