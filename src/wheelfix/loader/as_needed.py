"""Which DT_NEEDED entries `ld --as-needed` would have left out, judged on the finished object.

GNU ld keeps a library if it defines a symbol that the object refers to, and not only weakly; or
one that a library kept before it needs and does not say so (elf_link_add_object_symbols in
bfd/elflink.c). The dynamic symbol table still knows all of that after the link: an undefined
symbol is weak only if every reference was, and a versioned one names its library in Verneed.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple

from wheelfix.elf.exports import among
from wheelfix.elf.model import Elf, Exports, Undefined
from wheelfix.text import join_some

_PYTHON = ("Py", "_Py")


class Why(StrEnum):
    """What decides over a DT_NEEDED entry."""

    USED = "used"
    """The object refers to a symbol of it, not only weakly."""
    SIBLING = "sibling"
    """A library that is kept refers to a symbol of it, and does not need it by itself."""
    ABSENT = "absent"
    """The library is not at hand, and may define what nobody else does."""
    UNUSED = "unused"
    """GNU ld would have left it out."""


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library that is at hand. What it exports is read when it is asked for."""

    path: str
    """Where it stands: a path of this machine, or a name in the wheel."""
    elf: Elf
    read: Callable[[], Exports] = field(compare=False, repr=False)

    @cached_property
    def exports(self) -> Exports:
        """What it defines."""
        return self.read()

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of its undefined symbols."""
        return frozenset([each.name for each in self.elf.undefined])


class Decision(NamedTuple):
    """What becomes of one DT_NEEDED entry, and why."""

    name: str
    why: Why
    symbols: tuple[str, ...] = ()
    """The symbols that it is kept for."""
    user: str | None = None
    """The library that refers to them, for `SIBLING`."""
    open_references: tuple[str, ...] = ()
    """For `ABSENT`: strong references that nobody at hand defines. Without any, it is unused."""

    @property
    def keep(self) -> bool:
        """Whether GNU ld would have written the entry, as far as can be known."""
        return self.why is not Why.UNUSED

    @property
    def reason(self) -> str:
        """The reason in plain words."""
        match self.why:
            case Why.USED:
                return f"defines {join_some(self.symbols)}"
            case Why.SIBLING:
                return (
                    f"defines {join_some(self.symbols)}, which `{self.user}` uses without DT_NEEDED"
                )
            case Why.ABSENT if self.open_references:
                return f"is not at hand, and may define {join_some(self.open_references)}"
            case Why.ABSENT:
                return "is not at hand, though all that is referred to is defined elsewhere"
            case Why.UNUSED:
                return "defines nothing that is referred to"


def decide(own: Library, libraries: Mapping[str, Library | None]) -> tuple[Decision, ...]:
    """Judge each DT_NEEDED name of `own`, in order, each once.

    `libraries` has the library behind each name, None where it is not at hand. A versioned
    reference belongs to the library that Verneed names, whatever this machine's libraries define:
    glibc 2.34 has moved what was in libpthread, libdl and librt.
    """
    names = tuple(dict.fromkeys(own.elf.needed))
    references = [each for each in _references(own) if not each.weak]
    used, unresolved = _providers(references, names, {name: libraries.get(name) for name in names})
    given = _PYTHON if own.elf.module_hooks else ()
    doubtful = tuple(each.name for each in unresolved if not each.name.startswith(given))
    found: dict[str, Decision] = {}
    for name in names:
        if name in used:
            found[name] = Decision(name=name, why=Why.USED, symbols=tuple(used[name]))
        elif libraries.get(name) is None:
            found[name] = Decision(name=name, why=Why.ABSENT, open_references=doubtful)
        else:
            found[name] = _for_sibling(name, own, found, libraries)
    return tuple(found.values())


def is_python_api(symbol: str) -> bool:
    """Return whether the interpreter is what defines `symbol` for an extension module."""
    return symbol.startswith(_PYTHON)


def _references(own: Library) -> Collection[Undefined]:
    """Return all that must be defined elsewhere; a program's copies stand for a reference."""
    return (*own.elf.undefined, *(own.exports.copies if own.elf.is_executable else ()))


