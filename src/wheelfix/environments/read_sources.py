"""Python sources of an installed environment, and the variables that its files set."""

import json
import os
import posixpath
import re
import stat
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property, lru_cache
from itertools import chain, islice, takewhile
from pathlib import Path
from typing import Any, cast

from wheelfix.analysis.world import World
from wheelfix.budget import Budget, BudgetError
from wheelfix.environments.cached_facts import CachedFacts, Facts
from wheelfix.environments.read_values import Variable
from wheelfix.grouping import flatten
from wheelfix.host.installed_files import site_folders_of
from wheelfix.host.machine_files import MAX_TEXT, LinksOut, folders_below, read_regular
from wheelfix.host.prefixes import is_conda, is_venv, prefixes_around
from wheelfix.named_tuple import NamedTuple
from wheelfix.python_sources.global_imports import opens_for_all
from wheelfix.python_sources.opening_calls import may_open
from wheelfix.python_sources.opens import opened_on_import, visit_imports, visit_source
from wheelfix.python_sources.parsing import STEPS_PER_SOURCE, STEPS_PER_WHEEL, Sources
from wheelfix.python_sources.searched_places import MAX_SOURCE
from wheelfix.python_sources.source_facts import Imported, LookupPlace
from wheelfix.python_sources.values import names_directories
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.system.paths import is_file

_IMPORTS = (
    lazy_pattern(rb"from(?<!\wfrom)\s+([\w.\x80-\xff]+)"),
    lazy_pattern(rb"import(?<!\wimport)(?![\w.]*[ \t]+import\b)\s*(\([^)]*|[^\n]*)"),
)
"""To search for words at which a pattern begins is four times as fast as for one or the other."""
_WORD = lazy_pattern(rb"\.?[A-Za-z_\x80-\xff][\w\x80-\xff]*")
_SETS = lazy_pattern(rb"environ\[[\"'](\w+)[\"']\] *\+?=(?!=)")
_IN_SHELL = lazy_pattern(
    rb"""^[ \t]*(?:export[ \t]+)?LD_LIBRARY_PATH=["']?([^"'\s;]+)""", re.MULTILINE
)
_PREFIX = lazy_pattern(r"\$\{?(?:CONDA_PREFIX|VIRTUAL_ENV)\b\}?")
_VARIABLE = "LD_LIBRARY_PATH"
_STEPS_PER_OBJECT = 10_000
_STEPS_A_VARIABLE = 1000
"""What it displaces is looked for in the whole environment."""
_BEFORE = lazy_pattern(r"\$\{?LD_LIBRARY_PATH(?::\+:?\$\{?LD_LIBRARY_PATH\}?:?)?\}?")
"""What it was before, also as `${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}`."""


class Visited(NamedTuple):
    """What a source does."""

    assignments: Sequence[tuple[int, str, Sequence[str]]]
    """Line, variable and directories, as in `EnvironAssignment`."""
    openings: Sequence[tuple[int, str]]
    """Line and path from the source, of libraries that it opens for all others."""


