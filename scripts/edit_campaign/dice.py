"""Random edit sets."""

from __future__ import annotations

import random
from collections.abc import Sequence

from wheelfix.elf.model import Elf
from wheelfix.elf.revision import Revision

_PATHS = (
    "$ORIGIN",
    "",
    "lib",
    "$ORIGIN/../demo.libs",
    "$ORIGIN/../../a/much/longer/path/of.libs:$ORIGIN:/opt/vendor/lib64:" + "$ORIGIN/x" * 12,
    "/opt/" + "very-long/" * 60,
    None,
)
_SAFE = frozenset(
    {"libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1", "libz.so.1"}
)
"""Libraries that may be dropped where nothing is needed from them."""
PREFIXES = ("q-", "lib-with-a-longer-name-than-before-0123abcd-", "")


def aliases(name: str) -> tuple[str, ...]:
    """Return the names under which a library can be found besides its own."""
    prefixed = (prefix + name for prefix in PREFIXES)
    return (*prefixed, f"{name[:-2]}-0f1e2d.so.9", f"q{name[3:]}")


def random_edit(elf: Elf, extra: Sequence[str], dice: random.Random) -> Revision:
    """Return one to five random changes of `elf`; `extra` are libraries that can be added."""
    revision = Revision.of(elf)
    kinds = ("paths", "soname", "renamed", "added", "dropped")
    for kind in dice.choices(kinds, weights=(4, 3, 4, 3, 2), k=dice.randint(1, 5)):
        match kind:
            case "paths":
                revision = _paths(revision, dice)
            case "soname":
                revision = _soname(revision, dice)
            case "renamed":
                revision = _renamed(revision, extra, dice)
            case "added":
                revision = _added(revision, extra, dice)
            case _:
                revision = _dropped(revision, dice)
    return revision


def _paths(revision: Revision, dice: random.Random) -> Revision:
    if dice.random() < 0.8:
        path = dice.choice(_PATHS)
        return revision.set_paths(*((path, None) if dice.random() < 0.5 else (None, path)))
    return revision.set_paths(dice.choice(_PATHS), dice.choice(_PATHS))


def _soname(revision: Revision, dice: random.Random) -> Revision:
    names = ("x.so", "libshort.so.1", "libname-with-a-hash-0123abcd.so.1.2.3", None, "l" * 200)
    return revision.set_soname(dice.choice(names))


def _renamed(revision: Revision, extra: Sequence[str], dice: random.Random) -> Revision:
    needed = revision.after.needed
    found = [n for n in needed if n in extra and needed.count(n) == 1]
    if not found:
        return revision
    old = dice.choice(found)
    new = dice.choice(aliases(old))
    return revision if new in needed else revision.rename_needed(old, new)


def _added(revision: Revision, extra: Sequence[str], dice: random.Random) -> Revision:
    for _ in range(dice.randint(1, 3) if extra else 0):
        name = dice.choice(extra)
        revision = revision.add_needed(dice.choice((name, *aliases(name))))
    return revision


def _dropped(revision: Revision, dice: random.Random) -> Revision:
    elf = revision.after
    used = {symbol.file for symbol in elf.undefined if not symbol.weak}
    if any(symbol.file is None and not symbol.weak for symbol in elf.undefined):
        used.update(elf.needed)
    free = [n for n in elf.needed if n in _SAFE and n not in used and elf.needed.count(n) == 1]
    return revision.drop_needed(dice.choice(free)) if free else revision
