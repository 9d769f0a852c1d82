"""A virtual file system: directories, symbolic links and hard links of an environment."""

from collections.abc import Sequence
from itertools import chain

from wheelfix.budget import Budget
from wheelfix.elf.model import Abi, Elf
from wheelfix.frozen import frozen
from wheelfix.loader.load_values import Candidate, Environment, How, Request, SearchOutcome
from wheelfix.named_tuple import NamedTuple

MAX_LINKS = 40
"""Links followed for one path: MAXSYMLINKS of the kernel."""


@frozen(eq=False, kw_only=False)
class SearchList:
    """One list of directories; for a path and for ld.so.cache, of files.

    Equal is only the same value: a list of thousands is a key of each search.
    """

    owner: str | None
    pairs: tuple[tuple[str, str], ...]
    """Search path element and directory; for a path and for the cache, name and file."""


class SearchedList(NamedTuple):
    """The result of the search for one name in one list."""

    tried: tuple[Candidate, ...]
    ends: bool
    """Whether later lists are not searched."""
    found: tuple[str, Elf] | None = None
    """The canonical path and the object."""


class FileSystem:
    """The files of an environment as open(2) finds them.

    Directories, and the lists that the loads of all its objects share, are searched once.
    """

    def __init__(self, environment: Environment, budget: Budget) -> None:
        self.environment = environment
        self.budget = budget
        """What the loads from these files spend."""
        self.search_paths: dict[tuple[str, str, str], SearchList] = {}
        """Object, its search path, its `$ORIGIN` -> the directories."""
        self.searched: dict[tuple[str, How, SearchList, tuple[Abi, str]], SearchedList] = {}
        """Name, list, and the ABI of the process -> the result."""
        self._loaded: dict[tuple[str | None, str, str], Request] = {}
        self._lists: dict[tuple[tuple[str, str], ...], SearchList] = {}
        defaults = environment.default_directories
        self.defaults = self.list_of(tuple((path, path) for path in defaults))
        self._links = environment.links
        self._real: dict[str, str | None] = {}
        self._subdirectories: dict[str, Sequence[tuple[str, str]]] = {}
        self.directories = {"/", *environment.directories}
        paths = (environment.files, environment.broken, environment.links)
        budget.spend(sum(map(len, paths)), "the installed files")
        for path in chain(environment.directories, *paths):
            directory = path.rpartition("/")[0]
            while directory and directory not in self.directories:
                self.directories.add(directory)
                directory = directory.rpartition("/")[0]

    def list_of(self, pairs: tuple[tuple[str, str], ...]) -> SearchList:
        """Return the list of `pairs`, which no object owns: the same value for all loads."""
        if pairs not in self._lists:
            self._lists[pairs] = SearchList(None, pairs)
        return self._lists[pairs]

    def request_of_loaded(self, requester: str | None, name: str, result: str) -> Request:
        """Return a request that a loaded object serves: one value for all loads, as most are."""
        key = requester, name, result
        request = self._loaded.get(key)
        if request is None:
            request = self._loaded[key] = Request(requester, name, result, How.LOADED)
        return request

    def directory(self, text: str) -> str | None:
        """Return the canonical path of the directory `text`, None if there is none."""
        if text not in self._real:
            self._real[text] = self._existing_path(self.absolute(text))
        return self._real[text]

    def subdirectories(self, directory: str) -> Sequence[tuple[str, str]]:
        """Return those that glibc tries first in a canonical directory, with canonical paths."""
        known = self._subdirectories.get(directory)
        if known is None:
            prefix = directory.rstrip("/")
            inner = (
                (sub, self.directory(f"{prefix}/{sub}")) for sub in self.environment.subdirectories
            )
            known = [(sub, path) for sub, path in inner if path is not None]
            self._subdirectories[directory] = known
        return known

    def file(self, path: str) -> tuple[str, Elf | SearchOutcome]:
        """Return the canonical path of `path`, and the object there or the loader's error."""
        head, _, name = path.rpartition("/")
        directory = self.directory(head or ("/" if path.startswith("/") else ""))
        if directory is None:
            return path, SearchOutcome.ABSENT
        return self.entry(directory, name)

    def entry(self, directory: str, name: str) -> tuple[str, Elf | SearchOutcome]:
        """Return the same for `name` in a canonical directory."""
        real = f"{directory}/{name}" if directory != "/" else f"/{name}"
        if real in self._links:
            try:
                real = self._resolve(real) or real
            except RecursionError:
                return real, SearchOutcome.LOOP
        elf = self.environment.files.get(real)
        if elf is not None:
            return real, elf
        missing = SearchOutcome.IS_DIRECTORY if real in self.directories else SearchOutcome.ABSENT
        return real, self.environment.broken.get(real, missing)

    def inode(self, real: str) -> str:
        """Return one name for all hard links of a file."""
        return self.environment.hard_links.get(real, real)

    def absolute(self, text: str) -> str:
        """Prepend the current directory to a relative path, as text."""
        if text.startswith("/"):
            return text
        cwd = self.environment.cwd or "/\0"
        return f"{cwd}/{text}" if text else cwd

    def _existing_path(self, path: str) -> str | None:
        try:
            real = self._resolve(path)
        except RecursionError:
            return None
        return real if real in self.directories else None

    def _resolve(self, path: str, depth: int = 0) -> str | None:
        """Follow `..` and links as the kernel does; only the last component may be missing.

        Raises `RecursionError` for the kernel's ELOOP.
        """
        if depth > MAX_LINKS:
            raise RecursionError
        self.budget.spend(1 + len(path) // 100, "the paths that are searched")
        parts = [part for part in path.split("/") if part not in {"", "."}]
        current = ""
        for index, part in enumerate(parts):
            if part == "..":
                current = current.rpartition("/")[0]
                continue
            step = f"{current}/{part}"
            target = self._links.get(step)
            if target is not None:
                start = target if target.startswith("/") else f"{current}/{target}"
                rest = "/".join([start, *parts[index + 1 :]])
                return self._resolve(rest, depth + 1)
            if index + 1 < len(parts) and step not in self.directories:
                return None
            current = step
        return current or "/"
