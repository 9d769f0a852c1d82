"""Whether the files of the wheel are for the platform of its tags, and belong into a wheel."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wheelfix.elf.model import Elf, ElfType, Machine
from wheelfix.loader.install_schemes import Key, split, split_all
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Fix, Hit, Safety, Severity
from wheelfix.rules.module_names import extension_modules
from wheelfix.rules.rule import rule
from wheelfix.wheel.edits import RemoveMember, SetMode
from wheelfix.wheel.model import Member, Wheel, normalized
from wheelfix.wheel.platform_tags import ARCHITECTURES, parse_platform_tag, promised_libcs

_KNOWN = frozenset(Machine)
_RUNNABLE = 0o100755
"""`st_mode` of a program: installers that set the bits themselves set these."""


@rule("WF508", "elf-in-purelib", Severity.WARNING)
def elf_in_purelib(context: Context) -> Iterator[Hit]:
    """An ELF object stands in the wheel's `purelib` folder.

    ## What it does
    Reports ELF objects in `*.data/purelib`. (For the root of the wheel see WF503.)

    ## Why is this bad?
    Where platlib and purelib differ (Fedora's `lib64`), the object goes to the folder for pure
    Python, which machines may share, and away from the rest of its package in platlib.

    ## Example
    `demo-1.0.data/purelib/demo/_core.cpython-311-x86_64-linux-gnu.so`

    ## Common causes
    - A build script that names `purelib` itself. **Solution**: install to `platlib`, or let the
      build backend decide.

    ## Fix safety
    Not fixed: which files belong together is for the build to say.
    """
    wheel = context.wheel
    inside = [member for member in wheel.elfs if member.startswith(f"{wheel.data_dir}/purelib/")]
    if inside:
        yield Hit(
            message=f"{_count(inside, 'ELF object')} in the folder for pure Python",
            member=inside[0],
            notes=_others(inside),
            hint="install to platlib",
        )


@rule("WF509", "elf-for-any-platform", Severity.WARNING)
def elf_for_any_platform(context: Context) -> Iterator[Hit]:
    """The wheel holds ELF objects, and its platform tag is `any`.

    ## What it does
    Reports wheels whose only platform tag is `any`, with shared objects or programs in them.
    An error if one of them is an extension module and all are for the same machine.

    ## Why is this bad?
    `any` includes Windows, macOS and every other processor. Installers take the wheel there, and
    the import fails: "invalid ELF header", "cannot open shared object file".

    ## Example
    `demo-1.0-py3-none-any.whl` with `demo/libdemo.so`.

    ## Common causes
    - A library listed as package data. **Solution**: have the build backend make a platform
      wheel: `has_ext_modules` for setuptools, `pure-python = false` or `infer_tag` elsewhere.
    - A package that brings objects for many machines and chooses at run time. **Solution**:
      ignore the rule.

    ## Fix safety
    Not fixed: the tag is the build's to give; `wheel tags --platform-tag` changes it.
    """
    wheel = context.wheel
    found = {m: elf for m, elf in wheel.elfs.items() if _runs(elf)}
    if not found or set(wheel.name.platforms) != {"any"}:
        return
    machines = {elf.abi for elf in found.values()}
    modules = [each.member for each in extension_modules(wheel) if each.elf.module_hooks]
    yield Hit(
        message=f"tagged `any`, with {_count(found, 'ELF object')} for "
        f"{_count(machines, 'kind')} of machine",
        member=(modules or list(found))[0],
        notes=_others(list(found)),
        hint="build a platform wheel",
        severity=Severity.ERROR if modules and len(machines) == 1 else None,
    )


@rule("WF510", "wrong-machine", Severity.ERROR)
def wrong_machine(context: Context) -> Iterator[Hit]:
    """An ELF object is for another machine than the platform tag says.

    ## What it does
    Compares class, byte order and `e_machine` of each shared object and program with the
    architecture in the platform tags. An error for extension modules, for libraries that objects
    of the right machine need, and if no object is for the machine of the tag; otherwise the
    package may choose at run time, and it is only told.

    ## Why is this bad?
    The loader passes it over or refuses it: "wrong ELF class: ELFCLASS32", "cannot open shared
    object file".

    ## Example
    A wheel tagged `manylinux_2_17_aarch64` with an x86-64 `_core.cpython-311.so`.

    ## Common causes
    - A cross build that took the build machine's compiler for a part. **Solution**: set `CC` and
      its like, and look at the build log for the object.
    - A prebuilt library for the wrong machine. **Solution**: fetch it by the target's name.
    - A build folder shared by several architectures. **Solution**: one folder for each.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    tags = map(parse_platform_tag, wheel.name.platforms)
    known = dict.fromkeys(tag.arch for tag in tags if tag.is_linux and tag.arch in ARCHITECTURES)
    wanted = {ARCHITECTURES[arch] for arch in known}
    if wanted:
        wrong = [m for m, e in wheel.elfs.items() if _runs(e) and e.abi not in wanted]
        arches = "/".join(known)
        said = {member: _describe(wheel.elfs[member]) for member in wrong}
        yield from _misplaced(wheel, said, f"the tag says {arches}", "build it for that machine")


@rule("WF511", "wrong-libc", Severity.ERROR)
def wrong_libc(context: Context) -> Iterator[Hit]:
    """An ELF object is for another C library than the platform tag says.

    ## What it does
    Compares the C library that each object needs (`libc.so.6`, `libc.musl-*.so.1`, the program
    interpreter) with the tags: manylinux is glibc (PEP 600), musllinux is musl (PEP 656). An
    error for extension modules, for libraries that objects of the right kind need, and if no
    object is for the C library of the tag; otherwise it is only told.

    ## Why is this bad?
    The C library is not there: "libc.musl-x86_64.so.1: cannot open shared object file", or for
    programs "no such file or directory".

    ## Example
    A wheel tagged `manylinux_2_17_x86_64`, built on Alpine Linux.

    ## Common causes
    - A prebuilt library or program for the other one. **Solution**: build it in the container,
      or link programs statically.
    - The wheel was renamed. **Solution**: build one wheel for each, in its own container.

    ## Fix safety
    Not fixed.
    """
    wheel = context.wheel
    kinds = promised_libcs(wheel.name.platforms)
    if kinds:
        wrong = {
            member: f"for {elf.libc}"
            for member, elf in wheel.elfs.items()
            if elf.libc is not None and {elf.libc} != kinds
        }
        said = " and ".join(sorted(kinds))
        yield from _misplaced(wheel, wrong, f"the tag says {said}", "build it for that C library")


def _runs(elf: Elf) -> bool:
    """Whether the object is something to load or start; graphics processors have ELF, too."""
    return elf.machine in _KNOWN and (elf.dynamic or elf.type == ElfType.EXEC)


def _describe(elf: Elf) -> str:
    names = [name for name, machine in ARCHITECTURES.items() if machine == elf.abi]
    order = "little" if elf.little_endian else "big"
    other = f"{elf.bits} bits, {order} endian, machine {elf.machine}"
    return f"for {names[-1] if names else other}"


def _misplaced(wheel: Wheel, wrong: Mapping[str, str], tag: str, hint: str) -> Iterator[Hit]:
    """Report objects that do not fit the tag: those that matter each, the others together."""
    fitting = {m: elf for m, elf in wheel.elfs.items() if _runs(elf) and m not in wrong}
    served = {_import_path(member) for member in fitting}
    needed = {name for elf in fitting.values() for name in elf.needed}
    needed -= {posixpath.basename(member) for member in fitting}
    modules = {each.member for each in extension_modules(wheel) if each.elf.module_hooks}
    chosen: list[str] = []
    for member, what in wrong.items():
        unserved = member in modules and _import_path(member) not in served
        if fitting and not unserved and posixpath.basename(member) not in needed:
            chosen.append(member)
        else:
            yield Hit(message=f"is {what}, {tag}", member=member, hint=hint)
    if chosen:
        yield Hit(
            message=f"is {wrong[chosen[0]]}, {tag}: fine if the package chooses at run time",
            member=chosen[0],
            notes=_others(chosen),
            severity=Severity.INFO,
        )


def _import_path(member: str) -> str:
    folder, _, name = member.rpartition("/")
    return f"{folder}/{name.partition('.')[0]}"


@rule("WF512", "second-metadata", Severity.WARNING)
def second_metadata(context: Context) -> Iterator[Hit]:
    """The wheel installs the metadata of a second distribution.

    ## What it does
    Reports `*.dist-info` and `*.egg-info` besides the wheel's own, where they land in
    site-packages. (Two `*.dist-info` in the root are no wheel: nothing opens that.)

    ## Why is this bad?
    Every tool then sees a distribution installed that nobody asked for, with a version that may
    be false: `pip list` shows it, `pip install` calls its requirement satisfied, `pip uninstall`
    of it takes files away that are not its own.

    ## Example
    `demo.egg-info/PKG-INFO` in the root.

    ## Common causes
    - A build folder that was used before. **Solution**: build from a clean tree, by
      `python -m build` through an sdist.
    - A vendored distribution copied with its metadata. **Solution**: put it into a folder of the
      package (`demo/_vendor/`), where it is none.

    ## Fix safety
    Unsafe: the folder is dropped.
    """
    wheel = context.wheel
    found: dict[str, list[str]] = {}
    for member in wheel.members:
        place = split(member.name, wheel) if "-info/" in member.name else None
        if place and place[0] in {Key.PURELIB, Key.PLATLIB}:
            top = place[1].partition("/")[0]
            if top.endswith((".dist-info", ".egg-info")) and top != wheel.dist_info:
                found.setdefault(top, []).append(member.name)
    for top, members in found.items():
        yield Hit(
            message=f"installs the metadata of another distribution, `{top}`",
            member=members[0],
            entry=top,
            hint="build from a clean tree",
            fix=_drop(members),
        )


@rule("WF513", "program-without-run-bit", Severity.WARNING)
def program_without_run_bit(context: Context) -> Iterator[Hit]:
    """A program is not executable once installed.

    ## What it does
    Reports ELF programs without any run bit in the zip, and every such file in
    `*.data/scripts`: that is an error.

    ## Why is this bad?
    pip keeps the bit of a file, and adds none, not even to scripts (uv does that): "Permission
    denied" where a user or the package starts the program.

    ## Example
    `demo/bin/helper` with mode 0644.

    ## Common causes
    - The wheel was packed by a script with `zipfile.writestr`. **Solution**: set
      `external_attr`, or use `wheel pack`.
    - The file came from an archive that keeps no modes. **Solution**: `chmod +x` in the build.

    ## Fix safety
    Safe: the file gets mode 0755 in the zip. Its bytes stay.
    """
    wheel = context.wheel
    scripts = f"{wheel.data_dir}/scripts/"
    for member in wheel.members:
        is_script = member.name.startswith(scripts)
        may_run = is_script or member.name in wheel.elfs
        if may_run and not member.mode & 0o111 and (is_script or _is_program(wheel, member.name)):
            yield Hit(
                message=f"is a program without a run bit (mode {member.mode & 0o7777:04o})",
                member=member.name,
                hint="`chmod +x` it in the build",
                severity=Severity.ERROR if is_script else None,
                fix=_let_run(member),
            )


def _let_run(member: Member) -> Fix:
    edit = SetMode(member=member.name, old=member.mode, new=member.mode | _RUNNABLE)
    return Fix(title="let it run", edits=(edit,))


def _is_program(wheel: Wheel, member: str) -> bool:
    elf = wheel.elfs.get(member)
    return elf is not None and elf.is_executable and _runs(elf) and ".so" not in member


@rule("WF514", "script-of-build-machine", Severity.WARNING)
def script_of_build_machine(context: Context) -> Iterator[Hit]:
    """A script names a Python that is not the one it is installed for.

    ## What it does
    Reads the first lines of the files in `*.data/scripts`. Installers replace `#!python` by the
    interpreter that they install for, and nothing else (PEP 427, "Recommended installer
    features"). An error if the interpreter is one of the build machine's.

    ## Why is this bad?
    "bad interpreter: No such file or directory"; or, with `/usr/bin/env python3`, the script runs
    under whatever Python comes first in PATH, which does not have the package.

    ## Example
    `#!/opt/python/cp311-cp311/bin/python`

    ## Common causes
    - Scripts copied by a build script, past the build backend. **Solution**: entry points
      (`[project.scripts]`), or `#!python` as the first line.

    ## Fix safety
    Not fixed: the file changes, which only the build may do.
    """
    for member, line in context.wheel.shebangs.items():
        words = line[2:].split()
        if not words or line.startswith("#!python") or not _PYTHON.search(line):
            continue
        everywhere = posixpath.dirname(words[0]) in _EVERYWHERE
        whose = "whichever Python comes first" if everywhere else "a Python of the build machine"
        yield Hit(
            message=f"is run by {whose}: `{line[:120]}`",
            member=member,
            entry=line[:120],
            hint="begin it with `#!python`, or declare an entry point",
            severity=Severity.WARNING if everywhere else Severity.ERROR,
        )


_PYTHON = re.compile(r"\b(?:python|pypy)[\d.]*t?(?:\s|$)")
_EVERYWHERE = {"/usr/bin", "/bin", "/usr/local/bin"}


@rule("WF515", "flattened-links", Severity.WARNING)
def flattened_links(context: Context) -> Iterator[Hit]:
    """A library is in the wheel several times, once for each of its symbolic links.

    ## What it does
    Finds shared objects with the same bytes, in one folder, under names such as `libx.so`,
    `libx.so.1` and `libx.so.1.2`.

    ## Why is this bad?
    A wheel cannot hold symbolic links, so each became a copy. The wheel is larger by as much; and
    the loader takes copies for different libraries: if one is opened by `libx.so` after another
    object has needed `libx.so.1`, its global data is there twice (nixl 1567: initialised twice).

    ## Example
    `pkg/libx.so`, `pkg/libx.so.1` and `pkg/libx.so.1.2.3`, 12 MB each.

    ## Common causes
    - `cmake --install` or `make install` into the package folder. **Solution**: install only the
      file with the name that is the SONAME (`NAMELINK_SKIP`, and no `VERSION` property).
    - A prebuilt package unpacked there. **Solution**: delete the links before the build.

    ## Fix safety
    Unsafe: of copies that no object needs and no Python source opens by name, all but the one
    with the SONAME go; but other code may open them.
    """
    wheel = context.wheel
    for names in same_bytes(wheel).values():
        for members in _link_chains(wheel, names):
            yield _flattened(wheel, members)


def same_bytes(wheel: Wheel) -> dict[tuple[str, int], list[str]]:
    """Return the files of which there are several, by hash and size."""
    seen: set[str] = set()
    again: set[str] = set()
    for row in wheel.record:
        (again if row.hash in seen else seen).add(row.hash)
    hashes = {row.name: row.hash for row in wheel.record if row.hash and row.hash in again}
    first: dict[tuple[str, int], str] = {}
    found: dict[tuple[str, int], list[str]] = {}
    for member in wheel.members:
        if member.size and (digest := hashes.get(member.name)):
            key = digest, member.size
            if (other := first.setdefault(key, member.name)) is not member.name:
                found.setdefault(key, [other]).append(member.name)
    return found


def _link_chains(wheel: Wheel, names: Sequence[str]) -> Iterator[list[str]]:
    chains: dict[str, list[str]] = {}
    for name in names:
        stem, dot, _ = name.partition(".so")
        if dot and name in wheel.elfs:
            chains.setdefault(stem, []).append(name)
    yield from (sorted(chain, key=len) for chain in chains.values() if len(chain) > 1)


def _flattened(wheel: Wheel, members: Sequence[str]) -> Hit:
    soname = wheel.elfs[members[0]].soname
    kept = next((m for m in members if posixpath.basename(m) == soname), members[-1])
    needed = {name for elf in wheel.elfs.values() for name in elf.needed}
    opened = {posixpath.basename(o.name) for each in wheel.openings.values() for o in each}
    used = needed | opened
    going = [m for m in members if m != kept and posixpath.basename(m) not in used]
    size = next(member.size for member in wheel.members if member.name == kept)
    return Hit(
        message=f"is in the wheel {len(members)} times, with the same bytes ({in_units(size)})",
        member=kept,
        notes=(f"as {', '.join(f'`{posixpath.basename(m)}`' for m in members)}",),
        hint="leave links out of the wheel, and keep the name that is the SONAME",
        fix=_drop(going) if going else None,
    )


# --- What is not meant for a wheel ----------------------------------------------------------------


class _Leftover(NamedTuple):
    """What a kind of leftover is called, and what its files are."""

    what: str
    folders: frozenset[str] = frozenset()
    """Names of folders, with all that is in them."""
    files: frozenset[str] = frozenset()
    suffixes: tuple[str, ...] = ()
    severity: Severity = Severity.WARNING
    drop: bool = True

    def fits(self, folders: frozenset[str], file: str) -> bool:
        """Whether a file is one: its name, and those of all folders that it is in."""
        return (
            file in self.files
            or file.endswith(self.suffixes)
            or not self.folders.isdisjoint(folders)
        )


_LEFTOVERS = (
    _Leftover(
        "credentials",
        files=frozenset({
            ".pypirc", ".netrc", ".npmrc", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519",
        }),
    ),
    _Leftover(
        "version control",
        folders=frozenset({".git", ".hg", ".svn", ".bzr"}),
        files=frozenset({".gitmodules"}),
    ),
    _Leftover("compiled bytecode", folders=frozenset({"__pycache__"})),
    _Leftover("debug information", suffixes=(".debug", ".dwo", ".dwp")),
    _Leftover("object files", suffixes=(".o", ".lo"), severity=Severity.INFO, drop=False),
    _Leftover("static libraries", suffixes=(".a", ".la"), severity=Severity.INFO, drop=False),
    _Leftover("coverage data", files=frozenset({".coverage"}), suffixes=(".gcno", ".gcda")),
    _Leftover(
        "build folders",
        folders=frozenset({
            "CMakeFiles", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".tox", ".nox", ".eggs",
        }),
        files=frozenset({
            "CMakeCache.txt", ".ninja_log", ".ninja_deps", "compile_commands.json", "config.log",
            "config.status",
        }),
    ),
    _Leftover(
        "editors' files",
        files=frozenset({".DS_Store"}),
        suffixes=("~", ".orig", ".rej", ".swp", ".swo", ".bak"),
    ),
)  # fmt: skip
_ANY_LEFTOVER = _Leftover(
    "any",
    folders=frozenset[str]().union(*(kind.folders for kind in _LEFTOVERS)),
    files=frozenset[str]().union(*(kind.files for kind in _LEFTOVERS)),
    suffixes=tuple(suffix for kind in _LEFTOVERS for suffix in kind.suffixes),
)


@rule("WF516", "build-leftovers", Severity.WARNING)
def build_leftovers(context: Context) -> Iterator[Hit]:
    """The wheel holds files that the build left behind.

    ## What it does
    Reports by name: `__pycache__`, `.git` and its like, `*.debug`, caches and logs of build
    tools, editors' backups, coverage data, core dumps, credentials; and tells of object files,
    static libraries, and C sources that Cython made, which some packages mean to ship.

    ## Why is this bad?
    They cost every download, may tell what was not meant to be told, and bytecode of another
    Python or of an older source is of no use: installers compile their own.

    ## Example
    `pkg/__pycache__/core.cpython-311.pyc`

    ## Common causes
    - `package_data` or `MANIFEST.in` with a broad glob. **Solution**: list the suffixes that the
      package needs, or exclude: `global-exclude *.o *.pyc`.
    - The wheel was built in a tree that is worked in. **Solution**: `python -m build`, which
      builds the wheel from the sdist.

    ## Fix safety
    Unsafe: the files are dropped, but for object files, static libraries and sources.
    """
    wheel = context.wheel
    own = f"{wheel.dist_info}/"
    names = [member.name for member in wheel.members if not member.name.startswith(own)]
    suspects = _suspects(names)
    for kind in _LEFTOVERS:
        if found := [name for name, folders, file in suspects if kind.fits(folders, file)]:
            yield _left(wheel, kind.what, found, kind.severity, drop=kind.drop)
    cores = [member for member, elf in wheel.elfs.items() if elf.type == ElfType.CORE]
    if cores:
        yield _left(wheel, "core dumps", cores, Severity.WARNING, drop=True)
    sources = [name for name in names if name.endswith((".c", ".cpp"))]
    made_from = {f"{name.rpartition('.')[0]}.pyx" for name in sources}.intersection(names)
    sources = [name for name in sources if f"{name.rpartition('.')[0]}.pyx" in made_from]
    if sources:
        yield _left(wheel, "sources that Cython made", sources, Severity.INFO, drop=False)


def _suspects(names: Iterable[str]) -> list[tuple[str, frozenset[str], str]]:
    """Return the leftovers among `names`, each with its folders and its file name."""
    kind = _ANY_LEFTOVER
    is_inside: dict[str, bool] = {}
    suspects: list[tuple[str, frozenset[str], str]] = []
    for name in names:
        folder, _, file = name.rpartition("/")
        if folder not in is_inside:
            is_inside[folder] = not kind.folders.isdisjoint(folder.split("/"))
        if is_inside[folder] or file in kind.files or file.endswith(kind.suffixes):
            suspects.append((name, frozenset(folder.split("/")), file))
    return suspects


def _left(
    wheel: Wheel, what: str, members: Sequence[str], severity: Severity, *, drop: bool
) -> Hit:
    every = set(members)
    size = sum(member.compressed_size for member in wheel.members if member.name in every)
    return Hit(
        message=f"{what} in the wheel: {_count(members, 'file')}, {in_units(size)} of the zip",
        member=members[0],
        notes=_others(members),
        hint="exclude them where the package's files are listed, and build by `python -m build`",
        fix=_drop(members) if drop else None,
        severity=severity,
    )


@rule("WF517", "build-machine-path", Severity.WARNING, Stage.BEFORE)
def build_machine_path(context: Context) -> Iterator[Hit]:
    """The metadata names a path of the build machine.

    ## What it does
    Looks for `direct_url.json`, and for `/home/…`, `/tmp/…`, `file://` and their like
    in the fields of METADATA, in entry points, and in the JSON files of dist-info (there it is
    only told). Descriptions and licences are left alone.

    ## Why is this bad?
    `direct_url.json` is the installer's to write (PEP 610): with one in the wheel, `pip freeze`
    prints a path that exists on one machine only. A requirement by such a path can be installed
    nowhere else. And it tells who built where, and makes the same build on two machines differ.

    ## Example
    `Requires-Dist: helper @ file:///home/me/helper`

    ## Common causes
    - A wheel packed from an installed package. **Solution**: build it from the source.
    - A requirement on a folder beside. **Solution**: name a version, and install the folder first.
    - An SBOM of a Rust build. **Solution**: none is needed; remap the paths
      (`--remap-path-prefix`) if builds must be the same everywhere.

    ## Fix safety
    Safe: `direct_url.json` is dropped; nothing else changes.
    """
    wheel = context.wheel
    for member, text in wheel.texts.items():
        if member == f"{wheel.dist_info}/direct_url.json":
            yield Hit(
                message="says from where it was installed, before it is: `pip freeze` believes it",
                member=member,
                hint="`wheelfix repair` drops it; pack wheels from builds, not from installations",
                fix=_drop([member], Safety.SAFE),
            )
        elif match := _BUILD_PATH.search(text):
            told = Severity.INFO if member.endswith(".json") else None
            yield _names_path(member, member.rpartition("/")[2], match[0], told)
    for field, value in wheel.metadata.fields:
        if field not in _PROSE and (match := _BUILD_PATH.search(value)):
            broken = Severity.ERROR if field == "requires-dist" else None
            yield _names_path(f"{wheel.dist_info}/METADATA", field.title(), match[0], broken)


_BUILD_PATH = re.compile(
    r"(?:file://)?(?<![\w.])/(?:home|root|tmp|Users|builds|workspace|__w|private/var|var/folders)"
    r"/[^\s\"'<>,;)\\]+"
)
_PROSE = {"description", "summary", "keywords", "license", "classifier"}


def _names_path(member: str, where: str, path: str, severity: Severity | None) -> Hit:
    return Hit(
        message=f"{where} names a path of the build machine: `{path[:120]}`",
        member=member,
        entry=path[:120],
        hint="take it out where the metadata is made",
        severity=severity,
    )


_COMMON = frozenset({
    "benchmark", "benchmarks", "build", "conftest.py", "data", "dist", "doc", "docs", "example",
    "examples", "include", "lib", "scripts", "setup.py", "src", "test", "tests", "tools", "utils",
})  # fmt: skip
"""Names that many projects have beside their package."""


@rule("WF518", "common-top-level", Severity.WARNING)
def common_top_level(context: Context) -> Iterator[Hit]:
    """The wheel puts a name of everybody's into site-packages.

    ## What it does
    Reports files and folders in the root such as `tests`, `docs`, `examples` and `src`.

    ## Why is this bad?
    Two wheels with `tests/__init__.py` overwrite each other's, and when one is uninstalled it
    takes the file of the other away. `import tests` finds the wrong ones.

    ## Example
    `tests/__init__.py` beside `demo/__init__.py`.

    ## Common causes
    - `find_packages()` without limits. **Solution**: `find_packages(include=["demo*"])`, or
      `[tool.setuptools.packages.find] include`.

    ## Fix safety
    Not fixed: drop them from the list of packages.
    """
    wheel = context.wheel
    found: dict[str, list[str]] = {}
    for member, key, rest in split_all(wheel):
        top = rest.partition("/")[0]
        if (
            top in _COMMON
            and key in (Key.PURELIB, Key.PLATLIB)
            and normalized(top) != normalized(wheel.name.distribution)
        ):
            found.setdefault(top, []).append(member)
    for top, members in found.items():
        yield Hit(
            message=f"puts `{top}` into site-packages, where other wheels put theirs",
            member=members[0],
            entry=top,
            hint="list the packages to ship, without it",
        )


# --- Words ----------------------------------------------------------------------------------------


def in_units(size: float) -> str:
    """Spell a number of bytes for people, in powers of 1000: `1.2 MB`."""
    for unit in ("B", "kB", "MB"):
        if abs(size) < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _count(things: Iterable[object], noun: str) -> str:
    number = len(list(things))
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _others(members: Sequence[str], most: int = 5) -> tuple[str, ...]:
    """Name the members after the first, which the finding itself names."""
    rest = members[1:]
    more = f" and {len(rest) - most} more" if len(rest) > most else ""
    return (f"also {', '.join(f'`{m}`' for m in rest[:most])}{more}",) if rest else ()


def _drop(members: Iterable[str], safety: Safety = Safety.UNSAFE) -> Fix:
    return Fix(
        title="drop what does not belong here",
        edits=tuple(RemoveMember(member=member) for member in members),
        safety=safety,
    )


RULES = (
    elf_in_purelib,
    elf_for_any_platform,
    wrong_machine,
    wrong_libc,
    second_metadata,
    program_without_run_bit,
    script_of_build_machine,
    flattened_links,
    build_leftovers,
    build_machine_path,
    common_top_level,
)
