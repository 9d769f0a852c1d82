"""Whether the providers have the libraries and symbols that the wheel needs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from wheelfix.analysis.load_failures import alike_elsewhere, way_to_declare
from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.analysis.world import release_of
from wheelfix.elf.exports import among
from wheelfix.elf.model import Undefined
from wheelfix.grouping import flatten, grouped
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Request
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.symbol_lookup import binds
from wheelfix.loader.symbol_versions import refused_versions
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.model import Provided, requires_dist_of
from wheelfix.providers.provider_uses import (
    ProviderUse,
    by_provider,
    provider_of,
    provider_uses,
    versions_of,
)
from wheelfix.providers.well_known import (
    brings,
    how_to_require,
    possible_wheels,
    sole_providers,
    way_of_authors,
)
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.text import FEW, by_number, count, join_some, them
from wheelfix.wheel.requirements import allowed_versions, name_of, specifier_of


def _in_versions(context: Context, use: ProviderUse) -> Iterator[ProviderUse]:
    """Yield the use of each version of its provider that can be read, the highest first."""
    for version in versions_of(use.provider, context.providers):
        yield use._replace(provider=version)


def _library(context: Context, use: ProviderUse) -> Library | None:
    """Return the library that is used; None if the provider lacks it."""
    if context.definitions is None:
        return None
    find, directory = context.definitions.provider_library, use.folder.directory
    return find(use.library, use.elf, use.provider, directory)


def _which(context: Context, version: Provided) -> tuple[str, ...]:
    """Return notes on where a version was found, and which of several it is."""
    looked = f"checked: {join_some(version.places)}"
    highest, *others = versions_of(version, context.providers)
    if not others:
        return (looked,)
    which = "highest" if version == highest else "lowest"
    return (looked, f"{version.version} is the {which} available version that METADATA allows")


def _or_require(context: Context, version: Provided, otherwise: str) -> str:
    """Return the hint on what METADATA must require: the available versions that serve it."""
    uses = [use for use in context.provider_uses if use.provider.name == version.name]
    lacks = {each.version: first_lacking(context, uses, each) for each in version.available}
    bounds = _bounds(lacks)
    return f"require `{version.name}{bounds}`" if bounds else otherwise


def _bounds(lacks: Mapping[str, str]) -> str:
    """Return the specifier of the versions that lack nothing; empty if none is known."""
    serving = [version for version, lacking in lacks.items() if not lacking]
    return specifier_of(tuple(lacks), serving) if serving else ""


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
    for any_version in context.provider_uses if context.definitions else ():
        for use in _in_versions(context, any_version):
            provider, stated = use.provider, use.folder.directory
            library = _library(context, use)
            place = None if library is None else provider.directory_of(library.path)
            if library is None or (stated is not None and place not in {None, stated}):
                where = f"has in `{place}`, not in `{stated}`"
                yield Hit(
                    message=f"needs `{use.library}`, which {provider.release} "
                    + ("does not have" if library is None else where),
                    member=use.member,
                    entry=use.library,
                    notes=_which(context, provider),
                    hint="build against the provider's libraries, or "
                    + _or_require(context, provider, "require a version that has it"),
                )


@rule("WF828", "neighbor-does-not-load", Severity.ERROR)
def neighbor_does_not_load(context: Context) -> Iterator[Hit]:
    """Library of a neighbor does not find a library that it needs.

    ## What it does
    Simulates loading the objects that need libraries of providers, installed beside these in every
    scheme that the tags allow, and reports the libraries that the objects of the neighbors do not
    find. It is a warning if no neighbor has the library, and a well-known wheel has it; else it is
    for information: the machine may have it. With `--fail-on-unknown`, both are errors. Libraries
    that platform tags allow, and those of drivers, are not reported.

    ## Why is this bad?
    The import fails with `cannot open shared object file`, although the wheel itself finds all.

    ## Example
    `core/lib/libcore.so.1` needs `libbase.so.1` of another distribution, and has no search path.

    ## Common causes
    - The other wheel was built for another environment. **Solution**: require another version of
      it, and report it to its authors.
    - nvidia-curand needs `libcudart.so.13`, and does not require the wheel that has it.
      **Solution**: require nvidia-cuda-runtime, too.

    ## Fix safety
    Not fixed: it is a fault of the other wheel.
    """
    lacking = [
        (neighbor, library, *place)
        for (neighbor, library), place in context.lacking_beside.items()
        if _is_to_be_found(library)
    ]
    owners = {library: provider_of(library, context.providers) for _, library, *_ in lacking}

    def cause(lack: tuple[str, str, Request, str, str]) -> tuple[str, Provided | None, str, Way]:
        label, library, request, *_ = lack
        way, known = way_beside(context, label, request), possible_wheels(library)
        return release_of(label), owners[library], known, way

    unknown = Severity.ERROR if context.settings.fail_on_unknown else None
    for (neighbor, owner, known, way), lacks in grouped(lacking, cause).items():
        libraries = list(dict.fromkeys(library for _, library, *_ in lacks))
        end = f"of {owner.release}: not found" if owner else "which no neighbor has"
        end += f": {by_number(libraries, 'it is', 'they are')} {known}" * bool(known and not owner)
        is_surely_lacking = known and not _asked(context, libraries[0])
        yield Hit(
            message=f"`{neighbor.partition(' ')[0]}` needs {join_some(libraries, FEW)} {end}",
            member=lacks[0][3],
            entry=libraries[0],
            notes=(
                f"needed by {join_some((file.partition('!')[2] for file, *_ in lacks), FEW)}",
                *filter(None, [way.of_authors]),
                f"install schemes: {lacks[0][4]}",
            ),
            hint=way.hint,
            severity=None
            if owner
            else unknown or (Severity.WARNING if is_surely_lacking else Severity.NOTE),
        )


def _is_to_be_found(library: str) -> bool:
    return not may_come_from_platform(library) and not reason_not_to_bundle(library)


class Way(NamedTuple):
    """What to do about a library that an object of a neighbor does not find."""

    hint: str
    of_authors: str = ""
    """What the authors of the neighbor must change."""


def way_beside(context: Context, neighbor: str, request: Request) -> Way:
    """Return what to do about a library that is not of the platform, nor of a driver.

    `neighbor` is the label of the object.
    """
    library, owner = request.name, release_of(neighbor)
    if asked := _asked(context, library):
        return Way(f"`--deps` looks into {join_some(asked, FEW)}")
    requires = requires_dist_of(context.providers).get(name_of(owner.partition(" ")[0]), ())
    names = [name for label, name in context.lacking_beside if label == neighbor]
    lacking = dict.fromkeys(filter(_is_to_be_found, names), "") | sole_providers(names)
    way = way_of_authors(library, owner, requires, request.directories, lacking)
    if way or provider_of(library, context.providers):
        return Way("require a version of it that finds them", way)
    is_known = possible_wheels(library, context.wheel.name.distribution)
    return Way(how_to_require(library, context.wheel) if is_known else "the machine must have it")


def _asked(context: Context, library: str) -> list[str]:
    """Return the requirements that have a library, and that were not looked into."""
    return [text for text in context.left.required if brings(text, library)]


@rule("WF824", "provider-lacks-symbol", Severity.ERROR)
def provider_lacks_symbol(context: Context) -> Iterator[Hit]:
    """Provider does not define a symbol that the wheel needs.

    ## What it does
    If the provider's libraries are available, looks in them for every versioned symbol that the
    wheel needs from them, and for every unversioned symbol that no other object loaded with it
    defines. A weak reference counts if glibc refuses a library without its version. Of several
    versions of the provider, the lowest and the highest that METADATA allows are checked.

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
    highest: _Uses = {}
    lowest: _Uses = {}
    for use in context.provider_uses:
        pairs = ((version, _library(context, version)) for version in _in_versions(context, use))
        having = [(version, library) for version, library in pairs if library is not None]
        if having:
            highest.setdefault(use.member, []).append(having[0])
        if len(having) > 1:
            lowest.setdefault(use.member, []).append(having[-1])
    yield from (_lacking_hit(context, lack) for lack in _lacking_symbols(context, highest))
    if lowest:
        places = [at for own in lowest.values() for use, _ in own for at in use.provider.places]
        with_lowest = replace(context, definitions=context.definitions.preferring(places))
        lacks = _lacking_symbols(with_lowest, lowest)
        yield from (_lacking_hit(with_lowest, lack) for lack in lacks)


