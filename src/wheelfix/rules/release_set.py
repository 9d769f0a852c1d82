"""What stands out among the wheels of one release.

Wheels are compared by distribution and version, and most rules by platform: one processor and one
C library. A majority says what is usual; where there is none, nothing stands out. Every rule
counts once over all files, so that its time grows with their number and no faster.
"""

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import TypeVar

from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.rules.context import SetContext
from wheelfix.rules.files import in_units
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import set_rule
from wheelfix.rules.size import NOTABLE
from wheelfix.wheel.grafted_name import original_name, unhashed
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import Family, parse_platform_tag

_SUFFIX = re.compile(r"\.(?:cpython-\d+\w*(?:-[\w-]+)?|pypy\d+-pp\d+(?:-[\w-]+)?|abi3t?)\.so$")


@set_rule("WF851", "built-differently", Severity.WARNING)
def built_differently(context: SetContext) -> Iterator[Hit]:
    """A library or module of one wheel is built differently from the same in the others.

    ## What it does
    Compares, for each platform, the SONAME and DT_NEEDED of each object with the same object in
    the other wheels of the release, and for grafted libraries the bytes, too. Reports the wheels
    that differ from what most others (at least two) have in common.

    ## Why is this bad?
    One Python then gets another version of a library, or a module without a feature: bugs that
    only users of that Python see. Mostly the wheel was built on another day or machine.

    ## Example
    `libssl.so.1.1` in the wheel for cp310, `libssl.so.3` in those for cp311 to cp313.

    ## Common causes
    - A cache or a container image that changed between the builds. **Solution**: build all wheels
      of a release anew, in one image.
    - A library that the build found by chance. **Solution**: say in the build which features it
      must have; see WF305.

    ## Fix safety
    Not fixed: the wheel has to be built again.
    """
    for wheels in _platforms(context):
        objects: dict[str, dict[str, list[str]]] = {}
        for wheel in wheels:
            for member in wheel.elfs:
                mine = objects.setdefault(_object_key(member), {})
                mine.setdefault(str(wheel.name), []).append(member)
        by_name = {str(wheel.name): wheel for wheel in wheels}
        hashes = {str(wheel.name): {row.name: row.hash for row in wheel.record} for wheel in wheels}
        for found in objects.values():
            yield from _differing(by_name, hashes, found)


def _object_key(member: str) -> str:
    """`pkg.libs/libx-1a2b3c4d.so.1` -> `pkg.libs/libx`, `pkg/a.cpython-311.so` -> `pkg/a`."""
    folder, base = posixpath.split(member)
    return posixpath.join(folder, original_name(base).partition(".")[0])


def _differing(
    wheels: dict[str, Wheel], hashes: dict[str, dict[str, str]], found: dict[str, list[str]]
) -> Iterator[Hit]:
    """Compare one object over the wheels, by the first of its sides that differs."""
    names = {wheel: _sonames(wheels[wheel], members) for wheel, members in found.items()}
    needs = {wheel: _needs(wheels[wheel], members) for wheel, members in found.items()}
    content = {
        wheel: tuple(sorted(hashes[wheel].get(member, "") for member in members))
        for wheel, members in found.items()
        if all(unhashed(posixpath.basename(member)) for member in members)
    }
    for what, said in (("is called", names), ("needs", needs), ("", content)):
        usual = majority(said.values())
        odd = [] if usual is None else [wheel for wheel in said if said[wheel] != usual]
        for wheel in odd:
            rest = f"{len(said) - len(odd)} other wheels of the release"
            yield Hit(
                message=f"{what} {_listed(said[wheel])}; in {rest}: {_listed(usual or ())}"
                if what
                else f"has other bytes than in {rest}",
                wheel=wheel,
                member=found[wheel][0],
                hint="build this wheel again, in the same image as the others",
            )
        if odd:
            return


def _sonames(wheel: Wheel, members: Iterable[str]) -> tuple[str, ...]:
    names = (wheel.elfs[member].soname or "" for member in members)
    return tuple(sorted({original_name(name) for name in names if name and "cpython" not in name}))


