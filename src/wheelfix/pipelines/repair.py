"""The pipeline: read, decide, graft, decide, predict, write, prove, publish.

Decisions are made on values (`rules`, `engine`); this module asks for them in order, lets
auditwheel graft in between, and acts once, at the end.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from importlib import import_module
from pathlib import Path

from wheelfix.analysis.providers import (
    known_for,
    never_bundled,
    never_globs,
    provider_of,
    wheels_at_hand,
)
from wheelfix.analysis.verdict import Verdict
from wheelfix.elf.model import Elf
from wheelfix.errors import (
    BadWheelError,
    OutputError,
    SettingsError,
    VerificationError,
    WheelfixError,
)
from wheelfix.host.host_libraries import HostLibraries
from wheelfix.host.provider_lookup import with_providers
from wheelfix.host.verify import Options, Verified, verify
from wheelfix.loader.install_schemes import Layout, Scheme, describe
from wheelfix.loader.model import Load, Request
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.pipelines import auditwheel
from wheelfix.pipelines import graft as grafting
from wheelfix.pipelines.apply_edits import apply, codec_of
from wheelfix.pipelines.auditwheel import GraftedLibrary
from wheelfix.pipelines.graft import Origin
from wheelfix.pipelines.repair_result import Loads, Outcome, Status
from wheelfix.pipelines.sbom import described
from wheelfix.pipelines.standby import Standby
from wheelfix.rules import CHECKPOINT_RULES, REPORTING_RULES, selected
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.engine import (
    Break,
    apply_fixes_until_stable,
    attribute_to_stage,
    broken,
    planned_in_turn,
    run_rules,
)
from wheelfix.rules.findings import Finding, PlannedEdit, Severity
from wheelfix.rules.metadata import record_mismatch
from wheelfix.rules.platform_tag import keeps_promise
from wheelfix.rules.plugins import known_rules
from wheelfix.rules.providers import given_by_others, leaves_drivers, taken_from_others
from wheelfix.rules.rule import Rule
from wheelfix.settings import Settings
from wheelfix.system.heap import trim
from wheelfix.system.scratch import scratch
from wheelfix.system.tmpdir import ADVICE
from wheelfix.text import join_some
from wheelfix.wheel.deflate import Codec, Early
from wheelfix.wheel.edits import Strip
from wheelfix.wheel.grafted_name import original_name, unhashed
from wheelfix.wheel.model import Wheel, is_vendored
from wheelfix.wheel.platform_tags import Family, parse_platform_tag
from wheelfix.wheel.reader import Archive, open_wheel
from wheelfix.wheel.writer import PendingWheel, copy_wheel, write_wheel

Progress = Callable[[str], None]


_LATER = (
    "concurrent.futures.thread",
    "wheelfix.pipelines.apply_edits",
    "wheelfix.wheel.writer",
    "wheelfix.pipelines.sbom",
)
"""What a repair is carried out with: imported while auditwheel works, for which nobody waits."""
_LISTING = ("importlib.metadata", "wheelfix.host.os_packages")
"""What it takes to list what is grafted."""


def silent(_step: str) -> None:
    """Say nothing: the progress of a caller that does not watch."""


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
    with this wheel comes back in `Outcome.error`: it is no reason to stop others.
    """
    with Standby(environ) as standby:
        return repair_with(standby, path, settings, progress=progress, publish=publish)