_Uses = dict[str, list[tuple[ProviderUse, Library]]]
"""Member -> its uses of providers, each with the library in that version of the provider."""


class _Lacking(NamedTuple):
    """Symbols that no library of one version of a provider defines."""

    use: ProviderUse
    symbols: Sequence[Undefined]
    libraries: Sequence[str]
    is_searched: bool = False
    """Whether all other loaded objects were searched, too."""

    def __str__(self) -> str:
        spelled = [f"{s.name}@{s.version}" if s.version else s.name for s in self.symbols]
        return f"needs {join_some(spelled, 2)}, not defined in {join_some(self.libraries)}"


def _lacking_symbols(context: Context, uses: _Uses) -> Iterator[_Lacking]:
    unresolved = {
        symbols.member: symbols for symbols in context.unresolved_symbols if not symbols.absent
    }
    for member, uses_of_member in uses.items():
        for use, library in uses_of_member:
            defined, libc = library.exports.definitions, use.elf.libc
            needs = [need for need in use.elf.verneed if need.file == use.library]
            refused = set(flatten(refused_versions(need, library.elf, libc) for need in needs))
            asked = [
                symbol
                for symbol in use.elf.undefined
                if symbol.file == use.library and (not symbol.weak or symbol.version in refused)
            ]
            known = among(defined, {symbol.name for symbol in asked})
            lacking = [
                symbol
                for symbol in asked
                if symbol.name not in known or not binds(defined[symbol.name], symbol.version, libc)
            ]
            if lacking:
                yield _Lacking(use, lacking, [use.library])
        left = unresolved[member].references if member in unresolved else ()
        plain = {reference[0] for reference in left if reference[1] is None}
        if plain:
            first = uses_of_member[0][0]
            lacking = [symbol for symbol in first.elf.undefined if symbol.name in plain]
            libraries = [use.library for use, _ in uses_of_member]
            yield _Lacking(first, lacking, libraries, is_searched=True)


