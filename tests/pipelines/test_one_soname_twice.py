"""Repairs of wheels whose objects find different libraries under one SONAME."""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.build import extension, make_wheel, shared_object
from tests.support.environment import ENVIRON
from tests.support.naming import SUFFIX, TAG, installed, run
from tests.support.repairing import repair
from wheelfix.pipelines.repair_result import Outcome
from wheelfix.settings import Settings
from wheelfix.wheel.edits import DropNeeded

IMPORT = "import clash._a, clash._b; print(clash._a.value(), clash._b.value())"


def library(folder: Path, function: str, number: int, needed: tuple[Path, ...] = ()) -> Path:
    source = f"int {function}(void) {{ return {number}; }}"
    search = ":".join(f"$ORIGIN/../{other.parent.name}" for other in needed) or None
    return shared_object(
        folder / "libdup.so.1", source, soname="libdup.so.1", needed=needed, runpath=search
    )


def wheel_of(tmp_path: Path, modules: Mapping[str, tuple[list[Path], list[str]]]) -> Path:
    """Return a wheel of `modules`, each with the libraries that it needs and what it calls."""
    files: dict[str, str | Path] = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name,
            name,
            needed=libraries,
            calls=calls,
            runpath=":".join(str(library.parent) for library in libraries),
            flags=["-Wl,--allow-shlib-undefined"],
        )
        for name, (libraries, calls) in modules.items()
    }
    return make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **files})


def clashing(folder: Path) -> Path:
    first, second = library(folder / "c1", "dup_a", 1), library(folder / "c2", "dup_b", 2)
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            folder / name, name, needed=[lib], calls=[function], runpath=str(lib.parent)
        )
        for name, lib, function in (("_a", first, "dup_a"), ("_b", second, "dup_b"))
    }
    return make_wheel(folder, name="clash", tag=TAG, files={"clash/__init__.py": "", **modules})


def repaired(wheel: Path, folder: Path) -> Outcome:
    return repair(wheel, Settings(wheel_dir=folder / "out"), ENVIRON)


def test_each_object_gets_the_library_that_its_search_path_finds(tmp_path: Path) -> None:
    outcome = repaired(clashing(tmp_path), tmp_path)
    assert [library.original for library in outcome.grafted] == ["libdup.so.1"] * 2
    assert not any(isinstance(step.edit, DropNeeded) for step in outcome.edits)
    assert outcome.output is not None
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 2\n"


def test_an_entry_is_unused_if_the_file_that_is_found_is(tmp_path: Path) -> None:
    folder = tmp_path / "unused"
    first, second = library(folder / "c1", "dup_a", 1), library(folder / "c2", "dup_b", 2)
    files: dict[str, Path] = {
        f"clash/_a{SUFFIX}": extension(
            folder / "_a", "_a", needed=[first], calls=["dup_a"], runpath=str(first.parent)
        ),
        f"clash/_b{SUFFIX}": extension(
            folder / "_b", "_b", needed=[second], runpath=str(second.parent)
        ),
    }
    wheel = make_wheel(folder, name="clash", tag=TAG, files={"clash/__init__.py": "", **files})
    outcome = repaired(wheel, tmp_path)
    dropped = [step.edit for step in outcome.edits if isinstance(step.edit, DropNeeded)]
    assert dropped == [DropNeeded(member=f"clash/_b{SUFFIX}", name="libdup.so.1")]
    assert outcome.output is not None
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 42\n"


@pytest.mark.parametrize(("rpath", "printed"), [(True, "1 42\n"), (False, "1 41\n")])
def test_ld_library_path_comes_before_dt_runpath(
    tmp_path: Path, printed: str, *, rpath: bool
) -> None:
    first, second = (library(tmp_path / f"c{n}", "twin", n) for n in (1, 2))
    outer = shared_object(
        tmp_path / "c3" / "libouter.so.1",
        "int twin(void); int outer(void) { return twin() + 40; }",
        soname="libouter.so.1",
        needed=[second],
        rpath="$ORIGIN/../c2" if rpath else None,
        runpath=None if rpath else "$ORIGIN/../c2",
    )
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name, name, needed=[lib], calls=[function], runpath=str(lib.parent)
        )
        for name, lib, function in (("_a", first, "twin"), ("_b", outer, "outer"))
    }
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **modules})
    environ = {**ENVIRON, "LD_LIBRARY_PATH": str(first.parent)}
    outcome = repair(wheel, Settings(wheel_dir=tmp_path / "out"), environ)
    assert outcome.output is not None, outcome.error
    site = installed(outcome.output, tmp_path / "site")
    assert (
        run(site, "import clash._b as b, clash._a as a; print(a.value(), b.value())").stdout
        == printed
    )


