"""Definitions of an object, read all at once."""

from wheelfix.elf.exports import read_symbol_tables
from wheelfix.elf.model import Exports


def read_exports(data: bytes, name: str) -> Exports:
    """Read what an object defines for others."""
    tables = read_symbol_tables(data, name)
    return Exports(definitions=tables.definitions(), copies=tables.copies)
