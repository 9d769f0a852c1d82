"""Whether libraries outside the wheel, opened by name or named by `include`, are found."""

import posixpath
from collections.abc import Container, Iterator, Sequence
from operator import itemgetter

from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.analysis.opened_libraries import (
    names_in_note,
    openings,
)
from wheelfix.analysis.preload_plan import shim_of
from wheelfix.analysis.preload_shim import has_hook, shim_source, with_hook
from wheelfix.elf.model import Elf, Libc, libc_of
from wheelfix.elf.object_file_names import is_library_name
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.install_schemes import entries_between, site_path, split
from wheelfix.loader.platform_libraries import MANYLINUX_LIBRARIES, may_come_from_platform
from wheelfix.loader.python_api import is_libpython
from wheelfix.providers.provider_uses import provider_of
from wheelfix.python_sources.source_facts import LookupPlace
from wheelfix.rules.bundled_not_found import add_entries
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.opened_and_missing import finds_by_name
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries
from wheelfix.text import join_some, toml_string
from wheelfix.wheel.edits import AddNeeded, Edit, RemoveMember, WriteSource
from wheelfix.wheel.model import PRELOAD, Wheel
from wheelfix.wheel.platform_tags import promised_libcs


@rule("WF321", "opened-library-outside", Severity.WARNING)
def opened_library_outside(context: Context) -> Iterator[Hit]:
    """Library opened by name is not in the wheel.

    ## What it does
    Reports the names that Python sources (`ctypes`, cffi) and `.note.dlopen` of objects open, if
    the library is neither in the wheel, nor promised by a platform tag, nor a driver, nor that of a
    provider. Names in compiled code without a note are unknown.

    It is a warning if a Python source opens the library in any case, and does not handle a failure;
    what a test or a `try` guards, what a note names, and what is opened by a source in a folder
    without the name of a package (`vendor/tbb-2020.3`), is for information.

    ## Why is this bad?
    It is opened only where the user's machine has it. auditwheel sees DT_NEEDED only, so it does
    not graft such a library.

    ## Example
    `magic/loader.py` calls `ctypes.CDLL("libmagic.so.1")`, and the wheel has no such file.

    ## Common causes
    - The library should come with the package. **Solution**: `include = ["libmagic.so.1"]`.
    - It is optional, or belongs to the user's machine. **Solution**: nothing to do; or ignore the
      rule, with a reason.

    ## Fix safety
    Not fixed: only the project knows whether users should have its copy.
    """
    named = [
        *(
            (
                source,
                opening.name,
                opening.text,
                Severity.WARNING
                if opening.sure and _is_importable(source, context.wheel)
                else Severity.NOTE,
            )
            for source, opening in openings(context.wheel)
            if opening.where is LookupPlace.SEARCH
        ),
        *(
            (member, names[0], f"its dlopen note names `{names[0]}`: it", Severity.NOTE)
            for member, elf in context.wheel.elfs.items()
            for note in elf.dlopen_notes
            for names, _ in names_in_note(note)
            if names and all(_is_outside(context, name) for name in names)
        ),
    ]
    for name, same in grouped(named, lambda opened: opened[1]).items():
        if _is_outside(context, name):
            member, _, how, severity = max(same, key=itemgetter(3))
            yield Hit(
                message=f"{how} opens a library that the wheel does not contain",
                member=member,
                entry=name,
                hint=f"to graft it, add `include = [{toml_string(name)}]` to [tool.wheelfix]"
                ", and its folder to `library-path` if the system has it elsewhere",
                severity=severity,
            )


def _is_importable(source: str, wheel: Wheel) -> bool:
    """Return whether an import by name finds a source; of what is not a module, whether it runs."""
    path = site_path(source, wheel)
    return path is None or all(part.isidentifier() for part in path.removesuffix(".py").split("/"))


