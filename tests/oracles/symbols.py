"""Symbols of the files on this machine."""

from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from tests.oracles.binding import Symbols
from tests.oracles.lookups import Lookup, read_lookups, read_plt_entries
from wheelfix.elf.exports import lazy_exports, read_symbol_tables
from wheelfix.elf.model import Definition, Exports


def read_symbols() -> Symbols:
    """Return readers of symbols that read each file once; a missing file has none."""

    @cache
    def exports(path: str) -> Exports:
        if not Path(path).exists():
            return Exports()
        return lazy_exports(partial(read_symbol_tables, Path(path).read_bytes(), path))

    @cache
    def lookups(path: str) -> tuple[Lookup, ...]:
        return read_lookups(Path(path).read_bytes(), path) if Path(path).exists() else ()

    @cache
    def plt_entries(path: str) -> Mapping[str, tuple[Definition, ...]]:
        return read_plt_entries(Path(path).read_bytes(), path) if Path(path).exists() else {}

    return Symbols(exports=exports, plt_entries=plt_entries, lookups=lookups)
