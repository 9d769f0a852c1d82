"""Whether the configured providers are used, and drivers left to the machine."""

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from wheelfix.analysis.providers import (
    never_bundled,
    provider_of,
    suggest_pattern,
)
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import Provider, Settings
from wheelfix.text import join_some
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel


@rule("WF826", "provider-unused", Severity.INFO)
def provider_unused(context: Context) -> Iterator[Hit]:
    """Configured provider is unused.

    ## What it does
    Reports each `provider` without a library in DT_NEEDED. It is a warning if one of its patterns
    would match with an asterisk for the version, or nearly matches a name.

    ## Why is this bad?
    If a pattern lacks its asterisk, the library is grafted after all: hundreds of megabytes for
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
    named: dict[tuple[str, str], list[Provider]] = {}
    for provider in providers:
        key = (provider.name, "" if provider.name else provider.source)
        named.setdefault(key, []).append(provider)
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
        glob for provider in own if not provider.at_hand for glob in provider.libraries
    ):
        better = suggest_pattern(glob, left)
        if better is not None and not any(fnmatchcase(name, glob) for name in needed):
            yield glob, *better


@rule("WF825", "bundled-driver", Severity.WARNING)
def bundled_driver(context: Context) -> Iterator[Hit]:
    """Wheel bundles a library of the machine's graphics driver or display.

    ## What it does
    Reports bundled libraries that must come from the user's machine: those of the NVIDIA driver,
    OpenGL dispatchers and drivers, GBM, libX11. `repair` never grafts them.

    ## Why is this bad?
    The copy does not match the kernel module, finds no driver, or has a second set of state in the
    process: `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`, a black window, a crash.

    ## Example
    `pkg.libs/libcuda-1a2b3c4d.so.1`, from a build container with a driver.

    ## Common causes
    - auditwheel grafts libraries that the platform tag does not allow. **Solution**: `wheelfix
      repair` of the unrepaired wheel; or `--exclude libcuda.so.1`.

    ## Fix safety
    Not fixed: the objects that need the library were already changed to need this copy. If the rule
    is ignored, such libraries are grafted like any other.
    """
    for member, elf in context.wheel.elfs.items():
        name = posixpath.basename(member)
        reason = never_bundled(name) or never_bundled(elf.soname or "")
        if reason is not None and not elf.is_executable:
            yield Hit(
                message=f"bundles `{name}`: {reason}",
                member=member,
                hint="leave it out: repair the unrepaired wheel with `wheelfix repair`",
            )


def leaves_drivers(settings: Settings) -> bool:
    """Return whether driver libraries are left out of the wheel, unless the rule is ignored."""
    return not any(map(bundled_driver.matches, settings.ignore))


def given_by_others(wheel: Wheel, settings: Settings) -> tuple[str, ...]:
    """Return the DT_NEEDED entries served by a provider, or only by the user's machine."""
    needed = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    return tuple(
        name
        for name in needed
        if provider_of(name, settings.provider) is not None
        or (leaves_drivers(settings) and never_bundled(name) is not None)
    )
