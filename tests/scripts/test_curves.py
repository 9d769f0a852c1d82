"""Growth curves of `scripts/curves.py`, and the wheels that it measures."""

import shutil
from math import isnan
from pathlib import Path

import pytest

import curves
from wheelfix.pipelines.check import check
from wheelfix.settings import Settings
from wheelfix.wheel.reader import open_wheel


@pytest.mark.parametrize(("power", "expected"), [(1.0, 1.0), (1.5, 1.5), (2.0, 2.0)])
def test_the_exponent_of_a_power_law(power: float, expected: float) -> None:
    sizes = (100, 2_000, 10_000, 50_000, 200_000)
    costs = [0.3 + 2e-5 * float(n) ** power for n in sizes]
    found = [
        curves.Point(units=n, seconds=cost, peak=1.0) for n, cost in zip(sizes, costs, strict=True)
    ]
    assert curves.exponent(found) == pytest.approx(expected, abs=0.05)


def test_the_slope_is_in_microseconds_per_unit() -> None:
    found = [curves.Point(units=n, seconds=0.3 + 2e-5 * n, peak=1.0) for n in (1_000, 50_000)]
    assert curves.slope(found) == pytest.approx(20)
    assert isnan(curves.slope(found[:1]))
    flat = [curves.Point(units=n, seconds=0.3, peak=1.0) for n in (1, 2, 3)]
    assert curves.exponent(flat) is None


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.parametrize(
    ("curve", "units", "members"),
    [("files", 7, 8 + 3), ("objects", 6, 6 + 3), ("symbols", 100, 2 + 3)],
)
def test_a_wheel_has_as_many_units_as_its_curve_says(
    curve: str, units: int, members: int, tmp_path: Path
) -> None:
    path = curves.wheel_of(curve, units, tmp_path)
    with open_wheel(path) as archive:
        wheel = archive.wheel
    assert len(wheel.members) == members
    if curve == "objects":
        assert len(wheel.elfs) == units
        assert {elf.needed[0] for elf in wheel.elfs.values() if "PyInit_m" in elf.module_hooks} == {
            f"libpart{number:05}.so" for number in range(units // 2)
        }
    codes = {finding.code for finding in check(path, Settings()).findings}
    assert codes <= {"WF623", "WF624", "WF804", "WF518", "WF525"}, "it is a wheel like any other"
