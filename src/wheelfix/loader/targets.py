"""Machines to explain a wheel on: what a platform and a Python bring, as data.

`data/targets.toml` describes them; a file of the same form describes others. What the platform
gives becomes objects that only have a name: the loader's model then finds them where it looks.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, NamedTuple, cast

from wheelfix.elf.model import Elf, ElfType, Libc, Machine
from wheelfix.errors import SettingsError
from wheelfix.loader.install_schemes import Scheme
from wheelfix.loader.platform_libraries import may_come_from_platform
from wheelfix.loader.search import Environment, hwcaps
from wheelfix.system.resources import read_text
from wheelfix.wheel.model import Wheel
from wheelfix.wheel.platform_tags import (
    ARCHITECTURES,
    oldest_promised,
    parse_platform_tag,
    promised_libcs,
)

TRIPLETS: Mapping[int, str] = {
    Machine.X86_64: "x86_64-linux-gnu",
    Machine.I386: "i386-linux-gnu",
    Machine.AARCH64: "aarch64-linux-gnu",
    Machine.ARM: "arm-linux-gnueabihf",
    Machine.PPC64: "powerpc64le-linux-gnu",
    Machine.S390: "s390x-linux-gnu",
    Machine.RISCV: "riscv64-linux-gnu",
    Machine.LOONGARCH: "loongarch64-linux-gnu",
}
_PAGE = re.compile(r"page:(\d{1,9})(k?)", re.IGNORECASE | re.ASCII)
_LOADERS = ("ld-linux", "ld64.so", "ld-musl-", "libc.musl-")
_PLATFORM_KEYS = {
    "summary", "libc", "promised", "directories", "lib", "python", "families", "gives", "packages",
    "releases", "free_version", "extends", "versions", "program", "library_path", "cpu", "files",
    "cache", "scheme",
}  # fmt: skip
_PROGRAM_KEYS = {"summary", "path", "rpath", "runpath", "needed", "files", "scheme", "extends"}


class Stub(NamedTuple):
    """A library of which only this much is known."""

    needed: tuple[str, ...] = ()
    soname: str | None = None
    """None is the file's own name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The main program: a Python and the libraries that come with it."""

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
    """One described machine. Texts may hold the placeholders of `data/targets.toml`."""

    name: str
    libc: Libc
    program: Program
    directories: tuple[str, ...]
    """The loader's default directories."""
    lib: str = "lib64"
    promised: bool = False
    """Whether it gives whatever some platform tag promises."""
    gives: frozenset[str] = frozenset()
    """The libraries of the bare system."""
    packages: Mapping[str, str] = field(default_factory=dict[str, str])
    """Libraries that are not there at first, and the packages that bring them."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Symbol version prefix -> the newest that is there: `GLIBC` -> `2.36`."""
    files: Mapping[str, Stub] = field(default_factory=dict[str, Stub])
    library_path: tuple[str, ...] = ()
    cache: Mapping[str, str] = field(default_factory=dict[str, str])
    cpu: int = 1
    """The x86-64 level; glibc tries `glibc-hwcaps` from level 2 on."""
    scheme: str | None = None

    def has(self, library: str) -> bool:
        """Whether the bare system gives `library`, a DT_NEEDED name."""
        return (
            library in self.gives
            or library.startswith(_LOADERS)
            or (self.promised and may_come_from_platform(library))
        )


# --- Choosing one -------------------------------------------------------------------------------


def names() -> tuple[str, ...]:
    """Return what `find` knows, releases and Pythons included."""
    data = _presets()
    found: list[str] = []
    for name, table in data["platforms"].items():
        releases = table.get("releases", {})
        found += [f"{name}:{release}" for release in releases] or [name]
    return (*found, *(name for name in data["pythons"] if name not in data["platforms"]))


def find(text: str, wheel: Wheel | None = None) -> Target:
    """Return the target `text`: `debian:12`, `glibc:2.28`, `conda`, `ubuntu:24.04+pyenv`.

    A Python alone stands on the platform that the tags of `wheel` promise. `SettingsError` for
    an unknown name.
    """
    data = _presets()
    first, plus, second = text.partition("+")
    platform, python = (first, second) if plus else (first, None)
    if not plus and platform not in data["platforms"] and platform in data["pythons"]:
        platform, python = default_name(wheel), platform
    target = _platform(platform, data)
    return target if python is None else with_program(target, _program(python, data))


