"""Random installations; the same seed gives the same one."""

# ruff: noqa: S311 -- dice need no secrecy
import os
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.oracles.installations.cache import (
    AVX512_1,
    HASWELL,
    HWCAPS,
    TLS,
    USABLE,
    X86_64,
    Entry,
    named,
)
from tests.oracles.installations.case import (
    CWD,
    DIRECTORIES,
    NAMES,
    SYMBOLS,
    SYSTEM,
    Case,
    Step,
    write_files,
)
from tests.oracles.installations.objects import (
    GNU_HASH,
    INVALID_BYTES,
    JUMP_SLOT,
    LIBRARY,
    Code,
    Symbol,
)
from wheelfix.elf.constants import DF_1_NODEFLIB
from wheelfix.elf.model import Elf, ElfType, Filtee, Libc, Machine
from wheelfix.host.reachable_files import read_process
from wheelfix.loader.load_values import Environment, SearchOutcome


@cache
def _machine() -> Environment:
    return read_process(os.path.realpath(sys.executable), [])


def random_case(seed: int, root: Path, libc: Libc, programs: Sequence[tuple[Path, Elf]]) -> Case:
    """Throw the dice for an installation, and make it; the same seed gives the same one."""
    dice = random.Random(seed)
    root = root.resolve()
    directories = {f"{root}/{each}" for each in [*DIRECTORIES, "bin", "d1/sub/deep"]}
    files: dict[str, Elf] = {}
    codes: dict[str, Code] = {}
    broken: dict[str, SearchOutcome] = {}
    links: dict[str, str] = {CWD: f"{root}/d2"}
    hard_links: dict[str, str] = {}
    if dice.random() < 0.4:
        links[f"{root}/linked"] = dice.choice(["d1", f"{root}/d2", "d1/../d0"])
    places = [f"{root}/{folder}/{name}" for folder in DIRECTORIES for name in NAMES]
    program, main = dice.choice(programs)
    first = [f"{root}/{each}" for each in _places_of_needed(main)]
    chosen = dice.sample(places, dice.randint(8, 32))
    for path in dict.fromkeys([*first, *chosen]):
        kind = dice.random() * (0.9 if path in first else 1)
        if kind < 0.82 or not files:
            files[path] = random_library(dice, path, str(root))
            codes[path] = random_code(dice, path, files[path].needed)
        elif kind < 0.87:
            links[path] = dice.choice([*files, "/nowhere/x.so", "../d0/libwb.so", path])
        elif kind < 0.92:
            original = dice.choice([each for each in files if each not in hard_links])
            files[path], hard_links[path] = files[original], original
        elif kind < 0.97:
            files[path] = random_unloadable(dice)
        elif kind < 0.985:
            broken[path] = SearchOutcome.NOT_ELF
        else:
            directories.add(path)
    files[f"{root}/bin/probe"] = main
    search = random_entries(dice, str(root)) if dice.random() < 0.4 else []
    here = _machine()
    environment = Environment(
        libc=libc,
        files=files,
        broken=broken,
        directories=frozenset(directories),
        links=links,
        hard_links=hard_links,
        cwd=f"{root}/d2",
        main=f"{root}/bin/probe",
        loaded={"libc.so.6": "/lib/libc.so.6"} if libc is Libc.GLIBC else {},
        library_path=tuple(search) if search != [""] else (),
        default_directories=tuple(SYSTEM),
        lib=here.lib,
        platform=here.platform,
        subdirectories=here.subdirectories if libc is Libc.GLIBC else (),
    )
    steps: list[Step] = []
    for _ in range(6):
        steps.append(random_step(dice, str(root), list(files), steps))
    entries = random_cache(dice, str(root)) if dice.random() < 0.5 else None
    written = write_files(environment, codes, program, entries)
    return Case(root=root, environment=written, steps=tuple(steps))


