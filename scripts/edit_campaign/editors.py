"""Other editors, given the same cases."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError
from wheelfix.pipelines.patchelf import calls

_LIEF = """
import json, sys, lief
work = json.load(sys.stdin)
elf = lief.ELF.parse(work["path"])
tags = lief.ELF.DynamicEntry.TAG
for old, new in work["renamed"]:
    for entry in elf.dynamic_entries:
        if entry.tag == tags.NEEDED and entry.name == old:
            entry.name = new
    for need in elf.symbols_version_requirement:
        if need.name == old:
            need.name = new
for name in work["added"]:
    elf.add_library(name)
for tag, text in ((tags.RPATH, work["rpath"]), (tags.RUNPATH, work["runpath"])):
    if text != "keep":
        elf.remove(tag)
        if text is not None:
            kind = lief.ELF.DynamicEntryRpath if tag == tags.RPATH else lief.ELF.DynamicEntryRunPath
            elf.add(kind(text))
if work["soname"] != "keep":
    found = elf.get(tags.SONAME) if elf.has(tags.SONAME) else None
    if found is not None:
        found.name = work["soname"]
    else:
        elf.add(lief.ELF.DynamicSharedObject(work["soname"]))
elf.write(work["path"])
"""


@dataclass(frozen=True)
class Patchelf:
    """One release of patchelf."""

    name: str
    program: str

    def edit(self, path: Path, revision: Revision) -> str | None:
        """Edit the file; return what went wrong, None where patchelf has no such edit."""
        try:
            words = [[self.program, *call, str(path)] for call in calls(revision)]
        except PlanConflictError:
            return None
        return _run(words)


@dataclass(frozen=True)
class Lief:
    """LIEF, in a Python that has it."""

    name: str
    python: str

    def edit(self, path: Path, revision: Revision) -> str | None:
        """Edit the file; return what went wrong, None where LIEF has no such edit."""
        before, after = revision.before, revision.after
        if revision.dropped or (after.soname is None and before.soname is not None):
            return None
        work = {
            "path": str(path),
            "renamed": list(revision.renamed.items()),
            "added": list(reversed(revision.added)),
            "rpath": "keep" if before.rpath == after.rpath else after.rpath,
            "runpath": "keep" if before.runpath == after.runpath else after.runpath,
            "soname": "keep" if before.soname == after.soname else after.soname,
        }
        return _run([[self.python, "-c", _LIEF]], json.dumps(work))


def _run(commands: Sequence[Sequence[str]], text: str = "") -> str:
    for command in commands:
        try:
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, check=False, timeout=120
            )
        except subprocess.TimeoutExpired:
            return "no end after 120 s"
        if done.returncode:
            return f"it failed: {done.stderr.strip()[-200:]}"
    return ""
