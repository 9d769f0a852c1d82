"""Whether what a wheel takes from other wheels is there, reached, and asked for."""

import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import NamedTuple

from packaging.requirements import InvalidRequirement, Requirement

from wheelfix.analysis.preload_plan import module_name
from wheelfix.analysis.providers import (
    editions,
    folder_of,
    never_bundled,
    provider_of,
    suggest_pattern,
)
from wheelfix.elf.exports import among
from wheelfix.elf.model import Elf, Undefined
from wheelfix.loader.as_needed import Library
from wheelfix.loader.install_schemes import Key, describe, entries_to, split
from wheelfix.loader.symbols import binds
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.preload import is_served
from wheelfix.rules.reachability import add_entries
from wheelfix.rules.rule import rule
from wheelfix.settings import DataLibraries, Provider, Settings, name_of
from wheelfix.wheel.edits import AddRequirement
from wheelfix.wheel.grafted_name import original_name, unhashed
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.python_imports import surely_imported

_SHOWN = 5
_LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)
_DEEP = "/" + "/".join("abcdefghijklmnopqrstuvwxyz")


class _Use(NamedTuple):
    """One object of the wheel, and one library that it takes from a provider."""

    member: str
    elf: Elf
    library: str
    provider: Provider


def _uses(context: Context) -> Iterator[_Use]:
    """Yield what is taken from providers; a library that the wheel ships is its own."""
    providers = context.settings.provider
    for member, elf in context.wheel.elfs.items() if providers else ():
        for library in dict.fromkeys(elf.needed):
            provider = provider_of(library, providers)
            if provider is not None and library not in context.shipped:
                yield _Use(member=member, elf=elf, library=library, provider=provider)


def leaves_drivers(settings: Settings) -> bool:
    """Whether what belongs to the machine's drivers is kept out of the wheel."""
    return not any(map(bundled_driver.matches, settings.ignore))


def _by_provider(uses: Iterable[_Use]) -> Mapping[str, list[_Use]]:
    """Return the uses by distribution; mere directories are left out."""
    found: dict[str, list[_Use]] = {}
    for use in uses:
        if use.provider.name:
            found.setdefault(use.provider.name, []).append(use)
    return found


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in dict.fromkeys(names)]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


# --- Whether they are reached ---------------------------------------------------------------------


def leads_to_provider(entry: str, member: str, context: Context) -> bool:
    """Return whether a search path entry of `member` leads to the folder of a provider."""
    return any(
        _normal(entry) == _normal(wanted)
        for provider in context.settings.provider
        for wanted in _entries(context, member, provider)
    )


def _normal(entry: str) -> str:
    return posixpath.normpath(entry.replace("${ORIGIN}", _DEEP).replace("$ORIGIN", _DEEP))


def _entries(context: Context, member: str, provider: Provider) -> tuple[str, ...]:
    """Return the entries from `member` to the provider's folder, over the schemes that install it.

    Both are taken to be installed into one site-packages, unless every place is to be searched.
    """
    if provider.directory is None:
        return ()
    wheel = context.wheel
    root = Key.PURELIB if wheel.root_is_purelib else Key.PLATLIB
    place = split(member, wheel)
    if place is not None and place[0] in _LIBRARY_KEYS:
        root = place[0]
    searching = context.settings.data_libraries is DataLibraries.SEARCH
    key = Key(provider.scheme) if searching or provider.scheme == Key.DATA else root
    installed = (
        scheme for layout in context.layouts if member in layout.paths for scheme in layout.schemes
    )
    return entries_to(member, (key, provider.directory), wheel, installed)