def is_page(name: str) -> bool:
    """Whether a target is not a machine but a size of its memory pages, `page:64k`."""
    return name.lower().startswith("page:")


def page_sizes(names: Iterable[str]) -> tuple[int, ...]:
    """Return the page sizes among the targets, in bytes: `page:64k`.

    Raises `SettingsError` for one that is no power of two from 4 KiB.
    """
    sizes: list[int] = []
    for name in filter(is_page, names):
        match = _PAGE.fullmatch(name)
        size = int(match[1]) * (1024 if match[2] else 1) if match else 0
        if size < 4096 or size & (size - 1):
            raise SettingsError(
                f"`{name}` is no target: `page:` wants a size of memory pages",
                hint="such as page:16k or page:64k",
            )
        sizes.append(size)
    return tuple(sizes)


def newer(version: str, there: str) -> bool:
    """Whether the number `version` is above `there`; names such as PRIVATE are above nothing."""
    parts, known = version.split("."), there.split(".")
    if not all(part.isdecimal() and len(part) < 10 for part in (*parts, *known)):
        return False
    return [int(part) for part in parts] > [int(part) for part in known]


def described(table: Mapping[str, object], name: str) -> Target:
    """Return the target of a description file's `table`, with the keys of a platform there.

    It may begin with `extends = "debian:12"`, and describe its main program under `program`.
    Raises `SettingsError` for keys and values that are none.
    """
    data = _presets()
    base = table.get("extends")
    if base is not None and not isinstance(base, str):
        raise SettingsError(f"`extends` of the target `{name}` must be a name")
    start = find(base) if base is not None else None
    return _target(name, dict(table), data, start)


