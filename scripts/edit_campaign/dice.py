"""Random edit sets."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from wheelfix.elf.model import Elf, with_needed_first, with_needed_renamed, without_needed

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


def random_edit(elf: Elf, extra: Sequence[str], dice: random.Random) -> Elf:
    """Return `elf` with one to five random changes; `extra` are libraries that can be added."""
    kinds = ("paths", "soname", "renamed", "added", "dropped")
    for kind in dice.choices(kinds, weights=(4, 3, 4, 3, 2), k=dice.randint(1, 5)):
        match kind:
            case "paths":
                elf = _paths(elf, dice)
            case "soname":
                elf = _soname(elf, dice)
            case "renamed":
                elf = _renamed(elf, extra, dice)
            case "added":
                elf = _added(elf, extra, dice)
            case _:
                elf = _dropped(elf, dice)
    return elf


def _paths(elf: Elf, dice: random.Random) -> Elf:
    if dice.random() < 0.8:
        path = dice.choice(_PATHS)
        if dice.random() < 0.5:
            return replace(elf, rpath=path, runpath=None)
        return replace(elf, rpath=None, runpath=path)
    return replace(elf, rpath=dice.choice(_PATHS), runpath=dice.choice(_PATHS))


def _soname(elf: Elf, dice: random.Random) -> Elf:
    names = ("x.so", "libshort.so.1", "libname-with-a-hash-0123abcd.so.1.2.3", None, "l" * 200)
    return replace(elf, soname=dice.choice(names))


def _renamed(elf: Elf, extra: Sequence[str], dice: random.Random) -> Elf:
    found = [n for n in elf.needed if n in extra and elf.needed.count(n) == 1]
    if not found:
        return elf
    old = dice.choice(found)
    new = dice.choice(aliases(old))
    return elf if new in elf.needed else with_needed_renamed(elf, old, new)


def _added(elf: Elf, extra: Sequence[str], dice: random.Random) -> Elf:
    for _ in range(dice.randint(1, 3) if extra else 0):
        name = dice.choice(extra)
        name = dice.choice((name, *aliases(name)))
        if name not in elf.needed:
            elf = with_needed_first(elf, name)
    return elf


def _dropped(elf: Elf, dice: random.Random) -> Elf:
    used = {symbol.file for symbol in elf.undefined if not symbol.weak}
    if any(symbol.file is None and not symbol.weak for symbol in elf.undefined):
        used.update(elf.needed)
    free = [n for n in elf.needed if n in _SAFE and n not in used and elf.needed.count(n) == 1]
    return without_needed(elf, {dice.choice(free)}) if free else elf
