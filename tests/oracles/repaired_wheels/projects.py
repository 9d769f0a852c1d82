"""Random projects: libraries of the machine, and the objects of a wheel that need them."""

# ruff: noqa: S311 -- dice need no secrecy
import os
import random
from dataclasses import dataclass
from enum import StrEnum

from tests.oracles.link_graphs.graphs import SYMBOLS, Code

FOLDERS = ("c0", "c1", "c2")
"""Of the machine's libraries."""
SITE = "lib/python3.11/site-packages"
DATA, SCRIPTS = "demo-1.0.data/data/lib", "demo-1.0.data/scripts"
PLACES = {
    "pkg": f"{SITE}/pkg",
    "pkg/sub": f"{SITE}/pkg/sub",
    "demo-1.0.data/platlib/pkg": f"{SITE}/pkg",
    DATA: "lib",
    SCRIPTS: "bin",
}
"""Of the wheel's members -> where a virtual environment has them."""


class Kind(StrEnum):
    """What loads an object."""

    LIBRARY = "library"
    MODULE = "module"
    PROGRAM = "program"


@dataclass(frozen=True, kw_only=True)
class Object:
    """One object to link."""

    number: int
    name: str
    folder: str
    soname: str | None
    code: Code
    kind: Kind = Kind.LIBRARY
    versioned: bool = False
    symbolic: bool = False
    calls: tuple[str, ...] = ()
    """Functions that it would call: bound when called, if `lazy`."""
    lazy: bool = False
    needed: tuple["Object", ...] = ()
    search: tuple[str, ...] = ()
    """Folders of DT_RPATH or DT_RUNPATH: of the machine, or from `$ORIGIN`."""
    rpath: bool = False
    """DT_RPATH rather than DT_RUNPATH."""

    def closure(self) -> tuple["Object", ...]:
        """List it and all that it needs, in the order in which the loader looks up symbols."""
        found: dict[int, Object] = {self.number: self}
        queue = [self]
        while queue:
            each = queue.pop(0)
            new = [other for other in each.needed if other.number not in found]
            found |= {other.number: other for other in new}
            queue += new
        return tuple(found.values())

    def reads(self) -> int:
        """Return the number of its references."""
        return len(self.code.refers) + len(self.code.refers_weakly)


@dataclass(frozen=True, kw_only=True)
class Project:
    """What a random wheel is made of."""

    machine: tuple[Object, ...]
    wheel: tuple[Object, ...]
    library_path: tuple[str, ...]
    """Folders of LD_LIBRARY_PATH during the repair."""
    scheme: str
    orders: tuple[tuple[int, ...], ...]
    """Numbers of objects of the wheel to load one after the other in one process."""


def random_project(seed: int) -> Project:
    """Throw the dice for a project; the same seed gives the same project."""
    dice = random.Random(seed)
    machine: list[Object] = []
    for number in range(dice.randint(2, 6)):
        machine.append(_library(dice, number, machine))
    wheel: list[Object] = []
    for number in range(len(machine), len(machine) + dice.randint(1, 4)):
        wheel.append(_member(dice, number, machine, wheel))
    loaded = [each.number for each in wheel if each.kind is not Kind.PROGRAM]
    return Project(
        machine=tuple(machine),
        wheel=tuple(wheel),
        library_path=tuple(folder for folder in FOLDERS if dice.random() < 0.15),
        scheme=dice.choice(("venv", "venv", "debian", "lib64")),
        orders=tuple(tuple(dice.sample(loaded, len(loaded))) for _ in range(2))
        if len(loaded) > 1
        else (),
    )


def _library(dice: random.Random, number: int, others: list[Object]) -> Object:
    folder = dice.choice(FOLDERS)
    taken = {each.soname for each in others if each.folder == folder}
    twins = sorted({str(each.soname) for each in others} - taken)
    soname = f"libw{number}.so.1"
    if twins and dice.random() < 0.4:
        soname = dice.choice(twins)
    needed = _needed(dice, others, most=2)
    return Object(
        number=number,
        name=soname,
        folder=folder,
        soname=soname,
        code=_code(dice, needed, most=4),
        versioned=dice.random() < 0.3,
        symbolic=dice.random() < 0.1,
        lazy=dice.random() < 0.3,
        calls=_calls(dice, needed),
        needed=needed,
        search=_search(dice, folder, needed),
        rpath=dice.random() < 0.4,
    )