def _is_outside(context: Context, name: str) -> bool:
    """Return whether `name` is that of a library that could be grafted, and is not."""
    if not is_library_name(name) or "/" in name or name in context.included:
        return False
    if libc_of(name) or is_libpython(name):
        return False
    if may_come_from_platform(name, context.wheel.libc) or any(
        known.startswith(f"{name}.") for known in MANYLINUX_LIBRARIES
    ):
        return False  # `libm.so` is the link to it, for the linker
    if name in context.dependents or reason_not_to_bundle(name):
        return False
    if provider_of(name, context.providers) is not None:
        return False
    known = context.named_libraries
    return not (known.called(name) or known.grafts_of(name))


@rule("WF322", "included-library-not-found", Severity.ERROR)
def included_library_not_found(context: Context) -> Iterator[Hit]:
    """Library of `include` is not found by the code that opens it.

    ## What it does
    Checks the code that opens a library of `include` by name: objects with the name in
    `.note.dlopen` or in their data, and Python sources that open it or have the name as a string.
    An object must find it by its own search path. A Python source must be in a package with a shim
    that opens the library by its path first.

    ## Why is this bad?
    `dlopen` and `ctypes.CDLL` fail, or open another copy on the user's machine. `ctypes` never
    searches in a wheel: the loader searches for a bare name on behalf of Python's `_ctypes` module.

    ## Example
    `pkg/_core.so` calls `dlopen("libmagic.so.1")`, and has no entry `$ORIGIN/../pkg.libs`.

    ## Common causes
    - The library was included with another tool. **Solution**: `wheelfix repair`.
    - A Python source for musl, or outside of a package: no shim is possible there. **Solution**:
      open the library by its path, made from `__file__`; `include` then puts it there.
    - `find_library`, which searches only the system. **Solution**: as above.

    ## Fix safety
    Safe: a search path entry is added last, in wheels for musl also a DT_NEEDED entry, because musl
    does not use the search path of the object that calls `dlopen`. For Python sources, a preload
    shim is written. It is a warning if code handles that no such library is found.
    """
    preloads = context.preload_plan
    lost: dict[str, list[str]] = {}
    for name, libraries in context.included.items():
        if not libraries:
            continue  # not repaired yet
        objects = _opening_objects(context, name, libraries)
        for member in objects:
            yield from _by_object(context, member, name, libraries[0])
        shimmed = any(
            name in names
            for source, names in preloads.needs.items()
            if source not in preloads.outside
        )
        by_path = any(context.named_libraries.is_opened_by_path(library) for library in libraries)
        if objects or shimmed or by_path or name in context.dependents:
            continue
        lost[name] = list(_reasons_not_found(context, name))
        yield _missing_library(name, libraries[0], lost[name])
    yield from _packages_without_shim(context)
    yield from _without_shim(context, lost)


def _missing_library(name: str, member: str, reasons: Sequence[str]) -> Hit:
    """Return the hit for an included library; without `reasons`, no code names it."""
    if reasons:
        why, hint, severity = "no code of the wheel can find it", _BY_PATH.format(name), None
    else:
        why, severity = "no code names it", Severity.WARNING
        hint = "check the name: it must be the one that the code opens"
    return Hit(
        message=f"is included as `{name}`, but {why}",
        member=member,
        entry=name,
        notes=tuple(reasons),
        hint=hint,
        severity=severity,
    )


def _without_shim(context: Context, reported: Container[str]) -> Iterator[Hit]:
    """Yield the Python sources that open libraries by name where no shim is possible."""
    preloads = context.preload_plan
    for source, why in preloads.outside.items():
        names = [name for name in preloads.needs[source] if name not in reported]
        if names and (sure := _is_sure(context, source, names)) is not None:
            yield Hit(
                message=f"opens {join_some(names)} by name, and no shim can open the wheel's "
                f"library before: {why}",
                member=source,
                entry=names[0],
                hint=_BY_PATH.format(names[0]),
                severity=None if sure else Severity.WARNING,
            )


_BY_PATH = (
    'open it by its path: `CDLL(str(Path(__file__).parent / "{}"))`; `include` then puts it there'
)


