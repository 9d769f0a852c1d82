"""Whether every entry of every search path helps the user, and nobody else."""

import posixpath
import re
from collections.abc import Iterator
from enum import Enum, auto
from fnmatch import fnmatchcase

from wheelfix.elf.model import Elf, Libc, PathTag
from wheelfix.loader.install_schemes import Layout
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.provider_paths import leads_to_provider
from wheelfix.rules.rule import rule
from wheelfix.settings import SacrificialEntry, SearchPathTag
from wheelfix.wheel.edits import DropEntry, DropRepeats, PrependEntry, ReplaceEntry, SetPathTag

SACRIFICE = "$ORIGIN/wheelfix.sacrificial"
"""A folder that never exists: looked up in vain once, and no harm if a tool eats the entry."""

_TOKEN = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_WRAPPING = "'\"` \t"


class Kind(Enum):
    """What is wrong with an entry."""

    FINE = auto()
    EMPTY = auto()
    MALFORMED = auto()
    ABSOLUTE = auto()
    RELATIVE = auto()
    ESCAPES = auto()
    DEAD = auto()


def fixed(entry: str) -> str:
    """Return `entry` without what a shell or a build script has left in it."""
    plain = entry.strip(_WRAPPING).replace("\\", "")
    plain = plain.replace("$$", "$").replace("$(ORIGIN)", "${ORIGIN}")
    return re.sub(r"@loader_path\b", "$ORIGIN", plain)


def kind(entry: str, member: str, context: Context) -> Kind:
    """Judge one entry of the search path of `member`, once installed."""
    if any(fnmatchcase(entry, pattern) for pattern in context.settings.keep_entries):
        return Kind.FINE
    if entry == SACRIFICE and context.settings.sacrificial_entry is not SacrificialEntry.OFF:
        return Kind.FINE
    if leads_to_provider(entry, member, context):
        return Kind.FINE
    spelling = _spelling(entry, context.wheel.elfs[member])
    return _installed_kind(entry, member, context) if spelling is Kind.FINE else spelling


def _spelling(entry: str, elf: Elf) -> Kind:
    if not entry:
        return Kind.EMPTY
    if fixed(entry) != entry or not _tokens_known(entry, elf):
        return Kind.MALFORMED
    if entry.startswith("/"):
        return Kind.ABSOLUTE
    return Kind.FINE if entry.startswith(("$ORIGIN", "${ORIGIN}")) else Kind.RELATIVE


def _tokens_known(entry: str, elf: Elf) -> bool:
    """Return whether the loader replaces every `$` (ld.so(8); musl knows `$ORIGIN` alone)."""
    known = {"ORIGIN"} if elf.libc is Libc.MUSL else {"ORIGIN", "LIB", "PLATFORM"}
    tokens = [braced or plain for braced, plain in _TOKEN.findall(entry)]
    return len(tokens) == entry.count("$") and all(token in known for token in tokens)


def _installed_kind(entry: str, member: str, context: Context) -> Kind:
    present = [layout for layout in context.layouts if member in layout.paths]
    if not present or "LIB" in entry or "PLATFORM" in entry:
        return Kind.FINE
    if all(_escapes(entry, member, layout) for layout in present):
        return Kind.ESCAPES
    own = f"{context.wheel.name.distribution}{context.settings.lib_sdir}".lower()
    if all(_is_dead(entry, member, layout, own) for layout in present):
        return Kind.DEAD
    return Kind.FINE


def _directory(entry: str, member: str, layout: Layout) -> str:
    origin = posixpath.dirname(layout.paths[member])
    return posixpath.normpath(entry.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))


def _escapes(entry: str, member: str, layout: Layout) -> bool:
    directory = _directory(entry, member, layout)
    return directory != layout.root and not directory.startswith(f"{layout.root}/")


def _is_dead(entry: str, member: str, layout: Layout, own: str) -> bool:
    """Return whether the entry leads to a folder that only this wheel could make, and does not.

    That is a folder below the object's own, and one named like the wheel's vendored libraries
    (`own`) wherever it is sought. Elsewhere there may be another distribution's, whose libraries
    the entry is meant for (`$ORIGIN/../nvidia/cublas/lib`): such an entry is not ours to judge.
    """
    directory = _directory(entry, member, layout)
    if directory in layout.directories:
        return False
    origin = posixpath.dirname(layout.paths[member])
    return directory.startswith(f"{origin}/") or posixpath.basename(directory).lower() == own


