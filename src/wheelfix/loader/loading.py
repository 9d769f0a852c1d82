"""Library search of the dynamic loaders, glibc's `ld.so` and musl's: what a load finds, and why.

A model of `_dl_map_object` (glibc, elf/dl-load.c), `_dl_map_object_deps` (elf/dl-deps.c) and
`load_library` (musl, ldso/dynlink.c) over a described environment. It tries the same directories in
the same order, and records each candidate with its outcome, so that a failure can be explained.
"""

import posixpath
from collections.abc import Iterable

from wheelfix.budget import Budget
from wheelfix.elf.model import Elf, Libc
from wheelfix.loader import glibc_search, musl_search
from wheelfix.loader.file_system import FileSystem
from wheelfix.loader.load_values import Dlopen, Environment, How, Load
from wheelfix.loader.process import LoaderProcess


def load(root: str, environment: Environment, budget: Budget) -> Load:
    """Load `root` in a new process: dlopen for a library, a start for an executable."""
    return load_each([root], environment, budget)[0]


def load_each(roots: Iterable[str], environment: Environment, budget: Budget) -> tuple[Load, ...]:
    """Load each of `roots` in a new process of its own.

    Raises `BudgetError` when `budget` is spent.
    """
    files = FileSystem(environment, budget)
    return tuple(_load(root, files) for root in roots)


def load_all(
    roots: Iterable[str | Dlopen], environment: Environment, budget: Budget
) -> tuple[Load, ...]:
    """Open `roots` one after the other in one process: earlier loads provide for later ones.

    Raises `BudgetError` when `budget` is spent.
    """
    process = start_process(FileSystem(environment, budget))
    return tuple(
        process.dlopen(root.name, root.caller) if isinstance(root, Dlopen) else process.dlopen(root)
        for root in roots
    )


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
    if environment.libc is Libc.MUSL or "$" not in name:
        return name
    return glibc_search.expanded_name(name, origin, environment)


def library_path_directories(environment: Environment) -> tuple[str, ...]:
    """Return the directories of LD_LIBRARY_PATH; the `$ORIGIN` of glibc is the program's."""
    process = _process(FileSystem(environment, Budget.of_files()), environment.main)
    return tuple(directory for _, directory in process.library_path.pairs)


def is_after_library_path(how: How, libc: Libc | None) -> bool:
    """Return whether the loader of `libc` takes the step `how` after LD_LIBRARY_PATH."""
    return how in _process_class(libc).after_library_path


def _load(root: str, files: FileSystem) -> Load:
    _, elf = files.file(root)
    if isinstance(elf, Elf) and elf.is_executable:
        return _process(files, root).start(root)
    return start_process(files).dlopen(root)


def _process(files: FileSystem, main: str | None) -> LoaderProcess:
    return _process_class(files.environment.libc)(files, main)


def _process_class(libc: Libc | None) -> type[LoaderProcess]:
    return musl_search.MuslProcess if libc is Libc.MUSL else glibc_search.GlibcProcess
