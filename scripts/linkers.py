"""Hold our reading of `--as-needed` to the linkers: random link graphs, linked both ways.

Each graph is a handful of libraries with shared, weak, versioned and hidden definitions, some of
them underlinked, and an object that refers to some of it. What `asneeded.decide` keeps of the
object linked with `--no-as-needed` must be what the linker keeps with `--as-needed`. gold and lld
keep nothing for the sake of a library that says too little; GNU ld does.

Then the object is pruned in place, and read again: its version needs and undefined symbols must be
those of the relinked object, and the loader must bind every symbol of both to the same file. Two
things differ, and are allowed for: a weak reference whose first definer goes loses its version,
though a later definer that stays may have one (the loader finds it all the same); and in a program
GNU ld replaces by null what a pruned one still asks the loader for.

    python scripts/linkers.py -n 2000 [--linker bfd|gold|lld] [--first SEED]
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from wheelfix.elf.editor import edit_in_place
from wheelfix.elf.exports import read_exports
from wheelfix.elf.model import Elf, Undefined, without_needed
from wheelfix.elf.reader import read_elf
from wheelfix.loader.as_needed import Decision, Library, Why, decide

# ruff: noqa: S311 -- dice need no secrecy

SYMBOLS = [f"s{n}" for n in range(8)]
_SHARED = ("-shared", "-soname")
LINKERS = {"bfd": "ld.bfd", "gold": "ld.gold", "lld": "ld.lld"}


@dataclass(frozen=True, kw_only=True)
class Code:
    """What one object file defines and refers to."""

    defines: tuple[str, ...] = ()
    weakly: tuple[str, ...] = ()
    """Weak definitions."""
    old: tuple[str, ...] = ()
    """Of what is defined: also there in an older, hidden version."""
    refers: tuple[str, ...] = ()
    refers_weakly: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Shared:
    """One shared library of a graph."""

    name: str
    code: Code
    versioned: bool = False
    needed: tuple[str, ...] = ()
    """Libraries that it is linked with; what else it refers to, it does not say."""


@dataclass(frozen=True, kw_only=True)
class Graph:
    """An object, and the libraries that it is linked with, in order."""

    libraries: tuple[Shared, ...]
    objects: tuple[Code, ...]
    order: tuple[str, ...]
    program: bool = False


def random_graph(seed: int) -> Graph:
    """Throw the dice for a graph; the same seed gives the same graph."""
    dice = random.Random(seed)
    names = [f"libw{letter}.so" for letter in "abcdef"[: dice.randint(2, 6)]]
    libraries: list[Shared] = []
    for number, name in enumerate(names):
        known = names[:number]
        needed = tuple(dice.sample(known, dice.randint(0, min(2, len(known)))))
        libraries.append(
            Shared(
                name=name,
                code=_random_code(dice, most=3),
                versioned=dice.random() < 0.5,
                needed=needed,
            )
        )
    objects = [_random_code(dice, most=most) for most in (1, 0)[: dice.randint(1, 2)]]
    order = tuple(dice.sample(names, len(names)))
    program = dice.random() < 0.2
    if program:  # there, the linker refuses what nobody defines
        defined = {name for each in libraries for name in each.code.defines}
        objects = [
            replace(code, refers=tuple(name for name in code.refers if name in defined))
            for code in objects
        ]
    return Graph(libraries=tuple(libraries), objects=tuple(objects), order=order, program=program)


def _random_code(dice: random.Random, *, most: int) -> Code:
    """Define up to `most` symbols, and refer to some of the others."""
    symbols = dice.sample(SYMBOLS, len(SYMBOLS))
    defines, rest = symbols[: dice.randint(0, most)], symbols[most:]
    refers = rest[: dice.randint(0, 3)]
    return Code(
        defines=tuple(defines),
        weakly=tuple(each for each in defines if dice.random() < 0.2),
        old=tuple(each for each in defines if dice.random() < 0.2),
        refers=tuple(refers),
        refers_weakly=tuple(rest[len(refers) : len(refers) + dice.randint(0, 2)]),
    )


# --- Linking --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder to link in, and the linker to hold us to."""

    folder: Path
    linker: str = "ld.bfd"
    arguments: tuple[str, ...] = field(
        default=("--hash-style=gnu", "--build-id=none", "-rpath", "$ORIGIN")
    )

    def link(self, graph: Graph) -> tuple[Path, Path]:
        """Link the graph's object with `--no-as-needed` and with `--as-needed`."""
        for library in graph.libraries:
            self._library(library)
        objects = [
            self._assemble(f"x{number}", replace(code, old=()), "")
            for number, code in enumerate(graph.objects)
        ]
        kind = (
            ["-no-pie", "--unresolved-symbols=ignore-all", "-e", "0"]
            if graph.program
            else [*_SHARED, "x.so"]
        )
        made = (self.folder / "all.so", self.folder / "needed.so")
        for output, flag in zip(made, ("--no-as-needed", "--as-needed"), strict=True):
            self._link(output, [*kind, *objects, flag, *graph.order])
        return made

    def _library(self, library: Shared) -> None:
        scope = library.name.removesuffix(".so").upper()
        written = self._assemble(library.name, library.code, scope if library.versioned else "")
        script: list[str] = []
        if library.versioned:
            path = self.folder / f"{library.name}.map"
            first, second = _node(library.code.old), _node(library.code.defines)
            path.write_text(f"{scope}_1 {first};\n{scope}_2 {second} {scope}_1;\n")
            script = ["--version-script", path.name]
        self._link(
            self.folder / library.name,
            [*_SHARED, library.name, *script, written, "--no-as-needed", *library.needed],
        )

    def _assemble(self, name: str, code: Code, scope: str) -> str:
        text = "\n".join(_assembly(code, scope)) + "\n"
        output = f"{name}.o"
        _run(["as", "-o", output, "-"], self.folder, text)
        return output

    def _link(self, output: Path, arguments: Sequence[str]) -> None:
        # A library that says too little is no error: what it lacks is the point.
        allow = ["--allow-shlib-undefined", *self.arguments]
        _run([self.linker, "-o", output.name, *allow, *arguments], self.folder)


