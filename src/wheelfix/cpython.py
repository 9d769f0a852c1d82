"""Which names CPython gives to extension modules, by version, and which the stable ABI promises.

The facts are in `data/cpython-api.txt`, which says where they are from. What a version exports
that is not in the list is not known, and neither is what free-threaded builds add.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Final

_PYTHON = re.compile(r"python3\.(\d+)(t?)")
_NAME = re.compile(r"_?P[yY]\w+")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiName:
    """One name of Python's C API."""

    minors: frozenset[int]
    """The minor versions of CPython 3 that export it, among `known_minors()`."""
    stable: int | None
    """The minor version that took it into the stable ABI."""


def is_python_name(symbol: str) -> bool:
    """Return whether `symbol` looks like a name that only a Python interpreter defines."""
    return _NAME.fullmatch(symbol) is not None


def known_minors() -> frozenset[int]:
    """Return the minor versions whose exports are known."""
    return _table()[1]


def api() -> Mapping[str, ApiName]:
    """Return all names that are known."""
    return _table()[0]


def exports(python: str, symbol: str) -> bool | None:
    """Return whether `python` (`python3.11`, `python3.13t`) exports `symbol`, None if not known."""
    match = _PYTHON.fullmatch(python)
    if match is None:
        return None
    minor, threaded = int(match[1]), bool(match[2])
    name = api().get(symbol)
    if minor not in known_minors():
        # Nothing leaves the stable ABI.
        return True if name and name.stable is not None and name.stable <= minor else None
    if name is not None and minor in name.minors:
        return True
    return None if threaded else False


@cache
def _table() -> tuple[Mapping[str, ApiName], frozenset[int]]:
    text = (files("wheelfix") / _DATA).read_text(encoding="ascii")
    lines = [line.partition(" ") for line in text.splitlines() if not line.startswith("#")]
    said = {facts: _api_name(*facts.split()) for facts in {facts for _, _, facts in lines}}
    names = {name: said[facts] for name, _, facts in lines}
    return names, frozenset(minor for each in said.values() for minor in each.minors)


def _api_name(spans: str, stable: str | None = None) -> ApiName:
    minors = () if spans == "-" else _minors(spans)
    return ApiName(minors=frozenset(minors), stable=int(stable) if stable else None)


_DATA: Final = "data/cpython-api.txt"


def _minors(spans: str) -> list[int]:
    """`6-8,10` -> 6, 7, 8, 10."""
    ends = [span.partition("-") for span in spans.split(",")]
    return [n for first, _, last in ends for n in range(int(first), int(last or first) + 1)]
