"""What commands read of this machine's own objects, read once in each process.

Those of the interpreter and of the system are most of what a small environment loads.
"""

import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from wheelfix.environments import cached_facts
from wheelfix.host import reachable_files

_MODULE: Any = cached_facts
_FACTS: Any = cached_facts.CachedFacts
_FILES: Any = reachable_files


def keep_machine_objects() -> None:
    """Keep them from now on, by the identity of files, as the cache of an environment does."""
    of_tests = tempfile.gettempdir()
    _keep_facts(of_tests)
    _keep_objects(of_tests)


def _keep_facts(of_tests: str) -> None:
    known: dict[str, Any] = {}
    start, read, save = _FACTS.__init__, _FACTS.read, _FACTS.save

    def start_with_known(self: Any, *arguments: Any) -> None:
        start(self, *arguments)
        self._known = {**known, **self._known}

    def read_and_keep(self: Any, path: str) -> Any:
        elf = read(self, path)
        if path in self._used and not path.startswith(of_tests):
            known[path] = self._used[path]
        return elf

    def save_others(self: Any) -> None:
        used = self._used
        self._used = {path: entry for path, entry in used.items() if path not in known}
        save(self)
        self._used = used

    _FACTS.__init__, _FACTS.read, _FACTS.save = start_with_known, read_and_keep, save_others
    _MODULE._reader_version = cache(_MODULE._reader_version)


def _keep_objects(of_tests: str) -> None:
    known: dict[tuple[object, ...], Any] = {}
    read = _FILES._read_elf_file

    def read_once(path: str | Path) -> Any:
        info = os.stat(path)  # noqa: PTH116 - as the function
        key = str(path), info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns
        if str(path).startswith(of_tests):
            return read(path)
        if key not in known:
            known[key] = read(path)
        return known[key]

    _FILES._read_elf_file = read_once
