"""Differences between the wheels of one release.

Wheels are grouped by distribution and version, and for most rules by platform: architecture and C
library. A wheel is reported if it differs from the majority; without a majority, nothing is
reported. The time of every rule is linear in the number of files.
"""

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from wheelfix.grouping import flatten, grouped
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.python_api import MODULE_SUFFIX, is_libpython
from wheelfix.rules.context import SetContext
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import set_rule
from wheelfix.rules.size import NOTABLE
from wheelfix.text import count, in_units, join_some
from wheelfix.wheel.grafted_name import original_name, remove_hash
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, parse_platform_tag
from wheelfix.wheel.stable_names import stable_name


@set_rule("WF851", "built-differently", Severity.WARNING)
def built_differently(context: SetContext) -> Iterator[Hit]:
    """Object is built differently than in the other wheels of the release.

    ## What it does
    Compares, for each platform, the SONAME and DT_NEEDED of each object with the same object in the
    other wheels of the release, and for grafted libraries also the content. Reports the wheels that
    differ from the majority (at least two).

    ## Why is this bad?
    Users of one Python version get another version of a library, or a module without a feature, and
    bugs that others do not see. Often the wheel was built at another time or on another machine.

    ## Example
    `libssl.so.1.1` in the wheel for cp310, `libssl.so.3` in those for cp311 to cp313.

    ## Common causes
    - A cache or a container image that changed between the builds. **Solution**: build all wheels
      of a release again, in one image.
    - A library that the build found by chance. **Solution**: require the features explicitly in the
      build; see WF305.

    ## Fix safety
    Not fixed: the wheel must be built again.
    """
    for wheels in _platforms(context):
        objects: dict[str, dict[str, list[str]]] = {}
        for wheel in wheels:
            for member in wheel.elfs:
                mine = objects.setdefault(_object_key(member), {})
                mine.setdefault(str(wheel.name), []).append(member)
        by_name = {str(wheel.name): wheel for wheel in wheels}
        hashes = {str(wheel.name): {row.name: row.hash for row in wheel.record} for wheel in wheels}
        for members_of in objects.values():
            yield from _differences(by_name, hashes, members_of)


def _object_key(member: str) -> str:
    """`pkg.libs/libx-1a2b3c4d.so.1` -> `pkg.libs/libx`, `pkg/a.cpython-311.so` -> `pkg/a`."""
    folder, base = posixpath.split(member)
    return posixpath.join(folder, original_name(base).partition(".")[0])


def _differences(
    wheels: dict[str, Wheel], hashes: dict[str, dict[str, str]], members_of: dict[str, list[str]]
) -> Iterator[Hit]:
    """Report the first difference of one object across the wheels: SONAME, DT_NEEDED, content."""
    names = {wheel: _sonames(wheels[wheel], members) for wheel, members in members_of.items()}
    needs = {wheel: _needs(wheels[wheel], members) for wheel, members in members_of.items()}
    content = {
        wheel: tuple(sorted(hashes[wheel].get(member, "") for member in members))
        for wheel, members in members_of.items()
        if all(remove_hash(posixpath.basename(member)) for member in members)
    }
    for what, said in (("has the SONAME", names), ("needs", needs), ("", content)):
        odd = list(_odd_ones(said))
        for wheel, *both in odd:
            rest = f"{count(len(said) - len(odd), 'other wheel')} of the release"
            own, others = (join_some(names) or "nothing" for names in both)
            yield Hit(
                message=f"{what} {own}; in {rest}: {others}"
                if what
                else f"has different content than in {rest}",
                wheel=wheel,
                member=members_of[wheel][0],
                hint="build this wheel again, in the same image as the others",
            )
        if odd:
            return


def _sonames(wheel: Wheel, members: Iterable[str]) -> tuple[str, ...]:
    names = (wheel.elfs[member].soname or "" for member in members)
    return tuple(sorted({original_name(name) for name in names if name and "cpython" not in name}))


def _needs(wheel: Wheel, members: Iterable[str]) -> tuple[str, ...]:
    """Return the libraries that the objects need, without those of the platform and libpython."""
    needed = set(flatten(wheel.elfs[member].needed for member in members))
    libc = wheel.libc
    return tuple(
        sorted(
            original_name(name)
            for name in needed
            if not may_come_from_platform(name, libc) and not is_libpython(name)
        )
    )


