"""Loads as the loaders of glibc, musl and bionic do them: of one root, of each, of several in turn.

`process` loads breadth first, `glibc_search`, `musl_search` and `bionic_search` look for names;
this module takes those of the C library, over a described environment. Each candidate is recorded
with its outcome, so that a failure can be explained.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Libc
from wheelfix.grouping import flatten
from wheelfix.loader import bionic_search, glibc_search, musl_search
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Dlopen, Environment, How, Load, Request
from wheelfix.loader.process import LoaderProcess
from wheelfix.named_tuple import NamedTuple


def load(root: str, environment: Environment, budget: Budget) -> Load:
    """Load `root` in a new process: dlopen for a library, a start for an executable.

    Raises `BudgetError` when `budget` is spent.
    """
    return load_first(root, FileSystem(environment, budget))


def load_each(roots: Iterable[str], environment: Environment, budget: Budget) -> tuple[Load, ...]:
    """Load each of `roots` in a new process of its own.

    Raises `BudgetError` when `budget` is spent.
    """
    files = FileSystem(environment, budget)
    return tuple(load_first(root, files) for root in roots)


def unchanged_loads(
    loads: Mapping[str, Load], before: Environment, after: Environment
) -> dict[str, Load]:
    """Return those of `loads`, by path, in which nothing is found, read or searched otherwise.

    Between the environments objects may have changed, but no file has come or gone.
    """
    files, old = after.files, before.files
    if files.keys() != old.keys() or replace(after, files={}) != replace(before, files={}):
        return {}
    facts = {path: search_facts(elf) for path, elf in files.items() if elf is not old[path]}
    changed = {path for path in facts if facts[path] != search_facts(old[path])}
    if any(facts[path].header != search_facts(old[path]).header for path in changed):
        return {}  # a file that was not loaded may be now
    return {path: load for path, load in loads.items() if changed.isdisjoint((path, *load.objects))}


def load_all(
    roots: Iterable[str | Dlopen], environment: Environment, budget: Budget
) -> tuple[Load, ...]:
    """Open `roots` one after the other in one process: earlier loads provide for later ones.

    Raises `BudgetError` when `budget` is spent.
    """
    return load_in_turn(roots, FileSystem(environment, budget))


def load_first(root: str, files: FileSystem) -> Load:
    """Load `root` in a new process; what is searched in `files` serves later loads, too."""
    _, elf = files.file(root)
    if isinstance(elf, Elf) and elf.is_executable:
        return _process(files, root).start(root)
    return start_process(files).dlopen(root)


def load_in_turn(roots: Iterable[str | Dlopen], files: FileSystem) -> tuple[Load, ...]:
    """Open `roots` one after the other in one process, as `load_all` does."""
    process = start_process(files)
    return tuple(
        process.dlopen(root.name, root.caller) if isinstance(root, Dlopen) else process.dlopen(root)
        for root in roots
    )


def independent_of(before: Load, environment: Environment) -> Callable[[Load], bool]:
    """Return a function that says of a load in a new process: it is the same after `before`.

    What is loaded changes a later load only by its names and files: if each name that both have
    led to the same file, the later load takes the same files in the same order. Where more than
    that decides (tokens, filters, hard links, musl), the answer is no.
    """
    files = environment.files
    linked = {*environment.hard_links, *environment.hard_links.values()}
    names: dict[str, set[str | None]] = {}
    for request in before.requests:
        names.setdefault(request.name, set()).add(request.result)
    for path in before.objects:
        if path in files:
            names.setdefault(files[path].soname or "", set()).add(path)
    is_simple = environment.libc is Libc.GLIBC and not environment.chosen

    def is_same(request: Request) -> bool:
        name, result = request.name, request.result
        if "$" in name or result in linked:
            return False
        if "/" in name:
            return result not in before.objects
        return names.get(name, {result}) == {result}

    return lambda load: (
        is_simple
        and not any(path in files and files[path].filtees for path in load.objects)
        and all(map(is_same, load.requests))
    )


class SearchFacts(NamedTuple):
    """What the search and the load of libraries read of an object."""

    header: tuple[object, ...]
    """By which a loader takes or refuses it."""
    links: tuple[object, ...]
    """Its names, its dependencies, and where it searches them."""


def search_facts(elf: Elf) -> SearchFacts:
    """Return what a load depends on: objects that agree in it load the same."""
    header = (
        elf.abi,
        elf.convention,
        elf.osabi,
        elf.abi_version,
        elf.valid_header,
        elf.type,
        elf.dynamic,
    )
    links = (elf.soname, elf.needed, elf.filtees, elf.rpath, elf.runpath)
    return SearchFacts((*header, elf.dt_flags_1, elf.is_executable), links)


def start_process(files: FileSystem) -> LoaderProcess:
    """Return a process with the program of an environment and its dependencies loaded."""
    main = files.environment.main
    process = _process(files, main)
    if main is not None:
        process.start(main)
    return process


def entry_directory(entry: str, origin: str) -> str:
    """Return the directory that the search path entry of an object in `origin` leads to.

    `$PLATFORM` has no value here; an entry with it stays as it is.
    """
    return posixpath.normpath(glibc_search.expand(entry, origin) or entry)


def expands(entry: str, libc: Libc | None) -> bool:
    """Return whether the loader expands every `$` of a search path entry."""
    if libc is Libc.MUSL:
        return "$" not in entry or bool(musl_search.search_path_directories(entry, "/"))
    return "$" not in (glibc_search.expand(entry, "/", platform="") or "")


def search_directories(
    path: str, origin: str | None, environment: Environment
) -> tuple[tuple[str, str], ...]:
    """Return the directories of the search path `path`, each with its element.

    As the libc of `environment` reads it: without the elements that it ignores, and without
    repeated directories (glibc). A directory may be relative; the empty one is the current
    directory.
    """
    if environment.libc is Libc.MUSL:
        return musl_search.search_path_directories(path, origin)
    return glibc_search.search_path_directories(path, origin, environment)


def needed_name(name: str, origin: str | None, environment: Environment) -> str:
    """Return a DT_NEEDED name with its tokens expanded, which only glibc does."""
    if environment.libc is not Libc.GLIBC or "$" not in name:
        return name
    return glibc_search.expand_name(name, origin, environment)


def absolute_directories(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute paths in the variables; Python code may search any of them."""
    paths = (path.strip() for path in flatten(value.split(":") for value in variables.values()))
    return tuple(dict.fromkeys(path.rstrip("/") for path in paths if path.startswith("/")))


