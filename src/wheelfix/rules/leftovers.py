"""Whether a wheel contains build leftovers, build machine paths or generic names."""

import re
from collections.abc import Iterator, Sequence

from packaging.utils import canonicalize_name

from wheelfix.analysis.load_failures import HIDDEN, hidden
from wheelfix.elf.model import ElfType
from wheelfix.loader.install_schemes import allows_any, interpreters, site_path
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.imported_modules import module_name
from wheelfix.rules.context import Context, Stage
from wheelfix.rules.findings import Hit, Safety, Severity, other_members, removal
from wheelfix.rules.rule import rule
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import count, in_units
from wheelfix.wheel.model import Wheel, is_license


class _Leftover(NamedTuple):
    """A kind of build leftover."""

    what: str
    pattern: str
    """A regular expression for the name of a member, after a `/`."""
    severity: Severity = Severity.WARNING
    drop: bool = True


_CREDENTIALS = _Leftover(
    "credentials", r"/(?:\.pypirc|\.netrc|\.npmrc|id_(?:rsa|dsa|ecdsa|ed25519))\Z"
)
_LEFTOVERS = (
    _CREDENTIALS,
    _Leftover("version control", r"/\.(?:git|hg|svn|bzr)/|/\.gitmodules\Z"),
    _Leftover("compiled bytecode", r"/__pycache__/"),
    _Leftover("debug information", r"\.(?:debug|dwo|dwp)\Z"),
    _Leftover("object files", r"\.l?o\Z", severity=Severity.NOTE, drop=False),
    _Leftover("static libraries", r"\.l?a\Z", severity=Severity.NOTE, drop=False),
    _Leftover("coverage data", r"/\.coverage\Z|\.(?:gcno|gcda)\Z"),
    _Leftover(
        "build folders",
        r"/(?:CMakeFiles|\.pytest_cache|\.mypy_cache|\.ruff_cache|\.tox|\.nox|\.eggs)/"
        r"|/(?:CMakeCache\.txt|\.ninja_log|\.ninja_deps|compile_commands\.json)\Z"
        r"|/config\.(?:log|status)\Z",
    ),
    _Leftover("editors' files", r"/\.DS_Store\Z|(?:~|\.orig|\.rej|\.swp|\.swo|\.bak)\Z"),
)
_CORE_DUMPS = _Leftover("core dumps", pattern="")
"""Known by their type, not by name."""
_ANY_LEFTOVER = lazy_pattern("|".join(kind.pattern for kind in _LEFTOVERS))


@rule("WF516", "build-leftovers", Severity.WARNING)
def build_leftovers(context: Context) -> Iterator[Hit]:
    """Build leftovers in the wheel: bytecode, caches, object files, credentials.

    ## What it does
    Reports by name: `__pycache__`, version control directories, `*.debug`, caches and logs of build
    tools, editor backups, coverage data, core dumps, credentials; and for information object files
    and static libraries, which some packages ship on purpose.

    ## Why is this bad?
    They make every download larger and may leak private information. Bytecode of another Python or
    of an older source is useless: installers compile their own.

    ## Example
    `pkg/__pycache__/core.cpython-311.pyc`

    ## Common causes
    - `package_data` or `MANIFEST.in` with a broad glob. **Solution**: list the suffixes that the
      package needs, or exclude: `global-exclude *.o *.pyc`.
    - The wheel was built in a development tree. **Solution**: `python -m build`, through the sdist.

    ## Fix safety
    Unsafe: the files are removed, except object files and static libraries.
    """
    wheel = context.wheel
    suspects = context.memory.of_files(wheel, _suspects)
    for kind in _LEFTOVERS if suspects else ():
        pattern = re.compile(kind.pattern)
        matching = [name for name in suspects if pattern.search(f"/{name}")]
        if kind is _CREDENTIALS:  # an empty one is there for those who look for it
            matching = [name for name in matching if wheel.sizes[name]]
        if matching:
            yield _leftover_hit(wheel, kind, matching)
    cores = [member for member, elf in wheel.elfs.items() if elf.type == ElfType.CORE]
    if cores:
        yield _leftover_hit(wheel, _CORE_DUMPS, cores)


