"""Why a load fails: all that its objects need and do not get, as the loader asks for it.

The one judgement of a load. glibc maps every file first, then compares versions
(elf/dl-version.c), makes the stack executable and finds room for static TLS (elf/dl-load.c,
elf/dl-tls.c), and binds symbols last (elf/dl-lookup.c). Python looks up the init function then.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from functools import cached_property
from importlib.machinery import BuiltinImporter, FrozenImporter

from wheelfix.analysis.world import World
from wheelfix.budget import Budget
from wheelfix.elf.constants import DF_1_NOW, DF_BIND_NOW
from wheelfix.elf.demangle import demangle, join_with_mangled
from wheelfix.elf.exports import among, idle
from wheelfix.elf.model import LIBC_SONAMES, Elf, Libc, Undefined, VersionNeed
from wheelfix.frozen import frozen
from wheelfix.grouping import flatten, values_by_key
from wheelfix.loader.as_needed import Library
from wheelfix.loader.executable_stack import REFUSING_GLIBC, requires_executable_stack
from wheelfix.loader.install_schemes import name_in_site, python_version
from wheelfix.loader.load_values import Load, Request, SearchOutcome
from wheelfix.loader.platform_libraries import (
    definers_of,
    defines,
    first_versions,
    may_come_from_platform,
    to_be_linked,
)
from wheelfix.loader.python_api import (
    MODULE_SUFFIX,
    exports,
    find,
    init_functions,
    is_libpython,
    is_python_name,
    versions_with,
)
from wheelfix.loader.static_tls import SURPLUS, UNLIMITED, fits, required_bytes
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, binds, undefined_names
from wheelfix.loader.symbol_versions import (
    ACCEPTS_UNVERSIONED,
    came_later,
    newer,
    refused_versions,
    versions_too_new,
)
from wheelfix.named_tuple import NamedTuple
from wheelfix.system.lazy_patterns import lazy_pattern
from wheelfix.text import are, by_number, count, join_plain, join_some, them
from wheelfix.wheel.grafted_name import original_name, remove_hash

UNLESS_LOADED = "; nothing to do if code loads what is missing before"
"""How the advice ends about what is not known to fail."""
_OF_CXX = lazy_pattern(r"_Z(\d{1,4})")
"""A function outside of classes and namespaces; the number is the length of its name."""
_LENGTH = lazy_pattern(r"\d{1,4}")
"""Of the name that follows, in one of C++."""
_NEW_STRING = lazy_pattern(r"B5cxx11|NSt7__cxx11")
"""Of the ABI of libstdc++ since GCC 5, unless `_GLIBCXX_USE_CXX11_ABI` is 0."""


class Failure(StrEnum):
    """What of a load fails. The values appear in JSON output."""

    FILE = "file"
    """A library is not found, or is not one for this process."""
    VERSION = "version"
    STACK = "executable stack"
    STATIC_TLS = "static TLS"
    SYMBOL = "symbol"
    UNVERSIONED = "symbol without its version"
    """glibc before 2.41 ends the process (`ACCEPTS_UNVERSIONED`)."""
    INIT = "init function"


_WORDS = {Failure.STACK: "executable stack", Failure.STATIC_TLS: "static TLS"}
"""What the loader's message has for what no name is in."""


