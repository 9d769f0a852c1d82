"""Refusal of unsafe zip entries: bombs, links, names that leave the folder, overwritten files."""

import os
import re
from collections.abc import Collection, Mapping, Sequence
from stat import S_IFDIR, S_IFLNK, S_IFMT, S_IFREG
from unicodedata import category, normalize

from wheelfix.errors import BadWheelError
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.tempfiles import tmpdir
from wheelfix.text import count
from wheelfix.wheel.model import LIBRARY_KEYS, NAME_MAX, Key
from wheelfix.wheel.zip_headers import Entry, quote

_HIGHEST_RATIO = 100
"""Uncompressed by compressed size: deflate reaches 1032, wheels 2 to 10, few more than 30."""
_HARMLESS_TOTAL = 2**32
"""Bytes; they inflate in seconds, in constant memory."""
_HIGHEST_TOTAL = 2**33
"""Bytes; more are refused if the ratio to the size of the file is too high, as well."""
_DEEPEST, _LONGEST = 100, 4000
"""Depth in folders, and bytes of a path (limits.h: PATH_MAX)."""
_PLAIN = lazy_pattern(r"(?:\w[\w.+-]*/)*\w[\w.+-]*", re.ASCII)
"""Nearly all names of files; such a name needs no further checks."""
_LIST_SIZE = 2**20
_UNSAFE = "do not install it: no build backend writes this; build the wheel again"
_CLASH = "one would overwrite the other when unpacked: rename one where the wheel is built"


def check_entries(entries: Sequence[Entry], file_size: int) -> None:
    """Refuse bombs, links, names that leave the folder, and entries that overwrite each other.

    `file_size` is that of the zip, in bytes. Raises `BadWheelError`.
    """
    _check_total(sum(entry.size for entry in entries), file_size)
    for entry in entries:
        if fault := _fault(entry):
            raise BadWheelError(f"{quote(entry.name)} {fault}", hint=_UNSAFE)
    _check_clashes(entries)


def check_data_folder(names: Collection[str], data_dir: str) -> None:
    """Refuse members of `.data` folders that installers refuse, or install differently.

    pip takes every folder at the top whose name ends in `.data` for that of the wheel, uv only the
    wheel's own: one would install code that the other does not.

    Raises `BadWheelError`.
    """
    for name in names:
        top = name.partition("/")[0]
        if top.endswith(".data") and (top != data_dir or top == name):
            raise BadWheelError(
                f"{quote(name)}: {quote(top)} is not the folder {quote(data_dir)} of this wheel, "
                "but pip installs its files all the same, also over those of the package; uv does "
                "not",
                hint=_UNSAFE,
            )
    moved = [name for name in names if name.startswith(f"{data_dir}/")]
    if not moved:
        return
    files = {normalize("NFC", name): name for name in names}
    for name in moved:
        key, _, rest = name.removeprefix(f"{data_dir}/").partition("/")
        if not rest or key not in set(Key):
            raise BadWheelError(
                f"{quote(name)} is in none of the folders of an installation, {', '.join(Key)}",
                hint=_UNSAFE,
            )
        if key in LIBRARY_KEYS:
            other = files.setdefault(normalize("NFC", rest), name)
            if other != name:
                raise BadWheelError(f"{quote(name)} is installed over {quote(other)}", hint=_CLASH)


def check_metadata_sizes(entries: Mapping[str, Entry], dist_info: str) -> None:
    """Refuse WHEEL, METADATA and RECORD that are too large: they are read into memory as a whole.

    Raises `BadWheelError`.
    """
    names = sum(len(entry.raw_name) + 200 for entry in entries.values())
    most = {"WHEEL": _LIST_SIZE, "METADATA": 4 * _LIST_SIZE, "RECORD": _LIST_SIZE + 2 * names}
    for name, size in most.items():
        entry = entries.get(f"{dist_info}/{name}")
        if entry and entry.size > size:
            raise BadWheelError(
                f"{quote(entry.name)} has {count(entry.size, 'byte')}, more than any build writes",
                hint=_UNSAFE,
            )


def _check_total(total: int, file_size: int) -> None:
    """Refuse bombs: more than the disk of TMPDIR holds, or out of proportion to the file."""
    if total <= _HARMLESS_TOTAL:
        return
    if total > _HIGHEST_TOTAL and total > _HIGHEST_RATIO * file_size:
        raise BadWheelError(
            f"the members inflate to {count(total, 'byte')}, "
            f"{count(total // file_size, 'time')} what the file has: it is a bomb",
            hint=_UNSAFE,
        )
    disk = os.statvfs(tmpdir())
    if total > disk.f_blocks * disk.f_frsize:
        raise BadWheelError(
            f"the members inflate to {count(total, 'byte')}, more than the disk holds", hint=_UNSAFE
        )


def _fault(entry: Entry) -> str | None:
    """Return why an entry must not be unpacked, by its name or its file type alone."""
    kind = S_IFMT(entry.mode)
    if kind in (0, S_IFREG) and len(entry.name) < _DEEPEST and _PLAIN.fullmatch(entry.name):
        return None
    folder = entry.name.endswith("/")
    if kind not in ((0, S_IFDIR, S_IFREG) if folder else (0, S_IFREG)):
        what = "symbolic link" if kind == S_IFLNK else "special file"
        return f"is a {what}, not a file (mode {entry.mode:o})"
    if folder and entry.size:
        return "is a folder with content"
    return _name_fault(entry.name)


def _name_fault(name: str) -> str | None:
    parts = name.removesuffix("/").split("/")
    faults = (
        (_has_invisible(name), "has a control character, or another that has no glyph"),
        ("\\" in name, "has a backslash, which is a separator elsewhere"),
        (name.startswith("/"), "is an absolute name"),
        (name[1:2] == ":", "names a drive"),
        (".." in parts, "leads out of the wheel by `..`"),
        ("." in parts or "" in parts, "is not a plain relative name"),
        (any(len(part.encode()) > NAME_MAX for part in parts), "has a name that is too long"),
        (len(parts) > _DEEPEST, f"is {count(len(parts), 'folder')} deep"),
        (len(name) > _LONGEST and len(name.encode()) > _LONGEST, "has a path that is too long"),
    )
    return next((fault for holds, fault in faults if holds), None)


def _has_invisible(name: str) -> bool:
    """Return whether a name has a character that pip or uv refuses.

    uv refuses the categories "Other" (Unicode, table 4-4); pip splits the lines of RECORD also at
    the line and the paragraph separator.
    """
    return not name.isprintable() and any(
        category(letter).startswith(("C", "Zl", "Zp")) for letter in name
    )


def _check_clashes(entries: Sequence[Entry]) -> None:
    """Refuse members that overwrite each other.

    Names that differ by case alone do not, where Linux wheels are installed. Names that differ by
    the form of Unicode alone look the same.
    """
    files: dict[str, str] = {}
    folders: set[str] = set()
    for entry in entries:
        key = normalize("NFC", entry.name)
        if key.endswith("/"):
            key = key[:-1]
            folders.add(key)
        elif key in files:
            other = files[key]
            how = "is in the wheel twice" if other == entry.name else f"clashes with {quote(other)}"
            raise BadWheelError(f"{quote(entry.name)} {how}", hint=_CLASH)
        else:
            files[key] = entry.name
        parent = key.rpartition("/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    for key in files.keys() & folders:
        raise BadWheelError(f"{quote(files[key])} is a file and a folder as well", hint=_CLASH)
