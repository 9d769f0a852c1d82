"""What environment variables change: libraries that LD_LIBRARY_PATH puts in place of others."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from wheelfix.analysis.world import PlantedLibraries
from wheelfix.elf.exports import among
from wheelfix.environments.modules import InstalledModules
from wheelfix.environments.products import known_products
from wheelfix.environments.read_values import Variable
from wheelfix.environments.symbols import InstalledSymbols
from wheelfix.named_tuple import NamedTuple

LIBRARY_PATH = "LD_LIBRARY_PATH"


class Displaced(NamedTuple):
    """A library that a file of the environment gets from LD_LIBRARY_PATH, and not its own."""

    variable: Variable | None
    """What sets it; None for the process itself."""
    module: str
    """The module that loads the file."""
    user: str
    name: str
    """The DT_NEEDED entry."""
    usual: str
    """What it gets without the variable."""
    other: str
    lacking: tuple[str, ...]
    """Versions and symbols of `usual` that it uses, and `other` does not define."""
    symbols: tuple[str, ...]
    """Some that `other` defines for it."""


class Directed(NamedTuple):
    """A library that reads a variable which another package sets to a folder of its own."""

    variable: Variable
    reader: str
    second: str | None
    """Another build of the reader, which files of the folder need; None if they need none."""


def displaced(modules: InstalledModules) -> Iterator[Displaced]:
    """Yield what LD_LIBRARY_PATH displaces: of the process, and as files of the environment set it.

    glibc searches it before DT_RUNPATH and after DT_RPATH. Of each file and library the first
    module is yielded.
    """
    here, contents = modules.world.environment.library_path, modules.symbols.contents
    if here:
        without = _with_path(modules, (), PlantedLibraries())
        yield from _between(without, modules, contents.planted(here).names, None)
    for variable in contents.variables:
        if variable.name == LIBRARY_PATH and not set(variable.directories) <= set(here):
            path, planted = (*variable.directories, *here), contents.planted(variable.directories)
            there = _with_path(modules, path, planted)
            yield from _between(modules, there, planted.names, variable)


def directed(modules: InstalledModules) -> Iterator[Directed]:
    """Yield the libraries that read a variable which a package sets to a folder of its own."""
    contents = modules.symbols.contents
    directing = [(v, own) for v in contents.variables if (own := _own_files(modules, v))]
    names = frozenset(variable.name for variable, _ in directing)
    mentioned = {
        reader: contents.mentions(reader, names)
        for reader in (modules.loaded if names else ())
        if modules.distribution(reader) and _reads_variables(modules, reader)
    }
    for variable, own in directing:
        setter = modules.distribution(variable.path)
        for reader, words in mentioned.items():
            if variable.name in words and modules.distribution(reader) != setter:
                yield Directed(variable, reader, _second(modules, reader, own))


def _own_files(modules: InstalledModules, variable: Variable) -> Sequence[str]:
    """Return the files in the folders of a variable; none if others than its setter have some."""
    setter = modules.distribution(variable.path)
    below = tuple(f"{directory}/" for directory in variable.directories)
    if variable.name == LIBRARY_PATH or not setter:
        return ()
    own = [path for path, owners in modules.owners.items() if path.startswith(below) and owners]
    return own if all(modules.distribution(path) == setter for path in own) else ()


def _reads_variables(modules: InstalledModules, path: str) -> bool:
    """Return whether an object calls a function like `getenv`, or one of Qt."""
    undefined = modules.world.environment.files[path].undefined
    return any("getenv" in s.name or "nvironmentVariable" in s.name for s in undefined)


def _second(modules: InstalledModules, reader: str, paths: Sequence[str]) -> str | None:
    """Return another build of what `reader` and its dependencies are, that one of `paths` needs."""
    mine, its = (
        {
            marker: path
            for root in roots
            if root in modules.symbols.libraries
            for path in modules.world.load(root).objects
            if path in modules.world.members
            for marker in _markers(modules, path)
        }
        for roots in ((reader,), paths)
    )
    return next((its[key] for key in its if key in mine and its[key] != mine[key]), None)


def _markers(modules: InstalledModules, path: str) -> Iterator[str]:
    definitions = modules.symbols.libraries[path].exports.definitions
    return (product.name for product in known_products() if among(definitions, product.markers))


def _with_path(
    modules: InstalledModules, path: tuple[str, ...], planted: PlantedLibraries
) -> InstalledModules:
    """Return the environment in a process with another LD_LIBRARY_PATH, where `planted` are."""
    world, environment = modules.world, modules.world.environment
    files = {**planted.files, **environment.files}
    changed = replace(
        environment,
        library_path=path,
        files=files,
        broken={**planted.broken, **environment.broken},
        links={**planted.links, **environment.links},
        directories=environment.directories | planted.directories,
    )
    there = replace(world, environment=changed)
    return replace(
        modules, symbols=InstalledSymbols(world=there, contents=modules.symbols.contents)
    )


def _between(
    without: InstalledModules,
    there: InstalledModules,
    offered: frozenset[str],
    variable: Variable | None,
) -> Iterator[Displaced]:
    """Yield what gets another file `there` than `without` the variable, of other content.

    The names `offered` are those of files in its directories.
    """
    known: set[tuple[str, str]] = set()
    for module in without.modules:
        requests = without.world.load(module).requests
        if offered.isdisjoint(request.name for request in requests):
            continue
        before = {(request.requester, request.name): request.result for request in requests}
        load = there.world.load(module)
        for request in load.requests:
            user, name, other = request.requester or "", request.name, request.result
            usual = before.get((user, name))
            if not usual or not other or usual == other or user not in there.world.members:
                continue
            if (user, name) not in known and not there.symbols.contents.are_equal(usual, other):
                known.add((user, name))
                lacking = tuple(there.lacking(user, name, usual, other))
                bound = (name for name, by in there.symbols.bindings(load, user) if by == other)
                symbols = tuple(islice(bound, 1))
                yield Displaced(variable, module, user, name, usual, other, lacking, symbols)
