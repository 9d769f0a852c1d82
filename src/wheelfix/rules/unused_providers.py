"""Whether the configured providers are used."""

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from wheelfix.analysis.pattern_suggestions import suggest_pattern
from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import grouped
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import provider_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import matches_any
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name, short_names


@rule("WF826", "provider-unused", Severity.NOTE)
def provider_unused(context: Context) -> Iterator[Hit]:
    """Configured provider is unused.

    ## What it does
    Reports each `provider` without a library in DT_NEEDED. It is a warning if one of its patterns
    would match a library of that name with an asterisk for the version.

    ## Why is this bad?
    If a pattern lacks its asterisk, the library is grafted after all. Hundreds of megabytes for
    CUDA libraries.

    ## Example
    `libraries = ["libcublas.so"]`, and the object needs `libcublas.so.12`.

    ## Common causes
    - No asterisk for the version. **Solution**: `libcublas.so.*`.
    - The library is opened by name, not linked. **Solution**: nothing to do.

    ## Fix safety
    Not fixed.
    """
    # Other wheels of the run are not configured by the user.
    providers = [provider for provider in context.providers if provider.setting is not None]
    used = {use.provider.called for use in context.provider_uses}
    needed, excluded = map(original_name, context.dependents), context.settings.exclude
    unserved = (name for name in needed if provider_of(name, providers) is None)
    left = [name for name in dict.fromkeys(unserved) if not matches_any(name, excluded)]
    named = grouped(providers, lambda provider: provider.called)
    for name, versions in sorted(named.items()):
        is_used = name in used
        near = list(_near(versions, left, context.dependents))
        if is_used and not near:
            continue
        yield Hit(
            message=f"no library of the provider `{versions[0].label}` is used"
            if not is_used
            else f"a pattern of the provider `{versions[0].label}` matches no library",
            entry=versions[0].label,
            notes=tuple(f"`{glob}` does not match {join_some(names)}" for glob, _, names in near),
            hint=f"did you mean `{near[0][1]}`?" if near else None,
            severity=Severity.WARNING if near else None,
        )


def _near(
    own: Iterable[Provided], left: Iterable[str], needed: Iterable[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the globs that match no library, the probably intended glob, and what it matches."""
    for glob in dict.fromkeys(
        glob
        for provider in own
        if not provider.places
        for folder in provider.folders
        for glob in folder.libraries
    ):
        stem = stem_of(glob)
        alike = [n for n in left if any(fnmatchcase(short, stem) for short in short_names(n))]
        better = suggest_pattern(glob, alike)
        if better is not None and not any(fnmatchcase(name, glob) for name in needed):
            yield glob, *better
