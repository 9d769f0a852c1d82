"""Whether the configured providers are used."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from wheelfix.analysis.providers import provider_of, suggest_pattern
from wheelfix.grouping import grouped
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import Provider
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name


@rule("WF826", "provider-unused", Severity.INFO)
def provider_unused(context: Context) -> Iterator[Hit]:
    """Configured provider is unused.

    ## What it does
    Reports each `provider` without a library in DT_NEEDED. It is a warning if one of its patterns
    would match with an asterisk for the version, or nearly matches a name.

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
    # Providers found among the wheels of the run are not configured by the user.
    providers = [provider for provider in context.settings.provider if not provider.owner]
    used = {(use.provider.name, use.provider.source) for use in context.provider_uses}
    named = grouped(providers, lambda known: (known.name, "" if known.name else known.source))
    for (name, source), own in sorted(named.items(), key=lambda item: item[0]):
        is_used = any(name == u[0] and (name or source == u[1]) for u in used)
        near = list(_near(own, providers, context.dependents))
        if is_used and not near:
            continue
        yield Hit(
            message=f"no library of the provider `{own[0].label}` is used"
            if not is_used
            else f"a pattern of the provider `{own[0].label}` matches no library",
            entry=own[0].label,
            notes=tuple(f"`{glob}` does not match {join_some(found)}" for glob, _, found in near),
            hint=f"did you mean `{near[0][1]}`?" if near else None,
            severity=Severity.WARNING if near else None,
        )


def _near(
    own: Iterable[Provider], providers: Sequence[Provider], needed: Iterable[str]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Yield the globs that match no library, the probably intended glob, and what it matches."""
    names = [original_name(name) for name in needed]
    left = [name for name in dict.fromkeys(names) if provider_of(name, providers) is None]
    for glob in dict.fromkeys(
        glob for provider in own if not provider.path for glob in provider.libraries
    ):
        better = suggest_pattern(glob, left)
        if better is not None and not any(fnmatchcase(name, glob) for name in needed):
            yield glob, *better
