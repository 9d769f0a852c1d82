"""What auditwheel reads of an ELF file, read once in each process for all files of the same bytes.

It reads the C library anew for each object of each wheel, which is most of an analysis.
"""

import os
from functools import cache, lru_cache
from importlib import import_module
from io import BytesIO
from typing import Any, BinaryIO

from elftools.elf.elffile import ELFFile

_READER: Any = ELFFile
_LARGE = 8 << 20


@lru_cache(maxsize=128)
def _kept(content: bytes) -> Any:
    """Read a file whose headers are parsed once."""
    file = _READER(BytesIO(content))
    file.get_section, file.get_segment = cache(file.get_section), cache(file.get_segment)
    return file


def _read(file: BinaryIO) -> Any:
    large = os.fstat(file.fileno()).st_size > _LARGE
    return _READER(file) if large else _kept(file.read())


def keep_elf_files() -> None:
    """Let auditwheel keep them in this process, and in what is forked from it."""
    for name in ("auditwheel.elfutils", "auditwheel.lddtree"):
        module: Any = import_module(name)
        module.ELFFile = _read