class Lack(NamedTuple):
    """What an object of a load needs, and does not get."""

    failure: Failure
    requester: str
    """The path of the object."""
    library: str = ""
    """The name in DT_NEEDED or Verneed; empty for symbols without a version."""
    result: str | None = None
    """The file that was loaded for `library`; None if none was found."""
    versions: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    definers: tuple[str, ...] = ()
    """The files that define `symbols`, and are not loaded for the object."""
    there: str = ""
    """The newest version of a platform's library; what is wrong with a file."""
    alike: tuple[str, str] | None = None
    """The file that has the first of `symbols` in the other of C and C++, or for the other ABI of
    libstdc++, and under which name."""
    is_known: bool = True
    """Whether the load fails for it; otherwise a file that was not read may have it."""

    @property
    def words(self) -> tuple[str, ...]:
        """The message of the loader contains one of these words."""
        if self.failure is Failure.UNVERSIONED:
            return ("check_match",)
        if self.there == SearchOutcome.TRUNCATED:
            return (self.library, "SIGBUS")
        if self.failure in _WORDS:
            return (_WORDS[self.failure],)
        if self.failure is Failure.SYMBOL and self.library and not self.result:
            return (*self.symbols, "_dl_check_map_versions")  # no file for a version (Verneed)
        return self.symbols or self.versions or (self.library,)

    @property
    def is_of_machine(self) -> bool:
        """Whether the machine has a library in place of the one that is not found."""
        return self.failure is Failure.FILE and self.result is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The versions or symbols; none of a file, a stack or static TLS."""
        return self.versions or self.symbols

    @property
    def what(self) -> str:
        """The library or the first symbol: what loads that fail for one reason have in common."""
        return self.library or self.words[0]


@frozen
class LoadJudge:
    """The judge of the loads of a world, with the symbols of the files that can be read."""

    world: World
    index: SymbolIndex = field(default_factory=lambda: SymbolIndex({}, frozenset()))
    """The files that were read; of a machine that is only described, names are known at most."""
    unloaded: Mapping[str, Library] = field(default_factory=dict[str, Library])
    """Others, which are asked only whether they define what nothing loaded does."""
    mentions: Callable[[str, str], bool] = field(default=lambda _, __: False, compare=False)
    """Whether the file at a path has a string."""
    for_all: Sequence[str] = ()
    """The objects that were opened for all others before (RTLD_GLOBAL)."""

    @classmethod
    def of(
        cls,
        world: World,
        libraries: Mapping[str, Library],
        loads: Iterable[Load],
        mentions: Callable[[str, str], bool],
        for_all: Sequence[str] = (),
    ) -> "LoadJudge":
        """Return the judge of some loads, which reads the symbols of no other object if all bind.

        `libraries` are all that can be read, by path.
        """
        loaded = cls(world=world, for_all=for_all)
        paths = {*loaded.start, *for_all, *flatten(load.objects for load in loads)}
        read = {path: library for path, library in libraries.items() if path in paths}
        return replace(
            loaded,
            index=SymbolIndex(read, undefined_names(read), world.environment.libc),
            unloaded={path: library for path, library in libraries.items() if path not in paths},
            mentions=mentions,
        )

    @cached_property
    def start(self) -> tuple[str, ...]:
        """The objects of the main program, with which every scope begins."""
        main = self.world.environment.main
        return self.world.process(main)[0].objects if main else ()

    def lacks(self, load: Load) -> Iterator[Lack]:
        """Yield all that objects of `load` do not get, in the order in which the loader asks.

        Symbols are not judged where a library is not found: it may define them.
        """
        yield from self.file_lacks(load)
        yield from self.version_lacks(load)
        yield from self.stack_lacks(load)
        yield from self._static_tls(load)
        if not load.missing:
            yield from self.symbol_lacks(load)

    def lacks_beside(self, load: Load, alone: Load) -> Iterator[Lack]:
        """Yield what `load` lacks for the files before it: a load of its file `alone` does not."""
        known = {(lack.requester, name) for lack in self._names(alone) for name in lack.names}
        for lack in self._names(load):
            if new := tuple(name for name in lack.names if (lack.requester, name) not in known):
                yield lack if lack.versions else lack._replace(symbols=new, definers=())

    def _names(self, load: Load) -> Iterator[Lack]:
        yield from self.version_lacks(load)
        yield from self.symbol_lacks(load)

    def file_lacks(self, load: Load) -> Iterator[Lack]:
        """Yield the files that are not found, or that the loader refuses."""
        for request in load.missing:
            last = request.candidates[-1:] if request.fatal or "/" in request.name else ()
            why = "".join(c.verdict for c in last if c.outcome is not SearchOutcome.ABSENT)
            yield Lack(Failure.FILE, request.requester or load.root, request.name, there=why)

    def init_lack(self, load: Load) -> Iterator[Lack]:
        """Yield the init function that an import of the file would look up, and not find.

        That is known of files with the suffix of extension modules alone.
        """
        folder, _, name = load.root.rpartition("/")
        stem, dot, _ = name.partition(".")
        stem = folder.rpartition("/")[2] if stem == "__init__" else stem
        if dot and MODULE_SUFFIX.search(load.root) and self._fits_python(load.root):
            files = self.world.environment.files
            hooks = init_functions(stem, self.world.schemes[0].python)
            loaded = (files[path] for path in load.objects if path in files)
            if not load.missing and not any({*elf.module_hooks} & {*hooks} for elf in loaded):
                yield Lack(Failure.INIT, load.root, symbols=hooks[:1])

    def _is_judged(self, path: str) -> bool:
        """Return whether a file is of a wheel, or of a variable; the platform's fit together."""
        world = self.world
        return path in world.members or path in world.others or path in world.of_variables

    # --- Versions, stack, TLS

    def version_lacks(self, load: Load) -> Iterator[Lack]:
        """Yield the symbol versions that the files of a load do not define."""
        files = self.world.environment.files
        results = {(request.requester, request.name): request.result for request in load.requests}
        for path in load.objects:
            elf = files.get(path)
            for need in elf.verneed if elf and self._is_judged(path) else ():
                result = results.get((path, need.file))
                if elf and (result is None or result in self.world.described):
                    yield from self._too_new(path, elf, need, result)
                elif refused := refused_versions(need, files.get(result or ""), self._libc):
                    yield Lack(Failure.VERSION, path, need.file, result, refused)

    def _too_new(
        self, path: str, elf: Elf, need: VersionNeed, result: str | None
    ) -> Iterator[Lack]:
        lacking = versions_too_new(elf._replace(verneed=(need,)), self.world.versions)
        groups = values_by_key(((lack.newest, lack.is_missing), lack.version) for lack in lacking)
        for (newest, is_missing), versions in groups.items():
            yield Lack(
                Failure.VERSION,
                path,
                need.file,
                result,
                tuple(versions),
                there=newest,
                is_known=is_missing,
            )

    def _opened(self, load: Load) -> Iterator[tuple[str, Elf]]:
        """Yield the objects of wheels that dlopen loads; not those of a program that starts."""
        files = self.world.environment.files
        root = files.get(load.root)
        for path in () if root is None or root.is_executable else load.objects:
            if path in self.world.members or (self._is_judged(path) and files[path].segments):
                yield path, files[path]

    def stack_lacks(self, load: Load) -> Iterator[Lack]:
        """Yield each object that needs an executable stack, which glibc refuses to make."""
        if not newer(REFUSING_GLIBC, self.world.glibc or "0"):
            for path, elf in self._opened(load):
                if requires_executable_stack(elf):
                    yield Lack(Failure.STACK, path, result=path)

    def _static_tls(self, load: Load) -> Iterator[Lack]:
        """Yield the object with the most static TLS, if all of a load have too much."""
        if self.world.glibc and newer(self.world.glibc, UNLIMITED):
            sizes = {path: required_bytes(elf) for path, elf in self._opened(load)}
            if not fits(sum(sizes.values())):
                largest = max(sizes, key=sizes.__getitem__)
                yield Lack(Failure.STATIC_TLS, largest, there=count(sum(sizes.values()), "byte"))

    @property
    def _libc(self) -> Libc:
        return self.world.environment.libc

    # --- Symbols

    def symbol_lacks(self, load: Load) -> Iterator[Lack]:
        """Yield the references of each object of a load that nothing defines for it.

        A program that binds when it calls fails no load.
        """
        files = self.world.environment.files
        root = files.get(load.root)
        is_lazy = root is not None and root.is_executable and not _binds_now(root)
        scope = Scope(dict.fromkeys((*self.start, *self.for_all, *load.objects)), self.index)
        read = self.index.libraries
        unread = [path for path in (*self.start, *load.objects) if path not in read]
        for path in load.objects if not is_lazy or self._libc is not Libc.GLIBC else ():
            if path in read and self._is_judged(path):
                yield from self._unbound(load, path, scope, unread)
        yield from self.unversioned_lacks(load)

    def undefined(self, path: str) -> Iterator[Lack]:
        """Yield the references of an object that no file of the world defines."""
        libraries = dict.fromkeys((path, *self.index.libraries))
        yield from self._unbound(
            Load(root=path, objects=(), requests=()), path, Scope(libraries, self.index), ()
        )

    def _unbound(
        self, load: Load, path: str, scope: Scope, unread: Sequence[str]
    ) -> Iterator[Lack]:
        results: dict[str, str | None] | None = None
        for definers, asked in self.index.references(path).items():
            strong = () if scope.first(definers) else [s for s in asked if not s.weak]
            self.world.budget.spend(1 + (len(strong) << 2), "the undefined symbols", path)
            skipped = idle(self.index.libraries[path].exports) if strong else ()
            answers = values_by_key(
                ((self._defined_unread(load, reference, unread), reference.file or ""), reference)
                for reference in strong
                if reference.name not in skipped
            )
            for (answer, file), references in answers.items():
                if answer is True:
                    continue
                if results is None:
                    self.world.budget.spend(len(load.requests) >> 3, "what is loaded", load.root)
                    requests = (request for request in load.requests if request.requester == path)
                    results = {request.name: request.result for request in requests}
                lack = Lack(Failure.SYMBOL, path, file, results.get(file))
                if answer is not False:
                    lack = lack._replace(
                        symbols=tuple(reference.name for reference in references),
                        definers=definers,
                        there=join_some(answer, 3),
                        is_known=False,
                    )
                    yield lack._replace(alike=self._alike(results, lack, lack.symbols[0], definers))
                else:
                    # Only now are other files read: in most environments nothing is lacking.
                    elsewhere = self._elsewhere(() if definers else references)
                    groups = values_by_key(
                        (elsewhere.get(symbol, definers), symbol.name) for symbol in references
                    )
                    for defining, names in groups.items():
                        alike = self._alike(results, lack, names[0], defining)
                        yield lack._replace(symbols=tuple(names), definers=defining, alike=alike)

    def _defined_unread(
        self, load: Load, reference: Undefined, unread: Sequence[str]
    ) -> bool | tuple[str, ...]:
        """Return whether a file that was not read defines a reference, or which files may.

        None of them may, if it is only not known what the program defines.
        """
        main, name = self.world.environment.main, reference.name
        if reference.version is None and is_python_name(name):
            if main is None or not self._fits_python(load.root):
                return True  # the interpreter's: it is not known, or another one
            python = self.world.schemes[0].python
            return exports(python, name) is not False if main in unread else False
        if self._libc is Libc.MUSL and defines(LIBC_SONAMES[Libc.MUSL], name, None, Libc.MUSL):
            return True  # the loader itself, which no request is for
        files = {path: path.rpartition("/")[2] for path in unread if path != main}
        if self.world.glibc and reference.version is None and came_later(name, self.world.versions):
            files = {path: file for path, file in files.items() if file not in definers_of(name)}
        answers = {
            path: defines(file, name, reference.version, self._libc)
            for path, file in files.items()
            if not is_libpython(file)
        }
        if True in answers.values():
            return True
        # An object was not linked with what only the program loads, such as libexpat.so.1.
        unknown = tuple(files[path] for path in load.objects if answers.get(path, False) is None)
        # Of another program, Python defines only its API.
        return unknown if unknown or (main is None and self.world.described) else False

    def _fits_python(self, path: str) -> bool:
        return fits_python(path, [self.world.schemes[0].python])

    def _alike(
        self,
        needed: Mapping[str, str | None],
        lack: Lack,
        symbol: str,
        definers: Sequence[str],
    ) -> tuple[str, str] | None:
        """Ask the libraries of the package, and what the object itself is linked with."""
        top = _top_level(self.world, lack.requester)
        if any(_top_level(self.world, definer) == top for definer in definers):
            return None
        linked = {path for name, path in needed.items() if not may_come_from_platform(name)}
        every = {**self.index.libraries, **self.unloaded}.items()
        own = {
            place: each
            for place, each in every
            if place in linked or _top_level(self.world, place) == top
        }
        return alike_elsewhere(symbol, own, self.world.budget, self.mentions)

    def _elsewhere(self, references: Sequence[Undefined]) -> Mapping[Undefined, tuple[str, ...]]:
        """Return the files that are not loaded and define some references, for each of these."""
        wanted = frozenset(reference.name for reference in references)
        definers: dict[Undefined, tuple[str, ...]] = {}
        for path, library in self.unloaded.items() if wanted else ():
            definitions = library.exports.definitions
            there = among(definitions, wanted)
            for symbol in references if there else ():
                name = symbol.name
                if name in there and binds(definitions[name], symbol.version, self._libc):
                    definers[symbol] = (*definers.get(symbol, ()), path)
        return definers

    def unversioned_lacks(self, load: Load) -> Iterator[Lack]:
        """Yield the references that bind to a library which has lost the versions it had."""
        lost = self.world.unversioned.intersection(load.objects)
        if not lost:
            return
        given = {(request.name, request.result) for request in load.requests}
        scope = Scope(dict.fromkeys((*self.start, *self.for_all, *load.objects)), self.index)
        for path in load.objects:
            is_read = path in self.index.libraries and self._is_judged(path)
            for definers, references in self.index.references(path).items() if is_read else ():
                definer = scope.first(definers)
                if definer not in lost:
                    continue
                named = values_by_key(
                    (reference.file, reference.name)
                    for reference in references
                    if reference.file and (reference.file, definer) in given
                )
                for file, names in named.items():
                    yield Lack(Failure.UNVERSIONED, path, file, definer, symbols=tuple(names))


