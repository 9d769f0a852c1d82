"""Library search of Android's dynamic loader, bionic's linker/linker.cpp, from API level 23 on.

Read in its sources, not tried: a device decides what `/system` and the namespace of an app hold.
"""

from collections.abc import Iterable

from wheelfix.elf.model import Elf, ElfType
from wheelfix.loader.glibc_search import expand_directories
from wheelfix.loader.load_values import How, SearchOutcome
from wheelfix.loader.process import LinkMap, LoaderProcess, SearchLists


class BionicProcess(LoaderProcess):
    """`find_libraries` and `open_library`: no DT_RPATH, nothing inherited, no ld.so.cache."""

    separators = ":"  # `parse_LD_LIBRARY_PATH`
    after_library_path = frozenset({How.RUNPATH, How.DEFAULT})

    _program_is_unnamed = False

    def _directories(self, path: str, origin: str) -> tuple[tuple[str, str], ...]:
        """Expand `$ORIGIN` and `$LIB` (`soinfo::set_dt_runpath`)."""
        return expand_directories(path.split(":"), origin, self.environment)

    def _library_directories(self) -> tuple[tuple[str, str], ...]:
        return tuple((path, path) for path in self.environment.library_path if path)

    def search_lists(self, requester: LinkMap | None, name: str) -> SearchLists:
        """Yield LD_LIBRARY_PATH, the requester's own DT_RUNPATH, the namespace's directories."""
        del name
        yield How.LIBRARY_PATH, self.library_path
        runpath = requester.elf.runpath if requester is not None and requester.elf else None
        if requester is not None and runpath and self.environment.reads_runpath:
            yield How.RUNPATH, self._search_path(requester, runpath)
        yield How.DEFAULT, self.defaults

    def _check(self, elf: Elf, reference: Elf) -> SearchOutcome:
        """`ElfReader::VerifyElfHeader`: the first file that opens is taken, or fatal."""
        if elf.abi != reference.abi:
            return SearchOutcome.INVALID_HEADER
        is_taken = elf.type == ElfType.DYN and elf.dynamic
        return SearchOutcome.FOUND if is_taken else SearchOutcome.NOT_SHARED

    def _add_other_name(self, known: LinkMap, name: str) -> None:
        """Only its SONAME is a name of an object (`find_loaded_library_by_soname`)."""

    def _names_of(self, loaded: LinkMap, name: str) -> Iterable[str]:
        del name
        return (loaded.elf.soname,) if loaded.elf and loaded.elf.soname else ()
