"""Entry points of installed distributions (packaging.python.org, "Entry points specification")."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfix.system import deferred

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(group: str) -> "Sequence[EntryPoint]":
    """Return the entry points of `group`.

    The group is sought in the files first: `importlib.metadata` takes a twentieth of the time of a
    small wheel, and few users have plug-ins.
    """
    if any(_may_have(folder or ".", group) for folder in sys.path):
        return tuple(deferred.metadata.entry_points(group=group))
    return ()


def _may_have(folder: str, group: str) -> bool:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, not paths
    except NotADirectoryError:
        return True  # an archive
    except OSError:  # there is no such folder
        return False
    infos = (f"{folder}/{name}" for name in names if name.lower().endswith(("-info", ".egg")))
    return any(_names(info, group) for info in infos)


def _names(info: str, group: str) -> bool:
    if info.endswith(".egg"):
        return True
    try:
        return group in Path(info, "entry_points.txt").read_text("utf-8", "replace")
    except OSError:  # it has no entry points
        return False
