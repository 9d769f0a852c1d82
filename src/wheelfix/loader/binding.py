"""Every symbol that the loader binds in one process, and where: glibc's scopes and musl's.

`symbols` asks who of one group defines what an object lacks. Here the process is followed from
its start: what is bound in which order, in the scope that each object has then, with the symbols
of which there is only one in a process, up to the first that nobody defines.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wheelfix.elf.model import Elf, Exports, Libc, Lookup
from wheelfix.loader.search import Load
from wheelfix.loader.symbols import binds

_DF_SYMBOLIC = 2


class Bound(NamedTuple):
    """One symbol of one object, looked up."""

    user: str
    """The object, as `Load.objects` names it."""
    symbol: str
    version: str | None
    provider: str | None
    """None if nobody serves it: a weak reference is null then, any other fails."""
    weak: bool
    aborts: bool = False
    """The provider is the library that should have the version, and has no versions at all:
    glibc before 2.42 ends the process (`check_match` in elf/dl-lookup.c)."""

    copied: bool = False
    """The program has a copy of the provider's data (R_*_COPY)."""

    @property
    def fails(self) -> bool:
        """Whether the load fails for it."""
        return self.aborts or (self.provider is None and not self.weak)


class MissingVersion(NamedTuple):
    """A version that an object needs, and does not find: nothing is bound then."""

    user: str
    file: str
    """The library that should define it, by the name in the Verneed record."""
    version: str
    library: str | None
    """The file that answers to that name; without one, glibc aborts the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """What one load binds, and what makes it fail once all its files are found."""

    lookups: tuple[Bound, ...]
    """In the loader's order. It stops at the first that fails; the model goes on."""
    missing: tuple[MissingVersion, ...] = ()

    @property
    def failure(self) -> Bound | MissingVersion | None:
        """What the loader's message blames."""
        if self.missing:
            return self.missing[0]
        return next((each for each in self.lookups if each.fails), None)

    @property
    def bound(self) -> tuple[Bound, ...]:
        """What is really bound, up to the failure."""
        if self.missing:
            return ()
        end = next((n for n, each in enumerate(self.lookups) if each.fails), None)
        return tuple(each for each in self.lookups[:end] if each.provider is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """What the objects of a process say of their symbols, read when it is asked for."""

    exports: Callable[[str], Exports]
    lookups: Callable[[str], Iterable[Lookup]]


class Process:
    """One process in which everything is bound as it is loaded (`LD_BIND_NOW`).

    `start` comes first, if the program is described; then each `open`, in order. A load that
    fails leaves nothing behind, as in the loader. Loads of missing files are not to be given.
    """

    def __init__(self, files: Mapping[str, Elf], symbols: Symbols, libc: Libc = Libc.GLIBC) -> None:
        self._files = files
        self._symbols = symbols
        self._libc = libc
        self._global: dict[str, None] = {}
        self._relocated: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._unique: dict[str, str] = {}
        self._main: str | None = None

    def start(self, load: Load) -> Binding:
        """Bind the program and what it needs; all of it is global from then on."""
        self._main = load.objects[0] if load.objects else None
        self._global = dict.fromkeys(load.objects)
        return self._bind(load, tuple(self._global))

    def open(self, load: Load, *, promote: bool = False, deep: bool = False) -> Binding:
        """Bind what a dlopen brings.

        With `promote` (RTLD_GLOBAL) all of it serves later loads, with `deep` (RTLD_DEEPBIND,
        glibc only) it is searched before what is global.
        """
        scopes = (self._global, load.objects)
        first, second = reversed(scopes) if deep and self._libc is Libc.GLIBC else scopes
        binding = self._bind(load, (*first, *second), deep=deep)
        if promote and binding.failure is None:
            self._global |= dict.fromkeys(load.objects)
        return binding

    def _bind(self, load: Load, scope: Sequence[str], *, deep: bool = False) -> Binding:
        new = [path for path in load.objects if path not in self._relocated]
        names = dict(self._names)
        for request in load.requests:
            names.setdefault(request.name, request.result)
        glibc = self._libc is Libc.GLIBC
        unique = dict(self._unique)
        scopes = _Scopes(dict.fromkeys(scope), self._symbols, self._libc, unique)
        binding = Binding(
            lookups=tuple(
                self._lookup(path, lookup, scopes, names, deep=deep)
                for path in self._relocation_order(load, new)
                for lookup in self._ordered(self._symbols.lookups(path))
            ),
            missing=tuple(self._missing_versions(new, names)) if glibc else (),
        )
        if binding.failure is None:
            self._relocated.update(new)
            self._names = names
            self._unique = unique
        return binding

    def _relocation_order(self, load: Load, new: Sequence[str]) -> Iterable[str]:
        if self._libc is Libc.GLIBC:
            return _dependencies_first(load, new)
        return sorted(new, key=lambda path: path == self._main)  # copies come last

    def _ordered(self, lookups: Iterable[Lookup]) -> Iterable[Lookup]:
        if self._libc is Libc.GLIBC:
            return lookups
        return sorted(lookups, key=lambda each: each.late)

    def _lookup(
        self,
        path: str,
        lookup: Lookup,
        scopes: "_Scopes",
        names: Mapping[str, str | None],
        *,
        deep: bool,
    ) -> Bound:
        symbolic = not deep and self._is_symbolic(path)
        definer = scopes.definer(path, lookup, symbolic=symbolic)
        provider = None if definer is None else scopes.provider(path, lookup, definer)
        aborts = (
            definer is not None
            and self._libc is Libc.GLIBC
            and lookup.file is not None
            and names.get(lookup.file) == definer
            and scopes.is_unversioned(definer, lookup)
        )
        return Bound(path, lookup.name, lookup.version, provider, lookup.weak, aborts, lookup.copy)

    def _is_symbolic(self, path: str) -> bool:
        """Whether the object searches itself before everything else (DT_SYMBOLIC)."""
        elf = self._files.get(path)
        symbolic = elf is not None and bool(elf.dt_flags & _DF_SYMBOLIC)
        return symbolic and path != self._main and self._libc is Libc.GLIBC

    def _missing_versions(
        self, new: Iterable[str], names: Mapping[str, str | None]
    ) -> Iterator[MissingVersion]:
        """`_dl_check_map_versions`: a library with versions must have those that are needed."""
        for path in new:
            elf = self._files.get(path)
            for need in elf.verneed if elf else ():
                library = names.get(need.file)
                there = self._files.get(library or "")
                if need.file in names and (there is None or not there.verdef):
                    continue  # not described here, or without versions: taken as it is
                for version in need.versions:
                    if there is None or version not in there.verdef:
                        yield MissingVersion(path, need.file, version, library)


class _Scopes:
    """Lookups in one load; all of its objects have the same scope, but for what is symbolic."""

    def __init__(
        self, scope: Iterable[str], symbols: Symbols, libc: Libc, unique: dict[str, str]
    ) -> None:
        self._exports = [(path, symbols.exports(path)) for path in scope]
        self._symbols = symbols
        self._libc = libc
        self._unique = unique
        self._known: dict[tuple[str, str | None, bool], str | None] = {}

    def definer(self, user: str, lookup: Lookup, *, symbolic: bool) -> str | None:
        """Return the first object in scope that defines what `user` looks up."""
        found = self._search([(user, self._symbols.exports(user))], lookup) if symbolic else None
        return found or self._in_scope(user, lookup)

    def provider(self, user: str, lookup: Lookup, definer: str) -> str:
        """Return the object that serves `user`: the definer, where nothing says otherwise."""
        if self._libc is Libc.MUSL:
            return definer
        found = self._only(user, lookup, definer)
        if not lookup.protected:
            return found
        # The object itself, unless only a PLT entry came first. Before 2.36, x86's GOT would
        # refer to a program's copy of protected data as well.
        first = None if lookup.plt else self._search(self._exports, lookup._replace(plt=True))
        return found if first and self._only(user, lookup, first) == user else user

    def is_unversioned(self, provider: str, lookup: Lookup) -> bool:
        """Whether the provider's symbol has no version index, for there is no DT_VERSYM."""
        definitions = self._symbols.exports(provider).definitions.get(lookup.name, ())
        return any(each.version_index is None for each in definitions)

    def _in_scope(self, user: str, lookup: Lookup) -> str | None:
        if lookup.copy:  # the user's own definition is the copy
            return self._search((each for each in self._exports if each[0] != user), lookup)
        key = (lookup.name, lookup.version, lookup.plt)
        if key not in self._known:
            self._known[key] = self._search(self._exports, lookup)
        return self._known[key]

    def _search(self, scope: Iterable[tuple[str, Exports]], lookup: Lookup) -> str | None:
        for path, exports in scope:
            definitions = exports.definitions.get(lookup.name)
            if definitions is None and not lookup.plt:
                definitions = exports.plt_entries.get(lookup.name)
            if definitions and binds(definitions, lookup.version, self._libc):
                return path
        return None

    def _only(self, user: str, lookup: Lookup, definer: str) -> str:
        """Return the one definition of the process, if there can be only one (`do_lookup_unique`).

        Of what a program copies, its copy is the one.
        """
        definitions = self._symbols.exports(definer).definitions.get(lookup.name)
        if not definitions or not definitions[0].unique:
            return definer
        only = self._unique.setdefault(lookup.name, user if lookup.copy else definer)
        return definer if lookup.copy else only


def _dependencies_first(load: Load, new: Sequence[str]) -> Iterator[str]:
    """Yield the new objects as glibc relocates them: dependencies first (`_dl_sort_maps_dfs`)."""
    edges: dict[str, list[str]] = {path: [] for path in new}
    for request in load.requests:
        if request.requester in edges and request.result in edges:
            edges[request.requester].append(request.result)
    root = load.objects[0]
    visited = {root}
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
                yield path
    if root in edges:
        yield root
