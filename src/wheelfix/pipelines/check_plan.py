"""The plan that tells a check what a repair would fix, with its settings and machine.

A finding keeps its fix only if the plan of that repair ends without it.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from wheelfix.errors import WheelfixError
from wheelfix.frozen import frozen
from wheelfix.host.library_search import HostLibraries
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.graft_lock import LOCK_FILE, read_lock, refuse_other_grafts
from wheelfix.pipelines.hinted_command import as_options, command_of, done_by, names_repair
from wheelfix.pipelines.repair_plan import (
    Plan,
    accept,
    decide,
    is_repaired,
    judged_context,
    leaving,
    offer_other_ways,
    placed_grafts,
    planner_of,
)
from wheelfix.providers.model import Provided
from wheelfix.providers.well_known import Leaving
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, Safety, Severity
from wheelfix.rules.registry import enabled_rules
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.rules.run_rules import run_rules, stopping
from wheelfix.settings import Settings
from wheelfix.text import by_number, first_of, join_plain
from wheelfix.wheel.edits import DropNeeded, MoveMember
from wheelfix.wheel.platform_tags import has_local_tag

_Key = tuple[str, str | None, str | None]
_Known = Sequence[Finding]
"""What the check has found, also what is suppressed."""


@frozen
class _Planned:
    """What the plan of a repair leaves of a wheel."""

    obstacle: str = ""
    """Why the repair writes nothing; empty if it does."""
    errors: frozenset[str] = frozenset()
    """Codes of the errors that stop the repair; empty if no plan was made."""
    advice: Sequence[str] = ()
    """What to do about the obstacle."""
    spoiled: str = ""
    """What the check would find wrong of the repaired wheel alone: for `--target`, say."""
    left: Sequence[str] = ()
    """Codes of the errors of the repaired wheel."""
    remaining: frozenset[_Key] = frozenset()
    moved: Mapping[str, str] = field(default_factory=dict[str, str])
    """Members -> their new names."""
    dropped: frozenset[tuple[str, str]] = frozenset()
    """Members, each with a DT_NEEDED entry that goes from it."""
    grafted: Sequence[GraftedLibrary] = ()
    to_leave: Leaving = Leaving()
    tags: Sequence[str] = ()


class RepairCall(NamedTuple):
    """The call of `wheelfix repair` that a check plans."""

    wheel: Path
    """As the user named it."""
    settings: Settings
    """Those of the check without what only its command line says."""
    folder: Path
    """Where relative paths start."""
    libraries: HostLibraries
    beside: Sequence[Provided]


def keep_planned_fixes(
    findings: Sequence[Finding], context: Context, call: RepairCall, every: Iterable[Finding]
) -> tuple[Finding, ...]:
    """Return `findings` with only the fixes that a repair carries out; others say why not.

    `context` is that of the check, `every` are its findings with those that are suppressed.
    Nothing is planned if no finding has a fix.
    """
    kinds = {finding.fix.safety for finding in findings if finding.fix is not None}
    known = tuple(every)
    plans = {safety: _plan(safety, context, call, known) for safety in kinds}
    # The report has these at the findings that are the obstacle.
    said = {finding.hint for finding in findings}
    return tuple(_held(finding, plans, said) for finding in findings)


def without_repair(finding: Finding) -> Finding:
    """Return `finding` of a wheel that no repair takes, without a fix and what it says of it."""
    parts = (finding.hint or "").split("; ")
    hint = "; ".join(part for part in parts if not names_repair(part))
    return replace(finding, fix=None, hint=hint or None)


def _plan(safety: Safety, context: Context, call: RepairCall, known: _Known) -> _Planned:
    if safety is Safety.UNSAFE:
        call = call._replace(settings=replace(call.settings, unsafe_fixes=True))

    try:
        return _remaining(context, call, known)
    except WheelfixError as error:
        codes = {rule.code for rule in enabled_rules(call.settings, load_rules())}
        stay = [code for code in dict.fromkeys(f.code for f in known if _stays(f)) if code in codes]
        then = (
            f"then {join_plain(stay, 3)} {by_number(stay, 'keeps', 'keep')} it from being written"
        )
        hint = error.hint or ""
        if not has_local_tag(context.wheel.name.platforms) and not any(
            finding.fix and finding.fix.edits for finding in known
        ):  # a repair that leaves the library to others has nothing to write
            hint = hint.replace("`wheelfix repair --exclude", "`wheelfix check --exclude")
        advice = [*filter(None, (hint, then * bool(stay)))]
        return _Planned(obstacle=error.lines[0], advice=advice)


def _remaining(context: Context, call: RepairCall, known: _Known) -> _Planned:
    """Return the plan. Raises `WheelfixError` for a wheel that cannot be repaired."""
    settings, libraries = call.settings, call.libraries
    planner = planner_of(Analyst(libraries), settings, call.beside)
    read = replace(planner.read, memory=context.memory.fork())
    if is_repaired(context.wheel, settings, lambda: context.verdict):
        # No library of this machine is grafted: what the check knows of them is enough.
        read = replace(read, definitions=context.definitions)
    planner = planner._replace(read=read)
    plan = decide(planner, accept(planner))
    wheel = plan.after.wheel
    if settings.locked:
        _refuse_unlocked(plan, call)
    judged = judged_context(planner, plan, wheel)
    rules = enabled_rules(settings, load_rules())
    findings = run_rules(judged, rules)
    errors = offer_other_ways(planner, stopping(findings, known), judged.verdict)
    as_checked = replace(context.settings, unsafe_fixes=settings.unsafe_fixes)
    if as_checked != settings:
        findings = run_rules(replace(judged, settings=as_checked), rules)
    names = {(finding.code, finding.entry) for finding in known}
    wrong = [f for f in findings if f.severity is Severity.ERROR]
    spoiled = [f for f in wrong if (f.code, f.entry) not in names]
    edits = [step.edit for step in plan.edits]
    return _Planned(
        obstacle="; ".join(first_of([f"{f.code} {f.message}" for f in errors], 1)),
        errors=frozenset(finding.code for finding in errors),
        advice=[*dict.fromkeys(f.hint for f in errors[:2] if f.hint)],
        spoiled="; ".join(first_of([f"{f.code} {f.message}" for f in spoiled], 1)),
        left=tuple(dict.fromkeys(f.code for f in wrong)),
        remaining=frozenset((f.code, f.member, f.entry) for f in findings),
        moved={e.member: e.new for e in edits if isinstance(e, MoveMember)},
        dropped=frozenset((e.member, e.name) for e in edits if isinstance(e, DropNeeded)),
        grafted=plan.grafted,
        to_leave=leaving(planner, plan, known),
        tags=wheel.name.platforms,
    )


def _stays(finding: Finding) -> bool:
    """Return whether an error has no fix; options may end one on RECORD, tags or providers."""
    is_error = finding.severity is Severity.ERROR and finding.fix is None
    return is_error and not finding.code.startswith(("WF501", "WF8"))


def _refuse_unlocked(plan: Plan, call: RepairCall) -> None:
    """Raise `LockError` for grafts that the lock does not have.

    Which package has a library is not looked up; its bytes are the same.
    """
    lock = [
        {key: value for key, value in table.items() if key not in {"package", "version"}}
        for table in read_lock(call.folder / LOCK_FILE)
    ]
    refuse_other_grafts(lock, plan.after.wheel.name, placed_grafts(plan), call.wheel)


def _held(
    finding: Finding, plans: Mapping[Safety, _Planned], said: Container[str | None]
) -> Finding:
    """Return `finding` with its fix if the plan removes it, and otherwise with the reason."""
    fix = finding.fix
    safe = plans.get(Safety.SAFE)
    if safe is not None and (fix is None or fix.edits) and _ends_with_library(finding, safe):
        fix, finding = Fix(title="", edits=(), safety=Safety.SAFE), replace(finding, hint=None)
    if fix is None:
        stopped = [
            p for p in plans.values() if p.obstacle and p.errors != frozenset({finding.code})
        ]
        # The whole command would meet other obstacles.
        hint = as_options(finding.hint) if stopped and finding.hint else finding.hint
        return replace(finding, hint=hint)
    planned = plans[fix.safety]
    if planned.obstacle:
        why = f"`{command_of(fix)}` cannot write this wheel here:"
        advice = [] if fix.edits else [way for way in planned.advice if way not in said]
        own = "" if fix.edits else finding.hint
        text = "\n".join(filter(None, (why, planned.obstacle, *advice, own)))
        return replace(finding, fix=None, hint=text)
    if planned.spoiled:
        return replace(finding, fix=None, hint=f"`{command_of(fix)}` leads to {planned.spoiled}")
    if not _ends_without(finding, planned):
        return replace(finding, fix=None, hint=None)
    if not fix.edits:
        fix = fix._replace(title=_graft_title(finding, planned))
        to_leave = planned.to_leave if fix.title.startswith("graft ") else Leaving()
        left = f"it leaves {join_plain(planned.left, 3)}, and exits with 1" if planned.left else ""
        lines = filter(
            None, (done_by(fix), left, *to_leave.lines("wheelfix repair "), finding.hint)
        )
        return replace(finding, fix=fix, hint="\n".join(lines))
    return finding


def _ends_with_library(finding: Finding, planned: _Planned) -> bool:
    """Return whether a finding is about a library that is grafted or dropped, and ends with that.

    What a target lacks is one finding for all objects: one that stays names another of them.
    """
    brought = {library.original for library in planned.grafted}
    left = {entry for code, _, entry in planned.remaining if code == finding.code}
    if finding.targets and finding.entry not in left:
        brought |= {name for _, name in planned.dropped}
    return finding.entry in brought and _ends_without(finding, planned)


def _ends_without(finding: Finding, planned: _Planned) -> bool:
    member = planned.moved.get(finding.member or "", finding.member)
    is_left = (finding.code, member, finding.entry) in planned.remaining
    return not (planned.obstacle or planned.spoiled or is_left)


def _graft_title(finding: Finding, planned: _Planned) -> str:
    """Return what the graft does about `finding`: which libraries it takes, and from where."""
    own = [library for library in planned.grafted if library.original == finding.entry]
    if finding.entry in {name for at, name in planned.dropped if not own or at == finding.member}:
        return f"drop `{finding.entry}`, which is unused"
    libraries = [
        f"`{library.original}` from {library.host.source.parent}"
        for library in own or planned.grafted
    ]
    tag = f"write {'.'.join(planned.tags)}"
    return f"graft {join_plain(libraries, 5)}, and {tag}" if libraries else tag
