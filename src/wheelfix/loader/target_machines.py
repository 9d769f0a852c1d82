"""Target platforms: the libraries and the Python of a distribution, as data.

`targets.toml` describes them; a file of the same form describes others. The libraries of a platform
become objects with a SONAME alone, which the loader's model finds in the default directories.
"""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple, cast

from wheelfix.elf.model import Abi, Elf, ElfType, Libc, Machine
from wheelfix.elf.page_sizes import SMALLEST_PAGE
from wheelfix.errors import SettingsError
from wheelfix.loader.glibc_search import hwcaps, legacy_subdirectories
from wheelfix.loader.install_schemes import Layout, Scheme
from wheelfix.loader.load_values import Environment, SearchOutcome
from wheelfix.loader.machines import MACHINES, MUSL_DIRECTORIES, lib_value, musl_soname
from wheelfix.loader.platform_libraries import (
    LIBC_SONAMES,
    is_dynamic_loader,
    may_come_from_platform,
)
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    ARCHITECTURES,
    oldest_promised,
    parse_platform_tag,
    promised_libcs,
)

_PAGE = re.compile(r"page:(\d{1,9})(k?)", re.IGNORECASE | re.ASCII)


class Stub(NamedTuple):
    """The known properties of a library."""

    needed: tuple[str, ...] = ()
    soname: str | None = None
    """None means the file's own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The main program: a Python and the libraries installed with it."""

    name: str
    path: str
    needed: tuple[str, ...] = ()
    rpath: str | None = None
    runpath: str | None = None
    files: Mapping[str, Stub] = field(default_factory=dict[str, Stub])
    scheme: str | None = None
    """The install scheme to prefer."""


@dataclass(frozen=True, slots=True, kw_only=True)
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
    files: Mapping[str, Stub] = field(default_factory=dict[str, Stub])
    library_path: tuple[str, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict[str, str])
    cpu: int = 1
    """The x86-64 level; glibc tries `glibc-hwcaps` from level 2 on."""
    scheme: str | None = None

    def has(self, library: str) -> bool:
        """Return whether the bare system has `library`, a DT_NEEDED name."""
        return (
            library in self.gives
            or is_dynamic_loader(library)
            or (self.promised and may_come_from_platform(library))
        )


_PROGRAM_KEYS = {one.name for one in fields(Program)} - {"name"} | {"summary", "extends"}
_PLATFORM_KEYS = {one.name for one in fields(Target)} - {"name"} | {
    *("summary", "extends", "python", "families", "releases", "free_version"),
}


def names() -> tuple[str, ...]:
    """Return all names that `find` accepts, with releases and Pythons."""
    data = _presets()
    found: list[str] = []
    for name, table in data["platforms"].items():
        releases = table.get("releases", {})
        found += [f"{name}:{release}" for release in releases] or [name]
    return (*found, *(name for name in data["pythons"] if name not in data["platforms"]))


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
    target = _platform(platform, data)
    if python is None:
        return target
    program = _program(python, data)
    scheme = program.scheme or target.scheme
    return replace(target, name=f"{target.name}+{python}", program=program, scheme=scheme)


def is_page(name: str) -> bool:
    """Return whether a target is a memory page size: `page:64k`."""
    return name.lower().startswith("page:")


def refuse_unknown(name: str) -> None:
    """Raise `SettingsError` if `name` is no target."""
    if is_page(name):
        page_sizes([name])
    else:
        find(name)


def page_sizes(names: Iterable[str]) -> tuple[int, ...]:
    """Return the page sizes among the targets, in bytes: `page:64k`.

    Raises `SettingsError` for one that is no power of two from 4 KiB.
    """
    sizes: list[int] = []
    for name in filter(is_page, names):
        match = _PAGE.fullmatch(name)
        size = int(match[1]) * (1024 if match[2] else 1) if match else 0
        if size < SMALLEST_PAGE or size & (size - 1):
            raise SettingsError(
                f"`{name}` is no target: `page:` wants a size of memory pages",
                hint="such as page:16k or page:64k",
            )
        sizes.append(size)
    return tuple(sizes)


