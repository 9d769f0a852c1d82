"""Which object binds which symbol, by the rules of glibc's `_dl_lookup_symbol_x` and of musl.

All objects of one dlopen resolve in one order, the order of `loader.Load.objects`; the first that
defines a symbol serves everybody, directly needed or not.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from wheelfix.asneeded import Library
from wheelfix.elf import Definition, Libc, Undefined
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
    libraries: Mapping[str, Library],
    *,
    among: Collection[str] | None = None,
    users: Collection[str] | None = None,
    libc: Libc = Libc.GLIBC,
) -> dict[Reference, str | None]:
    """Return the object that each undefined reference of `load` binds to, None without one.

    `libraries` has the objects by path. What the program itself defines (Python's API) and what
    is loaded already is not in `load`, and so not found. `among` restricts the answer to symbols
    of these names, `users` to the references of these objects.
    """
    scope = [path for path in load.objects if path in libraries]
    defining = _Scope(scope, libraries, libc)
    return {
        Reference(user, each.name, each.version, each.weak): defining.provider(each)
        for user in scope
        if users is None or user in users
        for each in libraries[user].elf.undefined
        if among is None or each.name in among
    }


class _Scope:
    """The objects of one group, in the order of search; each reference is looked up once."""

    def __init__(self, order: Sequence[str], libraries: Mapping[str, Library], libc: Libc) -> None:
        self._exports = [(path, libraries[path].exports.definitions) for path in order]
        self._libc = libc
        self._known: dict[tuple[str, str | None], str | None] = {}

    def provider(self, reference: Undefined) -> str | None:
        key = (reference.name, reference.version)
        if key not in self._known:
            self._known[key] = next(self._providers(*key), None)
        return self._known[key]

    def _providers(self, name: str, version: str | None) -> Iterator[str]:
        for path, definitions in self._exports:
            if name in definitions and binds(definitions[name], version, self._libc):
                yield path


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
