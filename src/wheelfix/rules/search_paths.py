"""Whether the entries of DT_RPATH and DT_RUNPATH are right."""

import posixpath
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from enum import Enum, auto

from wheelfix.elf.model import Elf, Libc, PathTag, starts_at_origin
from wheelfix.grouping import flatten
from wheelfix.loader import glibc_search
from wheelfix.loader.install_schemes import Layout
from wheelfix.loader.loading import entry_directory, expands
from wheelfix.rules.bundled_not_found import search_path_note
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.provider_search_paths import leads_to_provider
from wheelfix.rules.rule import rule
from wheelfix.settings import SacrificialEntry, SearchPathTag, matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count
from wheelfix.wheel.edits import DropEntry, DropRepeats, PrependEntry, ReplaceEntry, SetPathTag

SACRIFICE = "$ORIGIN/wheelfix.sacrificial"
"""A directory that never exists, so that a tool may drop the entry without effect."""

_OPENERS = {"dlopen", "dlmopen"}
_WRAPPING = "'\"` \t"


class EntryKind(Enum):
    """What is wrong with a search path entry, if anything."""

    FINE = auto()
    EMPTY = auto()
    MALFORMED = auto()
    ABSOLUTE = auto()
    RELATIVE = auto()
    ESCAPES = auto()
    DEAD = auto()


def unquote_entry(entry: str) -> str:
    """Return `entry` without the quotes and escapes that a shell or build script left in it."""
    plain = entry.strip(_WRAPPING).replace("\\", "")
    plain = plain.replace("$$", "$").replace("$(ORIGIN)", "${ORIGIN}")
    return re.sub(r"@loader_path\b", "$ORIGIN", plain)


def _entry_kind(entry: str, member: str, libc: Libc | None, context: Context) -> EntryKind:
    """Return what is wrong with one search path entry of `member`, once installed."""
    if matches_any(entry, context.settings.keep_entries):
        return EntryKind.FINE
    if entry == SACRIFICE and context.settings.sacrificial_entry is not SacrificialEntry.OFF:
        return EntryKind.FINE
    if (member, entry) in context.left.entries or leads_to_provider(entry, member, context):
        return EntryKind.FINE
    spelling = _spelling(entry, libc)
    return _installed_kind(entry, member, context) if spelling is EntryKind.FINE else spelling


def _spelling(entry: str, libc: Libc | None) -> EntryKind:
    if not entry:
        return EntryKind.EMPTY
    if unquote_entry(entry) != entry or not expands(entry, libc):
        return EntryKind.MALFORMED
    if entry.startswith("/"):
        return EntryKind.ABSOLUTE
    return EntryKind.FINE if starts_at_origin(entry) else EntryKind.RELATIVE


def _installed_kind(entry: str, member: str, context: Context) -> EntryKind:
    present = [layout for layout in context.layouts if member in layout.paths]
    if not present or glibc_search.tokens(entry) - {"ORIGIN"}:
        return EntryKind.FINE
    if all(_escapes(entry, member, layout) for layout in present):
        return EntryKind.ESCAPES
    own = context.settings.graft_folder(context.wheel.name.distribution).lower()
    if not all(_is_dead(entry, member, layout, own) for layout in present):
        return EntryKind.FINE
    is_made = any(_is_below_own(entry, member, layout) for layout in present)
    return EntryKind.FINE if is_made and _opens_by_name(member, context) else EntryKind.DEAD


def _escapes(entry: str, member: str, layout: Layout) -> bool:
    directory = entry_directory(entry, posixpath.dirname(layout.paths[member]))
    root = layout.scheme.root
    return directory != root and not directory.startswith(f"{root}/")


def _is_dead(entry: str, member: str, layout: Layout, own: str) -> bool:
    """Return whether the entry leads to a missing directory that only this wheel could have.

    That is a directory below the object's own, or one named like that of the wheel's vendored
    libraries (`own`). Any other may belong to another distribution
    (`$ORIGIN/../nvidia/cublas/lib`).
    """
    origin = posixpath.dirname(layout.paths[member])
    directory = entry_directory(entry, origin)
    if directory in layout.directories:
        return False
    return directory.startswith(f"{origin}/") or directory.lower().endswith(f"/{own}")


