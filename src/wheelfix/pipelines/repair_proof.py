"""Proof of a repair: the written wheel is as planned, and its changed objects load."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from wheelfix.analysis.providers import never_bundled, provider_of, provider_wheels
from wheelfix.elf.constants import Pt
from wheelfix.elf.model import Elf, libc_of
from wheelfix.errors import BadWheelError, VerificationError
from wheelfix.grouping import grouped
from wheelfix.host.verify import verify
from wheelfix.host.verify_values import Options, Verified
from wheelfix.loader.install_schemes import Layout, Scheme, describe
from wheelfix.loader.load_values import Load, Request
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.pipelines.repair_result import Absence, Absent, Loads
from wheelfix.rules.context import Context
from wheelfix.rules.drivers import leaves_drivers
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import CHECKPOINT_RULES
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import Break, broken
from wheelfix.settings import Settings, matches_any
from wheelfix.system.tempfiles import PendingFile
from wheelfix.text import join_some
from wheelfix.wheel.model import Wheel, WheelName
from wheelfix.wheel.reader import Archive, open_rewritten

_REPORT = "nothing was published; please report this wheel"


def read_back(archive: Archive, pending: PendingFile, predicted: Wheel) -> Wheel:
    """Read the written wheel, and return it if it is as `predicted`.

    Raises `VerificationError` if it is not, `BadWheelError` if the input, `archive`, has changed.
    """
    archive.check_unchanged()
    try:
        with open_rewritten(pending.path, predicted.name, archive) as written:
            found = written.wheel
    except BadWheelError as error:
        raise VerificationError(
            f"the wheel written cannot be read back: {error.message}", hint=_REPORT
        ) from error
    wrong = _differences(found, predicted)
    if wrong:
        raise VerificationError(
            f"the wheel written differs from the plan in {join_some(wrong)}", hint=_REPORT
        )
    return found


def _differences(found: Wheel, predicted: Wheel) -> list[str]:
    """Return the members in which the written wheel is not as predicted."""
    ours, theirs = _without_segments(found), _without_segments(predicted)
    wrong = [
        member
        for member in dict.fromkeys((*theirs, *ours))
        if ours.get(member) != theirs.get(member)
    ]
    wrong += sorted({m.name for m in found.members} ^ {m.name for m in predicted.members})
    wrong += [problem.member for problem in found.record_problems]
    if (found.tags, found.root_is_purelib) != (predicted.tags, predicted.root_is_purelib):
        wrong.append(f"{predicted.dist_info}/WHEEL")
    if found.metadata != predicted.metadata:
        wrong.append(f"{predicted.dist_info}/METADATA")
    wrong += [
        member
        for member, source in predicted.sources.items()
        if found.sources.get(member, source) != source
    ]
    return wrong


def _without_segments(wheel: Wheel) -> dict[str, Elf]:
    """Return the objects without their segments but PT_GNU_STACK: patchelf may add some."""
    return {
        member: replace(
            elf,
            segments=tuple(
                segment._replace(offset=0)
                for segment in elf.segments
                if segment.type == Pt.GNU_STACK
            ),
        )
        for member, elf in wheel.elfs.items()
    }


def verified(
    path: Path, name: WheelName, settings: Settings, environ: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Verify the wheel at `path` once installed; return the failures as findings."""
    options = Options(beside=tuple(map(Path, provider_wheels(settings.provider))))
    return verify_findings(tuple(verify(path, options, environ, name=name)))


def verify_findings(results: Sequence[Verified]) -> tuple[Finding, ...]:
    """Return the failed checks as findings."""
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


def refuse_changed_search_paths(before: Wheel, after: Wheel) -> None:
    """Raise `VerificationError` if the graft has changed a search path of the wheel's objects."""
    for member, elf in before.elfs.items():
        if after.elfs[member].entries != elf.entries:
            raise VerificationError(
                f"`{member}`: the graft changed the search path from `{elf.search_path}` to "
                f"`{after.elfs[member].search_path}`",
                hint=_REPORT,
            )


