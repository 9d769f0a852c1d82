"""Result of loading one object, observed or predicted."""

import os
from dataclasses import dataclass
from pathlib import Path

Edge = tuple[str, str, str | None, str]
"""Dependent, symbol, version, provider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadResult:
    """Files and symbols of one load, observed or predicted."""

    opened: tuple[str, ...]
    tried: tuple[str, ...]
    """The candidates of searches that exist."""
    blamed: str | None
    """The file or library name in the message of a failure."""
    bound: frozenset[Edge] = frozenset()
    unbound: tuple[str, ...] = ()
    """The symbols and versions in the messages of a failure."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The real and the predicted load of one object."""

    wheel: str
    member: str
    real: LoadResult
    model: LoadResult
    message: str
    """The real loader's message."""
    symbols: bool = False
    """Whether it fails because of a symbol."""

    @property
    def differs(self) -> bool:
        """Whether the prediction is wrong."""
        return self.real != self.model


_IDENTITIES: dict[tuple[int, int], str] = {}


def identity(path: str) -> str:
    """Return one path for all names of a file."""
    there = Path(path).stat()
    return _IDENTITIES.setdefault((there.st_dev, there.st_ino), os.path.realpath(path))


def label(symbol: str, version: str | None) -> str:
    """Return `symbol@version`."""
    return f"{symbol}@{version}" if version else symbol
