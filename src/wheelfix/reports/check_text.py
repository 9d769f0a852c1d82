"""Reports of `check` for a terminal: `full`, `concise` with one line per cause, and statistics."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from wheelfix.grouping import flatten, grouped
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.reports.check_content import (
    ALL_WHEELS,
    Cause,
    RenderOptions,
    causes_in_wheel,
    causes_of_set,
    finding_text,
    heading,
    is_fixed_by_repair,
    is_shown,
    objects_text,
    shown_path,
    suppressed_findings,
    target_statuses,
    unreadable,
    visible_report,
)
from wheelfix.reports.printable import Color, fit, paint, printable, wrap
from wheelfix.reports.rule_excerpts import why_briefly
from wheelfix.rules.auditwheel_verdict import broken_promises
from wheelfix.rules.findings import Finding, Safety, Severity, SuppressionReason
from wheelfix.text import FEW, count, join_some


def render(set_report: SetReport, options: RenderOptions) -> str:
    """Return a line per wheel, its findings by cause with reason and remedy, and the totals.

    Of many causes of one rule in one wheel only a few are shown, unless `verbose`. Errors of
    unreadable files are not included: they go to stderr.
    """
    shown = visible_report(set_report, options)
    hit = {finding.code for _, finding in shown.all_findings}
    reasons = {
        rule.code: why_briefly(rule.explanation) for rule in options.rules if rule.code in hit
    }
    blocks: list[str] = []
    if shown.findings:
        title = f"{count(len(set_report.reports), 'wheel')} side by side"
        blocks.append(paint(title, Color.BOLD, on=options.style.color))
        blocks += _texts(causes_of_set(shown, options), "", reasons, options)
    blocks += _wheels(set_report, shown, reasons, options)
    if options.style.verbose:
        blocks += _suppressed_lines(set_report)
    blocks.append(_target_table(set_report, options))
    if not options.quiet and not _is_one_line(set_report, shown):
        in_wheels = (causes_in_wheel(report.findings) for report in shown.reports)
        causes = sum(map(len, (causes_of_set(shown, options), *in_wheels)))
        many = len(set_report.reports) > 1
        lines = (
            totals(set_report, options, causes)
            if many
            else (*_tallied(shown, causes), *_omissions(set_report, options))
        )
        blocks.append("\n".join(wrap("", line, options.style.width, 2) for line in lines))
    return fit("\n\n".join(block for block in blocks if block), verbose=options.style.verbose)


def _is_one_line(set_report: SetReport, shown: SetReport) -> bool:
    """Return whether the line of the only wheel says everything."""
    nothing_else = not any(suppressed_findings(set_report)) and not any(shown.all_findings)
    return len(set_report.reports) == 1 and nothing_else and not set_report.unreadable


def _wheels(
    set_report: SetReport, shown: SetReport, reasons: dict[str, str], options: RenderOptions
) -> Iterator[str]:
    """Yield each wheel with findings as blocks, and adjacent wheels without any as one block."""
    pairs = [
        (whole, visible)
        for whole, visible in zip(set_report.reports, shown.reports, strict=True)
        if whole.error is None
    ]
    for has_findings, group in groupby(pairs, lambda pair: bool(pair[1].findings)):
        if not has_findings:
            heads = (_head(whole, set_report, options) for whole, _ in group)
            yield "" if options.quiet else "\n".join(heads)
            continue
        for whole, visible in group:
            path = shown_path(whole.source, options)
            first, *more = _texts(causes_in_wheel(visible.findings), path, reasons, options)
            yield f"{_head(whole, set_report, options)}\n{first}"
            yield from more


def _head(report: Report, set_report: SetReport, options: RenderOptions) -> str:
    """Return the line of a wheel: its path, what its objects allow, and what is not shown."""
    path = paint(printable(shown_path(report.source, options)), Color.BOLD, on=options.style.color)
    is_alone = len(set_report.reports) == 1
    findings = (*report.findings, *(set_report.findings if is_alone else ()))
    hidden = [finding for finding in findings if not is_shown(finding, options)]
    sound = len(hidden) == len(findings)
    facts = [
        *(
            [paint("ok", Color.GREEN, on=options.style.color)]
            if sound and not report.skipped
            else []
        ),
        *_allowed(report),
        report.skipped or objects_text(report),
        *([f"{kinds}: -v"] if (kinds := kinds_of(hidden)) else []),
    ]
    return f"{path}: {', '.join(facts)}"


def _allowed(report: Report) -> Iterator[str]:
    """Yield the best tag of the objects; where the file name promises a better one, it says so."""
    if report.verdict is not None:
        tag = printable(report.verdict.overall)
        broken = report.wheel is not None and broken_promises(report.wheel, report.verdict)
        yield f"its objects allow only {tag}" if broken else tag


def totals(set_report: SetReport, options: RenderOptions, causes: int = 0) -> Iterator[str]:
    """Yield the totals: problems, fixes by `repair`, what is not shown, unreadable files.

    `causes` is the number of blocks, where the findings of one cause are one.
    """
    shown = visible_report(set_report, options)
    yield from _tallied(shown, causes)
    findings = (finding for _, finding in set_report.all_findings)
    if hidden := kinds_of(finding for finding in findings if not is_shown(finding, options)):
        yield f"Not shown: {hidden} (-v shows them)."
    yield from _omissions(set_report, options)


def _tallied(shown: SetReport, causes: int) -> Iterator[str]:
    if judged := len(shown.reports) - len(shown.unreadable):
        yield _tally([finding for _, finding in shown.all_findings], causes, judged)


def _omissions(set_report: SetReport, options: RenderOptions) -> Iterator[str]:
    """Yield what does not count, and what could not be read."""
    if left_out := _suppressed_text(set_report):
        yield left_out
    if paths := [printable(path) for path, _ in unreadable(set_report, options)]:
        yield f"{count(len(paths), 'wheel')} not judged: {join_some(paths, FEW)}."


def _suppressed_text(set_report: SetReport) -> str:
    """Return how many findings are suppressed, and why; empty if none are."""
    by = Counter(suppressed.because for suppressed in suppressed_findings(set_report))
    if not by:
        return ""
    words = {
        SuppressionReason.IGNORE: "ignored",
        SuppressionReason.PER_FILE: "ignored for their file",
        SuppressionReason.BASELINE: "in the baseline",
    }
    kinds = ", ".join(
        f"{by[because]:,} {words[because]}" for because in SuppressionReason if by[because]
    )
    return f"Not counted: {kinds}."


def _tally(findings: Sequence[Finding], causes: int, wheels: int) -> str:
    """Return the number of findings by severity, and how many `repair` would fix."""
    if not findings:
        return f"All checks passed for {count(wheels, 'wheel')}."
    of_causes = f" with {count(causes, 'cause')}" * (0 < causes < len(findings))
    total = f"Found {kinds_of(findings)}{of_causes} in {count(wheels, 'wheel')}."
    return f"{total} {_fix_count(findings)}".rstrip()


def _fix_count(findings: Sequence[Finding]) -> str:
    """Return how many findings a repair certainly fixes; the graft may fix more."""
    fixes = [finding.fix for finding in findings]
    safe = sum(is_fixed_by_repair(fix) for fix in fixes)
    unsafe = sum(fix is not None and fix.safety is Safety.UNSAFE for fix in fixes)
    if safe:
        number = "all of them" if safe == len(findings) > 1 else f"{safe:,}"
        more = f", and {unsafe:,} more [+] with `--unsafe-fixes`" if unsafe else ""
        return f"`wheelfix repair` fixes {number} [*]{more}."
    return f"`wheelfix repair --unsafe-fixes` fixes {unsafe:,} [+]." if unsafe else ""


def kinds_of(findings: Iterable[Finding]) -> str:
    """Return `2 errors, 1 note`."""
    numbers = Counter(finding.severity for finding in findings)
    return ", ".join(
        count(numbers[severity], severity.label)
        for severity in sorted(Severity, reverse=True)
        if numbers[severity]
    )


def _texts(
    causes: Sequence[Cause], wheel: str, reasons: dict[str, str], options: RenderOptions
) -> Iterator[str]:
    """Yield the causes by rule; the first of a rule in the report has the reason.

    A reason that was printed is removed from `reasons`.
    """
    said: set[str] = set()
    for code, group in grouped(causes, lambda cause: cause.finding.code).items():
        shown = group if options.style.verbose else group[:FEW]
        for cause in shown:
            yield finding_text(
                _with_unsaid(cause.finding, said),
                wheel=wheel,
                places=cause.lines(options.style),
                why=reasons.pop(code, ""),
                style=options.style,
            )
        if len(shown) < len(group):
            more, name = sum(c.number for c in group[len(shown) :]), shown[0].finding.name
            yield (
                f"  … and {more:,} more {code} {printable(name)}: "
                f"-v shows them, `wheelfix rule {code}` explains"
            )


def _with_unsaid(finding: Finding, said: set[str]) -> Finding:
    """Return a finding without the lines of its hint that others have `said`, and add the rest.

    One line may be the same by chance: it stays.
    """
    lines = (finding.hint or "").splitlines()
    repeated = said.intersection(lines)
    said.update(lines)
    if len(repeated) < 2:
        return finding
    shown = ("as above" if line in repeated else line for line in lines)
    return replace(finding, hint="\n".join(dict.fromkeys(shown)))


def _target_table(set_report: SetReport, options: RenderOptions) -> str:
    """Return which wheel loads on which machine of `--target`; empty without any."""
    statuses = {report.source: target_statuses(report) for report in set_report.reports}
    names = list(dict.fromkeys(flatten(statuses.values())))
    if not names:
        return ""
    rows = [("", *names)]
    for source, by_target in statuses.items():
        if by_target:
            path = printable(shown_path(source, options))
            rows.append((path, *(by_target.get(name, "") for name in names)))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (zip(row, widths, strict=True) for row in rows)
    table = ["  ".join(f"{c:{width}}" for c, width in line).rstrip() for line in lines]
    unknown = (
        f"{name}: not known, as others must bring {printable(join_some(fit.lacking, FEW))}"
        for report in set_report.reports
        for name, fit in report.targets.items()
        if statuses[report.source][name] == "not known"
    )
    return "\n".join(dict.fromkeys((*table, *unknown)))


def _suppressed_lines(set_report: SetReport) -> Iterator[str]:
    lines = [
        f"{each.finding.code} {each.finding.member or ''} [{each.because}] {each.reason}"
        for each in suppressed_findings(set_report)
    ]
    if lines:
        yield "\n".join(["not counted:", *(f"  {' '.join(printable(x).split())}" for x in lines)])


def render_concise(set_report: SetReport, options: RenderOptions) -> str:
    """Return `wheel!member: error[WF101] name: message` for each cause, and the totals.

    Programs read it: nothing is shortened.
    """
    whole = options._replace(style=options.style._replace(verbose=True))
    shown = visible_report(set_report, whole)
    lines = [_concise(cause, ALL_WHEELS, "") for cause in causes_of_set(shown, whole)]
    for report in shown.reports:
        path = shown_path(report.source, options)
        lines += [_concise(cause, path, f"{path}!") for cause in causes_in_wheel(report.findings)]
    for path, error in unreadable(set_report, options):
        lines.append(f"{path}: not judged: {' '.join(error.message.splitlines())}")
    printed = [printable(line) for line in lines]
    return "\n".join(printed if options.quiet else [*printed, *totals(set_report, options)])


def _concise(cause: Cause, whole: str, start: str) -> str:
    """Return the line of a cause, at its first place; `whole` is that of one without a file."""
    place = f"{start}{cause.places[0]}" if cause.places else whole
    more = len(cause.places) - 1
    others = f" (and {count(more, 'more file')})" if more > 0 else ""
    return f"{place}: {heading(cause.finding)}: {cause.finding.message}{others}"


def render_statistics(set_report: SetReport, options: RenderOptions) -> str:
    """Return the number of findings of each rule, most first."""
    shown = [finding for _, finding in visible_report(set_report, options).all_findings]
    groups = grouped(shown, lambda finding: finding.code)
    ordered = sorted(groups.values(), key=lambda group: (-len(group), group[0].code))
    width = max((len(f"{len(group):,}") for group in ordered), default=0)
    lines = [f"{len(group):>{width},}  {printable(heading(group[0]))}" for group in ordered]
    return "\n".join([*lines, *totals(set_report, options)])