def repair_with(
    standby: Standby,
    path: Path,
    settings: Settings,
    *,
    progress: Progress = silent,
    publish: bool = True,
) -> Outcome:
    """Repair a wheel as `repair` does, in the environment of `standby`, which others may share."""
    environ = standby.environ
    try:
        progress("reading")
        standby.prepare()
        with (
            open_wheel(path, keeps=publish) as archive,
            scratch() as folder,
            ExitStack() as stack,
        ):
            settings = with_providers(settings, Path(environ.get("PWD", "")), archive.wheel)
            codec = codec_of(settings.zip_codec)
            early = stack.enter_context(Early(codec, settings.zip_level)) if publish else None
            run = _Run(
                path=path,
                archive=archive,
                settings=settings,
                standby=standby,
                workdir=folder,
                progress=progress,
                codec=codec,
                early=early,
                rules=selected(settings, known_rules()),
                definitions=HostLibraries(archive=archive, settings=settings, environ=environ),
            )
            return run.publish() if publish else run.rehearse()
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
class _Decision:
    """All that is decided before anything is written."""

    after: Wheel
    edits: tuple[PlannedEdit, ...]
    found: tuple[Finding, ...] | None = None
    """What is wrong with the wheel as it was read; None where that was not looked at yet."""
    grafted: tuple[GraftedLibrary, ...] = ()
    excluded: tuple[str, ...] = ()
    """DT_NEEDED entries that a pattern kept out for the path of the library on this machine."""
    unmatched_excludes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    stages: Mapping[str, Wheel] = field(default_factory=dict[str, Wheel])
    """The wheel as read, and as each stage of the repair left it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One wheel's run: its inputs, and the steps that share them."""

    path: Path
    archive: Archive
    settings: Settings
    standby: Standby
    workdir: Path
    progress: Progress
    codec: Codec
    early: Early | None
    """What is deflated while there is more to decide; None where nothing is written."""
    rules: tuple[Rule, ...]
    definitions: HostLibraries
    verdicts: list[tuple[Wheel, Verdict]] = field(default_factory=list[tuple[Wheel, Verdict]])
    """What auditwheel has said so far in this run."""

    # --- The two ways to end

    def rehearse(self) -> Outcome:
        """Return what a repair would do, judged on the predicted wheel."""
        decision = self._decide()
        remaining, verdict = self._judge(decision.after, decision)
        outcome = self._outcome(decision, remaining, verdict)
        changed = Status.PLANNED if decision.edits or self._false_rows else Status.UNCHANGED
        return replace(outcome, status=Status.REJECTED if _errors(remaining) else changed)

    def publish(self) -> Outcome:
        """Write the wheel, judge what was written, and give it its name if it is right."""
        decision = self._decide()
        with ThreadPoolExecutor(1) as pool:
            # auditwheel judges the prediction while it is made true; if what was written says
            # anything else, it is asked again.
            if self._wants_verdict(decision.after):
                pool.submit(self._verdict, decision.after, decision.excluded)
            pending, ways = self._written(decision)
        with pending:
            self.progress("proving")
            after = self._read_back(pending, decision.after)
            remaining, verdict = self._judge(after, decision)
            outcome = replace(
                self._outcome(decision, remaining, verdict),
                bytes_after=pending.size,
                codec=self.codec.name if decision.edits else "",
                after=after,
                ways=ways,
            )
            if not _errors(remaining) and self.settings.verify:
                remaining = (*remaining, *self._tried(pending, after))
                outcome = replace(outcome, remaining=remaining)
            if _errors(remaining):
                return replace(outcome, status=Status.REJECTED)
            changed = Status.REPAIRED if decision.edits or self._false_rows else Status.UNCHANGED
            return replace(outcome, status=changed, output=pending.publish())

    def _outcome(
        self, decision: _Decision, remaining: tuple[Finding, ...], verdict: Verdict | None
    ) -> Outcome:
        before = self.archive.wheel
        return Outcome(
            source=self.path,
            status=Status.FAILED,
            before=before,
            after=decision.after,
            found=self._found() if decision.found is None else decision.found,
            remaining=remaining,
            edits=decision.edits,
            loads=_loads(before, decision.after, self.settings),
            verdict=verdict,
            messages=(*self._record_messages(), *decision.messages),
            bytes_before=self.archive.size,
        )

    def _found(self) -> tuple[Finding, ...]:
        """Return what is wrong with the wheel as it was read."""
        wheel = self.archive.wheel
        context = Context(wheel=wheel, settings=self.settings, definitions=self.definitions)
        return run_rules(context, self.rules)

    def _record_messages(self) -> Iterator[str]:
        for problem in self.archive.wheel.record_problems:
            yield f"RECORD is made to say what is there: `{problem.member}`: {problem.message}"

    # --- Deciding

    def _decide(self) -> _Decision:
        wheel = self.archive.wheel
        self._refuse_false_record()
        fixing = tuple(rule for rule in self.rules if rule not in REPORTING_RULES)
        if wheel.is_pure:
            wheel, edits = apply_fixes_until_stable(
                wheel, fixing, self.settings, Stage.AFTER, self.definitions
            )
            return _Decision(after=wheel, edits=edits)
        before = tuple(rule for rule in self.rules if rule.stage is Stage.BEFORE)
        stages = {"read": wheel}
        wheel, early = apply_fixes_until_stable(
            wheel, before, self.settings, Stage.BEFORE, self.definitions
        )
        stages["prune"] = wheel
        wheel, grafted = self._graft(wheel)
        stages["graft"] = wheel
        known = self._definitions((*early, *grafted.edits))
        with ThreadPoolExecutor(1) as beside:
            origins = beside.submit(grafting.origins, grafted.grafted, self.standby.environ)
            wheel, late = apply_fixes_until_stable(wheel, fixing, self.settings, Stage.AFTER, known)
            stages["search paths"] = wheel
            wheel, stripped = self._strip(wheel)
            edits = (*early, *grafted.edits, *late, *stripped)
            wheel, listed = self._list_grafted(wheel, origins.result(), edits)
        return replace(grafted, after=wheel, edits=(*edits, *listed), stages=stages)

    def _breaks(self, stages: Mapping[str, Wheel]) -> dict[Break, str]:
        """Check the names after each stage, and say which stage broke one."""
        about_names = tuple(rule for rule in self.rules if rule in CHECKPOINT_RULES)
        found: dict[Break, str] = {}
        known: frozenset[Break] | None = None
        last: Wheel | None = None
        for stage, wheel in stages.items():
            if wheel is last:
                continue
            now = broken(wheel, about_names, self.settings)
            if known is not None:
                found |= dict.fromkeys(now - known - found.keys(), stage)
            known, last = now if known is None else known, wheel
        return found

    def _definitions(self, steps: Iterable[PlannedEdit]) -> HostLibraries:
        return self.definitions.including(step.edit for step in steps)

    def _refuse_false_record(self) -> None:
        problems = self.archive.wheel.record_problems
        if problems and not any(map(record_mismatch.matches, self.settings.ignore)):
            listed = "; ".join(f"`{each.member}`: {each.message}" for each in problems[:5])
            more = f"; and {len(problems) - 5} more" if len(problems) > 5 else ""
            raise BadWheelError(
                f"`{self.path.name}`: RECORD disagrees with the files: {listed}{more}",
                hint="build the wheel again; if you know and trust the change, "
                "`--ignore record-mismatch` makes RECORD say what is there",
            )

    def _graft(self, wheel: Wheel) -> tuple[Wheel, _Decision]:
        """Let auditwheel decide what to graft, unless the wheel is repaired already."""
        if self._is_repaired(wheel):
            unmatched = _unmatched(self.settings.exclude, wheel, frozenset())
            return wheel, _Decision(after=wheel, edits=(), unmatched_excludes=unmatched)
        self.progress("grafting")
        wheel, taken = planned_in_turn(
            wheel,
            grafting.borrowed(wheel, self.settings, self._is_at_hand),
            "graft",
            "graft",
            "take what another wheel of the product has",
        )
        found: list[tuple[Finding, ...]] = []

        def meanwhile(grafts: bool) -> None:  # noqa: FBT001 (that is all it is told)
            for module in (*_LATER, *(_LISTING if grafts else ())):
                import_module(module)
            found.append(self._found())

        decided = auditwheel.graft(
            wheel,
            self._graft_settings,
            self.workdir,
            self.standby,
            meanwhile=meanwhile,
        )
        if decided.verdict is None:
            self.standby.prepare()
        rest, owned = grafting.without_owned(decided, wheel, self.settings)
        graft = grafting.with_names_kept(rest, self.settings.keep_names)
        if self.early is not None:
            self.early.begin(library.path for library in graft.libraries)
        before = wheel
        wheel, steps = planned_in_turn(
            before,
            grafting.edits(graft, before),
            "graft",
            "graft",
            "vendor what the platform does not give",
        )
        _refuse_lost_entries(before, wheel)
        if decided.verdict is not None:
            self.verdicts.append((wheel, decided.verdict))
        return wheel, _Decision(
            after=wheel,
            edits=(*taken, *steps),
            found=found[0] if found else None,
            grafted=graft.libraries,
            excluded=_names_of(graft.excluded, wheel),
            unmatched_excludes=_unmatched(self.settings.exclude, wheel, graft.excluded),
            messages=(
                *graft.messages,
                *_left_out(wheel, graft.excluded, self.settings),
                *_owned_by_others(owned, graft.libraries, self.settings),
                *_could_be_left_out(graft.libraries),
            ),
        )

    def _is_at_hand(self, name: str, user: Elf) -> bool:
        return self.definitions.host(name, user) is not None

    @property
    def _graft_settings(self) -> Settings:
        """The settings with all that is not to be grafted among the patterns of `exclude`."""
        provided = (glob for each in self.settings.provider for glob in each.libraries)
        never = never_globs() if leaves_drivers(self.settings) else ()
        patterns = dict.fromkeys((*self.settings.exclude, *provided, *never))
        return replace(self.settings, exclude=tuple(patterns))

    def _is_repaired(self, wheel: Wheel) -> bool:
        if any(parse_platform_tag(tag).family is Family.LINUX for tag in wheel.name.platforms):
            return False
        if self.settings.plat not in {"auto", *wheel.name.platforms}:
            return False
        self.progress("judging")
        return not self.settings.verdict or keeps_promise(wheel, self._verdict(wheel))

    def _list_grafted(
        self, wheel: Wheel, origins: Sequence[Origin], steps: Sequence[PlannedEdit]
    ) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
        """Add the SBOM last: it names the wheel, and all the members that hold a library."""
        if not steps:
            return wheel, ()
        made = [step.edit for step in steps]
        expected = tuple(map(described, taken_from_others(wheel, self.settings)))
        edits = grafting.sbom_edits(origins, expected, wheel, made)
        return planned_in_turn(wheel, edits, "graft", "graft", "list what is grafted")

    def _strip(self, wheel: Wheel) -> tuple[Wheel, tuple[PlannedEdit, ...]]:
        if not self.settings.strip:
            return wheel, ()
        strippable = (m for m, elf in wheel.elfs.items() if elf.dynamic and elf.symtab)
        edits = [Strip(member=member) for member in strippable]
        return planned_in_turn(wheel, edits, "strip", "strip", "strip symbols")

    # --- Acting

    def _written(self, decision: _Decision) -> tuple[PendingWheel, Mapping[str, str]]:
        """Return the wheel, still without a name, and the way by which each object was edited."""
        self.progress("writing")
        if not decision.edits and not self._false_rows:
            return copy_wheel(self.archive, self.settings.wheel_dir), {}
        edits = [step.edit for step in decision.edits]
        splices = self.settings.zip_level < 0
        trim(self.archive.size)
        applied = apply(self.archive, decision.after, edits, self.workdir, splices=splices)
        trim(self.archive.size)
        pending = write_wheel(
            self.archive,
            decision.after,
            {**self._unproven(decision.after, applied.moved), **applied.content},
            applied.moved,
            self.settings.wheel_dir,
            false_rows=self._false_rows,
            codec=self.codec,
            level=self.settings.zip_level,
            epoch=_epoch(self.standby.environ),
            early=self.early,
        )
        return pending, applied.ways

    @property
    def _false_rows(self) -> frozenset[str]:
        """The members about which RECORD is wrong, where that was ignored."""
        return frozenset(problem.member for problem in self.archive.wheel.record_problems)

    def _unproven(self, after: Wheel, moved: Mapping[str, str]) -> dict[str, bytes]:
        """Return the content of the members that need a new row in RECORD."""
        origins = {member.name: moved.get(member.name, member.name) for member in after.members}
        return {
            new: self.archive.read(old)
            for new, old in origins.items()
            if old in self._false_rows and old != f"{after.dist_info}/RECORD"
        }

    def _read_back(self, pending: PendingWheel, predicted: Wheel) -> Wheel:
        """Open what was written as any wheel, and hold it against the prediction.

        If somebody may have written to the input meanwhile, nothing is known by its CRC.
        """
        trim(self.archive.size)
        opened = partial(open_wheel, pending.path, name=predicted.name)
        if self.archive.is_untouched():
            opened = partial(opened, origin=self.archive, written=pending.written)
        else:
            self.archive.check_again()
        with opened() as archive:
            found = archive.wheel
        said, foretold = _all_said(found), _all_said(predicted)
        members = dict.fromkeys((*foretold, *said))
        wrong = [member for member in members if said.get(member) != foretold.get(member)]
        names = ({m.name for m in found.members}, {m.name for m in predicted.members})
        wrong += sorted(names[0] ^ names[1])
        wrong += [problem.member for problem in found.record_problems]
        if (found.tags, found.root_is_purelib) != (predicted.tags, predicted.root_is_purelib):
            wrong.append(f"{predicted.dist_info}/WHEEL")
        if found.metadata != predicted.metadata:
            wrong.append(f"{predicted.dist_info}/METADATA")
        sources = predicted.sources.items()
        wrong += [
            member for member, source in sources if found.sources.get(member, source) != source
        ]
        if wrong:
            raise VerificationError(
                f"the wheel written differs from the plan in {join_some(wrong)}",
                hint="nothing was published; please report this wheel",
            )
        return found

    def _tried(self, pending: PendingWheel, wheel: Wheel) -> tuple[Finding, ...]:
        """Install what was written, and try everything in it."""
        # Only who asks for it pays for its start-up.
        self.progress("verifying")
        options = Options(beside=self._providing_wheels)
        results = verify(pending.path, options, self.standby.environ, name=wheel.name)
        return verify_findings(tuple(results))

    @property
    def _providing_wheels(self) -> tuple[Path, ...]:
        """The wheels of the providers that are at hand as wheels."""
        return tuple(Path(each) for each in wheels_at_hand(self.settings.provider))

    # --- Judging

    def _judge(
        self, wheel: Wheel, decision: _Decision
    ) -> tuple[tuple[Finding, ...], Verdict | None]:
        """Run all rules on the result, with auditwheel's verdict among what they look at."""
        verdict = None
        if self._wants_verdict(wheel):
            verdict = self._verdict(wheel, decision.excluded)
        context = Context(
            wheel=wheel,
            settings=self.settings,
            verdict=verdict,
            unmatched_excludes=decision.unmatched_excludes,
            definitions=self._definitions(decision.edits),
        )
        breaks = self._breaks({**decision.stages, "pack": wheel})
        findings = run_rules(context, self.rules)
        return tuple(attribute_to_stage(finding, breaks) for finding in findings), verdict

    def _wants_verdict(self, wheel: Wheel) -> bool:
        return self.settings.verdict and not wheel.is_pure

    def _verdict(self, wheel: Wheel, excluded: tuple[str, ...] = ()) -> Verdict:
        """Ask auditwheel, once for wheels whose objects say the same."""
        for known, verdict in self.verdicts:
            if known.name == wheel.name and _judged(known) == _judged(wheel):
                return verdict
        others = (*excluded, *given_by_others(wheel, self.settings))
        settings = replace(self.settings, exclude=(*self.settings.exclude, *others))
        verdict = auditwheel.verdict(wheel, settings, self.workdir, self.standby)
        self.verdicts.append((wheel, verdict))
        return verdict


