"""Common parts of the formats of `check`: options, located findings, causes, fingerprints."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from itertools import chain, islice
from pathlib import Path

from wheelfix.errors import WheelfixError
from wheelfix.grouping import flatten, grouped, values_by_key
from wheelfix.loader.install_schemes import interpreters
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.pipelines.hinted_command import DONE, done_by, with_wheel
from wheelfix.reports.printable import (
    MOST,
    PLAIN,
    Color,
    Style,
    has_command,
    hint_lines,
    link,
    paint,
    printable,
    shorten,
    wrap,
)
from wheelfix.reports.rule_excerpts import rule_address
from wheelfix.rules.baseline import fingerprint
from wheelfix.rules.findings import Finding, Fix, Safety, Severity, Suppressed
from wheelfix.rules.rule import AnyRule
from wheelfix.rules.stated_rules import EVERY, names_rule
from wheelfix.rules.undefined_symbols import newer_version
from wheelfix.settings import FailOn, Settings, Show
from wheelfix.text import FEW, count, first_of, join_some, toml_pattern

NAME = "wheelfix"
"""The tool's name in reports."""
ALL_WHEELS = "all wheels"
"""The place of what concerns no single wheel."""


class RenderOptions(NamedTuple):
    """Everything a format needs besides the findings."""

    version: str
    """The version of wheelfix."""
    rules: tuple[AnyRule, ...] = ()
    """The rules that were run."""
    folder: Path = Path()
    """The working directory of the run."""
    root: Path = Path()
    """The folder of the checkout; paths below it are relative to it."""
    style: Style = PLAIN
    least: Severity = Severity.NOTE
    """The lowest severity that formats for people show."""
    asked: tuple[str, ...] = ()
    """Selectors of rules whose notes are shown although `least` is higher."""
    quiet: bool = False
    """Whether only findings are shown, without totals."""
    limit: Severity = Severity.ERROR
    """The lowest severity that fails the check."""


def lowest_failing(fail_on: FailOn) -> Severity | None:
    """Return the lowest severity that fails a check; None if none does."""
    return None if fail_on is FailOn.NEVER else Severity[fail_on.upper()]


def shown_path(source: Path, options: RenderOptions) -> str:
    """Return the path of a wheel, relative to the checkout if it is below it."""
    whole = options.folder / source
    is_below = whole.is_relative_to(options.root)
    return (whole.relative_to(options.root) if is_below else source).as_posix()


def path_for_all(set_report: SetReport, options: RenderOptions) -> str:
    """Return the path for findings about all wheels, where a format needs one: the first's."""
    return next((shown_path(report.source, options) for report in set_report.reports), ".")


class LocatedFinding(NamedTuple):
    """A finding with the path of its wheel."""

    finding: Finding
    path: str
    """The path of the wheel, relative to the root; empty if it concerns no single wheel."""
    fingerprint: str
    """Stable across versions of the package; unique in a report."""

    @property
    def place(self) -> str:
        """`dist/x.whl!member`."""
        if self.finding.member is None:
            return self.path or ALL_WHEELS
        return f"{self.path}!{self.finding.member}" if self.path else self.finding.member

    @property
    def title(self) -> str:
        """`WF101 unreachable-library`."""
        return f"{self.finding.code} {self.finding.name}"

    @property
    def hint(self) -> str | None:
        """The hint of the finding; its commands take the wheel."""
        hint = self.finding.hint
        return None if hint is None else with_wheel(hint, self.path)

    @property
    def advice(self) -> str:
        """The hint of the finding, or a command that helps."""
        return advice(self.finding, self.path)


def advice(finding: Finding, path: str) -> str:
    """Return the hint of a finding of the wheel at `path`, or a command that helps.

    Commands that take a wheel get this one, so that they can be pasted.
    """
    if finding.hint is not None:
        return with_wheel(finding.hint, path)
    if finding.fix is None:
        return f"`wheelfix rule {finding.code}` explains common causes and fixes"
    return with_wheel(done_by(finding.fix), path)


