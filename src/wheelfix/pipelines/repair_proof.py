"""Proof of a repair: the written wheel is as planned, and its changed objects load."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path

from wheelfix.analysis.never_bundled import reason_not_to_bundle
from wheelfix.analysis.world import World
from wheelfix.elf.constants import Pt
from wheelfix.elf.model import Elf, libc_of
from wheelfix.errors import BadWheelError, VerificationError
from wheelfix.grouping import flatten, grouped
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import (
    UNTRIED,
    AttemptKind,
    Check,
    CheckStatus,
    Options,
    Verified,
    VerifyResult,
)
from wheelfix.loader.install_schemes import Scheme, describe
from wheelfix.loader.load_values import Request
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.pipelines.repair_refusals import PLEASE_REPORT
from wheelfix.pipelines.repair_result import Absence, Absent, ObjectLoads
from wheelfix.providers.model import Provided
from wheelfix.providers.provider_uses import provider_of, wheels_of
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import CHECKPOINT_RULES
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import Break, broken
from wheelfix.rules.undefined_symbols import undefined_symbol
from wheelfix.settings import Settings, matches_any
from wheelfix.system.tempfiles import PendingFile
from wheelfix.text import count, join_some
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import Archive, open_rewritten


def read_back(archive: Archive, pending: PendingFile, predicted: Wheel) -> Wheel:
    """Read the written wheel, and return it if it is as `predicted`.

    Raises `VerificationError` if it is not, `BadWheelError` if the input, `archive`, has changed.
    """
    archive.check_unchanged()
    try:
        with open_rewritten(pending.path, predicted.name, archive) as written:
            wheel = written.wheel
    except BadWheelError as error:
        raise VerificationError(
            f"the wheel written cannot be read back: {error.message}", hint=PLEASE_REPORT
        ) from error
    wrong = _differences(wheel, predicted)
    if wrong:
        raise VerificationError(
            f"the wheel written differs from the plan in {join_some(wrong)}", hint=PLEASE_REPORT
        )
    return wheel


def _differences(written: Wheel, predicted: Wheel) -> list[str]:
    """Return the members in which the written wheel is not as predicted."""
    ours, theirs = _without_segments(written), _without_segments(predicted)
    wrong = [
        member
        for member in dict.fromkeys((*theirs, *ours))
        if ours.get(member) != theirs.get(member)
    ]
    wrong += sorted(written.member_names ^ predicted.member_names)
    wrong += [problem.member for problem in written.record_problems]
    if (written.tags, written.root_is_purelib) != (predicted.tags, predicted.root_is_purelib):
        wrong.append(predicted.dist_info.wheel_file)
    if written.metadata != predicted.metadata:
        wrong.append(predicted.dist_info.metadata)
    wrong += [
        member
        for member, source in predicted.sources.items()
        if written.sources.get(member, source) != source
    ]
    return wrong


def _without_segments(wheel: Wheel) -> dict[str, Elf]:
    """Return the objects without their segments but PT_GNU_STACK: patchelf may add some."""
    return {
        member: elf._replace(
            segments=tuple(
                segment._replace(offset=0)
                for segment in elf.segments
                if segment.type == Pt.GNU_STACK
            ),
        )
        for member, elf in wheel.elfs.items()
    }


def verify_wheel(
    path: Path,
    name: WheelName,
    providers: Iterable[Provided],
    settings: Settings,
    environ: Mapping[str, str],
) -> tuple[Verified, ...]:
    """Verify the wheel at `path` once installed.

    The wheels of `providers` and what is installed in the environment `site` are beside it.
    """
    beside = tuple(map(Path, wheels_of(providers)))
    site = None if settings.site is None else Path(settings.site)
    options = Options(beside=beside, site=site, exclude=settings.exclude)
    return tuple(verify(path, options, environ, name=name))


def code_raised(results: Iterable[Verified]) -> bool:
    """Return whether code of a wheel ended with an error, which a repair may have led to."""
    return any(check.status in _OF_CODE for result in results for check in result.checks)


def verify_findings(
    results: Sequence[Verified], as_built: Iterable[Verified] = ()
) -> tuple[Finding, ...]:
    """Return the failed checks as findings, and the objects that did not load for want of others.

    The dependencies of a repair with `verify` are all there: the wheels of its providers. What one
    object fails by is one finding, whether it is loaded or imported. An error of code is a failure
    if there was none in the wheel `as_built`.
    """
    worked = {_key(r, c) for r in as_built for c in r.checks if c.status is CheckStatus.OK}
    failed = [
        [c for c in r.checks if _has_failed(c) or (c.status in _OF_CODE and _key(r, c) in worked)]
        for r in results
    ]
    failures = starmap(_failures, zip(results, failed, strict=True))
    passed = (r for r, checks in zip(results, failed, strict=True) if not checks)
    return (*flatten(failures), *flatten(map(_not_tried, passed)))


_OF_CODE = frozenset({CheckStatus.RAISED, CheckStatus.EXITED})


def _key(result: Verified, check: Check) -> tuple[str, ...]:
    name = check.member if check.kind is AttemptKind.RUN else check.what
    return result.scheme, result.interpreter, check.kind, name


def _failures(result: Verified, failed: Iterable[Check]) -> Iterator[Finding]:
    alike = grouped(failed, lambda check: (check.member, check.status, check.message))
    for same in alike.values():
        yield Finding(
            code="verify",
            name="as-installed",
            severity=Severity.ERROR,
            member=same[0].member,
            message=f"{_what(same)}: {_how(same[0])}",
            notes=(
                f"{result.scheme}, {result.python}",
                *dict.fromkeys(flatten(check.explanation for check in same)),
            ),
            hint=f"put {same[0].message} beside it with `--with`, or try nothing with `--no-verify`"
            if same[0].status is CheckStatus.NEEDS
            else "as built, the wheel does it without an error: the repair breaks it"
            if same[0].status in _OF_CODE
            else "`wheelfix verify` tries the wheel as it was built, and shows the whole output",
        )


def _not_tried(result: Verified) -> Iterator[Finding]:
    """Yield a warning if nothing failed, and nothing was imported, or not all was tried."""
    outcome = result.result(strict=False)
    untried = [check for check in result.checks if check.status in UNTRIED]
    if outcome is VerifyResult.OK and not untried:
        return
    some = untried if outcome is VerifyResult.OK else result.checks
    reasons = dict.fromkeys(check.message for check in some if check.message)
    files = count(len({check.member for check in untried}), "file")
    what = f"{files} not tried" if outcome is VerifyResult.OK else outcome
    yield Finding(
        code="verify",
        name="as-installed",
        severity=Severity.WARNING,
        message=f"{what}: {join_some(reasons, 3) or 'there is nothing to load'}",
        notes=(f"{result.scheme}, {result.python}",),
    )


def _what(same: Sequence[Check]) -> str:
    entry = f" `{same[0].what}`" if same[0].kind is AttemptKind.RESOLVE else ""
    return " and ".join(check.kind for check in same) + entry


def _how(check: Check) -> str:
    if check.status is CheckStatus.NEEDS:
        return f"it needs {check.message}, which is not installed"
    return f"{check.status}: {check.message}"


def _has_failed(check: Check) -> bool:
    lacks = check.status in {CheckStatus.NEEDS, CheckStatus.AFTER}
    return check.failed or (check.kind is AttemptKind.LOAD and lacks)


def breaks_by_stage(stages: Mapping[str, Context], rules: Iterable[Rule]) -> dict[Break, str]:
    """Check the names after each stage, and return which stage broke one.

    `stages` has the wheel as read, and as each stage left it. What was broken from the start is
    left out. Symbols are looked up only if some are undefined in the end.
    """
    *_, end = stages.values()
    symbols = {undefined_symbol} if end.unresolved_symbols else set[Rule]()
    about_names = tuple(rule for rule in rules if rule in CHECKPOINT_RULES or rule in symbols)
    breaks: dict[Break, str] = {}
    earlier: frozenset[Break] | None = None
    last: Wheel | None = None
    for stage, context in stages.items():
        if context.wheel is last:
            continue
        now = broken(context, about_names)
        if earlier is None:  # what a library may define that is not there yet was lacking, too
            unknown = (
                (s.member, name) for s in context.unresolved_symbols for name, _ in s.references
            )
            earlier = now.union(("WF301", *both) for both in unknown)
        breaks |= dict.fromkeys(now - earlier - breaks.keys(), stage)
        last = context.wheel
    return breaks


def absent_libraries(context: Context, excluded: Collection[str]) -> Iterator[Absent]:
    """Yield the libraries that the wheel needs and must get from elsewhere.

    `excluded` are the DT_NEEDED entries that a pattern excludes by the path of the library.
    """
    settings = context.settings
    left = context.left.libraries
    external = context.verdict.external if context.verdict is not None else ()
    for name, dependents in sorted(context.dependents.items()):
        if name in context.shipped or libc_of(name) is not None:
            continue
        provider = provider_of(name, context.providers)
        machine = None if settings.graft_drivers else reason_not_to_bundle(name)
        if name in excluded or matches_any(name, settings.exclude):
            yield Absent(name, Absence.EXCLUDED, "", tuple(dependents))
        elif provider is not None:
            is_placed = any(f.directory is not None for f in provider.folders if f.has(name))
            yield Absent(name, Absence.PROVIDED, provider.label, tuple(dependents), is_placed)
        elif machine is not None and not may_come_from_platform(name):
            yield Absent(name, Absence.MACHINE, machine, tuple(dependents))
        elif name in left:
            source = left[name] or "what METADATA requires"
            is_reached = name not in context.left.unreached
            yield Absent(name, Absence.PROVIDED, source, tuple(dependents), is_reached)
        elif name in external:
            yield Absent(name, Absence.MISSING, "", tuple(dependents))


def loads_of_changed(before: Wheel, context: Context) -> tuple[ObjectLoads, ...]:
    """Return for each object that is not as in `before` what it loads in each install scheme."""
    changed = [
        member
        for member, elf in context.wheel.elfs.items()
        if elf.dynamic and before.elfs.get(member) != elf
    ]
    for_others = [_requests_for_others(context, world) for world in context.worlds]
    filtees = {
        filtee.name
        for filtee in flatten(elf.filtees for elf in context.wheel.elfs.values())
        if not may_come_from_platform(filtee.name)
    }
    return tuple(_load(context, member, for_others, filtees) for member in changed)


def _requests_for_others(context: Context, world: World) -> dict[str, list[Request]]:
    """Return the requests of vendored libraries, by path, when other files load them.

    They are not opened by themselves, and may inherit the DT_RPATH that leads to their libraries.
    """
    wheel, is_vendored = context.wheel, context.settings.is_vendored
    vendored = {world.paths[member] for member in world.loads if is_vendored(member, wheel)}
    requests = (
        request
        for member, load in world.loads.items()
        if world.paths[member] not in vendored
        for request in load.requests
        if request.requester in vendored
    )
    return grouped(requests, lambda request: request.requester or "")


def _load(
    context: Context,
    member: str,
    for_others: Sequence[Mapping[str, Sequence[Request]]],
    filtees: Collection[str],
) -> ObjectLoads:
    works: list[Scheme] = []
    fails: list[Scheme] = []
    lost: list[Scheme] = []
    libraries: dict[str, str] = {}
    for world, of_others in zip(context.worlds, for_others, strict=True):
        load = world.loads.get(member)
        if load is None:
            lost.extend(world.schemes)
            continue
        requests = of_others.get(world.paths[member], load.requests)
        asked = [
            request
            for request in requests
            if (request.failed and request.name in filtees)
            or (
                request.name in context.shipped
                # What the platform has, too, need not be that of the wheel.
                and (request.result or not may_come_from_platform(request.name, context.wheel.libc))
            )
        ]
        (works if all(request.result for request in asked) else fails).extend(world.schemes)
        libraries |= {r.name: world.members[r.result] for r in asked if r.result}
    return ObjectLoads(
        member=member,
        libraries=tuple(libraries.items()),
        works=(describe(works),) if works else (),
        fails=(
            *([describe(fails)] if fails else []),
            *([f"{describe(lost)}, which does not install it"] if lost else []),
        ),
    )
