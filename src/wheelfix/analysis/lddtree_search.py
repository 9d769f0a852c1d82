"""The libraries of this machine that a wheel's objects need: those that auditwheel would graft.

Within what one object needs, auditwheel takes a name for one file, as a process does; but other
objects of the wheel may find another file of that name, by search paths of their own.
"""

import posixpath
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Protocol

from wheelfix.budget import Budget
from wheelfix.depth_first import postorder
from wheelfix.elf.model import Elf, PathTag
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.loading import entry_directory
from wheelfix.named_tuple import NamedTuple
from wheelfix.settings import matches_any

C_LIBRARIES = ("libc.so.6", "ld-linux", "ld64.so.", "libc.musl-", "ld-musl-")
"""How the names begin by which auditwheel recognizes the C library (its lddtree.py, `ldd`)."""


class SearchPath(NamedTuple):
    """The directories that an object of a wheel has for all that it needs (lddtree.py, `ldd`)."""

    rpath: tuple[str, ...] = ()
    """Those of DT_RPATH, which are searched first."""
    runpath: tuple[str, ...] = ()
    """Those of DT_RUNPATH: after the search path of each library."""


NO_PATH = SearchPath()


class Host(Protocol):
    """Finds libraries outside of a wheel."""

    def __call__(
        self, name: str, dependent: Elf, path: str = "", root: SearchPath = NO_PATH, /
    ) -> Library | None:
        """Return the library for the DT_NEEDED entry `name` of `dependent`, None for none.

        `path` is that of `dependent` on this machine, empty for a member of the wheel; `root` is of
        the member that needs it, directly or not.
        """
        ...


class Outside(Protocol):
    """Finds another library than the wheel's of that name."""

    def __call__(self, name: str, dependent: Elf, folders: Iterable[str], /) -> Library | None:
        """Return the first library `name` in `folders`, unless it is a copy of the wheel's."""
        ...


def outside_libraries(
    path: str, elf: Elf, paths: Container[str], shipped: Container[str], find: Outside
) -> dict[str, Library]:
    """Return by name what an object at `path` finds outside, though the wheel has that name.

    As built it loads these, and auditwheel grafts them. `paths` are those of the wheel's objects.
    """
    if not any(entry.startswith("/") for entry in elf.entries):
        return {}
    names = (name for name in elf.needed if name in shipped and "/" not in name)
    outside = ((name, find(name, elf, _folders_before(name, path, elf, paths))) for name in names)
    return {name: library for name, library in outside if library is not None}


def _folders_before(name: str, path: str, elf: Elf, paths: Container[str]) -> Iterator[str]:
    """Yield the absolute search path entries before one that leads to `name` in the wheel."""
    for entry in elf.entries:
        if entry.startswith("/"):
            yield entry
        elif f"{entry_directory(entry, posixpath.dirname(path))}/{name}" in paths:
            return


def members_by_name(elfs: Mapping[str, Elf]) -> dict[str, str]:
    """Return the objects for the loader by their names; a file name goes before a SONAME."""
    dynamic = {member: elf for member, elf in elfs.items() if elf.dynamic}
    sonames = {elf.soname: member for member, elf in reversed(dynamic.items()) if elf.soname}
    return sonames | {posixpath.basename(member): member for member in reversed(dynamic)}