@set_rule("WF852", "missing-file", Severity.WARNING)
def missing_file(context: SetContext) -> Iterator[Hit]:
    """Wheel lacks a file that the other wheels of the release have.

    ## What it does
    Compares, for each platform, the names of the files, without the suffixes of extension modules
    and the hashes of grafted libraries. The metadata is not compared.

    ## Why is this bad?
    An import that works with one Python version fails with another, unnoticed until a user reports
    it: an optional extension is silently skipped if its build fails.

    ## Example
    `pkg/_speedups` is in the wheels for cp311 to cp313, but not in the one for cp310.

    ## Common causes
    - An optional extension (`optional=True`) that failed to build. **Solution**: make it
      required in the release build.
    - A header or library that the image for one Python lacks. **Solution**: check its build log.

    ## Fix safety
    Not fixed: the wheel must be built again.
    """
    for wheels in _platforms(context):
        names = {str(wheel.name): _stable_names(wheel) for wheel in wheels}
        counts = Counter(flatten(names.values()))
        usual = sorted(n for n, have in counts.items() if have > 1 and 2 * have > len(wheels))
        for wheel, have in names.items():
            if lacking := [name for name in usual if name not in have]:
                yield Hit(
                    message=f"lacks `{lacking[0]}`, which {counts[lacking[0]]} of the "
                    f"{count(len(wheels), 'wheel')} of the release have",
                    wheel=wheel,
                    entry=lacking[0],
                    notes=(f"and {join_some(lacking[1:])}",) if lacking[1:] else (),
                    hint="check the build log of this wheel",
                )


def _stable_names(wheel: Wheel) -> frozenset[str]:
    return frozenset(
        MODULE_SUFFIX.sub(".so", stable_name(member.name))
        for member in wheel.members
        if not member.name.startswith(f"{wheel.dist_info}/")
    )


@set_rule("WF853", "odd-tag", Severity.WARNING)
def odd_tag(context: SetContext) -> Iterator[Hit]:
    """Platform tag differs from the other wheels of the release.

    ## What it does
    Compares the platform tags of wheels for the same architecture and C library.

    ## Why is this bad?
    Users of one Python version need a newer system than the others, or get a wheel with an untested
    tag: often one wheel was built in another image.

    ## Example
    `manylinux_2_34_x86_64` for cp313, `manylinux_2_28_x86_64` for all others.

    ## Common causes
    - One job of the build matrix uses another image. **Solution**: use the same image in all jobs.
    - The build for one Python uses a symbol of a newer glibc. **Solution**: see WF803.

    ## Fix safety
    Not fixed.
    """
    for wheels in _platforms(context):
        tags = {str(wheel.name): tuple(sorted(wheel.name.platforms)) for wheel in wheels}
        for wheel, platforms, usual in _odd_ones(tags):
            yield Hit(
                message=f"has the platform tag {'.'.join(platforms)}, most others "
                f"{'.'.join(usual)}",
                wheel=wheel,
                entry=".".join(platforms),
                hint="build it in the same image as the others",
            )


@set_rule("WF854", "odd-size", Severity.WARNING)
def odd_size(context: SetContext) -> Iterator[Hit]:
    """Size differs from the other wheels of the release.

    ## What it does
    Compares the sizes of at least three wheels for the same architecture and C library. Reports
    those more than twice or less than half the median, if the difference is 100 kB or more.

    ## Why is this bad?
    The wheel contains something by accident, or lacks something.

    ## Example
    48 MB for cp312, 2 MB for all others.

    ## Common causes
    - The wheel was built with debug information. **Solution**: see WF701.
    - A library was grafted into one wheel only. **Solution**: compare by
      `wheelfix diff OTHER.whl THIS.whl`.

    ## Fix safety
    Not fixed.
    """
    for wheels in _platforms(context):
        if len(wheels) < 3:
            continue
        sizes = sorted(wheel.zip_size for wheel in wheels)
        usual = (sizes[len(sizes) // 2] + sizes[~(len(sizes) // 2)]) / 2  # the median
        for wheel in wheels:
            size = wheel.zip_size
            if not usual / 2 <= size <= 2 * usual and abs(size - usual) >= NOTABLE:
                yield Hit(
                    message=f"has {in_units(size)}, but the wheels of this platform have "
                    f"{in_units(usual)} (median)",
                    wheel=str(wheel.name),
                    hint="compare its files with those of the others",
                )


def _platforms(context: SetContext) -> Iterator[tuple[Wheel, ...]]:
    """Yield the wheels of each release that are for the same architecture and C library."""
    for wheels in context.releases:
        for platform, group in grouped(wheels, _platform).items():
            if platform and len(group) > 1:
                yield tuple(group)


def _platform(wheel: Wheel) -> frozenset[tuple[Family, str]]:
    tags = map(parse_platform_tag, wheel.name.platforms)
    return frozenset((tag.family, tag.arch) for tag in tags if tag.has_objects)


Value = TypeVar("Value")


def majority(values: Iterable[Value]) -> Value | None:
    """Return the value shared by more than half of all, and at least two; None if there is none."""
    counts = Counter(values)
    for value, number in counts.most_common(1):
        if number > 1 and 2 * number > counts.total():
            return value
    return None


def _odd_ones(said: Mapping[str, Value]) -> Iterator[tuple[str, Value, Value]]:
    """Yield each wheel that says something else than most, that, and what most say."""
    usual = majority(said.values())
    if usual is not None:
        yield from ((wheel, value, usual) for wheel, value in said.items() if value != usual)