def _needs(wheel: Wheel, members: Iterable[str]) -> tuple[str, ...]:
    """Return what the objects need, but for what every platform gives and for Python itself."""
    needed = {name for member in members for name in wheel.elfs[member].needed}
    return tuple(
        sorted(
            original_name(name)
            for name in needed
            if not may_come_from_platform(name) and not name.startswith("libpython")
        )
    )


@set_rule("WF852", "missing-file", Severity.WARNING)
def missing_file(context: SetContext) -> Iterator[Hit]:
    """A wheel lacks a file that most others of the release have.

    ## What it does
    Compares, for each platform, the names of the files, with the suffixes of extension modules
    and the hashes of grafted libraries left aside. The metadata is not compared.

    ## Why is this bad?
    The import that works under one Python fails under another, and nobody sees it before a user
    does: an optional extension is skipped in silence when its build fails.

    ## Example
    `pkg/_speedups` is in the wheels for cp311 to cp313, and not in the one for cp310.

    ## Common causes
    - An optional extension (`optional=True`) that failed to build. **Solution**: make it
      required in the release build.
    - A header or library that the image for one Python lacks. **Solution**: look at its log.

    ## Fix safety
    Not fixed: the wheel has to be built again.
    """
    for wheels in _platforms(context):
        names = {str(wheel.name): _stable_names(wheel) for wheel in wheels}
        counts = Counter(name for each in names.values() for name in each)
        usual = [name for name, count in counts.items() if count > 1 and 2 * count > len(wheels)]
        for wheel, have in names.items():
            if lacking := [name for name in usual if name not in have]:
                yield Hit(
                    message=f"lacks `{lacking[0]}`, which {counts[lacking[0]]} of {len(wheels)} "
                    "wheels of the release have",
                    wheel=wheel,
                    entry=lacking[0],
                    notes=(f"and {_listed(lacking[1:])}",) if lacking[1:] else (),
                    hint="look for it in the log of this wheel's build",
                )


def _stable_names(wheel: Wheel) -> frozenset[str]:
    return frozenset(
        _stable_name(member.name.replace(wheel.data_dir, "*.data", 1))
        for member in wheel.members
        if not member.name.startswith(f"{wheel.dist_info}/")
    )


def _stable_name(member: str) -> str:
    folder, base = posixpath.split(member)
    return posixpath.join(folder, _SUFFIX.sub(".so", original_name(base)))


@set_rule("WF853", "odd-tag", Severity.WARNING)
def odd_tag(context: SetContext) -> Iterator[Hit]:
    """The platform tag of one wheel differs from those of the others for the same platform.

    ## What it does
    Compares the platform tags of wheels for the same processor and C library.

    ## Why is this bad?
    Users of one Python need a newer system than users of the others, or get a wheel under a tag
    that nobody has tried: mostly one wheel was built in another image.

    ## Example
    `manylinux_2_34_x86_64` for cp313, `manylinux_2_28_x86_64` for all others.

    ## Common causes
    - One job of the build matrix has another image. **Solution**: name the same in all.
    - One Python's build took a symbol of a newer glibc. **Solution**: see WF803.

    ## Fix safety
    Not fixed.
    """
    for wheels in _platforms(context):
        tags = {str(wheel.name): tuple(sorted(wheel.name.platforms)) for wheel in wheels}
        usual = majority(tags.values())
        for wheel, own in tags.items() if usual is not None else ():
            if own != usual:
                yield Hit(
                    message=f"tagged {'.'.join(own)}, most others {'.'.join(usual or ())}",
                    wheel=wheel,
                    entry=".".join(own),
                    hint="build it in the same image as the others",
                )