def test_a_library_of_the_machine_is_found_by_its_own_search_path(tmp_path: Path) -> None:
    inner = library(tmp_path / "c2", "dup_b", 2)
    outer = shared_object(
        tmp_path / "c3" / "libouter.so.1",
        "int dup_b(void); int outer(void) { return dup_b() + 40; }",
        soname="libouter.so.1",
        needed=[inner],
        runpath="$ORIGIN/../c2",
    )
    first = library(tmp_path / "c1", "dup_a", 1)
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name, name, needed=[lib], calls=[function], runpath=str(lib.parent)
        )
        for name, lib, function in (("_a", first, "dup_a"), ("_b", outer, "outer"))
    }
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **modules})
    outcome = repaired(wheel, tmp_path)
    assert outcome.output is not None
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 42\n"


def test_an_unused_entry_may_lead_to_the_file_that_is_grafted(tmp_path: Path) -> None:
    """auditwheel searches depth first: it finds `libdup.so.1` through a library that is not used.

    Without that one, the search path of the module leads to a `libdup.so.1` without the function:
    the entry goes only once both are grafted.
    """
    folder = tmp_path / "through"
    first, second = library(folder / "c1", "dup_a", 1), library(folder / "c2", "dup_b", 2)
    between = shared_object(
        folder / "c2" / "libbetween.so", "int b;", needed=[first], runpath="$ORIGIN/../c1"
    )
    module = extension(
        folder / "_a",
        "_a",
        needed=[between, first],
        calls=["dup_a"],
        runpath=f"{second.parent}:{first.parent}",
    )
    files: dict[str, str | Path] = {"clash/__init__.py": "", f"clash/_a{SUFFIX}": module}
    outcome = repaired(make_wheel(folder, name="clash", tag=TAG, files=files), tmp_path)
    assert outcome.output is not None
    printed = run(installed(outcome.output, tmp_path / "site"), "import clash._a as a; print(a)")
    assert "_a" in printed.stdout


def with_a_copy(folder: Path, copy: Path, *, first: str = "") -> Path:
    """`_a` loads the `libdup.so.1` of the wheel, `_b` finds another one by its search path.

    `copy` is what the wheel has; the search path of `_b` begins with `first`.
    """
    other = library(folder / "c2", "twin", 2)
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            folder / name, name, needed=[lib], calls=["twin"], runpath=search
        )
        for name, lib, search in (
            ("_a", copy, "$ORIGIN"),
            ("_b", other, f"{first}:{other.parent}".strip(":")),
        )
    }
    files: dict[str, str | Path] = {"clash/__init__.py": "", "clash/libdup.so.1": copy, **modules}
    return make_wheel(folder, name="clash", tag=TAG, files=files)


def test_a_library_outside_of_the_wheel_is_not_taken_for_the_wheel_s(tmp_path: Path) -> None:
    """As built, each module loads its own if it is imported first."""
    wheel = with_a_copy(tmp_path, library(tmp_path / "c1", "twin", 1))
    alone = "import clash._b; print(clash._b.value())"
    assert run(installed(wheel, tmp_path / "as built"), alone).stdout == "2\n"
    outcome = repaired(wheel, tmp_path)
    assert [one.host.source for one in outcome.grafted] == [tmp_path / "c2" / "libdup.so.1"]
    assert outcome.output is not None, outcome.error
    shutil.rmtree(tmp_path / "c2")
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 2\n"
    again = repair(outcome.output, Settings(wheel_dir=tmp_path / "again"), ENVIRON)
    assert again.output is not None
    assert again.output.read_bytes() == outcome.output.read_bytes()


def test_symbols_that_only_the_library_outside_has_are_found_in_it(tmp_path: Path) -> None:
    first, second = library(tmp_path / "c1", "dup_a", 1), library(tmp_path / "c2", "dup_b", 2)
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name, name, needed=[lib], calls=[function], runpath=search
        )
        for name, lib, function, search in (
            ("_a", first, "dup_a", "$ORIGIN"),
            ("_b", second, "dup_b", str(second.parent)),
        )
    }
    files: dict[str, str | Path] = {"clash/__init__.py": "", "clash/libdup.so.1": first, **modules}
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files=files)
    outcome = repaired(wheel, tmp_path)
    assert outcome.output is not None, outcome.error
    assert not any(isinstance(step.edit, DropNeeded) for step in outcome.edits)
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 2\n"