def _errors(findings: Sequence[Finding]) -> bool:
    return any(finding.severity is Severity.ERROR for finding in findings)


def _refuse_lost_entries(before: Wheel, after: Wheel) -> None:
    """Make sure that the graft has left the search paths of the wheel's own objects alone."""
    for member, elf in before.elfs.items():
        if after.elfs[member].entries != elf.entries:
            raise VerificationError(
                f"`{member}`: the graft changed the search path from `{elf.search_path}` to "
                f"`{after.elfs[member].search_path}`",
                hint="nothing was published; please report this wheel",
            )


def _unmatched(patterns: Sequence[str], wheel: Wheel, excluded: frozenset[str]) -> tuple[str, ...]:
    """Return the exclude patterns that match neither a DT_NEEDED entry nor a grafted file.

    Those that match a name without a version, and leave one with a version to the graft, too.
    """
    names = {name for elf in wheel.elfs.values() for name in elf.needed} | excluded
    shipped = {member.rpartition("/")[2] for member in wheel.elfs}
    others = {original_name(name) for name in names} - shipped
    left = [name for name in others if not any(fnmatchcase(name, each) for each in patterns)]
    found: list[str] = []
    for pattern in patterns:
        matched = [name for name in names if fnmatchcase(name, pattern)]
        versioned = tuple(f"{name}." for name in matched)
        bare = all(name.endswith(".so") for name in matched)
        if not matched or (bare and any(name.startswith(versioned) for name in left)):
            found.append(pattern)
    return tuple(found)


