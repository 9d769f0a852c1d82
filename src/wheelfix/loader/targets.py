"""Target platforms: the libraries and the Python of a distribution, as data.

`targets.toml` describes them. The libraries of a platform become objects with a SONAME alone, which
the loader's model finds in the default directories.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from functools import cache
from typing import Any

from wheelfix.elf.machine_page_sizes import SMALLEST_PAGE
from wheelfix.elf.model import (
    EF_RISCV_FLOAT_ABI_DOUBLE,
    LIBC_SONAMES,
    Abi,
    Elf,
    Libc,
    Machine,
    shared_object,
)
from wheelfix.errors import SettingsError
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.loader.install_schemes import Scheme, python_version
from wheelfix.loader.load_values import Environment
from wheelfix.loader.machine_names import (
    LEGACY_SUBDIRECTORIES_END,
    MACHINES,
    MUSL_DIRECTORIES,
    legacy_subdirectories,
    lib_value,
    musl_soname,
)
from wheelfix.loader.platform_libraries import is_dynamic_loader, may_come_from_platform
from wheelfix.loader.symbol_versions import newer
from wheelfix.system import deferred
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    RUNPATH_SINCE,
    oldest_promised,
    parse_platform_tag,
    promised_libcs,
)

_RELEASE = lazy_pattern(r"\d{1,9}(\.\d{1,9})*", re.ASCII)
_PAGE = lazy_pattern(r"page:(\d{1,9})(k?)", re.IGNORECASE | re.ASCII)


@frozen
class Program:
    """The main program: a Python and the libraries installed with it."""

    name: str
    path: str
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Libraries by path, and what each needs."""
    scheme: str | None = None
    """The install scheme to prefer."""


@frozen
class Target:
    """One described platform. Texts may have the placeholders of `targets.toml`."""

    name: str
    libc: Libc
    program: Program
    directories: tuple[str, ...]
    """The loader's default directories."""
    lib: str = "{lib}"
    """The value of `$LIB`."""
    promised: bool = False
    """Whether it has all libraries that some platform tag promises."""
    gives: frozenset[str] = frozenset()
    """The libraries of the bare system."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Libraries that the bare system lacks, and the packages that contain them."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Symbol version prefix -> the newest version: `GLIBC` -> `2.36`."""

    def has(self, library: str) -> bool:
        """Return whether the bare system has `library`, a DT_NEEDED name."""
        return (
            library in self.gives
            or is_dynamic_loader(library)
            or (self.promised and may_come_from_platform(library))
        )

    def why_refused(self, wheel: Wheel) -> Iterator[str]:
        """Yield why installers refuse a wheel by its tags (PEP 600); nothing if they do not."""
        level = oldest_promised(Libc.GLIBC, wheel.name.platforms) or ()
        oldest, version = ".".join(map(str, level)), self.versions.get("GLIBC")
        if oldest and version and newer(oldest, version):
            has = f"`{self.name}` has glibc {version}"
            yield f"{has}, but the wheel's tags begin at {oldest}: installers there refuse it"

    def refuse_other_libc(self, libcs: Collection[Libc], what: str) -> None:
        """Raise `SettingsError` for `what` is for the C libraries `libcs`, not for this one."""
        if libcs and self.libc not in libcs:
            raise SettingsError(
                f"`{self.name}` has {self.libc}, and {what} is for {min(libcs)}",
                hint=f"name a machine that has {min(libcs)}",
            )


def names() -> tuple[str, ...]:
    """Return all names that `find` accepts, with releases and Pythons."""
    data = _presets()
    listed: list[str] = []
    for name, table in data["platforms"].items():
        releases = table.get("releases", {})
        listed += [f"{name}:{release}" for release in releases] or [name]
    return (*listed, *(name for name in data["pythons"] if name not in data["platforms"]))


def find(text: str, wheel: Wheel | None = None) -> Target:
    """Return the target `text`: `debian:12`, `glibc:2.28`, `conda`, `ubuntu:24.04+pyenv`.

    A Python alone means the platform that the tags of `wheel` promise. Raises `SettingsError` for
    an unknown name.
    """
    data = _presets()
    first, plus, second = text.partition("+")
    platform, python = (first, second) if plus else (first, None)
    if not plus and platform not in data["platforms"] and platform in data["pythons"]:
        platform, python = default_name(wheel), platform
    target = _platform(platform)
    if python is None:
        return target
    return replace(target, name=f"{target.name}+{python}", program=_program(python))