def _places_of_needed(program: Elf) -> list[str]:
    """Return where the program's libraries must be, so that it starts more often than not."""
    folders = [each.rpartition("/")[2] for each in (program.search_path or "").split(":")]
    return [f"{folders[-1]}/{name}" for name in program.needed if name in NAMES]


def random_library(dice: random.Random, path: str, root: str) -> Elf:
    """Throw the dice for what a library says of files."""
    name = path.rpartition("/")[2]
    soname = dice.choice([name, name, name, None, dice.choice(NAMES)])
    needed = dice.sample(NAMES, dice.choice([0, 0, 0, 1, 1, 2, 3]))
    if dice.random() < 0.15:
        other = dice.choice(NAMES)
        needed.append(
            dice.choice([f"$ORIGIN/{other}", f"{root}/d1/{other}", f"./{other}", "libnone.so", ""])
        )
    paths = [None, ":".join(random_entries(dice, root)), ":".join(random_entries(dice, root))]
    rpath, runpath = dice.choice(
        [(None, None), (paths[1], None), (paths[1], None), (None, paths[1]), (paths[1], paths[2])]
    )
    return LIBRARY._replace(
        soname=soname,
        needed=tuple(needed),
        filtees=tuple(random_filtees(dice, name, needed)),
        rpath=rpath,
        runpath=runpath,
        dt_flags_1=DF_1_NODEFLIB if dice.random() < 0.1 else 0,
    )


def random_filtees(dice: random.Random, name: str, needed: Sequence[str]) -> Iterator[Filtee]:
    """Throw the dice for libraries that are searched before this one.

    They come later in the alphabet: glibc runs out of memory if two libraries filter each other.
    """
    position = 0
    for other in NAMES[NAMES.index(name) + 1 :]:
        if dice.random() < 0.06:
            position = dice.randint(position, len(needed))
            yield Filtee(other, required=dice.random() < 0.4, position=position)


def random_cache(dice: random.Random, root: str) -> list[Entry]:
    """Throw the dice for ld.so.cache: stale entries, other machines, subdirectories."""
    hwcaps = [0, 0, 0, *(named(index) for index in range(len(HWCAPS)))]
    hwcaps += [TLS, X86_64, TLS | X86_64, AVX512_1, HASWELL]
    folders = [*(f"{root}/{folder}" for folder in DIRECTORIES), *SYSTEM, f"{root}/nowhere"]
    return [
        Entry(
            name=dice.choice(NAMES),
            path=f"{dice.choice(folders)}/{dice.choice(NAMES)}",
            flags=dice.choice([*([USABLE] * 5), 3, 0x803]),
            hwcap=dice.choice(hwcaps),
        )
        for _ in range(dice.randint(0, 10))
    ]


def random_code(dice: random.Random, path: str, needed: Sequence[str]) -> Code:
    """Throw the dice for what a library says of symbols."""
    nodes = dice.choice([(), (), (), ("V1", "V2"), ("V1", "V2"), ("V1", "V2", "V3")])
    names = dice.sample(SYMBOLS, len(SYMBOLS))
    split = dice.randint(0, 5)
    defined = {*names[:split], *(("s1", "s2") if "libwa" in path else ())}
    symbols: list[Symbol] = []
    for name in sorted(defined):
        symbols += random_definitions(dice, name, nodes)
    bare = [each for each in needed if each and "/" not in each and each != "libnone.so"]
    for name in [each for each in names if each not in defined][: dice.randint(0, 5)]:
        labelled = bool(bare) and dice.random() < 0.4
        symbols.append(
            Symbol(
                name=name,
                defined=False,
                bind=dice.choice([1, 2, 2, 2, 2, 2]),
                version=dice.choice(["V1", "V1", "V1", "V2", "V2", "V2", "V2", "V3"])
                if labelled
                else None,
                file=dice.choice(bare) if labelled else None,
                optional=labelled and dice.random() < 0.3,
                relocations=random_relocations(dice),
            )
        )
    return Code(
        symbols=tuple(symbols),
        nodes=nodes,
        symbolic=dice.random() < 0.1,
        hashes=dice.choice([(4,), (GNU_HASH,), (4, GNU_HASH)]),
    )