def _entries(context: Context, wanted: Kind) -> Iterator[tuple[str, Elf, str]]:
    for member, elf in context.wheel.elfs.items():
        for entry in dict.fromkeys(elf.entries):
            if kind(entry, member, context) is wanted:
                yield member, elf, entry


def _drop(member: str, entry: str) -> Fix:
    return Fix(title="drop the entry", edits=(DropEntry(member=member, entry=entry),))


def _path(elf: Elf) -> str:
    return f"{elf.path_tag} is `{elf.search_path}`"


@rule("WF111", "absolute-entry", Severity.WARNING)
def absolute_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry is an absolute path of the build machine.

    ## What it does
    Reports entries that begin with `/`, also in objects that auditwheel does not touch because
    they need nothing grafted.

    ## Why is this bad?
    On the user's machine the folder is absent, which costs a lookup at every load, or it is
    there and holds another library of the same name, or somebody can create it and plant one.

    ## Example
    scipy 1.17.1 ships DT_RUNPATH
    `/opt/_internal/cpython-3.11.13/lib/python3.11/site-packages/scipy_openblas32/lib`.

    ## Common causes
    - CMake keeps the build tree's paths: **Solution**: `CMAKE_INSTALL_RPATH='$ORIGIN'` and
      `CMAKE_BUILD_WITH_INSTALL_RPATH=ON`, or `wheelfix repair`.
    - A pyenv or conda Python puts `-Wl,-rpath,<prefix>/lib` into `LDFLAGS`.
      **Solution**: unset it for the build, or `wheelfix repair`.
    - A system folder that is really meant (`/opt/rocm/lib`).
      **Solution**: `keep-entries = ["/opt/rocm/*"]`.

    ## Fix safety
    Safe: dropped after the graft, which may have needed the entry to find the library.
    """
    for member, elf, entry in _entries(context, Kind.ABSOLUTE):
        yield Hit(
            message=f"searches `{entry}`, a folder of the build machine",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint="`wheelfix repair` drops it; if it is meant, say so in `keep-entries`",
            fix=_drop(member, entry),
        )


@rule("WF112", "empty-entry", Severity.ERROR)
def empty_entry(context: Context) -> Iterator[Hit]:
    """Empty RPATH entry: the loader searches the current directory.

    ## What it does
    Reports `::`, and a `:` at the beginning or the end of a search path.

    ## Why is this bad?
    glibc takes an empty entry as the current directory (`fillin_rpath` in elf/dl-load.c):
    whoever can write there decides what is loaded.

    ## Example
    DT_RPATH `$ORIGIN/lib:`.

    ## Common causes
    - An unset variable in `-Wl,-rpath,$EXTRA:$ORIGIN`.
      **Solution**: mend the build script, or `wheelfix repair`.

    ## Fix safety
    Safe.
    """
    for member, elf, entry in _entries(context, Kind.EMPTY):
        yield Hit(
            message="has an empty search path entry: the loader searches the current directory",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint="`wheelfix repair` drops it",
            fix=_drop(member, entry),
        )


@rule("WF113", "relative-entry", Severity.ERROR)
def relative_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry is relative to the current directory.

    ## What it does
    Reports entries that begin neither with `/` nor with `$ORIGIN`.

    ## Why is this bad?
    The loader resolves them against the current directory of the process: the library is found
    or not by where the user happens to stand, and may be somebody else's.

    ## Example
    DT_RPATH `pkg.libs`, as auditwheel before 6.0 wrote it into some grafted libraries.

    ## Common causes
    - `-Wl,-rpath,lib` in place of `-Wl,-rpath,'$ORIGIN/lib'`.
      **Solution**: mend the build script, or `wheelfix repair`.

    ## Fix safety
    Safe: dropped; what is really needed from the wheel gets a right entry (WF101).
    """
    for member, elf, entry in _entries(context, Kind.RELATIVE):
        yield Hit(
            message=f"searches `{entry}`, relative to wherever the user's process stands",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint="`wheelfix repair` drops it",
            fix=_drop(member, entry),
        )