def fits_python(path: str, pythons: Iterable[str]) -> bool:
    """Return whether the suffix of a file is not that of a Python other than all of `pythons`."""
    match = MODULE_SUFFIX.search(path)
    minor = match["cpython"] or match["pypy"] if match else None
    minors = {python_version(python).partition(".")[2] for python in pythons}
    return minor is None or not minors.isdisjoint({minor, ""})


def hidden_at(path: str, module: str, python: str) -> str:
    """Return what `hidden` does of a module installed at `path`.

    Outside of site-packages, as of `pip --target`, PYTHONPATH has its folder, and comes first, but
    not before what is built in or frozen (sys.meta_path).
    """
    top, is_in_site = module.partition(".")[0], name_in_site(path) != path
    is_later = is_in_site or any(finder.find_spec(top) for finder in _BEFORE_PATHS)
    return hidden(module, python) if is_later else ""


def hidden(module: str, python: str) -> str:
    """Return why a Python imports its own module for a top-level name; empty if it may not.

    It is known of the running version alone.
    """
    is_running = python.removesuffix("t") == f"python3.{sys.version_info.minor}"
    name = module.partition(".")[0]
    return HIDDEN * (is_running and name in sys.stdlib_module_names and name not in _NOT_ALWAYS)


_BEFORE_PATHS = (BuiltinImporter, FrozenImporter)
_NOT_ALWAYS = frozenset({
    "_bz2", "_crypt", "_ctypes", "_curses", "_curses_panel", "_dbm", "_gdbm", "_hashlib", "_lzma",
    "_msi", "_overlapped", "_scproxy", "_sqlite3", "_ssl", "_tkinter", "_uuid", "_winapi", "_wmi",
    "distutils", "ensurepip", "idlelib", "lib2to3", "msilib", "msvcrt", "nis", "nt", "ossaudiodev",
    "readline", "spwd", "test", "tkinter", "turtle", "turtledemo", "venv", "winreg", "winsound",
    "zlib",
})  # fmt: skip
"""Modules of other systems, those that distributions package apart, as Debian python3-venv, and
those that CPython is built without where it finds no library for them."""


