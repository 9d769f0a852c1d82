"""The plan of a repair: which libraries to graft, which edits to make, and what would remain.

Nothing is written, except private copies of libraries if the planner's analyst makes them, and no
program is run. `repair` carries the plan out; `check` asks it what a repair would fix.
"""

import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from fnmatch import fnmatchcase
from functools import cache, partial
from glob import escape

from wheelfix.analysis.loaded_wheel import LoadedWheel
from wheelfix.analysis.policies import oldest_with
from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.ungraftable_libraries import Beside
from wheelfix.errors import ToolError, WheelfixError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.library_search import GivenLibraries, HostLibraries, libraries_defining
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.provider_lookup import find_providers
from wheelfix.host.provider_objects import neighbors_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines import auditwheel_decisions as asking
from wheelfix.pipelines import graft as grafting
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.graft import Graft, GraftedLibrary, places_of
from wheelfix.pipelines.graft_included import (
    included_libraries,
    inclusion_edits,
    keep_search_paths,
)
from wheelfix.pipelines.repair_refusals import (
    NO_OBJECT,
    either_or_error,
    no_object_error,
    refuse_edited_objects,
    refuse_false_record,
    refuse_other_platform,
    refuse_other_system,
    refuse_pure,
    refuse_several_of_android,
    refuse_symbols_of_nothing,
)
from wheelfix.providers.model import Provided
from wheelfix.providers.well_known import Leaving, ways_to_leave, with_options
from wheelfix.rules.auditwheel_verdict import broken_promises
from wheelfix.rules.bundled_drivers import libraries_provided_elsewhere
from wheelfix.rules.bundled_not_found import gaps_of_repair
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Finding, PlannedEdit
from wheelfix.rules.fix_plan import (
    apply_fixes_until_stable,
    may_apply,
    plan_in_order,
    without_cancelled,
)
from wheelfix.rules.registry import enabled_rules, fixing_rules
from wheelfix.rules.rule import Rule
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.rules.run_rules import broken, run_rules, stopping
from wheelfix.rules.undefined_symbols import (
    failing_loads,
    newer_version,
    undefined_symbol,
)
from wheelfix.settings import Patcher, PruneNeeded, Settings, StripLevel
from wheelfix.text import join_some, pasteable
from wheelfix.wheel.edits import DropNeeded, Strip
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import has_local_tag
from wheelfix.wheel.record import with_record, with_true_record

Progress = Callable[[str], None]


def silent(_step: str) -> None:
    """Ignore the progress of a repair."""


class Planner(NamedTuple):
    """What plans the repair of one wheel."""

    read: Context
    """The wheel as read; its definitions are those of `libraries`."""
    libraries: HostLibraries
    """The symbols that the original wheel and this machine's libraries define."""
    analyst: Analyst
    beside: Sequence[Provided]
    """The other wheels of the run."""
    progress: Progress = silent
    last: bool = False
    """Whether grafted libraries load the last of several of one name, as in auditwheel's repair."""
    kept: tuple[str, ...] = ()
    """Patterns of unused entries that lead the graft to other libraries."""


def planner_of(
    analyst: Analyst,
    settings: Settings,
    beside: Sequence[Provided],
    progress: Progress = silent,
) -> Planner:
    """Return the planner for the wheel of `analyst`, `beside` the other wheels of the run.

    Raises `SettingsError` for a provider that is not found.
    """
    libraries, archive = analyst.libraries, analyst.libraries.archive
    wheel = with_record(archive.wheel) if settings.trust_files else archive.wheel
    providers = find_providers(settings.provider, wheel, libraries.host, beside)
    libraries = libraries.beside(providers)
    read = context_of(wheel, settings, providers, libraries)
    return Planner(read, libraries, analyst, beside, progress)