def breaks_by_stage(stages: Mapping[str, Context], rules: Iterable[Rule]) -> dict[Break, str]:
    """Check the names after each stage, and return which stage broke one.

    `stages` has the wheel as read, and as each stage left it. What was broken from the start is
    left out.
    """
    about_names = tuple(rule for rule in rules if rule in CHECKPOINT_RULES)
    found: dict[Break, str] = {}
    known: frozenset[Break] | None = None
    last: Wheel | None = None
    for stage, context in stages.items():
        if context.wheel is last:
            continue
        now = broken(context, about_names)
        if known is not None:
            found |= dict.fromkeys(now - known - found.keys(), stage)
        known, last = now if known is None else known, context.wheel
    return found


def absent_libraries(context: Context, excluded: Collection[str]) -> Iterator[Absent]:
    """Yield the libraries that the wheel needs and must get from elsewhere.

    `excluded` are the DT_NEEDED entries that a pattern excludes by the path of the library.
    """
    settings = context.settings
    external = context.verdict.external if context.verdict is not None else ()
    for name, dependents in sorted(context.dependents.items()):
        if name in context.shipped or libc_of(name) is not None:
            continue
        provider = provider_of(name, settings.provider)
        machine = never_bundled(name) if leaves_drivers(settings) else None
        if name in excluded or matches_any(name, settings.exclude):
            yield Absent(name, Absence.EXCLUDED, "", tuple(dependents))
        elif provider is not None:
            yield Absent(name, Absence.PROVIDED, provider.label, tuple(dependents))
        elif machine is not None and not may_come_from_platform(name):
            yield Absent(name, Absence.PROVIDED, machine, tuple(dependents))
        elif name in external:
            yield Absent(name, Absence.MISSING, "", tuple(dependents))


def loads_of_changed(before: Wheel, context: Context) -> tuple[Loads, ...]:
    """Return for each object that is not as in `before` what it loads in each install scheme."""
    changed = [
        member
        for member, elf in context.wheel.elfs.items()
        if elf.dynamic and before.elfs.get(member) != elf
    ]
    for_others = [
        _requests_for_others(context, layout, loads)
        for layout, loads in zip(context.layouts, context.loads, strict=True)
    ]
    return tuple(_load(context, member, for_others) for member in changed)


def _requests_for_others(
    context: Context, layout: Layout, loads: Mapping[str, Load]
) -> dict[str, list[Request]]:
    """Return the requests of vendored libraries, by path, when other files load them.

    They are not opened by themselves, and may inherit the DT_RPATH that leads to their libraries.
    """
    wheel, is_vendored = context.wheel, context.settings.is_vendored
    requests = (
        request
        for member, load in loads.items()
        if not is_vendored(member, wheel)
        for request in load.requests
        if is_vendored(layout.members.get(request.requester or "", ""), wheel)
    )
    return grouped(requests, lambda request: request.requester or "")


def _load(
    context: Context, member: str, for_others: Sequence[Mapping[str, Sequence[Request]]]
) -> Loads:
    works: list[Scheme] = []
    fails: list[Scheme] = []
    libraries: dict[str, str] = {}
    filtees = {
        filtee.name
        for elf in context.wheel.elfs.values()
        for filtee in elf.filtees
        if not may_come_from_platform(filtee.name)
    }
    for layout, loads, of_others in zip(context.layouts, context.loads, for_others, strict=True):
        load = loads.get(member)
        if load is None:
            fails.extend(layout.schemes)
            continue
        requests = of_others.get(layout.paths[member], load.requests)
        asked = [
            request
            for request in requests
            if request.name in context.shipped or (request.failed and request.name in filtees)
        ]
        (works if all(request.result for request in asked) else fails).extend(layout.schemes)
        libraries |= {r.name: layout.members[r.result] for r in asked if r.result}
    return Loads(
        member=member,
        libraries=tuple(libraries.items()),
        works=(describe(works),) if works else (),
        fails=(describe(fails),) if fails else (),
    )