def test_an_entry_that_leads_into_the_wheel_first_decides(tmp_path: Path) -> None:
    wheel = with_a_copy(tmp_path, library(tmp_path / "c1", "twin", 1), first="$ORIGIN")
    outcome = repaired(wheel, tmp_path)
    assert not outcome.grafted
    assert outcome.output is not None, outcome.error
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 1\n"


def test_the_library_of_the_build_tree_is_the_wheel_s_own(tmp_path: Path) -> None:
    """It was linked once, and installed with another search path: its build-id is the same."""
    built = shared_object(
        tmp_path / "c2" / "libdup.so.1",
        "int twin(void) { return 2; }",
        soname="libdup.so.1",
        runpath="/build",
        flags=["-Wl,--build-id"],
    )
    copy = tmp_path / "c1" / "libdup.so.1"
    copy.parent.mkdir()
    shutil.copyfile(built, copy)
    subprocess.run(["patchelf", "--remove-rpath", copy], check=True)
    modules = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name, name, needed=[built], calls=["twin"], runpath=str(built.parent)
        )
        for name in ("_a", "_b")
    }
    files: dict[str, str | Path] = {"clash/__init__.py": "", "clash/libdup.so.1": copy, **modules}
    outcome = repaired(make_wheel(tmp_path, name="clash", tag=TAG, files=files), tmp_path)
    assert not outcome.grafted
    assert outcome.output is not None, outcome.error
    shutil.rmtree(built.parent)
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "2 2\n"


def test_a_library_that_needs_its_own_name_needs_itself(tmp_path: Path) -> None:
    """A loader that has loaded it looks for no other one, wherever its search path leads."""
    inner = library(tmp_path / "c2", "dup_b", 2)
    outer = library(tmp_path / "c1", "dup_a", 1, needed=(inner,))
    files: dict[str, str | Path] = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name, name, needed=[lib], calls=[function], runpath=str(lib.parent)
        )
        for name, lib, function in (("_a", outer, "dup_a"), ("_b", inner, "dup_b"))
    }
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **files})
    outcome = repaired(wheel, tmp_path)
    assert outcome.output is not None, outcome.error
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "1 2\n"
    (grafted,) = (one for one in outcome.grafted if one.host.source.parent.name == "c1")
    assert [new for _, new in grafted.renames] == [grafted.host.hashed_name]


def test_an_unused_entry_stays_through_which_another_library_finds_its_own(tmp_path: Path) -> None:
    """Without the entry of `_b`, `libouter.so.1` would get the `libdup.so.1` of `_a`."""
    first, second = library(tmp_path / "c1", "dup_a", 1), library(tmp_path / "c2", "dup_b", 2)
    outer = shared_object(
        tmp_path / "c3" / "libouter.so.1",
        "int dup_b(void); int outer(void) { return dup_b() + 40; }",
        soname="libouter.so.1",
        needed=[second],
        runpath="$ORIGIN/../c2",
    )
    needed = {"_a": ([first, outer], ["dup_a"]), "_b": ([outer], list[str]())}
    files: dict[str, str | Path] = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name,
            name,
            needed=some,
            calls=calls,
            runpath=":".join(str(one.parent) for one in some),
        )
        for name, (some, calls) in needed.items()
    }
    files["clash/libuser.so"] = shared_object(
        tmp_path / "libuser.so",
        "int outer(void); int user(void) { return outer(); }",
        needed=[first, outer],
        runpath=f"{first.parent}:{outer.parent}",
    )
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **files})
    outcome = repaired(wheel, tmp_path)
    assert outcome.output is not None, outcome.error
    for folder in ("c1", "c2", "c3"):
        shutil.rmtree(tmp_path / folder)
    opened = "import clash, ctypes; print(ctypes.CDLL(clash.__path__[0] + '/libuser.so').user())"
    assert run(installed(outcome.output, tmp_path / "site"), opened).stdout == "42\n"


def test_an_unused_entry_through_which_alone_a_library_is_found_leads_the_graft(
    tmp_path: Path,
) -> None:
    """auditwheel finds `libdup.so.1` by the search path of a library that is not used."""
    folder = tmp_path / "through"
    wanted = library(folder / "c2", "dup_a", 1)
    between = shared_object(
        folder / "c1" / "libbetween.so", "int b;", needed=[wanted], runpath="$ORIGIN/../c2"
    )
    module = extension(
        folder / "_a", "_a", needed=[between, wanted], calls=["dup_a"], runpath=f"{folder}/c1"
    )
    files: dict[str, str | Path] = {"clash/__init__.py": "", f"clash/_a{SUFFIX}": module}
    outcome = repaired(make_wheel(folder, name="clash", tag=TAG, files=files), tmp_path)
    assert outcome.output is not None, outcome.error
    printed = run(
        installed(outcome.output, tmp_path / "site"), "import clash._a as a; print(a.value())"
    )
    assert printed.stdout == "1\n"
    again = repair(outcome.output, Settings(wheel_dir=tmp_path / "again"), ENVIRON)
    assert again.output is not None, again.error
    assert again.output.read_bytes() == outcome.output.read_bytes()


