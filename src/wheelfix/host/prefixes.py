"""Prefixes: folders with a Python and what is installed for it (venv, conda, the system)."""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path

from wheelfix.host.installed_files import dist_info_folders, site_folders_of
from wheelfix.host.machine_files import MAX_TEXT, read_regular
from wheelfix.system.paths import is_file, is_folder, is_there
from wheelfix.text import FEW, join_some

_MARKS = ("*/pyvenv.cfg", "*/conda-meta", "*/*/pyvenv.cfg", "*/*/conda-meta")


def prefixes_around(folder: Path) -> Iterator[Path]:
    """Yield the folders that may be the prefix of what is in `folder`, the nearest first.

    `prefix/local/lib/python3.11/dist-packages`, of Debian, is the deepest.
    """
    yield folder
    yield from folder.parents[:-1][:5]


def is_venv(prefix: Path) -> bool:
    """Return whether `prefix` is a virtual environment (PEP 405)."""
    return is_file(prefix / "pyvenv.cfg")


def is_conda(prefix: Path) -> bool:
    """Return whether `prefix` is an environment of conda."""
    return is_folder(prefix / "conda-meta")


def environments_in(folder: Path) -> list[Path]:
    """Return the environments in `folder` and its folders; none of one that is itself one."""
    is_one = is_venv(folder) or is_conda(folder) or any(dist_info_folders(folder))
    marks = () if is_one else _MARKS
    prefixes = (mark.parent for pattern in marks for mark in folder.glob(pattern))
    return sorted(p for p in prefixes if is_conda(p) or is_there(p / "bin" / "python"))


def name_environment(folder: Path) -> str:
    """Return the hint to name an environment, or those in `folder`, or that around a program."""
    prefix = folder.parent.parent
    if is_file(folder) and (is_venv(prefix) or any(site_folders_of(prefix))):
        return f"name its environment: `{prefix}`"
    if inside := environments_in(folder):
        return f"name one of its environments: {join_some(inside, FEW)}"
    return "name a virtual environment, a prefix, or a site-packages folder"


def python_around(folder: Path) -> Path | None:
    """Return the Python of the prefix that `folder` is, or is in."""
    pairs = product(prefixes_around(folder), ("python3", "python"))
    programs = (prefix / "bin" / name for prefix, name in pairs)
    return next((program for program in programs if os.access(program, os.X_OK)), None)


def own_modules(standard: Path | None) -> list[str]:
    """Return the paths of the extension modules of an interpreter, by its standard library."""
    return sorted(map(str, standard.glob("lib-dynload/*.so"))) if standard else []


def standard_library(folder: Path) -> Path | None:
    """Return the folder of the standard library of the Python of the prefix around `folder`.

    It is where that Python was installed: of a virtual environment, what `home` in pyvenv.cfg says
    (PEP 405). None if there is none, or if it is not known which one of several.
    """
    program = python_around(folder)
    if program is None:
        return None
    programs = [Path(os.path.realpath(program))]
    with suppress(OSError):
        settings = read_regular(program.parent.parent / "pyvenv.cfg", MAX_TEXT)
        if home := re.search(rb"^home *= *(.+?) *$", settings, re.MULTILINE):
            programs.append(Path(os.fsdecode(home[1]), program.name))
    for python in programs:
        folders: list[Path] = []
        with suppress(OSError):  # this user may not look there
            folders = sorted(python.parent.parent.glob("lib*/python3*/lib-dynload"))
        named = [place for place in folders if place.parent.name == python.name]
        if named or len(folders) == 1:
            return (named or folders)[0].parent
    return None
