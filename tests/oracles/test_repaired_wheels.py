"""A few random wheels, repaired by auditwheel and by wheelfix, installed, and loaded."""

import platform
import shutil
from collections import Counter
from pathlib import Path

import pytest

from tests.oracles.repaired_wheels.compare import seen, used
from tests.oracles.repaired_wheels.making import compile_reader

pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or shutil.which("ld.bfd") is None, reason="not an x86-64 linker"
)

CASES = 5


def test_what_works_after_auditwheel_works_after_wheelfix(tmp_path: Path) -> None:
    reader = compile_reader(tmp_path)
    counts = Counter[str]()
    for seed in range(CASES):
        judgment = seen(seed, folder=tmp_path, reader=reader)
        assert judgment.wrong == (), f"seed {seed}"
        counts.update(judgment.facts)
    assert counts["load ok after auditwheel"] >= CASES // 2, "most say something"


@pytest.mark.large
def test_uses_without_a_reference_work_after_wheelfix(tmp_path: Path) -> None:
    counts = Counter[str]()
    for seed in range(CASES):
        judgment = used(seed, folder=tmp_path)
        assert judgment.wrong == (), f"seed {seed}"
        counts.update(judgment.facts)
    assert counts["use as built"] >= CASES // 2, "most say something"
