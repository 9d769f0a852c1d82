"""Repair of one wheel: read, decide, graft, decide, write, read back, judge, publish.

Decisions are values, made by the rules and by auditwheel. A wheel is written once, after all
decisions, and gets its name only once the written file was read back and judged.
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from wheelfix.analysis.policy_verdict import Verdict
from wheelfix.analysis.providers import never_globs, provided_libraries
from wheelfix.errors import (
    BadWheelError,
    NonPlatformWheelError,
    OutputError,
    SettingsError,
    WheelfixError,
)
from wheelfix.grouping import values_by_key
from wheelfix.host.available_libraries import HostLibraries
from wheelfix.host.os_packages import LicenceFile, Package, owners
from wheelfix.host.provider_lookup import with_providers
from wheelfix.pipelines import auditwheel_decisions as asking
from wheelfix.pipelines import graft as grafting
from wheelfix.pipelines.apply_edits import Applied, apply, codec_of
from wheelfix.pipelines.auditwheel_analysis import Auditwheel
from wheelfix.pipelines.debug_files import published
from wheelfix.pipelines.graft import Graft, GraftedLibrary
from wheelfix.pipelines.included_libraries import (
    included_libraries,
    inclusion_edits,
    searching_as_found,
)
from wheelfix.pipelines.licences import (
    Text,
    described,
    licence_edits,
    licence_texts,
)
from wheelfix.pipelines.repair_notes import (
    debug_file_notes,
    graft_notes,
    record_notes,
    required_notes,
)
from wheelfix.pipelines.repair_proof import (
    absent_libraries,
    breaks_by_stage,
    loads_of_changed,
    read_back,
    refuse_changed_search_paths,
    verified,
)
from wheelfix.pipelines.repair_refusals import (
    NO_OBJECT,
    refuse_edited_objects,
    refuse_other_platform,
    refuse_other_system,
    refuse_pure,
    refuse_symbols_of_nothing,
)
from wheelfix.pipelines.repair_result import GraftedFrom, Outcome, Status
from wheelfix.pipelines.sbom import Origins, included_sboms, places_of, sbom_edits
from wheelfix.rules.bundled_search_paths import gaps_of_new_members
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.drivers import leaves_drivers, provided_elsewhere
from wheelfix.rules.findings import Finding, PlannedEdit, Severity
from wheelfix.rules.fix_plan import apply_fixes_until_stable, plan_in_order
from wheelfix.rules.included_libraries import included_library_not_found
from wheelfix.rules.metadata import trusts_files_over_record
from wheelfix.rules.platform_tag import broken_promises
from wheelfix.rules.plugins import known_rules
from wheelfix.rules.provider_search_paths import provider_not_searched
from wheelfix.rules.registry import REPORTING_RULES, enabled_rules
from wheelfix.rules.rule import EVERY, Rule
from wheelfix.rules.run_rules import attribute_to_stage, run_rules
from wheelfix.settings import Licenses, Patcher, Settings, StripLevel
from wheelfix.system.tempfiles import ADVICE, PendingFile, scratch
from wheelfix.wheel.deflate import Codec
from wheelfix.wheel.edits import Edit, NormalizeMembers, Strip, StripDebug
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.platform_tags import Family, parse_platform_tag
from wheelfix.wheel.reader import Archive, open_wheel
from wheelfix.wheel.writer import copy_wheel, write_wheel

Progress = Callable[[str], None]


def silent(_step: str) -> None:
    """Ignore the progress of a repair."""


def repair(
    path: Path,
    settings: Settings,
    environ: Mapping[str, str],
    *,
    progress: Progress = silent,
    publish: bool = True,
) -> Outcome:
    """Repair the wheel at `path` into `settings.wheel_dir`; without `publish` only plan it.

    `environ` is the user's environment, for auditwheel and SOURCE_DATE_EPOCH. What goes wrong
    with the wheel comes back in `Outcome.error`, so that a caller can go on with other wheels.
    """
    with Auditwheel(environ) as auditwheel:
        return repair_with(auditwheel, path, settings, progress=progress, publish=publish)


def repair_with(  # noqa: PLR0913 - what `repair` takes, and two values of the whole run
    auditwheel: Auditwheel,
    path: Path,
    settings: Settings,
    *,
    progress: Progress = silent,
    publish: bool = True,
    inputs: Collection[str] = (),
) -> Outcome:
    """Repair a wheel as `repair` does, with worker processes that serve several wheels.

    `inputs` are the real paths of other wheels of the run, which are not replaced either.
    """
    environ = auditwheel.environ
    try:
        progress("reading")
        refuse_other_platform(path.name, settings.plat)
        refuse_symbols_of_nothing(settings)
        with open_wheel(path) as archive, scratch() as workdir:
            found = HostLibraries(archive=archive, settings=settings, environ=environ)
            settings = with_providers(
                settings, Path(environ.get("PWD", "")), archive.wheel, found.host
            )
            job = _Job(
                path=path,
                archive=archive,
                settings=settings,
                auditwheel=auditwheel,
                workdir=workdir,
                progress=progress,
                inputs=inputs,
                codec=codec_of(settings.zip_codec),
                rules=enabled_rules(settings, known_rules()),
                definitions=HostLibraries(archive=archive, settings=settings, environ=environ),
            )
            return _repaired(job) if publish else _rehearsed(job)
    except NonPlatformWheelError as error:
        return Outcome(source=path, status=Status.REJECTED, error=error)
    except WheelfixError as error:
        return Outcome(source=path, status=Status.FAILED, error=error)
    except OSError as error:
        advice = ADVICE.get(error.errno or 0)
        cause = OutputError(
            f"{'cannot write a temporary file' if advice else f'`{path}`'}: "
            f"{error.strerror or error}",
            hint=advice or "check that the file can be read, and that TMPDIR has room",
        )
        return Outcome(source=path, status=Status.FAILED, error=cause)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """The values that all steps of one repair use."""

    path: Path
    archive: Archive
    settings: Settings
    auditwheel: Auditwheel
    workdir: Path
    progress: Progress
    inputs: Collection[str]
    codec: Codec
    rules: tuple[Rule, ...]
    definitions: HostLibraries
    """The symbols that the original wheel and this machine's libraries define."""

    @property
    def false_rows(self) -> frozenset[str]:
        """The members with a wrong row in RECORD, where that was ignored."""
        return frozenset(problem.member for problem in self.archive.wheel.record_problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """All decisions, before anything is written."""

    found: tuple[Finding, ...]
    """What is wrong with the wheel as read."""
    after: Context
    edits: tuple[PlannedEdit, ...]
    stages: Mapping[str, Context] = field(default_factory=dict[str, Context])
    """The wheel as read, and as each stage of the repair left it."""
    excluded: tuple[str, ...] = ()
    """DT_NEEDED entries that a pattern kept out for the path of the library on this machine."""
    unmatched_excludes: tuple[str, ...] = ()
    grafted: tuple[GraftedFrom, ...] = ()
    messages: tuple[str, ...] = ()


# --- The two ways to end --------------------------------------------------------------------------


def _rehearsed(job: _Job) -> Outcome:
    """Return the outcome of a dry run, judged on the predicted wheel."""
    plan = _decide(job)
    return _judged(job, plan, _planned(job, plan, Status.PLANNED))


def _repaired(job: _Job) -> Outcome:
    """Write the wheel, judge what was written, and give it its name if it is right."""
    plan = _decide(job)
    planned = _planned(job, plan, Status.REPAIRED)
    in_place = _is_in_place(job, planned, plan.after.wheel.name)
    if in_place and planned.status is Status.UNCHANGED and not job.settings.verify:
        return replace(_judged(job, plan, planned), output=job.path)
    job.progress("writing")
    symbols = Path(job.settings.debug_symbols or "")
    pending, applied = _written(job, plan)
    with pending:
        job.progress("proving")
        after = read_back(job.archive, pending, plan.after.wheel)
        written = replace(
            planned,
            after=after,
            ways=applied.ways,
            messages=(*planned.messages, *debug_file_notes(applied.debug_files, symbols)),
            codec=job.codec.name if plan.edits else "",
            bytes_after=pending.size,
        )
        outcome = _judged(job, plan, written)
        if outcome.status is not Status.REJECTED and job.settings.verify:
            job.progress("verifying")
            failed = verified(pending.path, after.name, job.settings, job.auditwheel.environ)
            outcome = _with_remaining(outcome, (*outcome.remaining, *failed))
        if outcome.status is Status.REJECTED:
            return outcome
        if job.settings.normalize and _has_same_bytes(job.archive, pending):
            outcome = replace(outcome, status=Status.UNCHANGED, edits=())
        if not in_place:
            with published(applied.debug_files, symbols):
                return replace(outcome, output=pending.publish())
        if outcome.status is Status.UNCHANGED:
            return replace(outcome, output=job.path)
        raise _replaces_itself(job)


def _is_in_place(job: _Job, planned: Outcome, name: WheelName) -> bool:
    """Return whether the output has the path of the wheel itself, which must then stay as it is.

    Raises `OutputError` if it will not, as far as that is known: with `normalize`, only what was
    written shows whether it is the same. Also if the output would replace another input.
    """
    output = os.path.realpath(job.settings.wheel_dir / str(name))
    if output == os.path.realpath(job.path):
        if planned.status is not Status.UNCHANGED and not job.settings.normalize:
            raise _replaces_itself(job)
        return True
    if output in job.inputs:
        raise OutputError(
            f"`{name}` would replace the wheel of that name, which is an input of this run",
            hint="choose another directory for the output: -w wheelhouse",
        )
    return False


def _replaces_itself(job: _Job) -> OutputError:
    other = "repaired" if job.settings.wheel_dir.name == "wheelhouse" else "wheelhouse"
    return OutputError(
        f"`{job.path.name}` keeps its name, and would replace itself in `{job.settings.wheel_dir}`",
        hint=f"choose another directory for the output: -w {other} (an input is never replaced)",
    )


def _planned(job: _Job, plan: _Plan, changed: Status) -> Outcome:
    """Return the outcome of a plan that holds: `changed`, unless there is nothing to do."""
    before = job.archive.wheel
    return Outcome(
        source=job.path,
        status=changed if plan.edits or job.false_rows else Status.UNCHANGED,
        before=before,
        after=plan.after.wheel,
        found=plan.found,
        edits=plan.edits,
        grafted=plan.grafted,
        messages=(*record_notes(before), *plan.messages),
        bytes_before=job.archive.size,
    )


def _judged(job: _Job, plan: _Plan, outcome: Outcome) -> Outcome:
    """Run all rules on the result and auditwheel's verdict on it."""
    wheel = outcome.after or plan.after.wheel
    verdict = _verdict(job, wheel, plan.excluded)
    context = replace(
        plan.after,
        wheel=wheel,
        origin=None,
        verdict=verdict,
        unmatched_excludes=plan.unmatched_excludes,
    )
    breaks = breaks_by_stage({**plan.stages, "pack": context}, job.rules)
    remaining = tuple(
        attribute_to_stage(finding, breaks) for finding in run_rules(context, job.rules)
    )
    judged = replace(
        outcome,
        verdict=verdict,
        loads=loads_of_changed(job.archive.wheel, context),
        absent=tuple(absent_libraries(context, plan.excluded)),
    )
    judged = _with_remaining(judged, remaining)
    if judged.status is Status.REJECTED:
        return judged
    return _with_remaining(judged, (*remaining, *gaps_of_new_members(context, job.archive.wheel)))


def _with_remaining(outcome: Outcome, remaining: tuple[Finding, ...]) -> Outcome:
    rejected = any(finding.severity is Severity.ERROR for finding in remaining)
    status = Status.REJECTED if rejected else outcome.status
    return replace(outcome, remaining=remaining, status=status)


def _verdict(job: _Job, wheel: Wheel, excluded: Sequence[str] = ()) -> Verdict | None:
    """Ask auditwheel for its verdict; None for a pure wheel, or if the settings say so."""
    if wheel.is_pure or not job.settings.verdict:
        return None
    others = provided_elsewhere(wheel, job.settings)
    settings = replace(job.settings, exclude=(*job.settings.exclude, *excluded, *others))
    return asking.verdict(job.auditwheel, wheel, settings, job.workdir, job.archive.budget)


# --- Deciding -------------------------------------------------------------------------------------


def _decide(job: _Job) -> _Plan:
    settings = job.settings
    refuse_other_system(job.archive.wheel)
    included = _included(job)
    if not included:
        refuse_pure(job.archive.wheel, settings)
    _refuse_false_record(job)
    read = Context(
        wheel=job.archive.wheel,
        settings=settings,
        budget=job.archive.budget,
        definitions=job.definitions,
    )
    found = run_rules(read, job.rules)
    # What is included is found, and a provider's libraries are, whatever rules are selected.
    needed_rules = (provider_not_searched, included_library_not_found)
    search = enabled_rules(replace(settings, select=(EVERY,)), needed_rules)
    rules = dict.fromkeys((*job.rules, *search))
    fixing = tuple(rule for rule in rules if rule not in REPORTING_RULES)
    start, including = _plan_inclusion(read, included)
    if start.wheel.is_pure:
        after, edits = apply_fixes_until_stable(read.at_stage(Stage.AFTER), fixing)
        listing = _list_grafted(job, after.wheel, (), {}, edits)
        listing = (*listing, *_normalize(after.wheel, settings))
        after = after.after([step.edit for step in listing])
        return _Plan(found=found, after=after, edits=(*edits, *listing), messages=(NO_OBJECT,))
    before = tuple(rule for rule in job.rules if rule.stage is Stage.BEFORE)
    pruned, early = apply_fixes_until_stable(start.at_stage(Stage.BEFORE), before)
    graft, grafting_steps = _graft(job, pruned.wheel, included)
    libraries = (*included, *graft.libraries)
    grafted = pruned.after([step.edit for step in grafting_steps])
    fixed, late = apply_fixes_until_stable(
        grafted.at_stage(Stage.AFTER), fixing, lambda now: gaps_of_new_members(now, read.wheel)
    )
    stripped, strips = _strip(fixed.wheel, settings)
    edits = (*including, *early, *grafting_steps, *late)
    if settings.patcher is Patcher.NONE:
        refuse_edited_objects(edits)
    edits = (*edits, *strips)
    sources = [library.host.source for library in libraries]
    packages = owners(sources, job.auditwheel.environ) if sources else {}
    listing = _list_grafted(job, stripped, libraries, packages, edits)
    listing = (*listing, *_normalize(stripped, settings))
    return _Plan(
        found=found,
        after=fixed.after([step.edit for step in (*strips, *listing)]),
        edits=(*edits, *listing),
        stages={"read": read, "prune": pruned, "graft": grafted, "search paths": fixed},
        excluded=_names_of(graft.excluded, grafted.wheel),
        unmatched_excludes=_unmatched(settings.exclude, grafted.wheel, graft.excluded),
        grafted=tuple(_origins(libraries, packages, stripped, late)),
        messages=(*graft.messages, *required_notes(graft.libraries, packages, stripped)),
    )


def _origins(
    libraries: Iterable[GraftedLibrary],
    packages: Mapping[Path, Package],
    wheel: Wheel,
    late: Iterable[PlannedEdit],
) -> Iterator[GraftedFrom]:
    """Yield where each grafted library is from, and what needs it in `wheel`.

    `late` are the edits after the graft, which may have moved it.
    """
    edits = [step.edit for step in late]
    dependents = values_by_key(
        (name, member) for member, e in wheel.elfs.items() for name in e.needed
    )
    for library in libraries:
        package = packages.get(library.host.source)
        yield GraftedFrom(
            member=places_of(library.member, edits)[0],
            original=library.original,
            source=library.host.source,
            package=f"{package.name} {package.version}" if package else "",
            dependents=tuple(dependents.get(library.soname, ())),
            size=library.host.path.stat().st_size,
        )


def _refuse_false_record(job: _Job) -> None:
    problems = job.archive.wheel.record_problems
    if problems and not trusts_files_over_record(job.settings):
        listed = "; ".join(f"`{problem.member}`: {problem.message}" for problem in problems[:5])
        more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise BadWheelError(
            f"`{job.path.name}`: RECORD disagrees with the files: {listed}{more}",
            hint="build the wheel again; if you know and trust the change, "
            "`--ignore record-mismatch` corrects RECORD",
        )


def _included(job: _Job) -> tuple[GraftedLibrary, ...]:
    """Find the libraries of `include` that the wheel lacks."""
    if not job.settings.include:
        return ()
    wheel, environ = job.archive.wheel, job.auditwheel.environ
    return included_libraries(wheel, job.settings, job.definitions, environ, job.workdir)


def _plan_inclusion(
    read: Context, included: Sequence[GraftedLibrary]
) -> tuple[Context, tuple[PlannedEdit, ...]]:
    edits = inclusion_edits(included, read.wheel)
    _, steps = plan_in_order(read.wheel, edits, "graft", "include a library that is opened by name")
    return read.after([step.edit for step in steps]), steps


def _graft(
    job: _Job, wheel: Wheel, included: Sequence[GraftedLibrary]
) -> tuple[Graft, tuple[PlannedEdit, ...]]:
    """Let auditwheel decide what to graft, unless the wheel is repaired already."""
    if _is_repaired(job, wheel):
        return Graft(tags=grafting.tags_of(wheel)), ()
    job.progress("grafting")
    settings = job.settings
    sharing, borrowed = plan_in_order(
        wheel,
        grafting.borrowed(wheel, settings, job.definitions.host),
        "graft",
        "load the library from another wheel of the product",
    )
    asked = searching_as_found(sharing, included)
    whole = asking.graft(job.auditwheel, asked, _graft_settings(settings), job.workdir)
    rest, owned = grafting.without_owned(whole, sharing, settings)
    graft = grafting.with_names_kept(rest, settings.keep_names)
    edits = grafting.edits(graft, sharing)
    grafted, steps = plan_in_order(
        sharing, edits, "graft", "graft libraries that the platform does not provide"
    )
    refuse_changed_search_paths(sharing, grafted)
    messages = (*graft.messages, *graft_notes(graft, owned, settings))
    return replace(graft, messages=messages), (*borrowed, *steps)


def _is_repaired(job: _Job, wheel: Wheel) -> bool:
    """Return whether the wheel has the platform tag that is asked for, and deserves it."""
    platforms = wheel.name.platforms
    if any(parse_platform_tag(tag).family is Family.LINUX for tag in platforms):
        return False
    if job.settings.plat not in {"auto", *platforms}:
        return False
    job.progress("judging")
    verdict = _verdict(job, wheel)
    return verdict is None or not broken_promises(wheel, verdict)


def _graft_settings(settings: Settings) -> Settings:
    """Return the settings with all that is not to be grafted among the patterns of `exclude`."""
    provided = (glob for provider in settings.provider for glob in provider.libraries)
    never = never_globs() if leaves_drivers(settings) else ()
    return replace(settings, exclude=tuple(dict.fromkeys((*settings.exclude, *provided, *never))))


def _strip(wheel: Wheel, settings: Settings) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
    edits: list[Edit] = []
    for member, elf in wheel.elfs.items():
        if not elf.dynamic:
            continue
        if settings.strip is StripLevel.DEBUG and elf.debug_size:
            edits.append(StripDebug(member=member))
        elif settings.strip is StripLevel.ALL and (elf.symtab or elf.debug_size):
            edits.append(Strip(member=member))
    return plan_in_order(wheel, edits, "strip", "strip symbols")


def _normalize(wheel: Wheel, settings: Settings) -> tuple[PlannedEdit, ...]:
    edits = [NormalizeMembers()] if settings.normalize else []
    return plan_in_order(wheel, edits, "pack", "make the wheel independent of its build")[1]


def _list_grafted(
    job: _Job,
    wheel: Wheel,
    libraries: Sequence[GraftedLibrary],
    packages: Mapping[Path, Package],
    steps: Sequence[PlannedEdit],
) -> tuple[PlannedEdit, ...]:
    """Add licences, and the SBOM last: it names the wheel, and the members of each library."""
    settings = job.settings
    if not (steps or settings.component or settings.sbom_include):
        return ()
    made = [step.edit for step in steps]
    taken = provided_libraries(wheel, settings.provider)
    known, parts = described(libraries, packages, settings.component)
    all_parts = (*known.values(), *parts)
    texts: Mapping[LicenceFile, Text] = {}
    if settings.licenses is not Licenses.OFF:
        texts = licence_texts(all_parts, wheel, job.archive.read)
    wheel, owed = plan_in_order(
        wheel,
        (
            *licence_edits(texts.values(), all_parts, wheel, settings.licenses),
            *included_sboms(settings.sbom_include, wheel, job.archive.read),
        ),
        "graft",
        "add licences and SBOMs",
    )
    origins = Origins(packages=known, parts=parts, texts=texts)
    edits = sbom_edits(libraries, origins, taken, wheel, made)
    return (
        *owed,
        *plan_in_order(wheel, edits, "graft", "list the grafted libraries in the SBOM")[1],
    )


def _unmatched(patterns: Sequence[str], wheel: Wheel, excluded: Collection[str]) -> tuple[str, ...]:
    """Return the exclude patterns that match neither a DT_NEEDED entry nor a grafted file.

    Those that match a name without a version, and leave one with a version to the graft, too.
    """
    names = {name for elf in wheel.elfs.values() for name in elf.needed} | {*excluded}
    shipped = {member.rpartition("/")[2] for member in wheel.elfs}
    others = {original_name(name) for name in names} - shipped
    left = [name for name in others if not any(fnmatchcase(name, glob) for glob in patterns)]
    found: list[str] = []
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        versioned = tuple(f"{name}." for name in matched)
        bare = all(name.endswith(".so") for name in matched)
        if not matched or (bare and any(name.startswith(versioned) for name in left)):
            found.append(pattern)
    return tuple(found)


def _names_of(excluded: Collection[str], wheel: Wheel) -> tuple[str, ...]:
    """Return the DT_NEEDED entries for libraries that were excluded by their path.

    The repaired object no longer has the absolute search path that led there.
    """
    stems = {path.rpartition("/")[2].partition(".so")[0] for path in excluded if "/" in path}
    names = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    return tuple(name for name in names if name.partition(".so")[0] in stems)


# --- Writing --------------------------------------------------------------------------------------


def _written(job: _Job, plan: _Plan) -> tuple[PendingFile, Applied]:
    """Return the wheel, still without a name, and how its edits were carried out."""
    archive, settings = job.archive, job.settings
    if not plan.edits and not job.false_rows:
        return copy_wheel(archive, settings.wheel_dir), Applied(content={}, moved={})
    after = plan.after.wheel
    edits = [step.edit for step in plan.edits]
    applied = apply(archive, after, edits, job.workdir, settings)
    epoch = _epoch(job.auditwheel.environ)
    if settings.normalize:
        content = {**_inflated(job, after, applied), **applied.content}
        epoch, rows = epoch or 0, frozenset(row.name for row in archive.wheel.record)
    else:
        content = {**_with_false_rows(job, after, applied.moved), **applied.content}
        rows = job.false_rows
    pending = write_wheel(
        archive,
        after,
        content,
        applied.moved,
        settings.wheel_dir,
        false_rows=rows,
        codec=job.codec,
        level=settings.zip_level,
        epoch=epoch,
    )
    return pending, applied


def _inflated(job: _Job, after: Wheel, applied: Applied) -> dict[str, Path]:
    """Return the members that keep their content as files, to be compressed anew."""
    found: dict[str, Path] = {}
    for number, member in enumerate(after.members):
        name = member.name
        if name in applied.content or name == f"{after.dist_info}/RECORD":
            continue
        origin = applied.moved.get(name, name)
        if origin in job.archive.entries:
            found[name] = job.workdir / f"inflated-{number}"
            with found[name].open("wb") as file:
                file.writelines(job.archive.inflated(origin))
    return found


def _has_same_bytes(archive: Archive, pending: PendingFile) -> bool:
    if pending.size != archive.size:
        return False
    step = 2**20
    with pending.path.open("rb") as file:
        return all(
            archive.read_at(at, min(step, archive.size - at)) == file.read(step)
            for at in range(0, archive.size, step)
        )


def _with_false_rows(job: _Job, after: Wheel, moved: Mapping[str, str]) -> dict[str, bytes]:
    """Return the content of the members that need a new row in RECORD."""
    origins = {member.name: moved.get(member.name, member.name) for member in after.members}
    return {
        new: job.archive.read(old)
        for new, old in origins.items()
        if old in job.false_rows and old != f"{after.dist_info}/RECORD"
    }


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