def _left_out(wheel: Wheel, excluded: Collection[str], settings: Settings) -> Iterator[str]:
    """Say of each library that was left out for what it is who is to give it."""
    needed = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    for name in needed:
        provider = provider_of(name, settings.provider)
        reason = never_bundled(name)
        if name not in excluded or any(fnmatchcase(name, each) for each in settings.exclude):
            continue
        if provider is not None:
            yield f"`{name}` is not grafted: {provider.label} has it"
        elif reason is not None and not may_come_from_platform(name):
            yield f"`{name}` is not grafted: {reason}"


def _owned_by_others(
    owned: Iterable[GraftedLibrary], grafted: Iterable[GraftedLibrary], settings: Settings
) -> Iterator[str]:
    """Say of each library that an owner has, or has another file of, where it comes from."""
    owners = grafting.sharing(settings)
    for each in owned:
        provider = provider_of(each.soname, owners)
        if provider is not None:
            yield f"`{each.original}` is not grafted: {provider.name} has it as `{each.soname}`"
    theirs = {
        unhashed(name): provider
        for provider in owners
        for name in provider.libraries
        if unhashed(name)
    }
    for each in grafted:
        provider = theirs.get(unhashed(each.soname))
        if provider is not None and provider.has(each.soname):
            yield (
                f"`{each.original}` is grafted, though {provider.name} has it: it is also for an "
                "object outside site-packages; `--data-libraries search` leaves it there"
            )
        elif provider is not None:
            glob = f"{each.original.partition('.so')[0]}.so.*"
            yield (
                f"`{each.original}` is grafted, though {provider.name} has one: they are two "
                "different files, and both get loaded; build both wheels with the same, or let "
                f"both have that of {provider.name} by `--keep-name '{glob}'`"
            )


