"""The output of `wheelfix repair`: summary and plan as text.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

import os
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.grouping import grouped
from wheelfix.pipelines.repair_result import Absence, Absent, GraftedFrom, Loads, Outcome, Status
from wheelfix.reports.check_content import FEW, causes_in_wheel, finding_text, heading
from wheelfix.reports.printable import Colour, Style, error_text, paint, printable
from wheelfix.rules.findings import Finding, PlannedEdit, Severity
from wheelfix.text import counted, in_units, join_some

_STATUS = {
    Status.REPAIRED: Colour.GREEN,
    Status.UNCHANGED: Colour.GREEN,
    Status.PLANNED: Colour.BLUE,
    Status.REJECTED: Colour.RED,
    Status.FAILED: Colour.RED,
}


MOST_LINES = 20
"""The lines of a summary that is not verbose."""
_GRAFTED = 5
"""The number of grafted libraries that a summary describes."""

# --- The summary of one wheel ---------------------------------------------------------------------


def summary(outcome: Outcome, *, verbose: bool, colour: bool, documentation: str = "") -> str:
    """Return what was grafted and fixed, the proof, and what is left.

    At most `MOST_LINES` lines, unless `verbose`: of each kind, some are left out. Rules are linked
    to their pages on `documentation`, the address of the site, if it is not empty.
    """
    lines = [*_excluded(outcome.absent, verbose=verbose), *_head(outcome, colour=colour)]
    if outcome.error is not None:
        return "\n".join(lines if verbose else _cut(lines, MOST_LINES, "line"))
    full = outcome.remaining if verbose else tuple(_errors(outcome.remaining))
    wheel = os.fspath(outcome.source)
    style = Style(colour=colour, verbose=verbose, documentation=documentation)
    texts = list(_texts(full, wheel, style))
    rows = list(_rows(outcome, verbose=verbose))
    if not verbose:
        of_errors = [line for text in texts for line in text.splitlines()]
        room = MOST_LINES - len(lines)
        rows = _folded(rows, room - min(len(of_errors), room // 2))
        texts = _cut(of_errors, room - len(rows), "line")
    previous = ""
    for label, text in rows:
        lines.append(f"  {'' if label == previous else label:8} {printable(text)}")
        previous = label
    return "\n".join([*lines, *texts])


def _rows(outcome: Outcome, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines of a summary, each with its label; those of a label are adjacent."""
    mild = [found for found in outcome.remaining if found.severity is not Severity.ERROR]
    if verbose:
        yield from (("wrong", line) for line in _grouped(outcome.found))
    grafted, fixed = ("grafted", "fixed") if outcome.output else ("to graft", "to fix")
    yield from ((grafted, line) for line in _grafted(outcome.grafted, verbose=verbose))
    yield from ((fixed, line) for line in _fixed(outcome.edits, verbose=verbose))
    if verbose:
        yield from (("edited", line) for line in _ways(outcome.ways))
    yield from _absent(outcome.absent)
    proved = "expected" if outcome.status is Status.PLANNED else "proved"
    yield from ((proved, line) for line in _proved(outcome, verbose=verbose))
    if verbose and outcome.codec:
        yield "codec", outcome.codec
    yield from (("note", message) for message in outcome.messages)
    yield from (("left", line) for line in (_grouped(mild) if verbose else _left(mild)))


