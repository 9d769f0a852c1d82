"""Undefined symbols: references of a wheel's objects that bind to nothing once it is installed.

A reference is looked up in the scopes that the loader makes: those of the loads of extension
modules, programs, and libraries that no other object of the wheel loads.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from wheelfix.analysis.loaded_wheel import Definitions, LoadedWheel
from wheelfix.elf.exports import SymbolDefinitions, among, announce, idle
from wheelfix.elf.model import LIBC_SONAMES, Elf, Libc, Undefined, names_of
from wheelfix.grouping import flatten
from wheelfix.loader import python_api
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Load
from wheelfix.loader.platform_libraries import (
    GLIBC_PARTS,
    NEWEST_LISTED_GLIBC,
    PYTHON_LIBRARIES,
    definers_of,
    defines,
    first_versions,
    may_come_from_platform,
    symbols_of,
)
from wheelfix.loader.symbol_lookup import binds
from wheelfix.loader.symbol_versions import came_later, release_of
from wheelfix.named_tuple import NamedTuple
from wheelfix.providers.well_known import lacks_libstdcxx

VersionedName = tuple[str, str | None]
"""A symbol name, and the version that is referred to."""


class Unresolved(NamedTuple):
    """References of one object that bind to nothing in the load of one root."""

    member: str
    root: str
    references: tuple[VersionedName, ...]
    absent: tuple[str, ...]
    """Libraries of the load that are not found, or are the platform's, and may define them."""
    foreign: tuple[str, ...]
    """Libraries of this machine in the load; other machines may have other versions."""
    in_others: bool = False
    """Whether each load of another object defines them: the object alone does not load."""


def find_unresolved(
    loaded: LoadedWheel, definitions: Definitions, opened: frozenset[str] = frozenset()
) -> tuple[Unresolved, ...]:
    """Return the references that stay undefined in some load; each object once, in its worst load.

    `opened` are the names by which Python sources open libraries: in a process that may not have
    loaded what others load. The worst load is the one with the fewest libraries that are not found.
    Names of Python's C API are left out; the rules check these against the interpreter.
    """
    return _Search(loaded, definitions, opened).unresolved()


