"""The entries that `--as-needed` omits, compared with the linker itself."""

import sys
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.oracles.link_graphs.compare import decisions, difference, rebinding
from tests.oracles.link_graphs.graphs import random_graph
from tests.oracles.link_graphs.linking import Bench
from tests.oracles.link_graphs.loading import load
from tests.support.build import executable, shared_object
from tests.support.exports import read_exports
from tests.support.tools import needs, tool
from wheelfix.elf.reader import read_elf
from wheelfix.loader.as_needed import Library, Why, decide

needs_gnu_ld = needs("ld.bfd")


def library(path: Path) -> Library:
    data = path.read_bytes()
    return Library(
        path=str(path), elf=read_elf(data, path.name), read=partial(read_exports, data, path.name)
    )


class Case:
    """A few libraries and an object, linked with `--no-as-needed` and with `--as-needed`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lib(self, name: str, source: str, needed: tuple[str, ...] = (), versions: str = "") -> str:
        flags = ["-fno-builtin", "-w"]
        if versions:
            script = self.folder / f"{name}.map"
            script.write_text(versions)
            flags += [f"-Wl,--version-script={script}"]
        shared_object(
            self.folder / name,
            source,
            soname=name,
            needed=[self.folder / each for each in needed],
            flags=flags,
            libc=False,
        )
        return name

    def kept(self, source: str, *order: str, program: bool = False) -> dict[str, Why]:
        """Link both ways, hold us to the linker, and say why each library is kept."""
        needed = [self.folder / each for each in order]
        flags = ["-fno-builtin", "-w", "-fuse-ld=bfd"]
        made: list[Path] = []
        for name, as_needed in (("all.so", False), ("needed.so", True)):
            path = self.folder / name
            if program:
                flags = [*flags, "-fno-pie", "-no-pie", "-Wl,-e,start"]
                executable(
                    path, source, needed=needed, flags=flags, libc=False, as_needed=as_needed
                )
            else:
                shared_object(
                    path, source, needed=needed, flags=flags, libc=False, as_needed=as_needed
                )
            made.append(path)
        found = decide(library(made[0]), {name: library(self.folder / name) for name in order})
        wanted = read_elf(made[1].read_bytes(), "needed.so").needed
        assert tuple(each.name for each in found if each.keep) == wanted
        return {each.name: each.why for each in found}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


F = "int f(void) { return 1; }"
CALL = "int f(void); int x(void) { return f(); }"
WEAK = "extern int f(void) __attribute__((weak)); int x(void) { return f ? f() : 0; }"


@needs_gnu_ld
class TestDecision:
    """The hand-made cases of `elf_link_add_object_symbols`."""

    def test_a_call_keeps(self, case: Case) -> None:
        assert case.kept(CALL, case.lib("libf.so", F)) == {"libf.so": Why.USED}

    def test_data_and_thread_local_data_keep(self, case: Case) -> None:
        case.lib("libd.so", "int d = 1;")
        case.lib("libt.so", "__thread int t = 1;")
        source = "extern int d; extern __thread int t; int x(void) { return d + t; }"
        assert set(case.kept(source, "libd.so", "libt.so").values()) == {Why.USED}

    def test_nothing_referred_to_does_not(self, case: Case) -> None:
        assert case.kept("int x;", case.lib("libf.so", F)) == {"libf.so": Why.UNUSED}

    def test_a_weak_reference_does_not(self, case: Case) -> None:
        assert case.kept(WEAK, case.lib("libf.so", F)) == {"libf.so": Why.UNUSED}

    def test_a_weak_reference_to_a_version_does_not(self, case: Case) -> None:
        case.lib("libf.so", F, versions="F_1 { global: f; };")
        assert case.kept(WEAK, "libf.so") == {"libf.so": Why.UNUSED}

    @pytest.mark.parametrize("binding", ["", "__attribute__((weak)) "])
    def test_what_the_object_defines_itself_does_not(self, case: Case, binding: str) -> None:
        assert case.kept(binding + F + "int x(void) { return f(); }", case.lib("libf.so", F)) == {
            "libf.so": Why.UNUSED
        }

    def test_of_two_definers_the_first_is_kept(self, case: Case) -> None:
        case.lib("libf.so", F)
        case.lib("libg.so", F)
        assert case.kept(CALL, "libg.so", "libf.so") == {
            "libg.so": Why.USED,
            "libf.so": Why.UNUSED,
        }

    def test_a_weak_definition_counts_if_it_is_the_first(self, case: Case) -> None:
        case.lib("libw.so", "__attribute__((weak)) " + F)
        case.lib("libf.so", F)
        assert case.kept(CALL, "libw.so", "libf.so")["libf.so"] is Why.UNUSED

    def test_a_hidden_version_is_passed_over(self, case: Case) -> None:
        hidden = 'int f_old(void) { return 1; } __asm__(".symver f_old, f@F_1");'
        case.lib("libh.so", hidden, versions="F_1 { global: f; };")
        case.lib("libf.so", F)
        assert case.kept(CALL, "libh.so", "libf.so")["libh.so"] is Why.UNUSED

    def test_versions_say_which_library_is_meant(self, case: Case) -> None:
        case.lib("liba.so", F, versions="A_1 { global: f; };")
        case.lib("libb.so", F, versions="B_1 { global: f; };")
        assert case.kept(CALL, "libb.so", "liba.so") == {
            "libb.so": Why.USED,
            "liba.so": Why.UNUSED,
        }

    def test_an_underlinked_library_keeps_its_provider(self, case: Case) -> None:
        case.lib("libmid.so", "int c(void); int f(void) { return c(); }")
        case.lib("libc_.so", "int c(void) { return 1; }")
        assert case.kept(CALL, "libmid.so", "libc_.so")["libc_.so"] is Why.SIBLING
        assert case.kept(CALL, "libc_.so", "libmid.so")["libc_.so"] is Why.UNUSED

    def test_a_library_that_needs_its_provider_does_not(self, case: Case) -> None:
        case.lib("libc_.so", "int c(void) { return 1; }")
        case.lib("libmid.so", "int c(void); int f(void) { return c(); }", needed=("libc_.so",))
        assert case.kept(CALL, "libmid.so", "libc_.so")["libc_.so"] is Why.UNUSED

    def test_an_unused_underlinked_library_keeps_nothing(self, case: Case) -> None:
        case.lib("libmid.so", "int c(void); int f(void) { return c(); }")
        case.lib("libc_.so", "int c(void) { return 1; }")
        assert set(case.kept("int x;", "libmid.so", "libc_.so").values()) == {Why.UNUSED}

    def test_an_indirect_function_keeps(self, case: Case) -> None:
        source = (
            "static int g(void) { return 1; } static void *pick(void) { return g; }"
            'int f(void) __attribute__((ifunc("pick")));'
        )
        assert case.kept(CALL, case.lib("libi.so", source)) == {"libi.so": Why.USED}

    def test_a_copy_relocation_keeps(self, case: Case) -> None:
        case.lib("libd.so", "int d = 1;")
        source = "extern int d; void start(void) { *(volatile int *)&d; }"
        assert case.kept(source, "libd.so", program=True) == {"libd.so": Why.USED}
        assert library(case.folder / "all.so").exports.copies or sys.platform != "linux"

    def test_a_versioned_copy_keeps_its_library(self, case: Case) -> None:
        case.lib("libd.so", "int d = 1;", versions="D_1 { global: d; };")
        case.lib("libe.so", "int d = 1;")
        source = "extern int d; void start(void) { *(volatile int *)&d; }"
        assert case.kept(source, "libd.so", "libe.so", program=True) == {
            "libd.so": Why.USED,
            "libe.so": Why.UNUSED,
        }


@needs_gnu_ld
def test_random_graphs_are_pruned_as_gnu_ld_does(tmp_path: Path) -> None:
    """DT_NEEDED, Verneed, undefined symbols, and what the loader binds them to."""
    bench = Bench(folder=tmp_path)
    seen: Counter[Why] = Counter()
    loads = 0
    for seed in range(24):
        assert difference(seed, bench) is None
        graph = random_graph(seed)
        seen.update(each.why for each in decisions(graph, tmp_path / "all.so"))
        relinked = tmp_path / "needed.so"
        loads += load(relinked, read_elf(relinked.read_bytes(), relinked.name)).complete
    assert min(seen[why] for why in (Why.USED, Why.SIBLING, Why.UNUSED)) > 1, seen
    assert loads > 2, "hardly any of these graphs has anything to load"


@needs_gnu_ld
def test_pruning_random_graphs_changes_no_binding(tmp_path: Path) -> None:
    """The loader binds each symbol to the same file, an object's own symbols included."""
    for seed in range(8):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert rebinding(seed, Bench(folder=folder)) is None


