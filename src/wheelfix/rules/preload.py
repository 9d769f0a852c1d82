"""Whether libraries of other wheels are preloaded before the modules that need them."""

from collections.abc import Iterable, Iterator

from wheelfix.analysis.preload_plan import shim_of
from wheelfix.analysis.preload_shim import Shim, has_hook, shim_source, with_hook
from wheelfix.grouping import grouped
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import ProviderBy, Settings
from wheelfix.text import join_some
from wheelfix.wheel.edits import Edit, RemoveMember, WriteSource
from wheelfix.wheel.model import PRELOAD


def is_served(context: Context, member: str, libraries: Iterable[str]) -> bool:
    """Return whether `member` needs no search path entry for `libraries`: a shim preloads them.

    Libraries that the repair will preload count as well.
    """
    settings = context.settings
    if settings.provider_by is ProviderBy.BOTH:
        return False
    preloading = context.preload_plan
    asked = _preloads(settings) and preloading.can_open(member)
    return asked or preloading.opens(member, libraries)


def _preloads(settings: Settings) -> bool:
    """Return whether the repair writes shims for the libraries of providers."""
    matches = provider_not_preloaded.matches
    chosen = any(map(matches, (*settings.select, *settings.extend_select)))
    ignored = any(map(matches, settings.ignore))
    return settings.provider_by is not ProviderBy.ENTRY and chosen and not ignored


@rule("WF108", "provider-not-preloaded", Severity.ERROR)
def provider_not_preloaded(context: Context) -> Iterator[Hit]:
    """Extension module is imported before the library of another wheel is preloaded.

    ## What it does
    With `provider-by` set to `preload` or `both`, checks the extension modules that need a library
    of a `provider`, directly or through other libraries of the wheel: their package must import a
    shim that opens the library first. For objects where no shim is possible, it gives the reason.

    ## Why is this bad?
    A search path entry leads to the provider only if both are in the same site-packages. And if the
    provider is not installed, the error names only the library, not the distribution.

    ## Example
    `demo/_core.so` needs `libcublas.so.12`. The repair writes `demo/_wheelfix_preload.py`, and
    imports it at the beginning of `demo/__init__.py`. When `demo._core` is imported, and not
    before, the library is opened from the place where Python finds nvidia-cublas-cu12.

    ## Common causes
    - `provider-by` was changed after the last repair of the wheel. **Solution**: `wheelfix repair`.
    - No shim is possible: the wheel is for musl; the object is a program or is opened by its path;
      the package has no `__init__.py`, or shares it; or the library uses symbols of another one
      that is not in its DT_NEEDED. **Solution**: none; an RPATH entry is used instead.

    ## Fix safety
    Safe: Python finds the modules as before, no library is opened before such a module is imported,
    and missing libraries fail only where the loader would fail as well. The compiled bytecode of a
    changed `__init__.py` is removed.
    """
    if context.settings.provider_by is ProviderBy.ENTRY:
        return
    preloading = context.preload_plan
    for init, modules in preloading.lacking.items():
        opened = dict.fromkeys(name for module in modules for name in preloading.before[module])
        yield Hit(
            message=f"does not preload {join_some(opened)} before {join_some(modules)}",
            member=init,
            hint=f"`wheelfix repair` writes `{PRELOAD}.py` next to it, with this provider",
            fix=Fix(
                title="preload libraries before the import", edits=tuple(shim_edits(context, init))
            ),
        )
    outside = preloading.outside
    for why, members in grouped(outside, lambda member: outside[member]).items():
        yield Hit(
            message=f"no shim can preload libraries before {join_some(members)}: {why}",
            hint="an RPATH entry leads to the provider instead",
            severity=Severity.INFO,
        )


def shim_edits(context: Context, init: str) -> Iterator[Edit]:
    """Yield the edits that write the shim of the package with this `__init__.py`, and import it.

    It opens what the present shim opens, and what is wanted of providers and of the wheel's own
    libraries, so that two rules that need the shim write the same.
    """
    wheel, own = context.wheel, context.own_preloads
    shim = context.preload_plan.present_shims.get(init) or own.present_shims.get(init) or Shim()
    for plan in (*([context.preload_plan] if _preloads(context.settings) else ()), own):
        shim = shim.including(plan.wanted_shims.get(init, Shim()))
    written = {shim_of(init): shim_source(shim)}
    yield WriteSource(
        member=shim_of(init),
        content=written[shim_of(init)],
        what=f"opens {join_some(shim.libraries)}",
    )
    source = wheel.sources[init]
    hooked = None if has_hook(source) else with_hook(source)
    if hooked is not None:
        written[init] = hooked
        yield WriteSource(member=init, content=hooked, what=f"imports `{PRELOAD}` first")
    for member in wheel.members:
        folder, _, name = member.name.rpartition("/__pycache__/")
        if name and f"{folder}/{name.partition('.')[0]}.py" in written:
            yield RemoveMember(member=member.name)
