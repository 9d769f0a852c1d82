"""Whether libraries of other wheels are opened before the modules that need them."""

from collections.abc import Iterable, Iterator

from wheelfix.analysis.preload_plan import shim_of
from wheelfix.analysis.preload_shim import has_hook, shim_source, with_hook
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.settings import ProviderBy
from wheelfix.wheel.edits import Edit, RemoveMember, WriteSource
from wheelfix.wheel.model import PRELOAD

_SHOWN = 5


def is_served(context: Context, member: str, libraries: Iterable[str]) -> bool:
    """Return whether `member` needs no search path entry for `libraries`: a shim opens them.

    What a shim is yet to open counts where that is asked for.
    """
    settings = context.settings
    if settings.provider_by is ProviderBy.BOTH:
        return False
    matches = provider_not_preloaded.matches
    chosen = any(map(matches, (*settings.select, *settings.extend_select)))
    asked = settings.provider_by is ProviderBy.PRELOAD and chosen
    asked = asked and not any(map(matches, settings.ignore))
    preloading = context.preloading
    return (asked and preloading.can_open(member)) or preloading.opens(member, libraries)


@rule("WF108", "provider-not-preloaded", Severity.ERROR)
def provider_not_preloaded(context: Context) -> Iterator[Hit]:
    """A module is imported before the library of another wheel that it needs was opened.

    ## What it does
    With `provider-by` set to `preload` or `both`, looks at the extension modules that need a
    library of a `provider`, themselves or by way of the wheel's other libraries: the package above
    must import a shim that opens it first. For the objects that no shim can serve, it says why.

    ## Why is this bad?
    A search path entry leads to the provider only where both are in one site-packages. And where
    the provider is not installed, the loader names a library, and nobody the distribution.

    ## Example
    `demo/_core.so` needs `libcublas.so.12`. The repair writes `demo/_wheelfix_preload.py`, and
    imports it at the beginning of `demo/__init__.py`. When `demo._core` is imported, and not
    before, the library is opened from wherever Python finds nvidia-cublas-cu12.

    ## Common causes
    - `provider-by` was changed, and the wheel not repaired since. **Solution**: `wheelfix repair`.
    - No shim can be: the wheel is for musl, the object is a program or is opened by its path, the
      package has no `__init__.py`, or shares it, or the library lacks symbols of another one that
      it does not need by name. **Solution**: none; an entry leads there.

    ## Fix safety
    Safe: Python finds the modules as before, nothing is opened before such a module is imported,
    and what is missing is no failure before the loader's own. The compiled form of a changed
    `__init__.py` goes.
    """
    if context.settings.provider_by is ProviderBy.ENTRY:
        return
    preloading = context.preloading
    for init, modules in preloading.lacking.items():
        opened = dict.fromkeys(name for module in modules for name in preloading.before[module])
        yield Hit(
            message=f"does not open {_listed(opened)} before {_listed(modules)}",
            member=init,
            hint=f"`wheelfix repair` writes `{PRELOAD}.py` beside it, with this provider",
            fix=Fix(title="open libraries before the import", edits=tuple(_edits(context, init))),
        )
    whys: dict[str, list[str]] = {}
    for member, why in preloading.outside.items():
        whys.setdefault(why, []).append(member)
    for why, members in whys.items():
        yield Hit(
            message=f"no shim can open libraries before {_listed(members)}: {why}",
            hint="a search path entry leads to the provider",
            severity=Severity.INFO,
        )


def _edits(context: Context, init: str) -> Iterator[Edit]:
    wheel, preloading = context.wheel, context.preloading
    wanted, there = preloading.wanted_shims[init], preloading.present_shims.get(init)
    shim = wanted if there is None else there.including(wanted)
    written = {shim_of(init): shim_source(shim)}
    yield WriteSource(
        member=shim_of(init),
        content=written[shim_of(init)],
        what=f"opens {_listed(shim.libraries)}",
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


def _listed(names: Iterable[str]) -> str:
    shown = [f"`{name}`" for name in names]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more


RULES = (provider_not_preloaded,)
