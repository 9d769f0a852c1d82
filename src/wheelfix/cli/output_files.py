"""Files that options name for output: none of them replaces an input, or a file of another kind."""

import json
import os
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from enum import Enum
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from wheelfix.errors import OutputError
from wheelfix.host.machine_files import open_regular, read_regular
from wheelfix.system.paths import is_there
from wheelfix.system.tempfiles import open_output, write_whole
from wheelfix.system.toml_parsing import parse_toml

_MOST = 1 << 26
"""Bytes of a file that is read whole to know its kind: a larger one is not replaced."""

_TERMINALS = frozenset({4, 5, *range(136, 144)})
"""Major numbers (Linux, Documentation/admin-guide/devices.txt)."""
_TAKES_ALL = frozenset({(1, 3), (1, 5), (1, 7)})
"""/dev/null, /dev/zero and /dev/full (as above)."""


def _json(data: bytes) -> object:
    """Return the value of a text of JSON; None for anything else."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _has(*keys: str) -> Callable[[bytes], bool]:
    """Return what tells an object of JSON with these keys."""

    def is_like(data: bytes) -> bool:
        value = _json(data)
        return isinstance(value, dict) and value.keys() >= {*keys}

    return is_like


def _is_report(data: bytes) -> bool:
    """Return whether it is what a command writes as JSON."""
    keys = ("summary", "explanations", "why_not", "processes")
    return any(_has("version", key)(data) for key in keys)


def _is_list(data: bytes) -> bool:
    return isinstance(_json(data), list)


def _is_records(data: bytes) -> bool:
    return _has("version", "tool")(data.partition(b"\n")[0])


def _is_markup(data: bytes) -> bool:
    return data.lstrip()[:1] == b"<" and b"\0" not in data


def _is_lock(data: bytes) -> bool:
    try:
        return parse_toml(data).keys() <= {"graft"}
    except (ValueError, RecursionError):
        return False


def _is_text(data: bytes) -> bool:
    """Return whether it is text for people: not of a format that programs read."""
    if b"\0" in data or _is_markup(data) or isinstance(_json(data), dict | list):
        return False
    try:
        data.decode("utf-8")
        is_table = bool(parse_toml(data))
    except RecursionError:
        return False
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True
    return not is_table


class Kind(Enum):
    """What a file must be, to be replaced by one of the same kind."""

    TEXT = "a text report", _is_text
    REPORT = "a JSON report of wheelfix", _is_report
    SARIF = "SARIF", _has("runs", "version")
    LIST = "a list of JSON", _is_list
    RECORDS = "JSON Lines of wheelfix", _is_records
    MARKUP = "XML or HTML", _is_markup
    LOCK = "a lock of wheelfix", _is_lock
    BASELINE = "a baseline of wheelfix", _has("version", "findings")


def refuse_other(file: Path, kind: Kind, inputs: Iterable[Path] = ()) -> None:
    """Raise `OutputError` if `file` is one of `inputs`, or of another kind than `kind`.

    Links are followed. An empty file is of every kind; a pipe or a terminal is only written to.
    """
    try:
        status = os.stat(file)  # noqa: PTH116 - beside os.path.samestat
    except OSError:
        return  # a new file, or one whose writing says why it is impossible
    for path in inputs:
        if is_there(path) and os.path.samestat(status, path.stat()):
            raise OutputError(f"`{file}` is what is read: `{path}`", hint="choose another file")
    what, is_like = kind.value
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        is_other = not _only_takes(status)
    elif not stat.S_ISREG(status.st_mode) or not status.st_size:
        is_other = False
    else:
        try:
            if status.st_size > _MOST:
                with open_regular(file) as stream:
                    is_other = kind is not Kind.RECORDS or not _is_records(stream.readline(_MOST))
            else:
                is_other = not is_like(read_regular(file, _MOST))
        except OSError as error:
            raise OutputError(
                f"cannot write `{file}`: {error.strerror}", hint="choose another file"
            ) from error
    if is_other:
        raise OutputError(
            f"`{file}` is there and is not {what}; it was not changed",
            hint="choose another file, or delete that one",
        )


def _only_takes(status: os.stat_result) -> bool:
    """Return whether a device is a terminal, or /dev/null and its like: others act on a text."""
    major, minor = os.major(status.st_rdev), os.minor(status.st_rdev)
    is_device = stat.S_ISCHR(status.st_mode)
    return is_device and (major in _TERMINALS or (major, minor) in _TAKES_ALL)


def write_file(file: Path, text: str, kind: Kind, inputs: Iterable[Path] = ()) -> None:
    """Write a report to `file`, whole or not at all. Raises `OutputError`."""
    refuse_other(file, kind, inputs)
    write_whole(file, f"{text}\n".encode(errors="backslashreplace"))


@contextmanager
def open_file(file: Path, kind: Kind, inputs: Iterable[Path] = ()) -> Generator[TextIO]:
    """Open a file that is written bit by bit. Raises `OutputError`."""
    refuse_other(file, kind, inputs)
    with (
        open_output(file) as binary,
        TextIOWrapper(binary, encoding="utf-8", errors="backslashreplace") as stream,
    ):
        yield stream
