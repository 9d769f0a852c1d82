"""Entry points of installed distributions (packaging.python.org, "Entry points specification")."""

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wheelfix.errors import WheelfixError
from wheelfix.grouping import flatten
from wheelfix.system import deferred

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def entry_points(group: str) -> "Sequence[EntryPoint]":
    """Return the entry points of `group`.

    The group is sought in the files first: `importlib.metadata` brings `email`, together 8 ms of
    the 160 of a small wheel, and few users have plug-ins. Raises `WheelfixError` where it is found,
    and the file of any distribution is not UTF-8, or has a line that is not an entry point.
    """
    places = list(flatten(_places(folder or ".") for folder in sys.path))
    finders = [finder for finder in sys.meta_path if hasattr(finder, "find_distributions")]
    if len(finders) == 1 and not any(_may_have(place, group) for place in places):
        return ()
    try:
        return tuple(deferred.metadata.entry_points(group=group))
    except (TypeError, ValueError):  # the error does not name the distribution
        for place in places:
            _check_readable(place)
        raise


def _check_readable(info: str) -> None:
    try:
        _ = deferred.metadata.Distribution.at(info).entry_points
    except (TypeError, ValueError) as error:
        reason = error if isinstance(error, ValueError) else "a line of it is not an entry point"
        raise WheelfixError(
            f"`{info}/entry_points.txt` cannot be read: {reason}",
            hint="whoever builds the distribution must correct it: pip refuses it, too",
        ) from None


def _places(folder: str) -> Iterator[str]:
    try:
        names = os.listdir(folder)  # noqa: PTH208 - names, not paths
    except NotADirectoryError:
        yield folder  # an archive
    except OSError:  # it does not exist, or is closed: `importlib.metadata` passes it over, too
        return
    else:
        yield from (f"{folder}/{name}" for name in names if name.lower().endswith("-info"))


def _may_have(place: str, group: str) -> bool:
    if not place.lower().endswith("-info"):
        return True
    try:
        return group in Path(place, "entry_points.txt").read_text("utf-8", "replace")
    except OSError:  # it has none, or a closed file, which `importlib.metadata` reads as none
        return False
