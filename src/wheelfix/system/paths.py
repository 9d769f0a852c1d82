"""Whether there is a file at a foreign path.

The methods of `Path` raise on Python 3.11 for a name that is too long or in a closed folder.
"""

import os
from pathlib import Path


def is_file(path: str | Path) -> bool:
    """Return whether a regular file is there; not known, as of any text, is false."""
    return os.path.isfile(path)  # noqa: PTH113 - see above


def is_folder(path: str | Path) -> bool:
    """Return whether a folder is there, as `is_file` does."""
    return os.path.isdir(path)  # noqa: PTH112 - see above


def is_there(path: str | Path) -> bool:
    """Return whether anything is there, as `is_file` does."""
    return os.path.exists(path)  # noqa: PTH110 - see above