def split_library_path(value: str, libc: Libc | None) -> tuple[str, ...]:
    """Return the elements of LD_LIBRARY_PATH, at the separators of the loader of `libc`."""
    for separator in _process_class(libc).separators:
        value = value.replace(separator, ":")
    return tuple(value.split(":")) if value else ()


def library_path_directories(environment: Environment) -> tuple[str, ...]:
    """Return the directories of LD_LIBRARY_PATH; the `$ORIGIN` of glibc is the program's."""
    process = _process(FileSystem(environment, Budget.of_files()), environment.main)
    return tuple(directory for _, directory in process.library_path.pairs)


def is_after_library_path(how: How, libc: Libc | None) -> bool:
    """Return whether the loader of `libc` takes the step `how` after LD_LIBRARY_PATH."""
    return how in _process_class(libc).after_library_path


_PROCESSES: Mapping[Libc, type[LoaderProcess]] = {
    Libc.MUSL: musl_search.MuslProcess,
    Libc.BIONIC: bionic_search.BionicProcess,
}


def _process(files: FileSystem, main: str | None) -> LoaderProcess:
    return _process_class(files.environment.libc)(files, main)


def _process_class(libc: Libc | None) -> type[LoaderProcess]:
    return _PROCESSES.get(libc or Libc.GLIBC, glibc_search.GlibcProcess)