_LARGE = 10 * 2**20


def _could_be_left_out(libraries: Iterable[GraftedLibrary]) -> Iterator[str]:
    """Say of each large library that was grafted whether a well-known wheel has it."""
    for each in libraries:
        size = each.path.stat().st_size
        known = known_for(each.original) if size > _LARGE else ""
        if known:
            yield (
                f"`{each.original}` is grafted, {size / 1e6:,.0f} MB: `{known}` "
                "would leave it to that wheel"
            )


def _names_of(excluded: Collection[str], wheel: Wheel) -> tuple[str, ...]:
    """Return the DT_NEEDED entries that ask for a library which was excluded by its path.

    The repaired object no longer has the absolute search path that led there.
    """
    stems = {path.rpartition("/")[2].partition(".so")[0] for path in excluded if "/" in path}
    names = dict.fromkeys(name for elf in wheel.elfs.values() for name in elf.needed)
    return tuple(name for name in names if name.partition(".so")[0] in stems)


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


def _all_said(wheel: Wheel) -> dict[str, Elf]:
    """Return what the objects say, without what an edit by patchelf may add: segments."""
    return {member: replace(elf, segments=()) for member, elf in wheel.elfs.items()}


def _judged(wheel: Wheel) -> dict[str, Elf]:
    """Return what auditwheel's verdict can depend on: all that is said, but for search paths.

    Which of the wheel's libraries is found is not asked of auditwheel (see `auditwheel_view`).
    """
    return {
        member: replace(elf, rpath=None, runpath=None) for member, elf in _all_said(wheel).items()
    }


