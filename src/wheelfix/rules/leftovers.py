"""Whether a wheel holds what does not belong into one: build files, paths, generic names."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from wheelfix.elf.model import ElfType
from wheelfix.loader.install_schemes import Key, split_all
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.files import counted, in_units, other_members, removal
from wheelfix.rules.findings import Hit, Safety, Severity
from wheelfix.rules.rule import rule
from wheelfix.wheel.model import Wheel, normalized


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
    """Build leftovers in the wheel: bytecode, caches, object files, credentials.

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
        message=f"{what} in the wheel: {counted(members, 'file')}, {in_units(size)} of the zip",
        member=members[0],
        notes=other_members(members),
        hint="exclude them where the package's files are listed, and build by `python -m build`",
        fix=removal(members) if drop else None,
        severity=severity,
    )


@rule("WF517", "build-machine-path", Severity.WARNING, Stage.BEFORE)
def build_machine_path(context: Context) -> Iterator[Hit]:
    """Metadata contains a path of the build machine, or direct_url.json.

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
                fix=removal([member], Safety.SAFE),
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
    """Wheel installs a generic top-level name such as `tests`.

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


RULES = (build_leftovers, build_machine_path, common_top_level)