class SiteSources:
    """The Python sources of an environment. Mutable: what was read of them is kept in a cache."""

    def __init__(
        self, world: World, cache: CachedFacts, tops: Collection[str], suffix: str = ""
    ) -> None:
        """Walk through the folders `tops` of `world` when it is first asked."""
        self._tops = tops
        self._cache = cache
        self._place = lru_cache(None)(self._read_place)
        steps = 2 * STEPS_PER_WHEEL // 5 + _STEPS_PER_OBJECT * len(world.members)
        self.budget = Budget("the Python sources", steps)
        """What is beyond it is not followed. To read them all takes 1,700,000 steps for 150
        distributions with 150 objects."""
        folders = {
            path.removesuffix(name) for path, name in world.members.items() if path.endswith(name)
        }
        folders |= {f"{site}/" for site in flatten(map(_sites, tops))}
        self._suffix = suffix
        self.folders: Sequence[str] = sorted(folders)
        """Where the names of members begin: site-packages folders, maybe others."""
        self.site_folders: Sequence[str] = [
            folder
            for folder in self.folders
            if not any(other != folder and other.startswith(folder) for other in self.folders)
        ]
        """Those of them that no other one is in."""

    @cached_property
    def telling(self) -> Mapping[str, Mapping[str, bytes]]:
        """The sources that set variables of the process or may open something for all.

        By the site-packages folder, and by their paths in it.
        """
        return {
            folder: dict(self.that(_is_telling, TELLING, folder)) for folder in self.site_folders
        }

    def that(
        self, tells: Callable[[bytes], object], question: bytes, folder: str, below: str = ""
    ) -> Iterator[tuple[str, bytes]]:
        """Yield the sources that `tells` is true of, in `below`, with their paths in `folder`.

        The answers are kept by the question.
        """
        for place in self._below(f"{folder}{below}".rstrip("/")):
            names, facts = self._places[place]
            known = cast("tuple[str, ...] | None", facts.get(question))
            asked = {question: tells}
            if known is None and question in _ASKED_OF_ALL:
                asked |= _ASKED_OF_ALL
            told: dict[bytes, list[str]] = {asked_for: [] for asked_for in asked}
            for name in names if known is None else known:
                with suppress(OSError):
                    data = self._read(f"{place}/{name}")
                    for asked_for, is_told in asked.items():
                        if is_told(data):
                            told[asked_for].append(name)
                    if name in told[question]:
                        yield f"{place}/{name}".removeprefix(folder), data
            if self.budget.steps >= 0:
                facts |= {asking: tuple(names) for asking, names in told.items()}

    def _read(self, path: str) -> bytes:
        """Return a source; nothing of it once the budget is spent. Raises `OSError`."""
        data = read_regular(path, MAX_SOURCE)
        with suppress(BudgetError):
            self.budget.spend(len(data) >> 8, "a Python source", path)
            return data
        return b""

    def _words(self, path: str) -> bytes:
        """Return the words of the statements of a source that import, each once."""
        with suppress(OSError):
            source = self._read(path)
            parts = flatten(pattern.findall(source) for pattern in _IMPORTS)
            return b" ".join({*_WORD.findall(b" ".join(parts))})
        return b""

    def importers(self, folder: str, below: str) -> Mapping[bytes, Sequence[str]]:
        """Return the words of statements that import, and the sources below `below` that have them.

        A word behind a dot has the dot. The sources are paths in `folder`.
        """
        importers: dict[bytes, list[str]] = {}
        for place in self._below(f"{folder}{below}".rstrip("/")):
            names, facts = self._places[place]
            if b"importers" not in facts:
                facts[b"importers"] = tuple(self._words(f"{place}/{name}") for name in names)
            for name, words in zip(
                names, cast("tuple[bytes, ...]", facts[b"importers"]), strict=True
            ):
                for word in words.split():
                    importers.setdefault(word, []).append(f"{place}/{name}".removeprefix(folder))
        return importers

    def visit(self, folder: str, path: str, source: bytes, budget: Budget) -> Visited:
        """Return what the source at `path` in `folder` does, for the steps that it took once."""
        place, _, name = f"{folder}{path}".rpartition("/")
        facts, question = self._places[place][1], os.fsencode(f"visit {name}")
        if question in facts:
            steps, *known = cast("tuple[Any, ...]", facts[question])
            with suppress(BudgetError):
                budget.spend(steps, "a Python source", path)
            return Visited(*known)
        before, visited = budget.steps, _visit(source, path, budget)
        facts[question] = before - budget.steps, *visited
        return visited

    def opened(
        self, folder: str, path: str
    ) -> tuple[Sequence[tuple[int, str, bool, bool, bool]], bool]:
        """Return what the import of the source at `path` in `folder` surely opens.

        That is the line of the module's statement, the path from the source, whether the import
        fails with it, whether it is a bare name instead, and whether it is opened for all; then
        whether something is opened by a name that is not known.
        """
        place, _, name = f"{folder}{path}".rpartition("/")
        _, facts = self._places.get(place) or self._place(place)
        question = os.fsencode(f"opened {name}")
        seen, steps, answer = cast("tuple[Any, int, Any]", facts.get(question, ((), 0, None)))
        budget = self.budget.share(STEPS_PER_SOURCE)
        with suppress(BudgetError):
            budget.spend(steps, "a Python source", path)
        if answer is None or any(
            _stamp(f"{folder}{file}", _is_file_or_folder) != stamp for file, stamp in seen
        ):
            asked: dict[str, tuple[int, int, int] | None] = {}
            there = sources_in(folder)

            def is_file(path: str) -> bool:
                asked[path] = _stamp(f"{folder}{path}")
                return asked[path] is not None

            def names(path: str) -> Sequence[str]:
                asked[path] = _stamp(f"{folder}{path}", stat.S_ISDIR)
                with suppress(OSError):  # a folder that is not there, or cannot be read
                    return sorted(os.listdir(f"{folder}{path}"))  # noqa: PTH208 - paths are text
                return ()

            def read(path: str) -> bytes:
                return there.read(path) if is_file(path) else b""

            sources = there._replace(read=read, is_file=is_file, names=names, suffix=self._suffix)
            before = budget.steps
            source = _code_of(read(path)) if path.endswith(".pth") else there.read(path)
            openings, unknown = opened_on_import(source, path, sources, budget)
            bare = LookupPlace.SEARCH
            rows = tuple(
                (o.statement, o.name, o.sure, o.where is bare, o.for_all) for o in openings
            )
            answer = rows, unknown
            facts[question] = tuple(asked.items()), before - budget.steps, answer
        return cast("tuple[Sequence[tuple[int, str, bool, bool, bool]], bool]", answer)

    def imports(self, module: str, path: str, *, is_package: bool) -> Sequence[Imported]:
        """Return what the source of a module surely begins to import.

        Raises `OSError` if there is none.
        """
        place, _, name = path.rpartition("/")
        names, facts = self._places.get(place) or self._place(place)
        if name not in names:
            raise FileNotFoundError(path)
        question = os.fsencode(f"begun {module} {name}")
        budget = self.budget.share(STEPS_PER_SOURCE)
        if question not in facts:
            before, source = budget.steps, read_regular(path, MAX_SOURCE)
            imports = visit_imports(module, source, budget, is_package=is_package)
            facts[question] = before - budget.steps, tuple(map(tuple, imports))
            return imports
        steps, known = cast("tuple[int, tuple[tuple[str, int, bool], ...]]", facts[question])
        with suppress(BudgetError):
            budget.spend(steps, "a Python source", path)
        return [Imported(*row) for row in known]

    def _below(self, top: str) -> Iterator[str]:
        """Yield the folders with sources that are `top`, or in it."""
        places, start = self._sorted_places, f"{top}/"
        if top in self._places:
            yield top
        at = bisect_left(places, start)
        yield from takewhile(lambda path: path.startswith(start), islice(places, at, None))

    @cached_property
    def _sorted_places(self) -> Sequence[str]:
        return sorted(self._places)

    @cached_property
    def _places(self) -> Mapping[str, tuple[Sequence[str], Facts]]:
        """Folder -> the names of its sources, and what is known of them."""
        read_places: dict[str, tuple[Sequence[str], Facts]] = {}
        links = LinksOut(*self._tops)
        folders = (folders_below(top, links) for top in self._tops)
        for place, names in sorted(chain.from_iterable(folders)):
            if sources := sorted(name for name in names if name.endswith(".py")):
                read_places[place] = sources, self._cache.facts_of_files(place, sources)
        return read_places

    def _read_place(self, place: str) -> tuple[Sequence[str], Facts]:
        """Read a folder outside of `tops`, such as one of the standard library."""
        names = list[str]()
        with suppress(OSError):
            names = sorted(name for name in os.listdir(place) if name.endswith(".py"))  # noqa: PTH208 - paths are text
        return names, self._cache.facts_of_files(place, names) if names else Facts()


