"""Whether search paths lead to the libraries of providers."""

from collections.abc import Iterator

from wheelfix.analysis.providers import ProviderUse, by_provider, editions
from wheelfix.loader.install_schemes import describe, entries_between, split
from wheelfix.loader.loading import entry_directory
from wheelfix.rules.bundled_search_paths import add_entries
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.preload import is_served
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries, Provider
from wheelfix.text import join_some
from wheelfix.wheel.model import LIBRARY_KEYS, Key

_DEEP = "/" + "/".join("abcdefghijklmnopqrstuvwxyz")


def leads_to_provider(entry: str, member: str, context: Context) -> bool:
    """Return whether a search path entry of `member` leads to the directory of a provider."""
    return any(
        _normal(entry) == _normal(wanted)
        for provider in context.settings.provider
        for wanted in _entries(context, member, provider)
    )


def _normal(entry: str) -> str:
    return entry_directory(entry, _DEEP)


def _entries(context: Context, member: str, provider: Provider) -> tuple[str, ...]:
    """Return the entries from `member` to the provider's directory, for all install schemes.

    Both are assumed to be in the same site-packages, unless `data-libraries` is "search".
    """
    if provider.directory is None:
        return ()
    wheel = context.wheel
    root = Key.PURELIB if wheel.root_is_purelib else Key.PLATLIB
    place = split(member, wheel)
    if place is not None and place[0] in LIBRARY_KEYS:
        root = place[0]
    searching = context.settings.data_libraries is DataLibraries.SEARCH
    key = Key(provider.scheme) if searching or provider.scheme == Key.DATA else root
    return entries_between(member, (key, provider.directory), wheel, context.schemes_of(member))


@rule("WF106", "provider-not-searched", Severity.ERROR)
def provider_not_searched(context: Context) -> Iterator[Hit]:
    """RPATH does not lead to the library of another wheel.

    ## What it does
    Checks the objects that need a library of a `provider`: an entry of their own search paths must
    lead to the provider's directory, in every install scheme that the tags allow. A preload shim
    (WF108) is sufficient as well, unless `provider-by` requests both.

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
        if is_served(context, use.member, [use.library]):
            continue
        entries = _entries(context, use.member, use.provider)
        own = {_normal(entry) for entry in use.elf.entries if entry.startswith("$")}
        if missing := tuple(entry for entry in entries if _normal(entry) not in own):
            wanted.setdefault((use.member, missing), []).append(use)
    for (member, missing), uses in wanted.items():
        note = f"the missing entry is `{missing[0]}`"
        hint = "`wheelfix repair` adds it, with this provider"
        edits = add_entries(context, member, missing)
        fix: Fix | None = Fix(title="add an entry for the provider", edits=edits)
        if len(missing) > 1 and context.settings.data_libraries is not DataLibraries.SEARCH:
            fix = None
            note = f"no single entry leads there in all install schemes: {len(missing)} are needed"
            hint = "`--data-libraries=search` adds an entry for each scheme"
        labels = join_some(use.provider.label for use in uses)
        yield Hit(
            message=f"has no RPATH entry for {join_some(use.library for use in uses)} of {labels}",
            member=member,
            notes=(note,),
            hint=hint,
            fix=fix,
        )


@rule("WF107", "provider-beside", Severity.INFO)
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
      matters, `provider-by = "both"` finds the provider wherever Python finds it.

    ## Fix safety
    Not fixed.
    """
    for uses in by_provider(context.provider_uses).values():
        provider = uses[0].provider
        alone = [use for use in uses if not context.preload_plan.opens(use.member, [use.library])]
        where = "beside it" if alone else "where Python finds it"
        yield Hit(
            message=f"{provider.label} must be installed {where}, for "
            + join_some(use.library for use in uses),
            notes=(
                *((_preloaded(context, uses),) if len(alone) < len(uses) else ()),
                *(_not_covered(context, provider, alone, uses) if alone else ()),
                *_looked_at(context, uses[0]),
            ),
        )


def _looked_at(context: Context, use: ProviderUse) -> Iterator[str]:
    """Yield notes on the available versions of a provider that were checked, or were not."""
    judged = [
        version.version
        for version in editions(use.provider, context.settings.provider)
        if version.version
    ]
    if len(judged) > 1:
        yield f"checked with {judged[-1]} and {judged[0]}, the lowest and highest version available"
    if use.provider.refused:
        refused = ", ".join(use.provider.refused)
        yield f"available, but not allowed by METADATA, and not checked: {refused}"


def _preloaded(context: Context, uses: list[ProviderUse]) -> str:
    """Return a note on what a shim covers, and what is left to search path entries."""
    searched = all(
        {_normal(entry) for entry in _entries(context, use.member, use.provider)}
        <= {_normal(entry) for entry in use.elf.entries}
        for use in uses
    )
    return (
        "preloaded from wherever Python finds it: beside the wheel, in the system's "
        "site-packages below a user install, in another `--target` on `sys.path`, in an editable "
        "install; but not if the objects are opened without an import"
    ) + (", where the RPATH entries find it beside the wheel" if searched else "")


def _not_covered(
    context: Context, provider: Provider, alone: list[ProviderUse], uses: list[ProviderUse]
) -> tuple[str, ...]:
    members = join_some(use.member for use in alone)
    whom = f" by {members}" if len(alone) < len(uses) else ""
    notes = [
        (
            f"not found{whom} if installed apart: an editable install of one, a user install "
            "of one over the other in the system's site-packages, two different `--target` "
            "directories"
        )
    ]
    split_libraries = [
        scheme
        for layout in context.layouts
        for scheme in layout.schemes
        if scheme.purelib != scheme.platlib
    ]
    searching = context.settings.data_libraries is DataLibraries.SEARCH
    apart = provider.scheme == Key.PURELIB and not context.wheel.root_is_purelib
    if apart and split_libraries and not searching:
        notes.append(
            f"{provider.name} has Root-Is-Purelib, and is in another directory than the wheel in: "
            + describe(split_libraries)
        )
    if provider.scheme == Key.DATA:
        notes.append("`pip install --target` does not install the provider's libraries")
    if provider.directory is None:
        notes.append("no entry leads there: the directory is not in site-packages")
    return tuple(notes)