def _is_below_own(entry: str, member: str, layout: Layout) -> bool:
    origin = posixpath.dirname(layout.paths[member])
    return entry_directory(entry, origin).startswith(f"{origin}/")


def _opens_by_name(member: str, context: Context) -> bool:
    """Return whether an object that searches where `member` does may open a library by its name.

    The package may make the folder when it runs, and put the library there.
    """
    world = context.world
    files = world.environment.files
    loaded = world.loads[member].objects if member in world.loads else ()
    undefined = [files[path].undefined for path in loaded if path in files]
    context.budget.spend(sum(map(len, undefined)) >> 2, "the symbols of the load", member)
    return any(symbol.name in _OPENERS for symbol in flatten(undefined))


def _entries(context: Context, wanted: EntryKind) -> Iterator[tuple[str, Elf, str]]:
    for member, entry, kind in context.shared(_every_entry):
        if kind is wanted:
            yield member, context.wheel.elfs[member], entry


def _every_entry(context: Context) -> list[tuple[str, str, EntryKind]]:
    """Return the search path entries of each object, each once, with their kinds."""
    kinds: list[tuple[str, str, EntryKind]] = []
    for member, elf in context.wheel.elfs.items():
        entries = dict.fromkeys(elf.entries)
        libc = elf.libc if entries else None
        context.budget.spend(10 * len(entries), "the search path", member)
        kinds += ((member, entry, _entry_kind(entry, member, libc, context)) for entry in entries)
    return kinds


def _drop(member: str, entry: str) -> Fix:
    return Fix(title="drop the entry", edits=(DropEntry(member=member, entry=entry),))


def _useless(
    context: Context, kind: EntryKind, what: str, hint: str = "`wheelfix repair` drops it"
) -> Iterator[Hit]:
    """Report the entries of one kind, to be dropped; `{}` in `what` stands for the entry."""
    for member, elf, entry in _entries(context, kind):
        yield Hit(
            message=what.format(entry),
            member=member,
            entry=entry,
            notes=(search_path_note(elf),),
            hint=hint,
            fix=_drop(member, entry),
        )


