"""Whether the files of the wheel are where, and as, an installation needs them."""

import posixpath
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from stat import S_ISREG

from wheelfix.elf.object_file_names import stem_of
from wheelfix.grouping import flatten, grouped
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Fix, Hit, Severity, other_members, removal
from wheelfix.rules.object_platforms import runs
from wheelfix.rules.rule import rule
from wheelfix.text import count, in_units
from wheelfix.wheel.edits import SetMode
from wheelfix.wheel.model import PROGRAM_MODE, Wheel


@rule("WF508", "elf-in-purelib", Severity.WARNING)
def elf_in_purelib(context: Context) -> Iterator[Hit]:
    """ELF object in the `purelib` directory.

    ## What it does
    Reports ELF objects in `*.data/purelib`. (For the root of the wheel, see WF503.)

    ## Why is this bad?
    Where platlib and purelib differ (Fedora's `lib64`), the object is separated from the rest of
    its package, in a directory that architectures may share.

    ## Example
    `demo-1.0.data/purelib/demo/_core.cpython-311-x86_64-linux-gnu.so`

    ## Common causes
    - A build script that uses `purelib` explicitly. **Solution**: install to `platlib`, or let the
      build backend decide.

    ## Fix safety
    Not fixed: only the build knows which files belong together.
    """
    wheel = context.wheel
    inside = [member for member in wheel.elfs if member.startswith(f"{wheel.data_dir}/purelib/")]
    if inside:
        yield Hit(
            message=f"{count(len(inside), 'ELF object')} in the `purelib` directory",
            member=inside[0],
            notes=other_members(inside),
            hint="install to platlib",
        )


@rule("WF512", "second-metadata", Severity.WARNING)
def second_metadata(context: Context) -> Iterator[Hit]:
    """Wheel installs the metadata of a second distribution.

    ## What it does
    Reports `*.dist-info` and `*.egg-info` other than the wheel's own that are installed into
    site-packages. (With two `*.dist-info` in the root, the file is not a valid wheel.)

    ## Why is this bad?
    Every tool then sees a second distribution as installed: `pip install` considers its requirement
    satisfied, and `pip uninstall` removes files that are not its own.

    ## Example
    `demo.egg-info/PKG-INFO` in the root.

    ## Common causes
    - A reused build directory. **Solution**: build from a clean tree, by `python -m build` through
      an sdist.
    - A vendored distribution copied with its metadata. **Solution**: put it into a subdirectory of
      the package (`demo/_vendor/`), where its metadata has no effect.

    ## Fix safety
    Unsafe: the directory is removed.
    """
    wheel = context.wheel
    for top, members in context.top_levels.items():
        if top.endswith((".dist-info", ".egg-info")) and top != wheel.dist_info:
            yield Hit(
                message=f"installs the metadata of another distribution, `{top}`",
                member=members[0],
                entry=top,
                hint="build from a clean tree",
                fix=removal(members),
            )


@rule("WF513", "program-without-run-bit", Severity.WARNING)
def program_without_run_bit(context: Context) -> Iterator[Hit]:
    """Program is not executable once installed.

    ## What it does
    Reports ELF programs without the executable bit in the zip, or whose mode there has the bit but
    not the file type S_IFREG, and all such files in `*.data/scripts`; the latter is an error.

    ## Why is this bad?
    pip keeps the mode of a regular file, and does not add the bit, not even to scripts (uv does):
    "Permission denied" when a user or the package starts the program.

    ## Example
    `demo/bin/helper` with mode 0644.

    ## Common causes
    - The wheel was packed by a script with `zipfile.writestr`. **Solution**: set
      `external_attr`, or use `wheel pack`.
    - The file came from an archive without modes. **Solution**: `chmod +x` in the build.

    ## Fix safety
    Safe: the file gets mode 0755 in the zip. Its bytes stay.
    """
    wheel = context.wheel
    scripts = wheel.dist_info.scripts
    for member in wheel.members:
        is_script = member.name.startswith(scripts)
        if not is_script and member.name not in wheel.elfs:
            continue
        runs_once_installed = S_ISREG(member.mode) and member.mode & 0o111
        if not runs_once_installed and (is_script or _is_program(wheel, member.name)):
            edit = SetMode(member=member.name, old=member.mode, new=member.mode | PROGRAM_MODE)
            has_bit = bool(member.mode & 0o111)
            lacks = (
                "the file type S_IFREG, without which pip drops the bit"
                if has_bit
                else "the executable bit"
            )
            yield Hit(
                message=f"lacks {lacks} (mode {member.mode & 0o7777:04o})",
                member=member.name,
                hint="`chmod +x` it in the build",
                severity=Severity.ERROR if is_script else None,
                fix=Fix(title="set the executable bit", edits=(edit,)),
            )


