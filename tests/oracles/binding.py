"""All symbol bindings of one process, by the lookup scopes of glibc and of musl.

`wheelfix.loader.symbol_lookup` binds the undefined references of one load. Here the process is
followed from its start: each lookup in the loader's order and in the object's scope at that time,
with STB_GNU_UNIQUE symbols, copies and PLT entries, up to the first symbol that is not defined.
"""

import os
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tests.oracles.lookups import Lookup
from wheelfix.elf.constants import DF_SYMBOLIC
from wheelfix.elf.model import Definition, Elf, Exports, Libc
from wheelfix.loader.load_values import Load
from wheelfix.loader.process_bindings import dependencies_first
from wheelfix.loader.symbol_lookup import binds
from wheelfix.loader.symbol_versions import ACCEPTS_UNVERSIONED, newer, refused_versions

GLIBC_HERE = (os.confstr("CS_GNU_LIBC_VERSION") or "glibc 0").split()[1]
"""The release of this machine's glibc."""


class Bound(NamedTuple):
    """One symbol of one object, looked up."""

    user: str
    """The object, as `Load.objects` names it."""
    symbol: str
    version: str | None
    provider: str | None
    """None if no object defines it: a weak reference is null then, any other fails."""
    weak: bool
    aborts: bool = False
    """The provider should have the version by Verneed, but has no versions at all: glibc before
    2.41 ends the process (`check_match` in elf/dl-lookup.c)."""
    copied: bool = False
    """The program has a copy of the provider's data (R_*_COPY)."""

    @property
    def fails(self) -> bool:
        """Whether the load fails for it."""
        return self.aborts or (self.provider is None and not self.weak)


class MissingVersion(NamedTuple):
    """A needed version that the library does not define: the load fails before any binding."""

    user: str
    file: str
    """The library that should define it: vn_file of the Verneed record."""
    version: str
    library: str | None
    """The file loaded under that name; without one, glibc aborts the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBindings:
    """The bindings of one load whose files are all found, and the failure of it."""

    lookups: tuple[Bound, ...]
    """In the loader's order. It stops at the first that fails; the model goes on."""
    missing: tuple[MissingVersion, ...] = ()

    @property
    def failure(self) -> Bound | MissingVersion | None:
        """The failure in the loader's message."""
        if self.missing:
            return self.missing[0]
        return next((each for each in self.lookups if each.fails), None)

    @property
    def bound(self) -> tuple[Bound, ...]:
        """The bindings before the failure."""
        if self.missing:
            return ()
        end = next((n for n, each in enumerate(self.lookups) if each.fails), None)
        return tuple(each for each in self.lookups[:end] if each.provider is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbols:
    """Readers of the symbols of a file, by path."""

    exports: Callable[[str], Exports]
    plt_entries: Callable[[str], Mapping[str, tuple[Definition, ...]]]
    lookups: Callable[[str], Iterable[Lookup]]


class ProcessBinder:
    """One process in which everything is bound as it is loaded (`LD_BIND_NOW`).

    Call `start` first, if the program is described; then `open` for each dlopen, in order. A load
    that fails leaves nothing behind, as in the loader. Loads with missing files are not accepted.
    """

    def __init__(self, files: Mapping[str, Elf], symbols: Symbols, libc: Libc = Libc.GLIBC) -> None:
        self._files = files
        self._symbols = symbols
        self._libc = libc
        self._global: dict[str, None] = {}
        self._relocated: set[str] = set()
        self._names: dict[str, str | None] = {}
        self._given: frozenset[tuple[str, str | None]] = frozenset()
        """Each name and a file that it led to: another object may get the name later."""
        self._unique: dict[str, str] = {}
        self._main: str | None = None

    def start(self, load: Load) -> LoadBindings:
        """Bind the program and its dependencies; all of them are global from then on."""
        self._main = load.objects[0] if load.objects else None
        self._global = dict.fromkeys(load.objects)
        return self._bind(load, tuple(self._global))

    def open(self, load: Load, *, promote: bool = False, deep: bool = False) -> LoadBindings:
        """Bind the objects of a dlopen.

        `promote` (RTLD_GLOBAL) adds them to the global scope; with `deep` (RTLD_DEEPBIND, glibc
        only) they are searched before the global scope.
        """
        scopes = (self._global, load.objects)
        first, second = reversed(scopes) if deep and self._libc is Libc.GLIBC else scopes
        binding = self._bind(load, (*first, *second), deep=deep)
        if promote and binding.failure is None:
            self._global |= dict.fromkeys(load.objects)
        return binding

    def _bind(self, load: Load, scope: Sequence[str], *, deep: bool = False) -> LoadBindings:
        new = [path for path in load.objects if path not in self._relocated]
        names = dict(self._names)
        for request in load.requests:
            names[request.name] = request.result  # the last: filtees change the load order
        given = self._given.union((r.name, r.result) for r in load.requests)
        glibc = self._libc is Libc.GLIBC
        unique = dict(self._unique)
        scopes = _Scopes(dict.fromkeys(scope), self._symbols, self._libc, unique)
        binding = LoadBindings(
            lookups=tuple(
                self._lookup(path, lookup, scopes, given, deep=deep)
                for path in self._relocation_order(load, new)
                for lookup in self._ordered(self._symbols.lookups(path))
            ),
            missing=tuple(self._missing_versions(new, names)) if glibc else (),
        )
        if binding.failure is None:
            self._relocated.update(new)
            self._names = names
            self._given = given
            self._unique = unique
        return binding

    def _relocation_order(self, load: Load, new: Sequence[str]) -> Iterable[str]:
        if self._libc is Libc.GLIBC:
            return dependencies_first(load, new)
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
        given: Container[tuple[str, str | None]],
        *,
        deep: bool,
    ) -> Bound:
        symbolic = not deep and self._is_symbolic(path)
        definer = scopes.definer(path, lookup, symbolic=symbolic)
        provider = None if definer is None else scopes.provider(path, lookup, definer)
        aborts = (
            definer is not None
            and self._libc is Libc.GLIBC
            and newer(ACCEPTS_UNVERSIONED, GLIBC_HERE)
            and lookup.file is not None
            and (lookup.file, definer) in given
            and scopes.is_unversioned(definer, lookup)
        )
        return Bound(path, lookup.name, lookup.version, provider, lookup.weak, aborts, lookup.copy)

    def _is_symbolic(self, path: str) -> bool:
        """Return whether the object is searched first for its own lookups (DT_SYMBOLIC)."""
        elf = self._files.get(path)
        symbolic = elf is not None and bool(elf.dt_flags & DF_SYMBOLIC)
        return symbolic and path != self._main and self._libc is Libc.GLIBC

    def _missing_versions(
        self, new: Iterable[str], names: Mapping[str, str | None]
    ) -> Iterator[MissingVersion]:
        """Yield what the loader refuses, and all versions of a file that nothing asked for."""
        for path in new:
            elf = self._files.get(path)
            for need in elf.verneed if elf else ():
                library = names.get(need.file)
                there = self._files.get(library or "")
                refused = refused_versions(need, there, self._libc)
                for version in refused if need.file in names else need.versions:
                    yield MissingVersion(path, need.file, version, library)