@rule("WF106", "provider-not-searched", Severity.ERROR)
def provider_not_searched(context: Context) -> Iterator[Hit]:
    """An object does not search the folder in which another wheel has its library.

    ## What it does
    Looks at the objects that need a library of a `provider`, and at the entries of their own
    search paths: one of them must lead to the provider's folder, wherever a scheme that the tags
    allow installs both into one site-packages. A preload shim (WF108) does as well, unless
    `provider-by` asks for both.

    ## Why is this bad?
    The library is not in this wheel, and no default directory has it: the import fails, or takes
    another copy from the user's machine. That a Python package loads it first is no help for who
    opens the object another way.

    ## Example
    `pkg/_core.so` needs `libcublas.so.12` of nvidia-cublas-cu12, and has no entry
    `$ORIGIN/../nvidia/cublas/lib`.

    ## Common causes
    - The build linked with the provider's library, and `--exclude` kept it out of the wheel.
      **Solution**: `wheelfix repair --provider nvidia-cublas-cu12`.

    ## Fix safety
    Safe: the entry is added last. Where it takes one entry for each scheme, as for a program in
    `*.data/scripts`, it is added with `data-libraries = "search"` only.
    """
    wanted: dict[tuple[str, tuple[str, ...]], list[_Use]] = {}
    for use in _uses(context):
        if is_served(context, use.member, [use.library]):
            continue
        entries = _entries(context, use.member, use.provider)
        own = {_normal(entry) for entry in use.elf.entries if entry.startswith("$")}
        if missing := tuple(entry for entry in entries if _normal(entry) not in own):
            wanted.setdefault((use.member, missing), []).append(use)
    for (member, missing), uses in wanted.items():
        searching = context.settings.data_libraries is DataLibraries.SEARCH
        fixed = len(missing) == 1 or searching
        edits = add_entries(context, member, missing)
        labels = _listed(use.provider.label for use in uses)
        yield Hit(
            message=f"does not search where {labels} has {_listed(use.library for use in uses)}",
            member=member,
            notes=(f"missing is `{missing[0]}`",)
            if fixed
            else (f"no single entry leads there from where the file goes: {len(missing)} do",),
            hint="`wheelfix repair` adds it, with this provider"
            if fixed
            else "`--data-libraries=search` adds an entry for each scheme",
            fix=Fix(title="lead to the provider", edits=edits) if fixed else None,
        )


@rule("WF107", "provider-beside", Severity.INFO)
def provider_beside(context: Context) -> Iterator[Hit]:
    """The wheel works only where another one is installed beside it.

    ## What it does
    Names each provider that the wheel takes libraries from, and says where they are not found.

    ## Why is this bad?
    Nothing is wrong as long as both are installed into the same site-packages. The search path
    is relative, and leads nowhere else.

    ## Example
    `pip install --user` of the wheel, where the provider is in the system's site-packages.

    ## Common causes
    - Libraries that are too large for every wheel. **Solution**: nothing to do; where it matters,
      `provider-by = "both"` finds it wherever Python does.

    ## Fix safety
    Not fixed.
    """
    for uses in _by_provider(_uses(context)).values():
        provider = uses[0].provider
        alone = [use for use in uses if not context.preloading.opens(use.member, [use.library])]
        where = "beside it" if alone else "where Python finds it"
        yield Hit(
            message=f"{provider.label} must be installed {where}, for "
            + _listed(use.library for use in uses),
            notes=(
                *((_preloaded(context, uses),) if len(alone) < len(uses) else ()),
                *(_not_covered(context, provider, alone, uses) if alone else ()),
                *_looked_at(context, uses[0]),
            ),
        )


def _looked_at(context: Context, use: _Use) -> Iterator[str]:
    """Say which versions at hand are judged, and which are not."""
    judged = [each.version for each in _of(context, use) if each.version]
    if len(judged) > 1:
        yield f"judged beside {judged[-1]} and {judged[0]}, the lowest and the highest at hand"
    if use.provider.refused:
        refused = ", ".join(use.provider.refused)
        yield f"at hand, but not allowed by METADATA, and not judged: {refused}"


def _preloaded(context: Context, uses: list[_Use]) -> str:
    """Say what a shim covers, and what is left to the entries that are there besides."""
    searched = all(
        {_normal(entry) for entry in _entries(context, use.member, use.provider)}
        <= {_normal(entry) for entry in use.elf.entries}
        for use in uses
    )
    return (
        "opened before the import from wherever Python finds it: beside the wheel, in the system's "
        "site-packages below a user install, in another `--target` on `sys.path`, in an editable "
        "install; not for what opens the objects without an import"
    ) + (", which finds it beside the wheel by the entries" if searched else "")