def newer_symbols(
    loaded: LoadedWheel, promised: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield the members that take a newer platform symbol by a reference without a version.

    Each with the symbol, and the first version that has it: newer than that of its prefix in
    `promised`. The loader compares no version for it, and finds no symbol in an older library. A
    library that is not found may define it, as those do into which a manylinux image links the
    newer part of libstdc++, unless it is known not to. So may any other object of the wheel: a
    module that loads the member, or one that is opened before.
    """
    libc = loaded.environment.libc
    for member, load in loaded.loads.items():
        absent = (r.name for r in load.requests if r.failed and not lacks_libstdcxx(r.name))
        if libc is Libc.GLIBC and all(symbols_of(name, libc) is not None for name in absent):
            for name in _unversioned_names(loaded, member):
                if (
                    came_later(name, promised)
                    and _has_definers(load, name)
                    and all(
                        path.rpartition("/")[2] in definers_of(name) and path not in loaded.members
                        for path in loaded.index.providers(name, None)
                    )
                ):
                    yield member, name, first_versions()[name]


def _has_definers(load: Load, name: str) -> bool:
    """Return whether a process with `load` has libraries of the platform that may define `name`."""
    requested = {*(request.name for request in load.requests), *GLIBC_PARTS}  # as Python has them
    return not requested.isdisjoint(definers_of(name))


def _unversioned_names(loaded: LoadedWheel, member: str) -> Iterator[str]:
    """Yield the newer names of the platform that an object looks up without a version."""
    library = loaded.libraries.get(loaded.paths[member])
    names = [
        symbol.name
        for symbol in loaded.elf(member).undefined
        if symbol.version is None
        and not symbol.weak
        and not python_api.is_python_name(symbol.name)  # most objects have no other
        and symbol.name in first_versions()
    ]
    if library is not None and names:
        # Each source that includes <iostream> names `std::ios_base_library_init`, without a use.
        skipped = idle(library.exports)
        yield from (name for name in names if name not in skipped)


def without_defined(
    unresolved: Iterable[Unresolved], opened: Mapping[str, Iterable[Library]]
) -> Iterator[Unresolved]:
    """Yield `unresolved` without what libraries define that a package opens for all before.

    `opened` has these libraries by the root of the load.
    """
    every = tuple(unresolved)
    wanted = frozenset(name for name, _ in flatten(symbols.references for symbols in every))
    for symbols in every:
        left = _undefined_by(tuple(opened.get(symbols.root, ())), symbols.references, wanted)
        if left:
            yield symbols._replace(references=left)


_STEPS_A_LOOKUP = 5
"""For a symbol in all libraries of an interpreter."""


def _is_nowhere(symbol: Undefined) -> bool:
    """Return whether the library of the platform has a symbol in no release that is known."""
    version = symbol.version or ""
    is_listed = version.startswith("GLIBC_") and release_of(version) <= NEWEST_LISTED_GLIBC
    return is_listed and defines(symbol.file or "", symbol.name, version) is False


class _Search:
    """The search of all objects of a wheel for undefined symbols."""

    def __init__(
        self, loaded: LoadedWheel, definitions: Definitions, opened: frozenset[str]
    ) -> None:
        self._loaded = loaded
        self._definitions = definitions
        self._opened = opened

    def unresolved(self) -> tuple[Unresolved, ...]:
        alone = {
            member: still
            for member in self._loaded.paths
            if (still := self._undefined_alone(member))
        }
        worst: list[Unresolved] = []
        for member, references in alone.items():
            loads = [self._in_load(root, member, references) for root in self._roots(member)]
            failing = [unresolved for unresolved in loads if unresolved.references]
            if failing:
                worst.append(min(failing, key=lambda unresolved: len(unresolved.absent)))
            elif loads:
                alone_in = self._in_load(member, member, references)
                if alone_in.references and not alone_in.absent:
                    worst.append(alone_in._replace(in_others=True))
        return tuple(worst)

    def _undefined_alone(self, member: str) -> tuple[VersionedName, ...]:
        """Return the references of `member` that its own load leaves undefined.

        Weak references may stay undefined. Whether the platform has the symbol versions that are
        referred to is auditwheel's verdict (WF801).
        """
        path = self._loaded.paths[member]
        if path not in self._loaded.libraries or path not in self._loaded.loads[member].objects:
            return ()
        elf = self._loaded.elf(member)
        libc = self._loaded.environment.libc
        names = (*elf.needed, *(need.file for need in elf.verneed))
        promised = {name for name in names if may_come_from_platform(name, libc)}
        api = python_api.names()
        self._loaded.budget.spend(len(elf.undefined) >> 2, "the undefined symbols", member)
        references = dict.fromkeys(
            (symbol.name, symbol.version)
            for symbol in self._loaded.own[member].unbound
            if not symbol.weak
            and (symbol.version is None or symbol.file not in promised or _is_nowhere(symbol))
            and symbol.name not in api
        )
        skipped = idle(self._loaded.libraries[path].exports) if references else ()
        return tuple(reference for reference in references if reference[0] not in skipped)

    def _undefined_in(
        self, root: str, member: str, references: Collection[VersionedName]
    ) -> tuple[VersionedName, ...]:
        """Return those of `references` of `member` that the load of `root` leaves undefined."""
        if self._loaded.paths[member] not in self._loaded.loads[root].objects:
            return ()
        scope = self._loaded.own[root].scope
        self._loaded.budget.spend(len(references), "the undefined symbols", member)
        return tuple(reference for reference in references if scope.lookup(*reference) is None)

    def _in_load(self, root: str, member: str, references: tuple[VersionedName, ...]) -> Unresolved:
        load = self._loaded.loads[root]
        left = references if root == member else self._undefined_in(root, member, references)
        interpreter = self._interpreter(self._loaded.elf(member))
        self._loaded.budget.spend(_STEPS_A_LOOKUP * len(left), "the undefined symbols", member)
        left = _undefined_by(interpreter, left, self._loaded.index.wanted)
        members, libc = self._loaded.members, self._loaded.environment.libc
        outside: dict[str, str | None] = {LIBC_SONAMES[libc]: None}
        outside |= {r.name: r.result for r in load.requests if r.result not in members}
        # What all releases of a library have is known: it does not matter which one is here.
        listed = {n: known for n in outside if (known := symbols_of(n, libc)) is not None}
        left = tuple(ref for ref in left if not any(ref[0] in names for names in listed.values()))
        # Those of the platform are others on other machines: what `check` says does not depend on
        # this one's.
        absent = tuple(
            name
            for name, result in outside.items()
            if name not in listed and (result is None or may_come_from_platform(name, libc))
        )
        foreign = tuple(name for name in outside if name not in {*listed, *absent})
        return Unresolved(member, root, left, absent, foreign)

    def _roots(self, member: str) -> Iterator[str]:
        """Yield the load roots that load `member`."""
        path = self._loaded.paths[member]
        for root, load in self._loaded.loads.items():
            if path in load.objects and self._is_root(root):
                yield root

    def _is_root(self, member: str) -> bool:
        elf = self._loaded.elf(member)
        is_opened = not self._opened.isdisjoint(names_of(member, elf.soname))
        is_first = is_opened or member not in self._loaded_by_others
        return elf.is_module or elf.is_executable or is_first

    @cached_property
    def _loaded_by_others(self) -> frozenset[str]:
        """The members that another member loads."""
        return frozenset(
            member
            for root, load in self._loaded.loads.items()
            for path in load.objects
            if (member := self._loaded.members.get(path)) is not None and member != root
        )

    def _interpreter(self, elf: Elf) -> tuple[Library, ...]:
        """Return the libraries of an interpreter for `elf`; none if its C library is not found."""
        is_glibc = self._loaded.environment.libc is Libc.GLIBC
        libc = self._definitions.host(PYTHON_LIBRARIES[0], elf) if is_glibc else None
        if libc is None:
            return ()
        names = (*PYTHON_LIBRARIES[1:], *libc.elf.needed)
        return (libc, *filter(None, (self._definitions.host(name, elf) for name in names)))


def _undefined_by(
    libraries: Sequence[Library], references: tuple[VersionedName, ...], wanted: frozenset[str]
) -> tuple[VersionedName, ...]:
    """Return those of `references` that no definition in `libraries` binds.

    `wanted` has the names of these and of all references that will be asked for: a table of
    symbols is read once for them.
    """
    if not libraries:
        return references
    names, libc = {name for name, _ in references}, libraries[0].elf.libc
    defining: dict[str, list[SymbolDefinitions]] = {}
    for library in libraries if names else ():
        announce(library.exports, wanted)
        there = library.exports.definitions
        for name in among(there, names):
            defining.setdefault(name, []).append(there[name])
    return tuple(
        (name, version)
        for name, version in references
        if not any(binds(definitions, version, libc) for definitions in defining.get(name, ()))
    )
