"""Wheels as values with any number of objects, like those that projects publish."""

from collections.abc import Sequence
from dataclasses import replace

from tests.support.values import elf, wheel
from wheelfix.elf.model import Elf
from wheelfix.wheel.model import Wheel

MISSING = "libcudart.so.12"
"""The library that no one bundled."""
_LIBRARIES = ("openblas", "gfortran", "hdf5", "png16", "tiff", "lzma", "zstd", "jpeg", "freetype")
_PLATFORM = ("libm.so.6", "libstdc++.so.6", "libgcc_s.so.1")
_FOLDERS = ("linalg", "sparse", "special", "signal", "io")


def wheel_of(objects: int, *, kinds: int = 12, is_whole: bool = False) -> Wheel:
    """Return a wheel with `objects` ELF files, a fifth of them libraries that need each other.

    Its modules have `kinds` different lists of DT_NEEDED; `MISSING` is one of the needs of the
    first module, unless `is_whole`.
    """
    libraries = max(1, objects // 5)
    names = [f"lib{_numbered(_LIBRARIES, n)}-{n:08x}.so.{n % 7}" for n in range(libraries)]
    found: dict[str, Elf] = {}
    for n in range(objects - libraries):
        kind = n % kinds
        needed = [*{names[kind % libraries], names[kind * 5 % libraries]}]
        if n == 0 and not is_whole:
            needed.append(MISSING)
        name = f"demo/{_FOLDERS[n % len(_FOLDERS)]}/_core{n}.cpython-311-x86_64-linux-gnu.so"
        found[name] = elf(
            *sorted(needed),
            *_PLATFORM[: kind % 4],
            rpath="$ORIGIN/../../demo.libs",
            module_hooks=(f"PyInit__core{n}",),
        )
    for n, name in enumerate(names):
        needed = [names[child] for child in (2 * n + 1, 2 * n + 2) if child < libraries]
        found[f"demo.libs/{name}"] = elf(*needed, *_PLATFORM[: n % 4], soname=name, rpath="$ORIGIN")
    made = wheel(found, name="demo-1.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    sizes = {name: 20_000 + 7_919 * n * n % 3_000_000 for n, name in enumerate(found)}
    members = (m._replace(size=sizes.get(m.name, m.size)) for m in made.members)
    return replace(made, members=tuple(members))


def _numbered(words: Sequence[str], number: int) -> str:
    """Return a word for `number`, each of them once."""
    again = number // len(words)
    return words[number % len(words)] + (str(again) if again else "")
