"""Findings, summaries and errors as text for a terminal.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from wheelfix.pipelines.repair_result import Loads, Outcome, Status
from wheelfix.reports.printable import Colour, error_text, hint_lines, paint, printable
from wheelfix.rules.findings import Finding, PlannedEdit, Safety, Severity
from wheelfix.text import counted

FEW = 3
"""The number of items of one kind that a summary shows."""


_SEVERITY = {
    Severity.ERROR: Colour.RED,
    Severity.WARNING: Colour.YELLOW,
    Severity.INFO: Colour.BLUE,
}
_STATUS = {
    Status.REPAIRED: Colour.GREEN,
    Status.UNCHANGED: Colour.GREEN,
    Status.PLANNED: Colour.BLUE,
    Status.REJECTED: Colour.RED,
    Status.FAILED: Colour.RED,
}


# --- Errors and findings --------------------------------------------------------------------------


def finding_text(
    finding: Finding, wheel: str, *, colour: bool, more: Mapping[str, str] | None = None
) -> str:
    """Return one finding with its place, notes, the labelled lines `more`, and hint."""
    head = f"{finding.severity.label}[{finding.name}]"
    place = f"{wheel}!{finding.member}" if finding.member is not None else wheel
    lines = [
        f"{paint(head, _SEVERITY[finding.severity], on=colour)}: {printable(finding.message)}",
        f"  {paint('-->', Colour.BLUE, on=colour)} {printable(place)}",
        *(f"  = note: {printable(note)}" for note in finding.notes),
        *(f"  = {label}: {printable(text)}" for label, text in (more or {}).items()),
        *hint_lines(finding.hint, colour=colour),
    ]
    return "\n".join(lines)


def tally(findings: Sequence[Finding], wheels: int) -> str:
    """Return the totals of a list of findings, and how many `repair` would fix."""
    if not findings:
        return f"All checks passed for {counted(wheels, 'wheel')}."
    kinds = ", ".join(
        counted(number, severity.label) if severity is not Severity.INFO else f"{number:,} info"
        for severity in sorted(Severity, reverse=True)
        if (number := sum(finding.severity is severity for finding in findings))
    )
    safe = sum(f.fix is not None and f.fix.safety is Safety.SAFE for f in findings)
    unsafe = sum(f.fix is not None and f.fix.safety is Safety.UNSAFE for f in findings)
    total = counted(len(findings), "problem")
    found = f"Found {total} in {counted(wheels, 'wheel')} ({kinds})."
    return f"{found} {_fixed(safe, unsafe)}".rstrip()


def _fixed(safe: int, unsafe: int) -> str:
    """Return how many findings a repair certainly fixes; the graft may fix more."""
    if safe:
        more = f", and {unsafe:,} more with `--unsafe-fixes`" if unsafe else ""
        return f"`wheelfix repair` fixes {safe:,}{more}."
    return f"`wheelfix repair --unsafe-fixes` fixes {unsafe:,}." if unsafe else ""


# --- The summary of one wheel ---------------------------------------------------------------------


def summary(outcome: Outcome, *, verbose: bool, colour: bool) -> str:
    """Return the findings of a wheel, the edits, and what the result loads."""
    lines = _head(outcome, colour=colour)
    if outcome.error is not None:
        return "\n".join(lines)
    rows = [
        *(("wrong", line) for line in _grouped(outcome.found, verbose=verbose)),
        *(
            ("done" if outcome.output else "plan", line)
            for line in _done(outcome.edits, verbose=verbose)
        ),
        *(("edited", line) for line in _ways(outcome.ways, verbose=verbose)),
        *(("loads", line) for line in _loads(outcome.loads, verbose=verbose)),
        *(("tag", line) for line in _tags(outcome)),
        *(("bytes", line) for line in _sizes(outcome)),
        *(("verdict", line) for line in _verdict(outcome, verbose=verbose)),
        *(("note", message) for message in outcome.messages),
        *(("left", line) for line in _grouped(_mild(outcome), verbose=verbose)),
    ]
    previous = ""
    for label, text in rows:
        lines.append(f"  {'' if label == previous else label:8} {printable(text)}")
        previous = label
    wheel = outcome.source.name
    full = outcome.remaining if verbose else tuple(_errors(outcome.remaining))
    lines += [finding_text(finding, wheel, colour=colour) for finding in full]
    return "\n".join(lines)


def failure(outcome: Outcome, *, colour: bool) -> str:
    """Return why a wheel was not written; empty for a wheel that was."""
    errors = list(_errors(outcome.remaining))
    if outcome.error is None and not errors:
        return ""
    wheel = outcome.source.name
    found = [finding_text(finding, wheel, colour=colour) for finding in errors]
    return "\n".join([*_head(outcome, colour=colour), *found])


def _head(outcome: Outcome, *, colour: bool) -> list[str]:
    """Return the line with name and status, and the error of a wheel that failed."""
    status = paint(outcome.status, _STATUS[outcome.status], on=colour)
    head = f"{printable(outcome.source.name)}: {status}"
    return [head, *([error_text(outcome.error, colour=colour)] if outcome.error else [])]


def _errors(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity is Severity.ERROR)


def _mild(outcome: Outcome) -> list[Finding]:
    return [f for f in outcome.remaining if f.severity is not Severity.ERROR]


def _grouped(findings: Iterable[Finding], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each rule with findings, and its first few places, or all."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.name, []).append(finding)
    for name, found in by_rule.items():
        worst = max(finding.severity for finding in found)
        yield f"{worst.label}[{name}] {counted(len(found), 'time')}"
        for finding in found if verbose else found[:FEW]:
            is_named = finding.member is None or finding.member in finding.message
            yield f"  {finding.message}" if is_named else f"  `{finding.member}`: {finding.message}"
        if not verbose and len(found) > FEW:
            yield f"  and {len(found) - FEW:,} more, which -v shows"


def _done(edits: Sequence[PlannedEdit], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each rule with edits; if `verbose`, also all their files."""
    by_rule: dict[str, list[PlannedEdit]] = {}
    for edit in edits:
        by_rule.setdefault(edit.name, []).append(edit)
    for name, asked in by_rule.items():
        files = list(dict.fromkeys(edit.member for edit in asked))
        of_files = f"`{files[0]}`" if len(files) == 1 else counted(len(files), "file")
        yield f"{name}: {counted(len(asked), 'edit')} of {of_files}"
        yield from (f"  `{file}`" for file in files if verbose and len(files) > 1)


