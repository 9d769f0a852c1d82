"""Projects, linked from assembly, and packed into a wheel."""

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.oracles.link_graphs.linking import assembly, run, version_node
from tests.oracles.repaired_wheels.projects import FOLDERS, Kind, Object, Project
from tests.support.build import make_wheel

READER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* read [FILE...] -- [TABLE:SIZE...]: open the files, then print the numbers that the tables list */
int main(int count, char **words) {
    int at = 1;
    for (; at < count && strcmp(words[at], "--"); at++)
        if (!dlopen(words[at], RTLD_NOW)) { puts(dlerror()); return 1; }
    int files = at;
    for (at++; at < count; at++) {
        char *size = strchr(words[at], ':');
        *size++ = 0;
        int ***table = dlsym(RTLD_DEFAULT, words[at]);
        for (int file = 1; file < files && !table; file++)
            table = dlsym(dlopen(words[file], RTLD_NOW), words[at]);
        printf("%s", words[at]);
        if (!table) printf(" absent");
        else for (int place = 0; place < atoi(size); place++)
            printf(" %d", ((int **)table)[place] ? *((int **)table)[place] : 0);
        puts("");
    }
    return 0;
}
"""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder to build in."""

    folder: Path
    reader: Path
    """The compiled READER, as an object file; beside it, as a program, without the suffix."""

    def build(self, project: Project) -> Path:
        """Link all objects, and return the wheel."""
        for folder in FOLDERS:
            (self.folder / folder).mkdir()
        for each in (*project.machine, *project.wheel):
            self._link(each)
        files: dict[str, bytes | str | Path] = {
            f"{each.folder}/{each.name}": self._path(each) for each in project.wheel
        }
        files["pkg/__init__.py"] = ""
        return make_wheel(self.folder / "dist", files=files)

    def _path(self, each: Object) -> Path:
        return self.folder / each.folder / each.name

    def _link(self, each: Object) -> None:
        path = self._path(each)
        path.parent.mkdir(parents=True, exist_ok=True)
        scope = f"V{each.number}" if each.versioned else ""
        run(["as", "-o", f"{path}.o", "-"], self.folder, "\n".join(_source(each, scope)) + "\n")
        words = [f"{path}.o", "-o", str(path), *_search_path(each, self.folder)]
        words += ["-z", "lazy" if each.lazy else "now", *(["-Bsymbolic"] if each.symbolic else [])]
        if each.soname:
            words += ["-soname", each.soname]
        if scope:
            script = path.with_name(f"{path.name}.map")
            first, second = version_node(each.code.old), version_node(each.code.defines)
            script.write_text(f"{scope}_1 {first};\n{scope}_2 {second} {scope}_1;\n")
            words += ["--version-script", str(script)]
        libraries = ["--no-as-needed", *(str(self._path(other)) for other in each.needed)]
        common = ["--allow-shlib-undefined", "--hash-style=gnu", "--build-id=none"]
        common += ["--unresolved-symbols=ignore-all"]
        if each.kind is Kind.PROGRAM:
            objects = [str(self.reader), "-pie", "-export-dynamic"]
            marked = [part for word in (*common, *words, *libraries) for part in ("-Xlinker", word)]
            run(["gcc", *objects, *marked, "-o", str(path)], self.folder)
        else:
            run(["ld.bfd", "-shared", *common, *words, *libraries], self.folder)


def table(each: Object) -> str:
    """Name the table of an object's references."""
    return f"references{each.number}"


def _source(each: Object, scope: str) -> Sequence[str]:
    lines = list(assembly(each.code, scope, 100 * (each.number + 1), table(each)))
    if each.kind is Kind.MODULE:
        lines.append(f".globl PyInit__m{each.number}\nPyInit__m{each.number}: .long 0")
    if platform.machine() == "x86_64":
        lines += [".text", *(f"call {name}@PLT" for name in each.calls)]
    return lines


def _search_path(each: Object, folder: Path) -> Sequence[str]:
    if not each.search:
        return ()
    entries = (str(folder / name) if name in FOLDERS else name for name in each.search)
    tags = "--disable-new-dtags" if each.rpath else "--enable-new-dtags"
    return (tags, "-rpath", ":".join(entries))


def compile_reader(folder: Path) -> Path:
    """Compile READER, as an object file and as a program."""
    file = folder / "read.o"
    run(["gcc", "-O1", "-fPIE", "-xc", "-c", "-", "-o", str(file)], folder, READER)
    run(["gcc", "-pie", str(file), "-o", str(file.with_suffix(""))], folder)
    return file