def _folded(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most `most` lines, or one of each label: of the longest lists, the last go."""
    lists = grouped(rows, lambda row: row[0])
    lengths = {label: len(some) for label, some in lists.items()}
    while sum(lengths.values()) > most and max(lengths.values()) > 1:
        lengths[max(lengths, key=lambda label: lengths[label])] -= 1
    return [
        (label, line)
        for label, some in lists.items()
        for line in _cut([text for _, text in some], lengths[label], "")
    ]


def _cut(lines: Sequence[str], most: int, noun: str) -> list[str]:
    """Return `lines`, or their beginning and a line that counts the rest: at most `most` lines.

    With room for one line, the count follows the first: alone it would say nothing.
    """
    if len(lines) <= most:
        return list(lines)
    shown = lines[: max(most - 1, 1)]
    left = len(lines) - len(shown)
    rest = f"and {counted(left, f'more {noun}') if noun else f'{left:,} more'}: -v"
    return [*shown, rest] if most > 1 else [f"{shown[0]}, {rest}"]


def _excluded(libraries: Sequence[Absent], *, verbose: bool) -> Iterator[str]:
    """Yield auditwheel's words on the excluded libraries, which its users search for."""
    names = [found.library for found in libraries if found.absence is Absence.EXCLUDED]
    yield from (f"Excluding {printable(name)}" for name in (names if verbose else names[:FEW]))


def failure(outcome: Outcome, *, colour: bool, documentation: str = "") -> str:
    """Return why a wheel was not written, as in `summary`; empty for a wheel that was."""
    errors = list(_errors(outcome.remaining))
    if outcome.error is None and not errors:
        return ""
    style = Style(colour=colour, documentation=documentation)
    found = _texts(errors, os.fspath(outcome.source), style)
    return "\n".join([*_head(outcome, colour=colour), *found])


def _texts(findings: Iterable[Finding], wheel: str, style: Style) -> Iterator[str]:
    for cause in causes_in_wheel(findings):
        yield finding_text(cause.finding, wheel=wheel, places=cause.lines(style), style=style)


def _head(outcome: Outcome, *, colour: bool) -> list[str]:
    """Return the line with name, status, tag and sizes, and the error of a wheel that failed."""
    status = paint(outcome.status, _STATUS[outcome.status], on=colour)
    is_changed = outcome.status in {Status.REPAIRED, Status.PLANNED}
    facts = [*_tags(outcome), *_sizes(outcome)] if is_changed else []
    head = ", ".join([f"{printable(outcome.source.name)}: {status}", *facts])
    error = outcome.error
    return [head, *(error_text(error, colour=colour).splitlines() if error else [])]


def _errors(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity is Severity.ERROR)


def _grouped(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each rule with findings, and its places."""
    for found in grouped(findings, lambda finding: finding.name).values():
        worst = max(found, key=lambda finding: finding.severity)
        yield f"{heading(worst)}: {counted(len(found), 'time')}"
        yield from (f"  {_placed(finding)}" for finding in found)


def _placed(finding: Finding) -> str:
    """Return the message of a finding, with its member if that is not named."""
    is_named = finding.member is None or finding.member in finding.message
    return finding.message if is_named else f"`{finding.member}`: {finding.message}"


def _left(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each rule with warnings, and how many notes there are."""
    warnings = [found for found in findings if found.severity is Severity.WARNING]
    for found in grouped(warnings, lambda finding: finding.name).values():
        more = f", and {len(found) - 1:,} more" if len(found) > 1 else ""
        yield f"{found[0].code} {found[0].name}: {_placed(found[0])}{more}"
    notes = len(findings) - len(warnings)
    if notes:
        yield f"{counted(notes, 'note')}: -v"


def _grafted(libraries: Sequence[GraftedFrom], *, verbose: bool) -> Iterator[str]:
    """Yield each grafted library with its origin and its dependents, the largest ones first."""
    ordered = sorted(libraries, key=lambda library: -library.size)
    shown = ordered if verbose else ordered[:_GRAFTED]
    originals = {posixpath.basename(library.member): library.original for library in libraries}
    for library in shown:
        package = f" ({library.package})" if library.package else ""
        dependents = [posixpath.basename(member) for member in library.dependents]
        names = join_some([originals.get(name, name) for name in dependents], 2)
        needed = f", needed by {names}" if names else ""
        size = in_units(library.size)
        yield f"{library.original} from {library.source}{package}, {size}{needed}"
    if len(shown) < len(ordered):
        yield f"and {join_some([library.original for library in ordered[_GRAFTED:]], 8)}"


def _fixed(edits: Sequence[PlannedEdit], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each rule with edits; if `verbose`, also all their files."""
    asked = [edit for edit in edits if edit.code != "graft"]
    for name, made in grouped(asked, lambda edit: edit.name).items():
        files = list(dict.fromkeys(edit.member for edit in made))
        of_files = f"`{files[0]}`" if len(files) == 1 else counted(len(files), "file")
        code = f"{made[0].code} " if made[0].code != name else ""
        yield f"{code}{name}: {counted(len(made), 'edit')} of {of_files}"
        yield from (f"  `{file}`" for file in files if verbose and len(files) > 1)


def _absent(libraries: Sequence[Absent]) -> Iterator[tuple[str, str]]:
    """Yield each library that must come from elsewhere, with a label; the missing ones last."""
    order = list(Absence)
    for absent in sorted(libraries, key=lambda absent: order.index(absent.absence)):
        reasons = {
            Absence.EXCLUDED: "must come from elsewhere",
            Absence.PROVIDED: f"must come from elsewhere: {absent.provider}",
            Absence.MISSING: "neither in the wheel nor promised by its tag",
        }
        needed = f"needed by {join_some(absent.dependents, 2)}"
        text = f"{absent.library}: {reasons[absent.absence]} ({needed})"
        yield absent.absence, text


def _ways(ways: Mapping[str, str]) -> Iterator[str]:
    """Yield how many objects were edited in each way, and which ones."""
    for way, members in sorted(grouped(ways, lambda member: ways[member]).items()):
        yield f"{way}: {counted(len(members), 'object')}"
        yield from (f"  `{member}`" for member in members)


def _proved(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    """Yield what the changed files load in every install scheme, and auditwheel's verdict."""
    yield from _loads(outcome.loads, verbose=verbose)
    if outcome.loads and not any(load.fails for load in outcome.loads):
        found = "all bundled libraries are found" if outcome.absent else "all found"
        yield f"{found} in every install scheme that the tags allow"
    if outcome.verdict is None:
        return
    yield from _tag(outcome.verdict)
    tags = outcome.after.name.platforms if outcome.after else ()
    if verbose or outcome.verdict.overall not in tags:
        reasons = outcome.verdict.reasons
        yield from (f"  {reason}" for reason in (reasons if verbose else reasons[:FEW]))


def _tag(verdict: Verdict) -> Iterator[str]:
    """Yield the tag that auditwheel determines, and that of `auditwheel show` if it differs."""
    if not verdict.shown_because:
        yield f"auditwheel show: {verdict.overall}"
        return
    yield f"installed: {verdict.overall}"
    yield f"auditwheel show: {verdict.shown}, {verdict.shown_because}"


def _loads(loads: Sequence[Loads], *, verbose: bool) -> Iterator[str]:
    """Yield what each changed file loads, failures first; only those without `verbose`."""
    failing = [load for load in loads if load.fails]
    shown = [*failing, *(load for load in loads if not load.fails)] if verbose else failing
    for load in shown:
        yield f"`{load.member}`: {_found(load, verbose=verbose)}"
        if load.fails:
            yield f"  not with {', '.join(load.fails)}"
            yield f"  works with {', '.join(load.works) or 'none'}"
        else:
            yield f"  works with {', '.join(load.works)}"


def _found(load: Loads, *, verbose: bool) -> str:
    """Return how many libraries `load` finds in each folder; if `verbose`, which ones."""
    folders = grouped(load.libraries, lambda library: posixpath.dirname(library[1]) or ".")
    found = (
        f"{', '.join(name for name, _ in some) if verbose else counted(len(some), 'library')}"
        f" from `{folder}`"
        for folder, some in folders.items()
    )
    return ", ".join(found) or "nothing from the wheel"


def _tags(outcome: Outcome) -> Iterator[str]:
    if outcome.before is not None and outcome.after is not None:
        old, new = (".".join(w.name.platforms) for w in (outcome.before, outcome.after))
        yield f"{old} -> {new}" if old != new else old


def _sizes(outcome: Outcome) -> Iterator[str]:
    if outcome.output is not None and outcome.bytes_after:
        yield f"{in_units(outcome.bytes_before)} -> {in_units(outcome.bytes_after)}"


# --- The plan -------------------------------------------------------------------------------------


def plan(outcome: Outcome, *, colour: bool) -> str:
    """Return each edit of the plan: the file, the old and the new value, and the rule."""
    head = f"plan for {printable(outcome.source.name)}"
    lines = [paint(head, Colour.BOLD, on=colour)]
    if not outcome.edits:
        lines.append("  nothing to change")
    for member, edits in grouped(outcome.edits, lambda edit: edit.member).items():
        lines.append(f"  {printable(member)}")
        for edit in edits:
            rule = edit.name if edit.code == edit.name else f"{edit.code} {edit.name}"
            change = f"{printable(edit.old)} -> {printable(edit.new)}"
            lines.append(f"    {change}  {paint(f'[{printable(rule)}]', Colour.DIM, on=colour)}")
    return "\n".join(lines)
