"""Whether there is a file at a foreign path.

The methods of `Path` raise on Python 3.11 for a name that is too long or in a closed folder.
"""

import os
from pathlib import Path

_INSIDE = ("*.whl", "*.dist-info", "lib*/*/*-packages/*.dist-info")
"""Wheels, and distributions in a site-packages folder or in an environment."""


def is_file(path: str | Path) -> bool:
    """Return whether a regular file is there; not known, as of any text, is false."""
    return os.path.isfile(path)  # noqa: PTH113 - see above


def is_folder(path: str | Path) -> bool:
    """Return whether a folder is there, as `is_file` does."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def is_there(path: str | Path) -> bool:
    """Return whether anything is there, as `is_file` does."""
    return os.path.exists(path)  # noqa: PTH110 - see above


def is_named_folder(text: str, start: Path = Path()) -> bool:
    """Return whether a text, which may be a requirement, names a folder.

    It may have the name of a distribution, as that of its sources has: then it is named with `./`,
    unless wheels or distributions are in it.
    """
    folder = start / text
    is_name = "/" not in text and text[:1].isalnum()
    is_filled = any(any(folder.glob(pattern)) for pattern in _INSIDE) if is_name else True
    return is_folder(folder) and is_filled