def gets_otherwise(load: Load, alone: Load) -> Iterator[tuple[Request, str]]:
    """Yield the requests that get another file than in a load of the same file `alone`."""
    results = {(request.requester, request.name): request.result for request in alone.requests}
    for request in load.requests:
        usual = results.get((request.requester, request.name))
        if usual and request.result and usual != request.result:
            yield request, usual


def _binds_now(elf: Elf) -> bool:
    return bool(elf.dt_flags & DF_BIND_NOW or elf.dt_flags_1 & DF_1_NOW)


def is_source(path: str) -> bool:
    """Return whether what asks for a library is Python code."""
    return path.endswith((".py", ".pth"))


def _top_level(world: World, path: str) -> str:
    """Return the package of a file, also of the folder of its grafted libraries."""
    return world.members.get(path, "").partition("/")[0].partition(".")[0]


def alike_elsewhere(
    symbol: str,
    libraries: Mapping[str, Library],
    budget: Budget,
    mentions: Callable[[str, str], bool],
) -> tuple[str, str] | None:
    """Return the library with a function of C that is sought as one of C++, or the reverse.

    Or with one of C++ for the other `std::string` of libstdc++, or for other arguments, or with
    that very symbol, which it does not export. It comes with the name that the function has there.
    `mentions` tells whether the file at a path has a string: its .symtab has the names of hidden
    symbols.
    """
    size, function = _OF_CXX.match(symbol), _without_arguments(symbol)
    of_c = size and symbol[size.end() : size.end() + int(size[1])]
    for path, library in libraries.items():
        there, elf = library.exports.definitions, library.elf
        is_unknown = elf.symtab and symbol not in {
            *library.names,
            *among(there, frozenset({symbol})),
        }
        if is_unknown and mentions(path, symbol):
            return path, symbol
        if of_c and among(there, frozenset({of_c})):
            return path, of_c
        budget.spend(len(there), "the names of C++", path)
        starts = function if symbol.startswith("_Z") else f"_Z{len(symbol)}{symbol}"
        others = (name for name in there if _is_of_other_abi(symbol, name))
        for name in (*others, *(name for name in there if starts and name.startswith(starts))):
            return path, name
    return None


