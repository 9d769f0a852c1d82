"""Library search of musl's dynamic loader, ldso/dynlink.c."""

from collections.abc import Iterable

from wheelfix.elf.model import ORIGIN, Elf, ElfType
from wheelfix.loader.load_values import How, Request, SearchOutcome
from wheelfix.loader.process import LinkMap, LoaderProcess, SearchLists
from wheelfix.system.lazy_patterns import lazy_pattern

SEPARATORS = lazy_pattern(r"[:\n]+")
"""What stands between the entries of a search path, and of `/etc/ld-musl-ARCH.path`."""
RESERVED = ("c", "pthread", "rt", "m", "dl", "util", "xnet")
"""`libNAME.*` of these names is musl itself (ldso/dynlink.c, `load_library`)."""
_BUILTIN = lazy_pattern(rf"lib(?:{'|'.join(RESERVED)})\.[^/]*$")


def is_musl_itself(name: str) -> bool:
    """Return whether musl's loader takes itself for the library `name`, and looks for no file."""
    return _BUILTIN.match(name) is not None or name.startswith("/lib/ld-musl-")


def search_path_directories(path: str, origin: str | None) -> tuple[tuple[str, str], ...]:
    """Return the elements of a search path, each with its directory (`fixup_rpath`).

    Empty if the path has any other `$` than `$ORIGIN`.
    """
    if origin is None or "$" in ORIGIN.sub("", path):
        return ()
    elements = [element for element in SEPARATORS.split(path) if element]
    return tuple((element, origin.join(ORIGIN.split(element))) for element in elements)


class MuslProcess(LoaderProcess):
    """`load_library` and `load_deps` of musl."""

    separators = ":\n"  # `path_open` in ldso/dynlink.c
    after_library_path = frozenset({How.RPATH, How.INHERITED, How.DEFAULT})

    _loop_ends_search = True
    _dlopen_inherits = True
    _program_is_unnamed = False

    def _is_builtin(self, name: str) -> bool:
        return is_musl_itself(name)

    def _directories(self, path: str, origin: str) -> tuple[tuple[str, str], ...]:
        return search_path_directories(path, origin)

    def _library_directories(self) -> tuple[tuple[str, str], ...]:
        return tuple((path, path) for path in self.environment.library_path if path)

    def _request(
        self, requester: LinkMap | None, name: str, *, dlopen: bool = False
    ) -> tuple[LinkMap | None, Request]:
        """Find a name; an object's own are looked up once (`load_direct_deps`)."""
        if requester is None or dlopen:
            return super()._request(requester, name, dlopen=dlopen)
        if known := requester.dependencies.get(name):
            request = Request(requester=requester.file, name=name, result=known.file)
            return known, request._replace(how=How.LOADED)
        library, request = super()._request(requester, name)
        if library is not None:
            requester.dependencies[name] = library
        return library, request

    def search_lists(self, requester: LinkMap | None, name: str) -> SearchLists:
        """Yield LD_LIBRARY_PATH, the search paths (own and inherited), the defaults."""
        if not name:  # EINVAL, without a search
            return
        yield How.LIBRARY_PATH, self.library_path
        owner = requester
        while owner is not None:
            path = owner.elf.search_path if owner.elf else None
            if path is not None:
                how = How.RPATH if owner is requester else How.INHERITED
                yield how, self._search_path(owner, path)
            owner = owner.loader
            self._spend(1, 0)
        yield How.DEFAULT, self.defaults

    def _check(self, elf: Elf, reference: Elf) -> SearchOutcome:
        """`map_library`: the first file that opens is taken, or fatal; e_machine is not checked."""
        if elf.bits != reference.bits:
            return SearchOutcome.NOT_ELF  # "Exec format error" as well
        if elf.little_endian != reference.little_endian:
            return SearchOutcome.WRONG_ENDIANNESS
        if elf.type not in {ElfType.DYN, ElfType.EXEC} or not elf.dynamic:
            return SearchOutcome.NOT_SHARED
        return SearchOutcome.FOUND

    def _caller(self, path: str) -> LinkMap | None:
        del path  # a dlopen always uses the search path of the program
        return self.main

    def _origin(self, opened: str) -> str:
        return super()._origin(opened) if opened.startswith("/") else opened.rpartition("/")[0]

    def _add_other_name(self, known: LinkMap, name: str) -> None:
        if "/" not in name and not known.names:
            self._add_name(known, known.opened.rpartition("/")[2])

    def _names_of(self, loaded: LinkMap, name: str) -> Iterable[str]:
        return () if "/" in name else (loaded.opened.rpartition("/")[2],)
