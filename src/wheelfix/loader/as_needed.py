"""The DT_NEEDED entries that `ld --as-needed` would have omitted from a finished object.

GNU ld keeps a library that defines a symbol to which the object has a strong reference, or one that
a library kept before uses without DT_NEEDED (elf_link_add_object_symbols in bfd/elflink.c). The
dynamic symbol table has all of this after the link: an undefined symbol is weak only if every
reference was, and a versioned one names its library in Verneed.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from functools import cached_property
from itertools import islice

from wheelfix.elf.exports import among
from wheelfix.elf.model import Definition, Elf, Exports, Undefined
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten
from wheelfix.loader.python_api import PREFIXES
from wheelfix.named_tuple import NamedTuple


class Why(StrEnum):
    """The reason to keep or omit a DT_NEEDED entry."""

    USED = "used"
    """The object has a strong reference to one of its symbols."""
    SIBLING = "sibling"
    """A library kept before uses one of its symbols without DT_NEEDED."""
    ABSENT = "absent"
    """The library is not available, and may define symbols that no other defines."""
    UNUSED = "unused"
    """GNU ld would have omitted it."""


@frozen
class Library:
    """An available library; its exports are read at the first access."""

    path: str
    """A path of this machine, or a member of the wheel."""
    elf: Elf
    read: Callable[[], Exports] = field(compare=False, repr=False)

    @cached_property
    def exports(self) -> Exports:
        """The symbols that it defines."""
        return self.read()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its undefined symbols."""
        return frozenset([symbol.name for symbol in self.elf.undefined])


class Decision(NamedTuple):
    """The decision on one DT_NEEDED entry."""

    name: str
    why: Why
    open_references: tuple[str, ...] = ()
    """Strong references without a known definition. If empty, an `ABSENT` one is unused."""

    @property
    def keep(self) -> bool:
        """Whether GNU ld would have written the entry, as far as known."""
        return self.why is not Why.UNUSED


def decide(subject: Library, libraries: Mapping[str, Library | None]) -> tuple[Decision, ...]:
    """Return a decision for each different DT_NEEDED name of `subject`, in order.

    `libraries` has the library of each name, None for an unavailable one. A versioned reference
    belongs to the library that Verneed names, even if another one defines the symbol on this
    machine: glibc 2.34 has merged libpthread, libdl and librt into libc.
    """
    names = tuple(dict.fromkeys(subject.elf.needed))
    references = [symbol for symbol in _references(subject) if not symbol.weak]
    used, unresolved = _providers(references, {name: libraries.get(name) for name in names})
    given = PREFIXES if subject.elf.module_hooks else ()
    doubtful = tuple(s.name for s in unresolved if not s.name.startswith(given))
    decisions: list[Decision] = []
    kept: list[Library] = []
    entries: list[_Entry] = []
    for name in names:
        library = libraries.get(name)
        if name in used:
            decision = Decision(name, Why.USED)
        elif library is None:
            decision = Decision(name, Why.ABSENT, doubtful)
        elif _is_listed(library.elf.soname or name, entries, len(entries)):
            decision = Decision(name, Why.UNUSED)
        else:
            serves = _serves_sibling(library, subject, kept)
            decision = Decision(name, Why.SIBLING if serves else Why.UNUSED)
        decisions.append(decision)
        if library is not None:
            soname, keep = library.elf.soname or name, decision.keep
            kept += [library] if keep else []
            entries += [_Entry(entry, soname, keep) for entry in library.elf.needed]
    return tuple(decisions)


def _references(own: Library) -> Collection[Undefined]:
    """Return the references to other objects; a program's copies count as references."""
    return (*own.elf.undefined, *(own.exports.copies if own.elf.is_executable else ()))


def _providers(
    references: Collection[Undefined], libraries: Mapping[str, Library | None]
) -> tuple[set[str | None], list[Undefined]]:
    """Return the libraries that the linker bound symbols to, and the unresolved references."""
    used = {reference.file for reference in references if reference.file in libraries}
    unresolved = [reference for reference in references if reference.file not in libraries]
    names = frozenset([reference.name for reference in unresolved])
    for needed, library in libraries.items():
        if library is not None and (there := among(library.exports.definitions, names)):
            definitions = {name: library.exports.definitions[name] for name in there}
            left = [s for s in unresolved if not _is_bound(s, definitions.get(s.name, ()))]
            if len(left) < len(unresolved):
                used.add(needed)
            unresolved = left
    return used, unresolved


def offers(exports: Exports, reference: Undefined) -> bool:
    """Return whether the static linker binds `reference` to a library with these `exports`.

    It ignores hidden versions: those are only for objects linked earlier.
    """
    return _is_bound(reference, exports.definitions.get(reference.name, ()))


def _is_bound(reference: Undefined, definitions: Iterable[Definition]) -> bool:
    version = reference.version
    for definition in definitions:
        if not definition.hidden and version in (None, definition.version):
            return True
    return False


def _serves_sibling(library: Library, subject: Library, kept: Sequence[Library]) -> bool:
    """Return whether libraries kept before refer to symbols that only `library` defines so far.

    As `ref_dynamic_nonweak` does in bfd/elflink.c.
    """
    wants = [_wants(dependent, library) for dependent in kept]
    return any(
        symbol.name not in subject.exports.definitions
        and not any(offers(other.exports, symbol) for other in kept)
        for symbol in flatten(wants)
    )


def _wants(dependent: Library, library: Library) -> list[Undefined]:
    """Return the strong references of `dependent` that `library` defines."""
    exports = library.exports
    there = among(exports.definitions, dependent.names)
    return [
        symbol
        for symbol in dependent.elf.undefined
        if symbol.name in there and not symbol.weak and offers(exports, symbol)
    ]


class _Entry(NamedTuple):
    """A DT_NEEDED entry of a library that the linker has seen."""

    name: str
    by: str
    """The SONAME of the library with the entry."""
    kept: bool
    """Whether that library is kept."""


def _is_listed(soname: str, entries: Sequence[_Entry], stop: int) -> bool:
    """Return whether a library kept so far needs `soname`, itself or through others.

    Only the first `stop` of `entries` count. As `on_needed_list` does in bfd/elflink.c.
    """
    return any(
        entry.name == soname and (entry.kept or _is_listed(entry.by, entries, position))
        for position, entry in enumerate(islice(entries, stop))
    )
