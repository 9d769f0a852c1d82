"""Library search of glibc's dynamic loader, ld.so: elf/dl-load.c and elf/dl-deps.c."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from wheelfix.budget import Budget
from wheelfix.elf.constants import DF_1_NODEFLIB
from wheelfix.elf.model import DF_1_PIE, Elf, ElfType, Filtee
from wheelfix.loader.file_system import FileSystem, SearchList
from wheelfix.loader.load_values import Environment, How, SearchOutcome
from wheelfix.loader.machine_names import LIB64, X86_64_LEVELS
from wheelfix.loader.process import LinkMap, LoaderProcess, SearchLists
from wheelfix.system.lazy_patterns import lazy_pattern

_TOKEN = lazy_pattern(r"\$(?:\{(ORIGIN|LIB|PLATFORM)\}|(ORIGIN|LIB|PLATFORM)(?![A-Za-z0-9_]))")


_ABI_VERSIONS = {0: range(1), 3: range(4)}
"""EI_ABIVERSION that glibc accepts, by EI_OSABI: ELFOSABI_SYSV, ELFOSABI_GNU (LIBC_ABI_MAX)."""


def hwcaps(level: int) -> tuple[str, ...]:
    """Return the subdirectories that glibc 2.33 tries on x86-64 CPUs of `level` (1 to 4)."""
    return tuple(f"glibc-hwcaps/{name}" for name in X86_64_LEVELS[: level - 1][::-1])


def tokens(entry: str) -> frozenset[str]:
    """Return the names of the tokens that glibc expands in an element: `ORIGIN`, `LIB`."""
    return frozenset(match[1] or match[2] for match in _TOKEN.finditer(entry))


def expand(
    entry: str, origin: str | None, *, lib: str = LIB64, platform: str | None = None
) -> str | None:
    """Expand `$ORIGIN`, `$LIB` and `$PLATFORM` as glibc does; unknown tokens are kept.

    Return None if a token has no value: the loader ignores the element (`_dl_dst_substitute`).
    """
    if "$" not in entry:
        return entry
    values = {"ORIGIN": origin, "LIB": lib, "PLATFORM": platform}
    if any(values[token] is None for token in tokens(entry)):
        return None
    return _TOKEN.sub(lambda match: values[match[1] or match[2]] or "", entry)


def search_path_directories(
    path: str, origin: str | None, environment: Environment
) -> tuple[tuple[str, str], ...]:
    """Return the elements of a DT_RPATH or DT_RUNPATH, each with its directory."""
    return expand_directories(path.split(":") if path else (), origin, environment)


def expand_directories(
    elements: Iterable[str], origin: str | None, environment: Environment
) -> tuple[tuple[str, str], ...]:
    """Expand the elements, strip trailing slashes, drop repeated directories (`fillin_rpath`)."""
    by_directory: dict[str, str] = {}
    for element in elements:
        text = expand(element, origin, lib=environment.lib, platform=environment.platform)
        if text is not None:
            by_directory.setdefault((text.rstrip("/") or "/") if text else "", element)
    return tuple((element, directory) for directory, element in by_directory.items())


def expand_name(name: str, origin: str | None, environment: Environment) -> str:
    """Return a DT_NEEDED name with its tokens expanded, or as it is if one has no value."""
    text = expand(name, origin, lib=environment.lib, platform=environment.platform)
    return name if text is None else text


class GlibcProcess(LoaderProcess):
    """`_dl_map_object` and `_dl_map_object_deps` of glibc's ld.so."""

    separators = ":;"  # `_dl_init_paths` in elf/dl-load.c
    after_library_path = frozenset({How.RUNPATH, How.CACHE, How.DEFAULT})

    def _entries(self, elf: Elf) -> Sequence[tuple[str, Filtee | None]]:
        if not elf.filtees:
            return super()._entries(elf)
        entries: list[tuple[str, Filtee | None]] = [(name, None) for name in elf.needed]
        for filtee in reversed(elf.filtees):
            entries.insert(filtee.position, (filtee.name, filtee))
        return entries

    def _expand(self, requester: LinkMap | None, name: str) -> str:
        return expand_name(name, requester.origin if requester else None, self.environment)

    def _directories(self, path: str, origin: str) -> tuple[tuple[str, str], ...]:
        return search_path_directories(path, origin, self.environment)

    def _library_directories(self) -> tuple[tuple[str, str], ...]:
        origin = self.main.origin if self.main else None
        return expand_directories(self.environment.library_path, origin, self.environment)

    def search_lists(self, requester: LinkMap | None, name: str) -> SearchLists:
        """Yield DT_RPATH (own and inherited), LD_LIBRARY_PATH, DT_RUNPATH, cache, defaults."""
        env = self.environment
        elf = requester.elf if requester else None
        runpath = elf.runpath if elf else None
        if runpath is None and requester is not None:
            yield from self._rpath_of(requester, How.RPATH)
        if runpath is None and (requester is None or requester is not self.main):
            yield from self._inherited(requester.loader if requester else None)
        yield How.LIBRARY_PATH, self.library_path
        if requester is not None and runpath is not None:
            yield How.RUNPATH, self._search_path(requester, runpath)
        no_defaults = elf is not None and elf.dt_flags_1 & DF_1_NODEFLIB
        cached = env.cache.get(name)
        if cached and not (no_defaults and cached.startswith(self._default_prefixes)):
            yield How.CACHE, self.files.list_of(((name, cached),))
        if not no_defaults:
            yield How.DEFAULT, self.defaults

    @property
    def _default_prefixes(self) -> tuple[str, ...]:
        return tuple(f"{directory}/" for directory in self.environment.default_directories)

    def _inherited(self, owner: LinkMap | None) -> tuple[tuple[How, SearchList], ...]:
        """Return the DT_RPATH of `owner`, of the objects that loaded it, and of the program.

        The DT_RPATH of an object with DT_RUNPATH is ignored.
        """
        new: list[LinkMap] = []
        while owner is not None and owner is not self.main and owner.rpaths is None:
            new.append(owner)
            owner = owner.loader
        above = owner.rpaths if owner else None
        lists = self._rpath_of(self.main, How.INHERITED) if above is None else above
        for loaded in reversed(new):
            if own := self._rpath_of(loaded, How.INHERITED):
                lists = (*own, *lists)
                self._spend(len(lists) >> 4, 8 * len(lists))
            loaded.rpaths = lists
        return lists

    def _rpath_of(self, owner: LinkMap | None, how: How) -> tuple[tuple[How, SearchList], ...]:
        elf = owner.elf if owner else None
        if owner is None or elf is None or elf.runpath is not None or elf.rpath is None:
            return ()
        places = self._search_path(owner, elf.rpath)
        return ((how, places),) if places.pairs else ()

    def _check(self, elf: Elf, reference: Elf) -> SearchOutcome:
        return check_header(elf, reference)

    def _add_other_name(self, known: LinkMap, name: str) -> None:
        self._add_name(known, name)

    def _names_of(self, loaded: LinkMap, name: str) -> Iterable[str]:
        soname = loaded.elf.soname if loaded.elf else None
        return (name, loaded.opened, *([soname] if soname else []))


