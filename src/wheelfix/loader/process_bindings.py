"""What symbols bind to in one process that loads one object after the other (glibc).

As `_dl_relocate_object` does it: an object is bound once, when it is loaded first, in the global
scope and then in that of its own load. A STB_GNU_UNIQUE symbol has one definition in the process.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wheelfix.elf.constants import DF_SYMBOLIC
from wheelfix.loader.load_values import Load
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex


class Symbol(NamedTuple):
    """What an object looks up."""

    name: str
    version: str | None


class Binding(NamedTuple):
    """A symbol of one object, and the object whose definition it gets; both are paths."""

    symbol: str
    user: str
    provider: str
    version: str | None = None
    """The version that is looked up."""


Lookups = Callable[[str], Mapping[tuple[str, ...], Sequence[Symbol]]]
"""Object -> the objects that can provide the same of what it looks up -> this."""


class ProcessBindings:
    """One process. Mutable."""

    def __init__(self, index: SymbolIndex, lookups: Lookups, start: Iterable[str]) -> None:
        """Begin with the objects of the main program, which all others find."""
        self._index = index
        self._lookups = lookups
        self._global = dict.fromkeys(start)
        self._bound = set(self._global)
        self._unique: dict[str, str] = {}

    def open(
        self, load: Load, *, for_all: bool = False, users: Collection[str] | None = None
    ) -> Iterator[Binding]:
        """Load the objects of a dlopen that succeeds; yield what their symbols bind to.

        `for_all` (RTLD_GLOBAL) adds them to the global scope. What is not defined is left out, and
        so are the symbols of other objects than `users`, by default of none.
        """
        scope = Scope(dict.fromkeys((*self._global, *load.objects)), self._index)
        new = [path for path in load.objects if path not in self._bound]
        self._bound.update(new)
        for path in dependencies_first(load, new):
            yield from self._bind(path, scope, is_asked=users is None or path in users)
        if for_all:
            self._global |= dict.fromkeys(load.objects)

    def _bind(self, path: str, scope: Scope, *, is_asked: bool) -> Iterator[Binding]:
        is_symbolic = self._index.libraries[path].elf.dt_flags & DF_SYMBOLIC
        for providers, symbols in self._lookups(path).items():
            first = path if is_symbolic and path in providers else scope.first(providers)
            if first is not None:
                has_unique = self._index.libraries[first].elf.unique_symbols
                for symbol in symbols if is_asked or has_unique else ():
                    only = self._only(symbol.name, first) if has_unique else first
                    if is_asked:
                        yield Binding(symbol.name, path, only, symbol.version)

    def _only(self, name: str, first: str) -> str:
        """Return the definition that the process uses (`do_lookup_unique` in elf/dl-lookup.c)."""
        definitions = self._index.libraries[first].exports.definitions[name]
        is_unique = any(definition.unique for definition in definitions)
        return self._unique.setdefault(name, first) if is_unique else first


def dependencies_first(load: Load, new: Sequence[str]) -> Iterator[str]:
    """Yield the new objects of a load as glibc relocates them (`_dl_sort_maps_dfs`).

    The opened object comes last; what it needs is not yet noted. Filtees come before it in scope.
    """
    opened = load.root if load.root == load.objects[0] else load.requests[0].result
    edges: dict[str, list[str]] = {path: [] for path in new}
    for request in load.requests:
        source = request.requester
        if source in edges and source != opened and request.result in edges:
            edges[source].append(request.result)
    visited: set[str] = set()
    for start in reversed(new):
        stack = [(start, iter(edges[start]))] if start not in visited else []
        visited.add(start)
        while stack:
            path, rest = stack[-1]
            for needed in rest:
                if needed not in visited:
                    visited.add(needed)
                    stack.append((needed, iter(edges[needed])))
                    break
            else:
                stack.pop()
                if path != opened:
                    yield path
    if opened in edges:
        yield opened
