"""Check of wheels: reading, the rules, suppressed findings, and what a repair would fix.

The findings depend only on the wheels and on what the settings name (`library-path`, `provider`,
neighbors): they are the same on every machine. Which of them a repair fixes may depend on its
libraries. Nothing is run, unless the settings ask for neighbors that must be fetched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict, policy_verdict
from wheelfix.errors import OutputError, WheelfixError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.host.library_search import GivenLibraries
from wheelfix.host.neighbors import find_neighbors
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.provider_lookup import find_providers
from wheelfix.pipelines.check_plan import (
    RepairCall,
    keep_planned_fixes,
    without_repair,
)
from wheelfix.pipelines.check_result import Report, SetReport, TargetFit
from wheelfix.pipelines.hinted_command import name_command, wheels_beside
from wheelfix.pipelines.output_claims import words_for_another_folder
from wheelfix.pipelines.repair_plan import context_of
from wheelfix.providers.model import Provided
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.bundled_drivers import libraries_provided_elsewhere
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.findings import Finding, Suppressed, SuppressionReason
from wheelfix.rules.registry import (
    IGNORE_RULES,
    RELEASE_RULES,
    TARGET_RULES,
    is_for_any_system,
    selected_rules,
)
from wheelfix.rules.rule import Rule
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.rules.run_rules import find, find_in_set, matching_ignore, worst_first
from wheelfix.rules.stale_ignores import unused_ignores
from wheelfix.rules.target_machines import lacking_targets, targets_of
from wheelfix.settings import Settings
from wheelfix.wheel.platform_tags import OtherSystem, other_system
from wheelfix.wheel.reader import ProgressWatch, open_wheel
from wheelfix.wheel.required_file import require_file

NO_BASELINE = Baseline()


@frozen
class CheckTask:
    """One wheel to check, with all that its report depends on, wherever it is checked."""

    wheel: Path
    """As the user named it."""
    settings: Settings
    """Their paths are absolute."""
    folder: Path = Path()
    """Where a relative path of the wheel starts."""
    beside: tuple[Provided, ...] = ()
    """The other wheels of the run that it requires."""
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The user's library paths, absolute, for what a repair would graft; where neighbors are
    fetched, all variables."""
    words: tuple[str, ...] = ()
    """The flags that `wheelfix repair` takes as well, for hints."""
    repair: Settings | None = None
    """The settings that `wheelfix repair` has with these flags; None for the same."""


def check(
    task: CheckTask, baseline: Baseline = NO_BASELINE, watch: ProgressWatch | None = None
) -> Report:
    """Return what is wrong with one wheel; a failure to read it is in `Report.error`.

    `watch` gets the fraction of it that was read.
    """
    path = task.wheel
    try:
        return _report(task, baseline, watch)
    except WheelfixError as error:
        return Report(source=path, error=error)
    except OSError as error:
        cause = OutputError(
            f"`{path}`: {error.strerror or error}", hint="check that the file can be read"
        )
        return Report(source=path, error=cause)


def _report(task: CheckTask, baseline: Baseline, watch: ProgressWatch | None) -> Report:
    settings, path = task.settings, task.folder / task.wheel
    require_file(task.wheel, task.folder)
    with open_wheel(path, watch=watch) as archive:
        wheel = archive.wheel
        beside = (*task.beside, *find_neighbors(settings, wheel, task.environ))
        providers = find_providers(settings.provider, wheel, beside=beside)
        definitions = GivenLibraries(archive=archive, library_path=settings.library_path)
        context = context_of(wheel, settings, providers, definitions.beside(providers))
        if settings.verdict:
            context = replace(context, verdict=verdict_of(context))
        system = other_system(wheel.name.platforms)
        rules = selected_rules(settings, load_rules())
        if system is not None:
            rules = tuple(filter(is_for_any_system, rules))
        findings = tuple(find(context, rules))
        counting, suppressed = partition_findings(
            findings, settings, lambda _: wheel.name.distribution, baseline
        )
        if system is None:
            call = RepairCall(
                wheel=task.wheel,
                settings=task.repair or settings,
                folder=task.folder,
                libraries=definitions.on_this_machine(
                    task.environ, settings.ldpaths, settings.sysroot
                ),
                beside=beside,
            )
            counting = keep_planned_fixes(counting, context, call, findings)
            apart = words_for_another_folder(task.wheel, call.settings.wheel_dir, task.folder)
            words = (*task.words, *apart, *wheels_beside(task.beside, task.folder))
            counting = tuple(name_command(finding, words) for finding in counting)
        else:
            counting = tuple(map(without_repair, counting))
        return Report(
            source=task.wheel,
            findings=counting,
            suppressed=suppressed,
            wheel=wheel,
            neighbors=context.beside if context.provider_uses else (),
            verdict=context.verdict if system is None else None,
            skipped="" if system is None else _skip_note(system),
            size=archive.size,
            targets=_targets(context, rules),
        )


