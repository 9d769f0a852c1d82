"""Which object binds which symbol, by the rules of glibc's `_dl_lookup_symbol_x` and of musl.

All objects of one dlopen resolve in one order, the order of `loader.Load.objects`; the first that
defines a symbol serves everybody, directly needed or not.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, cached_property
from typing import NamedTuple

from wheelfix.elf.exports import Wanted, among, announce
from wheelfix.elf.model import Definition, Libc
from wheelfix.loader.as_needed import Library
from wheelfix.loader.search import Load

_STT_GNU_IFUNC = 10


class Reference(NamedTuple):
    """One symbol that one object of a group asks for."""

    user: str
    """The object, as `Load.objects` names it."""
    symbol: str
    version: str | None
    weak: bool


def bindings(
    load: Load,
    definers: "Definers",
    *,
    among: Collection[str] | None = None,
    users: Collection[str] | None = None,
) -> dict[Reference, str | None]:
    """Return the object that each undefined reference of `load` binds to, None without one.

    What the program itself defines (Python's API) and what
    is loaded already is not in `load`, and so not found. `among` restricts the answer to symbols
    of these names, `users` to the references of these objects.
    """
    libraries = definers.libraries
    scope = [path for path in load.objects if path in libraries]
    defining = definers.within(load)
    return {
        Reference(user, each.name, each.version, each.weak): defining(each.name, each.version)
        for user in scope
        if users is None or user in users
        for each in libraries[user].elf.undefined
        if among is None or each.name in among
    }


class Definers:
    """Which of some libraries define a symbol, for whatever group of them is loaded.

    Groups of one wheel have most in common, so a symbol is looked up in all libraries at once.
    """

    def __init__(
        self,
        libraries: Mapping[str, Library],
        libc: Libc = Libc.GLIBC,
        wanted: Wanted | None = None,
    ) -> None:
        """Take the libraries by path; what they export is read when it is first asked for.

        `wanted` has the names that any of them refers to, where that is known.
        """
        self.libraries = libraries
        self._libc = libc
        self._wanted = wanted
        self._known: dict[str | None, dict[str, tuple[str, ...]]] = {}

    def within(self, load: Load) -> Callable[[str, str | None], str | None]:
        """Return what tells which object of `load` a name and version bind to."""
        first = self.first_in(load)

        def provider(name: str, version: str | None) -> str | None:
            found = self.serving(name, version)
            return first(found) if found else None

        return provider

    @staticmethod
    def first_in(load: Load) -> Callable[[tuple[str, ...]], str | None]:
        """Return what tells which of some libraries comes first in `load`, None if none does."""
        places = {path: number for number, path in enumerate(load.objects)}

        @cache  # few different ones serve all symbols
        def first(paths: tuple[str, ...]) -> str | None:
            return min(filter(places.__contains__, paths), key=places.__getitem__, default=None)

        return first

    def of(self, path: str) -> Mapping[str, tuple[Definition, ...]]:
        """Return what the library at `path` defines."""
        return self.libraries[path].exports.definitions

    def serving(self, name: str, version: str | None) -> tuple[str, ...]:
        """Return all libraries to which a reference may bind."""
        paths = self.named.get(name, ())
        if not paths:
            return ()
        known = self._known.setdefault(version, {})
        if name not in known:
            libc = self._libc
            found = [path for path in paths if binds(self.of(path)[name], version, libc)]
            known[name] = paths if len(found) == len(paths) else tuple(found)
        return known[name]

    @cached_property
    def served(self) -> Mapping[tuple[str, ...], set[str]]:
        """What may serve a reference of some library -> the names of all that it may serve."""
        found: dict[tuple[str, ...], set[str]] = {}
        for library in self.libraries.values():
            for each in library.elf.undefined:
                if paths := self.serving(each.name, each.version):
                    found.setdefault(paths, set()).add(each.name)
        return found

    @cached_property
    def named(self) -> Mapping[str, tuple[str, ...]]:
        """Name -> the libraries that define it; only names that some library refers to."""
        wanted = self._wanted or wanted_by(self.libraries.values())
        found: dict[str, tuple[str, ...]] = {}
        longer: dict[tuple[tuple[str, ...], str], tuple[str, ...]] = {}
        for path, library in self.libraries.items():
            announce(library.exports, wanted)
            for name in among(library.exports.definitions, wanted.names):
                others = found.get(name, ())
                found[name] = longer.setdefault((others, path), (*others, path))
        return found


def wanted_by(libraries: Iterable[Library], others: frozenset[str] = frozenset()) -> Wanted:
    """Return all names that some library refers to, and `others`."""
    return Wanted(others.union(*(library.names for library in libraries)))


def binds(definitions: Iterable[Definition], version: str | None, libc: Libc = Libc.GLIBC) -> bool:
    """Return whether the loader takes one of an object's `definitions` of a symbol.

    glibc (`check_match` in elf/dl-lookup.c) holds a versioned reference to the version's name, not
    to the file that Verneed names; an unversioned definition serves any reference. An unversioned
    reference takes the oldest version (index 2 or below), hidden or not, or else the default one,
    if there is but one. musl looks at no versions, and passes over hidden definitions and IFUNCs.
    """
    if libc is Libc.MUSL:
        return any(each.type != _STT_GNU_IFUNC and not _is_hidden(each) for each in definitions)
    if version is None:
        newer = 0
        for each in definitions:
            if each.version_index is None or each.version_index <= 2:
                return True
            newer += not each.hidden
        return newer == 1
    return any(
        each.version == version or (each.version is None and not _is_hidden(each))
        for each in definitions
    )


def _is_hidden(definition: Definition) -> bool:
    """Whether the hidden bit is set; that index 0 is local means something to linkers only."""
    return definition.hidden and definition.version_index != 0
