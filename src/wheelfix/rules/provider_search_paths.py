"""Whether search paths lead to the libraries of providers."""

from collections.abc import Iterator

from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import describe, entries_between, split
from wheelfix.loader.loading import entry_directory
from wheelfix.providers.model import Folder
from wheelfix.providers.provider_uses import ProviderUse, by_provider, versions_of
from wheelfix.rules.bundled_not_found import add_entries
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries
from wheelfix.text import join_some
from wheelfix.wheel.model import LIBRARY_KEYS, Key

_DEEP = "/" + "/".join("abcdefghijklmnopqrstuvwxyz")


def leads_to_provider(entry: str, member: str, context: Context) -> bool:
    """Return whether a search path entry of `member` leads to the directory of a provider."""
    return any(
        _normal(entry) == _normal(wanted)
        for provider in context.providers
        for folder in provider.folders
        for wanted in _entries(context, member, folder)
    )


def _normal(entry: str) -> str:
    return entry_directory(entry, _DEEP)


def _entries(context: Context, member: str, folder: Folder) -> tuple[str, ...]:
    """Return the entries from `member` to the provider's folder, for all install schemes.

    Both are assumed to be in the same site-packages, unless `data-libraries` is "search".
    """
    if folder.directory is None:
        return ()
    wheel = context.wheel
    root = Key.PURELIB if wheel.root_is_purelib else Key.PLATLIB
    place = split(member, wheel)
    if place is not None and place[0] in LIBRARY_KEYS:
        root = place[0]
    searching = context.settings.data_libraries is DataLibraries.SEARCH
    key = folder.scheme if searching or folder.scheme is Key.DATA else root
    return entries_between(member, (key, folder.directory), wheel, context.schemes_of(member))


@rule("WF106", "provider-not-searched", Severity.ERROR)
def provider_not_searched(context: Context) -> Iterator[Hit]:
    """RPATH does not lead to the library of another wheel.

    ## What it does
    Checks the objects that need a library of a `provider`: an entry of their own search paths must
    lead to the provider's directory, in every install scheme that the tags allow. A
    library counts as found if the package surely opens it before the object, or imports the
    provider before, one of the wheels beside it, whose objects then have loaded it. It is a warning
    for an object that nothing in the wheel is seen to load, and where the package may do so, or
    open the library by a path that it puts together, or imports what was not read before. What runs
    only once the import of the object has begun is too late.

    ## Why is this bad?
    The library is neither in this wheel nor in a default directory: the import fails, or loads
    another copy from the user's machine. If a Python package loads the library first, the object
    still fails when it is opened in another way.

    ## Example
    `pkg/_core.so` needs `libcublas.so.12` of nvidia-cublas-cu12, and has no entry
    `$ORIGIN/../nvidia/cublas/lib`.

    ## Common causes
    - The build linked with the provider's library, which was excluded from the graft by
      `--exclude`. **Solution**: `wheelfix repair --provider nvidia-cublas-cu12`.

    ## Fix safety
    Safe: the entry is added last. If each scheme needs its own entry, as for a program in
    `*.data/scripts`, they are added only with `data-libraries = "search"`.
    """
    wanted: dict[tuple[str, tuple[str, ...]], list[ProviderUse]] = {}
    for use in context.provider_uses:
        entries = _entries(context, use.member, use.folder)
        own = {_normal(entry) for entry in use.elf.entries if entry.startswith("$")}
        missing = tuple(entry for entry in entries if _normal(entry) not in own)
        if missing and not (
            context.is_found_beside(use.member, use.library) or _is_opened(context, use)
        ):
            wanted.setdefault((use.member, missing), []).append(use)
    for (member, missing), uses in wanted.items():
        is_seen = member in context.objects_in_use
        names = {use.library for use in uses}
        neighbors = (use.provider for use in uses if use.provider.setting is None)
        modules = frozenset[str]().union(*(neighbor.modules for neighbor in neighbors))
        unsure = "" if is_seen else "nothing in the wheel is seen to load it"
        unsure = unsure or context.import_order.possible_opener(member, names, modules)
        unsure = unsure or context.unread_import(member)
        notes = (unsure,) if unsure else ()
        note = f"the missing entry is `{missing[0]}`"
        hint = "`wheelfix repair` adds it, with this provider"
        edits = add_entries(context, member, missing)
        fix: Fix | None = Fix(title="add an entry for the provider", edits=edits)
        if len(missing) > 1 and context.settings.data_libraries is not DataLibraries.SEARCH:
            fix = None
            note = f"no single entry leads there in all install schemes: {len(missing)} are needed"
            hint = '`data-libraries = "search"` in [tool.wheelfix] adds an entry for each scheme'
        labels = join_some(use.provider.label for use in uses)
        yield Hit(
            message=f"has no RPATH entry for {join_some(use.library for use in uses)} of {labels}",
            severity=Severity.WARNING if unsure else None,
            member=member,
            notes=(*notes, note),
            hint=hint,
            fix=fix,
        )


