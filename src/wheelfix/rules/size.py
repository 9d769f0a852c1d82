"""The size of the wheel, and what could be left out."""

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import product
from pathlib import PurePath

from packaging.utils import canonicalize_name

from wheelfix.elf.model import Elf
from wheelfix.rules.context import Context, SetContext
from wheelfix.rules.files import same_bytes
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.rule import rule, set_rule
from wheelfix.text import counted, in_units, join_some
from wheelfix.wheel.grafted_name import original_name
from wheelfix.wheel.model import Wheel, WheelName

NOTABLE = 100_000
"""Bytes of the zip below which a size is not reported."""
LARGE = 10_000_000
"""Bytes of a wheel from which its largest files are listed."""


@rule("WF701", "debug-sections", Severity.INFO)
def debug_sections(context: Context) -> Iterator[Hit]:
    """Objects contain debug sections.

    ## What it does
    Adds up the debug sections (`.debug_*`, `.zdebug_*`, `.stab*`) of all objects: their size in the
    files, and an estimate for the zip by the compression ratio of each file. Sizes below 100 kB are
    not reported.

    ## Why is this bad?
    Debug information is often larger than the code. It makes every download larger, and few users
    of the wheel have the sources that it refers to.

    ## Example
    `pkg/_core.cpython-311-x86_64-linux-gnu.so`: 45 MB, 38 MB of them in debug sections.

    ## Common causes
    - Python's build flags contain `-g`, and setuptools uses them. **Solution**: link with `-Wl,-s`,
      or `wheelfix repair --strip`.
    - CMake's `RelWithDebInfo`. **Solution**: `Release`; or keep the debug information outside of
      the wheel: `objcopy --only-keep-debug`.

    ## Fix safety
    Not fixed unless requested by `--strip`, which also removes the names in native backtraces.
    """
    yield from _strippable(context.wheel, "debug sections", lambda elf: elf.debug_size)


@rule("WF702", "symbol-tables", Severity.INFO)
def symbol_tables(context: Context) -> Iterator[Hit]:
    """Objects contain symbol tables (.symtab) that loading does not need.

    ## What it does
    Adds up `.symtab` and its strings over all objects: their size in the files, and an estimate for
    the zip by the compression ratio of each file. Sizes below 100 kB are not reported.

    ## Why is this bad?
    Nothing is wrong: without them, native backtraces and profiles show addresses instead of the
    names of internal functions. But they make every download larger.

    ## Example
    A library of 30 MB with 6 MB of symbols.

    ## Common causes
    - The linker writes them by default. **Solution**: `-Wl,-s`, or `wheelfix repair --strip`.

    ## Fix safety
    Not fixed unless requested by `--strip`.
    """
    yield from _strippable(context.wheel, "symbol tables", lambda elf: elf.symtab_size)


def _strippable(wheel: Wheel, what: str, size_of: Callable[[Elf], int]) -> Iterator[Hit]:
    sizes = {member: size for member, elf in wheel.elfs.items() if (size := size_of(elf))}
    if not sizes:
        return
    packed = {
        member.name: sizes[member.name] * member.compressed_size / member.size
        for member in wheel.members
        if member.name in sizes and member.size
    }
    saved = sum(packed.values())
    if saved < NOTABLE:
        return
    largest = sorted(sizes, key=lambda member: -sizes[member])
    yield Hit(
        message=f"{what} in {counted(len(sizes), 'object')}: {in_units(sum(sizes.values()))}, "
        f"about {in_units(saved)} of the zip",
        member=largest[0],
        notes=tuple(f"`{member}`: {in_units(sizes[member])}" for member in largest[:5]),
        hint="`wheelfix repair --strip` removes them",
    )


