"""Which object binds which symbol, by the rules of glibc's `_dl_lookup_symbol_x` and of musl.

All objects of one dlopen resolve in one order, the order of `loader.Load.objects`; the first that
defines a symbol serves everybody, directly needed or not.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache, cached_property
from typing import NamedTuple

from wheelfix.asneeded import Library
from wheelfix.elf import Definition, Libc
from wheelfix.loader import Load

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

    def __init__(self, libraries: Mapping[str, Library], libc: Libc = Libc.GLIBC) -> None:
        """Take the libraries by path; what they export is read when it is first asked for."""
        self.libraries = libraries
        self._libc = libc
        self._exports: dict[str, Mapping[str, tuple[Definition, ...]]] = {}
        self._known: dict[tuple[str, str | None], tuple[str, ...]] = {}

    def within(self, load: Load) -> Callable[[str, str | None], str | None]:
        """Return what tells which object of `load` a name and version bind to."""
        places = {path: number for number, path in enumerate(load.objects)}

        @cache
        def provider(name: str, version: str | None) -> str | None:
            found = [path for path in self._serving(name, version) if path in places]
            return min(found, key=places.__getitem__) if found else None

        return provider

    def of(self, path: str) -> Mapping[str, tuple[Definition, ...]]:
        """Return what the library at `path` defines."""
        if path not in self._exports:
            self._exports[path] = self.libraries[path].exports.definitions
        return self._exports[path]

    def _serving(self, name: str, version: str | None) -> tuple[str, ...]:
        """Return all libraries to which a reference may bind."""
        key = (name, version)
        if key not in self._known:
            self._known[key] = tuple(
                path
                for path in self._named.get(name, ())
                if binds(self.of(path)[name], version, self._libc)
            )
        return self._known[key]

    @cached_property
    def _named(self) -> Mapping[str, list[str]]:
        """Name -> the libraries that define it; only names that some library refers to."""
        wanted = {each.name for known in self.libraries.values() for each in known.elf.undefined}
        found: dict[str, list[str]] = {}
        for path in self.libraries:
            for name in self.of(path).keys() & wanted:
                found.setdefault(name, []).append(path)
        return found


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