def is_page(name: str) -> bool:
    """Return whether a target is a memory page size: `page:64k`."""
    return name.lower().startswith("page:")


def refuse_unknown(name: str) -> None:
    """Raise `SettingsError` if `name` is not a target."""
    if is_page(name):
        page_size(name)
    else:
        find(name)


def page_size(name: str) -> int:
    """Return the bytes of a target that is a memory page size: `page:64k`.

    Raises `SettingsError` for one that is not a power of two from 4 KiB.
    """
    match = _PAGE.fullmatch(name)
    size = int(match[1]) * (1024 if match[2] else 1) if match else 0
    if size < SMALLEST_PAGE or size & (size - 1):
        raise SettingsError(
            f"invalid page size `{name}`",
            hint="such as page:16k or page:64k",
        )
    return size


def default_name(wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()) -> str:
    """Return the name of the platform that the tags of `wheel` promise: `glibc:2.28`, `musl`.

    `beside` are the platform tags of wheels that are to be installed there as well.
    """
    tags = wheel.name.platforms if wheel else ()
    if Libc.MUSL in promised_libcs(tags):
        return "musl"
    if level := oldest_promised(Libc.BIONIC, tags):
        return f"android:{level[0]}"
    if oldest := oldest_promised(Libc.GLIBC, tags):
        others = (oldest_promised(Libc.GLIBC, theirs) for theirs in beside)
        major, minor = max([oldest, *filter(None, others)])
        return f"glibc:{major}.{minor}"
    return "musl" if wheel is not None and wheel.libc is Libc.MUSL else "glibc"


@cache
def _presets() -> Mapping[str, Any]:
    text = read_text("wheelfix.loader", "targets.toml")
    return deferred.tomllib.loads(text)


def _platform(text: str) -> Target:
    is_image = text in _presets()["platforms"]
    name, colon, release = (text, "", "") if is_image else text.partition(":")
    table = _described("platforms", name, text)
    release, free = table.get("release", release), table.get("free_version")
    versions = table.get("releases", {}).get(release, {})
    of_release = table.get("packages_of_release", {}).get(release, {})
    if free and _RELEASE.fullmatch(release):
        versions = {free: release}
    if colon and not versions:
        raise _unknown(text)
    families = (_presets()["families"][family] for family in table.get("families", ()))
    return Target(
        name=text,
        libc=Libc(table["libc"]),
        program=_program(table["python"]),
        directories=tuple(table.get("directories", MUSL_DIRECTORIES)),
        lib=table.get("lib", "{lib}"),
        promised=table.get("promised", False),
        gives=frozenset(table.get("gives", ())).union(*families, _since(table, release)),
        packages={**table.get("packages", {}), **of_release},
        versions=versions,
    )


def _since(table: Mapping[str, Any], release: str) -> frozenset[str]:
    """Return the libraries that a platform has from a release on, of those that say so."""
    since: Mapping[str, str] = table.get("since", {})
    return frozenset(name for name, first in since.items() if not newer(first, release))


def _program(name: str) -> Program:
    table = _described("pythons", name, name)
    files = table.get("files", {})
    return Program(
        name=name,
        path=table["path"],
        needed=tuple(table["needed"]),
        rpath=table.get("rpath"),
        runpath=table.get("runpath"),
        files={path: tuple(file.get("needed", ())) for path, file in files.items()},
        scheme=table.get("scheme"),
    )


def _described(kind: str, name: str, text: str) -> Mapping[str, Any]:
    """Return the table of a platform or Python over the one that it extends.

    Raises `SettingsError` for the target `text` if there is none.
    """
    table = _presets()[kind].get(name)
    if table is None:
        raise _unknown(text)
    base = table.get("extends")
    return {**_described(kind, base, text), **table} if base else table


def _unknown(text: str) -> SettingsError:
    """Return the error for an unknown target, with the name that was probably meant."""
    known = dict.fromkeys(name.partition(":")[0] for name in names())
    platform = text.partition(":")[0]
    meant = get_close_matches(platform.lower(), known, n=1)
    similar = [name for name in names() if meant and name.startswith(meant[0])]
    near = get_close_matches(text.lower(), similar, n=1)
    if "," in text:
        hint = "name one machine: this command does not take several"
    elif near and platform not in known:
        hint = f"did you mean `{near[0]}`?"
    elif releases := [name for name in names() if name.startswith(f"{platform}:")]:
        hint = f"known releases are {', '.join(releases)}"
    else:
        hint = (
            f"known are {', '.join(known)}, page:SIZE, and PLATFORM+PYTHON such as debian:12+conda"
        )
    return SettingsError(f"unknown target `{text}`", hint=hint)