def _without_arguments(symbol: str) -> str:
    """Return how a function of C++ is mangled before its arguments; empty for other names."""
    end = begin = 3 if symbol.startswith("_ZN") else 2
    while size := _LENGTH.match(symbol, end):
        end = size.end() + int(size[0])
    is_whole = begin == 2 or symbol[end : end + 1] == "E"
    return symbol[: end + begin - 2] if symbol.startswith("_Z") and end > begin and is_whole else ""


def _is_of_other_abi(symbol: str, name: str) -> bool:
    """Return whether two functions of C++ differ in the `std::string` that they take or return."""
    if ("cxx11" in symbol) is ("cxx11" in name):
        return False
    older, newer = (name, symbol) if "cxx11" in symbol else (symbol, name)
    found = _NEW_STRING.search(newer)
    if found is None or not older.startswith(newer[: found.start()]):
        return False
    return demangle(older) == demangle(newer).replace("[abi:cxx11]", "")


# --- In words -------------------------------------------------------------------------------------


def lack_text(world: World, lack: Lack) -> str:
    """Return what is lacking as a clause."""
    who = f"`{world.label(lack.requester)}`"
    match lack.failure:
        case Failure.FILE if (
            lack.requester in {world.environment.main, lack.library}
            or lack.library in world.members
        ):
            # What the program itself opens.
            who = f"`{world.label(lack.library)}`"
            return f"{who} {'cannot be loaded: ' + lack.there if lack.there else 'is not there'}"
        case Failure.FILE:
            why = f"is not loadable: {lack.there}" if lack.there else "is not found"
            why = f"is only found as `{lack.result}`" if lack.is_of_machine else why
            verb = "opens" if is_source(lack.requester) else "needs"
            return f"`{world.label(lack.library)}`, which {who} {verb}, {why}"
        case Failure.STACK:
            return f"{who} needs an executable stack, which glibc {REFUSING_GLIBC} refuses"
        case Failure.STATIC_TLS:
            return f"{lack.there} of static TLS, most of {who}, where glibc has {SURPLUS:,}"
        case Failure.INIT:
            return f"{who} does not define `{lack.symbols[0]}`: Python cannot import it"
        case _:
            names = join_with_mangled(lack.symbols) or join_some(lack.versions, 2)
            verb = "refers to" if lack.symbols else "needs"
            return f"{who} {verb} {names}{_expected(world, lack)}"