def _sites(top: str) -> Sequence[str]:
    """Return the folders of distributions in a prefix; of one that is such a folder, itself."""
    return [*dict.fromkeys(map(os.path.realpath, site_folders_of(Path(top))))] or [top]


def sources_in(folder: str, extensions: Collection[str] = ()) -> Sources:
    """Return the modules below a site-packages folder; those of `extensions` are no sources."""

    @cache
    def path_of(module: str) -> str | None:
        stem = module.replace(".", "/")
        for path in (f"{stem}/__init__.py", f"{stem}.py"):
            if is_file(folder + path):
                return path
        return None

    @cache
    def read(path: str) -> bytes:
        with suppress(OSError):
            return read_regular(folder + path, MAX_SOURCE)
        return b""

    return Sources(path_of, read, extensions.__contains__)


def _is_file_or_folder(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _stamp(path: str, is_kind: Callable[[int], bool] = stat.S_ISREG) -> tuple[int, int, int] | None:
    """Return what changes with a file or a folder, None if there is none of the kind."""
    with suppress(OSError):
        there = os.stat(path)  # noqa: PTH116 - text
        if is_kind(there.st_mode):
            return there.st_size, there.st_mtime_ns, there.st_ctime_ns
    return None


def _visit(source: bytes, path: str, budget: Budget) -> Visited:
    """Visit the source at `path`, below site-packages."""
    visited = visit_source(source, path, {}, budget)
    is_global = (o for o in visited.openings if o.for_all and o.where is LookupPlace.SOURCE)
    return Visited(
        tuple((a.line, a.variable, a.directories) for a in visited.assignments),
        tuple((opening.line, opening.name) for opening in is_global),
    )


def _is_telling(source: bytes) -> bool:
    return opens_for_all(source) or _sets_directories(source)


def _sets_directories(source: bytes) -> bool:
    names = _SETS.findall(source) if b"environ[" in source else ()
    return any(names_directories(name.decode()) for name in names)


TELLING, OPENS = b"telling", b"opens"
_ASKED_OF_ALL: Mapping[bytes, Callable[[bytes], bool]] = {TELLING: _is_telling, OPENS: may_open}
"""Questions that are answered together: to read all sources takes most of the time."""


def read_variables(world: World, sources: SiteSources) -> Iterator[Variable]:
    """Yield the variables with directories that files of an environment set.

    Those are Python sources when they are imported, `.pth` files, the scripts that activate the
    environment, and its settings in conda.
    """
    with suppress(BudgetError):  # what was found until then is true
        for variable in _variables(world, sources):
            sources.budget.spend(_STEPS_A_VARIABLE, "the variables", variable.path)
            yield variable


def _variables(world: World, sources: SiteSources) -> Iterator[Variable]:
    for folder, named in sources.telling.items():
        budget = sources.budget
        visits = chain(
            (
                (path, sources.visit(folder, path, data, budget))
                for path, data in named.items()
                if _sets_directories(data)
            ),
            (
                (path, _visit(data, path, budget))
                for path, data in path_files(folder)
                if _sets_directories(data)
            ),
        )
        for path, followed in visits:
            for line, name, directories in followed.assignments:
                if directories:
                    places = tuple(
                        os.path.normpath(posixpath.join(folder, place)) for place in directories
                    )
                    yield Variable(name, places, f"{folder}{path}", line, before_start=False)
    for prefix in prefixes_around(Path(world.where)):
        if is_venv(prefix) or is_conda(prefix):
            yield from _of_activation(prefix)
            return


def path_files(folder: str) -> Iterator[tuple[str, bytes]]:
    """Yield the lines of `.pth` files that Python runs, as sources."""
    with suppress(OSError):
        for path in sorted(Path(folder).glob("*.pth")):
            with suppress(OSError):
                data = read_regular(path, MAX_TEXT)
                yield path.name, _code_of(data)


def _code_of(data: bytes) -> bytes:
    """Return the lines of a `.pth` file that Python runs, at their places (site, `addpackage`)."""
    lines = data.splitlines()
    return b"\n".join(line if line.startswith((b"import ", b"import\t")) else b"" for line in lines)


def _of_activation(prefix: Path) -> Iterator[Variable]:
    """Yield LD_LIBRARY_PATH as a shell has it in which the environment is active."""
    for path in (prefix / "bin/activate", *sorted(prefix.glob("etc/conda/activate.d/*.sh"))):
        with suppress(OSError):
            data = read_regular(path, MAX_TEXT)
            line, before, values = 1, 0, dict[bytes, int]()
            for match in _IN_SHELL.finditer(data):
                line, before = line + data.count(b"\n", before, match.start(1)), match.start(1)
                values.setdefault(match[1], line)
            for text, line in values.items():
                yield from _in_shell(prefix, path, line, os.fsdecode(text))
    path = prefix / "conda-meta/state"
    with suppress(OSError, ValueError, AttributeError):
        state = cast("dict[str, dict[str, str]]", json.loads(read_regular(path, MAX_TEXT)))
        value = state.get("env_vars", {}).get(_VARIABLE)
        if isinstance(value, str):
            yield from _in_shell(prefix, path, 1, value)


def _in_shell(prefix: Path, path: Path, line: int, value: str) -> Iterator[Variable]:
    elements = _PREFIX.sub(lambda _: str(prefix), _BEFORE.sub(":", value)).split(":")
    known = tuple(element for element in elements if element.startswith("/") and "$" not in element)
    if known:
        yield Variable(_VARIABLE, known, str(path), line, before_start=True)