def _node(symbols: Sequence[str]) -> str:
    names = "".join(f" {name};" for name in symbols)
    return f"{{ global:{names} }}" if names else "{ }"


def _assembly(code: Code, scope: str) -> Iterator[str]:
    """Write data that is defined and referred to, for any processor."""
    yield '.section .note.GNU-stack,"",%progbits'
    yield ".data"
    for name in code.defines:
        label = name
        if scope and name in code.old:
            label = f"{name}_new"
            yield f".symver {name}_old, {name}@{scope}_1"
            yield f".symver {label}, {name}@@{scope}_2"
            yield from _definition(f"{name}_old", ".globl")
        yield from _definition(label, ".weak" if name in code.weakly else ".globl")
    for name in code.refers_weakly:
        yield f".weak {name}"
    for name in (*code.refers, *code.refers_weakly):
        yield f".dc.a {name}"


def _definition(label: str, binding: str) -> Iterator[str]:
    yield f"{binding} {label}"
    yield f".type {label}, %object"
    yield f".size {label}, 4"
    yield f"{label}: .long 1"


def _run(command: Sequence[str], folder: Path, text: str | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")


# --- Comparing ------------------------------------------------------------------------------------


def library(path: Path) -> Library:
    """Read a library for `decide`."""
    data = path.read_bytes()
    read = partial(read_exports, data, path.name)
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
    said, wanted = Said.of(pruned), Said.of(relinked)
    if graph.program:
        said = said.among({name for name, *_ in wanted.symbols})
    wanted = wanted.without_labels({each for each in said.symbols if each[3]})
    if said == wanted or (said.tables() == wanted.tables() and not wanted.load.complete):
        return None
    return (
        f"seed {seed}: {bench.linker} {wanted.beside(said)}\n"
        f"  we {said.beside(wanted)}\n  {graph}\n  {ours}"
    )


def prune(full: Path, pruned: Path, names: set[str]) -> None:
    """Write `full` without the DT_NEEDED entries `names`, edited in place."""
    data = bytearray(full.read_bytes())
    before = read_elf(data, full.name)
    after = without_needed(before, names)
    if edit_in_place(data, before, after, full.name) != after:
        raise RuntimeError(f"{full}: dropping {names} needs room")
    pruned.write_bytes(data)


@dataclass(frozen=True, kw_only=True)
class Said:
    """What an object asks for, by its tables and by the loader."""

    needed: tuple[str, ...]
    verneed: dict[str, frozenset[str]]
    """Library -> the versions that are needed of it."""
    symbols: "frozenset[_Symbol]"
    """Name, version, library of the version, and whether weak, of what others define."""
    load: "Load"

    @classmethod
    def of(cls, path: Path) -> "Said":
        """Read an object, and have it loaded."""
        data = path.read_bytes()
        elf = read_elf(data, path.name)
        others = (*elf.undefined, *read_exports(data, path.name).copies)
        return cls(
            needed=elf.needed,
            verneed={need.file: frozenset(need.versions) for need in elf.verneed},
            symbols=frozenset(_symbol(each) for each in others),
            load=load(path, elf),
        )

    def tables(self) -> tuple[object, ...]:
        """Return what it says by its tables."""
        return self.needed, self.verneed, self.symbols

    def among(self, names: set[str]) -> "Said":
        """Leave out the object's own references to other symbols than these."""
        kept = (each for each in self.load.bindings if each[0] or each[1] in names)
        return replace(
            self,
            symbols=frozenset(each for each in self.symbols if each[0] in names),
            load=replace(self.load, bindings=frozenset(kept)),
        )

    def without_labels(self, weak: "set[_Symbol]") -> "Said":
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

    def beside(self, other: "Said") -> str:
        """Say in what it differs from `other`."""
        return ", ".join(
            f"{name}={mine}" for name, mine in vars(self).items() if mine != vars(other)[name]
        )


_Symbol = tuple[str, str | None, str | None, bool]


def _symbol(each: Undefined) -> _Symbol:
    return each.name, each.version, each.file, each.weak


@dataclass(frozen=True, kw_only=True)
class Load:
    """What the dynamic loader made of an object."""

    complete: bool
    bindings: frozenset[tuple[str, str, str]]
    """User, symbol and provider; the object itself is `""`. None counts if it is incomplete."""


_BINDING = re.compile(r"binding file (\S+) \[0\] to (\S+) \[0\]: normal symbol `(\w+)'")
_TROUBLE = re.compile(r"undefined symbol|symbol lookup error|version `|cannot open|not found")


def load(path: Path, elf: Elf) -> Load:
    """Load an object in a process of its own, with everything bound at once; glibc only.

    A library comes in as LD_PRELOAD; a program, which has no code to run, is taken as far as
    `ldd -r` does, which relocates everything.
    """
    if not elf.dynamic:
        return Load(complete=True, bindings=frozenset())
    variables = {**os.environ, "LD_BIND_NOW": "1", "LD_DEBUG": "bindings"}
    command = [shutil.which("true") or "true"]
    if elf.is_executable:
        variables |= {"LD_TRACE_LOADED_OBJECTS": "1", "LD_WARN": "1"}
        loader = read_elf(Path(command[0]).read_bytes(), command[0]).interpreter
        command = [str(loader), str(path)]
    else:
        variables["LD_PRELOAD"] = str(path)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    complete = done.returncode == 0 and not _TROUBLE.search(said)
    found = {
        (_base(user, path), symbol, _base(provider, path))
        for user, provider, symbol in _BINDING.findall(said)
        if symbol in SYMBOLS
    }
    return Load(complete=complete, bindings=frozenset(found) if complete else frozenset())


def _base(file: str, path: Path) -> str:
    name = file.rpartition("/")[2]
    return "" if name == path.name else name


def main() -> int:
    """Compare many graphs, and say how many differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=2000, help="number of graphs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--linker", choices=LINKERS, default="bfd")
    options = parser.parse_args()
    linker = LINKERS[options.linker]
    if shutil.which(linker) is None:
        print(f"{linker} is not installed", file=sys.stderr)
        return 2
    started = time.monotonic()
    differing = loading = bound = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(folder=Path(folder), linker=linker)
        for seed in range(options.first, options.first + options.n):
            if (found := difference(seed, bench)) is not None:
                differing += 1
                print(found)
            made = Path(folder, "pruned.so")
            loaded = load(made, read_elf(made.read_bytes(), made.name))
            loading += loaded.complete
            bound += len(loaded.bindings)
    seconds = time.monotonic() - started
    print(f"{linker}: {options.n} graphs, {differing} differ, {seconds:.0f} s")
    print(f"{loading} of the pruned objects load with everything bound, {bound} bindings")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