def context_of(
    wheel: Wheel, settings: Settings, providers: tuple[Provided, ...], libraries: GivenLibraries
) -> Context:
    """Return what rules may ask about a wheel, beside `providers` whose `libraries` were read."""
    return Context(
        wheel=wheel,
        settings=settings,
        providers=providers,
        neighbors=cache(partial(neighbors_of, wheel, providers)),
        budget=libraries.archive.budget,
        definitions=libraries,
        linkable=libraries_defining,
    )


@frozen
class Plan:
    """All decisions, before anything is written."""

    after: Context
    """The wheel with all edits."""
    edits: tuple[PlannedEdit, ...]
    stages: Mapping[str, Context] = field(default_factory=dict[str, Context])
    """The wheel as read, and as each stage of the repair left it."""
    excluded: tuple[str, ...] = ()
    """Names and paths of what was kept out, if a pattern may be for paths of this machine."""
    unmatched_excludes: tuple[str, ...] = ()
    grafted: tuple[GraftedLibrary, ...] = ()
    messages: tuple[str, ...] = ()
    included: tuple[str, ...] = ()
    """The names of the grafted libraries that the settings ask for."""


def verdict_of(planner: Planner, wheel: Wheel, excluded: Sequence[str] = ()) -> Verdict | None:
    """Return the verdict on `wheel`; None for a pure wheel, or if the settings say so."""
    settings = planner.read.settings
    if wheel.is_pure or not settings.verdict:
        return None
    return planner.analyst.verdict(wheel, settings, provided_patterns(planner, wheel, excluded))


