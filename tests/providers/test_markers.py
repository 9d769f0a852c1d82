"""Which requirements hold for the environments that a wheel's tags allow."""

import os
from pathlib import Path

import pytest

from tests.support.build import make_wheel
from tests.support.forged import forged
from wheelfix.cli.app import run
from wheelfix.providers.markers import applies, may_hold
from wheelfix.wheel.model import WheelName
from wheelfix.wheel.requirements import read_requirement

X86 = "cp311-cp311-manylinux_2_28_x86_64"
ARM = "cp313-cp313-manylinux_2_28_aarch64"
BOTH = "cp39-abi3-manylinux_2_28_x86_64"
ANY = "py3-none-any"


@pytest.mark.parametrize(
    ("tag", "marker", "always", "maybe"),
    [
        (X86, "", True, True),
        (X86, "platform_machine == 'x86_64' and sys_platform == 'linux'", True, True),
        (ARM, "platform_machine == 'x86_64' and sys_platform == 'linux'", False, False),
        (ARM, "platform_machine in 'aarch64 arm64'", True, True),
        (X86, "sys_platform == 'win32'", False, False),
        (X86, "os_name == 'nt' or platform_system == 'Linux'", True, True),
        (X86, "python_version < '3.11'", False, False),
        (ARM, "python_version >= '3.13'", True, True),
        (BOTH, "python_version >= '3.12'", False, True),
        (X86, "implementation_name == 'pypy'", False, False),
        (X86, "extra == 'cuda'", False, True),
        (X86, "'cuda' == extra", False, True),
        (X86, "extra == 'cuda' and platform_machine == 'aarch64'", False, False),
        # Of the release of Python, the tags say two parts; of the kernel, nothing.
        (X86, "python_full_version >= '3.11.4'", True, True),
        (X86, "python_full_version < '3.11.4'", True, True),
        (X86, "python_full_version == '3.11.4'", True, True),
        (X86, "python_full_version == '3.11.*'", True, True),
        (X86, "python_full_version != '3.11.*'", False, False),
        (X86, "implementation_version >= '3.11'", True, True),
        (X86, "python_full_version >= '3.9.2'", True, True),
        (X86, "python_full_version < '3.11.0'", False, False),
        (X86, f"platform_release == '{os.uname().release}'", True, True),
        (X86, "platform_release >= '4'", True, True),
        (X86, "platform_version == '1' and sys_platform == 'win32'", False, False),
        (X86, "implementation_version >= '3.11.7' or os_name == 'posix'", True, True),
        (ANY, "platform_machine == 'x86_64'", True, True),
        (ANY, "platform_machine == 'x86_64' and os_name == 'nt'", False, False),
        (X86, " or ".join(f"platform_release == '{n}'" for n in range(99)), True, True),
        # What nothing can evaluate may hold.
        (X86, "'cuda' in extras", False, True),
        (X86, "'group' in dependency_groups", False, True),
        (X86, "'' == ''", False, True),
        (ARM, "('x' == '' or python_version > '3')", False, True),
    ],
)
def test_a_marker_is_judged_for_each_environment_of_the_wheel(
    tag: str, marker: str, *, always: bool, maybe: bool
) -> None:
    name = WheelName.parse(f"demo-1.0-{tag}.whl")
    requirement = read_requirement(f"core; {marker}" if marker else "core")
    assert (applies(requirement, name), may_hold(requirement, name)) == (always, maybe)


@pytest.mark.parametrize("marker", ["'a' in extras", "'g' in dependency_groups", "'' == ''"])
@pytest.mark.parametrize("command", ["check", "explain", "why libcudart.so.12", "repair"])
def test_a_marker_that_cannot_be_evaluated_ends_no_command(
    command: str, marker: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = make_wheel(
        tmp_path,
        tag=X86,
        files={"demo/m.so": forged(needed=["libcudart.so.12"])},
        metadata=f"Requires-Dist: nvidia-cuda-runtime-cu12; {marker}\n",
    )
    option = ["-w", str(tmp_path / "out")] if command == "repair" else []
    assert run([*command.split(), *option, str(wheel)]) in {0, 1, 2}
    assert "internal error" not in capsys.readouterr().err
