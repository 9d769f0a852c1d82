"""The budget of one input: how much work and memory its contents may cause."""

from collections.abc import Iterable
from typing import Self

from wheelfix.errors import BadWheelError

_STEPS = 3_000_000
"""A step takes about a microsecond."""
_STEPS_PER_BYTE = 1
_MEMORY = 192 << 20
_MEMORY_PER_BYTE = 64
_LARGEST = 1 << 30
"""Bytes of a file, above which the budget does not grow."""
_STEPS_PER_GRAFT = 100_000
"""The copy of a library takes more time than these steps: 130 of Samba's need 7 million more."""
_OF_AN_OBJECT = 20_000
"""Bytes of one of many objects, above which their budget does not grow.

The graph of 27 installed distributions with 550 objects takes 330,000 steps, and 5 MB. But what
one package opens for all is looked at from each import: 1,900 objects take more than 10 million.
"""


class BudgetError(BadWheelError):
    """The contents of a wheel cause more work than its size justifies."""


class Budget:
    """Steps and bytes of memory that are left for what follows the contents of one input.

    Mutable: it is made when a file is opened, and handed to everything that reads or walks what the
    file says. Two threads may spend at the same time, since a lost update changes little.
    """

    def __init__(
        self,
        name: str,
        steps: int = _STEPS,
        memory: int = _MEMORY,
        whole: "Budget | None" = None,
    ) -> None:
        """Start with `steps` and `memory`; `whole` is spent as well.

        `name` is for messages, in backquotes where it is a file's.
        """
        self.name = name
        self.steps = steps
        self.memory = memory
        self._whole = whole

    @classmethod
    def of_file(cls, name: str, size: int) -> Self:
        """Return the budget of a file: what a small one may cause, and more for each byte."""
        size = min(size, _LARGEST)
        return cls(f"`{name}`", _STEPS + _STEPS_PER_BYTE * size, _MEMORY + _MEMORY_PER_BYTE * size)

    @classmethod
    def of_files(cls, sizes: Iterable[int] = ()) -> Self:
        """Return the budget of an environment or a set of wheels, with ELF files of these sizes."""
        budget = cls.of_file("", sum(min(size, _OF_AN_OBJECT) for size in sizes))
        budget.name = "a set of files"
        return budget

    def fit(self, size: int) -> None:
        """Leave no more than a file of `size` bytes may cause."""
        most = Budget.of_file("", size)
        self.steps, self.memory = min(self.steps, most.steps), min(self.memory, most.memory)

    def add_grafts(self, count: int) -> None:
        """Add what `count` libraries may cause that are copied into the wheel."""
        self.steps += count * _STEPS_PER_GRAFT
        self.memory += count * _STEPS_PER_GRAFT * _MEMORY_PER_BYTE

    def share(self, steps: int) -> "Budget":
        """Return a budget of at most `steps`, which are spent from this one as well."""
        return Budget(self.name, min(steps, self.steps), self.memory, self)

    def spend(self, steps: int, what: str, of: str = "", *, memory: int = 0) -> None:
        """Count steps and bytes that are about to be taken for `what`, a part of the file `of`.

        Raises `BudgetError` if they are not left.
        """
        self.steps -= steps
        self.memory -= memory
        if self.steps < 0 or self.memory < 0:
            spent = "work" if self.steps < 0 else "memory"
            part = f"{what} of `{of}`" if of else what
            raise BudgetError(
                f"{self.name} exceeds the {spent} limit for its size: {part}",
                hint="no known build tool writes this; if yours does, please report the wheel",
            )
        if self._whole is not None:
            self._whole.spend(steps, what, of, memory=memory)
