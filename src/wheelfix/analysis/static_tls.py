"""Thread-local data that must lie beside that of the program, in an area of fixed size."""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from wheelfix.analysis.installed_modules import InstalledModules
from wheelfix.elf.constants import DF_STATIC_TLS, Pt
from wheelfix.elf.model import Elf, Libc, Machine, Segment
from wheelfix.loader.process_bindings import dependencies_first

SURPLUS = 1664
"""Bytes of static TLS for all objects opened by dlopen: glibc's `_dl_tls_static_surplus_init`."""
OPTIONAL = 512
"""Those of them that the tunable `glibc.rtld.optional_static_tls` stands for, by default."""
_ROUNDED = 64
"""The area is rounded up to a multiple of it (TCB_ALIGNMENT)."""
_BELOW_POINTER = {Machine.I386, Machine.S390, Machine.X86_64}
"""Machines where thread data lies below the thread pointer (TLS_TCB_AT_TP)."""


class Shortage(NamedTuple):
    """Modules that cannot be imported into one process: the last one finds no room."""

    before: str | None
    """The module that is imported first; None if the other does not even fit alone."""
    module: str
    sizes: Mapping[str, int]
    """Object -> the bytes of static TLS that it requires, the largest first."""


def required_bytes(elf: Elf) -> int:
    """Return the bytes of static TLS that an object requires when it is opened."""
    tls = _thread_data(elf) if elf.dt_flags & DF_STATIC_TLS and not elf.is_executable else None
    return 0 if tls is None else -(-tls.memsz // (tls.align or 1)) * (tls.align or 1)


def _thread_data(elf: Elf) -> Segment | None:
    return next((one for one in reversed(elf.segments) if one.type == Pt.TLS), None)


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
    for path in sorted(sizes, key=lambda path: -sum(sizes[path].values())):
        if not fits(sizes[path].values()):
            yield Shortage(None, path, sizes[path])
        else:
            largest.setdefault(modules.distribution(path), path)
    first, *others = largest.values() or [""]
    for path in others:
        both = _joined(modules, first, path)
        if not fits(both.values()):
            yield Shortage(first, path, both)


def _in_order(modules: InstalledModules) -> Iterator[Shortage]:
    """Yield the modules that find no room; they leave nothing loaded, but room may stay used."""
    used: dict[str, int] = {}
    before = None
    failing = modules.in_turn[1].keys() | {path for path, _ in modules.failures()}
    process = modules.world.start_process()
    loaded: set[str] = set()
    for module in (path for path in modules.order if path not in failing):
        load = process.dlopen(module)
        if load.missing:
            continue
        new = [path for path in load.objects if path not in loaded]
        taken = {p: n for p in dependencies_first(load, new) if (n := _size(modules, p))}
        if fits(used.values(), taken.values()):
            loaded.update(new)
        else:
            yield Shortage(before, module, _descending({**used, **taken}))
            process.undo(load)
            taken = _kept(modules, used, taken)
        for path, size in taken.items():
            used[path] = used.get(path, 0) + size
            before = module


def _kept(
    modules: InstalledModules, used: Mapping[str, int], wanted: Mapping[str, int]
) -> dict[str, int]:
    """Return which bytes stay used after a load that finds no room.

    Its objects take theirs in turn, until one does not fit. Where thread data lies below the
    thread pointer, glibc takes them back only down to the first gap that an alignment has left
    (`_dl_close_worker` in elf/dl-close.c).
    """
    kept: dict[str, int] = {}
    for path, size in wanted.items():
        if not fits(used.values(), kept.values(), [size]):
            break
        kept[path] = size
    for path in reversed(tuple(kept)):
        elf, size = modules.world.environment.files[path], kept.pop(path)
        tls = _thread_data(elf) if elf.machine in _BELOW_POINTER else None
        if tls is not None and size > tls.memsz:
            kept[path] = size - tls.memsz
            break
    return kept


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


def fits(*parts: Iterable[int]) -> bool:
    """Return whether the area of glibc may have room for sizes, in bytes."""
    return sum(map(sum, parts)) < SURPLUS + _ROUNDED