def _is_opened(context: Context, use: ProviderUse) -> bool:
    """Return whether each import of an object surely opens the library by its path before."""
    place = split(use.member, context.wheel)
    path = f"{use.folder.directory}/{use.library}"
    return place is not None and context.import_order.opens_before(use.member, [(place[0], path)])


@rule("WF107", "provider-beside", Severity.NOTE)
def provider_beside(context: Context) -> Iterator[Hit]:
    """Wheel works only beside another wheel in the same site-packages.

    ## What it does
    Lists each provider whose libraries the wheel uses, and the situations in which they are not
    found.

    ## Why is this bad?
    Nothing is wrong as long as both are installed into the same site-packages. The search path is
    relative, and leads only there.

    ## Example
    `pip install --user` of the wheel, with the provider in the system's site-packages.

    ## Common causes
    - Libraries that are too large to bundle in every wheel. **Solution**: nothing to do; if it
      matters, the package's `__init__.py` opens the library first, from where Python finds it.

    ## Fix safety
    Not fixed.
    """
    for uses in by_provider(context.provider_uses).values():
        provider = uses[0].provider
        yield Hit(
            message=f"{provider.label} must be installed beside it, for "
            + join_some(use.library for use in uses),
            notes=(*_uncovered_notes(context, uses[0]), *_version_notes(context, uses[0])),
        )


def _version_notes(context: Context, use: ProviderUse) -> Iterator[str]:
    """Yield notes on the available versions of a provider that were checked, or were not."""
    judged = [
        version.version
        for version in versions_of(use.provider, context.providers)
        if version.version
    ]
    if len(judged) > 1:
        yield f"checked with {judged[-1]} and {judged[0]}, the lowest and highest version available"
    if use.provider.refused:
        refused = ", ".join(use.provider.refused)
        yield f"available, but not allowed by METADATA, and not checked: {refused}"


def _uncovered_notes(context: Context, first: ProviderUse) -> tuple[str, ...]:
    notes = [
        (
            "not found if installed apart: an editable install of one, a user install "
            "of one over the other in the system's site-packages, two different `--target` "
            "directories"
        )
    ]
    split_libraries = [
        scheme
        for scheme in flatten(layout.schemes for layout in context.layouts)
        if scheme.purelib != scheme.platlib
    ]
    searching = context.settings.data_libraries is DataLibraries.SEARCH
    apart = first.folder.scheme is Key.PURELIB and not context.wheel.root_is_purelib
    if apart and split_libraries and not searching:
        notes.append(
            f"{first.provider.name} has Root-Is-Purelib, and is in another directory than the "
            f"wheel in: {describe(split_libraries)}"
        )
    if first.folder.scheme is Key.DATA:
        notes.append("`pip install --target` does not install the provider's libraries")
    if first.folder.directory is None:
        notes.append("no entry leads there: the directory is not in site-packages")
    return tuple(notes)
