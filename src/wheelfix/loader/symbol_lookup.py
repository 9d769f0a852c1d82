"""Symbol binding at load time, by the rules of glibc's `_dl_lookup_symbol_x` and of musl.

All objects of one dlopen have the same lookup scope: the objects of the load in breadth-first
order. The first of them that defines a symbol binds it for all, whether they need it or not.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from wheelfix.elf.constants import STT_GNU_IFUNC
from wheelfix.elf.exports import among
from wheelfix.elf.model import Definition, Libc, Undefined
from wheelfix.grouping import flatten
from wheelfix.loader.as_needed import Library
from wheelfix.named_tuple import NamedTuple


class Reference(NamedTuple):
    """One undefined symbol of one object of a load."""

    dependent: str
    """The object, as `Load.objects` names it."""
    symbol: str
    version: str | None
    weak: bool


class SymbolIndex:
    """Which of some libraries define each of some symbols.

    The loads of a wheel share most of their libraries, so each symbol is matched once for all of
    their scopes.
    """

    def __init__(
        self,
        libraries: Mapping[str, Library],
        wanted: frozenset[str],
        libc: Libc = Libc.GLIBC,
    ) -> None:
        """Index `libraries`, by path, by the names `wanted`."""
        self.libraries = libraries
        self.wanted = wanted
        self._libc = libc
        self._defining = _definers(libraries, self.wanted)
        self._matching: dict[str | None, dict[str, tuple[str, ...]]] = {}
        self._references: dict[str, dict[tuple[str, ...], list[Undefined]]] = {}

    def providers(self, name: str, version: str | None) -> tuple[str, ...]:
        """Return all libraries with a definition that a reference can bind to."""
        paths = self._defining.get(name, ())
        if not paths:
            return ()
        known = self._matching.setdefault(version, {})
        if name not in known:
            libraries, libc = self.libraries, self._libc
            matches = [
                path
                for path in paths
                if binds(libraries[path].exports.definitions[name], version, libc)
            ]
            known[name] = paths if len(matches) == len(paths) else tuple(matches)
        return known[name]

    def references(self, path: str) -> Mapping[tuple[str, ...], Sequence[Undefined]]:
        """Return the references of the library at `path` by the libraries that can provide them."""
        if path not in self._references:
            groups = self._references[path] = dict[tuple[str, ...], list[Undefined]]()
            defined = self._defining
            for reference in self.libraries[path].elf.undefined:
                name = reference.name
                providers = self.providers(name, reference.version) if name in defined else ()
                groups.setdefault(providers, []).append(reference)
        return self._references[path]

    @cached_property
    def referenced(self) -> Mapping[tuple[str, ...], set[str]]:
        """Libraries that can provide the same references -> the names of these references."""
        names: dict[tuple[str, ...], set[str]] = {}
        for path in self.libraries:
            for paths, references in self.references(path).items():
                if paths:
                    names.setdefault(paths, set()).update([r.name for r in references])
        return names


def undefined_names(libraries: Mapping[str, Library]) -> frozenset[str]:
    """Return the names that `libraries` refer to and do not define."""
    return frozenset[str]().union(*(library.names for library in libraries.values()))


def _definers(
    libraries: Mapping[str, Library], wanted: frozenset[str]
) -> dict[str, tuple[str, ...]]:
    """Return for each name the libraries that define it in any version, as shared tuples."""
    definers: dict[str, tuple[str, ...]] = {}
    longer: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
    for path, library in libraries.items():
        for name in among(library.exports.definitions, wanted):
            others = definers.get(name, ())
            definers[name] = longer.setdefault((others, path), (*others, path))
    return definers


class Scope:
    """A lookup scope: objects in the order in which the loader searches them (gABI chapter 5)."""

    def __init__(self, objects: Iterable[str], index: SymbolIndex) -> None:
        """Make a scope of `objects`, by path; those that `index` does not have define nothing."""
        self._places = {path: place for place, path in enumerate(objects)}
        self._index = index
        self._first: dict[tuple[str, ...], str | None] = {}  # few tuples serve all symbols

    def lookup(self, name: str, version: str | None) -> str | None:
        """Return the object that a reference binds to, None if it stays undefined."""
        return self.first(self._index.providers(name, version))

    def unbound(self, path: str) -> Sequence[Undefined]:
        """Return the references of the object at `path` that stay undefined, in their order."""
        references = self._index.references(path)
        groups = [group for paths, group in references.items() if self.first(paths) is None]
        if len(groups) < 2:
            return groups[0] if groups else ()
        left = set(flatten(groups))
        return [symbol for symbol in self._index.libraries[path].elf.undefined if symbol in left]

    def first(self, providers: tuple[str, ...]) -> str | None:
        """Return the one of `providers` that comes first in the scope, None if none is in it."""
        if providers not in self._first:
            inside = filter(self._places.__contains__, providers)
            self._first[providers] = min(inside, key=self._places.__getitem__, default=None)
        return self._first[providers]


def binds(definitions: Iterable[Definition], version: str | None, libc: Libc | None) -> bool:
    """Return whether a reference to `version` binds to one of an object's `definitions`.

    glibc (`check_match` in elf/dl-lookup.c) compares the version's name, not the file that Verneed
    names; an unversioned definition satisfies any reference. An unversioned reference takes the
    base version or the first one (index 2 or below), hidden or not, else the default version if
    there is exactly one. musl ignores versions, and skips hidden definitions and IFUNCs.
    """
    if libc is Libc.MUSL:
        return any(
            definition.type != STT_GNU_IFUNC and not _is_hidden(definition)
            for definition in definitions
        )
    if version is None:
        defaults = 0
        for definition in definitions:
            if definition.version_index is None or definition.version_index <= 2:
                return True
            defaults += not definition.hidden
        return defaults == 1
    return any(
        definition.version == version or (definition.version is None and not _is_hidden(definition))
        for definition in definitions
    )


def _is_hidden(definition: Definition) -> bool:
    """Return whether the hidden bit counts; only linkers treat index 0 as local."""
    return definition.hidden and definition.version_index != 0
