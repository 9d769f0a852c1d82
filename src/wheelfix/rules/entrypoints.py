"""Whether another distribution may bring rules: a look at files that most environments stop at."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

GROUP = "wheelfix.rules"
"""The group of entry points (packaging.python.org, "Entry points specification")."""


def rules_are_mentioned(folders: Iterable[str]) -> bool:
    """Whether a distribution in one of `folders`, the elements of `sys.path`, may bring rules."""
    return any(map(_mentions_rules, folders))


def _mentions_rules(folder: str) -> bool:
    """Whether a distribution in `folder`, an element of `sys.path`, may bring rules."""
    with suppress(OSError):  # it may be no directory
        for name in os.listdir(folder or "."):  # noqa: PTH208 - a path for each takes ten times as long
            if name.endswith(".dist-info") and _has_group(Path(folder, name, "entry_points.txt")):
                return True
    return False


def _has_group(file: Path) -> bool:
    with suppress(OSError):
        return GROUP.encode() in file.read_bytes()
    return False
