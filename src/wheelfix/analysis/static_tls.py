"""Thread-local data that must lie beside that of the program, in an area of fixed size."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from wheelfix.analysis.installed_modules import InstalledModules
from wheelfix.elf.constants import DF_STATIC_TLS, Pt
from wheelfix.elf.model import Elf, Libc

SURPLUS = 1664
"""Bytes of static TLS for all objects opened by dlopen: glibc's `_dl_tls_static_surplus_init`."""
OPTIONAL = 512
"""Those of them that the tunable `glibc.rtld.optional_static_tls` stands for, by default."""
_ROUNDED = 64
"""The area is rounded up to a multiple of it (TCB_ALIGNMENT)."""


class Shortage(NamedTuple):
    """Modules that cannot be imported into one process: the last one finds no room."""

    before: str | None
    """The module that is imported first; None if the other does not even fit alone."""
    module: str
    sizes: Mapping[str, int]
    """Object -> the bytes of static TLS that it requires, the largest first."""


def required_bytes(elf: Elf) -> int:
    """Return the bytes of static TLS that an object requires when it is opened."""
    tls = [segment for segment in elf.segments if segment.type == Pt.TLS]
    if not tls or not elf.dt_flags & DF_STATIC_TLS or elf.is_executable:
        return 0
    return -(-tls[-1].memsz // (tls[-1].align or 1)) * (tls[-1].align or 1)


def shortages(modules: InstalledModules) -> Iterator[Shortage]:
    """Yield modules for which the area of glibc does not suffice, alone or after another one.

    Only two at a time are tried, of different distributions; where the order is known, all that
    come before.
    """
    if modules.world.environment.libc is Libc.MUSL:
        return
    if modules.order:
        yield from _in_order(modules)
        return
    sizes = {path: found for path in modules.modules if (found := _sizes(modules, path))}
    largest: dict[str, str] = {}
    for path in sorted(sizes, key=lambda path: -_sum(sizes[path])):
        if not _fits(sizes[path]):
            yield Shortage(None, path, sizes[path])
        else:
            largest.setdefault(modules.distribution(path), path)
    first, *others = largest.values() or [""]
    for path in others:
        both = _joined(modules, first, path)
        if not _fits(both):
            yield Shortage(first, path, both)


def _in_order(modules: InstalledModules) -> Iterator[Shortage]:
    """Yield the modules that find no room; they leave nothing loaded."""
    used: Mapping[str, int] = {}
    before = None
    process = modules.world.start_process()
    for module in modules.order:
        load = process.dlopen(module)
        both = _descending({**used, **{path: _size(modules, path) for path in load.objects}})
        if load.missing:
            continue
        if _fits(both):
            used, before = both, module if len(both) > len(used) else before
        else:
            yield Shortage(before, module, both)
            process.undo(load)


def _joined(modules: InstalledModules, first: str, second: str) -> Mapping[str, int]:
    """Return what both require in one process: the second may find libraries of the first."""
    after = modules.world.process(second, [first])[-1].objects
    return _descending({**_sizes(modules, first), **{path: _size(modules, path) for path in after}})


def _sizes(modules: InstalledModules, module: str) -> Mapping[str, int]:
    load = modules.world.load(module)
    loaded = () if load.missing else load.objects
    return _descending({path: _size(modules, path) for path in loaded})


def _size(modules: InstalledModules, path: str) -> int:
    elf = modules.world.environment.files.get(path)
    return 0 if elf is None or path in modules.symbols.start else required_bytes(elf)


def _descending(sizes: Mapping[str, int]) -> Mapping[str, int]:
    return dict(sorted(filter(lambda item: item[1], sizes.items()), key=lambda item: -item[1]))


def _sum(sizes: Mapping[str, int]) -> int:
    return sum(sizes.values())


def _fits(sizes: Mapping[str, int]) -> bool:
    return _sum(sizes) < SURPLUS + _ROUNDED