@rule("WF114", "malformed-entry", Severity.ERROR)
def malformed_entry(context: Context) -> Iterator[Hit]:
    r"""RPATH entry is malformed.

    ## What it does
    Reports quotes, backslashes, doubled `$`, blanks around an entry, and tokens that the loader
    does not know (`$FOO`; with musl anything but `$ORIGIN`).

    ## Why is this bad?
    The loader takes the text literally: `'$ORIGIN` is the folder `'<where the file is>`. musl
    ignores the whole search path if it holds an unknown token.

    ## Example
    CyFES 2.6 has `…/CyFES.libs'` with the quote of a shell command in it; `\$ORIGIN` and
    `$$ORIGIN` come from Makefiles.

    ## Common causes
    - Quotes for a shell where none runs, as in a list given to `subprocess`.
      **Solution**: leave them out.

    ## Fix safety
    Safe: mended where the meaning is plain, dropped otherwise. The mended entry is then judged
    like any other.
    """
    for member, elf, entry in _entries(context, Kind.MALFORMED):
        better = fixed(entry)
        plain = better != entry and _tokens_known(better, elf)
        repair = ReplaceEntry(member=member, old=entry, new=better)
        fix = Fix(title="spell it right", edits=(repair,)) if plain else _drop(member, entry)
        yield Hit(
            message=f"has the search path entry `{entry}`, which the loader takes literally",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint=f"`wheelfix repair` writes `{better}`" if plain else "`wheelfix repair` drops it",
            fix=fix,
        )


@rule("WF115", "escaping-entry", Severity.ERROR)
def escaping_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry leads out of the environment.

    ## What it does
    Reports entries that, from where the file is installed, lead above the environment's own
    folder in every install scheme.

    ## Why is this bad?
    For a virtual environment in `/srv/app/venv` the entry names `/srv/app` or `/srv`; for
    `/usr/local` it names `/`. Whoever can write there decides what is loaded.

    ## Example
    auditwheel gives `*.data/data/cyfes/libcufes.so` the entry `$ORIGIN/../../../cyfes.libs`:
    right in the zip, two folders above the environment once installed.

    ## Common causes
    - The entry was computed from places in the zip. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: dropped; what is really needed from the wheel gets a right entry (WF101, WF103).
    """
    for member, elf, entry in _entries(context, Kind.ESCAPES):
        yield Hit(
            message=f"searches `{entry}`, outside of the environment it is installed into",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint="`wheelfix repair` drops it",
            fix=_drop(member, entry),
        )


@rule("WF116", "dead-entry", Severity.INFO)
def dead_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry leads to a directory that the wheel does not have.

    ## What it does
    Reports entries below the object's own folder where the wheel installs nothing, and entries
    that seek the wheel's `.libs` where it is not. Others may lead to another distribution's
    folder, and are not judged.

    ## Why is this bad?
    Every load of the object looks there in vain, and a file that appears there is loaded.

    ## Example
    DT_RPATH `$ORIGIN/lib`, where the libraries are in `pkg.libs`.

    ## Common causes
    - One search path for all targets of a build. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe, unless the package itself creates the folder when it runs: keep the entry then with
    `keep-entries`.
    """
    for member, elf, entry in _entries(context, Kind.DEAD):
        yield Hit(
            message=f"searches `{entry}`, a folder that the wheel does not have",
            member=member,
            entry=entry,
            notes=(_path(elf),),
            hint="`wheelfix repair` drops it; keep it with `keep-entries`",
            fix=_drop(member, entry),
        )


@rule("WF117", "repeated-entry", Severity.INFO)
def repeated_entry(context: Context) -> Iterator[Hit]:
    """Duplicate RPATH entry.

    ## What it does
    Reports entries that stand more than once in one search path.

    ## Why is this bad?
    The second one is never used, and a search path that nobody can read hides worse.

    ## Example
    DT_RPATH `$ORIGIN:$ORIGIN/../pkg.libs:$ORIGIN`.

    ## Common causes
    - `patchelf --add-rpath` run twice. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the first one stays.
    """
    for member, elf in context.wheel.elfs.items():
        for entry in dict.fromkeys(e for e in elf.entries if elf.entries.count(e) > 1):
            yield Hit(
                message=f"names `{entry}` {elf.entries.count(entry)} times in its search path",
                member=member,
                entry=entry,
                notes=(_path(elf),),
                hint="`wheelfix repair` keeps the first",
                fix=Fix(title="keep the first", edits=(DropRepeats(member=member, entry=entry),)),
            )


@rule("WF118", "two-path-tags", Severity.WARNING)
def two_path_tags(context: Context) -> Iterator[Hit]:
    """Object has both DT_RPATH and DT_RUNPATH.

    ## What it does
    Reports objects with both tags.

    ## Why is this bad?
    Every loader ignores the DT_RPATH then (ld.so(8)), although `readelf` shows it.

    ## Example
    A library linked by `ld --enable-new-dtags` of binutils before 2.28, and edited since.

    ## Common causes
    - Two tools that each wrote its own tag. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the DT_RPATH, which has no effect, goes.
    """
    for member, elf in context.wheel.elfs.items():
        if elf.rpath is not None and elf.runpath is not None:
            yield Hit(
                message=f"has DT_RPATH `{elf.rpath}`, which its DT_RUNPATH makes ineffective",
                member=member,
                entry=elf.rpath,
                hint="`wheelfix repair` drops the DT_RPATH",
                fix=Fix(
                    title="drop the tag without effect",
                    edits=(SetPathTag(member=member, tag=PathTag.RUNPATH),),
                ),
            )


