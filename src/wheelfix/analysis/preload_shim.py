"""Preload shims: Python modules that open libraries of other wheels before a module needs them.

The text of them is here; `preloading` knows which modules need one.

glibc takes a loaded library for every DT_NEEDED entry that names its SONAME (`_dl_map_object` in
elf/dl-load.c), wherever it was loaded from: opened by its path from wherever Python finds the
provider, it serves an object whose search path does not lead there. musl compares the names that
were searched for (`load_library` in ldso/dynlink.c), so that such a library serves nobody.

A shim is found by Python, and so it covers what Python imports: extension modules below a package
with an `__init__.py` that is the wheel's own. A program, and an object that is opened by its path,
has no such moment; those need a search path entry.
"""

import ast
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from wheelfix.system.resources import read_text
from wheelfix.wheel.model import PRELOAD

_HOOK = f"from . import {PRELOAD}"
_WHY = "  # noqa: F401 - opens libraries of other wheels; written by wheelfix"
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**20
_DOCSTRING = '''\
"""Opens libraries of other distributions before the modules that need them.

Written by wheelfix. Nothing is opened before such a module is imported, and whoever imports none
needs none of the distributions. Programs, and objects that are opened by their path, do not come
by here.
"""
'''
_UNREADABLE = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)


# --- The shim's text ------------------------------------------------------------------------------


class Source(NamedTuple):
    """Where a library comes from."""

    distribution: str
    """The name in its normal form; empty for a mere directory."""
    requirement: str
    """What to ask an installer for."""
    scheme: str
    """The path of the install scheme that `folder` counts from."""
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """What one shim opens. Modules are named relative to its package: `._core`."""

    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Module -> the libraries that are opened before it, in this order."""
    libraries: Mapping[str, Source] = field(default_factory=dict[str, Source])

    def opens(self, module: str, libraries: Iterable[str]) -> bool:
        """Return whether it opens all of `libraries` before `module`."""
        return set(libraries) <= set(self.modules.get(module, ()))

    def including(self, other: "Shim") -> "Shim":
        """Return what opens all that both open; what `other` says comes first."""
        names = dict.fromkeys((*self.modules, *other.modules))
        mine, others = self.modules, other.modules
        return Shim(
            modules={
                name: tuple(dict.fromkeys((*others.get(name, ()), *mine.get(name, ()))))
                for name in names
            },
            libraries={**self.libraries, **other.libraries},
        )


def shim_source(shim: Shim) -> bytes:
    """Return the source of the module that does what `shim` says; any Python 3.6 runs it."""
    modules = {name: list(shim.modules[name]) for name in sorted(shim.modules)}
    libraries = {name: list(shim.libraries[name]) for name in sorted(shim.libraries)}
    return (
        f"{_DOCSTRING}\nMODULES = {_literal(modules)}\n"
        f"# Library: the distribution, what to ask for, the scheme path, and the folder there.\n"
        f"LIBRARIES = {_literal(libraries)}\n\n{_code()}"
    ).encode()


def read_shim(source: bytes) -> Shim | None:
    """Return what a shim in a wheel opens, None where the source is no shim."""
    tree = _parsed(source)
    if tree is None:
        return None
    try:
        tables = {
            statement.targets[0].id: ast.literal_eval(statement.value)
            for statement in tree.body
            if isinstance(statement, ast.Assign)
            and isinstance(statement.targets[0], ast.Name)
            and isinstance(statement.value, ast.Dict)
        }
        modules = {str(name): tuple(map(str, each)) for name, each in tables["MODULES"].items()}
        libraries = {str(name): each for name, each in tables["LIBRARIES"].items()}
        found = {name: Source(*map(str, each)) for name, each in libraries.items()}
    except (*_UNREADABLE, AttributeError):
        return None
    return Shim(modules=modules, libraries=found)


def _literal(table: Mapping[str, list[str]]) -> str:
    """Write a table as a literal of Python, one key a line."""
    lines = (
        f"    {_quoted(key)}: [{', '.join(map(_quoted, value))}],\n" for key, value in table.items()
    )
    return "{\n" + "".join(lines) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text) if text.isascii() else ascii(text)


@cache
def _code() -> str:
    return read_text("wheelfix.analysis", "preload_shim.txt")


# --- The line that runs it ------------------------------------------------------------------------


def has_hook(source: bytes) -> bool:
    """Return whether the `__init__.py` imports a shim."""
    if PRELOAD.encode() not in source:
        return False
    tree = _parsed(source)
    return tree is not None and any(map(_is_hook, tree.body))


def with_hook(source: bytes) -> bytes | None:
    """Return the `__init__.py` with the import of the shim before all that it executes.

    It follows the docstring and imports from `__future__`, which must come first, and changes
    nothing else. None where that is not possible: for a source that this Python cannot read, and
    a package that several distributions have in common (`pkgutil.extend_path`), whose
    `__init__.py` is that of whichever was installed last.
    """
    tree = _parsed(source)
    if tree is None or b"extend_path" in source or b"declare_namespace" in source:
        return None
    first = _first_statements(tree)
    for candidate in _candidates(source, tree, first):
        changed = _parsed(candidate)
        if changed is None or len(changed.body) <= first:
            continue
        if _is_hook(changed.body.pop(first)) and _is_same(changed, tree):
            return candidate
    return None


def _is_same(one: ast.Module, other: ast.Module) -> bool:
    try:
        return ast.dump(one) == ast.dump(other)
    except RecursionError:
        return False


def _parsed(source: bytes) -> ast.Module | None:
    if len(source) > _LARGEST:
        return None
    try:
        with warnings.catch_warnings(action="ignore"):  # what it says of escapes is not asked
            return ast.parse(source)
    except _UNREADABLE:
        return None


def _is_hook(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.ImportFrom)
        and statement.level == 1
        and statement.module is None
        and any(alias.name == PRELOAD for alias in statement.names)
    )


def _candidates(source: bytes, tree: ast.Module, count: int) -> Iterator[bytes]:
    """Yield the source with a line more, and where that does not do, with a statement in a line."""
    head = _BOM if source.startswith(_BOM) else b""
    lines = source.removeprefix(_BOM).splitlines(keepends=True)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    following = tree.body[count] if count < len(tree.body) else None
    at = (tree.body[count - 1].end_lineno or 0) if count else _line_of(following, len(lines)) - 1
    before = b"".join(lines[:at])
    if before and not before.endswith((b"\n", b"\r")):
        before += end
    yield head + before + f"{_HOOK}{_WHY}".encode() + end + b"".join(lines[at:])
    if following is not None:
        at, column = following.lineno - 1, following.col_offset
        line = lines[at]
        inserted = line[:column] + f"{_HOOK}; ".encode() + line[column:]
        yield head + b"".join([*lines[:at], inserted, *lines[at + 1 :]])


def _first_statements(tree: ast.Module) -> int:
    """Return how many statements must stay the first: the docstring, imports from the future."""
    count = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    for statement in tree.body[count:]:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count


def _line_of(statement: ast.stmt | None, lines: int) -> int:
    """Return the line at which a statement begins, the one after the last for none."""
    if statement is None:
        return lines + 1
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])
