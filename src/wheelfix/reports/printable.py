"""Escaped text, colour, errors and findings, for every output.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

import json
from collections.abc import Mapping
from enum import StrEnum

from wheelfix.errors import WheelfixError
from wheelfix.rules.findings import Finding, Severity

FEW = 3
"""The number of items of one kind that a summary shows."""


class Colour(StrEnum):
    """SGR parameters (ECMA-48)."""

    BOLD = "1"
    RED = "1;31"
    GREEN = "1;32"
    YELLOW = "1;33"
    BLUE = "1;34"
    DIM = "2"


def printable(text: str) -> str:
    """Escape control characters, and workflow commands of GitHub's runner.

    The runner reads a line that starts with `::`, and `##[` anywhere, as a command of its own.
    """
    if not text.isprintable():
        text = "".join(
            c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
        )
    text = text.replace("##[", r"#\x23[")
    return text if not text.lstrip().startswith("::") else text.replace("::", r"\x3a:", 1)


def json_text(value: object, *, indent: int | None = 2) -> str:
    """Return JSON in ASCII, for any terminal, without the runner's `##[`."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(value, indent=indent, separators=separators)
    return text.replace("##[", r"#\u0023[")


def paint(text: str, colour: Colour, *, on: bool) -> str:
    """Return `text` in `colour` if `on`."""
    return f"\x1b[{colour}m{text}\x1b[0m" if on and text else text


def error_text(error: WheelfixError, *, colour: bool) -> str:
    """Return the message and the hint of `error`, on lines of their own."""
    first, *more = error.message.splitlines() or [""]
    lines = [paint("error", Colour.RED, on=colour) + f": {printable(first)}"]
    lines += [f"  {printable(line)}" for line in more]
    return "\n".join([*lines, *hint_lines(error.hint, colour=colour)])


def hint_lines(hint: str | None, *, colour: bool) -> list[str]:
    """Return `hint` as lines below a message; none without a hint."""
    if hint is None:
        return []
    first, *more = hint.splitlines() or [""]
    return [
        f"{paint('hint', Colour.BLUE, on=colour)}: {printable(first)}",
        *(f"      {printable(line)}" for line in more),
    ]


def finding_text(
    finding: Finding, wheel: str, *, colour: bool, more: Mapping[str, str] | None = None
) -> str:
    """Return one finding with its place, notes, the labelled lines `more`, and hint."""
    head = f"{finding.severity.label}[{finding.name}]"
    place = f"{wheel}!{finding.member}" if finding.member is not None else wheel
    lines = [
        f"{paint(head, _SEVERITY[finding.severity], on=colour)}: {printable(finding.message)}",
        f"  {paint('-->', Colour.BLUE, on=colour)} {printable(place)}",
        *(f"  = note: {printable(note)}" for note in finding.notes),
        *(f"  = {label}: {printable(text)}" for label, text in (more or {}).items()),
        *hint_lines(finding.hint, colour=colour),
    ]
    return "\n".join(lines)


_SEVERITY = {
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.YELLOW,
    Severity.INFO: Colour.BLUE,
}