@rule("WF121", "search-path-tag", Severity.INFO)
def search_path_tag(context: Context) -> Iterator[Hit]:
    """Search path is not in the requested tag, DT_RPATH or DT_RUNPATH.

    ## What it does
    With `search-path-tag = "rpath"` or `"runpath"`, reports the objects whose search path is in
    the other tag. With `"auto"`, the default, it reports nothing.

    ## Why is this bad?
    The two tags differ in what they mean, so that a mixture is hard to foretell:
    - DT_RPATH is searched *before* LD_LIBRARY_PATH, and is inherited by all that the object
      loads. The vendored library wins over one that the user's environment names.
    - DT_RUNPATH is searched *after* LD_LIBRARY_PATH, serves only the object's own DT_NEEDED, and
      an object that has one inherits no DT_RPATH. The user's environment wins over the wheel.
    musl treats both alike: inherited, and after LD_LIBRARY_PATH.

    ## Example
    `LD_LIBRARY_PATH=/opt/other` makes a wheel with DT_RUNPATH load `/opt/other/libtvm.so`.

    ## Common causes
    - Linkers write DT_RUNPATH by default; auditwheel writes DT_RPATH. **Solution**: ask for one
      of them with `search-path-tag`.

    ## Fix safety
    Safe as far as the wheel's own libraries go: that each is still found is checked afterwards.
    """
    asked = context.settings.search_path_tag
    if asked is SearchPathTag.AUTO:
        return
    tag = PathTag.RUNPATH if asked is SearchPathTag.RUNPATH else PathTag.RPATH
    for member, elf in context.wheel.elfs.items():
        if elf.path_tag not in {None, tag}:
            yield Hit(
                message=f"has its search path in {elf.path_tag}, not in {tag}",
                member=member,
                fix=Fix(title=f"use {tag}", edits=(SetPathTag(member=member, tag=tag),)),
            )


@rule("WF122", "sacrificial-entry", Severity.INFO, Stage.BEFORE)
def sacrificial_entry(context: Context) -> Iterator[Hit]:
    """RPATH does not begin with the requested sacrificial entry.

    ## What it does
    With `sacrificial-entry = "keep"` or `"remove"`, puts a harmless entry before all others of
    every search path that holds something, and keeps it there through the graft; with
    `"remove"` it is taken away before the wheel is written. Off by default.

    ## Why is this bad?
    Nothing is wrong. The policy is for tools that rewrite or drop the first entry of a search path:
    what they eat is then the sacrificial one. auditwheel is *not* such a tool: no version treats
    the first entry differently from the others, and wheelfix does not let it write search paths
    at all. `keep` helps if another tool handles the wheel after wheelfix; `remove` only shows,
    in the report, that the others came through unchanged.

    ## Example
    DT_RPATH `$ORIGIN/wheelfix.sacrificial:$ORIGIN/../pkg.libs`.

    ## Common causes
    - A later step of the release edits search paths by position. **Solution**: mend that step.

    ## Fix safety
    Safe: the folder never exists; a lookup in vain is all that it costs.
    """
    wanted = context.settings.sacrificial_entry
    remove = wanted is SacrificialEntry.REMOVE and context.stage is Stage.AFTER
    for member, elf in context.wheel.elfs.items():
        if wanted is SacrificialEntry.OFF or not elf.entries:
            continue
        if remove and SACRIFICE in elf.entries:
            yield Hit(
                message=f"still has the sacrificial entry `{SACRIFICE}`",
                member=member,
                entry=SACRIFICE,
                fix=_drop(member, SACRIFICE),
            )
        elif not remove and elf.entries[0] != SACRIFICE:
            edit = PrependEntry(member=member, entry=SACRIFICE)
            yield Hit(
                message=f"begins its search path with `{elf.entries[0]}`",
                member=member,
                entry=elf.entries[0],
                fix=Fix(title="put a sacrificial entry first", edits=(edit,)),
            )


RULES = (
    absolute_entry,
    empty_entry,
    relative_entry,
    malformed_entry,
    escaping_entry,
    dead_entry,
    repeated_entry,
    two_path_tags,
    search_path_tag,
    sacrificial_entry,
)
