"""Names of extension modules: what each rule reports, and what Python says."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.build import executable, extension, make_wheel, shared_object
from tests.support.naming import MINOR, SUFFIX, TAG, installed, read, run, severities
from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Machine, Undefined
from wheelfix.rules import module_names as names
from wheelfix.rules.findings import Severity

LIST_NEW = Undefined(name="PyList_New", version=None, file=None, type=2, weak=False)


def module(hook: str | None, **fields: Any) -> Any:
    return elf(module_hooks=(hook,) if hook else (), undefined=(LIST_NEW,), **fields)


@pytest.mark.parametrize(
    ("file", "hook"),
    [
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyInit_foo"),
        ("pkg/foo.abi3.so", "PyInit_foo"),
        ("foo.so", "PyInit_foo"),
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyModExport_foo"),
        ("größe.cpython-311-x86_64-linux-gnu.so", "PyInitU_gre_6ka8i"),
        ("pkg/sub/__init__.cpython-311-x86_64-linux-gnu.so", "PyInit_sub"),
        ("foo.pypy39-pp73-x86_64-linux-gnu.so", "_cffi_pypyinit_foo"),
        ("pkg/libshared.abi3.so", None),
        ("pkg.libs/foo-1a2b3c4d.so", "PyInit_bar"),
        ("pkg/plugin.so", None),
    ],
)
def test_a_module_with_its_init_function_is_right(file: str, hook: str | None) -> None:
    assert severities(names.module_hook, wheel({file: module(hook)})) == []


@pytest.mark.parametrize(
    ("tag", "expected"), [("pp310-pypy310_pp73", []), ("cp311-cp311", [Severity.WARNING])]
)
def test_pypy_alone_calls_the_init_function_of_cffi(tag: str, expected: list[Severity]) -> None:
    name = f"demo-1.0-{tag}-linux_x86_64.whl"
    subject = wheel({"foo.so": module("_cffi_pypyinit_foo")}, name=name)
    assert severities(names.module_hook, subject) == expected


def test_a_package_comes_before_the_module_of_its_name(tmp_path: Path) -> None:
    plain = shared_object(
        tmp_path / "x.so", "int PyErr_Occurred(void); int x(void) { return PyErr_Occurred(); }"
    )
    files: dict[str, Path | str] = {f"pkg/m{SUFFIX}": plain, "pkg/m/__init__.py": ""}
    path = make_wheel(tmp_path, tag=TAG, files=files)
    assert severities(names.module_hook, read(path)) == []
    assert run(installed(path, tmp_path / "site"), "import pkg.m").stderr == ""


def test_python_looks_up_a_non_ascii_name_in_punycode(tmp_path: Path) -> None:
    hook = "-DPyInit_x=PyInitU_gre_6ka8i"
    path = make_wheel(
        tmp_path, tag=TAG, files={f"größe{SUFFIX}": extension(tmp_path / "x.so", "x", flags=[hook])}
    )
    assert severities(names.module_hook, read(path)) == []
    code = "import größe; print(größe.value())"
    assert run(installed(path, tmp_path / "site"), code).stdout == "42\n"


@pytest.mark.parametrize(
    ("file", "hook", "severity"),
    [
        ("foo.cpython-311-x86_64-linux-gnu.so", "PyInit_bar", Severity.ERROR),
        ("foo.abi3.so", None, Severity.ERROR),
        ("foo.cpython-311-x86_64-linux-gnu.so", "_cffi_pypyinit_foo", Severity.ERROR),
        ("foo.pypy39-pp73-x86_64-linux-gnu.so", "_cffi_pypyinit_bar", Severity.ERROR),
        ("foo.so", "PyInit_bar", Severity.WARNING),
        ("foo/__init__.abi3.so", "PyInit___init__", Severity.ERROR),
    ],
)
def test_a_module_without_its_hook_is_reported(
    file: str, hook: str | None, severity: Severity
) -> None:
    assert severities(names.module_hook, wheel({file: module(hook)})) == [severity]


def test_python_cannot_import_a_module_without_its_hook(tmp_path: Path) -> None:
    built = extension(tmp_path / "x.so", "bar")
    path = make_wheel(tmp_path, tag=TAG, files={f"foo{SUFFIX}": built})
    [found] = findings(names.module_hook, read(path))
    assert found.entry == "PyInit_foo"
    assert "PyInit_foo" in run(installed(path, tmp_path / "site"), "import foo").stderr


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("u.spec_from_file_location('bar', f)", []),
        ("spec_from_file_location('pkg.bar', f)", []),
        ("ExtensionFileLoader(name='bar', path=f)", []),
        ("load_dynamic('other', f)", [Severity.ERROR]),
        ("u.spec_from_file_location(name, f)", [Severity.NOTE]),
        ("print('spec_from_file_location')", [Severity.ERROR]),
    ],
)
def test_a_module_is_imported_from_its_file_under_the_name_of_its_function(
    call: str, expected: list[Severity]
) -> None:
    file = "pkg/foo.cpython-311-x86_64-linux-gnu.so"
    subject = wheel({file: module("PyInit_bar")}, sources={"pkg/__init__.py": call.encode()})
    assert severities(names.module_hook, subject) == expected


@pytest.mark.parametrize(("built_as", "works"), [("pkg", True), ("__init__", False)])
def test_python_imports_init_by_the_name_of_its_folder(
    tmp_path: Path, built_as: str, *, works: bool
) -> None:
    built = extension(tmp_path / "x.so", built_as)
    path = make_wheel(tmp_path, tag=TAG, files={f"pkg/__init__{SUFFIX}": built})
    assert severities(names.module_hook, read(path)) == ([] if works else [Severity.ERROR])
    done = run(installed(path, tmp_path / "site"), "import pkg; print(pkg.value())")
    assert (done.stdout == "42\n") == works


@pytest.mark.parametrize(
    ("files", "tag", "expected"),
    [
        (["m.cpython-311-x86_64-linux-gnu.so"], "cp311-cp311", []),
        (["m.abi3.so"], "cp39-abi3", []),
        (["m.so"], "cp311-cp311", [Severity.NOTE]),
        (["m.so"], "cp39-abi3", []),
        (["m.so"], "py3-none", []),
        (["m.cpython-313t-x86_64-linux-gnu.so"], "cp313-cp313t", []),
        (["m.pypy310-pp73-x86_64-linux-gnu.so"], "pp310-pypy310_pp73", []),
        (["m.cpython-310-x86_64-linux-gnu.so"], "cp311-cp311", [Severity.ERROR]),
        (["m.cpython-313-x86_64-linux-gnu.so"], "cp313-cp313t", [Severity.ERROR]),
        (["m.abi3.so"], "cp313-cp313t", [Severity.WARNING]),
        (["m.abi3.so"], "cp315-cp315t", [Severity.ERROR]),
        (["m.abi3t.so"], "cp39-abi3", [Severity.WARNING]),
        (["m.abi3t.so"], "cp314-cp314t", [Severity.ERROR]),
        (["m.abi3t.so"], "cp315-abi3", []),
        (["m.abi3t.so"], "cp315-abi3t", []),
        (["m.abi3t.so"], "cp315-abi3.abi3t", []),
        (["m.abi3.so"], "cp315-abi3.abi3t", [Severity.WARNING]),
        (["m.abi3.so", "m.abi3t.so"], "cp39.cp315-abi3.abi3t", []),
        (["m.abi3.so"], "py3-none", []),
        (["m.cpython-313td-x86_64-linux-gnu.so"], "cp313-cp313td", []),
        (["m.cpython-311-x86_64-linux-gnu.so"], "cp311-abi3", [Severity.WARNING]),
        (
            ["m.cpython-310-x86_64-linux-gnu.so", "m.cpython-311-x86_64-linux-gnu.so"],
            "cp311-cp311",
            [Severity.WARNING],
        ),
        (
            ["m.cpython-310-x86_64-linux-gnu.so", "m.cpython-311-x86_64-linux-gnu.so"],
            "cp310.cp311-cp310.cp311",
            [],
        ),
    ],
)
def test_a_suffix_must_be_one_that_the_wheels_pythons_import(
    files: list[str], tag: str, expected: list[Severity]
) -> None:
    objects = {file: module("PyInit_m") for file in files}
    subject = wheel(objects, name=f"demo-1.0-{tag}-linux_x86_64.whl")
    assert severities(names.module_never_imported, subject) == expected


def test_a_source_of_the_same_name_serves_the_other_pythons() -> None:
    objects = {"m.cpython-311-x86_64-linux-gnu.so": module("PyInit_m")}
    subject = wheel(objects, "m.py", name="demo-1.0-py3-none-linux_x86_64.whl")
    assert severities(names.module_never_imported, subject) == []


@pytest.mark.parametrize(("suffix", "is_told"), [("x86_64", False), ("aarch64", True)])
def test_a_suffix_for_another_machine_is_never_imported(suffix: str, *, is_told: bool) -> None:
    """What has the suffix of the tag is opened: WF510 says for which machine its code is."""
    machine = Machine.X86_64 if is_told else Machine.AARCH64
    module_of_other = {f"m.cpython-311-{suffix}-linux-gnu.so": module("PyInit_m", machine=machine)}
    found = severities(names.module_never_imported, wheel(module_of_other))
    assert found == [Severity.ERROR] * is_told


@pytest.mark.parametrize(("arch", "little"), [("powerpc64", False), ("powerpc64le", True)])
def test_each_byte_order_of_ppc64_has_its_own_suffix(arch: str, *, little: bool) -> None:
    for little_endian in (False, True):
        one = module("PyInit_a", machine=Machine.PPC64, little_endian=little_endian)
        subject = wheel({f"p/a.cpython-311-{arch}-linux-gnu.so": one})
        assert bool(findings(names.module_never_imported, subject)) == (little != little_endian)


def test_python_does_not_see_a_module_of_another_version(tmp_path: Path) -> None:
    other = f"old.cpython-3{MINOR - 1}-x86_64-linux-gnu.so"
    path = make_wheel(tmp_path, tag=TAG, files={other: extension(tmp_path / "x.so", "old")})
    assert severities(names.module_never_imported, read(path)) == [Severity.ERROR]
    assert "ModuleNotFoundError" in run(installed(path, tmp_path / "site"), "import old").stderr


def test_a_program_is_no_module(tmp_path: Path) -> None:
    path = make_wheel(tmp_path, files={"pkg/tool.so": executable(tmp_path / "tool")})
    assert severities(names.module_hook, read(path)) == []


def test_the_pythons_that_lack_a_module_are_named_and_no_other() -> None:
    objects = {"m.cpython-311-x86_64-linux-gnu.so": module("PyInit_m")}
    subject = wheel(objects, name="demo-1.0-cp38-abi3-linux_x86_64.whl")
    (found,) = findings(names.module_never_imported, subject)
    assert "is missing for python3.8 to 3.10, python3.12 to 3." in found.message