def _ways(ways: Mapping[str, str], *, verbose: bool) -> Iterator[str]:
    """Yield how many objects were edited in each way; if `verbose`, also which ones."""
    by_way: dict[str, list[str]] = {}
    for member, way in ways.items():
        by_way.setdefault(way, []).append(member)
    for way, members in sorted(by_way.items()):
        yield f"{way}: {counted(len(members), 'object')}"
        yield from (f"  `{member}`" for member in members if verbose)


def _loads(loads: Sequence[Loads], *, verbose: bool) -> Iterator[str]:
    """Yield what each changed file loads, failures first; a few of those without."""
    ordered = sorted(loads, key=lambda load: (not load.fails, not load.libraries))
    troubled = sum(bool(load.fails) for load in loads)
    shown = ordered if verbose else ordered[: max(troubled, FEW)]
    for load in shown:
        yield f"`{load.member}`: {_found(load, verbose=verbose)}"
        if load.fails:
            yield f"  not with {', '.join(load.fails)}"
            yield f"  works with {', '.join(load.works) or 'none'}"
        elif verbose:
            yield f"  works with {', '.join(load.works)}"
    if not troubled and shown:
        yield "all found in every install scheme that the tags allow"
    if len(shown) < len(loads):
        yield f"and {counted(len(loads) - len(shown), 'file')} more, which -v shows"


def _found(load: Loads, *, verbose: bool) -> str:
    """Return how many libraries `load` finds in each folder; if `verbose`, which ones."""
    folders: dict[str, list[str]] = {}
    for name, member in load.libraries:
        folders.setdefault(member.rpartition("/")[0] or ".", []).append(name)
    return (
        ", ".join(
            f"{', '.join(names) if verbose else counted(len(names), 'library')} from `{folder}`"
            for folder, names in folders.items()
        )
        or "nothing from the wheel"
    )


def _tags(outcome: Outcome) -> Iterator[str]:
    if outcome.before is not None and outcome.after is not None:
        old, new = (".".join(w.name.platforms) for w in (outcome.before, outcome.after))
        yield f"{old} -> {new}" if old != new else old


def _sizes(outcome: Outcome) -> Iterator[str]:
    if outcome.output is not None and outcome.bytes_after:
        by = f", new members compressed by {outcome.codec}" if outcome.codec else ""
        yield f"{outcome.bytes_before:,} -> {outcome.bytes_after:,}{by}"


def _verdict(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    if outcome.verdict is not None:
        yield f"auditwheel says {outcome.verdict.overall}"
        reasons = outcome.verdict.reasons
        yield from (f"  {reason}" for reason in (reasons if verbose else reasons[:FEW]))


# --- The plan -------------------------------------------------------------------------------------


def plan(outcome: Outcome, *, colour: bool) -> str:
    """Return each edit of the plan: the file, the old and the new value, and the rule."""
    head = f"plan for {printable(outcome.source.name)}"
    lines = [paint(head, Colour.BOLD, on=colour)]
    if not outcome.edits:
        lines.append("  nothing to change")
    by_member: dict[str, list[PlannedEdit]] = {}
    for edit in outcome.edits:
        by_member.setdefault(edit.member, []).append(edit)
    for member, edits in by_member.items():
        lines.append(f"  {printable(member)}")
        for edit in edits:
            rule = edit.name if edit.code == edit.name else f"{edit.code} {edit.name}"
            change = f"{printable(edit.old)} -> {printable(edit.new)}"
            lines.append(f"    {change}  {paint(f'[{printable(rule)}]', Colour.DIM, on=colour)}")
    return "\n".join(lines)
