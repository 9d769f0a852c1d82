"""The output of `wheelfix repair`: summary and plan as text.

Names come from wheels that may be hostile: every one of them passes through `printable`.
"""

import os
import posixpath
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from wheelfix.analysis.never_bundled import FROM_MACHINE
from wheelfix.grouping import flatten, grouped
from wheelfix.pipelines.repair_result import Absence, Absent, ObjectLoads, Outcome, Status
from wheelfix.providers.well_known import options_to_search
from wheelfix.reports.check_content import (
    causes_in_wheel,
    finding_text,
    heading,
    message_with_place,
    shorten_finding,
)
from wheelfix.reports.printable import (
    PLAIN,
    Color,
    Style,
    error_text,
    error_words,
    paint,
    printable,
)
from wheelfix.reports.run_totals import WheelResult
from wheelfix.reports.verify import counts
from wheelfix.rules.findings import Finding, PlannedEdit, Severity
from wheelfix.text import FEW, count, first_of, in_units, join_plain, join_some
from wheelfix.wheel.edits import (
    AddLicenseFile,
    AddMember,
    AddRequirement,
    NewFile,
    RenameNeeded,
    SetLicenseExpression,
    WriteSource,
)
from wheelfix.wheel.platform_tags import are_android

_STATUS = {
    Status.REPAIRED: Color.GREEN,
    Status.UNCHANGED: Color.GREEN,
    Status.PLANNED: Color.BLUE,
    Status.REJECTED: Color.RED,
    Status.FAILED: Color.RED,
}


MOST_LINES = 20
"""The lines of a summary that is not verbose."""
_GRAFTED = 5
"""The number of grafted libraries that a summary describes."""

# --- The summary of one wheel ---------------------------------------------------------------------


