"""Names, counts and sizes in words."""

import re
from collections.abc import Iterable, Sequence, Sized
from glob import escape
from signal import Signals

FEW = 3
"""The number of items of a list that a message names before it counts the rest."""


def join_some(names: Iterable[object], most: int = 5) -> str:
    """List the first `most` different names: "`a`, `b` and 3 more"."""
    different = list(dict.fromkeys(map(str, names)))
    return join_plain((*map(quote, different[: most + 1]), *different[most + 1 :]), most)


def quote(name: object) -> str:
    """Return a name in backticks, without line breaks: a message is read line by line."""
    return f"`{without_breaks(str(name))}`"


def without_breaks(text: str) -> str:
    """Return `text` with an escape sequence for each line break."""
    if text.splitlines() == [text]:
        return text
    return "".join(
        c.encode("unicode_escape").decode("ascii") if c.splitlines() == [""] else c for c in text
    )


def pasteable(pattern: str) -> str:
    """Return a glob with `?` for what a terminal does not show as it is: line breaks, raw bytes."""
    return "".join(c if c.isprintable() else "?" for c in pattern)


def toml_string(text: str) -> str:
    """Return a basic string of TOML 1.0; what is not printable, such as DEL, is escaped."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in f'"{quoted}"')


def toml_pattern(name: str) -> str:
    """Return the glob that matches `name`, as a string of TOML."""
    return toml_string(pasteable(escape(name)))


def join_plain(names: Iterable[str], most: int) -> str:
    """List the first `most` different names: `a, b and 3 more`; one that is left is listed, too."""
    different = list(dict.fromkeys(names))
    most += len(different) == most + 1
    shown, left = ", ".join(different[:most]), len(different) - most
    return f"{shown} and {left:,} more" if left > 0 else shown


def said_once(text: str) -> str:
    """Return `text` with `the same` for each repair that it has said before."""
    for part in dict.fromkeys(re.findall("`wheelfix repair [^`]+`", text)):
        first, *others = text.split(part)
        text = first + part * bool(others) + "the same".join(others)
    return without_breaks(text)


def first_of(items: Sequence[str], most: int, where: str = "") -> list[str]:
    """Return the first `most` items, and one that counts the rest: `and 3 more`, with `where`."""
    left = len(items) - most
    return [*items[:most], *([f"and {left:,} more{where}"] if left > 0 else [])]


def operand(path: object) -> str:
    """Return `path` as a word of a command: one that begins with `-` would be an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def count(number: float, noun: str) -> str:
    """Return `1 file`, `2 files`, `2 libraries`, `0.5 seconds`."""
    if number == 1:
        return f"1 {noun}"
    plural = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {plural}" if isinstance(number, int) else f"{number:g} {plural}"


def so_do_others(things: Sized, noun: str) -> str:
    """Return `; so does 1 other module` if there are two things; empty for one."""
    others = len(things) - 1
    verb = "does" if others == 1 else "do"
    return f"; so {verb} {count(others, f'other {noun}')}" if others else ""


def them(things: Sized) -> str:
    """Return the pronoun for one thing, or for several."""
    return by_number(things, "it", "them")


def are(things: Sized) -> str:
    """Return `is` for one thing, `are` for several."""
    return by_number(things, "is", "are")


def by_number(things: Sized, one: str, several: str) -> str:
    """Return the word for one thing, or for several."""
    return one if len(things) == 1 else several


def killed_by(number: int) -> str:
    """Return how a program ended: `killed by signal 11 (SIGSEGV)`."""
    names = {signal.value: f" ({signal.name})" for signal in Signals}
    return f"killed by signal {number}{names.get(number, '')}"


def overdue(seconds: float) -> str:
    """Return how a program was stopped: `did not end within 5 seconds`."""
    return f"did not end within {count(seconds, 'second')}"


def in_units(size: float) -> str:
    """Spell a number of bytes in decimal units: `1.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
