"""Whether the providers have the libraries and symbols that the wheel needs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from wheelfix.analysis.providers import ProviderUse, editions, folder_of
from wheelfix.elf.exports import among
from wheelfix.elf.model import Undefined
from wheelfix.grouping import values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.symbol_lookup import binds
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import Provider
from wheelfix.text import join_some


def _available(context: Context, use: ProviderUse, version: Provider) -> Library | None:
    """Return the provider's library; None if the provider is not available or lacks it."""
    if context.definitions is None:
        return None
    place, folder = version.path, version.directory
    return context.definitions.provider_library(use.library, use.elf, place, folder)


def _called(version: Provider) -> str:
    return f"{version.name or version.label} {version.version}".rstrip()


def _which(version: Provider, among: Sequence[Provider]) -> tuple[str, ...]:
    """Return notes on where a version was found, and which of several it is."""
    looked = f"checked: `{version.path}`"
    if len(among) < 2:
        return (looked,)
    which = "highest" if version == among[0] else "lowest"
    return (looked, f"{version.version} is the {which} available version that METADATA allows")


def _kept_out(version: Provider, among: Sequence[Provider], otherwise: str) -> str:
    """Return the hint on how METADATA excludes a version, if another one is available."""
    if len(among) < 2:
        return otherwise
    bound = "<" if version == among[0] else ">"
    return f"exclude it: `Requires-Dist: {version.name}{bound}{version.version}`"


@rule("WF823", "provider-lacks-library", Severity.ERROR)
def provider_lacks_library(context: Context) -> Iterator[Hit]:
    """Provider does not have a library that the wheel needs.

    ## What it does
    Looks for each DT_NEEDED entry that the patterns of a `provider` match in the provider's own
    wheel, installed distribution or directory, if available. Of several versions, the lowest and
    the highest that METADATA allows are checked.

    ## Why is this bad?
    The import fails with `cannot open shared object file`, whatever the search path.

    ## Example
    `libraries = ["libcublas.so.*"]`, the object needs `libcublas.so.13`, but the provider's wheel
    has `libcublas.so.12`.

    ## Common causes
    - The wheel was built with another major version than METADATA requires. **Solution**: build
      against the provider's own libraries and headers.
    - The provider's next release changed the SONAME or the directory. **Solution**: an upper bound
      in `Requires-Dist`.

    ## Fix safety
    Not fixed.
    """
    for use in context.provider_uses if context.definitions else ():
        versions = editions(use.provider, context.settings.provider)
        for version in versions:
            library = _available(context, use, version)
            place = None if library is None else _elsewhere(version, library)
            if library is None or place is not None:
                where = f"has in `{place}`, not in `{version.directory}`"
                yield Hit(
                    message=f"needs `{use.library}`, which {_called(version)} "
                    + ("does not have" if library is None else where),
                    member=use.member,
                    entry=use.library,
                    notes=_which(version, versions),
                    hint="build against the provider's libraries, or "
                    + _kept_out(version, versions, "require a version that has it"),
                )


def _elsewhere(version: Provider, library: Library) -> str | None:
    """Return the directory of a wheel's library, if it is not the one that an entry leads to."""
    if version.directory is None or not version.path.endswith(".whl"):
        return None
    folder = folder_of(library.path, version.path)
    return None if folder == version.directory else folder


@rule("WF824", "provider-lacks-symbol", Severity.ERROR)
def provider_lacks_symbol(context: Context) -> Iterator[Hit]:
    """Provider does not define a symbol that the wheel needs.

    ## What it does
    If the provider's libraries are available, looks in them for every versioned symbol that the
    wheel needs from them, and for every unversioned symbol that no other object loaded with it
    defines. Of several versions of the provider, the lowest and the highest that METADATA allows
    are checked.

    ## Why is this bad?
    The import fails with `undefined symbol` or `version … not found` once that version of the
    provider is installed, and the metadata of neither wheel prevents it.

    ## Example
    apache-tvm 0.25.0 with apache-tvm-ffi 0.1.15: `undefined symbol:
    _ZN3tvm3ffi4json9StringifyERKNS0_3AnyENS0_8OptionalIivEE`.

    ## Common causes
    - The provider changed a function under the same SONAME. **Solution**: an upper bound in
      `Requires-Dist`, and a new build.

    ## Fix safety
    Not fixed.
    """
    if context.definitions is None:
        return
    judged = ((use.member, _in_versions(context, use)) for use in context.provider_uses)
    uses = values_by_key((member, versions) for member, versions in judged if versions)
    yield from _lacking_symbols(
        context, {m: [found[0] for found in own] for m, own in uses.items()}
    )
    lowest = {m: [versions[-1] for versions in own if len(versions) > 1] for m, own in uses.items()}
    places = dict.fromkeys(found.version.path for own in lowest.values() for found in own)
    if places:
        with_lowest = replace(context, definitions=context.definitions.preferring(places))
        yield from _lacking_symbols(with_lowest, lowest)


class VersionUse(NamedTuple):
    """One use of a provider, and the library in one version of the provider."""

    use: ProviderUse
    version: Provider
    library: Library
    versions: tuple[Provider, ...]
    """All versions that are checked."""


def _in_versions(context: Context, use: ProviderUse) -> list[VersionUse]:
    """Return the use with every available version that has the library, the highest first."""
    versions = editions(use.provider, context.settings.provider)
    return [
        VersionUse(use=use, version=version, library=library, versions=versions)
        for version in versions
        if (library := _available(context, use, version)) is not None
    ]


def _lacking_symbols(context: Context, taken: Mapping[str, list[VersionUse]]) -> Iterator[Hit]:
    unresolved = {
        symbols.member: symbols for symbols in context.unresolved_symbols if not symbols.absent
    }
    for member, own in taken.items():
        for taken_use in own:
            there = taken_use.library.exports.definitions
            asked = [
                symbol
                for symbol in taken_use.use.elf.undefined
                if symbol.file == taken_use.use.library and not symbol.weak
            ]
            known = among(there, {symbol.name for symbol in asked})
            lacking = [
                s for s in asked if s.name not in known or not binds(there[s.name], s.version)
            ]
            if lacking:
                yield _lacking(taken_use, lacking)
        left = unresolved[member].references if member in unresolved and own else ()
        plain = {reference[0] for reference in left if reference[1] is None}
        if plain:
            wanted = [symbol for symbol in own[0].use.elf.undefined if symbol.name in plain]
            yield _lacking(own[0], wanted, among=[taken_use.use.library for taken_use in own])


def _lacking(taken: VersionUse, lacking: list[Undefined], among: Iterable[str] = ()) -> Hit:
    spelled = [f"{s.name}@{s.version}" if s.version else s.name for s in lacking]
    names = join_some(among or [taken.use.library])
    return Hit(
        message=f"needs {join_some(spelled)}, not defined in {names} of {_called(taken.version)}",
        member=taken.use.member,
        entry=lacking[0].name,
        notes=(
            *_which(taken.version, taken.versions),
            *([f"{len(lacking):,} symbols are missing"] if len(lacking) > 1 else []),
            *([] if not among else ["no other loaded object defines them"]),
        ),
        hint="build against this version, or "
        + _kept_out(
            taken.version, taken.versions, "exclude it by the specifier in `Requires-Dist`"
        ),
    )
