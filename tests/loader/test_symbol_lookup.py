"""Symbol binding: the loader's rules, and the loader itself (`LD_DEBUG=bindings`)."""

import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.support.bindings import bindings
from tests.support.build import shared_object
from tests.support.exports import read_exports
from tests.support.loads import load
from wheelfix.elf.model import Definition, Libc
from wheelfix.elf.reader import read_elf
from wheelfix.loader.as_needed import Library
from wheelfix.loader.load_values import Environment
from wheelfix.loader.symbol_lookup import Scope, SymbolIndex, binds, undefined_names

PLAIN = Definition(version=None, version_index=None, hidden=False, weak=False, type=2)
OLD = Definition(version="V1", version_index=2, hidden=True, weak=False, type=2)
MIDDLE = Definition(version="V2", version_index=3, hidden=True, weak=False, type=2)
NEW = Definition(version="V3", version_index=4, hidden=False, weak=False, type=2)
LOCAL = Definition(version=None, version_index=0, hidden=True, weak=False, type=2)
IFUNC = Definition(version=None, version_index=None, hidden=False, weak=False, type=10)
BASE = Definition(version=None, version_index=1, hidden=False, weak=False, type=2)


@pytest.mark.parametrize(
    ("definitions", "version", "bound"),
    [
        ((PLAIN,), None, True),
        ((PLAIN,), "V9", True),  # an unversioned definition satisfies any version
        ((BASE,), "V9", True),
        ((NEW,), "V3", True),
        ((NEW,), "V1", False),
        ((OLD,), "V1", True),  # hidden from the linker, not from a versioned reference
        ((OLD,), None, True),  # an unversioned reference takes the oldest version
        ((MIDDLE,), None, False),
        ((NEW,), None, True),
        ((MIDDLE, NEW), "V2", True),
        ((NEW, NEW), None, False),  # of two default versions the loader takes neither
        ((LOCAL,), "V1", True),  # index 0 is local to linkers only
    ],
)
def test_glibc_matches_versions(
    definitions: tuple[Definition, ...],
    version: str | None,
    bound: bool,  # noqa: FBT001 - a column of the table
) -> None:
    assert binds(definitions, version, Libc.GLIBC) is bound


def test_musl_looks_at_no_versions() -> None:
    assert binds((NEW,), "V1", Libc.MUSL)
    assert not binds((OLD,), "V1", Libc.MUSL)
    assert binds((LOCAL,), None, Libc.MUSL)
    assert not binds((IFUNC,), None, Libc.MUSL)


class Tree:
    """Libraries in one folder, bound by the model and by the loader."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lib(self, name: str, source: str, *needed: str, versions: str = "") -> None:
        flags = ["-fno-builtin", "-w", "-fPIC"]
        if versions:
            script = self.folder / f"{name}.map"
            script.write_text(versions)
            flags.append(f"-Wl,--version-script={script}")
        shared_object(
            self.folder / name,
            source,
            soname=name,
            needed=[self.folder / each for each in needed],
            rpath="$ORIGIN",
            flags=flags,
            libc=False,
        )

    def libraries(self) -> dict[str, Library]:
        return {
            str(path): Library(
                path=str(path),
                elf=read_elf(path.read_bytes(), path.name),
                read=partial(read_exports, path.read_bytes(), path.name),
            )
            for path in self.folder.glob("*.so")
        }

    def model(self, root: str) -> dict[tuple[str, str], str | None]:
        libraries = self.libraries()
        files = {path: library.elf for path, library in libraries.items()}
        found = load(f"{self.folder}/{root}", Environment(libc=Libc.GLIBC, files=files))
        index = SymbolIndex(libraries, undefined_names(libraries))
        return {
            (Path(reference.dependent).name, reference.symbol): provider and Path(provider).name
            for reference, provider in bindings(found, index).items()
        }

    def loader(self, root: str) -> dict[tuple[str, str], str]:
        """Open `root` in a process of its own, and read what the loader says."""
        code = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
        done = subprocess.run(
            [sys.executable, "-c", code, f"{self.folder}/{root}"],
            env={**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        pattern = re.compile(
            rf"binding file {re.escape(str(self.folder))}/(\S+) \[0\] to (\S+) \[0\]: "
            r"normal symbol `([^']+)'"
        )
        return {(m[1], m[3]): Path(m[2]).name for m in pattern.finditer(done.stderr)}


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def agree(tree: Tree, root: str) -> dict[tuple[str, str], str | None]:
    model = tree.model(root)
    said = tree.loader(root)  # of symbols that their user defines as well
    assert {key: file for key, file in model.items() if file} == {
        key: said[key] for key in model if key in said
    }
    return model


@pytest.mark.skipif(sys.platform != "linux", reason="LD_DEBUG is glibc's")
class TestAgainstTheLoader:
    def test_the_first_definition_in_the_group_binds_all_references(self, tree: Tree) -> None:
        tree.lib("liba.so", "int f(void) { return 1; }")
        tree.lib("libb.so", "int f(void) { return 2; } int g(void) { return f(); }")
        tree.lib(
            "x.so", "int f(void); int g(void); int x(void){return f()+g();}", "libb.so", "liba.so"
        )
        assert agree(tree, "x.so")["x.so", "f"] == "libb.so"

    def test_a_sibling_provides_for_an_underlinked_library(self, tree: Tree) -> None:
        tree.lib("libdeep.so", "int deep(void) { return 1; }")
        tree.lib("libmid.so", "int deep(void); int mid(void) { return deep(); }")
        tree.lib("x.so", "int mid(void); int x(void) { return mid(); }", "libmid.so", "libdeep.so")
        assert agree(tree, "x.so")["libmid.so", "deep"] == "libdeep.so"
        assert tree.model("libmid.so")["libmid.so", "deep"] is None

    def test_a_versioned_reference_skips_other_versions(self, tree: Tree) -> None:
        tree.lib("liba.so", "int f(void) { return 1; }", versions="A_1 { global: f; };")
        tree.lib("libb.so", "int f(void) { return 2; }", versions="B_1 { global: f; };")
        tree.lib("liby.so", "int f(void); int y(void) { return f(); }", "libb.so")
        tree.lib("x.so", "int y(void); int x(void) { return y(); }", "liba.so", "liby.so")
        assert agree(tree, "x.so")["liby.so", "f"] == "libb.so"

    def test_an_undefined_weak_reference_is_null(self, tree: Tree) -> None:
        weak = "extern int w(void) __attribute__((weak)); int x(void) { return w ? w() : 0; }"
        tree.lib("x.so", weak)
        assert agree(tree, "x.so")["x.so", "w"] is None


def test_a_scope_looks_up_in_the_order_of_its_objects(tree: Tree) -> None:
    tree.lib("liba.so", "int f(void) { return 1; }", versions="A_1 { global: f; };")
    tree.lib("libb.so", "int f(void) { return 2; }", versions="B_1 { global: f; };")
    tree.lib("x.so", "int f(void); int x(void) { return f(); }")
    libraries = tree.libraries()
    a, b = (str(tree.folder / name) for name in ("liba.so", "libb.so"))
    index = SymbolIndex(libraries, undefined_names(libraries))
    assert Scope((a, b), index).lookup("f", None) == a
    assert Scope((b, a), index).lookup("f", None) == b
    assert Scope((a, b), index).lookup("f", "B_1") == b
    assert Scope((a,), index).lookup("f", "B_1") is None
    assert Scope((a, b, "libunread.so"), index).lookup("g", None) is None
