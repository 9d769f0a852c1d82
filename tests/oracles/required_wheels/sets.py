"""Random sets of small wheels: libraries, search paths into each other, symbols, missing files."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Use:
    """How the module of a distribution uses the library or the module of another one."""

    other: int
    """The number of the distribution, lower than that of the user."""
    function: str
    """The function that the module calls."""
    entry: str | None
    """The search path entry of the module; None without one."""
    is_inherited: bool = False
    """Whether the entries are in DT_RPATH, not in DT_RUNPATH."""
    is_imported: bool = False
    """Whether the package imports the other package before its module."""
    is_global: bool = False
    """Whether the function is one of the other module, opened with RTLD_GLOBAL before."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """One wheel of the set: `sSdN/__init__.py`, `sSdN/_core.so`, `sSdN/lib/libN.so.1`."""

    name: str
    number: int
    functions: tuple[str, ...]
    """What the library defines."""
    has_library: bool
    """Whether the library is in the wheel: without, it was forgotten."""
    is_versioned: bool
    """Whether the functions of the library have symbol versions, `V0`, and `V1` for the new one."""
    uses: tuple[Use, ...]
    library_needs: Use | None = None
    """The use of another library by the library of this one."""


def random_set(seed: int) -> tuple[Distribution, ...]:
    """Return the distributions of a seed, in an order in which each requires only former ones."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    found: list[Distribution] = []
    for number in range(chance.randint(3, 8)):
        former = chance.sample(range(number), min(number, chance.choice((0, 1, 1, 2, 3))))
        old = (f"f{number}",)
        found.append(
            Distribution(
                name=f"s{seed}d{number}",
                number=number,
                functions=old if chance.random() < 0.2 else (*old, f"new{number}"),
                has_library=chance.random() > 0.1,
                is_versioned=chance.random() < 0.4,
                uses=tuple(_use(chance, found[other]) for other in former),
                library_needs=(
                    _library_use(chance, found[chance.randrange(number)])
                    if number and chance.random() < 0.3
                    else None
                ),
            )
        )
    return tuple(found)


def _use(chance: random.Random, used: Distribution) -> Use:
    other = used.number
    if chance.random() < 0.2:
        name = f"g{other}" if chance.random() < 0.8 else f"gone{other}"
        return Use(other, name, None, is_global=True)
    right = f"$ORIGIN/../{used.name}/lib"
    entry = chance.choice((right, right, right, right, f"$ORIGIN/../{used.name}/lost", None))
    return Use(
        other=other,
        function=chance.choice((f"f{other}", f"f{other}", f"new{other}")),
        entry=entry,
        is_inherited=chance.random() < 0.5,
        is_imported=chance.random() < 0.3,
    )


def _library_use(chance: random.Random, used: Distribution) -> Use:
    right = f"$ORIGIN/../../{used.name}/lib"
    return Use(used.number, f"f{used.number}", chance.choice((right, right, right, None)))
