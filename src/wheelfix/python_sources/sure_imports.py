"""Modules that are always imported with another one, or begun, and in which order."""

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView
from itertools import chain, takewhile

from wheelfix.grouping import flatten
from wheelfix.python_sources.source_facts import Imported

_MOST_PLACES = 50
"""Lines that name a source, and those that name theirs, before it is not known who runs it when."""


def sure_imports(
    names: Collection[str],
    imports_of: Callable[[str], Iterable[Imported]],
    line: int | None = None,
) -> KeysView[str]:
    """Return the modules that importing `names` surely imports, in the order in which they begin.

    What a `try` catches does not count. Otherwise as `begun_imports`.
    """

    def surely(module: str) -> Iterable[Imported]:
        return (imported for imported in imports_of(module) if not imported.caught)

    return begun_imports(names, surely, line)


def begun_imports(
    names: Collection[str],
    imports_of: Callable[[str], Iterable[Imported]],
    line: int | None = None,
) -> KeysView[str]:
    """Return the modules that importing `names` surely begins to import, in their order.

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
        module = next((name for name in rest if name not in modules), None)
        if module is not None:
            modules[module] = None
            imports = iter(imports_of(module))
            if line is not None and module in names:
                imports = takewhile(lambda statement: statement.line < line, imports)
            inside = flatten(_with_parents(statement.name) for statement in imports)
            waiting.append((module, inside))
        else:
            waiting.pop()
            if line is not None and importer in names:
                break
    return modules.keys()


def is_late(
    module: str,
    place: tuple[str, int],
    imports_of: Callable[[str], Iterable[Imported]],
    importers: Callable[[str], Iterable[tuple[str, int]]],
) -> bool:
    """Return whether `place`, a line of a source, runs only once the import of a module has begun.

    The source imports it before the line, or its packages do, and each source that names this one
    is as late: `importers` returns those of a module, with the first line that does.
    """
    places = {place: None}
    waiting = [place]
    for source, line in waiting:  # grows during the loop
        if _imports_itself(source, line, module, imports_of):
            continue
        others = [other for other in importers(source) if other[0] != source]
        is_after = module in sure_imports([source], imports_of, line)
        if not (is_after and others) or len(waiting) > _MOST_PLACES:
            return False
        waiting += (other for other in others if other not in places)
        places |= dict.fromkeys(others)
    return True


def _imports_itself(
    source: str, line: int, module: str, imports_of: Callable[[str], Iterable[Imported]]
) -> bool:
    """Return whether what a source imports before a line imports a module, whoever runs it."""
    running = frozenset(_with_parents(source))

    def of_others(name: str) -> Iterable[Imported]:
        return () if name in running else imports_of(name)

    own = (i.name for i in imports_of(source) if i.line < line and not i.caught)
    return module in sure_imports([*own], of_others)


def _with_parents(name: str) -> Iterable[str]:
    if name.startswith("/"):
        return (name,)
    parts = name.split(".")
    return (".".join(parts[:n]) for n in range(1, len(parts) + 1))
