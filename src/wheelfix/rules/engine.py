"""Run the rules, turn their fixes into a plan, and predict the wheel that the plan makes.

Everything here decides on values alone; `repairing` acts.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from wheelfix.analysis.loaded_wheel import Definitions
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
from wheelfix.wheel.dist_info import with_requirement
from wheelfix.wheel.edits import (
    AddMember,
    AddRequirement,
    Edit,
    MoveMember,
    RemoveMember,
    Retag,
    SetMode,
    SetRootIsPurelib,
    WriteSource,
)
from wheelfix.wheel.model import Member, Wheel

_SOURCE_MODE = 0o100644
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
    decided: dict[tuple[str, ...], PlannedEdit] = {}
    for finding in findings:
        if finding.fix is None or not may_apply(finding.fix, settings):
            continue
        for edit in finding.fix.edits:
            step = planned(wheel, edit, finding.code, finding.name, finding.fix.title)
            other = decided.setdefault(edit.decides, step)
            if other.edit != edit:
                raise PlanConflictError(
                    f"`{step.member}`: {other.name} asks for {other.old} -> {other.new}, "
                    f"but {step.name} for {step.old} -> {step.new}",
                    hint=f"ignore one of them: --ignore {other.code} or --ignore {step.code}",
                )
    return tuple(decided.values())


def planned(wheel: Wheel, edit: Edit, code: str, name: str, title: str) -> PlannedEdit:
    """Say for people what `edit` changes in `wheel`, and who asks for it."""
    member, old, new = _change(wheel, edit)
    return PlannedEdit(
        edit=edit, code=code, name=name, title=title, member=member, old=old, new=new
    )


def _change(  # noqa: PLR0911 - one return for each kind
    wheel: Wheel, edit: Edit
) -> tuple[str, str, str]:
    match edit:
        case AddMember():
            return edit.member, "absent", f"{edit.source}, {edit.size:,} bytes"
        case MoveMember():
            return edit.member, "in place", f"moved to `{edit.new}`"
        case SetMode():
            return edit.member, f"mode {edit.old & 0o7777:04o}", f"{edit.new & 0o7777:04o}"
        case RemoveMember():
            return edit.member, "present", "removed"
        case Retag():
            old, new = (".".join(tags) for tags in (wheel.name.platforms, edit.platforms))
            return f"{wheel.dist_info}/WHEEL", f"platform tag {old}", new
        case SetRootIsPurelib():
            root = f"Root-Is-Purelib: {str(wheel.root_is_purelib).lower()}"
            return f"{wheel.dist_info}/WHEEL", root, str(edit.value).lower()
        case WriteSource():
            there = edit.member in wheel.sources
            return edit.member, "as it was" if there else "absent", edit.what
        case AddRequirement():
            line = f"`Requires-Dist: {edit.requirement}`"
            return f"{wheel.dist_info}/METADATA", "no such requirement", line
        case _:
            return edit.member, *edit.change(wheel.elfs[edit.member])


# --- Plan -> predicted wheel ----------------------------------------------------------------------


def predict(wheel: Wheel, edits: Iterable[Edit]) -> Wheel:
    """Return the wheel that `edits`, applied in their order, make of `wheel`."""
    draft = _Draft(wheel)
    for edit in edits:
        draft.carry_out(edit)
    return draft.finished()


def planned_in_turn(
    wheel: Wheel, edits: Iterable[Edit], code: str, name: str, title: str
) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    """Return what `edits` make of `wheel`, and what each of them changes when its turn comes."""
    draft = _Draft(wheel)
    steps: list[PlannedEdit] = []
    for edit in edits:
        steps.append(planned(replace(draft.wheel, elfs=draft.elfs), edit, code, name, title))
        draft.carry_out(edit)
    return draft.finished(), tuple(steps)


class _Draft:
    """A wheel under edit: one copy of its tables for all edits, and not one for each."""

    def __init__(self, wheel: Wheel) -> None:
        self.wheel = wheel
        self.elfs = dict(wheel.elfs)
        self._members = {member.name: member for member in wheel.members}
        self._added: dict[str, Member] = {}
        self._sources = dict(wheel.sources)

    def carry_out(self, edit: Edit) -> None:
        match edit:
            case AddMember():
                self.add(edit)
            case MoveMember():
                self.move(edit.member, edit.new)
            case SetMode():
                self._members[edit.member] = self._members[edit.member]._replace(mode=edit.new)
            case RemoveMember():
                self.remove(edit.member)
            case Retag():
                name = self.wheel.name._replace(platforms=edit.platforms)
                self.wheel = replace(self.wheel, name=name, tags=edit.tags)
            case SetRootIsPurelib():
                self.wheel = replace(self.wheel, root_is_purelib=edit.value)
            case WriteSource():
                self.write(edit)
            case AddRequirement():
                metadata = with_requirement(self.wheel.metadata, edit.requirement)
                self.wheel = replace(self.wheel, metadata=metadata)
            case _:
                self.elfs[edit.member] = edit.apply(self.elfs[edit.member])

    def add(self, edit: AddMember) -> None:
        if edit.member in self._members:
            raise PlanConflictError(f"`{edit.member}` is in the wheel already; it is not replaced")
        self._added[edit.member] = Member(
            name=edit.member, size=edit.size, compressed_size=0, mode=edit.mode
        )
        if edit.elf is not None:
            self.elfs[edit.member] = edit.elf

    def write(self, edit: WriteSource) -> None:
        new = Member(name=edit.member, size=len(edit.content), compressed_size=0, mode=_SOURCE_MODE)
        there = self._members if edit.member in self._members else self._added
        old = there.get(edit.member, new)
        there[edit.member] = old._replace(size=new.size, compressed_size=0)
        self._sources[edit.member] = edit.content

    def move(self, old: str, new: str) -> None:
        if new in self._members:
            raise PlanConflictError(f"`{old}` cannot move to `{new}`: that file exists already")
        self._members = {
            (new if name == old else name): member._replace(name=new) if name == old else member
            for name, member in self._members.items()
        }
        if old in self.elfs:
            self.elfs[new] = self.elfs.pop(old)
        if old in self._sources:
            self._sources[new] = self._sources.pop(old)

    def remove(self, name: str) -> None:
        self._members.pop(name, None)
        self._added.pop(name, None)
        self.elfs.pop(name, None)
        self._sources.pop(name, None)

    def finished(self) -> Wheel:
        """Put new files before the metadata, which PEP 427 recommends to stand last."""
        names = list(self._members)
        metadata = (n for n, name in enumerate(names) if name.startswith(self.wheel.dist_info))
        place = next(metadata, len(names))
        old = tuple(self._members.values())
        members = (*old[:place], *self._added.values(), *old[place:])
        return replace(
            self.wheel,
            members=members,
            elfs={m.name: self.elfs[m.name] for m in members if m.name in self.elfs},
            sources=self._sources,
        )
