"""Modules that are always imported with another one, or begun, and in which order."""

from collections.abc import Callable, Collection, Iterable, Iterator, KeysView, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain, takewhile
from math import inf

from wheelfix.grouping import flatten, values_by_key
from wheelfix.python_sources.imported_modules import Naming
from wheelfix.python_sources.source_facts import Imported

_MOST_PLACES = 50
"""Lines that are followed to those that name their source; with more, the order is not known."""


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


Importers = Callable[[str], Iterable[tuple[str, Naming]]]
"""Module -> the modules whose sources name it, each time that they do."""


class Turns:
    """What comes before what when some sources are imported. Mutable: what was found is kept."""

    def __init__(
        self, imports_of: Callable[[str], Iterable[Imported]], importers: Importers
    ) -> None:
        """`imports_of` is as in `begun_imports`."""
        self._imports_of = imports_of
        self._importers = importers
        self._turn = cache(self._read_turn)
        self._line = cache(self._read_line)

    def before(self, module: str) -> Sequence[str]:
        """Return what is begun, in turn, before the import of a module in each process.

        Either its packages surely import it, or the sources that name it do. A statement that may
        not be reached may import it earlier: what that statement has not before it is left out.
        """
        imports_of, parents = self._imports_of, [*_with_parents(module)][:-1]
        is_sure = module in begun_imports(parents[-1:], imports_of)
        named = [
            (by, naming)
            for by, naming in self._importers(module)
            if not is_sure
            or (naming.runs and naming.line not in {begun.line for begun in imports_of(by)})
        ]
        ways = [[*begun_imports([by], imports_of, naming.line)] for by, naming in named]
        if is_sure or not ways:
            ways.insert(0, [*takewhile(module.__ne__, begun_imports([module], imports_of))])
        others = [frozenset(way) for way in ways[1:]]
        in_all = (name for name in ways[0] if all(name in way for way in others))
        return [name for name in in_all if name != module]

    def is_late(self, module: str, place: tuple[str, int]) -> bool:
        """Return whether a line of a source runs only once the import of a module has begun.

        The source imports it before the line, or its packages do, and each source that names this
        one is as late.
        """
        places = {place: None}
        waiting = [place]
        for source, line in waiting:  # grows during the loop
            if self._line(source, module) < line:
                continue
            others = {
                by: min(naming.line for naming in found)
                for by, found in values_by_key(self._importers(source)).items()
                if by != source
            }
            is_after = self._is_after(source, line, module)
            if not (is_after and others) or len(waiting) > _MOST_PLACES:
                return False
            waiting += (other for other in others.items() if other not in places)
            places |= dict.fromkeys(others.items())
        return True

    def _is_after(self, source: str, line: int, module: str) -> bool:
        """Return whether a line runs after the import of a module begins, if nothing names both."""
        turn = self._turn(source.rpartition(".")[0])
        if module in turn and turn.get(source, len(turn)) > turn[module]:
            return True
        return module in sure_imports([source], self._imports_of, line)

    def _read_turn(self, module: str) -> Mapping[str, int]:
        """Return at which turn the import of a module imports others."""
        names = sure_imports([module], self._imports_of) if module else ()
        return {name: turn for turn, name in enumerate(names)}

    def _read_line(self, source: str, module: str) -> float:
        """Return the first line at which a source itself imports a module; infinity without one."""
        running = frozenset(_with_parents(source))

        def of_others(name: str) -> Iterable[Imported]:
            return () if name in running else self._imports_of(name)

        own = (i for i in self._imports_of(source) if not i.caught)
        lines = (i.line for i in own if module in sure_imports([i.name], of_others))
        return next(lines, inf)


@lru_cache(1 << 14)
def _with_parents(name: str) -> Sequence[str]:
    if name.startswith("/"):
        return (name,)
    parts = name.split(".")
    return [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
