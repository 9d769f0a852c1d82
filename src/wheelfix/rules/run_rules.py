"""Runs of rules: their findings, with severities and the entries that suppress them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from fnmatch import fnmatchcase

from wheelfix.errors import RuleError, WheelfixError
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.findings import Finding, Hit, Problem, Severity, Suppressed, SuppressionReason
from wheelfix.rules.rule import AnyRule, Rule, SetRule
from wheelfix.rules.stated_rules import names_rule
from wheelfix.settings import Settings


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
            yield finding_of(rule, hit, context.settings)


def find_in_set(context: SetContext, rules: Iterable[SetRule]) -> Iterator[Finding]:
    """Yield all findings of `rules` in a set of wheels, in the order of the rules."""
    for rule in rules:
        for hit in rule.check(context):
            yield finding_of(rule, hit, context.settings)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return `findings` sorted by severity, and otherwise in their order."""
    return tuple(sorted(findings, key=lambda finding: -finding.severity))


def _hits(rule: Rule, context: Context) -> Iterator[Hit]:
    try:
        yield from rule.check(context)
    except Exception as error:
        if rule.plugin is None or isinstance(error, WheelfixError):
            raise
        raise RuleError(
            f"the rule {rule.code} ({rule.name}) of `{rule.plugin}` crashed on "
            f"`{context.wheel.name}`: {type(error).__name__}: {error}",
            hint=f"report it to the authors of `{rule.plugin}`, or skip the rule with "
            f"--ignore {rule.code}",
        ) from error


def finding_of(rule: AnyRule, hit: Hit, settings: Settings) -> Finding:
    """Return the finding of a hit, with the severity that the settings assign."""
    if hit.fix is not None:
        kept = _match(settings.unfixable, rule.code, rule.name, hit.member or "")
        if kept is not None:
            hit = replace(hit, fix=None, hint=f"not fixed: `unfixable` names `{':'.join(kept)}`")
    problem = {field.name: getattr(hit, field.name) for field in fields(Problem)}
    severity = _severity(rule, hit, settings)
    return Finding(code=rule.code, name=rule.name, severity=severity, **problem)


def _severity(rule: AnyRule, hit: Hit, settings: Settings) -> Severity:
    """Return the severity of a hit: by the longest selector of the settings that matches."""
    matching = [selector for selector in settings.severity if rule.matches(selector)]
    if matching:
        return Severity[settings.severity[max(matching, key=len)].upper()]
    return rule.severity if hit.severity is None else hit.severity


def per_file_ignore(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return the entry of `per-file-ignores` that suppresses `finding`, if any."""
    if finding.member is None:
        return None
    matching = _match(settings.per_file_ignores, finding.code, finding.name, finding.member)
    if matching is None:
        return None
    glob, selector = matching
    return Suppressed(
        finding=finding, because=SuppressionReason.PER_FILE, selector=selector, glob=glob
    )


def _match(
    selectors: Mapping[str, Sequence[str]], code: str, name: str, member: str
) -> tuple[str, str] | None:
    """Return the first glob for `member` with a selector of the rule, and that selector."""
    return next(
        (
            (glob, selector)
            for glob, listed in selectors.items()
            if fnmatchcase(member, glob)
            for selector in listed
            if names_rule(selector, code, name)
        ),
        None,
    )


def matching_ignore(finding: Finding, settings: Settings) -> Suppressed | None:
    """Return the entry of `ignore` or `per-file-ignores` that suppresses `finding`, if any."""
    for selector, reason in settings.ignore.items():
        if names_rule(selector, finding.code, finding.name):
            return Suppressed(
                finding=finding, because=SuppressionReason.IGNORE, selector=selector, reason=reason
            )
    return per_file_ignore(finding, settings)


_MISSING_VERSION = "WF304"
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


def stopping(findings: Iterable[Finding], before: Iterable[Finding]) -> list[Finding]:
    """Return the errors that stop a repair; `before` are the findings of the wheel as read.

    An object that lacks a symbol version of a bundled library does not load, whether the wheel is
    repaired or not; the others need the repair.
    """
    lacking = {(f.member, f.entry) for f in before if f.code == _MISSING_VERSION}
    return [
        finding
        for finding in findings
        if finding.severity is Severity.ERROR
        and not (finding.code == _MISSING_VERSION and (finding.member, finding.entry) in lacking)
    ]


def attribute_to_stage(finding: Finding, stages: Mapping[Break, str]) -> Finding:
    """Return `finding` with a note on the stage of the repair that broke the name, if one did.

    Where it dropped a DT_NEEDED entry, the hint does not blame the linking.
    """
    stage = stages.get((finding.code, finding.member, finding.entry))
    if stage is None:
        return finding
    note = f"broken by this repair's stage: {stage}"
    hint = (
        "`wheelfix repair --prune-needed off` keeps every entry"
        if stage == "prune"
        else finding.hint
    )
    return replace(finding, notes=(*finding.notes, note), hint=hint)
