"""Preload shims: Python modules that open libraries before a module needs them.

This module writes and reads their source; `preload_plan` decides which modules need one.

glibc uses a loaded library for every DT_NEEDED entry with its SONAME (`_dl_map_object` in
elf/dl-load.c), regardless of the path it was loaded from. So a library that was opened where
Python finds the provider also counts for an object whose search path does not lead there. musl
compares the names that were searched for (`load_library` in ldso/dynlink.c): there such a library
does not count.

The same holds for code that opens a library of its own wheel by a bare name.

Python imports a shim, so it covers what Python imports: extension modules below a package with an
`__init__.py` of the wheel's own. A program, or an object that is opened by its path, needs a
search path entry instead.
"""

import ast
import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import PRELOAD

OWN = "package"
"""The key in place of an install scheme path for a folder relative to the shim's package."""
_HOOK = f"from . import {PRELOAD}"
_WHY = "  # noqa: F401 - opens libraries before their use; written by wheelfix"
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**20
_DOCSTRING = '''\
"""Opens libraries before the modules that need them, or that open them by name.

Written by wheelfix. A library is opened when a module that needs it is imported, and not before:
without such an import, the distributions with these libraries are not needed. Programs, and objects
that are opened by their path, are not covered.
"""
'''
_UNREADABLE = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)


class Source(NamedTuple):
    """The distribution and folder of a library."""

    distribution: str
    """The normalized name (PEP 503); empty for a directory, and for the wheel itself."""
    requirement: str
    """The requirement to install it with (PEP 508); empty for the wheel itself."""
    scheme: str
    """The key of the install scheme path that `folder` is relative to, or `OWN`."""
    folder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """The tables of one shim. Modules are named relative to its package: `._core`."""

    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Module -> the libraries that are opened before it, in this order."""
    libraries: Mapping[str, Source] = field(default_factory=dict[str, Source])

    def opens(self, module: str, libraries: Iterable[str]) -> bool:
        """Return whether the shim opens all of `libraries` before `module`."""
        return set(libraries) <= set(self.modules.get(module, ()))

    def including(self, other: "Shim") -> "Shim":
        """Return a shim that opens what either opens, the libraries of `other` first."""
        modules = dict.fromkeys((*self.modules, *other.modules))
        return Shim(
            modules={
                name: tuple(
                    dict.fromkeys((*other.modules.get(name, ()), *self.modules.get(name, ())))
                )
                for name in modules
            },
            libraries={**self.libraries, **other.libraries},
        )


def shim_source(shim: Shim) -> bytes:
    """Return the source of the Python module for `shim`; it runs on Python 3.6 and later."""
    modules = {name: list(shim.modules[name]) for name in sorted(shim.modules)}
    libraries = {name: list(shim.libraries[name]) for name in sorted(shim.libraries)}
    code = read_text("wheelfix.analysis", "preload_shim.txt")
    return (
        f"{_DOCSTRING}\nMODULES = {_literal(modules)}\n"
        f"# Library: distribution, requirement, install scheme path, and the folder below it.\n"
        f"LIBRARIES = {_literal(libraries)}\n\n{code}"
    ).encode()


def read_shim(source: bytes) -> Shim | None:
    """Return the tables of a shim in a wheel, None if the source is no shim."""
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
        modules = {str(name): tuple(map(str, opened)) for name, opened in tables["MODULES"].items()}
        libraries = {
            str(name): Source(*map(str, source)) for name, source in tables["LIBRARIES"].items()
        }
    except (*_UNREADABLE, AttributeError):
        return None
    return Shim(modules=modules, libraries=libraries)


def _literal(table: Mapping[str, list[str]]) -> str:
    """Return a Python literal for `table`, one key a line."""
    lines = (
        f"    {_quoted(key)}: [{', '.join(map(_quoted, value))}],\n" for key, value in table.items()
    )
    return "{\n" + "".join(lines) + "}"


def _quoted(text: str) -> str:
    return json.dumps(text) if text.isascii() else ascii(text)


def has_hook(source: bytes) -> bool:
    """Return whether the source of an `__init__.py` imports a shim."""
    if PRELOAD.encode() not in source:
        return False
    tree = _parsed(source)
    return tree is not None and any(map(_is_hook, tree.body))


def with_hook(source: bytes) -> bytes | None:
    """Return the source of an `__init__.py` with the import of the shim as its first import.

    The import follows the docstring and imports from `__future__`, which must come first; nothing
    else changes. None if this is not possible: this Python cannot parse the source, or several
    distributions share the package (`pkgutil.extend_path`), so that the last one installed
    decides on its `__init__.py`.
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
        with warnings.catch_warnings(action="ignore"):  # SyntaxWarning for escapes
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
    """Yield the source with the import in a line of its own, then in the line of a statement."""
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
    """Return the number of statements that must stay first: docstring, `__future__` imports."""
    count = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    for statement in tree.body[count:]:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count


def _line_of(statement: ast.stmt | None, lines: int) -> int:
    """Return the line where `statement` begins, the one after the last of `lines` for None."""
    if statement is None:
        return lines + 1
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])