@rule("WF111", "absolute-entry", Severity.WARNING)
def absolute_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry is an absolute path of the build machine.

    ## What it does
    Reports entries that begin with `/`, also in objects that auditwheel does not touch because
    they need nothing grafted. The folders where CUDA, ROCm and oneAPI are installed are for
    information: the user's machine may have them.

    ## Why is this bad?
    On the user's machine, the directory is missing, which costs a lookup at every load; or it holds
    a different library of the same name; or an attacker can create it and plant one there.

    ## Example
    scipy 1.17.1 ships DT_RUNPATH
    `/opt/_internal/cpython-3.11.13/lib/python3.11/site-packages/scipy_openblas32/lib`.

    ## Common causes
    - CMake keeps the paths of the build tree. **Solution**: `CMAKE_INSTALL_RPATH='$ORIGIN'` and
      `CMAKE_BUILD_WITH_INSTALL_RPATH=ON`, or `wheelfix repair`.
    - A pyenv or conda Python puts `-Wl,-rpath,<prefix>/lib` into `LDFLAGS`.
      **Solution**: unset it for the build, or `wheelfix repair`.
    - An intended system directory (`/opt/rocm/lib`). **Solution**: `keep-entries =
      ["/opt/rocm/*"]`.

    ## Fix safety
    Safe: the entry is dropped after the graft, which may need it to find the library.
    """
    hint = "`wheelfix repair` drops it; to keep it, add it to `keep-entries`"
    text = "searches `{}`, an absolute path of the build machine"
    for hit in _useless(context, EntryKind.ABSOLUTE, text, hint):
        if matches_any(hit.entry or "", _TOOLKITS):
            message = f"searches `{hit.entry}`, which the user's machine may have or not"
            yield replace(hit, message=message, severity=Severity.NOTE)
        elif _OF_SYSTEM.fullmatch(hit.entry or ""):
            yield replace(hit, message=f"searches `{hit.entry}`, an absolute path of the system")
        else:
            yield hit


_OF_SYSTEM = lazy_pattern(r"(/usr(/local)?)?/lib(64|/[^/]+-linux-[^/]+)?/*")
"""Folders that most machines have."""
_TOOLKITS = ("/usr/local/cuda*", "/opt/cuda*", "/opt/rocm*", "/opt/intel/*")
"""Where the installers of CUDA, ROCm and oneAPI put their libraries, as their documents say."""


@rule("WF112", "empty-entry", Severity.ERROR)
def empty_entry(context: Context) -> Iterator[Hit]:
    """Empty RPATH entry: the loader searches the current directory.

    ## What it does
    Reports `::`, and a `:` at the beginning or the end of a search path.

    ## Why is this bad?
    glibc treats an empty entry as the current directory (`fillin_rpath` in elf/dl-load.c): anyone
    who can write there controls what is loaded.

    ## Example
    DT_RPATH `$ORIGIN/lib:`.

    ## Common causes
    - An unset variable in `-Wl,-rpath,$EXTRA:$ORIGIN`. **Solution**: fix the build script, or
      `wheelfix repair`.

    ## Fix safety
    Safe.
    """
    yield from _useless(
        context,
        EntryKind.EMPTY,
        "has an empty search path entry: the loader searches the current directory",
    )


@rule("WF113", "relative-entry", Severity.ERROR)
def relative_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry is relative to the current directory.

    ## What it does
    Reports entries that begin with neither `/` nor `$ORIGIN`.

    ## Why is this bad?
    The loader resolves them against the current directory of the process: whether the library is
    found, and which one, depends on the directory that the user is in.

    ## Example
    DT_RPATH `pkg.libs`, written by auditwheel before 6.0 into some grafted libraries.

    ## Common causes
    - `-Wl,-rpath,lib` in place of `-Wl,-rpath,'$ORIGIN/lib'`. **Solution**: fix the build script,
      or `wheelfix repair`.

    ## Fix safety
    Safe: the entry is dropped; for libraries of the wheel, WF101 adds a correct one.
    """
    yield from _useless(
        context, EntryKind.RELATIVE, "searches `{}`, relative to the current directory"
    )


@rule("WF114", "malformed-entry", Severity.ERROR)
def malformed_entry(context: Context) -> Iterator[Hit]:
    r"""RPATH entry is malformed.

    ## What it does
    Reports quotes, backslashes, doubled `$`, whitespace around an entry, and unknown tokens
    (`$FOO`; with musl anything but `$ORIGIN`). It is a warning of an entry that begins with `/` or
    `$ORIGIN`: what is not found for it is an error of its own (WF101).

    ## Why is this bad?
    The loader takes the text literally, as the name of a directory. `'$ORIGIN` becomes
    `'<directory of the file>`. musl ignores the whole search path if it contains an unknown token.

    ## Example
    CyFES 2.6 has `…/CyFES.libs'`, with the quote of a shell command; `\$ORIGIN` and `$$ORIGIN` come
    from Makefiles.

    ## Common causes
    - Shell quotes where no shell runs, as in a list passed to `subprocess`. **Solution**: remove
      them.

    ## Fix safety
    Safe: the entry is corrected if its meaning is clear, and dropped otherwise. The corrected entry
    is then checked like any other.
    """
    libcs = {member: elf.libc for member, elf in context.wheel.elfs.items()}
    for member, elf, entry in _entries(context, EntryKind.MALFORMED):
        better = unquote_entry(entry)
        plain = better != entry and expands(better, libcs[member])
        repair = ReplaceEntry(member=member, old=entry, new=better)
        fix = Fix(title="correct the entry", edits=(repair,)) if plain else _drop(member, entry)
        yield Hit(
            message=f"has the search path entry `{entry}`, which the loader takes literally",
            member=member,
            entry=entry,
            notes=(search_path_note(elf),),
            hint=f"`wheelfix repair` writes `{better}`" if plain else "`wheelfix repair` drops it",
            fix=fix,
            # Any other is relative to the current directory, as those of WF113.
            severity=Severity.WARNING if entry.startswith("/") or starts_at_origin(entry) else None,
        )


