"""The size of the wheel, and what could be left out."""

from collections.abc import Callable, Iterator

from wheelfix.elf.model import Elf
from wheelfix.elf.object_file_names import stem_of
from wheelfix.rules.bundled_not_found import COPIES
from wheelfix.rules.context import Context
from wheelfix.rules.files_as_installed import same_bytes
from wheelfix.rules.findings import Hit, Severity
from wheelfix.rules.pypi_checks import PYPI_LIMIT, IndexAnswer
from wheelfix.rules.rule import rule
from wheelfix.settings import Index
from wheelfix.text import count, in_units, join_some
from wheelfix.wheel.model import Wheel

NOTABLE = 100_000
"""Bytes of the zip below which a size is not reported."""
LARGE = 10_000_000
"""Bytes of a wheel from which its largest files are listed."""


@rule("WF701", "debug-sections", Severity.NOTE)
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
    - Python's build flags contain `-g`, and setuptools uses them. **Solution**: link with `-Wl,-S`,
      or `wheelfix repair --strip=debug`.
    - CMake's `RelWithDebInfo`. **Solution**: `Release`; or keep the debug information outside of
      the wheel: `wheelfix repair --strip=debug --debug-symbols DIR`.

    ## Fix safety
    Not fixed unless requested by `strip`. Its level `debug` keeps the names in native backtraces;
    `all`, which is auditwheel's `--strip`, does not.
    """
    yield from _strippable(context.wheel, "debug sections", "=debug", lambda elf: elf.debug_size)


@rule("WF702", "symbol-tables", Severity.NOTE)
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
    yield from _strippable(context.wheel, "symbol tables", "", lambda elf: elf.symtab_size)


def _strippable(
    wheel: Wheel, what: str, level: str, size_of: Callable[[Elf], int]
) -> Iterator[Hit]:
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
        message=f"{what} in {count(len(sizes), 'object')}: {in_units(sum(sizes.values()))}, "
        f"about {in_units(saved)} of the zip",
        member=largest[0],
        notes=tuple(f"`{member}`: {in_units(sizes[member])}" for member in largest[:5]),
        hint=f"`wheelfix repair --strip{level}` removes them",
    )


@rule("WF703", "duplicate-files", Severity.NOTE)
def duplicate_files(context: Context) -> Iterator[Hit]:
    """Duplicate files in the wheel.

    ## What it does
    Compares hash and size of all files by RECORD. One finding for all of them; copies of symbolic
    links are left to WF515, and those that a repair made for another install scheme are left out.
    Below 100 kB, nothing is reported.

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
    groups = [  # one name for each set of copied links
        list({stem_of(name): name for name in same if f"{COPIES}/" not in name}.values())
        for same in same_bytes(wheel, wheel.sizes)
    ]
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
            f"{count(len(names), 'time')} {in_units(packed[names[0]])}: {join_some(names, 4)}"
            for names in groups[:5]
        ),
        hint="keep one copy of each",
    )


@rule("WF704", "largest-files", Severity.NOTE)
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
    Compares the size of the wheel file with `max-size`, or without it with the usual limit of the
    index: 100 MiB for `index = "pypi"`. That is a warning: whether PyPI has raised the limit for
    the project is not known here. Without either setting, it reports nothing.

    ## Why is this bad?
    PyPI refuses files above 100 MiB, unless the limit is raised for the project, perhaps in the
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
    by_index = not limit and context.settings.index is Index.PYPI
    if by_index:
        limit = PYPI_LIMIT
    if limit and wheel.zip_size > limit:
        more, allowed = in_units(wheel.zip_size - limit), in_units(limit)
        who = "PyPI usually" if by_index else "`max-size`"
        yield Hit(
            message=f"has {in_units(wheel.zip_size)}, {more} more than {who} allows ({allowed})",
            severity=Severity.WARNING if by_index else None,
            notes=(
                *([IndexAnswer.SIZE.note(f"'{wheel.name.distribution}'")] if by_index else []),
                *_largest(wheel),
            ),
            hint="make it smaller, or set `max-size` to the limit that PyPI granted the project"
            if by_index
            else "check what is new in it, or raise `max-size`",
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
