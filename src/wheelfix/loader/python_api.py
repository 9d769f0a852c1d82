"""Python's C API: the symbols that each CPython version exports, and those of the stable ABI.

`cpython-api.txt` lists them, and its sources. The additional symbols of free-threaded builds are
not listed.
"""

from collections.abc import KeysView, Sequence
from functools import cache, lru_cache

from wheelfix.elf.constants import MODULE_HOOKS
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import matches_any
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.packaged_text import read_lines
from wheelfix.text import them

_PYTHON = lazy_pattern(r"python3\.(\d+)(t?)")
PREFIXES = ("Py", "_Py", "PY_")
"""How the names begin that only a Python interpreter defines."""
MODULE_SUFFIX = lazy_pattern(
    r"\.(?:cpython-3(?P<cpython>\d+)(?P<flags>[a-z]*)(?:-(?P<platform>[\w-]+))?"
    r"|pypy3(?P<pypy>\d+)-pp\d+(?:-(?P<pypy_platform>[\w-]+))?"
    r"|(?P<abi3>abi3t?))\.so$"
)
"""The suffixes that only extension modules have, over all Pythons (PEP 3149, PEP 384, PEP 803).

`importlib.machinery.EXTENSION_SUFFIXES` has also `.so`.
"""
_INIT, _INIT_U, _EXPORT, _EXPORT_U, _CFFI = MODULE_HOOKS
LIBPYTHON_GLOBS = (
    *("libpython[0-9]*.[0-9]*.so", "libpython[0-9]*.[0-9]*.so.*", "libpython[0-9].so"),
    *("libpython[0-9].so.*", "libpython[0-9]t.so", "libpypy-c.so", "libpypy[0-9]*-c.so"),
)
"""The libraries of interpreters: of CPython with its flags (`libpython3.14t.so.1.0`, `d`, `m`), of
its stable ABI (`libpython3.so`, Makefile.pre.in), and of PyPy."""


class ApiName(NamedTuple):
    """One name of Python's C API."""

    minors: frozenset[int]
    """The minor versions of CPython 3 that export it, among `minor_versions()`."""
    stable: int | None
    """The minor version that added it to the stable ABI."""


def init_functions(module: str, python: str = "") -> tuple[str, ...]:
    """Return the functions that a Python looks up to import an extension module of this name.

    `_PyImport_GetModInitFunc` in Python/importdl.c, PEP 489, PEP 793; of PyPy also that which
    cffi's modules have alone, `load_extension_module` in pypy/module/cpyext/api.py.
    """
    of_cffi = (f"{_CFFI}{module}",) if python.startswith("pypy") else ()
    if module.isascii():
        return f"{_INIT}{module}", f"{_EXPORT}{module}", *of_cffi
    name = module.encode("punycode").decode("ascii").replace("-", "_")
    return f"{_INIT_U}{name}", f"{_EXPORT_U}{name}", *of_cffi


@lru_cache(1 << 12)
def is_libpython(name: str) -> bool:
    """Return whether `name`, a file name, is that of the library of an interpreter."""
    return matches_any(name, LIBPYTHON_GLOBS)


def is_python_name(symbol: str) -> bool:
    """Return whether `symbol` looks like a name that only a Python interpreter defines."""
    return symbol.startswith(PREFIXES)


@cache
def minor_versions() -> frozenset[int]:
    """Return the minor versions whose exports are known."""
    runs = {facts.partition(" ")[0] for facts in _facts().values()}
    return frozenset(flatten(map(_minors, runs)))


def names() -> KeysView[str]:
    """Return all listed names."""
    return _facts().keys()


def versions_with(names: Sequence[str]) -> str:
    """Return which versions of CPython export all of `names`."""
    known = [symbol for name in names if (symbol := find(name)) is not None]
    minors = minor_versions()
    for symbol in known:
        minors &= symbol.minors
    if not minors:
        since = [symbol.stable for symbol in known if symbol.stable and not symbol.minors]
        known_since = f"CPython has {them(names)} since 3.{max(since, default=0)}"
        return known_since if since else "no version has all of them"
    first, last = min(minors), max(minors)
    since_first = f" since 3.{first}" if first > min(minor_versions()) else ""
    until_last = f" until 3.{last}" if last < max(minor_versions()) else ""
    return f"CPython has {'it' if len(names) == 1 else 'all of them'}{since_first}{until_last}"


def find(name: str) -> ApiName | None:
    """Return the entry of `name`, None if it is not listed."""
    facts = _facts().get(name)
    if facts is None:
        return None
    spans, _, stable = facts.partition(" ")
    return ApiName(minors=_minors(spans), stable=int(stable) if stable else None)


def exports(python: str, symbol: str) -> bool | None:
    """Return whether `python` (`python3.11`, `python3.13t`) exports `symbol`, None if not known."""
    match = _PYTHON.fullmatch(python)
    if match is None:
        return None
    minor, threaded = int(match[1]), bool(match[2])
    name = find(symbol)
    if minor not in minor_versions():
        # Nothing is ever removed from the stable ABI.
        return True if name and name.stable is not None and name.stable <= minor else None
    if name is not None and minor in name.minors:
        return True
    return None if threaded else False


@cache
def _facts() -> dict[str, str]:
    """Return the lines of the list by name; they are parsed at look-up."""
    lines = (line.partition(" ") for line in read_lines("wheelfix.loader", "cpython-api.txt"))
    return {name: facts for name, _, facts in lines}


@cache
def _minors(spans: str) -> frozenset[int]:
    """`6-8,10` -> 6, 7, 8, 10; `-` -> none."""
    if spans == "-":
        return frozenset()
    ends = [span.partition("-") for span in spans.split(",")]
    return frozenset(flatten(range(int(first), int(last or first) + 1) for first, _, last in ends))
