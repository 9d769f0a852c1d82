"""Odd spellings of paths that lead to the same file or directory."""

import os
from pathlib import Path
from random import Random

_NAMES = ["a b", "ünï", os.fsdecode(b"\xff\xfe"), "-x", "$ORIGIN", "{}", "*", "'\""]


def spelled(path: Path, scratch: Path, seed: int) -> str:
    """Return another absolute or relative path to the existing `path`; the same seed, the same.

    Links and directories that it leads through are made in `scratch`.
    """
    dice = Random(seed)  # noqa: S311 - no secrecy
    start = _link_to_a_parent(path, scratch, dice) if dice.random() < 0.5 else path
    text, plain = "", Path("/")
    for part in start.parts[1:]:
        plain /= part
        text += dice.choice(["/", "/", "/", "//", "/./"]) + part
        if not plain.is_symlink() and plain.is_dir() and dice.random() < 0.3:
            text += f"/../{part}"
    if dice.random() < 0.2:  # the parent of the root is the root
        text = "/.." * dice.randint(1, 3) + text
    if dice.random() < 0.3:
        text = os.path.relpath("/", Path.cwd()) + text
    return text + (dice.choice(["", "/", "//", "/."]) if path.is_dir() else "")


def _link_to_a_parent(path: Path, scratch: Path, dice: Random) -> Path:
    """Return the path by way of a new link to one of its parents."""
    parent = dice.choice(list(path.parents)[:-1])
    folder = scratch / dice.choice(_NAMES) / str(dice.randrange(1000))
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / dice.choice(_NAMES)
    if not link.is_symlink():
        target = os.path.relpath(parent, folder) if dice.random() < 0.5 else parent
        link.symlink_to(target)
    elif link.resolve() != parent.resolve():
        return path
    return link / path.relative_to(parent)