def newer(version: str, there: str) -> bool:
    """Return whether `version` is newer than `there`; False for names such as PRIVATE."""
    parts, known = version.split("."), there.split(".")
    if not all(part.isdecimal() and len(part) < 10 for part in (*parts, *known)):
        return False
    return [int(part) for part in parts] > [int(part) for part in known]


_SINCE = {"GLIBC_ABI_DT_RELR": "2.36"}
"""Version names without a number, and the glibc release that introduced them."""


def versions_too_new(elf: Elf, known: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Yield the symbol versions of `elf` that are newer than those of a platform.

    Each is yielded as library, version, and newest version on the platform: `libc.so.6`,
    `GLIBC_2.34`, `GLIBC_2.28`. `known` has the newest number of each prefix.
    """
    for need in elf.verneed:
        for version in need.versions:
            prefix, _, number = version.partition("_")
            if prefix in known and newer(_SINCE.get(version, number), known[prefix]):
                yield need.file, version, f"{prefix}_{known[prefix]}"


def described(table: Mapping[str, object], name: str) -> Target:
    """Return the target of a description file's `table`, which has the keys of a platform.

    It may start from another one (`extends = "debian:12"`) and describe its main program under
    `program`. Raises `SettingsError` for invalid keys and values.
    """
    data = _presets()
    base = table.get("extends")
    if base is not None and not isinstance(base, str):
        raise SettingsError(f"`extends` of the target `{name}` must be a name")
    start = find(base) if base is not None else None
    return _target(name, dict(table), data, start)


def default_name(wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()) -> str:
    """Return the name of the platform that the tags of `wheel` promise: `glibc:2.28`, `musl`.

    `beside` are the platform tags of wheels that are to be installed there as well.
    """
    tags = wheel.name.platforms if wheel else ()
    if Libc.MUSL in promised_libcs(tags):
        return "musl"
    if oldest := oldest_promised(Libc.GLIBC, tags):
        others = (oldest_promised(Libc.GLIBC, theirs) for theirs in beside)
        major, minor = max([oldest, *filter(None, others)])
        return f"glibc:{major}.{minor}"
    musl = wheel is not None and any(elf.libc is Libc.MUSL for elf in wheel.elfs.values())
    return "musl" if musl else "glibc"


@cache
def _presets() -> Mapping[str, Any]:
    text = read_text("wheelfix.loader", "targets.toml")
    return tomllib.loads(text)


def _platform(text: str, data: Mapping[str, Any]) -> Target:
    name, colon, release = text.partition(":")
    table = data["platforms"].get(name)
    if table is None:
        raise _unknown(text)
    table = dict(table)
    releases = table.pop("releases", {})
    free = table.pop("free_version", None)
    if colon and free and re.fullmatch(r"\d+(\.\d+)*", release):
        table["versions"] = {free: release}
    elif colon:
        if release not in releases:
            raise _unknown(text)
        table["versions"] = releases[release]
    base = table.pop("extends", None)
    return _target(text, table, data, _platform(base, data) if base else None)


def _unknown(text: str) -> SettingsError:
    """Return the error for an unknown target, with the name that was probably meant."""
    near = get_close_matches(text.lower(), names(), n=1)
    known = dict.fromkeys(name.partition(":")[0] for name in names())
    platform = text.partition(":")[0]
    if near and platform not in known:
        hint = f"did you mean `{near[0]}`?"
    elif releases := [name for name in names() if name.startswith(f"{platform}:")]:
        hint = f"known releases are {', '.join(releases)}"
    else:
        hint = (
            f"known are {', '.join(known)}, page:SIZE, and PLATFORM+PYTHON such as debian:12+conda"
        )
    return SettingsError(f"`{text}` is no target", hint=hint)


def _target(
    name: str, table: dict[str, Any], data: Mapping[str, Any], base: Target | None
) -> Target:
    _check(table, _PLATFORM_KEYS, f"target `{name}`")
    try:
        libc = Libc(table.get("libc", base.libc if base else Libc.GLIBC))
    except ValueError:
        raise SettingsError(f"`libc` of the target `{name}` must be glibc or musl") from None
    start = base or _bare(name, libc, data)
    families = _texts(table, "families")
    gives = start.gives.union(*(data["families"].get(family, ()) for family in families))
    start = replace(start, name=name, libc=libc, gives=gives)
    program = start.program
    if "program" in table:
        program = _described_program(table["program"], program)
    elif "python" in table:
        program = _program(table["python"], data)
    scheme = table.get("scheme", start.scheme or program.scheme)
    return replace(start, **{**_updates(start, table), "program": program, "scheme": scheme})


def _bare(name: str, libc: Libc, data: Mapping[str, Any]) -> Target:
    python = "shared" if libc is Libc.MUSL else "static"
    directories = MUSL_DIRECTORIES if libc is Libc.MUSL else ("/lib", "/usr/lib")
    return Target(name=name, libc=libc, program=_program(python, data), directories=directories)


def _program(name: str, data: Mapping[str, Any]) -> Program:
    table = data["pythons"].get(name)
    if table is None:
        raise _unknown(name)
    base = table.get("extends")
    start = _program(base, data) if base else Program(name=name, path="{prefix}/bin/{python}")
    return replace(_described_program(table, start), name=name)


def _described_program(given: object, base: Program) -> Program:
    if not isinstance(given, dict):
        raise SettingsError("`program` of a target must be a table")
    table = cast("dict[str, Any]", given)
    _check(table, _PROGRAM_KEYS, "program")
    return replace(base, **_updates(base, table))


def _updates(start: Target | Program, table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `start` that `table` sets; sets and tables are added to."""
    found: dict[str, Any] = {}
    for key in table.keys() & {one.name for one in fields(start)} - {"libc", "program"}:
        known = getattr(start, key)
        match known:
            case Mapping():
                given = _stubs(table) if key == "files" else _mapping(table, key)
                found[key] = {**known, **given}
            case frozenset():
                found[key] = known.union(_texts(table, key))
            case tuple():
                found[key] = _texts(table, key)
            case _:
                found[key] = table[key] if known is None else type(known)(table[key])
    return found


def _check(table: Mapping[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(table) - known)
    if unknown:
        raise SettingsError(
            f"the {what} has no key `{unknown[0]}`", hint=f"it may have {', '.join(sorted(known))}"
        )


def _texts(table: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = table.get(key, ())
    if not isinstance(value, list | tuple):
        raise SettingsError(f"`{key}` of a target must be a list of texts")
    return tuple(str(text) for text in cast("Iterable[object]", value))


def _mapping(table: Mapping[str, Any], key: str) -> dict[str, str]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise SettingsError(f"`{key}` of a target must be a table")
    return {str(k): str(v) for k, v in cast("dict[object, object]", value).items()}


def _stubs(table: Mapping[str, Any]) -> dict[str, Stub]:
    value = table.get("files", {})
    if not isinstance(value, dict):
        raise SettingsError("`files` of a target must be a table of paths")
    found: dict[str, Stub] = {}
    for path, given in cast("dict[str, object]", value).items():
        if not isinstance(given, dict):
            raise SettingsError(f"`{path}` under `files` of a target must be a table")
        stub = cast("dict[str, Any]", given)
        _check(stub, {"needed", "soname"}, f"file `{path}`")
        found[path] = Stub(needed=_texts(stub, "needed"), soname=stub.get("soname"))
    return found


def environment_of(wheel: Wheel, layout: Layout) -> Environment:
    """Return the environment with `wheel` installed in `layout`, and nothing else."""
    musl = any(elf.libc is Libc.MUSL for elf in wheel.elfs.values())
    paths = layout.paths.items()
    return Environment(
        libc=Libc.MUSL if musl else Libc.GLIBC,
        files={path: wheel.elfs[member] for member, path in paths if member in wheel.elfs},
        broken={path: SearchOutcome.NOT_ELF for member, path in paths if member not in wheel.elfs},
        directories=layout.directories,
    )


def abi_of(wheel: Wheel) -> Abi:
    """Return the ABI that `wheel` is built for: that of its platform tags, else of most objects."""
    for tag in map(parse_platform_tag, wheel.name.platforms):
        if tag.arch in ARCHITECTURES:
            return ARCHITECTURES[tag.arch]
    abis = Counter(elf.abi for elf in wheel.elfs.values())
    return abis.most_common(1)[0][0] if abis else Abi(Machine.X86_64, 64, little_endian=True)


def populate(
    environment: Environment,
    target: Target,
    scheme: Scheme,
    abi: Abi,
    library_path: tuple[str, ...] | None = None,
) -> Environment:
    """Add to `environment` the files and directories of `target`: its Python, its libraries.

    Of the libraries that the target has, only those that some object needs are added. Files of
    `environment` are kept; without `library_path`, LD_LIBRARY_PATH is that of the target.
    """
    values = _placeholders(scheme, abi)
    main = _fill(target.program.path, values)
    directories = tuple(_fill(directory, values) for directory in target.directories)
    described = {**_described_files(target, abi, values), main: _main_program(target, abi, values)}
    dependents = (*environment.files.values(), *described.values())
    given = _given_libraries(dependents, target, abi, directories)
    return replace(
        environment,
        libc=target.libc,
        files={**given, **described, **environment.files},
        main=main,
        directories=environment.directories | set(directories),
        default_directories=directories,
        lib=_fill(target.lib, values),
        cache={**target.cache, **environment.cache},
        subdirectories=_subdirectories(target, abi),
        library_path=target.library_path if library_path is None else library_path,
    )


def _subdirectories(target: Target, abi: Abi) -> tuple[str, ...]:
    """Return the subdirectories that glibc tries; the processor's platform is `x86_64`."""
    if abi.machine != Machine.X86_64 or target.libc is not Libc.GLIBC:
        return ()
    release = tuple(map(int, filter(None, target.versions.get("GLIBC", "").split("."))))
    levels = hwcaps(target.cpu) if not release or release >= (2, 33) else ()
    is_legacy = bool(release) and release < (2, 37)
    legacy = legacy_subdirectories(("x86_64", "x86_64")) if is_legacy else ()
    return (*levels, *dict.fromkeys(legacy))


def _described_files(target: Target, abi: Abi, values: Mapping[str, str]) -> dict[str, Elf]:
    """Return the files that the target and its program list, by path."""
    libc = _libc_soname(target, abi)
    files: dict[str, Elf] = {}
    for text, stub in {**target.files, **target.program.files}.items():
        path = _fill(text, values)
        needed = (*(_fill(name, values) for name in stub.needed), libc)
        library = _library(abi, stub.soname or path.rpartition("/")[2])
        files[path] = replace(library, needed=needed)
    return files


def _main_program(target: Target, abi: Abi, values: Mapping[str, str]) -> Elf:
    program = target.program
    return replace(
        _library(abi, None),
        interpreter=f"/lib/ld-{target.libc}.so",
        needed=(*(_fill(name, values) for name in program.needed), _libc_soname(target, abi)),
        rpath=None if program.rpath is None else _fill(program.rpath, values),
        runpath=None if program.runpath is None else _fill(program.runpath, values),
    )


def _given_libraries(
    dependents: Iterable[Elf], target: Target, abi: Abi, directories: Sequence[str]
) -> dict[str, Elf]:
    """Return the libraries of the bare system that `dependents` need, by path."""
    needed = {name for elf in dependents for name in elf.needed if "/" not in name}
    present = sorted(filter(target.has, needed)) if directories else ()
    return {f"{directories[0]}/{name}": _library(abi, name) for name in present}


def _libc_soname(target: Target, abi: Abi) -> str:
    return musl_soname(abi.machine) if target.libc is Libc.MUSL else LIBC_SONAMES[Libc.GLIBC]


def _library(abi: Abi, soname: str | None) -> Elf:
    """Return a shared object with nothing but a SONAME."""
    return Elf(
        machine=abi.machine,
        bits=abi.bits,
        little_endian=abi.little_endian,
        osabi=0,
        flags=0,
        type=ElfType.DYN,
        soname=soname,
    )


def _placeholders(scheme: Scheme, abi: Abi) -> dict[str, str]:
    known = MACHINES.get(abi.machine)
    triplet = known.triplet if known else "unknown-linux-gnu"
    return {
        "{triplet}": triplet,
        "{multiarch}": lib_value(abi.bits, triplet),
        "{lib}": lib_value(abi.bits),
        "{prefix}": scheme.root,
        "{python}": scheme.python,
        "{version}": scheme.python.removeprefix("python").removeprefix("pypy").removesuffix("t"),
    }


def _fill(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(key, value)
    return text
