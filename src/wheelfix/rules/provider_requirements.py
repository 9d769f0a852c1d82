"""Whether METADATA requires the providers."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from packaging.requirements import InvalidRequirement, Requirement

from wheelfix.analysis.preload_plan import module_name
from wheelfix.analysis.providers import (
    ProviderUse,
    by_provider,
    is_for_extra,
    requirements_on,
)
from wheelfix.loader.install_schemes import split
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import Provider
from wheelfix.text import join_some
from wheelfix.wheel.edits import AddRequirement
from wheelfix.wheel.grafted_name import unhashed
from wheelfix.wheel.model import Key
from wheelfix.wheel.sure_imports import surely_imported

_LIBRARY_KEYS = (Key.PURELIB, Key.PLATLIB)


@rule("WF821", "provider-not-required", Severity.ERROR)
def provider_not_required(context: Context) -> Iterator[Hit]:
    """Requires-Dist lacks the distribution that provides the wheel's libraries.

    ## What it does
    Looks for each provider of the wheel's libraries in the `Requires-Dist` of METADATA. A provider
    that only an extra requires is information, or a warning if an `__init__.py` always imports a
    module that needs it. If other extension modules of the wheel do not need the provider, and no
    `__init__.py` always imports those that do, the proposed line has an extra.

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
    line is then added, with the available version as the minimum if the provider has none.
    Providers that only some modules need are never added.
    """
    for uses in by_provider(context.provider_uses).values():
        provider = uses[0].provider
        required = requirements_on(context.wheel, provider.name)
        if required and not all(is_for_extra(requirement) for requirement in required):
            continue
        if provider.through and requirements_on(context.wheel, provider.through):
            continue
        libraries = join_some(use.library for use in uses)
        sure, partly = _who_needs(context, uses)
        mild = Severity.WARNING if sure else Severity.INFO
        yield Hit(
            message=f"uses {libraries} of {provider.name}, but METADATA "
            + ("requires it only by an extra" if required else "does not require it"),
            member=f"{context.wheel.dist_info}/METADATA",
            entry=provider.name,
            notes=(
                f"needed by {join_some(use.member for use in uses)}",
                *([f"an `__init__.py` always imports {join_some(sure)}"] if sure else []),
                *(["other modules of the wheel do not need it"] if partly else []),
            ),
            hint=_how_to_ask(provider.to_require, partly=partly) if not required else None,
            fix=_asking(context, provider.to_require) if not required and not partly else None,
            severity=mild if required else None,
        )


def _who_needs(context: Context, uses: Iterable[ProviderUse]) -> tuple[list[str], bool]:
    """Return the always imported modules that need it, and whether others do without."""
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
    """Return the hint that says what to add, and where."""
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
    """Return the fix that adds the line, if requested and if METADATA can be read."""
    if not context.settings.add_requires or context.wheel.metadata.problem is not None:
        return None
    return Fix(title="add the Requires-Dist line", edits=(AddRequirement(requirement=line),))


@rule("WF822", "provider-loosely-required", Severity.WARNING)
def provider_loosely_required(context: Context) -> Iterator[Hit]:
    """Requires-Dist allows provider versions that may not work.

    ## What it does
    Compares the specifier of `Requires-Dist` with that of the `provider`, and with the available
    version. Without either, it reports a missing specifier.

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
        tied = [use for use in uses if unhashed(use.library) is not None and use.provider.version]
        provider = _exactly(tied[0].provider) if tied else uses[0].provider
        required = requirements_on(context.wheel, provider.name)
        for requirement in required:
            if problem := _looseness(provider, requirement):
                yield Hit(
                    message=f"METADATA requires `{requirement}`: {problem}",
                    member=f"{context.wheel.dist_info}/METADATA",
                    entry=provider.name,
                    notes=tuple(_reasons(uses, tied)),
                    hint=f"such as `{provider.to_require}`",
                )
        if tied and not required and provider.through:
            yield Hit(
                message=f"METADATA requires {provider.name} only through {provider.through}",
                member=f"{context.wheel.dist_info}/METADATA",
                entry=provider.name,
                notes=tuple(_reasons(uses, tied)),
                hint=f'add "{provider.to_require}" to `dependencies` in pyproject.toml',
            )


def _exactly(provider: Provider) -> Provider:
    return replace(provider, requirement=f"{provider.name}=={provider.version}")


def _reasons(uses: Iterable[ProviderUse], tied: Sequence[ProviderUse]) -> Iterator[str]:
    yield f"the wheel uses {join_some(use.library for use in uses)}"
    if tied:
        yield (
            f"the hash in `{tied[0].library}` is that of the available build: a version with "
            "another build of the library has another file name"
        )


def _looseness(provider: Provider, required: Requirement) -> str | None:
    specifier = required.specifier
    if provider.version and not specifier.contains(provider.version, prereleases=True):
        return f"that excludes the available version {provider.version}, which was not checked"
    try:
        known = Requirement(provider.requirement).specifier
    except InvalidRequirement:
        return f"the provider's `{provider.requirement}` is not a valid requirement"
    if not str(specifier):
        return "that allows any version, but SONAMEs and symbols differ between versions"
    for version in _probes(str(clause.version) for clause in (*specifier, *known)):
        if specifier.contains(version, prereleases=True) and not known.contains(
            version, prereleases=True
        ):
            return f"that allows {version}, which `{provider.requirement}` does not"
    return None


def _probes(bounds: Iterable[str]) -> Iterator[str]:
    """Yield versions around each bound: different specifiers differ for one of these."""
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
