"""Repair of one wheel: read, decide, graft, decide, write, read back, judge, publish.

Decisions are values, made by the rules and by auditwheel's tables. A wheel is written once, after
all decisions, and gets its name only once the written file was read back and judged, by auditwheel
too.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.policy_reasons import Judgement, newest_symbol
from wheelfix.errors import (
    BadWheelError,
    LockError,
    NonPlatformWheelError,
    OutputError,
    SettingsError,
    VerificationError,
    WheelfixError,
    unexpected_error,
)
from wheelfix.host.library_search import GivenLibraries, HostLibraries
from wheelfix.host.neighbors import find_neighbors
from wheelfix.host.os_packages import LicenseText, owners
from wheelfix.host.policy_tables import read_policies
from wheelfix.host.verify_values import Verified
from wheelfix.named_tuple import NamedTuple
from wheelfix.pipelines.analyst import Analyst
from wheelfix.pipelines.apply_edits import Applied, apply
from wheelfix.pipelines.ask_auditwheel import Answer, Auditwheel, ask
from wheelfix.pipelines.bundled_licenses import (
    Text,
    license_edits,
    license_texts,
    other_parts,
    package_of,
)
from wheelfix.pipelines.debug_files import publish_debug_files
from wheelfix.pipelines.graft import GraftedLibrary
from wheelfix.pipelines.graft_lock import LOCK_FILE, read_lock, refuse_other_grafts
from wheelfix.pipelines.output_claims import Outputs, other_folder
from wheelfix.pipelines.repair_notes import (
    debug_file_notes,
    effect_notes,
    license_notes,
    record_notes,
    requirement_notes,
)
from wheelfix.pipelines.repair_plan import (
    Plan,
    Planner,
    Progress,
    accept,
    decide,
    judged_context,
    leaving,
    offer_other_ways,
    placed_grafts,
    planner_of,
    provided_patterns,
    silent,
    way_without_unused,
)
from wheelfix.pipelines.repair_proof import (
    absent_libraries,
    breaks_by_stage,
    code_raised,
    loads_of_changed,
    read_back,
    verify_findings,
    verify_wheel,
)
from wheelfix.pipelines.repair_refusals import PLEASE_REPORT, refuse_other_platform
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.pipelines.sbom import Bundled, included_sboms, sbom_edits
from wheelfix.pipelines.zip_codec import codec_of
from wheelfix.providers.model import Provided
from wheelfix.rules.bundled_not_found import gaps_of_repair
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, PlannedEdit, Severity
from wheelfix.rules.fix_plan import plan_in_order
from wheelfix.rules.registry import SYMBOL_RULES, enabled_rules
from wheelfix.rules.rule import Rule
from wheelfix.rules.rule_plugins import load_rules
from wheelfix.rules.run_rules import attribute_to_stage, run_rules, stopping
from wheelfix.settings import Licenses, Settings
from wheelfix.system.tempfiles import ADVICE, PendingFile, scratch
from wheelfix.wheel.deflate_members import Codec
from wheelfix.wheel.edits import NormalizeMembers
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import Archive, open_wheel
from wheelfix.wheel.writer import copy_wheel, write_wheel
from wheelfix.wheel.zip_headers import DEFLATED, STORED


class RepairTask(NamedTuple):
    """One wheel to repair."""

    wheel: Path
    """As the user named it."""
    settings: Settings
    """Paths of what is read are absolute; others are named as the user did."""
    folder: Path
    """Where relative paths start."""
    beside: tuple[Provided, ...] = ()
    """The other wheels of the run that it requires, as they are repaired."""
    archive: Archive | None = None
    """The wheel where it is open, and stays so."""


def repair(
    task: RepairTask,
    auditwheel: Auditwheel,
    outputs: Outputs,
    progress: Progress = silent,
    *,
    publish: bool = True,
) -> Outcome:
    """Repair one wheel into `settings.wheel_dir`; without `publish` only plan it.

    What goes wrong with the wheel comes back in `Outcome.error`, so that the others go on.
    """
    path = task.wheel
    try:
        with open_job(task, auditwheel, outputs, progress, publish=publish) as job:
            return _repair(job) if publish else rehearse(job)
    except (NonPlatformWheelError, LockError) as error:
        return Outcome(source=path, status=Status.REJECTED, error=error)
    except WheelfixError as error:
        return Outcome(source=path, status=Status.FAILED, error=error)
    except Exception as error:  # noqa: BLE001 - a bug that one wheel triggers; reported, exit code 2
        return Outcome(source=path, status=Status.FAILED, error=unexpected_error(error))


@contextmanager
def open_job(
    task: RepairTask,
    auditwheel: Auditwheel,
    outputs: Outputs,
    progress: Progress = silent,
    *,
    publish: bool = False,
) -> Generator["Job"]:
    """Read the wheel of `task`, while auditwheel starts if it is to be published.

    Raises `WheelfixError` for one that cannot be repaired as asked.
    """
    path, settings = task.wheel, task.settings
    progress("reading")
    if publish and settings.verdict:
        auditwheel.prepare()
    try:
        with _opened(task) as archive, scratch() as workdir:
            given = GivenLibraries(archive=archive, library_path=settings.library_path)
            libraries = given.on_this_machine(
                auditwheel.environ, settings.ldpaths, settings.sysroot
            )
            analyst = Analyst(libraries, workdir)
            neighbors = find_neighbors(settings, archive.wheel, auditwheel.environ)
            beside = (*task.beside, *neighbors)
            yield Job(
                path=path,
                folder=task.folder,
                archive=archive,
                settings=settings,
                planner=planner_of(analyst, settings, beside, progress),
                auditwheel=auditwheel,
                workdir=workdir,
                outputs=outputs,
                codec=codec_of(settings.zip_codec),
                rules=enabled_rules(settings, load_rules()),
            )
    except OSError as error:
        advice = ADVICE.get(error.errno or 0)
        raise OutputError(
            f"{'cannot write a temporary file' if advice else f'`{path}`'}: "
            f"{error.strerror or error}",
            hint=advice or "check that the file can be read, and that TMPDIR has room",
        ) from error


def _opened(task: RepairTask) -> AbstractContextManager[Archive]:
    """Open the wheel. For one that cannot be read, its name says first what is not possible."""
    if task.archive is not None:
        return nullcontext(task.archive.with_own_budget())
    try:
        return open_wheel(task.folder / task.wheel)
    except BadWheelError:
        refuse_other_platform(WheelName.parse(task.wheel.name), task.settings.plat)
        raise


class Job(NamedTuple):
    """The values that all steps of one repair use, while its wheel is open."""

    path: Path
    folder: Path
    archive: Archive
    settings: Settings
    planner: Planner
    auditwheel: Auditwheel
    workdir: Path
    outputs: Outputs
    codec: Codec
    rules: tuple[Rule, ...]

    @property
    def providers(self) -> tuple[Provided, ...]:
        """What was found of the providers."""
        return self.planner.read.providers

    @property
    def progress(self) -> Progress:
        """What gets the steps of the repair."""
        return self.planner.progress

    @property
    def false_rows(self) -> frozenset[str]:
        """The members with a wrong row in RECORD or none, where the files are trusted."""
        wheel = self.archive.wheel
        if wheel.dist_info.record not in self.archive.entries:
            return frozenset(self.archive.entries)
        return frozenset(problem.member for problem in wheel.record_problems)


# --- The two ways to end --------------------------------------------------------------------------


def rehearse(job: Job) -> Outcome:
    """Return the outcome of a dry run, judged on the predicted wheel.

    Raises `WheelfixError` for a wheel that cannot be planned.
    """
    plan, planned = _plan(job, Status.PLANNED)
    return _judge(job, plan, planned)


def draft(job: Job) -> Outcome:
    """Return what a repair would make of the wheel, without a judgement of it, which takes longer.

    Raises `WheelfixError` for a wheel that cannot be planned.
    """
    plan = decide(job.planner, accept(job.planner))
    after, grafted = plan.after.wheel, plan.grafted
    return Outcome(source=job.path, status=Status.PLANNED, after=after, grafted=grafted)


def _repair(job: Job) -> Outcome:
    """Write the wheel, judge what was written, and give it its name if it is right."""
    plan, planned = _plan(job, Status.REPAIRED)
    in_place = _is_in_place(job, planned, plan.after.wheel.name)
    with _asked(job, plan) as answer:
        if in_place and planned.status is Status.UNCHANGED and not job.settings.verify:
            judged = _judge(job, plan, planned)
            return replace(_agreed(judged, answer), output=job.path)
        job.progress("writing")
        symbols = Path(job.settings.debug_symbols or "")
        pending, applied = _write(job, plan)
        with pending:
            job.progress("proving")
            after = read_back(job.archive, pending, plan.after.wheel)
            written = replace(
                planned,
                after=after,
                ways=applied.ways,
                codec=job.codec.name if plan.edits else "",
                bytes_after=pending.size,
            )
            outcome = _verify(job, pending, _agreed(_judge(job, plan, written), answer))
            if outcome.status is Status.REJECTED:
                return outcome
            if job.settings.normalize and _has_same_bytes(job.archive, pending):
                outcome = replace(outcome, status=Status.UNCHANGED, edits=())
            if not in_place:
                notes = debug_file_notes(applied.debug_files, symbols)
                with publish_debug_files(applied.debug_files, job.folder / symbols):
                    output = job.settings.wheel_dir / pending.publish().name
                    return replace(outcome, output=output, messages=(*outcome.messages, *notes))
            if outcome.status is Status.UNCHANGED:
                return replace(outcome, output=job.path)
            raise _replaces_itself(job)


def _verify(job: Job, pending: PendingFile, outcome: Outcome) -> Outcome:
    """Install and load what was written, if it is wanted, and add what fails."""
    wheel = outcome.after
    if outcome.status is Status.REJECTED or not job.settings.verify or wheel is None:
        return outcome
    job.progress("verifying")
    given = job.providers, job.settings, job.auditwheel.environ
    verified = verify_wheel(pending.path, wheel.name, *given)
    as_built: tuple[Verified, ...] = ()
    if code_raised(verified):
        as_built = verify_wheel(job.folder / job.path, job.archive.wheel.name, *given)
    remaining = (*outcome.remaining, *verify_findings(verified, as_built))
    return _add_remaining(replace(outcome, verified=verified), remaining)


def _is_in_place(job: Job, planned: Outcome, name: WheelName) -> bool:
    """Return whether the output has the path of the wheel itself, which must then stay as it is.

    Raises `OutputError` if it will not, as far as that is known: with `normalize`, only what was
    written shows whether it is the same. Also if the run reads or writes another wheel there.
    """
    output = job.settings.wheel_dir / str(name)
    if job.outputs.is_same(output, job.path):
        if planned.status is not Status.UNCHANGED and not job.settings.normalize:
            raise _replaces_itself(job)
        return True
    job.outputs.claim(output, job.path)
    return False


def _replaces_itself(job: Job) -> OutputError:
    other = other_folder(job.settings.wheel_dir)
    return OutputError(
        f"the output would overwrite the input `{job.path.name}` in `{job.settings.wheel_dir}`",
        hint=f"choose another directory for the output: -w {other} (an input is never replaced)",
    )


def _plan(job: Job, changed: Status) -> tuple[Plan, Outcome]:
    """Return the plan, and its outcome if it holds: `changed`, unless there is nothing to do."""
    included = accept(job.planner)
    try:
        plan = _decide(job, included)
    except BadWheelError as error:
        way = way_without_unused(job.planner, included)
        raise error.with_hint("; or, ".join(filter(None, (way, error.hint)))) from error
    # Only what is written is compared with the policies: no verdict is known before.
    rules = tuple(rule for rule in job.rules if rule.code != "WF801")
    findings = run_rules(job.planner.read, rules)
    before = job.archive.wheel
    return plan, Outcome(
        source=job.path,
        status=changed if plan.edits or job.false_rows else Status.UNCHANGED,
        before=before,
        after=plan.after.wheel,
        found=findings,
        edits=plan.edits,
        grafted=plan.grafted,
        to_leave=leaving(job.planner, plan, findings),
        messages=(*record_notes(before), *effect_notes(plan.edits), *plan.messages),
        bytes_before=job.archive.size,
    )


def _judge(job: Job, plan: Plan, outcome: Outcome) -> Outcome:
    """Run all rules on the result, with the verdict of the policies on it."""
    wheel = outcome.after or plan.after.wheel
    context = judged_context(job.planner, plan, wheel)
    breaks = breaks_by_stage({**plan.stages, "pack": replace(context, verdict=None)}, job.rules)
    remaining = tuple(
        attribute_to_stage(finding, breaks)
        for finding in _notes_as_of_check(context, run_rules(context, job.rules), job.rules)
    )
    verdict = context.verdict
    if verdict is not None:
        newest = newest_symbol(wheel, verdict.overall, read_policies())
        verdict = verdict._replace(newest=newest)
    judged = replace(
        outcome,
        verdict=verdict,
        loads=loads_of_changed(job.archive.wheel, context),
        absent=tuple(absent_libraries(context, plan.excluded)),
    )
    judged = _add_remaining(judged, remaining)
    if judged.status is Status.REJECTED:
        offered = offer_other_ways(job.planner, remaining, verdict)
        return replace(judged, remaining=offered)
    return _add_remaining(judged, (*remaining, *gaps_of_repair(context, job.archive.wheel)))


def _asked(
    job: Job, plan: Plan
) -> AbstractContextManager[Answer[Judgement]] | AbstractContextManager[None]:
    """Ask auditwheel about the wheel that is to be published, if there is to be a verdict.

    It answers while the wheel is written, and judged: what is read back is as planned, or refused.
    """
    wheel = plan.after.wheel
    if wheel.is_pure or not job.settings.verdict:
        return nullcontext()
    exclude = provided_patterns(job.planner, wheel, plan.excluded)
    return ask(job.auditwheel, wheel, job.settings, exclude, job.workdir)


def _agreed(outcome: Outcome, answer: Answer[Judgement] | None) -> Outcome:
    """Return the outcome if auditwheel has the same verdict on the wheel.

    Raises `VerificationError` if its tag is another one: one of the two is wrong.
    """
    verdict = outcome.verdict
    if outcome.status is Status.REJECTED or verdict is None or answer is None:
        return outcome
    tag = answer().overall
    if tag != verdict.overall:
        raise VerificationError(
            f"its objects allow `{verdict.overall}` by wheelfix's own analysis, "
            f"and `{tag}` by auditwheel's",
            hint=PLEASE_REPORT,
        )
    return outcome


def _notes_as_of_check(
    context: Context, findings: Iterable[Finding], rules: Iterable[Rule]
) -> tuple[Finding, ...]:
    """Return `found` with the notes that `check` will make, which does not know this machine."""
    if not isinstance(context.definitions, HostLibraries):
        return tuple(findings)
    codes = {rule.code for rule in SYMBOL_RULES}
    alone = replace(context, definitions=context.definitions.given)
    notes = run_rules(alone, tuple(rule for rule in rules if rule.code in codes))
    return (
        *(f for f in findings if f.severity is not Severity.NOTE or f.code not in codes),
        *(finding for finding in notes if finding.severity is Severity.NOTE),
    )


def _add_remaining(outcome: Outcome, remaining: tuple[Finding, ...]) -> Outcome:
    status = Status.REJECTED if stopping(remaining, outcome.found) else outcome.status
    return replace(outcome, remaining=remaining, status=status)


# --- Deciding -------------------------------------------------------------------------------------


def _decide(job: Job, included: Sequence[GraftedLibrary]) -> Plan:
    """Return the plan with what the wheel says of it, and the order of the members if set."""
    planned = decide(job.planner, included)
    wheel, settings = planned.after.wheel, job.settings
    grafted = tuple(_origins(job, planned))
    if settings.locked:
        lock = read_lock(job.folder / LOCK_FILE)
        refuse_other_grafts(lock, wheel.name, grafted, job.path)
    unasked = [library for library in grafted if library.original not in planned.included]
    steps = _list_grafted(job, wheel, grafted, planned.edits)
    if settings.normalize:
        title = "make the wheel independent of its build"
        steps += plan_in_order(wheel, [NormalizeMembers()], "pack", title)[1]
    messages = (*planned.messages, *requirement_notes(unasked, wheel))
    if settings.licenses is Licenses.EXPRESSION:
        messages += tuple(license_notes(grafted, other_parts(settings.component), wheel))
    return replace(
        planned,
        after=planned.after.after([step.edit for step in steps]),
        edits=(*planned.edits, *steps),
        grafted=grafted,
        messages=messages,
    )


def _origins(job: Job, plan: Plan) -> Iterator[GraftedLibrary]:
    """Yield the grafted libraries that are in the planned wheel, with place and package."""
    sources = [library.host.source for library in plan.grafted]
    root = Path(job.settings.sysroot or "/").resolve()
    packages = owners(sources, job.auditwheel.environ, root) if sources else {}
    for library in placed_grafts(plan):
        package = packages.get(library.host.source)
        yield library._replace(package=package_of(library, package, job.settings.component))


def _list_grafted(
    job: Job,
    wheel: Wheel,
    libraries: Sequence[GraftedLibrary],
    steps: Sequence[PlannedEdit],
) -> tuple[PlannedEdit, ...]:
    """Add licenses, and the SBOM last: it names the wheel, and the members of each library."""
    settings = job.settings
    if not (steps or settings.component or settings.sbom_include):
        return ()
    made = [step.edit for step in steps]
    parts = other_parts(settings.component)
    packages = (*(library.package for library in libraries), *parts)
    texts: Mapping[LicenseText, Text] = {}
    if settings.licenses is not Licenses.OFF:
        texts = license_texts(filter(None, packages), wheel, job.archive.read)
    licenses = [package and package.license for package in packages]
    wheel, owed = plan_in_order(
        wheel,
        (
            *license_edits(texts.values(), licenses, wheel, settings.licenses),
            *included_sboms(settings.sbom_include, wheel, job.archive.read),
        ),
        "graft",
        "add licenses and SBOMs",
    )
    bundled = Bundled(libraries=libraries, parts=parts, texts=texts)
    edits = sbom_edits(bundled, job.providers, wheel, made)
    return owed + plan_in_order(wheel, edits, "graft", "list the grafted libraries in the SBOM")[1]


# --- Writing --------------------------------------------------------------------------------------


def _write(job: Job, plan: Plan) -> tuple[PendingFile, Applied]:
    """Return the wheel, still without a name, and how its edits were carried out."""
    archive, settings = job.archive, job.settings
    directory = job.folder / settings.wheel_dir
    if not plan.edits and not job.false_rows:
        return copy_wheel(archive, directory), Applied(content={}, moved={})
    after = plan.after.wheel
    edits = [step.edit for step in plan.edits]
    applied = apply(archive, after, edits, job.workdir, settings)
    epoch = _epoch(job.auditwheel.environ)
    content = {**_inflate_kept(job, after, applied), **applied.content}
    if settings.normalize:
        epoch, rows = epoch or 0, frozenset(row.name for row in archive.wheel.record)
    else:
        rows = job.false_rows
        if _is_compressed_otherwise(archive, after.dist_info.record):
            rows |= {after.dist_info.record}  # so that RECORD is written anew
    pending = write_wheel(
        archive,
        after,
        content,
        applied.moved,
        directory,
        false_rows=rows,
        codec=job.codec,
        level=settings.zip_level,
        epoch=epoch,
    )
    return pending, applied


def _inflate_kept(job: Job, after: Wheel, applied: Applied) -> dict[str, Path]:
    """Return the members that keep their content as files, to be compressed anew.

    With `normalize` these are all, otherwise those that get a new row in RECORD, and those whose
    compression few installers read.
    """
    files: dict[str, Path] = {}
    for number, member in enumerate(after.members):
        name = member.name
        if name in applied.content or name == after.dist_info.record:
            continue
        origin = applied.moved.get(name, name)
        if origin in job.archive.entries and (
            job.settings.normalize
            or origin in job.false_rows
            or _is_compressed_otherwise(job.archive, origin)
        ):
            files[name] = job.workdir / f"inflated-{number}"
            with files[name].open("wb") as file:
                file.writelines(job.archive.inflate(origin))
    return files


def _has_same_bytes(archive: Archive, pending: PendingFile) -> bool:
    if pending.size != archive.size:
        return False
    with pending.path.open("rb") as file:
        return all(piece == file.read(len(piece)) for piece in archive.pieces(0, archive.size))


def _is_compressed_otherwise(archive: Archive, member: str) -> bool:
    entry = archive.entries.get(member)
    return entry is not None and entry.method not in {STORED, DEFLATED}


def _epoch(environ: Mapping[str, str]) -> int | None:
    """Return SOURCE_DATE_EPOCH in seconds (reproducible-builds.org, "SOURCE_DATE_EPOCH")."""
    text = environ.get("SOURCE_DATE_EPOCH")
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise SettingsError(
            f"SOURCE_DATE_EPOCH is `{text}`, not a number of seconds",
            hint="unset it, or set it to something like `git log -1 --format=%ct`",
        )
    return int(text)
