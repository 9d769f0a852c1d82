"""Random link graphs: an object, and the libraries that it is linked with."""

# ruff: noqa: S311 -- dice need no secrecy
import random
from dataclasses import dataclass, replace

SYMBOLS = [f"s{n}" for n in range(8)]


@dataclass(frozen=True, kw_only=True)
class Code:
    """What one object file defines and refers to."""

    defines: tuple[str, ...] = ()
    weakly: tuple[str, ...] = ()
    """Weak definitions."""
    old: tuple[str, ...] = ()
    """Of what is defined: also there in an older, hidden version."""
    refers: tuple[str, ...] = ()
    refers_weakly: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One shared library of a graph."""

    name: str
    code: Code
    versioned: bool = False
    needed: tuple[str, ...] = ()
    """Libraries that it is linked with; what else it refers to, it does not say."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """An object, and the libraries that it is linked with, in order."""

    libraries: tuple[Shared, ...]
    objects: tuple[Code, ...]
    order: tuple[str, ...]
    program: bool = False


def random_graph(seed: int) -> Graph:
    """Throw the dice for a graph; the same seed gives the same graph."""
    dice = random.Random(seed)
    names = [f"libw{letter}.so" for letter in "abcdef"[: dice.randint(2, 6)]]
    libraries: list[Shared] = []
    for number, name in enumerate(names):
        known = names[:number]
        needed = tuple(dice.sample(known, dice.randint(0, min(2, len(known)))))
        libraries.append(
            Shared(
                name=name,
                code=_random_code(dice, most=3),
                versioned=dice.random() < 0.5,
                needed=needed,
            )
        )
    objects = [_random_code(dice, most=most) for most in (1, 0)[: dice.randint(1, 2)]]
    order = tuple(dice.sample(names, len(names)))
    program = dice.random() < 0.2
    if program:  # the linker refuses undefined symbols there
        defined = {name for each in libraries for name in each.code.defines}
        objects = [_referring_to(code, defined) for code in objects]
    return Graph(libraries=tuple(libraries), objects=tuple(objects), order=order, program=program)


def loadable(graph: Graph) -> Graph:
    """Leave out the references of libraries to what none of them defines."""
    defined = {name for library in graph.libraries for name in library.code.defines}
    return replace(
        graph,
        libraries=tuple(
            replace(library, code=_referring_to(library.code, defined))
            for library in graph.libraries
        ),
    )


def _referring_to(code: Code, defined: set[str]) -> Code:
    return replace(code, refers=tuple(name for name in code.refers if name in defined))


def _random_code(dice: random.Random, *, most: int) -> Code:
    """Define up to `most` symbols, and refer to some of the others and of its own."""
    symbols = dice.sample(SYMBOLS, len(SYMBOLS))
    defines, rest = symbols[: dice.randint(0, most)], symbols[most:]
    refers = rest[: dice.randint(0, 3)]
    weak = rest[len(refers) : len(refers) + dice.randint(0, 2)]
    return Code(
        defines=tuple(defines),
        weakly=tuple(each for each in defines if dice.random() < 0.2),
        old=tuple(each for each in defines if dice.random() < 0.2),
        refers=(*refers, *(name for name in defines if dice.random() < 0.7)),
        refers_weakly=tuple(weak),
    )
