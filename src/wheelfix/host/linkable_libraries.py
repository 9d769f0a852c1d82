"""Libraries of this machine with which a linker links by `-l`, and what they define."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from wheelfix.elf.exports import SymbolTables, read_symbol_tables
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.errors import BadElfError
from wheelfix.grouping import flatten
from wheelfix.host.library_search import TRUSTED
from wheelfix.host.loader_config import configured_directories
from wheelfix.host.machine_files import map_regular
from wheelfix.loader.symbol_lookup import binds


def libraries_defining(symbol: str, user: Elf) -> Iterator[tuple[str, str]]:
    """Yield SONAMEs and names for `-l` of those that define a symbol for `user`, without version.

    Their folders are the default ones of the loader.
    """
    text = b"%b\0" % symbol.encode("utf-8", "surrogateescape")
    for path, (link, tables) in _linkable().items():
        if text in tables.strings and (found := tables.definitions(frozenset({symbol}))):
            elf = read_elf(map_regular(path), path)
            is_of_process = elf.abi == user.abi and user.libc in {elf.libc, None}
            if is_of_process and binds(found[symbol], None, elf.libc):
                yield elf.soname or link, link.removeprefix("lib").removesuffix(".so")


@lru_cache(1)
def _linkable() -> Mapping[str, tuple[str, SymbolTables]]:
    """Return what a linker finds as `libNAME.so`, and the symbols, by the path of the file."""
    found: dict[str, tuple[str, SymbolTables]] = {}
    folders = map(Path, dict.fromkeys((*configured_directories(), *TRUSTED)))
    # `libpng16.so` before `libpng.so`, a link to it
    for link in flatten(sorted(folder.glob("lib*.so"), reverse=True) for folder in folders):
        path = str(link.resolve())
        if path not in found:
            with suppress(BadElfError, OSError):  # a linker script
                found[path] = link.name, read_symbol_tables(map_regular(path), path)
    return found
