"""Whether METADATA requires the providers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement

from wheelfix.analysis.preload_plan import module_name
from wheelfix.analysis.provider_uses import (
    ProviderUse,
    by_provider,
    is_for_extra,
    requirements_on,
)
from wheelfix.loader.install_schemes import Key, split
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import Provider
from wheelfix.wheel.edits import AddRequirement
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.python_imports import surely_imported

_SHOWN = 5
_LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)
_DEEP = "/" + "/".join("abcdefghijklmnopqrstuvwxyz")


@rule("WF821", "provider-not-required", Severity.ERROR)
def provider_not_required(context: Context) -> Iterator[Hit]:
    """Requires-Dist lacks the distribution that provides the wheel's libraries.

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
    for uses in by_provider(context.provider_uses).values():
        provider = uses[0].provider
        required = requirements_on(context.wheel, provider.name)
        if required and not all(is_for_extra(each) for each in required):
            continue
        if provider.through and requirements_on(context.wheel, provider.through):
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
            hint=_how_to_ask(provider.to_require, partly=partly) if not required else None,
            fix=_asking(context, provider.to_require) if not required and not partly else None,
            severity=mild if required else None,
        )


def _who_needs(context: Context, uses: Iterable[ProviderUse]) -> tuple[list[str], bool]:
    """Return the modules that need it and are surely imported, and whether others do without."""
    wheel = context.wheel
    names = {m: ".".join(parts) for m in wheel.elfs if (parts := module_name(m, wheel))}
    import_points = {
        door for use in uses for door in context.preload_plan.entry_modules.get(use.member, ())
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
    """Requires-Dist allows provider versions that may not work.

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
    for uses in by_provider(context.provider_uses).values():
        tied = [use for use in uses if unhashed(use.library) is not None and use.provider.version]
        provider = _exactly(tied[0].provider) if tied else uses[0].provider
        required = requirements_on(context.wheel, provider.name)
        for each in required:
            if problem := _looseness(provider, each):
                yield Hit(
                    message=f"METADATA asks for `{each}`: {problem}",
                    member=f"{context.wheel.dist_info}/METADATA",
                    entry=provider.name,
                    notes=tuple(_reasons(uses, tied)),
                    hint=f"such as `{provider.to_require}`",
                )
        if tied and not required and provider.through:
            yield Hit(
                message=f"METADATA asks for {provider.name} by way of {provider.through} only",
                member=f"{context.wheel.dist_info}/METADATA",
                entry=provider.name,
                notes=tuple(_reasons(uses, tied)),
                hint=f'add "{provider.to_require}" to `dependencies` in pyproject.toml',
            )


def _exactly(provider: Provider) -> Provider:
    return replace(provider, requirement=f"{provider.name}=={provider.version}")


def _reasons(uses: Iterable[ProviderUse], tied: Sequence[ProviderUse]) -> Iterator[str]:
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


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in dict.fromkeys(names)]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


RULES = (provider_not_required, provider_loosely_required)
