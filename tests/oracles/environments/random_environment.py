"""Random environments of small libraries, written for one process after the other."""

import shutil
from collections.abc import Mapping, Sequence
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


_OPENINGS = (
    "ctypes.CDLL(os.path.join(os.path.dirname(__file__), {library!r}))",
    "def load():\n    return ctypes.cdll.LoadLibrary(Path(__file__).parent / {library!r})\nload()",
    "try:\n    ctypes.PyDLL(find({library!r})[0])\nexcept OSError:\n    pass",
    "ctypes.CDLL(str(Path(__file__).with_name({library!r})))",
)
_FIND = """
import os

def find(name):
    here = os.path.dirname(os.path.abspath(__file__))
    folders = [os.path.join(here, "lib"), here, os.path.join(here, os.path.pardir)]
    return [path for path in [os.path.join(f, name) for f in folders] if os.path.exists(path)]
"""


class Import(NamedTuple):
    """One object, and whether it is opened with RTLD_GLOBAL."""

    path: Path
    for_all: bool


def write_environment(root: Path, program: Path, dice: Random) -> dict[str, list[Path]]:
    """Write a virtual environment whose interpreter is `program`.

    Returns its packages, each with what its import opens, in turn.
    """
    (root / "bin").mkdir(parents=True)
    shutil.copy(program, root.parent / "program")
    (root / "bin/python3").symlink_to(root.parent / "program")
    (root / "pyvenv.cfg").touch()
    site = root / "lib/python3.11/site-packages"
    has_common = dice.random() < 0.5
    return {
        f"d{n}": _distribution(site, f"d{n}", dice, common=has_common)
        for n in range(dice.choice((2, 3, 4)))
    }


def random_order(
    packages: Mapping[str, Sequence[Path]], dice: Random
) -> tuple[list[str], list[Import]]:
    """Return some packages in turn, and what they open; one may be opened for all, or once more."""
    names = dice.sample(list(packages), dice.randint(2, len(packages)))
    chosen = [path for name in names for path in packages[name]]
    imports = [Import(path, for_all=dice.random() < 0.3) for path in chosen]
    if dice.random() < 0.3:
        again = dice.randrange(len(imports))
        imports.insert(dice.randint(again, len(imports)), Import(chosen[again], for_all=True))
    return names, imports


def _distribution(site: Path, name: str, dice: Random, *, common: bool) -> list[Path]:
    """Write a package, its libraries, and RECORD; return what the import of the package opens.

    That is a module, which may need libraries, and perhaps one that a source opens by its path.
    """
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
    statements = {"_core.so": "from . import _core"}
    if dice.random() < 0.5:
        library = f"lib{name}opened.so"
        needed = tuple(one for one in libraries if dice.random() < 0.4)
        elf = _with_flags(LIBRARY._replace(needed=needed, runpath="$ORIGIN"), dice)
        written[f"{name}/{library}"] = shared_object(elf, _code(dice))
        statements[library] = dice.choice(_OPENINGS).format(library=library)
    opened = dice.sample(list(statements), len(statements))
    imports = "import ctypes, os\nfrom pathlib import Path\nfrom ._find import find\n"
    source = imports + "".join(f"{statements[one]}\n" for one in opened)
    if dice.random() < 0.5:  # what is imported in a source of its own
        written[f"{name}/_opening.py"] = source.encode()
        source = "from ._opening import ctypes\n"
    written[f"{name}/__init__.py"] = source.encode()
    written[f"{name}/_find.py"] = _FIND.encode()
    info = f"{name}-1.0.dist-info"
    written[f"{info}/RECORD"] = record_text(written, f"{info}/RECORD").encode()
    for path, data in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_bytes(data)
    return [site / name / one for one in opened]


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
