"""Link graphs, linked from assembly by a real linker."""

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.oracles.link_graphs.graphs import Code, Graph, Shared

SHARED = ("-shared", "-soname")


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder to link in, and the linker."""

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
            else [*SHARED, "x.so"]
        )
        made = (self.folder / "all.so", self.folder / "needed.so")
        for output, flag in zip(made, ("--no-as-needed", "--as-needed"), strict=True):
            self._link(output, [*kind, *objects, flag, *graph.order])
        return made

    def _library(self, library: Shared) -> None:
        scope = library.name.removesuffix(".so").upper()
        object_file = self._assemble(library.name, library.code, scope if library.versioned else "")
        script: list[str] = []
        if library.versioned:
            path = self.folder / f"{library.name}.map"
            first, second = version_node(library.code.old), version_node(library.code.defines)
            path.write_text(f"{scope}_1 {first};\n{scope}_2 {second} {scope}_1;\n")
            script = ["--version-script", path.name]
        self._link(
            self.folder / library.name,
            [*SHARED, library.name, *script, object_file, "--no-as-needed", *library.needed],
        )

    def _assemble(self, name: str, code: Code, scope: str) -> str:
        text = "\n".join(assembly(code, scope)) + "\n"
        output = f"{name}.o"
        run(["as", "-o", output, "-"], self.folder, text)
        return output

    def _link(self, output: Path, arguments: Sequence[str]) -> None:
        # A library that says too little is no error: what it lacks is the point.
        allow = ["--allow-shlib-undefined", *self.arguments]
        run([self.linker, "-o", output.name, *allow, *arguments], self.folder)


def version_node(symbols: Sequence[str]) -> str:
    names = "".join(f" {name};" for name in symbols)
    return f"{{ global:{names} }}" if names else "{ }"


def assembly(code: Code, scope: str, first: int = 1, table: str = "") -> Iterator[str]:
    """Write data that is defined and referred to, for any processor.

    The definitions are numbers from `first` on; `table` names the list of what is referred to.
    """
    yield '.section .note.GNU-stack,"",%progbits'
    yield ".data"
    for value, name in enumerate(code.defines, first):
        label = name
        if scope and name in code.old:
            label = f"{name}_new"
            yield f".symver {name}_old, {name}@{scope}_1"
            yield f".symver {label}, {name}@@{scope}_2"
            yield from _definition(f"{name}_old", ".globl", value + len(code.defines))
        yield from _definition(label, ".weak" if name in code.weakly else ".globl", value)
    if table:
        yield f".balign 8\n.globl {table}\n{table}:"
    for name in code.refers_weakly:
        yield f".weak {name}"
    for name in (*code.refers, *code.refers_weakly):
        yield f".dc.a {name}"


def _definition(label: str, binding: str, value: int) -> Iterator[str]:
    yield f"{binding} {label}"
    yield f".type {label}, %object"
    yield f".size {label}, 4"
    yield f"{label}: .long {value}"


def run(command: Sequence[str], folder: Path, text: str | None = None) -> None:
    done = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr}")
