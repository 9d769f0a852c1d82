"""Running rules, and planning their fixes.

Everything here computes on values; `pipelines.repair` acts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wheelfix.errors import PlanConflictError, RuleError, WheelfixError
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.findings import (
    Finding,
    Fix,
    Hit,
    PlannedEdit,
    Safety,
    Severity,
    Suppressed,
    SuppressionReason,
)
from wheelfix.rules.rule import AnyRule, Rule, SetRule, names_rule
from wheelfix.settings import Settings
from wheelfix.wheel.draft import Draft
from wheelfix.wheel.edits import Edit, MoveMember
from wheelfix.wheel.model import Wheel

MAX_ROUNDS = 20
"""Rounds of fixes: one fix may trigger another rule. Only a bug needs more rounds."""


def run_rules(context: Context, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Return the findings of `rules` that `per-file-ignores` keep, in the order of the rules."""
    settings = context.settings
    return tuple(
        finding for finding in find(context, rules) if per_file_ignore(finding, settings) is None
    )


def find(context: Context, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield all findings of `rules`, with the severities that the settings assign.

    Raises `RuleError` if a plug-in rule crashes.
    """
    for rule in rules:
        for hit in _hits(rule, context):
            yield _finding(rule, hit, context.settings)


def find_in_set(context: SetContext, rules: Iterable[SetRule]) -> Iterator[Finding]:
    """Yield all findings of `rules` in a set of wheels, in the order of the rules."""
    for rule in rules:
        for hit in rule.check(context):
            yield _finding(rule, hit, context.settings)


def _hits(rule: Rule, context: Context) -> Iterator[Hit]:
    if rule.plugin is None:
        yield from rule.check(context)
        return
    try:
        yield from rule.check(context)
    except WheelfixError:
        raise
    except Exception as error:
        raise RuleError(
            f"the rule {rule.code} ({rule.name}) of `{rule.plugin}` crashed on "
            f"`{context.wheel.name}`: {type(error).__name__}: {error}",
            hint=f"report it to the authors of `{rule.plugin}`, or skip the rule with "
            f"--ignore {rule.code}",
        ) from error


def _finding(rule: AnyRule, hit: Hit, settings: Settings) -> Finding:
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=_severity(rule, hit, settings),
        message=hit.message,
        member=hit.member,
        entry=hit.entry,
        notes=hit.notes,
        hint=hit.hint,
        fix=hit.fix,
        wheel=hit.wheel,
    )


def _severity(rule: AnyRule, hit: Hit, settings: Settings) -> Severity:
    """Return the severity of a hit: by the longest selector of the settings that matches."""
    matching = [selector for selector in settings.severity if rule.matches(selector)]
    if matching:
        return Severity[settings.severity[max(matching, key=len)].upper()]
    return rule.severity if hit.severity is None else hit.severity


def per_file_ignore(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return the entry of `per-file-ignores` that suppresses `finding`, if any."""
    for glob, selectors in settings.per_file_ignores.items():
        if finding.member is None or not fnmatchcase(finding.member, glob):
            continue
        for selector in selectors:
            if names_rule(selector, finding.code, finding.name):
                return Suppressed(
                    finding=finding,
                    because=SuppressionReason.PER_FILE,
                    selector=selector,
                    glob=glob,
                )
    return None


def ignored(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return the entry of `ignore` or `per-file-ignores` that suppresses `finding`, if any."""
    for selector, reason in settings.ignore.items():
        if names_rule(selector, finding.code, finding.name):
            return Suppressed(
                finding=finding, because=SuppressionReason.IGNORE, selector=selector, reason=reason
            )
    return per_file_ignore(finding, settings)


Break = tuple[str, str | None, str | None]
"""What identifies a broken name: the rule's code, the file, the name."""


def broken(context: Context, rules: Iterable[Rule]) -> frozenset[Break]:
    """Return the broken names of a wheel, by `rules` about names."""
    findings = run_rules(context, rules)
    return frozenset(
        (finding.code, finding.member, finding.entry)
        for finding in findings
        if finding.severity is Severity.ERROR
    )


def attribute_to_stage(finding: Finding, stages: Mapping[Break, str]) -> Finding:
    """Return `finding` with a note on the stage of the repair that broke the name, if one did."""
    stage = stages.get((finding.code, finding.member, finding.entry))
    if stage is None:
        return finding
    return replace(finding, notes=(*finding.notes, f"broken by this repair's stage: {stage}"))


def may_apply(fix: Fix | None, settings: Settings) -> bool:
    """Return whether the settings allow `fix`."""
    return fix is not None and (fix.safety is Safety.SAFE or settings.unsafe_fixes)


def apply_fixes_until_stable(
    context: Context, rules: Sequence[Rule]
) -> tuple[Context, tuple[PlannedEdit, ...]]:
    """Apply the fixes of `rules` to the wheel of `context` until there are no more.

    Returns the context of the resulting wheel. A fix may trigger another rule: a library that is
    copied to another install scheme needs a search path of its own there.

    Raises `PlanConflictError` after `MAX_ROUNDS` rounds.
    """
    steps: list[PlannedEdit] = []
    for _ in range(MAX_ROUNDS):
        findings = run_rules(context, rules)
        planned_now = _moves_first(plan(context.wheel, findings, context.settings))
        if not planned_now:
            return context, tuple(steps)
        steps.extend(planned_now)
        context = context.after([step.edit for step in planned_now])
    last = ", ".join(sorted({f"{step.name} on `{step.member}`" for step in steps[-3:]}))
    raise PlanConflictError(
        f"the fixes for `{context.wheel.name}` conflict: after {MAX_ROUNDS} rounds still {last}",
        hint="ignore one of these rules with --ignore, and please report the bug",
    )


def _moves_first(steps: tuple[PlannedEdit, ...]) -> tuple[PlannedEdit, ...]:
    """Return only the moves, if there are any: the other edits name members by their old paths."""
    return tuple(step for step in steps if isinstance(step.edit, MoveMember)) or steps


def plan(wheel: Wheel, findings: Iterable[Finding], settings: Settings) -> tuple[PlannedEdit, ...]:
    """Return the edits of the fixes that the settings allow, each once.

    Raises `PlanConflictError` if two of them contradict each other.
    """
    draft = Draft(wheel)
    decided: dict[tuple[str, ...], PlannedEdit] = {}
    for finding in findings:
        if finding.fix is None or not may_apply(finding.fix, settings):
            continue
        for edit in finding.fix.edits:
            step = planned(draft, edit, finding.code, finding.name, finding.fix.title)
            other = decided.setdefault(edit.decides, step)
            if other.edit != edit:
                raise PlanConflictError(
                    f"`{step.member}`: {other.name} asks for {other.old} -> {other.new}, "
                    f"but {step.name} for {step.old} -> {step.new}",
                    hint=f"ignore one of them: --ignore {other.code} or --ignore {step.code}",
                )
    return tuple(decided.values())


def planned(draft: Draft, edit: Edit, code: str, name: str, title: str) -> PlannedEdit:
    """Return `edit` with what it changes in `draft`, and the rule that asks for it."""
    change = edit.change(draft)
    return PlannedEdit(
        edit=edit,
        code=code,
        name=name,
        title=title,
        member=change.member,
        old=change.old,
        new=change.new,
    )


def plan_in_order(
    wheel: Wheel, edits: Iterable[Edit], code: str, name: str, title: str
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Return the wheel that `edits` make of `wheel`, and what each changes when it is applied."""
    draft = Draft(wheel)
    steps: list[PlannedEdit] = []
    for edit in edits:
        steps.append(planned(draft, edit, code, name, title))
        edit.apply(draft)
    return draft.finish(), tuple(steps)