def _expected(world: World, lack: Lack) -> str:
    """Return the library that should have the versions or symbols, and what it has."""
    file = "it" if lack.result is None else f"`{world.label(lack.result)}`"
    if not lack.is_known and (lack.there or not lack.definers):
        may = f", which may be of {lack.there}" if lack.there else ", maybe not defined"
        return f" of `{lack.library}`, which was not read" if lack.library else may
    if lack.failure is Failure.UNVERSIONED:
        return (
            f" with a version, and {file} has none: this ends a process of glibc before "
            f"{ACCEPTS_UNVERSIONED}"
        )
    if lack.definers and not _is_newer(world, lack):
        only = join_some([world.label(path) for path in lack.definers], 2)
        verb = are(lack.symbols or lack.versions)
        return f", which {verb} only in {only}, not loaded for it"
    if not lack.library:
        return ", not defined"
    if lack.there:
        return f" of `{lack.library}`; {world.name} has {lack.there}"
    return f" of `{lack.library}`, and {file} does not define it"


def _is_newer(world: World, lack: Lack) -> bool:
    """Return whether a symbol is one of a later glibc, whatever else of a machine has it."""
    is_own = not {*world.members, *world.others}.isdisjoint(lack.definers)
    return not is_own and first_versions().get(lack.symbols[0], "").startswith("GLIBC_")