def _reasons_not_found(context: Context, name: str) -> Iterator[str]:
    """Yield for each Python source that means `name` why it does not find the library."""
    preloads = context.preload_plan
    for source, why in preloads.outside.items():
        if name in preloads.needs[source]:
            yield f"`{source}`: {why}"
    for source, opening in openings(context.wheel):
        if opening.where is LookupPlace.FIND and name.startswith(f"lib{opening.name}.so"):
            yield f"in line {opening.line} of `{source}`, `find_library` searches only the system"


def _is_sure(context: Context, source: str, names: Sequence[str]) -> bool | None:
    """Return whether `source` opens one of `names` without a handler of its failure.

    None if it is not known to open one, or finds all of them because it opens them by path first.
    """
    wheel, included = context.wheel, context.included
    by_path = context.named_libraries.is_opened_by_path
    opened = [opening for opening in wheel.openings.get(source, ()) if opening.name in names]
    loaded = all(any(map(by_path, included[n])) for n in names)
    return None if loaded or not opened else any(opening.sure for opening in opened)


def _opening_objects(context: Context, name: str, libraries: Sequence[str]) -> list[str]:
    """Return the objects with `name` in a dlopen note or in their data."""
    mentions = context.definitions.code.mentions({name})[name] if context.definitions else ()
    return [
        member
        for member, elf in context.wheel.elfs.items()
        if member not in libraries and (member in mentions or _notes(elf, name))
    ]


def _notes(elf: Elf, name: str) -> bool:
    return any(name in names for names, _ in flatten(map(names_in_note, elf.dlopen_notes)))


def _by_object(context: Context, member: str, name: str, library: str) -> Iterator[Hit]:
    wheel, settings = context.wheel, context.settings
    elf = wheel.elfs[member]
    if name in elf.needed or finds_by_name(context, member, name):
        return
    place = split(posixpath.dirname(library), wheel)
    entries = entries_between(member, place, wheel, context.schemes_of(member))
    edits = add_entries(context, member, entries)
    is_musl = Libc.MUSL in {elf.libc, *promised_libcs(wheel.name.platforms)}
    if is_musl:
        edits = (AddNeeded(member=member, name=name), *edits)
    fits = len(entries) == 1 or settings.data_libraries is DataLibraries.SEARCH
    yield Hit(
        message=f"opens `{name}` by name, but does not find the wheel's `{library}`",
        member=member,
        entry=name,
        notes=(f"entries that lead there: {join_some(entries)}",),
        hint="`wheelfix repair` adds the entry"
        if fits
        else "no single entry leads there in all install schemes: install the object into the "
        "package, or `wheelfix repair --data-libraries=search`",
        fix=Fix(title="let the object find the library that it opens", edits=edits)
        if fits
        else None,
    )


def _packages_without_shim(context: Context) -> Iterator[Hit]:
    """Yield a hit for each package that lacks a shim."""
    preloads = context.preload_plan
    for init, sources in preloads.lacking.items():
        opened = dict.fromkeys(flatten(preloads.needs[source] for source in sources))
        yield Hit(
            message=f"does not preload {join_some(opened)} before {join_some(sources)}, "
            "which opens it by name",
            member=init,
            hint="`wheelfix repair` writes a shim next to it",
            fix=Fix(
                title="preload libraries that are opened by name",
                edits=tuple(_shim_edits(context, init)),
            ),
        )


def _shim_edits(context: Context, init: str) -> Iterator[Edit]:
    """Yield the edits that write the shim of the package with this `__init__.py`, and import it.

    It opens what the present shim opens, and what the plan needs.
    """
    wheel, shim = context.wheel, context.preload_plan.shims[init]
    written = {shim_of(init): shim_source(shim)}
    yield WriteSource(
        member=shim_of(init),
        content=written[shim_of(init)],
        what=f"opens {join_some(shim)}",
    )
    source = wheel.sources[init]
    hooked = None if has_hook(source) else with_hook(source)
    if hooked is not None:
        written[init] = hooked
        yield WriteSource(member=init, content=hooked, what=f"imports `{PRELOAD}` first")
    for member in wheel.members:
        folder, _, name = member.name.rpartition("/__pycache__/")
        if name and f"{folder}/{name.partition('.')[0]}.py" in written:
            yield RemoveMember(member=member.name)