def _skip_note(system: OtherSystem) -> str:
    by = f"; {system.tool} checks these" if system.tool else ""
    return f"rules about ELF objects skipped: a wheel for {system.name}{by}"


def _targets(context: Context, rules: Iterable[Rule]) -> dict[str, TargetFit]:
    """Return the machines of `target`, as a report does; none if no rule is about them."""
    if not set(TARGET_RULES).intersection(rules):
        return {}
    fitting, lacking = targets_of(context), lacking_targets(context)
    names = context.settings.target
    return {name: TargetFit(name in fitting, tuple(lacking.get(name, ()))) for name in names}


def verdict_of(context: Context) -> Verdict | None:
    """Return the verdict on a wheel; libraries that others provide count as excluded."""
    elsewhere = libraries_provided_elsewhere(context)
    return policy_verdict(context.wheel, context.settings, read_policies(), elsewhere)


def partition_findings(
    findings: Iterable[Finding],
    settings: Settings,
    distribution_of: Callable[[Finding], str],
    baseline: Baseline,
) -> tuple[tuple[Finding, ...], tuple[Suppressed, ...]]:
    """Return the findings that count, worst first, and those that are suppressed."""
    counting: list[Finding] = []
    suppressed: list[Suppressed] = []
    for finding in findings:
        by = matching_ignore(finding, settings)
        if by is None and baseline.covers(distribution_of(finding), finding):
            by = Suppressed(finding=finding, because=SuppressionReason.BASELINE)
        if by is None:
            counting.append(finding)
        else:
            suppressed.append(by)
    return worst_first(counting), tuple(suppressed)


def check_set(
    reports: Sequence[Report],
    settings_for: Callable[[str | None], Settings],
    baseline: Baseline = NO_BASELINE,
) -> SetReport:
    """Return the reports of several wheels, with the findings that need all of them.

    `settings_for` returns the settings for a wheel's file name, and for None those of the run.
    """
    settings = settings_for(None)
    read = [report for report in reports if report.wheel is not None]
    wheels = tuple(report.wheel for report in reports if report.wheel is not None)
    context = SetContext(wheels=wheels, settings=settings)
    rules = selected_rules(settings, RELEASE_RULES)
    counting, suppressed = partition_findings(
        find_in_set(context, rules), settings, _distribution_of, baseline
    )
    every = [entry.finding for entry in flatten(report.suppressed for report in read)]
    every += [entry.finding for entry in suppressed]
    asked = (settings_for(report.source.name) for report in read)
    unused = replace(context, unused_ignores=unused_ignores(asked, every))
    rules = selected_rules(settings, IGNORE_RULES)
    more, also_suppressed = partition_findings(
        find_in_set(unused, rules), settings, _distribution_of, baseline
    )
    return SetReport(
        reports=tuple(reports),
        findings=worst_first((*counting, *more)),
        suppressed=(*suppressed, *also_suppressed),
    )


def _distribution_of(finding: Finding) -> str:
    return finding.wheel.partition("-")[0] if finding.wheel else ""


def suppress_all(checked: SetReport) -> SetReport:
    """Return the report, in which no finding counts: all are written to a baseline."""
    reports: list[Report] = []
    for report in checked.reports:
        findings = report.findings
        added = (Suppressed(finding=each, because=SuppressionReason.BASELINE) for each in findings)
        suppressed = (*report.suppressed, *added)
        reports.append(replace(report, findings=(), suppressed=suppressed))
    return checked._replace(reports=tuple(reports), findings=())