class _Scopes:
    """Lookups in one load; all of its objects have the same scope, DT_SYMBOLIC aside."""

    def __init__(
        self, scope: Iterable[str], symbols: Symbols, libc: Libc, unique: dict[str, str]
    ) -> None:
        self._scope = tuple(scope)
        self._symbols = symbols
        self._libc = libc
        self._unique = unique
        self._known: dict[tuple[str, str | None, bool], str | None] = {}

    def definer(self, user: str, lookup: Lookup, *, symbolic: bool) -> str | None:
        """Return the first object in scope that defines what `user` looks up."""
        found = self._search([user], lookup) if symbolic else None
        return found or self._in_scope(user, lookup)

    def provider(self, user: str, lookup: Lookup, definer: str) -> str:
        """Return the object that `user` binds to: the definer, unless unique or protected."""
        if self._libc is Libc.MUSL:
            return definer
        found = self._only(user, lookup, definer)
        if not lookup.protected:
            return found
        # The object itself, unless only a PLT entry came first. Before glibc 2.36, the x86 GOT
        # referred to a program's copy of protected data as well.
        first = None if lookup.plt else self._search(self._scope, lookup._replace(plt=True))
        return found if first and self._only(user, lookup, first) == user else user

    def is_unversioned(self, provider: str, lookup: Lookup) -> bool:
        """Return whether the provider's symbol has no version index (no DT_VERSYM)."""
        definitions = self._symbols.exports(provider).definitions.get(lookup.name, ())
        return any(each.version_index is None for each in definitions)

    def _in_scope(self, user: str, lookup: Lookup) -> str | None:
        if lookup.copy:  # the user's own definition is the copy
            return self._search((path for path in self._scope if path != user), lookup)
        key = (lookup.name, lookup.version, lookup.plt)
        if key not in self._known:
            self._known[key] = self._search(self._scope, lookup)
        return self._known[key]

    def _search(self, scope: Iterable[str], lookup: Lookup) -> str | None:
        for path in scope:
            definitions = self._symbols.exports(path).definitions.get(lookup.name)
            if definitions is None and not lookup.plt:
                definitions = self._symbols.plt_entries(path).get(lookup.name)
            if definitions and binds(definitions, lookup.version, self._libc):
                return path
        return None

    def _only(self, user: str, lookup: Lookup, definer: str) -> str:
        """Return the process-wide definition of a STB_GNU_UNIQUE symbol (`do_lookup_unique`).

        For data that a program copies, it is the copy.
        """
        definitions = self._symbols.exports(definer).definitions.get(lookup.name)
        if not definitions or not definitions[0].unique:
            return definer
        only = self._unique.setdefault(lookup.name, user if lookup.copy else definer)
        return definer if lookup.copy else only