def _is_program(wheel: Wheel, member: str) -> bool:
    elf = wheel.elfs.get(member)
    return elf is not None and elf.is_executable and runs(elf) and ".so" not in member


@rule("WF515", "flattened-links", Severity.WARNING)
def flattened_links(context: Context) -> Iterator[Hit]:
    """Symbolic links of a library became copies.

    ## What it does
    Finds shared objects with the same content, in one directory, under names such as `libx.so`,
    `libx.so.1` and `libx.so.1.2`. It is for information unless objects of the wheel need it by more
    than one of the names.

    ## Why is this bad?
    A wheel cannot hold symbolic links, so each became a copy. The wheel is larger by the copies;
    and the loader treats copies as different libraries: if one is opened by `libx.so` after another
    object has loaded `libx.so.1`, its global data exists twice (nixl 1567: initialised twice).

    ## Example
    `pkg/libx.so`, `pkg/libx.so.1` and `pkg/libx.so.1.2.3`, 12 MB each.

    ## Common causes
    - `cmake --install` or `make install` into the package directory. **Solution**: install only the
      file that is named like the SONAME (`NAMELINK_SKIP`, and no `VERSION` property).
    - A prebuilt package unpacked there. **Solution**: delete the links before the build.

    ## Fix safety
    Unsafe: copies that no object needs and no Python source opens by name are removed, except the
    one named like the SONAME; but other code may open them.
    """
    wheel = context.wheel
    for names in same_bytes(wheel, wheel.elfs):
        for members in _link_chains(names):
            yield _flattened_hit(context, members)


def same_bytes(wheel: Wheel, among: Container[str]) -> list[list[str]]:
    """Return the sets of names of identical files, of those that are `among`."""
    hashes = {row.name: row.hash for row in wheel.record if row.hash and row.name in among}
    number = Counter(hashes.values())
    hashes = {name: value for name, value in hashes.items() if number[value] > 1}
    hashed = (member for member in wheel.members if member.size and member.name in hashes)
    groups = grouped(hashed, lambda member: (hashes[member.name], member.size))
    return [[member.name for member in same] for same in groups.values() if len(same) > 1]


def _link_chains(names: Sequence[str]) -> Iterator[list[str]]:
    libraries = (name for name in names if ".so" in name)
    chains = grouped(libraries, stem_of).values()
    return (sorted(chain, key=len) for chain in chains if len(chain) > 1)


def _flattened_hit(context: Context, members: Sequence[str]) -> Hit:
    wheel = context.wheel
    soname = wheel.elfs[members[0]].soname
    kept = next((m for m in members if posixpath.basename(m) == soname), members[-1])
    opened = {posixpath.basename(opening.name) for opening in flatten(wheel.openings.values())}
    used = opened | context.dependents.keys()
    needed = {posixpath.basename(m) for m in members} & context.dependents.keys()
    going = [m for m in members if m != kept and posixpath.basename(m) not in used]
    size = next(member.size for member in wheel.members if member.name == kept)
    return Hit(
        message=f"is in the wheel {count(len(members), 'time')}, with the same bytes "
        f"({in_units(size)})",
        member=kept,
        notes=(f"as {', '.join(f'`{posixpath.basename(m)}`' for m in members)}",),
        hint="leave links out of the wheel, and keep the file named like the SONAME",
        fix=removal(going) if going else None,
        severity=None if len(needed) > 1 else Severity.NOTE,
    )