def _lacking_hit(context: Context, lack: _Lacking) -> Hit:
    use, symbols, *_ = lack
    first = symbols[0].name
    bounds = _or_require(context, use.provider, "")
    otherwise = bounds or f"require a release of {use.provider.name} that has it, if there is one"
    declare = "" if bounds else _way_to_declare(context, use.member, first)
    return Hit(
        message=f"{lack} of {use.provider.release}",
        member=use.member,
        entry=first,
        notes=(
            *_which(context, use.provider),
            *([f"{count(len(symbols), 'symbol')} missing"] if len(symbols) > 1 else []),
            *([f"no other loaded object defines {them(symbols)}"] if lack.is_searched else []),
        ),
        hint=declare
        or f"`{first}` is not in it: build without it for {use.provider.release}, or {otherwise}",
    )


def _way_to_declare(context: Context, member: str, name: str) -> str:
    """Return the hint on a function that is of C in one, and of C++ in the other; or empty."""
    uses = (use for use in context.provider_uses if use.member == member)
    libraries = {use.library: found for use in uses if (found := _library(context, use))}
    alike = alike_elsewhere(name, libraries, context.budget, lambda _, __: False)
    is_of_other = alike and alike[1].startswith("_Z") is not name.startswith("_Z")
    return way_to_declare(context.world, name, *alike) if alike and is_of_other else ""


@rule("WF829", "requirement-bounds", Severity.NOTE)
def requirement_bounds(context: Context) -> Iterator[Hit]:
    """Which versions of a requirement have what the wheel needs.

    ## What it does
    If several versions of a provider are available, as with `--with core==1.0,1.1,2.0` or a
    directory of wheels, looks in each of them, also in those that METADATA does not allow, for the
    libraries and symbols that the wheel needs from it. Reports the first that each version lacks,
    and the specifier that these versions make true.

    ## Why is this bad?
    It is for information. A bound that is too wide lets an import fail; one that is too narrow
    keeps users from versions that work.

    ## Example
    `--with core==1.0,1.1,2.0`, and `core_close` came in 1.1: `core>=1.1` is true.

    ## Common causes
    - `Requires-Dist` names the version that was there when it was written. **Solution**: the
      specifier of this note.

    ## Fix safety
    Not fixed: what the code asks for at run time is not seen.
    """
    if context.definitions is None:
        return
    several = {p.name: p.available for p in context.providers if len(p.available) > 1}
    every = tuple(flatten(map(reversed, several.values())))
    for name, uses in by_provider(provider_uses(context.wheel, every)).items():
        versions = {v.version: first_lacking(context, uses, v) for v in several[name]}
        serving = [version for version, lacking in versions.items() if not lacking]
        bounds = _bounds(versions)
        required = [text for text in context.wheel.metadata.requires_dist if name_of(text) == name]
        allowed = allowed_versions(versions, required)
        is_true = set(allowed) == set(serving)
        yield Hit(
            message=f"{count(len(serving), 'version')} of {len(versions)} of {name} "
            + by_number(serving, "has what the wheel needs", "have what the wheel needs")
            + (f": `{name}{bounds}`" if bounds else ""),
            entry=name,
            notes=(
                *(f"{version}: {lacking or 'loads'}" for version, lacking in versions.items()),
                f"of these, METADATA allows {join_some(allowed, len(allowed)) or 'none'}"
                if required
                else f"METADATA does not require {name}",
            ),
            hint=None if is_true or not bounds else f"`Requires-Dist: {name}{bounds}`",
        )


def first_lacking(
    context: Context, uses: Sequence[ProviderUse], version: Provided | None = None
) -> str:
    """Return what `version`, or the provider of `uses`, lacks of them; empty if it has all.

    What is known by name only lacks nothing.
    """
    version = version or uses[0].provider
    definitions = context.definitions
    if definitions is None or not version.places:
        return ""
    preferring = replace(context, definitions=definitions.preferring(version.places))
    having: _Uses = {}
    for use in (use._replace(provider=version) for use in uses):
        library = _library(preferring, use)
        if library is None:
            return f"`{use.member}` needs `{use.library}`, which it does not have"
        having.setdefault(use.member, []).append((use, library))
    return next((f"`{f.use.member}` {f}" for f in _lacking_symbols(preferring, having)), "")
