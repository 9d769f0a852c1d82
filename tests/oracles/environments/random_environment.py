"""Random environments of small libraries, written for one process after the other."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.oracles.installations.objects import LIBRARY, Code, Symbol, shared_object
from tests.support.build import record_text
from wheelfix.elf.constants import DF_STATIC_TLS, DF_SYMBOLIC, Pt
from wheelfix.elf.model import Elf, Segment

SYMBOLS = [f"s{number}" for number in range(8)]
_GLOBAL, _WEAK, _UNIQUE = 1, 2, 10
_ADDRESS, _GOT, _CALL = 1, 6, 7
_NODES = ("V1", "V2")


class Import(NamedTuple):
    """One module, and whether it is opened with RTLD_GLOBAL."""

    path: Path
    for_all: bool


def write_environment(root: Path, program: Path, dice: Random) -> list[Path]:
    """Write a virtual environment whose interpreter is `program`; return its modules."""
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root.parent / "program")
    (root / "bin/python3").symlink_to(root.parent / "program")
    (root / "pyvenv.cfg").touch()
    site = root / "lib/python3.11/site-packages"
    has_common = dice.random() < 0.5
    return [
        _distribution(site, f"d{n}", dice, common=has_common) for n in range(dice.choice((2, 3, 4)))
    ]


def random_order(modules: Sequence[Path], dice: Random) -> list[Import]:
    """Return imports of some modules; one may be opened for all once it is imported."""
    chosen = dice.sample(modules, dice.randint(2, len(modules)))
    imports = [Import(path, for_all=dice.random() < 0.3) for path in chosen]
    if dice.random() < 0.3:
        again = dice.randrange(len(imports))
        imports.insert(dice.randint(again, len(imports)), Import(chosen[again], for_all=True))
    return imports


def _distribution(site: Path, name: str, dice: Random, *, common: bool) -> Path:
    """Write a module, the libraries that it needs beside it, and RECORD."""
    libraries = [f"lib{name}{letter}.so" for letter in "ab"[: dice.randint(0, 2)]]
    if common and dice.random() < 0.7:
        libraries.insert(dice.randint(0, len(libraries)), "libcommon.so")
    written: dict[str, bytes] = {}
    for number, library in enumerate(libraries):
        needed = tuple(later for later in libraries[number + 1 :] if dice.random() < 0.5)
        elf = _with_flags(LIBRARY._replace(soname=library, needed=needed, runpath="$ORIGIN"), dice)
        written[f"{name}/{library}"] = shared_object(elf, _code(dice))
    hook = Symbol(name="PyInit__core", defined=True, kind=2)
    elf = _with_flags(LIBRARY._replace(needed=tuple(libraries), runpath="$ORIGIN"), dice)
    code = _code(dice)
    written[f"{name}/_core.so"] = shared_object(elf, replace(code, symbols=(*code.symbols, hook)))
    info = f"{name}-1.0.dist-info"
    written[f"{info}/RECORD"] = record_text(written, f"{info}/RECORD").encode()
    for path, data in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
    return site / name / "_core.so"


def _with_flags(elf: Elf, dice: Random) -> Elf:
    """Return an object that may look into itself first, and may need or use static TLS.

    Sums of static TLS are clearly below or above what glibc has, and what it has for descriptors.
    """
    if dice.random() < 0.15:
        elf = elf._replace(dt_flags=DF_SYMBOLIC)
    chance = dice.random()
    if chance < 0.6:
        return elf
    has_descriptors = chance < 0.75
    sizes = (112, 240, 600) if has_descriptors else (500, 1000, 1500)
    values = {"type": Pt.TLS, "memsz": dice.choice(sizes), "align": 16}
    segment = Segment(**{**dict.fromkeys(Segment._fields, 0), **values})
    elf = elf._replace(segments=(segment,), tls_descriptors=has_descriptors)
    return elf if has_descriptors else elf._replace(dt_flags=elf.dt_flags | DF_STATIC_TLS)


def _code(dice: Random) -> Code:
    """Return random definitions, and weak references, which never fail."""
    nodes = _NODES if dice.random() < 0.4 else ()
    found: list[Symbol] = []
    for name in SYMBOLS:
        kind = dice.choice(("none", "none", "defined", "defined", "referred"))
        used = kind == "referred" or dice.random() < 0.8  # linkers write no other references
        places = tuple(dice.sample((_ADDRESS, _GOT, _CALL), dice.choice((1, 1, 2)))) if used else ()
        if kind == "defined":
            bind = dice.choice((_GLOBAL, _GLOBAL, _WEAK, _UNIQUE))
            version = dice.choice(nodes) if nodes and dice.random() < 0.8 else None
            found.append(
                Symbol(name=name, defined=True, bind=bind, version=version, relocations=places)
            )
        elif kind == "referred":
            found.append(Symbol(name=name, defined=False, bind=_WEAK, relocations=places))
    return Code(symbols=tuple(found), nodes=nodes, hashes=dice.choice(((4,), (4, 0x6FFFFEF5))))