# --- What the changed files will load -------------------------------------------------------------


def _loads(before: Wheel, after: Wheel, settings: Settings) -> tuple[Loads, ...]:
    context = Context(wheel=after, settings=settings)
    changed = [
        member
        for member, elf in after.elfs.items()
        if elf.dynamic and before.elfs.get(member) != elf
    ]
    for_others = [
        _for_others(layout, loads)
        for layout, loads in zip(context.layouts, context.loads, strict=True)
    ]
    return tuple(_load(context, member, for_others) for member in changed)


def _for_others(layout: Layout, loads: Mapping[str, Load]) -> dict[str, list[Request]]:
    """Return what each vendored library, by its path, asks for when other files load it.

    Nobody opens one by itself, and then it may inherit the DT_RPATH that leads to its libraries.
    """
    found: dict[str, list[Request]] = {}
    for member, load in loads.items():
        if not is_vendored(member):
            for request in load.requests:
                if is_vendored(layout.members.get(request.requester or "", "")):
                    found.setdefault(request.requester or "", []).append(request)
    return found


def _load(
    context: Context, member: str, for_others: Sequence[Mapping[str, Sequence[Request]]]
) -> Loads:
    works: list[Scheme] = []
    fails: list[Scheme] = []
    libraries: dict[str, str] = {}
    for layout, loads, of_others in zip(context.layouts, context.loads, for_others, strict=True):
        load = loads.get(member)
        if load is None:
            fails.extend(layout.schemes)
            continue
        requests = of_others.get(layout.paths[member], load.requests)
        asked = [r for r in requests if r.name in context.shipped]
        (works if all(r.result for r in asked) else fails).extend(layout.schemes)
        libraries |= {r.name: layout.members[r.result] for r in asked if r.result}
    return Loads(
        member=member,
        libraries=tuple(libraries.items()),
        works=(describe(works),) if works else (),
        fails=(describe(fails),) if fails else (),
    )


def verify_findings(results: Sequence[Verified]) -> tuple[Finding, ...]:
    """Return what failed, in the words of the rules."""
    return tuple(
        Finding(
            code="verify",
            name="verify",
            severity=Severity.ERROR,
            member=check.member,
            message=f"`{check.what}` {check.status} when installed: {check.message}",
            notes=(f"{result.scheme}, {result.python}", *check.explanation),
        )
        for result in results
        for check in result.checks
        if check.failed
    )