def test_a_shared_library_gets_that_of_two_with_which_all_objects_load(tmp_path: Path) -> None:
    """`libouter.so.1` finds by itself the one that needs `helper`, which `_a` lacks."""
    first = library(tmp_path / "c1", "twin", 1)
    second = shared_object(
        tmp_path / "c2" / "libdup.so.1",
        "int helper(void); int twin(void) { return helper(); }",
        soname="libdup.so.1",
    )
    outer = shared_object(
        tmp_path / "c3" / "libouter.so.1",
        "int twin(void); int outer(void) { return twin() + 40; }",
        soname="libouter.so.1",
        needed=[second],
        runpath="$ORIGIN/../c2",
        flags=["-Wl,--allow-shlib-undefined"],
    )
    needed = {"_a": ([outer], ["outer"]), "_b": ([first, outer], ["twin", "outer"])}
    outcome = repaired(wheel_of(tmp_path, needed), tmp_path)
    assert outcome.output is not None, outcome.error
    assert run(installed(outcome.output, tmp_path / "site"), IMPORT).stdout == "41 42\n"


def test_a_choice_with_which_one_object_or_the_other_fails_is_refused(tmp_path: Path) -> None:
    """As built each loads another `libdup.so.1`; after auditwheel, `_a` lacks `twin`."""
    helping = shared_object(
        tmp_path / "c1" / "libhelp.so.1", "int helper(void) { return 1; }", soname="libhelp.so.1"
    )
    first = library(tmp_path / "c2", "other", 1)
    second = shared_object(
        tmp_path / "c3" / "libdup.so.1",
        "int helper(void); int twin(void) { return helper(); }",
        soname="libdup.so.1",
    )
    outer = shared_object(
        tmp_path / "c4" / "libouter.so.1",
        "int outer(void) { return 1; }",
        soname="libouter.so.1",
        needed=[second],
        runpath="$ORIGIN/../c3",
        flags=["-Wl,--allow-shlib-undefined", "-Wl,--no-as-needed"],
    )
    needed = {
        "_a": ([helping, outer], ["outer", "twin"]),
        "_b": ([first, outer], ["other", "outer"]),
    }
    outcome = repaired(wheel_of(tmp_path, needed), tmp_path)
    assert outcome.error is not None
    assert "several libraries named `libdup.so.1`" in outcome.error.message
    assert all(f"`clash/{name}{SUFFIX}`" in outcome.error.message for name in needed)


def test_an_entry_that_only_the_graft_needs_goes_after_it(tmp_path: Path) -> None:
    """Through the entries of `_a`, the graft finds the `libdup.so.1` of `libouter.so.1`."""
    first, second = library(tmp_path / "c1", "dup_a", 1), library(tmp_path / "c2", "dup_b", 2)
    outer = shared_object(
        tmp_path / "c1" / "libouter.so.1",
        "int dup_b(void); int outer(void) { return dup_b() + 40; }",
        soname="libouter.so.1",
        needed=[second],
        rpath=str(second.parent),
    )
    needed: dict[str, tuple[list[Path], list[str], str]] = {
        "_a": ([second, outer], [], "c2:c1"),
        "_b": ([first, outer], ["dup_a", "outer"], "c1"),
    }
    files: dict[str, str | Path] = {
        f"clash/{name}{SUFFIX}": extension(
            tmp_path / name,
            name,
            needed=some,
            calls=calls,
            runpath=":".join(str(tmp_path / folder) for folder in folders.split(":")),
        )
        for name, (some, calls, folders) in needed.items()
    }
    wheel = make_wheel(tmp_path, name="clash", tag=TAG, files={"clash/__init__.py": "", **files})
    outcome = repaired(wheel, tmp_path)
    assert outcome.output is not None, outcome.error
    again = repair(outcome.output, Settings(wheel_dir=tmp_path / "again"), ENVIRON)
    assert again.output is not None, again.error
    assert again.output.read_bytes() == outcome.output.read_bytes()
