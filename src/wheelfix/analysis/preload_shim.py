"""Preload shims: Python modules that open libraries before a source opens them by name.

This module writes and reads their source; `preload_plan` decides which sources need one.

`ctypes.CDLL("libfoo.so.1")` searches for a bare name on behalf of Python's own module, so never in
a wheel. But a library that is loaded counts by its SONAME, regardless of the path that it was
loaded from (`_dl_map_object` in glibc's elf/dl-load.c). musl compares the names that were searched
for (`load_library` in ldso/dynlink.c): there such a library does not count.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import PRELOAD
from wheelfix.wheel.python_source import parse_source

_HOOK = f"from . import {PRELOAD}"
_WHY = "  # noqa: F401 - opens libraries before their use; written by wheelfix"
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**20
_DOCSTRING = '''\
"""Opens libraries before the modules that open them by name.

Written by wheelfix. A library is opened when such a module is imported, and not before.
"""
'''
_UNREADABLE = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shim:
    """The tables of one shim. Modules are named relative to its package: `._core`."""

    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Module -> the libraries that are opened before it, in this order."""
    libraries: Mapping[str, str] = field(default_factory=dict[str, str])
    """Library -> its folder, relative to that of the shim."""

    def opens(self, module: str, libraries: Iterable[str]) -> bool:
        """Return whether the shim opens all of `libraries` before `module`."""
        return set(libraries) <= set(self.modules.get(module, ()))

    def union(self, module: str, folders: Mapping[str, str]) -> "Shim":
        """Return a shim that opens the libraries of `folders` before `module`, and before others.

        `folders` are as those of `libraries`.
        """
        opened = dict.fromkeys((*folders, *self.modules.get(module, ())))
        return Shim(
            modules={**self.modules, module: tuple(opened)},
            libraries={**self.libraries, **folders},
        )


def shim_source(shim: Shim) -> bytes:
    """Return the source of the Python module for `shim`; it runs on Python 3.6 and later."""
    code = read_text("wheelfix.analysis", "preload_shim.txt")
    return (
        f"{_DOCSTRING}\nMODULES = {_literal(shim.modules)}\n"
        f"# Library: its folder, relative to this one.\n"
        f"LIBRARIES = {_literal(shim.libraries)}\n\n{code}"
    ).encode()


def read_shim(source: bytes) -> Shim | None:
    """Return the tables of a shim in a wheel, None if the source is not a shim."""
    tree = parse_source(source)
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
        libraries = {str(name): str(folder) for name, folder in tables["LIBRARIES"].items()}
    except (*_UNREADABLE, AttributeError):
        return None
    return Shim(modules=modules, libraries=libraries)


def _literal(table: Mapping[str, object]) -> str:
    """Return a Python literal for `table`, one key a line."""
    lines = (f"    {key!a}: {table[key]!a},\n" for key in sorted(table))
    return "{\n" + "".join(lines) + "}"


def has_hook(source: bytes) -> bool:
    """Return whether the source of an `__init__.py` imports a shim."""
    if PRELOAD.encode() not in source:
        return False
    tree = parse_source(source)
    return tree is not None and any(map(_is_hook, tree.body))


def with_hook(source: bytes) -> bytes | None:
    """Return the source of an `__init__.py` with the import of the shim as its first import.

    The import follows the docstring and imports from `__future__`, which must come first; nothing
    else changes. None if this is not possible: this Python cannot parse the source, or several
    distributions share the package (`pkgutil.extend_path`), so that the last one installed
    decides on its `__init__.py`.
    """
    tree = parse_source(source) if len(source) <= _LARGEST else None
    if tree is None or b"extend_path" in source or b"declare_namespace" in source:
        return None
    first = _first_statements(tree)
    for candidate in _candidates(source, tree, first):
        changed = parse_source(candidate)
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
