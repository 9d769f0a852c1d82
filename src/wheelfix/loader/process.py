"""The process that a dynamic loader loads objects into, as far as glibc, musl and bionic agree.

A model of `_dl_map_object` (glibc, elf/dl-load.c), `_dl_map_object_deps` (elf/dl-deps.c) and
`load_library` (musl, ldso/dynlink.c): the same directories in the same order.
"""

import itertools
from abc import ABC, abstractmethod
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import ClassVar

from wheelfix.elf.model import Abi, Elf, Filtee
from wheelfix.loader.file_system import FileSystem, SearchedList, SearchList
from wheelfix.loader.load_values import Candidate, How, Load, Request, SearchOutcome


@dataclass(slots=True, eq=False, kw_only=True)
class LinkMap:
    """One loaded object: glibc's `struct link_map`, musl's `struct dso`."""

    file: str
    opened: str
    origin: str
    elf: Elf | None
    loader: "LinkMap | None"
    names: set[str] = field(default_factory=set[str])
    place: int = 0
    """In load order."""
    search_scope: tuple["LinkMap", ...] | None = None
    """Objects of the dlopen that opened it; None for an object loaded only as a dependency."""
    dependencies: dict[str, "LinkMap"] = field(default_factory=dict[str, "LinkMap"])
    """DT_NEEDED name -> the object that it led to first."""
    rpaths: tuple[tuple[How, SearchList], ...] | None = None
    """The search paths that count also for what it loads; None until they are asked for."""


_LOADED = "the libraries that it loads"
_REQUEST_STEPS = 25
"""Of one DT_NEEDED entry."""
_REQUEST_SIZE, _CANDIDATE_SIZE = 200, 150
"""Bytes in memory, without the path of a candidate."""


class LoadOrder:
    """The objects of one load, in the order of symbol search."""

    def __init__(self, top: LinkMap) -> None:
        self.objects = [top]
        self._known = {id(top)}

    def __iter__(self) -> Iterator[LinkMap]:
        """Yield each object once, also those that are added meanwhile."""
        done: set[int] = set()
        place = 0
        while place < len(self.objects):
            loaded = self.objects[place]
            if id(loaded) in done:
                place += 1
                continue
            done.add(id(loaded))
            yield loaded

    def append(self, library: LinkMap) -> None:
        """Add `found` as the last one, unless it has a place already."""
        if id(library) not in self._known:
            self._known.add(id(library))
            self.objects.append(library)

    def move_before(self, first: LinkMap, other: LinkMap) -> bool:
        """Put `first` right before `other`; return False if it comes before `other` already."""
        objects = self.objects
        if id(first) in self._known:
            if objects.index(first) <= objects.index(other):
                return False
            objects.remove(first)
        self._known.add(id(first))
        objects.insert(objects.index(other), first)
        return True


SearchLists = Iterator[tuple[How, SearchList]]
"""Lists in the order in which they are searched, each with the step that it belongs to."""