def summary(outcome: Outcome, style: Style = PLAIN) -> str:
    """Return what was grafted and fixed, the proof, and what is left.

    At most `MOST_LINES` lines, unless `verbose`: of each kind, some are left out. Rules are linked
    to their pages on `documentation`, the address of the site, if it is not empty.
    """
    verbose = style.verbose
    lines = [*_excluded_lines(outcome.absent, verbose=verbose), *_head(outcome, style)]
    if outcome.error is not None:
        return "\n".join(lines if verbose else _cut(lines, MOST_LINES, "line"))
    full = outcome.remaining if verbose else tuple(_errors(outcome.remaining))
    wheel = os.fspath(outcome.source)
    texts = list(_texts(full, wheel, style))
    rows = list(_rows(outcome, verbose=verbose))
    if not verbose:
        of_errors = list(flatten(text.splitlines() for text in texts))
        room = MOST_LINES - len(lines)
        rows = _fold(rows, room - min(len(of_errors), room // 2))
        texts = _cut(of_errors, room - len(rows), "line")
    previous = ""
    for label, text in rows:
        lines.append(f"  {'' if label == previous else label:8} {printable(text)}")
        previous = label
    return "\n".join([*lines, *texts])


def _rows(outcome: Outcome, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield the lines of a summary, each with its label; those of a label are adjacent."""
    mild = [finding for finding in outcome.remaining if finding.severity is not Severity.ERROR]
    if verbose:
        left = {(finding.code, finding.member, finding.entry) for finding in outcome.remaining}
        gone = (f for f in outcome.found if (f.code, f.member, f.entry) not in left)
        yield from (("wrong", line) for line in _group(gone))
    grafted, fixed = ("grafted", "fixed") if outcome.output else ("to graft", "to fix")
    yield from ((grafted, line) for line in _grafted_lines(outcome, verbose=verbose))
    yield from ((fixed, line) for line in _fixed_lines(outcome.edits, verbose=verbose))
    yield from (("python", line) for line in _sources(outcome))
    yield from (("licenses", line) for line in _license_lines(outcome.edits, verbose=verbose))
    yield from (("sbom", line) for line in _sbom_lines(outcome))
    if verbose:
        yield from (("edited", line) for line in _ways(outcome.ways))
    yield from _absent(outcome.absent, verbose=verbose)
    failing = [load for load in outcome.loads if load.fails]
    yield from (("fails", line) for line in _loads(failing, verbose=verbose))
    if outcome.status is not Status.REJECTED:
        proved = "expected" if outcome.status is Status.PLANNED else _proof_label(outcome)
        yield from ((proved, line) for line in _proof_lines(outcome, verbose=verbose))
        yield from (("tag", line) for line in _tag_lines(outcome, verbose=verbose))
    yield from (("unjudged", line) for line in _unjudged(outcome))
    if verbose and outcome.codec:
        yield "codec", outcome.codec
    yield from (("note", message) for message in outcome.messages)
    yield from (("left", line) for line in (_group(mild) if verbose else _remaining_lines(mild)))


def _fold(rows: Sequence[tuple[str, str]], most: int) -> list[tuple[str, str]]:
    """Return at most `most` lines, or one of each label: of the longest lists, the last go."""
    lists = grouped(rows, lambda row: row[0])
    lengths = {label: len(group) for label, group in lists.items()}
    while sum(lengths.values()) > most and max(lengths.values()) > 1:
        lengths[max(lengths, key=lambda label: lengths[label])] -= 1
    return [
        (label, line)
        for label, group in lists.items()
        for line in _cut([text for _, text in group], lengths[label], "")
    ]


def _cut(lines: Sequence[str], most: int, noun: str) -> list[str]:
    """Return `lines`, or their beginning and a line that counts the rest: at most `most` lines.

    With room for one line, the count follows the first: alone it would say nothing.
    """
    if len(lines) <= most:
        return list(lines)
    shown = lines[: max(most - 1, 1)]
    left = len(lines) - len(shown)
    rest = f"and {count(left, f'more {noun}') if noun else f'{left:,} more'}: -v"
    return [*shown, rest] if most > 1 else [f"{shown[0]}, {rest}"]


def _excluded_lines(libraries: Sequence[Absent], *, verbose: bool) -> Iterator[str]:
    """Yield auditwheel's words on the excluded libraries, which its users search for."""
    names = [library.library for library in libraries if library.absence is Absence.EXCLUDED]
    yield from (f"Excluding {printable(name)}" for name in (names if verbose else names[:FEW]))


def failure(outcome: Outcome, style: Style = PLAIN) -> str:
    """Return why a wheel was not written, as in `summary` and not longer; empty if it was."""
    errors = list(_errors(outcome.remaining))
    if outcome.error is None and not errors:
        return ""
    texts = _texts(errors, os.fspath(outcome.source), style)
    text = "\n".join([*_head(outcome, style), *texts])
    return "\n".join(_cut(text.splitlines(), MOST_LINES, "line"))


def fails_alike(outcome: Outcome, other: Outcome) -> bool:
    """Return whether one error kept both wheels from being judged, such as that of a setting."""
    return (
        outcome.error is not None
        and other.error is not None
        and error_words(outcome.error) == error_words(other.error)
    )


def failure_again(outcome: Outcome, first: Outcome, style: Style = PLAIN) -> str:
    """Return the line of a wheel that fails like `first`, whose error was printed."""
    status = paint(outcome.status, _STATUS[outcome.status], on=style.color)
    return f"{printable(outcome.source.name)}: {status} like {printable(first.source.name)}"


def run_result(outcome: Outcome) -> WheelResult:
    """Return how a wheel ended, for the totals of a run."""
    cause = next((heading(finding) for finding in _errors(outcome.remaining)), "")
    if outcome.error is not None:
        cause = outcome.error.lines[0]
    return WheelResult(outcome.source.name, outcome.status, cause)


def _texts(findings: Iterable[Finding], wheel: str, style: Style) -> Iterator[str]:
    shown = findings if style.verbose else map(shorten_finding, findings)
    for cause in causes_in_wheel(shown):
        yield finding_text(cause.finding, wheel=wheel, places=cause.lines(style), style=style)


def _head(outcome: Outcome, style: Style) -> list[str]:
    """Return the line with name, status, tag and sizes, and the error of a wheel that failed."""
    status = paint(outcome.status, _STATUS[outcome.status], on=style.color)
    is_changed = outcome.status in {Status.REPAIRED, Status.PLANNED}
    errors = len(list(_errors(outcome.remaining)))
    facts = [f"{count(errors, 'error')} left"] if errors and outcome.output else []
    facts += [*_tags(outcome), *_sizes(outcome)] if is_changed else []
    head = ", ".join([f"{printable(outcome.source.name)}: {status}", *facts])
    error = outcome.error
    return [head, *(error_text(error, color=style.color).splitlines() if error else [])]


def _errors(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (finding for finding in findings if finding.severity is Severity.ERROR)


def _group(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each rule with findings, and its places."""
    for same in grouped(findings, lambda finding: finding.name).values():
        worst = max(same, key=lambda finding: finding.severity)
        yield f"{heading(worst)}: {count(len(same), 'time')}"
        yield from (f"  {message_with_place(finding)}" for finding in same)


def _remaining_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a line for each rule with warnings, and how many notes there are."""
    warnings = [finding for finding in findings if finding.severity is Severity.WARNING]
    for same in grouped(warnings, lambda finding: finding.name).values():
        places = ", ".join(first_of([message_with_place(finding) for finding in same], 1))
        yield f"{same[0].code} {same[0].name}: {places}"
    if notes := len([finding for finding in findings if finding.severity is Severity.NOTE]):
        yield f"{count(notes, 'note')}: -v"


def _grafted_lines(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    """Yield each grafted library with its origin and its dependents, the largest ones first.

    A dependent is named by its file name if no other object has that.
    """
    libraries = outcome.grafted
    files = Counter(map(posixpath.basename, outcome.after.elfs if outcome.after else ()))
    ordered = sorted(libraries, key=lambda library: -library.host.size)
    shown = ordered if verbose else ordered[:_GRAFTED]
    originals = {posixpath.basename(library.member): library.original for library in libraries}
    for library in shown:
        package = f" ({library.package_label})" if library.package else ""
        dependents = [
            originals.get(name, member if files[name] > 1 else name)
            for member in library.dependents
            for name in (posixpath.basename(member),)
        ]
        names = join_some(dependents, 2)
        needed = f", needed by {names}" if names else ""
        again = f"; {count(len(library.copies), 'more copy')} of it" if library.copies else ""
        size = in_units(library.host.size)
        yield f"{library.original} from {library.host.source}{package}, {size}{needed}{again}"
    if len(shown) < len(ordered):
        yield f"and {join_some([library.original for library in ordered[_GRAFTED:]], 8)}"
    yield from outcome.to_leave.lines()


def _license_lines(edits: Sequence[PlannedEdit], *, verbose: bool) -> Iterator[str]:
    """Yield what is added of licenses: how many texts and from where, and lines of METADATA."""
    texts = {
        edit.edit.member: edit.edit.source.origin
        for edit in edits
        if isinstance(edit.edit, AddMember)
        and isinstance(edit.edit.source, NewFile)
        and edit.edit.source.origin
        and not _is_sbom(edit.edit.member)
    }
    if texts and not verbose:
        origins = join_some(map(posixpath.dirname, texts.values()), 2)
        folder = posixpath.commonpath(map(posixpath.dirname, texts))
        yield f"{count(len(texts), 'text')} from {origins} in `{folder}`"
    elif verbose:
        yield from (f"`{member}` from {origin}" for member, origin in texts.items())
    lines = [edit.new for edit in edits if isinstance(edit.edit, AddLicenseFile)]
    if lines:
        yield f"METADATA gets {join_plain(lines, len(lines) if verbose else 2)}"
    for edit in edits:
        if isinstance(edit.edit, SetLicenseExpression):
            yield f"METADATA: {edit.old} becomes {edit.new}"


def _sbom_lines(outcome: Outcome) -> Iterator[str]:
    """Yield the SBOMs that are added, and from where, or what they list."""
    for edit in outcome.edits:
        match edit.edit:
            case AddMember(member=member, source=NewFile(origin=origin)) if _is_sbom(member):
                grafted = count(len(outcome.grafted), "grafted library")
                listed = grafted if outcome.grafted else "the libraries that it uses"
                yield f"`{member}` from {origin}" if origin else f"`{member}` lists {listed}"
            case _:
                pass


def _is_sbom(member: str) -> bool:
    return "/sboms/" in member


def _fixed_lines(edits: Sequence[PlannedEdit], *, verbose: bool) -> Iterator[str]:
    """Yield a line for each rule with edits; if `verbose`, also all their files."""
    asked = [edit for edit in edits if edit.code != "graft"]
    for name, made in grouped(asked, lambda edit: edit.name).items():
        files = list(dict.fromkeys(edit.member for edit in made))
        of_files = f"`{files[0]}`" if len(files) == 1 else count(len(files), "file")
        code = f"{made[0].code} " if made[0].code != name else ""
        renamed = [f"{e.old} -> {e.new}" for e in made if isinstance(e.edit, RenameNeeded)]
        added = [e.edit.requirement for e in made if isinstance(e.edit, AddRequirement)]
        news = join_plain(renamed, 2) or join_some(added, len(added) if verbose else 5)
        what = f": {news}" if news else ""
        yield f"{code}{name}: {count(len(made), 'edit')} of {of_files}{what}"
        yield from (f"  `{file}`" for file in files if verbose and len(files) > 1)


def _sources(outcome: Outcome) -> Iterator[str]:
    """Yield which Python sources the repair adds or edits, and what each does then."""
    known = outcome.before.sources if outcome.before else dict[str, bytes]()
    for edit in outcome.edits:
        if isinstance(edit.edit, WriteSource):
            is_new = edit.edit.member not in known
            yield f"{'added' if is_new else 'edited'} `{edit.edit.member}`, which {edit.new}"


def _absent(libraries: Sequence[Absent], *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield each library that must come from elsewhere, with a label; the missing ones last.

    Many that come from one place share a line, unless `verbose`.
    """
    reasons = {
        Absence.EXCLUDED: "must come from elsewhere",
        Absence.PROVIDED: "must come from {}",
        Absence.MACHINE: FROM_MACHINE,
        Absence.MISSING: "must be on the user's machine, and the tag does not promise it",
    }
    order = list(Absence)
    ordered = sorted(libraries, key=lambda absent: order.index(absent.absence))
    for (absence, provider, is_reached), same in grouped(
        ordered, lambda a: (a.absence, a.provider, a.is_reached)
    ).items():
        options = f"`{options_to_search(provider, same[0].library)}`"
        if "/" in provider:
            options = "`--provider` with the name of its distribution"
        way = f", where no search path leads; {options} writes one" * (not is_reached)
        for together in [same] if len(same) > FEW and not verbose else [[each] for each in same]:
            names = join_plain((absent.library for absent in together), FEW)
            needed = join_some(flatten(absent.dependents for absent in together), 2)
            yield absence, f"{names} {reasons[absence].format(provider)}{way} (needed by {needed})"


def _unjudged(outcome: Outcome) -> Iterator[str]:
    """Yield the symbols that a library of another wheel, which was not read, may define."""
    provided = {a.library: a.provider for a in outcome.absent if a.absence is Absence.PROVIDED}
    for finding in outcome.remaining if outcome.status is not Status.REJECTED else ():
        of = [to for name, to in provided.items() if f"`{name}`" in finding.message]
        if finding.code == "WF302" and of:
            what = finding.message.removeprefix("not judged: ")
            options = (f"--with {shlex.quote(to)}" for to in dict.fromkeys(of))
            yield f"{what}: `{' '.join(options)}` looks"


def _ways(ways: Mapping[str, str]) -> Iterator[str]:
    """Yield how many objects were edited in each way, and which ones."""
    for way, members in sorted(grouped(ways, lambda member: ways[member]).items()):
        yield f"{way}: {count(len(members), 'object')}"
        yield from (f"  `{member}`" for member in members)


def _proof_label(outcome: Outcome) -> str:
    """Return what a written wheel is: of Android, only a device can prove a load."""
    tags = outcome.after.name.platforms if outcome.after else ()
    return "computed" if are_android(tags) else "proved"


def _proof_lines(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    """Yield what the changed files load in every install scheme, and auditwheel's verdict."""
    if verbose:
        yield from _loads([load for load in outcome.loads if not load.fails], verbose=True)
    bundled = any(load.libraries for load in outcome.loads) if outcome.absent else outcome.loads
    if bundled and not any(load.fails for load in outcome.loads):
        libraries = "all bundled libraries" if outcome.absent else "all libraries"
        yield f"{libraries} are found in every install scheme that the tags allow"
    if outcome.verdict is not None:
        yield f"auditwheel: {outcome.verdict.text}"
    for result in outcome.verified:
        yield f"verify: {'; '.join(counts(result.checks)) or 'nothing to verify'}"


def _tag_lines(outcome: Outcome, *, verbose: bool) -> Iterator[str]:
    """Yield why the tag is not the one that was asked for, or which symbol forbids an older one."""
    verdict = outcome.verdict
    if verdict is None:
        return
    tags = outcome.after.name.platforms if outcome.after else ()
    if verbose or verdict.overall not in tags:
        yield from verdict.reasons if verbose else verdict.reasons[:FEW]
    if verdict.newest:
        yield f"not older: {verdict.newest}"


def _loads(loads: Iterable[ObjectLoads], *, verbose: bool) -> Iterator[str]:
    """Yield what each of some changed files loads, and in which install schemes."""
    for load in loads:
        yield f"`{load.member}`: {_libraries_by_folder(load, verbose=verbose)}"
        if load.fails:
            yield f"  not with {', '.join(load.fails)}"
        yield f"  works with {', '.join(load.works) or 'none'}"


def _libraries_by_folder(load: ObjectLoads, *, verbose: bool) -> str:
    """Return how many libraries `load` finds in each folder; if `verbose`, which ones."""
    folders = grouped(load.libraries, lambda library: posixpath.dirname(library[1]) or ".")
    folders_text = (
        f"{', '.join(name for name, _ in listed) if verbose else count(len(listed), 'library')}"
        f" from `{folder}`"
        for folder, listed in folders.items()
    )
    return ", ".join(folders_text) or "nothing from the wheel"


def _tags(outcome: Outcome) -> Iterator[str]:
    if outcome.before is not None and outcome.after is not None:
        old, new = (".".join(w.name.platforms) for w in (outcome.before, outcome.after))
        yield f"{old} -> {new}" if old != new else old


def _sizes(outcome: Outcome) -> Iterator[str]:
    if outcome.output is not None and outcome.bytes_after:
        yield f"{in_units(outcome.bytes_before)} -> {in_units(outcome.bytes_after)}"


# --- The plan -------------------------------------------------------------------------------------


def plan(outcome: Outcome, style: Style = PLAIN) -> str:
    """Return each edit of the plan: the file, the old and the new value, and the rule."""
    head = f"plan for {printable(outcome.source.name)}"
    lines = [paint(head, Color.BOLD, on=style.color)]
    if not outcome.edits:
        lines.append("  nothing to change")
    for member, edits in grouped(outcome.edits, lambda edit: edit.member).items():
        lines.append(f"  {printable(member)}")
        for edit in edits:
            rule = edit.name if edit.code == edit.name else f"{edit.code} {edit.name}"
            change = f"{printable(edit.old)} -> {printable(edit.new)}"
            lines.append(
                f"    {change}  {paint(f'[{printable(rule)}]', Color.DIM, on=style.color)}"
            )
    return "\n".join(lines)
