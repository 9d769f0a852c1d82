"""A few random sets of wheels that require each other, judged beside each other, and imported."""

import platform
from collections import Counter
from pathlib import Path

import pytest

from tests.oracles.required_wheels.compare import differences

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="a tag for x86-64")

CASES = 4


def test_the_prediction_is_what_an_import_shows(tmp_path: Path) -> None:
    counts = Counter[str]()
    assert not list(differences(range(CASES), tmp_path, "none", counts))
    assert min(counts["imported"], counts["not imported"]) >= 2
