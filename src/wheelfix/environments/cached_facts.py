"""What earlier runs have read in an environment, by the identity of files.

There is a file for each environment below the cache's folder; all may be deleted at any time.
"""

import hashlib
import io
import os
import pickle
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import wheelfix
from wheelfix.elf import reader
from wheelfix.elf.exports import SizedDefinition
from wheelfix.elf.model import Definition, Elf, Filtee, Libc, Segment, Undefined, VersionNeed
from wheelfix.errors import OutputError
from wheelfix.host.machine_files import (
    MAX_DATABASE,
    files_below,
    map_regular,
    read_trusted,
    trusted_path,
)
from wheelfix.system.tempfiles import write_whole

_CLASSES = {
    (kind.__module__, kind.__name__): kind
    for kind in [Definition, SizedDefinition, Elf, Filtee, Libc, Segment, Undefined, VersionNeed]
}
"""What the file consists of, beside texts, numbers and tuples."""
_MOST_FILES = 20
"""Environments that are remembered."""
_SETTLED = 2.0
"""Seconds after which a file that is changed again has another time (mtime) on every system."""
_Identity = tuple[int, int, int, int, int]
"""Device, inode, size, mtime and ctime in nanoseconds. Programs set mtime, the kernel ctime."""
Facts = dict[bytes, object]
"""What else is known of a file or a folder, by the question: texts, numbers, tuples, mappings."""
_Entry = tuple[_Identity, Elf, Facts]


class CachedFacts:
    """What is known of the objects and sources of one environment. Mutable."""

    def __init__(self, folder: Path | None, root: str) -> None:
        """Take over what is known of the environment at `root`; without a folder nothing is kept.

        A file that another user could have written is not read.
        """
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = folder / f"{name}.pickle" if folder else None
        self._known: dict[str, _Entry] = {}
        self._used: dict[str, _Entry] = {}
        self._known_folders: dict[str, tuple[bytes, Facts]] = {}
        self._used_folders: dict[str, tuple[bytes, Facts]] = {}
        self._changing: dict[str, Facts] = {}
        self._undefined: dict[Undefined, Undefined] = {}
        """Those of objects that were read now: most objects have the same ones."""
        if self._file is not None:
            with suppress(OSError, *_DAMAGED):
                data = read_trusted(self._file, MAX_DATABASE)
                version, known, folders = _Unpickler(io.BytesIO(data)).load()
                if version == _reader_version():
                    self._known, self._known_folders = known, folders
        self._before = self._extent(self._known, self._known_folders)

    def read(self, path: str) -> Elf:
        """Read the ELF object at `path`, unless it is known; raises `OSError` and `BadElfError`."""
        status = os.stat(path)  # noqa: PTH116 - text
        identity = _identity(status)
        known = self._used.get(path) or self._known.get(path)
        if known is not None and known[0] == identity:
            self._used[path] = known
            return known[1]
        with map_regular(path) as data:
            elf = reader.read_elf(data, path)
        shared = self._undefined.setdefault
        elf = elf._replace(undefined=tuple([shared(symbol, symbol) for symbol in elf.undefined]))
        if _is_settled(status):
            self._used[path] = identity, elf, {}
        return elf

    def facts(self, path: str) -> Facts:
        """Return what else is known of an object; what is added to it is kept.

        Of one that may yet change unnoticed it is kept for this run.
        """
        known = self._used.get(path)
        return self._changing.setdefault(path, {}) if known is None else known[2]

    def facts_of_files(self, folder: str, names: Iterable[str]) -> Facts:
        """Return what is known of some files of a folder together, as `facts` does."""
        statuses = [(name, _status(f"{folder}/{name}")) for name in names]
        text = "".join(f"{name}\0{there and _identity(there)}\0" for name, there in statuses)
        identity = hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()
        known = self._used_folders.get(folder) or self._known_folders.get(folder)
        if known is None or known[0] != identity:
            known = identity, Facts()
        if all(there and _is_settled(there) for _, there in statuses):
            self._used_folders[folder] = known
        return known[1]

    def save(self) -> None:
        """Keep what was read, if it is not what was known; it does not matter if that fails."""
        now = self._extent(self._used, self._used_folders)
        if self._file is None or now == self._before:
            return
        with suppress(OSError, OutputError):
            folder = self._file.parent
            folder.mkdir(parents=True, exist_ok=True)
            trusted_path(folder)
            value = _reader_version(), self._used, self._used_folders
            write_whole(self._file, pickle.dumps(value, protocol=5))
            files = sorted(folder.glob("*.pickle"), key=lambda file: file.stat().st_mtime_ns)
            for file in files[:-_MOST_FILES]:
                file.unlink(missing_ok=True)

    @staticmethod
    def _extent(
        objects: Mapping[str, _Entry], folders: Mapping[str, tuple[bytes, Facts]]
    ) -> tuple[object, ...]:
        """Return what differs after something was read."""
        return (
            {path: (entry[0], frozenset(entry[2])) for path, entry in objects.items()},
            {path: (entry[0], frozenset(entry[1])) for path, entry in folders.items()},
        )


def _status(path: str) -> os.stat_result | None:
    with suppress(OSError):
        return os.stat(path)  # noqa: PTH116 - text
    return None


def _is_settled(status: os.stat_result) -> bool:
    return time.time() - status.st_mtime > _SETTLED


class _Unpickler(pickle.Unpickler):
    """A reader of values of the ELF model, and of nothing else."""

    def find_class(self, module: str, name: str) -> type:
        """Return a class of the model. Raises `UnpicklingError` for any other name."""
        if (module, name) not in _CLASSES:
            raise pickle.UnpicklingError(f"{module}.{name}")
        return _CLASSES[module, name]


_DAMAGED = (
    pickle.UnpicklingError, EOFError, AttributeError, ImportError, IndexError, KeyError,
    MemoryError, TypeError, ValueError,
)  # fmt: skip
"""What a file raises that is damaged or of another version."""


def _identity(status: os.stat_result) -> _Identity:
    times = status.st_mtime_ns, status.st_ctime_ns
    return status.st_dev, status.st_ino, status.st_size, *times


def _reader_version() -> tuple[tuple[str, int, int], ...]:
    """Return the identity of the code that reads: with other code, nothing is known."""
    sources = files_below(Path(wheelfix.__file__).parent, "*.py")
    return tuple((file.name, (s := file.stat()).st_size, s.st_mtime_ns) for file in sources)