def default_name(wheel: Wheel | None, beside: Iterable[Sequence[str]] = ()) -> str:
    """Return the name of the platform that the tags of `wheel` promise: `glibc:2.28`, `musl`.

    `beside` are the platform tags of wheels that must be installable there, too.
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


def with_program(target: Target, program: Program) -> Target:
    """Return `target` with another Python."""
    return replace(
        target,
        name=f"{target.name}+{program.name}",
        program=program,
        scheme=program.scheme or target.scheme,
    )


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
    return SettingsError(
        f"`{text}` is no target",
        hint=f"known are {', '.join(names())}, glibc:VERSION, PLATFORM+PYTHON such as "
        "debian:12+conda, and description files (.toml, .json)",
    )


def _target(
    name: str, table: dict[str, Any], data: Mapping[str, Any], base: Target | None
) -> Target:
    _check(table, _PLATFORM_KEYS, f"target `{name}`")
    try:
        libc = Libc(table.get("libc", base.libc if base else Libc.GLIBC))
    except ValueError:
        raise SettingsError(f"`libc` of the target `{name}` must be glibc or musl") from None
    start = base or _bare(name, libc, data)
    gives = {
        *start.gives,
        *_texts(table, "gives"),
        *(
            each
            for family in _texts(table, "families")
            for each in data["families"].get(family, ())
        ),
    }
    if "program" in table:
        program = _described_program(table["program"], start.program)
    else:
        python = table.get("python")
        program = _program(python, data) if python else start.program
    return replace(
        start,
        name=name,
        libc=libc,
        program=program,
        directories=_texts(table, "directories") or start.directories,
        lib=str(table.get("lib", start.lib)),
        promised=bool(table.get("promised", start.promised)),
        gives=frozenset(gives),
        packages={**start.packages, **_mapping(table, "packages")},
        versions={**start.versions, **_mapping(table, "versions")},
        files={**start.files, **_stubs(table)},
        library_path=_texts(table, "library_path") or start.library_path,
        cache={**start.cache, **_mapping(table, "cache")},
        cpu=int(table.get("cpu", start.cpu)),
        scheme=table.get("scheme", start.scheme or program.scheme),
    )


def _bare(name: str, libc: Libc, data: Mapping[str, Any]) -> Target:
    python = "shared" if libc is Libc.MUSL else "static"
    directories = (
        ("/lib", "/usr/local/lib", "/usr/lib") if libc is Libc.MUSL else ("/lib", "/usr/lib")
    )
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
    return replace(
        base,
        path=str(table.get("path", base.path)),
        needed=_texts(table, "needed") if "needed" in table else base.needed,
        rpath=table.get("rpath", base.rpath),
        runpath=table.get("runpath", base.runpath),
        files={**base.files, **_stubs(table)},
        scheme=table.get("scheme", base.scheme),
    )


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
    return tuple(str(each) for each in cast("Iterable[object]", value))


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


# --- Making it an environment -------------------------------------------------------------------


def machine_of(wheel: Wheel) -> tuple[int, bool, int]:
    """Return word size, little endian, and `e_machine` of the machine that `wheel` is for.

    As its platform tags say; where they do not, as most of its objects do.
    """
    for tag in map(parse_platform_tag, wheel.name.platforms):
        if tag.arch in ARCHITECTURES:
            return ARCHITECTURES[tag.arch]
    kinds = [(elf.bits, elf.little_endian, elf.machine) for elf in wheel.elfs.values()]
    return max(kinds, key=kinds.count) if kinds else (64, True, Machine.X86_64)


def populate(
    environment: Environment,
    target: Target,
    scheme: Scheme,
    machine: tuple[int, bool, int],
    library_path: tuple[str, ...] | None = None,
) -> Environment:
    """Add to `environment` what `target` brings: its Python, its libraries, its directories.

    Only libraries that somebody asks for are made. What is in `environment` stays as it is;
    without `library_path`, LD_LIBRARY_PATH is that of the target.
    """
    bits, little_endian, number = machine
    fill = _placeholders(scheme, machine)

    def stub(**fields: Any) -> Elf:  # noqa: ANN401 - the fields of Elf
        return Elf(
            bits=bits,
            little_endian=little_endian,
            machine=number,
            osabi=0,
            flags=0,
            type=ElfType.DYN,
            **fields,
        )

    libc = ("libc.so.6",) if target.libc is Libc.GLIBC else (f"libc.musl-{fill['{musl}']}.so.1",)
    program = target.program
    directories = tuple(_fill(each, fill) for each in target.directories)
    described = {
        _fill(path, fill): stub(
            soname=known.soname or _fill(path, fill).rpartition("/")[2],
            needed=(*(_fill(each, fill) for each in known.needed), *libc),
        )
        for path, known in {**target.files, **program.files}.items()
    }
    main = _fill(program.path, fill)
    described[main] = stub(
        interpreter=f"/lib/ld-{target.libc}.so",
        needed=(*(_fill(each, fill) for each in program.needed), *libc),
        rpath=None if program.rpath is None else _fill(program.rpath, fill),
        runpath=None if program.runpath is None else _fill(program.runpath, fill),
    )
    asked = {
        name for elf in (*environment.files.values(), *described.values()) for name in elf.needed
    }
    given = {
        f"{directories[0]}/{name}": stub(soname=name)
        for name in sorted(asked)
        if "/" not in name and directories and target.has(name)
    }
    level = target.cpu if number == Machine.X86_64 and target.libc is Libc.GLIBC else 1
    return replace(
        environment,
        libc=target.libc,
        files={**given, **described, **environment.files},
        main=main,
        directories=environment.directories | set(directories),
        default_directories=directories,
        lib=_fill(target.lib, fill),
        cache={**target.cache, **environment.cache},
        subdirectories=hwcaps(level) if level > 1 else (),
        library_path=target.library_path if library_path is None else library_path,
    )


def _placeholders(scheme: Scheme, machine: tuple[int, bool, int]) -> dict[str, str]:
    bits, _, number = machine
    triplet = TRIPLETS.get(number, "unknown-linux-gnu")
    return {
        "{triplet}": triplet,
        "{musl}": triplet.partition("-")[0],
        "{lib}": "lib64" if bits == 64 else "lib",
        "{prefix}": scheme.root,
        "{python}": scheme.python,
        "{version}": scheme.python.removeprefix("python").removeprefix("pypy").removesuffix("t"),
    }


def _fill(text: str, values: Mapping[str, str]) -> str:
    for key, value in values.items():
        text = text.replace(key, value)
    return text
