"""Preload shims: Python modules that open libraries before others open them by name.

This module writes and reads their source; `preload_plan` decides which sources need one.

`ctypes.CDLL("libfoo.so.1")` searches for a bare name on behalf of Python's own module, so never in
a wheel. But a library that is loaded counts by its SONAME, regardless of the path that it was
loaded from (`_dl_map_object` in glibc's elf/dl-load.c). musl compares the names that were searched
for (`load_library` in ldso/dynlink.c): there such a library does not count.
"""

import ast
from collections.abc import Mapping

from wheelfix.python_sources.parsing import parse_source
from wheelfix.system.packaged_text import read_text
from wheelfix.wheel.model import PRELOAD

_HOOK = f"from . import {PRELOAD}"
_WHY = "  # noqa: F401 - opens libraries before their use; written by wheelfix"
_BOM = b"\xef\xbb\xbf"
_LARGEST = 2**20
_DOCSTRING = '''\
"""Opens libraries that modules of this package open by name.

Written by wheelfix.
"""
'''
_UNREADABLE = (SyntaxError, ValueError, TypeError, KeyError, RecursionError, MemoryError)


def shim_source(libraries: Mapping[str, str]) -> bytes:
    """Return the source of a shim that opens `libraries`; it runs on Python 3.6 and later.

    `libraries` has the folder of each library, relative to that of the shim.
    """
    code = read_text("wheelfix.analysis", "preload_shim.txt")
    return (
        f"{_DOCSTRING}\n# Library: its folder, relative to this one.\n"
        f"LIBRARIES = {_literal(libraries)}\n\n{code}"
    ).encode()


def read_shim(source: bytes) -> Mapping[str, str] | None:
    """Return the libraries of a shim in a wheel, None if the source is not a shim."""
    tree = parse_source(source)
    for statement in tree.body if tree is not None else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id="LIBRARIES")], value=ast.Dict() as table):
                try:
                    libraries = ast.literal_eval(table)
                except _UNREADABLE:
                    return None
                return {str(name): str(folder) for name, folder in libraries.items()}
            case _:
                pass
    return None


def _literal(table: Mapping[str, str]) -> str:
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
    else changes. None if this is not possible: this Python cannot parse the source, more stands in
    the line after which the import belongs, or several distributions share the package
    (`pkgutil.extend_path`), so that the last one installed decides on its `__init__.py`.
    """
    tree = parse_source(source) if len(source) <= _LARGEST else None
    if tree is None or b"extend_path" in source or b"declare_namespace" in source:
        return None
    first = _first_statements(tree)
    written = _insert_hook(source, tree, first)
    changed = parse_source(written)
    if changed is None or len(changed.body) <= first or not _is_hook(changed.body.pop(first)):
        return None
    return written if _is_same(changed, tree) else None


def _is_same(tree: ast.Module, other: ast.Module) -> bool:
    try:
        return ast.dump(tree) == ast.dump(other)
    except RecursionError:
        return False


def _is_hook(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.ImportFrom)
        and statement.level == 1
        and statement.module is None
        and any(alias.name == PRELOAD for alias in statement.names)
    )


def _insert_hook(source: bytes, tree: ast.Module, count: int) -> bytes:
    """Return the source with the import in a line of its own after its first statements."""
    head = _BOM if source.startswith(_BOM) else b""
    lines = source.removeprefix(_BOM).splitlines(keepends=True)
    end = b"\r\n" if lines and lines[0].endswith(b"\r\n") else b"\n"
    if count:
        at = tree.body[count - 1].end_lineno or 0
    else:
        at = tree.body[0].lineno - 1 if tree.body else len(lines)
    before = b"".join(lines[:at])
    if before and not before.endswith((b"\n", b"\r")):
        before += end
    return head + before + f"{_HOOK}{_WHY}".encode() + end + b"".join(lines[at:])


def _first_statements(tree: ast.Module) -> int:
    """Return the number of statements that must stay first: docstring, `__future__` imports."""
    count = 1 if ast.get_docstring(tree, clean=False) is not None else 0
    for statement in tree.body[count:]:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        count += 1
    return count