@set_rule("WF854", "odd-size", Severity.WARNING)
def odd_size(context: SetContext) -> Iterator[Hit]:
    """The size of one wheel is far from those of the others for the same platform.

    ## What it does
    Compares the sizes of at least three wheels for the same processor and C library with their
    median. Reports those of more than twice or less than half of it, by 100 kB or more.

    ## Why is this bad?
    One of them has something that it should not have, or lacks something.

    ## Example
    48 MB for cp312, 2 MB for all others.

    ## Common causes
    - One build was made with debug information. **Solution**: see WF701.
    - A library was grafted into one wheel only. **Solution**: compare by
      `wheelfix check --against OTHER.whl`.

    ## Fix safety
    Not fixed.
    """
    for wheels in _platforms(context):
        if len(wheels) < 3:
            continue
        usual = _median(wheel.zip_size for wheel in wheels)
        for wheel in wheels:
            size = wheel.zip_size
            if not usual / 2 <= size <= 2 * usual and abs(size - usual) >= NOTABLE:
                yield Hit(
                    message=f"weighs {in_units(size)}, the wheels of this platform "
                    f"{in_units(usual)} (median)",
                    wheel=str(wheel.name),
                    hint="compare it with one of the others: `wheelfix check --against`",
                )


def _median(sizes: Iterable[int]) -> float:
    return median(sizes)


@set_rule("WF855", "odd-metadata", Severity.WARNING)
def odd_metadata(context: SetContext) -> Iterator[Hit]:
    """The requirements of one wheel differ from those of the others of the release.

    ## What it does
    Compares Requires-Dist, Requires-Python and Provides-Extra over all wheels of a version.

    ## Why is this bad?
    Resolvers that lock for several platforms (uv, Poetry, PDM) read the metadata of one wheel and
    take it for that of all: the others are installed without what they need.

    ## Example
    `Requires-Dist: numpy>=2` only in the wheels for aarch64.

    ## Common causes
    - `setup.py` computes requirements from the machine it runs on. **Solution**: environment
      markers: `numpy>=2; platform_machine == "aarch64"`.

    ## Fix safety
    Not fixed.
    """
    for wheels in context.releases:
        said = {str(wheel.name): _requirements(wheel) for wheel in wheels}
        usual = majority(said.values())
        for wheel, own in said.items() if usual is not None else ():
            if own != usual:
                surplus = [line for line in own if line not in (usual or ())]
                missing = [line for line in usual or () if line not in own]
                yield Hit(
                    message="requires something else than most wheels of the release",
                    wheel=wheel,
                    entry=(surplus or missing)[0],
                    notes=(
                        *([f"only here: {_listed(surplus)}"] if surplus else []),
                        *([f"not here: {_listed(missing)}"] if missing else []),
                    ),
                    hint="say it with environment markers, alike in all wheels",
                )


def _requirements(wheel: Wheel) -> tuple[str, ...]:
    wanted = {"requires-dist", "requires-python", "provides-extra"}
    fields = wheel.metadata.fields
    return tuple(sorted({f"{key.title()}: {value}" for key, value in fields if key in wanted}))


# --- Comparing ------------------------------------------------------------------------------------


def _platforms(context: SetContext) -> Iterator[tuple[Wheel, ...]]:
    """Yield the wheels of each release that are for the same processor and C library."""
    for wheels in context.releases:
        groups: dict[frozenset[tuple[Family, str]], list[Wheel]] = {}
        for wheel in wheels:
            tags = map(parse_platform_tag, wheel.name.platforms)
            platform = {(tag.family, tag.arch) for tag in tags if tag.is_linux}
            if platform:
                groups.setdefault(frozenset(platform), []).append(wheel)
        for group in groups.values():
            alone = {str(wheel.name): wheel for wheel in group}  # a wheel may be given twice
            if len(alone) > 1:
                yield tuple(alone.values())


Value = TypeVar("Value")


def majority(values: Iterable[Value]) -> Value | None:
    """Return the value that more than half of all, and at least two, have in common."""
    every = list(values)
    for value, count in Counter(every).most_common(1):
        if count > 1 and 2 * count > len(every):
            return value
    return None


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return (", ".join(f"`{name}`" for name in names[:most]) or "nothing") + more


SET_RULES = (built_differently, missing_file, odd_tag, odd_size, odd_metadata)
