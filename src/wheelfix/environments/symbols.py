"""What the objects of an installed environment define for each other, and look up."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import cached_property, partial
from itertools import chain

from wheelfix.analysis.load_failures import LoadJudge
from wheelfix.analysis.world import World
from wheelfix.elf.exports import idle
from wheelfix.elf.model import Undefined
from wheelfix.environments.products import markers
from wheelfix.environments.read_contents import InstalledContents
from wheelfix.frozen import frozen
from wheelfix.grouping import values_by_key
from wheelfix.host.machine_files import has_string
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Load
from wheelfix.loader.python_api import is_python_name
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, undefined_names


@frozen
class InstalledSymbols:
    """The symbols of an environment. They are the same in every order of imports."""

    world: World
    contents: InstalledContents = field(compare=False, repr=False)

    @cached_property
    def libraries(self) -> Mapping[str, Library]:
        """All objects that can be loaded, by path; exports are read at the first access."""
        return {
            path: Library(path=path, elf=elf, read=partial(self.contents.exports, path))
            for path, elf in self.world.environment.files.items()
            if elf.dynamic
        }

    @cached_property
    def contested(self) -> Mapping[str, Collection[str]]:
        """SONAMEs that several different files have, with these."""
        hard_links = self.world.environment.hard_links
        several = {
            name: {hard_links.get(path, path) for path in paths}
            for name, paths in self.world.carriers.items()
            if name and len(paths) > 1
        }
        return {name: sorted(paths) for name, paths in several.items() if len(paths) > 1}

    @cached_property
    def judge(self) -> LoadJudge:
        """The judge of all loads."""
        described = self.world.described
        read = {path: library for path, library in self.libraries.items() if path not in described}
        names = markers() | undefined_names(read)
        index = SymbolIndex(read, names, self.world.environment.libc)
        return LoadJudge(world=self.world, index=index, mentions=has_string)

    def bindings(self, load: Load, path: str) -> Iterator[tuple[str, str | None]]:
        """Yield what an object of `load` refers to, with the file that defines it there.

        Only references that files of wheels are to define (`references`) are yielded.
        """
        scope = Scope(dict.fromkeys((*self.start, *load.objects)), self.judge.index)
        for providers, names in self._providers.get(path, {}).items():
            definer = scope.first(providers)
            yield from ((name, definer) for name in self.looked_up(path, names))

    def looked_up(self, path: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the undefined symbols `names` of an object that the loader looks up."""
        listed = tuple(names)
        skipped = idle(self.libraries[path].exports) if listed else ()
        return tuple(name for name in listed if name not in skipped)

    @property
    def start(self) -> tuple[str, ...]:
        """The objects of the main program, which all scopes begin with."""
        return self.judge.start

    @cached_property
    def _different(self) -> AbstractSet[Undefined]:
        """The references of all objects: many have the same."""
        return set(chain.from_iterable(self._references.values()))

    @cached_property
    def _providers(self) -> Mapping[str, Mapping[tuple[str, ...], Sequence[str]]]:
        """Object -> the files of the environment that can define the same names -> these."""
        index = self.judge.index
        providers = {s: index.providers(s.name, s.version) for s in self._different}
        return {
            path: values_by_key([(providers[symbol], symbol.name) for symbol in references])
            for path, references in self._references.items()
        }

    def references(self, path: str) -> Sequence[Undefined]:
        """Return the strong references of an object that files of wheels are to define.

        A reference counts if it has no version and is not to Python's API, or if it is to a
        library that the environment has several times.
        """
        return self._references.get(path, ())

    @cached_property
    def _references(self) -> Mapping[str, Sequence[Undefined]]:
        contested = self.contested
        references = (
            (
                path,
                [
                    symbol
                    for symbol in self.libraries[path].elf.undefined
                    if not symbol.weak
                    and (
                        (symbol.version is None and not is_python_name(symbol.name))
                        or symbol.file in contested
                    )
                ],
            )
            for path in (*self.world.members, *self.world.others)
            if path in self.libraries
        )
        return {path: symbols for path, symbols in references if symbols}