@rule("WF703", "duplicate-files", Severity.INFO)
def duplicate_files(context: Context) -> Iterator[Hit]:
    """Duplicate files in the wheel.

    ## What it does
    Compares hash and size of all files by RECORD. One finding for all of them; copies of symbolic
    links are left to WF515. Below 100 kB, nothing is reported.

    ## Why is this bad?
    A zip compresses each file separately, so every copy takes space, on disk as well; and a library
    that exists twice is loaded twice, each with its own data.

    ## Example
    `pkg/libx.so` and `pkg.libs/libx-1a2b3c4d.so`

    ## Common causes
    - Two subpackages with the same data. **Solution**: keep it in one of them, and read it with
      `importlib.resources`.
    - A library bundled by the package and grafted again. **Solution**: let the loader find the
      package's own copy: `$ORIGIN` in the search path before the repair.

    ## Fix safety
    Not fixed: only the package knows which name it needs.
    """
    wheel = context.wheel
    groups = [_unlinked(names) for names in same_bytes(wheel)]
    groups = [names for names in groups if len(names) > 1]
    packed = {member.name: member.compressed_size for member in wheel.members} if groups else {}
    wasted = {names[0]: sum(packed[name] for name in names[1:]) for names in groups}
    groups.sort(key=lambda names: -wasted[names[0]])
    if sum(wasted.values()) < NOTABLE:
        return
    yield Hit(
        message=f"duplicate files take {in_units(sum(wasted.values()))} of the zip",
        member=groups[0][0],
        notes=tuple(
            f"{len(names)} times {in_units(packed[names[0]])}: {join_some(names, 4)}"
            for names in groups[:5]
        ),
        hint="keep one copy of each",
    )


def _unlinked(names: list[str]) -> list[str]:
    """Return one name for each set of copied links."""
    return list({name.partition(".so")[0]: name for name in names}.values())


@rule("WF704", "largest-files", Severity.INFO)
def largest_files(context: Context) -> Iterator[Hit]:
    """Largest files of a large wheel.

    ## What it does
    Lists the five files that take most of the zip, for wheels of 10 MB and more.

    ## Why is this bad?
    Nothing is wrong; to make the wheel smaller, begin with these files.

    ## Example
    `pkg.libs/libopenblas-1a2b3c4d.so`: 9.8 MB, 54 % of the zip.

    ## Common causes
    - Libraries for features that few users need. **Solution**: a separate wheel, as an extra.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    if wheel.zip_size < LARGE:
        return
    yield Hit(
        message=f"a wheel of {in_units(wheel.zip_size)}",
        notes=_largest(wheel),
        hint="nothing to do",
    )


def _largest(wheel: Wheel) -> tuple[str, ...]:
    """Return notes on the largest files."""
    sizes = {member.name: member.compressed_size for member in wheel.members}
    largest = sorted(sizes.items(), key=lambda item: -item[1])[:5]
    return tuple(f"`{n}`: {in_units(s)}, {s / wheel.zip_size:.0%} of the zip" for n, s in largest)


@rule("WF705", "wheel-over-budget", Severity.ERROR)
def wheel_over_budget(context: Context) -> Iterator[Hit]:
    """Wheel is larger than `max-size`.

    ## What it does
    Compares the size of the wheel file with `max-size`. Without that setting, it reports nothing.

    ## Why is this bad?
    PyPI refuses files above 100 MB, unless the limit is raised for the project, perhaps in the
    middle of a release; and a wheel that doubled in size often contains a library by accident.

    ## Example
    `max-size = "50MB"`, and a wheel of 61 MB.

    ## Common causes
    - A library was grafted that another wheel provides. **Solution**: `--exclude 'libx.so*'`.
    - Debug information. **Solution**: `wheelfix repair --strip`; see WF701.

    ## Fix safety
    Not fixed: the wheel is not published.
    """
    wheel, limit = context.wheel, context.settings.max_size
    if limit and wheel.zip_size > limit:
        yield Hit(
            message=f"has {in_units(wheel.zip_size)}, {in_units(wheel.zip_size - limit)} more "
            f"than `max-size` allows ({in_units(limit)})",
            notes=_largest(wheel),
            hint="check what is new in it, or raise `max-size`",
        )


@rule("WF706", "file-over-budget", Severity.ERROR)
def file_over_budget(context: Context) -> Iterator[Hit]:
    """File is larger than `max-file-size`.

    ## What it does
    Compares the installed size of each file with `max-file-size`. Without that setting, it reports
    nothing.

    ## Why is this bad?
    An unusually large file is often there by accident.

    ## Example
    `max-file-size = "20MB"`, and `pkg/_core.abi3.so` of 48 MB.

    ## Common causes
    - Debug information. **Solution**: `wheelfix repair --strip`; see WF701.
    - Test data, or a model. **Solution**: download it on demand.

    ## Fix safety
    Not fixed: the wheel is not published.
    """
    limit = context.settings.max_file_size
    for member in context.wheel.members if limit else ():
        if member.size > limit:
            yield Hit(
                message=f"has {in_units(member.size)}, {in_units(member.size - limit)} more than "
                f"`max-file-size` allows ({in_units(limit)})",
                member=member.name,
                hint="leave it out, or raise `max-file-size`",
            )


@rule("WF707", "grown", Severity.WARNING)
def grown(context: Context) -> Iterator[Hit]:
    """Wheel has grown by more than `max-growth`.

    ## What it does
    Compares the wheel with the one of `against` for the same Python and platform, or with the only
    one given for its distribution. Reports growth above `max-growth` (10 %, and at least 100 kB),
    with the files that have grown or are new; hashes in the names of grafted libraries are ignored.

    ## Why is this bad?
    Sizes grow by accident: debug information of another compiler, a newly grafted library, test
    data. Later the reason is hard to find (natcap/invest 2483: 50 MB instead of 2 MB).

    ## Example
    `--against demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl` for version 1.1.

    ## Common causes
    - A library is grafted that was excluded before. **Solution**: check the pattern; see WF802.
    - The new version contains more. **Solution**: raise `max-growth` for it.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    others = {other.name: other for other in context.against}
    counterpart = _counterpart(wheel.name, others)
    old = others[counterpart] if counterpart else None
    if old is None or not old.zip_size:
        return
    more = wheel.zip_size - old.zip_size
    if more < NOTABLE or more * 100 <= old.zip_size * context.settings.max_growth:
        return
    before, now = _by_stable_name(old), _by_stable_name(wheel)
    growth = {name: size - before.get(name, 0) for name, size in now.items()}
    worst = sorted(growth, key=lambda name: -growth[name])[:5]
    yield Hit(
        message=f"has {in_units(wheel.zip_size)}, {more / old.zip_size:.0%} more than "
        f"{old.name} ({in_units(old.zip_size)})",
        notes=tuple(
            f"`{name}`: "
            + (f"+{in_units(growth[name])}" if name in before else "new, ")
            + ("" if name in before else in_units(now[name]))
            for name in worst
            if growth[name] > 0
        ),
        hint="check whether the growth of these files is intended, or raise `max-growth`",
    )