def search_entries(
    elfs: Mapping[str, Elf], shipped: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """Return the absolute search path entries by object: those of its dependents count, too.

    `shipped` has the object for each name in DT_NEEDED that the wheel itself has.
    """
    own = {
        member: tuple(entry for entry in elf.entries if entry.startswith("/"))
        for member, elf in elfs.items()
    }
    # Lists of entries are handed on as bits: thousands of objects may have one each.
    lists = list(dict.fromkeys(filter(None, own.values())))
    bit = {entries: 1 << n for n, entries in enumerate(lists)}
    having = {member: bit.get(entries, 0) for member, entries in own.items()}
    needed = {
        member: [library for name in elf.needed if (library := shipped.get(name)) is not None]
        for member, elf in elfs.items()
    }
    dependents_first = [*postorder(needed, needed.__getitem__)][::-1]
    has_changed = True
    while has_changed:  # once, and once more for each circle in a circle
        has_changed = False
        for member in dependents_first:
            for library in needed[member]:
                if having[member] & ~having[library]:
                    having[library] |= having[member]
                    has_changed = True
    return {
        member: tuple(
            dict.fromkeys((*own[member], *chain.from_iterable(_chosen(lists, having[member]))))
        )
        for member in elfs
    }


def _chosen(lists: Sequence[tuple[str, ...]], bits: int) -> Iterator[tuple[str, ...]]:
    """Yield those of `lists` whose bit is set, the last first."""
    while bits:
        highest = bits.bit_length() - 1
        yield lists[highest]
        bits ^= 1 << highest


def excluded_names(elfs: Iterable[Elf], patterns: Iterable[str]) -> frozenset[str]:
    """Return the names in DT_NEEDED that a pattern matches, as auditwheel matches them."""
    patterns = tuple(patterns)
    names = set(flatten(elf.needed for elf in elfs)) if patterns else set[str]()
    return frozenset(
        name for name in names if not name.startswith(C_LIBRARIES) and matches_any(name, patterns)
    )


@frozen(eq=False)
class MachineLibraries:
    """What each object of a wheel finds on this machine."""

    elfs: Mapping[str, Elf]
    """The objects of the wheel, by installed path."""
    shipped: Mapping[str, str]
    """Name in DT_NEEDED -> the object of the wheel that has it."""
    host: Host
    outside: Outside
    budget: Budget

    @cached_property
    def found(self) -> Mapping[str, Mapping[str, Library]]:
        """Object -> what it needs of this machine, directly or not, by name."""
        entries = search_entries(self.elfs, self.shipped)
        known: dict[object, Mapping[str, Library]] = {}
        libraries: dict[str, Mapping[str, Library]] = {}
        for path, elf in self.elfs.items():
            apart = outside_libraries(path, elf, self.elfs, self.shipped, self.outside)
            places = tuple(library.path for library in apart.values())
            key = elf.needed, elf.path_tag, entries[path], elf.abi, places
            if key not in known:
                known[key] = self._search(path, entries[path], apart)
            libraries[path] = known[key]
        return libraries

    def _search(
        self, path: str, entries: tuple[str, ...], apart: Mapping[str, Library]
    ) -> Mapping[str, Library]:
        """Search as auditwheel does, depth first (lddtree.py, `ldd`).

        `apart` are libraries outside of the wheel whose names it has, too.
        """
        libraries: dict[str, Library] = {}
        elf = self.elfs[path]
        late = elf.path_tag is PathTag.RUNPATH
        further_root = SearchPath(runpath=entries) if late else SearchPath(rpath=entries)
        waiting = [(name, elf, "") for name in reversed(elf.needed)]
        while waiting:
            self.budget.spend(1, "the libraries that it needs", path)
            name, dependent, place = waiting.pop()
            if name in libraries or (name in self.shipped and name not in apart):
                continue
            root = further_root if place else SearchPath(rpath=entries)
            library = apart.get(name) or self.host(name, dependent, place, root)
            if library is not None:
                libraries[name] = library
                needed = reversed(library.elf.needed)
                waiting += [(further, library.elf, library.path) for further in needed]
        return libraries

    @cached_property
    def by_name(self) -> Mapping[str, tuple[Library, ...]]:
        """Name -> the files of that name; that of the first object comes first."""
        pairs = chain.from_iterable(chosen.items() for chosen in self.found.values())
        return {
            name: tuple({library.path: library for library in libraries}.values())
            for name, libraries in values_by_key(pairs).items()
        }

    @cached_property
    def chosen(self) -> Mapping[tuple[str, str], str]:
        """Object and name -> the file that it gets, for names of several files.

        A library gets that to which its own search path leads, or else what the first object that
        needs it finds, as in a graft.
        """
        several = {name for name, same in self.by_name.items() if same[1:] or name in self.shipped}
        return dict(self._choices(several))

    def displaced(self, other: "MachineLibraries") -> frozenset[str]:
        """Return the files of `chosen` in whose place an object finds another file in `other`."""
        outside = flatten(other.by_name.values())
        users = {**other.elfs, **{library.path: library.elf for library in outside}}
        return frozenset(
            path
            for (user, name), path in self.chosen.items()
            if user in users and name in users[user].needed and name in other.by_name
            if other.chosen.get((user, name), other.by_name[name][0].path) != path
        )

    def _choices(self, several: Iterable[str]) -> Iterator[tuple[tuple[str, str], str]]:
        names = frozenset(several)
        by_path = self.found if names else dict[str, Mapping[str, Library]]()
        for libraries in reversed(tuple(by_path.values())):
            for library in libraries.values():
                for name in names.intersection(library.elf.needed):
                    own = self._own_choice(library, name)
                    if own is not None or name in libraries:
                        yield (library.path, name), own or libraries[name].path
        for path, libraries in by_path.items():
            for name in names.intersection(self.elfs[path].needed, libraries):
                yield (path, name), libraries[name].path

    def _own_choice(self, library: Library, name: str) -> str | None:
        """Return the one of several files of a name to which the search path of `library` leads.

        Its own name is its own: a loader has that one already.
        """
        if name in {library.elf.soname, posixpath.basename(library.path)}:
            return library.path
        origin = library.path.rpartition("/")[0]
        places = (f"{entry_directory(entry, origin)}/{name}" for entry in library.elf.entries)
        own = {other.path for other in self.by_name[name]}
        return next((place for place in places if place in own), None)
