"""Check of wheels: reading, the rules, and suppressed findings.

Only the wheels and what the settings name (`library-path`, `provider`) are read: with
the same of them, a wheel gets the same report on every machine.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict, policy_verdict
from wheelfix.analysis.providers_in_run import set_members
from wheelfix.budget import Budget
from wheelfix.errors import OutputError, SettingsError, WheelfixError, unexpected_error
from wheelfix.host.available_libraries import GivenLibraries
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.provider_lookup import in_wheel_beside, parts_in, with_providers
from wheelfix.pipelines.check_result import Report, SetReport
from wheelfix.rules.baseline import Baseline
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.drivers import provided_elsewhere
from wheelfix.rules.findings import Finding, Suppressed, SuppressionReason
from wheelfix.rules.plugins import known_rules
from wheelfix.rules.registry import (
    ARCHIVE_RULES,
    IGNORE_RULES,
    RELEASE_RULES,
    TARGET_RULES,
    selected_rules,
)
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import find, find_in_set, ignored
from wheelfix.rules.stale_ignores import unused_ignores
from wheelfix.rules.target_machines import targets_of
from wheelfix.settings import Settings, Share
from wheelfix.system.workers import InProcess, WorkerDiedError, Workers, WorkerTimeoutError
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import OtherSystem, other_system
from wheelfix.wheel.reader import Watch, open_wheel

NO_BASELINE = Baseline()
IN_PROCESS = InProcess()


def check(
    path: Path, settings: Settings, baseline: Baseline = NO_BASELINE, watch: Watch | None = None
) -> Report:
    """Return what is wrong with the wheel at `path`; a failure to read it is in `Report.error`.

    `watch` gets the fraction of it that was read.
    """
    try:
        return _report(path, settings, baseline, watch)
    except WheelfixError as error:
        return Report(source=path, error=error)
    except OSError as error:
        cause = OutputError(
            f"`{path}`: {error.strerror or error}", hint="check that the file can be read"
        )
        return Report(source=path, error=cause)


def _report(path: Path, settings: Settings, baseline: Baseline, watch: Watch | None) -> Report:
    if not path.is_file():
        raise SettingsError(f"`{path}` is not a file")
    with open_wheel(path, watch=watch) as archive:
        wheel = archive.wheel
        settings = with_providers(settings, Path.cwd(), wheel)
        context = Context(
            wheel=wheel,
            settings=settings,
            budget=archive.budget,
            verdict=verdict_of(wheel, settings, archive.budget) if settings.verdict else None,
            definitions=GivenLibraries(
                archive=archive, settings=settings, environ={"PWD": str(Path.cwd())}
            ),
        )
        system = other_system(wheel.name.platforms)
        rules = selected_rules(settings, known_rules())
        if system is not None:
            rules = tuple(rule for rule in rules if rule in ARCHIVE_RULES or rule.plugin)
        found = tuple(find(context, rules))
        counting, suppressed = partition_findings(
            found, settings, lambda _: wheel.name.distribution, baseline
        )
        return Report(
            source=path,
            findings=counting,
            suppressed=suppressed,
            wheel=wheel,
            verdict=context.verdict if system is None else None,
            skipped="" if system is None else _skipped(system),
            size=archive.size,
            targets=_targets(context, rules),
        )


def _skipped(system: OtherSystem) -> str:
    by = f"; {system.tool} checks these" if system.tool else ""
    return f"rules about ELF objects skipped: a wheel for {system.name}{by}"


def _targets(context: Context, rules: Iterable[Rule]) -> dict[str, bool]:
    """Return whether the wheel is for each machine of `target`; empty if no rule is about them."""
    if not set(TARGET_RULES).intersection(rules):
        return {}
    fitting = targets_of(context)
    return {name: name in fitting for name in context.settings.target}


def verdict_of(wheel: Wheel, settings: Settings, budget: Budget) -> Verdict | None:
    """Return the verdict on `wheel`; libraries that others provide count as excluded."""
    others = provided_elsewhere(wheel, settings)
    excluding = replace(settings, exclude=(*settings.exclude, *others))
    return policy_verdict(wheel, excluding, read_policies(), budget)


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
        by = ignored(finding, settings)
        if by is None and baseline.covers(distribution_of(finding), finding):
            by = Suppressed(finding=finding, because=SuppressionReason.BASELINE)
        if by is None:
            counting.append(finding)
        else:
            suppressed.append(by)
    return worst_first(counting), tuple(suppressed)


def worst_first(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return `findings` sorted by severity, and otherwise in their order."""
    return tuple(sorted(findings, key=lambda finding: -finding.severity))


def check_each(
    paths: Sequence[Path],
    settings_for: Callable[[str], Settings],
    baseline: Baseline = NO_BASELINE,
    workers: Workers = IN_PROCESS,
    watch: Watch | None = None,
) -> Iterator[Report]:
    """Yield the report of each wheel, in their order.

    `watch` gets the fraction of each wheel that was read, in the process that checks it. A wheel
    does not stop the others, even if its check ends its worker process.
    """
    settings = _beside(paths, [settings_for(path.name) for path in paths])
    tasks = zip(paths, settings, strict=True)
    work = partial(_checked, baseline=baseline, watch=watch)
    for (path, own), report in workers.map_in_order(work, tasks):
        if isinstance(report, Exception):
            yield unfinished(path, own, report)
        else:
            yield report


def _checked(task: tuple[Path, Settings], baseline: Baseline, watch: Watch | None) -> Report:
    return check(*task, baseline, watch)


def unfinished(path: Path, settings: Settings, error: Exception) -> Report:
    """Return the report of a wheel whose check ended with `error` (`Workers.map_in_order`)."""
    match error:
        case WorkerTimeoutError():
            message = f"it took longer than {settings.timeout} s"
            hint = "--timeout gives each wheel more"
        case WorkerDiedError():
            message = "the process that checked it ended abruptly"
            hint = "it may have taken too much memory; check it by itself"
        case MemoryError():
            message = "there is not enough memory to check it"
            hint = "check it by itself, on a machine with more memory"
        case _:
            return Report(source=path, error=unexpected_error(error))
    return Report(source=path, error=WheelfixError(f"`{path.name}`: {message}", hint=hint))


def _beside(paths: Sequence[Path], settings: Sequence[Settings]) -> Iterator[Settings]:
    """Yield the settings of each wheel, with the other wheels that it requires as providers."""
    for place, own in zip(set_members(parts_in(paths)), settings, strict=True):
        owners = place.providers if own.share is not Share.OFF else ()
        given = (
            replace(provider, owner=True, through=owner.through)
            for owner in owners
            for provider in in_wheel_beside(paths[owner.index].absolute())
        )
        yield replace(own, provider=(*own.provider, *given))


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
    every = [entry.finding for report in read for entry in report.suppressed]
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


def without_baselined(checked: SetReport, baseline: Baseline) -> SetReport:
    """Return the report, in which findings that `baseline` covers no longer count."""
    return replace(
        checked,
        reports=tuple(_without_baselined(report, baseline) for report in checked.reports),
        findings=tuple(f for f in checked.findings if not baseline.covers(_distribution_of(f), f)),
    )


def _without_baselined(report: Report, baseline: Baseline) -> Report:
    if report.wheel is None:
        return report
    distribution = report.wheel.name.distribution
    counting = tuple(f for f in report.findings if not baseline.covers(distribution, f))
    covered = (f for f in report.findings if baseline.covers(distribution, f))
    added = (Suppressed(finding=found, because=SuppressionReason.BASELINE) for found in covered)
    return replace(report, findings=counting, suppressed=(*report.suppressed, *added))