class LoaderProcess(ABC):
    """The part that both loaders share: names, files, breadth-first loading, failed loads."""

    def __init__(self, files: FileSystem, main: str | None) -> None:
        self.files = files
        self.environment = files.environment
        self._names: dict[str, list[LinkMap]] = {}  # in load order: the first is taken
        self._inodes: dict[str, LinkMap] = {}
        self._given_names: list[tuple[LinkMap, str]] = []
        self._places = itertools.count()
        self.main = None if main is None else self._program(main)
        self.reference = self.main.elf if self.main else None
        self._abi: tuple[Abi, str] | None = None
        self.library_path = files.list_of(self._library_directories())
        self.defaults = files.defaults
        for name, path in self.environment.loaded.items():
            loaded = self._map(path, path, self.environment.files.get(path), None)
            self._register(loaded, path)
            self._add_name(loaded, name)

    def start(self, root: str) -> Load:
        """Load the dependencies of the program."""
        if self.main is None:
            return Load(root=root, objects=(), requests=())
        return self._load_dependencies(root, self.main, [])

    def dlopen(self, name: str, caller: str | None = None) -> Load:
        """Load `name` and its dependencies; a load with a failed request leaves nothing behind."""
        requester = self.main if caller is None else self._caller(caller)
        self._spend(_REQUEST_STEPS, _REQUEST_SIZE)
        link_map, request = self._request(requester, name, dlopen=True)
        if link_map is None:
            return Load(root=name, objects=(), requests=(request,))
        if link_map.search_scope is not None:
            again = tuple(loaded.file for loaded in link_map.search_scope)
            return Load(root=name, objects=again, requests=(request,))
        return self._load_dependencies(name, link_map, [request])

    @property
    def maps(self) -> tuple[str, ...]:
        """The paths by which the objects were opened, in load order, without the program."""
        loaded = sorted(self._inodes.values(), key=attrgetter("place"))
        return tuple(link_map.opened for link_map in loaded)

    def undo(self, load: Load) -> None:
        """Unload a load that fails for a missing symbol."""
        self._unload(load, len(self._given_names))

    def _load_dependencies(self, root: str, top: LinkMap, requests: list[Request]) -> Load:
        order = LoadOrder(top)
        failed: int | None = None
        for loaded in order:  # grows during the loop: breadth first
            entries = self._entries(loaded.elf) if loaded.elf else ()
            self._spend(_REQUEST_STEPS * len(entries), _REQUEST_SIZE * len(entries))
            for name, filtee in entries:
                if not name and self._program_is_unnamed:
                    self._append_program(order)
                    continue
                dependency, request = self._request(loaded, name)
                if filtee is not None:
                    request = request._replace(optional=not filtee.required)
                requests.append(request)
                if dependency is None:
                    if failed is None and request.failed:
                        failed = len(self._given_names)
                elif filtee is None:
                    order.append(dependency)
                elif order.move_before(dependency, loaded) and failed is None:
                    self._move_before(dependency, loaded)
        objects = tuple(order.objects)
        load = Load(
            root=root, objects=tuple(loaded.file for loaded in objects), requests=tuple(requests)
        )
        if failed is not None:
            self._unload(load, failed)
        else:
            top.search_scope = objects
        return load

    def _append_program(self, order: LoadOrder) -> None:
        if self.main is not None:
            order.append(self.main)

    def _request(
        self, requester: LinkMap | None, name: str, *, dlopen: bool = False
    ) -> tuple[LinkMap | None, Request]:
        """Find one name among the loaded objects, or else by a search."""
        by = requester.file if requester else None
        spelled = self._expand(requester, name) if "$" in name else name
        if self.environment.chosen and by is not None:
            spelled = self.environment.chosen.get((by, name), spelled)
        if named := self._names.get(spelled):
            return named[0], self.files.request_of_loaded(by, name, named[0].file)
        if self._is_builtin(spelled):
            return None, Request(by, name, None, How.LIBC)
        file, tried = self._search(requester, spelled)
        if file is None:
            return None, Request(by, name, None, candidates=tried)
        real, elf = file
        how = tried[-1].how
        link_map = self._inodes.get(self.files.inode(real))
        if link_map is None:
            loader = requester if self._dlopen_inherits or not dlopen else None
            link_map = self._map(real, tried[-1].path, elf, loader)
            self._register(link_map, spelled)
        else:
            how = How.SAME_FILE
            self._add_other_name(link_map, spelled)
        return link_map, Request(by, name, link_map.file, how, tried)

    def _search(
        self, requester: LinkMap | None, name: str
    ) -> tuple[tuple[str, Elf] | None, tuple[Candidate, ...]]:
        """Return the canonical path and object that a search finds, and all candidates."""
        parts: list[tuple[Candidate, ...]] = []
        library: tuple[str, Elf] | None = None
        for how, places in self._lists(requester, name):
            if not places.pairs:
                continue
            searched = self._search_once(name, how, places)
            parts.append(searched.tried)
            if searched.ends:
                library = searched.found
                break
        if len(parts) == 1:
            return library, parts[0]  # shared by all loads
        tried = tuple(itertools.chain.from_iterable(parts))
        self._spend(len(tried) >> 2, 8 * len(tried))
        return library, tried

    def _search_once(self, name: str, how: How, places: SearchList) -> SearchedList:
        """Search one list; those of the same environment are searched once for all its loads."""
        if self.reference is None:
            return self._search_list(name, how, places)
        if self._abi is None:
            self._abi = self.reference.abi, self.reference.convention
        key = name, how, places, self._abi
        known = self.files.searched.get(key)
        if known is None:
            known = self.files.searched[key] = self._search_list(name, how, places)
        return known

    def _search_list(self, name: str, how: How, places: SearchList) -> SearchedList:
        tried: list[Candidate] = []
        for entry, path, real, there, last in self._open_candidates(name, how, places):
            self._spend(4, _CANDIDATE_SIZE + len(path))
            elf, outcome = self._check_candidate(there)
            note = self._note(there) if outcome is SearchOutcome.WRONG_CONVENTION else ""
            tried.append(Candidate(path, how, outcome, places.owner, entry, note))
            if elf is not None:
                return SearchedList(tuple(tried), ends=True, found=(real, elf))
            loops = outcome is SearchOutcome.LOOP and last
            if not outcome.is_skipped or (loops and self._loop_ends_search):
                return SearchedList(tuple(tried), ends=True)
            if loops:
                break
        return SearchedList(tuple(tried), ends=False)

    def _open_candidates(
        self, name: str, how: How, places: SearchList
    ) -> Iterator[tuple[str, str, str, Elf | SearchOutcome, bool]]:
        """Yield element, path as written, canonical path, and the object or error of each file.

        The last value is whether the file is in the directory itself, not in a subdirectory: glibc
        checks errno only after that one.
        """
        files = self.files
        for entry, text in places.pairs:
            if how in {How.PATH, How.CACHE}:
                yield entry, text, *files.file(text), True
                continue
            directory = files.directory(text)
            if directory is None:
                yield entry, text, "", SearchOutcome.NO_DIRECTORY, True
                continue
            prefix = text if text in {"", "/"} else f"{text}/"
            for sub, inner in files.subdirectories(directory):
                yield entry, f"{prefix}{sub}/{name}", *files.entry(inner, name), False
            yield entry, f"{prefix}{name}", *files.entry(directory, name), True

    def _check_candidate(self, candidate: Elf | SearchOutcome) -> tuple[Elf | None, SearchOutcome]:
        """Return the object if the loader accepts it, and the outcome."""
        if not isinstance(candidate, Elf):
            return None, candidate
        if self.reference is None:
            self.reference = candidate
        outcome = self._check(candidate, self.reference)
        return candidate if outcome is SearchOutcome.FOUND else None, outcome

    def _note(self, candidate: Elf | SearchOutcome) -> str:
        """Return both calling conventions."""
        if self.reference is None or not isinstance(candidate, Elf):
            return ""
        return f"{candidate.convention}, not {self.reference.convention}"

    def _move_before(self, moved: LinkMap, other: LinkMap) -> None:
        """Change the load order, in which the objects are searched for a name."""
        self._spend(len(self._inodes) >> 1, 0)
        maps = sorted(self._inodes.values(), key=attrgetter("place"))
        maps.remove(moved)
        maps.insert(maps.index(other) if other in maps else 0, moved)
        self._places = itertools.count(len(maps))
        for place, loaded in enumerate(maps):
            loaded.place = place
        for name in moved.names:
            self._names[name].sort(key=attrgetter("place"))

    # --- Where glibc, musl and bionic differ

    separators: ClassVar[str]
    """What stands between the elements of LD_LIBRARY_PATH."""
    after_library_path: ClassVar[frozenset[How]]
    """The steps of the search that come after LD_LIBRARY_PATH."""
    _program_is_unnamed = True
    """An empty DT_NEEDED entry is the program: glibc's `l_name` of it is empty."""
    _loop_ends_search = False
    _dlopen_inherits = False
    """Whether an object opened by dlopen inherits the search path of the caller."""

    def _entries(self, elf: Elf) -> Sequence[tuple[str, Filtee | None]]:
        """Return what `elf` needs, in the order of the dynamic section."""
        return tuple(zip(elf.needed, itertools.repeat(None)))

    def _expand(self, requester: LinkMap | None, name: str) -> str:
        """Return `name` with its tokens (`$ORIGIN`, ...) expanded."""
        del requester
        return name

    def _is_builtin(self, name: str) -> bool:
        """Return whether `name` is the loader itself."""
        del name
        return False

    @abstractmethod
    def _directories(self, path: str, origin: str) -> tuple[tuple[str, str], ...]:
        """Return the elements of a search path, each with its directory."""

    @abstractmethod
    def _library_directories(self) -> tuple[tuple[str, str], ...]:
        """Return the directories of LD_LIBRARY_PATH."""

    def _lists(self, requester: LinkMap | None, name: str) -> SearchLists:
        """Return the lists in which to search for `name`, in order."""
        if "/" in name:
            return iter([(How.PATH, self.files.list_of(((name, name),)))])
        return self.search_lists(requester, name)

    @abstractmethod
    def search_lists(self, requester: LinkMap | None, name: str) -> SearchLists:
        """Yield the lists in which to search for a name without slash, in order."""

    @abstractmethod
    def _check(self, elf: Elf, reference: Elf) -> SearchOutcome:
        """Return the loader's verdict on an object that it opened."""

    def _caller(self, path: str) -> LinkMap | None:
        """Return the object whose search path is used for a dlopen by the object at `path`.

        The program's is used for an object that could not be loaded.
        """
        return self._inodes.get(self.files.inode(self.files.file(path)[0]), self.main)

    @abstractmethod
    def _add_other_name(self, known: LinkMap, name: str) -> None:
        """Add the name under which the file of a loaded object was found again."""

    @abstractmethod
    def _names_of(self, loaded: LinkMap, name: str) -> Iterable[str]:
        """Return the names of a new object."""

    def _program(self, path: str) -> LinkMap:
        """Map the program: its origin is canonical (`/proc/self/exe`), and it has no names."""
        real, _ = self.files.file(path)
        return self._map(real, real, self.environment.files[real], None)

    def _map(self, real: str, opened: str, elf: Elf | None, loader: LinkMap | None) -> LinkMap:
        origin = self._origin(opened)
        return LinkMap(file=real, opened=opened, origin=origin, elf=elf, loader=loader)

    def _origin(self, opened: str) -> str:
        return self.files.absolute(opened).rpartition("/")[0] or "/"

    def _register(self, loaded: LinkMap, name: str) -> None:
        loaded.place = next(self._places)
        self._inodes[self.files.inode(loaded.file)] = loaded
        for own in self._names_of(loaded, name):
            self._add_name(loaded, own)

    def _add_name(self, loaded: LinkMap, name: str) -> None:
        """Add a name of `loaded`; an object loaded earlier with that name comes first."""
        if name not in loaded.names:
            loaded.names.add(name)
            self._given_names.append((loaded, name))
            insort(self._names.setdefault(name, []), loaded, key=attrgetter("place"))

    def _unload(self, load: Load, failed: int) -> None:
        """Remove the objects of a failed load.

        The real loader stops at the failure, so the names given later are removed from all objects:
        `failed` is the number of names given before.
        """
        for loaded, name in self._given_names[failed:]:
            loaded.names.remove(name)
            self._names[name].remove(loaded)
        del self._given_names[failed:]
        new = {request.result for request in load.requests if request.how in _SEARCHES}
        for file in filter(None, new):
            gone = self._inodes.pop(self.files.inode(file))
            for name in gone.names:
                self._names[name].remove(gone)

    def _search_path(self, owner: LinkMap, path: str) -> SearchList:
        """Return the expanded search path of `owner`."""
        key = owner.file, path, owner.origin
        known = self.files.search_paths.get(key)
        if known is None:
            directories = self._directories(path, owner.origin)
            text = sum(len(directory) for _, directory in directories)
            self._spend(len(path) // 10, 150 * len(directories) + text)
            known = self.files.search_paths[key] = SearchList(owner.file, directories)
        return known

    def _spend(self, steps: int, memory: int) -> None:
        self.files.budget.spend(steps, _LOADED, memory=memory)


_SEARCHES = frozenset(How) - {How.LOADED, How.SAME_FILE, How.LIBC}
