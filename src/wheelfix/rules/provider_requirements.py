"""Whether METADATA requires the providers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.elf.demangle import join_symbols
from wheelfix.elf.model import Elf
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import site_path
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.providers.markers import requirements_on
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import ProviderUse, by_provider, site_folders
from wheelfix.providers.well_known import bringing, brings, lacking, releases_with
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.provider_gaps import first_lacking
from wheelfix.rules.rule import rule
from wheelfix.text import FEW, by_number, join_some, toml_pattern
from wheelfix.wheel.edits import AddRequirement
from wheelfix.wheel.grafted_name import original_name, remove_hash
from wheelfix.wheel.requirements import (
    allowed_versions,
    allows_from,
    is_for_extra,
    parsed,
    probes,
    read_requirement,
)

if TYPE_CHECKING:
    from packaging.requirements import Requirement


@rule("WF821", "provider-not-required", Severity.ERROR)
def provider_not_required(context: Context) -> Iterator[Hit]:
    """Requires-Dist lacks the distribution that provides the wheel's libraries.

    ## What it does
    Looks for each provider of the wheel's libraries in the `Requires-Dist` of METADATA. A line that
    allows only releases without the library does not count. A provider that only an extra requires
    is information, or a warning if an `__init__.py` always imports a module that needs it. If other
    extension modules of the wheel do not need the provider, and no `__init__.py` always imports
    those that do, the proposed line has an extra; it is a warning if nothing in the wheel is seen
    to load them, or only in a `try`. It is for information if a requirement that was not looked
    into may require the provider, a neighbor, unless it is a repair that makes a search path lead
    there.

    ## Why is this bad?
    `pip install` installs the wheel without the library, and the import fails.

    ## Example
    `_core.so` needs `libcublas.so.12`, and there is no `Requires-Dist: nvidia-cublas-cu12`.

    ## Common causes
    - The library was excluded by `--exclude`, but the metadata was not changed. **Solution**: add
      the line of the finding to `dependencies` in `pyproject.toml`.
    - Only some modules need it. **Solution**: put it into `optional-dependencies`.

    ## Fix safety
    Not fixed, as the project must decide what it requires, unless `--add-requires` is given: the
    line is then added, with the available version as the minimum if the provider has none, and of
    a well-known one whose SONAMEs have the number of its release, with that: `>=13,<14`.
    It takes the place of a line without the library. Providers that only some modules need are
    never added.
    """
    for uses in by_provider(context.provider_uses).values():
        provider = uses[0].provider
        needed = [use.library for use in uses]
        required = bringing(context.wheel, [provider.name], needed)
        if required and not all(is_for_extra(requirement) for requirement in required):
            continue
        if provider.through and requirements_on(context.wheel, provider.through):
            continue
        stale = [*dict.fromkeys(flatten(lacking(name, context.wheel) for name in needed))]
        sure, partly = _who_needs(context, uses)
        mild = Severity.WARNING if sure else Severity.NOTE
        unknown = context.left.that_may_bring(needed)
        may_be_indirect = provider.setting is None and unknown and not _is_new(context, uses)
        is_seen = not context.objects_in_use.isdisjoint(use.member for use in uses)
        usual = Severity.WARNING if partly and not is_seen else None
        another = _another(context, uses)
        without = f"requires {join_some(stale)}, which {by_number(stale, 'lacks', 'lack')} it"
        how = without if stale else "does not require it"
        is_left = context.settings.add_requires and partly and not required
        how += ": `--add-requires` adds no line, as other modules work without it" * is_left
        yield Hit(
            message=f"the wheel uses {join_some(needed)} of {provider.name}, but METADATA "
            + ("requires it only by an extra" if required else how),
            member=context.wheel.dist_info.metadata,
            entry=provider.name,
            notes=(
                f"needed by {join_some(use.member for use in uses)}",
                *([f"an `__init__.py` always imports {join_some(sure)}"] if sure else []),
                *(["other modules of the wheel do not need it"] if partly else []),
            ),
            hint=None if required else another or _how_to_ask(_line(uses), stale, partly=partly),
            fix=_requirement_fix(context, _line(uses), stale)
            if not required and not partly and not another
            else None,
            severity=mild if required else Severity.NOTE if may_be_indirect else usual,
        )


def _is_new(context: Context, uses: Iterable[ProviderUse]) -> bool:
    """Return whether a repair is what makes a search path lead to the provider."""
    if context.origin is None:
        return False
    wheel, before = context.wheel, context.origin.elfs

    def leads(use: ProviderUse, elf: Elf) -> bool:
        return use.folder.directory in set(site_folders(use.member, elf, wheel))

    known = ((use, before.get(use.member)) for use in uses)
    return any(leads(use, use.elf) and not leads(use, elf) for use, elf in known if elf)


def _who_needs(context: Context, uses: Iterable[ProviderUse]) -> tuple[list[str], bool]:
    """Return the always imported modules that need it, and whether other modules do not."""
    wheel = context.wheel
    modules = [member for member, elf in wheel.elfs.items() if elf.is_module]
    names = {m: module_name(place) for m in modules if (place := site_path(m, wheel))}
    used = {use.member for use in uses}
    loads = context.world.loads.items() if context.layouts else ()
    import_points = {
        member
        for member, load in loads
        if any(context.layouts[0].members.get(path) in used for path in load.objects)
    }
    using = {name for member, name in names.items() if member in import_points}
    sure = sorted(using & context.import_order.always_imported)
    return sure, bool(names.keys() - import_points) and not sure


def _line(uses: Sequence[ProviderUse], provider: Provided | None = None) -> str:
    """Return the requirement to add: of a bare name, for the releases that have the libraries."""
    provider = provider or uses[0].provider
    line = provider.to_require
    known = _releases(uses)
    if not known or canonicalize_name(provider.requirement) != provider.name:
        return line
    lowest, end = known
    return f"{line},<{end}" if provider.version else f"{line}>={lowest},<{end}"


def _releases(uses: Iterable[ProviderUse]) -> tuple[int, int] | None:
    """Return the major version of a provider that has all libraries, and the next; if known."""
    bounds = (releases_with(use.provider.name, use.library) for use in uses)
    return max(filter(None, bounds), default=None)


def _lowest(context: Context, uses: Sequence[ProviderUse]) -> Provided:
    """Return the lowest version that was read from which on all serve the uses."""
    best = uses[0].provider
    allowed = [each for each in best.available if each.version not in best.refused]
    serving = takewhile(lambda each: not first_lacking(context, uses, each), reversed(allowed))
    return [best, *serving][-1]


def _another(context: Context, uses: Sequence[ProviderUse]) -> str:
    """Return the hint to require another version than what was read; empty if that serves."""
    lacking, release = first_lacking(context, uses), uses[0].provider.release
    return lacking and f"require a version that serves it, not {release}: {lacking}"


def _not_judged(context: Context, uses: Sequence[ProviderUse]) -> str:
    """Return the hint where it is not known whether what was read has all symbols; or empty."""
    members, libraries = {use.member for use in uses}, {use.library for use in uses}
    left = (
        symbols
        for symbols in context.unresolved_symbols
        if symbols.member in members
        and (absent := {*filter(_is_of_package, symbols.absent)})
        # What the object itself lacks of others may have them.
        and absent.isdisjoint({*context.wheel.elfs[symbols.member].needed} - libraries)
    )
    names = [name for symbols in left for name, _ in symbols.references]
    release = uses[0].provider.release
    return (
        f"require releases with {join_symbols(names, FEW)}: not judged of {release}"
        if names
        else ""
    )


def _is_of_package(library: str) -> bool:
    return not (may_come_from_platform(library) or reason_not_to_bundle(library))


def _how_to_ask(line: str, stale: Sequence[str], *, partly: bool) -> str:
    """Return the hint on the requirement to add, and where."""
    if partly:
        return (
            f'add "{line}" to an extra in `optional-dependencies` of pyproject.toml: '
            f"`Requires-Dist: {line}; extra == '...'`; if nothing works without it, to "
            "`dependencies`"
        )
    where = f", in place of {join_some(stale)}" if stale else ""
    return (
        f'add "{line}" to `dependencies` in pyproject.toml{where}; or, '
        f"`wheelfix repair --add-requires` writes `Requires-Dist: {line}`"
    )


def _requirement_fix(context: Context, line: str, stale: Iterable[str]) -> Fix | None:
    """Return the fix that adds the line, if requested and if METADATA can be read.

    Of what is `stale`, the lines go that no installer can choose beside it, and those for a CUDA of
    which the wheel needs nothing.
    """
    if not context.settings.add_requires or context.wheel.metadata.problem is not None:
        return None
    needed = context.wheel.needed
    unused = (text for text in stale if not any(brings(text, name) for name in needed))
    gone = tuple(text for text in unused if not is_for_extra(read_requirement(text)))
    return Fix(
        title="add the Requires-Dist line", edits=(AddRequirement(requirement=line, replaced=gone),)
    )


@rule("WF822", "provider-loosely-required", Severity.WARNING)
def provider_loosely_required(context: Context) -> Iterator[Hit]:
    """Requires-Dist allows provider versions that may not work.

    ## What it does
    Compares the specifier of `Requires-Dist` with that of the `provider`, with the available
    version, and with the first release of a well-known one that has the SONAME. Without these, no
    bound is known, and nothing is reported: a wheel of the provider, `--provider FILE.whl`, has a
    version.

    ## Why is this bad?
    The installer may choose any version that METADATA allows. A version with another SONAME, or
    without a symbol, breaks the wheel as soon as it is published.

    ## Example
    apache-tvm 0.25.0 requires `apache-tvm-ffi>=0.1.12`; in 0.1.15 the signature of a function
    changed, and the import fails.

    ## Common causes
    - No upper bound, although incompatible versions have the same SONAME. **Solution**: add one,
      also in `requirement` of the provider.
    - A library that the other wheel grafted, `core.libs/libfoo-1a2b3c4d.so.1`: its name is unique
      to one build. **Solution**: `core==1.0`; or graft it under its own name in both wheels, with
      `keep-names = ["libfoo.so.*"]`.

    ## Fix safety
    Not fixed.
    """
    for uses in by_provider(context.provider_uses).values():
        tied = [
            use for use in uses if remove_hash(use.library) is not None and use.provider.version
        ]
        provider = _exactly(tied[0].provider) if tied else uses[0].provider
        lowest = provider if tied else _lowest(context, uses)
        required = bringing(context.wheel, [provider.name], [use.library for use in uses])
        another = _another(context, uses) or _not_judged(context, uses)
        own = [*parsed(context.wheel.metadata.requires_dist)]
        for requirement in filter(own.__contains__, required):
            if problem := _looseness(provider, requirement, _releases(uses)):
                yield Hit(
                    message=f"METADATA requires `{requirement}`, {problem}",
                    member=context.wheel.dist_info.metadata,
                    entry=provider.name,
                    notes=tuple(_reasons(uses, tied)),
                    hint=_stricter(_line(uses, lowest), provider, requirement, tied, another),
                )
        if tied and not required and provider.through:
            yield Hit(
                message=f"METADATA requires {provider.name} only through {provider.through}",
                member=context.wheel.dist_info.metadata,
                entry=provider.name,
                notes=tuple(_reasons(uses, tied)),
                hint=f"{_under_its_name(tied)}, and add {provider.name} to `dependencies` in "
                "pyproject.toml",
            )


def _stricter(
    line: str,
    provider: Provided,
    required: "Requirement",
    tied: Sequence[ProviderUse],
    another: str,
) -> str:
    """Return the hint on a requirement that allows less, `line`.

    It names no version that METADATA excludes, and an exact one only with the way without it: the
    users of the other project, and all that requires it, would be held to that version. `another`
    is the hint on a version that lacks something.
    """
    if another:
        return another
    if _excludes_the_available(provider, required):
        return f"check with a wheel of {provider.name} that `{required}` allows"
    if tied:
        return (
            f"{_under_its_name(tied)}; or, only if both are always released together, require "
            f"`{line}`"
        )
    return f"such as `{line}`"


def _under_its_name(tied: Sequence[ProviderUse]) -> str:
    name = toml_pattern(original_name(tied[0].library))
    return f"repair both wheels with `keep-names = [{name}]`"


def _excludes_the_available(provider: Provided, required: "Requirement") -> bool:
    return bool(provider.version) and not allowed_versions([provider.version], [str(required)])


def _exactly(provider: Provided) -> Provided:
    return replace(provider, requirement=f"{provider.name}=={provider.version}")


def _reasons(uses: Iterable[ProviderUse], tied: Sequence[ProviderUse]) -> Iterator[str]:
    yield f"the wheel uses {join_some(use.library for use in uses)}"
    if tied:
        yield (
            f"the hash in `{tied[0].library}` is that of the available build: a version with "
            "another build of the library has another file name"
        )


def _looseness(
    provider: Provided, required: "Requirement", releases: tuple[int, int] | None
) -> str | None:
    specifier = required.specifier
    if _excludes_the_available(provider, required):
        return f"which excludes the available version {provider.version}, not checked"
    known = read_requirement(provider.requirement).specifier
    if not str(specifier) and read_requirement(provider.to_require).specifier:
        return "which allows any version, but SONAMEs and symbols differ between versions"
    for version in probes(str(clause.version) for clause in (*specifier, *known)):
        if specifier.contains(version, prereleases=True) and not known.contains(
            version, prereleases=True
        ):
            return f"which allows {version}, unlike `{provider.requirement}`"
    if releases and str(specifier) and allows_from(required, 0, releases[0]):
        return f"which allows releases before {releases[0]}, with other SONAMEs"
    return None
