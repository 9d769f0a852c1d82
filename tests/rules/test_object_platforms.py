"""Objects for another machine or C library than that of the tag."""

import pytest

from tests.support.values import elf, findings, wheel
from wheelfix.elf.model import Machine
from wheelfix.rules.findings import Severity
from wheelfix.rules.object_platforms import elf_for_any_platform, wrong_libc, wrong_machine

AARCH64 = "demo-1.0-cp311-cp311-manylinux_2_28_aarch64.whl"
MODULE = {"module_hooks": ("PyInit_a",)}


def test_a_module_for_another_machine_is_an_error() -> None:
    [finding] = findings(
        wrong_machine, wheel({"pkg/a.cpython-311.so": elf(**MODULE)}, name=AARCH64)
    )
    assert finding.severity is Severity.ERROR
    assert finding.message == "is for x86_64, but the tag is for aarch64"


def test_a_helper_for_another_machine_beside_the_right_one_is_reported() -> None:
    objects = {
        "pkg/a.cpython-311.so": elf(machine=Machine.AARCH64, **MODULE),
        "pkg/helper_amd64.so": elf(),
        "pkg/gpu.so": elf(machine=190),
    }
    [finding] = findings(wrong_machine, wheel(objects, name=AARCH64))
    assert (finding.severity, finding.member) == (Severity.NOTE, "pkg/helper_amd64.so")


@pytest.mark.parametrize(
    ("platform", "machine", "flags", "message"),
    [
        (
            "manylinux_2_39_riscv64",
            Machine.RISCV,
            1,
            "is for riscv64 (lp64), but the tag is for riscv64 (lp64d)",
        ),
        ("manylinux_2_39_riscv64", Machine.RISCV, 5, None),
        ("musllinux_1_2_riscv64", Machine.RISCV, 1, None),
        (
            "manylinux_2_17_ppc64le",
            Machine.PPC64,
            1,
            "is for ppc64le (ELFv1), but the tag is for ppc64le (ELFv2)",
        ),
        ("manylinux_2_17_ppc64le", Machine.PPC64, 0, None),
    ],
)
def test_a_module_with_another_calling_convention_is_an_error(
    platform: str, machine: Machine, flags: int, message: str | None
) -> None:
    module = elf(machine=machine, flags=flags, **MODULE)
    name = f"demo-1.0-cp311-cp311-{platform}.whl"
    found = findings(wrong_machine, wheel({"pkg/a.cpython-311.so": module}, name=name))
    assert [finding.message for finding in found] == ([message] if message else [])


def test_a_needed_library_for_another_machine_is_an_error() -> None:
    objects = {
        "pkg/a.cpython-311.so": elf("libx.so", machine=Machine.AARCH64, **MODULE),
        "pkg/libx.so": elf(),
    }
    [finding] = findings(wrong_machine, wheel(objects, name=AARCH64))
    assert (finding.severity, finding.member) == (Severity.ERROR, "pkg/libx.so")


def test_the_right_machine_is_fine() -> None:
    assert not findings(wrong_machine, wheel({"pkg/a.cpython-311.so": elf(**MODULE)}))


@pytest.mark.parametrize(
    ("platform", "needed", "wrong"),
    [
        ("manylinux_2_28_x86_64", "libc.musl-x86_64.so.1", True),
        ("musllinux_1_2_x86_64", "libc.so.6", True),
        ("musllinux_1_2_x86_64", "libc.musl-x86_64.so.1", False),
        ("linux_x86_64", "libc.musl-x86_64.so.1", False),
        ("manylinux_2_28_x86_64.musllinux_1_2_x86_64", "libc.so.6", False),  # WF801
    ],
)
def test_the_c_library_is_that_of_the_tag(platform: str, needed: str, wrong: bool) -> None:  # noqa: FBT001 - a parameter of the test
    objects = {"pkg/a.cpython-311.so": elf(**{**MODULE, "needed": (needed,)})}
    subject = wheel(objects, name=f"demo-1.0-cp311-cp311-{platform}.whl")
    assert [f.severity for f in findings(wrong_libc, subject)] == [Severity.ERROR] * wrong


@pytest.mark.parametrize(("other", "wrong"), [("pkg/a", 0), ("pkg/b", 2)])
def test_of_tags_for_both_c_libraries_each_module_is_for_both(other: str, wrong: int) -> None:
    objects = {
        "pkg/a.cpython-311-x86_64-linux-gnu.so": elf("libc.so.6", **MODULE),
        f"{other}.cpython-311-x86_64-linux-musl.so": elf("libc.musl-x86_64.so.1", **MODULE),
        "pkg/tool": elf("libc.so.6"),
    }
    platforms = "manylinux_2_28_x86_64.musllinux_1_2_x86_64"
    subject = wheel(objects, name=f"demo-1.0-cp311-cp311-{platforms}.whl")
    assert [f.severity for f in findings(wrong_libc, subject)] == [Severity.ERROR] * wrong


def test_the_c_library_of_an_object_may_be_known_by_its_name_alone() -> None:
    objects = {"pkg/a.cpython-311-x86_64-linux-gnu.so": elf(**{**MODULE, "needed": ()})}
    for platform, wrong in {"musllinux_1_2_x86_64": True, "manylinux_2_17_x86_64": False}.items():
        subject = wheel(objects, name=f"demo-1.0-cp311-cp311-{platform}.whl")
        assert bool(findings(wrong_libc, subject)) is wrong


def test_elf_in_a_wheel_for_any_platform() -> None:
    library = wheel({"pkg/libx.so": elf()}, name="demo-1.0-py3-none-any.whl")
    module = wheel({"pkg/a.so": elf(**MODULE)}, name="demo-1.0-py3-none-any.whl")
    said = [findings(elf_for_any_platform, subject)[0].severity for subject in (library, module)]
    assert said == [Severity.WARNING, Severity.ERROR]
    assert not findings(elf_for_any_platform, wheel({"pkg/libx.so": elf()}))
