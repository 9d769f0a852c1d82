"""Repairs of wheels whose objects find different libraries under one SONAME."""

from pathlib import Path

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
