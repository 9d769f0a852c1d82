"""Places where a Python source searches for libraries: environment variables, its own folders.

Such code, and not the loader, decides which copy of `libtvm.so` a process gets: it searches the
directories of a variable like PATH, and opens the first file of the name by its path. The source is
read, not run: what a function collects in a list, and then returns or opens, is what it searches,
in the order of its statements.
"""

import ast
import posixpath
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import cast

from wheelfix.budget import Budget, BudgetError
from wheelfix.elf.object_file_names import is_library_glob
from wheelfix.grouping import flatten
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.opening_calls import SEARCHING
from wheelfix.python_sources.parsing import (
    STEPS_PER_EXPRESSION,
    STEPS_PER_SOURCE,
    STEPS_PER_WHEEL,
    is_too_large,
    parse_source,
)
from wheelfix.python_sources.values import PREFIX, SITE, VARIABLE, text
from wheelfix.python_sources.visitor import Visitor
from wheelfix.system.lazy_patterns import lazy_pattern

_HOLE = lazy_pattern(r"%s|\{\w*\}")
_OPENING = lazy_pattern(rb"\b(ctypes|cffi)\b")


class SearchedPlace(NamedTuple):
    """One place of a search."""

    variable: str | None
    """The environment variable; None for the folders of the package itself."""
    line: int | None
    """Where the source reads the variable."""


class LibrarySearch(NamedTuple):
    """What one function of a source, or the source itself, searches for libraries."""

    source: str
    function: str
    """Empty for the body of the module."""
    names: tuple[str, ...]
    """Globs of file names; empty where the source does not name a library."""
    stops: tuple[SearchedPlace, ...]
    """In the order of the search, each variable once."""

    @property
    def variables(self) -> tuple[str, ...]:
        """The variables that are searched before the package's own folders."""
        own = next((n for n, stop in enumerate(self.stops) if stop.variable is None), None)
        return tuple(stop.variable for stop in self.stops[:own] if stop.variable is not None)

    def concerns(self, library: str) -> bool:
        """Return whether it looks for `library`, the path of an object below site-packages."""
        base = posixpath.basename(library)
        if self.names:
            return any(fnmatchcase(base, name) for name in self.names)
        own = any(stop.variable is None for stop in self.stops)
        return own and library.partition("/")[0] == self.source.partition("/")[0]


class LibrarySearches(NamedTuple):
    """What sources search for libraries, as far as they were followed."""

    found: tuple[LibrarySearch, ...] = ()
    unfollowed: tuple[str, ...] = ()
    """Sources that exceeded a limit: they may search elsewhere, too."""


MAX_SOURCE = 8 << 20
"""Bytes; larger files are not written by hand, and need not be read."""


def searches(source: bytes, path: str, budget: Budget | None = None) -> LibrarySearches:
    """Return the searches of the source at `path`, below site-packages, that read a variable.

    The walk ends when `budget` is spent. A file that is not Python of this version has none.
    """
    if b"environ" not in source and b"getenv" not in source:
        return LibrarySearches()
    own = (budget or Budget(path, STEPS_PER_WHEEL)).share(STEPS_PER_SOURCE)
    is_concerned = bool(SEARCHING.search(source))
    unfollowed = (path,) if is_concerned else ()
    try:
        own.spend(STEPS_PER_EXPRESSION * (len(source) >> 4), "a Python source", path)
    except BudgetError:
        return LibrarySearches(unfollowed=unfollowed)
    tree = parse_source(source)
    if tree is None:
        return LibrarySearches(unfollowed=unfollowed if is_too_large(source) else ())
    visitor = Visitor(path, {}, own)
    with suppress(BudgetError, RecursionError):  # what was found until then is true
        visitor.visit_functions(visitor.visit_module(tree))
        unfollowed = ()
    if not is_concerned and not _OPENING.search(source):
        return LibrarySearches(unfollowed=unfollowed)
    places = {function: _places(results) for function, results in visitor.results.items()}
    stops = {name: at for name, at in places.items() if any(place.variable for place in at)}
    called = {name for function in stops for name in visitor.calls[function] if name != function}
    names = tuple(dict.fromkeys(_names(tree)))
    found_searches = tuple(
        LibrarySearch(source=path, function=function, names=names, stops=stopping)
        for function, stopping in stops.items()
        if function not in called
    )
    return LibrarySearches(found_searches, unfollowed)


def join_searches(many: Iterable[LibrarySearches]) -> LibrarySearches:
    """Return the searches of several sources."""
    parts = tuple(many)
    return LibrarySearches(
        tuple(flatten(part.found for part in parts)),
        tuple(flatten(part.unfollowed for part in parts)),
    )


def _places(results: Iterable[object]) -> tuple[SearchedPlace, ...]:
    """Return the places that values lead to, each variable once."""
    first: dict[str | None, SearchedPlace] = {}
    for value in results:
        if isinstance(value, tuple):
            places = _places(cast("tuple[object, ...]", value))
        elif match := VARIABLE.match(text(value)):
            places = (SearchedPlace(variable=match[2], line=int(match[1])),)
        else:
            own = text(value).startswith((SITE, PREFIX))
            places = (SearchedPlace(variable=None, line=None),) if own else ()
        for place in places:
            first.setdefault(place.variable, place)
    return tuple(first.values())


def _names(tree: ast.Module) -> Iterator[str]:
    """Yield the file names of libraries in the texts of a source; fields to format become `*`."""
    skipped = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}  # docstrings
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                skipped |= {id(part) for part in parts}
                text = "".join(
                    str(part.value) if isinstance(part, ast.Constant) else "*" for part in parts
                )
            case ast.Constant(value=str() as value) if id(node) not in skipped:
                text = _HOLE.sub("*", value)
            case _:
                continue
        base = posixpath.basename(text)
        if is_library_glob(base):
            yield base