def _suspects(wheel: Wheel) -> list[str]:
    own = f"{wheel.dist_info}/"
    may_be = _ANY_LEFTOVER.search
    return [name for name in wheel.sizes if may_be(f"/{name}") and not name.startswith(own)]


def _leftover_hit(wheel: Wheel, kind: _Leftover, members: Sequence[str]) -> Hit:
    every = set(members)
    size = sum(member.compressed_size for member in wheel.members if member.name in every)
    files = count(len(members), "file")
    return Hit(
        message=f"{kind.what} in the wheel: {files}, {in_units(size)} of the zip",
        member=members[0],
        notes=other_members(members),
        hint="exclude them from the package data, and build with `python -m build`",
        fix=removal(members) if kind.drop else None,
        severity=kind.severity,
    )


@rule("WF517", "build-machine-path", Severity.WARNING, Stage.BEFORE)
def build_machine_path(context: Context) -> Iterator[Hit]:
    """Metadata contains a path of the build machine, or direct_url.json.

    ## What it does
    Looks for `direct_url.json`, and for `/home/…`, `/tmp/…`, `file://` and the like in the fields
    of METADATA, in entry points, and, for information, in the JSON files of dist-info.
    Descriptions, licenses and SBOMs are not checked: build tools write such paths into SBOMs.

    ## Why is this bad?
    The path exists only on the build machine. `direct_url.json` is written by installers (PEP 610):
    if it is in the wheel, `pip freeze` prints the path. A requirement with such a path cannot be
    installed elsewhere. The path reveals details of the build machine, and makes builds
    irreproducible.

    ## Example
    `Requires-Dist: helper @ file:///home/me/helper`

    ## Common causes
    - The wheel was packed from an installed package. **Solution**: build it from source.
    - A requirement on a local directory. **Solution**: require a version instead.

    ## Fix safety
    Safe: `direct_url.json` is removed; nothing else changes.
    """
    wheel = context.wheel
    for member, text in wheel.texts.items():
        if member == f"{wheel.dist_info}/direct_url.json":
            yield Hit(
                message="contains direct_url.json before installation; `pip freeze` will trust it",
                member=member,
                hint="`wheelfix repair` removes it; do not pack wheels from installed packages",
                fix=removal([member], Safety.SAFE),
            )
        elif member.startswith(f"{wheel.dist_info.sboms}/") or is_license(member, wheel.dist_info):
            continue
        elif match := _BUILD_PATH.search(text):
            severity = Severity.NOTE if member.endswith(".json") else None
            yield _names_path(member, member.rpartition("/")[2], match[0], severity)
    for field, value in wheel.metadata.fields:
        if field not in _PROSE and (match := _BUILD_PATH.search(value)):
            broken = Severity.ERROR if field == "requires-dist" else None
            yield _names_path(wheel.dist_info.metadata, field.title(), match[0], broken)


_BUILD_PATH = lazy_pattern(
    r"(?:file://)?(?<![\w.])/(?:home|root|tmp|Users|builds|workspace|__w|private/var|var/folders)"
    r"/[^\s\"'<>,;)\\]+"
)
_PROSE = {"description", "summary", "keywords", "license", "classifier"}


def _names_path(member: str, where: str, path: str, severity: Severity | None) -> Hit:
    return Hit(
        message=f"{where} contains a path of the build machine: `{path[:120]}`",
        member=member,
        entry=path[:120],
        hint="remove it from the source of the metadata",
        severity=severity,
    )


_COMMON = frozenset({
    "benchmark", "benchmarks", "build", "conftest.py", "data", "dist", "doc", "docs", "example",
    "examples", "include", "lib", "scripts", "setup.py", "src", "test", "tests", "tools", "utils",
})  # fmt: skip
"""Names that many projects have next to their package."""