def search_lists(chain: Sequence[tuple[str, Elf | None]], environment: Environment) -> SearchLists:
    """Yield the lists that are searched for what the first object of `chain` needs, in order.

    `chain` are an object, the one that caused it to be loaded, and so on up to the program, each
    with its path. ld.so.cache is left out.
    """
    loader: LinkMap | None = None
    for path, elf in reversed(chain):
        origin = path.rpartition("/")[0] or "/"
        loader = LinkMap(file=path, opened=path, origin=origin, elf=elf, loader=loader)
    files = FileSystem(replace(environment, cache={}), Budget.of_files())
    process = GlibcProcess(files, None)
    return process.search_lists(loader, "")


def check_header(elf: Elf, reference: Elf) -> SearchOutcome:
    """Return what glibc does with an object in a process whose objects are like `reference`.

    `open_verify`: other classes and machines are skipped, other errors are fatal.
    """
    versions = _ABI_VERSIONS.get(elf.osabi, range(0))
    is_valid = elf.valid_header and elf.abi_version in versions
    checks = (
        (elf.bits == reference.bits, SearchOutcome.WRONG_CLASS),
        (elf.little_endian == reference.little_endian, SearchOutcome.WRONG_ENDIANNESS),
        (elf.osabi in _ABI_VERSIONS, SearchOutcome.WRONG_OSABI),
        (is_valid, SearchOutcome.INVALID_HEADER),
        (elf.machine == reference.machine, SearchOutcome.WRONG_MACHINE),
        (elf.convention == reference.convention, SearchOutcome.WRONG_CONVENTION),
        (is_shared_object(elf), SearchOutcome.NOT_SHARED),
    )
    return next((outcome for is_met, outcome in checks if not is_met), SearchOutcome.FOUND)


def is_shared_object(elf: Elf) -> bool:
    """Return whether a process that runs may map the object: programs, also PIE, are refused."""
    return elf.type == ElfType.DYN and not elf.dt_flags_1 & DF_1_PIE and elf.dynamic
