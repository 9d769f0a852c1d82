"""Run the rules, turn their fixes into a plan, and predict the wheel that the plan makes.

Everything here decides on values alone; `repairing` acts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wheelfix.analysis.unused_needed import Definitions
from wheelfix.errors import PlanConflictError, RuleError, WheelfixError
from wheelfix.rules.context import Context, SetContext, Stage
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
from wheelfix.wheel.edits import Edit, MoveMember, predict
from wheelfix.wheel.model import Wheel

MAX_ROUNDS = 20
"""Rules may answer to each other's edits; a wheel that does not settle by then is a bug of ours."""


def run_rules(context: Context, rules: Iterable[Rule]) -> tuple[Finding, ...]:
    """Return what `rules` find and the settings let count, in the order of the rules."""
    settings = context.settings
    return tuple(
        finding
        for finding in find(context, rules)
        if not settings.per_file_ignores or per_file_ignore(finding, settings) is None
    )


def find(context: Context, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield all that `rules` find, as bad as the settings say it is.

    Raises `RuleError` where a rule of somebody else's crashes.
    """
    for rule in rules:
        severity = _severity_of(rule, context.settings)
        for hit in _hits(rule, context):
            bad = rule.severity if hit.severity is None else hit.severity
            yield finding_of(rule, hit, bad if severity is None else severity)


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
            hint=f"report it to the authors of `{rule.plugin}`; "
            f"--ignore {rule.code} goes on without",
        ) from error


def find_in_set(context: SetContext, rules: Iterable[SetRule]) -> Iterator[Finding]:
    """Yield what `rules` find in the wheels side by side, in the order of the rules."""
    for rule in rules:
        severity = _severity_of(rule, context.settings)
        for hit in rule.check(context):
            bad = rule.severity if hit.severity is None else hit.severity
            yield finding_of(rule, hit, bad if severity is None else severity)


def finding_of(rule: AnyRule, hit: Hit, severity: Severity) -> Finding:
    """Return what `rule` says by `hit`, as bad as `severity`."""
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=hit.message,
        member=hit.member,
        entry=hit.entry,
        notes=hit.notes,
        hint=hit.hint,
        fix=hit.fix,
        wheel=hit.wheel,
    )


def _severity_of(rule: AnyRule, settings: Settings) -> Severity | None:
    """Return what the settings say of `rule`; the longest selector knows best."""
    fitting = [each for each in settings.severity if rule.matches(each)]
    if not fitting:
        return None
    return Severity[settings.severity[max(fitting, key=len)].upper()]


# --- What does not count --------------------------------------------------------------------------


def per_file_ignore(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return what in `per-file-ignores` keeps `finding` from counting."""
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
    """Return what in `ignore` or `per-file-ignores` keeps `finding` from counting."""
    for selector, reason in settings.ignore.items():
        if names_rule(selector, finding.code, finding.name):
            return Suppressed(
                finding=finding, because=SuppressionReason.IGNORE, selector=selector, reason=reason
            )
    return per_file_ignore(finding, settings)


Break = tuple[str, str | None, str | None]
"""What tells one broken name from another: the rule's code, the file, the name."""


def broken(wheel: Wheel, rules: Iterable[Rule], settings: Settings) -> frozenset[Break]:
    """Return the names that are broken in `wheel` at some stage, by `rules` about names."""
    findings = run_rules(Context(wheel=wheel, settings=settings), rules)
    return frozenset(
        (finding.code, finding.member, finding.entry)
        for finding in findings
        if finding.severity is Severity.ERROR
    )


def attribute_to_stage(finding: Finding, stages: Mapping[Break, str]) -> Finding:
    """Return `finding` with the stage of the repair that broke the name, where one did."""
    stage = stages.get((finding.code, finding.member, finding.entry))
    if stage is None:
        return finding
    return replace(finding, notes=(*finding.notes, f"broken by this repair's stage: {stage}"))


def may_apply(fix: Fix | None, settings: Settings) -> bool:
    """Whether `fix` is one that this run may apply."""
    return fix is not None and (fix.safety is Safety.SAFE or settings.unsafe_fixes)


def apply_fixes_until_stable(
    wheel: Wheel,
    rules: Sequence[Rule],
    settings: Settings,
    stage: Stage,
    definitions: Definitions | None = None,
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Apply the fixes of `rules` to the value `wheel` until none is left to apply.

    A fix may bring work for another rule: a library that is copied to another install scheme
    needs a search path of its own there. Raises `PlanConflictError` if that does not end.
    """
    steps: list[PlannedEdit] = []
    origin = wheel
    for _ in range(MAX_ROUNDS):
        context = Context(
            wheel=wheel, settings=settings, stage=stage, definitions=definitions, origin=origin
        )
        findings = run_rules(context, rules)
        asked = _moves_first(plan(wheel, findings, settings))
        if not asked:
            return wheel, tuple(steps)
        steps.extend(asked)
        edits = [step.edit for step in asked]
        wheel = predict(wheel, edits)
        definitions = definitions.including(edits) if definitions is not None else None
    last = ", ".join(sorted({f"{step.name} on `{step.member}`" for step in steps[-3:]}))
    raise PlanConflictError(
        f"the rules do not agree on `{wheel.name}`: after {MAX_ROUNDS} rounds still {last}",
        hint="ignore one of these rules with --ignore, and please report this wheel",
    )


def _moves_first(steps: tuple[PlannedEdit, ...]) -> tuple[PlannedEdit, ...]:
    """Let a round with moves be nothing but moves: other edits would speak of old places."""
    return tuple(step for step in steps if isinstance(step.edit, MoveMember)) or steps


# --- Findings -> plan -----------------------------------------------------------------------------


def plan(wheel: Wheel, findings: Iterable[Finding], settings: Settings) -> tuple[PlannedEdit, ...]:
    """Collect the edits of the fixes that may be applied, each once.

    Raises `PlanConflictError` where two of them contradict each other.
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
