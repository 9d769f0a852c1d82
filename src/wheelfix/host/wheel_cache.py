"""The cache of fetched wheels: each by the hash of its bytes, and which of them answer a question.

A file that another user could have changed, or whose bytes have another hash, is not taken. An
answer holds for a day: an index gets new versions.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from wheelfix.errors import SettingsError
from wheelfix.host.machine_files import (
    MAX_LIBRARY,
    MAX_TEXT,
    open_regular,
    read_trusted,
    trusted_file,
    trusted_path,
)
from wheelfix.system.tempfiles import sweep_folders, write_whole

FETCHED = "fetch-"
"""How the names of folders begin in which a run fetches."""
_LIFETIME = 86_400
"""Seconds that an answer holds."""


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return wheelfix's folder below XDG_CACHE_HOME (XDG Base Directory Specification)."""
    base = environ.get("XDG_CACHE_HOME", "")
    home = environ.get("HOME", "")
    if base.startswith("/"):
        return Path(base) / "wheelfix"
    if not home.startswith("/"):
        raise SettingsError("there is no place for a cache", hint="set XDG_CACHE_HOME")
    return Path(home) / ".cache" / "wheelfix"


def make_cache(environ: Mapping[str, str]) -> Path:
    """Return the cache's folder, which is made. Raises `OSError`, `SettingsError`."""
    cache = cache_folder(environ)
    cache.parent.mkdir(parents=True, exist_ok=True)
    for folder in (cache, cache / "wheels", cache / "resolved"):
        trusted_path(folder.parent)  # first, as nothing is made in a folder of another user
        folder.mkdir(mode=0o700, exist_ok=True)
        trusted_path(folder)
    return cache


def sweep_cache(environ: Mapping[str, str]) -> None:
    """Remove what processes that were killed have fetched and not kept."""
    with suppress(OSError, SettingsError):
        sweep_folders(cache_folder(environ), FETCHED)


def find_answer(cache: Path, question: str) -> tuple[Path, ...] | None:
    """Return the wheels that answer a question; None if that is not known, or not any more."""
    with suppress(OSError, ValueError, TypeError, KeyError, RecursionError, OverflowError):
        kept = json.loads(read_trusted(_answer(cache, question), MAX_TEXT))
        if kept["question"] == question and 0 <= time.time() - kept["time"] < _LIFETIME:
            return tuple(_kept(cache, digest, name) for digest, name in kept["wheels"])
    return None


def keep_wheels(cache: Path, wheels: Iterable[Path]) -> tuple[Path, ...]:
    """Move wheels into the cache; return their paths there. Raises `OSError`."""
    kept = [(cache / "wheels" / sha256_of(path), path) for path in wheels]
    for place, path in kept:
        place.mkdir(mode=0o700, exist_ok=True)
        path.replace(place / path.name)
    return tuple(place / path.name for place, path in kept)


def keep_answer(cache: Path, question: str, wheels: Iterable[Path]) -> None:
    """Keep wheels of the cache as the answer to a question. Raises `OSError`, `OutputError`."""
    value = {
        "question": question,
        "time": time.time(),
        "wheels": [(path.parent.name, path.name) for path in wheels],
    }
    answer = _answer(cache, question)
    answer.unlink(missing_ok=True)  # not written through: it may be a link, or a FIFO
    write_whole(answer, json.dumps(value).encode())


def _answer(cache: Path, question: str) -> Path:
    name = hashlib.sha256(os.fsencode(question)).hexdigest()
    return cache / "resolved" / f"{name}.json"


def _kept(cache: Path, digest: str, name: str) -> Path:
    """Return the path of a wheel of the cache; raises `OSError` unless it has its hash."""
    wheels = cache / "wheels"
    path = trusted_file(wheels / digest / name, MAX_LIBRARY, within=wheels)
    if sha256_of(path) != digest:
        raise FileNotFoundError(path)
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of the regular file at `path`, in hexadecimal; `OSError` without one."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