def _not_covered(
    context: Context, provider: Provider, alone: list[_Use], uses: list[_Use]
) -> tuple[str, ...]:
    members = _listed(use.member for use in alone)
    whom = f" by {members}" if len(alone) < len(uses) else ""
    notes = [
        (
            f"not found{whom} where the two are apart: an editable install of one, a user install "
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
            f"{provider.name} calls itself pure, and goes to another folder than the wheel in: "
            + describe(split_libraries)
        )
    if provider.scheme == Key.DATA:
        notes.append("`pip install --target` does not install the provider's libraries")
    if provider.directory is None:
        notes.append("no entry leads there: the directory is in no site-packages")
    return tuple(notes)


# --- Whether they are asked for -------------------------------------------------------------------


_LONGEST = 4000
"""Characters of a requirement that a person may have written."""


def _required(context: Context, name: str) -> list[Requirement]:
    """Return what METADATA asks of the distribution, extras among them."""
    found: list[Requirement] = []
    for text in context.wheel.metadata.requires_dist:
        if len(text) < _LONGEST and name_of(text) == name:
            with suppress(ValueError, RecursionError):
                found.append(Requirement(text))
    return found


def _line(provider: Provider) -> str:
    return provider.to_require


def _only_extra(requirement: Requirement) -> bool:
    return requirement.marker is not None and "extra" in str(requirement.marker)


@rule("WF821", "provider-not-required", Severity.ERROR)
def provider_not_required(context: Context) -> Iterator[Hit]:
    """METADATA does not ask for the distribution that has the wheel's libraries.

    ## What it does
    Looks for each provider that the wheel takes libraries from in the `Requires-Dist` of
    METADATA. One that only an extra asks for is information, and a warning where an `__init__.py`
    surely imports what needs it. Where other extension modules of the wheel do without the
    provider, and no `__init__.py` surely imports those that need it, the line to add has an extra.

    ## Why is this bad?
    `pip install` brings the wheel without the library, and the import fails.

    ## Example
    `_core.so` needs `libcublas.so.12`, and there is no `Requires-Dist: nvidia-cublas-cu12`.

    ## Common causes
    - The library was kept out by `--exclude`, and nobody told the package's metadata.
      **Solution**: add the line that the finding names to `dependencies` in `pyproject.toml`.
    - Only some modules need it. **Solution**: put it into `optional-dependencies`.

    ## Fix safety
    Not fixed, as what a package requires is the project's to say, unless it says so by
    `--add-requires`: the line is added, with the version at hand as the least if the provider
    names none. What only some modules need is never made everybody's.
    """
    for uses in _by_provider(_uses(context)).values():
        provider = uses[0].provider
        required = _required(context, provider.name)
        if required and not all(_only_extra(each) for each in required):
            continue
        if provider.through and _required(context, provider.through):
            continue
        libraries = _listed(use.library for use in uses)
        sure, partly = _who_needs(context, uses)
        mild = Severity.WARNING if sure else Severity.INFO
        yield Hit(
            message=f"takes {libraries} from {provider.name}, and METADATA "
            + ("asks for it by an extra only" if required else "does not ask for it"),
            member=f"{context.wheel.dist_info}/METADATA",
            entry=provider.name,
            notes=(
                f"needed by {_listed(use.member for use in uses)}",
                *([f"an `__init__.py` imports {_listed(sure)} in any case"] if sure else []),
                *(["other modules of the wheel do without it"] if partly else []),
            ),
            hint=_how_to_ask(_line(provider), partly=partly) if not required else None,
            fix=_asking(context, _line(provider)) if not required and not partly else None,
            severity=mild if required else None,
        )


def _who_needs(context: Context, uses: Iterable[_Use]) -> tuple[list[str], bool]:
    """Return the modules that need it and are surely imported, and whether others do without."""
    wheel = context.wheel
    names = {m: ".".join(parts) for m in wheel.elfs if (parts := module_name(m, wheel))}
    import_points = {
        door for use in uses for door in context.preloading.entry_modules.get(use.member, ())
    }
    places = {member: split(member, wheel) for member in wheel.sources}
    packages = {
        place[1].removesuffix("/__init__.py").replace("/", "."): wheel.sources[member]
        for member, place in places.items()
        if place is not None and place[0] in _LIBRARY_KEYS and place[1].endswith("/__init__.py")
    }
    imported = surely_imported(packages)
    sure = sorted({name for member, name in names.items() if member in import_points} & imported)
    return sure, bool(names.keys() - import_points) and not sure


def _how_to_ask(line: str, *, partly: bool) -> str:
    """Say what to add, and where."""
    if partly:
        return (
            f'add "{line}" to an extra in `optional-dependencies` of pyproject.toml: '
            f"`Requires-Dist: {line}; extra == '...'`; if nothing works without it, to "
            "`dependencies`"
        )
    return (
        f'add "{line}" to `dependencies` in pyproject.toml, or repair with `--add-requires`: '
        f"`Requires-Dist: {line}`"
    )


def _asking(context: Context, line: str) -> Fix | None:
    """Return the fix that adds the line, where that was asked for and METADATA can be read."""
    if not context.settings.add_requires or context.wheel.metadata.problem is not None:
        return None
    return Fix(title="ask for the provider", edits=(AddRequirement(requirement=line),))


@rule("WF822", "provider-loosely-required", Severity.WARNING)
def provider_loosely_required(context: Context) -> Iterator[Hit]:
    """METADATA allows versions of a provider that are not known to serve.

    ## What it does
    Compares the specifier of `Requires-Dist` with the one of the `provider`, and with the version
    at hand. Without either, it asks for some specifier.

    ## Why is this bad?
    The installer chooses among all versions that METADATA allows. One with another SONAME, or
    without a symbol, breaks the wheel on the day it is published.

    ## Example
    apache-tvm 0.25.0 asks for `apache-tvm-ffi>=0.1.12`; 0.1.15 has another signature of a
    function, and the import fails.

    ## Common causes
    - No upper bound where SONAMEs do not tell incompatible versions apart.
      **Solution**: add one, and say the same in `requirement` of the provider.
    - A library that the other wheel grafted, `core.libs/libfoo-1a2b3c4d.so.1`: its name is that of
      one build. **Solution**: `core==1.0`; or graft it under its own name in both, by
      `keep-names = ["libfoo.so.*"]`.

    ## Fix safety
    Not fixed.
    """
    for uses in _by_provider(_uses(context)).values():
        tied = [use for use in uses if unhashed(use.library) is not None and use.provider.version]
        provider = _exactly(tied[0].provider) if tied else uses[0].provider
        required = _required(context, provider.name)
        for each in required:
            if problem := _looseness(provider, each):
                yield Hit(
                    message=f"METADATA asks for `{each}`: {problem}",
                    member=f"{context.wheel.dist_info}/METADATA",
                    entry=provider.name,
                    notes=tuple(_reasons(uses, tied)),
                    hint=f"such as `{_line(provider)}`",
                )
        if tied and not required and provider.through:
            yield Hit(
                message=f"METADATA asks for {provider.name} by way of {provider.through} only",
                member=f"{context.wheel.dist_info}/METADATA",
                entry=provider.name,
                notes=tuple(_reasons(uses, tied)),
                hint=f'add "{_line(provider)}" to `dependencies` in pyproject.toml',
            )


def _exactly(provider: Provider) -> Provider:
    return replace(provider, requirement=f"{provider.name}=={provider.version}")


def _reasons(uses: Iterable[_Use], tied: Sequence[_Use]) -> Iterator[str]:
    yield f"it takes {_listed(use.library for use in uses)} from it"
    if tied:
        yield (
            f"the hash in `{tied[0].library}` is that of the build at hand: a version with another "
            "build of the library has another name for it"
        )


def _looseness(provider: Provider, required: Requirement) -> str | None:
    specifier = required.specifier
    if provider.version and not specifier.contains(provider.version, prereleases=True):
        return f"that is not version {provider.version}, which is at hand, and was not judged"
    try:
        known = Requirement(provider.requirement).specifier
    except InvalidRequirement:
        return f"the provider's `{provider.requirement}` is no requirement"
    if not str(specifier):
        return "any version, though SONAMEs and symbols are those of some"
    for version in _probes(str(each.version) for each in (*specifier, *known)):
        if specifier.contains(version, prereleases=True) and not known.contains(
            version, prereleases=True
        ):
            return f"that allows {version}, which `{provider.requirement}` does not"
    return None


def _probes(bounds: Iterable[str]) -> Iterator[str]:
    """Yield versions around each bound: where two sets of specifiers differ, one is in between."""
    yield from ("0", "99999")
    for bound in bounds:
        plain = bound.removesuffix(".*")
        release = plain.split(".")
        yield plain
        yield f"{plain}.99999"
        if release[-1].isdigit() and len(release[-1]) < 10:
            yield ".".join([*release[:-1], str(int(release[-1]) + 1)])
            if int(release[-1]):
                yield ".".join([*release[:-1], str(int(release[-1]) - 1), "99999"])


# --- Whether they are there -----------------------------------------------------------------------


def _of(context: Context, use: _Use) -> tuple[Provider, ...]:
    """Return the provider in each version at hand that is to be judged, the highest first."""
    return editions(use.provider, context.settings.provider)


def _at_hand(context: Context, use: _Use, version: Provider) -> Library | None:
    """Return the provider's library, None where it is not at hand or not there."""
    if context.definitions is None:
        return None
    place, folder = version.at_hand, version.directory
    return context.definitions.handed(use.library, use.elf, place, folder)


def _called(version: Provider) -> str:
    return f"{version.name or version.label} {version.version}".rstrip()


def _which(version: Provider, among: Sequence[Provider]) -> tuple[str, ...]:
    """Say where a version was looked at, and which one of several it is."""
    looked = f"looked at: `{version.at_hand}`"
    if len(among) < 2:
        return (looked,)
    which = "highest" if version == among[0] else "lowest"
    return (looked, f"{version.version} is the {which} version at hand that METADATA allows")


def _kept_out(version: Provider, among: Sequence[Provider], otherwise: str) -> str:
    """Say how METADATA keeps a version out, if another one at hand is left."""
    if len(among) < 2:
        return otherwise
    bound = "<" if version == among[0] else ">"
    return f"keep it out: `Requires-Dist: {version.name}{bound}{version.version}`"


@rule("WF823", "provider-lacks-library", Severity.ERROR)
def provider_lacks_library(context: Context) -> Iterator[Hit]:
    """The provider at hand does not have the library that the wheel takes from it.

    ## What it does
    Looks for each DT_NEEDED entry that the patterns of a `provider` match in the provider's own
    wheel, installed distribution or directory, where one was given. Of several versions, the
    lowest and the highest that METADATA allows are looked at.

    ## Why is this bad?
    The import fails with `cannot open shared object file`, whatever the search path.

    ## Example
    `libraries = ["libcublas.so.*"]`, the object needs `libcublas.so.13`, and the wheel at hand
    has `libcublas.so.12`.

    ## Common causes
    - Built with another major version than METADATA asks for. **Solution**: build against the
      provider's own libraries and headers.
    - The provider's next release has another SONAME, or keeps it in another folder. **Solution**:
      an upper bound in `Requires-Dist`.

    ## Fix safety
    Not fixed.
    """
    for use in _uses(context) if context.definitions else ():
        versions = _of(context, use)
        for version in versions:
            library = _at_hand(context, use, version)
            place = None if library is None else _elsewhere(version, library)
            if library is None or place is not None:
                where = f"has in `{place}`, and not in `{version.directory}`"
                yield Hit(
                    message=f"needs `{use.library}`, which {_called(version)} "
                    + ("does not have" if library is None else where),
                    member=use.member,
                    entry=use.library,
                    notes=_which(version, versions),
                    hint="build against the provider's libraries, or "
                    + _kept_out(version, versions, "ask for a version that has it"),
                )


def _elsewhere(version: Provider, library: Library) -> str | None:
    """Return the folder of a wheel's library, if it is not the one that an entry leads to."""
    if version.directory is None or not version.at_hand.endswith(".whl"):
        return None
    folder = folder_of(library.path, version.at_hand)
    return None if folder == version.directory else folder


@rule("WF824", "provider-lacks-symbol", Severity.ERROR)
def provider_lacks_symbol(context: Context) -> Iterator[Hit]:
    """The provider at hand does not define a symbol that the wheel takes from it.

    ## What it does
    Where the provider's libraries are at hand, looks in them for every symbol that the wheel asks
    for in one of their versions, and for every symbol without a version that nothing else
    defines that is loaded with the object. Of several versions of the provider, it looks at the
    lowest and at the highest that METADATA allows.

    ## Why is this bad?
    The import fails with `undefined symbol` or `version … not found` once the provider is
    installed in that version, and nothing in either wheel tells.

    ## Example
    apache-tvm 0.25.0 beside apache-tvm-ffi 0.1.15:
    `undefined symbol: _ZN3tvm3ffi4json9StringifyERKNS0_3AnyENS0_8OptionalIivEE`.

    ## Common causes
    - The provider changed a function under the same SONAME. **Solution**: an upper bound in
      `Requires-Dist`, and a new build.

    ## Fix safety
    Not fixed.
    """
    if context.definitions is None:
        return
    uses = {
        member: _in_versions(context, own) for member, own in _by_member(_uses(context)).items()
    }
    yield from _lacking_symbols(context, {m: [each[0] for each in own] for m, own in uses.items()})
    lowest = {m: [e[-1] for e in own if len(e) > 1] for m, own in uses.items()}
    places = dict.fromkeys(each.version.at_hand for own in lowest.values() for each in own)
    if places:
        with_lowest = replace(context, definitions=context.definitions.preferring(places))
        yield from _lacking_symbols(with_lowest, lowest)


class _Taken(NamedTuple):
    """One use of a provider, and the library as one version of the provider has it."""

    use: _Use
    version: Provider
    library: Library
    versions: tuple[Provider, ...]
    """All that are judged."""


def _in_versions(context: Context, uses: Iterable[_Use]) -> list[list[_Taken]]:
    """Return each use with every version at hand that has the library, the highest first."""
    found: list[list[_Taken]] = []
    for use in uses:
        versions = _of(context, use)
        taken = [
            _Taken(use=use, version=each, library=library, versions=versions)
            for each in versions
            if (library := _at_hand(context, use, each)) is not None
        ]
        if taken:
            found.append(taken)
    return found


def _lacking_symbols(context: Context, taken: Mapping[str, list[_Taken]]) -> Iterator[Hit]:
    unresolved = {each.member: each for each in context.unresolved if not each.absent}
    for member, own in taken.items():
        for each in own:
            there = each.library.exports.definitions
            asked = [
                symbol
                for symbol in each.use.elf.undefined
                if symbol.file == each.use.library and not symbol.weak
            ]
            known = among(there, {symbol.name for symbol in asked})
            lacking = [
                s for s in asked if s.name not in known or not binds(there[s.name], s.version)
            ]
            if lacking:
                yield _lacking(each, lacking)
        left = unresolved[member].references if member in unresolved and own else ()
        plain = {reference[0] for reference in left if reference[1] is None}
        if plain:
            wanted = [symbol for symbol in own[0].use.elf.undefined if symbol.name in plain]
            yield _lacking(own[0], wanted, among=[each.use.library for each in own])


def _by_member(uses: Iterable[_Use]) -> Mapping[str, list[_Use]]:
    found: dict[str, list[_Use]] = {}
    for use in uses:
        found.setdefault(use.member, []).append(use)
    return found


def _lacking(taken: _Taken, lacking: list[Undefined], among: Iterable[str] = ()) -> Hit:
    spelled = [f"{e.name}@{e.version}" if e.version else e.name for e in lacking]
    names = _listed(among or [taken.use.library])
    return Hit(
        message=f"needs {_listed(spelled)}, not in {names} of {_called(taken.version)}",
        member=taken.use.member,
        entry=lacking[0].name,
        notes=(
            *_which(taken.version, taken.versions),
            *([f"{len(lacking):,} symbols are missing"] if len(lacking) > 1 else []),
            *([] if not among else ["nothing else that is loaded with it defines them"]),
        ),
        hint="build against this version, or "
        + _kept_out(
            taken.version, taken.versions, "keep it out by the specifier in `Requires-Dist`"
        ),
    )


@rule("WF826", "provider-unused", Severity.INFO)
def provider_unused(context: Context) -> Iterator[Hit]:
    """A provider is named of which the wheel takes nothing.

    ## What it does
    Reports each `provider` none of whose libraries is in DT_NEEDED; a warning where one of its
    patterns would match with an asterisk for the version, or misses a name that comes near.

    ## Why is this bad?
    A pattern that lacks its asterisk lets the library in: it is grafted after all, hundreds of
    megabytes for CUDA's.

    ## Example
    `libraries = ["libcublas.so"]`, and the object needs `libcublas.so.12`.

    ## Common causes
    - No asterisk for the version. **Solution**: `libcublas.so.*`.
    - The library is opened by name, and not linked with. **Solution**: nothing to do.

    ## Fix safety
    Not fixed.
    """
    # What a run finds among its own wheels was not named by anybody.
    providers = [each for each in context.settings.provider if not each.owner]
    needed = (
        {n: None for elf in context.wheel.elfs.values() for n in elf.needed} if providers else {}
    )
    used = {(use.provider.name, use.provider.source) for use in _uses(context)}
    named: dict[tuple[str, str], list[Provider]] = {}
    for each in providers:
        named.setdefault((each.name, "" if each.name else each.source), []).append(each)
    for (name, source), own in sorted(named.items(), key=lambda item: item[0]):
        is_used = any(name == u[0] and (name or source == u[1]) for u in used)
        near = list(_near(own, providers, needed))
        if is_used and not near:
            continue
        yield Hit(
            message=f"nothing is taken from the provider `{own[0].label}`"
            if not is_used
            else f"a pattern of the provider `{own[0].label}` matches no library",
            entry=own[0].label,
            notes=tuple(f"`{glob}` does not match {_listed(found)}" for glob, _, found in near),
            hint=f"did you mean `{near[0][1]}`?" if near else None,
            severity=Severity.WARNING if near else None,
        )


def _near(
    own: Iterable[Provider], providers: Sequence[Provider], needed: Iterable[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the globs that match too little, what was probably meant, and what that matches."""
    names = [original_name(name) for name in needed]
    left = [name for name in dict.fromkeys(names) if provider_of(name, providers) is None]
    for glob in dict.fromkeys(glob for each in own if not each.at_hand for glob in each.libraries):
        better = suggest_pattern(glob, left)
        if better is not None and not any(fnmatchcase(name, glob) for name in needed):
            yield glob, *better


# --- What no wheel may bring ----------------------------------------------------------------------


@rule("WF825", "bundled-driver", Severity.WARNING)
def bundled_driver(context: Context) -> Iterator[Hit]:
    """The wheel brings a library that belongs to the driver or the display of the machine.

    ## What it does
    Reports libraries inside the wheel that are on the list of those that only the user's machine
    can have right: the NVIDIA driver's, OpenGL's dispatchers and drivers, GBM, libX11.
    `repair` never grafts them.

    ## Why is this bad?
    The copy does not fit the kernel module, or finds no driver, or keeps a second set of state
    in the process: `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`, a black window, a crash.

    ## Example
    `pkg.libs/libcuda-1a2b3c4d.so.1`, from a build container with a driver in it.

    ## Common causes
    - auditwheel grafts what the platform tag does not promise. **Solution**: `wheelfix repair` of
      the unrepaired wheel; or `--exclude libcuda.so.1`.

    ## Fix safety
    Not fixed: what needs the library was changed to need this copy. With the rule ignored, such
    libraries are grafted like any other.
    """
    for member, elf in context.wheel.elfs.items():
        name = posixpath.basename(member)
        reason = never_bundled(name) or never_bundled(elf.soname or "")
        if reason is not None and not elf.is_executable:
            yield Hit(
                message=f"brings `{name}`: {reason}",
                member=member,
                hint="leave it to the machine: repair the unrepaired wheel with `wheelfix repair`",
            )


RULES = (
    provider_not_searched,
    provider_beside,
    provider_not_required,
    provider_loosely_required,
    provider_lacks_library,
    provider_lacks_symbol,
    provider_unused,
    bundled_driver,
)


def given_by_others(wheel: Wheel, settings: Settings) -> tuple[str, ...]:
    """Return the DT_NEEDED entries that a provider gives, or that only the machine can give."""
    needed = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    return tuple(
        name
        for name in needed
        if provider_of(name, settings.provider) is not None
        or (leaves_drivers(settings) and never_bundled(name) is not None)
    )


class Taken(NamedTuple):
    """What a wheel takes from one provider."""

    provider: Provider
    libraries: tuple[str, ...]
    requirements: tuple[str, ...]
    """What METADATA asks of it, or else what the settings do."""
    optional: bool
    """Whether only an extra asks for it."""


def taken_from_others(wheel: Wheel, settings: Settings) -> Iterator[Taken]:
    """Yield what is taken from each provider that has a name."""
    context = Context(wheel=wheel, settings=settings)
    for uses in _by_provider(_uses(context)).values():
        provider = uses[0].provider
        required = _required(context, provider.name)
        yield Taken(
            provider=provider,
            libraries=tuple(dict.fromkeys(use.library for use in uses)),
            requirements=tuple(map(str, required)) or (provider.requirement,),
            optional=bool(required) and all(map(_only_extra, required)),
        )