def _providers(
    references: Collection[Undefined],
    names: tuple[str, ...],
    libraries: Mapping[str, Library | None],
) -> tuple[dict[str, list[str]], list[Undefined]]:
    """Return which symbols the linker took from each library, and what it took from none."""
    used: dict[str, list[str]] = {}
    unresolved: list[Undefined] = []
    definers = _definers({each.name for each in references if each.file not in names}, libraries)
    for reference in references:
        symbol, _, name, _, _ = reference
        if name not in names:
            found = definers.get(symbol, ())
            name = None
            for each, exports in found:
                if offers(exports, reference):
                    name = each
                    break
        if name is None:
            unresolved.append(reference)
        elif name in used:
            used[name].append(symbol)
        else:
            used[name] = [symbol]
    return used, unresolved


def _definers(
    symbols: set[str], libraries: Mapping[str, Library | None]
) -> Mapping[str, list[tuple[str, Exports]]]:
    """Return for each of `symbols` the libraries that define it in some version, in order."""
    found: dict[str, list[tuple[str, Exports]]] = {}
    for name, library in libraries.items() if symbols else ():
        if library is not None:
            for symbol in among(library.exports.definitions, symbols):
                found.setdefault(symbol, []).append((name, library.exports))
    return found


def offers(exports: Exports, reference: Undefined) -> bool:
    """Return whether the static linker binds `reference` to a library with these `exports`.

    It passes over hidden versions, which only what was linked before knows.
    """
    found = exports.definitions.get(reference.name)
    return found is not None and any(
        not each.hidden and reference.version in {None, each.version} for each in found
    )


# --- Libraries that say too little (`ref_dynamic_nonweak`, `on_needed_list`) ----------------------


def _for_sibling(
    name: str,
    own: Library,
    before: Mapping[str, Decision],
    libraries: Mapping[str, Library | None],
) -> Decision:
    """Keep a library for what one that is kept before it refers to, and nobody defines so far."""
    unused = Decision(name=name, why=Why.UNUSED)
    library = libraries[name]
    kept = [
        (other, known)
        for other, decision in before.items()
        if decision.keep and (known := libraries.get(other)) is not None
    ]
    wants = {other: _wants(known, library) for other, known in kept} if library else {}
    if library is None or not any(wants.values()):
        return unused
    if _on_needed_list(library.elf.soname or name, before, libraries):
        return unused
    for user, wanted in wants.items():
        symbols = tuple(
            each.name
            for each in wanted
            if each.name not in own.exports.definitions
            and not any(offers(other.exports, each) for _, other in kept)
        )
        if symbols:
            return Decision(name=name, why=Why.SIBLING, symbols=symbols, user=user)
    return unused


def _wants(user: Library, library: Library) -> list[Undefined]:
    """Return the strong references of `user` that `library` defines."""
    if not user.elf.undefined:
        return []
    exports = library.exports
    there = among(exports.definitions, user.names)
    if not there:
        return []
    return [
        each
        for each in user.elf.undefined
        if each.name in there and not each.weak and offers(exports, each)
    ]


def _on_needed_list(
    soname: str, before: Mapping[str, Decision], libraries: Mapping[str, Library | None]
) -> bool:
    """Return whether a library read so far, itself kept or needed, brings `soname` along."""
    needed = [
        (entry, known.elf.soname or name, before[name].keep)
        for name in before
        if (known := libraries.get(name)) is not None
        for entry in known.elf.needed
    ]

    def listed(wanted: str, stop: int) -> bool:
        return any(
            entry == wanted and (kept or listed(by, position))
            for position, (entry, by, kept) in enumerate(needed[:stop])
        )

    return listed(soname, len(needed))
