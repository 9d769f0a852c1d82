"""Differences between a wheel before and after, in the style of `diff -u`."""

from collections.abc import Iterator, Mapping
from difflib import unified_diff

from wheelfix.elf.model import Elf
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.reports.printable import Colour, paint, printable
from wheelfix.wheel.edits import MoveMember
from wheelfix.wheel.model import Wheel


def diff(outcome: Outcome, *, colour: bool) -> str:
    """Return the members and the dynamic entries that differ before and after.

    Sizes are those before the edits if nothing was written.
    """
    if outcome.before is None or outcome.after is None:
        return ""
    lines = _lines(outcome, outcome.before, outcome.after)
    return "\n".join(_painted(printable(line), colour=colour) for line in lines)


def _lines(outcome: Outcome, before: Wheel, after: Wheel) -> Iterator[str]:
    yield from (f"--- {before.name}", f"+++ {after.name}")
    moved = {e.edit.member: e.edit.new for e in outcome.edits if isinstance(e.edit, MoveMember)}
    edited = {edit.member for edit in outcome.edits}
    yield from _listing(before, after, moved, edited)
    came_from = {new: old for old, new in moved.items()}
    for name, new in after.elfs.items():
        old_name = came_from.get(name, name)
        old = before.elfs.get(old_name)
        if old != new:
            yield from _changes(old_name if old else None, old, name, new)


def _listing(
    before: Wheel, after: Wheel, moved: Mapping[str, str], edited: set[str]
) -> Iterator[str]:
    """Yield the members that were added, removed, moved or changed."""
    old = {member.name: member.size for member in before.members}
    new = {member.name: member.size for member in after.members}
    for name, size in old.items():
        if name in moved:
            yield f"-{name}  {size:,} bytes"
            yield f"+{moved[name]}  {new.get(moved[name], size):,} bytes, moved"
        elif name not in new:
            yield f"-{name}  {size:,} bytes"
        elif new[name] != size:
            yield f"-{name}  {size:,} bytes"
            yield f"+{name}  {new[name]:,} bytes"
        elif name in edited or before.elfs.get(name) != after.elfs.get(name):
            yield f" {name}  {size:,} bytes, changed"
    arrived = set(moved.values())
    for name, size in new.items():
        if name not in old and name not in arrived:
            yield f"+{name}  {size:,} bytes"


def _changes(old_name: str | None, old: Elf | None, name: str, new: Elf) -> Iterator[str]:
    before = _dynamic(old) if old is not None else []
    changed = list(
        unified_diff(before, _dynamic(new), old_name or "/dev/null", name, n=0, lineterm="")
    )
    yield from (line for line in changed if not line.startswith("@@"))


def _dynamic(elf: Elf) -> list[str]:
    """Return the entries of the dynamic section that edits may change, one a line."""
    tags = (("DT_SONAME", elf.soname), ("DT_RPATH", elf.rpath), ("DT_RUNPATH", elf.runpath))
    return [
        *(f"DT_NEEDED  {name}" for name in elf.needed),
        *(f"{tag}  {value}" for tag, value in tags if value is not None),
        *(f"Verneed  {need.file} {' '.join(need.versions)}" for need in elf.verneed),
    ]


def _painted(line: str, *, colour: bool) -> str:
    if line.startswith(("--- ", "+++ ")):
        return paint(line, Colour.BOLD, on=colour)
    if line.startswith("-"):
        return paint(line, Colour.RED, on=colour)
    return paint(line, Colour.GREEN, on=colour) if line.startswith("+") else line