def of_wheel(report: Report, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of one wheel."""
    return locate(((report, finding) for finding in report.findings), options)


def of_set(set_report: SetReport, options: RenderOptions) -> tuple[LocatedFinding, ...]:
    """Return the findings of the cross-wheel rules."""
    return locate(islice(set_report.all_findings, len(set_report.findings)), options)


def locate(
    findings: Iterable[tuple[Report | None, Finding]], options: RenderOptions
) -> tuple[LocatedFinding, ...]:
    """Return the findings with the paths of their wheels; `SetReport.all_findings` has them all."""
    seen: Counter[str] = Counter()
    everything: list[LocatedFinding] = []
    for report, finding in findings:
        key = _identity(finding, report)
        seen[key] += 1
        path = "" if report is None else shown_path(report.source, options)
        everything.append(
            LocatedFinding(finding=finding, path=path, fingerprint=digest(f"{key}\0{seen[key]}"))
        )
    return tuple(everything)


def unreadable(
    set_report: SetReport, options: RenderOptions
) -> Iterator[tuple[str, WheelfixError]]:
    """Yield the path of each file that could not be read, and why."""
    for report in set_report.reports:
        if report.error is not None:
            yield shown_path(report.source, options), report.error


def target_statuses(report: Report) -> dict[str, str]:
    """Return for each machine of `--target` if the wheel loads there, in a word or two."""
    is_for_one = report.wheel is not None and len(interpreters(report.wheel.name)) == 1
    fatal = _UNLOADABLE | {"WF303"} if is_for_one else _UNLOADABLE
    is_broken = any(
        _fails_everywhere(finding) for finding in report.findings if finding.code in fatal
    )
    failing = flatten(finding.targets for finding in report.findings)
    bad = {*report.targets} if is_broken else {*failing}
    statuses = dict.fromkeys(report.targets, "ok")
    for name, fit in report.targets.items():
        if not fit.is_for:
            statuses[name] = "not applicable"
        elif name in bad:
            statuses[name] = "no"
        elif fit.lacking:
            statuses[name] = "not known"
    return statuses


def _fails_everywhere(finding: Finding) -> bool:
    """Return whether a finding that a wheel does not load is true of all machines.

    A newer symbol of the platform is there on newer ones.
    """
    return finding.severity is Severity.ERROR and newer_version(finding) is None


def worst_first(findings: tuple[LocatedFinding, ...]) -> list[LocatedFinding]:
    """Sort by severity; findings of one severity keep their order."""
    return sorted(findings, key=lambda located: -located.finding.severity)


def _identity(finding: Finding, report: Report | None) -> str:
    """Return the parts of a finding that do not change with the version of the package."""
    name = report.source.name if report is not None else ""
    distribution, *rest = name.split("-")
    message = "" if finding.entry else finding.message
    return "\0".join((*fingerprint(distribution, finding), message, *rest[1:]))


def digest(text: str) -> str:
    """Return a digest of `text` in 32 hexadecimal digits."""
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:32]


def suppressed_findings(set_report: SetReport) -> Iterator[Suppressed]:
    """Yield the suppressed findings of the set and of every wheel."""
    return chain(set_report.suppressed, *(report.suppressed for report in set_report.reports))


# --- Findings for people --------------------------------------------------------------------------


class Cause(NamedTuple):
    """Findings of one rule that differ only in the files, or the entries, that they concern."""

    finding: Finding
    """All of them in one: its notes are those that all have, or those of each entry."""
    places: tuple[str, ...]
    """The files, without repetition; empty if the findings concern none."""
    number: int
    """How many findings they are, in the counts of every format."""

    def lines(self, style: Style) -> tuple[str, ...]:
        """Return the lines that say where: one per file if `verbose`, else one for all."""
        if style.verbose or len(self.places) < 2:
            return self.places
        few = ", ".join(first_of(self.places, FEW))
        return (f"{count(len(self.places), 'file')}: {few}",)


_UNLOADABLE = frozenset({"WF101", "WF103", "WF104", "WF106", "WF301", "WF304", "WF311", "WF507"})
"""Rules of what an object lacks wherever it is installed: a library of the wheel, a symbol of none,
the init function of a module; and of a wheel that no Python installs."""
_HINTS = 10
"""Lines of the hints of findings of one cause: an obstacle to a repair, and ways out, have six."""


def causes(placed: Iterable[tuple[str, Finding]]) -> list[Cause]:
    """Return findings, each with its place or "", by rule and cause, in the order of the first."""
    listed: list[Cause] = []
    for group in grouped(placed, lambda pair: _cause(pair[1])).values():
        places = tuple(dict.fromkeys(place for place, _ in group if place))
        listed.append(Cause(_as_one([finding for _, finding in group]), places, len(group)))
    return listed


def _as_one(findings: Sequence[Finding]) -> Finding:
    """Return what `findings` of one cause say together, naming the first entries."""
    first = findings[0]
    of_entries = grouped(findings, lambda finding: finding.entry)
    by_entry = {entry: same[0] for entry, same in of_entries.items() if entry is not None}
    entries = [*by_entry]
    shared = set(first.notes).intersection(*(finding.notes for finding in findings))
    notes = tuple(note for note in first.notes if note in shared)
    if first.several is None or len(entries) < 2:
        return replace(first, notes=notes)
    own = {entry: [n for n in found.notes if n not in shared] for entry, found in by_entry.items()}
    return replace(
        first,
        message=first.several.replace("{}", join_some(entries, FEW), 1),
        entry=None,
        notes=(*notes, *(f"`{entry}`: {'; '.join(said)}" for entry, said in own.items() if said)),
        hint="\n".join(first_of([*_by_command(_hints(by_entry))], _HINTS)) or None,
    )


def _hints(by_entry: Mapping[str, Finding]) -> Iterator[str]:
    """Yield the lines of the hints; entries with the same line share one."""
    told = values_by_key(
        (line.replace(f"`{entry}`", "`\0`").replace(toml_pattern(entry), '"\0"'), entry)
        for entry, finding in by_entry.items()
        for line in (finding.hint or "").splitlines()
    )
    for blank, entries in told.items():
        # A setting is pasted: it has all.
        line = blank.replace('"\0"', ", ".join(map(toml_pattern, entries)))
        yield line.replace("`\0`", join_some(entries, FEW))


def _by_command(lines: Iterable[str]) -> Iterator[str]:
    """Yield each line once; in one, what a command does about several entries."""
    for start, same in grouped(lines, lambda line: line.partition(DONE)[0]).items():
        titles = [title for line in same if (title := line.partition(DONE)[2])]
        end = titles[-1].rpartition(", and ")[2] if titles else ""
        parts = [*(title.removesuffix(f", and {end}") for title in titles[:-1]), *titles[-1:]]
        yield f"{start}{DONE}{'; '.join(parts)}" if titles else start


def causes_in_wheel(findings: Iterable[Finding]) -> list[Cause]:
    """Return the findings of one wheel by rule and cause."""
    return causes((finding.member or "", finding) for finding in findings)


def causes_of_set(set_report: SetReport, options: RenderOptions) -> list[Cause]:
    """Return the findings of the cross-wheel rules by rule and cause."""
    return causes((located.place, located.finding) for located in of_set(set_report, options))


def objects_text(report: Report) -> str:
    """Return how many objects the wheel of a report has."""
    number = len(report.wheel.elfs) if report.wheel is not None else 0
    return count(number, "object") if number else "no ELF objects"


def _cause(finding: Finding) -> tuple[str, Severity, Safety | None, str]:
    """Return what findings of one cause have in common."""
    message = finding.message.replace(f"`{finding.member}`", "") if finding.member else ""
    safety = finding.fix.safety if finding.fix is not None else None
    said = finding.several or message or finding.message
    return finding.code, finding.severity, safety, said


def lowest_shown(show: Show, fail_on: FailOn, verbosity: int) -> Severity:
    """Return the lowest severity that formats for people show; what fails a check is shown."""
    least = _LEAST[show]
    if verbosity:
        least = Severity.NOTE if verbosity > 0 else Severity.ERROR
    failing = lowest_failing(fail_on)
    return least if failing is None else min(least, failing)


_LEAST = {
    Show.ERRORS: Severity.ERROR,
    Show.WARNINGS: Severity.WARNING,
    Show.NOTES: Severity.NOTE,
}


def selectors_by_name(settings: Settings) -> tuple[str, ...]:
    """Return the selectors of rules that were given, apart from ALL."""
    return tuple(selector for selector in settings.selectors if selector != EVERY)


def is_shown(finding: Finding, options: RenderOptions) -> bool:
    """Return whether formats for people show `finding`: notes have to be asked for."""
    return finding.severity >= options.least or (
        finding.severity is Severity.NOTE
        and any(names_rule(selector, finding.code, finding.name) for selector in options.asked)
    )


def visible_report(set_report: SetReport, options: RenderOptions) -> SetReport:
    """Return what formats for people show: not all findings, and unless verbose in short texts."""

    def kept(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        shown = (finding for finding in findings if is_shown(finding, options))
        return tuple(shown if options.style.verbose else map(shorten_finding, shown))

    reports = (replace(report, findings=kept(report.findings)) for report in set_report.reports)
    return set_report._replace(reports=tuple(reports), findings=kept(set_report.findings))


def shorten_finding(finding: Finding) -> Finding:
    """Return a finding whose texts are short; a hint with a command is whole, or not there."""
    lines = (finding.hint or "").splitlines()
    hint = "\n".join(
        line if has_command(line) else shorten(line)
        for line in lines
        if len(line) <= MOST or not has_command(line)
    )
    return replace(
        finding,
        message=shorten(finding.message),
        notes=tuple(map(shorten, finding.notes)),
        hint=hint or None,
        member=finding.member and shorten(finding.member),
        entry=finding.entry and shorten(finding.entry),
    )


def heading(finding: Finding) -> str:
    """Return `warning[WF201] unused-needed [*]`.

    The asterisk marks what `repair` fixes, `[+]` what it fixes with `--unsafe-fixes`.
    """
    fix = finding.fix
    mark = "" if fix is None else " [*]" if is_fixed_by_repair(fix) else " [+]"
    return f"{finding.severity.label}[{finding.code}] {finding.name}{mark}"


def message_with_place(finding: Finding) -> str:
    """Return the message of a finding, with its member if that is not named."""
    is_named = finding.member is None or finding.member in finding.message
    return finding.message if is_named else f"`{finding.member}`: {finding.message}"


def is_fixed_by_repair(fix: Fix | None) -> bool:
    """Return whether `repair` applies `fix` by default."""
    return fix is not None and fix.safety is Safety.SAFE


def finding_text(
    finding: Finding,
    *,
    wheel: str = "",
    places: Iterable[str] = (),
    why: str = "",
    style: Style = PLAIN,
) -> str:
    """Return a finding with its places, notes, reason, and hint.

    `wheel` is the path of its wheel, for commands to paste; `places` are lines that say where.
    """
    color, width = style.color, style.width
    most = len(finding.notes) if style.verbose else FEW
    notes = list(finding.notes[:most])
    if left := finding.notes[most:]:
        notes.append(f"and {count(len(left), 'more note')}, which -v shows")
    if finding.entry and not any(finding.entry in text for text in (finding.message, *notes)):
        notes.append(f"the entry is `{finding.entry}`")
    head = heading(finding)
    address = rule_address(finding.code, finding.name, style.documentation)
    code = link(finding.code, address if color else "")
    painted = paint(head.replace(finding.code, code, 1), COLOR_OF[finding.severity], on=color)
    arrow = paint("-->", Color.BLUE, on=color)
    lines = [
        wrap(f"{head}: ", printable(finding.message), width, 2).replace(head, painted, 1),
        *(wrap("  --> ", printable(place), width).replace("-->", arrow, 1) for place in places),
        *(wrap("  = note: ", printable(note), width) for note in notes),
        *([wrap("  = why: ", printable(why), width)] if why else []),
        *hint_lines(advice(finding, wheel), style),
    ]
    return "\n".join(lines)


COLOR_OF = {
    Severity.ERROR: Color.RED,
    Severity.WARNING: Color.YELLOW,
    Severity.NOTE: Color.BLUE,
}