OF_OTHER_PYTHON = "it is for another Python"
HIDDEN = "the standard library has its top-level name, and comes first"
BUILD_FOR_TAGS = "build it for the Python versions of the tags"
NAME_ANOTHER = "name another one in `pyproject.toml`, or build the wheel with it"
"""What an entry point leads to that is not there."""
NAME_MODULE_ALIKE = "use the same name for the file and the module, and export the function"
BUILD_IN_IMAGE = "build it in the image for the oldest tag"
OF_OPENMP = ("GOMP_", "omp_", "__kmpc_")
"""How the functions begin of the libraries that compilers link for OpenMP."""
_ON_OLDER = "build it on an older system"
_OF_AUTHORS = {
    Failure.STACK: "link with `-z noexecstack`",
    Failure.STATIC_TLS: "build it without `-ftls-model=initial-exec`",
    Failure.INIT: NAME_MODULE_ALIKE,
}


def named_way(world: World, lack: Lack, who: str) -> str:
    """Return what the authors of `who` must do, in the infinitive; empty where nothing is known."""
    if lack.failure is not Failure.SYMBOL:
        is_older = lack.failure is Failure.VERSION and lack.there
        return _OF_AUTHORS.get(lack.failure) or (_ON_OLDER if is_older else "")
    name, library = lack.symbols[0], to_be_linked(lack.symbols[0])
    if lack.definers and not _is_newer(world, lack):
        definer = world.environment.files[lack.definers[0]]
        if definer.is_executable:
            return f"leave it to `{world.label(lack.definers[0])}`: only that program can load it"
        soname = definer.soname
        is_own = lack.definers[0] in world.members
        library = soname if soname and not is_own else _as_linked(world, lack.definers[0])
    requester = world.environment.files.get(lack.requester)
    if library and not (requester and library in map(original_name, requester.needed)):
        return f"link {who} with `{library}`"
    return way_to_declare(world, name, *lack.alike) if lack.alike else _way_by_name(lack.symbols)


