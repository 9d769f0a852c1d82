"""Modules that are always imported with a package, by the `__init__.py` of the package."""

import ast
from collections.abc import Iterable, Iterator, KeysView, Mapping

from wheelfix.wheel.python_parsing import import_origin, parse_source


def sure_imports(packages: Mapping[str, bytes]) -> KeysView[str]:
    """Return the modules that importing a top-level package of `packages` surely imports.

    `packages` has the `__init__.py` of each package, by its dotted name. Only statements of the
    module itself count: one in a `try` or an `if` may not be executed. Other sources are not read,
    so that more modules may be imported.
    """
    modules: dict[str, None] = {name: None for name in packages if "." not in name}
    waiting = list(modules)
    while waiting:
        package = waiting.pop()
        for name in _imports(package, packages.get(package, b"")):
            for module in _with_parents(name):
                if module not in modules:
                    modules[module] = None
                    waiting.append(module)
    return modules.keys()


def _imports(package: str, source: bytes) -> Iterator[str]:
    """Yield what the `__init__.py` of `package` may import: of `from a import b` also `a.b`."""
    tree = parse_source(source)
    for statement in tree.body if tree else ():
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            base = import_origin(statement, package)
            yield base
            yield from (f"{base}.{alias.name}" for alias in statement.names)


def _with_parents(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))
