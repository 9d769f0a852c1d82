"""Differences between a pruned object and one linked with `--as-needed`, or not pruned."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests.oracles.link_graphs.graphs import Graph, loadable, random_graph
from tests.oracles.link_graphs.linking import Bench
from tests.oracles.link_graphs.loading import Load, load
from tests.support.no_names import NoMentions
from wheelfix.analysis.lddtree_search import NO_PATH, MachineLibraries, SearchPath
from wheelfix.analysis.loaded_wheel import ALLOCATOR, LoadedWheel, module_hooks
from wheelfix.analysis.needed_judgement import judge_needed
from wheelfix.budget import Budget
from wheelfix.elf.editor import edit
from wheelfix.elf.exports import lazy_exports, read_symbol_tables
from wheelfix.elf.model import Elf, Libc, Undefined
from wheelfix.elf.reader import read_elf
from wheelfix.elf.revision import Revision
from wheelfix.grouping import values_by_key
from wheelfix.loader.as_needed import Decision, Library, Why, decide
from wheelfix.loader.load_values import Environment
from wheelfix.loader.loading import load as search
from wheelfix.loader.symbol_lookup import SymbolIndex, undefined_names
from wheelfix.settings import Settings

ForeignSymbol = tuple[str, str | None, str | None, bool]
"""Name, version, library of the version, and whether weak, of a symbol defined elsewhere."""


def library(path: Path) -> Library:
    """Read a library for `decide`."""
    data = path.read_bytes()
    read = partial(lazy_exports, partial(read_symbol_tables, data, path.name))
    return Library(path=str(path), elf=read_elf(data, path.name), read=read)


def decisions(graph: Graph, linked: Path) -> tuple[Decision, ...]:
    """Judge the object that was linked with everything."""
    libraries = {name: library(linked.parent / name) for name in graph.order}
    return decide(library(linked), libraries)


def difference(seed: int, bench: Bench) -> str | None:
    """Link a random graph both ways; say where we differ from the linker."""
    graph = random_graph(seed)
    full, relinked = bench.link(graph)
    ours = decisions(graph, full)
    passed = {Why.UNUSED} if bench.linker == "ld.bfd" else {Why.UNUSED, Why.SIBLING}
    pruned = full.with_name("pruned.so")
    prune(full, pruned, {decision.name for decision in ours if decision.why in passed})
    said, wanted = LinkedObject.of(pruned), LinkedObject.of(relinked)
    if graph.program:
        said = said.among({name for name, *_ in wanted.symbols})
    wanted = wanted.without_labels({each for each in said.symbols if each[3]})
    if said == wanted or (said.tables() == wanted.tables() and not wanted.load.complete):
        return None
    return (
        f"seed {seed}: {bench.linker} {wanted.unlike(said)}\n"
        f"  we {said.unlike(wanted)}\n  {graph}\n  {ours}"
    )


def rebinding(seed: int, bench: Bench) -> str | None:
    """Link a random graph, prune all its objects as a repair does; say what binds otherwise."""
    graph = loadable(random_graph(seed))
    full, relinked = bench.link(graph)
    relinked.unlink()
    libraries = {path.name: library(path) for path in full.parent.glob("*.so")}
    loaded = _loaded(libraries)
    before = {name: load(Path(lib.path), lib.elf) for name, lib in libraries.items()}
    unused = judge_needed(loaded, Settings(), NoMentions()).unused
    drops = [(entry.member, entry.name) for entry in unused if not entry.kept]
    for name, names in values_by_key(drops).items():
        prune(full.with_name(name), full.with_name(name), set(names))
    environment = loaded.without_needed(drops)
    for name, was in before.items():
        path = full.with_name(name)
        inside = {
            _own(Path(file).name, name)
            for file in search(str(path), environment, Budget.of_files()).objects
        }
        kept = {binding for binding in was.bindings if binding[0] in inside}
        now = load(path, environment.files[str(path)])
        if was.complete and not kept <= now.bindings <= was.bindings:
            lost, new = kept - now.bindings, now.bindings - was.bindings
            return f"seed {seed}: {name} without {drops} binds {new}, not {lost}\n  {graph}"
    return None


def _own(file: str, root: str) -> str:
    """Return the name of a file in the `bindings` of the load of `root`."""
    return "" if file == root else file


def _no_host(name: str, dependent: Elf, path: str = "", root: SearchPath = NO_PATH, /) -> None:
    del name, dependent, path, root


def _nowhere(name: str, dependent: Elf, folders: Iterable[str], /) -> None:
    del name, dependent, folders


def _loaded(libraries: Mapping[str, Library]) -> LoadedWheel:
    """Return libraries of one folder as those of a wheel, by file name."""
    by_path = {lib.path: lib for lib in libraries.values()}
    budget = Budget.of_files()
    nowhere = MachineLibraries(elfs={}, shipped={}, host=_no_host, outside=_nowhere, budget=budget)
    return LoadedWheel(
        environment=Environment(
            libc=Libc.GLIBC,
            files={lib.path: _as_module(name, lib.elf) for name, lib in libraries.items()},
        ),
        paths={name: lib.path for name, lib in libraries.items()},
        libraries=by_path,
        index=SymbolIndex(by_path, ALLOCATOR | undefined_names(by_path)),
        machine=nowhere,
        budget=budget,
    )


def _as_module(name: str, elf: Elf) -> Elf:
    """Return a library as a module that Python imports: others keep their entries."""
    hooks = () if elf.is_executable else module_hooks(name)[:1]
    return elf._replace(module_hooks=hooks)


def prune(full: Path, pruned: Path, names: set[str]) -> None:
    """Write `full` without the DT_NEEDED entries `names`, edited in place."""
    data = full.read_bytes()
    revision = Revision.of(read_elf(data, full.name))
    for name in names:
        revision = revision.drop_needed(name)
    pruned.write_bytes(edit(data, revision, full.name, may_grow=False).content(data))


@dataclass(frozen=True, kw_only=True)
class LinkedObject:
    """What an object needs, read from its tables and observed with the loader."""

    needed: tuple[str, ...]
    verneed: dict[str, frozenset[str]]
    """Library -> the versions that are needed of it."""
    symbols: frozenset[ForeignSymbol]
    load: Load

    @classmethod
    def of(cls, path: Path) -> "LinkedObject":
        """Read an object, and have it loaded."""
        data = path.read_bytes()
        elf = read_elf(data, path.name)
        others = (*elf.undefined, *read_symbol_tables(data, path.name).copies)
        return cls(
            needed=elf.needed,
            verneed={need.file: frozenset(need.versions) for need in elf.verneed},
            symbols=frozenset(_foreign_symbol(each) for each in others),
            load=load(path, elf),
        )

    def tables(self) -> tuple[object, ...]:
        """Return what it says by its tables."""
        return self.needed, self.verneed, self.symbols

    def among(self, names: set[str]) -> "LinkedObject":
        """Leave out the object's own references to other symbols than these."""
        kept = (each for each in self.load.bindings if each[0] or each[1] in names)
        return replace(
            self,
            symbols=frozenset(each for each in self.symbols if each[0] in names),
            load=replace(self.load, bindings=frozenset(kept)),
        )

    def without_labels(self, weak: set[ForeignSymbol]) -> "LinkedObject":
        """Leave out the versions of weak references that have none among `weak`."""
        bare = {name for name, version, *_ in weak if version is None}
        lost = {each for each in self.symbols if each[3] and each[0] in bare}
        kept = self.symbols - lost
        asked = {(file, version) for _, version, file, _ in kept}
        gone = {(file, version) for _, version, file, _ in lost} - asked
        verneed = {
            file: frozenset(version for version in versions if (file, version) not in gone)
            for file, versions in self.verneed.items()
        }
        return replace(
            self,
            symbols=kept | {(name, None, None, True) for name, *_ in lost},
            verneed={file: versions for file, versions in verneed.items() if versions},
        )

    def unlike(self, other: "LinkedObject") -> str:
        """Return the fields that differ from `other`, as text."""
        return ", ".join(
            f"{name}={mine}" for name, mine in vars(self).items() if mine != vars(other)[name]
        )


def _foreign_symbol(each: Undefined) -> ForeignSymbol:
    return each.name, each.version, each.file, each.weak
