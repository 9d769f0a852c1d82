"""Whether the wheel lacks what its requirements may bring."""

from collections.abc import Collection, Iterable, Iterator

from packaging.utils import canonicalize_name

from wheelfix.grouping import flatten
from wheelfix.providers.model import Provided
from wheelfix.providers.well_known import options_to_search, well_known_libraries
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule
from wheelfix.rules.undefined_symbols import is_left
from wheelfix.settings import Settings, matches_any
from wheelfix.text import FEW, join_some


@rule("WF827", "left-to-requirements", Severity.NOTE)
def left_to_requirements(context: Context) -> Iterator[Hit]:
    """Wheel lacks libraries or symbols that its requirements may bring: not known without them.

    ## What it does
    Reports, once a wheel, the libraries in DT_NEEDED that are neither in the wheel nor promised by
    the platform tag, and that a distribution in `Requires-Dist` may bring: a search path leads into
    a folder in which the wheel installs nothing; the distribution is known to have the library, or
    has a name like it; or it is pinned to the version of the wheel, and may fill the same folder.
    So does it for undefined symbols if a source of the package opens the module of a required
    distribution with RTLD_GLOBAL. It is an error with `fail-on-unknown`, and a warning if the
    distribution is known to have the library, but no search path leads there, and no source names
    its module: an error, if it is not excluded, and no other distribution may load it before.

    ## Why is this bad?
    The import fails unless a requirement has the library, in a version with all symbols, and a
    search path leads there, or an import has loaded it before.

    ## Example
    PyQt6 has the search path `$ORIGIN/Qt6/lib` and requires PyQt6-Qt6, which installs the libraries
    there.

    ## Common causes
    - Libraries that several wheels share have a distribution of their own. **Solution**: nothing to
      do; `wheelfix check --deps` fetches the requirements and looks.

    ## Fix safety
    Not fixed. `repair` does not graft a library if a requirement is known to have it, or if a
    search path leads to a folder with the name of the requirement.
    """
    left = context.left
    symbols: set[str] = set()
    for unresolved in context.unresolved_symbols:
        if not unresolved.absent and is_left(context, unresolved):
            symbols.update(name for name, _ in unresolved.references)
    lacking = (*left.libraries, *sorted(symbols))
    unknown = [provider for provider in context.providers if provider.unknown]
    yield from without_wheel(unknown, lacking, context.settings)
    # The others were looked into.
    looked = {p.name for p in unknown}.issuperset(map(canonicalize_name, left.requirements))
    if not lacking or (looked and unknown and not left.unreached):
        return
    likely = dict.fromkeys((*filter(None, left.libraries.values()), *left.opened.values()))
    if not any(provider.version for provider in context.providers):  # none was looked into
        likely = likely or dict.fromkeys(left.requirements)
    dependents = list(flatten(context.dependents[name] for name in left.libraries))
    required, excluded = map(canonicalize_name, left.requirements), context.settings.exclude
    unreached = (name for name in left.unreached if not matches_any(name, excluded))
    members = flatten(map(context.dependents.__getitem__, unreached))
    unread = sorted(map(context.unread_import, context.objects_in_use.intersection(members)))
    is_sure = well_known_libraries().issuperset(required) and "" in unread
    bad = Severity.ERROR if is_sure or context.settings.fail_on_unknown else Severity.WARNING
    where = (
        f", and no search path leads to {join_some(left.unreached, 2)}" if left.unreached else ""
    )
    has = (
        f"{join_some(likely, FEW) if likely else 'a requirement'} "
        f"{'have' if len(likely) > 1 else 'has'} {join_some(lacking, 2)}"
    )
    is_known = left.unreached.keys() >= {*lacking}
    of_extra = left.of_extras.intersection(left.unreached.values())
    yield Hit(
        message=f"{has}, and no search path leads there"
        if is_known
        else f"whether {has} is not known{where}",
        entry=lacking[0],
        notes=(
            *([f"needed by {join_some(dependents, FEW)}"] if dependents else []),
            *filter(None, unread[:1]),
            *(
                [f"METADATA requires {join_some(sorted(of_extra))} only by an extra"]
                if of_extra
                else []
            ),
        ),
        hint=_what_decides(context, likely) or None,
        severity=bad if left.unreached or context.settings.fail_on_unknown else None,
    )


def _what_decides(context: Context, likely: Iterable[str]) -> str:
    left = context.left
    if left.unreached:
        each = (options_to_search(name, library) for library, name in left.unreached.items())
        options = " ".join(dict.fromkeys(each))
        # A wheel with a graft needs other options, too: this is not the whole command then.
        is_whole = context.verdict is None or not context.verdict.external
        command = f"`wheelfix repair {options}`" if is_whole else f"a repair with `{options}`"
        return f"{command} adds the search path"
    if likely and left.of_extras.issuperset(likely):  # `--deps` fetches nothing of an extra
        ways = " ".join(f"--with {name}" for name in likely)
        return f"`wheelfix check {ways}` decides it: only an extra requires it"
    is_by_url = bool(left.required) and all("@" in text for text in left.required)
    return "" if is_by_url else "`wheelfix check --deps` decides it"


def without_wheel(
    unknown: Iterable[Provided], lacking: Collection[str], settings: Settings
) -> Iterator[Hit]:
    """Yield what is asked for and has no wheel, with what the wheel lacks: each may have it."""
    for provider in unknown:
        yield Hit(
            message=provider.unknown_text,
            entry=provider.name,
            notes=(
                *([f"required by `{provider.through}`"] if provider.through else []),
                *([f"it may have {join_some(lacking, 2)}"] if lacking else []),
            ),
            hint=provider.build_advice,
            severity=Severity.ERROR if settings.fail_on_unknown else Severity.WARNING,
        )