@rule("WF115", "escaping-entry", Severity.ERROR)
def escaping_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry leads out of the environment.

    ## What it does
    Reports entries that lead above the root of the environment from where the file is installed, in
    every install scheme.

    ## Why is this bad?
    Anyone who can write to the directory that the entry names controls what is loaded. For a
    virtual environment in `/srv/app/venv` that is `/srv/app` or `/srv`; for `/usr/local` it is `/`.

    ## Example
    auditwheel gives `*.data/data/cyfes/libcufes.so` the entry `$ORIGIN/../../../cyfes.libs`:
    correct in the zip, but two directories above the environment once installed.

    ## Common causes
    - The entry was computed from paths in the zip. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the entry is dropped; for libraries of the wheel, WF101 or WF103 adds a correct one.
    """
    yield from _useless(
        context,
        EntryKind.ESCAPES,
        "searches `{}`, outside of the environment that it is installed into",
    )


@rule("WF116", "dead-entry", Severity.NOTE)
def dead_entry(context: Context) -> Iterator[Hit]:
    """RPATH entry leads to a directory that the wheel does not have.

    ## What it does
    Reports entries below the object's own directory where the wheel installs nothing, and wrong
    paths to the wheel's `.libs`. Other entries may lead to another distribution, and are not
    checked.

    ## Why is this bad?
    Every load of the object searches there for nothing, and a file that appears there is loaded.

    ## Example
    DT_RPATH `$ORIGIN/lib`, where the libraries are in `pkg.libs`.

    ## Common causes
    - The same search path for all targets of a build. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: an entry below the object's own directory stays where the object, or one that it loads,
    calls `dlopen`. The package may create the directory when it runs.
    """
    yield from _useless(
        context,
        EntryKind.DEAD,
        "searches `{}`, a directory that the wheel does not have",
        "`wheelfix repair` drops it; keep it with `keep-entries`",
    )


@rule("WF117", "repeated-entry", Severity.NOTE)
def repeated_entry(context: Context) -> Iterator[Hit]:
    """Duplicate RPATH entry.

    ## What it does
    Reports entries that occur more than once in one search path.

    ## Why is this bad?
    Repeated entries have no effect, and make the search path hard to read.

    ## Example
    DT_RPATH `$ORIGIN:$ORIGIN/../pkg.libs:$ORIGIN`.

    ## Common causes
    - `patchelf --add-rpath` run twice. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the first one is kept.
    """
    for member, elf in context.wheel.elfs.items():
        for entry, times in Counter(elf.entries).items():
            if times == 1:
                continue
            yield Hit(
                message=f"has `{entry}` {count(times, 'time')} in its search path",
                member=member,
                entry=entry,
                notes=(search_path_note(elf),),
                hint="`wheelfix repair` drops the repetition",
                fix=Fix(title="keep the first", edits=(DropRepeats(member=member, entry=entry),)),
            )


@rule("WF118", "two-path-tags", Severity.WARNING)
def two_path_tags(context: Context) -> Iterator[Hit]:
    """Object has a DT_RPATH that its loader ignores.

    ## What it does
    Reports objects with both tags, and those of Android with a DT_RPATH.

    ## Why is this bad?
    Every loader ignores a DT_RPATH beside a DT_RUNPATH (ld.so(8)), and Android's any DT_RPATH,
    although `readelf` shows it.

    ## Example
    A library linked by `ld --enable-new-dtags` of binutils before 2.28, and edited later.

    ## Common causes
    - Two tools that each wrote a different tag. **Solution**: `wheelfix repair`.

    ## Fix safety
    Safe: the DT_RPATH, which has no effect, is removed; with `search-path-tag = "rpath"`, the other
    takes its place.
    """
    wants_rpath = context.settings.search_path_tag is SearchPathTag.RPATH
    wanted = PathTag.RPATH if wants_rpath else PathTag.RUNPATH
    for member, elf in context.wheel.elfs.items():
        if elf.rpath is not None and elf.path_tag is not PathTag.RPATH:
            tag = elf.path_tag_for(wanted)
            why = "because of its DT_RUNPATH" if elf.path_tag else f"by the loader of {elf.libc}"
            yield Hit(
                message=f"has DT_RPATH `{elf.rpath}`, which is ignored {why}",
                member=member,
                entry=elf.rpath,
                hint="`wheelfix repair` drops the DT_RPATH",
                fix=Fix(
                    title="drop the ineffective DT_RPATH",
                    edits=(SetPathTag(member=member, tag=tag),),
                ),
            )


@rule("WF121", "search-path-tag", Severity.NOTE)
def search_path_tag(context: Context) -> Iterator[Hit]:
    """Search path is not in the requested tag, DT_RPATH or DT_RUNPATH.

    ## What it does
    With `search-path-tag = "rpath"` or `"runpath"`, reports the objects whose search path is in
    the other tag. With `"auto"`, the default, it reports nothing.

    ## Why is this bad?
    The two tags have different semantics, so the effect of a mixture is hard to predict.
    - DT_RPATH is searched *before* LD_LIBRARY_PATH, and is inherited by everything that the object
      loads. The vendored library takes precedence over LD_LIBRARY_PATH.
    - DT_RUNPATH is searched *after* LD_LIBRARY_PATH, applies only to the object's own DT_NEEDED,
      and an object that has one inherits no DT_RPATH. LD_LIBRARY_PATH takes precedence over the
      wheel. musl treats both in the same way: inherited, and searched after LD_LIBRARY_PATH.

    ## Example
    `LD_LIBRARY_PATH=/opt/other` makes a wheel with DT_RUNPATH load `/opt/other/libtvm.so`.

    ## Common causes
    - Linkers write DT_RUNPATH by default; auditwheel writes DT_RPATH. **Solution**: choose one of
      them with `search-path-tag`.

    ## Fix safety
    Safe for the wheel's own libraries: the repair checks afterwards that each is still found.
    """
    asked = context.settings.search_path_tag
    if asked is SearchPathTag.AUTO:
        return
    wanted = PathTag.RUNPATH if asked is SearchPathTag.RUNPATH else PathTag.RPATH
    for member, elf in context.wheel.elfs.items():
        tag = elf.path_tag_for(wanted)
        if elf.path_tag not in {None, tag}:
            yield Hit(
                message=f"has its search path in {elf.path_tag}, not in {tag}",
                member=member,
                fix=Fix(title=f"use {tag}", edits=(SetPathTag(member=member, tag=tag),)),
            )


@rule("WF122", "sacrificial-entry", Severity.NOTE, Stage.BEFORE)
def sacrificial_entry(context: Context) -> Iterator[Hit]:
    """RPATH does not begin with the requested sacrificial entry.

    ## What it does
    With `sacrificial-entry = "keep"` or `"remove"`, puts a harmless entry before all others of
    every search path that is not empty, and keeps it there through the graft; with `"remove"`, it
    is removed before the wheel is written. Off by default.

    ## Why is this bad?
    Nothing is wrong. The policy is for tools that rewrite or drop the first entry of a search path:
    they then drop the sacrificial one. auditwheel is *not* such a tool: no version treats the first
    entry differently from the others, and wheelfix does not let it write search paths at all.
    `keep` helps if another tool processes the wheel after wheelfix; `remove` only shows in the
    report that the other entries are unchanged.

    ## Example
    DT_RPATH `$ORIGIN/wheelfix.sacrificial:$ORIGIN/../pkg.libs`.

    ## Common causes
    - A later step of the release edits search paths by position. **Solution**: fix that step.

    ## Fix safety
    Safe: the directory never exists; the only cost is one failed lookup.
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
