"""Modules that are always imported with another one, by the `__init__.py` of packages."""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, KeysView
from itertools import chain, takewhile
from typing import NamedTuple

from wheelfix.python_sources.parsing import import_origin, parse_source

_LONGEST = 500
"""Characters of a module's name: each of its parts is a module, whose name is nearly as long."""


class Imported(NamedTuple):
    """What a statement of a module itself imports, or opens."""

    name: str
    """Of `from a import b` also `a.b`, which may be no module; of a library, its path."""
    line: int


def sure_imports(
    names: Collection[str],
    imports_of: Callable[[str], Iterable[Imported]],
    line: int | None = None,
) -> KeysView[str]:
    """Return the modules that importing `names` surely imports, in the order in which they begin.

    The paths of libraries that are opened are among them. `imports_of` returns what a module
    imports (`read_imports`) and opens, nothing of an unknown one. With `line`, only what is
    imported before this line of the only name runs is returned.
    """
    modules: dict[str, None] = {}
    waiting: list[tuple[str, Iterator[str]]] = [
        ("", chain.from_iterable(map(_with_parents, names)))
    ]
    while waiting:
        importer, rest = waiting[-1]
        module = next((one for one in rest if one not in modules), None)
        if module is not None:
            modules[module] = None
            some = iter(imports_of(module))
            if line is not None and module in names:
                some = takewhile(lambda one: one.line < line, some)
            inside = (each for one in some for each in _with_parents(one.name))
            waiting.append((module, inside))
        else:
            waiting.pop()
            if line is not None and importer in names:
                break
    return modules.keys()


def read_imports(module: str, source: bytes, *, is_package: bool = True) -> Iterator[Imported]:
    """Yield what the source of a module surely imports.

    Only statements of the module itself count: one in a `try` or an `if` may not be executed.
    """
    found = _read_imports(module, source, is_package=is_package)
    return (one for one in found if len(one.name) <= _LONGEST)


def _read_imports(module: str, source: bytes, *, is_package: bool) -> Iterator[Imported]:
    tree = parse_source(source)
    package = module if is_package else module.rpartition(".")[0]
    for statement in tree.body if tree else ():
        if isinstance(statement, ast.Import):
            yield from (Imported(alias.name, statement.lineno) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom) and (base := import_origin(statement, package)):
            yield Imported(base, statement.lineno)
            for alias in statement.names:
                yield Imported(f"{base}.{alias.name}", statement.lineno)


def _with_parents(name: str) -> Iterable[str]:
    if name.startswith("/"):
        return (name,)
    parts = name.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))
