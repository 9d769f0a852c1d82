"""Names, counts and sizes in words."""

from collections.abc import Iterable


def join_some(names: Iterable[object], most: int = 5) -> str:
    """List the first `most` different names: "`a`, `b` and 3 more"."""
    different = list(dict.fromkeys(names))
    shown = ", ".join(f"`{name}`" for name in different[:most])
    left = len(different) - most
    return f"{shown} and {left:,} more" if left > 0 else shown


def counted(number: int, noun: str) -> str:
    """Return `1 file`, `2 files`, `2 libraries`."""
    if number == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {plural}"


def in_units(size: float) -> str:
    """Spell a number of bytes in decimal units: `1.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
