"""The plan of fixes: the edits that findings ask for, until no rule asks for more."""

from collections.abc import Callable, Iterable, Sequence

from wheelfix.errors import PlanConflictError
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Fix, PlannedEdit, Safety, Severity
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import find
from wheelfix.settings import Patcher, Settings
from wheelfix.text import count
from wheelfix.wheel.edits import Edit, ElfEdit, MoveMember, RemoveMember
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.prediction import Draft

MAX_ROUNDS = 20
"""Rounds of fixes: one fix may trigger another rule. Only a bug needs more rounds."""


def may_apply(finding: Finding, fix: Fix, settings: Settings) -> bool:
    """Return whether the settings allow `fix`.

    `--patcher none` leaves out those that edit an object, but not those of errors: the repair
    refuses them later.
    """
    if fix.safety is not Safety.SAFE and not settings.unsafe_fixes:
        return False
    if settings.patcher is not Patcher.NONE or finding.severity is Severity.ERROR:
        return True
    return not any(isinstance(edit, ElfEdit) for edit in fix.edits)


def apply_fixes_until_stable(
    context: Context,
    rules: Sequence[Rule],
    unconditional: Callable[[Context], Iterable[Finding]] = lambda _: (),
) -> tuple[Context, tuple[PlannedEdit, ...]]:
    """Apply the fixes of `rules` to the wheel of `context` until there are no more.

    Returns the context of the resulting wheel. A fix may trigger another rule: a library that is
    copied to another install scheme needs a search path of its own there. What `ignore` silences
    is fixed, too. `unconditional` yields findings whose fixes no setting keeps out.

    Raises `PlanConflictError` after `MAX_ROUNDS` rounds.
    """
    steps: list[PlannedEdit] = []
    for _ in range(MAX_ROUNDS):
        findings = (*unconditional(context), *find(context, rules))
        planned_now = _moves_first(plan(context.wheel, findings, context.settings))
        if not planned_now:
            return context, tuple(steps)
        steps.extend(planned_now)
        context = context.after([step.edit for step in planned_now])
    last = ", ".join(sorted({f"{step.name} on `{step.member}`" for step in steps[-3:]}))
    raise PlanConflictError(
        f"the fixes for `{context.wheel.name}` conflict: after {count(MAX_ROUNDS, 'round')} still "
        f"{last}",
        hint=f"leave one of these rules out, such as --unfixable '*:{steps[-1].code}', and please "
        "report the bug",
    )


def _moves_first(steps: tuple[PlannedEdit, ...]) -> tuple[PlannedEdit, ...]:
    """Return only the moves, if there are any: the other edits name members by their old paths."""
    return tuple(step for step in steps if isinstance(step.edit, MoveMember)) or steps


def plan(wheel: Wheel, findings: Iterable[Finding], settings: Settings) -> tuple[PlannedEdit, ...]:
    """Return the edits of the fixes that the settings allow, each once.

    A fix that changes nothing is left out: it would be asked for again, without end. So is one that
    contradicts an earlier one: in the next round, the wheel is another, and the rule decides anew.
    Files are removed last: another fix may edit one of them.
    """
    draft = Draft(wheel)
    decided: dict[tuple[str, ...], PlannedEdit] = {}
    for finding in findings:
        if finding.fix is None or not may_apply(finding, finding.fix, settings):
            continue
        if not any(_has_effect(draft, edit) for edit in finding.fix.edits):
            continue
        steps = {
            edit.decides: plan_edit(
                draft, edit, finding.code, finding.name, finding.fix.title
            )._replace(effects=finding.fix.effects)
            for edit in finding.fix.edits
        }
        if all(decided.get(what, step).edit == step.edit for what, step in steps.items()):
            for what, step in steps.items():
                decided.setdefault(what, step)
    return tuple(sorted(decided.values(), key=lambda step: isinstance(step.edit, RemoveMember)))


def _has_effect(draft: Draft, edit: Edit) -> bool:
    if not isinstance(edit, ElfEdit):
        return True
    revision = draft.revisions[edit.member]
    return edit.revise(revision) != revision


def without_cancelled(
    steps: Sequence[PlannedEdit], before: Wheel, after: Wheel
) -> tuple[PlannedEdit, ...]:
    """Return `steps`, from `before` to `after`, without those of objects that are as they were."""
    edited = {step.edit.member for step in steps if isinstance(step.edit, ElfEdit)}
    same = {
        member
        for member in edited & before.elfs.keys()
        if after.elfs.get(member) == before.elfs[member]
    }
    return tuple(
        step for step in steps if not (isinstance(step.edit, ElfEdit) and step.edit.member in same)
    )


def plan_edit(draft: Draft, edit: Edit, code: str, name: str, title: str) -> PlannedEdit:
    """Return `edit` with what it changes in `draft`, and the rule that asks for it."""
    return PlannedEdit(edit, code, name, title, *edit.change(draft))


def plan_in_order(
    wheel: Wheel, edits: Iterable[Edit], stage: str, title: str
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Return the wheel that `edits` make of `wheel`, and what each changes when it is applied."""
    draft = Draft(wheel)
    steps: list[PlannedEdit] = []
    for edit in edits:
        steps.append(plan_edit(draft, edit, stage, stage, title))
        edit.apply(draft)
    return draft.finish(), tuple(steps)