def abi_of(wheel: Wheel) -> Abi:
    """Return the ABI that `wheel` is built for: that of its platform tags, else of most objects."""
    for tag in map(parse_platform_tag, wheel.name.platforms):
        if tag.abi is not None:
            return tag.abi
    abis = Counter(elf.abi for elf in wheel.elfs.values())
    return abis.most_common(1)[0][0] if abis else Abi(Machine.X86_64, 64, little_endian=True)


def populate(
    environment: Environment,
    target: Target,
    scheme: Scheme,
    abi: Abi,
    library_path: tuple[str, ...] = (),
) -> Environment:
    """Add to `environment` the files and directories of `target`: its Python, its libraries.

    Of the libraries that the target has, only those that some object needs are added. Files of
    `environment` are kept; `library_path` is LD_LIBRARY_PATH.
    """
    values = _placeholders(scheme, abi)
    main = target.program.path.format_map(values)
    directories = tuple(directory.format_map(values) for directory in target.directories)
    described = {**_files_of(target, abi, values), main: _main_program(target, abi, values)}
    dependents = (*environment.files.values(), *described.values())
    given = _bare_libraries(dependents, target, abi, directories)
    level = target.versions.get("LIBC")
    return replace(
        environment,
        libc=target.libc,
        reads_runpath=int(level) >= RUNPATH_SINCE if level else environment.reads_runpath,
        files={**given, **described, **environment.files},
        main=main,
        directories=environment.directories | set(directories),
        default_directories=directories,
        lib=target.lib.format_map(values),
        subdirectories=_subdirectories(target, abi),
        library_path=library_path,
    )


def _subdirectories(target: Target, abi: Abi) -> tuple[str, ...]:
    """Return the subdirectories that glibc tries on a processor of the lowest level."""
    if abi.machine != Machine.X86_64 or target.libc is not Libc.GLIBC:
        return ()
    release = tuple(map(int, filter(None, target.versions.get("GLIBC", "").split("."))))
    is_legacy = bool(release) and release < LEGACY_SUBDIRECTORIES_END
    return tuple(dict.fromkeys(legacy_subdirectories(("x86_64", "x86_64")))) if is_legacy else ()


def _files_of(target: Target, abi: Abi, values: Mapping[str, str]) -> dict[str, Elf]:
    """Return the files that the target's program lists, by path."""
    libc = _libc_soname(target, abi)
    files: dict[str, Elf] = {}
    for text, names in target.program.files.items():
        path = text.format_map(values)
        needed = (*(name.format_map(values) for name in names), libc)
        files[path] = _library(abi, path.rpartition("/")[2])._replace(needed=needed)
    return files


def _main_program(target: Target, abi: Abi, values: Mapping[str, str]) -> Elf:
    program = target.program
    return _library(abi, None)._replace(
        interpreter=f"/lib/ld-{target.libc}.so",
        needed=(*(name.format_map(values) for name in program.needed), _libc_soname(target, abi)),
        rpath=None if program.rpath is None else program.rpath.format_map(values),
        runpath=None if program.runpath is None else program.runpath.format_map(values),
    )


def _bare_libraries(
    dependents: Iterable[Elf], target: Target, abi: Abi, directories: Sequence[str]
) -> dict[str, Elf]:
    """Return the libraries of the bare system that `dependents` need, by path."""
    needed = {name for name in flatten(elf.needed for elf in dependents) if "/" not in name}
    present = sorted(filter(target.has, needed)) if directories else ()
    return {f"{directories[0]}/{name}": _library(abi, name) for name in present}


def _libc_soname(target: Target, abi: Abi) -> str:
    return musl_soname(abi) if target.libc is Libc.MUSL else LIBC_SONAMES[target.libc]


def _library(abi: Abi, soname: str | None) -> Elf:
    flags = EF_RISCV_FLOAT_ABI_DOUBLE if abi.machine == Machine.RISCV else 0
    return shared_object(abi, soname, flags=flags)


def _placeholders(scheme: Scheme, abi: Abi) -> dict[str, str]:
    known = MACHINES.get(abi)
    triplet = known.triplet if known else "unknown-linux-gnu"
    return {
        "triplet": triplet,
        "multiarch": lib_value(abi.bits, triplet),
        "lib": lib_value(abi.bits),
        "prefix": scheme.root,
        "python": scheme.python,
        "version": python_version(scheme.python),
    }