def _as_linked(world: World, path: str) -> str:
    """Return the label of a library; of a graft, the name with which authors link."""
    label = world.label(path)
    return remove_hash(label.rpartition("/")[2]) or label


def way_to_declare(world: World, name: str, path: str, other: str) -> str:
    """Return what to do about a symbol that `path` has under an `other` name."""
    library = f"`{_as_linked(world, path)}`"
    if name == other:
        where = f"{library}, if that hides it (`-fvisibility`)"
        return f"export it from {where}: it has the name, maybe only as a text"
    where = f"{library} defines it as `{other}`"
    if name.startswith("_Z") and other.startswith("_Z"):
        if ("cxx11" in name) is ("cxx11" in other):
            return f"compile both with the same declaration: {where}, for other arguments"
        return f"compile both with the same `-D_GLIBCXX_USE_CXX11_ABI`: {where}"
    plain, language = (name, "C++") if other.startswith("_Z") else (other, "C")
    return (
        f'declare `{plain}` as `extern "C"` wherever it is used: {where}, a function of {language}'
    )


def _way_by_name(symbols: Sequence[str]) -> str:
    name, it = symbols[0], them(symbols)
    if version := first_versions().get(name):
        return f"{BUILD_IN_IMAGE}: `{name}` came with {version}"
    if name.startswith(OF_OPENMP):
        return "compile and link it with `-fopenmp`"
    if not is_python_name(name):
        return ""
    if find(name):
        return f"{BUILD_FOR_TAGS}: {versions_with(symbols)}"
    names = "name" if len(symbols) == 1 else "names"
    return f"correct the {names}, or link what defines {it}: no known release of Python has {it}"


def bundled_way(world: World, lack: Lack) -> str:
    """Return what to do about versions that no other release of a distribution may have."""
    path = lack.result or ""
    if path in world.members or path in world.others:
        return (
            f"bundle the `{lack.library}` that it was linked with: `{world.label(path)}` lacks it"
        )
    if may_come_from_platform(lack.library):
        return _ON_OLDER
    return f"build it against the `{lack.library}` that it gets: `{path}` of this machine lacks it"


def way_of_build(world: World, lack: Lack, who: str) -> str:
    """Return what the authors must do about what their own build does not define."""
    if lack.failure is not Failure.SYMBOL or lack.result:
        return bundled_way(world, lack)
    way = "link the library, or compile the source, that defines it"
    user = world.environment.files.get(lack.requester)
    here = dict(world.linkable(lack.symbols, user)) if user and not lack.library else {}
    if here and user and here.keys().isdisjoint(map(original_name, user.needed)):
        named = join_plain([f"`{soname}` (`-l{name}`)" for soname, name in here.items()], 3)
        return f"{way}: {named} of this machine {by_number(here, 'does', 'do')}"
    results = (request.result or "" for request in world.load(lack.requester).requests[1:])
    ships = [world.members[path] for path in results if path in world.members]
    if _OF_CXX.match(lack.symbols[0]):
        way += '; if it is a function of C, declare it as `extern "C"`'
    build = f"; if that is {join_some(ships, 2)}, ship the build that {who} was linked with"
    return way + build * bool(ships)
