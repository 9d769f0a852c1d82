"""What wheelfix is released as: an sdist that builds the wheel of a clone, and holds no more."""

from pathlib import Path

from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


def files(builder: type[SdistBuilder | WheelBuilder]) -> set[str]:
    return {each.relative_path for each in builder(str(ROOT)).recurse_included_files()}


def test_the_sdist_has_what_the_wheel_is_built_from_and_no_part_of_the_tests() -> None:
    sdist, wheel = files(SdistBuilder), files(WheelBuilder)
    assert "src/wheelfix/__main__.py" in wheel
    assert wheel < sdist
    assert sdist - wheel == {"CHANGELOG.md"}  # beside what hatchling adds itself