def provided_patterns(
    planner: Planner, wheel: Wheel, excluded: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the patterns of libraries that count as provided; `excluded` by their paths."""
    elsewhere = libraries_provided_elsewhere(replace(planner.read, wheel=wheel))
    return (*planner.read.settings.exclude, *excluded, *elsewhere)


def judged_context(planner: Planner, plan: Plan, wheel: Wheel) -> Context:
    """Return the context in which the rules judge `wheel`, which the plan makes."""
    if plan.edits or wheel.record_problems:
        wheel = with_true_record(wheel)
    return replace(
        plan.after,
        wheel=wheel,
        verdict=verdict_of(planner, wheel, plan.excluded),
        unmatched_excludes=plan.unmatched_excludes,
    )


# --- Deciding -------------------------------------------------------------------------------------


def accept(planner: Planner) -> tuple[GraftedLibrary, ...]:
    """Return the libraries that the settings include, for a wheel of which a plan can be made.

    Raises `WheelfixError` for another wheel.
    """
    wheel, settings = planner.read.wheel, planner.read.settings
    refuse_symbols_of_nothing(settings)
    refuse_other_system(wheel)
    refuse_several_of_android(wheel)
    refuse_other_platform(wheel.name, settings.plat, wheel)
    if wheel.broken_elfs and not wheel.elfs:
        raise no_object_error(wheel, settings.plat)
    included = included_libraries(wheel, settings, planner.libraries, planner.analyst.library)
    if not included:
        refuse_pure(wheel, settings)
    refuse_false_record(wheel, settings)
    return included


def decide(planner: Planner, included: Sequence[GraftedLibrary]) -> Plan:
    """Return the plan for an accepted wheel. Raises `WheelfixError` if it cannot be repaired.

    Objects that share a grafted library may find several files for a name that it needs: it gets
    the one with which more loads of the wheel get all that they need.
    """
    plan = _decide(planner, included)
    names = Counter(library.original for library in plan.grafted)
    if not any(several := [name for name, number in names.items() if number > 1]):
        return plan
    try:
        other = _decide(planner._replace(last=True, progress=silent), included)
    except WheelfixError:
        return plan
    theirs, ours = failing_loads(other.after), failing_loads(plan.after)
    own = planner.read.wheel.elfs.keys()
    first, second = (theirs - ours) & own, (ours - theirs) & own
    if first and second:
        raise either_or_error(several, sorted(first), sorted(second))
    return other if theirs < ours else plan


def _decide(planner: Planner, included: Sequence[GraftedLibrary]) -> Plan:
    read = planner.read
    settings = read.settings
    fixing = fixing_rules(settings, load_rules())
    start, including = _plan_inclusion(read, included)
    if start.wheel.is_pure:
        after, edits = apply_fixes_until_stable(read.at_stage(Stage.AFTER), fixing)
        return Plan(after=after, edits=edits, messages=(NO_OBJECT,))
    before = tuple(rule for rule in fixing if rule.stage is Stage.BEFORE)
    keep = replace(settings, keep_needed=(*settings.keep_needed, *planner.kept))
    pruned, early, kept = _prune(replace(start, settings=keep).at_stage(Stage.BEFORE), before)
    excluded = _excluded_by_path(planner, pruned.wheel)
    try:
        graft, grafting_steps = _graft(planner, pruned.wheel, included, excluded)
    except ToolError:
        keeping = _keeping(planner, early)
        if keeping is not None:
            with suppress(ToolError):
                return _decide(keeping, included)
        raise
    grafted = pruned.after([step.edit for step in grafting_steps])
    further: tuple[PlannedEdit, ...] = ()
    # What was needed for the graft alone can go now: a second repair would find it.
    if kept or planner.kept:
        again = replace(grafted, settings=settings)
        grafted, further, kept = _prune(again.at_stage(Stage.BEFORE), before)
    fixed, late = apply_fixes_until_stable(
        grafted.at_stage(Stage.AFTER), fixing, lambda now: gaps_of_repair(now, read.wheel)
    )
    strips = _strip(fixed.wheel, settings)
    stripped = fixed.after([step.edit for step in strips])
    made = (*including, *early, *grafting_steps, *further, *late)
    edits = without_cancelled(made, read.wheel, fixed.wheel)
    if settings.patcher is Patcher.NONE:
        refuse_edited_objects(edits)
    edits = (*edits, *strips)
    return Plan(
        after=stripped,
        edits=edits,
        stages={"read": read, "prune": pruned, "graft": grafted, "search paths": fixed},
        excluded=excluded,
        unmatched_excludes=_unmatched_patterns(
            settings.exclude, grafted.wheel, {*read.wheel.needed, *graft.excluded, *excluded}
        ),
        grafted=(*included, *graft.libraries),
        included=tuple(library.original for library in included),
        messages=(*kept, *graft.messages, *_idle_patterns(settings.drop_needed, read.wheel, made)),
    )


def _prune(
    start: Context, rules: Sequence[Rule]
) -> tuple[Context, tuple[PlannedEdit, ...], tuple[str, ...]]:
    """Drop what must not be grafted; return the context, the edits, and what stays nevertheless.

    A repair that leaves a symbol undefined would be rejected: so the entries of that load stay. So
    do those through which a library is found that others then find under another path, and those
    of libraries that define what some object lacks as built: it may be loaded after them, for all.
    """
    pruned, steps = apply_fixes_until_stable(start, rules)
    dropped = [e for e, code, *_ in steps if isinstance(e, DropNeeded) and code == "WF201"]
    loaded, after = start.loaded_wheel, pruned.loaded_wheel
    if not dropped or loaded is None or after is None:
        return pruned, steps, ()
    names = dict(_lacked_elsewhere(start, loaded, dropped))
    for path, why in _lost(start, pruned, loaded, after).items():
        for load in loaded.loads.values():
            if path in load.objects:
                inside = (drop for drop in dropped if loaded.paths.get(drop.member) in load.objects)
                names |= {drop.name: why for drop in inside}
    if not names:
        return pruned, steps, ()
    keep = (*start.settings.keep_needed, *map(escape, names))
    again = replace(start, settings=replace(start.settings, keep_needed=keep))
    messages = [f"DT_NEEDED keeps `{original_name(name)}`: {why}" for name, why in names.items()]
    return *apply_fixes_until_stable(again, rules), tuple(messages)


def _keeping(planner: Planner, pruning: Iterable[PlannedEdit]) -> Planner | None:
    """Return the planner that keeps unused entries: what they name may lead to other libraries.

    None if `pruning` drops none that were not kept before.
    """
    names = {e.name for e, code, *_ in pruning if isinstance(e, DropNeeded) and code == "WF201"}
    new = {*map(escape, names)}.difference(planner.kept)
    return planner._replace(kept=(*planner.kept, *sorted(new))) if new else None


def _lacked_elsewhere(
    start: Context, loaded: LoadedWheel, dropped: Iterable[DropNeeded]
) -> Iterator[tuple[str, str]]:
    """Yield those of the dropped names whose library defines an undefined symbol, with why.

    Or an object that lacks a symbol needs this library of the wheel: perhaps another build has it.
    """
    lacking = {name: s.member for s in start.unresolved_symbols for name, _ in s.references}
    for edit in dropped if lacking else ():
        outside = loaded.machine.found.get(loaded.paths.get(edit.member, ""), {})
        inside = loaded.machine.shipped.get(edit.name, "")
        library = outside.get(edit.name) or loaded.libraries.get(inside)
        defined = lacking.keys() & library.exports.definitions.keys() if library else ()
        for symbol in sorted(defined)[:1]:
            yield edit.name, f"`{lacking[symbol]}` uses `{symbol}`, and loads nothing that has it"
        mine = (s for s in start.unresolved_symbols if s.member == edit.member and not s.absent)
        for symbol, _ in flatten(s.references for s in mine if inside in loaded.members):
            yield edit.name, f"`{edit.member}` uses `{symbol}`, which another build may have"


def _lost(
    start: Context, pruned: Context, loaded: LoadedWheel, after: LoadedWheel
) -> dict[str, str]:
    """Return the paths whose loads stay as they are, each with its reason."""
    lost = {
        path: f"through it, others find `{path}`"
        for path in loaded.machine.displaced(after.machine)
    }
    if pruned.unresolved_symbols:
        undefined = broken(pruned, [undefined_symbol]) - broken(start, [undefined_symbol])
        for _, member, symbol in sorted(undefined, key=str):
            lost[loaded.paths.get(member or "", "")] = f"`{symbol}` may need it"
    return lost


def _plan_inclusion(
    read: Context, included: Sequence[GraftedLibrary]
) -> tuple[Context, tuple[PlannedEdit, ...]]:
    edits = inclusion_edits(included, read.wheel)
    _, steps = plan_in_order(read.wheel, edits, "graft", "include a library that is opened by name")
    return read.after([step.edit for step in steps]), steps


def _graft(
    planner: Planner, wheel: Wheel, included: Sequence[GraftedLibrary], excluded: Sequence[str]
) -> tuple[Graft, tuple[PlannedEdit, ...]]:
    """Decide what to graft, unless the wheel is repaired already."""
    settings = planner.read.settings
    planner.progress("judging")
    if is_repaired(wheel, settings, partial(verdict_of, planner, wheel, excluded)):
        return Graft(tags=grafting.tags_of(wheel)), ()
    planner.progress("grafting")
    read, bare = planner.read, keep_search_paths(wheel, included)
    excluding = replace(settings, exclude=(*settings.exclude, *read.never_grafted))
    beside = Beside(read.providers, read.left.unreached)
    whole = asking.graft(planner.analyst, bare, excluding, beside, last=planner.last)
    read.budget.add_grafts(len(whole.libraries))
    graft = grafting.keep_names(whole, settings.keep_names)
    _, steps = plan_in_order(
        wheel,
        grafting.edits(graft, wheel),
        "graft",
        "graft libraries that the platform does not provide",
    )
    return graft, steps


def _excluded_by_path(planner: Planner, wheel: Wheel) -> tuple[str, ...]:
    """Return the names and paths of what is excluded, if there may be a pattern for paths.

    The repaired objects no longer have the absolute search paths that lead there.
    """
    exclude = planner.read.settings.exclude
    if not wheel.elfs or not any(pattern.startswith(("/", "*", "?", "[")) for pattern in exclude):
        return ()
    return tuple(sorted(planner.analyst.analyze(wheel, planner.read.settings, exclude).excluded))


def way_without_unused(planner: Planner, included: Sequence[GraftedLibrary]) -> str:
    """Return the command that leaves unused libraries out, if the wheel then satisfies its tags.

    Empty if it does not, or if none is left out. Such libraries are grafted for what they do when
    they are loaded, and may need a newer platform.
    """
    settings = replace(planner.read.settings, prune_needed=PruneNeeded.ALL)
    read = replace(planner.read, settings=settings, memory=planner.read.memory.fork())
    planner = planner._replace(read=read, progress=silent)
    try:
        plan = decide(planner, included)
        verdict = verdict_of(planner, plan.after.wheel, plan.excluded)
    except WheelfixError:
        return ""
    edits = (step.edit for step in plan.edits if step.code == "WF201")
    names = dict.fromkeys(edit.name for edit in edits if isinstance(edit, DropNeeded))
    if not names or verdict is None or broken_promises(plan.after.wheel, verdict):
        return ""
    words = " ".join(f"--drop-needed {shlex.quote(pasteable(escape(n)))}" for n in names)
    return f"no symbol of {join_some(names)} is used: `wheelfix repair {words}`"


def leaving(planner: Planner, plan: Plan, found: Sequence[Finding]) -> Leaving:
    """Return how to leave what `plan` grafts to the other wheels that have it, as planned.

    `found` are the findings of the wheel as read. None if a lock says what to graft.
    """
    read, libraries = planner.read, planner.analyst.libraries

    def is_left(names: Collection[str], options: str) -> bool:
        alone = replace(libraries, archive=libraries.archive.with_own_budget())
        settings = with_options(read.settings, options)
        with suppress(WheelfixError):
            other = planner_of(Analyst(alone), settings, planner.beside)
            then = decide(other, accept(other))
            judged = judged_context(other, then, then.after.wheel)
            left = run_rules(judged, enabled_rules(settings, load_rules()))
            is_searched = all(finding.code != "WF106" for finding in left)
            grafts = {graft.original for graft in then.grafted}
            return is_searched and grafts.isdisjoint(names) and not stopping(left, found)
        return False

    grafted = () if read.settings.locked else [graft.original for graft in plan.grafted]
    return ways_to_leave(grafted, read.wheel, read.left.unreached, is_left)


def offer_other_ways(
    planner: Planner, findings: Sequence[Finding], verdict: Verdict | None
) -> tuple[Finding, ...]:
    """Return `findings` on a planned wheel without the fixes that it has; with other ways."""
    settings = planner.read.settings
    findings = tuple(
        replace(f, fix=None) if f.fix and may_apply(f, f.fix, settings) else f for f in findings
    )
    if verdict is None or {"WF301", "WF801"}.isdisjoint(finding.code for finding in findings):
        return findings
    way = without_tag = ""
    if any(finding.code == "WF801" for finding in findings):
        findings = tuple(_of_grafts(planner, f) if f.code == "WF801" else f for f in findings)
        way = way_without_unused(planner, accept(planner))
        if settings.update_tags and not verdict.external:
            without_tag = _with_tag(verdict.overall)
    return tuple(
        replace(finding, hint="; or, ".join(filter(None, (way, finding.hint, without_tag))))
        if finding.code == "WF801"
        else replace(finding, hint="; or, ".join(filter(None, (finding.hint, newer))))
        if finding.code == "WF301"
        and settings.update_tags
        and (newer := _with_newer_tag(finding, verdict))
        else finding
        for finding in findings
    )


def _of_grafts(planner: Planner, finding: Finding) -> Finding:
    """Return a finding on the tag that says so if the wheel's own objects keep it."""
    verdict = verdict_of(planner, planner.read.wheel)
    if verdict is None or not verdict.libraries_alone:
        return finding
    where = (finding.hint or "").replace(
        "build in an image as old as that", "repair the wheel in an image as old as that"
    )
    return replace(finding, message=f"{finding.message} with what is grafted from here", hint=where)


def _with_tag(tag: str) -> str:
    """Return the way to give up a tag for another one; empty without one."""
    if not tag or has_local_tag([tag]):
        return ""
    return f"give the tag up: `wheelfix repair --only-plat --plat {tag}`"


def _with_newer_tag(finding: Finding, verdict: Verdict) -> str:
    """Return the way for a symbol of the platform that is newer than the tag."""
    version = newer_version(finding)
    return _with_tag(oldest_with(version, verdict.overall, read_policies()) if version else "")


def placed_grafts(plan: Plan) -> Iterator[GraftedLibrary]:
    """Yield the grafted libraries that are in the planned wheel, with their places."""
    wheel = plan.after.wheel
    edits = [step.edit for step in plan.edits]
    present, dependents = wheel.member_names, wheel.dependents
    for library in plan.grafted:
        places = [place for place in places_of(library.member, edits) if place in present]
        if places:
            yield library._replace(
                member=places[0],
                copies=tuple(places[1:]),
                dependents=tuple(dependents.get(library.soname, ())),
            )


def is_repaired(wheel: Wheel, settings: Settings, judge: Callable[[], Verdict | None]) -> bool:
    """Return whether the wheel has the platform tag that is asked for, and deserves it."""
    platforms = wheel.name.platforms
    if has_local_tag(platforms):
        return False
    if settings.plat not in {"auto", *platforms}:
        return False
    verdict = judge()
    return verdict is None or not broken_promises(wheel, verdict)


def _strip(wheel: Wheel, settings: Settings) -> tuple[PlannedEdit, ...]:
    keeps_symtab = settings.strip is StripLevel.DEBUG
    edits = [
        Strip(member=member, keeps_symtab=keeps_symtab)
        for member, elf in wheel.elfs.items()
        if settings.strip is not StripLevel.OFF
        and elf.dynamic
        and (elf.debug_size or (elf.symtab and not keeps_symtab))
    ]
    return plan_in_order(wheel, edits, "strip", "strip symbols")[1]


def _unmatched_patterns(
    patterns: Sequence[str], wheel: Wheel, excluded: Collection[str]
) -> tuple[str, ...]:
    """Return the exclude patterns that match neither a DT_NEEDED entry nor a grafted file.

    Those that match a name without a version, and leave one with a version to the graft, too.
    """
    names = wheel.needed | {*excluded}
    shipped = {member.rpartition("/")[2] for member in wheel.elfs}
    others = {original_name(name) for name in names} - shipped
    left = [name for name in others if not any(fnmatchcase(name, glob) for glob in patterns)]
    idle: list[str] = []
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        versioned = tuple(f"{name}." for name in matched)
        bare = all(name.endswith(".so") for name in matched)
        if not matched or (bare and any(name.startswith(versioned) for name in left)):
            idle.append(pattern)
    return tuple(idle)


def _idle_patterns(
    patterns: Sequence[str], wheel: Wheel, edits: Iterable[PlannedEdit]
) -> Iterator[str]:
    """Yield a message for each pattern of `drop-needed` by which no entry is dropped."""
    dropped = {step.edit.name for step in edits if isinstance(step.edit, DropNeeded)}
    needed = wheel.needed
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in dropped):
            known = any(fnmatchcase(name, pattern) for name in needed)
            why = "is unused" if known else "is in the wheel"
            yield f"`drop-needed`: no DT_NEEDED entry that matches `{pattern}` {why}"
