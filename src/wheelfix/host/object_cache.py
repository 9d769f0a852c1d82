"""Objects and symbols that earlier runs have read in an environment, by the identity of files.

There is a file for each environment below the cache's folder; all may be deleted at any time.
"""

import hashlib
import io
import os
import pickle
import time
from contextlib import suppress
from pathlib import Path

from wheelfix.elf import exports, model, reader
from wheelfix.elf.model import Elf, Filtee, Libc, Segment, Undefined, VersionNeed
from wheelfix.errors import OutputError
from wheelfix.host.machine_files import MAX_DATABASE, map_regular, read_trusted, trusted_path
from wheelfix.system.tempfiles import write_whole

_CLASSES = {
    (kind.__module__, kind.__name__): kind
    for kind in (Elf, Filtee, Libc, Segment, Undefined, VersionNeed)
}
"""What the file consists of, beside texts, numbers and tuples."""
_MOST_FILES = 20
"""Environments that are remembered."""
_SETTLED = 2.0
"""Seconds after which a file that is changed again has another time (mtime) on every system."""
_Identity = tuple[int, int, int, int]
"""Device, inode, size, and time of the last change in nanoseconds."""
Symbols = dict[bytes, object]
"""What was looked up in the symbol tables of an object, by the question."""
_Entry = tuple[_Identity, Elf, Symbols]


class ObjectCache:
    """Objects of one environment. Mutable."""

    def __init__(self, folder: Path | None, root: str) -> None:
        """Take over what is known of the environment at `root`; without a folder nothing is kept.

        A file that another user could have written is not read.
        """
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = folder / f"{name}.pickle" if folder else None
        self._known: dict[str, _Entry] = {}
        self._used: dict[str, _Entry] = {}
        if self._file is not None:
            with suppress(OSError, *_DAMAGED):
                version, known = _Unpickler(
                    io.BytesIO(read_trusted(self._file, MAX_DATABASE))
                ).load()
                self._known = known if version == _reader_version() else {}
        self._before = {path: (entry[0], len(entry[2])) for path, entry in self._known.items()}

    def read(self, path: str) -> Elf:
        """Read the ELF object at `path`, unless it is known; raises `OSError` and `BadElfError`."""
        status = os.stat(path)  # noqa: PTH116 - text
        identity = status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
        known = self._known.get(path)
        if known is not None and known[0] == identity:
            self._used[path] = known
            return known[1]
        with map_regular(path) as data:
            elf = reader.read_elf(data, path)
        if time.time() - status.st_mtime > _SETTLED:
            self._used[path] = identity, elf, {}
        return elf

    def symbols(self, path: str) -> Symbols:
        """Return what is known of the symbols of an object; what is added to it is kept."""
        return self._used[path][2] if path in self._used else {}

    def save(self) -> None:
        """Keep what was read, if it is not what was known; it does not matter if that fails."""
        now = {path: (entry[0], len(entry[2])) for path, entry in self._used.items()}
        if self._file is None or now == self._before:
            return
        with suppress(OSError, OutputError):
            folder = self._file.parent
            folder.mkdir(parents=True, exist_ok=True)
            trusted_path(folder)
            write_whole(self._file, pickle.dumps((_reader_version(), self._used), protocol=5))
            files = sorted(folder.glob("*.pickle"), key=lambda file: file.stat().st_mtime_ns)
            for file in files[:-_MOST_FILES]:
                file.unlink(missing_ok=True)


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


def _reader_version() -> tuple[tuple[int, int], ...]:
    """Return the identity of the code that reads: with other code, nothing is known."""
    found = map(os.stat, (model.__file__, reader.__file__, exports.__file__))
    return tuple((status.st_size, status.st_mtime_ns) for status in found)
