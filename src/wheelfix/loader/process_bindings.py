"""What symbols bind to in one process that loads one object after the other (glibc).

As `_dl_relocate_object` does it: an object is bound once, when it is loaded first, in the global
scope and then in that of its own load. A STB_GNU_UNIQUE symbol has one definition in the process.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from wheelfix.depth_first import postorder
from wheelfix.elf.constants import DF_SYMBOLIC
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Load
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex
from wheelfix.named_tuple import NamedTuple


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


class Group(NamedTuple):
    """What an object looks up that the same objects can provide."""

    providers: tuple[str, ...]
    symbols: Sequence[Symbol]
    unique: bool
    """Whether one of the providers has a STB_GNU_UNIQUE definition of each."""


class Bound(NamedTuple):
    """Symbols of one object that get their definitions from the same other one."""

    user: str
    provider: str
    symbols: Sequence[Symbol]
    """A whole `Group`, or one symbol of a group of unique ones."""


Lookups = Callable[[str], Sequence[Group]]
"""Object -> what it looks up."""


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
    ) -> Iterator[Bound]:
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

    def _bind(self, path: str, scope: Scope, *, is_asked: bool) -> Iterator[Bound]:
        is_symbolic = self._index.libraries[path].elf.dt_flags & DF_SYMBOLIC
        for group in self._lookups(path):
            providers, symbols, unique = group
            if not is_asked and not unique:
                continue
            first = path if is_symbolic and path in providers else scope.first(providers)
            if first is None:
                continue
            if not unique:
                yield Bound(path, first, symbols)
                continue
            for symbol in symbols:
                only = self._only(symbol.name, first)
                if is_asked:
                    yield Bound(path, only, (symbol,))

    def _only(self, name: str, first: str) -> str:
        """Return the definition that the process uses (`do_lookup_unique` in elf/dl-lookup.c)."""
        is_unique = is_defined_unique(self._index.libraries[first], name)
        return self._unique.setdefault(name, first) if is_unique else first


def is_defined_unique(library: Library, name: str) -> bool:
    """Return whether an object defines a symbol with STB_GNU_UNIQUE."""
    if not library.elf.unique_symbols:
        return False
    return any(definition.unique for definition in library.exports.definitions[name])


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
    yield from (path for path in postorder(reversed(new), edges.__getitem__) if path != opened)
    if opened in edges:
        yield opened