@set_rule("WF708", "unmatched-against", Severity.WARNING)
def unmatched_against(context: SetContext) -> Iterator[Hit]:
    """Wheel of `--against` was compared with none of the wheels.

    ## What it does
    Reports wheels in `against` that no wheel of the run has as its counterpart: the one for the
    same distribution, Python and platform.

    ## Why is this bad?
    Nothing was compared with it, and growth goes unnoticed.

    ## Example
    `--against demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl` and
    `demo-1.1-cp312-cp312-manylinux_2_28_x86_64.whl`, with another wheel in `against` for `cp312`.

    ## Common causes
    - The wheel of another platform, or of another distribution. **Solution**: name that of the
      same platform.

    ## Fix safety
    Not fixed.
    """
    if not context.wheels:
        return
    against = tuple(WheelName.parse(PurePath(path).name) for path in context.settings.against)
    compared = {_counterpart(wheel.name, against) for wheel in context.wheels}
    for path, name in zip(context.settings.against, against, strict=True):
        if name not in compared:
            yield Hit(
                message=f"`--against {path}` has no counterpart among the wheels: nothing was "
                "compared with it",
                entry=path,
                hint="name the earlier wheel for the same distribution, Python and platform",
            )


def _counterpart(wheel: WheelName, against: Iterable[WheelName]) -> WheelName | None:
    """Return the name in `against` for the same distribution, Python and platform, or the only one.

    The only one is that of the same distribution.
    """
    own = canonicalize_name(wheel.distribution)
    same = [other for other in against if canonicalize_name(other.distribution) == own]
    tags = set(product(wheel.pythons, wheel.platforms))
    tagged = [o for o in same if not tags.isdisjoint(product(o.pythons, o.platforms))]
    return tagged[0] if tagged else same[0] if len(same) == 1 else None


def _by_stable_name(wheel: Wheel) -> Mapping[str, int]:
    """Return the compressed sizes, by names without version and hashes."""
    sizes: dict[str, int] = {}
    tops = {wheel.dist_info: "*.dist-info", wheel.data_dir: "*.data"}
    for member in wheel.members:
        top, slash, rest = member.name.partition("/")
        folder, base = posixpath.split(tops.get(top, top) + slash + rest)
        name = posixpath.join(folder, original_name(base))
        sizes[name] = sizes.get(name, 0) + member.compressed_size
    return sizes