def random_definitions(dice: random.Random, name: str, nodes: Sequence[str]) -> Iterator[Symbol]:
    """Yield one definition of a symbol, or two in different versions."""
    version = dice.choice([*nodes, *nodes, None]) if nodes else None
    newest = Symbol(
        name=name,
        defined=True,
        bind=dice.choice([1, 1, 1, 1, 2, 10]),
        kind=dice.choice([0, 1, 1, 2]),
        protected=dice.random() < 0.1,
        version=version,
        hidden=version is not None and dice.random() < 0.15,
        relocations=random_relocations(dice) if dice.random() < 0.7 else (),
    )
    yield newest
    older = [each for each in nodes if version is not None and each < version]
    if older and dice.random() < 0.5:
        yield replace(newest, version=dice.choice(older), hidden=True)


def random_relocations(dice: random.Random) -> tuple[int, ...]:
    """Choose how a symbol is referred to: by address, through the GOT, by a call."""
    return tuple(dice.sample([1, 6, JUMP_SLOT], dice.choice([1, 1, 1, 2])))


def random_entries(dice: random.Random, root: str) -> list[str]:
    """Throw the dice for a search path."""
    choices = [
        "$ORIGIN",
        "${ORIGIN}/../d0",
        "$ORIGIN/../d1",
        "$ORIGIN/../d1/sub/",
        "$ORIGIN/../d2//",
        "$ORIGIN/../d1/../d2",
        "$ORIGIN/../nowhere/../d1",
        "$ORIGIN/../linked",
        "$ORIGIN/../linked/../d2",
        "$ORIGIN/../../d0",
        "$ORIGIN/../d1/sub/deep/../../../d0",
        f"{root}/d0",
        f"{root}/d2/",
        f"{root}/linked",
        "/nowhere",
        "$ORIGIN/../$LIB",
        f"{root}/${{LIB}}/",
        "",
        "sub",
        "../d1",
        "$ORIGINAL/d0",
        "'$ORIGIN/../d1'",
        "$LIB",
        "$ORIGIN/../$PLATFORM",
        "${LIB}c/x",
    ]
    weights = [6] * 13 + [1] * (len(choices) - 13)
    return dice.choices(choices, weights=weights, k=dice.choice([1, 1, 2, 3, 5]))


def random_unloadable(dice: random.Random) -> Elf:
    """Choose an object that cannot be loaded."""
    return dice.choice(
        [
            LIBRARY._replace(bits=32, machine=Machine.I386),
            LIBRARY._replace(machine=Machine.AARCH64),
            LIBRARY._replace(type=ElfType.REL),
            LIBRARY._replace(osabi=dice.choice([3, 9]), abi_version=dice.choice([0, 1, 9])),
            LIBRARY._replace(valid_header=False, flags=dice.randrange(len(INVALID_BYTES))),
        ]
    )


def random_step(
    dice: random.Random, root: str, files: Sequence[str], before: Sequence[Step]
) -> Step:
    """Throw the dice for one dlopen, by the program or by a library opened before."""
    name, folder = dice.choice(NAMES), dice.choice([*DIRECTORIES, "linked"])
    libraries = [each for each in files if not each.endswith("/probe")]
    callers = [each.name for each in before if each.name in libraries]
    if callers and dice.random() < 0.3:
        return Step(name=name, mode=dice.choice("nng"), caller=dice.choice(callers))
    spelled = [name, f"{root}/{folder}/{name}", f"{root}/bin/../{folder}/{name}"]
    spelled += [f"../{folder}/{name}", *([dice.choice(libraries)] * 4)]
    return Step(name=dice.choice(spelled), mode=dice.choice("nnnnggd"))