@pytest.mark.parametrize("linker", ["ld.gold", "ld.lld"])
def test_other_linkers_agree_but_for_siblings(tmp_path: Path, linker: str) -> None:
    tool(linker)
    bench = Bench(folder=tmp_path, linker=linker)
    for seed in range(8):
        assert difference(seed, bench) is None


def test_glibc_2_34_does_not_make_libpthread_unused(tmp_path: Path) -> None:
    """What Verneed says counts, and not what a newer C library has merged."""
    path = tmp_path / "libpthread.so.0"
    stub = shared_object(path, "int nothing;", soname="libpthread.so.0", libc=False)
    merged = shared_object(
        tmp_path / "libc.so.6",
        "int pthread_create(void) { return 0; }",
        soname="libc.so.6",
        libc=False,
        flags=["-fno-builtin", "-w"],
    )
    script = tmp_path / "map"
    script.write_text("GLIBC_2.2.5 { global: pthread_create; };")
    shared_object(
        path,
        "int pthread_create(void) { return 0; }",
        soname="libpthread.so.0",
        flags=["-fno-builtin", "-w", f"-Wl,--version-script={script}"],
        libc=False,
    )
    user = shared_object(
        tmp_path / "x.so",
        "int pthread_create(void); int x(void) { return pthread_create(); }",
        needed=[path],
        flags=["-fno-builtin", "-w"],
        libc=False,
    )
    own = library(user)
    shared_object(stub, "int nothing;", soname="libpthread.so.0", libc=False)
    (found,) = decide(own, {"libpthread.so.0": library(stub), "libc.so.6": library(merged)})
    assert found.why is Why.USED


class TestAbsentLibrary:
    """A library that cannot be looked into is never judged unused."""

    def test_is_kept_for_an_undefined_reference(self, tmp_path: Path) -> None:
        lib = shared_object(tmp_path / "libf.so", F, soname="libf.so", libc=False)
        user = shared_object(tmp_path / "x.so", CALL, needed=[lib], libc=False)
        (found,) = decide(library(user), {"libf.so": None})
        assert found.keep
        assert found.why is Why.ABSENT
        assert found.open_references == ("f",)

    def test_is_kept_though_all_is_defined_elsewhere(self, tmp_path: Path) -> None:
        lib = shared_object(tmp_path / "libf.so", F, soname="libf.so", libc=False)
        other = shared_object(tmp_path / "libg.so", "int g;", soname="libg.so", libc=False)
        user = shared_object(tmp_path / "x.so", CALL, needed=[other, lib], libc=False)
        found = decide(library(user), {"libg.so": None, "libf.so": library(lib)})
        assert [each.why for each in found] == [Why.ABSENT, Why.USED]
        assert found[0].keep
        assert not found[0].open_references
