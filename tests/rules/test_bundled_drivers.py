"""Drivers inside a wheel."""

import pytest

from tests.support.values import elf, findings, wheel
from wheelfix.rules.bundled_drivers import bundled_driver
from wheelfix.rules.findings import Severity


@pytest.mark.parametrize(
    "member",
    [
        "demo.libs/libcuda-1a2b3c4d.so.1",
        "demo/libX11.so.6",
        "demo/libnvidia-ml.so.1",
        "demo.libs/libmlx5-1a2b3c4d.so.1.24.0",
    ],
)
def test_a_driver_inside_the_wheel_is_reported(member: str) -> None:
    (found,) = findings(bundled_driver, wheel({member: elf()}))
    assert (found.member, found.severity) == (member, Severity.WARNING)
    grafted = member.startswith("demo.libs/")
    assert (found.hint or "").startswith("repair the wheel" if grafted else "leave it out")