_REACHES = lazy_pattern(rb"\bsys\.path\b|file_location|FileLoader\b|meta_path|path_hooks")


@rule("WF518", "common-top-level", Severity.WARNING)
def common_top_level(context: Context) -> Iterator[Hit]:
    """Wheel installs a generic top-level name such as `tests`, or one of the standard library.

    ## What it does
    Reports top-level files and directories such as `tests`, `docs`, `examples` and `src`, and those
    whose name the standard library of a Python of the tags has; that is known of the Python which
    runs wheelfix. It is an error if that Python alone may import the extension modules there.

    ## Why is this bad?
    Two wheels with the same top-level name overwrite each other's files, and uninstalling one
    removes those of the other. `import tests` imports the wrong one, and `import json` always that
    of the standard library.

    ## Example
    `tests/__init__.py` next to `demo/__init__.py`.

    ## Common causes
    - `find_packages()` without limits. **Solution**: `find_packages(include=["demo*"])`, or
      `[tool.setuptools.packages.find] include`.

    ## Fix safety
    Not fixed: remove them from the list of packages.
    """
    wheel, required = context.wheel, context.wheel.metadata.requires_python
    pythons = [p for p in interpreters(wheel.name) if not required or allows_any(required, [p])]
    for top, members in context.top_levels.items():
        is_lost = any(m in wheel.elfs and wheel.elfs[m].module_hooks for m in members)
        is_module = is_lost and members[0] in wheel.elfs
        name = module_name(top) if is_module else top.removesuffix(".py")
        hiding = [p for p in pythons if "." not in name and hidden(name, p)]
        if hiding:
            yield Hit(
                message=f"installs `{top}`, which {hiding[0]} does not import: {HIDDEN}",
                member=members[0],
                entry=top,
                hint="give it another name",
                severity=Severity.ERROR
                if is_lost and len(hiding) == len(pythons) and not _may_reach(context)
                else None,
            )
        if top in _COMMON and canonicalize_name(top) != canonicalize_name(wheel.name.distribution):
            yield Hit(
                message=f"installs the generic top-level name `{top}` into site-packages",
                member=members[0],
                entry=top,
                hint="put its libraries into the folder of a package"
                if any(member in wheel.elfs for member in members)
                else "list the packages to ship explicitly, without it",
            )


def _may_reach(context: Context) -> bool:
    """Return whether code may import what the standard library hides, by its file or from paths."""
    files = context.wheel.sizes
    sources = context.code.sources_that(_REACHES.search) if context.code else ()
    return any(name.endswith(".pth") for name in files) or any(sources)


@rule("WF527", "top-level-library", Severity.NOTE)
def top_level_library(context: Context) -> Iterator[Hit]:
    """Library at the top level of site-packages, outside of any package.

    ## What it does
    Reports ELF objects that are installed directly into site-packages, and are not extension
    modules: they have no function by which Python would import them.

    ## Why is this bad?
    All distributions share this folder: another one with a library of the same name replaces it,
    and uninstalling either removes it.

    ## Example
    `libfoo.so` next to `demo/__init__.py`.

    ## Common causes
    - The install destination of CMake is `.` or `lib` of the wheel's root. **Solution**: install
      libraries into the folder of the package.

    ## Fix safety
    Not fixed: the build decides where its objects look for the library.
    """
    wheel = context.wheel
    libraries = [
        member
        for member, elf in wheel.elfs.items()
        if elf.dynamic and not elf.module_hooks and "/" not in (site_path(member, wheel) or "/")
    ]
    if libraries:
        yield Hit(
            message=f"{count(len(libraries), 'library')} at the top level of site-packages, which "
            "all distributions share",
            member=libraries[0],
            notes=other_members(libraries),
            hint="install it into the folder of the package",
        )