def _member(
    dice: random.Random, number: int, machine: list[Object], others: list[Object]
) -> Object:
    folder = dice.choice(("pkg", *PLACES))
    kind = dice.choice((Kind.LIBRARY, Kind.MODULE, Kind.MODULE))
    if folder in {DATA, SCRIPTS}:
        kind = Kind.LIBRARY
    if folder == SCRIPTS or dice.random() < 0.1:
        kind = Kind.PROGRAM
    names = {
        Kind.LIBRARY: f"libown{number}.so",
        Kind.MODULE: f"_m{number}.cpython-311-x86_64-linux-gnu.so",
        Kind.PROGRAM: f"program{number}",
    }
    own = [each for each in others if each.soname and dice.random() < 0.4]
    needed = (*own, *_needed(dice, machine, most=3))
    if dice.random() < 0.5:
        needed = tuple(dice.sample(needed, len(needed)))
    return Object(
        number=number,
        name=names[kind],
        folder=folder,
        soname=names[kind] if kind is Kind.LIBRARY else None,
        code=_code(dice, needed, most=2),
        kind=kind,
        versioned=kind is Kind.LIBRARY and dice.random() < 0.2,
        symbolic=dice.random() < 0.1,
        lazy=dice.random() < 0.3,
        calls=_calls(dice, needed),
        needed=needed,
        search=_search(dice, folder, needed),
        rpath=dice.random() < 0.4,
    )


def _needed(dice: random.Random, others: list[Object], most: int) -> tuple[Object, ...]:
    """Choose some of the others; no two of one name, of which the linker would write one."""
    chosen = dice.sample(others, min(len(others), dice.randint(0, most)))
    return tuple({each.name: each for each in chosen}.values())


def _search(dice: random.Random, folder: str, needed: tuple[Object, ...]) -> tuple[str, ...]:
    """Name the folder of each needed object, in most cases; sometimes others, too."""
    found = [_entry(dice, folder, each.folder) for each in needed if dice.random() < 0.96]
    if dice.random() < 0.2:
        found.append(dice.choice(FOLDERS))
    return tuple(dict.fromkeys(found))


def _entry(dice: random.Random, folder: str, other: str) -> str:
    if other in PLACES:
        way = os.path.relpath(PLACES[other], PLACES[folder])
        return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
    if folder in PLACES:
        return other
    if folder == other:
        return dice.choice(("$ORIGIN", folder))
    return dice.choice((f"$ORIGIN/../{other}", other))


def _code(dice: random.Random, needed: tuple[Object, ...], most: int) -> Code:
    """Define up to `most` symbols, and refer to what others define, or the needed ones refer to."""
    defines = dice.sample(SYMBOLS, dice.randint(0, most))
    near = {name for each in needed for name in each.code.defines}
    far = {name for each in needed for other in each.closure() for name in other.code.defines}
    known = sorted(near | (far if dice.random() < 0.4 else set[str]()) | {*defines})
    refers = dice.sample(known, dice.randint(0, min(4, len(known))))
    if dice.random() < 0.04:
        refers.append(dice.choice(SYMBOLS))
    rest = [name for name in SYMBOLS if name not in refers]
    return Code(
        defines=tuple(defines),
        weakly=tuple(each for each in defines if dice.random() < 0.15),
        old=tuple(each for each in defines if dice.random() < 0.2),
        refers=tuple(dict.fromkeys(refers)),
        refers_weakly=tuple(dice.sample(rest, dice.choice((0, 0, 0, 1)))),
    )


def _calls(dice: random.Random, needed: tuple[Object, ...]) -> tuple[str, ...]:
    known = sorted({name for each in needed for name in each.code.defines})
    names = SYMBOLS if dice.random() < 0.1 else known
    return (dice.choice(names),) if names and dice.random() < 0.3 else ()
